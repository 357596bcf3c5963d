"""The command line's arguments: the parser, and the options that are written as text read into values."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from surgeon.app.completion import SHELLS
from surgeon.errors import UsageError, did_you_mean
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
    "compare": ("compare model.onnx out.onnx --bisect found", "compare models/ rewritten/ --jobs 2 -o compared.jsonl"),
    "passes": ("passes", "passes --passes my_passes"),
    "explain": ("explain l2-norm", "explain mine --passes my_passes"),
    "plugins": ("plugins build", "plugins build --arch 86,90 --out lib"),
    "trust": ("trust my_passes", "trust --forget my_passes"),
    "completion": ("completion bash", "completion zsh"),
    "plugins build": ("plugins build", "plugins build --tensorrt-root /opt/TensorRT --arch 87"),
}
COMMANDS = (
    "fix",
    "rewrite",
    "check",
    "why",
    "verify",
    "build",
    "compare",
    "passes",
    "explain",
    "targets",
    "diff-targets",
    "plugins",
    "trust",
    "completion",
)
CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)")  # argparse's words
Sizes = tuple[int, ...]
FORMATS = ("text", "json", "jsonl", "sarif", "github")
RESULTS = "write a JSON line a model; a second run does what is left"


# ---- the parser ------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, and whose errors are UsageErrors."""

    def format_help(self) -> str:
        given = EXAMPLES.get(self.prog.removeprefix("surgeon").strip(), ())
        lines = "".join(f"  surgeon {example}\n" for example in given)
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """What argparse does, but that the option that was meant is named in place of one that there is not."""
        known = [option for option in self._option_string_actions if option.startswith("-")]
        first = next(iter(args or ()), "")
        if self.prog == "surgeon" and first.startswith("-") and not any(option.startswith(first) for option in known):
            self.error(f"there is no option '{first}'.{did_you_mean(first, known)}")
        found, left = super().parse_known_args(args, namespace)
        wrong = next((word.partition("=")[0] for word in left if word.startswith("-")), "")
        if wrong and self.prog != "surgeon":
            self.error(f"there is no option '{wrong}'.{did_you_mean(wrong, known)}")
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
        description="Rewrites ONNX models so that the TensorRT you have parses, builds and runs them right, and proves "
        "it.",
        epilog="surgeon COMMAND --help says more.",
    )
    top.add_argument("--version", action="version", version=f"surgeon {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=_Parser)
    common, folders, sizes, engines = _common(), _folders(), _sizes_option(), _engines()
    target, choices = _target_option(), _choices()
    _add_fix(commands, [common, choices, folders, sizes])
    _add_rewrite(commands, [common, target, choices, folders, sizes, _many()])
    _add_check(commands, [common, target, choices, folders, _many()])
    verify = commands.add_parser("verify", parents=[common], help="do again what a JSON report records, and compare")
    verify.add_argument("report", metavar="REPORT.json")
    _add_build(commands, [common, engines])
    _add_compare(commands, [common, sizes, engines, _many()])
    commands.add_parser("passes", parents=[common, folders], help="list the passes")
    explain = commands.add_parser(
        "explain", parents=[common, folders], help="what a pass rewrites, why, and how exact that is"
    )
    explain.add_argument("name", metavar="PASS")
    _add_why(commands, [common])
    _add_diff_targets(commands, [common])
    commands.add_parser("targets", parents=[common], help="list the targets, and the names that stand for them")
    _add_plugins(commands, [common])
    _add_trust(commands, [common])
    shell = commands.add_parser(
        "completion",
        parents=[common],
        help='what a shell evaluates, so that Tab completes: eval "$(surgeon completion bash)"',
    )
    shell.add_argument("shell", choices=SHELLS)
    return top


def _common() -> _Parser:
    options = _Parser(add_help=False)
    options.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    options.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="print every rewrite and every refusal; -vv also a defect's traceback",
    )
    return options


def _folders() -> _Parser:
    options = _Parser(add_help=False)
    options.add_argument(
        "--passes", metavar="DIR", action="append", default=[], help="a folder of further passes, one Python file each"
    )
    return options


