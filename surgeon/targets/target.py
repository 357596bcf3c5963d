"""A target: one TensorRT, TensorRT-RTX or DLA, by name, and what it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from surgeon.errors import SurgeonError, UsageError, words_of
from surgeon.ir.graph import Graph, Node, scopes_of
from surgeon.ir.model import Model
from surgeon.ir.schemas import opset_of_definition
from surgeon.report import LIKELY_INVALID
from surgeon.targets import (
    contrib,
    dtypes,
    int64_narrowing,
    local_functions,
    names,
    opset_compat,
    plans,
    plugins,
    tables,
)
from surgeon.targets.condition import Check, Condition, handed_on, is_weights, opset_of
from surgeon.targets.conditions import conditions, dla, pads, shapes
from surgeon.targets.installed import installed_version
from surgeon.targets.releases import BESIDE_RTX, FIRST, LAST, Range, Version, dotted, row_of, version_of
from surgeon.targets.unsupported import Kind, Unsupported

DEFAULT = "10.9"
LAST_DLA = 10  # the last major version with DLA
NAMES = "A target is a version such as 8.4 or 10.9, 'rtx', '8.6+dla', 'installed', or a name of `surgeon targets`."
MISREAD_FUNCTION = "this parser finds functions and their tensors by name only, and may confuse them with others"


@dataclass(frozen=True, slots=True)
class Target:
    """One TensorRT: `name` as it was asked for, `version` the row of the table, `rtx` and `dla` what the name says.

    `note` says, in a sentence without a full stop, what the name alone does not: which row stands for it, or that no
    TensorRT was found. It is empty where there is nothing to say.
    """

    name: str
    version: Version
    rtx: bool = False
    dla: bool = False
    note: str = ""

    @staticmethod
    def parse(text: str) -> Target:
        """The target of a name: `major[.minor[.patch]]`, `rtx`, `installed`, a version with `+dla`, or one of `names`.

        A version without a row of its own has that of the nearest row below it; a bare major means its first release.
        Later releases of the newest major in the table have the newest row. Raises UsageError for anything else, and
        for `installed` where no TensorRT can be imported.
        """
        if text == "installed":
            found = _installed()
            if found is None:
                raise UsageError(
                    "no TensorRT can be imported here. Name the target, such as 10.9; see surgeon targets."
                )
            return found
        if not text.strip():
            raise UsageError(f"the target is empty. {NAMES.replace('A target', 'It')}")
        base, plus, suffix = text.partition("+")
        if plus and suffix != "dla":
            raise UsageError(_unknown(text))
        if base == "rtx":
            if suffix:
                raise UsageError("TensorRT-RTX has no DLA. Leave '+dla' out.")
            return Target(text, LAST, rtx=True)
        if re.fullmatch(r"\d+(\.\d+){0,3}", base):
            return _release(text, base, bool(suffix))
        alias = names.resolve(base)
        if alias is None:
            raise UsageError(_unknown(text))
        version, said = alias
        target = _release(version + plus + suffix, version, bool(suffix))
        return replace(target, note="; ".join(filter(None, (said, target.note))))

    @staticmethod
    def default() -> Target:
        """The TensorRT that can be imported, else TensorRT-RTX, else the release `DEFAULT`; `note` says which."""
        found = _installed()
        return found or replace(Target.parse(DEFAULT), note="no TensorRT can be imported here")

    def __str__(self) -> str:
        return self.name

    # What its parser is like ------------------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        """The newest opset that the parser really reads: the ceiling of what a written model may declare."""
        return tables.opset_of(self.version)

    @property
    def lowers_opset(self) -> bool:
        """Whether a model above the ceiling is read with older meanings, silently."""
        return self._in(tables.LOWERING)

    @property
    def plugins(self) -> bool:
        """Whether plugin nodes can be imported at all."""
        return self._in(plugins.PLUGIN_READERS)

    def reads(self, dtype: int) -> bool:
        """Whether tensors of a type, of TensorProto.DataType, may be inputs and outputs."""
        first = dtypes.READABLE.get(dtype)
        return first is not None and first <= self.version

    @property
    def int64(self) -> bool:
        """Whether int64 is computed in 64 bits; it is read as int32 elsewhere, and what int32 does not hold is cut."""
        return not self._in(dtypes.NARROWING)

    @property
    def ties_sizes(self) -> bool:
        """Whether dimensions of inputs that have one name must be of one size when an engine runs."""
        return self._in(tables.TIES_SIZES)

    @property
    def strongly_typed(self) -> bool:
        """Whether each node is computed in the types of the file: no flag makes it fp16."""
        return self._in(tables.STRONGLY_TYPED)

    @property
    def typed_on_request(self) -> bool:
        """Whether an option of trtexec makes it strongly typed."""
        return self._in(tables.TYPED_ON_REQUEST)

    @property
    def carries_functions(self) -> bool:
        """Whether a model may have the functions of its plugin nodes: some parsers import these instead."""
        return not self._in(tables.FUNCTION_PREFERRERS)

    @property
    def pad_modes(self) -> frozenset[str]:
        """The modes of Pad that are taken."""
        if self.has(pads.constant_mode) or self.has(dla.pad_mode):
            return frozenset({"constant"})
        modes = frozenset({"constant", "reflect", "edge"})
        return modes if self.has(pads.wrap_mode) else modes | {"wrap"}

    @property
    def dla_divides(self) -> bool:
        """Whether there is a DLA, and it runs Div."""
        return self.dla and not self.has(dla.divisions)

    @property
    def pad_axes_input(self) -> bool:
        """Whether Pad may have a fourth input."""
        return not self.has(pads.axes_input)

    @property
    def pad_axes_count(self) -> int | None:
        """How many dimensions one Pad may pad; None is any number."""
        return 2 if self.has(pads.any_two) or not self.pad_any_axis else None

    @property
    def pad_any_axis(self) -> bool:
        """Whether dimensions other than the last two may be padded."""
        return not self.has(pads.last_two)

    @property
    def shape_inputs(self) -> dict[str, tuple[int, ...]]:
        """By operator, the inputs that may not be computed through a tensor of several dimensions."""
        return tables.SHAPE_INPUTS if self.has(shapes.shape_tensor_rank) else {}

    def has(self, condition: Condition) -> bool:
        """Whether a condition holds for this target, for some operator, or may hold."""
        ranges = [scope.targets for scope in condition.scopes]
        return any(self._in(r) or r.doubts(self.version, rtx=self.rtx) for r in ranges)

    def imports(self, op: str) -> bool:
        """Whether the parser has an importer of its own for this ONNX operator."""
        return op in tables.importers(self.version, self.rtx)

    def constant_inputs(self, op: str) -> tuple[int, ...]:
        """The inputs of an operator that must be initializers or Constant nodes."""
        return tables.constant_inputs(self.version, self.rtx).get(op, ())

    def stock_version(self, op: str) -> str:
        """The version by which this release knows a plugin of NVIDIA's own library."""
        return plugins.stock_version(op, self.version)

    def sums_in_fp32(self, op: str) -> bool:
        """Whether a reduction of fp16 is computed in fp32, and its result alone is rounded."""
        return self.rtx and op in tables.RTX_SUMS_IN_FP32

    @property
    def plans(self) -> list[plans.Worse]:
        """The rewrites of supported nodes that were measured as worse."""
        return [row for row in plans.rows() if self._in(row.targets)]

    # What it takes ----------------------------------------------------------------------------------------------------

    def why_unsupported(self, node: Node, *, rewriting: bool = False, exactly: bool = False) -> Unsupported | None:
        """Why the node is not supported; None where the target imports it and computes what ONNX says.

        rewriting  while rules run, the opset of the model and its types are still the file's: they are not judged
        exactly    a node of which the parser rounds a number is not supported either
        """
        why = self._why_refused(node, exactly)
        return why if why is not None or rewriting else self._why_not_written(node, cuts=not self.int64)

    def unsupported(self, model: Model) -> Iterator[tuple[Node, Unsupported]]:
        """The nodes of a model, and of its bodies that are parsed, that are not supported."""
        cuts, unparsed = self._cuts(model), self.unparsed(model)
        file_counts = self.has_other_types(model) or any(model.opset_in(s) > self.opset for s in model.scopes)
        for scope in (scope for scope in model.scopes if scope not in unparsed):
            opset = model.opset_in(scope)
            asked = [key for key in scope.by_op if file_counts or not self.takes_every(key, opset)]
            for node in scope.of(asked):
                why = self._why_refused(node, exactly=False)
                if why is None and file_counts:
                    why = self._why_not_written(node, cuts)
                if why is not None:
                    yield node, why

    def refuses(self, node: Node, condition: Condition) -> str | None:
        """The reason why one condition refuses the node, or rounds its numbers; None where it does not."""
        found = _table(self.version, self.rtx, self.dla, opset_of(node)).importers.get(node.key)
        doubted = () if found is None else (check for check, _ in found.doubted)
        if found is None or condition.check not in (*found.checks, *found.rounding, *doubted):
            return None
        return condition.check(node)

    def takes_every(self, key: str, opset: int = 1) -> bool:
        """Whether every node of an operator is taken, whatever its inputs: then no node need be asked about.

        `opset` is the lowest that the nodes are read with.
        """
        found = _table(self.version, self.rtx, self.dla, opset).importers.get(key)
        return found is not None and not any((found.checks, found.constant_inputs, found.rounding, found.doubted))

    def has_other_types(self, model: Model) -> bool:
        """Whether a model has tensors of a type that not every release knows, or numbers that this parser cuts."""
        return self._cuts(model) or dtypes.has_other_types(model, self.version, rtx=self.rtx)

    def _cuts(self, model: Model) -> bool:
        """Whether the parser cuts a number that a model holds."""
        return not self.int64 and int64_narrowing.has_clamped(model)

    def _why_refused(self, node: Node, exactly: bool) -> Unsupported | None:
        """Why the parser does not import the node as it is, or computes something else."""
        try:
            return self._first_refusal(node, exactly)
        except (SurgeonError, MemoryError, OSError):
            raise
        except Exception as error:
            return Unsupported(Kind.NODE, f"{LIKELY_INVALID}{words_of(error)}", known=False)

    def _first_refusal(self, node: Node, exactly: bool) -> Unsupported | None:
        table = _table(self.version, self.rtx, self.dla, opset_of(node))
        importer = table.importers.get(node.key)
        if importer is None:
            why = self._why_unknown(node)
            return None if why is None else Unsupported(Kind.OPERATOR, why)
        if table.lowers_to and (
            not opset_of_definition(node.key, table.lowers_to) and bool(opset_of_definition(node.key, opset_of(node)))
        ):
            why = f"{node.op} is not in opset {self.opset}, the newest that this parser reads"
            return Unsupported(Kind.OPERATOR, why)
        for position in importer.constant_inputs:
            if not is_weights(node.input_at(position)) and not (self.rtx and _becomes_weights(node, position)):
                return Unsupported(Kind.NODE, f"its input {position} must be an initializer")
        for check in importer.checks:
            why = check(node)
            if why is not None:
                return Unsupported(Kind.NODE, why)
        for check, is_measured in importer.doubted:
            why = check(node)
            if why is not None:
                return self._doubt(Kind.NODE, why) if is_measured else Unsupported(Kind.NODE, why, known=False)
        rounding = importer.rounding if exactly else ()
        return next((Unsupported(Kind.ROUNDED, why) for check in rounding if (why := check(node)) is not None), None)

    def _doubt(self, kind: Kind, why: str) -> Unsupported:
        measured = f"measured with TensorRT-RTX {tables.RTX_MEASURED}, not with TensorRT {dotted(self.version)}"
        return Unsupported(kind, f"{why}; {measured}", known=False)

    def _why_not_written(self, node: Node, cuts: bool) -> Unsupported | None:
        """Why a node that the parser imports is not supported in a file of its types and its opset."""
        why = dtypes.why_mistyped(node, self.version, rtx=self.rtx)
        if why is None and cuts:
            why = int64_narrowing.why_clamped(node)
        if why is not None:
            return Unsupported(Kind.TYPE, why)
        why = opset_compat.why_newer(node, self.opset, refused=False) if self.lowers_opset else None
        if why is not None:
            return Unsupported(Kind.OPSET, why)
        doubted = self.version >= BESIDE_RTX and not self.rtx
        why = dtypes.why_mistyped(node, self.version, rtx=True) if doubted else None
        return None if why is None else self._doubt(Kind.TYPE, why)

    def unparsed(self, model: Model) -> set[Graph]:
        """The bodies that are not parsed: branches that an If never takes, by a condition that is in the file.

        Measured with TensorRT-RTX 1.7.1. A condition that is computed counts for nothing.
        """
        if not self.rtx:
            return set()
        deciding = (node for scope in model.scopes for node in scope.of(["If"]))
        found = (_branch_left_out(node) for node in deciding)
        return {inner for branch in found if branch is not None for inner in scopes_of(branch)}

    def _in(self, targets: Range) -> bool:
        return targets.covers(self.version, rtx=self.rtx, dla=self.dla)

    def _why_unknown(self, node: Node) -> str | None:
        """The reason for an operator that the table has no importer for; None for plugins."""
        domain, op = node.proto.domain, node.op
        if domain == plugins.OWN_DOMAIN and op not in plugins.STOCK:
            if not op.startswith("Surgeon"):
                return f"{op} is surgeon's own canonical node, which no parser reads"
            return None if self.plugins else plugins.NO_PLUGINS
        if domain == "trt" and op in tables.TRT_QUANTIZERS:
            has = self._in(tables.TRT_QUANTIZERS[op])
            return None if has else f"TensorRT {dotted(self.version)} has no importer for {op}"
        if self.rtx and node.key in contrib.WHY_NOT:
            return contrib.WHY_NOT[node.key](node)
        if plugins.names_plugin(node):
            return plugins.why_no_plugin(op, self.version, rtx=self.rtx)
        if node.key in node.graph.model.functions:
            if self.rtx:
                return local_functions.why_misread(node, imported=self.imports(op))
            reads = self._in(tables.FUNCTION_READERS)
            return MISREAD_FUNCTION if reads else "local functions are read from TensorRT 9.0 on"
        if not node.domain:
            return f"{'TensorRT-RTX' if self.rtx else 'TensorRT ' + dotted(self.version)} has no importer for {op}"
        if self.imports(op):
            return f"this parser ignores domains and would read it as ONNX's own {op}"
        return f"there is no importer for {node.key}; a plugin of that name would be needed"


