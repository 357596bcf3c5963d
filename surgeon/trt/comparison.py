"""What a comparison of two models found: figures of each output, a side for each way of running, the verdict."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from onnx import TensorProto
from polygraphy.comparator import IterationResult, RunResults

from surgeon.ir.files import Staged
from surgeon.proof.equality import TOLERANCE, Difference
from surgeon.trt.runners import Engine, Feeds, Way
from surgeon.trt.runtime import RTX
from surgeon.visible import visible

Shapes = tuple[tuple[int, ...], ...]  # smallest, usual, largest
COLUMNS = ("output", "inputs", "error", "absolute", "relative", "L2", "cosine", "PSNR", "verdict")
PLAIN = ("{}", "{} inputs", "error {}", "absolute {}", "relative {}", "L2 {}", "cosine {}", "PSNR {}", "{}")
MOST_SHOWN = 8  # outputs, and notes, in the `repr` of a comparison, which fits one screen


@dataclass(frozen=True, slots=True)
class Figures:
    """Polygraphy's statistics of one output on one set of inputs, over the numbers that both sides have.

    error     the largest difference over the largest number of the original, of a quantized model the error of
              `surgeon.precision.standard`: what the verdict goes by
    absolute  the largest difference; relative the largest of an element to the original's
              element; l2 of all differences
    cosine    of the angle between the two; psnr in dB, inf where the two are equal
    """

    kind: str = "-"
    error: float = 0.0
    absolute: float = 0.0
    relative: float = 0.0
    l2: float = 0.0
    cosine: float = 1.0
    psnr: float = math.inf


@dataclass(slots=True)
class Statistics:
    """One output over all inputs: the figures of those inputs on which the error is largest (where some differ, among
    those), and the verdict over all."""

    output: str
    figures: Figures = field(default_factory=Figures)
    why: str = ""
    excuse: str = ""  # what the largest error is equal by, where it is larger than the tolerance
    _ranked: tuple[bool, float] = (False, -1.0)  # whether the figures' inputs differ, and by how much

    @property
    def verdict(self) -> str:
        """How the output differs; equal; or equal by which excuse, where the error is larger than the tolerance."""
        return self.why or (f"equal: {self.excuse}" if self.excuse else "equal")

    def add(self, found: Figures, difference: Difference) -> None:
        """Take in one run."""
        ranked = bool(difference.why), found.error
        if ranked > self._ranked:
            self.figures, self._ranked, self.excuse = found, ranked, difference.excuse


@dataclass(slots=True)
class Side:
    """One way of running the second model, against ONNX Runtime on the first.

    differing   the kind and values of the first inputs on which it differs
    """

    way: Way
    statistics: list[Statistics] = field(default_factory=list)
    runs: int = 0
    differing: tuple[str, Feeds] | None = None

    @property
    def title(self) -> str:
        return self.way.title

    @property
    def ok(self) -> bool:
        return not any(s.why for s in self.statistics)

    def rows(self) -> list[tuple[str, ...]]:
        """In the order of COLUMNS."""
        return [(s.output, *_cells(s.figures), s.verdict) for s in self.statistics]


def _cells(f: Figures) -> tuple[str, ...]:
    psnr = "-" if math.isinf(f.psnr) else f"{f.psnr:.0f} dB"
    return f.kind, f"{f.error:.1e}", f"{f.absolute:.1e}", f"{f.relative:.1e}", f"{f.l2:.1e}", f"{f.cosine:.6f}", psnr


def _json(statistics: Statistics) -> dict[str, Any]:
    figures = asdict(statistics.figures)
    figures = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in figures.items()}
    return {"output": statistics.output, "equal": not statistics.why, "verdict": statistics.verdict, **figures}


@dataclass(slots=True, repr=False)
class Comparison:
    """Every way of running the second model.

    notes      what could not be run, and why
    shapes     the smallest, first and largest shape of each dynamic input
    tolerance  the largest difference that counts as equal in fp32, relative to the largest number
    """

    sides: list[Side] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shapes: dict[str, Shapes] = field(default_factory=dict)
    tolerance: float = TOLERANCE[TensorProto.FLOAT]

    @property
    def ok(self) -> bool:
        return bool(self.sides) and all(s.ok for s in self.sides)

    @property
    def verdict(self) -> str:
        bad = [s.title for s in self.sides if not s.ok]
        if not self.sides:
            return "nothing could be compared"
        if bad:
            return f"the models differ ({', '.join(bad)})"
        runs = self.sides[0].runs
        sets = "1 set" if runs == 1 else f"{runs} sets"
        return f"the models agree on {sets} of inputs ({', '.join(s.title for s in self.sides)})"

    def to_json(self) -> dict[str, Any]:
        """The comparison's JSON value; a figure that is not finite is null."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "sides": [{"title": s.title, "ok": s.ok, "outputs": [_json(o) for o in s.statistics]} for s in self.sides],
            "notes": self.notes,
        }

    @property
    def engine(self) -> Engine | None:
        """The TensorRT that ran, where one did."""
        return next((s.way for s in self.sides if isinstance(s.way, Engine)), None)

    def __repr__(self) -> str:
        lines = [f"Comparison: {self.verdict}"]
        for side in self.sides:
            lines.append(f"  {side.title}")
            rows = side.rows()
            for row in rows[:MOST_SHOWN]:
                lines.append("    " + "  ".join(text.format(cell) for text, cell in zip(PLAIN, row, strict=True)))
            if len(rows) > MOST_SHOWN:
                lines.append(f"    and {len(rows) - MOST_SHOWN} more outputs")
        return "\n".join(map(visible, [*lines, *(f"  note: {note}" for note in self.notes[:MOST_SHOWN])]))


