"""A calibration cache of TensorRT up to 10: `--calibration-cache` finds the tensors of a model that its lines are of,
`--write-calibration-cache` writes one.

The first line names the release and the calibrator. Each other line is `tensor: 3c008912`, the scale of the tensor in
int8: fp32, its four bytes in hexadecimal, the highest first. Tensors that the importer added have no name of the model:
`(Unnamed Layer* 48) [Constant]_output` and `(Unnamed ITensor* 38)`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto

from surgeon.errors import UsageError
from surgeon.ir.graph import Value
from surgeon.ir.model import Model
from surgeon.pipeline.placement import TRANSPARENT, followed
from surgeon.pipeline.quantizers import LEVELS, Grid, unquantized

WRITTEN = "TRT-8401-EntropyCalibration2"  # the calibrator of trtexec and Polygraphy; later releases read it, too
HEADER = re.compile(r"TRT-\d+-\w*Calibration\w*")
LINE = re.compile(r"(.+): *([0-9a-fA-F]{1,8})")
UNNAMED = re.compile(r"\(Unnamed (Layer|ITensor)\* (\d+)\)")
CONSTANT = "of constants, which stay floats"
NO_NUMBER = "with a scale that is not a positive finite number"
UNKNOWN = "of tensors that the model does not have"
SEVERAL = "without a name of the model, at a position that fits no tensors without a line"


class Line(NamedTuple):
    """A tensor of the network, and its scale."""

    name: str
    scale: np.float32


class Found(NamedTuple):
    """What the lines are of.

    grids   of the tensors of the model, by name: those with a line, and those that follow from one by moving numbers
    lines   the line that each of these is from
    unused  the lines that are of no tensor, and why
    """

    grids: dict[str, Grid]
    lines: dict[str, str]
    unused: dict[str, str]


def read_cache(path: Path) -> list[Line]:
    """The lines of a cache. Raises UsageError where it is not one."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the calibration cache '{path}' cannot be read: {error}.") from None
    if not texts or not HEADER.fullmatch(texts[0].strip()):
        raise UsageError(
            f"'{path}' is not a calibration cache: its first line names no calibrator, as TRT-8501-... does."
        )
    found = []
    for number, text in enumerate(texts[1:], 2):
        match = LINE.fullmatch(text.strip())
        if match:
            found.append(Line(match[1], np.frombuffer(bytes.fromhex(match[2].zfill(8)), ">f4")[0].astype(np.float32)))
        elif text.strip():
            raise UsageError(f"line {number} of '{path}' is not `tensor: scale`: {text.strip()[:80]}")
    return found


def cache_text(scales: Mapping[str, float]) -> bytes:
    """The file of scales by tensor."""
    lines = (f"{name}: {np.array(scale, '>f4').tobytes().hex()}" for name, scale in scales.items())
    return "".join(f"{line}\n" for line in (WRITTEN, *lines)).encode()


def quantized_scales(model: ModelProto) -> dict[str, float]:
    """The scale of each tensor of a model that its quantizers round, in its order.

    One of uint8, or with a zero point, has the scale around zero that holds its range. Raises UsageError where there is
    none.
    """
    bare = unquantized(model)
    bare.check()
    tensors = list(float_tensors(Model(bare.model)))
    followed(tensors, bare.grids)
    found = {value.name: float(bare.grids[value.name].step) for value in tensors if value.name in bare.grids}
    if not found:
        raise UsageError(
            "--write-calibration-cache needs --int8 --data, or a model that has quantizers. This one has none."
        )
    return found


def scales_of(lines: list[Line], model: Model) -> Found:
    """The tensors of a model that the lines are of."""
    found = Found({}, {}, {})
    tensors = {value.name: value for value in float_tensors(model)}
    for line in lines:
        if not (np.isfinite(line.scale) and line.scale > 0):
            found.unused[line.name] = NO_NUMBER
        elif line.name in tensors:
            _note(found, line.name, line)
        elif not UNNAMED.match(line.name):
            known = model.graph.find(line.name)
            found.unused[line.name] = UNKNOWN if known is None or not model.is_constant(known) else CONSTANT
    _place_unnamed(found, lines, tensors)
    for name, source in followed(tensors.values(), found.grids).items():
        found.lines[name] = found.lines[source]
    return found


def float_tensors(model: Model) -> Iterator[Value]:
    """The float tensors of the main graph that are computed, in its order."""
    values = [model.graph.find(info.name) for info in model.proto.graph.input]
    values += [value for node in model.graph.live() for value in node.outputs]
    for value in values:
        if value is not None and model.dtype(value) == TensorProto.FLOAT and not model.is_constant(value):
            yield value


def _note(found: Found, name: str, line: Line) -> None:
    found.grids[name] = Grid(-LEVELS * float(line.scale), LEVELS * float(line.scale), line.scale)
    found.lines[name] = line.name


def _place_unnamed(found: Found, lines: list[Line], tensors: Mapping[str, Value]) -> None:
    """Unnamed lines between two that have names are of the tensors between those, where as many have no line.

    Else they are of those among them that do not only move numbers. That of a Constant layer is of no tensor that is
    computed.
    """
    order = list(tensors)
    moved = {name for name, v in tensors.items() if v.producer is not None and v.producer.op in TRANSPARENT}
    place = {name: k for k, name in enumerate(order)}
    runs: list[tuple[int, list[Line]]] = [(-1, [])]  # the position of a tensor, and the unnamed lines after its own
    for line in lines:
        if line.name in found.unused:
            continue
        if not UNNAMED.match(line.name):
            runs.append((place[line.name], []))
        elif "[Constant]" in line.name:
            found.unused[line.name] = CONSTANT
        else:
            runs[-1][1].append(line)
    for (before, unnamed), (after, _) in zip(runs, [*runs[1:], (len(order), [])], strict=True):
        between = [name for name in order[before + 1 : after] if name not in found.grids]
        if len(between) > len(unnamed):
            between = [name for name in between if name not in moved]
        if len(between) != len(unnamed):
            found.unused.update({line.name: SEVERAL for line in unnamed})
            continue
        for name, line in zip(between, unnamed, strict=True):
            _note(found, name, line)
