"""What ONNX Runtime's own operators are said to compute, in NumPy, held against its kernels where it has them."""

from __future__ import annotations

import platform
from dataclasses import replace

import casefile
import numpy as np
import onnx
import pytest
from onnx import helper

import surgeon
from surgeon.ir import contrib
from surgeon.ir.definitions import DEFINED, DEFINITIONS
from surgeon.ir.model import Model
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.feeds import feeds_of
from surgeon.proof.integer_roles import plain_integers
from surgeon.proof.whole import whole_pair

CASES = sorted((casefile.HERE / "contrib").glob("*.onnxtxt"))
NO_KERNEL = {  # on the CPU; of half precision and of packed inputs neither
    "bias_softmax", "bias_softmax_in_12", "graphics_cards", "group_norm", "multi_head_packed",
    "multi_head_packed_pairs", "nhwc_conv", "nhwc_fused_conv", "quantized_mean", "skip_group_norm",
}  # fmt: skip
# The kernel computes in fp32: it shows where a sample has no key to see.
OF_HALVES = {"attention_of_unnamed_sizes"}
# Sizes of two names that go together.
APART = {"attention_ends_or_starts", "attention_ends_or_starts_in_half", "skip_layer_norm_of_unnamed_sizes"}
# A sample is no longer than the table of positions; a mask is that of all keys, or has one column.
FIXED = {"embedding": {"S": 7}, "rotary": {"S": 7}, "attention_mask_of_another_name": {"M": 1}}
ONE_STEP = 1  # ONNX Runtime's kernels of quantized numbers round some halves another way
# It rounds the other factor to eight bits, relative to the largest output; scores in half precision are rounded.
ROUNDED = {"n_bits_rounded": 0.02, "attention_mask_of_halves": 0.01}


def _defined(model: onnx.ModelProto) -> bool:
    """Move all nodes that have a definition to its domain; whether there are any."""
    found = [n for n in model.graph.node if n.domain == contrib.DOMAIN and n.op_type in DEFINITIONS]
    for node in found:
        node.domain = DEFINED
    model.opset_import.append(onnx.helper.make_opsetid(DEFINED, 1))
    return bool(found)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_definition_is_what_the_kernel_computes(path) -> None:
    case = casefile.load(path)
    defined = onnx.ModelProto()
    defined.CopyFrom(case.model)
    is_grouped = path.stem.startswith("grouped_attention")  # whose lengths go together: see below
    if case.expected is None or is_grouped or path.stem in NO_KERNEL | OF_HALVES | APART or not _defined(defined):
        pytest.skip("no kernel, or no definition")
    pair = replace(whole_pair(case.model, case.model), fixed=FIXED.get(path.stem, {}))
    kernel, definition = Runner(case.model), Runner(defined)
    compared = 0
    for sized in pair.sizes():
        _, feeds = next(feeds_of(sized, numbers=plain_integers(pair), below=2))
        expected, found = kernel.run(feeds), definition.run(feeds)
        for own, other in zip(found, expected, strict=True):
            compared += 1
            assert own.dtype == other.dtype
            assert own.shape == other.shape
            most = ROUNDED.get(path.stem, 2e-3 if own.dtype.itemsize == 2 else 1e-5) * max(np.abs(other).max(), 1e-6)
            gap = np.abs(own.astype(np.float64) - other.astype(np.float64)).max()
            assert gap <= (most if own.dtype.kind == "f" else ONE_STEP)
    assert compared


GROUPED = "num_heads = 4, kv_num_heads = 2"
LENGTHS = (  # new keys, room in the cache, keys of each sample; None where there is no cache
    (5, None, (5, 3)), (5, 0, (5, 3)), (5, 9, (5, 3)), (1, 6, (7, 4)), (1, 12, (7, 4)), (3, 6, (9,)),
)  # fmt: skip
MARKED = {  # what a node has beside queries, keys and values
    "": (),
    "do_rotary = 1": ("cos_cache", "sin_cache"),
    "do_rotary = 1, rotary_interleaved = 1": ("cos_cache", "sin_cache", "position_ids"),
    "causal = 0": (),
    "local_window_size = 3": (),
    "softcap = 2.0, scale = 0.5": ("attention_bias",),
    "smooth_softmax = 1": (),
    "smooth_softmax = 0": ("head_sink",),
}


@pytest.mark.parametrize("attributes", MARKED)
@pytest.mark.parametrize("count, room, lengths", LENGTHS)
def test_grouped_attention_is_what_the_kernel_computes(
    count: int, room: int | None, lengths: tuple[int, ...], attributes: str
) -> None:
    rng, batch, total = np.random.default_rng(0), len(lengths), max(lengths)
    shapes = {
        "query": (batch, count, 64), "key": (batch, count, 32), "value": (batch, count, 32),
        "past_key": (batch, 2, room, 16), "past_value": (batch, 2, room, 16), "seqlens_k": (), "total": (),
        "cos_cache": (32, 8), "sin_cache": (32, 8), "position_ids": (batch, count),
        "attention_bias": (1, 4, count, total), "head_sink": (4,),
    }  # fmt: skip
    optional = {*list(shapes)[7:]} - set(MARKED[attributes]) | ({"past_key", "past_value"} if room is None else set())
    feeds = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items() if n not in optional}
    feeds["seqlens_k"] = np.array(lengths, np.int32) - 1
    feeds["total"] = np.array(total, np.int32)
    if "position_ids" in feeds:
        feeds["position_ids"] = rng.integers(0, 32, shapes["position_ids"])
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("y", "u", "v")]
    node = onnx.parser.parse_node(
        f"y, u, v = com.microsoft.GroupQueryAttention <{', '.join(filter(None, (GROUPED, attributes)))}> (a)"
    )
    node.input[:] = [n if n in feeds else "" for n in shapes]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", infos, outputs), opset_imports=opsets, ir_version=8)
    kernel = Runner(model).run(feeds)
    result = surgeon.rewrite(model, target="rtx", verify="none").model
    assert not [n for n in result.graph.node if n.domain]
    _defined(model)
    for found in (Runner(model).run(feeds), Runner(result).run(feeds)):
        for sample, length in enumerate(lengths):
            valid = min(count, length)
            np.testing.assert_allclose(found[0][sample, :valid], kernel[0][sample, :valid], atol=1e-5)
            for own, other in zip(found[1:], kernel[1:], strict=True):
                np.testing.assert_allclose(own[sample, :, :length], other[sample, :, :length], atol=1e-5)


