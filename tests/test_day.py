"""A user's day: what `surgeon fix` and the end of a rewrite say, what a report records, how a run ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import onnx.parser
import pytest

import surgeon
from surgeon.app import arguments
from surgeon.app.cli import main
from surgeon.app.screen import wrapped
from surgeon.targets.installed import installed_version
from surgeon.targets.target import Target
from surgeon.trt.refusals import Answer, ask

ROOT = Path(__file__).resolve().parent.parent
STYLE = ROOT / "samples" / "style_transfer" / "style_transfer_ts_op11.onnx"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = 0.001> (x, s, b)
}"""
STAYS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x, bool[N] k) => (float[M,3] y) { [squeeze] y = Compress <axis = 0> (x, k) }"""
LATER = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4,3] x) => (int64[2,M] y) { [where] y = NonZero (x) }"""
RTX = pytest.mark.skipif(not installed_version("tensorrt_rtx"), reason="needs TensorRT-RTX")
Captured = pytest.CaptureFixture[str]


def write(folder: Path, text: str, name: str = "in.onnx") -> Path:
    path = folder / name
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def run(*words: str | Path) -> int:
    return main([str(w) for w in words])


# ---- help ------------------------------------------------------------------------------------------------------------


def test_bare_surgeon_shows_help_with_examples(capsys: Captured) -> None:
    assert run() == 0
    printed = capsys.readouterr().out
    assert "usage: surgeon" in printed and "\nexamples:\n  surgeon fix model.onnx --for 8.4\n" in printed


@pytest.mark.parametrize("command", [*arguments.COMMANDS, "plugins build"])
def test_every_help_has_two_examples_that_parse(command: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        run(*command.split(), "--help")
    examples = capsys.readouterr().out.partition("\nexamples:\n")[2].splitlines()
    assert len(examples) == 2
    for example in examples:
        program, *words = shlex.split(example)
        assert program == "surgeon" and words[: len(command.split())] == command.split()
        arguments.parser().parse_args(words)


SHAPES = "--minShapes=x:1x3x8x8 --optShapes=x:1x3x8x8 --maxShapes=x:8x3x8x8"


# ---- fix -------------------------------------------------------------------------------------------------------------


def test_fix_for_another_machine(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, NORM)
    assert run("fix", source, "--for", "8.4") == 0
    printed = capsys.readouterr().out.splitlines()
    out = tmp_path / "in.trt.onnx"
    assert printed[1:3] == ["model  input   x  float[N,3,8,8]", "model  output  y  float[N,3,8,8]"]
    assert "predicted from surgeon's table, not parsed: no TensorRT 8.4 is installed here" in printed
    assert "ONNX Runtime loads it" in printed
    assert printed[-3:] == [
        "TensorRT 8.4 supports all 9 nodes (0 of 1 before); 1 rewrite proved",
        "next, on a machine with TensorRT 8.4:",
        f"  trtexec --onnx=in.trt.onnx --saveEngine=in.trt.engine {SHAPES}",
    ]
    assert re.search("^whole model before and after at x 1x3x8x8: .*, equal$", "\n".join(printed), re.MULTILINE)
    assert out.read_bytes() == surgeon.rewrite(source, target="8.4").model.SerializeToString(deterministic=True)


QUANTIZED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,16] x) => (float[2,16] y) <float s = {0.1}, int8 z = {0}> {
    q = QuantizeLinear (x, s, z)
    y = DequantizeLinear (q, s, z)
}"""
HALF = """<ir_version: 8, opset_import: ["" : 17]>
g (float16[2,16] x) => (float16[2,16] y) { y = Abs (x) }"""


@pytest.mark.parametrize(
    ("text", "target", "option"),
    [
        (QUANTIZED, "8.6", " --int8"),
        (QUANTIZED, "10.9", " --int8"),
        (QUANTIZED, "11", ""),
        (HALF, "8.6", ""),
        (HALF, "9.0", " --stronglyTyped"),
        (HALF, "10.9", " --stronglyTyped"),
        (HALF, "11", ""),
    ],
)
def test_fix_prints_the_option_with_which_the_types_of_the_file_count(
    text: str, target: str, option: str, tmp_path: Path, capsys: Captured
) -> None:
    assert run("fix", write(tmp_path, text), "--for", target) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"  trtexec --onnx=in.trt.onnx --saveEngine=in.trt.engine{option}"


@RTX
def test_fix_shows_what_it_made_of_inputs_and_outputs(tmp_path: Path, capsys: Captured) -> None:
    names = [f"x{k}" for k in range(14)]
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[3] {", float[3] ".join(names)}, int64 n) => (float[3] y) {{
        m = Cast <to = 1> (n)  y = Sum ({", ".join(names)}, m)
    }}"""
    source = write(tmp_path, text)
    assert run("fix", source, "--for", "8.4", "--set", "n=2") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[12:14] == ["model  input   x11     float[3]", "model  input   3 more  with -v"]
    assert run("fix", source, "--for", "8.4", "--set", "n=2", "-v") == 0
    assert "model  input   n    int64[] -> removed" in capsys.readouterr().out.splitlines()


