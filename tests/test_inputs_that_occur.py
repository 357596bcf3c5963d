"""Samples that the user gives, read one at a time; and inputs that occur, drawn where there are none."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto

from surgeon.errors import UsageError
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.data import Samples, load_data, load_metric
from surgeon.precision.inputs import Plausible, plausible

LARGE = 1 << 20  # elements of a sample of 4 MB
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
SUM = f"{HEAD}g (float[N,3] x, int64[N] k) => (float[N,3] y) {{ y = Relu (x) }}"
OF_RANK_1 = f"{HEAD}g (float[N] x) => (float[N] y) {{ y = Relu (x) }}"


def parsed(text: str) -> ModelProto:
    return onnx.parser.parse_model(text)


def firsts(samples: Samples) -> list[int]:
    """The first number of each sample."""
    return [int(feeds["x"].reshape(-1)[0]) for feeds in samples]


# ---- samples ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 12), st.integers(1, 4), st.none() | st.integers(0, 5))
def test_parts_have_each_sample_once_and_in_order(count: int, step: int, most: int | None) -> None:
    samples = Samples.of({"x": np.asarray([k])} for k in range(count))
    parts = [firsts(samples.part(start, step)) for start in range(step)]
    assert parts == [list(range(start, count, step)) for start in range(step)]
    assert len(samples) == count and sum(map(len, parts)) == count
    assert firsts(samples.part(0, step, most)) == parts[0][:most]
    assert firsts(samples) == firsts(samples) == list(range(count))


def test_a_folder_has_a_sample_in_each_file_and_reads_it_when_it_comes(tmp_path: Path) -> None:
    for k, name in enumerate(("b", "a", "c")):
        np.savez(tmp_path / f"{name}.npz", x=np.full(3, k))
    (tmp_path / "readme.txt").write_text("no sample")
    samples = load_data(tmp_path)
    assert firsts(samples) == [1, 0, 2]
    np.savez(tmp_path / "b.npz", x=np.full(3, 7))
    assert firsts(samples) == [1, 7, 2]
    (tmp_path / "c.npz").write_bytes(b"no arrays")
    reading = iter(samples)
    assert int(next(reading)["x"][0]) == 1 and int(next(reading)["x"][0]) == 7
    with pytest.raises(UsageError, match=r"c\.npz' is not an .npz file"):
        next(reading)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 5), st.integers(1, 4))
def test_an_axis_more_is_that_of_several_samples(samples: int, rows: int) -> None:
    x = np.arange(samples * rows * 3, dtype=np.float64).reshape(samples, rows, 3)
    k = np.arange(samples * rows, dtype=np.int32).reshape(samples, rows)
    found = list(Samples.of([{"x": x, "k": k}]).checked(parsed(SUM)))
    assert len(found) == samples
    for turn, feeds in enumerate(found):
        assert feeds["x"].dtype == np.float32 and feeds["k"].dtype == np.int64
        np.testing.assert_array_equal(feeds["x"], x[turn])
        np.testing.assert_array_equal(feeds["k"], k[turn])
    (whole,) = Samples.of([{"x": x[0], "k": k[0]}]).checked(parsed(SUM))
    np.testing.assert_array_equal(whole["x"], x[0])


def test_an_axis_more_of_one_input_alone_is_no_axis_of_samples() -> None:
    given_ = {"x": np.zeros((4, 2, 3)), "k": np.zeros(2)}
    (feeds,) = Samples.of([given_]).checked(parsed(SUM))
    assert feeds["x"].shape == (4, 2, 3)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((2, 3))}, "no array for the input 'k'"),
        ({"x": np.zeros((2, 3)), "k": np.zeros(2), "kk": np.zeros(2)}, "an array 'kk'.*Did you mean 'k'"),
        ({}, "no array for the input 'x'; it has none"),
    ],
)
def test_arrays_that_do_not_fit_are_named(arrays: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        list(Samples.of([arrays]).checked(parsed(SUM)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_one_sample_is_varied_within_its_range(dtype: type) -> None:
    """The squares of numbers around 500 do not fit into fp16: the noise comes from their deviation all the same."""
    x, k = np.linspace(-500, 500, 64, dtype=dtype).reshape(4, 16), np.arange(4)
    same, both, dark, turned, mirrored, faint, halves, noisy = Samples.of([{"x": x, "k": k}]).varied()
    np.testing.assert_array_equal(same["x"], x)
    np.testing.assert_array_equal(mirrored["x"], x[:, ::-1])
    np.testing.assert_array_equal(turned["x"], np.roll(x[:, ::-1], 4, 1))  # not along the short axis
    np.testing.assert_array_equal(halves["x"], np.roll(x, 8, 1))
    np.testing.assert_allclose(dark["x"], 0.4 * x, rtol=1e-3)
    assert 0 < np.abs(noisy["x"] - x).max() < 150
    for found, of in ((faint, x), (both, x[:, ::-1])):
        assert found["x"].dtype == dtype and 0 < np.abs(found["x"] - 0.5 * of).max() < 200
        assert 0.45 < found["x"].std(dtype=float) / x.std(dtype=float) < 0.55
        np.testing.assert_array_equal(found["k"], k)


def a_folder(path: Path, count: int) -> Path:
    for k in range(count):
        np.savez(path / f"{k:02}.npz", x=np.full(LARGE, k, np.float32))
    return path


def a_loader(path: Path, count: int) -> Path:
    file = path / "loader.py"
    file.write_text(
        "import numpy as np\n"
        f"def load_data():\n    for k in range({count}):\n        yield {{'x': np.full({LARGE}, k, np.float32)}}\n"
    )
    return file


@pytest.mark.parametrize(("count", "made"), [(2, 6), (4, 4), (7, 1), (8, 0), (9, 0)])
def test_few_samples_are_varied_until_there_are_eight(count: int, made: int) -> None:
    """Of four samples two judged a recurrent network: a third one was off by six times as much."""
    given = [{"x": np.arange(16, dtype=np.float32) + k} for k in range(count)]
    found = [feeds["x"] for feeds in Samples.of(given).varied()]
    assert len(found) == count + made
    assert all(np.array_equal(a, b["x"]) for a, b in zip(found, given, strict=False))
    assert not any(np.array_equal(a, b["x"]) for a in found[count:] for b in given)


def peak_of(samples: Samples) -> int:
    """The most bytes that iterating over samples holds at once."""
    tracemalloc.start()
    try:
        for _ in samples:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [a_folder, a_loader])
@pytest.mark.parametrize(
    "use", [lambda s: s, lambda s: s.part(0, 2), lambda s: s.checked(parsed(OF_RANK_1)).part(1, 2)]
)
def test_memory_does_not_grow_with_the_number_of_samples(
    make: Callable[[Path, int], Path], use: Callable[[Samples], Samples], tmp_path: Path
) -> None:
    samples = use(load_data(make(tmp_path, 12)))
    assert peak_of(samples) < 4 * (4 * LARGE)
    assert len(samples) in (6, 12)


def test_a_loader_that_fails_is_blamed(tmp_path: Path) -> None:
    file = tmp_path / "loader.py"
    file.write_text("def load_data():\n    yield {'x': [1.0]}\n    raise ValueError('no disk')\n")
    with pytest.raises(UsageError, match=r"load_data\(\) of '.*loader.py' failed: ValueError: no disk"):
        list(load_data(file))
    file.write_text("def other(): pass\n")
    with pytest.raises(UsageError, match=r"defines no function load_data\(\)"):
        load_data(file)
    with pytest.raises(UsageError, match=r"takes FILE\.py:FUNCTION, not 'loader\.py'"):
        load_metric("loader.py")
    assert load_metric(f"{file}:other")() is None


# ---- inputs that occur -----------------------------------------------------------------------------------------------


def drawn(text: str, **tensors: np.ndarray) -> Plausible:
    """The inputs for a model; `tensors` are its weights."""
    model = parsed(HEAD + text)
    for name, array in tensors.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return plausible(model, Runner(model).run)


IMAGES = {
    "batch of channels first": ("(float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Relu (x) }", (1, 3, 224, 224)),
    "fixed sizes": ("(float[2,3,48,64] x) => (float[2,3,48,64] y) { y = Relu (x) }", (2, 3, 48, 64)),
    "gray": ("(float[1,1,32,32] x) => (float[1,1,32,32] y) { y = Relu (x) }", (1, 1, 32, 32)),
    "channels last": ("(float[1,32,48,3] x) => (float[1,32,48,3] y) { y = Relu (x) }", (1, 32, 48, 3)),
    "no batch": ("(float[3,32,32] x) => (float[3,32,32] y) { y = Relu (x) }", (3, 32, 32)),
}


@pytest.mark.parametrize(("text", "shape"), IMAGES.values(), ids=IMAGES)
def test_an_image_has_the_numbers_of_a_photograph(text: str, shape: tuple[int, ...]) -> None:
    found = drawn(f"g {text}")
    assert found.known and found.said == [f"'x' {list(shape)}: an image, from 0 to 1 and normalized"]
    for feeds in found.samples:
        assert feeds["x"].shape == shape and feeds["x"].dtype == np.float32
        assert -2.01 <= feeds["x"].min() < feeds["x"].max() <= 2.45
    assert found.samples[0]["x"].min() >= 0 and any(s["x"].min() < -0.5 for s in found.samples)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("g (uint8[1,3,32,32] x) => (uint8[1,3,32,32] y) { y = Identity (x) }", {}),
        ("g (float[1,3,32,32] x) => (float[1,3,32,32] y) { y = Div (x, c) }", {"c": np.float32(255)}),
        ("g (float[1,32,32,3] x) => (float[1,32,32,3] y) { y = Sub (x, c) }", {"c": np.float32([123, 116, 103])}),
        ("g (float[1,3,32,32] x) => (float[1,3,32,32] y) { y = Mul (x, c) }", {"c": np.float32(1 / 255)}),
    ],
)
def test_an_image_that_the_model_scales_is_of_bytes(text: str, weights: dict[str, np.ndarray]) -> None:
    found = drawn(text, **{name: np.asarray(array) for name, array in weights.items()})
    assert found.known and found.said[0].endswith("an image, from 0 to 255")
    for feeds in found.samples:
        x = feeds["x"].astype(np.float64)
        assert x.min() >= 0 and 100 < x.max() <= 255 and (x == np.round(x)).all()


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 500))
def test_numbers_that_pick_rows_are_below_the_number_of_rows(rows: int) -> None:
    found = drawn("g (int64[N,M] x) => (float[N,M,4] y) { y = Gather (t, x) }", t=np.ones((rows, 4), np.float32))
    assert found.known and f"table of {rows}" in found.said[0]
    assert all(0 <= feeds["x"].min() <= feeds["x"].max() < rows for feeds in found.samples)


def test_a_mask_is_true_and_in_some_samples_false_at_the_end() -> None:
    found = drawn("g (int64[N,12] attention_mask) => (float[N,12] y) { y = Cast <to = 1> (attention_mask) }")
    masks = [feeds["attention_mask"] for feeds in found.samples]
    assert found.said[0].endswith("a mask, all true, and false at the end")
    assert {tuple(row) for mask in masks for row in mask} == {(1,) * 12, (1,) * 8 + (0,) * 4}
    parts = masks[::2], masks[1::2]
    assert all(len({mask.min() for mask in part}) == 2 for part in parts), "both parts have both kinds"


@pytest.mark.parametrize(("shape", "axis"), [("1,20,7", 1), ("N,T,80", 1), ("N,80,T", 2), ("N,T", 1), ("40,T", 1)])
def test_a_length_is_that_of_the_longest_input(shape: str, axis: int) -> None:
    """Neither a batch nor a number of features is a length."""
    found = drawn(f"g (float[{shape}] x, int64[N] x_lens) => (float[{shape}] y) {{ y = Identity (x) }}")
    assert found.said[1].endswith("the length of the longest input") and not found.known
    for feeds in found.samples:
        assert (feeds["x_lens"] == feeds["x"].shape[axis]).all()


def test_a_waveform_is_between_minus_1_and_1() -> None:
    found = drawn("g (float[1,1600] audio) => (float[1,1600] y) { y = Identity (audio) }")
    assert found.known and found.said == ["'audio' [1, 1600]: a waveform, from -1 to 1"]
    assert all(np.abs(feeds["audio"]).max() < 1 for feeds in found.samples)
    loud, quiet, silent = (np.abs(found.samples[turn]["audio"]) for turn in (0, 2, 4))
    assert loud.max() > 0.1 > quiet.max() and not silent[0, 800:].any() and silent.max() > 0.1


@pytest.mark.parametrize("shape", ["3,8,8", "1,4,32,32", "5", "2,3", "1,3,8,8"])
def test_anything_else_is_random_and_not_known(shape: str) -> None:
    found = drawn(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu (x) }}")
    assert not found.known and found.said[0].endswith("random numbers")
    assert abs(np.concatenate([feeds["x"].reshape(-1) for feeds in found.samples]).mean()) < 1


def test_every_second_sample_gives_the_error_and_the_same_are_drawn_again() -> None:
    first, again = (drawn("g (float[1,3,32,32] x) => (float[1,3,32,32] y) { y = Relu (x) }") for _ in range(2))
    assert first.held == first.samples[1::2] and len(first.held) == len(first.samples) // 2
    for one, other in zip(first.samples, again.samples, strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])


def test_a_model_that_does_not_run_has_none() -> None:
    model = parsed(f"{HEAD}g (float[2,3] x) => (float[2,3] y) {{ y = Relu (x) }}")

    def run(feeds: dict[str, np.ndarray]) -> None:
        raise Unrunnable("no kernel")

    with pytest.raises(Unrunnable, match="no kernel"):
        plausible(model, run)
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
