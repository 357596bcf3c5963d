"""`surgeon build`: an engine of an ONNX file."""

from __future__ import annotations

import argparse

from surgeon.app import arguments
from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.trt.engine import build


def run(args: argparse.Namespace) -> int:
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
