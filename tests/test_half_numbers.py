"""Numbers that half precision does not hold: each is recognized, kept or rewritten, and said."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from surgeon.app.cli import main

HEAD = '<ir_version: 10, opset_import: ["" : 22]>\n'
# The difference of two products that are nearly equal: no MatMul can be in half precision.
CANCELS = """g (float[2,2] x) => (float[2,2] y)
<float[2,2] big = {101, 57, 83, 145}, float[2,2] near = {101.01, 57.006, 83.008, 145.014}> {
    a = MatMul (x, big) b = MatMul (x, near) y = Sub (a, b)
}"""


def saved(text: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    return path


@pytest.mark.parametrize(("command", "way"), [("rewrite", "bf16"), ("rewrite", "half"), ("fix", "fp16")])
def test_a_failed_conversion_ends_with_its_error(
    command: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = saved(CANCELS, tmp_path), tmp_path / "out.onnx"
    words = [command, str(source), str(out)] if command == "rewrite" else [command, str(source), "-o", str(out)]
    assert main([*words, "--target", "rtx", f"--{way}"]) == 1
    name = "half precision" if way == "half" else way
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"the conversion to {name} failed: 'y': ") and "is above" in last and not out.exists()
    assert main([*words, "--target", "rtx", f"--{way}", "--allow-inexact"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(last) and "; TensorRT-RTX supports all" in line for line in lines) and out.exists()
