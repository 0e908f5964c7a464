"""The model of the chapter's training steps: residual layers of Linear and GELU, in bfloat16."""

import torch
from torch.nn.functional import gelu


def same_weights(layers, width, device):
    """The weights of all layers, the same on all ranks."""
    generator = torch.Generator(device).manual_seed(0)
    drawn = torch.randn(layers, width, width, device=device, generator=generator) * (2 / (width * layers)) ** 0.5
    return list(drawn.bfloat16())


def forward(weights, x):
    for weight in weights:
        x = x + gelu(x @ weight)
    return x


class Stack(torch.nn.Module):
    """The model as a module."""

    def __init__(self, weights):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(weight.detach()) for weight in weights)

    def forward(self, x):
        return forward(self.weights, x)
