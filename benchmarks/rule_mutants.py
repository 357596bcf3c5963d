"""Does the proof keep a rule that is wrong? Rules of the passes, each with one mistake, and an independent judge.

    python benchmarks/rule_mutants.py [--sample 240 --seed 20261124] [--jobs 2] [--store FILE] [--verbose]

A mutant is one file of passes/ with one small mistake in a rule, of one of these kinds:

operator   another operator in a replacement, or in a pattern
dropped    an operator of a replacement left out: what it reads is there instead
operands   two operands swapped, the last one left out
attribute  an attribute left out
number     an integer raised by one, another one doubled or a thousandth larger, its sign turned
guard      a `require`, `no_match`, a guard or a part of a condition dropped, a comparison's boundary moved

Three are drawn from each file with a rule of CLEAN or FUSE, the others from all files; each from a kind drawn first.

Each mutant runs in a child of this process on the case files and the near misses that run its lines, without proof.
Where its result is another one than without the mistake, original and result run on inputs that are drawn here, in
ONNX Runtime or in onnx's reference evaluator, and are compared as `Differ` says, which knows nothing of surgeon's own
judge. Where these differ, the model is rewritten with the proof, and that result is compared with the original:

proof        no wrong result was left: each of them was undone or declined
error        surgeon ended with an error of a pass in place of a result
harmless     the results are others, and none is wrong; or they are the same
SURVIVES     a wrong result was left

What differs in the same way without the mistake is a difference of runtimes or of rounding, and counts as none.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mutation
import numpy as np
from mutation import ROOT, Bench, Mutant, Store, Unit, in_children, measure, mutants_of, users_of

MOST_PROVED = 12  # models of one mutant that are wrong without the proof
LIMIT = 180.0  # seconds of computing for a mutant
CASES = ROOT / "tests" / "cases"

# ---- mistakes in a rule ----------------------------------------------------------------------------------------------

OTHERS = {
    "Abs": "Neg", "Add": "Sub", "And": "Or", "ArgMax": "ArgMin", "Ceil": "Floor", "Clip": "Relu", "Concat": "Sum",
    "Cos": "Sin", "Div": "Mul", "Equal": "GreaterOrEqual", "Erf": "Tanh", "Exp": "Softplus", "Expand": "Tile",
    "Flatten": "Relu", "Floor": "Round", "Gather": "GatherElements", "GreaterOrEqual": "Greater", "Greater": "Less",
    "HardSigmoid": "Sigmoid", "HardSwish": "Relu", "Less": "LessOrEqual", "LessOrEqual": "Less", "Log": "Sqrt",
    "MatMul": "Mul", "Max": "Min", "MaxPool": "AveragePool", "Min": "Max", "Mod": "Div", "Mul": "Add", "Neg": "Abs",
    "Not": "Identity", "Or": "And", "Pow": "Mul", "PRelu": "Mul", "Range": "Max", "Reciprocal": "Neg",
    "ReduceL1": "ReduceSum", "ReduceL2": "ReduceSum", "ReduceMax": "ReduceMin", "ReduceMean": "ReduceSum",
    "ReduceMin": "ReduceMax", "ReduceProd": "ReduceSum", "ReduceSum": "ReduceMean", "ReduceSumSquare": "ReduceSum",
    "Relu": "Abs", "Reshape": "Expand", "Round": "Floor", "Sigmoid": "HardSigmoid", "Sign": "Tanh", "Sin": "Cos",
    "Softmax": "LogSoftmax", "Softplus": "Relu", "Sqrt": "Abs", "Sub": "Add", "Tanh": "Sigmoid", "Tile": "Expand",
    "Transpose": "Identity", "Where": "Where", "Xor": "Or", "SpaceToDepth": "DepthToSpace",
    "LayerNormalization": "Softmax", "DequantizeLinear": "QuantizeLinear", "QuantizeLinear": "DequantizeLinear",
}  # fmt: skip
BUILDERS = ("b", "f")  # what the bodies of rules, and those of meanings, build with


def _is_operator(node: ast.AST, *of: str) -> bool:
    """Whether a call makes a node (`b.Add(x, y)`) or matches one (`op.Add(x, y)`)."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    return isinstance(owner, ast.Name) and owner.id in of and node.func.attr[:1].isupper()


