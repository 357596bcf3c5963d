"""The command line's arguments: the parser, made from the options of `surgeon.pipeline.options` and arguments.toml."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from surgeon.app.completion import actions
from surgeon.errors import UsageError, did_you_mean, nearest
from surgeon.ir.data_file import data_beside
from surgeon.pipeline.option import (
    GROUPS,
    Flag,
    Kind,
    Number,
    Option,
    Pairs,
    Sizes,
    Text,
    option,
    options_of,
    sizes,
    words,
)
from surgeon.pipeline.options import CheckOptions, RewriteOptions
from surgeon.targets.target import Target
from surgeon.version import __version__

TABLE = data_beside(__file__)
COMMANDS = tuple(dict.fromkeys(name.split()[0] for name in TABLE["commands"]))
CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)")  # argparse's words
ARGPARSE = ("metavar", "nargs", "choices", "default", "dest", "help")  # keys of a row that argparse has, too
KINDS: dict[str, dict[str, Any]] = {
    "flag": {"action": "store_true"},
    "switch": {"action": argparse.BooleanOptionalAction},
    "several": {"action": "append", "default": []},
    "int": {"type": int},
}
PROFILE = Pairs(":", "INPUT:MIN,OPT,MAX or INPUT:SHAPE, such as x:1x3x64x64,4x3x256x256,8x3x512x512")


@dataclass(frozen=True, kw_only=True)
class RewriteArguments(RewriteOptions):
    """The options that decide what `surgeon rewrite` writes."""

    strict: bool = option(False, Flag(), "output", "write nothing if nodes remain that the target does not support")


# The options of the commands that read a configuration file.
ASKED: dict[str, type[CheckOptions]] = {"rewrite": RewriteArguments, "fix": RewriteOptions, "check": CheckOptions}


# ---- the parser ------------------------------------------------------------------------------------------------------


class _Renamed(argparse.Action):
    """The old name of an option: it does what the option does, and leaves a note."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, []), values])
        note = f"{option_string} is called {self.const} now."
        namespace.notes = [*getattr(namespace, "notes", []), note]


