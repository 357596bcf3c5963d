"""Commands that print a table or a text, or build a file: a function each, called like its command."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from surgeon.app import arguments
from surgeon.app import trust as trusted
from surgeon.app.commands import DONE
from surgeon.app.completion import script
from surgeon.app.screen import Screen
from surgeon.errors import UsageError
from surgeon.rules import registry
from surgeon.targets import names, tables
from surgeon.targets.releases import RELEASES, dotted
from surgeon.targets.target import LAST_DLA, Target


def passes(args: argparse.Namespace) -> int:
    rows = []
    for p in registry.passes(args.passes):
        stages = ", ".join(s.value for s in p.stages)
        rows.append((p.name, stages, ", ".join(p.strategies) or "-", p.doc.splitlines()[0]))
    Screen(args.quiet).table("pass", ("name", "stages", "strategies", "what it does"), rows)
    return DONE


def explain(args: argparse.Namespace) -> int:
    p = registry.find(registry.passes(args.passes), args.name)
    screen = Screen(args.quiet)
    screen.line(p.name, "head")
    screen.lines(p.doc)
    screen.line()
    screen.line(f"Stages      {', '.join(s.value for s in p.stages)}")
    screen.line(f"Strategies  {', '.join(p.strategies) or 'none: it does not lower'}")
    if p.options:
        screen.line(f"Options     {', '.join(p.options)}")
    path = Path(p.path)
    screen.line(f"File        {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return DONE


def completion(args: argparse.Namespace) -> int:
    Screen(args.quiet).text(script(args.shell))
    return DONE


def build(args: argparse.Namespace) -> int:
    from surgeon.trt.engine import build  # the others start without TensorRT

    screen = Screen(args.quiet)
    profile = arguments.profile(args.profile)
    with screen.progress() as progress:
        built = build(
            args.model,
            args.out,
            runtime=args.runtime,
            profiles=[profile] if profile else [],
            fp16=args.fp16,
            plugins=args.plugin_library,
            timing_cache=args.timing_cache,
            tactic_sources=arguments.tactic_sources(args),
            progress=progress,
        )
    for note in built.notes:
        screen.line(f"warning  {note}", "warn")
    if built.kernels:
        screen.line(built.kernels)
    size, seconds = f"{built.size / 1e6:.1f} MB", f"{built.seconds:.1f} s"
    screen.line(f"{args.model} built by {built.runtime}: {size} written to {built.path}, {seconds}", "good")
    return DONE


def plugins(args: argparse.Namespace) -> int:
    from surgeon.trt.plugins.build import build, how_to_load

    root = None if args.tensorrt_root is None else Path(args.tensorrt_root)
    out = None if args.out is None else Path(args.out)
    Screen(args.quiet).lines(how_to_load(build(root, args.arch, out)))
    return DONE


def targets(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    screen.table("target", ("name", "TensorRT", "what it reads, or who says so"), list(_rows_of_targets()))
    default = Target.default()
    screen.line(f"without --target: {default} ({default.note})")
    return DONE


def _rows_of_targets() -> Iterator[tuple[str, str, str]]:
    for version in RELEASES:
        operators = len(tables.importers(version, rtx=False))
        yield dotted(version), dotted(version), f"opset {tables.opset_of(version)}, {operators} operators"
    rtx = Target.parse("rtx")
    operators = len(tables.importers(rtx.version, rtx=True))
    yield "rtx", f"RTX {tables.RTX_MEASURED}", f"opset {rtx.opset}, {operators} operators, measured"
    yield "VERSION+dla", f"up to {LAST_DLA}.x", f"{len(tables.DLA_NATIVE)} operators that DLA runs itself"
    yield "installed", "", "what Python can import here; an error where nothing can be"
    yield from names.aliases()


def trust(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    if not (args.folders or args.forget or args.list):
        raise UsageError("name a folder to trust, or give --list or --forget DIR. See surgeon trust --help.")
    for folder in args.forget:
        screen.line(f"'{trusted.forget(folder)}' is not trusted any more")
    for folder in args.folders:
        real = trusted.add(folder)
        screen.line(f"'{real}' and what is below it may run code", "good")
        if why := trusted.open_to_others(real):
            screen.line(f"warning  {why}: whoever writes there runs code as you", "warn")
    if args.list:
        rows = [(str(f), "" if f.is_dir() else "not there any more") for f in trusted.recorded()]
        rows += [(str(f), f"from {trusted.VARIABLE}") for f in trusted.from_variable()]
        screen.table("trusted", ("folder", "note"), rows)
        if not rows:
            screen.line("no folder is trusted")
    return DONE
