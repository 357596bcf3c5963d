"""Windows at small sizes: which sizes are free, and which are bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import model
from onnx import numpy_helper

import surgeon
from surgeon.proof.judge import judge
from surgeon.proof.pair import ModelPair
from surgeon.proof.probes import Window, probed_sizes
from surgeon.proof.shrink import shrunk

X = "(float[1,16,480,640] x) => (float[1,16,480,640] y)"


def _pair(body: str, after: str = "", head: str = X, **constants: np.ndarray) -> ModelPair:
    sides = [model(f"{head} {{ {text} }}") for text in (body, after or body)]
    for side in sides:
        side.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    inputs = tuple(
        (i.name, i.type.tensor_type.elem_type, tuple(d.dim_value or d.dim_param for d in i.type.tensor_type.shape.dim))
        for i in sides[0].graph.input
    )
    return ModelPair(*sides, inputs)


def _sizes(body: str, head: str = X, **constants: np.ndarray) -> tuple[int, ...] | None:
    small = shrunk(_pair(body, head=head, **constants))
    return None if small is None else small.inputs[0][2]


WEIGHTS = np.ones((16, 16, 3, 3), np.float32)


def test_sizes_that_nothing_depends_on_come_down_and_stay_different() -> None:
    small = shrunk(_pair("y = Relu (x)"))
    assert small is not None
    batch, channels, height, width = small.inputs[0][2]
    assert (batch, channels) == (1, 16)
    assert height != width and max(height, width) < 48
    declared = small.before.graph.input[0].type.tensor_type.shape.dim
    assert tuple(d.dim_value for d in declared) == small.inputs[0][2]


@pytest.mark.parametrize(
    "body",
    [
        "y = Slice (x, c, c, c)",
        "s = Shape (x)  t = Mul (s, s)  y = Expand (x, t)",
        "s = Shape <start = 1> (x)  y = Expand (x, s)",
        "y = Transpose (x)",
        "y = Reshape (x, c)",
        "y = CumSum (x, c)",
        "y = Add (x, full)",
        "y = Expand (x, sizes)",
        "y = ReduceSum <keepdims = 0> (x, c)",
        "y = ReduceMax (x)",
        "y = Conv (x, x)",
        "y = RandomNormalLike (x)",
        "y, m, v = BatchNormalization <training_mode = 1> (x, many, many, many, many)",
        "y = Softmax (x)",
        "y = com.example.Relu (x)",
    ],
)
def test_a_window_that_depends_on_its_sizes_keeps_them(body: str) -> None:
    full, sizes = np.ones((1, 16, 480, 640), np.float32), np.array([1, 16, 480, 640])
    assert _sizes(body, c=np.array([2]), full=full, sizes=sizes, many=np.ones(16)) is None


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("y = Add (x, row)", 3),
        ("y = Softmax <axis = 3> (x)", 3),
        ("y = BatchNormalization (x, many, many, many, many)", 1),
        ("r = ReduceL2 <axes = [-1]> (x)  y = Div (x, r)", 3),
        ("r = ReduceSum (x, axis)  y = Div (x, r)", 2),
    ],
)
def test_an_axis_that_is_added_up_or_has_constants_of_its_own_is_bound(body: str, bound: int) -> None:
    sizes = _sizes(body, row=np.ones(640, np.float32), axis=np.array([2]), many=np.ones(16, np.float32))
    assert sizes is not None
    came_down = {axis for axis, (old, new) in enumerate(zip((1, 16, 480, 640), sizes, strict=True)) if old != new}
    assert came_down == {2, 3} - {bound}


def test_a_size_that_stands_at_a_bound_axis_too_is_bound() -> None:
    head = "(float[1,480,480,64] x) => (float[1,480,480,64] y)"
    assert _sizes("r = ReduceMax <axes = [1]> (x)  y = Sub (x, r)", head) == (1, 480, 480, 16)


def test_a_kernel_leaves_the_rest_by_its_strides() -> None:
    head = "(float[1,16,483,640] x) => (float[1,16,h,w] y)"
    sizes = _sizes(
        "t = Conv <strides = [2, 4]> (x, w)  y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (t)", head, w=WEIGHTS
    )
    assert sizes is not None and sizes[1] == 16
    assert sizes[2] % 8 == 483 % 8 and sizes[3] % 8 == 640 % 8 and min(sizes[2:]) > 16


def test_what_differs_at_one_place_differs_at_a_small_size() -> None:
    small = shrunk(_pair("y = Relu (x)", "y = Clip (x, z)", z=np.float32(1e-3)))
    assert small is not None and judge(small).ok is False


def test_what_a_constant_says_of_the_size_is_proved_at_the_size() -> None:
    """Sum / 640 is a mean at 640 alone: what is added up keeps its size."""
    head = "(float[64,640] x) => (float[64,1] y)"
    pair = _pair(
        "t = ReduceSum (x, axis)  y = Div (t, n)",
        "y = ReduceMean <axes = [1]> (x)",
        head,
        axis=np.array([1]),
        n=np.float32(640),
    )
    small = shrunk(pair)
    assert small is not None and small.inputs[0][2] == (16, 640)
    assert judge(small).ok


def test_a_large_model_is_proved_without_large_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from surgeon.ir.run import Runner

    largest = []
    run = Runner.run

    def watched(self, feeds):  # type: ignore[no-untyped-def]
        largest.append(max((a.size for a in feeds.values()), default=0))
        return run(self, feeds)

    monkeypatch.setattr(Runner, "run", watched)
    proto = model(f"{X} <float c = {{0.25}}> {{ m = Mul (x, c)  y = Max (x, m) }}")
    assert len(surgeon.rewrite(proto, target="10.9").report.applied) == 1
    assert largest and max(largest) < 100_000
    onnx.checker.check_model(proto)


NORM = """m = ReduceMean <axes = [2, 3]> (x)  d = Sub (x, m)  q = Mul (d, d)  v = ReduceMean <axes = [2, 3]> (q)
    e = Add (v, c)  r = Sqrt (e)  y = Div (d, r)"""


def test_sums_are_tried_on_everything_at_a_small_size_and_little_at_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from surgeon.proof import judge as module

    tried = []
    real = module.Judge._tried

    def watched(self, kind, feeds, *args, **options):  # type: ignore[no-untyped-def]
        tried.append((kind, next(iter(feeds.values())).size))
        return real(self, kind, feeds, *args, **options)

    monkeypatch.setattr(module.Judge, "_tried", watched)
    proto = model(f"(float[1,3,200,240] x) => (float[1,3,200,240] y) <float c = {{1e-5}}> {{ {NORM} }}")
    report = surgeon.rewrite(proto, target="10.9").report
    assert [a.pass_name for a in report.applied] == ["instance-norm"]
    assert [kind for kind, size in tried if size > 100_000] == ["random", "huge"]
    assert {"zero", "inf", "shifted"} < {kind for kind, size in tried if size < 10_000}


WRONG = '''"""For a test."""
from surgeon import Stage, const, op, rule, var
x, axes = var("x"), const("axes")
@rule(op.ReduceMean(x, axes), stage=Stage.FUSE)
def wrong(b, x, axes):
    return b.Div(b.ReduceSum(x, axes=[2, 3], keepdims=1), {count})
'''


def test_a_sum_that_is_wrong_at_its_own_size_alone_is_undone(tmp_path: Path) -> None:
    """Sum / 323 is the mean at the small size that is tried first, and at no other."""
    head, mean = "(float[1,3,200,240] x) => (float[1,3,1,1] y)", "y = ReduceMean <axes = [2, 3]> (x)"
    near = shrunk(_pair(mean, head=head), reducing=True)
    assert near is not None
    _, _, height, width = near.inputs[0][2]
    (tmp_path / "wrong.py").write_text(WRONG.format(count=float(height * width)))
    report = surgeon.rewrite(model(f"{head} {{ {mean} }}"), target="10.9", passes=tmp_path, only=["wrong"]).report
    assert not report.applied and "random" in report.undone[0].why


def test_a_size_that_follows_from_others_is_not_0_where_nothing_runs_on_that() -> None:
    side = model("(float[A,K] x) => (uint8[A,K] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear (x) }")
    window = Window(ModelPair(side, side, (("x", onnx.TensorProto.FLOAT, ("A", "(B*C)//A")), ("w", 1, ("B", "C")))))
    found = [dims for sized in probed_sizes(window, lambda sized: True) for _, _, dims in sized]
    assert found
    assert not [dims for dims in found if 0 in dims]
