"""The indexed protobuf: bodies, functions, old IR versions, unsorted and broken files, and what must survive."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers import a_pass, drive, model, ops, require_opset
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import surgeon
from surgeon.errors import ModelError
from surgeon.ir.model import Model
from surgeon.ir.run import Runner, Unrunnable
from surgeon.rules.pattern import attr, const, op, var
from surgeon.rules.rule import Stage, require, rule

x = var("x")


@rule(op.Neg(op.Neg(x)), stage=Stage.FUSE)
def twice(b, x):  # type: ignore[no-untyped-def]
    return x


@rule(op.Relu(op.Abs(x)), stage=Stage.FUSE)
def magnitude(b, x):  # type: ignore[no-untyped-def]
    return b.Abs(x)


NEG = a_pass("neg", twice)
ABS = a_pass("abs", magnitude)


def test_a_replacement_stands_where_the_root_stood() -> None:
    proto = model("(float[2] a) => (float[2] r) { b = Exp (a)  s = Abs (b)  t = Relu (s)  u = Exp (t)  r = Tanh (u) }")
    drive(proto, ABS)
    assert ops(proto) == ["Exp", "Abs", "Exp", "Tanh"]
    onnx.checker.check_model(proto, full_check=True)


def test_an_existing_tensor_takes_the_place_of_an_inner_one() -> None:
    proto = model("(float[2] a) => (float[2] r) { b = Neg (a)  c = Neg (b)  r = Exp (c) }")
    drive(proto, NEG)
    assert ops(proto) == ["Exp"] and list(proto.graph.node[0].input) == ["a"]


def test_an_output_of_the_graph_keeps_its_name() -> None:
    proto = model("(float[2] a) => (float[2] r) { b = Neg (a)  r = Neg (b) }")
    drive(proto, NEG)
    assert ops(proto) == ["Identity"] and proto.graph.node[0].output[0] == "r"


def test_bodies_are_graphs_like_any_other() -> None:
    proto = model("""(float[2] a, bool c) => (float[2] r) {
        r = If (c) <then_branch = t () => (float[2] u) { p = Abs (a)  u = Relu (p) },
                    else_branch = e () => (float[2] v) { v = Exp (a) }>
    }""")
    drive(proto, ABS)
    then = proto.graph.node[0].attribute[0].g
    assert [n.op_type for n in then.node] == ["Abs"] and then.node[0].input[0] == "a"
    onnx.checker.check_model(proto, full_check=True)


def test_pointing_readers_elsewhere_reaches_into_bodies() -> None:
    proto = model("""(float[2] a, bool c) => (float[2] r) {
        b = Neg (a)
        d = Neg (b)
        r = If (c) <then_branch = t () => (float[2] u) { u = Exp (d) },
                    else_branch = e () => (float[2] v) { v = Tanh (d) }>
    }""")
    drive(proto, NEG)
    assert ops(proto) == ["If"]
    assert {g.g.node[0].input[0] for g in proto.graph.node[0].attribute} == {"a"}
    onnx.checker.check_model(proto, full_check=True)


def test_local_functions_are_graphs_like_any_other() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[2] a) => (float[2] r) { r = f.magnitude (a) }
        <domain: "f", opset_import: ["" : 17]>
        magnitude (p) => (q) { s = Abs (p)  q = Relu (s) }
    """)
    drive(proto, ABS)
    assert [n.op_type for n in proto.functions[0].node] == ["Abs"]
    onnx.checker.check_model(proto, full_check=True)


def test_a_function_has_no_initializers_so_new_constants_are_nodes() -> None:
    @rule(op.Relu(x), stage=Stage.FUSE)
    def relu(b, x):  # type: ignore[no-untyped-def]
        return b.Max(x, 0.0)

    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[2] a) => (float[2] r) { r = f.act (a) }
        <domain: "f", opset_import: ["" : 17]>
        act (p) => (q) { q = Relu (p) }
    """)
    drive(proto, a_pass("max", relu))
    assert [n.op_type for n in proto.functions[0].node] == ["Constant", "Max"]


def test_in_a_body_inside_a_function_new_constants_are_nodes() -> None:
    """TensorRT-RTX 1.7.1 reads freed memory for an initializer of such a body."""

    @rule(op.Relu(x), stage=Stage.FUSE)
    def relu(b, x):  # type: ignore[no-untyped-def]
        return b.Max(x, 0.0)

    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[2] a, bool c) => (float[2] r) { r = f.act (a, c) }
        <domain: "f", opset_import: ["" : 17]>
        act (p, c) => (q) {
            q = If (c) <then_branch = t () => (float[2] u) {
                            u = If (c) <then_branch = tt () => (float[2] w) { w = Relu (p) },
                                        else_branch = te () => (float[2] o) { o = Tanh (p) }> },
                        else_branch = e () => (float[2] v) { v = Relu (p) }>
        }
    """)
    drive(proto, a_pass("max", relu))
    then, other = (a.g for a in proto.functions[0].node[0].attribute)
    inner = then.node[0].attribute[0].g
    for body in (inner, other):
        assert not body.initializer and [n.op_type for n in body.node] == ["Constant", "Max"]
    onnx.checker.check_model(proto)


