"""Whether `surgeon rewrite --fp16` crashes on a model, writes an invalid one, or changes it in a second run.

    python benchmarks/half_corpus.py [FOLDER] [--targets 8.4,10.9,rtx,11] [--every N] [--way bf16]

Converts every .onnx file of FOLDER (default: tests/corpus) for each target, and the result again. The result must pass
ONNX's full check where the original does, ONNX Runtime must load it where it loads the original, and the second run
must return the same bytes.
Prints each failure and the counts; a conversion above the tolerance is counted, and checked as well.
Exit status 1 where something failed. With `--every 6` it looks at every sixth file.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

import surgeon

CORPUS = Path(__file__).parent.parent / "tests" / "corpus"
TARGETS = "8.4,10.9,rtx,11"
SLOW = 10.0  # seconds: a conversion that takes longer is listed


def why_invalid(model: onnx.ModelProto) -> str:
    """What ONNX's full check finds; empty where that is nothing."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of the checker or of shape inference
        return str(error)
    return ""


def why_not_loaded(data: bytes) -> str:
    """The reason for which ONNX Runtime does not load a model; empty where it does."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class but this one
        return "" if "NOT_IMPLEMENTED" in str(error) else str(error)  # it lacks kernels of bf16
    return ""


def failures(model: onnx.ModelProto, target: str, way: str, counts: Counter[str]) -> Iterator[str]:
    """What is wrong with the conversion of a model for a target."""
    options: dict[str, Any] = {"target": target, way: True}
    try:
        once = surgeon.rewrite(model, **options)
        twice = surgeon.rewrite(once.model, **options)
    except surgeon.SurgeonError as error:
        counts["refused"] += 1
        yield f"refused: {error}"
        return
    except Exception:
        yield f"crash: {traceback.format_exc()}"
        return
    assert once.precision is not None
    counts["not compared" if once.precision.not_compared else "withheld" if once.precision.failed else "within"] += 1
    data = once.model.SerializeToString()
    why = why_invalid(once.model)
    if why and not why_invalid(model):
        yield f"invalid: {why}"
    why = why_not_loaded(data)
    if why and not why_not_loaded(model.SerializeToString()):
        yield f"not loaded: {why}"
    if twice.model.SerializeToString() != data:
        yield "another result in the second run"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--way", default="fp16", choices=("fp16", "bf16", "half"))
    args = parser.parse_args()
    files = sorted(args.folder.rglob("*.onnx"))[:: args.every]
    counts: Counter[str] = Counter()
    failed = 0
    for file in files:
        model = onnx.load(file)
        for target in args.targets.split(","):
            started = time.perf_counter()
            for failure in failures(model, target, args.way, counts):
                failed += 1
                print(f"{file.name} {target} {failure}", flush=True)
            seconds = time.perf_counter() - started
            if seconds > SLOW:
                print(f"{file.name} {target} took {seconds:.0f} s", flush=True)
    print(f"{len(files)} models, {args.targets}: {dict(counts)}, {failed} failures")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
