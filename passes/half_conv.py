"""Compute a Conv with groups of several channels in fp32, where half precision may have no kernel.

Why       TensorRT 11 computes in the types of the file, and on some GPUs it has no kernel in fp16 for such a Conv: "No
          low-precision conv kernel available for this strongly-typed Conv" (NVIDIA/TensorRT#4838).
Rewrites  Conv<group>(x, w) in fp16 or bf16  ->  Cast(Conv<group>(Cast(x), Cast(w)))
Exact     Rounded once where the other is rounded in its sums.
Price     4 nodes for 1, and the products in fp32. [1,64,56,56] by 3 x 3 in 8 groups, in ONNX Runtime on one thread,
          which computes so itself: 1.02 ms next to 1.00.
"""

from surgeon import op, rewrites
from surgeon.targets.conditions.windows import half_groups

from ._arithmetic import in_fp32

decompose = rewrites(op.Conv(...), in_fp32, strategy="decompose", cures=half_groups)
