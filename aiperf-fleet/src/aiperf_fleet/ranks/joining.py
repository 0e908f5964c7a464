"""`aiperf run` on several machines: the first coordinates, the others run ranks for it."""

import hashlib
import os
import platform
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from aiperf_core.distributions import installed_version
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.units import plural

if TYPE_CHECKING:
    from aiperf_core.targets import Selection
    from aiperf_fleet.ranks.link import Nodes

_SHOWN = 12  # digits of a hash in a message


def nodes_of(selections: Sequence["Selection"], count: int, endpoint: str | None, number: int) -> "Nodes":
    """The machines of the run. Raises `UsageError` for options that do not fit together, or without a secret.

    Removes the secret from the environment, so that the processes of the run cannot read it.
    """
    from aiperf_fleet.ranks.link import LEAST_SECRET, SECRET, Endpoint, Nodes

    if endpoint is None:
        raise UsageError("--nnodes and --node-rank need --rdzv-endpoint HOST:PORT, the same on all machines.")
    if count < 2 or number >= count:
        raise UsageError(
            f"--node-rank {number} does not fit --nnodes {count}: --nnodes takes 2 or more, "
            "--node-rank a number from 0 to below --nnodes."
        )
    if not selections:
        raise UsageError(
            "Missing argument 'PATTERN...'. Give the same command on every machine. See: aiperf run --help"
        )
    secret = os.environ.pop(SECRET, "")
    if len(secret) < LEAST_SECRET:
        raise UsageError(
            f"--nnodes needs a shared secret of at least {LEAST_SECRET} characters in the variable {SECRET}; found "
            f"{len(secret)}. Make one with: python -c 'import secrets; print(secrets.token_hex())'"
        )
    where = Endpoint.of(endpoint)
    return Nodes(count=count, endpoint=where, secret=secret.encode(), identity=_identity(selections))


def with_nodes(plugins: Plugins, nodes: "Nodes", *, quiet: bool) -> Plugins:
    """The plugins, with an executor `torchrun` that waits for the other machines."""
    from aiperf_core.harness.ranks.torchrun import SeveralMachines

    if not quiet:
        click.echo(
            f"waiting at {nodes.endpoint} for {plural('more machine', nodes.count - 1)}, up to {nodes.wait_s:g} s",
            err=True,
        )
    record = SeveralMachines(nodes=nodes)
    return evolve(
        plugins, executors={**plugins.executors, record.name: evolve(plugins.executors[record.name], record=record)}
    )


def serve(nodes: "Nodes", number: int, *, quiet: bool) -> ExitCode:
    """Run ranks for the first machine until it is done. Raises `AiperfError` if it is absent, lost or refuses."""
    from aiperf_fleet.ranks.node_agent import serve

    serve(nodes, number, (lambda _: None) if quiet else (lambda text: click.echo(text, err=True)))
    return ExitCode.OK


def _identity(selections: Sequence["Selection"]) -> dict[str, str]:
    """What must agree on all machines: targets, sources, versions of Python and torch, kind of processor."""
    from aiperf_core.results.sources import package_hashes

    modules = [one.target.module for one in selections]
    found = {**package_hashes(modules), **{name: _file_hash(name) for name in modules if "." not in name}}
    return {
        "the command's targets": ", ".join(one.target.name for one in selections),
        "Python": platform.python_version(),
        "torch": installed_version("torch") or "missing",
        "the processor's kind": platform.machine(),
        **{f"the source of {name}": digest[:_SHOWN] for name, digest in found.items()},
    }


def _file_hash(module: str) -> str:
    """The SHA-256 of a module that is in no package."""
    spec = find_spec(module)
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest() if spec and spec.origin else "missing"
