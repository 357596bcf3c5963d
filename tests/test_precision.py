"""The conversion to fp16: islands, casts, constants, bodies, calibration,
and the bar over the corpus's norm modules."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import helpers
import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

import surgeon
from surgeon.errors import UsageError
from surgeon.ir.functions import opset_of as onnx_opset
from surgeon.ir.run import Runner, onnx_runtime
from surgeon.precision import convert, load_data
from surgeon.precision.comparison import Comparison
from surgeon.precision.data import Samples
from surgeon.precision.inputs import plausible
from surgeon.precision.operators import degree
from surgeon.precision.rounding import rounded
from surgeon.precision.steps import without_steps
from surgeon.targets.target import Target

CORPUS = Path(__file__).parent / "corpus"
HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
NORMS = (
    "F_normalize", "FRN", "GroupNorm", "ILN", "IN_", "InstanceNorm", "LayerNorm", "batchnorm2d_train", "cosine_similarity", "fast_neural",
    "fp16_GroupNorm", "fp16_LayerNorm", "fp16_norm", "instance_norm", "instancenorm", "keras_Group", "keras_Layer", "keras_RMS", "keras_Unit",
    "l2_", "linalg_", "nn_RMS", "rmsnorm", "script_loop", "sqrt_sum", "square_max", "ssd_l2norm", "stylegan", "tf_instance", "tf_l2",
    "tf_linalg", "tf_x", "tfa_instance", "weight_norm", "x_div_norm",
)  # fmt: skip
INDEX: list[dict[str, Any]] = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
NORM_ROWS = [row for row in INDEX if row["module"].startswith(NORMS)]
NORM_FILES = [row["file"] for row in NORM_ROWS]
CHAINS = set({row["sequence"]: row["file"] for row in NORM_ROWS}.values())  # one file for each chain of operators


def typed(model: ModelProto) -> dict[str, int]:
    """Tensor -> type, as onnx's strict inference sees it: fails where a node mixes types."""
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return {
        v.name: v.type.tensor_type.elem_type
        for v in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output)
    }


def nodes_of(model: ModelProto) -> list[NodeProto]:
    found, todo = [], list(model.graph.node)
    while todo:
        node = todo.pop()
        found.append(node)
        todo += [n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in a.g.node]
    return found


def type_of(model: ModelProto, op: str) -> list[int]:
    """The types of what the nodes of an operator return."""
    kinds = typed(model)
    return [kinds[n.output[0]] for n in model.graph.node if n.op_type == op]


def with_weights(model: ModelProto, **arrays: np.ndarray) -> ModelProto:
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def stored(model: ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def casts(model: ModelProto) -> int:
    return Counter(n.op_type for n in nodes_of(model))["Cast"]


rng = np.random.default_rng(7)
W = rng.standard_normal((8, 8)).astype(np.float32) * 0.3


# ---- the bar ---------------------------------------------------------------------------------------------------------


def times_1000(model: ModelProto) -> Samples:
    """Standard normal numbers times 1000, of the sizes on which a model runs."""
    (feeds, *_) = plausible(model, Runner(model).run).samples
    draw = np.random.default_rng(3).standard_normal
    return Samples.of([{n: 1000 * draw(x.shape, np.float32) if x.dtype == np.float32 else x for n, x in feeds.items()}])


@pytest.mark.parametrize("file", [pytest.param(f, marks=() if f in CHAINS else pytest.mark.long) for f in NORM_FILES])
def test_norm_modules_with_inputs_times_1000(file: str) -> None:
    """No inf or NaN that fp32 does not have, at most 2e-3, each fp16 tensor rounded;
    and the same through ONNX Runtime alone."""
    original = onnx.load(CORPUS / file)
    result = convert(original)
    assert not result.failed, result.warnings
    errors = Comparison(original, times_1000(original), kind="data", base=None).errors(result.model)
    assert all(e.relative <= 2e-3 for e in errors), errors
    Runner(result.model)  # ONNX Runtime takes the types
    again = convert(result.model, verify=file not in CHAINS)  # measured again in the long tests alone
    assert again.model.SerializeToString(deterministic=True) == result.model.SerializeToString(deterministic=True)


def test_the_bar_covers_the_norm_modules() -> None:
    assert len(NORM_FILES) == 295


@pytest.mark.parametrize("row", [r for r in INDEX if r["module"] != "tf_gelu"][::4], ids=lambda r: str(r["file"]))
def test_corpus_is_typed_right(row: dict[str, Any]) -> None:
    """After a rewrite for TensorRT-RTX: valid, every tensor of one type, no cast of a cast,
    inputs and outputs as they were."""
    rewritten = surgeon.rewrite(onnx.load(CORPUS / row["file"]), target="rtx", verify="none").model
    result = convert(rewritten, verify=False, target=Target.parse("rtx"))
    onnx.checker.check_model(result.model, full_check=True)
    assert [(i.name, i.type) for i in result.model.graph.input] == [(i.name, i.type) for i in rewritten.graph.input]
    assert [(o.name, o.type) for o in result.model.graph.output] == [(o.name, o.type) for o in rewritten.graph.output]
    made = {o: n for n in nodes_of(result.model) for o in n.output}
    for node in nodes_of(result.model):
        if node.op_type == "Cast" and node.attribute[0].i in (HALF, SINGLE):
            source = made.get(node.input[0])
            assert source is None or source.op_type != "Cast" or source.attribute[0].i not in (HALF, SINGLE), node.name


# ---- the evaluation that rounds --------------------------------------------------------------------------------------


def test_rounding_is_that_of_fp16() -> None:
    """Against NumPy's own conversion: normal numbers, steps of 2^-24, overflow from 65520, inf, NaN;
    a tie may go either way."""
    model = convert(
        with_weights(
            helpers.model("(float[N] x) => (float[N] y) { z = MatMul (x, one) y = Mul (z, z) }"),
            one=np.ones((1, 1), np.float32),
        ),
        verify=False,
    )
    assert model.half
    cast = helpers.model("(float[N] x) => (float[N] y) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) }")
    numbers = np.concatenate(
        [rng.standard_normal(5000) * s for s in (1e-8, 1e-7, 1e-6, 6e-5, 1e-3, 1.0, 1e3, 3e4)]
    ).astype(np.float32)
    special = np.asarray(
        [0, -0.0, 65504, 65519.996, 65520, -65520, 1e38, np.inf, -np.inf, np.nan, 2.0**-24, 2.0**-14, 5.9e-8],
        np.float32,
    )
    x = np.concatenate([numbers, special])
    strict = rounded(cast)
    assert strict is not None
    (given,) = Runner(strict).run({"x": x})
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(given), np.isnan(expected))
    known = ~np.isnan(expected)
    wrong = known & (given != expected) & np.isfinite(expected)
    step = np.abs(np.spacing(expected[wrong].astype(np.float16))).astype(np.float64)
    tie = np.abs(np.abs(x[wrong].astype(np.float64) - expected[wrong]) - step / 2) <= step * 1e-3
    assert tie.all() and wrong.sum() < len(x) / 100, x[wrong][~tie]
    np.testing.assert_array_equal(given[np.isinf(expected)], expected[np.isinf(expected)])


