"""What a rule and a pass are, and the words with which the body of a rule declines.

    @rule(x / norm | x * op.Reciprocal(norm), stage=Stage.FUSE)
    def l2_norm(b, x, axes, eps=None, floor=None): ...

A pass is a file. Its rules are the functions in it that `@rule` or `@model_rule` marks.
"""

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from surgeon.errors import PassError
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.ir.schemas import DOMAIN
from surgeon.rules.pattern import Pattern, names_of, roots
from surgeon.targets.condition import Condition
from surgeon.targets.target import Target

LOWERING = ("decompose", "plugin")  # the strategies that a rule of the stage LOWER may have

Refusal = Callable[[Model, Node], str]  # why a plugin does not take a node; empty where it does
Cures: TypeAlias = "Condition | Iterable[Condition] | Literal[True]"
Some = TypeVar("Some")


class Stage(enum.Enum):
    """CLEAN computes what can be computed; FUSE turns spellings into one node; LOWER writes supported nodes."""

    CLEAN = "clean"
    FUSE = "fuse"
    LOWER = "lower"


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """One pattern and the function that replaces what it matches.

    strategy  "decompose" or "plugin" for a rule of the stage LOWER, else None
    library   the plugin library that the nodes of a "plugin" rule come from
    refuses   why that plugin does not take a node; None where it takes every node
    cures     the conditions for which a target refuses what the rule rewrites; True for any refusal; empty where the
              rule rewrites what the target supports, too
    targets   for which targets the rule is there; None for all
    fallback  whether it is tried only where no other rule applies
    shortens  whether it is applied only where fewer nodes are there once they are lowered
    own       whether it is one of surgeon's, not one of the user's
    """

    pattern: Pattern
    body: Callable[..., Any]
    stage: Stage
    strategy: str | None = None
    library: str = "surgeon"
    refuses: Refusal | None = None
    cures: tuple[Condition, ...] | Literal[True] = ()
    targets: Callable[[Target], bool] | None = None
    fallback: bool = False
    shortens: bool = False
    pass_name: str = ""
    own: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class ModelRule:
    """A rule over the whole model: `body(editor)` runs once after the other rules of its stage.

    last  whether it runs once after all stages have come to their end: no rule sees what it does
    """

    body: Callable[..., Any]
    stage: Stage
    pass_name: str = ""
    last: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """The rules of one file.

    options       names those of a run's options that the pass reads
    standardizes  whether it writes other domains' operators in ONNX's: `--symmetric-int8` runs such passes first
    own           whether it is one of surgeon's, not one of the user's
    formerly      by a former name of a pass, the rules that it had: all of them where this pass was renamed
    tunes         whether it is only tried, by `--tune`, and kept where the target then runs the model better
    """

    name: str
    doc: str
    rules: tuple[Rule, ...]
    model_rules: tuple[ModelRule, ...]
    path: str = ""
    options: tuple[str, ...] = ()
    standardizes: bool = False
    own: bool = True
    formerly: Mapping[str, tuple[Rule | ModelRule, ...]] = field(default_factory=dict, compare=False)
    tunes: bool = False

    @property
    def stages(self) -> list[Stage]:
        """The stages that the pass has rules for, in the order in which they run."""
        rules: list[Rule | ModelRule] = [*self.rules, *self.model_rules]
        return [s for s in Stage if any(r.stage is s for r in rules)]

    @property
    def keeps(self) -> bool:
        """Whether the pass can leave its canonical node to the target (the strategy `keep`)."""
        lower = [r for r in self.rules if r.stage is Stage.LOWER]
        return any(next(roots(r.pattern)).domain != DOMAIN for r in lower)

    @property
    def strategies(self) -> list[str]:
        """Those of keep, decompose and plugin that the pass has; none for a pass that does not lower."""
        found = {r.strategy for r in self.rules if r.strategy}
        return [s for s in ("keep", *LOWERING) if s in found or (s == "keep" and self.keeps)]


