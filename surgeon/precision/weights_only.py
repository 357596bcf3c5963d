"""The weights of products in few bits, and nothing else: `--int4` and `--fp8-weights`.

The weights of MatMul and Gemm have a scale for each block of rows of one column, along the axis that is summed over.
What they multiply stays in floating point, so no ranges are needed. The error is measured on data or on random inputs,
with the numbers that the weights became: no type of few bits has to be run for that. Where it is above the tolerance,
weights stay floats, those first that alone move the outputs most.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError
from surgeon.ir.functions import at_opset
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import words
from surgeon.ir.protos import copied, reads, refill
from surgeon.ir.run import Runner
from surgeon.pipeline.options import Options
from surgeon.pipeline.placement import TOO_LARGE
from surgeon.pipeline.prepared import Fresh, Prepared, Text, applied, fresh_name
from surgeon.pipeline.source import Source
from surgeon.precision.data import Samples
from surgeon.precision.distance import Distances
from surgeon.precision.inputs import plausible
from surgeon.precision.ranges import THREADS
from surgeon.precision.repair_qdq import opened
from surgeon.precision.search import fewest
from surgeon.precision.standard import QUANTIZED_LIMIT
from surgeon.report import QUANTIZE, counted, grouped

BLOCKED = 21  # the opset from which DequantizeLinear has a scale for each block
BLOCKS = (128, 64)  # rows: those of NVIDIA's documentation for int4
SMALL_BLOCKS = (32, 16)  # measured with TensorRT-RTX 1.7.1, which builds them, too
CLIPS = np.linspace(1.0, 0.7, 7)  # parts of a block's largest number that its scale may hold
MOST = 8  # samples on which the error is measured
SHARE = 1  # sample by which weights are ordered
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
NO_BLOCK = "its rows are not a multiple of {}"
ODD = "its last dimension is odd, and two numbers of four bits are in a byte"
TOO_FAR = "its {} makes the error too large"


class Kind(NamedTuple):
    """A type of few bits for weights: its name, its option, its TensorProto.DataType, and its largest number."""

    name: str
    option: str
    elem: int
    levels: int

    def steps(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers in units of the scale, rounded to those that the type holds, as fp32."""
        if self.elem == TensorProto.INT4:
            return np.asarray(np.rint(numbers).clip(-self.levels - 1, self.levels), np.float32)
        held = helper.tensor_dtype_to_np_dtype(self.elem)
        return numbers.clip(-self.levels, self.levels).astype(held).astype(np.float32)

    def tensor(self, name: str, steps: np.ndarray) -> TensorProto:
        """An initializer of such numbers."""
        return numpy_helper.from_array(steps.astype(helper.tensor_dtype_to_np_dtype(self.elem)), name)


INT4 = Kind("int4", "--int4", int(TensorProto.INT4), 7)
FP8 = Kind("fp8", "--fp8-weights", int(TensorProto.FLOAT8E4M3FN), 448)


class Weights(NamedTuple):
    """What products read as their second input.

    value  the tensor
    axis   that is summed over
    users  the products
    """

    value: Value
    axis: int
    users: list[Node]


class Rounded(NamedTuple):
    """Weights in few bits: `steps` as fp32, `scale` for each block, in the type of the weights."""

    steps: np.ndarray
    scale: np.ndarray
    axis: int
    block: int

    @property
    def numbers(self) -> np.ndarray:
        """What they stand for, in the type of the weights."""
        scale = np.repeat(self.scale.astype(np.float32), self.block, axis=self.axis)
        return np.asarray((self.steps * scale).astype(self.scale.dtype))


def quantized(source: Source, options: Options, data: Samples | None) -> Prepared:
    """The model with weights of few bits. Raises UsageError, and ModelError where no weights can be."""
    kind = INT4 if options.int4 else FP8
    target = options.target
    if not target.reads(kind.elem) or target.opset < BLOCKED:
        raise UsageError(
            f"{kind.option} needs a target that reads {kind.name} and opset {BLOCKED}: TensorRT 10.8 and later, and "
            f"TensorRT-RTX. For {target} there is --int8."
        )
    whole, told = opened(source.proto(), source.base)
    model = at_opset(whole, BLOCKED)
    if any(o.version < BLOCKED for o in model.opset_import if not o.domain):
        raise ModelError(f"onnx cannot convert the model to opset {BLOCKED}, which {kind.option} needs.")
    blocks = (*BLOCKS, *SMALL_BLOCKS) if target.rtx else BLOCKS
    quantization = Quantization(model, kind, blocks, options, data)
    made = quantization.result()
    after = [Text.of(n) for n in made.graph.node if n.op_type == "DequantizeLinear"]
    record = applied(kind.option.lstrip("-"), [], after, "the weights", error=quantization.error, strategy=QUANTIZE)
    return Prepared(made, [record], [*told, *quantization.said()])


