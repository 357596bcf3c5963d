"""Options are written in one place: what the command line, Python, configuration files and reports make of them."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import surgeon
from surgeon.app import arguments, config
from surgeon.app.arguments import ASKED
from surgeon.app.cli import main
from surgeon.app.commands import verify
from surgeon.app.completion import actions
from surgeon.pipeline.option import Flag, Option, options_of, words_of
from surgeon.pipeline.options import CheckOptions, RewriteOptions

ROOT = Path(__file__).resolve().parent.parent
Captured = pytest.CaptureFixture[str]
ALL = options_of(ASKED["rewrite"])
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = 0.001> (x, s, b)
}"""
# Of each option: words of a command line, a line of surgeon.toml, and Python's value.
SAID: dict[str, tuple[list[str], str, Any]] = {
    "target": (["--target", "8.4"], 'target = "8.4"', "8.4"),
    "plugins": (["--allow-plugins", "surgeon,stock"], 'allow-plugins = ["surgeon", "stock"]', ["surgeon", "stock"]),
    "strategy": (["--strategy", "a=keep,b=plugin"], 'strategy = {a="keep", b="plugin"}', {"a": "keep", "b": "plugin"}),
    "only": (["--only", "a", "--only", "b"], 'only = ["a", "b"]', ["a", "b"]),
    "skip": (["--skip", "a,b", "--skip", "c:/x,y/*"], 'skip = ["a", "b", "c:/x,y/*"]', ["a", "b", "c:/x,y/*"]),
    "passes": (["--passes", "DIR"], 'passes = ["DIR"]', ["DIR"]),
    "options": (["--option", "repair_prelu=1"], "option = {repair_prelu = 1}", {"repair_prelu": 1.0}),
    "repair_eps": (["--repair-eps", "1e-12"], "repair_eps = 1e-12", 1e-12),
    "verify": (["--verify", "full"], 'verify = "full"', "full"),
    "allow_unproved": (["--allow-unproved"], "allow_unproved = true", True),
    "cache": (["--no-cache"], "no-cache = true", False),
    "shapes": (["--shapes", "x:2x3"], "shapes = {x = [2, 3]}", {"x": (2, 3)}),
    "declared": (["--custom-shape", "y:Nx2,float16"], 'custom-shape = {y = "Nx2,float16"}', {"y": "Nx2,float16"}),
    "inputs": (["--input", "x=uint8-nhwc"], 'input = {x = "uint8-nhwc"}', {"x": "uint8-nhwc"}),
    "values": (["--set", "n=16000"], "set = {n = 16000}", {"n": "16000"}),
    "dynamic_batch": (["--dynamic-batch"], "dynamic-batch = true", True),
    "batch_axis": (["--batch-axis=h:1", "--batch-axis=s:none"], 'batch_axis = {h=1, s="none"}', {"h": 1, "s": None}),
    "detections": (["--detections", "10"], "detections = 10", 10),
    "fp16": (["--fp16"], "fp16 = true", True),
    "bf16": (["--bf16"], "bf16 = true", True),
    "half": (["--half"], "half = true", True),
    "tolerance": (["--tolerance", "0.02"], "tolerance = 0.02", 0.02),
    "metric": (["--metric", "DIR/m.py:score"], 'metric = "DIR/m.py:score"', "DIR/m.py:score"),
    "allow_inexact": (["--allow-inexact"], "allow-inexact = true", True),
    "keep_fp32": (["--keep-fp32", "Softmax,l2-norm"], 'keep-fp32 = ["Softmax", "l2-norm"]', ["Softmax", "l2-norm"]),
    "io_fp16": (["--io-fp16"], "io_fp16 = true", True),
    "tune": (["--tune"], "tune = true", True),
    "tune_seconds": (["--tune-seconds", "60"], "tune-seconds = 60", 60.0),
    "allow_narrowing": (["--allow-narrowing"], "allow-narrowing = true", True),
    "int8": (["--int8"], "int8 = true", True),
    "fp8": (["--fp8"], "fp8 = true", True),
    "calibration": (["--calibration", "mse"], 'calibration = "mse"', "mse"),
    "symmetric_int8": (["--symmetric-int8"], "symmetric_int8 = true", True),
    "calibration_cache": (["--calibration-cache", "DIR/c"], 'calibration-cache = "DIR/c"', "DIR/c"),
    "write_calibration_cache": (["--write-calibration-cache", "DIR/w"], 'write-calibration-cache = "DIR/w"', "DIR/w"),
    "repair_qdq": (["--repair-qdq"], "repair_qdq = true", True),
    "int4": (["--int4"], "int4 = true", True),
    "fp8_weights": (["--fp8-weights"], "fp8_weights = true", True),
    "data": (["--data", "DIR/x.npz"], 'data = "DIR/x.npz"', "DIR/x.npz"),
    "strict": (["--strict"], "strict = true", True),
}  # fmt: skip
MODELS = {"rewrite": ["IN.onnx", "OUT.onnx"], "fix": ["IN.onnx"], "check": ["IN.onnx"]}
FUNCTIONS = {"rewrite": surgeon.rewrite, "fix": surgeon.fix, "check": surgeon.check}
TAKEN = [(command, keyword) for command, asked in ASKED.items() for keyword in options_of(asked)]


