"""The indexed protobuf: bodies, functions, old IR versions, unsorted and broken files, and what must survive."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers import a_pass, drive, model, ops
from onnx import helper, numpy_helper

import surgeon
from surgeon.errors import ModelError
from surgeon.ir.model import Model
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


def test_new_nodes_in_front_of_new_nodes_are_sorted_as_they_stand() -> None:
    graph = Model(model("(float[2] a) => (float[2] r) { s = Abs (a)  r = Exp (s) }")).graph
    rng = np.random.default_rng(0)
    stands = graph.live()
    for k in range(60):
        at = stands[rng.integers(len(stands))]
        stands.insert(stands.index(at), graph.make("Neg", [graph.values["a"]], {}, "", [f"new{k}"], at))
    assert graph.live() == stands
    assert sorted(rng.permutation(np.asarray(stands, object)).tolist(), key=graph.position) == stands
    for node in stands[::3]:
        node.alive = False
    assert graph.live() == [n for n in stands if n.alive]


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


def test_a_body_may_read_what_stands_behind_its_node() -> None:
    """As ONNX Runtime's quantizer leaves an If, and ONNX Runtime and TensorRT load it."""
    backwards = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x, bool c) => (float[N,4] y) { h = Abs (x) y = If (c)'
        " <then_branch = t () => (float[N,4] a) { a = Relu (h) },"
        " else_branch = e () => (float[N,4] b) { b = Neg (h) }> }"
    )
    nodes = list(backwards.graph.node)
    del backwards.graph.node[:]
    backwards.graph.node.extend(reversed(nodes))
    result = surgeon.rewrite(backwards, target="rtx").model
    assert [n.op_type for n in result.graph.node] == ["Abs", "If"]
    onnx.checker.check_model(result)
