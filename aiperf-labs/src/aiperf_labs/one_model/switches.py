"""Switches: all that can be turned on or off in the one model, which combinations are legal, and the ladders of them.

Kinds: an S switch turns a technique on. A K switch takes one mechanism from the model's own code, and shows what it is
worth to the whole. The PLACEBO changes nothing, so that a run must call it SAME; the SABOTAGE leaves out a layer, so
that a run must call it INVALID.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import asdict, evolve, field, frozen
from attrs.validators import ge, in_, instance_of

from aiperf_core.errors import UsageError

EXPERTS = ("mask", "sorted", "one_call")
CACHES = ("model", "fp8")
LADDERS = {"train": "training", "serve": "serving", "ranks": "training on two ranks"}
LOSSY = ("cache", "narrow_wire")  # fields
DRAFT = 3  # tokens that a lookup proposes


@frozen(kw_only=True)
class Switches:
    """How the model is computed. Raises `UsageError` for values that do not go together.

    fused_projections: one product for queries, keys and values.
    experts: a mask for each expert, rows sorted by expert, or one call for all.
    explicit_attention: K. Scores in memory, a softmax, and a second product.
    fused_optimizer: one pass over weights and moments.
    chunked_loss: logits of some tokens at a time, computed again for their gradient.
    checkpoint: activations within a layer are computed again for its gradient.
    continuous: a slot that has ended takes the next request.
    longest_first: requests with long answers start first.
    rotary_table: cosines and sines of all places are computed ahead.
    prefix: keys and values of a beginning that requests share are computed once.
    lookup: tokens that are proposed at a time, from where the text has said the last two before.
    cache: the type of keys and values.
    graphs: a step of decoding is a CUDA graph.
    repeated_heads: K. Keys and values are copied for all queries that share them.
    grown_cache: K. The cache is allocated anew, and copied, for each step.
    all_logits: K. The head sees all tokens of a prompt.
    bucketed: one message for all gradients.
    narrow_wire: gradients are sent as bfloat16.
    placebo: changes nothing.
    skips_layer: the sabotage.
    """

    fused_projections: bool = field(default=False, validator=instance_of(bool))
    experts: str = field(default="mask", validator=in_(EXPERTS))
    explicit_attention: bool = field(default=False, validator=instance_of(bool))
    fused_optimizer: bool = field(default=False, validator=instance_of(bool))
    chunked_loss: bool = field(default=False, validator=instance_of(bool))
    checkpoint: bool = field(default=False, validator=instance_of(bool))
    continuous: bool = field(default=False, validator=instance_of(bool))
    longest_first: bool = field(default=False, validator=instance_of(bool))
    rotary_table: bool = field(default=False, validator=instance_of(bool))
    prefix: bool = field(default=False, validator=instance_of(bool))
    lookup: int = field(default=0, validator=[instance_of(int), ge(0)])
    cache: str = field(default="model", validator=in_(CACHES))
    graphs: bool = field(default=False, validator=instance_of(bool))
    repeated_heads: bool = field(default=False, validator=instance_of(bool))
    grown_cache: bool = field(default=False, validator=instance_of(bool))
    all_logits: bool = field(default=False, validator=instance_of(bool))
    bucketed: bool = field(default=False, validator=instance_of(bool))
    narrow_wire: bool = field(default=False, validator=instance_of(bool))
    placebo: bool = field(default=False, validator=instance_of(bool))
    skips_layer: bool = field(default=False, validator=instance_of(bool))

    def __attrs_post_init__(self) -> None:
        for wrong, told in (
            (self.narrow_wire and not self.bucketed, "narrow_wire needs bucketed: a single gradient is short"),
            (self.graphs and self.experts != "one_call", "graphs need experts='one_call': a mask waits for the host"),
            (self.graphs and self.grown_cache, "graphs and grown_cache exclude each other: a graph's memory stays"),
            (self.graphs and not self.rotary_table, "graphs need rotary_table: their kernels are those of a step"),
        ):
            if wrong:
                raise UsageError(f"the switches do not go together: {told}")

    @property
    def is_lossy(self) -> bool:
        """Whether the answer is not that of the model."""
        return any(name in self.changed for name in LOSSY)

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that differ from the baseline's."""
        return {name: value for name, value in asdict(self).items() if value != asdict(BASELINE)[name]}


BASELINE = Switches()


