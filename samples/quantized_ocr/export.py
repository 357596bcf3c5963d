"""A small text recogniser, quantized by ONNX Runtime: `python -m samples.quantized_ocr.export` makes the models."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn

from samples.torch_export import as_if_trained

LETTERS, WIDTH = 37, 24


class TinyReader(nn.Module):
    """[N, 1, 16, W] line of text to [N, W / 4, 37] scores: four convolutions, a linear layer over the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, WIDTH, (4, 1)), nn.ReLU(),
        )  # fmt: skip
        self.mix, self.letters = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, line: torch.Tensor) -> torch.Tensor:
        columns = self.body(line).squeeze(2).transpose(1, 2)
        return self.letters(F.relu(self.mix(columns)))


class Lines(CalibrationDataReader):
    """Drawn lines, which the ranges of the activations are taken from."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.left = [generator.random((2, 1, 16, 64), dtype=np.float32) for _ in range(4)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"line": self.left.pop()} if self.left else None


def main(folder: Path) -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        plain = Path(temporary) / "plain.onnx"
        torch.onnx.export(
            as_if_trained(TinyReader()), (torch.rand(2, 1, 16, 64),), plain, dynamo=False, opset_version=13,
            input_names=["line"], output_names=["letters"],
            dynamic_axes={"line": {0: "batch", 3: "width"}, "letters": {0: "batch", 1: "columns"}},
        )  # fmt: skip
        quantize_dynamic(plain, folder / "ocr_dynamic.onnx", weight_type=QuantType.QUInt8)
        quantize_static(plain, folder / "ocr_asymmetric.onnx", Lines(), quant_format=QuantFormat.QDQ)
        symmetric = {"ActivationSymmetric": True, "WeightSymmetric": True}
        quantize_static(plain, folder / "ocr_symmetric.onnx", Lines(), extra_options=symmetric)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    main(parser.parse_args().folder)
