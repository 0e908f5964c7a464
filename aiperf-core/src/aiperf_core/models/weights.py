"""Weights of the synthetic models, drawn from a seed, with a planted bigram head."""

import math
from typing import TYPE_CHECKING

from aiperf_core.errors import UsageError
from aiperf_core.models.sizes import ModelConfig

if TYPE_CHECKING:
    import torch

Weights = dict[str, "torch.Tensor"]

# The contribution of all layers to the residual stream, relative to the embedding.
LAYERS_SHARE = 0.25
# The logit of the next token is about this; the others are spread around zero.
TOP_LOGIT = 16.0
# The spread of the norm weights around one.
NORM_SPREAD = 0.1


def successors(vocabulary: int, device: "torch.device | str", generator: "torch.Generator") -> "torch.Tensor":
    """A permutation of the vocabulary (int64): the token that follows each token. It never follows itself.

    One cycle through all tokens, so that a text repeats only after `vocabulary` tokens.
    """
    import torch

    order = torch.randperm(vocabulary, device=device, generator=generator)
    following = torch.empty_like(order)
    following[order] = order.roll(-1)
    return following


def agreeing(successor: "torch.Tensor", fraction: float, generator: "torch.Generator") -> "torch.Tensor":
    """The permutation of a draft model, which agrees with `successor` on a fraction of the tokens.

    The fraction is exact up to whole tokens; a single token cannot disagree alone. Raises `UsageError` for a number
    outside of 0 to 1.
    """
    import torch

    if not 0 <= fraction <= 1:
        raise UsageError(f"an agreement of {fraction!r} was requested; accepted is a number from 0 to 1")
    count = len(successor) - round(fraction * len(successor))
    order = torch.randperm(len(successor), device=successor.device, generator=generator)
    differing = order[:count]
    draft = successor.clone()
    if count > 1:
        draft[differing] = successor[differing.roll(-1)]
    return draft


def planted(
    model: ModelConfig,
    device: "torch.device | str",
    dtype: "torch.dtype",
    generator: "torch.Generator",
    successor: "torch.Tensor | None" = None,
) -> Weights:
    """The weights by name of a model whose next token is `successor[token]`; `successor` is drawn unless given.

    Drawn in float32 and rounded once, so that the same generator gives the same model in every dtype. The tensor
    `successor` is among them (int64).

    The head's row for the token that follows t is the scaled embedding of t. Embeddings are random, nearly orthogonal
    directions, and the layers add little to them: the logit of that row is about 16, and the others are around zero.
    Two similar embeddings reduce the margin; tests bound it. All else is a plain transformer.
    """
    import torch

    if successor is None:
        successor = successors(model.vocabulary, device, generator)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, generator=generator)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return normal(rows, columns).mul_(gain / math.sqrt(columns)).to(dtype)

    def norm() -> torch.Tensor:
        return (1 + NORM_SPREAD * normal(model.width)).to(dtype)

    # The parts of all layers add independently, so that squares add up.
    share = LAYERS_SHARE / math.sqrt(2 * model.layers)
    # Rows of equal length, so that none is favoured.
    embedding = torch.nn.functional.normalize(normal(model.vocabulary, model.width), dim=1).mul_(math.sqrt(model.width))
    weights = {"successor": successor, "embedding": embedding.to(dtype)}
    for layer in range(model.layers):
        weights |= {
            f"layers.{layer}.attention_norm": norm(),
            f"layers.{layer}.qkv": matrix(model.width + 2 * model.kv_width, model.width),
            f"layers.{layer}.out": matrix(model.width, model.width, share),
            f"layers.{layer}.mlp_norm": norm(),
            f"layers.{layer}.gate_up": matrix(2 * model.hidden, model.width),
            # silu(g) u has a mean square of 0.36 for normal g and u.
            f"layers.{layer}.down": matrix(model.width, model.hidden, share / 0.6),
        }
    head = torch.empty_like(embedding)
    head[successor] = embedding * (TOP_LOGIT / model.width)
    return weights | {"norm": norm(), "head": head.to(dtype)}
