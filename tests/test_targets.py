"""The table of targets: how names resolve, what each row says, and what a node's answer rests on."""

from __future__ import annotations

import pytest
from helpers import model, require_opset

import surgeon
from surgeon.errors import UsageError
from surgeon.ir.graph import Model, Node
from surgeon.targets import releases, tables
from surgeon.targets import target as targets
from surgeon.targets.conditions import CONDITIONS
from surgeon.targets.target import Target


def last(body: str, opset: int = 17, extra: str = "", name: str = "y") -> Node:
    """The node that makes `y`."""
    indexed = Model(model(body, opset, extra=extra))
    value = indexed.graph.find(name)
    assert value is not None and value.producer is not None
    return value.producer


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("6.0", (6, 0)),
        ("7", (7, 0)),
        ("7.2.1", (7, 2)),
        ("7.2.3.4", (7, 2, 2)),
        ("8.0", (8, 0)),
        ("8.3", (8, 2)),
        ("8.4.1.5", (8, 4)),
        ("8.7", (8, 6)),
        ("9.3", (9, 3)),
        ("9.9", (9, 3)),
        ("10.9", (10, 9)),
        ("10.99", (10, 16)),
        ("11.4", (11, 4)),
        ("11.9", (11, 4)),
        ("8.6+dla", (8, 6)),
    ],
)
def test_a_name_has_the_nearest_row_not_above_it(name: str, row: tuple[int, ...]) -> None:
    target = Target.parse(name)
    assert target.version == row
    assert str(target) == name
    assert bool(target.note) == (tuple(int(p) for p in name.split("+")[0].split("."))[: len(row)] not in (row, (7,)))


