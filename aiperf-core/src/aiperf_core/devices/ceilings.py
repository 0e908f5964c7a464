"""What a device reaches at its best. The basic part is what every run needs; the whole page is measured when asked for."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs

from aiperf_core.devices.datasheets import datasheet
from aiperf_core.devices.measuring import Page
from aiperf_core.errors import AiperfError
from aiperf_core.results import figures
from aiperf_core.results.models import Ceilings


def measure(device: str, whole: bool = True, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measure the ceilings of `cpu` or `cuda`, as a record of `results.models.Ceilings`.

    `tell` is told what is measured next. Raises `AiperfError` where not even the bandwidths can be measured.
    """
    start = time.monotonic()
    page = Page(tell)
    if device == "cuda":
        from aiperf_core.devices.cuda_ceilings import fill
    else:
        from aiperf_core.devices.cpu_ceilings import fill
    name = fill(page, whole)
    for key in figures.REQUIRED:
        if key not in page.figures:
            raise AiperfError(f"the bandwidth of {name} could not be measured: {page.missing[key]}")
    sheet, promised = datasheet(name, page.figures)
    found = Ceilings(
        device=name,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        **figures.as_fields(page.figures),
        whole=whole,
        how=page.how,
        missing=page.missing,
        datasheet=promised,
        datasheet_name=sheet,
        took_s=time.monotonic() - start,
    )
    return attrs.asdict(found)
