"""The surprises: what fools a tool, and how aiperf avoids it. Nothing heavy is imported here.

Each has a module of its name in `cases`: a target, `fooled`, the tool as people write it, and `cause`, the evidence.
"""

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.targets import nearest


@frozen
class Surprise:
    """A surprise.

    name: of its module.
    summary: what fools the tool, in one sentence.
    tool: the tool in a few words.
    avoided: how aiperf avoids it, in one sentence.
    issue: the validity issue that describes it.
    beside: whether every processor is kept busy while aiperf measures.
    """

    name: str
    summary: str
    tool: str
    avoided: str
    issue: str
    beside: bool = False

    @property
    def module(self) -> str:
        """The module of its target, tool and cause."""
        return f"aiperf_learn.surprises.cases.{self.name}"


SURPRISES = (
    Surprise(
        "zeros",
        "A sum over zeros that were never written reads no memory.",
        "timeit",
        "inputs are random values, which another process writes before every sample",
        "output.data_shortcut",
    ),
    Surprise(
        "unawaited",
        "A call that only submits its work seems to be hundreds of times as fast.",
        "torch.utils.benchmark",
        "the output is overwritten with NaN before a call, and compared after it: work that is not done is wrong",
        "timing.incomplete_async",
    ),
    Surprise(
        "cached",
        "A table that fits the cache is fast in a loop, and slow where other work runs in between.",
        "timeit",
        "the caches are flushed before every sample, unless the target declares that its data lie there",
        "timing.cache_not_cold",
    ),
    Surprise(
        "run_order",
        "Of two runs of the same code, the second is faster.",
        "a clock around each call",
        "both run in processes of their own, in blocks that alternate, after a warm-up that is not counted",
        "statistical.order_effect",
    ),
    Surprise(
        "too_small",
        "On a small problem, two algorithms take the same time, which is that of a call.",
        "timeit",
        "a target declares the sizes that matter, and a call that is short beside its timing is refused",
        "timing.timer_granularity",
    ),
    Surprise(
        "narrow",
        "A product in half the bits is faster, and the tool compares no result.",
        "timeit",
        "samples are compared with a reference in float64, within the tolerance that the target declares",
        "workload.precision_mismatch",
    ),
    Surprise(
        "sum_order",
        "A test for equal bits rejects a sum that is as right as the other.",
        "a test with torch.equal",
        "an output may differ from a float64 reference by a tolerance that fits the arithmetic and no more",
        "output.wrong_values",
    ),
    Surprise(
        "first_call",
        "A call that is timed once is the first call of its process.",
        "a clock around a call",
        "calls are warmed up until they take no fresh pages, and the first samples are not counted",
        "statistical.cold_start_inclusion",
    ),
    Surprise(
        "after_idle",
        "Of two calls of the same code, the one after a pause is slower.",
        "a loop with a clock",
        "every implementation is called in blocks of the same length and order, so that pauses hit all alike",
        "timing.interference",
    ),
    Surprise(
        "page_faults",
        "A loop that keeps its results pays for fresh memory in each call.",
        "a loop with a clock",
        "freed memory stays with the process, and the faults of counted calls are read from the kernel",
        "memory.page_fault_timing",
    ),
    Surprise(
        "neighbour",
        "A version is slow because another process has the processors meanwhile.",
        "timeit",
        "blocks alternate, so that both sides meet the neighbour, and a row says that the machine was busy",
        "environment.background_load",
        beside=True,
    ),
    Surprise(
        "mean",
        "An average is several times the time of a usual call, because some calls collect garbage.",
        "a loop with a clock",
        "the collector is paused within a call, and medians are compared",
        "statistical.gc_interference",
    ),
)


def find(name: str) -> Surprise:
    """The surprise of this name. Raises UsageError where there is none."""
    for surprise in SURPRISES:
        if surprise.name == name:
            return surprise
    known = [surprise.name for surprise in SURPRISES]
    raise UsageError(f"{name!r} is not a surprise.{nearest(name, known)} There are: {', '.join(known)}; and all.")
