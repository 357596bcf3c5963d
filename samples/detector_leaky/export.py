"""A body like YOLOv3-tiny's: convolution, batch normalisation and LeakyReLU(0.1), max pooling, and two heads.

The coarse head sees the image at 1/32; the fine one at 1/16, where the coarse features join it upsampled. The layers
are those of Redmon and Farhadi's yolov3-tiny.cfg (2018) with far fewer channels and two classes.
"""

import torch
from torch import nn
from torch.nn import functional as F

from samples.torch_export import Sample, as_if_trained, export

ANCHORS = 3  # boxes that each head predicts at each position
CLASSES = 2
PREDICTIONS = ANCHORS * (4 + 1 + CLASSES)  # a box, its objectness and its class scores


def conv_bn_leaky(channels_in: int, channels_out: int, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.LeakyReLU(0.1),
    )


class SameSizePool(nn.Module):
    """Darknet's 2x2 max pooling at stride 1, which keeps the size: past the far edges there is nothing to compare with.

    MaxPool pads with minus infinity, but on all sides, so the near row and column of the result go. A ZeroPad2d in
    front, as some ports have it, is another function: after a leaky activation the zeros win over negative neighbours.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(x, kernel_size=2, stride=1, padding=1)[:, :, 1:, 1:]


class TinyDetector(nn.Module):
    """[N, 3, 96, 96] image to raw predictions [N, 21, 3, 3] and [N, 21, 6, 6]."""

    def __init__(self) -> None:
        super().__init__()
        self.to_sixteenth = nn.Sequential(
            conv_bn_leaky(3, 4), nn.MaxPool2d(2),
            conv_bn_leaky(4, 8), nn.MaxPool2d(2),
            conv_bn_leaky(8, 12), nn.MaxPool2d(2),
            conv_bn_leaky(12, 16), nn.MaxPool2d(2),
            conv_bn_leaky(16, 24),
        )  # fmt: skip
        self.to_thirty_second = nn.Sequential(
            nn.MaxPool2d(2), conv_bn_leaky(24, 32),
            SameSizePool(),
            conv_bn_leaky(32, 32), conv_bn_leaky(32, 16, kernel=1),
        )  # fmt: skip
        self.coarse_head = nn.Sequential(conv_bn_leaky(16, 32), nn.Conv2d(32, PREDICTIONS, 1))
        self.lateral = conv_bn_leaky(16, 8, kernel=1)
        self.fine_head = nn.Sequential(conv_bn_leaky(8 + 24, 24), nn.Conv2d(24, PREDICTIONS, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sixteenth = self.to_sixteenth(image)
        coarse = self.to_thirty_second(sixteenth)
        upsampled = F.interpolate(self.lateral(coarse), scale_factor=2, mode="nearest")
        return self.coarse_head(coarse), self.fine_head(torch.cat([upsampled, sixteenth], dim=1))


if __name__ == "__main__":
    torch.manual_seed(0)
    export(
        Sample(
            name="detector_leaky",
            network=as_if_trained(TinyDetector()),
            traced=(torch.rand(2, 3, 96, 96),),
            outputs=["coarse", "fine"],
            dynamic={name: {0: "batch"} for name in ("image", "coarse", "fine")},
            checked=[(torch.rand(1, 3, 96, 96),), (torch.rand(4, 3, 96, 96),)],
        ),
        torchscript=(11,),
        dynamo=(18,),
    )
