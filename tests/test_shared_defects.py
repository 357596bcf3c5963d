"""Models that once came out wrong, lost a weight, or ended surgeon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import model, ops
from onnx import TensorProto, helper, numpy_helper, parser

import surgeon
from surgeon.app.cli import main

WEIGHT = np.arange(4, dtype=np.float32)
CALLING = """<ir_version: 8, opset_import: ["" : 17, "loc" : 1]>
g (float[N,4] x) => (float[N,4] y) { a = Relu (x)  y = loc.F (a) }
<domain: "loc", opset_import: ["" : 17]>
F (x) => (y) { w = Constant <value = float[4] {0, 0, 0, 0}> ()  y = Add (x, w) }"""


def apart(tensor: TensorProto, folder: Path) -> None:
    """Move the data of a tensor to the file `w.bin`."""
    (folder / "w.bin").write_bytes(tensor.raw_data or np.asarray(tensor.float_data, np.float32).tobytes())
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")


def in_a_function(folder: Path) -> onnx.ModelProto:
    proto = parser.parse_model(CALLING)
    apart(proto.functions[0].node[0].attribute[0].t, folder)
    return proto


def in_a_sparse_tensor(folder: Path) -> onnx.ModelProto:
    proto = model("(float[N,4] x) => (float[N,4] y) { a = Relu (x)  y = Add (a, w) }")
    values = numpy_helper.from_array(WEIGHT[:2], "w")
    apart(values, folder)
    indices = numpy_helper.from_array(np.asarray([0, 2]), "")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    return proto


def in_training(folder: Path) -> onnx.ModelProto:
    proto = model("(float[N,4] x) => (float[N,4] y) { a = Relu (x)  y = Neg (a) }")
    tensor = numpy_helper.from_array(WEIGHT, "w")
    apart(tensor, folder)
    proto.training_info.add().algorithm.CopyFrom(helper.make_graph([], "step", [], [], [tensor]))
    return proto


@pytest.mark.parametrize("made", [in_a_function, in_a_sparse_tensor, in_training])
def test_weights_go_along_wherever_they_stand(made, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    proto = made(source)
    (source / "m.onnx").write_bytes(proto.SerializeToString())
    surgeon.rewrite_file(source / "m.onnx", out / "m.onnx", target="10.9", skip=["inline"])
    assert (out / "w.bin").read_bytes() == (source / "w.bin").read_bytes()


def test_a_function_that_another_pass_changed_is_inlined_as_it_stands() -> None:
    proto = parser.parse_model("""<ir_version: 10, opset_import: ["" : 18, "loc" : 1]>
        g (float[H,3] x) => (float[H,3] y) { y = loc.F (x) }
        <domain: "loc", opset_import: ["" : 18]>
        F (fx) => (q) {
            c = Constant <value = bool {1}> ()
            t = If (c) <then_branch = th () => (float[H,3] p) { r = Neg (fx)  s = Shape (r)  p = Reshape (r, s) },
                        else_branch = el () => (float[H,3] e) { e = Abs (fx) }>
            q = Add (t, t)
        }""")
    result = surgeon.rewrite(proto, target="10.9")
    assert not result.report.undone and ops(result.model) == ["Neg", "Add"]
    onnx.checker.check_model(surgeon.rewrite(proto, target="10.9", verify="none").model, full_check=True)


def test_a_function_that_its_opset_forbids_stays_a_call() -> None:
    proto = parser.parse_model("""<ir_version: 10, opset_import: ["" : 7, "loc" : 1]>
        g (float[2,3] x, float[3] z) => (float[2,3] y) { y = loc.F (x, z) }
        <domain: "loc", opset_import: ["" : 7]>
        F (p, q) => (r) { r = Max (p, q) }""")
    report = surgeon.rewrite(proto, target="10.9").report
    assert any("does not broadcast" in d.why for d in report.declined)


@pytest.mark.parametrize("kind", ["seq(float[N,3])", "optional(float[N,3])"])
def test_whole_models_whose_inputs_are_no_tensors_are_not_compared(kind: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    proto = model(f"(float[N,3] x, {kind} s) => (float[N,3] y) {{ a = Relu (x)  y = Neg (a) }}")
    report = surgeon.rewrite(proto, target="10.9", verify="full").report
    assert report.verify["compared"] is False and "is not a tensor" in report.verify["failed"]
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["compare", str(path), str(path)]) == 2
    assert "cannot be compared: the input 's' is not a tensor" in capsys.readouterr().err


def test_an_output_without_a_shape_turns_no_rewrite_off(tmp_path: Path) -> None:
    """ONNX Runtime and TensorRT load it."""
    proto = model(
        "(float[N,3] x) => (float[N,3] y, float[N,3] z) { a = Neg (x)  b = Neg (a)  y = Exp (b)  z = Abs (x) }"
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    (tmp_path / "wrong.py").write_text(
        '"""For a test."""\nfrom surgeon import Stage, op, rewrite, var\nx = var("x")\n'
        "@rewrite(op.Neg(op.Neg(x)), stage=Stage.FUSE)\ndef twice(b, x):\n    return x\n"
    )
    report = surgeon.rewrite(proto, passes=[tmp_path], only=["wrong"], target="10.9").report
    assert report.applied and not report.declined


@pytest.mark.parametrize("made", [in_a_function, in_a_sparse_tensor, in_training])
def test_a_conversion_holds_weights_wherever_they_stood(made, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    proto = made(tmp_path)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "out").mkdir()
    words = ["rewrite", str(tmp_path / "m.onnx"), str(tmp_path / "out/m.onnx"), "--fp16", "--target", "rtx"]
    assert main(words) in (0, 3)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["m.onnx"]
    onnx.checker.check_model(tmp_path / "out/m.onnx")


def test_nodes_out_of_order_turn_no_rewrite_off() -> None:
    """ONNX Runtime and TensorRT load them."""
    proto = model("(float[N,3] x) => (float[N,3] y) <float a = {0.1}> { m = Mul (x, a)  y = Max (x, m) }")
    last = proto.graph.node.pop(0)
    proto.graph.node.append(last)
    result = surgeon.rewrite(proto, target="10.9")
    assert ops(result.model) == ["LeakyRelu"] and not result.report.declined


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process took, apart from its parent")
def test_a_long_range_takes_no_memory() -> None:
    """Inference that follows values would make 2^23 numbers of it, 150 bytes each."""
    code = (
        "import surgeon; from helpers import model\n"
        "proto = model('(float[1] x) => (float[M] y) <float z = {0}, float n = {8388608}, float o = {1}> '\n"
        "              '{ r = Range (z, n, o)  y = Add (x, r) }')\n"
        "surgeon.rewrite(proto, target='10.9')\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True)
    assert int(done.stdout) < 400 << 10  # KiB
