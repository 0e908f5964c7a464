"""The cache of keys and values."""

import math

from attrs import field, frozen

from aiperf_analysis.calc.quantities import scaled_bytes
from aiperf_analysis.calc.shape import ModelShape
from aiperf_core.errors import UsageError


@frozen(kw_only=True)
class Cached:
    """What a model keeps of each token.

    layers: layers that keep every token.
    local_layers, window: layers that keep the last `window` tokens.
    elements: numbers that a layer keeps of a token: 2 x heads of keys and values x width of a head; of latent
        attention the latent and the rotary part of the key (DeepSeek-V2, arXiv 2405.04434, section 2.1.4).
    """

    layers: int
    elements: int
    local_layers: int = 0
    window: int = field(default=0)

    def __attrs_post_init__(self) -> None:
        if self.layers < 0 or self.local_layers < 0 or self.layers + self.local_layers < 1 or self.elements < 1:
            raise UsageError("a cache needs layers, heads of keys and values and a width of a head, all from 1.")
        if self.local_layers and self.window < 1:
            raise UsageError("local layers need a window of 1 token or more: --window NUMBER.")


def cached(shape: ModelShape) -> Cached:
    """What a model of this shape keeps."""
    latent = shape.latent
    elements = latent.kv_rank + latent.rope if latent else 2 * shape.kv_heads * shape.head_width
    return Cached(
        layers=shape.layers - shape.local_layers,
        elements=elements,
        local_layers=shape.local_layers,
        window=shape.window or 0,
    )


def token_bytes(kept: Cached, dtype: str, group: int = 0, scale_bytes: float = 0.0) -> float:
    """The bytes of one token in all layers."""
    return (kept.layers + kept.local_layers) * scaled_bytes(kept.elements, dtype, group, scale_bytes)


def cache_bytes(
    kept: Cached, dtype: str, tokens: int, sequences: int, *, page: int = 1, group: int = 0, scale_bytes: float = 0.0
) -> float:
    """The bytes of `sequences` sequences of `tokens` tokens each.

    2 layers heads width bytes tokens sequences. The tokens of a sequence are rounded up to whole pages (Kwon et al.,
    Efficient Memory Management for LLM Serving with PagedAttention, 2023). Local layers keep min(tokens, window).

    page: tokens of a page.
    group, scale_bytes: of a quantised cache, the numbers that share a scale, and its bytes.
    """
    if min(tokens, sequences, page) < 1:
        raise UsageError(
            f"a cache takes tokens, sequences and a page from 1; got {tokens} tokens, {sequences} sequences and pages "
            f"of {page}."
        )
    one = scaled_bytes(kept.elements, dtype, group, scale_bytes)
    whole = kept.layers * _paged(tokens, page)
    local = kept.local_layers * _paged(min(tokens, kept.window), page)
    return float(sequences) * (whole + local) * one


def _paged(tokens: int, page: int) -> int:
    return math.ceil(tokens / page) * page
