"""What `make start` runs: which Pythons, where they are found, and what it says where surgeon does not start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import start
from start import StartError

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
