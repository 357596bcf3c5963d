"""Examples of the conditions that are rows, made from the rows: see `examples`.

`SAMPLES` has a node of each operator that every release takes which imports it. What a row refuses is put into that
node, and then taken out again, one thing at a time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from math import prod
from typing import Any

import onnx
from helpers import model
from onnx import defs

from condition_examples.example import Example, node_of
from surgeon.targets import releases, tables
from surgeon.targets.condition import dtype_name
from surgeon.targets.rows import Limit, Row, Values
from surgeon.targets.target import LAST_DLA

# ---- one node of each operator ---------------------------------------------------------------------------------------

# Outputs, operator, opset, and where the rank may be another one `*` with the times that `d*` is repeated; attributes;
# inputs. Those with "?" are left out where a row does not ask for them. An input with "=" is an initializer, of that
# number, or of those in braces. A bare `*` is the number of times itself.
SAMPLES = """
y = ArgMax@13*1 <keepdims = 1, ?select_last_index = 0> (float[5,1*])
y = ArgMin@13*1 <keepdims = 1, ?select_last_index = 0> (float[5,1*])
y, ?p, ?v = Attention@23 <?softmax_precision = 1> (float16[1,2,2,16], float16[1,2,2,16], float16[1,2,2,16], ?float16[2,2], ?float16[1,2,2,16], ?float16[1,2,2,16], ?int64[1])
y = AveragePool@19*2 <kernel_shape = [2*], ?dilations = [1*], ?pads = [0*, 0*], ?auto_pad = "NOTSET"> (float[1,1,4*])
y = BatchNormalization@14 (float[1,2,3], float[2] = 1, float[2] = 1, float[2] = 1, float[2] = 1)
y = Celu@12*1 (float[2*])
y = Clip@13 (float[2], ?float = 0, ?float = 1)
y = ConstantOfShape@13 (int64[1] = 2)
y = Conv@11*2 <?pads = [0*, 0*], ?auto_pad = "NOTSET"> (float[1,1,5*], float[1,1,2*] = 1)
y = ConvTranspose@11*2 <?strides = [1*], ?dilations = [1*], ?pads = [0*, 0*], ?auto_pad = "NOTSET"> (float[1,1,5*], float[1,1,2*] = 1)
y = CumSum@14*1 (float[3*], int64 = 0)
y = DepthToSpace@13*2 <blocksize = 2> (float[1,4,2*])
y = DequantizeLinear@13*1 (int8[2*], float = 1, int8 = 0)
y = Einsum@12 <equation = "ij,jk->ik"> (float[2,2], float[2,2])
y = Equal@13 (float[2], float[2])
y = Erf@13 (float[2])
y = Expand@13 (float[2], int64[1] = 2)
y = GRU@14 <hidden_size = 1, ?activations = ["Sigmoid", "Tanh"]> (float[3,2,4], float[1,3,4], float[1,3,1], ?float[1,6], ?int32[2])
y = Gather@13 (float[2,3], int64 = 1)
y = GatherElements@13 (float[2,3], int64[1,1] = 1)
y = GatherND@13 (float[2,3], int64[1] = 1)
y = Gemm@13 (float[2,2], float[2,2], ?float[2,2])
y = GlobalAveragePool@2*1 (float[1,2,3*])
y = GlobalLpPool@2*1 (float[1,2,3*])
y = GlobalMaxPool@2*1 (float[1,2,3*])
y = GridSample@20*2 <align_corners = 0, ?mode = "nearest"> (float[1,1,4*], float[1,3*,*])
y = GroupNormalization@17*2 <num_groups = 2> (float[1,4,3*], float[4] = 1, float[4] = 1)
y = HardSwish@14 (float[2])
y = Hardmax@13*2 <axis = 0> (float[4*])
y = InstanceNormalization@6*1 (float[1,2,3*], float[2] = 1, float[2] = 1)
y = LRN@13*2 <size = 3> (float[1,2,3*])
y = LSTM@14 <hidden_size = 1, ?activations = ["Sigmoid", "Tanh", "Tanh"]> (float[3,2,4], float[1,4,4], float[1,4,1], ?float[1,8], ?int32[2])
y, ?m = LayerNormalization@17 (float[2,3], float[3] = 1)
y = LogSoftmax@13*2 <axis = 0> (float[4*])
y = LpNormalization@1 <p = 2> (float[2,3])
y = LpPool@18*2 <kernel_shape = [2*], p = 2, ?dilations = [1*], ?pads = [0*, 0*], ?auto_pad = "NOTSET"> (float[1,1,4*])
y = MatMul@13 (float[2,2], float[2,2])
y, ?i = MaxPool@12*2 <kernel_shape = [2*], ?dilations = [1*], ?pads = [0*, 0*], ?auto_pad = "NOTSET"> (float[1,1,4*])
y = Mean@13 (float[2], float[2])
y = MeanVarianceNormalization@13 (float[2,3,4,4])
y = Mish@18 (float[2])
y = NonMaxSuppression@11 (float[1,4,4], float[1,1,4], int64[1] = 3, float[1] = 0.5, float[1] = 0.5)
y = PRelu@16 (float[2,3], float[3] = 1)
y = Pad@19 <mode = "constant"> (float[1,2,4,4], int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}, float = 0, ?int64[4] = {0, 1, 2, 3})
y = Pow@15 (float[2], float[2])
y = QuantizeLinear@13*1 (float[2*], float = 1, int8 = 0)
y = RMSNormalization@23 <stash_type = 1> (float[2,3], float[3] = 1)
y = RNN@14 <hidden_size = 1, ?activations = ["Tanh"]> (float[3,2,4], float[1,1,4], float[1,1,1], ?float[1,2], ?int32[2])
y = RandomUniformLike@1 (float[2])
y = ReduceL1@13*2 <keepdims = 1> (float[2*])
y = ReduceL2@13*2 <keepdims = 1> (float[2*])
y = ReduceLogSum@13*2 <keepdims = 1> (float[2*])
y = ReduceLogSumExp@13*2 <keepdims = 1> (float[2*])
y = ReduceMax@13*2 <keepdims = 1> (float[2*])
y = ReduceMean@13*2 <keepdims = 1> (float[2*])
y = ReduceMin@13*2 <keepdims = 1> (float[2*])
y = ReduceProd@13*2 <keepdims = 1> (float[2*])
y = ReduceSum@13*2 <keepdims = 1> (float[2*])
y = ReduceSumSquare@13*2 <keepdims = 1> (float[2*])
y = Relu@14 (float[2])
y = Reshape@14 <?allowzero = 0> (float[2,3], int64[2] = {3, 2})
y = Resize@18*2 <coordinate_transformation_mode = "asymmetric", mode = "linear", nearest_mode = "floor", ?axes = [0, 1, 2, 3]> (float[1,1,2,2], , float[4] = {1, 1, 2, 2})
y = ReverseSequence@10*0 (float[2,2,1*], int64[2])
y = RoiAlign@16 <sampling_ratio = 2> (float[1,2,4,4], float[1,4], int64[1])
y = STFT@17 <onesided = 1> (float[1,12,1], int64 = 2, float[4] = 1, int64 = 4)
y = ScatterElements@18 <?reduction = "none"> (float[4], int64[1] = 2, float[1])
y = ScatterND@18 <?reduction = "none"> (float[4], int64[1,1] = 2, float[1])
y = Sign@13 (float[2])
y = Slice@13 (float[4], int64[1] = 0, int64[1] = 2, int64[1] = 0, ?int64[1] = 1)
y = Softmax@13*2 <axis = 0> (float[4*])
y = SpaceToDepth@13*2 <blocksize = 2> (float[1,4,2*])
y = Swish@24*1 (float[2*])
y = TensorScatter@24*1 <mode = "linear", axis = -2> (float16[2,3*,5,4], float16[2,3*,2,4])
y, i = TopK@11 <largest = 1> (float[2,3], int64[1] = 1)
y = Trilu@14*2 <upper = 1> (float[2*])
y = Upsample@9 (float[1,1,2,2], float[4] = {1, 1, 2, 2})
y = Where@16 (bool[2], float[2], float[2])
"""
# Words that ONNX has for an attribute beside those that a row names.
WORDS = {
    "coordinate_transformation_mode": "half_pixel",
    "keep_aspect_ratio_policy": "not_larger",
    "mode": "edge",
    "nearest_mode": "ceil",
    "reduction": "add",
}
TYPES = ("float16", "float", "int32", "int8")  # that a node may have beside those that a row names


SAMPLE = re.compile(
    r"(?P<outputs>[^=]+) = (?P<op>\w+)@(?P<opset>\d+)(\*(?P<times>\d+))? (<(?P<attrs>.*)> )?\((?P<inputs>.*)\)"
)
BY_OP = {found["op"]: found for found in map(SAMPLE.fullmatch, SAMPLES.strip().splitlines()) if found}
INPUT = re.compile(r"\??(\w*)(?:\[(.*?)\])?(?: = (.*))?")
NEWEST = defs.onnx_opset_version()
# What is changed of a sample: {"opset": 13, "dtype 0": "int32", "attr mode": '"edge"'}; see `written`.
Change = dict[str, Any]


def written(op: str, change: Change) -> tuple[int, str]:
    """(opset, ONNX's text) of the sample of an operator with a change.

    opset N, times N, outputs N: their number. dtype K, rank K, weights K, input K: the type and the rank of an input,
    and whether it is an initializer, and whether it is there. attr NAME: its value as text; None leaves it out.
    """
    sample = BY_OP[op]
    times = change.get("times", int(sample["times"] or 0))
    opset = _opset(op, change)
    outputs = enumerate(sample["outputs"].split(", "))
    outputs = [name.strip("?") for k, name in outputs if name[0] != "?" or k < change.get("outputs", 0)]
    inputs, weights, call = [], [], []
    for k, given in enumerate(_split(sample["inputs"])):
        match = INPUT.fullmatch(given)
        assert match is not None, given
        dtype, sizes, numbers = match.groups()
        if not change.get(f"input {k}", bool(dtype) and given[0] != "?"):
            call.append('""')
            continue
        call.append(f"x{k}")
        shape = _repeated(sizes or "", times)
        rank = change.get(f"rank {k}", len(shape))
        shape = [*shape, *["1"] * (rank - len(shape))][:rank]
        name = next((change[f"dtype {j}"] for j in _alike(op, opset, k) if f"dtype {j}" in change), dtype)
        text = f"{name}[{','.join(shape)}] x{k}" if shape else f"{name} x{k}"
        if change.get(f"weights {k}", numbers is not None):
            one = numbers or "1"
            many = one if one[0] == "{" else "{" + ", ".join([one] * prod(map(int, shape))) + "}"
            weights.append(f"{text} = {many}")
        else:
            inputs.append(text)
    while call and call[-1] == '""':
        call.pop()
    attrs = ", ".join(f"{name} = {value}" for name, value in _attributes(sample["attrs"] or "", times, change))
    before = f" <{', '.join(weights)}>" if weights else ""
    node = f"{', '.join(outputs)} = {op}{f' <{attrs}>' if attrs else ''} ({', '.join(call)})"
    text = f"({', '.join(inputs)}) => (y){before} {{ {node} }}"
    return opset, text.replace("=> (y)", f"=> ({_output(text, opset)}y)")


def _output(text: str, opset: int) -> str:
    """The type of the output, before its name; nothing where ONNX infers none."""
    found = onnx.shape_inference.infer_shapes(model(text, opset)).graph.output[0].type.tensor_type
    if not found.elem_type:
        return ""
    sizes = ",".join(str(d.dim_value) if d.HasField("dim_value") else f"d{k}" for k, d in enumerate(found.shape.dim))
    return dtype_name(found.elem_type) + (f"[{sizes}] " if sizes or not found.HasField("shape") else " ")


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^]]*\]|{[^}]*}|\"[^\"]*\"|[^,])+|(?<=,)(?=,| )", text)]


def _repeated(sizes: str, times: int) -> list[str]:
    """Sizes, or numbers of a list, with those repeated that stand for any number."""
    found: list[str] = []
    for size in filter(None, sizes.split(",")):
        number = size.strip()
        found += [str(times)] if number == "*" else [number.rstrip("*")] * (times if number.endswith("*") else 1)
    return found


def _attributes(text: str, times: int, change: Change) -> Iterator[tuple[str, str]]:
    wanted = {name.removeprefix("attr "): value for name, value in change.items() if name.startswith("attr ")}
    for given in _split(text):
        name, _, value = given.partition(" = ")
        if name[0] != "?" and name not in wanted:
            is_list = value[0] == "[" and '"' not in value
            yield name, f"[{', '.join(_repeated(value[1:-1], times))}]" if is_list else value
    yield from ((name, value) for name, value in wanted.items() if value is not None)


def _schema(op: str, opset: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(op, opset)
    except defs.SchemaError:
        return None


def _alike(op: str, opset: int, position: int) -> list[int]:
    """The inputs that have the type of one, itself included."""
    schema = _schema(op, opset)
    names = [] if schema is None else [given.type_str for given in schema.inputs]
    if position >= len(names):
        return [position, len(names) - 1]
    return [k for k, name in enumerate(names) if name == names[position]]


def _opset(op: str, change: Change) -> int:
    """The opset that a change asks for, else the first from the sample's on that has what it uses."""
    first = int(BY_OP[op]["opset"])
    if "opset" in change or _schema(op, first) is None:
        return int(change.get("opset", first))
    return next((opset for opset in range(first, NEWEST + 1) if _has(op, opset, change)), first)


def _has(op: str, opset: int, change: Change) -> bool:
    schema = _schema(op, opset)
    if schema is None:
        return False
    for name, value in change.items():
        kind, _, key = name.partition(" ")
        if kind == "attr" and value is not None and key not in schema.attributes:
            return False
        if kind == "input" and value and int(key) >= schema.max_input:
            return False
        if kind == "dtype" and f"tensor({value})" not in schema.inputs[min(int(key), len(schema.inputs) - 1)].types:
            return False
    return True


# ---- what a row refuses of it ----------------------------------------------------------------------------------------

# A change that a row refuses, and each change in its place that is taken.
Part = tuple[Change, list[Change]]


def examples(row: Row) -> Iterator[Example]:
    """What a row refuses: each value of each thing that it asks, and the same with one thing that it takes."""
    for op in row.operators.split():
        for asked in product(*_parts(row, op)):
            opset, text = written(op, _joined(change for change, _ in asked))
            others = [
                written(op, _joined([*(c for c, _ in asked[:k]), other, *(c for c, _ in asked[k + 1 :])]))
                for k, (_, taken) in enumerate(asked)
                for other in taken
            ]
            others = [changed for changed in dict.fromkeys(others) if changed != (opset, text)]
            why = row.check(node_of(text, op, opset))
            assert why is not None and (others or not asked), f"{row.name} needs an example written by hand: {text}"
            taken, opsets = tuple(t for _, t in others), tuple(o for o, _ in others)
            yield Example(op, targets(row, op), why, opset, text, taken, opsets, None)


def targets(row: Row, op: str) -> str:
    """The targets of a row that import an operator, in words."""
    asked = [v for v in releases.RELEASES if v[0] <= LAST_DLA] if row.targets.dla else row.targets.releases
    names = [releases.dotted(version) for version in asked if op in tables.importers(version, False)]
    words = [" to ".join(dict.fromkeys([names[0], names[-1]]))] if names else []
    words += ["rtx"] * (row.targets.rtx and op in tables.importers(releases.LAST, True))
    return "dla " * row.targets.dla + ", ".join(words)


def _joined(changes: Iterable[Change]) -> Change:
    return {name: value for change in changes for name, value in change.items()}


def _parts(row: Row, op: str) -> Iterator[list[Part]]:
    """For each thing that a row asks, what it refuses of it and what it takes instead."""
    by_hand = (row.made, row.size, row.maker, row.value or None)
    assert op in BY_OP, f"{row.name}: add a line of {op} to SAMPLES in tests/condition_examples/rows.py"
    assert by_hand == (None,) * 4, f"{row.name} needs an example written by hand, in tests/condition_examples/"
    positions = row.input if isinstance(row.input, tuple) else (row.input,)
    inputs = _split(BY_OP[op]["inputs"])
    positions = [k for k in positions if k < len(inputs) and inputs[k]]
    if row.opset is not None:
        last = row.opset.values[0]
        refused, taken = (last + 1, last) if row.opset.kind == "above" else (last - 1, last)
        yield [({"opset": max(refused, int(BY_OP[op]["opset"])) if refused > last else refused}, [{"opset": taken}])]
    for name, values in row.attr.items():
        yield [
            ({f"attr {name}": r}, [{f"attr {name}": t} if t else {} for t in ts]) for r, ts in _values(op, name, values)
        ]
    if row.given != ():
        yield [_given(op, name, row) for name in _all(row.given)]
    if row.lacks != ():
        lacking = _joined(_absent(name) for name in _all(row.lacks))
        yield [(lacking, [{**lacking, **found} for name in _all(row.lacks) if (found := _present(op, name))])]
    if row.outputs is not None:
        assert isinstance(row.outputs, Limit)
        yield [({"outputs": row.outputs.values[0] + 1}, [{"outputs": row.outputs.values[0]}])]
    if row.weights is not None:
        yield [({f"weights {k}": row.weights}, [{f"weights {k}": not row.weights}]) for k in positions]
    if row.dtype is not None:
        yield [part for k in positions for part in _types(op, k, row.dtype)]
    if row.rank is not None:
        yield [part for k in positions for part in _ranks(op, k, row.rank)]


def _all(names: int | str | tuple[int | str, ...]) -> tuple[int | str, ...]:
    return names if isinstance(names, tuple) else (names,)


def _default(op: str, name: str) -> str | None:
    """The value of an attribute in the sample, be it left out there."""
    given = dict(part.lstrip("?").split(" = ") for part in _split(BY_OP[op]["attrs"] or ""))
    times = int(BY_OP[op]["times"] or 0)
    value = given.get(name)
    return f"[{', '.join(_repeated(value[1:-1], times))}]" if value and value[0] == "[" else value


def _present(op: str, name: int | str) -> Change:
    if isinstance(name, int):
        return {f"input {name}": True} if name < len(_split(BY_OP[op]["inputs"])) else {}
    value = _default(op, name)
    return {} if value is None else {f"attr {name}": value}


def _absent(name: int | str) -> Change:
    return {f"input {name}": False} if isinstance(name, int) else {f"attr {name}": None}


def _given(op: str, name: int | str, row: Row) -> Part:
    return ({} if name in row.attr else _present(op, name)), [_absent(name)]


def _values(op: str, name: str, values: Values) -> Iterator[tuple[str, list[str | None]]]:
    """Values of an attribute that are refused, as text, and for each those that are taken; None is the sample's own."""
    if not isinstance(values, Limit):
        yield from (
            (_text(op, name, value), [None]) for value in ([values] if isinstance(values, int | str) else values)
        )
        return
    first = values.values[0]
    if values.kind == "some":
        own = _default(op, name)
        assert own is not None, f"the sample of {op} has no {name}"
        refused = first if not isinstance(first, Limit) else next(v for v in (2, -1) if first.refuses(v))
        written = f'"{refused}"' if isinstance(refused, str) else str(refused)
        yield re.sub(r"\[[^,\]]+", f"[{written}", own), [own]
    elif values.kind == "other_than":
        other = WORDS[name] if isinstance(first, str) else next(v for v in range(1, 99) if v not in values.values)
        yield _text(op, name, other), [_text(op, name, value) for value in values.values]
    else:
        step = 1 if values.kind == "above" else -1
        yield _text(op, name, first + step), [_text(op, name, first)]


def _text(op: str, name: str, value: int | str) -> str:
    schema = _schema(op, NEWEST)
    is_float = schema is not None and name in schema.attributes and "FLOAT" in str(schema.attributes[name].type)
    return f'"{value}"' if isinstance(value, str) else f"{value}.0" if is_float else str(value)


def _types(op: str, position: int, refused: str | Collection[int] | Limit) -> Iterator[Part]:
    def known(names: Iterable[str]) -> list[str]:
        return [name for name in names if any(_has(op, v, {f"dtype {position}": name}) for v in range(1, NEWEST + 1))]

    if isinstance(refused, Limit):
        (other, *_) = known(name for name in TYPES if name not in refused.values)
        yield {f"dtype {position}": other}, [{f"dtype {position}": name} for name in known(map(str, refused.values))]
        return
    names = refused.split() if isinstance(refused, str) else map(dtype_name, sorted(refused))
    yield from (({f"dtype {position}": name}, [{}]) for name in known(names))


def _ranks(op: str, position: int, refused: Values) -> Iterator[Part]:
    inputs = _split(BY_OP[op]["inputs"])
    fixed = len(re.findall(r"\d+(?!\*|\d)", (INPUT.fullmatch(inputs[position]) or [""] * 3)[2] or ""))

    def of(rank: int) -> Change:
        repeated = position == 0 and BY_OP[op]["times"]
        return {"times": rank - fixed} if repeated else {f"input {position}": True, f"rank {position}": rank}

    if not isinstance(refused, Limit):
        yield from ((of(rank), [{}]) for rank in ([refused] if isinstance(refused, int) else map(int, refused)))
        return
    last = refused.values[0]
    steps = (-1,) if refused.kind == "below" else (1, -1) if "times" in of(last) and refused.kind != "above" else (1,)
    yield from ((of(last + step), [of(last)]) for step in steps if last + step >= 0)
