"""Gaussian elimination of small matrices, a row at a time: the largest first number comes to the top, as in LAPACK."""

import numpy as np

from surgeon import Builder, Value


def pivoted(b: Builder, x: Value, rows: int) -> tuple[Value, Value, Value]:
    """(which row has the largest first number, that row, the others below it whose place it had)."""
    column = b.Squeeze(part(b, x, -1, 0, 1), axes=[-1])
    best = b.ArgMax(b.Abs(column), axis=-1, keepdims=0)
    # for each row, the order in which it has changed places with the first one
    orders = np.tile(np.arange(rows), (rows, 1))
    orders[:, 0] = np.arange(rows)
    orders[np.arange(rows), np.arange(rows)] = 0
    order = b.Unsqueeze(b.Gather(orders, best, axis=0), axes=[-1])
    moved = b.GatherElements(x, b.Expand(order, b.Shape(x)), axis=-2)
    return best, part(b, moved, -2, 0, 1), part(b, moved, -2, 1, rows)


def without_first(b: Builder, top: Value, others: Value, columns: int) -> tuple[Value, Value]:
    """(the first number of the top row, the other rows less a multiple of it that makes their first number 0, which is
    left out)."""
    pivot = part(b, top, -1, 0, 1)
    divisor = b.Where(b.Equal(pivot, 0.0), b.constant(1.0, b.dtype(top)), pivot)
    factors = b.Div(part(b, others, -1, 0, 1), divisor)
    return pivot, b.Sub(part(b, others, -1, 1, columns), b.Mul(factors, part(b, top, -1, 1, columns)))


def part(b: Builder, x: Value, axis: int, first: int, end: int) -> Value:
    return b.Slice(x, *(np.asarray([n]) for n in (first, end, axis)))
