"""Fuse PRelu however it was exported, and give it slopes that TensorRT reads correctly.

Why       Keras writes PReLU as five operators; TensorRT has a kernel for it in every version from 6 on. One slope for
          the whole tensor is LeakyRelu, which TensorRT fuses into the convolution before it, as it does not PRelu.
Rewrites  relu(x) - slope * relu(-x)    max(x, 0) + slope * min(x, 0)    relu(x) + slope * (x - abs(x)) * 0.5
          Where(x > 0, x, slope * x)    Max(x, slope * x) for slopes up to 1    ->  PRelu(x, slope)
          slopes after Unsqueeze, Reshape, Identity and the like           ->  the computed slopes
          slopes that do not change along a dimension: [C,H,W], say         ->  [C,1,1]
          one slope, in any shape that broadcasts to x                      ->  LeakyRelu(x); slope 0  ->  Relu(x)
          [C] on N x C x H x W with W != C, as mxnet wrote it               ->  [C,1,1]
          slopes from a DequantizeLinear of constants, of which 8.4 dies    ->  the computed slopes
Shapes    TensorRT pads the slope's rank with ones from the left, as ONNX does, and refuses a slope of more dimensions
          than x. ONNX means the last dimension by a slope [C], so that is what stays where W is C. Where W is another
          number the file is invalid and means channels; ONNX Runtime refuses it, so the repair cannot be proved: it is
          made with --allow-unproved. Where W is not known, it is made only if the option repair_prelu=1 says that [C]
          means channels.
Decompose Max(x, slope * x) where no constant slope is above 1 or is 0; else relu(x) + slope * min(x, 0), which is
          exact for any constant slope and for x = +-inf. Slopes that are computed may be inf: Where(x < 0, x * slope,
          x), where the target has Where. Every TensorRT supports PRelu; DLA does with constant slopes alone.
Exact     To the last bit for slopes that are written in the file; products of constants (slope * 0.5) are rounded once.
          With slope 0 the output at -inf is 0, where PRelu computes -inf * 0 = NaN.
Price     Decomposed, [1,64,56,56] in ONNX Runtime on one thread: 2 nodes, 0.06 ms next to 0.9 of its own node; of
          slopes above 1 4 nodes, and 0.10.
"""

import numpy as np

from surgeon import PLUGIN, Builder, Value, attr, const, meaning, op, require, rewrites, rule, var
from surgeon.ir.lattice import Shape
from surgeon.ir.operators import KEEP_ORDER

from ._clipped import by_sign, falling, rising
from ._piecewise_linear import FORMS, above, fits, is_one, slopes
from ._shapes import cancel, input_of

OPTIONS = ("repair_prelu",)

STRUCTURAL = KEEP_ORDER | {"Cast", "CastLike", "Expand", "Transpose"}


x, slope, factor = var("x"), var("slope"), const("factor")


@rule(FORMS)
def fuse(b, x):
    f = slopes(b, x)
    require(f.above.min() != f.above.max() or f.below.min() != f.below.max())  # one slope is a LeakyRelu
    require(is_one(b, x, f.above), "the slopes above zero are not 1")
    require(fits(b, x, f.below.shape), f"slopes of shape {list(f.below.shape)} make the result larger than its input")
    b.require_op("PRelu", x)
    return b.PRelu(x, b.constant(f.below, b.dtype(x)))


negated = op.Transpose(op.Relu(op.Neg(x)), perm=attr("to"))


@rule(above() + op.Transpose(negated * factor, perm=attr("back")))
def fuse_between_transposes(b, x, factor, to, back):
    """tf2onnx in NCHW: the slopes are still in NHWC, with a Transpose to and fro around them."""
    require(cancel(to, back), "the two transposes do not cancel out")
    require(factor.ndim <= len(to), "the slopes have more dimensions than x")
    b.require_op("PRelu", x)
    moved = _without_ones(np.transpose(-factor.reshape((1,) * (len(to) - factor.ndim) + factor.shape), back))
    require(fits(b, x, moved.shape), f"slopes of shape {list(moved.shape)} make the result larger than its input")
    return b.PRelu(x, moved)


minus = op.Neg(slope) * op.Relu(op.Neg(x)) | op.Neg(slope * op.Relu(op.Neg(x)))
scaled = slope * falling(x) | minus
halved = (slope * (x - op.Abs(x))) * 0.5 | slope * ((x - op.Abs(x)) * 0.5) | (slope * (x - op.Abs(x))) / 2
positive = rising(x)


@rule(positive + scaled | positive + halved | positive - slope * op.Relu(op.Neg(x)) | by_sign(x, x, x * slope))
def fuse_computed(b, x, slope):
    require(b.value(slope) is None)  # constants are read by `fuse`
    b.require_op("PRelu", x)
    shape = b.known_shape(slope)
    require(fits(b, x, shape), f"slopes of shape {list(shape)} may make the result larger than its input")
    return b.PRelu(x, slope)


