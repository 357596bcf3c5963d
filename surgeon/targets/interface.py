"""What a parser reads of a model besides its nodes: inputs, outputs and initializers, those that no node reads, too."""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from math import prod

from onnx import TensorProto, ValueInfoProto

from surgeon.ir.lattice import Shape, declared_shape
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, KEEP_ORDER, REDUCES
from surgeon.targets.condition import dtype_name
from surgeon.targets.dtypes import MOST_DIMENSIONS, READABLE
from surgeon.targets.releases import up_to
from surgeon.targets.target import Target

LARGEST_SIZE = 2**31 - 1
KEEPS_AXES = ELEMENTWISE | {"Constant"}
GROWS_LITTLE = KEEPS_AXES | REDUCES | KEEP_ORDER
# "tensor volume exceeds (2^31)-1": NVIDIA/TensorRT#1948 (8.0), #3033 (8.6) and #4408 (10.9). The release notes of 10.10
# name larger ones. 2^40 is measured with TensorRT-RTX 1.7.1.
FEW_ELEMENTS = up_to(10, 9)
MOST_ELEMENTS = 2**40


def too_large(model: Model, target: Target) -> Iterator[tuple[str, str]]:
    """The inputs and results that have more elements than an engine supports: the label of the node, and why."""
    few = FEW_ELEMENTS.covers(target.version, rtx=target.rtx)
    for info in model.proto.graph.input:
        if why := _excess(declared_shape(info), few):
            yield "", f"the input '{info.name}' has {why}"
    if all(scope.by_op.keys() <= GROWS_LITTLE for scope in model.scopes) and not _may_grow(model):
        return  # it is not worth an inference
    for scope in model.scopes:
        for node in scope.live():
            for value in node.outputs:
                if value is None or not model.types.may_exceed(value, LARGEST_SIZE):
                    continue
                if why := _excess(model.shape(value), few):
                    yield node.label, f"a result has {why}"


def _may_grow(model: Model) -> bool:
    """Whether a result that is broadcast over the inputs and the weights may be too large.

    Where every node is elementwise, an axis of the result has one of the sizes that they have along it, counted from
    the last. A Reshape makes any axis of them another one.
    """
    graph, constants = model.proto.graph, [n for s in model.scopes for n in s.of(["Constant"])]
    shapes = [*(declared_shape(i) or () for i in graph.input), *(t.dims for t in graph.initializer)]
    shapes += [a.t.dims for n in constants for a in n.proto.attribute]
    counts = Counter(map(tuple, shapes))
    known = {shape: [d if isinstance(d, int) and d > 0 else 1 for d in reversed(shape)] for shape in counts}
    if all(scope.by_op.keys() <= KEEPS_AXES for scope in model.scopes):
        return prod(map(max, zip_longest(*known.values(), fillvalue=1))) > LARGEST_SIZE
    return bool(prod(prod(known[shape]) ** count for shape, count in counts.items()) > LARGEST_SIZE)


@lru_cache
def _excess(shape: Shape | None, few: bool) -> str:
    """What a tensor has too much of; empty where nothing is known to be."""
    most, where = (LARGEST_SIZE, " up to TensorRT 10.9") if few else (MOST_ELEMENTS, "")
    sizes = [size for size in shape or () if isinstance(size, int)]
    if max(sizes, default=0) > LARGEST_SIZE:
        return f"a dimension of {max(sizes)}; {LARGEST_SIZE} is the largest"
    return f"{prod(sizes)} elements; {most} are the most{where}" if prod(sizes) > most else ""


def refused(model: Model) -> Iterator[str]:
    """Why no release, nor TensorRT-RTX, takes an input, an output or an initializer of a model.

    What a node reads of a type that there is not is known of the node: see `dtypes`. Sources: onnx-tensorrt@84b5be1 to
    @96e7811: importInput, convertOnnxWeights and convertDtype read all of them; measured with TensorRT-RTX 1.7.1.
    """
    for info in model.proto.graph.input:
        value = model.graph.find(info.name)
        if value is not None and value.tensor is not None:
            continue
        if info.type.HasField("tensor_type"):
            yield from _refused_input(model, info)
        elif info.type.HasField("sparse_tensor_type") or not info.type.WhichOneof("value"):
            yield f"the input '{info.name}' is not of a type of tensors"
    for info in model.proto.graph.output:
        if not info.type.WhichOneof("value"):
            yield f"the output '{info.name}' has no type"
    if all(dtype in READABLE and rank <= MOST_DIMENSIONS for dtype, rank in model.graph.kinds_of_tensors):
        return
    for tensor in model.proto.graph.initializer:
        if len(tensor.dims) > MOST_DIMENSIONS:
            yield f"the initializer '{tensor.name}' has {len(tensor.dims)} dimensions; {MOST_DIMENSIONS} are the most"
        elif tensor.data_type not in READABLE and not _is_read(model, tensor.name):
            yield f"the initializer '{tensor.name}', which nothing reads, is of {dtype_name(tensor.data_type)}"


def _refused_input(model: Model, info: ValueInfoProto) -> Iterator[str]:
    given = info.type.tensor_type
    if not given.HasField("shape"):
        yield f"the input '{info.name}' has no shape, and is read as one without dimensions"
    elif len(given.shape.dim) > MOST_DIMENSIONS:
        yield f"the input '{info.name}' has {len(given.shape.dim)} dimensions; {MOST_DIMENSIONS} are the most"
    if given.elem_type not in (TensorProto.UNDEFINED, *READABLE) and not _is_read(model, info.name):
        yield f"the input '{info.name}', which nothing reads, is of {dtype_name(given.elem_type)}"


def _is_read(model: Model, name: str) -> bool:
    value = model.graph.find(name)
    return value is not None and bool(value.users)
