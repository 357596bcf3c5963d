"""The program `surgeon`: arguments in, exit status out.

A command is a module of `surgeon.app.commands`, or a function of `surgeon.app.commands.small`.
All print through `surgeon.app.screen`.

Exit status: `surgeon.app.commands` has them, docs/exit-status.md says when.
"""

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from surgeon.app import completion, config, start
from surgeon.app.arguments import parser
from surgeon.app.commands import DONE, FAILED, WRONG
from surgeon.app.screen import complain, complain_with_trace, flush, steady
from surgeon.errors import EngineError, SurgeonError
from surgeon.ir.interrupts import Interrupts

INTERRUPTED = start.STATUS
SMALL = {"build", "completion", "explain", "passes", "plugins", "targets", "trust"}  # commands of one module


def program() -> NoReturn:
    """Run the command of sys.argv and leave the process with its exit status."""
    steady()
    interrupts = Interrupts()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupts)
    if completion.ASKED in os.environ:
        completion.answer(parser())
    try:
        status = main()
    finally:
        with contextlib.suppress(OSError):  # a full disk, which `main` has reported
            flush()
    gc.freeze()  # what is left goes with the process: looking through it for garbage takes a quarter of the time
    sys.exit(INTERRUPTED if interrupts.came else status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. `argv` is without the program's name; None takes sys.argv's."""
    verbose = 0
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        if not words:
            parser().print_help()
            return DONE
        args = parser(words).parse_args(words)
        args.argv = words
        verbose = args.verbose
        for note in () if getattr(args, "quiet", False) else getattr(args, "notes", ()):
            complain(note)
        config.apply(args, Path.cwd())
        name = args.command.replace("-", "_")
        module, function = ("small", name) if name in SMALL else (name, "run")
        status: int = getattr(import_module(f"surgeon.app.commands.{module}"), function)(args)
        flush()
        return status
    except EngineError as error:
        complain(*map(str, error.args))
        return FAILED
    except SurgeonError as error:
        complain(*map(str, error.args))
        return WRONG
    except BrokenPipeError:  # argparse prints its help past `screen`
        return DONE
    except OSError as error:  # a folder that may not be entered, a disk that went away
        where = f"'{error.filename}'" if error.filename else "a file or the standard output"
        complain(f"{where} cannot be read or written: {(error.strerror or str(error)).lower()}.")
        return WRONG
    except KeyboardInterrupt:
        complain(start.WORDS)
        return INTERRUPTED
    except MemoryError:
        complain("there is not enough memory for this.")
        return WRONG
    except Exception as error:
        said = " ".join(str(error).split())[:400].removesuffix(".")
        complain_with_trace(
            f"stopped by something that it does not know: {type(error).__name__}: {said}. This is a defect "
            "of surgeon, and nothing was written. Please report it with the model and what `-vv` prints.",
            traceback.format_exc() if verbose > 1 else "",
        )
        return WRONG
