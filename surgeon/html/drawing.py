"""A window as a small graph: nodes in layers from the inputs down, as SVG text.

`sketch` reads the nodes of one side of a rewrite into plain boxes and edges; `draw` lays them out and writes SVG. The
colours are classes, which the page's style sheet fills for light and dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from html import escape
from typing import Any

import numpy as np

from surgeon.ir.attributes import type_name
from surgeon.report import grouped

MOST_NODES = 40  # a larger window is given as text
LABEL, DETAIL = 7.4, 6.1  # width of a character, in pixels, of the two sizes of type
LONGEST = 34  # characters of a label or detail
HEIGHT, GAP, SPACE, MARGIN = 24, 26, 16, 8  # of a box, between layers, between boxes, around the drawing: pixels
SMALL_CONSTANT = 4  # elements: a smaller constant is written out


@dataclass(slots=True)
class Box:
    """`kind`: node, input, output, or lane: where a long edge passes, `depth` pixels deep. `detail` is under the
    label, `full` in the tooltip."""

    label: str
    kind: str = "node"
    detail: str = ""
    full: str = ""
    layer: int = 0
    x: float = 0.0  # of the middle
    y: float = 0.0  # of the top
    depth: float = 0.0

    @property
    def width(self) -> float:
        if self.kind == "lane":
            return 4.0
        return max(len(self.label) * LABEL, len(self.detail) * DETAIL) + 22

    @property
    def height(self) -> float:
        if self.kind == "lane":
            return 0.0
        return HEIGHT + (14 if self.detail else 0) - (4 if self.kind != "node" else 0)


@dataclass(slots=True)
class Sketch:
    """Boxes, and edges as pairs of their positions."""

    boxes: list[Box] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The same for windows that differ in names and constants alone."""
        return tuple((b.label if b.kind == "node" else b.kind) for b in self.boxes), tuple(self.edges)


# ---- reading ---------------------------------------------------------------------------------------------------------


def sketch(nodes: Sequence[Any], outputs: Sequence[str]) -> Sketch:
    """The boxes of `nodes` (of `surgeon.ir.graph.Node`), of what they read from outside and of the window's `outputs`.

    Constants are written into the node that reads them.
    """
    drawn = Sketch()
    made = {value: node for node in nodes for value in node.outputs if value is not None}
    shown = [n for n in nodes if n.op != "Constant"]
    place: dict[Any, int] = {}
    for node in shown:
        place[node] = len(drawn.boxes)
        drawn.boxes.append(Box(_short(node.op), "node", _short(_detail(node, made)), node.text))
    for node in shown:
        for value in dict.fromkeys(v for v in node.inputs if v is not None):
            producer = made.get(value)
            if producer is not None and producer in place:
                drawn.edges.append((place[producer], place[node]))
            elif producer is None and not _is_constant(value):
                if value not in place:
                    place[value] = len(drawn.boxes)
                    drawn.boxes.append(Box(_short(value.name), "input", full=value.name))
                drawn.edges.append((place[value], place[node]))
    wanted = set(outputs)
    for node in shown:
        for value in node.outputs:
            if value is not None and value.name in wanted:
                drawn.edges.append((place[node], len(drawn.boxes)))
                drawn.boxes.append(Box(_short(value.name), "output", full=value.name))
    return drawn


def _detail(node: Any, made: dict[Any, Any]) -> str:
    """The node's attributes and constants: `axes=[1], 1e-12`."""
    parts = [
        f"{k}={type_name(k, v) or _plain(v)}"
        for k, v in node.attrs.items()
        if isinstance(v, int | float | str | list) and k not in ("keepdims", "noop_with_empty_axes")
    ]
    for value in node.inputs:
        if value is not None and (value not in made or made[value].op == "Constant") and _is_constant(value):
            parts.append(_constant_text(value))
    return ", ".join(parts)


def _plain(given: Any) -> str:
    if isinstance(given, float):
        return f"{given:.4g}"
    text = str(given)
    return text if len(text) <= 14 else f"{text[:12]}.."


def _is_constant(value: Any) -> bool:
    """An initializer, one that the rewrite left without a reader, or the output of a Constant node."""
    if value.producer is not None:
        return bool(value.producer.op == "Constant")
    return not value.is_input


def _constant_text(value: Any) -> str:
    array = None
    if value.tensor is not None or value.producer is not None:
        array = value.graph.model.constant(value)
    if array is None:
        return "const"
    if array.size and array.size <= SMALL_CONSTANT:
        numbers = (
            [f"{float(x):.4g}" for x in np.asarray(array, np.float64).reshape(-1)]
            if array.dtype.kind in "fiub"
            else ["const"]
        )
        return numbers[0] if array.ndim == 0 or array.size == 1 else f"[{','.join(numbers)}]"
    return f"const {'x'.join(map(str, array.shape))}"