def commands() -> dict[str, argparse.ArgumentParser]:
    """Name -> parser, of every command."""
    found = {}
    for action in actions(arguments.parser()):
        if isinstance(action, argparse._SubParsersAction):
            found |= {p.prog.removeprefix("surgeon "): p for p in action.choices.values()}
    return found


def texts(args: argparse.Namespace, command: str) -> dict[str, Any]:
    return {o.name: getattr(args, o.name) for o in options_of(ASKED[command]).values()}


def parsed(command: str, words: list[str]) -> dict[str, Any]:
    args = arguments.parser().parse_args([command, *MODELS[command], *words])
    return texts(args, command)


def value(command: str, keyword: str, text: dict[str, Any]) -> Any:
    """Python's value of an option."""
    o = options_of(ASKED[command])[keyword]
    return o.kind.value(text[o.name], o.flag)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "in.onnx")
    (tmp_path / ".git").mkdir()
    (tmp_path / "DIR").mkdir()
    (tmp_path / "DIR" / "m.py").write_text("def score(inputs, expected, given): return 0.0\n")
    monkeypatch.setenv("SURGEON_TRUST", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- one place -------------------------------------------------------------------------------------------------------


def test_each_option_is_tried() -> None:
    assert set(SAID) == set(ALL)


def test_every_field_is_an_option_but_for_the_callback() -> None:
    assert {f.name for f in fields(ASKED["rewrite"])} - set(ALL) == {"progress"}


@pytest.mark.parametrize(("command", "keyword"), TAKEN)
def test_an_option_is_in_the_help_in_python_and_in_the_file(command: str, keyword: str, project: Path) -> None:
    o = options_of(ASKED[command])[keyword]
    words, line, wanted = SAID[keyword]
    assert re.search(rf"^  .*{o.flag}\b", commands()[command].format_help(), re.MULTILINE)
    if keyword != "strict":  # Python writes no file in `rewrite`
        function = FUNCTIONS[command]
        assert keyword in inspect.signature(function).parameters
        assert function is not surgeon.rewrite or re.search(
            rf"^    {keyword} ", surgeon.rewrite.__doc__ or "", re.MULTILINE
        )
    text = parsed(command, words)
    assert value(command, keyword, text) == wanted
    assert parsed(command, words_of(ASKED[command], text)) == text, "a process of a batch gets the same"
    assert text == json.loads(json.dumps(text)), "a report holds it"
    assert o.kind.is_text(text[o.name])
    (project / "surgeon.toml").write_text(line)
    args = arguments.parser().parse_args([command, *MODELS[command]])
    args.argv = [command, *MODELS[command]]
    config.apply(args, project)
    read = value(command, keyword, texts(args, command))
    assert read == (
        [str(project / "DIR")]
        if keyword == "passes"
        else str(project / wanted)
        if keyword in ("data", "metric", "calibration_cache", "write_calibration_cache")
        else wanted
    )


@pytest.mark.parametrize(("command", "keyword"), TAKEN)
def test_the_command_line_comes_before_the_file(command: str, keyword: str, project: Path) -> None:
    o = options_of(ASKED[command])[keyword]
    words, line, wanted = SAID[keyword]
    (project / "surgeon.toml").write_text(line)
    if isinstance(o.kind, Flag):
        words, wanted = [f"--{o.flag[5:]}" if o.kind.inverse else f"--no-{o.flag[2:]}"], not wanted
    argv = [command, *MODELS[command], *words]
    args = arguments.parser().parse_args(argv)
    args.argv = argv
    config.apply(args, project)
    assert value(command, keyword, texts(args, command)) == wanted


@pytest.mark.parametrize("keyword", SAID)
def test_a_file_with_a_value_of_another_type(keyword: str, project: Path, capsys: Captured) -> None:
    key, _, _ = SAID[keyword][1].partition(" = ")
    for wrong in ("1979-05-27", "[[]]"):
        (project / "surgeon.toml").write_text(f"{key} = {wrong}")
        assert main(["check", "in.onnx", "-q"]) == 2
        assert f"{key} in '{project / 'surgeon.toml'}' is {ALL[keyword].kind.wanted}, not" in capsys.readouterr().err


def test_the_keys_of_python_are_taken_too(project: Path, capsys: Captured) -> None:
    (project / "surgeon.toml").write_text('cache = false\nplugins = ["surgeon"]\ndeclared = {y = "N"}')
    args = arguments.parser().parse_args(["rewrite", "IN", "OUT"])
    args.argv = ["rewrite", "IN", "OUT"]
    config.apply(args, project)
    assert (args.no_cache, args.allow_plugins, args.custom_shape) == (True, ["surgeon"], ["y:N"])
    (project / "surgeon.toml").write_text('allow-plugins = ["surgeon"]\nplugins = ["surgeon"]')
    assert main(["check", "in.onnx"]) == 2 and "two keys for --allow-plugins" in capsys.readouterr().err


# ---- the help --------------------------------------------------------------------------------------------------------


def test_no_group_has_more_than_eight_options() -> None:
    for name, p in commands().items():
        for group in p._action_groups:
            shown = [a for a in group._group_actions if a.help != argparse.SUPPRESS]
            assert len(shown) <= 8, (name, group.title)
            described = [a for a in shown if not isinstance(a, argparse._SubParsersAction)]
            assert all(a.help for a in described), (name, group.title)


def test_each_help_fits_a_terminal_and_ends_with_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, p in commands().items():
        shown = p.format_help()
        assert max(map(len, shown.splitlines())) <= 80, name
        assert "\nexamples:\n" in shown, name
    shown = commands()["rewrite"].format_help()
    titles = re.findall(r"^([a-z0-9 ]+):$", shown, re.MULTILINE)
    assert titles == [
        "positional arguments", "target", "passes", "proof", "sizes and inputs", "precision", "int8", "weights",
        "tuning", "data", "output", "general", "exit status", "examples",
    ]  # fmt: skip


def test_a_batch_does_as_its_command_line_says(project: Path) -> None:
    """The processes of the models do not read the file again, whose options the command line may have turned off."""
    (project / "surgeon.toml").write_text('target = "rtx"\nfp16 = true\nshapes = {x = [2, 3, 8, 8]}\n')
    for words, half in (([], True), (["--no-fp16"], False), (["--no-config", "--target=rtx"], False)):
        assert main(["rewrite", "in.onnx", "-o", "out/", "-q", *words]) == 0
        assert ("precision" in json.loads(Path("out/surgeon-reports/in.onnx.json").read_text())) is half, words


@pytest.mark.parametrize(("wrong", "meant"), [("--pluginz", "--allow-plugins"), ("--fp61", "--fp16")])
def test_a_misspelt_option_is_answered_with_the_name_that_it_has_now(wrong: str, meant: str, capsys: Captured) -> None:
    assert main(["rewrite", "in.onnx", "out.onnx", wrong]) == 2
    assert f"there is no option '{wrong}'. Did you mean '{meant}'?" in capsys.readouterr().err


# ---- old names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "old", "new"), [
    (["rewrite", "in.onnx", "out.onnx", "--target=8.4", "--plugins", "surgeon"], "--plugins", "--allow-plugins"),
    (["fix", "in.onnx", "--for=8.4", "--plugins=surgeon"], "--plugins", "--allow-plugins"),
    (["check", "in.onnx", "--target=8.4", "--plugins", "surgeon"], "--plugins", "--allow-plugins"),
    (["rewrite", "in.onnx", "--check", "--target=10.9", "--shape", "y:Nx3x8x8"], "--shape", "--custom-shape"),
    (["build", "in.onnx", "out.engine", "--plugins", "no.so"], "--plugins", "--plugin-library"),
    (["compare", "in.onnx", "in.onnx", "--plugins", "no.so"], "--plugins", "--plugin-library"),
])  # fmt: skip
def test_an_old_name_is_taken_with_a_note(
    words: list[str], old: str, new: str, project: Path, capsys: Captured
) -> None:
    (project / "surgeon.toml").write_text("")  # its keys are looked for by a second reading of the words
    status = main(words)
    assert capsys.readouterr().err.splitlines().count(f"surgeon: {old} is called {new} now.") == 1
    assert main([word.replace(old, new) for word in words]) == status
    assert "is called" not in capsys.readouterr().err
    assert f"{old} " not in commands()[words[0]].format_help()


