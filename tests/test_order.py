"""Two passes never fight: whatever the order of the passes, and whichever of them ran before,
the result is the same."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from casefile import canonical
from helpers import a_pass
from onnx import ModelProto

from surgeon.ir.model import Model
from surgeon.rules import registry
from surgeon.rules.driver import Driver
from surgeon.rules.pattern import op, var
from surgeon.rules.rule import Pass, Stage, rule
from surgeon.targets.target import Target

CORPUS = Path(__file__).parent / "corpus"
INDEX: list[dict[str, Any]] = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
# One file for each way in which a module is spelled.
FILES = list({(row["module"], row["sequence"], row["dynamic"]): row["file"] for row in INDEX}.values())
TARGETS = ("8.4", "10.9")
PASSES = registry.passes()
PLUGINS = {p.name: "plugin" for p in PASSES if "plugin" in p.strategies}

# In training mode the pass batch-norm alone writes out the statistics of the batch, because no TensorRT takes that
# mode, over the tensor that the file has reshaped. With instance-norm beside it the same node is an instance
# normalisation of the tensor in front of that Reshape, which the reductions no longer show.
#
# Two passes are a last resort: they write out what no other pass took, over nodes that others would have read.
ONE_WAY = {
    ("IN_via_batchnorm_reshape", "batch-norm"),
    ("GELU", "written-out"),
    ("GELU_tanh", "written-out"),
    ("l2_arcface_head", "written-out"),
    ("tf_pad_symmetric", "compress"),
}


def _orders() -> dict[str, list[Pass]]:
    found = {"reversed": PASSES[::-1]}
    for seed in range(3):
        found[f"seed {seed}"] = random.Random(seed).sample(PASSES, len(PASSES))
    return found


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


@cache
def _file(file: str) -> ModelProto:
    return onnx.load(CORPUS / file)


@cache
def _together(file: str, target: str) -> ModelProto:
    return _driven(_file(file), PASSES, target)[0]


def _bytes(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", _orders())
def test_the_order_of_the_passes_is_no_difference(order: str, target: str) -> None:
    """To the byte: even the names of new nodes are the same."""
    passes = _orders()[order]
    assert {p.name for p in passes} == {p.name for p in PASSES} and passes != PASSES
    assert not [f for f in FILES if _bytes(_driven(_file(f), passes, target)[0]) != _bytes(_together(f, target))]


def test_the_order_is_no_difference_with_plugins() -> None:
    given: dict[str, Any] = {"strategies": PLUGINS, "plugins": ["surgeon"]}
    wrong = []
    for file in FILES:
        here = _driven(_file(file), PASSES, "8.4", **given)[0]
        there = _driven(_file(file), PASSES[::-1], "8.4", **given)[0]
        wrong += [file] if _bytes(here) != _bytes(there) else []
    assert not wrong


@pytest.mark.parametrize("target", TARGETS)
def test_one_pass_first_is_no_difference(target: str) -> None:
    wrong, steps = [], 0
    for row in (r for r in INDEX if r["file"] in FILES):
        model = _indexed(_file(row["file"]))
        for p in PASSES:
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
    assert steps > 300


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
    """Two passes that both want Relu, with windows of one size: the name decides between them,
    but one alone does not wait."""
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
    assert _bytes(_driven(proto, passes[::-1], "10.9")[0]) == _bytes(together)
    assert _structure(_driven(_driven(proto, passes[1:], "10.9")[0], passes, "10.9")[0]) != _structure(together)