class Importer(NamedTuple):
    """What a target asks of the nodes of one operator that it imports.

    `rounding` are the checks for nodes that are supported and rounded. `doubted` are those for which it is unknown
    whether they hold, each with True if TensorRT-RTX was measured.
    """

    constant_inputs: tuple[int, ...]
    checks: tuple[Check, ...]
    rounding: tuple[Check, ...]
    doubted: tuple[tuple[Check, bool], ...]


class Table(NamedTuple):
    """What a target asks of nodes: `importers` by operator, in the order of the conditions.

    `lowers_to` is the newest opset of a parser that reads newer models with older meanings; 0 for any other.
    """

    importers: dict[str, Importer]
    lowers_to: int


@cache
def _table(version: Version, rtx: bool, dla: bool, opset: int) -> Table:
    """The table of a target for nodes of one opset, made once: every node of a model is held against it."""
    held: dict[str, list[Condition]] = {op: [] for op in tables.importers(version, rtx)}
    doubted: dict[str, dict[Condition, bool]] = {op: {} for op in held}
    scopes = (
        (condition, scope) for condition in conditions() if condition.asks_at(opset) for scope in condition.scopes
    )
    for condition, where in scopes:
        for op in (op for op in where.operators if op in held):
            if where.targets.covers(version, rtx=rtx, dla=dla):
                held[op].append(condition)
            elif where.targets.doubts(version, rtx=rtx):
                doubted[op][condition] = not where.targets.doubt
    constants = tables.constant_inputs(version, rtx)
    importers = {op: _importer(constants.get(op, ()), held[op], doubted[op]) for op in held}
    lowers = tables.LOWERING.covers(version, rtx=rtx, dla=dla)
    return Table(importers, tables.opset_of(version) if lowers else 0)


