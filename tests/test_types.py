"""Types and shapes: inferred, refined, joined over branches and iterations, and declared by the file."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers import examples, model, ops, require_opset
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import surgeon
from surgeon.ir.model import Model
from surgeon.ir.run import Runner, Unrunnable


@pytest.mark.parametrize(
    "body",
    [
        "(float[2,3] a, int64[2] c) => (float[p,q] r) <int64[2] c = {2,3}> { m = Reshape (a, c)  r = Relu (m) }",
        """(float[8,4] a, int64[2] c) => (float[8,4] r) <int64[2] c = {1,4}> {
            n = ReduceL2 <axes = [0], keepdims = 0> (a)  k = Reshape (n, c)  r = Div (a, k)
        }""",
    ],
)
def test_the_default_of_an_input_decides_no_shape(body: str) -> None:
    proto = model(body)
    result = surgeon.rewrite(proto, target="10.9")
    assert not result.report.applied and result.model.SerializeToString() == proto.SerializeToString()


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_what_a_shape_says_reaches_reshape_and_expand(opset: int) -> None:
    """ONNX's own inference takes it to a Reshape from opset 14 on, to an Expand from 13 on."""
    text = """(float[2,1,5] a, float[10] b, float[2,3,1] c, float[M,3,N] d)
              => (float[i,j,k] r, float[l,m,n] e, float e2) {
        s = Shape (a)
        r = Reshape (b, s)
        t = Shape (c)
        e = Expand (r, t)
        f = Shape (d)
        e2 = Expand (r, f)
    }"""
    proto = model(text, opset=opset)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    indexed = Model(proto)
    assert indexed.shape(indexed.graph.values["r"]) == (2, 1, 5)
    assert indexed.shape(indexed.graph.values["e"]) == (2, 3, 5)
    assert indexed.shape(indexed.graph.values["e2"]) == (2, 3, 5)


def test_shapes_and_types_on_demand() -> None:
    indexed = Model(model("(float[N,3] a) => (float[N,1] r) { m = ReduceMean <axes = [1]> (a)  r = Relu (m) }"))
    values = indexed.graph.values
    assert indexed.shape(values["a"]) == ("N", 3)
    assert indexed.shape(values["m"]) == ("N", 1)
    assert indexed.dtype(values["m"]) == onnx.TensorProto.FLOAT


@pytest.mark.parametrize(("layout", "batch"), [(0, "L,N"), (1, "N,L")])
def test_the_batch_of_a_gru_is_that_of_its_first_state(layout: int, batch: str) -> None:
    state = "1,4,3" if layout == 0 else "4,1,3"
    text = f"""(float[{batch},2] x, float[1,9,2] w, float[1,9,3] r, float[{state}] h) => (float y, float z) {{
        y, z = GRU <hidden_size = 3, layout = {layout}> (x, w, r, , , h)
    }}"""
    proto = model(text, opset=14)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    indexed = Model(proto)
    every, last = (indexed.shape(indexed.graph.values[name]) for name in "yz")
    assert every is not None and every[0 if layout else 2] == 4
    assert last is not None and last[0 if layout else 1] == 4


