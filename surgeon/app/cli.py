"""The command line: arguments in, exit status out. The only module that prints, through `screen`.

    surgeon rewrite in.onnx out.onnx --target 8.4
    surgeon check in.onnx --target 8.4
    surgeon build out.onnx out.engine
    surgeon compare in.onnx out.onnx
    surgeon passes | explain PASS | plugins build

Exit status: 0 done and proved, or nothing to do; 1 done, but something was undone, stays that the target does not take,
differs, or could not be compared; 2 a usage error or a model that cannot be read, and nothing was written.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from surgeon import __version__
from surgeon.app import start
from surgeon.app.screen import Screen, complain, flush, steady
from surgeon.errors import EngineError, SurgeonError, UsageError, did_you_mean
from surgeon.ir.files import Staged, check_writable, put
from surgeon.pipeline.check import QUOTED, called
from surgeon.report import Applied, Declined, Report
from surgeon.targets.target import Target

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, start.STATUS
WITHIN = 1e-5  # the relative difference that fp32 results may have without further questions
COMMANDS = ("rewrite", "check", "build", "compare", "passes", "explain", "plugins")


def program() -> NoReturn:
    """The program: `main`, and out."""
    steady()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    try:
        status = main()
    finally:
        with contextlib.suppress(OSError):  # a full disk, which `main` has told
            flush()
    gc.freeze()  # what is left goes with the process: looking through it for garbage takes a quarter of the time
    sys.exit(INTERRUPTED if Staged.stopped else status)


def _stop(number: int, frame: object) -> None:
    """Interrupt the program, also where a library takes the exception for its own failure and the run goes on."""
    Staged.stopped = True
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. `argv` is without the program's name; None takes sys.argv's."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verbose = 0
    try:
        args = _parser().parse_args(arguments)
        verbose = args.verbose
        status = args.run(args)
        flush()
        return int(status)
    except EngineError as error:
        complain(str(error))
        return FAILED
    except SurgeonError as error:
        complain(str(error))
        return WRONG
    except BrokenPipeError:  # argparse prints its help past `screen`
        return DONE
    except OSError as error:  # a folder that may not be entered, a disk that went away
        where = f"'{error.filename}'" if error.filename else "a file or the standard output"
        complain(f"{where} cannot be read or written: {(error.strerror or str(error)).lower()}.")
        return WRONG
    except KeyboardInterrupt:
        complain(start.WORDS)
        return INTERRUPTED
    except Exception as error:
        if verbose > 1:
            raise
        complain(
            f"stopped by something that it does not know: {type(error).__name__}: {_one_line(error)} This is a defect "
            "of surgeon, and nothing was written. Please report it with the model and what `-vv` prints."
        )
        return WRONG


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())[:400]
    return text if text.endswith(".") else f"{text}."


# ---- arguments -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message and self.prog == "surgeon":
            wrong = message.split("'")[1] if "'" in message else ""
            message = f"there is no command '{wrong}'.{did_you_mean(wrong, COMMANDS)}"
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{message}{end} See {self.prog} --help.")


def _parser() -> _Parser:
    common = _Parser(add_help=False)
    common.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    common.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="print every rewrite and every refusal; -vv also a defect's traceback",
    )
    known = _Parser(add_help=False)
    known.add_argument(
        "--passes", metavar="DIR", action="append", default=[], help="a folder of further passes, one Python file each"
    )
    target = _Parser(add_help=False)
    target.add_argument(
        "--target",
        metavar="T",
        help="8.4, 10.9, 11.1, rtx, 8.6+dla, installed; without it, the TensorRT installed here",
    )
    target.add_argument(
        "--plugins",
        metavar="NAMES",
        action="append",
        default=[],
        help="plugin libraries that nodes may come from, best first: surgeon, stock",
    )
    target.add_argument(
        "--strategy",
        metavar="PASS=S",
        action="append",
        default=[],
        help="keep, decompose or plugin, over the target's own choice",
    )
    target.add_argument("--only", metavar="PASS", action="append", default=[], help="run these passes alone")
    target.add_argument(
        "--skip",
        metavar="PASS[:NODE]",
        action="append",
        default=[],
        help="leave out a pass, or leave the nodes that a glob names to themselves",
    )
    sizes = _Parser(add_help=False)
    sizes.add_argument(
        "--shapes",
        metavar="X:1x3x224x224",
        action="append",
        default=[],
        help="sizes of an input with symbolic dimensions",
    )

    engines = _Parser(add_help=False)
    engines.add_argument(
        "--with",
        dest="runtime",
        metavar="RUNTIME",
        help="tensorrt or rtx; without it, TensorRT where it and a GPU are there, else TensorRT-RTX",
    )
    engines.add_argument(
        "--plugin-library",
        "--plugins",
        dest="plugin_library",
        metavar="LIB",
        action="append",
        default=[],
        help="a shared library of plugins to load first",
    )
    engines.add_argument(
        "--tactic-sources",
        metavar="NAMES",
        help="the libraries whose kernels TensorRT may use, such as cublas,cudnn, or none; without it, its own choice",
    )

    top = _Parser(
        prog="surgeon",
        description="Rewrites ONNX models so that the TensorRT you have parses, builds and runs them right, and proves "
        "it.",
        epilog="surgeon COMMAND --help says more.",
    )
    top.add_argument("--version", action="version", version=f"surgeon {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=_Parser)

    p = commands.add_parser(
        "rewrite", parents=[common, target, known, sizes], help="rewrite a model for a target and prove every rewrite"
    )
    p.set_defaults(run=_rewrite)
    p.add_argument("model", metavar="IN.onnx")
    p.add_argument(
        "out", metavar="OUT.onnx", nargs="?", help="left out with --check and --explain, which write nothing"
    )
    p.add_argument("--check", action="store_true", help="write nothing; exit 1 where a rewrite would change something")
    p.add_argument(
        "--diff", action="store_true", help="print the operators before and after, and each rewritten window"
    )
    p.add_argument(
        "--explain", metavar="NODE", help="write nothing; say of one node what each pass makes of it, and why not"
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

    p = commands.add_parser(
        "check",
        parents=[common, target, known],
        help="what the target rejects or gets silently wrong, node by node, and which pass mends it",
    )
    p.set_defaults(run=_check)
    p.add_argument("model", metavar="IN.onnx")

    p = commands.add_parser(
        "build",
        parents=[common, engines],
        help="build an engine: TensorRT, or TensorRT-RTX ahead of time without a GPU",
    )
    p.set_defaults(run=_build)
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

    p = commands.add_parser(
        "compare",
        parents=[common, sizes, engines],
        help="run two models on the same inputs: through ONNX Runtime, and the second on TensorRT where one runs here",
    )
    p.set_defaults(run=_compare)
    p.add_argument("original", metavar="ORIGINAL.onnx")
    p.add_argument("rewritten", metavar="REWRITTEN.onnx")
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

    p = commands.add_parser("passes", parents=[common, known], help="list the passes")
    p.set_defaults(run=_passes)

    p = commands.add_parser("explain", parents=[common, known], help="what a pass rewrites, why, and how exact that is")
    p.set_defaults(run=_explain)
    p.add_argument("name", metavar="PASS")

    p = commands.add_parser("plugins", help="build the plugin library")
    inner = p.add_subparsers(metavar="ACTION", dest="action", required=True, parser_class=_Parser)
    p = inner.add_parser("build", parents=[common], help="compile the plugin library for a TensorRT and a GPU")
    p.set_defaults(run=_plugins_build)
    p.add_argument(
        "--tensorrt-root", metavar="DIR", help="a folder with TensorRT's headers; without it, the usual places"
    )
    p.add_argument("--arch", default="native", help="native (this machine's GPUs), all, or such as 86,90")
    p.add_argument("--out", metavar="DIR", help="the folder for the library; without it, one in the user's cache")
    return top


def _words(given: Iterable[str]) -> list[str]:
    """--only a,b --only c: a, b, c."""
    return [w.strip() for item in given for w in item.split(",") if w.strip()]


def _only(given: Sequence[str]) -> list[str] | None:
    """None where all passes are to run."""
    names = _words(given)
    if given and not names:
        raise UsageError("--only is empty: name passes, or leave it out.")
    return names or None


def _skips(given: Iterable[str]) -> list[str]:
    """Like `_words`, but a node glob may have commas of its own."""
    return [w for item in given for w in ([item] if ":" in item else _words([item]))]


def _strategies(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for item in _words(given):
        name, equals, strategy = item.partition("=")
        if not equals:
            raise UsageError(f"--strategy takes PASS=STRATEGY, such as l2-norm=decompose, not '{item}'.")
        found[name] = strategy
    return found


def _shapes(given: Iterable[str]) -> dict[str, tuple[int, ...]]:
    found = {}
    for item in given:
        name, colon, text = item.rpartition(":")
        if not colon or not name:
            raise UsageError(f"--shapes takes INPUT:SIZES, such as x:1x3x224x224, not '{item}'.")
        if name in found:
            raise UsageError(f"--shapes names the input '{name}' twice.")
        found[name] = _sizes(text, item)
    return found


def _sizes(text: str, item: str) -> tuple[int, ...]:
    parts = text.split("x") if text else []
    if not all(p.isdecimal() for p in parts):
        raise UsageError(f"sizes are numbers with an x between them, such as 1x3x224x224, not '{text}' (in '{item}').")
    return tuple(int(p) for p in parts)


def _profile(given: Iterable[str]) -> dict[str, list[tuple[int, ...]]]:
    found = {}
    for item in given:
        name, colon, text = item.rpartition(":")
        shapes = [_sizes(t, item) for t in text.split(",")]
        if not colon or not name or len(shapes) not in (1, 3):
            raise UsageError(
                "--profile takes INPUT:MIN,OPT,MAX or INPUT:SHAPE, such as x:1x3x64x64,4x3x256x256,8x3x512x512, not "
                f"'{item}'."
            )
        if name in found:
            raise UsageError(f"--profile names the input '{name}' twice.")
        found[name] = shapes * (3 if len(shapes) == 1 else 1)
    return found


def _options(args: argparse.Namespace) -> dict[str, float]:
    """What single passes read: --option NAME=NUMBER, and --repair-eps."""
    found = {}
    for item in args.option:
        name, equals, text = item.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--option takes NAME=NUMBER, such as repair_prelu=1, not '{item}'.")
    if args.repair_eps is not None:
        if not 0 < args.repair_eps < math.inf:
            raise UsageError(f"--repair-eps takes a number above 0, such as 1e-12, not {args.repair_eps:g}.")
        found["repair_eps"] = args.repair_eps
    return found


def _target(args: argparse.Namespace) -> tuple[Target, str]:
    """The target, and how the first line calls it."""
    target = Target.parse("installed" if args.target is None else args.target)
    words = [] if args.target else ["the default"]
    if target.note:
        words.append(target.note)
    return target, f"target {target}" + (f" ({': '.join(words)})" if words else "")


# ---- rewrite ---------------------------------------------------------------------------------------------------------


def _rewrite(args: argparse.Namespace) -> int:
    from surgeon.pipeline.session import rewrite

    screen = Screen(args.quiet)
    if args.explain is not None:
        return _explain_node(args, screen)
    if args.out is None and not args.check:
        raise UsageError("say where to write the model: surgeon rewrite IN.onnx OUT.onnx, or --check to write nothing.")
    options = _options(args)
    _check_half(args)
    source, out = Path(args.model), None if args.check else Path(args.out)
    reports = [Path(r) for r in args.report]
    for path in (out, *reports):
        if path is not None:
            check_writable(path, source)
    if out is not None and any(out.resolve() == r.resolve() for r in reports):
        raise UsageError(f"--report and the model cannot both be written to '{out}'.")
    target, title = _target(args)
    screen.line(f"{source}, {title}")
    with screen.progress() as progress:
        result = rewrite(
            source,
            target=target,
            plugins=_words(args.plugins),
            strategy=_strategies(args.strategy),
            only=_only(args.only),
            skip=_skips(args.skip),
            verify=args.verify,
            shapes=_shapes(args.shapes),
            passes=args.passes,
            allow_unproved=args.allow_unproved,
            options=options,
            progress=progress,
        )
    for path in (out, *reports):
        if path is not None:
            check_writable(path, *result.files)
    report = result.report
    started = time.perf_counter()
    half = _to_half(result, args, target, options) if args.fp16 else None
    report.seconds += time.perf_counter() - started
    withheld = args.strict and bool(report.untaken)
    texts = {
        path: _page(report, half, args, withheld) if path.suffix in (".html", ".htm") else _json(report, half)
        for path in reports
    }
    also = {path: text.encode(errors="backslashreplace") for path, text in texts.items()}
    if out is not None and not withheld:
        (half or result).save(out, also)
    else:
        put(also)
    _print_report(report, screen, args)
    if half is not None:
        _print_precision(half, screen, bool(args.verbose))
    _print_closing(report, screen, args, withheld)
    changed = args.check and (bool(report.applied) or (half is not None and half.half > 0))
    return FAILED if changed or report.failed or (half is not None and half.failed) else DONE


def _json(report: Report, half: Any) -> str:
    written = report.to_json() | ({"precision": half.to_json()} if half else {})
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def _page(report: Report, half: Any, args: argparse.Namespace, withheld: bool) -> str:
    from surgeon.app.html import render

    written = "" if args.check or withheld else args.out
    return render(report, title=Path(args.model).name, written=written, precision=half)


def _check_half(args: argparse.Namespace) -> None:
    for name in ("keep_fp32", "io_fp16", "data"):
        if getattr(args, name) and not args.fp16:
            raise UsageError(f"--{name.replace('_', '-')} goes with --fp16.")


def _to_half(result: Any, args: argparse.Namespace, target: Target, options: dict[str, float]) -> Any:
    from surgeon.precision import convert, load_data

    return convert(
        result.model,
        keep_fp32=_words(args.keep_fp32),
        data=None if args.data is None else load_data(args.data),
        repair_eps=options.get("repair_eps"),
        target=target,
        base=result.base,
        shapes=_shapes(args.shapes),
        io_fp16=args.io_fp16,
        verify=args.verify != "none",
        allow_unproved=args.allow_unproved,
    )


def _print_precision(half: Any, screen: Screen, each: bool) -> None:
    kept = [Declined(k.op, k.node, k.why) for k in half.kept]
    screen.table("kept fp32", ("operator", "node", "why"), _rows(kept, each), "warn")
    rows = [
        (e.output, e.inputs, f"{e.relative:.1e}", "within fp16" if e.ok else "worse than fp16 explains")
        for e in half.errors
    ]
    screen.table(
        "fp16 output", ("output", "inputs", "error", "verdict"), rows, plain=("{}", "{} inputs", "error {}", "{}")
    )
    screen.table("warning", ("",), [(w,) for w in half.warnings], "warn")
    compared = f", not compared: {half.not_compared}" if half.not_compared else ""
    hint = "; with --allow-unproved that is no failure" if half.unproved else ""
    text = f"{half.half} nodes compute in fp16, {half.single} in fp32, {half.casts} casts between{compared}{hint}"
    screen.line(text, "bad" if half.failed else "good")


def _print_report(report: Report, screen: Screen, args: argparse.Namespace) -> None:
    if args.diff:
        _print_diff(report, screen)
    if args.verbose:
        rows = [_row(a) for a in report.applied]
        plain = ("{}", "{}", "{} nodes", "error {}", "at {}")
        screen.table("applied", ("pass", "strategy", "nodes", "error", "at"), rows, "good", plain)
    else:
        plain = ("{}", "{}", "{}x", "{} nodes", "error {}")
        screen.table(
            "applied", ("pass", "strategy", "times", "nodes", "error"), _grouped(report.applied), "good", plain
        )
    screen.table("undone", ("pass", "node", "why"), _rows(report.undone, True), "bad")
    screen.table("declined", ("pass", "node", "why"), _rows(report.declined, bool(args.verbose)), "warn")
    screen.table("not taken", ("node", "why"), [(r[1], r[2]) for r in _rows(report.untaken, bool(args.verbose))], "bad")
    screen.table("warning", ("",), [(w,) for w in report.warnings], "warn")


def _row(a: Applied) -> tuple[str, ...]:
    return a.pass_name, a.strategy, f"{len(a.removed)} -> {len(a.added)}", _error(a.max_error), a.root


def _grouped(applied: Iterable[Applied]) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[Applied]] = {}
    for a in applied:
        groups.setdefault((a.pass_name, a.strategy), []).append(a)
    rows: list[tuple[str, ...]] = []
    for (name, strategy), those in sorted(groups.items()):
        removed, added = sum(len(a.removed) for a in those), sum(len(a.added) for a in those)
        errors = [a.max_error for a in those if a.max_error is not None]
        worst = _error(max(errors) if len(errors) == len(those) else None)
        rows.append((name, strategy, str(len(those)), f"{removed} -> {added}", worst))
    return rows


def _error(error: float | None) -> str:
    return "not proved" if error is None else f"{error:.1e}" if error else "0"


def _rows(entries: Iterable[Declined], each: bool) -> list[tuple[str, str, str]]:
    """(pass, node, why), with those of the same pass and reason in one row unless `each`."""
    if each:
        return [(e.pass_name, e.node, e.why) for e in entries]
    groups: dict[tuple[str, str], list[Declined]] = {}
    for e in entries:
        groups.setdefault((e.pass_name, _nameless(e.why)), []).append(e)
    return [
        (
            name,
            alike[0].node if len(alike) == 1 else f"{alike[0].node} and {len(alike) - 1} more",
            _shared([e.why for e in alike]),
        )
        for (name, _), alike in groups.items()
    ]


def _print_diff(report: Report, screen: Screen) -> None:
    for a in report.applied:
        _print_window(a, screen)
    before, after = report.ops_before, report.ops_after
    ops = sorted(op for op in {**before, **after} if before.get(op, 0) != after.get(op, 0))
    rows = [(op, str(before.get(op, 0)), str(after.get(op, 0))) for op in ops]
    screen.table("operator", ("operator", "before", "after"), rows, plain=("{}", "{} before", "{} after"))


def _print_window(a: Applied, screen: Screen) -> None:
    """The window before and after. New tensors are called after the one that they stand for: said once is enough."""
    screen.line(f"@@ {a.pass_name} ({a.strategy}) at {a.root}", "head")
    for sign, texts, style in (("-", a.before, "bad"), ("+", a.after, "good")):
        for text in texts:
            for name in a.outputs:
                text = text.replace(f"{name}~", "~")
            screen.line(f"{sign} {text}", style)


def _print_closing(report: Report, screen: Screen, args: argparse.Namespace, withheld: bool) -> None:
    """One line that says how it ended."""
    count = len(report.applied)
    before, after = report.opset_before, report.opset_after
    nothing = "nothing to rewrite" if before == after else f"only the opset, {before}, becomes {after}"
    said = [nothing] if not count else [f"{count} rewrite{'s' if count > 1 else ''}"]
    if count:
        said.append(_proof(report))
    if report.undone:
        said.append(f"{len(report.undone)} undone")
    compared = report.verify.get("compared", True)
    if "failed" in report.verify:
        hint = "" if compared else "; with --allow-unproved that is no failure"
        said.append(
            f"the whole models {'differ' if compared else 'were not compared'}: {report.verify['failed']}{hint}"
        )
    elif not compared:
        said.append("the whole models were not compared")
    elif report.verify.get("max_error") is not None:
        said.append(f"whole models agree{_how_well(report.verify['max_error'])}")
    if report.untaken:
        nodes = "1 node stays" if len(report.untaken) == 1 else f"{len(report.untaken)} nodes stay"
        said.append(f"{nodes} that {called(report.target)} does not take")
    where = (
        "nothing written (--check)"
        if args.check
        else "nothing written (--strict)"
        if withheld
        else f"written to {args.out}"
    )
    screen.line(f"{', '.join(said)}; {where}, {report.seconds:.1f} s", "bad" if report.failed else "good")


def _how_well(error: float) -> str:
    """Beyond the tolerance whole models agree only where the original is as far from a float64 evaluation itself."""
    if error <= WITHIN:
        return f" to {_error(error)}"
    return f" to the original's own rounding ({_error(error)} on its most sensitive inputs)"


def _proof(report: Report) -> str:
    errors = [a.max_error for a in report.applied if a.max_error is not None]
    if report.verify["mode"] == "none":
        return "none proved (--verify none)"
    if len(errors) < len(report.applied):
        return f"{len(errors)} of them proved"
    each = "each proved on its own window" if len(errors) > 1 else "proved on its own window"
    return f"{each}, largest error {_error(max(errors))}"


# ---- explaining a node -----------------------------------------------------------------------------------------------


def _explain_node(args: argparse.Namespace, screen: Screen) -> int:
    from surgeon.app.explain import verdicts

    target, title = _target(args)
    screen.line(f"{args.model}, {title}")
    found = verdicts(
        Path(args.model), args.explain, target=target, plugins=_words(args.plugins),
        strategy=_strategies(args.strategy), only=_only(args.only),
        skip=_skips(args.skip), passes=args.passes, options=_options(args),
    )  # fmt: skip
    screen.line(found.node)
    screen.table("verdict", ("pass", "at", "verdict"), [(v.pass_name, v.root, v.text) for v in found.verdicts])
    if found.untaken:
        screen.line(f"{called(str(target))} does not take this node: {found.untaken}", "bad")
    for applied in found.applied:
        _print_window(applied, screen)
    if not found.verdicts and not found.applied:
        screen.line("no pass has a pattern for it")
    return DONE


# ---- check -----------------------------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    from surgeon.pipeline.check import check

    screen = Screen(args.quiet)
    target, title = _target(args)
    screen.line(f"{args.model}, {title}")
    found = check(
        Path(args.model), target=target, plugins=_words(args.plugins),
        strategy=_strategies(args.strategy), only=_only(args.only),
        skip=_skips(args.skip), passes=args.passes,
    )  # fmt: skip
    rows = [(r.node, r.op, r.mended_by or "no pass", r.why) for r in found.untaken]
    headers = ("node", "operator", "mended by", "why")
    if not screen.terminal:
        screen.table("not taken", headers, rows, "bad")
    for reason, alike in _by_reason(rows).items() if screen.terminal else ():
        screen.table(f"not taken: {reason}", headers[:-1], [r[:-1] for r in alike], "bad")
    screen.table("warning", ("",), [(w,) for w in found.warnings], "warn")
    if not rows:
        screen.line(f"{called(str(target))} takes every node, as far as surgeon's table knows", "good")
        return DONE
    mended = sum(bool(r.mended_by) for r in found.untaken)
    nodes = "1 node" if len(rows) == 1 else f"{len(rows)} nodes"
    mend = f"passes mend {mended}; surgeon rewrite {shlex.quote(args.model)} OUT.onnx --target {target}"
    screen.line(f"{called(str(target))} does not take {nodes}; {mend if mended else 'no pass mends that'}", "bad")
    return FAILED


def _by_reason(rows: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[str, ...]]]:
    """Rows by their last cell, a reason."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        groups.setdefault(_nameless(row[-1]), []).append(row)
    return {_shared([r[-1] for r in alike]): alike for alike in groups.values()}


