"""The conversion to fp16: a model in fp16, with fp32 islands around what does not survive fp16.

TensorRT 11 and TensorRT-RTX are strongly typed: they compute each node in the types that the file gives it, and have no
switch for fp16. `convert` writes the types.

What stays fp32     normalisations, exponentials, sums over an axis, divisions by a tensor; whatever grows faster than
                    the model's inputs (squares, and what is computed from them) until something takes the growth back;
                    constants that fp16 cannot hold, and epsilons above all; what follows from integers; the neighbours
                    of Q/DQ nodes; If and Loop themselves, not their bodies; and what lies between two such parts where
                    that saves a cast. With `data` the numbers of a real run decide about growth, exponentials and
                    divisions instead, and add whatever comes within a factor of 2 of 65504.
Casts               Each tensor is made in one type and cast at most once, behind its producer; casts between fp16 and
                    fp32 that the file has are made anew. Weights are stored in the type in which they are read, and
                    constants that nodes compute are stored too. A second conversion changes nothing.
Inputs, outputs     keep their types; `io_fp16` (--io-fp16) makes them fp16 too.
When                Behind the stage LOWER of a rewrite, on the finished fp32 model. Every rewrite is then proved in
                    fp32 to 1e-5 and this step to 2e-3, and neither hides the other; what the target keeps as one node
                    is an island of one node; what LOWER spelled out carries its pass's name (`y~l2-norm/ReduceL2_1`),
                    so --keep-fp32 l2-norm finds it in any file. Before LOWER the windows of the proof would mix types,
                    and the passes would have to choose their spelling by them.

Why not another converter. Measured over the 295 files of the corpus's norm modules, inputs random times 1e3, against
the fp32 original; `rounded` is the evaluation of `rounding`, since ONNX Runtime's CPU kernels hide overflow;
TensorRT-RTX 1.7.1 builds 261 of them in fp32:

    converter                            converted   ORT runs   rounded: inf or NaN   over 2e-3   RTX loses
    onnxconverter-common 1.16.0, float16   271         240             9                 111         44
    ModelOpt 0.47.0 AutoCast               292         286             9                 116          3
    the same, with calibration data        292         285             0                   0          3
    this module, no data                   295         295             0                   0          0

The largest error of this module's is 5.1e-4, and 6.6e-4 with fp16 inputs and outputs; behind a rewrite for TensorRT-RTX
4.6e-4, and TensorRT-RTX then builds all 493 files of the corpus, as it does in fp32. (onnx 1.23.2 and ONNX Runtime
1.31.1 for all; ModelOpt asks for onnx 1.21. ORT alone, without the rounding, shows no inf for any of them.) AutoCast
does it as well where it has data that is as large as what will come; without, it does not know a norm that is spelled
out. So surgeon converts by itself, needs nothing installed, and takes data where there is some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto

from surgeon.errors import ModelError, UsageError
from surgeon.ir.files import Content, is_large, with_inner_weights, write
from surgeon.ir.functions import ONNX, as_inliner_reads, by_name, common_opset, drop_opset, opset_of, say_defaults
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.ir.protos import all_nodes
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.run import TRAINED
from surgeon.precision.comparison import LIMIT, OutputError, output_errors, told
from surgeon.precision.default_load import make_loadable
from surgeon.precision.emit import IR_WITH_PLAIN_INITIALIZERS, Emitter
from surgeon.precision.half import HALF
from surgeon.precision.plan import COMPUTED, Plan
from surgeon.precision.planner import make_plan
from surgeon.precision.ranges import check_feeds, measure
from surgeon.rules.meaning import with_meanings
from surgeon.rules.registry import passes
from surgeon.targets.target import Target


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that computes in fp32, or whose types were left alone, and why."""

    node: str
    op: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"node": self.node, "op": self.op, "why": self.why}


