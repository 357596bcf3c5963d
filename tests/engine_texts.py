"""Recorded texts of engines, which the tests of `surgeon kernels` read: tests/engines/NAME.txt, of NAME.onnxtxt.

    python tests/engine_texts.py        record them again, with the TensorRT-RTX that is installed

A text file has the programs of one engine, those of fused kernels too, without the code of the kernels.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import ModelProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

FOLDER = Path(__file__).parent / "engines"
NAMES = sorted(p.stem for p in FOLDER.glob("*.onnxtxt"))
PROFILES = {
    "dynamic": [{"x": [(1, 16, 64), (2, 32, 64), (4, 64, 64)]}],
    "two_profiles": [{"x": [(1, 8)] * 3}, {"x": [(1, 8), (2, 8), (4, 8)]}],
}
VERSION = (1, 7, 1, 116)  # of the TensorRT-RTX that wrote the texts


def model(name: str) -> ModelProto:
    """The model of a recorded engine. Weights are declared in its text, and drawn here."""
    found = onnx.parser.parse_model((FOLDER / f"{name}.onnxtxt").read_text(encoding="utf-8"))
    rng = np.random.default_rng(0)
    for info in found.graph.value_info:
        kind = info.type.tensor_type
        shape, dtype = [d.dim_value for d in kind.shape.dim], tensor_dtype_to_np_dtype(kind.elem_type)
        drawn = rng.integers(-9, 9, shape) if dtype == np.int8 else rng.standard_normal(shape)
        found.graph.initializer.append(numpy_helper.from_array(drawn.astype(dtype), info.name))
    del found.graph.value_info[:]
    return found


def built(name: str) -> bytes:
    """The engine of a model by the TensorRT-RTX that is installed."""
    from surgeon.trt.engine import serialized
    from surgeon.trt.runtime import RTX, use

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model(name), path)
        return serialized(use(RTX), path, profiles=PROFILES.get(name, ()))


def texts(name: str) -> list[str]:
    """The programs of a recorded engine."""
    return re.split(r"(?m)^(?=header \{)", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"))[1:]


def engine(programs: list[str], version: tuple[int, ...] = VERSION) -> bytes:
    """An engine that has these programs, and nothing else that surgeon reads."""
    found = bytes(version) + b"trt"
    for program in programs:
        text = program.encode()
        found += b"NLYM\xa1\xda\x1e\x00" + len(text).to_bytes(8, "little") + text + bytes(16)
    return b"vtrt" + bytes(12) + (len(found) + 24).to_bytes(8, "little") + found


def main() -> None:
    from surgeon.trt.program import texts_of

    for name in NAMES:
        (FOLDER / f"{name}.txt").write_text("".join(texts_of(built(name))), encoding="utf-8")


if __name__ == "__main__":
    main()
