"""How sure a target's answer is: what it rests on, and the nodes of which nothing is known."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.targets import plugins, tables
from surgeon.targets.condition import shape_of
from surgeon.targets.releases import Version, dotted
from surgeon.targets.target import Target

# The releases whose engines were run; docs/trt-support.md section 13.
MEASURED: dict[Version, str] = {(8, 4): "8.4.1.5"}
# The newest release whose parser's source was read; later ones are known from change logs. See `tables`.
LAST_READ: Version = (10, 10)


def basis(target: Target) -> str:
    """What is said of a target rests on: "the parser's source", or what it was measured with."""
    if target.rtx:
        return f"measured with TensorRT-RTX {tables.RTX_MEASURED}"
    if target.version in MEASURED:
        return f"from the parser's source, and measured with {MEASURED[target.version]}"
    if target.version <= LAST_READ:
        return "from the parser's source"
    return f"from the parser's source up to {dotted(LAST_READ)}, and the change logs since"


def unknown(model: Model, target: Target) -> list[tuple[Node, str]]:
    """The nodes that the table has nothing against, and of which it cannot know, with the reason."""
    found = []
    for node in (n for scope in model.scopes for n in scope.live()):
        why = _why_unknown(node, target)
        if why is not None:
            found.append((node, why))
    return found


def _why_unknown(node: Node, target: Target) -> str | None:
    own = node.proto.domain == plugins.OWN_DOMAIN
    if plugins.names_plugin(node) and not own and node.op not in plugins.STOCK and target.plugins:
        return "a plugin: whether it is there, and what it takes, its library says"
    if not target.imports(node.op) or target.takes_every(node.key):
        return None
    for position, value in enumerate(node.inputs):
        is_unknown = value is not None and value.name and shape_of(node, position) is None
        if value is not None and is_unknown and target.why_unsupported(node, rewriting=True) is None:
            return (
                f"how many dimensions its input '{value.name}' has is not known, and what depends on it is not checked"
            )
    return None
