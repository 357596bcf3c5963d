"""surgeon compare: its ways of running a model, Polygraphy's statistics, the handing over, and what --bisect finds."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest
from helpers import model

from surgeon.app.cli import main
from surgeon.errors import EngineError, UsageError
from surgeon.precision import convert
from surgeon.precision.comparison import Comparison
from surgeon.precision.data import Samples
from surgeon.trt.bisect import Culprit, bisect_way
from surgeon.trt.compare import compare, figures
from surgeon.trt.comparison import polygraphy_command
from surgeon.trt.runners import (
    BindingsRunner,
    Engine,
    EngineFile,
    FunctionRunner,
    OnnxRuntime,
    ParsedNetwork,
    Running,
    Way,
    engine_way,
    profile_of,
)
from surgeon.trt.runtime import gpu, use

ROOT = Path(__file__).resolve().parent.parent
Captured = pytest.CaptureFixture[str]
LEAKY = "(float[N,3] x) => (float[N,3] y) <float a = {0.1}> { m = Mul(x, a) y = Max(x, m) }"
# TensorRT-RTX's parser reads a Trilu without `upper` as the lower triangle; onnx says upper.
MISREAD = """(float[N,3,8,8] x) => (float[N,3,8,8] y)
  <float a = {0.1}, float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] n = InstanceNormalization <epsilon = 0.001> (x, s, b)
  [times] m = Mul(n, a)
  [larger] h = Max(n, m)
  [lower] t = Trilu <upper = 0> (h)
  [wave] c = Cos(t)
  [triangle] u = Trilu (c)
  [last] z = InstanceNormalization <epsilon = 0.001> (u, s, b)
  [end] y = Neg(z)
}"""
needs_rtx = pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="TensorRT-RTX is not installed")
needs_no_gpu = pytest.mark.skipif(gpu(), reason="says what happens where there is no GPU")


def write(folder: Path, body: str, name: str = "in.onnx") -> Path:
    path = folder / name
    onnx.save(model(body), path)
    return path


def run(*words: object) -> int:
    return main([str(w) for w in words])


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_the_figures_are_polygraphys() -> None:
    a, b = np.asarray([[1.0, 2.0], [3.0, 4.5]], np.float32), np.asarray([[1.0, 2.0], [4.0, 4.0]], np.float32)
    found = figures("random", a, b)
    assert found.absolute == 1.0 and found.relative == 0.25 and found.error == 0.25
    assert found.l2 == pytest.approx(math.sqrt(1.25))
    assert found.cosine == pytest.approx(35 / math.sqrt(1 + 4 + 9 + 20.25) / math.sqrt(37))
    assert found.psnr == pytest.approx(20 * math.log10(4.5) - 10 * math.log10(1.25 / 4))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool"])
def test_figures_of_equal_results(dtype: str) -> None:
    a = np.asarray([0, 1, 1], dtype)
    found = figures("random", a, a)
    assert (found.error, found.absolute, found.relative, found.l2, found.psnr) == (0, 0, 0, 0, math.inf)
    assert found.cosine == pytest.approx(1)


def test_figures_count_the_numbers_that_both_have() -> None:
    """Polygraphy by itself gives NaN for each of these."""
    a = np.asarray([np.nan, np.inf, 1e30, 2e30], np.float32)
    b = np.asarray([np.nan, np.inf, 1e30, 1e30], np.float32)
    found = figures("huge", a, b)
    assert found.absolute == pytest.approx(1e30) and found.l2 == pytest.approx(1e30) and found.relative == 1
    assert figures("nan", a[:2], b[:2]).kind == "nan"
    assert figures("random", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).absolute == 0


def test_another_shape_is_a_difference(tmp_path: Path) -> None:
    source = write(tmp_path, "(float[2,3] x) => (float[?,?] y) { y = Relu(x) }")
    other = write(tmp_path, "(float[2,3] x) => (float[?,?] y) { y = Transpose(x) }", "other.onnx")
    found = compare(source, other, engine=False)
    assert not found.ok and "instead of float32[2, 3]" in found.sides[0].statistics[0].why
    assert math.isinf(found.sides[0].statistics[0].figures.error)


# ---- ways of running -------------------------------------------------------------------------------------------------


def test_what_onnx_runtime_has_no_kernel_for_runs_in_the_evaluator() -> None:
    proto = model("(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = Neg(x) }")
    import ml_dtypes

    x = np.ones((2, 3), ml_dtypes.bfloat16)
    with OnnxRuntime().start(proto) as running:
        assert isinstance(running._runner, FunctionRunner)
        assert tuple(running._runner.get_input_metadata(use_numpy_dtypes=False)["x"].shape) == (2, 3)
        assert np.array_equal(running({"x": x})["y"], -x)


@needs_no_gpu
def test_without_a_gpu_a_note_says_so(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, LEAKY)
    assert run("compare", source, source) == 0
    assert "TensorRT is not run: " in capsys.readouterr().out
    assert run("compare", source, source, "--no-trt") == 0
    assert "TensorRT is not run: " not in capsys.readouterr().out


@needs_no_gpu
@needs_rtx
def test_asked_for_and_impossible_is_a_usage_error(tmp_path: Path, capsys: Captured) -> None:
    source = write(tmp_path, LEAKY)
    assert run("compare", source, source, "--trt", "--with", "rtx") == 2
    assert "the CUDA driver finds none on this machine" in capsys.readouterr().err


@needs_rtx
def test_an_engine_is_the_second_model(tmp_path: Path, capsys: Captured) -> None:
    """On a GPU it runs with the sizes of its profile; elsewhere a sentence says why not."""
    source, engine = write(tmp_path, LEAKY), tmp_path / "in.engine"
    assert run("build", source, engine, "--with", "rtx", "--profile", "x:4x3,5x3,6x3") == 0
    capsys.readouterr()
    status = run("compare", source, engine)
    printed = capsys.readouterr()
    if gpu():
        assert status == 0 and "the engine, on TensorRT-RTX" in printed.out
    else:
        assert status == 2 and "an engine needs a GPU, and the CUDA driver finds none" in printed.err
    for words, why in (
        ((engine, source), "is an engine. Give the ONNX model first, and the engine second."),
        ((source, engine, "--network"), "is an engine: --network and --no-trt are for ONNX models."),
        ((source, engine, "--no-trt"), "is an engine: --network and --no-trt are for ONNX models."),
    ):
        assert run("compare", *words) == 2
        assert why in capsys.readouterr().err


@pytest.mark.parametrize("shapes", [None, {"x": (2, 3)}])
def test_an_engine_of_another_model_is_refused_at_any_sizes(
    shapes: dict[str, tuple[int, ...]] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU runs is a stand-in here, with the names of its tensors."""
    engine = SimpleNamespace(num_io_tensors=2, get_tensor_name=["x", "other"].__getitem__)
    engine.get_tensor_profile_shape = lambda name, profile: [(1, 3)] * 3
    built = EngineFile(Engine(SimpleNamespace(__name__="tensorrt_rtx", __version__="1")), tmp_path / "in.engine")
    built._runner = SimpleNamespace(engine=engine, get_input_metadata=lambda use_numpy_dtypes: ["x"])
    monkeypatch.setattr(built, "start", lambda model: contextlib.nullcontext())
    monkeypatch.setattr("surgeon.trt.compare._engine_of", lambda *given: built)
    source = write(tmp_path, LEAKY)
    with pytest.raises(UsageError, match="the model and the engine have different tensors: other, y"):
        compare(source, source, shapes=shapes)


