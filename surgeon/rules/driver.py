"""The driver runs the rules of a run's passes to a fixed point.

The stages run in order, each to a fixed point. Rewrites that build on one another (a spelling fused, then lowered)
become one `Rewrite` with one window: what the file had, and what is there now. A rewrite whose result is what the
file had is taken back and not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from surgeon.errors import ModelError, PassError, UsageError, line_in, words_of
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.report import LIKELY_INVALID, Declined
from surgeon.rules import cost, scalars
from surgeon.rules.alike import Repeats, Unchanged
from surgeon.rules.asked import Overruled, Skips
from surgeon.rules.builder import Builder, name_of_rewrite
from surgeon.rules.context import Context, Lowering
from surgeon.rules.index import Index
from surgeon.rules.match import Match, match
from surgeon.rules.pattern import Op, roots
from surgeon.rules.rule import Decline, ModelRule, Pass, Rule, Stage, require
from surgeon.rules.window import Rewrite
from surgeon.targets.target import Target
from surgeon.targets.unsupported import Unsupported

GROWTH = 10  # rewrites a node, on the average, after which a stage is taken not to come to an end
ROUNDS = 4  # further runs over what the one before has written, at most; nearly always the first changes nothing
FUSED = Stage.FUSE.value
SHARED = 64  # sets of rules whose decision trees are kept for further runs: a run has one tree a stage
HIGH = (Stage.CLEAN.value, FUSED)  # the strategies of what lowers nothing
PASSED_ON = (Decline, UsageError, ModelError, MemoryError, OSError)  # what a body may raise


class Driver:
    """Runs passes over a model, stage by stage.

    strategies  pass name -> strategy, over the target's own choice
    plugins     the libraries that plugin nodes may come from, in order of preference
    skip        (pass name, node glob) pairs; one that meets no node becomes a warning
    exclude     (pass name, output name) pairs that an earlier run could not prove

    Afterwards `rewrites` has the rewrites that stay, `declined` the refusals, `warnings` what the bodies reported.
    """

    def __init__(
        self,
        model: Model,
        passes: Iterable[Pass],
        target: Target,
        *,
        strategies: Mapping[str, str] | None = None,
        plugins: Sequence[str] = (),
        skip: Collection[tuple[str, str]] = (),
        exclude: Collection[tuple[str, str]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.context = Context(model, passes, target, strategies=strategies, plugins=plugins, options=options)
        self.model = model
        self.target = target
        self.exclude = frozenset(exclude)
        # of two rules that tie, the first
        self._passes = tuple(sorted(self.context.passes.values(), key=lambda p: p.doc))
        self.rewrites: dict[Rewrite, None] = {}
        self.declined: dict[Declined, None] = {}
        self.edited_by: dict[str, None] = {}  # the passes whose rules over the whole model changed it
        self.warnings: list[str] = []
        self.attempts = 0  # matches tried
        self.before, self.opset_before = operators(model), model.opset
        self._skips = Skips(skip)
        self._leaves_alone = bool(self.exclude or skip)  # some pass some node
        self._overruled = Overruled(self.context, self.is_excluded)
        self._of_users: set[Node] = set()  # what the user's passes have written
        self._short: dict[Node, Rule] = {}  # the nodes of windows that a rule found as short as it would write them
        self._budget = 0  # rewrites that the stage may still make
        self._stage = ""  # the value of the stage that runs now
        self._more_to_infer = False  # a node was fused where little was known of the result
        self._aliases: dict[Value, Value] = {}
        self._repeats: Repeats | None = None  # where FUSE need not be tried again
        self._settled: set[Node] = set()  # of these, the nodes at which the stage has found nothing to apply

    @cached_property
    def _indexes(self) -> Mapping[Stage, Index[Rule]]:
        with_plugin = frozenset(p.name for p in self._passes if self.context.libraries_asked(p))
        return _indexes_of(self._passes, self.target, frozenset(self.context.strategies), with_plugin)

    def run(self) -> None:
        """Run the stages until another run over what they wrote would change nothing."""
        self._skips.meet(n for s in self.model.scopes for n in s.live())
        self._run_stages()
        lowered = self.model.has_other_opsets
        last = [r for p in self._passes for r in p.model_rules if r.last]
        for number in range(ROUNDS):
            changed = bool(self.rewrites or lowered) and self._run_again(lowered, everywhere=number > 0)
            if not changed and not self._run_model_rules(last):
                break
        self.model.drop_orphans()
        self.warnings += self._skips.warnings()
        self.warnings += self._overruled.warnings({name for r in self.rewrites for name in r.passes})

    def _run_stages(self) -> None:
        """Run CLEAN, FUSE and LOWER, each to its fixed point; then take back what changed nothing."""
        for stage in Stage:
            self.run_stage(stage)
        self.settle()

    def _run_again(self, lowered: bool, *, everywhere: bool) -> bool:
        """Run the stages over the current graph, as if read from a file; whether that changed anything.

        What an earlier round made counts as the file's: so a round that fuses what the round before has written out,
        and writes it out again, changes nothing, and is taken back. Where nothing was lowered, FUSE has come to its
        end, and CLEAN alone may find more. Unless it is to look `everywhere`, FUSE looks into one of the rewrites that
        repeat each other: where that changes nothing, the others are left alone.
        """
        lowered = lowered or any(r.strategy not in HIGH for r in self.rewrites)
        earlier, refusals, self.rewrites, self.declined = self.rewrites, self.declined, {}, {}
        said = list(self.warnings)  # those of the file's nodes: what follows is about nodes that were made
        made = {n: n.origin for record in earlier for n in record.added if n.alive}
        for node in made:
            node.origin = None
        self.model.forget_types()
        self.run_stage(Stage.CLEAN)
        if lowered or self.rewrites:
            self._repeats = None if everywhere else Repeats(self.model, earlier)
            self._run_stages()
            self._repeats = None
        done = {(name, record.root.label) for record in self.rewrites for name in record.passes}
        refusals = {d: None for d in refusals if (d.pass_name, d.node) not in done}
        found, self.rewrites, self.declined = self.rewrites, earlier, refusals
        for node, record in made.items():
            node.origin = node.origin or record
        self._build_on_earlier(found, made)
        self.warnings = said
        return bool(found)

    def _build_on_earlier(self, found: Iterable[Rewrite], made: Mapping[Node, Rewrite]) -> None:
        """Make the rewrites of earlier rounds, whose nodes those found now took away or read, a part of them."""
        for record in found:
            makers = {n: _standing_in(n, made) for n in (*record.removed, *record.matched)}
            built_on = [made[maker] for n in record.removed if (maker := makers[n]) is not None]
            record.removed = {n: None for n in record.removed if makers[n] is None}
            record.matched = [n for n in record.matched if makers[n] is None]
            self._absorb(record, built_on)
        for record in list(found):
            if record in self.rewrites:
                self._absorb(record, _origins_read(record.added, record.aliases))
        unchanged = Unchanged(self.model, self.target, self.present)
        for record in list(found):
            if record in self.rewrites and unchanged.holds(record):
                self.take_back(record)

    def _absorb(self, record: Rewrite, origins: Iterable[Rewrite]) -> None:
        """Make earlier rewrites, or what has absorbed them, a part of one that builds on them."""
        for node in record.made:
            node.origin = record
        for part in dict.fromkeys(origins):
            origin = part.whole
            if origin is not record:
                record.absorb(origin)
                self.rewrites.pop(origin, None)
        self.rewrites[record] = None

    def run_stage(self, stage: Stage) -> None:
        """Run the rules of one stage to their fixed point."""
        model_rules = [r for p in self._passes for r in p.model_rules if r.stage is stage and not r.last]
        index = self._indexes[stage]
        self._stage = stage.value
        self._settled.clear()
        self._budget = GROWTH * sum(operators(self.model).values()) + 1000
        while True:
            changed = False
            while self._sweep(index):
                changed = True
            changed |= self._run_model_rules(model_rules)
            if not changed or not (stage is Stage.CLEAN or self._more_to_infer):
                break
            self._more_to_infer = False
            self.model.forget_types()  # what was computed or fused makes more shapes known, and those more to rewrite

    def _run_model_rules(self, rules: Iterable[ModelRule]) -> bool:
        """Run rules over the whole model; whether one of them changed it."""
        changed = False
        for model_rule in rules:
            opset = self.model.opset
            name, body = model_rule.pass_name, model_rule.body
            editor = Editor(self, name, model_rule.stage)
            try:
                body(editor)
            except PASSED_ON:
                raise
            except Exception as error:
                raise PassError(f"the pass '{name}' failed: {_said_in(body, error)}") from error
            if editor.changed or self.model.opset != opset:
                self.edited_by[name] = None
            changed |= editor.changed
        return changed

    def _sweep(self, index: Index[Rule]) -> bool:
        """Look at every node once, from the outputs up, so that the larger of two nested windows comes first."""
        changed = False
        self._short.clear()
        wanted, is_constant, settled = index.operators, self.model.constants.is_constant, self._settled
        for graph in self.model.standing_scopes():
            for node in reversed(graph.of(wanted)):
                if node in settled:
                    continue
                while node.alive and (rules := index.at(node, is_constant)) and self._rewrite_at(node, rules):
                    changed = True
        return changed

    def _rewrite_at(self, node: Node, rules: Iterable[tuple[Op, Rule]]) -> bool:
        """Apply the first of the rules that match at `node` whose body does not decline."""
        candidates = self._candidates_at(node, rules)
        if not candidates and self._repeats is not None and self._repeats.hold([node]):
            self._settled.add(node)
        if len(candidates) > 1:
            candidates.sort(key=_by_benefit)
        return any(self._apply(c.held, c.rule) for c in candidates)

    def _candidates_at(self, node: Node, rules: Iterable[tuple[Op, Rule]]) -> list[_Candidate]:
        """The rules that may be applied at the node, each with its match."""
        found: list[_Candidate] = []
        tried, held = None, None
        lowerings: dict[str, Lowering] = {}  # of each pass for this node
        for pattern, rule in rules:
            if (self._leaves_alone or rule.strategy) and not self._may_apply(rule, node, lowerings):
                continue
            if rule.cures and not self._is_cured(rule, node):
                continue
            if pattern is not tried:  # passes may share a pattern, and then come one after the other
                self.attempts += 1
                tried, held = pattern, match(pattern, node, self.model)
            if held is not None and not self._is_repeated(held) and not self._is_of_user(held, rule):
                found.append(_Candidate(held, rule, pattern))
        return found

    def _is_cured(self, rule: Rule, node: Node) -> bool:
        """Whether the target refuses the node for a condition that the rule fixes."""
        if rule.cures is True:
            return self.target.why_unsupported(node, rewriting=True) is not None
        return any(self.target.refuses(node, condition) is not None for condition in rule.cures)

    def _is_of_user(self, held: Match, rule: Rule) -> bool:
        """Whether one of surgeon's rules of the stage FUSE holds among nodes that the user's passes have written."""
        return rule.own and self._stage == FUSED and bool(self._of_users) and self._of_users.issuperset(held.nodes)

    def _is_repeated(self, held: Match) -> bool:
        """Whether a rule of the stage FUSE holds among nodes where it is tried elsewhere, see `_run_again`."""
        return self._repeats is not None and self._stage == FUSED and self._repeats.hold(held.nodes)

    def _may_apply(self, rule: Rule, node: Node, lowerings: dict[str, Lowering]) -> bool:
        """Whether the rule is neither excluded nor skipped at the node, and of the strategy that the node gets."""
        if self.is_excluded(rule.pass_name, node):
            return False
        if rule.strategy is None:
            return True
        p = self.context.passes[rule.pass_name]
        lowering = lowerings.get(p.name)
        if lowering is None:
            lowering = lowerings[p.name] = self.context.lowering(p, node)
        strategy, library = lowering
        refused = strategy == "decompose" and rule.strategy == "plugin"
        if refused and rule.library in self.context.libraries_asked(p):
            why = self.context.refusal(p, rule.library, node)
            self.warnings.append(f"{node.label}: {why}: decomposed instead")
        return rule.strategy == strategy and (strategy != "plugin" or rule.library == library)

    def is_excluded(self, pass_name: str, node: Node) -> bool:
        """Whether the pass leaves the node alone: an earlier run could not prove it, or the user skips it."""
        if not self._leaves_alone:
            return False
        return (pass_name, name_of_rewrite(node)) in self.exclude or self._skips.applies(pass_name, node)

    # ---- one rewrite -------------------------------------------------------------------------------------------------

    def _apply(self, held: Match, rule: Rule) -> bool:
        """Run the rule's body on a match; whether it rewrote anything."""
        builder = Builder(self.context, rule.pass_name, held.root, rule.strategy, held.nodes)
        try:
            result = _result_of(rule, builder, held)
            outputs = _outputs_of(result, held.root, rule)
            # a reader that takes a scalar would see that it reads another tensor
            for old, new in zip(held.root.outputs, outputs, strict=True):
                if old is not None and new is not None and old is not new:
                    why = scalars.refused(self.model, old, new)
                    require(not why, why)
            if rule.shortens:
                self._require_shorter(builder, rule)
            if rule.stage is Stage.LOWER and self.target.dla:
                self._require_on_dla(builder)
        except Decline as refusal:
            builder.undo()
            if str(refusal):
                self.declined[Declined(rule.pass_name, held.root.label, str(refusal))] = None
            if not rule.own:
                self._overruled.decline(rule, held.root)
            return False
        if rule.stage is Stage.LOWER and _wrote_its_root(builder, outputs):
            builder.undo()
            return False
        self.commit(builder, outputs, rule.pass_name, rule.strategy or self._stage)
        self._budget -= 1
        if self._budget < 0:
            raise PassError(
                f"the passes of the stage {rule.stage.name} do not come to an end: '{rule.pass_name}' keeps applying "
                "to what it made"
            )
        return True

    def _require_shorter(self, builder: Builder, rule: Rule) -> None:
        """Decline unless what a body made, once it is lowered, is less than what matched: see `cost.size`.

        So the file keeps its own spelling, which TensorRT may know, where there is nothing to gain, and what a rule
        wrote is not written again. What the body said of the file, and double precision, are worth a rewrite as it is.
        A part of a window that is as short already is left alone, too. The report has a reason where that is news: the
        window is of the file, and neither what would be written nor a node that is written again.
        """
        root, matched = builder.root, builder.matched
        is_of_file = root.origin is None or root.origin.strategy == Stage.CLEAN.value  # which copies functions
        if builder.warnings and is_of_file or cost.is_double_inside(self.model, matched, root):
            return
        require(self._short.get(root) is not rule)
        asked = {n.key for n in matched}  # what is lowered in any case counts as one node
        with self.context.trying():
            tried = [builder]
            for step in tried:  # grows
                tried += [b for n in step.alive if n.key not in asked and (b := self._written_out(n)) is not None]
            gone = {lowered.root for lowered in tried[1:]}
            after = [n for step in tried for n in step.alive if n not in gone]
            is_shorter = cost.size(after, self.target) < cost.size(matched, self.target)
            for lowered in reversed(tried[1:]):
                lowered.undo()
        if not is_shorter:
            self._short.update(dict.fromkeys(matched, rule))
            is_again = any(n.key in asked and self.context.is_lowered(n.key) for n in builder.alive)
            is_news = is_of_file and not is_again and cost.computing(matched) != cost.computing(after)
            raise Decline(cost.SHORT if is_news else "")

    def _written_out(self, node: Node) -> Builder | None:
        """What the stage LOWER makes of a node, to be undone; None where it leaves the node alone."""
        rules, said = self._indexes[Stage.LOWER].at(node, self.model.constants.is_constant), len(self.warnings)
        candidates = sorted(self._candidates_at(node, rules), key=_by_benefit)
        del self.warnings[said:]
        for held, rule, _ in candidates:
            builder = Builder(self.context, rule.pass_name, node, rule.strategy, held.nodes)
            try:
                _result_of(rule, builder, held)
            except Decline:
                builder.undo()
                continue
            return builder
        return None

    def _require_on_dla(self, builder: Builder) -> None:
        """Decline to write out what the GPU beside a DLA supports, where it would run on the GPU all the same."""
        gpu = replace(self.target, dla=False)
        if gpu.why_unsupported(builder.root, rewriting=True, exactly=True) is not None:
            return
        for node in builder.alive:
            left = not self.context.is_lowered(node.key) and builder.why_unsupported(node) is not None
            require(not left, f"DLA has no {node.op} either: it runs on the GPU, which supports it")

    def grant(self, nodes: int) -> None:
        """A rule over the whole model has made nodes, which others may rewrite."""
        self._budget += GROWTH * nodes

    def commit(self, builder: Builder, outputs: Sequence[Value | None], pass_name: str, strategy: str) -> None:
        """Put what `builder` made in place of its root, and absorb the rewrites that it builds on."""
        root = builder.root
        made = dict.fromkeys(builder.made)
        if len(outputs) != len(root.outputs):
            raise PassError(f"the pass '{pass_name}' gives {len(outputs)} tensors for the outputs of {root.label}")
        if self._overruled:
            self._overruled.note(builder.matched, pass_name)
        aliases = self._hand_over(builder, outputs, made, strategy)
        if not self.context.passes[pass_name].own:
            self._of_users.update(made)
        removed: dict[Node, None] = {}
        built_on = []
        for node in root.graph.remove(root):
            origin = node.origin
            if origin is None:
                removed[node] = None
            else:
                built_on.append(origin)
        builder.drop_unread_constants()
        record = Rewrite(
            passes=[pass_name],
            strategy=strategy,
            root=root,
            keys=[(pass_name, builder.name)],
            removed=removed,
            made={n: None for n in made if n.alive},
            matched=[n for n in builder.matched if n.origin is None],
            aliases=aliases,
            warnings=builder.warnings,
            tolerance=builder.tolerance,
        )
        self._absorb(record, [*built_on, *_origins_read(made, aliases)])

    def _hand_over(
        self, builder: Builder, outputs: Sequence[Value | None], made: dict[Node, None], strategy: str
    ) -> dict[Value, Value]:
        """Give the readers of the root's outputs the new tensors; the outputs that no new node makes, as aliases."""
        root = builder.root
        aliases: dict[Value, Value] = {}
        for old, new in zip(root.outputs, outputs, strict=True):
            if old is None or new is None or old is new:
                continue
            if new.producer is None or new.producer not in made or new in aliases.values():
                if not old.is_output:
                    aliases[old] = self._aliases[old] = new
                    root.graph.point(old, new)
                    continue
                new = builder.node("Identity", [new], 1, "", {})  # an output's name is the model's interface
                made[new.producer] = None
            if strategy == FUSED and self.model.types.is_vague(old):
                self._more_to_infer = True
            root.graph.take_over(old, new)
        return aliases

    # ---- taking back what changed nothing ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Take back a rewrite that writes what the file had, and one that the target runs worse."""
        unchanged, measured = Unchanged(self.model, self.target, self.present), cost.Cost(self.model, self.target)
        for record in list(self.rewrites):
            if unchanged.holds(record):
                # What a body says of the file holds whether or not anything is written.
                self.warnings += record.warnings
                self.take_back(record)
            elif self._may_take_back(record) and (why := measured.why_worse(record)) is not None:
                self.declined[Declined(record.passes[-1], record.root.label, why)] = None
                self.take_back(record)

    def _may_take_back(self, record: Rewrite) -> bool:
        """Whether the user did not ask for the rewrite, by a pass or a strategy."""
        return all(self.context.passes[n].own and n not in self.context.strategies for n in record.passes)

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
        """Put back a node that went; it reads the current tensors."""
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
        """Note that a node which a rewrite removed is back."""
        record = node.origin
        if record is not None:
            record.made[node] = None
            return
        for record in self.rewrites:
            record.removed.pop(node, None)

    def present(self, value: Value | None) -> Value | None:
        """The tensor that readers of `value` read now."""
        while value is not None and value in self._aliases:
            value = self._aliases[value]
        return value


