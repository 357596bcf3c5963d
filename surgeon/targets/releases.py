"""The releases of TensorRT that the table knows, and ranges of them.

Nobody else compares version numbers: a range is asked whether it covers a target.
"""

from dataclasses import dataclass, replace
from functools import cache

Version = tuple[int, ...]

RELEASES: tuple[Version, ...] = (
    (6, 0),
    (7, 0),
    (7, 1),
    (7, 2),
    (7, 2, 2),
    (8, 0),
    (8, 2),
    (8, 4),
    (8, 5),
    (8, 6),
    (9, 0),
    (9, 1),
    (9, 2),
    (9, 3),
    *((10, minor) for minor in range(17)),
    *((11, minor) for minor in range(5)),
)
FIRST, LAST = RELEASES[0], RELEASES[-1]
BESIDE_RTX: Version = (10, 14)  # the first release of the time of the TensorRT-RTX that was measured


@dataclass(frozen=True, slots=True)
class Range:
    """The targets that something holds for: releases of TensorRT, TensorRT-RTX, or DLA.

    `releases` are rows of the table, in order. `rtx` adds TensorRT-RTX, which has no row of its own. With `dla`
    it holds for DLA and nothing else, of these releases or of all; where a release holds without, it holds for DLA
    too. What holds for TensorRT-RTX is unknown for the releases of its time that are not listed, unless `alone` is
    set. With `doubt` it is unknown for `releases`, too.
    """

    releases: tuple[Version, ...] = ()
    rtx: bool = False
    dla: bool = False
    alone: bool = False
    doubt: bool = False

    def covers(self, version: Version, *, rtx: bool = False, dla: bool = False) -> bool:
        """Whether it holds for the target with this row of the table."""
        if self.dla or self.doubt:
            return dla and not self.doubt and (not self.releases or version in self.releases)
        return self.rtx if rtx else version in self.releases

    def doubts(self, version: Version, *, rtx: bool = False) -> bool:
        """Whether it is unknown if it holds for the target with this row of the table."""
        if self.doubt:
            return version in self.releases and not rtx
        return self.rtx and not (rtx or self.alone) and version >= BESIDE_RTX and version not in self.releases

    def __str__(self) -> str:
        if self.dla:
            return f"dla {dotted(self.releases[0])} to {dotted(self.releases[-1])}" if self.releases else "dla"
        words = [f"{dotted(self.releases[0])} to {dotted(self.releases[-1])}"] if self.releases else []
        return ", ".join([*words, "rtx"] if self.rtx else words)


def between(first: Version, last: Version, *, rtx: bool = False) -> Range:
    """The releases from `first` to `last`, both included. Raises ValueError where one has no row in the table."""
    for version in (first, last):
        if version not in RELEASES:
            raise ValueError(f"{dotted(version)} is not in the table of releases: {', '.join(map(dotted, RELEASES))}")
    return Range(RELEASES[RELEASES.index(first) : RELEASES.index(last) + 1], rtx)


def in_doubt(first: Version, last: Version) -> Range:
    """The releases from `first` to `last`, whose documentation and source do not agree."""
    return replace(between(first, last), doubt=True)


def since(*first: int, rtx: bool = False) -> Range:
    """A release and every later one: `since(8, 5)`."""
    return between(first, LAST, rtx=rtx)


def up_to(*last: int) -> Range:
    """A release and every earlier one: `up_to(9, 3)`."""
    return between(FIRST, last)


@cache
def parse(text: str) -> Range:
    """The range of a text in a table. Raises ValueError.

    "8.2", "8.2 to 8.6", "8.2 on", "up to 8.6" and "every release" are releases. ", rtx" after them adds TensorRT-RTX,
    and "rtx" or "rtx alone" is TensorRT-RTX. With "unknown: " before them it is unknown whether it holds there.
    """
    *releases, last = text.removeprefix("unknown: ").split(", ")
    rtx = last.startswith("rtx")
    held = _releases("".join(releases) if rtx else last)
    return Range(held, rtx, alone=last.endswith("alone"), doubt=text.startswith("unknown: "))


def _releases(text: str) -> tuple[Version, ...]:
    if text in ("", "every release"):
        return RELEASES if text else ()
    if text.startswith("up to "):
        return up_to(*version_of(text.removeprefix("up to "))).releases
    first, _, last = text.partition(" to ")
    if first.endswith(" on"):
        return since(*version_of(first.removesuffix(" on"))).releases
    return between(version_of(first), version_of(last or first)).releases


EVERY_RELEASE = between(FIRST, LAST)
EVERYWHERE = between(FIRST, LAST, rtx=True)
RTX = Range(rtx=True)
RTX_ALONE = Range(rtx=True, alone=True)  # a source says that the releases support it
DLA = Range(dla=True)


def row_of(version: Version) -> Version:
    """The row that stands for a version: its own, or the nearest one below. Raises ValueError below the first row."""
    return max(row for row in RELEASES if row <= version)


def version_of(text: str) -> Version:
    """The version of a text such as "8.4". Raises ValueError."""
    return tuple(map(int, text.split(".")))


def dotted(version: Version) -> str:
    """A version as people write it: "8.4"."""
    return ".".join(map(str, version))
