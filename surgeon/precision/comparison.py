"""How far a converted model is from its fp32 original, tensor by tensor of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from surgeon.ir.files import with_weights
from surgeon.ir.lattice import HALVES
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.half import rounded_to_half
from surgeon.precision.rounding import rounded
from surgeon.proof.equality import TOLERANCE, is_float
from surgeon.proof.exact import widened
from surgeon.proof.feeds import Feeds, feeds_of
from surgeon.proof.whole import sizes_that_run, whole_pair

LIMIT = TOLERANCE[TensorProto.FLOAT16]  # relative to the largest number of an output
TIMES_THE_ROUNDING = 4.0  # as far off may the converted model be as what rounding the weights and inputs alone makes
KINDS = ("random", "large")  # of inputs: standard normal numbers, and the same times 1e3


@dataclass(frozen=True, slots=True)
class OutputError:
    """One output on one kind of inputs, against the fp32 original.

    output    its name
    inputs    the kind of inputs
    relative  max|a - b| / max|b|, inf where a number became inf or NaN
    largest   max|b|
    rounding  `relative` of the fp32 original when its weights and inputs alone are rounded to fp16, which no conversion
              avoids
    """

    output: str
    inputs: str
    relative: float
    largest: float
    rounding: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether fp16 explains the error: what docs/proof.md section 2 says of windows, said of models."""
        if self.relative <= LIMIT:
            return True
        return math.isfinite(self.relative) and self.relative <= TIMES_THE_ROUNDING * self.rounding

    def to_json(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "inputs": self.inputs,
            "relative": self.relative if math.isfinite(self.relative) else None,
            "rounding": self.rounding if math.isfinite(self.rounding) else None,
            "largest": self.largest,
            "ok": self.ok,
        }


def output_errors(
    original: ModelProto,
    converted: ModelProto,
    *,
    base: Path | None,
    data: Sequence[Feeds] | None,
    shapes: Mapping[str, Sequence[int]] | None,
) -> tuple[list[OutputError], str]:
    """The error of each output on random inputs, on those times 1e3 and on `data`, worst first; and why there is none.

    base    the folder of the original's external weights
    data    inputs by name
    shapes  the shapes of inputs that are symbolic in the file

    The converted model is evaluated with every fp16 tensor rounded (see `rounding`), because ONNX Runtime's CPU kernels
    hide overflow.
    """
    reference = _wide(original, base)
    strict = rounded(converted)
    if strict is None:
        return [], "the model's opset is older than 9, in which fp16 cannot be evaluated here"
    names = [o.name for o in original.graph.output]
    worst: dict[tuple[str, str], OutputError] = {}
    try:
        models = _Models(reference, strict, base)
        for kind, feeds in _inputs(original, data, shapes, models.expected):
            for found in models.errors(kind, feeds, names):
                before = worst.get((found.output, kind))
                if before is None or found.relative > before.relative:
                    worst[found.output, kind] = found
    except Unrunnable as error:
        return [], f"ONNX Runtime does not run it: {error}"
    return sorted(worst.values(), key=lambda e: -e.relative), ""


class _Models:
    """The fp32 original, the same with rounded weights, and the converted model, ready to run. Raises Unrunnable."""

    def __init__(self, reference: ModelProto, strict: ModelProto, base: Path | None) -> None:
        perturbed = _with_rounded_weights(reference)
        self._reference, self._perturbed, self._strict = reference, perturbed, strict
        self._before, self._rough, self._after = Runner(reference, base), Runner(perturbed, base), Runner(strict)

    def expected(self, feeds: Feeds) -> list[np.ndarray]:
        """The outputs of the original."""
        return self._before.run(_renamed(self._reference, feeds))

    def errors(self, kind: str, feeds: Feeds, names: Sequence[str]) -> Iterator[OutputError]:
        """The error of each output."""
        results, expected = self._after.run(_renamed(self._strict, feeds)), self.expected(feeds)
        inputs = {n: rounded_to_half(x) for n, x in _renamed(self._perturbed, feeds).items()}
        for name, a, b, c in zip(names, results, expected, self._rough.run(inputs), strict=True):
            error, largest = _error(a, b)
            yield OutputError(name, kind, error, largest, rounding=_error(c, b)[0])


def _wide(model: ModelProto, base: Path | None) -> ModelProto:
    """The model in fp32, where it has fp16 inputs or outputs."""
    interface = (*model.graph.input, *model.graph.output)
    if not any(i.type.tensor_type.elem_type in HALVES for i in interface):
        return model
    return widened(with_weights(model, base), TensorProto.FLOAT)


def _with_rounded_weights(model: ModelProto) -> ModelProto:
    """The fp32 model with every weight that fits into fp16 rounded to it; external weights stay as they are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.data_location != TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(rounded_to_half(numpy_helper.to_array(tensor)), tensor.name))
    return copy


def _inputs(
    model: ModelProto,
    data: Sequence[Feeds] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    run: Callable[[Feeds], Any],
) -> Iterator[tuple[str, Feeds]]:
    """(kind, feeds): the data, then what is drawn, of sizes on which `run` runs the original. Raises Unrunnable."""
    for feeds in data or ():
        yield "data", feeds
    try:
        sizes = sizes_that_run(whole_pair(model, model, shapes=shapes), run)
    except Unrunnable:
        if data:
            return  # it is what counts
        raise
    for kind, feeds in feeds_of(sizes):
        if kind in KINDS:
            yield kind, feeds


def _renamed(model: ModelProto, feeds: Feeds) -> Feeds:
    """The feeds under the names and in the types of a model of this module, whose fp16 inputs carry a suffix."""
    inputs = {i.name.removesuffix("~given"): i for i in model.graph.input}
    found: Feeds = {}
    for name, array in feeds.items():
        info = inputs[name]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        found[info.name] = np.asarray(array).astype(dtype, copy=False)
    return found


def _error(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """(max|a - b| / max|b|, max|b|) where b is finite; the first is inf where a shape or a number is lost."""
    if not is_float(b.dtype):
        wrong = a.shape != b.shape or bool((a != b).any())
        largest = float(np.abs(b.astype(np.float64)).max(initial=0.0)) if b.dtype.kind in "iub" else 0.0
        return (1.0 if wrong else 0.0), largest
    x, y = a.astype(np.float64), b.astype(np.float64)
    if x.shape != y.shape:
        return math.inf, 0.0
    counted = np.isfinite(y)
    largest = float(np.abs(y[counted]).max(initial=0.0))
    if not np.isfinite(x[counted]).all():
        return math.inf, largest
    gap = float(np.abs(x[counted] - y[counted]).max(initial=0.0))
    if largest:
        return gap / largest, largest
    return (math.inf if gap else 0.0), largest


__all__ = ["KINDS", "LIMIT", "OutputError", "output_errors"]
