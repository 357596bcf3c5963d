"""Blocks of code in a page: each is run in a folder of its own, or says why not.

    <!-- files: model.onnx=samples/ssd_l2norm/ssd_l2norm_ts_op13.onnx -->   what the folder holds from here on
    <!-- not run: it needs a GPU -->                                        before a block that is not run

A `console` block has commands after `$`, and what they print, which is compared. `# exit status N` follows the
output where N is not 0. Of a `sh` block each line is run, and must end with 0, or as `# exit status N` after it says.
A `python` block is run as it is. Seconds and sizes are not compared; an error may be up to ten times what the page
says, never more.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import program

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
FILES = re.compile(r"^<!-- files: (.*?) -->$", re.MULTILINE)
RUN = ("console", "sh", "python")
COMMAND = re.compile(r"^(?:\$ |surgeon |python |polygraphy |pip |make )", re.MULTILINE)
STATUS = re.compile(r"# exit status (\d+)")
FIGURE = re.compile(r"\d\.\d+e[-+]\d+|(?<=error )0\b")
SHORTENED = "  ...\n"  # a line for any lines, which `--write-console` leaves as they are
PROGRESS = re.compile(r"^[\w ]+ \d+ of \d+(, about \d+ \w+ left)?\n", re.MULTILINE)  # printed where the machine is slow
NOISE = 1e-6  # what another processor may make of an exact 0
VARYING = [
    (re.compile(r"\d+\.\d s\b"), "T s"),
    (re.compile(r"\d+\.\d MB\b"), "N MB"),
    (re.compile(r"(TensorRT-RTX|tensorrt_rtx) [\d.]+\d"), r"\1 V"),
    (re.compile(r"\d+ dB"), "P dB"),
    (
        re.compile(r"  (random|zero|zero rows|tiny|large|shifted|negative zero|denormal|huge) inputs +"),
        "  KIND inputs ",
    ),
    (re.compile(r"  (absolute|relative|L2|cosine) [\d.e+-]+"), r"  \1 F"),
    (re.compile(r"  PSNR (P dB|-) +"), "  PSNR P dB "),
    (re.compile(r"(--(shapes|minShapes|optShapes|maxShapes)=\S+ ?)+"), "SHAPES"),  # MAX is what runs in seconds here
    (re.compile(r"  +"), " "),
]


@dataclass(frozen=True)
class Block:
    """A block of code. `why` says why it is not run; `start` and `end` are its text's places in the page."""

    language: str
    text: str
    why: str
    start: int
    end: int

    @property
    def runs(self) -> bool:
        return self.language in RUN and not self.why


def blocks(page: str) -> list[Block]:
    return [Block(m["language"], m["text"], m["why"] or "", *m.span("text")) for m in FENCE.finditer(page)]


def lay_out(part: str, folder: Path) -> None:
    """Put the files that a part of a page names into a folder."""
    for pairs in FILES.findall(part):
        for pair in shlex.split(pairs):
            name, _, source = pair.partition("=")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, folder / name)


def commands(block: str) -> list[tuple[str, str]]:
    """(command, expected output) for each `$` line of a console block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a console block starts with a command, not with {parts[0]!r}"
    return [(head, rest) for head, _, rest in (part.partition("\n") for part in parts[1:])]


def run(command: str, folder: Path) -> str:
    """What a command prints; a line after it says with which status it ended, where that is not 0."""
    done = _shell(command, folder)
    return PROGRESS.sub("", done.stdout) + (f"# exit status {done.returncode}\n" if done.returncode else "")


def fails(block: Block, folder: Path) -> list[str]:
    """What does not go as the page says, of a block of sh or python."""
    if block.language == "python":
        done = program.python(block.text, cwd=folder, env=_environment(), merged=True)
        return [done.stdout] if done.returncode else []
    found = []
    for line in filter(str.strip, block.text.splitlines()):
        said = STATUS.search(line)
        done = _shell(line, folder)
        if done.returncode != (int(said[1]) if said else 0):
            found.append(f"{line}\n{done.stdout}# exit status {done.returncode}")
    return found


def _shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of a shell: surgeon, python and polygraphy are those of the environment that runs the tests."""
    first, *others = shlex.split(command, comments=True)
    if first == "surgeon":
        return program.surgeon(*others, cwd=folder, env=_environment(), merged=True)
    if first == "python":
        return program.python(Path(others[0]), *others[1:], cwd=folder, env=_environment(), merged=True)
    return subprocess.run(
        command, shell=True, cwd=folder, env={**os.environ, **_environment()},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PYTHONPATH": str(ROOT), "PATH": path}


# ---- comparing -------------------------------------------------------------------------------------------------------


def settled(text: str) -> str:
    for pattern, instead in VARYING:
        text = pattern.sub(instead, text)
    return FIGURE.sub("E", text)


def figures(text: str) -> list[float]:
    return [float(f) for f in FIGURE.findall(text)]


def compared(expected: str, given: str) -> None:
    """The same but for what varies. A line `  ...` stands for any lines."""
    told, now = settled(expected), settled(given)
    if SHORTENED not in expected:
        assert now == told
        for new, old in zip(figures(given), figures(expected), strict=True):
            assert new <= max(10 * old, NOISE), f"an error grew from {old} to {new}"
        return
    assert re.fullmatch(".*?".join(map(re.escape, told.split(settled(SHORTENED)))), now, re.DOTALL), now


def try_page(path: Path, folder: Path, write: bool) -> None:
    """Run each block of a page in order, in `folder`; with `write`, write what was printed into the page."""
    page = path.read_text(encoding="utf-8")
    found, end = [], 0
    for block in blocks(page):
        lay_out(page[end : block.start], folder)
        end = block.end
        if block.runs:
            found.append((block, printed(block, folder, write)))
    if not write:
        return
    for block, text in reversed(found):
        page = page[: block.start] + text + page[block.end :]
    path.write_text(page, encoding="utf-8")


def printed(block: Block, folder: Path, write: bool) -> str:
    """Run a block, and compare what it prints, or, with `write`, return the block with that."""
    if block.language != "console":
        assert not fails(block, folder)
        return block.text
    rows = [(command, run(command, folder), expected) for command, expected in commands(block.text)]
    for _, output, expected in rows:
        if SHORTENED in expected or not write:
            compared(expected, output)
    texts = (expected if SHORTENED in expected else output for _, output, expected in rows)
    return "".join(f"$ {command}\n{text}" for (command, _, _), text in zip(rows, texts, strict=True))