def test_types_inside_a_function_are_those_of_its_first_call() -> None:
    indexed = Model(
        onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "f" : 1]>
        g (float[N,3] a) => (float[M,K] r) { b = f.outer <axis = 1> (a)  r = Relu (b) }
        <domain: "f", opset_import: ["" : 17, "f" : 1]>
        outer <axis> (p) => (q) { s = Softmax <axis : int = @axis> (p)  q = f.inner (s) }
        <domain: "f", opset_import: ["" : 17]>
        inner (p) => (q) { t = Transpose (p)  q = Exp (t) }
    """)
    )
    outer, inner = (indexed.functions[k].values for k in ("f::outer", "f::inner"))
    assert indexed.shape(outer["s"]) == ("N", 3) and indexed.shape(inner["t"]) == (3, "N")
    assert indexed.dtype(inner["t"]) == onnx.TensorProto.FLOAT


def test_an_expand_makes_nothing_smaller() -> None:
    """A dimension of unknown size that is asked to be 1 stays what it is; asked to be as large as it is, in a body."""
    proto = model(
        """(float[N,3] x, float[1,3] z, bool c) => (float[A,B] y) <int64[2] k = {1, 3}> {
            d = Expand (x, k)  s = Shape (z)  e = Expand (x, s)
            y = If (c) <then_branch = t () => (float[A,B] a) {
                            n = Neg (x) u = Shape (x) g = Expand (n, u) a = Abs (g) },
                        else_branch = f () => (float[A,B] b) { h = Expand (x, k) b = Abs (h) }>
        }"""
    )
    found = Model(proto)
    shapes = {v.name: found.shape(v) for scope in found.scopes for v in scope.values.values()}
    assert {name: shapes[name] for name in "degh"} == dict.fromkeys("degh", ("N", 3))


# what a body makes of the states p and q: the next ones r and s, and t to stack; what is known of what the Loop returns
LOOPS: dict[str, tuple[str, list[tuple[int | None, ...] | None]]] = {
    "as it is": ("r = Relu (p)  s = Identity (q)  t = Neg (r)", [(2, 3), (2, 4), (None, 2, 3)]),
    "a dimension grows": ("r = Concat <axis = 0> (p, p)  s = Neg (q)  t = Abs (p)",
                          [(None, 3), (2, 4), (None, None, 3)]),
    "a dimension is added": ("r = Unsqueeze (p, one)  s = Neg (q)  t = Abs (r)", [None, (2, 4), None]),
    "turned": ("r = Transpose (p)  s = Neg (q)  t = Abs (r)", [(None, None), (2, 4), (None, None, None)]),
    "changed for one another": ("r = Neg (q)  s = Abs (p)  t = Concat <axis = 1> (p, q)",
                                [(2, None), (2, None), (None, 2, None)]),
    "grown by the other": ("r = Concat <axis = 1> (p, q)  s = Relu (r)  z = Shape (s)  t = Cast <to = 1> (z)",
                           [(2, None), (2, None), (None, 2)]),
    "of the graph around": ("r = Add (p, x)  s = Neg (y)  z = Size (q)  t = Cast <to = 1> (z)",
                            [(2, 3), (2, 4), (None,)]),
    "in a branch": ("r = If (go) <then_branch = e () => (float[] u) { u = Relu (p) },"
                    " else_branch = o () => (float[] w) { w = Concat <axis = 1> (p, p) }>  s = Neg (q)  t = Abs (r)",
                    [(2, None), (2, 4), (None, 2, None)]),
}  # fmt: skip


def looped(body: str) -> onnx.ModelProto:
    return model(
        f"""(float[2,3] x, float[2,4] y, int64 n) => (float[] a, float[] b, float[] c)
        <bool on = {{1}}, int64[1] one = {{1}}> {{
            a, b, c = Loop (n, on, x, y) <body = l (int64 i, bool go, float[] p, float[] q)
                => (bool more, float[] r, float[] s, float[] t) {{ more = Identity (go)  {body} }}>
        }}"""
    )


def sizes(found: Model) -> list[tuple[int | None, ...] | None]:
    shapes = [found.shape(v) for v in found.graph.outputs]
    return [None if s is None else tuple(d if isinstance(d, int) else None for d in s) for s in shapes]


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_returns(name: str) -> None:
    body, known = LOOPS[name]
    assert sizes(Model(looped(body))) == known


MADE = ["Neg ({0})", "Transpose ({0})", "Concat <axis = 0> ({0}, {1})", "Concat <axis = 1> ({0}, {1})",
        "Unsqueeze ({0}, one)", "Add ({0}, {1})", "ReduceSum <keepdims = 0> ({0}, one)", "Identity (x)"]  # fmt: skip
RESULT = st.tuples(st.sampled_from(MADE), st.sampled_from("pq"), st.sampled_from("pqxy"))


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(results=st.tuples(RESULT, RESULT, RESULT), count=st.integers(0, 3))
def test_what_is_known_of_a_loop_holds(results: tuple[tuple[str, str, str], ...], count: int) -> None:
    """Whatever a body does to its states, and however often: what runs has the shapes that are known."""
    proto = looped("  ".join(f"{name} = {op.format(*read)}" for name, (op, *read) in zip("rst", results, strict=True)))
    feeds = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 4), np.float32), "n": np.asarray(count)}
    try:
        returned = Runner(proto).run(feeds)
    except Unrunnable:
        return
    if count == 0:  # ONNX Runtime stacks nothing in one dimension, where the body does not say how many it has
        returned = returned[:2]
    for dims, array in zip(sizes(Model(proto)), returned, strict=False):
        assert dims is None or (
            len(dims) == array.ndim and all(d in (None, size) for d, size in zip(dims, array.shape, strict=True))
        )


def test_what_a_scan_returns() -> None:
    """Its body holds a node that ONNX's inference makes nothing of."""
    proto = model(
        """(float[2,4,8] x, float[5,2,4,8] y) => (float[] a, float[] b) <float[4] w = {1, 2, 3, 4}> {
            a, b = Scan <num_scan_inputs = 1, scan_output_axes = [-1],
                body = l (float[2,4,8] p, float[2,4,8] q) => (float[] r, float[] s) {
                    m = Add (p, q)  r = GroupNormalization <num_groups = 2> (m, w, w)  s = Neg (r)
                }> (x, y)
        }""",
        opset=21,
    )
    assert sizes(Model(proto)) == [(2, 4, 8), (2, 4, 8, None)]