def _nameless(reason: str) -> str:
    return QUOTED.sub("'...'", reason)


def _shared(reasons: Sequence[str]) -> str:
    """One reason for several that differ in the names that they quote, if in anything."""
    return reasons[0] if len(set(reasons)) == 1 else _nameless(reasons[0])


# ---- build, compare --------------------------------------------------------------------------------------------------


def _build(args: argparse.Namespace) -> int:
    from surgeon.trt.engine import build

    screen = Screen(args.quiet)
    profile = _profile(args.profile)
    with screen.progress() as progress:
        built = build(
            args.model, args.out, runtime=args.runtime, profiles=[profile] if profile else [], fp16=args.fp16,
            plugins=args.plugin_library,
            timing_cache=args.timing_cache, tactic_sources=_tactic_sources(args), progress=progress,
        )  # fmt: skip
    for note in built.notes:
        screen.line(f"warning  {note}", "warn")
    screen.line(
        f"{args.model} built by {built.runtime}: {built.size / 1e6:.1f} MB written to {built.path}, "
        f"{built.seconds:.1f} s",
        "good",
    )
    return DONE


def _tactic_sources(args: argparse.Namespace) -> list[str] | None:
    if args.tactic_sources is None:
        return None
    return [] if args.tactic_sources == "none" else _words([args.tactic_sources])