def test_before_ir_4_new_constants_are_nodes_and_initializers_are_inputs() -> None:
    @rule(op.Add(x, const("c")), stage=Stage.FUSE)
    def twice_as_much(b, x, c):  # type: ignore[no-untyped-def]
        require(c < 1.5, "it is done")
        return b.Add(x, np.asarray(c * 2, np.float32))

    proto = model("(float[2] a) => (float[2] r) <float c = {1.0}> { r = Add (a, c) }", opset=8, ir=3)
    proto.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, []))
    onnx.checker.check_model(proto)
    drive(proto, a_pass("add", twice_as_much))
    onnx.checker.check_model(proto)
    assert (
        ops(proto) == ["Constant", "Add"]
        and not proto.graph.initializer
        and [i.name for i in proto.graph.input] == ["a"]
    )


def test_since_ir_4_an_initializer_that_is_an_input_is_no_constant() -> None:
    proto = model("(float[2] a) => (float[2] r) <float c = {1.0}> { r = Add (a, c) }")
    proto.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, []))
    indexed = Model(proto)
    assert not indexed.is_constant(indexed.graph.values["c"])
    assert indexed.graph.values["c"].text == "c"


@pytest.mark.parametrize(
    "body",
    [
        "(float[2,3] a, int64[2] c) => (float[p,q] r) <int64[2] c = {2,3}> { m = Reshape (a, c)  r = Relu (m) }",
        """(float[8,4] a, int64[2] c) => (float[8,4] r) <int64[2] c = {1,4}> {
            n = ReduceL2 <axes = [0], keepdims = 0> (a)  k = Reshape (n, c)  r = Div (a, k)
        }""",
    ],
)
def test_the_default_of_an_input_decides_no_shape(body: str) -> None:
    proto = model(body)
    result = surgeon.rewrite(proto, target="10.9")
    assert not result.report.applied and result.model.SerializeToString() == proto.SerializeToString()


def test_an_input_with_a_default_stays_when_nobody_reads_it_any_more() -> None:
    @rule(op.Max(x, x * var("c")), stage=Stage.FUSE)
    def alone(b, x, c):  # type: ignore[no-untyped-def]
        return b.Relu(x)

    proto = model("(float[2] a, float[p] c) => (float[2] r) <float[2] c = {0,0}> { m = Mul (a, c)  r = Max (a, m) }")
    inputs = list(proto.graph.input)
    driver = drive(proto, a_pass("p", alone))
    assert ops(proto) == ["Relu"] and list(proto.graph.input) == inputs
    assert [t.name for t in proto.graph.initializer] == ["c"], "without its default the input must be given"
    assert driver.model.shape(driver.model.graph.values["c"]) == ("p",)


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


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_what_a_shape_says_reaches_reshape_and_expand(opset: int) -> None:
    """ONNX's own inference takes it to a Reshape from opset 14 on, to an Expand from 13 on."""
    text = """(float[2,1,5] a, float[10] b, float[2,3,1] c, float[M,3,N] d)
              => (float[i,j,k] r, float[l,m,n] e, float e2) {
        s = Shape (a)
        r = Reshape (b, s)
        t = Shape (c)
        e = Expand (r, t)
        f = Shape (d)
        e2 = Expand (r, f)
    }"""
    proto = model(text, opset=opset)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    indexed = Model(proto)
    assert indexed.shape(indexed.graph.values["r"]) == (2, 1, 5)
    assert indexed.shape(indexed.graph.values["e"]) == (2, 3, 5)
    assert indexed.shape(indexed.graph.values["e2"]) == (2, 3, 5)


