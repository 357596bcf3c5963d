"""Whether a node is valid by ONNX's own definition at an opset: passes/_node_at_opset.py, asked row by row."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto as T
from surgeon.passes import _node_at_opset as _reading

from surgeon.ir.schemas import schema

F, H, I64, STRING, UNKNOWN = T.FLOAT, T.FLOAT16, T.INT64, T.STRING, 0

# (operator, opset, the inputs' types (None: left out), attributes, the outputs' types, words of the reason)
INVALID: list[tuple[str, int, list[Any], dict[str, Any], list[Any], str]] = [
    ("Relu", 13, [F], {}, [F], ""),
    ("Relu", 13, [UNKNOWN], {}, [UNKNOWN], "its X is of unknown type"),
    ("Relu", 14, [UNKNOWN], {}, [UNKNOWN], ""),
    ("Relu", 13, [STRING], {}, [STRING], "its X is tensor(string)"),
    ("Relu", 13, [F], {}, [H], "its Y is tensor(float16) beside tensor(float)"),
    ("Relu", 13, [F], {"alpha": 1.0, "a": 2}, [F], "it has no a, alpha"),
    ("Relu", 13, [], {}, [F], "0 inputs and 1 outputs are not what it takes"),
    ("Relu", 13, [F, F], {}, [F], "2 inputs and 1 outputs are not what it takes"),
    ("Relu", 13, [F], {}, [F, F], "1 inputs and 2 outputs are not what it takes"),
    ("Upsample", 10, [F, F], {}, [F], "Upsample is deprecated"),
    ("Upsample", 9, [F, F], {}, [F], ""),
    ("Concat", 13, [F, F], {}, [F], "axis is left out"),
    ("Concat", 13, [F, F], {"axis": 0}, [F], ""),
    ("Concat", 13, [F, H], {"axis": 0}, [F], "its inputs is tensor(float16) beside tensor(float)"),
    ("Gather", 13, [F, None], {}, [F], "its input indices is left out"),
    ("Gather", 13, [F, F], {}, [F], "its indices is tensor(float)"),
    ("Clip", 13, [F, None, F], {}, [F], ""),
    ("Clip", 13, [F, H], {}, [F], "its min is tensor(float16) beside tensor(float)"),
    ("Clip", 6, [F, F], {}, [F], "2 inputs"),
    ("Clip", 6, [I64], {}, [I64], "its input is tensor(int64)"),
    ("Clip", 6, [UNKNOWN], {}, [UNKNOWN], "its input is of unknown type"),
    ("Loop", 13, [I64, T.BOOL, F, H], {"body": None}, [F, H], ""),
    ("Identity", 13, ["seq("], {}, [UNKNOWN], "its input is a sequence"),
    ("Identity", 14, ["seq("], {}, ["seq("], ""),
    ("Identity", 14, ["optional("], {}, ["optional("], "its input is an optional"),
    ("Identity", 16, ["optional("], {}, ["optional("], ""),
]


@pytest.mark.parametrize(("op", "opset", "inputs", "attrs", "outputs", "why"), INVALID)
def test_invalid(op: str, opset: int, inputs: list[Any], attrs: dict[str, Any], outputs: list[Any], why: str) -> None:
    spec = schema(op, "", opset)
    assert spec is not None
    said = _reading.invalid(spec, [(i is not None, i or UNKNOWN) for i in inputs], attrs, outputs)
    assert said.startswith(why) if why else said == ""
