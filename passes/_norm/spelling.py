"""The ways to write (x - mean) / sqrt(variance + epsilon), as patterns.

They say which operators are where. `window.read` then checks, on the nodes that matched, what no pattern can.
"""

from surgeon import ANY, Pattern, const, op, var


def maybe_shaped(p: Pattern, times: int = 2) -> Pattern:
    """`p`, or up to `times` operators after it that change its shape alone."""
    for _ in range(times):
        p = p | op.Reshape(p, ANY) | op.Expand(p, ANY) | op.Unsqueeze(p, ANY) | op.Squeeze(p, ANY)
    return p


def maybe_cast(p: Pattern) -> Pattern:
    """`p`, or a Cast of it."""
    return p | op.Cast(p)


def square(p: Pattern) -> Pattern:
    """The square of `p`."""
    return p * p | op.Pow(p, 2)


def mean(p: Pattern, name: str) -> Pattern:
    """A mean of `p` over any axes, as an average or as a sum over a count.

    Bound names: `{name}_count`, which divides the sum, or `{name}_share`, which multiplies it.
    """
    total = maybe_shaped(op.ReduceSum(p, ANY), 1)
    return maybe_shaped(
        op.ReduceMean(p, ANY)
        | op.GlobalAveragePool(p)
        | op.Div(total, var(f"{name}_count"))
        | op.Mul(total, const(f"{name}_share"))
    )


def mean_of_squares(p: Pattern, name: str) -> Pattern:
    """The mean of the squares of `p`, times any number, such as the n / (n - 1) of Bessel's correction.

    Bound names: those of `mean`, `{name}_factor` and `{name}_divisor`.
    """
    plain = mean(square(p), name) | maybe_shaped(op.Div(op.ReduceSumSquare(p, ANY), var(f"{name}_count")))
    return plain | maybe_shaped(
        op.Div(op.Mul(plain, var(f"{name}_factor")), var(f"{name}_divisor")) | op.Mul(plain, const(f"{name}_factor"))
    )


class Spelling:
    """The ways to write a normalisation of the tensor `x`.

    `bare` has neither factor nor shift after it, `scaled` has a factor, `affine` has either, both or none.
    Where it is not `centred`, it is x / sqrt(mean of squares + epsilon).

    Bound names: `epsilon` (absent: none), `outside` (an epsilon that is added to the root), `scale` and `shift` (inside
    the formula), `outer_scale` and `outer_shift` (applied to the result), and those of the means.
    """

    def __init__(self, x: Pattern, centred: bool = True) -> None:
        scale, shift = var("scale"), var("shift")
        if centred:
            spread = self._variance(x)
            # PyTorch's newer exporter sums in fp32 what it names fp16
            centre = maybe_cast(mean(self._view(x), "first"))
            deviation = maybe_cast(op.Sub(maybe_cast(x), centre) | op.Add(maybe_cast(x), -centre))
        else:
            spread = mean_of_squares(maybe_cast(x), "square")
            deviation = maybe_cast(x)
        safe = op.Add(maybe_cast(spread), const("epsilon")) | maybe_cast(spread)
        root = maybe_shaped(op.Sqrt(safe) | op.Pow(safe, 0.5))
        inverse = maybe_shaped(
            op.Reciprocal(root) | op.Div(1, root) | op.Pow(safe, -0.5) | op.Sqrt(op.Reciprocal(safe) | op.Div(1, safe))
        )
        gain = op.Mul(inverse, scale) | inverse | op.Div(scale, root)
        self.bare = (
            op.Div(deviation, root)
            | op.Mul(deviation, gain)
            | op.Div(op.Mul(deviation, scale), root)
            | op.Mul(op.Mul(deviation, scale), inverse)
            | op.Div(deviation | op.Mul(deviation, scale), op.Add(root, const("outside")))
        )
        if centred:
            self.bare = self.bare | self._folded(x, gain, shift)
        self.scaled = op.Mul(maybe_cast(self.bare), var("outer_scale"))
        self.affine = op.Add(maybe_cast(self.scaled | self.bare), var("outer_shift")) | self.scaled | self.bare

    @staticmethod
    def _view(x: Pattern) -> Pattern:
        """The tensor of which the statistics are taken: x, or x with its spatial dimensions in one."""
        return x | op.Reshape(x, ANY) | op.Cast(x)

    def _variance(self, x: Pattern) -> Pattern:
        """The mean of the squares of the deviations, or the mean of the squares less the square of the mean."""
        view = self._view(x)
        deviation = maybe_cast(op.Sub(view, mean(self._view(x), "second")) | op.Sub(view, mean(view, "second")))
        centre = mean(self._view(x), "second")
        fast = op.Sub(mean(square(self._view(x)), "fast"), square(centre))
        return mean_of_squares(deviation, "square") | op.Max(fast, 0) | op.Relu(fast) | fast

    def _folded(self, x: Pattern, gain: Pattern, shift: Pattern) -> Pattern:
        """x * gain + (shift - mean * gain): TensorFlow's form."""
        product, centre = op.Mul(maybe_cast(x), gain), mean(self._view(x), "folded")
        minus = op.Mul(-centre, gain) | -op.Mul(centre, gain)
        return (
            op.Add(product, op.Sub(shift, op.Mul(centre, gain)))
            | op.Add(product, op.Add(minus, shift))
            | op.Add(product, minus)
            | op.Sub(product, op.Mul(centre, gain))
        )


def scaled_behind(node: Pattern) -> Pattern:
    """What is multiplied to a normalisation that is one node."""
    return op.Mul(maybe_cast(node), var("outer_scale"))


def affine_behind(node: Pattern) -> Pattern:
    """What is multiplied or added to a normalisation that is one node."""
    return scaled_behind(node) | op.Add(maybe_cast(node), var("outer_shift"))
