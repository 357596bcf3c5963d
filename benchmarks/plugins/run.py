"""Time surgeon's plugins on this machine's GPU, against a copy, TensorRT's own layers and PyTorch's operators.

    python benchmarks/plugins/run.py [--arch 90] [--driver "trt84 --plugin libsurgeon_plugins.so"] [--out FILE.json]
                                     [--program kernels_test]

Prints, per operator and shape: time, GB/s (bytes read plus bytes written), the ratio to a device-to-device copy of the
same bytes timed in turn with it, the ratio to TensorRT's own layers for the same model (with --driver, see
engine_check.py for what a driver is) and to PyTorch's operator (where torch can be imported). Above 1 the plugin is
faster. What could not be measured is "not measured".
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHAPE = (1, 64, 256, 256)
Row = dict[str, object]


def build(arch: str, work: Path) -> Path:
    """tests/plugins/kernels_test.cu and the operators, compiled for one architecture."""
    program = work / "kernels_test"
    operators = sorted((ROOT / "surgeon/trt/plugins/src").glob("*.cu"))
    sources = [str(ROOT / "tests/plugins/kernels_test.cu"), *map(str, operators)]
    target = f"-arch=sm_{arch}" if arch.isdigit() else f"-arch={arch}"
    subprocess.run(["nvcc", "-std=c++17", "-O3", target, *sources, "-o", str(program)], check=True)
    return program


def lines(command: list[str]) -> list[Row]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "{" not in done.stdout:
        sys.exit(f"{command[0]} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def torch_times() -> dict[str, float]:
    """Microseconds of PyTorch's operators at SHAPE in fp32 and fp16, keyed `operator type`."""
    try:
        import torch
        import torch.nn.functional as f
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    times = {}
    for kind, dtype in (("fp32", torch.float32), ("fp16", torch.float16)):
        x = torch.randn(SHAPE, device="cuda", dtype=dtype)
        c = torch.randn(SHAPE[1], device="cuda", dtype=dtype)
        operators: dict[str, Callable[[], object]] = {
            "SurgeonL2Norm": lambda: f.normalize(x, dim=1) * c.view(1, -1, 1, 1),
            "SurgeonInstanceNorm": lambda: f.instance_norm(x, weight=c, bias=c, eps=1e-5),
            "SurgeonReflectPad": lambda: f.pad(x, (3, 3, 3, 3), mode="reflect"),
            "SurgeonLeakyRelu": lambda: f.leaky_relu(x, 0.1),
            "SurgeonPRelu": lambda: f.prelu(x, c),
        }
        for name, operator in operators.items():
            times[f"{name} {kind}"] = _torch_time(torch, operator)
    return times


