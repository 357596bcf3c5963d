"""Draw windows of every rule, change one thing, rewrite them, and look for wrong, invalid and changed models.

    python benchmarks/fuzz.py --seconds 600             seeds from 0 on, as many as fit
    python benchmarks/fuzz.py --seeds 5000:6000         those seeds

A seed is one model: a window that the pattern of a rule describes (`surgeon.proof.instances`), with an operator, a
number, an attribute or a reader changed in half of them. It is rewritten with every pass, for one of several targets,
without the proof, or for every fourth seed with it. What comes out must

1. give what the model gave (`surgeon.proof.whole`), in floating point to rounding,
2. load in ONNX Runtime where the model did,
3. be the same to the byte when it is rewritten again,

and nothing may end with a traceback. A line is printed for each seed that breaks one of these, and a summary.
"""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections import Counter

import numpy as np
from onnx import ModelProto, numpy_helper

import surgeon
from surgeon.errors import SurgeonError
from surgeon.ir.run import load_error
from surgeon.proof.instances import Undrawable, draw
from surgeon.proof.whole import prove_models
from surgeon.rules.meaning import with_functions
from surgeon.rules.registry import passes

RULES = [rule for p in passes() for rule in p.rules]
TARGETS = ("7.1", "8.4", "8.6", "10.9", "11.0", "rtx")
SWAPPED = [
    ("Add", "Sub"), ("Mul", "Div"), ("Max", "Min"), ("Relu", "Abs"), ("Sigmoid", "Tanh"), ("Greater", "Less"),
    ("ReduceMean", "ReduceSum"), ("Exp", "Neg"), ("GreaterOrEqual", "LessOrEqual"), ("Sqrt", "Reciprocal"),
]  # fmt: skip
SKIPPED, RIGHT, WRONG, INVALID, CHANGED, ENDED = "skipped", "right", "wrong", "invalid", "changed again", "traceback"


def model_of(seed: int) -> ModelProto | None:
    """The model of a seed; None where it draws none that ONNX Runtime loads."""
    chance = random.Random(seed)
    try:
        proto, _ = draw(chance.choice(RULES), seed)
    except (Undrawable, ValueError, TypeError):
        return None
    if chance.random() < 0.5:
        _change(proto, chance)
    return None if load_error(proto) else proto


def _change(proto: ModelProto, chance: random.Random) -> None:
    """Change one thing: an operator, a number, or who reads an inner tensor."""
    kind, graph = chance.randrange(3), proto.graph
    node = chance.choice(graph.node)
    if kind == 0:
        others = {**dict(SWAPPED), **{b: a for a, b in SWAPPED}}
        node.op_type = others.get(node.op_type, node.op_type)
    elif kind == 1 and graph.initializer:
        tensor = chance.choice(graph.initializer)
        array = numpy_helper.to_array(tensor)
        factor = chance.choice((-1, 2, 0, 1.5) if array.dtype.kind == "f" else (-1, 2, 0))
        shaped = (array * factor).astype(array.dtype).reshape(chance.choice((array.shape, (1, *array.shape))))
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(shaped), tensor.name))
    elif kind == 2 and node.output[0] != "y":
        graph.output.add(name=node.output[0])


def judge(seed: int) -> tuple[str, str]:
    """What becomes of a seed's model, and what there is to say of it."""
    proto = model_of(seed)
    if proto is None:
        return SKIPPED, ""
    target, verify = TARGETS[seed % len(TARGETS)], "window" if seed % 4 == 0 else "none"
    try:
        first = surgeon.rewrite(proto, target=target, verify=verify, cache=False)
        again = surgeon.rewrite(first.model, target=target, verify=verify, cache=False)
    except SurgeonError as error:
        return SKIPPED, str(error)
    except Exception:
        return ENDED, traceback.format_exc(limit=-3)
    if again.model.SerializeToString(deterministic=True) != first.model.SerializeToString(deterministic=True):
        return CHANGED, f"{[a.pass_name for a in again.report.applied]} for {target}, {verify}"
    if not first.report.applied:
        return RIGHT, ""
    why = load_error(with_functions(first.model))
    if why:
        return INVALID, f"{why} for {target}, {verify}"
    verdict = prove_models(proto, first.model, own_rounding=True)
    if verdict.ok is False:
        return WRONG, f"{[a.pass_name for a in first.report.applied]} for {target}, {verify}: {verdict.why}"
    return (RIGHT if verdict.ok else SKIPPED), ""


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--seconds", type=float, default=600.0)
    cli.add_argument("--seeds", default="0:1000000000")
    args = cli.parse_args()
    first, last = map(int, args.seeds.split(":"))
    started, counts, rewritten = time.monotonic(), Counter[str](), first
    for rewritten in range(first, last):
        if time.monotonic() - started > args.seconds:
            break
        verdict, said = judge(rewritten)
        counts[verdict] += 1
        if verdict not in (SKIPPED, RIGHT):
            print(f"seed {rewritten}: {verdict}: {said}", flush=True)
    print(f"seeds {first} to {rewritten}: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))


if __name__ == "__main__":
    main()
