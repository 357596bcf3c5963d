"""How long `surgeon rewrite` takes, next to `onnx.load` + `onnx.save` of the same file in the same process.

    python benchmarks/speed.py [--repeat 7] [--nodes 10000,100000] [--busy]

Four models of each size: `leaky`, one decomposed LeakyRelu every five nodes (2,000 rewrites at 10,000 nodes);
`ordinary`, the same among the operators that most patterns begin with, each with a constant a channel of its own; `l2`,
one torch.nn.functional.normalize every eight nodes; `near miss`, where every Mul is one edge away from an L2 norm and
nothing is rewritten. `leaky` comes bare, and as PyTorch's two exporters write such nodes: `torchscript` with scoped
names and a Constant node before each use, `dynamo` with shapes and five metadata entries a node,
both as long as in tests/corpus.
Proof is off: it costs the windows, not the model. Medians; the ratio is taken run by run. Each run begins without the
garbage of the run before, as in a process of its own; what it takes Python to collect surgeon's is the last column.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import surgeon


def _model(nodes: list[NodeProto], last: str, tensors: list[TensorProto]) -> ModelProto:
    shape = [2, 64]
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def leaky(count: int) -> ModelProto:
    """Mul, Max, Sigmoid, Add, Tanh, over and over: count / 5 rewrites."""
    nodes: list[NodeProto] = []
    last = "x"
    for k in range(count // 5):
        steps = (
            ("Mul", [last, "alpha"]),
            ("Max", [last, f"y{k}_0"]),
            ("Sigmoid", [f"y{k}_1"]),
            ("Add", [f"y{k}_2", f"y{k}_1"]),
            ("Tanh", [f"y{k}_3"]),
        )
        nodes += [helper.make_node(op, inputs, [f"y{k}_{i}"], f"block{k}/{op}") for i, (op, inputs) in enumerate(steps)]
        last = f"y{k}_4"
    return _model(nodes, last, [numpy_helper.from_array(np.float32(0.1).reshape(()), "alpha")])


def ordinary(count: int) -> ModelProto:
    """Add, Mul, Max, Mul, Add, the outer three with 64 numbers of their own: count / 5 rewrites."""
    rng = np.random.default_rng(0)
    nodes: list[NodeProto] = []
    tensors = [numpy_helper.from_array(np.float32(0.1).reshape(()), "alpha")]
    last = "x"
    for k in range(count // 5):
        names = [f"{name}{k}" for name in ("bias", "scale", "shift")]
        tensors += [numpy_helper.from_array(rng.normal(1, 0.1, 64).astype(np.float32), name) for name in names]
        steps = (
            ("Add", [last, names[0]]),
            ("Mul", [f"y{k}_0", "alpha"]),
            ("Max", [f"y{k}_0", f"y{k}_1"]),
            ("Mul", [f"y{k}_2", names[1]]),
            ("Add", [f"y{k}_3", names[2]]),
        )
        nodes += [
            helper.make_node(op, inputs, [f"y{k}_{i}"], f"block{k}/{op}{i}") for i, (op, inputs) in enumerate(steps)
        ]
        last = f"y{k}_4"
    return _model(nodes, last, tensors)


def torchscript(count: int) -> ModelProto:
    """The leaky blocks as the TorchScript exporter writes them: six nodes each."""
    nodes: list[NodeProto] = []
    last = "x"
    for k in range(count // 6):
        scope = f"/features/features.{k}/act"
        y = [f"{scope}/{op}_output_0" for op in ("Constant", "Mul", "Max", "Sigmoid", "Add", "Tanh")]
        slope = numpy_helper.from_array(np.float32(0.1).reshape(()))
        nodes.append(helper.make_node("Constant", [], [y[0]], f"{scope}/Constant", value=slope))
        steps = (
            ("Mul", [last, y[0]]),
            ("Max", [last, y[1]]),
            ("Sigmoid", [y[2]]),
            ("Add", [y[3], y[2]]),
            ("Tanh", [y[4]]),
        )
        nodes += [helper.make_node(op, inputs, [y[i + 1]], f"{scope}/{op}") for i, (op, inputs) in enumerate(steps)]
        last = y[5]
    return _model(nodes, last, [])


def dynamo(count: int) -> ModelProto:
    """The leaky blocks with what the dynamo exporter adds: a shape for each tensor,
    five metadata entries for each node."""
    model = leaky(count)
    for node in model.graph.node:
        model.graph.value_info.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [2, 64]))
        name = node.output[0]
        for key, value in (
            (
                "namespace",
                f": model.Network/features: torch.nn.Sequential/features.{name}: aten.{node.op_type.lower()}.Tensor",
            ),
            (
                "pkg.torch.onnx.class_hierarchy",
                f"['model.Network', 'torch.nn.Sequential', 'aten.{node.op_type.lower()}.Tensor']",
            ),
            (
                "pkg.torch.onnx.fx_node",
                f"%{name} : [num_users=1] = call_function[target=torch.ops.aten.{node.op_type.lower()}.Tensor](args = "
                f"(%x, %y), kwargs = {{}})",
            ),
            ("pkg.torch.onnx.name_scopes", f"['', 'features', 'features.{name}']"),
            (
                "pkg.torch.onnx.stack_trace",
                'File "model.py", line 12, in forward\n    def forward(self, x): return self.features(x)',
            ),
        ):
            entry = node.metadata_props.add()
            entry.key, entry.value = key, value
    return model


def l2(count: int) -> ModelProto:
    """ReduceL2, Clip, Shape, Expand, Div, then three others: count / 8 rewrites."""
    nodes: list[NodeProto] = []
    last = "x"
    for k in range(count // 8):
        y = [f"y{k}_{i}" for i in range(8)]
        nodes += [
            helper.make_node("ReduceL2", [last], [y[0]], f"block{k}/ReduceL2", axes=[1], keepdims=1),
            helper.make_node("Clip", [y[0], "floor"], [y[1]], f"block{k}/Clip"),
            helper.make_node("Shape", [last], [y[2]], f"block{k}/Shape"),
            helper.make_node("Expand", [y[1], y[2]], [y[3]], f"block{k}/Expand"),
            helper.make_node("Div", [last, y[3]], [y[4]], f"block{k}/Div"),
            *[
                helper.make_node(op, [y[4 + i]], [y[5 + i]], f"block{k}/{op}")
                for i, op in enumerate(("Sigmoid", "Tanh", "Exp"))
            ],
        ]
        last = y[7]
    return _model(nodes, last, [numpy_helper.from_array(np.float32(1e-12).reshape(()), "floor")])


def near_miss(count: int) -> ModelProto:
    """x * (1 / ||y||) with another y than x: every Mul is one edge away from an L2 norm."""
    nodes: list[NodeProto] = []
    last = "x"
    for k in range(count // 4):
        y = [f"y{k}_{i}" for i in range(4)]
        nodes += [
            helper.make_node("Tanh", [last], [y[0]], f"block{k}/Tanh"),
            helper.make_node("ReduceL2", [y[0]], [y[1]], f"block{k}/ReduceL2", axes=[1], keepdims=1),
            helper.make_node("Reciprocal", [y[1]], [y[2]], f"block{k}/Reciprocal"),
            helper.make_node("Mul", [last, y[2]], [y[3]], f"block{k}/Mul"),
        ]
        last = y[3]
    return _model(nodes, last, [])


def measure(
    proto: ModelProto, folder: Path, repeat: int, target: str, busy: bool
) -> tuple[float, float, float, float, int]:
    """(seconds of load + save, of surgeon, the median of their ratio, seconds of the garbage collection, rewrites)."""
    source, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(proto, source)
    plain, ours, garbage, applied = [], [], [], 0
    clock = time.process_time if busy else time.perf_counter
    for _ in range(repeat + 1):
        gc.collect()
        start = clock()
        onnx.save(onnx.load(source), out)
        middle = clock()
        applied = len(surgeon.rewrite_file(source, out, target=target, verify="none").applied)
        end = clock()
        plain.append(middle - start)
        ours.append(end - middle)
        gc.collect()
        garbage.append(clock() - end)
    plain, ours = plain[1:], ours[1:]  # the first run pays for what is done once a process
    if busy:
        return min(plain), min(ours), min(ours) / min(plain), min(garbage), applied
    return (
        statistics.median(plain),
        statistics.median(ours),
        statistics.median(o / p for o, p in zip(ours, plain, strict=True)),
        statistics.median(garbage),
        applied,
    )


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--repeat", type=int, default=7)
    cli.add_argument("--nodes", default="10000,100000")
    cli.add_argument("--target", default="10.9")
    cli.add_argument("--busy", action="store_true", help="processor time, the least of the runs: on a busy machine")
    args = cli.parse_args()
    sizes = [int(n) for n in args.nodes.split(",")]
    heads = f"{'load+save':>10} {'surgeon':>10} {'ratio':>6} {'per size':>9} {'garbage':>8}"
    print(f"{'model':<12} {'nodes':>8} {'rewrites':>9} {heads}")
    with tempfile.TemporaryDirectory() as folder:
        for make in (leaky, ordinary, torchscript, dynamo, l2, near_miss):
            first = None
            for size in sizes:
                plain, ours, ratio, garbage, applied = measure(
                    make(size), Path(folder), args.repeat, args.target, args.busy
                )
                first = first or ours
                print(
                    f"{make.__name__:<12} {size:>8} {applied:>9} {plain:>9.3f}s {ours:>9.3f}s {ratio:>6.1f} "
                    f"{ours / first:>8.1f}x {garbage:>7.3f}s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