@frozen(kw_only=True)
class Switch:
    """One step of a ladder.

    ladders: those that it is a step of.
    sets: the fields of `Switches` that it sets.
    kind: `S` or `K`.
    techniques: by the numbers of `aiperf techniques`.
    stage: of the ladder, 1 to 7.
    devices: where it can be measured.
    needs: switches without which it cannot be on.
    target: the target of a chapter whose implementation it is; empty for the model's own code.
    teaches: what it teaches where it gains nothing.
    """

    name: str
    ladders: tuple[str, ...]
    sets: Mapping[str, Any]
    adds: str
    why: str
    kind: str = "S"
    techniques: tuple[int, ...] = ()
    stage: int = 1
    devices: tuple[str, ...] = ("cpu", "cuda")
    needs: tuple[str, ...] = ()
    target: str = ""
    teaches: str = ""

    @property
    def is_lossy(self) -> bool:
        """Whether it changes the answer."""
        return bool({*self.sets} & {*LOSSY})


BOTH = ("train", "serve")
# In the order of the ladders.
SWITCHES: tuple[Switch, ...] = (
    Switch(
        name="sorted_experts",
        ladders=BOTH,
        sets={"experts": "sorted"},
        adds="sorted experts",
        why="one sort and one gather replace a search, a gather and a scatter for each expert",
        techniques=(86, 92),
        stage=6,
    ),
    Switch(
        name="one_call_experts",
        ladders=("serve",),
        sets={"experts": "one_call"},
        adds="one call for all experts",
        why="the products of all experts are one call, and a block of rows stays in the cache between both of them",
        techniques=(28, 92),
        stage=6,
        needs=("sorted_experts",),
        target="ch15.moe_grouped_gemm",
    ),
    Switch(
        name="fused_projections",
        ladders=BOTH,
        sets={"fused_projections": True},
        adds="fused projections",
        why="queries, keys and values are one product, which reads its input once",
        techniques=(75,),
        stage=2,
        teaches="two products of a layer are saved, of many: less than other work of the step",
    ),
    Switch(
        name="fused_optimizer",
        ladders=("train", "ranks"),
        sets={"fused_optimizer": True},
        adds="fused optimizer",
        why="weights, gradients and moments are read and written in one pass, not in one for each operation",
        techniques=(75,),
        stage=4,
    ),
    Switch(
        name="chunked_loss",
        ladders=("train",),
        sets={"chunked_loss": True},
        adds="chunked loss",
        why="logits of a part of the tokens are in memory at a time, and are computed again for their gradient",
        techniques=(70,),
        stage=5,
        teaches="memory is bought with a second product of the head; where memory is not short, that is a loss",
    ),
    Switch(
        name="checkpoint",
        ladders=("train",),
        sets={"checkpoint": True},
        adds="checkpointed layers",
        why="a layer keeps its input alone, and computes the rest again for the gradient",
        techniques=(70,),
        stage=5,
        teaches="a third forward pass is bought memory: a step takes up to 4/3 of its time",
    ),
    Switch(
        name="continuous",
        ladders=("serve",),
        sets={"continuous": True},
        adds="continuous batching",
        why="a slot that has ended takes the next request, instead of waiting for the longest answer of its batch",
        techniques=(98, 102),
        stage=6,
    ),
    Switch(
        name="longest_first",
        ladders=("serve",),
        sets={"longest_first": True},
        adds="longest first",
        why="long answers start first, so that no slot works alone at the end",
        techniques=(62, 100, 101),
        stage=6,
        teaches="requests that start together prefill together; the tail is short already where slots are few",
    ),
    Switch(
        name="rotary_table",
        ladders=("serve",),
        sets={"rotary_table": True},
        adds="rotary table",
        why="cosines and sines depend on the place alone, and need no operations in a step",
        stage=2,
        teaches="they are some operations of a pass, of hundreds",
    ),
    Switch(
        name="prefix",
        ladders=("serve",),
        sets={"prefix": True},
        adds="prefix cache",
        why="requests that begin alike share the keys and values of their beginning, which are copied",
        techniques=(96, 112),
        stage=6,
    ),
    Switch(
        name="graphs",
        ladders=("serve",),
        sets={"graphs": True},
        adds="graphs of steps",
        why="a step is one launch, of the graph whose span has all keys",
        techniques=(54, 55, 61),
        stage=4,
        devices=("cuda",),
        needs=("one_call_experts", "rotary_table"),
    ),
    Switch(
        name="lookup",
        ladders=("serve",),
        sets={"lookup": DRAFT},
        adds="prompt lookup",
        why="tokens that the text has said before are proposed, and one pass checks them all; a wrong one is dropped",
        techniques=(113, 114),
        stage=6,
    ),
    Switch(
        name="fp8_cache",
        ladders=("serve",),
        sets={"cache": "fp8"},
        adds="fp8 cache",
        why="keys and values take a quarter of the bytes of float32, half of bfloat16",
        techniques=(68,),
        stage=6,
        teaches="a short cache is no bound: to convert it costs more than to read it",
    ),
    Switch(
        name="bucketed",
        ladders=("ranks",),
        sets={"bucketed": True},
        adds="one bucket",
        why="all gradients are one message, instead of a message and a wait for each",
        techniques=(48, 49),
        stage=7,
    ),
    Switch(
        name="narrow_wire",
        ladders=("ranks",),
        sets={"narrow_wire": True},
        adds="bfloat16 on the wire",
        why="half the bytes are sent",
        techniques=(49,),
        stage=7,
        needs=("bucketed",),
        teaches="gloo sums bfloat16 an element at a time: bytes are saved, and time is not",
    ),
    Switch(
        name="explicit_attention",
        ladders=BOTH,
        sets={"explicit_attention": True},
        kind="K",
        adds="scores in memory",
        why="scores are written, read for the softmax, written again and read once more",
        techniques=(39, 40),
        stage=3,
    ),
    Switch(
        name="repeated_heads",
        ladders=("serve",),
        sets={"repeated_heads": True},
        kind="K",
        adds="repeated heads",
        why="keys and values are copied for each query that shares them",
        techniques=(115,),
        stage=6,
    ),
    Switch(
        name="grown_cache",
        ladders=("serve",),
        sets={"grown_cache": True},
        kind="K",
        adds="grown cache",
        why="the whole cache is allocated anew and copied for each token",
        techniques=(60, 70, 94),
        stage=6,
    ),
    Switch(
        name="all_logits",
        ladders=("serve",),
        sets={"all_logits": True},
        kind="K",
        adds="all logits",
        why="the head multiplies every token of a prompt, of which the last one counts",
        stage=6,
    ),
)
BY_NAME: dict[str, Switch] = {one.name: one for one in SWITCHES}


