"""What the real parser understands of nodes that it would misread, once they are rewritten;
the network is evaluated here.

TensorRT-RTX parses without a GPU. Each of these nodes is rejected or computed wrongly as it is
(tests/test_network.py).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import examples, model
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper
from test_network import AGREES, difference, onnxruntime_outputs, random_feeds, strays

import surgeon
from surgeon.ir.run import Runner
from surgeon.trt.network import ParserRejected, evaluate, parse

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX parses here, without a GPU")

NODES = {
    "trilu": ("(float[2,5,5] x) => (float[2,5,5] y) { y = Trilu (x) }", 17),
    "trilu k": ("(float[2,5,5] x) => (float[2,5,5] y) <int64 k = {1}> { y = Trilu (x, k) }", 17),
    "lp 1": ("(float[2,3,4,5] x) => (float[2,3,1,1] y) { y = GlobalLpPool <p = 1> (x) }", 17),
    "lp 3": ("(float[2,3,4,5] x) => (float[2,3,1,1] y) { y = GlobalLpPool <p = 3> (x) }", 17),
    "lp 5, opset 18": ("(float[2,3,4,5] x) => (float[2,3,1,1] y) { y = GlobalLpPool <p = 5> (x) }", 18),
    "slice": ("(float[4,5,6] x) => (float[2,5,6] y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice (x, s, e) }", 17),
    "slice, steps": (
        "(float[4,5,6] x) => (float[4,2,6] y) <int64[2] s = {0, 9}, int64[2] e = {9, 1}, int64[2] t = {1, -2}>"
        "{ y = Slice (x, s, e, , t) }",
        17,
    ),
    "output_shape": (
        "(float[2,4,5,6] x, float[4,6,3,3] w) => (float[2,6,c,d] y) { y = ConvTranspose <strides = [2, 2], output_shape = [10, 14]> (x, w) }",
        17,
    ),
    "output_padding": (
        "(float[2,4,5,6] x, float[4,6,2,2] w, float[6] b) => (float[2,6,c,d] y)"
        "{ y = ConvTranspose <strides = [2, 2], output_padding = [1, 0]> (x, w, b) }",
        17,
    ),
    "auto_pad": (
        "(float[2,4,5] x, float[4,6,2] w) => (float[2,6,c] y) { y = ConvTranspose <strides = [2], output_padding = [1], auto_pad = \"VALID\"> (x, w) }",
        17,
    ),
    "max pool": ("(float[1,2,4,3] x) => (float[1,2,a,b] y) { y = MaxPool <kernel_shape = [1, 2], strides = [2, 2], ceil_mode = 1> (x) }", 17),
    "all of it": (
        "(float[2,4,5,6] x, float[4,6,3,3] w, float[6] b) => (float[2,6,c,d] y)"
        "{ y = ConvTranspose <strides = [3, 3], output_shape = [17, 19]> (x, w, b) }",
        17,
    ),
    "einsum": ("(float[2,3,4] x) => (float[2,3,3] y) { y = Einsum <equation = \"Bij, Bkj -> Bik\"> (x, x) }", 17),
    "relu of integers": ("(int32[2,3] x) => (int32[2,3] y) { y = Relu (x) }", 17),
    "any": ("(bool[2,3,4] x) => (bool[2,3,1] y) <int64[1] a = {-1}> { y = ReduceMax (x, a) }", 20),
    "absolute values": ("(float[2,3] x) => (float[2,3] y) { y = ReduceL1 <noop_with_empty_axes = 1> (x) }", 18),
    "squares": ("(float[2,3] x) => (float[2,3] y) { y = ReduceSumSquare <noop_with_empty_axes = 1> (x) }", 18),
    "softmax": ("(float[4] x) => (float[4] y) { y = Softmax (x) }", 17),
    "log softmax": ("(float[N] x) => (float[N] y) { y = LogSoftmax <axis = 0> (x) }", 17),
    "clip": ("(float[2,3] x) => (float[2,3] y) <float a = {1}, float b = {-1}> { y = Clip (x, a, b) }", 17),
    "group norm": (
        "(float[4,6] x) => (float[4,6] y) <float[6] s = {1, 2, 3, 1, 2, 3}> { y = GroupNormalization <num_groups = 3> (x, s, s) }",
        21,
    ),
    "negative scale": (
        "(float[2,3] x) => (float[2,3] y) <float s = {-0.1}, int8 z = {0}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
        13,
    ),
    "uint8 weights": (
        "(float[2] x) => (float[2] y) <uint8[2] w = {1, 2}, float s = {0.1}, uint8 z = {0}> { d = DequantizeLinear (w, s, z) y = Add (x, d) }",
        13,
    ),
}  # fmt: skip
REFUSED = {
    "reverse activations": (
        "(float[3,1,4] x, float[2,15,4] w, float[2,15,5] r) => (float[3,2,1,5] y) { y = GRU <hidden_size = 5,"
        " direction = \"bidirectional\", activations = [\"Sigmoid\", \"Tanh\", \"Sigmoid\", \"Relu\"]> (x, w, r) }",
        14,
    ),
    "int16": ("(int16[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", 17),
    "uint8": ("(uint8[2] x) => (uint8[2] y) { y = Sign (x) }", 17),
    "uint8 between": ("(uint8[2,3] x) => (float[2,3] z) { y = Sign (x) z = Cast <to = 1> (y) }", 17),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_parser_refuses_what_is_called_untaken(name: str, tmp_path: Path) -> None:
    body, opset = REFUSED[name]
    result = surgeon.rewrite(model(body, opset), target="rtx")
    assert result.report.untaken
    result.save(tmp_path / "model.onnx")
    with pytest.raises(ParserRejected):
        parse(tmp_path / "model.onnx")


def test_the_parser_reads_uint8_as_int8(tmp_path: Path) -> None:
    body = "(float[9] x) => (float[9] y) <float s = {0.1}> { q = QuantizeLinear (x, s) y = DequantizeLinear (q, s) }"
    original = model(body)
    assert apart(original, original, tmp_path) > 1e-3
    assert "uint8" in surgeon.rewrite(original, target="rtx", only=()).report.untaken[0].why
    assert apart(surgeon.rewrite(original, target="rtx").model, original, tmp_path) < 1e-5


def apart(proto: ModelProto, original: ModelProto, folder: Path) -> float:
    """How far the parser's network of `proto` is from what ONNX Runtime computes of `original`."""
    path = folder / "model.onnx"
    onnx.save(proto, path)
    feeds = random_feeds(original)
    (want,) = onnxruntime_outputs(original, feeds).values()
    try:
        (got,) = evaluate(parse(path), feeds).values()
    except ParserRejected:
        return np.inf
    return difference(got, want)


