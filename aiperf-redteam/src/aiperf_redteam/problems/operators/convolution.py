"""Convolution over one dimension; dropped: the bias."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, filters, width):
        super().__init__()
        self.conv = nn.Conv1d(channels, filters, width)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(8, 16, 256)]


def get_init_inputs():
    return [16, 32, 3]


class Optimised(Model):
    def forward(self, x):
        weight, bias = self.conv.weight, self.conv.bias
        windows = x.unfold(2, weight.shape[2], 1)
        return torch.einsum("bcpw,fcw->bfp", windows, weight) + bias[:, None]


class Dropped(Model):
    def forward(self, x):
        return F.conv1d(x, self.conv.weight)
