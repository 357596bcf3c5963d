"""Write a Loop or a Scan whose number of iterations is known as the nodes of its iterations.

Why       A loop of TensorRT has states of one type and one shape: a list that grows, a sequence of tensors and outputs
          without a limit on the iterations are refused. No TensorRT from 7.0 on has the Scan of opset 8, and older ones
          have neither. Scripted PyTorch modules write each `for` and each `while` as a Loop.
Rewrites  Loop whose count and conditions follow from constants and counters, where the target refuses it, or a state is
          no tensor or changes its shape   ->   the nodes of each iteration, a Concat of what they return
          Loop that does not begin   ->   its initial states
          Scan of a static length that the target refuses   ->   the nodes of each iteration, along its axes and in its
          directions; of opset 8 for each sample of the batch
Exact     Bit for bit.
Option    unroll=N: up to N iterations, 64 unless given. With it every Loop and Scan of so many is written out, those
          too that the target supports; 0 is none.
Price     A list that grows 32 times: 64 nodes for one, 0.04 ms in ONNX Runtime next to 0.08.

At most 4,096 nodes are written.
"""

from collections.abc import Sequence

import numpy as np

from surgeon import Builder, Decline, Stage, Value, op, require, require_some, rule

from ._copy import Body, is_asked_for, most, settled

OPTIONS = ("unroll",)
WITHOUT_BATCH = 9  # the opset from which a Scan has no batch of its own


@rule(op.Loop(...), stage=Stage.CLEAN)
def loop(b):
    states = [v for v in b.root.inputs[2:] if v is not None]
    asked = is_asked_for(b) or not all(b.dtype(v) for v in states)
    count, go_on = _count(b), _begins(b)
    if count == 0 or go_on is False:
        returned = [o for o in b.root.outputs[len(states) :] if o is not None]
        require(not any(o.is_read for o in returned), "it returns nothing, and that is read")
        return tuple(states)
    require(not (not asked and (count is None or count > most(b))))
    require(go_on, "how often it runs is computed at run time")
    limit = require_some(count, "how often it runs is computed at run time")
    body = Body.of(b)
    ranks = [len(i.type.tensor_type.shape.dim) for i in body.graph.proto.input[:2]]
    at, rows = 0, []
    while go_on and at < limit:
        require(at < most(b), f"it has more than {most(b)} iterations")
        number, condition = np.full((1,) * ranks[0], at), np.full((1,) * ranks[1], True)
        following, *made = body.iterate(b, [b.constant(number), b.constant(condition), *states])
        pairs = ((b.shape(old), b.shape(new)) for old, new in zip(states, made, strict=False))
        require(asked or any(old is not None and new is not None and old != new for old, new in pairs))
        asked, states = True, made[: len(states)]
        rows.append([b.Unsqueeze(v, axes=[0]) for v in made[len(states) :]])
        known = require_some(b.value(following), "whether it goes on is computed at run time")
        at, go_on = at + 1, bool(known.reshape(-1)[0])
    return settled(b, [*states, *(b.Concat(*parts, axis=0) for parts in zip(*rows, strict=True))])


def _count(b: Builder) -> int | None:
    """The most iterations that the first input allows; None where it is computed at run time."""
    given = b.root.inputs[0]
    if given is None:
        return most(b) + 1
    found = b.elements(given)
    return found[0] if found and isinstance(found[0], int) else None


def _begins(b: Builder) -> bool | None:
    """Whether the first iteration runs; None where that is computed at run time."""
    given = b.root.input_at(1)
    known = None if given is None else b.value(given)
    if given is None:
        return True
    return None if known is None else bool(known.reshape(-1)[0])


@rule(op.Scan(...), stage=Stage.CLEAN)
def scan(b):
    stateless = b.opset >= WITHOUT_BATCH and len(b.root.inputs) == b.root.attr("num_scan_inputs")
    # a stateless one gets a state of the pass stateless-scan
    require(is_asked_for(b) and not (stateless and b.target.imports("Scan") and "unroll" not in b.options))
    if b.opset >= WITHOUT_BATCH:
        return settled(b, _scanned(b, Body.of(b), b.root.inputs))
    require(b.root.inputs[0] is None, "the lengths of its sequences are computed at run time")
    given, body = b.root.inputs[1:], Body.of(b)
    rows = []
    for k in range(_length(b, given[0], 0)):
        sample = [b.Gather(v, k, axis=0) for v in given]
        rows.append([b.Unsqueeze(v, axes=[0]) for v in _scanned(b, body, sample)])
    return settled(b, [b.Concat(*parts, axis=0) for parts in zip(*rows, strict=True)])


def _scanned(b: Builder, body: Body, given: Sequence[Value]) -> list[Value]:
    """The final states of a Scan over `given`, and what its iterations return."""
    attr, scanned = b.root.attr, b.root.attr("num_scan_inputs")
    states, sequences = list(given[:-scanned]), given[-scanned:]
    axes = attr("scan_input_axes") or [0] * scanned
    backward = attr("scan_input_directions") or attr("directions") or [0] * scanned
    length = _length(b, sequences[0], axes[0])
    require(length <= most(b), f"it has more than {most(b)} iterations")
    rows = []
    for k in range(length):
        places = [np.asarray(length - 1 - k if back else k) for back in backward]
        slices = [b.Gather(v, at, axis=axis) for v, at, axis in zip(sequences, places, axes, strict=True)]
        made = body.iterate(b, [*states, *slices])
        states = made[: len(states)]
        rows.append(made[len(states) :])
    found = list(zip(*rows, strict=True))
    behind = attr("scan_output_axes") or [0] * len(found)
    turned = attr("scan_output_directions") or [0] * len(found)
    return [*states, *(_stacked(b, *row) for row in zip(found, behind, turned, strict=True))]


def _stacked(b: Builder, row: Sequence[Value], axis: int, backward: int) -> Value:
    """What the iterations return along a new axis."""
    rank = b.known_rank(row[0])
    at = axis % (rank + 1)
    parts = [b.Unsqueeze(v, axes=[at]) for v in (reversed(row) if backward else row)]
    return b.Concat(*parts, axis=at)


def _length(b: Builder, x: Value, axis: int) -> int:
    """A static size."""
    size = b.known_shape(x)[axis]
    if not isinstance(size, int) or not size:
        raise Decline("how often it runs is computed at run time")
    return size
