"""What `surgeon rewrite` prints of a report: tables of what was done, windows before and after, one closing line."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from onnx import ModelProto, TypeProto

from surgeon.app.screen import Screen
from surgeon.ir.lattice import read_type
from surgeon.ir.protos import given_inputs
from surgeon.report import LEFT, MEASURED, TESTED, Applied, Conversion, Declined, Report, counted, error_text, grouped
from surgeon.targets.condition import dtype_name
from surgeon.verdict_text import merged, nameless, numberless, shared_reason

Row = tuple[str, ...]
MOST_SHOWN = 12  # inputs, and outputs
WITHIN = 1e-5  # the relative difference that fp32 results may have without further questions


def print_report(
    report: Report,
    screen: Screen,
    *,
    diff: bool = False,
    each: bool,
    advice: Sequence[str] = (),
    declined: Sequence[Declined] | None = None,
) -> None:
    """Print what was done.

    diff      each window, too
    each      one row for each node, not for each reason
    advice    the advice for each of `report.untaken`
    declined  those to print; None is all
    """
    for a in report.applied if diff else ():
        print_window(a, screen)
    _print_applied(report, screen, each)
    _print_operators(report, screen)
    screen.table("undone", ("pass", "node", "why"), _entries(report.undone, each, numberless), "bad")
    shown = report.declined if declined is None else declined
    screen.table("declined", ("pass", "node", "why"), _entries(shown, each), "warn")
    _print_untaken(report.untaken, advice, screen, each)
    screen.table("unknown", ("node", "why"), [(r[1], r[2]) for r in _entries(report.unknown, each)], "warn")
    screen.table("tried", ("",), [(t,) for t in (report.tuned if each else _tried(report.tuned))])
    screen.table("warning", ("",), [(w,) for w in (report.warnings if each else merged(report.warnings))], "warn")


def print_interface(before: ModelProto, after: ModelProto, screen: Screen, each: bool) -> None:
    """Print the inputs and the outputs of a rewritten model with their types, and what they were where that differs.

    each  all of them; else MOST_SHOWN of either
    """
    found: list[Row] = []
    for word, tensors in (("input", given_inputs), ("output", lambda model: model.graph.output)):
        was, now = ({t.name: _type_text(t.type) for t in tensors(model)} for model in (before, after))
        rows = [(name, text if was.get(name, text) == text else f"{was[name]} -> {text}") for name, text in now.items()]
        rows += [(name, f"{text} -> removed") for name, text in was.items() if name not in now]
        shown = rows if each or len(rows) <= MOST_SHOWN + 1 else rows[:MOST_SHOWN]
        left = [(f"{len(rows) - len(shown)} more", "with -v")] if len(shown) < len(rows) else []
        found += [(word, *row) for row in (*shown, *left)]
    screen.table("model", ("", "name", "type"), found)


def _type_text(proto: TypeProto) -> str:
    """A type as ONNX's text format has it: "float[N,3,H,W]"."""
    elem, shape, kind = read_type(proto)
    dims = "..." if shape is None else ",".join("?" if d is None else str(d) for d in shape)
    return kind.removesuffix("_type") or f"{dtype_name(elem)}[{dims}]"


def _tried(tuned: Sequence[str]) -> Sequence[str]:
    """What `--tune` kept, and how many others it tried; all where there is nothing to leave out."""
    left = [t for t in tuned if t.endswith(LEFT)]
    return [*[t for t in tuned if t not in left], f"{len(left)} more were not better"] if left else tuned


def print_window(a: Applied, screen: Screen) -> None:
    """Print a window before and after. A new tensor's name begins with the old one: that part is printed as `~`."""
    screen.line(f"@@ {a.pass_name} ({a.strategy}) at {a.root}", "head")
    for sign, texts, style in (("-", a.before, "bad"), ("+", a.after, "good")):
        for text in texts:
            for name in a.outputs:
                text = text.replace(f"{name}~", "~")
            screen.line(f"{sign} {text}", style)


def print_precision(half: Conversion, screen: Screen, each: bool) -> None:
    """Print the nodes that a conversion kept in fp32, the error of each output, and a closing line."""
    kept = [Declined(k.op, k.node, k.why) for k in half.kept]
    screen.table("kept fp32", ("operator", "node", "why"), _entries(kept, each), "warn")
    screen.table("inputs", ("",), [(text,) for text in half.inputs])
    rows = [(e.output, f"{e.relative:.1e}", f"{e.quantile:.1e}", f"{e.cosine:.6f}", e.verdict) for e in half.errors]
    plain = ("{}", "error {}", "99 % below {}", "cosine {}", "{}")
    screen.table(f"{half.way} output", ("output", "error", "99 % below", "cosine", "verdict"), rows, plain=plain)
    screen.table("warning", ("",), [(w,) for w in half.warnings], "warn")
    compared = f", not compared: {half.not_compared}" if half.not_compared else ""
    hint = "; with --allow-unproved that is not a failure" if half.unproved else ""
    done, of = half.gain
    gain = f" ({done} of {of} Conv, MatMul and similar)" if of else ""
    compute = "node computes" if half.half == 1 else "nodes compute"
    nodes = f"{half.half} {compute} in {half.type_text}{gain}, {half.single} in fp32"
    text = f"{nodes}, {counted(half.casts, 'cast')} between them{compared}{hint}"
    screen.line(text, "bad" if half.failed else "good")