def test_no_page_has_an_old_name() -> None:
    """But for the changelog, and for the options of other programs."""
    pages = [*ROOT.glob("*.md"), ROOT / "action.yml", *ROOT.glob("docs/**/*.md"), *ROOT.glob("samples/**/*.md")]
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            if page.name != "CHANGELOG.md" and not re.search(r"\b(polygraphy|trtexec)\b", line):
                assert not re.search(r"--(plugins|shape)\b(?!-)", line), (page.name, line)


# ---- reports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    ["--allow-plugins", "surgeon", "--strategy", "instance-norm=plugin", "--shapes", "x:2x3x8x8", "--no-cache"],
    ["--fp16", "--keep-fp32", "Sqrt", "--io-fp16", "--shapes", "x:2x3x8x8"],
    ["--input", "x=uint8-nhwc", "--verify", "full", "--skip", "fold", "--repair-eps", "1e-12"],
    ["--dynamic-batch", "--batch-axis", "x:0"],
])  # fmt: skip
def test_a_report_repeats_what_was_asked_for(words: list[str], project: Path, capsys: Captured) -> None:
    assert main(["rewrite", "in.onnx", "out.onnx", "--target", "8.5", "--report", "r.json", *words]) == 0, (
        capsys.readouterr()
    )
    recorded = json.loads(Path("r.json").read_text())["record"]["options"]
    assert list(recorded) == [o.name for o in ALL.values()]
    assert main(["verify", "r.json"]) == 0, capsys.readouterr()


