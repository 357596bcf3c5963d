"""Join the parts of a Concat that a Concat reads.

Why       Frameworks stack results one after the other. TensorRT-RTX 1.7.1 copies each Concat of such a chain: of
          basic_pitch it runs 61 kernels with a chain of seven, and 57 with one Concat.
Rewrites  Concat(.., Concat(a, b), ..)   ->   Concat(.., a, b, ..), where no other node reads the inner one
Exact     Bit for bit.
"""

from surgeon import ANY, any_of, attr, op, require, rule

INNER = op.Concat(..., axis=attr("inner"))
MOST = 8  # the inner Concat is one of so many inputs at the start
LARGEST = 1024  # tensors that are joined: one that is read twice in each step doubles them


@rule(any_of(op.Concat(*[ANY] * k, INNER, ..., axis=attr("axis")) for k in range(MOST)))
def join(b, axis, inner):
    rank = b.known_rank(b.root.outputs[0])
    require(axis % rank == inner % rank, "the two join along other axes")
    concat = next(n for n in b.matched if n is not b.root)
    (joined,) = concat.outputs
    parts = [part for i in b.root.inputs for part in (concat.inputs if i is joined else [i])]
    require(len(parts) <= LARGEST, f"it joins more than {LARGEST} tensors")
    return b.again(parts)
