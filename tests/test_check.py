"""`surgeon check`: how sure it is, several files, the formats, and what the parser here says besides."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from helpers import model

from surgeon.app.cli import main
from surgeon.ir.model import Model
from surgeon.pipeline.check import Untaken, check
from surgeon.targets import evidence
from surgeon.targets.target import Target
from surgeon.trt.refusals import ask

Captured = pytest.CaptureFixture[str]
RTX = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None, reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'"
)

TAKEN = "(float[N,3] x) => (float[N,3] y) { [act] y = Relu (x) }"
NORM = """(float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
    [one] a = InstanceNormalization (x, s, b)
    [two] y = InstanceNormalization (a, s, b)
}"""
UNRANKED = """(float[N,3] x, int64[M] size) => (float[] y) {
    r = Reshape (x, size)
    [pool] y = MaxPool <kernel_shape = [2]> (r)
}"""
PLUGIN = '(float[N,3] x) => (float[N,3] y) { [mine] y = Mine <plugin_version = "1"> (x) }'


def write(folder: Path, text: str, name: str = "in.onnx") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model(text), path)
    return str(path)


# ---- how sure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("8.6", "from the parser's source"),
        ("8.4", "from the parser's source, and measured with 8.4.1.5"),
        ("10.10", "from the parser's source"),
        ("10.11", "from the parser's source up to 10.10, and the change logs since"),
        ("rtx", "measured with TensorRT-RTX 1.7.1"),
    ],
)
def test_what_a_verdict_rests_on(target: str, words: str) -> None:
    assert evidence.basis(Target.parse(target)) == words


def unknown(text: str, target: str = "8.4") -> list[tuple[str, str]]:
    return [(node.label, why) for node, why in evidence.unknown(Model(model(text)), Target.parse(target))]


def test_a_plugin_of_somebody_else_is_not_known() -> None:
    ((node, why),) = unknown(PLUGIN)
    assert node == "mine" and why.startswith("a plugin: ")
    assert unknown(PLUGIN.replace("Mine", "InstanceNormalization_TRT")) == []
    assert unknown(PLUGIN, "rtx") == []  # it has no plugins: there the node is unsupported


COUNTED = """(bool[6] mask, float[6,4] x, float[4,4] w) => (float[n,4] y) {
    at = NonZero (mask) rows = Transpose (at) some = GatherND (x, rows) y = MatMul (some, w) }"""


@pytest.mark.parametrize(("target", "nodes"), [("8.4", []), ("8.5", ["MatMul -> y"]), ("11.4", ["MatMul -> y"])])
def test_what_a_kernel_makes_of_a_counted_size_is_unknown(target: str, nodes: list[str]) -> None:
    assert [node for node, _ in unknown(COUNTED, target)] == nodes
    assert unknown(COUNTED.replace("(some, w)", "(x, w)"), target) == []


def test_a_node_whose_input_has_no_rank_is_not_known() -> None:
    found = dict(unknown(UNRANKED))
    assert found["pool"].startswith("the rank of its input 'r' is unknown")
    assert unknown(UNRANKED.replace("int64[M] size", "int64[3] size")) == []
    assert unknown(TAKEN) == []


def test_what_is_not_taken_is_not_unknown_as_well() -> None:
    found = check(model(PLUGIN), target="rtx")
    assert [u.node for u in found.untaken] == ["mine"] and found.unknown == []
    assert [u.node for u in check(model(PLUGIN), target="8.4").unknown] == ["mine"]


def test_not_known_is_printed_and_no_failure(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", write(tmp_path, PLUGIN), "--target", "8.4"]) == 0
    printed = capsys.readouterr().out
    assert "\nunknown: a plugin: " in printed
    assert printed.endswith(
        "supports every node except 1 unknown node (from the parser's source, and measured with 8.4.1.5)\n"
    )


# ---- the parser here -------------------------------------------------------------------------------------------------

REFUSED = "(float[N,3] x, bool[M] c) => (float[K,3] y) { [squeeze] y = Compress <axis = 0> (x, c) }"


@RTX
def test_the_parser_here_is_asked(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", write(tmp_path, TAKEN), "--target", "rtx"]) == 0
    assert re.search(r"\(measured here: TensorRT-RTX [\d.]+ parses it\)$", capsys.readouterr().out.strip())
    assert main(["check", write(tmp_path, TAKEN), "--target", "rtx", "--no-parser"]) == 0
    assert "(measured with TensorRT-RTX 1.7.1)" in capsys.readouterr().out
    assert main(["check", write(tmp_path, TAKEN), "--target", "8.6"]) == 0
    assert "measured here" not in capsys.readouterr().out


@RTX
def test_what_the_parser_alone_refuses_is_not_taken(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a table that has nothing against the node."""
    monkeypatch.setattr("surgeon.pipeline.check.judged", lambda model, target: ([], []))
    file = write(tmp_path, REFUSED)
    assert main(["check", file, "--target", "rtx", "--no-parser"]) == 0
    capsys.readouterr()
    assert main(["check", file, "--target", "rtx"]) == 1
    printed = capsys.readouterr().out
    assert "  squeeze  Compress  no pass" in printed and "1 unsupported node" in printed


