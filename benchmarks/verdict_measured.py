"""Whether surgeon's verdict is that of a TensorRT on another machine: parser, numbers, and names of inputs and outputs.

    python benchmarks/verdict_measured.py write FOLDER [--target 8.4] [--first SEED] [--count N]
    python benchmarks/verdict_measured.py write FOLDER [--target 8.4] --cases [--rewritten]
    python benchmarks/verdict_measured.py write FOLDER [--target 8.4] --passes [--rewritten]
    python benchmarks/verdict_measured.py read FOLDER LINES.jsonl [OUTPUTS]

`write` puts models into a folder: as many as asked for of those that benchmarks/verdict.py draws, ONNX's operator
cases, or the models of tests/cases, as they are or rewritten. Beside NAME.onnx are its inputs (NAME.npz), what ONNX
Runtime or ONNX's own case returns (NAME.want.npz), and verdicts.jsonl with what surgeon says.

On the machine with that TensorRT every model is parsed, built and run with those inputs. That gives a line of JSON a
model, {"model": NAME.onnx, "status": "parse" | "build" | "run" | "crash" | "ok", "errors": [..]}, where a status other
than ok says what failed, and OUTPUTS/NAME.trt.npz.

`read` holds them against each other:

    miss      the parser refuses it or dies, and the verdict says taken
    alarm     it returns the right numbers, and the verdict says unsupported
    wrong     it returns other numbers, and the verdict says taken
    renamed   an input or output has another name, and the verdict says taken
    unjudged  it is parsed and was not run, or draws its numbers, and the verdict says unsupported
    right     all else

Exit status 1 where more than 0.5 % are misses, more than 2 % alarms, or any is wrong or renamed.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from refused_cases import with_constants
from verdict import expected, typed, verdict

from surgeon.errors import SurgeonError
from surgeon.ir.protos import all_nodes, holders
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.feeds import feeds_of
from surgeon.proof.whole import sizes_that_run

MOST_MISSES, MOST_ALARMS = 0.005, 0.02
MOST_BYTES = 1 << 20  # of the inputs and outputs of a case: larger ones are left out
RELATIVE, ABSOLUTE, HALF = 1e-3, 1e-4, 2e-2  # kernels of a GPU add up in another order
Drawn = tuple[str, onnx.ModelProto, dict[str, Any], list[Any]]  # name, model, inputs, expected outputs


def drawn(first: int, count: int) -> Iterator[Drawn]:
    """As many models of the fuzzer as asked for, from a seed on."""
    from verdict_nodes import draw

    seed = first - 1
    while count:
        seed += 1
        pair = draw(seed)
        model = typed(pair[0]) if pair else None
        wanted = expected(model, pair[1]) if pair and model is not None else None
        if pair and model is not None and wanted is not None:
            count -= 1
            yield f"seed_{seed}", model, pair[1], wanted


def operator_cases() -> Iterator[Drawn]:
    """ONNX's operator cases that ONNX Runtime or ONNX's reference runs, their small inputs as constants."""
    from onnx.backend.test.case import node  # a minute: every case draws its numbers

    for case in node.collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        given, outputs = case.data_sets[0]
        model = with_constants(onnx.ModelProto.FromString(case.model.SerializeToString()), given)
        values = dict(zip((i.name for i in case.model.graph.input), given, strict=False))
        feeds = {i.name: values[i.name] for i in model.graph.input}
        are_tensors = all(isinstance(v, np.ndarray | np.generic) for v in [*feeds.values(), *outputs])
        if are_tensors and expected(model, feeds) is not None:
            yield case.name, model, feeds, list(outputs)


def pass_cases() -> Iterator[Drawn]:
    """The models of the passes' cases that ONNX Runtime runs, with the first sizes for which it does."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import casefile

    for path in casefile.paths():
        model = casefile.load(path).model
        try:
            runner = Runner(model)
            sized = sizes_that_run(model, runner.run)
            _, feeds = next(feeds_of(sized))
            wanted = runner.run(feeds)
        except (Unrunnable, SurgeonError):
            continue
        if sum(a.nbytes for a in (*feeds.values(), *wanted)) <= MOST_BYTES:
            yield f"{path.parent.name}__{path.stem}", model, feeds, wanted


