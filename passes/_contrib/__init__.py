"""What ONNX Runtime's own operators compute, in ONNX's: a function an operator, in one table."""

from . import attention, blocks, normalizations, products, quantized, recurrent  # noqa: F401
from .table import BODIES, built

__all__ = ["BODIES", "built"]
