"""Build the plugin library: find nvcc and TensorRT's headers, choose the GPU architectures, run CMake.

TensorRT's libraries are not needed: the plugins link against a generated stub with the same soname. One library is
built per major version of TensorRT.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from surgeon import private_files
from surgeon.errors import SurgeonError
from surgeon.private_files import NotPrivateError

SOURCES = Path(__file__).resolve().parent
LIBRARY = "libsurgeon_plugins.so"
OLDEST = (8, 2)
HEADERS_VARIABLE = "SURGEON_TENSORRT_HEADERS"
SYSTEM_ROOTS = ("/usr", "/usr/local", "/usr/local/tensorrt", "/usr/local/TensorRT", "/opt/tensorrt", "/opt/TensorRT")
INCLUDE_FOLDERS = ("", "include", "include/x86_64-linux-gnu", "include/aarch64-linux-gnu")


class BuildError(SurgeonError):
    """The plugin library cannot be built or loaded; the message says what is missing and what fixes it."""


@dataclass(frozen=True)
class Headers:
    """A folder with NvInfer.h, and the version that it declares."""

    folder: Path
    version: tuple[int, int]


@dataclass(frozen=True)
class BuildResult:
    """What was built: the library, the headers and compiler used, and the architectures (of CMake: 90-real, ...)."""

    library: Path
    tensorrt: tuple[int, int]
    headers: Path
    nvcc: Path
    architectures: tuple[str, ...]


def build(tensorrt_root: Path | None, arch: str = "native", out: Path | None = None) -> BuildResult:
    """Build libsurgeon_plugins.so.

    ``tensorrt_root``: a folder with TensorRT's headers, or with include/ in it; None looks in the usual places.
    ``arch``: "native" (the GPUs of this machine), "all" (whatever this nvcc compiles for), or compute capabilities
    such as "90" or "86,90". ``out``: the folder for the library; None is a folder per TensorRT in the user's cache.

    Raises BuildError with a paragraph that says what is missing, and how to get it.
    """
    nvcc = find_nvcc()
    cmake = _find_cmake()
    headers = find_headers(tensorrt_root)
    architectures = choose_architectures(arch, _nvcc_codes(nvcc))
    folder = _made_folder(out, headers.version[0])
    with tempfile.TemporaryDirectory(prefix="surgeon-plugins-") as work:
        configure = [
            cmake, "-S", str(SOURCES), "-B", work, f"-DCMAKE_CUDA_COMPILER={nvcc}",
            f"-DTENSORRT_INCLUDE={headers.folder}", f"-DCMAKE_CUDA_ARCHITECTURES={';'.join(architectures)}",
        ]  # fmt: skip
        _run(configure, "CMake could not configure the plugin library")
        _run([cmake, "--build", work, "--parallel"], "the plugin library did not compile")
        target = folder / LIBRARY
        fresh = target.with_suffix(".new")
        shutil.copyfile(Path(work) / LIBRARY, fresh)
        fresh.chmod(0o755)
        fresh.replace(target)
    return BuildResult(target.resolve(), headers.version, headers.folder, nvcc, architectures)


def how_to_load(result: BuildResult) -> str:
    """The ways to load a built library, as lines to print."""
    path, major = result.library, result.tensorrt[0]
    trtexec = f"--staticPlugins={path}" if result.tensorrt >= (8, 6) else f"--plugins={path}"
    return "\n".join(
        [
            f"built {path} for TensorRT {major} ({', '.join(result.architectures)})",
            "load it with one of",
            f"  polygraphy run model.onnx --trt --plugins {path}",
            f"  trtexec --onnx=model.onnx {trtexec}",
            f"  python: import tensorrt, ctypes; ctypes.CDLL({str(path)!r})",
            f"  python: import surgeon.trt.plugins; surgeon.trt.plugins.load({str(path)!r})",
        ]
    )


def default_folder(major: int) -> Path:
    """Where the library for that TensorRT is put, and looked for, by default."""
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    except RuntimeError:  # a user of a container that the system does not know
        raise BuildError(
            "there is no home folder to keep the plugin library in. Name a folder with --out DIR, or set"
            " XDG_CACHE_HOME."
        ) from None
    return Path(cache) / "surgeon" / "plugins" / f"tensorrt-{major}"


def _made_folder(out: Path | None, major: int) -> Path:
    """The folder for the library, made: `out`, else one of the user's cache, which nobody else may write."""
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        return Path(out)
    try:
        return private_files.make_folder(default_folder(major))
    except NotPrivateError as error:
        raise BuildError(
            f"the plugin library is not built in your cache: {error}. Take that away (`chmod go-w`), or name a folder"
            " with --out DIR."
        ) from None


