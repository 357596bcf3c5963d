"""--allow-narrowing: types that a target lacks, stored in those that it has, and what that changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import prepare
from onnx import TensorProto, parser

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError
from surgeon.ir.run import Runner

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '
LINEAR = (
    HEAD
    + """g (double[N,2] x) => (double[N,2] y) <double[2,2] w = {0.1, 0.2, 0.3, 0.4}> {
    a = MatMul (x, w)
    y = Relu (a)
}"""
)
INSIDE = (
    HEAD
    + """g (float[N,2] x) => (float[N,2] y) <double k = {0.1}> {
    a = Cast <to = 11> (x)
    b = Mul (a, k)
    y = Cast <to = 1> (b)
}"""
)
RANKS = (
    HEAD
    + """g (double[N,5] x) => (int64[N,2] i) <int64[1] k = {2}> {
    p = Softmax <axis = -1> (x)
    v, i = TopK (p, k)
}"""
)
RECURRENT = (  # ONNX Runtime loads it, and has no kernel for it
    HEAD
    + """g (double[4,N,1] x) => (double[4,1,N,1] y) <double[1,3,1] w = {0.1, 0.2, 0.3}, double[1,3,1] r = {1, 2, 3}> {
    y = GRU <hidden_size = 1> (x, w, r)
}"""
)
IN_A_BRANCH = (
    HEAD
    + """g (double[2] x, bool c) => (double[2] y) {
    y = If (c) <
        then_branch = t () => (double[2] r) { k = Constant <value = double {0.1}> () r = Add (x, k) },
        else_branch = e () => (double[2] s) { s = Neg (x) }
    >
}"""
)
LOWEST = (
    HEAD
    + """g (double[2] x, bool[2] m) => (double[2] y) <double k = {-1.7976931348623157e308}> {
    w = Where (m, x, k)
    y = Softmax (w)
}"""
)
CANCELLING = (
    HEAD
    + """g (double[N,2] x) => (double[N,2] y) <double k = {1e9}> {
    a = Add (x, k)
    y = Sub (a, k)
}"""
)
REMAINDER = HEAD + "g (double[N,2] x) => (double[N,2] y) <double k = {3}> { y = Mod <fmod = 1> (x, k) }"
SOUND = (
    HEAD
    + """g (int16[N] x) => (float[N] y) <float k = {32768}> {
    a = Cast <to = 1> (x)
    y = Div (a, k)
}"""
)
MASK = HEAD + "g (float[N,4] x) => (uint16[N] y) { a = ArgMax <axis = 1, keepdims = 0> (x) y = Cast <to = 4> (a) }"
WRAPPED = (
    HEAD
    + 'g (uint32[3] x) => (uint32[3] y) <uint32 k = {3}> { a = BitShift <direction = "LEFT"> (x, k) y = Identity (a) }'
)
COUNT = HEAD + "g (uint64[3] x) => (uint64[3] y) <uint64 k = {3}> { y = Mul (x, k) }"


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(text)


def narrowed(text: str, target: str = "rtx") -> surgeon.Result:
    result = surgeon.rewrite(parsed(text), target=target, allow_narrowing=True)
    onnx.checker.check_model(result.model, full_check=True)
    return result


def types(infos: object) -> list[int]:
    return [info.type.tensor_type.elem_type for info in infos]  # type: ignore[attr-defined]


def carried(result: surgeon.Result) -> float:
    """The measured difference."""
    (record,) = [a for a in result.report.applied if a.pass_name == "allow-narrowing"]
    assert record.max_error is not None
    return record.max_error


@pytest.mark.parametrize("text", [LINEAR, RECURRENT, IN_A_BRANCH], ids=["linear", "recurrent", "branch"])
def test_float64_becomes_fp32(text: str) -> None:
    result = narrowed(text)
    graph = result.model.graph
    assert TensorProto.DOUBLE not in types((*graph.input, *graph.output)) + [t.data_type for t in graph.initializer]
    assert 0 < carried(result) < 1e-6
    (told,) = result.report.warnings
    assert told.startswith("float64 is stored in fp32; on random inputs the outputs differ by up to ")


def test_float64_inside_becomes_fp32() -> None:
    result = narrowed(INSIDE)
    assert 0 < carried(result) < 1e-6
    assert [n.op_type for n in result.model.graph.node] == ["Mul", "Cast"]


def test_the_lowest_number_stays_a_number() -> None:
    """An inf in a row of them would make NaN of a Softmax."""
    model = narrowed(LOWEST).model
    feeds = {"x": np.ones(2, np.float32), "m": np.zeros(2, bool)}
    assert Runner(model).run(feeds)[0].tolist() == [0.5, 0.5]


def test_what_rounding_explains_is_said_with_the_number() -> None:
    """The remainder of 1e3 moves by as much as 1e3 is rounded."""
    assert 1e-5 < carried(narrowed(REMAINDER)) < 1e-3


def test_ranks_of_what_fp32_cannot_tell_apart_are_told() -> None:
    (told,) = narrowed(RANKS).report.warnings
    assert told.endswith("of the output 'i' on large inputs integers differ")


def test_what_rounding_does_not_explain_is_refused() -> None:
    with pytest.raises(ModelError, match="other types change the output 'y' on random inputs by more than their"):
        narrowed(CANCELLING)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (SOUND, TensorProto.INT16, TensorProto.INT32),
        (MASK, TensorProto.UINT16, TensorProto.INT32),
        (WRAPPED, TensorProto.UINT32, TensorProto.INT64),
        (COUNT, TensorProto.UINT64, TensorProto.INT64),
    ],
    ids=["int16", "uint16", "uint32", "uint64"],
)
def test_integers_are_carried_in_wider_ones(text: str, before: int, after: int) -> None:
    plain = surgeon.rewrite(parsed(text), target="rtx")
    assert plain.report.untaken and not any(a.pass_name == "allow-narrowing" for a in plain.report.applied)
    result = narrowed(text)
    graph = result.model.graph
    found = types((*graph.input, *graph.output))
    assert not result.report.untaken and after in found and before not in found
    assert carried(result) == 0 and "on random inputs the outputs are the same" in result.report.warnings[0]


def test_a_wrapped_number_wraps() -> None:
    given = np.array([1, 2**29, 2**32 - 1])
    expected = Runner(parsed(WRAPPED)).run({"x": given.astype(np.uint32)})[0]
    assert Runner(narrowed(WRAPPED).model).run({"x": given})[0].tolist() == expected.tolist()


@pytest.mark.parametrize("by", ["<uint64 n = {3}>", ""], ids=["known", "computed"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_uint64_are_products_and_quotients(by: str, direction: str) -> None:
    text = f"g (uint64[3] x{'' if by else ', uint64[3] n'}) => (uint64[3] y) {by} "
    result = narrowed(HEAD + text + f'{{ y = BitShift <direction = "{direction}"> (x, n) }}')
    feeds = {"x": np.asarray([1, 40, 2**33], np.int64)} | ({} if by else {"n": np.asarray([3, 3, 3], np.int64)})
    wanted = feeds["x"] * 8 if direction == "LEFT" else feeds["x"] // 8
    np.testing.assert_array_equal(Runner(result.model).run(feeds)[0], wanted)


def test_a_shift_by_a_constant_node_is_a_product_by_a_constant() -> None:
    text = "g (uint64[3] x) => (uint64[3] y) { n = Constant <value = uint64 {3}> () "
    text += 'y = BitShift <direction = "LEFT"> (x, n) }'
    made = prepare("narrowing", parsed(HEAD + text), allow_narrowing=True, target="10.9").model
    assert [n.op_type for n in made.graph.node] == ["Constant", "Mul"]


def test_uint8_is_an_input_from_8_5_on() -> None:
    text = HEAD + "g (uint8[N] x) => (float[N] y) { y = Cast <to = 1> (x) }"
    assert types(narrowed(text, "8.4").model.graph.input) == [TensorProto.INT32]
    assert types(narrowed(text, "8.5").model.graph.input) == [TensorProto.UINT8]


def test_without_a_proof_nothing_is_measured() -> None:
    report = surgeon.rewrite(parsed(CANCELLING), target="rtx", allow_narrowing=True, verify="none").report
    assert report.warnings == ["float64 is stored in fp32; what that changes was not measured"]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (LINEAR, 0, "it has float64, which TensorRT reads as fp32: --allow-narrowing"),
        (SOUND, 3, "there is no int16; advice: --allow-narrowing converts its types to supported ones"),
    ],
    ids=["float64", "int16"],
)
def test_without_the_option_the_option_is_named(
    text: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.onnx", str(tmp_path / "out.onnx")
    onnx.save(parsed(text), source)
    assert main(["rewrite", str(source), out, "--target", "rtx"]) == status
    assert said in capsys.readouterr().out
    assert main(["rewrite", str(source), out, "--target", "rtx", "--allow-narrowing"]) == 0
    assert "applied  allow-narrowing" in capsys.readouterr().out


# ---- weights as bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", [TensorProto.UINT8, TensorProto.INT4, TensorProto.FLOAT4E2M1])
def test_weights_in_numbers_of_32_bits_become_bytes_for_rtx(elem: int) -> None:
    """`onnx.helper.make_tensor` writes them so, and TensorRT-RTX misreads or refuses that."""
    kind = TensorProto.DataType.Name(elem).lower()
    given = onnx.helper.make_model(
        onnx.helper.make_graph(
            [
                onnx.helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
                onnx.helper.make_node("MatMul", ["x", "d"], ["y"]),
            ],
            "g",
            [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
            [onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])],
            [
                onnx.helper.make_tensor("w", elem, [2, 2], [1, 2, 0, 3]),
                onnx.helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]),
            ],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 23)],
        ir_version=11,
    )
    result = surgeon.rewrite(given, target="rtx")
    assert not result.report.untaken
    assert not any(t.int32_data for t in result.model.graph.initializer)
    told = next(a for a in result.report.applied if a.pass_name == "raw-weights").change.nodes_after[0].text
    assert told == f"w: {kind}[2,2] in raw_data"
    held = {t.name: t for t in result.model.graph.initializer}
    if "w" in held:
        before = onnx.numpy_helper.to_array(given.graph.initializer[0])
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(held["w"]), before)
    assert "raw-weights" not in [a.pass_name for a in surgeon.rewrite(given, target="10.9").report.applied]
