"""Quantizers on the border between half precision and fp32, as TensorRT-RTX builds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, numpy_helper

import surgeon
from surgeon.ir.model import Model
from surgeon.precision import convert
from surgeon.precision.planner import Planner
from surgeon.precision.result import PrecisionResult

# What the second input of the Concat is, of the pair after `b`.
BETWEEN = {"a pair": "f = Identity (e)", "a pooling": "f = MaxPool <kernel_shape = [1, 1]> (e)"}


def model(between: str) -> onnx.ModelProto:
    """A Concat of the pairs after two convolutions."""
    found = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 19]> g (float[1,32,8,8] x) => (float[1,32,8,8] y) {'
        "a = Conv (x, w) q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z)"
        "b = Conv (x, w) r = QuantizeLinear (b, s, z) e = DequantizeLinear (r, s, z)"
        f"{BETWEEN[between]} j = Concat <axis = 1> (d, f) y = Conv (j, v) }}"
    )
    for node in found.graph.node:
        node.name = node.output[0]
    rng = np.random.default_rng(0)
    held = {"w": rng.normal(0, 0.1, (32, 32, 1, 1)), "v": rng.normal(0, 0.1, (32, 64, 1, 1)), "s": np.array(0.02)}
    found.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in held.items())
    found.graph.initializer.append(numpy_helper.from_array(np.int8(0), "z"))
    return found


def converted(between: str, keep: list[str]) -> PrecisionResult:
    return convert(model(between), keep_fp32=keep, target="rtx", verify=False)


def type_of(result: PrecisionResult, name: str) -> int:
    """The type of a tensor of the written model."""
    found = onnx.shape_inference.infer_shapes(result.model).graph
    return next(i.type.tensor_type.elem_type for i in found.value_info if i.name == name)


def test_what_is_dequantized_has_the_type_in_which_it_is_read() -> None:
    """Also where a search has it in fp32: the Cast that this takes away was all that the search did there."""
    planner = Planner(Model(model("a pair")))
    island = {node: "measured" for node in planner.nodes if node.name in "bre"}
    assert {node.name for node in planner.settled(island).single} == {"b", "r"}


def test_a_concat_joins_pairs_of_one_type() -> None:
    result = converted("a pair", ["b", "e"])
    assert [type_of(result, name) for name in "dej"] == [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.FLOAT]
    assert any("no Concat of quantizers in two types" in kept.why for kept in result.kept)


@pytest.mark.parametrize("keep", [["b"], ["b", "e"], ["b", "e", "f"]], ids=" ".join)
@pytest.mark.parametrize("between", BETWEEN)
def test_it_builds(between: str, keep: list[str], tmp_path: Path) -> None:
    """Each was refused: "const_ppg.cpp:3401: CHECK(opnd->type() == output_type)"."""
    pytest.importorskip("tensorrt_rtx")
    converted(between, keep).save(tmp_path / "m.onnx")
    surgeon.build(tmp_path / "m.onnx", tmp_path / "m.engine", runtime="rtx")


def test_a_refusal_says_that_the_model_quantizes_as_it_runs() -> None:
    found = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4,8] x) => (float[4,8] y) {'
        "q, s, z = DynamicQuantizeLinear (x) m = MatMulInteger (q, w, z) f = Cast <to = 1> (m) p = Mul (f, s) "
        "y = MatMul (p, v) }"
    )
    rng = np.random.default_rng(0)
    held = {"w": rng.integers(-99, 99, (8, 8)).astype(np.int8), "v": rng.normal(0, 1, (8, 8)).astype(np.float32)}
    found.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in held.items())
    result = convert(found, tolerance=1e-9)
    assert result.failed and any("before it was quantized" in w for w in result.warnings)
