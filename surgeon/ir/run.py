"""Models run: in ONNX Runtime, which is the judge, or in onnx's reference evaluator."""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon import guard
from surgeon.errors import ModelError, SurgeonError
from surgeon.ir.definitions import DEFINED, definitions
from surgeon.ir.files import UNWRITABLE, as_text, external_files, resolved_weights, with_weights
from surgeon.ir.graph import Node
from surgeon.ir.operators import COUNTS
from surgeon.ir.process import Crashed, Exceeded, Fork
from surgeon.ir.protos import SMALL_TENSOR, all_nodes, copied, nodes_of
from surgeon.ir.saturation import unsaturated
from surgeon.ir.weight_file import has_large_weights
from surgeon.version import why_not_usable

G = TypeVar("G")
T = TypeVar("T")

# How ONNX Runtime says that it lacks a kernel, the second of an LSTM's layout, and that it is older than the model.
LACKS = (
    "NOT_IMPLEMENTED",
    "are not supported",
    "is under development and support",
    "Unsupported model IR version",
    "ai.onnx.preview:",  # a domain that it does not know
)
# A node that fails while ONNX Runtime runs it, up to the reason: with the place in ONNX Runtime's own source.
FAILED_NODE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : Non-zero status code returned while running (\w+) node\. Name:(?:''|('.*?')) "
    r"Status Message: (?:\S+:\d+ (?:.* was (?:false|true)\. )?)?"
)
LACKS_AT_RUN = "does not support double yet"  # of LSTM and GRU, which it loads
# Types that ONNX Runtime neither takes from NumPy nor gives to it.
_EIGHT_BITS = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
UNSPOKEN = frozenset(f"tensor({kind})" for kind in ("bfloat16", *_EIGHT_BITS, "float4e2m1", "int4", "uint4"))
EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"  # an option of ONNX Runtime
SECONDS = 20.0  # that a run in a process of its own may take, and one more for each MB of the model
MEMORY = 4 * guard.GIB  # bytes that it may take, and so many times the bytes of the model:
TIMES = 16
SMALL = 1 << 18  # bytes of a model that the shared process loads itself: more are not sent to it with each input
KEPT = guard.GIB  # bytes that this process may hold where it begins the shared one, which keeps them
MOST_ITERATIONS = 1 << 20  # that a Loop may be asked for by a number in the file; more may have no end
IR_OF_NODES = 10  # of a model around a single node: every ONNX Runtime that surgeon takes reads it


class Unrunnable(Exception):
    """A model cannot be run; the message says why."""


@contextlib.contextmanager
def must_run(told: str, end: str = "") -> Iterator[None]:
    """Raise ModelError where a model cannot be run: `told`, the reason, and `end`."""
    try:
        yield
    except Unrunnable as error:
        raise ModelError(f"{told}: {error}{end}") from None


