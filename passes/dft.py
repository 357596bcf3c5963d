"""Write DFT as a MatMul by its basis.

Why       No TensorRT imports DFT. torch.fft and the front ends of speech models export it.
Rewrites  DFT<inverse, onesided>(x, dft_length, axis)  ->  MatMul of the axis by a constant basis of cosines and
          sines, between a Transpose and a Reshape on either side
          of an axis of any length  ->  the same by a basis that is computed of Shape(x), a MatMul for each part
Exact     To rounding.
Price     8 signals of 512 in ONNX Runtime on one thread, 3 nodes: 0.04 ms next to 0.06 of its own kernel for the one
          side of a real signal, 0.16 next to 0.07 for the inverse of a complex one. The basis has length^2 numbers.
          Of any length 23 nodes, and 1.0 ms, since the basis is computed each time.

dft_length and axis must be constant. A MatMul takes n^2 products where an FFT takes
n log n: for the hundreds of samples of a window it is as fast.
"""

import numpy as np
from onnx import TensorProto

from surgeon import HALVES, Builder, Value, attr, op, require, rule

from ._fourier import LARGEST, basis, real_inverse
from ._shapes import constant_input, numbers_to

AXIS_AS_INPUT = 20  # the opset from which the axis is an input


@rule(op.DFT("x", ..., inverse=attr("inverse"), onesided=attr("onesided")), strategy="decompose")
def decompose(b, x, inverse, onesided):
    shape = b.known_shape(x)
    rank, axis = len(shape), (_number(b, 2, -2) if b.opset >= AXIS_AS_INPUT else int(b.root.attr("axis")))
    axis += rank if axis < 0 else 0
    given, channels = shape[axis], shape[-1]
    require(isinstance(channels, int), "whether the signal is complex is not known")
    if not isinstance(given, int):
        return _at_run_time(b, x, axis, channels)
    length = _number(b, 1, 2 * (given - 1) if inverse and onesided else given)
    require(given > 0 and length > 0, "its axis has no elements")
    bins = length // 2 + 1 if onesided else length
    taken = min(given, length // 2 + 1 if inverse and onesided else length)
    if taken < given:
        x = b.Slice(x, [0], [taken], [axis])
        given = taken
    require(given * channels * bins * 2 <= LARGEST, f"the basis would have more than {LARGEST} elements")
    if inverse and onesided:
        require(channels == 2, "the bins of one side have no imaginary part")
        whole = real_inverse(given, length)
    else:
        whole = basis(given, length, bins, channels, bool(inverse))
    count, parts = whole.shape[:2]
    behind = [a for a in range(rank - 1) if a != axis]
    order = [*behind, axis, rank - 1]
    moved = order != list(range(rank))
    lead = [0] * (rank - 2)
    rows = b.Reshape(b.Transpose(x, perm=order) if moved else x, [*lead, given * channels])
    matrix = b.constant(whole.reshape(count * parts, -1).T, b.dtype(x))
    spectrum = b.Reshape(b.MatMul(rows, matrix), [*lead, count, parts])
    return b.Transpose(spectrum, perm=[int(a) for a in np.argsort(order)]) if moved else spectrum


def _at_run_time(b: Builder, x: Value, axis: int, channels: int) -> Value:
    """The transform along an axis of any length."""
    inverse, onesided, wide = bool(b.root.attr("inverse")), bool(b.root.attr("onesided")), b.dtype(x)
    require(not (inverse and onesided), "the length of its axis is not static")
    length = _number(b, 1, 0)
    if length:
        x = b.Slice(x, [0], [length], [axis])
    taken = b.Gather(b.Shape(x), axis, axis=0)
    whole = b.constant(length) if length else taken
    bins = b.Add(b.Div(whole, 2), 1) if onesided else whole
    cosine, sine = _waves(b, taken, whole, bins, TensorProto.FLOAT if wide in HALVES else wide)
    cosine, sine = (b.typed(v, wide) for v in (cosine, sine))
    rank = len(b.shape(x) or ()) - 1  # of a part
    order = [*(a for a in range(rank) if a != axis), axis]
    parts = [b.Gather(x, k, axis=rank) for k in range(channels)]
    parts = [b.Transpose(p, perm=order) if order != list(range(rank)) else p for p in parts]
    real, imaginary = (b.MatMul(parts[0], wave) for wave in (cosine, b.Neg(sine) if not inverse else sine))
    if channels == 2:
        real = (b.Sub if inverse else b.Add)(real, b.MatMul(parts[1], sine))
        imaginary = b.Add(imaginary, b.MatMul(parts[1], cosine))
    back = [int(a) for a in np.argsort(order)]
    both = [b.Transpose(p, perm=back) if order != list(range(rank)) else p for p in (real, imaginary)]
    spectrum: Value = b.Concat(*(b.Unsqueeze(p, axes=[rank]) for p in both), axis=rank)
    return b.Div(spectrum, b.Cast(whole, to=wide)) if inverse else spectrum


def _waves(b: Builder, taken: Value, whole: Value, bins: Value, kind: int) -> tuple[Value, Value]:
    """[taken, bins]: the cosines and sines. Turns are counted in integers, so that angles are below 2 pi."""
    at, bin_ = (numbers_to(b, count) for count in (taken, bins))
    turns = b.Mod(b.Mul(b.Unsqueeze(at, axes=[1]), b.Unsqueeze(bin_, axes=[0])), whole)
    angle = b.Mul(b.Cast(turns, to=kind), b.Div(2 * np.pi, b.Cast(whole, to=kind)))
    return b.Cos(angle), b.Sin(angle)


def _number(b: Builder, position: int, default: int) -> int:
    """The constant input at a position; `default` where it is left out."""
    known = constant_input(b, position)
    return default if known is None else int(known.reshape(()))
