"""The cost of a step of each ladder, counted before it is measured: operations, products, bytes and messages.

The time of a combination of switches is

    operations * seconds of one + products / their rate + bytes / their rate + messages * seconds of one

on a machine of which the ends of plausible rates are given. A predicted gain is the quotient of two such times: the
least and the largest over all combinations of these ends. Constants are orders of magnitude, not measurements.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from attrs import define, frozen

from aiperf_labs.one_model import schedule
from aiperf_labs.one_model.sizes import Preset, Sizes
from aiperf_labs.one_model.switches import Rung, Switches

# Operations of one part, as the code has them.
ROTATE, FEED_FORWARD, ROUTE, SAY = 9, 4, 6, 9
BY_MASK, BY_ORDER, AN_EXPERT, IN_ONE_CALL = 8, 11, 5, 6
ADAM, ADAM_PASSES, FUSED_PASSES = 14, 20, 7  # operations of a tensor, and passes over the memory of all weights
BACKWARD = 2  # as many operations and products as forward, twice
OF_ROUND = 12  # of the host in a step of the server


@frozen
class Machine:
    """Rates of a machine.

    operation_s: of an operation that the host launches; node_s of one in a graph.
    flop_per_s, byte_per_s: of products, and of memory that no cache holds.
    message_s, wire_per_s: of a message between ranks, and its bytes in a second.
    """

    operation_s: float
    node_s: float
    flop_per_s: float
    byte_per_s: float
    message_s: float
    wire_per_s: float


def machines(device: str) -> list[Machine]:
    """The ends of plausible rates: of small products on one processor, or of a large GPU in bfloat16."""
    ends: dict[str, list[tuple[float, ...]]] = {
        "cpu": [(3e-6, 12e-6), (3e-6,), (8e9, 50e9), (5e9, 20e9), (1e-4, 4e-4), (0.7e9, 3e9)],
        "cuda": [(6e-6, 15e-6), (1.1e-6, 1.5e-6), (3e14, 7e14), (2.5e12, 4.3e12), (1e-5, 4e-5), (1e11, 3.5e11)],
    }
    return [Machine(*one) for one in product(*ends[device])]


@define
class Work:
    """Counts of one call. `nodes` are operations of a graph."""

    operations: float = 0.0
    nodes: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    messages: float = 0.0
    wire: float = 0.0
    passes: int = 0

    def seconds(self, machine: Machine) -> float:
        """The time on a machine."""
        return (
            self.operations * machine.operation_s
            + self.nodes * machine.node_s
            + self.flops / machine.flop_per_s
            + self.bytes / machine.byte_per_s
            + self.messages * machine.message_s
            + self.wire / machine.wire_per_s
        )


@frozen
class Gain:
    """A predicted quotient of times."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}x"


def gain(before: Work, after: Work, device: str) -> Gain:
    """How many times faster `after` is than `before`, over all plausible machines."""
    ratios = [before.seconds(one) / after.seconds(one) for one in machines(device)]
    return Gain(min(ratios), max(ratios))


# --- serving


def _layer_operations(sizes: Sizes, switches: Switches, tokens: int) -> Iterator[int]:
    """Operations of each layer for a pass over some tokens, of either ladder."""
    attention = 2 + 2 + (1 if switches.fused_projections else 3) + 2 * ROTATE + 6 + 1
    attention += 5 if switches.explicit_attention else 2
    attention += 2 * switches.repeated_heads + 2 * switches.grown_cache + 8 * (switches.cache == "fp8")
    used = min(sizes.experts, tokens * sizes.chosen)
    experts = {
        "mask": 1 + sizes.experts * BY_MASK,
        "sorted": BY_ORDER + used * AN_EXPERT,
        "one_call": IN_ONE_CALL,
    }
    for number in range(sizes.layers):
        routed = ROUTE + experts[switches.experts] + 1 if number >= sizes.dense else 0
        yield attention + FEED_FORWARD + routed


@frozen(kw_only=True)
class Requests:
    """The requests of a call: prompts with their answers, and the slots that serve them."""

    texts: Sequence[Sequence[int]]
    lengths: Sequence[int]
    wanted: Sequence[int]
    shared: Sequence[int]
    slots: int


