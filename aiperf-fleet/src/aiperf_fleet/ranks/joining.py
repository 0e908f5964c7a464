"""Join a run on several machines: the first coordinates, the others run ranks for it."""

import hashlib
import os
import platform
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from aiperf_core.distributions import installed_version
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.executor import Executor, ExecutorKind, ProcessServer
from aiperf_core.targets import Selection
from aiperf_core.units import plural

if TYPE_CHECKING:
    from aiperf_fleet.ranks.link import Nodes

_SHOWN = 12  # digits of a hash in a message


@frozen
class Joining(Executor):
    """The executor of ranks on several machines, which a run gets by `join`."""

    def join(
        self,
        selections: Sequence[Selection],
        nnodes: int,
        endpoint: str | None,
        node_rank: int,
        tell: Callable[[str], None],
    ) -> Executor | None:
        """Run ranks for the first machine until it is done; on that one, return the executor that waits for the others.

        Raises `UsageError` for options that do not fit together, and `AiperfError` if the first machine is absent, lost
        or refuses.
        """
        nodes = nodes_of(selections, nnodes, endpoint, node_rank)
        if node_rank:
            from aiperf_fleet.ranks.node_agent import serve

            serve(nodes, node_rank, tell)
            return None
        from aiperf_fleet.ranks.torchrun import SeveralMachines

        tell(f"waiting at {nodes.endpoint} for {plural('more machine', nnodes - 1)}, up to {nodes.wait_s:g} s")
        return SeveralMachines(nodes=nodes)

    def resolve(self, server: ProcessServer) -> ExecutorKind:
        """Refuse: no other machines are known. Raises `SkipError`."""
        raise SkipError("it needs --nnodes, --rdzv-endpoint and --node-rank, and no --executor")


def nodes_of(selections: Sequence[Selection], count: int, endpoint: str | None, number: int) -> "Nodes":
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


def _identity(selections: Sequence[Selection]) -> dict[str, str]:
    """Facts that must agree on all machines: targets, sources, versions of Python and torch, kind of processor."""
    from aiperf_core.results.sources import package_hashes

    modules = [one.target.module for one in selections]
    found = {**package_hashes([*modules, __name__]), **{name: _file_hash(name) for name in modules if "." not in name}}
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
