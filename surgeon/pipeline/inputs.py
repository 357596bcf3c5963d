"""Give an input of a model the form that its caller has: an image's bytes, channels last, not yet normalised.

An input of floats that sizes are computed from can become int64: TensorRT reads sizes from inputs of integers alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.lattice import Shapes, declared_shape, may_hold_sizes
from surgeon.ir.protos import copied, read_instead, refill
from surgeon.ir.run import Runner, must_run
from surgeon.pipeline.nodewise import difference
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied, fresh_name
from surgeon.proof.feeds import Feeds
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run

TYPES = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
}
SIZES = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}
DRAWN = (8, 65)  # sizes that the proof draws
TO_FRONT, TO_BACK = [0, 3, 1, 2], [0, 2, 3, 1]
FEW = (1, 3, 4)  # channels of an image
FORM = re.compile(r"(?P<kind>[a-z]+\d+)-(?P<layout>nhwc|nchw)(?P<rest>(:[a-z]+=[^:]*)*)")
EXAMPLE = "uint8-nhwc or uint8-nhwc:mean=123.7,116.3,103.5:scale=0.0171,0.0175,0.0174"
OF_SIZES = "int64 or int32 is for an input of sizes: floats, in at most one dimension"


def _parsed(text: str) -> tuple[str, str, dict[str, tuple[float, ...]]]:
    """Type, layout, and mean and scale of `uint8-nhwc:mean=...:scale=...`; no layout for sizes. Raises UsageError."""
    if text in SIZES:
        return text, "", {}
    found = FORM.fullmatch(text)
    if found is None or found["kind"] not in TYPES:
        raise UsageError(
            f"an input's form is a type of {', '.join(TYPES)} and a layout: {EXAMPLE}, not '{text}'. {OF_SIZES}."
        )
    numbers: dict[str, tuple[float, ...]] = {}
    for part in found["rest"].split(":")[1:]:
        name, _, given = part.partition("=")
        if name not in ("mean", "scale") or name in numbers:
            raise UsageError(f"an input's form has one mean and one scale, not '{part}' (in '{text}').")
        numbers[name] = _numbers(given, text)
    return found["kind"], found["layout"], numbers


def _numbers(given: str, text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(number) for number in given.split(","))
    except ValueError:
        found = ()
    if not found or not all(np.isfinite(found)):
        raise UsageError(f"mean and scale are numbers with commas between them, not '{given}' (in '{text}').")
    return found


def prepare(asked: Asked) -> Prepared:
    """The model whose inputs have these forms, proved against the original on what they stand for.

    Raises UsageError where a form does not fit its input, ModelError where the two differ or cannot be run.
    """
    source = asked.source
    made = copied(source)
    names = fresh_name(made)
    records, steps = [], {}
    for name, text in asked.options.inputs.items():
        info = next((i for i in made.graph.input if i.name == name), None)
        if info is None:
            raise UsageError(
                f"the model has no input '{name}'.{did_you_mean(name, [i.name for i in made.graph.input])}"
            )
        before = Text.of_info(info)
        step = _Step.of(text, info)
        added = step.put_in_front(made, info, names)
        steps[name] = step
        records.append(applied("input", [before], [Text.of_info(info), *added], name))
    del made.graph.value_info[:]
    error = _prove(source, made, steps, asked.options.shapes)
    return Prepared(made, [record._replace(max_error=error) for record in records], shapes={})


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done to one input: a Cast to `elem`, a Transpose by `perm`, and (x - mean) * scale.

    Mean and scale are one number, or one for each channel.
    """

    kind: int
    elem: int
    perm: tuple[int, ...]
    mean: np.ndarray | None
    scale: np.ndarray | None

    @classmethod
    def of(cls, text: str, info: ValueInfoProto) -> _Step:
        """What gives an input its form. Raises UsageError."""
        (kind, asked, given_numbers), dims = _parsed(text), declared_shape(info)
        elem = info.type.tensor_type.elem_type
        if not asked and may_hold_sizes(elem, len(dims)):
            return cls(SIZES[kind], elem, (), None, None)
        if not asked:
            raise UsageError(f"the input '{info.name}' cannot become {kind}: {OF_SIZES}.")
        if len(dims) != 4:
            raise UsageError(f"the input '{info.name}' has {len(dims)} dimensions: --input is for images, of four.")
        if elem not in (TensorProto.FLOAT, TensorProto.FLOAT16):
            raise UsageError(
                f"the input '{info.name}' is of {TensorProto.DataType.Name(elem).lower()}: {EXAMPLE} is for floats."
            )
        layout = "nhwc" if dims[1] not in FEW and dims[3] in FEW else "nchw"
        channel = dims[3] if layout == "nhwc" else dims[1]
        perm = () if layout == asked else TO_FRONT if layout == "nchw" else TO_BACK
        numbers = []
        for what in ("mean", "scale"):
            given = given_numbers.get(what, ())
            if len(given) > 1 and len(given) != channel:
                raise UsageError(f"{what} has {len(given)} numbers; '{info.name}' has {channel} channels ({layout}).")
            shape = (-1,) if len(given) < 2 or layout == "nhwc" else (-1, 1, 1)
            dtype = helper.tensor_dtype_to_np_dtype(elem)
            numbers.append(np.asarray(given, dtype).reshape(shape) if given else None)
        return cls(TYPES[kind], elem, tuple(perm), *numbers)

    def put_in_front(self, model: ModelProto, info: ValueInfoProto, names: Any) -> list[Text]:
        """Write the nodes before all others, and give the input its new type; the nodes as text."""
        graph, nodes, constants = model.graph, [], []
        current = info.name
        todo: list[tuple[str, dict[str, Any], np.ndarray | None]] = []
        if self.kind != self.elem:
            todo.append(("Cast", {"to": self.elem}, None))
        if self.perm:
            todo.append(("Transpose", {"perm": list(self.perm)}, None))
        todo += [(op, {}, given) for op, given in (("Sub", self.mean), ("Mul", self.scale)) if given is not None]
        for op, attrs, given in todo:
            inputs = [current]
            if given is not None:
                inputs.append(names(info.name, "mean" if op == "Sub" else "scale"))
                constants.append(numpy_helper.from_array(given, inputs[1]))
            current = names(info.name, op)
            nodes.append(helper.make_node(op, inputs, [current], name=current, **attrs))
        if nodes:
            if any(o.name == info.name for o in graph.output):
                raise UsageError(f"the input '{info.name}' is an output, too: it cannot get another form.")
            read_instead(graph, info.name, current)
        refill(graph.node, [*nodes, *graph.node])
        graph.initializer.extend(constants)
        tensor = info.type.tensor_type
        tensor.elem_type = self.kind
        if self.perm:
            refill(tensor.shape.dim, [tensor.shape.dim[self.perm.index(k)] for k in range(4)])
        return [Text.of(node) for node in nodes]

    def draw(self, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
        """What a caller may give for an input of the model's shape."""
        dtype = helper.tensor_dtype_to_np_dtype(self.kind)
        given = [shape[self.perm.index(k)] for k in range(4)] if self.perm else list(shape)
        if self.kind in SIZES.values():
            return rng.integers(*DRAWN, given, dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return rng.integers(limits.min, limits.max, given, dtype, endpoint=True)
        return rng.uniform(0, 255, given).astype(dtype)

    def applied(self, given: np.ndarray) -> np.ndarray:
        """What the original is given in its place."""
        found = given.astype(helper.tensor_dtype_to_np_dtype(self.elem))
        found = found.transpose(self.perm) if self.perm else found
        found = found if self.mean is None else found - self.mean
        return found if self.scale is None else found * self.scale


def _prove(before: ModelProto, after: ModelProto, steps: Mapping[str, _Step], shapes: Shapes) -> float:
    """The largest difference between the new model and the original on what it is given in its place."""
    worst, rng = 0.0, np.random.default_rng(0)
    sizes = {name: step for name, step in steps.items() if step.kind in SIZES.values()}
    with must_run("the inputs cannot get another form: ONNX Runtime does not run the model", end="."):
        old, new = Runner(before), Runner(after)

        def run(feeds: Feeds) -> list[np.ndarray]:  # of random floats no sizes are made
            return old.run(feeds | {n: s.applied(s.draw(rng, feeds[n].shape)) for n, s in sizes.items()})

        sized = sizes_that_run(before, run, shapes=shapes)
        feeds = next(valid_feeds(before, sized))[1]
        given = {name: step.draw(rng, feeds[name].shape) for name, step in steps.items()}
        expected = old.run(feeds | {name: steps[name].applied(array) for name, array in given.items()})
        found = new.run(feeds | given)
    for info, one, other in zip(before.graph.output, found, expected, strict=True):
        moved = difference(one, other, times=1.0)
        if moved.why:
            raise ModelError(f"the new form of the inputs changes the output '{info.name}': {moved.why}.")
        worst = max(worst, moved.error)
    return worst
