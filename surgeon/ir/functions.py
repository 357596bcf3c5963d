"""Local functions as onnx's inliner reads them right: it forgets defaults, and takes one opset alone. The opsets that
models and functions declare."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from onnx import FunctionProto, ModelProto, NodeProto, defs, helper, version_converter
from onnx.defs import OpSchema

from surgeon.ir.protos import all_nodes, copied, refill
from surgeon.ir.schemas import schema

ONNX = ("", "ai.onnx")
# Operators of which a newer opset means something else by a node that leaves out what it added.
RENEWED = frozenset({"GroupNormalization", "Range", "RoiAlign", "Split"})
# The opset of the first node of ONNX's own operators in a model that has none: most parsers read it, and rewrites for
# older ones bring it down.
FIRST_OPSET = 13
Name = tuple[str, str, str]  # domain, name, overload


def by_name(functions: Iterable[FunctionProto]) -> dict[Name, FunctionProto]:
    """The functions by what calls name them."""
    return {(f.domain, f.name, f.overload): f for f in functions}


def called(node: NodeProto) -> Name:
    """The name of the function that a node calls, if it calls one."""
    return (node.domain, node.op_type, node.overload)


def opset_of(declaring: FunctionProto | ModelProto) -> int:
    """The opset of ONNX's own operators that a model or a function declares; 1 where it declares none."""
    return next((o.version for o in declaring.opset_import if o.domain in ONNX), 1)


def at_opset(model: ModelProto, opset: int) -> ModelProto:
    """The model in an opset or a later one, where onnx can convert it."""
    if opset_of(model) >= opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except Exception:  # it raises RuntimeError, and what its C++ raises
        return model


def declares_opset(declaring: FunctionProto | ModelProto) -> bool:
    """Whether a model or a function declares an opset of ONNX's own operators."""
    return any(o.domain in ONNX for o in declaring.opset_import)


def needs_opset(holder: FunctionProto | ModelProto) -> bool:
    """Whether a model's graph, or a function, has a node of ONNX's own operators, in a body or outside of one."""
    return any(n.domain in ONNX for n in all_nodes(holder.graph if isinstance(holder, ModelProto) else holder))


def declare_opset(model: ModelProto) -> None:
    """Declare an opset of ONNX's own operators in a model that declares none: that of its functions, if they do."""
    if not declares_opset(model):
        found = max((opset_of(f) for f in model.functions if declares_opset(f)), default=FIRST_OPSET)
        model.opset_import.append(helper.make_opsetid("", found))


def drop_opset(model: ModelProto) -> None:
    """Take away what the model declares of ONNX's own operators."""
    refill(model.opset_import, [o for o in model.opset_import if o.domain not in ONNX])


def changed_operators(function: FunctionProto, opset: int) -> list[str]:
    """The operators of a function whose nodes mean something else at `opset` than at the function's own."""
    used = {n.op_type for n in all_nodes(function) if n.domain in ONNX}
    return changed_of(used, opset_of(function), opset)


def changed_of(operators: Iterable[str], own: int, opset: int, domain: str = "") -> list[str]:
    """Those of a domain's operators whose nodes mean something else at `opset` than at `own`."""
    if own == opset:
        return []
    return sorted(op for op in operators if not _means_the_same(op, own, opset, domain))


def common_opset(operators: Collection[str], own: int, functions: Iterable[FunctionProto]) -> int | None:
    """The opset at which nodes of ONNX's own `operators`, of opset `own`, and functions mean what they do; None where
    there is none.

    It is `own` if it can be, and an older one only where there are no such nodes: they may be of newer types.
    """
    inner = list(functions)
    newest_first = sorted({opset_of(f) for f in inner if declares_opset(f)}, reverse=True)

    def is_common(version: int) -> bool:
        if version > defs.onnx_opset_version() or (version < own and operators):
            return False
        return not changed_of(operators, own, version) and not any(changed_operators(f, version) for f in inner)

    return next((version for version in (own, *newest_first) if is_common(version)), None)


def _means_the_same(op: str, own: int, opset: int, domain: str) -> bool:
    """Whether a node of one opset is the same node at another: all that the newer one has besides may be left out."""
    then, now = schema(op, domain, own), schema(op, domain, opset)
    if then is None or now is None:
        return then is now
    if now.deprecated and not then.deprecated:
        return False
    if _signature(then) == _signature(now):
        return True
    if own > opset or op in RENEWED:
        return False
    (attrs, inputs, outputs), (more_attrs, more_inputs, more_outputs) = _signature(then), _signature(now)
    needed = {name for name, a in now.attributes.items() if a.required}
    return (
        attrs == {name: a for name, a in more_attrs.items() if name in attrs}
        and inputs == more_inputs[: len(inputs)]
        and outputs == more_outputs[: len(outputs)]
        and needed <= {name for name, a in then.attributes.items() if a.required}
    )


def _signature(spec: OpSchema) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """What an opset says of an operator but for its types, of which newer opsets take more, and what must be given."""
    attrs = {name: (a.type, a.default_value.SerializeToString()) for name, a in spec.attributes.items()}
    return attrs, [(f.name, f.option) for f in spec.inputs], [(f.name, f.option) for f in spec.outputs]


def as_inliner_reads(
    function: FunctionProto, opset: int, functions: Mapping[Name, FunctionProto], call: NodeProto | None = None
) -> FunctionProto:
    """A copy of which onnx's inliner (1.23) makes what it means.

    It is of the model's opset, where that means the same. It has a node for every output, and the defaults of what it
    calls. `call` is the only call that there is of it, or None.
    """
    copy = copied(function)
    if call is not None and called(call) == (function.domain, function.name, function.overload):
        _drop_left_out(all_nodes(copy), {a.name for a in call.attribute})
    if not changed_operators(function, opset):
        for entry in copy.opset_import:
            if entry.domain in ONNX:
                entry.version = opset
    say_defaults(all_nodes(copy), functions)
    for position, name in enumerate(copy.output):
        if name in copy.input:
            copy.output[position] = f"{name}~{position}"
            copy.node.add(op_type="Identity", input=[name], output=[copy.output[position]])
    return copy


def _drop_left_out(nodes: Iterable[NodeProto], given: set[str]) -> None:
    """Take away the attributes that would be a call's, where it does not give them. Then the operator's default counts,
    or that of the function that is called."""
    for node in nodes:
        kept = [a for a in node.attribute if not a.ref_attr_name or a.ref_attr_name in given]
        if len(kept) < len(node.attribute):
            refill(node.attribute, kept)


def say_defaults(calls: Iterable[NodeProto], functions: Mapping[Name, FunctionProto]) -> None:
    """Write to each call of a function the attributes that it leaves out and the function has defaults for."""
    for call in calls:
        function = functions.get(called(call))
        if function is not None:
            given = {a.name for a in call.attribute}
            call.attribute.extend(a for a in function.attribute_proto if a.name not in given)
