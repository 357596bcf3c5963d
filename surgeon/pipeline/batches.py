"""Batches: drawn, put together of samples, taken apart, and compared with what each sample is alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto

from surgeon.errors import ModelError
from surgeon.ir.protos import given_inputs, label_of
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.nodewise import Layout, difference
from surgeon.proof.feeds import Feeds
from surgeon.proof.valid import valid_feeds

SEVERAL = 2  # batches of the file's size that are computed at once, node by node
BATCHES = (1, 2, 3, 5)  # samples that the whole models are compared with
UNLIKE = ("random", "large", "shifted", "zero")  # kinds of samples that are side by side in one more batch


class Mixed(ModelError):
    """A node computes something else for a sample where others are beside it; `why` says which, as a clause."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the batch cannot be made dynamic: {why.rstrip('.')}.")


def named(node: NodeProto) -> str:
    """What a message calls a node."""
    return f"{label_of(node)} ({node.op_type})"


# ---- samples ---------------------------------------------------------------------------------------------------------


def drawn(
    model: ModelProto, sizes: Mapping[str, tuple[int, ...]], seed: int, kinds: Sequence[str] = ("random",)
) -> list[Feeds]:
    """Values for the inputs, of each of these kinds that their types have."""
    inputs = [(i.name, i.type.tensor_type.elem_type, sizes[i.name]) for i in given_inputs(model)]
    return [feeds for _, feeds in valid_feeds(model, inputs, seed, kinds=kinds)]


def _unlike(draws: Sequence[Feeds], axes: Mapping[str, int], count: int) -> Feeds:
    """A batch whose samples are taken from one draw after the other: what is large in one may be seen in the others."""
    found = dict(draws[0])
    for name, axis in axes.items():
        layout = Layout(axis)
        rows = [_part(draws[k % len(draws)][name], layout, k, 1, count) for k in range(count)]
        found[name] = np.concatenate(rows, axis)
    return found


def joined(batches: Sequence[np.ndarray], layout: Layout, size: int) -> np.ndarray:
    """Several batches one after the other; `size` is that of each."""
    parts = [_split(batch, layout, size) for batch in batches]
    whole = np.concatenate(parts, layout.axis + 1)
    return _merged(whole, layout.axis)


def _split(batch: np.ndarray, layout: Layout, size: int) -> np.ndarray:
    """The axis of the samples in three: what is counted before them, the samples, what is after."""
    shape, axis = batch.shape, layout.axis
    inner = shape[axis] // (layout.outer * size)
    return batch.reshape(*shape[:axis], layout.outer, size, inner, *shape[axis + 1 :])


def _merged(parts: np.ndarray, axis: int) -> np.ndarray:
    """The three axes of `_split` as one again."""
    shape = parts.shape
    return parts.reshape(*shape[:axis], math.prod(shape[axis : axis + 3]), *shape[axis + 3 :])


def _part(whole: np.ndarray, layout: Layout, first: int, size: int, total: int) -> np.ndarray:
    """`size` samples of `total`, from `first` on."""
    parts = _split(whole, layout, total)
    taken = np.take(parts, range(first, first + size), layout.axis + 1)
    return _merged(taken, layout.axis)


# ---- the whole models ------------------------------------------------------------------------------------------------


def prove_batches(
    before: ModelProto,
    after: ModelProto,
    axes: Mapping[str, int],
    size: int,
    sizes: Mapping[str, tuple[int, ...]],
    layouts: Mapping[str, Layout | None],
) -> float:
    """The largest difference between a sample in a batch and the same alone; raises Mixed where it is none of rounding.

    The original computes batches of its own size; the others are computed by the new model, sample by sample. One more
    batch has samples that are not alike.
    """
    old, new = Runner(before), Runner(after)
    names = [o.name for o in after.graph.output]
    makers = {o: f" of {named(node)}" for node in after.graph.node for o in node.output}

    def sized(count: int) -> dict[str, tuple[int, ...]]:
        return {n: tuple(count if axes.get(n) == k else d for k, d in enumerate(s)) for n, s in sizes.items()}

    counts = dict.fromkeys((size, *BATCHES, SEVERAL * size))
    batches = [(count, drawn(before, sized(count), seed=count)[0]) for count in counts]
    most = max(counts) // size * size
    batches.append((most, _unlike(drawn(before, sized(most), seed=most, kinds=UNLIKE), axes, most)))
    worst = 0.0
    for count, feeds in batches:
        step = size if count % size == 0 else 1
        runner = old if step == size else new
        try:
            parts = [
                {n: _part(v, Layout(axes[n]), first, step, count) if n in axes else v for n, v in feeds.items()}
                for first in range(0, count, step)
            ]
            alone = [runner.run(part) for part in parts]
            whole = new.run(feeds)
        except Unrunnable as error:
            raise Mixed(f"a batch of {count} does not run: {error}") from None
        for k, results in enumerate(alone):
            for name, together, expected in zip(names, whole, results, strict=True):
                told = f"the output '{name}'{makers.get(name, '')}"
                worst = max(worst, _difference(told, together, expected, layouts[name], (k * step, step, count)))
    return worst


def _difference(
    told: str, together: np.ndarray, alone: np.ndarray, layout: Layout | None, at: tuple[int, int, int]
) -> float:
    """How far the samples of an output are from the same alone; raises Mixed where it is not by rounding.

    told  the output's name in a message
    at    the first of them, how many they are, and how many there are in all
    """
    first, step, count = at
    if layout is None:
        part = together
    elif together.ndim > layout.axis and together.shape[layout.axis] == count:
        part = _part(together, layout, first, step, count)
    else:
        raise Mixed(f"{told} has the shape {list(together.shape)} for a batch of {count}")
    found = difference(part, alone)
    if found.why:
        raise Mixed(f"in {told}, sample {first} of {count} is another one than alone: {found.why}")
    return found.error