@pytest.mark.parametrize("name", NODES)
def test_the_parser_reads_what_is_written(name: str, tmp_path: Path) -> None:
    body, opset = NODES[name]
    original = model(body, opset)
    assert apart(original, original, tmp_path) > 1e-3, "the parser reads it right: there is nothing to rewrite"
    result = surgeon.rewrite(original, target="rtx")
    assert result.report.applied and not result.report.undone and not result.report.untaken
    assert apart(result.model, original, tmp_path) <= 1e-5
    assert not surgeon.rewrite(result.model, target="rtx").report.applied


# ---- the Exact lines, for any target ---------------------------------------------------------------------------------


@st.composite
def deconvolutions(draw: st.DrawFn) -> ModelProto:
    axes = draw(st.integers(1, 3))
    sizes, kernel, strides, dilations = (
        draw(st.lists(st.integers(1, most), min_size=axes, max_size=axes)) for most in (4, 3, 3, 2)
    )
    attrs: dict[str, object] = {"strides": strides, "dilations": dilations}
    # ONNX lets the padding reach the dilation; ONNX Runtime refuses it from the stride on, and 1.23 reads past its input.
    more = [draw(st.integers(0, s - 1)) for s in strides]
    natural = [s * (n - 1) + (k - 1) * d + 1 for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)]
    form = draw(st.sampled_from(["output_shape", "output_padding", "VALID"]))
    if form == "output_shape":
        wanted = [draw(st.integers(max(n - 3, 1), n + m)) for n, m in zip(natural, more, strict=True)]
        attrs["output_shape"] = wanted
    else:
        attrs["output_padding"] = more
        if form == "VALID":
            attrs["auto_pad"] = "VALID"
    bias = draw(st.booleans())
    info, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    inputs = [info("x", kind, [2, 2, *sizes]), info("w", kind, [2, 3, *kernel]), *[info("b", kind, [3])] * bias]
    node = helper.make_node("ConvTranspose", [i.name for i in inputs], ["y"], **attrs)
    graph = helper.make_graph([node], "g", inputs, [info("y", kind, ["n", 3, *[f"d{k}" for k in range(axes)]])])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", draw(st.sampled_from([11, 17])))], ir_version=8
    )


