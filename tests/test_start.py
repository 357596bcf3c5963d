"""What `make start` runs: which Pythons, where they are found, and what it says where surgeon does not start."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest
import start
from start import StartError

from surgeon.version import OLDEST

ROOT = Path(__file__).resolve().parent.parent
HERE = "{}.{}".format(*sys.version_info)
OTHER = next(version for version in start.promised() if version != HERE)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH and a pyenv without any Python, and no packages."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def command(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_promised_versions_are_those_of_setup_cfg() -> None:
    assert start.promised()[:4] == ["3.10", "3.11", "3.12", "3.13"]


def test_the_oldest_packages_are_those_of_setup_cfg() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    needed = config["options"]["install_requires"].split()
    assert {f"{name}>={oldest}" for name, oldest in OLDEST.items()} <= set(needed)


@pytest.mark.parametrize(("version", "why"), [("1.14.1", "and 1.14.1 is installed"), ("1.22.0rc1", "")])
def test_an_old_onnx_is_a_sentence(version: str, why: str) -> None:
    code = f"import onnx; onnx.__version__ = {version!r}; import surgeon; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ("imported" in done.stdout) == (not why)
    last = done.stderr.splitlines()[-1:]
    advice = "pip install --upgrade 'onnx>=1.22'"
    assert last == ([f"ImportError: onnx 1.22 or newer is needed, {why}: {advice}"] if why else [])


def test_an_old_onnx_runtime_is_a_sentence() -> None:
    code = """import onnxruntime; onnxruntime.__version__ = "1.16.3"
from surgeon.app.cli import main
main(["rewrite", "samples/face_prelu/face_prelu_ts_op11.onnx", "--check", "--target", "7.1", "--no-cache"])"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "surgeon: onnxruntime 1.21 or newer is needed, and 1.16.3 is installed: pip install" in done.stderr


def test_this_python_is_found(nowhere: Path) -> None:
    assert start.found(HERE) == Path(sys.executable)


def test_one_that_is_missing_is_an_error(nowhere: Path) -> None:
    with pytest.raises(StartError, match=rf"Python {OTHER} is missing: .*pyenv install {OTHER}"):
        start.found(OTHER)


def test_a_command_that_does_not_run_is_passed_over(nowhere: Path) -> None:
    """pyenv has commands for versions that are not chosen."""
    command(nowhere / f"python{OTHER}", f"echo 'python{OTHER}: command not found' >&2; exit 127")
    command(nowhere / "pyenv" / "versions" / f"{OTHER}.1" / "bin" / f"python{OTHER}", "echo 2.7")
    right = command(nowhere / "pyenv" / "versions" / f"{OTHER}.0" / "bin" / f"python{OTHER}", f"echo {OTHER}")
    assert start.found(OTHER) == right


def test_a_command_that_fails_is_shown_with_what_it_printed(tmp_path: Path) -> None:
    failing = command(tmp_path / "failing", "echo said; echo complained >&2; exit 3")
    with pytest.raises(StartError, match=r"failing now` ended with status 3:\nsaid\ncomplained\n"):
        start._run(tmp_path, [failing, "now"])
