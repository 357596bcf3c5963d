"""The proof of a rewrite: its window is cut out of the model, and both sides must compute the same.

The modules of the proof, lower ones first:

    feeds          the inputs on which two models must agree
    equality       when two arrays are equal
    exact          a model evaluated in a wider type
    loading        whether ONNX Runtime still loads a rewritten model
    sizes          numbers for symbolic dimensions
    pair           two models with the same inputs and outputs
    shrink         a pair at small sizes, where it is the same at every size
    valid          inputs that the operators of a model take
    integer_roles  what integer inputs are: numbers, positions, sizes
    breakpoints    where a comparison inside a window changes its result
    probes         further inputs and sizes for a window
    randomness     operators that draw random numbers
    judge          runs a pair and says whether it is equal: a Verdict
    cut            the window of a rewrite as a pair
    whole          two whole models as a pair
    prove          one verdict a rewrite
    cache          proofs of earlier runs, in a file
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Shapes
from surgeon.ir.model import Model
from surgeon.ir.run import Unrunnable
from surgeon.proof.cut import Cutter, CutWindow
from surgeon.proof.feeds import Feeds
from surgeon.proof.judge import Verdict, judge
from surgeon.proof.pair import ModelPair
from surgeon.proof.shrink import shrunk
from surgeon.proof.sizes import FIRST_CHOICE, SizeChoice, choices
from surgeon.proof.whole import tensors_of_a_run

if TYPE_CHECKING:
    from surgeon.rules.window import Rewrite

OTHER_NUMBERS = 1e30  # the tolerance of a rewrite that the user asked for, which computes other numbers than the file


OF_MANY = ("random", "huge")  # kinds of input: rounding and overflow grow with how many numbers are added up


class Prover:
    """Proves the rewrites of one model, each on its own window. Windows that are alike are proved once.

    present    a tensor -> the one that its readers read now
    fixed      the sizes of named dimensions that the user gives
    verdicts   those of windows that were proved before, by what identifies the proof; new ones are added
    originals  a tensor -> the file's node for it, where that was rewritten
    foreign    the passes that are not surgeon's own

    `unsized` has the windows that ran with no sizes that were chosen: `prove_by_a_run` proves these.
    """

    def __init__(
        self,
        model: Model,
        *,
        present: Callable[[Value | None], Value | None],
        fixed: Mapping[str, int],
        verdicts: dict[bytes, Verdict],
        originals: Mapping[Value, Node],
        foreign: frozenset[str] = frozenset(),
    ) -> None:
        self.model = model
        self._foreign = foreign
        self.unsized: dict[Rewrite, CutWindow] = {}
        self._cutter = Cutter(model, present=present, originals=originals, fixed=fixed)
        self._verdicts = verdicts
        self._alike: dict[bytes, Verdict] = {}  # of this model's windows, at whichever sizes settled it

    def prove(self, record: Rewrite) -> Verdict:
        """Whether the window computes what the file's nodes computed."""
        try:
            window = self._cutter.cut(record)
        except Unrunnable as error:
            return Verdict.unproved(str(error))
        if window is None:
            return Verdict(True, 0.0)
        if window.unranked:
            self.unsized[record] = window
            return Verdict.unproved(f"the rank of '{window.unranked}' is not known")
        if self._foreign and self._foreign.issuperset(record.passes):
            window = replace(window, pair=replace(window.pair, is_own=False))
        verdict = self._verdict(window.pair, record.tolerance)
        if verdict.unsized:
            self.unsized[record] = window
        return verdict

    def prove_by_a_run(self, original: ModelProto, *, folder: Path | None, shapes: Shapes) -> dict[Rewrite, Verdict]:
        """Prove the windows in `unsized` with sizes that belong together.

        1. Those of a run of the whole model, where that runs and has all inputs of the window.
        2. Else other choices, until the window runs. A window that has a tensor of unknown rank stays unproved.

        `original` is the model of the file, which is changed.
        """
        tensors = dict.fromkeys(t for window in self.unsized.values() for t in window.tensors)
        runs = tensors_of_a_run(original, [t.name for t in tensors], folder=folder, shapes=shapes)
        found: dict[Rewrite, Verdict] = {}
        for record, window in self.unsized.items():
            pair = self._met(window, runs)
            if pair.met:
                found[record] = self._verdict(pair, record.tolerance)
            elif not window.unranked:
                verdict = self._verdict(pair, record.tolerance)
                for choice in choices(pair.inputs, pair.before):
                    verdict = self._verdict(pair, record.tolerance, choice)
                    if not verdict.unsized:
                        break
                found[record] = verdict
        return found

    def _met(self, window: CutWindow, runs: Sequence[Feeds]) -> ModelPair:
        """The window's pair with the inputs that the whole model has there, where every run has them all."""
        has_all = all(t.name in run and t.graph is self.model.graph for run in runs for t in window.tensors)
        if not has_all:
            return window.pair
        names = [name for name, _, _ in window.pair.inputs]
        met = tuple({n: run[t.name] for n, t in zip(names, window.tensors, strict=True)} for run in runs)
        return replace(window.pair, met=met)

    def _verdict(self, pair: ModelPair, tolerance: float, choice: SizeChoice = FIRST_CHOICE) -> Verdict:
        """The verdict on a pair: at small sizes where that settles it, else at those of the model."""
        asked = _asked(pair, tolerance, choice)
        if asked not in self._alike:
            small = self._at_small_sizes(pair, tolerance, choice)
            self._alike[asked] = small or self._remembered(pair, tolerance, choice)
        return self._alike[asked]

    def _at_small_sizes(self, pair: ModelPair, tolerance: float, choice: SizeChoice) -> Verdict | None:
        """The verdict where small sizes settle it; None where they do not. What is added up along a large size is tried
        on everything at a small one, and at its own on what tells sums of few numbers from sums of many."""
        small = shrunk(pair)
        if small is not None:
            verdict = self._remembered(small, tolerance, choice)
            return verdict if verdict.ok else None
        near = shrunk(pair, reducing=True)
        if near is None or not (verdict := self._remembered(near, tolerance, choice)).ok:
            return None
        whole = self._remembered(pair, tolerance, choice, kinds=OF_MANY)
        if not whole.ok:
            return None
        return replace(whole, max_error=max(verdict.max_error or 0.0, whole.max_error or 0.0), why=verdict.why)

    def _remembered(
        self, pair: ModelPair, tolerance: float, choice: SizeChoice, kinds: tuple[str, ...] = ()
    ) -> Verdict:
        """The verdict of the judge, from memory where the same was asked before."""
        asked = _asked(pair, tolerance, choice, kinds)
        if asked not in self._verdicts:
            self._verdicts[asked] = judge(
                pair, choice, slack=tolerance, probed=not kinds and tolerance < OTHER_NUMBERS, kinds=kinds
            )
        return self._verdicts[asked]


def _asked(pair: ModelPair, tolerance: float, choice: SizeChoice, kinds: tuple[str, ...] = ()) -> bytes:
    return hashlib.sha256(repr((tolerance, choice, kinds)).encode() + pair.digest()).digest()
