"""Draw windows of every rule, change one thing, rewrite them, and look for wrong, invalid and changed models.

    python benchmarks/fuzz.py --seconds 600             seeds from 0 on, as many as fit
    python benchmarks/fuzz.py --seeds 5000:6000         those seeds
    python benchmarks/fuzz.py --jobs 16 --out found     the same in 16 processes; every line goes to found/ as well
    python benchmarks/fuzz.py --fp16                    converts each to fp16, on two samples of normal numbers
    python benchmarks/fuzz.py --models FOLDER           parts of the models there, with something odd (`splices`)

A seed is one model: a window that the pattern of a rule describes (`windows`), with an operator, a
number, an attribute or a reader changed in half of them. It is rewritten with every pass, for one of several targets,
without the proof, or for every fourth seed with it. What comes out must

1. give what the model gave (`surgeon.proof.whole`), in floating point to rounding (`RoundingJudge`),
2. load in ONNX Runtime where the model did,
3. be the same to the byte when it is rewritten again,

and nothing may end with a traceback, a dead process or without an end. A line of JSON is printed for each seed that
breaks one of these, and a summary last.

A model that was converted to fp16 must load where the original does, have no NaN where it has none, on a third sample
within the range of the two, and be the same to the byte when it is converted again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.inliner import inline_local_functions
from splices import spliced
from windows import Undrawable, draw

import surgeon
from surgeon.errors import SurgeonError
from surgeon.ir.protos import given_inputs, returning
from surgeon.ir.run import Reference, Runner, Unrunnable, load_error
from surgeon.proof.equality import TIMES_THE_ORIGINAL, Difference
from surgeon.proof.exact import rounding_of
from surgeon.proof.feeds import Feeds
from surgeon.proof.judge import Judge, JudgedRun, Verdict
from surgeon.proof.sizes import choices
from surgeon.proof.whole import prove_models, whole_pair
from surgeon.report import LIKELY_INVALID
from surgeon.rules.meaning import with_functions
from surgeon.rules.registry import passes

RULES = [rule for p in passes() for rule in p.rules]
TARGETS = ("7.1", "8.4", "8.6", "10.9", "11.0", "rtx")
SWAPPED = [
    ("Add", "Sub"), ("Mul", "Div"), ("Max", "Min"), ("Relu", "Abs"), ("Sigmoid", "Tanh"), ("Greater", "Less"),
    ("ReduceMean", "ReduceSum"), ("Exp", "Neg"), ("GreaterOrEqual", "LessOrEqual"), ("Sqrt", "Reciprocal"),
]  # fmt: skip
SKIPPED, RIGHT, ROUNDED, REFUSED = "skipped", "right", "rounded", "refused"
WRONG, INVALID, CHANGED, ENDED = "wrong", "invalid", "changed again", "traceback"
DIED, HUNG = "died", "hung"  # the process that had the seed
GOOD = (SKIPPED, RIGHT, ROUNDED)
# What NumPy says of nodes that have no result by their definition.
NO_MEANING = ("dimensions except for the concatenation axis must match", "can't extend empty axis")
UNDEFINED = 0.1  # of the largest number: what the original moves by where it has no meaning
SAME = 1e-6  # of the largest number: so far apart two sides may be in a wider type
MEMORY = 6 << 30  # bytes of addresses that a process may have


class Judged(NamedTuple):
    """What became of a seed's model."""

    seed: int
    outcome: str
    why: str = ""
    target: str = ""
    verify: str = ""


def model_of(seed: int) -> ModelProto:
    """The model of a seed. Raises Undrawable where it draws none that ONNX Runtime loads."""
    chance = random.Random(seed)
    try:
        proto = draw(chance.choice(RULES), seed)
    except (Undrawable, ValueError, TypeError):
        raise Undrawable("no model is drawn") from None
    try:
        if chance.random() < 0.5:
            _change(proto, chance)
    except Exception:  # onnx's shape inference ends over a model that is none
        raise Undrawable("ONNX Runtime does not load what is drawn") from None
    if load_error(proto):
        raise Undrawable("ONNX Runtime does not load what is drawn")
    return proto


def _change(proto: ModelProto, chance: random.Random) -> None:
    """Change one thing: an operator, a number, or who reads an inner tensor."""
    kind, graph = chance.randrange(3), proto.graph
    node = chance.choice(graph.node)
    if kind == 0:
        others = {**dict(SWAPPED), **{b: a for a, b in SWAPPED}}
        node.op_type = others.get(node.op_type, node.op_type)
    elif kind == 1 and graph.initializer:
        tensor = chance.choice(graph.initializer)
        array = numpy_helper.to_array(tensor)
        factor = chance.choice((-1, 2, 0, 1.5) if array.dtype.kind == "f" else (-1, 2, 0))
        shaped = (array * factor).astype(array.dtype).reshape(chance.choice((array.shape, (1, *array.shape))))
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(shaped), tensor.name))
    elif kind == 2 and node.output[0] != "y":
        known = onnx.shape_inference.infer_shapes(with_functions(proto)).graph.value_info
        graph.output.extend(i for i in known if i.name == node.output[0] and i.HasField("type"))


