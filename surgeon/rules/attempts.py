"""What each pass makes of one node: the match, or how far it came."""

from collections.abc import Iterable

from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.rules.match import Attempt, Match, match
from surgeon.rules.pattern import roots
from surgeon.rules.rule import Pass, Stage


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
