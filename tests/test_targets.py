"""The table of targets: how names resolve, what each row says, and what a node's answer rests on."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import onnx
import pytest
from helpers import model, refusal, require_opset, unsupported
from onnx import TensorProto

import surgeon
from surgeon.errors import UsageError
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.targets import dtypes, opset_compat, plugins, releases, tables
from surgeon.targets import target as targets
from surgeon.targets.condition import Scope
from surgeon.targets.conditions import conditions
from surgeon.targets.conditions.shapes import deep_tensor
from surgeon.targets.conditions.windows import PoolAxis, deconvolution_padding, pool_axes
from surgeon.targets.installed import installed_version
from surgeon.targets.target import Target
from surgeon.targets.unsupported import Kind


def outdated(target: Target, node: Node) -> str | None:
    refused = refusal(target, node) is not None
    return opset_compat.why_newer(node, target.opset, refused=refused) if target.lowers_opset else None


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
    with pytest.raises(UsageError, match="no TensorRT can be imported here"):
        Target.parse("installed")
    default = Target.default()
    assert (default.name, default.version, default.note) == ("10.9", (10, 9), "no TensorRT can be imported here")
    found["tensorrt_rtx"] = "1.7.1.116"
    assert Target.parse("installed").rtx
    assert Target.parse("installed").note == "TensorRT-RTX 1.7.1.116 is installed"
    found["tensorrt_rtx"] = "1.8.0"
    assert Target.parse("installed").note == ("TensorRT-RTX 1.8.0 is installed; the table was measured with 1.7.1")
    for version, name, row in (("8.6.1.post1", "8.6", (8, 6)), ("11.2.0", "11.2", (11, 2)), ("8", "8", (8, 0))):
        found["tensorrt"] = version
        target = Target.parse("installed")
        assert (target.name, target.version, target.note) == (name, row, f"TensorRT {version} is installed")
    found["tensorrt"] = "12.0.1"
    assert Target.parse("installed").version == releases.LAST
    assert "newer than the table" in Target.parse("installed").note


@pytest.mark.parametrize("module", ["tensorrt", "tensorrt_rtx"])
def test_an_installed_module_has_a_version(module: str) -> None:
    assert bool(installed_version(module)) == (importlib.util.find_spec(module) is not None)


def test_an_empty_name_is_called_empty() -> None:
    for name in ("", " "):
        with pytest.raises(UsageError, match="the target is empty"):
            Target.parse(name)


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
    "selu": "6.0 7.0 7.2 8.0 8.2 8.4 9.3 10.0 10.9 11.4 rtx",
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
    assert " ".join(t for t in asked if refusal(Target.parse(t), node) is None) == TAKEN[kind]


def test_takes_says_why() -> None:
    body, opset = NODES["reduce"]
    assert "over every axis" in (refusal(Target.parse("9.3"), last(body, opset)) or "")
    assert "must be an initializer" in (refusal(Target.parse("10.9"), last(*NODES["computed axes"])) or "")
    assert refusal(Target.parse("10.9"), last(*NODES["unique"])) == "TensorRT 10.9 has no importer for Unique"
    assert refusal(Target.parse("rtx"), last(*NODES["unique"])) == "TensorRT-RTX has no importer for Unique"


def test_plugin_nodes_and_foreign_domains() -> None:
    extra = ', "surgeon" : 1, "com.custom" : 1, "trt.plugins" : 1'
    own = last("(float[2] x) => (float[2] y) { y = surgeon.SurgeonL2Norm (x) }", extra=extra)
    assert refusal(Target.parse("8.4"), own) is None and refusal(Target.parse("rtx"), own) == "there are no plugins"
    canonical = last("(float[2] x) => (float[2] y) { y = surgeon.L2Norm (x) }", extra=extra)
    assert "canonical" in (refusal(Target.parse("8.4"), canonical) or "")
    foreign = last("(float[2] x) => (float[2] y) { y = com.custom.Relu (x) }", extra=extra)
    assert "ignores domains" in (refusal(Target.parse("8.4"), foreign) or "")
    users = last('(float[2] x) => (float[2] y) { y = com.custom.Mine <plugin_version = "1"> (x) }', extra=extra)
    assert refusal(Target.parse("8.4"), users) is None
    stock = last("(float[2] x) => (float[2] y) { y = trt.plugins.LReLU_TRT (x) }", extra=extra)
    assert refusal(Target.parse("8.4"), stock) is None and refusal(Target.parse("11.0"), stock) is not None


def test_dla_names_what_falls_back() -> None:
    dla = Target.parse("8.6+dla")
    assert refusal(dla, last("(float[2] x) => (float[2] y) { y = LeakyRelu (x) }")) is None
    assert "DLA has no Softplus" in (refusal(dla, last("(float[2] x) => (float[2] y) { y = Softplus (x) }")) or "")


def test_a_model_above_the_ceiling_is_outdated_where_it_uses_what_came_later() -> None:
    old, new = Target.parse("8.4"), Target.parse("10.9")
    split = "(float[2,4] x) => (float[2,2] y, float[2,2] z) { y, z = Split <axis = 1, num_outputs = 2> (x) }"
    split, even = last(split.replace("[2,4]", "[2,3]").replace("[2,2] z", "[2,1] z"), 18), last(split, 18)
    assert outdated(old, even) is None, "it is what the parser does that is told no sizes"
    axes = "(float[2,4] x) => (float[2,1] y) <int64[1] k = {1}> { y = ReduceLogSum <noop_with_empty_axes = 1> (x, k) }"
    assert outdated(old, last(axes, 18)) is None
    assert "noop_with_empty_axes" in (outdated(old, last(axes.replace("(x, k)", "(x)"), 18)) or "")
    assert "num_outputs" in (outdated(old, split) or "") and outdated(new, split) is None
    assert outdated(old, last("(float[2,4] x) => (float[2,4] y) { y = Pad (x) }".replace("Pad", "Relu"), 18)) is None
    softmax = "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = AXIS> (x) }"
    assert outdated(Target.parse("7.2"), last(softmax.replace("AXIS", "1"), 13)) is not None
    assert outdated(Target.parse("7.2"), last(softmax.replace("AXIS", "2"), 13)) is None


SCOPES = [pytest.param(scope, id=condition.name) for condition in conditions() for scope in condition.scopes]
DOCUMENT = Path(__file__).parents[1] / "docs/trt-support.md"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_condition_is_about_importers_that_are_there_and_has_a_source(scope: Scope) -> None:
    assert set(scope.operators) <= tables.IMPORTED
    first = scope.targets.releases[:1]
    assert first in ((), (releases.FIRST,)) or any(op in tables.importers(first[0], False) for op in scope.operators)
    headings = set(re.findall(r"^#+ (\S+?)\.? ", DOCUMENT.read_text(), re.MULTILINE))
    assert set(re.findall(r"docs/trt-support.md section (\S+?)(?:;|$)", scope.source)) <= headings
    assert re.search(r"docs/trt-support|onnx-tensorrt@|measured|\w\.cpp@|NvInfer\.h|NVIDIA", scope.source)


def test_tables_speak_of_releases_with_a_row() -> None:
    named = [first for first, *_ in (*tables.IMPORTERS, *tables.OPSETS, *sum(plugins.STOCK_VERSIONS.values(), ()))]
    assert {*named, *dtypes.READABLE.values()} <= set(releases.RELEASES)


@pytest.mark.parametrize(
    ("body", "opset", "why"),
    [
        (
            "(float[1,1,2,2] q, float[1,1,2,2] k) => (float[1,1,2,2] y) { y = Attention <left_window_size = 1> (q, k, k) }",
            25,
            "left_window_size is not read",
        ),
        (
            "(float16[1,2,2,16] q, float16[1,2,2,16] k, int64[1] n) => (float16[1,2,2,16] y) { y = Attention (q, k, k, , , , n) }",
            24,
            "nonpad_kv_seqlen is not read",
        ),
        (
            "(float[1,1,3,1] x) => (float[] y) { y = LpPool <kernel_shape = [2, 1], strides = [2, 1], ceil_mode = 1> (x) }",
            18,
            "divided by its part",
        ),
        ("(float[2] x) => (float[2] y) { y = ReduceL2 <noop_with_empty_axes = 1> (x) }", 18, "would return the input"),
        ("(float[4] x) => (float[4] y) { y = Softmax (x) }", 13, "an input of 1 dimension is refused"),
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
    ],
)
def test_what_was_measured_with_tensorrt_rtx_alone_is_said_of_it_alone(body: str, opset: int, why: str) -> None:
    require_opset(opset)
    node = last(body, opset)
    assert why in (refusal(Target.parse("rtx"), node) or "")
    later = Target.parse("11.4").why_unsupported(node)
    earlier = Target.parse("10.13")
    assert not earlier.imports(node.op) or why not in (refusal(earlier, node) or "")
    assert later is not None and not later.known and why in later.reason
    assert later.reason.endswith("measured with TensorRT-RTX 1.7.1, not with TensorRT 11.4")


@pytest.mark.parametrize(
    ("body", "target", "why"),
    [
        ("(int16[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "10.9", "there is no int16"),
        ("(uint8[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "10.9", ""),
        ("(uint8[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", "8.4", "there is no uint8 before 8.5"),
        ("(uint8[2] x) => (uint8[2] y) { y = Add (x, x) }", "rtx", "uint8 is refused"),
        ("(uint8[2] x) => (uint8[2] y) { y = Identity (x) }", "rtx", ""),
        (
            "(uint8[2,3] x) => (float[2,3] z) { y = Flatten (x) z = Cast <to = 1> (y) }",
            "rtx",
            "uint8 between two nodes",
        ),
        ("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu (x) }", "8.6", "there is no bfloat16 before 9.0"),
        ("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu (x) }", "9.0", ""),
        ("(double[2] x) => (double[2] y) { y = Relu (x) }", "8.4", ""),
    ],
)
def test_types_that_a_parser_does_not_know(body: str, target: str, why: str) -> None:
    report = surgeon.rewrite(model(body, 14), target=target, only=()).report
    told = [d.why for d in report.untaken]
    assert (why in told[0] if why else not told) and report.failed == bool(why)


# ---- the tables, release by release ----------------------------------------------------------------------------------

RELEASES = [Target(releases.dotted(row), row) for row in releases.RELEASES]
ON_RTX = Target.parse("rtx")
FIRST_IMPORTED = {
    "6.0": "Abs",
    "7.0": "And",
    "7.1": "If",
    "7.2.2": "Celu",
    "8.0": "NonMaxSuppression",
    "8.2": "Einsum",
    "8.4": "HardSwish",
    "8.5": "Trilu",
    "8.6": "IsInf",
    "9.1": "CastLike",
    "9.2": "Hardmax",
    "10.0": "Mish",
    "10.1": "DeformConv",
    "10.4": "HannWindow",
    "10.5": "STFT",
    "10.14": "Attention",
    "10.15": "RMSNormalization",
    "11.0": "Swish",
}
OPSETS = {"6.0": 10, "7.0": 11, "8.0": 13, "8.4": 17, "10.0": 20, "10.8": 22, "10.16": 24, "11.0": 25}
READABLE = {"uint8": "8.5", "bfloat16": "9.0", "float8e4m3fn": "9.0", "int4": "10.0", "float4e2m1": "10.8"}
UP_TO = {
    "BatchNormalization": {1: "6.0", 2: "6.0", 3: "6.0", 4: "6.0"},
    "Clip": {1: "7.2.2", 2: "7.2.2"},
    "Conv": {1: "6.0", 2: "8.4"},
    "ConvTranspose": {1: "7.2.2", 2: "8.4"},
    "CumSum": {1: "10.7"},
    "DequantizeLinear": {1: "10.7", 2: "rtx"},
    "Dropout": {2: "rtx"},
    "InstanceNormalization": {1: "9.3", 2: "9.3"},
    "NonMaxSuppression": {3: "8.4", 4: "8.4"},
    "Pad": {1: "8.0", 2: "8.0", 3: "10.3"},
    "QuantizeLinear": {1: "11.4", 2: "rtx"},
    "Resize": {2: "8.2"},
    "STFT": {1: "rtx", 2: "rtx"},
    "Slice": {3: "11.4"},
    "Squeeze": {1: "rtx"},
    "TopK": {1: "8.4"},
    "Unsqueeze": {1: "rtx"},
    "Upsample": {1: "8.4"},
    **{
        f"Reduce{kind}": {1: "rtx"}
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}


def from_first(holds: list[bool]) -> str:
    """The release from which on something holds, and without a break."""
    first = holds.index(True)
    assert all(holds[first:])
    return RELEASES[first].name


def test_rows_are_in_order_and_a_range_wants_them() -> None:
    assert list(releases.RELEASES) == sorted(set(releases.RELEASES))
    for start in ((8, 3), (5, 0), (12, 0)):
        with pytest.raises(ValueError, match="not in"):
            releases.since(*start)
    assert releases.EVERY_RELEASE.covers((8, 4)) and not releases.EVERY_RELEASE.covers((8, 4), rtx=True)
    assert not releases.Range().covers((11, 4), rtx=True) and releases.EVERYWHERE.covers((11, 4), rtx=True)
    assert str(releases.between((8, 2), (9, 3))) == "8.2 to 9.3" and str(releases.DLA) == "dla"
    assert str(releases.since(11, 0, rtx=True)) == "11.0 to 11.4, rtx" and str(releases.RTX) == "rtx"


def test_rows() -> None:
    older = ["6.0", "7.0", "7.1", "7.2", "7.2.2", "8.0", "8.2", "8.4", "8.5", "8.6", "9.0", "9.1", "9.2", "9.3"]
    assert [t.name for t in RELEASES] == [*older, *(f"10.{k}" for k in range(17)), *(f"11.{k}" for k in range(5))]


def test_which_release_learned_which_operator() -> None:
    assert {from_first([t.imports(op) for t in RELEASES]): op for op in FIRST_IMPORTED.values()} == FIRST_IMPORTED
    assert len(tables.IMPORTERS) == len(FIRST_IMPORTED)
    without = {op for op in tables.IMPORTED if not ON_RTX.imports(op)}
    assert without == {"DeformConv", "NonMaxSuppression", "NonZero", "RoiAlign"}


def test_opsets_by_release() -> None:
    told = {opset: from_first([t.opset >= opset for t in RELEASES]) for opset in {t.opset for t in RELEASES}}
    assert {first: opset for opset, first in told.items()} == OPSETS
    assert ON_RTX.opset == 25


def test_facts_by_release() -> None:
    names = [t.name for t in RELEASES]
    assert from_first([t.plugins for t in RELEASES]) == "7.1" and not ON_RTX.plugins
    assert from_first([not t.lowers_opset for t in RELEASES]) == "10.0" and not ON_RTX.lowers_opset
    carried = names.index("9.0"), names.index("10.7")
    assert [t.carries_functions for t in RELEASES] == [k < carried[0] or k >= carried[1] for k in range(len(names))]
    assert ON_RTX.carries_functions and {t.pad_axes_count for t in RELEASES} == {2, None}
    assert from_first([t.pad_axes_count is None for t in RELEASES]) == "8.2" and ON_RTX.pad_axes_count is None
    assert from_first([t.pad_any_axis for t in RELEASES]) == "8.0" and ON_RTX.pad_any_axis
    assert from_first([t.pad_axes_input for t in RELEASES]) == "10.0" and ON_RTX.pad_axes_input
    assert from_first(["edge" in t.pad_modes for t in RELEASES]) == "8.2"
    assert from_first(["wrap" in t.pad_modes for t in RELEASES]) == "10.0"
    assert Target.parse("10.9+dla").pad_modes == {"constant"}
    assert Target.parse("8.4").pad_modes == {"constant", "reflect", "edge"}
    assert from_first([not t.shape_inputs for t in RELEASES]) == "8.5" and not ON_RTX.shape_inputs


@pytest.mark.parametrize("op", UP_TO)
def test_inputs_that_must_be_initializers(op: str) -> None:
    count = 1 + max(UP_TO[op])
    weights = [f"w{k}" for k in range(count)]
    stored = [onnx.helper.make_tensor(w, TensorProto.INT64, [], [1]) for w in weights]
    given = [onnx.helper.make_tensor_value_info("c", TensorProto.INT64, [])]
    for position in range(count):
        read = ["c" if k == position else weights[k] for k in range(count)]
        nodes = [
            onnx.helper.make_node("Constant", [], ["w0"], value_int=1),
            onnx.helper.make_node(op, read, ["y"]),
            onnx.helper.make_node(op, weights, ["z"]),
        ]
        graph = onnx.helper.make_graph(nodes, "g", given, [], stored[1:])
        indexed = Model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)]))
        node, constant = (indexed.graph.find(name) for name in "yz")
        why = f"its input {position} must be an initializer"
        asked = [t for t in RELEASES if t.imports(op)]
        refusing = [t for t in asked if refusal(t, node.producer) == why]
        assert refusing == asked[: len(refusing)]
        on_rtx = ON_RTX.imports(op) and refusal(ON_RTX, node.producer) == why
        assert on_rtx == (UP_TO[op].get(position) == "rtx")
        last = "11.4" if on_rtx else UP_TO[op].get(position, "")
        assert (refusing[-1].name if refusing else "") == last
        assert not any(refusal(t, constant.producer) == why for t in [*RELEASES, ON_RTX])
        assert all((position in t.constant_inputs(op)) == (t in refusing) for t in asked)


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("k = Add (w, w) y = Squeeze (x, k)", True),
        ("k = Shape (e) y = Squeeze (x, k)", True),
        ("k = Identity (c) y = Squeeze (x, k)", False),
        ("k = Identity (w) y = ReduceMax (x, k)", True),
        ("j = Cast <to = 6> (w) k = Cast <to = 7> (j) y = ReduceMax (x, k)", True),
        ("k = Add (w, w) y = ReduceMax (x, k)", False),
        ("k = Identity (c) y = ReduceMax (x, k)", False),
    ],
)
def test_what_tensorrt_rtx_makes_weights_of(body: str, taken: bool) -> None:
    require_opset(18)
    text = f"(float[1,3] x, float[0] e, int64[1] c) => (float[] y) <int64[1] w = {{0}}> {{ {body} }}"
    node = last(text, 18)
    assert (refusal(ON_RTX, node) is None) == taken
    assert refusal(Target.parse("10.9"), node) == "its input 1 must be an initializer"


def test_no_other_input_must_be_an_initializer() -> None:
    assert UP_TO.keys() == tables.CONSTANT_INPUTS.keys()


def test_stock_plugins_by_release() -> None:
    extra = f', "{plugins.STOCK_DOMAIN}" : 1'
    first = {"InstanceNormalization_TRT": "7.1", "GroupNormalizationPlugin": "8.0", "ROIAlign_TRT": "8.5"}
    for op, since in first.items():
        node = last(f"(float[2] x) => (float[2] y) {{ y = trt.plugins.{op} (x) }}", extra=extra)
        assert from_first([refusal(t, node) is None for t in RELEASES]) == since, op
        assert refusal(ON_RTX, node) == refusal(Target.parse("7.0"), node) == "there are no plugins"
    leaky = last("(float[2] x) => (float[2] y) { y = trt.plugins.LReLU_TRT (x) }", extra=extra)
    assert [t.name for t in RELEASES if refusal(t, leaky) is None] == [
        t.name for t in RELEASES if (7, 2) <= t.version <= (10, 16)
    ]
    assert refusal(Target.parse("11.0"), leaky) == "the plugin LReLU_TRT exists from 7.2 to 10.16 only"
    scatter = last("(float[2] x) => (float[2] y) { y = surgeon.ScatterElements (x) }", extra=', "surgeon" : 1')
    assert "from 10.0 to 11.4" in (refusal(Target.parse("9.3"), scatter) or "")
    assert plugins.why_no_plugin("ScatterElements", (10, 0), rtx=False) is None
    named = {t.name: t.stock_version("InstanceNormalization_TRT") for t in RELEASES}
    assert [named[n] for n in ("6.0", "7.0", "7.1", "10.1", "10.2", "11.4")] == ["1", "001", "1", "1", "3", "3"]
    assert Target.parse("10.9").stock_version("LReLU_TRT") == "1"


def test_which_nodes_name_a_plugin() -> None:
    extra = ', "com.custom" : 1'
    for body, why in (
        ('Mine <plugin_version = "1"> (x)', None),
        ('Mine <plugin_namespace = ""> (x)', None),
        ("Mine (x)", "there is no importer for com.custom::Mine; a plugin of that name would be needed"),
        ("Relu (x)", "this parser ignores domains and would read it as ONNX's own Relu"),
    ):
        node = last(f"(float[2] x) => (float[2] y) {{ y = com.custom.{body} }}", extra=extra)
        assert refusal(Target.parse("10.9"), node) == why


def test_local_functions_by_release() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "f" : 1]> g (float[2] x) => (float[2] y) { y = f.Own (x) }'
        ' <domain: "f", opset_import: ["" : 17]> Own (a) => (b) { b = Relu (a) }'
    )
    (node,) = Model(proto).graph.live()
    told = {t.name: refusal(t, node) for t in (*RELEASES, ON_RTX)}
    assert set(told.values()) == {None, targets.MISREAD_FUNCTION, "local functions are read from TensorRT 9.0 on"}
    assert from_first([told[t.name] == targets.MISREAD_FUNCTION for t in RELEASES]) == "9.0"
    assert [name for name, why in told.items() if why is None] == ["rtx"]


def test_an_operator_that_the_opset_of_the_parser_lacks() -> None:
    hidden = last("(float[2] x) => (float[2] y) { y = IsInf (x) }", 20)
    assert refusal(Target.parse("8.6"), hidden) is None
    hidden = last("(float[2] x) => (float[2] y) { y = GroupNormalization <num_groups = 2> (x, x, x) }", 21)
    lacking = "GroupNormalization is not in opset {}, the newest that this parser reads"
    assert [refusal(Target.parse(t), hidden) for t in ("8.6", "9.3")] == [lacking.format(17)] * 2
    assert "not in opset" not in (refusal(Target.parse("10.0"), hidden) or "")
    swish = last("(float[2] x) => (float[2] y) { y = Swish (x) }", 17)
    assert refusal(Target.parse("11.0"), swish) is None, "an operator of a later opset than the model's"
    celu = last("(float[2] x) => (float[2] y) { y = Celu (x) }", 17)
    assert refusal(Target.parse("7.2.2"), celu) == "Celu is not in opset 11, the newest that this parser reads"


@pytest.mark.parametrize("kind", READABLE)
def test_which_release_knows_which_type(kind: str) -> None:
    code = TensorProto.DataType.Value(kind.upper())
    given = onnx.helper.make_tensor_value_info("x", code, [2])
    out = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Cast", ["x"], ["y"], to=1)], "g", [given], [out])
    indexed = Model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)]))
    (node,) = indexed.graph.live()
    assert Target.parse("10.9").has_other_types(indexed)
    told = [unsupported(t, node, Kind.TYPE) for t in RELEASES]
    assert from_first([why is None for why in told]) == READABLE[kind]
    assert set(told) - {None} == {f"there is no {kind} before {READABLE[kind]}"}


def test_types_that_every_release_knows() -> None:
    for kind in ("float", "double", "float16", "int8", "int32", "int64", "bool"):
        indexed = Model(model(f"({kind}[2] x) => ({kind}[2] y) {{ y = Identity (x) }}"))
        assert not ON_RTX.has_other_types(indexed)
        assert not any(unsupported(t, indexed.graph.live()[0], Kind.TYPE) for t in (*RELEASES, ON_RTX))


@pytest.mark.parametrize(
    ("body", "others"),
    [
        ("(float[2] x) => (uint8[2] y) { y = Cast <to = 2> (x) }", True),
        ("(float[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }", False),
        ("(float[2] x) => (float[2] y) <uint8[1] w = {1}> { y = Relu (x) }", True),
        ("(float[2] x) => (float[2] y) <int8[1] w = {1}> { y = Relu (x) }", True),
    ],
)
def test_where_types_must_be_asked_about(body: str, others: bool) -> None:
    assert ON_RTX.has_other_types(Model(model(body))) == others


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("(uint8[2] x) => (uint8[2] y) { y = Abs (x) }", "uint8 is refused"),
        ("(uint8[2] x) => (uint8[2] z) { y = Identity (x) z = Identity (y) }", "uint8 between two nodes is refused"),
        ("(uint8[2] x) => (float[1] z) { y = Constant <value = uint8[1] {1}> () z = Cast <to = 1> (y) }", None),
        (
            "(uint8[2] x) => (float[2] z) { y = Constant <value = uint8[2] {1, 2}> () z = Cast <to = 1> (y) }",
            "weights of uint8 in int32_data are misread",
        ),
        (
            "(uint8[2] x) => (float[2] y) <uint8[2] w = {1, 2}> { y = Cast <to = 1> (w) }",
            "weights of uint8 in int32_data are misread",
        ),
        ("(uint8[2] x) => (uint8[2] y) { y = Max (x) }", None),
        ("(uint8[2] x) => (bool[1] y) <uint8[1] w = {1}> { y = Greater (w, w) }", None),
        ("(uint8[2] x) => (bool[2] y) <uint8[1] w = {1}> { y = Greater (x, w) }", "uint8 is refused"),
        ("(uint8[2] x) => (uint8[2] y) { y = Max (x, x) }", "uint8 is refused"),
        (
            "(float[2] x) => (float[2] z) <float s = {1}> { y = QuantizeLinear (x, s) z = DequantizeLinear (y, s) }",
            None,
        ),
        ("(uint8[2] x) => (uint8[2] y) { y = com.custom.Mine (x) }", None),
        ("(uint8[2] x) => (int64[1] y) { y = Shape (x) }", None),
        ("(float[2] x) => (uint8[2] y) { y = Cast <to = 2> (x) }", None),
        ("(float[2] x) => (float[2] y) { t = com.custom.Mine (x) y = Relu (t) }", None),
        ("(uint8[2] x) => (bool[2] y) { y = Equal (x, x) }", None),
    ],
)
def test_where_uint8_may_be(body: str, why: str | None) -> None:
    assert unsupported(ON_RTX, last(body, extra=', "com.custom" : 1'), Kind.TYPE) == why


def sparse(body: str) -> Model:
    """The model with a sparse initializer `b` of three numbers."""
    proto = model(body)
    values = onnx.helper.make_tensor("b", onnx.TensorProto.FLOAT, [1], [2.0])
    places = onnx.helper.make_tensor("places", onnx.TensorProto.INT64, [1], [1])
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [3]))
    return Model(proto)


def test_a_sparse_initializer_is_not_read() -> None:
    reads, other = (sparse(f"(float[3] x) => (float[3] y) {{ y = Add (x, {read}) }}") for read in ("b", "x"))
    assert ON_RTX.has_other_types(reads)
    assert unsupported(ON_RTX, reads.graph.live()[0], Kind.TYPE) == "'b' is a sparse initializer, which is not read"
    assert unsupported(ON_RTX, other.graph.live()[0], Kind.TYPE) is None


LONELY = "float8e4m3fn weights are read by DequantizeLinear only"


@pytest.mark.parametrize(
    ("body", "asked", "why"),
    [
        ("(float[2] x) => (int16[2] y) { y = Constant <value = int16[2] {1, 2}> () }", True, "there is no int16"),
        ("(float[2] x) => (uint32[2] y) { y = Constant <value = uint32[2] {1, 2}> () }", True, "there is no uint32"),
        (
            "(int8[2] x) => (int8[2] y) <int8[2] w = {1, 2}> { y = Add (x, w) }",
            True,
            "int8 weights are read by DequantizeLinear only",
        ),
        (
            "(int8[2] x) => (int8[2] y) { w = Constant <value = int8[2] {1, 2}> () y = Add (x, w) }",
            True,
            "int8 weights are read by DequantizeLinear only",
        ),
        ("() => (float[2] y) <int8[2] w = {1, 2}, float s = {1}> { y = DequantizeLinear (w, s) }", True, None),
        ("(int8[2] x) => (int8[2] y) { y = Add (x, x) }", False, None),
        ("(float8e4m3fn[2] x) => (float[2] y) { y = Cast <to = 1> (x) }", True, "float8e4m3fn is refused"),
        ("(int4[2,2] x) => (int4[a] y) <int64[1] k = {0}> { y = Gather (x, k) }", True, "int4 is refused"),
        ("(int4[2,2] x) => (int4[2,2] y) { y = Transpose (x) }", True, None),
        ("(float8e4m3fn[2,2] x) => (float8e4m3fn[2,2] y) { y = Dropout (x) }", True, None),
        ("(float8e4m3fn[2,2] x) => (float[] y) { z, y = Dropout (x) }", True, "float8e4m3fn is refused"),
        ("() => (float8e4m3fn[1] y) <float8e4m3fn[1] w = {1}> { y = Identity (w) }", True, LONELY),
        ("(float[2] x) => (int8[2] y) <int8[1] w = {1}> { y = CastLike (x, w) }", True, None),
        ("() => (float[1] y) <float8e4m3fn[1] w = {1}, float s = {1}> { y = DequantizeLinear (w, s) }", True, None),
        (
            "() => (float8e4m3fn[1] y) { y = Constant <value = float8e4m3fn[1] {1}> () }",
            True,
            "a constant of float8e4m3fn is refused",
        ),
        (
            "() => (float[2] y) <int4[2] w = {33}, float s = {1}> { y = DequantizeLinear (w, s) }",
            True,
            "weights of int4 in int32_data are refused",
        ),
        (
            "(bool c, float8e4m3fn[1] x) => (float8e4m3fn[1] y) { y = If (c) <then_branch = t () => (p) "
            "{ p = Identity (x) }, else_branch = e () => (q) { q = Identity (x) }> }",
            True,
            "float8e4m3fn is refused",
        ),
    ],
)
def test_types_of_eight_bits_and_fewer(body: str, asked: bool, why: str | None) -> None:
    node = last(body)
    assert ON_RTX.has_other_types(node.graph.model) == asked
    assert dtypes.why_mistyped(node, releases.LAST, rtx=True) == why


def test_int8_weights_are_read_before_tensorrt_rtx() -> None:
    node = last("(int8[2] x) => (int8[2] y) <int8[2] w = {1, 2}> { y = Add (x, w) }")
    assert not Target.parse("10.9").has_other_types(node.graph.model)
    assert unsupported(Target.parse("10.9"), node, Kind.TYPE) is None


def test_takes_every_means_that_no_node_need_be_asked_about() -> None:
    new, old = Target.parse("10.9"), Target.parse("8.4")
    assert new.takes_every("Relu") is False and new.takes_every("Sqrt") and new.takes_every("Sigmoid")
    assert not new.takes_every("Unique") and not new.takes_every("Selu")
    assert not old.takes_every("CumSum") and new.takes_every("CumSum")
    assert not Target.parse("10.9+dla").takes_every("Softplus") and new.takes_every("Softplus")


# ---- what came with a later opset ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "opset", "target", "why"),
    [
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = -1> (x) }", 13, "7.2", ""),
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 1> (x) }", 13, "7.2", ""),
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }", 13, "7.2", "its meaning of axis"),
        ("(float[2,4] x) => (float[2,4] y) { y = LogSoftmax (x) }", 13, "7.2", "its meaning of axis"),
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }", 11, "7.2", ""),
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }", 13, "8.0", ""),
        ("(float[] x) => (float[] y) { y = Hardmax <axis = 1> (x) }", 13, "7.2", "its meaning of axis"),
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }", 11, "8.0", ""),
        ("(float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }", 18, "8.4", ""),
        ("(float[1,2,3] x) => (float[1,2,3] y) { y = GroupNormalization <num_groups = 2> (x, x, x) }", 18, "8.6", ""),
        (
            "(float[1,2,3] x) => (float[1,2,3] y) { y = GroupNormalization <num_groups = 2, stash_type = 10> (x, x, x) }",
            21,
            "10.0",
            "",
        ),
        ("(float[2,4] x) => (int64[1] y) { y = Shape <start = 1> (x) }", 15, "8.2", "its attribute start"),
        ("(float[2,4] x) => (int64[1] y) { y = Shape <start = 0> (x) }", 15, "8.2", ""),
        ("(float[2,4] x) => (int64[1] y) { y = Shape <start = 1> (x) }", 15, "8.4", ""),
        ("(float[2] x) => (float[2] y) { y = com.custom.Shape <start = 1> (x) }", 15, "8.2", ""),
        (
            "(float[2,4] x) => (float[a,b] y) <int64[2] p = {0, 1}, float v = {0}, int64[1] k = {1}>"
            " { y = Pad (x, p, v, k) }",
            18,
            "8.4",
            "its input 3",
        ),
        ("(float[2,4] x) => (float[a,b] y) <int64[4] p = {0, 1, 0, 0}> { y = Pad (x, p) }", 18, "8.4", ""),
        (
            "(float[2,4] x) => (float[a,b] y) <int64[2] p = {0, 1}, int64[1] k = {1}> { y = Pad (x, p, , k) }",
            18,
            "10.0",
            "",
        ),
    ],
)
def test_what_came_with_a_later_opset(body: str, opset: int, target: str, why: str) -> None:
    told = outdated(Target.parse(target), last(body, opset, extra=', "com.custom" : 1'))
    newest = Target.parse(target).opset
    assert told == (f"{why} came with an opset above {newest}, the newest that this parser reads" if why else None)


# ---- what the geometry of a window comes to --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "size", "axis", "counts"),
    [
        ("kernel_shape = [3], strides = [2], pads = [1, 2]", 6, (7, 2, 3, 2), (4, 4, 2)),
        ("kernel_shape = [3], strides = [2], pads = [1, 1]", 6, (7, 1, 3, 2), (4, 4, 2)),
        ("kernel_shape = [2], strides = [3], dilations = [2]", 6, (6, 0, 3, 3), (2, 2, 0)),
        ("kernel_shape = [1], strides = [2]", 4, (4, 0, 1, 2), (3, 2, 0)),
        ("kernel_shape = [2], strides = [3], pads = [0, 1]", 6, (6, 1, 2, 3), (3, 2, 0)),
        ("kernel_shape = [4]", 5, (5, 0, 4, 1), (2, 2, 0)),
    ],
)
def test_the_windows_of_a_pooling(
    attributes: str, size: int, axis: tuple[int, ...], counts: tuple[int, int, int]
) -> None:
    found = pool_axes(last(f"(float[1,1,{size}] x) => (float[1,1,n] y) {{ y = MaxPool <{attributes}> (x) }}"))
    assert found == [PoolAxis(*axis)]
    assert (found[0].rounded_up, found[0].windows, found[0].missing) == counts


@pytest.mark.parametrize(
    ("attributes", "size", "totals"),
    [
        ("strides = [2], output_shape = [11]", "5", [0]),
        ("strides = [2], output_shape = [9]", "5", [2]),
        ("strides = [2], output_padding = [1], output_shape = [11]", "5", [1]),
        ("dilations = [2], output_shape = [7]", "5", [2]),
        ("strides = [3], dilations = [3], output_shape = [1, 1, 16]", "5", [3]),
        ("kernel_shape = [3], strides = [2], output_shape = [10]", "5", [1]),
        ("output_shape = [7]", "N", None),
    ],
)
def test_the_padding_of_a_deconvolution(attributes: str, size: str, totals: list[int] | None) -> None:
    body = f"(float[1,1,{size}] x, float[1,1,3] w) => (float[1,1,n] y) {{ y = ConvTranspose <{attributes}> (x, w) }}"
    assert deconvolution_padding(last(body)) == totals


def test_the_padding_of_a_deconvolution_wants_a_static_kernel() -> None:
    body = "(float[1,1,5] x, float[1,1,K] w) => (float[1,1,n] y) { y = ConvTranspose <output_shape = [7]> (x, w) }"
    assert deconvolution_padding(last(body)) is None
    assert deconvolution_padding(last(body.replace("float[1,1,K]", "float[]"))) is None
    assert deconvolution_padding(last(body.replace("<output", "<kernel_shape = [3], output"))) == [0]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("(int32[2,2] x) => (int32[n] y) <int64[1] k = {-1}> { a = Neg (x) y = Reshape (a, k) }", "a"),
        ("(float[2,2] x) => (float[n] y) <int64[1] k = {-1}> { a = Neg (x) y = Reshape (a, k) }", None),
        ("(int64[2] x) => (int64[2] y) { a = Neg (x) y = Neg (a) }", None),
        ("(int64[] x) => (int64[n] y) <int64[1] k = {-1}> { a = Neg (x) y = Reshape (a, k) }", None),
        ("(int64[2] x, int64 m) => (int64[2] y) { a = Clip (x, , m) y = Neg (a) }", None),
        ("(int64[2,2] x) => (int64[2,2] y) { y = Neg (x) }", "y"),
        ("(int64[2,2] x) => (int64[2] y) { a = Neg (x) y = Shape (a) }", None),
        ("(int64[2,2] x) => (int64 y) { a = Neg (x) y = Size (a) }", None),
        ("() => (int64[2,1] y) { y = Constant <value = int64[2,1] {1, 2}> () }", None),
        (
            "(bool c, int64[2,1] x) => (int64[2,1] y) { y = If (c) <then_branch = t () => (int64[2,1] a) { a = Neg (x) },"
            " else_branch = e () => (int64[2,1] b) { b = Abs (x) }> }",
            None,
        ),
    ],
)
def test_the_integer_tensor_of_several_dimensions_behind_a_shape(body: str, name: str | None) -> None:
    node = last(body)
    found = deep_tensor(node.graph.model, node.outputs[0])
    assert (found and found.name) == name
    assert deep_tensor(node.graph.model, None) is None


def test_the_cone_behind_a_shape_ends_somewhere() -> None:
    steps = [f"a{k} = Neg (a{k - 1})" for k in range(2, 255)]
    body = (
        "(int64[2,1] x) => (int64[n] a999) <int64[1] k = {-1}> { m = Neg (x) a1 = Reshape (m, k) %s a999 = Neg (a%d) }"
    )
    for length, seen in ((250, True), (254, True), (255, False)):
        proto = model(body % (" ".join(steps[: length - 2]), length - 1))
        value = Model(proto).graph.find("a999")
        assert bool(deep_tensor(value.producer.graph.model, value)) == seen, length


@pytest.mark.parametrize(
    ("op", "first"),
    [("TRT_FP8QuantizeLinear", "10.0"), ("TRT_FP4DynamicQuantize", "10.8"), ("TRT_MXFP8DynamicQuantize", "11.0")],
)
def test_quantizers_of_the_domain_trt(op: str, first: str) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "trt" : 1]> g (float[4,32] x) => (float[4,32] y, float[4,1] z)'
        f" {{ y, z = trt.{op} <axis = -1, block_size = 32> (x) }}"
    )
    (node,) = Model(proto).graph.live()
    refused = [t.name for t in RELEASES if t.why_unsupported(node) is not None]
    assert from_first([t.name not in refused for t in RELEASES]) == first
    assert ON_RTX.why_unsupported(node) is None
    told = Target.parse("8.6").why_unsupported(node)
    assert told is not None and told.reason == f"TensorRT 8.6 has no importer for {op}"
