"""Linear layer, swish, a bias, tanh; dropped: the last bias."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        made = self.linear(x)
        return torch.tanh(torch.sigmoid(made) * made + self.bias)


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256, 256]


class Optimised(Model):
    def forward(self, x):
        return F.silu(self.linear(x), inplace=True).add_(self.bias).tanh_()


class Dropped(Model):
    def forward(self, x):
        made = self.linear(x)
        return torch.tanh(torch.sigmoid(made) * made)
