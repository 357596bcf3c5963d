"""The table of operators against ONNX's schemas, and run: what each trait says is seen in ONNX Runtime."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from surgeon.ir import operators
from surgeon.ir.operators import OPERATORS
from surgeon.ir.run import Runner, Unrunnable
from surgeon.ir.schemas import newest_schemas

OPSET = 20  # unless the operator is newer: ONNX Runtime lacks kernels of a few newer versions
SCHEMAS = {s.name: s for s in onnx.defs.get_all_schemas() if not s.domain}
RNG = np.random.default_rng(0)
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "BitCast": {"to": TensorProto.INT32},
    "BitShift": {"direction": "LEFT"},
    "Cast": {"to": TensorProto.INT32},
    "Concat": {"axis": 1},
    "DepthToSpace": {"blocksize": 2},
    "GlobalMaxPool": {},
    "MaxPool": {"kernel_shape": [2, 2]},
    "RegexFullMatch": {"pattern": "a.*"},
    "Shrink": {"bias": 0.3},
    "ReverseSequence": {"batch_axis": 0, "time_axis": 1},
    "SpaceToDepth": {"blocksize": 2},
    "Transpose": {"perm": [3, 1, 0, 2]},
}
DOMAINS = {"Acos": (-1, 1), "Acosh": (1, 9), "Asin": (-1, 1), "Atanh": (-0.99, 0.99), "Log": (0.01, 9), "Sqrt": (0, 9)}


@pytest.fixture(autouse=True)
def drawn_anew() -> None:
    """What a test draws does not follow from the tests before it."""
    global RNG
    RNG = np.random.default_rng(0)


def having(trait: str, among: Iterable[str] = OPERATORS) -> list[str]:
    """The operators of a trait that the installed onnx has."""
    return sorted(operators.having(trait) & set(among) & set(SCHEMAS))


def run(op: str, *inputs: np.ndarray, **attrs: Any) -> np.ndarray:
    """The first result of one node."""
    names = [f"x{k}" for k in range(len(inputs))]
    attrs = ATTRIBUTES.get(op, {}) | attrs
    if op == "Split" and len(inputs) == 1:
        attrs["num_outputs"] = 2
    made = ["y", "z"] if op in ("Split", "TopK") else ["y"]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, **attrs)], "g", infos, [onnx.ValueInfoProto(name=n) for n in made]
    )
    opset = OPSET if onnx.defs.has(op, OPSET, "") else SCHEMAS[op].since_version
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    found: np.ndarray = Runner(onnx.shape_inference.infer_shapes(model)).run(dict(zip(names, inputs, strict=True)))[0]
    return found


# ---- against the schemas ---------------------------------------------------------------------------------------------


def test_each_operator_has_a_row() -> None:
    assert set(OPERATORS) >= set(SCHEMAS)
    assert onnx.defs.onnx_opset_version() < 26 or set(OPERATORS) == set(SCHEMAS)


def test_no_operator_has_older_schemas_alone() -> None:
    older = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    assert older == {(s.domain, s.name) for s in newest_schemas()}


def test_each_word_is_a_trait_and_has_its_sentence() -> None:
    text = Path(operators.__file__).with_suffix(".toml").read_text(encoding="utf-8")
    said = text.partition("# Traits:\n#\n")[2].partition("\n#\n")[0].splitlines()
    assert {line.split()[1] for line in said} == {t for row in OPERATORS.values() for t in row.traits}


def test_each_input_of_integers_alone_has_a_role() -> None:
    """Those of which a schema takes int32 or int64 and no float; data that is integers by nature aside."""
    for op, schema in SCHEMAS.items():
        row = OPERATORS[op]
        roles = {*row.shape, *row.axes, *row.positions, *row.limited}
        kinds = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        for position, formal in enumerate(schema.inputs):
            types = kinds.get(formal.type_str, {formal.type_str})
            counts = types & {"tensor(int32)", "tensor(int64)"} and not any("float" in t for t in types)
            if counts and "elementwise" not in row.traits and op not in ("QLinearConv", "TfIdfVectorizer"):
                assert position in roles, (op, formal.name)
        named = (*roles, *row.weights, *(row.elements or ()))
        assert all(p < len(schema.inputs) for p in named) or not schema.inputs, op


def test_what_holds_no_tensor_is_what_the_schema_says() -> None:
    for op, schema in SCHEMAS.items():
        kinds = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        made = schema.outputs[0].type_str if schema.outputs else "tensor"
        bodies = any(a.type == onnx.defs.OpSchema.AttrType.GRAPH for a in schema.attributes.values())
        held = not any(t.startswith("tensor") for t in kinds.get(made, [made]))
        assert held == (op in operators.HOLDS) or (bodies and op != "SequenceMap"), op


def test_names_and_types_say_the_kind() -> None:
    """Traits that follow from an operator's name, or from the types of its schema."""
    for op, schema in SCHEMAS.items():
        kinds = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        read = [kinds.get(i.type_str, {i.type_str}) for i in schema.inputs]
        bools = (
            bool(schema.outputs)
            and schema.outputs[0].type_str == "tensor(bool)"
            or (bool(schema.outputs) and kinds.get(schema.outputs[0].type_str) == {"tensor(bool)"})
        )
        assert bools == (op in operators.RETURNS_BOOL), op
        assert (bools and all(t == {"tensor(bool)"} for t in read)) == (op in operators.LOGICAL), op
        assert (bools and len(read) == 2 and read[0] > {"tensor(float)"}) == (op in operators.COMPARES), op
        assert op.startswith("Reduce") == (op in operators.REDUCES), op
        assert (op in ("Shape", "Size")) == (op in operators.MEASURES), op
        assert any(word in op for word in ("Quantize", "quantize", "QLinear", "Integer")) == (
            op in operators.QUANTIZES
        ), op
        normalizes = op == "LRN" or op.endswith("Normalization") and op != "BatchNormalization"
        assert normalizes == (op in operators.NORMALIZES), op
        made = schema.outputs[0].type_str if schema.outputs else ""
        counts = kinds.get(made, {made}) == {"tensor(int64)"} and made not in {i.type_str for i in schema.inputs} & set(
            kinds
        )
        assert counts == (op in operators.LOCATES | operators.MEASURES | {"SequenceLength"}), op


