"""What TensorRT-RTX runs of models before and after `surgeon rewrite --target rtx`: kernels, and the bytes they move.

    python benchmarks/plans.py [FILE|FOLDER ...] [--spelled] [--blame] [--keep FILE]

Default: tests/corpus and samples. `--spelled` takes the models of spelled.py too. Needs no GPU: TensorRT-RTX writes the
program of an engine into the engine, as text that is not documented: `surgeon.trt.program` reads it. Both engines of a
model are built with one shape an input. `--blame` runs each model that is worse again without each pass that took
part, and says which make the difference. `--keep` keeps the plans of models in a file for the next run.

Worse is more kernels without fewer bytes, or more than 2 % and 1 kB more bytes. Exit status 1 where a model is worse.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import onnx
import tensorrt_rtx as trt
from corpus_rtx import engine_of

import surgeon
from surgeon.errors import SurgeonError
from surgeon.trt.program import engine_of as read_engine

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = (ROOT / "tests" / "corpus", ROOT / "samples")
SIZES = ((2, 2), (1, 64), (1, 224), (1, 1))  # (batch, any other size) for symbolic sizes: the first that is built
MARGIN, LEAST = 0.02, 1000  # bytes more that count: of the bytes before, and at least so many


class Plan(NamedTuple):
    """What an engine runs.

    kernels   how many kernels
    copies    those of them that only move elements or change their type
    bytes     what the kernels read and write
    unread    tensors of symbolic sizes: they count for no bytes
    """

    kernels: int
    copies: int
    bytes: int
    unread: int


def plan_of(engine: bytes) -> Plan:
    """The plan of an engine, which has one program here."""
    (program,) = read_engine(engine).programs
    return Plan(len(program.kernels), program.copies, program.bytes, program.uncounted)


def worse(before: Plan, after: Plan) -> bool:
    """Whether the second plan has more kernels without fewer bytes, or clearly more bytes."""
    more = after.bytes - before.bytes
    return (after.kernels > before.kernels and more >= 0) or (more > LEAST and more > MARGIN * before.bytes)


class Plans:
    """Plans of models by their bytes and sizes, in a file if there is one."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.found: dict[str, list[int] | None] = {}
        if path is not None and path.exists():
            self.found = json.loads(path.read_text())

    def of(self, model: bytes, size: tuple[int, int]) -> Plan | None:
        """The plan of a model; None where TensorRT-RTX does not build it."""
        key = f"{trt.__version__} {size} {hashlib.sha256(model).hexdigest()}"
        if key not in self.found:
            engine = engine_of(model, *size).engine
            self.found[key] = None if engine is None else list(plan_of(engine))
        found = self.found[key]
        return None if found is None else Plan(*found)

    def first(self, model: bytes) -> tuple[Plan | None, tuple[int, int]]:
        """The plan with the first of SIZES for which the model is built."""
        for size in SIZES:
            plan = self.of(model, size)
            if plan is not None:
                return plan, size
        return None, SIZES[0]

    def save(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps(self.found))


class Row(NamedTuple):
    """One model: what is there is what `compared` found."""

    name: str
    verdict: str
    before: Plan | None = None
    after: Plan | None = None
    passes: tuple[str, ...] = ()


def compared(name: str, model: onnx.ModelProto, plans: Plans, blame: bool = False) -> Row:
    """A model before and after: "better", "same", "worse", "lost", "not built" or "not rewritten"."""
    data = model.SerializeToString()
    before, size = plans.first(data)
    if before is None:
        return Row(name, "not built")
    result = _rewritten(model)
    passes = tuple(dict.fromkeys(p for a in result.report.applied for p in a.pass_name.split("+")))
    if not passes:
        return Row(name, "not rewritten", before)
    after = plans.of(result.model.SerializeToString(), size)
    if after is None:
        return Row(name, "lost", before, None, passes)
    if not worse(before, after):
        return Row(name, "better" if worse(after, before) else "same", before, after, passes)
    if blame:
        without = {p: plans.of(_rewritten(model, [p]).model.SerializeToString(), size) for p in passes}
        at_fault = tuple(p for p, plan in without.items() if plan is not None and not worse(before, plan))
        passes = at_fault or passes
    return Row(name, "worse", before, after, passes)


def _rewritten(model: onnx.ModelProto, skip: Iterable[str] = ()) -> surgeon.Result:
    return surgeon.rewrite(model, target="rtx", verify="none", skip=list(skip))


def models(paths: Iterable[Path]) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The models of files and folders, with a name for each."""
    for path in paths:
        for file in sorted(path.rglob("*.onnx")) if path.is_dir() else [path]:
            yield file.stem, onnx.load(file)


def main() -> int:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("paths", nargs="*", type=Path)
    cli.add_argument("--spelled", action="store_true", help="the models of spelled.py too")
    cli.add_argument("--blame", action="store_true", help="say which passes make a model worse")
    cli.add_argument("--keep", type=Path, help="a file for the plans")
    args = cli.parse_args()
    found: list[Row] = []
    started, plans = time.perf_counter(), Plans(args.keep)
    every = models(args.paths or ([] if args.spelled else DEFAULT))
    if args.spelled:
        import spelled

        every = (pair for part in (every, spelled.models()) for pair in part)
    for name, model in every:
        try:
            row = compared(name, model, plans, args.blame)
        except SurgeonError as e:
            row = Row(name, f"refused: {type(e).__name__}")
        found.append(row)
        if row.verdict in ("better", "worse", "lost"):
            print(f"{row.verdict:7}{name}: {_shown(row.before)} -> {_shown(row.after)}, {', '.join(row.passes)}")
    plans.save()
    counts = Counter(row.verdict for row in found)
    print(f"TensorRT-RTX {trt.__version__}, {len(found)} models, {time.perf_counter() - started:.0f} s")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    return 1 if counts["worse"] or counts["lost"] else 0


def _shown(plan: Plan | None) -> str:
    if plan is None:
        return "not built"
    return f"{plan.kernels} kernels, {plan.copies} of them copies, {plan.bytes / 1000:.1f} kB"


if __name__ == "__main__":
    sys.exit(main())
