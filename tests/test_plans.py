"""What TensorRT-RTX runs of models before and after: no rewrite of supported nodes is measured as worse.

It needs TensorRT-RTX and no GPU: benchmarks/plans.py reads its engines.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.targets import plans as table

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import plans  # noqa: E402
import spelled  # noqa: E402

# The file is computed otherwise than ONNX says: squares of fp16 in fp16, which overflow from 256 on; and of one
# group an instance normalisation.
REPAIRED = ("l2_norm_channels_inside", "group_norm_1_native")
SPELLED = dict(spelled.models())


def _example(row: table.Worse) -> onnx.ModelProto:
    return SPELLED[row.example] if row.example in SPELLED else onnx.load(plans.DEFAULT[0] / f"{row.example}.onnx")


OF_RTX = [row for row in table.rows() if row.targets.rtx]


@pytest.mark.parametrize("row", OF_RTX, ids=lambda r: r.example)
def test_an_example_is_worse_without_its_row_and_left_with_it(
    row: table.Worse, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _example(row)
    with_rows = plans.compared("", model, plans.Plans())
    assert with_rows.verdict in ("not rewritten", "same")
    others = tuple(r for r in table.rows() if r is not row)
    monkeypatch.setattr(table, "rows", lambda: others)
    found = plans.compared("", model, plans.Plans())
    assert found.verdict == "worse" and found.before is not None and found.after is not None
    measured = tuple((plan.kernels, round(plan.bytes / 1000, 1)) for plan in (found.before, found.after))
    assert measured == tuple(map(tuple, row.plan))


def test_what_is_asked_for_is_written_whatever_it_costs() -> None:
    model = SPELLED["instance_norm_pow_sqrt_wide_1x32x16x16_fp16"]
    left = surgeon.rewrite(model, target="rtx", verify="none")
    assert [d.pass_name for d in left.report.declined] == [
        "instance-norm"
    ] and "1 to 2 kernels" in left.report.declined[0].why
    asked = surgeon.rewrite(model, target="rtx", verify="none", strategy={"instance-norm": "keep"})
    assert "InstanceNormalization" in [n.op_type for n in asked.model.graph.node]


def test_a_target_has_its_own_rows() -> None:
    assert surgeon.Target.parse("rtx").plans == OF_RTX
    assert [row.times for row in surgeon.Target.parse("8.4").plans] == [[107.2, 134.5]]
    assert not any(surgeon.Target.parse(name).plans for name in ("8.0", "10.9", "11.0"))


@pytest.mark.parametrize(("axis", "operators"), [("rows", ["Slice", "Slice", "Concat"]), ("columns", ["Pad"])])
def test_trt_8_pads_columns_alone_faster_by_reflection(axis: str, operators: list[str]) -> None:
    result = surgeon.rewrite(SPELLED[f"pad_reflect_slices_{axis}_1x32x16x16_fp32"], target="8.4")
    assert [n.op_type for n in result.model.graph.node] == operators
    assert ["107.2 to 134.5 microseconds" in d.why for d in result.report.declined] == [True] * (axis == "rows")


@pytest.mark.long
def test_no_model_is_worse() -> None:
    kept = plans.Plans()
    models = [*plans.models(plans.DEFAULT), *SPELLED.items()]
    rows = [plans.compared(name, model, kept) for name, model in models if _is_valid(model)]
    wrong = [row for row in rows if row.verdict in ("worse", "lost") and not row.name.startswith(REPAIRED)]
    assert not wrong, "\n".join(f"{row.name}: {row.before} -> {row.after}, {row.passes}" for row in wrong)
    assert sum(row.verdict == "better" for row in rows) >= 75


def _is_valid(model: onnx.ModelProto) -> bool:
    return not any(node.op_type == "Erfc" for node in model.graph.node)
