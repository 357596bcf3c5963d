"""What models that were mutated at random have found: each is rewritten with and without proof, and checked."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.parser
import onnxruntime
import pytest
from helpers import compare_models, require_opset

import surgeon
from surgeon.errors import ModelError
from surgeon.proof.feeds import feeds_of
from surgeon.proof.sizes import MOST_ELEMENTS, SizeChoice, sized_inputs
from surgeon.trt.runners import with_functions

# name: (the options of surgeon.rewrite, the model)
SOUND: dict[str, tuple[dict[str, Any], str]] = {
    "a plugin node after a plugin node": (
        {"target": "8.4", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,2,H,W] x) => (float[N,2,H,W] z) <float[2] s = {1, 2}, float[2] b = {0, 1}> {
            y = InstanceNormalization <epsilon = 0.5> (x, s, b)
            z = InstanceNormalization <epsilon = 0.25> (y, s, b)
        }""",
    ),
    "slopes from a DequantizeLinear": (
        {"target": "rtx", "strategy": {"prelu": "decompose"}},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,3,H,W] x) => (float[N,3,H,W] y) <int8[3,1,1] q = {1, 2, 3}, float s = {0.25}, int8 z = {0}> {
            a = DequantizeLinear (q, s, z)
            y = PRelu (x, a)
        }""",
    ),
    "slopes that may be inf": (
        {"target": "10.9", "strategy": {"prelu": "decompose"}},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3,H,W] x, float[3,1,1] s) => (float[N,3,H,W] y) { y = PRelu (x, s) }""",
    ),
    "a slope of more dimensions than x": (
        {"target": "8.6+dla"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3,4,5] x) => (float[2,3,4,5] y) <float[1,1,3,1,1] s = {0.5, 1, -2}> { y = PRelu (x, s) }""",
    ),
    "the constants of a function as its calls say": (
        {"target": "8.2"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N] x, bool c) => (float[N] y) {
            a = local.Scaled <by = 2.0> (x)
            y = If (c) <then_branch = t () => (float[N] p) { p = Neg (a) },
                        else_branch = e () => (float[N] q) { q = Abs (a) }>
        }
        <domain: "local", opset_import: ["" : 17]>
        Scaled <by> (x) => (y) {
            f = Constant <value_float: float = @by> ()
            y = Mul (x, f)
        }""",
    ),
    "a body in a function": (
        {"target": "8.2"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2,3] x, bool c) => (float[2,3] y) { y = local.F (x, c) }
        <domain: "local", opset_import: ["" : 17]>
        F (x, c) => (y) {
            y = If (c) <then_branch = t () => (float[2,3] p) { i = Identity (x) p = Relu (i) },
                        else_branch = e () => (float[2,3] q) { j = Identity (x) q = Neg (j) }>
        }""",
    ),
    "a loop in a function, with an operator of a later opset": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[6,3] x) => (float[6,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 18]>
        F (x) => (y) {
            n = Constant <value = int64 {2}> ()
            y = Loop (n, "", x) <body = b (int64 i, bool c, float[6,3] s) => (bool k, float[6,3] o) {
                k = Identity (c)
                a = Constant <value = int64[1] {1}> ()
                m = ReduceMean <keepdims = 1> (s, a)
                o = Sub (s, m)
            }>
        }""",
    ),
    "a loop in a function, with what is folded there": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[6,3] x) => (float[6,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            n = Constant <value = int64 {2}> ()
            y = Loop (n, "", x) <body = b (int64 i, bool c, float[6,3] s) => (bool k, float[6,3] o) {
                k = Identity (c)
                q = Shape <start = 1> (s)
                e = Constant <value = int64[1] {-1}> ()
                t = Concat <axis = 0> (e, q)
                r = Reshape (s, t)
                w = Shape (s)
                o = Reshape (r, w)
            }>
        }""",
    ),
    "a loop in a function, with a meaning of a later opset": (
        {"target": "7.0"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[6,3] x) => (float[6,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            n = Constant <value = int64 {2}> ()
            y = Loop (n, "", x) <body = b (int64 i, bool c, float[6,3] s) => (bool k, float[6,3] o) {
                k = Identity (c)
                o = Softmax <axis = 0> (s)
            }>
        }""",
    ),
    "a loop in a function, with what becomes a plugin node": (
        {"target": "8.4", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[6,3] x) => (float[6,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            n = Constant <value = int64 {2}> ()
            y = Loop (n, "", x) <body = b (int64 i, bool c, float[6,3] s) => (bool k, float[6,3] o) {
                k = Identity (c)
                a = Constant <value = int64[1] {0}> ()
                u = Unsqueeze (s, a)
                f = Constant <value = float[6] {1, 2, 3, 0, -1, -2}> ()
                m = InstanceNormalization <epsilon = 0.5> (u, f, f)
                o = Squeeze (m, a)
            }>
        }""",
    ),
    "a loop in a known branch, with an operator of a later opset": (
        {"target": "9.0"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[6,3] x) => (float[6,3] y) {
            taken = Constant <value = bool {1}> ()
            y = If (taken) <
                then_branch = t () => (float[6,3] o) {
                    n = Constant <value = int64 {2}> ()
                    o = Loop (n, "", x) <body = b (int64 i, bool c, float[6,3] s) => (bool k, float[6,3] p) {
                        k = Identity (c)
                        a = Constant <value = int64[1] {1}> ()
                        m = ReduceMean <keepdims = 1> (s, a)
                        p = Sub (s, m)
                    }>
                },
                else_branch = e () => (float[6,3] z) { z = Neg (x) }>
        }""",
    ),
    "a known branch in a branch that is known later": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[6,3] x, float[3] w) => (float[6,3] y) {
            taken = local.Taken (x)
            y = If (taken) <
                then_branch = t () => (float[6,3] o) {
                    d = Constant <value = bool {1}> ()
                    k = If (d) <then_branch = tt () => (float[6,3] p) { p = Neg (x) },
                                else_branch = te () => (float[6,3] q) { q = Mul (x, w) }>
                    o = Exp (k)
                },
                else_branch = e () => (float[6,3] z) { z = Neg (x) }>
        }
        <domain: "local", opset_import: ["" : 17]>
        Taken (x) => (c) { c = Constant <value = bool {1}> () }""",
    ),
    "a function with an operator of a later opset": (
        {"target": "8.2"},
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[N,3] x) => (float[N,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 18]>
        F (x) => (y) { y = Mish (x) }""",
    ),
    "a function that cannot come down": (
        {"target": "8.6"},
        """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        g (float[N,4,H,W] x) => (float[N,4,H,W] y) <float[4] s = {1, 2, 3, -4}, float[4] b = {0.5, 1, -1, 2}> {
            y = local.F (x, s, b)
        }
        <domain: "local", opset_import: ["" : 21]>
        F (x, s, b) => (y) { y = GroupNormalization <epsilon = 0.001, num_groups: int = 2> (x, s, b) }""",
    ),
    "axes as an input in a function": (
        {"target": "7.2"},
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[N,4,3] x) => (float[N,4,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 18]>
        F (x) => (y) {
            axes = Constant <value_ints: ints = [1]> ()
            n = ReduceL2 (x, axes)
            e = Constant <value_float: float = 0.001> ()
            f = Max (n, e)
            y = Div (x, f)
        }""",
    ),
    "an L2 norm in a function": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2,6,4,3] x) => (float[2,6,4,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            e = Constant <value: tensor = float {1e-10}> ()
            w = Constant <value: tensor = float[1,6,1,1] {1, 2, 3, 4, 5, 6}> ()
            n = ReduceL2 <axes = [1]> (x)
            a = Add (n, e)
            d = Div (x, a)
            y = Mul (w, d)
        }""",
    ),
    "a slope that is written before x, with IR version 3": (
        {"target": "10.9", "strategy": {"leaky-relu": "decompose"}},
        """<ir_version: 3, opset_import: ["" : 17]>
        g (float[N,3,5] x, float a) => (float[N,3,5] y) <float a = {1.5}> {
            m = Mul (a, x)
            y = Min (x, m)
        }""",
    ),
    "a computed scale over groups and their channels": (
        {"target": "rtx"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3,5,4] x, float[2,2] scale) => (float[N,3,5,4] y)
            <int64[5] split = {-1, 3, 5, 2, 2}, int64[4] back = {-1, 3, 5, 4}, float e = {0.001}> {
            t = Reshape (x, split)
            m = ReduceMean <axes = [1, 2, 4], keepdims = 1> (t)
            d = Sub (t, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [1, 2, 4], keepdims = 1> (q)
            a = Add (v, e)
            r = Sqrt (a)
            n = Div (d, r)
            s = Mul (n, scale)
            y = Reshape (s, back)
        }""",
    ),
    "a computed scale after groups": (
        {"target": "10.9"},
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2,4,3,5] x, float[4,1,1] gamma) => (float[2,4,3,5] y)
            <float[2] one = {1, 1}, float[2] zero = {0, 0}, int64[3] split = {0, 2, -1}, int64[4] back = {2, 4, 3, 5},
             float[4,1,1] beta = {0.5, 1, -1, 2}> {
            r = Reshape (x, split)
            n = InstanceNormalization <epsilon = 0.001> (r, one, zero)
            z = Reshape (n, back)
            g = Mul (z, gamma)
            y = Add (g, beta)
        }""",
    ),
    "groups in a body": (
        {"target": "8.6+dla", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,4,H,W] x, bool c) => (float[N,4,H,W] y)
            <int64[3] split = {0, 2, -1}, float e = {0.001}> {
            y = If (c) <
                then_branch = t () => (float[N,4,H,W] a) {
                    r = Reshape (x, split)
                    m = ReduceMean <axes = [2]> (r)
                    d = Sub (r, m)
                    q = Mul (d, d)
                    v = ReduceMean <axes = [2]> (q)
                    w = Add (v, e)
                    s = Sqrt (w)
                    n = Div (d, s)
                    f = Shape (x)
                    a = Reshape (n, f)
                },
                else_branch = e () => (float[N,4,H,W] b) { b = Relu (x) }>
        }""",
    ),
    "an empty name at the end": (
        {"target": "7.2"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] x) => (float y) { y = ReduceMean <keepdims = 0> (x, "") }""",
    ),
    "axes that are none": (
        {"target": "8.6"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] x) => (float[1,1] y) <int64[0] axes = {}> { y = ReduceL2 (x, axes) }""",
    ),
    "two plugin nodes, the second made first": (
        {"target": "7.2", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3,4] x, bool c) => (float[5,7] y, float[5,4] z)
            <int64[4] w = {2, 0, 0, 0}, int64[4] two = {0, 1, 0, 2}> {
            one = Identity (w)
            a = Pad <mode = "reflect"> (x, one)
            y = Pad <mode = "reflect"> (a, two)
            z = If (c) <then_branch = t () => (float[5,4] p) { p = Neg (a) },
                        else_branch = e () => (float[5,4] q) { q = Abs (a) }>
        }""",
    ),
    "Celu with an alpha that is hardly a number": (
        {"target": "8.6+dla"},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,3] x) => (float[N,3] y) { y = Celu <alpha = 1e-30> (x) }""",
    ),
    "ones that make more batches of one": (
        {"target": "8.0", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,4,H] x) => (float[4,A,B] y)
            <float[2] one = {1, 1}, float[2] zero = {0, 0}, int64[3] split = {0, 2, -1},
             float[4,1,1] gamma = {1, 1, 1, 1}, float[4,1,1] beta = {0, 0, 0, 0}> {
            r = Reshape (x, split)
            n = InstanceNormalization <epsilon = 0.001> (r, one, zero)
            f = Shape (x)
            z = Reshape (n, f)
            g = Mul (z, gamma)
            y = Add (g, beta)
        }""",
    ),
    "more than all of an axis again": (
        {"target": "9.3", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 19]>
        g (float[M,1] x) => (float[M,4] y) <int64[4] pads = {0, 2, 0, 1}> { y = Pad <mode = "wrap"> (x, pads) }""",
    ),
    "a branch after an Identity": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3] x) => (float[N,3] y) <bool taken = {1}> {
            i = Identity (x)
            y = If (taken) <then_branch = t () => (float[N,3] a) { a = Relu (i) },
                            else_branch = f () => (float[N,3] b) { b = Neg (i) }>
        }""",
    ),
    "a slope that half precision does not hold": (
        {"target": "10.9", "strategy": {"leaky-relu": "decompose"}},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float16[N,3] x) => (float16[N,3] y) { y = LeakyRelu <alpha = 1e30> (x) }""",
    ),
    "a mask as long as another axis": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,C,H,W] x) => (float[N,C,h,W] y)
            <int64[8] ones = {0, 0, 1, 0, 0, 0, 1, 0}, int64[8] pads = {0, 0, 2, 0, 0, 0, 1, 0},
             int64[2] gone = {2, -2}, bool[2] no = {0, 0}> {
            p = Pad <mode = "constant"> (x, ones)
            m = Pad <mode = "reflect"> (p, pads)
            s = Shape (m)
            a, b, c, d = Split <axis = 0> (s)
            t = ConstantOfShape <value = bool[1] {1}> (d)
            k = ScatterElements (t, gone, no)
            y = Compress <axis = 2> (m, k)
        }""",
    ),
    "a mask that keeps what is to go": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,C,H,W] x) => (float[N,C,h,W] y)
            <int64[8] ones = {0, 0, 1, 0, 0, 0, 1, 0}, int64[8] pads = {0, 0, 2, 0, 0, 0, 1, 0},
             int64[2] gone = {2, -2}, bool[2] yes = {1, 1}> {
            p = Pad <mode = "constant"> (x, ones)
            m = Pad <mode = "reflect"> (p, pads)
            s = Shape (m)
            a, b, c, d = Split <axis = 0> (s)
            t = ConstantOfShape <value = bool[1] {0}> (c)
            k = ScatterElements (t, gone, yes)
            y = Compress <axis = 2> (m, k)
        }""",
    ),
    "a plugin node in a function": (
        {"target": "11", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2,6,4,3] x) => (float[2,6,4,3] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            axes = Constant <value: tensor = int64[1] {1}> ()
            e = Constant <value: tensor = float {0.001}> ()
            p = Constant <value: tensor = float {-0.5}> ()
            q = Mul (x, x)
            s = ReduceSum (q, axes)
            a = Add (s, e)
            i = Pow (a, p)
            y = Mul (x, i)
        }""",
    ),
    "a plugin node in a function of a file that has none": (
        {"target": "9.0", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[6,7,5] x) => (float[6,7,5] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            s = Constant <value = float[7] {2, 2, 0, 2, -1, -1, -1}> ()
            c = Constant <value = float[1,7,1] {2, 2, 0, 2, -1, -1, -1}> ()
            n = InstanceNormalization (x, s, s)
            y = Add (n, c)
        }""",
    ),
    "a plugin node in a function that stays": (
        {"target": "9.0", "plugins": ["surgeon"], "skip": ["inline"]},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[6,7,5] x) => (float[6,7,5] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 17]>
        F (x) => (y) {
            s = Constant <value = float[7] {2, 2, 0, 2, -1, -1, -1}> ()
            y = InstanceNormalization (x, s, s)
        }""",
    ),
    "slopes in a function that stays": (
        {"target": "10.9", "strategy": {"prelu": "decompose"}, "skip": ["inline"]},
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[6,7,5] x) => (float[6,7,5] y) { y = local.F (x) }
        <domain: "local", opset_import: ["" : 18]>
        F (x) => (y) {
            s = Constant <value = float[7,1] {2, 1, 0, 0.2, -1, 0, 1}> ()
            y = PRelu (x, s)
        }""",
    ),
    "a branch that is read twice": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3] x) => (float[N,3] y) <float one = {1}, bool taken = {1}> {
            y = If (taken) <
                then_branch = t () => (float[N,3] a) { n = Neg (x) e = Exp (n) s = Add (e, one) a = Reciprocal (s) },
                else_branch = f () => (float[N,3] b) { m = Neg (x) h = Exp (m) b = Add (h, one) }>
        }""",
    ),
    "a layer normalisation without a kernel": (
        {"target": "8.0", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4,2,3] x) => (float[N,4,2,3] y)
            <float[2,3] s = {1, 2, 3, 4, 5, 6}, float[2,3] b = {0.5, 1, -1, 2, 0.25, 3}> {
            y = LayerNormalization <axis = 2, epsilon = 0.001> (x, s, b)
        }""",
    ),
    "an epsilon that a function returns": (
        {"target": "8.4", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2,4,5,3] x) => (float[2,4,5,3] y) {
            e = local.Epsilon (x)
            m = ReduceMean <axes = [2, 3]> (x)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [2, 3]> (q)
            w = Add (v, e)
            s = Sqrt (w)
            y = Div (d, s)
        }
        <domain: "local", opset_import: ["" : 17]>
        Epsilon (x) => (e) { e = Constant <value: tensor = float {0.001}> () }""",
    ),
    "a lost epsilon in a function": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 9, "local" : 1]>
        g (float16[4,16] x) => (float16[4,16] y) { y = local.Unit (x) }
        <domain: "local", opset_import: ["" : 9]>
        Unit (x) => (y) {
            two = Constant <value: tensor = float16 {16384}> ()
            zero = Constant <value: tensor = float16 {0}> ()
            one = Constant <value: tensor = float16 {15360}> ()
            q = Pow (x, two)
            m = ReduceMean <axes: ints = [1]> (q)
            a = Add (m, zero)
            s = Sqrt (a)
            d = Div (one, s)
            y = Mul (x, d)
        }""",
    ),
    "constants beyond one that a function returns": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2,4] x) => (float[2,4] y) <int64[1] zero = {0}, int64[1] rest = {-1}> {
            n = local.Four (x)
            t = Concat <axis = 0> (zero, n)
            u = Reshape (t, rest)
            y = Reshape (x, u)
        }
        <domain: "local", opset_import: ["" : 17]>
        Four (x) => (n) { n = Constant <value: tensor = int64[1] {4}> () }""",
    ),
    "a scale that another rewrite has touched": (
        {"target": "8.4", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,4,5,N] x) => (float[2,4,5,N] y) <int64[2] axes = {2, 3}, float e = {0.001}> {
            m = ReduceMean (x, axes)
            d = Sub (x, m)
            n = ReduceMean (x, axes)
            c = Sub (x, n)
            q = Mul (c, c)
            v = ReduceMean (q, axes)
            w = Add (v, e)
            s = Sqrt (w)
            p = Mul (d, d)
            y = Div (p, s)
        }""",
    ),
    "a floor after inf in every row": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 9]>
        g (float[N,C] x) => (float[N,C] y) {
            n = ReduceL2 <axes = [-1], keepdims = 1> (x)
            c = Clip <min = 0.000001> (n)
            y = Div (x, c)
        }""",
    ),
    "groups with a computed shift": (
        {"target": "8.0"},
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[N,6,5,8] x, float[1,1,1,8,1] t) => (float[N,6,5,8] y)
            <int64[5] split = {-1, 6, 5, 8, 1}, float e = {0.001}, float[1,1,1,8,1] s = {1, 2, 3, 4, 5, 6, 7, 8}> {
            r = Reshape (x, split)
            m = ReduceMean <axes = [1, 2, 4]> (r)
            d = Sub (r, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [1, 2, 4]> (q)
            w = Add (v, e)
            u = Sqrt (w)
            i = Reciprocal (u)
            g = Mul (i, s)
            h = Mul (m, g)
            b = Sub (t, h)
            k = Mul (r, g)
            z = Add (k, b)
            f = Shape (x)
            y = Reshape (z, f)
        }""",
    ),
    "half a layer normalisation with a computed shift": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float16[2,3,4] x, float16[M] b) => (float16[2,3,4] y) <float16[4] s = {15360, 16384, 16896, 17408}> {
            y = LayerNormalization <epsilon = 0.001> (x, s, b)
        }""",
    ),
    "half an instance normalisation, channels last, with a computed scale": (
        {"target": "9.3"},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float16[N,H,W,4] x, float16[4] s) => (float16[N,H,W,4] y)
            <float16[4] b = {15360, 16384, 16896, 17408}, float16 e = {5145}> {
            m = ReduceMean <axes = [1, 2]> (x)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [1, 2]> (q)
            w = Add (v, e)
            u = Sqrt (w)
            i = Reciprocal (u)
            g = Mul (i, s)
            h = Mul (m, g)
            t = Sub (b, h)
            k = Mul (x, g)
            y = Add (k, t)
        }""",
    ),
    "half an instance normalisation with a computed scale, and the stock plugin": (
        {"target": "8.4", "plugins": ["stock"]},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float16[N,4,H,W] x, float16[4] a) => (float16[N,4,H,W] y) <float16[4] b = {0, 0, 0, 0}> {
            s = Relu (a)
            y = InstanceNormalization <epsilon = 0.001> (x, s, b)
        }""",
    ),
    "channels that only the scale tells": (
        {"target": "8.4", "plugins": ["stock"]},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,C,H,W] x) => (float[N,C,H,W] y) <float[4] s = {1, 2, 3, 4}, float[4] b = {0.5, 1, -1, 2}> {
            n = InstanceNormalization <epsilon = 0.001> (x, s, b)
            y = LeakyRelu <alpha = 0.25> (n)
        }""",
    ),
    "channels that only a computed scale tells": (
        {"target": "9.3"},
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N,C,H,W] x, float[4] s, float[4] b) => (float[N,C,H,W] y) {
            y = GroupNormalization <num_groups = 2> (x, s, b)
        }""",
    ),
    "a reader of a group normalisation": (
        {"target": "10.9"},
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float16[N,4,H,W] x, float16[4] s, float16[4] b) => (float16[N,4,H,W] y) {
            n = GroupNormalization <num_groups = 2> (x, s, b)
            p = Softplus (n)
            t = Tanh (p)
            y = Mul (n, t)
        }""",
    ),
    "axes of a graph around": (
        {"target": "rtx"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[N,4] x, bool c) => (float[N,4] y) <float e = {0.001}, int64[1] one = {1}, int64[1] rest = {-1}> {
            axes = Reshape (one, rest)
            y = If (c) <
                then_branch = t () => (float[N,4] a) {
                    n = ReduceL2 (x, axes)
                    l = CastLike (e, n)
                    m = Max (n, l)
                    a = Div (x, m)
                },
                else_branch = f () => (float[N,4] b) { b = Neg (x) }>
        }""",
    ),
    "sizes that an If returns and ONNX does not infer": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 21]>
        g (float[N,4,8,8] x, bool taken) => (float[A,B,C,D] y)
            <float[2] g = {1, 2}, float[4] c = {1, 2, 3, 4}, float[4,1,1] slope = {0.1, 0.1, 0.1, 0.1}> {
            f = If (taken) <
                then_branch = t () => (float[A,B,C,D] a) { a = GroupNormalization <num_groups = 2> (x, c, c) },
                else_branch = e () => (float[A,B,C,D] b) { b = GroupNormalization <num_groups = 2> (x, c, c) }>
            y = PRelu (f, slope)
        }""",
    ),
    "sizes that a Loop returns and ONNX does not infer": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 21]>
        g (float[N,4,8,8] x) => (float[A,B,C,D] y, float[A,B,C,D,E] z)
            <int64 n = {2}, bool on = {1}, float[4] c = {1, 2, 3, 4}, float[4,1,1] slope = {0.1, 0.1, 0.1, 0.1}> {
            f, t = Loop (n, on, x) <
                body = l (int64 i, bool go, float[A,B,C,D] p) => (bool more, float[A,B,C,D] r, float[A,B,C,D] s) {
                    more = Identity (go)
                    r = GroupNormalization <num_groups = 2> (p, c, c)
                    s = Neg (r)
                }>
            y = PRelu (f, slope)
            z = PRelu (t, slope)
        }""",
    ),
    "a tensor in a branch expanded to its own shape, after axes of the graph around": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[N,4,6] x, bool taken) => (float[N,4,6] y) <float e = {0.001}, float one = {1}, int64[1] ax = {-1}> {
            y = If (taken) <
                then_branch = t () => (float[N,4,6] a) {
                    q = Mul (x, x)
                    m = ReduceMean (q, ax)
                    w = Add (m, e)
                    r = Sqrt (w)
                    i = Div (one, r)
                    n = Mul (x, i)
                    s = Shape (x)
                    k = Expand (n, s)
                    a = Neg (k)
                },
                else_branch = f () => (float[N,4,6] b) { b = Relu (x) }>
        }""",
    ),
    "a number of dimensions that only a run tells": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[N,1,W] x) => (float[K] y) <int64[1] flat = {-1}> {
            n = Squeeze (x)
            p = Softplus (n)
            t = Tanh (p)
            m = Mul (n, t)
            y = Reshape (m, flat)
        }""",
    ),
    "Bessel's correction and a computed scale": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4,5,3] x, float[1,4,1,1] s) => (float[N,4,5,3] y)
            <float k = {15}, float l = {14}, float e = {0.001}> {
            m = ReduceMean <axes = [2, 3]> (x)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean <axes = [2, 3]> (q)
            a = Mul (v, k)
            b = Div (a, l)
            w = Add (b, e)
            u = Sqrt (w)
            n = Div (d, u)
            y = Mul (n, s)
        }""",
    ),
    "a mean of squares times a number": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 9]>
        g (float[8,16] x) => (float[8,16] y) <float k = {0.000001}> {
            q = Mul (x, x)
            s = ReduceSum <axes = [-1]> (q)
            m = Mul (s, k)
            r = Sqrt (m)
            y = Div (x, r)
        }""",
    ),
    "a scale of ones beside a shift of another shape": (
        {"target": "8.4"},
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[N,6,5,4] x, float[1,1,5,1] b) => (float[N,6,5,4] y)
            <int64[1] last = {3}, float[1,1,1,4] s = {1, 1, 1, 1}, float e = {0.001}> {
            m = ReduceMean (x, last)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean (q, last)
            w = Add (v, e)
            u = Sqrt (w)
            i = Reciprocal (u)
            g = Mul (i, s)
            h = Mul (m, g)
            t = Sub (b, h)
            k = Mul (x, g)
            y = Add (k, t)
        }""",
    ),
    "a bare instance normalisation of three dimensions": (
        {"target": "9.3"},
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4,72] x) => (float[N,4,72] y) <float[4] one = {1, 1, 1, 1}, float[4] zero = {0, 0, 0, 0}> {
            y = InstanceNormalization <epsilon = 0.001> (x, one, zero)
        }""",
    ),
    "a size that only the newer node needs": (
        {"target": "8.0"},
        """<ir_version: 8, opset_import: ["" : 23]>
        g (float[N,C,H] x) => (float[N,C,H] y) <float e = {0.5}, int64[1] last = {2}, float[1] s = {1.5}> {
            q = Mul (x, x)
            v = ReduceMean (q, last)
            w = Add (v, e)
            r = Sqrt (w)
            i = Reciprocal (r)
            n = Mul (x, i)
            y = Mul (n, s)
        }""",
    ),
    "the same of a layer normalisation that lost its epsilon": (
        {"target": "8.0"},
        """<ir_version: 8, opset_import: ["" : 22]>
        g (float[N,4,H,W,D] x, float[1] b) => (float[N,4,H,W,D] y) <float e = {0}, int64[1] last = {-1}> {
            m = ReduceMean (x, last)
            d = Sub (x, m)
            q = Mul (d, d)
            v = ReduceMean (q, last)
            w = Add (v, e)
            r = Sqrt (w)
            i = Reciprocal (r)
            n = Mul (d, i)
            y = Add (n, b)
        }""",
    ),
    "an epsilon that half precision does not hold, in a branch": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float16[N,4] x) => (float16[N,4] y) <bool taken = {1}> {
            y = If (taken) <
                then_branch = t () => (float16[N,4] a) {
                    k = Constant <value = float {1e-12}> ()
                    e = Cast <to = 10> (k)
                    n = ReduceL2 <axes = [1]> (x)
                    m = Clip (n, e)
                    a = Div (x, m)
                },
                else_branch = f () => (float16[N,4] b) { b = Neg (x) }>
        }""",
    ),
    "a Relu after a computed shift": (
        {"target": "8.0", "plugins": ["surgeon"]},
        """<ir_version: 8, opset_import: ["" : 9]>
        g (float[N,4,H] x, float[4] b) => (float[N,4,H] y) <float[4] s = {1.5, 0.5, -0.5, -1.5}> {
            n = InstanceNormalization <epsilon = 0.001> (x, s, b)
            y = Relu (n)
        }""",
    ),
    "slopes between transposes that name no axes": (
        {"target": "10.9"},
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2,3,4] x) => (float[2,3,4] y) <float[4,3,1] s = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
            a = Relu (x)
            n = Neg (x)
            r = Relu (n)
            t = Transpose (r)
            m = Mul (t, s)
            k = Transpose (m)
            y = Add (a, k)
        }""",
    ),
}


