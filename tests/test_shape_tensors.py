"""The Exact lines of shape-tensor and constant: integers that are moved and computed stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from helpers import examples, model, ops, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import surgeon
from surgeon.ir.model import Model
from surgeon.ir.run import Runner
from surgeon.proof import cut
from surgeon.targets.conditions.shapes import deep_tensor
from surgeon.targets.target import Target

LENGTH = 5  # of the computed shape


class Chain:
    """Random operators over the shape of `x`, whose last tensor is a shape again;
    `shape` is that of the tensor so far."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.last, self.shape = self.node("Shape", ["x"]), (4,)
        self.kind: Any = np.int64

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attrs: Any) -> str:
        names = [f"t{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names[-1]

    def constant(self, array: Any, kind: Any = np.int64) -> str:
        self.tensors.append(numpy_helper.from_array(np.asarray(array, kind), f"c{len(self.tensors)}"))
        return str(self.tensors[-1].name)

    def axis(self) -> int:
        return int(self.draw(st.integers(0, len(self.shape) - 1)))

    def apply(self, op: str, inputs: list[Any], becomes: Any, outputs: int = 1, **attrs: Any) -> None:
        self.last = self.node(op, [self.last, *inputs], outputs, **attrs)
        self.shape = becomes

    # ---- the steps ---------------------------------------------------------------------------------------------------

    def reshape(self) -> None:
        size = int(np.prod(self.shape))
        rows = self.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        self.apply("Reshape", [self.constant([rows, -1])], (rows, size // rows))

    def transpose(self) -> None:
        order = self.draw(st.permutations(range(len(self.shape))))
        self.apply("Transpose", [], tuple(self.shape[a] for a in order), perm=order)

    def slice(self) -> None:
        axis = self.axis()
        bounds = (-1, -(2**63) + 1, -1) if self.draw(st.booleans()) else (0, max(self.shape[axis] - 1, 1), 1)
        size = self.shape[axis] if bounds[2] < 0 else bounds[1]
        start, end, step = ([b] for b in bounds)
        given = [self.constant(v) for v in (start, end, [axis], step)]
        self.apply("Slice", given, (*self.shape[:axis], size, *self.shape[axis + 1 :]))

    def gather(self) -> None:
        axis = self.axis()
        at = self.draw(st.lists(st.integers(-self.shape[axis], self.shape[axis] - 1), min_size=1, max_size=3))
        self.apply("Gather", [self.constant(at)], (*self.shape[:axis], len(at), *self.shape[axis + 1 :]), axis=axis)

    def concat(self) -> None:
        axis = self.axis()
        other = self.last if self.draw(st.booleans()) else self.constant(np.full(self.shape, 7), self.kind)
        self.apply("Concat", [other], tuple(d * (1 + (a == axis)) for a, d in enumerate(self.shape)), axis=axis)

    def split(self) -> None:
        axis = self.axis()
        if self.shape[axis] % 2 == 0:
            halves = tuple(d // (1 + (a == axis)) for a, d in enumerate(self.shape))
            self.apply("Split", [], halves, outputs=2, axis=axis)

    def compute(self) -> None:
        op = self.draw(st.sampled_from(["Add", "Mul", "Sub", "Div", "Max", "Mod"]))
        shape = self.shape if self.draw(st.booleans()) else self.shape[-1:]
        values = 1 + np.arange(int(np.prod(shape))).reshape(shape) % 5
        self.apply(op, [self.constant(values, self.kind)], self.shape)

    def cast(self) -> None:
        self.kind = np.int32 if self.kind is np.int64 else np.int64
        self.apply("Cast", [], self.shape, to=helper.np_dtype_to_tensor_dtype(np.dtype(self.kind)))

    def end(self, opset: int) -> ModelProto:
        if self.kind is np.int32:
            self.cast()
        self.apply("Reshape", [self.constant([-1])], (int(np.prod(self.shape)),))
        length = min(int(np.prod(self.shape)), LENGTH)
        self.apply("Slice", [self.constant([0]), self.constant([LENGTH]), self.constant([0])], (length,))
        self.nodes[-1].output[0] = self.last = "v"
        small = self.node("Mod", [self.node("Abs", [self.last]), self.constant([3])])
        self.nodes.append(helper.make_node("ConstantOfShape", [small], ["y"]))
        info = helper.make_tensor_value_info
        outputs = [
            info("v", TensorProto.INT64, [length]),
            info("y", TensorProto.FLOAT, [f"y{k}" for k in range(length)]),
        ]
        graph = helper.make_graph(
            self.nodes, "g", [info("x", TensorProto.FLOAT, ["a", 3, "b", "c"])], outputs, self.tensors
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


STEPS = [
    Chain.reshape,
    Chain.transpose,
    Chain.slice,
    Chain.gather,
    Chain.concat,
    Chain.split,
    Chain.compute,
    Chain.cast,
]


@st.composite
def chains(draw: st.DrawFn) -> ModelProto:
    chain = Chain(draw)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7)):
        if np.prod(chain.shape) <= 24:
            step(chain)
    return chain.end(draw(st.sampled_from([13, 17])))


def untaken(proto: ModelProto, target: str) -> list[str]:
    found = [refusal(Target.parse(target), n) for s in Model(proto).scopes for n in s.live()]
    return [why for why in found if why is not None]


@settings(max_examples=examples(60), deadline=None)
@given(chains())
def test_shapes_are_computed_in_vectors(proto: ModelProto) -> None:
    onnx.checker.check_model(proto, full_check=True)
    result = surgeon.rewrite(proto, target="8.4")
    assert not result.report.undone, result.report.undone
    assert not [d for d in result.report.declined if "shape-tensor" in d.pass_name], result.report.declined
    onnx.checker.check_model(result.model, full_check=True)
    assert not untaken(result.model, "8.4")
    for shape in ((2, 3, 5, 7), (1, 3, 1, 4)):
        feeds = {"x": np.zeros(shape, np.float32)}
        for got, want in zip(Runner(result.model).run(feeds), Runner(proto).run(feeds), strict=True):
            np.testing.assert_array_equal(got, want)
    again = surgeon.rewrite(result.model, target="8.4")
    assert not again.report.applied


@pytest.mark.parametrize("target", ["8.5", "9.3", "10.9", "rtx"])
def test_newer_targets_take_tensors_of_any_rank(target: str) -> None:
    proto = model(
        "(float[N,3,H] x) => (float[A,B,C] y) <int64[2] rows = {3, 1}, int64[1] flat = {-1}>"
        "{ s = Shape (x) r = Reshape (s, rows) t = Transpose (r) v = Reshape (t, flat) y = ConstantOfShape (v) }",
        opset=13,
    )
    node = Model(proto).graph.by_op["ConstantOfShape"]
    assert deep_tensor(next(iter(node)).graph.model, next(iter(node)).inputs[0]) is not None
    assert not surgeon.rewrite(proto, target=target, only=["shape-tensor"]).report.applied
    assert surgeon.rewrite(proto, target="8.4", only=["shape-tensor"]).report.applied


def test_a_constant_in_a_body_stays_in_the_body() -> None:
    proto = model(
        "(bool c, float[4] x) => (float[N] y) { y = If (c) <"
        "then_branch = a () => (float[N] p) { i = Constant <value_ints = [1, 2]> () p = Gather (x, i) },"
        "else_branch = b () => (float[N] q) { k = Constant <value_ints = [3, 0]> () q = Gather (x, k) }> }"
    )
    result = surgeon.rewrite(proto, target="8.4")
    assert not untaken(result.model, "8.4") and ops(result.model) == ["If"]
    assert untaken(proto, "8.4") == ["value_ints is read as floats: the constant would be empty"] * 2
    for c in (True, False):
        feeds = {"c": np.asarray(c), "x": np.arange(4, dtype=np.float32)}
        np.testing.assert_array_equal(Runner(result.model).run(feeds)[0], Runner(proto).run(feeds)[0])


def test_both_sides_of_a_window_compute_the_same_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewritten side has more nodes, and came to the limit of nodes that compute shapes before the other did."""
    monkeypatch.setattr(cut, "CONE_LIMIT", 5)
    two_shapes = model(
        "(uint8[A,B] x, float[B,A] z) => (float[C,D] y)"
        " <int64[1] rest = {-1}, int64 first = {0}, int64[1] axis = {0}> {"
        " one = Shape (z) a = Reshape (x, one)"
        " sizes = Shape (z) size = Gather (sizes, first) row = Unsqueeze (size, axis)"
        " other = Concat <axis = 0> (row, rest) b = Reshape (x, other)"
        " both = Concat <axis = 0> (a, b) y = Cast <to = 1> (both) }"
    )
    report = surgeon.rewrite(two_shapes, target="rtx", only="widen-small-integers").report
    assert report.applied
    assert not report.declined
