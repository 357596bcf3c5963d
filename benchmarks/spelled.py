"""Models that hold one norm, activation or pad each, spelled as exporters spell them: what plans.py compares.

A spelling is ONNX text from x to y. It is tried in fp32 and fp16, for the shapes that are given with it, and some of
them between convolutions, where a kernel may take in what follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

RNG = np.random.default_rng(0)
Shape = tuple[int, ...]
Constants = Mapping[str, np.ndarray]
TYPES = {"fp32": ("float", np.float32), "fp16": ("float16", np.float16)}
FP32_ALONE = {"celu_native"}
EVERY_FLOAT = {
    "zero": 0.0, "half": 0.5, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "six": 6.0, "slope": 0.1, "eps": 1e-5,
    "minus_one": -1.0, "root_two": np.sqrt(2), "inverse_root_two": np.sqrt(0.5), "cubic": 0.044715, "sixth": 1 / 6,
    "tanh_factor": np.sqrt(2 / np.pi), "quick": 1.702, "most": 20.0, "selu_scale": 1.0507, "selu_slope": 1.75809,
    "least": 1e-4, "minus_half": -0.5, "minus_three": -3.0,
}  # fmt: skip


@dataclass(frozen=True)
class Spelling:
    """`body` from x to y.

    shapes     of x
    constants  what it reads besides EVERY_FLOAT; arrays of floats become fp16 with x
    wide       it computes in fp32 between Casts of a model in fp16
    between    it is tried between two convolutions, too
    """

    name: str
    body: str
    shapes: tuple[Shape, ...]
    constants: Constants = field(default_factory=dict)
    opset: int = 17
    wide: bool = False
    between: bool = False


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def weights(*shape: int) -> np.ndarray:
    return (1 + 0.1 * RNG.standard_normal(shape)).astype(np.float32)


# ---- norms -----------------------------------------------------------------------------------------------------------

IMAGES = ((1, 32, 16, 16), (2, 32, 20), (1, 32, 4, 8, 8))
HIDDEN = ((2, 16, 64), (8, 64), (1, 4, 16, 64))
ROOTS = {
    "sqrt": "s = Sqrt (v) n = Div ({0}, s)",
    "reciprocal": "s = Sqrt (v) r = Reciprocal (s) n = Mul ({0}, r)",
    "pow": "r = Pow (v, minus_half) n = Mul ({0}, r)",
}
SQUARES = {"mul": "q = Mul ({0}, {0})", "pow": "q = Pow ({0}, two)"}


def _mean(of: str, to: str, axes: str, opset: int, keep: int = 1) -> str:
    if opset < 18:
        return f"{to} = ReduceMean <axes = [{axes}], keepdims = {keep}> ({of})"
    return f"{to} = ReduceMean <keepdims = {keep}> ({of}, axes)"


def _axes(axes: str) -> np.ndarray:
    return numbers(*map(int, axes.split(",")))


def _centred(of: str, axes: str, opset: int, square: str, root: str) -> str:
    """n, the normalisation of a tensor along axes."""
    return (
        f"{_mean(of, 'm', axes, opset)} d = Sub ({of}, m) {SQUARES[square].format('d')} "
        f"{_mean('q', 'e', axes, opset)} v = Add (e, eps) {ROOTS[root].format('d')}"
    )


def _affine(shape: Shape) -> tuple[str, Constants]:
    return "z = Mul (n, w) y = Add (z, b)", {"w": weights(*shape), "b": weights(*shape)}


def group_norms() -> Iterator[Spelling]:
    for shape in (*IMAGES, (2, 24, 20), (2, 32, 8192)):
        rank, channels = len(shape), shape[1]
        affine, factors = _affine((channels, *[1] * (rank - 2)))
        back = f"n = Reshape (g, whole) {affine}"
        for groups in (4, 1):
            whole = {"whole": numbers(*shape), "fold": numbers(0, groups, -1), **factors}
            ones = {"gw": np.ones(groups, np.float32), "gb": np.zeros(groups, np.float32)}
            yield Spelling(
                f"group_norm_{groups}_instance",
                f"f = Reshape (x, fold) g = InstanceNormalization (f, gw, gb) {back}",
                (shape,), {**whole, **ones}, between=groups == 4 and rank == 4,
            )  # fmt: skip
            for opset, square, root in (
                (13, "pow", "sqrt"),
                (18, "mul", "reciprocal"),
                (17, "mul", "pow"),
                (21, "mul", "sqrt"),
            ):
                inner = _centred("f", "2", opset, square, root).replace("n = ", "g = ")
                constants = {**whole, **({"axes": _axes("2")} if opset > 17 else {})}
                yield Spelling(
                    f"group_norm_{groups}_means_{square}_{root}", f"f = Reshape (x, fold) {inner} {back}", (shape,),
                    constants, opset, wide=opset == 17, between=groups == 4 and rank == 4 and opset in (13, 21),
                )  # fmt: skip
            axes = ",".join(map(str, range(2, rank + 1)))
            inner = _centred("f", axes, 17, "mul", "sqrt").replace("n = ", "g = ")
            apart = {**whole, "fold": numbers(shape[0], groups, channels // groups, *shape[2:])}
            body = f"f = Reshape (x, fold) {inner} {back}"
            yield Spelling(f"group_norm_{groups}_apart", body, (shape,), apart, between=rank == 4)
            yield Spelling(
                f"group_norm_{groups}_native", f"y = GroupNormalization <num_groups = {groups}> (x, w, b)", (shape,),
                {"w": weights(channels), "b": weights(channels)}, opset=21, between=rank == 4,
            )  # fmt: skip
        last = (shape[0], *shape[2:], channels)
        axes = ",".join(map(str, [*range(1, rank - 1), rank]))
        inner = _centred("f", axes, 17, "mul", "sqrt").replace("n = ", "g = ")
        constants = {
            "fold": numbers(*last[:-1], 4, channels // 4),
            "whole": numbers(*last),
            "w": weights(channels),
            "b": weights(channels),
        }
        yield Spelling("group_norm_channels_last", f"f = Reshape (x, fold) {inner} {back}", (last,), constants)


def layer_norms() -> Iterator[Spelling]:
    affine, factors = _affine((64,))
    for opset, square, root in (
        (13, "pow", "sqrt"),
        (17, "mul", "sqrt"),
        (18, "pow", "reciprocal"),
        (13, "mul", "pow"),
    ):
        constants = {**factors, **({"axes": _axes("-1")} if opset > 17 else {})}
        body = _centred("x", "-1", opset, square, root)
        yield Spelling(f"layer_norm_{square}_{root}", f"{body} {affine}", HIDDEN, constants, opset)
        yield Spelling(f"layer_norm_{square}_{root}", f"{body} {affine}", HIDDEN, constants, opset, wide=True)
        bare = body.replace("n = ", "y = ")
        yield Spelling(
            f"layer_norm_{square}_{root}_bare", bare, HIDDEN, {"axes": _axes("-1")} if opset > 17 else {}, opset
        )
    yield Spelling("layer_norm_native", "y = LayerNormalization (x, w, b)", HIDDEN, factors)
    yield Spelling("layer_norm_native_scaled", f"n = LayerNormalization (x, u) {affine}", HIDDEN,
                   {**factors, "u": np.ones(64, np.float32)})  # fmt: skip
    both, of_both = _affine((16, 64))
    yield Spelling("layer_norm_two_axes", f"{_centred('x', '-2,-1', 17, 'pow', 'sqrt')} {both}", HIDDEN[:1], of_both)
    channels, of_channels = _affine((32, 1, 1))
    image = IMAGES[:1]
    for root in ROOTS:
        yield Spelling(f"layer_norm_channels_{root}", f"{_centred('x', '1', 17, 'pow', root)} {channels}", image,
                       of_channels, between=True)  # fmt: skip
    turned = "t = Transpose <perm = [0, 2, 3, 1]> (x) {} y = Transpose <perm = [0, 3, 1, 2]> (a)"
    w = {"w": weights(32), "b": weights(32)}
    yield Spelling("layer_norm_turned", turned.format("a = LayerNormalization (t, w, b)"), image, w, between=True)
    inner = f"{_centred('t', '-1', 17, 'pow', 'sqrt')} z = Mul (n, w) a = Add (z, b)"
    yield Spelling("layer_norm_turned_means", turned.format(inner), image, w, between=True)
    yield Spelling("mean_variance", "y = MeanVarianceNormalization (x)", image)


def instance_norms() -> Iterator[Spelling]:
    for shape in IMAGES:
        rank = len(shape)
        axes = ",".join(map(str, range(2, rank)))
        affine, factors = _affine((32, *[1] * (rank - 2)))
        w = {"w": weights(32), "b": weights(32)}
        image = rank == 4
        yield Spelling("instance_norm_native", "y = InstanceNormalization (x, w, b)", (shape,), w, between=image)
        for opset, square, root in ((13, "pow", "sqrt"), (18, "mul", "reciprocal"), (17, "mul", "pow")):
            constants = {"axes": _axes(axes)} if opset > 17 else {}
            body = _centred("x", axes, opset, square, root)
            name = f"instance_norm_{square}_{root}"
            yield Spelling(name, f"{body} {affine}", (shape,), {**factors, **constants}, opset, between=image)
            yield Spelling(f"{name}_bare", body.replace("n = ", "y = "), (shape,), constants, opset, between=image)
            yield Spelling(name, f"{body} {affine}", (shape,), {**factors, **constants}, opset, wide=True)
        last = (shape[0], *shape[2:], 32)
        affine, factors = _affine((32,))
        axes = ",".join(map(str, range(1, rank - 1)))
        body = _centred("x", axes, 17, "mul", "sqrt")
        yield Spelling("instance_norm_channels_last", f"{body} {affine}", (last,), factors)
    moments = (
        "m = GlobalAveragePool (x) p = Mul (x, x) k = GlobalAveragePool (p) l = Mul (m, m) e = Sub (k, l) "
        "v = Add (e, eps) s = Sqrt (v) d = Sub (x, m) n = Div (d, s) "
    )
    affine, factors = _affine((32, 1, 1))
    yield Spelling("instance_norm_moments", moments + affine, IMAGES[:1], factors, between=True)
    pooled = "m = GlobalAveragePool (x) d = Sub (x, m) q = Mul (d, d) e = GlobalAveragePool (q) v = Add (e, eps) "
    yield Spelling(
        "instance_norm_pooled", f"{pooled} {ROOTS['sqrt'].format('d')} {affine}", IMAGES[:1], factors, between=True
    )
    yield Spelling("instance_norm_then_scale", f"n = InstanceNormalization (x, u, o) {affine}", IMAGES[:1],
                   {**factors, "u": np.ones(32, np.float32), "o": np.zeros(32, np.float32)}, between=True)  # fmt: skip
    mixed = (
        f"{_centred('x', '2,3', 17, 'mul', 'sqrt')} ml = ReduceMean <axes = [1, 2, 3]> (x) dl = Sub (x, ml) "
        "ql = Mul (dl, dl) el = ReduceMean <axes = [1, 2, 3]> (ql) vl = Add (el, eps) sl = Sqrt (vl) nl = Div (dl, sl) "
        "i = Mul (n, rho) j = Mul (nl, rest) k = Add (i, j) z = Mul (k, w) y = Add (z, b)"
    )
    rho = {"rho": weights(1, 32, 1, 1), "rest": weights(1, 32, 1, 1)}
    yield Spelling("instance_and_layer_norm", mixed, IMAGES[:1], {**factors, **rho})


def rms_norms() -> Iterator[Spelling]:
    w = {"w": weights(64)}
    for opset, square in ((13, "pow"), (17, "mul"), (18, "mul")):
        for root in ROOTS:
            mean = _mean("q", "e", "-1", opset)
            inner = f"{SQUARES[square].format('x')} {mean} v = Add (e, eps) {ROOTS[root].format('x')}"
            constants = {"axes": _axes("-1")} if opset > 17 else {}
            name = f"rms_norm_{square}_{root}_{opset}"
            yield Spelling(name, f"{inner} y = Mul (n, w)", HIDDEN, {**w, **constants}, opset)
            yield Spelling(name, f"{inner} y = Mul (n, w)", HIDDEN, {**w, **constants}, opset, wide=True)
    yield Spelling("rms_norm_native", "y = RMSNormalization (x, w)", HIDDEN, w, opset=23)
    pixels = "q = Mul (x, x) e = ReduceMean <axes = [1]> (q) v = Add (e, eps) s = Sqrt (v) y = Div (x, s)"
    yield Spelling("pixel_norm", pixels, IMAGES[:1], between=True)


def l2_norms() -> Iterator[Spelling]:
    for axis, shapes in ((-1, HIDDEN), (1, (*IMAGES, (8, 64)))):
        image = axis == 1
        along = f"axes = [{axis}], keepdims = 1"
        root = "q = Mul (x, x) e = ReduceSum <keepdims = 1> (q, axes) s = Sqrt (e)"
        axes = {"axes": numbers(axis)}
        name = "l2_norm_last" if axis == -1 else "l2_norm_channels"
        for shape in shapes:
            size = {"size": numbers(*shape)}
            yield Spelling(f"{name}_clip", f"s = ReduceL2 <{along}> (x) c = Clip (s, least) f = Expand (c, size) "
                           "y = Div (x, f)", (shape,), size)  # fmt: skip
        yield Spelling(
            f"{name}_max", f"s = ReduceL2 <{along}> (x) c = Max (s, least) y = Div (x, c)", shapes, between=image
        )
        yield Spelling(
            f"{name}_add", f"s = ReduceL2 <{along}> (x) c = Add (s, least) y = Div (x, c)", shapes, between=image
        )
        yield Spelling(f"{name}_root", f"{root} c = Max (s, least) y = Div (x, c)", shapes, axes, between=image)
        yield Spelling(f"{name}_ssd", "q = Pow (x, two) e = ReduceSum (q, axes) s = Sqrt (e) c = Add (s, least) "
                       "n = Div (x, c) y = Mul (n, w)", shapes[:1],
                       {**axes, "w": weights(*(shapes[0][axis], 1, 1) if axis == 1 else (64,))})  # fmt: skip
        yield Spelling(f"{name}_inside", "q = Mul (x, x) e = ReduceSum (q, axes) v = Add (e, eps) s = Sqrt (v) "
                       "r = Reciprocal (s) y = Mul (x, r)", shapes, axes)  # fmt: skip
        yield Spelling(f"{name}_native", f"y = LpNormalization <axis = {axis}, p = 2> (x)", shapes)


# ---- activations -----------------------------------------------------------------------------------------------------

ERF = "e = Erf (d) a = Add (e, one)"
CUBE = "c = Mul ({}, cubic) i = Add (x, c) t = Mul (i, tanh_factor) h = Tanh (t) a = Add (h, one)"
SOFTPLUS = "e = Exp (x) l = Add (e, one) s = Log (l)"
ACTIVATIONS = {
    "gelu_torch": f"d = Div (x, root_two) {ERF} m = Mul (x, a) y = Mul (m, half)",
    "gelu_halved": f"d = Mul (x, inverse_root_two) {ERF} m = Mul (x, half) y = Mul (m, a)",
    "gelu_factor": f"d = Div (x, root_two) {ERF} m = Mul (a, half) y = Mul (x, m)",
    "gelu_tanh_pow": f"p = Pow (x, three) {CUBE.format('p')} m = Mul (x, half) y = Mul (m, a)",
    "gelu_tanh_mul": f"o = Mul (x, x) p = Mul (o, x) {CUBE.format('p')} m = Mul (x, a) y = Mul (m, half)",
    "gelu_quick": "q = Mul (x, quick) s = Sigmoid (q) y = Mul (x, s)",
    "silu": "s = Sigmoid (x) y = Mul (x, s)",
    "silu_exp": "n = Neg (x) e = Exp (n) d = Add (e, one) y = Div (x, d)",
    "sigmoid_exp": "n = Neg (x) e = Exp (n) d = Add (e, one) y = Reciprocal (d)",
    "sigmoid_div": "n = Neg (x) e = Exp (n) d = Add (e, one) y = Div (one, d)",
    "mish": "s = Softplus (x) t = Tanh (s) y = Mul (x, t)",
    "mish_log": f"{SOFTPLUS} t = Tanh (s) y = Mul (x, t)",
    "softplus_log": f"{SOFTPLUS} y = Identity (s)",
    "softplus_where": f"{SOFTPLUS} g = Greater (x, most) y = Where (g, x, s)",
    "softplus_stable": "a = Abs (x) n = Neg (a) e = Exp (n) l = Add (e, one) s = Log (l) r = Relu (x) y = Add (r, s)",
    "hard_swish_native": "y = HardSwish (x)",
    "hard_swish_sigmoid": "s = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul (x, s)",
    "hard_swish_clip": "p = Add (x, three) c = Clip (p, zero, six) m = Mul (x, c) y = Div (m, six)",
    "hard_swish_factor": "p = Add (x, three) c = Clip (p, zero, six) m = Mul (c, sixth) y = Mul (x, m)",
    "hard_swish_min": "p = Add (x, three) r = Relu (p) c = Min (r, six) d = Div (c, six) y = Mul (x, d)",
    "hard_sigmoid_clip": "p = Add (x, three) c = Clip (p, zero, six) y = Div (c, six)",
    "hard_sigmoid_factor": "m = Mul (x, sixth) p = Add (m, half) y = Clip (p, zero, one)",
    "relu6_min": "r = Relu (x) y = Min (r, six)",
    "clip_min_max": "r = Max (x, minus_one) y = Min (r, one)",
    "leaky_relu_native": "y = LeakyRelu <alpha = 0.1> (x)",
    "leaky_relu_max": "m = Mul (x, slope) y = Max (x, m)",
    "leaky_relu_where": "g = Greater (x, zero) m = Mul (x, slope) y = Where (g, x, m)",
    "leaky_relu_parts": "r = Relu (x) n = Min (x, zero) m = Mul (n, slope) y = Add (r, m)",
    "elu_where": "e = Exp (x) m = Sub (e, one) g = Greater (x, zero) y = Where (g, x, m)",
    "elu_parts": "n = Min (x, zero) e = Exp (n) m = Sub (e, one) r = Relu (x) y = Add (r, m)",
    "selu_native": "y = Selu (x)",
    "selu_where": "e = Exp (x) m = Sub (e, one) a = Mul (m, selu_slope) b = Mul (x, selu_scale) "
                  "g = Greater (x, zero) y = Where (g, b, a)",
    "celu_native": "y = Celu <alpha = 2.0> (x)",
    "softsign": "a = Abs (x) d = Add (a, one) y = Div (x, d)",
    "log_sigmoid": "s = Sigmoid (x) y = Log (s)",
    "threshold": "g = Greater (x, one) y = Where (g, x, zero)",
    "tanh_exp": "e = Exp (x) t = Tanh (e) y = Mul (x, t)",
    "tanh_shrink": "t = Tanh (x) y = Sub (x, t)",
    "thresholded_relu": "y = ThresholdedRelu <alpha = 1.0> (x)",
    "square_relu": "r = Relu (x) y = Mul (r, r)",
}  # fmt: skip


def activations() -> Iterator[Spelling]:
    shapes = (IMAGES[0], (2, 16, 64), (8, 64))
    for name, body in ACTIVATIONS.items():
        yield Spelling(name, body, shapes, between=True)
        yield Spelling(name, body, shapes[:1], wide=True)
    yield Spelling("gelu_native", "y = Gelu (x)", shapes, opset=20, between=True)
    yield Spelling("gelu_native_tanh", 'y = Gelu <approximate = "tanh"> (x)', shapes, opset=20, between=True)
    yield Spelling("swish_native", "y = Swish (x)", shapes, opset=24, between=True)
    yield Spelling("mish_native", "y = Mish (x)", shapes, opset=18, between=True)
    slopes = {"slopes": weights(32, 1, 1)}
    yield Spelling("prelu", "y = PRelu (x, slopes)", IMAGES[:1], slopes, between=True)
    keras = "r = Relu (x) k = Neg (x) l = Relu (k) m = Mul (l, minus) y = Add (r, m)"
    yield Spelling("prelu_parts", keras, IMAGES[:1], {"minus": -slopes["slopes"]}, between=True)
    gated = "p, g = Split <axis = -1> (x, parts) {} y = Mul (p, a)"
    parts = {"parts": numbers(32, 32)}
    yield Spelling("gated_linear", gated.format("a = Sigmoid (g)"), HIDDEN, parts)
    yield Spelling("gated_gelu", gated.format("d = Div (g, root_two) e = Erf (d) f = Add (e, one) h = Mul (g, f) "
                                              "a = Mul (h, half)"), HIDDEN, parts)  # fmt: skip
    yield Spelling("gated_silu", gated.format("s = Sigmoid (g) a = Mul (g, s)"), HIDDEN, parts)


# ---- pads ------------------------------------------------------------------------------------------------------------


def pads() -> Iterator[Spelling]:
    for mode in ("constant", "reflect", "edge"):
        for shape in IMAGES:
            spatial = len(shape) - 2
            for what, sides in (("all", [1] * 2 * spatial), ("end", [0] * spatial + [1] * spatial)):
                both = numbers(0, 0, *sides[:spatial], 0, 0, *sides[spatial:])
                body = f'y = Pad <mode = "{mode}"> (x, pads)'
                image = len(shape) == 4
                yield Spelling(f"pad_{mode}_{what}", body, (shape,), {"pads": both}, between=image)
    image = IMAGES[:1]
    yield Spelling("pad_channels", "y = Pad (x, pads)", image, {"pads": numbers(0, 4, 0, 0, 0, 4, 0, 0)})
    yield Spelling("pad_crops", "y = Pad (x, pads)", image, {"pads": numbers(0, 0, -1, -1, 0, 0, -1, -1)})
    yield Spelling(
        "pad_value", "y = Pad (x, pads, one)", image, {"pads": numbers(0, 0, 1, 1, 0, 0, 1, 1)}, between=True
    )
    cut = {"zeros": numbers(0), "ones": numbers(1), "last": numbers(-1), "most_rows": numbers(99), "rows": numbers(2),
           "back": numbers(-3)}  # fmt: skip
    for name, axis in (("rows", 2), ("columns", 3)):
        where = {**cut, "axis": numbers(axis)}
        yield Spelling(f"pad_circular_{name}", f"a = Slice (x, last, most_rows, axis) b = Slice (x, zeros, ones, axis) "
                       f"y = Concat <axis = {axis}> (a, x, b)", image, where, between=True)  # fmt: skip
        yield Spelling(f"pad_reflect_slices_{name}", f"a = Slice (x, ones, rows, axis) b = Slice (x, less, last, axis) "
                       f"y = Concat <axis = {axis}> (a, x, b)", image, {**where, "less": numbers(-2)})  # fmt: skip
    pool = {"max": "MaxPool", "average": "AveragePool"}
    for name, operator in pool.items():
        body = f"p = Pad (x, pads) y = {operator} <kernel_shape = [3, 3], strides = [2, 2]> (p)"
        yield Spelling(f"pad_{name}_pool", body, image, {"pads": numbers(0, 0, 1, 1, 0, 0, 1, 1)})


# ---- neighbours ------------------------------------------------------------------------------------------------------


def neighbours() -> Iterator[Spelling]:
    """Windows beside which one node decides which form is better."""
    image, kernel = IMAGES[:1], {"conv_w": 0.1 * weights(32, 32, 3, 3)}
    last = "y = Conv <pads = [1, 1, 1, 1]> (n, conv_w)"
    first = "i = Conv <pads = [1, 1, 1, 1]> (x, conv_w)"
    norm = _centred("i", "2,3", 13, "pow", "sqrt")
    made = {
        "an_add": "i = Add (x, x)", "a_transpose": "i = Transpose <perm = [0, 1, 3, 2]> (x)",
        "a_relu_behind_a_convolution": f"{first.replace('i =', 'c =')} i = Relu (c)",
        "a_silu": f"{first.replace('i =', 'c =')} g = Sigmoid (c) i = Mul (c, g)",
        "a_pool": "i = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
    }  # fmt: skip
    for name, maker in made.items():
        yield Spelling(f"instance_norm_of_{name}", f"{maker} {norm} y = Relu (n)", image, kernel, 13)
    before = _centred("x", "2,3", 13, "pow", "sqrt")
    yield Spelling("instance_norm_before_a_convolution", f"{before} {last}", image, kernel, 13)
    yield Spelling("instance_norm_relu_before_a_convolution", f"{before} r = Relu (n) {last.replace('n,', 'r,')}",
                   image, kernel, 13)  # fmt: skip
    sound = _centred("x", "-1", 17, "pow", "sqrt").replace("n =", "y =")
    yield Spelling("layer_norm_of_a_sound", sound, ((1, 8000),))
    yield Spelling("mish_log_18", ACTIVATIONS["mish_log"], image, opset=18, between=True)
    swish = "p = Add (i, three) c = Clip (p, zero, six) m = Mul (i, c) h = Div (m, six)"
    for name, opset in (("hard_swish_of_averages", 17), ("hard_swish_of_averages_13", 13)):
        body = f"{first} {swish} g = GlobalAveragePool (h) n = Mul (h, g) {last}"
        yield Spelling(name, body, ((1, 32, 32, 32),), kernel, opset)
    ends = {"first": numbers(0), "second": numbers(1), "third": numbers(2), "last": numbers(-1), "less": numbers(-2),
            "far": numbers(99), "rows": numbers(2), "columns": numbers(3), **kernel}  # fmt: skip
    cuts = {
        "reflect": ("second, third", "less, last"), "wrap": ("last, far", "first, second"),
        "edge": ("first, second", "last, far"),
    }  # fmt: skip
    for mode, (begin, end) in cuts.items():
        sides = "".join(
            f" b{k} = Slice ({x}, {begin}, {axis}) e{k} = Slice ({x}, {end}, {axis}) "
            f"{y} = Concat <axis = {k}> (b{k}, {x}, e{k})"
            for k, axis, x, y in ((2, "rows", "i", "h"), (3, "columns", "h", "n"))
        )
        yield Spelling(f"pad_{mode}_before_a_convolution", f"i = Identity (x) {sides} {last}", image, ends, 19)
        yield Spelling(f"pad_{mode}_of_a_convolution", f"{first} {sides} y = Relu (n)", image, ends, 19)
        rows = sides[: sides.index(" b3")].replace("h =", "n =")
        yield Spelling(f"pad_{mode}_rows_before_a_convolution", f"i = Identity (x) {rows} {last}", image, ends, 19)


# ---- models ----------------------------------------------------------------------------------------------------------


def spellings() -> Iterator[Spelling]:
    for kind in (group_norms, layer_norms, instance_norms, rms_norms, l2_norms, activations, pads, neighbours):
        yield from kind()


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Each spelling in each type and shape, by a name that says so; those in fp32 between Casts in fp16 alone."""
    for spelling in spellings():
        for dtype in ("fp16",) if spelling.wide else ("fp32",) if spelling.name in FP32_ALONE else TYPES:
            for shape in spelling.shapes:
                stem = f"{spelling.name}{'_wide' if spelling.wide else ''}_{'x'.join(map(str, shape))}_{dtype}"
                yield stem, model(spelling, shape, dtype)
                if spelling.between and len(shape) == 4:
                    yield f"{stem}_conv", model(spelling, shape, dtype, between=True)


