"""Half precision loses nothing that the file says: outputs, training, device configurations, annotations."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto, helper

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError
from surgeon.ir.model import Model
from surgeon.precision import convert
from surgeon.precision.comparison import Comparison
from surgeon.precision.data import Samples
from surgeon.precision.operators import spectra

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
MATMUL = "g (float[N,3] x) => (float[N,3] y) <float[3,3] w = {2,0,0,0,2,0,0,0,2}> { y = MatMul (x, w) }"

# Outputs that are inputs, weights, one another or tensors from outside of a body.
OUTPUTS = {
    "an input": "g (float[2,3] x) => (float[2,3] y, float[2,3] x) { y = Relu (x) }",
    "an input of half precision": "g (float16[2,3] x) => (float16[2,3] y, float16[2,3] x) { y = Relu (x) }",
    "a weight": "g (float[2,3] x) => (float[2,3] y, float[3] w) <float[3] w = {1, 2, 3}> { y = Add (x, w) }",
    "a constant": "g (float[2,3] x) => (float[2,3] y, float[3] w) { w = Constant <value = float[3] {1, 2, 3}> () y = Add (x, w) }",
    "the same twice": "g (float[2,3] x) => (float[2,3] y, float[2,3] y) { y = Relu (x) }",
    "the same under two names": "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Relu (x) z = Identity (y) }",
    "a copy before what it copies": "g (float[3,3] x) => (float[3,3] z, float[3,3] y) <float[3,3] w = {2,0,0,0,2,0,0,0,2}> { y = MatMul (x, w) z = Identity (y) }",
    "an input under two names": "g (float[2,3] x) => (float16[2,3] y, float[2,3] x, float[2,3] z) { y = Cast <to = 10> (x) z = Cast <to = 1> (y) }",
    "a cast of what is outside": "g (float16[2,3] x, bool c) => (float[2,3] y) { r = Relu (x) y = If (c) <then_branch = t () => (float[2,3] p) { p = Cast <to = 1> (r) }, else_branch = e () => (float[2,3] q) { s = Cast <to = 1> (x) q = Neg (s) }> }",
    "what is outside": "g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] r) { r = Relu (x) y = If (c) <then_branch = t () => (float[2,3] p) { p = Identity (r) }, else_branch = e () => (float[2,3] q) { q = Neg (r) }> }",
    "a state that stays": "g (float[2,3] x, int64 n, bool c) => (float[2,3] y, float[k,2,3] z) { y, z = Loop (n, c, x) <body = b (int64 i, bool d, float[2,3] a) => (bool d, float[2,3] a, float[2,3] o) { o = Relu (a) }> }",
}  # fmt: skip


def parsed(text: str) -> ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def run(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def feeds_of(model: ModelProto) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(3), {}
    for info in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        found[info.name] = np.asarray(rng.standard_normal(shape) if dtype.kind == "f" else 2).astype(dtype)
    return found


@pytest.mark.parametrize("io", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_is(name: str, io: bool) -> None:
    model = parsed(OUTPUTS[name])
    made = convert(model, io_fp16=io).model
    onnx.checker.check_model(made, full_check=True)
    assert [o.name for o in made.graph.output] == [o.name for o in model.graph.output]
    feeds = feeds_of(model)
    halves = {n: a.astype(np.float16) if io and a.dtype == np.float32 else a for n, a in feeds.items()}
    for found, expected in zip(run(made, halves), run(model, feeds), strict=True):
        assert found.dtype == (np.float16 if io else expected.dtype)
        np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=1e-2, atol=1e-3)
    assert convert(made, io_fp16=io).model.SerializeToString() == made.SerializeToString()


def with_training() -> ModelProto:
    model = parsed(MATMUL)
    info = model.training_info.add()
    info.algorithm.name = "step"
    info.algorithm.node.append(helper.make_node("Mul", ["w", "w"], ["w_new"]))
    info.algorithm.output.append(helper.make_tensor_value_info("w_new", 1, [3, 3]))
    entry = info.update_binding.add()
    entry.key, entry.value = "w", "w_new"
    return model


def test_training_stays_and_so_do_its_tensors(tmp_path, capsys) -> None:
    model = with_training()
    onnx.save(model, tmp_path / "in.onnx")
    assert main(["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "8.4", "--fp16"]) == 0
    made = onnx.load(tmp_path / "out.onnx")
    assert made.training_info[0] == model.training_info[0]
    weights = {t.name: t.data_type for t in made.graph.initializer}
    assert weights["w"] == onnx.TensorProto.FLOAT and onnx.TensorProto.FLOAT16 in weights.values()
    assert "training_info" in capsys.readouterr().out


def test_what_is_said_beside_the_graph_stays() -> None:
    model = parsed(MATMUL)
    model.ir_version = 11
    model.doc_string, model.graph.doc_string, model.graph.node[0].doc_string = "model", "graph", "node"
    model.graph.initializer[0].doc_string = "weights"
    for holder in (model, model.graph, model.graph.node[0], model.graph.initializer[0], model.graph.input[0]):
        entry = holder.metadata_props.add()
        entry.key, entry.value = "key", "value"
    configuration = model.configuration.add()
    configuration.name, configuration.num_devices = "two", 2
    device = model.graph.node[0].device_configurations.add()
    device.configuration_id = "two"
    device.sharding_spec.add().tensor_name = "x"
    annotation = model.graph.quantization_annotation.add()
    annotation.tensor_name = "w"
    made = convert(model).model
    onnx.checker.check_model(made, full_check=True)
    assert made.configuration[0] == configuration
    assert made.graph.quantization_annotation[0] == annotation
    product = next(n for n in made.graph.node if n.op_type == "MatMul")
    assert product.device_configurations[0].sharding_spec[0].tensor_name == product.input[0] != "x"
    weights = made.graph.initializer[0]
    assert (made.doc_string, made.graph.doc_string, product.doc_string, weights.doc_string) == ("model", "graph", "node", "weights")  # fmt: skip
    assert all(h.metadata_props[0].value == "value" for h in (made, made.graph, product, weights, made.graph.input[0]))
    assert weights.data_type == onnx.TensorProto.FLOAT16


def test_an_identity_that_names_an_output_does_not_change_the_plan() -> None:
    ones = ", ".join(["1"] * 64)
    model = parsed(
        f"g (float[2,8] x) => (float[2,8] y, float[2,8] z) <float[8] m = {{1,2,3,4,5,6,7,8}}, float[8,8] w = {{{ones}}}> {{"
        " a = MatMul (x, w) b = Add (a, m) c = Softmax (b) y = MatMul (c, w) z = Identity (a) }"
    )
    once = convert(model).model
    assert convert(once).model.SerializeToString() == once.SerializeToString()


FUNCTIONS = """<ir_version: 8, opset_import: ["" : {model}, "a" : 1]> g (float[2,4] x) => (float[2,4] y) {{ {node} y = a.F (t) }}
<domain: "a", opset_import: ["" : 17]> F (x) => (y) {{ y = HardSwish (x) }}"""


def test_functions_of_another_opset_are_spelled_out_at_theirs() -> None:
    made = convert(onnx.parser.parse_model(FUNCTIONS.format(model=12, node="t = Relu (x)"))).model
    assert {n.op_type for n in made.graph.node} >= {"Relu", "HardSwish"}
    onnx.checker.check_model(made, full_check=True)


def test_functions_without_an_opset_in_common_are_refused() -> None:
    model = onnx.parser.parse_model(FUNCTIONS.format(model=12, node="t = Softmax <axis = 1> (x)").replace("float[2,4] y) { t", "float[2,4] y) { r = ReduceSum <axes = [1]> (x) t"))  # fmt: skip
    with pytest.raises(ModelError, match="declare the opsets 12, 17"):
        convert(model)


def test_maps_are_equal_within_half_precision() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[1,3] x) => (seq(map(int64,float)) m) {'
        " s = Softmax (x) m = ai.onnx.ml.ZipMap <classlabels_int64s = [1, 2, 3]> (s) }"
    )
    result = convert(model, io_fp16=True)
    assert result.errors and not result.failed


SCORES = """g (float[1,3] x) => (float[1,3] p, float[1,3] q) {
    a = Relu (x)
    b = Neg (x)
    p = Sigmoid (a)
    q = Sigmoid (b)
}"""


def test_a_conversion_that_lacks_what_makes_a_score_leaves_the_doubts_of_others() -> None:
    trial = Comparison(
        parsed(SCORES), Samples.of([{"x": np.ones((1, 3), np.float32)}]), kind="data", base=None, few=True
    )
    lacks = parsed(SCORES.replace("a = ", "c = ").replace("(a)", "(c)"))
    wrong = parsed(SCORES.replace("Relu (x)", "Neg (x)"))
    first, second, third = ({e.output: e.doubt for e in trial.errors(made)} for made in (parsed(SCORES), lacks, wrong))
    assert first == {"p": 0, "q": 0}
    assert second == {"p": 0, "q": 0}
    assert third["p"] > 0.2 and third["q"] == 0


def test_the_filters_of_a_spectrum_are_what_a_log_reads_up_to_an_activation() -> None:
    text = """g (float[1,4,8] x, float[4,4,1] v, float[4,4,1] a, float[4,4,1] b) => (float[1,4,8] y) {
        c = Conv (x, v) r = Relu (c) p = Conv (r, a) q = Conv (r, b)
        s = Mul (p, p) t = Mul (q, q) u = Add (s, t) h = Sqrt (u) y = Log (h)
    }"""
    (found,) = spectra(Model(parsed(text)))
    assert {o.name for n in found for o in n.outputs if o is not None} == set("pqstuh")


def test_a_second_conversion_leaves_what_the_first_kept_in_fp32() -> None:
    """The second one measures its error against the converted file, and had the whole tolerance again."""
    text = """g (float[2,3] x) => (float[2,3] y) <float[3,3] w = {2,0,0,0,2,0,0,0,2}, float[3,3] v = {1,0,0,0,1,0,0,0,1}> {
        [first] m = MatMul (x, w) r = Relu (m) [second] y = MatMul (r, v)
    }"""
    once = convert(parsed(text), keep_fp32=["first"]).model
    again = convert(once)
    assert [k.why for k in again.kept] == ["the file has it in fp32 beside half precision"]
    assert again.model.SerializeToString() == once.SerializeToString()


def test_a_second_rewrite_leaves_the_casts_of_the_first_in_a_norm() -> None:
    """It read the norm as one without the casts and wrote it out again, under other names."""
    model = parsed("""g (float[2,4,8] x, float[8] w, float[2,4,8] z) => (float[2,4,8] y, float[2,4,8] t) {
            n = LayerNormalization <epsilon: float = 0.01> (x, w)
            t = Add (n, z)
            y = Neg (t)
        }""")
    rng = np.random.default_rng(0)
    data = [{n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (2, 4, 8)), ("w", 8), ("z", (2, 4, 8)))}]
    rewrite = partial(surgeon.rewrite, target="8.4", fp16=True, data=data, verify="none")
    once = rewrite(model).model
    again = rewrite(once)
    assert not again.report.applied
    assert again.model.SerializeToString() == once.SerializeToString()
