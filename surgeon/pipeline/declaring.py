"""The shapes and types that the user declares for the outputs of custom operators."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx import TensorProto

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.lattice import Dim, value_info
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, refill
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.prepared import Asked, Prepared

TAKEN = "--custom-shape takes TENSOR:SIZES or TENSOR:SIZES,TYPE, such as y:Nx256 or y:Nx256,float16"
MOST_NAMED = 3  # tensors in a warning
SIZE = re.compile(r"\d+|\?|[A-Za-z_]\w*")


def prepare(asked: Asked) -> Prepared:
    """The model, which declares tensors of its graph. Raises UsageError.

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
