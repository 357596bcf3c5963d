"""What decides between passes: not what their files are called, nor which of two that tie comes first, nor which of
them ran before."""

from __future__ import annotations

import dataclasses
import importlib
import json
import random
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import casefile
import onnx
import onnx.parser
import pytest
from casefile import Case, canonical
from helpers import a_pass, one_a_spelling
from onnx import ModelProto

import surgeon
from surgeon.errors import SurgeonError
from surgeon.ir.model import Model
from surgeon.rules import registry
from surgeon.rules.driver import Driver
from surgeon.rules.index import Index
from surgeon.rules.pattern import op, var
from surgeon.rules.rule import Pass, Stage, rule
from surgeon.targets.target import Target

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(__file__).parent / "corpus"
INDEX: list[dict[str, Any]] = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
SPELLINGS = one_a_spelling(INDEX)
MODULES = list({row["module"]: row for row in INDEX}.values())
TARGETS = ("8.4", "10.9")
PASSES = registry.select(registry.passes(), None, ())
Result = TypeVar("Result")
PLUGINS = {p.name: "plugin" for p in PASSES if "plugin" in p.strategies}

# In training mode the pass batch-norm alone writes out the statistics of the batch, because no TensorRT supports that
# mode, over the tensor that the file has reshaped. With instance-norm beside it the same node is an instance
# normalisation of the tensor before that Reshape, which the reductions no longer show.
#
# Two passes are a last resort: they write out what no other pass took, over nodes that others would have read.
ONE_WAY = {
    ("IN_via_batchnorm_reshape", "batch-norm"),
    ("GELU", "function-body"),
    ("GELU_tanh", "function-body"),
    ("l2_arcface_head", "function-body"),
    ("tf_pad_symmetric", "compress"),
}


def _driven(proto: ModelProto, passes: list[Pass], target: str, **options: Any) -> tuple[ModelProto, Driver]:
    """(the model after the passes, the driver); the proof is left out, which has no part in what is written."""
    driver = Driver(_indexed(proto), passes, Target.parse(target), **options)
    driver.run()
    driver.model.sync()
    return driver.model.proto, driver


def _indexed(proto: ModelProto) -> Model:
    copy = ModelProto()
    copy.CopyFrom(proto)
    return Model(copy)


in_the_corpus = pytest.mark.parametrize(
    ("rows", "target"),
    [(MODULES, "10.9"), *(pytest.param(SPELLINGS, target, marks=pytest.mark.long) for target in ("8.4", "10.9"))],
    ids=["modules-10.9", "spellings-8.4", "spellings-10.9"],
)


@cache
def _file(file: str) -> ModelProto:
    return onnx.load(CORPUS / file)


@cache
def _together(file: str, target: str) -> ModelProto:
    return _driven(_file(file), PASSES, target)[0]


def _structure(model: ModelProto) -> list[str]:
    """The model up to names, attributes of ONNX's default, and empty names at the end of a node's inputs."""
    plain = ModelProto()
    plain.CopyFrom(model)
    opsets = {o.domain: o.version for o in model.opset_import}
    todo = [plain.graph]
    while todo:
        for node in todo.pop().node:
            todo += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
            while node.input and not node.input[-1]:  # left out by an empty name, or by the end of the list
                node.input.pop()
            if node.domain:
                continue
            spec = onnx.defs.get_schema(node.op_type, opsets[""]).attributes
            defaults = [
                a
                for a in node.attribute
                if a.name in spec and a.SerializeToString() == spec[a.name].default_value.SerializeToString()
            ]
            for attribute in defaults:
                node.attribute.remove(attribute)
    return canonical(plain)


# ---- what a file is called -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ending:
    """What becomes of a case: the model, what was applied and declined, and the warnings; or the error."""

    model: list[str]
    applied: list[tuple[str, ...]]
    declined: list[tuple[str, ...]]
    said: list[str]


def _ending(case: Case, own: Mapping[str, str] | None = None) -> Ending:
    """How a case ends. `own` gives the name that each pass has in the folder by the one that it has in this run."""
    own = own or {}
    called = {name: now for now, name in own.items()}
    options = {**case.options, "verify": "none"}
    options["strategy"] = {called.get(name, name): chosen for name, chosen in options["strategy"].items()}
    options["only"] = options["only"] and [called.get(name, name) for name in options["only"]]

    def text(given: str) -> str:
        return re.sub("|".join(own) or "^$", lambda found: own[found[0]], given) if own else given

    try:
        result = surgeon.rewrite(case.model, **options)
    except SurgeonError as error:
        return Ending([], [], [], [text(str(error))])
    report = result.report
    applied = [(text(a.pass_name), a.strategy, text(a.root)) for a in report.applied]
    declined = sorted((text(d.pass_name), text(d.node), text(d.why)) for d in report.declined)
    return Ending(canonical(result.model), applied, declined, sorted(map(text, report.warnings)))