def _call(node: ast.Call) -> Iterator[tuple[Any, str]]:
    if not _is_operator(node, *BUILDERS, "op"):
        for new, words in mutation.CHANGES[ast.Call](node):
            yield new, f"guard: {words}"
        return
    assert isinstance(node.func, ast.Attribute)
    name, text = node.func.attr, mutation._text(node)
    if name in OTHERS and OTHERS[name] != name:
        func = mutation._copy(node.func, attr=OTHERS[name])
        yield mutation._copy(node, func=func), f"operator: {text}: {name} -> {OTHERS[name]}"
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    if len(node.args) > 1 and not starred:
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield mutation._copy(node, args=swapped), f"operands: {text}: the first two swapped"
        yield mutation._copy(node, args=node.args[:-1]), f"operands: {text}: without the last one"
    if _is_operator(node, *BUILDERS) and node.args and not starred:
        yield node.args[0], f"dropped: {text}: its first operand"
    for keyword in node.keywords:
        if keyword.arg not in (None, "outputs", "count"):
            rest = [k for k in node.keywords if k is not keyword]
            yield mutation._copy(node, keywords=rest), f"attribute: {text}: without {keyword.arg}"


def _number(node: ast.Constant) -> Iterator[tuple[Any, str]]:
    value = node.value
    if isinstance(value, bool | str | bytes | None) or value is Ellipsis:
        return
    others = [value + 1, -value] if isinstance(value, int) else [2 * value, value * 1.001, -value]
    for other in dict.fromkeys(o for o in others if o != value):
        yield ast.Constant(other), f"number: {value} -> {other}"


def _guard(kind: type[ast.AST]) -> Callable[[Any], Iterator[tuple[Any, str]]]:
    """The mistakes of a kind that benchmarks/mutation.py makes, which are guards here."""

    def change(node: Any) -> Iterator[tuple[Any, str]]:
        for new, words in mutation.CHANGES[kind](node):
            yield new, f"guard: {words}"

    return change


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[Any, str]]:
    if not isinstance(node.op, ast.BitOr):
        for new, words in mutation.CHANGES[ast.BinOp](node):
            yield new, f"number: {words}"


CHANGES: mutation.Changes = {
    **{kind: _guard(kind) for kind in (ast.Expr, ast.If, ast.Compare, ast.BoolOp, ast.UnaryOp)},
    ast.Call: _call,
    ast.Constant: _number,
    ast.BinOp: _arithmetic,
}
KINDS = ("operator", "dropped", "operands", "attribute", "number", "guard")


def kind_of(mutant: Mutant) -> str:
    return mutant.what.partition(":")[0]


def drawn(paths: list[Path], count: int, seed: int) -> list[Mutant]:
    """Three mutants of each file with a rule of CLEAN or FUSE, and others of all files; kinds are drawn first."""
    rng = random.Random(seed)
    left = {path: mutants_of(path, CHANGES) for path in paths}
    early = [p for p in paths if any(s in p.read_text(encoding="utf-8") for s in ("Stage.CLEAN", "Stage.FUSE"))]
    found: list[Mutant] = []

    def draw(path: Path) -> None:
        kinds = sorted({kind_of(m) for m in left[path]})
        if kinds:
            kind = rng.choice(kinds)
            mutant = rng.choice([m for m in left[path] if kind_of(m) == kind])
            left[path].remove(mutant)
            found.append(mutant)

    for path in early * 3:
        draw(path)
    while len(found) < count and any(left.values()):
        draw(rng.choices(paths, [len(left[p]) for p in paths])[0])
    return found


# ---- whether two models differ ---------------------------------------------------------------------------------------

KINDS_OF_INPUT = ("normal", "halves", "dense", "wide", "tiny", "positive", "named", "inf", "nan")
SIZES = ((2, 3, 5, 7, 4, 6), (4, 4, 4, 4, 4, 4), (1, 1, 1, 1, 1, 1), (3, 16, 17, 9, 8, 2), (8, 32, 32, 16, 24, 8))
TOLERANCE = {"float16": 1e-2, "bfloat16": 4e-2}
USUAL = 1e-4
INTEGERS = {"normal": (0, 4), "halves": (-5, 6), "dense": (-130, 260), "positive": (0, 2), "tiny": (0, 3)}


