"""Every sample's README shows commands and what they print: both are run here, and must agree.

A block that starts with ```console is run in a copy of the sample's folder. `$ command` is run, what follows up to the
next is its output; `# exit status N` stands behind the output where N is not 0. Seconds and sizes are not compared; an
error may be up to ten times what the README says, never more.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "samples"
NEEDS_A_GPU = {"python_plugin"}
READMES = [p for p in sorted(SAMPLES.glob("*/README.md")) if p.parent.name not in NEEDS_A_GPU]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
FIGURE = re.compile(r"\d\.\d+e[-+]\d+|(?<=error )0\b")
NOISE = 1e-6  # what another processor may make of an exact 0
VARYING = [
    (re.compile(r"^(proving|comparing) \d+ of \d+\n", re.MULTILINE), ""),  # progress, where the machine is slow
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
    (re.compile(r"  +"), " "),
]


def commands(block: str) -> list[tuple[str, str]]:
    """(command, expected output) for each `$` line of a console block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a console block starts with a command, not with {parts[0]!r}"
    return [(head, rest) for head, _, rest in (part.partition("\n") for part in parts[1:])]


def run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    program = {"surgeon": [sys.executable, "-m", "surgeon"], "python": [sys.executable]}[words[0]]
    done = subprocess.run(
        [*program, *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout + (f"# exit status {done.returncode}\n" if done.returncode else "")


def settled(text: str) -> str:
    for pattern, instead in VARYING:
        text = pattern.sub(instead, text)
    return FIGURE.sub("E", text)


def figures(text: str) -> list[float]:
    return [float(f) for f in FIGURE.findall(text)]


def compared(expected: str, given: str) -> None:
    assert settled(given) == settled(expected)
    for now, then in zip(figures(given), figures(expected), strict=True):
        assert now <= max(10 * then, NOISE), f"an error grew from {then} to {now}"


@pytest.mark.parametrize("readme", READMES, ids=lambda p: p.parent.name)
def test_readme_shows_what_is_printed(readme: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    folder = tmp_path / "sample"
    shutil.copytree(readme.parent, folder)
    text = readme.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert blocks, f"{readme} has no console block"
    printed = [[(command, run(command, folder), expected) for command, expected in commands(block)] for block in blocks]
    if pytestconfig.getoption("--write-console"):
        fresh = iter("".join(f"$ {command}\n{output}" for command, output, _ in block) for block in printed)
        readme.write_text(BLOCK.sub(lambda _: f"```console\n{next(fresh)}```", text), encoding="utf-8")
        return
    for _, output, expected in (row for block in printed for row in block):
        compared(expected, output)


def test_every_sample_has_a_readme() -> None:
    folders = {p.name for p in SAMPLES.iterdir() if p.is_dir() and not p.name.startswith("_")}
    assert folders == {p.parent.name for p in SAMPLES.glob("*/README.md")}


def test_a_worse_error_is_noticed() -> None:
    compared("error 2.0e-07, 0.3 s", "error 9.0e-07, 12.8 s")
    with pytest.raises(AssertionError, match="grew"):
        compared("error 2.0e-07", "error 3.0e-06")
    with pytest.raises(AssertionError):
        compared("16x  224 -> 0 nodes", "16x  225 -> 0 nodes")


# The notes' numbers, by hand: Clip(-2, 2) on the numbers from -4 to 4, and PRelu with slopes 0.5, 1 and 2 on the same.
CLIPPED = np.array([-2, -2, -2, -1, 0, 1, 2, 2, 2], np.float32).reshape(1, 1, 3, 3)
SLOPED = np.stack(
    [
        np.array([-2, -1.5, -1, -0.5, 0, 1, 2, 3, 4], np.float32).reshape(3, 3),
        np.array([-4, -3, -2, -1, 0, 1, 2, 3, 4], np.float32).reshape(3, 3),
        np.array([-8, -6, -4, -2, 0, 1, 2, 3, 4], np.float32).reshape(3, 3),
    ]
)[None]


@pytest.mark.parametrize("target", ["7.1", "8.4", "10.9", "rtx"])
@pytest.mark.parametrize(("name", "expected"), [("activation_clip", CLIPPED), ("parametric_relu", SLOPED)])
def test_worked_examples_keep_their_numbers(name: str, expected: np.ndarray, target: str) -> None:
    import surgeon

    result = surgeon.rewrite(SAMPLES / "worked_examples" / f"{name}.onnx", target=target)
    assert not result.report.failed, result.report.to_json()
    x = np.arange(-4, 5, dtype=np.float32).reshape(1, 1, 3, 3).repeat(expected.shape[1], axis=1)
    session = onnxruntime.InferenceSession(result.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, expected)


MODELS = sorted(SAMPLES.glob("*/*.onnx"))


@pytest.mark.parametrize("target", ["8.4", "rtx"])
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_every_sample_model_is_proved_and_taken(path: Path, target: str) -> None:
    import surgeon

    result = surgeon.rewrite(path, target=target)
    assert not result.report.undone
    assert not result.report.untaken
    assert not [d for d in result.report.declined if d.why.startswith("unproved")]
    onnx.checker.check_model(result.model, full_check=True)