@needs_no_gpu
@needs_rtx
def test_an_engine_that_cannot_start_says_why() -> None:
    """TensorRT-RTX builds without a GPU; what refuses is its runtime, as it does on a GPU that it does not know."""
    running = Engine(use("tensorrt_rtx")).start(model(LEAKY), None, [{"x": np.zeros((2, 3), np.float32)}])
    with pytest.raises(EngineError, match=r"^TensorRT-RTX [\d.]+ does not start: \S"), running:
        pass


def test_a_missing_plugin_library_is_said(tmp_path: Path, capsys: Captured) -> None:
    source, library = write(tmp_path, LEAKY), tmp_path / "libplugins.so"
    assert run("compare", source, source, "--plugins", library) == 2
    assert f"there is no plugin library '{library}'" in capsys.readouterr().err
    assert run("compare", source, source, "--trt", "--plugin-library", library) == 2
    with pytest.raises(UsageError, match="there is no plugin library"):
        engine_way(plugins=[library])


@needs_rtx
def test_rtx_has_no_tactic_sources(tmp_path: Path, capsys: Captured) -> None:
    words = ["build", write(tmp_path, LEAKY), tmp_path / "out.engine", "--with", "rtx", "--tactic-sources", "none"]
    assert run(*words, "--profile", "x:1x3") == 2
    assert "has no tactic sources" in capsys.readouterr().err


