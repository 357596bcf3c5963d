"""The Exact lines of the normalisation passes: what they write against float64, for any spelling, shape and type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers import compare_models, examples, require_opset
from helpers import model as written
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import surgeon
from surgeon.ir.run import Runner

FEW = settings(max_examples=examples(40), deadline=None, derandomize=True)
NORMS = ["batch-norm", "group-norm", "instance-norm", "layer-norm", "rms-norm"]
CENTRES = ("once", "twice", "kept by Unsqueeze", "sum")
SQUARES = ("Mul", "Pow")
QUOTIENTS = ("Div", "Reciprocal", "one over", "Pow")


class Spelled:
    """A model that is spelled node by node: `m.Mul(a, b)` adds a node and returns its tensor's name."""

    def __init__(self, opset: int, dtype: int = TensorProto.FLOAT) -> None:
        self.opset, self.dtype = opset, dtype
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[TensorProto] = []

    def __getattr__(self, op: str) -> Any:
        if not op[:1].isupper():
            raise AttributeError(op)

        def make(*inputs: Any, outputs: str = "", **attrs: Any) -> str:
            name = outputs or f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, [self.tensor(i) for i in inputs], [name], **attrs))
            return name

        return make

    def tensor(self, given: Any) -> str:
        if isinstance(given, str):
            return given
        array = (
            given if isinstance(given, np.ndarray) else np.asarray(given, helper.tensor_dtype_to_np_dtype(self.dtype))
        )
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def reduced(self, x: str, axes: Sequence[int], keepdims: int = 1) -> str:
        if self.opset >= 18:
            return self.ReduceMean(x, np.asarray(axes, np.int64), keepdims=keepdims)
        return self.ReduceMean(x, axes=list(axes), keepdims=keepdims)

    def model(self, shape: Sequence[Any], rank: int, **inputs: Sequence[Any]) -> onnx.ModelProto:
        x = [helper.make_tensor_value_info(k, self.dtype, list(s)) for k, s in {"x": shape, **inputs}.items()]
        y = helper.make_tensor_value_info("y", self.dtype, [None] * rank)
        graph = helper.make_graph(self.nodes, "g", x, [y], self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def spell(
    m: Spelled,
    x: str,
    axes: Sequence[int],
    rank: int,
    centre: str,
    square: str,
    quotient: str,
    epsilon: float,
    count: int | None,
) -> str:
    """(x - mean) / sqrt(variance + epsilon) as an exporter might write it."""

    def average() -> str:
        if centre == "sum" and count is not None:
            total = (
                m.ReduceSum(x, np.asarray(axes, np.int64), keepdims=1)
                if m.opset >= 13
                else m.ReduceSum(x, axes=list(axes), keepdims=1)
            )
            return m.Div(total, float(count))
        if centre == "kept by Unsqueeze":
            flat = m.reduced(x, axes, keepdims=0)
            where = sorted(a % rank for a in axes)
            return m.Unsqueeze(flat, np.asarray(where, np.int64)) if m.opset >= 13 else m.Unsqueeze(flat, axes=where)
        return m.reduced(x, axes)

    deviation = m.Sub(x, average())
    again = m.Sub(x, m.reduced(x, axes)) if centre == "twice" else deviation
    squares = m.Mul(again, again) if square == "Mul" else m.Pow(again, 2.0)
    safe = m.Add(m.reduced(squares, axes), epsilon)
    if quotient == "Pow":
        return m.Mul(deviation, m.Pow(safe, -0.5))
    root = m.Sqrt(safe)
    if quotient == "Reciprocal":
        return m.Mul(deviation, m.Reciprocal(root))
    return m.Mul(m.Div(1.0, root), deviation) if quotient == "one over" else m.Div(deviation, root)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return Runner(model).run({"x": x})[0]


def operators(result: surgeon.Result) -> list[str]:
    return [n.op_type for n in result.model.graph.node if n.op_type != "Constant"]


def close(given: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-5, rounding: np.ndarray | float = 0.0) -> bool:
    """Whether every number is within the tolerance of the largest one, and what `rounding` allows on top."""
    allowed = tolerance * max(np.abs(wanted).max(), 1e-30) + rounding
    return bool((np.abs(given.astype(np.float64) - wanted) <= allowed).all())


def normalised(x: np.ndarray, axes: tuple[int, ...], epsilon: float, ddof: int = 0) -> np.ndarray:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True, ddof=ddof) + epsilon)


