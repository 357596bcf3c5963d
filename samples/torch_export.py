"""Export a sample's network through PyTorch's own two exporters.

Only the `export.py` of each sample needs this module, and with it torch, onnxscript and onnxruntime. The models are
committed, and surgeon itself never imports torch. From the root of the repository:

    python -m pip install "torch>=2.13" onnx onnxscript onnxruntime numpy
    python -m samples.style_transfer.export            # writes the .onnx files beside export.py
    python -m samples.style_transfer.export elsewhere  # writes them into the folder elsewhere/
"""

import argparse
import inspect
import io
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from google.protobuf.message import Message
from torch import nn

# Largest difference between ONNX Runtime and torch that still is rounding, as a part of the largest output value.
TOLERANCE = 1e-5

# Every path that an exporter writes is the path of a Python source file.
SOURCE_FILE = ".py"


@dataclass(frozen=True)
class Sample:
    """A network with what an exporter has to know about it.

    Attributes:
        name: first part of the files' names.
        network: in inference mode; its `forward` parameters name the inputs of the model.
        traced: example inputs, one tensor for each parameter of `forward`.
        outputs: names of the model's outputs.
        dynamic: for each input and output, the axes whose size stays open, and the name that the open size gets.
        checked: further inputs that the exported model must agree on; sizes may differ along the dynamic axes.
    """

    name: str
    network: nn.Module
    traced: tuple[torch.Tensor, ...]
    outputs: Sequence[str]
    dynamic: Mapping[str, dict[int, str]]
    checked: Sequence[tuple[torch.Tensor, ...]]

    @property
    def inputs(self) -> list[str]:
        return list(inspect.signature(self.network.forward).parameters)


def as_if_trained(network: nn.Module, seed: int = 0) -> nn.Module:
    """Give `network` seeded weights without the regularities of fresh ones, and put it in inference mode.

    Fresh normalisation layers multiply by one and add zero, and fresh PReLU slopes are all 0.25. An exporter or a
    rewriter may fold such values away, which it could not do to a trained network.
    """
    generator = torch.Generator().manual_seed(seed)

    def spread(parameter: torch.Tensor, centre: float, width: float) -> None:
        parameter.copy_(centre + width * torch.randn(parameter.shape, generator=generator))

    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                fan_in = layer.weight[0].numel()
                spread(layer.weight, 0.0, math.sqrt(2.0 / fan_in))
                if layer.bias is not None:
                    spread(layer.bias, 0.0, 0.1)
            elif isinstance(layer, nn.InstanceNorm2d | nn.BatchNorm1d | nn.BatchNorm2d):
                spread(layer.weight, 1.0, 0.1)
                spread(layer.bias, 0.0, 0.1)
                if layer.running_mean is not None and layer.running_var is not None:
                    spread(layer.running_mean, 0.0, 0.1)
                    layer.running_var.uniform_(0.5, 1.5, generator=generator)
            elif isinstance(layer, nn.PReLU):
                layer.weight.uniform_(0.05, 0.45, generator=generator)
    return network.eval()


def export(sample: Sample, torchscript: Sequence[int], dynamo: Sequence[int]) -> None:
    """Write one model for each exporter and opset, after checking each against torch.

    The folder is the one that the command line names, or the one of the calling script.

    Args:
        sample: what to export.
        torchscript: opsets for the TorchScript exporter (`dynamo=False`).
        dynamo: opsets for the exporter on torch.export (`dynamo=True`).

    Raises:
        SystemExit: a model computes something else than torch does, or has a path of this machine.
    """
    parser = argparse.ArgumentParser(description=f"Make the models of the sample {sample.name} again.")
    beside = Path(inspect.getfile(type(sample.network))).parent
    parser.add_argument("folder", nargs="?", type=Path, default=beside, help="where to write them (%(default)s)")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    for exporter, opset, model in _exported(sample, torchscript, dynamo):
        path = folder / f"{sample.name}_{exporter}_op{opset}.onnx"
        _strip_origin(model, path.name)
        onnx.checker.check_model(model, full_check=True)
        error = _max_error(model, sample, path.name)
        path.write_bytes(model.SerializeToString(deterministic=True))
        operators = Counter(node.op_type for node in model.graph.node).most_common()
        print(f"{path.name}: {path.stat().st_size:,} bytes, at most {error:.1e} (relative) off torch")
        print("    " + " ".join(f"{op_type} {count}" for op_type, count in operators))


