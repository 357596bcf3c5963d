"""Whether surgeon's verdict on single nodes is that of TensorRT-RTX's own parser and builder.

    python benchmarks/verdict.py [--first SEED] [--count N] [--workers N] [--keep FOLDER] [--lines FILE]

Draws valid nodes from ONNX's schemas (verdict_nodes.py): each alone, with neighbours, or in the body of an If or Loop.
ONNX Runtime, or ONNX's reference, must run the model. Then TensorRT-RTX parses and builds it, on a machine without a
GPU, and the answer is held against that of `surgeon check --target rtx`:

    miss   it is refused, and the verdict says taken
    alarm  it is built, and the verdict says unsupported
    wrong  it is built, the verdict says taken, and what the parser understood computes other numbers than ONNX Runtime
    right  all else; that a node is misread counts as right where the network computes other numbers, and as unjudged
           where it cannot be evaluated

Each finding is reduced: inputs, attributes and neighbours go while the finding stays. The same seed draws the same
model with the same onnx package. Prints the shares and each group of findings with its seeds. --keep writes the models.
Exit status 1 where more than 0.1 % are misses or more than 1 % alarms.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

MOST_MISSES, MOST_ALARMS = 0.001, 0.01


# ---- one model -------------------------------------------------------------------------------------------------------


def typed(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with the inferred types of its outputs; None where it is not valid ONNX."""
    try:
        shaped = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(shaped)
    except Exception:
        return None
    for mine, found in zip(model.graph.output, shaped.graph.output, strict=True):
        if not found.type.WhichOneof("value"):
            return None
        mine.CopyFrom(found)
    return model


def expected(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any] | None:
    """What ONNX Runtime, or ONNX's reference, returns; None where neither runs the model."""
    found = runtime(model, feeds)
    return found if found is not None else reference(model, feeds)


def runtime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any] | None:
    """What ONNX Runtime returns; None where it does not run the model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data = model.SerializeToString()
    try:
        return list(ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds))
    except Exception:
        return None


def reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any] | None:
    """What ONNX's reference returns: it runs what ONNX Runtime has no kernel for, and is not a judge of numbers."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, feeds))
    except Exception:
        return None


