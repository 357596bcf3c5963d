"""Optimisation profiles: the shapes that an engine is built for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.helper import tensor_dtype_to_np_dtype

from surgeon.errors import SurgeonError, UsageError, did_you_mean
from surgeon.ir.lattice import Dim, declared_dim
from surgeon.ir.run import Runner, Unrunnable
from surgeon.rules.meaning import with_functions

Profile = Mapping[str, Sequence[Sequence[int]]]  # input name -> (min, opt, max) shapes
PICTURE_RANK, PICTURE = 4, 224  # of images; the usual height and width where the model says neither
LENGTHS = (1, 64, 512, 4096)  # of anything else, the first one first
TYPICAL = (128, 1, 64, 512, 4096)  # the same where the time of a run is asked about: a text of one word is not typical


def check_profiles(profiles: Sequence[Profile], proto: Any, command: str, folder: Path | None = None) -> None:
    """Raise UsageError where a profile is not one of the model, or a dynamic input has none.

    command  what the user may type again with a profile
    folder   that of the external weights
    """
    for profile in profiles:
        check_profile(profile, proto)
    given = set.intersection(*map(set, profiles)) if profiles else set()
    left = [name for name, dims in _dims_of_inputs(proto).items() if _is_dynamic(dims) and name not in given]
    if left:
        dynamic = dynamic_inputs(proto, folder)
        names = ", ".join(f"'{name}'" for name in left)
        verb = "is dynamic and has" if len(left) == 1 else "are dynamic and have"
        words = "".join(f" --profile {shlex.quote(f'{name}:{dynamic[name]}')}" for name in left)
        raise UsageError(
            f"{names} {verb} no --profile, which says what shapes the engine takes. --profile {left[0]}:MIN,OPT,MAX "
            f"allows all from MIN to MAX. For one shape alone:",
            f"  {command}{words}",
        )


def dynamic_inputs(model: ModelProto, folder: Path | None = None) -> dict[str, str]:
    """Each input with unknown sizes, and a usual shape of it, such as "1x3x224x224": see `usual_shapes`."""
    shapes, inputs = usual_shapes(model, folder), _dims_of_inputs(model)
    return {name: "x".join(map(str, shapes[name])) for name, dims in inputs.items() if _is_dynamic(dims)}


def usual_shapes(
    model: ModelProto, folder: Path | None = None, lengths: Sequence[int] = LENGTHS
) -> dict[str, list[int]]:
    """A usual shape of each input.

    1. A first dimension is 1, and so is what has its name elsewhere. An unknown height or width of an image is 224.
    2. Any other size is the first of `lengths` with which ONNX Runtime runs the model: sound must be longer than a
       window. Where it runs with none of them, it is 1.

    folder  that of the external weights
    """
    inputs = _dims_of_inputs(model)
    found = _usual(inputs, 1)
    if any(_has_length(dims) for dims in inputs.values()):
        tried = (_usual(inputs, length) for length in lengths)
        found = next((shapes for shapes in tried if _runs(model, folder, shapes)), found)
    return found


def typical_shapes(
    model: ModelProto, folder: Path | None, given: Mapping[str, Sequence[int]], like: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """The shape of each input: the given one, else that of `like` where it fits, else a usual one for timing.

    Sizes of one name are those given for it. Raises UsageError where a given shape is not one of its input.
    """
    check_profile({name: [sizes] * 3 for name, sizes in given.items()}, model)
    inputs = _dims_of_inputs(model)
    for name, sizes in given.items():
        if not _is_shape_of(inputs[name], sizes):
            takes = "x".join(map(str, inputs[name]))
            raise UsageError(f"the input '{name}' is {takes}, and cannot be {'x'.join(map(str, sizes))}.")
    fitting = {name: sizes for name, sizes in like.items() if name in inputs and _is_shape_of(inputs[name], sizes)}
    known = {**fitting, **given}
    named = {d: size for name, sizes in known.items() for d, size in zip(inputs[name], sizes, strict=True)}
    usual = {} if inputs.keys() <= known.keys() else usual_shapes(model, folder, TYPICAL)
    return {
        name: list(known[name])
        if name in known
        else [d if isinstance(d, int) else named.get(d, size) for d, size in zip(dims, usual[name], strict=True)]
        for name, dims in inputs.items()
    }


def _is_shape_of(dims: Sequence[Dim], sizes: Sequence[int]) -> bool:
    """Whether an input with such dimensions can have these sizes."""
    return len(dims) == len(sizes) and all(not isinstance(d, int) or d == s for d, s in zip(dims, sizes, strict=True))


def _dims_of_inputs(model: ModelProto) -> dict[str, list[Dim]]:
    """The declared dimensions of each input that is not a weight."""
    weights = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in weights]
    return {i.name: [declared_dim(d) for d in i.type.tensor_type.shape.dim] for i in infos}


def names_of_dynamic(model: ModelProto) -> list[str]:
    """The inputs with unknown sizes."""
    return [name for name, dims in _dims_of_inputs(model).items() if _is_dynamic(dims)]


def _is_dynamic(dims: Sequence[Dim]) -> bool:
    return not all(isinstance(d, int) for d in dims)


def _has_length(dims: Sequence[Dim]) -> bool:
    """Whether a size after the first is unknown, and not the height or width of an image."""
    return len(dims) != PICTURE_RANK and _is_dynamic(dims[1:])


def _usual(inputs: Mapping[str, Sequence[Dim]], length: int) -> dict[str, list[int]]:
    """The shapes of inputs, with `length` for what is neither a first dimension nor one of an image."""
    first = {dims[0] for dims in inputs.values() if dims and isinstance(dims[0], str)}

    def size(dim: Dim, axis: int, rank: int) -> int:
        if isinstance(dim, int):
            return dim
        if axis == 0 or dim in first:
            return 1
        if rank == PICTURE_RANK:
            return PICTURE if axis > 1 else 1
        return length

    return {name: [size(d, axis, len(dims)) for axis, d in enumerate(dims)] for name, dims in inputs.items()}


def _runs(model: ModelProto, folder: Path | None, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether ONNX Runtime runs a model on zeros of these shapes."""
    types = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    try:
        feeds = {name: np.zeros(sizes, tensor_dtype_to_np_dtype(types[name])) for name, sizes in shapes.items()}
        Runner(with_functions(model), folder).run(feeds)
    except (Unrunnable, SurgeonError, KeyError):  # the last of an input that is not a tensor
        return False
    return True


def check_profile(profile: Profile, proto: Any) -> None:
    """Raise UsageError where a profile is not one of the model: other inputs, ranks or orders of sizes."""
    inputs = {i.name: i for i in proto.graph.input}
    for name, shapes in profile.items():
        if name not in inputs:
            raise UsageError(f"the model has no input '{name}'.{did_you_mean(name, inputs)}")
        rank = len(inputs[name].type.tensor_type.shape.dim)
        for shape in shapes:
            if len(shape) != rank:
                raise UsageError(
                    f"the input '{name}' has {rank} dimensions; its profile gives {'x'.join(map(str, shape))}."
                )
        smallest, usual, largest = shapes
        if not all(a <= b <= c for a, b, c in zip(smallest, usual, largest, strict=True)):
            raise UsageError(
                f"the profile of '{name}' goes from the smallest shape over the usual one to the largest, each "
                "dimension in that order."
            )
