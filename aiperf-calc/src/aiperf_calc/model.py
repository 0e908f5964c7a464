"""Parameters, operations and training memory of a model."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import frozen

from aiperf_calc.checkpoint import Format, kept_layers, weight_format
from aiperf_calc.parts import Experts, Latent, ModelShape, Recurrent
from aiperf_calc.quantities import element_bytes
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


@frozen(kw_only=True)
class Tensor:
    """A tensor of each layer that has any of the parts `letters` of `ModelShape.pattern`; of all layers without them.

    name: the name in the checkpoint, after that of the layer.
    inputs, outputs: the sides of the matrix.
    copies: experts that have one each.
    part: the field of `Parameters`.
    plain: whether quantised checkpoints keep it as it is.
    """

    name: str
    letters: str
    inputs: int
    outputs: int = 1
    copies: int = 1
    part: Literal["matrices", "experts", "vectors"] = "matrices"
    plain: bool = False

    @property
    def numbers(self) -> int:
        """The numbers in one layer."""
        return self.inputs * self.outputs * self.copies


def parameters(shape: ModelShape) -> Parameters:
    """Count the parameters, from the shapes of the model's matrices as its reference implementation has them."""
    counts = {"matrices": 0, "experts": 0, "vectors": shape.width * (2 if shape.norm_bias else 1)}
    for tensor in tensors(shape):
        counts[tensor.part] += tensor.numbers * shape.count(tensor.letters)
    chosen = counts["experts"] // shape.experts.count * shape.experts.chosen if shape.experts else 0
    table = shape.vocabulary * shape.width
    head = (0 if shape.tied else table) + shape.vocabulary * shape.head_bias
    return Parameters(**counts, embedding=table + shape.positions * shape.width, head=head, chosen_experts=chosen)


def tensors(shape: ModelShape) -> list[Tensor]:
    """The tensors of the layers; vectors are those of a part together."""
    norms = shape.norms * shape.width * (2 if shape.norm_bias else 1)
    return [
        Tensor(name="norm", letters="", inputs=norms, part="vectors"),
        *(_latent_attention(shape, shape.latent) if shape.latent else _attention(shape)),
        *_feed_forward(shape, "d", "mlp", shape.hidden),
        *(_experts(shape, shape.experts) if shape.experts else ()),
        *(_recurrent(shape.recurrent) if shape.recurrent else ()),
    ]


def _attention(shape: ModelShape) -> Iterator[Tensor]:
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    for name, outputs in (("q", queries * (1 + shape.query_gate)), ("k", keys), ("v", keys)):
        yield Tensor(name=f"self_attn.{name}_proj", letters="al", inputs=shape.width, outputs=outputs)
    yield Tensor(name="self_attn.o_proj", letters="al", inputs=queries, outputs=shape.width)
    vectors = (queries + 2 * keys) * shape.qkv_bias + shape.width * shape.out_bias + shape.attention_vectors
    yield Tensor(name="self_attn.bias", letters="al", inputs=vectors, part="vectors")


def _latent_attention(shape: ModelShape, latent: Latent) -> Iterator[Tensor]:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
    queries = shape.heads * (latent.nope + latent.rope)
    matrices = {
        "kv_a_proj_with_mqa": (shape.width, latent.kv_rank + latent.rope),
        "kv_b_proj": (latent.kv_rank, shape.heads * (latent.nope + latent.value)),
        "o_proj": (shape.heads * latent.value, shape.width),
    }
    if latent.q_rank is None:
        matrices["q_proj"] = (shape.width, queries)
    else:
        matrices |= {"q_a_proj": (shape.width, latent.q_rank), "q_b_proj": (latent.q_rank, queries)}
    for name, (inputs, outputs) in matrices.items():
        yield Tensor(name=f"self_attn.{name}", letters="al", inputs=inputs, outputs=outputs)
    yield Tensor(name="self_attn.norm", letters="al", inputs=latent.kv_rank + (latent.q_rank or 0), part="vectors")


def _feed_forward(shape: ModelShape, letters: str, name: str, hidden: int) -> Iterator[Tensor]:
    for side in ("gate", "up") if shape.gated else ("up",):
        yield Tensor(name=f"{name}.{side}_proj", letters=letters, inputs=shape.width, outputs=hidden)
    yield Tensor(name=f"{name}.down_proj", letters=letters, inputs=hidden, outputs=shape.width)
    if shape.mlp_bias:
        vectors = (2 if shape.gated else 1) * hidden + shape.width
        yield Tensor(name=f"{name}.bias", letters=letters, inputs=vectors, part="vectors")


def _experts(shape: ModelShape, experts: Experts) -> Iterator[Tensor]:
    yield Tensor(name="mlp.gate", letters="e", inputs=shape.width, outputs=experts.count, plain=True)
    yield Tensor(name="mlp.bias", letters="e", inputs=experts.count * experts.router_bias, part="vectors")
    for side in ("gate", "up", "down"):
        sides = (experts.hidden, shape.width) if side == "down" else (shape.width, experts.hidden)
        yield Tensor(name=f"mlp.experts.0.{side}_proj", letters="e", inputs=sides[0], outputs=sides[1],
                     copies=experts.count, part="experts")  # fmt: skip
        yield Tensor(name="mlp.experts.0.bias", letters="e", inputs=sides[1] * experts.bias, copies=experts.count,
                     part="experts", plain=True)  # fmt: skip
    if experts.shared:
        yield from _feed_forward(shape, "e", "mlp.shared_experts", experts.shared)
        yield Tensor(name="mlp.shared_expert_gate", letters="e", inputs=shape.width * experts.shared_gate, plain=True)


