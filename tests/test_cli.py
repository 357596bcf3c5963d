"""The command line: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import program
import pytest
from blocks import PROGRESS
from program import on_terminal

import surgeon
from surgeon.app.cli import main
from surgeon.proof import whole
from surgeon.proof.judge import Verdict

ROOT = Path(__file__).resolve().parent.parent
STYLE = ROOT / "samples" / "style_transfer" / "style_transfer_ts_op11.onnx"
LEAKY = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float a = {0.1}> {
  [times] m = Mul(x, a)
  [larger] h = Max(x, m)
  [last] y = Neg(h)
}"""
CONVOLVED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3,3,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float a = {0.1}> {
  c = Conv(x, w)
  m = Mul(c, a)
  h = Max(c, m)
  y = Neg(h)
}"""
NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = 0.001> (x, s, b)
}"""
UNKNOWN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x) => (float[M,3] y) {
  [condition] c = Greater(x, x)
  [row] r = ReduceMax <axes = [1], keepdims = 0> (x)
  [keep] k = Cast <to = 9> (r)
  [squeeze] y = Compress <axis = 0> (x, k)
}"""
LOWERING = ["l2-norm", "opset"]
WRONG_PASS = '''"""Forget the slope: wrong on purpose.

Why  A test.
"""

from surgeon import Stage, const, op, rewrite, var

x = var("x")


@rewrite(op.Max(x, x * const("a")), stage=Stage.FUSE)
def wrong(b, x, a):
    return b.Relu(x)
'''
Captured = pytest.CaptureFixture[str]


def write(folder: Path, text: str, name: str = "in.onnx") -> Path:
    path = folder / name
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def run(*words: str | Path) -> int:
    return main([str(w) for w in words])


# ---- start-up --------------------------------------------------------------------------------------------------------

HEAVY = ("onnxruntime", "polygraphy", "tensorrt", "tensorrt_rtx", "onnx_graphsurgeon", "rich")


@pytest.mark.parametrize(
    "words", [["--help"], ["rewrite", "--help"], ["--version"], ["passes"], ["explain", "leaky-relu"]]
)
def test_answers_without_heavy_imports(words: list[str]) -> None:
    code = (
        "import sys\nfrom surgeon.app.cli import main\n"
        f"try: status = main({words!r})\nexcept SystemExit as end: status = end.code or 0\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[] 0", done.stdout


def test_module_and_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "surgeon", "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == f"surgeon {surgeon.__version__}\n"


# ---- rewrite ---------------------------------------------------------------------------------------------------------


def test_rewrite_writes_and_reports(tmp_path: Path, capsys: Captured) -> None:
    source, out, report = write(tmp_path, LEAKY), tmp_path / "out.onnx", tmp_path / "r.json"
    assert run("rewrite", source, out, "--target", "8.4", "--report", report) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{source}, target 8.4"
    assert re.fullmatch(r"applied  leaky-relu +fuse  1x  2 -> 1 nodes  error \S+  tested", printed[1])
    assert printed[-2].startswith("1 rewrite, proved in isolation, largest error ")
    assert f"written to {out}" in printed[-2]
    assert printed[-1] == "TensorRT 8.4 supports all 2 nodes (all 3 before); 1 rewrite proved"
    assert [n.op_type for n in onnx.load(out).graph.node] == ["LeakyRelu", "Neg"]
    written = json.loads(report.read_text())
    keys = {"schema", "surgeon", "target", "failed", "undone", "untaken", "warnings", "verify"}
    keys |= {"applied", "declined", "ops", "seconds"}
    assert keys <= set(written)
    assert (written["schema"], written["target"]) == (1, "8.4")
    (applied,) = written["applied"]
    assert set(applied) == {"pass", "strategy", "root", "outputs", "removed", "added", "max_error", "grade"}
    assert applied["removed"] == ["times", "larger"] or applied["removed"] == ["larger", "times"]
    assert applied["max_error"] <= 1e-6
    assert applied["grade"] == "tested"
    assert written["ops"] == {"before": {"Max": 1, "Mul": 1, "Neg": 1}, "after": {"LeakyRelu": 1, "Neg": 1}}
    assert set(written["verify"]) >= {"mode", "skipped"}


def test_second_run_writes_the_same_bytes(tmp_path: Path, capsys: Captured) -> None:
    source, out, again = write(tmp_path, LEAKY), tmp_path / "out.onnx", tmp_path / "again.onnx"
    run("rewrite", source, out, "--target", "8.4")
    capsys.readouterr()
    assert run("rewrite", out, again, "--target", "8.4") == 0
    assert "nothing to rewrite" in capsys.readouterr().out
    assert again.read_bytes() == out.read_bytes()


def test_the_default_target_is_said(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, LEAKY)
    run("rewrite", source, tmp_path / "out.onnx")
    first = capsys.readouterr().out.splitlines()[0]
    assert re.search(r", target \S+ \(the default: .*(installed|imported)", first), first


def test_check_writes_nothing(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, LEAKY)
    assert run("rewrite", source, "--check", "--target", "8.4") == 4
    assert run("rewrite", source, tmp_path / "out.onnx", "--check", "--target", "8.4") == 4
    assert run("rewrite", source, "--check", "--target", "8.4", "--exit-zero") == 0
    assert "nothing written (--check)" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]
    run("rewrite", source, tmp_path / "out.onnx", "--target", "8.4")
    assert run("rewrite", tmp_path / "out.onnx", "--check", "--target", "8.4") == 0


def test_diff_shows_windows_and_operators(tmp_path: Path, capsys: Captured) -> None:
    run("rewrite", write(tmp_path, LEAKY), "--check", "--target", "8.4", "--diff")
    printed = capsys.readouterr().out
    assert "- h = Max(x, m)" in printed
    assert "- m = Mul(x, a=0.1)" in printed
    assert "+ h = LeakyRelu(x, alpha=0.1)" in printed
    assert re.search(r"^operator +Max +1 before +0 after$", printed, re.MULTILINE)
    assert "Neg" not in printed.split("@@")[0]


def test_diff_says_what_is_read_instead(tmp_path: Path, capsys: Captured) -> None:
    """Of a tensor whose node went without another in its place."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[1,2,2,1] y) <int64[2] a = {1, 2}, int64[2] b = {2, 1}> {
      i = Identity(x)
      c = Concat <axis = 0> (a, b)
      y = Reshape(i, c)
    }"""
    run("rewrite", write(tmp_path, text), "--check", "--target", "8.4", "--diff")
    printed = capsys.readouterr().out
    assert "- c = Concat(a, b, axis=0)\n+ c = [1, 2, 2, 1]" in printed
    assert "- i = Identity(x)\n+ i = x" in printed


def test_quiet_and_verbose(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, LEAKY)
    assert run("rewrite", source, tmp_path / "out.onnx", "--target", "8.4", "-q") == 0
    assert capsys.readouterr() == ("", "")
    run("rewrite", source, tmp_path / "out.onnx", "--target", "8.4", "-v")
    assert re.search(r"^applied .* at larger$", capsys.readouterr().out, re.MULTILINE)


def test_only_skip_and_globs(tmp_path: Path) -> None:
    source, out = write(tmp_path, LEAKY), tmp_path / "out.onnx"
    for words in (["--only", "identity"], ["--skip", "leaky-relu"], ["--skip", "leaky-relu:larg*"]):
        run("rewrite", source, out, "--target", "8.4", *words)
        assert "LeakyRelu" not in [n.op_type for n in onnx.load(out).graph.node], words
    run("rewrite", source, out, "--target", "8.4", "--skip", "leaky-relu:other*")
    assert "LeakyRelu" in [n.op_type for n in onnx.load(out).graph.node]


def test_a_glob_that_meets_no_node_is_told(tmp_path: Path, capsys: Captured) -> None:
    source, out, report = write(tmp_path, LEAKY), tmp_path / "out.onnx", tmp_path / "report.json"
    wrong = "--skip leaky-relu:lager* matches no node"
    words = ["--skip", "leaky-relu:lager*", "--skip", "leaky-relu:larg*", "--skip", "identity:larger"]
    assert run("rewrite", source, out, "--target", "8.4", "--report", report, *words) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "--skip" in line] == [f"warning  {wrong}"]
    assert json.loads(report.read_text())["warnings"] == [wrong]


def test_strategy(tmp_path: Path) -> None:
    source, out = write(tmp_path, LEAKY), tmp_path / "out.onnx"
    run("rewrite", source, out, "--target", "8.4")
    assert run("rewrite", out, tmp_path / "back.onnx", "--target", "8.4", "--strategy", "leaky-relu=decompose") == 0
    assert "LeakyRelu" not in [n.op_type for n in onnx.load(tmp_path / "back.onnx").graph.node]


def test_a_strategy_is_told_where_another_rule_goes_on(tmp_path: Path) -> None:
    """The plugin takes a Relu in; the opset of an older target changes what a decomposition wrote."""
    text = NORM.replace("y = Inst", "n = Inst").replace("(x, s, b)", "(x, s, b)  y = Relu(n)")
    result = surgeon.rewrite(write(tmp_path, text), target="8.4", plugins=["surgeon"])
    assert [(a.strategy, len(a.removed), len(a.added)) for a in result.report.applied] == [("plugin", 2, 1)]
    old = surgeon.rewrite(ROOT / "samples" / "ssd_l2norm" / "ssd_l2norm_dynamo_op18.onnx", target="8.4", only=LOWERING)
    windows = [a for a in old.report.applied if a.pass_name == "l2-norm+opset"]
    assert windows and {a.strategy for a in windows} == {"decompose"}
    for a in windows:  # in the order in which they run
        assert [line.split(" = ")[1].split("(")[0] for line in a.after] == ["ReduceL2", "Div", "Mul"]


def test_a_wrong_pass_is_undone(tmp_path: Path, capsys: Captured) -> None:
    source, out = write(tmp_path, LEAKY), tmp_path / "out.onnx"
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "wrong.py").write_text(WRONG_PASS)
    words = ["--target", "8.4", "--passes", tmp_path / "passes", "--only", "wrong"]
    assert run("rewrite", source, out, *words) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^undone  wrong  larger  on .* inputs it differs", printed, re.MULTILINE)
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Mul", "Max", "Neg"]
    assert run("rewrite", source, out, *words, "--verify", "none") == 0
    assert "none proved (--verify none)" in capsys.readouterr().out
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Relu", "Neg"]


def test_strict_writes_nothing(tmp_path: Path, capsys: Captured) -> None:
    source, out = write(tmp_path, UNKNOWN), tmp_path / "out.onnx"
    report = tmp_path / "r.json"
    assert run("rewrite", source, out, "--target", "8.4", "--strict", "--report", report) == 3
    told = json.loads(report.read_text(encoding="utf-8"))
    assert told["failed"] and [set(node) for node in told["untaken"]] == [{"pass", "node", "why", "cure"}]
    assert not out.exists()
    assert "nothing written (--strict)" in capsys.readouterr().out
    assert run("rewrite", source, out, "--target", "8.4") == 3
    assert out.exists()
    printed = capsys.readouterr().out
    assert re.search(r"^unsupported  squeeze  .*; advice: its output size depends", printed, re.MULTILINE), printed
    assert printed.endswith("TensorRT 8.4 supports 3 of 4 nodes (unchanged)\n")
    assert run("rewrite", source, out, "--target", "8.4", "--exit-zero") == 0


def test_whole_models_are_compared(tmp_path: Path, capsys: Captured) -> None:
    assert (
        run(
            "rewrite",
            write(tmp_path, LEAKY),
            tmp_path / "out.onnx",
            "--target",
            "8.4",
            "--verify",
            "full",
            "--shapes",
            "x:2x3x8x8",
        )
        == 0
    )
    assert "whole models agree to " in capsys.readouterr().out


UNSIZED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,S] x) => (float[7,11] y) <int64[2] s = {7, 11}, float a = {0.1}> {
  r = Reshape (x, s)
  t = Mul (r, a)
  y = Max (t, r)
}"""


