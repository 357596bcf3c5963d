"""Which node computes in fp16 and which in fp32, with the reason for each that stays fp32."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache

import numpy as np
from onnx import TensorProto

from surgeon.ir.graph import BODIED, Graph, Node, Value
from surgeon.ir.model import Model
from surgeon.ir.schemas import DOMAIN, FLOAT_LIMIT, schema
from surgeon.precision.operators import BY_RANGE, HEAVY, MOVES, QUANTIZED, SENSITIVE, UNBOUNDED, degree, fits
from surgeon.precision.ranges import Ranges

HALF, SINGLE = int(TensorProto.FLOAT16), int(TensorProto.FLOAT)
FAMILY = frozenset({HALF, SINGLE})
LARGEST_HALF = 65504.0
SMALLEST_NORMAL = 2.0**-14
ROUNDING = 1e-3  # twice fp16's own: a constant whose rounding is worse, relative to its largest element, stays fp32
MARGIN = 2.0  # measured numbers may be this much larger in production
GENERATORS = frozenset(
    {"ConstantOfShape", "EyeLike", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
SMALL_INTEGERS = frozenset({TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8})  # exact in fp16
MAX_SWEEPS = 20
BETWEEN = "between parts in fp32"
COMPUTED = "computed from constants"  # no island: its value is stored in the type in which it is read


@dataclass(slots=True)
class Plan:
    """`single`: node -> why it computes in fp32. `fixed`: node -> why its types are left alone. The rest is fp16."""

    model: Model
    io_half: bool = False  # the main graph's inputs and outputs become fp16
    single: dict[Node, str] = field(default_factory=dict)
    fixed: dict[Node, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    repaired: dict[tuple[Node, int], float] = field(
        default_factory=dict
    )  # (node, input) -> the epsilon that fp16 had lost
    roots: dict[Value, Value] = field(
        default_factory=dict
    )  # a cast between fp16 and fp32 is its source in another type

    def root(self, value: Value) -> Value:
        while value in self.roots:
            value = self.roots[value]
        return value

    def is_cast(self, node: Node) -> bool:
        """Whether the node only casts between fp16 and fp32: the plan makes such casts anew."""
        return bool(node.outputs) and node.outputs[0] in self.roots

    def precision(self, node: Node) -> int:
        """FLOAT or FLOAT16; what a fixed node reads and writes is in the types of the file."""
        return SINGLE if node in self.single else HALF

    def floats(self, node: Node) -> Iterator[tuple[int, Value]]:
        """(position, tensor) of the inputs that are fp16 or fp32."""
        for position, value in enumerate(node.inputs):
            if value is not None and self.model.dtype(value) in FAMILY:
                yield position, value

    def reads(self, node: Node) -> Iterator[tuple[int, Value, int]]:
        """(position, tensor, type) of those inputs, with the type in which the node reads each."""
        for position, value in self.floats(node):
            original = self.model.dtype(value)
            yield position, value, self.precision(node) if self._flexible(node, position, False) else original

    def written(self, node: Node, index: int) -> int:
        """The type of an output of the node."""
        value = node.outputs[index]
        original = self.model.dtype(value) if value is not None else 0
        return self.precision(node) if original in FAMILY and self._flexible(node, index, True) else original

    def type_of(self, value: Value) -> int:
        """The type in which a tensor is made; constants have that of the file."""
        node = value.producer
        if node is not None:
            return self.written(node, value.index)
        return self.interface(value) if value.is_input else self.model.dtype(value)

    def interface(self, value: Value) -> int:
        """The type of an input or output of a graph: the file's, or fp16 where that was asked for the main graph."""
        original = self.model.dtype(value)
        return HALF if self.io_half and original == SINGLE and value.graph is self.model.graph else original

    def _flexible(self, node: Node, position: int, output: bool) -> bool:
        return node not in self.fixed and flexible(self.model, node, position, output)


def flexible(model: Model, node: Node, position: int, output: bool = False) -> bool:
    """Whether the operator takes fp16 as well as fp32 at an input or output."""
    domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    return domain == DOMAIN or _takes_both(node.op, domain, model.opset_in(node.graph, domain), position, output)


@cache
def _takes_both(op: str, domain: str, opset: int, position: int, output: bool) -> bool:
    spec = schema(op, domain, opset)
    formals = (spec.outputs if output else spec.inputs) if spec is not None else ()
    if spec is None or not formals:
        return False
    kind = formals[min(position, len(formals) - 1)].type_str
    allowed = next((c.allowed_type_strs for c in spec.type_constraints if c.type_param_str == kind), ())
    return {"tensor(float)", "tensor(float16)"} <= set(allowed)


