"""Measure the ceilings of a device: the basic part for every run, the whole page on request."""

import os
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

import attrs

from aiperf_core.devices import ceiling_figures, disk_ceilings
from aiperf_core.devices.datasheets import datasheet
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.measuring import Page
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Ceilings

# The kernel counts in ticks of 10 ms: a shorter time gives no meaningful share.
_LEAST_SECONDS = 0.5


class OtherProcesses:
    """Measures the load by other processes on the CPUs that this process may use."""

    def __init__(self) -> None:
        self._busy, self._total, self._own = self._read()

    def share(self) -> float | None:
        """The share of CPU time that other processes took, from 0 to 1; None when too little time has passed."""
        busy, total, own = self._read()
        passed = total - self._total
        if passed < _LEAST_SECONDS:
            return None
        return min(1.0, max(0.0, (busy - self._busy - (own - self._own)) / passed))

    @staticmethod
    def _read() -> tuple[float, float, float]:
        import psutil

        every = psutil.cpu_times(percpu=True)
        usable = [every[cpu] for cpu in os.sched_getaffinity(0) if cpu < len(every)]
        total = sum(sum(times[:8]) for times in usable)  # without guests: `user` contains them
        idle = sum(times.idle + getattr(times, "iowait", 0.0) for times in usable)
        return total - idle, total, time.process_time()


def measure(kind: DeviceKind, whole: bool = True, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measure the ceilings of a device; return the fields of a `Ceilings` record.

    `tell` gets the label of the next figure. Raises `AiperfError` when the memory bandwidths cannot be measured.
    """
    start = time.monotonic()
    page = Page(tell)
    others = OtherProcesses()
    name = kind.fill_ceilings(page, whole)
    for key in ceiling_figures.REQUIRED:
        if key not in page.figures:
            raise AiperfError(f"the bandwidth of {name} could not be measured: {page.missing[key]}")
    sheet, promised = datasheet(name, page.figures)
    found = Ceilings(
        device=name,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        **ceiling_figures.as_fields(page.figures),
        whole=whole,
        how=page.how,
        missing=page.missing,
        datasheet=promised,
        datasheet_name=sheet,
        others_busy=others.share(),
        took_s=time.monotonic() - start,
    )
    return attrs.asdict(found)


def measure_groups(
    kind: DeviceKind, groups: Collection[str], tell: Callable[[str], None] = lambda _: None
) -> dict[str, dict[str, Any]]:
    """Measure the figures of groups of `ceiling_groups.GROUPS`: `figures`, `how` and `missing` by key.

    The rate from process to process takes two processes: see `links.loopback`.
    """
    page = Page(tell)
    for group in groups:
        if group == "disk":
            disk_ceilings.fill(page)
        else:
            kind.fill_group(page, group)
    return {"figures": page.figures, "how": page.how, "missing": page.missing}