@RTX
def test_a_parser_that_takes_too_long_or_crashes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, target = write(tmp_path, TAKEN), Target.parse("rtx")
    monkeypatch.setattr("surgeon.trt.refusals.parser_refusals", lambda trt, source: os.abort())
    answer = ask(file, target)
    assert answer is not None and [u.why for u in answer.refused] == ["the parser crashes (SIGABRT)"]
    monkeypatch.setattr("surgeon.trt.refusals.parser_refusals", lambda trt, source: time.sleep(60))
    monkeypatch.setattr("surgeon.trt.refusals.SECONDS", 0.2)
    answer = ask(file, target)
    assert answer is not None and answer.why_not.endswith("takes longer than 0.2 s") and not answer.refused


@RTX
def test_a_parser_that_lacks_a_driver_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints then is about this machine, not about the model."""
    file, target = write(tmp_path, TAKEN), Target.parse("rtx")
    answer = ask(file, target)
    assert answer is not None and answer.refused == []
    no_driver = Untaken("act", "Relu", "Error Code 1: Cuda Runtime (cudaError 35: CUDA driver version is insufficient)")
    monkeypatch.setattr("surgeon.trt.refusals.parser_refusals", lambda trt, source: [no_driver])
    assert ask(file, target) is None
    both = replace(no_driver, why=f"Invalid Node: must have type Int32 [a.cpp::catchCudaError::250] {no_driver.why}")
    monkeypatch.setattr("surgeon.trt.refusals.parser_refusals", lambda trt, source: [both])
    told = ask(file, target)
    assert told is not None and [r.why for r in told.refused] == ["Invalid Node: must have type Int32"]


def test_a_node_that_no_pass_mends_is_said_with_what_a_person_can_do(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", write(tmp_path, REFUSED), "--target", "rtx", "--no-parser"]) == 1
    assert "advice  Compress  its output size depends on the data: run it after the engine" in capsys.readouterr().out
    assert main(["check", write(tmp_path, REFUSED), "--target", "rtx", "--no-parser", "--format", "github"]) == 1
    assert "no pass fixes it; advice: its output size depends" in capsys.readouterr().out.replace("%3A", ":")


def test_a_pooling_that_no_pass_mends_is_said_with_what_to_export(tmp_path: Path, capsys: Captured) -> None:
    attrs = '<kernel_shape = [2, 2], dilations = [2, 2], auto_pad = "SAME_UPPER">'
    pool = f"(float[N,2,8,8] x) => (float[N,2,I,J] y) {{ y = MaxPool {attrs} (x) }}"
    assert main(["check", write(tmp_path, pool), "--target", "rtx", "--no-parser"]) == 1
    assert "advice  MaxPool  set its padding by pads instead of auto_pad" in capsys.readouterr().out


def test_what_a_dla_leaves_to_the_gpu_is_no_failure(tmp_path: Path, capsys: Captured) -> None:
    file = write(tmp_path, TAKEN.replace("Relu", "Sin"))
    assert main(["check", file, "--target", "8.6+dla"]) == 0
    printed = capsys.readouterr().out
    assert "DLA has no Sin: it would run on the GPU" in printed and "the GPU runs 1 of them" in printed
    assert main(["rewrite", file, str(tmp_path / "out.onnx"), "--target", "8.6+dla", "--strict"]) == 0
    assert capsys.readouterr().out.endswith("the GPU runs 1\n") and (tmp_path / "out.onnx").exists()
    assert main(["check", file, "--target", "8.6+dla", "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::notice ")


# ---- files and folders -----------------------------------------------------------------------------------------------


def test_equal_reasons_are_one_group_in_a_pipe(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", write(tmp_path, NORM), "--target", "8.4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("unsupported: it runs as a plugin")
    assert lines[2:4] == ["  one  InstanceNormalization  instance-norm", "  two  InstanceNormalization  instance-norm"]
    assert lines[4:] == [
        "TensorRT 8.4: 2 unsupported nodes; surgeon can fix 2",
        f"  surgeon fix {tmp_path}/in.onnx --for 8.4",
    ]


def test_folders_and_several_files(tmp_path: Path, capsys: Captured, request: pytest.FixtureRequest) -> None:
    write(tmp_path, TAKEN, "a/one.onnx")
    write(tmp_path, NORM, "a/b/two.onnx")
    alone = write(tmp_path, TAKEN, "three.onnx")
    assert main(["check", str(tmp_path / "a"), alone, "--target", "8.4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 files, target 8.4"
    told = {Path(line.split("  ")[0]).name: line.split("  ")[1] for line in lines[1:4]}
    assert told["two.onnx"] == "TensorRT 8.4: 2 unsupported nodes; surgeon can fix 2"
    assert told["one.onnx"].startswith("TensorRT 8.4 supports every node (") and told["three.onnx"] == told["one.onnx"]
    assert lines[4:] == [
        "unsupported  InstanceNormalization  2 nodes  1 files  instance-norm",
        "TensorRT 8.4 supports 2 of 3 files",
    ]
    request.getfixturevalue("batches_here")
    assert main(["check", str(tmp_path / "a"), "--target", "8.4", "--jobs", "2", "-v", "--exit-zero"]) == 0
    assert "  one  InstanceNormalization  instance-norm\n" in capsys.readouterr().out
    assert main(["check", alone, alone, "--target", "8.4"]) == 0


@pytest.mark.usefixtures("batches_here")
def test_an_unreadable_file_does_not_stop_the_others(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    write(tmp_path, NORM, "good.onnx")
    assert main(["check", str(tmp_path), "--target", "8.4"]) == 2
    captured = capsys.readouterr()
    assert "bad.onnx  FAILED: " in captured.out and "2 unsupported nodes" in captured.out
    assert captured.out.endswith("TensorRT 8.4 supports 0 of 2 files; 1 cannot be read\n")
    assert main(["check", str(tmp_path / "none.onnx"), "--target", "8.4"]) == 2


@pytest.mark.usefixtures("batches_here")
def test_a_check_is_taken_up_again(tmp_path: Path, capsys: Captured) -> None:
    """With -o a second run does what changed."""
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    files = [write(tmp_path, NORM, "norm.onnx"), write(tmp_path, TAKEN, "ok.onnx"), str(tmp_path / "bad.onnx")]
    words = ["check", *files, "--target", "8.4", "-o", str(tmp_path / "r.jsonl"), "--format", "jsonl"]

    def skipped() -> dict[str, bool]:
        assert main(words) == 2
        return {Path(v["file"]).name: v["skipped"] for v in map(json.loads, capsys.readouterr().out.splitlines())}

    assert skipped() == {"norm.onnx": False, "ok.onnx": False, "bad.onnx": False}
    assert skipped() == {"norm.onnx": True, "ok.onnx": True, "bad.onnx": True}
    write(tmp_path, TAKEN, "norm.onnx")
    assert skipped() == {"norm.onnx": False, "ok.onnx": True, "bad.onnx": True}


def test_a_folder_without_models_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", str(tmp_path), "--target", "8.4"]) == 2
    assert "has no .onnx file" in capsys.readouterr().err


# ---- formats ---------------------------------------------------------------------------------------------------------


def three(folder: Path) -> list[str]:
    """A file that is taken, one that is not, and one that cannot be read."""
    (folder / "bad, x.onnx").write_bytes(b"no model")
    return [write(folder, TAKEN, "ok.onnx"), write(folder, NORM, "norm.onnx"), str(folder / "bad, x.onnx")]


@pytest.mark.usefixtures("batches_here")
def test_json(tmp_path: Path, capsys: Captured) -> None:
    files = three(tmp_path)
    assert main(["check", *files, "--target", "8.4", "--format", "json"]) == 2
    value = json.loads(capsys.readouterr().out)
    assert [(f["file"], f["readable"], f["taken"]) for f in value["files"]] == [
        (files[0], True, True),
        (files[1], True, False),
        (files[2], False, False),
    ]
    untaken = value["files"][1]["untaken"]
    assert [u["node"] for u in untaken] == ["one", "two"] and untaken[0]["mended_by"] == "instance-norm"
    assert value["files"][2]["error"] and value["files"][0]["sure"].startswith("from the parser's source")


@pytest.mark.usefixtures("batches_here")
def test_sarif(tmp_path: Path, capsys: Captured) -> None:
    files = three(tmp_path)
    assert main(["check", *files, "--target", "8.4", "--format", "sarif"]) == 2
    value = json.loads(capsys.readouterr().out)
    assert value["version"] == "2.1.0"
    (run,) = value["runs"]
    ids = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == {"unsupported", "unreadable"} <= ids
    found = run["results"][0]
    assert found["level"] == "error" and "does not support" in found["message"]["text"]
    (location,) = found["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == files[1]
    assert location["logicalLocations"] == [{"name": "one", "kind": "element"}]


@pytest.mark.usefixtures("batches_here")
def test_github(tmp_path: Path, capsys: Captured) -> None:
    files = three(tmp_path)
    assert main(["check", *files, "--target", "8.4", "--format", "github"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(line.startswith("::error file=") for line in lines)
    found = "title=surgeon unsupported::TensorRT 8.4 does not support InstanceNormalization 'one'"
    assert f"file={files[1]},{found}" in lines[0]
    assert "bad%2C x.onnx,title=surgeon unreadable::" in lines[2]
    assert main(["check", files[0], "--target", "8.4", "--format", "github"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("target", "sizes", "why"),
    [
        ("8.6", "65536, 65536", "4294967296 elements; 2147483647 are the most up to TensorRT 10.9"),
        ("10.13", "65536, 65536", ""),
        ("rtx", "65536, 65536", ""),
        ("rtx", "2147483647, 1024", "2199023254528 elements; 1099511627776 are the most"),
        ("rtx", "2147483648, 1", "a dimension of 2147483648; 2147483647 is the largest"),
    ],
)
def test_a_result_with_too_many_elements_is_refused(target: str, sizes: str, why: str) -> None:
    made = model(
        f"(float[1,1] x) => (float y) <int64[2] r = {{{sizes}}}> "
        "{ t = Tile (x, r)  y = ReduceMax <keepdims = 0> (t) }"
    )
    found = check(made, target=target).untaken
    assert [(u.op, u.why) for u in found] == ([("Tile", f"a result has {why}")] if why else [])
    assert all("smaller sizes" in u.advice for u in found)


@pytest.mark.parametrize(
    "text",
    [
        "(float[2097152,1] a, float[1,2097152] c) => (float y) { t = Mul (a, c)  y = ReduceMax <keepdims = 0> (t) }",
        "(float[2097152,1] a, float[1,2097152] c) => (float[2097152,2097152] y) { t = Mul (a, c)  y = Neg (t) }",
        "(float[1048576,1] a, int64 c) => (float[1048576,4194304] y) "
        "{ n = Constant <value = float[1,4194304] {}> ()  t = Mul (a, n)  y = Neg (t) }",
    ],
)
def test_a_result_that_is_broadcast_over_two_tensors_is_refused(text: str) -> None:
    made = model(text)
    for node in made.graph.node:  # too many numbers to be written
        for attribute in (a for a in node.attribute if a.name == "value"):
            attribute.t.raw_data = bytes(4 * attribute.t.dims[1])
    found = check(made, target="10.13").untaken
    assert found[0].op == "Mul"
    assert found[0].why == "a result has 4398046511104 elements; 1099511627776 are the most"


def test_an_input_that_is_no_tensor_is_refused() -> None:
    made = model("(float[2] x) => (float[2] y) { y = Neg (x) }")
    made.graph.input[0].type.sparse_tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert [u.why for u in check(made, target="8.4").untaken] == ["the input 'x' is not of a type of tensors"]
