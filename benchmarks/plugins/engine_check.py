"""Build every plugin into TensorRT engines over many shapes, and compare with ONNX Runtime on the same files.

    python engine_check.py --driver "trt84 --plugin libsurgeon_plugins.so" [--work DIR] [--jobs N]

The driver is a command that takes [--jobs N] [--fp16] --out DIR MODEL.onnx..., reads MODEL.npz beside a model, prints
one JSON object a model ({"model", "status", "errors", "us", ...}) and writes DIR/MODEL.trt.npz. Prints one line a
comparison that fails and a summary an operator; exit status 1 if any failed. Errors are relative to the largest output
of a float64 evaluation; the bars are 2e-6 in fp32 and 1e-3 in fp16.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from models import NUMPY, Node, pad_node, plugin_model

SHAPES = [
    (1, 1, 1), (2, 3, 65), (1, 2048, 7), (1, 3, 224, 224), (8, 16, 33, 31), (2, 64, 38, 38), (1, 2048, 7, 9),
    (1, 1, 512, 512),
    (2, 5, 511, 509), (4, 511, 14, 13), (1, 64, 256, 256), (1, 2, 9, 16, 16), (2, 3, 31, 33, 35), (8, 8, 1, 1),
    (1, 1, 1200, 1000), (1, 2048, 97, 97),  # the last outgrows the L2 cache
]  # fmt: skip
MODES = ("max_norm", "add_norm", "max_sum", "add_sum", "min_reciprocal")
BAR = {"fp32": 2e-6, "fp16": 1e-3}


def nodes_for(shape: tuple[int, ...], turn: int) -> list[Node]:
    rank, rng = len(shape), np.random.default_rng(turn)
    axis = (1, rank - 1, 0)[turn % 3]
    weight = (rng.standard_normal(shape[axis]),) if turn % 2 else ()
    mode = MODES[turn % 5]
    epsilon = 1e12 if mode == "min_reciprocal" else 1e-6
    pads = [0] * (2 * rank)
    crop = [0] * (2 * rank)
    for i in range(1, rank):
        pads[i], pads[i + rank] = min(3, shape[i] - 1), min(2, shape[i] - 1)
        if shape[i] > 4:
            crop[i], crop[i + rank] = (-1, 2) if i % 2 else (2, -2)
    affine = (rng.standard_normal(shape[1]), rng.standard_normal(shape[1])) if turn % 3 else ()
    slope = (rng.standard_normal((shape[1],) + (1,) * (rank - 2)),)
    return [
        Node("SurgeonL2Norm", {"axis": axis if turn % 4 else axis - rank, "epsilon": epsilon, "mode": mode}, weight),
        Node("SurgeonInstanceNorm", {"epsilon": 1e-5, "slope": 0.2 if turn % 2 else 1.0}, affine),
        pad_node(pads, ("reflect", "symmetric", "edge", "wrap")[turn % 4]),
        pad_node(crop, ("edge", "reflect", "wrap", "symmetric")[turn % 4]),
        Node("SurgeonLeakyRelu", {"alpha": 0.1}),
        Node("SurgeonPRelu", {}, slope),
    ]


def adversarial(shape: tuple[int, ...], turn: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal(shape)
    match turn % 5:
        case 1:
            x += 10
        case 2:
            x *= 100
        case 3:
            x[:, :: max(2, shape[1] // 2)] = 0.0
        case 4:
            x *= 1e-3
    return x


def exact(model: onnx.ModelProto, feed: np.ndarray) -> np.ndarray:
    """The model with its types widened to float64, in ONNX Runtime."""
    wide = onnx.ModelProto.FromString(model.SerializeToString())
    small = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for i, w in enumerate(wide.graph.initializer):
        wide.graph.initializer[i].CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(w).astype(np.float64), w.name)
        )
    for node in wide.functions[0].node:
        for a in node.attribute:
            if a.name == "to":
                a.i = onnx.TensorProto.DOUBLE
            if a.name == "value" and a.t.data_type in small:
                a.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(a.t).astype(np.float64), a.t.name))
    return np.asarray(run_onnx(split_leaky(wide), feed.astype(np.float64)))


def split_leaky(model: onnx.ModelProto) -> onnx.ModelProto:
    """ONNX Runtime has no float64 LeakyRelu or PRelu: Where(x < 0, slope * x, x) in their place."""
    body, new = model.functions[0].node, []
    for i, node in enumerate(body):
        if node.op_type not in ("LeakyRelu", "PRelu"):
            new.append(node)
            continue
        x, y, slope = node.input[0], node.output[0], f"slope{i}"
        zero = onnx.numpy_helper.from_array(np.float64(0))
        new.append(onnx.helper.make_node("Constant", [], [f"zero{i}"], value=zero))
        if node.op_type == "LeakyRelu":
            alpha = onnx.numpy_helper.from_array(np.float64(np.float32(node.attribute[0].f)))
            new.append(onnx.helper.make_node("Constant", [], [slope], value=alpha))
        else:
            slope = node.input[1]
        new.append(onnx.helper.make_node("Mul", [x, slope], [f"scaled{i}"]))
        new.append(onnx.helper.make_node("Less", [x, f"zero{i}"], [f"below{i}"]))
        new.append(onnx.helper.make_node("Where", [f"below{i}", f"scaled{i}", x], [y]))
    del body[:]
    body.extend(new)
    return model


def run_onnx(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def relative(got: np.ndarray, want: np.ndarray) -> float:
    if got.shape != want.shape or not np.array_equal(np.isnan(got), np.isnan(want)):
        return float("inf")
    largest = float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want))) or 1.0
    return float(np.nanmax(np.abs(got.astype(np.float64) - want), initial=0.0)) / largest


def main() -> int:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--driver", required=True)
    cli.add_argument("--work", type=Path, default=Path("engine_check.work"))
    cli.add_argument("--jobs", type=int, default=8)
    args = cli.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)

    failed = 0
    worst: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind in ("fp32", "fp16"):
        cases = {}
        for turn, shape in enumerate(SHAPES):
            for i, node in enumerate(nodes_for(shape, turn)):
                x = adversarial(shape, turn + i, np.random.default_rng(turn)).astype(NUMPY[kind])
                name = f"{node.op_type}-{i}-{'x'.join(map(str, shape))}-{kind}"
                model = plugin_model(node, shape, kind)
                onnx.save(model, args.work / f"{name}.onnx")
                np.savez(args.work / f"{name}.npz", x=x)
                cases[name] = (node, model, x)
        command = [*shlex.split(args.driver), "--jobs", str(args.jobs), "--out", str(args.work / "out")]
        command += ["--fp16"] * (kind == "fp16") + [str(args.work / f"{name}.onnx") for name in cases]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = {
            row["model"][:-5]: row
            for row in map(json.loads, filter(lambda s: s.startswith("{"), done.stdout.splitlines()))
        }
        for name, (node, model, x) in cases.items():
            row = rows.get(name, {"status": "no answer", "errors": [done.stderr[-300:]]})
            if row["status"] != "ok":
                failed += 1
                print(f"FAIL {name}: {row['status']} {row['errors']}")
                continue
            got = np.load(args.work / "out" / f"{name}.trt.npz")["y"]
            want = exact(model, x)
            error, runtime = relative(got, want), relative(run_onnx(model, x), want)
            worst[node.op_type, kind].append(error)
            if not error <= max(BAR[kind], 0.0):
                failed += 1
                print(f"FAIL {name}: TensorRT {error:.2e}, ONNX Runtime {runtime:.2e}")
    for (op, kind), errors in sorted(worst.items()):
        print(f"{op:20} {kind}: {len(errors)} engines, largest error {max(errors):.2e}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