def test_whole_models_that_cannot_be_compared(tmp_path: Path, capsys: Captured) -> None:
    """No size that is tried has 77 elements: written, and no success, unless somebody said that it is one."""
    source, out, report, page = (write(tmp_path, UNSIZED), *(tmp_path / n for n in ("out.onnx", "r.json", "r.html")))
    words = ["rewrite", source, out, "--target", "10.9", "--verify", "full", "--report", report, "--report", page]
    assert run(*words) == 1 and out.exists()
    closing = capsys.readouterr().out.splitlines()[-2]
    said = re.search(
        r"the whole models were not compared: (.*); with --allow-unproved that is not a failure; ", closing
    )
    assert said and said[1] == json.loads(report.read_text())["verify"]["failed"]
    assert run(*words, "--allow-unproved") == 0
    printed = capsys.readouterr().out
    assert f"\nwarning  the whole models were not compared: {said[1]}\n" in printed
    assert "proved in isolation" in printed and "the whole models were not compared; written to" in printed
    written = json.loads(report.read_text())
    assert written["verify"]["compared"] is False and "failed" not in written["verify"]
    assert "whole models were not compared" in page.read_text()


@pytest.mark.parametrize("more", [[], ["--allow-unproved"]])
def test_whole_models_that_differ_are_a_failure(
    more: list[str], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "prove_models", lambda *_, **__: Verdict(False, 0.5, "they differ by half"))
    words = ["rewrite", write(tmp_path, LEAKY), tmp_path / "out.onnx", "--target", "8.4", "--verify", "full"]
    assert run(*words, *more) == 1
    assert "the whole models differ: they differ by half; written to" in capsys.readouterr().out


