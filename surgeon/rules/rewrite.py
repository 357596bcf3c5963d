"""What a pass is, and the driver that runs passes to a fixed point.

    @rewrite(x / norm | x * op.Reciprocal(norm), stage=Stage.FUSE)
    def l2_norm(b, x, axes, eps=None, floor=None): ...

A pass is a file; its rules are the functions in it that `@rewrite` marks. The driver runs the stages in order, each to
a fixed point. Rewrites that build on one another (a spelling fused, then lowered) become one `Rewrite` with one window:
what the file had, and what stands there now. A rewrite whose result is what the file had is
taken back and not reported.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations
from struct import Struct
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from surgeon.errors import PassError
from surgeon.ir.graph import PLACE, Graph, Model, Node, Reference, Shape, Value, constant_value, formal_types, shown
from surgeon.report import Declined as Entry
from surgeon.rules.match import Attempt, Index, Match, match
from surgeon.rules.meaning import DOMAIN, arrange
from surgeon.rules.pattern import COMMUTATIVE, Op, Pattern, roots
from surgeon.targets.target import Target

GROWTH = 10  # rewrites a node, on the average, after which a stage is taken not to come to an end


Refusal = Callable[[Model, Node], str]  # empty where the node is taken


class Stage(enum.Enum):
    """CLEAN computes what can be computed; FUSE turns spellings into one node; LOWER writes what the target takes."""

    CLEAN = "clean"
    FUSE = "fuse"
    LOWER = "lower"


FUSED, LOWERED = Stage.FUSE.value, Stage.LOWER.value  # how a rewrite of that stage is called
STRATEGIES = ("decompose", "plugin")  # that a rule of the stage LOWER may have
FP32 = Struct("<f")
OF_ONE_SHAPE = frozenset({"Max", "Mean", "Min", "Sum"})  # what their inputs must be before the opset that follows
BROADCASTING = 8


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """One rewrite of a pass. `strategy` is `decompose` or `plugin` for a rule of the stage LOWER; `refuses` says why a
    plugin does not take a node."""

    pattern: Pattern
    body: Callable[..., Any]
    stage: Stage
    strategy: str | None = None
    library: str = "surgeon"
    refuses: Refusal | None = None
    pass_name: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class ModelRule:
    """A rule over the whole model, run once behind its stage's rewrites: `body(editor)`."""

    body: Callable[..., Any]
    stage: Stage
    pass_name: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """`keeps`: whether the pass can leave its canonical node to the target (strategy `keep`). `options`: what it reads
    of those that a run is given."""

    name: str
    doc: str
    rules: tuple[Rule, ...]
    model_rules: tuple[ModelRule, ...]
    path: str = ""
    options: tuple[str, ...] = ()

    @property
    def stages(self) -> list[Stage]:
        rules: list[Rule | ModelRule] = [*self.rules, *self.model_rules]
        return [s for s in Stage if any(r.stage is s for r in rules)]

    @property
    def keeps(self) -> bool:
        lower = [r for r in self.rules if r.stage is Stage.LOWER]
        return any(_root_domain(r) != DOMAIN for r in lower)

    @property
    def strategies(self) -> list[str]:
        """Those of keep, decompose and plugin that the pass has; none for a pass that does not lower."""
        found = {r.strategy for r in self.rules if r.strategy}
        return [s for s in ("keep", "decompose", "plugin") if s in found or (s == "keep" and self.keeps)]


def _root_domain(rule: Rule) -> str:
    return next(roots(rule.pattern)).domain


def rewrite(
    pattern: Pattern,
    *,
    stage: Stage,
    strategy: str | None = None,
    library: str = "surgeon",
    refuses: Refusal | None = None,
) -> Callable[[Callable[..., Any]], Rule]:
    """Mark a function as the body of a rewrite.

    The body gets a `Builder` and the names that the pattern bound, and returns what takes the place of the root's
    output: a tensor that it made or one that exists; a tuple where the root has several outputs (None for one that
    nobody reads); `()` to remove a node none of whose outputs is read. `require` declines. A plugin that does not take
    every canonical node says so with `refuses(model, node)`: the next library or the decomposition has that one then.
    """
    if stage is Stage.LOWER and strategy not in STRATEGIES:
        raise PassError(f"a rule of the stage LOWER has strategy 'decompose' or 'plugin', not {strategy!r}")
    return lambda body: Rule(pattern, body, stage, strategy, library, refuses)