def test_shapes_and_types_on_demand() -> None:
    indexed = Model(model("(float[N,3] a) => (float[N,1] r) { m = ReduceMean <axes = [1]> (a)  r = Relu (m) }"))
    values = indexed.graph.values
    assert indexed.shape(values["a"]) == ("N", 3)
    assert indexed.shape(values["m"]) == ("N", 1)
    assert indexed.dtype(values["m"]) == onnx.TensorProto.FLOAT


def test_a_file_out_of_order_is_read_and_written_in_order() -> None:
    proto = model("(float[2] a) => (float[2] r) { b = Exp (a)  s = Abs (b)  r = Relu (s) }")
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(nodes))
    drive(proto, ABS)
    assert ops(proto) == ["Exp", "Abs"]
    onnx.checker.check_model(proto, full_check=True)


def _broken(body: str) -> onnx.ModelProto:
    return model(body)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: _broken("(float[2] a) => (float[2] r) { b = Exp (r)  r = Relu (b) }"), "cycle"),
        (lambda: _broken("(float[2] a) => (float[2] r) { r = Relu (nobody) }"), "nothing produces"),
        (lambda: _broken("(float[2] a) => (float[2] r) { b = Exp (a) }"), "produced by no node"),
        (lambda: _broken("(float[2] a) => (float[2] r) { r = Exp (a)  r = Relu (a) }"), "produced twice"),
        (lambda: model("(float[2] a) => (float[2] r) { r = Relu (a) }", opset=99), "opset 99"),
        (lambda: model("(float[2] a) => (float[2] r) { r = Relu (a) }", ir=99), "IR version 99"),
        (lambda: onnx.ModelProto(), "no graph"),
    ],
)
def test_a_broken_model_is_refused_with_a_reason(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ModelError, match=words):
        Model(make())


def test_everything_that_is_not_rewritten_survives() -> None:
    proto = model("""(float[2] a) => (float[2] r) <float unused = {7.0}> {
        s = Abs (a)
        t = Relu (s)
        r = Exp (t)
    }""")
    proto.doc_string, proto.producer_name = "doc", "somebody"
    helper.set_model_props(proto, {"k": "v"})
    proto.graph.doc_string = "graph doc"
    kept = proto.graph.node[2]
    kept.doc_string, kept.name = "node doc", "exp"
    entry = kept.metadata_props.add()
    entry.key, entry.value = "namespace", "a/b"
    proto.graph.value_info.append(helper.make_tensor_value_info("s", 1, [2]))
    proto.graph.value_info.append(helper.make_tensor_value_info("t", 1, [2]))
    for name in ("s", "t"):
        proto.graph.quantization_annotation.add().tensor_name = name
    before = onnx.ModelProto()
    before.CopyFrom(proto)
    result = surgeon.rewrite(proto, only=["identity"])
    assert result.model.SerializeToString() == before.SerializeToString() == proto.SerializeToString()
    drive(proto, ABS)
    assert ops(proto) == ["Abs", "Exp"]
    assert proto.graph.node[1].SerializeToString() == before.graph.node[2].SerializeToString()
    assert [v.name for v in proto.graph.value_info] == ["t"]
    assert [q.tensor_name for q in proto.graph.quantization_annotation] == ["t"]
    assert [t.name for t in proto.graph.initializer] == ["unused"]
    del before.graph.node[:], proto.graph.node[:], before.graph.value_info[:], proto.graph.value_info[:]
    del before.graph.quantization_annotation[:], proto.graph.quantization_annotation[:]
    assert proto.SerializeToString() == before.SerializeToString()


def test_an_initializer_that_loses_its_last_reader_goes() -> None:
    @rule(op.Mul(x, const("c")), stage=Stage.FUSE)
    def drop(b, x, c):  # type: ignore[no-untyped-def]
        return b.Abs(x)

    proto = model(
        "(float[2] a) => (float[2] r) <float c = {1.0}, float d = {2.0}>{ s = Mul (a, c)  t = Exp (s)  r = Add (t, d) }"
    )
    drive(proto, a_pass("drop", drop))
    assert [t.name for t in proto.graph.initializer] == ["d"]