def print_reports(paths: Sequence[Path], screen: Screen) -> None:
    """Print which reports were written."""
    if paths:
        screen.line(f"{counted(len(paths), 'report')} written to {', '.join(map(str, paths))}")


def closing(report: Report, *, converted: Conversion | None = None) -> str:
    """The closing line without the file: what was proved and undone, and the conversion if there was one."""
    said = [_rewrites(report)]
    if converted is not None:
        done = "not converted" if converted.withheld else "converted" if converted.half else "nothing converted"
        said = [f"{done} to {converted.type_text}", *said]
    if report.applied:
        said.append(_proof(report))
    if report.undone:
        said.append(f"{len(report.undone)} undone")
    said += _whole_models(report)
    return ", ".join(said)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _print_applied(report: Report, screen: Screen, each: bool) -> None:
    if each:
        plain: Row = ("{}", "{}", "{} nodes", "error {}", "{}", "at {}")
        rows: list[Row] = [
            (a.pass_name, a.strategy, f"{len(a.removed)} -> {len(a.added)}", error_text(a.max_error), a.grade, a.root)
            for a in report.applied
        ]
        screen.table("applied", ("pass", "strategy", "nodes", "error", "proved", "at"), rows, "good", plain)
        return
    plain = ("{}", "{}", "{}x", "{} nodes", "error {}", "{}")
    rows = [
        (g.pass_name, g.strategy, str(g.times), f"{g.removed} -> {g.added}", error_text(g.max_error), g.grade)
        for g in report.groups()
    ]
    screen.table("applied", ("pass", "strategy", "times", "nodes", "error", "proved"), rows, "good", plain)


def _entries(
    entries: Iterable[Declined], each: bool, key: Callable[[str], str] = nameless
) -> list[tuple[str, str, str]]:
    """(pass, node, why), with those of the same pass and of a reason with the same key in one row unless `each`."""
    if each:
        return [(e.pass_name, e.node, e.why) for e in entries]
    rows = []
    for (name, _), alike in grouped(((e.pass_name, key(e.why)), e) for e in entries).items():
        nodes = alike[0].node if len(alike) == 1 else f"{alike[0].node} and {len(alike) - 1} more"
        same = len({nameless(e.why) for e in alike}) == 1  # else the first is printed, with its own numbers
        rows.append((name, nodes, shared_reason([e.why for e in alike]) if same else alike[0].why))
    return rows


def _print_operators(report: Report, screen: Screen) -> None:
    """The operators whose number changed, and all of them."""
    before, after = report.ops_before, report.ops_after
    ops = sorted(op for op in {**before, **after} if before.get(op, 0) != after.get(op, 0))
    rows = [(op, str(before.get(op, 0)), str(after.get(op, 0))) for op in ops]
    if rows:
        rows.append(("all", str(report.nodes_before), str(report.nodes_after)))
    screen.table("operator", ("operator", "before", "after"), rows, plain=("{}", "{} before", "{} after"))


def _print_untaken(untaken: Sequence[Declined], advice: Sequence[str], screen: Screen, each: bool) -> None:
    """Print the unsupported nodes with advice; nodes of the same reason and advice are one row unless `each`."""
    if not advice:
        screen.table("unsupported", ("node", "why"), [(r[1], r[2]) for r in _entries(untaken, each)], "bad")
        return
    with_cure = [Declined(cure, d.node, d.why) for d, cure in zip(untaken, advice, strict=True)]
    rows = [(node, f"{why}; advice: {cure}") for cure, node, why in _entries(with_cure, each)]
    screen.table("unsupported", ("node", "why, and advice"), rows, "bad")


# ---- the closing lines -----------------------------------------------------------------------------------------------


def _rewrites(report: Report) -> str:
    if report.applied:
        return counted(len(report.applied), "rewrite")
    before, after = report.opset_before, report.opset_after
    return "nothing to rewrite" if before == after else f"only the opset, {before}, becomes {after}"


def _proof(report: Report) -> str:
    if report.verify["mode"] == "none":
        return "none proved (--verify none)"
    moved, errors = report.errors(MEASURED), report.errors(TESTED)
    said = [f"the quantizers change the outputs by {error_text(max(moved))}"] if moved else []
    if len(errors) + len(moved) < len(report.applied):
        return ", ".join([f"{len(errors)} of them proved", *said])
    if errors:
        those = f"the other {counted(len(errors), 'rewrite')} " if moved else "each " if len(errors) > 1 else ""
        said.append(f"{those}proved in isolation, largest error {error_text(max(errors))}")
    return ", ".join(said)


def _whole_models(report: Report) -> list[str]:
    """The result of the comparison of whole models; nothing if it was not requested."""
    compared = report.verify.get("compared", True)
    error = report.verify.get("max_error")
    if "failed" in report.verify:
        result = "differ" if compared else "were not compared"
        hint = "" if compared else "; with --allow-unproved that is not a failure"
        return [f"the whole models {result}: {report.verify['failed']}{hint}"]
    if not compared:
        return ["the whole models were not compared"]
    if error is None:
        return []
    return [f"whole models agree{f' to {error_text(error)}' if report.errors(MEASURED) else _agreement(error)}"]


def _agreement(error: float) -> str:
    """How well whole models agree, given the largest error.

    Beyond the tolerance they agree only where the original is as far from a float64 evaluation itself.
    """
    if error <= WITHIN:
        return f" to {error_text(error)}"
    return f" to the original's own rounding ({error_text(error)} on its most sensitive inputs)"
