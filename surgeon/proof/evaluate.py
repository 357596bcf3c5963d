"""Running models: in ONNX Runtime, which is the judge, in onnx's reference evaluator, and in wider types."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError, SurgeonError
from surgeon.ir.files import UNWRITABLE, as_text, external_files, resolved_weights, with_weights
from surgeon.ir.graph import add_small_weights, all_nodes
from surgeon.proof.equality import TOLERANCE, is_float, smallest_normal
from surgeon.proof.feeds import FLOATS, HALVES, NEXT_TO_NOTHING, OUT_OF_RANGE, Feeds
from surgeon.rules.meaning import DOMAIN, IR_WITH_OVERLOADS, with_meanings

# Operators with the attribute `stash_type`, and the opset from which they have it.
STASHING = {"GroupNormalization": 21, "LayerNormalization": 17, "RMSNormalization": 23}
# onnx's reference evaluator computes these in the type of their input, whatever they say;
# it refuses all but the default.
STASH_IGNORED = frozenset({"LayerNormalization", "RMSNormalization"})
# How ONNX Runtime says that it lacks a kernel, the second of an LSTM's layout, and that it is older than the model.
LACKS = ("NOT_IMPLEMENTED", "are not supported", "is under development and support", "Unsupported model IR version")
# Types that ONNX Runtime neither takes from NumPy nor gives to it.
_EIGHT_BITS = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
UNSPOKEN = frozenset(f"tensor({kind})" for kind in ("bfloat16", *_EIGHT_BITS, "float4e2m1", "int4", "uint4"))
OTHER_ORDER = 32  # times as much as NumPy, which adds in pairs, a kernel may round off that adds in a row
SHAKEN = 64.0  # steps of its type by up to which a result is moved: more than rounding moves it, little all the same
SHAKES = 3  # that two results move against each other in all of them is unlikely
OWN_STEPS = 4  # by up to which a result of an evaluation is taken to be off
ALL_IS_ROUNDING = 1e-2  # of the largest output: what a deep model normalises there is each kernel's own rounding


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ONNX's operators whose results are rounded, and that do not jump: where what they read moves by little, so do they.
ROUNDS = words(
    "Acos Acosh Add Asin Asinh Atan Atanh AveragePool BatchNormalization Celu Conv ConvTranspose Cos Cosh CumSum Div "
    "Einsum Elu Erf Exp Gelu Gemm GlobalAveragePool GlobalLpPool GroupNormalization HardSigmoid HardSwish "
    "InstanceNormalization LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LpPool MatMul Mean "
    "MeanVarianceNormalization Mish Mul PRelu Pow RMSNormalization Reciprocal ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare Selu Sigmoid Sin Sinh Softmax Softplus Softsign "
    "Sqrt Sub Sum Swish Tan Tanh"
)
# Those that hand on numbers as they are, or pick among them, and do not jump either.
HANDS_ON = words(
    "Abs Cast Clip Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND GlobalMaxPool Identity "
    "Max MaxPool Min Neg Pad ReduceMax ReduceMin Relu Reshape ReverseSequence ScatterElements ScatterND Slice "
    "SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze Where"
)


class Unrunnable(Exception):
    """The window cannot be run; the message says why."""


class Runner:
    """Runs one model: ONNX Runtime with optimisations off, or the reference evaluator where that has no kernel, is too
    old for the model, or does not hand over the types of its inputs and outputs.

    `folder` is that of the external weights; nothing is written there. Raises Unrunnable.
    """

    def __init__(self, model: ModelProto, folder: str | Path | None = None) -> None:
        self.model, self.folder = model, folder
        self.session: Any = None  # ONNX Runtime's; None where the reference evaluator runs the model
        self.lacking = ""  # why ONNX Runtime does not load it
        ort = _onnxruntime()
        try:
            self.session = _session(ort, model, folder)
        except Exception as error:  # ONNX Runtime raises its own types, some of them plain RuntimeError
            if not any(told in str(error) for told in LACKS) and "NotImplemented" not in type(error).__name__:
                raise Unrunnable(first_line(error)) from None
            self.lacking = first_line(error)
            self._reference = Reference(model, folder)
            return
        if any(i.type in UNSPOKEN for i in (*self.session.get_inputs(), *self.session.get_outputs())):
            self._reference, self.session = Reference(model, folder), None

    def follow(self, other: Runner) -> None:
        """Where the other side has no kernel in ONNX Runtime, this one runs in the reference evaluator as well:
        denormals and tiny numbers come out of the two with other roundings."""
        if other.session is None and self.session is not None:
            with contextlib.suppress(Unrunnable):
                self._reference = Reference(self.model, self.folder)
                self.session = None

    def run(self, feeds: Feeds) -> list[np.ndarray]:
        if self.session is None:
            return self._reference.run(feeds)
        try:
            return [np.asarray(r) for r in self.session.run(None, feeds)]
        except Exception as error:
            raise Unrunnable(first_line(error)) from None


def _onnxruntime() -> Any:
    """The package. Raises SurgeonError where it does not load: that is no word about a model."""
    try:
        import onnxruntime
    except Exception as error:
        raise SurgeonError(
            f"ONNX Runtime, which proves the rewrites, does not load: {first_line(error)}. Install the package "
            "onnxruntime again, or say --verify none."
        ) from error
    return onnxruntime


def _session(ort: Any, model: ModelProto, folder: str | Path | None) -> Any:
    """An ONNX Runtime session without optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1

    if folder is not None and external_files(model):
        model, base = resolved_weights(model, folder)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", as_text(base))
    try:
        data = model.SerializeToString()
    except UNWRITABLE:
        raise Unrunnable("the model holds more than 2 GiB of weights itself") from None
    # Without the second try, of which ONNX Runtime speaks on stdout.
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"], enable_fallback=0)