def _importer(constant_inputs: tuple[int, ...], held: list[Condition], doubted: Mapping[Condition, bool]) -> Importer:
    refusing = tuple(condition.check for condition in held if not condition.rounds)
    rounding = tuple(condition.check for condition in held if condition.rounds)
    others = tuple((condition.check, measured) for condition, measured in doubted.items() if condition not in held)
    return Importer(constant_inputs, refusing, rounding, others)


def _branch_left_out(node: Node) -> Graph | None:
    condition = node.input_at(0)
    known = node.graph.model.constant(condition) if condition is not None and condition.is_written else None
    if known is None or known.size != 1:
        return None
    return node.body("else_branch" if bool(known.reshape(-1)[0]) else "then_branch")


def _becomes_weights(node: Node, position: int) -> bool:
    """Whether TensorRT-RTX makes weights of an input that is computed; measured with TensorRT-RTX 1.7.1."""
    value = node.input_at(position)
    if node.key in tables.RTX_FOLDING:
        return value is not None and node.graph.model.is_constant(value)
    return is_weights(handed_on(value, by=("Cast", "Identity")))


# ---- names -----------------------------------------------------------------------------------------------------------


def _release(text: str, base: str, dla: bool) -> Target:
    """The target of a version, `base`, in digits and dots."""
    asked = version_of(base)
    asked = (*asked, 0) if len(asked) == 1 else asked
    if asked < FIRST or asked[0] > LAST[0]:
        raise UsageError(
            f"TensorRT {dotted(FIRST)} to {dotted(LAST)} are known, not {base}.{names.suggestion(base)} Name one of "
            "these, or another of `surgeon targets`."
        )
    if dla and asked[0] > LAST_DLA:
        raise UsageError(f"TensorRT {base} has no DLA: {LAST_DLA}.x is the last that has. Leave '+dla' out.")
    row = row_of(asked)
    note = "" if asked[: len(row)] == row else f"TensorRT {base} has the row of {dotted(row)} in the table"
    return Target(text, row, dla=dla, note=note)


def _unknown(text: str) -> str:
    return f"no target is called '{text}'.{names.suggestion(text)} {NAMES}"


def _installed() -> Target | None:
    """The TensorRT that can be imported, else TensorRT-RTX, with a note that says which; None where there is none."""
    version = installed_version("tensorrt")
    if version:
        return _installed_release(version)
    version = installed_version("tensorrt_rtx")
    if not version:
        return None
    measured = f"; the table was measured with {tables.RTX_MEASURED}"
    note = f"TensorRT-RTX {version} is installed{'' if version.startswith(tables.RTX_MEASURED) else measured}"
    return Target("rtx", LAST, rtx=True, note=note)


def _installed_release(version: str) -> Target:
    numbers = ".".join(re.findall(r"\d+", version)[:2])
    note = f"TensorRT {version} is installed"
    if int(numbers.partition(".")[0]) > LAST[0]:
        return Target(dotted(LAST), LAST, note=f"{note}, which is newer than the table: its last row is used")
    return Target(numbers, Target.parse(numbers).version, note=note)