@needs_rtx
def test_the_profile_covers_the_sizes_used(tmp_path: Path) -> None:
    from surgeon.trt.network import parse

    path = tmp_path / "in.onnx"
    onnx.save(model("(float[N,3] x, float[2,3] k) => (float[N,3] y) { s = ReduceSum(k) y = Mul(x, s) }"), path)
    network = parse(path).keep_alive[0]
    sizes = [{"x": np.zeros((n, 3), np.float32), "k": np.zeros((2, 3), np.float32)} for n in (4, 2, 7)]
    assert profile_of(network, sizes) == {"x": [(2, 3), (4, 3), (7, 3)]}


# ---- data, and handing over to Polygraphy ----------------------------------------------------------------------------


def test_inputs_of_a_polygraphy_loader_script(tmp_path: Path, capsys: Captured) -> None:
    source, other = write(tmp_path, LEAKY), write(tmp_path, LEAKY.replace("0.1", "0.2"), "other.onnx")
    script = tmp_path / "loader.py"
    text = (
        "import numpy as np\ndef load_data():\n    for n in (1, 4):\n        yield {'x': SIGN * np.ones((n, 3), "
        "np.float32)}\n"
    )
    script.write_text(text.replace("SIGN", "+1"))
    assert run("compare", source, other, "--data", script) == 0, "only negative inputs meet the slope"
    assert "agree on 2 sets of inputs" in capsys.readouterr().out
    script = tmp_path / "negative.py"
    script.write_text(text.replace("SIGN", "-1"))
    assert run("compare", source, other, "--data", script) == 1


def test_what_the_float64_evaluation_rounds_off_is_no_difference(tmp_path: Path, capsys: Captured) -> None:
    """As in the proof: 1 + exp(-93) is 1 in float64, too."""
    text = "(float[2] x) => (float[2] y) <float one = {1}> { e = Exp(x) s = Add(e, one) y = Log(s) }"
    source, other = write(tmp_path, text), write(tmp_path, "(float[2] x) => (float[2] y) { y = Softplus(x) }", "o.onnx")
    script = tmp_path / "loader.py"
    script.write_text("import numpy as np\ndef load_data():\n    yield {'x': np.float32([-93, -60])}\n")
    assert run("compare", source, other, "--data", script, "--no-trt") == 0
    wrong = write(tmp_path, "(float[2] x) => (float[2] y) { s = Softplus(x) y = Sqrt(s) }", "wrong.onnx")
    assert run("compare", source, wrong, "--data", script, "--no-trt") == 1


@pytest.mark.parametrize("saved", [True, False])
def test_the_printed_polygraphy_command_runs(saved: bool, tmp_path: Path, capsys: Captured) -> None:
    source, other = write(tmp_path, LEAKY), write(tmp_path, LEAKY.replace("0.1", "0.2"), "other.onnx")
    np.savez(tmp_path / "x.npz", x=-np.ones((4, 3), np.float32))
    words = ["--save-inputs", tmp_path / "i.json", "--save-outputs", tmp_path / "o.json"] if saved else []
    for rewritten, status in ((source, 0), (other, 1)):
        assert run("compare", source, rewritten, "--no-trt", "--data", tmp_path / "x.npz", *words) == status
        (command,) = re.findall("^in Polygraphy: (.*)$", capsys.readouterr().out, re.MULTILINE)
        folder = Path(sys.executable).parent
        env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        # Polygraphy's own random inputs are all positive, where the slopes 0.1 and 0.2 make no difference.
        assert done.returncode == (status if saved else 0), done.stdout
        assert "PASSED" in done.stdout or status