def rewrite_model(*, stage: Stage) -> Callable[[Callable[..., Any]], ModelRule]:
    """Mark a function that edits the whole model. It gets an `Editor`, runs behind its stage's rewrites (in CLEAN again
    with them until nothing changes) and returns whether it changed anything."""
    return lambda body: ModelRule(body, stage)


class Declined(Exception):
    """The pattern holds, but the rewrite must not be made; the message is the reason."""


def require(ok: Any, why: str) -> None:
    """Decline the rewrite unless `ok`; the driver reports `why` with the node. An empty reason means that the window is
    another pass's business, and is not reported."""
    if not ok:
        raise Declined(why)


@dataclass(eq=False, slots=True)
class Rewrite:
    """A window: the file's nodes that went (`removed`) and those that stand there now (`added`)."""

    passes: list[str]
    strategy: str
    root: Node
    keys: list[tuple[str, str]]
    removed: dict[Node, None]
    added: dict[Node, None]
    matched: list[Node]
    aliases: dict[Value, Value]
    warnings: list[str] = field(default_factory=list)
    tolerance: float = 1.0
    max_error: float | None = None
    part_of: Rewrite | None = None  # the one that builds on this one

    @property
    def name(self) -> str:
        return self.passes[0] if len(self.passes) == 1 else "+".join(dict.fromkeys(self.passes))

    @property
    def nodes_before(self) -> list[Node]:
        """The file's nodes, in its order."""
        return sorted(self.removed, key=PLACE)

    @property
    def nodes_after(self) -> list[Node]:
        """As they stand."""
        return sorted(self.added, key=lambda n: n.graph.position(n))

    @property
    def read_instead(self) -> list[str]:
        """What the readers of a tensor that went without a node in its place read now: `y = x`, `pads = [0, 1]`."""
        return [
            f"{old.name} = {new.name if new.tensor is None or new.is_input else shown(new.tensor)}"
            for old, new in self.aliases.items()
        ]

    @property
    def output_names(self) -> list[str]:
        """The outputs; those of the root where nothing reads it any more."""
        return [o.name for o in self.outputs] or [o.name for o in self.root.outputs if o is not None]

    @property
    def outputs(self) -> list[Value]:
        """The tensors of the window that something outside it reads, in the order of the file."""
        return [
            o
            for n in reversed(self.removed)
            for o in n.outputs
            if o is not None and (o.producer in self.added or o in self.aliases)
        ]


# ---- what a body builds with -----------------------------------------------------------------------------------------


