"""Which line of a pass, or of the table of targets, can be wrong without a test that fails? A mutation run.

    python benchmarks/mutation.py [--files passes/clip.py ...] [--sample N --seed S] [--jobs 2] [--survivors FILE]
    python benchmarks/mutation.py --own passes/clip.py               passes and their own cases alone: a minute or two
    python benchmarks/mutation.py --passes FOLDER --cases FOLDER     passes of your own, with their case files alone
    python benchmarks/mutation.py --again FILE                       those that --survivors wrote into a file

A mutant is one file with one small mistake. These are made:

- a `require`, `no_match` or other call whose result nobody reads is dropped; `require_some` lets everything through;
- a guard (an `if` that only leaves) is dropped, another condition negated, the `if` of a comprehension dropped;
- a comparison's boundary is moved, an integer raised by one, another doubled, True and False swapped;
- a `not` is dropped;
- `and` and `or`, `min` and `max`, `any` and `all`, + and -, * and / are swapped, a part of an `and` is dropped;
- an alternative of a pattern, an element of a table, an operator of a list of names is dropped (the first, the one in
  the middle, the last);
- a function returns None; the decorator that makes it a rule or a condition is dropped.

Docstrings, reasons, annotations and `__all__` are left as they are, and what only checks the code itself: `assert` and
the `strict` of a zip.

Each mutant runs in a child of this process, which imports surgeon with that one file changed, and meets, until one of
them sees the mistake:

1. the case files that run the line, those of the pass first: what the model becomes, the reason, a second run; then
   the same with one thing changed, as tests/near_misses.py has them, or with a rank, a type or a constant unknown, as
   tests/test_less_known.py has them;
2. models of the corpus that run the line, for 8.4 and TensorRT-RTX: the bytes, and whether the target supports them;
3. the tests that run the line, the quickest first, for as long as --tests says;
4. mypy, which is part of the tests.

What runs when a module is imported (a pattern, a table) is met by the cases, models and tests that run any line of the
file, or of one that imports it. Cases and models run without proof here: a wrong rewrite differs before it is proved
wrong. Cases that end with nodes of surgeon's own are proved, too: the proof alone runs what such a node means.

Printed are the mutants of each file, what killed them, and those that survive. mutation_equivalent.txt beside this file
lists mutants that no test can kill, with the reason; they are counted apart.

The bar is 86 % of `--sample 300 --tests 12 --no-corpus` with a fresh seed. mutation_survivors.txt has what the last run
measured: --record writes it. Figures from before 2026-11-28 are wrong for surgeon/targets: the module of near misses
imported it before its mutants were there, and most of them counted as killed by a crash. Until 2026-11-28, too, no case
with something unknown met a mutant: each ended in an error of this module.

Before tests/near_misses.py the passes were at 75 to 78 %. What helps most next is a test of rows for a helper that many
passes share (test_sizes, test_factors, test_whole_numbers): a case shows one answer of it, a row is one line.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import importlib
import importlib.machinery
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.txt")
SURVIVORS = Path(__file__).with_name("mutation_survivors.txt")
TARGETS = ("8.4", "rtx")
REGISTRY = "surgeon.rules.registry"
# Tests of what is above the passes, or of files: they meet no mutant. Those of cases and corpus are met as such.
NOT_RUN = {
    *("test_bad_input", "test_cases", "test_cli", "test_compare", "test_corpus", "test_docs", "test_engine"),
    *("test_files", "test_graph", "test_html", "test_interop", "test_layout", "test_less_known", "test_mutation"),
    *("test_near_misses", "test_network"),
    *("test_packaging", "test_pipeline", "test_plugins", "test_polygraphy", "test_precision", "test_prove"),
    *("test_order", "test_public_api", "test_python_plugin", "test_rtx", "test_samples", "test_typing"),
}
SLOWEST = 5.0  # seconds; a slower test meets no mutant
CORPUS_SECONDS = 3.0
LESS_KNOWN_SECONDS = 10.0
LIMIT = 20.0  # seconds of computing for each thing that a mutant meets, and four times what that takes without it
MODULES = (
    "hypothesis ml_dtypes numpy onnx onnx.helper onnx.parser onnx.reference onnx.shape_inference onnx_graphsurgeon "
    "onnxruntime polygraphy pytest rich"
)

# ---- what is changed -------------------------------------------------------------------------------------------------

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNREAD_FIELDS = {"annotation", "returns"}
Changes = dict[type[ast.AST], Callable[[Any], Iterator[tuple[Any, str]]]]
OPERATORS = re.compile(r"[A-Z]\w*(\s+[A-Z]\w*)+\s*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mutant is: the lines of its statement, and whether they run while the module is imported.

    `of` holds the lines of the function that a decorator is over.
    """

    first: int = 0
    last: int = 0
    imported: bool = True
    of: range = range(0)

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: where, in words, and the edit of the file's tree that makes it."""

    path: Path
    line: int
    what: str
    place: Place
    apply: Callable[[], None]
    tree: ast.Module

    def code(self) -> CodeType:
        """The mutated module. Call it in a child only: the tree stays changed."""
        self.apply()
        return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec")