def of_serving(preset: Preset, switches: Switches, requests: Requests, bits: int) -> Work:
    """The work of serving requests, of which the schedule is known."""
    work, sizes = Work(), preset.model
    queue = schedule.Queue(requests.wanted, requests.slots, switches)
    said = [0 for _ in requests.wanted]
    seen: set[tuple[int, ...]] = set()
    while queue.is_open:
        if chosen := queue.admit():
            rest = []
            for request in chosen.values():
                begin = tuple(requests.texts[request][: requests.shared[request]])
                if switches.prefix:
                    if begin not in seen:
                        _pass(work, sizes, switches, 1, len(begin), len(begin), 0, bits)
                    work.operations += 4 + 4 * sizes.layers
                    seen.add(begin)
                rest.append(requests.lengths[request] - (len(begin) if switches.prefix else 0))
                said[request] = 1
            longest = max(requests.lengths[request] for request in chosen.values())
            logits = len(chosen) * (max(rest) if switches.all_logits else 1)
            _pass(work, sizes, switches, len(chosen), max(rest), longest, logits, bits)
            counts = dict.fromkeys(chosen, 1)
        else:
            longest = max(requests.lengths[request] + said[request] for request in queue.held.values())
            tokens = 1 + switches.lookup
            _pass(
                work,
                sizes,
                switches,
                requests.slots,
                tokens,
                longest + tokens,
                requests.slots * tokens,
                bits,
                step=True,
            )
            counts = {
                slot: _advance(requests, switches, queue.left[request], request, said)
                for slot, request in queue.held.items()
            }
        queue.say(counts)
    return work


def _advance(requests: Requests, switches: Switches, left: int, request: int, said: list[int]) -> int:
    """The tokens of a request that a pass says."""
    length, count = requests.lengths[request], 1
    if switches.lookup:
        text = requests.texts[request]
        draft = schedule.proposed(text[: length + said[request]], min(switches.lookup, left - 1))
        count = min(left, 1 + schedule.agreed(draft, text[length + said[request] :]))
    said[request] += count
    return count


def _pass(
    work: Work,
    sizes: Sizes,
    switches: Switches,
    rows: int,
    count: int,
    span: int,
    logits: int,
    bits: int,
    *,
    step: bool = False,
) -> None:
    """Add a pass over `count` tokens of each row, which see up to `span` places, and the logits of some of them."""
    tokens = rows * count
    operations = 6 + (4 if switches.rotary_table else 8) + sum(_layer_operations(sizes, switches, tokens)) + SAY
    if step and switches.graphs:
        work.nodes += operations
        work.operations += 1 + OF_ROUND
    else:
        work.operations += operations + OF_ROUND
    head = sizes.width * sizes.vocabulary
    attended = 4 * sizes.layers * tokens * span * sizes.heads * sizes.head
    work.flops += 2 * (sizes.active - head) * tokens + 2 * head * logits + attended
    row = 2 * sizes.layers * sizes.kv_heads * sizes.head * span * (1 if switches.cache == "fp8" else bits // 8)
    copies = 1 + 2 * switches.grown_cache + 2 * switches.repeated_heads + 3 * (switches.cache == "fp8")
    work.bytes += rows * row * copies + 8 * switches.explicit_attention * tokens * span * sizes.heads * sizes.layers
    work.bytes += bits // 8 * sizes.active if bits == 16 else 0
    work.passes += 1


# --- training


def of_training(preset: Preset, switches: Switches, tensors: int, batch: int, length: int, ranks: int) -> Work:
    """The work of a step of training on one rank; `tensors` are its weights by number."""
    sizes, tokens = preset.model, batch * length
    forward = 10 + sum(_layer_operations(sizes, switches, tokens))
    head = 2 * sizes.width * sizes.vocabulary * tokens
    attended = 2 * sizes.layers * tokens * length * sizes.width
    products = 2 * sizes.active * tokens + attended
    # Of what is computed again, activations that were kept are not.
    again = (products - head) * switches.checkpoint + head * switches.chunked_loss
    operations = forward * (1 + BACKWARD + switches.checkpoint) + tensors
    chunks = -(-tokens // 512)
    operations += 10 * chunks * switches.chunked_loss
    operations += 1 if switches.fused_optimizer else ADAM * tensors
    passes = FUSED_PASSES if switches.fused_optimizer else ADAM_PASSES
    scores = 4 * sizes.heads * sizes.layers * batch * length * length * 12 * switches.explicit_attention
    moved = 4 * sizes.parameters * passes + scores + 12 * tokens * sizes.vocabulary
    work = Work(operations, 0.0, products * (1 + BACKWARD) + again, moved)
    if ranks > 1:
        work.messages = 1 if switches.bucketed else tensors
        work.wire = 2 * (ranks - 1) / ranks * sizes.parameters * (2 if switches.narrow_wire else 4)
        work.operations += 4 + tensors if switches.bucketed else 2 * tensors
        work.bytes += 4 * sizes.parameters * (4 if switches.bucketed else 2)
    return work


def predicted(rungs: Sequence[Rung], works: dict[str, Work], device: str) -> dict[str, dict[str, Any]]:
    """The predicted gains of each rung: `total` over the baseline, and `step` over the one below.

    Of a rung with one mechanism less, or a degraded one, `step` is the gain of the whole ladder over it.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in rungs:
        if one.role in ("baseline", "sabotage"):
            continue
        found[one.name] = {"total": gain(works["baseline"], works[one.name], device)}
        if one.role == "step":
            found[one.name]["step"] = gain(works[one.below], works[one.name], device)
        elif one.below:
            found[one.name]["step"] = gain(works[one.name], works[one.below], device)
    return found