def _short(text: str) -> str:
    """The text with its middle left out where it is long: names differ at their ends."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2 - 1
    return f"{text[:half]}..{text[-half:]}"


# ---- layout ----------------------------------------------------------------------------------------------------------


def draw(drawn: Sketch, title: str) -> str:
    """The sketch as an <svg> element. `title` is what a screen reader says."""
    if not drawn.boxes:
        return '<p class="none">nothing is here any more</p>'
    ways = _place(drawn)
    left = min(b.x - b.width / 2 for b in drawn.boxes) - MARGIN
    right = max(b.x + b.width / 2 for b in drawn.boxes) + MARGIN
    bottom = max(b.y + b.height for b in drawn.boxes) + MARGIN
    width, height = right - left, bottom + MARGIN
    parts = [
        f'<svg role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left:.1f} {-MARGIN} {width:.1f} {height:.1f}">',
        f"<title>{escape(title)}</title>",
    ]
    parts += [_edge([drawn.boxes[k] for k in way]) for way in ways]
    parts += [_box(b) for b in drawn.boxes if b.kind != "lane"]
    return "".join([*parts, "</svg>"])


def _place(drawn: Sketch) -> list[list[int]]:
    """Layers by the longest way from the top; inside a layer by the middle of what a box reads.
    The boxes along each edge.

    An edge over several layers gets a narrow box of kind `lane` in each between, so that it passes beside the others.
    """
    above: dict[int, list[int]] = {k: [] for k in range(len(drawn.boxes))}
    below: dict[int, list[int]] = {k: [] for k in range(len(drawn.boxes))}
    for a, b in drawn.edges:
        above[b].append(a)
        below[a].append(b)
    for k in TopologicalSorter(above).static_order():
        drawn.boxes[k].layer = max((drawn.boxes[a].layer + 1 for a in above[k]), default=0)
    for k, box in enumerate(drawn.boxes):  # an input is right above its first reader
        if box.kind == "input" and below[k]:
            box.layer = min(drawn.boxes[b].layer for b in below[k]) - 1
    ways = [_way(drawn, a, b) for a, b in drawn.edges]
    read = grouped((b, a) for way in ways for a, b in zip(way, way[1:], strict=False))
    rows = grouped((box.layer, k) for k, box in enumerate(drawn.boxes))
    top = 0.0
    for layer in sorted(rows):
        wishes = {k: [drawn.boxes[a].x for a in read.get(k, ())] for k in rows[layer]}
        row = sorted(rows[layer], key=lambda k: _middle(wishes[k]))
        _spread([drawn.boxes[k] for k in row], [wishes[k] for k in row])
        height = max(drawn.boxes[k].height for k in row)
        for k in row:
            drawn.boxes[k].y = top
            if drawn.boxes[k].kind == "lane":
                drawn.boxes[k].depth = height
        top += height + GAP
    return ways


def _way(drawn: Sketch, a: int, b: int) -> list[int]:
    way = [a]
    for layer in range(drawn.boxes[a].layer + 1, drawn.boxes[b].layer):
        way.append(len(drawn.boxes))
        drawn.boxes.append(Box("", "lane", layer=layer))
    return [*way, b]


def _middle(places: Sequence[float]) -> float:
    return sum(places) / len(places) if places else 0.0


def _spread(row: Sequence[Box], wishes: Sequence[Sequence[float]]) -> None:
    """Each box under what it reads, moved right as far as its neighbour needs;
    then the row back to the middle of the wishes."""
    edge = -1e9
    for box, wish in zip(row, wishes, strict=True):
        box.x = max(_middle(wish), edge + box.width / 2)
        edge = box.x + box.width / 2 + SPACE
    shift = _middle([b.x for b in row]) - _middle([_middle(w) for w in wishes])
    for box in row:
        box.x -= shift


def _edge(way: Sequence[Box]) -> str:
    """A curve from box to box, straight down through the lanes between, with a tip at its end."""
    x, y = way[0].x, way[0].y + way[0].height
    path = [f"M{x:.1f} {y:.1f}"]
    for box in way[1:]:
        bend = max((box.y - y) / 2, 8)
        path.append(f"C{x:.1f} {y + bend:.1f} {box.x:.1f} {box.y - bend:.1f} {box.x:.1f} {box.y:.1f}")
        x, y = box.x, box.y
        if box.kind == "lane":
            y += box.depth
            path.append(f"L{x:.1f} {y:.1f}")
    tip = f"M{x - 3:.1f} {y - 5:.1f}L{x:.1f} {y:.1f}L{x + 3:.1f} {y - 5:.1f}Z"
    return f'<path class="edge" d="{"".join(path)}"/><path class="tip" d="{tip}"/>'


def _box(box: Box) -> str:
    radius = 5 if box.kind == "node" else box.height / 2
    top = box.y + (16 if box.kind == "node" else 14)
    text = f'<text class="op" x="{box.x:.1f}" y="{top:.1f}">{escape(box.label)}</text>'
    if box.detail:
        text += f'<text class="detail" x="{box.x:.1f}" y="{box.y + 31:.1f}">{escape(box.detail)}</text>'
    return (
        f'<g class="{box.kind}"><title>{escape(box.full or box.label)}</title>'
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
        f' rx="{radius:.0f}"/>{text}</g>'
    )
