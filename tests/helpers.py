"""What several test files share: models as text, passes made on the spot, and two models compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import onnx
import onnx.parser
import pytest

from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.options import Options, RewriteOptions
from surgeon.pipeline.prepared import Asked
from surgeon.proof import breakpoints, judge
from surgeon.proof.breakpoints import MOST_RUNS
from surgeon.proof.cache import ProofCache
from surgeon.proof.feeds import feeds_of
from surgeon.proof.probes import MOST_PROBED
from surgeon.proof.whole import prove_models
from surgeon.rules.driver import Driver
from surgeon.rules.rule import Pass, Rule
from surgeon.targets.target import Target
from surgeon.targets.unsupported import Kind


def model(body: str, opset: int = 17, ir: int = 8, extra: str = "") -> onnx.ModelProto:
    """A model from the text behind `g`: `(float[N,3] x) => (float[N,3] y) { y = Relu (x) }`."""
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{extra}]> g {body}')


def refusal(target: Target, node: Node, *, exactly: bool = False) -> str | None:
    """Why a target is known to refuse a node, whatever types and opset its model has; None where it is not."""
    found = target.why_unsupported(node, rewriting=True, exactly=exactly)
    return found.reason if found is not None and found.known else None


def unsupported(target: Target, node: Node, kind: Kind) -> str | None:
    """Why a target is known not to support a node in its file, where the reason is of one kind."""
    found = target.why_unsupported(node)
    return found.reason if found is not None and found.known and found.kind is kind else None


def a_pass(name: str, *rules: Rule, doc: str = "For a test.") -> Pass:
    return Pass(name, doc, tuple(dataclasses.replace(r, pass_name=name) for r in rules), ())


def drive(proto: onnx.ModelProto, *passes: Pass, **options: Any) -> Driver:
    """Run passes without proof and write the result into `proto`."""
    driver = Driver(Model(proto), passes, Target.parse(options.pop("target", "10.9")), **options)
    driver.run()
    driver.model.sync()
    return driver


def prepare(name: str, proto: onnx.ModelProto, **given: Any) -> Any:
    """What a preparation, such as `freezing` or `declaring.shapes`, makes of a model; None where it changes nothing."""
    asked = Asked(proto, Options.checked(RewriteOptions(**given)), None, ProofCache(None))
    module, _, step = name.partition(".")
    return getattr(import_module(f"surgeon.pipeline.{module}"), step or "prepare")(asked)


FEWER = 4
FEWEST = 10
is_long = False  # whether the long tests run, as conftest.py sets it before it imports a test


def examples(count: int) -> int:
    """How many random examples a test tries: `count` where the long tests run, else fewer."""
    return count if is_long else min(count, max(count // FEWER, FEWEST))


def probe_less(patch: pytest.MonkeyPatch) -> None:
    """Make proofs try a part of each kind of probe, and search for breakpoints among small sizes alone."""
    patch.setattr(judge, "MOST_PROBED", MOST_PROBED // 32)
    patch.setattr(breakpoints, "MOST_RUNS", MOST_RUNS // 32)
    patch.setattr(breakpoints, "LARGEST_OCTAVE", 10)


def one_a_spelling(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of rows of the corpus one for each way in which a module is spelled: that of the newest opset."""
    in_order = sorted(rows, key=lambda row: int(row["opset"]))
    return list({(row["module"], row["sequence"], row["dynamic"]): row for row in in_order}.values())


def ops(proto: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in proto.graph.node]


def require_opset(opset: int) -> None:
    """Skip the test where the installed onnx package does not know the opset."""
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"onnx {onnx.__version__} knows opsets up to {onnx.defs.onnx_opset_version()}, not {opset}")


def onnxruntime_runs(proto: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime itself runs the model on random inputs, with 2 for each symbolic size."""
    types = [(i.name, i.type.tensor_type) for i in proto.graph.input]
    infos = [(name, t.elem_type, tuple(d.dim_value or 2 for d in t.shape.dim)) for name, t in types]
    try:
        runner = Runner(proto)
        runner.run(next(feeds_of(infos))[1])
    except Unrunnable:
        return False
    return runner.session is not None


def compare_models(
    before: onnx.ModelProto, after: onnx.ModelProto, base: Any = None, shapes: Any = None
) -> tuple[float | None, str]:
    """Both whole models on every kind of input: (largest error, why they differ or could not be compared).

    `base` is the folder of external data; `shapes` fixes sizes by input name.
    """
    verdict = prove_models(before, after, base=base, shapes=shapes)
    if verdict.ok is None:
        return None, verdict.why
    return verdict.max_error, "" if verdict.ok else verdict.why
