"""Mixtures of experts: every expert is computed for every token, and the chosen ones are added up by their weights."""

from typing import cast

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .blocks import fast_gelu
from .table import Result, body, given, needed, setting, sizes


@body("MoE")
def mixture(b: Builder) -> Result:
    x, router, first, first_bias, second, second_bias, third, _ = given(b, 8)
    x, router, first, second = (needed(v) for v in (x, router, first, second))
    require(b.dtype(x) == TensorProto.FLOAT, "it is not fp32")
    require(third is None, "its gate has weights of its own, of which ONNX Runtime has no kernel")
    require(not b.root.attr("use_sparse_mixer"), "it mixes with the sparse mixer")
    tokens = x if b.known_rank(x) == 2 else b.Reshape(x, sizes(-1, b.static_size(x, -1)))
    hidden = _activated(b, _layer(b, b.Unsqueeze(tokens, axes=[0]), first, first_bias))
    found = _layer(b, hidden, second, second_bias)
    weights = b.Unsqueeze(b.Transpose(_weights(b, router), perm=[1, 0]), axes=[-1])
    chosen = b.Where(b.Greater(weights, 0.0), b.Mul(found, weights), b.constant(0.0, TensorProto.FLOAT))
    y = b.ReduceSum(chosen, axes=[0], keepdims=0)
    return y if tokens is x else b.Reshape(y, b.Shape(x))


def _layer(b: Builder, x: Value, weights: Value, bias: Value | None) -> Value:
    """[experts, tokens, out] of weights [experts, out, in]."""
    y = b.MatMul(x, b.Transpose(weights, perm=[0, 2, 1]))
    return cast(Value, y if bias is None else b.Add(y, b.Unsqueeze(bias, axes=[1])))


def _weights(b: Builder, router: Value) -> Value:
    """[tokens, experts]: how much of each expert a token gets; of equal ones the kernel takes the last."""
    experts = b.static_size(router, -1)
    shares = b.Softmax(b.Gather(router, np.arange(experts)[::-1].copy(), axis=1), axis=-1)
    best, where = b.TopK(shares, sizes(b.root.attr("k")), outputs=2, axis=-1)
    if b.root.attr("normalize_routing_weights"):
        best = b.Div(best, b.ReduceSum(best, axes=[-1], keepdims=1))
    none = b.Expand(b.constant(0.0, TensorProto.FLOAT), b.Shape(router))
    return cast(Value, b.ScatterElements(none, b.Sub(experts - 1, where), best, axis=1))


def _activated(b: Builder, x: Value) -> Value:
    kind = setting(b, "activation_type", b"relu")
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind == "swiglu":
        return _gated(b, x)
    bodies = {
        "gelu": lambda: fast_gelu(b, x),
        "identity": lambda: x,
        "relu": lambda: b.Where(b.Greater(x, 0.0), x, b.constant(0.0, TensorProto.FLOAT)),  # the kernel's, 0 of NaN
        "silu": lambda: b.Mul(x, b.Sigmoid(x)),
    }
    require(kind in bodies, f"its activation is {kind}")
    return cast(Value, bodies[kind]())


def _gated(b: Builder, x: Value) -> Value:
    """Gates and numbers in turn: gate * Sigmoid(alpha * gate) * (number + beta)."""
    require(b.root.attr("swiglu_fusion") == 1, "its gates are not between its numbers")
    require(not b.root.attr("swiglu_limit_after_activation"), "it is cut off after its gate")
    gate, number = (b.Slice(x, sizes(k), sizes(np.iinfo(np.int64).max), sizes(-1), sizes(2)) for k in (0, 1))
    limit = setting(b, "swiglu_limit", None)
    if limit is not None:
        gate, number = b.Min(gate, float(limit)), b.Min(b.Max(number, -float(limit)), float(limit))
    alpha, beta = (float(b.root.attr(f"activation_{name}")) for name in ("alpha", "beta"))
    opened = b.Mul(gate, b.Sigmoid(b.Mul(gate, alpha)))
    return cast(Value, b.Mul(opened, b.Add(number, beta)))
