"""Drop the first of two multiplications by constants: wrong on purpose, to see what surgeon does with it.

Why       It is wrong by a factor of 255; nothing in the language of passes forbids it.
Rewrites  (x * first) * second   ->   x * second
Exact     No.
"""

from surgeon import Stage, const, rule, var

x, first, second = var("x"), const("first"), const("second")


@rule(x * first * second, stage=Stage.FUSE)
def forget_a_scale(b, x, first, second):
    return b.Mul(x, second)
