"""onnx-graphsurgeon: graphs taken and given back, and functions over them as passes that drop
nothing and are proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_graphsurgeon as gs
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import surgeon
from surgeon.pipeline.interop import changed_by, from_gs, to_graphsurgeon

PASS = '''"""A pass of the test.

Why  A test.
"""

import numpy as np
import onnx_graphsurgeon as gs
from surgeon import Stage, gs_pass, require


{body}
'''


def model() -> ModelProto:
    """x -> Identity -> Mul(w) -> Relu -> y, with everything that onnx-graphsurgeon forgets."""
    nodes = [
        helper.make_node("Identity", ["x"], ["i"], name="same", doc_string="of a node"),
        helper.make_node("Mul", ["i", "w"], ["m"], name="scale"),
        helper.make_node("Relu", ["m"], ["y"], name="act", doc_string="of the last node"),
    ]
    nodes[2].metadata_props.add(key="owner", value="me")
    weights = [
        numpy_helper.from_array(np.full(3, 2, np.float32), "w"),
        numpy_helper.from_array(np.ones(2, np.float32), "unused"),
    ]
    weights[0].doc_string = "of a weight"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3], doc_string="of an input")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        weights,
        doc_string="of the graph",
        value_info=[
            helper.make_tensor_value_info("i", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("m", TensorProto.FLOAT, ["N", 3]),
        ],
    )
    note = graph.quantization_annotation.add(tensor_name="m")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="test",
        doc_string="of the model",
    )
    made.metadata_props.add(key="version", value="7")
    return made


def drop_identity(graph: gs.Graph) -> None:
    for node in graph.nodes:
        for index, tensor in enumerate(node.inputs):
            if tensor.inputs and tensor.inputs[0].op == "Identity":
                node.inputs[index] = tensor.inputs[0].inputs[0]
    graph.cleanup().toposort()


def as_pass(folder: Path, body: str, name: str = "mine") -> dict[str, Any]:
    """The options of surgeon.rewrite that run the pass, and no other."""
    (folder / f"{name}.py").write_text(PASS.format(body=body))
    return {"passes": [folder], "only": [name], "target": "10.9"}


DROP = """
@gs_pass
def drop(graph):
    for node in graph.nodes:
        for index, tensor in enumerate(node.inputs):
            if tensor.inputs and tensor.inputs[0].op == "Identity":
                node.inputs[index] = tensor.inputs[0].inputs[0]
    graph.cleanup()
