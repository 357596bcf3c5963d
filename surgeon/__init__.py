"""surgeon rewrites ONNX models so that the TensorRT you have parses, builds and runs them correctly, and proves it.

    import surgeon
    result = surgeon.rewrite("in.onnx", target="8.4")
    result.save("out.onnx")
    print(result.report)

For a pipeline: `fix`, `rewrite`, `convert` (to fp16), `check`, `compare`, `build` and `why`. For onnx-graphsurgeon:
`to_gs`, `from_gs`. For the author of a pass: the pattern language (`op var const attr output any_of ANY`), the marks of
rules (`rule rewrites model_rule gs_pass meaning`), `Stage`, the words that decline (`require require_some no_match`),
and types (`FLOATS HALVES`).
"""

import sys

# `python -m surgeon` looks for modules in the current folder first: a file `numpy.py` there would run. So this comes
# before any other import, that of annotations from `__future__` too.
if (
    sys.argv[:1] == ["-m"]
    and "surgeon" in sys.orig_argv
    and not getattr(sys.flags, "safe_path", sys.flags.isolated)  # Python 3.10 has no -P
):
    del sys.path[0]

from surgeon import guard
from surgeon.app import start

if start.is_program():
    guard.begin()
    start.begin()

from surgeon.version import __version__, why_not_usable

if _why := why_not_usable("onnx"):  # else the first thing that an old one lacks is a traceback
    if start.is_program():
        print(f"surgeon: {_why}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_why)

import warnings
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from surgeon.errors import EngineError, ModelError, PassError, SurgeonError, UsageError
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.check import Checked, check
from surgeon.pipeline.interop import from_gs, gs_pass
from surgeon.pipeline.session import Result, to_gs
from surgeon.report import Applied, Declined, Report
from surgeon.rules.builder import Builder
from surgeon.rules.dimensions import Dim
from surgeon.rules.driver import Editor
from surgeon.rules.meaning import meaning
from surgeon.rules.pattern import ANY, Pattern, any_of, attr, const, op, output, var
from surgeon.rules.replacement import PLUGIN, rewrites
from surgeon.rules.rule import Decline, Stage, model_rule, no_match, require, require_some, rule
from surgeon.targets.target import Target
from surgeon.trt.rewriting import rewrite as _rewrite_model
from surgeon.trt.rewriting import rewrite_file

if TYPE_CHECKING:
    from surgeon.precision import PrecisionResult, convert
    from surgeon.trt.compare import compare
    from surgeon.trt.comparison import Comparison
    from surgeon.trt.engine import Built, build
    from surgeon.trt.fix import Fixed, fix
    from surgeon.trt.rewriting import rewrite
    from surgeon.trt.why import Finding, why

start.done()

dims, elements, known_dims = Builder.dims, Builder.elements, Builder.known_dims  # as they were called: `dims(b, x)`


# They load Polygraphy, or what few need, so they are imported when somebody asks for them.
_LAZY = {
    "Built": "surgeon.trt.engine",
    "Comparison": "surgeon.trt.comparison",
    "Finding": "surgeon.trt.why",
    "Fixed": "surgeon.trt.fix",
    "PrecisionResult": "surgeon.precision",
    "build": "surgeon.trt.engine",
    "compare": "surgeon.trt.compare",
    "convert": "surgeon.precision",
    "fix": "surgeon.trt.fix",
    "why": "surgeon.trt.why",
}


def __getattr__(name: str) -> Any:
    if name == "not_mine":
        warnings.warn("surgeon.not_mine is called no_match now", FutureWarning, stacklevel=2)
        return no_match
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'surgeon' has no attribute '{name}'")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """The public names, those that are imported later among them."""
    return sorted(__all__)


if not TYPE_CHECKING:  # else it is the function that it wraps

    @wraps(_rewrite_model)
    def rewrite(model, *args, **options):
        if isinstance(model, Pattern):  # `@surgeon.rewrite(pattern, stage=...)`, as `@surgeon.rule` was called
            return rule(model, *args, **options)
        return _rewrite_model(model, *args, **options)


__all__ = [
    "ANY", "Applied", "Builder", "Built", "Checked", "Comparison", "DOMAIN", "Decline", "Declined", "Dim", "Editor",
    "EngineError", "FLOATS", "Finding", "Fixed", "HALVES", "ModelError", "Node", "PLUGIN", "PassError", "Pattern",
    "PrecisionResult", "Report", "Result", "Stage", "SurgeonError", "Target", "UsageError", "Value", "__version__",
    "any_of", "attr", "build", "check", "compare", "const", "convert", "dims", "elements", "fix", "from_gs", "gs_pass",
    "known_dims", "meaning", "model_rule", "no_match", "op", "output", "require", "require_some", "rewrite",
    "rewrite_file", "rewrites", "rule", "to_gs", "var", "why",
]  # fmt: skip
