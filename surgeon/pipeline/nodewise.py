"""A model run node by node: what each tensor is by itself, and what it is together with other samples or rows."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto

from surgeon.ir.protos import reads
from surgeon.ir.run import Runner, Unrunnable, model_around
from surgeon.proof.equality import Difference, compare, tolerance_of

LOOSE = 10.0  # times the tolerance of one window: a kernel sums a larger batch in another order, node by node


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the samples of a tensor lie: along `axis`, in which `outer` other positions are counted before them."""

    axis: int
    outer: int = 1


@dataclass(slots=True)
class Tensor:
    """What a tensor is in several runs, alone and together with what must not change it.

    alone     an array a run
    together  an array a run, or one for all of them
    layout    where along which axis it is found again; None where it is the same, or follows from sizes alone
    sized     whether it follows from sizes, so that it may be another one together
    """

    alone: list[np.ndarray]
    together: list[np.ndarray]
    layout: Layout | None = None
    sized: bool = False

    @property
    def is_same(self) -> bool:
        """Whether it does not depend on what it is together with."""
        return self.layout is None and not self.sized


class Walk(ABC):
    """Runs nodes of a model one by one, on what each tensor is alone and together."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.tensors: dict[str, Tensor] = {}

    @abstractmethod
    def visit(self, node: NodeProto, read: Mapping[str, Tensor]) -> list[Tensor]:
        """What a node makes of what it reads: a tensor for each output that has a name."""

    def walk(self, nodes: Sequence[NodeProto]) -> None:
        """Visit the nodes. A tensor that none of those left reads is forgotten, unless the model returns it."""
        left = Counter(name for node in nodes for name in reads(node))
        left.update(o.name for o in self.model.graph.output)
        for node in nodes:
            read = {name: self.tensors[name] for name in reads(node)}
            self.tensors.update(zip(filter(None, node.output), self.visit(node, read), strict=True))
            for name in reads(node):
                left[name] -= 1
                if not left[name]:
                    self.tensors.pop(name, None)

    def alone(self, node: NodeProto, read: Mapping[str, Tensor], runs: int) -> Iterator[list[np.ndarray]]:
        """A node's outputs in each run. Raises Unrunnable."""
        for k in range(runs):
            yield _computed(node, {name: tensor.alone[k] for name, tensor in read.items()}, self.model)

    def together(
        self, nodes: Sequence[NodeProto], read: Mapping[str, Tensor], runs: int, constants: Mapping[str, np.ndarray]
    ) -> Iterator[list[np.ndarray]]:
        """The outputs of the last of some nodes in each run; they may read each other. Raises Unrunnable."""
        for k in range(runs):
            feeds = {**{name: tensor.together[k] for name, tensor in read.items()}, **constants}
            made: list[np.ndarray] = []
            for node in nodes:
                made = _computed(node, feeds, self.model)
                feeds.update(zip(filter(None, node.output), made, strict=True))
            yield made


def depends_on_sizes_alone(node: NodeProto, read: Mapping[str, Tensor]) -> bool:
    """Whether what a node makes follows from sizes."""
    return node.op_type in ("Shape", "Size") or all(tensor.layout is None for tensor in read.values())


def _computed(node: NodeProto, feeds: Mapping[str, np.ndarray], model: ModelProto) -> list[np.ndarray]:
    """The outputs of a node of a model. Raises Unrunnable."""
    given = {name: np.asarray(feeds[name]) for name in reads(node)}
    if any(_is_sequence(array) for array in given.values()):
        raise Unrunnable("it reads a sequence")
    alone, asked = model_around(
        node,
        given,
        [name for name in node.output if name],
        opset_imports=model.opset_import,
        functions=model.functions,
        ir_version=model.ir_version,
    )
    made = Runner(alone).run(asked)
    if any(_is_sequence(array) for array in made):
        raise Unrunnable("it returns a sequence, a map or nothing")
    return made


def _is_sequence(array: np.ndarray) -> bool:
    """Whether what a runtime returns is not a tensor of numbers or strings."""
    return array.dtype == object and not all(isinstance(element, str) for element in array.reshape(-1))


def is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results are equal but for rounding."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind in "biuO":
        return bool(np.array_equal(one, other))
    return not difference(one, other).why


def difference(one: np.ndarray, other: np.ndarray, times: float = LOOSE) -> Difference:
    """The difference of two results of finite inputs, by the tolerance of their type, taken some times."""
    return compare(one, other, tolerance=times * tolerance_of(other.dtype), finite=True)
