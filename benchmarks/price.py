"""What the longer form of a pass costs: nodes, and time in ONNX Runtime next to what was rewritten.

    python benchmarks/price.py [PASS ...]

One thread, default optimisations, the least of RUNS runs, in milliseconds. The lines `Price` of passes have these
figures; contrib_price.py has those of `contrib`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import GraphProto, ModelProto, helper

import surgeon

RNG = np.random.default_rng(0)
RUNS = 60


@dataclass
class Window:
    """What a pass writes longer: the body of a graph, its inputs and the type of its outputs y as ONNX text."""

    pass_name: str
    what: str
    inputs: str
    body: str
    target: str = "8.4"
    opset: int = 17
    held: dict[str, np.ndarray] = field(default_factory=dict)  # initializers
    strategy: str = ""
    outputs: str = "float y"
    functions: str = ""
    only: bool = False  # whether no other pass runs: one that `--tune` tries


def each(value: float, *shape: int) -> np.ndarray:
    return np.full(shape, value, np.float32)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


PICTURE = "float[1,64,56,56] x"
HALF_PICTURE = "float16[1,64,56,56] x"
HIDDEN = "float[1,128,768] x"
CHANNELS = {name: each(1.5, 64) for name in ("s", "t", "m", "v")}
BATCH_NORM = "y, rm, rv = BatchNormalization <training_mode = 1> (x, s, t, m, v)"
LSTM = {"w": each(0.1, 1, 1024, 256), "r": each(0.1, 1, 1024, 256)}
LOOP = """y = Loop (n, go, x) <body = b (int64 i, bool d, float[64] s) => (bool e, float[64] t) {
    e = Identity (d) t = Neg (s)
}>"""
SLOPES = np.linspace(0.1, 0.9, 64, dtype=np.float32).reshape(64, 1, 1)
STEP = {"s": np.float32(0.02), "z": np.uint8(120)}
FIXED_ROWS = """s = NonMaxSuppression (boxes, scores, most, overlap) c = Concat <axis = 0> (s, filler)
y = Slice (c, zero, most, zero)"""
SUPPRESSED = {"most": numbers(100), "zero": numbers(0), "overlap": each(0.5, 1), "filler": np.full((100, 3), -1)}
UNIQUE = "float y, int64 i, int64 v, int64 c"
QUANTIZED = "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"
ACT = '<domain: "my", opset_import: ["" : 17]> Act (p) => (q) { r = Sigmoid (p) q = Mul (p, r) }'
SHAPE = """s = Shape (x) m = Gather (s, at) n = Mul (m, by) row = Gather <axis = 0> (n, first)
y = ConstantOfShape (row)"""
TWO_QUANTIZED = """p = QuantizeLinear (a, s, z) q = QuantizeLinear (b, s, z) c = Concat <axis = 1> (p, q)
y = DequantizeLinear (c, s, z)"""

WINDOWS = [
    Window("batch-norm", "training mode", "float[8,64,56,56] x", BATCH_NORM, held=CHANNELS),
    Window("batch-norm", "training mode, statistics read", "float[8,64,56,56] x", BATCH_NORM, held=CHANNELS,
           outputs="float y, float rm, float rv"),
    Window("batch-norm", "spatial 0", "float[8,64,49] x", "y = BatchNormalization <spatial = 0> (x, s, t, m, v)",
           opset=7, held={name: each(1.5, 64, 49) for name in CHANNELS}),
    Window("celu", "alpha 2", PICTURE, "y = Celu <alpha = 2.0> (x)", "8.2"),
    Window("celu", "alpha -2", PICTURE, "y = Celu <alpha = -2.0> (x)", "8.2"),
    Window("clip", "as Min and Max", PICTURE, "y = Clip (x, low, high)", strategy="clip=decompose",
           held={"low": np.float32(-1), "high": np.float32(1)}),
    Window("clip", "computed bounds of fp16", f"{HALF_PICTURE}, float16 low, float16 high", "y = Clip (x, low, high)",
           "8.6", outputs="float16 y"),
    Window("remove-int8-round-trips", "Concat of two", "float[1,32,56,56] a, float[1,32,56,56] b", TWO_QUANTIZED,
           "rtx", held=STEP),
    Window("gelu", "erf", HIDDEN, "y = Gelu (x)", opset=20),
    Window("gelu", "tanh", HIDDEN, 'y = Gelu <approximate = "tanh"> (x)', opset=20),
    Window("group-norm", "32 groups", PICTURE, "y = GroupNormalization <num_groups = 32> (x, s, t)", opset=21,
           held=CHANNELS),
    Window("hard-sigmoid", "for DLA", PICTURE, "y = HardSigmoid (x)", "8.6+dla"),
    Window("hard-swish", "for 8.2", PICTURE, "y = HardSwish (x)", "8.2"),
    Window("hard-swish", "for DLA", PICTURE, "y = HardSwish (x)", "8.6+dla"),
    Window("respell", "condition of a Loop", "bool go, float[64] x", LOOP, "rtx", held={"n": np.int64(10)}),
    Window("inline", "a function called twice", PICTURE, "z = my.Act (x) y = my.Act (z)", functions=ACT),
    Window("instance-norm", "fp32", PICTURE, "y = InstanceNormalization (x, s, t)", held=CHANNELS),
    Window("instance-norm", "fp16", HALF_PICTURE, "y = InstanceNormalization (x, s, t)", outputs="float16 y",
           held={name: array.astype(np.float16) for name, array in CHANNELS.items()}),
    Window("l2-norm", "LpNormalization", PICTURE, "y = LpNormalization <axis = 1> (x)", "10.9"),
    Window("layer-norm", "fp32", HIDDEN, "y = LayerNormalization (x, s, t)", held={n: each(1.5, 768) for n in "st"}),
    Window("leaky-relu", "as Max", PICTURE, "y = LeakyRelu <alpha = 0.2> (x)", strategy="leaky-relu=decompose"),
    Window("respell", "Mean of two in fp16", "float16[1,64,56,56] a, float16[1,64,56,56] b", "y = Mean (a, b)", "10.9",
           outputs="float16 y"),
    Window("mish", "for 9.3", PICTURE, "y = Mish (x)", "9.3", opset=18),
    Window("mish", "for DLA", PICTURE, "y = Mish (x)", "10.9+dla", opset=18),
    Window("opset", "Softmax along the channels", PICTURE, "y = Softmax <axis = 1> (x)", "7.2", opset=13),
    Window("opset", "GreaterOrEqual", PICTURE, "y = GreaterOrEqual (x, c)", "7.2", opset=12, outputs="bool y",
           held={"c": np.float32(0)}),
    Window("opset", "Pad of computed pads of two axes", f"{PICTURE}, int64[4] pads", "y = Pad (x, pads, , axes)", "9.3",
           opset=18, held={"axes": numbers(2, 3)}),
    Window("prelu", "as Max", PICTURE, "y = PRelu (x, s)", strategy="prelu=decompose", held={"s": SLOPES}),
    Window("prelu", "slopes above 1", PICTURE, "y = PRelu (x, s)", strategy="prelu=decompose",
           held={"s": 2 * SLOPES}),
    Window("reflect-pad", "wrap", "float[N,64,56,W] x", 'y = Pad <mode = "wrap"> (x, pads)', opset=19,
           held={"pads": numbers(0, 0, 0, 2, 0, 0, 0, 2)}),
    Window("reflect-pad", "edge", "float[N,64,56,W] x", 'y = Pad <mode = "edge"> (x, pads)', "8.0",
           held={"pads": numbers(0, 0, 0, 2, 0, 0, 0, 2)}),
    Window("reflect-pad", "reflect", "float[N,64,56,W] x", 'y = Pad <mode = "reflect"> (x, pads)', "8.0",
           held={"pads": numbers(0, 0, 0, 2, 0, 0, 0, 2)}),
    Window("respell", "LSTM of batch first", "float[8,32,256] x",
           "y, h, c = LSTM <hidden_size = 256, layout = 1> (x, w, r)", held=LSTM, outputs="float y, float h, float c"),
    Window("respell", "Softmax of one dimension", "float[1000] x", "y = Softmax (x)", "rtx"),
    Window("respell", "ReduceMax of bool", "bool[64,512] x", "y = ReduceMax <keepdims = 0> (x, a)", "10.9", opset=20,
           held={"a": numbers(1)}, outputs="bool y"),
    Window("rms-norm", "fp32", HIDDEN, "y = RMSNormalization (x, s)", opset=23, held={"s": each(1.5, 768)}),
    Window("shape-tensor", "shape of a ConstantOfShape", "float[N,6,W] x",
           SHAPE,
           held={"at": np.array([[0, 1], [1, 2]]), "by": np.array([[1, 2], [2, 1]]), "first": np.int64(0)}),
    Window("swish", "alpha 1", PICTURE, "y = Swish (x)", "10.9", opset=24),
    Window("unique", "all outputs", "float[1000] x", "y, i, v, c = Unique (x)", "10.9", outputs=UNIQUE),
    Window("unique", "rows", "float[200,16] x", "y, i, v, c = Unique <axis = 0> (x)", "10.9", outputs=UNIQUE),
    *(Window("non-max-suppression", f"{count:,} boxes, 100 rows",
             f"float[1,{count},4] boxes, float[1,1,{count}] scores", FIXED_ROWS, "rtx", held=SUPPRESSED,
             outputs="int64 y") for count in (1000, 8400)),
    Window("respell", "ceil_mode", PICTURE,
           "y = MaxPool <kernel_shape = [1, 3], strides = [2, 2], ceil_mode = 1> (x)"),
    Window("int8-weight-readers", "rows of a table", "int64[1,128] rows", "g = Gather (w, rows) y = Cast <to = 1> (g)",
           "rtx", held={"w": RNG.integers(-127, 128, (2000, 768)).astype(np.int8)}),
    Window("quantized-arithmetic", "uint8 and back", PICTURE, QUANTIZED, "rtx", held=STEP),
    Window("dequantize-int16", "uint16 and back", PICTURE, QUANTIZED, "rtx", opset=21,
           held={"s": np.float32(0.02), "z": np.uint16(30000)}),
    Window("function-body", "Attention of 12 heads with 64 past keys",
           ", ".join([*(f"float[1,12,128,64] {name}" for name in "qkv"), "float[1,12,64,64] pk, float[1,12,64,64] pv"]),
           "y, nk, nv = Attention (q, k, v, , pk, pv)", "10.9", opset=23, outputs="float y, float nk, float nv"),
    Window("function-body", "SoftmaxCrossEntropyLoss", "float[64,1000] x, int64[64] l",
           "y = SoftmaxCrossEntropyLoss (x, l)", "rtx"),
    Window("function-body", "CenterCropPad to 224 x 224", "float[3,256,W] x",
           "y = CenterCropPad <axes = [1, 2]> (x, to)", "rtx", opset=18, held={"to": numbers(224, 224)}),
    Window("split-conv", "1 x 1 and SiLU", PICTURE,
           "c = Conv (x, w) s = Sigmoid (c) m = Mul (c, s) y, z = Split <axis = 1> (m)", "rtx",
           held={"w": each(0.1, 64, 64, 1, 1)}, outputs="float y, float z", only=True),
    Window("concat-conv", "3 x 3 to one channel", "float[1,64,56,56] a, float[1,1,56,56] b",
           "c = Concat <axis = 1> (a, b) y = Conv <pads = [1, 1, 1, 1]> (c, w)", "rtx",
           held={"w": each(0.1, 1, 65, 3, 3)}, only=True),
    Window("instance-norm-moments", "fp16", HALF_PICTURE, "y = InstanceNormalization (x, s, t)", "rtx",
           held={n: each(1.5, 64).astype(np.float16) for n in "st"}, outputs="float16 y", only=True),
    Window("mean-by-axis", "GlobalAveragePool", PICTURE, "y = GlobalAveragePool (x)", "rtx", only=True),
    Window("pixel-shuffle", "2 x 2 to one channel", PICTURE, "y = ConvTranspose <strides = [2, 2]> (x, w)", "rtx",
           held={"w": each(0.1, 64, 1, 2, 2)}, only=True),
    Window("resize-conv", "beside 64 channels of 112 x 112", f"{PICTURE}, float[1,64,112,112] other",
           'l = Resize <mode = "nearest"> (x, , scales) c = Concat <axis = 1> (l, other) y = Conv (c, w)', "rtx",
           held={"w": each(0.1, 64, 128, 1, 1), "scales": np.array([1, 1, 2, 2], np.float32)}, only=True),
]  # fmt: skip


def model_of(window: Window) -> ModelProto:
    """The window as a model; its sizes may be symbolic."""
    opsets = f'["" : {window.opset}{", my : 1" if window.functions else ""}]'.replace("my", '"my"')
    graph = f"g ({window.inputs}) => ({window.outputs}) {{ {window.body} }}"
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: {opsets}> {graph} {window.functions}")
    for name, array in window.held.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def nodes(graph: GraphProto) -> int:
    """The nodes of a graph and of the bodies in it, but for constants."""
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return sum(node.op_type != "Constant" for node in graph.node) + sum(map(nodes, bodies))


def feeds_of(model: ModelProto) -> dict[str, np.ndarray]:
    """One array for each input, symbolic sizes as those of a small image."""
    sizes = {"N": 1, "W": 56}
    found: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [sizes.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        drawn = RNG.standard_normal(shape) if dtype.kind == "f" else RNG.integers(0, 2, shape)
        found[value.name] = np.asarray(drawn).astype(dtype)
    return found


def milliseconds(model: ModelProto, feeds: dict[str, np.ndarray]) -> str:
    """The least time of a run; "no kernel" where the CPU has none."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of its own class
        return f"no kernel ({str(error).splitlines()[0][:60]})"
    least = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(None, feeds)
        least = min(least, time.perf_counter() - start)
    return f"{least * 1e3:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passes", nargs="*", help="these passes alone")
    wanted = parser.parse_args().passes
    print("| pass | what | nodes | as it was, ms | written longer, ms |\n|---|---|---|---|---|")
    for window in WINDOWS:
        if wanted and window.pass_name not in wanted:
            continue
        model = model_of(window)
        strategy = dict([window.strategy.split("=")]) if window.strategy else {}
        only = [window.pass_name] if window.only else None
        result = surgeon.rewrite(model, target=window.target, strategy=strategy, verify="none", only=only)
        if not result.report.applied:
            raise SystemExit(f"{window.pass_name}, {window.what}: nothing is written, {result.report.declined}")
        feeds = feeds_of(model)
        row = (window.pass_name, window.what, f"{nodes(result.model.graph)} for {nodes(model.graph)}")
        print("|", " | ".join((*row, milliseconds(model, feeds), milliseconds(result.model, feeds))), "|", flush=True)


if __name__ == "__main__":
    main()
