"""Three linear layers with ReLU between them; dropped: the bias of the second."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.third = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128, 256, 64]


class Optimised(Model):
    def forward(self, x):
        return self.third(self.second(self.first(x).relu_()).relu_())


class Dropped(Model):
    def forward(self, x):
        second = torch.relu(self.first(x)) @ self.second.weight.T
        return self.third(torch.relu(second))
