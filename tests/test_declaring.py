"""`--custom-shape`: what a custom operator returns is known from nobody but the user."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from helpers import model, ops

import surgeon
from surgeon.app.cli import main
from surgeon.errors import UsageError

CUSTOM = (
    "(float[N,8] x) => (float[N,8] y) <float a = {0.1}> "
    "{ f = my.Foo (x)  m = Mul (f, a)  l = Max (f, m)  s = Sigmoid (l)  n = Mul (s, a)  y = Max (s, n) }"
)


def custom() -> onnx.ModelProto:
    return model(CUSTOM, extra=', "my" : 1')


def test_a_custom_operator_takes_no_rewrite_along_once_its_shape_is_said(tmp_path: Path) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(custom(), source)
    assert main(["rewrite", str(source), str(out), "--target", "10.9", "--custom-shape", "f:Nx8"]) == 3  # Foo stays
    assert ops(onnx.load(out)) == ["Foo", "LeakyRelu", "Sigmoid", "LeakyRelu"]
    again = surgeon.rewrite(out, target="10.9").report
    assert not again.applied and not again.warnings, "the file says it now"


def test_what_is_not_known_is_told() -> None:
    report = surgeon.rewrite(custom(), target="10.9").report
    assert not report.applied and "--custom-shape f:Nx256" in report.warnings[0]


def test_another_type_is_believed() -> None:
    """fp16 where the constant is fp32: the window is none that runs, so nothing is written."""
    report = surgeon.rewrite(custom(), target="10.9", only=["leaky-relu"], declared={"f": "Nx8,float16"}).report
    assert not report.applied


@pytest.mark.parametrize("said", [{"g": "2x8"}, {"x": "2x8"}, {"f": "max"}, {"f": "2x8,flout"}, {"f": ""}])
def test_what_cannot_be_read_is_refused(said: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--custom-shape"):
        surgeon.rewrite(custom(), target="10.9", declared=said)
