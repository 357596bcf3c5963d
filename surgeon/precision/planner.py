"""Which node computes in half precision and which in fp32, with the reason for each that stays fp32.

1. Each node is judged by itself, inputs first: its types are fixed, or there is a reason for fp32, or it is free.
2. The neighbours of Q/DQ nodes stay as they are. Lost epsilons are reported, or repaired where one is given.
3. Free nodes between parts in fp32 become fp32 where that saves a cast (see `settle`).
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np
from onnx import TensorProto

from surgeon.ir.constants import FOLD_LIMIT
from surgeon.ir.following import divides, readers, sources
from surgeon.ir.graph import Graph, Node, Value
from surgeon.ir.iteration import RECURRENT
from surgeon.ir.lattice import HALVES
from surgeon.ir.model import Model
from surgeon.ir.operators import QUANTIZES, words
from surgeon.ir.schemas import BODIED, DOMAIN, FLOAT_LIMIT
from surgeon.precision.formats import BF16, FP16, HALF, SINGLE, Format, constant_reason, flushed, is_beyond
from surgeon.precision.operators import (
    BY_RANGE,
    HEAVY,
    INSIDE_FP32,
    KEEPS_NUMBERS,
    SENSITIVE,
    STAYS,
    UNBOUNDED,
    degree,
    fits,
    has_half_products,
    ranked,
    sizing,
    variances,
)
from surgeon.precision.plan import COMPUTED, GENERATORS, Plan, returns, takes
from surgeon.precision.ranges import Ranges
from surgeon.precision.settle import settle

MARGIN = 2.0  # measured numbers may be this much larger in production
GROWING_MARGIN = 8.0  # and so may those that grow faster than the inputs: by its square, say
# And so may all numbers of a model of which products leave the range of the type on the data: nothing bounds them. A
# U-Net that denoises had 12 times as large ones for noise of another strength.
UNBOUND_MARGIN = 16.0
SMALL_INTEGERS = frozenset({TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8})  # exact in fp16
RETYPED = GENERATORS | {"Cast", "DequantizeLinear"}  # the attribute that says which type they make is rewritten
SCALED = words("QuantizeLinear DequantizeLinear")
DIVIDES = words("Div QuantizeLinear")  # by their second input
WIDE = frozenset({TensorProto.INT32, TensorProto.INT16, TensorProto.UINT16})  # as floats, such weights are no larger
AHEAD = "TensorRT-RTX builds no recurrent node after a Cast from half precision"
JOINED = "TensorRT-RTX builds no Concat of quantizers in two types in half precision"
NO_FORM = "the operator has no {} form at this opset"


class Planner:
    """Decides for every node of the main graph and its bodies once, and gives the plans that follow from that.

    low         the type of what is converted
    wide        bf16 where a node leaves the range of `low`, if the operator has it
    keep        operators, pass names (nodes that the pass made) and node globs that stay fp32
    ranges      the numbers of a run
    lean        the ranges decide, and not what the operators do to numbers beyond them
    refused     why the target does not support a node in half precision, else None
    repair_eps  the epsilon for a divisor whose own became 0 when the file was written in fp16
    io_half     the main graph's inputs and outputs become `low`
    rtx         whether TensorRT-RTX builds the model
    """

    def __init__(
        self,
        model: Model,
        *,
        low: Format = FP16,
        wide: bool = False,
        keep: Collection[str] = (),
        ranges: Ranges | None = None,
        lean: bool = False,
        refused: Callable[[Node], str | None] | None = None,
        repair_eps: float | None = None,
        io_half: bool = False,
        rtx: bool = False,
    ) -> None:
        planner = _Planner(Plan(model, io_half, low), tuple(keep), ranges, refused, wide, lean)
        planner.ranked, planner.sizing = ranked(model), sizing(model)
        planner.variances, planner.is_mixed = variances(model), has_half_products(model)
        products = (o for n in model.graph.live() if n.op in HEAVY for o in n.outputs if o is not None)
        largest = (ranges.largest(o.name) or 0.0 for o in products) if ranges is not None else ()
        planner.leaves_range = any(number > low.largest for number in largest)
        planner.classify(model.graph)
        planner.leave_quantized()
        planner.look_for_lost_epsilons(repair_eps)
        planner.report_flushed()
        self.plan, self._free, self._rtx = planner.plan, planner.free, rtx
        self.nodes = [n for n in planner.nodes if n not in self.plan.fixed]

    def settled(self, islands: Mapping[Node, str] | None = None) -> Plan:
        """The plan in which further nodes are fp32, each for its reason, with the borders settled."""
        plan = replace(self.plan, single={**self.plan.single, **(islands or {})})
        if self._rtx:
            _keep_before_recurrent(plan, self.nodes)
        settle(plan, [n for n in self._free if n not in plan.single])
        _dequantize_as_read(plan, self._free)
        if self._rtx:
            _join_pairs_of_one_type(plan, self.nodes)
        return plan


@dataclass(frozen=True, slots=True)
class _Facts:
    """A node, with its inputs, outputs and constants of a type of FAMILY."""

    node: Node
    inputs: list[Value]
    outputs: list[Value]
    constants: list[tuple[int, Value, np.ndarray]]  # (position, tensor, its array)


@dataclass(slots=True)
class _Planner:
    """Fills a plan.

    degrees  how the numbers of a tensor grow with the model's inputs; see `operators`
    counted  tensors that follow from integers and constants alone: positions, sizes, masks
    authors  tensors after a cast from fp16 to fp32 that the file has
    nodes    what computes with floats, inputs first
    free     those of them that are neither heavy nor bound to a type
    ranked   nodes that make what a TopK, an ArgMax or a NonMaxSuppression ranks: rounded scores may become equal
    sizing   nodes of whose numbers the size of a tensor is computed: rounded ones may make another
    variances  nodes that compute E[x^2] - E[x]^2
    is_mixed   whether the file has products in half precision
    leaves_range  whether a product is beyond the range of the type in the run
    flushed  weights of which numbers become 0: the name, how many do, how many there are, the largest that does
    """

    plan: Plan
    keep: Sequence[str]
    ranges: Ranges | None
    refused: Callable[[Node], str | None] | None
    wide: bool = False
    lean: bool = False
    degrees: dict[Value, float] = field(default_factory=dict)
    counted: set[Value] = field(default_factory=set)
    authors: set[Value] = field(default_factory=set)
    nodes: list[Node] = field(default_factory=list)
    free: list[Node] = field(default_factory=list)
    ranked: Collection[Node] = ()
    sizing: Collection[Node] = ()
    variances: Collection[Node] = ()
    is_mixed: bool = False
    leaves_range: bool = False
    flushed: list[tuple[str, int, int, float]] = field(default_factory=list)

    @property
    def model(self) -> Model:
        return self.plan.model

    @property
    def low(self) -> Format:
        return self.plan.low

    # ---- each node by itself, inputs first ---------------------------------------------------------------------------

    def classify(self, graph: Graph) -> None:
        """Decide for the nodes of a graph, and first for those of the bodies that each has."""
        for node in graph.live():
            for body in node.bodies:
                self.classify(body)
            if node.key != "Constant" and not self._takes_cast(node):
                self._classify(node)

    def _classify(self, node: Node) -> None:
        inputs, outputs = [v for _, v in self.plan.floats(node)], self.plan.float_outputs(node)
        if not inputs and not outputs:
            return
        large = any(_is_too_large(self.model, o) for o in outputs)
        if large or _holds_weights(self.model, node) or any(v in self.plan.weights for v in inputs):
            self.plan.weights.update(o for o in outputs if self.model.is_constant(o))
        made = [o for o in node.outputs if o is not None]
        if made and all(self.plan.is_constant(o) for o in made):
            self.plan.fixed[node] = COMPUTED
            return
        self.nodes.append(node)
        fixed = self._fixed_reason(node, outputs)
        if fixed:
            self.plan.fixed[node] = fixed
            self.degrees.update(dict.fromkeys(outputs, 1.0))
            return
        facts = _Facts(node, inputs, outputs, list(self._constants(node)))
        self.degrees.update(dict.fromkeys(outputs, self._growth(facts)))
        reason = self._reason(facts)
        if not reason and self._beyond_range(facts):
            if self.wide and self._has_form(facts, BF16) and not self._by_target(node):
                self.plan.other[node] = BF16
            else:
                reason = self._beyond_range(facts)
        if reason:
            self.plan.single[node] = reason
        elif node.op not in HEAVY:
            self.free.append(node)

    def _takes_cast(self, node: Node) -> bool:
        """Whether the node is a cast between types of FAMILY, or an Identity that names an output of its graph; such
        nodes are noted, and are not nodes of the plan."""
        if node.key not in ("Cast", "CastLike", "Identity") or node.inputs[0] is None or node.outputs[0] is None:
            return False
        source, out = node.inputs[0], node.outputs[0]
        if not self.plan.is_family(source) or not self.plan.is_family(out):
            return False
        if node.key != "Cast" and self.model.is_constant(source):
            return False
        if node.key == "Identity" and not out.is_output:
            return False
        self.plan.cast_sources[out] = source
        self.degrees[out] = self._degree(source) or 0.0
        if self.model.dtype(out) == SINGLE and (self.model.dtype(source) in HALVES or source in self.authors):
            self.authors.add(out)
        if source in self.counted:
            self.counted.add(out)
        return True

    def _growth(self, facts: _Facts) -> float:
        """The degree of a node's outputs."""
        node = facts.node
        given = [] if node.op in HEAVY else facts.constants
        if any(is_beyond(array, self.low) and not _is_no_bound(node, p, array) for p, _, array in given):
            return UNBOUNDED
        return degree(node.op, [self._degree(v) for v in facts.inputs], self._exponent(node))

    def _exponent(self, node: Node) -> float | None:
        """That of a Pow, where it is one constant number."""
        if node.key != "Pow" or node.inputs[1] is None:
            return None
        array = self.model.constant(node.inputs[1])
        return float(array.reshape(())) if array is not None and array.size == 1 else None

    def _degree(self, value: Value) -> float | None:
        """The degree of a tensor: None for a constant or a weight that a caller may replace, 1 where it is unknown."""
        if value.tensor is not None or self.model.is_constant(value):
            return None
        return self.degrees.get(value, 1.0)

    def _constants(self, node: Node) -> Iterator[tuple[int, Value, np.ndarray]]:
        """(position, tensor, its array) of the inputs of a type of FAMILY that are constant."""
        for position, value in self.plan.floats(node):
            array = self.model.constant(value) if self.plan.is_constant(value) else None
            if array is not None:
                yield position, value, array

    # ---- reasons to leave a node's types alone -----------------------------------------------------------------------

    def _fixed_reason(self, node: Node, outputs: Sequence[Value]) -> str:
        model = self.model
        if node.op in QUANTIZES and not self._is_scaled(node):
            return "it quantizes, and keeps its types"
        if node.key in BODIED or node.bodies:
            return "inputs and outputs of a body keep their types"
        if node.proto.domain == DOMAIN:
            return ""
        if node.domain or model.schema(node) is None:
            return f"the operator {node.key} is not ONNX's own"
        if node.key == "BitCast":
            return "it reads the bits of its input"
        if _types_by_attribute(model, node, outputs):
            return "an attribute gives the type that it returns"
        if _holds_sequences(model, node):
            return "sequences and optional tensors keep their types"
        given = [(p, v) for p, v in enumerate(node.inputs) if v is not None]
        unknown = next((v for p, v in given if not model.dtype(v) and takes(model, node, p, self.low.elem)), None)
        if unknown is not None:
            return f"the type of '{unknown.name}' is not known"
        positions = [p for p, _ in self.plan.floats(node)]
        return "" if _has_form(model, node, outputs, positions, self.low) else NO_FORM.format(self.low.name)

    def _is_scaled(self, node: Node) -> bool:
        """Whether a QuantizeLinear or a DequantizeLinear has its scale in the file, and a form in the type."""
        if node.key not in SCALED or node.inputs[1] is None or not takes(self.model, node, 1, self.low.elem):
            return False
        maker = node.inputs[1].producer
        return self.model.is_constant(node.inputs[1]) and (maker is None or maker.key not in SCALED)

    def _has_form(self, facts: _Facts, low: Format) -> bool:
        positions = [p for p, _ in self.plan.floats(facts.node)]
        return _has_form(self.model, facts.node, facts.outputs, positions, low)

    # ---- reasons for fp32 --------------------------------------------------------------------------------------------

    def _reason(self, facts: _Facts) -> str:
        """The first reason for fp32; empty where there is none."""
        return (
            self._kept(facts.node)
            or self._from_integers(facts)
            or self._by_constants(facts)
            or self._by_epsilon(facts.node)
            or ("its results are ranked" if facts.node in self.ranked else "")
            or ("the size of a tensor is computed from it" if facts.node in self.sizing else "")
            or ("a variance as a difference of two means" if facts.node in self.variances else "")
            or self._by_rule(facts)
            or self._by_author(facts)
            or self._by_target(facts.node)
        )

    def _beyond_range(self, facts: _Facts) -> str:
        """Why the numbers of a node leave the range of the type; empty where they do not."""
        return self._measured(facts) or self._by_growth(facts)

    def _by_epsilon(self, node: Node) -> str:
        epsilon = node.attr("epsilon")
        if node.op in INSIDE_FP32:
            return ""
        if isinstance(epsilon, float) and epsilon > 0 and not self.low.rounded(np.asarray(epsilon, np.float32)).any():
            return f"its epsilon {epsilon:g} is 0 in {self.low.name}"
        return ""

    def _kept(self, node: Node) -> str:
        """A word of the user's names the node."""
        for word in self.keep:
            if word == node.op or f"~{word}/" in node.name or fnmatchcase(node.name, word):
                return f"--keep-fp32 {word}"
            if node.proto.domain == DOMAIN and word.replace("-", "").lower() in node.op.lower():
                return f"--keep-fp32 {word}"
        return ""

    def _from_integers(self, facts: _Facts) -> str:
        """It computes positions, sizes or counts: integers above 2048 are not exact in fp16, above 256 in bf16."""
        node = facts.node
        if node.key == "Cast" and node.inputs[0] is not None and not facts.inputs:
            if self.model.dtype(node.inputs[0]) in SMALL_INTEGERS:
                return ""
            self.counted.update(facts.outputs)
            return "computed from integers"
        varying = [v for v in facts.inputs if not self.model.is_constant(v)]
        if node.key != "Range" and not (varying and all(v in self.counted for v in varying)):
            return ""
        if node.op not in HEAVY and node.op not in ("Sin", "Cos"):
            self.counted.update(facts.outputs)
        return "computed from integers"

    def _by_constants(self, facts: _Facts) -> str:
        """The type does not hold one of its constants. Weights among them are named, as are numbers that become 0."""
        node = facts.node
        for position, value, array in facts.constants:
            if not takes(self.model, node, position, self.low.elem) or _is_no_bound(node, position, array):
                continue
            least = self.ranges.smallest(facts.outputs[0].name) if self.ranges and node.key in ("Add", "Sub") else None
            divisor = node.key in DIVIDES and position == 1
            why = constant_reason(array, self.low, divisor=divisor, least=least or 0.0)
            if not why:
                self._note_flushed(value, array)
                continue
            if array.size == 1:
                return f"its constant {float(array.reshape(-1)[0]):g} {why} in {self.low.name}"
            if self.model.dtype(value) == SINGLE:
                self.plan.warnings.append(f"{node.label}: '{value.name}' {why} in {self.low.name}; the node stays fp32")
            return f"'{value.name}' {why} in {self.low.name}"
        return ""

    def _note_flushed(self, value: Value, array: np.ndarray) -> None:
        """Note weights that become 0."""
        if array.size < 2 or array.dtype != np.float32:
            return
        zeros = flushed(array, self.low)
        if zeros.size:
            self.flushed.append((value.name, zeros.size, array.size, float(np.abs(zeros).max())))

    def report_flushed(self) -> None:
        """Warn of the weights that become 0, in one sentence."""
        if self.flushed:
            name = self.flushed[0][0]
            named = f"'{name}'" if len(self.flushed) == 1 else f"'{name}' and {len(self.flushed) - 1} more weights"
            zeros, numbers = sum(row[1] for row in self.flushed), sum(row[2] for row in self.flushed)
            lost = max(row[3] for row in self.flushed)
            self.plan.warnings.append(
                f"{named}: {zeros} of {numbers} numbers, up to {lost:.1g}, become 0 in {self.low.name}"
            )

    def _measured(self, facts: _Facts) -> str:
        """Numbers in the run come too near to the type's largest number."""
        if self.ranges is None:
            return ""
        for value in (*facts.inputs, *facts.outputs):
            largest = self.ranges.largest(value.name)
            if largest is not None and largest * self._margin(value) > self.low.largest:
                return f"'{value.name}' reaches {largest:.3g} on the data"
        return ""

    def _margin(self, value: Value) -> float:
        if self.leaves_range:
            return UNBOUND_MARGIN
        found = self._degree(value)
        return MARGIN if found is None or fits(found) else GROWING_MARGIN

    def _by_rule(self, facts: _Facts) -> str:
        """The operator is sensitive; measured ranges decide where the rule is about ranges."""
        node = facts.node
        if node.proto.domain == DOMAIN:
            return "a normalisation" if "Norm" in node.op else "a node of surgeon's own"
        if self.lean and self._is_measured(facts) and node.op not in STAYS:
            return ""
        if node.op == "ReduceMean" and any(_is_squared(d) for o in facts.outputs for d in _readers(o) if d.op == "Sub"):
            return "the mean of a normalization"  # the squares are fp32: one cast before it serves both
        safe = self._is_measured_safe(facts)
        if node.op in SENSITIVE and not (safe and node.op in BY_RANGE):
            return SENSITIVE[node.op]
        if safe:
            return ""
        if node.key == "Div" and len(facts.inputs) == 2 and not self.model.is_constant(facts.inputs[1]):
            return "division by a tensor"
        return ""

    def _by_growth(self, facts: _Facts) -> str:
        """Its numbers grow faster than the model's inputs; measured ranges decide where there are some."""
        if self._is_measured_safe(facts) or (self.lean and self._is_measured(facts)):
            return ""
        if self.low.largest >= BF16.largest or facts.node.proto.domain == DOMAIN:
            return ""
        degrees = [self._degree(v) for v in (*facts.inputs, *facts.outputs)]
        grown = [d for d in degrees if d is not None and not fits(d)]
        if not grown:
            return ""
        if max(grown) >= UNBOUNDED:
            return "numbers without a bound"
        return "numbers that grow faster than the model's inputs, or shrink"

    def _is_measured(self, facts: _Facts) -> bool:
        """Whether the run gave every tensor of the node a range."""
        varying = (v for v in (*facts.inputs, *facts.outputs) if not self.model.is_constant(v))
        return self.ranges is not None and all(self.ranges.largest(v.name) is not None for v in varying)

    def _is_measured_safe(self, facts: _Facts) -> bool:
        """Whether every tensor of the node was well inside the type's range in the run, at both ends."""
        if self.ranges is None:
            return False
        for value in (*facts.inputs, *facts.outputs):
            if self.model.is_constant(value):
                continue
            largest, smallest = self.ranges.largest(value.name), self.ranges.smallest(value.name)
            if largest is None or smallest is None:
                return False
            if largest * self._margin(value) > self.low.largest or smallest < self.low.smallest_normal * MARGIN:
                return False
        return True

    def _by_author(self, facts: _Facts) -> str:
        """The file has it in fp32, between casts from fp16 and back or beside products in half precision."""
        if not any(self.model.dtype(o) == SINGLE for o in facts.outputs):
            return ""
        if any(v in self.authors for v in facts.inputs):
            self.authors.update(facts.outputs)
            return "the file casts to fp32 for it"
        return "the file has it in fp32 beside half precision" if self.is_mixed else ""

    def _by_target(self, node: Node) -> str:
        """The target does not support it in half precision."""
        return (self.refused(node) or "") if self.refused is not None else ""

    # ---- neighbours --------------------------------------------------------------------------------------------------

    def leave_quantized(self) -> None:
        """Keep a node in fp32 that reads the result of a DequantizeLinear with no form in the type, or a constant
        computed from one.

        It runs in int8 in the end, and a cast between the two would undo that.
        """
        for node in self.nodes:
            fed = any(self._is_dequantized(v) for _, v in self.plan.floats(node))
            if fed and node not in self.plan.fixed:
                self.plan.single[node] = "it reads the result of DequantizeLinear"

    def _is_dequantized(self, value: Value) -> bool:
        """Whether DequantizeLinear makes a tensor, or a constant that it is computed from."""
        node = value.producer
        while node is not None and node.op != "DequantizeLinear" and self.plan.fixed.get(node) == COMPUTED:
            node = next((v.producer for v in node.inputs if v is not None and v.producer is not None), None)
        return node is not None and node.op == "DequantizeLinear" and node in self.plan.fixed

    def look_for_lost_epsilons(self, repair_eps: float | None) -> None:
        """Report an epsilon that is 0 in the file, or repair it.

        Clip(norm, 0), Max(norm, 0) and norm + 0 before a division, in fp16: the 0 was 1e-12 before it was rounded.
        """
        for node in self.nodes:
            if node.op not in ("Clip", "Max", "Add"):
                continue
            for position, _, array in self._constants(node):
                if position != 2 and array.dtype == np.float16 and not array.any() and _divides(node):
                    self._note_epsilon(node, position, repair_eps)

    def _note_epsilon(self, node: Node, position: int, repair_eps: float | None) -> None:
        if repair_eps is None:
            self.plan.warnings.append(
                f"{node.label}: its epsilon is 0 in the file, so a row of zeros is divided by 0; --repair-eps sets one"
            )
            return
        self.plan.repaired[node, position] = repair_eps
        self.plan.single.setdefault(node, f"the epsilon {repair_eps:g}")
        self.plan.warnings.append(f"{node.label}: its epsilon was 0 in the file and is {repair_eps:g} now, in fp32")