def test_fp16(tmp_path: Path, capsys: Captured) -> None:
    source, out, report = write(tmp_path, NORM), tmp_path / "out.onnx", tmp_path / "r.json"
    words = ["--target", "rtx", "--fp16", "--report", report, "--shapes", "x:2x3x8x8"]
    assert run("rewrite", source, out, *words) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^fp16 output  y  error \S+  99 % below \S+  cosine \S+  equal$", printed, re.MULTILINE)
    assert "inputs  'x' [2, 3, 8, 8]: random numbers" in printed
    written = json.loads(report.read_text())["precision"]
    assert (
        written["max_error"] <= 2e-3 and written["type"] == "fp16" and [k["node"] for k in written["kept"]] == ["norm"]
    )
    assert run("rewrite", write(tmp_path, LEAKY), out, "--target", "rtx", "--fp16", "--io-fp16") == 0
    assert onnx.load(out).graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert run("rewrite", out, "--target", "rtx", "--keep-fp32", "Max", "--check") == 2
    assert "--keep-fp32 needs --fp16" in capsys.readouterr().err


def test_what_is_counted_is_what_was_written(tmp_path: Path, capsys: Captured) -> None:
    """The casts of a conversion to fp16 count, in the answer, in the table and in the reports."""
    source, out = write(tmp_path, CONVOLVED), tmp_path / "out.onnx"
    reports = ["--report", tmp_path / "r.json", "--report", tmp_path / "r.html"]
    assert run("rewrite", source, out, "--target", "8.4", "--fp16", *reports) == 0
    nodes = len(onnx.load(out).graph.node)
    printed = capsys.readouterr().out
    assert (
        nodes > 2
        and f"supports all {nodes} nodes" in printed
        and re.search(r"operator +Cast +0 before +2 after", printed)
    )
    assert sum(json.loads((tmp_path / "r.json").read_text())["ops"]["after"].values()) == nodes
    assert f"4 &rarr; {nodes}" in (tmp_path / "r.html").read_text()