def _compare(args: argparse.Namespace) -> int:
    from surgeon.trt.bisect import check_folder
    from surgeon.trt.compare import COLUMNS, PLAIN, compare_files, polygraphy_command

    screen = Screen(args.quiet)
    if args.bisect is not None:
        read = [args.original, args.rewritten, *([args.data] if args.data else [])]
        check_folder(Path(args.bisect), *map(Path, read))
    with screen.progress() as progress:
        comparison = compare_files(
            Path(args.original),
            Path(args.rewritten),
            shapes=_shapes(args.shapes),
            data=args.data,
            network=args.network,
            engine=args.trt,
            runtime=args.runtime,
            plugins=args.plugin_library,
            tactic_sources=_tactic_sources(args),
            save_inputs=args.save_inputs,
            save_outputs=args.save_outputs,
            progress=progress,
        )
    screen.line(f"{args.original} against {args.rewritten}")
    for side in comparison.sides:
        screen.table(side.title, COLUMNS, side.rows(), plain=PLAIN)
    for note in comparison.notes:
        screen.line(note, "warn")
    command = polygraphy_command(
        comparison, args.original, args.rewritten, args.save_inputs, args.save_outputs, args.plugin_library,
        _tactic_sources(args),
    )  # fmt: skip
    screen.line(f"in Polygraphy: {command}", "dim")
    if args.bisect is not None and not comparison.ok:
        _bisect(args, comparison, screen)
    screen.line(comparison.verdict, "good" if comparison.ok else "bad")
    return DONE if comparison.ok else FAILED


