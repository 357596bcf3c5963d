"""Bring the opset down to what the parser really reads.

Why       No TensorRT parser checks the declared opset: a node of a newer one is read with the older
          meaning, without a word.
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

It is all or nothing: where a single node cannot be written at the older opset, nothing comes down, a warning says why,
and the report lists what the target would misread. Every node is checked against ONNX's own definition of its operator
at the older opset: inputs, attributes and types.
"""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper

from surgeon import Stage, rewrite_model
from surgeon.ir.attributes import constant_value
from surgeon.ir.schemas import MOVED, schema
from surgeon.rules.builder import is_rounded

from ._reduction import over_nothing
from ._shapes import dims, elements

END = 2**31 - 1  # "to the end" for a parser that reads 32 bits

# What a new attribute must be for the node to mean what the operator did before it had the attribute, where that is not
# the attribute's default.
NEUTRAL = {
    ("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel",
    ("Resize", "coordinate_transformation_mode"): "asymmetric",
    ("Resize", "nearest_mode"): "floor",
}

# Values that came later than their attribute: (operator, attribute, value) -> opset.
VALUES = {
    ("Pad", "mode", "wrap"): 19,
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): 19,
    ("ScatterElements", "reduction", "max"): 18,
    ("ScatterElements", "reduction", "min"): 18,
    ("ScatterND", "reduction", "max"): 18,
    ("ScatterND", "reduction", "min"): 18,
}

# The types that a tensor of unknown type may be taken to have.
ORDINARY = ("tensor(float)", "tensor(float16)", "tensor(int32)", "tensor(int64)", "tensor(bool)")


# How ONNX's definitions begin the types of what is no tensor, by the field of the TypeProto.
BEGINNINGS = {"sequence_type": "seq(", "optional_type": "optional("}


# What a step writes in place of an operator, where that is not the operator alone.
WRITES = {
    "Constant": (),
    "Dropout": ("Identity",),
    "GreaterOrEqual": ("Greater", "Equal"),
    "Hardmax": ("Hardmax", "Transpose"),
    "LessOrEqual": ("Less", "Equal"),
    "LogSoftmax": ("LogSoftmax", "Transpose"),
    "Softmax": ("Softmax", "Transpose"),
}


class Refused(Exception):
    """The node cannot be written at the older opset; the message is the reason."""


class Reading:
    """A node as the file's opset reads it. Everything is looked up before the opset comes down."""

    def __init__(self, editor, node, before, opset):
        self.editor, self.model, self.target = editor, editor.model, editor.target
        self.node, self.opset = node, opset
        self.before = before  # the operator's definition at the file's opset
        self.after = schema(node.op, "", opset)
        self.attrs = dict(node.attrs)

    @property
    def changed(self):
        """Whether the operator's definition is another one at the older opset."""
        return self.after is None or self.before.since_version != self.after.since_version

    def crosses(self, opset):
        """Whether the definition that came with `opset` is left behind."""
        return self.before.since_version >= opset > (0 if self.after is None else self.after.since_version)

    def input(self, position):
        return self.node.inputs[position] if position < len(self.node.inputs) else None

    def value(self, position, what):
        """The value of an input that must be constant; None where it is left out."""
        given = self.input(position)
        if given is None:
            return None
        found = self.model.constant(given)
        if found is None:
            raise Refused(f"its {what} are computed at run time")
        return found

    def shape(self, position):
        found = self.model.shape(self.input(position))
        if found is None:
            raise Refused("its rank is not known")
        return found

    def dtype(self, value):
        """The type of a tensor, 0 where it is not known; for a sequence or an optional how its types begin."""
        if value is None:
            return 0
        return self.model.dtype(value) or BEGINNINGS.get(self.model.kind(value), 0)


STEPS: dict[str, Callable[..., Any]] = {}


def step(operators):
    """Mark a function that gives the plan for a node, or None where the general one will do; it raises Refused."""

    def mark(body):
        STEPS.update(dict.fromkeys(operators.split(), body))
        return body

    return mark


# ---- the pass --------------------------------------------------------------------------------------------------------


@rewrite_model(stage=Stage.LOWER)
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


