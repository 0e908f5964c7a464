"""Pipeline memory: a stage need not keep the activations of all micro-batches.

Workload   That of `ch04.pipeline_schedule`. What counts is the most memory that a rank takes beside its inputs.
Baseline   GPipe: all forward passes, then all backward passes; activations of m micro-batches are kept.
Variants   `one_forward_one_backward` (1F1B): a stage goes back as soon as it can, and keeps those of at most p, the
           number of ranks; the last rank those of one.
Breaks     As many ranks as micro-batches. On a processor the process's own memory hides what small activations take.
"""

from aiperf_ch04 import pipeline_schedule as schedules
from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark

bench = Benchmark(goal="memory", clock="wall")
both = bench.on(("cpu", "cuda"))

bench.workload(
    smoke={"blocks": 2, "chunks": 1, "width": 37, "rows": 11, "micro": 5, "world_size": 2},
    cpu={"blocks": 2, "chunks": 1, "width": 128, "rows": 1024, "micro": 8, "world_size": 2},
    cuda={"blocks": 8, "chunks": 1, "width": 4096, "rows": 2048, "micro": 16, "world_size": 2},
)(schedules.inputs)
bench.static(schedules.stage)
bench.reference(tolerance=rounded_layers)(schedules.reference)
bench.cost(schedules.cost)
# More ranks than micro-batches.
bench.awkward({"blocks": 2, "width": 61, "rows": 29, "micro": 2, "world_size": 3})
# With two ranks and 16 micro-batches the activations of 2 / 16, and 10 % of all: 0.97 of 4.29 GB. The sums of the
# gradients take 0.54 GB in both schedules.
bench.reach(of="memory:gpipe", at_most=(0.97 + 0.54) / (4.29 + 0.54))


@both.baseline(kind="naive", name="gpipe")
class GPipe(schedules.GPipe):
    pass


@both.variant(adds="early backward", why="activations of p micro-batches are kept instead of m")
class OneForwardOneBackward(schedules.OneForwardOneBackward):
    pass