def test_the_polygraphy_command_for_an_engine(tmp_path: Path) -> None:
    """What `surgeon compare` prints where a classic TensorRT runs: the profile, the plugins and the tactic sources."""
    from types import SimpleNamespace

    from surgeon.trt.comparison import Side

    source = write(tmp_path, LEAKY)
    comparison = compare(source, source, engine=False)
    comparison.sides.append(Side(Engine(SimpleNamespace(__name__="tensorrt", __version__="8.4.1.5"))))
    command = polygraphy_command(
        comparison, "a.onnx", "b.onnx", inputs="i.json", outputs="o.json", plugins=["lib.so"], tactic_sources=[]
    )
    assert command == (
        "polygraphy run b.onnx --trt --load-inputs i.json --load-outputs o.json --rtol 1e-05 --atol 1e-05 "
        "--trt-min-shapes 'x:[1,3]' --trt-opt-shapes 'x:[1,3]' --trt-max-shapes 'x:[2,3]' --plugins lib.so "
        "--tactic-sources"
    )


def runs_engines() -> bool:
    """A GPU and a TensorRT that imports; whether that one has kernels for this GPU, the tests show."""
    return gpu() and any(importlib.util.find_spec(m) for m in ("tensorrt", "tensorrt_rtx"))


needs_engines = pytest.mark.skipif(not runs_engines(), reason="needs a GPU and TensorRT")


@needs_engines
def test_an_engine_agrees(tmp_path: Path, capsys: Captured) -> None:
    source, out = write(tmp_path, LEAKY), tmp_path / "out.onnx"
    assert run("rewrite", source, out) == 0
    capsys.readouterr()
    assert run("compare", source, out, "--trt") == 0
    assert re.search(r"^TensorRT\S* [\d.]+  y  .*equal$", capsys.readouterr().out, re.MULTILINE)


@needs_engines
def test_the_engines_own_difference_is_found(tmp_path: Path, capsys: Captured) -> None:
    """Selu without its attributes: every parser so far rounds the defaults."""
    body = "(float[N,64] x) => (float[N,64] y) { [minus] n = Neg(x) [selu] s = Selu(n) [end] y = Neg(s) }"
    source, found = write(tmp_path, body), tmp_path / "found"
    assert run("compare", source, source, "--trt", "--bisect", found) == 1
    assert "gives 's': Selu 'selu'" in capsys.readouterr().out
    assert (found / "window.onnx").is_file() and (found / "inputs.npz").is_file()


# ---- bisecting a way of running --------------------------------------------------------------------------------------


@needs_rtx
def test_bisect_names_the_node_that_the_parser_misreads(tmp_path: Path, capsys: Captured) -> None:
    source, out, found = write(tmp_path, MISREAD), tmp_path / "out.onnx", tmp_path / "found"
    run("rewrite", source, out, "--target", "8.4", "--only", "leaky-relu,instance-norm")
    capsys.readouterr()
    assert run("compare", source, out, "--no-trt", "--network", "--bisect", found) == 1
    printed = capsys.readouterr().out
    assert re.search(
        r"smallest window that differs on the network of tensorrt_rtx \S+ gives 'u': Trilu 'triangle'", printed
    )
    assert [n.op_type for n in onnx.load(found / "window.onnx").graph.node] == ["Trilu"]
    (again,) = re.findall("surgeon compare (.*)$", printed, re.MULTILINE)
    words = [str(found / w) if (found / w).is_file() else w for w in again.split()]
    capsys.readouterr()
    assert run("compare", *words) == 1
    assert re.search("^ONNX Runtime  u .* equal$", capsys.readouterr().out, re.MULTILINE)


@needs_rtx
def test_the_models_themselves_come_first(tmp_path: Path, capsys: Captured) -> None:
    """Where ONNX Runtime tells the two apart, what the parser makes of one of them says nothing new."""
    source = write(tmp_path, MISREAD)
    other = write(tmp_path, MISREAD.replace("Cos(t)", "Sin(t)"), "other.onnx")
    assert run("compare", source, other, "--no-trt", "--network", "--bisect", tmp_path / "found") == 1
    assert "the first tensor that differs is 'c'" in capsys.readouterr().out


