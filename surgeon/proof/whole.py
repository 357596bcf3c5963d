"""Whole models: two of them proved equal, and the sizes and tensors of a run of one."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.inference import contradiction
from surgeon.ir.lattice import Shapes, declared_shape
from surgeon.ir.model import Model
from surgeon.ir.protos import given_inputs
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.cut import largest_pad
from surgeon.proof.feeds import Feeds, SizedInput
from surgeon.proof.judge import Verdict, judge
from surgeon.proof.pair import ModelPair
from surgeon.proof.sizes import TOO_LARGE, DeclaredInput, choices
from surgeon.proof.usual_sizes import MOST_ELEMENTS, SECONDS, elements, usual_sizes
from surgeon.proof.valid import valid_feeds


def prove_models(
    before: ModelProto,
    after: ModelProto,
    *,
    base: str | Path | None = None,
    shapes: Shapes | None = None,
    own_rounding: bool = False,
) -> Verdict:
    """Whether two whole models compute the same, at the first choice of sizes with which the original runs.

    base          the folder of the external weights of both
    shapes        the shapes of inputs that are symbolic in the file
    own_rounding  see `judge`

    Raises UsageError where `shapes` does not fit the model.
    """
    try:
        pair = whole_pair(before, after, base=base, shapes=shapes)
    except Unrunnable as error:
        return Verdict.unproved(str(error))
    first = None
    for choice in choices(pair.inputs, pair.before, images=True):
        verdict = judge(pair, choice, own_rounding=own_rounding)
        if not verdict.unsized:
            return verdict
        first = first or verdict
    assert first is not None
    return first


def whole_pair(
    before: ModelProto, after: ModelProto, *, base: str | Path | None = None, shapes: Shapes | None = None
) -> ModelPair:
    """Two whole models as a pair.

    Raises UsageError where `shapes` does not fit the first one, Unrunnable where an input is not a tensor.
    """
    other = next((i.name for i in before.graph.input if not i.type.HasField("tensor_type")), None)
    if other is not None:
        raise Unrunnable(f"the input '{other}' is not a tensor, and no values are drawn for it")
    given = dict(shapes or {})
    fixed = fixed_symbols(before, given)
    inputs: list[DeclaredInput] = []
    for info in given_inputs(before):
        dims = list(declared_shape(info))
        for k, size in enumerate(given.get(info.name, ())):
            if dims[k] is None:  # a name of its own for a dimension that has neither name nor size
                dims[k] = f"{info.name}#{k}"
                fixed[f"{info.name}#{k}"] = size
        inputs.append((info.name, info.type.tensor_type.elem_type, tuple(dims)))
    return ModelPair(before, after, tuple(inputs), largest_pad=_largest_pad(before), fixed=fixed, folder=base)


def fixed_symbols(model: ModelProto, shapes: Shapes) -> dict[str, int]:
    """The size of each named dimension that `shapes` fixes; 0 for an empty one, such as a cache before the first step.

    Raises UsageError where the shapes are not those of the model's inputs, contradict each other, or have a size below
    0.
    """
    found: dict[str, int] = {}
    inputs = {i.name: i for i in model.graph.input}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise UsageError(f"the model has no input '{name}'.{did_you_mean(name, inputs)}")
        dims = declared_shape(inputs[name])
        if len(dims) != len(sizes):
            raise UsageError(f"the input '{name}' has {len(dims)} dimensions; {len(sizes)} were given.")
        for k, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
            if isinstance(dim, int) and dim > 0 and size != dim:
                raise UsageError(f"dimension {k} of the input '{name}' is {dim} in the model; {size} was given.")
            if not isinstance(size, int | np.integer) or size < 0:
                raise UsageError(f"dimension {k} of the input '{name}' needs a size of 0 or more, not {size}.")
            if isinstance(dim, str) and found.setdefault(dim, int(size)) != size:
                raise UsageError(f"'{dim}' cannot be both {found[dim]} and {size}: inputs share that dimension.")
    return found


def sizes_that_run(
    model: ModelProto,
    run: Callable[[Feeds], Any],
    *,
    base: str | Path | None = None,
    shapes: Shapes | None = None,
    seconds: float = SECONDS,
) -> list[SizedInput]:
    """The inputs of a model with the first sizes on which `run` does not raise Unrunnable.

    base     the folder of the external weights
    shapes   the shapes of inputs that are symbolic in the file
    seconds  for how long usual sizes are tried

    Raises Unrunnable where there are none, UsageError where `shapes` does not fit the model.
    """
    pair = whole_pair(model, model, base=base, shapes=shapes)
    why = ""
    for sized, below in ((sized, below) for sizes, below in _sizes_to_try(pair, seconds) for sized in sizes):
        _, feeds = next(valid_feeds(pair.before, sized, below=below))
        try:
            run(feeds)
        except Unrunnable as error:
            why = why or str(error)
        else:
            return sized
    raise Unrunnable(why or TOO_LARGE)


def _sizes_to_try(pair: ModelPair, seconds: float = SECONDS) -> Iterator[tuple[list[list[SizedInput]], int]]:
    """One or two sizes of the inputs, and what drawn integers are below there: small ones first."""
    small = ((list(pair.sizes(choice)), choice.below) for choice in choices(pair.inputs, pair.before, images=True))
    usual = (([sized], 1) for sized in usual_sizes(pair.symbols, pair.before, seconds))
    return worth_a_run(pair, chain(small, usual))


def worth_a_run(
    pair: ModelPair, tried: Iterable[tuple[list[list[SizedInput]], int]]
) -> Iterator[tuple[list[list[SizedInput]], int]]:
    """Sizes of the inputs without what takes seconds to draw, where less has been tried.

    From the second on, those that the model's nodes contradict are left out, too: to infer that takes a millisecond,
    and to run into it as long as the network does.
    """
    fewest, is_contradicted = math.inf, None
    for sizes, below in tried:
        count = max(map(elements, sizes), default=0)
        fewest = min(fewest, count)
        if count > max(MOST_ELEMENTS, fewest):
            continue
        if is_contradicted is not None:
            sizes = [sized for sized in sizes if not is_contradicted(sized)]
        if sizes:
            yield sizes, below
            is_contradicted = is_contradicted or contradiction(Model(pair.before))


def tensors_of_a_run(model: ModelProto, tensors: Sequence[str], *, folder: Path | None, shapes: Shapes) -> list[Feeds]:
    """The tensors of the main graph as random inputs make them, at one or two sizes.

    Tensors that the model does not have are left out, and the list is empty where the model does not run. `model` is
    changed: the tensors become outputs.
    """
    made = {o for n in model.graph.node for o in n.output} | {i.name for i in model.graph.input}
    wanted = [t for t in tensors if t in made]
    outputs = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=t) for t in wanted if t not in outputs)
    try:
        pair = whole_pair(model, model, base=folder, shapes=shapes)
        runner = Runner(model, folder)
    except (Unrunnable, ModelError):
        return []
    names = [o.name for o in model.graph.output]
    for sizes, below in _sizes_to_try(pair, SECONDS / 4):
        found = []
        for sized in sizes:
            _, feeds = next(valid_feeds(pair.before, sized, below=below))
            with contextlib.suppress(Unrunnable):
                results = dict(zip(names, runner.run(feeds), strict=True))
                found.append({t: results[t] for t in wanted})
        if found:
            return found
    return []


def _largest_pad(model: ModelProto) -> int:
    """The largest constant pad of a model; 1 where there is none."""
    indexed = Model(model)
    pads = [node for scope in indexed.scopes for node in scope.by_op.get("Pad", ())]
    return max([1, *(largest_pad(node, indexed) for node in pads)])