NEITHER = operators.words(  # they return what they are given to return, of any type, or what no arithmetic makes
    "BitCast Cast CastLike ConcatFromSequence Constant ConstantOfShape Dropout EyeLike If Loop OneHot Scan SequenceAt "
    "OptionalGetElement Mod Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "TfIdfVectorizer"
)


def test_floating_point_is_rounded_or_not() -> None:
    for op, schema in SCHEMAS.items():
        kinds = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        made = schema.outputs[0].type_str if schema.outputs else ""
        floats = "tensor(float)" in kinds.get(made, [made]) and op not in operators.QUANTIZES | NEITHER
        assert (op in operators.EXACT) + (op in operators.ROUNDS) == floats or op == "DequantizeLinear", op
    moving = operators.MOVES | operators.FILLS | operators.PICKS
    assert moving <= operators.EXACT and moving - operators.CONTINUOUS == {"MaxUnpool", "TopK", "Unique"}
    assert operators.KEEP_ORDER <= operators.MOVES and operators.SLIDES < operators.BATCH
    assert operators.BROADCASTS | operators.COMMUTATIVE <= operators.ELEMENTWISE
    smooth = (operators.ROUNDS - operators.ELEMENTWISE) & operators.CONTINUOUS
    assert operators.NORMALIZES | operators.REDUCES - operators.PICKS | operators.ALONG - {"Hardmax"} <= smooth


# ---- element by element ----------------------------------------------------------------------------------------------


