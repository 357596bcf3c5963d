"""The process that watches: crashes and too much memory end in a sentence, signals and the exit status pass through."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from helpers import model

from surgeon.ir import run
from surgeon.ir.process import Crashed, Exceeded, Fork, survived
from surgeon.ir.run import Reference, Runner, Unrunnable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is watched there")

ROOT = Path(__file__).resolve().parent.parent
MODEL = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,4] y) { a = Neg (x) y = Neg (a) }'
PASS = '''"""For a test."""
import os, signal, time
from pathlib import Path
from surgeon import Stage, op, rule, var
HERE = Path(__file__).parent


@rule(op.Neg(op.Neg(var("x"))), stage=Stage.FUSE)
def act(b, x):
    (HERE / "pid").write_text(str(os.getpid()))
    (HERE / "pid").rename(HERE / "begun")
    {}
    return x
'''


def begun(folder: Path, action: str, **environment: str) -> subprocess.Popen[str]:
    """The command on a model, with a pass that does something."""
    onnx.save(onnx.parser.parse_model(MODEL), folder / "in.onnx")
    (folder / "act.py").write_text(PASS.format(action))
    words = ["rewrite", folder / "in.onnx", folder / "out.onnx", "--target", "8.4", "--passes", folder, "--only", "act"]
    return subprocess.Popen(
        [sys.executable, "-m", "surgeon", *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup makes all tests ignore it
    )


def its_pid(folder: Path, process: subprocess.Popen[str]) -> int:
    """The process that runs the pass, once that has begun."""
    while not (folder / "begun").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return int((folder / "begun").read_text())


def has_ended(pid: int) -> bool:
    """Whether a process ends within seconds; one that nobody has waited for is a zombie."""
    for _ in range(300):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(("action", "variables", "words"), [
    ("os.kill(os.getpid(), signal.SIGSEGV)", {}, "stopped by a crash (SIGSEGV)"),
    ("os.abort()", {}, "stopped by a crash (SIGABRT)"),
    ("os.kill(os.getpid(), signal.SIGKILL)", {}, "SIGKILL, as where memory runs out"),
    ("held = bytearray(1 << 30); time.sleep(60)", {"SURGEON_MEMORY": "0.5"}, "more than 0.5 GiB of memory"),
], ids=["segfault", "abort", "kill", "memory"])  # fmt: skip
def test_an_end_is_a_sentence(action: str, variables: dict[str, str], words: str, tmp_path: Path) -> None:
    process = begun(tmp_path, action, **variables)
    said = process.communicate()[1]
    lines = 2 if "crash" in words else 1  # a program that crashes is begun once more
    assert process.returncode == 2 and words in said and said.count("\n") == lines, said
    assert not (tmp_path / "out.onnx").exists()


def test_a_program_that_crashes_is_begun_again(tmp_path: Path) -> None:
    process = begun(tmp_path, "'SURGEON_APART' in os.environ or os.abort()")
    said = process.communicate()[1]
    assert process.returncode == 0 and "Trying again, each run in a process of its own." in said, said
    assert (tmp_path / "out.onnx").exists()


def test_a_crash_of_onnx_runtime_ends_one_run() -> None:
    """Its InstanceNormalization reads beyond a tensor without elements."""
    proto = model(
        "(float[1,2,6] x) => (float[a,b,c] y) <int64[1] k = {0}, float[2] s = {1, 1}> {"
        " i = NonZero (x) i0 = Transpose <perm = [1, 0]> (i) r = GatherND (x, i0) u = Unsqueeze (r, k)"
        " v = Unsqueeze (u, k) w = Concat <axis = 1> (v, v) y = InstanceNormalization (w, s, s) }"
    )
    runner = Runner(proto)
    assert runner.run({"x": np.ones((1, 2, 6), np.float32)})[0].shape == (1, 2, 12)
    with pytest.raises(Unrunnable, match=r"ONNX Runtime crashes \(SIG"):
        runner.run({"x": np.zeros((1, 2, 6), np.float32)})


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[Fork]:
    """The forks that begin in the test, which finds none."""
    begin, begun = Fork._begun, []
    monkeypatch.setattr(run._shared, "fork", Fork(run._results_of))
    monkeypatch.setattr(Fork, "_begun", lambda fork: begun.append(fork) or begin(fork))
    return begun


EMPTY = {"x": np.ones(0, np.float32)}


def runs(text: str) -> Runner:
    return Runner(model(f"(float[N] x) => (float[N] y) {{ {text} }}"))


def test_small_models_share_the_process_of_runs_that_may_crash(forks: list[Fork]) -> None:
    for op in ("Abs", "Neg", "Abs", "Exp"):
        assert runs(f"y = {op} (x)").run(EMPTY)[0].shape == (0,)
    assert len(forks) == 1


def test_a_run_that_crashes_does_not_end_those_of_other_models(forks: list[Fork]) -> None:
    right, crashes = runs("y = Abs (x)"), lambda _: os.abort()
    right.run(EMPTY)
    forks[0]._call, kept = crashes, forks[0]._call
    forks[0].end()
    with pytest.raises(Unrunnable, match=r"ONNX Runtime crashes \(SIGABRT\)"):
        right.run(EMPTY)
    forks[0]._call = kept
    assert right.run(EMPTY)[0].shape == (0,)


@pytest.mark.parametrize("limit", ["SMALL", "KEPT"])
def test_a_large_model_or_process_has_forks_that_last_until_its_end(
    limit: str, forks: list[Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, limit, 0)
    for _ in range(2):
        runner = runs("y = Abs (x)")
        assert [runner.run(EMPTY)[0].shape for _ in range(2)] == [(0,)] * 2
        runner.end()
        assert has_ended(forks[-1]._child)
    assert len(forks) == 2


def test_a_copy_of_a_process_has_forks_of_its_own() -> None:
    """It would read the answers to the other's questions."""
    fork = Fork(lambda _: os.getpid())
    first = fork(0)
    assert survived(lambda: fork(0)) not in (first, os.getpid())
    assert fork(0) == first
    fork.end()


