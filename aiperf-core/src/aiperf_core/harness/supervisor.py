"""One target, from its declarations to its result: start the judge and the workers, sample, decide."""

import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psutil
from attrs import define, field

from aiperf_core.errors import AiperfError
from aiperf_core.harness.contestant import Contestant
from aiperf_core.harness.described import Described, DescribedImplementation, TargetRef
from aiperf_core.harness.options import Options
from aiperf_core.harness.processes import Child, ChildError, ForkServer
from aiperf_core.harness.sampling import MIN_PASSES, Clockwork, JudgeError, Sampler, known
from aiperf_core.harness.verdicts import rows
from aiperf_core.requirements import Hardware, lacking
from aiperf_core.results.models import Ceilings, Memory, Overhead, Problem, TargetResult, Verdict

# A worker may take this part of the memory that is free when it starts; the rest keeps the machine alive.
_MEMORY_SHARE = 0.7
# The stopping rule looks again after so many more passes, as a part of those already taken.
_LOOK_AGAIN = 0.25


class Reporter(Protocol):
    """Who is told how a target goes on."""

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A new phase begins."""

    def progress(self, block: int, blocks: int | None, seconds_left: float | None) -> None:
        """Sampling goes on."""


@define(eq=False)
class TargetRun:
    """A target's run. `execute` may be called once."""

    target: TargetRef
    summary: str
    described: Described
    wanted: frozenset[str]
    device: str
    size: str
    params: dict[str, float]
    options: Options
    hardware: Hardware
    server: ForkServer
    log_path: Callable[[str], Path]
    reporter: Reporter
    ceilings: Callable[[bool], Ceilings | None]
    seed: int
    _rng: random.Random = field(init=False)
    interrupted: bool = field(default=False, init=False)
    _contestants: list[Contestant] = field(factory=list, init=False)
    _opened: dict[str, Any] | None = field(default=None, init=False)
    _sampler: Sampler | None = field(default=None, init=False)
    _stopped: str = field(default="before sampling", init=False)
    _started: float = field(factory=time.monotonic, init=False)
    _sampling_started: float | None = field(default=None, init=False)
    _sampling_s: float = field(default=0.0, init=False)

    @_rng.default
    def _seeded(self) -> random.Random:
        return random.Random(self.seed)

    def execute(self) -> TargetResult:
        """Measure the target. Ctrl-C ends the measuring and keeps what was measured.

        Raises `AiperfError` where the workload itself is at fault and nothing can be measured.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        judge = None
        try:
            judge = self._open_judge()
            self._start_workers(judge)
            self._sample()
        except KeyboardInterrupt:
            self.interrupted, self._stopped = True, "interrupted"
        except JudgeError as error:
            raise AiperfError(f"{self.target.name!r} could not be judged: {error}") from None
        finally:
            self._end_sampling()
            self._close(judge)
        if self._opened is None:
            raise KeyboardInterrupt
        return self._result(created)

    # --- starting

    def _open_judge(self) -> Child:
        self.reporter.phase("make inputs")
        judge = self.server.spawn("judge", "judge", self.log_path("judge"))
        try:
            self._opened = judge.ask(
                "open",
                timeout=self.options.timeout_s,
                target={"name": self.target.name, "module": self.target.module},
                device=self.device,
                params=self.params,
                seed=self._rng.getrandbits(62),
            )
        except ChildError as error:
            text = str(error)
            where = "" if self.target.name in text else f"{self.target.name!r} could not be set up at {self._sizes()}: "
            hint = " Try smaller sizes with --set." if error.kind == "memory" else ""
            raise AiperfError(f"{where}{text}{hint}") from None
        return judge

    def _sizes(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.params.items())

    def _start_workers(self, judge: Child) -> None:
        assert self._opened is not None
        self._contestants = [self._contestant(one) for one in self._chosen()]
        self._sampler = Sampler(
            judge,
            self._contestants,
            clock=self._clock,
            both_clocks=self.device == "cuda",
            has_state=self._opened["has_state"],
            cold=self.described.cache == "cold",
            timeout_s=self.options.timeout_s,
            rng=self._rng,
        )
        fds = tuple(self._opened.pop("fds", ()))
        try:
            self._open_workers(fds)
        finally:
            for fd in fds:
                os.close(fd)
        for one in self._contestants:
            if one.active:
                self._prepare(one)
        self._sampler.warm_up(lambda one: self.reporter.phase("warm up", one.name))

    def _chosen(self) -> list[DescribedImplementation]:
        """The baseline first; all others, or those asked for and the rungs that they build on."""
        here = self.described.on(self.device)
        wanted = set(self.wanted)
        for one in reversed(here):
            if one.name in wanted and one.builds_on:
                wanted.add(one.builds_on)
        return [one for one in here if not wanted or one.role == "baseline" or one.name in wanted]

    def _contestant(self, declared: DescribedImplementation) -> Contestant:
        one = Contestant(declared)
        reason = next(filter(None, (lacking(text, self.hardware) for text in declared.requires)), None)
        if reason:
            one.stop(Verdict.SKIPPED, reason)
        return one

    def _open_workers(self, fds: tuple[int, ...]) -> None:
        """Start a worker for each contestant; they import the benchmark and open the device side by side."""
        assert self._opened is not None
        self.reporter.phase("start workers")
        request = {
            "target": {"name": self.target.name, "module": self.target.module},
            "problem": self._opened["problem"],
        }
        for one in self._contestants:
            if one.active:
                one.child = self.server.spawn(
                    "worker", one.name, self.log_path(one.name), memory_limit_bytes=self._memory_limit()
                )
                self._guarded(one, partial(one.child.post, "open", fds=fds, implementation=one.name, **request))
        for one in self._contestants:
            if one.active and one.child is not None:
                self._guarded(one, partial(one.child.collect, timeout=self.options.timeout_s))

    def _prepare(self, one: Contestant) -> None:
        assert one.child is not None
        self.reporter.phase("prepare", one.name)
        prepared = self._guarded(one, partial(one.child.ask, "prepare", timeout=self.options.timeout_s))
        if prepared is not None:
            one.prepare_s = float(prepared["prepare_s"])

    @staticmethod
    def _guarded(one: Contestant, call: Callable[[], Any]) -> Any:
        """Make a request of a contestant's worker; one that cannot answer takes its contestant out of the run."""
        try:
            return call()
        except ChildError as error:
            one.fail(error)
            return None

    def _memory_limit(self) -> int | None:
        # A CUDA process maps far more than it uses, and the limit counts mappings.
        if self.device != "cpu":
            return None
        return self.options.memory_limit_bytes or int(psutil.virtual_memory().available * _MEMORY_SHARE)

    # --- sampling

    def _sample(self) -> None:
        assert self._sampler is not None
        sampler, budget = self._sampler, self.options.budget_s
        sampler.clockwork = Clockwork()
        self._sampling_started = start = time.monotonic()
        self._stopped = "nothing to measure"
        passes, look_at = 0, MIN_PASSES
        while any(one.active for one in self._contestants):
            sampler.run_pass(passes, self._tell)
            passes += 1
            if passes >= look_at:
                if known(self._contestants, self._clock, self.options.width):
                    self._stopped = "intervals narrow enough"
                    return
                look_at = passes + max(2, int(passes * _LOOK_AGAIN))
            # An even number of passes completes the order A B B A.
            if passes >= MIN_PASSES and passes % 2 == 0 and time.monotonic() - start >= budget:
                self._stopped = "time budget spent"
                return

    def _tell(self, one: Contestant) -> None:
        assert self._sampler is not None
        assert self._sampling_started is not None
        left = self.options.budget_s - (time.monotonic() - self._sampling_started)
        self.reporter.phase("sample", one.name)
        self.reporter.progress(len(self._sampler.order) + 1, None, max(0.0, left))

    def _end_sampling(self) -> None:
        if self._sampling_started is not None:
            self._sampling_s = time.monotonic() - self._sampling_started

    # --- ending

    def _close(self, judge: Child | None) -> None:
        for one in self._contestants:
            if one.active and one.child is not None:
                try:
                    one.memory = Memory(**one.child.ask("memory", timeout=10.0))
                except ChildError as error:
                    one.fail(error)
                one.log = one.child.last_lines()
                one.child.kill()
        if judge is not None:
            judge.kill()

    def _result(self, created: str) -> TargetResult:
        assert self._opened is not None
        opened = self._opened
        tolerance = self.described.tolerance
        return TargetResult(
            target=self.target.name,
            summary=self.summary,
            goal=self.described.goal,
            clock=self._clock,
            cache=self.described.cache,
            device=self.device,
            problem=self._problem(opened, tolerance),
            rows=rows(
                self._contestants,
                clock=self._clock,
                cache=self.described.cache,
                cost=opened["cost"],
                tolerance=tolerance,
                floor=self.options.floor,
                ceilings=self.ceilings,
            ),
            order=self._sampler.order if self._sampler else [],
            overhead=self._overhead(),
            seed=self.seed,
            started=created,
            wall_s=time.monotonic() - self._started,
            stopped=self._stopped,
            floor=self.options.floor,
            complete=not self.interrupted,
        )

    def _problem(self, opened: dict[str, Any], tolerance: str) -> Problem:
        cost = opened["cost"]
        return Problem(
            size=self.size,
            params=self.params,
            bytes_read=cost["bytes_read"],
            bytes_written=cost["bytes_written"],
            flops=cost["flops"],
            precision=cost["precision"],
            tolerance=tolerance,
            input_bytes=opened["input_bytes"],
            output_bytes=opened["output_bytes"],
        )

    def _overhead(self) -> Overhead:
        spent = self._sampler.clockwork if self._sampler else Clockwork()
        before = (self._sampling_started or time.monotonic()) - self._started
        other = self._sampling_s - spent.timed_s - spent.renew_s - spent.judge_s
        return Overhead(
            samples=spent.samples,
            start_s=before,
            sampling_s=self._sampling_s,
            timed_s=spent.timed_s,
            renew_s=spent.renew_s,
            judge_s=spent.judge_s,
            other_s=max(0.0, other),
        )

    @property
    def _clock(self) -> str:
        # The processor has no clock apart from the caller's.
        return self.described.clock if self.device == "cuda" else "wall"
