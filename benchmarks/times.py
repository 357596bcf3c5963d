"""Windows in two forms, as a file has them and as surgeon writes them: which one TensorRT 8.4 runs faster.

    python benchmarks/times.py write FOLDER [--target 8.4]    the pairs: FOLDER/NAME.before.onnx, FOLDER/NAME.after.onnx
    python benchmarks/times.py read RESULTS                   a row a pair, from what `surgeon kernels` measured of each

The windows are those of spelled.py and FORMS, in fp32 and large enough that memory and not the start of kernels
decides. A pair is written where the target supports both forms and the kit that ran them has kernels for both: no Conv,
MatMul, Gather, ScatterND, Einsum, and no mean over spatial axes. Between the two, on a machine with that TensorRT and a
GPU:

    for f in FOLDER/*.onnx; do surgeon kernels $f --with tensorrt --format json | tr -d '\\n'; echo; done > RESULTS

`read` says of each pair the bytes that TensorRT's inspector gives and the time that its profiler measured, and of how
many pairs both agree in order. Times that differ by less than 2 % and bytes that differ by less than 2 % are equal.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import onnx
import spelled

import surgeon

IMAGES, HIDDEN = ((8, 32, 256, 256),), ((64, 1024, 64),)  # as spelled.py's, with 67 and 17 MB
LEAST = 1_000_000  # elements of x
NO_KERNEL = {"Conv", "Einsum", "Gather", "GlobalAveragePool", "InstanceNormalization", "MatMul", "ScatterND"}
EQUAL = 0.02
NHWC, NCHW = "perm = [0, 2, 3, 1]", "perm = [0, 3, 1, 2]"
HALF = spelled.numbers(16)
# Two forms of one function each, from x to y, and what they read; none of them is a rule's.
FORMS = {
    "transposed_relu": (f"t = Transpose <{NHWC}> (x) r = Relu (t) y = Transpose <{NCHW}> (r)", "y = Relu (x)"),
    "two_transposes": (f"t = Transpose <{NHWC}> (x) y = Transpose <perm = [0, 2, 1, 3]> (t)",
                       "y = Transpose <perm = [0, 3, 2, 1]> (x)"),
    "nested_concat": ("a = Sigmoid (x) b = Relu (x) c = Concat <axis = 1> (a, b) d = Tanh (x) "
                      "y = Concat <axis = 1> (c, d)",
                      "a = Sigmoid (x) b = Relu (x) d = Tanh (x) y = Concat <axis = 1> (a, b, d)"),
    "expanded_factor": ("m = ReduceMax <axes = [1]> (x) e = Expand (m, size) y = Mul (x, e)",
                        "m = ReduceMax <axes = [1]> (x) y = Mul (x, m)"),
    "tiled_term": ("m = ReduceMax <axes = [3]> (x) e = Tile (m, columns) y = Add (x, e)",
                   "m = ReduceMax <axes = [3]> (x) y = Add (x, m)"),
    "two_slices": ("s = Slice (x, zero_, half_, one_) y = Slice (s, zero_, half_, two_)",
                   "y = Slice (x, zeros, halves, axes)"),
    "two_pads": ("p = Pad (x, rows) y = Pad (p, sides)", "y = Pad (x, both)"),
    "two_resizes": ('r = Resize <mode = "nearest"> (x, , wider) y = Resize <mode = "nearest"> (r, , higher)',
                    'y = Resize <mode = "nearest"> (x, , larger)'),
    "pad_then_pool": ("p = Pad (x, both, lowest) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (p)",
                      "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"),
    "two_maxima": ("m = ReduceMax <axes = [3]> (x) y = ReduceMax <axes = [1]> (m)",
                   "y = ReduceMax <axes = [1, 3]> (x)"),
    "split_and_joined": ("a, b = Split <axis = 1> (x, parts) c = Concat <axis = 1> (a, b) y = Relu (c)",
                         "y = Relu (x)"),
    "sliced_sigmoid": ("a = Sigmoid (x) y = Slice (a, zero_, half_, one_)",
                       "s = Slice (x, zero_, half_, one_) y = Sigmoid (s)"),
    "pooled_sigmoid": ("a = Sigmoid (x) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)",
                       "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) y = Sigmoid (p)"),
    "reduced_sigmoid": ("a = Sigmoid (x) y = ReduceMax <axes = [1]> (a)",
                        "m = ReduceMax <axes = [1]> (x) y = Sigmoid (m)"),
    "resized_sigmoid": ('r = Resize <mode = "nearest"> (x, , larger) y = Sigmoid (r)',
                        'a = Sigmoid (x) y = Resize <mode = "nearest"> (a, , larger)'),
    "transposed_maximum": (f"t = Transpose <{NHWC}> (x) y = ReduceMax <axes = [3], keepdims = 0> (t)",
                           "y = ReduceMax <axes = [1], keepdims = 0> (x)"),
    "tiled_maximum": ("t = Tile (x, twice) y = ReduceMax <axes = [1]> (t)", "y = ReduceMax <axes = [1]> (x)"),
    "padded_sigmoid": ("p = Pad (x, both, lowest) a = Sigmoid (p) y = Slice (a, one_, row_257, two_)",
                       "p = Pad (x, sides, lowest) y = Sigmoid (p)"),
}  # fmt: skip
READ = {
    "size": spelled.numbers(8, 32, 256, 256), "columns": spelled.numbers(1, 1, 1, 256), "zero_": spelled.numbers(0),
    "half_": HALF, "one_": spelled.numbers(1), "two_": spelled.numbers(2), "zeros": spelled.numbers(0, 0),
    "halves": spelled.numbers(16, 16), "axes": spelled.numbers(1, 2), "rows": spelled.numbers(0, 0, 1, 0, 0, 0, 1, 0),
    "sides": spelled.numbers(0, 0, 0, 1, 0, 0, 0, 1), "both": spelled.numbers(0, 0, 1, 1, 0, 0, 1, 1),
    "parts": spelled.numbers(16, 16), "wider": np.float32([1, 1, 1, 2]), "higher": np.float32([1, 1, 2, 1]),
    "twice": spelled.numbers(1, 2, 1, 1), "row_257": spelled.numbers(257),
    "larger": np.float32([1, 1, 2, 2]), "lowest": np.float32(-3e38),
}  # fmt: skip


def write(folder: Path, target: str) -> None:
    """Write the pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    spelled.IMAGES, spelled.HIDDEN = IMAGES, HIDDEN
    for name, forms in FORMS.items():
        for form, body in zip(("before", "after"), forms, strict=True):
            onnx.save(
                spelled.model(spelled.Spelling(name, body, IMAGES, READ, 13), IMAGES[0], "fp32"),
                folder / f"{name}.{form}.onnx",
            )
    for spelling in spelled.spellings():
        shape = spelling.shapes[0]
        if spelling.wide or math.prod(shape) < LEAST:
            continue
        before = spelled.model(spelling, shape, "fp32")
        after = surgeon.rewrite(before, target=target, verify="none").model  # the tests prove the same at less size
        forms = [[n.op_type for n in m.graph.node] for m in (before, after)]
        if forms[0] == forms[1] or NO_KERNEL & {*forms[0], *forms[1]} or has_spatial_mean(before):
            continue
        if surgeon.check(before, target=target).unsupported:
            continue
        onnx.save(before, folder / f"{spelling.name}.before.onnx")
        onnx.save(after, folder / f"{spelling.name}.after.onnx")
        print(f"{spelling.name}: {' '.join(forms[0])} -> {' '.join(forms[1])}", flush=True)


