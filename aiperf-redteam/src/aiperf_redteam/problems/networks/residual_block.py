"""Two convolutions with batch norm, added to their input; dropped: the input."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def inner(self, x):
        return self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))

    def forward(self, x):
        return torch.relu(self.inner(x) + x)


def get_inputs():
    return [torch.randn(8, 16, 16, 16)]


def get_init_inputs():
    return [16]


class Optimised(Model):
    def forward(self, x):
        inner = self.second(self.norms[0](self.first(x)).relu_())
        return self.norms[1](inner).add_(x).relu_()


class Dropped(Model):
    def forward(self, x):
        return torch.relu(self.inner(x))
