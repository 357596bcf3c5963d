"""What DLA does not run, and leaves to the GPU."""

from dataclasses import replace

from surgeon.ir.graph import Node
from surgeon.ir.operators import SLIDES
from surgeon.targets.condition import shape_of
from surgeon.targets.releases import DLA, up_to
from surgeon.targets.rows import other_than, refuses, some
from surgeon.targets.tables import DLA_NATIVE, IMPORTED

RESTRICTIONS = "dla-layer-restrictions"
OPERATORS = "NVIDIA/Deep-Learning-Accelerator-SW operators/README.md@ea61780, dla-layer-restrictions"
TO_8_6 = replace(up_to(8, 6), dla=True)
WINDOWS = " ".join(sorted(SLIDES & DLA_NATIVE))
LARGEST_BATCH, LARGEST = 4096, 8192  # sizes of the first dimension, and of any other


def _has_large_size(node: Node) -> bool:
    batch, *sizes = shape_of(node) or (None,)
    return (isinstance(batch, int) and batch > LARGEST_BATCH) or any(isinstance(s, int) and s > LARGEST for s in sizes)


def _exceeds(node: Node, **most: int) -> bool:
    """Whether an attribute of a window has a number above the most that DLA has."""
    return any(max(node.attr(name) or (0,)) > limit for name, limit in most.items())


# fmt: off
pad_mode = refuses("Pad", DLA, attr={"mode": other_than("constant")}, reason="DLA has no {value} padding", section="10",
                   source="dla-layer-restrictions: constant 0 alone, from 10.4; kREFLECT and kCLAMP never")
prelu_slope = refuses("PRelu", DLA, input=1, weights=False, reason="on DLA the slope must be an initializer",
                      section="10", source="dla-layer-restrictions: the slope is a build-time constant")
gpu_fallback = refuses(" ".join(sorted(IMPORTED - DLA_NATIVE)), DLA,
                       reason="DLA has no {op}: it would run on the GPU", section="10", source=OPERATORS)
reshapes = refuses("Flatten Reshape Squeeze Unsqueeze", DLA, section="10",
                   reason="DLA does not change the shape of a tensor: {op} would run on the GPU",
                   source="logs of TensorRT 8.5 to 10.3: ultralytics/ultralytics#18012, #23488")
ranks = refuses(WINDOWS, DLA, rank=other_than(4), section="10", source=RESTRICTIONS,
                reason="DLA runs {op} on four dimensions only")
sizes = refuses("Add Concat Conv MaxPool Mul Relu Sigmoid", DLA, where=_has_large_size, section="10",
                source=RESTRICTIONS, reason="DLA has batches to 4096 and other sizes to 8192")
moved_ranks = refuses("Concat Slice Softmax Split Transpose", DLA, rank=other_than(4), section="10",
                      source=RESTRICTIONS, reason="DLA runs {op} on four dimensions only")
concat_axis = refuses("Concat", DLA, rank=4, attr={"axis": other_than(1, -3)}, section="10", source=RESTRICTIONS,
                      reason="DLA concatenates along the channels (axis 1) only")
divisions = refuses("Div Pow", TO_8_6, section="10", reason="DLA has no {op} before 8.6.12",
                    source="log of 8.6.2: ultralytics/ultralytics#16449; NVIDIA-AI-IOT/jetson_dla_tutorial#3")
slice_steps = refuses("Slice", DLA, value={4: some(other_than(1))}, section="10", source=RESTRICTIONS,
                      reason="DLA slices with a step of 1 only")
slice_batch = refuses("Slice", DLA, rank=4, value={3: some((0, -4))}, section="10", source=RESTRICTIONS,
                      reason="DLA does not slice along the batch")
split_batch = refuses("Split", DLA, attr={"axis": (0, -4)}, section="10", source=RESTRICTIONS,
                      reason="DLA does not split along the batch")
conv_limits = refuses("Conv", DLA, section="10", source=RESTRICTIONS,
                      where=lambda node: _exceeds(node, kernel_shape=32, pads=31, strides=8, dilations=32),
                      reason="DLA has kernels to 32, a padding to 31, strides to 8 and dilations to 32 for a Conv")
deconv_limits = refuses("ConvTranspose", DLA, section="10", source=RESTRICTIONS,
                        where=lambda n: _exceeds(n, kernel_shape=32, pads=0, dilations=1)
                        or n.attr("group") not in (None, 1),
                        reason="DLA has a ConvTranspose of one group with kernels to 32, without padding and dilations")
pool_limits = refuses("AveragePool MaxPool", DLA, section="10", source=RESTRICTIONS,
                      where=lambda node: _exceeds(node, kernel_shape=8, pads=7, strides=16, dilations=1),
                      reason="DLA pools windows to 8 with a padding to 7 and strides to 16, without dilations")
# fmt: on
