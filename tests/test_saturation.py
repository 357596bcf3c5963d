"""ONNX Runtime's kernels of uint8 by int8 saturate on processors without VNNI: surgeon's runs of a model do not."""

import numpy as np
import pytest
from onnx import parser

from surgeon.ir.run import Runner
from surgeon.ir.saturation import unsaturated

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
X, W = np.full((1, 8, 3, 3), 255, np.uint8), np.full((2, 8, 3, 3), 127, np.int8)
SUM = 255 * 127 * 72


def ran(text: str, **feeds: np.ndarray) -> np.ndarray:
    return Runner(parser.parse_model(HEAD + text)).run(feeds)[0]


def test_matmul_integer_of_computed_weights() -> None:
    text = "g (uint8[1,64] x, int8[64,2] w) => (int32[1,2] y) { y = MatMulInteger (x, w) }"
    assert (ran(text, x=np.full((1, 64), 255, np.uint8), w=np.full((64, 2), -128, np.int8)) == -255 * 128 * 64).all()
    assert (ran(text, x=np.full((1, 64), 255, np.uint8), w=np.full((64, 2), 127, np.int8)) == 255 * 127 * 64).all()


def test_weights_behind_nodes_of_their_own() -> None:
    text = """g (uint8[1,64] x, int8[2,64] w) => (int32[1,2] y) <int8 k = {3}>
    { v = Transpose <perm = [1, 0]> (w)
      y = MatMulInteger (x, v, , k) }"""
    assert (ran(text, x=np.full((1, 64), 255, np.uint8), w=np.full((2, 64), 127, np.int8)) == 255 * 124 * 64).all()


@pytest.mark.parametrize(("x", "w"), [(X, W), ((X ^ 128).view(np.int8), (W.view(np.uint8) ^ 128))])
def test_conv_integer_of_either_order(x: np.ndarray, w: np.ndarray) -> None:
    text = f"""g ({x.dtype}[1,8,3,3] x, {w.dtype}[2,8,3,3] w) => (int32[1,2,3,3] y)
    {{ y = ConvInteger <pads = [1,1,1,1]> (x, w) }}"""
    wide = x.astype(int)[0, :, :2, :2].sum() * int(w.flat[0])  # of the corner, where one row and one column are padding
    found = ran(text, x=x, w=w)
    assert found[0, 0, 0, 0] == wide and found[0, 0, 1, 1] == x.astype(int).sum() * int(w.flat[0])


@pytest.mark.parametrize("domain", ["", "com.microsoft."])
@pytest.mark.parametrize("zero_point", ["int8 k = {0}", "int8[2] k = {0, 0}"])
def test_qlinear_conv(domain: str, zero_point: str) -> None:
    scales = "float[2] s = {1, 1}" if "[2]" in zero_point else "float s = {1}"
    weights = ",".join(["127"] * W.size)
    text = f"""g (uint8[1,8,3,3] x) => (uint8[1,2,1,1] y)
    <int8[2,8,3,3] w = {{{weights}}}, {scales}, {zero_point}, float a = {{1}}, uint8 e = {{0}}, float o = {{20000}}>
    {{ y = {domain}QLinearConv (x, a, e, w, s, k, o, e) }}"""
    assert (ran(text, x=X) == round(SUM / 20000)).all()


def test_a_product_in_a_body() -> None:
    text = """g (uint8[1,64] x, int8[64,2] w, bool c) => (int32[1,2] y)
    { y = If (c) <then_branch = t () => (int32[1,2] a) { a = MatMulInteger (x, w) },
                  else_branch = e () => (int32[1,2] b) { b = MatMulInteger (x, w) }> }"""
    feeds = {"x": np.full((1, 64), 255, np.uint8), "w": np.full((64, 2), 127, np.int8), "c": np.array(True)}
    assert (ran(text, **feeds) == 255 * 127 * 64).all()


@pytest.mark.parametrize("x", ["uint8", "int8"])
def test_operands_of_one_type_stay(x: str) -> None:
    model = parser.parse_model(HEAD + f"g ({x}[1,64] x, {x}[64,2] w) => (int32[1,2] y) {{ y = MatMulInteger (x, w) }}")
    assert [n.op_type for n in unsaturated(model).graph.node] == ["MatMulInteger"]
