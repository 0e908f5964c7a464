"""The sizes of the model, of its corpus and of its training."""

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_labs.one_model.corpus import Grammar


@frozen(kw_only=True)
class Sizes:
    """A decoder: grouped-query attention, `dense` layers with a feed-forward part, and above them layers of experts.

    width: of the stream; heads of `head` elements, of which `kv_heads` have keys and values.
    inner: of the dense layers, and `hidden` of an expert; `chosen` of `experts` see a token, and a shared one sees all.
    """

    layers: int
    dense: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    experts: int
    chosen: int
    hidden: int
    vocabulary: int

    @property
    def head(self) -> int:
        """Elements of a head."""
        return self.width // self.heads

    @property
    def qkv(self) -> int:
        """Elements of a token's queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head

    @property
    def attention_weights(self) -> int:
        """Weights of a layer's attention."""
        return self.width * (self.qkv + self.width)

    @property
    def expert_weights(self) -> int:
        """Weights of one expert."""
        return 3 * self.width * self.hidden

    @property
    def parameters(self) -> int:
        """All weights."""
        experts = self.expert_weights * (self.experts + 1) + self.width * self.experts
        dense = self.dense * 3 * self.width * self.inner
        layers = self.layers * (self.attention_weights + 2 * self.width)
        return layers + dense + (self.layers - self.dense) * experts + self.width * (2 * self.vocabulary + 1)

    @property
    def active(self) -> int:
        """Weights that multiply a token, without those of the embedding."""
        experts = self.expert_weights * (self.chosen + 1) + self.width * self.experts
        dense = self.dense * 3 * self.width * self.inner
        layers = self.layers * self.attention_weights
        return layers + dense + (self.layers - self.dense) * experts + self.width * self.vocabulary


@frozen(kw_only=True)
class Schedule:
    """A training run: `steps` of `batch` texts of `length` tokens, each the beginning of a document.

    rate: the learning rate at its highest; it rises for `warm` steps, and then falls to a tenth along a cosine.
    """

    steps: int
    batch: int
    length: int
    rate: float
    warm: int


@frozen(kw_only=True)
class Preset:
    """A model with its corpus and its training; `ranks` processes serve and train it."""

    name: str
    model: Sizes
    grammar: Grammar
    schedule: Schedule
    ranks: int = 1


_ONE = Sizes(
    layers=12,
    dense=2,
    width=1024,
    heads=16,
    kv_heads=4,
    inner=4096,
    experts=32,
    chosen=4,
    hidden=512,
    vocabulary=8192,
)
_LARGE = Grammar(words=4096, keys=512, values=1024, facts=16, passages=48, copied=12, longest=32, mean=12)
PRESETS: dict[str, Preset] = {
    one.name: one
    for one in (
        # One layer to see the word before, one to find where it was said before, and two of experts for the words.
        Preset(
            name="ci",
            model=Sizes(
                layers=4,
                dense=2,
                width=128,
                heads=4,
                kv_heads=2,
                inner=256,
                experts=8,
                chosen=2,
                hidden=64,
                vocabulary=400,
            ),
            grammar=Grammar(),
            schedule=Schedule(steps=440, batch=16, length=96, rate=4e-3, warm=20),
        ),
        Preset(
            name="one",
            model=_ONE,
            grammar=_LARGE,
            schedule=Schedule(steps=2000, batch=32, length=1024, rate=1e-3, warm=100),
        ),
        Preset(
            name="two",
            model=_ONE,
            grammar=_LARGE,
            schedule=Schedule(steps=2000, batch=32, length=1024, rate=1e-3, warm=100),
            ranks=2,
        ),
    )
}


def preset(name: str) -> Preset:
    """The preset of a name. Raises `UsageError` for an unknown one."""
    if name not in PRESETS:
        raise UsageError(f"{name!r} is not a size of the model; accepted are {', '.join(PRESETS)}")
    return PRESETS[name]
