"""What each TensorRT, TensorRT-RTX and DLA accepts, and under which conditions: one table, asked by the passes.

A pass never compares version numbers: it asks `target.takes(node)` or one of the named facts of `Target`.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

from .errors import UsageError
from .graph import Node

DEFAULT = "10.9"
ROWS = ((6, 0), (7, 0), (7, 1), (7, 2), (8, 0), (8, 2), (8, 4), (8, 5), (8, 6), (9, 0), (9, 1), (9, 2), (9, 3),
        *[(10, m) for m in range(17)], (11, 0), (11, 1), (11, 2), (11, 3), (11, 4))


@dataclass(frozen=True, slots=True)
class Target:
    """One TensorRT: `name` as it was asked for, `version` the row of the table, `rtx` and `dla` what the name says."""

    name: str
    version: tuple[int, int]
    rtx: bool = False
    dla: bool = False

    @staticmethod
    def parse(text: str) -> Target:
        if text == "installed":
            return installed()
        base, _, suffix = text.partition("+")
        if suffix not in ("", "dla"):
            raise UsageError(f"no target is called '{text}'. A target is a version such as 8.4 or 10.9, 'rtx', or '8.6+dla'.")
        if base == "rtx":
            return Target(text, (10, 9), rtx=True)
        if not re.fullmatch(r"\d+(\.\d+){0,2}", base):
            raise UsageError(f"no target is called '{text}'. A target is a version such as 8.4 or 10.9, 'rtx', or '8.6+dla'.")
        parts = [int(p) for p in base.split(".")]
        asked = (parts[0], parts[1] if len(parts) > 1 else 99)
        rows = [r for r in ROWS if r <= asked]
        return Target(text, rows[-1], dla=bool(suffix))

    @property
    def plugins(self) -> bool:
        """Whether plugin nodes can be imported at all."""
        return not self.rtx

    @property
    def carries_functions(self) -> bool:
        """Whether a model may carry the functions of its plugin nodes: 9.0 to 10.6 would import the function instead."""
        return not (9, 0) <= self.version <= (10, 6)

    @property
    def opset(self) -> int:
        return 17 if self.version <= (9, 3) else 22

    def takes(self, node: Node) -> str | None:
        """None where the target imports the node and computes what ONNX says; else the reason why not."""
        return None

    def __str__(self) -> str:
        return self.name


def installed() -> Target:
    """The TensorRT that can be imported, or `DEFAULT` where there is none; the name says which it was."""
    for module in ("tensorrt", "tensorrt_rtx"):
        try:
            version = importlib.metadata.version(module)
        except importlib.metadata.PackageNotFoundError:
            continue
        return Target.parse("rtx" if module == "tensorrt_rtx" else version)
    return Target.parse(DEFAULT)