def _plan(r):
    """What makes the node's replacement, given a builder; None where the node may stay as it is."""
    special = STEPS.get(r.node.key)
    plan = special(r) if special is not None else None
    if plan is not None and r.changed:
        for op in WRITES.get(r.node.op, (r.node.op,)):
            _require_types(r, op)
    if plan is not None or not r.changed:
        return plan
    if r.after is None:
        raise Refused(f"{r.node.op} came with opset {_first(r.node.op)}")
    return _respelled(r)


def _require_types(r, op):
    """Refuse where the operator that a step writes does not take the node's tensors at the older opset."""
    spec = schema(op, "", r.opset)
    if spec is None:
        raise Refused(f"{op} is not in opset {r.opset}")
    name = _type_name(r.dtype(r.input(0)))
    if not _takes(spec, spec.inputs[0], name):
        raise Refused(f"{op} takes no {name or 'tensor of unknown type'} at opset {r.opset}")


def _respelled(r):
    """The same node in the older spelling; None where it is valid as it stands."""
    op, node = r.node.op, r.node
    attrs = {}
    for name in {*r.attrs, *r.before.attributes, *r.after.attributes}:
        given = node.attr(name)
        if name in r.after.attributes:
            if given is not None and (name in r.attrs or given != _default(r.after, name)):
                attrs[name] = given
        elif given is not None and name not in MOVED.get(op, {}) and not _neutral(op, name, given, r.before):
            raise Refused(f"{name} = {given} came with a later opset")
        if isinstance(given, str) and VALUES.get((op, name, given), 0) > r.opset:
            raise Refused(f"{name} = '{given}' came with opset {VALUES[op, name, given]}")
    moved = set()
    for name, position in MOVED.get(op, {}).items():
        if name in r.after.attributes and r.input(position) is not None:
            attrs[name] = _attribute(op, name, r.value(position, name))
            moved.add(position)
    inputs = _trimmed([None if k in moved else v for k, v in enumerate(node.inputs)])
    why = _invalid(r.after, [(v is not None, r.dtype(v)) for v in inputs], attrs, [r.dtype(v) for v in node.outputs])
    if why:
        raise Refused(why)
    named = len(inputs) == len(node.inputs) or len(node.inputs) <= r.after.max_input
    if not moved and attrs == r.attrs and named:  # a parser takes an empty name for an input as well
        return None
    # `node.inputs` is read when the plan runs: another plan may have put a new tensor there
    return lambda b: b.node(
        op, [None if k in moved else v for k, v in enumerate(node.inputs)], len(node.outputs), "", attrs
    )


def _attribute(op, name, array):
    """An input's value as the attribute that it was: a number for Clip, Pad's value and TopK, else a list."""
    if name in ("min", "max", "value"):
        found = float(array.reshape(-1)[0])
        if is_rounded(found):
            raise Refused(f"{name} = {found:g} does not fit into an attribute")
        return found
    return int(array.reshape(-1)[0]) if name == "k" else array.reshape(-1).tolist()


def _trimmed(inputs):
    found = list(inputs)
    while found and found[-1] is None:
        found.pop()
    return found


def _default(spec, name):
    default = spec.attributes[name].default_value
    if not default.name:
        return None
    found = helper.get_attribute_value(default)
    return found.decode() if isinstance(found, bytes) else found


def _neutral(op, name, given, before):
    """Whether an attribute that the older operator lacks says what that does anyway."""
    if name == "dilations":
        return all(d == 1 for d in given)
    return given == NEUTRAL.get((op, name), _default(before, name))


def _first(op):
    """The opset with which an operator came."""
    return min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == op and s.domain == "")


# ---- validity, by ONNX's own definitions -----------------------------------------------------------------------------


