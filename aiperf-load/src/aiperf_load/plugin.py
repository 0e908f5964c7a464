"""Contributions of this package: the command `aiperf load`, and the reader of its documents."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.document_kind import DocumentKind
from aiperf_core.hookspecs import hookimpl


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the command."""
    yield Command("load", "Load an inference server, and measure latency and goodput.", "aiperf_load.cli.load:load",
                  section="Measure")  # fmt: skip


@hookimpl
def aiperf_documents() -> Iterable[DocumentKind]:
    """Contribute the reader of documents, and their schema."""
    yield DocumentKind("load", "Loads on inference servers", "aiperf_load.reader:LoadReader",
                       schema="aiperf_load:schemas/load-1.json")  # fmt: skip