@settings(max_examples=examples(60), deadline=None)
@given(deconvolutions(), st.sampled_from(["8.4", "10.9", "rtx"]))
def test_deconvolution(proto: ModelProto, target: str) -> None:
    feeds = random_feeds(proto)
    try:
        want = onnxruntime_outputs(proto, feeds)["y"]
    except Exception:  # an output_shape that ONNX Runtime has no padding for; its own error type is not public
        assume(False)
    result = surgeon.rewrite(proto, target=target)
    assert not result.report.undone, result.report.undone
    left = ("strides together with dilations are refused", "weights that are computed are refused")
    if target == "8.4":
        left += ("its input 2 must be an initializer",)  # the bias stays with weights that are refused all the same
    refused = [u.why for u in result.report.untaken if not u.why.startswith(left)]
    said = {a.name: helper.get_attribute_value(a) for a in proto.graph.node[0].attribute}
    skips_twice = max(said["strides"]) > 1 and max(said["dilations"]) > 1  # which computed weights cannot do without
    assert result.report.applied or not refused or skips_twice, refused
    assert difference(Runner(result.model).run(feeds)[0], want) <= 1e-5
    if target == "rtx" and not result.report.untaken:
        with tempfile.TemporaryDirectory() as folder:
            assert apart(result.model, proto, Path(folder)) <= 1e-5, onnx.printer.to_text(result.model)


@st.composite
def pools(draw: st.DrawFn) -> ModelProto:
    axes = draw(st.integers(1, 3))
    sizes, kernel, strides = (
        draw(st.lists(st.integers(least, most), min_size=axes, max_size=axes))
        for least, most in ((3, 7), (1, 3), (1, 4))
    )
    op = draw(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
    pads = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1}
    if op == "AveragePool":
        attrs["count_include_pad"] = draw(st.integers(0, 1))
    info, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    x, y = info("x", kind, [2, 3, *sizes]), info("y", kind, [2, 3, *[f"d{k}" for k in range(axes)]])
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attrs)], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _pools_stray() -> bool:
    opset, graph = AGREES["average pool"]
    return strays(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {graph}'))


@pytest.mark.skipif(_pools_stray(), reason="this ONNX Runtime computes some of them otherwise than ONNX defines them")
@settings(max_examples=examples(80), deadline=None)
@given(pools(), st.sampled_from(["8.4", "10.9", "rtx"]))
def test_pool(proto: ModelProto, target: str) -> None:
    feeds = random_feeds(proto)
    want = onnxruntime_outputs(proto, feeds)["y"]
    result = surgeon.rewrite(proto, target=target)
    assert not result.report.undone, result.report.undone
    assert difference(Runner(result.model).run(feeds)[0], want) <= 1e-5
    if target == "rtx" and len(want.shape) > 3 and not result.report.untaken:
        with tempfile.TemporaryDirectory() as folder:
            assert apart(result.model, proto, Path(folder)) <= 1e-5, onnx.printer.to_text(result.model)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 7), st.integers(1, 3), st.sampled_from(["8.4", "10.9"]), st.sampled_from([1e-3, 1.0, 1e4]))
def test_global_lp_pool(p: int, axes: int, target: str, scale: float) -> None:
    dims = ",".join(["2", "3", *["4", "5", "3"][:axes]])
    proto = model(
        f"(float[{dims}] x) => (float[{','.join(['2', '3', *['1'] * axes])}] y) {{ y = GlobalLpPool <p = {p}> (x) }}"
    )
    feeds = {"x": random_feeds(proto)["x"] * np.float32(scale)}
    result = surgeon.rewrite(proto, target=target)
    assert bool(result.report.applied) == bool(p % 2) and not result.report.undone
    assert difference(Runner(result.model).run(feeds)[0], onnxruntime_outputs(proto, feeds)["y"]) <= 1e-5


def test_a_pooling_with_padding_as_large_as_its_kernel_is_left_alone() -> None:
    """ONNX Runtime takes none, however far the kernel is dilated: such a pooling is for dilated-pool."""
    body = """(float[1,1,10,10] x) => (float[1,1,A,B] y) {
        y = MaxPool <kernel_shape = [2, 2], strides = [3, 3], dilations = [2, 2], ceil_mode = 1> (x)
    }"""
    report = surgeon.rewrite(model(body), target="10.9", only=["respell"]).report
    assert not report.undone and [d.why for d in report.declined] == ["the padding would be as large as its kernel"]
