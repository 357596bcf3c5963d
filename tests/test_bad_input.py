"""Bad input: one clear paragraph, exit status 2, nothing half-written, and the old output as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError, UsageError
from surgeon.rules import registry

OLD = b"the model of yesterday"


def good(weights: bool = False) -> ModelProto:
    nodes = [helper.make_node("Relu", ["x"], ["h"], name="first"), helper.make_node("Neg", ["h"], ["y"], name="second")]
    if weights:
        nodes[1] = helper.make_node("Mul", ["h", "w"], ["y"], name="second")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.ones(3, np.float32), "w")] if weights else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def put(path: Path, model: ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def not_onnx(folder: Path) -> Path:
    (folder / "in.onnx").write_bytes(b"PK\x03\x04 this is a zip archive, or was one")
    return folder / "in.onnx"


def text(folder: Path) -> Path:
    (folder / "in.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    return folder / "in.onnx"


def empty(folder: Path) -> Path:
    (folder / "in.onnx").write_bytes(b"")
    return folder / "in.onnx"


def truncated(folder: Path) -> Path:
    (folder / "in.onnx").write_bytes(good(weights=True).SerializeToString()[:-20])
    return folder / "in.onnx"


def missing(folder: Path) -> Path:
    return folder / "in.onnx"


def a_folder(folder: Path) -> Path:
    (folder / "in.onnx").mkdir()
    return folder / "in.onnx"


def without_its_weights(folder: Path) -> Path:
    path = folder / "in.onnx"
    onnx.save(good(weights=True), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "weights.bin").unlink()
    return path


def edited(change: Callable[[ModelProto], object]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        model = good()
        change(model)
        return put(folder / "in.onnx", model)

    return write


def unknown_opset(model: ModelProto) -> None:
    model.opset_import[0].version = 9999


def no_opset(model: ModelProto) -> None:
    del model.opset_import[:]


def newer_ir(model: ModelProto) -> None:
    model.ir_version = 9999


def cycle(model: ModelProto) -> None:
    model.graph.node[0].input[0] = "y"


def dangling(model: ModelProto) -> None:
    model.graph.node[1].input[0] = "nobody"


def dangling_output(model: ModelProto) -> None:
    model.graph.output[0].name = "nobody"


def duplicate(model: ModelProto) -> None:
    model.graph.node[1].output[0] = "h"


def duplicate_input(model: ModelProto) -> None:
    model.graph.input.append(model.graph.input[0])


def unsupported_dtype(model: ModelProto) -> None:
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = 77


def unsupported_weight_dtype(model: ModelProto) -> None:
    tensor = model.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.raw_data = "w", 77, b"\0"
    tensor.dims.append(1)
    model.graph.node[1].op_type = "Mul"
    model.graph.node[1].input.append("w")


def cast_to_nothing(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Cast"


def opset_zero(model: ModelProto) -> None:
    model.opset_import[0].version = 0


def attribute_of_another_type(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Softmax"
    model.graph.node[1].attribute.append(helper.make_attribute("axis", 1.0))


def attribute_that_became_an_input(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Squeeze"
    model.graph.node[1].attribute.append(helper.make_attribute("axes", "abc"))


def attribute_that_holds_another_type(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Softmax"
    model.graph.node[1].attribute.add(name="axis", type=AttributeProto.INT, f=1.0)


def branch_with_inputs(model: ModelProto) -> None:
    """The name of its input is that of a tensor around it."""
    boolean = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "hb")
    branch = helper.make_graph([helper.make_node("Abs", ["h"], ["b"])], "branch", [given], [made])
    model.graph.input.append(boolean)
    model.graph.node[1].CopyFrom(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))


def input_size_below_minus_one(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -2


def weight_size_below_zero(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Mul"
    model.graph.node[1].input.append("w")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    model.graph.initializer[0].dims[0] = -3


def placed(**entries: str) -> Callable[[Path], Path]:
    """A model whose weights are in `w.bin`, at a place that these entries name."""

    def write(folder: Path) -> Path:
        model = good(weights=True)
        tensor = model.graph.initializer[0]
        (folder / "w.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        return put(folder / "in.onnx", model)

    return write


def input_left_out(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Add"
    model.graph.node[1].input[:] = ["h", ""]


def too_few_inputs(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Where"
    model.graph.node[1].input[:] = ["h"]


def constant_without_a_value(model: ModelProto) -> None:
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"]))
    model.graph.node[1].input[:] = ["c"]


def dots_without_an_end(model: ModelProto) -> None:
    """Over which ONNX's inference does not end."""
    model.graph.node[1].CopyFrom(helper.make_node("Einsum", ["h"], ["y"], equation="....", name="second"))


