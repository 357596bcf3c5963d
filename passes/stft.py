"""Write STFT as a Conv by its basis.

Why       TensorRT imports STFT from 10.5 on, with a constant window. torch.stft exports it, for every spectrogram.
Rewrites  STFT<onesided>(x, frame_step, window, frame_length)  ->  Conv<strides = frame_step> by the window times a
          basis of cosines and sines, between Transposes
Exact     To rounding.
Price     16,000 samples in frames of 400, by 160: 4 nodes, and 0.5 ms in ONNX Runtime on one thread next to 3.8. The
          basis has (length + 2) * length numbers.

frame_step and the frame's length must be constant. A computed window makes the weights of the Conv computed.
"""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, attr, const, op, require, rule

from ._fourier import LARGEST, basis
from ._shapes import constant_input


@rule(op.STFT("x", const("step"), ..., onesided=attr("onesided")), strategy="decompose")
def decompose(b, x, step, onesided):
    require(b.dtype(x) != TensorProto.DOUBLE, "it computes in double precision")
    shape = b.shape(x)
    require(shape is not None and len(shape) in (2, 3), "the signal is neither [batch, length] nor [batch, length, 1]")
    require(shape[0] != 0, "the signal is empty, and a Reshape infers no size beside a 0")
    channels = shape[2] if len(shape) == 3 else 1
    require(channels in (1, 2), "whether the signal is complex is not known")
    window = b.root.input_at(2)
    length = _length(b, window)
    bins = length // 2 + 1 if onesided else length
    require(2 * bins * length * channels <= LARGEST, f"the basis would have more than {LARGEST} elements")
    whole = basis(length, length, bins, channels, inverse=False)
    kernel = whole.transpose(1, 0, 3, 2).reshape(2 * bins, channels, length)
    signal = b.Unsqueeze(x, axes=[1]) if len(shape) == 2 else b.Transpose(x, perm=[0, 2, 1])
    frames = b.Conv(signal, _weights(b, kernel, window, b.dtype(x)), strides=[int(step.reshape(()))])
    parts = b.Reshape(frames, [0, 2, bins, -1])
    return b.Transpose(parts, perm=[0, 3, 2, 1])


def _length(b: Builder, window: Value | None) -> int:
    known = constant_input(b, 3, "frame_length")
    if known is not None:
        return int(known.reshape(()))
    shape: Any = None if window is None else b.shape(window)
    require(shape and isinstance(shape[0], int), "the length of its window is not static")
    return int(shape[0])


def _weights(b: Builder, kernel: np.ndarray, window: Value | None, dtype: int) -> Value:
    known = b.value(window)
    if known is not None:
        return b.constant(kernel * known.astype(np.float64), dtype)
    plain = b.constant(kernel, dtype)
    return plain if window is None else b.Mul(plain, window)