@lru_cache(maxsize=SHARED)
def _indexes_of(
    passes: tuple[Pass, ...], target: Target, chosen: frozenset[str], with_plugin: frozenset[str]
) -> Mapping[Stage, Index[Rule]]:
    """The decision tree of each stage, without the rules that have nothing to do: the target supports all that they
    could lower, or has none of the conditions that they fix, or no plugin is asked for. `chosen` has the names of the
    passes whose strategy the user chose, `with_plugin` those that may write plugin nodes."""

    def is_idle(p: Pass, rule: Rule) -> bool:
        if rule.targets is not None and not rule.targets(target):
            return True
        if rule.cures and rule.cures is not True and not any(target.has(c) for c in rule.cures):
            return True
        if rule.strategy == "plugin" and p.name not in with_plugin:
            return True
        if rule.strategy is None or p.name in chosen:
            return False
        return p.keeps and all(target.takes_every(root.key) for root in roots(rule.pattern))

    rules = [r for p in passes for r in p.rules if not is_idle(p, r)]
    return {stage: _index(tuple(r for r in rules if r.stage is stage)) for stage in Stage}


@lru_cache(maxsize=len(Stage) * SHARED)
def _index(rules: tuple[Rule, ...]) -> Index[Rule]:
    """The decision tree of some rules. It takes longer to grow than a small model takes to rewrite."""
    return Index((r.pattern, r) for r in rules)


