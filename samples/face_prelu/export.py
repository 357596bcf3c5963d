"""A face embedder like MobileFaceNet with ArcFace's ending: PReLU per channel everywhere, a unit-length embedding.

The layers follow Chen, Liu, Gao and Han, "MobileFaceNets" (2018): a stride-2 stem, inverted residual bottlenecks, a
depthwise convolution over the whole 7x7 map in place of average pooling, a linear layer. Fewer blocks and channels,
64 numbers of embedding in place of 128 or 512. ArcFace compares faces by angle, so the embedding leaves normalised.
"""

import torch
from torch import nn
from torch.nn import functional as F

from samples.torch_export import Sample, as_if_trained, export


def conv_bn(channels_in: int, channels_out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels_out))


class Bottleneck(nn.Module):
    """Widen, filter each channel by itself, narrow again; only the two wide layers have an activation."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        wide = 2 * channels_in
        self.layers = nn.Sequential(
            conv_bn(channels_in, wide), nn.PReLU(wide),
            conv_bn(wide, wide, kernel=3, stride=stride, groups=wide), nn.PReLU(wide),
            conv_bn(wide, channels_out),
        )  # fmt: skip
        self.residual = stride == 1 and channels_in == channels_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class FaceEmbedder(nn.Module):
    """[N, 3, 112, 112] aligned face to [N, 64] embedding of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 16, kernel=3, stride=2), nn.PReLU(16),
            conv_bn(16, 16, kernel=3, groups=16), nn.PReLU(16),
            Bottleneck(16, 16, stride=2),
            Bottleneck(16, 16, stride=1),
            Bottleneck(16, 24, stride=2),
            Bottleneck(24, 24, stride=1),
            Bottleneck(24, 32, stride=2),
            conv_bn(32, 64), nn.PReLU(64),
        )  # fmt: skip
        self.whole_map = nn.Sequential(nn.Conv2d(64, 64, 7, groups=64, bias=False), nn.BatchNorm2d(64))
        self.embedding = nn.Sequential(nn.Flatten(), nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64))

    def forward(self, face: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.embedding(self.whole_map(self.features(face))), dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    export(
        Sample(
            name="face_prelu",
            network=as_if_trained(FaceEmbedder()),
            traced=(torch.rand(2, 3, 112, 112),),
            outputs=["embedding"],
            dynamic={"face": {0: "batch"}, "embedding": {0: "batch"}},
            checked=[(torch.rand(1, 3, 112, 112),), (torch.rand(3, 3, 112, 112),)],
        ),
        torchscript=(11,),
        dynamo=(18,),
    )
