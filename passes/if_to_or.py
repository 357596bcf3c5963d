"""Write an If that is one side of `a or b` as Or.

Why       TorchScript computes b of `a or b`, and of `a and b`, in a branch: if h % 8 != 0 or w % 8 != 0: x = pad(x).
          TensorRT-RTX 1.7.1 does not build an If whose condition is such an If, of sizes that a Pad in it reads.
Rewrites  If(a) then true else b    ->   Or(a, b)
          If(a) then false else b   ->   And(Not(a), b)
          If(a) then b else false   ->   And(a, b)
          If(a) then b else true    ->   Or(Not(a), b)
Exact     Bit for bit. b may only be what can be computed whatever a is: arithmetic and comparisons.
Price     None: b is a few numbers, and two kernels less wait for the processor.
"""

from onnx import TensorProto

from surgeon import Builder, Stage, Value, no_match, op, require, rule, var
from surgeon.ir.graph import Graph
from surgeon.ir.operators import ELEMENTWISE, MEASURES

from ._copy import written_out

FORMERLY = "short-circuit"
TOTAL = ELEMENTWISE - {"Div", "Mod"} | MEASURES | {"Constant"}  # none of them can fail on what another one makes


@rule(op.If(var("condition")), stage=Stage.CLEAN)
def short_circuit(b, condition):
    then, other = b.root.body("then_branch"), b.root.body("else_branch")
    require(len(b.root.outputs) == 1 and b.dtype(b.root.outputs[0]) == TensorProto.BOOL)
    for returned, computed, chosen in ((then, other, True), (other, then, False)):
        known = _known(b, returned)
        if known is not None:  # `chosen` is the condition with which it is returned
            decides = condition if known is chosen else b.Not(condition)
            return (b.Or if known else b.And)(decides, _computed(b, condition, computed))
    return no_match()


def _known(b: Builder, branch: Graph) -> bool | None:
    """What a branch returns, where that is one truth that is known."""
    value = b.value(branch.outputs[0])
    return bool(value) if value is not None and value.shape == () else None


def _computed(b: Builder, condition: Value, branch: Graph) -> object:
    """What the other branch returns, computed beside the condition."""
    require(b.shape(condition) == b.shape(branch.outputs[0]) == (), "one of its conditions is not a single number")
    partial = [n.op for n in branch.live() if n.key not in TOTAL]
    require(not partial, f"its branch has {', '.join(partial)}, which may be there for one of the cases alone")
    return written_out(b, branch)[0]