class Runner:
    """Runs one model in ONNX Runtime with optimisations off, or in the reference evaluator where that cannot.

    It cannot where it has no kernel, is too old for the model, or does not hand over the types of inputs and outputs.
    `folder` is that of the external weights; nothing is written there. Raises Unrunnable.

    Some of ONNX Runtime's kernels crash on a tensor of size 0, and a Loop may have no end. Runs in which that may be
    are made in another process, as all are where SURGEON_APART is set: small models share one, others have their own
    until `end`. It has limits of time and memory. Where one ended a run, the model is not run again. `threads` is how
    many ONNX Runtime uses for the others. `optimized` runs the model with ONNX Runtime's own optimizations.
    """

    def __init__(
        self, model: ModelProto, folder: str | Path | None = None, *, threads: int = 1, optimized: bool = False
    ) -> None:
        self.model, self.folder, self._threads = model, folder, threads
        self.may_not_end = may_not_end(model)
        self._apart = self.may_not_end or bool(os.environ.get(guard.APART))
        self._apart = self._apart or any(n.op_type in COUNTS for n in all_nodes(model.graph))
        self._exceeded = ""  # the limit that a run has met
        self._fork: Fork[Mapping[str, np.ndarray], list[np.ndarray]] | None = None
        self.session: Any = None  # ONNX Runtime's; None where the reference evaluator runs the model
        self.lacking = ""  # why ONNX Runtime does not load it
        self._small: _Written | None = None  # the model where it is small enough for the shared process
        onnx_runtime()  # where it does not load, that is not an error of the model
        if any(n.domain == DEFINED for n in model.graph.node):
            self._reference = Reference(model, folder)
            return
        try:
            written = _Written.of(unsaturated(model), folder, 1 if self._apart else threads, optimized)
            self.session = written.session()
        except Exception as error:  # ONNX Runtime raises its own types, some of them plain RuntimeError
            if not any(told in str(error) for told in LACKS) and "NotImplemented" not in type(error).__name__:
                raise Unrunnable(first_line(error)) from None
            self.lacking = first_line(error)
            self._reference = Reference(model, folder)
            return
        if any(i.type in UNSPOKEN for i in (*self.session.get_inputs(), *self.session.get_outputs())):
            self._reference, self.session = Reference(model, folder), None
        if len(written.data) <= SMALL and not written.folder and not self.may_not_end:
            self._small = written._replace(threads=1)

    def follow(self, other: Runner) -> None:
        """Run in the reference evaluator if the other side does.

        Denormals and tiny numbers come out of the two with other roundings.
        """
        if other.session is None:
            self.refer()

    def refer(self) -> None:
        """Run in the reference evaluator, if that can."""
        if self.session is not None:
            with contextlib.suppress(Unrunnable):
                self._reference = Reference(self.model, self.folder)
                self.session = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The model's outputs on inputs by name. Raises Unrunnable."""
        if self._exceeded:
            raise Unrunnable(self._exceeded)
        if self.session is None:
            return self._reference.run(feeds)
        try:
            return self._run_session(feeds)
        except Exceeded as limit:
            self._exceeded = f"ONNX Runtime {limit}"
            raise Unrunnable(self._exceeded) from None
        except Crashed as crash:
            raise Unrunnable(f"ONNX Runtime crashes ({crash})") from None
        except Exception as error:
            if LACKS_AT_RUN not in str(error):
                raise Unrunnable(first_line(error)) from None
            self.lacking, self.session = first_line(error), None
        self._reference = Reference(self.model, self.folder)
        return self._reference.run(feeds)

    def _run_session(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What ONNX Runtime returns. Raises Crashed, and ONNX Runtime's own errors as a RuntimeError."""
        may_crash = self._apart or 0 in [a.size for a in feeds.values()]
        if not may_crash:
            return _results(self.session, feeds)
        if self._small is not None and self._fork is None and _shared.is_possible():
            return _shared.fork((self._small, feeds))
        if not self._apart and self._threads > 1:  # a forked process has none of the threads
            self.session, self._threads = _Written.of(unsaturated(self.model), self.folder).session(), 1
        self._fork = self._fork or _limited(partial(_results, self.session), self.model)
        return self._fork(feeds)

    def end(self) -> None:
        """End the model's own process of the runs that may crash. A further one begins another."""
        if self._fork is not None:
            self._fork.end()


def may_not_end(model: ModelProto) -> bool:
    """Whether a Loop of a model ends only where its condition says so, as far as the file tells."""
    loops = [node for node in nodes_of(model) if node.op_type == "Loop" and not node.domain]
    if not loops:
        return False
    large = {t.name for t in model.graph.initializer if _is_large(t)}
    large |= {n.output[0] for n in nodes_of(model) for a in n.attribute if a.name == "value" and _is_large(a.t)}
    return any(not n.input[0] or n.input[0] in large for n in loops)


def _is_large(tensor: TensorProto) -> bool:
    """Whether it is a number of iterations too many to wait for a Loop's end."""
    is_number = tensor.data_type == TensorProto.INT64 and math.prod(tensor.dims) == 1 and not tensor.external_data
    return is_number and int(numpy_helper.to_array(tensor).item()) > MOST_ITERATIONS


def _limited(call: Callable[[G], T], model: ModelProto) -> Fork[G, T]:
    """A call that runs a model, in a process of its own."""
    try:
        size = model.ByteSize()
    except UNWRITABLE:
        size = 2 * guard.GIB
    return Fork(call, seconds=SECONDS + size / 1e6, memory=MEMORY + TIMES * size)


def _results(session: Any, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What a session returns. Raises RuntimeError: some of ONNX Runtime's own types do not go to another process."""
    try:
        return [as_array(r) for r in session.run(None, feeds)]
    except Exception as error:
        raise RuntimeError(str(error) or type(error).__name__) from None


def onnx_runtime() -> Any:
    """The package. Raises SurgeonError where it does not load or is too old: that does not concern a model."""
    why = why_not_usable("onnxruntime")
    if why:
        raise SurgeonError(f"{why}. It proves the rewrites; surgeon rewrite --verify none does without.")
    return import_module("onnxruntime")


class _Written(NamedTuple):
    """A model as a session is made of it.

    folder  that of its external weights; empty without any
    large   whether they are large: a session then copies no weights of a MatMul, and keeps no memory for a further run
    """

    data: bytes
    folder: str
    threads: int
    optimized: bool
    large: bool

    @classmethod
    def of(cls, model: ModelProto, folder: str | Path | None, threads: int = 1, optimized: bool = False) -> _Written:
        """Raises Unrunnable."""
        if optimized and any(_ends_empty(n) for n in all_nodes(model.graph)):
            model = _without_empty_ends(model)
        model, base = located(model, folder)
        try:
            data = model.SerializeToString()
        except UNWRITABLE:
            raise Unrunnable("the model holds more than 2 GiB of weights itself") from None
        return cls(data, "" if base is None else as_text(base), threads, optimized, has_large_weights(model))

    def session(self) -> Any:
        """An ONNX Runtime session, without optimizations unless they are asked for."""
        ort = onnx_runtime()
        options, levels = ort.SessionOptions(), ort.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if self.optimized else levels.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        if self.folder:
            options.add_session_config_entry(EXTERNAL_FOLDER, self.folder)
        if self.large:
            options.add_session_config_entry("session.disable_prepacking", "1")
            options.enable_cpu_mem_arena = False
        # Without the second try, of which ONNX Runtime speaks on stdout.
        return ort.InferenceSession(self.data, options, providers=["CPUExecutionProvider"], enable_fallback=0)


class _Shared(threading.local):
    """The process in which small models are run where they may crash: one for each thread. A fork of a large process
    takes longer than a proof, since each page that is written after it is copied."""

    def __init__(self) -> None:
        self.fork = Fork(_results_of, seconds=SECONDS, memory=MEMORY)

    def is_possible(self) -> bool:
        """Whether it is there, or this process is small enough that a fork may hold its memory for long."""
        return self.fork.is_there or guard.memory(os.getpid()) <= KEPT


def _results_of(given: tuple[_Written, Mapping[str, np.ndarray]]) -> list[np.ndarray]:
    """What a model returns, in the shared process. Its session is kept, since more inputs of the same model follow."""
    written, feeds = given
    return _results(_kept_session(written), feeds)


_kept_session = lru_cache(16)(_Written.session)
_shared = _Shared()


def _ends_empty(node: NodeProto) -> bool:
    return bool(node.input) and not node.input[-1]


def _without_empty_ends(model: ModelProto) -> ModelProto:
    """Without inputs that are left out last, of which ONNX Runtime 1.32 dies where it fuses a LayerNormalization."""
    model = copied(model)
    for node in filter(_ends_empty, all_nodes(model.graph)):
        while _ends_empty(node):
            node.input.pop()
    return model


def located(model: ModelProto, folder: str | Path | None) -> tuple[ModelProto, Path | None]:
    """The model with its external weights named as ONNX Runtime takes them, and their folder; None without any."""
    return (model, None) if folder is None or not external_files(model) else resolved_weights(model, folder)


@cache
def has_kernel(op: str, elem: int, opset: int) -> bool:
    """Whether ONNX Runtime runs ONNX's operator on tensors of a type.

    It has few kernels for double. Where it does not load itself nothing is proved, and the answer is yes.
    """
    inputs = [f"x{k}" for k in range(onnx.defs.get_schema(op, opset).min_input)]
    infos = [onnx.ValueInfoProto(name=i, type=helper.make_tensor_type_proto(elem, None)) for i in inputs]
    graph = helper.make_graph([helper.make_node(op, inputs, ["y"])], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_OF_NODES)
    try:
        return not load_error(model)
    except SurgeonError:
        return True


def load_error(model: ModelProto, folder: str | Path | None = None) -> str:
    """What ONNX Runtime says against a model; empty where it loads it. Raises SurgeonError where it does not load."""
    onnx_runtime()
    try:
        _Written.of(model, folder).session()
    except Exception as error:  # ONNX Runtime raises its own types, some of them plain RuntimeError
        return first_line(error)
    return ""


class Reference:
    """onnx's reference evaluator over a model in its own types; its external weights are read from `folder`."""

    def __init__(self, model: ModelProto, folder: str | Path | None = None) -> None:
        from onnx.reference import ReferenceEvaluator

        self.may_not_end, self._exceeded = may_not_end(model), ""
        self._model = model
        try:
            dense = _dense(with_weights(model, folder))
            self.evaluator = ReferenceEvaluator(dense, new_ops=[*_mended(), *definitions()])
        except Exception as error:
            raise Unrunnable(first_line(error)) from None

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The model's outputs on inputs by name. Raises Unrunnable."""
        if self._exceeded:
            raise Unrunnable(self._exceeded)
        fork = _limited(self._results, self._model) if self.may_not_end else None
        try:
            return self._results(feeds) if fork is None else fork(feeds)
        except Exceeded as limit:
            self._exceeded = f"onnx's reference evaluator {limit}"
            raise Unrunnable(self._exceeded) from None
        except Exception as error:
            raise Unrunnable(first_line(error)) from None
        finally:
            if fork is not None:
                fork.end()

    def _results(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing
            return [as_array(r) for r in self.evaluator.run(None, dict(feeds))]


def _dense(model: ModelProto) -> ModelProto:
    """The model with its sparse weights written out: onnx's reference evaluator fails on them."""
    if not model.graph.sparse_initializer:
        return model
    model = copied(model)
    for sparse in model.graph.sparse_initializer:
        values, at = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
        dense = np.zeros(list(sparse.dims), values.dtype)
        where = np.unravel_index(at, dense.shape) if at.ndim == 1 else tuple(at.T)
        dense[where] = values
        model.graph.initializer.append(numpy_helper.from_array(dense, sparse.values.name))
    del model.graph.sparse_initializer[:]
    return model


def as_array(result: Any) -> np.ndarray:
    """What a runtime returns as an array: a sequence as one of the arrays that it holds, a map as one of its keys and
    its numbers, nothing as one without."""
    if isinstance(result, np.ndarray):
        return result
    if isinstance(result, dict):
        keys, numbers = list(result), np.asarray(list(result.values()))
        result = [np.asarray(keys, object if str in map(type, keys) else None), _as_fp32(numbers)]
    if not isinstance(result, list):
        return np.asarray(result)
    sequence = np.empty(len(result), object)
    for k, element in enumerate(result):
        sequence[k] = as_array(element)
    return sequence


def _as_fp32(numbers: np.ndarray) -> np.ndarray:
    """Python's numbers in the type of those that fp32 holds: ONNX Runtime's maps are of it nearly always."""
    single = numbers.astype(np.float32) if numbers.dtype == np.float64 else numbers
    return single if np.array_equal(single, numbers, equal_nan=numbers.dtype.kind == "f") else numbers


@cache
def _mended() -> list[Any]:
    """What onnx's reference evaluator computes wrongly, Celu before onnx 1.23 and the others in every one; and MatMul,
    which takes a hundred times as long of half precision, in which NumPy has no fast product."""
    from onnx.reference import op_run
    from onnx.reference.ops import op_loop, op_resize

    class Celu(op_run.OpRun):
        def _run(self, x: Any, alpha: float = 1.0) -> Any:
            """Near zero exp(x) - 1 keeps no digits."""
            return ((np.maximum(0, x) + alpha * np.expm1(np.minimum(0, x) / alpha)).astype(x.dtype),)

    class Loop(op_loop.Loop):
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
                results = super()._run(  # type: ignore[no-untyped-call]
                    most, np.asarray(True) if cond is None else cond, *args, **kwargs
                )
            finally:
                self._run_body = iterate
            return (
                *results[: self.N],
                *(np.reshape(r, (-1, *s)) for r, s in zip(results[self.N :], shapes, strict=True)),
            )

    class MatMul(op_run.OpRun):
        def _run(self, a: Any, b: Any) -> Any:
            """Of half precision it adds up in fp32 and rounds once, as NumPy does."""
            half = a.dtype.itemsize == 2 and a.dtype.kind not in "iu"
            return ((np.matmul(a.astype("f4"), b.astype("f4")).astype(a.dtype) if half else np.matmul(a, b)),)

    class MeanVarianceNormalization(op_run.OpRun):
        def _run(self, x: Any, axes: Any = (0, 2, 3)) -> Any:
            """ONNX spells it with constants of fp32, which do not go with a double."""
            over = tuple(axes)
            mean = np.mean(x, axis=over, keepdims=True)
            squares = np.mean(np.power(x, 2), axis=over, keepdims=True)
            deviation = np.sqrt(squares - np.power(mean, 2)) + x.dtype.type(1e-9)
            return (((x - mean) / deviation).astype(x.dtype),)

    class Resize(op_resize.Resize):
        def _run(self, x: Any, *given: Any, **attrs: Any) -> Any:  # type: ignore[override]
            """It takes no negative axis."""
            if attrs.get("axes") is not None:
                attrs["axes"] = [axis % x.ndim for axis in attrs["axes"]]
            return super()._run(x, *given, **attrs)

    class STFT(op_run.OpRun):
        def _run(self, x: Any, step: Any, window: Any = None, length: Any = None, onesided: Any = 1) -> Any:
            """It asks a real signal for a last dimension of 1."""
            size = len(window) if length is None else int(length)
            real = x.ndim == 2 or x.shape[2] == 1
            signal = x.reshape(*x.shape[:2]) if real else x[..., 0] + 1j * x[..., 1]
            frames = np.lib.stride_tricks.sliding_window_view(signal, size, axis=1)[:, :: int(step)]
            frames = frames if window is None else frames * window
            bins = np.fft.fft(frames, axis=2)[..., : size // 2 + 1 if onesided else size]
            return (np.stack([bins.real, bins.imag], -1).astype(x.dtype),)

    class Unique(op_run.OpRun):
        def _run(self, x: Any, axis: Any = None, sorted: Any = 1) -> Any:
            """Unsorted it knows no axis but the first, and sorts where nothing but the values is asked for."""
            values, first, inverse, counts = np.unique(x, True, True, True, axis)
            if not sorted:
                order = np.argsort(first)
                values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
                inverse = np.argsort(order)[inverse]
            found = (first, inverse.reshape(-1), counts)
            return (values, *(a.astype(np.int64) for a in found))[: len(self.onnx_node.output)]

    return [Celu, Loop, MatMul, MeanVarianceNormalization, Resize, STFT, Unique]


def first_line(error: Exception) -> str:
    """The first line of an exception's message, 300 characters of it; its type where it has none.

    Of a node that failed in ONNX Runtime: the node and the reason, without the function of C++ that found it.
    """
    line = str(error).strip().split("\n")[0]
    said = FAILED_NODE.sub(lambda found: f"ONNX Runtime fails at {' '.join(filter(None, found.groups()))}: ", line)
    return said[:300] or type(error).__name__


def model_of_one_node(
    node: Node, inputs: Sequence[np.ndarray | None], opset: int
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of a single node without its names, and what to feed it. An input is None where the node leaves it out.

    It is the same for nodes that compute the same.
    """
    proto = copied(node.proto)
    proto.name = proto.doc_string = ""
    del proto.metadata_props[:]
    proto.input[:] = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    proto.output[:] = [f"o{k}" for k in range(len(node.outputs))]  # a Split without one of them kills ONNX Runtime
    given = {f"i{k}": a for k, a in enumerate(inputs) if a is not None}
    wanted = [name for name, o in zip(proto.output, node.outputs, strict=True) if o is not None]
    opsets = [helper.make_opsetid("", opset)]
    return model_around(proto, given, wanted, opset_imports=opsets, ir_version=IR_OF_NODES)


def model_around(
    node: NodeProto, given: Mapping[str, np.ndarray], wanted: Sequence[str], **header: Any
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of a single node that returns some of its outputs, and what to feed it.

    Small inputs are initializers of the model, since kernels ask for some (the sizes of a Resize) before anything runs.
    `header` is that of a ModelProto: its opsets, functions and IR version.
    """
    feeds = {k: a for k, a in given.items() if a.size > SMALL_TENSOR}
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in feeds.items()
    ]
    tensors = [numpy_helper.from_array(a, k) for k, a in given.items() if k not in feeds]
    results = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = helper.make_graph([node], "node", infos, results, tensors)
    return helper.make_model(graph, **header), feeds