def _result_of(rule: Rule, builder: Builder, held: Match) -> Any:
    """What the body returns. A node at which one of surgeon's passes raises an error is likely invalid: it is left
    alone. An error of a user's pass ends the run."""
    try:
        return rule.body(builder, **held.bound)
    except PASSED_ON:
        raise
    except Exception as error:
        said = _said_in(rule.body, error)
        if rule.own:
            raise Decline(f"{LIKELY_INVALID}{said}") from error
        raise PassError(f"the pass '{rule.pass_name}' failed at {held.root.label}: {said}") from error


def _said_in(body: Callable[..., Any], error: Exception) -> str:
    """What an error in a body says, and its line in the pass's file."""
    code = getattr(body, "__code__", None)
    path = code.co_filename if code is not None else ""
    line = line_in(path, error)
    return words_of(error) + (f" ('{Path(path).name}', {line})" if line else "")


def _outputs_of(result: Any, root: Node, rule: Rule) -> list[Value | None]:
    """What a body returns, as one tensor or None for each output of the root."""
    if isinstance(result, Value) and len(root.outputs) == 1:
        return [result]
    if result is None:
        raise PassError(f"the pass '{rule.pass_name}' returned nothing for {root.label}; a body returns tensors")
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


def _standing_in(node: Node, made: Mapping[Node, Rewrite]) -> Node | None:
    """Which of the nodes that were made is the node itself, or has it in a body; None where none is."""
    step: Node | None = node
    while step is not None and step not in made:
        step = step.graph.holder
    return step


