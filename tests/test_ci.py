"""What a pipeline uses: options from a file, the hooks of pre-commit, the GitHub Action."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest
import yaml

from surgeon.app.cli import main

ROOT = Path(__file__).resolve().parent.parent
NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = 0.001> (x, s, b)
}"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(onnx.parser.parse_model(NORM), tmp_path / "in.onnx")
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


# ---- options from a file ---------------------------------------------------------------------------------------------


def test_options_of_the_nearest_file(folder: Path, capsys: Captured) -> None:
    (folder / "pyproject.toml").write_text('[tool.surgeon]\ntarget = "8.4"\nskip = ["instance-norm"]\n')
    assert main(["rewrite", "../in.onnx", "--check"]) == 3
    assert f"target 8.4 (from {folder / 'pyproject.toml'})" in capsys.readouterr().out
    assert main(["rewrite", "../in.onnx", "--check", "--skip", "fold"]) == 4
    assert main(["rewrite", "../in.onnx", "--check", "--target", "10.9"]) == 0
    assert "(from" not in capsys.readouterr().out.splitlines()[-3]
    (folder / "below" / "surgeon.toml").write_text('target = "10.9"\n')
    assert main(["check", "../in.onnx"]) == 0
    assert main(["fix", "../in.onnx"]) == 0
    assert "TensorRT 10.9 supports the only node" in capsys.readouterr().out


def test_every_option_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine").mkdir()
    monkeypatch.setenv("SURGEON_TRUST", str(folder))
    (folder / "surgeon.toml").write_text(
        'target = "8.4"\nonly = ["instance-norm"]\nskip = ["fold"]\nplugins = ["surgeon"]\npasses = ["mine"]\n'
        '[shapes]\nx = [2, 3, 8, 8]\n[strategy]\n"instance-norm" = "plugin"\n'
    )
    assert main(["rewrite", "../in.onnx", "../out.onnx", "--verify", "full"]) == 0
    assert [n.op_type for n in onnx.load(folder / "out.onnx").graph.node] == ["SurgeonInstanceNorm"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("targt = '8.4'", "Did you mean 'target'?"),
        ("target = 8.4", "is text"),
        ("skip = 'fold'", "is a list of texts"),
        ("strategy = ['a=b']", "is a table"),
        ("shapes = {x = 'axb'}", "sizes are numbers"),
        ("target = ", "is not TOML"),
    ],
)
def test_a_file_that_says_nonsense(text: str, said: str, folder: Path, capsys: Captured) -> None:
    (folder / "surgeon.toml").write_text(text)
    assert main(["rewrite", "../in.onnx", "--check"]) == 2
    assert said in capsys.readouterr().err
    assert main(["passes", "-q"]) == 0, "a command without these options does not read the file"


def test_a_project_without_options_changes_nothing(folder: Path, capsys: Captured) -> None:
    (folder / "pyproject.toml").write_text("[tool.other]\nname = 'surgeon'\n")
    assert main(["rewrite", "../in.onnx", "--check", "--target", "10.9"]) == 0


# ---- hooks and action ------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose `surgeon` is this one."""
    program = tmp_path / "bin" / "surgeon"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m surgeon "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_the_hooks(folder: Path, environment: dict[str, str]) -> None:
    (folder / "surgeon.toml").write_text('target = "8.4"\n')
    assert main(["rewrite", "../in.onnx", "../good.onnx", "-q"]) == 0
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [h["id"] for h in hooks] == ["surgeon-check", "surgeon-rewritten"]
    for hook in hooks:
        assert re.search(hook["files"], "models/in.onnx") and not re.search(hook["files"], "--passes=evil/in.onnx")
        for names, good in ((["good.onnx"], True), (["good.onnx", "in.onnx"], False)):
            done = subprocess.run([*shlex.split(hook["entry"]), *names], cwd=folder, env=environment)
            assert (done.returncode == 0) == good, hook["id"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
def test_the_action(folder: Path, environment: dict[str, str], tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    given = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
    given |= {"models": "*.onnx", "target": "8.4", "options": "--strict --skip fold"}
    for name in ("--passes=evil.onnx", "evil.onnx"):  # a checkout chooses its names: they are not options
        (folder / name).mkdir()
    (folder / "evil.onnx" / "evil.py").write_text("raise SystemExit(9)")
    values = {key: given[text.split("inputs.")[1].split()[0]] for key, text in step["env"].items()}
    for options, status in (("--strict --skip fold", 0), ("--no-such-option", 2)):
        said = tmp_path / f"output{status}"
        runner = {"RUNNER_TEMP": str(tmp_path / "temp"), "GITHUB_OUTPUT": str(said), "OPTIONS": options}
        done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=folder, env={**environment, **values, **runner})
        outputs = dict(line.split("=") for line in said.read_text().splitlines())
        assert done.returncode == status and outputs["status"] == str(status)
        assert outputs.keys() == action["outputs"].keys()
    assert (folder / "rewritten" / "in.onnx").is_file()
    assert (folder / outputs["manifest"]).is_file() and any((folder / outputs["reports"]).iterdir())


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
def test_the_action_leaves_the_python_of_the_job_alone(tmp_path: Path) -> None:
    """It installs surgeon into an environment of its own."""
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-2]
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "tests", "demo-out"))
    env = {**os.environ, "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(source)}
    path = f"{Path(sys.executable).parent}:{env['PATH']}"
    done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env={**env, "PATH": path})
    assert done.returncode == 0
    told = subprocess.run([tmp_path / "surgeon" / "bin" / "surgeon", "--version"], capture_output=True, text=True)
    assert told.stdout.startswith("surgeon")
