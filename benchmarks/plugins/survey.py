"""Time the kernels on shapes drawn at random, so that no shape is looked at because it is fast.

    python benchmarks/plugins/survey.py [--seed 1] [--shapes 100] [--mb 256] [--tactics] [--arch 90]
                                        [--program kernels_test]

For each operator, `--shapes` shapes within what networks have (up to 2,048 channels, planes up to 512 by 512, rows up
to 8,192), in fp32 and fp16, the first extent as large as makes `--mb` MB. Prints the ratio to a device-to-device copy
of the same bytes for those below their bar, how many of all are, and the median; exit code 1 where any are. Shapes of
which one outer index has more than twice `--mb` are left out. The bars are those of the plugins' README, for tensors of
256 MB; of InstanceNorm's, the one for channels that fit on chip or the one for those that do not. `--tactics`: of each
shape the fastest of the tactics that TensorRT 10 and later time, not the one taken without timing.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from run import build

CHANNELS, SIDE, ROW = 2048, 512, 8192
ON_CHIP = 1600 << 10  # bytes of a channel that a cluster's shared memory holds, see README.md
RESULT = re.compile(r"(\w+):(\S+) fp32 ([\d.]+) fp16 ([\d.]+)")


def log_uniform(draw: random.Random, low: int, high: int) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def l2_norm(draw: random.Random) -> str:
    channels, plane = log_uniform(draw, 2, CHANNELS), log_uniform(draw, 2, SIDE * SIDE)
    return f"{draw.choice(['l2', 'l2w'])}:{channels}x{plane}"


def last_axis(draw: random.Random) -> str:
    return f"{draw.choice(['last', 'lastw'])}:{log_uniform(draw, 2, ROW)}"


def instance_norm(draw: random.Random) -> str:
    return f"instance:{log_uniform(draw, 1, CHANNELS)}x{log_uniform(draw, 1, SIDE)}x{log_uniform(draw, 1, SIDE)}"


def reflect_pad(draw: random.Random) -> str:
    height, width = log_uniform(draw, 2, SIDE), log_uniform(draw, 2, SIDE)
    pad = draw.randint(1, min(height - 1, width - 1, 40))
    return f"{draw.choice(['reflect', 'symmetric', 'edge', 'wrap'])}{pad}:64x{height}x{width}"


OPERATORS = {
    "L2Norm": l2_norm,
    "L2Norm, last axis": last_axis,
    "InstanceNorm": instance_norm,
    "ReflectPad": reflect_pad,
}


def bytes_of(shape: str) -> int:
    """Of one outer index, in fp32; of a case as kernels_test names it."""
    return 4 * math.prod(map(int, shape.split(":")[1].split("x")))


def bar_of(operator: str, shape: str, size: int) -> float:
    if operator != "InstanceNorm":
        return 0.90
    _, height, width = map(int, shape.split("x"))
    return 0.85 if height * width * size <= ON_CHIP else 0.60


def survey(program: Path, operator: str, shapes: list[str], options: argparse.Namespace) -> int:
    """Prints what misses its bar; how many shapes do. The program takes about 25 of them a second."""
    chosen = ["--tactics"] if options.tactics else []
    command = [str(program), "time", str(options.mb), *shapes, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [RESULT.match(line) for line in done.stdout.splitlines()]
    results = [m.groups() for m in found if m]
    if done.returncode != 0 or len(results) != len(shapes):
        sys.exit(f"{program} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    missed = [
        (what, shape, fp32, fp16)
        for what, shape, fp32, fp16 in results
        if float(fp32) < bar_of(operator, shape, 4) or float(fp16) < bar_of(operator, shape, 2)
    ]
    medians = [statistics.median(float(row[i]) for row in results) for i in (2, 3)]
    print(
        f"{operator}: {len(missed)} of {len(shapes)} shapes below the bar in fp32 or fp16, "
        f"median {medians[0]:.2f} and {medians[1]:.2f}"
    )
    for what, shape, fp32, fp16 in sorted(missed, key=lambda row: min(row[2:])):
        print(f"  {what}:{shape} fp32 {fp32} fp16 {fp16}")
    return len(missed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=100, help="of each operator")
    parser.add_argument("--mb", type=int, default=256, help="bytes of x, in MB")
    parser.add_argument("--tactics", action="store_true", help="the fastest of what TensorRT 10 would time")
    parser.add_argument("--arch", default="native", help="native or, as of `surgeon plugins build`, 90")
    parser.add_argument("--program", type=Path, help="kernels_test, built before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        program = options.program or build(options.arch, Path(work))
        missed = 0
        for operator, shape_of in OPERATORS.items():
            draw = random.Random(f"{operator} {options.seed}")
            drawn = dict.fromkeys(shape_of(draw) for _ in range(options.shapes))
            shapes = [shape for shape in drawn if bytes_of(shape) <= options.mb << 21]
            missed += survey(program, operator, shapes, options)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
