"""Pipeline memory: a stage need not keep the activations of all micro-batches.

Question    How much memory does a pipeline stage need beside its weights and gradients?

Numbers     The pipeline of `ch04.pipeline_schedule` with 16 micro-batches of 2048 samples: a micro-batch's activations
            are 0.27 GB on a rank, those of all 4.3 GB; float32 sums of the gradients take 0.54 GB. The figure is the
            most memory that a rank takes beside its inputs.

Prediction  GPipe keeps m micro-batches, 1F1B at most p, the number of ranks: (2 / 16 + 10 %) of 4.3 GB and the sums
            against all of both: 3.2x less. The time is the same.

Limits      As many ranks as micro-batches. On a processor the process's own memory hides what small activations take.
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


@both.variant(
    adds="early backward",
    why="a stage goes back as soon as it can: activations of p micro-batches are kept instead of m",
)
class OneForwardOneBackward(schedules.OneForwardOneBackward):
    pass
