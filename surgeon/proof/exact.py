"""A model evaluated in a wider type: what is its own noise."""

from __future__ import annotations  # numpy loads numpy.random where an annotation that names it is evaluated

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from surgeon.errors import ModelError
from surgeon.ir.files import with_weights
from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.operators import CONTINUOUS, ROUNDS
from surgeon.ir.protos import all_nodes, holders, refill
from surgeon.ir.retyping import retyped
from surgeon.ir.run import Reference, Runner, Unrunnable, first_line
from surgeon.proof.equality import is_float, smallest_normal, tolerance_of
from surgeon.proof.feeds import NEXT_TO_NOTHING, OUT_OF_RANGE, Feeds

# Operators with the attribute `stash_type`, and the opset from which they have it.
STASHING = {"GroupNormalization": 21, "LayerNormalization": 17, "RMSNormalization": 23}
# onnx's reference evaluator computes these in the type of their input, whatever they say;
# it refuses all but the default.
STASH_IGNORED = frozenset({"LayerNormalization", "RMSNormalization"})
OTHER_ORDER = 32  # times as much as NumPy, which adds in pairs, a kernel may round off that adds in a row
SHAKEN = 64.0  # steps of its type by up to which a result is moved: more than rounding moves it, little all the same
SHAKES = 3  # that two results move against each other in all of them is unlikely
OWN_STEPS = 4  # by up to which a result of an evaluation is taken to be off
ALL_IS_ROUNDING = 1e-2  # of the largest output: what a deep model normalises there is each kernel's own rounding


