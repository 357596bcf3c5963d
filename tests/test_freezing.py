"""--set: an input that becomes a constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from helpers import model

import surgeon
from surgeon.app.cli import main

RATE = """(float[B,S] x, int64 rate) => (float[B,S] y) <int64 known = {16000}> {
  is = Equal (rate, known)
  y = If (is) <then_branch = t () => (float[B,S] p) { p = Relu (x) },
    else_branch = e () => (float[B,S] q) { q = Neg (x) }>
}"""


@pytest.mark.parametrize(("rate", "operator"), [(16000, "Relu"), (8000, "Neg")])
def test_a_frozen_input_chooses_its_branch(rate: int, operator: str) -> None:
    result = surgeon.rewrite(model(RATE, opset=17), target="rtx", values={"rate": rate})
    assert [i.name for i in result.model.graph.input] == ["x"]
    assert [n.op_type for n in result.model.graph.node] == [operator]


@pytest.mark.parametrize(
    ("is_known", "given"), [("Equal (rate, known)", "rate=16000"), ("Cast <to = 9> (on)", "on=true")]
)
def test_fix_finds_the_value_with_which_every_node_is_supported(
    is_known: str, given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other branch has an operator that TensorRT-RTX lacks."""
    text = RATE.replace("int64 rate", "int64 rate, bool on").replace("Equal (rate, known)", is_known)
    text = text.replace("q = Neg (x)", "n = Unique (x) m = ReduceSum (n) q = Mul (x, m)")
    onnx.save(model(text, opset=17), tmp_path / "in.onnx")
    assert main(["fix", str(tmp_path / "in.onnx"), "--for", "rtx"]) == 3
    assert f"surgeon fix {tmp_path / 'in.onnx'} --for rtx --set {given}\n" in capsys.readouterr().out
    assert main(["fix", str(tmp_path / "in.onnx"), "--for", "rtx", "--set", given]) == 0


def test_compare_takes_the_value_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(RATE, opset=17), source)
    assert main(["fix", str(source), "--for", "rtx", "--set", "rate=16000", "-o", str(out)]) == 0
    assert "whole model before and after at x 1x64: no error, equal" in capsys.readouterr().out
    assert main(["compare", str(source), str(out), "--set", "rate=16000"]) == 0
    assert main(["compare", str(source), str(out), "--set", "rate=8000"]) == 1
    capsys.readouterr()
    assert main(["compare", str(source), str(out)]) == 2
    assert "--set gives the value" in capsys.readouterr().err


def test_a_vector_is_frozen() -> None:
    result = surgeon.rewrite(
        model("(float[N] x, int64[2] s) => (float[A,B] y) { y = Expand (x, s) }"), values={"s": "3,1"}
    )
    assert [i.name for i in result.model.graph.input] == ["x"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rat": 1}, "no dimension 'rat'. Did you mean 'rate'"),
        ({"rate": 0.5}, "is of int64, and cannot be 0.5"),
        ({"rate": "1,2"}, "has 1 numbers; --set gives 2"),
        ({"rate": "much"}, "NAME=NUMBER"),
    ],
)
def test_a_value_has_to_fit(given: dict[str, object], said: str) -> None:
    with pytest.raises(surgeon.UsageError, match=said):
        surgeon.rewrite(model(RATE, opset=17), values=given)


@pytest.mark.parametrize(
    ("asked", "shapes"),
    [({"values": {"sr": 2}}, {"sr": (1,)}), ({"inputs": {"x": "uint8-nhwc"}}, {"x": (1, 3, 8, 12)})],
)
def test_a_conversion_gets_the_sizes_of_the_inputs_that_are_left(asked: dict[str, Any], shapes: dict[str, Any]) -> None:
    proto = model(
        "(float[N,3,H,W] x, int64[K] sr) => (float[N,4,P,Q] y) <float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}> "
        "{ c = Conv (x, w) s = Cast <to = 1> (sr) m = ReduceMean <keepdims = 0> (s) y = Mul (c, m) }"
    )
    result = surgeon.rewrite(proto, target="8.4", fp16=True, shapes=shapes, **asked)
    assert result.precision is not None and result.precision.half


SQUEEZED = """(float[batch,1,F,4] x, float[batch,4] e) => (float[] y) <int64[2] k = {-1, 1}> {
  m = ReduceMean <axes = [2, 3]> (x) r = Reshape (m, k) s = ReduceMean <axes = [1]> (e)
  t = Add (r, s) q = Squeeze (t) y = Sigmoid (q)
}"""


def test_a_dimension_is_fixed(tmp_path: Path) -> None:
    """TensorRT-RTX builds a Squeeze without axes for no batch of 1, unless the batch is static."""

    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(SQUEEZED, opset=12), source)
    checked = surgeon.check(source, target="rtx")
    assert ["--set fixes it" in node.why for node in checked.unknown] == [True]
    result = surgeon.rewrite(source, target="rtx", values={"batch": 1})
    assert [[d.dim_value or d.dim_param for d in i.type.tensor_type.shape.dim] for i in result.model.graph.input] == [
        [1, 1, "F", 4],
        [1, 4],
    ]
    assert not result.report.unknown
    assert {a.pass_name for a in result.report.applied} >= {"set"}
    result.save(out)
    assert main(["compare", str(source), str(out)]) == 0
    with pytest.raises(surgeon.UsageError, match="one size of 1 or more, not 0"):
        surgeon.rewrite(source, values={"batch": 0})


def test_fix_finds_the_size_that_builds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorrt_rtx")
    onnx.save(model(SQUEEZED, opset=12), tmp_path / "in.onnx")
    assert main(["fix", str(tmp_path / "in.onnx"), "--for", "rtx"]) == 1
    assert f"surgeon fix {tmp_path / 'in.onnx'} --for rtx --set batch=1\n" in capsys.readouterr().out
    assert main(["fix", str(tmp_path / "in.onnx"), "--for", "rtx", "--set", "batch=1"]) == 0
