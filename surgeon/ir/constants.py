"""Tensors that do not depend on the model's inputs, computed on demand: the component `model.constants`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, numpy_helper

from surgeon.errors import SurgeonError
from surgeon.ir.attributes import constant_value
from surgeon.ir.files import with_data
from surgeon.ir.following import Closure
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import is_static
from surgeon.ir.operators import HOLDS, MEASURES, RANDOM
from surgeon.ir.protos import SMALL_TENSOR
from surgeon.ir.run import Reference, Runner, Unrunnable, model_of_one_node
from surgeon.ir.sizes import shape_slice
from surgeon.ir.weight_file import mapped

if TYPE_CHECKING:
    from surgeon.ir.model import Model

FOLD_LIMIT = 1 << 22  # elements: a computed constant larger than this is left to the runtime
NEVER_CONSTANT = RANDOM | HOLDS | {"Dropout"}  # what they return is drawn, or is not a tensor
TO_FOUR_BITS = frozenset({"Cast", "CastLike", "QuantizeLinear"})
FOUR_BITS = frozenset({"int4", "uint4"})

Array = np.ndarray[Any, Any]
Fingerprint = tuple[tuple[int, ...], str, bytes]


class Constants:
    """The constants of a model, each computed once.

    The nodes that compute a constant are run through ONNX Runtime: what is proved with it is computed with it. What it
    has no kernel for, and so runs in no model, onnx's reference evaluator computes. Shapes come from `model.types`,
    which asks here for elements.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._closure = Closure(self._is_constant)
        self._values: dict[Value, Array] = {}
        self._results: dict[bytes, list[Array] | None] = {}  # of a model of one node
        self._fingerprints: dict[Value, Fingerprint] = {}

    def is_constant(self, value: Value) -> bool:
        """Whether `value` can be computed without the model's inputs. Memoised, so linear over a whole run."""
        if value.varies:
            return False
        decided = self._closure.decided.get(value)
        return self._closure.holds(value) if decided is None else decided

    def value(self, value: Value) -> Array | None:
        """The elements of a constant; None for any other tensor, or one too large to be worth it."""
        if not self.is_constant(value):
            return None
        large = None if value.tensor is None else mapped(value.tensor, self._model.base)
        if large is not None:  # it is not kept: what was read of it would stay in memory
            return large
        known, stack = self._values, [value]
        while stack:
            current = stack[-1]
            if current in known:
                stack.pop()
                continue
            found = self._without_inputs(current)
            if found is not None:
                known[current] = found
                continue
            node = current.producer
            assert node is not None
            missing = [i for i in node.inputs if i is not None and i not in known]
            if missing:
                stack.extend(missing)
                continue
            outputs = self.of_inputs(node, [None if i is None else known[i] for i in node.inputs])
            if outputs is None:
                return None
            for out, array in zip(node.outputs, outputs, strict=False):
                if out is not None:
                    known[out] = array
        return known[value]

    def of_inputs(self, node: Node, inputs: Sequence[Array | None]) -> list[Array] | None:
        """What a node returns of such inputs, or None where they would be too large or cannot be computed."""
        if node.key == "Constant":
            array = constant_value(node.proto)
            return None if array is None else [array]
        if _elements_out(node, inputs) > FOLD_LIMIT or _may_overflow(node, inputs):
            return None
        model, feeds = model_of_one_node(node, inputs, self._model.opset_in(node.graph))
        if feeds:
            return _run(model, feeds)
        key = model.SerializeToString(deterministic=True)
        if key not in self._results:  # exporters write the same arithmetic of shapes again for every layer
            self._results[key] = _run(model, {})
        return self._results[key]

    def fingerprint(self, value: Value | Array | None) -> Fingerprint | None:
        """(shape, type, bytes) of a constant or an array, to look it up by; None for any other."""
        if not isinstance(value, Value):
            return None if value is None else _fingerprint(value)
        found = self._fingerprints.get(value)
        if found is not None:
            return found
        array = self.value(value)
        if array is None:
            return None
        found = _fingerprint(array)
        if array.size <= SMALL_TENSOR:
            self._fingerprints[value] = found
        return found

    def expect_more(self) -> None:
        """More has become knowable: what was not a constant is decided again."""
        self._closure.decided = {v: True for v, decided in self._closure.decided.items() if decided}

    def _is_constant(self, value: Value) -> bool | None:
        """Whether a tensor is a constant; None where it is one if every input of its producer is. For a Shape or a Size
        only the sizes of the input have to be known."""
        node = value.producer
        if value.varies or node is None:
            return value.tensor is not None and not value.is_input
        if node.key in MEASURES:
            return self._measured(node) is not None
        if any(i is not None and i.varies for i in node.inputs) or node.bodies or node.key in NEVER_CONSTANT:
            return False
        known = "::" not in node.key and self._model.schema(node) is not None
        return None if known and not any(a.ref_attr_name for a in node.proto.attribute) else False

    def _without_inputs(self, value: Value) -> Array | None:
        """The elements of an initializer, or of what a Shape or a Size returns: they need no other tensor's."""
        if value.tensor is not None:
            return numpy_helper.to_array(with_data(value.tensor, self._model.base))
        node = value.producer
        return self._measured(node) if node is not None and node.key in MEASURES else None

    def _measured(self, node: Node) -> Array | None:
        """What a Shape or a Size returns; None where not every size that it asks for is known."""
        source = node.inputs[0]
        shape = None if source is None else self._model.shape(source)
        if shape is None:
            return None
        asked = shape_slice(node, shape)
        if not is_static(asked):
            return None
        sizes = np.asarray(asked, np.int64)
        return sizes if node.key == "Shape" else np.asarray(sizes.prod(dtype=np.int64))


