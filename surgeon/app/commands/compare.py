"""`surgeon compare`: two models on the same inputs, and with --bisect the window that makes them differ."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from surgeon.app import arguments
from surgeon.app.batch import Outcome, Printing, check_alone, models, print_whole, run_all
from surgeon.app.commands import DONE, FAILED, ended, worst
from surgeon.app.findings import DIFFERS, FORMATS, UNREADABLE, Finding
from surgeon.app.screen import Screen
from surgeon.errors import UsageError
from surgeon.report import error_text
from surgeon.trt.bisect import bisect_files, check_folder
from surgeon.trt.compare import compare
from surgeon.trt.comparison import COLUMNS, PLAIN, Comparison, polygraphy_command
from surgeon.trt.runners import EngineFile

ALONE = ("bisect", "save_inputs", "save_outputs", "data")  # options that are for one pair


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    if Path(args.original).is_dir() or args.out is not None:
        return _many(args, screen)
    comparison = _compared(args, screen)
    if args.format == "text":
        _print(args, comparison, screen)
    elif args.format in FORMATS:
        screen.text(FORMATS[args.format](list(_findings(args.rewritten, comparison.to_json()))))
    else:
        screen.text(json.dumps(comparison.to_json(), indent=2 if args.format == "json" else None, ensure_ascii=False))
    if args.bisect is not None and not comparison.ok:
        _bisect(args, comparison, screen)
    if args.format == "text":
        screen.line(comparison.verdict, "good" if comparison.ok else "bad")
    return ended(DONE if comparison.ok else FAILED, args.exit_zero)


def _compared(args: argparse.Namespace, screen: Screen) -> Comparison:
    if args.bisect is not None:
        read = [args.original, args.rewritten, *([args.data] if args.data else [])]
        check_folder(Path(args.bisect), *map(Path, read))
    with screen.progress() as progress:
        return compare(
            args.original,
            args.rewritten,
            shapes=arguments.pairs("shapes", args.shapes),
            values=arguments.pairs("values", args.set),
            data=args.data,
            tolerance=args.tolerance,
            network=args.network,
            engine=args.trt,
            runtime=args.runtime,
            plugins=args.plugin_library,
            tactic_sources=arguments.tactic_sources(args),
            save_inputs=args.save_inputs,
            save_outputs=args.save_outputs,
            progress=progress,
        )


def _print(args: argparse.Namespace, comparison: Comparison, screen: Screen) -> None:
    screen.line(f"{args.original} against {args.rewritten}")
    for side in comparison.sides:
        screen.table(side.title, COLUMNS, side.rows(), plain=PLAIN)
    for note in comparison.notes:
        screen.line(note, "warn")
    if any(isinstance(side.way, EngineFile) for side in comparison.sides):
        return
    command = polygraphy_command(
        comparison,
        args.original,
        args.rewritten,
        inputs=args.save_inputs,
        outputs=args.save_outputs,
        plugins=args.plugin_library,
        tactic_sources=arguments.tactic_sources(args),
    )
    screen.line(f"in Polygraphy: {command}", "dim")


def _findings(file: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    """What a comparison's JSON value says of the second model."""
    if not found["ok"]:
        wrong = [f"'{o['output']}' {o['verdict']}" for s in found["sides"] for o in s["outputs"] if not o["equal"]]
        yield Finding(file, DIFFERS, "; ".join([found["verdict"], *dict.fromkeys(wrong)]))


def _many(args: argparse.Namespace, screen: Screen) -> int:
    """Compare each model of a folder with the one of the same name in another; the exit status is the worst of any."""
    check_alone(args, ALONE, "one pair of models.")

    def line(outcome: Outcome) -> None:
        entry = outcome.entry
        screen.line(f"{entry['model']}  {_sentence(entry)}", "" if entry["status"] == DONE else "bad")

    todo = _pairs(Path(args.original), Path(args.rewritten))
    outcomes = run_all(todo, _shared_words(args), args.out, args, screen, line)
    if args.format == "text":
        agree = sum(o.entry["status"] == DONE for o in outcomes)
        unread = sum("error" in o.entry for o in outcomes)
        said = [f"{agree} of {len(outcomes)} pairs agree"] + ([f"{unread} could not be compared"] if unread else [])
        screen.line("; ".join(said), "good" if agree == len(outcomes) else "bad")
    print_whole(outcomes, args, screen, _found)
    return ended(worst([o.entry["status"] for o in outcomes]), args.exit_zero)


def _pairs(originals: Path, rewritten: Path) -> list[Printing]:
    if not (originals.is_dir() and rewritten.is_dir()):
        raise UsageError("several models are compared folder by folder: surgeon compare ORIGINALS/ REWRITTEN/.")
    pairs = ((name, (path, rewritten / name)) for path, name in models([str(originals)]))
    found = [Printing(name, paths, "compare", "comparison") for name, paths in pairs]
    if not found:
        raise UsageError(f"the folder '{originals}' has no .onnx file.")
    return found


def _sentence(entry: Mapping[str, Any]) -> str:
    """How one comparison ended: the verdict, and the largest error."""
    if "error" in entry:
        return f"FAILED: {' '.join(entry['error'].split())}"
    errors = [o["error"] for s in entry["comparison"]["sides"] for o in s["outputs"] if o["error"] is not None]
    return f"{entry['comparison']['verdict']}" + (f", largest error {error_text(max(errors))}" if errors else "")


def _found(outcome: Outcome) -> Iterator[Finding]:
    file = str(outcome.unit.sources[1])
    if "error" in outcome.entry:
        yield Finding(file, UNREADABLE, outcome.entry["error"])
    else:
        yield from _findings(file, outcome.entry["comparison"])


def _shared_words(args: argparse.Namespace) -> list[str]:
    """The options that each pair's process gets."""
    words = [f"--with={args.runtime}"] if args.runtime is not None else []
    words += [f"--tactic-sources={args.tactic_sources}"] if args.tactic_sources is not None else []
    words += ["--network"] if args.network else []
    words += [] if args.trt is None else ["--trt" if args.trt else "--no-trt"]
    for name in ("shapes", "set", "plugin_library"):
        words += [f"--{name.replace('_', '-')}={given}" for given in getattr(args, name)]
    return words


def _bisect(args: argparse.Namespace, comparison: Comparison, screen: Screen) -> None:
    culprit = bisect_files(Path(args.original), Path(args.rewritten), comparison, arguments.pairs("values", args.set))
    if isinstance(culprit, str):
        screen.line(f"no single window differs: {culprit}", "bad")
        return
    screen.line(str(culprit), "bad")
    folder = Path(args.bisect)
    for path in culprit.save(folder):
        screen.line(f"written to {path}")
    screen.line(f"to reproduce it, in {folder}: surgeon compare {culprit.again}")
