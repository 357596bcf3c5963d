"""Precision written in the graph: a model in fp16, with fp32 islands around what does not survive fp16.

`conversion` says what stays fp32. The rooms, lower ones first:

    half        the two types, and what fp16 holds
    operators   what operators do to the size of numbers
    ranges      the numbers of a run on calibration data
    plan        which node computes in which type
    settle      where the border between the two runs
    planner     the reasons
    emit        the model that a plan describes
    rounding    a model in fp16 as a strongly typed runtime computes it
    comparison  how far a converted model is from its original
    conversion  all of it: `convert`
    rewriting   `surgeon.rewrite`: a rewrite, and then `convert` if that is asked for
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surgeon.precision.comparison import KINDS, LIMIT, OutputError
    from surgeon.precision.conversion import Kept, PrecisionResult, convert
    from surgeon.precision.ranges import load_data

# A run that converts nothing starts without them.
_LAZY = {
    "KINDS": "comparison",
    "LIMIT": "comparison",
    "OutputError": "comparison",
    "Kept": "conversion",
    "PrecisionResult": "conversion",
    "convert": "conversion",
    "load_data": "ranges",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'surgeon.precision' has no attribute '{name}'")
    return getattr(import_module(f"surgeon.precision.{module}"), name)


__all__ = ["KINDS", "LIMIT", "Kept", "OutputError", "PrecisionResult", "convert", "load_data"]
