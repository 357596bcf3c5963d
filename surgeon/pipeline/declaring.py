"""What a file declares of its tensors: shapes that the user gives, types of outputs, weights of few bits."""

import re
from collections.abc import Iterator

from onnx import TensorProto, numpy_helper

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.files import all_tensors
from surgeon.ir.lattice import Dim, value_info, without_names
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, refill
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied
from surgeon.targets.dtypes import is_spelled

TAKEN = "--custom-shape takes TENSOR:SIZES or TENSOR:SIZES,TYPE, such as y:Nx256 or y:Nx256,float16"
MOST_NAMED = 3  # tensors in a warning
SIZE = re.compile(r"\d+|\?|[A-Za-z_]\w*")


def shapes(asked: Asked) -> Prepared:
    """The model, which declares outputs of custom operators as the user does. Raises UsageError.

    Each is written `Nx256` or `Nx256,float16`: a size is a number, a name without an x, or ? for one that is not known.
    """
    model, declared = asked.model, asked.options.declared
    made = {name: node for node in model.graph.node for name in node.output if name}
    infos = []
    for name, text in declared.items():
        if name not in made:
            raise UsageError(f"--custom-shape: no node of the graph makes a tensor '{name}'.{did_you_mean(name, made)}")
        shape, elem = _read(name, text)
        infos.append(value_info(name, elem, shape))
    copy = copied(model)
    kept = [info for info in copy.graph.value_info if info.name not in declared]
    refill(copy.graph.value_info, [*kept, *infos])
    return Prepared(copy, [])


def _read(name: str, text: str) -> tuple[tuple[Dim, ...], int]:
    """The sizes and the type that a text says."""
    sizes, _, kind = text.partition(",")
    parts = sizes.split("x")
    elem = dict(TensorProto.DataType.items()).get(kind.upper() or "FLOAT", TensorProto.UNDEFINED)
    if not elem or not all(SIZE.fullmatch(part) for part in parts):
        raise UsageError(f"{TAKEN}, not '{name}:{text}'.")
    return tuple(int(p) if p.isdecimal() else None if p == "?" else p for p in parts), elem


def warnings_of_unknown(model: Model) -> list[str]:
    """A warning that names the results of operators without a definition whose rank is unknown."""
    found = list(_of_unknown_rank(model))
    if not found:
        return []
    named = ", ".join(f"'{name}'" for name in found[:MOST_NAMED])
    others = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return [
        f"nothing is known of {named}{others}: no schema says what a custom operator returns, so little is rewritten "
        f"after it. Give its sizes: --custom-shape {found[0]}:Nx256, for example"
    ]


def _of_unknown_rank(model: Model) -> Iterator[str]:
    graph = model.graph
    for key in [k for k in graph.by_op if "::" in k and k not in model.functions and not k.startswith(f"{DOMAIN}::")]:
        for node in graph.by_op[key]:
            for out in node.outputs:
                if out is not None and out.users and model.schema(node) is None and model.shape(out) is None:
                    yield out.name


def output_types(asked: Asked) -> Prepared | None:
    """The model whose outputs have the types that inference finds; None where it finds nothing that the file lacks.

    A tensor from the middle of a model becomes an output by its name alone: `ValueInfoProto(name=n)`. ONNX Runtime
    infers its type. TensorRT refuses the model, and so does ONNX's checker, without which nothing is proved.
    """
    if all(info.type.WhichOneof("value") for info in asked.model.graph.output):
        return None
    made = copied(asked.model)
    inferred, changed = Model(made, asked.base), []
    for info in made.graph.output:
        value = inferred.graph.find(info.name)
        if info.type.WhichOneof("value") or value is None or not inferred.dtype(value):
            continue
        before = Text(info.name, info.name)
        info.CopyFrom(value_info(info.name, inferred.dtype(value), without_names(inferred.shape(value))))
        changed.append((before, Text.of_info(info)))
    if not changed:
        return None
    befores, afters = zip(*changed, strict=True)
    return Prepared(made, [applied("output-types", befores, afters, "the outputs", error=0.0)])


def raw_weights(asked: Asked) -> Prepared | None:
    """The model with weights of few bits as bytes, where the target misreads or refuses them as numbers of 32 bits.

    onnx.helper.make_tensor writes the numbers of uint8, int4 and float4e2m1 into int32_data; see `dtypes.is_spelled`.
    None where there are none.
    """
    if not any(map(is_spelled, all_tensors(asked.model))):
        return None
    made = copied(asked.model)
    found = [tensor for tensor in all_tensors(made) if is_spelled(tensor)]
    before = [_text(tensor, "int32_data") for tensor in found]
    for tensor in found:
        data = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        tensor.ClearField("int32_data")
        tensor.raw_data = data
    after = [_text(tensor, "raw_data") for tensor in found]
    return Prepared(made, [applied("raw-weights", before, after, "the weights", error=0.0)])


def _text(tensor: TensorProto, field: str) -> Text:
    kind = TensorProto.DataType.Name(tensor.data_type).lower()
    return Text(tensor.name, f"{tensor.name}: {kind}[{','.join(map(str, tensor.dims))}] in {field}")