def build(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> tuple[str, Any]:
    """("", what the parser made) where TensorRT-RTX builds the model for these inputs; else (why, None)."""
    import corpus_rtx
    import tensorrt_rtx as trt

    from surgeon.trt.network import definition

    log = corpus_rtx.Log()
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not parser.parse(model.SerializeToString()):
        error = parser.get_error(parser.num_errors - 1) if parser.num_errors else None
        return f"not parsed: {error.desc()}" if error else "not parsed", None
    config, profile, dynamic = builder.create_builder_config(), builder.create_optimization_profile(), False
    for tensor in (network.get_input(i) for i in range(network.num_inputs)):
        if tensor.name not in feeds:
            return f"renamed: an input is called {tensor.name}", None
        value = feeds[tensor.name]
        if tensor.is_shape_tensor:
            given = [int(v) for v in value.reshape(-1)]
            if not given:
                return f"not built: no profile can be made for {tensor.name}, of no elements", None
            profile.set_shape_input(tensor.name, given, given, given)
            dynamic = True
        if any(d < 0 for d in tensor.shape):
            profile.set_shape(tensor.name, value.shape, value.shape, value.shape)
            dynamic = True
    if dynamic:
        config.add_optimization_profile(profile)
    log.lines.clear()
    if builder.build_serialized_network(network, config) is None:
        return f"not built: {'; '.join(log.lines[:1])}", None
    return "", definition.read(network, log, builder, parser)


def verdict(model: onnx.ModelProto, target: str = "rtx") -> list[tuple[str, str]]:
    """(operator, why) of the nodes that surgeon says are unsupported."""
    from surgeon.ir.model import Model
    from surgeon.pipeline.run import judged
    from surgeon.targets.target import Target

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    indexed = Model(copy)
    ops = {n.label: n.op for s in indexed.scopes for n in s.live()}
    return [(ops.get(d.node, ""), d.why) for d in judged(indexed, Target.parse(target))[0]]


def numbers(network: Any, model: onnx.ModelProto, feeds: dict[str, np.ndarray], wanted: list[Any]) -> str:
    """How the parsed network's numbers compare: "same", "near", "other", or "unjudged".

    What is misread may be off by little: "near" is neither the same, nor clearly another number.
    """
    from surgeon.errors import SurgeonError
    from surgeon.trt.network import evaluation

    if any(n.op_type.startswith("Random") for n in model.graph.node):
        return "unjudged"
    given = {t.name: feeds[t.name] for t in network.inputs if t.name in feeds}
    try:
        found = evaluation.evaluate(network, given)
    except (SurgeonError, NotImplementedError, Exception):
        return "unjudged"
    pairs = [(np.asarray(found[i.name]), np.asarray(want)) for i, want in zip(model.graph.output, wanted, strict=True)]
    if any(got.shape != want.shape for got, want in pairs):
        return "other"
    for name, tolerance in (("same", 1e-5), ("near", 2e-2)):
        if all(np.allclose(g.astype(float), w.astype(float), tolerance, tolerance, equal_nan=True) for g, w in pairs):
            return name
    return "other"


def judge(model: onnx.ModelProto, feeds: dict[str, np.ndarray], wanted: list[Any]) -> tuple[str, str, str]:
    """(class, what TensorRT-RTX says, what surgeon says)."""
    why, network = build(model, feeds)
    said = "; ".join(f"{op}: {reason}" for op, reason in verdict(model))
    if why and not said and is_lenient(model, feeds):
        return "unjudged", why, said
    if why:
        return ("right" if said else "miss"), why, said
    same = numbers(network, model, feeds, wanted)
    if same == "other" and runtime(model, feeds) is None:
        same = "unjudged"
    if same == "other" and not said:
        same = beside(network, model, feeds)
    if said:
        return {"same": "alarm", "near": "right", "other": "right", "unjudged": "unjudged"}[same], same, said
    return ("wrong" if same == "other" else "right"), same, said


def beside(network: Any, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> str:
    """How other numbers than ONNX Runtime's are to be judged: by ONNX's reference, where that runs the model as well.

    The reference alone is not a judge: it leaves out lengths, and pools wrongly. Where the two differ (a Slice backward
    from INT_MAX, what no order was asked for), TensorRT is right with either.
    """
    if any(_is_open(n, feeds) for n in every_node(model.graph)):
        return "unjudged"
    other = reference(model, feeds)
    if other is None:
        return "other"
    if any(n.op_type == "Loop" for n in model.graph.node):  # the reference joins what it should stack
        other = [np.expand_dims(value, 0) for value in other]
    return "same" if numbers(network, model, feeds, other) == "same" else "other"


def _is_open(node: onnx.NodeProto, feeds: dict[str, np.ndarray]) -> bool:
    """Whether ONNX does not say the numbers of a node.

    The order of a TopK that is not sorted; whether the clip of an LSTM bounds its cell state, too, which is the input
    of an activation; the last state of a recurrent node without steps; where a window is that is narrower than its
    stride, with auto_pad.
    """
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if given.get("auto_pad") in (b"SAME_UPPER", b"SAME_LOWER"):
        windows = zip(given.get("kernel_shape", ()), given.get("strides", ()), strict=False)
        return any(extent < stride for extent, stride in windows)
    if node.op_type == "TopK":
        return not given.get("sorted", 1)
    if node.op_type == "LSTM" and "clip" in given:
        return True
    return node.op_type in ("GRU", "LSTM", "RNN") and any(value.size == 0 for value in feeds.values())


LENIENT = frozenset({"Concat", "Einsum", "GatherND", "ScatterElements"})


def is_lenient(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> bool:
    """Whether ONNX Runtime ran what ONNX forbids: sizes that do not fit together, where the reference does not run."""
    return any(n.op_type in LENIENT for n in every_node(model.graph)) and reference(model, feeds) is None


def every_node(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of its bodies."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from every_node(attribute.g)


def reduced(model: onnx.ModelProto, feeds: dict[str, np.ndarray], found: str) -> onnx.ModelProto:
    """The model without whatever attribute, input or neighbour the finding does not need."""
    small = onnx.ModelProto()
    small.CopyFrom(model)
    for change in [c for n in range(len(small.graph.node)) for c in _changes(small, n)]:
        candidate = onnx.ModelProto()
        candidate.CopyFrom(small)
        change(candidate)
        if typed(candidate) is None:
            continue
        given = {i.name: feeds[i.name] for i in candidate.graph.input}
        wanted = expected(candidate, given)
        if wanted is not None and judge(candidate, given, wanted)[0] == found:
            small = candidate
    return small


def _changes(model: onnx.ModelProto, number: int) -> list[Any]:
    node = model.graph.node[number]

    def without(name: str) -> Any:
        def change(m: onnx.ModelProto) -> None:
            kept = [a for a in m.graph.node[number].attribute if a.name != name]
            del m.graph.node[number].attribute[:]
            m.graph.node[number].attribute.extend(kept)

        return change

    return [without(a.name) for a in node.attribute if a.type != onnx.AttributeProto.GRAPH]


# ---- many of them ----------------------------------------------------------------------------------------------------


def work(first: int, count: int, keep: Path | None) -> None:
    """Judge the models of some seeds, and print a line of JSON for each."""
    from verdict_nodes import draw

    for seed in range(first, first + count):
        print(json.dumps({"seed": seed, "class": "begun"}), flush=True)
        drawn = draw(seed)
        model = typed(drawn[0]) if drawn else None
        if drawn is None or model is None:
            continue
        wanted = expected(model, drawn[1])
        if wanted is None:
            continue
        print(json.dumps({"seed": seed, "class": "asked", "taken": not verdict(model)}), flush=True)
        found, says, said = judge(model, drawn[1], wanted)
        line: dict[str, Any] = {"seed": seed, "class": found, "rtx": says[:400], "surgeon": said[:300]}
        line["op"] = model.graph.node[-1].op_type
        if found in ("miss", "alarm", "wrong"):
            small = reduced(model, drawn[1], found)
            line["model"] = onnx.printer.to_text(small)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                onnx.save(small, keep / f"{found}_{line['op']}_{seed}.onnx")
        print(json.dumps(line), flush=True)


def run(first: int, count: int, keep: Path | None) -> list[dict[str, Any]]:
    """Judge the models of some seeds in a process of its own, and begin again after one that ends it."""
    found: list[dict[str, Any]] = []
    end = first + count
    while first < end:
        command = [sys.executable, __file__, "--first", str(first), "--count", str(end - first), "--work"]
        command += ["--keep", str(keep)] if keep else []
        env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        assert process.stdout is not None
        last, asked = first, False
        for text in process.stdout:
            if '{"seed"' not in text:
                continue  # the builder prints, too
            line = json.loads(text[text.index('{"seed"') :])
            last, asked = line["seed"], line.get("taken", False)
            if line["class"] not in ("begun", "asked"):
                found.append(line)
        if process.wait() == 0:
            return found
        if asked:  # else ONNX Runtime ended it, or the verdict says as much
            said = f"the process ended with {process.returncode}"
            found.append({"seed": last, "class": "crash", "rtx": said, "surgeon": "", "op": ""})
        first = last + 1
    return found


def group(line: dict[str, Any]) -> str:
    """Findings with one cause, as far as the words say: numbers and names are left out."""
    said = line["surgeon"] if line["class"] == "alarm" else line["rtx"]
    return f"{line['class']} {line['op']}: {re.sub(r'[0-9]+|[a-z][0-9]+', '#', said)[:160]}"


def main() -> int:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--first", type=int, default=0, help="the first seed")
    cli.add_argument("--count", type=int, default=2000, help="how many seeds")
    cli.add_argument("--workers", type=int, default=2, help="how many processes")
    cli.add_argument("--keep", type=Path, help="the folder for the models of findings")
    cli.add_argument("--lines", type=Path, help="a file for what was found of each seed, as JSON lines")
    cli.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = cli.parse_args()
    if args.work:
        work(args.first, args.count, args.keep)
        return 0
    from concurrent.futures import ThreadPoolExecutor

    started = time.perf_counter()
    parts = [(args.first + k, min(100, args.first + args.count - args.first - k)) for k in range(0, args.count, 100)]
    with ThreadPoolExecutor(args.workers) as pool:
        lines = [line for found in pool.map(lambda p: run(*p, args.keep), parts) for line in found]
    if args.lines is not None:
        args.lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return report(lines, time.perf_counter() - started)


def report(lines: list[dict[str, Any]], seconds: float) -> int:
    """Print the shares and the groups of findings; 1 where a bar is missed."""
    counts = Counter(line["class"] for line in lines)
    total = counts.total() or 1
    print(f"{total} nodes of {len({line['op'] for line in lines})} operators, {seconds:.0f} s")
    for name in ("right", "miss", "crash", "alarm", "wrong", "unjudged"):
        print(f"{name:9} {counts[name]:6}  {100 * counts[name] / total:.2f} %")
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["class"] in ("miss", "crash", "alarm", "wrong"):
            groups[group(line)].append(line)
    for name, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(found)} x {name}   seeds {[line['seed'] for line in found[:6]]}")
        print("    " + " ".join(found[0].get("model", "").split())[:500])
    misses = (counts["miss"] + counts["crash"]) / total
    return 1 if misses > MOST_MISSES or counts["alarm"] / total > MOST_ALARMS else 0


if __name__ == "__main__":
    sys.exit(main())
