"""How an option is written: as a keyword of Python, on the command line, in a configuration file and in a report.

An option is a field of a dataclass, made by `option(...)`. All else is made from these fields.

    kind       command line           in a report         configuration file   Python
    Flag       --fp16                 true                true                 True
    Number     --detections 100       100                 100                  100
    Text       --verify full          "full"              "full"               "full"
    Words      --only a,b --only c    ["a,b", "c"]        ["a", "b", "c"]      ["a", "b", "c"]
    Pairs      --shapes x:1x3         ["x:1x3"]           {x = [1, 3]}         {"x": (1, 3)}

What the command line and a report have is the option's *text*, though it may be a number. Every error names the option.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from surgeon.errors import UsageError, did_you_mean
from surgeon.pipeline.source import ModelLike

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
GROUPS = (  # in order
    "target", "passes", "proof", "sizes and inputs", "precision", "int8", "weights", "tuning", "data", "output",
)  # fmt: skip
PROGRESS = "called with (phase, done, total) while it works"
SPECIFICATION = "option"  # the key of a field's metadata
Sizes = tuple[int, ...]
SHAPES = re.compile(r"(.+?:[0-9x]*)(?:,|$)")  # of several inputs


# ---- text into values ------------------------------------------------------------------------------------------------


def words(given: Iterable[str]) -> list[str]:
    """The words of options that take several: `--only a,b --only c` is a, b, c."""
    return [w.strip() for item in given for w in item.split(",") if w.strip()]


def sizes(text: str, item: str, flag: str = "") -> Sizes:
    """The sizes of `1x3x224x224`; `item` is what the user wrote. Raises UsageError."""
    parts = text.split("x") if text else []
    if not all(p.isdecimal() for p in parts):
        raise UsageError(f"sizes are numbers with an x between them, such as 1x3x224x224, not '{text}' (in '{item}').")
    return tuple(int(p) for p in parts)


# ---- kinds -----------------------------------------------------------------------------------------------------------


class Kind(ABC):
    """The type of an option's value.

    wanted   what a configuration file has to have, as an error says it
    default  the text of an option that is left out
    """

    wanted: str
    default: Any = None

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether a configuration file may have that value."""

    def text(self, value: Any) -> Any:
        """The text of a value in a configuration file."""
        return value

    def beside(self, text: Any, folder: Path) -> Any:
        """The same, where paths are relative to that folder."""
        return text

    def is_text(self, value: Any) -> bool:
        """Whether a report may have that text."""
        return value is None or self.fits(value)

    def value(self, text: Any, flag: str) -> Any:
        """Python's value of a text. Raises UsageError."""
        return text

    def words(self, flag: str, text: Any) -> list[str]:
        """The words of a command line that say this text."""
        return [] if text is None else [f"{flag}={text!r}" if isinstance(text, float) else f"{flag}={text}"]


@dataclass(frozen=True)
class Flag(Kind):
    """A boolean. `inverse`: giving the option makes the keyword False."""

    inverse: bool = False
    wanted = "true or false"
    default = False

    def fits(self, value: Any) -> bool:
        return isinstance(value, bool)

    def is_text(self, value: Any) -> bool:
        return isinstance(value, bool)

    def value(self, text: Any, flag: str) -> bool:
        return bool(text) != self.inverse

    def words(self, flag: str, text: Any) -> list[str]:
        return [flag] if text else []


@dataclass(frozen=True)
class Number(Kind):
    """An integer or a float; None without it."""

    type: type[int] | type[float]

    @property
    def wanted(self) -> str:  # type: ignore[override]
        return "an integer" if self.type is int else "a number"

    def fits(self, value: Any) -> bool:
        taken = int if self.type is int else (int, float)
        return isinstance(value, taken) and not isinstance(value, bool)


@dataclass(frozen=True)
class Text(Kind):
    """A text, or one of `choices`."""

    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def wanted(self) -> str:  # type: ignore[override]
        return f"one of {', '.join(self.choices)}" if self.choices else 'text, such as "8.4"'

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and (not self.choices or value in self.choices)


class File(Text):
    """The path of a file."""

    def beside(self, text: str, folder: Path) -> str:
        return str(folder / text)


class Several(Kind):
    """An option that may be given more than once."""

    default: Any = []

    def is_text(self, value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(v, str) for v in value)

    def words(self, flag: str, text: Any) -> list[str]:
        return [f"{flag}={item}" for item in text]


@dataclass(frozen=True)
class Words(Several):
    """Several names. A name that has `whole` in it may have commas of its own."""

    whole: str = ","
    wanted = "a list of texts"

    def fits(self, value: Any) -> bool:
        return self.is_text(value)

    def value(self, text: Any, flag: str) -> list[str]:
        if text and not words(text):
            raise UsageError(f"{flag} is empty: give a name, or leave it out.")
        return [w for item in text for w in ([item] if self.whole != "," and self.whole in item else words([item]))]


@dataclass(frozen=True)
class Paths(Words):
    """Paths of folders."""

    def beside(self, text: list[str], folder: Path) -> list[str]:
        return [str(folder / item) for item in text]

    def value(self, text: Any, flag: str) -> list[str]:
        return list(text)


