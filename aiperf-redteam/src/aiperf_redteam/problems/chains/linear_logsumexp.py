"""Linear layer, logarithm of the sum of exponentials, leaky ReLU; dropped: the last exponential."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return F.leaky_relu(torch.log(torch.exp(self.linear(x)).sum(dim=1)))


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256, 256]


class Optimised(Model):
    def forward(self, x):
        return F.leaky_relu(torch.logsumexp(self.linear(x), dim=1))


class Dropped(Model):
    def forward(self, x):
        return F.leaky_relu(torch.logsumexp(self.linear(x)[:, :-1], dim=1))
