"""One model of many, as any scheduler runs it: a function of paths and text that returns plain values.

What Ray and Dask add is where it runs, and what happens when a machine goes away. The folders of the models and of the
results must be ones that all machines see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import surgeon


def rewrite_one(source: str, out: str, target: str) -> dict[str, Any]:
    """Rewrite and prove one model, write it with its report, and say how it ended; a failure is this model's alone."""
    try:
        result = surgeon.rewrite(source, target=target)
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        result.save(out, {Path(f"{out}.json"): json.dumps(result.report.to_json()).encode()})
    except surgeon.SurgeonError as error:
        return {"model": source, "error": str(error)}
    report = result.report
    return {
        "model": source,
        "rewrites": len(report.applied),
        "undone": len(report.undone),
        "untaken": len(report.untaken),
    }


def units(models: str, out: str) -> Iterator[tuple[str, str]]:
    """Each model of a folder that has no result yet, and the place of its result: a second run does what is left."""
    for path in sorted(Path(models).rglob("*.onnx")):
        place = Path(out) / path.relative_to(models)
        if not place.exists():
            yield str(path), str(place)


def told(results: Iterable[dict[str, Any]]) -> int:
    """Print a JSON line a model; the number of those that failed."""
    failed = 0
    for result in results:
        print(json.dumps(result), flush=True)
        failed += "error" in result or bool(result["undone"])
    return failed