def _origins_read(made: Iterable[Node], aliases: Mapping[Value, Value]) -> list[Rewrite]:
    """Earlier rewrites whose new tensors this one reads, so it depends on them."""
    read = [v for n in made if n.alive for v in n.inputs if v is not None] + list(aliases.values())
    found = [(v, v.producer.origin) for v in read if v.producer is not None and v.producer.origin is not None]
    return [origin for v, origin in found if not any(v in n.outputs for n in origin.removed)]


def _wrote_its_root(builder: Builder, outputs: Sequence[Value | None]) -> bool:
    """Whether a body wrote a copy of its root, with the same inputs and attributes."""
    root, made = builder.root, builder.made[-1:]
    if None in root.outputs and None not in outputs:
        return False  # it has a name for what was left out
    return any(
        n.key == root.key and outputs == n.outputs and n.inputs == root.inputs and n.attrs == root.attrs for n in made
    )


class _Candidate(NamedTuple):
    """A rule that holds at a node, its match, and the one of its root patterns that holds."""

    held: Match
    rule: Rule
    root: Op


def _by_benefit(found: _Candidate) -> tuple[bool, int, bool, bool]:
    """Sort what a rule replaces more nodes with first, then what asks more of the node, then the user's rule. Fallbacks
    come last. The sort is stable: rules that still tie stay in the order of their passes' docstrings, and those of one
    pass in the order of its file. What a file is called has no part in it."""
    return found.rule.fallback, -len(found.held.nodes), found.root.is_any, found.rule.own