def _recurrent(recurrent: Recurrent) -> Iterator[Tensor]:
    for name, (inputs, outputs) in recurrent.matrices.items():
        yield Tensor(name=f"{recurrent.name}.{name}", letters="r", inputs=inputs, outputs=outputs)
    yield Tensor(name=f"{recurrent.name}.bias", letters="r", inputs=recurrent.vectors, part="vectors")


def places(tokens: int, window: int | None = None) -> int:
    """The places that all tokens of a causal prompt attend to: n (n + 1) / 2, or at most `window` for each token."""
    full = min(tokens, window or tokens)
    return full * (full + 1) // 2 + (tokens - full) * full


def forward_flops(shape: ModelShape, tokens: int, attended: int, local: int | None = None) -> int:
    """The operations of `tokens` tokens, a multiply-add as two. Norms, softmax and convolutions are not counted.

    attended: the places that all tokens together attend to; of a causal prompt `places(tokens)`.
    local: the same in local layers; the same number without it.

    Source: two operations a weight of a matrix (Kaplan et al., arXiv 2001.08361, section 2.1), and of attention two
    products of a head's width for each place. A recurrent layer multiplies each number of its state with the token's
    input and output (Gu and Dao, arXiv 2312.00752), and under the delta rule with its key too.
    """
    used = _used(shape)
    local = attended if local is None else local
    attention = (shape.count("a") * attended + shape.count("l") * local) * _attended_width(shape)
    return 2 * tokens * (used + _recurrence(shape)) + 2 * attention


def _used(shape: ModelShape) -> int:
    """The weights of matrices that a token is multiplied with."""
    numbers = parameters(shape)
    return numbers.matrices + numbers.chosen_experts + shape.vocabulary * shape.width


def _recurrence(shape: ModelShape) -> int:
    """Multiply-adds of a token with the states of recurrent layers."""
    return shape.count("r") * shape.recurrent.state * shape.recurrent.products if shape.recurrent else 0


def _attended_width(shape: ModelShape) -> int:
    """Multiply-adds of a query with a place in a layer: of the product with the key, and with the value."""
    value = shape.latent.value if shape.latent else shape.head_width
    return shape.heads * (shape.head_width + value)


def training_flops_per_token(shape: ModelShape, context: int) -> float:
    """6 P + 6 s d of a token: three times the operations of a forward pass.

    The attention term counts all s places of the context for each token, as MFU does (Chowdhery et al., PaLM, 2022,
    appendix B: 6 N + 12 L H Q T); local layers those of their window.
    """
    attended = shape.count("a") * context + shape.count("l") * min(context, shape.window or context)
    return 6.0 * (_used(shape) + _recurrence(shape)) + 6.0 * attended * _attended_width(shape)


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


@frozen(kw_only=True)
class Share:
    """A tensor's weights over the layers.

    count: numbers in a layer. largest, total: bytes of the layer with the most, and of all layers.
    """

    letters: str
    routed: bool
    count: int
    largest: float
    total: float


@frozen(kw_only=True)
class Weights:
    """The stored weights: those of layers by tensor, and the bytes of all others (embedding, head, last norm)."""

    shares: Sequence[Share]
    ends: float

    @property
    def total(self) -> float:
        """The bytes of all weights."""
        return self.ends + math.fsum(share.total for share in self.shares)


def weights(shape: ModelShape, dtype: str | None) -> Weights:
    """The weights in a number format, or as the checkpoint stores them. Raises UsageError for an unknown storage.

    Scales are those of the checkpoint; a format that is asked for has none.
    """
    form = weight_format_of(shape, dtype)
    listed = tensors(shape)
    kept: dict[str, int] = {}
    if form.method and shape.stored:
        places = {tensor.name: shape.layers_with(tensor.letters) for tensor in listed if tensor.part != "vectors"}
        kept = kept_layers(form, shape.renamed, places, shape.stored)
    plain, shares = element_bytes(form.plain), []
    for tensor in listed:
        layers, each = shape.count(tensor.letters), tensor.numbers * plain
        as_is = layers if tensor.plain or tensor.part == "vectors" else kept.get(tensor.name, 0)
        packed = tensor.copies * form.matrix_bytes(tensor.inputs, tensor.outputs) if as_is < layers else 0.0
        shares.append(
            Share(letters=tensor.letters, routed=tensor.part == "experts", count=tensor.numbers,
                  largest=each if as_is else packed, total=as_is * each + (layers - as_is) * packed)
        )  # fmt: skip
    numbers = parameters(shape)
    norm = shape.width * (2 if shape.norm_bias else 1)
    head = form.matrix_bytes(shape.width, shape.vocabulary) if form.head and not shape.tied else numbers.head * plain
    return Weights(shares=shares, ends=(numbers.embedding + norm) * plain + head)


def weight_format_of(shape: ModelShape, dtype: str | None) -> Format:
    """The format that is asked for, or else that of the checkpoint."""
    if dtype is None and shape.stored is not None:
        return weight_format(shape.stored)
    return Format(dtype=dtype or "bf16", plain=dtype or "bf16")


def weight_notes(shape: ModelShape, dtype: str | None, divided: bool = False) -> list[str]:
    """Describe the format of the weights in an answer. divided: whether it divides the model over GPUs."""
    notes = list(shape.notes)
    if shape.stored is not None and shape.stored.quantization:
        form = weight_format_of(shape, dtype)
        if dtype is not None:
            notes.append(f"--dtype {dtype} goes before the number format of the quantised checkpoint")
        elif form.method:
            notes.append(form.note)
    if divided and shape.recurrent:
        notes.append("recurrent layers are not divided by tensor parallelism: only TP1 is considered")
    return notes


def weight_bytes(shape: ModelShape, dtype: str | None = None) -> float:
    """The bytes of all weights; see `weights`."""
    return weights(shape, dtype).total
