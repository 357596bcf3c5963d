"""Why a pass leaves a node alone: tests/declines has a file a pass, with a few lines for each guard.

    # its products are used, and it has a mask
    # opset: 17
    (float[2,5,8] q, int32[2,6] m) => (float[2,5,8] y)
    y = com.microsoft.MultiHeadAttention (q, m)

The reason comes first. Without a line the opset is 17, and the target TensorRT-RTX. A case file in tests/cases shows
what a rewrite writes; a guard needs no more than this.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import model

import surgeon

HERE = Path(__file__).parent / "declines"
EXTRA = ', "com.microsoft" : 1, "ai.onnx.ml" : 4'
BLOCKS = [
    pytest.param(path.stem, block, id=f"{path.stem}/{k}")
    for path in sorted(HERE.glob("*.onnxtxt"))
    for k, block in enumerate(path.read_text(encoding="utf-8").strip().split("\n\n"))
]


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_declines(name: str, block: str) -> None:
    heads = [line[2:] for line in block.splitlines() if line.startswith("# ")]
    reason, settings = heads[0], dict(line.split(": ") for line in heads[1:])
    graph, *nodes = [line for line in block.splitlines() if not line.startswith("# ")]
    opset, only = int(settings.pop("opset", 17)), name.replace("_", "-")
    proto = model(f"{graph} {{ {' '.join(nodes)} }}", opset, ir=10, extra=EXTRA)
    result = surgeon.rewrite(proto, only=[only], verify="none", **{"target": "rtx", **settings})
    assert only not in {applied.pass_name for applied in result.report.applied}
    reasons = [declined.why for declined in result.report.declined if declined.pass_name == only]
    assert any(reason in why for why in reasons), reasons
