"""Contributions of this package: the command `aiperf fleet`, engines, an executor, documents and schemas."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.document_kind import DocumentKind
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.executor import SEVERAL_MACHINES, Executor
from aiperf_core.fleet import Fleet
from aiperf_core.hookspecs import hookimpl
from aiperf_fleet.ranks.joining import Joining


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the command."""
    yield Command("fleet", "Run a suite on many machines, and name slow machines.", "aiperf_fleet.cli.fleet:fleet",
                  section="Measure")  # fmt: skip


@hookimpl
def aiperf_fleets() -> Iterable[Fleet]:
    """Contribute the engines."""
    yield Fleet("here", "This machine, one task after the other", "aiperf_fleet.engines.here:Here")
    yield Fleet("slurm", "Slurm, through submitit: one exclusive job a task", "aiperf_fleet.engines.slurm:Slurm")
    yield Fleet("ray", "Ray: one task a machine, results through its object store", "aiperf_fleet.engines.ray:Ray")


@hookimpl
def aiperf_executors() -> Iterable[Executor]:
    """Contribute the executor of ranks on several machines."""
    yield Joining(SEVERAL_MACHINES, "Ranks of torch's elastic launcher, on the machines of --nnodes",
                  "aiperf_fleet.ranks.torchrun:Torchrun")  # fmt: skip


@hookimpl
def aiperf_documents() -> Iterable[DocumentKind]:
    """Contribute the reader of documents, and their schema."""
    yield DocumentKind("fleet", "Fleets of machines", "aiperf_fleet.reader:FleetReader",
                       schema="aiperf_fleet:schemas/fleet-1.json")  # fmt: skip


@hookimpl
def aiperf_schemas() -> Iterable[DocumentSchema]:
    """Contribute the schemas of what a fleet reads and writes."""
    yield DocumentSchema("fleet-file", "fleet.json in the folder of a fleet", "aiperf_fleet:schemas/fleet-file-1.json")
    yield DocumentSchema("fleet-suite", "the suite of aiperf fleet run", "aiperf_fleet:schemas/fleet-suite-1.json")
