"""Every case with something of it unknown: a rank, the sizes, a type, a constant. No pass may fall over what it lacks.

What a pass needs to know it asks for, and declines where there is no answer. A case shows one such guard; here each
case meets all of them: whatever is hidden, surgeon returns a model that ONNX's checker takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import casefile
import onnx
import pytest
from casefile import Case
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

import surgeon
from surgeon.errors import ModelError
from surgeon.report import LIKELY_INVALID

FOLDERS = sorted({p.parent.name for p in casefile.paths()})
HIDER = "nobody"  # a domain that nobody knows: after its node neither type nor shape is known


def without_ranks(case: Case) -> Iterator[ModelProto]:
    """Each input comes out of a Reshape to a shape that is an input, too."""
    model = _copy(case)
    for given in list(model.graph.input):
        if given.type.HasField("tensor_type"):
            shape = f"{given.name}_shape"
            _hide(model, given, onnx.helper.make_node("Reshape", [f"{given.name}_given", shape], [given.name]))
            model.graph.input.append(onnx.helper.make_tensor_value_info(shape, TensorProto.INT64, [f"{shape}_rank"]))
    yield model


def without_sizes(case: Case) -> Iterator[ModelProto]:
    model = _copy(case)
    for given in model.graph.input:
        _forget_sizes(given)
    yield model


def without_types(case: Case) -> Iterator[ModelProto]:
    model = _copy(case)
    model.opset_import.append(onnx.helper.make_opsetid(HIDER, 1))
    for given in model.graph.input:
        _hide(model, given, onnx.helper.make_node("Hide", [f"{given.name}_given"], [given.name], domain=HIDER))
    yield model


def _hide(model: ModelProto, given: ValueInfoProto, behind: NodeProto) -> None:
    given.name = f"{given.name}_given"
    model.graph.node.insert(0, behind)


def without_each_constant(case: Case) -> Iterator[ModelProto]:
    """Each initializer becomes an input, one after the other."""
    for index in range(len(case.model.graph.initializer)):
        yield _without(case, index)


def without_a_constant(case: Case) -> Iterator[ModelProto]:
    """One initializer becomes an input: not the same one in all cases of a pass."""
    count = len(case.model.graph.initializer)
    if count:
        yield _without(case, len(case.model.graph.node) % count)


def _without(case: Case, index: int) -> ModelProto:
    model = _copy(case)
    tensor = model.graph.initializer.pop(index)
    if tensor.name not in {i.name for i in model.graph.input}:
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return model


def _copy(case: Case) -> ModelProto:
    """The model, which says nothing of the sizes of what it computes."""
    model = ModelProto.FromString(case.model.SerializeToString())
    del model.graph.value_info[:]
    for made in model.graph.output:
        _forget_sizes(made)
    return model


def _forget_sizes(given: ValueInfoProto) -> None:
    for dim in given.type.tensor_type.shape.dim:
        dim.Clear()


WAYS = (without_ranks, without_sizes, without_types, without_each_constant)
EACH = pytest.param(without_each_constant, marks=pytest.mark.long)


def is_valid(model: ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


def end_of(case: Case, model: ModelProto) -> str:
    """What surgeon falls over, or that ONNX's checker refuses what it writes; "" for neither."""
    try:
        result = surgeon.rewrite(model, **{**case.options, "verify": "none"})
        onnx.checker.check_model(result.model)
    except ModelError:
        return ""  # it says that the model is wrong
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return next(
        (d.why for d in (*result.report.declined, *result.report.unknown) if d.why.startswith(LIKELY_INVALID)), ""
    )


@pytest.mark.parametrize("way", [*WAYS[:-1], without_a_constant, EACH], ids=lambda way: way.__name__)
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_pass_falls_over_what_is_not_known(folder: str, way: Callable[[Case], Iterator[ModelProto]]) -> None:
    for path in sorted((Path(casefile.HERE) / folder).glob("*.onnxtxt")):
        case = casefile.load(path)
        for model in way(case):
            if is_valid(model):
                assert not end_of(case, model), path.stem
