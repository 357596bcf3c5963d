"""`make demo`: two networks rewritten for TensorRT 8.4 and for TensorRT-RTX, proved, and built without a GPU.

    python samples/demo.py [FOLDER]    # the models, reports and engines go to FOLDER; without it, demo-out

Each line that starts with $ is a command that you can type yourself.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from surgeon.app.cli import main
from surgeon.targets.installed import installed_version

HERE = Path(os.path.relpath(Path(__file__).resolve().parent))
SAMPLES = {
    "style_transfer_ts_op11": ("style_transfer", ["image:2x3x64x96"], ["image:1x3x64x64,2x3x128x128,2x3x256x256"]),
    "ssd_l2norm_ts_op13": (
        "ssd_l2norm",
        [],
        ["conv4_3:1x16x38x38,8x16x38x38,32x16x38x38", "conv5_3:1x24x19x19,8x24x19x19,32x24x19x19"],
    ),
}


def run(*words: str | Path) -> int:
    """One command of surgeon, shown and run; its exit status."""
    texts = [str(w) for w in words]
    print(f"\n$ surgeon {shlex.join(texts)}", flush=True)
    return main(texts)


def demo(out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    worst, builds = 0, bool(installed_version("tensorrt_rtx"))
    if not builds:
        print("TensorRT-RTX is not installed here: no engine is built, and ONNX Runtime alone compares the models.")
    for name, (folder, shapes, profiles) in SAMPLES.items():
        model = HERE / folder / f"{name}.onnx"
        sizes = [w for s in shapes for w in ("--shapes", s)]
        run("check", model, "--target", "8.4")
        for target in ("8.4", "rtx"):
            written = out / f"{name}_{target}.onnx"
            report = written.with_suffix(".json")
            worst = max(
                worst,
                run("rewrite", model, written, "--target", target, "--verify", "full", "--report", report, *sizes),
            )
        engine, ranges = written.with_suffix(".engine"), [w for p in profiles for w in ("--profile", p)]
        if builds:
            worst = max(worst, run("build", written, engine, "--with", "rtx", *ranges))
        worst = max(worst, run("compare", model, written, "--network" if builds else "--no-trt", *sizes))
    print(f"\nmodels{', reports and engines' if builds else ' and reports'} are in {out}")
    return worst


if __name__ == "__main__":
    sys.exit(demo(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")))
