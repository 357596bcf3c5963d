"""A batch that is killed half way and taken up again: the same bytes as one model at a time, and none done twice.

    python benchmarks/batch.py DIR [--count 200] [--jobs 2] [--target 8.4]

DIR holds the models. The batch's whole process group is killed when half of them are in the manifest. A second run does
the rest. Then each model is rewritten by itself, without the cache of proofs, and the files are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

MANIFEST = "surgeon-manifest.jsonl"


def surgeon(*words: str) -> list[str]:
    return [sys.executable, "-m", "surgeon", *words]


def sample(source: Path, place: Path, count: int) -> list[str]:
    """Copy `count` models, spread evenly over those of a folder, and return their names."""
    found = sorted(source.glob("*.onnx"))
    chosen = [found[k * len(found) // count] for k in range(min(count, len(found)))]
    place.mkdir()
    for path in chosen:
        shutil.copyfile(path, place / path.name)
    return [path.name for path in chosen]


def lines(manifest: Path) -> list[str]:
    return manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else []


def killed(command: list[str], manifest: Path, when: int) -> None:
    """Run a command in a process group of its own, and kill the group when the manifest has `when` lines."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    while process.poll() is None and len(lines(manifest)) < when:
        time.sleep(0.02)
    assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--target", default="8.4")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        names = sample(args.folder, root / "models", args.count)
        out, alone = root / "out", root / "alone"
        manifest = out / MANIFEST
        options = ["--target", args.target]
        batch = surgeon("rewrite", str(root / "models"), "-o", str(out), "--jobs", str(args.jobs), *options)
        batch += ["--format", "jsonl"]
        started = time.perf_counter()
        killed(batch, manifest, len(names) // 2)
        first = {json.loads(line)["model"] for line in lines(manifest) if line.endswith("}")}
        there = {p.name for p in out.glob("*.onnx")}
        print(f"killed after {time.perf_counter() - started:.0f} s: {len(first)} in the manifest, {len(there)} files")
        started = time.perf_counter()
        told = subprocess.run(batch, stdout=subprocess.PIPE, encoding="utf-8", check=False).stdout.splitlines()
        entries = [json.loads(line) for line in told]
        skipped = {e["model"] for e in entries if e["skipped"]}
        print(f"taken up: {time.perf_counter() - started:.0f} s, {len(entries)} told, {len(skipped)} done before")
        written = Counter(json.loads(line)["model"] for line in lines(manifest))
        twice = sorted(m for m, times in written.items() if times > 1)
        again = sorted(first - skipped)
        print(f"in the manifest: {len(written)} models, {len(twice)} of them twice; {len(again)} done were done again")
        started = time.perf_counter()
        alone.mkdir()
        for model in names:
            words = ["rewrite", str(root / "models" / model), str(alone / model), "--quiet", "--no-cache", *options]
            subprocess.run(surgeon(*words), stderr=subprocess.DEVNULL, check=False)
        print(f"one by one: {time.perf_counter() - started:.0f} s")
        differ = [m for m in names if contents(out / m) != contents(alone / m)]
        failed = [e["model"] for e in entries if "error" in e]
        print(f"files: {len(list(out.glob('*.onnx')))}, {len(differ)} differ; {len(failed)} models failed", *differ[:5])
        return 1 if twice or again or differ or len(entries) != len(names) else 0


def contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
