"""Files in a pipeline: written whole or not at all, whatever happens meanwhile; and unusual names and streams."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import program
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from surgeon.app.cli import main
from surgeon.ir.files import put, write

ROOT = Path(__file__).resolve().parent.parent
OLD = b"the model of yesterday"
# Undoes what a process inherits that was started in the background, or by nohup.
HEARING = (
    "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "for name in {'SIGTERM', 'SIGHUP'} & set(dir(signal)): signal.signal(getattr(signal, name), signal.SIG_DFL)"
)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")


def model(folder: Path, name: str = "in.onnx", width: int = 3, external: bool = False) -> Path:
    """A LeakyRelu of two nodes after a multiplication with a weight."""
    nodes = [("Mul", "x", "w", "h"), ("Mul", "h", "a", "m"), ("Max", "h", "m", "y")]
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [out], name=f"the {out}") for op, *inputs, out in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        [numpy_helper.from_array(np.ones(width, np.float32), "w"), numpy_helper.from_array(np.float32(0.1), "a")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    extra = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 1000} if external else {}
    onnx.save(proto, folder / name, **extra)
    return folder / name


def surgeon_alone(*words: str | Path, code: str = "", **how: object) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own; `code` runs in it first."""
    start = f"{code}\nfrom surgeon.app.cli import program\nprogram()"
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", start, *words],
        **{"capture_output": True, "text": True, "check": False, "cwd": ROOT, **how},
    )


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# ---- whole or not at all ---------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("most", [100, 1500], ids=["for the model", "for the report after it"])
def test_no_room_leaves_the_old_output(most: int, tmp_path: Path) -> None:
    """A limit on the size of files ends a write as a full disk does."""
    source, out = model(tmp_path), tmp_path / "out.onnx"
    out.write_bytes(OLD)
    limit = f"import resource as r\nr.setrlimit(r.RLIMIT_FSIZE, ({most}, r.RLIM_INFINITY))"
    done = surgeon_alone("rewrite", source, out, "--target", "8.4", "--report", tmp_path / "r.html", code=limit)
    assert done.returncode == 2, done
    assert "cannot be written: file too large." in done.stderr
    assert out.read_bytes() == OLD
    assert names(tmp_path) == ["in.onnx", "out.onnx"]


@POSIX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_old_output(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "out.onnx").write_bytes(OLD)
    code = (
        f"{HEARING}\nimport os, pathlib, sys, time\nfrom surgeon.ir.files import Staged\n"
        "with Staged() as staged:\n"
        "    staged.place(pathlib.Path(sys.argv[1])).write_bytes(b'half of')\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "out.onnx"], capture_output=True, cwd=ROOT)
    assert done.returncode == -number, done
    assert names(tmp_path) == ["out.onnx"] and (tmp_path / "out.onnx").read_bytes() == OLD


@POSIX
def test_an_interrupt_that_somebody_takes_for_his_own_failure(tmp_path: Path) -> None:
    """ONNX Runtime does while it is imported: no window could be proved, and the model was written without them."""
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "deaf.py").write_text(
        '"""Hear nothing.\n\nWhy  A test.\n"""\nimport os, signal, time\n'
        "from surgeon import Stage, op, rewrite, var\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass\n\n\n"
        '@rewrite(op.Neg(op.Neg(var("x"))), stage=Stage.FUSE)\ndef deaf(b, x):\n    return x\n',
        encoding="utf-8",
    )
    source, out = model(tmp_path), tmp_path / "out.onnx"
    out.write_bytes(OLD)
    done = surgeon_alone("rewrite", source, out, "--target", "8.4", "--passes", tmp_path / "passes", code=HEARING)
    assert done.returncode == 130 and "interrupted" in done.stderr, done
    assert out.read_bytes() == OLD and names(tmp_path) == ["in.onnx", "out.onnx", "passes"]


@POSIX
@pytest.mark.parametrize(("way", "status"), [("-m", 130), ("surgeon", 130), ("mine.py", -signal.SIGINT)])
def test_an_interrupt_while_modules_are_imported(way: str, status: int, tmp_path: Path) -> None:
    """The program says what it says later; another one that imports surgeon gets its own KeyboardInterrupt."""
    (tmp_path / "sitecustomize.py").write_text(HEARING)
    (tmp_path / "onnx.py").write_text(
        "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\nfinally:\n"
        "    print('unwound')\n"
    )
    (tmp_path / "mine.py").write_text("import surgeon")
    (tmp_path / "surgeon").write_text("from surgeon.__main__ import program\nprogram()")
    words = ["-m", "surgeon"] if way == "-m" else [tmp_path / way]
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *words, "passes"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == status, done
    if status == 130:
        assert (done.stdout, done.stderr) == ("", "surgeon: interrupted; no file was left half written.\n")
    else:
        assert "KeyboardInterrupt" in done.stderr and done.stdout == "unwound\n"


