"""How far a converted model is from its fp32 original, tensor by tensor of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from surgeon.ir.files import with_weights
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.rounding import rounded
from surgeon.proof.equality import TOLERANCE
from surgeon.proof.exact import widened
from surgeon.proof.feeds import HALVES, Feeds, feeds_of
from surgeon.proof.whole import sizes_that_run, whole_pair

LIMIT = TOLERANCE[TensorProto.FLOAT16]
ALLOWED = 4.0  # times what rounding the weights and inputs alone makes
KINDS = ("random", "large")  # standard normal numbers, and the same times 1e3


@dataclass(frozen=True, slots=True)
class OutputError:
    """One output on one kind of inputs, against the fp32 original.

    `relative`: max|a - b| / max|b|, inf where a number became inf or NaN. `largest`: max|b|. `rounding`: the error of
    the fp32 original when its weights and inputs alone are rounded to fp16, which no conversion avoids. `ok`: at most
    2e-3, or at most 4 times `rounding`: what docs/proof.md section 2 says of windows, said of models.
    """

    output: str
    inputs: str
    relative: float
    largest: float
    rounding: float = 0.0

    @property
    def ok(self) -> bool:
        return self.relative <= LIMIT or (math.isfinite(self.relative) and self.relative <= ALLOWED * self.rounding)

    def to_json(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "inputs": self.inputs,
            "relative": self.relative if math.isfinite(self.relative) else None,
            "rounding": self.rounding if math.isfinite(self.rounding) else None,
            "largest": self.largest,
            "ok": self.ok,
        }


def compare(
    original: ModelProto,
    converted: ModelProto,
    base: Path | None,
    data: Iterable[Feeds] | None,
    shapes: Mapping[str, Sequence[int]] | None,
) -> tuple[list[OutputError], str]:
    """The error of each output on random inputs, on those times 1e3 and on `data`; and why, where there is none.

    The converted model is evaluated with every fp16 tensor rounded (see `rounding`), because ONNX Runtime's CPU kernels
    hide overflow.
    """
    reference = _wide(original, base)
    perturbed = _rounded_weights(reference)
    strict = rounded(converted)
    if strict is None:
        return [], "the model's opset is older than 9, in which fp16 cannot be evaluated here"
    names = [o.name for o in original.graph.output]
    found: dict[tuple[str, str], OutputError] = {}
    try:
        before, rough, after = Runner(reference, base), Runner(perturbed, base), Runner(strict)
        for kind, feeds in _inputs(original, data, shapes, lambda f: before.run(_renamed(reference, f))):
            a, b = after.run(_renamed(strict, feeds)), before.run(_renamed(reference, feeds))
            c = rough.run({n: _rounded(x) for n, x in _renamed(perturbed, feeds).items()})
            for name, x, y, z in zip(names, a, b, c, strict=True):
                new = replace(_error(name, kind, x, y), rounding=_error(name, kind, z, y).relative)
                old = found.get((name, kind))
                if old is None or new.relative > old.relative:
                    found[name, kind] = new
    except Unrunnable as error:
        return [], f"ONNX Runtime does not run it: {error}"
    return sorted(found.values(), key=lambda e: -e.relative), ""


def _wide(model: ModelProto, base: Path | None) -> ModelProto:
    """The model in fp32, where it has fp16 inputs or outputs."""
    return widened(with_weights(model, base), TensorProto.FLOAT) if _has_halves(model) else model


def _rounded_weights(model: ModelProto) -> ModelProto:
    """The fp32 model with every weight that fits into fp16 rounded to it; external weights stay as they are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.data_location != TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(_rounded(numpy_helper.to_array(tensor)), tensor.name))
    return copy


def _rounded(array: np.ndarray) -> np.ndarray:
    """fp32 numbers in the steps of fp16; those that fp16 does not hold stay."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        near = array.astype(np.float16).astype(np.float32)
    return np.where(np.isfinite(near) & (near != 0), near, array)


def _has_halves(model: ModelProto) -> bool:
    return any(i.type.tensor_type.elem_type in HALVES for i in (*model.graph.input, *model.graph.output))


def _inputs(
    model: ModelProto,
    data: Iterable[Feeds] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    run: Callable[[Feeds], Any],
) -> Iterator[tuple[str, Feeds]]:
    """(kind, feeds), those that surgeon makes of sizes on which `run` runs the original. Raises Unrunnable."""
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
    from onnx import helper

    kinds = {
        i.name.removesuffix("~given"): (i.name, helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type))
        for i in model.graph.input
    }
    return {kinds[n][0]: np.asarray(a).astype(kinds[n][1], copy=False) for n, a in feeds.items()}


def _error(name: str, kind: str, a: np.ndarray, b: np.ndarray) -> OutputError:
    if b.dtype.kind != "f" and b.dtype.name != "bfloat16":
        wrong = a.shape != b.shape or bool((a != b).any())
        return OutputError(
            name,
            kind,
            1.0 if wrong else 0.0,
            float(np.abs(b.astype(np.float64)).max(initial=0.0)) if b.dtype.kind in "iub" else 0.0,
        )
    x, y = a.astype(np.float64), b.astype(np.float64)
    if x.shape != y.shape:
        return OutputError(name, kind, math.inf, 0.0)
    counted = np.isfinite(y)
    largest = float(np.abs(y[counted]).max(initial=0.0))
    if not np.isfinite(x[counted]).all():
        return OutputError(name, kind, math.inf, largest)
    gap = float(np.abs(x[counted] - y[counted]).max(initial=0.0))
    return OutputError(name, kind, gap / largest if largest else (math.inf if gap else 0.0), largest)


__all__ = ["KINDS", "LIMIT", "OutputError", "compare"]