def _holds_sequences(model: Model, node: Node) -> bool:
    """Whether an input or output of the operator is never a plain tensor:
    the type of what a sequence holds is not followed."""
    spec = model.schema(node)
    if spec is None:
        return False
    kinds = {c.type_param_str: c.allowed_type_strs for c in spec.type_constraints}
    return any(
        not any(t.startswith("tensor(") for t in kinds.get(f.type_str, [f.type_str]))
        for f in (*spec.inputs, *spec.outputs)
    )


def _types_by_attribute(model: Model, node: Node, outs: list[Value]) -> bool:
    """Whether no input fixes the type of an output, and it is not one of the operators whose attribute is rewritten."""
    spec = model.schema(node)
    if spec is None or node.key == "Cast" or node.key in GENERATORS:
        return False
    given = {f.type_str for f in spec.inputs}
    return any(
        flexible(model, node, o.index, True) and spec.outputs[min(o.index, len(spec.outputs) - 1)].type_str not in given
        for o in outs
    )


def make_plan(
    model: Model,
    keep: Collection[str] = (),
    ranges: Ranges | None = None,
    refused: Callable[[Node], str | None] | None = None,
    repair_eps: float | None = None,
    io_half: bool = False,
) -> Plan:
    """Decide for every node of the main graph and its bodies.

    keep     operators, pass names (nodes that the pass made) and node globs that stay fp32
    ranges   the numbers of a run on calibration data
    refused  why the target does not take a node in fp16, else None
    repair_eps  the epsilon for a divisor whose own became 0 when the file was written in fp16
    io_half  the main graph's inputs and outputs become fp16
    """
    planner = _Planner(model, keep, ranges, refused, repair_eps)
    planner.plan.io_half = io_half
    planner.classify(model.graph)
    planner.leave_quantized()
    planner.look_for_lost_epsilons()
    planner.settle()
    return planner.plan


