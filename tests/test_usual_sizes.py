"""Sizes and inputs that a user would take: found by trying, for fix, compare, build and the conversions alike."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
import pytest
from helpers import model

from surgeon.app.cli import main
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.inputs import plausible
from surgeon.trt.profiles import profile_texts, proposed

needs_rtx = pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="TensorRT-RTX is not installed")
Captured = pytest.CaptureFixture[str]
LINE = """(float[N,3,H,W] x) => (float[N,W,K] y) <float[4,3,48,1] w = {W}, int64[1] two = {2}> {
  c = Conv (x, w) s = Squeeze (c, two) y = Transpose <perm = [0, 2, 1]> (s)
}""".replace("{W}", "{" + ", ".join(["0.5"] * 576) + "}")
TOKENS = """(int64[B,S] ids, float[B,T] mask) => (float[B,17,4] y)
  <float[9,4] table = {T}, float[17,17] mixed = {M}, float[17,4] w = {P}, int64[1] one = {1}> {
  g = Gather (table, ids) p = MatMul (mixed, g)
  m = MatMul (mask, w) u = Unsqueeze (m, one) y = Mul (p, u)
}"""
for mark, count in (("T", 36), ("M", 289), ("P", 68)):
    TOKENS = TOKENS.replace(f"{{{mark}}}", "{" + ", ".join(["0.5"] * count) + "}")
ALIKE = """(float[B,S] a, float[B,T] b) => (float[B,S] y) { y = Add (a, b) }"""
FOURS = """(float[A,7] a, float[B,7] b, float[C,7] c) => (float[R,21] y)
  <int64[2] four = {4, -1}, int64[2] rows = {-1, 21}> {
  p = Concat <axis = 1> (a, b, c) q = Reshape (p, four) y = Reshape (q, rows)
}"""
RATE = """(float[B,S] x, int64 rate) => (float[B,R] y) <int64 known = {16000}, int64[2] shape = {-1, 96}> {
  is = Equal (rate, known)
  y = If (is) <then_branch = t () => (float[B,S] p) { p = Relu (x) }, else_branch = e () => (float[B,96] q) {
    q = Reshape (x, shape) }>
}"""
FRAMES = """(float[T,F] x) => (float[T,1,1,2] y)
  <float[1,6,3] w = {W}, float[1,6,2] r = {R}, int64[1] one = {1}> {
  u = Unsqueeze (x, one) y = GRU <hidden_size = 2> (u, w, r)
}""".replace("{W}", "{" + ", ".join(["0.5"] * 18) + "}").replace("{R}", "{" + ", ".join(["0.5"] * 12) + "}")
SPECTRUM = """(float[T,F] x) => (float[1,1,R,G] y) <float[1,1,3,1] w = {1, 2, 1}, int64[2] outer = {0, 1}> {
  u = Unsqueeze (x, outer) y = Conv (u, w)
}"""
BANDS = """(float[T,F] x) => (float[R,2] y)
  <float[2,1,3,3] w = {W}, int64[2] outer = {0, 1}, int64[1] first = {0}, int64[2] s = {-1, 90}, float[90,2] m = {M}> {
  u = Unsqueeze (x, outer) c = Conv (u, w) t = Transpose <perm = [0, 2, 3, 1]> (c) f = Squeeze (t, first)
  z = Reshape (f, s) y = MatMul (z, m)
}""".replace("{W}", "{" + ", ".join(["0.5"] * 18) + "}").replace("{M}", "{" + ", ".join(["0.5"] * 180) + "}")
HEADS = """(float[B,T,4] x) => (float[R,4] y)
  <int64[4] four = {0, -1, 2, 2}, int64[2] two = {-1, 4}, float[4,4] w = {W}> {
  h = Reshape (x, four) r = Reshape (h, two) y = MatMul (r, w)
}""".replace("{W}", "{" + ", ".join(["0.5"] * 16) + "}")
ONE_SIZE = "(float[N,8] x) => (float[8,N] y) <int64[2] s = {8, 70001}> { y = Reshape (x, s) }"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (LINE, {"x": "1x3x48x32,1x3x48x224,8x3x48x448"}),
        (TOKENS, {"ids": "1x17,1x17,8x17", "mask": "1x17,1x17,8x17"}),
        (FOURS, {"a": "4x7,4x7,32x7", "b": "4x7,4x7,32x7", "c": "4x7,4x7,32x7"}),
        (FRAMES, {"x": "1x3,512x3,4096x3"}),
        (SPECTRUM, {"x": "8x8,64x64,512x512"}),
        (HEADS, {"x": "1x1x4,1x64x4,8x512x4"}),
        (BANDS, {"x": "8x47,64x47,512x47"}),
        (
            "(float[T,F,C] x) => (float[T,F,C] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { y = Mul (w, x) }",
            {"x": "1x2x3,1x2x3,8x2x3"},
        ),
        (ALIKE, {"a": "1x1,1x64,8x512", "b": "1x1,1x64,8x512"}),
        ("(float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Relu (x) }", {"x": "1x3x32x32,1x3x224x224,8x3x448x448"}),
    ],
)
def test_sizes_that_the_graph_forces_are_found(text: str, wanted: dict[str, str]) -> None:
    assert profile_texts(proposed(model(text, opset=17))) == wanted


def test_a_number_that_the_model_compares_with_is_given() -> None:
    made = model(RATE, opset=17)
    found = plausible(made, Runner(made).run)
    assert found.samples[0]["rate"] == 16000 and found.samples[0]["x"].shape == (1, 64)


def test_sizes_that_are_given_are_kept() -> None:
    made = model(ALIKE)
    found = plausible(made, Runner(made).run, {"a": (2, 5)})
    assert found.ranges()["a"] == ((2, 5), (2, 5), (2, 5)) and found.samples[0]["b"].shape[0] == 2


def test_where_nothing_runs_the_reason_is_given() -> None:
    made = model(ONE_SIZE)
    with pytest.raises(Unrunnable, match="Reshape"):
        plausible(made, Runner(made).run)


def test_compare_finds_sizes_and_takes_those_of_several_inputs(tmp_path: Path, capsys: Captured) -> None:
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(LINE, opset=17), source)
    assert main(["fix", str(source), "--for", "8.4", "-o", str(out)]) == 0
    assert "whole model before and after at x 1x3x48x224: no error, equal\n" in capsys.readouterr().out
    assert main(["compare", str(source), str(out)]) == 0
    onnx.save(model("(float[B,S] a, float[B,P] past) => (float[B,T] y) { y = Concat <axis = 1> (a, past) }"), source)
    assert main(["compare", str(source), str(source), "--shapes", "a:1x5,past:1x0"]) == 0
    assert "'a:[1,5]' 'past:[1,0]'" in capsys.readouterr().out
    assert main(["compare", str(source), str(source), "--shapes", "a:0x5,past:0x0"]) == 2
    assert "nothing was compared" in capsys.readouterr().err


def test_fix_says_where_the_whole_model_was_not_run(tmp_path: Path, capsys: Captured) -> None:
    """The command has a shape all the same: it is the user's to change."""
    source = tmp_path / "in.onnx"
    onnx.save(model(ONE_SIZE), source)
    assert main(["fix", str(source), "--for", "10.9"]) == 0
    printed = capsys.readouterr().out
    assert "\nthe whole model was not run: " in printed and printed.endswith("--shapes=x:1x8\n")