@cache
def has_kernel(op: str, elem: int, opset: int) -> bool:
    """Whether ONNX Runtime runs ONNX's operator on tensors of a type: it has few kernels for double.

    Where it does not load nothing is proved, either.
    """
    try:
        ort = _onnxruntime()
    except SurgeonError:
        return True
    inputs = [f"x{k}" for k in range(onnx.defs.get_schema(op, opset).min_input)]
    infos = [onnx.ValueInfoProto(name=i, type=helper.make_tensor_type_proto(elem, None)) for i in inputs]
    graph = helper.make_graph([helper.make_node(op, inputs, ["y"])], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_WITH_OVERLOADS)
    return not _load_error(ort, model, None)


def refused(original: Callable[[], ModelProto], after: ModelProto, folder: str | Path | None) -> str:
    """Why ONNX Runtime does not load the rewritten model, where it loads the original, which is asked for where that
    matters; else empty.

    Loaded without the weights, which takes 0.2 s for ten thousand nodes (512 MB of weights took 3.6 s); with them where
    only that settles it.
    """
    ort = _onnxruntime()
    if not _load_error(ort, _without_weights(after), None):
        return ""
    before = original()
    if _load_error(ort, _without_weights(before), None):
        return ""
    why = _load_error(ort, after, folder)
    return why if why and not _load_error(ort, before, folder) else ""


def _load_error(ort: Any, model: ModelProto, folder: str | Path | None) -> str:
    """What ONNX Runtime says against a model; empty where it loads it."""
    try:
        _session(ort, with_functions(model), folder)
    except Exception as error:  # ONNX Runtime raises its own types, some of them plain RuntimeError
        return first_line(error)
    return ""


def with_functions(model: ModelProto) -> ModelProto:
    """The model itself; where it is for a TensorRT that reads no functions, a copy with those of surgeon's nodes."""
    return with_meanings(model) if _lacks_meanings(model) else model


def _lacks_meanings(model: ModelProto) -> bool:
    """Whether it has nodes of surgeon's own, in bodies and functions too, without the functions that say what those
    compute."""
    if any(f.domain == DOMAIN for f in model.functions):
        return False
    return any(n.domain == DOMAIN for holder, _ in holders(model) for n in all_nodes(holder))


