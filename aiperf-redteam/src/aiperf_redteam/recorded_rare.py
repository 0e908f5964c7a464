"""Recorded cases of issues that have attacks too, which ask for more than every machine has: swap, several GPUs, ranks."""

from typing import Any

from attrs import evolve

from aiperf_core.measurements import Census
from aiperf_core.validity.cases import Recorded
from aiperf_core.validity.checks.ranks import CHECK
from aiperf_core.validity.evidence import Evidence
from aiperf_redteam.recorded import all_ranks, ranks


def swapping(*swapped_bytes: int, faults: int = 0) -> Evidence:
    """A process of which so much lay in swap at each look, with so many pages fetched from there since the look before."""

    def side(role: str, census: list[Census]) -> Evidence:
        return Evidence(name=role, role=role, device="cpu", clock="wall", cache="warm", census=census)

    looks = [Census(swapped_bytes=size, major_faults=faults) for size in swapped_bytes]
    still = [Census(swapped_bytes=0, major_faults=0) for _ in swapped_bytes]
    return evolve(side("variant", looks), baseline=side("baseline", still))


def working_on(ours: str, theirs: str | None) -> Evidence:
    """Processes that the driver lists on these GPUs; None where it lists none."""

    def side(role: str, gpu: str | None) -> Evidence:
        looks = [Census(gpus=None if gpu is None else (gpu,))] * 4
        return Evidence(name=role, role=role, device="cuda", clock="device", cache="cold", census=looks)

    return evolve(side("variant", ours), baseline=side("baseline", theirs))


# 16384 tokens of 8 KiB for two experts each.
ROW_BYTES = 2 * 16384 * 8192
NEEDED = 2 * 0.75 * ROW_BYTES


def unpadded(wire_bytes: float) -> Evidence:
    """Four ranks that hand over so many bytes each, beside a baseline that fills every message up to the longest one.

    Of a rank's rows, three in four go to experts on other ranks and come back.
    """
    padded: dict[str, Any] = {"collectives": {"allreduce": 1, "alltoall_base": 2}, "wire_bytes": 2.36e10}
    exact = all_ranks(collectives={"alltoall_base": 3}, wire_bytes=wire_bytes)
    return evolve(ranks(exact, **padded), wire_bytes=NEEDED)


CASES: tuple[Recorded, ...] = (
    Recorded(
        issue="memory.swap_interference",
        guilty=lambda: swapping(0, 48 << 20, 160 << 20, 416 << 20, 512 << 20, faults=1900),
        # What was swapped before the first call, and is not asked for, costs nothing.
        honest=lambda: swapping(*[24 << 20] * 5),
    ),
    Recorded(
        issue="environment.device_mismatch",
        guilty=lambda: working_on("GPU-5d2c", "GPU-9a41"),
        # In a container the driver lists one of the processes, and not the other.
        honest=lambda: working_on("GPU-9a41", None),
    ),
    Recorded(
        issue="distributed.async_gradient_timing",
        # The step has its time, and the all-reduce of each rank goes on.
        guilty=lambda: ranks(all_ranks(work_s=14e-3, waited_s=0.1e-3), time_s=9.6e-3),
        # All of it is in the step: overlapped with the backward pass, and waited for.
        honest=lambda: ranks(all_ranks(work_s=14e-3, waited_s=0.1e-3), time_s=14.2e-3),
        look=CHECK.look,  # type: ignore[arg-type]  # of these it never says that it did not observe
        told="distributed.barrier_timing",
    ),
    Recorded(
        issue="distributed.collective_short_circuit",
        # A tenth of the rows that have to travel.
        guilty=lambda: unpadded(0.1 * NEEDED),
        # All of them, counted where they leave and where they arrive, and those that stay too: a small part of the padding.
        honest=lambda: unpadded(4.0 * ROW_BYTES),
        look=CHECK.look,  # type: ignore[arg-type]
    ),
)
