"""The job of pipeline.sh in Python: rewrite, compare, build, and one summary.json beside the reports.

    python pipeline.py MODEL.onnx TARGET FOLDER [INPUT:MIN,OPT,MAX ...]

Exit status: 0 where every step held, 1 where one did not, 2 where the model cannot be read or an argument is wrong.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import surgeon
from surgeon.html.page import render
from surgeon.precision import convert
from surgeon.trt.compare import compare
from surgeon.trt.engine import build

Sizes = list[tuple[int, ...]]


class Job:
    """Runs steps one after the other; a step that fails is written down, and the job goes on where it can."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: dict[str, dict[str, Any]] = {}

    @property
    def status(self) -> int:
        return 0 if all(s["ok"] for s in self.steps.values()) else 1

    def step(self, name: str, run: Callable[[], tuple[bool, str]]) -> bool:
        """`run` returns whether the step held, and a sentence."""
        started = time.perf_counter()
        try:
            ok, said = run()
        except surgeon.EngineError as error:
            ok, said = False, str(error)
        self.steps[name] = {"ok": ok, "said": said, "seconds": round(time.perf_counter() - started, 1)}
        print(f"{name:14s} {'ok' if ok else 'FAILED':8s} {said.splitlines()[0]}")
        return ok


def run(model: Path, target: str, folder: Path, profile: dict[str, Sizes]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(folder)
    shapes = {name: sizes[1] for name, sizes in profile.items()}
    result = surgeon.rewrite(model, target=target, shapes=shapes)
    written, half = folder / "model.onnx", folder / "model_fp16.onnx"

    def rewritten() -> tuple[bool, str]:
        result.save(written)
        report = result.report
        (folder / "report.json").write_text(json.dumps(report.to_json(), indent=2), encoding="utf-8")
        (folder / "report.html").write_text(render(report, title=model.name, written=written.name), encoding="utf-8")
        return (
            not report.failed,
            f"{len(report.applied)} rewrites, {len(report.undone)} undone, {len(report.untaken)} unsupported nodes",
        )

    def final() -> tuple[bool, str]:
        again = surgeon.rewrite(written, target=target, shapes=shapes).report.applied
        return not again, f"a second run applies {len(again)}"

    def compared() -> tuple[bool, str]:
        found = compare(model, written, shapes=shapes, network=True)
        return found.ok, found.verdict

    def converted() -> tuple[bool, str]:
        found = convert(result.model, target=surgeon.Target.parse(target), base=model.parent, shapes=shapes)
        if not found.withheld:
            found.save(half)
        (folder / "fp16.html").write_text(
            render(result.report, title=model.name, written=half.name, precision=found), encoding="utf-8"
        )
        (folder / "fp16.json").write_text(json.dumps(found.to_json(), indent=2), encoding="utf-8")
        worst = "not compared" if found.worst is None else f"largest error {found.worst:.1e}"
        return not found.failed, f"{found.half} nodes in fp16, {found.single} in fp32, {worst}"

    def built(source: Path) -> tuple[bool, str]:
        engine = build(source, source.with_suffix(".engine"), runtime="rtx", profiles=[profile] if profile else [])
        return True, f"{engine.runtime}, {engine.size / 1e6:.1f} MB"

    job.step("rewrite", rewritten)
    job.step("again", final)
    job.step("compare", compared)
    job.step("build", lambda: built(written))
    if job.step("fp16", converted):
        job.step("build_fp16", lambda: built(half))
    (folder / "summary.json").write_text(
        json.dumps({"model": model.name, "target": target, "steps": job.steps}, indent=2), encoding="utf-8"
    )
    return job.status


def sizes_of(text: str) -> tuple[str, Sizes]:
    """x:1x3x64x64,4x3x256x256,8x3x512x512 as (name, [smallest, usual, largest])."""
    name, _, ranges = text.rpartition(":")
    sizes = [tuple(int(n) for n in r.split("x")) for r in ranges.split(",")]
    if not name or len(sizes) != 3:
        raise surgeon.UsageError(f"a profile is INPUT:MIN,OPT,MAX, not '{text}'.")
    return name, sizes


def main(words: list[str]) -> int:
    if len(words) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return run(Path(words[0]), words[1], Path(words[2]), dict(sizes_of(w) for w in words[3:]))
    except (surgeon.SurgeonError, ValueError) as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