def operands(op: str, size: int = 24) -> list[np.ndarray]:
    """Inputs of one shape of an operator that computes element by element."""
    schema = SCHEMAS[op]
    kinds = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    least = {"Clip": 3, "PRelu": 2}.get(op, 3 if op in ("Max", "Min", "Mean", "Sum") else schema.min_input)
    found = []
    for position in range(least):
        types = kinds[schema.inputs[min(position, len(schema.inputs) - 1)].type_str]
        if op == "Clip" and position:
            found.append(np.asarray(position * 2 - 3, np.float32))
        elif "tensor(float)" in types:
            low, high = DOMAINS.get(op, (0.5, 4.0) if op in ("Pow", "Mod") and position == 0 else (-4.0, 4.0))
            found.append(RNG.uniform(low, high, size).astype(np.float32))
        elif "tensor(string)" in types:
            found.append(RNG.choice(["a", "ab", "b"], size).astype(object))
        elif "tensor(uint8)" in types:
            found.append(RNG.integers(0, 7, size).astype(np.uint8))
        else:
            found.append(RNG.random(size) < 0.5)
    if op == "Mod":
        found = [np.arange(size), RNG.integers(1, 9, size)]
    return found


def computes_by_element(op: str) -> bool:
    """Inputs in another order give the results in that order, and what changes elsewhere changes nothing here."""
    given = operands(op)
    order = RNG.permutation(given[0].size)
    plain = run(op, *given)
    if plain.shape != given[0].shape:
        return False
    turned = [x[order] if x.ndim else x for x in given]
    rows = [np.stack([x, x[::-1]])[:, None] if x.ndim else x for x in given]
    halves = [np.concatenate([x[:12], x[:12]]) if x.ndim else x for x in given]
    return (
        np.array_equal(run(op, *turned), plain[order])
        and np.array_equal(run(op, *rows), np.stack([plain, plain[::-1]])[:, None])
        and np.array_equal(run(op, *halves), np.concatenate([plain[:12], plain[:12]]))
    )


@pytest.mark.parametrize("op", sorted(SCHEMAS))
def test_each_element_by_itself(op: str) -> None:
    """Of every operator that takes inputs of one shape. A Dropout does while nobody trains; an optional may be one."""
    if op in operators.RANDOM:
        return
    try:
        found = computes_by_element(op)
    except Exception:  # other inputs, or attributes, are asked for
        found = False
    assert found == (op in operators.ELEMENTWISE | {"Dropout", "OptionalGetElement"})


@pytest.mark.parametrize("op", having("elementwise"))
def test_broadcasting(op: str) -> None:
    """Each input may have an axis that no other has. ONNX Runtime lets the slope of a PRelu have one; ONNX does not."""
    given = operands(op)
    if op == "PRelu" or len(given) == 1 or not all(x.ndim for x in given):
        assert op not in operators.BROADCASTS
        return
    axes = [tuple(k for k in range(len(given)) if k != position) for position in range(len(given))]
    try:
        shape = run(op, *(np.expand_dims(x, axis) for x, axis in zip(given, axes, strict=True))).shape
    except Unrunnable:
        shape = ()
    assert (shape == (24,) * len(given)) == (op in operators.BROADCASTS)


@pytest.mark.parametrize("op", having("elementwise"))
def test_any_order_of_inputs(op: str) -> None:
    given = operands(op)
    if len(given) == 1 or op == "CastLike" or len({(x.dtype, x.shape) for x in given}) > 1:
        assert op not in operators.COMMUTATIVE
        return
    given = [x % 5 + 1 for x in given] if op == "Mod" else given
    one, other = run(op, *given), run(op, *given[::-1])
    same = np.allclose(one, other, rtol=1e-6) if one.dtype == np.float32 else np.array_equal(one, other)
    assert same == (op in operators.COMMUTATIVE)


@pytest.mark.parametrize("op", [op for op in having("elementwise") if OPERATORS[op].neutral is not None])
def test_neutral_elements(op: str) -> None:
    x = operands(op)[0]
    neutral = np.asarray(OPERATORS[op].neutral).astype(x.dtype)
    np.testing.assert_array_equal(run(op, x, neutral), x)


