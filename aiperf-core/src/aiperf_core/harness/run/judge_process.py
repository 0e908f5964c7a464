"""The judge's process of a run, and the one that is started ahead for the next run of a warm planner."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from aiperf_core.harness.isolation.observer import is_alive
from aiperf_core.harness.processes.child import Child, ForkServer

_LOG_TIMEOUT_S = 10.0


@define(eq=False)
class JudgeProcess:
    """A judge that was asked to open a target.

    first_seed: the seed of the first values of the inputs.
    """

    child: Child
    first_seed: int

    @classmethod
    def start(
        cls,
        server: ForkServer,
        log: Path,
        request: Mapping[str, Any],
        rng: random.Random,
        *,
        memory_limit_bytes: int | None = None,
        ahead: bool = False,
    ) -> "JudgeProcess":
        """Fork a judge, which opens the target in the background; `ahead` of the run that uses it."""
        child = server.spawn("judge", "judge", log, memory_limit_bytes=memory_limit_bytes)
        first_seed = rng.getrandbits(62)
        child.post("open", **request, seed=first_seed, static_seed=rng.getrandbits(62), ahead=ahead)
        return cls(child, first_seed)

    def opened(self, timeout: float, log: Path) -> dict[str, Any]:
        """What it tells of the target, once it is open. It prints to `log` from now on. Raises `ChildError`."""
        told: dict[str, Any] = self.child.collect(timeout=timeout)
        log = log.absolute()  # the process may be in another folder
        if self.child.log.absolute() != log:
            self.child.ask("print_to", timeout=_LOG_TIMEOUT_S, log=str(log))
            self.child.log = log
        return told


@define(eq=False)
class NextJudge:
    """A judge for the next run of untrusted code, which opens the target before that run needs it.

    It is as new as any: forked from the server, and asked for nothing but the target. It has seen no candidate. It is
    used only if the next run asks for the same, and the sources are still those of the run before its start.

    server: the fork server.
    log: for what it prints before it is used.
    """

    server: ForkServer
    log: Path
    _wanted: tuple[Mapping[str, Any], object] | None = field(default=None, init=False)
    _ready: JudgeProcess | None = field(default=None, init=False)

    def note(self, request: Mapping[str, Any], sources: object) -> None:
        """A run asks for this, with sources in this state: so will the next one, probably."""
        self._wanted = request, sources

    def start(self) -> None:
        """Start it, where a run has told what is wanted."""
        if self._wanted is not None and self._ready is None:
            self._ready = JudgeProcess.start(self.server, self.log, self._wanted[0], random.SystemRandom(), ahead=True)

    def take(self, request: Mapping[str, Any], sources: object) -> JudgeProcess | None:
        """The judge that was started, for one run; None where there is none, or it does not fit or has ended."""
        ready, self._ready = self._ready, None
        # A process may end while nothing is asked of it, as when memory runs out.
        if ready is None or (self._wanted == (request, sources) and is_alive(ready.child.pid)):
            return ready
        ready.child.kill()
        return None
