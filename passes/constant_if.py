"""Take the branch of an If whose condition is known.

Why       Scripted PyTorch modules and exporters of unknown ranks write If nodes on conditions that
          follow from static shapes.
          TensorRT-RTX 1.7.1 fails to build some bodies, releases before 7.1 have no If, and no pass sees through one.
Rewrites  If(condition) with a condition that can be computed   ->   the nodes of the branch taken
Exact     Bit for bit.
"""

from surgeon import Stage, const, op, require, rule

from ._copy import copied


@rule(op.If(const("condition")), stage=Stage.CLEAN)
def constant_if(b, condition):
    wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    branch = b.root.body(wanted)
    require(
        not any(a.ref_attr_name for n in branch.live_deep() for a in n.proto.attribute),
        "the branch reads an attribute of its function",
    )
    tensors = {
        v.name: b.constant(b.value(v))
        for v in branch.values.values()
        if v.tensor is not None and (v.users or v.is_output)
    }
    copied(b, [n.proto for n in branch.live()], tensors)
    return tuple(tensors.get(v.name, v) for v in branch.outputs)
