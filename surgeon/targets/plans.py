"""Which rewrites of supported nodes a target runs worse: measurements that ship with surgeon.

Worse is more kernels without fewer bytes, more than 2 % and 1 kB more bytes, or a longer time. `benchmarks/plans.py`
measures kernels and bytes for TensorRT-RTX, without a GPU, and `benchmarks/times.py` the time of TensorRT 8.4. Where no
row fits, no measurement calls the rewrite worse: that it pays is judgement.

TensorRT-RTX fuses a chain of reductions and elementwise operators into one or two kernels, with the Cast, the product
or the convolution next to it. It does not fuse InstanceNormalization, PRelu and Softplus like that.
"""

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from surgeon.targets.releases import RTX, Range, between


class Window(NamedTuple):
    """What is asked of a rewrite beside its operators.

    facts     of these words those that are true, and operators: those of the other nodes that make its inputs, through
              those that only reshape, and of those that read its results with no constant
              half             a result is in fp16 or bf16
              one_channel      a result has one channel: its axis 1 is of size 1
              last_axis        every reduction in the file's window is over the last axis
              whole            a reduction makes one element of all
              grouped          a Reshape before its means puts channels into groups
              uneven           and 16 does not divide the number of channels
              shared           other nodes read an input of it, too
              fusible          an input is made by an elementwise operator, or by one that moves elements, which no
                               convolution takes into its kernel
              convolved        the kernel of a convolution or a pooling makes an input
              into_convolution a convolution reads a result
              averaged         an average over axes reads a result: GlobalAveragePool, or ReduceMean
              convolution      the model has a convolution
              convolutions     the model has several: between them, elements are in another order
              constant, reflect, edge, wrap; columns, rows
                               the mode of a Pad that was made; whether it pads the last axis, and one before that
    elements  how many elements the largest of its means is over; 0 where that is not known
    """

    facts: Collection[str]
    elements: int


@dataclass(frozen=True, slots=True)
class Worse:
    """Rewrites that `targets` run worse than the file's nodes. Words have spaces between them.

    gone      operators that all went
    made      operators that were all made, and were not there
    without   operators that neither went nor were made
    where     facts about the window that are true; with a minus sign, those that are not
    elements  over how many elements its means are; None is any number
    example   a model of tests/corpus or of benchmarks/spelled.py
    plan      its kernels and kB, as the file has it and rewritten
    times     its microseconds, where they were measured
    measured  with what, and when
    """

    targets: Range
    gone: str
    made: str
    _: KW_ONLY
    without: str = ""
    where: str = ""
    elements: range | None = None
    example: str
    plan: tuple[tuple[int, float], tuple[int, float]]
    times: tuple[float, float] | None = None
    measured: str

    def may_fit(self, gone: Collection[str], made: Collection[str]) -> bool:
        """Whether the operators of a rewrite are those of the row."""
        return (
            all(op in gone for op in self.gone.split())
            and all(op in made and op not in gone for op in self.made.split())
            and not any(op in gone or op in made for op in self.without.split())
        )

    def fits(self, window: Window) -> bool:
        """Whether the row is about a window, of whose operators `may_fit` is true."""
        alike = all((word.lstrip("-") in window.facts) != word.startswith("-") for word in self.where.split())
        return alike and (self.elements is None or window.elements in self.elements)

    @property
    def reason(self) -> str:
        """Why the rewrite is not made, a part of a sentence."""
        (kernels, kb), (kernels_after, kb_after) = self.plan
        said = f"from {kernels} to {kernels_after} kernels and from {kb} to {kb_after} kB"
        if self.times is not None:
            said = f"from {self.times[0]} to {self.times[1]} microseconds"
        return f"the target runs such nodes better as they are: {said} where they were rewritten ({self.measured})"


BY_PLANS = "TensorRT-RTX 1.7.1, 27 November 2026"
LATER = "TensorRT-RTX 1.7.1, 28 November 2026"
BY_TIMES = "TensorRT 8.4.1 on an H200, 27 November 2026"
INSTANCE = "InstanceNormalization"
TURNED = "BatchNormalization Transpose"  # where these go, too, an InstanceNormalization is better
FEW, MANY = range(1, 513), range(65536, 2**31)

