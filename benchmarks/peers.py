"""How long the same rewrite takes surgeon and its peers: load, 2,000 times Max(x, alpha * x) -> LeakyRelu(x), save.

    pip install onnxscript && python benchmarks/peers.py [--repeat 5] [--nodes 10000]

surgeon runs first with that pass alone and then with every pass, each without proof and with it. The peers are given
the one pattern: onnxscript's rewriter as a rule, onnx-graphsurgeon as a loop over the nodes, cleanup and toposort. In
every output the LeakyRelus are counted. Medians; each run begins without the garbage of another.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
import onnxscript.rewriter
import speed
from onnxscript import ir
from onnxscript.rewriter import pattern

import surgeon


def with_surgeon(source: Path, out: Path, **options: object) -> None:
    surgeon.rewrite_file(source, out, target="10.9", **options)


def with_onnxscript(source: Path, out: Path) -> None:
    def spelled(op, x, alpha):  # type: ignore[no-untyped-def]
        return op.Max(x, op.Mul(x, alpha))

    def fused(op, x, alpha):  # type: ignore[no-untyped-def]
        return op.LeakyRelu(x, alpha=float(alpha.const_value.numpy()))

    model = ir.load(source)
    rule = pattern.RewriteRule(spelled, fused)
    ir.save(onnxscript.rewriter.rewrite(model, pattern_rewrite_rules=[rule]), out)


def with_graphsurgeon(source: Path, out: Path) -> None:
    graph = gs.import_onnx(onnx.load(source))
    for larger in [n for n in graph.nodes if n.op == "Max"]:
        for x, product in (larger.inputs, reversed(larger.inputs)):
            maker = product.inputs[0] if product.inputs else None
            if maker is None or maker.op != "Mul" or maker.inputs[0] is not x or len(product.outputs) != 1:
                continue
            output = larger.outputs[0]
            larger.outputs.clear()
            graph.layer(op="LeakyRelu", inputs=[x], outputs=[output], attrs={"alpha": float(maker.inputs[1].values)})
            break
    onnx.save(gs.export_onnx(graph.cleanup().toposort()), out)


def measured(run: Callable[[Path, Path], None], source: Path, out: Path, repeat: int, windows: int) -> float:
    """The median of the seconds that `run` takes."""
    seconds = []
    for _ in range(repeat + 1):
        gc.collect()
        start = time.perf_counter()
        run(source, out)
        seconds.append(time.perf_counter() - start)
    fused = sum(n.op_type == "LeakyRelu" for n in onnx.load(out).graph.node)
    if fused != windows:
        raise SystemExit(f"{fused} windows of {windows} were rewritten")
    return statistics.median(seconds[1:])  # the first run pays for what is done once a process


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--repeat", type=int, default=5)
    cli.add_argument("--nodes", type=int, default=10000)
    args = cli.parse_args()
    only = ["leaky-relu"]
    runs: dict[str, Callable[[Path, Path], None]] = {
        "load + save": lambda source, out: onnx.save(onnx.load(source), out),
        "surgeon, the one pass": lambda source, out: with_surgeon(source, out, only=only, verify="none"),
        "surgeon, the one pass, proved": lambda source, out: with_surgeon(source, out, only=only),
        "surgeon, every pass": lambda source, out: with_surgeon(source, out, verify="none"),
        "surgeon, every pass, proved": lambda source, out: with_surgeon(source, out),
        f"onnxscript {onnxscript.__version__}": with_onnxscript,
        f"onnx-graphsurgeon {gs.__version__}": with_graphsurgeon,
    }
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        onnx.save(speed.leaky(args.nodes), source)
        for name, run in runs.items():
            windows = 0 if name == "load + save" else args.nodes // 5
            print(f"{name:<32} {measured(run, source, out, args.repeat, windows):8.3f} s", flush=True)


if __name__ == "__main__":
    main()
