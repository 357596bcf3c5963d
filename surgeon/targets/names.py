"""Names that people have for a TensorRT besides its version: a JetPack, a Jetson, a container, what trtexec prints.

Each name stands for one version, and each row says who says so. `surgeon targets` lists them all. A container between
two rows has the row of the target table that both have, because TensorRT never went back from one month to the next;
where the two differ, nothing is guessed.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from surgeon.errors import UsageError, nearest
from surgeon.ir.data_file import data_beside
from surgeon.targets.releases import FIRST, RELEASES, dotted, row_of, version_of


class Alias(NamedTuple):
    """One row of `surgeon targets`: a name, the TensorRT that it stands for, and who says so."""

    name: str
    version: str
    source: str


class Tables(NamedTuple):
    """The tables of names.toml, by JetPack, by board and by month of a container."""

    jetpacks: dict[str, Alias]
    boards: dict[str, Alias]
    containers: dict[str, Alias]
    trtllm_containers: dict[str, Alias]


@cache
def tables() -> Tables:
    """The tables, read once."""
    read = data_beside(__file__)
    sources = read["sources"]

    def aliases(section: str, name: str) -> dict[str, Alias]:
        rows = read[section].items()
        return {key: Alias(name.format(key), version, sources.get(said, said)) for key, (version, said) in rows}

    jetpacks = aliases("jetpacks", "jetpack-{}")
    boards = {
        name: jetpacks[jetpack]._replace(name=name, source=f"JetPack {jetpack}")
        for name, jetpack in read["boards"].items()
    }
    trtllm = {
        month: Alias(f"{month}-trtllm-python-py3", version, sources["matrix"])
        for version, months in read["trtllm_containers"].items()
        for month in months.split()
    }
    return Tables(jetpacks, boards, aliases("containers", "{}-py3"), trtllm)


_JETPACK = re.compile(r"jetpack[- ]?(\d+(?:\.\d+){1,2})", re.IGNORECASE)
_TAG = re.compile(r"(?:[\w./-]+:)?(\d\d\.\d\d)-((?:trtllm-python-|tf1-|tf2-)?py3)")
_TRTEXEC = re.compile(r"TensorRT(?:\.trtexec)? *\[?(?:TensorRT )?v(\d{4,6})\b")
_PRINTED = re.compile(r"TensorRT[- ](?:version:? )?(\d+(?:\.\d+){1,3})", re.IGNORECASE)


def resolve(text: str) -> tuple[str, str] | None:
    """The version that a name stands for, and a sentence that says so; None for any other name.

    Raises UsageError for a JetPack or a container that no row speaks of.
    """
    name = text.strip()
    board = tables().boards.get(name)
    if board is not None:
        said = f"{name} is taken for {board.source} with TensorRT {board.version}; name another as jetpack-5.1.2"
        return board.version, said
    if found := _JETPACK.fullmatch(name):
        version = _jetpack(found[1])
        return version, f"JetPack {found[1]} has TensorRT {version}"
    if found := _TAG.fullmatch(name):
        version = _container(found[1], found[2])
        return version, f"the container {found[1]}-{found[2]} has TensorRT {version}"
    version = printed_version(name)
    return (version, f"the text says TensorRT {version}") if version else None


def printed_version(text: str) -> str:
    """The first version that trtexec, a builder or a package printed: `[TensorRT v8601]`, `TensorRT version: 8.6.1`."""
    number, words = _TRTEXEC.search(text), _PRINTED.search(text)
    if number and (words is None or number.start() <= words.start()):
        return _of_number(number[1])
    return words[1] if words else ""


def aliases() -> Iterator[Alias]:
    """Every name that stands for a version, in the order of the tables, without those that are older than any row."""
    return (alias for table in tables() for alias in table.values() if version_of(alias.version) >= FIRST)


def suggestion(text: str) -> str:
    """ " Did you mean 'x'?" for what comes near a name; empty where nothing does."""
    name = text.strip().lower().replace("_", "-").replace(",", ".")
    bare = re.sub(r"^(tensorrt|trt)[- ]?v?", "", name)
    known = ["rtx", "installed", *(a.name for a in aliases()), *map(dotted, RELEASES)]
    for guess in (name, bare, f"jetson-{name}", f"jetpack-{name}", f"{name}-py3"):
        if guess != text and (guess in known or re.fullmatch(r"\d+\.\d+(\.\d+)*(\+dla)?", guess)):
            return f" Did you mean '{guess}'?"
    near = nearest(name, known, cutoff=0.75)
    return f" Did you mean '{near}'?" if near else ""


def _jetpack(asked: str) -> str:
    jetpacks = tables().jetpacks
    if asked in jetpacks:
        return jetpacks[asked].version
    raise UsageError(
        f"which TensorRT JetPack {asked} has is not in the table, which knows {', '.join(jetpacks)}. Name the version "
        "that `dpkg -l tensorrt` prints."
    )


def _container(month: str, kind: str) -> str:
    table = tables().trtllm_containers if kind.startswith("trtllm") else tables().containers
    if month in table:
        return table[month].version
    before = [m for m in table if m < month]
    after = [m for m in table if m > month]
    if before and after:
        below, above = table[before[-1]].version, table[after[0]].version
        if row_of(version_of(below)) == row_of(version_of(above)):
            return dotted(row_of(version_of(below)))
        between = f": {before[-1]} has {below}, {after[0]} has {above}"
    else:
        between = f", which knows {next(iter(table))} to {list(table)[-1]}"
    raise UsageError(
        f"which TensorRT the container {month}-{kind} has is not in the table{between}. Name the version that "
        "`trtexec` prints there."
    )


def _of_number(digits: str) -> str:
    """NV_TENSORRT_VERSION as text: 8601 is 8.6.1, 100001 is 10.0.1."""
    number = int(digits)
    major, rest = divmod(number, 10000 if number >= 100000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