def rule(
    pattern: Pattern,
    *,
    stage: Stage | None = None,
    strategy: str | None = None,
    library: str = "surgeon",
    refuses: Refusal | None = None,
    cures: Cures = (),
    targets: Callable[[Target], bool] | None = None,
    fallback: bool = False,
    shortens: bool = False,
) -> Callable[[Callable[..., Any]], Rule]:
    """Mark a function as the body of a rule: of the stage FUSE, and with a strategy of the stage LOWER.

    The body gets a `Builder` and the names that the pattern bound. It returns what takes the place of the root's
    output:

    - a tensor that it made, or one that exists;
    - a tuple where the root has several outputs, with None for one that no node reads;
    - `()` to remove a node none of whose outputs is read.

    `require`, `require_some` and `no_match` decline. A plugin that does not support every canonical node says so with
    `refuses(model, node)`: the next library or the decomposition takes that node then. A rule that `cures` a
    condition of `surgeon.targets.conditions`, or several, runs only where the target refuses the root for one of them;
    with True, for whatever reason. With `targets` it runs only for targets for which that is true. A rule with
    `fallback` is tried at a node after all others. A rule that `shortens` is applied only where fewer nodes are
    there once they are lowered, and the driver sees to that.

    Raises PassError for a stage and a strategy that do not go together, and for a pattern without an operator at its
    root.
    """
    stage = stage or (Stage.LOWER if strategy else Stage.FUSE)
    if not isinstance(stage, Stage):
        raise PassError(f"the stage of a rule is Stage.CLEAN, Stage.FUSE or Stage.LOWER, not {stage!r}")
    if stage is Stage.LOWER and strategy not in LOWERING:
        raise PassError(f"a rule of the stage LOWER has strategy 'decompose' or 'plugin', not {strategy!r}")
    if stage is not Stage.LOWER and strategy is not None:
        raise PassError(f"a rule with a strategy is of the stage LOWER, not {stage.name}")
    list(roots(pattern))  # raises PassError where one is not an operator
    asked: tuple[Condition, ...] | Literal[True]
    asked = True if cures is True else (cures,) if isinstance(cures, Condition) else tuple(cures)
    return lambda body: Rule(pattern, body, stage, strategy, library, refuses, asked, targets, fallback, shortens)


def why_never_runs(rule: Rule) -> str | None:
    """Why the body of a rule cannot be called with what its pattern binds; None where it can."""
    names, body = names_of(rule.pattern), getattr(rule.body, "__name__", "the body")
    parameters = list(inspect.signature(rule.body).parameters.values())
    if not parameters:
        return f"{body} has no argument for the builder"
    arguments = parameters[1:]
    named = [a for a in arguments if a.kind in (a.POSITIONAL_OR_KEYWORD, a.KEYWORD_ONLY)]
    for a in named:
        if a.default is a.empty and a.name not in names.possible:
            return f"{body} has the argument '{a.name}', which its pattern does not bind"
        if a.default is a.empty and a.name not in names.sure:
            return f"{body} needs a default for '{a.name}', which its pattern does not always bind: {a.name}=None"
    unknown = sorted(names.possible.difference(a.name for a in named))
    if unknown and not any(a.kind is a.VAR_KEYWORD for a in arguments):
        return f"{body} has no argument '{unknown[0]}', which its pattern binds"
    return None


def model_rule(*, stage: Stage, last: bool = False) -> Callable[[Callable[..., Any]], ModelRule]:
    """Mark a function that edits the whole model.

    It gets an `Editor`, whose `replace` makes each change, and runs after its stage's rules. In CLEAN both run again
    until nothing changes. One that is `last` runs once, after all stages.
    """
    return lambda body: ModelRule(body, stage, last=last)


class Decline(Exception):
    """Ends the body of a rule: the pattern holds, but the rewrite must not be made. The message is the reason."""


def require(ok: Any, why: str = "") -> None:
    """Decline the rewrite unless `ok`. The report gives the reason `why` with the node, and nothing without a reason:
    the window is not what the rule is for."""
    if not ok:
        raise Decline(why)


def require_some(value: Some | None, why: str = "") -> Some:
    """Decline the rewrite where `value` is None, for the reason `why`, which may be left out; else return it."""
    if value is None:
        raise Decline(why)
    return value


def no_match() -> NoReturn:
    """Decline the rewrite without a report: the window is not what the rule is for."""
    raise Decline("")
