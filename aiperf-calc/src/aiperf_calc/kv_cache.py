"""The cache of keys and values."""

import math

from attrs import field, frozen

from aiperf_calc.parts import ModelShape
from aiperf_calc.quantities import element_bytes, scaled_bytes
from aiperf_core.errors import UsageError


@frozen(kw_only=True)
class Cached:
    """Cache that a model keeps of a sequence.

    layers: layers that keep every token.
    local_layers, window: layers that keep the last `window` tokens.
    elements: numbers that a layer keeps of a token: 2 x heads of keys and values x width of a head; of latent
        attention the latent and the rotary part of the key (DeepSeek-V2, arXiv 2405.04434, section 2.1.4).
    state: numbers that recurrent layers keep of a sequence, whatever its tokens: states, and inputs of convolutions.
    """

    layers: int
    elements: int
    local_layers: int = 0
    window: int = field(default=0)
    state: int = 0

    def __attrs_post_init__(self) -> None:
        tokens = min(self.layers + self.local_layers, self.elements)
        if min(self.layers, self.local_layers) < 0 or (tokens < 1 and not self.state):
            raise UsageError("a cache needs layers, heads of keys and values and a width of a head, all from 1.")
        if self.local_layers and self.window < 1:
            raise UsageError("local layers need a window of 1 token or more: --window NUMBER.")


def cached(shape: ModelShape, layers: int | None = None) -> Cached:
    """Cache of a model of this shape; with `layers`, at most that number of consecutive layers."""
    size = layers or shape.layers
    latent, recurrent = shape.latent, shape.recurrent
    return Cached(
        layers=shape.fullest("a", size),
        elements=latent.kv_rank + latent.rope if latent else 2 * shape.kv_heads * shape.head_width,
        local_layers=shape.fullest("l", size),
        window=shape.window or 0,
        state=shape.fullest("r", size) * (recurrent.state + recurrent.inputs) if recurrent else 0,
    )


def state_bytes(kept: Cached, dtype: str) -> float:
    """The bytes of the states of a sequence, in the format of the cache but at least 16 bits."""
    return kept.state * max(2.0, element_bytes(dtype))


def token_bytes(kept: Cached, dtype: str, group: int = 0, scale_bytes: float = 0.0) -> float:
    """The bytes of one token in all layers."""
    return (kept.layers + kept.local_layers) * scaled_bytes(kept.elements, dtype, group, scale_bytes)


def cache_bytes(
    kept: Cached, dtype: str, tokens: int, sequences: int, *, page: int = 1, group: int = 0, scale_bytes: float = 0.0
) -> float:
    """The bytes of `sequences` sequences of `tokens` tokens each.

    2 layers heads width bytes tokens sequences. The tokens of a sequence are rounded up to whole pages (Kwon et al.,
    Efficient Memory Management for LLM Serving with PagedAttention, 2023). Local layers keep min(tokens, window).
    Recurrent layers keep their states.

    page: tokens of a page.
    group, scale_bytes: of a quantised cache, the numbers that share a scale, and its bytes.
    """
    if min(tokens, sequences, page) < 1:
        raise UsageError(
            f"a cache takes tokens, sequences and a page from 1; got {tokens} tokens, {sequences} sequences and pages "
            f"of {page}."
        )
    token = scaled_bytes(kept.elements, dtype, group, scale_bytes)
    whole = kept.layers * _paged(tokens, page)
    local = kept.local_layers * _paged(min(tokens, kept.window), page)
    return float(sequences) * ((whole + local) * token + state_bytes(kept, dtype))


def _paged(tokens: int, page: int) -> int:
    return math.ceil(tokens / page) * page
