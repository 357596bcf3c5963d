"""A folder must not run code: what is in the current folder, in a configuration file or in a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from surgeon.app import trust
from surgeon.app.cli import main

NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = 0.001> (x, s, b)
}"""
# Each is imported by surgeon, by a library, or by a process that surgeon starts.
IMPORTED = ("__future__", "json", "numpy", "onnx", "onnxruntime", "polygraphy", "signal", "surgeon_evil", "threading")
Captured = pytest.CaptureFixture[str]


def surgeon(folder: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "surgeon", *map(str, words)]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with a model."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / ".git").mkdir()
    onnx.save(onnx.parser.parse_model(NORM), folder / "in.onnx")
    return folder


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the record of trusted folders is kept: outside the checkout."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SURGEON_TRUST", raising=False)
    return tmp_path / "config" / "surgeon" / "trusted.json"


# ---- modules in the current folder -----------------------------------------------------------------------------------


def test_no_module_of_the_current_folder_is_imported(folder: Path) -> None:
    """Neither by `python -m surgeon`, nor by the process that loads models, nor by one that a batch starts."""
    for name in IMPORTED:
        (folder / f"{name}.py").write_text("open('ran', 'a').write(f'{__name__}\\n')\n")
    (folder / "evil.egg-info").mkdir()
    (folder / "evil.egg-info" / "entry_points.txt").write_text("[surgeon.passes]\nevil = surgeon_evil\n")
    (folder / "evil.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    done = surgeon(folder, "rewrite", ".", "-o", "out/", "--target", "8.4")
    assert done.returncode == 0 and "1 done" in done.stdout, done.stderr
    assert not (folder / "ran").exists(), (folder / "ran").read_text()


# ---- passes of a configuration file ----------------------------------------------------------------------------------


PASS = '''"""It shows that it ran."""

from pathlib import Path

from surgeon import Stage, op, rule, var

Path(__file__).with_name("ran").touch()
x = var("x")


@rule(op.Relu(op.Abs(x)), stage=Stage.FUSE)
def fuse(b, x):
    return b.Abs(x)
'''


def passes(folder: Path) -> Path:
    """A folder with a pass that leaves a file `ran` where it runs."""
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(PASS)
    return folder


def ran(folder: Path) -> bool:
    found = folder / "ran"
    was_there = found.exists()
    found.unlink(missing_ok=True)
    return was_there


def run(*words: str | Path) -> int:
    return main([str(w) for w in words])


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout, where the user is; its configuration names the passes in `mine`."""
    monkeypatch.chdir(folder)
    passes(folder / "mine")
    (folder / "surgeon.toml").write_text('target = "8.4"\npasses = ["mine"]\n')
    return folder


@pytest.mark.parametrize("words", [("check", "in.onnx"), ("rewrite", "in.onnx", "out.onnx"), ("fix", "in.onnx")])
@pytest.mark.parametrize("name", ["surgeon.toml", "pyproject.toml"])
def test_a_configuration_runs_no_code(name: str, words: tuple[str, ...], here: Path, capsys: Captured) -> None:
    if name == "pyproject.toml":
        text = (here / "surgeon.toml").read_text()
        (here / name).write_text(f"[tool.surgeon]\n{text}")
        (here / "surgeon.toml").unlink()
    assert run(*words) == 2
    first, said = capsys.readouterr().err.splitlines()
    assert first == f"surgeon: options from '{here / name}': target, passes"
    assert f"'{here / 'mine'}', and that folder is not trusted" in said
    assert f"surgeon trust {here / 'mine'}" in said and f"SURGEON_TRUST={here / 'mine'}" in said
    assert not ran(here / "mine") and not (here / "out.onnx").exists()


def test_what_the_command_line_names_runs(here: Path) -> None:
    assert run("rewrite", "in.onnx", "--check", "--passes", "mine") == 4
    assert ran(here / "mine")


def test_a_trusted_folder_runs(here: Path, capsys: Captured) -> None:
    assert run("trust", "mine") == 0
    assert run("check", "in.onnx") == 1 and ran(here / "mine")
    assert run("trust", "--list") == 0
    assert str(here / "mine") in capsys.readouterr().out
    assert run("trust", "--forget", "mine") == 0
    assert run("check", "in.onnx") == 2 and not ran(here / "mine")
    assert run("trust", "--forget", "mine") == 2


def test_a_folder_covers_what_is_below_and_nothing_else(here: Path, tmp_path: Path) -> None:
    assert run("trust", here) == 0
    assert run("check", "in.onnx") == 1 and ran(here / "mine")
    for name in ("elsewhere", "checkout-2"):  # of the second the text begins as that of the trusted one
        other = passes(tmp_path / name)
        (here / "surgeon.toml").write_text(f'passes = ["../{name}"]\n')
        assert run("check", "in.onnx") == 2 and not ran(other)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_link_widens_nothing(here: Path, tmp_path: Path, capsys: Captured) -> None:
    other = passes(tmp_path / "elsewhere")
    assert run("trust", here) == 0
    (here / "link").symlink_to(other)
    (here / "surgeon.toml").write_text('passes = ["link"]\n')
    assert run("check", "in.onnx") == 2 and not ran(other)
    assert f"'{other}', and that folder is not trusted" in capsys.readouterr().err
    (here / "files").mkdir()
    (here / "files" / "mine.py").symlink_to(other / "mine.py")
    (here / "surgeon.toml").write_text('passes = ["files"]\n')
    assert run("check", "in.onnx") == 2 and not ran(here / "files")


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_what_a_link_led_to_is_trusted(here: Path, tmp_path: Path) -> None:
    """Neither the link nor what it leads to later."""
    link, other = tmp_path / "link", passes(tmp_path / "elsewhere")
    link.symlink_to(here / "mine")
    assert run("trust", link) == 0
    link.unlink()
    link.symlink_to(other)
    (here / "surgeon.toml").write_text(f'passes = ["{link}"]\n')
    assert run("check", "in.onnx") == 2 and not ran(other)
    (here / "mine" / "mine.py").unlink()
    (here / "mine").rmdir()
    (here / "mine").symlink_to(other)
    (here / "surgeon.toml").write_text('passes = ["mine"]\n')
    assert run("check", "in.onnx") == 2 and not ran(other), "a trusted folder that has become a link"


def test_the_variable(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("SURGEON_TRUST", os.pathsep.join(("", str(tmp_path / "nowhere"), str(here))))
    assert run("check", "in.onnx") == 1 and ran(here / "mine")
    assert run("trust", "--list") == 0
    assert "from SURGEON_TRUST" in capsys.readouterr().out
    monkeypatch.setenv("SURGEON_TRUST", ".")
    assert run("check", "in.onnx") == 2 and not ran(here / "mine")
    assert "SURGEON_TRUST names '.', which is not an absolute path" in capsys.readouterr().err


# ---- the record ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_the_record_is_private(here: Path, record: Path, capsys: Captured) -> None:
    record.parent.mkdir(parents=True, mode=0o755)
    assert run("trust", "mine") == 0
    assert record.stat().st_mode & 0o777 == 0o600 and record.parent.stat().st_mode & 0o777 == 0o700
    for path, mode in ((record, 0o620), (record, 0o602), (record.parent, 0o770)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert run("check", "in.onnx") == 2 and not ran(here / "mine")
        assert "is not counted: other users can write" in capsys.readouterr().err
        assert run("trust", here) == 2, "nothing is added to what others may have written"
        path.chmod(before)
    assert run("check", "in.onnx") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_the_record_of_another_user(
    here: Path, record: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("trust", "mine") == 0
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    (here / "surgeon.toml").chmod(0o644)
    assert run("check", "in.onnx") == 2 and not ran(here / "mine")
    assert "is not counted: another user (" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[", "{}", '["."]', "[1]", "\udcff"])
def test_a_record_that_is_none(text: str, here: Path, record: Path, capsys: Captured) -> None:
    record.parent.mkdir(parents=True, mode=0o700)
    record.write_bytes(text.encode(errors="surrogateescape"))
    record.chmod(0o600)
    assert run("check", "in.onnx") == 2 and not ran(here / "mine")
    assert "the list of trusted folders" in capsys.readouterr().err.lower()


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_a_checkout_brings_no_record(
    variable: str, here: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home folder of a container may be the checkout."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv(variable, str(here))
    kept = here / (".config" if variable == "HOME" else "") / "surgeon"
    kept.mkdir(parents=True, mode=0o700)
    (kept / "trusted.json").write_text(json.dumps([str(here / "mine")]))
    (kept / "trusted.json").chmod(0o600)
    for name in ("in.onnx", "../checkout/in.onnx"):
        assert run("check", name) == 2 and not ran(here / "mine")
        assert f"is below '{here}' as the code is, and is not counted" in capsys.readouterr().err
    (here / ".git").rmdir()  # an archive has none
    assert run("check", "in.onnx") == 2 and not ran(here / "mine")
    monkeypatch.setattr(trust, "_home", lambda: here)
    assert run("check", "in.onnx") == 1, "the user's own home folder may have a configuration"


@pytest.mark.parametrize("home", [".", "relative"])
def test_a_home_that_is_relative_is_none(
    home: str, here: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", home)
    monkeypatch.setenv("HOME", home)
    assert run("trust", "mine") == 2
    assert "there is no home folder" in capsys.readouterr().err
    assert run("check", "in.onnx") == 2 and not ran(here / "mine")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert run("trust", "mine") == 0
    assert (tmp_path / "home" / ".config" / "surgeon" / "trusted.json").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_a_folder_that_others_may_write(here: Path, capsys: Captured) -> None:
    (here / "mine").chmod(0o777)
    assert run("trust", "mine") == 0
    assert "warning  other users can write" in capsys.readouterr().out


def test_trust_takes_folders(here: Path, capsys: Captured) -> None:
    assert run("trust") == 2
    assert run("trust", "in.onnx") == 2
    assert "is not a folder" in capsys.readouterr().err
    assert run("trust", here) == 0
    assert run("trust", "--forget", "mine") == 2
    assert f"It is below '{here}', which is." in capsys.readouterr().err


# ---- where a configuration is read -----------------------------------------------------------------------------------


def test_no_configuration_beyond_the_project(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    (folder.parent / "surgeon.toml").write_text('target = "8.4"\n')
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "surgeon.toml").write_text('target = "8.4"\n')  # between the folder and the root
    monkeypatch.chdir(folder / "a" / "b")
    assert run("check", "../../in.onnx", "--target", "10.9") == 0
    assert "options from" not in capsys.readouterr().err
    (folder / "surgeon.toml").write_text('target = "8.4"\n')
    assert run("check", "../../in.onnx", "--format", "json") == 1
    printed, said = capsys.readouterr()
    assert said == f"surgeon: options from '{folder / 'surgeon.toml'}': target\n" and json.loads(printed)
    assert run("check", "../../in.onnx", "--target", "10.9", "-q") == 0
    assert capsys.readouterr().err == ""
    (folder / ".git").rmdir()
    assert run("check", "../../in.onnx", "--target", "10.9") == 0
    assert "options from" not in capsys.readouterr().err, "without a project a folder alone counts"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_a_configuration_of_another_user(
    here: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a folder that all may write in, such as /tmp, anybody may write one."""
    monkeypatch.setattr(trust, "owned_by", lambda path, *others: path.name != "surgeon.toml")
    assert run("check", "in.onnx", "--target", "10.9") == 0
    assert f"'{here / 'surgeon.toml'}' is another user's, and is not read" in capsys.readouterr().err


# ---- a report --------------------------------------------------------------------------------------------------------


@pytest.fixture
def report(here: Path, capsys: Captured) -> Path:
    """The report of a run with passes of the checkout."""
    words = ["rewrite", "in.onnx", "out.onnx", "--passes", "mine", "--report", "r.json"]
    assert run(*words, "--target", "8.4") == 0 and ran(here / "mine")
    capsys.readouterr()
    return here / "r.json"


def changed(report: Path, **options: object) -> None:
    told = json.loads(report.read_text())
    told["record"]["options"] |= options
    report.write_text(json.dumps(told))


def test_a_report_runs_no_code(report: Path, capsys: Captured) -> None:
    mine = report.parent / "mine"
    assert run("verify", report) == 2 and not ran(mine)
    said = capsys.readouterr().err
    assert f"'{report}' asks to run the Python files in '{mine}'" in said and f"surgeon trust {mine}" in said
    assert run("trust", mine) == 0
    assert run("verify", report) == 0 and ran(mine)


def test_a_loader_that_a_report_names(report: Path, capsys: Captured) -> None:
    (report.parent / "loader.py").write_text("open('ran', 'w')\ndef load_data():\n    return []\n")
    for name in ("loader.py", str(report.parent / "loader.py"), "mine/../loader.py"):
        changed(report, passes=[], fp16=True, data=name)
        assert run("verify", report) == 2 and not ran(report.parent)
        assert f"the Python files in '{report.parent}'" in capsys.readouterr().err
    assert run("trust", report.parent) == 0
    assert run("verify", report) == 2 and ran(report.parent)  # a loader of no inputs


def test_a_report_names_no_place_to_write(here: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option in its record, or a model whose name is one."""
    name = "--report=evil.html"
    (here / "surgeon.toml").unlink()
    (here / name).write_bytes((here / "in.onnx").read_bytes())
    assert run("rewrite", "in.onnx", "out.onnx", "--target", "8.4", "--report", "r.json") == 0
    told = json.loads((here / "r.json").read_text())
    told["record"]["input"][0]["path"] = name
    told["record"]["options"] |= {"out": "evil.onnx", "report": ["evil.html"], "explain": "*", "check": True}
    (here / "r.json").write_text(json.dumps(told))
    before = sorted(here.rglob("*"))
    assert run("verify", "r.json") == 0
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"passes": "mine"}, "the option 'passes': \"mine\""),
        ({"skip": [1]}, "the option 'skip': [1]"),
        ({"fp16": "yes"}, "the option 'fp16'"),
        ({"repair_eps": []}, "the option 'repair_eps'"),
        ({"verify": "never"}, "never"),
    ],
)
def test_a_record_with_other_types(options: dict[str, object], said: str, report: Path, capsys: Captured) -> None:
    changed(report, **{"passes": []} | options)
    assert run("verify", report) == 2
    assert said in capsys.readouterr().err
