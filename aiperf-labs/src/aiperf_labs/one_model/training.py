"""One step of training: the loss of a batch, and AdamW. The switches choose how each part is computed."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from aiperf_core.models import rms_norm, rotate
from aiperf_labs.one_model import model
from aiperf_labs.one_model.model import Weights
from aiperf_labs.one_model.sizes import Sizes
from aiperf_labs.one_model.switches import Switches

BALANCE = 1e-2  # the weight of the experts' balance in the loss
BETAS, DECAY = (0.9, 0.95), 0.01
CHUNK = 512  # tokens whose logits are in memory at once


def loss_of(weights: Weights, texts: Tensor, sizes: Sizes, switches: Switches) -> tuple[Tensor, Tensor]:
    """The mean cross-entropy of texts [batch, length + 1] in nats a token, and with the cost of uneven experts."""
    states, uneven = _states(weights, texts[:, :-1], sizes, switches)
    wanted = texts[:, 1:].flatten()
    entropy = _entropy(states.flatten(0, 1), wanted, weights["head"], chunked=switches.chunked_loss)
    return entropy, entropy + BALANCE * uneven


def logits_of(weights: Weights, tokens: Tensor, sizes: Sizes, switches: Switches) -> Tensor:
    """The logits after each token, [batch, length, vocabulary]."""
    return functional.linear(_states(weights, tokens, sizes, switches)[0], weights["head"])


def _states(weights: Weights, tokens: Tensor, sizes: Sizes, switches: Switches) -> tuple[Tensor, Tensor]:
    """The input of the head, [batch, length, width], and the cost of uneven experts."""
    stream = functional.embedding(tokens, weights["embedding"])
    turns = model.turns(sizes, torch.arange(tokens.shape[1], device=tokens.device))
    uneven = stream.new_zeros(())
    for number in range(sizes.layers - switches.skips_layer):
        run = _layer(model.layer_of(weights, number), turns, sizes, switches)
        stream, cost = checkpoint(run, stream, use_reentrant=False) if switches.checkpoint else run(stream)
        uneven = uneven + cost
    return model.last_norm(stream, weights), uneven


def _layer(
    layer: Weights, turns: tuple[Tensor, Tensor], sizes: Sizes, switches: Switches
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    def run(stream: Tensor) -> tuple[Tensor, Tensor]:
        stream = stream + attention(rms_norm(stream, layer["attention_norm"]), layer, turns, sizes, switches)
        x = rms_norm(stream, layer["norm"])
        if "router" not in layer:
            return stream + model.feed_forward(x, layer), stream.new_zeros(())
        flat = x.flatten(0, 1)
        routes, shares, chances = model.routed(flat, layer["router"], sizes.chosen)
        experts = model.by_mask if switches.experts == "mask" else model.by_order
        mixed = experts(flat, routes, shares, layer["experts_gate_up"], layer["experts_down"])
        out = stream + mixed.view_as(stream) + model.feed_forward(x, layer)
        return out, model.balance(routes, chances).to(stream.dtype)

    return run


def attention(x: Tensor, layer: Weights, turns: tuple[Tensor, Tensor], sizes: Sizes, switches: Switches) -> Tensor:
    """Attention of every token to itself and those before it, [batch, length, width]."""
    batch, length, _ = x.shape
    parts = (sizes.heads, sizes.kv_heads, sizes.kv_heads)
    if switches.fused_projections:
        split = functional.linear(x, layer["qkv"]).view(batch, length, -1, sizes.head).transpose(1, 2)
        query, key, value = split.split(parts, 1)
    else:
        rows = layer["qkv"].split([count * sizes.head for count in parts])
        query, key, value = (
            functional.linear(x, some).view(batch, length, -1, sizes.head).transpose(1, 2) for some in rows
        )
    query, key = rotate(query, turns), rotate(key, turns)
    if not switches.explicit_attention:
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    else:
        key, value = (one.repeat_interleave(sizes.heads // sizes.kv_heads, 1) for one in (key, value))
        scores = query @ key.mT * sizes.head**-0.5
        seen = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        mixed = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ value
    return functional.linear(mixed.transpose(1, 2).reshape(batch, length, -1), layer["out"])


def _entropy(states: Tensor, wanted: Tensor, head: Tensor, *, chunked: bool) -> Tensor:
    if not chunked:
        return _summed(states, wanted, head) / len(wanted)
    parts = zip(states.split(CHUNK), wanted.split(CHUNK), strict=True)
    sums = [checkpoint(_summed, some, labels, head, use_reentrant=False) for some, labels in parts]
    return torch.stack(sums).sum() / len(wanted)


def _summed(states: Tensor, wanted: Tensor, head: Tensor) -> Tensor:
    logits = functional.linear(states, head)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(wide, wanted, reduction="sum")


def optimizer(parameters: list[Tensor], rate: float, *, fused: bool) -> torch.optim.AdamW:
    """AdamW of all parameters: in one pass over them, or an operation at a time."""
    return torch.optim.AdamW(
        parameters, lr=rate, betas=BETAS, weight_decay=DECAY, fused=fused, foreach=False if not fused else None
    )
