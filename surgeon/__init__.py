"""surgeon rewrites ONNX models so that the TensorRT you have parses, builds and runs them right, and proves it.

    import surgeon
    result = surgeon.rewrite("in.onnx", target="8.4")
    result.save("out.onnx")
    print(result.report.applied)

The vocabulary of a pass is here too: `op var const attr output ANY`, `rule model_rule gs_pass meaning Stage` and
`require require_some not_mine`.
"""

from __future__ import annotations

from surgeon.app import start

if start.is_program():
    start.begin()

from surgeon.errors import EngineError, ModelError, PassError, SurgeonError, UsageError
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.interop import gs_pass
from surgeon.pipeline.session import Result, rewrite_file
from surgeon.pipeline.session import rewrite as _run
from surgeon.rules.builder import Builder
from surgeon.rules.driver import Editor
from surgeon.rules.meaning import meaning
from surgeon.rules.pattern import ANY, attr, const, op, output, var
from surgeon.rules.rule import Stage, model_rule, not_mine, require, require_some, rule
from surgeon.targets.target import Target

start.done()

rewrite_model = model_rule
__version__ = "0.1.0"


def rewrite(first, /, **options):  # type: ignore[no-untyped-def]
    """Two uses of one word. Over a pattern, `@surgeon.rewrite(pattern, stage=...)` is `@surgeon.rule`; over a
    model, a path or a `gs.Graph`, `surgeon.rewrite(model, target="8.4")` runs the passes and returns a `Result`.

    See `surgeon.pipeline.session.rewrite` for the options of the second, `surgeon.rule` for the first.
    """
    from surgeon.rules.pattern import Pattern

    return rule(first, **options) if isinstance(first, Pattern) else _run(first, **options)


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
    "model_rule",
    "not_mine",
    "op",
    "output",
    "require",
    "require_some",
    "rewrite",
    "rewrite_file",
    "rewrite_model",
    "rule",
    "var",
]
