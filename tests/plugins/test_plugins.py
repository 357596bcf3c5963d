"""The plugin library: its table, its build and its messages; on a GPU, its kernels.

What needs a compiler, TensorRT's headers (SURGEON_TENSORRT_HEADERS=DIR, or several, separated by the path separator)
or a GPU skips with the reason where there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from surgeon.trt.plugins import NAMESPACE, load, plugins
from surgeon.trt.plugins import build as building
from surgeon.trt.plugins.build import BuildError

HERE = Path(__file__).resolve().parent
SOURCES = Path(building.__file__).resolve().parent
HEADERS = [Path(p) for p in os.environ.get(building.HEADERS_VARIABLE, "").split(os.pathsep) if p]
NVCC = shutil.which("nvcc")


def _has_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    return bool(smi) and subprocess.run([str(smi), "-L"], capture_output=True, check=False).returncode == 0


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++) here")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no CUDA compiler (nvcc) here")
needs_headers = pytest.mark.skipif(not HEADERS, reason=f"{building.HEADERS_VARIABLE} names no TensorRT headers")
needs_gpu = pytest.mark.skipif(not _has_gpu(), reason="no NVIDIA GPU here: the plugins' kernels were NOT run")


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _headers(folder: Path, major: str, minor: str, style: str = "NV_TENSORRT_{}") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "NvInfer.h").write_text("", encoding="utf-8")
    lines = [
        f"#define {style.format('MAJOR')} {major} //!< major",
        f"#define {style.format('MINOR')} {minor} //!< minor",
    ]
    (folder / "NvInferVersion.h").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


# ------------------------------------------------------------------------------------------------------ the table


def test_every_line_of_the_table_is_read() -> None:
    text = building.SOURCES.joinpath("fields.def").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r"(PLUGIN|FIELD|CHOICE)\(", line)]
    read = sum(1 + len(p.fields) + sum(len(f.choices) for f in p.fields) for p in plugins().values())
    assert read == len(lines) == 22


def test_the_table_holds_what_the_passes_emit() -> None:
    assert NAMESPACE == "surgeon"
    assert {name: [f.name for f in p.fields] for name, p in plugins().items()} == {
        "SurgeonL2Norm": ["axis", "epsilon", "mode"],
        "SurgeonInstanceNorm": ["epsilon", "slope"],
        "SurgeonReflectPad": ["pads", "mode"],
        "SurgeonLeakyRelu": ["alpha"],
        "SurgeonPRelu": [],
    }
    modes = ("max_norm", "add_norm", "max_sum", "add_sum", "min_reciprocal")
    assert plugins()["SurgeonL2Norm"].field("mode").choices == modes
    assert plugins()["SurgeonReflectPad"].field("pads").default is None
    assert plugins()["SurgeonInstanceNorm"].field("slope").default == 1.0
    assert all(p.version == "1" for p in plugins().values())


def test_no_op_type_is_one_that_parsers_block() -> None:
    assert not {"Gelu", "Mish", "LRelu", "InstanceNormalization"} & set(plugins())
    assert all(name.startswith("Surgeon") for name in plugins())


@needs_compiler
def test_the_creators_read_the_same_table(tmp_path: Path) -> None:
    source = tmp_path / "dump.cpp"
    source.write_text(
        """#include "src/attributes.h"
