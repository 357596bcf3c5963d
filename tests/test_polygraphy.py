"""surgeon inside Polygraphy: the loader composed with Polygraphy's own, and the extension of `polygraphy run`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import onnx
import onnx.parser
import pytest

ROOT = Path(__file__).resolve().parent.parent
LEAKY = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float[2,3] y) <float a = {0.1}> {
  [times] m = Mul(x, a)
  [larger] y = Max(x, m)
}"""
WITH_THE_LOADER = """
import os
os.environ["POLYGRAPHY_USE_TENSORRT_RTX"] = "1"
from polygraphy.backend.onnx import BytesFromOnnx, OnnxFromPath
from polygraphy.backend.trt import NetworkFromOnnxBytes
from surgeon.trt.polygraphy import RewriteOnnx

builder, network, parser = NetworkFromOnnxBytes(BytesFromOnnx(RewriteOnnx(OnnxFromPath({path!r}), target="rtx")))()
print([network.get_layer(i).type.name for i in range(network.num_layers)])
"""


def write(folder: Path) -> Path:
    path = folder / "in.onnx"
    onnx.save(onnx.parser.parse_model(LEAKY), path)
    return path


def python(code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)


def test_the_loader_composes(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
    done = python(WITH_THE_LOADER.format(path=str(write(tmp_path))))
    assert done.stdout.splitlines()[-1:] == ["['ACTIVATION']"], done


@pytest.mark.parametrize("kind", ["path", "bytes", "model", "loader"])
def test_the_loader_takes_what_polygraphy_gives(kind: str, tmp_path: Path) -> None:
    from surgeon.trt.polygraphy import RewriteOnnx, RewrittenOnnxBytes, RewrittenOnnxPath

    path = write(tmp_path)
    model = {
        "path": str(path),
        "bytes": path.read_bytes(),
        "model": onnx.load(path),
        "loader": lambda: onnx.load(path),
    }[kind]
    assert [n.op_type for n in RewriteOnnx(model, target="8.4")().graph.node] == ["LeakyRelu"]
    assert [n.op_type for n in onnx.load_model_from_string(RewrittenOnnxBytes(model, target="8.4")()).graph.node] == [
        "LeakyRelu"
    ]
    loader = RewrittenOnnxPath(model, target="8.4")
    assert [n.op_type for n in onnx.load(loader()).graph.node] == ["LeakyRelu"]


def test_what_surgeon_refuses_is_polygraphys_exception(tmp_path: Path) -> None:
    from polygraphy.exception import PolygraphyException

    from surgeon.trt.polygraphy import RewriteOnnx

    with pytest.raises(PolygraphyException, match="no target is called 'eight'"):
        RewriteOnnx(str(write(tmp_path)), target="eight")()


# ---- polygraphy run --------------------------------------------------------------------------------------------------


def polygraphy_run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`polygraphy run` in a process that knows the entry point, from the installed surgeon or
    from a folder made here."""
    paths = [str(ROOT)]
    if "surgeon" not in {e.name for e in entry_points(group="polygraphy.run.plugins")}:
        info = folder / "extension-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extension\nVersion: 0\n")
        (info / "entry_points.txt").write_text(
            "[polygraphy.run.plugins]\nsurgeon = surgeon.trt.polygraphy:export_argument_groups\n"
        )
        paths.append(str(folder))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "POLYGRAPHY_USE_TENSORRT_RTX": "1"}
    code = "import sys; from polygraphy.tools import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, "run", *words], capture_output=True, text=True, check=False, env=env
    )


def test_setup_cfg_has_the_entry_point() -> None:
    assert "surgeon = surgeon.trt.polygraphy:export_argument_groups" in (ROOT / "setup.cfg").read_text()


def test_onnx_runtime_gets_the_original_and_tensorrt_the_rewritten_model(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
    path, script = write(tmp_path), tmp_path / "script.py"
    done = polygraphy_run(
        tmp_path, str(path), "--surgeon-target", "rtx", "--onnxrt", "--trt", "--gen-script", str(script)
    )
    assert done.returncode == 0, done
    text = script.read_text()
    assert f"SessionFromOnnx({str(path)!r}" in text
    assert f"RewrittenOnnxPath({str(path)!r}, target='rtx'" in text
    assert "NetworkFromOnnxPath(rewrite_onnx" in text and text.count("RewrittenOnnx") == 2, "an import and a use"
    head, _, _ = text.partition("# Runners")
    parsed = python(
        "import os; os.environ['POLYGRAPHY_USE_TENSORRT_RTX'] = '1'\n"
        + head
        + "\nprint(parse_network_from_onnx()[1].num_layers, len(bytes(build_engine())) > 1000)"
    )
    assert parsed.stdout.splitlines()[-1:] == ["1 True"], parsed


def test_the_option_without_tensorrt_says_that_it_does_nothing(tmp_path: Path) -> None:
    path = write(tmp_path)
    done = polygraphy_run(tmp_path, str(path), "--surgeon-target", "8.4", "--onnxrt", "--seed", "1")
    assert done.returncode == 0, done
    assert "--surgeon-target 8.4 does nothing: it rewrites the model that TensorRT gets" in done.stdout + done.stderr


def test_the_option_with_an_engine_says_that_it_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.engine").write_bytes(b"an engine")
    words = [str(tmp_path / "m.engine"), "--surgeon-target", "8.4", "--trt", "--gen-script", str(tmp_path / "s.py")]
    done = polygraphy_run(tmp_path, *words)
    assert "no parser reads a model of the type 'engine'" in done.stdout + done.stderr, done


def test_a_run_says_what_was_done(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from polygraphy.logger import G_LOGGER

    from surgeon.trt.polygraphy import RewriteOnnx

    with G_LOGGER.verbosity(G_LOGGER.INFO):
        rewritten = RewriteOnnx(str(write(tmp_path)), target="8.4")()
        assert "surgeon: TensorRT 8.4 supports the only node" in capfd.readouterr().out
        RewriteOnnx(rewritten, target="8.4")()
    assert "surgeon: nothing was rewritten: TensorRT 8.4 supports the only node" in capfd.readouterr().out


def test_without_the_option_nothing_is_rewritten(tmp_path: Path) -> None:
    path, script = write(tmp_path), tmp_path / "script.py"
    done = polygraphy_run(tmp_path, str(path), "--onnxrt", "--gen-script", str(script))
    assert done.returncode == 0, done
    assert "surgeon" not in script.read_text()


def test_options_without_a_target_are_refused(tmp_path: Path) -> None:
    done = polygraphy_run(tmp_path, str(write(tmp_path)), "--onnxrt", "--surgeon-strategy", "l2-norm=keep")
    assert done.returncode != 0
    assert "need --surgeon-target" in done.stdout + done.stderr