def test_fp16_that_could_not_be_compared(tmp_path: Path, capsys: Captured) -> None:
    """Neither written nor a success, unless somebody asked not to prove."""
    old = LEAKY.replace('"" : 17', '"" : 8')
    source, out, report = write(tmp_path, old), tmp_path / "out.onnx", tmp_path / "r.json"
    words = ["rewrite", source, out, "--target", "10.9", "--fp16", "--report", report]
    assert run(*words) == 1 and not out.exists()
    said = re.search(
        r"^.* casts? between them, not compared: (.*); with --allow-unproved", capsys.readouterr().out, re.M
    )
    assert said and said[1] == json.loads(report.read_text())["precision"]["not_compared"]
    assert run(*words, "--allow-unproved") == 0
    assert "not compared: the model's opset is older than 9" in capsys.readouterr().out
    assert run(*words, "--verify", "none") == 0
    assert "not compared: not requested" in capsys.readouterr().out


def test_reports(tmp_path: Path, capsys: Captured) -> None:
    """--report twice: JSON and a page, by their names; neither may be the model."""
    source, out = write(tmp_path, NORM), tmp_path / "out.onnx"
    page, data = tmp_path / "r.html", tmp_path / "r.json"
    words = ["--target", "8.4", "--fp16", "--report", page, "--report", data, "--shapes", "x:2x3x8x8"]
    assert run("rewrite", source, out, *words) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "<svg" in text and "Kept in fp32" in text and out.name in text
    assert json.loads(data.read_text())["target"] == "8.4"
    assert run("rewrite", source, "--check", "--target", "8.4", "--report", page) == 4
    assert "nothing written" in page.read_text(encoding="utf-8")
    assert run("rewrite", source, out, "--report", data, "--report", out) == 2
    assert "cannot both be written" in capsys.readouterr().err