class Builder:
    """Makes the replacement: `b.Mul(x, 2.0)` spells a node as the pattern does.

    Inputs are values, numbers and arrays; a number takes the type of the tensor that it meets. What ONNX moved from an
    attribute to an input (`axes=`, `min=`, `pads=`, ...) is given by name and written as the model's opset wants it.
    """

    __slots__ = (
        "_driver", "_model", "_graph", "_prefix", "root", "name", "matched", "strategy", "target", "options", "made",
        "constants", "warnings", "tolerance",
    )  # fmt: skip

    def __init__(
        self, driver: Driver, pass_name: str, root: Node, strategy: str | None, matched: tuple[Node, ...] = ()
    ) -> None:
        self._driver = driver
        self._model = driver.model
        self._graph = root.graph
        self.name = _out_name(root)  # before the root's outputs are handed on
        self._prefix = f"{self.name}~{pass_name}"
        self.root = root
        self.matched = matched or (root,)  # what the window replaces: a body that looks further adds what it saw
        self.strategy = strategy
        self.target = driver.target
        self.options = driver.options_of[pass_name]
        self.made: list[Node] = []
        self.constants: list[Value] = []
        self.warnings: list[str] = []
        self.tolerance = 1.0

    # ---- what a body may ask -----------------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        return self._model.opset_in(self._graph)

    def shape(self, value: Value) -> Shape | None:
        """int for a static dimension, str for a symbolic one, None for an unknown one;
        None where the rank is unknown."""
        return self._model.shape(value)

    def rank(self, value: Value) -> int | None:
        shape = self._model.shape(value)
        return None if shape is None else len(shape)

    def dtype(self, value: Value) -> int:
        """The TensorProto.DataType; 0 where it is not known."""
        return self._model.dtype(value)

    def value(self, value: Value | np.ndarray | None) -> np.ndarray | None:
        """The tensor's value where it can be computed without the model's inputs, else None."""
        return self._model.constant(value)

    def fingerprint(self, value: Value | np.ndarray | None) -> tuple[Any, ...] | None:
        """(shape, type, bytes) of a tensor's value, to look it up by; None where it cannot be computed."""
        return self._model.fingerprint(value)

    def lowering(self, value: Value, pass_name: str) -> str:
        """What becomes of the node that makes `value` in the stage LOWER: keep, decompose or plugin; by the target
        alone where the pass does not run."""
        if value.producer is None:
            return "keep"
        p = self._driver.passes.get(pass_name)
        if p is None:
            return "keep" if self.target.takes(value.producer) is None else "decompose"
        return self._driver.strategy(p, value.producer)[0]

    def discard(self, value: Value, *keep: Any) -> None:
        """Take away the node that a body made for `value`, to make another instead, and what was made for it alone;
        what the tensors in `keep` are computed from stays (anything else in it is passed over), and so do constants,
        which a body may go on with, until the rewrite is made."""
        if value.producer is None or value.producer not in self.made:
            return
        gone = self._graph.remove(value.producer)
        needed: set[Node] = set()
        todo = [v.producer for v in (*keep, *self.constants) if isinstance(v, Value)]
        while todo:
            node = todo.pop()
            if node is not None and not node.alive and node not in needed:
                needed.add(node)
                todo += [i.producer for i in node.inputs if i is not None]
        for node in reversed(gone):
            if node in needed:
                self._graph.restore(node)

    def warn(self, text: str) -> None:
        """Say something in the report's warnings, with the node."""
        self.warnings.append(f"{self.root.label}: {text}")

    # ---- what a body may make ----------------------------------------------------------------------------------------

    def __getattr__(self, op: str) -> Callable[..., Any]:
        """`b.Mul`: a method that makes a node. It is made at an operator's first use."""
        if not op[:1].isupper():
            raise AttributeError(op)

        def make(self: Builder, *inputs: Any, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
            return self.node(op, inputs, outputs, domain, attrs)

        setattr(Builder, op, make)
        return getattr(self, op)  # type: ignore[no-any-return]

    def node(self, op: str, inputs: Sequence[Any], outputs: int, domain: str, attrs: dict[str, Any]) -> Any:
        graph = self._graph
        opset = self._model.opset_in(graph, domain)
        given, written = arrange(op, inputs, attrs, domain, opset)
        for position, i in enumerate(given):
            if i is not None and type(i) is not Value:
                given[position] = self._lift(i, position, given, formal_types(op, domain, opset))
        if written:
            self._require_exact(op, given, written)
        if opset < BROADCASTING and op in OF_ONE_SHAPE and not domain:
            self._require_one_shape(op, given, opset)
        stem, fresh = f"{self._prefix}/{op}", self._driver.fresh
        names = [fresh(graph, stem)] if outputs == 1 else [fresh(graph, stem) for _ in range(outputs)]
        node = graph.make(op, given, written, domain, names, self.root)
        self.made.append(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def _require_exact(self, op: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> None:
        """Decline where a float attribute, which is of fp32, does not hold what a constant of a double tensor says."""
        lost = [name for name, v in attrs.items() if isinstance(v, float) and is_rounded(v)]
        first = next((i for i in inputs if isinstance(i, Value)), None) if lost else None
        if first is not None and self.dtype(first) == TensorProto.DOUBLE:
            told = ", ".join(f"{name} = {attrs[name]}" for name in lost)
            raise Declined(f"an attribute of {op} does not hold {told}")

    def _require_one_shape(self, op: str, inputs: Sequence[Value], opset: int) -> None:
        """Decline where the inputs are known to be of several shapes, and where a constant is not known to be of the
        shape of the others: at that opset the operator does not broadcast."""
        shapes = [self.shape(i) for i in inputs]
        if any(i.is_written for i in inputs):
            alike = None not in shapes and len(set(shapes)) == 1
        else:
            alike = all(_may_be_alike(one, other) for one, other in combinations(shapes, 2))
        require(alike, f"{op} does not broadcast at opset {opset}")

    def constant(self, array: Any, dtype: int | np.dtype | None = None) -> Value:
        """A new constant tensor of the array's own type, or of `dtype`."""
        array = np.asarray(array)
        if dtype is not None:
            array = array.astype(helper.tensor_dtype_to_np_dtype(dtype) if isinstance(dtype, int) else dtype)
        value = self._graph.constant(array, self._driver.fresh(self._graph, f"{self._prefix}/const"), self.root)
        if value.producer is not None:
            self.made.append(value.producer)
        self.constants.append(value)
        return value

    def _lift(self, given: Any, position: int, all_given: list[Any], formal: tuple[str, ...]) -> Value:
        if isinstance(given, np.ndarray):
            return self.constant(given)
        if not isinstance(given, int | float | np.generic | list | tuple):
            raise PassError(f"a node's input is a tensor, a number or an array, got {given!r}")
        return self.constant(given, self._type_at(position, all_given, formal))

    def _type_at(self, position: int, all_given: list[Any], formal: tuple[str, ...]) -> int:
        """The type that a bare number takes: the schema's own, or that of a tensor that must have the same type."""
        if not formal:
            like = next((i for i in all_given if isinstance(i, Value)), None)
            return self.dtype(like) or TensorProto.FLOAT if like is not None else TensorProto.FLOAT
        kinds = [*formal, *[formal[-1]] * (len(all_given) - len(formal))][: len(all_given)]
        if kinds[position] == "tensor(int64)":
            return int(TensorProto.INT64)
        like = next(
            (i for i, k in zip(all_given, kinds, strict=True) if isinstance(i, Value) and k == kinds[position]), None
        )
        found = self.dtype(like) if like is not None else 0
        if found:
            return found
        whole = np.asarray(all_given[position]).dtype.kind in "iu"
        return int(TensorProto.INT64 if whole else TensorProto.FLOAT)

    def drop_unread_constants(self) -> None:
        """Take away the Constant nodes that nothing reads; initializers are not written then."""
        for node in [v.producer for v in self.constants if v.producer is not None and v.producer.alive]:
            if not any(o is not None and (o.users or o.is_output) for o in node.outputs):
                self._graph.remove(node)

    def undo(self) -> None:
        """Take away what a body made before it declined."""
        for node in reversed(self.made):
            if node.alive:
                self._graph.remove(node)
        for value in (*self.constants, *(o for n in self.made for o in n.outputs if o is not None)):
            self._graph.values.pop(value.name, None)
        made, dead = self._graph.new_tensors, set(self.constants)
        while made and made[-1] in dead:  # what a body makes stands at the end
            made.pop()


# ---- the driver ------------------------------------------------------------------------------------------------------


class Driver:
    """Runs `passes` over `model`, stage by stage. Afterwards `rewrites` has the windows, `declined` the refusals.

    `strategies`: pass name -> strategy, over the target's own choice. `plugins`: the libraries that plugin nodes may
    come from, in order of preference. `skip`: (pass name, node glob) pairs; one that meets no node becomes a warning.
    `exclude`: (pass name, output name) pairs that an earlier run could not prove.
    """

    def __init__(
        self,
        model: Model,
        passes: Iterable[Pass],
        target: Target,
        *,
        strategies: dict[str, str] | None = None,
        plugins: Sequence[str] = (),
        skip: Collection[tuple[str, str]] = (),
        exclude: Collection[tuple[str, str]] = (),
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.passes = {p.name: p for p in passes}
        self.target = target
        self.strategies = strategies or {}
        self.plugins = tuple(plugins)
        self.skip = tuple(skip)
        self.exclude = frozenset(exclude)
        given = options or {}
        self.options_of = {p.name: {n: given[n] for n in p.options if n in given} for p in self.passes.values()}
        self.rewrites: dict[Rewrite, None] = {}
        self.declined: dict[Entry, None] = {}
        self.warnings: list[str] = []
        self.attempts = 0
        self._left = 0
        self._stage = ""  # that runs now
        self._keeping = {p.name for p in self.passes.values() if p.keeps}
        self._libraries = {
            p.name: [
                lib
                for lib in (self.plugins or ("surgeon",))
                if any(r.strategy == "plugin" and r.library == lib for r in p.rules)
            ]
            for p in self.passes.values()
        }
        self.before, self.opset_before = operators(model), model.opset
        self._names: dict[str, int] = {}
        self._clearer = False  # a node was fused where little was known of the result: more of it can be inferred now
        self._aliases: dict[Value, Value] = {}
        self._unmet = dict.fromkeys(self.skip)  # those that have met no node so far

    def run(self) -> None:
        """CLEAN, FUSE and LOWER, each to its fixed point; then what changed nothing is taken back."""
        for name, glob in self.skip:
            if any(_called(n, glob) for s in self.model.scopes for n in s.live()):
                self._unmet.pop((name, glob), None)
        for stage in Stage:
            self.run_stage(stage)
        self.settle()
        self.model.drop_orphans()
        self.warnings += [f"--skip {name}:{glob}: no node is called like that" for name, glob in self._unmet]

    def run_stage(self, stage: Stage) -> None:
        rules = [
            (r.pattern, r)
            for p in sorted(self.passes.values(), key=lambda p: p.name)
            for r in p.rules
            if r.stage is stage and not self._idle(p, r)
        ]
        index: Index[Rule] = Index(rules, self.model)
        self._stage = stage.value
        self._left = GROWTH * sum(operators(self.model).values()) + 1000
        while True:
            changed = False
            while self._sweep(index):
                changed = True
            for p in self.passes.values():
                for model_rule in p.model_rules:
                    if model_rule.stage is stage:
                        changed |= bool(model_rule.body(Editor(self, p.name, stage)))
            if not changed or not (stage is Stage.CLEAN or self._clearer):
                break
            self._clearer = False
            self.model.forget_types()  # what was computed or fused makes more shapes known, and those more to rewrite

    def _idle(self, p: Pass, rule: Rule) -> bool:
        """Whether a rule of the stage LOWER has nothing to do: the target takes every node that it could lower."""
        if rule.strategy is None or p.name in self.strategies:
            return False
        return p.keeps and all(self.target.takes_every(root.key) for root in roots(rule.pattern))

    def _sweep(self, index: Index[Rule]) -> bool:
        """One look at every node, from the outputs up so that the larger of two nested windows comes first."""
        changed = False
        wanted = index.operators
        for graph in self.model.standing_scopes():
            for node in reversed(graph.of(wanted)):
                while node.alive and (rules := index.at(node)) and self._rewrite_at(node, rules):
                    changed = True
        return changed

    def _rewrite_at(self, node: Node, rules: Iterable[tuple[Op, Rule]]) -> bool:
        """Apply the largest match at `node` whose body does not decline."""
        found: list[tuple[Match, Rule]] = []
        tried, held = None, None
        choosy = self.exclude or self.skip
        chosen: dict[str, tuple[str, str]] = {}  # the strategy of each pass for this node
        for pattern, rule in rules:
            if (choosy or rule.strategy is not None) and not self._wanted(rule, node, chosen):
                continue
            if pattern is not tried:  # passes may share a pattern, and then come one after the other
                self.attempts += 1
                tried, held = pattern, match(pattern, node, self.model)
            if held is not None:
                found.append((held, rule))
        if len(found) > 1 and found[0][0] is not found[-1][0]:
            found.sort(key=_larger_first)
        for held, rule in found:
            if self._apply(held, rule):
                break
        else:
            return False
        return True

    def _wanted(self, rule: Rule, node: Node, chosen: dict[str, tuple[str, str]]) -> bool:
        """Whether the rule may be tried at the node: neither excluded nor skipped, and of the strategy that it has."""
        if self.exclude and (rule.pass_name, _out_name(node)) in self.exclude:
            return False
        if self.skip and self.skipped(rule.pass_name, node):
            return False
        if rule.strategy is None:
            return True
        p = self.passes[rule.pass_name]
        found = chosen.get(rule.pass_name)
        if found is None:
            found = chosen[rule.pass_name] = self.strategy(p, node)
        strategy, library = found
        if strategy == "decompose" and rule.strategy == "plugin" and rule.library in self._asked(p):
            self.warnings.append(f"{node.label}: {self._refusal(p, rule.library, node)}: decomposed instead")
        return rule.strategy == strategy and (strategy != "plugin" or rule.library == library)

    def skipped(self, pass_name: str, node: Node) -> bool:
        """Whether the user asked the pass to leave this node alone."""
        met = [(p, glob) for p, glob in self.skip if p == pass_name and _called(node, glob)]
        for found in met:  # of a node that surgeon made, which the file does not have
            self._unmet.pop(found, None)
        return bool(met)

    def strategy(self, p: Pass, node: Node) -> tuple[str, str]:
        """(strategy, plugin library) for a canonical node: the user's word, else what the target takes."""
        forced = self.strategies.get(p.name)
        kept = forced == "keep" or (forced is None and p.name in self._keeping and self.target.takes(node) is None)
        if kept and node.proto.domain != DOMAIN:  # no target keeps a node of surgeon's own
            return "keep", ""
        library = next((lib for lib in self._asked(p) if not self._refusal(p, lib, node)), "")
        return ("plugin", library) if library else ("decompose", "")

    def _asked(self, p: Pass) -> list[str]:
        """The libraries that plugin nodes of the pass may come from."""
        wanted = self.strategies.get(p.name, "plugin" if self.plugins else "decompose")
        return self._libraries[p.name] if wanted == "plugin" else []

    def _refusal(self, p: Pass, library: str, node: Node) -> str:
        """Why the library's plugin does not take the node."""
        refusals = [r.refuses for r in p.rules if r.library == library and r.strategy == "plugin" and r.refuses]
        return next((why for refuses in refusals if (why := refuses(self.model, node))), "")

    # ---- one rewrite -------------------------------------------------------------------------------------------------

    def _apply(self, held: Match, rule: Rule) -> bool:
        builder = Builder(self, rule.pass_name, held.root, rule.strategy, held.nodes)
        try:
            result = rule.body(builder, **held.bound)
            outputs = self._outputs(result, held.root, rule)
        except Declined as refusal:
            builder.undo()
            if str(refusal):
                self.declined[Entry(rule.pass_name, held.root.label, str(refusal))] = None
            return False
        if rule.stage is Stage.LOWER and _says_again(builder, outputs):
            builder.undo()
            return False
        self.commit(held.root, builder.matched, outputs, builder, rule.pass_name, rule.strategy or self._stage)
        self._left -= 1
        if self._left < 0:
            raise PassError(
                f"the passes of the stage {rule.stage.name} do not come to an end: '{rule.pass_name}' keeps applying "
                "to what it made"
            )
        return True

    def _outputs(self, result: Any, root: Node, rule: Rule) -> list[Value | None]:
        if isinstance(result, Value) and len(root.outputs) == 1:
            return [result]
        given = list(result) if isinstance(result, tuple | list) else [result]
        if any(v is not None and not isinstance(v, Value) for v in given):
            raise PassError(f"the pass '{rule.pass_name}' returned {result!r}; a body returns tensors")
        given += [None] * (len(root.outputs) - len(given))
        if len(given) > len(root.outputs):
            raise PassError(
                f"the pass '{rule.pass_name}' returned {len(given)} tensors for {root.label}, which has "
                f"{len(root.outputs)} outputs"
            )
        for old, new in zip(root.outputs, given, strict=True):
            if old is not None and new is None:
                require(not old.users and not old.is_output, f"its output '{old.name}' is read")
        return given

    def commit(
        self,
        root: Node,
        nodes: Iterable[Node],
        outputs: Sequence[Value | None],
        builder: Builder,
        pass_name: str,
        strategy: str,
    ) -> Rewrite:
        """Put what `builder` made in the place of `root`, and merge the windows of the rewrites that it builds on."""
        made = dict.fromkeys(builder.made)
        aliases: dict[Value, Value] = {}
        if len(outputs) != len(root.outputs):
            raise PassError(f"the pass '{pass_name}' gives {len(outputs)} tensors for the outputs of {root.label}")
        for index, old in enumerate(root.outputs):
            new = outputs[index]
            if old is None or new is None or old is new:
                continue
            if new.producer is None or new.producer not in made or new in aliases.values():
                if old.is_output:  # its name is the model's interface
                    new = builder.node("Identity", [new], 1, "", {})
                    made[new.producer] = None
                else:
                    aliases[old] = self._aliases[old] = new
                    root.graph.point(old, new)
                    continue
            if strategy == FUSED and self.model.is_vague(old):
                self._clearer = True
            root.graph.take_over(old, new)
        gone = root.graph.remove(root)
        builder.drop_unread_constants()
        removed: dict[Node, None] = {}
        for n in gone:
            if n.origin is None:
                removed[n] = None
        for n in builder.made:
            if not n.alive:
                del made[n]
        record = Rewrite(
            [pass_name],
            strategy,
            root,
            [(pass_name, builder.name)],
            removed,
            made,
            [n for n in nodes if n.origin is None],
            aliases,
            builder.warnings,
            builder.tolerance,
        )
        if len(removed) < len(gone):
            for origin in dict.fromkeys([n.origin for n in gone if n.origin is not None]):
                self._absorb(record, origin)
        for node in record.added:
            node.origin = record
        self.rewrites[record] = None
        return record

    def _absorb(self, record: Rewrite, origin: Rewrite) -> None:
        record.passes = [*origin.passes, *[p for p in record.passes if p not in origin.passes]]
        record.keys += origin.keys
        record.removed = {**origin.removed, **record.removed}
        record.added = {n: None for n in (*origin.added, *record.added) if n.alive}
        record.matched = [*origin.matched, *record.matched]
        record.aliases = {**origin.aliases, **record.aliases}
        record.warnings = [*origin.warnings, *record.warnings]
        if record.strategy == LOWERED:  # by a rule that has none: what the origin chose says more
            record.strategy = origin.strategy if origin.strategy in STRATEGIES else LOWERED
        record.tolerance = max(record.tolerance, origin.tolerance)
        if origin.root.origin is None:
            record.root = origin.root
        origin.part_of = record
        self.rewrites.pop(origin, None)

    def fresh(self, graph: Graph, stem: str) -> str:
        """`stem_n` with the first n that no tensor in sight carries."""
        number = self._names.get(stem, 0) + 1
        while graph.find(name := f"{stem}_{number}") is not None:
            number += 1
        self._names[stem] = number
        return name

    # ---- taking back what changed nothing ----------------------------------------------------------------------------

    def settle(self) -> None:
        """A rewrite whose window reads like the file's is taken back: nothing was applied."""
        for record in list(self.rewrites):
            if self._same_window(record):
                # What a body says of the file holds whether or not anything is written.
                self.warnings += record.warnings
                self.take_back(record)

    def take_back(self, record: Rewrite) -> None:
        for node in reversed(list(record.removed)):
            self._put_back(node)
        for node in record.removed:
            self._put_back_sources(node)
        for node in reversed(list(record.added)):
            if node.alive:
                node.graph.remove(node)
        del self.rewrites[record]

    def _put_back(self, node: Node) -> None:
        """Put back a node that went; it reads what stands now."""
        for position, value in enumerate(node.inputs):
            present = self.present(value)
            if present is not value and present is not None:
                node.inputs[position] = present
                node.proto.input[position] = present.name
        node.graph.restore(node)

    def _put_back_sources(self, reader: Node) -> None:
        """Put back what a node that is back reads, where that went since: with another rewrite, as its last reader."""
        todo = [reader]
        for node in todo:  # grows
            for source in [v.producer for v in node.reads() if v.producer is not None]:
                if source.alive:
                    continue
                self._put_back(source)
                self._own_again(source)
                todo.append(source)

    def _own_again(self, node: Node) -> None:
        """Have the rewrite that a node went with know that it stands."""
        record = node.origin
        while record is not None and record.part_of is not None:
            record = record.part_of
        if record is not None:
            record.added[node] = None
            return
        for record in self.rewrites:
            record.removed.pop(node, None)

    def present(self, value: Value | None) -> Value | None:
        """The tensor that readers of `value` read now."""
        while value is not None and value in self._aliases:
            value = self._aliases[value]
        return value

    def _same_window(self, record: Rewrite) -> bool:
        """Whether the window computes its outputs with the same operators, inputs and attributes as the file did."""
        if record.aliases or _computing(record.removed) != _computing(record.added):
            return False
        before = {o: n for n in record.removed for o in n.outputs if o is not None}
        after = {o: n for n in record.added for o in n.outputs if o is not None}
        roots = [o for o in before if o in after]
        return bool(roots) and all(self._same_node(before[o], after[o], before, after) for o in roots)

    def _same_tensor(
        self, a: Value | None, b: Value | None, before: dict[Value, Node], after: dict[Value, Node]
    ) -> bool:
        if a is None or b is None:
            return a is b
        made_a, made_b = before.get(a), after.get(b)
        if made_a is not None and made_b is not None and made_a.key != "Constant":
            return self._same_node(made_a, made_b, before, after)
        if self.present(a) is self.present(b):
            return True
        x, y = _written(a, made_a, self.model), _written(b, made_b, self.model)
        if x is None or y is None or x.dtype != y.dtype:
            return False
        return bool(x.size == y.size == 1 and x.reshape(()) == y.reshape(())) or (
            x.shape == y.shape and bool(np.array_equal(x, y))
        )

    def _same_node(self, a: Node, b: Node, before: dict[Value, Node], after: dict[Value, Node]) -> bool:
        if a.key != b.key or a.bodies or len(a.outputs) != len(b.outputs):
            return False
        if any(a.attr(k) != b.attr(k) for k in {*a.attrs, *b.attrs}):
            return False
        written_alike = a.attrs.keys() == b.attrs.keys() and len(a.inputs) == len(b.inputs)
        if not written_alike and self.target.takes(a) != self.target.takes(b):
            return False  # equal to ONNX, not to a parser that has defaults of its own
        spec = self.model.schema(a)
        if spec is not None and len(a.inputs) > spec.max_input:
            return False  # an empty name where the opset has no input
        x, y = list(a.inputs), list(b.inputs)
        while x and x[-1] is None:
            x.pop()
        if len(x) != len(y):
            return False

        def same(left: Iterable[Value | None], right: Iterable[Value | None]) -> bool:
            return all(self._same_tensor(p, q, before, after) for p, q in zip(left, right, strict=True))

        return same(x, y) or (a.key in COMMUTATIVE and len(x) == 2 and same(x, reversed(y)))


def _may_be_alike(one: Shape | None, other: Shape | None) -> bool:
    """Whether nothing is known that tells two shapes apart."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(p == q or None in (p, q) for p, q in zip(one, other, strict=True))


def is_rounded(number: float) -> bool:
    """Whether fp32 does not hold a number."""
    try:
        return FP32.unpack(FP32.pack(number))[0] != number and not math.isnan(number)
    except OverflowError:
        return True


def _says_again(builder: Builder, outputs: Sequence[Value | None]) -> bool:
    """Whether a body has written its root once more, to the letter: what the target lacks is not its to mend."""
    root, made = builder.root, builder.made[-1:]
    return any(
        n.key == root.key and outputs == n.outputs and n.inputs == root.inputs and n.attrs == root.attrs for n in made
    )


def _larger_first(found: tuple[Match, Rule]) -> tuple[int, str]:
    """Sorts what holds at one node: the larger window first, and of equal ones the pass that comes first by name."""
    return -len(found[0].nodes), found[1].pass_name


def _called(node: Node, glob: str) -> bool:
    """Whether a node's name, or what reports call it where it has none, is like the glob."""
    return fnmatchcase(node.name or node.label, glob)


def _computing(nodes: Iterable[Node]) -> int:
    """How many of the nodes compute something."""
    count = 0
    for node in nodes:
        if node.key != "Constant":
            count += 1
    return count


def _out_name(node: Node) -> str:
    """The name by which a rewrite at `node` is known: that of its first output, which rewriting keeps."""
    for out in node.outputs:
        if out is not None:
            return out.name
    return node.label


def operators(model: Model) -> dict[str, int]:
    """How many nodes of each operator the model has now, bodies and local functions included."""
    found: dict[str, int] = {}
    for scope in model.scopes:
        for key, nodes in scope.by_op.items():
            if nodes:
                op = key.rpartition("::")[2]
                found[op] = found.get(op, 0) + len(nodes)
    return found


def _written(value: Value, made: Node | None, model: Model) -> np.ndarray | None:
    """The value of an initializer or a Constant node; None for any other tensor."""
    node = made or value.producer
    if value.tensor is not None:
        return model.constant(value)
    return constant_value(node.proto) if node is not None and node.key == "Constant" else None


# ---- rules over the whole model --------------------------------------------------------------------------------------


class Editor:
    """What a rule over the whole model works with: every node in reach, and `replace` for each change."""

    def __init__(self, driver: Driver, pass_name: str, stage: Stage) -> None:
        self._driver = driver
        self._pass = pass_name
        self._stage = stage
        self.model = driver.model
        self.target = driver.target
        self.plugins = driver.plugins

    def nodes(self, wanted: Callable[[str], Any] | None = None) -> Iterator[Node]:
        """The nodes of every scope, in order, as they are now; only those whose operators are `wanted`."""
        for graph in self.model.scopes:
            yield from graph.live() if wanted is None else graph.of([k for k in graph.by_op if wanted(k)])

    def excluded(self, node: Node) -> bool:
        """Whether the rewrite at this node was asked to be skipped, or could not be proved."""
        d = self._driver
        return (self._pass, _out_name(node)) in d.exclude or d.skipped(self._pass, node)

    def decline(self, node: Node, why: str) -> None:
        self._driver.declined[Entry(self._pass, node.label, why)] = None

    def warn(self, text: str) -> None:
        self._driver.warnings.append(text)

    def builder(self, node: Node) -> Builder:
        """A builder for what is to stand in the place of `node`."""
        return Builder(self._driver, self._pass, node, None)

    def replace(self, node: Node, outputs: Sequence[Value | None], builder: Builder) -> None:
        """Put `outputs`, made with `builder`, in the place of those of `node`."""
        self._driver.commit(node, builder.matched, outputs, builder, self._pass, self._stage.value)


# ---- asking why ------------------------------------------------------------------------------------------------------


def attempts_at(node: Node, passes: Iterable[Pass], model: Model) -> list[tuple[str, Stage, Match | None, Attempt]]:
    """For each pass with a rule whose root is the node's operator: the match, or the best failed attempt."""
    found = []
    for p in passes:
        for rule in p.rules:
            for root in roots(rule.pattern):
                if root.key != node.key:
                    continue
                attempt = Attempt()
                found.append((p.name, rule.stage, match(root, node, model, attempt), attempt))
    return found


__all__ = [
    "DOMAIN",
    "Builder",
    "Declined",
    "Driver",
    "Editor",
    "ModelRule",
    "Pass",
    "Reference",
    "Rewrite",
    "Rule",
    "Stage",
    "attempts_at",
    "require",
    "rewrite",
    "rewrite_model",
]
