"""A convolution of each channel and one across channels; dropped: the bias of the second."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.point = nn.Conv2d(channels, filters, 1)

    def forward(self, x):
        return torch.relu(self.point(torch.relu(self.depth(x))))


def get_inputs():
    return [torch.randn(8, 16, 24, 24)]


def get_init_inputs():
    return [16, 32]


class Optimised(Model):
    def forward(self, x):
        made = self.depth(x).relu_().flatten(2)
        out = torch.matmul(self.point.weight.flatten(1), made) + self.point.bias[:, None]
        return out.relu_().unflatten(2, x.shape[2:])


class Dropped(Model):
    def forward(self, x):
        return torch.relu(F.conv2d(torch.relu(self.depth(x)), self.point.weight))
