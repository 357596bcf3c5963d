"""How far a converted model is from its fp32 original, tensor by tensor of its outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from ..prove import (
    HALVES, TOLERANCE, Feeds, Runner, Unrunnable, Window, _declared_dim, _largest_pad, _runnable, feeds_of, widened,
)  # fmt: skip
from .rounding import rounded

LIMIT = TOLERANCE[TensorProto.FLOAT16]
KINDS = ("random", "large")  # standard normal numbers, and the same times 1e3


@dataclass(frozen=True, slots=True)
class OutputError:
    """One output on one kind of inputs. `relative`: max|a - b| / max|b| against the fp32 original; inf where a number
    became inf or NaN. `largest`: max|b|. `ok`: within fp16's tolerance of 2e-3."""

    output: str
    inputs: str
    relative: float
    largest: float

    @property
    def ok(self) -> bool:
        return self.relative <= LIMIT

    def to_json(self) -> dict[str, Any]:
        return {"output": self.output, "inputs": self.inputs, "relative": self.relative if math.isfinite(self.relative) else None, "largest": self.largest}


def compare(
    original: ModelProto, converted: ModelProto, base: Path | None, data: Iterable[Feeds] | None, shapes: Mapping[str, Sequence[int]] | None
) -> tuple[list[OutputError], str]:
    """The error of each output on random inputs, on those times 1e3 and on `data`; and why, where there is none.

    The converted model is evaluated with every fp16 tensor rounded (see `rounding`), because ONNX Runtime's CPU kernels
    hide overflow.
    """
    reference = widened(original, TensorProto.FLOAT) if _has_halves(original) else original
    strict = rounded(converted)
    if strict is None:
        return [], "the model's opset is older than 9, in which fp16 cannot be evaluated here"
    names = [o.name for o in original.graph.output]
    found: dict[tuple[str, str], OutputError] = {}
    try:
        with _runnable(reference, base) as path:
            before, after = Runner(reference, path), Runner(strict)
            for kind, feeds in _inputs(original, data, shapes):
                a, b = after.run(_renamed(strict, feeds)), before.run(_renamed(reference, feeds))
                for name, x, y in zip(names, a, b, strict=True):
                    new = _error(name, kind, x, y)
                    old = found.get((name, kind))
                    if old is None or new.relative > old.relative:
                        found[name, kind] = new
    except Unrunnable as error:
        return [], f"ONNX Runtime does not run it: {error}"
    return sorted(found.values(), key=lambda e: -e.relative), ""


def _has_halves(model: ModelProto) -> bool:
    return any(i.type.tensor_type.elem_type in HALVES for i in (*model.graph.input, *model.graph.output))


def _inputs(model: ModelProto, data: Iterable[Feeds] | None, shapes: Mapping[str, Sequence[int]] | None) -> Iterator[tuple[str, Feeds]]:
    weights = {t.name for t in model.graph.initializer}
    infos = [
        (i.name, i.type.tensor_type.elem_type, tuple(_declared_dim(d) for d in i.type.tensor_type.shape.dim))
        for i in model.graph.input
        if i.name not in weights
    ]
    given = dict(shapes or {})
    symbols = {d: n for name, _, dims in infos if name in given for d, n in zip(dims, given[name], strict=True) if isinstance(d, str)}
    sizes = next(Window(model, model, infos, _largest_pad(model)).sizes(symbols))
    for feeds in data or ():
        yield "data", feeds
    for kind, feeds in feeds_of(sizes):
        if kind in KINDS:
            yield kind, feeds


def _renamed(model: ModelProto, feeds: Feeds) -> Feeds:
    """The feeds under the names and in the types of a model of this module, whose fp16 inputs carry a suffix."""
    from onnx import helper

    kinds = {i.name.removesuffix("~given"): (i.name, helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)) for i in model.graph.input}
    return {kinds[n][0]: np.asarray(a).astype(kinds[n][1], copy=False) for n, a in feeds.items()}


def _error(name: str, kind: str, a: np.ndarray, b: np.ndarray) -> OutputError:
    if b.dtype.kind != "f" and b.dtype.name != "bfloat16":
        wrong = a.shape != b.shape or bool((a != b).any())
        return OutputError(name, kind, 1.0 if wrong else 0.0, float(np.abs(b.astype(np.float64)).max(initial=0.0)) if b.dtype.kind in "iub" else 0.0)
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
