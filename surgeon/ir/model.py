"""A ModelProto, indexed: one `Graph` for the main graph, for every body and for every local function."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, helper

from surgeon.errors import ModelError
from surgeon.ir.constants import Constants, Fingerprint
from surgeon.ir.functions import declares_opset, needs_opset
from surgeon.ir.graph import Graph, Node, Value, scopes_of
from surgeon.ir.lattice import Shape
from surgeon.ir.memory import no_collection
from surgeon.ir.protos import refill
from surgeon.ir.schemas import DOMAIN, defaults, key_of, schema
from surgeon.ir.types import Types
from surgeon.ir.validity import check_inputs, check_nodes


class Model:
    """A ModelProto, indexed. `base` is the folder of its external data. The proto passed in is edited in place."""

    def __init__(self, proto: ModelProto, base: Path | None = None) -> None:
        self.proto = proto
        self.base = base
        self.opsets: dict[str, int] = {o.domain if o.domain != "ai.onnx" else "": o.version for o in proto.opset_import}
        self._check_header()
        self.functions: dict[str, Graph] = {}
        with no_collection():
            self.graph = Graph(proto.graph, self, None)
            for function in proto.functions:
                key = key_of(function.domain, function.name)
                self.functions[key] = Graph(function, self, None, f"the function {key}")
        check_inputs(proto.graph.input)
        for scope in self.standing_scopes():
            check_nodes(scope)
        self._file_opsets: dict[Graph, dict[str, int]] = {}
        self.types = Types(self)
        self.constants = Constants(self)
        self.made = 0  # nodes made so far
        self.new_nodes = GraphProto().node  # holds their protobufs: in one message they share one block of memory
        self.orphans: dict[Value, None] = {}  # initializers that a removal left without a reader
        self.dropped: set[Value] = set()  # those that leave the file
        self.file_functions = ModelProto().functions  # the local functions as the file has them, once remembered

    def _check_header(self) -> None:
        newest = onnx.defs.onnx_opset_version()
        if not self.proto.HasField("graph"):
            raise ModelError("the file holds no graph: it is not an ONNX model, or it was cut off while being written.")
        if "" not in self.opsets and needs_opset(self.proto):
            raise ModelError(
                "the model declares no opset for ONNX's own operators. Add an opset_import for the default domain."
            )
        if self.opset < 1:
            raise ModelError(f"the model declares opset {self.opset}; the first one is 1. Export the model again.")
        if self.opset > newest:
            raise ModelError(
                f"the model declares opset {self.opset}; the installed onnx package knows opsets up to {newest}. "
                "Upgrade onnx, or export at an older opset."
            )
        if self.proto.ir_version > onnx.IR_VERSION:
            raise ModelError(
                f"the model has IR version {self.proto.ir_version}; the installed onnx package knows versions up to "
                f"{onnx.IR_VERSION}. Upgrade onnx."
            )

    @property
    def opset(self) -> int:
        """The declared opset of ONNX's own operators."""
        return self.opsets.get("", 1)

    @property
    def scopes(self) -> list[Graph]:
        """The main graph, every body inside it, then the local functions and theirs.

        The meanings of surgeon's own nodes are not among them.
        """
        return list(self.standing_scopes())

    def standing_scopes(self) -> Iterator[Graph]:
        """The scopes one by one, without the bodies that went with their node on the way."""
        functions = [f for key, f in self.functions.items() if not key.startswith(f"{DOMAIN}::")]
        for top in (self.graph, *functions):
            yield from scopes_of(top)

    # ---- schemas ---------------------------------------------------------------------------------------------------

    def opset_in(self, graph: Graph, domain: str = "") -> int:
        """The opset that the nodes of `graph` are read with: a local function declares its own."""
        if graph is self.graph:
            return self.opsets.get(domain, 1)
        return self.opsets_in(graph).get(domain, 1)

    def opsets_in(self, graph: Graph, *, file: bool = False) -> dict[str, int]:
        """The opset of each domain for the nodes of `graph`; with `file` what the file declared before any rewrite."""
        top = graph
        while top.parent is not None:
            top = top.parent
        if file and top in self._file_opsets:
            return self._file_opsets[top]
        if isinstance(top.proto, onnx.FunctionProto):
            return {**self.opsets, **{o.domain: o.version for o in top.proto.opset_import}}
        return self.opsets

    def remember_opsets(self) -> None:
        """Keep what the file declares, before a rewrite declares something else; see `opsets_in`."""
        tops = (self.graph, *self.functions.values())
        self._file_opsets = {top: dict(self.opsets_in(top)) for top in tops} | self._file_opsets

    @property
    def has_other_opsets(self) -> bool:
        """Whether a rewrite has declared another opset than the file, for the model or for a local function."""
        return any(self.opsets_in(top) != declared for top, declared in self._file_opsets.items())

    def lower_opset(self, version: int) -> None:
        """Declare an older opset of ONNX's own operators, in local functions too."""
        self.remember_opsets()
        self.set_opset(min(version, self.opset))
        for function in self.functions.values():
            for entry in function.proto.opset_import:
                if entry.domain in ("", "ai.onnx"):
                    entry.version = min(version, entry.version)

    def schema(self, node: Node) -> onnx.defs.OpSchema | None:
        """The operator's schema at the model's opset; None for an operator that onnx does not know."""
        return schema(node.op, node.domain, self.opset_in(node.graph, node.domain))

    def schema_defaults(self, node: Node) -> dict[str, Any]:
        """The attributes for which the operator's schema has defaults, with those."""
        return defaults(node.op, node.domain, self.opset_in(node.graph, node.domain))

    def reversed_axes(self, node: Node) -> list[int] | None:
        """What a Transpose that names no axes does; None where the rank is not known."""
        shapes = [self.shape(v) for v in (*node.inputs, *node.outputs) if v is not None]
        known = next((s for s in shapes if s is not None), None)
        return None if known is None else list(reversed(range(len(known))))

    # ---- values on demand ------------------------------------------------------------------------------------------

    def is_constant(self, value: Value) -> bool:
        """Whether `value` can be computed without the model's inputs."""
        return self.constants.is_constant(value)

    def constant(self, value: Value | np.ndarray | None) -> np.ndarray | None:
        """The elements of a constant; None for any other tensor, or one too large to be worth it. An array is its own.

        Raises ModelError where it is kept in a file of weights that cannot be read.
        """
        return self.constants.value(value) if isinstance(value, Value) else value

    def fingerprint(self, value: Value | np.ndarray | None) -> Fingerprint | None:
        """(shape, type, bytes) of a constant tensor, to look it up by; None for any other."""
        return self.constants.fingerprint(value)

    def shape(self, value: Value) -> Shape | None:
        """The tensor's dimensions: int for a static one, str for a symbolic one, None for an unknown one.

        None where the rank is unknown.
        """
        return self.types.find(value).shape

    def dtype(self, value: Value) -> int:
        """The TensorProto.DataType; 0 (UNDEFINED) where it is not known."""
        return self.types.dtype(value)

    def forget_types(self) -> None:
        """Folding has made more knowable: what is asked for and not wholly known is inferred again."""
        self.types.expect_more()
        self.constants.expect_more()

    def remember_types(self) -> None:
        """Infer now, and keep what is known of tensors that rewrites take away, and what calls mean: a proof asks."""
        self.types.infer()
        self.file_functions.extend(self.proto.functions)

    # ---- writing ---------------------------------------------------------------------------------------------------

    def sync(self) -> ModelProto:
        """Write every edited graph into the protobuf and return it."""
        self.graph.sync()
        for function in self.functions.values():
            is_edited = function.edited
            function.sync()
            proto = function.proto
            if is_edited and not declares_opset(proto) and needs_opset(proto):
                proto.opset_import.append(helper.make_opsetid("", self.opset_in(function)))
        return self.proto

    def drop_orphans(self) -> None:
        """Initializers that lost their last reader to a rewrite leave the file; those never read stay."""
        for value in self.orphans:
            if value.tensor is not None and not value.users and not value.is_output:
                self.dropped.add(value)  # its tensor stays readable: a proof runs what was there before
                value.graph.edited = True

    def drop_unused_functions(self) -> None:
        """Take away the local functions that no node calls any more."""
        if not self.functions:
            return
        called, todo = set(), [n for s in scopes_of(self.graph) for n in s.live()]
        while todo:
            key = todo.pop().key
            if key in self.functions and key not in called:
                called.add(key)
                todo += [n for s in scopes_of(self.functions[key]) for n in s.live()]
        if len(called) == len(self.functions):
            return
        self.functions = {key: graph for key, graph in self.functions.items() if key in called}
        self.keep_functions(called.__contains__)

    def keep_functions(self, wanted: Callable[[str], bool]) -> None:
        """Take the other functions out of the file; what stays is still what the scopes write to."""
        refill(self.proto.functions, [f for f in self.proto.functions if wanted(key_of(f.domain, f.name))])
        for fresh in self.proto.functions:
            self.functions[key_of(fresh.domain, fresh.name)].proto = fresh

    def set_opset(self, version: int, domain: str = "") -> None:
        """Declare `version` for `domain`, adding the import where there is none."""
        self.opsets[domain] = version
        self.types.forget_schemas()
        for entry in self.proto.opset_import:
            if entry.domain == domain or (not domain and entry.domain == "ai.onnx"):
                entry.version = version
                return
        self.proto.opset_import.append(helper.make_opsetid(domain, version))

    def import_domain(self, domain: str) -> None:
        """Declare version 1 of a domain: in the model, and in the functions with nodes of it, where they do not."""
        if domain not in self.opsets:
            self.set_opset(1, domain)
        for function in self.functions.values():
            declared = {o.domain for o in function.proto.opset_import}
            rows = [row for scope in scopes_of(function) for row in scope.by_op.items()]
            used = any(nodes for key, nodes in rows if key.startswith(f"{domain}::"))
            if used and domain not in declared:
                function.proto.opset_import.append(helper.make_opsetid(domain, 1))
