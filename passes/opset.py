"""Lower the opset to what the parser supports.

Why       No TensorRT parser checks the declared opset: a node of a newer one is read with the older
          meaning, without a warning.
          Up to 9.3 a Reduce whose axes are an input (opset 18) reduces over every axis, Shape ignores start and end,
          GridSample takes 'linear' for nearest.
          ONNX Runtime cannot see such a mistake.
Rewrites  Every node whose definition is newer than the parser, as the older opset spells it:
          axes, pads, split and bounds as attributes where they were   Pad over every axis
          Split into equal or listed parts   Resize with every scale   Softmax along the last axis
          GridSample by its old mode names   GreaterOrEqual -> Or(Greater, Equal)
          At every opset, for the same targets, what they read with an older meaning all the same:
          Shape(start, end) -> Slice(Shape)   Reduce over nothing -> its input   Reshape -> Reshape<allowzero = 0>
Exact     Bit for bit.
Price     ONNX Runtime on one thread, [1,64,56,56]: Softmax of the channels 3 nodes, in 1.5 ms as its own;
          GreaterOrEqual 3 nodes, 0.07 next to 0.03; Pad of computed pads 3 to 6 nodes, on numbers of the shape.

It is all or nothing: where a single node cannot be written at the older opset, nothing comes down, a warning says why,
and the report lists what the target would misread. Every node is checked against ONNX's own definition of its operator
at the older opset: inputs, attributes and types.
"""

from typing import Any

import numpy as np
from onnx import defs, helper

from surgeon import Node, Stage, model_rule
from surgeon.ir.model import Model
from surgeon.ir.schemas import MOVED, first_opset, schema
from surgeon.rules.builder import is_rounded

from ._node_at_opset import Plan, Reading, Refused, invalid, takes, trimmed, type_name
from ._opset_downgrades import STEPS, VALUES