def _without_weights(model: ModelProto) -> ModelProto:
    """A copy with inputs in place of the larger initializers."""
    copy = ModelProto(ir_version=max(model.ir_version, 4))
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    graph, source = copy.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.sparse_initializer.extend(source.sparse_initializer)
    add_small_weights(graph, model)
    return copy


class Reference:
    """onnx's reference evaluator over a model in its own types; its external weights are read from `folder`."""

    def __init__(self, model: ModelProto, folder: str | Path | None = None) -> None:
        from onnx.reference import ReferenceEvaluator

        try:
            self._evaluator = ReferenceEvaluator(with_weights(model, folder), new_ops=_mended())
        except Exception as error:
            raise Unrunnable(first_line(error)) from None

    def run(self, feeds: Feeds) -> list[np.ndarray]:
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(r) for r in self._evaluator.run(None, feeds)]
        except Exception as error:
            raise Unrunnable(first_line(error)) from None

    def rounding(self, feeds: Feeds) -> list[np.ndarray]:
        """How far what `run` returns may be from the numbers that it stands for, for each output and of its shape: by
        as much as it moves where the result of every operator on the way moves by OWN_STEPS steps of its type.

        An operator that jumps (Floor, a comparison), or of which that is not known, reads what it reads in `run`.
        Zeros for what is no float. Raises Unrunnable.
        """
        try:
            with np.errstate(all="ignore"):
                found: Any = self._evaluator.run(None, feeds, intermediate=True)
                moves = [self._moves(found, np.random.default_rng(seed)) for seed in range(SHAKES)]
                return [OWN_STEPS / SHAKEN * np.max(m, axis=0) for m in zip(*moves, strict=True)]
        except Exception as error:
            raise Unrunnable(first_line(error)) from None

    def _moves(self, found: Mapping[str, Any], rng: np.random.Generator) -> list[np.ndarray]:
        """How far each output moves from what was `found` where each rounded result is moved by steps of its own."""
        values = dict(found)
        for node in self._evaluator.rt_nodes_:
            if node.onnx_node.domain or node.op_type not in ROUNDS | HANDS_ON:
                continue
            steps = rng.choice((-SHAKEN, SHAKEN)) * rng.uniform(0.5, 1.0) if node.op_type in ROUNDS else 0.0
            for name, result in zip(node.output, node.run(*(values[i] for i in node.input)), strict=False):
                if is_float(result.dtype):
                    values[name] = (result * (1 + steps * np.finfo(result.dtype).eps)).astype(result.dtype)
        return [_distance(values[o], found[o]) for o in self._evaluator.output_names]


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b|, element by element; 0 where that is no finite number, and for what is no float."""
    if not is_float(b.dtype):
        return np.zeros(b.shape)
    with np.errstate(all="ignore"):
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(distance), distance, 0.0)


@cache
def _mended() -> list[Any]:
    """What onnx's reference evaluator computes wrongly: Celu before onnx 1.23, Loop in every one."""
    from onnx.reference import op_run
    from onnx.reference.ops import op_loop

    class Celu(op_run.OpRun):
        def _run(self, x: Any, alpha: float = 1.0) -> Any:
            """Near zero exp(x) - 1 keeps no digits."""
            return ((np.maximum(0, x) + alpha * np.expm1(np.minimum(0, x) / alpha)).astype(x.dtype),)

    class Loop(op_loop.Loop):  # type: ignore[misc]
        def _run(self, most: Any, cond: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            """It makes no iteration where there is no condition, and joins results instead of stacking them."""
            iterate: Any = self._run_body  # type: ignore[has-type]
            shapes: list[tuple[int, ...]] = []

            def watched(*given: Any, **more: Any) -> Any:
                outputs = iterate(*given, **more)
                shapes[:] = [np.shape(o) for o in outputs[1 + self.N :]]
                return outputs

            self._run_body = watched
            try:
                results = super()._run(most, np.asarray(True) if cond is None else cond, *args, **kwargs)
            finally:
                self._run_body = iterate
            return (
                *results[: self.N],
                *(np.reshape(r, (-1, *s)) for r, s in zip(results[self.N :], shapes, strict=True)),
            )

    return [Celu, Loop]


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


def widened(model: ModelProto, to: int) -> ModelProto:
    """The model with every float tensor, constant and cast in `to` (FLOAT or DOUBLE): a more exact evaluation."""
    wide = ModelProto()
    wide.CopyFrom(model)
    narrower = FLOATS if to == TensorProto.DOUBLE else HALVES
    for info in (*wide.graph.input, *wide.graph.output):
        if info.type.tensor_type.elem_type in narrower:
            info.type.tensor_type.elem_type = to
    for holder, opset in holders(wide):
        _widen_nodes(holder, narrower, to, opset)
    return wide


def holders(model: ModelProto) -> Iterator[tuple[GraphProto | onnx.FunctionProto, int]]:
    """The graph and the functions of a model, each with its opset of ONNX's own operators."""
    for holder, declares in ((model.graph, model), *((f, f) for f in model.functions)):
        yield holder, next((o.version for o in declares.opset_import if not o.domain), 1)


def _widen_nodes(holder: GraphProto | onnx.FunctionProto, narrower: frozenset[int], to: int, opset: int) -> None:
    del holder.value_info[:]  # the file's types; ONNX Runtime infers the new ones
    for tensor in holder.initializer if isinstance(holder, GraphProto) else ():
        _widen_tensor(tensor, narrower, to)
    for node in holder.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen_tensor(attribute.t, narrower, to)
            elif attribute.type == onnx.AttributeProto.GRAPH:
                for info in (*attribute.g.input, *attribute.g.output):
                    if info.type.tensor_type.elem_type in narrower:
                        info.type.tensor_type.elem_type = to
                _widen_nodes(attribute.g, narrower, to, opset)
            elif (
                attribute.name in ("to", "dtype")
                and node.op_type in ("Cast", "EyeLike", "RandomNormal")
                and attribute.i in narrower
            ):
                attribute.i = to
        widen_stash(node, to, opset)


def widen_stash(node: NodeProto, to: int, opset: int) -> None:
    """Let an operator whose attribute `stash_type` says in which type it computes
    (float unless said) compute in `to`."""
    if node.domain or node.op_type not in STASHING or opset < STASHING[node.op_type]:
        return
    kept = [a for a in node.attribute if a.name != "stash_type"]
    del node.attribute[:]
    node.attribute.extend(kept)
    if node.op_type not in STASH_IGNORED:
        node.attribute.append(helper.make_attribute("stash_type", to))


def _widen_tensor(tensor: TensorProto, narrower: frozenset[int], to: int) -> None:
    if tensor.data_type in narrower:
        array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(to))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


