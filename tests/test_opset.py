"""What is written for a parser that reads an older opset: nothing in it that the parser would silently misread.

ONNX Runtime reads such a model right, so no comparison of outputs can see the mistake: these tests read the models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import model, one_a_spelling, require_opset
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

import surgeon
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.feeds import feeds_of
from surgeon.targets.target import Target

CORPUS = Path(__file__).parent / "corpus"
INDEX = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
FILES = [row["file"] for row in INDEX]
SPELLINGS = [row["file"] for row in one_a_spelling(INDEX)]
OLD = ("7.2", "8.2", "8.4", "9.3")


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def opset(proto: ModelProto) -> int:
    return next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx"))


def misread(proto: ModelProto) -> list[str]:
    """The constructs of trt-support 1b that a parser up to 9.3 reads without a warning and with another meaning."""
    found = []
    for node in nodes(proto.graph):
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [i for i in node.input if i]
        if node.op_type.startswith("Reduce") and node.op_type != "ReduceSum" and len(inputs) > 1:
            found.append(f"{node.op_type} with axes as an input")
        if node.op_type.startswith("Reduce") and attrs.get("noop_with_empty_axes") and len(inputs) == 1:
            found.append(f"{node.op_type} over nothing")
        if node.op_type == "Shape" and attrs:
            found.append("Shape of a part")
        if node.op_type == "Pad" and len(node.input) > 3:
            found.append("Pad with axes")
        if node.op_type.startswith("Scatter") and attrs.get("reduction", b"none") != b"none":
            found.append("Scatter with a reduction")
        if node.op_type == "GridSample" and attrs.get("mode") in (b"linear", b"cubic"):
            found.append("GridSample by its new mode names")
        if node.op_type == "Resize" and {"antialias", "keep_aspect_ratio_policy", "axes"} & set(attrs):
            found.append("Resize of opset 18")
        if node.op_type in ("LSTM", "GRU", "RNN") and attrs.get("layout"):
            found.append("layout 1")
        if node.op_type == "Split" and "num_outputs" in attrs:
            found.append("Split with num_outputs")
    return found


# Each spelling for 8.4 and for one other target; the long test has all files for each.
SOME = {"8.4": SPELLINGS} | {t: SPELLINGS[k::3] for k, t in enumerate(t for t in OLD if t != "8.4")}


@pytest.mark.parametrize(
    ("target", "files"),
    [(t, SOME[t]) for t in OLD] + [pytest.param(t, FILES, marks=pytest.mark.long) for t in OLD],
    ids=[f"{t}-{files}" for files in ("spellings", "all") for t in OLD],
)
def test_no_written_model_holds_what_the_parser_misreads(target: str, files: list[str]) -> None:
    ceiling = Target.parse(target).opset
    above, wrong = [], []
    for file in files:
        result = surgeon.rewrite(CORPUS / file, target=target, verify="none")
        if opset(result.model) > ceiling:
            above.append(file)
        wrong += [f"{file}: {what}" for what in misread(result.model)]
    assert not wrong
    assert not above


def test_the_reader_of_models_sees_the_mistake() -> None:
    """The test above can fail: the corpus as it is holds what it looks for."""
    found = {what for file in FILES for what in misread(onnx.load(CORPUS / file))}
    assert {"ReduceL2 with axes as an input", "ReduceMean with axes as an input", "Shape of a part"} <= found


def test_a_newer_parser_gets_the_opset_of_the_file() -> None:
    proto = model("(float[2,3] x) => (float[2,1] y) <int64[1] axes = {1}> { y = ReduceMean (x, axes) }", 18)
    for target in ("10.0", "11.1", "rtx"):
        result = surgeon.rewrite(proto, target=target)
        assert not result.report.applied and opset(result.model) == 18


def test_what_cannot_come_down_keeps_everything_up_and_is_reported() -> None:
    proto = model(
        "(float[2,3,4] x, int64[1] later) => (float[A,B,C] y, float[2,1,4] z) <int64[1] axes = {1}>"
        " { y = ReduceMax (x, later) z = ReduceMean (x, axes) }",
        18,
    )
    result = surgeon.rewrite(proto, target="8.4")
    assert opset(result.model) == 18 and not result.report.applied
    assert any("opset stays at 18" in w and "computed at run time" in w for w in result.report.warnings)
    assert len(result.report.untaken) == 2 and result.report.failed


def test_a_skipped_node_keeps_everything_up() -> None:
    proto = model(
        "(float[2,3] x) => (float[2,1] y, float[1,3] z) <int64[1] a = {1}, int64[1] b = {0}> { y = ReduceMax (x, a)"
        " z = ReduceMin (x, b) }",
        18,
    )
    result = surgeon.rewrite(proto, target="8.4", skip=["opset:ReduceMax*"])
    assert opset(result.model) == 18 and not result.report.applied and result.report.failed


def test_a_type_that_the_older_opset_lacks_is_refused() -> None:
    proto = model("(int8[2,3] x) => (int8[2,3] y) { y = Add (x, x) }", 14)
    result = surgeon.rewrite(proto, target="8.2")
    assert opset(result.model) == 14
    assert any("its A is tensor(int8)" in d.why for d in result.report.declined)


def test_an_einsum_of_more_letters_than_there_are_lower_case_ones_is_refused() -> None:
    every = "abcdefghijklmnopqrstuvwxyz"
    sizes = ",".join("1" * 27)
    body = f'(float[{sizes}] x) => (float[{sizes}] y) {{ y = Einsum <equation = "{every}A->{every}A"> (x) }}'
    report = surgeon.rewrite(model(body), target="10.9").report
    assert not report.applied and any("capital letters are refused" in d.why for d in report.untaken)
    assert any("more than 26 letters" in d.why for d in report.declined)
    implicit = '(float[2,3] x) => (float[3,2] y) { y = Einsum <equation = "bA"> (x) }'
    report = surgeon.rewrite(model(implicit), target="10.9").report
    assert not report.applied and any("which it leaves out" in d.why for d in report.declined)


@pytest.mark.parametrize(
    ("body", "opset_of_file", "target"),
    [
        ("(float[2,3] x, float[2,3] z) => (bool[2,3] y) { y = GreaterOrEqual (x, z) }", 13, "6.0"),
        ("(float[2,3] x, float[2,3] z) => (bool[2,3] y) { y = LessOrEqual (x, z) }", 13, "6.0"),
        (
            "(bool[2,4,4] x) => (bool[2,1,4] y) <int64[1] a = {1}> { y = ReduceMax <noop_with_empty_axes = 1> (x, a) }",
            20,
            "8.4",
        ),
        ("(bfloat16[2,3,4] x) => (bfloat16[2,3,4] y) { y = Softmax <axis = 1> (x) }", 16, "7.2"),
        ("(bfloat16[2,4,4] x) => (bfloat16[2,4,4] y) { y = Dropout (x) }", 13, "7.2"),
    ],
)
def test_a_type_that_what_is_written_lacks_is_refused(body: str, opset_of_file: int, target: str) -> None:
    result = surgeon.rewrite(model(body, opset_of_file), target=target)
    assert opset(result.model) == opset_of_file
    assert any("takes no " in d.why for d in result.report.declined)


@pytest.mark.parametrize(
    "op", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceSum"]
)
def test_a_reduction_over_nothing_is_what_it_makes_of_each_number(op: str) -> None:
    proto = model(f"(float[2,3] x) => (float[2,3] y) {{ z = {op} <noop_with_empty_axes = 1> (x) y = Add (z, x) }}", 18)
    result = surgeon.rewrite(proto, target="8.4")
    assert not result.report.undone and opset(result.model) < 18
    x = np.abs(np.random.default_rng(0).normal(size=(2, 3))).astype(np.float32)
    first, second = (Runner(m).run({"x": x}) for m in (proto, result.model))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_layout_of_recurrent_layers_is_written_out_for_every_target() -> None:
    text = (
        "(float[2,5,3] x, float[2,1,4] h, float[2,1,4] c) => (float[2,5,1,4] y, float[2,1,4] yh, float[2,1,4] yc)"
        " <float[1,16,3] w, float[1,16,4] r> { y, yh, yc = LSTM <hidden_size = 4, layout = 1> (x, w, r, , , h, c) }"
    )
    proto = model(
        text.replace("<float[1,16,3] w, float[1,16,4] r>", "").replace(
            "float[2,1,4] c)", "float[2,1,4] c, float[1,16,3] w, float[1,16,4] r)", 1
        ),
        17,
    )
    dims = {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in proto.graph.input}
    try:
        Runner(proto).run(next(feeds_of([(name, TensorProto.FLOAT, shape) for name, shape in dims.items()]))[1])
    except Unrunnable as error:
        pytest.skip(f"neither ONNX Runtime nor onnx {onnx.__version__} runs this layout: {error}")
    for target in ("8.4", "10.9", "rtx"):
        result = surgeon.rewrite(proto, target=target)
        assert [a.pass_name for a in result.report.applied] == ["respell"]
        assert result.report.applied[0].max_error is not None and not result.report.untaken
        assert not misread(result.model)


def test_softmax_over_an_inner_axis_is_turned() -> None:
    proto = model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }", 13)
    result = surgeon.rewrite(proto, target="7.2")
    assert [n.op_type for n in result.model.graph.node] == ["Transpose", "Softmax", "Transpose"]
    assert opset(result.model) == 11 and result.report.applied[0].max_error is not None


def test_fused_and_lowered_windows_come_down_too() -> None:
    """A LayerNormalization that this target lacks is decomposed at the file's opset,
    and its Reduce comes down with it."""
    proto = model(
        "(float[2,3,8] x) => (float[2,3,8] y) <float[8] s = {1,2,3,4,5,6,7,8}> { y = LayerNormalization (x, s) }", 18
    )
    result = surgeon.rewrite(proto, target="8.4")
    assert opset(result.model) == 17 and not misread(result.model)
    assert [a.pass_name for a in result.report.applied] == ["layer-norm+opset"]
    assert result.report.applied[0].max_error is not None


SEQUENCES = {
    "(seq(float[N]) s) => (seq(float[N]) y) { y = Identity (s) }": 21,
    "(float[N] x) => (seq(float[N]) y) { s = SequenceConstruct (x, x)  y = Identity (s) }": 21,
    "(optional(float[N]) s) => (optional(float[N]) y) { y = Identity (s) }": 21,
}


@pytest.mark.parametrize("body", SEQUENCES)
def test_a_sequence_is_no_tensor_of_a_type_that_is_not_known(body: str) -> None:
    """Identity takes tensors alone at opset 13."""
    result = surgeon.rewrite(model(body, opset=SEQUENCES[body], ir=10), target="8.2")
    assert opset(result.model) == SEQUENCES[body] and "cannot be written at opset" in result.report.warnings[0]


def test_a_sequence_comes_down_where_the_older_operator_takes_it() -> None:
    body = """(float[N] x, bool c) => (seq(float[N]) y) {
        y = If (c) <then_branch = t () => (seq(float[N]) p) { p = SequenceConstruct (x) },
                    else_branch = e () => (seq(float[N]) q) { q = SequenceConstruct (x, x) }>
    }"""
    assert opset(surgeon.rewrite(model(body, opset=16, ir=8), target="8.2").model) == 13


def test_a_value_that_no_attribute_holds_stays_an_input() -> None:
    body = "(double[N] x) => (double[M] y) <double low = {-1e300}, int64[2] p = {1, 1}> { y = Pad (x, p, low) }"
    result = surgeon.rewrite(model(body, opset=12, ir=7), target="6.0")
    assert opset(result.model) == 12 and any("does not fit into an attribute" in w for w in result.report.warnings)


def test_a_remainder_of_floats_with_the_sign_of_the_divisor_is_refused() -> None:
    require_opset(28)
    result = surgeon.rewrite(
        model("(float[N] x, float[N] d) => (float[N] y) { y = Mod (x, d) }", opset=28), target="8.4"
    )
    assert opset(result.model) == 28 and "fmod = 0 of floating-point numbers" in result.report.warnings[0]


CALL = """<ir_version: 9, opset_import: ["" : %d, "l" : 1]> g (float[N,4] x) => (float[N,4] y) { %s y = l.F (t) }
<domain: "l", opset_import: ["" : %d]> F (a) => (b) { %s }"""
INPUT = "i = Constant <value_ints = [1]> () c = ReduceSum (a, i)"


@pytest.mark.parametrize(
    ("opset", "first", "inner", "body", "written"),
    [
        (18, "t = Abs (x)", 13, "b = Neg (a)", ["Abs", "Neg"]),
        (18, "t = Abs (x)", 13, "c = ReduceMax <axes = [1]> (a) b = Add (a, c)", ["Abs", "ReduceMax", "Add"]),
        (12, "t = Abs (x)", 17, f"{INPUT} b = Add (a, c)", ["Abs", "ReduceSum", "Add"]),
        (12, "c = ReduceSum <axes = [1]> (x) t = Add (x, c)", 17, f"{INPUT} b = Add (a, c)", ["ReduceSum", "Add", "F"]),
    ],
)  # fmt: skip
def test_a_function_of_another_opset_goes_where_that_means_the_same(
    opset: int, first: str, inner: int, body: str, written: list[str]
) -> None:
    result = surgeon.rewrite(onnx.parser.parse_model(CALL % (opset, first, inner, body)), target="8.4")
    assert [n.op_type for n in result.model.graph.node] == written
    assert result.report.failed is ("F" in written)
    if "F" in written:
        why = (
            "declares opset 17 of ONNX's operators, the model 12, and ReduceSum is another operator there: export both "
            "at opset 17"
        )
        assert any(d.why.endswith(why) for d in result.report.declined)


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", [7, 8, 9, 12])
def test_a_pooling_that_leaves_out_part_of_its_input_runs_at_the_older_opset(size: int, pad: str) -> None:
    proto = model(
        f"""(float[1,1,{size},9] x) => (float[1,1,A,B] y) {{
            y = AveragePool <kernel_shape = [2, 2], strides = [3, 3], auto_pad = "{pad}"> (x)
        }}""",
        opset=19,
        ir=9,
    )
    result = surgeon.rewrite(proto, target="8.4")
    refused = (size, pad) == (7, "SAME_LOWER")  # padding before alone, which 8.4 refuses of an AveragePool
    assert opset(result.model) == 17 and result.report.failed == refused
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 1, size, 9)).astype(np.float32)}
    np.testing.assert_array_equal(Runner(result.model).run(feeds)[0], Runner(proto).run(feeds)[0])
