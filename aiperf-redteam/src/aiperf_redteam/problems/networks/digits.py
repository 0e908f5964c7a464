"""Two convolutions with pooling, and a linear layer; dropped: the bias of the last layer."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 5)
        self.second = nn.Conv2d(8, 16, 5)
        self.last = nn.Linear(256, classes)

    def features(self, x):
        x = F.max_pool2d(torch.relu(self.first(x)), 2)
        return F.max_pool2d(torch.relu(self.second(x)), 2).flatten(1)

    def forward(self, x):
        return self.last(self.features(x))


def get_inputs():
    return [torch.randn(16, 1, 28, 28)]


def get_init_inputs():
    return [10]


class Optimised(Model):
    def forward(self, x):
        x = F.max_pool2d(self.first(x), 2).relu_()
        return self.last(F.max_pool2d(self.second(x), 2).relu_().flatten(1))


class Dropped(Model):
    def forward(self, x):
        return self.features(x) @ self.last.weight.T