def test_a_rewrite_for_machines(tmp_path: Path, capsys: Captured) -> None:
    source, out = write(tmp_path, UNKNOWN), tmp_path / "out.onnx"
    assert run("rewrite", source, out, "--target", "8.4", "--format", "github") == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"::error file={source},title=surgeon unsupported::TensorRT 8.4 does not support squeeze: ")
    assert run("rewrite", write(tmp_path, LEAKY), "--check", "--target", "8.4", "--format", "sarif") == 4
    (found,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert (found["ruleId"], found["level"]) == ("changes", "warning")
    assert run("rewrite", source, out, "--target", "8.4", "--format", "jsonl", "--exit-zero") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["applied"][0]["pass"] == "leaky-relu"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rewrite", "a", "b", "--taget", "8.4"], "there is no option '--taget'. Did you mean '--target'?"),
        (["rewrite", "a", "b", "--verfy=none"], "there is no option '--verfy'. Did you mean '--verify'?"),
        (["rewrite", "a", "b", "--verify", "windw"], "--verify takes window, full, none, not 'windw'. Did you mean"),
        (["chek", "a"], "there is no command 'chek'. Did you mean 'check'?"),
        (["--verson"], "there is no option '--verson'. Did you mean '--version'?"),
    ],
)
def test_what_was_meant_is_named(words: list[str], said: str, capsys: Captured) -> None:
    assert run(*words) == 2
    assert said in capsys.readouterr().err


# ---- explain, check, passes ------------------------------------------------------------------------------------------


def test_explain_a_node(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, LEAKY)
    assert run("rewrite", source, "--target", "8.4", "--explain", "larger") == 0
    printed = capsys.readouterr().out
    assert "h = Max(x, m)" in printed
    assert re.search(r"leaky-relu +larger +matched, and rewritten", printed)
    assert run("rewrite", source, "--target", "8.4", "--explain", "times", "--only", "leaky-relu") == 0
    assert re.search(r"leaky-relu +larger +matched, and rewritten", capsys.readouterr().out), "the root is below"
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]


def test_explain_says_what_was_missing(tmp_path: Path, capsys: Captured) -> None:
    near = LEAKY.replace("y = Neg(h)", "y = Add(h, m)")
    assert run("rewrite", write(tmp_path, near), "--target", "8.4", "--explain", "larger", "--only", "leaky-relu") == 0
    assert "'m' is also read by last" in capsys.readouterr().out


def test_explain_a_glob_and_what_came_before(tmp_path: Path, capsys: Captured) -> None:
    """The node stays, and what it reads is folded: its own refusal is fixed upstream."""
    assert run("rewrite", STYLE, "--target", "8.4", "--explain", "/layers/layers.[03]/pad/Pad") == 0
    printed = capsys.readouterr().out
    assert printed.count("= Pad(") == 2
    assert re.search(r"does not support this node as it is: its input 1 .*; the rewrites upstream fix that", printed)
    assert re.search(
        r"upstream +fold +/layers/layers.0/pad/Reshape_1 +/layers/layers.0/pad/Reshape_1_output_0", printed
    )
    assert run("rewrite", STYLE, "--target", "8.4", "--explain", "*/nothing*") == 2
    assert "no node has a name like '*/nothing*'" in capsys.readouterr().err