def test_fix_prints_the_values_of_size_inputs_for_other_programs(tmp_path: Path, capsys: Captured) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8,16,16] x, int64[2] hw) => (float[1,8,H,W] y) <int64[2] n = {1, 8}> {
        f = Concat <axis = 0> (n, hw)  y = Resize <mode = "linear"> (x, , , f) }"""
    assert run("fix", write(tmp_path, text), "--for", "10.9") == 0
    values = {"min": "hw:32x32", "opt": "hw:128x128", "max": "hw:512x512"}
    options = {f"trt_profile_{size}_shapes": text for size, text in values.items()}
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "the same values for ONNX Runtime:",
        f"  providers=[('TensorrtExecutionProvider', {options})]",
    ]


def test_fix_for_what_is_installed_asks_its_parser_and_the_next_command_builds(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, NORM)
    assert run("fix", "in.onnx", "--for", "rtx", "-o", "my model.onnx") == 0
    *_, parsed, loaded, _ran, built, runs, _types, _verdict, _next, following = capsys.readouterr().out.splitlines()
    assert parsed.startswith("TensorRT-RTX ") and parsed.endswith(" parses it") and loaded == "ONNX Runtime loads it"
    assert re.fullmatch(r"TensorRT-RTX \S+ builds it, \S+ MB", built)
    assert re.fullmatch(r"\d+ kernels? \(\d+ before\), .* moved .*; built for x:1x3x8x8", runs)
    command = following.removeprefix("  surgeon ")
    assert command == "build 'my model.onnx' 'my model.engine' --profile x:1x3x8x8,1x3x8x8,8x3x8x8"
    assert run(*shlex.split(command)) == 0
    assert (tmp_path / "my model.engine").stat().st_size


@RTX
def test_the_real_parser_names_what_it_refuses(tmp_path: Path) -> None:
    found = ask(str(write(tmp_path, STAYS)), Target.parse("rtx"))
    assert found is not None and found.parser.startswith("TensorRT-RTX")
    assert [r.node for r in found.refused] == ["squeeze"]


def test_fix_fails_where_the_parser_refuses(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    from surgeon.pipeline.check import Untaken

    refused = Answer("TensorRT 8.4.1", [Untaken("norm", "Div", "no")])
    monkeypatch.setattr("surgeon.trt.fix.ask", lambda path, target: refused)
    assert run("fix", write(tmp_path, NORM), "--for", "8.4") == 3
    printed = capsys.readouterr().out
    assert (
        "\nrefused  norm  Div  no\n" in printed and "\nTensorRT 8.4.1 refuses " in printed and "\nnext" not in printed
    )


FP32 = "computes in the types of the file, and this one has fp32: --fp16, --bf16 or --half converts it"
COUNTS = """<ir_version: 8, opset_import: ["" : 17]>
g (int64[2,3] x) => (int64[2,3] y) { y = Add (x, x) }"""

PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1.001, 2.003, 3.007, 4.009}> { y = MatMul (x, w) }"""


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (NORM, ("--for", "11"), f"TensorRT 11 {FP32}"),
        (NORM, ("--for", "11.1"), f"TensorRT 11.1 {FP32}"),
        (NORM, ("--for", "rtx"), f"TensorRT-RTX {FP32}"),
        (NORM, ("--for", "10.9"), ""),
        (NORM, ("--for", "8.6+dla"), ""),
        (NORM, ("--for", "11", "--fp16"), ""),
        (NORM, ("--for", "11", "--bf16"), ""),
        (NORM.replace("float[", "float16["), ("--for", "11"), ""),
        (COUNTS, ("--for", "11"), ""),
    ],
)
def test_fix_for_a_strongly_typed_target_says_that_fp32_stays(
    text: str, words: tuple[str, ...], said: str, tmp_path: Path, capsys: Captured
) -> None:
    run("fix", write(tmp_path, text), *words)
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "types of the file" in line] == ([said] if said else [])


