"""What each TensorRT, TensorRT-RTX and DLA takes."""

from surgeon.targets.target import Target

__all__ = ["Target"]