@pytest.mark.parametrize("opset", [21, 25])
def test_what_stands_behind_a_mean_variance_normalization(opset: int) -> None:
    """ONNX's inference says no shape of it, so what followed was left to a second run."""
    require_opset(opset)
    text = """(float[5,4,8,8] x) => (float[5,4,8,8] y) <float[4] s = {1, 2, 1, 2}, float[4] b = {0, 1, 0, 1}> {
        h = MeanVarianceNormalization (x)  y = GroupNormalization <num_groups = 2> (h, s, b) }"""
    result = surgeon.rewrite(model(text, opset, 10), target="8.4")
    assert not result.report.failed and result.report.opset_after == 17
    assert not surgeon.rewrite(result.model, target="8.4").report.applied


def test_each_tensor_that_a_loop_returns_has_its_own_type() -> None:
    proto = model(
        """(float[N] x, int64[2] y, int64 n, bool c) => (float[N] a, int64[2] b, bool[M] d) {
            a, b, d = Loop (n, c, x, y) <body = l (int64 i, bool go, float[] p, int64[] q)
                => (bool more, float[] r, int64[] s, bool t) {
                    more = Identity (go)  r = Neg (p)  s = Neg (q)  t = Not (go) }>
        }"""
    )
    found = Model(proto)
    wanted = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL]
    assert [found.dtype(v) for v in found.graph.outputs] == wanted


FLATTENED = """(float[1,3,4] x) => (float[1,12] y) <int64 i = {0}, int64[1] ax = {0}, int64[1] rest = {-1}> {
    r = Relu (x)  s = Shape (r)  b = Gather (s, i)  u = Unsqueeze (b, ax)  t = Concat <axis = 0> (u, rest)
    y = Reshape (r, t)
}"""
PADDED = """(float[1,3,8,8] x) => (float[1,3,10,10] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> {
    r = Relu (x)  q = Pad <mode = "reflect"> (r, p)  y = Neg (q)
}"""


def resized(body: str, dims: list[int | str], out: list[int | str]) -> onnx.ModelProto:
    """A model whose inner tensors were inferred before its input was given other sizes, as
    `onnx.tools.update_model_dims` leaves it."""
    proto = onnx.shape_inference.infer_shapes(model(body, opset=13))
    for infos, wanted in ((proto.graph.input, dims), (proto.graph.output, out)):
        infos[0].CopyFrom(helper.make_tensor_value_info(infos[0].name, 1, wanted))
    return proto


@pytest.mark.parametrize("target", ["7.2", "8.0", "8.4", "10.9", "rtx"])
@pytest.mark.parametrize(
    ("body", "dims", "out", "sizes"),
    [
        (FLATTENED, ["N", 3, 4], ["N", 12], [5, 3, 4]),
        (FLATTENED, ["N", 3, 4], [1, 12], [5, 3, 4]),
        (FLATTENED, [5, 3, 4], [5, 12], [5, 3, 4]),
        (PADDED, ["N", 3, "H", "W"], ["N", 3, "h", "w"], [2, 3, 8, 12]),
    ],
)
def test_sizes_of_other_inputs_are_not_believed(
    body: str, dims: list[int | str], out: list[int | str], sizes: list[int], target: str
) -> None:
    proto = resized(body, dims, out)
    feeds = {"x": np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}
    after = surgeon.rewrite(proto, target=target).model
    for found, expected in zip(Runner(after).run(feeds), Runner(proto).run(feeds), strict=True):
        assert np.array_equal(found, expected)


def test_a_declared_output_is_not_believed_against_an_input() -> None:
    found = Model(model("(float[N,3] x) => (float[1,3] y) { y = Relu (x) }"))
    assert found.shape(found.graph.values["y"]) == ("N", 3)


