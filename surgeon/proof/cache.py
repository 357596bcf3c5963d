"""Proofs that held, in a file of the user's cache: a second run of the same windows runs none of them.

A line is a proof: what identifies it, the largest difference, and what has to be said about it. The file's name says
which surgeon and which ONNX Runtime made them, by version and by the text of the code that judges. Only proofs that
held are kept: what failed, or could not be run, is looked at again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from surgeon.ir.run import onnx_runtime
from surgeon.proof.judge import Verdict
from surgeon.version import __version__

MOST_BYTES = 16 << 20  # of the file; a larger one is begun anew
JUDGES = ("proof", "ir", "rules")  # the folders whose code decides what a proof is


class ProofCache(dict[bytes, Verdict]):
    """The verdicts of earlier runs, by what identifies the proof; `save` adds the new ones to the file.

    A file that cannot be read or written is no error: proofs are run then.
    """

    def __init__(self, place: Path | None) -> None:
        super().__init__(_read(place) if place is not None else {})
        self.place = place
        self._saved = frozenset(self)

    def save(self) -> None:
        """Add what held since to the file."""
        found = [
            json.dumps([asked.hex(), v.max_error, v.why])
            for asked, v in self.items()
            if v.ok and asked not in self._saved
        ]
        if self.place is None or not found:
            return
        with contextlib.suppress(OSError):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            is_full = self.place.exists() and self.place.stat().st_size > MOST_BYTES
            with open(self.place, "w" if is_full else "a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in found))
        self._saved = frozenset(self)


def place_of_proofs() -> Path | None:
    """The file for this surgeon and this ONNX Runtime; None where the user has no folder for it.

    The folder is $SURGEON_CACHE, else `surgeon` in $XDG_CACHE_HOME or in ~/.cache.
    """
    runtime = onnx_runtime().__version__
    made_by = hashlib.sha256(
        "\n".join((__version__, runtime, onnx.__version__, np.__version__, _code())).encode()
    ).hexdigest()
    name = f"proofs-{__version__}-onnxruntime-{runtime}-{made_by[:16]}.jsonl"
    try:
        told = os.environ.get("SURGEON_CACHE")
        return Path(told or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon") / name
    except RuntimeError:  # nobody's home
        return None


@cache
def _code() -> str:
    """A digest of the code that judges: a checkout changes without its version."""
    folder = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(p for judge in JUDGES for p in (folder / judge).glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _read(place: Path) -> dict[bytes, Verdict]:
    """The proofs in a file; a line that was cut off is passed over."""
    found: dict[bytes, Verdict] = {}
    try:
        lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            asked, max_error, why = json.loads(line)
            found[bytes.fromhex(asked)] = Verdict(True, None if max_error is None else float(max_error), str(why))
    return found


__all__ = ["ProofCache", "place_of_proofs"]
