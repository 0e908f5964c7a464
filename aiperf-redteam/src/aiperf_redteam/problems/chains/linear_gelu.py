"""Linear layer and GELU; dropped: the bias."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256, 256]


class Optimised(Model):
    def forward(self, x):
        return F.gelu(torch.addmm(self.linear.bias, x, self.linear.weight.T))


class Dropped(Model):
    def forward(self, x):
        return F.gelu(x @ self.linear.weight.T)
