"""Names that people have for a TensorRT besides its version: a JetPack, a Jetson, a container, what trtexec prints.

Each name stands for one version, and each row says who says so. `surgeon targets` lists them all. A container between
two rows has the row of the target table that both have, because TensorRT never went back from one month to the next;
where the two differ, nothing is guessed.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple

from surgeon.errors import UsageError
from surgeon.targets.releases import FIRST, RELEASES, Version, dotted, row_of


class Shipped(NamedTuple):
    """The TensorRT that something ships with, and who says so."""

    version: str
    source: str


class Alias(NamedTuple):
    """One row of `surgeon targets`: a name, the TensorRT that it stands for, and who says so."""

    name: str
    version: str
    source: str


_GIST = "gist.github.com/Tiryoh/2b5dc1f86ab6bc3e6922e97a4c1ac2f2, from NVIDIA's release notes for Jetson"
_PARTNER = "github.com/edgehook/Jetson-AI-task, from developer.nvidia.com/embedded/jetpack-archive"
_TORCH = "docs.pytorch.org/TensorRT, getting_started/jetpack"

JETPACKS: dict[str, Shipped] = {
    "4.2.2": Shipped("5.1.6", "developer.nvidia.com/jetpack-4_3_dp"),
    "4.3": Shipped("6.0.1", "developer.nvidia.com/jetpack-4_3_dp"),
    "4.4": Shipped("7.1", "github.com/onnx/onnx-tensorrt/issues/518"),
    "4.4.1": Shipped("7.1.3", _GIST),
    "4.5": Shipped("7.1.3", _GIST),
    "4.5.1": Shipped("7.1.3", _GIST),
    "4.6": Shipped("8.0.1", _GIST),
    "4.6.1": Shipped("8.2.1", _GIST),
    "4.6.2": Shipped("8.2.1", _GIST),
    "4.6.3": Shipped("8.2.1", "4.6.2 and 4.6.4 have it"),
    "4.6.4": Shipped("8.2.1", "component matrices of images built on L4T 32.7.4"),
    "5.0.2": Shipped("8.4.1", "github.com/dusty-nv/jetson-inference, c/tensorNet.cpp"),
    "5.1": Shipped("8.5.2", "L4T 35.2.1, as 5.1.1"),
    "5.1.1": Shipped("8.5.2", _PARTNER),
    "5.1.2": Shipped("8.5.2", _PARTNER),
    "5.1.3": Shipped("8.5.2", "5.1.2 and 5.1.4 have it"),
    "5.1.4": Shipped("8.5.2", "github.com/SnapDragonfly/jetson-fpv, doc/TESTENV.md: what jtop prints"),
    "5.1.5": Shipped("8.5.2", "what users of L4T 35.6.1 print"),
    "6.0": Shipped("8.6.2", "component matrices of images built on L4T 36.3"),
    "6.1": Shipped("10.3", _TORCH),
    "6.2": Shipped("10.3", _TORCH),
    "7.0": Shipped("10.13", "NVIDIA's notes on Jetson Linux 38.2"),
    "7.1": Shipped("10.13.3", "what users of Jetson Thor print"),
    "7.2": Shipped("10.16.2", "NVIDIA's notes on Jetson Linux 39.2"),
}


# Board -> the JetPack that it is taken for: the last that it runs, or for Orin and Thor the one that most run. The
# note says so.
BOARDS: dict[str, str] = {
    "jetson-nano": "4.6.4",
    "jetson-tx2": "4.6.4",
    "jetson-xavier": "5.1.5",
    "jetson-orin": "6.2",
    "jetson-thor": "7.1",
}

_TRITON = "docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel_"
_TWCC = "docs.twcloud.ai, the versions of NGC's Triton images"

# Month -> what nvcr.io/nvidia/{tensorrt,pytorch,tensorflow,tritonserver}:MONTH-py3 has.
CONTAINERS: dict[str, Shipped] = {
    "20.02": Shipped("7.0.0", f"{_TRITON}20-02.html"),
    "20.07": Shipped("7.1.3", f"{_TRITON}20-07.html"),
    "20.10": Shipped("7.2.1", f"{_TRITON}20-10.html"),
    "21.02": Shipped("7.2.2", f"{_TRITON}21-02.html"),
    "21.04": Shipped("7.2.3", f"{_TRITON}21-04.html"),
    "21.07": Shipped("8.0.1", f"{_TRITON}21-07.html"),
    "21.08": Shipped("8.0.1", _TWCC),
    "21.11": Shipped("8.0.3", _TWCC),
    "22.02": Shipped("8.2.3", _TWCC),
    "22.05": Shipped("8.2.5", _TWCC),
    "22.08": Shipped("8.4.2", _TWCC),
    "22.11": Shipped("8.5.1", _TWCC),
    "23.02": Shipped("8.5.3", "github.com/autonomi-ai/nos/pull/19"),
    "23.04": Shipped("8.6.1", "github.com/NVIDIA/TensorRT/issues/4676, from NVIDIA's container release notes"),
    "24.02": Shipped("8.6.3", "github.com/triton-inference-server/server/issues/6959"),
    "24.05": Shipped("10.0.1", f"{_TWCC}; github.com/NVIDIA/TensorRT/issues/3796"),
    "24.12": Shipped("10.7.0", _TWCC),
    "26.02": Shipped("10.15.1", "github.com/NVIDIA/Model-Optimizer/pull/1112"),
}

_MATRIX = "github.com/triton-inference-server/server, docs/introduction/compatibility.md"

# Month -> what nvcr.io/nvidia/tritonserver:MONTH-trtllm-python-py3 has; it is older than the others.
TRTLLM_CONTAINERS: dict[str, Shipped] = {
    month: Shipped(version, _MATRIX)
    for version, months in {
        "9.3.0": "24.04",
        "10.0.1": "24.05 24.06",
        "10.1.0": "24.07",
        "10.3.0": "24.08",
        "10.4.0": "24.09 24.10",
        "10.6.0": "24.11",
        "10.7.0": "24.12",
        "10.8.0": "25.01 25.02",
        "10.9.0": "25.03 25.04 25.05",
        "10.10.0": "25.06 25.07",
        "10.11.0": "25.08 25.09 25.10",
        "10.13.3": "25.11 25.12 26.01 26.02",
        "10.14.1": "26.03 26.04 26.05 26.06 26.07",
    }.items()
    for month in months.split()
}

_JETPACK = re.compile(r"jetpack[- ]?(\d+(?:\.\d+){1,2})", re.IGNORECASE)
_TAG = re.compile(r"(?:[\w./-]+:)?(\d\d\.\d\d)-((?:trtllm-python-|tf1-|tf2-)?py3)")
_TRTEXEC = re.compile(r"TensorRT(?:\.trtexec)? *\[?(?:TensorRT )?v(\d{4,6})\b")
_PRINTED = re.compile(r"TensorRT[- ](?:version:? )?(\d+(?:\.\d+){1,3})", re.IGNORECASE)


def resolve(text: str) -> tuple[str, str] | None:
    """The version that a name stands for, and a sentence that says so; None for any other name.

    Raises UsageError for a JetPack or a container that no row speaks of.
    """
    name = text.strip()
    if name in BOARDS:
        jetpack = BOARDS[name]
        version = JETPACKS[jetpack].version
        return version, f"{name} is taken for JetPack {jetpack} with TensorRT {version}; name another as jetpack-5.1.2"
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
    rows = [
        *((f"jetpack-{name}", shipped) for name, shipped in JETPACKS.items()),
        *((board, JETPACKS[jetpack]._replace(source=f"JetPack {jetpack}")) for board, jetpack in BOARDS.items()),
        *((f"{month}-py3", shipped) for month, shipped in CONTAINERS.items()),
        *((f"{month}-trtllm-python-py3", shipped) for month, shipped in TRTLLM_CONTAINERS.items()),
    ]
    return (Alias(name, s.version, s.source) for name, s in rows if _numbers(s.version) >= FIRST)


def suggestion(text: str) -> str:
    """ " Did you mean 'x'?" for what comes near a name; empty where nothing does."""
    name = text.strip().lower().replace("_", "-").replace(",", ".")
    bare = re.sub(r"^(tensorrt|trt)[- ]?v?", "", name)
    known = ["rtx", "installed", *(a.name for a in aliases()), *map(dotted, RELEASES)]
    for guess in (name, bare, f"jetson-{name}", f"jetpack-{name}", f"{name}-py3"):
        if guess != text and (guess in known or re.fullmatch(r"\d+\.\d+(\.\d+)*(\+dla)?", guess)):
            return f" Did you mean '{guess}'?"
    near = get_close_matches(name, known, n=1, cutoff=0.75)
    return f" Did you mean '{near[0]}'?" if near else ""


def _jetpack(asked: str) -> str:
    if asked in JETPACKS:
        return JETPACKS[asked].version
    raise UsageError(
        f"which TensorRT JetPack {asked} has is not in the table, which knows {', '.join(JETPACKS)}. Name the version "
        "that `dpkg -l tensorrt` prints."
    )


def _container(month: str, kind: str) -> str:
    table = TRTLLM_CONTAINERS if kind.startswith("trtllm") else CONTAINERS
    if month in table:
        return table[month].version
    before = [m for m in table if m < month]
    after = [m for m in table if m > month]
    if before and after:
        below, above = table[before[-1]].version, table[after[0]].version
        if row_of(_numbers(below)) == row_of(_numbers(above)):
            return dotted(row_of(_numbers(below)))
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


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))
