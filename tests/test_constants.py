"""Constants: which tensors are, and what they are."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import model

from surgeon.ir.model import Model
from surgeon.ir.run import Runner


def test_constants_are_computed_on_demand() -> None:
    indexed = Model(
        model("""(float[2,3] a) => (float[6] r) {
        s = Shape (a)
        k = Constant <value_ints = [0]> ()
        t = Gather (s, k)
        m = Constant <value_ints = [3]> ()
        n = Mul (t, m)
        r = Reshape (a, n)
    }""")
    )
    assert indexed.constant(indexed.graph.values["n"]).tolist() == [6]
    assert indexed.constant(indexed.graph.values["r"]) is None


# Chains that onnx's reference evaluator computes otherwise than ONNX Runtime: below opset 13 Softmax, LogSoftmax and
# Hardmax are over all dimensions from the axis on.
W = "<float[2,2,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, -1}, int64[2] s = {4, 4}>"
IMAGE = "float[1,1,4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, float[0] none = {}"


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (7, f"() => (float[4,4] k) {W} {{ p = Softmax (w)  k = Reshape (p, s) }}"),
        (12, f"() => (float[4,4] k) {W} {{ p = Softmax <axis = 0> (w)  k = Reshape (p, s) }}"),
        (12, f"() => (float[4,4] k) {W} {{ p = LogSoftmax (w)  k = Reshape (p, s) }}"),
        (12, f"() => (float[4,4] k) {W} {{ p = Hardmax (w)  k = Reshape (p, s) }}"),
        (13, f"() => (float[4,4] k) {W} {{ p = LpNormalization <p = 1> (w)  k = Reshape (p, s) }}"),
        (13, f"() => (float[1,1,4,4] k) <{IMAGE}> {{ p = LRN <size = 3, alpha = 1.0> (w)  k = Neg (p) }}"),
        (13, f"() => (float[A,B,C,D] k) <{IMAGE}, float[4] s = {{1, 1, 1.3, 1.3}}> {{ k = Resize (w, none, s) }}"),
        (
            13,
            f"""() => (float[A,B,C,D] k) <{IMAGE}, float[4] s = {{1, 1, 0.6666667, 0.6666667}}> {{
                k = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (w, none, s) }}""",
        ),
        (
            13,
            """() => (float[1,1,16,16] k) <int64[1] n = {196}, int64[4] f = {1, 1, 14, 14}, int64[4] s = {1, 1, 16, 16},
                int64 i = {0}, int64 e = {196}, int64 d = {1}, float[0] none = {}> {
                r = Range (i, e, d)  g = Reshape (r, f)  w = Cast <to = 1> (g)
                k = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">
                    (w, none, none, s) }""",
        ),
        (
            11,
            """() => (float[1,1,5,5] k) <float[1,1,2,2] w = {5, 6, 7, 8}, int64[1,1,2,2] i = {5, 7, 13, 15},
                int64[4] s = {1, 1, 5, 5}> {
                p = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (w, i, s)  k = Neg (p) }""",
        ),
        (11, "() => (float[M] k) <float[6] w = {2, 1, 1, 3, 4, 3}> { k = Unique <sorted = 0> (w) }"),
    ],
)
def test_a_constant_is_what_onnx_runtime_computes(opset: int, text: str) -> None:
    proto = model(text, opset)
    runner = Runner(proto)
    assert runner.session is not None
    found = Model(proto)
    k = found.constant(found.graph.values["k"])
    assert k is not None
    np.testing.assert_array_equal(k, runner.run({})[0])


def test_the_same_node_on_other_constants_is_computed_again() -> None:
    """Small ones are looked up by their bytes: of -0.0 and 0.0 the signs differ, of int32 and int64 the types."""
    texts = ("float[1] c = {0}", "float[1] c = {-0.0}", "int64[1] c = {0}", "int32[1] c = {0}", "float[1,1] c = {0}")
    found = []
    for text in texts:
        indexed = Model(model(f"() => (float[N] r) <{text}> {{ b = Abs (c)  a = Neg (c)  r = Neg (c) }}"))
        a, b, r = (indexed.constant(indexed.graph.values[name]) for name in "abr")
        assert a is not None and b is not None and r is not None
        np.testing.assert_array_equal(a, r)
        found.append((a.dtype, a.shape, np.signbit(a).all(), np.signbit(b).any()))
    assert len(set(found)) == len(texts)


def test_a_sequence_is_no_constant() -> None:
    """Of tensors with several shapes NumPy makes no array."""
    indexed = Model(
        model("""() => (float[N] r) <float[2] a = {1, 2}, float[3] b = {1, 2, 3}, int64 i = {1}> {
        s = SequenceConstruct (a, b)  r = SequenceAt (s, i) }""")
    )
    assert not indexed.is_constant(indexed.graph.values["r"])
    assert indexed.constant(indexed.graph.values["s"]) is None


def test_types_that_numpy_does_not_hand_to_onnx_runtime_are_computed_all_the_same() -> None:
    indexed = Model(
        model("() => (float[2] r) <float[2] a = {1, 3}> { b = Cast <to = 16> (a)  c = Neg (b)  r = Cast <to = 1> (c) }")
    )
    c, r = (indexed.constant(indexed.graph.values[name]) for name in "cr")
    assert c is not None and c.dtype.name == "bfloat16"
    np.testing.assert_array_equal(r, np.asarray([-1, -3], np.float32))


def test_a_constant_that_would_be_huge_is_not_computed() -> None:
    indexed = Model(model("(float[2] a) => (float[n,m] r) <int64[2] s = {100000, 100000}> { r = ConstantOfShape (s) }"))
    assert indexed.constant(indexed.graph.values["r"]) is None


@pytest.mark.parametrize("kind", [21, 22])
def test_what_onnx_runtime_rounds_to_four_bits_is_no_constant(kind: int) -> None:
    """It does not hand such tensors to NumPy, and onnx's reference evaluator makes 0 of 0.64."""
    text = f"() => (float[2] r) <float[2] a = {{0.64, 2}}> {{ c = Cast <to = {kind}> (a)  r = Cast <to = 1> (c) }}"
    indexed = Model(model(text, opset=22))
    assert indexed.constant(indexed.graph.values["c"]) is None


def test_an_integer_division_without_a_result_is_no_constant() -> None:
    """It ends the process in ONNX Runtime: the lowest number by -1."""
    lowest = model("() => (int32[2] r) <int32[2] a = {1, -2147483648}, int32 b = {-1}> { d = Div (a, b)  r = Neg (d) }")
    indexed = Model(lowest)
    assert indexed.constant(indexed.graph.values["d"]) is None


def test_of_a_constant_node_the_outputs_that_nobody_names_are_made_as_well() -> None:
    """A Split that leaves one out ends the process in ONNX Runtime."""
    indexed = Model(
        model("() => (float[1] r) <float[2] a = {1, 3}, int64[2] n = {1, 1}> { s, t = Split (a, n)  r = Neg (s) }")
    )
    node = indexed.graph.values["s"].producer
    node.proto.output[1], node.outputs[1] = "", None
    np.testing.assert_array_equal(indexed.constant(indexed.graph.values["r"]), np.asarray([-1], np.float32))


def test_random_numbers_are_no_constants() -> None:
    indexed = Model(model("(float[2] a) => (float[2] r) { n = RandomNormal <shape = [2]> ()  r = Add (a, n) }"))
    assert not indexed.is_constant(indexed.graph.values["n"])