# ---- the same in Polygraphy ------------------------------------------------------------------------------------------


def polygraphy_command(
    comparison: Comparison,
    original: str,
    rewritten: str,
    *,
    inputs: str | None = None,
    outputs: str | None = None,
    plugins: Sequence[str] = (),
    tactic_sources: Sequence[str] | None = None,
) -> str:
    """The shell command that lets Polygraphy compare the two models as `comparison` did.

    inputs, outputs   files that the comparison saved; without both, a first command makes them, of Polygraphy's random
                      inputs
    plugins, tactic_sources   of the engine, as in `surgeon.trt.engine.build`

    The reference evaluations are left out. Polygraphy judges each element by itself, by that one tolerance.
    """
    engine = comparison.engine
    first: list[str] = []
    if inputs is None or outputs is None:
        inputs, outputs = "inputs.json", "outputs.json"
        first = ["polygraphy", "run", original, "--onnxrt", "--save-inputs", inputs, "--save-outputs", outputs]
        first += _shape_words("--input-shapes", comparison.shapes, 1)
    words = ["polygraphy", "run", rewritten, "--trt" if engine else "--onnxrt"]
    words += ["--load-inputs", inputs, "--load-outputs", outputs]
    words += ["--rtol", f"{comparison.tolerance:g}", "--atol", f"{comparison.tolerance:g}"]
    if engine is not None:
        for index, size in enumerate(("min", "opt", "max")):
            words += _shape_words(f"--trt-{size}-shapes", comparison.shapes, index)
        words += ["--plugins", *plugins] if plugins else []
        words += ["--tactic-sources", *tactic_sources] if tactic_sources is not None else []
    commands = [shlex.join(c) for c in (first, words) if c]
    if engine is not None and engine.trt.__name__ == RTX:
        commands[-1] = f"POLYGRAPHY_USE_TENSORRT_RTX=1 {commands[-1]}"
    return " && ".join(commands)


def _shape_words(option: str, shapes: Mapping[str, Shapes], index: int) -> list[str]:
    return [option, *(f"{n}:[{','.join(map(str, s[index]))}]" for n, s in shapes.items())] if shapes else []


def save_runs(ran: Sequence[tuple[Feeds, Feeds]], inputs: str | None, outputs: str | None) -> None:
    """Write the inputs, and the outputs on them, for `polygraphy run --load-inputs` and `--load-outputs`."""
    from polygraphy.json import save_json

    with Staged() as staged:
        if inputs is not None:
            save_json([feeds for feeds, _ in ran], str(staged.place(Path(inputs))))
        if outputs is not None:
            results = [IterationResult(given, runner_name="onnxrt-surgeon") for _, given in ran]
            save_json(RunResults([("onnxrt-surgeon", results)]), str(staged.place(Path(outputs))))