def judge(seed: int, make: Callable[[int], ModelProto] = model_of) -> Judged:
    """What becomes of a seed's model."""
    try:
        proto = make(seed)
    except Undrawable as error:
        return Judged(seed, SKIPPED, str(error))
    target = TARGETS[seed % len(TARGETS)]
    verify = "window" if seed // len(TARGETS) % 4 == 0 else "none"  # so that every process has its share of them
    try:
        outcome, why = _rewritten(proto, target, verify)
    except MemoryError:  # of the comparison of the whole models, at sizes that go together
        return Judged(seed, SKIPPED, "it takes more memory than a process has")
    return Judged(seed, outcome, why, target, verify)


Judging = Callable[[int], Judged]


def _rewritten(proto: ModelProto, target: str, verify: str) -> tuple[str, str]:
    try:
        first = surgeon.rewrite(proto, target=target, verify=verify, cache=False)
        again = surgeon.rewrite(first.model, target=target, verify=verify, cache=False)
    except SurgeonError as error:
        return REFUSED, str(error)
    except Exception:
        return ENDED, traceback.format_exc(limit=-3)
    for declined in (*first.report.declined, *first.report.unknown):
        if declined.why.startswith(LIKELY_INVALID):
            return ENDED, f"{declined.pass_name}: {declined.why}"
    if _bytes(again.model) != _bytes(first.model):
        return CHANGED, str([a.pass_name for a in again.report.applied])
    if _bytes(first.model) == _bytes(proto):
        return RIGHT, ""
    applied = [a.pass_name for a in first.report.applied]
    why = load_error(with_functions(first.model))
    if why and prove_models(proto, proto).ok is None:
        return SKIPPED, "ONNX Runtime loads what is drawn, and does not run it"
    if why:
        return INVALID, f"{applied}: {why}"
    verdict = prove_models(proto, first.model, own_rounding=True)
    if verdict.ok is None:
        return SKIPPED, "the whole model cannot be proved"
    if verdict.ok:
        return RIGHT, ""
    return ROUNDED if _only_rounds(proto, first.model) else WRONG, f"{applied}: {verdict.why}"


class RoundingJudge(Judge):
    """A judge for whom what rounding explains is no difference.

    It explains a difference where both sides, as ONNX defines them, are equal in a wider type, and the original moves
    as far where the result of each of its operators moves by a few steps of its type: rows of one number through an
    InstanceNormalization, and those through the next one. A NaN is explained where the original has one by definition.
    """

    def _tried(self, kind: str, feeds: Feeds, expected: list[np.ndarray]) -> Verdict | None:
        verdict = super()._tried(kind, feeds, expected)
        return None if verdict is not None and not verdict.ok and self._has_no_meaning(feeds) else verdict

    def _has_no_meaning(self, feeds: Feeds) -> bool:
        """Whether ONNX gives the original no result: ONNX Runtime's Concat takes a size of 0 beside one of 2, and
        leaves rows unwritten; its Pad reflects what is empty, and an axis by its own size."""
        try:
            if _reflects_too_far(self.pair.before, feeds):
                return True
            Reference(self.pair.before, self.pair.folder).run(feeds)
        except Unrunnable as error:
            return any(words in str(error) for words in NO_MEANING)
        return False

    def difference(self, trial: JudgedRun, index: int) -> Difference:
        """As of `Judge`, none where rounding explains it."""
        found = super().difference(trial, index)
        excused = found.why and (self._is_undefined(trial, index) or self._is_rounding(trial, index))
        return Difference(found.error) if excused else found

    def _is_undefined(self, trial: JudgedRun, index: int) -> bool:
        """Whether ONNX Runtime's own optimizations make something else of the original."""
        try:
            moved, expected = (x[index] for x in (self._optimized.run(trial.feeds), trial.expected))
        except Unrunnable:
            return False
        if expected.dtype.kind != "f" or moved.shape != expected.shape:
            return False
        numbers = np.isfinite(expected)
        with np.errstate(all="ignore"):
            far = np.abs(moved.astype(np.float64) - expected) > UNDEFINED * np.abs(expected[numbers]).max(initial=0.0)
        return bool((numbers & (far | ~np.isfinite(moved))).any())

    def _is_rounding(self, trial: JudgedRun, index: int) -> bool:
        given, expected = (x[index].astype(np.float64) for x in (trial.results, trial.expected))
        after, before = trial.exact_after.defined(index), trial.exact.defined(index)
        if after is None or before is None or not after.shape == before.shape == given.shape == expected.shape:
            return False
        largest = np.abs(before[np.isfinite(before)]).max(initial=0.0)
        if not np.allclose(after, before, rtol=0.0, atol=SAME * largest, equal_nan=True):
            return False
        try:
            reference = Reference(self.pair.before, self.pair.folder)
            own, moves = reference.run(trial.feeds)[index], rounding_of(reference, trial.feeds)[index]
        except Unrunnable:
            return False
        numbers = np.isfinite(given) & np.isfinite(expected)
        gap = np.abs(given - expected)[numbers].max(initial=0.0)
        is_known = numbers | ~np.isfinite(own) | ~np.isfinite(expected)
        return bool(is_known.all() and gap <= TIMES_THE_ORIGINAL * moves.max(initial=0.0))


