"""Freeze an input of a model to a value, or a named dimension to a size: `--set sr=16000`, `--set batch=1`.

The input becomes a constant, and is no longer an input. The dimension becomes static.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.lattice import read_type
from surgeon.ir.protos import copied, given_inputs, refill
from surgeon.ir.run import Runner, must_run
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run

TRUTHS = {"true": 1, "false": 0}


def prepare(asked: Asked) -> Prepared:
    """The model with some inputs as constants and some dimensions static, proved against the original with these.

    Raises UsageError where a value does not fit its input, ModelError where the two differ or cannot be run.
    """
    given = asked.options.values
    made, arrays = frozen(asked.model, given)
    infos = {i.name: Text.of_info(i) for i in asked.model.graph.input}
    nodes = {node.output[0]: Text.of(node) for node in made.graph.node[: len(arrays)]}
    source = asked.source
    left = {name: sizes for name, sizes in asked.options.shapes.items() if name not in given}
    if asked.options.proves:
        _prove(source, frozen(source, given)[0], arrays, left)
    records = [applied("set", [infos[name]], [nodes[name]], name, error=0.0) for name in arrays]
    sized = [(i.name, infos[i.name], Text.of_info(i)) for i in made.graph.input]
    records += [applied("set", [old], [new], name, error=0.0) for name, old, new in sized if old != new]
    return Prepared(made, records, shapes=left)


def frozen(model: ModelProto, values: Mapping[str, Any]) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A copy of a model with some inputs as constants, and these by name; what names a dimension of the inputs is its
    size. Raises UsageError."""
    made = copied(model)
    inputs = {i.name: i for i in given_inputs(made)}
    dims = [d for i in inputs.values() for d in i.type.tensor_type.shape.dim if d.dim_param]
    dims += [d for o in made.graph.output for d in o.type.tensor_type.shape.dim if d.dim_param]
    arrays = {}
    for name, value in values.items():
        named = [d for d in dims if d.dim_param == name]
        if name not in inputs and named:
            size = _size(name, value)
            for dim in named:
                dim.dim_value = size
            continue
        if name not in inputs:
            known = {*inputs, *(d.dim_param for d in dims)}
            raise UsageError(f"the model has no input and no dimension '{name}'.{did_you_mean(name, known)}")
        if any(o.name == name for o in made.graph.output):
            raise UsageError(f"the input '{name}' is an output, too: --set cannot make a constant of it.")
        arrays[name] = _array(name, value, inputs[name].type)
        made.graph.input.remove(inputs[name])
    constants = [
        helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(array, name))
        for name, array in arrays.items()
    ]
    refill(made.graph.node, [*constants, *made.graph.node])
    del made.graph.value_info[:]  # sizes that follow from a value are other ones now
    return made, arrays


def sizes_fixed_in(after: ModelProto, before: ModelProto) -> dict[str, int]:
    """The named dimensions of the inputs of a model that a rewritten one has as numbers, with these."""
    static = {i.name: i.type.tensor_type.shape.dim for i in after.graph.input}
    pairs = ((i.type.tensor_type.shape.dim, static.get(i.name, ())) for i in given_inputs(before))
    dims = (both for row in pairs for both in zip(*row, strict=False))
    return {old.dim_param: new.dim_value for old, new in dims if old.dim_param and new.dim_value > 0}


def _size(name: str, value: Any) -> int:
    numbers = _numbers(name, value)
    if numbers.size != 1 or numbers[0] < 1 or numbers[0] % 1:
        raise UsageError(f"'{name}' is a dimension: --set gives it one size of 1 or more, not {value}.")
    return int(numbers[0])


def _array(name: str, value: Any, kind: TypeProto) -> np.ndarray:
    """The value of an input, from text such as `16000`, `64,64` or `64x64`, a number or an array."""
    if not kind.HasField("tensor_type"):
        raise UsageError(f"the input '{name}' is not a tensor: --set cannot give it a value.")
    dims = read_type(kind).shape or ()
    dtype = helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
    numbers = _numbers(name, value)
    shape = [d if isinstance(d, int) else 1 for d in dims]
    if len(dims) == 1 and not isinstance(dims[0], int):
        shape = [numbers.size]
    if numbers.size not in (1, math.prod(shape)):
        raise UsageError(f"the input '{name}' has {math.prod(shape)} numbers; --set gives {numbers.size}.")
    with np.errstate(all="ignore"):
        found = numbers.astype(dtype)
    if dtype.kind in "iub" and not np.array_equal(found.astype(np.float64), numbers):
        raise UsageError(f"the input '{name}' is of {dtype}, and cannot be {value}.")
    return np.broadcast_to(found.reshape(-1) if found.size > 1 else found.reshape(()), math.prod(shape)).reshape(shape)


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        parts = re.split("[,x]", value) if isinstance(value, str) else np.asarray(value).reshape(-1).tolist()
        return np.asarray([float(TRUTHS.get(str(part).strip().lower(), part)) for part in parts])
    except (TypeError, ValueError):
        raise UsageError(f"--set takes NAME=NUMBER or NAME=NUMBER,NUMBER, not '{name}={value}'.") from None


def _prove(before: ModelProto, after: ModelProto, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Any]) -> None:
    """Raise ModelError where the two differ, or do not run."""
    with must_run("--set was not proved: ONNX Runtime does not run the model", end="."):
        old, new = Runner(before), Runner(after)
        feeds = next(valid_feeds(after, sizes_that_run(after, new.run, shapes=shapes)))[1]
        found, expected = new.run(feeds), old.run(feeds | dict(arrays))
    for info, one, other in zip(before.graph.output, found, expected, strict=True):
        if one.dtype != other.dtype or not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            raise ModelError(f"with the value of --set the output '{info.name}' differs from that with the input.")