def mutants_of(path: Path, changes: Changes | None = None) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines. Where two read the same, the later ones get a number.

    changes  what is made of each kind of node; CHANGES without it
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[Mutant] = []
    seen: Counter[tuple[int, str]] = Counter()
    for node, put, place in _walk(tree, Place()):
        for new, what in _changes(node, CHANGES if changes is None else changes):
            line = getattr(node, "lineno", place.first)
            seen[line, what] += 1
            number = seen[line, what]
            words = what if number == 1 else f"{what} ({number})"
            found.append(Mutant(path, line, words, place, partial(put, new), tree))
    return sorted(found, key=lambda m: m.line)


def _walk(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Callable[[Any], None], Place]]:
    """(node, what puts another node in its place, where it is) for everything below `node` that may be changed."""
    for child, put, where in _children(node, place):
        if _is_left(child):
            continue
        inner = _place(child, where)
        yield child, put, inner
        yield from _walk(child, inner)


def _children(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Callable[[Any], None], Place]]:
    body = place
    if isinstance(node, ast.FunctionDef):
        body = Place(imported=any("cache" in ast.unparse(d) for d in node.decorator_list))
    for name, value in ast.iter_fields(node):
        where = body if name == "body" else place
        if name in UNREAD_FIELDS or (name == "decorator_list" and isinstance(node, ast.ClassDef)):
            continue
        if isinstance(value, ast.AST):
            yield value, partial(setattr, node, name), where
        elif isinstance(value, list):
            read = value[:1] if name == "args" and _is_require(node) else value  # what follows is the reason
            for index, item in enumerate(read):
                if isinstance(item, ast.AST):
                    yield item, partial(value.__setitem__, index), where


def _place(node: ast.AST, around: Place) -> Place:
    """A statement gives its own lines; of one with a body, the lines before the body."""
    if not isinstance(node, ast.stmt):
        return around
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    of = range(node.lineno, (node.end_lineno or 0) + 1) if isinstance(node, ast.FunctionDef) else range(0)
    return Place(first, max(first, last), around.imported, of)


def _is_left(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) in ("__all__", "OPTIONS")
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _is_require(node: ast.AST) -> bool:
    return _called(node) in ("require", "require_some")


def _called(node: ast.AST) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _changes(node: ast.AST, changes: Changes) -> Iterator[tuple[Any, str]]:
    """(what is there instead, the change in words) for each mistake made at this very node."""
    for kind, change in changes.items():
        if isinstance(node, kind):
            yield from change(node)


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else text[:45] + " ... " + text[-20:]


def _copy(node: ast.AST, **changed: Any) -> Any:
    fields = {name: getattr(node, name) for name in node._fields if hasattr(node, name)}
    return ast.copy_location(type(node)(**{**fields, **changed}), node)


def _becomes(node: ast.AST, new: ast.AST) -> tuple[Any, str]:
    return new, f"{_text(node)} -> {_text(new)}"


def _expression(node: ast.Expr) -> Iterator[tuple[Any, str]]:
    if isinstance(node.value, ast.Call):
        yield ast.copy_location(ast.Pass(), node), f"dropped: {_text(node)}"


def _call(node: ast.Call) -> Iterator[tuple[Any, str]]:
    name = _called(node)
    if name == "require_some":
        yield node.args[0], f"dropped: {_text(node)}"
    if name in NAMES:
        yield _becomes(node, _copy(node, func=ast.Name(NAMES[name], ast.Load())))


def _if(node: ast.If) -> Iterator[tuple[Any, str]]:
    first = node.body[0]
    if isinstance(first, ast.Expr) and _called(first.value) == "no_match":
        return  # dropped as a call
    leaves = isinstance(first, ast.Return | ast.Continue | ast.Break | ast.Raise)
    if leaves and not node.orelse:
        yield _copy(node, test=ast.Constant(False)), f"guard dropped: if {_text(node.test)}"
    else:
        yield from _negated(node)


def _negated(node: ast.If | ast.IfExp | ast.While) -> Iterator[tuple[Any, str]]:
    """The condition negated, unless a change of the condition itself does that."""
    test = node.test
    itself = isinstance(test, ast.Compare) and not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    if not itself and not isinstance(test, ast.UnaryOp):
        word = "while" if isinstance(node, ast.While) else "if"
        yield _copy(node, test=ast.UnaryOp(ast.Not(), test)), f"negated: {word} {_text(test)}"


def _comprehension(node: ast.comprehension) -> Iterator[tuple[Any, str]]:
    for part in node.ifs:
        yield _copy(node, ifs=[i for i in node.ifs if i is not part]), f"dropped: if {_text(part)}"


def _compare(node: ast.Compare) -> Iterator[tuple[Any, str]]:
    for index, operator in enumerate(node.ops):
        other = COMPARISONS[type(operator)]()
        yield _becomes(node, _copy(node, ops=[*node.ops[:index], other, *node.ops[index + 1 :]]))


