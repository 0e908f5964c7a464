"""Six linear layers with tanh, each added to its input; dropped: the input of each layer."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128, 6]


class Optimised(Model):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh_().add_(x)
        return x


class Dropped(Model):
    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x