def test_what_training_info_names_stays_as_an_output_does() -> None:
    proto = model(
        "(float[2] a) => (float[2] r) <float c = {0.25}, float d = {0.5}> "
        "{ m = Mul (a, c)  l = Max (a, m)  n = Mul (l, d)  k = Max (l, n)  r = Exp (k) }"
    )
    info = proto.training_info.add()
    info.algorithm.name = "step"
    info.algorithm.node.add(op_type="Mul", input=["c", "c"], output=["next"])
    info.algorithm.node.add(op_type="Gradient", domain="ai.onnx.preview.training", input=["a"], output=["slope"])
    info.algorithm.node[1].attribute.append(helper.make_attribute("y", "n"))
    info.algorithm.output.add(name="next")
    info.update_binding.add(key="c", value="next")
    result = surgeon.rewrite(proto, target="10.9")
    assert ops(result.model) == ["LeakyRelu", "Mul", "Max", "Exp"]
    assert [t.name for t in result.model.graph.initializer] == ["c", "d"]
    assert result.model.training_info == proto.training_info
    assert [w for w in result.report.warnings if "training_info" in w]
    plain = model("(float[2] a) => (float[2] r) <float c = {0.25}> { m = Mul (a, c)  r = Max (a, m) }")
    assert not surgeon.rewrite(plain, target="10.9").report.warnings


def test_weights_on_disk_are_not_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["a", "w"], ["m"]),
            helper.make_node("Abs", ["m"], ["s"]),
            helper.make_node("Relu", ["s"], ["r"]),
        ],
        "g",
        [helper.make_tensor_value_info("a", 1, [2, 64])],
        [helper.make_tensor_value_info("r", 1, [2, 64])],
        [weight],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        path,
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    (tmp_path / "out").mkdir()
    result = surgeon.rewrite(path)
    assert not result.model.graph.initializer[0].raw_data
    result.save(tmp_path / "out" / "m.onnx")
    assert (tmp_path / "out" / "w.bin").read_bytes() == (tmp_path / "w.bin").read_bytes()
    onnx.checker.check_model(str(tmp_path / "out" / "m.onnx"))


def test_attributes_of_functions_that_are_references_do_not_match() -> None:
    @rule(op.LeakyRelu(x, alpha=attr("alpha")), stage=Stage.FUSE)
    def leaky(b, x, alpha):  # type: ignore[no-untyped-def]
        require(alpha > 0.5, "small")
        return b.Relu(x)

    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[2] a) => (float[2] r) { r = f.act <slope = 0.9> (a) }
        <domain: "f", opset_import: ["" : 17]>
        act <slope> (p) => (q) { q = LeakyRelu <alpha : float = @slope> (p) }
    """)
    drive(proto, a_pass("leaky", leaky))
    assert proto.functions[0].node[0].op_type == "LeakyRelu"


def test_types_inside_a_function_are_those_of_its_first_call() -> None:
    indexed = Model(
        onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[N,3] a) => (float[M,K] r) { b = f.outer <axis = 1> (a)  r = Relu (b) }
        <domain: "f", opset_import: ["" : 17, "f" : 1]>
        outer <axis> (p) => (q) { s = Softmax <axis : int = @axis> (p)  q = f.inner (s) }
        <domain: "f", opset_import: ["" : 17]>
        inner (p) => (q) { t = Transpose (p)  q = Exp (t) }
    """)
    )
    outer, inner = (indexed.functions[k].values for k in ("f::outer", "f::inner"))
    assert indexed.shape(outer["s"]) == ("N", 3) and indexed.shape(inner["t"]) == (3, "N")
    assert indexed.dtype(inner["t"]) == onnx.TensorProto.FLOAT


