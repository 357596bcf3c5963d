"""Finds passes and orders them: the package `surgeon.passes`, folders given by `--passes`,
entry points "surgeon.passes".

A pass is a module; its name is the file's with hyphens. They are listed by name, which decides no result: the driver
ranks rules by what they replace (`surgeon.rules.driver`).
"""

import dataclasses
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from surgeon.errors import PassError, UsageError, did_you_mean, line_in, words_of
from surgeon.rules.rule import ModelRule, Pass, Rule, why_never_runs

GROUP = "surgeon.passes"


@cache
def _own() -> tuple[Pass, ...]:
    try:
        import surgeon.passes as package
    except ModuleNotFoundError:  # in a clone the passes are beside this package, and are installed into it
        place = Path(__file__).parents[2]
        raise UsageError(
            f"surgeon is imported from '{place}', where it is not installed: start Python elsewhere, or type "
            "`pip install -e .` there."
        ) from None

    found = []
    for info in pkgutil.iter_modules(package.__path__):
        if not info.name.startswith("_"):
            found.append(pass_of(importlib.import_module(f"{package.__name__}.{info.name}")))
    for entry in entry_points(group=GROUP):
        found.append(pass_of(entry.load(), own=False))
    return tuple(found)


def passes(folders: Iterable[str | Path] = ()) -> list[Pass]:
    """Every pass in reach, by name. A pass in a folder replaces one of the same name. Raises UsageError, PassError."""
    found = {p.name: p for p in _own()}
    for folder in folders:
        found.update({p.name: p for p in _in_folder(Path(folder))})
    return [found[name] for name in sorted(found)]


def find(known: Sequence[Pass], name: str) -> Pass:
    """The pass that is called so, else the one that a pass of that name is a part of now. Raises UsageError."""
    by_name = {**{old: p for p in known for old in p.formerly}, **{p.name: p for p in known}}
    if name not in by_name:
        raise UsageError(f"no pass is called '{name}'.{did_you_mean(name, [p.name for p in known])}")
    return by_name[name]


def select(known: Sequence[Pass], only: Iterable[str] | None, skip: Iterable[str]) -> list[Pass]:
    """The passes called in `only` without those in `skip`. Raises UsageError for an unknown name.

    only  None: all but those that `--tune` tries. Of a pass that is a part of another one now, its rules there
    """
    wanted, unwanted = None if only is None else set(only), set(skip)
    for name in (*(wanted or ()), *unwanted):
        find(known, name)
    asked = (p for p in known if (not p.tunes if wanted is None else not wanted.isdisjoint((p.name, *p.formerly))))
    left = (_without(p, wanted, unwanted) for p in asked if p.name not in unwanted)
    return [p for p in left if p.rules or p.model_rules]


def _without(p: Pass, only: set[str] | None, skip: set[str]) -> Pass:
    """What is asked for of a pass."""
    if (only is None or p.name in only) and skip.isdisjoint(p.formerly):
        return p
    kept: set[Rule | ModelRule] = {*p.rules, *p.model_rules}
    if only is not None and p.name not in only:
        kept = {r for name in p.formerly if name in only for r in p.formerly[name]}
    kept -= {r for name in p.formerly if name in skip for r in p.formerly[name]}
    rules, model_rules = (r for r in p.rules if r in kept), (r for r in p.model_rules if r in kept)
    return dataclasses.replace(p, rules=tuple(rules), model_rules=tuple(model_rules))


def _in_folder(folder: Path) -> list[Pass]:
    if not folder.is_dir():
        raise UsageError(f"'{folder}' is not a folder. --passes takes a folder of Python files, one pass each.")
    found = []
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith("_"):
            continue
        spec = importlib.util.spec_from_file_location(f"surgeon_user_passes.{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            line = line_in(str(path), error)
            where = f" ({line})" if line else ""
            raise UsageError(f"the pass file '{path}' does not load: {words_of(error)}{where}") from error
        found.append(pass_of(module, own=False))
    return found


def pass_of(module: ModuleType, own: bool = True) -> Pass:
    """The pass that a module is; `own` where it is one of surgeon's. Raises PassError without a rule or a docstring."""
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    if not (module.__doc__ or "").strip():
        raise PassError(
            f"the pass '{name}' has no docstring. Say why it exists, what it rewrites and how exact that is."
        )
    rules: dict[Rule, Rule] = {}  # as the module has it, and with the pass's name
    model_rules = []
    for thing in vars(module).values():
        for rule in thing if isinstance(thing, list | tuple) else (thing,):
            if isinstance(rule, Rule):
                rules[rule] = dataclasses.replace(rule, pass_name=name, own=own)
            elif isinstance(rule, ModelRule):
                model_rules.append(dataclasses.replace(rule, pass_name=name))
    if not rules and not model_rules:
        raise PassError(f"the pass '{name}' has no rule. Mark a function with @rule, @model_rule or @gs_pass.")
    for why in () if own else map(why_never_runs, rules):  # a test asks it of surgeon's own
        if why is not None:
            raise PassError(f"the pass '{name}' does not run: {why}.")
    options = tuple(getattr(module, "OPTIONS", ()))
    standardizes, tunes = (bool(getattr(module, mark, False)) for mark in ("STANDARDIZES", "TUNES"))
    doc, path = (module.__doc__ or "").strip(), str(module.__file__ or "")
    formerly = getattr(module, "FORMERLY", {})  # a text is the former name of the whole pass
    former: dict[str, tuple[Rule | ModelRule, ...]] = (
        {formerly: (*rules.values(), *model_rules)}
        if isinstance(formerly, str)
        else {old: tuple(rules[r] for r in parts) for old, parts in formerly.items()}
    )
    return Pass(name, doc, tuple(rules.values()), tuple(model_rules), path, options, standardizes, own, former, tunes)
