"""The load with ONNX Runtime's default options, in a process of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import model, ops
from onnx import numpy_helper

import surgeon
from surgeon.ir import default_load
from surgeon.ir.default_load import ENDS, Load

NEGATED = """(float16[A,4,8] x) => (float16[4,A,8] y) {
    t = Transpose <perm = [1, 0, 2]> (x)  a = Neg (t)  b = Neg (a)  y = MatMul (b, w) }"""
TWICE = '''"""For a test."""
from surgeon import Stage, op, rule, var
x = var("x")
@rule(op.Neg(op.Neg(x)), stage=Stage.FUSE)
def twice(b, x):
    return x
'''


def with_weights(text: str) -> onnx.ModelProto:
    proto = model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.eye(8, dtype=np.float16) * 2, "w"))
    return proto


def test_a_rewrite_behind_which_the_process_ends_is_undone(tmp_path: Path) -> None:
    """ONNX Runtime 1.32 ends over a Transpose before a MatMul by weights in half precision."""
    after = with_weights(NEGATED.replace("a = Neg (t)  b = Neg (a)", "").replace("(b, w)", "(t, w)"))
    if Load(after).answer() != ENDS:
        pytest.skip("ONNX Runtime loads it")
    (tmp_path / "twice.py").write_text(TWICE)
    result = surgeon.rewrite(with_weights(NEGATED), target="10.9", passes=tmp_path, only=["twice"])
    assert ops(result.model) == ["Transpose", "Neg", "Neg", "MatMul"]
    assert [ENDS in undone.why for undone in result.report.undone] == [True]


def test_what_it_says() -> None:
    assert Load(model("(float[N] x) => (float[N] y) { y = Relu (x) }")).answer() == ""
    assert "Nonsense" in str(Load(model("(float[N] x) => (float[N] y) { y = Nonsense (x) }")).answer())


def test_the_process_is_started_anew_where_it_went() -> None:
    proto = model("(float[N] x) => (float[N] y) { y = Relu (x) }")
    assert Load(proto).answer() == ""
    os.kill(default_load._idle[-1]._process.pid, signal.SIGKILL)
    default_load._idle[-1]._process.wait()
    assert Load(proto).answer() == ""


def test_an_answer_that_does_not_come_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_load, "SECONDS", 0.0)
    monkeypatch.setattr(default_load, "SERVER", "import time; time.sleep(60)")
    monkeypatch.setattr(default_load, "_idle", [])
    assert Load(model("(float[N] x) => (float[N] y) { y = Relu (x) }")).answer() is None


def test_a_load_that_is_dropped_leaves_no_process() -> None:
    load = Load(model("(float[N] x) => (float[N] y) { y = Relu (x) }"))
    assert load._server is not None
    process = load._server._process
    load.drop()
    assert process.returncode == -signal.SIGKILL
