"""Precision written in the graph: a model in half precision, with fp32 islands around what does not survive that.

`conversion` describes what stays fp32. The modules, lower ones first:

    formats       the types, and what each holds of fp32's numbers
    data          samples of inputs that the user gives
    drawing       numbers as inputs hold them
    inputs        inputs that occur, for runs without data
    operators     what operators do to the size of numbers
    ranges        the numbers of a run
    plan          which node computes in which type
    cost          the bytes that a plan moves, and how many conversions a search may measure
    settle        the borders between two types
    planner       why a node stays fp32
    emit          the model that a plan describes
    default_load  whether ONNX Runtime's default options load a model, and what changes that
    rounding      a model in half precision as a strongly typed runtime computes it
    steps         a quantized model without the steps of its quantizers
    standard      when two models are equal
    comparison    how far a converted model is from its original
    result        the result of a conversion
    search        the cheapest set of items that is enough, by measuring
    histograms    the numbers of a tensor over many samples, and the scale of each method
    distance      how far the outputs of a quantized model are, as one number
    repair_qdq    `--repair-qdq` and `--calibration-cache`
    quantize      `--int8` and `--fp8`
    weights_only  `--int4` and `--fp8-weights`
    conversion    the whole conversion: `convert`
    tuning        `--tune`
    rewriting     `surgeon.rewrite`: a rewrite, and what of this is asked for
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surgeon.report import Kept

if TYPE_CHECKING:
    from surgeon.precision.comparison import OutputError
    from surgeon.precision.conversion import convert
    from surgeon.precision.data import load_data
    from surgeon.precision.result import PrecisionResult
    from surgeon.precision.standard import LIMIT

# A run that converts nothing starts without them.
_LAZY = {
    "LIMIT": "standard",
    "OutputError": "comparison",
    "PrecisionResult": "result",
    "convert": "conversion",
    "load_data": "data",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'surgeon.precision' has no attribute '{name}'")
    return getattr(import_module(f"surgeon.precision.{module}"), name)


__all__ = ["LIMIT", "Kept", "OutputError", "PrecisionResult", "convert", "load_data"]