UNUSED_INT8 = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,2] y) <float s = {0.05}, uint8 z = {100}, float[2,2] w = {0.5, -1, 0.25, 2}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    y = MatMul (d, w)
}"""


@pytest.mark.parametrize(("words", "said"), [((), True), (("--symmetric-int8", "--repair-qdq"), False)])
def test_fix_says_that_quantizers_gain_nothing(
    words: tuple[str, ...], said: bool, tmp_path: Path, capsys: Captured
) -> None:
    run("fix", write(tmp_path, UNUSED_INT8), "--for", "10.9", *words)
    hint = "nodes with quantizers gain nothing from int8 as the file has them: --symmetric-int8 --repair-qdq places"
    assert (hint in capsys.readouterr().out) == said


def test_fix_counts_a_quantizer_with_two_faults_once(tmp_path: Path, capsys: Captured) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,16] x) => (float[2,16] y) <float s = {0.1}, uint8 z = {3}> {
    a = Abs (x)
    q = QuantizeLinear (a, s, z)
    d = DequantizeLinear (q, s, z)
    y = Softmax (d)
}"""
    run("check", write(tmp_path, text), "--target", "10.9")
    assert capsys.readouterr().out.count("surgeon rewrite --symmetric-int8 --repair-qdq") == 2
    run("fix", write(tmp_path, text), "--for", "10.9")
    assert "1 node with quantizers gains nothing from int8" in capsys.readouterr().out


def test_fix_writes_reports_that_can_be_verified(tmp_path: Path, capsys: Captured) -> None:
    source, report, page = write(tmp_path, NORM), tmp_path / "r.json", tmp_path / "r.html"
    assert run("fix", source, "--for", "8.4", "--report", report, "--report", page) == 0
    written = json.loads(report.read_text())
    jsonschema.validate(written, SCHEMA)
    assert [Path(f["path"]).name for f in written["record"]["output"]] == ["in.trt.onnx"]
    assert "in.trt.onnx" in page.read_text() and "2 reports written to" in capsys.readouterr().out
    assert run("verify", report) == 0
    assert run("fix", source, "--for", "8.4", "--report", tmp_path / "in.trt.onnx") == 2
    write(tmp_path, PRODUCT)
    assert run("fix", source, "--for", "rtx", "--fp16", "--tolerance", "1e-9", "--report", report) == 1
    assert json.loads(report.read_text())["record"]["output"] == []


