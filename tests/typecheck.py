"""mypy over surgeon as it is installed: the packages laid out as setup.cfg installs them, passes/ inside surgeon/.

    python tests/typecheck.py

An editable installation maps `surgeon.passes` in a way that mypy cannot follow, and would leave passes/ unchecked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info")


def lay_out(folder: Path) -> Path:
    """Copy surgeon/ and passes/ to `folder` as an installation has them; returns surgeon's place there."""
    installed = folder / "surgeon"
    shutil.copytree(ROOT / "surgeon", installed, ignore=IGNORED)
    shutil.copytree(ROOT / "passes", installed / "passes", ignore=IGNORED)
    return installed


def run(folder: Path) -> tuple[int, str]:
    """mypy's exit status and output over the package in `folder`; its paths are written as the repository has them."""
    options = ["--config-file", str(ROOT / "setup.cfg"), "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "-p", "surgeon"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).replace("surgeon/passes/", "passes/")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        lay_out(Path(name))
        status, output = run(Path(name))
    print(output, end="")
    sys.exit(status)
