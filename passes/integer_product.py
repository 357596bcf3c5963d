"""Write a MatMul, a Gemm and an Einsum of integers as products that are added up.

Why       TensorRT-RTX, and TensorRT up to 8.4, multiply matrices of floating point alone. Models multiply positions by
          strides, counts by flags, and states of automata by tables.
Rewrites  MatMul(a, b) of int32 and int64  ->  ReduceSum(Unsqueeze(a) * Unsqueeze(b)) over the axis that both have
          Gemm<alpha = 1, beta = 1>(a, b, c)  ->  the same, + c
          Einsum(a, b, ...) of int32 and int64  ->  the same over the letters that the output lacks
Exact     Bit for bit, modulo 2^32 or 2^64.
Kept      More than 16 million products at once.
Price     On the way it holds every product: [64,128] by [128,64] of int64, 4 nodes, and 0.6 ms in ONNX Runtime on one
          thread next to 0.2.
"""

import math
from functools import reduce

from surgeon import Builder, Value, attr, op, require, rewrites, rule, var
from surgeon.targets.conditions.types import floats_alone

LARGEST = 2**24  # products of one sample

x, y, z = var("x"), var("y"), var("z")


@rule(
    op.Gemm(x, y, z | None, alpha=1, beta=1, transA=attr("turned"), transB=attr("turned_too")),
    strategy="decompose",
    cures=floats_alone,
)
def multiplied_and_added(b, x, y, turned, turned_too, z=None):
    x, y = (b.Transpose(v, perm=[1, 0]) if turns else v for v, turns in ((x, turned), (y, turned_too)))
    product = _product(b, x, y)
    return product if z is None else b.Add(product, z)


@rule(op.Einsum(..., equation=attr("equation")), strategy="decompose", cures=floats_alone)
def summed(b, equation):
    terms = b.root.inputs
    given, _, made = equation.replace(" ", "").partition("->")
    names = given.split(",")
    require("->" in equation and "." not in equation, "it names not every axis")
    require(all(len(set(name)) == len(name) for name in [*names, made]), "it takes a diagonal")
    letters = made + "".join(sorted(set("".join(names)) - set(made)))
    sizes = {c: d for v, name in zip(terms, names, strict=True) for c, d in zip(name, b.shape(v) or (), strict=False)}
    count = math.prod(d for d in sizes.values() if isinstance(d, int))
    require(count <= LARGEST, f"it holds more than {LARGEST} products at once")
    products = reduce(b.Mul, [_spread(b, v, name, letters) for v, name in zip(terms, names, strict=True)])
    over = list(range(len(made), len(letters)))
    return b.ReduceSum(products, axes=over, keepdims=0) if over else products


def _spread(b: Builder, term: Value, name: str, letters: str) -> Value:
    """A term with an axis for each of the letters, in their order."""
    order = sorted(range(len(name)), key=lambda axis: letters.index(name[axis]))
    turned = term if order == list(range(len(name))) else b.Transpose(term, perm=order)
    missing = [axis for axis, letter in enumerate(letters) if letter not in name]
    return b.Unsqueeze(turned, axes=missing) if missing else turned


def _product(b: Builder, x: Value, y: Value) -> Value:
    """The sum, over the axis that both have, of their products."""
    left, right = (b.known_shape(v) for v in (x, y))
    count = math.prod(d for d in (*left[-2:], *right[-1:]) if isinstance(d, int))
    require(count <= LARGEST, f"it holds more than {LARGEST} products at once")
    if len(right) == 1:
        products, axis = b.Mul(x, y), len(left) - 1
    elif len(left) == 1:
        products, axis = b.Mul(b.Unsqueeze(x, axes=[1]), y), len(right) - 2
    else:
        across, down = b.Unsqueeze(x, axes=[len(left)]), b.Unsqueeze(y, axes=[len(right) - 2])
        products, axis = b.Mul(across, down), max(len(left), len(right)) - 1
    return b.ReduceSum(products, axes=[axis], keepdims=0)


multiplied = rewrites(op.MatMul(x, y), _product, strategy="decompose", cures=floats_alone)
