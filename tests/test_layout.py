"""The code's layers: which module may import which, and how long a file may be."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import onnx
import pytest

import surgeon

ROOT = Path(__file__).resolve().parent.parent
# Lower layers first: a module imports none of an upper one. What is in one row is one layer.
LAYERS = (
    ("errors", "guard", "private_files", "report", "version", "verdict_text", "visible"),
    ("ir",),
    ("html",),
    ("targets",),
    ("rules",),
    ("proof",),
    ("pipeline",),
    ("precision",),
    ("trt",),
    ("app",),
)
# Tables that name MANY operators of ONNX or more: other sets are expressions of traits in ir/operators.py.
MOST_TABLES = 25
MANY = 5
ROWS = {"refuses"}
OPERATORS = {s.name for s in onnx.defs.get_all_schemas_with_history() if not s.domain}
LONGEST = 700  # lines of a file that gives no reason
REASON = "This file is long because"  # how the paragraph of a docstring begins that gives it

# (module, string) where a string that is the name of a pass means another thing.
OTHER_THINGS = {
    ("surgeon.app.screen", "fold"),  # rich's way to break a line
    ("surgeon.ir.contrib", "activation"),  # attributes and inputs
    ("surgeon.ir.definitions", "opset"),
    ("surgeon.targets.rows", "opset"),  # a word of a row
    ("surgeon.targets.unsupported", "opset"),  # a kind of reason
    ("surgeon.precision.inputs", "mask"),  # a part of an input's name
    ("surgeon.report", "opset"),  # a key of the JSON report
    ("surgeon.trt.program", "gelu"),  # keys of an engine's text
    ("surgeon.trt.program", "swish"),
    ("surgeon.app.commands.kernels", "attention"),  # what a table shows
}


def files() -> Iterator[tuple[str, Path]]:
    """(module, file) of the package: passes/ is installed as surgeon.passes."""
    for folder, package in (("surgeon", "surgeon"), ("passes", "surgeon.passes")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join((package, *(p for p in parts if p != "__init__"))), path


MODULES = dict(files())


def is_for_types(node: ast.AST) -> bool:
    """Whether it is an `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements(node: ast.AST, types: bool) -> Iterator[ast.AST]:
    """The statements inside, those in functions too; without `types` none of `if TYPE_CHECKING:`."""
    for inner in ast.iter_child_nodes(node):
        if types or not is_for_types(inner):
            yield inner
            yield from statements(inner, types)


def imported(module: str, path: Path, types: bool = False) -> set[str]:
    """The modules of the package that a module imports, in its functions too."""
    found: set[str] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text()), types):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package.split(".")[: len(package.split(".")) + 1 - node.level]) if node.level else ""
            base = ".".join(part for part in (above, node.module) if part)
            for alias in node.names:  # `from package import module` does not ask the package for a name
                name = f"{base}.{alias.name}"
                found.add(name if name in MODULES else base)
    return {name for name in found if name in MODULES and name != module}


def layer(module: str) -> int | None:
    """The number of a module's layer; None for the package itself, its program, and the passes."""
    part = f"{module}.".split(".")[1]
    return next((number for number, names in enumerate(LAYERS) if part in names), None)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, directly or through others."""
    reached = {module: _reached(module, graph) for module in graph}
    found = {tuple(sorted(o for o in graph if o in reached[m] and m in reached[o])) for m in graph if m in reached[m]}
    return [list(circle) for circle in sorted(found)]


def _reached(module: str, graph: dict[str, set[str]]) -> set[str]:
    found, todo = set(), list(graph[module])
    while todo:
        other = todo.pop()
        if other not in found:
            found.add(other)
            todo += graph[other]
    return found


def upward(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """(importing, imported) where that is of an upper layer."""
    found = set()
    for module, others in graph.items():
        for other in others:
            own, its = layer(module), layer(other)
            if own is not None and its is not None and its > own:
                found.add((module, other))
    return found


def too_long(path: Path) -> bool:
    text = path.read_text()
    return text.count("\n") > LONGEST and REASON not in (ast.get_docstring(ast.parse(text)) or "")


def test_no_modules_import_each_other() -> None:
    assert circles({m: imported(m, path) for m, path in MODULES.items()}) == []


def test_no_module_imports_one_of_an_upper_layer() -> None:
    """Not even for its types."""
    assert upward({m: imported(m, path, types=True) for m, path in MODULES.items()}) == set()


def test_a_long_file_gives_its_reason() -> None:
    assert {module for module, path in MODULES.items() if too_long(path)} == set()


def named_operators(tree: ast.AST) -> set[str]:
    """The operators that an expression names, one by one or as the words of a string.

    None of a row: it is about a target, and gives a source of its own.
    """
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ROWS:
        return set()
    if isinstance(tree, ast.Constant):
        said = tree.value.split() if isinstance(tree.value, str) else []
        return set(said) if OPERATORS.issuperset(said) else set()
    return set[str]().union(*map(named_operators, ast.iter_child_nodes(tree)))


def tables(text: str) -> list[int]:
    """The lines where a module assigns a table that names MANY operators or more."""
    assigned = [n for n in ast.parse(text).body if isinstance(n, ast.Assign | ast.AnnAssign | ast.AugAssign)]
    return [n.lineno for n in assigned if n.value is not None and len(named_operators(n.value)) >= MANY]


def gives_a_reason(lines: list[str], number: int) -> bool:
    """Whether a comment stands above a line, or behind it."""
    above = [line for line in lines[number - 3 : number - 1] if line != "# fmt: off"]
    return above[-1].startswith("# ") or "  # " in lines[number - 1]


def test_tables_of_operators_are_few_and_give_a_reason() -> None:
    texts = {module: path.read_text() for module, path in MODULES.items()}
    found = [(module, line) for module, text in texts.items() for line in tables(text)]
    assert len(found) <= MOST_TABLES, found
    assert [(m, line) for m, line in found if not gives_a_reason(texts[m].splitlines(), line)] == []


def test_a_table_of_operators_is_seen() -> None:
    assert tables('A = {"Abs", "Add", "And", "Cos"} | {"Sin"}') == tables('A = words("Abs Add And Cos Sin")') == [1]
    assert tables('A: set[str] = {"Abs": 1, "Add": 2, "And": ("Cos", "Sin")}') == [1]
    assert not tables('A = ELEMENTWISE - {"Abs", "Add", "And", "Cos"}')
    assert not tables('ROWS = (refuses("Abs Add And Cos Sin", RTX),)')


def test_every_package_is_in_a_layer() -> None:
    packages = {m.split(".")[1] for m, p in MODULES.items() if m.count(".") == 1 and p.name == "__init__.py"}
    assert packages - {"passes"} == {name for names in LAYERS for name in names} - {*LAYERS[0]}


def test_passes_take_from_the_package_what_it_publishes() -> None:
    published = {name: getattr(surgeon, name) for name in surgeon.__all__}
    wrong = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())) if module.startswith("surgeon.passes.") else ():
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("surgeon."):
                inner = import_module(node.module or "")
                names = [a.name for a in node.names if a.name in published]
                wrong += [f"{module}: {name}" for name in names if getattr(inner, name) is published[name]]
    assert not wrong


def test_the_package_names_no_pass() -> None:
    """A string that is the name of a pass, where it does not mean that pass."""
    names = {path.stem.replace("_", "-") for path in (ROOT / "passes").glob("[!_]*.py")}
    found = set()
    for module, path in MODULES.items():
        if module.startswith("surgeon.passes."):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in names:
                found.add((module, node.value))
    more, gone = found - OTHER_THINGS, OTHER_THINGS - found
    assert not more, f"rename the pass; or, where the string has another meaning, add it to OTHER_THINGS: {more}"
    assert not gone, f"remove from OTHER_THINGS: {gone}"


def test_nothing_is_said_twice() -> None:
    """A field of a pass's docstring, or a line of the changelog."""
    twice = {}
    for path in (ROOT / "passes").glob("[!_]*.py"):
        fields = re.findall(r"^([A-Z][a-z]+) {2,}", ast.get_docstring(ast.parse(path.read_text())) or "", re.MULTILINE)
        twice[path.name] = [field for field, count in Counter(fields).items() if count > 1]
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("- ")]
    twice["CHANGELOG.md"] = [line for line, count in Counter(lines).items() if count > 1]
    assert {name: found for name, found in twice.items() if found} == {}


def test_circles_and_upward_imports_are_found() -> None:
    graph = {"surgeon.ir.a": {"surgeon.rules.b"}, "surgeon.rules.b": {"surgeon.ir.c"}, "surgeon.ir.c": {"surgeon.ir.a"}}
    assert circles(graph) == [["surgeon.ir.a", "surgeon.ir.c", "surgeon.rules.b"]]
    assert upward(graph) == {("surgeon.ir.a", "surgeon.rules.b")}
    assert circles({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize(("text", "types", "found"), [
    ("from surgeon.ir.graph import Node", False, {"surgeon.ir.graph"}),
    ("from surgeon.ir import graph", False, {"surgeon.ir.graph"}),
    ("from .graph import Node", False, {"surgeon.ir.graph"}),
    ("from . import graph", False, {"surgeon.ir.graph"}),
    ("from ..proof import prove", False, {"surgeon.proof.prove"}),
    ("def f():\n    import surgeon.proof.prove", False, {"surgeon.proof.prove"}),
    ("if TYPE_CHECKING:\n    from surgeon.ir.model import Model", False, set()),
    ("if TYPE_CHECKING:\n    from surgeon.ir.model import Model", True, {"surgeon.ir.model"}),
    ("import onnx", False, set()),
])  # fmt: skip
def test_imports_are_read(text: str, types: bool, found: set[str], tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(text)
    assert imported("surgeon.ir.a", path, types) == found


def test_a_reason_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('"""Long."""\n' + "x = 1\n" * LONGEST)
    assert too_long(path)
    path.write_text(f'"""Long.\n\n{REASON} it is a table.\n"""\n' + "x = 1\n" * LONGEST)
    assert not too_long(path)