class Optimised(Way):
    """ONNX Runtime with its optimisations: it multiplies a Mul after a Conv into the weights,
    where these can get lost."""

    title = "ONNX Runtime, optimised"

    def __init__(self) -> None:
        self.marks: list[int] = []

    def start(self, proto: onnx.ModelProto, path: Path | None = None, inputs: Sequence[dict] = ()) -> Running:  # type: ignore[override]
        import onnxruntime
        from polygraphy.backend.onnxrt import OnnxrtRunner

        self.marks.append(len(proto.graph.output) - 1)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return Running(self.title, OnnxrtRunner(session))


# The weights are 1e-30 and the scale 3e-15: their product is a denormal number, 3 steps from 0.
FUSED = """(float[1,1,9,9] x) => (float[1,1,7,7] y)
  <float big = {1e25}, float[1,1,1] small = {3e-15}, float up = {1e20}> {
  [first] a = Abs(x)
  [scale] b = Mul(a, big)
  [conv] c = Conv <kernel_shape = [3, 3]> (b, w)
  [down] d = Mul(c, small)
  [up] e = Mul(d, up)
  [root] f = Sqrt(e)
  [end] y = Neg(f)
}"""


def fused_models() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """An original and a 'rewritten' model in which other nodes make every tensor: each is the output of a window."""
    after = model(FUSED)
    after.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 1, 3, 3), 1e-30, np.float32), "w"))
    before = onnx.ModelProto()
    before.CopyFrom(after)
    for node in before.graph.node:
        node.attribute.append(onnx.helper.make_attribute("other", 1))
    return before, after


def test_bisect_finds_what_only_fusion_makes_differ() -> None:
    before, after = fused_models()
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 1, 9, 9)).astype(np.float32)}
    way = Optimised()
    found = bisect_way(before, after, way, feeds)
    assert isinstance(found, Culprit), found
    assert {"Conv 'conv'", "Mul 'down'"} <= set(found.nodes) and len(found.nodes) <= 3, found.nodes
    assert "fusion over them takes part" in str(found)
    assert way.marks[0] == 6, "at first every window's output is marked"


def test_bisect_says_where_nothing_differs() -> None:
    before, after = fused_models()
    feeds = {"x": np.zeros((1, 1, 9, 9), np.float32)}
    assert bisect_way(before, after, Optimised(), feeds) == "the model as a whole agrees now"


def test_bisect_reads_external_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    proto = model(
        "(float[2,64] x) => (float[2,64] y) <float a = {0.1}> { t = MatMul(x, w) m = Mul(t, a) y = Max(t, m) }"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), "w"))
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    other.graph.node[1].op_type = "Sub"
    for name, item in (("in.onnx", proto), ("other.onnx", other)):
        onnx.save(item, tmp_path / name, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    assert (
        run("compare", tmp_path / "in.onnx", tmp_path / "other.onnx", "--no-trt", "--bisect", tmp_path / "found") == 1
    )
    window = onnx.load(tmp_path / "found" / "window_rewritten.onnx")
    assert [n.op_type for n in window.graph.node] == ["Sub"]


def halves(tmp_path: Path) -> tuple[Path, Path, onnx.ModelProto]:
    """A model and its form in half precision, which overflows far inside fp32's range."""
    source, out = tmp_path / "in.onnx", tmp_path / "half.onnx"
    proto = model("(float[N,8] x) => (float[N,8] y) { a = MatMul (x, w) b = Relu (a) y = MatMul (b, w) }")
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, source)
    result = convert(proto)
    assert not result.failed and result.half
    onnx.save(result.model, out)
    return source, out, result.model


def test_compare_calls_right_what_fp16_calls_right(tmp_path: Path, capsys: Captured) -> None:
    """It is the same standard: inputs that occur, every tensor of 16 bits rounded."""
    source, out, _ = halves(tmp_path)
    assert run("compare", source, out, "--no-trt") == 0
    assert "runs with every tensor of 16 bits rounded" in " ".join(capsys.readouterr().out.split())


def test_bisect_finds_the_window_in_half_precision(tmp_path: Path, capsys: Captured) -> None:
    source, out, wrong = halves(tmp_path)
    last = next(n for n in wrong.graph.node if n.op_type == "Relu")
    last.op_type = "Abs"
    onnx.save(wrong, out)
    assert run("compare", source, out, "--no-trt", "--bisect", tmp_path / "found") == 1
    said = capsys.readouterr().out
    assert "Abs" in said or "'b'" in said, said
    assert "does not run" not in said
    found = tmp_path / "found"
    words = ("--no-trt", "--data", found / "inputs.npz")
    assert run("compare", found / "window_original.onnx", found / "window_rewritten.onnx", *words) == 1


