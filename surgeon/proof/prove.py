"""Proof: does a rewritten window, or a whole model, compute what the original computes?

A window is cut out with its inputs' types and shapes and run before and after through ONNX Runtime, optimisations off,
on random and adversarial inputs. Two results are equal as docs/proof.md section 2 says:

- finite inputs up to 1e18: `max|a - b| <= tolerance * max|b|` (1e-5 in fp32; 2e-3 in fp16 and bf16, against an fp32
  reference), or no more than the steps between denormal numbers round off, or the rewritten window's error
  against a float64 evaluation is at most 4 times the original's, but for what that evaluation rounds off itself:
  1 + exp(-40) is 1 in float64, too; never a NaN or inf where the original has a number;
  what onnx's reference evaluator says counts only where ONNX Runtime, which is the judge, bears it out;
- inputs with inf and NaN, and where the original overflows: any difference only where the original is NaN or saturates.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.graph import (
    Dim,
    Graph,
    Model,
    Node,
    Shape,
    Value,
    all_nodes,
    body_protos,
    declared_dim,
    functions_behind,
    is_inside,
)
from surgeon.proof.equality import TOLERANCE, Difference, compare, is_float, smallest_normal
from surgeon.proof.evaluate import Exact, Reference, Runner, Unrunnable, holders, widen_stash
from surgeon.proof.feeds import HALVES, NOT_COUNTED, NOT_FINITE, Feeds, feeds_of
from surgeon.rules.meaning import DOMAIN, IR_WITH_OVERLOADS, attach, has_meaning

if TYPE_CHECKING:
    from surgeon.rules.window import Rewrite

INTEGERS = frozenset(getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))
# Operators that make nothing but integers and bools of integers, and neither look up nor size anything by them.
ARITHMETIC = frozenset({
    "Abs", "Add", "And", "Cast", "Clip", "Concat", "Div", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less",
    "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Relu", "Sign", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip
# Those of whose inputs this holds for the first.
MOVING = frozenset({
    "Expand", "Flatten", "Gather", "Pad", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip
KERNEL_NOISE = 1e-3  # a relative difference that a single kernel's rounding may make; the definition decides
MOST_ELEMENTS = 1 << 26  # of an input whose size is chosen here; a size that the model says itself may be larger
TOO_LARGE = f"at the sizes tried an input has more than {MOST_ELEMENTS} elements"
CONE_LIMIT = 400  # nodes that compute shapes, pulled into one window
# What the sizes of a whole model grow by until it runs, and whether they are alike: convolutions of sound need many
# samples, and exporters name the length of a sentence and that of its mask by two names.
FEWEST = 4  # what a formula's size is at least, if it can be: one element has no variance, and all is rounding there
GROWN = ((0, False), (0, True), (64, False), (64, True), (1024, False))
# Then the sizes that networks for pictures are made for, two at a time: (the first dimension, each other one).
USUAL = (((1, 64), (2, 96)), ((1, 32), (2, 112)), ((1, 224), (2, 256)), ((1, 160), (1, 320)), ((1, 512), (1, 640)))
MOST_SIZES = 8  # of inputs and constants, tried for each symbolic dimension


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok` None: could not be proved. `max_error`: relative to the largest output, over the finite inputs without the
    denormal ones."""

    ok: bool | None
    max_error: float | None = None
    why: str = ""
    sizes: bool = False  # whether the original ran with none of the sizes that were chosen


