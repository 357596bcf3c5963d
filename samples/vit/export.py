"""A small vision transformer, as PyTorch exports it. `python -m samples.vit.export` makes the models again."""

import torch
import torch.nn.functional as F
from torch import nn

from samples.torch_export import Sample, as_if_trained, export

WIDTH, HEADS, PATCH, SIZE, CLASSES = 32, 4, 8, 32, 10


class Block(nn.Module):
    """Attention and a perceptron, each after a LayerNorm and beside a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class TinyViT(nn.Module):
    """[N, 3, 32, 32] image to [N, 10] scores."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.position = nn.Parameter(torch.randn(1, (SIZE // PATCH) ** 2 + 1, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


if __name__ == "__main__":
    torch.manual_seed(0)
    export(
        Sample(
            name="vit",
            network=as_if_trained(TinyViT()),
            traced=(torch.rand(2, 3, SIZE, SIZE),),
            outputs=["scores"],
            dynamic={name: {0: "batch"} for name in ("image", "scores")},
            checked=[(torch.rand(1, 3, SIZE, SIZE),), (torch.rand(4, 3, SIZE, SIZE),)],
        ),
        torchscript=(17,),
        dynamo=(18,),
    )
