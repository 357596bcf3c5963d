"""Engines by a real TensorRT-RTX through Polygraphy: built without a GPU, and refusals told with node and pass."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest

from surgeon.app.cli import main

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
from surgeon.errors import EngineError, UsageError
from surgeon.precision.formats import computes_in_half
from surgeon.trt import engine, runtime
from surgeon.trt.profiles import profile_texts, proposed
from surgeon.trt.refusals import parser_error

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "samples"
RELU = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x) => (float[N,3] y) { [act] y = Relu(x) }"""
COMPUTED_AXES = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,3,4] x) => (float[2,3,1] y) {
  [last] one = Constant <value = int64[1] {-1}> ()
  [shape] all = Constant <value_ints = [-1]> ()
  [reshape] axes = Reshape (one, all)
  [max] y = ReduceMax <keepdims = 1> (x, axes)
}"""
UNKNOWN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4,3] x, bool[4] k) => (float[M,3] y) {
  [squeeze] y = Compress <axis = 0> (x, k)
}"""


def write(folder: Path, text: str) -> Path:
    path = folder / "in.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_builds_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write(tmp_path, RELU), tmp_path / "out.engine"
    out.write_bytes(b"an older engine")
    assert main(["build", str(source), str(out), "--with", "rtx", "--profile", "x:1x3,4x3,8x3"]) == 0
    printed = capsys.readouterr()
    assert "built by TensorRT-RTX" in printed.out and f"written to {out}" in printed.out
    assert "no --profile" not in printed.out
    assert printed.err == ""
    assert out.stat().st_size > 1000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx", "out.engine"]


def test_a_dynamic_input_without_a_profile_stops(tmp_path: Path) -> None:
    """The command that is offered builds."""
    source, out = write(tmp_path, RELU), tmp_path / "out.engine"
    with pytest.raises(UsageError, match="'x' is dynamic and has no --profile, which sets the shapes that") as caught:
        engine.build(source, out, runtime="rtx")
    assert not out.exists()
    (command,) = re.findall(r"such as:\n  surgeon (.*)$", str(caught.value))
    assert main([*shlex.split(command), "--with", "rtx"]) == 0 and out.exists()


def test_a_dynamic_input_that_the_profile_leaves_out_stops(tmp_path: Path) -> None:
    ssd = SAMPLES / "ssd_l2norm" / "ssd_l2norm_ts_op13.onnx"
    profile = {"conv4_3": [(1, 16, 38, 38)] * 3}
    with pytest.raises(UsageError, match="'conv5_3' is dynamic and has no --profile") as caught:
        engine.build(ssd, tmp_path / "out.engine", runtime="rtx", profiles=[profile])
    assert str(caught.value).endswith(" --profile conv5_3:1x24x19x19,1x24x19x19,8x24x19x19")


def test_progress_is_reported(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    engine.build(
        SAMPLES / "ssd_l2norm" / "ssd_l2norm_ts_op13.onnx",
        tmp_path / "out.engine",
        runtime="rtx",
        profiles=[{"conv4_3": [(1, 16, 38, 38)] * 3, "conv5_3": [(1, 24, 19, 19)] * 3}],
        progress=lambda *s: steps.append(s),
    )
    assert steps and all(0 <= done <= total for _, done, total in steps)


def test_a_timing_cache_is_not_silently_ignored(tmp_path: Path) -> None:
    source = write(tmp_path, RELU.replace("float[N,3]", "float[2,3]"))
    built = engine.build(source, tmp_path / "out.engine", runtime="rtx", timing_cache=tmp_path / "cache")
    assert any("--timing-cache does nothing" in note for note in built.notes)
    assert not (tmp_path / "cache").exists()


def test_a_refusal_names_node_reason_and_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write(tmp_path, COMPUTED_AXES), tmp_path / "out.engine"
    out.write_bytes(b"an older engine")
    assert main(["build", str(source), str(out), "--with", "rtx"]) == 1
    error = capsys.readouterr().err
    assert "ReduceMax 'max': " in error and "must resolve to a build-time constant" in error
    assert re.search(r"the pass '\S+' may fix this: surgeon rewrite .* --target rtx", error)
    assert "Traceback" not in error
    assert out.read_bytes() == b"an older engine"


def test_the_pass_that_is_named_mends_it(tmp_path: Path) -> None:
    source = write(tmp_path, COMPUTED_AXES)
    with pytest.raises(EngineError) as caught:
        engine.build(source, tmp_path / "out.engine", runtime="rtx")
    (named,) = re.findall(r"the pass '(\S+)' may fix", str(caught.value))
    only = named.replace("+", ",")
    assert main(["rewrite", str(source), str(tmp_path / "mended.onnx"), "--target", "rtx", "--only", only]) == 0
    engine.build(tmp_path / "mended.onnx", tmp_path / "out.engine", runtime="rtx")


def test_the_command_that_mends_it_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my models' own"
    folder.mkdir()
    with pytest.raises(EngineError) as caught:
        engine.build(write(folder, COMPUTED_AXES), tmp_path / "out.engine", runtime="rtx")
    (command,) = re.findall(r"may fix this: (.*)", str(caught.value))
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(command)
    assert program == "surgeon" and main(words) == 0
    engine.build("OUT.onnx", tmp_path / "out.engine", runtime="rtx")


def test_what_no_pass_mends_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"Compress 'squeeze': (.|\n)*no pass rewrites this node for rtx"):
        engine.build(write(tmp_path, UNKNOWN), tmp_path / "out.engine", runtime="rtx")


