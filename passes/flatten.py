"""Write Flatten of few dimensions as Reshape.

Why       The parsers of TensorRT 7.0 to 8.4 hand a vector or a matrix on as it is, whatever the axis, and call an input
          of the model by the name of the output.
Rewrites  Flatten(x) of at most two dimensions   ->   Reshape(x, [1, -1] or [-1, 1])
          Flatten that changes nothing, of an input of the model   ->   Identity
Exact     Bit for bit.
"""

from __future__ import annotations

import numpy as np

from surgeon import Stage, no_match, op, rule, var
from surgeon.targets.conditions.names import flattened_input
from surgeon.targets.conditions.ranks import flattened_matrix

x = var("x")


@rule(op.Flatten(x), stage=Stage.LOWER, strategy="decompose")
def reshape(b, x):
    if not b.target.has(flattened_matrix) or flattened_matrix.check(b.root) is None:
        no_match()
    behind = b.root.attr("axis") == b.rank(x) > 0  # every dimension stands in front of the axis
    return b.Reshape(x, np.asarray([-1, 1] if behind else [1, -1], np.int64))


@rule(op.Flatten(x), stage=Stage.LOWER, strategy="decompose")
def identity(b, x):
    if not b.target.has(flattened_input) or flattened_input.check(b.root) is None:
        no_match()
    return b.Identity(x)