#include <cstdio>
int main() {
  for (int k = 0; k < int(surgeon::Kind::kCount); ++k) {
    auto const& p = surgeon::plugin_info(surgeon::Kind(k));
    std::printf("%s %s %d %d\\n", p.name, p.version, p.fewest_inputs, p.most_inputs);
    for (auto const& f : p.fields) {
      std::printf("  %s %d %s", f.name, int(f.type), f.text);
      for (auto const& c : f.choices) std::printf(" %s", c.c_str());
      std::printf("\\n");
    }
  }
}
""",
        encoding="utf-8",
    )
    program = tmp_path / "dump"
    subprocess.run(["g++", "-std=c++17", f"-I{SOURCES}", str(source), "-o", str(program)], check=True)
    kinds = {"INT": 0, "FLOAT": 1, "STRING": 2, "INTS": 3}
    want = []
    for p in plugins().values():
        want.append(f"{p.name} {p.version} {p.inputs[0]} {p.inputs[1]}")
        want += [" ".join([f" {f.name}", str(kinds[f.kind])]) for f in p.fields]
    got = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [re.sub(r"^(  \S+ \d).*", r"\1", line) for line in got] == [
        line.replace(" ", "  ", 1) if line[0] == " " else line for line in want
    ]
    for line, field in zip(
        (w for w in got if w[0] == " "), (f for p in plugins().values() for f in p.fields), strict=True
    ):
        text, *choices = line.split()[2:]
        assert tuple(choices) == field.choices
        assert (
            text == "REQUIRED"
            if field.default is None
            else text.strip('"') == str(field.default) or float(text) == field.default
        )


@needs_compiler
def test_corrupt_blobs_are_refused_by_the_host_code_alone(tmp_path: Path) -> None:
    source = tmp_path / "blobs.cpp"
    source.write_text(
        """#include "src/attributes.h"
