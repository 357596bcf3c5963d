"""Every function of passes/ is fully annotated, but for the body of a rule: that is read, not typed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PASSES = Path(__file__).resolve().parent.parent / "passes"
RULES = {"body", "meaning", "model_rule", "rule"}  # what marks a rule's body; the names that it gets are the pattern's


def is_rule(function: ast.FunctionDef) -> bool:
    calls = [d.func for d in function.decorator_list if isinstance(d, ast.Call)]
    return any(isinstance(c, ast.Name) and c.id in RULES for c in calls)


def helpers(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions that are not body of a rule, nor are in one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and is_rule(node):
            continue
        if isinstance(node, ast.FunctionDef):
            yield node
        yield from helpers(node)


def is_typed(function: ast.FunctionDef) -> bool:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return function.returns is not None and all(a.annotation is not None or a.arg in ("self", "cls") for a in named)


def untyped(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{path.name}:{f.lineno} {f.name}" for f in helpers(tree) if not is_typed(f)]
    return found


def test_every_helper_of_a_pass_is_annotated() -> None:
    assert not untyped(PASSES)


def test_a_helper_without_types_is_seen_and_the_body_of_a_rule_is_not(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "@rule(op.Relu(x), stage=Stage.FUSE)\ndef fuse(b, x): ...\ndef bare(b, x): ...\n"
        "class Part:\n    def build(self, b) -> int: ...\n    def ready(self) -> int: ...\n"
    )
    assert untyped(tmp_path) == ["p.py:3 bare", "p.py:5 build"]
