"""Convolution, group norm, ReLU; dropped: the bias of the convolution."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, filters, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.GroupNorm(groups, filters)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(4, 8, 32, 32)]


def get_init_inputs():
    return [8, 16, 4]


class Optimised(Model):
    def forward(self, x):
        return self.norm(self.conv(x)).relu_()


class Dropped(Model):
    def forward(self, x):
        return torch.relu(self.norm(F.conv2d(x, self.conv.weight, padding=1)))