# What a new attribute must be for the node to mean what the operator did before it had the attribute, where that is not
# the attribute's default.
NEUTRAL = {
    ("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel",
    ("Resize", "coordinate_transformation_mode"): "asymmetric",
    ("Resize", "nearest_mode"): "floor",
}

# What a step writes in place of an operator, where that is not the operator itself: their types are asked for.
WRITES = {
    "Constant": (),
    "Dropout": ("Identity",),
    "GreaterOrEqual": ("Greater", "Equal"),
    "LessOrEqual": ("Less", "Equal"),
}


# ---- the pass --------------------------------------------------------------------------------------------------------


@model_rule(stage=Stage.LOWER)
def opset(editor):
    target = editor.target
    lowers = target.lowers_opset and any(editor.model.opset_in(g) > target.opset for g in editor.model.scopes)
    plans, refused = [], []
    for node in editor.nodes(lambda key: "::" not in key and (lowers or key in STEPS)):
        before = editor.model.schema(node)
        if before is None:
            continue
        now = editor.model.opset_in(node.graph)
        reading = Reading(editor, node, before, min(now, target.opset) if lowers else now)
        try:
            plan = _plan(reading)
            if plan is not None and editor.excluded(node):
                raise Refused("its rewrite is left out, or could not be proved")
        except Refused as refusal:
            refused.append((node, str(refusal), reading.changed))
            editor.decline(node, str(refusal))
            continue
        if plan is not None:
            plans.append((node, plan, reading.changed))
    fatal = [(node, why) for node, why, changed in refused if changed]
    if fatal:
        node, why = fatal[0]
        more = f", and {len(fatal) - 1} more" if len(fatal) > 1 else ""
        editor.warn(
            f"the opset stays at {editor.model.opset}, and TensorRT {target} reads {target.opset} at most: "
            f"{node.label} cannot be written at opset {target.opset}: {why}{more}"
        )
        plans = [p for p in plans if not p[2]]
    elif lowers:
        editor.model.infer()
        editor.model.lower_opset(target.opset)
    for node, plan, _ in plans:
        builder = editor.builder(node)
        outputs = plan(builder)
        for made in builder.made:
            _check_made(made, editor.model)
        editor.replace(node, outputs if isinstance(outputs, tuple) else (outputs,), builder)
    return bool(plans)


def _plan(r: Reading) -> Plan | None:
    """What makes the node's replacement, given a builder; None where the node may stay as it is."""
    special = STEPS.get(r.node.key)
    plan = special(r) if special is not None else None
    if plan is not None and r.changed:
        for op in WRITES.get(r.node.op, (r.node.op,)):
            _require_types(r, op)
    if plan is not None or not r.changed:
        return plan
    if r.after is None:
        raise Refused(f"{r.node.op} came with opset {first_opset(r.node.op)}")
    return _respelled(r, r.after)


def _require_types(r: Reading, op: str) -> None:
    """Refuse where the operator that a step writes does not take the node's tensors at the older opset."""
    spec = schema(op, "", r.opset)
    if spec is None:
        raise Refused(f"{op} is not in opset {r.opset}")
    name = type_name(r.kind(r.input(0)))
    if not takes(spec, spec.inputs[0], name):
        raise Refused(f"{op} takes no {name or 'tensor of unknown type'} at opset {r.opset}")


def _respelled(r: Reading, after: defs.OpSchema) -> Plan | None:
    """The same node in the older spelling; None where it is valid as it is."""
    op, node = r.node.op, r.node
    attrs: dict[str, Any] = {}
    for name in sorted({*r.attrs, *r.before.attributes, *after.attributes}):
        given = node.attr(name)
        if name in after.attributes:
            if given is not None and (name in r.attrs or given != _default(after, name)):
                attrs[name] = given
        elif given is not None and name not in MOVED.get(op, {}) and not _neutral(op, name, given, r.before):
            raise Refused(f"{name} = {given} came with a later opset")
        if isinstance(given, str) and VALUES.get((op, name, given), 0) > r.opset:
            raise Refused(f"{name} = '{given}' came with opset {VALUES[op, name, given]}")
    moved: set[int] = set()
    for name, position in MOVED.get(op, {}).items():
        if name in after.attributes and r.input(position) is not None:
            attrs[name] = _attribute(name, r.given(position, name))
            moved.add(position)
    inputs = trimmed([None if k in moved else v for k, v in enumerate(node.inputs)])
    why = invalid(after, [(v is not None, r.kind(v)) for v in inputs], attrs, [r.kind(v) for v in node.outputs])
    if why:
        raise Refused(why)
    named = len(inputs) == len(node.inputs) or len(node.inputs) <= after.max_input
    if not moved and attrs == r.attrs and named:  # a parser supports an empty name for an input as well
        return None
    # `node.inputs` is read when the plan runs: another plan may have put a new tensor there
    return lambda b: b.node(
        op, [None if k in moved else v for k, v in enumerate(node.inputs)], len(node.outputs), "", attrs
    )


def _attribute(name: str, array: np.ndarray) -> float | list[Any]:
    """An input's value as the attribute that it was: a number for Clip, Pad's value and TopK, else a list."""
    if name in ("min", "max", "value"):
        found = float(array.reshape(-1)[0])
        if is_rounded(found):
            raise Refused(f"{name} = {found:g} does not fit into an attribute")
        return found
    return int(array.reshape(-1)[0]) if name == "k" else array.reshape(-1).tolist()


def _default(spec: defs.OpSchema, name: str) -> Any:
    default = spec.attributes[name].default_value
    if not default.name:
        return None
    found = helper.get_attribute_value(default)
    return found.decode() if isinstance(found, bytes) else found


def _neutral(op: str, name: str, given: Any, before: defs.OpSchema) -> bool:
    """Whether an attribute that the older operator lacks says what that does anyway."""
    if name == "dilations":
        return all(d == 1 for d in given)
    return given == NEUTRAL.get((op, name), _default(before, name))


def _check_made(node: Node, model: Model) -> None:
    """Assert that a node that a plan made is valid at the opset that the model has now."""
    spec = model.schema(node)
    inputs = [(v is not None, model.dtype(v) if v is not None else 0) for v in trimmed(node.inputs)]
    why = (
        f"{node.op} is not in the opset"
        if spec is None
        else invalid(spec, inputs, node.attrs, [0 if o is None else model.dtype(o) for o in node.outputs])
    )
    assert not why, f"{node.text}: {why}"