def _fingerprint(array: Array) -> Fingerprint:
    return (array.shape, array.dtype.str, array.tobytes())


def _run(model: ModelProto, feeds: dict[str, Array]) -> list[Array] | None:
    """The outputs of a model of a single node, an empty array for one that the node leaves out. None where it does not
    run, or returns more than FOLD_LIMIT elements. None, too, for what is rounded to four bits: onnx's reference
    evaluator, which has to do that, rounds otherwise than ONNX Runtime."""
    try:
        results = dict(zip([o.name for o in model.graph.output], _runner(model).run(feeds), strict=True))
    except Unrunnable:
        return None
    node = model.graph.node[0]
    found = [results.get(o, np.empty(0)) for o in node.output]
    if any(a.size > FOLD_LIMIT for a in found):
        return None
    if node.op_type in TO_FOUR_BITS and any(a.dtype.name in FOUR_BITS for a in found):
        return None
    return found


def _runner(model: ModelProto) -> Runner | Reference:
    """What runs the model. Without ONNX Runtime nothing is proved, so the reference evaluator will do."""
    try:
        return Runner(model)
    except SurgeonError:
        return Reference(model)


def _elements_out(node: Node, inputs: Sequence[Array | None]) -> int:
    """An estimate of how many elements the node returns, for the operators that can grow without bound."""
    first = inputs[0] if inputs else None
    if first is None:
        return 0
    if node.key == "ConstantOfShape":
        return int(np.prod(first, dtype=np.float64))
    second = inputs[1] if len(inputs) > 1 else None
    if node.key == "Expand" and second is not None:
        return int(np.prod(np.maximum(second, 1), dtype=np.float64)) * max(first.size, 1)
    if node.key == "Tile" and second is not None:
        return int(first.size * np.prod(second, dtype=np.float64))
    if node.key == "Range" and second is not None and inputs[2] is not None:
        start, stop, step = (float(a.reshape(-1)[0]) for a in (first, second, inputs[2]))
        return int(abs(stop - start) / max(abs(step), 1e-9))
    return first.size


def _may_overflow(node: Node, inputs: Sequence[Array | None]) -> bool:
    """Whether an integer division may have no result in its type: the lowest number by -1, of which processes die."""
    if node.key != "Div" or inputs[0] is None or inputs[1] is None or inputs[0].dtype.kind != "i":
        return False
    return bool((inputs[0] == np.iinfo(inputs[0].dtype).min).any() and (inputs[1] == -1).any())
