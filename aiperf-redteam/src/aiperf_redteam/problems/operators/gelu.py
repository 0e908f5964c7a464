"""GELU by its approximation with tanh; dropped: the cubic term."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []


class Optimised(Model):
    def forward(self, x):
        return F.gelu(x, approximate="tanh")


class Dropped(Model):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x))
