"""The functions that say what surgeon's own nodes compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers import model, ops

import surgeon
from surgeon.ir.model import Model
from surgeon.rules import registry
from surgeon.rules.meaning import attach

NORMS = """(float[2,4,8,8] a) => (float[2,4,8,8] r)
    <float[4] s = {1.0, 2.0, 0.5, 3.0}, float[4] z = {0.0, 1.0, 2.0, 0.5}> {
        m = InstanceNormalization <epsilon = 1e-5> (a, s, z)
        n = Tanh (m)
        o = InstanceNormalization <epsilon = 1e-5> (n, s, z)
        p = Relu (o)
        q = Sigmoid (p)
        r = InstanceNormalization <epsilon = 1e-3> (q, s, z)
    }"""


def _written(proto: onnx.ModelProto) -> bytes:
    return proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("verify", ["window", "none"])
@pytest.mark.parametrize("library", ["surgeon", "stock"])
def test_functions_are_numbered_in_the_order_of_the_file(library: str, verify: str) -> None:
    """Not in the order in which passes made their nodes: a second run, which makes none, wrote other numbers."""
    first = surgeon.rewrite(model(NORMS), target="8.4", plugins=[library])
    assert first.report.applied and len({f.overload for f in first.model.functions}) > 1
    second = surgeon.rewrite(first.model, target="8.4", plugins=[library], verify=verify)
    assert not second.report.applied and _written(second.model) == _written(first.model)


@pytest.mark.parametrize(("epsilon", "warned"), [("1e-3", True), ("1e-5", False)])
def test_overloads_are_warned_of_once(epsilon: str, warned: bool) -> None:
    """ONNX Runtime up to 1.23 runs the first function for nodes with other attributes too."""
    text = NORMS.replace("1e-3", epsilon).replace("p = Relu (o)", "p = Abs (o)")
    first = surgeon.rewrite(model(text), target="8.4", plugins=["surgeon"])
    for report in (first.report, surgeon.rewrite(first.model, target="8.4", plugins=["surgeon"]).report):
        assert ["SurgeonInstanceNorm" in w and "1.23" in w for w in report.warnings] == [True] * warned


@pytest.mark.parametrize("library", ["surgeon", "stock"])
def test_types_are_known_behind_plugin_nodes_without_a_proof(library: str) -> None:
    """ONNX's inference stops at a node without a schema, so it must have been there before such a node comes."""
    options = {"target": "8.4", "plugins": [library]}
    unproved = surgeon.rewrite(model(NORMS), verify="none", **options)  # type: ignore[arg-type]
    assert sum(op.startswith(("Surgeon", "InstanceNormalization_")) for op in ops(unproved.model)) == 3
    assert _written(unproved.model) == _written(surgeon.rewrite(model(NORMS), **options).model)  # type: ignore[arg-type]


