"""Every case file: the structure, the checker, equality through ONNX Runtime, and a second run that finds nothing."""

from __future__ import annotations

import re
from pathlib import Path

import casefile
import onnx
import onnxruntime
import pytest
from casefile import Case
from helpers import compare_models, onnxruntime_runs, probe_less, require_opset

import surgeon
from surgeon.ir.definitions import by_definition, in_own_domain
from surgeon.rules import registry

CASES = casefile.paths()
# The probes of a window take half of the time of a case. The first case of each pass has all, the others a part
# of each kind: `test_case_is_proved_on_all_probes`, a long test, makes the others.
FULLY_PROBED = set({path.parent: path for path in reversed(CASES)}.values())


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def run(case: Case) -> surgeon.Result:
    return surgeon.rewrite(case.model, **case.options)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


@pytest.mark.parametrize("path", CASES, ids=_id)
def test_case(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path not in FULLY_PROBED:
        probe_less(monkeypatch)
    case = casefile.load(path)
    require_opset(case.model.opset_import[0].version)
    if _id(path) in casefile.NOT_RUN and not onnxruntime_runs(case.model):
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__} does not run it")
    onnx.checker.check_model(in_own_domain(_copy(case.model)), full_check=True)
    result = run(case)
    undone = [f"{d.pass_name} at {d.node}: {d.why}" for d in result.report.undone]
    assert not undone, "the proof undid " + "; ".join(undone)
    for words in case.warns:
        assert any(words in warning for warning in result.report.warnings), result.report.warnings
    if case.expected is None:
        assert casefile.canonical(result.model) == casefile.canonical(case.model)
        reasons = [d.why for d in result.report.declined if case.pass_name in d.pass_name.split("+")]
        if case.why in ("no pattern", "as it would be written"):
            assert not reasons
        else:
            assert any(case.why in why for why in reasons), f"expected the reason '{case.why}', got {reasons}"
        return
    assert casefile.canonical(result.model) == casefile.canonical(case.expected)
    assert result.report.applied, "the case becomes something else, but nothing is reported"
    onnx.checker.check_model(result.model, full_check=True)
    error, why = compare_models(by_definition(_copy(case.model)), result.model)
    assert not why, why
    again = surgeon.rewrite(result.model, **case.options)
    assert not again.report.applied, f"a second run applied {again.report.applied}"
    assert not [d for d in again.report.declined if "already as short" in d.why], "what surgeon wrote is not news"
    assert again.model.SerializeToString(deterministic=True) == result.model.SerializeToString(deterministic=True)


@pytest.mark.long
@pytest.mark.parametrize("path", [p for p in CASES if p not in FULLY_PROBED], ids=_id)
def test_case_is_proved_on_all_probes(path: Path) -> None:
    case = casefile.load(path)
    require_opset(case.model.opset_import[0].version)
    assert not run(case).report.undone


def test_every_pass_has_a_case_of_each_kind() -> None:
    kinds: dict[str, set[str]] = {}
    for path in CASES:
        case = casefile.load(path)
        kinds.setdefault(case.pass_name, set()).add("left" if case.expected is None else "becomes")
    for p in registry.passes():
        assert kinds.get(p.name) == {"left", "becomes"}, f"the pass {p.name} has cases {kinds.get(p.name)}"
    assert set(kinds) <= {p.name for p in registry.passes()}, "a folder of cases belongs to no pass"


def _nodes(graph: onnx.GraphProto) -> int:
    """The nodes of a graph and of its bodies, but for constants."""
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return sum(node.op_type != "Constant" for node in graph.node) + sum(map(_nodes, bodies))


def test_a_pass_that_lengthens_a_graph_says_the_price() -> None:
    """In milliseconds, or that there is none, and why."""
    cases = map(casefile.load, CASES)
    longer = {c.pass_name for c in cases if c.expected and _nodes(c.expected.graph) > _nodes(c.model.graph)}
    prices = {p.name: "".join(re.findall(r"^Price +(.*(?:\n +.*)*)", p.doc, re.MULTILINE)) for p in registry.passes()}
    assert [name for name in sorted(longer) if not re.search(r"^None: | ms\b", prices[name])] == []
