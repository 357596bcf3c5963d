"""Which TensorRT there is, and which one Polygraphy drives.

TensorRT where it and a GPU are there, else TensorRT-RTX, which parses and builds ahead of time on a machine without a
GPU (its module is `tensorrt_rtx`). Polygraphy decides between the two when it is first imported, so one process drives
one.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import io
import os
import sys
from typing import Any

from surgeon.errors import EngineError, UsageError, did_you_mean
from surgeon.targets.target import Target

CLASSIC, RTX = "tensorrt", "tensorrt_rtx"
CAPABILITY = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def choose_runtime(asked: str | None = None) -> str:
    """The module to build with: the one asked for ("tensorrt", "rtx"), else what is there. Raises UsageError."""
    modules = {None: None, CLASSIC: CLASSIC, "rtx": RTX, RTX: RTX}
    if asked not in modules:
        raise UsageError(f"no TensorRT is called '{asked}'.{did_you_mean(str(asked), [CLASSIC, 'rtx'])}")
    wanted = modules[asked]
    if wanted is not None and not importable(wanted):
        how = "surgeon with the extra 'rtx'" if wanted == RTX else "the package tensorrt of the version that you deploy"
        raise UsageError(f"the Python package '{wanted}' cannot be imported here. Install {how}.")
    if wanted is not None:
        return wanted
    if importable(CLASSIC) and gpu():
        return CLASSIC
    if importable(RTX):
        return RTX
    if importable(CLASSIC):
        raise UsageError(
            "TensorRT builds engines on a GPU, and this machine has none that its driver offers. TensorRT-RTX builds "
            "without: install surgeon with the extra 'rtx'."
        )
    raise UsageError(
        "no TensorRT can be imported here. Install surgeon with the extra 'rtx' (TensorRT-RTX, which builds without a "
        "GPU), or the package tensorrt."
    )


def importable(module: str) -> bool:
    """Whether a Python package is installed."""
    return importlib.util.find_spec(module) is not None


def gpu() -> bool:
    """Whether the CUDA driver is there and has a device."""
    driver, count = _driver(), ctypes.c_int()
    return driver is not None and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def compute_capability() -> str:
    """That of the first GPU: "sm90"; empty where there is none."""
    driver, numbers = _driver(), [ctypes.c_int(), ctypes.c_int()]
    if driver is None:
        return ""
    for number, attribute in zip(numbers, CAPABILITY, strict=True):
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0)
    return "sm" + "".join(str(number.value) for number in numbers)


def _driver() -> Any:
    """The CUDA driver, started; None where there is none or it does not start."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def use(runtime: str) -> Any:
    """Tell Polygraphy which of the two it drives, and return the module.
    Raises UsageError where it drives the other."""
    wanted = runtime == RTX
    if "polygraphy.backend.trt" not in sys.modules:
        os.environ["POLYGRAPHY_USE_TENSORRT_RTX"] = "1" if wanted else "0"
    with contextlib.redirect_stdout(io.StringIO()):  # it announces there that its own output will have no colours
        from polygraphy import config

    if "polygraphy.backend.trt" not in sys.modules:
        config.USE_TENSORRT_RTX = wanted  # Polygraphy reads it again when its TensorRT backend is first imported
    if wanted != config.USE_TENSORRT_RTX:
        raise UsageError(
            "this process already uses Polygraphy with the other of TensorRT and TensorRT-RTX. Use a process for each."
        )
    try:
        return importlib.import_module(runtime)
    except (ImportError, OSError) as error:
        raise EngineError(
            f"{runtime} is installed but does not load: {error}. A CUDA library that it needs is missing or too old."
        ) from error


def title(trt: Any) -> str:
    """The name and version of a TensorRT module: "TensorRT-RTX 1.7.1.116", "TensorRT 10.9.0.34"."""
    return f"{'TensorRT-RTX' if trt.__name__ == RTX else 'TensorRT'} {trt.__version__}"


def target_of(trt: Any) -> Target:
    """The row of surgeon's own table for a TensorRT module."""
    return Target.parse("rtx" if trt.__name__ == RTX else ".".join(str(trt.__version__).split(".")[:3]))
