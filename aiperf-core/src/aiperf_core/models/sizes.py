"""The sizes of the synthetic models."""

from collections.abc import Mapping

from attrs import asdict, frozen

from aiperf_core.errors import UsageError


@frozen(kw_only=True)
class ModelConfig:
    """The sizes of a decoder-only transformer with grouped-query attention. Raises `UsageError` for wrong sizes.

    layers: the number of layers.
    width: of the residual stream; `width / heads` is even.
    heads, kv_heads: of the queries, and of the keys and values; `heads` is a multiple of `kv_heads`.
    hidden: the width of the gated feed-forward part.
    vocabulary: the number of tokens.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int

    def __attrs_post_init__(self) -> None:
        for name, value in self.sizes.items():
            if type(value) is not int or value < 1:
                raise UsageError(f"a model has {name}={value!r}; accepted are whole numbers from 1")
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise UsageError(
                f"a model has width={self.width} and heads={self.heads}; accepted is an even width of each head"
            )
        if self.heads % self.kv_heads:
            raise UsageError(
                f"a model has heads={self.heads} and kv_heads={self.kv_heads}; accepted are heads that share evenly"
            )

    @property
    def head_width(self) -> int:
        """Elements of a head's query, key and value."""
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        """Elements of all heads' keys, and of their values, of one token in one layer."""
        return self.kv_heads * self.head_width

    @property
    def layer_parameters(self) -> int:
        """Weights of the matrices of one layer."""
        return 2 * self.width * (self.width + self.kv_width) + 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        """All weights: layers, norms, embedding and head."""
        norms = (2 * self.layers + 1) * self.width
        return self.layers * self.layer_parameters + norms + 2 * self.vocabulary * self.width

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes by name, for the presets of a workload; `ModelConfig(**sizes)` restores the model."""
        return asdict(self)

    def flops(self, tokens: int, attended: int, heads_of: int) -> int:
        """The operations, a multiply-add as two, of `tokens` tokens.

        attended: the places that all of them together attend to.
        heads_of: the number of tokens that go through the head.
        """
        layer = 2 * tokens * self.layer_parameters + 4 * attended * self.width
        return self.layers * layer + 2 * heads_of * self.width * self.vocabulary


CONFIGS: Mapping[str, ModelConfig] = {
    # A few milliseconds on two processors.
    "tiny": ModelConfig(layers=2, width=128, heads=4, kv_heads=2, hidden=344, vocabulary=1024),
    # 1.1 thousand million weights.
    "1b": ModelConfig(layers=16, width=2048, heads=32, kv_heads=8, hidden=8192, vocabulary=32000),
    # Four layers of the shape of an 8B model.
    "8b4": ModelConfig(layers=4, width=4096, heads=32, kv_heads=8, hidden=14336, vocabulary=32000),
}


def config(name: str) -> ModelConfig:
    """The sizes of a model by name. Raises `UsageError` for an unknown name."""
    if name not in CONFIGS:
        raise UsageError(f"{name!r} is not a synthetic model; accepted are {', '.join(map(repr, CONFIGS))}")
    return CONFIGS[name]
