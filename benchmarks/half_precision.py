"""Half precision side by side: what converters make of real networks, measured without a GPU.

    python half_precision.py NETWORKS.json [NAME...] --out FOLDER
        [--convert LABEL=COMMAND]... [--files LABEL]... [--again] [--no-build]

NETWORKS.json is a list of {"name", "file", "task"}; files and samples are relative to its folder. The samples of a
network are data/NAME/cal.npz (for the converters) and data/NAME/test*.npz (held out), arrays by input name.

COMMAND converts a network; {model}, {out} and {data} in it are the fp32 model, the file to write, and cal.npz. A
command without {data} converts without data. `--files LABEL` measures FOLDER/NAME.LABEL.onnx files that are there
already, with FOLDER/NAME.LABEL.json for their exit status, seconds and memory.

Of each result it prints: exit status, wall and CPU seconds, peak memory of the process in MB, the largest error of an
output on the held-out samples, the output, integers that differ, Cast nodes, and of TensorRT-RTX's engine (sizes of
test0, min = opt = max) the kernels, those that only copy, the MB that they read and write, and the least: without
copies, with each tensor written and read once.

The error of an output is the largest difference to the fp32 original, relative to the original's largest element of
that output on that sample. Every half-precision tensor is rounded, kernels compute in fp32, as a strongly typed runtime
does. Results are kept in FOLDER until the model or a sample changes.

With `--judge LABEL` a list follows: where the results of that converter are above TOLERANCE with exit 0, refused, less
exact than 1.1 times the best of the others, have more casts or kernels than one of the others within TOLERANCE, or take
more than SECONDS or MEMORY.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from surgeon.precision.rounding import GIVEN, rounded
from surgeon.trt.program import Program, engine_of

LOW = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
HEAVY = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU"})
CONVERT_SECONDS, MEASURE_SECONDS, BUILD_SECONDS = 600, 300, 300
TOLERANCE, SECONDS, MEMORY = 0.01, 20, 1500  # MEMORY: MB above the size of the model
FAILED = {"load": "O", "run": "O", "build": "R"}


# --- ONNX Runtime
def session(model: ModelProto) -> Any:
    """An ONNX Runtime session that changes nothing of the model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def loads(model: Path) -> str:
    """Why ONNX Runtime refuses a file; empty where it loads, or only has no kernel for a type.

    It may crash on a file that is valid (fp16 GRU), which is no refusal: this runs in a process of its own.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever stops it is the result
        return "" if "NOT_IMPLEMENTED" in str(error) else str(error)[:300]
    return ""


# --- what is measured
def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, relative to the largest element of `want`; inf where sizes, NaN or infinities differ."""
    if got.shape != want.shape:
        return float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if bool(np.all(same)):
        return 0.0
    if not np.isfinite(got[~same]).all() or not np.isfinite(want[~same]).all():
        return float("inf")
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
    return float(np.abs(got - want)[~same].max()) / largest if largest else float("inf")


def errors(model: Path, original: Path, samples: list[Path]) -> dict[str, Any]:
    """The largest error of an output over the samples, that output, and the largest share of integers that differ."""
    before = session(onnx.load(original))
    try:
        strict = rounded(onnx.load(model))
        if strict is None:
            return {"failed": "load", "why": "the opset is older than 9, in which nothing can be rounded here"}
        after = session(strict)
    except Exception as error:  # whatever stops it is the result
        return {"failed": "load", "why": str(error)[:300]}
    names = [o.name for o in before.get_outputs()]
    given = [i.name for i in after.get_inputs()]
    worst: dict[str, float] = dict.fromkeys(names, 0.0)
    differing = 0.0
    for sample in samples:
        feed = dict(np.load(sample))
        want = before.run(None, feed)
        try:
            got = after.run(None, {n: feed[n.removesuffix(GIVEN)] for n in given})
        except Exception as error:  # whatever stops it is the result
            return {"failed": "run", "why": str(error)[:300]}
        for name, a, b in zip(names, got, want, strict=True):
            if b.dtype.kind == "f":
                worst[name] = max(worst[name], relative_error(a, b))
            else:
                same = a.shape == b.shape
                differing = max(differing, float((a != b).mean()) if same and b.size else float(not same))
    output = max(worst, key=lambda n: worst[n], default="")
    return {"error": worst.get(output, 0.0), "output": output, "integers": differing, "errors": worst}


