"""The commands, a module each: `run(args)` takes the parsed arguments, prints, and returns the exit status."""

from __future__ import annotations

DONE, FAILED, WRONG = 0, 1, 2  # exit statuses; see surgeon.app.cli
