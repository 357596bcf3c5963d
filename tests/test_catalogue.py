"""The catalogue of spellings, module by module: what each of the corpus's files must become, and what must stay.

The table is written from the meaning of the exported modules, not from what surgeon does: `norm("max_norm", 1e-12, 1)`
is x / max(||x||, 1e-12) over axis 1, whatever nodes an exporter writes for it. Every file of a module must reach the
same form: that is what recognising a spelling means. A row that names exporters or opsets speaks for those files alone.

Forms are operators in any order, as a multiset. `Max=1e-12` wants a constant input of that value everywhere,
`Mul#8` a constant input of eight elements, `Gelu:approximate=tanh` an attribute; `axis=1|-1` allows either.
The fourth column runs target 8.4 with the plugin of each pass that has one: a plugin node says axis, epsilon and
mode, which the native lowering hides.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.ir.attributes import constant_value
from surgeon.rules import registry
from surgeon.rules.rule import Stage

CORPUS = Path(__file__).parent / "corpus"
INDEX: list[dict[str, Any]] = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
COLUMNS = ("8.4", "10.9", "rtx", "plugin")
PLUGINS = {p.name: "plugin" for p in registry.passes() if "plugin" in p.strategies}

MERGED = ["common-subexpressions"]  # what two nodes of a form compute alike: a row has each of them

BECOMES = "becomes"  # a positive: the files spell it in several ways, or not at its best
BEST = "is the best form"  # a positive that the exporter already wrote as the target supports it
STAYS = "stays"  # a look-alike


# ---- forms -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """The operators that are wanted, for each of COLUMNS. `+` puts two forms side by side."""

    old: str
    new: str
    rtx: str
    plugin: str

    def __add__(self, other: Form) -> Form:
        return Form(*(f"{a} {b}".strip() for a, b in zip(self.columns, other.columns, strict=True)))

    def __mul__(self, times: int) -> Form:
        return Form(*(" ".join([c] * times) for c in self.columns))

    def but(self, new: str) -> Form:
        """The same on 8.4, another form on 10.9 and RTX."""
        return Form(self.old, new, new, self.plugin)

    def left_by_rtx(self, ops: str) -> Form:
        """The same on TensorRT, and other operators on RTX, which runs the file's own better: surgeon/targets/plans.toml."""
        return Form(self.old, self.new, ops, self.plugin)

    @property
    def columns(self) -> tuple[str, str, str, str]:
        return self.old, self.new, self.rtx, self.plugin


def same(ops: str) -> Form:
    """The same on every target."""
    return Form(ops, ops, ops, ops)


def by_target(old: str, new: str) -> Form:
    """One form on 8.4, with plugins or without, and another on 10.9 and RTX."""
    return Form(old, new, new, old)


def norm(mode: str, epsilon: float, axis: str, weight: int = 0) -> Form:
    """x / ||x|| in one of the five modes; `weight`: the number of weights, one a channel."""
    floor = {"max_norm": epsilon, "max_sum": epsilon**0.5, "min_reciprocal": 1 / epsilon if epsilon else 0.0}
    if mode in floor:
        native = f"ReduceL2 Max={floor[mode]:g} Div"
    elif mode == "add_sum":
        native = f"ReduceSumSquare Add={epsilon:g} Sqrt Div"
    else:
        native = f"ReduceL2 Add={epsilon:g} Div" if epsilon else "ReduceL2 Div"
    native += f" Mul#{weight}" if weight else ""
    plugin = ("SurgeonL2Norm" + (f"#{weight}" if weight else "")) + f":mode={mode}:epsilon={epsilon:g}:axis={axis}"
    return Form(native, native, native, plugin)


def instance(epsilon: float, scaled: str = "Mul Add", half: bool = False, fused: str = "") -> Form:
    """An instance normalisation; `scaled` is what 8.4 computes after it. `fused`: an attribute of the plugin."""
    chain = f"ReduceMean Sub Mul ReduceMean Add={epsilon:g} Sqrt Div {scaled}" + (" Cast Cast" if half else "")
    node = f"InstanceNormalization:epsilon={epsilon:g}"
    return Form(chain, node, node, f"SurgeonInstanceNorm:epsilon={epsilon:g}{fused}")


def leaky(alpha: float) -> Form:
    node = f"LeakyRelu:alpha={alpha:g}"
    return Form(node, node, node, f"Surgeon{node}")


def prelu(slopes: int) -> Form:
    node = f"PRelu#{slopes}" if slopes else "PRelu"
    return Form(node, node, node, f"Surgeon{node}")


def pad(mode: str, pads: str) -> Form:
    node = f"Pad:mode={mode}"
    return Form(node, node, node, f"SurgeonReflectPad:mode={mode}:pads={pads}")


def group(epsilon: float, scaled: str = "Mul Add", half: bool = False) -> Form:
    """Reshape, instance normalisation, Reshape, scale and shift: the best form below opset 21."""
    return same(f"Reshape Reshape {scaled}") + instance(epsilon, "", half)


def turned(epsilon: float, old: str, groups: bool = False) -> Form:
    """An instance or group normalisation with the channels last: between Transposes where there is
    a layer, `old` on 8.4."""
    around = "Transpose Transpose Reshape Reshape" if groups else "Transpose Transpose"
    node = instance(epsilon)
    return Form(old, f"{node.new} {around}", f"{node.rtx} {around}", f"{node.plugin} {around}")


def layer(epsilon: float, scaled: str = "Mul Add", half: bool = False) -> Form:
    node = f"LayerNormalization:epsilon={epsilon:g}"
    return by_target(statistics(epsilon, scaled, half), node)


def statistics(epsilon: float, scaled: str = "Mul Add", half: bool = False) -> str:
    return f"ReduceMean Sub Mul ReduceMean Add={epsilon:g} Sqrt Div {scaled}" + (" Cast Cast" if half else "")


