"""What a match of a normalisation says, as the passes read it."""

from dataclasses import dataclass
from typing import Any

from surgeon import FLOATS, Builder, Dim, Value, known_dims, require

from .axes import axes_of_the_means

# What is around a normalisation, in the order in which it is applied: the name that is bound, and its operator.
AFFINE = {"scale": "Mul", "shift": "Add", "bias": "Add", "outer_scale": "Mul", "outer_shift": "Add"}


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, times `factor`, then what `affine` says, in order.

    `dims` are those of `x`; `axes` are not negative and in order; each of `affine` is ("Mul" | "Add", tensor).
    """

    x: Value
    dims: list[Dim]
    axes: tuple[int, ...]
    epsilon: float = 0.0
    factor: float = 1.0
    affine: tuple[tuple[str, Value], ...] = ()

    @property
    def rank(self) -> int:
        """The number of x's dimensions."""
        return len(self.dims)

    @property
    def sizes(self) -> list[Dim]:
        """The dimensions of the axes."""
        return [self.dims[a] for a in self.axes]

    @property
    def is_static(self) -> bool:
        """Whether the sizes of all the axes are known."""
        return all(isinstance(size, int) for size in self.sizes)

    @property
    def is_trailing(self) -> bool:
        """Whether the axes are the last ones of x."""
        return self.axes == tuple(range(self.rank - len(self.axes), self.rank))

    def channels(self, axis: int) -> int | None:
        """The size of an axis; None where it is not known."""
        size = self.dims[axis]
        return size if isinstance(size, int) else None


def read(b: Builder, x: Value, found: dict[str, Any]) -> Normalisation:
    """The axes and the affine part of a match of `Spelling` over the tensor `x`; `found` is what the pattern bound.

    The epsilon and the factor are not read yet: `epsilon.with_epsilon` does that. Declines where the means are taken
    over several sets of axes, or are not where their own dimensions were.
    """
    shape = known_dims(b, x)
    require(b.dtype(x) in FLOATS, "the input is not of a floating-point type")
    return Normalisation(x, shape, axes_of_the_means(b, x), affine=affine_of(found))


def affine_of(found: dict[str, Any]) -> tuple[tuple[str, Value], ...]:
    """The factors and the shifts that a pattern bound, as `Normalisation.affine` has them."""
    return tuple((operator, found[name]) for name, operator in AFFINE.items() if name in found)


def outer_part(found: dict[str, Any]) -> str | None:
    """What a pattern bound after the formula, 'scale' or else 'shift'; None where it bound neither."""
    if "outer_scale" in found:
        return "scale"
    return "shift" if "outer_shift" in found else None