@pytest.mark.parametrize("name", ["5.1", "12.0", "eight", "8.4+gpu", "rtx+dla", "11.1+dla", "", "8.", "-1"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Target.parse(name)


def test_installed_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, str] = {}
    monkeypatch.setattr(targets, "installed_version", lambda module: found.get(module, ""))
    assert (Target.parse("installed").name, Target.parse("installed").note) == (
        "10.9",
        "no TensorRT can be imported here",
    )
    found["tensorrt_rtx"] = "1.7.1.116"
    assert Target.parse("installed").rtx and "1.7.1.116" in Target.parse("installed").note
    found["tensorrt"] = "8.6.1.post1"
    assert Target.parse("installed").version == (8, 6) and "8.6.1.post1" in Target.parse("installed").note
    found["tensorrt"] = "12.0.1"
    assert (
        Target.parse("installed").version == releases.LAST and "newer than the table" in Target.parse("installed").note
    )


def test_facts() -> None:
    facts = {
        n: Target.parse(n)
        for n in (
            "6.0",
            "7.2",
            "8.0",
            "8.2",
            "8.4",
            "8.6",
            "9.0",
            "9.3",
            "10.0",
            "10.4",
            "10.7",
            "11.0",
            "rtx",
            "10.9+dla",
        )
    }
    assert [facts[n].opset for n in ("6.0", "7.2", "8.0", "8.2", "8.4", "9.3", "10.0", "11.0")] == [
        10,
        11,
        13,
        13,
        17,
        17,
        20,
        25,
    ]
    assert [n for n, t in facts.items() if t.lowers_opset] == ["6.0", "7.2", "8.0", "8.2", "8.4", "8.6", "9.0", "9.3"]
    assert [n for n, t in facts.items() if not t.plugins] == ["6.0", "rtx"]
    assert [n for n, t in facts.items() if not t.carries_functions] == ["9.0", "9.3", "10.0", "10.4"]
    assert [n for n, t in facts.items() if "reflect" not in t.pad_modes] == ["6.0", "7.2", "8.0", "10.9+dla"]
    assert [n for n, t in facts.items() if "wrap" in t.pad_modes] == ["10.0", "10.4", "10.7", "11.0", "rtx"]
    assert [n for n, t in facts.items() if t.pad_axes_input] == ["10.0", "10.4", "10.7", "11.0", "rtx", "10.9+dla"]


# fmt: off
NODES = {
    "dequantized slope": ("(float[1,2,3] x) => (float[1,2,3] y) <int8[2,1] q = {1,2}, float s = {0.5}, int8 z = {0}> { a = DequantizeLinear (q, s, z) y = PRelu (x, a) }", 13),
    "reduce": ("(float[2,3] x) => (float[2,1] y) <int64[1] axes = {1}> { y = ReduceMean (x, axes) }", 18),
    "reduce sum": ("(float[2,3] x) => (float[2,1] y) <int64[1] axes = {1}> { y = ReduceSum (x, axes) }", 13),
    "computed axes": ("(float[2,3] x, int64[1] axes) => (float[2,1] y) { y = ReduceMean (x, axes) }", 18),
    "shape range": ("(float[2,3] x) => (int64[1] y) { y = Shape <start = 1> (x) }", 15),
    "celu": ("(float[2,3] x) => (float[2,3] y) { y = Celu (x) }", 17),
    "selu": ("(float[2,3] x) => (float[2,3] y) { y = Selu (x) }", 17),
    "mish bf16": ("(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = Mish (x) }", 22),
    "mish": ("(float[2,3] x) => (float[2,3] y) { y = Mish (x) }", 22),
    "instance": ("(float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1,1}> { y = InstanceNormalization (x, s, s) }", 17),
    "group one": ("(float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2] s = {1,1}> { y = GroupNormalization <num_groups = 1> (x, s, s) }", 21),
    "group": ("(float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2] s = {1,1}> { y = GroupNormalization <num_groups = 2> (x, s, s) }", 21),
    "reflect": ("(float[1,2,4,4] x) => (float[A,B,C,D] y) <int64[8] p = {0,0,1,1,0,0,1,1}> { y = Pad <mode = \"reflect\"> (x, p) }", 13),
    "crop": ("(float[1,2,4,4] x) => (float[A,B,C,D] y) <int64[8] p = {0,0,-1,0,0,0,0,0}> { y = Pad (x, p) }", 13),
    "empty value": ("(float[1,2,4,4] x) => (float[A,B,C,D] y) <int64[8] p = {0,0,1,1,0,0,1,1}> { y = Pad <mode = \"edge\"> (x, p, \"\") }", 13),
    "pad axes": ("(float[1,2,4,4] x) => (float[A,B,C,D] y) <int64[2] p = {1,1}, int64[1] a = {3}> { y = Pad <mode = \"edge\"> (x, p, , a) }", 18),
    "scatter none": ("(float[4] x, float[1] u) => (float[4] y) <int64[1,1] i = {2}> { y = ScatterND <reduction = \"none\"> (x, i, u) }", 18),
    "scatter add": ("(float[4] x, float[1] u) => (float[4] y) <int64[1,1] i = {2}> { y = ScatterND <reduction = \"add\"> (x, i, u) }", 18),
    "layout": ("(float[2,5,3] x, float[1,16,3] w, float[1,16,4] r) => (float[2,5,1,4] y) { y = LSTM <hidden_size = 4, layout = 1> (x, w, r) }", 17),
    "grid": ("(float[1,2,4,4] x, float[1,3,3,2] g) => (float[1,2,3,3] y) { y = GridSample <mode = \"linear\"> (x, g) }", 20),
    "unique": ("(float[4] x) => (float[N] y) { y = Unique (x) }", 17),
    "top k": ("(float[1,8000] x) => (float[1,4000] y, int64[1,4000] i) <int64[1] k = {4000}> { y, i = TopK (x, k) }", 17),
    "trilu": ("(float[2,2] x) => (float[2,2] y) { y = Trilu (x) }", 17),
    "lp 3": ("(float[1,2,3] x) => (float[1,2,1] y) { y = GlobalLpPool <p = 3> (x) }", 17),
    "lp 2": ("(float[1,2,3] x) => (float[1,2,1] y) { y = GlobalLpPool (x) }", 17),
    "slice of one": ("(float[2,3] x) => (float[1,3] y) <int64[1] s = {1}, int64[1] e = {2}> { y = Slice (x, s, e) }", 13),
    "odd padding": ("(float[1,2,5] x, float[2,2,3] w) => (float[1,2,10] y) { y = ConvTranspose <strides = [2], output_shape = [10]> (x, w) }", 17),
    "computed bias": ("(float[1,2,5] x, float[2,2,2] w, float[2] b) => (float[1,2,11] y) { y = ConvTranspose <strides = [2], output_padding = [1]> (x, w, b) }", 17),
    "integer": ("() => (int64 y) { y = Constant <value_int = 3> () }", 17),
    "number": ("() => (float y) { y = Constant <value_float = 3.0> () }", 17),
    "swish": ("(float[2] x) => (float[2] y) { y = Swish (x) }", 24),
    "reverse activations": ("(float[3,1,4] x, float[2,15,4] w, float[2,15,5] r) => (float[3,2,1,5] y) { y = GRU <hidden_size = 5, direction = \"bidirectional\", activations = [\"Sigmoid\", \"Tanh\", \"Sigmoid\", \"Relu\"]> (x, w, r) }", 14),
    "alike both ways": ("(float[3,1,4] x, float[2,15,4] w, float[2,15,5] r) => (float[3,2,1,5] y) { y = GRU <hidden_size = 5, direction = \"bidirectional\", activations = [\"Sigmoid\", \"Tanh\", \"Sigmoid\", \"Tanh\"]> (x, w, r) }", 14),
    "capitals": ("(float[2,3,4] x) => (float[2,3,3] y) { y = Einsum <equation = \"Bij,Bkj->Bik\"> (x, x) }", 13),
    "relu int32": ("(int32[2,3] x) => (int32[2,3] y) { y = Relu (x) }", 14),
    "relu int64": ("(int64[2,3] x) => (int64[2,3] y) { y = Relu (x) }", 14),
    "prelu int32": ("(int32[2,3] x) => (int32[2,3] y) <int32[3] s = {1,2,3}> { y = PRelu (x, s) }", 16),
    "negative scale": ("(float[2,3] x) => (int8[2,3] y) <float s = {-0.1}, int8 z = {0}> { y = QuantizeLinear (x, s, z) }", 13),
    "bools": ("(bool[2,3] x) => (bool[2,1] y) <int64[1] axes = {1}> { y = ReduceMax (x, axes) }", 20),
    "group flat": ("(float[4,6] x) => (float[4,6] y) <float[6] s = {1,1,1,1,1,1}> { y = GroupNormalization <num_groups = 3> (x, s, s) }", 21),
}
# fmt: on
TAKEN = {
    "dequantized slope": "6.0 7.0 7.2 8.0 8.2 9.3 10.0 10.9 11.4 rtx",
    "reduce": "10.0 10.9 11.4 rtx",
    "reduce sum": "8.0 8.2 8.4 9.3 10.0 10.9 11.4 rtx",
    "computed axes": "",
    "shape range": "10.0 10.9 11.4 rtx",
    "celu": "8.4 9.3 10.0 10.9 11.4 rtx",
    "selu": "",
    "mish bf16": "",
    "mish": "10.0 10.9 11.4 rtx",
    "instance": "10.0 10.9 11.4 rtx",
    "group one": "",
    "group": "10.9 11.4 rtx",
    "reflect": "8.2 8.4 9.3 10.0 10.9 11.4 rtx",
    "crop": "10.9 11.4 rtx",
    "empty value": "9.3 10.0 10.9 11.4 rtx",
    "pad axes": "10.0 10.9 11.4 rtx",
    "scatter none": "8.2 8.4 9.3 10.9 11.4 rtx",
    "scatter add": "",
    "layout": "",
    "grid": "11.4 rtx",
    "unique": "",
    "top k": "",
    "trilu": "",
    "lp 3": "",
    "lp 2": "7.2 8.0 8.2 8.4 9.3 10.0 10.9 11.4 rtx",
    "slice of one": "6.0",
    "odd padding": "",
    "computed bias": "",
    "integer": "9.3 10.0 10.9 11.4 rtx",
    "number": "8.0 8.2 8.4 9.3 10.0 10.9 11.4 rtx",
    "swish": "11.4 rtx",
    "reverse activations": "",
    "alike both ways": "7.0 7.2 8.0 8.2 8.4 9.3 10.0 10.9 11.4 rtx",
    "capitals": "",
    "relu int32": "6.0",
    "relu int64": "6.0 9.3 10.0 10.9 11.4 rtx",
    "prelu int32": "6.0",
    "negative scale": "",
    "bools": "",
    "group flat": "",
}


@pytest.mark.parametrize("kind", NODES)
def test_which_targets_take_a_node(kind: str) -> None:
    body, opset = NODES[kind]
    require_opset(opset)
    node = last(body, opset)
    asked = ["6.0", "7.0", "7.2", "8.0", "8.2", "8.4", "9.3", "10.0", "10.9", "11.4", "rtx"]
    assert " ".join(t for t in asked if Target.parse(t).takes(node) is None) == TAKEN[kind]


def test_takes_says_why() -> None:
    body, opset = NODES["reduce"]
    assert "over every axis" in (Target.parse("9.3").takes(last(body, opset)) or "")
    assert "must be an initializer" in (Target.parse("10.9").takes(last(*NODES["computed axes"])) or "")
    assert "no importer for Unique" in (Target.parse("10.9").takes(last(*NODES["unique"])) or "")


def test_plugin_nodes_and_foreign_domains() -> None:
    extra = ', "surgeon" : 1, "com.custom" : 1, "trt.plugins" : 1'
    own = last("(float[2] x) => (float[2] y) { y = surgeon.SurgeonL2Norm (x) }", extra=extra)
    assert Target.parse("8.4").takes(own) is None and Target.parse("rtx").takes(own) == "there are no plugins"
    canonical = last("(float[2] x) => (float[2] y) { y = surgeon.L2Norm (x) }", extra=extra)
    assert "canonical" in (Target.parse("8.4").takes(canonical) or "")
    foreign = last("(float[2] x) => (float[2] y) { y = com.custom.Relu (x) }", extra=extra)
    assert "ignores domains" in (Target.parse("8.4").takes(foreign) or "")
    users = last('(float[2] x) => (float[2] y) { y = com.custom.Mine <plugin_version = "1"> (x) }', extra=extra)
    assert Target.parse("8.4").takes(users) is None
    stock = last("(float[2] x) => (float[2] y) { y = trt.plugins.LReLU_TRT (x) }", extra=extra)
    assert Target.parse("8.4").takes(stock) is None and Target.parse("11.0").takes(stock) is not None


def test_dla_names_what_falls_back() -> None:
    dla = Target.parse("8.6+dla")
    assert dla.takes(last("(float[2] x) => (float[2] y) { y = LeakyRelu (x) }")) is None
    assert "DLA has no Softplus" in (dla.takes(last("(float[2] x) => (float[2] y) { y = Softplus (x) }")) or "")


def test_a_model_above_the_ceiling_is_outdated_where_it_uses_what_came_later() -> None:
    old, new = Target.parse("8.4"), Target.parse("10.9")
    split = last("(float[2,4] x) => (float[2,2] y, float[2,2] z) { y, z = Split <axis = 1, num_outputs = 2> (x) }", 18)
    assert "num_outputs" in (old.outdated(split) or "") and new.outdated(split) is None
    assert old.outdated(last("(float[2,4] x) => (float[2,4] y) { y = Pad (x) }".replace("Pad", "Relu"), 18)) is None
    softmax = "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = AXIS> (x) }"
    assert Target.parse("7.2").outdated(last(softmax.replace("AXIS", "1"), 13)) is not None
    assert Target.parse("7.2").outdated(last(softmax.replace("AXIS", "2"), 13)) is None


def test_every_condition_is_about_an_importer_and_has_a_source() -> None:
    for condition in CONDITIONS:
        for scope in condition.scopes:
            assert set(scope.operators) <= tables.IMPORTED, condition.name
            assert scope.source and str(scope.targets)


@pytest.mark.parametrize(
    ("body", "opset", "why"),
    [
        (
            "(float[1,1,2,2] q, float[1,1,2,2] k) => (float[1,1,2,2] y) { y = Attention <left_window_size = 1> (q, k, k) }",
            25,
            "left_window_size is not read",
        ),
        (
            "(float16[1,1,2,2] q, float16[1,1,2,2] k, int64[1] n) => (float16[1,1,2,2] y) { y = Attention (q, k, k, , , , n) }",
            24,
            "nonpad_kv_seqlen is not read",
        ),
        ("(float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17, saturate = 0> (x) }", 19, "it would saturate"),
        (
            "(float[1,1,3] x) => (float[1,1,2] y) { y = LpPool <kernel_shape = [2], strides = [2], ceil_mode = 1> (x) }",
            18,
            "divided by its part",
        ),
        ("(float[2] x) => (float[2] y) { y = ReduceL2 <noop_with_empty_axes = 1> (x) }", 18, "would return the input"),
        ("(float[4] x) => (float[4] y) { y = Softmax (x) }", 13, "an input of 1 dimensions is refused"),
        ("(float[2] x) => (float[2] y) <float a = {1}, float b = {-1}> { y = Clip (x, a, b) }", 13, "return 1, not -1"),
        ("(float[2] x) => (uint8[2] y) <float s = {0.1}> { y = QuantizeLinear (x, s) }", 13, "is read as int8"),
        (
            "(uint8[2] x) => (float[2] y) <float s = {0.1}, uint8 z = {0}> { y = DequantizeLinear (x, s, z) }",
            13,
            "no QuantizeLinear makes",
        ),
        (
            "(float[3,1,4] x, float[2,5,4] w, float[2,5,5] r) => (float[3,2,1,5] y) { y = RNN <hidden_size = 5,"
            ' direction = "bidirectional", activations = ["Tanh", "Relu"]> (x, w, r) }',
            14,
            "other activations",
        ),
        (
            "(float[3,1,4] x, float[2,5,4] w, float[2,5,5] r) => (float[3,2,1,5] y) { y = RNN <hidden_size = 5,"
            ' direction = "bidirectional", activations = ["Elu", "Elu"], activation_alpha = [0.5, 1.0]> (x, w, r) }',
            14,
            "another activation_alpha",
        ),
        (
            '(float[2] x, int64 n) => (float[2] y) { y = Loop (n, "", x) <body = b (int64 i, bool c, float[2] s) =>'
            " (bool d, float[2] t) { d = Identity (c) t = Neg (s) }> }",
            17,
            "its body reads it as 'c'",
        ),
    ],
)
def test_what_was_measured_with_tensorrt_rtx_alone_is_said_of_it_alone(body: str, opset: int, why: str) -> None:
    require_opset(opset)
    node = last(body, opset)
    assert why in (Target.parse("rtx").takes(node) or "")
    assert why not in (Target.parse("11.4").takes(node) or "")


@pytest.mark.parametrize(
    ("body", "target", "why"),
    [
        ("(int16[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "10.9", "there is no int16"),
        ("(uint8[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "10.9", ""),
        ("(uint8[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "8.4", "there is no uint8 before 8.5"),
        ("(uint8[2] x) => (uint8[2] y) { y = Add (x, x) }", "rtx", "uint8 is refused"),
        ("(uint8[2] x) => (uint8[2] y) { y = Identity (x) }", "rtx", ""),
        (
            "(uint8[2,3,4] x) => (float[2,12] z) { y = Flatten (x) z = Cast <to = 1> (y) }",
            "rtx",
            "uint8 between two nodes",
        ),
        ("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu (x) }", "8.6", "there is no bfloat16 before 9.0"),
        ("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu (x) }", "9.0", ""),
        ("(double[2] x) => (double[2] y) { y = Relu (x) }", "8.4", ""),
    ],
)
def test_types_that_a_parser_does_not_know(body: str, target: str, why: str) -> None:
    report = surgeon.rewrite(model(body, 14), target=target).report
    told = [d.why for d in report.untaken]
    assert (why in told[0] if why else not told) and report.failed == bool(why)
