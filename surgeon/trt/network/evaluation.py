"""Evaluating a network: the order of the layers, loops, conditionals, and the types of values.

Values are computed on demand, from the outputs back, because the network's own order is not topological and because a
conditional must run only the branch that it takes. FP16 and BF16 values are widened to float32 before a layer and
rounded to the layer's own type after it, so every sum is a float32 sum and nothing is ever a float64.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from surgeon.trt.network.definition import NUMPY_TYPES, Layer, Network, NetworkError, Tensor
from surgeon.trt.network.layers import LAYERS, limitation

# Evaluated here and not through the table: what they compute depends on more than their inputs' values.
CONTROL_FLOW = (
    "TRIP_LIMIT", "RECURRENCE", "ITERATOR", "LOOP_OUTPUT", "CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT"
)  # fmt: skip
NARROW_TYPES = ("HALF", "BF16")


class UnsupportedLayer(NetworkError):
    """The network has layers that cannot be evaluated; the message names each of them."""


class EvaluationError(NetworkError):
    """An input is missing or wrong, or a layer cannot be computed from the values that reach it."""


def unsupported(network: Network) -> list[str]:
    """Every layer that cannot be evaluated, in words, in network order; an empty list when all can."""
    return [f"{layer}: {reason}" for layer in network.layers if (reason := _why_not(layer))]


def evaluate(network: Network, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the network's outputs, by name, from `feeds`, its inputs by name.

    A feed of a wider type of the same kind is converted to the network's own (the parser may have narrowed int64 or
    float64). Raises UnsupportedLayer naming every layer that cannot be evaluated, EvaluationError where an input is
    missing, unknown or of another type or shape, and where a layer's result is not of the type and shape that TensorRT
    says it is.
    """
    refused = unsupported(network)
    if refused:
        raise UnsupportedLayer("cannot evaluate " + "; ".join(refused))
    run = _Run(network, _checked_feeds(network, feeds))
    with np.errstate(all="ignore"):  # inf and NaN are values like any other here
        run.demand(network.outputs)
    return {tensor.name: run.values[tensor.id] for tensor in network.outputs}


def _why_not(layer: Layer) -> str:
    if layer.kind not in LAYERS and layer.kind not in CONTROL_FLOW:
        return "this kind of layer has no evaluator"
    for tensor in (*layer.inputs, *layer.outputs):
        if tensor is not None and tensor.type not in NUMPY_TYPES:
            return f"tensor '{tensor.name}' is of type {tensor.type}"
    for tensor in layer.outputs:
        if tensor.shape is None:
            return f"TensorRT cannot compute the shape of its output '{tensor.name}'"
    return limitation(layer)