def test_fix_prints_json(tmp_path: Path, capsys: Captured) -> None:
    assert run("fix", write(tmp_path, NORM), "--for", "8.4", "--format", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["exit_status"] == 0 and printed["fix"]["command"].startswith("trtexec --onnx=in.trt.onnx")
    assert printed["fix"]["not_parsed"] == "no TensorRT 8.4 is installed here" and not printed["fix"]["refused"]


def test_fix_in_python_says_the_same(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, NORM)
    fixed = surgeon.fix(source, target="8.4")
    assert fixed.ok and fixed.path == tmp_path / "in.trt.onnx" and not capsys.readouterr().out
    assert fixed.verdict == "TensorRT 8.4 supports all 9 nodes (0 of 1 before); 1 rewrite proved"
    assert repr(fixed).splitlines() == [
        f"Fixed: {fixed.verdict}",
        f"  written to {fixed.path}",
        "  predicted from surgeon's table, not parsed: no TensorRT 8.4 is installed here",
        "  ONNX Runtime loads it",
        f"  {fixed.ran}",
        f"  next, on a machine with TensorRT 8.4: trtexec --onnx=in.trt.onnx --saveEngine=in.trt.engine {SHAPES}",
    ]


def test_fix_of_a_model_in_memory_asks_for_a_place(tmp_path: Path) -> None:
    given = onnx.parser.parse_model(NORM)
    with pytest.raises(surgeon.UsageError, match="give a path"):
        surgeon.fix(given, target="8.4")
    fixed = surgeon.fix(given, tmp_path / "out.onnx", target="8.4")
    assert fixed.saved is None and fixed.path.exists()


def test_fix_names_what_stays_and_the_cure(tmp_path: Path) -> None:
    fixed = surgeon.fix(write(tmp_path, NORM), target="8.4", skip=["instance-norm"])
    assert not fixed.ok and not fixed.command
    assert fixed.advice == ["omit --only, --skip or --strategy"]


@RTX
def test_fix_in_python_asks_the_parser(tmp_path: Path) -> None:
    fixed = surgeon.fix(write(tmp_path, STAYS), target="rtx")
    assert not fixed.ok and [r.node for r in fixed.parsed.refused] == ["squeeze"]
    assert fixed.verdict.startswith(f"{fixed.parsed.parser} refuses {fixed.path}; ")


def test_fix_takes_the_options_of_a_file(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "surgeon.toml").write_text('target = "8.4"\nskip = ["instance-norm"]\n')
    write(tmp_path, NORM)
    monkeypatch.chdir(tmp_path)
    assert run("fix", "in.onnx") == 3
    assert "TensorRT 8.4 supports 0 of 1 nodes (unchanged)" in capsys.readouterr().out


def test_fix_prints_what_was_declined_where_it_matters(tmp_path: Path, capsys: Captured) -> None:
    """Where the target supports all, it is not news that a pass declined something; -v prints it all the same."""
    words = ("fix", ROOT / "samples/quantized_ocr/ocr_asymmetric.onnx", "--for", "8.4", "-o", tmp_path / "out.onnx")
    assert run(*words) == 0
    assert "declined" not in capsys.readouterr().out
    run(*words, "-v")
    assert "\ndeclined  fold" in capsys.readouterr().out
    run("fix", write(tmp_path, NORM.replace("float[", "bfloat16[")), "--for", "8.4")
    assert "\ndeclined  instance-norm" in capsys.readouterr().out


def test_fix_writes_over_no_input(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, NORM)
    assert run("fix", source, "-o", source) == 2
    assert "the input itself" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_an_error_is_wrapped_at_words_and_its_command_is_not(tmp_path: Path) -> None:
    import pty

    onnx.save(onnx.parser.parse_model(NORM), tmp_path / "m.onnx")
    above, below = pty.openpty()
    words = [sys.executable, "-m", "surgeon", "build", "m.onnx", "an_engine_with_a_name_that_is_long.engine"]
    env = os.environ | {"COLUMNS": "40", "PYTHONPATH": str(Path(__file__).parent.parent)}
    subprocess.run(words, cwd=tmp_path, stderr=below, env=env, check=False, timeout=60)
    os.close(below)
    lines = os.read(above, 10_000).decode().splitlines()
    os.close(above)
    assert all(len(line) <= 40 for line in lines[:-1]) and "".join(lines[:2]).startswith("surgeon: "), lines
    assert lines[-1].startswith("  surgeon build m.onnx an_engine_with_a_name_that_is_long.engine --profile "), lines


def test_no_word_is_broken() -> None:
    text = "written to a/very/long/path/model.trt.onnx, 0.6 s\n    Why  one-two three"
    assert wrapped(text, 20) == [
        "written to",
        "a/very/long/path/model.trt.onnx,",
        "0.6 s",
        "    Why  one-two",
        "    three",
    ]
    assert wrapped("as it is\n\n  so", 20) == ["as it is", "", "  so"]


# ---- what remains, and its cure --------------------------------------------------------------------------------------


def cure(folder: Path, text: str, *words: str) -> str:
    report = folder / "r.json"
    run("rewrite", write(folder, text), "--check", "--report", report, *words)
    (found,) = {entry["cure"] for entry in json.loads(report.read_text())["untaken"]}
    return str(found)


def test_a_cure_is_a_later_release_that_takes_it(tmp_path: Path) -> None:
    found = cure(tmp_path, LATER, "--target", "8.2")
    release = found.removeprefix("TensorRT ").removesuffix(" supports it")
    assert not surgeon.check(tmp_path / "in.onnx", target=release).untaken
    assert surgeon.check(tmp_path / "in.onnx", target="8.2").untaken


def test_the_cure_beside_a_dla_is_its_gpu(tmp_path: Path) -> None:
    reflect = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,3,8,8] x) => (float[1,3,8,10] y) <int64[8] p = {0, 0, 0, 1, 0, 0, 0, 1}> {
      y = Pad <mode = "reflect"> (x, p)
    }"""
    assert cure(tmp_path, reflect, "--target", "8.6+dla") == "the GPU beside the DLA supports it"


@pytest.mark.parametrize("words", [["--skip", "instance-norm"], ["--skip", "instance-norm:norm"], ["--only", "fold"]])
def test_a_cure_is_an_option_to_leave_out(words: list[str], tmp_path: Path) -> None:
    assert cure(tmp_path, NORM, "--target", "8.4", *words) == "omit --only, --skip or --strategy"


def test_a_cure_is_an_option_to_give(tmp_path: Path) -> None:
    """ONNX Runtime has no InstanceNormalization in bf16, so the window cannot be run."""
    found = cure(tmp_path, NORM.replace("float[", "bfloat16["), "--target", "8.4")
    assert found == "--allow-unproved keeps the rewrite of instance-norm"


def test_no_cure_is_said(tmp_path: Path) -> None:
    custom = STAYS.replace(" : 17]", ' : 17, "mine" : 1]').replace("Compress", "mine.Compress")
    assert cure(tmp_path, custom, "--target", "8.4").startswith("export it without this operator")


CAST = "(float[2] x) => (float[2] y) { k = Constant <value = OTHER[2] {1, 2}> () f = Cast <to = 1> (k) y = Add (x, f) }"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CAST.replace("OTHER", "uint16"), "export it with int32 in place of uint16"),
        (CAST.replace("OTHER", "uint32"), "export it with int64 in place of uint32"),
        ("(string[2] x) => (string[2] y) { y = Identity (x) }", "an engine has no strings"),
        ("(complex64[2] x) => (complex64[2] y) { y = Identity (x) }", "an engine has no complex numbers"),
        ("() => (int8[2] y) { y = Constant <value = int8[2] {1, 2}> () }", "hold these numbers in int32 or in fp32"),
        ("(float[1,1,3,3] x) => (float[] y) { y = LRN <size = 16> (x) }", "export it with an odd size"),
    ],
)
def test_the_cure_of_a_type_is_another_type(text: str, why: str, tmp_path: Path) -> None:
    assert why in cure(tmp_path, f'<ir_version: 8, opset_import: ["" : 17]> g {text}', "--target", "rtx")


def test_what_a_condition_refuses_is_to_be_changed(tmp_path: Path) -> None:
    text = "(float[2,3] x) => (float[2,3] y) { y = LpNormalization <p = 3> (x) }"
    found = cure(tmp_path, f'<ir_version: 8, opset_import: ["" : 17]> g {text}', "--target", "rtx")
    assert found.startswith("export it without what the reason names")


def test_an_operator_without_an_exact_form_has_a_cure_of_its_own(tmp_path: Path) -> None:
    drawn = """<ir_version: 10, opset_import: ["" : 17]>
