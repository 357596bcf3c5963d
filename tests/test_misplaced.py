"""`surgeon check`: quantizers that are where they do not belong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_repair_qdq import W, X, parsed, repaired

import surgeon
from surgeon.app.cli import main
from surgeon.pipeline import misplaced as rules

S = "qx = QuantizeLinear (x, s, none) dx = DequantizeLinear (qx, s, none)"
CONV = "Conv <pads = [1, 1, 1, 1]>"


def pair(name: str) -> str:
    return f"q{name} = QuantizeLinear ({name}, t, none) d{name} = DequantizeLinear (q{name}, t, none)"


def found(model: onnx.ModelProto, target: str = "10.9") -> dict[str, list[str]]:
    """The nodes by what is wrong with them."""
    by_why: dict[str, list[str]] = {}
    for m in surgeon.check(model, target=target).misplaced:
        assert m.cost and (m.fixed_by or m.why in (rules.BIAS.why, rules.UNKNOWN.why))
        by_why.setdefault(m.why, []).append(m.node)
    return by_why


SEEN = {
    "uint8": (f"{X} {W} y = {CONV} (dx, dw)", rules.UINT8, "QuantizeLinear -> qx"),
    "zero point": (
        f"qx = QuantizeLinear (x, s, odd) dx = DequantizeLinear (qx, s, odd) {W} y = {CONV} (dx, dw)",
        rules.ZERO,
        "QuantizeLinear -> qx",
    ),
    "bias": (
        f"{S} {W} db = DequantizeLinear (b, bs, zero) y = {CONV} (dx, dw, db)",
        rules.BIAS,
        "DequantizeLinear -> db",
    ),
    "infinite scale": (
        f"{S} {W} c = {CONV} (dx, dw) q = QuantizeLinear (c, endless, none) e = DequantizeLinear (q, endless, none) "
        f"y = {CONV} (e, dw)",
        rules.SCALE,
        "QuantizeLinear -> q",
    ),
    "activation": (
        f"{S} {W} c = {CONV} (dx, dw) {pair('c')} y = Relu (dc)",
        rules.BEFORE_ACTIVATION,
        "QuantizeLinear -> qc",
    ),
    "concat": (
        f"{S} {W} a = {CONV} (dx, dw) p = {CONV} (dx, dw) j = Concat <axis = 2> (a, p) {pair('j')} k = {CONV} (dj, dw) "
        "i = Constant <value_ints = [0, 1, 2, 3, 4, 5, 6, 7]> () y = Gather <axis = 2> (k, i)",
        rules.AFTER_CONCAT,
        "QuantizeLinear -> qj",
    ),
    "transposed": (
        f"{S} {W} c = ConvTranspose <pads = [1, 1, 1, 1]> (dx, dw) r = Relu (c) {pair('r')} y = {CONV} (dr, dw)",
        rules.AFTER_TRANSPOSED,
        "QuantizeLinear -> qr",
    ),
    "residual": (f"{S} {W} c = {CONV} (dx, dw) {pair('c')} y = Add (dc, dx)", rules.BOTH_BRANCHES, "Add -> y"),
    "one input": (f"{W} y = {CONV} (x, dw)", rules.ONE_INPUT, "Conv -> y"),
    "gains nothing": (
        f"{S} {W} c = {CONV} (dx, dw) e = Relu (c) {pair('e')} y = Softmax (de)",
        rules.GAINS_NOTHING,
        "QuantizeLinear -> qe",
    ),
    "output": (f"{S} {W} c = {CONV} (dx, dw) q = QuantizeLinear (c, t, none) y = DequantizeLinear (q, t, none)",
               rules.OUTPUT, "QuantizeLinear -> q"),
}  # fmt: skip


def model_of(body: str) -> onnx.ModelProto:
    return parsed(body, odd=np.int8(3), b=np.arange(32, dtype=np.int32), endless=np.float32(np.inf))


@pytest.mark.parametrize("name", SEEN)
def test_each_kind_is_named(name: str) -> None:
    body, kind, node = SEEN[name]
    nodes = found(model_of(body))
    assert nodes.pop(kind.why)[0] == node
    assert not nodes or (name == "transposed" and "ConvTranspose with its activation" in str(nodes))


@pytest.mark.parametrize("name", SEEN)
def test_the_repair_fixes_it(name: str) -> None:
    body, kind, _ = SEEN[name]
    assert kind.fixed_by in ("", rules.REPAIR)
    assert found(repaired(model_of(body)).model) == {} or name == "one input"


def test_a_good_model_has_none() -> None:
    model = parsed(f"{S} {W} c = {CONV} (dx, dw) r = Relu (c) {pair('r')} e = {CONV} (dr, dw) y = Add (e, dr)")
    assert found(model) == {}
    assert found(parsed("y = Relu (x)")) == {}


def test_layers_that_gain_nothing() -> None:
    model = parsed(f"{S} dv = DequantizeLinear (v, ws, none) y = Conv (dx, dv)", v=np.ones((32, 8, 1, 1), np.int8))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8]))
    assert found(model) == {"fewer than 16 channels are too few for an int8 kernel": ["Conv -> y"]}


def test_weights_whose_scale_is_nan_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What they are is unknown: --repair-qdq refuses them, and who only looks does not."""
    model = parsed(f"{S} dw = DequantizeLinear (w, bad, none) y = {CONV} (dx, dw)", bad=np.float32(np.nan))
    assert found(model)[rules.UNKNOWN.why] == ["DequantizeLinear -> dw"]
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    assert main(["fix", str(path), "--for", "10.9", "-o", str(out)]) != 2
    printed = capsys.readouterr().out
    assert rules.NOTHING in printed and rules.REPAIR not in printed and out.exists()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.onnx"
    onnx.save(model_of(SEEN["concat"][0]), path)
    assert main(["check", str(path), "--target", "10.9"]) == 0
    printed = capsys.readouterr().out
    assert f"misplaced: {rules.AFTER_CONCAT.why}" in printed and f"surgeon rewrite {rules.REPAIR}" in printed
    assert main(["check", str(path), "--target", "10.9", "--format", "json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["files"]
    (one,) = verdict["misplaced"]
    assert one == {"node": "QuantizeLinear -> qj", "op": "QuantizeLinear", **rules.AFTER_CONCAT._asdict()}
    assert main(["check", str(path), str(path), "--target", "10.9", "-v"]) == 0
    assert "misplaced" not in capsys.readouterr().out, "a supported file is one line"
