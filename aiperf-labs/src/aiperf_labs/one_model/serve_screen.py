"""The screen of ladder C: twenty combinations of twelve switches of serving.

Question    What is a technique of serving worth on average over all others, in whatever order they come?
Numbers     The requests of the ladder; twenty runs of a design by Plackett and Burman.
Prediction  Where the gain of a switch here is that of its step and of leaving it out, the order gave no credit.
Limits      Main effects: two switches that need each other lend their effect to others. On a CPU.
"""

from aiperf_core import Benchmark
from aiperf_labs.one_model import screen
from aiperf_labs.one_model.declared import declare_screen
from aiperf_labs.one_model.serve import NATS, Serve, serving

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)
declare_screen(serving(bench), Serve, screen.runs(), "cpu", NATS)