def _torch_time(torch: object, operator: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[attr-defined]
    samples = []
    for i in range(-3, 15):
        start.record()
        for _ in range(20):
            operator()
        end.record()
        end.synchronize()
        if i >= 0:
            samples.append(start.elapsed_time(end) / 20 * 1e3)
    return statistics.median(samples)


def tensorrt_times(driver: str, work: Path) -> dict[str, tuple[float | None, float | None]]:
    """Microseconds (TensorRT's own layers, plugin) of one execution at SHAPE, keyed `operator type`."""
    sys.path.insert(0, str(HERE))
    import numpy as np
    import onnx
    from models import Node, native_model, pad_node, plugin_model
    from onnx import helper

    channels = np.random.default_rng(0).standard_normal(SHAPE[1])
    padded = (1, 64, 262, 262)
    models = {}
    for kind, dtype in (("fp32", np.float32), ("fp16", np.float16)):
        w = {
            "w": channels.astype(dtype).reshape(1, -1, 1, 1),
            "two": dtype(2),
            "eps": dtype(1e-5 if kind == "fp16" else 1e-10),
        }
        ssd = [
            helper.make_node("Pow", ["x", "two"], ["sq"]),
            helper.make_node("ReduceSum", ["sq", "axes"], ["s"], keepdims=1),
            helper.make_node("Sqrt", ["s"], ["n"]),
            helper.make_node("Add", ["n", "eps"], ["d"]),
            helper.make_node("Div", ["x", "d"], ["q"]),
            helper.make_node("Mul", ["w", "q"], ["y"]),
        ]
        leaky = [helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.1)]
        prelu = [helper.make_node("PRelu", ["x", "w"], ["y"])]
        pad = [helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")]
        instance = [helper.make_node("InstanceNormalization", ["x", "c", "c"], ["y"], epsilon=1e-5)]
        pads = [0, 0, 3, 3, 0, 0, 3, 3]
        l2 = Node("SurgeonL2Norm", {"axis": 1, "epsilon": float(w["eps"]), "mode": "add_norm"}, (channels,))
        pairs = {
            "SurgeonL2Norm": (native_model(ssd, {**w, "axes": np.array([1])}, SHAPE, SHAPE, kind), l2),
            "SurgeonLeakyRelu": (native_model(leaky, {}, SHAPE, SHAPE, kind), Node("SurgeonLeakyRelu", {"alpha": 0.1})),
            "SurgeonPRelu": (
                native_model(prelu, {"w": w["w"].reshape(-1, 1, 1)}, SHAPE, SHAPE, kind),
                Node("SurgeonPRelu", {}, (channels.reshape(-1, 1, 1),)),
            ),
            "SurgeonReflectPad": (
                native_model(pad, {"pads": np.array(pads)}, SHAPE, padded, kind),
                pad_node(pads, "reflect"),
            ),
            "SurgeonInstanceNorm": (
                native_model(instance, {"c": channels.astype(np.float32)}, SHAPE, SHAPE, kind),
                Node("SurgeonInstanceNorm", {"epsilon": 1e-5, "slope": 1.0}, (channels, channels)),
            ),
        }
        for name, (native, node) in pairs.items():
            for which, model in (("native", native), ("plugin", plugin_model(node, SHAPE, kind))):
                path = work / f"{name}-{kind}-{which}.onnx"
                onnx.save(model, path)
                models[path.name] = path
    found = {}
    for kind in ("fp32", "fp16"):
        paths = [str(p) for name, p in models.items() if kind in name]
        for row in lines([*shlex.split(driver), *["--fp16"] * (kind == "fp16"), *paths]):
            found[str(row["model"])[:-5]] = row.get("us")
            if row["status"] != "ok":
                print(f"# TensorRT, {row['model']}: {row['status']} {row['errors']}", file=sys.stderr)
    keys = {name.rsplit("-", 1)[0] for name in found}
    return {key.replace("-", " "): (found.get(f"{key}-native"), found.get(f"{key}-plugin")) for key in sorted(keys)}  # type: ignore[misc]


def ratio(other: float | None, mine: float | None) -> str:
    return f"{other / mine:.2f}" if other and mine else "not measured"


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--arch", default="native", help="native or, as of `surgeon plugins build`, 90")
    cli.add_argument("--driver", help="a command that builds, runs and times ONNX models with TensorRT")
    cli.add_argument("--program", type=Path, help="kernels_test, built already")
    cli.add_argument("--out", type=Path, help="the rows as JSON")
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = args.program or build(args.arch, Path(folder))
        rows = lines([str(program), "bench"])
        torch_us = torch_times()
        tensorrt_us = tensorrt_times(args.driver, Path(folder)) if args.driver else {}
    small = "x".join(map(str, SHAPE))
    print("| operator | shape | type | us | GB/s | of a copy | against TensorRT's own | against PyTorch |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        key = f"{row['op']} {row['type']}"
        asked = row["shape"] == small
        native, plugin = tensorrt_us.get(key, (None, None)) if asked else (None, None)
        torch_time = torch_us.get(key) if asked else None
        mine = float(str(row["us"]))
        row.update(native_us=native, engine_us=plugin, torch_us=torch_time)
        name = f"{str(row['op']).removeprefix('Surgeon')}{', ' if row['note'] else ''}{row['note']}"
        others = f"{ratio(native, plugin)} | {ratio(torch_time, mine)}" if asked else "|"
        print(
            f"| {name} | {row['shape']} | {row['type']} | {mine:.1f} | {row['gb_s']} | {row['of_copy']:.2f} "
            f"| {others} |"
        )
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
