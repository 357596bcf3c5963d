"""Unique where ONNX Runtime is not a judge: NaN, and types that it has no kernel for."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import surgeon
from surgeon.ir.run import Reference

ROWS = np.array([[3, 1, 3], [0, 2, 0], [3, 1, 3]])
NAN = np.array([np.nan, 2, -np.inf, np.nan, np.inf, -0.0, 2, 0], np.float32)


def unique(kind: str, shape: str, *, axis: int | None, in_order: int, outputs: str = "y i v c") -> onnx.ModelProto:
    """A model of one Unique that returns those of its outputs."""
    named = [name if name in outputs else "" for name in "yivc"]
    returned = ", ".join(f"{kind if name == 'y' else 'int64'} {name}" for name in outputs.split())
    attrs = [f"sorted = {in_order}", *([] if axis is None else [f"axis = {axis}"])]
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({kind}[{shape}] x) => ({returned}) '
        f"{{ {', '.join(named).rstrip(', ')} = Unique <{', '.join(attrs)}> (x) }}"
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_the_reference_evaluator_knows_every_unique(axis: int | None) -> None:
    """onnx's own sorts where the values alone are asked for, and takes unsorted rows of axis 0 along any."""
    for in_order, outputs in product((0, 1), ("y", "y i v c", "y v")):
        model = unique("int64", "3,3", axis=axis, in_order=in_order, outputs=outputs)
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": ROWS})
        for one, other in zip(Reference(model).run({"x": ROWS}), expected, strict=True):
            assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("in_order", [0, 1])
def test_all_nan_are_one_value_and_the_largest(in_order: int) -> None:
    model = unique("float", "8", axis=None, in_order=in_order)
    result = surgeon.rewrite(model, target="10.9")
    assert [a.pass_name for a in result.report.applied] == ["unique"]
    found = onnxruntime.InferenceSession(result.model.SerializeToString()).run(None, {"x": NAN})
    for one, other in zip(found, Reference(model).run({"x": NAN}), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    assert [len(part) for part in found] == [5, 5, 8, 5]
