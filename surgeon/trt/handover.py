"""Handing a comparison over to Polygraphy: the command that repeats it, and the files that the command reads."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from polygraphy.comparator import IterationResult, RunResults

from surgeon.ir.files import Staged
from surgeon.trt.comparison import Comparison, Shapes
from surgeon.trt.runners import Feeds
from surgeon.trt.runtime import RTX


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
