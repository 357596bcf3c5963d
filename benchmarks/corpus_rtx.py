"""How many models TensorRT-RTX builds as they are, and how many after `surgeon rewrite --target rtx`.

    python benchmarks/corpus_rtx.py [FOLDER] [--only fold,identity,...]

Parses and builds every .onnx file of FOLDER (default: tests/corpus) before and after in one process, on a machine
without a GPU, and prints both counts, what is lost, and what remains with the parser's reason.
Exit status 1 where a model is lost.
A symbolic dimension is built for size 2, an input that decides a shape for ones.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import tensorrt_rtx as trt

import surgeon

CORPUS = Path(__file__).parent.parent / "tests" / "corpus"
DYNAMIC = 2  # the size of a symbolic dimension


class Log(trt.ILogger):
    """Keeps what the builder says of an error."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.lines: list[str] = []

    def log(self, severity: trt.ILogger.Severity, text: str) -> None:
        if severity <= trt.ILogger.ERROR:
            self.lines.append(text)


def _sized(tensor: Any, batches: Collection[str], batch: int, size: int) -> list[int]:
    """The shape of an input with a size for each dynamic dimension."""
    firsts = [not k or tensor.get_dimension_name(k) in batches for k in range(len(tensor.shape))]
    return [d if d >= 0 else batch if first else size for d, first in zip(tensor.shape, firsts, strict=True)]


class Built(NamedTuple):
    """An engine, or None with "not parsed" or "not built" and the reason."""

    engine: bytes | None
    state: str
    why: str = ""


class Parsed(NamedTuple):
    """A builder, its network, the parser, which holds the weights, and why it does not parse the model."""

    builder: Any
    network: Any
    parser: Any
    why: str


def parsed(data: bytes, log: Log) -> Parsed:
    """The network of a model."""
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if parser.parse(data):
        return Parsed(builder, network, parser, "")
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    reasons = dict.fromkeys(f"{error.node_operator()}: {error.desc()}" for error in errors)
    return Parsed(builder, network, parser, "; ".join(reasons) or "no reason is given")


def build(data: bytes, batch: int = DYNAMIC, size: int = DYNAMIC) -> tuple[str, str]:
    """("built", ""), ("not parsed", why) or ("not built", why), as `engine_of` finds it."""
    return engine_of(data, batch, size)[1:]


def engine_of(data: bytes, batch: int = DYNAMIC, size: int = DYNAMIC) -> Built:
    """The engine of a model.

    `batch` is the size of a dynamic first dimension, and of any other of its name; `size` that of the rest.
    """
    log = Log()
    builder, network, _parser, why = parsed(data, log)
    if why:
        return Built(None, "not parsed", why)
    config, profile, dynamic = builder.create_builder_config(), builder.create_optimization_profile(), False
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    batches = {t.get_dimension_name(0) for t in inputs if len(t.shape) > 1 and t.shape[0] < 0} - {""}
    for tensor in inputs:
        if any(d < 0 for d in tensor.shape):
            shape, dynamic = _sized(tensor, batches, batch, size), True
            profile.set_shape(tensor.name, shape, shape, shape)
        if tensor.is_shape_tensor:
            ones, dynamic = [1] * math.prod(tensor.shape), True
            profile.set_shape_input(tensor.name, ones, ones, ones)
    if dynamic:
        config.add_optimization_profile(profile)
    log.lines.clear()
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        return Built(None, "not built", "; ".join(log.lines[:1]))
    return Built(bytes(engine), "built")


def main() -> int:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    cli.add_argument("--only", help="pass names with commas between them; all without it")
    args = cli.parse_args()
    plain, after, lost, left = Counter[str](), Counter[str](), [], []
    started = time.perf_counter()
    for path in sorted(args.folder.glob("*.onnx")):
        first, _ = build(path.read_bytes())
        result = surgeon.rewrite(path, target="rtx", only=args.only.split(",") if args.only else None)
        second, why = build(result.model.SerializeToString())
        plain[first] += 1
        after[second] += 1
        if second != "built":
            (lost if first == "built" else left).append(f"{path.name}: {second}: {' '.join(why.split())[:200]}")
    print(f"TensorRT-RTX {trt.__version__}, {plain.total()} models, {time.perf_counter() - started:.0f} s")
    for title, counts in (("as they are", plain), ("after surgeon rewrite --target rtx", after)):
        print(
            f"{title}: {counts['built']} built, {counts['not parsed']} not parsed, {counts['not built']} parsed and "
            "not built"
        )
    for title, lines in (("lost", lost), ("still not built", left)):
        print(f"{title}: {len(lines)}")
        for line in lines:
            print(f"  {line}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
