"""The command line's arguments: the parser, made from the options of `surgeon.pipeline.options` and those here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from surgeon.app.commands import MEANINGS, STATUSES
from surgeon.app.completion import SHELLS, actions
from surgeon.errors import UsageError, did_you_mean
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

EXAMPLES = {
    "": ("fix model.onnx --for 8.4", "check model.onnx --target 8.4"),
    "fix": ("fix model.onnx", "fix model.onnx --for 8.4 -o for_8.4.onnx"),
    "rewrite": (
        "rewrite model.onnx out.onnx --target 8.4 --report report.html",
        "rewrite models/ -o rewritten/ --jobs 4 --target 10.9",
    ),
    "check": ("check model.onnx --target 8.4", "check models/ --target 8.6+dla --jobs 2 --format github"),
    "why": ("why trtexec.log --model model.onnx", "why trtexec.log --target 8.4"),
    "targets": ("targets", "targets -q"),
    "diff-targets": ("diff-targets 8.4 10.9 model.onnx", "diff-targets 8.6 rtx model.onnx"),
    "verify": ("verify report.json", "verify -q rewritten/surgeon-reports/model.onnx.json"),
    "build": ("build out.onnx out.engine", "build out.onnx out.engine --profile x:1x3x64x64,4x3x96x96,8x3x96x96"),
    "kernels": ("kernels model.onnx --shapes x:1x3x64x64", "kernels out.onnx --against model.onnx"),
    "compare": ("compare model.onnx out.onnx --bisect found", "compare models/ rewritten/ --jobs 2 -o compared.jsonl"),
    "passes": ("passes", "passes --passes my_passes"),
    "explain": ("explain l2-norm", "explain mine --passes my_passes"),
    "plugins": ("plugins build", "plugins build --arch 86,90 --out lib"),
    "trust": ("trust my_passes", "trust --forget my_passes"),
    "completion": ("completion bash", "completion zsh"),
    "plugins build": ("plugins build", "plugins build --tensorrt-root /opt/TensorRT --arch 87"),
}
COMMANDS = tuple(name for name in EXAMPLES if name and " " not in name)
CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)")  # argparse's words
FORMATS = ("text", "json", "jsonl", "sarif", "github")
RESULTS = "write one JSON line per model; run again to resume"
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
        lines = "".join(f"  surgeon {example}\n" for example in EXAMPLES.get(name, ()))
        statuses = {**MEANINGS, **STATUSES[name]} if name in STATUSES else {}
        ends = "".join(f"  {status}  {meaning}\n" for status, meaning in sorted(statuses.items()) if meaning)
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
            near = get_close_matches(wrong, known, n=1)
            self.error(f"there is no option '{wrong}'.{did_you_mean(known[near[0]] if near else wrong, shown)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        choice = CHOICE.fullmatch(message)
        if choice and self.prog == "surgeon":
            message = f"there is no command '{choice[2]}'.{did_you_mean(choice[2], COMMANDS)}"
        elif choice:
            known = re.findall(r"[\w-]+", choice[3])
            near = get_close_matches(choice[2], known, n=1)
            meant = f" Did you mean '{near[0]}'?" if near else ""
            message = f"{choice[1]} takes {', '.join(known)}, not '{choice[2]}'.{meant}"
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{message}{end} See {self.prog} --help.")


_Commands = argparse._SubParsersAction  # argparse has no public name for what `add_subparsers` returns


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line. Its `command` names a module in `surgeon.app.commands`."""
    top = _Parser(
        prog="surgeon",
        description="Rewrites ONNX models so that the TensorRT you have parses, builds and runs them correctly, and "
        "proves it.",
        epilog="surgeon COMMAND --help prints more.",
    )
    top.add_argument("--version", action="version", version=f"surgeon {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=_Parser)
    for add in (
        _add_fix, _add_rewrite, _add_check, _add_why, _add_verify, _add_build, _add_kernels, _add_compare, _add_passes,
        _add_explain, _add_targets, _add_diff_targets, _add_plugins, _add_trust, _add_completion,
    ):  # fmt: skip
        add(commands)
    return top


def given(words: Sequence[str]) -> set[str]:
    """The names of the arguments that these words give, defaults left out."""
    whole = parser()
    for action in actions(whole):
        action.default = argparse.SUPPRESS
    return set(vars(whole.parse_args(words)))


def _command(commands: _Commands[_Parser], name: str, usage: str, help: str) -> _Parser:
    """The parser of a command, whose help begins with that sentence."""
    prog = commands._prog_prefix
    lines = [f"{prog} {name} {line}".rstrip() for line in usage.split("\n")]
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


def _add_old(group: argparse._ArgumentGroup, old: str, flag: str, dest: str) -> None:
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


# fmt: off
def _add_many(p: _Parser) -> None:
    """Add the options of commands that take many models."""
    _add_format(p)
    _group(p, "output").add_argument("--jobs", metavar="N", type=int, default=1,
                                     help="models to process in parallel (default 1)")
    p.add_argument("--exit-zero", action="store_true", help="exit 0 in place of 1, 3 and 4")


def _add_format(p: _Parser) -> None:
    _group(p, "output").add_argument("--format", choices=FORMATS, default="text", help="text (default); json; jsonl: "
                                     "one line per model; sarif: for code scanning; github: annotations")


def _add_report(p: _Parser) -> None:
    _group(p, "output").add_argument("--report", metavar="R", action="append", default=[], help="write what was done: "
                                     "R.json, or R.html as a page")


def _add_one(p: _Parser, asked: type, keyword: str) -> None:
    o = options_of(asked)[keyword]
    _add_option(_group(p, o.group), o, ())


def _add_engines(p: _Parser) -> argparse._ArgumentGroup:
    engine = _group(p, "engine")
    engine.add_argument("--with", dest="runtime", metavar="RUNTIME", help="tensorrt or rtx; default: TensorRT if it "
                        "is installed and there is a GPU, else TensorRT-RTX")
    engine.add_argument("--plugin-library", metavar="LIB", action="append", default=[], help="load a shared library of "
                        "plugins first")
    _add_old(engine, "--plugins", "--plugin-library", "plugin_library")
    engine.add_argument("--tactic-sources", metavar="NAMES", help="libraries whose kernels TensorRT may use, such as "
                        "cublas,cudnn, or none; default: TensorRT decides")
    return engine


def _add_fix(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "fix", "[options] MODEL.onnx",
                 "rewrite a model, test the result, and print the command that builds an engine")
    p.add_argument("model", metavar="MODEL.onnx", help="the model")
    _add_options(p, ASKED["fix"], target="--for")
    _group(p, "output").add_argument("-o", "--out", metavar="OUT.onnx",
                                     help="the file to write; default: MODEL.trt.onnx beside the model")
    _add_report(p)
    _add_format(p)


def _add_rewrite(commands: _Commands[_Parser]) -> None:
    usage = "[options] IN.onnx OUT.onnx\n[options] MODELS... -o FOLDER/\n[options] IN.onnx --check | --explain NODE"
    p = _command(commands, "rewrite", usage, "rewrite a model for a target and prove every rewrite")
    p.add_argument("models", metavar="IN.onnx", nargs="+",
                   help="IN.onnx OUT.onnx; with -o OUT, any number of models or folders")
    _add_options(p, ASKED["rewrite"])
    output = _group(p, "output")
    output.add_argument("-o", "--out", metavar="OUT", help="the file to write; for several models, the folder")
    _add_report(p)
    output.add_argument("--check", action="store_true", help="write nothing; exit 4 if something would change")
    output.add_argument("--diff", action="store_true", help="print the operators before and after, and each rewritten "
                        "part")
    output.add_argument("--explain", metavar="NODE", help="write nothing; show which passes match a node, and why the "
                        "others do not; NODE may have wildcards")
    _add_many(p)


def _add_check(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "check", "[options] MODELS...",
                 "list the nodes that a target rejects or reads wrongly, and the passes that fix them")
    p.add_argument("models", metavar="IN.onnx", nargs="+", help="models, and folders with .onnx files in them")
    _add_options(p, ASKED["check"])
    _group(p, "target").add_argument("--parser", action=argparse.BooleanOptionalAction, default=True, help="ask the "
                                     "target's own parser too, if that TensorRT is installed here (default)")
    _group(p, "output").add_argument("-o", "--out", metavar="RESULTS.jsonl", help=RESULTS)
    _add_many(p)


def _add_verify(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "verify", "[options] REPORT.json", "repeat the run of a report, and compare the results")
    p.add_argument("report", metavar="REPORT.json", help="a report that `surgeon rewrite --report` wrote")


def _add_build(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "build", "[options] IN.onnx OUT.engine",
                 "build an engine with TensorRT, or with TensorRT-RTX without a GPU")
    p.add_argument("model", metavar="IN.onnx", help="the model")
    p.add_argument("out", metavar="OUT.engine", help="the file to write")
    _group(p, "sizes and inputs").add_argument("--profile", metavar="X:MIN,OPT,MAX", action="append", default=[],
        help="shapes of a dynamic input, such as x:1x3x64x64,4x3x256x256,8x3x512x512; one shape counts for all three")
    engine = _add_engines(p)
    engine.add_argument("--fp16", action="store_true", help="allow fp16 kernels (only up to TensorRT 10, in weakly "
                        "typed networks)")
    engine.add_argument("--timing-cache", metavar="FILE", help="a timing cache to read if it exists, and to add to")


def _add_kernels(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "kernels", "[options] MODEL.onnx|ENGINE",
                 "list the kernels that TensorRT runs, and the bytes that they move; with TensorRT-RTX without a GPU")
    p.add_argument("model", metavar="MODEL.onnx|ENGINE", help="a model, or an engine")
    _group(p, "sizes and inputs").add_argument("--shapes", metavar="X:1x3x224x224", action="append", default=[],
        help="the shape of a dynamic input; default: a usual one")
    engine = _add_engines(p)
    engine.add_argument("--compute-capability", metavar="CC", help="that of the GPU, such as "
                        "8.6; default: what TensorRT-RTX builds for, 8.0 and later")
    output = _group(p, "output")
    output.add_argument("--against", metavar="OTHER", help="another model or engine: list what is different")
    output.add_argument("--format", choices=FORMATS[:2], default="text", help="text (default), or json")


def _add_compare(commands: _Commands[_Parser]) -> None:
    usage = "[options] ORIGINAL.onnx REWRITTEN.onnx\n[options] ORIGINALS/ REWRITTEN/"
    p = _command(commands, "compare", usage,
                 "run two models on the same inputs, in ONNX Runtime, and on TensorRT if there is a GPU")
    p.add_argument("original", metavar="ORIGINAL.onnx", help="a model, or a folder of models")
    p.add_argument("rewritten", metavar="REWRITTEN.onnx", help="a model, or a folder with models of the same names")
    _add_one(p, RewriteOptions, "shapes")
    _add_one(p, RewriteOptions, "values")
    _group(p, "sizes and inputs").add_argument("--data", metavar="X.npz",
        help="inputs instead of surgeon's own: an .npz file, a folder of such files, or a Polygraphy data loader (.py)")
    _add_one(p, RewriteOptions, "tolerance")
    engine = _add_engines(p)
    engine.add_argument("--trt", action=argparse.BooleanOptionalAction, help="run the second model on TensorRT, or do "
                        "not; default: if TensorRT is installed and there is a GPU")
    engine.add_argument("--network", action="store_true", help="also evaluate the network that TensorRT's parser makes "
                        "of the second model (needs no GPU)")
    output = _group(p, "output")
    output.add_argument("-o", "--out", metavar="RESULTS.jsonl", help=RESULTS)
    output.add_argument("--bisect", metavar="DIR", help="if they differ: name the rewrite, or the smallest part that "
                        "differs, and write it and its inputs to DIR")
    output.add_argument("--save-inputs", metavar="I.json",
                        help="write the (finite) inputs for polygraphy run --load-inputs")
    output.add_argument("--save-outputs", metavar="O.json",
                        help="write the original's outputs for polygraphy run --load-outputs")
    _add_many(p)


def _add_passes(commands: _Commands[_Parser]) -> None:
    _add_one(_command(commands, "passes", "[options]", "list the passes"), CheckOptions, "passes")


def _add_explain(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "explain", "[options] PASS", "print what a pass rewrites, why, and how exact that is")
    p.add_argument("name", metavar="PASS", help="the name of a pass; `surgeon passes` lists them")
    _add_one(p, CheckOptions, "passes")


def _add_targets(commands: _Commands[_Parser]) -> None:
    _command(commands, "targets", "[options]", "list the targets and their other names")


def _add_why(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "why", "[options] [LOG]",
                 "explain an error of trtexec, polygraphy, the parser or ONNX Runtime, and what fixes it")
    p.add_argument("log", metavar="LOG", nargs="?", default="-", help="what was printed; default: standard input")
    own = _group(p, "options")
    own.add_argument("--model", metavar="IN.onnx", help="the model, to name the node and the passes that rewrite it")
    own.add_argument("--target", metavar="T", help="the TensorRT; default: the one that the log names")
    own.add_argument("--causes", action="store_true", help="print every known cause, and read nothing")


def _add_diff_targets(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "diff-targets", "[options] FROM TO IN.onnx", "compare two targets for a model")
    p.add_argument("old", metavar="FROM", help="the target that the model has now")
    p.add_argument("new", metavar="TO", help="the target that it is to have")
    p.add_argument("model", metavar="IN.onnx", help="the model")


def _add_plugins(commands: _Commands[_Parser]) -> None:
    p = commands.add_parser("plugins", help="build the plugin library", description="Build the plugin library.")
    inner = p.add_subparsers(metavar="ACTION", dest="action", required=True, parser_class=_Parser)
    build = _command(inner, "build", "[options]", "compile the plugin library for a TensorRT and a GPU")
    own = _group(build, "options")
    own.add_argument("--tensorrt-root", metavar="DIR", help="a folder with TensorRT's headers; default: the usual ones")
    own.add_argument("--arch", default="native", help="native (this machine's GPUs, the default), all, or 86,90")
    own.add_argument("--out", metavar="DIR", help="the folder for the library; default: one in the user's cache")


def _add_trust(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "trust", "[options] [DIR ...]",
                 "let configuration files and reports run the Python in a folder")
    p.add_argument("folders", metavar="DIR", nargs="*", help="a folder: Python in it and below it may run")
    own = _group(p, "options")
    own.add_argument("--list", action="store_true", help="print the trusted folders")
    own.add_argument("--forget", metavar="DIR", action="append", default=[], help="trust a folder no longer")


def _add_completion(commands: _Commands[_Parser]) -> None:
    p = _command(commands, "completion", "[options] SHELL",
                 'print a completion script, for eval "$(surgeon completion bash)"')
    p.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
# fmt: on


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


def shapes(given: Sequence[str]) -> dict[str, Sizes]:
    """Input name -> sizes, from --shapes INPUT:SIZES."""
    return _pairs("shapes", given)


def values(given: Sequence[str]) -> dict[str, str]:
    """Input name -> the text of its value, from --set INPUT=VALUE."""
    return _pairs("values", given)


def _pairs(keyword: str, given: Sequence[str]) -> dict[str, Any]:
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