def has_spatial_mean(model: onnx.ModelProto) -> bool:
    """Whether it takes a mean over more axes than one."""
    axes = [a.ints for n in model.graph.node if n.op_type == "ReduceMean" for a in n.attribute if a.name == "axes"]
    return any(len(found) > 1 for found in axes)


def read(results: Path) -> None:
    """Print the pairs, and how many agree."""
    rows = {Path(row["file"]).stem: row["programs"][0] for row in map(json.loads, results.read_text().splitlines())}
    names = sorted(stem.removesuffix(".before") for stem in rows if stem.endswith(".before"))
    agree, count = 0, 0
    print("| window | kernels | MB | microseconds | order |\n|---|---|---|---|---|")
    for name in names:
        pair = rows.get(f"{name}.before"), rows.get(f"{name}.after")
        if pair[0] is None or pair[1] is None:
            print(f"| {name} | one of them does not build | | | |")
            continue
        kernels, size, time = ([p[key] for p in pair] for key in ("kernel_count", "bytes", "milliseconds"))
        same = order(*size) == order(*time)
        agree, count = agree + same, count + 1
        said = "the same" if same else "another"
        print(
            f"| {name} | {kernels[0]} -> {kernels[1]} | {size[0] / 1e6:.1f} -> {size[1] / 1e6:.1f} | "
            f"{time[0] * 1e3:.1f} -> {time[1] * 1e3:.1f} | {said} |"
        )
    print(f"{agree} of {count} pairs have the same order in bytes and in time")


def order(before: float, after: float) -> int:
    """-1 where the second is less, 1 where it is more, 0 where they are equal."""
    return 0 if abs(after - before) <= EQUAL * before else 1 if after > before else -1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "read"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--target", default="8.4")
    args = parser.parse_args()
    if args.what == "write":
        write(args.path, args.target)
    else:
        read(args.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