SIZE = """(float[N,3,H,W] x, int64[2] hw) => (float[N,3,A,B] y) <int64[1] zero = {0}, int64[1] two = {2}> {
  s = Shape (x) t = Slice (s, zero, two, zero) u = Concat <axis = 0> (t, hw) y = Resize <mode = "linear"> (x, , , u)
}"""
END = """(float[1,64,8] x, int64 length) => (float[1,K,8] y) <int64[1] zero = {0}, int64[1] one = {1}> {
  u = Unsqueeze (length, zero) y = Slice (x, zero, u, one)
}"""


@needs_rtx
@pytest.mark.parametrize(
    ("text", "profile"),
    [
        (SIZE, ["x:1x3x32x32,1x3x224x224,8x3x448x448", "hw:32x32,128x128,512x512"]),
        (END, ["length:1,64,64"]),
    ],
)
def test_an_input_of_sizes_gets_values(text: str, profile: list[str], tmp_path: Path, capsys: Captured) -> None:
    """build refuses a model without them, and the command that it prints builds; so does that of fix."""
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(text, opset=17), source)
    words = [w for p in profile for w in ("--profile", p)]
    assert main(["build", str(source), str(tmp_path / "e"), "--with", "rtx", *words[:-2]]) == 2
    said = capsys.readouterr().err
    assert f"'{profile[-1].partition(':')[0]}' is read as sizes and has no --profile" in said
    assert said.rstrip().endswith(" ".join(words[-2:]))
    assert main(["fix", str(source), "--for", "rtx", "-o", str(out)]) == 0
    assert any(line.endswith(" ".join(words)) for line in capsys.readouterr().out.splitlines())
    assert main(["build", str(out), str(tmp_path / "e"), "--with", "rtx", *words]) == 0


def test_trtexec_gets_values_of_sizes(tmp_path: Path, capsys: Captured) -> None:
    source = tmp_path / "in.onnx"
    onnx.save(model(END, opset=17), source)
    main(["fix", str(source), "--for", "10.9"])
    assert "--minShapes=length:1 --optShapes=length:64 --maxShapes=length:64" in capsys.readouterr().out