@cache
def _cases() -> dict[str, Case]:
    return {f"{path.parent.name}/{path.stem}": casefile.load(path) for path in casefile.paths()}


@pytest.fixture(scope="module")
def endings() -> dict[str, Ending]:
    """How every case ends with the files called as they are."""
    return {name: watched.result for name, watched in _watched_endings().items()}


@cache
def _watched_endings() -> dict[str, Watched[Ending]]:
    """How every case ends, and what was seen of the run."""
    return {name: _watched(partial(_ending, case)) for name, case in _cases().items()}


@dataclass
class Watched(Generic[Result]):
    """What a run gives; the passes of which a rule may be applied to a node; and whether their order may decide.

    It may where rules of two passes may be applied to a node, and where a rule over the whole model edits it.
    """

    result: Result
    tried: set[str]
    decides: bool


def _watched(run: Callable[[], Result]) -> Watched[Result]:
    candidates_at, run_model_rules = Driver._candidates_at, Driver._run_model_rules
    tried, decides = set[str](), False

    def watched(driver: Driver, *args: Any) -> Any:
        nonlocal decides
        candidates = candidates_at(driver, *args)
        passes = {c.rule.pass_name for c in candidates}
        tried.update(passes)
        decides = decides or len(passes) > 1
        return candidates

    def watched_rules(driver: Driver, *args: Any) -> bool:
        nonlocal decides
        changed = run_model_rules(driver, *args)
        decides = decides or bool(driver.edited_by)
        return changed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Driver, "_candidates_at", watched)
        patch.setattr(Driver, "_run_model_rules", watched_rules)
        result = run()
    return Watched(result, tried, decides)


def _renamed(p: Pass, name: str) -> Pass:
    rules, model_rules = (tuple(dataclasses.replace(r, pass_name=name) for r in rs) for rs in (p.rules, p.model_rules))
    return dataclasses.replace(p, name=name, rules=rules, model_rules=model_rules, formerly={})


