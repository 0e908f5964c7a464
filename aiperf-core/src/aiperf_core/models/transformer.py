"""A decoder-only transformer: RMSNorm, rotary positions, grouped-query attention, gated feed-forward."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from aiperf_core.errors import UsageError
from aiperf_core.models.sizes import ModelConfig
from aiperf_core.models.weights import planted

NORM_EPSILON = 1e-5
ROTARY_BASE = 10_000.0


def build(
    model: ModelConfig,
    device: torch.device | str,
    dtype: torch.dtype,
    generator: torch.Generator,
    successor: Tensor | None = None,
) -> "Transformer":
    """A model with a planted bigram head; see `planted`. The same generator gives the same model in every dtype."""
    return Transformer(model, planted(model, device, dtype, generator, successor))


class Cache:
    """Keys and values of earlier tokens, for up to `room` tokens of each row of a batch.

    keys, values: a tensor for each layer, [batch, kv_heads, room, head_width].
    length: the number of filled places, the same for all rows. It may be set: later places are overwritten.

    `Transformer.states_at` fills places that differ by row, and neither reads nor changes `length`.
    """

    def __init__(
        self, model: ModelConfig, batch: int, room: int, device: torch.device | str, dtype: torch.dtype
    ) -> None:
        shape = (model.layers, batch, model.kv_heads, room, model.head_width)
        self.keys = torch.zeros(shape, device=device, dtype=dtype).unbind()
        self.values = torch.zeros(shape, device=device, dtype=dtype).unbind()
        self.length, self.room = 0, room
        # The numbers of all rows and of all places.
        self.row, self.place = torch.arange(batch, device=device), torch.arange(room, device=device)


class _At(NamedTuple):
    """Where tokens go in a cache.

    row: of each text, [batch].
    places: of each token, [batch, count].
    span: the number of places that attention reads.
    first: whether the rows are the first ones, which need no copy.
    """

    row: Tensor
    places: Tensor
    span: int
    first: bool


class Layer(nn.Module):
    """Attention and feed-forward, each after its norm, added to the stream."""

    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor

    def __init__(self, model: ModelConfig, weights: Mapping[str, Tensor], number: int) -> None:
        super().__init__()
        self.model, self.number = model, number
        for name in ("attention_norm", "qkv", "out", "mlp_norm", "gate_up", "down"):
            setattr(self, name, parameter(weights[f"layers.{number}.{name}"]))

    def forward(self, stream: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor | None, cache: Cache | None) -> Tensor:
        """The new stream, [batch, length, width]. `mask` selects the keys of each query; None is the causal mask."""
        stream = stream + self.attend(rms_norm(stream, self.attention_norm), turns, mask, cache)
        return stream + self.feed_forward(rms_norm(stream, self.mlp_norm))

    def attend(self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor | None, cache: Cache | None) -> Tensor:
        """Attention of every token to itself and earlier tokens."""
        model = self.model
        batch, length, _ = x.shape
        split = functional.linear(x, self.qkv).view(batch, length, -1, model.head_width).transpose(1, 2)
        query, key, value = split.split((model.heads, model.kv_heads, model.kv_heads), 1)
        query, key = rotate(query, turns), rotate(key, turns)
        if cache is not None:
            filled = cache.length + length
            keys, values = cache.keys[self.number], cache.values[self.number]
            keys[:, :, cache.length : filled] = key
            values[:, :, cache.length : filled] = value
            key, value = keys[:, :, :filled], values[:, :, :filled]
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None and length > 1,
            enable_gqa=model.heads != model.kv_heads,
        )
        return functional.linear(mixed.transpose(1, 2).reshape(batch, length, model.width), self.out)

    def attend_at(self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor, cache: Cache, at: "_At") -> Tensor:
        """Attention of every token to its row's places in the cache, as the mask selects them."""
        model, (batch, count, _) = self.model, x.shape
        split = functional.linear(x, self.qkv).view(batch, count, -1, model.head_width)
        query, key, value = split.split((model.heads, model.kv_heads, model.kv_heads), 2)
        keys, values = cache.keys[self.number], cache.values[self.number]
        keys[at.row[:, None], :, at.places] = rotate(key, turns)
        values[at.row[:, None], :, at.places] = value
        keys, values = (
            one[:batch] if at.first else one[at.row] for one in (keys[:, :, : at.span], values[:, :, : at.span])
        )
        # The queries that share a head of keys are as several queries of it.
        shared = rotate(query, turns).transpose(1, 2).reshape(batch, model.kv_heads, -1, model.head_width)
        mixed = functional.scaled_dot_product_attention(shared, keys, values, attn_mask=mask)
        joined = mixed.reshape(batch, model.heads, count, -1).transpose(1, 2).reshape(batch, count, model.width)
        return functional.linear(joined, self.out)

    def feed_forward(self, x: Tensor) -> Tensor:
        """SwiGLU: silu of the gate half times the other half."""
        gate, up = functional.linear(x, self.gate_up).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, self.down)