def counts(model: ModelProto) -> dict[str, Any]:
    """Casts between floating-point types, and of the nodes that cost most, how many have half-precision outputs."""
    from surgeon.ir.model import Model

    typed = Model(model)
    floats = {int(t) for t in (*LOW, TensorProto.FLOAT, TensorProto.DOUBLE)}
    nodes = [n for scope in typed.scopes for n in scope.live()]
    ends = [(n.inputs[0], n.outputs[0]) for n in nodes if n.op == "Cast"]
    casts = [e for e in ends if all(v is not None and typed.dtype(v) in floats for v in e)]
    heavy = [n for n in nodes if n.op in HEAVY]
    half = sum(any(o is not None and typed.dtype(o) in LOW for o in n.outputs) for n in heavy)
    return {"casts": len(casts), "half": f"{half}/{len(heavy)}"}


def fixed(model: Path, feed: dict[str, np.ndarray]) -> bytes:
    """The model with the sizes of `feed` in its inputs, where it has symbolic ones."""
    proto = onnx.load(model)
    for info in proto.graph.input:
        if info.name in feed:
            del info.type.tensor_type.shape.dim[:]
            for size in feed[info.name].shape:
                info.type.tensor_type.shape.dim.add().dim_value = size
    del proto.graph.value_info[:]
    for info in proto.graph.output:
        info.type.tensor_type.ClearField("shape")
    return bytes(proto.SerializeToString())


def least(program: Program) -> float:
    """The MB that are left without kernels that only copy, where each tensor is written once and read once."""
    kernels = [k for k in program.kernels if not k.is_copy]
    whole: Counter[str] = Counter()
    read: Counter[str] = Counter()
    for tensor in (t for k in kernels for t in (*k.reads, *k.writes)):
        whole[tensor.base] = max(whole[tensor.base], tensor.size or 0)
    for tensor in (t for k in kernels for t in k.reads):
        read[tensor.base] += tensor.size or 0
    return (sum(min(read[b], whole[b]) for b in read) + sum(k.bytes_written for k in kernels)) / 1e6


def engine(model: Path, sample: Path) -> dict[str, Any]:
    """What TensorRT-RTX builds of the model at the sizes of a sample."""
    import tensorrt_rtx as trt

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[str] = []

        def log(self, severity: Any, text: str) -> None:
            if severity <= trt.ILogger.ERROR:
                self.lines.append(text)

    feed = dict(np.load(sample))
    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not parser.parse(fixed(model, feed)):
        causes = [parser.get_error(k) for k in range(parser.num_errors)]
        why = "; ".join(f"{e.node_operator()}: {e.desc()}" for e in causes)
        return {"failed": "build", "why": f"not parsed: {why[:300]}"}
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    profile, needed = builder.create_optimization_profile(), False
    for k in range(network.num_inputs):
        tensor = network.get_input(k)
        value = feed[tensor.name]
        if tensor.is_shape_tensor:
            numbers = [int(v) for v in value.ravel()]
            profile.set_shape_input(tensor.name, numbers, numbers, numbers)
            needed = True
    if needed:
        config.add_optimization_profile(profile)
    start = time.perf_counter()
    data = builder.build_serialized_network(network, config)
    if data is None:
        return {"failed": "build", "why": "not built: " + "; ".join(log.lines)[-300:]}
    programs = engine_of(bytes(data)).programs
    return {
        "ops": sum(len(p.kernels) for p in programs),
        "copies": sum(p.copies for p in programs),
        "mha": sum(p.attention[0] for p in programs),
        "mb": sum(p.bytes for p in programs) / 1e6,
        "least": sum(map(least, programs)),
        "symbolic": sum(p.uncounted for p in programs),
        "seconds": time.perf_counter() - start,
    }


# --- runs, kept until the file changes
@dataclass(frozen=True)
class Network:
    """A network of the list, with its samples."""

    name: str
    model: Path
    task: str
    calibration: Path
    tests: list[Path]


def networks(listing: Path, names: list[str]) -> list[Network]:
    """The networks of a listing that are named; all without names."""
    found = []
    for entry in json.loads(listing.read_text()):
        name = entry["name"]
        data = listing.parent / "data" / name
        if not names or name in names:
            model = listing.parent / entry["file"]
            found.append(Network(name, model, entry["task"], data / "cal.npz", sorted(data.glob("test*.npz"))))
    return found


