"""Write Mod of integers for a TensorRT that has no Mod.

Why       TensorRT imports Mod from 8.5 on. Exporters write it to compute pads,
          as in `(8 - height % 8) % 8` (SwinIR, tf.pad).
Rewrites  Mod(a, b) of integers  ->  r - b * (r / b) with r = a - b * (a / b) + b, in divisions that round towards zero
Exact     For integers of either sign and a constant b other than 0: the result has the sign of b, as ONNX says. A
          computed b may be 0, where nothing is defined, and is left alone; so are floating-point numbers (fmod). Up to
          half of the largest number for b, r does not overflow.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Stage, attr, const, op, require, rule, var
from surgeon.ir.graph import Value

INTEGERS = (TensorProto.INT32, TensorProto.INT64)

a, divisor = var("a"), const("divisor")


@rule(op.Mod(a, divisor, fmod=attr("fmod")), stage=Stage.LOWER, strategy="decompose")
def decompose(b, a, divisor, fmod):
    require(not fmod and b.dtype(a) in INTEGERS, "it is not a Mod of integers")
    require(divisor.all(), "the divisor is 0")
    largest = max(divisor.reshape(-1).tolist(), key=abs)
    within = abs(largest) <= np.iinfo(divisor.dtype).max // 2
    require(within, f"the remainder and a divisor of {largest} may be more than the type holds")
    first = _remainder(b, a, divisor)  # has the sign of a
    return _remainder(b, b.Add(first, divisor), divisor)


def _remainder(b: Builder, a: Value, divisor: np.ndarray) -> Value:
    return b.Sub(a, b.Mul(b.Div(a, divisor), divisor))
