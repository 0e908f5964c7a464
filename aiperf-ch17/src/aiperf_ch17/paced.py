"""Simulations of `aiperf_core.simulation` in which a simulated second takes a part of a real one."""

from simpy.rt import RealtimeEnvironment

from aiperf_core.simulation import Simulation


class Paced(Simulation):
    """A simulation that sleeps until its next event is due: it ends when what it simulates would end.

    So its figure is a time that a clock measures from outside, and decisions that take long delay what follows them.
    `run` checks the invariants of every simulation.

    pace: the real seconds of a simulated one. 0 is for as fast as the processor can.
    """

    def __init__(self, pace: float) -> None:
        super().__init__()
        if pace:
            # An event that is late is handled at once; its simulated time stays what it is.
            self.environment = RealtimeEnvironment(factor=pace, strict=False)
