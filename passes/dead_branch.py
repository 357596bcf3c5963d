"""Take the branch of an If after which the model can run, if it cannot run after the other one.

Why       Exporters write torch.squeeze along a size that they do not know as an If of two ranks. TensorRT wants one
          rank, also where what follows is a recurrent layer or a convolution, which runs with one of them alone:
          Silero's voice activity detection is written like that.
Rewrites  f(If(condition) {a} {b}), where f(b) gives LSTM, GRU, RNN, Conv or ConvTranspose a tensor of a rank that
          it does not have   ->   f(a); each If on the way whose condition follows from the rank becomes its branch
Exact     Bit for bit on every input with which the model runs; with the others it ended in an error.
Price     None: nodes go, and none are added.
"""

from collections.abc import Sequence

from surgeon import Builder, Decline, Editor, Node, Stage, Value, model_rule, require, require_some
from surgeon.targets.conditions.control_flow import branches_of_other_rank

from ._copy import BRANCHES, again, written_out

MOST = 256  # nodes after the If, up to the last one that its ranks reach
RECURRENT = ("LSTM", "GRU", "RNN")
FILTERS = ("Conv", "ConvTranspose")

Tensors = dict[Value, Value]


@model_rule(stage=Stage.CLEAN)
def take(editor):
    for node in list(editor.nodes({"If"}.__contains__)):
        refused = node.alive and branches_of_other_rank.check(node) is not None
        if not refused or editor.why_unsupported(node) is None:
            continue
        try:
            last, runs = _last(editor, node)
            if editor.excluded(last):  # by whose outputs the rewrite is called
                continue
            builder = editor.builder(last)
            outputs, nodes = _computed(builder, node, last, runs)
        except Decline as reason:
            if str(reason):
                editor.decline(node, str(reason))
            continue
        builder.matched = tuple(nodes)
        editor.replace(last, outputs, builder)


def _last(editor: Editor, node: Node) -> tuple[Node, str]:
    """The last node that reads what has one rank or the other, and the branch with which the model runs."""
    b = editor.builder(node)
    try:
        return _found(b, node)
    finally:
        b.undo()


def _found(b: Builder, node: Node) -> tuple[Node, str]:
    """`_last`, by writing both branches out beside one another until one of them cannot run."""
    written = [written_out(b, node.body(name)) for name in BRANCHES]
    behind: list[Tensors] = [_named(node, made) for made in written]
    split, after = set(behind[0]), set[Value]()
    runs, last, count = None, None, 0
    for reader in [n for n in node.graph.live() if n.place > node.place and n not in b.made]:
        read = set(reader.reads())
        if not read & (split | after):
            continue
        count += 1
        require(count <= MOST, "")
        if read & split:
            last = reader
        outputs = {o for o in reader.outputs if o is not None}
        if read & after:
            after |= outputs
            continue
        stopped = [k for k in range(2) if runs is None and _stops(b, reader, behind[k])]
        require(len(stopped) < 2, "after neither of its branches can the model run")
        if stopped:
            runs, after = 1 - stopped[0], after | outputs
            continue
        if runs is None:
            for values in behind:
                values.update(_named(reader, _anew(b, reader, values)))
        split |= outputs
    returned = next((v.name for v in split if v.is_output), None)
    require(runs is not None and returned is None, "")
    return require_some(last, ""), BRANCHES[runs or 0]


def _stops(b: Builder, node: Node, values: Tensors) -> bool:
    """Whether a node is given a tensor of a rank with which it ends in an error."""
    if node.key not in (*RECURRENT, *FILTERS):
        return False
    given, weights = node.inputs[:2]
    rank = None if given is None else b.rank(values.get(given, given))
    wanted = 3 if node.key in RECURRENT or weights is None else b.rank(values.get(weights, weights))
    return None not in (rank, wanted) and rank != wanted


def _computed(b: Builder, node: Node, last: Node, branch: str) -> tuple[list[Value | None], list[Node]]:
    """What `last` computes after one branch, and the nodes from the If to it."""
    between = _between(node, last)
    made = {o for n in (node, *between) for o in n.outputs if o is not None} - set(last.outputs)
    others = (n for n in node.graph.live() if n is not node and n not in between and n not in b.made)
    require(not any(v in made for n in others for v in n.reads()), "what follows it is read elsewhere, too")
    values = _named(node, written_out(b, node.body(branch)))
    for reader in between:
        values.update(_named(reader, _anew(b, reader, values)))
    outputs = [None if o is None else values[o] for o in last.outputs]
    for condition in [v for n in between if n.bodies for v in n.inputs if v in values]:
        maker = values[condition].producer
        if maker is not None and maker.alive:
            b.discard(values[condition], *outputs)  # it is known now, and nothing reads it any more
    return outputs, [node, *between]


def _between(node: Node, last: Node) -> list[Node]:
    """The nodes that read what an If returns and that `last` is computed of, itself the last, in order."""
    reached, tensors = [], set(node.outputs)
    for reader in [n for n in node.graph.live() if node.place < n.place <= last.place]:
        if any(v in tensors for v in reader.reads()):
            reached.append(reader)
            tensors.update(reader.outputs)
    needed, read = [last], set(last.reads())
    for reader in reversed(reached[: reached.index(last)]):
        if any(o in read for o in reader.outputs):
            needed.append(reader)
            read.update(reader.reads())
    return needed[::-1]


def _anew(b: Builder, node: Node, values: Tensors) -> Sequence[Value]:
    """The outputs of a node, computed of other inputs: those of the branch that is taken where it is an If."""
    if not node.bodies:
        return again(b, node, values)
    condition = node.inputs[0]
    require(node.key == "If", "a body reads it")
    assert condition is not None
    known = b.value(values.get(condition, condition))
    taken = require_some(known, "a branch reads it, and its condition does not follow from the rank")
    body = node.body(BRANCHES[0 if taken.all() else 1])
    return written_out(b, body, values)


def _named(node: Node, made: Sequence[Value]) -> Tensors:
    return {o: v for o, v in zip(node.outputs, made, strict=True) if o is not None}