@dataclass(slots=True)
class PrecisionResult:
    """What comes of a conversion.

    model         the converted model, weights inside
    kept          the nodes that stay fp32, islands first
    warnings      what the user has to know
    errors        worst first, against the fp32 original
    not_compared  why there are none; empty where the models were compared
    unproved      whether that is a failure: nobody said that they need not be compared
    half          how many nodes compute in fp16
    single        how many compute in fp32
    casts         how many Cast nodes stand between the two
    """

    model: ModelProto
    kept: list[Kept] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[OutputError] = field(default_factory=list)
    not_compared: str = ""
    unproved: bool = False
    half: int = 0
    single: int = 0
    casts: int = 0

    @property
    def failed(self) -> bool:
        """Whether an output is further from the original than fp16 explains, or may be.

        1. It is not known, and nobody said that it need not be.
        2. An output is too far on the data, where there is some.
        3. Else an output is on inputs that are drawn.
        """
        measured = [e for e in self.errors if e.inputs == "data"]
        return self.unproved or any(not e.ok for e in measured or self.errors)

    @property
    def worst(self) -> float | None:
        """The largest relative error of any output; None where nothing was compared."""
        return self.errors[0].relative if self.errors else None

    @property
    def told(self) -> list[OutputError]:
        """The errors that a table names."""
        return told(self.errors)

    def save(self, path: str | Path, also: Mapping[Path, Content] | None = None) -> list[Path]:
        """Write the model, and return its files; `also`: see `files.write`.

        One of more than 1 GiB gets its weights in a file beside it.
        """
        return write(self.model, Path(path), also=also, apart=is_large(self.model))

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": {"fp16": self.half, "fp32": self.single, "casts": self.casts},
            "kept": [k.to_json() for k in self.kept],
            "tolerance": LIMIT,
            "max_error": self.worst if self.worst is not None and math.isfinite(self.worst) else None,
            "not_compared": self.not_compared,
            "outputs": [e.to_json() for e in self.errors],
        }


def convert(
    model: ModelProto,
    *,
    keep_fp32: Collection[str] = (),
    data: Iterable[Mapping[str, np.ndarray]] | None = None,
    repair_eps: float | None = None,
    target: str | Target | None = None,
    base: Path | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    io_fp16: bool = False,
    verify: bool = True,
    allow_unproved: bool = False,
    original: ModelProto | None = None,
) -> PrecisionResult:
    """Convert a model to fp16 where fp16 is enough. The model passed in is not changed.

    keep_fp32       operators ("Softmax"), passes of surgeon ("l2-norm": the nodes that it made) and node globs
    data            inputs by name: the islands are then chosen by the numbers that they give rise to
    repair_eps      the epsilon for a divisor whose own is 0 in a file that was written in fp16
    target          what it does not take in fp16 stays fp32
    base            the folder of the model's external weights
    shapes          sizes of inputs with symbolic dimensions, for the comparison
    io_fp16         the model's own inputs and outputs become fp16 too; without it they keep their types
    verify          compare with the original
    original        what that is, if it is not `model`
    allow_unproved  it is no failure where they cannot be compared

    Raises UsageError where `data` does not fit the model or a word of `keep_fp32` names nothing.
    """
    feeds = None if data is None else [check_feeds(model, dict(d)) for d in data]
    inlined = _inlined(with_inner_weights(model, base))
    source = with_meanings(inlined)  # what a plugin node returns is known from its function alone
    index = Model(source, base)
    ranges = None if feeds is None else measure(source, feeds, base)
    _check_words(keep_fp32, index)

    def written(refused: Callable[[Node], str | None] | None = None) -> tuple[Plan, Emitter, ModelProto]:
        plan = make_plan(index, keep=keep_fp32, ranges=ranges, refused=refused, repair_eps=repair_eps, io_half=io_fp16)
        emitter = Emitter(plan)
        return plan, emitter, emitter.emit()

    plan, emitter, converted = written()
    asked = Target.parse(target) if isinstance(target, str) else target
    refused = {} if asked is None else _refused(converted, index, asked)
    if refused:
        plan, emitter, converted = written(lambda node: refused.get(_stem(node)))
    if any(f.domain == DOMAIN for f in model.functions):
        converted = with_meanings(converted)
    else:
        _forget_overloads(converted.graph)
        converted.ir_version = max(model.ir_version, IR_WITH_PLAIN_INITIALIZERS)
    result = PrecisionResult(converted, _kept(plan), list(dict.fromkeys(plan.warnings)), casts=emitter.casts)
    result.half, result.single = _counts(plan)
    result.warnings += [TRAINED] if model.training_info and result.half else []
    if not verify:
        result.not_compared = "not asked for"
        return result
    told = make_loadable(converted)
    result.warnings += [told] if told else []
    if original is not None:
        source = with_meanings(with_inner_weights(original, base))
    result.errors, result.not_compared = output_errors(
        source, with_meanings(converted), base=base, data=feeds, shapes=shapes
    )
    result.unproved = bool(result.not_compared) and not allow_unproved
    result.warnings += _too_large(result.errors)
    return result