def test_explain_lists_what_is_relevant(tmp_path: Path, capsys: Captured) -> None:
    """Passes that say the same are one line; patterns with no more than this operator in common come with -v."""
    source = write(tmp_path, LEAKY.replace("Max(x, m)", "LeakyRelu(m)").replace("y = Neg(h)", "y = Div(h, a)"))
    assert run("rewrite", source, "--target", "8.4", "--explain", "larger") == 0
    assert "verdict  function-body, leaky-relu  larger  matched, but unchanged: " in capsys.readouterr().out
    assert run("rewrite", source, "--target", "8.4", "--explain", "last", "--only", "gelu") == 0
    assert "no pattern of 1 pass nearly matches it" in capsys.readouterr().out
    assert run("rewrite", source, "--target", "8.4", "--explain", "last", "--only", "gelu", "-v") == 0
    assert "verdict  gelu" in capsys.readouterr().out


def test_check_names_the_pass_that_mends(tmp_path: Path, capsys: Captured) -> None:
    assert run("check", write(tmp_path, NORM), "--target", "8.4") == 1
    printed = capsys.readouterr().out
    assert re.search(
        r"^unsupported: it runs as a plugin.*\n  norm  InstanceNormalization  instance-norm$", printed, re.M
    )
    assert run("check", write(tmp_path, NORM), "--target", "10.9") == 0
    assert run("check", write(tmp_path, UNKNOWN), "--target", "8.4") == 1
    assert re.search(r"^  squeeze +Compress +no pass$", capsys.readouterr().out, re.MULTILINE)


def test_check_says_what_the_passes_say_of_the_file(tmp_path: Path, capsys: Captured) -> None:
    file = Path(__file__).parent / "corpus" / "ssd_l2norm__dynamo_op18.onnx"
    assert run("rewrite", file, tmp_path / "out.onnx", "--target", "10.9") == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert said and "lost epsilon" in said[0] and "--repair-eps" in said[0]
    assert run("check", file, "--target", "10.9") == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("warning")] == said
    assert printed[-1].startswith("TensorRT 10.9 supports every node")


def test_equal_warnings_are_one(tmp_path: Path, capsys: Captured) -> None:
    """Two norms lost their epsilon: one warning with both nodes, and each by itself with -v."""
    source = ROOT / "samples" / "ssd_l2norm" / "ssd_l2norm_dynamo_op18.onnx"
    for more, said in (((), ["node_div_1: ", "(also node_div)"]), (("-v",), ["node_div_1: ", "node_div: "])):
        assert run("rewrite", source, tmp_path / "out.onnx", "--target", "10.9", "--verify", "none", *more) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
        assert len(lines) == 1 + len(more) and all(any(w in line for line in lines) for w in said), lines


def test_check_where_no_pass_mends(tmp_path: Path, capsys: Captured) -> None:
    assert run("check", write(tmp_path, UNKNOWN), "--target", "8.4") == 1
    assert capsys.readouterr().out.endswith(": 1 unsupported node; no pass fixes this\n")


def test_check_names_the_pass_that_mends_what_the_reason_names(capsys: Captured) -> None:
    """Identity takes the Cast before Pad away; the tensor of two dimensions is further up."""
    file = Path(__file__).parent / "corpus" / "Pad_reflect_N_symbolic_input_pad__ts_op17.onnx"
    assert run("check", file, "--target", "8.4") == 1
    lines = capsys.readouterr().out.splitlines()
    (reason,) = [k for k, line in enumerate(lines) if line.startswith("unsupported: its input 1 is computed through")]
    assert lines[reason + 1].split() == ["/Pad", "Pad", "shape-tensor"]


