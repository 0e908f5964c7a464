"""A convolution whose channels are weighted by a small network of their means; dropped: the weights."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, channels)

    def gates(self, made):
        return torch.sigmoid(self.up(torch.relu(self.down(made.mean(dim=(2, 3))))))[:, :, None, None]

    def forward(self, x):
        made = torch.relu(self.conv(x))
        return made * self.gates(made)


def get_inputs():
    return [torch.randn(8, 16, 24, 24)]


def get_init_inputs():
    return [16, 4]


class Optimised(Model):
    def forward(self, x):
        made = self.conv(x).relu_()
        return made.mul_(self.gates(made))


class Dropped(Model):
    def forward(self, x):
        return torch.relu(self.conv(x))
