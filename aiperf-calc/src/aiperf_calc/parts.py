"""The sizes of a language model, as the calculators need them."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from attrs import Factory, field, frozen

from aiperf_core.errors import UsageError


@frozen(kw_only=True)
class Experts:
    """Feed-forward layers of experts, of which a router chooses some for each token.

    count, chosen: experts of a layer, and those of a token.
    hidden: the inner width of an expert.
    shared: the inner width of the experts that every token uses, together.
    shared_gate: whether the output of the shared experts has a gate (Qwen).
    router_bias, bias: biases of the router (one an expert), and of the experts.
    """

    count: int
    chosen: int
    hidden: int
    shared: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    bias: bool = False


@frozen(kw_only=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the cache holds one latent for all heads.

    kv_rank: the width of the latent of keys and values.
    q_rank: the width of the latent of queries; None where queries are projected directly.
    rope: the width of the part of a key with rotary positions; all heads share it.
    nope: the width of the part of a head's key without positions.
    value: the width of a head's value.
    """

    kv_rank: int
    q_rank: int | None
    rope: int
    nope: int
    value: int


@frozen(kw_only=True)
class Recurrent:
    """Layers that keep a state of fixed size of each sequence instead of keys and values (Mamba, gated delta rule).

    name: the name of the part in the checkpoint.
    matrices: inputs and outputs of each projection by its name.
    vectors: all other parameters of a layer.
    state: numbers of the state of a sequence in a layer.
    inputs: numbers of the last inputs of the convolution that a layer keeps of a sequence.
    products: multiply-adds of a token with each number of the state.
    """

    name: str
    matrices: Mapping[str, tuple[int, int]]
    vectors: int
    state: int
    inputs: int
    products: int = 2


@frozen(kw_only=True)
class Stored:
    """How a checkpoint stores its numbers, as its files say.

    file: the name of the config in messages.
    dtype: `torch_dtype`.
    quantization: `quantization_config`, or the content of `hf_quant_config.json`.
    """

    file: str
    dtype: Any = None
    quantization: Any = None


def _uniform(shape: "ModelShape") -> tuple[str, ...]:
    return ("ad",) * shape.layers


@frozen(kw_only=True)
class ModelShape:
    """The sizes of a decoder-only language model.

    layers, width: the number of layers, and the width of the residual stream.
    heads, kv_heads, head_width: heads of queries, heads of keys and values, and the width of each.
    hidden: the inner width of a feed-forward layer.
    vocabulary: the number of tokens.
    gated: whether the feed-forward layer has a gate, and so three matrices instead of two.
    query_gate: whether queries have a gate of their size (Qwen3-Next).
    tied: whether embedding and head are one matrix.
    qkv_bias, out_bias, mlp_bias, head_bias: biases of the projections.
    norms: the norms of a layer over the width.
    norm_bias: whether a norm has a bias too (LayerNorm) or a weight alone (RMSNorm).
    attention_vectors: numbers of the norms of queries and keys, and of attention sinks, in a layer of attention.
    positions: learned positions; 0 for rotary ones.
    window: the tokens that a local layer attends to; None without local layers.
    pattern: the parts of each layer: `a` attention, `l` local attention, `r` recurrent, `d` feed-forward, `e` experts.
    renamed: names of parts in the checkpoint that differ from those of a Llama.
    name: the model's type in its `config.json`.
    notes: what the file says that these sizes leave out.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    gated: bool = True
    query_gate: bool = False
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    norms: int = 2
    norm_bias: bool = False
    attention_vectors: int = 0
    positions: int = 0
    window: int | None = None
    pattern: tuple[str, ...] = Factory(_uniform, takes_self=True)
    experts: Experts | None = None
    latent: Latent | None = None
    recurrent: Recurrent | None = None
    renamed: Mapping[str, str] = field(factory=dict)
    stored: Stored | None = None
    name: str = "options"
    notes: tuple[str, ...] = field(factory=tuple)

    def __attrs_post_init__(self) -> None:
        check_heads(self.heads, self.kv_heads)

    def count(self, letters: str) -> int:
        """The layers that have any of these parts; all layers without letters."""
        return self.fullest(letters, self.layers)

    def layers_with(self, letters: str) -> list[int]:
        """The numbers of such layers."""
        return [layer for layer, parts in enumerate(self.pattern) if not letters or not set(letters).isdisjoint(parts)]

    def fullest(self, letters: str, layers: int) -> int:
        """The most of such layers among `layers` consecutive ones."""
        kinds = {parts for parts in set(self.pattern) if not letters or not set(letters).isdisjoint(parts)}
        if kinds == set(self.pattern):
            return min(layers, self.layers)
        sums = [0, *accumulate(parts in kinds for parts in self.pattern)]
        return max(end - start for start, end in zip(sums, sums[min(layers, self.layers) :], strict=False))

    def cache_parts(self, tensor: int) -> int:
        """The parts of the cache over `tensor` GPUs: a latent is not divided, nor more often than heads of keys are."""
        return 1 if self.latent or not self.kv_heads else min(tensor, self.kv_heads)


def check_heads(heads: int, kv_heads: int) -> None:
    """Raise UsageError unless the heads of keys and values divide those of queries; 0 is a model without attention."""
    if heads and (kv_heads > heads or heads % kv_heads):
        raise UsageError(
            f"{kv_heads} heads of keys and values do not divide {heads} heads of queries; accepted is a divisor of "
            f"{heads}. Correct 'num_key_value_heads' of the config, or --kv-heads and --heads."
        )