class Quantization:
    """One model.

    rounded  the weights in few bits, by the name of their tensor
    left     why others stay floats, by the name of their tensor
    error    of the outputs
    """

    def __init__(
        self, model: ModelProto, kind: Kind, blocks: Sequence[int], options: Options, data: Samples | None
    ) -> None:
        self.kind, self.options, self.model = kind, options, Model(model)
        self.tolerance = QUANTIZED_LIMIT if options.tolerance is None else options.tolerance
        self.drawn = data is None
        self.found: dict[str, Weights] = {}
        self.rounded: dict[str, Rounded] = {}
        self.left: dict[str, str] = {}
        self.error = 0.0
        for weights in _weights_of(self.model):
            name, array = weights.value.name, self.model.constant(weights.value)
            if array is None:
                self.left[name] = TOO_LARGE
                continue
            if kind is INT4 and array.shape[-1] % 2:
                self.left[name] = ODD
                continue
            block = next((b for b in blocks if array.shape[weights.axis] % b == 0), None)
            if block is None:
                self.left[name] = NO_BLOCK.format(blocks[-1])
                continue
            if not np.isfinite(array.astype(np.float32)).all():
                raise ModelError(f"the weights '{name}' have numbers that are not finite: no scale fits them.")
            self.found[name] = weights
            self.rounded[name] = rounded(array, weights.axis, block, kind)
        if not self.rounded:
            whys = "; ".join(dict.fromkeys(self.left.values())) or "it has no MatMul or Gemm with a matrix of weights"
            raise ModelError(f"no weights of the model can be {kind.name}: {whys}.")
        self.distances = self._distances(data)

    def _distances(self, data: Samples | None) -> Distances | None:
        """The model on the samples; None where nothing is to be measured."""
        if self.drawn and not self.options.proves:
            return None
        proto = self.model.proto
        if data is None:
            runner = Runner(proto, threads=THREADS)
            samples = Samples.of(plausible(proto, runner.run, self.options.shapes).samples)
        else:
            samples = data.checked(proto)
        return Distances(proto, samples.part(0, 1, MOST), self.options)

    def result(self) -> ModelProto:
        """The model. Raises ModelError where the weights move the outputs too far."""
        if self.distances is not None:
            self._within_the_tolerance(self.distances)
        return self._written(self.rounded, self._dequantized)

    def _within_the_tolerance(self, distances: Distances) -> None:
        """Leave the fewest weights floats with which the error is within the tolerance, the worst first."""
        self.error = self._error(distances, self.rounded)
        if self.error <= self.tolerance:
            return
        worst = self._worst_first(distances)
        count = fewest(lambda count: self._error(distances, worst[count:]) <= self.tolerance, 0, len(worst))
        if count == len(worst):
            if not self.options.allow_inexact:
                raise ModelError(
                    f"no weights are {self.kind.name} within the tolerance {self.tolerance:g} of the error: all of "
                    f"them change the outputs by {self.error:.2g}. Try a larger --tolerance."
                )
            return
        for name in worst[:count]:
            del self.rounded[name]
            self.left[name] = TOO_FAR.format(self.kind.name)
        self.error = self._error(distances, self.rounded)

    def _worst_first(self, distances: Distances) -> list[str]:
        """The weights, those first that alone move the outputs most."""
        progress = self.options.progress or (lambda phase, done, total: None)
        shares = {}
        for turn, name in enumerate(self.rounded):
            progress("measuring weights", turn, len(self.rounded))
            shares[name] = self._error(distances, [name], SHARE)
        return sorted(shares, key=shares.__getitem__, reverse=True)

    def _error(self, distances: Distances, names: Collection[str], most: int | None = None) -> float:
        """The error where some weights are the numbers that they became."""
        runner = Runner(self._written(names, self._numbers), threads=THREADS)
        return distances.error(runner.run, most)

    # ---- writing ----

    def _written(self, names: Iterable[str], write: Callable[[ModelProto, str, Fresh], str]) -> ModelProto:
        """The model where products read what is written for some weights."""
        made = copied(self.model.proto)
        fresh = fresh_name(made)
        instead: dict[str, str] = {}
        for name in names:
            new = write(made, name, fresh)
            instead |= {user.proto.output[0]: new for user in self.found[name].users}
        for node in made.graph.node:
            if node.output and node.output[0] in instead:
                node.input[1] = instead[node.output[0]]
        read = {name for node in made.graph.node for name in reads(node)} | {o.name for o in made.graph.output}
        refill(made.graph.initializer, [t for t in made.graph.initializer if t.name in read])
        return made

    def _numbers(self, made: ModelProto, name: str, fresh: Fresh) -> str:
        held = fresh(name, "numbers")
        made.graph.initializer.append(numpy_helper.from_array(self.rounded[name].numbers, held))
        return held

    def _dequantized(self, made: ModelProto, name: str, fresh: Fresh) -> str:
        found = self.rounded[name]
        steps, scale, end = (fresh(name, word) for word in (self.kind.name, "scale", "dequantized"))
        made.graph.initializer.append(self.kind.tensor(steps, found.steps))
        made.graph.initializer.append(numpy_helper.from_array(found.scale, scale))
        node = helper.make_node(
            "DequantizeLinear", [steps, scale], [end], name=end, axis=found.axis, block_size=found.block
        )
        made.graph.node.insert(0, node)
        return end

    # ---- what the report has ----

    def said(self) -> list[str]:
        """Which weights have few bits, which do not and why, and the error."""
        few, every = len(self.rounded), counted(len(self.rounded) + len(self.left), "matrix", "matrices")
        sizes = ", ".join(str(size) for size in sorted({r.block for r in self.rounded.values()}, reverse=True))
        measured = "the error was not measured"
        if self.distances is not None:
            inputs = "random inputs" if self.drawn else counted(len(self.distances.samples), "sample")
            measured = (
                f"on {inputs} the outputs change by {self.error:.2g} (the root mean square, relative to that of "
                f"the outputs; the tolerance is {self.tolerance:g})"
            )
        lines = [
            f"{few} of {every} of weights {'is' if few == 1 else 'are'} {self.kind.name}, with a scale for each "
            f"{sizes} rows of a column; {measured}"
        ]
        by_why = grouped((why, name) for name, why in self.left.items())
        return lines + [
            f"{counted(len(n), 'matrix', 'matrices')} in floats: {why}: {', '.join(n)}" for why, n in by_why.items()
        ]