@pytest.mark.long
def test_every_file_may_have_another_name(
    endings: dict[str, Ending], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the passes in which every file is renamed, so that the last one by name is the first.

    Tried are the cases in which an order may decide, and for each pass one in which it is tried.
    """
    folder = tmp_path / "renamed_passes"
    shutil.copytree(ROOT / "passes", folder, ignore=shutil.ignore_patterns("__pycache__"))
    stems = sorted(path.stem for path in folder.glob("[!_]*.py"))
    called = {f"n{len(stems) - number:03}_{stem}": stem for number, stem in enumerate(stems)}
    for now, stem in called.items():
        (folder / f"{stem}.py").rename(folder / f"{now}.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    renamed = tuple(registry.pass_of(importlib.import_module(f"renamed_passes.{now}")) for now in called)
    own = {now.replace("_", "-"): stem.replace("_", "-") for now, stem in called.items()}
    monkeypatch.setattr(registry, "_own", lambda: renamed)
    assert [own[p.name] for p in registry.select(registry.passes(), None, ())] == [p.name for p in PASSES][::-1]
    watched = _watched_endings()
    names = {name for name, seen in watched.items() if seen.decides}
    names |= set({p: name for name, seen in watched.items() for p in seen.tried}.values())
    assert not [name for name in sorted(names) if _ending(_cases()[name], own) != endings[name]]


@pytest.mark.long
@pytest.mark.parametrize("now", ["a0", "zz"])
def test_each_file_may_have_another_name(now: str, endings: dict[str, Ending], monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass after the other gets a name before all others, and one after them. Cases in which it is not tried are
    left out."""
    wrong = []
    every = registry.passes()
    for p in PASSES:
        others = tuple(q for q in every if q.name != p.name)
        passes = (*others, _renamed(p, now))
        monkeypatch.setattr(registry, "_own", lambda passes=passes: passes)
        reported = [n for n, e in endings.items() if any(p.name in row[0] for row in (*e.applied, *e.declined))]
        cases = sorted({*(n for n, w in _watched_endings().items() if p.name in w.tried), *reported})
        wrong += [f"{p.name}: {name}" for name in cases if _ending(_cases()[name], {now: p.name}) != endings[name]]
    assert not wrong


# ---- rules that tie --------------------------------------------------------------------------------------------------


def _in_other_order(seed: int) -> list[Pass]:
    """The passes, with docstrings and in an order by which rules that tie are tried the other way round, or at random.

    Rules over the whole model run in the order that is given.
    """
    order = PASSES[::-1] if not seed else random.Random(seed).sample(PASSES, len(PASSES))
    if not seed:
        order = sorted(PASSES, key=lambda p: p.doc, reverse=True)
    return [dataclasses.replace(p, doc=f"{number:03}") for number, p in enumerate(order)]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_rules_that_tie_may_be_tried_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are the same, and so are the numbers of nodes; what is reported may name the other pass."""
    order = _in_other_order(seed)
    decided = {name: watched.result for name, watched in _watched_endings().items() if watched.decides}
    monkeypatch.setattr(registry, "passes", lambda folders=(): order)
    assert len(decided) > len(_cases()) / 10
    assert not [name for name, ending in decided.items() if _ending(_cases()[name]).model != ending.model]


@in_the_corpus
def test_rules_that_tie_may_be_tried_in_any_order_in_the_corpus(rows: list[dict[str, Any]], target: str) -> None:
    order = _in_other_order(0)
    wrong = []
    for file in (row["file"] for row in rows):
        for given in ({}, {"strategies": PLUGINS, "plugins": ["surgeon"]}):
            here = _watched(partial(_driven, _file(file), PASSES, target, **given))
            if not here.decides:
                continue
            there, *_ = _driven(_file(file), order, target, **given)
            if canonical(here.result[0]) != canonical(there):
                wrong.append(file)
    assert not wrong


# ---- passes that fight -----------------------------------------------------------------------------------------------

ROOTS = Index((r.pattern, p) for p in PASSES for r in p.rules)
# A rule that is `last` runs after all others: it merges nodes of which the others' patterns want one reader.
OVER_THE_MODEL = {p.name for p in PASSES if any(not r.last for r in p.model_rules)}


def _passes_for(model: Model) -> list[Pass]:
    """The passes that may change a model: others have no rule that may match at any of its nodes."""
    nodes = (node for scope in model.standing_scopes() for node in scope.live())
    found = {p.name for node in nodes for _, p in ROOTS.at(node, model.constants.is_constant)}
    return [p for p in PASSES if p.name in found | OVER_THE_MODEL]


@in_the_corpus
def test_one_pass_first_is_no_difference(rows: list[dict[str, Any]], target: str) -> None:
    wrong, steps = [], 0
    for row in rows:
        model = _indexed(_file(row["file"]))
        for p in _passes_for(model):
            driver = Driver(model, [p], Target.parse(target))
            driver.run()
            if not driver.rewrites:
                continue  # the model is as it was: the next pass has it
            first, model = model, _indexed(_file(row["file"]))
            if (row["module"], p.name) in ONE_WAY:
                continue
            steps += 1
            first.sync()
            if _structure(_driven(first.proto, PASSES, target)[0]) != _structure(_together(row["file"], target)):
                wrong.append(f"{row['file']}: {p.name} first")
    assert not wrong
    assert steps > len(rows)


def test_what_goes_one_way_says_so_truly() -> None:
    """The exceptions are exceptions: where they have become none, they go."""
    for module, name in ONE_WAY:
        files = [r["file"] for r in INDEX if r["module"] == module]
        (first,) = (p for p in PASSES if p.name == name)
        assert any(
            _structure(_driven(_driven(_file(f), [first], target)[0], PASSES, target)[0])
            != _structure(_together(f, target))
            for f in files
            for target in TARGETS
        )


def test_passes_that_fight_are_seen() -> None:
    """Two passes that both want Relu, with windows of one size: one alone does not wait for the other."""
    x = var("x")

    @rule(op.Relu(x), stage=Stage.FUSE)
    def to_clip(b, x):  # type: ignore[no-untyped-def]
        return b.Clip(x, 0.0)

    @rule(op.Relu(x), stage=Stage.FUSE)
    def to_max(b, x):  # type: ignore[no-untyped-def]
        return b.Max(x, 0.0)

    passes = [a_pass("a", to_clip), a_pass("z", to_max)]
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    )
    together = _driven(proto, passes, "10.9")[0]
    assert _structure(_driven(_driven(proto, passes[1:], "10.9")[0], passes, "10.9")[0]) != _structure(together)