class Differ:
    """Compares one model with others on inputs drawn here.

    Two numbers are equal where they are within 1e-4 of the larger of themselves and the output's largest (1e-2 in half
    precision). Where the original has no number, anything may be. All else must be the same.
    """

    def __init__(self, original: Any) -> None:
        self.original = original
        self.run = _runner(original)
        self.feeds: list[tuple[str, dict[str, np.ndarray], list[Any]]] = []
        if self.run is not None:
            for sizes in SIZES:
                self._add(sizes)

    @property
    def tells(self) -> bool:
        """Whether the original runs on anything, twice in the same way."""
        again = _runner(self.original)
        return bool(self.feeds) and again is not None and not _difference(again(self.feeds[0][1]), self.feeds[0][2])

    def _add(self, sizes: tuple[int, ...]) -> None:
        for kind in KINDS_OF_INPUT:
            feeds = _feeds(self.original, kind, sizes)
            with contextlib.suppress(Exception):
                assert self.run is not None
                self.feeds.append((f"{kind} {sizes}", feeds, self.run(feeds)))

    def differences(self, other: Any) -> dict[str, str]:
        """{kind of input: how the other model differs on it}"""
        run = _runner(other)
        if run is None:
            return {"load": "it does not load"}
        found = {}
        for kind, feeds, expected in self.feeds:
            try:
                why = _difference(run(feeds), expected)
            except Exception as error:
                why = f"it does not run: {str(error)[:80]}"
            if why:
                found[kind] = why
        return found


