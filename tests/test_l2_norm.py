"""The Exact line of l2-norm: every spelling becomes one node that computes the same,
in every type and at every opset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from helpers import compare_models, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import surgeon
from surgeon.ir.run import Runner

SHAPE = (2, 6, 5, 3)
EPSILONS = {
    "floor": "max_norm",
    "added": "add_norm",
    "floor_sum": "max_sum",
    "added_sum": "add_sum",
    "bound": "min_reciprocal",
    "": "add_norm",
}


@dataclass
class Spelling:
    """Writes one spelling of a normalisation; every field is a choice that an exporter makes."""

    opset: int = 17
    dtype: int = TensorProto.FLOAT
    axis: int = 1
    negative: bool = False
    square: str = "mul"  # mul, pow, abs
    reduce: str = "l2"  # l2, sum, sumsquare, einsum
    keepdims: str = "kept"  # kept, unsqueeze, reshape
    root: str = "sqrt"  # sqrt, pow
    epsilon: str = "floor"
    value: float = 0.01
    floor: str = "max"  # max, clip
    divide: str = "div"  # div, reciprocal, one over, pow, root of the reciprocal
    expand: str = ""  # "", shape, sizes, tile
    swapped: bool = False
    weight: str = ""  # "", channel, full, expanded, before
    island: bool = False
    dynamic: bool = False
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        order = list(reversed(inputs)) if self.swapped and kind in ("Add", "Mul", "Max", "Min") else list(inputs)
        self.nodes.append(helper.make_node(kind, order, [name], **attrs))
        return name

    def constant(self, array: Any, dtype: int | None = None) -> str:
        name = f"c{len(self.tensors)}"
        kind = helper.tensor_dtype_to_np_dtype(self.inner if dtype is None else dtype)
        self.tensors.append(numpy_helper.from_array(np.asarray(array).astype(kind), name))
        return name

    @property
    def inner(self) -> int:
        return TensorProto.FLOAT if self.island else self.dtype

    @property
    def written_axis(self) -> int:
        return self.axis - len(SHAPE) if self.negative else self.axis

    def reduced(self, kind: str, value: str) -> str:
        keep = int(self.keepdims == "kept")
        if self.opset >= (13 if kind == "ReduceSum" else 18):
            return self.op(kind, value, self.constant([self.written_axis], TensorProto.INT64), keepdims=keep)
        return self.op(kind, value, axes=[self.written_axis], keepdims=keep)

    def total(self, x: str) -> str:
        if self.reduce == "einsum":
            letters = "abcd"
            return self.op("Einsum", x, x, equation=f"{letters},{letters}->{letters.replace(letters[self.axis], '')}")
        if self.reduce == "sumsquare":
            return self.reduced("ReduceSumSquare", x)
        size = self.op("Abs", x) if self.square == "abs" else x
        return self.reduced(
            "ReduceSum",
            self.op("Mul", size, size) if self.square == "mul" else self.op("Pow", size, self.constant(2.0)),
        )

    def restored(self, norm: str) -> str:
        if self.keepdims == "kept" and self.reduce != "einsum":
            return norm
        if self.keepdims == "reshape":
            kept = [1 if a == self.axis else s for a, s in enumerate(SHAPE)]
            kept[0] = -1 if self.axis else kept[0]
            return self.op("Reshape", norm, self.constant(kept, TensorProto.INT64))
        if self.opset >= 13:
            return self.op("Unsqueeze", norm, self.constant([self.written_axis], TensorProto.INT64))
        return self.op("Unsqueeze", norm, axes=[self.axis])

    def floored(self, value: str) -> str:
        if self.floor == "max":
            return self.op("Max", value, self.constant(self.value))
        if self.opset < 11:
            return self.op("Clip", value, min=self.value)
        return self.op("Clip", value, self.constant(self.value), *[""] * self.swapped)

    def expanded(self, value: str) -> str:
        if not self.expand:
            return value
        if self.expand == "tile":
            return self.op(
                "Tile",
                value,
                self.constant([s if a == self.axis else 1 for a, s in enumerate(SHAPE)], TensorProto.INT64),
            )
        sizes = self.op("Shape", "x") if self.expand == "shape" else self.constant(SHAPE, TensorProto.INT64)
        return self.op("Expand", value, sizes)

    def inverse(self, value: str) -> str:
        if self.divide == "one over":
            return self.op("Div", self.constant(1.0), value)
        return self.op("Pow", value, self.constant(-1.0)) if self.divide == "pow" else self.op("Reciprocal", value)

    def norm(self, x: str) -> tuple[str, bool]:
        """(the norm or its reciprocal, whether it is the reciprocal)"""
        if self.reduce == "l2":
            found = self.reduced("ReduceL2", x)
        else:
            total = self.total(x)
            total = self.floored(total) if self.epsilon == "floor_sum" else total
            total = self.op("Add", total, self.constant(self.value)) if self.epsilon == "added_sum" else total
            if self.divide == "root of the reciprocal":
                return self.restored(self.op("Sqrt", self.inverse(total))), True
            found = self.op("Sqrt", total) if self.root == "sqrt" else self.op("Pow", total, self.constant(0.5))
        found = self.restored(found)
        if self.epsilon == "floor":
            found = self.floored(found)
        if self.epsilon == "added":
            found = self.op("Add", found, self.constant(self.value))
        if self.divide == "div":
            return self.expanded(found), False
        found = self.inverse(found)
        return (self.op("Min", found, self.constant(self.value)) if self.epsilon == "bound" else found), True

    def weights(self) -> np.ndarray:
        return np.linspace(0.5, 2.0, SHAPE[self.axis]).reshape([-1 if a == self.axis else 1 for a in range(len(SHAPE))])

    def model(self) -> ModelProto:
        x = self.op("Cast", "x", to=TensorProto.FLOAT) if self.island else "x"
        norm, reciprocal = self.norm(x)
        top = self.op("Mul", x, self.constant(self.weights())) if self.weight == "before" else x
        y = self.op("Mul", top, norm) if reciprocal else self.op("Div", top, norm)
        if self.weight == "channel":
            y = self.op("Mul", y, self.constant(self.weights()))
        if self.weight == "full":
            y = self.op("Mul", y, self.constant(np.broadcast_to(self.weights(), SHAPE)))
        if self.weight == "expanded":
            y = self.op("Mul", self.op("Expand", self.constant(self.weights()), self.op("Shape", y)), y)
        if self.island:
            y = self.op("Cast", y, to=self.dtype)
        self.nodes[-1].output[0] = "y"
        dims: list[Any] = ["N", SHAPE[1], "H", "W"] if self.dynamic else list(SHAPE)
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "g", [info("x", self.dtype, dims)], [info("y", self.dtype, dims)], self.tensors
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


@st.composite
def spellings(draw: st.DrawFn) -> Spelling:
    reduce = draw(st.sampled_from(["l2", "sum", "sumsquare", "einsum"]))
    epsilon = draw(st.sampled_from([e for e in EPSILONS if reduce != "l2" or not e.endswith("_sum")]))
    divides = ["div", "reciprocal", "one over", "pow", "root of the reciprocal"]
    if epsilon == "bound":
        divides = ["reciprocal", "one over", "pow"]
    if reduce == "l2" or epsilon in ("floor", "added"):
        divides = [d for d in divides if d != "root of the reciprocal"]
    keepdims = ["unsqueeze", "reshape"] if reduce == "einsum" else ["kept", "unsqueeze", "reshape"]
    low = 12 if reduce == "einsum" else 8
    opset = draw(st.integers(low, 22))
    dtype = draw(
        st.sampled_from(
            [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE]
            if opset >= 13
            else [TensorProto.FLOAT]
        )
    )
    return Spelling(
        opset=opset,
        dtype=dtype,
        axis=draw(st.integers(0, 3)),
        negative=draw(st.booleans()),
        square=draw(st.sampled_from(["mul", "pow", "abs"])),
        reduce=reduce,
        keepdims=draw(st.sampled_from(keepdims)),
        root=draw(st.sampled_from(["sqrt", "pow"])),
        epsilon=epsilon,
        value=draw(st.sampled_from([0.01, 1e-3, 1.0])),
        floor=draw(st.sampled_from(["max", "clip"])),
        divide=draw(st.sampled_from(divides)),
        expand=draw(st.sampled_from(["", "shape", "sizes", "tile"])),
        swapped=draw(st.booleans()),
        weight=draw(st.sampled_from(["", "channel", "full", "expanded", "before"])),
        island=dtype == TensorProto.FLOAT16 and draw(st.booleans()),
    )


def only_node(model: ModelProto) -> onnx.NodeProto:
    nodes = [n for n in model.graph.node if n.op_type != "Constant"]
    assert len(nodes) == 1, [n.op_type for n in nodes]
    return nodes[0]


@settings(max_examples=examples(150), deadline=None)
@given(spellings())
def test_every_spelling_becomes_one_node_with_its_own_epsilon(spelling: Spelling) -> None:
    model = spelling.model()
    onnx.checker.check_model(model, full_check=True)
    result = surgeon.rewrite(model, target="10.9", strategy={"l2-norm": "plugin"})
    assert not result.report.undone, result.report.undone
    if spelling.dtype == TensorProto.DOUBLE:  # the plugin has none
        assert not {n.op_type for n in result.model.graph.node} - {
            "ReduceL2",
            "ReduceSumSquare",
            "Sqrt",
            "Max",
            "Add",
            "Div",
            "Mul",
        }
        return
    node = only_node(result.model)
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert node.op_type == "SurgeonL2Norm"
    assert found["axis"] % len(SHAPE) == spelling.axis
    assert found["mode"].decode() == EPSILONS[spelling.epsilon]
    kind = helper.tensor_dtype_to_np_dtype(spelling.inner)
    assert found["epsilon"] == np.float32(np.asarray(spelling.value).astype(kind) if spelling.epsilon else 0)
    assert len(node.input) == (2 if spelling.weight else 1)


@settings(max_examples=examples(150), deadline=None)
@given(spellings())
def test_the_decomposition_computes_the_same_and_is_read_as_itself(spelling: Spelling) -> None:
    model = spelling.model()
    result = surgeon.rewrite(model, target="10.9")
    assert not result.report.undone, result.report.undone
    onnx.checker.check_model(result.model, full_check=True)
    error, why = compare_models(model, result.model)
    assert not why, why
    shapes = [
        n.op_type
        for n in result.model.graph.node
        if n.op_type in ("Expand", "Tile", "Unsqueeze", "Reshape", "Pow", "Reciprocal", "Einsum", "Clip")
    ]
    assert not shapes, shapes
    again = surgeon.rewrite(result.model, target="10.9")
    assert not again.report.applied
    assert again.model.SerializeToString(deterministic=True) == result.model.SerializeToString(deterministic=True)


@pytest.mark.parametrize("expand", ["", "shape", "tile"])
@pytest.mark.parametrize("keepdims", ["kept", "unsqueeze"])
def test_symbolic_sizes_are_no_hindrance(expand: str, keepdims: str) -> None:
    model = Spelling(dynamic=True, expand=expand, keepdims=keepdims, weight="expanded").model()
    result = surgeon.rewrite(model, target="10.9", strategy={"l2-norm": "plugin"})
    assert only_node(result.model).op_type == "SurgeonL2Norm"


def test_the_floor_on_the_sum_becomes_a_floor_on_the_norm_bit_for_bit() -> None:
    model = Spelling(reduce="sumsquare", epsilon="floor_sum", value=1e-12).model()
    result = surgeon.rewrite(model, target="10.9")
    assert [n.op_type for n in result.model.graph.node] == ["ReduceL2", "Max", "Div"]
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-5, 1e-6, 1e-7, 1e-30, 1e15, 0.0):
        feeds = {"x": (rng.standard_normal(SHAPE) * scale).astype(np.float32)}
        np.testing.assert_array_equal(Runner(model).run(feeds)[0], Runner(result.model).run(feeds)[0])


def lp_model(dtype: int = TensorProto.FLOAT) -> ModelProto:
    info = helper.make_tensor_value_info
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=1, p=2)
    graph = helper.make_graph([node], "g", [info("x", dtype, SHAPE)], [info("y", dtype, SHAPE)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_lp_normalization_keeps_its_zeros_and_every_norm_that_fp32_can_have() -> None:
    model = lp_model()
    result = surgeon.rewrite(model, target="8.4")
    rng = np.random.default_rng(0)
    for scale in (1.0, 0.0, 1e-18, 1e-21, 1e-22):
        feeds = {"x": (rng.standard_normal(SHAPE) * scale).astype(np.float32)}
        before, after = Runner(model).run(feeds)[0], Runner(result.model).run(feeds)[0]
        np.testing.assert_allclose(after, before, rtol=2e-6, atol=0)


@pytest.mark.parametrize("value", [1e-3, 1e-6])
def test_a_lost_epsilon_is_reported_and_repaired_on_request_alone(value: float) -> None:
    model = Spelling(dtype=TensorProto.FLOAT16, value=1e-12).model()  # 1e-12 is 0 in fp16
    result = surgeon.rewrite(model, target="10.9")
    assert any("lost epsilon" in w for w in result.report.warnings)
    zero = {"x": np.zeros(SHAPE, np.float16)}
    assert np.isnan(Runner(model).run(zero)[0]).all()
    assert np.isnan(Runner(result.model).run(zero)[0]).all()
    repaired = surgeon.rewrite(model, target="10.9", options={"repair_eps": value})
    assert not repaired.report.undone
    assert any("lost epsilon" in w for w in repaired.report.warnings)
    assert not Runner(repaired.model).run(zero)[0].any()
    row = {"x": np.full(SHAPE, value / 4, np.float16)}
    expected = row["x"].astype(np.float32) / max(float(np.linalg.norm(row["x"].astype(np.float32)[0, :, 0, 0])), value)
    np.testing.assert_allclose(Runner(repaired.model).run(row)[0], expected, rtol=2e-3)


def test_a_relu_in_the_place_of_the_floor_is_a_lost_epsilon() -> None:
    """What other optimisers, and surgeon's own `clip`, make of Clip(norm, 0)."""
    model = Spelling(epsilon="").model()
    model.graph.node[0].output[0] = "n"
    model.graph.node.insert(1, helper.make_node("Relu", ["n"], ["t0"]))
    result = surgeon.rewrite(model, target="10.9")
    assert [n.op_type for n in result.model.graph.node] == ["ReduceL2", "Div"]
    assert any("lost epsilon" in w for w in result.report.warnings)


