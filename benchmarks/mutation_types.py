"""Which mutants does mypy reject? The tests run it, so such a mutant is killed. By its daemon: half a second each."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Types:
    """mypy over surgeon and its passes as they are installed, in a folder that is free for it."""

    def __init__(self, folder: Path) -> None:
        import typecheck

        typecheck.lay_out(folder)
        self._folder, self._status = folder, folder / "dmypy.json"
        self._as_is: dict[Path, list[str]] = {}

    def __enter__(self) -> Types:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status.exists():  # else nothing was asked
            self._dmypy("stop")

    def rejects(self, path: Path, mutated: ast.Module) -> str:
        """The first thing that mypy says of the mutated file, and not of the file as it is; "" where there is none."""
        text = path.read_text(encoding="utf-8")
        if path not in self._as_is:
            self._as_is[path] = self._says_of(path, ast.unparse(ast.parse(text)))
        found = self._says_of(path, ast.unparse(ast.fix_missing_locations(mutated)))
        self._place(path).write_text(text, encoding="utf-8")
        return next((line for line in found if line not in self._as_is[path]), "")

    def _place(self, path: Path) -> Path:
        inside = path.relative_to(ROOT)
        return self._folder / (inside if inside.parts[0] == "surgeon" else Path("surgeon") / inside)

    def _says_of(self, path: Path, text: str) -> list[str]:
        self._place(path).write_text(text, encoding="utf-8")
        said = self._dmypy("run", "--", "--config-file", str(ROOT / "setup.cfg"), "-p", "surgeon")
        return [re.sub(r"^(\S+?):[\d:]+", r"\1", line) for line in said.splitlines() if ": error:" in line]

    def _dmypy(self, *words: str) -> str:
        command = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(self._status), *words]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"mypy's daemon: {done.stdout}{done.stderr}")
        return done.stdout
