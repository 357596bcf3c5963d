"""surgeon rewrites ONNX models so that the TensorRT you have parses, builds and runs them right, and proves it.

    import surgeon
    result = surgeon.rewrite("in.onnx", target="8.4")
    result.save("out.onnx")
    print(result.report.applied)

The vocabulary of a pass is here too: `op var const attr output ANY rewrite require meaning Stage`, and `gs_pass`.
"""

from __future__ import annotations

from . import start

if start.is_program():
    start.begin()

from .errors import EngineError, ModelError, PassError, SurgeonError, UsageError
from .interop import gs_pass
from .meaning import DOMAIN, meaning
from .pattern import ANY, attr, const, op, output, var
from .rewrite import Builder, Editor, Stage, require, rewrite_model
from .rewrite import rewrite as _mark
from .session import Result, rewrite_file
from .session import rewrite as _run
from .targets import Target

start.done()
__version__ = "0.1.0"


def rewrite(first, /, **options):  # type: ignore[no-untyped-def]
    """Two uses of one word. Over a pattern, `@surgeon.rewrite(pattern, stage=...)` marks the body of a pass; over a
    model, a path or a `gs.Graph`, `surgeon.rewrite(model, target="8.4")` runs the passes and returns a `Result`.

    See `surgeon.session.rewrite` for the options of the second, `surgeon.rewrite.rewrite` for those of the first.
    """
    from .pattern import Pattern

    return _mark(first, **options) if isinstance(first, Pattern) else _run(first, **options)


__all__ = [
    "ANY",
    "DOMAIN",
    "Builder",
    "Editor",
    "EngineError",
    "ModelError",
    "PassError",
    "Result",
    "Stage",
    "SurgeonError",
    "Target",
    "UsageError",
    "__version__",
    "attr",
    "const",
    "gs_pass",
    "meaning",
    "op",
    "output",
    "require",
    "rewrite",
    "rewrite_file",
    "rewrite_model",
    "var",
]
