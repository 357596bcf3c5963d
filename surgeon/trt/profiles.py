"""Optimisation profiles: the shapes that an engine is built for."""

import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NoReturn

from onnx import ModelProto, ValueInfoProto

from surgeon.errors import SurgeonError, UsageError, did_you_mean
from surgeon.ir.lattice import Dim, Shape, Shapes, declared_shape
from surgeon.ir.protos import given_inputs
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.inputs import plausible
from surgeon.proof.feeds import Feeds
from surgeon.proof.sizes import INTEGERS, Symbols
from surgeon.proof.usual_sizes import usual_sizes
from surgeon.rules.meaning import with_functions
from surgeon.targets.target import Target

Profile = Mapping[str, Sequence[Sequence[int]]]  # input name -> (min, opt, max) shapes


def check_profiles(profiles: Sequence[Profile], proto: Any, command: str, folder: Path | None = None) -> None:
    """Raise UsageError where a profile is not one of the model, or a dynamic input has none.

    command  what the user may type again with a profile
    folder   that of the external weights
    """
    for profile in profiles:
        check_profile(profile, proto)
    given = set.intersection(*map(set, profiles)) if profiles else set()
    left = [name for name in names_of_dynamic(proto) if name not in given]
    if left:
        verb = "is dynamic and has" if len(left) == 1 else "are dynamic and have"
        _refuse(
            left,
            f"{verb} no --profile, which sets the shapes that",
            command,
            profile_texts(proposed(proto, folder)),
            given,
        )


def with_values(
    profiles: Sequence[Profile], model: ModelProto, command: str, folder: Path | None = None
) -> Callable[[Any], Sequence[Profile]]:
    """What gives the profiles for a parsed network, which knows the inputs that it reads as sizes.

    It raises UsageError where a profile has no values for such an input; arguments as in `check_profiles`.
    """

    def chosen(network: Any) -> Sequence[Profile]:
        inputs = [network.get_input(k) for k in range(network.num_inputs)]
        sizes = {tensor.name for tensor in inputs if tensor.is_shape_tensor}
        given = set.intersection(*map(set, profiles)) if profiles else set()
        left = sorted(sizes - given)
        if left:
            verb = "is read as sizes and has" if len(left) == 1 else "are read as sizes and have"
            offered = dict.fromkeys(left, "MIN,OPT,MAX") | profile_texts(proposed(model, folder))
            _refuse(left, f"{verb} no --profile, which sets the values that", command, offered, given)
        plain = {t.name for t in inputs if t.name not in sizes and all(d >= 0 for d in t.shape)}
        return [{name: shapes for name, shapes in profile.items() if name not in plain} for profile in profiles]

    return chosen


def _refuse(
    left: Sequence[str], what: str, command: str, offered: Mapping[str, str], given: Collection[str]
) -> NoReturn:
    """Raise UsageError for inputs without a profile, with a command that has one for each."""
    names = ", ".join(f"'{name}'" for name in left)
    words = "".join(
        f" --profile {shlex.quote(f'{name}:{text}')}" for name, text in offered.items() if name not in given
    )
    raise UsageError(
        f"{names} {what} the engine accepts. --profile {left[0]}:MIN,OPT,MAX allows all from MIN to MAX, such as:",
        f"  {command}{words}",
    )


def proposed(model: ModelProto, folder: Path | None = None) -> Profile:
    """The profile of each dynamic input: shapes at which ONNX Runtime runs the model, or a guess where it does not.

    folder  that of the external weights
    """
    runnable = with_functions(model)
    try:
        return plausible(runnable, Runner(runnable, folder).run).ranges()
    except (Unrunnable, SurgeonError):
        return guessed_profile(model)


def usual_values(model: ModelProto, folder: Path | None = None, shapes: Shapes | None = None) -> Feeds:
    """Usual numbers for each input, of these shapes or usual ones, with which ONNX Runtime runs the model.

    Empty where it does not run.
    """
    runnable = with_functions(model)
    try:
        return plausible(runnable, Runner(runnable, folder).run, shapes).samples[0]
    except (Unrunnable, SurgeonError):
        return {}


def usual_shapes(model: ModelProto, folder: Path | None = None) -> dict[str, Sequence[int]]:
    """A usual shape of each input, at which ONNX Runtime runs the model; a guess where it does not."""
    return {name: array.shape for name, array in usual_values(model, folder).items()} or _first_shapes(model)


def guessed_profile(model: ModelProto) -> Profile:
    """One shape of each dynamic input, whether the model runs there or not."""
    return {name: (shape,) * 3 for name, shape in _first_shapes(model).items() if name in names_of_dynamic(model)}


