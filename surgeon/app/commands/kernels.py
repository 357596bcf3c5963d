"""`surgeon kernels`: what TensorRT runs of a model, and what changed against another."""

import argparse
import json
from collections.abc import Sequence
from functools import partial

from surgeon.app import arguments
from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.errors import UsageError
from surgeon.report import Progress, counted
from surgeon.trt.kernels import Part, Seen, kernels, parts
from surgeon.trt.program import Kernel, Program, size, summary

HEADERS = ("#", "computes", "nodes", "types", "MB read", "written", "share")
PLAIN = ("{}", "{}", "{}", "{}", "{} MB read", "{} written", "{}")
CHANGES = ("nodes", "kernels before", "after", "types", "MB before", "after")
CHANGES_PLAIN = ("{}", "kernels {} ->", "{}", "{}", "{} MB ->", "{}")
TIMED, TIMED_PLAIN = ("ms",), ("{} ms",)
MOST = 20  # rows, where -v does not ask for all
TEXTS = ("computes", "nodes")  # the columns that are cut to fit
WIDE, LEAST = 60, 12  # columns of a long text in a pipe, and at least on a terminal
Row = tuple[str | tuple[str, ...], ...]  # the names of nodes are a tuple


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet or args.format != "text")
    with screen.progress() as progress:
        after, before = _seen(args, progress)
    if args.format == "json":
        screen.text(json.dumps(_value(after, before), indent=2, ensure_ascii=False))
    elif before is None:
        _print(after, screen, bool(args.verbose))
    else:
        _print_against(after, before, screen, bool(args.verbose))
    return DONE


def _seen(args: argparse.Namespace, progress: Progress) -> tuple[Seen, Seen | None]:
    """The file, and the one that it is compared with, which gets the same sizes."""
    shapes, capability = arguments.pairs("shapes", args.shapes), args.compute_capability
    build = partial(
        kernels, compute_capability=capability, runtime=args.runtime, plugins=args.plugin_library,
        tactic_sources=arguments.tactic_sources(args), progress=progress,
    )  # fmt: skip
    after = build(args.model, shapes=shapes)
    before = None
    if args.against is not None:
        like = after.shapes or shapes
        before = build(args.against, like=like)
    if (shapes or capability) and not any(seen.shapes for seen in (after, before) if seen is not None):
        raise UsageError(
            "an engine has its sizes and its GPU already: --shapes and --compute-capability are for models."
        )
    return after, before


def _value(after: Seen, before: Seen | None) -> dict[str, object]:
    if before is None:
        return after.to_json()
    changed = [p for p in parts(before.program, after.program) if not p.is_same]
    return after.to_json() | {
        "against": before.to_json(),
        "changes": [
            {
                "nodes": list(p.nodes),
                "before": [k.name for k in p.before],
                "after": [k.name for k in p.after],
                "more_bytes": p.more_bytes,
            }
            for p in changed
        ],
    }


# ---- one file --------------------------------------------------------------------------------------------------------


def _print(seen: Seen, screen: Screen, every: bool) -> None:
    program = seen.program
    _print_title(seen, screen)
    numbered = enumerate(program.kernels, 1)  # by the measured time, else by bytes
    ordered = sorted(numbered, key=lambda pair: (pair[1].milliseconds or 0.0, pair[1].bytes), reverse=True)
    shown = ordered if every else ordered[:MOST]
    rows = [_row(number, k, program) for number, k in shown]
    timed = program.milliseconds is not None
    headers, plain = (HEADERS + TIMED, PLAIN + TIMED_PLAIN) if timed else (HEADERS, PLAIN)
    screen.table("kernel", headers, _fitted(rows, headers, screen), plain=plain)
    left = ordered[len(shown) :]
    if left:
        screen.line(
            f"{counted(len(left), 'kernel')} more with {size(sum(k.bytes for _, k in left))}: -v prints all", "dim"
        )
    copies = counted(program.copies, "kernel") if program.copies else "no kernel"
    screen.line(
        f"{copies} only {'copies' if program.copies < 2 else 'copy'}; weights "
        f"{size(program.weights)}, memory for activations {size(program.activations)}"
    )
    _print_notes(seen, screen)
    screen.line(summary(program), "good")


def _print_title(seen: Seen, screen: Screen) -> None:
    gpus = ", ".join(f"{g[2:-1]}.{g[-1]}" if g.startswith("sm") else g for g in seen.program.gpus)
    screen.line(f"{seen.path}, {seen.engine.runtime}, compute capability {gpus}")
    if seen.built_for:
        screen.line(seen.built_for, "dim")


