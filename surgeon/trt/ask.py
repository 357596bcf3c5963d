"""Ask the TensorRT that is here whether its parser takes a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surgeon.errors import SurgeonError
from surgeon.pipeline.check import Untaken
from surgeon.targets.installed import installed_version
from surgeon.targets.target import Target
from surgeon.trt.log import PolygraphyLog
from surgeon.trt.refusals import parser_refusals
from surgeon.trt.runtime import CLASSIC, RTX, gpu, importable, target_of, title, use


@dataclass(frozen=True, slots=True)
class Answer:
    """What a parser said: its name and version, and the nodes that it refuses, in its own words."""

    parser: str
    refused: list[Untaken]


def ask(file: str, target: Target) -> Answer | None:
    """What the parser of a target says of a file; None where that TensorRT is not here, or cannot work here.

    TensorRT-RTX parses without a GPU. TensorRT needs one, and is asked only where it is the very row of the target.
    """
    module = RTX if target.rtx else CLASSIC
    if target.dla or not importable(module) or (module == CLASSIC and not _is_here(target)):
        return None
    try:
        trt = use(module)
        if target_of(trt).version != target.version:
            return None
        with PolygraphyLog():
            refused = parser_refusals(trt, Path(file))
    except SurgeonError:  # it does not load, or Polygraphy drives the other one in this process
        return None
    return Answer(title(trt), refused)


def _is_here(target: Target) -> bool:
    return bool(installed_version(CLASSIC)) and gpu()