# ---- windows ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Window:
    """The window of one rewrite as two models with the same inputs and outputs."""

    before: ModelProto
    after: ModelProto
    inputs: list[tuple[str, int, Shape]]
    pads: int
    longer: int = 0  # what symbolic dimensions get more, but for the first ones
    alike: bool = False  # whether all symbolic dimensions are of one size, but for the first ones, which are of another
    usual: Sequence[tuple[int, int]] = ()  # (size of a first symbolic dimension, of another), at each turn
    fixed: dict[str, int] = field(default_factory=dict)  # sizes of symbolic dimensions, of those that others have
    tensors: list[Value] = field(default_factory=list)  # the inputs in the model
    runners: dict[str, Runner] = field(default_factory=dict)
    unranked: str = ""  # the tensor of an input of which not even the rank is known, before a run of the whole model
    met: list[Feeds] = field(default_factory=list)  # the inputs as a run of the whole model has them, at each size

    def runner(self, side: str, folder: str | Path | None) -> Runner:
        """What runs the side `before` or `after`, at every size. Raises Unrunnable."""
        if side not in self.runners:
            self.runners[side] = Runner(getattr(self, side), folder)
        return self.runners[side]

    @property
    def symbols(self) -> list[str]:
        return list(dict.fromkeys(d for _, _, s in self.inputs for d in s if isinstance(d, str)))

    def key(self, tolerance: float) -> bytes:
        """Equal for windows that have the same proof: a digest of both sides."""
        sizes = (self.longer, self.alike, self.usual, self.fixed)
        digest = hashlib.sha256(repr((tolerance, sizes)).encode())
        for side in (self.before, self.after):
            digest.update(side.SerializeToString(deterministic=True))
        for feeds in self.met:
            for array in feeds.values():
                digest.update(repr(array.shape).encode())
                digest.update(b"" if is_float(array.dtype) else array.tobytes())
        return digest.digest()

    def runs(self, shapes: dict[str, int]) -> Iterator[tuple[list[tuple[str, int, tuple[int, ...]]], Feeds]]:
        """The inputs with every dimension a number, and those of them whose values are given: the integers that a run
        of the whole model has there, which may be positions."""
        if not self.met:
            yield from ((infos, {}) for infos in self.sizes(shapes))
        for feeds in self.met:
            yield (
                [(name, elem, feeds[name].shape) for name, elem, _ in self.inputs],
                {name: array for name, array in feeds.items() if not is_float(array.dtype)},
            )

    def sizes(self, shapes: dict[str, int]) -> Iterator[list[tuple[str, int, tuple[int, ...]]]]:
        """The inputs with every dimension a number: two sizes for each symbolic one, one pass where all are static."""
        symbols, shapes = self.symbols, {**self.fixed, **shapes}
        unknown = any(d is None for _, _, s in self.inputs for d in s)
        for turn in range(2 if unknown or set(symbols) - set(shapes) else 1):
            chosen = self._chosen(symbols, shapes, turn)
            sizes = [
                tuple(self._dim(d, axis, len(shape), chosen, turn) for axis, d in enumerate(shape))
                for _, _, shape in self.inputs
            ]
            pairs = zip(self.inputs, sizes, strict=True)
            if any(size != shape and math.prod(size) > MOST_ELEMENTS for (_, _, shape), size in pairs):
                continue
            yield [(name, elem, size) for (name, elem, _), size in zip(self.inputs, sizes, strict=True)]

    def _chosen(self, symbols: Sequence[str], shapes: dict[str, int], turn: int) -> dict[str, int]:
        """A size for each symbol; PyTorch's newer exporter names a dimension by its formula, such as '4*s10'."""
        formulas = {s: formula for s in symbols if (formula := _formula(s)) is not None}
        names = {
            s: [n.id for n in ast.walk(formulas[s]) if isinstance(n, ast.Name)] if s in formulas else [s]
            for s in symbols
        }
        if self.usual:
            batches = {s[0] for _, _, s in self.inputs if len(s) > 1}
            return {s: shapes.get(s, self.usual[turn][s not in batches]) for s in symbols}
        firsts = {n for _, _, s in self.inputs if len(s) > 1 and isinstance(s[0], str) for n in names[s[0]]}
        for longer in (self.longer, *(n for n, _ in GROWN if n > self.longer)):
            chosen = {}
            for k, name in enumerate(dict.fromkeys(n for s in symbols for n in names[s])):
                size = self._size((name not in firsts) if self.alike else k, turn)
                chosen[name] = shapes.get(name, size + (0 if name in firsts else longer))
            sizes = {s: shapes.get(s, _evaluated(formula, chosen)) for s, formula in formulas.items()}
            if all(size >= (FEWEST if longer < 64 else 1) for size in sizes.values()):
                return {**chosen, **sizes}
        return {**chosen, **{s: max(size, 1) for s, size in sizes.items()}}

    def _size(self, k: int, turn: int) -> int:
        return (2, 3)[turn] if k == 0 and self.pads < 2 else self.pads + (9, 14)[turn] + 2 * k + (k == 0)

    def _dim(self, dim: Dim, axis: int, rank: int, chosen: dict[str, int], turn: int) -> int:
        if isinstance(dim, int):
            return dim
        if isinstance(dim, str):
            return chosen[dim]
        if self.usual:
            return self.usual[turn][axis > 0 or rank == 1]
        if axis == 0 and rank > 1 and self.pads < 2:
            return (2, 3)[turn]
        return (
            self.pads + (11, 16)[turn] - 2 * (rank - axis)
        )  # by distance from the end, so that unknown sizes broadcast


OPERATIONS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


