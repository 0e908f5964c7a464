"""A run: the selected targets one after the other, into a bundle."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import cattrs
from attrs import define, evolve, field, frozen

from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.harness import ceilings as kept
from aiperf_core.harness.candidate import check_inputs
from aiperf_core.harness.described import Described, TargetRef
from aiperf_core.harness.options import Options
from aiperf_core.harness.processes import Child, ChildError, ForkServer
from aiperf_core.harness.sandbox import OPTIONAL, relaxations
from aiperf_core.harness.supervisor import Reporter, TargetRun
from aiperf_core.requirements import Hardware
from aiperf_core.results import figures
from aiperf_core.results.models import Ceilings, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import WORLD_SIZE, Selection

_IMPORT_TIMEOUT_S = 60.0
_CEILINGS_TIMEOUT_S = 120.0


class RunReporter(Reporter, Protocol):
    """Who is told how a run goes on."""

    def target_started(self, name: str, index: int, total: int) -> None:
        """A target's turn has come; `index` counts from 1."""

    def target_finished(self, result: TargetResult | SkippedTarget) -> None:
        """A target is done."""


@frozen
class Plan:
    """A target that is to be run: its declarations, device and sizes."""

    selection: Selection
    described: Described
    device: str
    size: str
    params: dict[str, float]

    @property
    def name(self) -> str:
        """The target's name."""
        return self.selection.target.name