def one_ulp(x: np.ndarray, axes: tuple[int, ...], epsilon: float, ddof: int = 0) -> np.ndarray:
    """What a mean that is rounded to x's type moves `normalised`: much where the elements are close to each other."""
    wide = x.astype(np.float64)
    ulp = np.spacing(np.abs(x).max(axes, keepdims=True)).astype(np.float64)
    return ulp / np.sqrt(wide.var(axes, keepdims=True, ddof=ddof) + epsilon)


@FEW
@given(
    spatial=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    centre=st.sampled_from(CENTRES),
    square=st.sampled_from(SQUARES),
    quotient=st.sampled_from(QUOTIENTS),
    epsilon=st.sampled_from([1e-6, 1e-5, 1e-3, 0.1]),
    opset=st.sampled_from([11, 13, 17, 18]),
    negative=st.booleans(),
    target=st.sampled_from(["8.4", "10.9"]),
    seed=st.integers(0, 99),
)
def test_instance_norm_in_any_spelling(
    spatial: list[int],
    centre: str,
    square: str,
    quotient: str,
    epsilon: float,
    opset: int,
    negative: bool,
    target: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    rank, size = len(spatial) + 2, int(rng.integers(2, 5))
    axes = [a - rank if negative else a for a in range(2, rank)]
    gamma, beta = (rng.standard_normal((size, *[1] * (rank - 2))).astype(np.float32) for _ in range(2))
    m = Spelled(opset)
    n = spell(m, "x", axes[::-1], rank, centre, square, quotient, epsilon, int(np.prod(spatial)))
    m.Add(m.Mul(n, gamma), beta, outputs="y")
    model = m.model(["N", size, *spatial], rank)
    result = surgeon.rewrite(model, target=target, only=NORMS)
    assert not result.report.undone
    assert operators(result) == ["InstanceNormalization"] if target == "10.9" else len(operators(result)) <= 9
    for scale in (1.0, 1e3, 1e-3):
        x = (rng.standard_normal((3, size, *spatial)) * scale + 0.5 * scale).astype(np.float32)
        over = tuple(range(2, rank))
        wanted = normalised(x, over, epsilon) * gamma + beta
        assert close(run(result.model, x), wanted, 2e-5, one_ulp(x, over, epsilon) * np.abs(gamma))


@FEW
@given(
    spatial=st.lists(st.integers(1, 5), min_size=2, max_size=2),
    epsilon=st.sampled_from([1e-5, 0.1, 2.0]),
    ratio=st.booleans(),
    seed=st.integers(0, 99),
)
def test_bessels_correction_is_exact(spatial: list[int], epsilon: float, ratio: bool, seed: int) -> None:
    count = int(np.prod(spatial))
    m = Spelled(17)
    d = m.Sub("x", m.reduced("x", [2, 3]))
    v = m.reduced(m.Mul(d, d), [2, 3])
    if count == 1 and ratio:
        return
    v = m.Mul(v, count / (count - 1)) if ratio else m.Div(m.Mul(v, float(count)), float(count - 1))
    m.Div(d, m.Sqrt(m.Add(v, epsilon)), outputs="y")
    result = surgeon.rewrite(m.model(["N", 3, *spatial], 4), target="10.9", only=NORMS)
    if count == 1:
        assert operators(result).count("InstanceNormalization") == 0
        assert any("one element has no unbiased variance" in d.why for d in result.report.declined)
        return
    assert operators(result) == ["InstanceNormalization"]
    x = np.random.default_rng(seed).standard_normal((2, 3, *spatial)).astype(np.float32)
    wanted = normalised(x, (2, 3), epsilon, ddof=1)
    assert close(run(result.model, x), wanted, 1e-5, one_ulp(x, (2, 3), epsilon, ddof=1))


@FEW
@given(
    rank=st.integers(2, 4),
    trailing=st.integers(1, 2),
    centre=st.sampled_from(CENTRES[:3]),
    square=st.sampled_from(SQUARES),
    quotient=st.sampled_from(QUOTIENTS),
    opset=st.sampled_from([11, 17, 18]),
    target=st.sampled_from(["8.4", "9.3", "10.9"]),
    seed=st.integers(0, 99),
)
def test_layer_norm_in_any_spelling(
    rank: int, trailing: int, centre: str, square: str, quotient: str, opset: int, target: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trailing = min(trailing, rank - 1)
    shape = rng.integers(2, 6, rank)
    axes = list(range(rank - trailing, rank))
    gamma, beta = (rng.standard_normal(shape[-trailing:]).astype(np.float32) for _ in range(2))
    m = Spelled(opset)
    n = spell(m, "x", axes, rank, centre, square, quotient, 1e-5, None)
    m.Add(m.Mul(gamma, n), beta, outputs="y")
    result = surgeon.rewrite(m.model(["N", *map(int, shape[1:])], rank), target=target, only=NORMS)
    assert not result.report.undone
    if opset >= 17 and target == "10.9":
        assert operators(result) == ["LayerNormalization"]
    assert len(operators(result)) <= 9
    x = (rng.standard_normal(shape) * 10 + 3).astype(np.float32)
    wanted = normalised(x, tuple(axes), 1e-5) * gamma + beta
    assert close(run(result.model, x), wanted, 2e-5, one_ulp(x, tuple(axes), 1e-5) * np.abs(gamma))


@FEW
@given(
    square=st.sampled_from(SQUARES),
    quotient=st.sampled_from(QUOTIENTS),
    opset=st.sampled_from([11, 18, 23]),
    target=st.sampled_from(["8.4", "10.9", "10.15"]),
    seed=st.integers(0, 99),
)
def test_rms_norm_in_any_spelling(square: str, quotient: str, opset: int, target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gamma = rng.standard_normal(7).astype(np.float32)
    m = Spelled(opset)
    safe = m.Add(m.reduced(m.Mul("x", "x") if square == "Mul" else m.Pow("x", 2.0), [-1]), 1e-6)
    inverse = (
        m.Pow(safe, -0.5)
        if quotient == "Pow"
        else m.Reciprocal(m.Sqrt(safe))
        if quotient == "Reciprocal"
        else m.Div(1.0, m.Sqrt(safe))
    )
    m.Mul(gamma, m.Mul("x", inverse), outputs="y")
    result = surgeon.rewrite(m.model(["N", 5, 7], 3), target=target, only=NORMS)
    shortest = [
        square if quotient == "Pow" else "Mul",
        "ReduceMean",
        "Add",
        *(["Pow", "Mul"] if quotient == "Pow" else ["Sqrt", "Div"]),
        "Mul",
    ]
    assert operators(result) == (["RMSNormalization"] if (opset, target) == (23, "10.15") else shortest)
    x = (rng.standard_normal((2, 5, 7)) * 10).astype(np.float32)
    assert close(run(result.model, x), x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * gamma)


@FEW
@given(
    groups=st.sampled_from([1, 2, 3, 6]),
    spatial=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    target=st.sampled_from(["8.4", "10.8", "10.9", "11.1", "rtx"]),
    dynamic=st.booleans(),
    seed=st.integers(0, 99),
)
@example(
    groups=6, spatial=[2], target="8.4", dynamic=False, seed=0
)  # ill-conditioned: the definition's variance is noise
def test_group_norm_is_decomposed_or_kept_right(
    groups: int, spatial: list[int], target: str, dynamic: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    gamma, beta = (rng.standard_normal(6).astype(np.float32) for _ in range(2))
    m = Spelled(21)
    m.GroupNormalization("x", gamma, beta, num_groups=groups, epsilon=1e-3, outputs="y")
    model = m.model(["N", 6, *(f"d{a}" if dynamic else s for a, s in enumerate(spatial))], len(spatial) + 2)
    result = surgeon.rewrite(model, target=target, only=NORMS)
    assert not result.report.undone
    assert groups > 1 or "GroupNormalization" not in operators(result)
    assert target not in ("8.4", "10.8") or "GroupNormalization" not in operators(result)
    x = (rng.standard_normal((2, 6, *spatial)) * 5).astype(np.float32)
    folded = x.reshape(2, groups, -1)
    flat = normalised(folded, (2,), 1e-3).reshape(x.shape)
    shape = (6, *[1] * len(spatial))
    # GroupNormalization that stays is ONNX Runtime's, whose variance is E[x^2] - E[x]^2.
    ulps = np.broadcast_to(one_ulp(folded, (2,), 1e-3), folded.shape).reshape(x.shape) * np.abs(gamma.reshape(shape))
    assert close(run(result.model, x), flat * gamma.reshape(shape) + beta.reshape(shape), 2e-5, ulps)


@pytest.mark.parametrize("seed", range(3))
def test_group_norm_is_fused_though_its_definition_rounds_badly(seed: int) -> None:
    """Two elements a group: E[x^2] - E[x]^2, which the definition writes,
    is noise on shifted inputs, in either direction."""
    rng = np.random.default_rng(seed)
    gamma, beta = rng.standard_normal((2, 6, 1)).astype(np.float32)
    m = Spelled(21)
    folded = m.Reshape("x", np.asarray([0, 3, -1], np.int64))
    n = m.InstanceNormalization(folded, np.ones(3, np.float32), np.zeros(3, np.float32), epsilon=1e-3)
    m.Add(m.Mul(m.Reshape(n, np.asarray([-1, 6, 1], np.int64)), gamma), beta, outputs="y")
    result = surgeon.rewrite(m.model(["N", 6, 1], 3), target="11.1", only=NORMS)
    assert operators(result) == ["GroupNormalization"] and not result.report.undone


@pytest.mark.parametrize("op", ["InstanceNormalization", "LayerNormalization"])
@pytest.mark.parametrize("size", [100.0, 3e4])
def test_half_precision_sums_in_fp32(op: str, size: float) -> None:
    """A variance beyond 65504 overflows fp16; the decomposition must not."""
    m = Spelled(17, TensorProto.FLOAT16)
    count = 3 if op == "InstanceNormalization" else 64
    getattr(m, op)("x", np.full(count, 1.5, np.float16), np.full(count, 0.25, np.float16), epsilon=1e-5, outputs="y")
    result = surgeon.rewrite(m.model(["N", 3, 64], 3), target="8.4", only=NORMS)
    assert not result.report.undone and op not in operators(result)
    x = (np.random.default_rng(0).uniform(-1, 1, (2, 3, 64)) * size).astype(np.float16)
    assert close(run(result.model, x), normalised(x, (2,), 1e-5) * 1.5 + 0.25, 2e-3)


@pytest.mark.parametrize("target", ["8.4", "9.3"])
def test_mean_variance_normalization_as_onnx_defines_it(target: str) -> None:
    """ONNX adds 1e-9 to the deviation, which ONNX Runtime leaves out: the reference evaluator decides."""
    m = Spelled(13)
    m.MeanVarianceNormalization("x", axes=[0, 2, 3], outputs="y")
    model = m.model(["N", 3, 4, 5], 4)
    result = surgeon.rewrite(model, target=target, only=NORMS, strategy={"layer-norm": "decompose"})
    assert not result.report.undone and "MeanVarianceNormalization" not in operators(result)
    rng = np.random.default_rng(0)
    for x in (rng.standard_normal((2, 3, 4, 5)), np.zeros((2, 3, 4, 5)), rng.standard_normal((2, 3, 4, 5)) * 1e-9):
        wide = x.astype(np.float32).astype(np.float64)
        wanted = (wide - wide.mean((0, 2, 3), keepdims=True)) / (wide.std((0, 2, 3), keepdims=True) + 1e-9)
        assert close(
            np.asarray(list(ReferenceEvaluator(result.model).run(None, {"x": x.astype(np.float32)}))[0]), wanted, 1e-5
        )


@pytest.mark.parametrize(
    ("shape", "axes"),
    [([1, 3, 8, 8], [2]), ([2, 4, 4, 6], [2]), ([3, 1, "W", 1], [2, 3]), ([2, 3, "N", "N"], [2]), ([1, 2, 1, 3], [3])],
)
def test_mean_variance_normalization_of_few_elements(shape: list[int | str], axes: list[int]) -> None:
    """Their deviation may be far below that of the proof's tiny inputs, and 1e-9 be much beside it."""
    m = Spelled(13)
    m.MeanVarianceNormalization("x", axes=axes, outputs="y")
    result = surgeon.rewrite(m.model(shape, 4), target="8.4")
    assert not result.report.failed and "MeanVarianceNormalization" not in operators(result)
    assert (result.report.applied[0].max_error or 0) < 1e-5


@pytest.mark.parametrize("wrong", ["axes=[3]", "axes=list(axes), keepdims=0"])
def test_a_wrong_mean_variance_normalization_is_undone(wrong: str, tmp_path: Path) -> None:
    code = """'Wrong.'

from surgeon import Stage, attr, op, rewrite, var

@rewrite(op.MeanVarianceNormalization(var("x"), axes=attr("axes")), stage=Stage.LOWER, strategy="decompose")
def wrong(b, x, axes):
    d = b.Sub(x, b.ReduceMean(x, axes=list(axes), keepdims=1))
    return b.Div(d, b.Add(b.Sqrt(b.ReduceMean(b.Mul(d, d), {})), 1e-9))
"""
    (tmp_path / "wrong.py").write_text(code.format(wrong))
    m = Spelled(13)
    m.MeanVarianceNormalization("x", axes=[2], outputs="y")
    result = surgeon.rewrite(m.model([1, 3, 3, 3], 4), target="8.4", passes=[tmp_path], only=["wrong"])
    assert result.report.undone


@pytest.mark.parametrize("shape", [[1, 16, 2], [2, 8, 2], [1, 16, "H"]])
def test_instance_norm_of_two_elements(shape: list[int | str]) -> None:
    """Where they are close to each other, ONNX Runtime's own kernel is the one that rounds: it scales them first."""
    m, size = Spelled(13), int(shape[1])
    scale, bias = 0.5 + np.arange(size) % 4, np.arange(size) % 3
    m.InstanceNormalization("x", scale.astype(np.float32), bias.astype(np.float32), outputs="y")
    result = surgeon.rewrite(m.model(shape, 3), target="8.4")
    assert not result.report.failed and "InstanceNormalization" not in operators(result)


@FEW
@given(batch=st.integers(1, 4), channels=st.integers(1, 5), seed=st.integers(0, 99))
def test_batch_norm_bit_for_bit(batch: int, channels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    row = [np.tile(v, batch) for v in rng.uniform(0.1, 2, (4, channels)).astype(np.float32)]
    m = Spelled(15)
    folded = m.Reshape("x", np.asarray([1, batch * channels, 3, 4], np.int64))
    m.Reshape(m.BatchNormalization(folded, *row), np.asarray([batch, channels, 3, 4], np.int64), outputs="y")
    model = m.model([batch, channels, 3, 4], 4)
    result = surgeon.rewrite(model, target="10.9", only=NORMS)
    assert operators(result) == ["BatchNormalization"]
    x = (rng.standard_normal((batch, channels, 3, 4)) * 100).astype(np.float32)
    assert np.array_equal(run(result.model, x), run(model, x))


def test_lost_epsilon_is_said_and_repaired() -> None:
    m = Spelled(17)
    d = m.Sub("x", m.reduced("x", [2, 3]))
    m.Div(d, m.Sqrt(m.reduced(m.Mul(d, d), [2, 3])), outputs="y")
    model = m.model(["N", 2, 4, 5], 4)
    said = surgeon.rewrite(model, target="10.9", only=NORMS)
    assert any("lost epsilon" in w for w in said.report.warnings)
    assert said.model.graph.node[0].attribute[0].f == 0.0
    mended = surgeon.rewrite(model, target="10.9", only=NORMS, options={"repair_eps": 1e-8})
    assert any("lost epsilon" in w and "1e-08" in w for w in mended.report.warnings) and not mended.report.undone
    assert np.array_equal(run(mended.model, np.full((1, 2, 4, 5), 3.0, np.float32)), np.zeros((1, 2, 4, 5), np.float32))


@pytest.mark.parametrize("order", [NORMS, NORMS[::-1]])
def test_the_order_of_the_passes_does_not_matter(order: list[str]) -> None:
    m = Spelled(17)
    n = spell(m, "x", [2], 3, "twice", "Pow", "Reciprocal", 1e-5, None)
    g = spell(m, m.Mul(n, np.asarray([[1.0], [2.0]], np.float32)), [-1], 3, "twice", "Mul", "Div", 1e-5, None)
    m.Mul(g, np.arange(1, 6, dtype=np.float32), outputs="y")
    result: surgeon.Result = surgeon.rewrite(m.model(["N", 2, 5], 3), target="10.9", only=order)
    assert operators(result) == ["InstanceNormalization", "LayerNormalization"]


@pytest.mark.parametrize("library", ["surgeon", "stock"])
@pytest.mark.parametrize("sizes", ["2,6,8", "2,6,4,5"])
def test_a_layer_norm_without_weights_is_a_plugin_node_at_once(sizes: str, library: str) -> None:
    """Its chain after a Reshape was read as an instance normalisation by the second run, and became a plugin there."""
    over = sizes.split(",", 2)[2]
    ones = ", ".join(["1.0"] * int(np.prod([int(d) for d in over.split(",")])))
    proto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[{sizes}] a) => (float[{sizes}] r)
        <float[{over}] one = {{{ones}}}, int64[{len(sizes.split(","))}] shape = {{{sizes}}}> {{
            x = Reshape (a, shape)
            r = LayerNormalization <axis = 2> (x, one)
        }}"""
    )
    first = surgeon.rewrite(proto, target="8.4", plugins=[library])
    assert any(n.domain == "surgeon" for n in first.model.graph.node)
    second = surgeon.rewrite(first.model, target="8.4", plugins=[library])
    assert not second.report.applied and not first.report.undone


@pytest.mark.parametrize("target", ["10.9", "rtx"])
def test_a_layer_norm_of_opset_16_without_weights_is_an_instance_norm_at_once(target: str) -> None:
    """Its weights of one and zero say which axis it normalises, and are gone in what is written."""
    m = Spelled(16)
    x = m.Reshape("x", np.asarray([2, 6, 8], np.int64))
    d = m.Sub(x, m.ReduceMean(x, axes=[-1]))
    v = m.ReduceMean(m.Pow(d, 2.0), axes=[-1])
    y = m.Div(d, m.Sqrt(m.Add(v, 1e-5)))
    m.Add(m.Mul(y, np.ones(8, np.float32)), np.zeros(8, np.float32), outputs="y")
    first = surgeon.rewrite(m.model([2, 48], 3), target=target)
    assert [n.op_type for n in first.model.graph.node] == ["Reshape", "InstanceNormalization"]
    assert not surgeon.rewrite(first.model, target=target).report.applied


def test_a_group_norm_of_opset_18_between_transposes_stays_one_of_onnx() -> None:
    """It became a node of surgeon's domain, which has none of that name."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[2,4,6,6] x) => (float[2,4,6,6] y)
        <float[2] s = {1, 2}, float[2] b = {0, 1}> {
            n = GroupNormalization <num_groups = 2> (x, s, b)
            t = Transpose <perm = [0, 2, 3, 1]> (n)
            y = Transpose <perm = [0, 3, 1, 2]> (t)
        }"""
    )
    result = surgeon.rewrite(proto, target="10.9", verify="none", strategy={"group-norm": "keep"})
    assert [(n.domain, n.op_type) for n in result.model.graph.node] == [("", "GroupNormalization")]
    assert not surgeon.rewrite(proto, target="10.9").report.undone


def test_a_scale_of_any_number_of_dimensions_is_brought_to_the_channels() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4,6,6] x, float[A,B,C] c, int64[K] k) => (float[N,4,6,6] y)
        <float[4] b = {0, 1, 2, 3}, int64[1] flat = {-1}> {
            r = Reshape (c, k)
            s = Reshape (r, flat)
            y = InstanceNormalization (x, s, b)
        }"""
    )
    result = surgeon.rewrite(proto, target="10.9", verify="none", strategy={"instance-norm": "decompose"})
    x = np.random.default_rng(0).standard_normal((2, 4, 6, 6)).astype(np.float32)
    feeds = {"x": x, "c": np.arange(4, dtype=np.float32).reshape(1, 2, 2), "k": np.asarray([2, 2])}
    before, after = (Runner(m).run(feeds)[0] for m in (proto, result.model))
    assert "ReduceMean" in operators(result) and before.shape == after.shape and close(after, before)


BEHIND = {"Mul": {"one": 1.0, "ones": np.ones(6), "row": np.arange(1, 7)}, "Add": {"none": 0.0, "row": np.arange(6)}}


@settings(max_examples=examples(120), deadline=None, derandomize=True)
@given(
    norm=st.sampled_from(["layer-norm", "rms-norm", "group-norm"]),
    node=st.booleans(),
    behind=st.lists(
        st.sampled_from([(op, name) for op, factors in BEHIND.items() for name in (*factors, "computed")]),
        min_size=1,
        max_size=4,
    ),
    target=st.sampled_from(["7.2", "8.4", "10.9", "rtx"]),
    strategy=st.sampled_from([{}, dict.fromkeys(NORMS, "decompose")]),
)
@example("rms-norm", False, [("Mul", "one"), ("Mul", "one")], "10.9", {})
@example("layer-norm", False, [("Mul", "one"), ("Add", "none"), ("Mul", "one")], "8.4", {})
@example("layer-norm", True, [("Mul", "one")], "8.4", {})
@example("group-norm", True, [("Add", "none"), ("Mul", "computed"), ("Add", "none")], "8.4", {})
@example("group-norm", False, [("Mul", "one"), ("Mul", "one")], "8.4", {})
def test_what_stands_behind_a_norm_is_taken_in_at_once(
    norm: str, node: bool, behind: list[tuple[str, str]], target: str, strategy: dict[str, str]
) -> None:
    """Neutral weights are gone in what is written: what was after them was taken for weights by the second run."""
    m = Spelled(23 if node else 17)
    require_opset(m.opset)
    if norm == "group-norm":
        shape, row, y = [None, 6, 4, 4], [6, 1, 1], grouped(m, node)
    else:
        shape, row, y = [None, 4, 6], [6], normalised_last(m, node, centred=norm == "layer-norm")
    for count, (op, name) in enumerate(behind):
        factor = "c" if name == "computed" else BEHIND[op][name]
        if isinstance(factor, np.ndarray):
            factor = factor.reshape(row).astype(np.float32)
        y = getattr(m, op)(y, factor, outputs="y" if count == len(behind) - 1 else "")
    model = m.model(shape, len(shape), c=row)
    first = surgeon.rewrite(model, target=target, strategy=strategy)
    assert not first.report.undone, first.report.undone
    _, why = compare_models(model, first.model)
    assert not why, why
    second = surgeon.rewrite(first.model, target=target, strategy=strategy)
    assert not second.report.applied, (operators(first), operators(second))


def normalised_last(m: Spelled, node: bool, centred: bool) -> str:
    if node:
        bias = [np.zeros(6, np.float32)] if centred else []
        return getattr(m, "LayerNormalization" if centred else "RMSNormalization")("x", np.ones(6, np.float32), *bias)
    d = m.Sub("x", m.reduced("x", [-1])) if centred else "x"
    return m.Div(d, m.Sqrt(m.Add(m.reduced(m.Mul(d, d), [-1]), 0.5)))


def grouped(m: Spelled, node: bool) -> str:
    if node:
        return m.GroupNormalization("x", np.ones(6, np.float32), np.zeros(6, np.float32), num_groups=2)
    flat = m.Reshape("x", np.asarray([0, 2, -1], np.int64))
    instances = m.InstanceNormalization(flat, np.ones(2, np.float32), np.zeros(2, np.float32))
    return m.Reshape(instances, np.asarray([0, 6, 4, 4], np.int64))


@pytest.mark.parametrize(
    ("plugins", "written", "words"),
    [(["stock"], "ReduceMean", "three to five dimensions"), (["stock", "surgeon"], "SurgeonInstanceNorm", None)],
)
def test_what_a_plugin_refuses_is_the_next_library_s(plugins: list[str], written: str, words: str | None) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N,2,3,4,5,6] x) => (float[N,2,3,4,5,6] y)
        <float[2] s = {1.5, -2}, float[2] b = {0.25, 3}> { y = InstanceNormalization (x, s, b) }"""
    )
    result = surgeon.rewrite(proto, target="8.4", plugins=plugins)
    assert written in operators(result) and not result.report.undone
    assert [words in w for w in result.report.warnings if words] == [True] * bool(words)
    again = surgeon.rewrite(result.model, target="8.4", plugins=plugins)
    assert not again.report.applied


def test_a_factor_without_elements_is_no_crash() -> None:
    proto = written(
        "(float[2,0,4] x) => (float[2,0,4] y) <float e = {0.001}, float[0,4] w = {}, float two = {2}> {"
        " q = Pow (x, two) v = ReduceMean <axes = [-1]> (q) a = Add (v, e) s = Sqrt (a) d = Div (x, s)"
        " y = Mul (d, w) }",
        17,
    )
    assert surgeon.rewrite(proto, target="8.4").model.graph.output[0].name == "y"


@pytest.mark.parametrize(("count", "fused"), [(6, True), (5, False)])
def test_the_fast_variance_takes_no_other_count(count: int, fused: bool) -> None:
    """E[x^2] - E[x]^2 where the first mean is over another count is not a variance, whatever Bessel says."""
    proto = written(
        f"(float[2,6] x) => (float[2,6] y) <float e = {{0.001}}, float k = {{{count}}}, int64[1] ax = {{1}}> {{"
        " m = ReduceMean <axes = [1], keepdims = 1> (x) d = Sub (x, m) q = Mul (x, x)"
        " s = ReduceSum <keepdims = 1> (q, ax) f = Div (s, k) mm = Mul (m, m) v = Sub (f, mm)"
        " a = Add (v, e) r = Sqrt (a) y = Div (d, r) }",
        17,
    )
    report = surgeon.rewrite(proto, target="10.9", verify="none").report
    assert any(a.pass_name == "layer-norm" for a in report.applied) == fused


def test_a_norm_of_an_unknown_type_is_left_alone() -> None:
    """Of what an operator that ONNX does not know makes."""
    proto = written(
        """(float[1,4,2,2] x, float[4] s, float[4] b) => (float[1,4,2,2] y) {
            c = test.Custom (x)  y = GroupNormalization <num_groups = 2> (c, s, b) }""",
        opset=21,
        extra=', "test" : 1',
    )
    result = surgeon.rewrite(proto, target="8.4")
    assert [n.op_type for n in result.model.graph.node] == ["Custom", "GroupNormalization"]
    assert "its type is not known" in [d.why for d in result.report.declined if d.pass_name == "group-norm"]


def test_a_reshape_to_its_own_shape_is_reported_by_nobody() -> None:
    """A BatchNormalization between two Reshapes that change nothing folds no batch, which is not news."""
    m = Spelled(17)
    shape = np.asarray([2, 3, 4], np.int64)
    parameters = [np.ones(3, np.float32)] * 4
    m.Reshape(m.BatchNormalization(m.Reshape("x", shape), *parameters), shape, outputs="y")
    result = surgeon.rewrite(m.model([2, 3, 4], 3), target="10.9", only=["batch-norm"])
    assert operators(result) == ["BatchNormalization"]
    assert not result.report.declined


def test_a_scale_behind_one_scale_a_group_stays() -> None:
    """From opset 18 to 20 GroupNormalization has one scale a group; ONNX's checker takes it no more."""
    nodes = [
        helper.make_node("GroupNormalization", ["x", "s", "t"], ["n"], num_groups=2),
        helper.make_node("Mul", ["n", "by"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.ones(2, np.float32), name) for name in "st"]
    tensors.append(numpy_helper.from_array(np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1), "by"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4, 5, 5]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    options = {"strategy": {"group-norm": "keep"}, "only": ["group-norm"]}
    assert operators(surgeon.rewrite(model, target="10.9", **options)) == ["GroupNormalization", "Mul"]
