"""The wheel, built of what is in this tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("surgeon", "passes", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def build(folder: Path) -> Path:
    """Build the wheel in `folder`, and return it.

    It is built from a copy: a build folder that an earlier build left in the tree would go into the wheel.
    """
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(words, check=True)
    (built,) = folder.glob("*.whl")
    return built