def _boolean(node: ast.BoolOp) -> Iterator[tuple[Any, str]]:
    yield _becomes(node, _copy(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
    for index, part in enumerate(node.values):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        new = rest[0] if len(rest) == 1 else _copy(node, values=rest)
        word = "and" if isinstance(node.op, ast.And) else "or"
        yield new, f"dropped from an '{word}': {_text(part)}"


def _constant(node: ast.Constant) -> Iterator[tuple[Any, str]]:
    if isinstance(node.value, bool):
        yield _becomes(node, ast.Constant(not node.value))
    elif isinstance(node.value, int):
        yield _becomes(node, ast.Constant(node.value + 1))
    elif isinstance(node.value, float):
        yield _becomes(node, ast.Constant(2 * node.value or 1.0))
    elif isinstance(node.value, str) and OPERATORS.fullmatch(node.value):
        words = node.value.split()
        for index in _some(len(words)):
            yield ast.Constant(" ".join(words[:index] + words[index + 1 :]) + " "), f"dropped: {words[index]}"


def _some(count: int) -> list[int]:
    """The first, the one in the middle and the last of so many."""
    return sorted({0, count // 2, count - 1})


def _not(node: ast.UnaryOp) -> Iterator[tuple[Any, str]]:
    if isinstance(node.op, ast.Not):
        yield _becomes(node, node.operand)


def _binary(node: ast.BinOp) -> Iterator[tuple[Any, str]]:
    if type(node.op) in ARITHMETIC:
        yield _becomes(node, _copy(node, op=ARITHMETIC[type(node.op)]()))
    if isinstance(node.op, ast.BitOr):
        yield node.left, f"alternative dropped: {_text(node.right)}"
        if not (isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.BitOr)):
            yield node.right, f"alternative dropped: {_text(node.left)}"


def _elements(node: ast.Tuple | ast.List | ast.Set) -> Iterator[tuple[Any, str]]:
    """An element of names, or of rows, dropped."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or len(node.elts) < 2:
        return
    names = all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in node.elts)
    if not names and not all(isinstance(e, ast.Tuple) for e in node.elts):
        return
    for index in _some(len(node.elts)):
        rest = [*node.elts[:index], *node.elts[index + 1 :]]
        yield _copy(node, elts=rest), f"element dropped: {_text(node.elts[index])}"


def _entries(node: ast.Dict) -> Iterator[tuple[Any, str]]:
    if len(node.keys) < 2:
        return
    for index in _some(len(node.keys)):
        keys = [*node.keys[:index], *node.keys[index + 1 :]]
        values = [*node.values[:index], *node.values[index + 1 :]]
        dropped = node.keys[index] or node.values[index]
        yield _copy(node, keys=keys, values=values), f"entry dropped: {_text(dropped)}"


def _return(node: ast.Return) -> Iterator[tuple[Any, str]]:
    trivial = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value in (None, True, False))
    if not trivial:
        yield _copy(node, value=ast.Constant(None)), f"{_text(node)} -> None"


def _function(node: ast.FunctionDef) -> Iterator[tuple[Any, str]]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            rest = [d for d in node.decorator_list if d is not decorator]
            yield _copy(node, decorator_list=rest), f"{node.name} without its @{ast.unparse(decorator.func)}"


CHANGES: Changes = {
    ast.Expr: _expression,
    ast.Call: _call,
    ast.If: _if,
    ast.IfExp: _negated,
    ast.While: _negated,
    ast.comprehension: _comprehension,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.Constant: _constant,
    ast.UnaryOp: _not,
    ast.BinOp: _binary,
    ast.Tuple: _elements,
    ast.List: _elements,
    ast.Set: _elements,
    ast.Dict: _entries,
    ast.Return: _return,
    ast.FunctionDef: _function,
}

# ---- what meets a mutant ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Unit:
    """A case file, or a model of the corpus for a target, or a test; `run` gives what must stay the same.

    Without a mutant it took `seconds`, gave `outcome` and ran `lines`: {path: lines}.
    """

    kind: str
    name: str
    run: Callable[[], Any] | None = None
    pass_name: str = ""
    seconds: float = 0.0
    outcome: Any = None
    lines: dict[str, set[int]] = field(default_factory=dict)
    of: str = ""  # what it reads, in short
    case: Any = None  # of a case file

    def runs(self, path: Path, lines: Iterable[int]) -> bool:
        found = self.lines.get(str(path))
        return found is not None and not found.isdisjoint(lines)


def _short(text: object) -> str:
    return hashlib.sha256(repr(text).encode()).hexdigest()


def _case(case: Any, folders: tuple[str, ...]) -> Any:
    """What tests/test_cases.py asks of a case, without a proof unless nodes of surgeon's own come out."""
    import casefile

    import surgeon

    options = {**case.options, "verify": "none", "passes": folders}
    result = surgeon.rewrite(case.model, **options)
    reasons = [d.why for d in result.report.declined if case.pass_name in d.pass_name.split("+")]
    silent = case.why in ("no pattern", "as it would be written")
    said = bool(reasons) if silent else any(case.why in why for why in reasons)
    again = surgeon.rewrite(result.model, **options)
    final = _bytes(again.model) == _bytes(result.model)
    spelt = any("already as short" in d.why for d in again.report.declined)
    canonical = _short(casefile.canonical(result.model))
    warned = [any(words in warning for warning in result.report.warnings) for words in case.warns]
    proved = not _meant(result.model) or len(surgeon.rewrite(case.model, **case.options, passes=folders).report.applied)
    return [canonical, said, warned, bool(result.report.applied), bool(again.report.applied), spelt, final, proved]


def _meant(model: Any) -> bool:
    """Whether it has nodes of which a pass says what they compute (@meaning): the proof alone runs that."""
    from surgeon.rules.meaning import has_meaning

    return any(n.domain and has_meaning(n.op_type) for n in model.graph.node)


def _model(model: Any, target: str) -> Any:
    import surgeon

    result = surgeon.rewrite(model, target=target, verify="none")
    return [_bytes(result.model), bool(result.report.untaken)]


def _bytes(model: Any) -> str:
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()


def _outcome(unit: Unit) -> Any:
    assert unit.run is not None
    try:
        return unit.run()
    except Exception as error:  # a mutant may raise anything; surgeon's own errors are outcomes too
        return f"{type(error).__name__}: {error}"


def case_units(folder: Path, folders: tuple[str, ...], names: list[str]) -> list[Unit]:
    """The cases below a folder; those of the named passes alone, where any is named."""
    import casefile

    paths = sorted(p for p in folder.glob("*/*.onnxtxt") if not names or p.parent.name in names)
    return [
        Unit(
            "case",
            f"{p.parent.name}/{p.stem}",
            partial(_case, case, folders),
            case.pass_name,
            of=_short(p.read_bytes()),
            case=case,
        )
        for p, case in ((p, casefile.load(p)) for p in paths)
    ]


def less_known_units(cases: list[Unit]) -> list[Unit]:
    """What tests/test_less_known.py asks of each case: a rank, the sizes, a type or a constant is not known."""

    def ends(case: Any) -> Any:
        import test_less_known as less

        return [less.end_of(case, model) for way in less.WAYS for model in way(case) if less.is_valid(model)]

    return [
        Unit("less", f"{unit.name} less", partial(ends, unit.case), unit.pass_name, of=unit.of, case=unit.case)
        for unit in cases
    ]


def near_units(cases: list[Unit]) -> list[Unit]:
    """What tests/test_near_misses.py asks of each case that has near misses."""
    import near_misses

    recorded = {u.case.path.parent.name: near_misses.recorded(u.case.path.parent.name) for u in cases}
    found = ((u, recorded[u.case.path.parent.name].get(u.case.path.stem)) for u in cases)
    return [
        Unit("near", f"{u.name} near", partial(near_misses.answers, u.case, set(r)), u.pass_name, of=_short([u.of, r]))
        for u, r in found
        if r
    ]


def corpus_units(folder: Path) -> list[Unit]:
    import onnx

    models = [(p, onnx.load(p)) for p in sorted(folder.glob("*.onnx"))]
    return [Unit("corpus", f"{p.stem} {t}", partial(_model, model, t)) for p, model in models for t in TARGETS]


# ---- lines that run --------------------------------------------------------------------------------------------------


class Lines:
    """Notes the lines of some files that run: {path: lines}."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = {str(p) for p in paths}
        self.found: dict[str, set[int]] = {}

    def __enter__(self) -> Lines:
        self.found = {}
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        path = frame.f_code.co_filename
        if path not in self._paths:
            return None
        lines = self.found.setdefault(path, set())

        def line(frame: FrameType, event: str, arg: object) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line


def _measure(units: list[Unit], paths: list[Path]) -> list[tuple[Any, float, dict[str, list[int]]]]:
    """Runs in a child: (outcome, seconds, lines) of each unit, and before them those of the import."""
    trace = Lines(paths)
    with trace:
        importlib.import_module(REGISTRY).passes()
    found = [(None, 0.0, {k: sorted(v) for k, v in trace.found.items()})]
    for unit in units:
        with trace:
            outcome = _outcome(unit)
        if isinstance(outcome, str) and unit.kind != "corpus":
            raise RuntimeError(f"{unit.name}: {outcome}")
        started = time.process_time()
        _outcome(unit)
        found.append((outcome, time.process_time() - started, {k: sorted(v) for k, v in trace.found.items()}))
    return found


def measure(units: list[Unit], paths: list[Path], jobs: int, store: Store) -> dict[str, set[int]]:
    """Fills in what each unit gives and runs without a mutant. Returns the lines that importing the passes runs."""
    unknown = [u for u in units if store.get(f"{u.name} {u.of}") is None]
    parts = [unknown[k::jobs] for k in range(jobs)]
    works = ((k, partial(_measure, part, paths)) for k, part in enumerate(parts) if part or store.get("import") is None)
    for k, found in in_children(works, jobs, lambda _: 1800.0):
        if isinstance(found, str | Exception):
            raise RuntimeError(f"the cases do not run without a mutant either: {found}")
        named = {f"{u.name} {u.of}": row for u, row in zip(parts[k], found[1:], strict=True)}
        store.keep({"import": found[0][2], **named})
    for unit in units:
        unit.outcome, unit.seconds, lines = store.get(f"{unit.name} {unit.of}")
        unit.lines = {path: set(numbers) for path, numbers in lines.items()}
    return {path: set(numbers) for path, numbers in store.get("import").items()}


class _Tests:
    """A plugin of pytest that measures every test, or keeps those of `wanted` alone, in that order."""

    def __init__(self, paths: list[Path], wanted: list[str] | None = None) -> None:
        self._trace, self._wanted = Lines(paths), wanted
        self._failed: set[str] = set()
        self.found: list[tuple[str, float, dict[str, list[int]]]] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._wanted is None:
            return
        found = {i.nodeid for i in items}
        rank = {name: k for k, name in enumerate(self._wanted)}
        # a mutant of a table may change what its test is called
        rank |= {name.partition("[")[0]: k for k, name in enumerate(self._wanted) if name not in found}
        known = {i: name for i in items for name in (i.nodeid.partition("[")[0], i.nodeid) if name in rank}
        items[:] = sorted(known, key=lambda i: rank[known[i]])

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Any:
        if self._wanted is not None:
            return None
        from _pytest.runner import runtestprotocol

        started = sum(os.times()[:4])  # of computing, in processes that it waited for, too
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        with self._trace:
            reports = runtestprotocol(item, nextitem=nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if all(r.passed for r in reports):
            lines = {path: sorted(found) for path, found in self._trace.found.items()}
            self.found.append((item.nodeid, sum(os.times()[:4]) - started, lines))
        return True


PYTEST = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no", f"--rootdir={ROOT}"]


def _measure_tests(file: Path, paths: list[Path]) -> list[tuple[str, float, dict[str, list[int]]]]:
    """Runs in a child: (node id, seconds, lines) of every test of a file that passes."""
    import pytest

    importlib.import_module(REGISTRY).passes()
    plugin = _Tests(paths)
    pytest.main([*PYTEST, str(file)], plugins=[plugin])
    return plugin.found


class Store:
    """What was measured, kept in a file for as long as no file of surgeon or of the passes changes."""

    def __init__(self, file: Path | None, paths: list[Path]) -> None:
        self._file = file
        self._kept: dict[str, Any] = {"key": _short([p.read_bytes() for p in sorted({*paths, *_own_files()})])}
        if file is not None and file.is_file():
            stored = json.loads(file.read_text(encoding="utf-8"))
            self._kept = stored if stored["key"] == self._kept["key"] else self._kept

    def get(self, name: str) -> Any:
        return self._kept.get(name)

    def keep(self, found: dict[str, Any]) -> None:
        self._kept.update(found)
        if self._file is not None:
            self._file.write_text(json.dumps(self._kept), encoding="utf-8")


def _own_files() -> Iterator[Path]:
    return (ROOT / "surgeon").rglob("*.py")


def test_units(paths: list[Path], jobs: int, store: Store, wanted: list[str]) -> list[Unit]:
    """Every test, or those of the wanted files, measured once."""
    files = [p for p in sorted((ROOT / "tests").glob("test_*.py")) if p.stem not in NOT_RUN]
    files = [p for p in files if not wanted or p.stem in wanted]
    keys = {f: f"{f.name} {_short(f.read_bytes())}" for f in files}
    works = ((keys[f], partial(_measure_tests, f, paths)) for f in files if store.get(keys[f]) is None)
    for key, found in in_children(works, jobs, lambda _: 900.0):
        if isinstance(found, str | Exception):
            print(f"{key.split()[0]} meets no mutant: {found}", file=sys.stderr)
            found = []
        store.keep({key: found})
    return [_test_unit(*row) for f in files for row in store.get(keys[f])]


def _test_unit(name: str, seconds: float, lines: dict[str, list[int]]) -> Unit:
    return Unit("test", name, seconds=seconds, lines={path: set(found) for path, found in lines.items()})


def users_of(paths: list[Path]) -> dict[Path, set[Path]]:
    """The files among `paths` that import a file, and those that import them, and so on."""
    known = set(paths)
    users: dict[Path, set[Path]] = {path: set() for path in paths}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for used in _imported(path, node) & known:
                    users[used].add(path)
    grown = True
    while grown:
        grown = False
        for found in users.values():
            more = set().union(*(users[user] for user in found)) - found
            found |= more
            grown |= bool(more)
    return users


def _imported(path: Path, node: ast.ImportFrom) -> set[Path]:
    """The files that a `from ... import` may read."""
    if node.level:
        base = path.parents[node.level - 1]
        place = base.joinpath(*(node.module or "").split("."))
    else:
        place = ROOT.joinpath(*str(node.module).replace("surgeon.passes", "passes").split("."))
    return {place.with_suffix(".py"), place / "__init__.py", *(place / f"{alias.name}.py" for alias in node.names)}


# ---- children --------------------------------------------------------------------------------------------------------


def in_children(
    works: Iterable[tuple[Any, Callable[[], Any]]], jobs: int, limit: Callable[[Any], float]
) -> Iterator[tuple[Any, Any]]:
    """(key, what the work returned) for each work, run in a child of its own, so many at a time.

    A text stands for what one that ends otherwise did: "time" for one that computed past its limit, or waited for ten
    times that (a busy machine is not an infinite loop), "crash" for a child that died. What the work raises is yielded.
    The work may set the limit of what it computes next with allow().
    """
    context = multiprocessing.get_context("fork")
    running: dict[Any, tuple[Any, Any, float]] = {}
    waiting = iter(works)
    while True:
        for key, work in itertools.islice(waiting, jobs - len(running)):
            ours, theirs = context.Pipe(duplex=False)
            seconds = limit(key)
            child = context.Process(target=_child, args=(theirs, work, seconds))
            child.start()
            theirs.close()
            running[ours] = (key, child, time.monotonic() + 10 * seconds)
        if not running:
            return
        ready = multiprocessing.connection.wait(list(running), timeout=1.0)
        for pipe, (key, child, deadline) in list(running.items()):
            late = time.monotonic() > deadline
            if pipe not in ready and not late:
                continue
            result: Any = "time"
            if pipe in ready:
                try:
                    result = pipe.recv()
                except EOFError:
                    result = "crash"
            child.kill()
            child.join()
            pipe.close()
            del running[pipe]
            yield key, "time" if child.exitcode == -signal.SIGXCPU else result


def allow(seconds: float) -> None:
    """Runs in a child: it is ended when it has computed for so many seconds more."""
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + seconds), resource.RLIM_INFINITY))


def _child(pipe: Any, work: Callable[[], Any], seconds: float) -> None:
    allow(seconds)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    gc.disable()
    try:
        result = work()
    except Exception as error:  # of this file itself: what a mutant raises is an outcome
        result = RuntimeError(f"{type(error).__name__}: {error}")
    pipe.send(result)
    pipe.close()
    os._exit(0)


# ---- a mutant's run --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bench:
    """What mutants meet: cases, models of the corpus, tests (for `test_seconds` of their own time).

    `imported`: the lines of each file that run while surgeon and its passes are imported. `users`: see `users_of`.
    """

    units: list[Unit]
    test_seconds: float
    imported: dict[str, set[int]]
    users: dict[Path, set[Path]]

    def meets(self, mutant: Mutant) -> tuple[list[Unit], list[Unit]]:
        """The cases and models, and the tests, that a mutant meets, in order."""
        place, path = mutant.place, mutant.path
        own = path.stem.replace("_", "-")
        if place.imported or not self.imported.get(str(path), set()).isdisjoint(place.lines):
            files = {str(f) for f in (path, *self.users[path])}
            found = [u for u in self.units if u.pass_name == own or not files.isdisjoint(u.lines)]
        else:
            found = [u for u in self.units if u.runs(path, place.lines)]
        found.sort(key=lambda u: (u.pass_name != own, not u.runs(path, place.of), str(path) not in u.lines, u.seconds))
        cases = [u for u in found if u.kind == "case"]
        cases += [u for u in found if u.kind == "near"]
        cases += _within([u for u in found if u.kind == "less"], LESS_KNOWN_SECONDS)
        models = _within(_spread([u for u in found if u.kind == "corpus"]), CORPUS_SECONDS)
        return cases + models, _within([u for u in found if u.kind == "test"], self.test_seconds)


def _within(units: Iterable[Unit], seconds: float) -> list[Unit]:
    total, found = 0.0, []
    for unit in units:
        total += unit.seconds
        if total > seconds or unit.seconds > SLOWEST:
            break
        found.append(unit)
    return found


def _seconds(*parts: list[Unit]) -> float:
    return sum(unit.seconds for part in parts for unit in part)


def _spread(units: list[Unit]) -> list[Unit]:
    """One export of each module first, then a second one of each, and so on."""
    count: Counter[str] = Counter()
    ranked = []
    for unit in units:
        module = unit.name.partition("__")[0]
        count[module] += 1
        ranked.append((count[module], unit.seconds, unit.name, unit))
    return [r[-1] for r in sorted(ranked, key=lambda r: r[:3])]


def run_mutant(mutant: Mutant, units: list[Unit], tests: list[Unit]) -> str:
    """Runs in a child: what killed the mutant ("case clip/relu", "import ..."), or "" where it survives."""
    loaded = _install(mutant)
    try:
        importlib.import_module(REGISTRY).passes()
    except Exception as error:
        return f"import {type(error).__name__}"
    for unit in units:
        allow(LIMIT + 4 * unit.seconds)
        if _outcome(unit) != unit.outcome:
            return f"{unit.kind} {unit.name}"
    allow(LIMIT + 4 * _seconds(tests))
    killer = _run_tests([t.name for t in tests])
    if not loaded:
        raise RuntimeError(f"{mutant.path} was not imported, or was before its mutant was there")
    return killer


def _install(mutant: Mutant) -> list[str]:
    """From here on, whoever imports the file gets the mutant. Returns a list that then has its name."""
    code, path, loaded = mutant.code(), str(mutant.path), []  # type: ignore[var-annotated]
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> Any:
        if str(Path(self.path).resolve()) != path:
            return original(self, name)
        loaded.append(name)
        return code

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]
    return loaded


def _run_tests(names: list[str]) -> str:
    if not names:
        return ""
    import pytest

    files = sorted({name.partition("::")[0] for name in names})
    status = pytest.main([*PYTEST, "-x", *(str(ROOT / f) for f in files)], plugins=[_Tests([], names)])
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise RuntimeError(f"pytest does not find {names[0]}")
    return "" if status == pytest.ExitCode.OK else f"test of {len(names)} in {', '.join(files)}"


# ---- the report ------------------------------------------------------------------------------------------------------


def read_equivalent(path: Path = EQUIVALENT) -> dict[tuple[str, str, str], str]:
    """{(file, the line's text, the change): the reason}. Raises ValueError for an entry that is not four lines."""
    if not path.is_file():
        return {}
    text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    found = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        rows = [row.strip() for row in block.splitlines()]
        if len(rows) != 4:
            raise ValueError(f"an entry of {path.name} has four lines: file, line, change, reason; not {rows}")
        found[rows[0], rows[1], rows[2]] = rows[3]
    return found


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _line(mutant: Mutant) -> str:
    return mutant.path.read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()


@dataclass(slots=True)
class Tally:
    """The mutants of a file, by what became of them."""

    killed: Counter[str] = field(default_factory=Counter)
    survivors: list[tuple[Mutant, str]] = field(default_factory=list)
    equivalent: list[tuple[Mutant, str]] = field(default_factory=list)

    @property
    def counted(self) -> int:
        return self.killed.total() + len(self.survivors)

    def row(self, name: str) -> str:
        share = 100 * self.killed.total() / self.counted if self.counted else 100.0
        by = "".join(f"{self.killed[k]:8}" for k in KILLERS)
        return f"{name:44}{self.counted:8}{self.killed.total():8}{len(self.survivors):10}{share:7.1f}%{by}"


KILLERS = ("import", "case", "near", "less", "corpus", "test", "types", "time", "crash")


def total(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.killed += tally.killed
        whole.survivors += tally.survivors
        whole.equivalent += tally.equivalent
    return whole


def survivor(mutant: Mutant, why: str) -> str:
    return f"{_name(mutant.path)}:{mutant.line}: {mutant.what}{f'  [{why}]' if why else ''}"


def again(mutants: list[Mutant], listed: Path) -> list[Mutant]:
    """Those mutants that a file of --survivors lists. Lines may have moved since: of alike ones, the nearest counts."""
    found = []
    for row in listed.read_text(encoding="utf-8").splitlines():
        path, line, what = row.split(": ", 1)[0].split(":")[0], int(row.split(":")[1]), row.split(": ", 1)[1]
        alike = [m for m in mutants if _name(m.path) == path and survivor(m, "").split(": ", 1)[1] == _bare(what)]
        found += sorted(alike, key=lambda m: abs(m.line - line))[:1]
    return found


def _bare(what: str) -> str:
    """A survivor's change without what is known of it."""
    return what.partition("  [")[0]


def play(bench: Bench, mutants: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, str, str]]:
    """(mutant, what killed it or "", what is to be said of a survivor) for each mutant.

    Passes are imported by each child, with its mutant. All else of surgeon is imported here before theirs run, unless
    it is what is mutated: those mutants run first.
    """
    met = {id(m): bench.meets(m) for m in mutants}
    yield from ((m, "", "nothing runs the line") for m in mutants if not any(met[id(m)]))
    reached = [m for m in mutants if any(met[id(m)])]
    inside = [m for m in reached if m.path.is_relative_to(ROOT / "surgeon")]
    passes = [m for m in reached if not m.path.is_relative_to(ROOT / "surgeon")]
    for group in (inside, passes):
        if group is passes:
            importlib.import_module(REGISTRY)
        works = ((m, partial(run_mutant, m, *met[id(m)])) for m in group)
        for mutant, killer in in_children(works, jobs, lambda m: LIMIT + 4 * _seconds(*met[id(m)])):
            yield (mutant, "", str(killer)) if isinstance(killer, Exception) else (mutant, killer, "")


def _files(given: list[str], folder: Path | None) -> list[Path]:
    if folder is not None:
        return sorted(folder.resolve().glob("*.py"))
    if given:
        return [Path(name).resolve() for name in given]
    return sorted([*(ROOT / "passes").rglob("*.py"), *(ROOT / "surgeon" / "targets").rglob("*.py")])


def bench_of(args: argparse.Namespace, paths: list[Path]) -> Bench:
    """Everything that mutants meet, measured without a mutant."""
    own = args.passes is not None or bool(args.own)
    folders = (str(args.passes.resolve()),) if args.passes is not None else ()
    units = case_units(args.cases, folders, [Path(name).stem for name in args.own])
    if not own:
        units += less_known_units(units) + near_units(units)
        units += [] if args.no_corpus else corpus_units(ROOT / "tests" / "corpus")
    gc.collect()
    gc.freeze()
    store = Store(args.store, paths)
    imported = measure(units, paths, args.jobs, store)
    tests = [] if own or not args.tests else test_units(paths, args.jobs, store, args.of)
    return Bench(units + tests, args.tests, imported, users_of(paths))


def main() -> None:
    args = _arguments()
    sys.path.insert(0, str(ROOT / "tests"))
    for name in MODULES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    paths = _files(args.files or args.own, args.passes)
    every = _files([], args.passes)
    mutants = [m for path in paths for m in mutants_of(path)]
    if args.again:
        mutants = again(mutants, args.again)
    mutants = [m for m in mutants if m.what.startswith(tuple(args.kinds))]
    if args.sample:
        mutants = random.Random(args.seed).sample(mutants, min(args.sample, len(mutants)))
    bench = bench_of(args, every)
    assert "surgeon" not in sys.modules, "children import it, each with its own mutant"
    met = ", ".join(f"{count} {kind}" for kind, count in Counter(u.kind for u in bench.units).items())
    print(f"{len(mutants)} mutants; run on each, until one notices it: {met}", flush=True)
    excused = read_equivalent()
    tallies = {path: Tally() for path in paths}
    judged = []
    for mutant in mutants:
        reason = excused.get((_name(mutant.path), _line(mutant), mutant.what))
        if reason is None:
            judged.append(mutant)
        else:
            tallies[mutant.path].equivalent.append((mutant, reason))
    folder = contextlib.nullcontext("") if args.passes else tempfile.TemporaryDirectory()
    with open(args.survivors or os.devnull, "w", encoding="utf-8") as out, folder as name, _types(name) as types:
        for mutant, killer, why in play(bench, judged, args.jobs):
            killer = killer or types(mutant)
            if killer:
                tallies[mutant.path].killed[killer.partition(" ")[0]] += 1
            else:
                tallies[mutant.path].survivors.append((mutant, why))
                print(survivor(mutant, why), file=out, flush=True)
            if args.verbose:
                print(f"{killer or 'SURVIVES'}: {survivor(mutant, why)}", flush=True)
    _print(tallies)
    if args.record:
        record(total(tallies.values()))


def record(found: Tally) -> None:
    """Write the survivors into the file beside this one, each with the reason that the file has for it so far."""
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    at = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    command = " ".join(["mutation.py", *(a for a in sys.argv[1:] if a not in ("--record", "--verbose"))])
    reasons: dict[tuple[str, str], str] = {}
    for block in SURVIVORS.read_text(encoding="utf-8").split("\n\n"):
        first, _, reason = block.partition("\n    ")
        reasons[first.split(":")[0], _bare(first).partition(": ")[2]] = reason.strip()
    lines = [
        f"# The mutants of a random sample that survive. {found.killed.total()} of {found.counted} were killed,",
        f"# at {at}, on {time.strftime('%Y-%m-%d')}, with {command}.",
        "# A reason, where there is one, was read from the code and not measured. --record writes this file.",
    ]
    for mutant, why in sorted(found.survivors, key=lambda f: (f[0].path, f[0].line)):
        reason = reasons.get((_name(mutant.path), mutant.what), "")
        lines += ["", survivor(mutant, why), *([f"    {reason}"] if reason else [])]
    SURVIVORS.write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _types(folder: str) -> Iterator[Callable[[Mutant], str]]:
    """A function that says what mypy has against a mutant ("types ..."), or ""; of one's own passes it says nothing."""
    if not folder:
        yield lambda mutant: ""
        return
    from mutation_types import Types

    def says(mutant: Mutant) -> str:
        again = next(m for m in mutants_of(mutant.path) if (m.line, m.what) == (mutant.line, mutant.what))
        again.apply()  # of a tree of its own
        error = types.rejects(mutant.path, again.tree)
        return f"types {error}" if error else ""

    with Types(Path(folder)) as types:
        yield says


def _print(tallies: dict[Path, Tally]) -> None:
    whole = total(tallies.values())
    print("\nThe columns after the share count what noticed a mutant. `less` is a case with something unknown.")
    print(f"{'file':44}{'mutants':>8}{'killed':>8}{'survive':>10}{'share':>8}{''.join(f'{k:>8}' for k in KILLERS)}")
    for path, tally in tallies.items():
        if tally.counted:
            print(tally.row(_name(path)))
    print(whole.row("all"))
    for title, found in (("survivors", whole.survivors), ("equivalent", whole.equivalent)):
        print(f"\n{len(found)} {title}")
        for mutant, why in sorted(found, key=lambda f: (f[0].path, f[0].line)):
            print(f"  {survivor(mutant, why)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", nargs="+", default=[], metavar="FILE", help="mutate these files alone")
    parser.add_argument(
        "--own", nargs="+", default=[], metavar="FILE", help="mutate these passes; their own cases alone"
    )
    parser.add_argument("--passes", type=Path, metavar="FOLDER", help="passes of your own instead of surgeon's")
    parser.add_argument("--cases", type=Path, metavar="FOLDER", default=ROOT / "tests" / "cases")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants, chosen at random")
    parser.add_argument("--kinds", nargs="+", default=[""], metavar="WORD", help="changes that begin so: element")
    parser.add_argument("--again", type=Path, metavar="FILE", help="the mutants alone that a file of --survivors lists")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", type=float, default=20.0, metavar="SECONDS", help="for the tests; 0: none")
    parser.add_argument("--of", nargs="+", default=[], metavar="FILE", help="the tests of these files alone")
    parser.add_argument("--no-corpus", action="store_true", help="no models: they find one in 240, and take longest")
    parser.add_argument("--store", type=Path, metavar="FILE", help="keeps the lines that each test runs")
    parser.add_argument("--survivors", metavar="FILE", help="write the survivors here as they are found")
    parser.add_argument("--record", action="store_true", help=f"write the survivors into {SURVIVORS.name}, too")
    parser.add_argument("--verbose", action="store_true", help="print every mutant")
    return parser.parse_args()


if __name__ == "__main__":
    main()
