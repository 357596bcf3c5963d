"""The version of surgeon, which reports and the command line name, and the oldest versions of what it runs on."""

import re
from importlib import import_module

__version__ = "0.1.0"
OLDEST = {"onnx": "1.22", "onnxruntime": "1.21"}  # setup.cfg has the same: an environment may have others all the same


def why_not_usable(package: str) -> str:
    """Why a package cannot be used, and what to do; empty where it loads and is new enough."""
    oldest = OLDEST[package]
    needs, advice = f"{package} {oldest} or newer is needed", f"pip install --upgrade '{package}>={oldest}'"
    try:
        found = str(import_module(package).__version__)
    except Exception as error:  # an old one with a newer NumPy raises whatever it meets
        said = str(error).strip().split("\n")[0] or type(error).__name__
        return f"{package} does not load: {said}. {needs}: {advice}"
    return f"{needs}, and {found} is installed: {advice}" if _numbers(found) < _numbers(oldest) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])