class Exact:
    """A model in float64 (for fp16 and bf16: float32) on the same feeds, run when somebody asks: what is its own noise.

    ONNX Runtime evaluates it, which is the judge; onnx's reference evaluator where that has no kernels of the type. To
    the evaluator an operator may mean something else, and the difference would pass for noise: so it has a say about
    an output alone where in the model's own types it makes of the feeds what ONNX Runtime made of them (`given`), but
    for rounding. On the kinds of feeds in OUT_OF_RANGE it always has: ONNX Runtime cuts inf off, in float64 too.

    `folder` is that of the model's external weights.
    """

    def __init__(
        self,
        model: ModelProto,
        feeds: Feeds,
        half: bool,
        given: Sequence[np.ndarray],
        kind: str,
        folder: str | Path | None = None,
    ) -> None:
        self._model, self._feeds, self._given, self._kind, self._folder = model, feeds, given, kind, folder
        self._to = TensorProto.FLOAT if half else TensorProto.DOUBLE
        self._results: list[np.ndarray] | None = None
        self._own: list[np.ndarray] | None = None  # the evaluator's in the model's own types; None where it is not used
        self._rounding: list[np.ndarray] | None = None

    def output(self, index: int) -> np.ndarray | None:
        """The graph's output of that number; None where it cannot be evaluated, or is of no floats."""
        if self._results is None:
            self._results = self._run()
        if index >= len(self._results) or not is_float(self._results[index].dtype):
            return None
        result = self._results[index].astype(np.float64)
        if self._own is None:
            return result
        part = ALL_IS_ROUNDING if self._kind in NEXT_TO_NOTHING else 0.0
        off = _unexplained(self._own[index], result, self._given[index], part)
        if off is not None and off.any() and index < len(moved := self._moved()):
            with np.errstate(all="ignore"):
                off = off & ~(np.abs(self._given[index].astype(np.float64) - result) <= moved[index])
        return result if off is not None and not off.any() else None

    def _moved(self) -> list[np.ndarray]:
        """How far each output moves, element by element, where the numbers of the feeds do by up to OWN_STEPS steps of
        their type: by so much a good kernel may be off, which is right for what is next to its input. ONNX Runtime's
        InstanceNormalization computes x * (scale / std) + (bias - mean * scale / std): where the elements are close to
        each other, the difference of two large numbers."""
        try:
            wide, feeds = self._widened()
            reference = Reference(wide)
            exact, found = reference.run(feeds), []
            for seed in range(SHAKES):
                rng = np.random.default_rng(seed)
                moved = {name: _shaken(v, self._feeds[name].dtype, rng) for name, v in feeds.items()}
                found.append([_distance(a, b) for a, b in zip(reference.run(moved), exact, strict=True)])
        except (Unrunnable, ModelError):
            return []
        return [np.max(draws, axis=0) for draws in zip(*found, strict=True)]

    def rounding(self, index: int) -> np.ndarray | None:
        """What this evaluation may have rounded off that output, element by element; None where that cannot be told, or
        there is no such evaluation. The reference evaluator measures it, whichever of the two made `output`."""
        if self.output(index) is None:
            return None
        if self._rounding is None:
            try:
                wide, feeds = self._widened()
                self._rounding = Reference(wide).rounding(feeds)
            except (Unrunnable, ModelError):
                self._rounding = []
        return self._rounding[index] if index < len(self._rounding) else None

    def _run(self) -> list[np.ndarray]:
        try:
            wide, feeds = self._widened()
            if self._kind in OUT_OF_RANGE:
                return (Runner(wide) if self._to == TensorProto.FLOAT else Reference(wide)).run(feeds)
            with contextlib.suppress(Unrunnable):
                runner = Runner(wide)
                if runner.session is not None:
                    return runner.run(feeds)
            self._own = Reference(self._model, self._folder).run(self._feeds)
            return Reference(wide).run(feeds)
        except (Unrunnable, ModelError):
            return []

    def _widened(self) -> tuple[ModelProto, Feeds]:
        dtype = helper.tensor_dtype_to_np_dtype(self._to)
        feeds = {k: v.astype(dtype) if is_float(v.dtype) else v for k, v in self._feeds.items()}
        return widened(with_weights(self._model, self._folder), self._to), feeds


