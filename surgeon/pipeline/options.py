"""What a run is asked for: the keywords of `surgeon.rewrite`, checked, as one frozen value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from surgeon.errors import UsageError, did_you_mean
from surgeon.report import Progress
from surgeon.rules import registry
from surgeon.rules.rule import ModelRule, Pass
from surgeon.targets.target import Target

Verify: TypeAlias = Literal["window", "full", "none"]
Shapes: TypeAlias = Mapping[str, Sequence[int]]  # input name -> its sizes
Folders: TypeAlias = str | Path | Iterable[str | Path]
MODES = ("window", "full", "none")
LIBRARIES = ("surgeon", "stock")


class RewriteOptions(TypedDict, total=False):
    """The keywords of `surgeon.rewrite`, for what hands them on; `Options.checked` has their defaults."""

    target: str | Target | None
    plugins: Iterable[str]
    strategy: Mapping[str, str] | None
    only: Iterable[str] | None
    skip: Iterable[str]
    verify: Verify
    shapes: Shapes | None
    passes: Folders
    allow_unproved: bool
    allow_narrowing: bool
    symmetric_int8: bool
    options: Mapping[str, float] | None
    progress: Progress | None
    cache: bool
    inputs: Mapping[str, str] | None
    dynamic_batch: bool | Mapping[str, int | None]
    declared: Mapping[str, str] | None
    detections: int | None


@dataclass(frozen=True, slots=True)
class Options:
    """A run's options. All names in them exist, and go together with the target.

    skip          (pass name, node glob) pairs; passes that are skipped whole are not in `passes`
    pass_options  what single passes read
    inputs        the forms that inputs get before anything else, by name
    declared      the sizes and types of tensors that custom operators make, by name
    detections    how many rows each NonMaxSuppression returns, where that is to be fixed; else None
    batch_axes    the axis of the batch by input, where the batch is to become dynamic; else None
    """

    target: Target
    passes: tuple[Pass, ...]
    strategies: Mapping[str, str]
    libraries: tuple[str, ...]
    skip: tuple[tuple[str, str], ...]
    verify: Verify
    shapes: Shapes
    allow_unproved: bool
    allow_narrowing: bool
    symmetric_int8: bool
    pass_options: Mapping[str, float]
    progress: Progress | None
    cache: bool
    inputs: Mapping[str, str]
    batch_axes: Mapping[str, int | None] | None
    declared: Mapping[str, str]
    detections: int | None

    @classmethod
    def checked(
        cls,
        *,
        target: str | Target | None = None,
        plugins: Iterable[str] = (),
        strategy: Mapping[str, str] | None = None,
        only: Iterable[str] | None = None,
        skip: Iterable[str] = (),
        verify: Verify = "window",
        shapes: Shapes | None = None,
        passes: Folders = (),
        allow_unproved: bool = False,
        allow_narrowing: bool = False,
        symmetric_int8: bool = False,
        options: Mapping[str, float] | None = None,
        progress: Progress | None = None,
        cache: bool = False,
        inputs: Mapping[str, str] | None = None,
        dynamic_batch: bool | Mapping[str, int | None] = False,
        declared: Mapping[str, str] | None = None,
        detections: int | None = None,
    ) -> Options:
        """The options of these keywords, which are those of `RewriteOptions`. Raises UsageError, PassError."""
        if verify not in MODES:
            raise UsageError(f"verify is one of {', '.join(MODES)}, not '{verify}'.")
        chosen = _target(target)
        offered = registry.passes([passes] if isinstance(passes, str | Path) else passes)
        names, globs = _split_skips(_several(skip), offered)
        selected = registry.select(offered, None if only is None else _several(only), names)
        strategies = dict(strategy or {})
        _check_strategies(strategies, offered, chosen)
        libraries = tuple(_several(plugins))
        _check_libraries(libraries, chosen)
        pass_options = dict(options or {})
        _check_pass_options(pass_options, offered)
        return cls(
            target=chosen,
            passes=tuple(selected),
            strategies=strategies,
            libraries=libraries,
            skip=globs,
            verify=verify,
            shapes=shapes or {},
            allow_unproved=allow_unproved,
            allow_narrowing=allow_narrowing,
            symmetric_int8=symmetric_int8,
            pass_options=pass_options,
            progress=progress,
            cache=cache,
            inputs=dict(inputs or {}),
            batch_axes=_batch_axes(dynamic_batch),
            declared=dict(declared or {}),
            detections=detections,
        )

    @property
    def proves(self) -> bool:
        """Whether rewrites are proved."""
        return self.verify != "none"

    def without_rules(self, rules: Collection[ModelRule]) -> Options:
        """The same options without some rules over whole models."""
        passes = (replace(p, model_rules=tuple(r for r in p.model_rules if r not in rules)) for p in self.passes)
        return replace(self, passes=tuple(passes))


def _target(given: str | Target | None) -> Target:
    if isinstance(given, Target):
        return given
    if not isinstance(given, str | None):
        raise UsageError(f"a target is text, such as '8.4', not the {type(given).__name__} {given!r}.")
    return Target.default() if given is None else Target.parse(given)


def _batch_axes(given: bool | Mapping[str, int | None]) -> Mapping[str, int | None] | None:
    """The axes that were said; None where the batch stays what it is."""
    if isinstance(given, bool):
        return {} if given else None
    return dict(given)


def _several(given: Iterable[str]) -> Iterable[str]:
    """The names; one name may stand for itself."""
    return (given,) if isinstance(given, str) else given


def _split_skips(skip: Iterable[str], offered: Sequence[Pass]) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """The passes to skip whole, and the (pass, node glob) pairs. Raises UsageError."""
    names, globs = [], []
    for item in skip:
        name, colon, glob = item.partition(":")
        if not colon:
            names.append(name)
            continue
        registry.select(offered, [name], ())
        globs.append((name, glob))
    return names, tuple(globs)


def _check_strategies(strategies: Mapping[str, str], offered: Sequence[Pass], target: Target) -> None:
    by_name = {p.name: p for p in offered}
    for name, strategy in strategies.items():
        if name not in by_name:
            raise UsageError(f"no pass is called '{name}'.{did_you_mean(name, by_name)}")
        has = by_name[name].strategies
        if strategy not in has:
            what = f"It has {', '.join(has)}." if has else "It has none: it does not lower."
            raise UsageError(f"the pass '{name}' has no strategy '{strategy}'. {what}")
        if strategy == "plugin" and not target.plugins:
            raise UsageError(
                f"the target {target} has no plugins, so '{name}' cannot become one. Use decompose or keep."
            )


def _check_libraries(libraries: Sequence[str], target: Target) -> None:
    for name in libraries:
        if name not in LIBRARIES:
            raise UsageError(f"no plugin library is called '{name}'.{did_you_mean(name, LIBRARIES)}")
    if libraries and not target.plugins:
        raise UsageError(
            f"the target {target} has no plugins. Leave --plugins out: every pass has a native form there."
        )


def _check_pass_options(options: Mapping[str, float], offered: Sequence[Pass]) -> None:
    names = {name for p in offered for name in p.options}
    for name in options:
        if name not in names:
            raise UsageError(f"no pass has an option '{name}'.{did_you_mean(name, names)}")
