"""Rules without a body of their own: what the subgraph becomes is a pattern, too, or a function that there is.

fuse = rewrites(halved_product(x, op.Erf(x / math.sqrt(2)) + 1), op.Gelu(x), requires="Gelu")
"""

from collections.abc import Callable, Mapping
from typing import Any

from surgeon.errors import PassError
from surgeon.ir.schemas import DOMAIN, MOVED
from surgeon.rules.builder import Builder
from surgeon.rules.pattern import Absent, Attr, Const, Op, Pattern, names_of
from surgeon.rules.rule import Cures, Rule, Stage, rule
from surgeon.targets.target import Target

# What a node of surgeon's own plugin library has besides its attributes.
PLUGIN = {"domain": DOMAIN, "plugin_version": "1", "plugin_namespace": "surgeon"}


def rewrites(
    pattern: Pattern,
    replacement: Pattern | Callable[..., Any],
    *,
    requires: str = "",
    stage: Stage | None = None,
    strategy: str | None = None,
    cures: Cures = (),
    targets: Callable[[Target], bool] | None = None,
    shortens: bool = False,
) -> Rule:
    """A rule that writes `replacement` in place of what `pattern` matches. `rule` describes what follows `requires`.

    A pattern as the replacement is of operators, numbers, and names that each match of `pattern` binds. A function is
    the body of the rule.

    requires  the operator that ONNX must have for the type of the tensor `x`, as `Builder.require_op` asks; only where
              the replacement is a pattern

    Raises PassError for a replacement with a name that some match does not bind.
    """
    made = rule(pattern, stage=stage, strategy=strategy, cures=cures, targets=targets, shortens=shortens)
    if not isinstance(replacement, Pattern):
        return made(replacement)
    unbound = sorted(names_of(replacement).possible - names_of(pattern).sure)
    if unbound:
        raise PassError(f"a replacement has the name '{unbound[0]}', which its pattern does not always bind")

    def body(b: Builder, **found: Any) -> Any:
        if requires:
            b.require_op(requires, found["x"])
        return _written(b, replacement, found)

    return made(body)


def _written(b: Builder, pattern: Pattern, found: Mapping[str, Any]) -> Any:
    """The tensor that a pattern stands for, of what is bound to its names."""
    if isinstance(pattern, Absent):
        return None
    if isinstance(pattern, Op):
        inputs = [_written(b, p, found) for p in pattern.inputs]
        attrs = {name: found[a.name] if isinstance(a, Attr) else a for name, a in pattern.attrs.items()}
        for name, position in MOVED.get(pattern.type, {}).items() if not pattern.domain else ():
            if position < len(inputs):  # by name, which the opset of the model spells
                attrs[name], inputs[position] = inputs[position], None
        return b.node(pattern.type, inputs, 1, pattern.domain, attrs)
    value = pattern.value if isinstance(pattern, Const) else None
    return found[getattr(pattern, "name", "")] if value is None else value