def _invalid(spec, inputs, attrs, outputs):
    """Why a node is not valid by its operator's definition; empty where it is. `inputs`: (given, type), 0 unknown."""
    if spec.deprecated:
        return f"{spec.name} is deprecated"
    if not spec.min_input <= len(inputs) <= spec.max_input or len(outputs) > spec.max_output:
        return f"{len(inputs)} inputs and {len(outputs)} outputs are not what it takes"
    for name, attribute in spec.attributes.items():
        if attribute.required and name not in attrs:
            return f"{name} is left out"
    unknown = set(attrs) - set(spec.attributes)
    if unknown:
        return f"it has no {', '.join(sorted(unknown))}"
    bound: dict[str, str] = {}
    for formals, given in ((spec.inputs, inputs), (spec.outputs, [(True, t) for t in outputs])):
        for position, (present, dtype) in enumerate(given):
            formal = formals[min(position, len(formals) - 1)]
            if not present:
                if formal.option == defs.OpSchema.FormalParameterOption.Single:
                    return f"its input {formal.name} is left out"
                continue
            name = _type_name(dtype)
            if not _takes(spec, formal, name):
                return f"its {formal.name} is {_spoken(name)}"
            homogeneous = formal.option != defs.OpSchema.FormalParameterOption.Variadic or formal.is_homogeneous
            if name and homogeneous and bound.setdefault(formal.type_str, name) != name:
                return f"its {formal.name} is {name} beside {bound[formal.type_str]}"
    return ""


def _takes(spec, formal, name):
    """Whether an operator takes a type there; of an unknown one, all ordinary types that its newest form takes."""
    allowed = _allowed(spec, formal)
    if name in BEGINNINGS.values():
        return any(a.startswith(name) for a in allowed)
    return name in allowed if name else set(ORDINARY) & _all_types(spec, formal) <= allowed


def _allowed(spec, formal):
    for constraint in spec.type_constraints:
        if constraint.type_param_str == formal.type_str:
            return set(constraint.allowed_type_strs)
    return {formal.type_str}


def _all_types(spec, formal):
    """The types that the newest definition of the operator takes there."""
    newest = schema(spec.name, "", defs.onnx_opset_version()) or spec
    same = [f for f in (*newest.inputs, *newest.outputs) if f.name == formal.name]
    return _allowed(newest, same[0]) if same else _allowed(spec, formal)


def _type_name(dtype):
    if isinstance(dtype, str):
        return dtype
    return f"tensor({_TYPES[dtype]})" if dtype in _TYPES else ""


def _spoken(name):
    return {"": "of unknown type", "seq(": "a sequence", "optional(": "an optional"}.get(name, name)


_TYPES = {
    value: {"DOUBLE": "double", "FLOAT": "float"}.get(name, name.lower())
    for name, value in TensorProto.DataType.items()
    if name != "UNDEFINED"
}


def _check_made(node, model):
    spec = model.schema(node)
    inputs = [(v is not None, model.dtype(v) if v is not None else 0) for v in _trimmed(node.inputs)]
    why = (
        f"{node.op} is not in the opset"
        if spec is None
        else _invalid(spec, inputs, node.attrs, [0 if o is None else model.dtype(o) for o in node.outputs])
    )
    assert not why, f"{node.text}: {why}"


# ---- operators whose change is more than a spelling ------------------------------------------------------------------


