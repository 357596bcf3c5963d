"""Proofs that held, in a file of the user's cache: a second run of the same windows runs none of them.

A line is a proof: what identifies it, the largest difference, and what has to be reported about it. The file's name
says which surgeon and which ONNX Runtime made them, by version and by the text of the code that judges. Only proofs
that held are kept: what failed, or could not be run, is looked at again.

A line is believed, so a file that another user may have written is not read, and the report says so. A cache that
several users share is one that the user asks for.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from surgeon import private_files
from surgeon.ir.run import onnx_runtime
from surgeon.private_files import NotPrivateError
from surgeon.proof.judge import Verdict
from surgeon.version import __version__

MOST_BYTES = 16 << 20  # of the file; a larger one is begun anew
PRIVATE, SHARED = "SURGEON_CACHE", "SURGEON_SHARED_CACHE"  # the variables that name the folder
NOT_USED = "proofs of earlier runs are not used: {}; {}"
BEGUN_ANEW = "a new file takes its place"
OTHER_FOLDER = f"set {PRIVATE} to a folder that only you can write, or {SHARED} to one whose writers you trust"
BELIEVED = "proofs of earlier runs are believed, whoever wrote them to '{}' (SURGEON_SHARED_CACHE)"
JUDGES = ("proof", "ir", "rules")  # the folders whose code decides what a proof is


class ProofCache(dict[bytes, Verdict]):
    """The verdicts of earlier runs, by what identifies the proof; `save` adds the new ones to the file.

    A file that cannot be read or written is not an error: proofs are run then. `warnings` is what the report has to say
    about the file: why it is not believed, or that anybody may have written it.
    """

    def __init__(self, place: Path | None) -> None:
        super().__init__()
        self.place = place
        self.warnings: list[str] = []
        self._is_shared = bool(os.environ.get(SHARED))
        self._is_begun_anew = False
        if place is not None:
            self._read(place)
        self._saved = frozenset(self)

    def _read(self, place: Path) -> None:
        try:
            data = place.read_bytes() if self._is_shared else private_files.read(place)
        except NotPrivateError as error:
            self._is_begun_anew = error.path.name == place.name
            self.warnings.append(NOT_USED.format(error, BEGUN_ANEW if self._is_begun_anew else OTHER_FOLDER))
        except OSError:
            pass
        else:
            self._is_begun_anew = len(data) > MOST_BYTES
            self.update(_proofs(data))
            if self._is_shared and self:
                self.warnings.append(BELIEVED.format(place.parent))

    def save(self) -> None:
        """Add what held since to the file."""
        if self.place is None:
            return
        found = [
            json.dumps([asked.hex(), v.max_error, v.why])
            for asked, v in self.items()
            if v.ok and asked not in self._saved
        ]
        if not found:
            return
        with contextlib.suppress(OSError, NotPrivateError):
            self._write(self.place, "".join(f"{line}\n" for line in found).encode())
            self._is_begun_anew = False
        self._saved = frozenset(self)

    def _write(self, place: Path, data: bytes) -> None:
        if self._is_shared:
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "wb" if self._is_begun_anew else "ab") as file:
                file.write(data)
        elif self._is_begun_anew:
            private_files.replace(place, data)
        else:
            private_files.append(place, data)


def place_of_proofs() -> Path | None:
    """The file for this surgeon and this ONNX Runtime; None where the user has no folder for it.

    Its folder is $SURGEON_SHARED_CACHE, which others may write. Without that it is $SURGEON_CACHE, else `surgeon` in
    $XDG_CACHE_HOME or in ~/.cache, and has to be private.
    """
    runtime = onnx_runtime().__version__
    made_by = hashlib.sha256(
        "\n".join((__version__, runtime, onnx.__version__, np.__version__, _code())).encode()
    ).hexdigest()
    name = f"proofs-{__version__}-onnxruntime-{runtime}-{made_by[:16]}.jsonl"
    try:
        told = os.environ.get(SHARED) or os.environ.get(PRIVATE)
        return Path(told or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon") / name
    except RuntimeError:  # the user has no home folder
        return None


@cache
def _code() -> str:
    """A digest of the code that judges: a checkout changes without its version."""
    folder = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(p for judge in JUDGES for p in (folder / judge).glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _proofs(data: bytes) -> Iterator[tuple[bytes, Verdict]]:
    """The proofs in a file; a line that was cut off is passed over."""
    for line in data.decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError, TypeError):
            asked, max_error, why = json.loads(line)
            yield bytes.fromhex(asked), Verdict(True, None if max_error is None else float(max_error), str(why))
