"""The one standard by which whole models are equal: `--fp16`, `compare`, `--bisect` and the reports ask it.

A model that computes in the types of its original is held to the rule of `surgeon.proof.equality`, on every kind of
inputs. One that was converted to half precision is held to the same rule, with three differences:

1. The inputs are inside fp16's range: those of IN_RANGE, and the user's own.
2. It is evaluated with every fp16 tensor rounded (see `rounding`), because ONNX Runtime's CPU kernels hide overflow.
   The original is evaluated in fp32. Numbers may be apart by fp16's tolerance.
3. They may be further apart, by TIMES_THE_ROUNDING what rounding the weights and inputs to fp16 makes of the original:
   no conversion avoids that. Where that makes no number at all, there is none to meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from surgeon.ir.files import with_weights
from surgeon.ir.lattice import HALVES
from surgeon.ir.protos import all_nodes
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.half import computes_in_half, rounded_to_half
from surgeon.precision.rounding import GIVEN, rounded
from surgeon.proof.equality import TOLERANCE, Difference, compare, is_float
from surgeon.proof.exact import Exact, widened
from surgeon.proof.feeds import NOT_FINITE, Feeds
from surgeon.report import error_text
from surgeon.rules.meaning import with_functions

LIMIT = TOLERANCE[TensorProto.FLOAT16]  # relative to the largest number of an output
TIMES_THE_ROUNDING = 4.0  # as far off may the converted model be as what rounding the weights and inputs alone makes
IN_RANGE = frozenset({"random", "zero", "zero rows", "large", "shifted", "negative zero"})  # fp16 holds these inputs
STATEMENT = (
    "the second model computes in half precision: both run on inputs that fp16 holds, with every fp16 tensor rounded, "
    f"and differences up to {LIMIT:g} count as equal"
)


class Standard:
    """When one model stands for another.

    converted  whether the second one was converted to half precision
    reference  what is run for the first one
    evaluated  what ONNX Runtime runs for the second one
    base       the folder of the external weights of the first, `base_after` that of the second one

    Raises Unrunnable where the second one cannot be evaluated in half precision.
    """

    def __init__(
        self, before: ModelProto, after: ModelProto, base: Path | None = None, base_after: Path | None = None
    ) -> None:
        self.base, self.base_after = base, base_after or base
        self.reference, self.evaluated = with_functions(before), with_functions(after)
        self.converted = _halves(after) > _halves(before)
        self._rough: Runner | None = None
        if not self.converted:
            return
        if computes_in_half(before):
            self.reference = widened(with_weights(self.reference, base), TensorProto.FLOAT)
        self._before = with_functions(before)
        strict = rounded(with_weights(self.evaluated, self.base_after))
        if strict is None:
            raise Unrunnable("the model's opset is older than 9, in which fp16 cannot be evaluated here")
        self.evaluated = strict

    def takes(self, kind: str) -> bool:
        """Whether the models are compared on that kind of drawn inputs."""
        return kind in IN_RANGE or not self.converted

    def tolerance(self, dtype: np.dtype) -> float:
        """How far apart two results of a type may be, relative to the largest number; 0 for integers."""
        own = TOLERANCE.get(helper.np_dtype_to_tensor_dtype(dtype), 0.0)
        holds_floats = is_float(dtype) or dtype.kind == "O"  # a sequence may
        return max(own, LIMIT) if self.converted and holds_floats else own

    def rough(self, feeds: Feeds) -> list[np.ndarray]:
        """What the original makes of weights and inputs that are rounded to fp16. Raises Unrunnable."""
        if self._rough is None:
            model = self.reference
            if computes_in_half(self._before):
                model = rounded(with_weights(self._before, self.base)) or model
            self._rough = Runner(_with_rounded_weights(model), self.base)
        given = {n: rounded_to_half(x) for n, x in fed(self._rough.model, feeds).items()}
        return self._rough.run(given)


@dataclass
class Trial:
    """One set of inputs, and what the original makes of it."""

    standard: Standard
    kind: str
    feeds: Feeds
    expected: Sequence[np.ndarray]
    _exact: Exact = field(init=False)
    _rough: list[np.ndarray] | None = None

    def __post_init__(self) -> None:
        model = self.standard.reference
        feeds = fed(model, self.feeds)
        half = any(helper.np_dtype_to_tensor_dtype(a.dtype) in HALVES for a in feeds.values())
        self._exact = Exact(model, feeds, half, self.expected, self.kind, self.standard.base)

    def difference(self, index: int, given: np.ndarray, tolerance: float | None = None) -> Difference:
        """The difference of the output of that number, by the standard; a tolerance of one's own is a wider one."""
        expected = self.expected[index]
        if self.standard.converted and is_float(expected.dtype) and is_float(given.dtype):
            given = given.astype(expected.dtype)  # --io-fp16 gives outputs another type, on purpose
        found = compare(
            given,
            expected,
            tolerance=self.standard.tolerance(expected.dtype) if tolerance is None else tolerance,
            finite=self.kind not in NOT_FINITE,
            exact=partial(self._exact.output, index),
            rounding=partial(self._exact.rounding, index),
            cut_off=self.kind == "inf",
        )
        if not found.why or not self.standard.converted or given.shape != expected.shape:
            return found
        return self._beside_the_rounding(index, given, found) if is_float(expected.dtype) else found

    def rounding(self, index: int) -> tuple[float, float]:
        """How far off rounding the weights and inputs alone leaves an output, and that relative to its largest number;
        inf where a number is lost, 0 where nothing was converted."""
        if not self.standard.converted:
            return 0.0, 0.0
        expected, rough = self._numbers(index)
        counted = np.isfinite(expected)
        if rough.shape != expected.shape or not np.isfinite(rough[counted]).all():
            return np.inf, np.inf
        gap = float(np.abs(rough[counted] - expected[counted]).max(initial=0.0))
        scale = float(np.abs(expected[counted]).max(initial=0.0))
        return gap, gap / scale if scale else (np.inf if gap else 0.0)

    def _numbers(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The original's output, and what it is when weights and inputs are rounded."""
        if self._rough is None:
            self._rough = self.standard.rough(self.feeds)
        return self.expected[index].astype(np.float64), self._rough[index].astype(np.float64)

    def _beside_the_rounding(self, index: int, given: np.ndarray, found: Difference) -> Difference:
        """The difference that is left where rounding the weights and inputs alone makes numbers of the original."""
        try:
            expected, rough = self._numbers(index)
        except Unrunnable:
            return found
        if rough.shape != expected.shape:
            return found
        counted = np.isfinite(expected) & np.isfinite(rough)
        a, b = given.astype(np.float64)[counted], expected[counted]
        gap, own = (float(np.abs(x - b).max(initial=0.0)) for x in (a, rough[counted]))
        if not gap <= TIMES_THE_ROUNDING * own:
            return found
        scale = float(np.abs(b).max(initial=0.0)) or 1.0
        makes = error_text(own / scale) if counted[np.isfinite(expected)].all() else "no number"
        return Difference(gap / scale, excuse=f"rounding the weights and inputs alone makes {makes} there")


def fed(model: ModelProto, feeds: Feeds) -> Feeds:
    """The feeds under the names and in the types of a model's inputs; `rounded` gives its fp16 inputs a suffix."""
    inputs = {i.name.removesuffix(GIVEN): i for i in model.graph.input}
    found: Feeds = {}
    for name, array in feeds.items():
        info = inputs[name]
        if not is_float(array.dtype):
            found[info.name] = array
            continue
        with np.errstate(over="ignore"):
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            found[info.name] = np.asarray(array).astype(dtype, copy=False)
    return found


def _halves(model: ModelProto) -> int:
    """How much of a model is in half precision: weights, inputs, and what is cast to it."""
    casts = [a.i for n in all_nodes(model.graph) if n.op_type == "Cast" for a in n.attribute if a.name == "to"]
    types = [i.type.tensor_type.elem_type for i in model.graph.input]
    return sum(t in HALVES for t in (*types, *casts, *(t.data_type for t in model.graph.initializer)))


def _with_rounded_weights(model: ModelProto) -> ModelProto:
    """The model with every fp32 weight that fits into fp16 rounded to it; external weights stay as they are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.data_location != TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(rounded_to_half(numpy_helper.to_array(tensor)), tensor.name))
    return copy


__all__ = ["IN_RANGE", "LIMIT", "STATEMENT", "Standard", "Trial", "fed"]
