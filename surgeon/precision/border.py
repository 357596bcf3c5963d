"""Where the border between 16 bits and fp32 costs least, for a given error: a minimum cut of the model's graph.

A node on the side of fp32 costs what its product moves more, one on the other side its error, and a tensor between the
two a cast. Errors are weighed against costs so that their squares add up to what is allowed.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from surgeon.ir.graph import Node, Value
from surgeon.precision.cost import cast_cost, product_cost
from surgeon.precision.formats import SINGLE
from surgeon.precision.operators import HEAVY
from surgeon.precision.plan import COMPUTED, Plan, returns, takes
from surgeon.precision.ranges import Ranges

ENDLESS = 1e30
LARGE = 1e6  # errors are counted as at most this
SINGLES, HALVES = 0, 1  # the vertices of what is fp32, and of what has 16 bits, whatever a search finds
SPREAD, STEPS = 4.0**8, 16  # of the weight of errors: the first is so much smaller, and so many are tried at most
ALIKE = 1.3  # two weights between which nothing is looked for
TRIES = 48  # places where a set is cut off

Atom = tuple[Node, ...]
Arc = tuple[int, int, float]  # what it costs that the first vertex is fp32 and the second is not


class Border:
    """The nodes of a plan as vertices, with what casts and products cost.

    plan   the plan without a search's islands
    nodes  those that the search may keep in fp32, inputs first
    apart  those of them that others are not joined with
    atoms  the nodes of each vertex: a cast between them is never cheaper than one before or after them
    """

    def __init__(self, plan: Plan, nodes: Sequence[Node], apart: Collection[Node], ranges: Ranges | None) -> None:
        self._plan, self._ranges = plan, ranges
        self._vertex: dict[Node, int] = {}
        self._weight = 0.0  # of errors, as of the last set that was found
        reads = self._reads()
        joined: list[list[Node]] = [[], []]
        for node in nodes:
            vertex = self._before(node, reads, apart)
            if vertex is None:
                vertex = len(joined)
                joined.append([])
            self._vertex[node] = vertex
            joined[vertex].append(node)
        self.atoms: list[Atom] = [tuple(found) for found in joined[2:]]
        self._number = {atom: vertex for vertex, atom in enumerate(self.atoms, 2)}
        self._products = [0.0] * len(joined)
        for node in nodes:
            self._products[self._vertex[node]] += product_cost(plan, node, ranges) if node.op in HEAVY else 0.0
        ends = ((value, self._maker(value), {self._end(user) for user in users}) for value, users in reads.items())
        between = [(value, made, users) for value, made, users in ends if users != {made}]
        self._casts = [(cast_cost(plan, value, ranges), made, users) for value, made, users in between]

    def cheapest(self, errors: Mapping[tuple[Atom, ...], float], limit: float) -> frozenset[Atom]:
        """The atoms to keep in fp32 so that the squares of the errors of the others add up to at most `limit`.

        errors  what runs of atoms add; each atom of one has the same part
        """
        shares = [0.0] * len(self._products)
        for run, error in errors.items():
            for atom in run:
                shares[self._number[atom]] += min(error, LARGE) ** 2 / len(run)
        arcs = self._arcs()
        weight, low, high = self._weight, 0.0, math.inf
        if not weight:
            total = sum(self._products) + sum(cost for cost, *_ in self._casts)
            weight = total / max(sum(shares), 1e-30) / SPREAD
        best = set(range(len(shares))) - {HALVES}
        for _ in range(STEPS if errors else 1):
            found = self._cut(arcs, shares, weight)
            if sum(share for vertex, share in enumerate(shares) if vertex not in found) <= limit:
                best, high = found, weight
            else:
                low = weight
            if high < ALIKE * low or (not low and len(found) == 1):
                break
            weight = math.sqrt(low * high) if low and high < math.inf else weight / 4 if not low else weight * 4
        self._weight = high if errors and high < math.inf else 0.0
        best = self._smaller(shares, best, limit)
        return frozenset(atom for atom, vertex in self._number.items() if vertex in best)

    def _smaller(self, shares: Sequence[float], singles: set[int], limit: float) -> set[int]:
        """The cheapest of a set and those that are left of it without its beginning or its end."""
        left = sum(share for vertex, share in enumerate(shares) if vertex not in singles)
        cost = self._cost(singles)
        while True:
            order = sorted(singles - {SINGLES})
            step = max(1, len(order) // TRIES)
            parts = [part for k in range(step, len(order) + 1, step) for part in (order[:k], order[-k:])]
            parts = [p for p in parts if left + sum(shares[v] for v in p) <= limit]
            costs = [self._cost(singles.difference(part)) for part in parts]
            if not costs or min(costs) >= cost:
                return singles
            part = parts[costs.index(min(costs))]
            singles, cost, left = singles.difference(part), min(costs), left + sum(shares[v] for v in part)

    def _cost(self, singles: Collection[int]) -> float:
        total = sum(self._products[vertex] for vertex in singles)
        for cost, made, users in self._casts:
            inside = sum(user in singles for user in users)
            total += cost * (inside < len(users) if made in singles else inside > 0)
        return total

    def _arcs(self) -> list[Arc]:
        arcs = [(vertex, HALVES, cost) for vertex, cost in enumerate(self._products) if cost]
        count = len(self._products)
        for cost, made, users in self._casts:
            if len(users) == 1:
                (user,) = users
                arcs += [(made, user, cost), (user, made, cost)]
                continue
            arcs += [(count, made, cost), (made, count + 1, cost)]  # a cast to fp32, and one to 16 bits
            arcs += [arc for user in users for arc in ((user, count, ENDLESS), (count + 1, user, ENDLESS))]
            count += 2
        return arcs

    def _cut(self, arcs: Sequence[Arc], shares: Sequence[float], weight: float) -> set[int]:
        errors = [(SINGLES, vertex, weight * share) for vertex, share in enumerate(shares) if share]
        count = len(shares) + 2 * len(self._casts)
        return {v for v in source_side(count, [*arcs, *errors], SINGLES, HALVES) if v < len(shares)}

    def _reads(self) -> dict[Value, list[Node | int]]:
        """What reads each tensor: a node in its own type, or always fp32 or 16 bits."""
        plan, found = self._plan, dict[Value, list[Node | int]]()
        for scope in plan.model.scopes:
            for node in scope.live():
                if plan.is_cast(node) or plan.fixed.get(node) == COMPUTED:
                    continue
                for position, value, elem in plan.reads(node):
                    if plan.is_constant(value):
                        continue
                    free = node not in plan.fixed and takes(plan.model, node, position, plan.low.elem)
                    found.setdefault(plan.root(value), []).append(node if free else _side(elem))
            for value in scope.values.values():
                if value.is_output and plan.is_family(value):
                    found.setdefault(plan.root(value), []).append(_side(plan.interface(value)))
        return found

    def _before(self, node: Node, reads: Mapping[Value, Sequence[Node | int]], apart: Collection[Node]) -> int | None:
        """The vertex of the node before one, where a cast between the two is never cheaper than one after them."""
        varying = self._plan.varying(node)
        maker = varying[0].producer if len(varying) == 1 else None
        if maker not in self._vertex or node.op in HEAVY or len(reads[varying[0]]) > 1:
            return None
        before, after = (sum(self._elements(v) for v in values) for values in (varying, node.outputs))
        return self._vertex[maker] if after <= before and (node in apart) == (maker in apart) else None

    def _elements(self, value: Value | None) -> int:
        return 0 if value is None or self._ranges is None else self._ranges.elements(value.name)

    def _end(self, user: Node | int) -> int:
        if isinstance(user, int):
            return user
        return self._vertex.get(user, _side(self._plan.precision(user)))

    def _maker(self, value: Value) -> int:
        node = value.producer
        if node in self._vertex and returns(self._plan.model, node, value.index, self._plan.low.elem):
            return self._vertex[node]
        return _side(self._plan.type_of(value))


def _side(elem: int) -> int:
    return SINGLES if elem == SINGLE else HALVES


def source_side(count: int, arcs: Sequence[Arc], source: int, sink: int) -> set[int]:
    """The vertices on the source's side of a minimum cut, as few as there can be; by Dinic's algorithm."""
    network = _Network(count, arcs)
    while sink in (level := network.levels(source)):
        network.fill(level, source, sink)
    return set(level)


class _Network:
    """The arcs of a graph, each beside its reverse, with the room that the flow leaves in them."""

    def __init__(self, count: int, arcs: Sequence[Arc]) -> None:
        self._from: list[list[int]] = [[] for _ in range(count)]
        self._to: list[int] = []
        self._room: list[float] = []
        for first, second, capacity in arcs:
            if first != second and capacity > 0:
                self._from[first].append(len(self._to))
                self._from[second].append(len(self._to) + 1)
                self._to += [second, first]
                self._room += [capacity, 0.0]

    def levels(self, source: int) -> dict[int, int]:
        """How many arcs with room lead to each vertex that can be reached."""
        level, queue = {source: 0}, [source]
        for vertex in queue:  # grows
            for arc in self._from[vertex]:
                if self._room[arc] > 1e-9 and self._to[arc] not in level:
                    level[self._to[arc]] = level[vertex] + 1
                    queue.append(self._to[arc])
        return level

    def fill(self, level: Mapping[int, int], source: int, sink: int) -> None:
        """Send what the arcs have room for from level to level, until no path is left."""
        turn = [0] * len(self._from)  # the arcs of a vertex before this one lead nowhere
        path: list[int] = []
        vertex = source
        while True:
            if vertex == sink:
                self._send(path)
                path, vertex = [], source
            elif turn[vertex] < len(self._from[vertex]):
                arc = self._from[vertex][turn[vertex]]
                if self._room[arc] > 1e-9 and level.get(self._to[arc], -1) == level[vertex] + 1:
                    path.append(arc)
                    vertex = self._to[arc]
                else:
                    turn[vertex] += 1
            elif path:
                vertex = self._to[path.pop() ^ 1]
                turn[vertex] += 1
            else:
                return

    def _send(self, path: Sequence[int]) -> None:
        least = min(self._room[arc] for arc in path)
        for arc in path:
            self._room[arc] -= least
            self._room[arc ^ 1] += least
