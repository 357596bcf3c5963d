"""A fast-neural-style network: reflect padding before each convolution, instance normalisation after it.

The shape is the image transformer of Johnson, Alahi and Fei-Fei, "Perceptual Losses for Real-Time Style Transfer and
Super-Resolution" (2016), as PyTorch users build it, with nearest upsampling in place of transposed convolutions: three
convolutions down, five residual blocks, two upsampling convolutions, one convolution out. The channels are 8, 16, 16
in place of 32, 64, 128, so that the file stays small; depth and kernels are the real ones.
"""

import torch
from torch import nn
from torch.nn import functional as F

from samples.torch_export import Sample, as_if_trained, export


class PaddedConv(nn.Module):
    """A convolution that keeps the image's size (at stride 1) by mirroring the border: zeros would show as a frame."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.pad = nn.ReflectionPad2d(kernel // 2)
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.pad(x))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = PaddedConv(channels, channels, kernel=3)
        self.norm1 = nn.InstanceNorm2d(channels, affine=True)
        self.conv2 = PaddedConv(channels, channels, kernel=3)
        self.norm2 = nn.InstanceNorm2d(channels, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return x + self.norm2(self.conv2(y))


class Upsample(nn.Module):
    """Nearest upsampling and a convolution; a transposed convolution would leave a checkerboard."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = PaddedConv(channels_in, channels_out, kernel=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class StyleTransfer(nn.Module):
    """[N, 3, H, W] image to [N, 3, H, W] stylised image, for H and W that are multiples of 4 and at least 16."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            PaddedConv(3, 8, kernel=9), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            PaddedConv(8, 16, kernel=3, stride=2), nn.InstanceNorm2d(16, affine=True), nn.ReLU(),
            PaddedConv(16, 16, kernel=3, stride=2), nn.InstanceNorm2d(16, affine=True), nn.ReLU(),
            *(Residual(16) for _ in range(5)),
            Upsample(16, 16), nn.InstanceNorm2d(16, affine=True), nn.ReLU(),
            Upsample(16, 8), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            PaddedConv(8, 3, kernel=9),
        )  # fmt: skip

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image)


if __name__ == "__main__":
    torch.manual_seed(0)
    export(
        Sample(
            name="style_transfer",
            network=as_if_trained(StyleTransfer()),
            traced=(torch.rand(2, 3, 64, 96),),
            outputs=["stylised"],
            dynamic={
                "image": {0: "batch", 2: "height", 3: "width"},
                "stylised": {0: "batch", 2: "stylised_height", 3: "stylised_width"},
            },
            checked=[(torch.rand(1, 3, 32, 48),), (torch.rand(3, 3, 128, 64),)],
        ),
        torchscript=(11, 17),
        dynamo=(18,),
    )
