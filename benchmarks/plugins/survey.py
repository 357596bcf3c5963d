"""Time the kernels on shapes drawn at random, so that no shape is looked at because it is fast.

    python benchmarks/plugins/survey.py [--seed 1] [--shapes 100] [--mb 256] [--all] [--arch 90]
                                        [--program kernels_test]

For each operator, `--shapes` shapes within what networks have (up to 2,048 channels, planes up to 512 by 512, rows up
to 8,192), in fp32 and fp16, the first extent as large as makes `--mb` MB. Prints, as parts of a device-to-device copy's
speed of the same bytes, the median, the worst and the shapes below WORST; `--all`: every shape. Exit code 1 where a
median is below MEDIAN or a shape below WORST. Shapes of which one outer index has more than twice `--mb` are left out.
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
MEDIAN, WORST = 0.93, 0.75  # for tensors of 256 MB
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


def survey(program: Path, operator: str, shapes: list[str], options: argparse.Namespace) -> bool:
    """Prints what was measured; whether the bars are met. The program takes about 25 shapes a second."""
    command = [str(program), "time", str(options.mb), *shapes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [RESULT.match(line) for line in done.stdout.splitlines()]
    results = [(m[1], m[2], float(m[3]), float(m[4])) for m in found if m]
    if done.returncode != 0 or len(results) != len(shapes):
        sys.exit(f"{program} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    medians = [statistics.median(row[i] for row in results) for i in (2, 3)]
    worst = [min(row[i] for row in results) for i in (2, 3)]
    print(
        f"{operator}, {len(shapes)} shapes, fp32 and fp16: median {medians[0]:.3f} and {medians[1]:.3f}, "
        f"worst {worst[0]:.3f} and {worst[1]:.3f}"
    )
    for what, shape, fp32, fp16 in sorted(results, key=lambda row: min(row[2:])):
        if options.all or min(fp32, fp16) < WORST:
            print(f"  {what}:{shape} fp32 {fp32} fp16 {fp16}")
    return min(medians) >= MEDIAN and min(worst) >= WORST


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=100, help="of each operator")
    parser.add_argument("--mb", type=int, default=256, help="bytes of x, in MB")
    parser.add_argument("--arch", default="native", help="native or, as of `surgeon plugins build`, 90")
    parser.add_argument("--program", type=Path, help="kernels_test, built before")
    parser.add_argument("--all", action="store_true", help="print every shape")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        program = options.program or build(options.arch, Path(work))
        met = True
        for operator, shape_of in OPERATORS.items():
            draw = random.Random(f"{operator} {options.seed}")
            drawn = dict.fromkeys(shape_of(draw) for _ in range(options.shapes))
            shapes = [shape for shape in drawn if bytes_of(shape) <= options.mb << 21]
            met = survey(program, operator, shapes, options) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