@step(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
def reduce(r):
    if not r.target.lowers_opset or not r.node.attr("noop_with_empty_axes"):
        return None
    axes = r.attrs.get("axes") if "axes" in r.before.attributes else r.value(1, "axes")
    if axes is None or np.size(axes) == 0:
        return lambda b: over_nothing(b, r.node.op, r.input(0))
    kept = {"keepdims": r.node.attr("keepdims")}
    return lambda b: b.node(r.node.op, [r.input(0)], 1, "", {"axes": np.asarray(axes).tolist(), **kept})


@step("Softmax LogSoftmax Hardmax")
def softmax(r):
    if not r.crosses(13):
        return None
    dims = r.shape(0)
    axis, last = r.node.attr("axis") % len(dims), len(dims) - 1
    if all(d == 1 for d in dims[axis + 1 :]):
        return lambda b: b.node(r.node.op, [r.input(0)], 1, "", {"axis": axis})
    perm = [last if i == axis else axis if i == last else i for i in range(len(dims))]
    return lambda b: b.Transpose(
        b.node(r.node.op, [b.Transpose(r.input(0), perm=perm)], 1, "", {"axis": last}), perm=perm
    )


@step("Shape")
def shape(r):
    start, end = r.node.attr("start") or 0, r.attrs.get("end")
    if not r.target.lowers_opset or (start == 0 and end is None):
        return None
    why = _invalid(r.after, [(True, r.dtype(r.input(0)))], {}, []) if r.changed else ""
    if why:
        raise Refused(why)
    sizes = r.model.shape(r.input(0))
    if sizes is not None and sizes[start:end] == sizes:
        return lambda b: b.Shape(r.input(0))
    return lambda b: b.Slice(b.Shape(r.input(0)), starts=[start], ends=[END if end is None else end], axes=[0])


@step("GreaterOrEqual")
def greater_or_equal(r):
    return (
        None
        if r.after is not None
        else lambda b: b.Or(b.Greater(r.input(0), r.input(1)), b.Equal(r.input(0), r.input(1)))
    )


@step("LessOrEqual")
def less_or_equal(r):
    return (
        None if r.after is not None else lambda b: b.Or(b.Less(r.input(0), r.input(1)), b.Equal(r.input(0), r.input(1)))
    )


@step("Constant")
def constant(r):
    if set(r.attrs) <= set(r.after.attributes):
        return None
    array = constant_value(r.node.proto)
    if array is None:
        raise Refused("each call of the function says what it is")
    return lambda b: b.constant(array)


@step("Dropout")
def dropout(r):
    if not r.crosses(12):
        return None
    training = r.value(2, "training mode")
    if (training is not None and training.any()) or any(
        o is not None and (o.users or o.is_output) for o in r.node.outputs[1:]
    ):
        raise Refused("it may be in training mode, or its mask is read")
    return lambda b: (b.Identity(r.input(0)), *[None] * (len(r.node.outputs) - 1))


@step("Split")
def split(r):
    count = r.attrs.get("num_outputs")
    if count is None or "num_outputs" in r.after.attributes:
        return None
    axis = r.node.attr("axis") or 0
    size = r.shape(0)[axis]
    if not isinstance(size, int):
        raise Refused("it splits a dimension of unknown size into a number of parts")
    chunk = -(-size // count)
    sizes = [max(0, min(chunk, size - chunk * k)) for k in range(count)]
    return lambda b: b.node("Split", [r.input(0)], len(r.node.outputs), "", {"axis": axis, "split": sizes})


@step("Reshape")
def reshape(r):
    if "allowzero" in r.after.attributes:
        if not r.target.takes(r.node) or "allowzero" in r.attrs:
            return None
        return lambda b: b.Reshape(r.input(0), r.input(1), allowzero=0)  # the default, which the parser asks for
    if not r.node.attr("allowzero"):
        return None
    known = r.editor.builder(r.node)
    sizes, given = elements(known, r.input(1)), dims(known, r.input(0)) or []
    if sizes is not None and 0 in sizes:
        raise Refused("allowzero came with opset 14, and its shape has a 0")
    alike = sizes is not None and all(
        isinstance(size, int) or (size is not None and size == own)
        for size, own in zip_longest(sizes, given[: len(sizes)])
    )
    exact = alike or (sizes is not None and -1 in sizes)  # with allowzero, ONNX allows no 0 beside -1

    def plan(b):
        if not exact:
            r.editor.warn("allowzero is left out: where a Reshape gets no elements, this parser would read other sizes")
        return b.Reshape(r.input(0), r.input(1))

    return plan


@step("Pad")
def pad(r):
    if r.input(3) is None or r.target.pad_axes_input:
        return None
    rank = len(r.shape(0))
    axes = [int(a) % rank for a in r.value(3, "axes")]
    pads, mode = r.model.constant(r.input(1)), r.node.attr("mode")
    if VALUES.get(("Pad", "mode", mode), 0) > r.opset:
        raise Refused(f"mode = '{mode}' came with opset {VALUES['Pad', 'mode', mode]}")

    def plan(b):
        if pads is None:  # the pads are computed: put each in its place
            parts = [b.Slice(r.input(1), starts=[k], ends=[k + 1], axes=[0]) for k in range(2 * len(axes))]
        else:
            parts = [np.asarray([p], np.int64) for p in pads.reshape(-1)]
        full = [np.zeros(1, np.int64)] * (2 * rank)
        for k, axis in enumerate(axes):
            full[axis], full[rank + axis] = parts[k], parts[len(axes) + k]
        every = np.concatenate(full) if pads is not None else b.Concat(*full, axis=0)
        return b.Pad(r.input(0), pads=every, value=r.input(2), mode=mode)

    return plan


@step("Resize")
def resize(r):
    if r.after is None or not r.changed:
        return None
    for name, wanted in (("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        if r.attrs.get(name, wanted) != wanted:
            raise Refused(f"{name} = {r.attrs[name]} came with opset 18")
    if (
        VALUES.get(("Resize", "coordinate_transformation_mode", r.attrs.get("coordinate_transformation_mode")), 0)
        > r.opset
    ):
        raise Refused("coordinate_transformation_mode 'half_pixel_symmetric' came with opset 19")
    if r.opset < 11:
        return None
    attrs = {k: v for k, v in r.attrs.items() if k in r.after.attributes}
    axes = r.attrs.get("axes")
    if axes is None and r.after.since_version >= 13:
        return None
    if axes is not None and r.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Refused("axes with a region of interest came with opset 18")
    dims = r.shape(0)
    scales = r.value(2, "scales")
    empty = None if r.after.since_version >= 13 else np.empty(0, np.float32)
    places = range(len(dims)) if axes is None else [a % len(dims) for a in axes]

    def plan(b):
        sizes = r.input(3)
        if sizes is None:
            every = np.ones(len(dims), np.float32)
            every[list(places)] = scales
            return b.node("Resize", [r.input(0), r.input(1) or empty, every], 1, "", attrs)
        whole = sizes if axes is None else _all_sizes(b, r.input(0), dims, places, sizes)
        return b.node("Resize", [r.input(0), r.input(1) or empty, empty, whole], 1, "", attrs)

    return plan


def _all_sizes(b, x, dims, places, sizes):
    """The size of every dimension: the given ones, the tensor's own elsewhere."""
    known, own = b.value(sizes), None
    parts = []
    for axis, dim in enumerate(dims):
        if axis in places:
            k = list(places).index(axis)
            parts.append(known[k : k + 1] if known is not None else b.Slice(sizes, starts=[k], ends=[k + 1], axes=[0]))
        elif isinstance(dim, int):
            parts.append(np.asarray([dim], np.int64))
        else:
            own = own or b.Shape(x)
            parts.append(b.Slice(own, starts=[axis], ends=[axis + 1], axes=[0]))
    return np.concatenate(parts) if all(isinstance(p, np.ndarray) for p in parts) else b.Concat(*parts, axis=0)


@step("Mod")
def mod(r):
    whole = r.dtype(r.input(0)) in (TensorProto.INT32, TensorProto.INT64)
    if r.crosses(28) and not (whole or r.node.attr("fmod")):
        raise Refused("fmod = 0 of floating-point numbers came with opset 28")
    return None


@step("AveragePool")
def average_pool(r):
    """With strides above the kernel SAME_UPPER may take away from the input: ONNX Runtime does so from opset 19 on."""
    upper, kernel = r.node.attr("auto_pad") == "SAME_UPPER", r.attrs.get("kernel_shape", [])
    strides = r.attrs.get("strides") or [1] * len(kernel)
    plain = all(d == 1 for d in r.attrs.get("dilations", []))
    same = upper or r.node.attr("auto_pad") == "SAME_LOWER"
    if not (r.crosses(19) and same and plain and any(s > k for s, k in zip(strides, kernel, strict=True))):
        return None
    sizes = r.shape(0)[2:]
    if not all(isinstance(n, int) for n in sizes):
        raise Refused("its strides are above its kernel, and its sizes are not static")
    rows = zip(sizes, strides, kernel, strict=True)
    total = [max((-(-n // stride) - 1) * stride + k - n, 0) for n, stride, k in rows]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    attrs = {name: v for name, v in r.attrs.items() if name in r.after.attributes and name != "auto_pad"}
    pads = [*less, *more] if upper else [*more, *less]
    return lambda b: b.AveragePool(r.input(0), **attrs | {"pads": pads})


@step("GridSample")
def grid_sample(r):
    old = {"linear": "bilinear", "cubic": "bicubic"}.get(r.node.attr("mode"))
    if r.after is None or old is None or not r.crosses(20):
        return None
    if len(r.shape(0)) != 4:
        raise Refused("more than two spatial dimensions came with opset 20")
    attrs = {k: v for k, v in r.attrs.items() if k != "mode"} | {"mode": old}
    return lambda b: b.node("GridSample", list(r.node.inputs), 1, "", attrs)