def test_a_half_precision_sum_moves_to_fp32_and_no_longer_overflows() -> None:
    model = Spelling(dtype=TensorProto.FLOAT16, reduce="sum").model()
    result = surgeon.rewrite(model, target="10.9")
    assert any("fp32" in w for w in result.report.warnings)
    assert [n.op_type for n in result.model.graph.node] == ["Cast", "ReduceL2", "Max", "Div", "Cast"]
    found = Runner(result.model).run({"x": np.full(SHAPE, 30000, np.float16)})[0]
    np.testing.assert_allclose(found, np.full(SHAPE, 1 / np.sqrt(6)), rtol=1e-3)


@pytest.mark.parametrize(
    ("strategy", "warned"), [({}, True), ({"l2-norm": "plugin"}, True), ({"l2-norm": "decompose"}, False)]
)
def test_a_norm_that_the_plugin_refuses_is_decomposed(strategy: dict[str, str], warned: bool) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (double[N,4] x) => (double[N,4] y) <double e = {0.001}> {
            n = ReduceL2 <axes = [1]> (x)
            m = Max (n, e)
            y = Div (x, m)
        }"""
    )
    result = surgeon.rewrite(proto, target="8.4", plugins=["surgeon"], strategy=strategy)
    assert not any(n.domain for n in result.model.graph.node)
    assert sum("double precision" in w for w in result.report.warnings) == warned