def test_onnx_runtime_alone_hides_overflow() -> None:
    """The reason for the evaluation that rounds. Should this fail, ONNX Runtime has become strict."""
    model = helpers.model(
        "(float[2,8] x) => (float[2,1] y) { h = Cast <to = 10> (x) s = Mul (h, h) r = ReduceSum <keepdims = 1> (s, "
        "axes) "
        "q = Sqrt (r) y = Cast <to = 1> (q) }"
    )
    with_weights(model, axes=np.asarray([1]))
    x = np.full((2, 8), 1e3, np.float32)
    strict = rounded(model)
    assert strict is not None
    assert np.isfinite(Runner(model).run({"x": x})[0]).all()
    assert np.isinf(Runner(strict).run({"x": x})[0]).all()


# ---- what stays fp32 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        ("Mul", [1.0, 1.0], 2.0), ("Mul", [1.0, None], 1.0), ("Div", [1.0, 1.0], 0.0), ("Sqrt", [2.0], 1.0), ("Reciprocal", [1.0], -1.0),
        ("Min", [-1.0, None], -1.0), ("Add", [2.0, None], 2.0), ("MatMul", [1.0, 1.0], 2.0), ("MatMul", [1.0, None], 1.0),
        ("Conv", [2.0, None, None], 1.0), ("Tanh", [3.0], 0.0), ("Relu", [1.0], 1.0), ("Add", [None, None], 0.0), ("Div", [None, 1.0], -1.0),
    ],
)  # fmt: skip
def test_degree(op: str, inputs: list[float | None], expected: float) -> None:
    assert degree(op, inputs) == expected


def test_degree_of_powers() -> None:
    assert degree("Pow", [1.0, None], 2.0) == 2.0
    assert degree("Pow", [2.0, None], 0.5) == 1.0
    assert degree("Pow", [1.0, 1.0]) > 1.0


def between_layers(inner: str, opset: int = 17, **weights: np.ndarray) -> ModelProto:
    """A MatMul, `inner` from a to b, and a MatMul: both ends of `inner` meet fp16."""
    text = f"(float[N,8] x) => (float[N,8] y) {{ a = MatMul (x, w) {inner} y = MatMul (b, w) }}"
    return with_weights(helpers.model(text, opset), w=W, **weights)