slopes_of = const("slope")


@rule(op.PRelu(x, slopes_of))
def uniform(b, x, slope):
    require(slope.size and slope.min() == slope.max())
    why = f"the slope has shape {list(slope.shape)}, and x no dimensions that are known to hold it"
    require(fits(b, x, slope.shape), why)
    b.require_op("LeakyRelu", x)
    return b.LeakyRelu(x, alpha=float(slope.reshape(-1)[0])) if slope.any() else b.Relu(x)


@rule(op.PRelu(x, slopes_of))
def reshaped(b, x, slope):
    require(slope.size and slope.min() != slope.max() and not _misplaced(b, x, slope))
    require(fits(b, x, slope.shape))
    source = b.root.inputs[1]
    smaller = _constant_along(slope)
    require(smaller.shape != slope.shape or _behind_structure(source))
    return b.PRelu(x, _without_ones(smaller) if smaller.shape != slope.shape else slope)


@rule(op.PRelu(x, slopes_of))
def repaired(b, x, slope):
    require(slope.size and slope.min() != slope.max())
    require(_misplaced(b, x, slope))
    shape = b.shape(x)
    known = isinstance(shape[-1], int)
    require(
        known or b.options.get("repair_prelu"),
        f"ONNX means the last dimension of {_text(shape)} by a slope [{slope.size}]; if the file means channels, "
        "give the option repair_prelu=1 and --allow-unproved",
    )
    b.warn(f"the slope [{slope.size}] on {_text(shape)} is read as one slope for each channel")
    if not known:
        b.tolerance = 1e30  # the user says that the file means other numbers than ONNX reads where W is C
    return b.PRelu(x, slope.reshape((-1,) + (1,) * (len(shape) - 2)))


def _misplaced(b: Builder, x: Value, slope: np.ndarray) -> bool:
    """Whether a slope [C], dimensions of 1 aside, is where ONNX would broadcast it along a last dimension that is
    not C, or not known, while dimension 1 is C."""
    shape = b.shape(x)
    if shape is None or len(shape) < 3 or slope.size != slope.shape[-1]:
        return False
    return shape[1] == slope.size and shape[-1] != slope.size


def _text(shape: Shape) -> str:
    return " x ".join("?" if d is None else str(d) for d in shape)


def _constant_along(slope: np.ndarray) -> np.ndarray:
    """The slopes with every dimension along which they do not change cut down to 1."""
    for axis in range(slope.ndim):
        first = np.take(slope, [0], axis)
        if np.array_equal(np.broadcast_to(first, slope.shape), slope):
            slope = first
    return slope


def _without_ones(slope: np.ndarray) -> np.ndarray:
    """Leading dimensions of 1 say nothing: ONNX and TensorRT pad them on."""
    while slope.ndim > 1 and slope.shape[0] == 1:
        slope = slope[0]
    return slope


def _behind_structure(value: Value) -> bool:
    """Whether the constant is computed by operators that only move it; what a DequantizeLinear makes stays as it is."""
    node = value.producer
    found = False
    while node is not None and node.key in STRUCTURAL:
        found, node = True, input_of(node).producer
    return found and (node is None or node.key == "Constant")


@rule(op.PRelu(x, slope), strategy="decompose")
def decompose(b, x, slope):
    b.require_op("Relu", x)
    b.require_op("Max", x)
    ranks = b.rank(x), b.rank(slope)
    require(None in ranks or ranks[1] <= ranks[0], "the slope has more dimensions than x, which ONNX does not allow")
    known = b.value(slope)
    if known is None or not np.isfinite(known).all():  # 0 * inf is not a slope's share of a number above zero
        b.require_op("Where", x, at=1)
        y = b.Where(b.Less(x, 0.0), b.Mul(x, slope), x)
        why = b.why_unsupported(y.producer)
        require(why is None, f"the slopes are not constant numbers, and {why}")
        return y
    if known is not None and slope.tensor is None:  # 8.4 does not survive slopes from a DequantizeLinear
        slope = b.constant(known)
        made = b.PRelu(x, slope)
        if b.lowering(made) == "keep":
            return made
        b.discard(made)
    if known is not None and known.all() and known.max() <= 1:
        return b.Max(x, b.Mul(x, slope))
    return b.Add(b.Relu(x), b.Mul(b.Min(x, 0.0), slope))


plugin = rewrites(op.PRelu(x, slope), op.SurgeonPRelu(x, slope, **PLUGIN), strategy="plugin")


@meaning("SurgeonPRelu")
def prelu(f, x, slope):
    return f.PRelu(x, slope)
