"""Which rewrites of supported nodes a target runs worse: measurements that ship with surgeon.

Worse is more kernels without fewer bytes, more than 2 % and 1 kB more bytes, or a longer time. `benchmarks/plans.py`
measures kernels and bytes for TensorRT-RTX, without a GPU, and `benchmarks/times.py` the time of TensorRT 8.4. Where no
row fits, no measurement calls the rewrite worse: that it pays is judgement.

TensorRT-RTX fuses a chain of reductions and elementwise operators into one or two kernels, with the Cast, the product
or the convolution next to it. It does not fuse InstanceNormalization, PRelu and Softplus like that.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from surgeon.ir.data_file import data_beside
from surgeon.targets.releases import Range, parse


class Window(NamedTuple):
    """What is asked of a rewrite beside its operators.

    facts     of these words those that are true, and operators: those of the other nodes that make its inputs, through
              those that only reshape, and of those that read its results with no constant
              half             a result is in fp16 or bf16
              one_channel      a result has one channel: its axis 1 is of size 1
              last_axis        every reduction in the file's window is over the last axis
              whole            a reduction makes one element of all
              grouped          a Reshape before its means puts channels into groups
              uneven           and 16 does not divide the number of channels
              shared           other nodes read an input of it, too
              fusible          an input is made by an elementwise operator, or by one that moves elements, which no
                               convolution takes into its kernel
              convolved        the kernel of a convolution or a pooling makes an input
              into_convolution a convolution reads a result
              averaged         an average over axes reads a result: GlobalAveragePool, or ReduceMean
              convolution      the model has a convolution
              convolutions     the model has several: between them, elements are in another order
              constant, reflect, edge, wrap; columns, rows
                               the mode of a Pad that was made; whether it pads the last axis, and one before that
    elements  how many elements the largest of its means is over; 0 where that is not known
    """

    facts: Collection[str]
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Worse:
    """A row of plans.toml, which explains the fields: rewrites that `targets` run worse than the file's nodes."""

    targets: Range
    gone: str
    made: str
    without: str = ""
    where: str = ""
    elements: range | None = None
    example: str
    plan: Sequence[tuple[int, float]]
    times: Sequence[float] | None = None
    measured: str

    def may_fit(self, gone: Collection[str], made: Collection[str]) -> bool:
        """Whether the operators of a rewrite are those of the row."""
        return (
            all(op in gone for op in self.gone.split())
            and all(op in made and op not in gone for op in self.made.split())
            and not any(op in gone or op in made for op in self.without.split())
        )

    def fits(self, window: Window) -> bool:
        """Whether the row is about a window, of whose operators `may_fit` is true."""
        alike = all((word.lstrip("-") in window.facts) != word.startswith("-") for word in self.where.split())
        return alike and (self.elements is None or window.elements in self.elements)

    @property
    def reason(self) -> str:
        """Why the rewrite is not made, a part of a sentence."""
        (kernels, kb), (kernels_after, kb_after) = self.plan
        said = f"from {kernels} to {kernels_after} kernels and from {kb} to {kb_after} kB"
        if self.times is not None:
            said = f"from {self.times[0]} to {self.times[1]} microseconds"
        return f"the target runs such nodes better as they are: {said} where they were rewritten ({self.measured})"


@cache
def rows() -> tuple[Worse, ...]:
    """The rows of plans.toml."""
    read = data_beside(__file__)
    return tuple(_row(row, read["measured"]) for row in read["rows"])


def _row(row: dict[str, Any], measured: dict[str, str]) -> Worse:
    elements = range(*row["elements"]) if "elements" in row else None
    return Worse(
        **row | {"targets": parse(row["targets"]), "elements": elements, "measured": measured[row["measured"]]}
    )
