"""The head of SSD300 or RefineDet: two feature maps, each through L2Norm with a learned weight, then its predictors.

L2Norm is the layer of Liu, Rabinovich and Berg, "ParseNet: Looking Wider to See Better" (2015), which SSD took over:
activations of early layers are much larger than those of late ones, so each position's channel vector is brought to
length one and then scaled by a weight per channel that is learned and starts at 20. The feature maps have SSD300's
sizes, 38x38 and 19x19, with 16 and 24 channels in place of 512.
"""

import torch
from torch import nn

from samples.torch_export import Sample, as_if_trained, export

ANCHORS = 4  # default boxes at each position
CLASSES = 5


class L2Norm(nn.Module):
    """x / (||x|| + 1e-10) * weight, the length taken over the channels of [N, C, H, W], one weight per channel.

    Spelled in the single operations that the published detectors use; nothing in the model says "L2Norm" afterwards.
    """

    def __init__(self, channels: int, scale: float) -> None:
        super().__init__()
        # Training moves each channel's weight away from the common start.
        self.weight = nn.Parameter(scale * (1 + 0.1 * torch.randn(channels)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.pow(2).sum(dim=1, keepdim=True).sqrt() + 1e-10
        return self.weight[None, :, None, None].expand_as(x) * x.div(length)


class Predictor(nn.Module):
    """One convolution gives `width` numbers for each anchor of each position: [N, C, H, W] to [N, anchors, width]."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.conv = nn.Conv2d(channels, ANCHORS * width, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.width)


class SsdHead(nn.Module):
    """conv4_3 [N, 16, 38, 38] and conv5_3 [N, 24, 19, 19] to boxes [N, 7220, 4] and scores [N, 7220, 5]."""

    def __init__(self) -> None:
        super().__init__()
        channels = (16, 24)
        self.norms = nn.ModuleList(L2Norm(c, scale=20.0) for c in channels)
        self.loc = nn.ModuleList(Predictor(c, 4) for c in channels)
        self.conf = nn.ModuleList(Predictor(c, CLASSES) for c in channels)

    def forward(self, conv4_3: torch.Tensor, conv5_3: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = [norm(x) for norm, x in zip(self.norms, (conv4_3, conv5_3), strict=True)]
        boxes = torch.cat([loc(x) for loc, x in zip(self.loc, features, strict=True)], dim=1)
        scores = torch.cat([conf(x) for conf, x in zip(self.conf, features, strict=True)], dim=1)
        return boxes, scores.softmax(dim=-1)


def feature_maps(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What a ReLU leaves: nothing below zero, and half of the values exactly zero."""
    return torch.randn(batch, 16, 38, 38).relu(), torch.randn(batch, 24, 19, 19).relu()


if __name__ == "__main__":
    torch.manual_seed(0)
    export(
        Sample(
            name="ssd_l2norm",
            network=as_if_trained(SsdHead()),
            traced=feature_maps(batch=2),
            outputs=["boxes", "scores"],
            # SSD's default boxes belong to these very sizes, so only the batch stays open.
            dynamic={name: {0: "batch"} for name in ("conv4_3", "conv5_3", "boxes", "scores")},
            checked=[feature_maps(batch=1), feature_maps(batch=3)],
        ),
        torchscript=(13,),
        # This exporter loses the 1e-10: where all channels are zero its model gives NaN, and torch gives 0.
        dynamo=(18,),
    )
