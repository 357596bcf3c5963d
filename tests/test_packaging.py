"""The installed package: the wheel, the editable installation, and mypy over both of its source folders."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import typecheck
from wheel import SOURCES, build

ROOT = Path(__file__).resolve().parent.parent
WHERE = (
    "import surgeon, surgeon.passes, surgeon.rules.registry, sys\n"
    "print(surgeon.__file__); print(surgeon.passes.__file__)\n"
    "print(len(surgeon.rules.registry.passes()))"
)


def listed() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return set(config["options"]["packages"].split())


def test_setup_cfg_lists_every_package() -> None:
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "surgeon").rglob("__init__.py")}
    inside = {".".join(("surgeon", *p.parent.relative_to(ROOT).parts)) for p in (ROOT / "passes").rglob("__init__.py")}
    assert listed() == found | inside


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.mark.long
def test_wheel_holds_everything(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    passes = {"surgeon/" + str(p.relative_to(ROOT)).replace(os.sep, "/") for p in (ROOT / "passes").rglob("*.py")}
    modules = {str(p.relative_to(ROOT)).replace(os.sep, "/") for p in (ROOT / "surgeon").rglob("*.py")}
    plugins = {
        str(p.relative_to(ROOT)).replace(os.sep, "/")
        for p in (ROOT / "surgeon" / "plugins").rglob("*")
        if p.is_file() and p.suffix in (".cu", ".cuh", ".cpp", ".h", ".def", ".txt")
    }
    missing = (passes | modules | plugins | {"surgeon/py.typed"}) - names
    assert not missing
    assert not [n for n in names if n.startswith(("tests/", "samples/", "passes/"))]
    assert any(n.endswith("licenses/LICENSE") or n.endswith("dist-info/LICENSE") for n in names)


@pytest.mark.long
def test_wheel_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """A new environment that sees surgeon's dependencies (from this one),
    but neither this tree nor its editable install."""
    python = environment(tmp_path / "clean")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True)
    package, passes, count = imported(python, tmp_path)
    assert Path(package).is_relative_to(tmp_path / "clean")
    assert Path(passes).parent.name == "passes" and Path(passes).is_relative_to(tmp_path / "clean")
    assert int(count) == len(list((ROOT / "passes").glob("[a-z]*.py")))
    command = python.parent / ("surgeon.exe" if sys.platform == "win32" else "surgeon")
    done = subprocess.run([command, "passes"], capture_output=True, text=True, check=True, cwd=tmp_path, env=outside())
    assert "leaky-relu" in done.stdout


@pytest.mark.long
def test_editable_installation(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in SOURCES:
        (source / name).symlink_to(ROOT / name) if (ROOT / name).is_file() else shutil.copytree(
            ROOT / name, source / name
        )
    python = environment(tmp_path / "clean")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", str(source)], check=True)
    package, passes, count = imported(python, tmp_path)
    assert Path(package).is_relative_to(source / "surgeon")
    assert Path(passes).is_relative_to(source / "passes")
    assert int(count) == len(list((ROOT / "passes").glob("[a-z]*.py")))


def environment(folder: Path) -> Path:
    """A fresh virtual environment with pip, which finds surgeon's dependencies where this one has them."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    mine = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    Path(site, "dependencies.pth").write_text("\n".join(dependencies(mine, folder)) + "\n")
    return python


def dependencies(folders: list[str], around: Path) -> list[str]:
    """The site-packages folders as a folder of links that leaves out whatever belongs to surgeon."""
    links = around / "dependencies"
    links.mkdir()
    for folder in folders:
        for item in Path(folder).iterdir():
            named = item.name.lower()
            if "surgeon" in named and "onnx" not in named or item.suffix == ".pth" or "editable" in named:
                continue
            if (
                named.startswith(("pip", "setuptools", "_distutils_hack", "pkg_resources"))
                or (links / item.name).exists()
            ):
                continue
            (links / item.name).symlink_to(item)
    return [str(links)]


def outside() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


def imported(python: Path, folder: Path) -> list[str]:
    done = subprocess.run([python, "-c", WHERE], capture_output=True, text=True, check=False, cwd=folder, env=outside())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# ---- mypy ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_type_error_in_a_pass_is_found(tmp_path: Path) -> None:
    installed = typecheck.lay_out(tmp_path)
    wrong = installed / "passes" / "wrong.py"
    wrong.write_text(
        '"""Wrong."""\n\nfrom surgeon import require\n\n\ndef body() -> int:\n    require(True, 1)\n    return "one"\n'
    )
    status, output = typecheck.run(tmp_path)
    assert status == 1
    assert 'passes/wrong.py:7: error: Argument 2 to "require" has incompatible type "int"' in output
    assert "passes/wrong.py:8: error: Incompatible return value type" in output


@pytest.mark.long
def test_a_misspelt_option_is_a_type_error(tmp_path: Path) -> None:
    """Of every public function: none takes whatever it is given."""
    installed = typecheck.lay_out(tmp_path)
    (installed / "wrong.py").write_text(
        "from surgeon.pipeline.check import check\n"
        "from surgeon.trt.rewriting import rewrite, rewrite_file\n"
        "from surgeon.trt.compare import compare\n"
        "from surgeon.trt.engine import build\n"
        "from surgeon.trt.polygraphy import RewriteOnnx\n\n"
        'rewrite("m.onnx", traget="8.4")\nrewrite("m.onnx", verify="all")\n'
        'rewrite_file("m.onnx", "n.onnx", onyl=["pad"])\n'
        'check("m.onnx", traget="8.4")\ncompare("m.onnx", "n.onnx", netwrok=True)\n'
        'build("m.onnx", "m.engine", fp61=True)\n'
        'RewriteOnnx("m.onnx", traget="8.4")\n'
    )
    status, output = typecheck.run(tmp_path)
    assert status == 1
    found = [
        line.split(":")[1] for line in output.splitlines() if line.startswith("surgeon/wrong.py") and ": error" in line
    ]
    assert found == ["7", "8", "9", "10", "11", "12", "13"], output
