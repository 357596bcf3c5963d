"""What it costs to write ONNX Runtime's own operators out: nodes, and time in ONNX Runtime next to its own kernel.

    python benchmarks/contrib_price.py

One thread, default optimisations, the least of 15 runs, in milliseconds. The sizes are those of a BERT base, of a
ResNet's middle, and of one token of a small language model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import surgeon

RNG = np.random.default_rng(0)
RUNS = 15
SCALE, ZERO = np.float32(0.02), np.uint8(120)
Tensors = Mapping[str, Any]


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.1).astype(np.float32)


def bytes_of(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def quantized(*names: str) -> dict[str, Any]:
    """A scale for each name that begins with s, else a zero point."""
    return {name: SCALE if name.startswith("s") else ZERO for name in names}


def picture() -> np.ndarray:
    """Quantized, with its channels first."""
    return bytes_of(1, 64, 56, 56)


def hidden() -> np.ndarray:
    return floats(1, 128, 768)


# operator -> (what is fed, what is constant, attributes), in the order of its inputs
NODES: dict[str, Callable[[], tuple[Tensors, Tensors, dict[str, Any]]]] = {
    "Attention": lambda: (
        {"x": hidden(), "mask": np.array([100], np.int32)},
        {"w": floats(768, 2304), "b": floats(2304)},
        {"num_heads": 12, "order": "x w b mask"},
    ),
    "BiasGelu": lambda: ({"x": floats(1, 128, 3072)}, {"b": floats(3072)}, {}),
    "BiasSoftmax": lambda: (
        {"x": floats(1, 12, 128, 128), "b": floats(1, 1, 1, 128)},
        {},
        {"axis": 3, "is_inner_broadcast": 0},
    ),
    "DynamicQuantizeMatMul": lambda: ({"x": hidden()}, {"w": bytes_of(768, 768), **quantized("s", "z")}, {}),
    "EmbedLayerNormalization": lambda: (
        {"ids": RNG.integers(0, 99, (1, 128)).astype(np.int32), "kinds": RNG.integers(0, 2, (1, 128)).astype(np.int32)},
        {"w": floats(99, 768), "p": floats(128, 768), "k": floats(2, 768), "g": floats(768), "b": floats(768)},
        {},
    ),
    "FastGelu": lambda: ({"x": floats(1, 128, 3072)}, {"b": floats(3072)}, {}),
    "FusedConv": lambda: (
        {"x": floats(1, 32, 56, 56)},
        {"w": floats(32, 32, 3, 3), "b": floats(32)},
        {"activation": "Relu", "pads": [1] * 4},
    ),
    "FusedMatMul": lambda: (
        {"a": floats(1, 12, 128, 64), "b": floats(1, 12, 128, 64)},
        {},
        {"transB": 1, "alpha": 0.125},
    ),
    "GatherBlockQuantized": lambda: (
        {"i": RNG.integers(0, 2000, (1, 128))},
        {"w": bytes_of(2000, 384), "s": floats(2000, 24)},
        {"bits": 4, "block_size": 32, "quantize_axis": 1, "order": "w i s"},
    ),
    "GroupQueryAttention": lambda: (
        {
            "q": floats(1, 1, 1024), "k": floats(1, 1, 256), "v": floats(1, 1, 256), "past_k": floats(1, 4, 512, 64),
            "past_v": floats(1, 4, 512, 64), "n": np.array([512], np.int32), "t": np.array(513, np.int32),
        },
        {"c": floats(600, 32), "s": floats(600, 32)},
        {"num_heads": 16, "kv_num_heads": 4, "do_rotary": 1},
    ),
    "Inverse": lambda: ({"x": floats(1000, 4, 4)}, {}, {}),
    "MatMulBnb4": lambda: (
        {"x": hidden()},
        {"w": bytes_of(768 * 384), "a": floats(768 * 12)},
        {"K": 768, "N": 768, "block_size": 64, "quant_type": 1},
    ),
    "MatMulNBits": lambda: (
        {"x": hidden()},
        {"w": bytes_of(768, 24, 16), "s": floats(768 * 24)},
        {"K": 768, "N": 768, "bits": 4, "block_size": 32},
    ),
    "MoE": lambda: (
        {"x": floats(128, 256), "r": floats(128, 8)},
        {"v": floats(8, 512, 256), "c": floats(8, 512), "w": floats(8, 256, 512), "d": floats(8, 256)},
        {"k": 2, "activation_type": "silu"},
    ),
    "MultiHeadAttention": lambda: (
        {"q": hidden(), "k": hidden(), "v": hidden()},
        {"b": floats(2304)},
        {"num_heads": 12},
    ),
    "QAttention": lambda: (
        {"x": bytes_of(1, 128, 768), "mask": np.array([100], np.int32)},
        {"w": bytes_of(768, 2304), "b": floats(2304), **quantized("s1", "s2", "z1", "z2")},
        {"num_heads": 12, "order": "x w b s1 s2 mask z1 z2"},
    ),
    "QGemm": lambda: (
        {"a": bytes_of(128, 768)},
        {**quantized("s1", "z1"), "b": bytes_of(768, 768), **quantized("s2", "z2")},
        {},
    ),
    "QLinearAdd": lambda: (
        {"a": bytes_of(1, 64, 56, 56), "b": bytes_of(1, 64, 56, 56)},
        quantized("s1", "z1", "s2", "z2", "s3", "z3"),
        {"order": "a s1 z1 b s2 z2 s3 z3"},
    ),
    "QLinearConv": lambda: (
        {"x": bytes_of(1, 56, 56, 32)},
        {
            **quantized("s1", "z1"), "w": bytes_of(32, 32, 3, 3).astype(np.int8), "s2": SCALE, "z2": np.int8(0),
            "s3": np.float32(0.5), "z3": ZERO,
        },
        {"channels_last": 1, "pads": [1] * 4},
    ),
    "QuickGelu": lambda: ({"x": floats(1, 128, 3072)}, {}, {}),
    "RotaryEmbedding": lambda: (
        {"x": hidden(), "p": np.array([0], np.int64)},
        {"c": floats(600, 32), "s": floats(600, 32)},
        {},
    ),
    "SkipLayerNormalization": lambda: (
        {"x": hidden(), "s": hidden()},
        {"g": floats(768), "b": floats(768), "c": floats(768)},
        {},
    ),
    "DynamicQuantizeLSTM": lambda: (
        {"x": floats(32, 1, 256)},
        {
            "w": bytes_of(1, 256, 1024), "r": bytes_of(1, 256, 1024), "b": floats(1, 2048), "s1": SCALE.reshape(1),
            "z1": ZERO.reshape(1), "s2": SCALE.reshape(1), "z2": ZERO.reshape(1),
        },
        {"hidden_size": 256, "order": "x w r b - - - - s1 z1 s2 z2", "returns": [32, 1, 1, 256]},
    ),
    "GroupNorm": lambda: (
        {"x": floats(1, 64, 64, 320)},
        {"g": floats(320), "b": floats(320)},
        {"groups": 32, "channels_last": 1, "activation": 1, "epsilon": 1e-5},
    ),
    "NhwcConv": lambda: (
        {"x": floats(1, 56, 56, 32)},
        {"w": floats(32, 3, 3, 32), "b": floats(32)},
        {"pads": [1] * 4},
    ),
    "NhwcFusedConv": lambda: (
        {"x": floats(1, 56, 56, 32).astype(np.float16)},
        {"w": floats(32, 32, 3, 3).astype(np.float16), "b": floats(32).astype(np.float16)},
        {"pads": [1] * 4, "activation": "Relu"},
    ),
    "QLinearAveragePool": lambda: (
        {"x": picture()},
        quantized("s1", "z1", "s2", "z2"),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "QLinearConcat": lambda: (
        {"a": picture(), "b": picture()},
        quantized("s1", "z1", "s2", "z2", "s3", "z3"),
        {"axis": 1, "order": "s1 z1 a s2 z2 b s3 z3"},
    ),
    "QLinearGlobalAveragePool": lambda: ({"x": picture()}, quantized("s1", "z1", "s2", "z2"), {}),
    "QLinearLeakyRelu": lambda: ({"x": picture()}, quantized("s1", "z1", "s2", "z2"), {"alpha": 0.1}),
    "QLinearMul": lambda: (
        {"a": picture(), "b": picture()},
        quantized("s1", "z1", "s2", "z2", "s3", "z3"),
        {"order": "a s1 z1 b s2 z2 s3 z3"},
    ),
    "QLinearSigmoid": lambda: ({"x": picture()}, quantized("s1", "z1", "s2", "z2"), {}),
    "QLinearSoftmax": lambda: (
        {"x": bytes_of(1, 12, 128, 128)},
        quantized("s1", "z1", "s2", "z2"),
        {"axis": -1, "opset": 13},
    ),
    "QLinearWhere": lambda: (
        {"c": bytes_of(1, 64, 56, 56) > 128, "a": picture(), "b": picture()},
        quantized("s1", "z1", "s2", "z2", "s3", "z3"),
        {"order": "c a s1 z1 b s2 z2 s3 z3"},
    ),
}  # fmt: skip


def model_of(op: str, fed: Tensors, held: Tensors, attrs: dict[str, Any]) -> onnx.ModelProto:
    """A model of one node."""
    order: Sequence[str] = attrs.pop("order", " ".join([*fed, *held])).replace("-", "").split(" ")
    outputs = ["y", "m"] if op == "EmbedLayerNormalization" else ["y"]
    shape = attrs.pop("returns", None)  # of an operator whose outputs inference does not follow
    made = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)] if shape else None
    node = helper.make_node(op, order, outputs, domain="com.microsoft", **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in fed.items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(x), n) for n, x in held.items()]
    graph = helper.make_graph([node], "g", infos, made or [onnx.ValueInfoProto(name=o) for o in outputs], tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def milliseconds(model: onnx.ModelProto, feeds: Tensors) -> str:
    """The least time of a run; "no kernel" where the CPU has none."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # of its own class
        return "no kernel"
    least = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(None, feeds)
        least = min(least, time.perf_counter() - start)
    return f"{least * 1e3:.2f}"


def main() -> None:
    print("| operator | nodes | its kernel, ms | written out, ms |\n|---|---|---|---|")
    for op, make in NODES.items():
        fed, held, attrs = make()
        model = model_of(op, fed, held, attrs)
        result = surgeon.rewrite(model, target="rtx", verify="none").model
        print(f"| {op} | {len(result.graph.node)} | {milliseconds(model, fed)} | {milliseconds(result, fed)} |")


if __name__ == "__main__":
    main()
