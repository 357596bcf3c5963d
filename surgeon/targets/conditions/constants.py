"""Constant nodes."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition
from surgeon.targets.releases import between, up_to


@condition("Constant", up_to(7, 2, 2), source='onnx-tensorrt@803e699: attrs.get<ShapedWeights>("value") alone')
def constant_attribute(node: Node) -> str | None:
    return None if "value" in node.attrs else "no attribute of a Constant but 'value' is read"


@condition(
    "Constant",
    between((8, 0), (9, 1)),
    source='onnx-tensorrt@4225037 to @877b5dc: attrs.get<float>("value_int"), which is 0, and <std::vector<float>>'
    '("value_ints"), which is empty; int64_t from 9.2 (@306247b)',
)
def constant_integers(node: Node) -> str | None:
    if "value_ints" in node.attrs:
        return "value_ints is read as floats: the constant would be empty"
    return "value_int is read as a float: the constant would be 0" if "value_int" in node.attrs else None