def _weights_of(model: Model) -> Iterator[Weights]:
    """The constant matrices that products of the main graph read as their second input, each once for each axis."""
    found: dict[tuple[str, int], Weights] = {}
    for node in model.graph.of(words("MatMul Gemm")):
        value = node.inputs[1]
        if value is None or not model.is_constant(value) or model.dtype(value) not in FLOATS:
            continue
        shape = model.shape(value)
        if shape is None or len(shape) != 2 or not all(isinstance(size, int) for size in shape):
            continue
        axis = 1 if node.attrs.get("transB") else 0
        found.setdefault((value.name, axis), Weights(value, axis, [])).users.append(node)
    seen: set[str] = set()
    for (name, _), weights in found.items():
        if name not in seen:  # of a tensor that is read both ways, one
            yield weights
        seen.add(name)


def rounded(array: np.ndarray, axis: int, block: int, kind: Kind) -> Rounded:
    """A matrix in few bits: each block has, of some scales, the one with the least square of the error."""
    numbers = np.moveaxis(array.astype(np.float32), axis, 0)
    blocks = numbers.reshape(-1, block, numbers.shape[1])
    top = np.abs(blocks).max(axis=1, keepdims=True) / kind.levels
    scale, least = top, np.full_like(top, np.inf)
    for clip in CLIPS if kind is INT4 else CLIPS[:1]:
        tried = _held(top * np.float32(clip), array.dtype)
        error = ((kind.steps(blocks / tried) * tried - blocks) ** 2).sum(axis=1, keepdims=True)
        scale, least = np.where(error < least, tried, scale), np.minimum(error, least)
    steps = kind.steps(blocks / scale).reshape(numbers.shape)
    return Rounded(np.moveaxis(steps, 0, axis), np.moveaxis(scale[:, 0, :], 0, axis).astype(array.dtype), axis, block)


def _held(scale: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Scales as the type of the weights holds them: 1 where a block is 0, or so small that its scale is 0."""
    held = scale.astype(dtype).astype(np.float32)
    return np.asarray(np.where(held > 0, held, 1), np.float32)
