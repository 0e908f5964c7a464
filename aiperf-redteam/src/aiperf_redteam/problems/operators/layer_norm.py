"""Rows with mean 0 and variance 1; dropped: the mean."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        centered = x - x.mean(dim=1, keepdim=True)
        return centered / torch.sqrt(centered.square().mean(dim=1, keepdim=True) + 1e-5)


def get_inputs():
    return [torch.randn(256, 512) + 0.5]


def get_init_inputs():
    return []


class Optimised(Model):
    def forward(self, x):
        return F.layer_norm(x, x.shape[1:])


class Dropped(Model):
    def forward(self, x):
        return x / torch.sqrt(x.var(dim=1, correction=0, keepdim=True) + 1e-5)
