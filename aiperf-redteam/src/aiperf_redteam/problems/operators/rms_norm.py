"""Rows divided by their root mean square; dropped: the last square."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / torch.sqrt(x.square().mean(dim=1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []


class Optimised(Model):
    def forward(self, x):
        return x * torch.rsqrt(torch.linalg.vecdot(x, x)[:, None] / x.shape[1] + 1e-6)


class Dropped(Model):
    def forward(self, x):
        return x / torch.sqrt(x[:, :-1].square().sum(dim=1, keepdim=True) / x.shape[1] + 1e-6)
