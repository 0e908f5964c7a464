"""The model: its weights and one layer's parts, which training and serving put together."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from aiperf_core.models import rms_norm
from aiperf_core.models.experts import combined, sorted_by_expert, swiglu, to_slots
from aiperf_labs.one_model.sizes import Sizes

Weights = Mapping[str, Tensor]
ROTARY_BASE = 10_000.0


def drawn(sizes: Sizes, generator: torch.Generator) -> dict[str, Tensor]:
    """The weights before training, by name, in float32 on a CPU."""

    def matrix(*shape: int, gain: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=generator).mul_(gain / shape[-1] ** 0.5)

    # Each part of a layer adds to the stream; that it does not grow with their number keeps the first steps small.
    back = (2 * sizes.layers) ** -0.5
    weights = {"embedding": torch.randn(sizes.vocabulary, sizes.width, generator=generator).mul_(0.5)}
    for number in range(sizes.layers):
        layer = {
            "attention_norm": torch.ones(sizes.width),
            "qkv": matrix(sizes.qkv, sizes.width),
            "out": matrix(sizes.width, sizes.width, gain=back),
            "norm": torch.ones(sizes.width),
        }
        inner = sizes.inner if number < sizes.dense else sizes.hidden
        layer |= {
            "gate_up": matrix(2 * inner, sizes.width),
            "down": matrix(sizes.width, inner, gain=back),
        }
        if number >= sizes.dense:
            layer |= {
                "router": matrix(sizes.experts, sizes.width),
                "experts_gate_up": matrix(sizes.experts, 2 * sizes.hidden, sizes.width).mT.contiguous(),
                "experts_down": matrix(sizes.experts, sizes.width, sizes.hidden, gain=back).mT.contiguous(),
            }
        weights |= {f"layers.{number}.{name}": weight for name, weight in layer.items()}
    return weights | {"norm": torch.ones(sizes.width), "head": matrix(sizes.vocabulary, sizes.width)}


def layer_of(weights: Weights, number: int) -> dict[str, Tensor]:
    """The weights of a layer by their own names."""
    begin = f"layers.{number}."
    return {name.removeprefix(begin): weight for name, weight in weights.items() if name.startswith(begin)}


def turns(sizes: Sizes, places: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary angles of places, [..., head / 2], in float32 or wider."""
    wide = torch.float32
    powers = torch.arange(0, sizes.head, 2, device=places.device, dtype=wide) / sizes.head
    angles = places[..., None].to(wide) * ROTARY_BASE**-powers
    return angles.cos(), angles.sin()


def feed_forward(x: Tensor, layer: Weights) -> Tensor:
    """The dense part of a layer, or its shared expert."""
    return functional.linear(swiglu(functional.linear(x, layer["gate_up"])), layer["down"])


def routed(x: Tensor, router: Tensor, chosen: int) -> tuple[Tensor, Tensor, Tensor]:
    """The experts of each token, [tokens, chosen], their shares, and the chances of all experts."""
    wide = torch.promote_types(x.dtype, torch.float32)
    chances = torch.softmax(functional.linear(x, router).to(wide), -1)
    shares, routes = chances.topk(chosen, -1)
    return routes, (shares / shares.sum(-1, keepdim=True)).to(x.dtype), chances


def by_mask(x: Tensor, routes: Tensor, shares: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The sum of what the experts of each token make of it, by a mask for each expert."""
    out = torch.zeros_like(x)
    for expert in range(len(gate_up)):
        token, choice = (routes == expert).nonzero(as_tuple=True)
        found = swiglu(x[token] @ gate_up[expert]) @ down[expert]
        out = out.index_add(0, token, found * shares[token, choice, None])
    return out


def by_order(x: Tensor, routes: Tensor, shares: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The same, of rows that are sorted by expert: one sort, and a slice for each expert."""
    order, ends = sorted_by_expert(routes, len(down))
    counts = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
    rows = x[order // routes.shape[1]].split(counts)
    parts = [swiglu(some @ gate_up[expert]) @ down[expert] for expert, some in enumerate(rows) if len(some)]
    return combined(to_slots(torch.cat(parts), order), shares)


def balance(routes: Tensor, chances: Tensor) -> Tensor:
    """The cost of uneven experts, 1 where all are even (Fedus and others, 2021)."""
    experts = chances.shape[-1]
    used = torch.zeros(experts, dtype=chances.dtype, device=chances.device)
    used = used.index_add(0, routes.flatten(), torch.ones_like(routes.flatten(), dtype=chances.dtype))
    return experts * (used / routes.numel() * chances.mean(0)).sum()


def last_norm(stream: Tensor, weights: Weights) -> Tensor:
    """The input of the head."""
    return rms_norm(stream, weights["norm"])