#include <cstdio>
#include <memory>
#include <vector>
using namespace surgeon;
int main() {
  Attributes a; a.axis = 1; a.epsilon = 1e-6f; a.mode = 4; a.pads_count = 8;
  std::vector<unsigned char> blob(kSerializedSize);
  int bad = 0;
  for (int k = 0; k < int(Kind::kCount); ++k) {
    serialize(Kind(k), a, blob.data());
    bool const modes = Kind(k) != Kind::kSurgeonReflectPad; // four modes there: mode 4 is nonsense
    if (deserialize(Kind(k), blob.data(), blob.size()).error.empty() != modes) ++bad, std::puts("whole");
    for (size_t n = 0; n < blob.size(); ++n) {
      std::unique_ptr<unsigned char[]> cut(new unsigned char[n ? n : 1]); // n bytes: reading past them is caught
      std::memcpy(cut.get(), blob.data(), n);
      if (deserialize(Kind(k), cut.get(), n).error.empty()) ++bad, std::puts("cut");
    }
    for (size_t i = 0; i < blob.size() * 8; ++i) {
      auto flipped = blob; flipped[i / 8] ^= 1 << i % 8;
      if (deserialize(Kind(k), flipped.data(), flipped.size()).error.empty()) ++bad, std::puts("flipped");
    }
  }
  return bad;
}
""",
        encoding="utf-8",
    )
    program = tmp_path / "blobs"
    flags = ["-std=c++17", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["g++", *flags, f"-I{SOURCES}", str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------------------------------------------ the build


def test_a_missing_compiler_is_said_with_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if Path("/usr/local/cuda/bin/nvcc").exists():
        pytest.skip("this machine has /usr/local/cuda/bin/nvcc")
    with pytest.raises(BuildError, match="no CUDA compiler.*Install the CUDA toolkit.*CUDACXX"):
        building.find_nvcc()


def test_missing_headers_are_said_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="NvInfer.h.*not found under.*wheels bring none.*libnvinfer-headers-dev"):
        building.find_headers(tmp_path)


@pytest.mark.parametrize("inner", ["", "include", "include/x86_64-linux-gnu"])
@pytest.mark.parametrize("style", ["NV_TENSORRT_{}", "TRT_{}_ENTERPRISE"])
def test_headers_are_found_and_their_version_read(tmp_path: Path, inner: str, style: str) -> None:
    folder = _headers(tmp_path / inner, "10", "13", style)
    assert building.find_headers(tmp_path) == building.Headers(folder.resolve(), (10, 13))


def test_headers_that_are_too_old_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"TensorRT 8\.0's, and the plugins need 8\.2"):
        building.find_headers(_headers(tmp_path, "8", "0"))


def test_architectures() -> None:
    codes = [75, 80, 86, 90, 100, 120]
    assert building.choose_architectures("90", codes) == ("90-real",)
    assert building.choose_architectures("8.6,sm_90", codes) == ("86-real", "90-real")
    assert building.choose_architectures("all", codes) == (*(f"{c}-real" for c in codes), "120-virtual")
    assert building.choose_architectures("130", codes) == ("120-virtual",)
    with pytest.raises(BuildError, match=r"does not compile for compute capability 7\.0.*older CUDA toolkit"):
        building.choose_architectures("70", codes)
    with pytest.raises(BuildError, match="--arch hopper is not understood"):
        building.choose_architectures("hopper", codes)


def test_native_without_a_gpu_says_what_to_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="no NVIDIA GPU was found.*--arch 90.*--arch all"):
        building.choose_architectures("native", [90])


def test_native_asks_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _script(tmp_path / "nvidia-smi", "echo 9.0; echo 8.6")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert building.choose_architectures("native", [86, 90]) == ("86-real", "90-real")


def test_a_failed_compilation_is_one_paragraph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvcc = _script(tmp_path / "nvcc", "echo 'nvcc fatal: broken'; exit 1")
    monkeypatch.setenv("CUDACXX", str(nvcc))
    if shutil.which("cmake") is None:
        pytest.skip("no cmake here")
    with pytest.raises(BuildError, match=r"does not run.*nvcc fatal: broken") as raised:
        building.build(_headers(tmp_path / "include", "8", "4"), "90", tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user")
def test_a_user_without_a_home_is_told_to_name_a_folder() -> None:
    code = (
        "import os\nfrom surgeon.trt.plugins.build import BuildError, default_folder\nos.setuid(54321)\n"
        "try: default_folder(8)\nexcept BuildError as error: print(error)"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "no home folder" in done.stdout and "--out DIR" in done.stdout


def test_loading_nothing_says_how_to_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="does not exist. Build it with `surgeon plugins build`"):
        load(tmp_path / "libsurgeon_plugins.so")
    (tmp_path / "broken.so").write_text("not a library", encoding="utf-8")
    with pytest.raises(BuildError, match="cannot be loaded"):
        load(tmp_path / "broken.so")


@pytest.fixture
def in_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library in the user's cache that writes the file `ran` beside the cache when it is loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SURGEON_PLUGINS", raising=False)
    major = int(import_module("tensorrt").__version__.split(".")[0]) if find_spec("tensorrt") is not None else 10
    folder = building._made_folder(None, major)
    source = tmp_path / "library.c"
    source.write_text(
        "#include <fcntl.h>\n#include <unistd.h>\n"
        f"int surgeon_plugins_tensorrt_major(void) {{ return {major}; }}\n"
        f'__attribute__((constructor)) void ran(void) {{ close(open("{tmp_path}/ran", O_CREAT | O_WRONLY, 0600)); }}\n'
    )
    library = folder / building.LIBRARY
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    library.chmod(0o755)
    return library


@needs_compiler
def test_a_library_of_this_user_is_loaded(in_cache: Path, tmp_path: Path) -> None:
    assert building.built_library(None) == in_cache
    load()
    assert (tmp_path / "ran").exists()


@needs_compiler
@pytest.mark.parametrize("spoiled", ["library", "folder", "folder above"])
def test_a_library_that_others_can_write_is_not_loaded(spoiled: str, in_cache: Path, tmp_path: Path) -> None:
    place = {"library": in_cache, "folder": in_cache.parent, "folder above": in_cache.parent.parent}[spoiled]
    place.chmod(0o777)
    with pytest.raises(BuildError, match=rf"not loaded.*other users can write '{place}' \(mode 0777\).*--out DIR"):
        load()
    assert not (tmp_path / "ran").exists()
    if spoiled == "library":
        assert building.private_files.make_folder(in_cache.parent) == in_cache.parent  # a build replaces the file
        return
    with pytest.raises(BuildError, match=r"not built in your cache: other users can write.*chmod go-w.*--out DIR"):
        building._made_folder(None, 10)


@needs_compiler
def test_a_library_that_is_named_is_loaded_from_anywhere(
    in_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cache.chmod(0o777)
    monkeypatch.setenv("SURGEON_PLUGINS", str(in_cache))
    load()
    assert (tmp_path / "ran").exists()


def test_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, types; s = types.ModuleType('surgeon'); s.__path__ = [sys.argv[1]]; sys.modules['surgeon'] = s;"
        "import surgeon.trt.plugins; print(sorted({'numpy', 'onnx', 'onnxruntime', 'polygraphy', 'tensorrt'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SOURCES.parent)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_stock_library_is_named_in_the_sources() -> None:
    for path in sorted(p for p in (SOURCES / "src").rglob("*") if p.is_file()):
        assert not re.search(r"cudnn|cublas", path.read_text(encoding="utf-8"), re.IGNORECASE), path.name


@needs_compiler
@needs_headers
@pytest.mark.parametrize("headers", HEADERS, ids=str)
def test_the_plugin_classes_compile(headers: Path, tmp_path: Path) -> None:
    runtime = _cuda_include()
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-Wno-deprecated-declarations"]
    includes = ["-isystem", str(building.find_headers(headers).folder), "-isystem", runtime]
    subprocess.run(["g++", *flags, *includes, str(SOURCES / "src/plugins.cpp")], check=True)


@needs_nvcc
@needs_compiler
@needs_headers
@pytest.mark.parametrize("headers", HEADERS, ids=str)
def test_a_built_library_keeps_the_contract(headers: Path, tmp_path: Path) -> None:
    """Builds it as `surgeon plugins build` does, and drives its creators against the stub (minutes of compilation)."""
    result = building.build(headers, "native" if _has_gpu() else "90", tmp_path)
    assert str(result.library) in building.how_to_load(result)
    major = result.tensorrt[0]
    stub = tmp_path / "stub.c"
    stub.write_text("void *getPluginRegistry(void) { return 0; }\n", encoding="utf-8")
    soname = f"libnvinfer.so.{major}"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", str(stub), "-o", str(tmp_path / soname)], check=True
    )
    program = tmp_path / "plugin_test"
    compile_test = [
        str(NVCC), "-std=c++17", "-cudart", "static", "-Xcompiler", "-Wno-deprecated-declarations",
        "-isystem", str(result.headers), str(HERE / "plugin_test.cpp"), "-o", str(program), "-ldl",
    ]  # fmt: skip
    subprocess.run(compile_test, check=True)
    arguments = [str(result.library), *(["gpu"] if _has_gpu() else [])]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout


def _cuda_include() -> str:
    if NVCC is None:
        pytest.skip("no CUDA toolkit here, and so no cuda_runtime_api.h")
    dry = subprocess.run([NVCC, "--dryrun", "-x", "cu", "-c", os.devnull], capture_output=True, text=True, check=False)
    found = re.search(r'^#\$ INCLUDES="-I([^"]+)"', dry.stderr, re.MULTILINE)
    if found is None:
        pytest.skip("nvcc --dryrun names no include folder")
    return found.group(1).strip()


# -------------------------------------------------------------------------------------------------------- the GPU


@pytest.mark.gpu
@needs_gpu
@needs_nvcc
@pytest.mark.parametrize("mode", ["quick", "check"])
def test_the_kernels_agree_with_float64(mode: str, tmp_path: Path) -> None:
    program = tmp_path / "kernels_test"
    sources = [str(HERE / "kernels_test.cu"), *map(str, sorted(SOURCES.glob("src/*.cu")))]
    subprocess.run([str(NVCC), "-std=c++17", "-O3", "-arch=native", *sources, "-o", str(program)], check=True)
    done = subprocess.run([str(program), mode], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
