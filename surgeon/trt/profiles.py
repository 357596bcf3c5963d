"""Optimisation profiles: the shapes that an engine is built for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.lattice import declared_dim

Profile = Mapping[str, Sequence[Sequence[int]]]  # input name -> (min, opt, max) shapes
PICTURE = 224  # the usual height and width where the model says neither


def check_profiles(profiles: Sequence[Profile], proto: Any, command: str) -> None:
    """Raise UsageError where a profile is not one of the model, or a dynamic input has none.

    `command` is what the user may type again with a profile.
    """
    for profile in profiles:
        _check_profile(profile, proto)
    given = set.intersection(*map(set, profiles)) if profiles else set()
    dynamic = dynamic_inputs(proto)
    left = [name for name in dynamic if name not in given]
    if left:
        names = ", ".join(f"'{name}'" for name in left)
        verb = "is dynamic and has" if len(left) == 1 else "are dynamic and have"
        words = "".join(f" --profile {shlex.quote(f'{name}:{dynamic[name]}')}" for name in left)
        raise UsageError(
            f"{names} {verb} no --profile, which says what shapes the engine takes. --profile {left[0]}:MIN,OPT,MAX "
            f"allows all from MIN to MAX. For one shape alone:\n  {command}{words}"
        )


def dynamic_inputs(model: ModelProto) -> dict[str, str]:
    """Each input with unknown sizes, and a usual shape: 1 in front, 224 for an unknown size of a picture, else 1."""
    weights = {t.name for t in model.graph.initializer}
    found = {}
    for info in model.graph.input:
        dims = [declared_dim(d) for d in info.type.tensor_type.shape.dim]
        if info.name in weights or all(isinstance(d, int) for d in dims):
            continue
        found[info.name] = "x".join(str(_usual(d, axis, len(dims))) for axis, d in enumerate(dims))
    return found


def _usual(dim: object, axis: int, rank: int) -> int:
    if isinstance(dim, int):
        return dim
    return PICTURE if rank == 4 and axis > 1 else 1


def _check_profile(profile: Profile, proto: Any) -> None:
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
