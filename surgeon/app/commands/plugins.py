"""`surgeon plugins build`: compile the plugin library."""

from __future__ import annotations

import argparse
from pathlib import Path

from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.trt.plugins.build import build, how_to_load


def run(args: argparse.Namespace) -> int:
    root = None if args.tensorrt_root is None else Path(args.tensorrt_root)
    out = None if args.out is None else Path(args.out)
    Screen(args.quiet).lines(how_to_load(build(root, args.arch, out)))
    return DONE
