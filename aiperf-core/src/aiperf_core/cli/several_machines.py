"""`aiperf run` on several machines: the first one leads, the others serve it ranks."""

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

if TYPE_CHECKING:
    from aiperf_core.harness.ranks.link import Nodes
    from aiperf_core.targets import Selection

_SHOWN = 12  # so many digits of a hash tell two apart


def nodes_of(selections: Sequence["Selection"], count: int, endpoint: str | None, number: int) -> "Nodes":
    """The machines that were asked for. Raises `UsageError` where the options do not fit each other or there is no secret.

    The secret is taken out of the environment, where the processes of the run would find it.
    """
    from aiperf_core.harness.ranks.link import LEAST_SECRET, SECRET, Endpoint, Nodes

    if endpoint is None:
        raise UsageError("--nnodes and --node-rank need --rdzv-endpoint HOST:PORT, the same on all machines.")
    if count < 2 or number >= count:
        raise UsageError(
            f"--node-rank {number} of --nnodes {count} is none: give the number of machines, 2 or more, and to each a number "
            "from 0."
        )
    if not selections:
        raise UsageError("Missing argument 'PATTERN...'. Every machine is given the same command: aiperf run --help")
    secret = os.environ.pop(SECRET, "")
    if len(secret) < LEAST_SECRET:
        raise UsageError(
            f"--nnodes needs a secret that all machines share, of {LEAST_SECRET} characters or more, in the variable {SECRET}; "
            f"found {len(secret)}. Make one with: python -c 'import secrets; print(secrets.token_hex())'"
        )
    where = Endpoint.of(endpoint)
    return Nodes(count=count, endpoint=where, secret=secret.encode(), identity=_identity(selections))


def with_nodes(plugins: Plugins, nodes: "Nodes", *, quiet: bool) -> Plugins:
    """What is installed, with a `torchrun` that waits for the other machines."""
    from aiperf_core.harness.ranks.torchrun import SeveralMachines

    if not quiet:
        click.echo(f"waiting at {nodes.endpoint} for {nodes.count - 1} more, up to {nodes.wait_s:g} s", err=True)
    record = SeveralMachines(nodes=nodes)
    return evolve(
        plugins, executors={**plugins.executors, record.name: evolve(plugins.executors[record.name], record=record)}
    )


def serve(nodes: "Nodes", number: int, *, quiet: bool) -> ExitCode:
    """Serve the first machine until it is done. Raises `AiperfError` where it does not come, refuses this one or is lost."""
    from aiperf_core.harness.ranks.node_agent import serve

    serve(nodes, number, (lambda _: None) if quiet else (lambda text: click.echo(text, err=True)))
    return ExitCode.OK


def _identity(selections: Sequence["Selection"]) -> dict[str, str]:
    """What must be the same on all machines: the targets, the sources that decide a result, Python, torch, the processor's kind."""
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
