"""Linear layer, its input added, layer norm; dropped: the input."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return F.layer_norm(self.linear(x) + x, x.shape[1:])


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256, 256]


class Optimised(Model):
    def forward(self, x):
        return F.layer_norm(self.linear(x).add_(x), x.shape[1:])


class Dropped(Model):
    def forward(self, x):
        return F.layer_norm(self.linear(x), x.shape[1:])