g () => (int32[2,4] y) { x = Constant <value = float[2,3] {1,2,3,4,5,6}> () y = Multinomial <sample_size = 4> (x) }"""
    learnt = """<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.SVMRegressor <coefficients = [1.0], rho = [2.0]> (x) }"""
    laid_out = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
g (float[1,16,4,4] x) => (float[1,16,4,4] y) { y = com.microsoft.nchwc.ReorderInput (x) }"""
    generated = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (int64[2,4] i, float[2,9] s) => (float[2,9] y) { y = com.microsoft.NGramRepeatBlock <ngram_size = 2> (i, s) }"""
    assert cure(tmp_path, laid_out, "--target", "rtx").endswith("with ORT_ENABLE_EXTENDED at most")
    assert cure(tmp_path, generated, "--target", "rtx").startswith("export one step of the decoder")
    assert cure(tmp_path, STAYS, "--target", "8.4").endswith("select with Where")
    assert cure(tmp_path, drawn, "--target", "rtx").startswith("draw the random numbers outside")
    assert cure(tmp_path, learnt, "--target", "rtx").endswith("run it outside the engine")


# ---- the audit record ------------------------------------------------------------------------------------------------


def test_the_report_records_the_run(tmp_path: Path, capsys: Captured) -> None:
    source, out, report = write(tmp_path, NORM), tmp_path / "out.onnx", tmp_path / "r.json"
    words = ["rewrite", str(source), str(out), "--target", "8.4", "--report", str(report), "--skip", "fold"]
    assert run(*words) == 0
    written = json.loads(report.read_text())
    jsonschema.validate(written, SCHEMA)
    told = written["record"]
    assert told["command"] == ["surgeon", *words] and told["exit_status"] == 0
    assert told["options"]["skip"] == ["fold"] and told["options"]["target"] == "8.4"
    for path, (entry,) in ((source, told["input"]), (out, told["output"])):
        data = path.read_bytes()
        assert entry == {"path": str(path), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert told["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert told["versions"]["onnx"] == onnx.__version__


def test_the_record_has_the_weights(tmp_path: Path) -> None:
    source, report = tmp_path / "in.onnx", tmp_path / "r.json"
    (tmp_path / "out").mkdir()
    model = onnx.parser.parse_model(NORM)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    run("rewrite", source, tmp_path / "out" / "out.onnx", "--target", "10.9", "--report", report)
    written = json.loads(report.read_text())
    jsonschema.validate(written, SCHEMA)
    paths = [[Path(f["path"]).relative_to(tmp_path) for f in written["record"][side]] for side in ("input", "output")]
    assert paths == [[Path("in.onnx"), Path("weights.bin")], [Path("out/out.onnx"), Path("out/weights.bin")]]
    first, second = (written["record"][side][1]["sha256"] for side in ("input", "output"))
    assert first == second == hashlib.sha256((tmp_path / "weights.bin").read_bytes()).hexdigest()


def test_nothing_written_is_recorded_as_nothing(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    assert run("rewrite", write(tmp_path, NORM), "--check", "--target", "8.4", "--report", report) == 4
    written = json.loads(report.read_text())
    jsonschema.validate(written, SCHEMA)
    assert written["record"]["output"] == [] and written["record"]["exit_status"] == 4


def test_fix_says_nothing_of_a_model_that_it_did_not_write(tmp_path: Path, capsys: Captured) -> None:
    metric = tmp_path / "m.py"
    metric.write_text("def score(inputs, expected, given): return 1.0\n")
    assert run("fix", write(tmp_path, NORM), "--for", "11", "--fp16", "--metric", f"{metric}:score") == 1
    printed = capsys.readouterr().out
    assert "nothing written" in printed and "ONNX Runtime loads it" not in printed and "not parsed" not in printed


def test_a_conversion_is_in_the_report(tmp_path: Path) -> None:
    """Errors that are inf are null, and integers and scores have the same fields."""
    report = tmp_path / "r.json"
    big = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4] x) => (float[2,4] y, int64[2,1] k) <float[4] c = {1e4, 2e4, 3e4, 4e4}> {
  a = Mul (x, c) y = Mul (a, c) k = ArgMax <axis = 1> (a) }"""
    metric = tmp_path / "m.py"
    metric.write_text("def score(inputs, expected, given): return float('nan')\n")
    for words, status in (((), 0), (("--metric", f"{metric}:score"), 1), (("--io-fp16", "--allow-inexact"), 1)):
        run(
            "rewrite",
            write(tmp_path, big),
            tmp_path / "o.onnx",
            "--target",
            "rtx",
            "--fp16",
            *words,
            "--report",
            report,
        )
        written = json.loads(report.read_text())
        jsonschema.validate(written, SCHEMA)
        assert written["record"]["exit_status"] == status, written["precision"]
    assert any(o["relative"] is None for o in written["precision"]["outputs"])


