"""Replace an unsupported operator by the function body of its ONNX schema.

Why       ONNX adds operators faster than TensorRT imports them: losses, LinearAttention, CausalConvWithState, SwiGLU,
          FlexAttention, CenterCropPad, AffineGrid. Of others TensorRT supports the plain form alone: Attention without
          past keys and with one output, LayerNormalization with one output. Each has a body in ONNX's own schema.
Rewrites  decompose: the schema's body, with what attributes, types and shapes decide computed: the branch of an If, a
          CastLike, a size. What the target lacks in the body is written out in turn. Where another pass writes the
          operator out, that one comes first: this one is a fallback.
Exact     As ONNX defines it, to rounding.
Price     ONNX Runtime on one thread: Attention of 12 heads of [128,64] with 64 past keys 15 nodes, 0.83 ms next to 0.6;
          SoftmaxCrossEntropyLoss of [64,1000] 10 nodes, 0.04 ms as its own; CenterCropPad to 224 x 224 14 nodes, 0.04
          ms as its own.
Kept      An operator whose body has one that the target lacks and nothing writes out. A body of another opset with an
          operator that means something else at the model's. Bernoulli, whose numbers are drawn. What reads a sequence.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper

from surgeon import Builder, Decline, Node, Pattern, Value, any_of, op, require, require_some, rule
from surgeon.ir.functions import ONNX, changed_operators
from surgeon.ir.lattice import type_proto
from surgeon.ir.operators import QUANTIZES, RANDOM
from surgeon.ir.protos import all_nodes
from surgeon.ir.schemas import MOVED, defaults, newest_schemas
from surgeon.targets.opset_compat import why_newer

from ._copy import copied, drop_unread, inlined
from ._shapes import input_of, require_axes, same_shape

FORMERLY = "written-out"

Schema: TypeAlias = Any  # an OpSchema: onnx's stubs leave out what it says of bodies
DOMAINS = ("", "ai.onnx.preview")
SMALL = 4096  # elements: a larger constant stays computed
RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
REPEATING = frozenset({"Expand", "Tile"})
# Bernoulli's numbers are drawn. DynamicQuantizeLinear's body divides by 0 where every input is 0. Range's is a Loop of
# so many iterations. The others have a pass of their own, which says why it leaves one: a number of groups that ONNX
# forbids is not a reason to write a body, and AffineGrid's body does not run for a batch of 1.
LEFT_OUT = RANDOM | QUANTIZES | {"AffineGrid", "Celu", "GroupNormalization", "Range"}
CALLED = "surgeon.body"  # the domain of the function that the inliner sees, which no operator has


def _bodied() -> Pattern:
    bodied = {(s.domain, s.name) for s in newest_schemas() if _opsets(s) and s.domain in DOMAINS}
    named = sorted((domain, name) for domain, name in bodied if name not in LEFT_OUT)
    return any_of(op[name](..., domain=domain) for domain, name in named)


def _opsets(spec: Schema) -> list[int]:
    return sorted({*spec.function_opset_versions, *spec.context_dependent_function_opset_versions})


@rule(_bodied(), strategy="decompose", fallback=True)
def write_out(b):
    node, model = b.root, b.root.graph.model
    reads_older = b.target.lowers_opset and why_newer(node, b.target.opset) is not None
    require(not (b.target.imports(node.key) and reads_older))  # else the pass opset writes the older spelling
    # ONNX Runtime loads it and runs it on nothing, and the body would not load
    require_axes(b, next((v for v in b.root.inputs if v is not None), None), b.root.attr("axes") or [])
    require(not any(0 in (b.shape(v) or ()) for v in node.inputs if v is not None), "an input has no elements")
    function = _body(node, b.opset)
    # the builder writes what moved from an attribute to an input, but not inside the bodies of a Loop or a Scan
    looped = FunctionProto(node=(n for n in function.node if n.op_type in ("Loop", "Scan")))
    inside = {n.op_type for n in all_nodes(looped)}
    changed = [op for op in changed_operators(function, b.opset) if op not in MOVED or op in inside]
    require(not changed, f"{', '.join(changed)} of its body is another operator at opset {b.opset}")
    _declare(function, b.opset)
    tensors = {f"in{k}": v for k, v in enumerate(node.inputs) if v is not None}
    _copy(b, inlined(node, model, [function], (function.domain, function.name, function.overload)), tensors)
    outputs = [None if o is None else tensors[f"out{k}"] for k, o in enumerate(node.outputs)]
    drop_unread(b, outputs)
    _require_taken(b)
    return tuple(outputs)


def _body(node: Node, opset: int) -> FunctionProto:
    """The body of the node's operator, as a function that has the defaults of its attributes."""
    spec = require_some(node.graph.model.schema(node))
    known = all(node.graph.model.dtype(v) for v in node.inputs if v is not None)
    require(known, "the type of an input is not known, or it is not a tensor")
    version = opset if not spec.domain else spec.since_version
    found = max((v for v in _opsets(spec) if v <= version), default=0)
    if not found:
        raise Decline(f"its body is of a newer opset than {version}")
    function = FunctionProto.FromString(_serialized(node, spec, found))
    require(function.node, "ONNX gives no body for the types and shapes that are known")
    function.domain, function.name = CALLED, node.op
    given = defaults(node.op, spec.domain, version)
    if not any(o.domain in ONNX for o in function.opset_import):  # then its nodes are of the model's opset
        _declare(function, opset)
    del function.attribute[:]
    function.attribute.extend(n for n in spec.attributes if n not in given)
    function.attribute_proto.extend(spec.attributes[n].default_value for n in given)
    return function