def test_a_rewrite_inside_a_function_is_proved() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[N,3] a) => (float[N,3] r) { r = f.leaky (a) }
        <domain: "f", opset_import: ["" : 17]>
        leaky (p) => (q) { c = Constant <value_float = 0.25> ()  m = Mul (p, c)  q = Max (p, m) }
    """)
    result = surgeon.rewrite(proto, target="10.9", skip=["inline"])
    assert [n.op_type for n in result.model.functions[0].node] == ["LeakyRelu"]
    assert result.report.applied[0].max_error == 0.0


def test_an_expand_makes_nothing_smaller() -> None:
    """A dimension of unknown size that is asked to be 1 stays what it is; asked to be as large as it is, in a body."""
    proto = model(
        """(float[N,3] x, float[1,3] z, bool c) => (float[A,B] y) <int64[2] k = {1, 3}> {
            d = Expand (x, k)  s = Shape (z)  e = Expand (x, s)
            y = If (c) <then_branch = t () => (float[A,B] a) {
                            n = Neg (x) u = Shape (x) g = Expand (n, u) a = Abs (g) },
                        else_branch = f () => (float[A,B] b) { h = Expand (x, k) b = Abs (h) }>
        }"""
    )
    found = Model(proto)
    shapes = {v.name: found.shape(v) for scope in found.scopes for v in scope.values.values()}
    assert {name: shapes[name] for name in "degh"} == dict.fromkeys("degh", ("N", 3))


# what a body makes of the states p and q: the next ones r and s, and t to stack; what is known of what the Loop returns
LOOPS: dict[str, tuple[str, list[tuple[int | None, ...] | None]]] = {
    "as it is": ("r = Relu (p)  s = Identity (q)  t = Neg (r)", [(2, 3), (2, 4), (None, 2, 3)]),
    "a dimension grows": ("r = Concat <axis = 0> (p, p)  s = Neg (q)  t = Abs (p)",
                          [(None, 3), (2, 4), (None, None, 3)]),
    "a dimension is added": ("r = Unsqueeze (p, one)  s = Neg (q)  t = Abs (r)", [None, (2, 4), None]),
    "turned": ("r = Transpose (p)  s = Neg (q)  t = Abs (r)", [(None, None), (2, 4), (None, None, None)]),
    "changed for one another": ("r = Neg (q)  s = Abs (p)  t = Concat <axis = 1> (p, q)",
                                [(2, None), (2, None), (None, 2, None)]),
    "grown by the other": ("r = Concat <axis = 1> (p, q)  s = Relu (r)  z = Shape (s)  t = Cast <to = 1> (z)",
                           [(2, None), (2, None), (None, 2)]),
    "of the graph around": ("r = Add (p, x)  s = Neg (y)  z = Size (q)  t = Cast <to = 1> (z)",
                            [(2, 3), (2, 4), (None,)]),
    "in a branch": ("r = If (go) <then_branch = e () => (float[] u) { u = Relu (p) },"
                    " else_branch = o () => (float[] w) { w = Concat <axis = 1> (p, p) }>  s = Neg (q)  t = Abs (r)",
                    [(2, None), (2, 4), (None, 2, None)]),
}  # fmt: skip


def looped(body: str) -> onnx.ModelProto:
    return model(
        f"""(float[2,3] x, float[2,4] y, int64 n) => (float[] a, float[] b, float[] c)
        <bool on = {{1}}, int64[1] one = {{1}}> {{
            a, b, c = Loop (n, on, x, y) <body = l (int64 i, bool go, float[] p, float[] q)
                => (bool more, float[] r, float[] s, float[] t) {{ more = Identity (go)  {body} }}>
        }}"""
    )


def sizes(found: Model) -> list[tuple[int | None, ...] | None]:
    shapes = [found.shape(v) for v in found.graph.outputs]
    return [None if s is None else tuple(d if isinstance(d, int) else None for d in s) for s in shapes]


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_returns(name: str) -> None:
    body, known = LOOPS[name]
    assert sizes(Model(looped(body))) == known


MADE = ["Neg ({0})", "Transpose ({0})", "Concat <axis = 0> ({0}, {1})", "Concat <axis = 1> ({0}, {1})",
        "Unsqueeze ({0}, one)", "Add ({0}, {1})", "ReduceSum <keepdims = 0> ({0}, one)", "Identity (x)"]  # fmt: skip
RESULT = st.tuples(st.sampled_from(MADE), st.sampled_from("pq"), st.sampled_from("pqxy"))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(results=st.tuples(RESULT, RESULT, RESULT), count=st.integers(0, 3))
def test_what_is_known_of_a_loop_holds(results: tuple[tuple[str, str, str], ...], count: int) -> None:
    """Whatever a body does to its states, and however often: what runs has the shapes that are known."""
    proto = looped("  ".join(f"{name} = {op.format(*read)}" for name, (op, *read) in zip("rst", results, strict=True)))
    feeds = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 4), np.float32), "n": np.asarray(count)}
    try:
        returned = Runner(proto).run(feeds)
    except Unrunnable:
        return
    if count == 0:  # ONNX Runtime stacks nothing in one dimension, where the body does not say how many it has
        returned = returned[:2]
    for dims, array in zip(sizes(Model(proto)), returned, strict=False):
        assert dims is None or (
            len(dims) == array.ndim and all(d in (None, size) for d, size in zip(dims, array.shape, strict=True))
        )


def test_what_a_scan_returns() -> None:
    """Its body holds a node that ONNX's inference makes nothing of."""
    proto = model(
        """(float[2,4,8] x, float[5,2,4,8] y) => (float[] a, float[] b) <float[4] w = {1, 2, 3, 4}> {
            a, b = Scan <num_scan_inputs = 1, scan_output_axes = [-1],
                body = l (float[2,4,8] p, float[2,4,8] q) => (float[] r, float[] s) {
                    m = Add (p, q)  r = GroupNormalization <num_groups = 2> (m, w, w)  s = Neg (r)
                }> (x, y)
        }""",
        opset=21,
    )
    assert sizes(Model(proto)) == [(2, 4, 8), (2, 4, 8, None)]


