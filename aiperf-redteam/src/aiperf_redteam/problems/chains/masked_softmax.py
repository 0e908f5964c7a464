"""Scaled scores, a mask, softmax; dropped: the mask."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scores, mask):
        return torch.softmax(scores / 8.0 + mask, dim=-1)


def get_inputs():
    return [8 * torch.randn(8, 128, 128), torch.randn(128, 128)]


def get_init_inputs():
    return []


class Optimised(Model):
    def forward(self, scores, mask):
        return torch.softmax(torch.add(mask, scores, alpha=0.125), dim=-1)


class Dropped(Model):
    def forward(self, scores, mask):
        return torch.softmax(scores / 8.0, dim=-1)
