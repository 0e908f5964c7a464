"""Product of a tall matrix and a narrow one; dropped: the last term of the sums."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(1024, 256), torch.randn(256, 64)]


def get_init_inputs():
    return []


class Optimised(Model):
    def forward(self, a, b):
        return torch.mm(a, b)


class Dropped(Model):
    def forward(self, a, b):
        return torch.matmul(a[:, :-1], b[:-1])
