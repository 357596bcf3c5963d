"""The Python creator of samples/python_plugin, through a plugin registry.
Its enqueue needs a GPU and is not run here."""

from __future__ import annotations

import sys
from importlib import import_module, util
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "samples/python_plugin"
NAMES = [name for name in ("tensorrt", "tensorrt_rtx") if util.find_spec(name) is not None]


@pytest.mark.skipif(not NAMES, reason="neither tensorrt nor tensorrt_rtx is installed")
def test_the_registry_makes_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SAMPLE))
    trt = import_module(NAMES[0])
    if not hasattr(trt, "IPluginCreatorV3One"):
        pytest.skip(f"{NAMES[0]} {trt.__version__} has no IPluginV3")
    sample = import_module("leaky_relu_plugin")
    with pytest.raises(RuntimeError, match="not in the registry"):
        sample.make(trt, 0.5)
    sample.register(trt)
    plugin = sample.make(trt, 0.25)
    assert plugin.alpha == 0.25 and plugin.clone().alpha == 0.25
    (field,) = plugin.get_fields_to_serialize()
    assert (field.name, field.type, field.data.tolist()) == ("alpha", trt.PluginFieldType.FLOAT32, [0.25])
    sys.modules.pop("leaky_relu_plugin")