def convert(network: Network, command: str, out: Path) -> dict[str, Any]:
    """Run a converter: exit status, wall and CPU seconds, peak memory in MB, whether it wrote the file."""
    words = [w.format(model=network.model, out=out, data=network.calibration) for w in shlex.split(command)]
    out.unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with out.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(["timeout", str(CONVERT_SECONDS), *words], stdout=log, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "rc": process.returncode,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu": round(usage.ru_utime + usage.ru_stime, 1),
        "mb": round(usage.ru_maxrss / 1024),
        "written": out.exists(),
    }


def _apart(arguments: list[str], seconds: int) -> dict[str, Any]:
    """This script with arguments in a process of its own, which may crash: the JSON that it prints last."""
    try:
        done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"failed": "run" if "--error-of" in arguments else "build", "why": f"more than {seconds} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        failed = "run" if "--error-of" in arguments else "build"
        return {"failed": failed, "why": f"exit {done.returncode}: {done.stderr[-300:]}"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def measure(network: Network, model: Path, builds: bool, kept: Path) -> dict[str, Any]:
    """The errors, casts and engine of a model; from `kept` where neither it nor a sample has changed."""
    files = [model, network.model, *network.tests]
    digest = hashlib.sha256(b"".join(hashlib.sha256(f.read_bytes()).digest() for f in files)).hexdigest()
    old = json.loads(kept.read_text()) if kept.exists() else {}
    if old.get("digest") != digest:
        old = {"digest": digest}
    if "accuracy" not in old:
        old["counts"] = _apart(["--counts-of", str(model)], MEASURE_SECONDS)
        tests = [str(t) for t in network.tests]
        arguments = ["--error-of", str(model), str(network.model), *tests]
        same = model == network.model
        old["accuracy"] = {"error": 0.0} if same else _apart(arguments, MEASURE_SECONDS)
        if why := _apart(["--loads", str(model)], MEASURE_SECONDS).get("refused"):
            old["accuracy"] = {"failed": "load", "why": why}
    if builds and not {"least", "failed"} & old.get("engine", {}).keys():
        old["engine"] = _apart(["--build", str(model), str(network.tests[0])], BUILD_SECONDS)
    kept.write_text(json.dumps(old))
    return old


# --- the table
TITLES = [
    "network",
    "converter",
    "exit",
    "s",
    "CPU-s",
    "MB",
    "error",
    "ints",
    "casts",
    "half",
    "kernels",
    "copies",
    "MB-moved",
    "least",
]
WIDTHS = (-17, -20, 4, 6, 6, 5, 8, 6, 5, 8, 7, 6, 8, 6)


def line(cells: list[Any], note: str = "") -> str:
    """A line of the table."""
    return " ".join(f"{c!s:{'<' if w < 0 else '>'}{abs(w)}}" for c, w in zip(cells, WIDTHS, strict=True)) + f"  {note}"


def row(name: str, label: str, run: dict[str, Any], found: dict[str, Any]) -> str:
    """A line of the table. O: ONNX Runtime refuses the file; R: TensorRT-RTX does not build it; -: nothing written."""
    accuracy, built, counted = (found.get(k, {}) for k in ("accuracy", "engine", "counts"))
    failed = [part for part in (accuracy, built) if "failed" in part]
    note = " | ".join(f"{FAILED[p['failed']]}: {' '.join(p['why'].split())[:110]}" for p in failed)
    error = "-" if not accuracy else FAILED.get(accuracy.get("failed", ""), "") or f"{accuracy['error']:.2g}"
    integers = f"{accuracy['integers']:.2g}" if accuracy.get("integers") else ""
    kernels: list[Any] = ["", "", "", ""]
    if "failed" in built:
        kernels[0] = "R"
    elif built:
        kernels = [built["ops"], built["copies"], f"{built['mb']:.1f}{'?' if built['symbolic'] else ''}"]
        kernels.append(f"{built['least']:.1f}" if "least" in built else "")
    of_run = [run.get(k, "") for k in ("rc", "seconds", "cpu", "mb")]
    of_file = [counted.get("casts", ""), counted.get("half", "")]
    return line([name, label, *of_run, error, integers, *of_file, *kernels], note or accuracy.get("output", ""))


Result = tuple[dict[str, Any], dict[str, Any]]  # of the conversion, and what is measured


def _error(result: Result) -> float:
    """The error of a result that ONNX Runtime loads and TensorRT-RTX builds; else infinite."""
    accuracy, built = result[1].get("accuracy", {}), result[1].get("engine", {})
    return float("inf") if "failed" in accuracy or "failed" in built else float(accuracy.get("error", "inf"))


def complaints(network: Network, mine: Result, others: dict[str, Result]) -> Iterator[str]:
    """What is wrong with a converter's result, alone and beside the others'."""
    run, found = mine
    accuracy, built = found.get("accuracy", {}), found.get("engine", {})
    error = float(accuracy.get("error", "inf"))
    if run.get("rc"):
        yield f"exit {run['rc']}"
    elif error > TOLERANCE:
        yield f"exit 0 with an error of {error:.2g}"
    if "failed" in accuracy or "failed" in built:
        yield "a file that is not loaded or not built"
    if run.get("seconds", 0) > SECONDS:
        yield f"{run['seconds']} s"
    if run.get("mb", 0) > MEMORY + network.model.stat().st_size / 1e6:
        yield f"{run['mb']} MB"
    if not others or not accuracy or "failed" in accuracy:
        return
    best = min(others, key=lambda label: _error(others[label]))
    if error > 1.1 * _error(others[best]):
        yield f"error {error:.2g}, {best} {_error(others[best]):.2g}"
    for label, other in others.items():
        if _error(other) <= TOLERANCE:
            fewer = other[1].get("counts", {}).get("casts"), other[1].get("engine", {}).get("ops")
            own = found.get("counts", {}).get("casts"), built.get("ops")
            for what, a, b in zip(("casts", "kernels"), own, fewer, strict=True):
                if a is not None and b is not None and a > b:
                    yield f"{a} {what}, {label} {b}"


def table(
    found: list[Network], converters: dict[str, str], files: list[str], options: argparse.Namespace
) -> Iterator[str]:
    """The lines of the table, each as soon as it is measured."""
    yield line(TITLES, "output or reason")
    judged = []
    for network in found:
        results: dict[str, Result] = {}
        for label in ["fp32", *files, *converters]:
            out = options.out / f"{network.name}.{label}.onnx"
            record = out.with_suffix(".json")
            run: dict[str, Any] = {}
            if label == "fp32":
                out = network.model
            elif label in converters and (options.again or not record.exists()):
                run = convert(network, converters[label], out)
                record.write_text(json.dumps(run))
            elif record.exists():
                run = json.loads(record.read_text())
            elif label in files:
                continue
            kept = options.out / f"{network.name}.{label}.measured.json"
            measured = {}
            if out.exists():
                measured = measure(network, out, options.build, kept)
            yield row(network.name, label, run, measured)
            results[label] = run, measured
        results.pop("fp32")
        if options.judge in results:
            mine = results.pop(options.judge)
            others = {k: v for k, v in results.items() if k in options.against or not options.against}
            judged.append(f"{network.name:17} {'; '.join(complaints(network, mine, others)) or 'good'}")
    yield from ["", f"{options.judge}:", *judged] if judged else []


def main() -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("listing", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--convert", action="append", default=[], metavar="LABEL=COMMAND")
    parser.add_argument("--files", action="append", default=[], metavar="LABEL")
    parser.add_argument("--judge", metavar="LABEL")
    parser.add_argument("--against", action="append", default=[], metavar="LABEL", help="default: all others")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--no-build", dest="build", action="store_false")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    converters = dict(c.split("=", 1) for c in options.convert)
    for line in table(networks(options.listing, options.names), converters, options.files, options):
        print(line, flush=True)
    return 0


def part(arguments: list[str]) -> dict[str, Any] | None:
    """What one of this script's own processes finds; None for the command line of a person."""
    if arguments[:1] == ["--error-of"]:
        return errors(Path(arguments[1]), Path(arguments[2]), [Path(a) for a in arguments[3:]])
    if arguments[:1] == ["--loads"]:
        return {"refused": loads(Path(arguments[1]))}
    if arguments[:1] == ["--build"]:
        return engine(Path(arguments[1]), Path(arguments[2]))
    if arguments[:1] == ["--counts-of"]:
        return counts(onnx.load(arguments[1]))
    return None


if __name__ == "__main__":
    answer = part(sys.argv[1:])
    if answer is not None:
        print(json.dumps(answer), flush=True)
        os._exit(0)  # a builder's own threads must not keep the process
    sys.exit(main())