def test_a_proof_needs_onnx_runtime(tmp_path: Path) -> None:
    """One that does not load is not a reason to leave every window alone."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "onnxruntime.py").write_text("raise ImportError('no such library: libfoo.so')")
    computed = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3] x) => (float[3,2] y) <int64[2] a = {1, 0}, int64[2] b = {2, 2}> {
            s = Add (a, b)  y = Reshape (x, s) }""")
    double = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (double[N,3] x) => (double[N,3] y) <double slope = {0.25}> { z = Mul (x, slope)  y = Max (x, z) }""")
    onnx.save(computed, tmp_path / "computed.onnx")
    onnx.save(double, tmp_path / "double.onnx")
    unproved = [model(tmp_path).name, "computed.onnx", "double.onnx"]
    code = f"""import sys; sys.path.insert(0, {str(tmp_path / "broken")!r})
from surgeon.app.cli import main
assert main(["rewrite", "in.onnx", "out.onnx", "--target", "8.4"]) == 2
for name in {unproved}:
    assert main(["rewrite", name, f"{{name}}.out", "--target", "8.4", "--verify", "none"]) == 0"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and not (tmp_path / "out.onnx").exists(), done
    assert "surgeon: onnxruntime does not load: no such library: libfoo.so. onnxruntime 1.2" in done.stderr
    assert [n.op_type for n in onnx.load(tmp_path / "computed.onnx.out").graph.node] == ["Reshape"]


def test_several_files_are_written_together(tmp_path: Path) -> None:
    files = {tmp_path / "a": b"1", tmp_path / "b": b"2"}
    put(files)
    assert {p: p.read_bytes() for p in files} == files
    assert names(tmp_path) == ["a", "b"]


@POSIX
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    source, real = model(tmp_path), tmp_path / "store" / "real.onnx"
    real.parent.mkdir()
    for there in (False, True):
        link = tmp_path / f"link{there}.onnx"
        link.symlink_to(real)
        assert real.exists() is there
        assert main(["rewrite", str(source), str(link), "--target", "8.4"]) == 0
        assert link.is_symlink() and [n.op_type for n in onnx.load(real).graph.node] == ["Mul", "LeakyRelu"]


def test_two_runs_at_once_share_their_weights(tmp_path: Path) -> None:
    """None of them takes the half copied weights of another one for those of another model."""
    source, out = model(tmp_path, width=1 << 23, external=True), tmp_path / "out"
    out.mkdir()
    words = [sys.executable, "-m", "surgeon", "rewrite", source, out / "out.onnx", "--verify", "none"]
    runs = [subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(r.wait(), r.communicate()[1]) for r in runs] == [(0, "")] * 3
    assert names(out) == ["out.onnx", "weights.bin"]
    assert (out / "weights.bin").read_bytes() == (tmp_path / "weights.bin").read_bytes()


def test_a_large_fp16_model_replaces_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written twice, the file of the weights does not grow, and the model in memory keeps them."""
    from surgeon.precision import convert

    monkeypatch.setattr("surgeon.ir.files.LARGE", 100)
    result, out = convert(onnx.load(model(tmp_path, width=1000))), tmp_path / "half.onnx"
    before = result.model.SerializeToString(deterministic=True)
    for _ in range(2):
        result.save(out, {tmp_path / "r.json": b"{}"})
        assert result.model.SerializeToString(deterministic=True) == before
        (data,) = [name for name in names(tmp_path) if re.fullmatch(r"half\.onnx\.[0-9a-f]{16}\.data", name)]
        assert names(tmp_path) == ["half.onnx", data, "in.onnx", "r.json"]
        assert (tmp_path / data).stat().st_size == 2000
    weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}
    assert weights["w"].dtype == np.float16 and (weights["w"] == 1).all()


# ---- what is read is never written -----------------------------------------------------------------------------------


def test_compare_overwrites_nothing_that_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, data = model(tmp_path, "window.onnx"), tmp_path / "inputs.npz"
    np.savez(data, x=np.ones((1, 3), np.float32))
    before = {p: p.read_bytes() for p in (source, data)}
    for words in (
        ["--save-inputs", source], ["--save-outputs", source], ["--data", data, "--save-inputs", data],
        ["--bisect", tmp_path], ["--data", data, "--bisect", tmp_path],
    ):  # fmt: skip
        assert main(["compare", str(source), str(source), "--no-trt", *map(str, words)]) == 2
        assert "is the input itself" in capsys.readouterr().err
    assert main(["compare", str(source), str(source), "--no-trt", "--bisect", str(data)]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("option", [[], ["--report"]])
def test_a_dash_is_no_file(option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who asks for it means standard output."""
    out = [str(tmp_path / "out.onnx")] if option else []
    assert main(["rewrite", str(model(tmp_path)), *out, *option, "-", "--target", "8.4"]) == 2
    assert "writes files, not pipes" in capsys.readouterr().err
    assert names(tmp_path) == ["in.onnx"] and not Path("-").exists()


