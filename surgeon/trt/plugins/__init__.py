"""surgeon's TensorRT plugins: their table of fields, their build, their loading.

Nothing here is needed unless plugin nodes were asked for, and importing this package imports no other.
"""

import ctypes
import os
from importlib import import_module, util
from pathlib import Path

from surgeon.trt.plugins.fields import NAMESPACE, Field, Plugin, plugins

__all__ = ["NAMESPACE", "Field", "Plugin", "load", "plugins"]

LIBRARY_VARIABLE = "SURGEON_PLUGINS"


def load(library: str | os.PathLike[str] | None = None) -> ctypes.CDLL:
    """Load the plugin library into this process, which registers its creators with TensorRT.

    ``library`` is the file; without it, the one that the environment variable SURGEON_PLUGINS names, else the one
    that ``surgeon plugins build`` made for the TensorRT that this Python imports. TensorRT is imported first, so that
    the library finds it where wheels put it. Loading twice is harmless: the system gives the same library.

    Raises BuildError where there is no such file, or it cannot be loaded, or it was built for another major version, or
    it is the one that was built and another user may have changed it.
    """
    build = import_module("surgeon.trt.plugins.build")
    tensorrt = import_module("tensorrt") if util.find_spec("tensorrt") is not None else None
    major = int(tensorrt.__version__.split(".")[0]) if tensorrt is not None else None
    named = library or os.environ.get(LIBRARY_VARIABLE)
    path = (Path(named) if named else build.built_library(major)).resolve()
    if not path.is_file():
        raise build.BuildError(
            f"the plugin library {path} does not exist. Build it with `surgeon plugins build`, or name another one by"
            f" the environment variable {LIBRARY_VARIABLE}."
        )
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        raise build.BuildError(
            f"the plugin library {path} cannot be loaded: {error}. If it is libnvinfer that is missing, import tensorrt"
            " first or put the folder of TensorRT's libraries on LD_LIBRARY_PATH."
        ) from error
    built_for = int(handle.surgeon_plugins_tensorrt_major())
    if major is not None and built_for != major:
        raise build.BuildError(
            f"the plugin library {path} was built for TensorRT {built_for}, and this Python imports TensorRT {major}."
            f" Build one for it: surgeon plugins build --tensorrt-root DIR, DIR holding TensorRT {major}'s headers."
        )
    return handle