def _exported(
    sample: Sample, torchscript: Sequence[int], dynamo: Sequence[int]
) -> Iterator[tuple[str, int, onnx.ModelProto]]:
    # The exporters warn of their own deprecations; whether a model is right is measured, not read off warnings.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for opset in torchscript:
            yield "ts", opset, _through_torchscript(sample, opset)
        for opset in dynamo:
            yield "dynamo", opset, _through_dynamo(sample, opset)


def _through_torchscript(sample: Sample, opset: int) -> onnx.ModelProto:
    file = io.BytesIO()
    torch.onnx.export(
        sample.network,
        sample.traced,
        file,  # type: ignore[arg-type]  # a buffer works; the annotation knows paths only
        dynamo=False,
        opset_version=opset,
        input_names=sample.inputs,
        output_names=sample.outputs,
        dynamic_axes=sample.dynamic,
    )
    return onnx.load_from_string(file.getvalue())


def _through_dynamo(sample: Sample, opset: int) -> onnx.ModelProto:
    program = torch.onnx.export(
        sample.network,
        sample.traced,
        dynamo=True,
        opset_version=opset,
        input_names=sample.inputs,
        output_names=sample.outputs,
        dynamic_shapes={name: sample.dynamic[name] for name in sample.inputs},
        verbose=False,
    )
    assert program is not None  # None only where a path was given
    return program.model_proto


def _strip_origin(model: onnx.ModelProto, name: str) -> None:
    """Remove what tells about the machine rather than about the network.

    The dynamo exporter gives each node the Python stack that made it, with the full paths of the source files, as
    metadata and sometimes as doc string. Its other metadata (namespaces, class hierarchies) stays.
    """
    # "2.13.0+cpu" and "2.13.0+cu130" export the same model.
    model.producer_version = model.producer_version.split("+")[0]
    for message in _messages(model):
        if SOURCE_FILE in getattr(message, "doc_string", ""):
            message.ClearField("doc_string")
        for i in reversed(range(len(getattr(message, "metadata_props", ())))):
            if SOURCE_FILE in message.metadata_props[i].value:
                del message.metadata_props[i]
    if SOURCE_FILE.encode() in model.SerializeToString():
        raise SystemExit(f"{name}: a path of a source file is left in the model")


def _messages(message: Message) -> Iterator[Message]:
    """`message` and every protobuf message inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner)


def _max_error(model: onnx.ModelProto, sample: Sample, name: str) -> float:
    """Largest difference from torch over all checked inputs, relative to the largest magnitude of that output."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    worst = 0.0
    for inputs in (sample.traced, *sample.checked):
        with torch.no_grad():
            expected = sample.network(*inputs)
        expected = (expected,) if isinstance(expected, torch.Tensor) else expected
        actual = session.run(list(sample.outputs), dict(zip(sample.inputs, (x.numpy() for x in inputs), strict=True)))
        for output, want, got in zip(sample.outputs, (x.numpy() for x in expected), actual, strict=True):
            if got.shape != want.shape:
                raise SystemExit(f"{name}: output {output} has shape {got.shape}, torch's has {want.shape}")
            error = float(np.abs(got - want).max() / np.abs(want).max())
            if not error <= TOLERANCE:  # NaN fails too
                raise SystemExit(f"{name}: output {output} is {error:.1e} (relative) off torch's")
            worst = max(worst, error)
    return worst
