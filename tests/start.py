"""Whether surgeon starts under every Python that it promises.

    python tests/start.py

The wheel is built once. For each Python that setup.cfg names it is installed in a fresh environment, with what it needs
from PyPI. There every module is imported, and `surgeon fix` rewrites a sample. A Python that is missing is an error.

Neither mypy nor ruff sees all that an older Python refuses: a NamedTuple that is generic is right for both of them, and
Python 3.10 ends with a TypeError when it is imported.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wheel

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "samples" / "style_transfer" / "style_transfer_ts_op11.onnx"
AT_A_TIME = 2  # installing keeps a core busy
IMPORT_ALL = """
import importlib, pkgutil, surgeon, sys
names = [m.name for m in pkgutil.walk_packages(surgeon.__path__, "surgeon.") if m.name != "surgeon.__main__"]
for name in names:
    importlib.import_module(name)
print(len(names), "modules imported from", surgeon.__path__[0])
"""


class StartError(Exception):
    """surgeon does not start under a Python, or that is missing. The message says what was run, and what it printed."""


def promised() -> list[str]:
    """The versions of Python in setup.cfg, such as "3.10"."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return re.findall(r"^Programming Language :: Python :: (3\.\d+)$", config["metadata"]["classifiers"], re.MULTILINE)


def found(version: str) -> Path:
    """The interpreter of a version: on the PATH, of pyenv, or from the system's packages. Raises StartError."""
    for path in _candidates(version):
        if _is(path, version):
            return path
    installed = _installed(version)
    if installed is not None and _is(installed, version):
        return installed
    raise StartError(
        f"Python {version} is missing: there is no python{version} on the PATH, no version of pyenv, and no package of "
        f"apt-get. Install it, for example with `pyenv install {version}` or `uv python install {version}`."
    )


def _candidates(version: str) -> Iterator[Path]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield Path(sys.executable)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def _is(path: Path, version: str) -> bool:
    """Whether that is an interpreter of that version: pyenv has commands for versions that it does not run."""
    code = "import sys, venv; print('{}.{}'.format(*sys.version_info))"
    try:
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def _installed(version: str) -> Path | None:
    """The interpreter that the system's packages have, installed; None where they have none, or others install it."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    names = [f"python{version}", f"python{version}-venv"]
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *names]):
        subprocess.run(["apt-get", "--quiet", *words], capture_output=True, check=False)
    path = shutil.which(f"python{version}")
    return None if path is None else Path(path)


def started(version: str, python: Path, built: Path, folder: Path) -> str:
    """Install the wheel and run it under one Python; returns a line that says how that went. Raises StartError."""
    begun = time.perf_counter()
    environment, work = folder / version, folder / f"{version}-work"
    work.mkdir()
    _run(work, [python, "-m", "venv", "--without-pip", environment])
    bin = environment / "bin"
    pip = [sys.executable, "-m", "pip", "--python", bin / "python", "install", "--quiet", "--no-compile"]
    _run(work, [*pip, "--disable-pip-version-check", built])
    installed = time.perf_counter()
    _run(work, [bin / "python", "-c", IMPORT_ALL])
    printed = _run(work, [bin / "surgeon", "fix", SAMPLE, "--for", "8.4", "-o", work / "out.onnx"])
    verdict = re.search(r"^TensorRT 8\.4 supports all .*$", printed, re.MULTILINE)
    if verdict is None or not (work / "out.onnx").is_file():
        raise StartError(f"`surgeon fix` ended with status 0, but:\n{printed}")
    shutil.rmtree(environment)
    seconds = f"installed in {installed - begun:.0f} s, ran in {time.perf_counter() - installed:.0f} s"
    return f"Python {version}  {verdict[0]}; {seconds}"


def _run(folder: Path, command: Sequence[str | Path]) -> str:
    """Run a command in `folder`, outside this tree and its environment; returns what it printed."""
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    outside["SURGEON_CACHE"] = str(folder / "cache")
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=outside, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"`{' '.join(words)}` ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    begun = time.perf_counter()
    try:
        pythons = {version: found(version) for version in promised()}
    except StartError as error:
        print(error)
        return 1
    failed = 0
    with tempfile.TemporaryDirectory(prefix="surgeon-start-") as name, ThreadPoolExecutor(AT_A_TIME) as pool:
        built = wheel.build(Path(name))
        runs = {v: pool.submit(started, v, python, built, Path(name)) for v, python in pythons.items()}
        for version, run in runs.items():
            try:
                print(run.result(), flush=True)
            except StartError as error:
                failed += 1
                print(f"Python {version}  FAILED: {error}", flush=True)
    answer = f"{failed} of {len(runs)} FAILED" if failed else f"starts under all {len(runs)}"
    print(f"surgeon {answer}; {time.perf_counter() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