def _reflects_too_far(model: ModelProto, feeds: Feeds) -> bool:
    """Whether a Pad reflects an axis by its size or more, which ONNX forbids. Raises Unrunnable."""
    whole = inline_local_functions(model)
    pads = [n for n in whole.graph.node if n.op_type == "Pad" and "reflect" in _modes(n)]
    read = dict.fromkeys(i for n in pads for i in (n.input[0], *n.input[1:2], *n.input[3:4]) if i)
    found = dict(zip(read, Reference(returning(whole, read)).run(feeds), strict=True)) if read else {}
    for node in pads:
        sizes = np.asarray(found[node.input[0]].shape)
        given = [found[node.input[1]]] if len(node.input) > 1 else [a.ints for a in node.attribute if a.name == "pads"]
        if len(node.input) > 3 and node.input[3]:
            sizes = sizes[found[node.input[3]]]
        if (np.reshape(given[0], (2, -1)).max(0, initial=0) >= np.maximum(sizes, 1)).any():
            return True
    return False


def _modes(node: NodeProto) -> list[str]:
    return [a.s.decode() for a in node.attribute if a.name == "mode"]


def _only_rounds(before: ModelProto, after: ModelProto) -> bool:
    """Whether two models that differ do so by what rounding explains."""
    pair = whole_pair(before, with_functions(after))
    sizes = choices(pair.inputs, pair.before, images=True)
    verdicts = (RoundingJudge(pair, own_rounding=True).verdict(c, ()) for c in sizes)
    return next((v.ok is True for v in verdicts if not v.unsized), False)


def judge_fp16(seed: int) -> Judged:
    """What becomes of a seed's model in fp16."""
    target = TARGETS[seed % len(TARGETS)]
    try:
        proto = model_of(seed)
        feeds, third = _samples(proto, seed)
        wanted = [np.isnan(a).any() for a in Runner(proto).run(third) if a.dtype.kind == "f"]
    except (Undrawable, Unrunnable, MemoryError) as error:
        return Judged(seed, SKIPPED, str(error)[:60])
    try:
        outcome, why = _converted(proto, target, feeds, third, wanted)
    except MemoryError:
        return Judged(seed, SKIPPED, "it takes more memory than a process has")
    return Judged(seed, outcome, why, target, "none")