def misread_here(original: onnx.ModelProto, rewritten: onnx.ModelProto) -> bool:
    """Whether the installed ONNX Runtime computes one of the models otherwise than ONNX says: 1.23 runs the first
    function for each overload, and reads beyond an axis that it wraps around more than once."""
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) > (1, 23):
        return False
    wraps = any(n.op_type == "Pad" and a.s == b"wrap" for n in original.graph.node for a in n.attribute)
    return wraps or any(f.overload for f in rewritten.functions)


@pytest.mark.parametrize("verify", ["none", "window"])
@pytest.mark.parametrize("name", SOUND)
def test_sound(name: str, verify: str) -> None:
    """Equal, valid, proved, and found as it is by a second run."""
    options, text = SOUND[name]
    model = onnx.parser.parse_model(text)
    require_opset(model.opset_import[0].version)
    onnx.checker.check_model(model, full_check=True)
    result = surgeon.rewrite(model, verify=verify, **options)
    assert not result.report.undone, result.report.undone
    assert not [d for d in result.report.declined if "unproved" in d.why], result.report.declined
    onnx.checker.check_model(result.model, full_check=True)
    runnable = with_functions(result.model)
    if not misread_here(model, runnable):
        _, why = compare_models(model, runnable)
        assert not why, why
    again = surgeon.rewrite(result.model, verify=verify, **options)
    assert not again.report.applied, again.report.applied
    assert again.model.SerializeToString(deterministic=True) == result.model.SerializeToString(deterministic=True)


