"""The evidence for a target's verdict, and the nodes for which there is none."""

from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.ir.operators import COUNTS
from surgeon.targets import plugins, tables
from surgeon.targets.condition import shape_of
from surgeon.targets.releases import Version, dotted, since
from surgeon.targets.target import Target

# The releases whose engines were run; docs/trt-support.md section 13.
MEASURED: dict[Version, str] = {(8, 4): "8.4.1.5"}
# The newest release whose parser's source was read; later ones are known from change logs. See `tables`.
LAST_READ: Version = (10, 10)
# "ForeignNode does not support data-dependent shape": NVIDIA/TensorRT#2850 (8.5), #3372 (8.6) and #3903 (10.0). Which
# nodes become one kernel depends on the builder, so it is built in other models.
COUNTED_SIZES = since(8, 5)
UNCOUNTED = ("LogSoftmax", "MatMul", "Softmax")
# Measured with TensorRT-RTX 1.7.1, which fixes ranks when it builds: "ISqueezeLayer without an axes input requires
# dimension 0 to not be 1 at runtime". Engines for larger sizes alone are built.
NOT_ONE = (
    "axes is left out, and no engine is built for sizes in which a dimension that is not fixed is 1: --set fixes it"
)


def basis(target: Target) -> str:
    """What is known of a target rests on: "the parser's source", or what it was measured with."""
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
    counted = _counted_sizes(model) if COUNTED_SIZES.covers(target.version, rtx=target.rtx) else {}
    for scope in model.scopes:
        opset = model.opset_in(scope)
        asked = [key for key in scope.by_op if key in (*UNCOUNTED, "Squeeze") or not target.takes_every(key, opset)]
        for node in scope.of(asked):
            why = _why_unknown(node, target) or _why_counted(node, counted) or _why_not_one(node, target)
            if why is not None:
                found.append((node, why))
    return found


def _counted_sizes(model: Model) -> dict[object, Node]:
    """The sizes that a node of the model makes by counting elements, such as NonZero, with that node."""
    makers = [node for scope in model.scopes for node in scope.of(COUNTS)]
    made = ((node, value) for node in makers for value in node.outputs if value is not None)
    return {size: node for node, value in made for size in model.shape(value) or () if isinstance(size, str)}


def _why_counted(node: Node, counted: dict[object, Node]) -> str | None:
    if not counted or node.key not in UNCOUNTED:
        return None
    sizes = (size for position in range(len(node.inputs)) for size in shape_of(node, position) or ())
    maker = next((counted[size] for size in sizes if size in counted), None)
    if maker is None:
        return None
    return f"a size of its input is not known before {maker.op} has run, and some kernels do not support such sizes"


def _why_not_one(node: Node, target: Target) -> str | None:
    if not target.rtx or node.key != "Squeeze" or len(node.operands()) > 1 or node.attrs.get("axes"):
        return None
    return None if all(isinstance(size, int) for size in shape_of(node, 0) or ()) else NOT_ONE


def _why_unknown(node: Node, target: Target) -> str | None:
    is_plugin = not target.imports(node.key) and plugins.names_plugin(node)
    if is_plugin and node.proto.domain != plugins.OWN_DOMAIN and node.op not in plugins.STOCK and target.plugins:
        return "a plugin: its library decides whether it exists, and what it supports"
    if not target.imports(node.op) or target.takes_every(node.key):
        return None
    for position, value in enumerate(node.inputs):
        is_unknown = value is not None and value.name and shape_of(node, position) is None
        if value is not None and is_unknown and target.why_unsupported(node, rewriting=True) is None:
            return f"the rank of its input '{value.name}' is unknown, and conditions that depend on it are not checked"
    return None