"""


def test_what_graphsurgeon_drops_is_restored() -> None:
    before = model()
    after = changed_by(drop_identity, before)
    assert after is not None
    expected = model()
    expected.graph.node[1].input[0] = "x"
    del expected.graph.node[0]
    del expected.graph.value_info[:]  # of tensors that another node makes now
    del expected.graph.quantization_annotation[:]
    assert after == expected
    assert before == model(), "the model passed in was changed"


def test_a_round_trip_without_that_drops_much() -> None:
    plain = gs.export_onnx(gs.import_onnx(model()))
    assert not plain.metadata_props and not plain.graph.node[2].doc_string and not plain.graph.quantization_annotation


@pytest.mark.parametrize(
    "idle",
    [
        lambda g: None,
        lambda g: g,
        lambda g: g.cleanup().toposort(),
        lambda g: [t.values for t in g.tensors().values() if isinstance(t, gs.Constant)],
    ],
)
def test_nothing_changed_is_nothing_applied(idle: Callable[[Any], Any]) -> None:
    def function(graph: Any) -> Any:
        result = idle(graph)
        return result if isinstance(result, gs.Graph) else None

    assert changed_by(function, model()) is None


def test_a_graph_pass_is_applied_proved_and_reported(tmp_path: Path) -> None:
    result = surgeon.rewrite(model(), **as_pass(tmp_path, DROP))
    (applied,) = result.report.applied
    assert (applied.pass_name, applied.removed, applied.added, applied.max_error) == (
        "mine",
        ["same", "scale"],
        ["scale"],
        0.0,
    )
    assert [n.op_type for n in result.model.graph.node] == ["Mul", "Relu"]
    assert (result.report.ops_before["Identity"], result.report.ops_after.get("Identity", 0)) == (1, 0)
    again = surgeon.rewrite(result.model, **as_pass(tmp_path, DROP))
    assert not again.report.applied
    assert again.model == result.model


def test_a_wrong_graph_pass_is_undone(tmp_path: Path) -> None:
    body = "@gs_pass\ndef wrong(graph):\n    next(n for n in graph.nodes if n.op == 'Relu').op = 'Abs'\n"
    result = surgeon.rewrite(model(), **as_pass(tmp_path, body))
    assert [d.pass_name for d in result.report.undone] == ["mine"]
    assert result.report.failed and not result.report.applied
    assert result.model == model()
    unproved = surgeon.rewrite(model(), verify="none", **as_pass(tmp_path, body))
    assert [n.op_type for n in unproved.model.graph.node] == ["Identity", "Mul", "Abs"]


@pytest.mark.parametrize(
    "line",
    [
        "graph.outputs[0].name = 'z'",
        "graph.inputs[0].name = 'z'",
        "graph.outputs.append(graph.nodes[0].outputs[0])",
        "graph.outputs[0].dtype = np.float16",
    ],
)
def test_the_interface_may_not_change(line: str, tmp_path: Path) -> None:
    result = surgeon.rewrite(model(), **as_pass(tmp_path, f"@gs_pass\ndef mine(graph):\n    {line}\n"))
    assert "inputs or outputs" in result.report.undone[0].why
    assert result.model == model()


def test_a_graph_pass_can_decline(tmp_path: Path) -> None:
    result = surgeon.rewrite(
        model(), **as_pass(tmp_path, "@gs_pass\ndef mine(graph):\n    require(False, 'not today')\n")
    )
    assert [(d.pass_name, d.why) for d in result.report.declined] == [("mine", "not today")]


def test_a_graph_pass_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(surgeon.PassError, match="the pass 'mine' failed: ZeroDivisionError"):
        surgeon.rewrite(model(), **as_pass(tmp_path, "@gs_pass\ndef mine(graph):\n    1 / 0\n"))


def test_a_graph_pass_that_breaks_the_graph_is_named(tmp_path: Path) -> None:
    body = "@gs_pass\ndef mine(graph):\n    graph.nodes[1].inputs[0] = gs.Variable('nobody', np.float32, (1, 3))\n"
    with pytest.raises(surgeon.PassError, match="nobody"):
        surgeon.rewrite(model(), **as_pass(tmp_path, body))


def test_weights_that_were_read_stay_and_changed_ones_go(tmp_path: Path) -> None:
    body = "@gs_pass\ndef mine(graph):\n    m = graph.nodes[1]\n    m.inputs[1].values = m.inputs[1].values * 1\n"
    assert not surgeon.rewrite(model(), **as_pass(tmp_path, body)).report.applied
    body = "@gs_pass\ndef mine(graph):\n    m = graph.nodes[1]\n    m.inputs[1].values = m.inputs[1].values * 2\n"
    assert surgeon.rewrite(model(), **as_pass(tmp_path, body, "another")).report.undone


def test_external_weights_stay_external(tmp_path: Path) -> None:
    path = tmp_path / "in.onnx"
    onnx.save(model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "passes").mkdir()
    result = surgeon.rewrite(path, **as_pass(tmp_path / "passes", DROP))
    assert result.report.applied and not result.report.undone
    assert result.model.graph.initializer[0].data_location == TensorProto.EXTERNAL
    (tmp_path / "elsewhere").mkdir()
    result.save(tmp_path / "elsewhere" / "out.onnx")
    assert np.array_equal(
        numpy_helper.to_array(onnx.load(tmp_path / "elsewhere" / "out.onnx").graph.initializer[0]), [2, 2, 2]
    )


def test_stages_run_in_front_of_and_behind_the_others(tmp_path: Path) -> None:
    """A graph pass sees the file's Max; one of the stage LOWER what surgeon's own passes made of it."""
    body = """
@gs_pass
def first(graph):
    require("Max" not in [n.op for n in graph.nodes], "first sees " + " ".join(n.op for n in graph.nodes))


@gs_pass(stage=Stage.LOWER)
def last(graph):
    require(False, "last sees " + " ".join(n.op for n in graph.nodes))
"""
    nodes = [helper.make_node("Mul", ["x", "a"], ["m"]), helper.make_node("Max", ["x", "m"], ["y"])]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [numpy_helper.from_array(np.float32(0.1), "a")])
    leaky = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = as_pass(tmp_path, body)
    options["only"] = ["mine", "leaky-relu"]
    result = surgeon.rewrite(leaky, **options)
    assert [d.why for d in result.report.declined] == ["first sees Mul Max", "last sees LeakyRelu"]


def test_skipping_a_node_of_a_graph_pass_is_refused(tmp_path: Path) -> None:
    with pytest.raises(surgeon.UsageError, match="whole graph"):
        surgeon.rewrite(model(), skip=["mine:same"], **as_pass(tmp_path, DROP))


def test_unsorted_edits_are_sorted(tmp_path: Path) -> None:
    body = """
@gs_pass
def mine(graph):
    relu = next(n for n in graph.nodes if n.op == "Relu")
    twice = gs.Variable("twice", np.float32, None)
    node = gs.Node("Relu", name="again", inputs=[relu.inputs[0]], outputs=[twice])
    if any(n.name == "again" for n in graph.nodes):
        return
    relu.inputs[0] = twice
    graph.nodes.append(node)
