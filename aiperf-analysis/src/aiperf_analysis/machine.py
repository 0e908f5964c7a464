"""This machine and its peak rates as one document, for questions about other machines."""

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiperf_core import units
from aiperf_core.devices.ceiling_figures import figures, of_datasheet, unit_of
from aiperf_core.measurements import Ceilings
from aiperf_core.report.result import Column, Figure, Record, Result, Table
from aiperf_core.results import structure
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.models import Machine

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins

KIND, VERSION = "aiperf-machine", 1


def probe(plugins: "Plugins", device: str | None, *, refresh: bool, stack: ExitStack) -> dict[str, Any]:
    """Measure this machine, or read what was measured before.

    device: this one alone; None takes the processor, and the GPU where there is one. Devices without ceilings are
        named with the reason.

    Raises UsageError for a device that is not here.
    """
    from aiperf_core.cli.measuring import scratch_planner
    from aiperf_core.harness.run.options import Known, Options
    from aiperf_core.results.machine import machine, packages

    known = Known(devices=plugins.known_devices)
    planner = stack.enter_context(scratch_planner(Options(device=device, known=known)))
    here = machine()
    chosen = [device] if device else ["cpu", *(["cuda"] if planner.hardware.gpus else [])]
    ceilings = {name: planner.all_ceilings(name, refresh)[0] for name in chosen}
    missing = {} if here.gpus or device else {"cuda": "no GPU: only the processor is described"}
    return document(here, packages(), ceilings, missing)


def document(
    machine: Machine, packages: Mapping[str, str], ceilings: Mapping[str, Ceilings], missing: Mapping[str, str]
) -> dict[str, Any]:
    """The document.

    machine, packages, ceilings: as in the manifest of a bundle.
    hardware: by device, the kind of machine as analyses name it.
    of_datasheet: by device and figure, the measured share of the data sheet's.
    """
    return {
        "kind": KIND,
        "version": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": structure.document(machine),
        "packages": dict(packages),
        "hardware": {device: hardware_key(machine, device, {}) for device in ceilings},
        "ceilings": {device: structure.document(one) for device, one in ceilings.items()},
        "of_datasheet": {device: of_datasheet(one) for device, one in ceilings.items()},
        "missing": dict(missing),
    }


def shown(found: Mapping[str, Any]) -> Result:
    """The document as a result, for a terminal."""
    here, tables = found["machine"], []
    for device, told in found["ceilings"].items():
        ceilings, shares = Ceilings(**told), found["of_datasheet"][device]
        records = [
            Record(
                {
                    "figure": key,
                    "value": Figure(value=value, unit=unit_of(key)),
                    "sheet": Figure(
                        value=100 * shares[key] if key in shares else None, unit="%",
                        reason=None if key in shares else "the data sheet has no such figure",
                    ),
                }
            )
            for key, value in figures(ceilings).items()
        ]  # fmt: skip
        columns = [
            Column("figure", "figure"), Column("value", "measured", "figure"),
            Column("sheet", "of data sheet", "figure"),
        ]  # fmt: skip
        tables.append(Table(device, f"{ceilings.device} ({found['hardware'][device]})", columns, records))
    gpus = ", ".join(str(gpu.get("name")) for gpu in here["gpus"]) or "none"
    return Result(
        analysis="probe",
        title=here["hostname"],
        summary=[
            f"{here['cpu']}, {here['cores']} processors, {units.size(here['memory_bytes'])}. GPUs: {gpus}.",
            *(f"{words[0].upper()}{words[1:]}." for words in found["missing"].values()),
        ],
        tables=tables,
    )


def ceiling_figures(ceilings: Ceilings) -> list[tuple[str, Figure]]:
    """The measured figures of a device by name, each in its unit."""
    return [(key, Figure(value=value, unit=unit_of(key))) for key, value in figures(ceilings).items()]
