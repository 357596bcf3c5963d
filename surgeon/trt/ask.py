"""Ask the installed TensorRT whether its parser accepts a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from surgeon.errors import SurgeonError
from surgeon.pipeline.check import Untaken
from surgeon.report import target_name
from surgeon.targets.installed import installed_version
from surgeon.targets.releases import row_of
from surgeon.targets.target import Target
from surgeon.trt.log import PolygraphyLog
from surgeon.trt.refusals import parser_refusals
from surgeon.trt.runtime import CLASSIC, RTX, gpu, title, use

# A parser that computes sizes on the GPU says this where there is none: then it says nothing of the model.
_NO_DRIVER = "cudaError"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a parser: its name and version, and the nodes that it refuses, in its own words."""

    parser: str
    refused: list[Untaken]


def ask(file: str, target: Target) -> Answer | None:
    """The answer of a target's parser for a file; None if that TensorRT is not installed, or cannot work here."""
    if why_not(target):
        return None
    try:
        trt = use(_module(target))
        with PolygraphyLog():
            refused = parser_refusals(trt, Path(file))
    except SurgeonError:  # it does not load, or Polygraphy drives the other one in this process
        return None
    if any(_NO_DRIVER in refusal.why for refusal in refused):
        return None
    return Answer(title(trt), refused)


def why_not(target: Target) -> str:
    """Why the TensorRT of a target cannot work here; empty where it can.

    TensorRT-RTX parses without a GPU. TensorRT needs one, and is asked only where it is the very row of the target.
    """
    if target.dla:
        return "a parser does not report what DLA supports"
    module = _module(target)
    version = installed_version(module)
    if not version:
        return f"no {target_name(str(target))} is installed here"
    if module == RTX:
        return ""
    if row_of(tuple(int(n) for n in re.findall(r"\d+", version)[:3])) != target.version:
        return f"TensorRT {version} is installed here, not {target}"
    return "" if gpu() else f"TensorRT {version} is installed here, and needs a GPU"


def _module(target: Target) -> str:
    return RTX if target.rtx else CLASSIC