class _Parser(argparse.ArgumentParser):
    """A parser whose help ends with exit statuses and examples, and whose errors are UsageErrors."""

    def format_help(self) -> str:
        name = self.prog.removeprefix("surgeon").strip()
        entry = TABLE["commands"].get(name, {})
        examples = entry.get("examples") or TABLE["examples"][name or "surgeon"]
        lines = "".join(f"  surgeon {example}\n" for example in examples)
        statuses = TABLE["exit"] | entry["exit"] if "exit" in entry else {}
        ends = "".join(f"  {status}  {meaning}\n" for status, meaning in sorted(statuses.items()))
        shown = super().format_help() + (f"\nexit status:\n{ends}" if ends else "")
        return shown + (f"\nexamples:\n{lines}" if lines else "")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """What argparse does, but that the option that was meant is named in place of one that there is not."""
        actions = self._option_string_actions.items()
        shown = {name: name for name, a in actions if a.help != argparse.SUPPRESS}
        known = {**shown, **{name: a.const for name, a in actions if isinstance(a, _Renamed)}}
        first = next(iter(args or ()), "")
        if self.prog == "surgeon" and first.startswith("-") and not any(option.startswith(first) for option in known):
            self.error(f"there is no option '{first}'.{did_you_mean(first, known)}")
        found, left = super().parse_known_args(args, namespace)
        wrong = next((word.partition("=")[0] for word in left if word.startswith("-")), "")
        if wrong and self.prog != "surgeon":
            self.error(f"there is no option '{wrong}'.{did_you_mean(known.get(nearest(wrong, known), wrong), shown)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        choice = CHOICE.fullmatch(message)
        if choice and self.prog == "surgeon":
            message = f"there is no command '{choice[2]}'.{did_you_mean(choice[2], COMMANDS)}"
        elif choice:
            known = re.findall(r"[\w-]+", choice[3])
            meant = did_you_mean(choice[2], known, most=0)
            message = f"{choice[1]} takes {', '.join(known)}, not '{choice[2]}'.{meant}"
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{message}{end} See {self.prog} --help.")


_Commands = argparse._SubParsersAction  # argparse has no public name for what `add_subparsers` returns


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the whole command line. Its `command` names a module in `surgeon.app.commands`.

    words  those that it is to read: of the other commands it has no arguments then, which takes half the time
    """
    top = _Parser(
        prog="surgeon",
        description="Rewrites ONNX models so that your TensorRT parses, builds and runs them correctly. It proves each "
        "rewrite.",
        epilog="surgeon COMMAND --help prints more.",
    )
    top.add_argument("--version", action="version", version=f"surgeon {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=_Parser)
    above = {"": commands}
    for whole, entry in TABLE["commands"].items():
        group, _, name = whole.rpartition(" ")
        if group not in above:
            help = TABLE["above"][group]
            below = commands.add_parser(group, help=help, description=f"{help[0].upper()}{help[1:]}.")
            above[group] = below.add_subparsers(metavar="ACTION", dest="action", required=True, parser_class=_Parser)
        p = _command(above[group], name, entry["usage"], entry["help"])
        if words and words[0] in COMMANDS and words[0] != whole.split()[0]:
            continue
        for row in entry.get("arguments", ()):
            _add(p, row, ASKED.get(whole, RewriteOptions))
    return top


def given(words: Sequence[str]) -> set[str]:
    """The names of the arguments that these words give, defaults left out."""
    whole = parser(words)
    for action in actions(whole):
        action.default = argparse.SUPPRESS
    return set(vars(whole.parse_args(words)))


def _command(commands: _Commands[_Parser], name: str, usage: str | list[str], help: str) -> _Parser:
    """The parser of a command, whose help begins with that sentence."""
    prog = commands._prog_prefix
    lines = [f"{prog} {name} {line}" for line in ([usage] if isinstance(usage, str) else usage)]
    description = help[0].upper() + help[1:] + "."
    p = commands.add_parser(name, usage="\n       ".join(lines), help=help, description=description)
    p._optionals.title = "general"
    p.add_argument("-q", "--quiet", action="store_true", help="print only errors")
    p.add_argument(
        "-v", "--verbose", action="count", default=0, help="print every row, with each node; -vv adds tracebacks"
    )
    return p


def _group(p: _Parser, title: str) -> argparse._ArgumentGroup:
    """The options under a title of the help; the general ones come last."""
    found = next((g for g in p._action_groups if g.title == title), None) or p.add_argument_group(title)
    p._action_groups.sort(key=lambda group: group is p._optionals)
    return found


def _add(p: _Parser, row: Mapping[str, Any], asked: type) -> None:
    """Add what a row of the table says; `asked` are the options of the command."""
    if "shared" in row:
        for shared in TABLE["shared"][row["shared"]]:
            _add(p, shared, asked)
    elif "options" in row:
        _add_options(p, asked, **row["options"])
    elif "option" in row:
        o = options_of(asked)[row["option"]]
        _add_option(_group(p, o.group), o, ())
    else:
        target = _group(p, row["group"]) if "group" in row else p
        names, kind = row["names"].split(), KINDS.get(row.get("kind", ""), {})
        action = target.add_argument(*names, **kind, **{key: row[key] for key in ARGPARSE if key in row})
        if "old" in row:
            _add_old(target, row["old"], names[0], action.dest)


def _add_options(p: _Parser, asked: type, **also: str) -> None:
    """Add the options of a dataclass, by group; `also` are further flags by keyword, which come first."""
    given = options_of(asked)
    for title in GROUPS:
        for keyword, o in given.items():
            if o.group == title:
                _add_option(_group(p, title), o, [also[keyword]] if keyword in also else [])
    p.add_argument("--no-config", action="store_true", help="do not read options from surgeon.toml or pyproject.toml")


def _add_option(group: argparse._ArgumentGroup, o: Option, also: Sequence[str]) -> None:
    shown: dict[str, Any] = {"metavar": o.metavar} if o.metavar else {}
    group.add_argument(*also, o.flag, dest=o.name, default=o.kind.default, help=o.help, **shown, **_reading(o.kind))
    if o.old:
        _add_old(group, o.old, o.flag, o.name)
    if isinstance(o.kind, Flag):  # turns off what a configuration file turns on
        off = f"--{o.flag[5:]}" if o.kind.inverse else f"--no-{o.flag[2:]}"
        group.add_argument(off, dest=o.name, action="store_false", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _add_old(group: argparse._ActionsContainer, old: str, flag: str, dest: str) -> None:
    group.add_argument(old, dest=dest, action=_Renamed, const=flag, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _reading(kind: Kind) -> dict[str, Any]:
    """How argparse reads an option of that kind."""
    if isinstance(kind, Flag):
        return {"action": "store_true"}
    if isinstance(kind, Number):
        return {"type": kind.type}
    if isinstance(kind, Text):
        return {"choices": kind.choices} if kind.choices else {}
    return {"action": "append"}


# ---- text into values ------------------------------------------------------------------------------------------------


def profile(given: Sequence[str]) -> dict[str, list[Sizes]]:
    """Input name -> its smallest, usual and largest shape, from --profile INPUT:MIN,OPT,MAX."""
    found = {}
    for name, text, item in PROFILE.pairs(given, "--profile"):
        shapes = [sizes(part, item) for part in text.split(",")]
        if len(shapes) not in (1, 3):
            raise UsageError(f"--profile takes {PROFILE.takes}, not '{item}'.")
        found[name] = shapes * (3 if len(shapes) == 1 else 1)
    return found


def pairs(keyword: str, given: Sequence[str]) -> dict[str, Any]:
    """What an option of rewrite gives for each name: `shapes` the sizes of an input, `values` its value as text."""
    o = options_of(RewriteOptions)[keyword]
    found: dict[str, Any] = o.kind.value(given, o.flag)
    return found


def tactic_sources(args: argparse.Namespace) -> list[str] | None:
    """The names of --tactic-sources; none of them for `none`, None where TensorRT chooses."""
    if args.tactic_sources is None:
        return None
    return [] if args.tactic_sources == "none" else words([args.tactic_sources])


def target_of(args: argparse.Namespace) -> tuple[Target, str]:
    """The target, and how the first line calls it."""
    target = Target.default() if args.target is None else Target.parse(args.target)
    said = [] if args.target else ["the default"]
    if "target_from" in args:
        said.append(f"from {args.target_from}")
    if target.note:
        said.append(target.note)
    return target, f"target {target}" + (f" ({': '.join(said)})" if said else "")
