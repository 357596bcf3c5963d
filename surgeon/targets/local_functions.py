"""Calls of local functions: what TensorRT-RTX makes of them.

It looks up operators that it never takes before functions: docs/trt-support.md section 1.
It ties a function to a call by the name alone, and the function's inputs to tensors by theirs, one after the other:
a tensor that is called like an input bound before is taken for that.
An attribute that a call leaves out is 0 inside. So is one that a function hands to another function or into a body.
An initializer of a body in a function has other numbers at times: in 10 of 40 parses of one model.
Measured with TensorRT-RTX 1.7.1.
"""

from collections.abc import Iterator

from surgeon.ir.graph import Graph, Node, scopes_of

# Names that the parser looks up before functions, and has no importer for that builds: measured one by one.
_TAKEN = (
    "AffineGrid Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CausalConvWithState "
    "CenterCropPad Col2Im Compress ConcatFromSequence ConvInteger Det DynamicQuantizeLinear ImageDecoder "
    "LinearAttention MatMulInteger MaxRoiPool MaxUnpool MelWeightMatrix Multinomial NegativeLogLikelihoodLoss "
    "NonMaxSuppression NonZero Optional OptionalGetElement OptionalHasElement QLinearConv QLinearMatMul "
    "RegexFullMatch RoiAlign SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SequenceMap SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer "
    "StringSplit TfIdfVectorizer Unique"
)
TAKEN_NAMES = frozenset(_TAKEN.split())


def why_misread(node: Node, *, imported: bool) -> str | None:
    """Why TensorRT-RTX refuses the call of a local function, or computes something else; None where it does not.

    imported  whether it has an importer for an operator of the function's name
    """
    model = node.graph.model
    function = model.functions[node.key]
    if imported or node.op in TAKEN_NAMES:
        return f"this parser ignores domains and would read it as ONNX's own {node.op}"
    if sum(called.proto.name == node.op for called in model.functions.values()) > 1:
        return "this parser finds functions by their name only, and several have this name"
    formal, given = list(function.proto.input), list(node.proto.input)
    if len(formal) != len(given) or not all(given):
        return "an input of the function is left out"
    if len(function.proto.output) != len(node.proto.output) or not all(node.proto.output):
        return "an output of the function is left out"
    if set(formal) & set(function.proto.output):
        return "an output of the function is its input"
    read = set(_references(function))
    lacking = sorted(set(function.proto.attribute) & read - node.attrs.keys())
    if lacking:
        return f"the function's attribute '{lacking[0]}' is left out, and read as 0"
    handed = sorted(_handed_on(function))
    if handed:
        return f"the function's attribute '{handed[0]}' is passed on to a function or a body, and read as 0 there"
    held = next((t.name for scope in scopes_of(function) for t in getattr(scope.proto, "initializer", ())), None)
    if held is not None:
        return f"the function's initializer '{held}', in a body, is read with other numbers at times"
    for place, name in enumerate(given):
        bound = dict(zip(formal[:place], given[:place], strict=True))
        if bound.get(name, name) != name:
            return f"the function's input '{name}' is called like a tensor that is passed on after it"
    return None


def _references(function: Graph) -> Iterator[str]:
    """The attributes of a function that its nodes and their bodies read."""
    for scope in scopes_of(function):
        for node in scope.live():
            yield from _read_by(node)


def _handed_on(function: Graph) -> Iterator[str]:
    """The attributes of a function that a body in it reads, or a call of another function."""
    for scope in scopes_of(function):
        for node in scope.live():
            if scope is not function or node.key in function.model.functions:
                yield from _read_by(node)


def _read_by(node: Node) -> Iterator[str]:
    return (a.ref_attr_name for a in node.proto.attribute if a.ref_attr_name)