@dataclass(frozen=True)
class Pairs(Several):
    """A value for each of some names.

    mark   what is between them
    takes  what the option takes, with an example, as an error says it
    read   the value of a text; it gets the whole item and the option, too
    parts  the pairs of what was given; an item may be several
    """

    mark: str
    takes: str
    read: Callable[[str, str, str], Any] = lambda text, item, flag: text
    parts: Callable[[Iterable[str]], Iterable[str]] = iter
    wanted = "a table"

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def text(self, value: Any) -> list[str]:
        said = {name: "x".join(map(str, of)) if isinstance(of, list) else of for name, of in value.items()}
        return [f"{name}{self.mark}{of}" for name, of in said.items()]

    def value(self, text: Any, flag: str) -> dict[str, Any]:
        return {name: self.read(said, item, flag) for name, said, item in self.pairs(text, flag)}

    def pairs(self, given: Iterable[str], flag: str) -> Iterator[tuple[str, str, str]]:
        """Name, text and the whole item of NAME=X or NAME:X. Raises UsageError, also where a name comes twice."""
        seen: set[str] = set()
        for item in self.parts(given):
            name, found, text = item.rpartition(":") if self.mark == ":" else item.partition(self.mark)
            if not found or not name:  # a name may have colons of its own
                raise UsageError(f"{flag} takes {self.takes}, not '{item}'.")
            if name in seen:
                raise UsageError(f"{flag} names '{name}' twice.")
            seen.add(name)
            yield name, text, item


def shapes_apart(given: Iterable[str]) -> Iterator[str]:
    """`a:1x512` and `b:2x1x128` of `a:1x512,b:2x1x128`; an item of another form stays as it is."""
    for item in given:
        yield from SHAPES.findall(item) if SHAPES.sub("", item) == "" else [item]


# ---- options ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """What a field of a dataclass is, beside its Python type.

    help     a line for --help
    python   the same for the docstrings of functions, if it differs
    group    one of GROUPS
    flag     the option of the command line; by default made of the field's name
    metavar  what stands for the value in --help
    old      the flag that it had before
    """

    help: str
    group: str
    kind: Kind
    flag: str = ""
    metavar: str = ""
    old: str = ""
    python: str = ""

    @property
    def name(self) -> str:
        """What a report calls it: `allow_plugins`."""
        return self.flag[2:].replace("-", "_")

    @property
    def old_name(self) -> str:
        """What older reports call it."""
        return self.old[2:].replace("-", "_")


def option(default: T, kind: Kind, group: str, help: str, **more: str) -> T:
    """A field of a dataclass that is an option; `more` are the other fields of an `Option`."""
    made: T = field(default=default, metadata={SPECIFICATION: Option(help, group, kind, **more)})
    return made


def options_of(asked: type) -> Mapping[str, Option]:
    """Keyword -> option, for the fields of a dataclass that are options."""
    found = {}
    for f in fields(asked):
        given: Option | None = f.metadata.get(SPECIFICATION)
        if given is not None:
            found[f.name] = replace(given, flag=given.flag or f"--{f.name.replace('_', '-')}")
    return found


def from_text(asked: type[T], text: Mapping[str, Any], **more: Any) -> T:
    """The options of these texts, by name; `more` are fields that no text says. Raises UsageError."""
    said = {name: o for name, o in options_of(asked).items() if text[o.name] not in (None, [])}
    return asked(**{name: o.kind.value(text[o.name], o.flag) for name, o in said.items()}, **more)


def words_of(asked: type, text: Mapping[str, Any]) -> list[str]:
    """The words of a command line that say these texts."""
    return [word for o in options_of(asked).values() for word in o.kind.words(o.flag, text[o.name])]


# ---- functions that take options by keyword --------------------------------------------------------------------------


class OfModel(Protocol[P, R_co]):
    """A function of a model and options."""

    def __call__(self, model: ModelLike, *args: P.args, **options: P.kwargs) -> R_co: ...


def of_model(asked: Callable[P, object]) -> Callable[[Callable[..., R]], OfModel[P, R]]:
    """A decorator: a function of a model and an `asked` takes the fields of `asked` by keyword."""
    return partial(by_keyword, asked)


def by_keyword(asked: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """A function whose last parameter is an `asked`, taking the fields of `asked` by keyword in its place.

    It raises UsageError for a keyword that there is not. A line `OPTIONS` of its docstring becomes the options.
    """
    *first, last = inspect.signature(function).parameters.values()
    own, known = inspect.Signature(first), inspect.signature(asked).parameters

    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        rest = {name: given.pop(name) for name in own.parameters if name in given}
        bound = own.bind(*args, **rest)
        for name in given:
            if name not in known:
                raise UsageError(f"{function.__name__} has no option '{name}'.{did_you_mean(name, known)}")
        return function(*bound.args, **bound.kwargs, **{last.name: asked(**given)})

    called.__doc__ = (function.__doc__ or "").replace("    OPTIONS\n", _described(asked))
    vars(called)["__signature__"] = inspect.signature(function).replace(parameters=[*first, *known.values()])
    return called


def _described(asked: Any) -> str:
    """The options, a paragraph each, for a docstring."""
    found = {**{name: o.python or o.help for name, o in options_of(asked).items()}, "progress": PROGRESS}
    wide = max(map(len, found)) + 2
    lines = [
        textwrap.fill(text, 116, initial_indent=f"    {name:{wide}}", subsequent_indent=" " * (4 + wide))
        for name, text in found.items()
    ]
    return "".join(f"{line}\n" for line in lines)
