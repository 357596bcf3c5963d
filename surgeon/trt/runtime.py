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
import logging
import os
import re
import sys
from types import TracebackType
from typing import Any

from surgeon.errors import EngineError, UsageError, did_you_mean
from surgeon.targets.target import Target

CLASSIC, RTX = "tensorrt", "tensorrt_rtx"
CAPABILITY = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_SEVERITY = re.compile(r"^(\[[A-Z!]\] )+")
# Polygraphy's own words beside TensorRT's: that something went wrong, and that it wants TensorRT 8.5 (it builds with
# 8.2 to 8.4 too).
_NOISE = ("Could not parse", "Invalid Engine", "is installed, but version")


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


# ---- what they say ---------------------------------------------------------------------------------------------------


class PolygraphyLog(logging.Handler):
    """Hears what Polygraphy and TensorRT say at the level ERROR inside a `with`, and keeps it off the terminal.

    Polygraphy has one logger a process. Its settings are put back at the end.

    lines  the messages as they came
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._python = logging.getLogger("Polygraphy")
        self._before = False, False, False  # Polygraphy's use of Python's logging, its colours, Python's propagation

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def told(self) -> list[str]:
        """TensorRT's own messages, each once and in one line."""
        lines = dict.fromkeys(_SEVERITY.sub("", " ".join(line.split())) for line in self.lines)
        return [line for line in lines if not any(noise in line for noise in _NOISE)]

    def __enter__(self) -> "PolygraphyLog":
        from polygraphy.logger import G_LOGGER

        self._before = G_LOGGER.use_python_logging_system, G_LOGGER.colors, self._python.propagate
        G_LOGGER.colors = False
        G_LOGGER.use_python_logging_system = True
        self._python.addHandler(self)
        self._python.propagate = False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        from polygraphy.logger import G_LOGGER

        self._python.removeHandler(self)
        G_LOGGER.use_python_logging_system, G_LOGGER.colors, self._python.propagate = self._before