@cache
def _formula(symbol: str) -> ast.expr | None:
    """A dimension's name as a formula of other names; None where it is a plain name, or anything else."""
    try:
        parsed = ast.parse(symbol, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    allowed = (ast.BinOp, ast.Constant, ast.Name, ast.Load, *OPERATIONS)
    if isinstance(parsed, ast.Name) or not all(isinstance(n, allowed) for n in ast.walk(parsed)):
        return None
    constants = [n.value for n in ast.walk(parsed) if isinstance(n, ast.Constant)]
    return parsed if all(type(c) is int and c < 2**31 for c in constants) else None


def _evaluated(formula: ast.AST, sizes: dict[str, int]) -> int:
    """The formula's value; 0 where it has none, or none that is a size."""
    if isinstance(formula, ast.BinOp):
        left, right = _evaluated(formula.left, sizes), _evaluated(formula.right, sizes)
        if isinstance(formula.op, ast.FloorDiv | ast.Mod) and right == 0:
            return 0
        if isinstance(formula.op, ast.Pow) and not (0 <= right <= 8):
            return 0
        return OPERATIONS[type(formula.op)](left, right)
    return sizes[formula.id] if isinstance(formula, ast.Name) else int(formula.value)  # type: ignore[attr-defined]


class Prover:
    """Proves rewrites of one model. Identical windows are proved once."""

    def __init__(
        self,
        model: Model,
        present: Callable[[Value | None], Value | None],
        shapes: dict[str, int] | None = None,
        verdicts: dict[bytes, Verdict] | None = None,
        originals: dict[Value, Node] | None = None,
    ) -> None:
        self.model = model
        self.originals = originals or {}  # a tensor -> the file's node for it, where that was rewritten
        self.present = present  # a tensor -> the one that its readers read now
        self.shapes = shapes or {}
        self._verdicts = verdicts if verdicts is not None else {}
        self._shape_only: dict[Value, bool] = {}
        self.unsized: dict[Rewrite, Window] = {}  # what ran with no sizes that the prover chose

    def prove(self, record: Rewrite) -> Verdict:
        """Whether the window computes what the file's nodes computed."""
        try:
            window = self.window(record)
        except Unrunnable as error:
            return Verdict(None, None, str(error))
        if window is None:
            return Verdict(True, 0.0)
        if window.unranked:
            self.unsized[record] = window
            return Verdict(None, None, f"the rank of '{window.unranked}' is not known")
        verdict = self._verdict(window, record.tolerance)
        if verdict.ok is None and verdict.sizes:
            self.unsized[record] = window
        return verdict

    def _verdict(self, window: Window, tolerance: float) -> Verdict:
        key = window.key(tolerance)
        if key not in self._verdicts:
            self._verdicts[key] = prove_window(window, self.shapes, tolerance)
        return self._verdicts[key]

    def prove_by_a_run(
        self, original: ModelProto, folder: Path | None, shapes: Mapping[str, Sequence[int]]
    ) -> dict[Rewrite, Verdict]:
        """What comes of the windows in `unsized` with sizes that belong together: those of a run of the whole model, or
        where that does not run, other choices."""
        tensors = dict.fromkeys(t for window in self.unsized.values() for t in window.tensors)
        met = run_through(original, [t.name for t in tensors], folder, shapes)
        found = {}
        for record, window in self.unsized.items():
            if all(t.name in run and t.graph is self.model.graph for run in met for t in window.tensors):
                names = [name for name, _, _ in window.inputs]
                window.met = [{n: run[t.name] for n, t in zip(names, window.tensors, strict=True)} for run in met]
            for _ in [None] if window.met else [] if window.unranked else _small_settings(window):
                found[record] = self._verdict(window, record.tolerance)
                if not found[record].sizes:
                    break
        return found

    def window(self, record: Rewrite) -> Window | None:
        """The rewrite's window; None where it has no outputs (what went was read by nobody)."""
        outputs = [o for o in record.outputs if not self._unread(record.aliases.get(o))]
        if not outputs:
            return None
        went = dict.fromkeys([*record.removed, *record.matched])
        cut = _Cut(self, record.root.graph)
        cut.keep_names = any(n.bodies for n in (*went, *record.added))  # a body captures outer tensors by name
        before = cut.side(outputs, {o: n for n in went for o in n.outputs if o is not None}, self.model)
        now = {o: n for n in (*record.added, *_standing(record.matched)) for o in n.outputs if o is not None}
        after = cut.side(outputs, {}, self.model, now, record.aliases)
        return cut.window(before, after, outputs)

    def _unread(self, alias: Value | None) -> bool:
        """Whether a tensor that stands for a window's output has gone since: nobody was left to read it."""
        now = self.present(alias) if alias is not None else None
        return now is not None and now.producer is not None and not now.producer.alive and not now.users

    def producer(self, value: Value, file: bool) -> Node | None:
        """The node that makes a tensor; with `file` the one that made it in the file."""
        return self.originals.get(value, value.producer) if file else value.producer

    def shape_only(self, value: Value) -> bool:
        """Whether a tensor follows from constants and from the *shapes* of other tensors alone."""
        known, stack = self._shape_only, [value]
        while stack:
            v = stack[-1]
            node = v.producer
            if v in known:
                stack.pop()
                continue
            if v.is_written or (node is not None and node.key in ("Shape", "Size")):
                known[v] = True
            elif node is None or node.bodies or "::" in node.key:
                known[v] = False
            else:
                inputs = [i for i in node.inputs if i is not None]
                if any(known.get(i) is False for i in inputs):
                    known[v] = False
                else:
                    missing = next((i for i in inputs if i not in known), None)
                    if missing is not None:
                        stack.append(missing)
                        continue
                    known[v] = True
            stack.pop()
        return known[value]


class _Cut:
    """Cuts the two sides of a window out of the graph, with the same names for the same tensors."""

    def __init__(self, prover: Prover, graph: Graph) -> None:
        self.prover = prover
        self.model = prover.model
        self.opsets = (self.model.opsets_in(graph, file=True), self.model.opsets_in(graph))  # before, after
        self.lowered = self.opsets[0] != self.opsets[1]  # then the file's nodes are not valid beside the present ones
        self.names: dict[Value, str] = {}
        self.inputs: dict[Value, None] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.keep_names = False
        self.pads = 0

    def side(
        self,
        outputs: Sequence[Value],
        before: dict[Value, Node],
        model: Model,
        after: dict[Value, Node] | None = None,
        aliases: dict[Value, Value] | None = None,
    ) -> list[NodeProto]:
        """The nodes of one side in topological order; `before` or `after` says which nodes make its tensors."""
        made = before if after is None else after
        now = after is not None
        file = not now and self.lowered
        nodes: list[NodeProto] = []
        done: set[Node] = set()
        for out in outputs:
            alias = (aliases or {}).get(out)
            if alias is not None and after is not None:
                self._walk(self._resolve(alias), made, done, nodes, model, file, now)
                nodes.append(
                    helper.make_node("Identity", [self._name(self._resolve(alias), after)], [self._name(out, made)])
                )
            else:
                self._walk(out, made, done, nodes, model, file, now)
        return nodes

    def _resolve(self, value: Value) -> Value:
        return self.prover.present(value) or value

    def _source(self, value: Value, made: dict[Value, Node]) -> Value:
        """The tensor of this side that a node reads."""
        return value if value in made else self._resolve(value)

    def _walk(
        self,
        out: Value,
        made: dict[Value, Node],
        done: set[Node],
        nodes: list[NodeProto],
        model: Model,
        file: bool,
        now: bool,
    ) -> None:
        """Add to `nodes` what makes `out`. `now`: with bodies as they stand, not as the file has them."""
        stack: list[tuple[Value, bool]] = [(out, False)]
        while stack:
            value, ready = stack.pop()
            node = made.get(value)
            if node is None:
                if value in self.inputs or (self._name(value, made) in self.constants):
                    continue
                if model.is_constant(value):
                    array = model.constant(value)
                    if array is not None:
                        self.constants[self._name(value, made)] = array
                        continue
                producer = self.prover.producer(value, file)
                if producer is None or not self.prover.shape_only(value) or len(done) > CONE_LIMIT:
                    self.inputs[value] = None
                    continue
                node = producer
            if node in done:
                continue
            if ready:
                done.add(node)
                nodes += self._named_again(node, made, nodes, now)
                nodes.append(self._copy(node, made, now))
                continue
            stack.append((value, True))
            for source in (*node.inputs, *_captures(node, now)):
                if source is not None:
                    stack.append((self._source(source, made), False))

    def _named_again(self, node: Node, made: dict[Value, Node], nodes: list[NodeProto], now: bool) -> list[NodeProto]:
        """What a body reads by a name that the tensor has no more, by that name."""
        present = {o for n in nodes for o in n.output}
        found: dict[str, NodeProto] = {}
        for captured in _captures(node, now):
            read, name = self._source(captured, made), captured.name
            if read is not captured and name not in present:
                found[name] = helper.make_node("Identity", [self._name(read, made)], [name])
        return list(found.values())

    def _copy(self, node: Node, made: dict[Value, Node], now: bool) -> NodeProto:
        proto = NodeProto()
        proto.CopyFrom(node.proto)
        for body, copied in zip(node.bodies, body_protos(proto), strict=True) if now else ():
            body.copy_into(copied)
        proto.name = ""
        proto.doc_string = ""
        del proto.metadata_props[:]
        proto.input[:] = ["" if v is None else self._name(self._source(v, made), made) for v in node.inputs]
        proto.output[:] = ["" if v is None else self._name(v, made) for v in node.outputs]
        if node.key == "Pad":
            for source in node.operands()[1:2]:
                array = self.model.constant(source)
                if array is not None and array.size and array.dtype.kind == "i":
                    self.pads = max(self.pads, int(np.abs(array).max()))
        return proto

    def _name(self, value: Value, made: dict[Value, Node]) -> str:
        if value not in self.names:
            self.names[value] = value.name if self.keep_names else f"v{len(self.names)}"
        return self.names[value]

    def window(self, before: list[NodeProto], after: list[NodeProto], outputs: Sequence[Value]) -> Window:
        infos, inputs, unranked = [], [], ""
        for value in self.inputs:
            name, elem, shape = self.names[value], self.model.dtype(value), self.model.shape(value)
            if not elem:
                raise Unrunnable(f"the type of '{value.name}' is not known")
            if shape is None:
                unranked = value.name
            infos.append((name, elem, shape))
            inputs.append((name, elem, shape or ()))
        names = [self.names[o] for o in outputs]
        first, now = self.opsets
        sides = self._model(before, infos, names, first), self._model(after, infos, names, now)
        return Window(*sides, inputs, self.pads, tensors=list(self.inputs), unranked=unranked)

    def _model(
        self,
        nodes: list[NodeProto],
        inputs: list[tuple[str, int, Shape | None]],
        outputs: list[str],
        declared: dict[str, int],
    ) -> ModelProto:
        used = {i for n in nodes for i in _read_by(n)}
        tensors = [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in used or n in outputs]
        found = dict.fromkeys(d for _, _, s in inputs for d in s or () if isinstance(d, str))
        symbols: dict[Dim, Dim] = {d: f"d{k}" for k, d in enumerate(found)}
        infos = [
            helper.make_tensor_value_info(n, e, None if s is None else [symbols.get(d, d) for d in s])
            for n, e, s in inputs
        ]
        graph = helper.make_graph(nodes, "window", infos, [onnx.ValueInfoProto(name=o) for o in outputs], tensors)
        opsets = [helper.make_opsetid(d, v) for d, v in {**declared, DOMAIN: 1}.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_WITH_OVERLOADS)
        if self.model.file_functions:
            model.functions.extend(functions_behind(all_nodes(graph), self.model.file_functions))
        own = [f for f in model.functions if f.domain != DOMAIN]
        inside = [n for holder in (model.graph, *own) for n in all_nodes(holder)]
        for node in inside:
            if not node.domain and has_meaning(node.op_type):
                node.domain = DOMAIN  # ONNX's definition, from which ONNX Runtime's kernel strays
        if any(n.domain == DOMAIN for n in inside):
            attach(Model(model))
        return model


def _standing(matched: Iterable[Node]) -> Iterator[Node]:
    """What stands inside a match, on which a body may build: its nodes, or what another rewrite has made of them."""
    for node in matched:
        if node.alive:
            yield node
            continue
        for out in node.outputs:
            origin = out.producer.origin if out is not None and out.producer is not None else None
            yield from (n for n in (origin.added if origin is not None else ()) if n.alive)


def _read_by(node: NodeProto) -> Iterator[str]:
    """The tensors that a node reads, and its bodies: by name, as a body captures them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield from (i for inner in attribute.g.node for i in _read_by(inner))
            yield from _names(attribute.g.output)


def _captures(node: Node, now: bool) -> Iterator[Value]:
    """What the bodies read of the graphs around them: as they stand, or as the file has them."""
    for body in node.bodies:
        for inner in body.live_deep() if now else _nodes_of_file(body):
            for value in inner.inputs:
                if value is not None and not is_inside(value.graph, body):
                    yield value


def _nodes_of_file(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.bodies:
            yield from _nodes_of_file(body)


def prove_window(
    window: Window,
    shapes: dict[str, int],
    slack: float = 1.0,
    folder: str | Path | None = None,
    own_rounding: bool = False,
) -> Verdict:
    """Run both sides on every kind of input, at each size. `slack` scales the tolerance: an approximation says so.

    `folder` is that of the external weights, where the window is two whole models. With `own_rounding` a model in half
    precision may be as far from an exact evaluation as the original's own rounding, operator by operator, takes that
    (four times as far, as everywhere): ONNX Runtime leaves most of it out, and a deep model makes much of little.
    """
    try:
        before = window.runner("before", folder)
    except Unrunnable as error:
        return Verdict(None, None, f"ONNX Runtime does not run the original window: {error}")
    try:
        after = window.runner("after", folder)
    except Unrunnable as error:
        return Verdict(False, None, f"ONNX Runtime does not run the rewritten window: {error}")
    if after.lacking and not before.lacking:
        return Verdict(False, None, f"ONNX Runtime runs the original window, not the rewritten one: {after.lacking}")
    after.follow(before)
    worst, ran, why, note = 0.0, 0, "", ""
    halves, numbers = _has_halves(window.before), plain_numbers(window)
    for infos, given in window.runs(shapes):
        half = any(elem in HALVES for _, elem, _ in infos)
        for kind, drawn in feeds_of(infos, numbers=numbers):
            feeds = {**drawn, **given}
            try:
                expected = before.run(feeds)
            except Unrunnable as error:
                why = why or str(error)
                break
            ran += 1
            try:
                results = after.run(feeds)
            except Unrunnable as error:
                return Verdict(False, None, f"on {kind} inputs the rewritten window does not run: {error}")
            finite = kind not in NOT_FINITE
            exact = Exact(window.before, feeds, half, expected, kind, folder)
            exact_after = Exact(window.after, feeds, half, results, kind, folder)
            for index, (a, b) in enumerate(zip(results, expected, strict=True)):
                tolerance = TOLERANCE.get(helper.np_dtype_to_tensor_dtype(b.dtype), 0.0) * slack
                output, rounding = partial(exact.output, index), partial(exact.rounding, index)
                judge = partial(
                    compare, tolerance=tolerance, finite=finite, exact=output, rounding=rounding, cut_off=kind == "inf"
                )
                found = judge(a, b)
                wide = partial(judge, tolerance=max(tolerance, TOLERANCE[TensorProto.FLOAT16])) if halves else judge
                by_rounding = bool(found.why) and _equal_but_for_rounding(exact, exact_after, index, wide)
                little = found.error <= KERNEL_NOISE or found.gap <= smallest_normal(b.dtype)
                if by_rounding and little and _equal_by_definition(window, feeds, index, b, judge, folder):
                    found = Difference(found.error)
                # What half precision does not hold is a number where ONNX Runtime computes in fp32: 1e-12 in x / 1e-12.
                if by_rounding and found.why and halves and (own_rounding or math.isinf(found.error)):
                    defined = _by_definition(window.before, feeds, index, folder)
                    if defined is not None and not judge(a, defined).why:
                        note = note or f"on {kind} inputs {found.why}: no more than its rounding in half precision does"
                        found = Difference(0.0)
                if found.why:
                    strays = _strays(before, b, "the original", feeds, index, judge)
                    strays += _strays(after, a, "the rewritten window", feeds, index, judge)
                    return Verdict(False, found.error, f"on {kind} inputs {found.why}{strays}")
                if kind not in NOT_COUNTED:
                    worst = max(worst, found.error)
    if not ran:
        return Verdict(None, None, f"the original window does not run: {why or TOO_LARGE}", True)
    return Verdict(True, worst, note)


def plain_numbers(window: Window) -> frozenset[str]:
    """The integer inputs that either side computes with and moves about, and that are no position or size anywhere."""
    names = frozenset(name for name, elem, _ in window.inputs if elem in INTEGERS)
    for side in (window.before, window.after) if names else ():
        sources: dict[str, frozenset[str]] = {name: frozenset([name]) for name in names}
        for node in side.graph.node:
            read = [sources.get(i, frozenset()) for i in _read_by(node)]
            plain = _takes_numbers(node)
            names -= frozenset().union(*(s for position, s in enumerate(read) if not plain(position)))
            sources.update(dict.fromkeys(node.output, frozenset().union(*read)))
    return names


def _takes_numbers(node: NodeProto) -> Callable[[int], bool]:
    """Whether an input of a node is numbers to compute with, or to move about, and the output integers or bools."""
    if node.domain or (node.op_type == "Cast" and node.attribute[0].i not in INTEGERS | {TensorProto.BOOL}):
        return lambda position: False
    return lambda position: node.op_type in ARITHMETIC or (node.op_type in MOVING and position == 0)


def _has_halves(model: ModelProto) -> bool:
    """Whether a model holds tensors in half precision: its inputs, its weights, or what it casts to."""
    types = [i.type.tensor_type.elem_type for i in model.graph.input] + [t.data_type for t in model.graph.initializer]
    casts = [n for holder, _ in holders(model) for n in all_nodes(holder) if n.op_type == "Cast"]
    return any(t in HALVES for t in (*types, *(a.i for n in casts for a in n.attribute if a.name == "to")))


def _equal_but_for_rounding(before: Exact, after: Exact, index: int, judge: Callable[..., Difference]) -> bool:
    """Whether the two sides of a window give the same numbers in a wider type, to ONNX Runtime where that has the
    kernels: to the evaluator two operators may be one that ONNX Runtime tells apart."""
    a, b = after.output(index), before.output(index)
    if a is None or b is None or a.shape != b.shape:
        return False
    # Of 1e-12 half precision makes 0, and 0 / 0 of what a constant divides: only where both are numbers.
    return not judge(a, np.where(np.isfinite(a), b, np.nan)).why


def _equal_by_definition(
    window: Window, feeds: Feeds, index: int, given: np.ndarray, judge: Any, folder: str | Path | None
) -> bool:
    """Whether the rewritten window, as ONNX defines it, gives what ONNX Runtime made of the original, or what that is
    by definition: ONNX Runtime leaves the rounding to fp16 out between two kernels that it has in fp32 alone."""
    after = _by_definition(window.after, feeds, index, folder)
    if after is None or not judge(after, given).why:
        return after is not None
    before = _by_definition(window.before, feeds, index, folder)
    return before is not None and not judge(after, before).why


def _strays(
    runner: Runner, given: np.ndarray, side: str, feeds: Feeds, index: int, judge: Callable[..., Difference]
) -> str:
    """What to add to a verdict where ONNX Runtime itself strays from ONNX's definition: old ones have wrong kernels."""
    if runner.session is None:
        return ""
    defined = _by_definition(runner.model, feeds, index, runner.folder)
    if defined is None or not judge(given, defined).why:
        return ""
    import onnxruntime as ort

    return f"; ONNX Runtime {ort.__version__} computes {side} otherwise than onnx's reference evaluator"


def _by_definition(model: ModelProto, feeds: Feeds, index: int, folder: str | Path | None = None) -> np.ndarray | None:
    """An output as onnx's reference evaluator computes it in the model's own types; None where it cannot.

    How one operator rounds inside is its runtime's, and no difference between two models. ONNX Runtime computes the
    variance as E[x^2] - E[x]^2 for LayerNormalization up to 1.23 and for GroupNormalization, whose definition is
    spelled like that: where the elements of a group are few and close to each other, nothing is left of 1e-5. So what
    has a `stash_type` computes in double here; every other operator, as the file's own, rounds as its type does.
    """
    stashed = ModelProto()
    stashed.CopyFrom(model)
    for holder, opset in holders(stashed):
        for node in all_nodes(holder):
            widen_stash(node, TensorProto.DOUBLE, opset)
    try:
        return Reference(stashed, folder).run(feeds)[index]
    except Unrunnable:
        return None


# ---- whole models ----------------------------------------------------------------------------------------------------


def prove_models(
    before: ModelProto, after: ModelProto, base: Any = None, shapes: Any = None, own_rounding: bool = False
) -> Verdict:
    """Like `prove_window`, for two whole models."""
    window, symbols = whole_window(before, after, shapes)
    tried = []
    for _ in _settings(window):
        tried.append(prove_window(window, symbols, folder=base, own_rounding=own_rounding))
        if not tried[-1].sizes:
            return tried[-1]
    return tried[0]


def whole_window(before: ModelProto, after: ModelProto, shapes: Any = None) -> tuple[Window, dict[str, int]]:
    """Two whole models as one window, and the sizes of the symbolic dimensions that `shapes` fixes by input name."""
    given = dict(shapes or {})
    symbols = fixed_symbols(before, given)
    infos, constants = [], {t.name for t in before.graph.initializer}
    for i in before.graph.input:
        if i.name in constants:
            continue
        dims = [declared_dim(d) for d in i.type.tensor_type.shape.dim]
        for k, size in enumerate(given.get(i.name, ())):
            if dims[k] is None:  # a name of its own for a dimension that has neither name nor size
                dims[k] = f"{i.name}#{k}"
                symbols[f"{i.name}#{k}"] = size
        infos.append((i.name, i.type.tensor_type.elem_type, tuple(dims)))
    return Window(before, after, infos, _largest_pad(before)), symbols


def fixed_symbols(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size of each named dimension that `shapes` fixes, by input. Raises UsageError where they are not the model's,
    contradict each other, or are below 1: without elements everything is equal."""
    found: dict[str, int] = {}
    inputs = {i.name: i for i in model.graph.input}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise UsageError(f"the model has no input '{name}'.{did_you_mean(name, inputs)}")
        dims = inputs[name].type.tensor_type.shape.dim
        if len(dims) != len(sizes):
            raise UsageError(f"the input '{name}' has {len(dims)} dimensions; {len(sizes)} were given.")
        for k, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
            declared = declared_dim(dim)
            if not isinstance(size, int | np.integer) or size < 1:
                raise UsageError(f"dimension {k} of the input '{name}' needs a size of 1 or more, not {size}.")
            if isinstance(declared, int) and declared > 0 and size != declared:
                raise UsageError(f"dimension {k} of the input '{name}' is {declared} in the model; {size} was given.")
            if isinstance(declared, str) and found.setdefault(declared, int(size)) != size:
                raise UsageError(
                    f"'{declared}' cannot be both {found[declared]} and {size}: inputs share that dimension."
                )
    return found


def sizes_that_run(
    window: Window, symbols: dict[str, int], run: Callable[[Feeds], Any]
) -> list[tuple[str, int, tuple[int, ...]]]:
    """The inputs with the first sizes on which `run` does not raise Unrunnable. Raises Unrunnable where there are
    none."""
    why = ""
    for _ in _settings(window):
        for infos in window.sizes(symbols):
            _, feeds = next(feeds_of(infos))
            try:
                run(feeds)
            except Unrunnable as error:
                why = why or str(error)
            else:
                return infos
    raise Unrunnable(why or TOO_LARGE)


def run_through(
    model: ModelProto, tensors: Sequence[str], folder: Path | None, shapes: Mapping[str, Sequence[int]]
) -> list[Feeds]:
    """The tensors of the main graph as random inputs make them, at one or two sizes; without those that the model does
    not have, and empty where it does not run."""
    made = {o for n in model.graph.node for o in n.output} | {i.name for i in model.graph.input}
    wanted = [t for t in tensors if t in made]
    model.graph.output.extend([onnx.ValueInfoProto(name=t) for t in wanted if t not in _names(model.graph.output)])
    window, symbols = whole_window(model, model, shapes)
    try:
        runner = Runner(model, folder)
    except (Unrunnable, ModelError):
        return []
    for _ in _settings(window):
        found = []
        for infos in window.sizes(symbols):
            _, feeds = next(feeds_of(infos))
            with contextlib.suppress(Unrunnable):
                results = dict(zip(_names(model.graph.output), runner.run(feeds), strict=True))
                found.append({t: results[t] for t in wanted})
        if found:
            return found
    return []


def _settings(window: Window) -> Iterator[None]:
    """A whole model with one choice of sizes after another, for as long as the reader asks."""
    yield from _small_settings(window)
    if window.symbols or any(d is None for _, _, s in window.inputs for d in s):
        for window.usual in USUAL:
            yield


def _small_settings(window: Window) -> Iterator[None]:
    for window.longer, window.alike in GROWN:
        yield
    window.longer, window.alike = 0, False
    for symbol, size in product(window.symbols, _known_sizes(window)):
        window.fixed = {symbol: size}
        yield
    window.fixed = {}


def _known_sizes(window: Window) -> list[int]:
    """The first sizes that inputs and constants have: where a scale is one number a channel, its size is that of the
    channels."""
    graph = window.before.graph
    constants = [a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.HasField("t")]
    shapes = [*(shape for _, _, shape in window.inputs), *(t.dims for t in (*graph.initializer, *constants))]
    return list(dict.fromkeys(d for dims in shapes for d in dims if isinstance(d, int) and d > 1))[:MOST_SIZES]


def _names(infos: Iterable[onnx.ValueInfoProto]) -> list[str]:
    return [i.name for i in infos]


def _largest_pad(model: ModelProto) -> int:
    """The largest constant pad of a model, so that the sizes chosen for symbolic dimensions exceed it."""
    indexed = Model(model)
    found = 1
    for scope in indexed.scopes:
        for node in scope.by_op.get("Pad", ()):
            pads = next(iter(node.operands()[1:2]), None)
            array = pads if isinstance(pads, np.ndarray) else indexed.constant(pads) if pads is not None else None
            if array is not None and array.size and array.dtype.kind == "i":
                found = max(found, int(np.abs(array).max()))
    return found