@pytest.mark.parametrize("dtype", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
def test_a_table_of_four_bits_is_unpacked(dtype: int) -> None:
    """ONNX's text holds none."""
    rng, low = np.random.default_rng(0), -8 if dtype == onnx.TensorProto.INT4 else 0
    tensors = [
        helper.make_tensor("w", dtype, (3, 32), rng.integers(low, low + 16, 96)),
        helper.make_tensor("z", dtype, (3, 2), rng.integers(low, low + 16, 6)),
        onnx.numpy_helper.from_array(rng.standard_normal((3, 2)).astype(np.float32), "s"),
    ]
    node = onnx.parser.parse_node("y = com.microsoft.GatherBlockQuantized <block_size = 16> (w, i, s, z)")
    info = [helper.make_tensor_value_info("i", onnx.TensorProto.INT32, ["N"])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 32])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "g", info, outputs, tensors), opset_imports=opsets, ir_version=10
    )
    feeds = {"i": np.array([0, -1, 2, 3, -4], np.int32)}
    result = surgeon.rewrite(model, target="rtx")
    assert [n.op_type for n in result.model.graph.node][-1] == "Gather"
    np.testing.assert_array_equal(Runner(result.model).run(feeds)[0], Runner(model).run(feeds)[0])


@pytest.mark.parametrize("name", sorted(NO_KERNEL))
def test_what_has_no_kernel_is_said_so(name: str) -> None:
    model = casefile.load(casefile.HERE / "contrib" / f"{name}.onnxtxt").model
    try:
        runner = Runner(model)
    except Unrunnable:
        return
    if runner.session is not None:
        sized = next(iter(whole_pair(model, model).sizes()))
        with pytest.raises(Unrunnable, match="not implemented"):
            runner.run(next(feeds_of(sized))[1])


def test_every_operator_has_a_schema_that_infers() -> None:
    for op in contrib.table():
        assert contrib.schema(op) is not None


def test_shapes_behind_the_operators_are_known() -> None:
    for path in CASES:
        case = casefile.load(path)
        if case.expected is None:
            continue
        model = Model(case.model)
        for out in (v for n in model.graph.live() for v in n.outputs if v is not None and v.is_output):
            assert model.dtype(out), f"{path.stem}: {out.name}"
            assert model.shape(out) is not None, f"{path.stem}: {out.name}"


@pytest.mark.parametrize("dtype", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
def test_weights_of_four_bits_are_dequantized(dtype: int) -> None:
    """As ONNX Runtime's quantizer writes them before opset 21."""
    rng, low = np.random.default_rng(0), -8 if dtype == onnx.TensorProto.INT4 else 0
    tensors = [
        helper.make_tensor("w", dtype, (4, 3), rng.integers(low, low + 16, 12)),
        helper.make_tensor("z", dtype, (3,), rng.integers(low, low + 16, 3)),
        onnx.numpy_helper.from_array(rng.standard_normal(3).astype(np.float32) ** 2, "s"),
    ]
    graph = onnx.parser.parse_graph(
        "g (float[N,4] x) => (float[N,3] y)"
        " { d = com.microsoft.DequantizeLinear <axis = 1> (w, s, z) y = MatMul (x, d) }"
    )
    graph.initializer.extend(tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    result = surgeon.rewrite(helper.make_model(graph, opset_imports=opsets, ir_version=10), target="rtx")
    assert not result.report.untaken
    assert not result.report.undone
    assert not [n for n in result.model.graph.node if n.domain]


SUMS = {  # operators whose kernels shift by the zero point before they round, and global means, which do not
    "QLinearAdd": "(a, s, z, c, s, w, t, w)",
    "QLinearMul": "(a, s, z, c, s, w, t, w)",
    "QLinearGlobalAveragePool": "(a, s, z, t, w)",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels of other processors round otherwise")
@pytest.mark.parametrize("op", SUMS)
def test_halves_are_rounded_as_the_kernel_rounds_them(op: str) -> None:
    """Scales that are multiples of each other make many halves, and the zero point is odd."""
    rng = np.random.default_rng(0)
    graph = onnx.parser.parse_graph(
        f"g (uint8[256,2,2,2] a, uint8[256,2,2,2] c) => (uint8[A,B,C,D] y) <float s = {{0.5}}, float t = {{1}},"
        f" uint8 z = {{4}}, uint8 w = {{7}}> {{ y = com.microsoft.{op} {SUMS[op]} }}"
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    feeds = {n: rng.integers(0, 40, (256, 2, 2, 2)).astype(np.uint8) for n in ("a", "c")}
    result = surgeon.rewrite(model, target="rtx")
    assert not result.report.undone
    assert not [n for n in result.model.graph.node if n.domain]
    np.testing.assert_array_equal(Runner(result.model).run(feeds)[0], Runner(model).run(feeds)[0])
