"""Attention and two linear layers, each added to its input; dropped: the second input."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attended(self, x, *, weights):
        given = self.norms[0](x)
        return x + self.attention(given, given, given, need_weights=weights)[0]

    def inner(self, x):
        return self.down(F.gelu(self.up(self.norms[1](x))))

    def forward(self, x):
        x = self.attended(x, weights=True)
        return x + self.inner(x)


def get_inputs():
    return [torch.randn(4, 32, 64)]


def get_init_inputs():
    return [64]


class Optimised(Model):
    def forward(self, x):
        x = self.attended(x, weights=False)
        return self.inner(x).add_(x)


class Dropped(Model):
    def forward(self, x):
        return self.inner(self.attended(x, weights=True))
