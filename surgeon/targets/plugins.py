"""Which plugin nodes a target finds a plugin for."""

from surgeon.ir.graph import Node
from surgeon.targets.releases import EVERY_RELEASE, Range, Version, between, dotted, since

STOCK_DOMAIN = "trt.plugins"
OWN_DOMAIN = "surgeon"

# The releases that import plugin nodes at all.
PLUGIN_READERS = since(7, 1)
NO_PLUGINS = "there are no plugins"

# Plugins that TensorRT's own library registers: NVIDIA/TensorRT plugin/ of each release, docs/trt-support.md section 7.
STOCK: dict[str, Range] = {
    "LReLU_TRT": between((7, 2), (10, 16)),
    "InstanceNormalization_TRT": since(7, 0),
    "GroupNormalizationPlugin": since(8, 0),
    "ROIAlign_TRT": since(8, 5),
    "ScatterElements": since(10, 0),
}
# What a release calls the newest version of such a plugin: (first release, version). Elsewhere it is "1".
STOCK_VERSIONS: dict[str, tuple[tuple[Version, str], ...]] = {
    "InstanceNormalization_TRT": (((7, 0), "001"), ((7, 1), "1"), ((10, 2), "3"))
}


def names_plugin(node: Node) -> bool:
    """Whether a node that the parser has no importer for says that it is a plugin."""
    if node.proto.domain in (STOCK_DOMAIN, OWN_DOMAIN):
        return True
    return any(a.name in ("plugin_version", "plugin_namespace") for a in node.proto.attribute)


def why_no_plugin(op: str, version: Version, *, rtx: bool) -> str | None:
    """Why a target finds no plugin of this name; None where it does. Plugins that are not NVIDIA's count as there."""
    if not PLUGIN_READERS.covers(version, rtx=rtx):
        return NO_PLUGINS
    where = STOCK.get(op, EVERY_RELEASE)
    if where.covers(version):
        return None
    return f"the plugin {op} exists from {dotted(where.releases[0])} to {dotted(where.releases[-1])} only"


def stock_version(op: str, version: Version) -> str:
    """The version by which a release knows a plugin of NVIDIA's own library."""
    named = [name for first, name in STOCK_VERSIONS.get(op, ()) if first <= version]
    return named[-1] if named else "1"
