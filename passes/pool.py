"""Say how many windows a pooling has in the one way that TensorRT counts as ONNX does.

Why       With ceil_mode 1 ONNX Runtime, as PyTorch, has no window that begins in the padding behind; TensorRT has, and
          its result is larger. TensorRT-RTX 1.7.1 divides a last window of LpPool by the part of it that is there.
Rewrites  MaxPool, AveragePool and LpPool with ceil_mode = 1 and such a window  ->  the same rounded down, with padding
          behind where a last window is partly of the input
Exact     To the last bit for MaxPool, to rounding for the others.
Price     No node more, or a Pad: [1,64,56,56] takes 0.04 ms in ONNX Runtime on one thread either way.

Sizes must be static. An AveragePool that counts its padding would count what is added too:
it is left alone where an axis needs that.
"""

from surgeon import Stage, op, require, rule, var
from surgeon.targets.conditions.pools import pool_axes

x = var("x")


@rule(
    op.MaxPool(x, ceil_mode=1) | op.AveragePool(x, ceil_mode=1) | op.LpPool(x, ceil_mode=1),
    stage=Stage.LOWER,
    strategy="decompose",
)
def decompose(b, x):
    node = b.root
    axes = pool_axes(node)
    require(axes is not None, "with ceil_mode its sizes must be static")
    assert axes is not None
    behind = [max(a.missing, a.behind) if a.windows == a.rounded_up else a.behind for a in axes]
    rounded_down = [(a.size + p - a.window) // a.stride + 1 for a, p in zip(axes, behind, strict=True)]
    require(rounded_down == [a.windows for a in axes], "it pads by a whole window")
    counts = node.op == "AveragePool" and node.attr("count_include_pad")
    require(
        not counts or behind == [a.behind for a in axes],
        "what is padded would count, where a last window is partly beyond it",
    )
    kernels = zip(axes, behind, node.attr("kernel_shape"), strict=True)
    require(all(p == a.behind or p < k for a, p, k in kernels), "the padding would be as large as its kernel")
    front = (node.attr("pads") or [0] * len(axes))[: len(axes)]
    attrs = {k: v for k, v in node.attrs.items() if k != "ceil_mode"} | {"pads": [*front, *behind]}
    return b.node(node.op, [x], len(node.outputs), "", attrs)