class Exact:
    """A model in float64 (for fp16 and bf16: float32) on the same feeds, run when somebody asks: what is its own noise.

    ONNX Runtime evaluates it, which is the judge; onnx's reference evaluator where that has no kernels of the type. To
    the evaluator an operator may mean something else, and the difference would pass for noise: so it has a say about
    an output alone where in the model's own types it makes of the feeds what ONNX Runtime made of them (`given`), but
    for rounding. On the kinds of feeds in OUT_OF_RANGE it always has: ONNX Runtime cuts inf off, in float64 too.

    `folder` is that of the model's external weights.
    """

    def __init__(
        self,
        model: ModelProto,
        feeds: Feeds,
        half: bool,
        given: Sequence[np.ndarray],
        kind: str,
        folder: str | Path | None = None,
    ) -> None:
        self.feeds, self._model, self._given, self._kind, self._folder = feeds, model, given, kind, folder
        self._to = TensorProto.FLOAT if half else TensorProto.DOUBLE
        self._results: list[np.ndarray] | None = None
        self._own: list[np.ndarray] | None = None  # the evaluator's in the model's own types; None where it is not used
        self._rounding: list[np.ndarray] | None = None

    def output(self, index: int) -> np.ndarray | None:
        """The graph's output of that number; None where it cannot be evaluated, or is of no floats."""
        if self._results is None:
            self._results = self._run()
        if index >= len(self._results) or not is_float(self._results[index].dtype):
            return None
        result = self._results[index].astype(np.float64)
        if self._own is None:
            return result
        part = ALL_IS_ROUNDING if self._kind in NEXT_TO_NOTHING else 0.0
        off = _unexplained(self._own[index], result, self._given[index], part)
        if off is not None and off.any() and index < len(moved := self._moved()):
            with np.errstate(all="ignore"):
                off = off & ~(np.abs(self._given[index].astype(np.float64) - result) <= moved[index])
        return result if off is not None and not off.any() else None

    def defined(self, index: int) -> np.ndarray | None:
        """The graph's output of that number as ONNX defines it, in the wider type; None where the reference evaluator
        does not run that."""
        try:
            wide, feeds = self._widened()
            return Reference(wide).run(feeds)[index]
        except (Unrunnable, ModelError):
            return None

    def moved(self, index: int) -> np.ndarray | None:
        """How far that output moves where the numbers of the feeds do, element by element; None where an operator of
        the model may jump, or that cannot be evaluated."""
        if any(n.domain or n.op_type not in CONTINUOUS for n in self._model.graph.node):
            return None
        moved = self._moved()
        return moved[index] if index < len(moved) else None

    def moves(self, index: int, of: np.dtype) -> np.ndarray | None:
        """How far that output moves, element by element, where inputs and the results of operators do by a few steps of
        the type `of`; None where that is unknown. An operator that jumps reads the same."""
        moved, rounding = self._moved(), self.rounding(index)
        if index >= len(moved) or rounding is None or moved[index].shape != rounding.shape:
            return None
        wide = np.finfo(np.float32 if self._to == TensorProto.FLOAT else np.float64)
        step = float(ml_dtypes.finfo(of).eps)  # type: ignore[no-untyped-call]
        return np.asarray(moved[index] + rounding * max(step / float(wide.eps), 1.0))

    def _moved(self) -> list[np.ndarray]:
        """How far each output moves, element by element, where the numbers of the feeds do by up to OWN_STEPS steps of
        their type: by so much a good kernel may be off, which is right for what is next to its input. ONNX Runtime's
        InstanceNormalization computes x * (scale / std) + (bias - mean * scale / std): where the elements are close to
        each other, the difference of two large numbers."""
        try:
            wide, feeds = self._widened()
            reference = Reference(wide)
            exact, found = reference.run(feeds), []
            for seed in range(SHAKES):
                rng = np.random.default_rng(seed)
                moved = {name: _shaken(v, self.feeds[name].dtype, rng) for name, v in feeds.items()}
                found.append([_distance(a, b) for a, b in zip(reference.run(moved), exact, strict=True)])
        except (Unrunnable, ModelError):
            return []
        return [np.max(draws, axis=0) for draws in zip(*found, strict=True)]

    def rounding(self, index: int) -> np.ndarray | None:
        """What this evaluation may have rounded off that output, element by element; None where that is unknown, or
        there is no such evaluation. The reference evaluator measures it, whichever of the two made `output`."""
        if self.output(index) is None:
            return None
        if self._rounding is None:
            try:
                wide, feeds = self._widened()
                self._rounding = rounding_of(Reference(wide), feeds)
            except (Unrunnable, ModelError):
                self._rounding = []
        return self._rounding[index] if index < len(self._rounding) else None

    def _run(self) -> list[np.ndarray]:
        try:
            wide, feeds = self._widened()
            if self._kind in OUT_OF_RANGE:
                return (Runner(wide) if self._to == TensorProto.FLOAT else Reference(wide)).run(feeds)
            with contextlib.suppress(Unrunnable):
                runner = Runner(wide)
                found = [] if runner.session is None else runner.run(feeds)
                if runner.session is not None:  # where it has no kernel after all, the evaluator ran
                    return found
            self._own = Reference(self._model, self._folder).run(self.feeds)
            return Reference(wide).run(feeds)
        except (Unrunnable, ModelError):
            return []

    def _widened(self) -> tuple[ModelProto, Feeds]:
        dtype = helper.tensor_dtype_to_np_dtype(self._to)
        feeds = {k: v.astype(dtype) if is_float(v.dtype) else v for k, v in self.feeds.items()}
        return widened(with_weights(self._model, self._folder), self._to), feeds


def widened(model: ModelProto, to: int) -> ModelProto:
    """The model with every float tensor, constant and cast in `to` (FLOAT or DOUBLE): a more exact evaluation."""
    wide = retyped(model, dict.fromkeys(FLOATS if to == TensorProto.DOUBLE else HALVES, to))
    for holder, opset in holders(wide):
        for node in all_nodes(holder):
            widen_stash(node, to, opset)
            _widen_window(node, to)
    return wide


def _widen_window(node: NodeProto, to: int) -> None:
    """Let a window function return `to` where it returns floats, as it does unless it says otherwise."""
    if node.domain or not node.op_type.endswith("Window"):
        return
    said = next((a for a in node.attribute if a.name == "output_datatype"), None)
    if said is None:
        node.attribute.append(helper.make_attribute("output_datatype", to))
    elif said.i in FLOATS:
        said.i = to