@define(eq=False)
class Session:
    """The processes and the knowledge of a machine that the targets of one run share.

    Use as a context manager; leaving it ends every process. `log_folder` takes the logs of processes that belong to no
    target.
    """

    options: Options
    log_folder: Path
    _server: ForkServer = field(factory=ForkServer, init=False)
    _hardware: Hardware | None = field(default=None, init=False)
    _left_out: tuple[str, ...] | None = field(default=None, init=False)
    _prober: Child | None = field(default=None, init=False)
    _no_cuda: str = field(default="", init=False)
    _ceilings: dict[str, Ceilings | None] = field(factory=dict, init=False)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    # --- planning, before anything is written

    def plan(self, selections: Iterable[Selection]) -> tuple[list[Plan], list[SkippedTarget]]:
        """Decide device and sizes of each target.

        Returns what will be run, and what cannot be with its reason. Raises `UsageError` for options that a target does
        not take.
        """
        self._look_for_hardware()
        plans, skipped = [], []
        describer: Child | None = None
        for selection in selections:
            target = selection.target
            if describer is None or describer.ended:
                describer = self.spawn("describer", "describer")
            ref = {"name": target.name, "module": target.module}
            try:
                described = cattrs.structure(
                    describer.ask("describe", timeout=_IMPORT_TIMEOUT_S, target=ref), Described
                )
            except ChildError as error:
                text = str(error)
                text = text if target.name in text else f"{target.name!r} cannot be used: importing it {text}"
                skipped.append(SkippedTarget(target.name, Verdict.FAILED, text))
                continue
            self._check_candidate(describer, ref)
            plan = self._plan(selection, described)
            plans.append(plan) if isinstance(plan, Plan) else skipped.append(plan)
        if describer is not None:
            describer.kill()
        return plans, skipped

    def _check_candidate(self, describer: Child, target: dict[str, str]) -> None:
        """Raise `UsageError` where the candidate cannot be called with the target's inputs."""
        if self.options.candidate is None:
            return
        try:
            names = describer.ask("inputs", timeout=_IMPORT_TIMEOUT_S, target=target)
        except ChildError as error:
            raise AiperfError(f"{target['name']!r} cannot be used: {error}") from None
        check_inputs(self.options.candidate, names)

    def _plan(self, selection: Selection, described: Described) -> Plan | SkippedTarget:
        name = selection.target.name
        device = self._device_for(described)
        known = {one.name for one in described.implementations}
        unknown = sorted(selection.implementations - known)
        if unknown:
            raise UsageError(
                f"{name!r} has no implementation named {', '.join(map(repr, unknown))}; it has {', '.join(sorted(known))}."
            )
        if not described.on(device):
            there = ", ".join(sorted({one.device for one in described.implementations}))
            reason = f"has no implementation for {device}; it runs on {there}"
            return SkippedTarget(name, Verdict.SKIPPED, reason)
        usable = len(os.sched_getaffinity(0))
        if device == "cpu" and (described.threads or 0) > usable:
            reason = f"needs {described.threads} processors ({usable} are usable here)"
            return SkippedTarget(name, Verdict.SKIPPED, reason)
        self._check_baseline(name, described, device)
        size = self._size_for(name, described, device)
        params = {**described.presets[size], **self._overrides(name, described.presets[size])}
        world_size = params.get(WORLD_SIZE, 1)
        if device == "cuda" and world_size > self.hardware.gpus:
            reason = f"needs {world_size:g} GPUs, one for each rank ({self.hardware.gpus} here); --set world_size=2 asks for fewer"
            return SkippedTarget(name, Verdict.SKIPPED, reason)
        if WORLD_SIZE in params and self.options.candidate is not None:
            raise UsageError(
                f"{name!r} is a workload of {world_size:g} ranks; a candidate is one process. Judge it against another target: aiperf list"
            )
        return Plan(selection, described, device, size, params)

    def _check_baseline(self, name: str, described: Described, device: str) -> None:
        names = [one.name for one in described.on(device)]
        if self.options.baseline not in (None, *names):
            raise UsageError(
                f"{name!r} has no implementation named {self.options.baseline!r} on {device}; it has {', '.join(names)}."
            )

    def _device_for(self, described: Described) -> str:
        self._require(self.options.device)
        if self.options.device:
            return self.options.device
        wants = any(one.device == "cuda" for one in described.implementations)
        return "cuda" if wants and self.hardware.gpus else "cpu"

    def _size_for(self, name: str, described: Described, device: str) -> str:
        size = self.options.size or (device if device in described.presets else "smoke")
        if size not in described.presets:
            raise UsageError(f"{name!r} has no size {size!r}; it has {', '.join(described.presets)}.")
        return size

    def _overrides(self, name: str, preset: dict[str, float]) -> dict[str, float]:
        unknown = sorted(set(self.options.params) - set(preset))
        if unknown:
            raise UsageError(
                f"{name!r} has no size parameter {', '.join(map(repr, unknown))}; it has {', '.join(sorted(preset))}."
            )
        for key, value in self.options.params.items():
            if isinstance(preset[key], int) and value != int(value):
                raise UsageError(f"{name!r} takes a whole number for {key}; --set gave {value:g}.")
        return {
            key: int(value) if isinstance(preset[key], int) else value for key, value in self.options.params.items()
        }

    # --- the machine

    def _require(self, device: str | None) -> None:
        """Raise `UsageError` where a GPU was asked for and there is none."""
        if device == "cuda" and not self.hardware.gpus:
            raise UsageError(
                f"The device 'cuda' was asked for, but there is none here: {self._no_cuda}. "
                "Leave out --device to run on the CPU; see what is missing with: aiperf doctor"
            )

    def _look_for_hardware(self) -> None:
        """Ask a process of its own for the GPU; the answer is collected when it is needed."""
        if self._hardware is None and self._prober is None:
            self._prober = self.spawn("prober", "prober")
            with contextlib.suppress(ChildError):  # collecting will tell
                self._prober.post("cuda")

    @property
    def hardware(self) -> Hardware:
        """The GPU that torch sees."""
        if self._hardware is None:
            self._look_for_hardware()
            assert self._prober is not None
            try:
                found = self._prober.collect(timeout=_IMPORT_TIMEOUT_S)
            except ChildError as error:
                found = {"gpus": 0, "reason": f"looking for one failed: {error}"}
            self._prober.kill()
            self._no_cuda = found.get("reason", "")
            self._hardware = Hardware(found.get("gpu"), found.get("arch"), found["gpus"])
        return self._hardware

    def left_out(self, device: str) -> tuple[str, ...]:
        """The protections of a candidate's process under which the device does not start here: the fewest that must go."""
        if device != "cuda":
            return ()
        if self._left_out is None:
            self._left_out = next((one for one in relaxations() if self._starts_without(one)), OPTIONAL)
        return self._left_out

    def _starts_without(self, left_out: tuple[str, ...]) -> bool:
        prober, scratch = self.spawn("prober", "confined"), tempfile.mkdtemp(prefix="aiperf-confined-")
        try:
            return not prober.ask("confined_cuda", timeout=_IMPORT_TIMEOUT_S, scratch=scratch, without=list(left_out))
        except ChildError:
            return False
        finally:
            prober.kill()
            shutil.rmtree(scratch, ignore_errors=True)

    def ceilings(self, device: str, again: bool = False) -> Ceilings | None:
        """What a device reaches: measured once, kept on disk; `again` measures anew and keeps the better figures.

        None where measuring failed; results then carry no fraction of light.
        """
        if device not in self._ceilings or again:
            before = self._ceilings.get(device) or kept.read(device, self._state(device))
            if before is None or again:
                # The log of the prober says what went wrong.
                with contextlib.suppress(ChildError):
                    before = self._measure_ceilings(device, before)
            self._ceilings[device] = before
        return self._ceilings[device]

    def all_ceilings(
        self, device: str | None, refresh: bool = False, tell: Callable[[str], None] = lambda _: None
    ) -> tuple[Ceilings, bool]:
        """The whole page of a device, and whether it was kept from before; None takes the GPU where there is one.

        `refresh` measures anew and forgets what was kept. `tell` is told what is measured next. Raises `UsageError`
        for a device that is not there, and `AiperfError` where it cannot be measured.
        """
        self._require(device)
        device = device or ("cuda" if self.hardware.gpus else "cpu")
        before = None if refresh else kept.read(device, self._state(device))
        if before is None or not before.whole:
            try:
                return self._measure_ceilings(device, before, whole=True, tell=tell), False
            except ChildError as error:
                raise AiperfError(f"The ceilings of {device!r} could not be measured: {error}") from None
        return before, True

    @property
    def measured_ceilings(self) -> dict[str, Ceilings]:
        """The ceilings that this run used, by device."""
        return {device: one for device, one in self._ceilings.items() if one is not None}

    def _measure_ceilings(
        self,
        device: str,
        before: Ceilings | None,
        whole: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> Ceilings:
        """Measure, put it together with what was measured before, and keep it. Raises `ChildError`."""
        prober = self.spawn("prober", f"ceilings-{device}")
        try:
            answer = prober.ask("ceilings", timeout=_CEILINGS_TIMEOUT_S, device=device, whole=whole, on_notice=tell)
        finally:
            prober.kill()
        found = evolve(cattrs.structure(answer, Ceilings), state=self._state(device))
        if whole and device == "cuda" and self.hardware.gpus > 1:
            found = self._with_all_reduce(found, tell)
        if before is not None:
            found = figures.better(found, before)
        kept.write(device, found)
        return found

    def _with_all_reduce(self, found: Ceilings, tell: Callable[[str], None] | None) -> Ceilings:
        """Measure all-reduces in a process for each GPU."""
        world = self.hardware.gpus
        if tell is not None:
            tell(f"all-reduce of {world} GPUs")
        store = str(self.log_folder / f"ranks-{secrets.token_hex(4)}")
        ranks = [self.spawn("prober", f"all-reduce-{rank}") for rank in range(world)]
        try:
            for rank, prober in enumerate(ranks):
                prober.post("all_reduce", device="cuda", rank=rank, world=world, store=store)
            answers = [prober.collect(timeout=_CEILINGS_TIMEOUT_S) for prober in ranks]
        except ChildError as error:
            return evolve(found, missing={**found.missing, "all_reduce_bytes_per_s": str(error)})
        finally:
            for prober in ranks:
                prober.kill()
        how = {f"all_reduce_bytes_per_s.{count}": said for count, (_, said) in answers[0].items()}
        rates = {count: rate for count, (rate, _) in answers[0].items()}
        return evolve(found, all_reduce_bytes_per_s=rates, how={**found.how, **how})

    def _state(self, device: str) -> dict[str, str]:
        """What the ceilings depend on; figures that were kept of another state are not used."""
        return kept.state_of(device, self.hardware)

    # --- running

    def run(self, plan: Plan, log_path: Callable[[str, str], Path], reporter: Reporter) -> TargetResult | SkippedTarget:
        """Run one target. A target whose workload is at fault becomes a `SkippedTarget` that says so."""
        target = plan.selection.target
        if self._ceilings.get(plan.device) is None:
            reporter.phase("measure ceilings")
            self.ceilings(plan.device)
        try:
            return TargetRun(
                target=TargetRef(target.name, target.module),
                summary=target.summary,
                described=plan.described,
                wanted=plan.selection.implementations,
                device=plan.device,
                size=plan.size,
                params=plan.params,
                options=self.options,
                hardware=self.hardware,
                server=self._server,
                log_path=lambda name: log_path(target.name, name),
                reporter=reporter,
                ceilings=lambda again: self.ceilings(plan.device, again),
                left_out=self.left_out(plan.device) if self.options.candidate else (),
                seed=secrets.randbits(62),
            ).execute()
        except AiperfError as error:
            return SkippedTarget(target.name, Verdict.FAILED, str(error))

    def spawn(self, role: str, name: str) -> Child:
        """Fork a child of a role; its log lies in the log folder."""
        return self._server.spawn(role, name, self.log_folder / f"{name}.log")


def exit_code(results: list[TargetResult | SkippedTarget], *, interrupted: bool) -> int:
    """The exit code of a run: the gravest of its rows.

    Invalid findings come before failures; a run in which nothing was measured has failed, whatever the reason.
    """
    if interrupted:
        return 130
    verdicts = [row.verdict for one in results if isinstance(one, TargetResult) for row in one.rows]
    verdicts += [one.verdict for one in results if isinstance(one, SkippedTarget)]
    if Verdict.INVALID in verdicts or Verdict.UNTRUSTED in verdicts:
        return ExitCode.INVALID
    if Verdict.FAILED in verdicts or not _measured(results):
        return ExitCode.FAILED
    return ExitCode.OK


def _measured(results: list[TargetResult | SkippedTarget]) -> bool:
    """Whether at least one variant was compared with its baseline."""
    compared = {Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE}
    rows = [row for one in results if isinstance(one, TargetResult) for row in one.rows]
    return any(row.role == "variant" and row.verdict in compared for row in rows)
