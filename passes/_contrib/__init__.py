"""What ONNX Runtime's own operators compute, in ONNX's: a function an operator, in one table."""

from . import (  # noqa: F401
    attention,
    blocks,
    experts,
    few_bits,
    grouped,
    inverse,
    normalizations,
    products,
    quantized,
    quantized_products,
    recurrent,
)
from .table import BODIES

__all__ = ["BODIES"]