@pytest.mark.parametrize("op", having("reduces"))
def test_neutral_elements_of_a_reduce(op: str) -> None:
    """The mean has none."""
    x, axes = RNG.uniform(0.5, 4, (3, 5)).astype(np.float32), np.asarray([1])
    neutral = OPERATORS[op].neutral
    more = np.concatenate([x, np.full((3, 1), 0 if neutral is None else neutral, np.float32)], axis=1)
    same = np.allclose(run(op, x, axes), run(op, more, axes), rtol=1e-6)
    assert same == (neutral is not None)


@pytest.mark.parametrize("op", [op for op, row in OPERATORS.items() if row.numpy and op in SCHEMAS])
def test_numpy_computes_the_same(op: str) -> None:
    function = OPERATORS[op].numpy
    assert function is not None
    given = operands(op)[: 1 if SCHEMAS[op].max_input == 1 else 2]
    np.testing.assert_array_equal(run(op, *given), function(*given))
    if given[0].dtype == np.float32 and op not in ("Ceil", "Floor", "Round", "Sum"):
        whole = [x.astype(np.int64) for x in given]
        np.testing.assert_array_equal(run(op, *whole), function(*whole))


@pytest.mark.parametrize("op", having("elementwise"))
def test_monotone(op: str) -> None:
    """In each input of numbers, the others fixed, and whatever the attributes are."""
    given = operands(op, 400)
    negative: dict[str, Any] = {"alpha": -0.5} if "alpha" in SCHEMAS[op].attributes else {}
    negative |= {"Shrink": {"bias": 2.0}, "Cast": {"to": TensorProto.INT8}}.get(op, {})
    steps = []
    for position, x in enumerate(given):
        if x.ndim == 0 or x.dtype != np.float32 or op in operators.RETURNS_BOOL | {"BitCast", "CastLike"}:
            continue
        for attrs, at in itertools.product(({}, negative), (np.argmin, np.argmax)):
            others = [o if o.ndim == 0 else np.full(400, o[at(o)]) for o in given]
            others[position] = np.sort(x) * (90 if op == "Cast" else 1)
            steps.append(np.diff(run(op, *others, **attrs).astype(np.float64)))
    assert (bool(steps) and all((s >= 0).all() for s in steps)) == (op in operators.RISING)
    assert (bool(steps) and all((s <= 0).all() for s in steps)) == (op in operators.FALLING)


@pytest.mark.parametrize("op", having("reduces"))
def test_monotone_over_an_axis(op: str) -> None:
    x = RNG.uniform(-4, 4, (3, 5)).astype(np.float32)
    more = x + RNG.uniform(0, 1, (40, 3, 5)).astype(np.float32)
    axes = np.asarray([-1])
    assert (run(op, x, axes) > run(op, more, axes)).any() == (op not in operators.RISING)


@pytest.mark.parametrize("op", having("elementwise"))
def test_zero_stays(op: str) -> None:
    """Where the other inputs are positive. What asks returns a bool, and a -0 has other bits than a 0."""
    first, *others = operands(op)
    if first.dtype == object or op in operators.RETURNS_BOOL - operators.LOGICAL | {"BitCast"}:
        assert op not in operators.KEEP_ZERO
        return
    above = [
        x if x.dtype.kind in "iu" else np.ones_like(x) if x.dtype == bool else np.asarray(abs(x) + 1) for x in others
    ]
    assert (not run(op, np.zeros_like(first), *above).any()) == (op in operators.KEEP_ZERO)