def test_a_state_that_grows_is_not_of_the_size_that_a_body_declares() -> None:
    proto = model(
        """(float[1,3] x, int64 n) => (float[K,3] y) <bool on = {1}> {
            y = Loop (n, on, x) <body = l (int64 i, bool go, float[1,3] p) => (bool more, float[1,3] r) <float[1,3] s> {
                more = Identity (go)  s = Neg (p)  r = Concat <axis = 0> (s, x) }>
        }"""
    )
    found = Model(proto)
    body = next(iter(found.graph.bodied)).bodies[0]
    assert [found.shape(body.values[name]) for name in "psr"] == [(None, 3)] * 3


def test_a_body_says_the_rank_of_what_it_is_handed_where_nothing_else_does() -> None:
    proto = model(
        """(float[2,3] x, int64[k] t, int64 n) => (float[K,L] y) <bool on = {1}> {
            h = Reshape (x, t)
            y = Loop (n, on, h) <body = l (int64 i, bool go, float[1,6] p) => (bool more, float[1,6] r) {
                more = Identity (go)  s = Neg (p)  r = Neg (s) }>
        }"""
    )
    body = next(iter((found := Model(proto)).graph.bodied)).bodies[0]
    assert [found.shape(body.values[name]) for name in "psr"] == [(None, None)] * 3


CUSTOM = """(float[N,3] x) => (float[M,3] y) <float[2,3] c, float[1,3] r> {
    r = Relu (x)  c = test.Custom (r)  y = Neg (c)
}"""


def test_the_file_says_what_cannot_be_inferred() -> None:
    proto = model(CUSTOM.replace("float[1,3] r", "float[N,3] r"), extra=', "test" : 1')
    found = Model(proto)
    assert [found.shape(found.graph.values[name]) for name in "rcy"] == [("N", 3), (2, 3), (2, 3)]


def test_of_a_file_with_sizes_of_other_inputs_only_ranks_are_believed() -> None:
    found = Model(model(CUSTOM, extra=', "test" : 1'))
    assert [found.shape(found.graph.values[name]) for name in "rc"] == [("N", 3), (None, None)]
    assert sizes(found) == [(None, None)]


OPEN = """(float[2,3] x) => (float[K,2] y) <float[2,3] r, int64[2,4] k> {
    r = Relu (x)  k = NonZero (r)  t = Transpose (k)  y = Cast <to = 1> (t)
}"""


def test_a_file_of_fixed_sizes_says_what_inference_leaves_open() -> None:
    assert sizes(Model(model(OPEN))) == [(4, 2)]
    assert sizes(Model(model(OPEN.replace("float[2,3] r", "float[1,3] r")))) == [(None, 2)]
    assert sizes(Model(model(OPEN.replace("float[2,3] x", "float[N,3] x")))) == [(None, 2)]


def unknown_as_minus_one(body: str) -> onnx.ModelProto:
    """The first dimension of the input and of the output written as -1, as some exporters do."""
    proto = model(body)
    for infos in (proto.graph.input, proto.graph.output):
        infos[0].type.tensor_type.shape.dim[0].dim_value = -1
    return proto


def test_a_negative_size_is_an_unknown_one() -> None:
    proto = unknown_as_minus_one(
        "(float[2,3] x) => (float[2,3] y) <float a = {0.1}> { z = Mul (x, a)  y = Max (x, z) }"
    )
    assert sizes(Model(proto)) == [(None, 3)]
    result = surgeon.rewrite(proto, target="8.4", verify="full", shapes={"x": (5, 3)})
    assert ops(result.model) == ["LeakyRelu"] and result.report.verify["max_error"] == 0.0
    assert result.model.graph.input == proto.graph.input and result.model.graph.output == proto.graph.output
    assert surgeon.rewrite(proto, target="8.4").report.applied


def test_a_negative_size_is_no_number_to_compute_with() -> None:
    proto = unknown_as_minus_one("(float[2,3] x) => (float[5,3] y) <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> "
                                 "{ y = Concat <axis = 0> (x, w) }")  # fmt: skip
    assert sizes(Model(proto)) == [(None, 3)]


def test_a_sparse_weight_has_a_type() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) { y = Add (x, b) }'
    )
    values = onnx.numpy_helper.from_array(np.float32([1]), "b")
    at = onnx.numpy_helper.from_array(np.int64([4]))
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [2, 3]))
    found = Model(proto)
    weight = found.graph.values["b"]
    assert (found.dtype(weight), found.shape(weight)) == (onnx.TensorProto.FLOAT, (2, 3))