# ---- what is not a file ----------------------------------------------------------------------------------------------


@POSIX
def test_a_pipe_is_neither_input_nor_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, pipe = model(tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["rewrite", str(source), str(pipe), "--target", "8.4"]) == 2
    assert "is a device or a pipe" in capsys.readouterr().err
    assert main(["rewrite", str(pipe), str(tmp_path / "out.onnx"), "--target", "8.4"]) == 2
    assert "is a pipe or a device" in capsys.readouterr().err
    assert main(["rewrite", "-", str(tmp_path / "out.onnx"), "--target", "8.4"]) == 2
    assert "surgeon reads files, not pipes." in capsys.readouterr().err
    assert names(tmp_path) == ["in.onnx", "pipe"] and pipe.is_fifo()


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a b.onnx", "-dash.onnx", "mod\u00e8le \u6a21\u578b \U0001f600.onnx", "it's.onnx", "%s{}$.onnx"]
)
def test_unusual_names(name: str, tmp_path: Path) -> None:
    source, out = model(tmp_path, name), tmp_path / f"{name}.out.onnx"
    words = ["rewrite", source, out, "--target", "8.4", "--report", f"{out}.json", "--report", f"{out}.html"]
    assert program.surgeon(*words, "--verify", "full").returncode == 0
    assert names(tmp_path) == sorted([name, out.name, f"{out.name}.json", f"{out.name}.html"])
    assert program.surgeon("compare", "--no-trt", "--", source.name, out.name, cwd=tmp_path).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are not text")