def _target_option() -> _Parser:
    options = _Parser(add_help=False)
    options.add_argument(
        "--target",
        metavar="T",
        help="8.4, 10.9, rtx, 8.6+dla, installed, jetpack-5.1.2, 24.05-py3 (surgeon targets lists all); without it, "
        "the TensorRT installed here, else 10.9",
    )
    return options


def _choices() -> _Parser:
    """The options that choose passes, and what each writes."""
    options = _Parser(add_help=False)
    options.add_argument(
        "--plugins",
        metavar="NAMES",
        action="append",
        default=[],
        help="plugin libraries that nodes may come from, best first: surgeon, stock",
    )
    options.add_argument(
        "--strategy",
        metavar="PASS=S",
        action="append",
        default=[],
        help="keep, decompose or plugin, over the target's own choice",
    )
    options.add_argument("--only", metavar="PASS", action="append", default=[], help="run these passes alone")
    options.add_argument(
        "--skip",
        metavar="PASS[:NODE]",
        action="append",
        default=[],
        help="leave out a pass, or leave the nodes that a glob names to themselves",
    )
    return options


def _many() -> _Parser:
    """The options of commands that take many models."""
    options = _Parser(add_help=False)
    options.add_argument("--jobs", metavar="N", type=int, default=1, help="many models: so many at a time (1)")
    options.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text (default); json, or jsonl, a line a model; sarif for code scanning; github for workflow commands",
    )
    options.add_argument(
        "--exit-zero", action="store_true", help="exit 0 also where something was found: not 1, 3 or 4"
    )
    return options


def _sizes_option() -> _Parser:
    options = _Parser(add_help=False)
    options.add_argument(
        "--shapes",
        metavar="X:1x3x224x224",
        action="append",
        default=[],
        help="sizes of an input with symbolic dimensions",
    )
    return options


def _engines() -> _Parser:
    options = _Parser(add_help=False)
    options.add_argument(
        "--with",
        dest="runtime",
        metavar="RUNTIME",
        help="tensorrt or rtx; without it, TensorRT where it and a GPU are there, else TensorRT-RTX",
    )
    options.add_argument(
        "--plugin-library",
        "--plugins",
        dest="plugin_library",
        metavar="LIB",
        action="append",
        default=[],
        help="a shared library of plugins to load first",
    )
    options.add_argument(
        "--tactic-sources",
        metavar="NAMES",
        help="the libraries whose kernels TensorRT may use, such as cublas,cudnn, or none; without it, its own choice",
    )
    return options