def _keep_before_recurrent(plan: Plan, nodes: Sequence[Node]) -> None:
    """Keep what an LSTM, a GRU or an RNN in fp32 reads in fp32, back to the first node that computes.

    TensorRT-RTX 1.7 builds none whose X is a Cast from half precision, moved or not. It does with a node between.
    """
    todo = [n.inputs[0] for n in nodes if n.op in RECURRENT and plan.precision(n) == SINGLE]
    while todo:
        value = todo.pop()
        maker = None if value is None else plan.root(value).producer
        if maker is None or maker in plan.fixed or plan.precision(maker) == SINGLE:
            continue
        plan.single[maker] = AHEAD
        if maker.op in KEEPS_NUMBERS:
            todo += plan.varying(maker)


def _dequantize_as_read(plan: Plan, free: Sequence[Node]) -> None:
    """Have a DequantizeLinear make the type in which its result is read, whatever its QuantizeLinear reads: no cast."""
    for node in free:
        read = (plan.read_types(o, but_by=node) for o in plan.float_outputs(node))
        if node.op == "DequantizeLinear" and node in plan.single and any(plan.low.elem in types for types in read):
            del plan.single[node]


def _join_pairs_of_one_type(plan: Plan, nodes: Sequence[Node]) -> None:
    """Keep a Concat in fp32 that joins results of DequantizeLinear in 16 bits and in fp32, also after what moves them.

    TensorRT-RTX 1.7.1 does not build it in 16 bits: "const_ppg.cpp:3401: CHECK(opnd->type() == output_type)".
    """
    for node in nodes:
        if node.op != "Concat" or plan.precision(node) == SINGLE:
            continue
        joined = sources(plan.varying(node), lambda maker: maker.op in KEEPS_NUMBERS)
        types = {plan.type_of(v) for v in joined if v.producer is not None and v.producer.op == "DequantizeLinear"}
        if len(types) > 1:
            plan.single[node] = JOINED


