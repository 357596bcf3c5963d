"""Whatever names, notes and logs hold, a terminal and the log of a CI system get letters alone."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

import surgeon
from surgeon.app.cli import main
from surgeon.app.screen import Screen
from surgeon.pipeline.check import check
from surgeon.visible import visible, visible_json

Captured = pytest.CaptureFixture[str]

# A title of the terminal, a colour, an erased screen, new lines with commands of GitHub and Azure, a line that is
# written over, an order of writing, a C1 control, markup of Rich, an emoji's name.
EVIL = (
    "\x1b]0;pwn\x07\x1b[31mRED\x1b[2J\n::set-output name=a::b\n::add-mask::x\r##vso[task.setvariable variable=a]b"
    "##[set-output name=a]b\u202egpj\x9b31m\u2028[red]:bomb:"
)


def evil_model(source: str) -> ModelProto:
    """A model whose tensors, nodes, graph, dimensions and notes have such names."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {source}')
    graph = model.graph
    graph.name = graph.doc_string = EVIL
    for info in (*graph.input, *graph.output, *graph.initializer):
        info.name += EVIL
    for info in graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param += EVIL
    for number, node in enumerate(graph.node):
        node.name, node.doc_string = f"::error::{number}{EVIL}", EVIL
        node.input[:] = [name + EVIL for name in node.input]
        node.output[:] = [name + EVIL for name in node.output]
    return model


MODEL = evil_model(
    """(float[N,4] x) => (float[N,4] y, float[N,4,1] z) <float half = {0.1}, int64[1] axis = {2}> {
        a = Mul (x, half)
        b = Max (x, a)
        y = Mish (b)
        d = Det (x)
        e = Celu <alpha = 0.5> (b)
        z = Unsqueeze (e, axis)
    }"""
)


def is_clean(text: str) -> bool:
    lines = text.split("\n")
    return all(
        line.replace("\t", "").isprintable()
        and not line.lstrip().startswith(("::set-output", "::add-mask"))
        and "##[" not in line
        and "##vso[" not in line
        for line in lines
    )


class Terminal(io.StringIO):
    """Standard output of a terminal."""

    def isatty(self) -> bool:
        return True


WORDS = [
    ["check", "IN", "--target", "8.4"],
    ["rewrite", "IN", "OUT", "--target", "8.4", "-v"],
    ["rewrite", "IN", "OUT", "--target", "8.4", "--diff"],
    ["rewrite", "IN", "OUT", "--target", "8.4", "--verify", "full", "--fp16"],
    ["rewrite", "IN", "--check", "--explain", "::error*", "--target", "8.4"],
    ["rewrite", "IN", "OUT", "--explain", "nobody", "--target", "8.4"],
    ["compare", "IN", "IN", "--no-trt"],
    ["diff-targets", "8.4", "rtx", "IN"],
    ["why", "LOG"],
    ["why", "LOG", "--model", "IN"],
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("evil")
    (folder / "in.onnx").write_bytes(MODEL.SerializeToString())
    line = f'[E] ModelImporter.cpp:739: While parsing node number 4 [Mish -> "y{EVIL}"]: No importer for op: Mish'
    (folder / "log").write_text(f"[TRT] v8400\n{line}\n", encoding="utf-8")
    return {"IN": str(folder / "in.onnx"), "OUT": str(folder / "out.onnx"), "LOG": str(folder / "log")}


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_pipe_gets_letters(words: list[str], places: dict[str, str], capsys: Captured) -> None:
    status = main([places.get(w, w) for w in words])
    said = capsys.readouterr()
    assert status in (0, 1, 2, 3) and "defect" not in said.err
    assert is_clean(said.out) and is_clean(said.err), (said.out, said.err)


@pytest.mark.parametrize("words", WORDS[:3], ids=" ".join)
def test_a_terminal_gets_letters(words: list[str], places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", Terminal())
    main([places.get(w, w) for w in words])
    printed = sys.stdout.getvalue()  # type: ignore[attr-defined]
    assert is_clean(printed), printed
    assert "[red]:bomb:" in printed.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("form", ["json", "jsonl", "sarif", "github"])
@pytest.mark.parametrize("command", [["check", "IN"], ["rewrite", "IN", "OUT"]], ids=["check", "rewrite"])
def test_formats_hold_letters(form: str, command: list[str], places: dict[str, str], capsys: Captured) -> None:
    main([places.get(w, w) for w in command] + ["--target", "8.4", "--format", form])
    printed = capsys.readouterr().out
    assert is_clean(printed), printed
    if form == "github":
        starts = ("::error file=", "::warning file=", "::notice file=")
        assert all(line.startswith(starts) for line in printed.splitlines())
    else:
        json.loads(printed)


def test_json_holds_the_names(places: dict[str, str], capsys: Captured) -> None:
    main(["check", places["IN"], "--target", "8.4", "--format", "json"])
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert any(found["node"].endswith(EVIL) for found in file["untaken"])


def test_what_python_shows_is_letters() -> None:
    assert is_clean(repr(check(MODEL, target="8.4")))
    assert is_clean(repr(surgeon.rewrite(MODEL, target="8.4", verify="none")))


def test_an_error_names_a_file_in_letters(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", str(tmp_path / "no\x1b[2J\n::error::.onnx"), "--target", "8.4"]) == 2
    said = capsys.readouterr().err
    assert is_clean(said) and said.count("\n") == 1 and r"no\x1b[2J\n::error::.onnx" in said


@pytest.mark.parametrize(("text", "shown"), [
    ("plain é 猫 😀", "plain é 猫 😀"),
    ("a\u3000b\tc", "a\u3000b\tc"),
    ("\x1b[2J", r"\x1b[2J"),
    ("\x9b2J\x7f", r"\x9b2J\x7f"),
    ("a\r\nb", r"a\r\nb"),
    ("a\u202eb\u2066\U000e0041", r"a\u202eb\u2066\U000e0041"),
    ("::error::x", r"\x3a:error::x"),
    ("  ::error::x", r"  \x3a:error::x"),
    ("a ::b:: c", "a ::b:: c"),
    ("a ##[error]b", r"a \x23#[error]b"),
    ("##vso[task]", r"\x23#vso[task]"),
    ("## title", "## title"),
])  # fmt: skip
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown == visible(shown)
    assert json.loads(visible_json(json.dumps(text, ensure_ascii=False))) == text


def test_a_line_begins_with_no_command(capsys: Captured) -> None:
    screen = Screen()
    screen.line(" ::error::a")
    screen.table("", ("node",), [("::error::b",)])
    screen.command("  ::error::c")
    assert capsys.readouterr().out.splitlines() == [r" \x3a:error::a", r"  \x3a:error::b", r"  \x3a:error::c"]


def test_what_is_meant_as_lines_is_printed_as_lines(tmp_path: Path, capsys: Captured) -> None:
    """A command to copy is in a line of its own; the line breaks of a name do not make one."""
    onnx.save(evil_model("(float[N,4] x) => (float[N,4] y) { y = Relu (x) }"), tmp_path / "in.onnx")
    engine = str(tmp_path / "out.engine")
    assert main(["build", str(tmp_path / "in.onnx"), engine]) == 2
    first, command = capsys.readouterr().err.splitlines()
    assert first.startswith("surgeon: 'x") and first.endswith("allows all from MIN to MAX, such as:")
    assert command.startswith("  surgeon build ") and is_clean(first) and is_clean(command)
    assert main(["build", str(tmp_path / "in.onnx"), str(tmp_path / "none" / "a\nb.engine")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
