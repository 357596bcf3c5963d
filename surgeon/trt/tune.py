"""What `--tune` measures: the bytes and kernels of a model's engine, which TensorRT-RTX builds without a GPU."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from onnx import ModelProto

from surgeon.errors import SurgeonError, UsageError
from surgeon.ir.files import write
from surgeon.ir.process import Crashed, survived
from surgeon.pipeline.options import Options
from surgeon.precision.tuning import Measure, Moved
from surgeon.trt.ask import why_not
from surgeon.trt.kernels import Shapes, kernels


def measure_of(options: Options, base: Path | None) -> Measure | None:
    """What measures engines, where `--tune` is asked for. Raises UsageError where no TensorRT-RTX is installed.

    base  the folder of the model's external weights
    """
    if not options.tune:
        return None
    why = why_not(options.target)
    if why:
        raise UsageError(f"--tune builds engines, and {why}.")
    return partial(_moved, base, options.shapes)


def _moved(base: Path | None, shapes: Shapes, model: ModelProto) -> Moved | None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.onnx"
        write(model, place, base)
        try:
            program = survived(partial(kernels, place, like=shapes, runtime="rtx")).program
        except (SurgeonError, Crashed):
            return None
    return Moved(program.bytes, len(program.kernels))