def _has_form(model: Model, node: Node, outputs: Sequence[Value], positions: Sequence[int], low: Format) -> bool:
    """Whether the operator has a form in a type, at the opset of the model."""
    if outputs and not any(returns(model, node, o.index, low.elem) for o in outputs):
        return False
    return not positions or any(takes(model, node, p, low.elem) for p in positions)


def _holds_weights(model: Model, node: Node) -> bool:
    """Whether the node makes floats of weights that are stored in 8 bits and fewer."""
    if node.key != "DequantizeLinear" or node.inputs[0] is None:
        return False
    return model.is_constant(node.inputs[0]) and model.dtype(node.inputs[0]) not in WIDE


def _is_too_large(model: Model, value: Value) -> bool:
    """Whether a tensor is too large to be computed and stored, as is the transposed table of a language model."""
    return math.prod(d for d in model.shape(value) or () if isinstance(d, int)) > FOLD_LIMIT


def _is_no_bound(node: Node, position: int, array: np.ndarray) -> bool:
    """Whether a constant is a bound of Clip at the end of fp32's range, which no number of fp32 passes."""
    if node.key != "Clip" or position not in (1, 2):
        return False
    return bool((np.abs(array.astype(np.float64)) >= FLOAT_LIMIT).all())


def _holds_sequences(model: Model, node: Node) -> bool:
    """Whether an input or output of the operator is never a plain tensor.

    The types of a sequence's elements are not tracked.
    """
    spec = model.schema(node)
    if spec is None:
        return False
    kinds = {c.type_param_str: c.allowed_type_strs for c in spec.type_constraints}
    for formal in (*spec.inputs, *spec.outputs):
        if not any(t.startswith("tensor(") for t in kinds.get(formal.type_str, [formal.type_str])):
            return True
    return False


