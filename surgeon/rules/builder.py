"""What the body of a rule builds the replacement with."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, partial
from itertools import combinations
from struct import Struct
from typing import Any, TypeVar, cast

import numpy as np
from onnx import TensorProto, helper

from surgeon.errors import PassError
from surgeon.ir.following import sources
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS, HALVES, Shape, is_static
from surgeon.ir.run import has_kernel
from surgeon.ir.schemas import DOMAIN, formal_types, schema
from surgeon.rules import dimensions
from surgeon.rules.context import Context
from surgeon.rules.dimensions import Dim
from surgeon.rules.pattern import check_spelling
from surgeon.rules.rule import Decline, require, require_some
from surgeon.rules.spelling import arrange
from surgeon.targets.condition import dtype_name
from surgeon.targets.unsupported import Unsupported

FP32 = Struct("<f")
Some = TypeVar("Some")
VARIADIC = frozenset({"Max", "Mean", "Min", "Sum"})  # their inputs are of one shape before the opset that follows
OPSET_WITH_BROADCASTING = 8


class Builder:
    """Makes the replacement: `b.Mul(x, 2.0)` spells a node as the pattern does.

    Inputs are values, numbers and arrays; a number takes the type of the tensor that it meets. What ONNX moved from an
    attribute to an input (`axes=`, `min=`, `pads=`, ...) is given by name and written as the model's opset wants it.
    """

    __slots__ = (
        "_context",
        "_graph",
        "_is_own",
        "model",
        "_prefix",
        "constants",
        "made",
        "matched",
        "name",
        "options",
        "root",
        "strategy",
        "target",
        "tolerance",
        "warnings",
    )

    def __init__(
        self, context: Context, pass_name: str, root: Node, strategy: str | None, matched: tuple[Node, ...] = ()
    ) -> None:
        self._context = context
        self.model = context.model
        self._graph = root.graph
        self.name = name_of_rewrite(root)  # before the root's outputs are passed on
        self._prefix = f"{self.name}~{pass_name}"
        self.root = root
        self.matched = matched or (root,)  # what the window replaces: a body that looks further adds what it saw
        self.strategy = strategy
        self.target = context.target
        self.options = context.options[pass_name]
        self._is_own = context.passes[pass_name].own
        self.made: list[Node] = []
        self.constants: list[Value] = []
        self.warnings: list[str] = []
        self.tolerance = 1.0

    # ---- what a body may ask -----------------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        return self.model.opset_in(self._graph)

    @property
    def alive(self) -> list[Node]:
        """What is made so far, without what was taken away again."""
        return [node for node in self.made if node.alive]

    def why_unsupported(self, node: Node) -> Unsupported | None:
        """Why the target does not support a node, whatever types and opset the model has; None where it does."""
        return self.target.why_unsupported(node, rewriting=True)

    def shape(self, value: Value) -> Shape | None:
        """int for a static dimension, str for a symbolic one, None for an unknown one;
        None where the rank is unknown."""
        return self.model.shape(value)

    def rank(self, value: Value) -> int | None:
        shape = self.model.shape(value)
        return None if shape is None else len(shape)

    def dtype(self, value: Value) -> int:
        """The TensorProto.DataType; 0 where it is not known."""
        return self.model.dtype(value)

    def known_shape(self, value: Value) -> Shape:
        """The shape; declines where not even the rank is known."""
        return require_some(self.model.shape(value), f"the rank of '{value.name}' is not known")

    def known_rank(self, value: Value) -> int:
        """The number of dimensions; declines where it is not known."""
        return len(self.known_shape(value))

    def known_dtype(self, value: Value) -> int:
        """The TensorProto.DataType; declines where it is not known."""
        return require_some(self.model.dtype(value) or None, f"the type of '{value.name}' is not known")

    def static(self, value: Value) -> tuple[int, ...]:
        """The sizes; declines where one of them is not known."""
        shape = self.known_shape(value)
        require(is_static(shape), f"the sizes of '{value.name}' are not static")
        return cast("tuple[int, ...]", shape)

    def static_size(self, value: Value, axis: int) -> int:
        """The size of an axis; declines where it is not known, or the tensor has no such axis."""
        shape = self.known_shape(value)
        require(-len(shape) <= axis < len(shape), f"'{value.name}' has no axis {axis}")
        require(isinstance(shape[axis], int), f"the size of axis {axis % len(shape)} of '{value.name}' is not static")
        return cast(int, shape[axis])

    def dims(self, value: Value) -> list[Dim] | None:
        """The dimensions, each an int, a symbol or (tensor, axis): two unknown sizes are equal where they are one.
        None where the rank is unknown."""
        return dimensions.dims(self.model, value)

    def known_dims(self, value: Value) -> list[Dim]:
        """The dimensions as `dims` gives them; declines where the rank is unknown."""
        return require_some(self.dims(value), f"the rank of '{value.name}' is not known")

    def elements(self, value: Value | None) -> list[Dim] | None:
        """The elements of a tensor of sizes, as far as they follow from shapes and constants; None where not even their
        number is known."""
        return dimensions.elements(self.model, value)

    def value(self, value: Value | np.ndarray | None) -> np.ndarray | None:
        """The tensor's value where it can be computed without the model's inputs, else None."""
        return self.model.constant(value)

    def fingerprint(self, value: Value | np.ndarray | None) -> tuple[Any, ...] | None:
        """(shape, type, bytes) of a tensor's value, to look it up by; None where it cannot be computed."""
        return self.model.fingerprint(value)

    def has_op(self, op: str, dtype: int, at: int = 0) -> bool:
        """Whether ONNX has `op` for tensors of `dtype`, as its input `at`, at the model's opset."""
        return _has_type(op, dtype, at, self.opset)

    def require_op(self, op: str, x: Value, at: int = 0) -> None:
        """Decline unless the model's opset lets `op` take x as its input `at`, and ONNX Runtime runs it there.

        1. x is not a float tensor, or the opset has no such operator: no news, declined silently.
        2. The operator does not take the type of x: that is the reason.
        3. ONNX Runtime has no kernel for it in that type: that is the reason, where the target has the operator. It has
           few for double, and at opset 25 none for Swish. A rule of the stage LOWER need not ask, nor bfloat16: ONNX
           Runtime runs the file's own nodes of that type no better.
        """
        dtype, opset = self.dtype(x), self.opset
        require(dtype in FLOATS and schema(op, "", opset) is not None)
        require(_has_type(op, dtype, at, opset), f"{op} takes no {dtype_name(dtype)} at opset {opset}")
        if dtype == TensorProto.BFLOAT16 or self.strategy is not None or has_kernel(op, dtype, opset):
            return
        require(self.target.imports(op))
        raise Decline(f"ONNX Runtime has no kernel for {op} in {dtype_name(dtype)} at opset {opset}")

    def lowering(self, value: Value) -> str:
        """What becomes of the node that makes `value` in the stage LOWER: keep, decompose or plugin."""
        return self._context.lowering_of(value)

    def is_lowered(self, key: str) -> bool:
        """Whether a pass of the run writes nodes of an operator out in the stage LOWER."""
        return self._context.is_lowered(key)

    def discard(self, value: Value, *keep: Any) -> None:
        """Take away the node that a body made for `value`, and what was made for it alone.

        1. What the tensors in `keep` are computed from stays. Anything else in `keep` is passed over.
        2. Constants stay until the rewrite is made, since a body may go on with them.
        3. A tensor that the body did not make stays.
        """
        if value.producer is None or value.producer not in self.made:
            return
        gone = self._graph.remove(value.producer)
        needed = _dead_nodes_behind(v for v in (*keep, *self.constants) if isinstance(v, Value))
        for node in reversed(gone):
            if node in needed:
                self._graph.restore(node)

    def once(self, key: Hashable, compute: Callable[[], Some]) -> Some:
        """What `compute` returns, computed once in a run for each `key`: a network repeats its windows."""
        memo = self._context.memo
        if key not in memo:
            memo[key] = compute()
        return memo[key]  # type: ignore[no-any-return]

    def warn(self, text: str) -> None:
        """Say something in the report's warnings, with the node."""
        self.warnings.append(f"{self.root.label}: {text}")

    # ---- what a body may make ----------------------------------------------------------------------------------------

    def __getattr__(self, op: str) -> Callable[..., Any]:
        """`b.Mul`: a function that makes a node of that operator."""
        if not op[:1].isupper():
            raise AttributeError(op)
        return partial(self._make, op)

    def _make(self, op: str, /, *inputs: Any, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        if not self._is_own:  # surgeon's own may write what an older onnx does not know
            check_spelling(op, attrs, domain)
        return self.node(op, inputs, outputs, domain, attrs)

    def again(self, inputs: Sequence[Any] | None = None, **attrs: Any) -> Any:
        """Make the root once more, with other inputs, or with attributes changed; one that is None is left out."""
        root = self.root
        given = {name: value for name, value in {**root.attrs, **attrs}.items() if value is not None}
        return self.node(
            root.op, root.inputs if inputs is None else inputs, len(root.outputs), root.proto.domain, given
        )

    def node(self, op: str, inputs: Sequence[Any], outputs: int, domain: str, attrs: dict[str, Any]) -> Any:
        """Make a node; returns its output, or a tuple of its outputs where it has several."""
        graph = self._graph
        opset = self.model.opset_in(graph, domain)
        given, written = arrange(op, inputs, attrs, domain, opset)
        for position, i in enumerate(given):
            if i is not None and type(i) is not Value:
                given[position] = self._lift(i, position, given, formal_types(op, domain, opset))
        if domain == DOMAIN:
            # the node's meaning needs the type
            first = next((i for i in given if i is not None), None)
            require(first is None or self.dtype(first), "the type of its input is not known")
        if written:
            self._require_exact(op, given, written)
        if opset < OPSET_WITH_BROADCASTING and op in VARIADIC and not domain:
            # at that opset the operator does not broadcast
            shapes = [self.shape(i) for i in given]
            if any(i.is_written for i in given):
                alike = None not in shapes and len(set(shapes)) == 1
            else:
                alike = all(_may_be_equal(one, other) for one, other in combinations(shapes, 2))
            require(alike, f"{op} does not broadcast at opset {opset}")
        stem = f"{self._prefix}/{op}"
        names = [self._context.fresh_name(graph, stem) for _ in range(outputs)]
        node = graph.make(op, given, written, domain, names, self.root)
        self.made.append(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def _require_exact(self, op: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> None:
        """Decline where a float attribute, which is of fp32, does not hold what a constant of a double tensor says."""
        lost = [name for name, v in attrs.items() if isinstance(v, float) and is_rounded(v)]
        first = next((i for i in inputs if isinstance(i, Value)), None) if lost else None
        if first is not None and self.dtype(first) == TensorProto.DOUBLE:
            told = ", ".join(f"{name} = {attrs[name]}" for name in lost)
            raise Decline(f"an attribute of {op} does not hold {told}")

    def typed(self, value: Value, dtype: int) -> Value:
        """The tensor in a type: itself, or a Cast of it."""
        return value if self.dtype(value) == dtype else self.Cast(value, to=dtype)

    def wide(self, value: Value) -> Value:
        """The tensor in fp32 where it is of fp16 or bf16, else itself."""
        return self.Cast(value, to=TensorProto.FLOAT) if self.dtype(value) in HALVES else value

    def constant(self, array: Any, dtype: int | np.dtype | None = None) -> Value:
        """A new constant tensor of the array's own type, or of `dtype`; declines where that is 0, an unknown type."""
        array = np.asarray(array)
        require(dtype is None or dtype != TensorProto.UNDEFINED, "the type of a constant is not known")
        if dtype is not None:
            array = array.astype(helper.tensor_dtype_to_np_dtype(dtype) if isinstance(dtype, int) else dtype)
        value = self._graph.constant(array, self._context.fresh_name(self._graph, f"{self._prefix}/const"), self.root)
        if value.producer is not None:
            self.made.append(value.producer)
        self.constants.append(value)
        return value

    def _lift(self, given: Any, position: int, all_given: list[Any], formal: tuple[str, ...]) -> Value:
        if isinstance(given, np.ndarray):
            return self.constant(given)
        if not isinstance(given, int | float | np.generic | list | tuple):
            raise PassError(f"a node's input is a tensor, a number or an array, got {given!r}")
        return self.constant(given, self._type_at(position, all_given, formal))

    def _type_at(self, position: int, all_given: list[Any], formal: tuple[str, ...]) -> int:
        """The type that a bare number takes: the schema's own, or that of a tensor that must have the same type."""
        if not formal:
            like = next((i for i in all_given if isinstance(i, Value)), None)
            return self.dtype(like) or TensorProto.FLOAT if like is not None else TensorProto.FLOAT
        kinds = [*formal, *[formal[-1]] * (len(all_given) - len(formal))][: len(all_given)]
        if kinds[position] == "tensor(int64)":
            return int(TensorProto.INT64)
        like = next(
            (i for i, k in zip(all_given, kinds, strict=True) if isinstance(i, Value) and k == kinds[position]), None
        )
        found = self.dtype(like) if like is not None else 0
        if found:
            return found
        whole = np.asarray(all_given[position]).dtype.kind in "iu"
        return int(TensorProto.INT64 if whole else TensorProto.FLOAT)

    def drop_unread_constants(self) -> None:
        """Take away the Constant nodes that nothing reads; initializers are not written then."""
        for node in [v.producer for v in self.constants if v.producer is not None and v.producer.alive]:
            if not any(o is not None and o.is_read for o in node.outputs):
                self._graph.remove(node)

    def undo(self) -> None:
        """Take away what a body made before it declined."""
        for node in reversed(self.made):
            if node.alive:
                self._graph.remove(node)
        for value in (*self.constants, *(o for n in self.made for o in n.outputs if o is not None)):
            self._graph.values.pop(value.name, None)
        made, dead = self._graph.new_tensors, set(self.constants)
        while made and made[-1] in dead:  # what a body makes is at the end
            made.pop()


@cache
def _has_type(op: str, dtype: int, at: int, opset: int) -> bool:
    spec = schema(op, "", opset)
    return spec is not None and f"tensor({dtype_name(dtype)})" in spec.inputs[at].types


def _dead_nodes_behind(values: Iterable[Value]) -> set[Node]:
    """The nodes that were taken away and that the tensors are computed from."""
    makers = (v.producer for v in sources(values, lambda node: not node.alive))
    return {node for node in makers if node is not None and not node.alive}


def _may_be_equal(one: Shape | None, other: Shape | None) -> bool:
    """Whether nothing is known that tells two shapes apart."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(p == q or None in (p, q) for p, q in zip(one, other, strict=True))


def is_rounded(number: float) -> bool:
    """Whether fp32 rounds a number."""
    try:
        return FP32.unpack(FP32.pack(number))[0] != number and not math.isnan(number)
    except OverflowError:
        return True


def name_of_rewrite(node: Node) -> str:
    """The name of a rewrite at `node`: that of the node's first output, which rewriting keeps."""
    for out in node.outputs:
        if out is not None:
            return out.name
    return node.label