def ladder(name: str, device: str, kind: str = "S") -> list[Switch]:
    """The switches of a ladder on a device, in order."""
    return [one for one in SWITCHES if name in one.ladders and one.kind == kind and device in one.devices]


def combined(switches: Iterable[Switch]) -> Switches:
    """All of these turned on. Raises `UsageError` for what does not go together."""
    values: dict[str, Any] = {}
    for one in switches:
        values |= one.sets
    return Switches(**values)


def without(switches: Iterable[Switch], gone: Switch) -> list[Switch]:
    """The switches that are left without one of them, and without those that need it."""
    left, missing = [], {gone.name}
    for one in switches:
        if one.name in missing or missing & {*one.needs}:
            missing.add(one.name)
        else:
            left.append(one)
    return left


@frozen(kw_only=True)
class Rung:
    """An implementation of a ladder.

    switch: the one that it adds, leaves out or degrades by; None for baseline, placebo and sabotage.
    role: `baseline`, `step`, `without`, `degraded`, `placebo` or `sabotage`.
    below: the rung that it is compared with beside the baseline; empty for none.
    """

    name: str
    role: str
    switches: Switches
    switch: Switch | None = None
    below: str = ""


def rungs(name: str, device: str) -> list[Rung]:
    """All implementations of a ladder: its steps, the whole less each switch, and the whole with each degradation."""
    chosen = ladder(name, device)
    found = [Rung(name="baseline", role="baseline", switches=BASELINE)]
    for count, one in enumerate(chosen, 1):
        found.append(
            Rung(name=one.name, role="step", switches=combined(chosen[:count]), switch=one, below=found[-1].name)
        )
    whole = found[-1].name
    for one in chosen[:-1]:
        left = combined(without(chosen, one))
        found.append(Rung(name=f"without_{one.name}", role="without", switches=left, switch=one, below=whole))
    for one in ladder(name, device, kind="K"):
        # A graph's memory stays where it is, so that what grows has none.
        base = [step for step in chosen if not ("graphs" in step.sets and "grown_cache" in one.sets)]
        worse = combined([*base, one])
        found.append(Rung(name=f"degraded_{one.name}", role="degraded", switches=worse, switch=one, below=whole))
    found.append(Rung(name="placebo", role="placebo", switches=evolve(BASELINE, placebo=True)))
    found.append(Rung(name="sabotage", role="sabotage", switches=evolve(BASELINE, skips_layer=True)))
    return found