def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    source, out = os.fsencode(model(tmp_path)), os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.rename(source, out + b".onnx")
    words = ["rewrite", out + b".onnx", out + b".out.onnx", "--target", "8.4", "--report", out + b".html"]
    done = surgeon_alone(*words, env={**os.environ, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:strict"})  # type: ignore[arg-type]
    assert done.returncode == 0, done
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"caf\xe9.html", b"caf\xe9.onnx", b"caf\xe9.out.onnx"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are not text")
@pytest.mark.parametrize(
    "words",
    [
        ["compare", "in.onnx", "in.onnx"],
        ["compare", "caf\udce9.onnx", "caf\udce9.onnx", "--network"],
        ["build", "caf\udce9.onnx", "out.engine", "--with", "rtx"],
        ["rewrite", "in.onnx", "out.onnx", "--target", "rtx", "--fp16"],
    ],
    ids=" ".join,
)
def test_a_name_that_a_library_takes_for_no_text(words: list[str], tmp_path: Path) -> None:
    """In a folder, with weights of its own there, or of a model that TensorRT's parser is to open."""
    if {"--network", "rtx"} & set(words) and "--fp16" not in words:
        pytest.importorskip("tensorrt_rtx")
    (tmp_path / "ours").mkdir()
    model(tmp_path / "ours", external=True, width=1000)
    model(tmp_path / "ours", "caf\udce9.onnx")
    folder = (tmp_path / "ours").rename(tmp_path / "caf\udce9")
    done = program.surgeon(*words, cwd=folder)
    assert done.returncode == 2, done
    assert "is not UTF-8" in done.stderr and "defect" not in done.stderr and "argument" not in done.stderr
    assert names(folder) == ["caf\udce9.onnx", "in.onnx", "weights.bin"]


def test_words_that_are_no_text(tmp_path: Path) -> None:
    done = program.surgeon("rewrite", model(tmp_path), tmp_path / "out.onnx", "--fp16", "--keep-fp32", "caf\udce9")
    assert done.returncode == 2 and "'caf\\udce9' is none of these" in done.stderr, done


def test_a_command_to_type_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "in.onnx").write_bytes((ROOT / "samples/style_transfer/style_transfer_ts_op11.onnx").read_bytes())
    (tmp_path / "in.onnx").rename(tmp_path / "the model.onnx")
    done = program.surgeon("check", "the model.onnx", "--target", "8.4", cwd=tmp_path)
    assert done.returncode == 1 and "surgeon fix 'the model.onnx' --for 8.4" in done.stdout


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_cannot_spell_a_name(tmp_path: Path) -> None:
    source, out = model(tmp_path, "mod\u00e8le.onnx"), tmp_path / "out.onnx"
    done = surgeon_alone("rewrite", source, out, "--target", "8.4", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done
    assert "mod\\xe8le.onnx, target 8.4" in done.stdout and out.exists()


@POSIX
@pytest.mark.parametrize("stream", [1, 2])
def test_a_closed_stream(stream: int, tmp_path: Path) -> None:
    source, out = model(tmp_path), tmp_path / "out.onnx"
    command = f'"{sys.executable}" -m surgeon "$@" {stream}>&-'
    for words, status in ((["rewrite", source, out, "--target", "8.4"], 0), (["check", "none.onnx"], 2)):
        done = subprocess.run(["sh", "-c", command, "sh", *words], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == status, done
        assert "defect" not in done.stdout + done.stderr and "Traceback" not in done.stdout + done.stderr
    assert out.exists()


@POSIX
@pytest.mark.parametrize(("unbuffered", "others"), [
    ("", [(["check", "no.onnx"], 2)]), ("1", [(["passes"], 0), (["rewrite", "--help"], 0)]),
])  # fmt: skip
def test_a_reader_that_went_away_changes_nothing(
    unbuffered: str, others: list[tuple[list[str], int]], tmp_path: Path
) -> None:
    source, out = model(tmp_path), tmp_path / "out.onnx"
    for words, status in [(["rewrite", source, out, "--target", "8.4"], 0), *others]:
        leader, follower = os.pipe()
        os.close(leader)
        done = subprocess.run(
            [sys.executable, "-m", "surgeon", *words],
            stdout=follower, stderr=follower, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
        os.close(follower)
        assert done.returncode == status, words
    assert out.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_printed_is_told(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = surgeon_alone("passes", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2, done
    assert re.search(r"standard output cannot be .*no space left on device", done.stderr) and "None" not in done.stderr


def test_no_folder_is_made_that_a_name_only_passes_through(tmp_path: Path) -> None:
    source = model(tmp_path, width=400, external=True)
    (tmp_path / "out").mkdir()
    done = program.surgeon("rewrite", source, tmp_path / "out" / "new" / ".." / "out.onnx", "--target", "8.4")
    assert done.returncode == 0, done.stderr
    assert names(tmp_path / "out") == ["out.onnx", "weights.bin"]


def test_weights_apart_are_named_by_what_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends between the two files leaves a model beside its own weights."""
    monkeypatch.chdir(tmp_path)
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N,400] x) => (float[N,400] y) { y = Add (x, w) }'
    )
    seen = []
    for number in (1, 2, 2):
        del proto.graph.initializer[:]
        proto.graph.initializer.append(numpy_helper.from_array(np.full(400, number, np.float32), "w"))
        path, weights = write(proto, Path("out.onnx"), apart=True)
        assert names(tmp_path) == ["out.onnx", weights.name], "the weights of the model before are gone"
        assert np.all(numpy_helper.to_array(onnx.load(path).graph.initializer[0]) == number)
        seen.append(weights.name)
    assert seen[0] != seen[1] == seen[2]


def test_a_file_of_weights_by_two_names_is_carried_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { a = Add (x, v)  y = Add (a, w) }'
    )
    (tmp_path / "in" / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    for name, place in (("v", "w.bin"), ("w", "./w.bin")):
        tensor = proto.graph.initializer.add(name=name, data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=place)
    (tmp_path / "in" / "m.onnx").write_bytes(proto.SerializeToString())
    assert main(["rewrite", str(tmp_path / "in" / "m.onnx"), str(tmp_path / "out" / "m.onnx")]) == 0
    assert names(tmp_path / "out") == ["m.onnx", "w.bin"]