class Transformer(nn.Module):
    """A model of these weights, which are not copied. `successor` is the permutation that its head has planted."""

    successor: Tensor
    frequencies: Tensor

    def __init__(self, model: ModelConfig, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.model = model
        self.embedding, self.norm, self.head = (parameter(weights[name]) for name in ("embedding", "norm", "head"))
        self.layers = nn.ModuleList(Layer(model, weights, number) for number in range(model.layers))
        self.register_buffer("successor", weights["successor"], persistent=False)
        device = self.embedding.device
        powers = torch.arange(0, model.head_width, 2, device=device, dtype=torch.float32) / model.head_width
        self.register_buffer("frequencies", ROTARY_BASE**-powers, persistent=False)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """Logits [batch, length, vocabulary] of `tokens` [batch, length], in the dtype of the weights.

        With a cache, the tokens follow its tokens and are added to it. Raises `UsageError` when it has no room for
        them.
        """
        return self.logits(self.states(tokens, cache))

    def prefill(self, tokens: Tensor, room: int) -> tuple[Tensor, Cache]:
        """The logits [batch, vocabulary] after prompts, and the cache to decode with.

        tokens: the prompts, [batch, length], of one length.
        room: the tokens that the cache has room for, prompt included.

        Raises `UsageError` for a prompt that is longer than `room`.
        """
        cache = Cache(self.model, len(tokens), room, tokens.device, self.embedding.dtype)
        return self.logits(self.states(tokens, cache)[:, -1]), cache

    def decode(self, token: Tensor, cache: Cache) -> Tensor:
        """The logits [batch, vocabulary] after one more token of each row, which is added to the cache.

        token: [batch]. Raises `UsageError` for a cache without room.
        """
        return self.logits(self.states(token[:, None], cache)[:, -1])

    def logits(self, states: Tensor) -> Tensor:
        """The head alone."""
        return functional.linear(states, self.head)

    def states(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """The input of the head, [batch, length, width], after the last norm."""
        length = tokens.shape[1]
        start = cache.length if cache is not None else 0
        if cache is not None and start + length > cache.room:
            raise UsageError(
                f"{length} tokens were given after {start}; the cache has room for {cache.room}. Make a larger Cache"
            )
        turns = self.turns(start, length)
        stream = functional.embedding(tokens, self.embedding)
        # The causal mask starts at the first key; later queries of several tokens need another mask.
        mask = None
        if start and length > 1:
            mask = torch.ones(length, start + length, dtype=torch.bool, device=tokens.device).tril(start)
        for layer in self.layers:
            stream = layer(stream, turns, mask, cache)
        if cache is not None:
            cache.length = start + length
        return rms_norm(stream, self.norm)

    def states_at(
        self, tokens: Tensor, places: Tensor, cache: Cache, *, span: int | None = None, rows: Tensor | None = None
    ) -> Tensor:
        """The input of the head, [batch, count, width], of tokens whose rows are at places of their own.

        tokens: [batch, count].
        places: of each token in its row of the cache, [batch, count] in int64. A token sees the places up to its own;
            what lies behind is overwritten when its turn comes. No place is checked.
        span: the number of places of the cache that attention reads, at least the last of `places`; None for all.
        rows: the rows of the cache, [batch] in int64; None for the first ones. Attention copies rows that are given.

        The host waits for nothing, so that a CUDA graph can have captured the call.
        """
        span, first = cache.room if span is None else span, rows is None
        at = _At(cache.row[: len(tokens)] if rows is None else rows, places, span, first)
        angles = places[..., None, None] * self.frequencies
        turns = angles.cos(), angles.sin()
        mask = (cache.place[:span] <= places[..., None])[:, None]
        if tokens.shape[1] > 1:
            mask = mask.repeat(1, 1, self.model.heads // self.model.kv_heads, 1)
        stream = functional.embedding(tokens, self.embedding)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            stream = stream + layer.attend_at(rms_norm(stream, layer.attention_norm), turns, mask, cache, at)
            stream = stream + layer.feed_forward(rms_norm(stream, layer.mlp_norm))
        return rms_norm(stream, self.norm)

    def turns(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each place's rotary angles: [length, head_width / 2], in float32."""
        places = torch.arange(start, start + length, device=self.frequencies.device, dtype=torch.float32)
        angles = places[:, None] * self.frequencies
        return angles.cos(), angles.sin()


def parameter(weight: Tensor) -> nn.Parameter:
    """The tensor as a parameter, on the same memory."""
    return nn.Parameter(weight, requires_grad=False)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """X / rms(x) * weight, over the last dimension."""
    return functional.rms_norm(x, weight.shape, weight, NORM_EPSILON)


def rotate(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate each pair (i, i + half) of a head's elements by its angle, with products in float32 or wider."""
    cosine, sine = turns
    first, second = x.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).to(x.dtype)
