"""Keep the names of the model's inputs.

Why       TensorRT's parser gives a tensor the name of whatever hands it on. The condition of a Loop is called in the
          engine as the body calls it, in every TensorRT with loops; from 8.0 to 8.4 an input behind a Transpose that
          keeps the order is called `__` and the name of the output. A program that binds inputs by name finds none.
Rewrites  Loop(trips, go, ...), go an input of the model         ->   Loop(trips, Identity(go), ...)
          Transpose that keeps the order, of an input of the model  ->   Identity
Exact     Bit for bit.
Price     One Identity: a Loop of 10 steps over [64] takes 0.006 ms in ONNX Runtime either way.
"""

from __future__ import annotations

from surgeon import Stage, no_match, op, rule, var
from surgeon.targets.conditions.names import looped_input, transposed_input

x = var("x")


@rule(op.Loop(...), stage=Stage.LOWER, strategy="decompose")
def loop(b):
    if not b.target.has(looped_input) or looped_input.check(b.root) is None:
        no_match()
    trips, condition, *state = b.root.inputs
    return b.node("Loop", [trips, b.Identity(condition), *state], len(b.root.outputs), "", b.root.attrs)


@rule(op.Transpose(x), stage=Stage.LOWER, strategy="decompose")
def transpose(b, x):
    if not b.target.has(transposed_input) or transposed_input.check(b.root) is None:
        no_match()
    return b.Identity(x)
