"""Parameters, operations and training memory of a model."""

from attrs import frozen

from aiperf_analysis.calc.quantities import DTYPE_BYTES
from aiperf_analysis.calc.shape import Latent, ModelShape
from aiperf_core.errors import UsageError

# Of an accelerator with 16-bit matrix units: weights and gradients in 16 bits, and in 32 bits the optimizer's copy of
# the weights, its momentum and its variance (Rajbhandari et al., ZeRO, 2020, section 3.1).
WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2.0, 2.0, 12.0
RECOMPUTATIONS = ("none", "selective", "full")


@frozen
class Parameters:
    """The parameters of a model by part.

    matrices: those of the layers that multiply activations, without experts.
    experts: of all routed experts.
    vectors: norms and biases.
    embedding: the table of the tokens, and of positions. head: 0 where it is the embedding.
    chosen_experts: of the experts that a token uses.
    """

    matrices: int
    experts: int
    vectors: int
    embedding: int
    head: int
    chosen_experts: int

    @property
    def total(self) -> int:
        """All parameters."""
        return self.matrices + self.experts + self.vectors + self.embedding + self.head

    @property
    def active(self) -> int:
        """The parameters that a token uses; all of them in a model without experts."""
        return self.total - self.experts + self.chosen_experts


def parameters(shape: ModelShape) -> Parameters:
    """Count the parameters, from the shapes of the model's matrices as its reference implementation has them."""
    attention, attention_vectors = _attention(shape)
    per_layer = 3 if shape.gated else 2
    dense_layers = shape.layers - (shape.experts.layers if shape.experts else 0)
    matrices = shape.layers * attention + dense_layers * per_layer * shape.width * shape.hidden
    norm = shape.width * (2 if shape.norm_bias else 1)
    vectors = shape.layers * (2 * norm + attention_vectors) + norm
    if shape.mlp_bias:
        vectors += dense_layers * ((per_layer - 1) * shape.hidden + shape.width)
    experts = chosen = 0
    if shape.experts is not None:
        one = 3 * shape.width * shape.experts.hidden
        layers = shape.experts.layers
        matrices += layers * (shape.width * shape.experts.count + one * shape.experts.shared)
        vectors += layers * shape.experts.count if shape.experts.biased_router else 0
        experts, chosen = layers * one * shape.experts.count, layers * one * shape.experts.chosen
    table = shape.vocabulary * shape.width
    positions = shape.positions * shape.width
    return Parameters(matrices, experts, vectors, table + positions, 0 if shape.tied else table, chosen)


def _attention(shape: ModelShape) -> tuple[int, int]:
    """The parameters of a layer's attention: of its matrices, and of its norms and biases."""
    if shape.latent is not None:
        return _latent_attention(shape, shape.latent)
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    vectors = queries + 2 * keys if shape.qkv_bias else 0
    vectors += shape.width if shape.out_bias else 0
    vectors += 2 * shape.head_width if shape.qk_norm else 0
    return shape.width * (2 * queries + 2 * keys), vectors


def _latent_attention(shape: ModelShape, latent: Latent) -> tuple[int, int]:
    """The same for multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
    queries = shape.heads * (latent.nope + latent.rope)
    down = shape.width * queries if latent.q_rank is None else latent.q_rank * (shape.width + queries)
    keys = shape.width * (latent.kv_rank + latent.rope) + latent.kv_rank * shape.heads * (latent.nope + latent.value)
    out = shape.heads * latent.value * shape.width
    return down + keys + out, latent.kv_rank + (latent.q_rank or 0)


def forward_flops(shape: ModelShape, tokens: int, attended: int) -> int:
    """The operations of `tokens` tokens, a multiply-add as two. Norms and softmax are not counted.

    attended: the places that all tokens together attend to; of a causal prompt of n tokens n (n + 1) / 2.

    Source: two operations a weight of a matrix (Kaplan et al., arXiv 2001.08361, section 2.1), and of attention two
    products of a head's width for each place.
    """
    found = parameters(shape)
    used = found.matrices + found.chosen_experts + shape.vocabulary * shape.width
    return 2 * tokens * used + 2 * attended * shape.layers * _attended_width(shape)


def _attended_width(shape: ModelShape) -> int:
    """Multiply-adds of a query with a place in a layer: of the product with the key, and with the value."""
    value = shape.latent.value if shape.latent else shape.head_width
    return shape.heads * (shape.head_width + value)


def training_flops_per_token(shape: ModelShape, context: int) -> float:
    """6 P + 6 s d of a token: three times the operations of a forward pass.

    The attention term counts all s places of the context for each token, as MFU does (Chowdhery et al., PaLM, 2022,
    appendix B: 6 N + 12 L H Q T).
    """
    found = parameters(shape)
    used = found.matrices + found.chosen_experts + shape.vocabulary * shape.width
    return 6.0 * used + 6.0 * context * shape.layers * _attended_width(shape)


@frozen
class Training:
    """Bytes that training keeps on a device: of weights, gradients and the optimizer."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.weights + self.gradients + self.optimizer


def training(count: float, zero: int = 0, ranks: int = 1) -> Training:
    """16 bytes a parameter of mixed precision with Adam, divided over data-parallel ranks.

    ZeRO 1 divides the optimizer, 2 the gradients too, 3 the weights too (Rajbhandari et al., ZeRO, 2020, figure 1).
    """
    if zero not in (0, 1, 2, 3):
        raise UsageError(f"ZeRO has the stages 0 (off), 1, 2 and 3; got {zero}.")
    parts = [
        bytes_ / (ranks if zero >= stage else 1) * count
        for stage, bytes_ in ((3, WEIGHT_BYTES), (2, GRADIENT_BYTES), (1, OPTIMIZER_BYTES))
    ]
    return Training(*parts)


def activation_bytes(
    shape: ModelShape, tokens: int, batch: int, *, recomputation: str = "none", tensor: int = 1, sequence: bool = False
) -> float:
    """Bytes of the activations that a layer keeps for the backward pass, in 16 bits.

    s b h (34 + 5 a s / h); with tensor parallelism t: s b h (10 + 24 / t + 5 a s / (h t)), with sequence parallelism
    too all of it divided by t. Selective recomputation drops the term of attention; full keeps 2 s b h, the input.

    Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, equations 1 to 4
    and table 2. It holds for a GPT: a feed-forward layer of four times the width, without a gate, with dropout.
    """
    if recomputation not in RECOMPUTATIONS:
        raise UsageError(f"'{recomputation}' is no recomputation. Accepted: {', '.join(RECOMPUTATIONS)}.")
    base = float(tokens) * batch * shape.width
    if recomputation == "full":
        return 2 * base
    attention = 0.0 if recomputation == "selective" else 5 * shape.heads * tokens / shape.width
    if sequence:
        return base / tensor * (34 + attention)
    return base * (10 + 24 / tensor + attention / tensor)


def weight_bytes(shape: ModelShape, dtype: str) -> float:
    """The bytes of all weights in a number format, without the scales of a quantised one."""
    return parameters(shape).total * DTYPE_BYTES[dtype]