def test_passes_lists_every_pass(capsys: Captured) -> None:
    assert run("passes") == 0
    printed = capsys.readouterr().out
    for path in (ROOT / "passes").glob("[a-z]*.py"):
        assert re.search(rf"^pass  {path.stem.replace('_', '-')} ", printed, re.MULTILINE), path.stem


def test_explain_a_pass(capsys: Captured) -> None:
    assert run("explain", "leaky-relu") == 0
    printed = capsys.readouterr().out
    assert all(heading in printed for heading in ("Why ", "Rewrites ", "Exact ", "Strategies  keep, decompose, plugin"))


# ---- compare ---------------------------------------------------------------------------------------------------------


def test_compare(tmp_path: Path, capsys: Captured) -> None:
    source, out = write(tmp_path, LEAKY), tmp_path / "out.onnx"
    run("rewrite", source, out, "--target", "8.4")
    capsys.readouterr()
    assert run("compare", source, out) == 0
    assert re.search(r"^ONNX Runtime  y  .*equal", capsys.readouterr().out, re.MULTILINE)
    other = write(tmp_path, LEAKY.replace("0.1", "0.2"), "other.onnx")
    assert run("compare", other, out) == 1
    assert "the models differ (ONNX Runtime)" in capsys.readouterr().out


def test_compare_with_given_inputs(tmp_path: Path, capsys: Captured) -> None:
    source, other = write(tmp_path, LEAKY), write(tmp_path, LEAKY.replace("0.1", "0.2"), "other.onnx")
    np.savez(tmp_path / "positive.npz", x=np.ones((1, 3, 8, 8), np.float32))
    assert run("compare", source, other, "--data", tmp_path / "positive.npz") == 0, (
        "only negative inputs meet the slope"
    )
    np.savez(tmp_path / "negative.npz", x=-np.ones((1, 3, 8, 8), np.float32))
    assert run("compare", source, other, "--data", tmp_path / "negative.npz") == 1


def test_compare_what_the_parser_understood(tmp_path: Path, capsys: Captured) -> None:
    pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
    source, out = write(tmp_path, LEAKY), tmp_path / "out.onnx"
    run("rewrite", source, out, "--target", "rtx")
    capsys.readouterr()
    assert run("compare", source, out, "--network") == 0
    assert re.search(r"^the network of tensorrt_rtx \S+  y  .*equal", capsys.readouterr().out, re.MULTILINE)


def test_compare_says_that_one_is_in_half_precision(tmp_path: Path, capsys: Captured) -> None:
    source, out = write(tmp_path, CONVOLVED), tmp_path / "out.onnx"
    assert run("rewrite", source, out, "--target", "rtx", "--fp16") == 0
    np.savez(tmp_path / "x.npz", x=np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8))
    capsys.readouterr()
    assert run("compare", source, out, "--data", tmp_path / "x.npz") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "the second model computes in half precision" in printed
        and "up to 0.01 of an output's largest number count as equal" in printed
    )


def test_compare_hands_over_to_polygraphy(tmp_path: Path, capsys: Captured) -> None:
    source, other = write(tmp_path, LEAKY), write(tmp_path, LEAKY.replace("0.1", "0.2"), "other.onnx")
    inputs, outputs = tmp_path / "i.json", tmp_path / "o.json"
    np.savez(tmp_path / "x.npz", x=-np.ones((1, 3, 8, 8), np.float32))
    words = ["--data", tmp_path / "x.npz", "--save-inputs", inputs, "--save-outputs", outputs]
    assert run("compare", source, source, "--no-trt", *words) == 0
    printed = capsys.readouterr().out
    assert f"polygraphy run {source} --onnxrt --load-inputs {inputs} --load-outputs {outputs}" in printed
    for model, status in ((source, 0), (other, 1)):
        code = "import sys; from polygraphy.tools import main; sys.exit(main())"
        command = ["run", model, "--onnxrt", "--load-inputs", inputs, "--load-outputs", outputs]
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout


