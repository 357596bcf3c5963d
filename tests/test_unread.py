"""Whatever ONNX's schema has and an importer does not read is refused by a condition, or said here to be harmless.

tests/unread.json has, by operator and attribute, the releases of the open parser whose importer does not read it: what
onnx.defs declares up to opset 25, less what was extracted from each release's source, helpers followed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import defs

from surgeon.targets import releases, tables
from surgeon.targets.conditions import conditions
from surgeon.targets.releases import RELEASES, Version
from surgeon.targets.rows import Row

UNREAD: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "unread.json").read_text())

# Of any operator: why it does not matter that no node reads it.
HARMLESS = {
    "consumed_inputs": "about memory, in opsets before 6",
    "is_test": "an engine runs inference alone",
    "momentum": "for training, which is refused",
    "ratio": "Dropout hands its input on",
    "seed": "no two runtimes draw the same numbers",
    "output_sequence": "which outputs there are says the node itself",
    "stash_type": "the precision of sums inside",
    "storage_order": "of MaxPool's indices, an output that is refused",
    "sorted": "0 leaves the order open",
    "round_mode": "of float8e8m0, a type that no release knows",
    "precision": "a hint",
    "cubic_coeff_a": "cubic is refused there",
    "exclude_outside": "of cubic, which is refused there",
    "extrapolation_value": "of tf_crop_and_resize, which is refused; 7.x reads no such mode",
}
# What one operator's importer does with it, although the extraction does not say so.
READ = {
    "ReverseSequence.time_axis": "one of both axes is 0, the other 1: batch_axis is read, and says the other",
    "NonMaxSuppression.center_point_box": 'read: OnnxAttrs{node, ctx}.get("center_point_box", 0)',
    "Gemm.broadcast": "C is broadcast in any case",
    "AveragePool.*": "read by get_kernel_params",
    "MaxPool.*": "read by get_kernel_params",
    "Conv.*": "read by get_kernel_params",
    "ConvTranspose.*": "read by get_kernel_params",
    "LogSoftmax.axis": "read by importSoftmax",
    "RandomNormal.*": 'read: isUniform ? "low" : "mean"',
    "RandomNormalLike.*": 'read: isUniform ? "low" : "mean"',
    "RandomUniform.*": 'read: isUniform ? "low" : "mean"',
    "RandomUniformLike.*": 'read: isUniform ? "low" : "mean"',
    "Scatter.axis": "read by importScatterElements",
    "DequantizeLinear.axis": "read by QuantDequantLinearHelper from 8.0 on; 7.x takes one scale alone",
    "QuantizeLinear.axis": "read by QuantDequantLinearHelper from 8.0 on; 7.x takes one scale alone",
    **{
        f"Reduce{kind}.{name}": "read by reduceTensor"
        for kind in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
        for name in ("axes", "keepdims")
    },
}
# The conditions that refuse an attribute's other values, but for rows, which name the attribute themselves.
DECLARED = {
    "axis": ("Add.opset", "Add.opset.where"),
    "broadcast": ("Add.opset", "Add.opset.where", "Gemm.2.rank.opset", "MatMul.opset.where"),
    "spatial": ("BatchNormalization.spatial.where",),
    **dict.fromkeys(("sparse_value", "value_string", "value_strings"), ("Constant.value", "Constant.sparse_value")),
    **dict.fromkeys(("value_float", "value_floats", "value_int", "value_ints"), ("Constant.value",)),
    "paddings": ("Pad.where",),
    "directions": ("Scan.opset",),
    "start": ("shape_range",),
    "end": ("shape_range",),
    "width_scale": ("Upsample.height_scale",),
}


SCHEMAS = defs.get_all_schemas_with_history()  # a copy, which takes long


def unread_at(op: str, attribute: str) -> list[Version]:
    """The releases that import the operator and, at an opset that they read, do not read the attribute.

    What came with a later opset than a release reads is refused there as such: `Target.outdated`.
    """
    came = min(s.since_version for s in SCHEMAS if s.name == op and attribute in s.attributes)
    rows = [tuple(map(int, text.split("."))) for text in UNREAD[op][attribute].split()]
    known = [row for row in rows if row in RELEASES and op in tables.importers(row, False)]
    return [row for row in known if came <= tables.opset_of(row)]


ALL = [(op, attribute) for op, found in UNREAD.items() for attribute in found]
CASES = [case for case in ALL if unread_at(*case)]


def is_named(attribute: str, row: Row) -> bool:
    """Whether a row refuses values of an attribute, or that it is given."""
    return attribute in row.attr or attribute in (row.given if isinstance(row.given, tuple) else (row.given,))


def harmless(op: str, attribute: str) -> bool:
    return attribute in HARMLESS or f"{op}.{attribute}" in READ or f"{op}.*" in READ


@pytest.mark.parametrize(("op", "attribute"), [case for case in CASES if not harmless(*case)])
def test_what_a_parser_does_not_read_is_refused(op: str, attribute: str) -> None:
    names = DECLARED.get(attribute, ())
    told = [c for c in conditions() if c.name in names or (isinstance(c, Row) and is_named(attribute, c))]
    scopes = [scope for c in told for scope in c.scopes if op in scope.operators]
    silent = [r for r in unread_at(op, attribute) if not any(s.targets.covers(r) for s in scopes)]
    assert [releases.dotted(row) for row in silent] == []


def test_every_reason_is_needed() -> None:
    used = {name for op, attribute in ALL for name in (attribute, f"{op}.{attribute}", f"{op}.*")}
    assert {*HARMLESS, *READ, *DECLARED} - used == set()