def test_a_call_apart_returns_and_raises() -> None:
    assert survived(lambda: np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        survived(lambda: 1 // 0)
    with pytest.raises(Crashed, match="SIGABRT"):
        survived(os.abort)
    with pytest.raises(Crashed, match="exit status 3"):
        survived(lambda: os._exit(3))


def test_a_call_apart_has_limits() -> None:
    slow: Fork[float, None] = Fork(time.sleep, seconds=0.3)
    with pytest.raises(Exceeded, match=r"takes longer than 0.3 s"):
        slow(60)
    large: Fork[int, int] = Fork(lambda size: np.ones(size).sum() + time.sleep(60), memory=1 << 26)
    with pytest.raises(Exceeded, match=r"takes more than 0.0625 GiB of memory"):
        large(1 << 25)
    slow(0)  # in a new process
    slow.end()


@pytest.mark.parametrize("count", ["", "m"])
def test_a_loop_without_end_is_ended(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ONNX Runtime and in onnx's reference evaluator; nobody waits for it twice."""
    monkeypatch.setattr(run, "SECONDS", 0.5)
    proto = model(
        f"(float[3] a) => (float[3] r) <bool go = {{1}}, int64 m = {{{2**62}}}> {{ r = Loop ({count}, go, a) "
        "<body = b (int64 i, bool c, float[3] s) => (bool d, float[3] u) { d = Identity (c)  u = Abs (s) }> }"
    )
    for runner in (Runner(proto), Reference(proto)):
        with pytest.raises(Unrunnable, match="takes longer than 0.5 s"):
            runner.run({"a": np.ones(3, np.float32)})
        begun = time.monotonic()
        with pytest.raises(Unrunnable, match="takes longer"):
            runner.run({"a": np.ones(3, np.float32)})
        assert time.monotonic() - begun < 0.4


def test_a_fork_makes_one_call_after_the_other() -> None:
    """Until it crashes, which may be the fault of an earlier call, or is ended."""
    made = []

    def call(crashes_at: int) -> int:
        made.append(crashes_at)
        if crashes_at in (len(made), -1):
            os.abort()
        return os.getpid()

    fork = Fork(call)
    first, again, other = fork(0), fork(0), fork(3)
    assert first == again != os.getpid() and other not in (first, os.getpid()) and not made
    with pytest.raises(Crashed, match="SIGABRT"):
        fork(-1)
    last = fork(0)
    fork.end()
    assert has_ended(last) and has_ended(first) and has_ended(other)
    dropped = fork(0)
    del fork
    assert has_ended(dropped)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_reaches_the_program(number: signal.Signals, tmp_path: Path) -> None:
    process = begun(tmp_path, "signal.signal(signal.SIGINT, signal.default_int_handler); time.sleep(60)")
    pid = its_pid(tmp_path, process)
    assert pid != process.pid
    process.send_signal(number)
    said = process.communicate()[1]
    assert process.returncode == (130 if number == signal.SIGINT else -number), said
    assert has_ended(pid)


def test_the_program_ends_with_the_one_that_watches(tmp_path: Path) -> None:
    process = begun(tmp_path, "time.sleep(60)")
    pid = its_pid(tmp_path, process)
    process.kill()
    process.wait()
    assert has_ended(pid)


def test_the_status_is_that_of_the_program(tmp_path: Path) -> None:
    process = begun(tmp_path, "pass")
    assert process.wait() == 0 and (tmp_path / "out.onnx").exists()


def test_onnx_runtime_optimizes_a_norm_whose_last_input_is_left_out() -> None:
    """ONNX Runtime 1.32 itself dies of it."""
    normed = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, float[3] s) => (float[2,3] y) '
        '{ n = LayerNormalization (x, s, "") t = Add (n, x) y = Exp (t) }'
    )
    assert len(normed.graph.node[0].input) == 3
    feeds = {"x": np.float32([[1, 2, 4], [0, 3, 9]]), "s": np.float32([1, 2, 3])}
    (plain,), (optimized,) = (Runner(normed, optimized=o).run(feeds) for o in (False, True))
    assert np.allclose(plain, optimized)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "(float[A,7] x) => (float[4,K] y) <int64[2] s = {4, -1}> { [split] y = Reshape (x, s) }",
            "ONNX Runtime fails at Reshape 'split': The input tensor cannot be reshaped to the requested shape. "
            "Input shape:{1,7}, requested shape:{4,-1}",
        ),
        (
            "(float[A,B] x) => (float[A,C] y) <float[2,1] m = {1, 2}> { y = MatMul (x, m) }",
            "ONNX Runtime fails at MatMul: Compute MatMul dimension mismatch",
        ),
    ],
)
def test_what_onnx_runtime_says_of_a_node_is_the_node_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Unrunnable, match=f"^{re.escape(reason)}$"):
        Runner(model(text, opset=17)).run({"x": np.zeros((1, 7), np.float32)})