def opset_of_60_bits(model: ModelProto) -> None:
    model.opset_import[0].version = 2**60


def more_outputs_than_parts(model: ModelProto) -> None:
    """Over which ONNX's inference crashes."""
    model.opset_import[0].version = 18
    model.graph.node[1].CopyFrom(helper.make_node("Split", ["h"], ["y", "z"], num_outputs=1, name="second"))


def input_left_out_of_a_call(model: ModelProto) -> None:
    """The function hands it to another function, and a node of that needs it."""
    calling(-1, deep=2)(model)
    inner, outer = model.functions
    inner.input.append("more")
    inner.node[0].op_type = "Sub"
    inner.node[0].input.append("more")
    outer.input.append("more")
    outer.node[0].input.append("more")
    model.graph.node[1].input.append("")


def calling(*callees: int, deep: int) -> Callable[[ModelProto], None]:
    """An edit that adds functions, each of which calls the `callees`, counted from itself, one after the other."""

    def edit(model: ModelProto) -> None:
        opsets = [model.opset_import[0], helper.make_opsetid("d", 1)]
        for k in range(deep):
            called = [f"f{k + by}" if 0 <= k + by < deep else "" for by in callees]
            names = ["x", *(f"t{n}" for n in range(1, len(called))), "y"]
            pairs = zip(called, names, names[1:], strict=False)
            nodes = [helper.make_node(c or "Neg", [a], [b], domain="d" if c else "") for c, a, b in pairs]
            model.functions.append(helper.make_function("d", f"f{k}", ["x"], ["y"], nodes, opsets))
        model.opset_import.append(opsets[1])
        model.graph.node[1].op_type, model.graph.node[1].domain = f"f{deep - 1}", "d"

    return edit


FLOAT, INT4, STRING = TensorProto.FLOAT, TensorProto.INT4, TensorProto.STRING
# Tensors that hold more or less than their type and dimensions say, and what the error names.
HELD = {
    "no data": (TensorProto(data_type=FLOAT, dims=[3]), "0 entries of float_data"),
    "a scalar without data": (TensorProto(data_type=FLOAT), "0 entries of float_data"),
    "few bytes": (TensorProto(data_type=FLOAT, dims=[2**31, 4], raw_data=bytes(16)), "16 bytes"),
    "many bytes": (TensorProto(data_type=FLOAT, dims=[3], raw_data=bytes(16)), "need 12"),
    "bytes of nothing": (TensorProto(data_type=FLOAT, dims=[0], raw_data=bytes(4)), "need 0"),
    "few of many bytes": (TensorProto(data_type=FLOAT, dims=[2**15], raw_data=bytes(2**17 - 1)), "131071 bytes"),
    "few numbers": (TensorProto(data_type=FLOAT, dims=[3], float_data=[1, 2]), "2 entries of float_data"),
    "many numbers": (TensorProto(data_type=FLOAT, dims=[1], float_data=[1, 2]), "need 1"),
    "numbers of another type": (TensorProto(data_type=FLOAT, dims=[3], int32_data=[1] * 3), "0 entries of float_data"),
    "few of 16 bits": (TensorProto(data_type=TensorProto.FLOAT16, dims=[3], int32_data=[1]), "1 entries of int32_data"),
    "few of four bits": (TensorProto(data_type=INT4, dims=[3], int32_data=[1]), "need 2"),
    "few bytes of four bits": (TensorProto(data_type=INT4, dims=[3], raw_data=b"1"), "need 2"),
    "few of 64 bits": (TensorProto(data_type=TensorProto.INT64, dims=[3], int64_data=[1]), "1 entries of int64_data"),
    "few texts": (TensorProto(data_type=STRING, dims=[3], string_data=[b"a"]), "1 entries of string_data"),
    "texts as bytes": (TensorProto(data_type=STRING, dims=[3], raw_data=b"abc"), "texts"),
    "few complex numbers": (TensorProto(data_type=TensorProto.COMPLEX64, dims=[2], float_data=[1, 2]), "need 4"),
    "a size below 0": (TensorProto(data_type=FLOAT, dims=[3, -1], raw_data=b""), "[3, -1]"),
    "beyond what is counted": (TensorProto(data_type=FLOAT, dims=[2**32, 2**32], raw_data=b""), "nothing counts"),
    "beyond what is counted, by none": (TensorProto(data_type=FLOAT, dims=[2**62, 4, 0]), "nothing counts"),
    "no type": (TensorProto(dims=[1], raw_data=bytes(4)), "number 0"),
}