@pytest.mark.parametrize("op", having("elementwise", operators.CONTINUOUS | {"Sign"}))
def test_bends_at_zero(op: str) -> None:
    """Its first or second derivative jumps there, or it has none."""
    given = operands(op, 1)
    if len(given) > 1 and op != "PRelu":
        assert op not in operators.BENDS_AT_ZERO
        return
    step = 0.03
    x = np.asarray([-2, -1, 0, 1, 2], np.float32) * np.float32(step)
    with np.errstate(all="ignore"):
        y = run(op, x, *(np.full(5, 0.3, np.float32) for _ in given[1:])).astype(np.float64)
    first = np.diff(y) / step
    second = np.diff(first) / step
    smooth = np.isfinite(y).all() and abs(second[0] - second[2]) < 0.3 and abs(second[1]) < 3
    assert (not smooth) == (op in operators.BENDS_AT_ZERO or op == "Acosh")  # which begins at 1


@pytest.mark.parametrize("op", having("elementwise", operators.EXACT | operators.ROUNDS))
def test_integers_come_out(op: str) -> None:
    found = run(op, *operands(op, 99))
    assert (found == np.round(found)).all() == (op in operators.WHOLE)


@pytest.mark.parametrize("op", having("elementwise", operators.EXACT | operators.ROUNDS))
def test_jumps(op: str) -> None:
    """Steps of a thousandth of its range give steps that are little more: but for what jumps, and for NaN."""
    given = operands(op, 4000)
    if op in ("Where", "Tan", "Reciprocal"):  # a bool asks; poles
        return
    x = np.linspace(given[0].min(), given[0].max(), 4000, dtype=np.float32).clip(0.1 if op == "Log" else -3, 3)
    found = run(op, x, *(o if o.ndim == 0 else np.full_like(o, 2) for o in given[1:]))
    assert (np.abs(np.diff(found)) < 0.15).all() == (op in operators.CONTINUOUS)


@pytest.mark.parametrize("op", [op for op, row in OPERATORS.items() if any(map(math.isfinite, row.range))])
def test_ranges(op: str) -> None:
    """On numbers of every size; a bound that is a number is reached, or nearly."""
    low, high = OPERATORS[op].range
    sizes = np.geomspace(1e-6, 400, 50).astype(np.float32)
    x = np.concatenate([-sizes, [0], sizes]).astype(np.float32)
    if op in DOMAINS:
        x = np.linspace(*DOMAINS[op], 101, dtype=np.float32)
        x = np.linspace(-1, 1, 101, dtype=np.float32) if op in ("Acos", "Asin") else x
    given = [x.reshape(1, 1, -1) if op in ("GlobalLpPool", "LpPool") else x.reshape(1, -1)]
    attrs = {"kernel_shape": [3]} if op == "LpPool" else {}
    if op == "Bernoulli":
        given = [np.full((9, 9), 0.5, np.float32)]
    elif op == "EyeLike":
        given = [np.zeros((3, 3), np.float32)]
    found = run(op, *given, **attrs)
    assert (found >= np.float32(low)).all() and (found <= np.float32(high)).all()
    if math.isfinite(high) and op not in ("LogSoftmax",):
        assert found.max() > high - 0.01


@pytest.mark.parametrize("op", having("elementwise", operators.EXACT | operators.ROUNDS))
def test_what_is_bounded(op: str) -> None:
    """Numbers from 1 to 1e6, and their opposites, come to a few."""
    given = operands(op)
    if len(given) > 1 or op in ("Acosh", "Log", "Sqrt", "Reciprocal", "Asinh"):
        assert op not in operators.BOUNDED
        return
    if op not in ("Acos", "Asin", "Atanh"):  # defined between -1 and 1
        sizes = np.geomspace(1, 1e6, 99, dtype=np.float32)
        found = run(op, np.concatenate([sizes, -sizes]))
        assert (np.abs(found) < 4).all() == (op in operators.BOUNDED)


# ---- what moves elements ---------------------------------------------------------------------------------------------