def test_bisect_names_the_wrong_rewrite(tmp_path: Path, capsys: Captured) -> None:
    """Two right rewrites and, after the first of them, one that is wrong on purpose; nothing proved."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float a = {0.1}, float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
      [norm] n = InstanceNormalization <epsilon = 0.001> (x, s, b)
      [times] m = Mul(n, a)
      [larger] h = Max(n, m)
      [last] z = InstanceNormalization <epsilon = 0.001> (h, s, b)
      [end] y = Neg(z)
    }"""
    source, right, out = write(tmp_path, text), tmp_path / "right.onnx", tmp_path / "out.onnx"
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "wrong.py").write_text(WRONG_PASS.replace("b.Relu(x)", "b.Relu(b.Neg(b.Neg(x)))"))
    words = ["--target", "8.4", "--passes", tmp_path / "passes", "--only", "wrong,instance-norm", "--verify", "none"]
    assert run("rewrite", source, right, "--target", "8.4") == 0
    assert run("compare", source, right, "--bisect", tmp_path / "none") == 0
    assert not (tmp_path / "none").exists()
    assert run("rewrite", source, out, *words) == 0
    capsys.readouterr()
    assert run("compare", source, out, "--bisect", tmp_path / "found") == 1
    printed = capsys.readouterr().out
    assert "the first tensor that differs is 'h', made by wrong: " in printed
    written = {p.name for p in (tmp_path / "found").iterdir()}
    assert written == {"window_original.onnx", "window_rewritten.onnx", "inputs.npz"}
    assert [n.op_type for n in onnx.load(tmp_path / "found" / "window_rewritten.onnx").graph.node] == [
        "Neg",
        "Neg",
        "Relu",
    ]
    data = tmp_path / "found" / "inputs.npz"
    assert run("compare", *sorted((tmp_path / "found").glob("*.onnx")), "--data", data) == 1


# ---- terminals -------------------------------------------------------------------------------------------------------


TERMINAL = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


@TERMINAL
@pytest.mark.parametrize("columns", [80, 120])
def test_tables_on_a_terminal(columns: int) -> None:
    status, lines = on_terminal(columns, "rewrite", STYLE, "--check", "--target", "8.4")
    assert status == 4
    table = lines[lines.index("applied") : [k for k, line in enumerate(lines) if "rewrites," in line][0]]
    assert any("─" in line for line in table)
    assert any("pass" in line and "error" in line for line in table)
    assert max(len(line.rstrip()) for line in table) <= columns


@TERMINAL
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_figure_is_broken_on_a_terminal(columns: int, tmp_path: Path) -> None:
    source = write(tmp_path, LEAKY)
    assert run("rewrite", source, tmp_path / "out.onnx", "--target", "8.4") == 0
    status, lines = on_terminal(columns, "compare", source, tmp_path / "out.onnx", "--no-trt")
    assert status == 0
    text = "\n".join(lines)
    assert text.count("0.0e+00") == 4 and "1.000000" in text
    for word in ("absolute", "relative", "cosine"):
        assert word in text


@TERMINAL
def test_reasons_that_differ_in_names_share_a_table() -> None:
    """Sixteen pads, each computed through another tensor, and fifteen normalisations."""
    status, lines = on_terminal(120, "check", STYLE, "--target", "8.4")
    assert status == 1
    assert [line for line in lines if line.startswith("unsupported")] == [
        "unsupported: its input 1 is computed through '...' of 2 dimensions; one at most is supported",
        "unsupported: it runs as a plugin that needs cuDNN, fp32 initializers, and 3 to 5 dimensions",
    ]


def test_plain_lines_in_a_pipe() -> None:
    done = program.surgeon("rewrite", STYLE, "--check", "--target", "8.4")
    assert done.returncode == 4
    assert PROGRESS.sub("", done.stderr) == ""
    assert "\x1b" not in done.stdout and "─" not in done.stdout
    assert re.search(r"^applied  instance-norm  decompose  15x  ", done.stdout, re.MULTILINE)


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
def test_a_closed_pipe_is_no_error() -> None:
    command = (
        f"{sys.executable} -m surgeon rewrite {STYLE} --check --diff --target 8.4 | head -1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_an_opset_that_alone_comes_down_is_told(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Tanh (x) }')
    assert run("rewrite", source, tmp_path / "out.onnx", "--target", "8.2") == 0
    assert "only the opset, 17, becomes 13; written" in capsys.readouterr().out