def _types_by_attribute(model: Model, node: Node, outputs: Sequence[Value]) -> bool:
    """Whether no input fixes the type of an output, and it is not one of the operators whose attribute is rewritten."""
    spec = model.schema(node)
    if spec is None or node.key in RETYPED:
        return False
    given = {f.type_str for f in spec.inputs}
    for out in outputs:
        kind = spec.outputs[min(out.index, len(spec.outputs) - 1)].type_str
        if kind not in given and returns(model, node, out.index, HALF):
            return True
    return False


def _readers(value: Value) -> Iterator[Node]:
    """The nodes that read a tensor, after casts."""
    return (user for user, _ in readers([value], lambda node: node.key == "Cast") if user.key != "Cast")


def _is_squared(node: Node) -> bool:
    """Whether the result of a node is multiplied by itself, or raised to a power."""
    for user in (u for o in node.outputs if o is not None for u in _readers(o)):
        if user.op == "Pow" or (user.op == "Mul" and len(set(user.inputs)) == 1):
            return True
    return False


def _divides(node: Node) -> bool:
    """Whether what the node returns divides something, after roots and changes of shape."""
    made = [o for o in node.outputs if o is not None]
    after = readers(made, lambda user: user.key in ("Sqrt", "Expand", "Reshape", "Unsqueeze", "Cast", "Identity"))
    return any(divides(user, value) for user, value in after)
