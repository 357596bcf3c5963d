"""One row of the table of causes, and the commands that several rows have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

REWRITE = "surgeon rewrite {model} OUT.onnx --target {target}"
HALF = f"{REWRITE} --fp16"
CHECK = "surgeon check {model} --target {target}"
PROFILE = "trtexec --onnx={model} --minShapes=x:1x3x64x64 --optShapes=x:4x3x256x256 --maxShapes=x:8x3x512x512"
SHAPES = "python -m onnxruntime.tools.symbolic_shape_infer --input {model} --output OUT.onnx --auto_merge"
COMPARE = "surgeon compare {model} OUT.onnx --bisect DIR"
BUILD = "trtexec --onnx={model} --saveEngine=OUT.engine"
SMALL = f"{BUILD} --memPoolSize=workspace:512 --builderOptimizationLevel=2"
QUANTIZE = f"{REWRITE} --int8 --data INPUTS.npz"
DLA = "trtexec --onnx={model} --fp16 --useDLACore=0 --allowGPUFallback"
GPU_PACKAGE = "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"


class Weight(IntEnum):
    """How much a line says: HINT is a warning or a consequence, OPEN says where and not what, GENERAL leaves the cause
    open, ERROR names it."""

    HINT = 1
    OPEN = 2
    GENERAL = 3
    ERROR = 4


@dataclass(frozen=True)
class Cause:
    """One cause: what the log has, what that means, what to do about it, and what to type.

    release   the TensorRT that prints it, where only one major release does: the target if the log names none
    """

    name: str
    patterns: tuple[str, ...]
    means: str
    helps: str
    command: str = ""
    weight: Weight = Weight.ERROR
    release: str = ""

    @cached_property
    def search(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{p})" for p in self.patterns), re.IGNORECASE)
