"""A TensorRT plugin written in Python, made by a creator in the plugin registry (TensorRT 10 or newer).

It computes SurgeonLeakyRelu, the smallest of surgeon's plugins, under a name of its own. Fields arrive by name and
type, the output has the input's shape, and CuPy does the arithmetic on the pointers that TensorRT hands over.

    import tensorrt as trt
    import leaky_relu_plugin
    leaky_relu_plugin.register(trt)                 # before the parser or the runtime needs it
    leaky_relu_plugin.make(trt, alpha=0.2)          # or by hand, through the registry
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

NAME, VERSION, NAMESPACE = "PythonLeakyRelu", "1", "surgeon"


def classes(trt: ModuleType) -> tuple[type, type]:
    """The plugin and the creator class, on top of the given tensorrt module."""

    class LeakyRelu(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):  # type: ignore[name-defined, misc]
        def __init__(self, alpha: float) -> None:
            trt.IPluginV3.__init__(self)
            trt.IPluginV3OneCore.__init__(self)
            trt.IPluginV3OneBuild.__init__(self)
            trt.IPluginV3OneRuntime.__init__(self)
            self.alpha = alpha
            self.plugin_name, self.plugin_version, self.plugin_namespace = NAME, VERSION, NAMESPACE
            self.num_outputs = 1

        def get_capability_interface(self, type: Any) -> Any:
            return self

        def clone(self) -> Any:
            return LeakyRelu(self.alpha)

        def get_output_data_types(self, input_types: list[Any]) -> list[Any]:
            return [input_types[0]]

        def get_output_shapes(self, inputs: list[Any], shape_inputs: list[Any], builder: Any) -> list[Any]:
            return [trt.DimsExprs(inputs[0])]

        def supports_format_combination(self, pos: int, in_out: list[Any], num_inputs: int) -> bool:
            here, first = in_out[pos].desc, in_out[0].desc
            return (
                here.format == trt.TensorFormat.LINEAR
                and here.type == first.type
                and here.type in (trt.float32, trt.float16)
            )

        def configure_plugin(self, inputs: list[Any], outputs: list[Any]) -> None:
            pass

        def on_shape_change(self, inputs: list[Any], outputs: list[Any]) -> None:
            pass

        def attach_to_context(self, context: Any) -> Any:
            return self.clone()

        def set_tactic(self, tactic: int) -> None:
            pass

        def get_valid_tactics(self) -> list[int]:
            return []

        def get_fields_to_serialize(self) -> Any:
            return trt.PluginFieldCollection(
                [trt.PluginField("alpha", np.array([self.alpha], np.float32), trt.PluginFieldType.FLOAT32)]
            )

        def enqueue(
            self,
            input_desc: list[Any],
            output_desc: list[Any],
            inputs: list[int],
            outputs: list[int],
            workspace: int,
            stream: int,
        ) -> None:
            import cupy

            dtype = np.dtype(trt.nptype(input_desc[0].type))
            shape = tuple(input_desc[0].dims)
            size = int(np.prod(shape)) * dtype.itemsize
            x, y = (
                cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(p, size, self), 0))
                for p in (inputs[0], outputs[0])
            )
            with cupy.cuda.ExternalStream(stream):
                cupy.copyto(y, cupy.where(x < 0, x * dtype.type(self.alpha), x))

    class Creator(trt.IPluginCreatorV3One):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = NAME, VERSION, NAMESPACE
            self.field_names = trt.PluginFieldCollection(
                [trt.PluginField("alpha", np.array([0.01], np.float32), trt.PluginFieldType.FLOAT32)]
            )

        def create_plugin(self, name: str, fields: Any, phase: Any) -> Any:
            given = {f.name: f for f in fields}
            if "alpha" not in given:
                return LeakyRelu(0.01)
            if given["alpha"].type != trt.PluginFieldType.FLOAT32:
                raise ValueError(f"{NAME}: field 'alpha' must be FLOAT32, not {given['alpha'].type}")
            return LeakyRelu(float(np.asarray(given["alpha"].data, np.float32).reshape(-1)[0]))

    return LeakyRelu, Creator


_kept: dict[str, Any] = {}  # the registry does not own a Python creator


def register(trt: ModuleType) -> Any:
    """Put the creator into TensorRT's registry, once; returns it."""
    if trt.__name__ not in _kept:
        creator = classes(trt)[1]()
        if not trt.get_plugin_registry().register_creator(creator, NAMESPACE):
            raise RuntimeError(f"TensorRT did not register {NAME}")
        _kept[trt.__name__] = creator
    return _kept[trt.__name__]


def make(trt: ModuleType, alpha: float) -> Any:
    """A plugin, made as a parser makes it: creator from the registry, fields by name and type."""
    creator = trt.get_plugin_registry().get_creator(NAME, VERSION, NAMESPACE)
    if creator is None:
        raise RuntimeError(f"{NAME} is not in the registry: call register() first")
    field = trt.PluginField("alpha", np.array([alpha], np.float32), trt.PluginFieldType.FLOAT32)
    return creator.create_plugin("leaky", trt.PluginFieldCollection([field]), trt.TensorRTPhase.BUILD)
