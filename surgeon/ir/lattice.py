"""What can be known of a tensor's type and shape, from nothing at all to every size.

A dimension is an int where its size is known, a str where only a name for it is, else None. A shape is None where not
even the rank is known. Two facts about one tensor meet in a shape that says both. Two tensors that may be in one
place join in a shape that holds for either.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import onnx
from onnx import TensorProto, TypeProto, helper

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})
HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
Dim = int | str | None
Shape = tuple[Dim, ...]
Shapes = Mapping[str, Sequence[int]]  # the sizes of inputs that the user gives, by name


class TensorType(NamedTuple):
    """What is known of a tensor: its TensorProto.DataType (0 where unknown) and its shape.

    A sequence, an optional and their like have neither. `kind` is the field of the TypeProto that they have.
    """

    elem: int
    shape: Shape | None
    kind: str = ""

    @property
    def is_static(self) -> bool:
        """Whether type and sizes are all known, so that inferring again cannot say more.

        A name is not enough: it may be the inference's own for "unknown".
        """
        return self.elem != 0 and is_static(self.shape)


UNKNOWN = TensorType(0, None)


def may_hold_sizes(dtype: int, rank: int) -> bool:
    """Whether floats of this type, in so many dimensions, can be sizes that an exporter wrote as floats."""
    return dtype in FLOATS and rank < 2


def is_static(shape: Shape | None) -> bool:
    """Whether every size is known."""
    return shape is not None and all(type(d) is int for d in shape)


def static_sizes(shape: Shape | None) -> tuple[int, ...] | None:
    """The sizes where every one is known, else None."""
    sizes = tuple(d for d in shape or () if isinstance(d, int))
    return sizes if shape is not None and len(sizes) == len(shape) else None


def read_type(proto: TypeProto) -> TensorType:
    """What a TypeProto says."""
    if not proto.HasField("tensor_type"):
        kind = proto.WhichOneof("value")
        return UNKNOWN if kind is None else TensorType(0, None, kind)
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(tensor.elem_type, None)
    dims: list[Dim] = []
    for dim in tensor.shape.dim[:]:
        size = dim.dim_value  # 0 where there is none
        dims.append(size if size > 0 or (size == 0 and dim.HasField("dim_value")) else dim.dim_param or None)
    return TensorType(tensor.elem_type, tuple(dims))


def type_proto(elem: int, shape: Shape | None) -> TypeProto:
    """A TypeProto that says this of a tensor."""
    return helper.make_tensor_type_proto(elem, None if shape is None else list(shape))


def value_info(name: str, elem: int, shape: Shape | None) -> onnx.ValueInfoProto:
    """A ValueInfoProto that says this of the tensor `name`."""
    return helper.make_value_info(name, type_proto(elem, shape))


def declared_shape(info: onnx.ValueInfoProto) -> Shape:
    """The dimensions that a file gives an input or an output; none where it gives no rank."""
    return read_type(info.type).shape or ()


def without_names(shape: Shape | None) -> Shape | None:
    """The shape with its numbers alone: a name may mean another size in each iteration."""
    return None if shape is None else tuple(d if isinstance(d, int) else None for d in shape)


def meet(one: Shape | None, other: Shape | None) -> Shape | None:
    """The shape of a tensor of which two things are known: numbers before names, and `one` before `other`."""
    if one is None:
        return other
    if other is None or len(one) != len(other):
        return one
    return tuple(a if isinstance(a, int) or b is None else b for a, b in zip(one, other, strict=True))


def join(shapes: Sequence[Shape | None]) -> Shape | None:
    """What holds of a tensor that has one of these shapes; None where its rank is open."""
    ranked = [shape for shape in shapes if shape is not None]
    if not ranked or len(ranked) < len(shapes) or len({len(shape) for shape in ranked}) > 1:
        return None
    return tuple(d[0] if len(set(d)) == 1 else None for d in zip(*ranked, strict=True))
