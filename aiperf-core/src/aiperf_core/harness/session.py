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
from attrs import asdict, define, evolve, field, frozen

from aiperf_core.devices.device import CPU, CUDA, DeviceKind, Found, known_device
from aiperf_core.errors import AiperfError, ExitCode, SkipError, UsageError
from aiperf_core.executors.executor import HERE, TORCHRUN, ExecutorKind, known_executor
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
    executor: str = HERE.name

    @property
    def name(self) -> str:
        """The target's name."""
        return self.selection.target.name


@define(eq=False)
class Session:
    """The processes and the knowledge of a machine that the targets of one run share.

    Use as a context manager; leaving it ends every process. `log_folder` takes the logs of processes that belong to no
    target. `server` is the fork server, where one was started ahead.
    """

    options: Options
    log_folder: Path
    _server: ForkServer = field(factory=ForkServer, kw_only=True)
    _hardware: Hardware | None = field(default=None, init=False)
    _left_out: tuple[str, ...] | None = field(default=None, init=False)
    _prober: Child | None = field(default=None, init=False)
    _no_cuda: str = field(default="", init=False)
    _kinds: dict[str, DeviceKind] = field(factory=dict, init=False)
    _probed: dict[str, Found | str] = field(factory=dict, init=False)
    _executors: dict[str, ExecutorKind] = field(factory=dict, init=False)
    _ceilings: dict[str, Ceilings | None] = field(factory=dict, init=False)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._executors.values():
            one.close()
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
            return SkippedTarget(name, Verdict.SKIPPED, self._without(device, described))
        kind = self.kind(device)
        usable = len(os.sched_getaffinity(0))
        if kind.on_host and (described.threads or 0) > usable:
            reason = f"needs {described.threads} processors ({usable} are usable here)"
            return SkippedTarget(name, Verdict.SKIPPED, reason)
        self._check_baseline(name, described, device)
        size = self._size_for(name, described, device)
        params = {**described.presets[size], **self._overrides(name, described.presets[size])}
        world_size = params.get(WORLD_SIZE, 1)
        if WORLD_SIZE in params and not kind.on_host:
            too_many = self._no_ranks(device, kind, world_size)
            if too_many:
                return SkippedTarget(name, Verdict.SKIPPED, too_many)
        if self.options.candidate is not None and not kind.confines:
            raise UsageError(
                f"Code that nobody trusts cannot be judged on {device!r}: nothing confines it there. "
                "Judge it on cpu or cuda: --device cpu"
            )
        if WORLD_SIZE in params and self.options.candidate is not None:
            raise UsageError(
                f"{name!r} is a workload of {world_size:g} ranks; a candidate is one process. Judge it against another target: aiperf list"
            )
        if (described.folder or described.files or described.deferred) and self.options.candidate is not None:
            raise UsageError(
                f"{name!r} works with files or goes on after the call; a candidate is given no files, and is timed until it is "
                "done. Judge it against another target: aiperf list"
            )
        if described.served and self.options.candidate is not None:
            raise UsageError(
                f"{name!r} hands out requests one by one; a candidate is given all inputs at once. "
                "Judge it against another target: aiperf list"
            )
        executor = self.options.executor or (TORCHRUN if WORLD_SIZE in params else HERE).name
        unfit = self._unfit(executor, params)
        if unfit:
            return SkippedTarget(name, Verdict.SKIPPED, unfit)
        return Plan(selection, described, device, size, params, executor)

    def _unfit(self, executor: str, params: dict[str, float]) -> str | None:
        """Why an executor cannot start what a target needs; None where it can. Raises `UsageError` for what nobody should ask."""
        kind = self.executor(executor)
        if self.options.candidate is not None and not kind.confines:
            raise UsageError(
                f"Code that nobody trusts cannot be judged by the executor {executor!r}: nothing confines it there. "
                "Leave out --executor to judge it here."
            )
        if WORLD_SIZE in params and not kind.takes_ranks:
            return (
                f"is a workload of {params[WORLD_SIZE]:g} ranks; the executor {executor!r} starts one process at a time"
            )
        if WORLD_SIZE not in params and not kind.takes_one:
            return f"is a workload of one process; the executor {executor!r} starts ranks"
        return None

    def executor(self, name: str) -> ExecutorKind:
        """What starts workers. Raises `UsageError` for one that nobody knows or that cannot be loaded."""
        if name not in self._executors:
            try:
                self._executors[name] = known_executor(name, self.options.executors).resolve(self._server)
            except SkipError as error:
                raise UsageError(f"The executor {name!r} cannot be used: {error}.") from error
        return self._executors[name]

    def _check_baseline(self, name: str, described: Described, device: str) -> None:
        names = [one.name for one in described.on(device)]
        if self.options.baseline not in (None, *names):
            raise UsageError(
                f"{name!r} has no implementation named {self.options.baseline!r} on {device}; it has {', '.join(names)}."
            )

    def _device_for(self, described: Described) -> str:
        """The device that was asked for; else one that is here and of use: a GPU, one of a plugin, the processor."""
        self._require(self.options.device)
        if self.options.device:
            return self.options.device
        useful = {one.device for one in described.implementations}
        others = [name for name in self.options.devices if name not in (CUDA.name, CPU.name)]
        usable = (name for name in (CUDA.name, *others) if name in useful and self.absent(name) is None)
        return next(usable, CPU.name)

    def _without(self, device: str, described: Described) -> str:
        """Why a target cannot be run on a device that it has nothing for, or on those that it has something for."""
        there = sorted({one.device for one in described.implementations})
        reason = f"has no implementation for {device}; it runs on {', '.join(there)}"
        absent = {name: self._why_not(name) for name in there} if self.options.device is None else {}
        said = [f"{name}: {why}" for name, why in absent.items() if why and name != CUDA.name]
        return f"{reason} ({'; '.join(said)})" if said else reason

    def _why_not(self, device: str) -> str | None:
        if device not in self.options.devices:
            return f"no plugin provides it; known are {', '.join(sorted(self.options.devices))}"
        return self.absent(device)

    def _no_ranks(self, device: str, kind: DeviceKind, world_size: float) -> str | None:
        """Why a workload cannot have so many ranks on a device; None where it can."""
        if not kind.ranks:
            return f"is a workload of {world_size:g} ranks; several of {device!r} cannot be told to work together"
        count, what = self.count(device), "GPUs" if device == CUDA.name else repr(device)
        if world_size <= count:
            return None
        return f"needs {world_size:g} {what}, one for each rank ({count} here); --set world_size=2 asks for fewer"

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
        """Raise `UsageError` where a device was asked for that nobody knows or that is not here."""
        if device is None:
            return
        known_device(device, self.options.devices)
        absent = self.absent(device)
        if absent is not None:
            raise UsageError(
                f"The device {device!r} was asked for, but there is none here: {absent}. "
                "Leave out --device to run on the CPU; see what is missing with: aiperf doctor"
            )

    def kind(self, device: str) -> DeviceKind:
        """What the harness asks of a device of that name. Raises `UsageError` for one that nobody knows or that cannot be loaded."""
        if device not in self._kinds:
            try:
                self._kinds[device] = known_device(device, self.options.devices).resolve()
            except SkipError as error:
                raise UsageError(f"The device {device!r} cannot be used: {error}.") from error
        return self._kinds[device]

    def absent(self, device: str) -> str | None:
        """Why there is no device of that name here; None where there is one."""
        if device == CPU.name:
            return None
        if device == CUDA.name:
            return None if self.hardware.gpus else self._no_cuda or "none was found"
        found = self._probe(device)
        return found if isinstance(found, str) else None

    def count(self, device: str) -> int:
        """How many of a device that is here."""
        if device == CUDA.name:
            return self.hardware.gpus
        found = self._probe(device)
        return found.count if isinstance(found, Found) else 0

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices that are here, in the order of the alphabet."""
        return tuple(name for name in sorted(self.options.devices) if self.absent(name) is None)

    def found(self, device: str) -> Found | None:
        """What is here of a plugin's device; None where nothing is."""
        found = self._probe(device)
        return found if isinstance(found, Found) else None

    def _probe(self, device: str) -> Found | str:
        """Ask a process of its own for a device: what is here, or why nothing is."""
        if device not in self._probed:
            prober = self.spawn("prober", f"prober-{device}")
            try:
                told = prober.ask("probe", timeout=_IMPORT_TIMEOUT_S, device=asdict(self.options.devices[device]))
                self._probed[device] = cattrs.structure(told, Found)
            except ChildError as error:
                self._probed[device] = str(error)
            finally:
                prober.kill()
        return self._probed[device]

    def _look_for_hardware(self) -> None:
        """Ask a process of its own for the GPU; the answer is collected when it is needed."""
        if self._hardware is None and self._prober is None:
            self._prober = self.spawn("prober", "prober")
            with contextlib.suppress(ChildError):  # collecting will tell
                self._prober.post("probe", device=asdict(CUDA))

    @property
    def hardware(self) -> Hardware:
        """The GPU that torch sees."""
        if self._hardware is None:
            self._look_for_hardware()
            assert self._prober is not None
            try:
                found = self._prober.collect(timeout=_IMPORT_TIMEOUT_S)
                self._hardware = Hardware(found["name"], found["arch"], found["count"])
            except ChildError as error:
                self._no_cuda = str(error) if error.kind == "skip" else f"looking for one failed: {error}"
                self._hardware = Hardware()
            self._prober.kill()
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

        None where measuring failed, or where the device has no ceilings; results then carry no fraction of light.
        """
        if not self.kind(device).has_ceilings:
            return None
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
        device = device or (CUDA.name if self.hardware.gpus else CPU.name)
        if not self.kind(device).has_ceilings:
            raise AiperfError(f"The device {device!r} has no ceilings: its plugin does not say how to measure any.")
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
            told = asdict(self.options.devices[device])
            answer = prober.ask("ceilings", timeout=_CEILINGS_TIMEOUT_S, on_notice=tell, device=told, whole=whole)
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
        state = kept.state_of(device, self.hardware)
        if device in (CPU.name, CUDA.name):
            return state
        found = self.found(device)
        return {**state, "device": found.name if found else "", **self.kind(device).state()}

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
                device=self.options.devices[plan.device],
                kind=self.kind(plan.device),
                size=plan.size,
                params=plan.params,
                options=self.options,
                hardware=self.hardware_of(plan.device),
                server=self._server,
                executor=self.executor(plan.executor),
                executor_name=plan.executor,
                log_path=lambda name: log_path(target.name, name),
                reporter=reporter,
                ceilings=lambda again: self.ceilings(plan.device, again),
                left_out=self.left_out(plan.device) if self.options.candidate else (),
                seed=secrets.randbits(62),
            ).execute()
        except SkipError as error:
            return SkippedTarget(target.name, Verdict.SKIPPED, str(error))
        except AiperfError as error:
            return SkippedTarget(target.name, Verdict.FAILED, str(error))

    def run_whole(
        self, plan: Plan, log_path: Callable[[str, str], Path], reporter: Reporter
    ) -> TargetResult | SkippedTarget:
        """Run one target for somebody who has no use for a part of it. Raises `KeyboardInterrupt` where Ctrl-C ended it."""
        result = self.run(plan, log_path, reporter)
        if isinstance(result, TargetResult) and not result.complete:
            raise KeyboardInterrupt
        return result

    def hardware_of(self, device: str) -> Hardware:
        """What an implementation's requirements are held against."""
        if device in (CPU.name, CUDA.name):
            return self.hardware
        found = self.found(device)
        return evolve(self.hardware, capabilities=found.capabilities if found else ())

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
    compared = {*Verdict} - {Verdict.MEASURED, Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED, Verdict.SKIPPED}
    rows = [row for one in results if isinstance(one, TargetResult) for row in one.rows]
    return any(row.role == "variant" and row.verdict in compared for row in rows)