def model(spelling: Spelling, shape: Shape, dtype: str, between: bool = False) -> onnx.ModelProto:
    """The spelling as a model of one input x and one output y, or between two convolutions."""
    text, kind = TYPES[dtype]
    body, constants = spelling.body, dict(spelling.constants)
    if spelling.wide:
        body = f"x = Cast <to = 1> (half_x) {body} half_y = Cast <to = 10> (y)"
    first, last = ("half_x", "half_y") if spelling.wide else ("x", "y")
    ends = (first, last)
    if between:
        channels = shape[1]
        constants |= {"conv_w": 0.1 * weights(channels, channels, 3, 3), "conv_v": 0.1 * weights(8, channels, 1, 1)}
        body = f"{first} = Conv <pads = [1, 1, 1, 1]> (image, conv_w) {body} out = Conv ({last}, conv_v)"
        ends = ("image", "out")
    inner = np.float32 if spelling.wide else kind
    constants |= {name: np.array(number) for name, number in EVERY_FLOAT.items()}
    sizes, unknown = ",".join(map(str, shape)), ",".join("?" * len(shape))
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {spelling.opset}]> '
        f"g ({text}[{sizes}] {ends[0]}) => ({text}[{unknown}] {ends[1]}) {{ {body} }}"
    )
    read = {name for node in made.graph.node for name in node.input}
    for name, value in constants.items():
        if name in read:
            dtype_of = value.dtype if value.dtype == np.int64 else kind if name.startswith("conv") else inner
            made.graph.initializer.append(numpy_helper.from_array(value.astype(dtype_of), name))
    return made