ISLANDS = {
    "mean and variance": (
        "m = ReduceMean <axes = [1]> (a) d = Sub (a, m) s = Mul (d, d) v = ReduceMean <axes = [1]> (s) e = Add (v, eps) r = Sqrt (e) b = Div (d, r)",
        {"eps": np.float32(1e-5)}, {"ReduceMean", "Sub", "Mul", "Add", "Sqrt", "Div"},
    ),
    "l2 by reciprocal": (
        "s = Mul (a, a) v = ReduceSum <keepdims = 1> (s, one) f = Max (v, eps) r = Sqrt (f) i = Reciprocal (r) b = Mul (a, i)",
        {"eps": np.float32(1e-12), "one": np.asarray([1])}, {"Mul", "ReduceSum", "Max", "Sqrt", "Reciprocal"},
    ),
    "softmax": ("b = Softmax (a)", {}, {"Softmax"}),
    "softmax spelled out": ("e = Exp (a) s = ReduceSum <keepdims = 1> (e, one) b = Div (e, s)", {"one": np.asarray([1])}, {"Exp", "ReduceSum", "Div"}),
    "masked softmax": ("z = Add (a, mask) b = Softmax (z)", {"mask": np.asarray([0, 0, 0, 0, 0, 0, 0, -1e9], np.float32)}, {"Add", "Softmax"}),
    "cube in tanh": ("p = Pow (a, three) k = Mul (p, c) z = Add (a, k) t = Tanh (z) b = Mul (a, t)", {"three": np.float32(3), "c": np.float32(0.04)}, {"Pow", "Add"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ISLANDS)
def test_an_island_between_layers(name: str) -> None:
    inner, weights, expected = ISLANDS[name]
    result = convert(between_layers(inner, **weights))
    assert type_of(result.model, "MatMul") == [HALF, HALF]
    assert expected <= {k.op for k in result.kept}
    assert casts(result.model) == result.casts == 4, "in, out, and one at each end of the island"
    assert result.errors and not result.failed, result.errors
    assert result.worst is not None and result.worst > 0


def test_without_the_island_it_overflows() -> None:
    """The test above can fail: the same norm all in fp16 is inf on inputs times 1e3."""
    model = between_layers(*ISLANDS["l2 by reciprocal"][:1], **ISLANDS["l2 by reciprocal"][1])
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = HALF
    for tensor in model.graph.initializer:
        if tensor.data_type == SINGLE:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    strict = rounded(model)
    assert strict is not None
    (y,) = Runner(strict).run({"x~given": (rng.standard_normal((3, 8)) * 1e3).astype(np.float32)})
    assert (y == 0).all() or not np.isfinite(y).all()


def test_plain_layers_have_no_island() -> None:
    result = convert(between_layers("b = Relu (a)"))
    assert not result.kept and result.casts == 2 and result.single == 0


def test_activations_stay_fp16() -> None:
    result = convert(
        between_layers(
            "s = Sigmoid (a) m = Mul (a, s) l = LeakyRelu <alpha = 0.1> (m) b = Clip (l, lo, hi)",
            lo=np.float32(0),
            hi=np.float32(6),
        )
    )
    assert not result.kept and {a.dtype for a in stored(result.model).values()} == {np.dtype(np.float16)}


def test_a_relu_behind_a_norm_goes_with_its_reader() -> None:
    result = convert(between_layers("n = Softmax (a) b = Relu (n)"))
    assert type_of(result.model, "Relu") == [HALF]


def test_scale_and_shift_behind_a_norm_stay_with_it() -> None:
    result = convert(
        between_layers("n = Softmax (a) m = Mul (n, g) b = Add (m, g)", g=np.linspace(1, 2, 8, dtype=np.float32))
    )
    assert type_of(result.model, "Mul") == type_of(result.model, "Add") == [SINGLE] and result.casts == 4


def test_what_lies_between_two_islands_stays_fp32() -> None:
    result = convert(between_layers("n = Softmax (a) r = Relu (n) b = Softmax (r)"))
    assert type_of(result.model, "Relu") == [SINGLE] and result.casts == 4


def test_several_between_two_islands_stay_fp32_together() -> None:
    """Each of the two alone saves no cast."""
    result = convert(between_layers("p = Softmax (a) s = Sigmoid (p) t = Tanh (s) b = Softmax (t)"))
    assert type_of(result.model, "Sigmoid") == type_of(result.model, "Tanh") == [SINGLE]
    assert casts(result.model) == 4, "in, out, and one at each end of the island"


def test_positions_are_counted_in_fp32() -> None:
    """Rotary embedding: position 4097 times a frequency, and its cosine."""
    model = with_weights(
        helpers.model("(int64[S] p, float[S,8] x) => (float[S,8] y) { f = Cast <to = 1> (p) u = Unsqueeze (f, one) g = Mul (u, freq) c = Cos (g) h = MatMul (x, w) y = Mul (h, c) }"),
        one=np.asarray([1]), freq=np.linspace(0.1, 1, 8, dtype=np.float32).reshape(1, 8), w=W,
    )  # fmt: skip
    result = convert(model)
    assert {"Cast", "Mul", "Cos"} <= {k.op for k in result.kept}
    strict = rounded(result.model)
    assert strict is not None
    feeds: dict[str, np.ndarray] = {"p": np.arange(4090, 4100), "x": rng.standard_normal((10, 8)).astype(np.float32)}
    (a,), (b,) = Runner(strict).run(feeds), Runner(model).run(feeds)
    assert np.abs(a - b).max() <= 2e-3 * np.abs(b).max()


def test_integer_mask_of_a_transformer() -> None:
    """(1 - mask) * -3.4e38 + scores, softmax: nowhere inf - inf, also where everything is masked."""
    model = with_weights(
        helpers.model(
            "(int64[N,8] mask, float[N,8] x) => (float[N,8] y) { m = Cast <to = 1> (mask) i = Sub (one, m) z = Mul (i, low) a = MatMul (x, w) s = Add (a, z) "
            "p = Softmax (s) y = MatMul (p, w) }"
        ),
        one=np.float32(1), low=np.float32(-3.4028235e38), w=W,
    )  # fmt: skip
    result = convert(model)
    strict = rounded(result.model)
    assert strict is not None and type_of(result.model, "Add") == [SINGLE]
    feeds = {"mask": np.asarray([[1] * 8, [0] * 8, [1, 0] * 4]), "x": rng.standard_normal((3, 8)).astype(np.float32)}
    (a,), (b,) = Runner(strict).run(feeds), Runner(model).run(feeds)
    assert np.abs(a - b).max() <= 2e-3 * np.abs(b).max()


# ---- constants -------------------------------------------------------------------------------------------------------


def test_epsilons_that_underflow_stay() -> None:
    result = convert(
        between_layers("n = ReduceL2 <axes = [1]> (a) f = Clip (n, eps) b = Div (a, f)", eps=np.float32(1e-12))
    )
    assert stored(result.model)["eps"].dtype == np.float32
    strict = rounded(result.model)
    assert strict is not None
    (y,) = Runner(strict).run({"x": np.zeros((2, 8), np.float32)})
    assert np.isfinite(y).all()


def test_weights_beyond_fp16_are_reported_and_stay() -> None:
    big = W.copy()
    big[0, 0] = 7e4
    result = convert(
        with_weights(
            helpers.model("(float[N,8] x) => (float[N,8] y) { a = MatMul (x, big) b = Relu (a) y = MatMul (b, w) }"),
            big=big,
            w=W,
        )
    )
    assert stored(result.model)["big"].dtype == np.float32 and stored(result.model)["w"].dtype == np.float16
    assert any("'big' overflows" in w for w in result.warnings), result.warnings


def test_weights_that_lose_their_digits_are_reported_and_stay() -> None:
    result = convert(
        with_weights(helpers.model("(float[N,8] x) => (float[N,8] y) { y = MatMul (x, small) }"), small=W * 1e-7)
    )
    assert stored(result.model)["small"].dtype == np.float32
    assert any("'small' becomes 0" in w for w in result.warnings), result.warnings


def test_single_weights_that_flush_are_reported() -> None:
    some = W.copy()
    some[0, :3] = 1e-9
    result = convert(
        with_weights(helpers.model("(float[N,8] x) => (float[N,8] y) { y = MatMul (x, some) }"), some=some)
    )
    assert stored(result.model)["some"].dtype == np.float16
    assert any("3 of 64 numbers" in w for w in result.warnings), result.warnings


def test_divisors_that_flush_stay() -> None:
    result = convert(between_layers("b = Div (a, tiny)", tiny=np.asarray([1, 1, 1, 1, 1, 1, 1, 1e-9], np.float32)))
    assert stored(result.model)["tiny"].dtype == np.float32


def test_clips_without_a_bound_are_no_island() -> None:
    """3.4e38 was "no bound" up to opset 10 and is written as one since: the end of fp16's range says the same."""
    result = convert(between_layers("b = Clip (a, zero, top)", zero=np.float32(0), top=np.float32(3.4028235e38)))
    assert not result.kept and not result.failed


def test_a_weight_read_in_both_types_is_stored_twice() -> None:
    model = with_weights(
        helpers.model("(float[N,8] x) => (float[N,8] y, float[8,8] s) { y = MatMul (x, w) s = Softmax (w) }"), w=W
    )
    result = convert(model)
    assert {n: a.dtype.name for n, a in stored(result.model).items()}.get("w~fp16") == "float16"
    assert not any(n.op_type == "Cast" and n.input[0] == "w" for n in result.model.graph.node)


def test_computed_constants_are_stored() -> None:
    """weight_norm: g * v / ||v|| of constants is not work for run time, and no cast of a weight either."""
    model = with_weights(
        helpers.model(
            "(float[N,8] x) => (float[N,8] y) { n = ReduceL2 <axes = [1]> (v) u = Div (v, n) k = Mul (u, g) y = MatMul "
            "(x, k) }"
        ),
        v=W,
        g=np.float32(2),
    )
    result = convert(model)
    assert [n.op_type for n in result.model.graph.node] == ["Cast", "MatMul", "Cast"]
    assert not result.failed


# ---- casts and types -------------------------------------------------------------------------------------------------


def test_inputs_and_outputs_can_become_fp16() -> None:
    result = convert(between_layers("b = Softmax (a)"), io_fp16=True)
    kinds = typed(result.model)
    assert kinds["x"] == kinds["y"] == HALF and result.casts == 2 and not result.failed


def test_casts_of_the_file_are_an_islands_borders() -> None:
    """fp16 with an fp32 island of the author's: it stays, and nothing is cast twice."""
    model = with_weights(
        helpers.model(
            "(float16[N,8] x) => (float16[N,8] y) { a = MatMul (x, w) u = Cast <to = 1> (a) s = Add (u, u) z = Cast "
            "<to = 10> (s) y = MatMul (z, w) }"
        ),
        w=W.astype(np.float16),
    )
    result = convert(model, verify=False)
    assert type_of(result.model, "Add") == [SINGLE] and casts(result.model) == 2


def test_a_norm_written_in_fp16_becomes_an_island() -> None:
    model = with_weights(
        helpers.model(
            "(float16[N,8] x) => (float16[N,8] y) { n = ReduceL2 <axes = [1]> (x) f = Clip (n, eps) y = Div (x, f) }"
        ),
        eps=np.float16(0),
    )
    result = convert(model)
    assert type_of(result.model, "ReduceL2") == [SINGLE] and not result.failed
    assert any("epsilon is 0" in w for w in result.warnings)
    repaired = convert(model, repair_eps=1e-12)
    (y,) = Runner(repaired.model).run({"x": np.zeros((2, 8), np.float16)})
    assert (y == 0).all() and any("is 1e-12 now" in w for w in repaired.warnings)


QUANTIZED = with_weights(
    helpers.model(
        "(float[N,8] x) => (float[N,8] y) { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) v = DequantizeLinear <axis=0> (wq, t, tz) u = Transpose (v) "
        "b = DequantizeLinear (bq, c) a = Gemm (d, u, b) e = Sigmoid (a) m = Mul (a, e) r = QuantizeLinear (m, s, z) w = DequantizeLinear (r, s, z) y = MatMul (w, u) }"
    ),
    s=np.float32(0.05), z=np.int8(0), wq=rng.integers(-99, 99, (8, 8)).astype(np.int8), t=rng.uniform(0.004, 0.006, 8).astype(np.float32),
    tz=np.zeros(8, np.int8), bq=rng.integers(-999, 999, 8).astype(np.int32), c=np.float32(2.5e-4),
)  # fmt: skip


def test_quantized_parts_are_left_alone_where_scales_are_fp32() -> None:
    model = with_weights(
        helpers.model(
            "(float[N,8] x) => (float[N,8] y) { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) v = DequantizeLinear (wq, s, z) a = MatMul (d, v) "
            "r = QuantizeLinear (a, s, z) u = DequantizeLinear (r, s, z) y = MatMul (u, w) }"
        ),
        s=np.float32(0.05), z=np.int8(0), wq=rng.integers(-99, 99, (8, 8)).astype(np.int8), w=W,
    )  # fmt: skip
    result = convert(model, verify=False, target="8.4")  # which reads no opset above 17
    assert casts(result.model) == 0
    assert type_of(result.model, "MatMul") == [SINGLE, SINGLE]


def test_quantized_parts_compute_in_half_precision() -> None:
    """From opset 19 on. Weights stay integers, a bias of int32 becomes a number of the type, and no cast is needed."""
    result = surgeon.rewrite(QUANTIZED, target="rtx", fp16=True)
    assert result.precision is not None and not result.precision.failed and onnx_opset(result.model) == 19
    weights = stored(result.model)
    assert weights["wq"].dtype == np.int8 and weights["t"].dtype == np.float16
    assert [name for name, array in weights.items() if array.dtype == np.float32] == ["s"]  # of the input's quantizer
    assert set(type_of(result.model, "DequantizeLinear")) == set(type_of(result.model, "Gemm")) == {HALF}
    assert casts(result.model) == 1  # of the output
    assert any("without their steps" in text for text in result.precision.inputs)
    again = surgeon.rewrite(result.model, target="rtx", fp16=True)
    assert again.model.SerializeToString() == result.model.SerializeToString()


def test_scales_that_fp16_does_not_hold_stay_fp32() -> None:
    """A scale of 0 would divide by it, and one of 2e36, of a mask of -3.4e38, would be inf."""
    for scale in (1e-9, 2e36):
        model = with_weights(
            helpers.model(
                "(float[N,8] x) => (float[N,8] y) { a = MatMul (x, w) q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z) y = MatMul (d, w) }", opset=19
            ),
            s=np.float32(scale), z=np.int8(0), w=W,
        )  # fmt: skip
        result = convert(model, verify=False)
        assert type_of(result.model, "DequantizeLinear") == [SINGLE]
        assert type_of(result.model, "MatMul")[0] == HALF
        assert any(f"its constant {scale:g}" in k.why for k in result.kept)


def test_an_error_is_measured_without_the_steps_of_quantizers() -> None:
    """0.5 steps more or less is no error of half precision; what is cut off at another number is one."""
    text = "(float[N,8] x) => (float[N,8] y) { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) y = Mul (d, k) }"
    model = with_weights(helpers.model(text), s=np.float32(0.5), z=np.int8(3), k=np.float32(1))
    smooth = without_steps(model)
    x = rng.uniform(-80, 80, (4, 8)).astype(np.float32)
    (stepped,), (y,) = Runner(model).run({"x": x}), Runner(smooth).run({"x": x})
    assert (y == np.clip(x, -65.5, 62)).all() and 0 < np.abs(stepped - y).max() <= 0.25
    weight = with_weights(helpers.model(text.replace("(x, s", "(k, s")), s=np.float32(0.5), z=np.int8(3), k=W)
    assert without_steps(weight) is weight


def test_resize_keeps_its_scales() -> None:
    model = with_weights(
        helpers.model("(float[1,2,4,4] x) => (float[1,2,8,8] y) { c = Conv (x, k) y = Resize <mode = \"linear\"> (c, , scales) }"),
        k=rng.standard_normal((2, 2, 1, 1)).astype(np.float32), scales=np.asarray([1, 1, 2, 2], np.float32),
    )  # fmt: skip
    result = convert(model)
    assert (
        stored(result.model)["scales"].dtype == np.float32
        and stored(result.model)["k"].dtype == np.float16
        and not result.failed
    )


BODIES = """(float[N,8] x, bool c) => (float[N,8] y) {
    a = MatMul (x, w)
    b = If (c) <then_branch = t () => (float[N,8] p) { m = MatMul (a, w) p = Softmax (m) }, else_branch = e () => (float[N,8] q) { q = MatMul (a, w) }>
    y = MatMul (b, w)
}"""


def test_bodies_convert_and_keep_their_interface() -> None:
    result = convert(with_weights(helpers.model(BODIES), w=W))
    onnx.checker.check_model(result.model, full_check=True)
    (branch,) = [n for n in result.model.graph.node if n.op_type == "If"]
    assert all(o.type.tensor_type.elem_type == SINGLE for a in branch.attribute for o in a.g.output)
    inner = [n for n in nodes_of(result.model) if n.op_type == "MatMul"]
    assert len(inner) == 4 and stored(result.model).keys() == {"w"} and stored(result.model)["w"].dtype == np.float16
    assert result.errors and not result.failed


def test_loops_carry_fp32() -> None:
    text = """(int64 n, bool c, float[4,8] x) => (float[4,8] y) {
        y = Loop (n, c, x) <body = b (int64 i, bool go, float[4,8] s) => (bool on, float[4,8] r) { on = Identity (go) m = MatMul (s, w) r = Tanh (m) }>
    }"""
    result = convert(with_weights(helpers.model(text), w=W))
    Runner(result.model)
    assert stored(result.model)["w"].dtype == np.float16
    assert Counter(n.op_type for n in nodes_of(result.model))["Cast"] >= 1


def test_sequences_keep_their_types() -> None:
    text = (
        "(float[N,8] x) => (float[M,8] y) { a = MatMul (x, w) s = SequenceConstruct (a, x) c = ConcatFromSequence "
        "<axis = 0> (s) y = MatMul (c, w) }"
    )
    result = convert(with_weights(helpers.model(text), w=W))
    onnx.checker.check_model(result.model, full_check=True)
    assert stored(result.model)["w"].dtype == np.float16 and not result.failed and result.errors


def test_functions_are_spelled_out() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[N,8] x) => (float[N,8] y) { a = own.twice (x) y = MatMul (a, w) }
        <opset_import: ["" : 17], domain: "own"> twice (u) => (v) { v = Add (u, u) }"""
    result = convert(with_weights(onnx.parser.parse_model(text), w=W))
    assert not result.model.functions and type_of(result.model, "Add") == [HALF] and not result.failed


def test_old_files_with_weights_among_the_inputs() -> None:
    model = helpers.model("(float[N,8] x, float[8,8] w) => (float[N,8] y) { y = MatMul (x, w) }", opset=9, ir=3)
    result = convert(with_weights(model, w=W))
    onnx.checker.check_model(result.model, full_check=True)
    assert [i.name for i in result.model.graph.input] == ["x"] and stored(result.model)["w"].dtype == np.float16


def test_a_default_that_a_caller_may_replace_stays_an_input() -> None:
    model = with_weights(helpers.model("(float[N,8] x, float[8,8] w) => (float[N,8] y) { y = MatMul (x, w) }"), w=W)
    result = convert(model, verify=False)
    onnx.checker.check_model(result.model, full_check=True)
    assert stored(result.model)["w"].dtype == np.float32 and casts(result.model) == 3


def test_an_output_that_is_an_input_or_a_weight() -> None:
    model = with_weights(
        helpers.model(
            "(float[N,8] x) => (float[N,8] y, float[N,8] x2, float[8,8] w) { x2 = Identity (x) y = MatMul (x, w) }"
        ),
        w=W,
    )
    result = convert(model)
    assert typed(result.model)["w"] == SINGLE and not result.failed


def test_an_output_behind_a_cast_of_the_file() -> None:
    model = with_weights(
        helpers.model(
            "(float[N,8] x) => (float16[N,8] y, float[N,8] z) { a = MatMul (x, w) y = Cast <to = 10> (a) z = Cast <to "
            "= 1> (y) }"
        ),
        w=W,
    )
    result = convert(model)
    kinds = typed(result.model)
    assert kinds["y"] == HALF and kinds["z"] == SINGLE and not result.failed


def test_weights_on_disk(tmp_path: Path) -> None:
    model = between_layers("b = Softmax (a)")
    onnx.save_model(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    loaded = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    result = convert(loaded, base=tmp_path)
    assert result.errors and not result.failed
    result.save(tmp_path / "half.onnx")
    assert numpy_helper.to_array(onnx.load(tmp_path / "half.onnx").graph.initializer[0]).dtype == np.float16


def test_the_model_passed_in_is_not_changed() -> None:
    model = between_layers("b = Softmax (a)")
    before = model.SerializeToString()
    convert(model)
    assert model.SerializeToString() == before


# ---- what the user says ----------------------------------------------------------------------------------------------


def test_keep_by_operator_node_and_pass() -> None:
    model = between_layers("b = Relu (a)")
    assert type_of(convert(model, keep_fp32=["Relu"]).model, "Relu") == [SINGLE]
    model.graph.node[1].name = "head/relu"
    assert type_of(convert(model, keep_fp32=["head/*"]).model, "Relu") == [SINGLE]
    model.graph.node[1].name = "b~leaky-relu/Relu_1"
    assert type_of(convert(model, keep_fp32=["leaky-relu"]).model, "Relu") == [SINGLE]


@pytest.mark.parametrize("target", ["10.3", "10.7"])
def test_plugin_nodes_are_islands_and_keep_their_meaning(target: str) -> None:
    """A file for 10.3 has no functions, in which the comparison needs them all the same."""
    inner = "n = ReduceL2 <axes = [1]> (a) f = Clip (n, eps) b = Div (a, f)"
    rewritten = surgeon.rewrite(
        between_layers(inner, eps=np.float32(1e-12)), target=target, plugins=["surgeon"], strategy={"l2-norm": "plugin"}
    ).model
    assert "SurgeonL2Norm" in {n.op_type for n in rewritten.graph.node} and bool(rewritten.functions) == (
        target == "10.7"
    )
    result = convert(rewritten)
    assert (
        [k.op for k in result.kept] == ["SurgeonL2Norm"]
        and result.casts == 4
        and bool(result.model.functions) == (target == "10.7")
    )
    assert result.errors and not result.failed


def test_a_word_that_names_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="'l2norm' is none of these"):
        convert(between_layers("b = Relu (a)"), keep_fp32=["l2norm"])


def test_data_adds_islands() -> None:
    """Weights that make large numbers: no rule sees them, the data does."""
    model = with_weights(
        helpers.model(
            "(float[N,8] x) => (float[N,8] y) { a = MatMul (x, big) b = Relu (a) c = MatMul (b, w) y = Tanh (c) }"
        ),
        big=W * 1e4,
        w=W,
    )
    feeds = [{"x": np.full((2, 8), 50, np.float32)}]
    blind, seen = convert(model, data=None), convert(model, data=feeds)
    assert not blind.kept
    assert any("reaches" in k.why for k in seen.kept)
    assert all(e.ok for e in seen.errors if e.inputs == "data"), seen.errors
    strict = rounded(blind.model)
    assert strict is not None and not np.allclose(
        Runner(strict).run(feeds[0])[0], Runner(model).run(feeds[0])[0], atol=0.01
    )


def test_data_takes_islands_away() -> None:
    model = between_layers("s = Mul (a, a) b = Exp (s)")
    small = [{"x": rng.uniform(0.5, 1, (4, 8)).astype(np.float32)}]
    assert {k.op for k in convert(model).kept} == {"Mul", "Exp", "MatMul"}, (
        "the MatMul after an Exp reads what has no bound"
    )
    assert not convert(
        with_weights(
            helpers.model(
                "(float[N,8] x) => (float[N,8] y) { a = MatMul (x, p) s = Mul (a, a) b = Exp (s) y = MatMul (b, p) }"
            ),
            p=np.abs(W) * 0.1 + 0.02,
        ),
        data=small,
    ).kept


def test_data_from_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((2, 8), np.float32))
    (tmp_path / "loader.py").write_text(
        "import numpy as np\n\ndef load_data():\n    for n in (1, 2):\n        yield {'x': np.full((n, 8), n, "
        "np.float32)}\n"
    )
    assert [f["x"].shape for f in load_data(tmp_path / "x.npz")] == [(2, 8)]
    assert [f["x"].shape for f in load_data(tmp_path / "loader.py")] == [(1, 8), (2, 8)]
    with pytest.raises(UsageError, match="neither"):
        (tmp_path / "x.txt").write_text("")
        load_data(tmp_path / "x.txt")
    with pytest.raises(UsageError, match="no such input"):
        convert(between_layers("b = Relu (a)"), data=[{"xx": np.ones((2, 8), np.float32)}])


def test_an_error_above_the_tolerance_is_refused() -> None:
    """A difference of large numbers: no product can be in half precision, and the sentence names them."""
    model = with_weights(
        helpers.model("(float[N,8] x) => (float[N,8] y) { a = MatMul (x, big) b = MatMul (x, near) y = Sub (a, b) }"),
        big=W * 100 + 50,
        near=(W * 100 + 50) * np.float32(1.0001),
    )
    result = convert(model)
    assert result.failed and result.withheld and result.errors[0].output == "y" and result.errors[0].relative > 0.01
    assert "'y' is off by" in result.warnings[-1] and "2 nodes from" in result.warnings[-1]
    assert result.to_json()["outputs"][0]["ok"] is False
    assert not convert(model, tolerance=10.0).failed
    assert not convert(model, allow_inexact=True).withheld


def test_a_search_finds_what_stays_fp32() -> None:
    """One part of several needs fp32: the search finds it, and the rest is converted."""
    parts = " ".join(f"a{k} = MatMul (r{k}, w) r{k + 1} = Relu (a{k})" for k in range(6))
    model = with_weights(
        helpers.model(
            f"(float[N,8] r0) => (float[N,8] y) {{ {parts} b = MatMul (r6, big) c = MatMul (r6, near) y = Sub (b, c) }}"
        ),
        w=np.abs(W),
        big=W * 100 + 50,
        near=(W * 100 + 50) * np.float32(1.002),
    )
    result = convert(model, tolerance=0.05)
    assert not result.failed and result.measured > 1
    assert type_of(result.model, "MatMul").count(HALF) >= 4
    assert {"MatMul", "Sub"} <= {k.op for k in result.kept}
    assert any("above the tolerance" in k.why for k in result.kept)


OLD_OPSET = with_weights(
    helpers.model("(float[2,8] x) => (float[2,8] y) { a = MatMul (x, w) y = MatMul (a, w) }", opset=8), w=W
)
TOO_LARGE = helpers.model("(float[N,70000000] x) => (float[N,70000000] y) { y = Relu (x) }")
NO_SIZES = helpers.model("(float[N,8] x) => (float[8,N] y) { y = Reshape (x, s) }")
NO_SIZES.graph.initializer.append(numpy_helper.from_array(np.asarray([8, 70001], np.int64), "s"))


@pytest.mark.parametrize(
    ("model", "why"), [(OLD_OPSET, "older than 9"), (TOO_LARGE, "more than 67108864 elements"), (NO_SIZES, "Reshape")]
)
def test_what_cannot_be_compared_is_a_failure(model: ModelProto, why: str) -> None:
    """Unless somebody said that it need not be."""
    result = convert(model)
    assert result.failed and result.worst is None and why in result.not_compared
    for words in ({"allow_unproved": True}, {"verify": False}):
        assert not convert(model, **words).failed


def test_data_alone_is_a_comparison() -> None:
    """The model runs with these sizes, and with none that surgeon tries."""
    feeds = {"x": np.ones((70001, 8), np.float32)}
    result = convert(NO_SIZES, data=[feeds])
    assert [e.inputs for e in result.errors] == ["data"] and not result.failed and not result.not_compared


def test_the_comparison_looks_for_sizes_that_go_together() -> None:
    """As the proof does: exporters name the length of a sentence and that of its mask by two names."""
    result = convert(helpers.model("(float[N,M] x, float[K] z) => (float[N,M] y) { y = Add (x, z) }"))
    assert {e.inputs for e in result.errors} == {"guessed"} and not result.failed


def test_what_the_target_does_not_take_in_fp16_stays() -> None:
    """TensorRT 8.4 reads fp16 bounds of a Clip as fp32."""
    model = between_layers("b = Clip (a, lo, hi)", lo=np.float32(0), hi=np.float32(6))
    assert type_of(convert(model).model, "Clip") == [HALF]
    result = convert(model, target=Target.parse("8.4"))
    assert type_of(result.model, "Clip") == [SINGLE] and any(
        "does not support it in half precision" in k.why for k in result.kept
    )


def test_rewritten_and_converted_models_build_in_tensorrt_rtx(tmp_path: Path) -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    logger = trt.Logger(trt.Logger.ERROR)
    for name in (
        "l2_netvlad_full",
        "InstanceNorm2d_affine",
        "script_loop",
        "instancenorm_in_if",
        "LayerNorm",
        "fast_neural_style_block",
    ):
        file = next(r["file"] for r in INDEX if r["module"] == name)
        rewritten = surgeon.rewrite(onnx.load(CORPUS / file), target="rtx", verify="none").model
        onnx.save(convert(rewritten, verify=False).model, tmp_path / "m.onnx")
        builder = trt.Builder(logger)
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, logger)
        assert parser.parse_from_file(str(tmp_path / "m.onnx")), [
            parser.get_error(i).desc() for i in range(parser.num_errors)
        ]
        assert builder.build_serialized_network(network, builder.create_builder_config()) is not None, file


def test_a_model_that_ends_onnx_runtime_is_written_otherwise() -> None:
    """MatmulTransposeFusion of ONNX Runtime 1.32 ends the process over these two nodes in half precision."""
    from surgeon.precision.default_load import ends_process, make_loadable

    text = "(float16[A,4,8] x) => (float16[4,A,8] y) { t = Transpose <perm = [1, 0, 2]> (x)  y = MatMul (t, w) }"
    proto = helpers.model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.eye(8, dtype=np.float16) * 2, "w"))
    if not ends_process(proto):
        pytest.skip(f"ONNX Runtime {onnx_runtime().__version__} loads it")
    before = onnx.ModelProto()
    before.CopyFrom(proto)
    assert "MatmulTransposeFusion" in make_loadable(proto)
    assert helpers.ops(proto) == ["MatMul", "Transpose"] and not ends_process(proto)
    error, why = helpers.compare_models(before, proto)
    assert not why and error == 0


def test_an_identity_that_named_an_output_goes_with_the_name() -> None:
    """It would be left before the cast, and a second run would take it away."""
    text = "(float[N,8] x) => (float[N,8] y, float[N,8] z) { a = MatMul (x, w)  y = Identity (a)  z = MatMul (y, w) }"
    proto = surgeon.rewrite(with_weights(helpers.model(text), w=W), target="rtx").model
    first = convert(proto).model
    assert "Identity" in helpers.ops(proto) and "Identity" not in helpers.ops(first)
    assert not surgeon.rewrite(first, target="rtx").report.applied
    onnx.checker.check_model(first, full_check=True)