def _print_notes(seen: Seen, screen: Screen, start: str = "") -> None:
    """Print what is counted in another way than one may think; `start` begins each line."""
    program, programs = seen.program, len(seen.engine.programs)
    tables = sum(k.in_tables for k in program.kernels)
    notes = [
        (tables, f"{size(tables)} of what is read are tables of which Gather reads some rows: all rows are counted"),
        (program.branches, "a loop or an If is in it: each kernel counts once, however often it runs"),
        (program.uncounted, f"{counted(program.uncounted, 'tensor')} of symbolic sizes: they count for no bytes"),
        (programs > 1, f"{programs} programs, for other profiles or GPUs: this is the first, --format json has all"),
    ]
    for holds, text in notes:
        if holds:
            screen.line(start + text, "warn")


def _row(number: int, kernel: Kernel, program: Program) -> Row:
    share = kernel.bytes / program.bytes if program.bytes else 0.0
    read, written = f"{kernel.bytes_read / 1e6:.3f}", f"{kernel.bytes_written / 1e6:.3f}"
    row = str(number), kernel.in_words, kernel.nodes, kernel.types or "-", read, written, f"{share:.0%}"
    if program.milliseconds is None:
        return row
    return *row, "-" if kernel.milliseconds is None else f"{kernel.milliseconds:.4f}"


def _fitted(rows: Sequence[Row], headers: Sequence[str], screen: Screen) -> list[tuple[str, ...]]:
    """The rows with operators and names of nodes cut, so that the columns fit the terminal; WIDE in a pipe."""
    texts = [k for k, header in enumerate(headers) if header in TEXTS]
    others = [[header, *(str(row[k]) for row in rows)] for k, header in enumerate(headers) if k not in texts]
    taken = sum(max(map(len, column)) for column in others) + len(headers) + 1
    width = WIDE if screen.width is None else max(LEAST, (screen.width - taken) // len(texts))

    def cell(position: int, value: str | tuple[str, ...]) -> str:
        if not isinstance(value, str):
            return _nodes(value, width)
        return _cut(value, width) if position in texts else value

    return [tuple(cell(k, value) for k, value in enumerate(row)) for row in rows]


def _nodes(names: Sequence[str], width: int) -> str:
    """The first name, and how many more there are; the end of a long name."""
    if not names:
        return "-"
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return _cut(names[0], width - len(more), front=True) + more


def _cut(text: str, width: int, front: bool = False) -> str:
    """A text of at most so many columns: its end with `front`, else its start."""
    if len(text) <= width:
        return text
    return f"...{text[3 - width :]}" if front else f"{text[: width - 3]}..."


# ---- two files -------------------------------------------------------------------------------------------------------


def _print_against(after: Seen, before: Seen, screen: Screen, every: bool) -> None:
    _print_title(before, screen)
    _print_title(after, screen)
    found = parts(before.program, after.program)
    changed = sorted((p for p in found if not p.is_same), key=lambda p: -abs(p.more_bytes))
    shown = changed if every else changed[:MOST]
    screen.table("changed", CHANGES, _fitted([_change(p) for p in shown], CHANGES, screen), plain=CHANGES_PLAIN)
    if len(shown) < len(changed):
        screen.line(f"{counted(len(changed) - len(shown), 'change')} more: -v prints all", "dim")
    same = len(found) - len(changed)
    screen.line(f"{counted(same, 'part')} of the model {'is' if same == 1 else 'are'} the same")
    pairs = zip(_totals(before.program), _totals(after.program), strict=True)
    screen.table("total", ("", "before", "after"), [(name, old, new) for (name, old), (_, new) in pairs])
    _print_notes(before, screen, "before: ")
    _print_notes(after, screen, "after: ")
    screen.line(summary(after.program, before.program), "good")


def _change(part: Part) -> Row:
    moved = (f"{sum(k.bytes for k in ks) / 1e6:.3f}" for ks in (part.before, part.after))
    return part.nodes, _counts(part.before), _counts(part.after), _types(part), *moved


def _types(part: Part) -> str:
    """The types of the largest results before and after: "fp32 -> fp16", or one where they are the same."""
    written = ([t for k in kernels for t in k.writes] for kernels in (part.before, part.after))
    old, new = (max(tensors, key=lambda t: t.size or 0).dtype if tensors else "-" for tensors in written)
    return old if old == new else f"{old} -> {new}"


def _counts(kernels: Sequence[Kernel]) -> str:
    """How many kernels, and what is remarkable in them: "3 (1 copy)", "1 (attention)"."""
    copies = sum(k.is_copy for k in kernels)
    said = [counted(copies, "copy", "copies")] if copies else []
    said += ["attention"] if any(k.is_attention for k in kernels) else []
    return f"{len(kernels)} ({', '.join(said)})" if said else str(len(kernels))


def _totals(program: Program) -> list[tuple[str, str]]:
    fused, attentions = program.attention
    return [
        ("kernels", str(len(program.kernels))),
        ("of them copies", str(program.copies)),
        ("attention", f"{fused} of {attentions} fused" if attentions else "-"),
        ("moved", size(program.bytes)),
        ("weights", size(program.weights)),
        ("memory for activations", size(program.activations)),
    ]
