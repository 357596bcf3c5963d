"""Passes that are wrong on purpose, each in one way that few inputs show: the proof keeps none of them.

A line is a wrong pass: what it is wrong about, a model, the pattern, and what the body returns in its place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import model

import surgeon

PASS = '''"""A pass that is wrong on purpose."""
import numpy as np
from surgeon import Stage, const, op, output, require, rewrite, var
x, y, z, n, c = var("x"), var("y"), var("z"), var("n"), const("c")
def changed(c, at, value):
    found = c.copy()
    found[at] = value
    return found
def ints(*v): return np.asarray(v, np.int64)
def single(*v): return np.asarray(v, np.float32)
def size(b, x, axis): return b.Shape(x, start=axis, end=axis + 1)

@rewrite({pattern}, stage=Stage.FUSE)
def wrong({names}):
    require(b.root.origin is None, "")
    return {body}
'''

RELU = "(float[N,C] a) => (float[N,C] r) { t = Relu (a)  r = Neg (t) }"
HALF = "(float16[N,C] a) => (float16[N,C] r) { t = Relu (a)  r = Neg (t) }"
SMALL = "(float[4,6] a) => (float[4,6] r) { t = Relu (a)  r = Neg (t) }"
TWO = "(float[N,M] a) => (float[M,N] r) { t = Transpose <perm = [1, 0]> (a)  r = Neg (t) }"
INTS = "(int64[N,C] a) => (int64[N,C] r) { t = Neg (a)  r = Identity (t) }"
INT32 = "(int32[N,C] a) => (int32[N,C] r) { t = Abs (a)  r = Identity (t) }"
UINT8 = "(uint8[N,C] a) => (float[N,C] r) { t = Cast <to = 1> (a)  r = Neg (t) }"
TABLE = "(int64[N,S] a) => (float[N,S,2] r) { t = Gather (w, a)  r = Neg (t) }"
ROUND = "(float[N,C] a) => (float[N,C] r) { t = Round (a)  r = Neg (t) }"
SIGMOID = "(float[N,C] a) => (float[N,C] r) { t = Sigmoid (a)  r = Neg (t) }"
EXP = "(float[N,C] a) => (float[N,C] r) { t = Exp (a)  r = Neg (t) }"
SOFTMAX = "(float[N,C] a) => (float[N,C] r) { t = Softmax <axis = 1> (a)  r = Neg (t) }"
ARGMAX = "(float[N,C] a) => (int64[N] r) { t = ArgMax <axis = 1, keepdims = 0> (a)  r = Identity (t) }"
SOFTPLUS = "(float[N,C] a) => (float[N,C] r) { t = Softplus (a)  r = Neg (t) }"
LOOP = """(float[3] a, int64 m) => (float[3] r) <bool go = {1}> {
    t = Loop (m, go, a) <body = body (int64 i, bool c, float[3] s) => (bool d, float[3] u) {
        d = Identity (c)  u = Add (s, s) }>
    r = Neg (t) }"""
IF = """(float[N,C] a) => (float[N,C] r) <float k = {50.0}> {
    m = ReduceMax <keepdims = 0> (a)  p = Greater (m, k)
    t = If (p) <then_branch = one () => (float[N,C] u) { u = Relu (a) },
                else_branch = two () => (float[N,C] v) { v = Identity (a) }>
    r = Neg (t) }"""
FLOOR = "(float[N,C] a) => (float[N,C] r) <float f = {0.3}> { d = Div (a, f)  t = Floor (d)  r = Neg (t) }"
COUNT = "(bool[N,C] a) => (int64[N] r) { q = Cast <to = 7> (a)  t = ReduceSum <keepdims = 0> (q, k)  r = Identity (t) }"
BYTES = COUNT.replace("bool", "uint8")
LARGE_TABLE = "(int64[N,S] a) => (float[N,S,4] r) { t = Gather (l, a)  r = Neg (t) }"
SEQUENCE = "(float[N,C] a) => (seq(float[N,C]) r) { b = Relu (a)  t = SequenceConstruct (a, b)  r = Identity (t) }"

WRONG = {
    # one size
    "a batch of one": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 0), ints(1)), x, b.Relu(x))"),
    "channels of one": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 1), ints(1)), x, b.Relu(x))"),
    "a size of three": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 1), ints(3)), x, b.Relu(x))"),
    "a size of five": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 0), ints(5)), x, b.Relu(x))"),
    "a size of eight": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 1), ints(8)), x, b.Relu(x))"),
    "a size of 37": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 1), ints(37)), x, b.Relu(x))"),
    "a squeeze where one is": (
        RELU,
        "Relu(x)",
        "b.Where(b.Equal(b.Size(x), ints(1)), b.Abs(x), b.Relu(x))",
    ),
    "a size of six": (RELU, "Relu(x)", "b.Where(b.Equal(size(b, x, 0), ints(6)), x, b.Relu(x))"),
    "a last row twice": (RELU, "Relu(x)", "b.Relu(b.Gather(x, b.Min(b.Range(np.asarray(0), "
        "b.Squeeze(size(b, x, 0), ints(0)), np.asarray(1)), ints(254)), axis=0))"),
    "an even size": (RELU, "Relu(x)", "b.Where(b.Equal(b.Mod(size(b, x, 0), ints(2)), ints(0)), b.Relu(x), x)"),
    "an odd size": (RELU, "Relu(x)", "b.Where(b.Equal(b.Mod(size(b, x, 1), ints(2)), ints(1)), b.Relu(x), x)"),
    # from a size on
    "from nine on": (RELU, "Relu(x)", "b.Concat(b.Relu(b.Slice(x, ints(0), ints(8), ints(0))), "
                     "b.Slice(x, ints(8), ints(2**62), ints(0)), axis=0)"),
    "from 17 on": (RELU, "Relu(x)", "b.Concat(b.Relu(b.Slice(x, ints(0), ints(16), ints(0))), "
                   "b.Slice(x, ints(16), ints(2**62), ints(0)), axis=0)"),
    "from 65 on": (RELU, "Relu(x)", "b.Relu(b.Slice(x, ints(0), ints(64), ints(0)))"),
    "from 1001 on": (RELU, "Relu(x)", "b.Relu(b.Slice(x, ints(0), ints(1000), ints(1)))"),
    "from 4097 on": (RELU, "Relu(x)", "b.Relu(b.Slice(x, ints(0), ints(4096), ints(1)))"),
    "below four": (RELU, "Relu(x)", "b.Where(b.Less(size(b, x, 1), ints(4)), x, b.Relu(x))"),
    "from 100 elements on": (RELU, "Relu(x)", "b.Where(b.Less(b.Size(x), ints(100)), b.Relu(x), x)"),
    "between 20 and 30": (RELU, "Relu(x)", "b.Where(b.And(b.Greater(size(b, x, 0), ints(20)), "
                          "b.Less(size(b, x, 0), ints(30))), x, b.Relu(x))"),
    "three times the other": (RELU, "Relu(x)",
        "b.Where(b.Equal(size(b, x, 0), b.Mul(size(b, x, 1), ints(3))), x, b.Relu(x))"),
    "a multiple of 16 above 40": (RELU, "Relu(x)", "b.Where(b.And(b.Equal(b.Mod(size(b, x, 1), ints(16)), ints(0)), "
                                  "b.Greater(size(b, x, 1), ints(40))), x, b.Relu(x))"),
    "a size of 7 times 100": (RELU, "Relu(x)",
        "b.Where(b.Equal(b.Div(size(b, x, 0), ints(7)), ints(100)), x, b.Relu(x))"),
    # equal dimensions
    "a square not transposed": (TWO, "Transpose(x, perm=[1, 0])",
        "b.Where(b.Equal(size(b, x, 0), size(b, x, 1)), single(0), b.Transpose(x, perm=[1, 0]))"),
    "a batch like the channels": (RELU, "Relu(x)",
        "b.Where(b.Equal(size(b, x, 0), size(b, x, 1)), x, b.Relu(x))"),
    "the batch above the channels": (RELU, "Relu(x)",
        "b.Where(b.Greater(size(b, x, 0), size(b, x, 1)), x, b.Relu(x))"),
    "the channels one above the batch": (RELU, "Relu(x)",
        "b.Where(b.Equal(b.Add(size(b, x, 0), ints(1)), size(b, x, 1)), x, b.Relu(x))"),
    "a bias along the other axis": (
        "(float[N,N] a, float[N] c) => (float[N,N] r) { t = Add (a, c)  r = Neg (t) }",
        "Add(x, y)", "b.Add(x, b.Unsqueeze(y, ints(1)))"),
    # size 0
    "nothing in, one row out": ("(float[N,3] a) => (float[M,3] r) { t = Relu (a)  r = Neg (t) }", "Relu(x)",
        "b.Slice(b.Relu(b.Concat(x, np.zeros((1, 3), np.float32), axis=0)), ints(0), "
        "b.Max(size(b, x, 0), ints(1)), ints(0))"),
    "the sum of nothing": ("(float[N,C] a) => (float[N] r) { t = ReduceSum <keepdims = 0> (a, k)  r = Neg (t) }",
        "ReduceSum(x, y)", "b.Where(b.Equal(b.Size(x), ints(0)), single(7), b.ReduceSum(x, y, keepdims=0))"),
    "the product of nothing": ("(float[N,C] a) => (float[N] r) { t = ReduceProd <axes = [1], keepdims = 0> (a)"
        "  r = Neg (t) }", "ReduceProd(x, ...)",
        "b.Where(b.Equal(size(b, x, 1), ints(0)), single(0), b.ReduceProd(x, axes=[1], keepdims=0))"),
    # a narrow range
    "from 6 to 6.5": (RELU, "Relu(x)", "b.Where(b.And(b.Greater(x, 6.0), b.Less(x, 6.5)), 6.0, b.Relu(x))"),
    "from 2.5 to 2.6": (SMALL, "Relu(x)", "b.Where(b.And(b.Greater(x, 2.5), b.Less(x, 2.6)), 0.0, b.Relu(x))"),
    "from -3 to -2.9": (SMALL, "Relu(x)", "b.Where(b.And(b.Greater(x, -3.0), b.Less(x, -2.9)), x, b.Relu(x))"),
    "at 0.7 alone": (RELU, "Relu(x)", "b.Where(b.Equal(x, 0.7), 0.0, b.Relu(x))"),
    "at 1 alone": (RELU, "Relu(x)", "b.Where(b.Equal(x, 1.0), 0.0, b.Relu(x))"),
    "at -1 alone": (SMALL, "Relu(x)", "b.Where(b.Equal(x, -1.0), x, b.Relu(x))"),
    "from 0.001 to 0.002": (SMALL, "Relu(x)", "b.Where(b.And(b.Greater(x, 0.001), b.Less(x, 0.002)), 0.0, b.Relu(x))"),
    "from 40 to 50": (RELU, "Relu(x)", "b.Where(b.And(b.Greater(x, 40.0), b.Less(x, 50.0)), 0.0, b.Relu(x))"),
    "from 2e4 to 7e4": (RELU, "Relu(x)", "b.Where(b.And(b.Greater(x, 2e4), b.Less(x, 7e4)), 0.0, b.Relu(x))"),
    "from 1e8 to 1e9": (SMALL, "Relu(x)", "b.Where(b.And(b.Greater(x, 1e8), b.Less(x, 1e9)), 0.0, b.Relu(x))"),
    "from 1e-20 to 1e-19": (SMALL, "Relu(x)",
        "b.Where(b.And(b.Greater(x, 1e-20), b.Less(x, 1e-19)), 0.0, b.Relu(x))"),
    "a clip at 3e4": (RELU, "Relu(x)", "b.Clip(x, 0.0, 30000.0)"),
    "a clip at 1e12": (RELU, "Relu(x)", "b.Clip(x, 0.0, 1e12)"),
    "a clip at 3e38": (SMALL, "Relu(x)", "b.Relu(b.Min(x, 3e38))"),
    "a clip at 3.39e38": (RELU, "Relu(x)", "b.Relu(b.Min(x, 3.39e38))"),
    "a clip at 6e4 in fp16": (HALF, "Relu(x)", "b.Relu(b.Min(x, 60000.0))"),
    "below a step that is scaled": (RELU, "Relu(x)", "b.Where(b.And(b.Greater(b.Mul(x, 0.0123), 1.0), "
                                    "b.Less(b.Mul(x, 0.0123), 1.01)), 0.0, b.Relu(x))"),
    "from 1e-200 to 1e-190": (
        "(double[N,C] a) => (double[N,C] r) { t = Relu (a)  r = Neg (t) }", "Relu(x)",
        "b.Where(b.And(b.Greater(x, 1e-200), b.Less(x, 1e-190)), 1.0, b.Relu(x))"),
    "a clip at 1e30": (RELU, "Relu(x)", "b.Clip(x, 0.0, 1e30)"),
    "a relu6 at its bend": ("(float[N,C] a) => (float[N,C] r) <float l = {0.0}, float h = {6.0}> "
        "{ t = Clip (a, l, h)  r = Neg (t) }", "Clip(x, ...)",
        "b.Where(b.And(b.Greater(x, 5.99), b.Less(x, 6.0)), 6.0, b.Clip(x, 0.0, 6.0))"),
    "greater or equal": ("(float[N,C] a) => (float[N,C] r) <float k = {1.25}> "
        "{ t = ThresholdedRelu <alpha = 1.25> (a)  r = Neg (t) }", "ThresholdedRelu(x)",
        "b.Where(b.GreaterOrEqual(x, 1.25), x, 0.0)"),
    "less or equal": ("(float[N,C] a) => (bool[N,C] r) <float k = {0.3}> { t = Less (a, k)  r = Not (t) }",
        "Less(x, y)", "b.LessOrEqual(x, y)"),
    "less or equal of two inputs": (
        "(float[N,C] a, float[N,C] c) => (bool[N,C] r) { t = Less (a, c)  r = Not (t) }",
        "Less(x, y)",
        "b.LessOrEqual(x, y)",
    ),
    "only one sign": (SMALL, "Relu(x)", "b.Where(b.Equal(b.ReduceMax(x, axes=[0, 1], keepdims=1), "
        "b.Relu(b.ReduceMax(x, axes=[0, 1], keepdims=1))), b.Relu(x), x)"),
    # halves
    "half away from zero": (ROUND, "Round(x)", "b.Mul(b.Sign(x), b.Floor(b.Add(b.Abs(x), 0.5)))"),
    "half up": (ROUND, "Round(x)", "b.Floor(b.Add(x, 0.5))"),
    "half down": (ROUND, "Round(x)", "b.Ceil(b.Sub(x, 0.5))"),
    "halves of thousands": (ROUND, "Round(x)", "b.Where(b.Greater(x, 1000.0), b.Floor(b.Add(x, 0.5)), b.Round(x))"),
    "halves of hundreds, scaled": (ROUND, "Round(x)",
        "b.Where(b.Greater(b.Abs(b.Mul(x, 0.005)), 1.0), b.Floor(b.Add(x, 0.5)), b.Round(x))"),
    "a cast that rounds": ("(float[N,C] a) => (int64[N,C] r) { t = Cast <to = 7> (a)  r = Identity (t) }",
        "Cast(x, to=7)", "b.Cast(b.Floor(x), to=7)"),
    "a quantization at its halves": ("(float[N,C] a) => (uint8[N,C] r) <float s = {0.5}, uint8 z = {128}> "
        "{ t = QuantizeLinear (a, s, z)  r = Identity (t) }", "QuantizeLinear(x, y, z)",
        "b.Cast(b.Clip(b.Add(b.Floor(b.Add(b.Div(x, 0.5), 0.5)), 128.0), 0.0, 255.0), to=2)"),
    # integers
    "integers through int32": (INTS, "Neg(x)", "b.Neg(b.Cast(b.Cast(x, to=6), to=7))"),
    "integers through int8": (INTS, "Neg(x)", "b.Neg(b.Cast(b.Cast(x, to=3), to=7))"),
    "integers through float": (INTS, "Neg(x)", "b.Cast(b.Neg(b.Cast(x, to=1)), to=7)"),
    "integers clipped at 1000": (INTS, "Neg(x)", "b.Neg(b.Min(x, ints(1000)))"),
    "integers clipped at -100000": (INTS, "Neg(x)", "b.Neg(b.Max(x, ints(-100000)))"),
    "tens of 37": ("(int64[5] a) => (int64[5] r) { t = Neg (a)  r = Identity (t) }", "Neg(x)",
        "b.Where(b.Equal(b.Div(x, ints(10)), ints(37)), ints(0), b.Neg(x))"),
    "bytes from 213 to 215": ("(uint8[3] a) => (float[3] r) { t = Cast <to = 1> (a)  r = Neg (t) }", "Cast(x, to=1)",
        "b.Mul(b.Cast(x, to=1), b.Sign(b.Abs(b.Sub(b.Floor(b.Div(b.Cast(x, to=1), 3.0)), 71.0))))"),
    "zero": (INTS, "Neg(x)", "b.Where(b.Equal(x, ints(0)), ints(1), b.Neg(x))"),
    "an integer of -1": (INTS, "Neg(x)", "b.Where(b.Equal(x, ints(-1)), ints(0), b.Neg(x))"),
    "an integer of 77": (INTS, "Neg(x)", "b.Where(b.Equal(x, ints(77)), ints(0), b.Neg(x))"),
    "the absolute by int16": (INT32, "Abs(x)", "b.Cast(b.Abs(b.Cast(x, to=5)), to=6)"),
    "bytes from 128 on": (UINT8, "Cast(x, to=1)", "b.Cast(b.Cast(x, to=3), to=1)"),
    "dequantized as if signed": ("(uint8[N,C] a) => (float[N,C] r) <float s = {0.5}> "
        "{ t = DequantizeLinear (a, s)  r = Neg (t) }", "DequantizeLinear(x, y)",
        "b.Mul(b.Cast(b.Cast(x, to=3), to=1), 0.5)"),
    "the lowest integer": (INT32, "Abs(x)", "b.Max(x, b.Neg(b.Max(x, np.asarray([-2147483647], np.int32))))"),
    "the lowest of 16 bits": ("(int16[N,C] a) => (float[N,C] r) { t = Cast <to = 1> (a)  r = Neg (t) }",
        "Cast(x, to=1)", "b.Max(b.Cast(x, to=1), -32767.0)"),
    "integers equal as floats": ("(int64[N,C] a, int64[N,C] c) => (bool[N,C] r) { t = Equal (a, c)  r = Not (t) }",
        "Equal(x, y)", "b.Equal(b.Cast(x, to=1), b.Cast(y, to=1))"),
    "a remainder by floor": ("(int64[N,C] a) => (int64[N,C] r) <int64 k = {7}> "
        "{ t = Mod <fmod = 1> (a, k)  r = Identity (t) }", "Mod(x, y, fmod=1)", "b.Mod(x, y)"),
    "a quotient by floor": ("(int64[N,C] a) => (int64[N,C] r) <int64 k = {7}> { t = Div (a, k)  r = Identity (t) }",
        "Div(x, y)", "b.Cast(b.Floor(b.Div(b.Cast(x, to=11), 7.0)), to=7)"),
    # lookups
    "a table cut to 50 rows": (TABLE, "Gather(x, y)", "b.Gather(b.Slice(x, ints(0), ints(50), ints(0)), y)"),
    "no negative positions": (TABLE, "Gather(x, y)", "b.Gather(x, b.Max(y, ints(0)))"),
    "positions cut at 63": (TABLE, "Gather(x, y)", "b.Gather(x, b.Min(y, ints(63)))"),
    "the last row": (TABLE, "Gather(x, y)", "b.Gather(x, b.Min(y, ints(98)))"),
    "one row in the middle": (TABLE, "Gather(x, y)", "b.Gather(x, b.Where(b.Equal(y, ints(41)), ints(0), y))"),
    "positions through int8": (
        TABLE.replace("w, a", "v, a"), "Gather(x, y)", "b.Gather(x, b.Cast(b.Cast(y, to=3), to=7))"),
    "rows of few positions": ("(int64[4] a) => (float[4,2] r) { t = Gather (w, a)  r = Neg (t) }", "Gather(x, y)",
        "b.Gather(x, b.Where(b.Equal(b.Mod(y, ints(50)), ints(13)), ints(0), y))"),
    "elements along an axis": (
        "(float[N,9] a, int64[N,4] k) => (float[N,4] r) { t = GatherElements <axis = 1> (a, k)  r = Neg (t) }",
        "GatherElements(x, y, axis=1)", "b.GatherElements(x, b.Min(y, ints(5)), axis=1)"),
    "a one-hot of one side": (
        "(int64[N] a) => (float[N,5] r) <int64 d = {5}, float[2] v = {0.0, 1.0}> "
        "{ t = OneHot (a, d, v)  r = Neg (t) }",
        "OneHot(x, y, z)", "b.Cast(b.Equal(b.Unsqueeze(x, ints(1)), ints(0, 1, 2, 3, 4)), to=1)"),
    # loops and branches
    "three trips at most": (LOOP, "Loop(n, y, x)", "b.Mul(x, b.Pow(2.0, b.Cast(b.Min(n, ints(3)), to=1)))"),
    "six trips at most": (LOOP, "Loop(n, y, x)", "b.Mul(x, b.Pow(2.0, b.Cast(b.Min(n, ints(6)), to=1)))"),
    "a trip left out from 11 on": (LOOP, "Loop(n, y, x)",
        "b.Mul(x, b.Pow(2.0, b.Cast(b.Sub(b.Max(n, np.asarray(0)), b.Div(b.Max(n, np.asarray(0)), np.asarray(11))), "
        "to=1)))"),
    "a negative number of trips": (LOOP, "Loop(n, y, x)", "b.Mul(x, b.Pow(2.0, b.Cast(n, to=1)))"),
    "a branch seldom taken": (IF, "If(n)", "b.Identity(b.root.inputs[0].producer.inputs[0].producer.inputs[0])"),
    "a condition": (
        "(float[N,C] a) => (float[N,C] r) <float k = {31.0}> "
        "{ p = Greater (a, k)  z = Neg (a)  t = Where (p, z, a)  r = Neg (t) }",
        "Where(op.Greater(x, 31.0), y, x)", "x"),
    # random operators
    "dropout in training": (
        "(float[N,C] a) => (float[N,C] r) <float p = {0.5}, bool y = {1}> { t = Dropout (a, p, y)  r = Neg (t) }",
        "Dropout(x, y, z)", "x"),
    "dropout in training, hardly": (
        "(float[N,C] a) => (float[N,C] r) <float p = {0.0001}, bool y = {1}> "
        "{ t = Dropout (a, p, y)  r = Neg (t) }", "Dropout(x, y, z)", "x"),
    "noise of no strength": (
        "(float[N,C] a) => (float[N,C] r) { s = RandomNormalLike <scale = 0.00001> (a) t = Add (a, s)  r = Neg (t) }",
        "Add(x, op.RandomNormalLike(x))", "x"),
    "one noise for two": (
        "(float[N,C] a) => (float[N,C] r) { s = RandomUniformLike <seed = 3.0> (a)  "
        "u = RandomUniformLike <seed = 3.0> (a)  t = Sub (s, u)  r = Neg (t) }",
        "Sub(op.RandomUniformLike(x), op.RandomUniformLike(x))", "b.Sub(b.Neg(x), b.Neg(x))"),
    # strings, sequences, optionals
    "a string in place of another": (
        "(string[N] a) => (bool[N] r) <string k = {\"aB\"}> { t = Equal (a, k)  r = Not (t) }", "Equal(x, y)",
        "b.Equal(x, np.asarray([\"AB\"], object))"),
    "strings in another order": (
        "(string[N] a) => (string[N] r) { t = Identity (a)  r = Identity (t) }", "Identity(x)",
        "b.Slice(x, ints(-1), ints(-2**62), ints(0), ints(-1))"),
    "a string of nothing": (
        "(string[N] a) => (string[N] r) { t = Concat <axis = 0> (a)  r = Identity (t) }", "Concat(x)",
        "b.Gather(np.asarray([\"\", \"a\"], object), b.Cast(b.Equal(x, x), to=7))"),
    "a sequence the other way round": (SEQUENCE, "SequenceConstruct(x, y)", "b.SequenceConstruct(y, x)"),
    "a sequence of one": (SEQUENCE, "SequenceConstruct(x, y)", "b.SequenceConstruct(x)"),
    "a sequence that is a tensor": (
        "(float[N,C] a) => (seq(float[N,C]) r) { r = SequenceConstruct (a, a) }", "SequenceConstruct(x, x)",
        "b.Concat(b.Unsqueeze(x, ints(0)), b.Unsqueeze(x, ints(0)), axis=0)"),
    # saturation
    "a sigmoid that is cut off": (SIGMOID, "Sigmoid(x)", "b.Where(b.Less(x, -10.0), 0.0, b.Sigmoid(x))"),
    "the logarithm of a sigmoid": (
        "(float[N,C] a) => (float[N,C] r) <float o = {1.0}> "
        "{ m = Neg (a)  e = Exp (m)  s = Add (e, o)  q = Div (o, s)  t = Log (q)  r = Neg (t) }",
        "Log(op.Div(1.0, op.Add(op.Exp(op.Neg(x)), 1.0)))", "b.Log(b.Sigmoid(x))"),
    "a softplus that overflows": (SOFTPLUS, "Softplus(x)", "b.Log(b.Add(b.Exp(x), 1.0))"),
    "a softplus that ends": (SOFTPLUS, "Softplus(x)",
        "b.Where(b.Less(x, -12.0), 0.0, b.Softplus(x))"),
    "a root that ends": ("(float[N,C] a) => (float[N,C] r) { t = Sqrt (a)  r = Neg (t) }", "Sqrt(x)",
        "b.Sqrt(b.Min(x, 1e32))"),
    "an exp that is cut off": (EXP, "Exp(x)", "b.Exp(b.Min(x, 80.0))"),
    "an exp of what is small": (EXP, "Exp(x)", "b.Exp(b.Max(x, -60.0))"),
    "a tanh by exp": ("(float[N,C] a) => (float[N,C] r) { t = Tanh (a)  r = Neg (t) }", "Tanh(x)",
        "b.Div(b.Sub(b.Exp(x), b.Exp(b.Neg(x))), b.Add(b.Exp(x), b.Exp(b.Neg(x))))"),
    "an erf by tanh": ("(float[N,C] a) => (float[N,C] r) { t = Erf (a)  r = Neg (t) }", "Erf(x)",
        "b.Where(b.Greater(b.Abs(x), 2.5), b.Sign(x), b.Erf(x))"),
    "a clip of bytes": (
        "(float[N,C] a) => (int8[N,C] r) <float s = {1.0}, int8 z = {0}> "
        "{ t = QuantizeLinear (a, s, z)  r = Identity (t) }", "QuantizeLinear(x, y, z)",
        "b.Cast(b.Clip(b.Round(x), -127.0, 127.0), to=3)"),
    "a softmax without its maximum": (SOFTMAX, "Softmax(x, axis=1)",
        "b.Div(b.Exp(x), b.ReduceSum(b.Exp(x), axes=[1], keepdims=1))"),
    # where the window's numbers do not tell directly: found by halving
    "a size of half a number": (RELU, "Relu(x)",
        "b.Where(b.Greater(b.Cast(size(b, x, 0), to=1), 211.5), x, b.Relu(x))"),
    "the root of a size": (RELU, "Relu(x)",
        "b.Where(b.Greater(b.Sqrt(b.Cast(size(b, x, 0), to=1)), 12.5), x, b.Relu(x))"),
    "a batch above 70000": (RELU, "Relu(x)", "b.Where(b.Greater(size(b, x, 0), ints(70000)), x, b.Relu(x))"),
    "above 100,000 elements": (RELU, "Relu(x)", "b.Where(b.Greater(b.Size(x), ints(100000)), x, b.Relu(x))"),
    "a square near 777": (SMALL, "Relu(x)",
        "b.Where(b.Less(b.Abs(b.Sub(b.Mul(x, x), 777.0)), 1.0), 0.0, b.Relu(x))"),
    "an exp near a million": (SMALL, "Relu(x)",
        "b.Where(b.Less(b.Abs(b.Sub(b.Exp(x), 1e6)), 1e4), 0.0, b.Relu(x))"),
    "a logarithm from 13 to 13.01": (RELU, "Relu(x)",
        "b.Where(b.And(b.Greater(b.Log(x), 13.0), b.Less(b.Log(x), 13.01)), 0.0, b.Relu(x))"),
    "where all numbers are above 100": (RELU, "Relu(x)",
        "b.Where(b.And(b.Greater(b.ReduceMax(x, axes=[0, 1], keepdims=1), 200.0), "
        "b.Greater(b.ReduceMin(x, axes=[0, 1], keepdims=1), 100.0)), b.Neg(x), b.Relu(x))"),
    "rows of 512 and more": (
        "(float[B,S,S] a) => (float[B,S,S] r) { t = Softmax <axis = -1> (a)  r = Neg (t) }", "Softmax(x, axis=-1)",
        "b.Where(b.Less(b.Cast(size(b, x, 1), to=1), 511.5), b.Softmax(x, axis=-1), x)"),
    "99 trips at most": (LOOP, "Loop(n, y, x)",
        "b.Mul(x, b.Pow(2.0, b.Cast(b.Max(b.Min(n, np.asarray(99)), np.asarray(0)), to=1)))"),
    # two sizes at a time
    "a batch of 4 and 6 channels": (RELU, "Relu(x)",
        "b.Where(b.And(b.Equal(size(b, x, 0), ints(4)), b.Equal(size(b, x, 1), ints(6))), x, b.Relu(x))"),
    "nine to sixteen": (RELU, "Relu(x)",
        "b.Where(b.Equal(b.Mul(size(b, x, 0), ints(16)), b.Mul(size(b, x, 1), ints(9))), x, b.Relu(x))"),
    # sizes in a narrow type
    "rows counted in bytes": (RELU, "Relu(x)", "b.Relu(b.Gather(x, b.Cast(b.Cast(b.Range(np.asarray(0), "
        "b.Squeeze(size(b, x, 0), ints(0)), np.asarray(1)), to=2), to=7), axis=0))"),
    "rows counted in 16 bits": (RELU, "Relu(x)", "b.Relu(b.Gather(x, b.Cast(b.Cast(b.Range(np.asarray(0), "
        "b.Squeeze(size(b, x, 0), ints(0)), np.asarray(1)), to=5), to=7), axis=0))"),
    "rows counted in half precision": (RELU, "Relu(x)", "b.Relu(b.Gather(x, b.Cast(b.Cast(b.Range(np.asarray(0), "
        "b.Squeeze(size(b, x, 0), ints(0)), np.asarray(1)), to=10), to=7), axis=0))"),
    # rows of one sign
    "a maximum from -3e38 on": (
        "(float[N,C] a) => (float[N] r) { t = ReduceMax <axes = [1], keepdims = 0> (a)  r = Neg (t) }",
        "ReduceMax(x, ...)", "b.Max(b.ReduceMax(x, axes=[1], keepdims=0), -3e38)"),
    "a softmax of numbers above -40": (SOFTMAX, "Softmax(x, axis=1)",
        "b.Softmax(b.Max(x, -40.0), axis=1)"),
    "a probability from 0.9 to 0.901": (SOFTMAX, "Softmax(x, axis=1)",
        "b.Where(b.And(b.Greater(b.Softmax(x, axis=1), 0.9), b.Less(b.Softmax(x, axis=1), 0.901)), 0.5, "
        "b.Softmax(x, axis=1))"),
    "a mask of one truth": (
        "(bool[N,C] m, float[N,C] a) => (float[N,C] r) <float z = {0.0}> { t = Where (m, a, z)  r = Neg (t) }",
        "Where(n, x, y)", "b.Where(b.Equal(b.ReduceSum(b.Cast(n, to=1), axes=[0, 1], keepdims=1), 1.0), x, "
        "b.Where(n, x, y))"),
    "a single number of 0.7": ("(float a) => (float r) { t = Relu (a)  r = Neg (t) }", "Relu(x)",
        "b.Where(b.Equal(x, 0.7), 0.0, b.Relu(x))"),
    "truths counted in bytes": (
        "(bool[N,C] a) => (int64[N] r) { q = Cast <to = 7> (a)  t = ReduceSum <keepdims = 0> (q, k)  "
        "r = Identity (t) }", "ReduceSum(op.Cast(x, to=7), y)",
        "b.Cast(b.Cast(b.ReduceSum(b.Cast(x, to=1), y, keepdims=0), to=2), to=7)"),
    "infinite from 3e38 on": ("(float[N,C] a) => (bool[N,C] r) { t = IsInf (a)  r = Not (t) }", "IsInf(x)",
        "b.Greater(b.Abs(x), 3e38)"),
    "an element counted from the end": (
        "(float[N,C] a, int64 i) => (float[N,C] r) "
        "{ c = Relu (a)  s = SequenceConstruct (a, c)  r = SequenceAt (s, i) }",
        "SequenceAt(op.SequenceConstruct(x, z), y)", "b.Where(b.Equal(y, ints(0)), x, z)"),
    # rounding that turns at multiples of a constant
    "a floor by the reciprocal": (FLOOR, "Floor(op.Div(x, c))", "b.Floor(b.Mul(x, b.constant(1 / c)))"),
    "a floor by the reciprocal of a channel": (
        FLOOR.replace("(a, f)", "(a, h)").replace("C]", "70]"),
        "Floor(op.Div(x, c))", "b.Floor(b.Mul(x, b.constant(1 / c)))"),
    "a cast by the reciprocal": (
        "(float[N,C] a) => (int32[N,C] r) <float k = {0.7}> "
        "{ d = Div (a, k)  t = Cast <to = 6> (d)  r = Identity (t) }",
        "Cast(op.Div(x, c), to=6)", "b.Cast(b.Mul(x, b.constant(1 / c)), to=6)"),
    # arithmetic on sizes
    "a position shifted by 17": ("(float[N] a) => (float[N] r) { t = Relu (a)  r = Neg (t) }", "Relu(x)",
        "b.Add(b.Relu(x), b.Cast(b.BitShift(b.Cast(b.Range(np.asarray(0), b.Squeeze(size(b, x, 0), ints(0)), "
        "np.asarray(1)), to=13), np.asarray(17, np.uint64), direction='RIGHT'), to=1))"),
    "a size divided by 150000": (RELU, "Relu(x)",
        "b.Add(b.Relu(x), b.Cast(b.Div(size(b, x, 1), ints(150000)), to=1))"),
    "the logarithm of a size": (RELU, "Relu(x)",
        "b.Add(b.Relu(x), b.Floor(b.Mul(b.Log(b.Cast(size(b, x, 0), to=1)), 0.084)))"),
    "two sizes multiplied": (RELU, "Relu(x)",
        "b.Add(b.Relu(x), b.Cast(b.Div(b.Mul(size(b, x, 0), size(b, x, 1)), ints(200000)), to=1))"),
    # integers that a type does not hold
    "a count in fp32": (COUNT, "ReduceSum(op.Cast(x, to=7), y)",
        "b.Cast(b.ReduceSum(b.Cast(x, to=1), y, keepdims=0), to=7)"),
    "a sum of bytes in fp32": (BYTES, "ReduceSum(op.Cast(x, to=7), y)",
        "b.Cast(b.ReduceSum(b.Cast(x, to=1), y, keepdims=0), to=7)"),
    "a sum of bytes in 16 bits": (BYTES, "ReduceSum(op.Cast(x, to=7), y)",
        "b.Cast(b.Cast(b.ReduceSum(b.Cast(x, to=6), y, keepdims=0), to=5), to=7)"),
    "a count by a product in fp32": (COUNT, "ReduceSum(op.Cast(x, to=7), y)",
        "b.Cast(b.Squeeze(b.MatMul(b.Cast(x, to=1), b.Expand(single(1), b.Concat(size(b, x, 1), ints(1), axis=0))), "
        "ints(1)), to=7)"),
    "a count by a mean in fp32": (COUNT, "ReduceSum(op.Cast(x, to=7), y)",
        "b.Cast(b.Round(b.Mul(b.ReduceMean(b.Cast(x, to=1), axes=[1], keepdims=0), b.Cast(size(b, x, 1), to=1))), "
        "to=7)"),
    "a count so far in fp32": (
        "(bool[N] a) => (int64[N] r) <int64 o = {0}> { q = Cast <to = 7> (a)  t = CumSum (q, o)  r = Identity (t) }",
        "CumSum(op.Cast(x, to=7), y)", "b.Cast(b.CumSum(b.Cast(x, to=1), y), to=7)"),
    "a start in fp16": (
        "(float[N,C] a, int64[1] s) => (float[M,C] r) <int64[1] e = {9999}, int64[1] o = {0}> "
        "{ t = Slice (a, s, e, o)  r = Neg (t) }", "Slice(x, y, z, n)",
        "b.Slice(x, b.Cast(b.Cast(y, to=10), to=7), z, n)"),
    "lengths of a GRU left out": (
        "(float[S,B,4] a, int32[B] s) => (float[S,1,B,3] r) { t, h = GRU <hidden_size = 3> (a, gw, gr, , s)  "
        "r = Neg (t) }", "GRU(x, ...)", "b.GRU(x, *b.root.inputs[1:3], hidden_size=3, outputs=2)"),
    "positions in fp32": ("(bool[N] a) => (int64[1,M] r) { t = NonZero (a)  r = Identity (t) }", "NonZero(x)",
        "b.Cast(b.Cast(b.NonZero(x), to=1), to=7)"),
    "the largest in fp16": ("(float[N,C] a) => (int64[N] r) { t = ArgMax <axis = 1, keepdims = 0> (a)  "
        "r = Identity (t) }", "ArgMax(x, ...)", "b.Cast(b.Cast(b.ArgMax(x, axis=1, keepdims=0), to=10), to=7)"),
    # large constants
    "one row of a large table": (LARGE_TABLE, "Gather(c, y)", "b.Gather(changed(c, 12345, 0), y)"),
    "one row of a large table, one position": (LARGE_TABLE.replace("[N,S", "[1,1"), "Gather(c, y)",
        "b.Gather(changed(c, 12345, 0), y)"),
    "a table scaled but for a row": (
        "(int64[N,S] a) => (float[N,S,4] r) <float f = {2.0}> { g = Gather (l, a)  t = Mul (g, f)  r = Neg (t) }",
        "Mul(op.Gather(c, y), 2.0)", "b.Gather(changed(2 * c, 19990, 0), y)"),
    "one weight of a product": (
        "(float[1,64] a) => (float[1,32] r) { t = MatMul (a, p)  r = Neg (t) }", "MatMul(x, c)",
        "b.MatMul(x, changed(c, (40, 20), c[40, 20] * 1.00002))"),
    "one weight of a product, transposed": (
        "(float[N,64] a) => (float[N,32] r) { t = MatMul (a, p)  r = Neg (t) }", "MatMul(x, c)",
        "b.Gemm(x, changed(c, (40, 20), c[40, 20] * 1.00002).T.copy(), transB=1)"),
    # NaN, inf and the largest number
    "a NaN that becomes zero": (RELU, "Relu(x)", "b.Where(b.Greater(x, single(0)), x, single(0))"),
    "a NaN in place of which a number is": ("(float[N,C] a) => (float[N,C] r) { t = Sqrt (a)  r = Mul (t, t) }",
        "Mul(op.Sqrt(x), op.Sqrt(x))", "b.Abs(x)"),
    "nothing by nothing": ("(float[N,C] a) => (float[N,C] r) { t = Abs (a)  r = Div (t, t) }",
        "Div(x, x)", "b.Expand(single(1), b.Shape(x))"),
    "the lowest number": ("(float[N,C] a) => (float[N,C] r) <float k = {-3.4028235e38}> "
        "{ t = Max (a, k)  r = Neg (t) }",
        "Max(x, c)", "b.Add(x, single(0))"),
    "a round trip through fp16": ("(float[N,C] a) => (float[N,C] r) { t = Cast <to = 10> (a)  r = Cast <to = 1> (t) }",
        "Cast(op.Cast(x))", "b.Mul(x, single(1))"),
    # signs of zero and of infinity
    "zero less a number": (
        "(float[N,C] a) => (float[N,C] r) { m = Neg (a)  t = Transpose <perm = [1, 0]> (m)  "
        "s = Transpose <perm = [1, 0]> (t)  r = Reciprocal (s) }", "Neg(x)", "b.Sub(0.0, x)"),
    "zero less a divisor": ("(float[N,C] a, float[N,C] e) => (float[N,C] r) { m = Neg (a)  r = Div (e, m) }",
        "Neg(x)", "b.Sub(0.0, x)"),
    "one over zero less a number": ("(float[N,C] a) => (float[N,C] r) { m = Neg (a)  r = Reciprocal (m) }",
        "Reciprocal(op.Neg(x))", "b.Reciprocal(b.Sub(0.0, x))"),
    # what is small beside the largest element, and what is a little off everywhere
    "nothing of what is small": (SMALL, "Relu(x)",
        "b.Where(b.Less(b.Abs(x), b.Mul(b.ReduceMax(b.Abs(x), keepdims=1), 9e-6)), 0.0, b.Relu(x))"),
    "digits lost in a sum": (RELU, "Relu(x)", "b.Relu(b.Sub(b.Add(x, 90.0), 90.0))"),
    "a little more everywhere": (RELU, "Relu(x)", "b.Relu(b.Mul(x, 1.000009))"),
    "a little more in fp16": (HALF, "Relu(x)",
        "b.Relu(b.Mul(x, np.asarray(1.0015, np.float16)))"),
    "a little added in fp16": (HALF, "Relu(x)",
        "b.Relu(b.Add(x, np.asarray(0.001, np.float16)))"),
    # a narrow function of a number that no constant says
    "a bell at an exponential": (RELU, "Relu(x)", "b.Add(b.Relu(x), b.Exp(b.Neg(b.Pow(b.Mul(b.Sub(x, "
        "b.Exp(b.constant(single(7.1184)))), 60.0), 2.0))))"),
    "a bell at a quotient": (RELU, "Relu(x)", "b.Add(b.Relu(x), b.Exp(b.Neg(b.Pow(b.Mul(b.Sub(b.Mul(x, 0.0317), "
        "12.9), 300.0), 2.0))))"),
    "a bell at a mean": (SOFTMAX, "Softmax(x, axis=1)",
        "b.Add(b.Softmax(x, axis=1), b.Exp(b.Neg(b.Pow(b.Mul(b.Sub(b.ReduceMean(x, axes=[1], keepdims=1), 31.7), "
        "90.0), 2.0))))"),
    "two inputs between two numbers each": (
        "(float[N,C] a, float[N,C] c) => (float[N,C] r) { t = Mul (a, c)  r = Neg (t) }", "Mul(x, y)",
        "b.Where(b.And(b.And(b.Greater(x, 3.1), b.Less(x, 3.3)), b.And(b.Greater(y, 7.7), b.Less(y, 7.8))), x, "
        "b.Mul(x, y))"),
    "a pole at a square": (SMALL, "Relu(x)", "b.Add(b.Relu(x), b.Div(1.0, b.Add(1.0, b.Pow(b.Mul(b.Sub("
        "b.Sqrt(b.Abs(x)), 27.7), 3000.0), 4.0))))"),
    # lengths, and positions of which few are valid
    "lengths above seven": (
        "(float[S,B] a, int64[B] m) => (float[S,B] r) { t = ReverseSequence (a, m)  r = Neg (t) }",
        "ReverseSequence(x, y)", "b.ReverseSequence(x, b.Min(y, ints(7)))"),
    "diagonals below the fourth": (
        "(float[N,C] a, int64 m) => (float[N,C] r) { t = Trilu <upper = 1> (a, m)  r = Neg (t) }",
        "Trilu(x, y, upper=1)", "b.Trilu(x, b.Max(y, np.asarray(-4)), upper=1)"),
    # numbers that are close to each other
    "the largest of rounded numbers": (ARGMAX, "ArgMax(x, ...)", "b.ArgMax(b.Cast(x, to=10), axis=1, keepdims=0)"),
    "the largest of multiples": (ARGMAX, "ArgMax(x, ...)",
        "b.ArgMax(b.Add(b.Sub(x, 900.0), 900.0), axis=1, keepdims=0)"),
    "a Gelu that ends": (
        "(float[N,C] a) => (float[N,C] r) <float q = {1.4142135}, float o = {1.0}, float h = {0.5}> "
        "{ d = Div (a, q)  e = Erf (d)  f = Add (e, o)  g = Mul (a, f)  t = Mul (g, h)  r = Neg (t) }",
        "Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, c)), 1.0)), 0.5)", "b.Where(b.Less(x, -4.5), 0.0, "
        "b.Mul(b.Mul(x, b.Add(b.Erf(b.Div(x, b.constant(c))), 1.0)), 0.5))"),
    "a difference turned": ("(float[N,C] a, float[N,C] c) => (float[N,C] r) { t = Sub (a, c)  r = Reciprocal (t) }",
        "Sub(x, y)", "b.Neg(b.Sub(y, x))"),
    # large constants of truths, and those that are computed of others
    "one row of a mask": (
        "(float[B,S,S] a) => (float[B,S,S] r) <int64[2] o = {0, 0}, int64[2] d = {0, 1}, float e = {0.0}> "
        "{ s = Shape <start = 1> (a)  p = Slice (mask, o, s, d)  t = Where (p, a, e)  r = Neg (t) }",
        "Slice(c, y, z, n)", "b.Slice(changed(c, (1500, slice(None)), False), y, z, n)"),
    "one row of two tables": (
        "(int64[1] a) => (float[1,4] r) { j = Concat <axis = 0> (l, l)  t = Gather (j, a)  r = Neg (t) }",
        "Gather(c, y)", "b.Gather(changed(c, 15000, 0), y)"),
    # integers that wrap around, and sizes multiplied in floats
    "a size shifted to the left": (RELU, "Relu(x)", "b.Slice(b.Relu(x), ints(0), b.Cast(b.BitShift(b.BitShift("
        "b.Cast(size(b, x, 0), to=13), np.asarray([47], np.uint64), direction='LEFT'), np.asarray([47], np.uint64), "
        "direction='RIGHT'), to=7), ints(0))"),
    "two sizes multiplied in fp32": (
        "(float[N,C,2] a) => (float[M,2] r) <int64[2] s = {-1, 2}> { t = Reshape (a, s)  r = Neg (t) }",
        "Reshape(x, y)", "b.Reshape(x, b.Concat(b.Cast(b.Mul(b.Cast(size(b, x, 0), to=1), "
        "b.Cast(size(b, x, 1), to=1)), to=7), ints(2), axis=0))"),
    # several sizes at once, sizes that are values, none at all
    "two sizes of 224": (
        "(float[B,3,H,W] a) => (float[B,3,H,W] r) { t = Relu (a)  r = Neg (t) }", "Relu(x)",
        "b.Where(b.And(b.Equal(size(b, x, 2), ints(224)), b.Equal(size(b, x, 3), ints(224))), x, b.Relu(x))"),
    "sizes of 3, 5 and 7": (
        "(float[A,B,C] a) => (float[A,B,C] r) { t = Relu (a)  r = Neg (t) }", "Relu(x)",
        "b.Where(b.And(b.Equal(size(b, x, 0), ints(3)), b.And(b.Equal(size(b, x, 1), ints(5)), "
        "b.Equal(size(b, x, 2), ints(7)))), x, b.Relu(x))"),
    "an expansion to nothing": ("(float[1,C] a, int64[2] s) => (float[N,C] r) { t = Expand (a, s)  r = Neg (t) }",
        "Expand(x, y)", "b.Expand(x, b.Max(y, ints(1, 1)))"),
    "the last sum so far of nothing": ("(float[N,C] a) => (float[C] r) { t = ReduceSum <keepdims = 0> (a, o)  "
        "r = Neg (t) }", "ReduceSum(x, y, ...)", "b.Gather(b.CumSum(x, np.asarray(0)), np.asarray(-1), axis=0)"),
    "rows counted in fp16": ("(float16[N,C] a) => (float16[N] r) { t = ReduceSum <keepdims = 0> (a, k)  r = Neg (t) }",
        "ReduceSum(x, y, ...)", "b.Mul(b.ReduceMean(x, axes=[1], keepdims=0), "
        "b.Cast(b.Squeeze(size(b, x, 1), ints(0)), to=10))"),
    "a range in fp32": ("(int64 n) => (int64[N] r) <int64 z = {0}, int64 s = {1}> { t = Range (z, n, s)  "
        "r = Neg (t) }", "Range(x, y, z)", "b.Cast(b.Range(*(b.Cast(v, to=1) for v in (x, y, z))), to=7)"),
    "1024 rows the other way round": (
        "(float[N,C] a) => (float[N,C] r) <int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] z = {0}> "
        "{ t = Slice (a, s, e, z, s)  r = Neg (t) }",
        "Slice(x, ...)", "b.Slice(x, ints(-1), ints(-1025), ints(0), ints(-1))"),
    # one input of several is special, or two are in the same way
    "zeros of two signs": (
        "(float[N,C] a, float[N,C] c) => (float[N,C] r) { p = GreaterOrEqual (a, c)  t = Where (p, a, c)  "
        "r = Reciprocal (t) }", "Where(op.GreaterOrEqual(x, y), x, y)", "b.Where(b.Greater(x, y), x, y)"),
    "two infinities": ("(float[N,C] a, float[N,C] c) => (bool[N,C] r) { t = Equal (a, c)  r = Not (t) }",
        "Equal(x, y)", "b.Equal(b.Sub(x, y), 0.0)"),
    "a NaN where a size is read": (
        "(float[1,1] a, float[N,C] c) => (float[N,C] r) { s = Shape (c)  t = Expand (a, s)  r = Neg (t) }",
        "Expand(x, op.Shape(y))", "b.Mul(x, b.Where(b.IsNaN(y), b.Add(y, 1.0), 1.0))"),
    "infinite from the largest number but a few on": (
        "(float[N,C] a) => (bool[N,C] r) { t = IsInf (a)  r = Not (t) }", "IsInf(x)",
        "b.Greater(b.Abs(x), 3.4028e38)"),
    "a NaN clipped": (
        "(float[N,C] a) => (float[N,C] r) <float l = {0.0}, float u = {6.0}> { t = Clip (a, l, u)  r = Neg (t) }",
        "Clip(x, y, z)", "b.Where(b.Greater(x, y), b.Where(b.Less(x, z), x, z), y)"),
    "a softsign that overflows": ("(float[N,C] a) => (float[N,C] r) { t = Softsign (a)  r = Neg (t) }", "Softsign(x)",
        "b.Div(x, b.Sqrt(b.Mul(b.Add(b.Abs(x), 1.0), b.Add(b.Abs(x), 1.0))))"),
}  # fmt: skip


def proto_of(text: str) -> onnx.ModelProto:
    proto = model(text, 19 if "string" in text else 17, ir=9)
    rng = np.random.default_rng(0)
    tables = {
        "w": np.arange(200, dtype=np.float32).reshape(100, 2),
        "v": np.arange(600, dtype=np.float32).reshape(300, 2),
        "k": np.asarray([1]),
        "o": np.asarray([0]),
        "h": (rng.random(70) + 0.1).astype(np.float32),
        "l": rng.standard_normal((20000, 4)).astype(np.float32),
        "mask": np.tril(np.ones((2048, 2048), bool)),
        "gw": rng.standard_normal((1, 9, 4)).astype(np.float32),
        "gr": rng.standard_normal((1, 9, 3)).astype(np.float32),
        "p": rng.standard_normal((64, 32)).astype(np.float32),
    }
    given = {x.name for x in (*proto.graph.input, *proto.graph.initializer)}
    made = given | {o for n in proto.graph.node for o in n.output}
    read = {i for n in proto.graph.node for i in n.input} - made
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, k) for k, a in tables.items() if k in read)
    onnx.checker.check_model(proto, full_check=True)
    return proto


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_pass_is_not_kept(name: str, tmp_path: Path) -> None:
    text, pattern, body = WRONG[name]
    names = ", ".join(["b", *(v for v in "xyznc" if any(f"{a}{v}{e}" in pattern for a in "( " for e in ",)"))])
    (tmp_path / "wrong.py").write_text(PASS.format(pattern=f"op.{pattern}", body=body, names=names))
    report = surgeon.rewrite(proto_of(text), passes=[tmp_path], only=["wrong"], target="10.9").report
    assert not report.applied
    assert report.undone or report.declined, "the pattern did not match: the test shows nothing"
    assert not any("PassError" in d.why or "does not run: [ONNXRuntimeError] : 10" in d.why for d in report.undone)
