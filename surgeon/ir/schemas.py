"""What ONNX's schemas say of operators, and how an operator is called in an index."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from surgeon.ir import contrib
from surgeon.ir.attributes import read_attribute
from surgeon.ir.operators import REDUCES

COMPLETE_DOMAINS = frozenset({"", "ai.onnx.ml"})  # onnx has a schema of each operator that they have
DOMAIN = "surgeon"  # of the canonical nodes and of the plugin nodes
BODIED = frozenset({"If", "Loop", "Scan", "SequenceMap"})
# Of the type and shape of their input, though onnx does not say so: of some it has no schema at the opset, or none.
LIKE_INPUT = frozenset(
    {"EyeLike", "GroupNormalization", "LayerNormalization", "MeanVarianceNormalization", "SimplifiedLayerNormalization"}
)
FLOAT_LIMIT = float(np.finfo(np.float32).max)  # Clip wrote "no bound" as this number up to opset 10
# Where ONNX turned an attribute into an input: operator -> {attribute name: input position}.
MOVED: dict[str, dict[str, int]] = {
    **{op: {"axes": 1} for op in REDUCES},
    "Squeeze": {"axes": 1},
    "Unsqueeze": {"axes": 1},
    "Split": {"split": 1},
    "Clip": {"min": 1, "max": 2},
    "Pad": {"pads": 1, "value": 2},
    "Slice": {"starts": 1, "ends": 2, "axes": 3},
    "TopK": {"k": 1},
    "Upsample": {"scales": 1},
}
FLOAT_ATTRIBUTES = frozenset({"min", "max", "value", "scales"})  # of those in MOVED; the others hold integers

FIXED = "bool int64 int32 float uint8 int8 float16 double"  # the types that schemas fix
_ELEMENTS = {f"tensor({name})": TensorProto.DataType.Value(name.upper()) for name in FIXED.split()}


def key_of(domain: str, type: str) -> str:
    """'Mul' for ONNX's own operators, 'domain::Mul' for any other."""
    return type if domain in ("", "ai.onnx") else f"{domain}::{type}"


@cache
def schema(op: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """The operator's schema at an opset; None where neither onnx nor surgeon has one."""
    if domain == contrib.DOMAIN:
        return contrib.schema(op)
    try:
        return onnx.defs.get_schema(op, min(opset, 2**31 - 1), domain)  # an int32 there
    except onnx.defs.SchemaError:
        return None


@cache
def newest_schemas() -> list[onnx.defs.OpSchema]:
    """The newest schema of each of onnx's operators: asking for older ones takes longer than to read a small model."""
    return list(onnx.defs.get_all_schemas())


@cache
def operators(domain: str) -> frozenset[str]:
    """The operators that a domain has at some opset, with those that ONNX Runtime adds to ONNX's own; empty for a
    domain that onnx does not know, or of which it has only some operators."""
    if domain not in COMPLETE_DOMAINS:
        return frozenset()
    added = contrib.IN_ONNX if not domain else ()
    return frozenset(s.name for s in newest_schemas() if s.domain == domain) | frozenset(added)


@cache
def attributes_of_any_opset(op: str, domain: str) -> frozenset[str]:
    """The attributes that the operator has at some opset; empty without a schema."""
    return frozenset(name for spec in _schemas(op, domain) for name in spec.attributes)


@cache
def most_inputs(op: str, domain: str) -> int | None:
    """How many inputs a node of the operator has at most, at any opset; None without a schema."""
    return max((spec.max_input for spec in _schemas(op, domain)), default=None)


@cache
def first_opset(op: str) -> int:
    """The first opset of ONNX that has an operator; 0 for none."""
    return min((spec.since_version for spec in _schemas(op, "")), default=0)


@cache
def opset_of_definition(op: str, opset: int) -> int:
    """The opset in which the definition of an operator that holds at `opset` came; 0 where there is none yet."""
    found = schema(op, "", opset)
    return 0 if found is None else found.since_version


@cache
def formal_types(op: str, domain: str, opset: int) -> tuple[str, ...]:
    """The types that the schema writes for the inputs: 'T', 'tensor(int64)'.

    The last one repeats. Empty without a schema.
    """
    spec = schema(op, domain, opset)
    return () if spec is None else tuple(formal.type_str for formal in spec.inputs)


@cache
def output_type(op: str, domain: str, opset: int, index: int) -> tuple[int, tuple[int, ...]]:
    """(the type that the schema fixes for an output, or 0; the inputs that have the output's type)."""
    spec = schema(op, domain, opset)
    if spec is None:
        return 0, (0,) if domain == DOMAIN or op in LIKE_INPUT else ()
    formal = spec.outputs[min(index, len(spec.outputs) - 1)]
    if not formal.is_homogeneous:  # what a Loop returns: each tensor is of a type of its own
        return 0, ()
    wanted = formal.type_str
    if wanted.startswith("tensor("):
        return _ELEMENTS.get(wanted, 0), ()
    return 0, tuple(position for position, given in enumerate(spec.inputs) if given.type_str == wanted)


@cache
def attribute_types(op: str, domain: str, opset: int) -> dict[str, int]:
    """The type (AttributeProto.AttributeType) of each attribute that the schema has; empty without a schema."""
    spec = schema(op, domain, opset)
    return {} if spec is None else _attribute_types(spec)


@cache
def moved_attribute_types(op: str) -> dict[str, int]:
    """The type of each attribute that ONNX moved to an input: that of the newest opset that has it."""
    types = {name: kind for spec in reversed([*_schemas(op, "")]) for name, kind in _attribute_types(spec).items()}
    return {name: types[name] for name in MOVED.get(op, ())}


def _attribute_types(spec: onnx.defs.OpSchema) -> dict[str, int]:
    return {n: getattr(AttributeProto, str(a.type).rpartition(".")[2]) for n, a in spec.attributes.items()}


@cache
def required_attributes(op: str, domain: str, opset: int) -> frozenset[str]:
    """The attributes without which an operator has no meaning; none of an operator that ONNX does not know."""
    spec = schema(op, domain, opset)
    return frozenset(name for name, a in spec.attributes.items() if a.required) if spec is not None else frozenset()


@cache
def needed_inputs(op: str, domain: str, opset: int) -> dict[int, str]:
    """The inputs of ONNX's own operators that no node may leave out, by position; empty without a schema of onnx's."""
    spec = schema(op, domain, opset) if domain != contrib.DOMAIN else None
    if spec is None or not spec.inputs:
        return {}
    formals = [spec.inputs[min(k, len(spec.inputs) - 1)] for k in range(spec.min_input)]
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    return {k: formal.name for k, formal in enumerate(formals) if formal.option != optional}


def _schemas(op: str, domain: str) -> Iterator[onnx.defs.OpSchema]:
    """The operator's schemas, the newest one first."""
    opset = onnx.defs.onnx_opset_version()
    while opset and (spec := schema(op, domain, opset)) is not None:
        yield spec
        opset = spec.since_version - 1


@cache
def defaults(op: str, domain: str, opset: int) -> dict[str, Any]:
    """The attributes for which the schema has defaults, with those.

    An operator that is newer than the opset has those of its first schema: no TensorRT parser looks at the opset.
    """
    spec = schema(op, domain, opset) or next(reversed([*_schemas(op, domain)]), None)
    if spec is None:
        return {}
    return {
        n: read_attribute(a.default_value)
        for n, a in spec.attributes.items()
        if a.default_value.type != AttributeProto.UNDEFINED
    }
