"""Two linear layers, of which SiLU of the first is a gate of the second; dropped: the gate."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.gate = nn.Linear(inputs, outputs, bias=False)
        self.up = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256, 256]


class Optimised(Model):
    def forward(self, x):
        return F.silu(self.gate(x), inplace=True).mul_(self.up(x))


class Dropped(Model):
    def forward(self, x):
        return self.up(x)
