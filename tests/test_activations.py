"""The Exact lines of the activation passes, over the whole range of their constants; the notes' worked examples."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import casefile
import ml_dtypes
import numpy as np
import onnx
import pytest
from helpers import compare_models, examples, probe_less, require_opset
from helpers import model as written
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import surgeon
from surgeon.ir.run import Runner, has_kernel
from surgeon.rules import registry

SAMPLES = Path(__file__).parent.parent / "samples" / "worked_examples"
PASSES = (
    "activation",
    "celu",
    "clip",
    "gelu",
    "hard-sigmoid",
    "hard-swish",
    "leaky-relu",
    "mish",
    "prelu",
    "selu",
    "softplus",
    "swish",
)
settings.register_profile("activations", deadline=None, max_examples=examples(40), derandomize=True)
settings.load_profile("activations")


@pytest.fixture(autouse=True)
def _probed_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests below draw inputs of their own, and tests/cases has each spelling."""
    probe_less(monkeypatch)


slope = st.floats(-1e4, 1e4, width=32, allow_subnormal=False)


class Net:
    """A model written as calls: `n.Mul("x", n.c(0.2))` adds a node and returns the name of its output."""

    def __init__(self, shape: tuple[int | str, ...] = ("N", 3, 5), dtype: Any = np.float32, opset: int = 17) -> None:
        self.shape, self.dtype, self.opset = shape, np.dtype(dtype), opset
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []

    def c(self, value: Any) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, self.dtype), name))
        return name

    def __getattr__(self, op: str) -> Callable[..., str]:
        def make(*inputs: str, **attrs: Any) -> str:
            name = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
            return name

        return make

    def model(self, y: str) -> ModelProto:
        elem = helper.np_dtype_to_tensor_dtype(self.dtype)
        info = [helper.make_tensor_value_info(n, elem, self.shape) for n in ("x", "y")]
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [y], ["y"])], "g", info[:1], info[1:], self.tensors
        )
        # The Identity is what `identity` takes away: the root keeps its name, as it does in a file.
        graph.node[-2].output[0] = "y"
        del graph.node[-1]
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def ops(model: ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def run(model: ModelProto, x: np.ndarray) -> np.ndarray:
    return Runner(model).run({"x": x})[0]


def finite(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Numbers of every size that the type has up to 1e18 (fp16: 3e4), of both signs, with zeros and -0."""
    rng = np.random.default_rng(seed)
    top = 4.4 if np.dtype(dtype) == np.float16 else 18
    x = rng.standard_normal(shape) * 10.0 ** rng.uniform(-8, top, shape)
    x.reshape(-1)[:3] = (0.0, -0.0, 1.0)
    return np.clip(x, -(10**top), 10**top).astype(dtype)


@pytest.mark.parametrize(("linear", "absolute"), [(1.25, -0.25), (0.6, 0.4), (0.55, 0.45)])
@pytest.mark.parametrize("size", [2, 4, 8, 16, 100])
def test_slopes_that_round_denormal_numbers_otherwise(linear: float, absolute: float, size: int) -> None:
    """0.55 x + 0.45 |x| rounds twice, by half a step of the denormal numbers each, where LeakyRelu rounds once."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[{size}] x) => (float[{size}] y) {{
        a = Constant<value_float={linear}>()  b = Constant<value_float={absolute}>()
        scaled = Mul(x, a)  size = Abs(x)  bent = Mul(size, b)  y = Add(scaled, bent) }}"""
    report = surgeon.rewrite(onnx.parser.parse_model(text), target="10.9").report
    assert [a.pass_name for a in report.applied] == ["leaky-relu"] and not report.undone


def rewritten(model: ModelProto, **options: Any) -> surgeon.Result:
    """Proved, by the checker too, and settled: a second run finds nothing."""
    onnx.checker.check_model(model, full_check=True)
    result = surgeon.rewrite(model, **{"target": "10.9", **options})
    assert not result.report.undone, result.report.undone
    onnx.checker.check_model(result.model, full_check=True)
    assert not surgeon.rewrite(result.model, **{"target": "10.9", **options}).report.applied
    return result


# ---- leaky-relu ------------------------------------------------------------------------------------------------------


def clip_clip(n: Net, a: float) -> str:
    return n.Add(n.Clip("x", n.c(0)), n.Mul(n.Clip("x", "", n.c(0)), n.c(a)))


SPELLINGS: dict[str, Callable[[Net, float], str]] = {
    "relu minus": lambda n, a: n.Sub(n.Relu("x"), n.Mul(n.c(a), n.Relu(n.Neg("x")))),
    "relu plus": lambda n, a: n.Add(n.Mul(n.Relu(n.Neg("x")), n.c(-a)), n.Relu("x")),
    "relu minus negated": lambda n, a: n.Add(n.Relu("x"), n.Neg(n.Mul(n.c(a), n.Relu(n.Neg("x"))))),
    "clip": clip_clip,
    "max and min": lambda n, a: n.Add(n.Max("x", n.c(0)), n.Mul(n.c(a), n.Min(n.c(0), "x"))),
    "abs": lambda n, a: n.Add(n.Mul("x", n.c((1 + a) / 2)), n.Mul(n.c((1 - a) / 2), n.Abs("x"))),
    "scale, relu and sum": lambda n, a: n.Sum(n.Mul(n.c(a), "x"), n.Mul(n.c(1 - a), n.Relu("x"))),
    "half of abs": lambda n, a: n.Mul(n.Add(n.Mul("x", n.c(1 + a)), n.Mul(n.c(1 - a), n.Abs("x"))), n.c(0.5)),
    "where": lambda n, a: n.Where(n.Greater("x", n.c(0)), "x", n.Mul("x", n.c(a))),
    "where not": lambda n, a: n.Where(n.Not(n.GreaterOrEqual("x", n.c(0))), n.Mul("x", n.c(a)), "x"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(alpha=slope)
@example(0.0)
@example(-0.0)
@example(0.01)
@example(-1.0)
@example(1e-30)
def test_every_alpha_is_fused(spelling: str, alpha: float) -> None:
    n = Net()
    result = rewritten(n.model(SPELLINGS[spelling](n, alpha)))
    found = ops(result.model)
    if abs(alpha - 1) < 1e-3:
        return  # a product, or as good as one
    assert found[0] in ("Relu", "LeakyRelu") and found[1:] in ([], ["Mul"]), found
    assert (found[0] == "Relu") <= (abs(alpha) < 1e-6)


@given(alpha=slope)
@example(1.0)
@example(-1.0)
def test_the_maximum_or_the_minimum_is_fused(alpha: float) -> None:
    for op, holds in (("Max", alpha < 1), ("Min", alpha > 1)):
        n = Net()
        result = rewritten(n.model(getattr(n, op)(n.Mul("x", n.c(alpha)), "x")))
        assert (ops(result.model) in (["LeakyRelu"], ["Relu"])) == holds


@given(alpha=slope, seed=st.integers(0, 99))
@example(1.0, 0)
@example(0.0, 0)
def test_leaky_relu_decomposed_is_equal_to_the_last_bit(alpha: float, seed: int) -> None:
    n = Net((4, 50))
    before = n.model(n.LeakyRelu("x", alpha=alpha))
    after = rewritten(before, strategy={"leaky-relu": "decompose"}).model
    assert ops(after) in (["Mul", "Max"], ["Mul", "Min"], ["Relu"])
    x = finite((4, 50), seed=seed)
    np.testing.assert_array_equal(run(after, x), run(before, x))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_other_types(dtype: Any, spelling: str) -> None:
    n = Net(dtype=dtype)
    result = rewritten(n.model(SPELLINGS[spelling](n, 0.125)))
    assert ops(result.model) == ["LeakyRelu"]


def test_an_operator_that_does_not_take_the_type_yet_is_not_written() -> None:
    n = Net(dtype=ml_dtypes.bfloat16, opset=15)
    result = rewritten(n.model(n.Max("x", n.Mul("x", n.c(0.125)))))
    assert ops(result.model) == ["Mul", "Max"]
    assert "LeakyRelu takes no bfloat16 at opset 15" in [d.why for d in result.report.declined]


@given(gain=st.floats(0.0009765625, 1e3, width=32), alpha=slope)
def test_a_gain_goes_into_the_weights(gain: float, alpha: float) -> None:
    n = Net((2, 3, 5, 5))
    rng = np.random.default_rng(1)
    y = n.Conv("x", n.c(rng.standard_normal((3, 3, 1, 1))), n.c(rng.standard_normal(3)))
    model = n.model(n.Mul(n.LeakyRelu(y, alpha=alpha), n.c(gain)))
    result = rewritten(model, only=["leaky-relu"])
    assert ops(result.model) == ["Conv", "Relu" if alpha == 0 else "LeakyRelu"]
    assert compare_models(model, result.model)[1] == ""


# ---- prelu -----------------------------------------------------------------------------------------------------------

SHAPES = [(3, 1, 1), (1, 3, 1, 1), (3, 4, 5), (4, 1), (5,), (1, 1, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@given(data=st.data())
def test_slopes_of_every_shape(shape: tuple[int, ...], data: st.DataObject) -> None:
    size = int(np.prod(shape))
    slopes = np.asarray(data.draw(st.lists(slope, min_size=size, max_size=size)), np.float32).reshape(shape)
    n = Net((2, 3, 4, 5))
    before = n.model(n.PRelu("x", n.c(slopes)))
    m = Net((2, 3, 4, 5))
    spelled = m.model(m.Add(m.Relu("x"), m.Mul(m.c(-slopes), m.Relu(m.Neg("x")))))
    x = finite((2, 3, 4, 5))
    want = run(before, x)
    np.testing.assert_array_equal(run(rewritten(before).model, x), want)
    np.testing.assert_array_equal(run(rewritten(before, strategy={"prelu": "decompose"}).model, x), want)
    fused = rewritten(spelled).model
    if (slopes != 1).any():
        assert len(fused.graph.node) == 1
        np.testing.assert_array_equal(run(fused, x), want)


def test_mxnet_slopes_are_repaired_where_asked() -> None:
    """One slope a channel, as mxnet wrote it: invalid in ONNX, so only --allow-unproved makes it; numbers by hand."""
    n = Net((1, 3, 1, 2))
    model = n.model(n.PRelu("x", n.c([0.5, 1, 2])))
    result = surgeon.rewrite(model, target="8.4", allow_unproved=True)
    assert any("one slope for each channel" in w for w in result.report.warnings)
    x = -np.arange(1, 7, dtype=np.float32).reshape(1, 3, 1, 2)
    np.testing.assert_array_equal(run(result.model, x).reshape(-1), [-0.5, -1, -3, -4, -10, -12])


def test_an_unknown_width_needs_the_option() -> None:
    n = Net(("N", 3, "H", "W"))
    model = n.model(n.PRelu("x", n.c([0.5, 1, 2])))
    assert not surgeon.rewrite(model, target="8.4", allow_unproved=True).report.applied
    repaired = surgeon.rewrite(model, target="8.4", allow_unproved=True, options={"repair_prelu": 1})
    (tensor,) = repaired.model.graph.initializer
    assert list(tensor.dims) == [3, 1, 1]


# ---- the others ------------------------------------------------------------------------------------------------------


@given(low=st.floats(-1e6, 1e6, width=32), high=st.floats(-1e6, 1e6, width=32))
@example(0.0, 6.0)
@example(-0.0, 0.0)
def test_clip_is_equal_to_the_last_bit(low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    n, m = Net((4, 50)), Net((4, 50))
    clip = n.model(n.Clip("x", n.c(low), n.c(high)))
    spelled = m.model(m.Min(m.c(high), m.Max("x", m.c(low))))
    decomposed = rewritten(clip, strategy={"clip": "decompose"}).model
    fused = rewritten(spelled).model
    assert ops(fused) == ["Clip"] and "Clip" not in ops(decomposed)
    x = finite((4, 50))
    x[0, :3] = (np.nan, np.inf, -np.inf)
    for model in (spelled, decomposed, fused):
        np.testing.assert_array_equal(run(model, x), run(clip, x))


@given(threshold=st.floats(15.0, 100.0, width=32), beta=st.floats(0.125, 8.0, width=32))
def test_the_guard_of_softplus_is_not_missed(threshold: float, beta: float) -> None:
    n = Net((4, 50))
    scaled = n.Mul("x", n.c(beta))
    before = n.model(n.Where(n.Greater(scaled, n.c(threshold)), "x", n.Div(n.Softplus(scaled), n.c(beta))))
    after = rewritten(before).model
    assert "Where" not in ops(after)
    x = np.linspace(-2, 2, 200, dtype=np.float32).reshape(4, 50) * threshold / beta
    np.testing.assert_allclose(run(after, x), run(before, x), rtol=5e-7, atol=1e-12)


@given(alpha=st.floats(0.0625, 64.0, width=32))
def test_celu_for_every_alpha(alpha: float) -> None:
    n, m = Net((4, 50)), Net((4, 50))
    celu = n.model(n.Celu("x", alpha=alpha))
    curve = m.Mul(m.c(alpha), m.Sub(m.Exp(m.Div("x", m.c(alpha))), m.c(1)))
    spelled = m.model(m.Add(m.Relu("x"), m.Min(m.c(0), curve)))
    assert ops(rewritten(spelled).model) == (["Elu"] if alpha == 1 else ["Celu"])
    decomposed = rewritten(celu, target="8.2").model
    assert ops(decomposed) == (["Elu"] if alpha == 1 else ["Div", "Elu", "Mul"])
    x = finite((4, 50))
    np.testing.assert_allclose(run(decomposed, x), run(celu, x), rtol=1e-6)


@given(alpha=st.floats(-4.0, 4.0, width=32), beta=st.floats(-4.0, 4.0, width=32))
def test_hard_sigmoid_for_every_alpha_and_beta(alpha: float, beta: float) -> None:
    n = Net((4, 50))
    spelled = n.model(n.Clip(n.Add(n.Mul("x", n.c(alpha)), n.c(beta)), n.c(0), n.c(1)))
    fused = rewritten(spelled).model
    assert ops(fused) == ["HardSigmoid"]
    assert ops(rewritten(fused, target="8.6+dla").model) == ["Mul", "Add", "Clip"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", ["Gelu", "HardSwish", "Mish", "Swish"])
def test_decomposed_in_every_type(op: str, dtype: Any) -> None:
    """Numbers of the formula in float64, by NumPy."""
    opset = 24 if op == "Swish" else 22
    require_opset(opset)
    n = Net((4, 50), dtype, opset)
    model = n.model(getattr(n, op)("x"))
    result = rewritten(model, target="8.2", only=[op.lower() if op != "HardSwish" else "hard-swish"])
    assert op not in ops(result.model)
    if np.dtype(dtype).name not in ("float16", "float32"):
        return  # ONNX Runtime has no kernels for all of them; the proof ran with onnx's reference evaluator
    x = np.linspace(-8, 8, 200).reshape(4, 50).astype(dtype)
    z = x.astype(np.float64)
    erf = np.vectorize(__import__("math").erf)
    want = {
        "Gelu": z * 0.5 * (1 + erf(z / np.sqrt(2))),
        "HardSwish": z * np.clip(z / 6 + 0.5, 0, 1),
        "Mish": z * np.tanh(np.log1p(np.exp(z))),
        "Swish": z / (1 + np.exp(-z)),
    }[op]
    np.testing.assert_allclose(run(result.model, x), want, atol=8 * (2e-3 if dtype == np.float16 else 1e-6))


def test_selu_keeps_its_numbers() -> None:
    n = Net((4, 50))
    before = n.model(n.Selu("x"))
    after = rewritten(before).model
    assert {a.name for a in after.graph.node[0].attribute} == {"alpha", "gamma"}
    x = finite((4, 50))
    np.testing.assert_array_equal(run(after, x), run(before, x))


def test_erfc_is_declined_and_repaired_on_request() -> None:
    n = Net((4, 50))
    model = n.model(n.Mul(n.Mul(n.c(0.5), "x"), n.Erfc(n.Mul(n.Neg("x"), n.c(np.sqrt(0.5))))))
    declined = surgeon.rewrite(model, target="8.4")
    assert not declined.report.applied and "unproved" in declined.report.declined[0].why
    repaired = surgeon.rewrite(model, target="8.4", allow_unproved=True)
    assert ops(repaired.model) == ["Div", "Erf", "Add", "Mul", "Mul"]
    assert any("Erfc" in w for w in repaired.report.warnings)
    np.testing.assert_allclose(run(repaired.model, np.ones((4, 50), np.float32)), 0.8413447, rtol=1e-6)


# ---- passes together -------------------------------------------------------------------------------------------------

CASES = [p for p in casefile.paths() if p.parent.name.replace("_", "-") in PASSES]


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_no_pass_spoils_another(path: Path) -> None:
    """Whichever of the passes ran alone before, all of them together come to the same model."""
    case = casefile.load(path)
    options = {**case.options, "only": None, "verify": "none"}
    want = casefile.canonical(surgeon.rewrite(case.model, **options).model)
    for name in PASSES:
        first = surgeon.rewrite(case.model, **{**options, "only": [name], "strategy": {}, "plugins": []})
        if not first.report.applied:
            continue  # the model is as it was
        found = casefile.canonical(surgeon.rewrite(first.model, **options).model)
        assert found == want, f"after {name} alone"


def test_the_passes_are_there() -> None:
    assert set(PASSES) <= {p.name for p in registry.passes()}


# ---- the notes' worked examples --------------------------------------------------------------------------------------


def worked_examples() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    spec = importlib.util.spec_from_file_location("make_models", SAMPLES / "make_models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.EXAMPLES)


@pytest.mark.parametrize("target", ["7.1", "8.4", "8.6+dla", "10.9", "rtx"])
@pytest.mark.parametrize("name", ["activation_clip.onnx", "parametric_relu.onnx"])
def test_worked_example(name: str, target: str) -> None:
    x, want = worked_examples()[name]
    model = onnx.load(SAMPLES / name)
    for strategy in ({}, {"clip": "decompose", "prelu": "decompose"}):
        result = surgeon.rewrite(model, target=target, strategy=strategy)
        assert not result.report.undone
        np.testing.assert_array_equal(run(result.model, x), want)


@pytest.mark.parametrize("op", ["Mish", 'Gelu <approximate = "tanh">'])
@pytest.mark.parametrize("target", ["8.6+dla", "10.9+dla"])
def test_dla_runs_all_of_what_is_written_for_it(op: str, target: str) -> None:
    """Where an operator falls back to the GPU its input and output are copied to and fro."""
    model = written(f"(float[2,200] x) => (float[2,200] y) {{ y = {op} (x) }}", 20)
    result = rewritten(model, target=target)
    on_gpu = ["Softplus"] if op == "Mish" and target == "8.6+dla" else []  # which has no Div either
    nodes = {n.name: n.op_type for n in result.model.graph.node}
    assert [nodes[d.node] for d in result.report.untaken] == on_gpu, result.report.untaken
    x = np.concatenate([np.linspace(-30, 30, 200), np.logspace(-8, 2, 200) * -1]).reshape(2, 200).astype(np.float32)
    np.testing.assert_allclose(
        run(result.model, x), run(model, x), rtol=2e-5, atol=3e-6
    )  # what ONNX Runtime's Sigmoid rounds to 0


@pytest.mark.parametrize("target", ["10.9", "11.1", "rtx"])
@pytest.mark.parametrize("opset", [24, 25])
def test_swish_is_fused_where_onnxruntime_runs_it(opset: int, target: str) -> None:
    """ONNX Runtime 1.32 expands Swish at opset 24 alone: at 25 every SiLU was fused, and undone."""
    require_opset(opset)
    silu = written("(float[N,8] x) => (float[N,8] y) { s = Sigmoid (x) y = Mul (x, s) }", opset, 10)
    result = surgeon.rewrite(silu, target=target)
    runs = has_kernel("Swish", TensorProto.FLOAT, opset)
    assert not result.report.failed
    assert ops(result.model) == (["Swish"] if runs and target != "10.9" else ["Sigmoid", "Mul"])
    told = [d.why for d in result.report.declined if d.pass_name == "swish"]
    assert bool(told) == (not runs and target != "10.9")
