"""The processes of a target's run: its judge, that of the next run, and the workers with the folders they may use."""

import os
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from attrs import asdict, define, field

from aiperf_core.errors import AiperfError
from aiperf_core.executor import WorkerHandle, WorkerSpec
from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.observer import is_alive
from aiperf_core.harness.isolation.scratch import Scratch
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import Child, ChildError, ForkServer
from aiperf_core.harness.run.options import COMPILING
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Setup
from aiperf_core.work_folder import WorkFolder

# A worker may take this part of the memory that is free when it starts; the rest keeps the machine alive.
_MEMORY_SHARE = 0.7
_IMPORT_TIMEOUT_S = 60.0
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
        """Its report of the target, once it is open. It prints to `log` from now on. Raises `ChildError`."""
        report: dict[str, Any] = self.child.collect(timeout=timeout)
        log = log.absolute()  # the process may be in another folder
        if self.child.log.absolute() != log:
            self.child.ask("print_to", timeout=_LOG_TIMEOUT_S, log=str(log))
            self.child.log = log
        return report


@define(eq=False)
class NextJudge:
    """A judge for the next run of untrusted code, which opens the target before that run needs it.

    It is as new as any: forked from the server, and asked for nothing but the target. It has seen no candidate. It is
    used only if the next run asks for the same, and the sources are still those of the run before its start.

    server: the fork server.
    log: for what it prints before it is used.
    sources: the hashes of the packages of the targets, as of the start of a run.
    """

    server: ForkServer
    log: Path
    sources: Mapping[str, str] = field(factory=dict, init=False)
    _wanted: tuple[Mapping[str, Any], object, Mapping[str, str]] | None = field(default=None, init=False)
    _ready: JudgeProcess | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it, where a run has told what is wanted."""
        if self._wanted is not None and self._ready is None:
            self._ready = JudgeProcess.start(self.server, self.log, self._wanted[0], random.SystemRandom(), ahead=True)

    def take(self, request: Mapping[str, Any], described: object) -> JudgeProcess | None:
        """The judge that was started, for one run; None where there is none, or it does not fit or has ended.

        The next run will ask for the same, probably.
        """
        ready, self._ready = self._ready, None
        before, self._wanted = self._wanted, (request, described, self.sources)
        # A process may end while nothing is asked of it, as when memory runs out.
        if ready is None or (before == self._wanted and is_alive(ready.child.pid)):
            return ready
        ready.child.kill()
        return None


@define(eq=False)
class Workers:
    """The workers of a run, and their folders: one for a candidate, others where the benchmark works with files."""

    setup: Setup
    _scratch: Scratch | None = field(default=None, init=False)
    _folder: WorkFolder | None = field(default=None, init=False)

    def spawn(self, implementations: list[Participant]) -> None:
        """Start a worker for each; they import the benchmark and wake the device side by side."""
        setup = self.setup
        for one in implementations:
            one.child = one.guarded(lambda one=one: self._start(one))  # type: ignore[misc]
        for one in implementations:
            if one.child is None:
                continue
            one.child.guarded = setup.guards("result_channel")
            one.post(
                "begin",
                target=asdict(setup.plan.ref),
                implementation=one.runs,
                device=asdict(setup.device),
                processors=self._processors(),
                off=sorted(setup.options.off),
                candidate=self._candidate(one),
            )

    def open(self, implementations: list[Participant], problem: dict[str, Any], fds: list[tuple[int, ...]]) -> None:
        """Give the workers the data: `fds` are the descriptors of each memory."""
        for one in implementations:
            # An import is no call; on a busy machine it takes seconds.
            begun = one.collect(answers.begun, timeout=max(self.setup.options.timeout_s, _IMPORT_TIMEOUT_S))
            if begun is not None:
                confined, state, one.process.declared_to_worker = begun
                one.recorder.note(confined=confined)
                one.process.begin(state)
            one.worker.paused = self.setup.pausing
        for one in implementations:
            if one.active:
                if self.setup.trust.observed:
                    one.page = ObservedPage.create()
                pages = () if one.page is None else (one.page.fd,)
                own = {"folder": self._folder_for(one), "memory_decides": self.setup.memory_decides}
                one.post("open", fds=(*fds[one.memory], *pages), problem={**problem, **own})
        for one in implementations:
            held = one.collect(answers.groups, timeout=self._start_timeout_s(one)) if one.active else None
            if held is not None and one.process.state_before is not None and one.process.state_after is None:
                one.process.state_before["objects"] = held

    def prepare(self, one: Participant) -> None:
        """Have it run its untimed preparation, and keep how long that took at first."""
        timeout = max(self._start_timeout_s(one), self.setup.plan.described.prepare_timeout_s)
        prepare_s = one.ask("prepare", answers.prepared, timeout=timeout)
        if one.observed.prepare_s is None:
            one.recorder.note(prepare_s=prepare_s)

    def note_state(self, implementations: list[Participant]) -> None:
        """Keep their processes' own snapshots, made side by side, and the code that the kernel shows in them."""
        for one in implementations:
            one.ask_state()
        for one in implementations:
            one.keep_state()

    @staticmethod
    def end(implementations: list[Participant]) -> None:
        """End their processes."""
        for one in implementations:
            if one.running:
                one.end_process()

    def close(self) -> None:
        """Remove the folders."""
        for one in (self._scratch, self._folder):
            if one is not None:
                one.close()

    @property
    def overuse(self) -> str:
        """Limit of disk or memory for which the candidate was ended; empty where it was not."""
        return "" if self._scratch is None else self._scratch.overuse

    def _start(self, one: Participant) -> WorkerHandle:
        """Start an implementation's process, or its ranks. Raises `ChildError` where that fails."""
        setup = self.setup
        spec = WorkerSpec(
            name=one.name,
            log=setup.log_path(one.name),
            ranks=setup.plan.world_size,
            memory_limit_bytes=self.memory_limit(),
        )
        try:
            return setup.executor.start(spec)
        except (AiperfError, ChildError):
            raise
        except Exception as error:  # what a plugin may raise costs a row
            what = f"could not be started by the executor {setup.plan.executor!r}: {type(error).__name__}: {error}"
            raise ChildError("exited", what) from error

    def memory_limit(self) -> int | None:
        """Memory limit of a process that runs a user's code, in bytes; None for no limit."""
        # A CUDA process maps far more than it uses, and the limit counts mappings.
        if not self.setup.kind.on_host:
            return None
        return self.setup.options.memory_limit_bytes or int(psutil.virtual_memory().available * _MEMORY_SHARE)

    def _processors(self) -> list[int]:
        """The processors that a worker is pinned to; none where the workload does not ask for a number of them.

        Most machines send interrupts to the first processors, so the last ones are taken.
        """
        usable = sorted(os.sched_getaffinity(0))
        threads = self.setup.plan.described.threads
        return usable[-threads:] if threads and self.setup.kind.on_host else []

    def _candidate(self, one: Participant) -> dict[str, Any] | None:
        """The text of the candidate's code for its worker, and its folder; None for all other implementations."""
        source = self.setup.source_of(one.declared)
        if source is None:
            return None
        if self._scratch is None:
            self._scratch = Scratch(
                lambda: one.child.destroy() if one.child else None,
                most_memory_bytes=self.memory_limit() or psutil.virtual_memory().available * _MEMORY_SHARE,
            )
        return {
            "text": source.text,
            "load": source.format.load,
            "entry": source.entry,
            "scratch": self._scratch.new(one.worker.pids[0]),
            "without": self.setup.left_out,
        }

    def _folder_for(self, one: Participant) -> str | None:
        """An empty folder for an implementation, where the benchmark asks for one. It is removed at the end."""
        if not self.setup.plan.described.folder:
            return None
        if self._folder is None:
            self._folder = WorkFolder()
        return tempfile.mkdtemp(prefix=f"{one.runs}-", dir=self._folder.path)

    def _start_timeout_s(self, one: Participant) -> float:
        """How long an implementation may take to be imported, and to prepare."""
        return self.setup.options.timeout_s * (COMPILING if self.setup.source_of(one.declared) else 1)