DATA = np.arange(128, dtype=np.float32).reshape(2, 4, 4, 4) * 7 % 131 + 1
MOVERS: dict[str, tuple[Any, ...]] = {
    "CenterCropPad": (np.asarray([1, 6, 2, 3]),),
    "Clip": (np.asarray(20, np.float32), np.asarray(60, np.float32)),
    "Compress": (np.asarray([True, False, True, True]),),
    "Concat": (DATA + 100,),
    "Expand": (np.asarray([2, 2, 4, 4, 4]),),
    "Gather": (np.asarray([1, -1, 0]),),
    "GatherElements": (np.asarray([[[[1, 0, -1]]]]),),
    "GatherND": (np.asarray([[1, 2], [0, -1]]),),
    "Max": (np.full(4, 40, np.float32),),
    "Min": (np.full(4, 40, np.float32),),
    "Pad": (np.asarray([0, 1, 0, 0, 0, 0, 2, 0]), np.asarray(500, np.float32)),
    "ReduceMax": (np.asarray([1]),),
    "ReduceMin": (np.asarray([1]),),
    "Reshape": (np.asarray([4, -1]),),
    "ReverseSequence": (np.asarray([3, 2]),),
    "ScatterElements": (np.asarray([[[[1, 0, -1]]]]), np.asarray([[[[201, 202, 203]]]], np.float32)),
    "ScatterND": (np.asarray([[1, 2], [0, -1]]), np.arange(300, 332, dtype=np.float32).reshape(2, 4, 4)),
    "Slice": (np.asarray([0, 3]), np.asarray([2, 0]), np.asarray([0, 2]), np.asarray([1, -2])),
    "Split": (),
    "Squeeze": (np.asarray([0]),),
    "Tile": (np.asarray([1, 2, 1, 2]),),
    "TopK": (np.asarray([2]),),
    "Trilu": (),
    "Unsqueeze": (np.asarray([0, 3]),),
    "Where": (DATA, DATA + 100),
}
LEFT = {"MaxUnpool", "Scatter", "TensorScatter"}  # no kernel, or deprecated


