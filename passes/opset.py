"""Lower the opset to what the parser supports.

Why       No TensorRT parser checks the declared opset: a node of a newer one is read with the older
          meaning, without a warning.
          Up to 9.3 a Reduce whose axes are an input (opset 18) reduces over every axis, Shape ignores start and end,
          GridSample takes 'linear' for nearest.
          ONNX Runtime cannot see such a mistake.
Rewrites  Every node whose definition is newer than the parser, as the older opset spells it:
          axes, pads, split and bounds as attributes where they were   Pad over every axis
          Split into equal or listed parts   Resize with every scale   Softmax along the last axis
          GridSample by its old mode names   GreaterOrEqual -> Or(Greater, Equal)   Clip of double -> Min(Max)
          At every opset, for the same targets, what they read with an older meaning all the same:
          Shape(start, end) -> Slice(Shape)   Reduce over nothing -> its input   Reshape -> Reshape<allowzero = 0>
Exact     Bit for bit.
Price     ONNX Runtime on one thread, [1,64,56,56]: Softmax of the channels 3 nodes, in 1.5 ms as its own;
          GreaterOrEqual 3 nodes, 0.07 next to 0.03; Pad of computed pads 3 to 6 nodes, on numbers of the shape.

It is all or nothing: where a single node cannot be written at the older opset, nothing comes down, a warning says why,
and the report lists what the target would misread. Every node is checked against ONNX's own definition of its operator
at the older opset: inputs, attributes and types.
"""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper

from surgeon import Builder, Decline, Node, Stage, model_rule, require, require_some
from surgeon.ir.attributes import constant_value
from surgeon.ir.model import Model
from surgeon.ir.operators import REDUCES
from surgeon.ir.schemas import MOVED, first_opset, schema
from surgeon.rules.builder import is_rounded

from ._arithmetic import over_nothing
from ._node_at_opset import Plan, Reading, invalid, takes, trimmed, type_name
from ._shapes import sizes_of_all

END = 2**31 - 1  # "to the end" for a parser that reads 32 bits

# Values that came later than their attribute: (operator, attribute, value) -> opset.
VALUES = {
    ("Pad", "mode", "wrap"): 19,
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): 19,
    ("ScatterElements", "reduction", "max"): 18,
    ("ScatterElements", "reduction", "min"): 18,
    ("ScatterND", "reduction", "max"): 18,
    ("ScatterND", "reduction", "min"): 18,
}


def _require_value(r: Reading, name: str, given: str) -> None:
    """Decline where a value of an attribute is newer than the older opset."""
    came = VALUES.get((r.node.op, name, given), 0)
    require(came <= r.opset, f"{name} = '{given}' came with opset {came}")


def _reduce(r: Reading) -> Plan | None:
    if not r.target.lowers_opset:
        return None
    axes = r.attrs.get("axes") if "axes" in r.before.attributes else r.value(1, "axes")
    kept, empty = {"keepdims": r.node.attr("keepdims")}, axes is not None and np.size(axes) == 0
    if not r.node.attr("noop_with_empty_axes"):
        return (lambda b: b.node(r.node.op, [r.data], 1, "", kept)) if empty else None
    if axes is None or empty:
        return lambda b: over_nothing(b, r.node.op, r.data)
    return lambda b: b.node(r.node.op, [r.data], 1, "", {"axes": np.asarray(axes).tolist(), **kept})


def _softmax(r: Reading) -> Plan | None:
    if not r.crosses(13):
        return None
    dims = r.shape(0)
    axis, last = r.node.attr("axis") % len(dims), len(dims) - 1
    if all(d == 1 for d in dims[axis + 1 :]):
        return lambda b: b.node(r.node.op, [r.data], 1, "", {"axis": axis})
    perm = [last if i == axis else axis if i == last else i for i in range(len(dims))]
    return lambda b: b.Transpose(b.node(r.node.op, [b.Transpose(r.data, perm=perm)], 1, "", {"axis": last}), perm=perm)


