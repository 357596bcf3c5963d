"""Half precision of large models: their weights stay on disk, and the converted ones are written to a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError
from surgeon.ir import weight_file
from surgeon.precision import convert

SIZE = 64
WEIGHTS = {"table": (32, SIZE), "v": (SIZE, SIZE), "w": (SIZE, SIZE), "b": (SIZE,)}
TEXT = f"""<ir_version: 8, opset_import: ["" : 17]>
g (int64[1,N] ids, float[1,N,{SIZE}] x) => (float[1,N,32] y) <int64[2] sizes = {{0, {SIZE // 2}}}> {{
    rows = Gather (table, ids)
    given = Add (rows, x)
    first = MatMul (given, v)
    shifted = Add (first, b)
    soft = Softmax (shifted)
    second = MatMul (soft, w)
    turned = Transpose <perm = [1, 0]> (table)
    y = MatMul (second, turned)
}}"""


def written(folder: Path, *, external: bool) -> Path:
    """A file of the model: its weights inside, or in a file beside it without their lengths."""
    rng, model, data = np.random.default_rng(0), onnx.parser.parse_model(TEXT), b""
    for name, shape in WEIGHTS.items():
        array = rng.standard_normal(shape).astype(np.float32)
        if external:
            tensor = TensorProto(name=name, data_type=1, dims=shape, data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "model.weights"), ("offset", str(len(data)))):
                tensor.external_data.add(key=key, value=value)
            model.graph.initializer.append(tensor)
            data += array.tobytes()
        else:
            model.graph.initializer.append(helper.make_tensor(name, 1, shape, array.reshape(-1)))
    (folder / "model.weights").write_bytes(data)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# The command, and the most memory that it held besides what is mapped of files, in bytes.
MEASURED = """
import re, sys, threading, time
from surgeon.app.cli import main
peak = 0
def watch():
    global peak
    while True:
        found = re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())
        peak = max(peak, int(found[1]) * 1024)
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
print(main(sys.argv[1:]), peak)
"""
MOST_MEMORY = 1.5e9


def held(model: ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


@pytest.mark.parametrize("way", ["fp16", "bf16", "half"])
@pytest.mark.parametrize("external", [True, False], ids=["external", "inside"])
def test_a_large_model_is_converted_as_a_small_one(
    way: str, external: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = written(tmp_path, external=external), tmp_path / "out.onnx"
    options = {way: True, "target": "rtx"}
    small = surgeon.rewrite(source, **options)
    monkeypatch.setattr(weight_file, "LARGE", 1 << 10)
    large = surgeon.rewrite(source, **options)
    assert small.precision.errors == large.precision.errors and large.precision.errors
    assert [f.suffix for f in large.save(out)] == [".onnx", ".data"]
    loaded = onnx.load(out)
    kept, made = held(small.model), held(loaded)
    assert kept.keys() == made.keys()
    for name, array in kept.items():
        assert array.dtype == made[name].dtype and np.array_equal(array, made[name]), name
    assert list(small.model.graph.node) == list(loaded.graph.node)
    assert main(["compare", str(source), str(out)]) == 0
    assert f"error {small.precision.errors[0].relative:.1e}" in capsys.readouterr().out


def test_weights_that_a_caller_may_replace_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_file, "LARGE", 1 << 10)
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1,{SIZE}] x, float[{SIZE},{SIZE}] w) => (float[1,{SIZE}] y)'
        " { y = MatMul (x, w) }"
    )
    rng = np.random.default_rng(0)
    model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((SIZE, SIZE)).astype(np.float32), "w"))
    result = convert(model)
    assert not result.failed and result.errors
    assert not result.model.graph.initializer[0].external_data


def test_a_second_conversion_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_file, "LARGE", 1 << 10)
    source, once, twice = written(tmp_path, external=True), tmp_path / "once.onnx", tmp_path / "twice.onnx"
    for before, after in ((source, once), (once, twice)):
        assert main(["rewrite", str(before), str(after), "--fp16", "--target", "rtx"]) == 0
    assert list(onnx.load(once).graph.node) == list(onnx.load(twice).graph.node)
    made, again = held(onnx.load(once)), held(onnx.load(twice))
    assert made.keys() == again.keys() and all(np.array_equal(made[n], again[n]) for n in made)


@pytest.mark.parametrize("command", ["fix", "rewrite"])
def test_reports_and_trials_read_the_weights(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is run, loaded, parsed or compared after the conversion has its weights in two folders."""
    monkeypatch.setattr(weight_file, "LARGE", 1 << 10)
    source, out, page = written(tmp_path, external=True), tmp_path / "out.onnx", tmp_path / "report.html"
    to = ["-o", str(out)] if command == "fix" else [str(out), "--verify", "full"]
    assert main([command, str(source), *to, "--target", "rtx", "--half", "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "equal" in printed and "TensorRT-RTX supports all" in printed
    assert out.exists() and "Precision" in page.read_text()


def test_no_room_for_the_weights_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, tensor = weight_file.WeightFile(), numpy_helper.from_array(np.zeros(1000, np.float32), "w")
    monkeypatch.setattr(file, "_path", Path("/dev/full"))
    with pytest.raises(ModelError, match=r"do not fit .*no space left on device. Let TMPDIR name"):
        file.store(tensor)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads what a process took as Linux counts it")
def test_two_gigabytes_are_converted_in_bounded_memory(tmp_path: Path) -> None:
    """The memory is that of the largest tensor, a quarter of a GB, and what ONNX Runtime maps of the files."""
    size, layers = 8192, 9
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,{size}] x) => (float[1,4,{size}] m{layers}) {{ '
        + " ".join(f"m{k + 1} = MatMul ({f'm{k}' if k else 'x'}, w{k})" for k in range(layers))
        + " }"
    )
    row = np.random.default_rng(0).standard_normal(size * 64).astype(np.float32) / np.float32(np.sqrt(size))
    with (tmp_path / "model.weights").open("wb") as file:
        for k in range(layers):
            tensor = model.graph.initializer.add(name=f"w{k}", data_type=1, dims=[size, size])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "model.weights"), ("offset", str(file.tell()))):
                tensor.external_data.add(key=key, value=value)
            for shift in range(size // 64):
                file.write(np.roll(row, 97 * shift + k).tobytes())
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "rewrite", "model.onnx", "out.onnx", "--fp16", "--target", "rtx"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, peak = map(int, done.stdout.split()[-2:])
    assert status == 0 and "not compared" not in done.stdout, done.stdout
    assert peak < MOST_MEMORY, peak
    assert sum(f.stat().st_size for f in tmp_path.glob("out.onnx.*")) == 2 * layers * size * size