def test_plugin_nodes_inside_a_function_of_the_file_are_evaluated_right() -> None:
    """ONNX Runtime takes the first overload of a function inside another one: with plugin nodes there is no other."""
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 19, "my.dom" : 1]>
        g (float[2,6,2,8] x) => (float[2,6,2,8] y) <int64[1] axis = {2}, float e = {0.5}> {
          t = my.dom.Unit (x) n = ReduceL2 <keepdims = 1> (t, axis) a = Add (n, e) y = Div (t, a)
        }
        <domain: "my.dom", opset_import: ["" : 19]>
        Unit (X) => (Y) { axis = Constant <value: tensor = int64[1] {-1}> () n = ReduceL2 <keepdims = 1> (X, axis)
          Y = Div (X, n) }"""
    )
    result = surgeon.rewrite(proto, target="10.9", plugins=["surgeon"])
    assert [n.op_type for n in result.model.graph.node].count("SurgeonL2Norm") == 2
    x = np.random.default_rng(0).normal(size=(2, 6, 2, 8)).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"x": x})[0] for m in (proto, result.model)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5)


@pytest.mark.parametrize("library", ["surgeon", "stock"])
@pytest.mark.parametrize("opset", [7, 8])
def test_plugin_nodes_of_an_opset_without_integer_constants(opset: int, library: str) -> None:
    """Constant holds no integers before opset 9, and ONNX Runtime checks that inside a function."""
    graph = (
        "(float[2,3,8,8] x, float[3] s, float[3] z) => (float[2,3,8,8] y) <float[3] s = {1,2,3}, float[3] z = {0,0,1}>"
    )
    text = graph + "{ y = InstanceNormalization <epsilon = 1e-3> (x, s, z) }"
    result = surgeon.rewrite(model(text, opset=opset, ir=3), target="8.4", plugins=[library])
    assert not result.report.failed
    assert ops(result.model) == [{"surgeon": "SurgeonInstanceNorm", "stock": "InstanceNormalization_TRT"}[library]]


# (the operator, the shape of x, its other inputs, its attributes, the result of x and these in NumPy)
COMPUTED = [
    ("LayerNorm", (2, 3, 4), [], "axes = [1, 2], epsilon = 0.5", lambda x: _normal(x, (1, 2), 0.5)),
    ("LayerNorm", (2, 3, 4), [4], "axes = [2], epsilon = 0.5", lambda x, s: _normal(x, (2,), 0.5) * s),
    ("LayerNorm", (2, 3, 4), [4, 4], "axes = [2], epsilon = 0.5", lambda x, s, z: _normal(x, (2,), 0.5) * s + z),
    ("RMSNorm", (2, 3, 4), [], "axes = [2], epsilon = 0.5", lambda x: _normal(x, (2,), 0.5, centred=False)),
    ("RMSNorm", (2, 3, 4), [4], "axes = [1, 2], epsilon = 0.5",
     lambda x, s: _normal(x, (1, 2), 0.5, centred=False) * s),
    ("GroupNorm", (2, 4, 3, 2), [4, 4], "num_groups = 2, epsilon = 0.5",
     lambda x, s, z: _normal(x.reshape(2, 2, 12), (2,), 0.5).reshape(x.shape) * _channels(s) + _channels(z)),
    ("MeanVarianceNormalization", (2, 3, 2, 2), [], "axes = [0, 2, 3]", lambda x: _normal(x, (0, 2, 3), 0)),
    ("SurgeonInstanceNorm", (2, 4, 3, 2), [4, 4], "epsilon = 0.5",
     lambda x, s, z: _normal(x, (2, 3), 0.5) * _channels(s) + _channels(z)),
    ("SurgeonInstanceNorm", (2, 4, 3), [], "epsilon = 0.5, slope = 0.25",
     lambda x: _leaky(_normal(x, (2,), 0.5))),
    ("SurgeonLeakyRelu", (2, 3), [], "alpha = 0.25", lambda x: _leaky(x)),
    ("SurgeonPRelu", (2, 3), [1], "", lambda x, s: np.where(x < 0, x * s, x)),
    ("SurgeonReflectPad", (2, 5), [], 'pads = [0, 2, 1, 1], mode = "edge"',
     lambda x: np.pad(x, [(0, 1), (2, 1)], mode="edge")),
    ("SurgeonReflectPad", (2, 5), [], 'pads = [0, 2, 0, 3], mode = "reflect"',
     lambda x: np.pad(x, [(0, 0), (2, 3)], mode="reflect")),
    ("SurgeonReflectPad", (2, 5), [], 'pads = [0, 2, 0, 3], mode = "wrap"',
     lambda x: np.pad(x, [(0, 0), (2, 3)], mode="wrap")),
    ("SurgeonReflectPad", (2, 5), [], 'pads = [0, 2, 0, 3], mode = "symmetric"',
     lambda x: np.pad(x, [(0, 0), (2, 3)], mode="symmetric")),
    ("SurgeonReflectPad", (2, 5), [], 'pads = [0, -1, 0, 2], mode = "reflect"',
     lambda x: np.pad(x[:, 1:], [(0, 0), (0, 2)], mode="reflect")),
    ("L2Norm", (2, 3, 4), [4], 'axis = 2, epsilon = 0.5, mode = "add_norm"',
     lambda x, s: x / (np.sqrt((x * x).sum(2, keepdims=True)) + 0.5) * s),
    ("L2Norm", (2, 3, 4), [], 'axis = 1, epsilon = 0.5, mode = "add_sum"',
     lambda x: x / np.sqrt((x * x).sum(1, keepdims=True) + 0.5)),
    ("L2Norm", (2, 3, 4), [], 'axis = 1, epsilon = 1.5, mode = "max_norm"',
     lambda x: x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 1.5)),
    ("L2Norm", (2, 3, 4), [], 'axis = 1, epsilon = 2.5, mode = "max_sum"',
     lambda x: x / np.sqrt(np.maximum((x * x).sum(1, keepdims=True), 2.5))),
    ("L2Norm", (2, 3, 4), [], 'axis = 1, epsilon = 0.5, mode = "min_reciprocal"',
     lambda x: x * np.minimum(1 / np.sqrt((x * x).sum(1, keepdims=True)), 0.5)),
]  # fmt: skip


def _normal(x: np.ndarray, axes: tuple[int, ...], epsilon: float, *, centred: bool = True) -> np.ndarray:
    x = x - x.mean(axes, keepdims=True) * centred
    return np.asarray(x / np.sqrt((x * x).mean(axes, keepdims=True) + epsilon))


def _channels(factor: np.ndarray) -> np.ndarray:
    return factor.reshape(-1, 1, 1)


def _leaky(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x / 4, x)


@pytest.mark.parametrize(("kind", "opset"), [("float", 17), ("float", 19), ("float16", 17)])
@pytest.mark.parametrize(("op", "shape", "others", "attrs", "expected"), COMPUTED)
def test_a_meaning_computes_what_its_name_says(
    op: str, shape: tuple[int, ...], others: list[int], attrs: str, expected: Callable[..., np.ndarray],
    kind: str, opset: int,
) -> None:  # fmt: skip
    registry.passes()
    names = ["x", "s", "z"][: 1 + len(others)]
    sizes = [shape, *((n,) for n in others)]
    inputs = ", ".join(f"{kind}[{','.join(map(str, s))}] {n}" for n, s in zip(names, sizes, strict=True))
    ranks = ",".join(f"D{k}" for k in range(len(shape)))
    node = f"surgeon.{op} {f'<{attrs}>' if attrs else ''} ({', '.join(names)})"
    proto = model(f"({inputs}) => ({kind}[{ranks}] y) {{ y = {node} }}", opset, extra=', "surgeon" : 1')
    whole = Model(proto)
    attach(whole)
    rng, dtype = np.random.default_rng(0), np.float16 if kind == "float16" else np.float32
    given = {n: rng.normal(size=s).astype(dtype) for n, s in zip(names, sizes, strict=True)}
    found = onnxruntime.InferenceSession(whole.proto.SerializeToString()).run(None, given)[0]
    wanted = expected(*(v.astype(np.float64) for v in given.values()))
    rtol, atol = (4e-3, 1e-3) if kind == "float16" else (1e-5, 1e-6)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