def _inlined(model: ModelProto) -> ModelProto:
    """A copy in which local functions are spelled out: their nodes have types only where they are used.

    Those of surgeon's own nodes stay functions. Raises ModelError where the functions have no opset in common.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    if all(f.domain == DOMAIN for f in copy.functions):
        return copy
    own = [(f.domain, f.name) for f in copy.functions if f.domain == DOMAIN]
    functions = by_name(model.functions)
    used = {node.op_type for node in all_nodes(copy.graph) if node.domain in ONNX}
    opset = common_opset(used, opset_of(model), model.functions)
    if opset is None:
        declared = sorted({opset_of(holder) for holder in (model, *model.functions)})
        raise ModelError(
            "the model cannot be converted to fp16: it and its functions declare the opsets "
            f"{', '.join(map(str, declared))} of ONNX's operators, and some mean something else at the others. Export "
            "all at one opset."
        )
    if opset != opset_of(model):
        drop_opset(copy)
        copy.opset_import.append(onnx.helper.make_opsetid("", opset))
    say_defaults(all_nodes(copy.graph), functions)
    del copy.functions[:]
    copy.functions.extend(as_inliner_reads(f, opset, functions) for f in model.functions)
    return onnx.inliner.inline_selected_functions(copy, own, exclude=True)


def _forget_overloads(graph: GraphProto) -> None:
    """Take away which function a node of surgeon's own means, where the file carries none."""
    for node in graph.node:
        if node.domain == DOMAIN:
            node.overload = ""
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _forget_overloads(attribute.g)


def _check_words(words: Collection[str], model: Model) -> None:
    """Raises UsageError where a word of --keep-fp32 names nothing."""
    if not words:
        return
    nodes = [n for s in model.scopes for n in s.live()]
    names = {p.name for p in passes(())} | {n.op for n in nodes} | {s.name for s in onnx.defs.get_all_schemas()}
    for word in words:
        if word in names or any(c in word for c in "*?["):
            continue
        if not any(n.name == word or f"~{word}/" in n.name for n in nodes):
            raise UsageError(
                f"--keep-fp32 takes an operator (Softmax), a pass (l2-norm) or a node glob; '{word}' is none of these."
            )


def _stem(node: Node) -> str:
    """What a node is called by before and after the conversion: its first output, without the suffix of a cast."""
    return next((o.name.split("~fp16")[0] for o in node.outputs if o is not None), node.label)


def _refused(converted: ModelProto, before: Model, target: Target) -> dict[str, str]:
    """The stem of a node -> why the target does not take it converted, for nodes that it takes as they were."""
    already = {_stem(n) for s in before.scopes for n in s.live() if target.why_unsupported(n) is not None}
    found = {}
    for scope in Model(converted).scopes:
        for node in scope.live():
            if _stem(node) in already:
                continue
            why = target.why_unsupported(node)
            if why is not None:
                found[_stem(node)] = f"{target} does not take it in fp16: {why}"
    return found


def _kept(plan: Plan) -> list[Kept]:
    """The nodes that stay fp32, islands first. What only asks for a tensor's shape or compares numbers is no island."""
    reasons = [*plan.single.items(), *plan.fixed.items()]
    return [Kept(n.label, n.op, why) for n, why in reasons if why != COMPUTED and plan.float_outputs(n)]


def _too_large(errors: Sequence[OutputError]) -> list[str]:
    """Outputs that hold on random inputs but not on those times 1000."""
    held = {e.output for e in errors if e.inputs == "random" and e.ok}
    return [
        f"'{e.output}' holds on random inputs, not on those times 1000, where fp16 overflows inside the model: "
        "give inputs as they will come (--data), and the islands are chosen by them"
        for e in errors
        if e.inputs == "large" and not e.ok and e.output in held
    ]


def _counts(plan: Plan) -> tuple[int, int]:
    """How many nodes that compute with floats do it in fp16, and how many in fp32."""
    half = single = 0
    for scope in plan.model.scopes:
        if scope.is_function:
            continue
        for node in scope.live():
            if plan.is_cast(node) or node.key == "Constant" or plan.fixed.get(node) == COMPUTED:
                continue
            if not plan.float_outputs(node):
                continue
            is_half = HALF in {plan.written(node, o.index) for o in node.outputs if o is not None}
            half += is_half
            single += not is_half
    return half, single


__all__ = ["Kept", "PrecisionResult", "convert"]
