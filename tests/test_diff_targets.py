"""`surgeon diff-targets`: which nodes a new TensorRT supports, or takes no more, and which passes that needs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from helpers import model

from surgeon.app.cli import main

Captured = pytest.CaptureFixture[str]

NORM = """(float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
    [norm] a = InstanceNormalization (x, s, b)
    y = Relu (a)
}"""
COMPRESS = "(float[N,3] x, bool[M] c) => (float[K,3] y) { [squeeze] y = Compress <axis = 0> (x, c) }"
RELU = "(float[N,3] x) => (float[N,3] y) { y = Relu (x) }"


def diff(folder: Path, text: str, old: str, new: str, capsys: Captured) -> tuple[int, list[str]]:
    onnx.save(model(text), folder / "m.onnx")
    status = main(["diff-targets", old, new, str(folder / "m.onnx")])
    return status, capsys.readouterr().out.splitlines()


def test_an_upgrade_takes_more(tmp_path: Path, capsys: Captured) -> None:
    status, lines = diff(tmp_path, NORM, "8.4", "10.9", capsys)
    assert status == 0
    assert lines[0].endswith("m.onnx, from target 8.4 to 10.9")
    group = next(k for k, line in enumerate(lines) if line.startswith("supported now; before: it runs"))
    assert lines[group + 1] == "  norm  InstanceNormalization  instance-norm"
    assert "rewrite  instance-norm  1x ->  0x" in lines
    assert any(
        line.split() == ["target", "opset", "that", "the", "parser", "reads", "17", "->", "22"] for line in lines
    )
    assert lines[-1] == "TensorRT 10.9 supports every node that TensorRT 8.4 supports (from the parser's source)"


def test_a_downgrade_loses_nodes(tmp_path: Path, capsys: Captured) -> None:
    status, lines = diff(tmp_path, NORM, "10.9", "8.4", capsys)
    assert status == 1
    assert any(line.startswith("unsupported now: it runs as a plugin") for line in lines)
    assert lines[-1].startswith("TensorRT 8.4 does not support 1 node that TensorRT 10.9 supports; surgeon rewrite ")


def test_what_neither_takes_is_no_change(tmp_path: Path, capsys: Captured) -> None:
    status, lines = diff(tmp_path, COMPRESS, "8.4", "10.9", capsys)
    assert status == 0
    group = next(k for k, line in enumerate(lines) if line.startswith("unsupported by both: "))
    assert lines[group + 1] == "  squeeze  Compress  no pass"
    assert not any(line.startswith(("taken", "rewrite")) for line in lines)


def test_the_same_target_changes_nothing(tmp_path: Path, capsys: Captured) -> None:
    """Under another name: JetPack 5.1.2 has TensorRT 8.5.2."""
    status, lines = diff(tmp_path, RELU, "8.5", "jetpack-5.1.2", capsys)
    assert (status, len(lines)) == (0, 2)
    assert "8.5.2 (JetPack 5.1.2 has TensorRT 8.5.2)" in lines[0]


def test_a_wrong_name_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    assert diff(tmp_path, RELU, "8.4", "orin", capsys)[0] == 2
