"""Whether the real parser takes a file: the one of the TensorRT that is the target, where it is installed here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surgeon.errors import EngineError
from surgeon.pipeline.check import Untaken
from surgeon.report import target_name
from surgeon.targets.installed import installed_version
from surgeon.targets.target import Target
from surgeon.trt.log import PolygraphyLog
from surgeon.trt.refusals import refusals
from surgeon.trt.runtime import CLASSIC, RTX, gpu, title, use


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the real parser says of a file.

    parser    its name and version; empty where none was asked
    why_not   why none was asked
    refusals  what it does not take
    """

    parser: str = ""
    why_not: str = ""
    refusals: tuple[Untaken, ...] = ()


def accepted(path: Path, target: Target) -> Accepted:
    """Parse a file with the TensorRT that `target` means."""
    module = RTX if target.rtx else CLASSIC
    why_not = _why_not(target, module)
    if why_not:
        return Accepted(why_not=why_not)
    try:
        trt = use(module)
        with PolygraphyLog() as log:
            return Accepted(title(trt), refusals=tuple(refusals(trt, path, log)))
    except EngineError as error:  # it is installed and does not load
        return Accepted(why_not=str(error))


def can_be_asked(target: Target) -> bool:
    """Whether the TensorRT of a target parses and builds here."""
    return not _why_not(target, RTX if target.rtx else CLASSIC)


def _why_not(target: Target, module: str) -> str:
    """Why the parser of a target cannot be asked here; empty where it can."""
    version = installed_version(module)
    if not version:
        return f"no {target_name(str(target))} is installed here"
    if module == RTX:
        return ""
    if target.dla:
        return "a parser does not say what DLA takes"
    row = Target.parse(".".join(version.split(".")[:2])).version
    if row != target.version:
        return f"TensorRT {version} is installed here, not {target}"
    return "" if gpu() else f"TensorRT {version} is installed here, and needs a GPU to parse"