def _add_fix(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = _Parser(add_help=False)  # the first parent: what a user needs stands first in the help
    p.add_argument("model", metavar="MODEL.onnx")
    p.add_argument(
        "--for",
        "--target",
        dest="target",
        metavar="T",
        help="the TensorRT that will run it: 8.4, rtx, 8.6+dla; without it, the one installed here",
    )
    p.add_argument("-o", "--out", metavar="OUT.onnx", help="without it, MODEL.trt.onnx beside the model")
    commands.add_parser(
        "fix", parents=[p, *parents], help="all of it: rewrite, prove, check with the real parser, load; one verdict"
    )


def _add_rewrite(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser("rewrite", parents=parents, help="rewrite a model for a target and prove every rewrite")
    p.add_argument(
        "models",
        metavar="IN.onnx",
        nargs="+",
        help="the model, and behind it the file to write but with --check and --explain; with -o models and folders",
    )
    p.add_argument("-o", "--out", metavar="OUT", help="the file to write, or for several models the folder")
    p.add_argument("--check", action="store_true", help="write nothing; exit 4 where a rewrite would change something")
    p.add_argument(
        "--diff", action="store_true", help="print the operators before and after, and each rewritten window"
    )
    p.add_argument(
        "--explain",
        metavar="NODE",
        help="write nothing; say of a node, or of those that a glob names, what each pass makes of it, and why not",
    )
    p.add_argument(
        "--report", metavar="R", action="append", default=[], help="write what was done: R.json, or R.html as a page"
    )
    p.add_argument(
        "--verify",
        choices=("window", "full", "none"),
        default="window",
        help="prove each rewrite on its window (default), whole models too, or nothing",
    )
    p.add_argument(
        "--allow-unproved",
        action="store_true",
        help="keep rewrites that cannot be run, and so not proved; whole models that cannot be compared are no failure",
    )
    p.add_argument(
        "--allow-narrowing",
        action="store_true",
        help="carry float64 in fp32, and other types that the target lacks in those that it has; says the difference",
    )
    p.add_argument(
        "--symmetric-int8",
        action="store_true",
        help="quantize activations around zero, which TensorRT runs in integers; says the difference",
    )
    p.add_argument("--no-cache", action="store_true", help="prove every window anew, also those of earlier runs")
    p.add_argument(
        "--strict", action="store_true", help="write nothing where something stays that the target does not take"
    )
    p.add_argument("--repair-eps", metavar="E", type=float, help="the epsilon for a normalisation that lost its own")
    p.add_argument(
        "--fp16", action="store_true", help="convert to fp16 as well, with fp32 islands where fp16 overflows"
    )
    p.add_argument(
        "--keep-fp32", metavar="WORDS", action="append", default=[], help="operators, passes, node globs: fp32"
    )
    p.add_argument(
        "--io-fp16", action="store_true", help="with --fp16: the model's own inputs and outputs become fp16 too"
    )
    p.add_argument(
        "--data",
        metavar="X.npz",
        help="with --fp16: inputs (.npz, or a Polygraphy loader .py) to choose the islands by",
    )
    p.add_argument(
        "--option", metavar="NAME=X", action="append", default=[], help="a number for a pass that asks for it"
    )
    p.add_argument(
        "--shape",
        metavar="Y:Nx256",
        action="append",
        default=[],
        help="sizes of a tensor that a custom operator makes; its type, where it is not float: Y:Nx256,float16",
    )
    p.add_argument(
        "--input",
        metavar="X=FORM",
        action="append",
        default=[],
        help="how an image is given: uint8-nhwc, or uint8-nhwc:mean=127.5:scale=0.00784 for (pixel - mean) * scale",
    )
    p.add_argument(
        "--detections",
        metavar="N",
        type=int,
        help="N rows from each NonMaxSuppression, and an output that says how many of them count",
    )
    p.add_argument("--dynamic-batch", action="store_true", help="a batch of any size, each sample computed as alone")
    p.add_argument(
        "--batch-axis",
        metavar="X:AXIS",
        action="append",
        default=[],
        help="with --dynamic-batch: the axis of an input's batch where it is not the first; none where it has no batch",
    )


def _add_check(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser(
        "check",
        parents=parents,
        help="what the target rejects or gets silently wrong, node by node, and which pass mends it",
    )
    p.add_argument("models", metavar="IN.onnx", nargs="+", help="files, and folders with .onnx files in them")
    p.add_argument("-o", "--out", metavar="RESULTS.jsonl", help=RESULTS)
    p.add_argument(
        "--parser",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask the parser of the target too, where that TensorRT is installed here (default)",
    )


def _add_build(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser(
        "build", parents=parents, help="build an engine: TensorRT, or TensorRT-RTX ahead of time without a GPU"
    )
    p.add_argument("model", metavar="IN.onnx")
    p.add_argument("out", metavar="OUT.engine")
    p.add_argument(
        "--profile",
        metavar="X:MIN,OPT,MAX",
        action="append",
        default=[],
        help="shapes of a dynamic input, such as x:1x3x64x64,4x3x256x256,8x3x512x512; one shape stands for all three",
    )
    p.add_argument("--fp16", action="store_true", help="allow fp16 kernels (weakly typed TensorRT alone: up to 10)")
    p.add_argument("--timing-cache", metavar="FILE", help="read it where it is there, and add to it")


def _add_compare(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser(
        "compare",
        parents=parents,
        help="run two models on the same inputs: through ONNX Runtime, and the second on TensorRT where one runs here",
    )
    p.add_argument("original", metavar="ORIGINAL.onnx", help="a file, or a folder of them")
    p.add_argument("rewritten", metavar="REWRITTEN.onnx", help="the same: in a folder those of the same names")
    p.add_argument("-o", "--out", metavar="RESULTS.jsonl", help=RESULTS)
    p.add_argument(
        "--data",
        metavar="X",
        help="inputs, in place of surgeon's random and adversarial ones: an .npz file, or a Polygraphy loader script "
        "(.py)",
    )
    p.add_argument(
        "--trt",
        action=argparse.BooleanOptionalAction,
        help="run the second model on TensorRT in any case, or in no case; without it, where that can be done",
    )
    p.add_argument(
        "--network",
        action="store_true",
        help="also evaluate what TensorRT's parser understood of the second model (needs no GPU)",
    )
    p.add_argument("--save-inputs", metavar="I.json", help="write the (finite) inputs for polygraphy run --load-inputs")
    p.add_argument(
        "--save-outputs", metavar="O.json", help="write the original's outputs for polygraphy run --load-outputs"
    )
    p.add_argument(
        "--bisect",
        metavar="DIR",
        help="where they differ: name the rewrite, or the smallest window, and write it and its inputs to DIR",
    )


def _add_why(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser(
        "why",
        parents=parents,
        help="what an error of trtexec, polygraphy, the parser or ONNX Runtime means, and what mends it",
    )
    p.add_argument("log", metavar="LOG", nargs="?", default="-", help="what was printed; without it, standard input")
    p.add_argument("--model", metavar="IN.onnx", help="the model, to name the node and the passes that rewrite it")
    p.add_argument("--target", metavar="T", help="the TensorRT; without it, the one that the log names")
    p.add_argument("--causes", action="store_true", help="print every cause that is known, and read nothing")


def _add_diff_targets(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser(
        "diff-targets", parents=parents, help="what changes for a model when the TensorRT is another one"
    )
    p.add_argument("old", metavar="FROM", help="the target so far")
    p.add_argument("new", metavar="TO", help="the target to come")
    p.add_argument("model", metavar="IN.onnx")


def _add_plugins(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser("plugins", help="build the plugin library")
    inner = p.add_subparsers(metavar="ACTION", dest="action", required=True, parser_class=_Parser)
    p = inner.add_parser("build", parents=parents, help="compile the plugin library for a TensorRT and a GPU")
    p.add_argument(
        "--tensorrt-root", metavar="DIR", help="a folder with TensorRT's headers; without it, the usual places"
    )
    p.add_argument("--arch", default="native", help="native (this machine's GPUs), all, or such as 86,90")
    p.add_argument("--out", metavar="DIR", help="the folder for the library; without it, one in the user's cache")


def _add_trust(commands: _Commands[_Parser], parents: Sequence[_Parser]) -> None:
    p = commands.add_parser(
        "trust", parents=parents, help="let configuration files and reports run the Python in a folder"
    )
    p.add_argument("folders", metavar="DIR", nargs="*", help="the folder: it and what is below it may run code")
    p.add_argument("--list", action="store_true", help="print the trusted folders")
    p.add_argument("--forget", metavar="DIR", action="append", default=[], help="trust a folder no more")


# ---- text into values ------------------------------------------------------------------------------------------------


def words(given: Iterable[str]) -> list[str]:
    """The words of options that take several: `--only a,b --only c` is a, b, c."""
    return [w.strip() for item in given for w in item.split(",") if w.strip()]


def only(given: Sequence[str]) -> list[str] | None:
    """The passes that --only names; None where all are to run."""
    names = words(given)
    if given and not names:
        raise UsageError("--only is empty: name passes, or leave it out.")
    return names or None


def skips(given: Iterable[str]) -> list[str]:
    """What --skip names: words, but a node glob may have commas of its own."""
    return [w for item in given for w in ([item] if ":" in item else words([item]))]


def strategies(given: Iterable[str]) -> dict[str, str]:
    """Pass name -> strategy, from --strategy PASS=STRATEGY."""
    return dict(_pair(item, "=", "--strategy takes PASS=STRATEGY, such as l2-norm=decompose") for item in words(given))


def shapes(given: Iterable[str]) -> dict[str, Sizes]:
    """Input name -> sizes, from --shapes INPUT:SIZES."""
    return {
        name: _sizes(text, item)
        for name, text, item in _by_input(given, ":", "--shapes takes INPUT:SIZES, such as x:1x3x224x224")
    }


def forms(given: Iterable[str]) -> dict[str, str]:
    """Input name -> its form, from --input INPUT=FORM."""
    taken = "--input takes INPUT=FORM, such as image=uint8-nhwc"
    return {name: form for name, form, _ in _by_input(given, "=", taken)}


def declared(given: Iterable[str]) -> dict[str, str]:
    """Tensor name -> its sizes and type, from --shape TENSOR:SIZES."""
    taken = "--shape takes TENSOR:SIZES, such as y:Nx256"
    return {name: text for name, text, _ in _by_input(given, ":", taken)}


def dynamic_batch(args: argparse.Namespace) -> bool | dict[str, int | None]:
    """Whether the batch becomes dynamic, or the axes that --batch-axis INPUT:AXIS says."""
    if args.batch_axis and not args.dynamic_batch:
        raise UsageError("--batch-axis goes with --dynamic-batch.")
    taken = "--batch-axis takes INPUT:AXIS, such as h0:1 or size:none"
    found: dict[str, int | None] = {}
    for name, text, item in _by_input(args.batch_axis, ":", taken):
        if not (text.isdecimal() or text == "none"):
            raise UsageError(f"{taken}, not '{item}'.")
        found[name] = None if text == "none" else int(text)
    return found or bool(args.dynamic_batch)


def profile(given: Iterable[str]) -> dict[str, list[Sizes]]:
    """Input name -> its smallest, usual and largest shape, from --profile INPUT:MIN,OPT,MAX."""
    taken = "--profile takes INPUT:MIN,OPT,MAX or INPUT:SHAPE, such as x:1x3x64x64,4x3x256x256,8x3x512x512"
    found = {}
    for name, text, item in _by_input(given, ":", taken):
        sizes = [_sizes(part, item) for part in text.split(",")]
        if len(sizes) not in (1, 3):
            raise UsageError(f"{taken}, not '{item}'.")
        found[name] = sizes * (3 if len(sizes) == 1 else 1)
    return found


def _by_input(given: Iterable[str], mark: str, taken: str) -> Iterator[tuple[str, str, str]]:
    """Input name, what is said of it, and the whole item. Raises UsageError where an input is named twice."""
    seen: set[str] = set()
    for item in given:
        name, text = _pair(item, mark, taken)
        if name in seen:
            raise UsageError(f"{taken.partition(' ')[0]} names '{name}' twice.")
        seen.add(name)
        yield name, text, item


def _pair(item: str, mark: str, taken: str) -> tuple[str, str]:
    """The two sides of NAME=X or NAME:X; a name may have colons of its own. `taken` is what the option takes."""
    name, found, text = item.rpartition(":") if mark == ":" else item.partition(mark)
    if not found or not name:
        raise UsageError(f"{taken}, not '{item}'.")
    return name, text


def _sizes(text: str, item: str) -> Sizes:
    parts = text.split("x") if text else []
    if not all(p.isdecimal() for p in parts):
        raise UsageError(f"sizes are numbers with an x between them, such as 1x3x224x224, not '{text}' (in '{item}').")
    return tuple(int(p) for p in parts)


def pass_options(args: argparse.Namespace) -> dict[str, float]:
    """What single passes read: --option NAME=NUMBER, and --repair-eps."""
    taken = "--option takes NAME=NUMBER, such as repair_prelu=1"
    found = {}
    for item in args.option:
        name, text = _pair(item, "=", taken)
        try:
            found[name] = float(text)
        except ValueError:
            raise UsageError(f"{taken}, not '{item}'.") from None
    if args.repair_eps is None:
        return found
    if not 0 < args.repair_eps < math.inf:
        raise UsageError(f"--repair-eps takes a number above 0, such as 1e-12, not {args.repair_eps:g}.")
    return found | {"repair_eps": args.repair_eps}


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


__all__ = [
    "COMMANDS",
    "Sizes",
    "declared",
    "dynamic_batch",
    "forms",
    "only",
    "parser",
    "pass_options",
    "profile",
    "shapes",
    "skips",
    "strategies",
    "tactic_sources",
    "target_of",
    "words",
]