def _serialized(node: Node, spec: Schema, opset: int) -> bytes:
    if opset not in spec.context_dependent_function_opset_versions:
        return bytes(spec.get_function_with_opset_version(opset))
    types = [_type(node, v).SerializeToString() for v in node.inputs]
    proto = node.proto.SerializeToString()
    return bytes(spec.get_context_dependent_function_with_opset_version(opset, proto, types))


def _declare(function: FunctionProto, opset: int) -> None:
    kept = [o for o in function.opset_import if o.domain not in ONNX]
    del function.opset_import[:]
    function.opset_import.extend([*kept, helper.make_opsetid("", opset)])


def _type(node: Node, value: Value | None) -> TypeProto:
    if value is None:
        return TypeProto()
    model = node.graph.model
    return type_proto(model.dtype(value), model.shape(value))


def _copy(b: Builder, nodes: Iterable[NodeProto], tensors: dict[str, Value]) -> None:
    """Make the nodes; what they make that is known becomes a constant or the tensor that it repeats."""
    for proto in nodes:
        same = _repeated(b, proto, tensors)
        if same is not None:
            tensors[proto.output[0]] = same
            continue
        copied(b, [_settled(b, proto, tensors)], tensors)
        for name in proto.output:
            if name and proto.op_type != "Constant":
                tensors[name] = _known(b, proto, tensors[name])


def _repeated(b: Builder, proto: NodeProto, tensors: dict[str, Value]) -> Value | None:
    """The tensor that a node returns as it is; None where it computes something."""
    if proto.op_type == "Identity":
        return tensors[proto.input[0]]
    if proto.op_type not in ("Cast", "CastLike"):
        return None
    given = tensors[proto.input[0]]
    return given if b.dtype(given) and b.dtype(given) == _cast_to(b, proto, tensors) else None


def _settled(b: Builder, proto: NodeProto, tensors: dict[str, Value]) -> NodeProto:
    """The node itself; for a CastLike to a type that is known, the Cast."""
    to = _cast_to(b, proto, tensors) if proto.op_type == "CastLike" else 0
    if not to:
        return proto
    cast = NodeProto(op_type="Cast", input=proto.input[:1], output=proto.output)
    cast.attribute.extend(proto.attribute)
    cast.attribute.append(AttributeProto(name="to", type=AttributeProto.INT, i=to))
    return cast


def _cast_to(b: Builder, proto: NodeProto, tensors: dict[str, Value]) -> int:
    if proto.op_type == "CastLike":
        return b.dtype(tensors[proto.input[1]])
    return next(a.i for a in proto.attribute if a.name == "to")


def _known(b: Builder, proto: NodeProto, made: Value) -> Value:
    """What may stand for a tensor that was made: a constant, or what the node was given to reshape; else itself."""
    array = b.value(made)
    if array is not None and array.size <= SMALL and array.dtype.kind in "biuf":
        return b.constant(array)
    if proto.op_type not in RESHAPING | REPEATING or made.producer is None:
        return made
    given, shape = input_of(made.producer), b.shape(made)
    if proto.op_type in RESHAPING:
        return given if same_shape(b, made, given) else made
    return given if shape is not None and None not in shape and shape == b.shape(given) else made


def _require_taken(b: Builder) -> None:
    """Decline where the body has a node that the target does not support and no pass writes out."""
    for node in b.made:
        if not node.alive or b.is_lowered(node.key):
            continue
        why = b.why_unsupported(node)
        require(why is None, f"its function body has a node {node.op} that is also unsupported: {why}")