def test_nothing_excuses_a_large_error(tmp_path: Path, capsys: Captured) -> None:
    """Rounding the weights of a difference leaves little of it: that is an error of the conversion like any other."""
    proto = model("(float[N,8] x) => (float[N,8] y) { a = MatMul (x, v) b = MatMul (x, w) y = Sub (a, b) }")
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    for name, array in (("v", weights), ("w", weights * np.float32(1.001))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    result = convert(proto, allow_inexact=True)
    assert result.failed and result.errors[0].relative > 0.01, result.errors
    onnx.save(proto, tmp_path / "in.onnx")
    onnx.save(result.model, tmp_path / "half.onnx")
    words = ("compare", tmp_path / "in.onnx", tmp_path / "half.onnx", "--no-trt")
    assert run(*words) == 1
    assert "is above the tolerance 0.01" in " ".join(capsys.readouterr().out.split())
    assert run(*words, "--tolerance", "0.9") == 0


def test_rows_that_are_chosen_may_change_places() -> None:
    """A TopK of scores that are nearly alike: the boxes are compared row by row, and a wrong box is seen."""
    body = "s = MatMul (x, w) q = Squeeze (s, last) v, i = TopK (q, k) j = Unsqueeze (i, last) e = Expand (j, four) "
    proto = model(
        f"(float[1,50,8] x) => (float[1,20,4] y) {{ {body} b = MatMul (x, u) y = GatherElements <axis = 1> (b, e) }}"
    )
    rng = np.random.default_rng(1)
    arrays = {"w": rng.standard_normal((8, 1)) * 1e-2, "u": rng.standard_normal((8, 4))}
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    for name, numbers in (("last", [-1]), ("k", [20]), ("four", [1, 20, 4])):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(numbers, np.int64), name))
    x = rng.standard_normal((1, 50, 8)).astype(np.float32)
    x[:, 25:] = x[:, :25] * np.float32(1.0001)
    result = convert(proto, data=[{"x": x}])
    assert not result.failed and result.gain == (2, 2), (result.errors, result.gain)
    wrong = onnx.ModelProto.FromString(result.model.SerializeToString())
    next(n for n in wrong.graph.node if n.op_type == "GatherElements").input[0] = "b"
    for tensor in wrong.graph.initializer:
        if tensor.name.startswith("u"):
            tensor.CopyFrom(
                onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)[:, ::-1].copy(), tensor.name)
            )
    trial = Comparison(proto, Samples.of([{"x": x}]), kind="data", base=None)
    assert any(e.why for e in trial.errors(wrong))


def test_engines_before_8_5_have_a_runner_of_their_own() -> None:
    """That it runs is shown on TensorRT 8.4 and a GPU; here, that Polygraphy takes it for a runner."""
    from polygraphy.backend.base import BaseRunner

    runner = BindingsRunner(lambda: None, name="old")
    assert isinstance(runner, BaseRunner) and runner.name == "old"


@needs_rtx
@pytest.mark.parametrize(
    ("opset", "line", "named"),
    [
        (17, "u = Selu (h)", "Selu"),
        (17, "u = GlobalLpPool <p = 3> (h)", "GlobalLpPool"),
        (21, "u = GroupNormalization <num_groups = 1> (h, b, b)", "GroupNormalization"),
    ],
)
def test_bisect_finds_each_mistake_of_the_parser(opset: int, line: str, named: str) -> None:
    """In the midst of nodes that it reads right, with no original beside it."""
    body = f"""(float[2,3,8,8] x) => (float[2,3,c,d] y) <float a = {{0.1}}, float[3] b = {{1, 2, 3}}> {{
      m = Mul (x, a) l = Max (x, m) h = Neg (l) [odd] {line} t = Mul (u, a) s = Abs (t) y = Neg (s)
    }}"""
    proto = model(body, opset=opset)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    found = bisect_way(proto, proto, ParsedNetwork(), {"x": x})
    assert isinstance(found, Culprit), found
    assert (found.output, found.nodes) == ("u", [f"{named} 'odd'"])
