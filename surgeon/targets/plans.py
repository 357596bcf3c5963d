"""Which rewrites of supported nodes a target runs worse: measurements that ship with surgeon.

Worse is more kernels without fewer bytes, or more than 2 % and 1 kB more bytes. `benchmarks/plans.py` measures it for
TensorRT-RTX, without a GPU. Where no row fits, no measurement calls the rewrite worse: that it pays is judgement, as
it is for every other target.

TensorRT-RTX fuses a chain of reductions and elementwise operators into one or two kernels, with the Cast, the product
or the convolution next to it. It does not fuse InstanceNormalization, PRelu and Softplus like that.
"""

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from surgeon.targets.releases import RTX, Range


class Window(NamedTuple):
    """What is asked of a rewrite beside its operators.

    beside         the operators of the other nodes that make its inputs, through those that only reshape, and of those
                   that read its results with no constant
    half           whether a result is in fp16 or bf16
    one_channel    whether a result has one channel: its axis 1 is of size 1
    last_axis      whether every reduction in the file's window is over the last axis
    uneven         whether a Reshape before its means puts channels into groups, whose number 16 does not divide
    elements       how many elements the largest of its means is over; 0 where that is not known
    shared         whether other nodes read an input of it, too
    convolutions   whether the model has several convolutions: between them, elements are in another order
    """

    beside: Collection[str]
    half: bool
    one_channel: bool
    last_axis: bool
    uneven: bool
    elements: int
    shared: bool
    convolutions: bool


@dataclass(frozen=True, slots=True)
class Worse:
    """Rewrites that `targets` run worse than the file's nodes. Operators are named with spaces between them.

    gone      operators that all went
    made      operators that were all made, and were not there
    without   operators that neither went nor were made
    beside    an operator that makes an input of the window or reads a result
    elements  over how many elements its means are
    example   a model of tests/corpus or of benchmarks/spelled.py
    plan      its kernels and kB, as the file has it and rewritten
    measured  with what, and when

    The other fields are those of the window; None is either.
    """

    targets: Range
    gone: str
    made: str
    _: KW_ONLY
    without: str = ""
    beside: str = ""
    half: bool | None = None
    one_channel: bool | None = None
    last_axis: bool | None = None
    shared: bool | None = None
    convolutions: bool | None = None
    uneven: bool | None = None
    elements: range | None = None
    example: str
    plan: tuple[tuple[int, float], tuple[int, float]]
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
        names = ("half", "one_channel", "uneven", "last_axis", "shared", "convolutions")
        alike = all(getattr(self, n) in (None, getattr(window, n)) for n in names)
        sized = self.elements is None or window.elements in self.elements
        return alike and sized and (not self.beside or self.beside in window.beside)

    @property
    def reason(self) -> str:
        """Why the rewrite is not made, a part of a sentence."""
        (kernels, kb), (kernels_after, kb_after) = self.plan
        return (
            f"the target runs such nodes better as they are: from {kernels} to {kernels_after} kernels and from {kb} "
            f"to {kb_after} kB where they were rewritten ({self.measured})"
        )


BY_PLANS = "TensorRT-RTX 1.7.1, 27 November 2026"
INSTANCE = "InstanceNormalization"
TURNED = "BatchNormalization Transpose"  # where these go, too, an InstanceNormalization is better
MANY = range(65536, 2**31)

# fmt: off
ROWS = (
    Worse(RTX, "Sub", INSTANCE, without=TURNED, convolutions=True,
          example="group_norm_4_means_pow_sqrt_1x32x16x16_fp32_conv", plan=((5, 292.1), (7, 423.2)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, uneven=True,
          example="group_norm_4_means_pow_sqrt_2x24x20_fp32", plan=((1, 7.9), (2, 15.6)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, half=True, elements=MANY,
          example="group_norm_4_means_pow_sqrt_2x32x8192_fp16", plan=((5, 6484.3), (5, 10678.7)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, beside="Cast",
          example="instance_norm_pow_sqrt_wide_1x32x16x16_fp16", plan=((1, 33.0), (3, 164.1)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, beside="Mul",
          example="instance_norm_manual_AdaIN__ts_op13", plan=((3, 9.7), (3, 11.8)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, shared=True,
          example="instance_and_layer_norm_1x32x16x16_fp32", plan=((3, 197.1), (4, 262.8)), measured=BY_PLANS),
    Worse(RTX, "Sub", INSTANCE, without=TURNED, half=True, one_channel=True,
          example="group_norm_1_apart_1x32x16x16_fp16", plan=((2, 65.7), (2, 98.4)), measured=BY_PLANS),
    Worse(RTX, "ReduceMean Reshape", f"{INSTANCE} Transpose",
          example="group_norm_channels_last_1x16x16x32_fp32", plan=((2, 131.4), (3, 197.1)), measured=BY_PLANS),
    Worse(RTX, "Sub", "GroupNormalization", convolutions=True,
          example="group_norm_4_means_mul_sqrt_1x32x16x16_fp32_conv", plan=((5, 292.1), (7, 423.2)), measured=BY_PLANS),
    Worse(RTX, "Sub", "GroupNormalization", uneven=True,
          example="group_norm_4_means_mul_sqrt_2x24x20_fp32", plan=((1, 7.9), (2, 15.6)), measured=BY_PLANS),
    Worse(RTX, "Sub", "GroupNormalization", half=True, elements=MANY,
          example="group_norm_4_means_mul_sqrt_2x32x8192_fp16", plan=((5, 6484.3), (5, 10678.7)), measured=BY_PLANS),
    Worse(RTX, "ReduceMean", "LayerNormalization", beside="Transpose", half=True, convolutions=False,
          example="layer_norm_turned_means_1x32x16x16_fp16", plan=((2, 66.7), (2, 100.5)), measured=BY_PLANS),
    Worse(RTX, "Neg ReduceMean Reciprocal", "Div", last_axis=False,
          example="keras_LayerNormalization_4d__tf2onnx_nchw_op13", plan=((4, 32.8), (4, 34.8)), measured=BY_PLANS),
    Worse(RTX, "Exp Log", "Softplus", convolutions=True,
          example="softplus_log_1x32x16x16_fp32_conv", plan=((4, 226.3), (5, 291.9)), measured=BY_PLANS),
    Worse(RTX, "Mul Neg Relu", "PRelu", convolutions=True,
          example="prelu_parts_1x32x16x16_fp32_conv", plan=((4, 226.4), (5, 292.0)), measured=BY_PLANS),
)
# fmt: on