def moved(op: str, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """What an operator makes of elements that were each changed in the same way."""
    row = OPERATORS[op]
    data = DATA if op != "Squeeze" else DATA[:1]
    if op == "Where":
        return run(op, DATA % 3 == 0, *map(change, MOVERS[op]))
    others = [
        change(np.asarray(x)) if row.elements is None or k + 1 in row.elements else np.asarray(x)
        for k, x in enumerate(MOVERS.get(op, ()))
    ]
    return run(op, change(data), *others, **({"axis": 1} if op == "Compress" else {}))


def shuffled(x: np.ndarray) -> np.ndarray:
    """Each number as another one, in no order; numbers are below 601, 0 stays."""
    return np.asarray(x * 300 % 601, x.dtype)


OF_ONE = operators.words("DepthToSpace Flatten GlobalMaxPool Identity MaxPool SpaceToDepth Transpose Unique")


def test_what_moves_fills_and_picks() -> None:
    assert MOVERS.keys() | OF_ONE | LEFT == operators.MOVES | operators.FILLS | operators.PICKS


@pytest.mark.parametrize("op", sorted(MOVERS.keys() | OF_ONE))
def test_what_moves_elements(op: str) -> None:
    """Whatever the elements are, they go to the same positions: other numbers in give the same others out."""
    plain = moved(op, lambda x: x)
    follows = np.array_equal(moved(op, shuffled), shuffled(plain))
    assert follows == (op in operators.MOVES | operators.FILLS | {"Where", "ScatterElements", "ScatterND"})
    data = [DATA, *(x for x in MOVERS.get(op, ()) if np.asarray(x).dtype == np.float32)]
    assert np.isin(plain, np.concatenate([np.ravel(x) for x in data if np.ndim(x) or op == "Clip"])).all() == (
        op not in operators.FILLS
    )


@pytest.mark.parametrize("op", sorted(MOVERS.keys() | OF_ONE))
def test_what_keeps_the_order(op: str) -> None:
    data = DATA if op != "Squeeze" else DATA[:1]
    assert np.array_equal(moved(op, lambda x: x).reshape(-1), data.reshape(-1)) == (op in operators.KEEP_ORDER)


# ---- rounding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", having("elementwise", operators.EXACT | operators.ROUNDS))
def test_what_rounds(op: str) -> None:
    """In fp32 and in float64: what is not rounded is the same."""
    if op in ("Celu", "Shrink"):  # no float64 in the schema; ONNX Runtime computes it in fp32
        return
    given = operands(op, 400)
    found = run(op, *given)
    wide = run(op, *(x.astype(np.float64) if x.dtype == np.float32 else x for x in given))
    assert (found.astype(np.float64) == wide).all() == (op in operators.EXACT)


@pytest.mark.parametrize("op", having("random"))
def test_what_is_drawn(op: str) -> None:
    given = {
        "RandomNormal": [], "RandomUniform": [], "Multinomial": [np.zeros((1, 50), np.float32)],
    }.get(op, [np.full((20, 20), 0.5, np.float32)])  # fmt: skip
    attrs = {"shape": [20, 20]} if not given else {"sample_size": 99} if op == "Multinomial" else {}
    assert (run(op, *given, **attrs, seed=1.0) != run(op, *given, **attrs, seed=2.0)).any()


def test_what_has_a_seed_is_drawn() -> None:
    assert set(having("random")) == {op for op, s in SCHEMAS.items() if "seed" in s.attributes} - {"Dropout"}


# ---- along axes ------------------------------------------------------------------------------------------------------

SHAPES = {"Conv": (5, 4, 3, 3), "ConvInteger": (5, 4, 3, 3), "ConvTranspose": (4, 5, 3, 3)}


@pytest.mark.parametrize("op", having("along"))
def test_along_an_axis(op: str) -> None:
    """Where a number changes, others do along that axis, and none elsewhere."""
    x = RNG.uniform(-1, 1, (2, 3, 4)).astype(np.float32)
    x[0, 1, 2], other = -2, x.copy()
    other[0, 1, 2] = 9
    for axis in range(3):
        changed = run(op, x, axis=axis) != run(op, other, axis=axis)
        assert changed.shape == x.shape
        row = np.moveaxis(changed, axis, -1).reshape(-1, x.shape[axis])
        assert row.any(1).sum() == 1 and row.any(1)[np.moveaxis(other == 9, axis, -1).reshape(row.shape).any(1)].all()


@pytest.mark.parametrize("op", having("batch"))
def test_each_sample_by_itself(op: str) -> None:
    """A batch gives what its samples give, one by one."""
    kind = np.uint8 if op == "ConvInteger" else np.float32
    x = RNG.uniform(0, 9, (3, 4, 6, 6)).astype(kind)
    channels = [RNG.uniform(0.5, 1, 4).astype(np.float32) for _ in range(4)]
    count = {"BatchNormalization": 4, "GroupNormalization": 2, "InstanceNormalization": 2}.get(op, 0)
    channels = (
        [c[:2] for c in channels] if op == "GroupNormalization" else channels
    )  # one number a group until opset 21
    weights = [RNG.uniform(0, 9, SHAPES[op]).astype(kind)] if op in SHAPES else channels[:count]
    attrs: dict[str, Any] = {"kernel_shape": [2, 2]} if op.endswith("Pool") and not op.startswith("Global") else {}
    attrs |= {"size": 3} if op == "LRN" else {"num_groups": 2} if op == "GroupNormalization" else {}
    alone = [run(op, x[k : k + 1], *weights, **attrs) for k in range(3)]
    np.testing.assert_allclose(run(op, x, *weights, **attrs), np.concatenate(alone), rtol=1e-4)


@pytest.mark.parametrize(
    ("op", "one", "other"),
    [
        ("NonZero", [np.zeros(3, np.float32)], [np.ones(3, np.float32)]),
        ("Compress", [np.ones(3, np.float32), np.zeros(3, bool)], [np.ones(3, np.float32), np.ones(3, bool)]),
        ("Unique", [np.zeros(3, np.float32)], [np.arange(3, dtype=np.float32)]),
    ],
)
def test_values_decide_the_size(op: str, one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert op in operators.COUNTS and run(op, *one).shape != run(op, *other).shape