"""
    result = surgeon.rewrite(model(), **as_pass(tmp_path, body))
    assert [n.name for n in result.model.graph.node] == ["same", "scale", "again", "act"]
    onnx.checker.check_model(result.model, full_check=True)


# ---- graphs in and out -----------------------------------------------------------------------------------------------


def test_a_graph_goes_in_and_comes_back() -> None:
    result = surgeon.rewrite(gs.import_onnx(model()), target="10.9")
    graph = result.gs()
    assert isinstance(graph, gs.Graph)
    assert [n.op for n in graph.nodes] == ["Mul", "Relu"]
    x = np.array([[1, -2, 3]], np.float32)
    exported = gs.export_onnx(graph)
    exported.ir_version = 8  # the exporter's own may be newer than what ONNX Runtime reads
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"x": x})[0], [[2, 0, 6]])


def test_import_changes_nothing() -> None:
    given = model()
    graph = to_graphsurgeon(given)
    graph.nodes[0].name = "other"
    graph.tensors()["w"].name = "renamed"
    from_gs(graph)
    assert given == model()


# ---- overloads -------------------------------------------------------------------------------------------------------

TWICE = """<ir_version: 10, opset_import: ["" : 17]>
g (float[1,3,8,8] x) => (float[1,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  a = InstanceNormalization <epsilon = 0.001> (x, s, b)
  c = Sin (a)
  y = InstanceNormalization <epsilon = 0.5> (c, s, b)
}"""


def overloads(proto: ModelProto) -> tuple[list[str], list[str]]:
    """The overloads that nodes of functions name, and those that there are."""
    ours = {(f.domain, f.name) for f in proto.functions}
    nodes = [n for n in proto.graph.node if (n.domain, n.op_type) in ours]
    return [n.overload for n in nodes], [f.overload for f in proto.functions]


def plugins() -> surgeon.Result:
    """Two plugin nodes with other attributes, and so other functions."""
    asked = {"target": "10.9", "plugins": "surgeon", "strategy": {"instance-norm": "plugin"}}
    return surgeon.rewrite(onnx.parser.parse_model(TWICE), **asked)


def test_overloads_survive_the_graph() -> None:
    result = plugins()
    assert overloads(result.model) == (["", "2"], ["", "2"])
    graph = result.gs()
    graph.nodes[-1].name = "last"
    assert overloads(surgeon.from_gs(graph)) == (["", "2"], ["", "2"])
    assert overloads(gs.export_onnx(result.gs())) == (["", ""], ["", ""])  # else all of this may go


def test_overloads_that_graphsurgeon_lost_are_made_again() -> None:
    given, graph = plugins().model, gs.import_onnx(plugins().model)
    x = np.random.default_rng(7).normal(size=(1, 3, 8, 8)).astype(np.float32)
    before, after = (computed(p, x) for p in (onnx.parser.parse_model(TWICE), surgeon.from_gs(graph)))
    assert overloads(surgeon.from_gs(graph)) == overloads(given)
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) > (1, 23):  # the older run the first one for all
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)


def computed(proto: ModelProto, x: np.ndarray) -> np.ndarray:
    (y,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    return np.asarray(y)


def test_overloads_of_other_functions_survive_too() -> None:
    assert overloads(surgeon.from_gs(surgeon.to_gs(with_functions()))) == (["one", "two"], ["one", "two"])


def with_functions() -> ModelProto:
    """y = Act:two(Act:one(x)), functions of one name."""
    bodies = {"one": "Relu", "two": "Neg"}
    opsets = [helper.make_opsetid("", 17)]
    functions = [
        helper.make_function(
            "mine", "Act", ["p"], ["q"], [helper.make_node(op, ["p"], ["q"])], opsets, overload=overload
        )
        for overload, op in bodies.items()
    ]
    nodes = [
        helper.make_node("Act", ["x"], ["a"], domain="mine", overload="one", name="first"),
        helper.make_node("Act", ["a"], ["y"], domain="mine", overload="two", name="second"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y])
    opsets = [*opsets, helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)


def test_a_graph_pass_keeps_overloads() -> None:
    def rename(graph: Any) -> None:
        graph.nodes[0].outputs[0].name = "renamed"

    after = changed_by(rename, with_functions())
    assert after is not None and overloads(after) == (["one", "two"], ["one", "two"])


def test_a_graph_pass_that_adds_a_function_keeps_the_others() -> None:
    def add(graph: Any) -> None:
        graph.functions.append(gs.Function("More", "mine", opset=17, import_domains=graph.import_domains))

    after = changed_by(add, with_functions())
    assert after is not None and overloads(after) == (["one", "two"], ["one", "two", ""])
