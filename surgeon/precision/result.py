"""The result of a conversion to half precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import ModelProto

from surgeon.ir.files import Content, is_large, write
from surgeon.ir.weight_file import WeightFile
from surgeon.precision.comparison import OutputError
from surgeon.precision.standard import LIMIT


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that computes in fp32, or whose types were left alone, and why."""

    node: str
    op: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"node": self.node, "op": self.op, "why": self.why}


@dataclass(slots=True)
class PrecisionResult:
    """The result of a conversion.

    model         the converted model: it holds its weights, or where it is large the paths of files that do
    kept          the nodes that stay fp32, islands first
    warnings      what the user has to know
    errors        worst first, against the fp32 original
    not_compared  why there are none; empty where the models were compared
    unproved      whether that is a failure: it is, unless `allow_unproved` permits it
    half          how many nodes compute in half precision
    single        how many compute in fp32
    casts         how many Cast nodes are between the two
    way           "fp16", "bf16" or "half"
    tolerance     what the error of an output may be
    inputs        what the models were compared on, in words
    measured      how many conversions were measured to find what stays fp32
    allow_inexact whether it may be written though it failed
    gain          how many of the Conv, MatMul and the like compute in half precision, and how many there are
    judge         the errors of a model that is written otherwise, on the same inputs; None where none were measured
    base          the folder of the external weights of a large model
    weights       their file, which lasts as long as this
    """

    model: ModelProto
    kept: list[Kept] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[OutputError] = field(default_factory=list)
    not_compared: str = ""
    unproved: bool = False
    half: int = 0
    single: int = 0
    casts: int = 0
    way: str = "fp16"
    tolerance: float = LIMIT
    inputs: list[str] = field(default_factory=list)
    measured: int = 0
    allow_inexact: bool = False
    gain: tuple[int, int] = (0, 0)
    judge: Callable[[ModelProto], list[OutputError]] | None = field(default=None, repr=False)
    base: Path | None = None
    weights: WeightFile | None = None

    @property
    def failed(self) -> bool:
        """Whether the error of an output is above the tolerance, or not known."""
        return self.unproved or any(not e.ok for e in self.errors)

    @property
    def withheld(self) -> bool:
        """Whether the model must not be written."""
        return self.failed and not self.allow_inexact

    @property
    def type_text(self) -> str:
        """What it converts to, in words."""
        return "half precision" if self.way == "half" else self.way

    @property
    def failure(self) -> str:
        """Why the conversion failed, in one sentence; empty where it did not."""
        if not self.failed:
            return ""
        worst = next((f"'{e.output}': {e.why}" for e in self.errors if not e.ok), self.not_compared)
        return f"the conversion to {self.type_text} failed: {worst}"

    @property
    def worst(self) -> float | None:
        """The largest relative error of any output; None where nothing was compared."""
        return self.errors[0].relative if self.errors else None

    def save(self, path: str | Path, also: Mapping[Path, Content] | None = None) -> list[Path]:
        """Write the model, and return its files; `also`: see `files.write`.

        One of more than 1 GiB gets its weights in a file beside it.
        """
        return write(self.model, Path(path), self.base, also, self.is_apart)

    @property
    def is_apart(self) -> bool:
        """Whether the weights are written to a file of their own."""
        return self.weights is not None or is_large(self.model)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.way,
            "nodes": {"half": self.half, "fp32": self.single, "casts": self.casts},
            "kept": [k.to_json() for k in self.kept],
            "tolerance": self.tolerance,
            "inputs": self.inputs,
            "measured": self.measured,
            "max_error": self.worst if self.worst is not None and math.isfinite(self.worst) else None,
            "not_compared": self.not_compared,
            "outputs": [e.to_json() for e in self.errors],
        }