def _bisect(args: argparse.Namespace, comparison: Any, screen: Screen) -> None:
    from surgeon.trt.bisect import bisect_files

    culprit = bisect_files(Path(args.original), Path(args.rewritten), comparison)
    if isinstance(culprit, str):
        screen.line(f"no window is to blame: {culprit}", "bad")
        return
    screen.line(str(culprit), "bad")
    folder = Path(args.bisect)
    for path in culprit.save(folder):
        screen.line(f"written to {path}")
    screen.line(f"see it again, in {folder}: surgeon compare {culprit.again}")


# ---- passes, explain, plugins ----------------------------------------------------------------------------------------


def _passes(args: argparse.Namespace) -> int:
    from surgeon.rules.registry import passes

    rows = []
    for p in passes(args.passes):
        stages = ", ".join(s.value for s in p.stages)
        rows.append((p.name, stages, ", ".join(p.strategies) or "-", p.doc.splitlines()[0]))
    Screen(args.quiet).table("pass", ("name", "stages", "strategies", "what it does"), rows)
    return DONE


def _explain(args: argparse.Namespace) -> int:
    from surgeon.rules.registry import passes

    known = {p.name: p for p in passes(args.passes)}
    if args.name not in known:
        raise UsageError(f"no pass is called '{args.name}'.{did_you_mean(args.name, known)}")
    p = known[args.name]
    screen = Screen(args.quiet)
    screen.line(p.name, "head")
    screen.line(p.doc)
    screen.line()
    screen.line(f"Stages      {', '.join(s.value for s in p.stages)}")
    screen.line(f"Strategies  {', '.join(p.strategies) or 'none: it does not lower'}")
    if p.options:
        screen.line(f"Options     {', '.join(p.options)}")
    path = Path(p.path)
    screen.line(f"File        {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return DONE


def _plugins_build(args: argparse.Namespace) -> int:
    from surgeon.trt.plugins.build import build, how_to_load

    root, out = (None if given is None else Path(given) for given in (args.tensorrt_root, args.out))
    Screen(args.quiet).line(how_to_load(build(root, args.arch, out)))
    return DONE
