"""Take the branch of an If whose condition is known.

Why       Scripted PyTorch modules and exporters of unknown ranks write If nodes on conditions that
          follow from static shapes.
          TensorRT-RTX 1.7.1 fails to build some bodies, releases before 7.1 have no If, and no pass sees through one.
Rewrites  If(condition) with a condition that can be computed, or that compares static sizes of tensors whose other
          sizes are symbolic   ->   the nodes of the branch taken
Exact     Bit for bit.
Price     None: the branch runs without the If.
"""

from surgeon import Builder, Stage, Value, op, require_some, rule, var
from surgeon.ir.operators import COMPARES, OPERATORS

from ._copy import written_out

CONNECTIVES = {"And": all, "Or": any}


@rule(op.If(var("condition")), stage=Stage.CLEAN)
def constant_if(b, condition):
    taken = require_some(_decided(b, condition), "")
    branch = b.root.body("then_branch" if taken else "else_branch")
    return tuple(written_out(b, branch))


def _decided(b: Builder, value: Value | None) -> bool | None:
    """Whether a condition holds; None where it does not follow from constants and static sizes."""
    if value is None:
        return None
    known = b.value(value)
    if known is not None:
        return bool(known.reshape(-1)[0]) if known.size == 1 else None
    node = value.producer
    if node is None:
        return None
    if node.key in COMPARES:
        pair = [b.elements(v) for v in node.inputs]
        if any(p is None or len(p) != 1 or not isinstance(p[0], int) for p in pair):
            return None
        compare = require_some(OPERATORS[node.key].numpy, "")
        return bool(compare(*(p[0] for p in pair if p is not None)))
    if node.key == "Cast":
        number = b.elements(node.inputs[0])
        if number is not None and len(number) == 1 and isinstance(number[0], int):
            return bool(number[0])
    if node.key in CONNECTIVES:
        return _connected([_decided(b, v) for v in node.inputs], node.key)
    if node.key not in ("Not", "Cast", "Identity", "Squeeze", "Reshape"):
        return None
    inner = _decided(b, node.inputs[0])
    return (not inner) if node.key == "Not" and inner is not None else inner


def _connected(parts: list[bool | None], key: str) -> bool | None:
    """What And or Or makes of conditions; one of them may decide, whatever the other is."""
    decisive = key == "Or"
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive
