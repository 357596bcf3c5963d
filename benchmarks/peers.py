"""surgeon and its peers on the same graphs, in one table.

    pip install onnxsim==0.8.1 onnxslim onnxoptimizer onnxscript onnx-graphsurgeon
    python benchmarks/peers.py [--repeat 5] [--nodes 10000] [--graphs leaky,ordinary,l2] [--rows WORD] [MODEL.onnx ...]

Each tool loads a file, does what it does by itself, and saves; two rows give onnxscript and onnx-graphsurgeon the one
pattern Max(x, alpha * x) -> LeakyRelu(x). Each row is a process of its own.

seconds     the median of the runs but the first, which pays for what is done once a process
peak        the memory of the process at its largest, with what it imports
nodes       of the result; LeakyRelus among them
difference  the largest, of the result from the original in ONNX Runtime without optimisations, relative to the largest
            output, on one random input
second run  whether the tool leaves its own result as it is, byte by byte
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import speed

MIB = 1024  # ru_maxrss is in KiB


def load_and_save(source: Path, out: Path) -> None:
    onnx.save(onnx.load(source), out)


def surgeon_unproved(source: Path, out: Path) -> None:
    import surgeon

    surgeon.rewrite_file(source, out, target="10.9", verify="none")


def surgeon_proved(source: Path, out: Path) -> None:
    import surgeon

    surgeon.rewrite_file(source, out, target="10.9")


def onnxsim(source: Path, out: Path) -> None:
    import onnxsim

    model, _ = onnxsim.simplify(onnx.load(source))
    onnx.save(model, out)


def onnxslim(source: Path, out: Path) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), out)


def onnxoptimizer(source: Path, out: Path) -> None:
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), out)


def onnxscript(source: Path, out: Path) -> None:
    import onnxscript.optimizer
    import onnxscript.rewriter

    optimized = onnxscript.optimizer.optimize(onnx.load(source))
    onnx.save(onnxscript.rewriter.rewrite(optimized), out)


def onnxscript_pattern(source: Path, out: Path) -> None:
    import onnxscript.rewriter
    from onnxscript import ir
    from onnxscript.rewriter import pattern

    def spelled(op, x, alpha):  # type: ignore[no-untyped-def]
        return op.Max(x, op.Mul(x, alpha))

    def fused(op, x, alpha):  # type: ignore[no-untyped-def]
        return op.LeakyRelu(x, alpha=float(alpha.const_value.numpy()))

    rule = pattern.RewriteRule(spelled, fused)
    ir.save(onnxscript.rewriter.rewrite(ir.load(source), pattern_rewrite_rules=[rule]), out)


def graphsurgeon(source: Path, out: Path) -> None:
    import onnx_graphsurgeon as gs

    graph = gs.import_onnx(onnx.load(source))
    onnx.save(gs.export_onnx(graph.fold_constants().cleanup().toposort()), out)


def graphsurgeon_pattern(source: Path, out: Path) -> None:
    import onnx_graphsurgeon as gs

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


# Each row: the package whose version is printed, what is said beside it, and what is run.
ROWS: dict[str, tuple[str, str, Callable[[Path, Path], None]]] = {
    "load + save": ("onnx", "load + save", load_and_save),
    "surgeon, unproved": ("trt-surgeon", "every pass, no proof", surgeon_unproved),
    "surgeon, proved": ("trt-surgeon", "every pass, proved", surgeon_proved),
    "onnxsim": ("onnxsim", "simplify", onnxsim),
    "onnxslim": ("onnxslim", "slim", onnxslim),
    "onnxoptimizer": ("onnxoptimizer", "optimize", onnxoptimizer),
    "onnxscript": ("onnxscript", "optimize and rewrite", onnxscript),
    "onnxscript, pattern": ("onnxscript", "the one pattern", onnxscript_pattern),
    "graphsurgeon": ("onnx-graphsurgeon", "fold, cleanup", graphsurgeon),
    "graphsurgeon, pattern": ("onnx-graphsurgeon", "the one pattern", graphsurgeon_pattern),
}


def work(row: str, source: Path, out: Path, repeat: int) -> None:
    """Run one row in this process, and print what it took as the last line."""
    run, seconds = ROWS[row][2], []
    for _ in range(repeat + 1):
        gc.collect()
        start = time.perf_counter()
        run(source, out)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB
    print(json.dumps({"seconds": statistics.median(seconds[1:] or seconds), "peak": peak}))


def worked(row: str, source: Path, out: Path, repeat: int) -> dict[str, float]:
    """`work` in a process of its own. Raises RuntimeError with what it said last, where it fails."""
    words = [sys.executable, __file__, "--work", row, "--repeat", str(repeat), str(source), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def difference(source: Path, out: Path) -> float:
    """The largest difference between the outputs of two models, relative to the largest output."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    sessions = [ort.InferenceSession(str(p), options, providers=["CPUExecutionProvider"]) for p in (source, out)]
    rng = np.random.default_rng(0)
    feeds = {
        i.name: rng.standard_normal([d if isinstance(d, int) else 64 for d in i.shape]).astype(np.float32)
        for i in sessions[0].get_inputs()
    }
    before, after = (session.run(None, feeds) for session in sessions)
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in zip(after, before, strict=True))


def measured(row: str, source: Path, folder: Path, repeat: int) -> str:
    """The cells of a row after its name."""
    out, again = folder / "out.onnx", folder / "again.onnx"
    try:
        took = worked(row, source, out, repeat)
        worked(row, out, again, 0)
    except RuntimeError as error:
        return f"fails: {error}"
    ops = [n.op_type for n in onnx.load(out).graph.node]
    same = "the same" if out.read_bytes() == again.read_bytes() else "changes it"
    off = difference(source, out)
    return (
        f"{took['seconds']:>8.3f} {took['peak']:>7.0f} {len(ops):>7} {ops.count('LeakyRelu'):>7} {off:>11.1e}  {same}"
    )


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("models", nargs="*", type=Path)
    cli.add_argument("--repeat", type=int, default=5)
    cli.add_argument("--nodes", type=int, default=10000)
    cli.add_argument("--graphs", default="leaky,ordinary,l2")
    cli.add_argument("--rows", default="", help="only the rows whose name has this in it")
    cli.add_argument("--work", choices=ROWS, help=argparse.SUPPRESS)
    args = cli.parse_args()
    if args.work:
        source, out = args.models
        work(args.work, source, out, args.repeat)
        return
    print(f"Python {sys.version.split()[0]}, onnx {onnx.__version__}, ONNX Runtime {ort.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = dict.fromkeys(args.models)
        for graph in args.graphs.split(",") if not args.models else ():
            onnx.save(getattr(speed, graph)(args.nodes), folder / f"{graph}.onnx")
            sources[folder / f"{graph}.onnx"] = None
        for source in sources:
            print(f"\n{source.stem}, {len(onnx.load(source).graph.node)} nodes")
            heads = f"{'seconds':>8} {'peak MiB':>7} {'nodes':>6} {'leaky':>7} {'difference':>11}  second run"
            print(f"{'tool':<46} {heads}")
            for row, (package, what, _) in ROWS.items():
                if args.rows not in row:
                    continue
                told = installed(package)
                cells = measured(row, source, folder, args.repeat) if told else "is not installed"
                print(f"{f'{package} {told}, {what}':<46} {cells}", flush=True)


if __name__ == "__main__":
    main()