# Models that are none, which onnx.checker takes all the same: they stay as they are, and nothing is raised.
INVALID: dict[str, tuple[str, str]] = {
    "a shape with fewer elements than are moved there": (
        "8.4",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[1,H,W,3] x) => (float[A,B,C,D] y)
            <int32[1] nought = {0}, int32[1,2] none = {0, 0}, int64[1] zero = {0}, int64[1] one = {1},
             int64[1] two = {2}, int32[1] four = {4}> {
            s = Shape (x)
            c = Cast <to = 6> (s)
            h = Slice (c, one, two, zero)
            k = Sub (h, four)
            pair = Concat <axis = 0> (nought, k)
            row = Unsqueeze (pair, zero)
            rows = Concat <axis = 0> (none, row, row, none)
            long = Cast <to = 7> (rows)
            turned = Transpose (long)
            pads = Reshape (turned, two)
            y = Pad <mode = "reflect"> (x, pads)
        }""",
    ),
    "pads of other dimensions": (
        "8.4",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[M] x) => (float[N] y) <int64[4] pads = {0, -1, 0, -1}> { y = Pad (x, pads) }""",
    ),
    "less than no groups": (
        "10.8",
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N,4,H,W] x) => (float[N,4,H,W] y) <float[4] s = {1, 2, 3, -4}, float[4] b = {0.5, 1, -1, 2}> {
            y = GroupNormalization <num_groups: int = -2> (x, s, b)
        }""",
    ),
    "an instance without axes": (
        "8.4",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3] x) => (float[N,3] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 0, 0}> {
            y = InstanceNormalization (x, s, b)
        }""",
    ),
    "half of a Shape in bfloat16": (
        "7.2",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (bfloat16[N,3,4] x) => (int64[2] y) { y = Shape <start: int = 1> (x) }""",
    ),
    "a position that there is not": (
        "8.4",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[A,B,C] x) => (float[D,E] y)
            <int64[2,2] twos = {1, 2, 2, 1}, int64 first = {2}, int64[2,2] at = {0, 1, 1, 2}> {
            s = Shape (x)
            m = Gather (s, at)
            n = Mul (twos, m)
            row = Gather <axis = 0> (n, first)
            y = ConstantOfShape (row)
        }""",
    ),
    "a scale of three dimensions": (
        "10.9",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,2,H,W] x) => (float[N,2,H,W] y)
            <float[2,1,1] s = {1.5, -2}, float[2] b = {0.25, 3}, float[2,1,1] gamma = {2, 4}> {
            n = InstanceNormalization (x, s, b)
            y = Mul (n, gamma)
        }""",
    ),
    "an edge of nothing": (
        "8.2",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,C,0,W] x) => (float[N,C,2,W] y) <int64[2] left = {1, 0}> {
            l = Gather <axis = 2> (x, left)
            y = Concat <axis = 2> (l, x)
        }""",
    ),
    "the mean of nothing": (
        "7.2",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,0,4,3] x) => (float[2,0,4,3] y)
            <int64[1] axes = {1}, float e = {0.001}, float c = {0.25}, float p = {-0.5}> {
            q = Mul (x, x)
            s = ReduceSum (q, axes)
            m = Mul (s, c)
            a = Add (m, e)
            i = Pow (a, p)
            y = Mul (x, i)
        }""",
    ),
    "a step of nothing": (
        "10.9",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3,4,5] x) => (float[2,3,4,W] y) <int64[1] zero = {0}, int64[1] three = {3}, int64[1] axis = {3}> {
            l = Slice (x, zero, three, axis, zero)
            y = Concat <axis = 3> (l, x)
        }""",
    ),
    "pads of a mode that there is not": (
        "8.0",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,H] x) => (float[2,W] y) <int64[4] pads = {0, 1, 0, 1}> { y = Pad <mode = "SAME"> (x, pads) }""",
    ),
    "one pad": (
        "8.4",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3] x) => (float[A,B] y) <int64[1] pads = {1}> { y = Pad <mode = "reflect"> (x, pads) }""",
    ),
    "axes that there are not": (
        "8.4",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> {
            m = ReduceMean <axes = [0, 1], keepdims = 0> (w)
            y = Mul (x, m)
        }""",
    ),
}


@pytest.mark.parametrize("verify", ["none", "window"])
@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str, verify: str) -> None:
    target, text = INVALID[name]
    model = onnx.parser.parse_model(text)
    require_opset(model.opset_import[0].version)
    try:
        result = surgeon.rewrite(model, target=target, verify=verify)
    except ModelError as error:  # with a proof ONNX Runtime is asked, too
        assert verify == "window" and str(error).startswith("ONNX forbids the model")
        return
    operators = [{n.op_type for n in m.graph.node} for m in (model, result.model)]
    assert operators[0] == operators[1]


def test_inputs_without_elements() -> None:
    for _, feeds in feeds_of([("x", onnx.TensorProto.FLOAT, (2, 0, 3))]):
        assert feeds["x"].shape == (2, 0, 3)


def test_no_size_is_chosen_that_takes_all_memory() -> None:
    named = [("x", onnx.TensorProto.FLOAT, tuple("ABCDEF"))]
    assert len(list(sized_inputs(named, largest_pad=1, fixed={}))) == 2
    assert not list(sized_inputs(named, largest_pad=1, fixed={}, choice=SizeChoice(longer=1024)))
    for size, count in ((MOST_ELEMENTS // 2, 1), (MOST_ELEMENTS // 2 + 1, 0)):
        static = [("x", onnx.TensorProto.FLOAT, (size, 2))]
        assert len(list(sized_inputs(static, largest_pad=1, fixed={}))) == count