def rms(epsilon: float, scaled: str = "Mul") -> Form:
    return same(f"Mul ReduceMean Add={epsilon:g} Sqrt Div {scaled}")


# ---- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """`files`: "" for all of the module's files, else such as "dynamo" or "ts11 ts13": exporter, or exporter and opset.

    `why`: for a look-alike the words of the reason that the report gives, or "" where nothing matches at all."""

    module: str
    files: str
    kind: str
    catalogue: str
    form: Form
    why: str = ""

    def speaks_for(self, row: dict[str, Any]) -> bool:
        return self.module == row["module"] and (
            not self.files or bool({row["exporter"], f"{row['exporter']}{row['opset']}"} & set(self.files.split()))
        )


def becomes(module: str, catalogue: str, form: Form, files: str = "") -> Row:
    return Row(module, files, BECOMES, catalogue, form)


def is_best(module: str, catalogue: str, form: Form, files: str = "") -> Row:
    return Row(module, files, BEST, catalogue, form)


def stays(module: str, catalogue: str, ops: str, why: str, files: str = "") -> Row:
    return Row(module, files, STAYS, catalogue, same(ops), why)


UNCHANGED = "(the operators of the file)"
UNCHANGED_FORM = same(UNCHANGED)
MOD = "Div Mul Sub Add Div Mul Sub"  # of integers, with the sign of the divisor
MODS = "Div Mul Sub Sub Div Mul Sub " * 2  # of integers that are not below 0, as tf2onnx writes (8 - size % 8) % 8
# Nobody computes with these on a device: every TensorRT folds an Unsqueeze of a constant while it builds.
WEIGHTS_BY_UNSQUEEZE = same("Unsqueeze Unsqueeze")
# A variance with Bessel's correction, its counts computed: v * n / (n - 1).
COUNTED = "ReduceMean Sub Mul ReduceMean Mul Sub Div"

# fmt: off
TABLE = [
    # L2 normalisation: docs/patterns.md section 3.1
    becomes("F_normalize_dim1_4d", "L2-a to L2-d, L2-f", norm("max_norm", 1e-12, "1")),
    becomes("F_normalize_dim1_4d_dyn", "L2-a to L2-c, L2-e, L2-f", norm("max_norm", 1e-12, "1")),
    becomes("F_normalize_dim_neg1_2d", "L2-a to L2-d, L2-f", norm("max_norm", 1e-12, "1|-1")),
    becomes("l2_normalize_dim0", "L2-b to L2-d over the batch", norm("max_norm", 1e-12, "0")),
    becomes("l2_normalize_eps_custom", "L2-b to L2-d", norm("max_norm", 1e-5, "1")),
    becomes("x_div_norm_keepdim_clip", "L2-g", norm("add_norm", 0, "1|-1")),
    becomes("x_div_norm_p2_keepdim", "L2-g", norm("add_norm", 0, "1|-1")),
    becomes("linalg_vector_norm", "L2-g", norm("add_norm", 0, "1|-1")),
    becomes("linalg_norm_clamp", "L2-k", norm("max_norm", 1e-6, "1|-1")),
    becomes("l2_max_eps_tensor", "L2-k with Max", norm("max_norm", 1e-8, "1|-1")),
    becomes("ssd_l2norm", "L2-l, the scale folded back from the full size", norm("add_norm", 1e-10, "1", weight=8)),
    becomes("ssd_l2norm", "L2-l, its epsilon deleted by the exporter", norm("add_norm", 0, "1", weight=8), "dynamo"),
    becomes("sqrt_sum_mul_self", "L2-m", norm("add_sum", 1e-12, "1|-1")),
    becomes("sqrt_sum_mul_self", "L2-m, its epsilon deleted by the exporter", norm("add_norm", 0, "1|-1"), "dynamo"),
    becomes("l2_sum_eps_inside_sqrt_square", "L2-m", norm("add_sum", 1e-6, "1|-1")),
    becomes("square_maximum_rsqrt_tfstyle", "L2-n over a floor on the sum", norm("max_sum", 1e-12, "1|-1")),
    becomes("tf_l2_normalize", "L2-o", norm("max_sum", 1e-12, "1|-1")),
    becomes("tf_l2_normalize_4d_axis3", "L2-o", norm("max_sum", 1e-10, "3|-1")),
    becomes("keras_UnitNormalization", "L2-p", norm("min_reciprocal", 1e12, "1|-1")),
    becomes("tf_linalg_normalize", "L2-q", norm("add_norm", 0, "1|-1")),
    becomes("tf_x_div_sqrt_sum", "L2-m from TensorFlow", norm("add_sum", 1e-8, "1|-1")),
    becomes("tf_x_rsqrt_sum", "L2-n from TensorFlow", norm("add_sum", 1e-12, "1|-1")),
    becomes("l2_pow_half", "L2-r", norm("add_norm", 0, "1|-1")),
    becomes("l2_norm_pow_neg1", "L2-r", norm("add_norm", 0, "1|-1")),
    becomes("l2_einsum_norm", "L2-u", norm("add_norm", 0, "1|-1")),
    becomes("cosine_similarity", "L2-w: two norms, a product, a sum", norm("max_norm", 1e-8, "1|-1") * 2 + same("Mul ReduceSum"), "dynamo dynamo_noopt"),
    stays(
        "cosine_similarity", "L2-w as TorchScript has it: the floor is on the product of the norms, which is not a floor on either",
        "Mul ReduceSum Mul ReduceSum Mul ReduceSum Mul Sqrt Max=1e-8 Div", "", "ts",
    ),
    becomes("l2_arcface_head", "L2-x: the weight's norm is computed, and its Transpose", norm("max_norm", 1e-12, "1") + same("MatMul")),
    becomes("l2_arcface_head", "L2-x", norm("max_norm", 1e-12, "1") + same("Gemm"), "dynamo dynamo_noopt"),
    becomes("weight_norm_conv", "L2-x: nothing but a constant is normalised", same("Conv")),
    Row(
        "fp16_norm_float_cast", "", BECOMES, "L2-z: the island of fp32 stays one, and is one plugin node",
        Form(*["Cast ReduceL2 Div Cast"] * 3, "SurgeonL2Norm:mode=add_norm:epsilon=0:axis=1|-1"),
    ),
    becomes("l2_clip_features_logits", "L2-g twice", norm("add_norm", 0, "1|-1") * 2 + same("Exp Mul Transpose MatMul")),
    becomes("l2_clip_features_logits", "L2-g twice", norm("add_norm", 0, "1|-1") * 2 + same("Mul Transpose MatMul"), "dynamo"),
    becomes("l2_swinv2_cosine_attn", "L2-a in attention", norm("max_norm", 1e-12, "3|-1") * 2 + same("Mul Transpose MatMul Mul Softmax")),
    becomes(
        "l2_netvlad_full", "L2-a three times",
        norm("max_norm", 1e-12, "1") * 2 + norm("max_norm", 1e-12, "2")
        + same("Conv Reshape Softmax Reshape Expand Transpose Expand Transpose Unsqueeze Sub Unsqueeze Mul ReduceSum Reshape"),
    ),
    becomes(
        "l2_netvlad_full", "L2-a three times; Softmax of opset 11 is over the last axis alone",
        norm("max_norm", 1e-12, "1") * 2 + norm("max_norm", 1e-12, "2")
        + same("Conv Reshape Transpose Softmax Transpose Reshape Expand Transpose Expand Transpose Unsqueeze Sub Unsqueeze Mul ReduceSum Reshape"),
        "ts11 ts_nofold11",
    ),
    becomes(
        "l2_netvlad_full", "L2-a three times",
        norm("max_norm", 1e-12, "1") * 2 + norm("max_norm", 1e-12, "2")
        + same("Conv Reshape Softmax Reshape Expand Transpose Sub Unsqueeze Mul ReduceSum Reshape"), "dynamo",
    ),
    # ... and what only looks like it. Hygiene around a look-alike (Shape, Reshape of axes, CastLike) goes all the same.
    stays("F_normalize_p1", "L1", "ReduceL1 Clip Expand Div", ""),
    stays("l2_normalize_tuple_dim", "two axes", "ReduceL2 Clip Expand Div", "one axis expected, got [2, 3]"),
    stays("tf_l2_normalize_axes12", "two axes", "Mul ReduceSum Max Sqrt Reciprocal Mul", "one axis expected, got [1, 2]"),
    # RMS: no L2 norm, but a normalisation of its own
    becomes("stylegan_pixelnorm", "RMS, not L2", rms(1e-8, "")),
    becomes("stylegan_pixelnorm", "RMS, its epsilon deleted by the exporter", same("Mul ReduceMean Sqrt Div"), "dynamo"),
    becomes("rmsnorm_llama", "RMS, not L2", rms(1e-6)),
    becomes("nn_RMSNorm", "RMS, not L2; PyTorch's default is the type's own epsilon", rms(2.0**-23)),
    Row(
        "nn_RMSNorm", "dynamo23", BECOMES, "RMSNormalization: RTX has it, TensorRT from 10.15 on",
        Form(rms(2.0**-23).old, rms(2.0**-23).new, f"RMSNormalization:epsilon={2.0**-23:g}", rms(2.0**-23).plugin),
    ),
    becomes("keras_RMSNormalization", "RMS from TensorFlow, GlobalAveragePool for the mean", rms(1e-6, "")),
    stays("FRN_TLU", "FRN: the mean of x squared over the spatial axes", "Mul Pow ReduceMean Add=1e-6 Sqrt Div Mul Add Max", "the scale varies along other axes"),
    stays("FRN_TLU", "FRN", "Mul Pow ReduceMean Add=1e-6 Sqrt Reciprocal Mul Add Max", "the scale varies along other axes", "dynamo dynamo_noopt"),
    # Instance normalisation: docs/patterns.md section 3.2
    becomes("InstanceNorm2d_noaffine", "IN-a, IN-b", instance(1e-5, "")),
    becomes("InstanceNorm2d_affine", "IN-a", instance(1e-5)),
    becomes("InstanceNorm3d_affine", "IN-a in five dimensions", instance(1e-5)),
    becomes("IN_batch4", "IN-a", instance(1e-5)),
    becomes("InstanceNorm2d_track_running", "IN-c: a batch normalisation", same("BatchNormalization:epsilon=1e-5")),
    becomes("IN_functional_weight_input", "IN-e: scale and bias are inputs", instance(1e-5, "Reshape Reshape Mul Add")),
    becomes("IN_SPADE", "IN-f: the maps stay after it", instance(1e-5, "") + same("Add Mul Add")),
    becomes("IN_var_unbiased_false", "IN-g", instance(1e-5)),
    becomes(
        "instance_norm_manual_AdaIN", "IN-h: Bessel's correction over 36 elements; the style's own statistics are not a norm",
        instance(1e-5 * 35 / 36, "Mul").left_by_rtx("Reshape Reshape Reshape ReduceMean Sub Mul ReduceMean Mul ReduceMean Div Sub Div Add Sqrt Sub")
        + same(f"Reshape {COUNTED} Add ReduceMean Reshape Sqrt Reshape Mul Add"),
    ),
    becomes(
        "instance_norm_manual_AdaIN", "IN-h", instance(1e-5 * 35 / 36, "Mul").left_by_rtx("Reshape Reshape Reshape ReduceMean Sub Mul ReduceMean Mul ReduceMean Div Sub Div Add Sqrt") + same("Reshape ReduceMean Sub Mul ReduceMean Mul Div Add ReduceMean Reshape Sqrt Reshape Mul Add"), "dynamo"
    ),
    becomes(
        "instance_norm_manual_AdaIN", "IN-h", instance(1e-5 * 35 / 36, "Mul").left_by_rtx("Reshape Reshape Reshape ReduceMean Sub Mul ReduceMean Mul ReduceMean Div Sub Div Add Sqrt Sub Reshape") + same(f"Reshape {COUNTED} Add Reshape ReduceMean Reshape Sqrt Reshape Mul Add"), "dynamo_noopt"
    ),
    becomes("IN_via_batchnorm_reshape", "IN-l: a batch normalisation in training mode over [1, N C]", instance(1e-5)),
    # Its other half is normalised over [1,2,3], which is not an instance normalisation; rho is taken into the scale.
    becomes("ILN_UGATIT", "IN-m", instance(1e-5 * 35 / 36, "Mul").left_by_rtx(f"ReduceMean {COUNTED} Sub Add Sqrt Div Mul") + same(f"ReduceMean {COUNTED} Sub Add Sqrt Div Sub Mul Add Mul Add")),
    becomes("ILN_UGATIT", "IN-m", instance(1e-5 * 35 / 36, "Mul").left_by_rtx("ReduceMean Sub Mul ReduceMean Mul Div Reshape Add Sqrt Div Mul") + same("ReduceMean Sub Mul ReduceMean Mul Div Reshape Add Sqrt Div Mul Add Mul Add"), "dynamo"),
    becomes(
        "ILN_UGATIT", "IN-m, a Reshape that keeps the dimensions",
        instance(1e-5 * 35 / 36, "Mul").left_by_rtx(f"Reshape ReduceMean {COUNTED} Sub Add Sqrt Div Mul")
        + same(f"ReduceMean {COUNTED} Reshape Sub Add Sqrt Div Sub Mul Add Mul Add"), "dynamo_noopt",
    ),
    *(
        row
        for module in ("tf_instance_norm_moments_batchnorm", "tf_instance_norm_moments_batchnorm_dyn")
        for row in (
            becomes(module, "IN-n: channels last", turned(1e-3, statistics(1e-3))),
            becomes(module, "IN-o: GlobalAveragePool for the means", instance(1e-3), "tf2onnx_nchw"),
        )
    ),
    becomes("tfa_instance_norm_addons", "IN-q: 8.4 has no layer, so the chain is shortened where it is", turned(1e-3, f"Shape Cast Cast Reshape Reshape {statistics(1e-3)}").left_by_rtx(
        "Shape Cast Cast Reshape Reshape ReduceMean ReduceMean Sub Sub Mul Mul Mul Mul Add Add Sqrt Reciprocal"
    )),
    becomes("tfa_instance_norm_addons", "IN-q", instance(1e-3), "tf2onnx_nchw"),
    becomes("instancenorm_in_if", "IN-t: the If on the rank is known", instance(1e-5)),
    becomes(
        "fast_neural_style_block", "IN-a after a padded convolution; the plugin takes the Relu as a slope of 0",
        same("Conv") + pad("reflect", "0,0,1,1,0,0,1,1")
        + Form(f"{statistics(1e-5)} Relu", *["InstanceNormalization:epsilon=1e-5 Relu"] * 2, "SurgeonInstanceNorm:epsilon=1e-5:slope=0"),
    ),
    becomes("batchnorm2d_train_mode", "training mode, which no TensorRT supports: batch statistics, and no instance normalisation", same(statistics(1e-5)), "ts"),
    Row(
        "batchnorm2d_train_mode", "dynamo", STAYS, "training mode: the batch is normalised over",
        same("ReduceMean ReduceMean Sub Mul ReduceMean BatchNormalization:epsilon=1e-5"), "it normalises over the batch",
    ),
    # Group and layer normalisation: docs/patterns.md section 3.3
    becomes("GroupNorm", "GN-a, GN-b: Reshape, instance normalisation, Reshape, scale and shift is the best form below opset 21", group(1e-5)),
    becomes("GroupNorm", "GN-a, its scale and shift after an Unsqueeze each", group(1e-5) + WEIGHTS_BY_UNSQUEEZE, "ts_nofold"),
    becomes("GroupNorm", "GN-c", group(1e-5).but("GroupNormalization:epsilon=1e-5"), "dynamo21"),
    becomes("GroupNorm_1d_wav2vec", "GN-a to GN-c with as many groups as channels: an instance normalisation", instance(1e-5)),
    becomes("fp16_GroupNorm", "GN-a, GN-b", group(1e-5, half=True)),
    becomes("fp16_GroupNorm", "GN-a, its scale and shift after an Unsqueeze each", group(1e-5, half=True) + WEIGHTS_BY_UNSQUEEZE, "ts_nofold"),
    becomes("fp16_GroupNorm", "GN-c", group(1e-5, half=True).but("GroupNormalization:epsilon=1e-5"), "dynamo21 dynamo_noopt21"),
    becomes(
        "keras_GroupNormalization", "GN-d, IN-r: 8.4 has no layer, so the chain is shortened where it is",
        turned(1e-3, f"Shape Cast Slice Concat Cast Reshape Reshape {statistics(1e-3, '')}", groups=True).left_by_rtx(
            "Reshape Reshape Shape Cast Cast ReduceMean ReduceMean Neg Sub Mul Mul Mul Mul Add Add Sqrt Reciprocal Slice Concat"
        ),
    ),
    becomes("keras_GroupNormalization", "GN-d, IN-r", group(1e-3, ""), "tf2onnx_nchw"),
    becomes("LayerNorm", "LN-b", layer(1e-5)),
    is_best("LayerNorm", "LN-a: no operator below opset 17", same("ReduceMean Sub Pow ReduceMean Add=1e-5 Sqrt Div Mul Add"), "ts11 ts13"),
    is_best("LayerNorm2d_convnext", "LN-c: no ONNX operator normalises over the channels before", same("ReduceMean Sub Pow ReduceMean Add=1e-6 Sqrt Div Mul Add")),
    is_best(
        "LayerNorm2d_convnext", "LN-c, constants after Unsqueeze",
        same("ReduceMean Sub Pow ReduceMean Add=1e-6 Sqrt Div Unsqueeze Unsqueeze Mul Unsqueeze Unsqueeze Add"), "ts_nofold",
    ),
    becomes("LayerNorm2d_convnext", "LN-c, the mean twice", same(statistics(1e-6)), "dynamo_noopt"),
    becomes("fp16_LayerNorm", "LN-b", layer(1e-5, half=True)),
    becomes("fp16_LayerNorm", "LN-a through DOUBLE, which no TensorRT has", same(statistics(1e-5, half=True)), "ts11 ts_nofold"),
    becomes("keras_LayerNormalization_4d", "LN-e: no operator below opset 17", same(statistics(1e-3, ""))),
    becomes("keras_LayerNormalization_4d", "LN-e", layer(1e-3, ""), "tf2onnx18"),
    becomes(
        "keras_LayerNormalization_4d", "LN-e over the axis in front",
        same(statistics(1e-3, "")).left_by_rtx("ReduceMean Sub Mul ReduceMean Add=0.001 Sqrt Reciprocal Neg Mul Mul Mul Add Add"), "tf2onnx_nchw",
    ),
    *(
        stays("LayerNorm_std_annotated_transformer", "LN-d, IN-k: epsilon outside the root, and n - 1", ops, "epsilon is added to the root", files)
        for files, ops in (
            ("ts", f"ReduceMean Sub Mul {COUNTED} Sqrt Add=1e-6 Div Add"),
            ("dynamo", "ReduceMean Sub Mul ReduceMean Sub Mul ReduceMean Mul Div Reshape Sqrt Add=1e-6 Div Add"),
            ("dynamo_noopt", f"ReduceMean Sub Mul {COUNTED} Reshape Sqrt Add=1e-6 Div Add"),
        )
    ),
    # Paddings: docs/patterns.md section 3.4
    becomes("ReflectionPad2d", "P-a, P-b, P-d", pad("reflect", "0,0,2,2,0,0,2,2")),
    becomes("ReflectionPad3d", "P-b to P-d", pad("reflect", "0,0,1,1,1,0,0,1,1,1")),
    becomes("F_pad_reflect", "P-a, P-b, P-d", pad("reflect", "0,0,1,1,0,0,1,1")),
    becomes("F_pad_replicate", "P-b to P-d", pad("edge", "0,0,1,1,0,0,1,1")),
    becomes("F_pad_constant", "P-b to P-d: zeros need no plugin", same("Pad:mode=constant")),
    becomes("Conv2d_padding_mode_reflect", "P-b to P-d", pad("reflect", "0,0,1,1,0,0,1,1") + same("Conv")),
    becomes("Pad_reflect_bottom_right_only", "P-b to P-d", pad("reflect", "0,0,0,0,0,0,1,1")),
    becomes("fp16_ReflectionPad2d", "P-b to P-d", pad("reflect", "0,0,1,1,0,0,1,1")),
    becomes("flip_cat_reflect_manual", "slices and a Concat", pad("reflect", "0,0,0,2,0,0,0,0")),
    becomes("Pad_negative_crop", "P-l: TensorRT crops by a Pad from 10.4 on", by_target("Slice", "Pad:mode=constant")),
    is_best("tf_pad_const", "P-f", same("Pad:mode=constant")),
    is_best("tf_pad_reflect_dynHW", "P-f", pad("reflect", "0,1,2,0,0,1,2,0")),
    becomes("tf_pad_symmetric", "P-g", Form(*["Gather Gather"] * 3, "SurgeonReflectPad:mode=symmetric:pads=0,1,2,0,0,1,2,0")),
    becomes("tf_pad_symmetric", "P-g", Form(*["Gather Gather"] * 3, "SurgeonReflectPad:mode=symmetric:pads=0,0,1,2,0,0,1,2"), "tf2onnx_nchw"),
    # The pads follow from run-time sizes; for 8.4 without the tensor of two dimensions that it refuses.
    *(
        becomes("tf_pad_reflect_computed", "P-f", by_target(f"{shape} Cast Slice Squeeze Slice Squeeze {MODS} Unsqueeze Cast Unsqueeze Cast Concat Pad", UNCHANGED), files)
        for shape, files in (("Shape", ""), ("Shape Gather", "tf2onnx_nchw"))
    ),
    *(
        Row("Pad_reflect_N_symbolic_input_pad", files, BECOMES, "P-e: Mod is written out for 8.4", by_target(
            f"Shape Gather Shape Gather {MOD} Sub {MOD} {MOD} Sub {MOD} Unsqueeze Unsqueeze Concat Pad Conv Unsqueeze Slice Unsqueeze Slice", ops))
        for files, ops in (
            ("ts", "Shape Gather Shape Gather Mod Sub Mod Mod Sub Mod Unsqueeze Unsqueeze ConstantOfShape Concat Reshape Slice Transpose Reshape Pad Conv"
             " Unsqueeze Slice Unsqueeze Slice"),
            ("ts_nofold", "Shape Gather Shape Gather Mod Sub Mod Mod Sub Mod Unsqueeze Unsqueeze Unsqueeze Unsqueeze ConstantOfShape Concat Reshape Slice Transpose"
             " Reshape Pad Conv Unsqueeze Slice Unsqueeze Slice"),
        )
    ),
    *(
        # Shape(start, end) came with opset 15: for 8.4 it is a Slice of the whole Shape
        Row("Pad_reflect_N_symbolic_input_pad", files, STAYS, "P-e", by_target(ops.replace("Mod", MOD).replace("Shape", "Shape Slice", 2), ops))
        for files, ops in (
            ("dynamo", "Shape Squeeze Shape Squeeze Mod Mul Add Mod Mod Mul Add Mod Reshape Reshape Concat Pad Conv Slice Slice"),
            ("dynamo_noopt", "Shape Squeeze Shape Squeeze Mod Mul Add Mod Mod Mul Add Mod Reshape Reshape Concat Pad Conv Reshape Slice Reshape Slice"),
        )
    ),
    # Activations: docs/patterns.md section 3.5
    is_best("LeakyReLU", "LR-a", leaky(0.1)),
    is_best("F_leaky_relu_inplace", "LR-a", leaky(0.2)),
    is_best("RReLU_eval", "LR-a: the mean of 1/8 and 1/3", leaky((1 / 8 + 1 / 3) / 2)),
    is_best("tf_leaky_relu", "LR-a", leaky(0.2)),
    is_best("tf_maximum_alpha", "LR-b, which tf2onnx fuses itself", leaky(0.2)),
    becomes("max_alpha_x", "LR-b", leaky(0.1)),
    becomes("where_leaky", "LR-d", leaky(0.1)),
    becomes("leaky_min_max", "LR-e", leaky(0.01)),
    becomes("leaky_abs_form", "LR-f", leaky(0.2)),
    becomes("shared_alpha_const_two_users", "LR-b twice, one constant", leaky(0.1) * 2 + same("Mul Add")),
    becomes("LeakyReLU_alpha0", "LR-h", same("Relu")),
    is_best("yolov3_conv_bn_leaky", "LR-a", same("Conv") + leaky(0.1)),
    is_best("yolov3_conv_bn_leaky", "LR-a, the batch normalisation not folded: TensorRT does that", same("Conv BatchNormalization") + leaky(0.1), "ts_nofold dynamo_noopt"),
    becomes("PReLU_per_channel", "PR-a, PR-b", prelu(8)),
    becomes("PReLU_per_channel_2d", "PR-a, PR-b", prelu(8)),
    becomes("fp16_PReLU", "PR-a, PR-b", prelu(8)),
    is_best("prelu_weight_as_input", "PR-b: the slope is an input", prelu(0) + same("Unsqueeze"), "ts"),
    is_best("prelu_weight_as_input", "PR-b: the slope is an input", prelu(0) + same("Reshape"), "dynamo"),
    becomes("keras_PReLU_full", "PR-c", prelu(6 * 6 * 8)),
    becomes("keras_Conv_PReLU_shared", "PR-c", same("Transpose Conv Transpose") + prelu(8)),
    becomes("keras_Conv_PReLU_shared", "PR-c", same("Conv") + prelu(8), "tf2onnx_nchw"),
    becomes("Mish_manual_yolov4", "no operator below opset 18", same("Softplus Tanh Mul")),
    becomes("Mish_manual_yolov4", "Mish from opset 18 and TensorRT 10.0 on", by_target("Softplus Tanh Mul", "Mish"), "ts18 dynamo18 dynamo_noopt18"),
    becomes("mish_exp_form", "no operator below opset 18", same("Softplus Tanh Mul")),
    becomes("mish_exp_form", "Mish", by_target("Softplus Tanh Mul", "Mish"), "ts18 dynamo_noopt18"),
    is_best("GELU", "no operator below opset 20", same("Div Erf Add Mul Mul")),
    becomes("GELU", "Gelu", by_target("Div Erf Add Mul Mul", "Gelu:approximate=none"), "ts20"),
    is_best("GELU_tanh", "no operator below opset 20", same("Mul Mul Mul Add Mul Tanh Add Mul Mul")),
    is_best("GELU_tanh", "no operator below opset 20", same("Pow Mul Add Mul Tanh Add Mul Mul"), "dynamo"),
    becomes("GELU_tanh", "Gelu", by_target("Mul Mul Mul Add Mul Tanh Add Mul Mul", "Gelu:approximate=tanh"), "ts20"),
    is_best("gelu_manual_bert", "no operator below opset 20", UNCHANGED_FORM),
    is_best("gelu_new_gpt2", "no operator below opset 20", UNCHANGED_FORM),
    is_best("tf_gelu_approx", "no operator below opset 20", UNCHANGED_FORM),
    is_best("QuickGELU", "no operator below opset 24", UNCHANGED_FORM),
    is_best("swish_beta_param", "no operator below opset 24", UNCHANGED_FORM),
    becomes("tf_gelu", "tf2onnx's Erfc is not an ONNX operator", same("Div Erf Add Mul Mul")),
    becomes("tf_swish", "a factor of 1 before the Sigmoid", same("Sigmoid Mul")),
    becomes("tf_swish", "a factor of 1 before the Sigmoid", same("Sigmoid Mul Transpose"), "tf2onnx_nchw"),
    is_best("Hardswish", "HardSwish from opset 14 on", same("HardSwish")),
    is_best("Hardswish", "no operator below opset 14", same("HardSigmoid:alpha=0.16666667 Mul"), "ts11"),
    is_best("Hardsigmoid", "", same("HardSigmoid:alpha=0.16666667")),
    becomes("hswish_relu6", "HardSwish from opset 14 on", same("HardSwish")),
    becomes("hswish_relu6", "no operator below opset 14", same("HardSigmoid:alpha=0.16666667 Mul"), "ts11 ts_nofold11"),
    becomes("tf_hard_swish", "no operator below opset 14", same("HardSigmoid:alpha=0.16666667 Mul")),
    becomes("tf_hard_swish", "HardSwish", same("HardSwish"), "tf2onnx18"),
    becomes("CELU", "alpha is 1: TensorRT has a kernel for Elu, and none for Celu", same("Elu:alpha=1")),
    # Bodies: docs/patterns.md section 3.6
    becomes(
        "script_if_branches", "in both branches of an If",
        same("ReduceSum Greater If") + pad("reflect", "0,0,1,1,0,0,1,1") * 2 + instance(1e-5) + leaky(0.1),
    ),
    becomes("script_loop", "in the body of a Loop", same("Loop Identity Add") + instance(1e-5) + leaky(0.1) + norm("max_norm", 1e-12, "1")),
    becomes("script_loop", "unrolled by the exporter", (same("Add") + instance(1e-5) + leaky(0.1) + norm("max_norm", 1e-12, "1")) * 3, "dynamo dynamo_noopt"),
]
# fmt: on


# ---- reading what was written ----------------------------------------------------------------------------------------


def _parts(token: str) -> tuple[str, str, str, list[str]]:
    """Op[=constant][#elements][:attribute=value|other]... as (op, constant, elements, attributes)."""
    head, *pairs = token.split(":")
    head, _, count = head.partition("#")
    op, _, value = head.partition("=")
    return op, value, count, pairs


@dataclass(frozen=True)
class Written:
    op: str
    attributes: dict[str, str | float]
    constants: list[np.ndarray]

    def agrees(self, wanted: str) -> bool:
        """Whether this node is what a token of a form says."""
        op, value, count, pairs = _parts(wanted)
        return (
            op == self.op
            and (
                not value
                or any(
                    np.allclose(c.astype(np.float64), float(value), rtol=1e-4, atol=0)
                    for c in self.constants
                    if c.dtype.kind == "f"
                )
            )
            and (not count or any(c.size == int(count) for c in self.constants))
            and all(self._has(*pair.split("=")) for pair in pairs)
        )

    def _has(self, name: str, wanted: str) -> bool:
        found = self.attributes.get(name)
        if isinstance(found, float):
            return any(np.isclose(found, float(w), rtol=1e-4, atol=0) for w in wanted.split("|"))
        return found in wanted.split("|")


def _written(graph: onnx.GraphProto, outer: dict[str, np.ndarray] | None = None) -> list[Written]:
    """Every node but Constant, bodies included, in the order of the file."""
    known = {**(outer or {}), **{t.name: numpy_helper.to_array(t) for t in graph.initializer}}
    found = []
    for node in graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = constant_value(node)
            continue
        attributes: dict[str, str | float] = {}
        spec = onnx.defs.get_schema(node.op_type).attributes if not node.domain else {}
        for name, default in spec.items():
            if default.default_value.type:
                attributes[name] = _read(default.default_value)
        attributes.update({a.name: _read(a) for a in node.attribute if a.type != onnx.AttributeProto.GRAPH})
        found.append(Written(node.op_type, attributes, [known[i] for i in node.input if i in known]))
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += _written(attribute.g, known)
    return found


def _read(attribute: onnx.AttributeProto) -> str | float:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return value
    return ",".join(map(str, value)) if attribute.type == onnx.AttributeProto.INTS else str(value)


def _difference(written: list[Written], wanted: str) -> str:
    """What differs between what was written and a form, in words; empty where nothing does."""
    tokens = wanted.split()
    given, asked = Counter(w.op for w in written), Counter(_parts(t)[0] for t in tokens)
    if given != asked:
        more, less = (
            ", ".join(f"{count} {op}" for op, count in sorted(c.items())) for c in (given - asked, asked - given)
        )
        return f"it has {more or 'nothing'} more than the row, and lacks {less or 'nothing'}"
    for token, times in Counter(tokens).items():
        agreeing = [w for w in written if w.agrees(token)]
        if len(agreeing) < times:
            like = [
                (w.attributes, [c.ravel()[:4].tolist() for c in w.constants])
                for w in written
                if w.op == _parts(token)[0]
            ]
            return f"{times} x {token} wanted, {len(agreeing)} found among {like}"
    return ""


@cache
def _rewritten(file: str, column: str) -> surgeon.Result:
    if column != "plugin":
        return surgeon.rewrite(CORPUS / file, target=column, verify="none", skip=MERGED)
    return surgeon.rewrite(
        CORPUS / file, target="8.4", plugins=["surgeon"], strategy=PLUGINS, verify="none", skip=MERGED
    )


def _row_of(row: dict[str, Any]) -> Row:
    """The row that speaks for a file: one with its exporter and opset,
    else one with its exporter, else the module's."""
    speaking = [r for r in TABLE if r.speaks_for(row)]
    speaking.sort(key=lambda r: (f"{row['exporter']}{row['opset']}" in r.files.split(), bool(r.files)), reverse=True)
    assert speaking, f"{row['file']} is in no row"
    return speaking[0]


# ---- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("module", sorted({r.module for r in TABLE}))
def test_every_file_reaches_the_form(module: str, column: str) -> None:
    wrong = []
    for row in (r for r in INDEX if r["module"] == module):
        says = _row_of(row)
        wanted = says.form.columns[COLUMNS.index(column)].replace(UNCHANGED, row["sequence"])
        why = _difference(_written(_rewritten(row["file"], column).model.graph), wanted)
        if why:
            wrong.append(f"{row['file']} {says.kind} ({says.catalogue}): {why}")
    assert not wrong, "\n".join(["not as its row in TABLE states:", *wrong])


CANONICAL = {
    "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization", "MeanVarianceNormalization", "LpNormalization",
    "SurgeonL2Norm", "SurgeonInstanceNorm", "SurgeonReflectPad",
}  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_no_look_alike_becomes_what_it_is_not(column: str) -> None:
    wrong = []
    for row in INDEX:
        says = _row_of(row)
        if says.kind is not STAYS:
            continue
        result = _rewritten(row["file"], column)
        made = {w.op for w in _written(result.model.graph)} & (CANONICAL - set(row["sequence"].split()))
        if made:
            wrong.append(f"{row['file']} ({says.catalogue}) has {made}")
        if says.why and not any(says.why in d.why for d in result.report.declined):
            wrong.append(f"{row['file']}: '{says.why}' is not among {[d.why for d in result.report.declined]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("column", COLUMNS[:3])
def test_the_best_form_is_not_touched(column: str) -> None:
    """Its operators stay as they are; only what computes constants, or casts them, may go."""
    wrong = [
        f"{row['file']}: {applied}"
        for row in INDEX
        if _row_of(row).kind is BEST
        and (
            applied := [
                a.pass_name
                for a in _rewritten(row["file"], column).report.applied
                if set(a.pass_name.split("+")) - {"fold", "identity", "opset"}
            ]
        )
    ]
    assert not wrong, "\n".join(wrong)


def _larger(file: str, passes: list[Path]) -> list[str]:
    """The passes of CLEAN without which the file becomes a smaller model."""
    given: dict[str, Any] = {"target": "10.9", "verify": "none", "passes": passes}
    known = {p.name: p.stages for p in registry.passes(passes)}
    together = surgeon.rewrite(CORPUS / file, **given)
    parts = {name for applied in together.report.applied for name in applied.pass_name.split("+")}
    found = []
    for name in sorted(n for n in parts if Stage.CLEAN in known[n]):
        without = surgeon.rewrite(CORPUS / file, skip=[name], **given)
        lost = _counts(without.model.graph) - _counts(together.model.graph)
        if _counts(together.model.graph).total() > _counts(without.model.graph).total():
            found.append(f"{file}: without {name} it has {dict(lost)}")
    return found


def _counts(graph: onnx.GraphProto) -> Counter[str]:
    """The operators of a graph and of its bodies, but for constants."""
    found = Counter(node.op_type for node in graph.node if node.op_type != "Constant")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += _counts(attribute.g)
    return found


def test_clean_takes_away_nothing_that_a_pattern_reads() -> None:
    """No file becomes smaller where a pass of CLEAN is left out. A file for each spelling."""
    files = {(row["module"], row["sequence"], row["dynamic"]): row["file"] for row in INDEX}.values()
    assert [line for file in files for line in _larger(file, [])] == []


def test_a_clean_pass_that_takes_something_away_is_seen(tmp_path: Path) -> None:
    """Softplus of YOLOv4's Mish is divided by its beta, 1."""
    (tmp_path / "neutral.py").write_text(
        '"""x / 1 is x."""\nfrom surgeon import Stage, rule, var\nx = var("x")\n\n\n'
        "@rule(x / 1.0, stage=Stage.CLEAN)\ndef drop(b, x):\n    return x\n"
    )
    assert _larger("Mish_manual_yolov4__dynamo_noopt_op18.onnx", [tmp_path]) == [
        "Mish_manual_yolov4__dynamo_noopt_op18.onnx: without neutral it has {'Mish': 1}"
    ]


# ---- epsilons that were lost on the way to the file ------------------------------------------------------------------

# PyTorch's dynamo exporter deleted them: the other files of these modules still have 1e-10,
# 1e-12 and 1e-8. What repair_eps makes:
REPAIRED = {
    "ssd_l2norm": norm("add_norm", 1e-12, "1", weight=8),
    "sqrt_sum_mul_self": norm("add_sum", 1e-12, "1|-1"),
    "stylegan_pixelnorm": rms(1e-12, ""),
}
LOST = {row["file"]: row["module"] for row in INDEX if row["module"] in REPAIRED and row["exporter"] == "dynamo"}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_lost_epsilon_is_said(column: str) -> None:
    said = {
        row["file"]
        for row in INDEX
        if any("lost epsilon" in w for w in _rewritten(row["file"], column).report.warnings)
    }
    assert said == set(LOST) and len(LOST) == 3


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("file", LOST)
def test_a_lost_epsilon_is_repaired(file: str, column: str) -> None:
    given: dict[str, Any] = (
        {"target": "8.4", "plugins": ["surgeon"], "strategy": PLUGINS} if column == "plugin" else {"target": column}
    )
    result = surgeon.rewrite(CORPUS / file, options={"repair_eps": 1e-12}, **given)
    assert not result.report.undone
    assert not _difference(_written(result.model.graph), REPAIRED[LOST[file]].columns[COLUMNS.index(column)])
    assert any("lost epsilon" in w and "1e-12" in w for w in result.report.warnings)
    x = np.zeros([d.dim_value for d in result.model.graph.input[0].type.tensor_type.shape.dim], np.float32)
    (y,) = ort.InferenceSession(result.model.SerializeToString()).run(None, {result.model.graph.input[0].name: x})
    assert np.array_equal(y, x)
    again = surgeon.rewrite(result.model, **given)
    assert not again.report.applied and not again.report.warnings


def test_what_never_had_an_epsilon_is_not_called_lost() -> None:
    """L2-g and its like: the file has none, and where the exporter recorded its source, nor had that."""
    for module in (
        "x_div_norm_keepdim_clip",
        "l2_pow_half",
        "l2_einsum_norm",
        "l2_clip_features_logits",
        "tf_linalg_normalize",
    ):
        for row in (r for r in INDEX if r["module"] == module):
            warnings = _rewritten(row["file"], "10.9").report.warnings
            assert warnings and all("no epsilon" in w for w in warnings), row["file"]


def test_every_file_has_its_row_and_every_row_its_files() -> None:
    used = {id(_row_of(row)) for row in INDEX}
    assert not [f"{r.module} {r.files}" for r in TABLE if id(r) not in used]
    kinds = Counter(_row_of(row).kind for row in INDEX)
    assert len(INDEX) == sum(kinds.values()) == 493 and kinds[STAYS] > 30


def test_a_form_can_be_missed() -> None:
    nodes = _written(
        onnx.parser.parse_graph(
            "g (float[N,3] x) => (float[N,3] y) <float e = {1e-6}> { a = ReduceL2 <axes = [1]> (x)  b = Max (a, e)"
            "  y = Div (x, b) }"
        )
    )
    assert not _difference(nodes, "ReduceL2:axes=1 Max=1e-6#1 Div")
    for wrong in (
        "ReduceL2 Div",
        "ReduceL2 Max=1e-5 Div",
        "ReduceL2 Max=1e-6#3 Div",
        "ReduceL2:axes=0 Max Div",
        "ReduceL2:keepdims=0 Max Div",
        "ReduceL2 Max Div Div",
    ):
        assert _difference(nodes, wrong), wrong
