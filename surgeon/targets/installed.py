"""The TensorRT, or TensorRT-RTX, that Python can import here."""

import importlib
import importlib.metadata
import importlib.util

DISTRIBUTIONS = {
    "tensorrt": ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11", "tensorrt-bindings"),
    "tensorrt_rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
}


def installed_version(module: str) -> str:
    """The version of `tensorrt` or `tensorrt_rtx`; empty where it cannot be imported.

    The module is imported only where no distribution says its version.
    """
    if importlib.util.find_spec(module) is None:
        return ""
    for name in DISTRIBUTIONS[module]:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        return str(importlib.import_module(module).__version__)
    except (ImportError, OSError, AttributeError):  # a package without the library that it loads
        return ""