def _shape(r: Reading) -> Plan | None:
    start, end = r.node.attr("start") or 0, r.attrs.get("end")
    if not r.target.lowers_opset or (start == 0 and end is None):
        return None
    why = invalid(r.older, [(True, r.kind(r.data))], {}, []) if r.changed else ""
    require(not why, why)
    sizes = r.model.shape(r.data)
    if sizes is not None and sizes[start:end] == sizes:
        return lambda b: b.Shape(r.data)
    return lambda b: b.Slice(b.Shape(r.data), starts=[start], ends=[END if end is None else end], axes=[0])


def _expand(r: Reading) -> Plan | None:
    """ONNX wants one dimension of its shape, and ONNX Runtime checks that at older opsets alone."""
    require(not r.changed or len(r.shape(1)) == 1, "its shape has not one dimension")
    return None


def _or_equal(r: Reading) -> Plan | None:
    if r.after is not None:
        return None
    inputs = [r.data, r.input(1)]
    return lambda b: b.Or(b.node(r.node.op.removesuffix("OrEqual"), inputs, 1, "", {}), b.Equal(*inputs))


def _constant(r: Reading) -> Plan | None:
    if set(r.attrs) <= set(r.older.attributes):
        return None
    array = require_some(constant_value(r.node.proto), "each call of the function says what it is")
    return lambda b: b.constant(array)


def _clip(r: Reading) -> Plan | None:
    """ONNX Runtime has Clip for double from opset 12 on, and Max and Min at every one."""
    if not r.crosses(12) or r.kind(r.data) != TensorProto.DOUBLE:
        return None
    low, high = r.input(1), r.input(2)

    def plan(b: Builder) -> Any:
        above = r.data if low is None else b.Max(r.data, low)
        return above if high is None else b.Min(above, high)

    return plan


def _dropout(r: Reading) -> Plan | None:
    if not r.crosses(12):
        return None
    training = r.value(2, "training mode")
    is_read = any(o is not None and o.is_read for o in r.node.outputs[1:])
    require(not is_read and (training is None or not training.any()), "it may be in training mode, or its mask is read")
    return lambda b: (b.Identity(r.data), *[None] * (len(r.node.outputs) - 1))