def _shaken(x: np.ndarray, of: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """The numbers moved by up to OWN_STEPS steps of the type `of`; what is no float as it is."""
    if not is_float(x.dtype):
        return x
    steps = rng.choice((-OWN_STEPS, OWN_STEPS), x.shape) * rng.uniform(0.5, 1.0, x.shape)
    return np.asarray(x * (1 + steps * float(ml_dtypes.finfo(of).eps)), x.dtype)


def _unexplained(own: np.ndarray, exact: np.ndarray, given: np.ndarray, part: float) -> np.ndarray | None:
    """Where it is no rounding that leads from `exact` to `given`: `own`, which another one rounded, is much less off,
    and far from `given`, by more than a `part` of it. No two operators differ in denormal numbers alone. None where
    `own` is no such witness."""
    known = np.isfinite(given)
    if own.shape != given.shape or exact.shape != given.shape or not np.isfinite(own[known]).all():
        return None
    a, b, c = (np.where(known, x.astype(np.float64), 0.0) for x in (own, exact, given))
    noise = float(np.abs(a - b)[np.isfinite(b)].max(initial=0.0))
    scale = float(np.abs(c).max(initial=0.0))
    part = max(part, TOLERANCE.get(helper.np_dtype_to_tensor_dtype(given.dtype), 0.0))
    allowed = max(part * scale, OTHER_ORDER * noise, smallest_normal(given.dtype))
    return ~(np.abs(a - c) <= allowed)