@pytest.mark.parametrize("opset", [21, 25])
def test_what_stands_behind_a_mean_variance_normalization(opset: int) -> None:
    """ONNX's inference says no shape of it, so what followed was left to a second run."""
    require_opset(opset)
    text = """(float[5,4,8,8] x) => (float[5,4,8,8] y) <float[4] s = {1, 2, 1, 2}, float[4] b = {0, 1, 0, 1}> {
        h = MeanVarianceNormalization (x)  y = GroupNormalization <num_groups = 2> (h, s, b) }"""
    result = surgeon.rewrite(model(text, opset, 10), target="8.4")
    assert not result.report.failed and result.report.opset_after == 17
    assert not surgeon.rewrite(result.model, target="8.4").report.applied


def test_each_tensor_that_a_loop_returns_has_its_own_type() -> None:
    proto = model(
        """(float[N] x, int64[2] y, int64 n, bool c) => (float[N] a, int64[2] b, bool[M] d) {
            a, b, d = Loop (n, c, x, y) <body = l (int64 i, bool go, float[] p, int64[] q)
                => (bool more, float[] r, int64[] s, bool t) {
                    more = Identity (go)  r = Neg (p)  s = Neg (q)  t = Not (go) }>
        }"""
    )
    found = Model(proto)
    wanted = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL]
    assert [found.dtype(v) for v in found.graph.outputs] == wanted


# ---- sizes that the file says, of other inputs than it has --------------------------------------------------------

FLATTENED = """(float[1,3,4] x) => (float[1,12] y) <int64 i = {0}, int64[1] ax = {0}, int64[1] rest = {-1}> {
    r = Relu (x)  s = Shape (r)  b = Gather (s, i)  u = Unsqueeze (b, ax)  t = Concat <axis = 0> (u, rest)
    y = Reshape (r, t)
}"""
PADDED = """(float[1,3,8,8] x) => (float[1,3,10,10] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
    r = Relu (x)  q = Pad <mode = "reflect"> (r, p)  y = Neg (q)
}"""


def resized(body: str, dims: list[int | str], out: list[int | str]) -> onnx.ModelProto:
    """A model whose inner tensors were inferred before its input was given other sizes, as
    `onnx.tools.update_model_dims` leaves it."""
    proto = onnx.shape_inference.infer_shapes(model(body, opset=13))
    for infos, wanted in ((proto.graph.input, dims), (proto.graph.output, out)):
        infos[0].CopyFrom(helper.make_tensor_value_info(infos[0].name, 1, wanted))
    return proto


@pytest.mark.parametrize("target", ["7.2", "8.0", "8.4", "10.9", "rtx"])
@pytest.mark.parametrize(
    ("body", "dims", "out", "sizes"),
    [
        (FLATTENED, ["N", 3, 4], ["N", 12], [5, 3, 4]),
        (FLATTENED, ["N", 3, 4], [1, 12], [5, 3, 4]),
        (FLATTENED, [5, 3, 4], [5, 12], [5, 3, 4]),
        (PADDED, ["N", 3, "H", "W"], ["N", 3, "h", "w"], [2, 3, 8, 12]),
    ],
)
def test_sizes_of_other_inputs_are_not_believed(
    body: str, dims: list[int | str], out: list[int | str], sizes: list[int], target: str
) -> None:
    proto = resized(body, dims, out)
    feeds = {"x": np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}
    after = surgeon.rewrite(proto, target=target).model
    for found, expected in zip(Runner(after).run(feeds), Runner(proto).run(feeds), strict=True):
        assert np.array_equal(found, expected)


