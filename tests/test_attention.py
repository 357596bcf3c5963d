"""Attention written out: the same numbers for every mask, grouping and type, and what TensorRT-RTX makes of it."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers import examples, onnxruntime_runs
from helpers import model as written
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

import surgeon
from surgeon.ir.run import Reference, Runner
from surgeon.trt.network import evaluate, parse

LENGTHS = "(float[1,1,1,4] q, int64[1] n) => (float[1,1,1,4] y) { y = Attention (q, q, q, , , , n) }"
pytestmark = pytest.mark.skipif(
    not onnxruntime_runs(written(LENGTHS, opset=24)), reason="this ONNX Runtime has no Attention of opset 24"
)
TYPES: dict[int, Any] = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}


@st.composite
def attentions(draw: st.DrawFn) -> tuple[ModelProto, dict[str, np.ndarray]]:
    kind = draw(st.sampled_from(list(TYPES)))
    batch, queries, keys = 2, draw(st.integers(1, 5)), draw(st.integers(3, 6))
    groups, heads, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([4, 16]))
    flat = draw(st.booleans())
    attrs: dict[str, Any] = {"q_num_heads": groups * heads, "kv_num_heads": heads} if flat else {}
    if draw(st.booleans()):
        attrs["scale"] = 0.3
    if draw(st.booleans()):
        attrs["softcap"] = 2.0
    masked = draw(st.sampled_from(["", "numbers", "booleans"]))
    lengths = masked != "numbers" and draw(st.booleans())
    causal_too = kind == TensorProto.FLOAT or masked != "numbers"  # else it is left alone
    if not lengths and causal_too and draw(st.booleans()):
        attrs["is_causal"] = 1

    def shape(count: int, positions: int) -> list[int]:
        return [batch, positions, count * size] if flat else [batch, count, positions, size]

    rng = np.random.default_rng(draw(st.integers(0, 99)))
    feeds = {"q": shape(groups * heads, queries), "k": shape(heads, keys), "v": shape(heads, keys)}
    arrays = {name: rng.standard_normal(s).astype(TYPES[kind]) for name, s in feeds.items()}
    info = helper.make_tensor_value_info
    first = draw(st.sampled_from(["n0", batch]))
    inputs = [info(name, kind, [first, *s[1:]]) for name, s in feeds.items()]
    names = ["q", "k", "v", "", "", "", ""]
    if masked:
        names[3] = "m"
        wide = [draw(st.sampled_from([1, batch])), 1, queries, keys] if draw(st.booleans()) else [queries, keys]
        inputs.append(info("m", kind if masked == "numbers" else TensorProto.BOOL, wide))
        arrays["m"] = rng.standard_normal(wide).astype(TYPES[kind]) if masked == "numbers" else rng.random(wide) < 0.7
        if masked == "booleans":
            arrays["m"][..., 0] = True  # TensorRT-RTX's own layer computes NaN for a query without any key
    if lengths:
        names[6] = "n"
        inputs.append(info("n", TensorProto.INT64, [batch]))
        arrays["n"] = rng.integers(0, keys + 1, batch)
    while not names[-1]:
        names.pop()
    node = helper.make_node("Attention", names, ["y"], **attrs)
    graph = helper.make_graph([node], "g", inputs, [info("y", kind, [None] * (3 if flat else 4))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), arrays


@settings(max_examples=examples(60), deadline=None)
@given(attentions(), st.sampled_from(["9.3", "10.9", "rtx"]))
def test_attention(given: tuple[ModelProto, dict[str, np.ndarray]], target: str) -> None:
    model, feeds = given
    onnx.checker.check_model(model, full_check=True)
    result = surgeon.rewrite(model, target=target)
    assert not result.report.undone, (result.report.undone, onnx.printer.to_text(model))
    applied = bool(result.report.applied)
    assert applied or target == "rtx", (result.report.declined, onnx.printer.to_text(model))
    want = Runner(model).run(feeds)[0].astype(np.float64)
    got = [Runner(result.model).run(feeds)[0]]
    if target == "rtx" and importlib.util.find_spec("tensorrt_rtx") and not result.report.untaken:
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(result.model, Path(folder) / "m.onnx")
            got += evaluate(parse(Path(folder) / "m.onnx"), feeds).values()
    tolerance = 2e-5 if feeds["q"].dtype == np.float32 else 1e-2
    for y in got:
        np.testing.assert_allclose(y.astype(np.float64), want, atol=tolerance * max(np.abs(want).max(), 1e-3))
    assert not surgeon.rewrite(result.model, target=target).report.applied


@pytest.mark.parametrize("target", ["8.6", "10.9", "rtx"])
def test_a_mask_of_the_lowest_number_hides_no_key_from_the_causal_one(target: str) -> None:
    """Padding on the left as transformers writes it. By ONNX the causal mask is -inf and the other one is added: a
    query in the padding attends to what came before it. (ONNX Runtime gives 0 there.)"""
    model = written(
        """(float[1,1,4,2] q, float[1,1,4,2] k, float[1,1,4,2] v, float[4,4] m) => (float[1,1,4,2] y) {
            y = Attention <is_causal = 1> (q, k, v, m)
        }""",
        opset=23,
        ir=11,
    )
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((1, 1, 4, 2)).astype(np.float32) for name in "qkv"}
    feeds["m"] = np.zeros((4, 4), np.float32)
    feeds["m"][:, :2] = np.finfo(np.float32).min
    want = Reference(model).run(feeds)[0]
    assert np.array_equal(want[0, 0, 0], feeds["v"][0, 0, 0])
    result = surgeon.rewrite(model, target=target)
    assert result.report.applied and not result.report.untaken
    np.testing.assert_allclose(Runner(result.model).run(feeds)[0], want, atol=1e-5)