class _Planner:
    def __init__(
        self,
        model: Model,
        keep: Collection[str],
        ranges: Ranges | None,
        refused: Callable[[Node], str | None] | None,
        repair_eps: float | None,
    ) -> None:
        self.model = model
        self.plan = Plan(model)
        self.keep = tuple(keep)
        self.ranges = ranges
        self.refused = refused
        self.degrees: dict[Value, float] = {}
        self.counted: set[Value] = set()  # follow from integers and constants alone: positions, sizes, masks
        self.authors: set[Value] = set()  # behind a cast from fp16 to fp32 that the file has
        self.nodes: list[Node] = []
        self.repair_eps = repair_eps
        self.free: list[Node] = []  # neither heavy nor bound to a type

    # ---- one look at each node, inputs first -------------------------------------------------------------------------

    def classify(self, graph: Graph) -> None:
        for node in graph.live():
            for body in node.bodies:
                self.classify(body)
            if node.key == "Constant":
                continue
            if self._alias(node):
                continue
            floats = [v for _, v in self.plan.floats(node)]
            outs = [o for o in node.outputs if o is not None and self.model.dtype(o) in FAMILY]
            if not floats and not outs:
                continue
            if outs and all(self.model.is_constant(o) for o in outs):
                self.plan.fixed[node] = COMPUTED
                continue
            self.nodes.append(node)
            self._decide(node, floats, outs)

    def _alias(self, node: Node) -> bool:
        """A cast between fp16 and fp32 is no node of the plan."""
        if node.key != "Cast" or node.inputs[0] is None or node.outputs[0] is None:
            return False
        source, out = node.inputs[0], node.outputs[0]
        if self.model.dtype(source) not in FAMILY or node.attr("to") not in FAMILY:
            return False
        self.plan.roots[out] = source
        self.degrees[out] = self._degree(source) or 0.0
        if node.attr("to") == SINGLE and (self.model.dtype(source) == HALF or source in self.authors):
            self.authors.add(out)
        if source in self.counted:
            self.counted.add(out)
        return True

    def _decide(self, node: Node, floats: list[Value], outs: list[Value]) -> None:
        why = self._fixed_reason(node, outs)
        if why:
            self.plan.fixed[node] = why
            for out in outs:
                self.degrees[out] = 1.0
            return
        size = self._size(node)
        constants = list(self._constants(node))
        beyond = any(_is_beyond(a) and not _is_bound(node, p, a) for p, _, a in constants)
        if beyond and node.op not in HEAVY:
            size = UNBOUNDED
        for out in outs:
            self.degrees[out] = size
        reason = (
            self._kept(node)
            or self._from_integers(node, floats, outs)
            or self._by_constants(node, constants)
            or self._by_epsilon(node)
            or self._measured(node, floats, outs)
            or self._by_rule(node, floats, outs)
            or self._by_author(node, floats, outs)
            or ((self.refused(node) or "") if self.refused else "")
        )
        if reason:
            self.plan.single[node] = reason
        elif node.op not in HEAVY:
            self.free.append(node)

    def _degree(self, value: Value) -> float | None:
        """None for a constant or a weight that a caller may replace;
        1 for an input and whatever is not known better."""
        if value.tensor is not None or self.model.is_constant(value):
            return None
        return self.degrees.get(value, 1.0)

    def _size(self, node: Node) -> float:
        exponent = None
        if node.key == "Pow" and node.inputs[1] is not None:
            array = self.model.constant(node.inputs[1])
            if array is not None and array.size == 1:
                exponent = float(array.reshape(()))
        return degree(node.op, [self._degree(v) for _, v in self.plan.floats(node)], exponent)

    def _constants(self, node: Node) -> Iterator[tuple[int, Value, np.ndarray]]:
        for position, value in self.plan.floats(node):
            if self.model.is_constant(value):
                array = self.model.constant(value)
                if array is not None:
                    yield position, value, array

    # ---- reasons -----------------------------------------------------------------------------------------------------

    def _fixed_reason(self, node: Node, outs: list[Value]) -> str:
        if node.op in QUANTIZED:
            return "quantisation is left alone"
        if node.key in BODIED or node.bodies:
            return "what goes in and out of a body keeps its type"
        if node.proto.domain == DOMAIN:
            return ""
        if node.proto.domain not in ("", "ai.onnx") or self.model.schema(node) is None:
            return f"the operator {node.key} is not ONNX's own"
        if node.key == "BitCast":
            return "it reads the bits of its input"
        if _types_by_attribute(self.model, node, outs):
            return "an attribute says which type it returns"
        if _holds_sequences(self.model, node):
            return "sequences and optional tensors keep their types"
        unknown = next(
            (
                v
                for p, v in enumerate(node.inputs)
                if v is not None and not self.model.dtype(v) and flexible(self.model, node, p)
            ),
            None,
        )
        if unknown is not None:
            return f"the type of '{unknown.name}' is not known"
        positions = [p for p, _ in self.plan.floats(node)]
        if outs and not any(flexible(self.model, node, o.index, True) for o in outs):
            return "the operator has no fp16 form at this opset"
        if positions and not any(flexible(self.model, node, p) for p in positions):
            return "the operator has no fp16 form at this opset"
        return ""

    def _kept(self, node: Node) -> str:
        for word in self.keep:
            if word == node.op or f"~{word}/" in node.name or fnmatchcase(node.name, word):
                return f"--keep-fp32 {word}"
            if node.proto.domain == DOMAIN and word.replace("-", "").lower() in node.op.lower():
                return f"--keep-fp32 {word}"
        return ""

    def _from_integers(self, node: Node, floats: list[Value], outs: list[Value]) -> str:
        """Positions, sizes and counts: integers above 2048 are not exact in fp16."""
        if node.key == "Cast" and node.inputs[0] is not None and not floats:
            exact = self.model.dtype(node.inputs[0]) in SMALL_INTEGERS
            if not exact:
                self.counted.update(outs)
            return "" if exact else "computed from integers"
        varying = [v for v in floats if not self.model.is_constant(v)]
        if node.key == "Range" or (varying and all(v in self.counted for v in varying)):
            if node.op not in HEAVY and node.op not in ("Sin", "Cos"):
                self.counted.update(outs)
            return "computed from integers"
        return ""

    def _by_constants(self, node: Node, constants: list[tuple[int, Value, np.ndarray]]) -> str:
        for position, value, array in constants:
            if not flexible(self.model, node, position) or (_is_beyond(array) and _is_bound(node, position, array)):
                continue
            why = constant_reason(array, divisor=node.key == "Div" and position == 1)
            if not why:
                self._note_flushed(value, array)
                continue
            if array.size > 1 and self.model.dtype(value) == SINGLE:
                self.plan.warnings.append(f"{node.label}: '{value.name}' {why} in fp16; the node stays fp32")
            return (
                f"'{value.name}' {why} in fp16"
                if array.size > 1
                else f"its constant {float(array.reshape(-1)[0]):g} {why} in fp16"
            )
        return ""

    def _by_epsilon(self, node: Node) -> str:
        epsilon = node.attr("epsilon")
        return (
            f"its epsilon {epsilon:g} is 0 in fp16"
            if isinstance(epsilon, float) and epsilon > 0 and np.float16(epsilon) == 0
            else ""
        )

    def _note_flushed(self, value: Value, array: np.ndarray) -> None:
        if array.size < 2 or array.dtype != np.float32:
            return
        flushed = (array != 0) & (array.astype(np.float16) == 0)
        if flushed.any():
            largest = float(np.abs(array[flushed]).max())
            self.plan.warnings.append(
                f"'{value.name}': {int(flushed.sum())} of {array.size} numbers, up to {largest:.1g}, become 0 in fp16; "
                f"the largest is {float(np.abs(array).max()):.2g}"
            )

    def _measured(self, node: Node, floats: list[Value], outs: list[Value]) -> str:
        if self.ranges is None:
            return ""
        for value in (*floats, *outs):
            largest = self.ranges.largest(value.name)
            if largest is not None and largest * MARGIN > LARGEST_HALF:
                return f"'{value.name}' reaches {largest:.3g} on the data"
        return ""

    def _by_rule(self, node: Node, floats: list[Value], outs: list[Value]) -> str:
        if node.proto.domain == DOMAIN:
            return "a normalisation" if "Norm" in node.op else "a node of surgeon's own"
        safe = self._is_measured_safe(floats, outs)
        why = SENSITIVE.get(node.op, "")
        if why and not (safe and node.op in BY_RANGE):
            return why
        if safe:
            return ""
        if node.key == "Div" and len(floats) == 2 and not self.model.is_constant(floats[1]):
            return "division by a tensor"
        grown = [d for d in (self._degree(v) for v in (*floats, *outs)) if d is not None and not fits(d)]
        if grown:
            return (
                "numbers that grow faster than the model's inputs, or shrink"
                if max(grown) < UNBOUNDED
                else "numbers without a bound"
            )
        return ""

    def _is_measured_safe(self, floats: list[Value], outs: list[Value]) -> bool:
        """Whether the data shows every tensor of the node well inside fp16's range, at both ends."""
        if self.ranges is None:
            return False
        for value in (*floats, *outs):
            if self.model.is_constant(value):
                continue
            largest, smallest = self.ranges.largest(value.name), self.ranges.smallest(value.name)
            if (
                largest is None
                or smallest is None
                or largest * MARGIN > LARGEST_HALF
                or smallest < SMALLEST_NORMAL * MARGIN
            ):
                return False
        return True

    def _by_author(self, node: Node, floats: list[Value], outs: list[Value]) -> str:
        if any(v in self.authors for v in floats) and any(self.model.dtype(o) == SINGLE for o in outs):
            self.authors.update(outs)
            return "the file casts to fp32 for it"
        return ""

    # ---- neighbours --------------------------------------------------------------------------------------------------

    def leave_quantized(self) -> None:
        """A node fed by DequantizeLinear runs in int8 in the end: a cast between the two would undo that."""
        for node in self.nodes:
            fed = [v.producer for _, v in self.plan.floats(node) if v.producer is not None]
            if node not in self.plan.fixed and any(p.op == "DequantizeLinear" for p in fed):
                self.plan.single[node] = "fed by DequantizeLinear"

    def look_for_lost_epsilons(self) -> None:
        """Clip(norm, 0), Max(norm, 0), norm + 0 in front of a division, in fp16:
        the 0 was 1e-12 before it was rounded."""
        for node in self.nodes:
            if node.op not in ("Clip", "Max", "Add"):
                continue
            for position, _, array in self._constants(node):
                if position == 2 or array.dtype != np.float16 or array.any() or not _divides(node):
                    continue
                if self.repair_eps is None:
                    self.plan.warnings.append(
                        f"{node.label}: its epsilon is 0 in the file, so a row of zeros is divided by 0; --repair-eps "
                        "gives it one"
                    )
                    continue
                self.plan.repaired[node, position] = self.repair_eps
                self.plan.single.setdefault(node, f"the epsilon {self.repair_eps:g}")
                self.plan.warnings.append(
                    f"{node.label}: its epsilon was 0 in the file and is {self.repair_eps:g} now, in fp32"
                )

    def settle(self) -> None:
        """Nodes between fp32 parts become fp32 where that saves a cast;
        what only moves numbers does where it costs none."""
        free = [n for n in self.free if n not in self.plan.single]
        for _ in range(MAX_SWEEPS):
            changed = False
            for node in (*free, *reversed(free)):
                if node in self.plan.single:
                    continue
                if self._saves(node):
                    self.plan.single[node] = BETWEEN
                    changed = True
                elif self._scales(node):
                    self.plan.single[node] = "the scale or shift behind a part in fp32"
                    changed = True
            if not changed:
                break
        for node in reversed(free):  # what was carried along in fp32 for nobody goes back
            if (
                self.plan.single.get(node) == BETWEEN
                and self._casts(node, HALF) <= self._casts(node, SINGLE)
                and not self._feeds_single(node)
            ):
                del self.plan.single[node]

    def _saves(self, node: Node) -> bool:
        gain = self._casts(node, HALF) - self._casts(node, SINGLE)
        return gain > 0 or (
            gain == 0 and node.op in MOVES and any(self._type(v) == SINGLE for v in self._varying(node))
        )

    def _scales(self, node: Node) -> bool:
        """Whether it is the constant factor or summand behind a norm:
        rounding once behind it costs no more casts than before it."""
        if node.key not in ("Mul", "Add", "Sub", "Div") or len(node.inputs) != 2:
            return False
        varying = self._varying(node)
        return (
            len(varying) == 1
            and self._type(varying[0]) == SINGLE
            and not varying[0].is_input
            and self._casts(node, HALF) == self._casts(node, SINGLE)
        )

    def _feeds_single(self, node: Node) -> bool:
        return any(t == SINGLE for o in node.outputs if o is not None for t in self._wanted(o, node))

    def _varying(self, node: Node) -> list[Value]:
        return [self.plan.root(v) for _, v in self.plan.floats(node) if not self.model.is_constant(v)]

    def _type(self, value: Value) -> int:
        return self.plan.type_of(value)

    def _casts(self, node: Node, precision: int) -> int:
        """How many casts stand at the node's inputs and outputs when it computes in `precision`."""
        count = 0
        for value in dict.fromkeys(self._varying(node)):
            if self._type(value) != precision and precision not in self._wanted(value, node):
                count += 1
        for out in node.outputs:
            if out is not None and self.model.dtype(out) in FAMILY:
                count += len({t for t in self._wanted(out, node) if t != precision})
        return count

    def _wanted(self, value: Value, without: Node) -> set[int]:
        """The types in which a tensor is read, `without` one node; casts of the file are looked through."""
        found: set[int] = set()
        todo = [value]
        while todo:
            v = todo.pop()
            if v.is_output:
                found.add(self.plan.interface(v))
            for user in v.users:
                if self.plan.is_cast(user) and user.outputs[0] is not None:
                    todo.append(user.outputs[0])
                elif user is not without:
                    found.update(t for _, read, t in self.plan.reads(user) if read is v)
        return found & FAMILY