# fmt: off
ROWS = (
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="grouped convolution",
          example="group_norm_4_means_pow_sqrt_1x32x16x16_fp32_conv", plan=((5, 292.1), (7, 423.2)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="uneven",
          example="group_norm_4_means_pow_sqrt_2x24x20_fp32", plan=((1, 7.9), (2, 15.6)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="half", elements=MANY,
          example="group_norm_4_means_pow_sqrt_2x32x8192_fp16", plan=((5, 6484.3), (5, 10678.7)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="convolutions", elements=FEW,
          example="instance_norm_pow_sqrt_1x32x16x16_fp32_conv", plan=((7, 390.9), (7, 423.2)), measured=LATER),
    Worse(RTX, "Sub GlobalAveragePool", INSTANCE, without=TURNED, where="convolutions",
          example="instance_norm_moments_1x32x16x16_fp32_conv", plan=((7, 358.4), (7, 423.2)), measured=LATER),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="fusible",
          example="instance_norm_of_an_add_1x32x16x16_fp32", plan=((1, 65.5), (2, 131.3)), measured=LATER),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="into_convolution -convolved",
          example="instance_norm_before_a_convolution_1x32x16x16_fp32", plan=((4, 299.3), (7, 462.1)),
          measured=LATER),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="Mul",
          example="instance_norm_manual_AdaIN__ts_op13", plan=((3, 9.7), (3, 11.8)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="shared",
          example="instance_and_layer_norm_1x32x16x16_fp32", plan=((3, 197.1), (4, 262.8)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, where="half one_channel",
          example="group_norm_1_apart_1x32x16x16_fp16", plan=((2, 65.7), (2, 98.4)), measured=BY_PLANS),
    Worse(RTX, "ReduceMean Reshape", f"{INSTANCE} Transpose",
          example="group_norm_channels_last_1x16x16x32_fp32", plan=((2, 131.4), (3, 197.1)), measured=BY_PLANS),
    Worse(RTX, "Sub", "GroupNormalization", where="convolutions",
          example="group_norm_4_means_mul_sqrt_1x32x16x16_fp32_conv", plan=((5, 292.1), (7, 423.2)), measured=BY_PLANS),
    Worse(RTX, "Sub", "GroupNormalization", where="uneven",
          example="group_norm_4_means_mul_sqrt_2x24x20_fp32", plan=((1, 7.9), (2, 15.6)), measured=BY_PLANS),
    Worse(RTX, "Sub", "GroupNormalization", where="half", elements=MANY,
          example="group_norm_4_means_mul_sqrt_2x32x8192_fp16", plan=((5, 6484.3), (5, 10678.7)), measured=BY_PLANS),
    Worse(RTX, "ReduceMean", "LayerNormalization", where="Transpose half -convolutions",
          example="layer_norm_turned_means_1x32x16x16_fp16", plan=((2, 66.7), (2, 100.5)), measured=BY_PLANS),
    # it reads a scale of ones, as large as what it normalizes
    Worse(RTX, "ReduceMean", "LayerNormalization", where="whole", elements=range(256, 2**31),
          example="layer_norm_of_a_sound_1x8000_fp32", plan=((1, 64.0), (1, 96.0)), measured=LATER),
    Worse(RTX, "Neg ReduceMean Reciprocal", "Div", where="-last_axis",
          example="keras_LayerNormalization_4d__tf2onnx_nchw_op13", plan=((4, 32.8), (4, 34.8)), measured=BY_PLANS),
    Worse(RTX, "Exp Log", "Softplus", where="convolutions",
          example="softplus_log_1x32x16x16_fp32_conv", plan=((4, 226.3), (5, 291.9)), measured=BY_PLANS),
    Worse(RTX, "Mul Neg Relu", "PRelu", where="convolutions",
          example="prelu_parts_1x32x16x16_fp32_conv", plan=((4, 226.4), (5, 292.0)), measured=BY_PLANS),
    Worse(RTX, "Exp Log Tanh", "Mish", where="convolution",
          example="mish_log_18_1x32x16x16_fp32_conv", plan=((4, 226.3), (5, 291.9)), measured=LATER),
    # (x * relu6(x + 3)) / 6 is computed in the kernel of the average; what ends in a product of two tensors is not
    Worse(RTX, "Clip", "HardSwish", where="averaged",
          example="hard_swish_of_averages_1x32x32x32_fp32", plan=((6, 1646.9), (7, 1777.9)), measured=LATER),
    Worse(RTX, "Clip", "HardSigmoid", where="averaged",
          example="hard_swish_of_averages_13_1x32x32x32_fp32", plan=((6, 1646.9), (7, 1777.9)), measured=LATER),
    Worse(RTX, "Slice Concat", "Pad", where="reflect convolution",
          example="pad_reflect_rows_before_a_convolution_1x32x16x16_fp32", plan=((3, 254.0), (4, 376.8)),
          measured=LATER),
    Worse(RTX, "Slice Concat", "Pad", where="wrap columns rows into_convolution",
          example="pad_wrap_before_a_convolution_1x32x16x16_fp32", plan=((3, 277.0), (4, 350.7)), measured=LATER),
    # of images of 8x32x256x256; along columns 164.9 to 138.2 microseconds
    Worse(between((8, 2), (8, 6)), "Slice Concat", "Pad", where="reflect rows -columns",
          example="pad_reflect_slices_rows_1x32x16x16_fp32", plan=((3, 135.3e3), (1, 134.7e3)), times=(107.2, 134.5),
          measured=BY_TIMES),
)
# fmt: on