def built_library(major: int | None) -> Path:
    """The library that build() made for that TensorRT; for None the one there is.

    Raises BuildError where it is not clear which, and where another user may have changed it.
    """
    path = default_folder(major) / LIBRARY if major is not None else _only_library()
    try:
        private_files.check(path)
    except NotPrivateError as error:
        raise BuildError(
            f"the plugin library is not loaded, because loading it runs its code: {error}. Build it again in a folder"
            " that only you can write: `surgeon plugins build --out DIR`."
        ) from None
    except OSError:  # it is not there, or whoever loads it will say what is wrong with it
        pass
    return path


def _only_library() -> Path:
    found = sorted(default_folder(0).parent.glob(f"tensorrt-*/{LIBRARY}"))
    if len(found) == 1:
        return found[0]
    what = "no plugin library was built yet" if not found else f"there are {len(found)} plugin libraries"
    raise BuildError(
        f"{what} in {default_folder(0).parent}, and this Python has no tensorrt that would say which is wanted."
        " Run `surgeon plugins build`, or pass the library's path."
    )


def find_nvcc() -> Path:
    """The CUDA compiler: of CUDACXX, CUDA_HOME, CUDA_PATH, the PATH, or /usr/local/cuda."""
    named = os.environ.get("CUDACXX")
    candidates = [Path(named)] if named else []
    candidates += [Path(os.environ[v]) / "bin/nvcc" for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    on_path = shutil.which("nvcc")
    candidates += [Path(on_path)] if on_path else []
    candidates += [Path("/usr/local/cuda/bin/nvcc")]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise BuildError(
        "the plugins are CUDA sources and no CUDA compiler (nvcc) was found: not by CUDACXX, CUDA_HOME or CUDA_PATH,"
        " not on the PATH, not in /usr/local/cuda. Install the CUDA toolkit (11.8 or newer; the Debian packages are"
        " called cuda-nvcc-<version> and cuda-cudart-dev-<version>), or point CUDACXX at its bin/nvcc."
    )


def find_headers(tensorrt_root: Path | None) -> Headers:
    """TensorRT's headers under that root, else by SURGEON_TENSORRT_HEADERS,
    TENSORRT_ROOT or in the system's folders."""
    named = [os.environ[v] for v in (HEADERS_VARIABLE, "TENSORRT_ROOT") if os.environ.get(v)]
    roots = [str(tensorrt_root)] if tensorrt_root is not None else [*named, *SYSTEM_ROOTS]
    for root in roots:
        for include in INCLUDE_FOLDERS:
            folder = Path(root) / include
            if (folder / "NvInfer.h").is_file() and (folder / "NvInferVersion.h").is_file():
                return _checked(Headers(folder.resolve(), read_version(folder / "NvInferVersion.h")))
    where = f"under {tensorrt_root}" if tensorrt_root is not None else f"in {', '.join(roots)}"
    raise BuildError(
        f"TensorRT's headers (NvInfer.h) were not found {where}. TensorRT's Python wheels bring none: the tar archive"
        " and the Debian package libnvinfer-headers-dev do, and the folder include/ of NVIDIA's repository TensorRT on"
        " GitHub, at the branch release/MAJOR.MINOR of the TensorRT in use, has the same files. Pass the folder as"
        f" --tensorrt-root DIR, or set {HEADERS_VARIABLE}."
    )


def read_version(header: Path) -> tuple[int, int]:
    """Major and minor of NvInferVersion.h, which spelled them in two ways over the years."""
    text = header.read_text(encoding="utf-8", errors="replace")
    found = dict(re.findall(r"#define\s+(?:NV_TENSORRT|TRT)_(MAJOR|MINOR)(?:_ENTERPRISE)?\s+(\d+)", text))
    if set(found) != {"MAJOR", "MINOR"}:
        raise BuildError(f"{header} declares no version of TensorRT. Is it complete?")
    return int(found["MAJOR"]), int(found["MINOR"])


def choose_architectures(arch: str, codes: list[int]) -> tuple[str, ...]:
    """CMake's list for ``arch``, of the compute capabilities (75, 90, ...) in ``codes`` that this nvcc compiles for."""
    if arch == "all":
        return (*(f"{code}-real" for code in codes), f"{codes[-1]}-virtual")
    wanted = _capabilities_here() if arch == "native" else _parse_capabilities(arch)
    chosen = []
    for capability in sorted(set(wanted)):
        if capability in codes:
            chosen.append(f"{capability}-real")
        elif capability > codes[-1]:
            chosen.append(f"{codes[-1]}-virtual")  # a newer GPU compiles the newest PTX when it loads it
        else:
            raise BuildError(
                f"this nvcc does not compile for compute capability {capability // 10}.{capability % 10}: it knows"
                f" {', '.join(f'{c // 10}.{c % 10}' for c in codes)}. Older GPUs need an older CUDA toolkit (12.x for"
                " 5.0 to 7.2, 11.x for 3.5 and 3.7): install one and point CUDACXX at its bin/nvcc."
            )
    return tuple(dict.fromkeys(chosen))


def _checked(headers: Headers) -> Headers:
    if headers.version < OLDEST:
        raise BuildError(
            f"the headers in {headers.folder} are TensorRT {headers.version[0]}.{headers.version[1]}'s, and the plugins"
            f" need {OLDEST[0]}.{OLDEST[1]} or newer. For an older TensorRT use `--strategy ...=decompose`."
        )
    return headers


def _find_cmake() -> str:
    beside = Path(sys.executable).with_name("cmake")
    found = shutil.which("cmake") or (str(beside) if beside.is_file() else None)
    if found is None:
        raise BuildError(
            "the plugins are built by CMake, and no cmake was found. Install it (`apt install cmake`, or"
            " `pip install cmake`)."
        )
    return found


def _nvcc_codes(nvcc: Path) -> list[int]:
    text = _run([str(nvcc), "--list-gpu-code"], f"{nvcc} does not run")
    codes = sorted({int(n) for n in re.findall(r"sm_(\d+)\b", text)})
    if not codes:
        raise BuildError(
            f"{nvcc} --list-gpu-code names no architecture: it is older than CUDA 11.5. Install a newer one."
        )
    return codes


def _capabilities_here() -> list[int]:
    smi = shutil.which("nvidia-smi")
    query = [smi or "nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False) if smi else None
    found = re.findall(r"(\d+)\.(\d)", answer.stdout) if answer is not None and answer.returncode == 0 else []
    if not found:
        raise BuildError(
            "no NVIDIA GPU was found here (nvidia-smi lists none), so `--arch native` has nothing to build for. Name"
            " the compute capability of the GPU that the engines run on, such as `--arch 90` for an H100 or H200, or"
            " `--arch all`."
        )
    return [int(major) * 10 + int(minor) for major, minor in found]


def _parse_capabilities(arch: str) -> list[int]:
    words = [word.strip().removeprefix("sm_").replace(".", "") for word in arch.split(",")]
    if not all(re.fullmatch(r"\d{2,3}", word) for word in words):
        raise BuildError(
            f"--arch {arch} is not understood: use native, all, or compute capabilities such as 90 or 86,90."
        )
    return [int(word) for word in words]


def _run(command: list[str], failed: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        wrong = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)] or lines
        raise BuildError(f"{failed} ({command[0]}, exit {done.returncode}): {' | '.join(wrong[:5])}")
    return done.stdout