def write(folder: Path, target: str, models: Iterator[Drawn], rewritten: bool) -> int:
    """Write models, inputs, expected outputs and verdicts; how many models there are."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, model, feeds, wanted in models:
        names = [i.name for i in model.graph.input], [o.name for o in model.graph.output]
        model = _rewritten(model, target) if rewritten else model
        said = "; ".join(f"{op}: {why}" for op, why in verdict(model, target))
        onnx.save(model, folder / f"{name}.onnx")
        np.savez(folder / f"{name}.npz", **{k: np.asarray(v) for k, v in feeds.items()})
        np.savez(folder / f"{name}.want.npz", **dict(zip(names[1], map(np.asarray, wanted), strict=True)))
        line = {"model": f"{name}.onnx", "said": said, "inputs": names[0], "outputs": names[1]}
        lines.append({**line, "random": _is_random(model)})
    (folder / "verdicts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def _is_random(model: onnx.ModelProto) -> bool:
    drawing = ("Random", "Bernoulli", "Multinomial")
    return any(n.op_type.startswith(drawing) for holder, _ in holders(model) for n in all_nodes(holder))


def _rewritten(model: onnx.ModelProto, target: str) -> onnx.ModelProto:
    import surgeon

    return surgeon.rewrite(model, target=target).model


def read(folder: Path, lines: Path, outputs: Path | None) -> int:
    """Print what differs, and the shares; 1 where a bar is missed."""
    measured = {row["model"]: row for row in map(json.loads, lines.read_text().splitlines())}
    counts, found = Counter[str](), []
    for said in map(json.loads, (folder / "verdicts.jsonl").read_text().splitlines()):
        row = measured.get(said["model"])
        if row is None:
            counts["not measured"] += 1
            continue
        outcome = judged(folder, said, row, outputs)
        counts[outcome] += 1
        counts[f"{row['status']}: {'not ' if said['said'] else ''}taken"] += 1
        if outcome not in ("right", "unjudged"):
            found.append({"class": outcome, **said, "status": row["status"], "errors": row.get("errors")})
    for line in found:
        print(json.dumps(line))
    total = sum(counts[k] for k in ("right", "miss", "alarm", "wrong", "renamed", "unjudged")) or 1
    print(json.dumps({"models": total, **dict(sorted(counts.items()))}))
    print(f"misses {100 * counts['miss'] / total:.2f} %, alarms {100 * counts['alarm'] / total:.2f} %")
    bad = counts["wrong"] + counts["renamed"]
    return int(counts["miss"] / total > MOST_MISSES or counts["alarm"] / total > MOST_ALARMS or bad > 0)


def judged(folder: Path, said: dict[str, Any], row: dict[str, Any], outputs: Path | None) -> str:
    """The class of one model."""
    taken = not said["said"]
    if row["status"] in ("parse", "crash"):
        return "miss" if taken else "right"
    stem = Path(said["model"]).stem
    file = outputs / f"{stem}.trt.npz" if outputs else None
    if file is None or not file.exists() or said.get("random"):
        return "right" if taken else "unjudged"
    got = np.load(file)
    if set(got.files) != set(said["outputs"]) or set(row.get("inputs", said["inputs"])) - set(said["inputs"]):
        return "renamed" if taken else "right"
    want = np.load(folder / f"{stem}.want.npz", allow_pickle=True)
    same = all(_same(got[name], want[name]) for name in said["outputs"])
    if taken:
        return "right" if same else "wrong"
    return "alarm" if same else "right"


def _same(got: np.ndarray, want: np.ndarray) -> bool:
    if got.shape != want.shape:
        return False
    relative, absolute = (HALF, HALF) if want.dtype == np.float16 else (RELATIVE, ABSOLUTE)
    return bool(np.allclose(got.astype(float), want.astype(float), relative, absolute, equal_nan=True))


def main() -> int:
    warnings.simplefilter("ignore")
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("what", choices=("write", "read"))
    cli.add_argument("folder", type=Path)
    cli.add_argument("lines", type=Path, nargs="?")
    cli.add_argument("outputs", type=Path, nargs="?")
    cli.add_argument("--target", default="8.4")
    cli.add_argument("--first", type=int, default=0, help="the first seed")
    cli.add_argument("--count", type=int, default=2000, help="how many models")
    cli.add_argument("--cases", action="store_true", help="ONNX's operator cases in place of drawn models")
    cli.add_argument("--passes", action="store_true", help="the models of tests/cases in place of drawn models")
    cli.add_argument("--rewritten", action="store_true", help="rewrite each model for the target first")
    args = cli.parse_args()
    if args.what == "read":
        if args.lines is None:
            cli.error("read needs the file of measured lines")
        return read(args.folder, args.lines, args.outputs)
    models = pass_cases() if args.passes else operator_cases() if args.cases else drawn(args.first, args.count)
    print(f"{write(args.folder, args.target, models, args.rewritten)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