def _samples(proto: ModelProto, seed: int) -> tuple[list[Feeds], Feeds]:
    """Two samples of a model's inputs, and a third within their range; symbolic sizes are 4."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(3):
        feeds: Feeds = {}
        for given in given_inputs(proto):
            kind = given.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else 4 for d in kind.shape.dim]
            dtype = tensor_dtype_to_np_dtype(kind.elem_type)
            drawn = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
            feeds[given.name] = drawn.astype(dtype)
        found.append(feeds)
    *two, third = found
    return two, {n: np.clip(a, min(s[n].min() for s in two), max(s[n].max() for s in two)) for n, a in third.items()}


def _converted(
    proto: ModelProto, target: str, feeds: list[Feeds], third: Feeds, wanted: list[np.bool_]
) -> tuple[str, str]:
    options: dict[str, Any] = {"target": target, "verify": "none", "fp16": True, "data": feeds, "cache": False}
    try:
        first = surgeon.rewrite(proto, **options)
        again = surgeon.rewrite(first.model, **options)
    except SurgeonError as error:
        return REFUSED, str(error)
    except Exception:
        return ENDED, traceback.format_exc(limit=-3)
    if first.precision is None or first.precision.failed:
        return RIGHT, ""
    if _bytes(again.model) != _bytes(first.model):
        return CHANGED, ""
    runnable = with_functions(first.model)
    why = load_error(runnable)
    if why:
        return INVALID, why
    found = [np.isnan(a).any() for a in Runner(runnable).run(third) if a.dtype.kind == "f"]
    return (WRONG, "NaN") if any(nan and not was for nan, was in zip(found, wanted, strict=True)) else (RIGHT, "")


def _bytes(proto: ModelProto) -> bytes:
    return proto.SerializeToString(deterministic=True)


def in_processes(
    seeds: range, jobs: int, until: float, judge: Judging = judge, patience: float = 120.0
) -> Iterator[Judged]:
    """Every seed judged, each process with every `jobs`th, up to a time of `time.time`.

    A process that dies, or has a seed for longer than `patience` seconds, is replaced after that seed.
    """
    workers = [_Worker(seeds[k::jobs], until, judge, patience) for k in range(min(jobs, len(seeds)))]
    while workers:
        wait([w.results for w in workers], timeout=1.0)
        for worker in list(workers):
            yield from worker.judged()
            if worker.finished:
                workers.remove(worker)


class _Worker:
    """A process that judges seeds one after the other."""

    def __init__(self, seeds: range, until: float, judge: Judging, patience: float) -> None:
        self.seeds, self.until, self.judge, self.patience, self.finished = seeds, until, judge, patience, False
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")  # nothing runs here yet, and what is imported is there
        self.results, there = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(self.seeds, self.until, self.judge, there), daemon=True)
        self.process.start()
        there.close()
        self.heard = time.monotonic()

    def judged(self) -> Iterator[Judged]:
        """What it has said since it was asked last; and of its seed, if that ended or stopped it."""
        try:
            while self.results.poll():
                told, self.heard = self.results.recv(), time.monotonic()
                if told is None:
                    self.finished = True
                    return
                self.seeds = self.seeds[1:]
                yield told
        except EOFError:
            self.process.join()
            yield from self._passed_over(DIED, f"the process ended with code {self.process.exitcode}")
        if not self.finished and time.monotonic() - self.heard > self.patience:
            self.process.kill()
            self.process.join()
            yield from self._passed_over(HUNG, f"no answer in {self.patience:g} s")

    def _passed_over(self, outcome: str, why: str) -> Iterator[Judged]:
        yield Judged(self.seeds[0], outcome, why)
        self.seeds = self.seeds[1:]
        self.finished = not self.seeds
        if not self.finished:
            self._start()


def _work(seeds: range, until: float, judge: Judging, results: Connection) -> None:
    """Judge seeds until there are none, or the time is over."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    allowed = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)  # a shell may have set less
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    for seed in itertools.takewhile(lambda _: time.time() < until, seeds):
        results.send(judge(seed))
    results.send(None)


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--seconds", type=float, default=600.0)
    cli.add_argument("--seeds", default="0:1000000000", help="FIRST:LAST, without the last")
    cli.add_argument("--jobs", type=int, default=1)
    cli.add_argument("--fp16", action="store_true")
    cli.add_argument("--models", type=Path, help="a folder of models, parts of which are taken")
    cli.add_argument("--out", type=Path, help="a folder for what is printed")
    args = cli.parse_args()
    seeds = range(*map(int, args.seeds.split(":")))
    to: list[TextIO] = [sys.stdout]
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        to.append((args.out / "fuzz.jsonl").open("w"))
    started, counts = time.time(), Counter[tuple[str, str, str]]()
    judging: Judging = judge_fp16 if args.fp16 else judge
    if args.models:
        judging = partial(judge, make=partial(spliced, sorted(args.models.rglob("*.onnx"))))
    for judged in in_processes(seeds, args.jobs, started + args.seconds, judging):
        counts[judged.outcome, judged.verify, judged.why if judged.outcome == SKIPPED else ""] += 1
        if judged.outcome not in GOOD:
            _say(judged._asdict(), to)
    _say(_summary(counts, seeds.start, time.time() - started), to)


def _summary(counts: Counter[tuple[str, str, str]], first: int, seconds: float) -> dict[str, object]:
    """How many seeds came to what, with the proof and without."""
    without, proved, skipped = Counter[str](), Counter[str](), Counter[str]()
    for (outcome, verify, why), n in counts.items():
        if outcome == SKIPPED:
            skipped[why] += n
        else:
            (proved if verify == "window" else without)[outcome] += n
    judged = without.total() + proved.total()
    return {
        "judged": judged,
        "without the proof": dict(without),
        "with the proof": dict(proved),
        "skipped": dict(skipped),
        "seeds": f"{first} and {counts.total() - 1} more",
        "seconds": round(seconds),
    }


def _say(line: dict[str, object], to: list[TextIO]) -> None:
    for file in to:
        print(json.dumps(line), file=file, flush=True)


if __name__ == "__main__":
    main()
