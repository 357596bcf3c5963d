"""What `import surgeon` offers: typed functions for pipelines, and the vocabulary of a pass."""

from __future__ import annotations

import inspect
import re
import sys
import types
from pathlib import Path

import pytest
import typecheck
from helpers import model

import surgeon

PIPELINE = """
from pathlib import Path
import surgeon

result: surgeon.Result = surgeon.rewrite("in.onnx", target="8.4", plugins=["surgeon"], verify="full")
report: surgeon.Report = surgeon.rewrite_file("in.onnx", "out.onnx", skip="fold")
checked: surgeon.Checked = surgeon.check(Path("in.onnx"), target="rtx")
comparison: surgeon.Comparison = surgeon.compare("in.onnx", "out.onnx", network=True)
fixed: surgeon.Fixed = surgeon.fix("in.onnx", target="8.4", shapes={"x": (1, 3)})
built: surgeon.Built = surgeon.build("out.onnx", "out.engine", fp16=True)
half: surgeon.PrecisionResult = surgeon.convert(result.model, target="8.4", io_fp16=True)
found: list[surgeon.Finding] = surgeon.why(Path("trtexec.log").read_text())
page: str = result.page(title="in.onnx")
surgeon.check("in.onnx", progress=lambda phase, done, total: print(phase, done, total))
surgeon.rewrite("in.onnx", taget="8.4")  # wrong
surgeon.convert(result.model, keep_fp16="Softmax")  # wrong
surgeon.check("in.onnx", progress=print)
surgeon.check("in.onnx", progress=lambda phase: None)  # wrong
surgeon.rewrite("in.onnx", verify="windows")  # wrong
surgeon.rewrite_file("in.onnx", "out.onnx", targets="8.4")  # wrong
surgeon.check("in.onnx", verify="none")  # wrong
surgeon.compare("in.onnx", "out.onnx", shape={})  # wrong
surgeon.fix("in.onnx", for_target="8.4")  # wrong
surgeon.build("out.onnx", "out.engine", half=True)  # wrong
x = surgeon.var("x")
surgeon.rule(x + x, stage="fuse")  # wrong
surgeon.rewrite(x + x, stages=surgeon.Stage.FUSE)  # wrong
wanted: int = surgeon.require_some(result.report.seconds, "why")  # wrong
"""


@pytest.mark.long
def test_a_misspelt_option_fails_the_type_check(tmp_path: Path) -> None:
    installed = typecheck.lay_out(tmp_path)
    (installed / "_pipeline.py").write_text(PIPELINE, encoding="utf-8")
    status, output = typecheck.run(tmp_path)
    found = {int(line) for line in re.findall(r"_pipeline\.py:(\d+): error", output)}
    assert found == {n for n, line in enumerate(PIPELINE.splitlines(), 1) if line.endswith("# wrong")}, output
    assert status == 1


def test_every_public_function_has_a_signature_and_a_docstring() -> None:
    for name in surgeon.__all__:
        thing = getattr(surgeon, name)
        if not isinstance(thing, types.FunctionType):
            continue
        assert (thing.__doc__ or "").strip(), name
        kinds = {p.kind for p in inspect.signature(thing).parameters.values()}
        open_ended = inspect.Parameter.VAR_KEYWORD in kinds
        assert not open_ended, f"{name} takes any keyword"


def test_no_public_name_hides_a_module() -> None:
    for name in surgeon.__all__:
        assert f"surgeon.{name}" not in sys.modules, name


def test_the_old_spelling_of_the_decorator_makes_the_same_rule() -> None:
    x = surgeon.var("x")
    old = surgeon.rewrite(surgeon.op.Relu(x), stage=surgeon.Stage.FUSE)(lambda b, x: x)
    assert old.stage is surgeon.Stage.FUSE and isinstance(old, type(surgeon.rule(x + x, stage=old.stage)(print)))


def test_the_old_name_of_no_match_is_taken_with_a_note() -> None:
    with pytest.warns(FutureWarning, match="surgeon.not_mine is called no_match now"):
        assert surgeon.not_mine is surgeon.no_match


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="rewrit"):
        surgeon.rewrit  # noqa: B018


def test_a_result_shows_itself() -> None:
    proto = model("(float[N,3] x) => (float[N,3] y) { a = Identity (x) y = Relu (a) }")
    result = surgeon.rewrite(proto, target="8.4")
    assert "8.4" in repr(result) and len(repr(result).splitlines()) < 40
    assert result._repr_html_().lstrip().startswith("<")


def test_dir_shows_what_exists_and_nothing_else() -> None:
    assert dir(surgeon) == sorted(surgeon.__all__) and {"fix", "why", "build", "compare"} <= set(dir(surgeon))