def _split(r: Reading) -> Plan | None:
    count = r.attrs.get("num_outputs")
    if count is None or "num_outputs" in r.older.attributes:
        return None
    axis = r.node.attr("axis")
    size = r.shape(0)[axis]
    if not isinstance(size, int):
        raise Decline("it splits a dimension of unknown size into a number of parts")
    chunk = -(-size // count)
    sizes = [max(0, min(chunk, size - chunk * k)) for k in range(count)]
    return lambda b: b.node("Split", [r.data], len(r.node.outputs), "", {"axis": axis, "split": sizes})


def _reshape(r: Reading) -> Plan | None:
    if "allowzero" in r.older.attributes:
        if r.editor.why_unsupported(r.node) is None or "allowzero" in r.attrs:
            return None
        return lambda b: b.Reshape(r.data, r.input(1), allowzero=0)  # the default, which the parser asks for
    if not r.node.attr("allowzero"):
        return None
    known = r.editor.builder(r.node)
    sizes, given = known.elements(r.input(1)), known.dims(r.data) or []
    require(0 not in (sizes or ()), "allowzero came with opset 14, and its shape has a 0")
    alike = sizes is not None and all(
        isinstance(size, int) or (size is not None and size == own)
        for size, own in zip_longest(sizes, given[: len(sizes)])
    )
    exact = alike or (sizes is not None and -1 in sizes)  # with allowzero, ONNX allows no 0 beside -1

    def plan(b: Builder) -> Any:
        if not exact:
            r.editor.warn("allowzero is left out: where a Reshape gets no elements, this parser would read other sizes")
        return b.Reshape(r.data, r.input(1))

    return plan


def _pad(r: Reading) -> Plan | None:
    if r.input(3) is None or r.target.pad_axes_input:
        return None
    rank = len(r.shape(0))
    axes = [int(a) % rank for a in r.given(3, "axes")]
    pads, mode = r.model.constant(r.input(1)), r.node.attr("mode")
    _require_value(r, "mode", mode)

    def plan(b: Builder) -> Any:
        if pads is None:  # the pads are computed: put each in its place
            parts = [b.Slice(r.input(1), starts=[k], ends=[k + 1], axes=[0]) for k in range(2 * len(axes))]
        else:
            parts = [np.asarray([p], np.int64) for p in pads.reshape(-1)]
        full = [np.zeros(1, np.int64)] * (2 * rank)
        for k, axis in enumerate(axes):
            full[axis], full[rank + axis] = parts[k], parts[len(axes) + k]
        every = np.concatenate(full) if pads is not None else b.Concat(*full, axis=0)
        return b.Pad(r.data, pads=every, value=r.input(2), mode=mode)

    return plan


def _resize(r: Reading) -> Plan | None:
    if r.after is None or not r.changed:
        return None
    for name, wanted in (("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        given = r.attrs.get(name, wanted)
        require(given == wanted, f"{name} = {given} came with opset 18")
    mode = r.attrs.get("coordinate_transformation_mode", "")
    is_there = VALUES.get(("Resize", "coordinate_transformation_mode", mode), 0) <= r.opset
    require(is_there, "coordinate_transformation_mode 'half_pixel_symmetric' came with opset 19")
    if r.opset < 11:
        return None
    attrs = {k: v for k, v in r.attrs.items() if k in r.older.attributes}
    axes = r.attrs.get("axes")
    if axes is None and r.older.since_version >= 13:
        return None
    require(axes is None or mode != "tf_crop_and_resize", "axes with a region of interest came with opset 18")
    dims = r.shape(0)
    scales = r.value(2, "scales")
    empty = None if r.older.since_version >= 13 else np.empty(0, np.float32)
    places = range(len(dims)) if axes is None else [a % len(dims) for a in axes]

    def plan(b: Builder) -> Any:
        sizes = r.input(3)
        if sizes is None:
            every = np.ones(len(dims), np.float32)
            every[list(places)] = scales
            return b.node("Resize", [r.data, r.input(1) or empty, every], 1, "", attrs)
        whole = sizes if axes is None else sizes_of_all(b, r.data, dims, places, sizes)
        return b.node("Resize", [r.data, r.input(1) or empty, empty, whole], 1, "", attrs)

    return plan


def _mod(r: Reading) -> Plan | None:
    whole = r.kind(r.data) in (TensorProto.INT32, TensorProto.INT64)
    is_there = whole or r.node.attr("fmod") or not r.crosses(28)
    require(is_there, "fmod = 0 of floating-point numbers came with opset 28")
    return None


def _average_pool(r: Reading) -> Plan | None:
    """With strides above the kernel SAME_UPPER may take away from the input: ONNX Runtime does so from opset 19 on."""
    upper, kernel = r.node.attr("auto_pad") == "SAME_UPPER", r.attrs.get("kernel_shape", [])
    strides = r.attrs.get("strides") or [1] * len(kernel)
    plain = all(d == 1 for d in r.attrs.get("dilations", []))
    same = upper or r.node.attr("auto_pad") == "SAME_LOWER"
    if not (r.crosses(19) and same and plain and any(s > k for s, k in zip(strides, kernel, strict=True))):
        return None
    spatial = r.shape(0)[2:]
    sizes = [n for n in spatial if isinstance(n, int)]
    require(len(sizes) == len(spatial), "its strides are above its kernel, and its sizes are not static")
    rows = zip(sizes, strides, kernel, strict=True)
    total = [max((-(-n // stride) - 1) * stride + k - n, 0) for n, stride, k in rows]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    attrs = {name: v for name, v in r.attrs.items() if name in r.older.attributes and name != "auto_pad"}
    pads = [*less, *more] if upper else [*more, *less]
    return lambda b: b.AveragePool(r.data, **attrs | {"pads": pads})


def _grid_sample(r: Reading) -> Plan | None:
    old = {"linear": "bilinear", "cubic": "bicubic"}.get(r.node.attr("mode"))
    if r.after is None or old is None or not r.crosses(20):
        return None
    require(len(r.shape(0)) == 4, "more than two spatial dimensions came with opset 20")
    attrs = {k: v for k, v in r.attrs.items() if k != "mode"} | {"mode": old}
    return lambda b: b.node("GridSample", list(r.node.inputs), 1, "", attrs)


# What writes an operator for an older opset: each has a function of its own.
STEPS: dict[str, Callable[[Reading], Plan | None]] = {
    "AveragePool": _average_pool,
    "Clip": _clip,
    "Constant": _constant,
    "Dropout": _dropout,
    "Expand": _expand,
    "GreaterOrEqual": _or_equal,
    "GridSample": _grid_sample,
    "Hardmax": _softmax,
    "LessOrEqual": _or_equal,
    "LogSoftmax": _softmax,
    "Mod": _mod,
    "Pad": _pad,
    **dict.fromkeys(REDUCES, _reduce),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Softmax": _softmax,
    "Split": _split,
}


# What a new attribute must be for the node to mean what the operator did before it had the attribute, where that is not
# the attribute's default.
NEUTRAL = {
    ("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel",
    ("Resize", "coordinate_transformation_mode"): "asymmetric",
    ("Resize", "nearest_mode"): "floor",
}

# What a step writes in place of an operator, where that is not the operator itself: their types are asked for.
WRITES = {
    "Clip": ("Max", "Min"),
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
            require(plan is None or not editor.excluded(node), "its rewrite is left out, or could not be proved")
            why = "" if plan is None else _why_invalid(node, editor.model)
            require(not why, why)
        except Decline as refusal:
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
        editor.model.types.infer()
        editor.model.lower_opset(target.opset)
    for node, plan, _ in plans:
        builder = editor.builder(node)
        outputs = plan(builder)
        for made in builder.made:
            why = _why_invalid(made, editor.model)
            assert not why, f"{made.text}: {why}"
        editor.replace(node, outputs if isinstance(outputs, tuple) else (outputs,), builder)


def _plan(r: Reading) -> Plan | None:
    """What makes the node's replacement, given a builder; None where the node may stay as it is."""
    special = STEPS.get(r.node.key)
    plan = special(r) if special is not None else None
    if plan is not None and r.changed:
        for op in WRITES.get(r.node.op, (r.node.op,)):
            spec = require_some(schema(op, "", r.opset), f"{op} is not in opset {r.opset}")
            name = type_name(r.kind(r.input(0)))
            taken = takes(spec, spec.inputs[0], name)
            require(taken, f"{op} takes no {name or 'tensor of unknown type'} at opset {r.opset}")
    if plan is not None or not r.changed:
        return plan
    return _respelled(r, require_some(r.after, f"{r.node.op} came with opset {first_opset(r.node.op)}"))


def _respelled(r: Reading, after: defs.OpSchema) -> Plan | None:
    """The same node in the older spelling; None where it is valid as it is."""
    op, node = r.node.op, r.node
    attrs: dict[str, Any] = {}
    for name in sorted({*r.attrs, *r.before.attributes, *after.attributes}):
        given = node.attr(name)
        if name in after.attributes:
            if given is not None and (name in r.attrs or given != _default(after, name)):
                attrs[name] = given
        elif given is not None and name not in MOVED.get(op, {}):
            require(_neutral(op, name, given, r.before), f"{name} = {given} came with a later opset")
        if isinstance(given, str):
            _require_value(r, name, given)
    moved: set[int] = set()
    for name, position in MOVED.get(op, {}).items():
        if name in after.attributes and r.input(position) is not None:
            attrs[name] = _attribute(name, r.given(position, name))
            moved.add(position)
    inputs = trimmed([None if k in moved else v for k, v in enumerate(node.inputs)])
    why = invalid(after, [(v is not None, r.kind(v)) for v in inputs], attrs, [r.kind(v) for v in node.outputs])
    require(not why, why)
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
        require(not is_rounded(found), f"{name} = {found:g} does not fit into an attribute")
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


def _why_invalid(node: Node, model: Model) -> str:
    """Why a node is invalid at the opset that the model has now; empty where it is valid."""
    spec = model.schema(node)
    if spec is None:
        return f"{node.op} is not in the opset"
    inputs = [(v is not None, model.dtype(v) if v is not None else 0) for v in trimmed(node.inputs)]
    return invalid(spec, inputs, node.attrs, [0 if o is None else model.dtype(o) for o in node.outputs])
