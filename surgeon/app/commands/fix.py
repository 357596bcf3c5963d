"""`surgeon fix`: rewrite, prove, ask the real parser, load in ONNX Runtime, and say in one line how that went."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from onnx import ModelProto

from surgeon.app import arguments
from surgeon.app.commands import DONE, UNTAKEN, status_of
from surgeon.app.record import size_of
from surgeon.app.screen import Screen
from surgeon.app.summary import closing, print_report
from surgeon.errors import SurgeonError
from surgeon.ir.files import check_writable
from surgeon.ir.run import load_error
from surgeon.pipeline.cure import cures
from surgeon.pipeline.options import Options
from surgeon.pipeline.session import Result, rewrite_source
from surgeon.pipeline.source import Source
from surgeon.report import target_name
from surgeon.rules.meaning import with_functions
from surgeon.targets.target import Target
from surgeon.words import answer


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    source = Path(args.model)
    out = Path(args.out) if args.out else source.with_suffix(".trt.onnx")
    check_writable(out, source)
    target, title = arguments.target_of(args)
    screen.line(f"{source}, {title}")
    started = time.perf_counter()
    given = Source(source)
    with screen.progress() as progress:
        options = Options.checked(target=target, shapes=arguments.shapes(args.shapes), progress=progress)
        result = rewrite_source(given, options)
    report = result.report
    report.seconds = time.perf_counter() - started
    saved = size_of(result.files) - size_of(result.save(out))
    print_report(report, screen, diff=False, each=bool(args.verbose), cures=cures(result, given, options))
    screen.line(f"{closing(report)}; written to {out}, {report.seconds:.1f} s", "bad" if report.broken else "")
    refused_by = _refused_by(out, target, screen)
    loads = _loaded(given, result, screen)
    status = status_of(report, broken=not loads)
    if status == DONE and refused_by:
        status = UNTAKEN
    verdict = f"{refused_by} refuses {out}; {answer(report, saved)}" if refused_by else answer(report, saved)
    screen.line(verdict, "good" if status == DONE else "bad")
    if status == DONE:
        where, command = next_command(out, result.model, target)
        screen.line(f"next{where}:")
        screen.command(f"  {command}")
    return status


def _refused_by(out: Path, target: Target, screen: Screen) -> str:
    """The parser that refuses the file, by name and version; empty where it takes it, or cannot be asked here."""
    from surgeon.trt.ask import ask, why_not  # Polygraphy takes its time

    found = ask(str(out), target)
    if found is None:
        screen.line(f"not parsed: {why_not(target) or 'the TensorRT that is installed here does not load'}", "warn")
        return ""
    if not found.refused:
        screen.line(f"{found.parser} parses it", "good")
        return ""
    rows = [(r.node or "the model", r.op or "-", r.why) for r in found.refused]
    screen.table("refused", ("node", "operator", "why"), rows, "bad")
    return found.parser


def _loaded(source: Source, result: Result, screen: Screen) -> bool:
    """Whether ONNX Runtime loads the result, or does not load the original either."""
    try:
        why = load_error(with_functions(result.model), result.base)
    except SurgeonError as error:  # it does not load itself
        screen.line(f"not loaded: {error}", "warn")
        return True
    if not why:
        screen.line("ONNX Runtime loads it", "good")
        return True
    if load_error(with_functions(source.proto()), source.base):
        screen.line(f"ONNX Runtime loads neither the original nor this: {why}", "warn")
        return True
    screen.line(f"ONNX Runtime loads the original and not this: {why}", "bad")
    return False


def next_command(out: Path, model: ModelProto, target: Target) -> tuple[str, str]:
    """Where to type what next: surgeon build where the target builds here, trtexec where that TensorRT is."""
    from surgeon.trt.ask import why_not
    from surgeon.trt.profiles import dynamic_inputs

    dynamic = dynamic_inputs(model)
    engine = shlex.quote(str(out.with_suffix(".engine")))
    if not why_not(target):
        profiles = "".join(f" --profile {shlex.quote(f'{name}:{sizes}')}" for name, sizes in dynamic.items())
        return "", f"surgeon build {shlex.quote(str(out))} {engine}{profiles}"
    shapes = ",".join(f"{name}:{sizes}" for name, sizes in dynamic.items())
    shapes = f" --shapes={shlex.quote(shapes)}" if shapes else ""
    dla = " --useDLACore=0 --allowGPUFallback --fp16" if target.dla else ""
    program = "tensorrt_rtx" if target.rtx else "trtexec"
    command = f"{program} --onnx={shlex.quote(out.name)} --saveEngine={shlex.quote(Path(engine).name)}{shapes}{dla}"
    return f", where {target_name(str(target))} is", command
