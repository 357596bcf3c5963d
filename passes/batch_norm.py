"""Turn a batch normalisation in disguise back into one BatchNormalization.

Why       torch.nn.InstanceNorm with running statistics normalises, at inference, with these: PyTorch exports it with
          the batch folded into the channels and every parameter repeated for each instance, between two Reshapes. As
          one BatchNormalization TensorRT folds it into the convolution in front of it.
Rewrites  Reshape [1, N C, ...], BatchNormalization with N-fold parameters, Reshape back   ->  BatchNormalization
          BatchNormalization of a Reshape that changes nothing                             ->  BatchNormalization
          decompose: in training mode, which no TensorRT takes and which crashes the parser of 8.4, the statistics of
          the batch are computed by reductions; outputs for running statistics must have no reader.
Exact     Bit for bit: every channel is computed with the same numbers.
"""

import numpy as np

from surgeon import ANY, Stage, attr, op, require, rewrite, var

from ._shapes import dims, same_shape
from ._statistics import by_channel, known, normalised, with_affine

x = var("x")
NAMES = ("scale", "bias", "mean", "variance")
repeated = [op.Tile(var(f"{name}_once"), ANY) | var(name) for name in NAMES]
node = op.BatchNormalization(op.Reshape(x, ANY), *repeated, epsilon=attr("epsilon"), momentum=attr("momentum"))


@rewrite(op.Reshape(node, ANY), stage=Stage.FUSE)
def folded_batch(b, x, epsilon, momentum, **parameters):
    inside = next(m for m in b.matched if m.key == "BatchNormalization")
    _at_inference(b, inside)
    require(same_shape(b, b.root.outputs[0], x), "it is not reshaped back to the shape that it had")
    whole, folded = known(dims(b, x), ""), known(dims(b, inside.inputs[0]), "")
    require(len(whole) >= 3 and isinstance(whole[1], int), "the number of channels is not known")
    require(folded[0] == 1, "" if folded == whole else "it folds something else than the batch")
    return b.BatchNormalization(x, *_once(b, whole[1], parameters), epsilon=epsilon, momentum=momentum)


@rewrite(node, stage=Stage.FUSE)
def reshaped_to_itself(b, x, epsilon, momentum, **parameters):
    _at_inference(b, b.root)
    whole = known(dims(b, x), "")
    require(len(whole) >= 2 and isinstance(whole[1], int) and same_shape(b, b.root.inputs[0], x), "")
    return b.BatchNormalization(x, *_once(b, whole[1], parameters), epsilon=epsilon, momentum=momentum)


@rewrite(
    op.Reshape(op.BatchNormalization(x, *repeated, epsilon=attr("epsilon"), momentum=attr("momentum")), ANY),
    stage=Stage.FUSE,
)
def reshaped_back_to_itself(b, x, epsilon, momentum, **parameters):
    _at_inference(b, next(m for m in b.matched if m.key == "BatchNormalization"))
    whole = known(dims(b, x), "")
    require(len(whole) >= 2 and isinstance(whole[1], int) and same_shape(b, b.root.outputs[0], x), "")
    return b.BatchNormalization(x, *_once(b, whole[1], parameters), epsilon=epsilon, momentum=momentum)


def _at_inference(b, inside):
    training = inside.attr("training_mode") or (b.opset < 14 and sum(o is not None for o in inside.outputs) > 1)
    require(not training, "it is in training mode")


def _once(b, size, parameters):
    """The parameters of one instance; every instance must have the same."""
    found = []
    for name in NAMES:
        array = b.value(parameters[f"{name}_once"]) if f"{name}_once" in parameters else b.value(parameters[name])
        require(array is not None, f"the {name} is not constant")
        flat = array.reshape(-1)
        require(
            flat.size % size == 0 and np.array_equal(np.resize(flat[:size], flat.size), flat),
            f"the {name} differs from instance to instance",
        )
        found.append(flat[:size])
    return found


scale, bias = var("scale"), var("bias")


@rewrite(
    op.BatchNormalization(x, scale, bias, ANY, ANY, epsilon=attr("epsilon")), stage=Stage.LOWER, strategy="decompose"
)
def in_training(b, x, scale, bias, epsilon):
    outputs = b.root.outputs
    require(b.root.attr("training_mode") or (b.opset < 14 and sum(o is not None for o in outputs) > 1), "")
    require(all(o is None or not (o.users or o.is_output) for o in outputs[1:]), "its running statistics are read")
    rank = b.rank(x)
    require(rank is not None and rank >= 2, f"the rank of '{x.name}' is not known")
    y = normalised(b, x, [0, *range(2, rank)], epsilon)
    return with_affine(b, y, by_channel(b, scale, rank), by_channel(b, bias, rank), b.dtype(x))
