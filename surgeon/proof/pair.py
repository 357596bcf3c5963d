"""A pair of models: an original, and what is to stand for it. The proof asks whether they compute the same."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from onnx import ModelProto

from surgeon.ir.run import Runner
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import Feeds, SizedInput
from surgeon.proof.sizes import FIRST_CHOICE, DeclaredInput, SizeChoice, Symbols, sized_inputs

SideName = Literal["before", "after"]


@dataclass(frozen=True, slots=True, eq=False)
class ModelPair:
    """Two models with the same inputs and outputs: the two sides of a window, or two whole models.

    before       the original
    after        what is to stand for it
    inputs       (name, element type, shape) of each input of both
    largest_pad  the largest constant pad of either: the sizes chosen are larger
    fixed        the sizes of named dimensions that somebody gives
    folder       where the external weights of both are, if they have any
    folder_after where those of `after` are, if that is another folder
    met          the inputs as a run of the whole model has them, at each size; then no sizes are chosen
    signed_zeros the outputs of which the sign of a zero counts: an infinity is made of it
    is_own       whether a pass of surgeon's own took part: those may give a number where the original has a NaN
    runners      what runs each side, at every size; made when it is asked for
    """

    before: ModelProto
    after: ModelProto
    inputs: tuple[DeclaredInput, ...]
    largest_pad: int = 1
    fixed: Mapping[str, int] = field(default_factory=dict)
    folder: str | Path | None = None
    folder_after: str | Path | None = None
    met: tuple[Feeds, ...] = ()
    signed_zeros: frozenset[int] = frozenset()
    is_own: bool = True
    runners: dict[SideName, Runner] = field(default_factory=dict, repr=False)

    @property
    def both(self) -> tuple[ModelProto, ModelProto]:
        """The original, and what is to stand for it."""
        return self.before, self.after

    @property
    def symbols(self) -> Symbols:
        """The dimensions of the inputs whose sizes are free."""
        return Symbols(self.inputs, self.fixed)

    def runner(self, side: SideName) -> Runner:
        """What runs one side. Raises Unrunnable."""
        if side not in self.runners:
            self.runners[side] = Runner(self.before if side == "before" else self.after, self.folder_of(side))
        return self.runners[side]

    def folder_of(self, side: SideName) -> str | Path | None:
        """Where the external weights of one side are."""
        return self.folder_after or self.folder if side == "after" else self.folder

    def sizes(self, choice: SizeChoice = FIRST_CHOICE) -> Iterator[list[SizedInput]]:
        """The inputs with every dimension a number: twice, or once where all are known."""
        return sized_inputs(self.inputs, largest_pad=self.largest_pad, fixed=self.fixed, choice=choice)

    def runs(self, choice: SizeChoice = FIRST_CHOICE) -> Iterator[tuple[list[SizedInput], Feeds]]:
        """The inputs with every dimension a number, and the values of those that are not drawn.

        Not drawn are the integers that a run of the whole model has there: they may be positions.
        """
        if not self.met:
            yield from ((inputs, {}) for inputs in self.sizes(choice))
        for feeds in self.met:
            yield (
                [(name, elem, feeds[name].shape) for name, elem, _ in self.inputs],
                {name: array for name, array in feeds.items() if not is_float(array.dtype)},
            )

    def digest(self) -> bytes:
        """Equal for pairs that compute the same on the same inputs: of both sides, of the sizes that somebody gives,
        and of what was met."""
        symbols = dict.fromkeys(d for _, _, shape in self.inputs for d in shape if isinstance(d, str))
        given = [(k, self.fixed[name]) for k, name in enumerate(symbols) if name in self.fixed]
        digest = hashlib.sha256(repr((given, self.largest_pad, sorted(self.signed_zeros), self.is_own)).encode())
        for model in self.both:
            digest.update(model.SerializeToString(deterministic=True))
        for feeds in self.met:
            for array in feeds.values():
                digest.update(repr(array.shape).encode())
                digest.update(b"" if is_float(array.dtype) else array.tobytes())
        return digest.digest()
