"""Write an LSTM, GRU or RNN that the target refuses as the nodes of each step.

Why       TensorRT-RTX 1.7.1 has an internal error for a recurrent layer in a branch of an If of which the last state
          alone is read: voice activity detection as Silero exports it, with a network for each sample rate.
Rewrites  LSTM, GRU, RNN of a static length of at most 64   ->   MatMul, Add, Mul and the activations, of each step
Exact     To rounding: the input's part of the gates is computed for all steps at once.
Price     An LSTM of 128, ONNX Runtime on one thread: a step 21 nodes, 0.022 ms next to 0.019; 20 steps 345, 0.21 next
          to 0.09.

Peepholes, clips, coupled gates, lengths of single samples and other activations than Sigmoid and Tanh are left alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from surgeon import Builder, Value, op, require, require_some, rule, var
from surgeon.targets.conditions.inputs import unnamed_output

from ._arithmetic import part

MOST = 64  # steps
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {4: ("Sigmoid", "Tanh", "Tanh"), 3: ("Sigmoid", "Tanh"), 1: ("Tanh",)}  # activations, by how many gates
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
PLAIN = frozenset({"Sigmoid", "Tanh"})
State = tuple[Value | None, ...]  # None before the first step: zeros


@rule(op.LSTM(var("x"), ...) | op.GRU(var("x"), ...) | op.RNN(var("x"), ...), strategy="decompose", cures=True)
def steps(b, x):
    require(not b.target.refuses(b.root, unnamed_output))  # else respell names it
    kind, direction = b.root.op, b.root.attr("direction")
    given = [*b.root.inputs, *[None] * 8][:8]
    weights, states = (require_some(b.value(v), "its weights are computed") for v in given[1:3])
    length = (b.shape(x) or [None])[0]
    require(isinstance(length, int) and 1 <= length <= MOST, f"it has no static length of at most {MOST}")
    require(given[4] is None, "its samples are of different lengths")
    require(given[7] is None, "it has peepholes")
    names = ("clip", "input_forget", "layout", "activation_alpha", "activation_beta")
    set_otherwise = [name for name in names if b.root.attr(name)]
    require(not set_otherwise, f"it has {' and '.join(set_otherwise)}")
    ways, count = DIRECTIONS[direction], len(DEFAULTS[GATES[kind]])
    activations = list(b.root.attr("activations") or DEFAULTS[GATES[kind]] * len(ways))
    plain = len(activations) == count * len(ways) and PLAIN.issuperset(activations)
    require(plain, "it has other activations than Sigmoid and Tanh")
    bias = np.zeros((len(ways), 2 * weights.shape[1]), weights.dtype)
    if given[3] is not None:
        bias = require_some(b.value(given[3]), "its bias is computed")
    results = []
    for k, backwards in enumerate(ways):
        cell = Cell(b, kind, weights[k], states[k], bias[k], activations[count * k : count * k + count])
        first = tuple(None if v is None else b.Gather(v, k, axis=0) for v in given[5 : 6 + (kind == "LSTM")])
        results.append(_run(b, cell, x, length, first, backwards))
    return _outputs(b, results)


def _run(b: Builder, cell: Cell, x: Value, length: int, state: State, backwards: bool) -> tuple[list[Value], State]:
    """The state after each step, in the order of the steps, and the last one."""
    whole = b.Add(b.MatMul(x, np.ascontiguousarray(cell.weights.T)), cell.shift)
    found: list[Value] = []
    for step in reversed(range(length)) if backwards else range(length):
        gates = b.Squeeze(whole, axes=[0]) if length == 1 else b.Gather(whole, step, axis=0)
        state = cell.step(gates, state)
        found.append(_made(state[0]))
    return found[::-1] if backwards else found, state


def _outputs(b: Builder, results: list[tuple[list[Value], State]]) -> tuple[Value | None, ...]:
    """All states, the last ones, and those of the cell; None for what no node reads."""
    asked = [o is not None and o.is_read for o in b.root.outputs]
    found: list[Value | None] = []
    if asked[0]:
        rows = [[b.Unsqueeze(h, axes=[0, 1]) for h in every] for every, _ in results]
        sides = [b.Concat(*row, axis=0) if len(row) > 1 else row[0] for row in rows]
        found.append(b.Concat(*sides, axis=1) if len(sides) > 1 else sides[0])
    else:
        found.append(None)
    for k in range(len(asked) - 1):
        ends = [b.Unsqueeze(_made(state[k]), axes=[0]) for _, state in results] if asked[k + 1] else []
        found.append((b.Concat(*ends, axis=0) if len(ends) > 1 else ends[0]) if ends else None)
    return tuple(found)


def _made(value: Value | None) -> Value:
    assert value is not None
    return value


class Cell:
    """What one direction computes in a step.

    weights  of the input, of all gates; `shift`: what is added to them, the biases of the states with it
    """

    def __init__(
        self, b: Builder, kind: str, weights: np.ndarray, states: np.ndarray, bias: np.ndarray, activations: list[str]
    ) -> None:
        self.b, self.kind, self.weights, self.states = b, kind, weights, states
        self.size = states.shape[1]
        of_input, self.of_state = np.split(bias, 2)
        self.apart = kind == "GRU" and bool(b.root.attr("linear_before_reset"))
        kept = np.arange(len(of_input)) < (2 * self.size if self.apart else len(of_input))
        self.shift = of_input + np.where(kept, self.of_state, 0).astype(of_input.dtype)
        self.activations: list[Callable[..., Value]] = [getattr(b, name) for name in activations]

    def step(self, gates: Value, state: State) -> State:
        """The state after a step, of the gates as far as the input makes them."""
        if self.kind == "GRU":
            return (self._gated(gates, state[0]),)
        product = self._times(state[0], 0, GATES[self.kind])
        whole = gates if product is None else self.b.Add(gates, product)
        if self.kind == "RNN":
            return (self.activations[0](whole),)
        f, g, h = self.activations
        i, o, forget, new = (part(self.b, whole, 1, k * self.size, (k + 1) * self.size) for k in range(4))
        added = self.b.Mul(f(i), g(new))
        cell = added if state[1] is None else self.b.Add(self.b.Mul(f(forget), state[1]), added)
        return self.b.Mul(f(o), h(cell)), cell

    def _gated(self, gates: Value, state: Value | None) -> Value:
        b, (f, g) = self.b, self.activations
        product = self._times(state, 0, 2)
        both = part(b, gates, 1, 0, 2 * self.size)
        both = f(both if product is None else b.Add(both, product))
        update, reset = (part(b, both, 1, k * self.size, (k + 1) * self.size) for k in range(2))
        new = part(b, gates, 1, 2 * self.size, 3 * self.size)
        if self.apart:
            own, shift = self._times(state, 2, 3), self.of_state[2 * self.size :]
            new = b.Add(new, b.Mul(reset, shift if own is None else b.Add(own, shift)))
        elif state is not None:
            new = b.Add(new, self._times(b.Mul(reset, state), 2, 3))
        made: Value = b.Mul(b.Sub(b.constant(np.ones((), self.weights.dtype)), update), g(new))
        return made if state is None else b.Add(made, b.Mul(update, state))

    def _times(self, state: Value | None, start: int, end: int) -> Value | None:
        """A state times its weights for some gates; None for zeros."""
        rows = self.states[start * self.size : end * self.size]
        return None if state is None else self.b.MatMul(state, np.ascontiguousarray(rows.T))