def test_a_declared_output_is_not_believed_against_an_input() -> None:
    found = Model(model("(float[N,3] x) => (float[1,3] y) { y = Relu (x) }"))
    assert found.shape(found.graph.values["y"]) == ("N", 3)


def test_a_state_that_grows_is_not_of_the_size_that_a_body_declares() -> None:
    proto = model(
        """(float[1,3] x, int64 n) => (float[K,3] y) <bool on = {1}> {
            y = Loop (n, on, x) <body = l (int64 i, bool go, float[1,3] p) => (bool more, float[1,3] r) <float[1,3] s> {
                more = Identity (go)  s = Neg (p)  r = Concat <axis = 0> (s, x) }>
        }"""
    )
    found = Model(proto)
    body = next(iter(found.graph.bodied)).bodies[0]
    assert [found.shape(body.values[name]) for name in "psr"] == [(None, 3)] * 3


def test_a_body_says_the_rank_of_what_it_is_handed_where_nothing_else_does() -> None:
    proto = model(
        """(float[2,3] x, int64[k] t, int64 n) => (float[K,L] y) <bool on = {1}> {
            h = Reshape (x, t)
            y = Loop (n, on, h) <body = l (int64 i, bool go, float[1,6] p) => (bool more, float[1,6] r) {
                more = Identity (go)  s = Neg (p)  r = Neg (s) }>
        }"""
    )
    body = next(iter((found := Model(proto)).graph.bodied)).bodies[0]
    assert [found.shape(body.values[name]) for name in "psr"] == [(None, None)] * 3


CUSTOM = """(float[N,3] x) => (float[M,3] y) <float[2,3] c, float[1,3] r> {
    r = Relu (x)  c = test.Custom (r)  y = Neg (c)
}"""


def test_the_file_says_what_cannot_be_inferred() -> None:
    proto = model(CUSTOM.replace("float[1,3] r", "float[N,3] r"), extra=', "test" : 1')
    found = Model(proto)
    assert [found.shape(found.graph.values[name]) for name in "rcy"] == [("N", 3), (2, 3), (2, 3)]


def test_of_a_file_with_sizes_of_other_inputs_only_ranks_are_believed() -> None:
    found = Model(model(CUSTOM, extra=', "test" : 1'))
    assert [found.shape(found.graph.values[name]) for name in "rc"] == [("N", 3), (None, None)]
    assert sizes(found) == [(None, None)]


OPEN = """(float[2,3] x) => (float[K,2] y) <float[2,3] r, int64[2,4] k> {
    r = Relu (x)  k = NonZero (r)  t = Transpose (k)  y = Cast <to = 1> (t)
}"""


def test_a_file_of_fixed_sizes_says_what_inference_leaves_open() -> None:
    assert sizes(Model(model(OPEN))) == [(4, 2)]
    assert sizes(Model(model(OPEN.replace("float[2,3] r", "float[1,3] r")))) == [(None, 2)]
    assert sizes(Model(model(OPEN.replace("float[2,3] x", "float[N,3] x")))) == [(None, 2)]


def unknown_as_minus_one(body: str) -> onnx.ModelProto:
    """The first dimension of the input and of the output written as -1, as some exporters do."""
    proto = model(body)
    for infos in (proto.graph.input, proto.graph.output):
        infos[0].type.tensor_type.shape.dim[0].dim_value = -1
    return proto


def test_a_negative_size_is_an_unknown_one() -> None:
    proto = unknown_as_minus_one(
        "(float[2,3] x) => (float[2,3] y) <float a = {0.1}> { z = Mul (x, a)  y = Max (x, z) }"
    )
    assert sizes(Model(proto)) == [(None, 3)]
    result = surgeon.rewrite(proto, target="8.4", verify="full", shapes={"x": (5, 3)})
    assert ops(result.model) == ["LeakyRelu"] and result.report.verify["max_error"] == 0.0
    assert result.model.graph.input == proto.graph.input and result.model.graph.output == proto.graph.output
    assert surgeon.rewrite(proto, target="8.4").report.applied


def test_a_negative_size_is_no_number_to_compute_with() -> None:
    proto = unknown_as_minus_one("(float[2,3] x) => (float[5,3] y) <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> "
                                 "{ y = Concat <axis = 0> (x, w) }")  # fmt: skip
    assert sizes(Model(proto)) == [(None, 3)]