def operators(model: Model) -> dict[str, int]:
    """Count the nodes of each operator, those of bodies and local functions included."""
    found: dict[str, int] = {}
    for scope in model.scopes:
        for key, nodes in scope.by_op.items():
            if nodes:
                op = key.rpartition("::")[2]
                found[op] = found.get(op, 0) + len(nodes)
    return found


# ---- rules over the whole model --------------------------------------------------------------------------------------


class Editor:
    """What a rule over the whole model works with: every node in reach, and `replace` for each change.

    changed  whether something was replaced
    """

    def __init__(self, driver: Driver, pass_name: str, stage: Stage) -> None:
        self._driver = driver
        self._pass = pass_name
        self._stage = stage
        self.model = driver.model
        self.target = driver.target
        self.plugins = driver.context.plugins
        self.changed = False

    def nodes(self, wanted: Callable[[str], Any] | None = None) -> Iterator[Node]:
        """The nodes of every scope, in order, as they are now; only those whose operators are `wanted`."""
        for graph in self.model.scopes:
            yield from graph.live() if wanted is None else graph.of([k for k in graph.by_op if wanted(k)])

    def why_unsupported(self, node: Node) -> Unsupported | None:
        """Why the target does not support a node, whatever types and opset the model has; None where it does."""
        return self.target.why_unsupported(node, rewriting=True)

    def excluded(self, node: Node) -> bool:
        """Whether the rewrite at this node was asked to be skipped, or could not be proved."""
        return self._driver.is_excluded(self._pass, node)

    def decline(self, node: Node, why: str) -> None:
        self._driver.declined[Declined(self._pass, node.label, why)] = None

    def warn(self, text: str) -> None:
        self._driver.warnings.append(text)

    def builder(self, node: Node) -> Builder:
        """A builder for what is to be in place of `node`."""
        return Builder(self._driver.context, self._pass, node, None)

    def replace(self, node: Node, outputs: Sequence[Value | None], builder: Builder) -> None:
        """Put `outputs`, made with `builder`, in place of those of `node`."""
        assert builder.root is node
        self._driver.grant(len(builder.made))
        self._driver.commit(builder, outputs, self._pass, self._stage.value)
        self.changed = True