def _divides(node: Node) -> bool:
    """Whether what the node returns divides something, behind roots and changes of shape."""
    todo, seen = [o for o in node.outputs if o is not None], set()
    while todo:
        value = todo.pop()
        for user in value.users:
            if user.key == "Reciprocal" or (user.key == "Div" and user.inputs[1] is value):
                return True
            if (
                user not in seen
                and user.key in ("Sqrt", "Expand", "Reshape", "Unsqueeze", "Cast", "Identity")
                and user.outputs[0] is not None
            ):
                seen.add(user)
                todo.append(user.outputs[0])
    return False


# ---- constants -------------------------------------------------------------------------------------------------------


def _is_beyond(array: np.ndarray) -> bool:
    finite = array[np.isfinite(array)].astype(np.float64) if array.dtype.kind == "f" else np.empty(0)
    return bool(finite.size) and float(np.abs(finite).max()) > LARGEST_HALF


def _is_bound(node: Node, position: int, array: np.ndarray) -> bool:
    """A bound of Clip that fp32 cannot pass either: written as the end of fp16's range."""
    return node.key == "Clip" and position in (1, 2) and bool((np.abs(array) >= FLOAT_LIMIT).all())


def constant_reason(array: np.ndarray, divisor: bool = False) -> str:
    """What becomes of a constant in fp16 that must not; empty where rounding is all."""
    if array.dtype != np.float32 or not array.size:
        return ""
    finite = array[np.isfinite(array)]
    largest = float(np.abs(finite).max(initial=0.0))
    if largest > LARGEST_HALF:
        return "overflows"
    half = finite.astype(np.float16).astype(np.float32)
    if divisor and bool(((finite != 0) & (half == 0)).any()):
        return "has divisors that become 0"
    if largest and float(np.abs(half - finite).max()) > ROUNDING * largest:
        return "becomes 0 or loses its digits"
    return ""


__all__ = ["COMPUTED", "FAMILY", "GENERATORS", "HALF", "SINGLE", "Plan", "flexible", "make_plan"]
