"""Parts of real models with something odd: another type, sizes of 0, names, a local function, sparse weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from windows import Undrawable

from surgeon.ir.protos import given_inputs, read_instead, reads, refill
from surgeon.ir.retyping import retyped
from surgeon.ir.run import load_error

MOST_NODES = 24
MOST_WEIGHTS = 1 << 18  # elements of one tensor
LARGEST_FILE = 64 << 20  # bytes
NAMES = ("a b", "é/ü", "x~pass/Op_1", "1", "a" * 300, "::error::", "/model/x", "Relu")
DOMAIN = "spliced"


def spliced(files: Sequence[Path], seed: int) -> ModelProto:
    """Some nodes in a row of one of the models, twisted. Raises Undrawable where ONNX Runtime does not load them."""
    chance = random.Random(seed)
    try:
        proto = _part(_read(chance.choice(files)), chance)
        for twist in chance.sample((_other_type, _other_size, _odd_names, _function, _sparse), chance.randrange(1, 4)):
            proto = twist(proto, chance)
    except Undrawable:
        raise
    except Exception:  # onnx's shape inference, of what is no model any more
        raise Undrawable("no model is made") from None
    if load_error(proto):
        raise Undrawable("ONNX Runtime does not load what is made")
    return proto


@lru_cache(maxsize=4)
def _read(file: Path) -> ModelProto:
    if file.stat().st_size > LARGEST_FILE:
        raise Undrawable("the file is large")
    return onnx.shape_inference.infer_shapes(onnx.load(file))


def _part(whole: ModelProto, chance: random.Random) -> ModelProto:
    """Nodes in a row, what they read as inputs, and what is read of them as outputs."""
    graph = whole.graph
    first = chance.randrange(len(graph.node))
    nodes = list(graph.node)[first : first + chance.randrange(2, MOST_NODES)]
    known = {i.name: i for i in (*graph.input, *graph.value_info, *graph.output)}
    weights = {t.name: t for t in graph.initializer}
    made = {o for n in nodes for o in n.output if o}
    inner = dict.fromkeys(i for n in nodes for i in reads(n))
    read = [name for name in inner if name not in made]
    outer = {i for n in graph.node if n not in nodes for i in reads(n)} | {o.name for o in graph.output}
    outputs = [known[o] for n in nodes for o in n.output if o in known and (o in outer or o not in inner)]
    held = [weights[name] for name in read if name in weights]
    if not outputs or any(np.prod(t.dims, dtype=np.float64) > MOST_WEIGHTS or t.external_data for t in held):
        raise Undrawable("nothing is returned, or the weights are large")
    inputs = [known[name] for name in read if name not in weights]
    part = helper.make_graph(nodes, "part", inputs, outputs, held)
    proto = helper.make_model(part, opset_imports=whole.opset_import, functions=whole.functions)
    proto.ir_version = max(whole.ir_version, 8)  # from it on a model may have functions
    return proto


def _other_type(proto: ModelProto, chance: random.Random) -> ModelProto:
    return retyped(proto, {TensorProto.FLOAT: chance.choice((TensorProto.DOUBLE, TensorProto.FLOAT16))})


def _other_size(proto: ModelProto, chance: random.Random) -> ModelProto:
    """The first axis of all inputs gets a size: 0, 1, or a name."""
    size = chance.choice((0, 1, "N"))
    for info in (*given_inputs(proto), *proto.graph.output):
        dims = info.type.tensor_type.shape.dim
        if not len(dims):
            continue
        dims[0].Clear()
        if isinstance(size, int) and info in proto.graph.input:
            dims[0].dim_value = size
        elif info in proto.graph.input:
            dims[0].dim_param = size
    return proto


def _odd_names(proto: ModelProto, chance: random.Random) -> ModelProto:
    """Nodes without names, and inner tensors with odd ones."""
    taken = {o for n in proto.graph.node for o in n.output} | {i.name for i in proto.graph.input}
    returned = {o.name for o in proto.graph.output}
    for node in proto.graph.node:
        node.name = chance.choice(("", node.name))
        for k, name in enumerate(node.output):
            odd = chance.choice(NAMES)
            if name and name not in returned and odd not in taken and chance.random() < 0.3:
                taken.add(odd)
                node.output[k] = odd
                read_instead(proto.graph, name, odd)
    return proto


def _function(proto: ModelProto, chance: random.Random) -> ModelProto:
    """All nodes in a local function that is called once."""
    graph = proto.graph
    given = [i.name for i in graph.input] + [t.name for t in graph.initializer]
    returned = [o.name for o in graph.output]
    body = helper.make_function(DOMAIN, "Part", given, returned, list(graph.node), list(proto.opset_import))
    refill(graph.node, [helper.make_node("Part", given, returned, domain=DOMAIN)])
    proto.functions.append(body)
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return proto


def _sparse(proto: ModelProto, chance: random.Random) -> ModelProto:
    """One of the weights as a sparse tensor, most of its elements 0."""
    floats = [t for t in proto.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims)]
    if not floats:
        return proto
    dense = chance.choice(floats)
    array = numpy_helper.to_array(dense).reshape(-1)
    kept = np.flatnonzero(array)[:: chance.choice((1, 7))]
    values = numpy_helper.from_array(np.ascontiguousarray(array[kept]), dense.name)
    indices = numpy_helper.from_array(kept.astype(np.int64), f"{dense.name}_indices")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, list(dense.dims)))
    refill(proto.graph.initializer, [t for t in proto.graph.initializer if t is not dense])
    return proto


__all__ = ["spliced"]