def test_a_report_with_the_old_names_is_read(project: Path) -> None:
    then = {"target": "8.4", "record": {"options": {"plugins": ["surgeon"], "shape": ["y:N"], "unknown": 1}}}
    read = verify._texts(then, project / "r.json")
    assert (read["allow_plugins"], read["custom_shape"], read["verify"]) == (["surgeon"], ["y:N"], "window")


# ---- Python ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rewrite", "rewrite_file", "check", "fix"])
def test_a_misspelt_keyword_is_an_error_that_names_the_nearest(name: str) -> None:
    files = ["in.onnx", "out.onnx"][: 2 if name == "rewrite_file" else 1]
    with pytest.raises(surgeon.UsageError, match=rf"^{name} has no option 'taget'. Did you mean 'target'\?$"):
        getattr(surgeon, name)(*files, taget="8.4")


def test_python_converts_as_the_command_line_does(project: Path) -> None:
    assert main(["rewrite", "in.onnx", "out.onnx", "--target", "rtx", "--fp16", "--shapes", "x:2x3x8x8", "-q"]) == 0
    result = surgeon.rewrite("in.onnx", target="rtx", fp16=True, shapes={"x": (2, 3, 8, 8)})
    assert result.precision is not None and not result.precision.failed
    assert result.model.SerializeToString() == (project / "out.onnx").read_bytes()
    fixed = surgeon.fix("in.onnx", target="rtx", fp16=True, shapes={"x": (2, 3, 8, 8)})
    assert fixed.path.read_bytes() == (project / "out.onnx").read_bytes()
    assert fixed.result.precision is not None and "fp16" in result.page()


@pytest.mark.parametrize("name", ["keep_fp32", "io_fp16", "data", "tolerance", "metric", "allow_inexact"])
def test_what_goes_with_fp16_is_an_error_alone(name: str, project: Path) -> None:
    given: dict[str, Any] = {"keep_fp32": ["Sqrt"], "io_fp16": True, "data": "x.npz", "tolerance": 0.1}
    given |= {"metric": "m.py:f", "allow_inexact": True}
    with pytest.raises(surgeon.UsageError, match=f"--{name.replace('_', '-')} needs --fp16"):
        surgeon.rewrite("in.onnx", target="rtx", **{name: given[name]})


def test_check_takes_part_of_what_rewrite_takes() -> None:
    assert set(options_of(CheckOptions)) < set(options_of(RewriteOptions))
    assert all(isinstance(o, Option) for o in options_of(CheckOptions).values())