def test_the_schema_refuses_a_report_that_lacks_something(tmp_path: Path) -> None:
    report = surgeon.rewrite(write(tmp_path, NORM), target="8.4").report.to_json()
    jsonschema.validate(report, SCHEMA)
    del report["untaken_before"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, SCHEMA)


def test_a_report_of_an_unknown_kind_is_refused(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out.onnx"
    assert run("rewrite", write(tmp_path, NORM), out, "--target", "8.4", "--report", tmp_path / "r.xml") == 2
    assert "--report writes R.json or R.html" in capsys.readouterr().err and not out.exists()


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_a_smaller_model_is_said(tmp_path: Path, capsys: Captured) -> None:
    text = NORM.replace("17", "11").replace("[norm] y = Inst", "u = Identity(w)\n  [norm] y = Inst")
    model = onnx.parser.parse_model(text.replace("float[3] s", "float[1] w = {0}, float[3] s"))
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.zeros(400_000, np.float32), "w"))
    onnx.save(model, tmp_path / "in.onnx")
    assert run("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "--target", "10.9") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("; 1.6 MB smaller")


# ---- verify ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def reported(tmp_path: Path, capsys: Captured) -> Path:
    out, report = tmp_path / "out.onnx", tmp_path / "r.json"
    run("rewrite", write(tmp_path, NORM), out, "--target", "8.4", "--skip", "fold", "--report", report)
    capsys.readouterr()
    return report


def test_a_report_is_verified(reported: Path, capsys: Captured) -> None:
    assert run("verify", reported) == 0
    assert capsys.readouterr().out.endswith("; 1 rewrite made and proved again\n")


def test_a_changed_file_is_found(reported: Path, capsys: Captured) -> None:
    out = reported.parent / "out.onnx"
    out.write_bytes(out.read_bytes() + b"\x00")
    assert run("verify", reported) == 1
    assert "out.onnx' has changed since then" in capsys.readouterr().out
    (reported.parent / "in.onnx").unlink()
    assert run("verify", reported) == 1
    assert "in.onnx' is missing" in capsys.readouterr().out


def test_a_report_of_other_rewrites_is_found(reported: Path, capsys: Captured) -> None:
    told = json.loads(reported.read_text())
    told["applied"][0]["pass"] = "l2-norm"
    told["record"]["output"][0]["sha256"] = "0" * 64
    reported.write_text(json.dumps(told))
    assert run("verify", reported) == 1
    printed = capsys.readouterr().out
    assert "the rewrites differ: " in printed and "the written model differs" in printed


@pytest.mark.parametrize(("text", "said"), [("{", "is not JSON"), ("{}", "is not a report"), ("[]", "is not a report")])
def test_what_is_no_report(text: str, said: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "r.json").write_text(text)
    assert run("verify", tmp_path / "r.json") == 2
    assert said in capsys.readouterr().err


# ---- completion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("surgeon rew", "rewrite"),
        ("surgeon check m.onnx --targ", "--target"),
        ("surgeon fix --for jetson-o", "jetson-orin"),
        ("surgeon rewrite m.onnx --only l2", "l2-norm"),
        ("surgeon diff-targets 8.", "8.4"),
    ],
)
def test_tab_completes(typed: str, expected: str, tmp_path: Path) -> None:
    """A shell asks with these variables, and reads the words from a file."""
    pytest.importorskip("argcomplete")
    told = tmp_path / "told"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(told),
        "COMP_LINE": typed,
        "COMP_POINT": str(len(typed)),
    }
    subprocess.run([sys.executable, "-m", "surgeon"], env=os.environ | asked, check=False, timeout=60)
    assert expected in [word.strip() for word in told.read_text().split("\x0b")]


def test_the_words_for_a_shell(capsys: Captured) -> None:
    pytest.importorskip("argcomplete")
    assert main(["completion", "bash"]) == 0
    assert "complete " in capsys.readouterr().out
    assert main(["completion", "csh"]) == 2