def widen_stash(node: NodeProto, to: int, opset: int) -> None:
    """Let an operator compute in `to` whose attribute `stash_type` says in which type it does (float unless given)."""
    if node.domain or node.op_type not in STASHING or opset < STASHING[node.op_type]:
        return
    refill(node.attribute, [a for a in node.attribute if a.name != "stash_type"])
    if node.op_type not in STASH_IGNORED:
        node.attribute.append(helper.make_attribute("stash_type", to))


def _shaken(x: np.ndarray, of: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """The numbers moved by up to OWN_STEPS steps of the type `of`; what is not a float as it is."""
    if not is_float(x.dtype):
        return x
    steps = rng.choice((-OWN_STEPS, OWN_STEPS), x.shape) * rng.uniform(0.5, 1.0, x.shape)
    step = float(ml_dtypes.finfo(of).eps)  # type: ignore[no-untyped-call]
    return np.asarray(x * (1 + steps * step), x.dtype)


def rounding_of(reference: Reference, feeds: Feeds) -> list[np.ndarray]:
    """How far the results of the reference evaluator may be from the numbers that they stand for.

    An array for each output, of its shape: by as much as it moves where the result of every operator on the way moves
    by OWN_STEPS steps of its type. An operator that jumps (Floor, a comparison), or of which that is not known, reads
    what it reads in `run`. Zeros for what is not a float. Raises Unrunnable.
    """
    if reference.may_not_end:
        raise Unrunnable("a Loop may have no end")
    try:
        with np.errstate(all="ignore"):
            found: Any = reference.evaluator.run(None, feeds, intermediate=True)
            moves = [_moves(reference, found, np.random.default_rng(seed)) for seed in range(SHAKES)]
            return [OWN_STEPS / SHAKEN * np.max(m, axis=0) for m in zip(*moves, strict=True)]
    except Exception as error:
        raise Unrunnable(first_line(error)) from None


def _moves(reference: Reference, found: Mapping[str, Any], rng: np.random.Generator) -> list[np.ndarray]:
    """How far each output moves from what was `found` where each rounded result is moved by steps of its own."""
    values = dict(found)
    for node in reference.evaluator.rt_nodes_:
        if node.onnx_node.domain or node.op_type not in CONTINUOUS | {"Cast"}:
            continue
        steps = rng.choice((-SHAKEN, SHAKEN)) * rng.uniform(0.5, 1.0) if node.op_type in ROUNDS else 0.0
        for name, result in zip(node.output, node.run(*(values[i] for i in node.input)), strict=False):
            if is_float(result.dtype):
                values[name] = (result * (1 + steps * np.finfo(result.dtype).eps)).astype(result.dtype)
    return [_distance(values[o], found[o]) for o in reference.evaluator.output_names]


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b|, element by element; 0 where that is not a finite number, and for what is not a float."""
    if not is_float(b.dtype):
        return np.zeros(b.shape)
    with np.errstate(all="ignore"):
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(distance), distance, 0.0)


def _unexplained(own: np.ndarray, exact: np.ndarray, given: np.ndarray, part: float) -> np.ndarray | None:
    """Elements whose difference rounding cannot explain: `own`, rounded by another evaluator, is close to `exact` and
    differs from `given` by more than a `part` of it. Denormal numbers do not count. None if `own` has another shape or
    is not finite."""
    known = np.isfinite(given)
    if own.shape != given.shape or exact.shape != given.shape or not np.isfinite(own[known]).all():
        return None
    a, b, c = (np.where(known, x.astype(np.float64), 0.0) for x in (own, exact, given))
    noise = float(np.abs(a - b)[np.isfinite(b)].max(initial=0.0))
    scale = float(np.abs(c).max(initial=0.0))
    allowed = max(max(part, tolerance_of(given.dtype)) * scale, OTHER_ORDER * noise, smallest_normal(given.dtype))
    return np.asarray(~(np.abs(a - c) <= allowed))