def _runner(model: Any) -> Callable[[dict[str, np.ndarray]], list[Any]] | None:
    """What runs a model: ONNX Runtime without optimisations, else onnx's reference evaluator; None where neither."""
    import onnxruntime as ort
    from onnx.reference import ReferenceEvaluator

    from surgeon.rules.meaning import with_functions

    model = with_functions(model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda feeds: list(session.run(None, feeds))
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            return None
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception:
        return None
    return lambda feeds: list(evaluator.run(None, feeds))


def _feeds(model: Any, kind: str, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    weights = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    rng = np.random.default_rng(len(inputs) + sum(map(ord, kind)))
    named: dict[str, int] = {}
    found = {}
    for info in inputs:
        dims = info.type.tensor_type.shape.dim
        names = [d.dim_param or ("" if d.HasField("dim_value") else f"#{len(dims) - k}") for k, d in enumerate(dims)]
        for name in filter(None, names):
            named.setdefault(name, sizes[len(named) % len(sizes)])
        shape = tuple(named[n] if n else d.dim_value for n, d in zip(names, dims, strict=True))
        found[info.name] = _array(model, kind, info.type.tensor_type.elem_type, shape, rng)
    return found


def _array(model: Any, kind: str, elem: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    from onnx import TensorProto, helper

    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(elem))
    if elem == TensorProto.STRING:
        return np.asarray(rng.choice(["", "a", "B", "ab", "7"], shape), object)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = INTEGERS.get(kind, (info.min, info.max))
        return rng.integers(max(low, int(info.min)), min(high, int(info.max)), shape).astype(dtype)
    return np.asarray(_floats(model, kind, shape, rng)).astype(dtype)


def _floats(model: Any, kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    normal = rng.standard_normal(shape)
    if kind == "halves":
        return rng.integers(-12, 13, shape) / 2
    if kind == "dense":
        return rng.uniform(-12, 12, shape)
    if kind == "wide":
        return np.exp(rng.uniform(-14, 9, shape)) * np.sign(normal)
    if kind == "tiny":
        return normal * 3e-3
    if kind == "positive":
        return np.abs(normal)
    if kind == "named":
        return rng.choice(_named(model), shape) * rng.choice([1.0, -1.0, 1.01, 0.99], shape)
    if kind in ("inf", "nan"):
        values = (np.inf, -np.inf) if kind == "inf" else (np.nan,)
        return np.where(rng.random(shape) < 0.05, rng.choice(values, shape), normal)
    return normal


def _named(model: Any) -> list[float]:
    """The numbers that a model has as constants."""
    from onnx import numpy_helper

    tensors = [*model.graph.initializer, *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t"))]
    arrays = [numpy_helper.to_array(t) for t in tensors if math.prod(t.dims) <= 16]
    numbers = [float(x) for a in arrays if a.dtype.kind in "iuf" for x in a.reshape(-1) if abs(float(x)) < 1e4]
    attributes = [a.f for n in model.graph.node for a in n.attribute if a.f and abs(a.f) < 1e4]
    return [*numbers, *attributes] or [1.0]


def _difference(results: list[Any], expected: list[Any]) -> str:
    for a, b in zip(results, expected, strict=True):
        if isinstance(b, list):
            if not isinstance(a, list) or len(a) != len(b):
                return "another sequence"
            why = _difference(a, b)
        elif b is None or a is None:
            why = "" if a is b else "something where nothing was"
        else:
            why = _of_arrays(np.asarray(a), np.asarray(b))
        if why:
            return why
    return ""


def _of_arrays(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
    if b.dtype.kind != "f" and b.dtype.name != "bfloat16":
        return "" if np.array_equal(a, b) else "other integers"
    tolerance = TOLERANCE.get(b.dtype.name, USUAL)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    counted = np.isfinite(wide_b)
    if not counted.any():
        return ""
    if not np.isfinite(wide_a[counted]).all():
        return "no number where one was"
    gap, scale = np.abs(wide_a - wide_b)[counted], np.abs(wide_b[counted])
    bad = gap > tolerance * np.maximum(scale, scale.max()) + 1e-30
    return f"it differs by {gap.max():.3g} of {scale.max():.3g}" if bad.any() else ""


# ---- what meets a mutant ---------------------------------------------------------------------------------------------


class Met(NamedTuple):
    """A model that a mutant rewrites: its name, and the options of surgeon.rewrite."""

    name: str
    model: Any
    options: dict[str, Any]


def models_of(case: Any, *, near: bool) -> Iterator[Met]:
    """The model of a case, or its near misses that are recorded."""
    import near_misses

    name = f"{case.path.parent.name}/{case.path.stem}"
    if not near:
        yield Met(name, case.model, case.options)
        return
    wanted = set(near_misses.recorded(case.path.parent.name).get(case.path.stem, {}))
    for miss in near_misses.near_misses(case, wanted):
        yield Met(f"{name}: {miss.words}", miss.model, miss.options)


def rewritten(met: Met, verify: str) -> Any:
    """The result, or the error as text."""
    import surgeon

    try:
        return surgeon.rewrite(met.model, **{**met.options, "verify": verify}).model
    except Exception as error:  # a mutant may raise anything
        return f"{type(error).__name__}: {str(error)[:200]}"


def digests(case: Any, near: bool) -> list[str]:
    return [_digest(rewritten(met, "none")) for met in models_of(case, near=near)]


def _digest(result: Any) -> str:
    return result if isinstance(result, str) else mutation._bytes(result)


def units() -> list[Unit]:
    import casefile

    found = []
    for path in sorted(CASES.glob("*/*.onnxtxt")):
        case, of = casefile.load(path), mutation._short(path.read_bytes())
        for kind, near in (("case", False), ("near", True)):
            name = f"rule {kind} {path.parent.name}/{path.stem}"
            found.append(Unit(kind, name, partial(digests, case, near), case.pass_name, of=of, case=case))
    return found


# ---- a mutant's run --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fate:
    """What became of a mutant.

    changed    how many models it rewrites otherwise
    wrong      how many of these are wrong without the proof
    left       (model, kind of input, difference) of those that are wrong with the proof
    errors     errors in place of a result
    """

    changed: int = 0
    wrong: int = 0
    left: list[tuple[str, str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def run_mutant(mutant: Mutant, met: list[Unit]) -> Fate:
    """Runs in a child."""
    mutation._install(mutant)
    fate = Fate()
    try:
        registry = importlib.import_module(mutation.REGISTRY)
        registry.passes()
    except Exception as error:
        fate.errors.append(f"import: {type(error).__name__}")
        return fate
    for unit in met:
        for model, before in zip(models_of(unit.case, near=unit.kind == "near"), unit.outcome, strict=True):
            if fate.wrong < MOST_PROVED and len(fate.left) < 2:
                _meet(model, before, fate)
    return fate


def _meet(met: Met, before: str, fate: Fate) -> None:
    plain = rewritten(met, "none")
    if _digest(plain) == before:
        return
    fate.changed += 1
    if isinstance(plain, str):
        fate.errors.append(plain)
        return
    differ = Differ(met.model)
    if not differ.tells or not differ.differences(plain):
        return
    fate.wrong += 1
    proved = rewritten(met, "window")
    if isinstance(proved, str):
        fate.errors.append(proved)
        return
    fate.left += [(met.name, kind, why) for kind, why in list(differ.differences(proved).items())[:1]]


def usual_differences(names: Iterable[str], met: list[Unit]) -> dict[str, set[str]]:
    """Runs in a child: {model: the kinds of input on which it differs without a mistake}"""
    wanted = set(names)
    every = (m for unit in met for m in models_of(unit.case, near=unit.kind == "near"))
    found = {}
    for model in (m for m in every if m.name in wanted):
        result = rewritten(model, "window")
        found[model.name] = set() if isinstance(result, str) else set(Differ(model.model).differences(result))
    return found


def verdict(fate: Fate) -> str:
    if fate.left:
        return "SURVIVES"
    if fate.wrong:
        return "proof"
    return "error" if fate.errors else "harmless"


VERDICTS = ("proof", "error", "harmless", "SURVIVES", "time", "crash")


def judged(bench: Bench, mutants: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, str, Fate]]:
    """(mutant, verdict, what became of it)"""
    met = {id(m): bench.meets(m)[0] for m in mutants}
    works = ((m, partial(run_mutant, m, met[id(m)])) for m in mutants)
    for mutant, fate in in_children(works, jobs, lambda _: LIMIT):
        if isinstance(fate, Exception):
            raise fate
        if isinstance(fate, str):
            yield mutant, fate, Fate()
            continue
        if fate.left:
            names = [name for name, _, _ in fate.left]
            asked = [(None, partial(usual_differences, names, met[id(mutant)]))]
            usual = next(iter(in_children(asked, 1, lambda _: LIMIT)))[1]
            if isinstance(usual, dict):
                fate.left = [row for row in fate.left if row[1] not in usual.get(row[0], ())]
        yield mutant, verdict(fate), fate


def main() -> None:
    args = _arguments()
    sys.path.insert(0, str(ROOT / "tests"))
    for name in mutation.MODULES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    paths = sorted((ROOT / "passes").rglob("*.py"))
    mutants = [m for m in drawn(paths, args.sample, args.seed) if args.only in f"{m.path.stem}:{m.line}: {m.what}"]
    found = units()
    imported = measure(found, paths, args.jobs, Store(args.store, paths))
    importlib.import_module(mutation.REGISTRY)
    bench = Bench(found, 0.0, imported, users_of(paths))
    table: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    print(
        f"{len(mutants)} mutants of {len({m.path for m in mutants})} files meet {len(found)} sets of models", flush=True
    )
    for mutant, said, fate in judged(bench, mutants, args.jobs):
        table[kind_of(mutant)][said] += 1
        if args.verbose or said in ("SURVIVES", "time", "crash"):
            told = [*(f"{n}, {k}: {w}" for n, k, w in fate.left), *fate.errors[:1]]
            place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
            print(f"{said}: {place}: {mutant.what} [{fate.changed} changed, {fate.wrong} wrong] {told}", flush=True)
    _print(table)


def _print(table: dict[str, Counter[str]]) -> None:
    print(f"\n{'mistake':12}{'mutants':>9}" + "".join(f"{v:>13}" for v in VERDICTS))
    rows = [*table.items(), ("all", sum(table.values(), Counter()))]
    for kind, counts in rows:
        print(f"{kind:12}{counts.total():9}" + "".join(f"{counts[v]:13}" for v in VERDICTS))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=240, metavar="N")
    parser.add_argument("--seed", type=int, default=20261124, metavar="S")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="WORDS", help="of those drawn the ones that read so")
    parser.add_argument("--store", type=Path, metavar="FILE", help="keeps the lines that each case runs")
    parser.add_argument("--verbose", action="store_true", help="print every mutant")
    return parser.parse_args()


if __name__ == "__main__":
    main()