def test_a_plugin_node_is_not_mended_by_a_library_that_rtx_cannot_load(tmp_path: Path) -> None:
    text = (
        RELU.replace('"" : 17', '"" : 17, "surgeon" : 1')
        .replace("float[N,3]", "float[2,3]")
        .replace("Relu(x)", "surgeon.Nothing(x)")
    )
    with pytest.raises(
        EngineError, match=r"Nothing 'act': .*Plugin not found(.|\n)*no pass rewrites this node for rtx"
    ):
        engine.build(write(tmp_path, text), tmp_path / "out.engine", runtime="rtx")


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (RELU, False),
        (RELU.replace("float[N,3] x", "float16[N,3] x"), True),
        (RELU.replace("Relu(x)", "Cast<to = 10>(x)"), True),
        (RELU.replace("Relu(x)", "Cast<to = 6>(x)"), False),
    ],
)
def test_whether_a_model_computes_in_half(text: str, half: bool) -> None:
    assert computes_in_half(onnx.parser.parse_model(text)) is half


def test_fp16_is_for_weakly_typed_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, RELU)
    assert main(["build", str(source), str(tmp_path / "out.engine"), "--with", "rtx", "--fp16"]) == 2
    said = capsys.readouterr().err
    assert "strongly typed" in said and "`surgeon rewrite --fp16`" in said
    assert not (tmp_path / "out.engine").exists()


@pytest.mark.parametrize(
    ("there", "has_gpu", "chosen"),
    [
        (("tensorrt", "tensorrt_rtx"), True, "tensorrt"),
        (("tensorrt", "tensorrt_rtx"), False, "tensorrt_rtx"),
        (("tensorrt_rtx",), True, "tensorrt_rtx"),
        (("tensorrt",), False, "TensorRT builds engines on a GPU"),
        ((), True, "no TensorRT can be imported"),
    ],
)
def test_the_runtime_is_chosen(
    there: tuple[str, ...], has_gpu: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "importable", lambda module: module in there)
    monkeypatch.setattr(runtime, "gpu", lambda: has_gpu)
    if chosen in ("tensorrt", "tensorrt_rtx"):
        assert runtime.choose_runtime() == chosen
        return
    with pytest.raises(UsageError, match=chosen):
        runtime.choose_runtime()


def test_old_parsers_name_a_node_by_its_number() -> None:
    """Before TensorRT 10 an error has neither node_name nor node_operator."""
    proto = onnx.parser.parse_model(COMPUTED_AXES)
    error = SimpleNamespace(desc=lambda: "Assertion failed:\n  axes", node=lambda: 3)
    found = parser_error(error, proto)
    assert (found.node, found.op, found.why) == ("max", "ReduceMax", "Assertion failed: axes")


def test_one_process_drives_one_of_the_two() -> None:
    lines = (
        "from surgeon.trt import runtime",
        "runtime.use('tensorrt_rtx')",
        "import polygraphy.backend.trt",
        "runtime.use('tensorrt')",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert "Use a process for each" in done.stderr


STYLES = ["image:1x3x64x64,2x3x128x128,2x3x256x256"]


@pytest.mark.parametrize(
    ("sample", "profiles"),
    [
        pytest.param("style_transfer/style_transfer_ts_op11", STYLES, marks=pytest.mark.long),
        pytest.param("style_transfer/style_transfer_ts_op17", STYLES, marks=pytest.mark.long),
        ("style_transfer/style_transfer_dynamo_op18", STYLES),
        ("ssd_l2norm/ssd_l2norm_ts_op13", []),
        ("ssd_l2norm/ssd_l2norm_dynamo_op18", []),
        ("detector_leaky/detector_leaky_ts_op11", []),
        ("detector_leaky/detector_leaky_dynamo_op18", []),
        ("face_prelu/face_prelu_ts_op11", []),
        ("face_prelu/face_prelu_dynamo_op18", []),
        ("worked_examples/activation_clip", []),
        ("worked_examples/parametric_relu", []),
    ],
)
def test_every_rewritten_sample_builds(sample: str, profiles: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    assert main(["rewrite", str(SAMPLES / f"{sample}.onnx"), str(out), "--target", "rtx", "-q"]) == 0
    offered = [f"{name}:{sizes}" for name, sizes in profile_texts(proposed(onnx.load(out))).items()]
    words = [w for p in profiles or offered for w in ("--profile", p)]
    assert main(["build", str(out), str(tmp_path / "out.engine"), "--with", "rtx", *words]) == 0


def test_an_offered_shape_is_one_that_runs() -> None:
    """A window of 400 samples is longer than the first lengths that are tried, and the batch is one everywhere."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,S] sound, float[2,B,4] state, float[B,3,H,W] picture)
    => (float[B,1,T] y, float[2,B,4] z, float[B,3,H,W] p)
    <int64[1] one = {1}, float[1,1,400] w = {0}> {
        x = Unsqueeze (sound, one)  y = Conv (x, w)  z = Identity (state)  p = Relu (picture)
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.zeros((1, 1, 400), np.float32), "w"))
    assert profile_texts(proposed(model)) == {
        "sound": "1x512,1x512,8x4096",
        "state": "2x1x4,2x1x4,2x8x4",
        "picture": "1x3x32x32,1x3x224x224,8x3x448x448",
    }