def _checked_feeds(network: Network, feeds: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    names = [tensor.name for tensor in network.inputs]
    unknown = sorted(set(feeds) - set(names))
    if unknown:
        raise EvaluationError(f"the network has no input {unknown}; it has {names}")
    values = {}
    for tensor in network.inputs:
        if tensor.name not in feeds:
            raise EvaluationError(f"input '{tensor.name}' ({tensor.type} {tensor.shape}) is missing")
        value = np.asarray(feeds[tensor.name])
        if not _fits(value.shape, tensor.shape):
            raise EvaluationError(f"input '{tensor.name}' is {tensor.shape} in the network, not {value.shape}")
        if not np.can_cast(value.dtype, tensor.dtype, "same_kind"):
            raise EvaluationError(f"input '{tensor.name}' is {tensor.type} in the network, not {value.dtype}")
        values[tensor.id] = value.astype(tensor.dtype)
    return values


def _fits(shape: tuple[int, ...], declared: tuple[int, ...] | None) -> bool:
    if declared is None or len(shape) != len(declared):
        return False
    return all(want in (-1, have) for have, want in zip(shape, declared, strict=True))


@dataclass
class _Loop:
    """The boundary layers of one loop, and every tensor whose value may change from one iteration to the next."""

    trip_limits: list[Layer] = field(default_factory=list)
    recurrences: list[Layer] = field(default_factory=list)
    iterators: list[Layer] = field(default_factory=list)
    outputs: list[Layer] = field(default_factory=list)
    body: set[int] = field(default_factory=set)

    def limits(self, kind: str) -> list[Tensor]:
        return [_tensor(layer, 0) for layer in self.trip_limits if layer.native.kind.name == kind]

    def boundary(self) -> Iterable[Layer]:
        return (*self.trip_limits, *self.recurrences, *self.iterators, *self.outputs)


class _Run:
    """One evaluation: the values known so far, by tensor id."""

    def __init__(self, network: Network, values: dict[int, np.ndarray]) -> None:
        self.values = values
        self.producers = {tensor.id: layer for layer in network.layers for tensor in layer.outputs}
        self.conditions = {layer.scope: _tensor(layer, 0) for layer in network.layers if layer.kind == "CONDITION"}
        self.loops = _find_loops(network)

    def demand(self, targets: Iterable[Tensor]) -> None:
        """Compute the targets and all that they need, without recursion (a loop's iterations apart)."""
        waiting = list(targets)
        while waiting:
            tensor = waiting[-1]
            if tensor.id in self.values:
                waiting.pop()
                continue
            layer = self.producers[tensor.id]
            missing = [needed for needed in self.needs(layer) if needed.id not in self.values]
            if missing:
                waiting.extend(missing)
            elif layer.kind == "LOOP_OUTPUT":
                self.run_loop(self.loops[layer.scope])
            else:
                self.store(layer, self.compute(layer))

    def needs(self, layer: Layer) -> list[Tensor]:
        if layer.kind in ("RECURRENCE", "ITERATOR"):  # set by run_loop before anything in the body is demanded
            raise EvaluationError(f"{layer} is read outside its loop, or past the end of what it iterates over")
        if layer.kind == "LOOP_OUTPUT":
            return self.loop_needs(self.loops[layer.scope])
        if layer.kind == "CONDITIONAL_OUTPUT":
            condition = self.conditions[layer.scope]
            return [self.taken_branch(layer)] if condition.id in self.values else [condition]
        return [tensor for tensor in layer.inputs if tensor is not None]

    def taken_branch(self, layer: Layer) -> Tensor:
        return _tensor(layer, 0 if bool(self.values[self.conditions[layer.scope].id]) else 1)

    def compute(self, layer: Layer) -> np.ndarray | tuple[np.ndarray, ...]:
        if layer.kind == "CONDITIONAL_OUTPUT":
            return self.values[self.taken_branch(layer).id]
        if layer.kind == "CONDITIONAL_INPUT":
            return self.values[_tensor(layer, 0).id]
        inputs = [None if tensor is None else self.values[tensor.id] for tensor in layer.inputs]
        for k, tensor in enumerate(layer.inputs):
            if tensor is not None and tensor.type in NARROW_TYPES:
                inputs[k] = self.values[tensor.id].astype(np.float32)
        try:
            results: np.ndarray | tuple[np.ndarray, ...] = LAYERS[layer.kind](layer, *inputs)
            return results
        except NetworkError as error:
            raise EvaluationError(f"{layer}: {error}") from error
        except Exception as error:  # NumPy and ONNX Runtime raise many kinds: all mean that these values do not fit
            raise EvaluationError(f"{layer}: {type(error).__name__}: {error}") from error

    def store(self, layer: Layer, results: np.ndarray | tuple[np.ndarray, ...]) -> None:
        for tensor, value in zip(layer.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            value = np.asarray(value)
            if tensor.type in NARROW_TYPES and value.dtype == np.float32:
                value = value.astype(tensor.dtype)
            if value.dtype != tensor.dtype or not _fits(value.shape, tensor.shape):
                raise EvaluationError(
                    f"{layer}: '{tensor.name}' is {tensor.type} {tensor.shape} in TensorRT's network, "
                    f"but evaluates to {value.dtype} {value.shape}"
                )
            self.values[tensor.id] = value

    def loop_needs(self, loop: _Loop) -> list[Tensor]:
        """What must be known before the first iteration."""
        sources = [*loop.limits("COUNT"), *(_tensor(layer, 0) for layer in (*loop.recurrences, *loop.iterators))]
        sources += [layer.inputs[1] for layer in loop.outputs if len(layer.inputs) > 1 and layer.inputs[1] is not None]
        return [tensor for tensor in sources if tensor.id not in loop.body]

    def run_loop(self, loop: _Loop) -> None:
        """Iterate until the count is reached or the while condition is false, then set every output of the loop.

        A recurrence is its first input in the first iteration and later the value that its second input had in the
        iteration before; as a last value it is what the next iteration would have seen.
        """
        counts = [int(self.values[tensor.id]) for tensor in loop.limits("COUNT")]
        conditions = loop.limits("WHILE")
        if not counts and not conditions:
            raise EvaluationError(f"the loop of {loop.outputs[0]} has no trip limit")
        state = [self.values[_tensor(layer, 0).id] for layer in loop.recurrences]
        collected: dict[int, list[np.ndarray]] = {layer.outputs[0].id: [] for layer in loop.outputs}
        iteration = 0
        while True:
            self.enter_iteration(loop, state)
            if counts and iteration >= min(counts):
                break
            self.set_iterators(loop, iteration, counts)
            self.demand(conditions)
            if not all(bool(self.values[tensor.id]) for tensor in conditions):
                break
            self.demand(_tensor(layer, 0) for layer in loop.outputs)
            for layer in loop.outputs:
                collected[layer.outputs[0].id].append(self.values[_tensor(layer, 0).id])
            self.demand(_tensor(layer, 1) for layer in loop.recurrences)
            state = [self.values[_tensor(layer, 1).id] for layer in loop.recurrences]
            iteration += 1
        recurring = {layer.outputs[0].id: value for layer, value in zip(loop.recurrences, state, strict=True)}
        results = [self.loop_output(layer, collected[layer.outputs[0].id], recurring) for layer in loop.outputs]
        self.leave_iteration(loop)
        for layer, result in zip(loop.outputs, results, strict=True):
            self.store(layer, result)

    def enter_iteration(self, loop: _Loop, state: list[np.ndarray]) -> None:
        self.leave_iteration(loop)
        for layer, value in zip(loop.recurrences, state, strict=True):
            self.values[layer.outputs[0].id] = value

    def leave_iteration(self, loop: _Loop) -> None:
        for tensor in loop.body:
            self.values.pop(tensor, None)

    def set_iterators(self, loop: _Loop, iteration: int, counts: list[int]) -> None:
        """Subscript each iterated tensor. Past its end it has no value: a while loop may get there before it stops."""
        for layer in loop.iterators:
            data, axis = self.values[_tensor(layer, 0).id], layer.native.axis
            if layer.native.reverse and not counts:
                raise EvaluationError(f"{layer} runs backwards in a loop without a count")
            index = min(counts) - 1 - iteration if layer.native.reverse else iteration
            if 0 <= index < data.shape[axis]:
                self.store(layer, data.take(index, axis))

    def loop_output(self, layer: Layer, values: list[np.ndarray], recurring: dict[int, np.ndarray]) -> np.ndarray:
        kind, source, result = layer.native.kind.name, _tensor(layer, 0), layer.outputs[0]
        if kind == "LAST_VALUE" and source.id in recurring:
            return recurring[source.id]
        if values and kind == "LAST_VALUE":
            return values[-1]
        if values:
            return np.stack(values if kind == "CONCATENATE" else values[::-1], layer.native.axis)
        shape = list(source.shape or ())
        if kind == "LAST_VALUE" or -1 in shape:
            raise EvaluationError(f"{layer}: the loop ran no iteration, so '{result.name}' has no value")
        shape.insert(layer.native.axis, 0)
        return np.zeros(shape, source.dtype)


def _tensor(layer: Layer, index: int) -> Tensor:
    tensor = layer.inputs[index] if index < len(layer.inputs) else None
    if tensor is None:
        raise EvaluationError(f"{layer} has no input {index}")
    return tensor


def _find_loops(network: Network) -> dict[int | None, _Loop]:
    loops: dict[int | None, _Loop] = {}
    places = {
        "TRIP_LIMIT": "trip_limits", "RECURRENCE": "recurrences", "ITERATOR": "iterators", "LOOP_OUTPUT": "outputs"
    }  # fmt: skip
    for layer in network.layers:
        if layer.kind in places:
            getattr(loops.setdefault(layer.scope, _Loop()), places[layer.kind]).append(layer)
    if loops:
        _find_bodies(network, loops)
    return loops


def _find_bodies(network: Network, loops: dict[int | None, _Loop]) -> None:
    """Fill in each loop's body: a fixed point, because a recurrence closes a circle and loops nest.

    A tensor belongs to a loop if it depends on one of its recurrences or iterators and has not left through an output.
    Whatever reaches a loop's boundary from an outer loop makes all of the inner loop, outputs included, part of the
    outer one.
    """
    within: dict[int, frozenset[int | None]] = {}
    conditions = {layer.scope: _tensor(layer, 0) for layer in network.layers if layer.kind == "CONDITION"}
    around: dict[int | None, frozenset[int | None]] = {scope: frozenset() for scope in loops}
    changed = True
    while changed:
        changed = False
        for scope, loop in loops.items():
            sources = (tensor for layer in loop.boundary() for tensor in layer.inputs if tensor is not None)
            outer = frozenset().union(*(within.get(tensor.id, frozenset()) for tensor in sources)) - {scope}
            changed |= outer != around[scope]
            around[scope] = outer
        for layer in network.layers:
            inside = _loops_of(layer, within, around, conditions)
            for tensor in layer.outputs:
                changed |= within.get(tensor.id, frozenset()) != inside
                within[tensor.id] = inside
    for tensor_id, scopes in within.items():
        for scope in scopes:
            loops[scope].body.add(tensor_id)


def _loops_of(
    layer: Layer,
    within: dict[int, frozenset[int | None]],
    around: dict[int | None, frozenset[int | None]],
    conditions: dict[int | None, Tensor],
) -> frozenset[int | None]:
    if layer.kind in ("RECURRENCE", "ITERATOR"):
        return around[layer.scope] | {layer.scope}
    if layer.kind == "LOOP_OUTPUT":
        return around[layer.scope]
    sources = [tensor for tensor in layer.inputs if tensor is not None]
    if layer.kind == "CONDITIONAL_OUTPUT":
        sources.append(conditions[layer.scope])
    return frozenset().union(*(within.get(tensor.id, frozenset()) for tensor in sources))
