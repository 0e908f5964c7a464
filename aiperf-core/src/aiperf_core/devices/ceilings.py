"""What a device reaches at its best. The basic part is what every run needs; the whole page is measured when asked for."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs

from aiperf_core.devices import ceiling_figures
from aiperf_core.devices.datasheets import datasheet
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.measuring import Page
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Ceilings

# The kernel counts in ticks of 10 ms: over less than this a share says nothing.
_LEAST_SECONDS = 0.5


class OtherProcesses:
    """Counts from here how busy other processes keep the processors that this one may use."""

    def __init__(self) -> None:
        self._busy, self._total, self._own = self._read()

    def share(self) -> float | None:
        """The share of these processors' time that went to others, None where too little time passed to say."""
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
        total = sum(sum(one[:8]) for one in usable)  # without guests, which are counted as users too
        idle = sum(one.idle + getattr(one, "iowait", 0.0) for one in usable)
        return total - idle, total, time.process_time()


def measure(kind: DeviceKind, whole: bool = True, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measure the ceilings of a device, as a record of `results.models.Ceilings`.

    `tell` is told what is measured next. Raises `AiperfError` where not even the bandwidths can be measured.
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
