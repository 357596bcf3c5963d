"""What a notebook or an interpreter shows of results: one screen, however large the model is."""

from __future__ import annotations

from pathlib import Path

import helpers
import pytest

import surgeon
from surgeon.app.screen import Screen, time_left
from surgeon.app.summary import print_report
from surgeon.pipeline.check import check
from surgeon.report import Declined, Report
from surgeon.trt.compare import compare

SCREEN = 24  # lines
LEAKY = helpers.model("(float[N,4] x) => (float[N,4] y) { y = LeakyRelu <alpha = 0.1> (x) }")


def many(count: int) -> str:
    """As many Erf nodes of bfloat16 as asked for, which no TensorRT 8 takes."""
    lines = "\n".join(f"t{k + 1} = Erf (t{k})" for k in range(count))
    return f"(bfloat16[N,4] t0) => (bfloat16[N,4] t{count}) {{ {lines} }}"


def test_a_report_fits_one_screen() -> None:
    result = surgeon.rewrite(helpers.model(many(100)), target="8.4", verify="none")
    lines = repr(result).splitlines()
    assert len(result.report.untaken) > 50 and len(lines) <= SCREEN
    assert lines[0].startswith("Result of") and "FAILED" in lines[1]
    assert any("and 94 more" in line for line in lines)
    page = result._repr_html_()
    assert page.count("<tr>") <= SCREEN and "needs a look" in page


def test_what_was_checked_fits_one_screen() -> None:
    found = check(helpers.model(many(100)), target="8.4")
    lines = repr(found).splitlines()
    assert lines[0] == "Checked: TensorRT 8.4 does not support 100 nodes"
    assert lines[-1] == "  and 88 more" and len(lines) <= SCREEN
    taken = repr(check(LEAKY, target="10.9"))
    assert taken == "Checked: TensorRT 10.9 supports every node, according to surgeon's table"


def test_a_comparison_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(LEAKY.SerializeToString())
    lines = repr(compare(path, path, engine=False)).splitlines()
    assert lines[0].startswith("Comparison: the models agree on") and lines[1] == "  ONNX Runtime"
    assert lines[2].startswith("    y  ") and len(lines) <= SCREEN


def test_rewrites_that_were_undone_for_the_same_reason_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("0", "8.4", undone=[Declined("p", f"n{k}", f"it differs by {k}.5e-05") for k in range(1, 12)])
    report.untaken = [Declined("", f"n{k}", f"axis {k} is refused") for k in range(2)]
    print_report(report, Screen(), diff=False, each=False)
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("undone")] == [
        "undone  p  n1 and 10 more  it differs by 1.5e-05"
    ]
    assert len([line for line in printed if line.startswith("unsupported")]) == 2, "a number is part of such a reason"
    print_report(report, Screen(), diff=False, each=True)
    assert capsys.readouterr().out.count("undone  ") == 11


def test_the_bar_says_how_long_the_rest_takes() -> None:
    assert time_left(0.5, 0, 40) == ""
    assert time_left(10.0, 10, 40) == "about 30 s left"
    assert time_left(10.0, 1, 61) == "about 10 min left"