def _first_shapes(model: ModelProto) -> dict[str, Sequence[int]]:
    symbols = Symbols([(name, 0, tuple(dims)) for name, dims in _dims_of_inputs(model).items()], {})
    return {name: shape for name, _, shape in next(usual_sizes(symbols, model), [])}


def shape_text(shape: Sequence[int]) -> str:
    """A shape as the command line has it: 1x3x224x224."""
    return "x".join(map(str, shape))


def profile_texts(profile: Profile) -> dict[str, str]:
    """MIN,OPT,MAX of each input; one shape where these are the same."""
    texts = {name: [shape_text(shape) for shape in shapes] for name, shapes in profile.items()}
    return {name: ",".join(t if len(set(t)) > 1 else t[:1]) for name, t in texts.items()}


def trtexec_shapes(profile: Profile) -> list[str]:
    """The options of trtexec that say a profile: one of them where each input has one shape."""
    if all(len(set(map(tuple, shapes))) == 1 for shapes in profile.values()):
        options = ["--shapes"] if profile else []
    else:
        options = ["--minShapes", "--optShapes", "--maxShapes"]
    return [
        f"{option}={','.join(f'{name}:{shape_text(shapes[k])}' for name, shapes in profile.items())}"
        for k, option in enumerate(options)
    ]


def provider_options(profile: Profile, target: Target) -> tuple[str, dict[str, str]]:
    """ONNX Runtime's execution provider for a target, and the options that give it a profile."""
    provider, prefix = ("NvTensorRTRTXExecutionProvider", "nv") if target.rtx else ("TensorrtExecutionProvider", "trt")
    options = {
        f"{prefix}_profile_{size}_shapes": ",".join(f"{name}:{shape_text(s[k])}" for name, s in profile.items())
        for k, size in enumerate(("min", "opt", "max"))
    }
    return provider, options


def typical_shapes(model: ModelProto, folder: Path | None, given: Shapes, like: Shapes) -> dict[str, list[int]]:
    """The shape of each input: the given one, else that of `like` where it fits, else a usual one for timing; 1 where
    none of these runs.

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
    usual = {} if inputs.keys() <= known.keys() else usual_shapes(model, folder)
    return {
        name: list(known[name])
        if name in known
        else [
            d if isinstance(d, int) else named.get(d, n) for d, n in zip(dims, usual.get(name, repeat(1)), strict=False)
        ]
        for name, dims in inputs.items()
    }


def _is_shape_of(dims: Sequence[Dim], sizes: Sequence[int]) -> bool:
    """Whether an input with such dimensions can have these sizes."""
    return len(dims) == len(sizes) and all(not isinstance(d, int) or d == s for d, s in zip(dims, sizes, strict=True))


def _dims_of_inputs(model: ModelProto) -> dict[str, Shape]:
    """The declared dimensions of each input that is not a weight."""
    return {i.name: declared_shape(i) for i in given_inputs(model)}


def names_of_dynamic(model: ModelProto) -> list[str]:
    """The inputs with unknown sizes."""
    return [n for n, dims in _dims_of_inputs(model).items() if not all(isinstance(d, int) for d in dims)]


def _count_of_values(info: ValueInfoProto) -> int | None:
    """How many numbers an input has of which sizes may be computed; None for any other."""
    dims = declared_shape(info)
    is_short = info.type.tensor_type.elem_type in INTEGERS and len(dims) < 2
    return math.prod(d for d in dims if isinstance(d, int)) if is_short and None not in dims else None


def check_profile(profile: Profile, proto: Any) -> None:
    """Raise UsageError where a profile is not one of the model: other inputs, ranks or orders of sizes."""
    inputs = {i.name: i for i in proto.graph.input}
    for name, shapes in profile.items():
        if name not in inputs:
            raise UsageError(f"the model has no input '{name}'.{did_you_mean(name, inputs)}")
        rank = len(inputs[name].type.tensor_type.shape.dim)
        values = _count_of_values(inputs[name])
        for shape in shapes:
            if len(shape) not in (rank, values):
                raise UsageError(
                    f"the input '{name}' has {rank} dimensions; its profile gives {'x'.join(map(str, shape))}."
                )
        smallest, usual, largest = shapes
        if not all(a <= b <= c for a, b, c in zip(smallest, usual, largest, strict=True)):
            raise UsageError(
                f"the profile of '{name}' goes from the smallest shape over the usual one to the largest, each "
                "dimension in that order."
            )