INPUTS = {
    "opset 0": (edited(opset_zero), "opset 0"),
    "attribute of another type": (edited(attribute_of_another_type), "'axis'"),
    "attribute that became an input, of another type": (edited(attribute_that_became_an_input), "'axes'"),
    "attribute that holds another type": (edited(attribute_that_holds_another_type), "'axis'"),
    "branch with inputs": (edited(branch_with_inputs), "the input 'h'"),
    "input size below -1": (edited(input_size_below_minus_one), "-2"),
    "weight size below 0": (edited(weight_size_below_zero), "[-3]"),
    "weights without a file": (placed(offset="0"), "names no file"),
    "weights after the end": (placed(location="w.bin", offset="8"), "after the end"),
    "weights of another length": (placed(location="w.bin", length="8"), "has 8 bytes"),
    "weights before the file": (placed(location="w.bin", offset="-4"), "'-4'"),
    "weights with an unknown entry": (placed(location="w.bin", colour="red"), "'colour'"),
    "not ONNX": (not_onnx, "is a zip archive"),
    "a text file": (text, "is a pointer of git-lfs"),
    "empty": (empty, "is empty"),
    "truncated": (truncated, "cut off"),
    "missing": (missing, "there is no file"),
    "a folder": (a_folder, "is a folder"),
    "missing external data": (without_its_weights, "weights.bin"),
    "unknown opset": (edited(unknown_opset), "opset 9999"),
    "no opset": (edited(no_opset), "declares no opset"),
    "newer IR": (edited(newer_ir), "IR version 9999"),
    "cyclic": (edited(cycle), "cycle"),
    "dangling name": (edited(dangling), "'nobody'"),
    "dangling output": (edited(dangling_output), "'nobody'"),
    "missing attribute": (edited(cast_to_nothing), "'to'"),
    "duplicate name": (edited(duplicate), "'h'"),
    "duplicate input": (edited(duplicate_input), "'x'"),
    "input left out": (edited(input_left_out), "leaves out the input 'B', which Add needs"),
    "constant without a value": (edited(constant_without_a_value), "the Constant node of 'c' has 0 attributes"),
    "opset of 60 bits": (edited(opset_of_60_bits), "the model declares opset 1152921504606846976"),
    "more outputs than parts": (edited(more_outputs_than_parts), "has 2 outputs, and its num_outputs is 1"),
    "dots without an end": (edited(dots_without_an_end), "has dots in its equation other than one '...' a term"),
    "too few inputs": (edited(too_few_inputs), "leaves out the input 'X', which Where needs"),
    "input left out of a call": (edited(input_left_out_of_a_call), "'more' of the function f1"),
    "a function that calls itself": (edited(calling(0, deep=1)), "'d::f0' calls itself"),
    "functions in a circle": (edited(calling(-1, 1, deep=3)), "calls itself"),
    "functions that double": (edited(calling(-1, -1, deep=24)), "stand for 16777216 nodes"),
    "functions that triple": (edited(calling(-1, -1, -1, deep=60)), "stand for"),
    "functions in a long row": (edited(calling(-1, deep=5000)), "101 deep"),
    "unsupported dtype": (edited(unsupported_dtype), "type"),
    "unsupported weight dtype": (edited(unsupported_weight_dtype), "'w'"),
}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must end with status 2; its one paragraph."""
    status = main(arguments)
    captured = capsys.readouterr()
    assert status == 2, captured
    assert captured.err.startswith("surgeon: ")
    assert "Traceback" not in captured.err
    assert "defect of surgeon" not in captured.err
    assert captured.err.strip().count("\n") == 0, "not one paragraph"
    return captured.err


@pytest.mark.parametrize("kind", INPUTS)
def test_bad_model(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = INPUTS[kind]
    source = make(tmp_path)
    out = tmp_path / "out.onnx"
    out.write_bytes(OLD)
    before = sorted(p.name for p in tmp_path.iterdir())
    message = refused(["rewrite", str(source), str(out), "--target", "8.4"], capsys)
    assert words in message
    assert out.read_bytes() == OLD
    assert sorted(p.name for p in tmp_path.iterdir()) == before, "something was left behind"


@pytest.mark.parametrize("kind", ["not ONNX", "missing", "cyclic", "functions that double"])
@pytest.mark.parametrize("command", ["check", "compare", "build"])
def test_bad_model_for_other_commands(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = INPUTS[kind][0](tmp_path)
    out = tmp_path / "out.engine"
    other = put(tmp_path / "good.onnx", good())
    words = {
        "check": [str(source), "--target", "8.4"],
        "compare": [str(other), str(source)],
        "build": [str(source), str(out)],
    }
    if (command, kind) == (
        "build",
        "cyclic",
    ):  # surgeon does not index a model that it only builds: the parser refuses it
        assert main([command, *words[command]]) == 1
        error = capsys.readouterr().err
        assert "refuses" in error and "Traceback" not in error
        assert not out.exists()
        return
    refused([command, *words[command]], capsys)
    assert not out.exists()


def test_a_good_model_is_not_refused(tmp_path: Path) -> None:
    source = put(tmp_path / "in.onnx", good())
    assert main(["rewrite", str(source), str(tmp_path / "out.onnx"), "--target", "8.4"]) == 0


# ---- tensors and where they are --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("where", ["weight", "attribute", "branch", "function"])
def test_a_tensor_holds_what_it_needs(
    kind: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor, words = HELD[kind]
    held = TensorProto(name="held")
    held.MergeFrom(tensor)
    model = good()
    graph, holder = model.graph, model.graph.node
    if where == "branch":
        made = onnx.ValueInfoProto(name="b")
        branch = helper.make_graph([helper.make_node("Abs", ["x"], ["b"])], "branch", [], [made], [held])
        node = helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch)
        graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        holder.append(node)
    elif where == "weight":
        graph.initializer.append(held)
    else:
        if where == "function":
            model.functions.add(name="f", domain="d", output=["v"], opset_import=model.opset_import)
            model.opset_import.append(helper.make_opsetid("d", 1))
            holder.append(helper.make_node("f", [], ["u"], domain="d"))
            holder = model.functions[0].node
        holder.append(helper.make_node("Constant", [], ["v"], value=held))
    source = put(tmp_path / "in.onnx", model)
    for command in (["check", str(source)], ["rewrite", str(source), str(tmp_path / "out.onnx")]):
        message = refused([*command, "--target", "8.4"], capsys)
        assert words in message and ("'held'" in message or "'value'" in message)
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(("dims", "values", "indices", "words"), [
    ([8], [1.0], [2, 3], "do not go together"),
    ([8, 8], [1.0, 2.0], [2], "do not go together"),
    ([0], [1.0], [0], "do not go together"),
    ([2**20, 2**20], [1.0], [5], "writes it out"),
])  # fmt: skip
def test_a_sparse_tensor_is_whole(
    dims: list[int], values: list[float], indices: list[int], words: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model = good()
    sparse = model.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.asarray(values, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.asarray(indices, np.int64)))
    assert words in refused(["check", str(put(tmp_path / "in.onnx", model)), "--target", "8.4"], capsys)


def reached(folder: Path, way: str, name: str = "w.bin") -> Path:
    """A model whose weights are where `way` says, and not in its own folder."""
    own, elsewhere = folder / "own", folder / "elsewhere"
    own.mkdir()
    elsewhere.mkdir()
    path = own / "in.onnx"
    onnx.save(good(weights=True), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (own / "w.bin").rename(elsewhere / "w.bin")
    if way == "link":
        (own / "w.bin").symlink_to(elsewhere / "w.bin")
    elif way == "linked folder":
        name = "below/w.bin"
        (own / "below").symlink_to(elsewhere)
    elif way == "absolute":
        name = str(elsewhere / "w.bin")
    elif way == "parent":
        name = "../elsewhere/w.bin"
    elif way == "device":
        (own / "w.bin").symlink_to("/dev/zero")
    elif way == "process":
        (own / "w.bin").symlink_to("/proc/self/environ")
    elif way == "pipe":
        os.mkfifo(own / "w.bin")
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = name if entry.key == "location" else entry.value
    return put(path, model)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
@pytest.mark.parametrize("way", ["link", "linked folder", "absolute", "parent", "device", "process", "pipe"])
def test_weights_outside_the_folder_are_not_read(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(reached(tmp_path, way))
    words = "not a file" if way == "pipe" else "outside its own folder"
    for command in (["check", source, "--target", "8.4"], ["rewrite", source, str(tmp_path / "out.onnx")]):
        assert words in refused(command, capsys)
    assert words in refused(["compare", source, source], capsys)
    assert [p.name for p in tmp_path.glob("*.onnx")] == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_folder_that_is_a_link_and_a_model_cache_are_read(tmp_path: Path) -> None:
    """A cache has links of readable names to files in one folder, the model and its weights alike."""
    real, cache = tmp_path / "real", tmp_path / "cache"
    real.mkdir()
    cache.mkdir()
    onnx.save(good(weights=True), real / "in.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "way").symlink_to(real)
    for name in ("in.onnx", "w.bin"):
        (cache / name).symlink_to(real / name)
    for source in (tmp_path / "way" / "in.onnx", cache / "in.onnx"):
        assert main(["rewrite", str(source), "--check", "--target", "8.4", "-q"]) in (0, 4)


def test_functions_that_stand_for_many_nodes_are_written_out() -> None:
    model = good()
    calling(-1, -1, deep=13)(model)
    result = surgeon.rewrite(model, target="8.4", verify="none")
    assert [n.op_type for n in result.model.graph.node] == ["Relu", "Neg", "Neg"]


# ---- bad outputs -----------------------------------------------------------------------------------------------------


def test_output_is_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = put(tmp_path / "in.onnx", good())
    data = source.read_bytes()
    assert "is the input itself" in refused(["rewrite", str(source), str(source), "--target", "8.4"], capsys)
    link = tmp_path / "link.onnx"
    link.symlink_to(source)
    assert "is the input itself" in refused(["rewrite", str(source), str(link), "--target", "8.4"], capsys)
    assert source.read_bytes() == data


def test_output_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = put(tmp_path / "in.onnx", good())
    assert "is a folder" in refused(["rewrite", str(source), str(tmp_path), "--target", "8.4"], capsys)


def test_output_folder_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = put(tmp_path / "in.onnx", good())
    assert "there is no folder" in refused(
        ["rewrite", str(source), str(tmp_path / "no" / "out.onnx"), "--target", "8.4"], capsys
    )


def test_report_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = put(tmp_path / "in.onnx", good()), tmp_path / "out.onnx"
    refused(["rewrite", str(source), str(out), "--target", "8.4", "--report", str(tmp_path / "no" / "r.json")], capsys)
    assert not out.exists()
    refused(["rewrite", str(source), str(out), "--target", "8.4", "--report", str(out)], capsys)
    assert not out.exists()
    refused(["rewrite", str(source), str(out), "--target", "8.4", "--report", str(source)], capsys)
    assert not out.exists()


def as_nobody(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """A rewrite as a user who may not do everything: to root, who runs the tests in a container, all is writable.

    It runs with --check before: the Python of a root may be closed to others, who could import nothing more.
    """
    words = ["rewrite", str(source), "--target", "8.4"]
    drop = "os.setuid(65534)" if os.geteuid() == 0 else "pass"
    code = (
        f"import os, sys; from surgeon.app.cli import main; main({[*words, '--check', '-q']!r}); {drop}; "
        f"sys.exit(main({[*words, '-o', str(out)]!r}))"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX users")
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_output_is_not_writable(mode: int) -> None:
    """A folder that may not be written to, and one that may not even be entered. (pytest's own is closed to others.)"""
    with tempfile.TemporaryDirectory() as name:
        folder, locked = Path(name), Path(name) / "locked"
        folder.chmod(0o755)
        source = put(folder / "in.onnx", good())
        source.chmod(0o644)
        locked.mkdir()
        out = locked / "out.onnx"
        out.write_bytes(OLD)
        locked.chmod(mode)
        done = as_nobody(source, out)
        locked.chmod(0o755)
        assert done.returncode == 2, done
        assert "permission denied" in done.stderr
        assert "Traceback" not in done.stderr and "defect" not in done.stderr
        assert out.read_bytes() == OLD
        assert [p.name for p in locked.iterdir()] == ["out.onnx"]


def test_external_weights_of_another_model_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, elsewhere = tmp_path / "in.onnx", tmp_path / "elsewhere"
    onnx.save(good(weights=True), source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    elsewhere.mkdir()
    (elsewhere / "weights.bin").write_bytes(OLD)
    refused(["rewrite", str(source), str(elsewhere / "out.onnx"), "--target", "8.4"], capsys)
    assert (elsewhere / "weights.bin").read_bytes() == OLD
    assert not (elsewhere / "out.onnx").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["rewrite", "IN", "WEIGHTS", "--target", "8.4"],
        ["rewrite", "IN", "OUT", "--target", "8.4", "--report", "WEIGHTS"],
        ["rewrite", "IN", "--check", "--target", "8.4", "--report", "WEIGHTS"],
        ["compare", "IN", "IN", "--save-inputs", "WEIGHTS"],
        ["build", "IN", "WEIGHTS"],
        ["build", "IN", "OUT", "--timing-cache", "WEIGHTS"],
        ["rewrite", "IN", "ELSEWHERE/weights.bin", "--target", "8.4"],
        ["rewrite", "IN", "ELSEWHERE/out.onnx", "--target", "8.4", "--report", "ELSEWHERE/weights.bin"],
    ],
)
def test_own_weights_are_not_overwritten(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, weights, elsewhere = tmp_path / "in.onnx", tmp_path / "weights.bin", tmp_path / "elsewhere"
    onnx.save(good(weights=True), source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    elsewhere.mkdir()
    data = weights.read_bytes()
    places = {"IN": source, "WEIGHTS": weights, "OUT": tmp_path / "out"}
    refused([str(places.get(w, w)).replace("ELSEWHERE", str(elsewhere)) for w in words], capsys)
    assert weights.read_bytes() == data
    assert not (tmp_path / "out").exists() and not list(elsewhere.iterdir())


def test_saving_over_what_was_read(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    onnx.save(good(weights=True), source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    result = surgeon.rewrite(source, target="8.4")
    for name in ("in.onnx", "weights.bin"):
        data = (tmp_path / name).read_bytes()
        with pytest.raises(ModelError, match="never overwrites"):
            result.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == data


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
@pytest.mark.parametrize("words", [["/dev/stdout"], ["out.onnx", "--report", "/dev/stdout"], ["/dev/fd/1"]])
def test_the_log_is_not_overwritten(words: list[str], tmp_path: Path) -> None:
    source, log = put(tmp_path / "in.onnx", good()), tmp_path / "log"
    log.write_bytes(OLD)
    command = [sys.executable, "-m", "surgeon", "rewrite", str(source), *words, "--target", "8.4"]
    with log.open("ab") as stdout:
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and "a device or a pipe" in done.stderr
    assert log.read_bytes() == OLD


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cut.npz", b"PK\x03\x04 and no more", "is not an .npz file"),
        ("text.npz", b"1 2 3", "is not an .npz file"),
        ("raises.py", b"def load_data():\n    raise RuntimeError('no camera')\n", "no camera"),
        ("raises_late.py", b"def load_data():\n    yield {}['x']\n", "KeyError"),
        ("broken.py", b"def (", "broken.py"),
        ("nothing.py", b"def load_data():\n    return []\n", "gives no inputs"),
    ],
)
def test_data_that_cannot_be_read(
    name: str, content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, data = put(tmp_path / "in.onnx", good()), tmp_path / name
    data.write_bytes(content)
    assert words in refused(["compare", str(source), str(source), "--data", str(data)], capsys)


def test_comparing_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = good(), tmp_path / "empty.npz"
    for info in (model.graph.input[0], model.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_param = "n"
    source = put(tmp_path / "in.onnx", model)
    np.savez(data, x=np.zeros((0, 3), np.float32))
    assert "nothing was compared" in refused(["compare", str(source), str(source), "--data", str(data)], capsys)


def test_a_quiet_failure_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = good()
    other.graph.node[0].op_type = "Neg"
    first, second = put(tmp_path / "in.onnx", good()), put(tmp_path / "other.onnx", other)
    assert main(["compare", "-q", str(first), str(second)]) == 1
    said = capsys.readouterr()
    assert not said.out and "differ" in said.err


# ---- bad arguments ---------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "unknown command": (["rewite"], "Did you mean 'rewrite'? See surgeon --help."),
    "no output": (["rewrite", "IN"], "OUT.onnx"),
    "unknown option": (["rewrite", "IN", "OUT", "--frobnicate"], "--frobnicate"),
    "unknown target": (["rewrite", "IN", "OUT", "--target", "eight"], "no target is called 'eight'"),
    "target too old": (["rewrite", "IN", "OUT", "--target", "5.1"], "6.0"),
    "unknown pass": (["rewrite", "IN", "OUT", "--only", "leakyrelu"], "Did you mean 'leaky-relu'?"),
    "unknown pass to skip": (["rewrite", "IN", "OUT", "--skip", "identty:x*"], "Did you mean 'identity'?"),
    "unknown strategy": (["rewrite", "IN", "OUT", "--target", "8.4", "--strategy", "leaky-relu=explode"], "keep"),
    "strategy of nobody": (["rewrite", "IN", "OUT", "--strategy", "relu=keep"], "no pass is called 'relu'"),
    "strategy without =": (["rewrite", "IN", "OUT", "--strategy", "keep"], "PASS=STRATEGY"),
    "unknown plugins": (
        ["rewrite", "IN", "OUT", "--target", "8.4", "--allow-plugins=surgen"],
        "Did you mean 'surgeon'?",
    ),
    "plugins for RTX": (["rewrite", "IN", "OUT", "--target", "rtx", "--allow-plugins", "surgeon"], "no plugins"),
    "unknown verify": (["rewrite", "IN", "OUT", "--verify", "maybe"], "window"),
    "shapes of nobody": (["rewrite", "IN", "OUT", "--verify", "full", "--shapes", "z:1x2"], "no input 'z'"),
    "shapes without numbers": (["rewrite", "IN", "OUT", "--shapes", "x:axb"], "numbers"),
    "shapes of another rank": (["rewrite", "IN", "OUT", "--shapes", "x:1x2x3"], "2 dimensions"),
    "passes from nowhere": (["rewrite", "IN", "OUT", "--passes", "no-such-folder"], "is not a folder"),
    "epsilon below zero": (["rewrite", "IN", "OUT", "--repair-eps", "-1"], "above 0"),
    "option without a number": (["rewrite", "IN", "OUT", "--option", "repair_prelu=yes"], "NAME=NUMBER"),
    "option of nobody": (["rewrite", "IN", "OUT", "--option", "repair_perlu=1"], "Did you mean 'repair_prelu'?"),
    "explain nobody": (["explain", "leakyrelu"], "Did you mean 'leaky-relu'?"),
    "explain no node": (["rewrite", "IN", "--explain", "frst"], "Did you mean 'first'?"),
    "profile of nobody": (["build", "IN", "ENGINE", "--profile", "z:1x2"], "no input 'z'"),
    "profile backwards": (["build", "IN", "ENGINE", "--profile", "x:2x3,1x3,1x3"], "smallest"),
    "profile of two": (["build", "IN", "ENGINE", "--profile", "x:2x3,1x3"], "MIN,OPT,MAX"),
    "unknown runtime": (["build", "IN", "ENGINE", "--with", "tensort"], "Did you mean 'tensorrt'?"),
    "no plugin library": (["build", "IN", "ENGINE", "--plugin-library", "no.so"], "no plugin library"),
    "compare strangers": (["compare", "IN", "STRANGER"], "different inputs"),
    "data from nowhere": (["compare", "IN", "IN", "--data", "no.npz"], "npz"),
    "empty target": (["rewrite", "IN", "OUT", "--target", ""], "target is empty"),
    "only nothing": (["rewrite", "IN", "OUT", "--only", ""], "--only is empty"),
    "shapes without elements": (["rewrite", "IN", "OUT", "--target", "8.4", "--shapes", "x:0x3"], "is 2 in the model"),
    "shapes of other sizes": (["rewrite", "IN", "OUT", "--target", "8.4", "--shapes", "x:2x5"], "is 3 in the model"),
    "shapes twice": (["rewrite", "IN", "OUT", "--shapes", "x:2x3", "--shapes", "x:4x3"], "twice"),
    "profile twice": (["build", "IN", "ENGINE", "--profile", "x:2x3", "--profile", "x:4x3"], "twice"),
    "compare shapes of nobody": (["compare", "IN", "IN", "--shapes", "z:1x2"], "no input 'z'"),
    "compare shapes of another rank": (["compare", "IN", "IN", "--shapes", "x:1x2x3"], "2 dimensions"),
    "compare shapes without elements": (["compare", "IN", "IN", "--shapes", "x:0x3"], "is 2 in the model"),
    "compare with nobody": (["compare", "IN", "IN", "--with", "tensort"], "Did you mean 'tensorrt'?"),
    "compare without a plugin library": (["compare", "IN", "IN", "--plugin-library", "no.so"], "no plugin library"),
    "inputs and outputs in one file": (
        ["compare", "IN", "IN", "--save-inputs", "ENGINE", "--save-outputs", "ENGINE"],
        "cannot both be written",
    ),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_bad_arguments(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = ARGUMENTS[kind]
    stranger = good()
    stranger.graph.input[0].name = stranger.graph.node[0].input[0] = "somebody"
    paths = {
        "IN": str(put(tmp_path / "in.onnx", good())),
        "OUT": str(tmp_path / "out.onnx"),
        "ENGINE": str(tmp_path / "out.engine"),
        "STRANGER": str(put(tmp_path / "stranger.onnx", stranger)),
    }
    assert words in refused([paths.get(a, a) for a in arguments], capsys)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx", "stranger.onnx"]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("broken", "def (", "does not load"),
        ("silent", "from surgeon import rewrite\n", "no docstring"),
        ("idle", '"""A pass without a rule."""\n', "has no rule"),
    ],
)
def test_bad_pass(name: str, code: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"{name}.py").write_text(code)
    assert words in refused(["passes", "--passes", str(tmp_path)], capsys)


TWO_OPTIONS = '''"""Say which options come here."""

from surgeon import Stage, op, require, rewrite, var

OPTIONS = ("mine",)


@rewrite(op.Neg(var("x")), stage=Stage.FUSE)
def look(b, x):
    require(False, f"{sorted(b.options)}")
'''


def test_a_pass_has_the_options_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(TWO_OPTIONS)
    given = {"mine": 1.0, "repair_eps": 1e-6}
    report = surgeon.rewrite(good(), target="8.4", passes=[tmp_path], only=["look"], options=given).report
    assert [d.why for d in report.declined] == ["['mine']"]
    with pytest.raises(UsageError, match="Did you mean 'mine'"):
        surgeon.rewrite(good(), target="8.4", passes=tmp_path, options={"mne": 1.0})


@pytest.mark.parametrize("given", [{"only": "identity"}, {"skip": "identity"}, {"plugins": "surgeon"}])
def test_a_single_name(given: dict[str, str]) -> None:
    names = {k: [v] for k, v in given.items()}
    assert surgeon.rewrite(good(), target="8.4", **given).model == surgeon.rewrite(good(), target="8.4", **names).model


def test_a_target_that_is_no_text() -> None:
    with pytest.raises(UsageError, match="'8.4'"):
        surgeon.rewrite(good(), target=8.4)  # type: ignore[arg-type]


def test_python_inside_a_clone_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the folder `surgeon` is found first, without its passes."""
    monkeypatch.setitem(sys.modules, "surgeon.passes", None)
    with pytest.raises(UsageError, match=r"where it is not installed: start Python elsewhere, or type `pip install"):
        registry._own.__wrapped__()
