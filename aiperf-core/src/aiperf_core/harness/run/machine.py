"""The machine of a run: its devices, their ceilings, and the processes that the run starts on it."""

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Self

import cattrs
from attrs import asdict, define, evolve, field

from aiperf_core.ceiling_groups import GROUPS
from aiperf_core.devices import ceiling_figures, host_memory, kept
from aiperf_core.devices.device import CPU, CUDA, DeviceKind, Found, known_device
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.devices.witness import Quiet
from aiperf_core.errors import AiperfError, SkipError, UsageError
from aiperf_core.executor import ExecutorKind, known_executor
from aiperf_core.harness.isolation.sandbox import OPTIONAL, relaxations
from aiperf_core.harness.processes.child import Child, ChildError, ForkServer
from aiperf_core.harness.run.options import Options
from aiperf_core.measurements import Ceilings
from aiperf_core.requirements import Hardware

IMPORT_TIMEOUT_S = 60.0
_CEILINGS_TIMEOUT_S = 120.0
_LOOPBACK_BYTES = 64 << 20  # of memory that two processes map


@define(eq=False)
class Machine:
    """A machine's devices, executors and processes, shared by the targets of one run.

    Use as a context manager; leaving it ends every process.

    options: the options of the run.
    log_folder: for the logs of processes that belong to no target.
    server: the fork server, where one was started ahead.
    """

    options: Options
    log_folder: Path
    _server: ForkServer = field(factory=ForkServer, kw_only=True)
    _left_out: tuple[str, ...] | None = field(default=None, init=False)
    _kinds: dict[str, DeviceKind] = field(factory=dict, init=False)
    _probing: dict[str, Child] = field(factory=dict, init=False)
    _probed: dict[str, Found | str] = field(factory=dict, init=False)
    _executors: dict[str, ExecutorKind] = field(factory=dict, init=False)
    _ceilings: dict[str, Ceilings | None] = field(factory=dict, init=False)
    _flush_bounds: dict[str, FlushBound | None] = field(factory=dict, init=False)
    _quiet: Quiet | None = field(default=None, init=False)
    # Groups of figures, with their device, that this run measured or tried to.
    _tried: set[tuple[str, str]] = field(factory=set, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keep_quiet()
        for executor in self._executors.values():
            executor.close()
        self._server.close()

    def spawn(self, role: str, name: str) -> Child:
        """Fork a child of a role; its log is in the log folder."""
        return self._server.spawn(role, name, self.log_folder / f"{name}.log")

    @contextlib.contextmanager
    def _probers(self, *names: str) -> Iterator[list[Child]]:
        """Probers for the length of a block."""
        probers = [self.spawn("prober", name) for name in names]
        try:
            yield probers
        finally:
            for prober in probers:
                prober.kill()

    # --- devices and executors

    def require(self, device: str | None) -> None:
        """Raise `UsageError` for a requested device that is unknown or not here."""
        if device is None:
            return
        known_device(device, self.options.known.devices)
        absent = self.absent(device)
        if absent is not None:
            raise UsageError(
                f"The device {device!r} was requested, but this machine has none: {absent}. "
                "Leave out --device to run on the CPU; see what is missing with: aiperf doctor"
            )

    def kind(self, device: str) -> DeviceKind:
        """The kind of a device. Raises `UsageError` for a device that is unknown or cannot be loaded."""
        if device not in self._kinds:
            try:
                self._kinds[device] = known_device(device, self.options.known.devices).resolve()
            except SkipError as error:
                raise UsageError(f"The device {device!r} cannot be used: {error}.") from error
        return self._kinds[device]

    def executor(self, name: str) -> ExecutorKind:
        """The executor of that name. Raises `UsageError` for one that is unknown or cannot be loaded."""
        if name not in self._executors:
            try:
                self._executors[name] = known_executor(name, self.options.known.executors).resolve(self._server)
            except SkipError as error:
                raise UsageError(f"The executor {name!r} cannot be used: {error}.") from error
        return self._executors[name]

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices that are here, sorted."""
        return tuple(name for name in sorted(self.options.known.devices) if self.absent(name) is None)

    def absent(self, device: str) -> str | None:
        """Why there is no device of that name here; None where there is one."""
        found = None if device == CPU.name else self._probe(device)
        return found if isinstance(found, str) else None

    def found(self, device: str) -> Found | None:
        """Description of a device other than the processor; None where there is none."""
        found = self._probe(device)
        return found if isinstance(found, Found) else None

    def count(self, device: str) -> int:
        """How many of a device other than the processor are here."""
        found = self.found(device)
        return found.count if found else 0

    def _probe(self, device: str) -> Found | str:
        """Description of a device by a prober, or the reason why there is none."""
        if device not in self._probed:
            self._start_probe(device)
            prober = self._probing.pop(device)
            try:
                self._probed[device] = cattrs.structure(prober.collect(timeout=IMPORT_TIMEOUT_S), Found)
            except ChildError as error:
                self._probed[device] = str(error) if error.kind == "skip" else f"looking for one failed: {error}"
            finally:
                prober.kill()
        return self._probed[device]

    def _start_probe(self, device: str) -> None:
        """Start a prober in the background; `_probe` collects its answer."""
        if device not in self._probed and device not in self._probing:
            prober = self._probing[device] = self.spawn("prober", f"prober-{device}")
            with contextlib.suppress(ChildError):  # `_probe` gets it too
                prober.post("probe", device=asdict({**self.options.known.devices, CUDA.name: CUDA}[device]))

    @property
    def hardware(self) -> Hardware:
        """The GPU that torch sees."""
        found = self.found(CUDA.name)
        return Hardware(found.name, found.arch, found.count) if found else Hardware()

    def hardware_of(self, device: str) -> Hardware:
        """The hardware that an implementation's requirements are checked against."""
        if device in (CPU.name, CUDA.name):
            return self.hardware
        found = self.found(device)
        return evolve(self.hardware, capabilities=found.capabilities if found else ())

    def left_out(self, device: str) -> tuple[str, ...]:
        """The smallest set of a candidate's protections without which the device starts on this machine."""
        if device != CUDA.name:
            return ()
        if self._left_out is None:
            self._left_out = next((one for one in relaxations() if self._starts_without(one)), OPTIONAL)
        return self._left_out

    def _starts_without(self, left_out: tuple[str, ...]) -> bool:
        scratch = tempfile.TemporaryDirectory(prefix="aiperf-confined-", ignore_cleanup_errors=True)
        with scratch as folder, contextlib.suppress(ChildError), self._probers("confined") as (prober,):
            without = list(left_out)
            return not prober.ask("confined_cuda", timeout=IMPORT_TIMEOUT_S, scratch=folder, without=without)
        return False

    # --- ceilings

    def ceilings(self, device: str, again: bool = False, groups: Collection[str] = ()) -> Ceilings | None:
        """A device's ceilings, measured once and kept on disk; `again` measures anew and keeps the better figures.

        groups: those of `ceiling_groups.GROUPS` that are needed beside the basic figures.

        None where measuring failed or the device has no ceilings: results then have no fraction of the speed of light.
        """
        if not self.kind(device).has_ceilings:
            return None
        if device not in self._ceilings or again:
            before = self._ceilings.get(device) or kept.read(device, self._state(device))
            if before is None or again:
                # The prober's log has the reason of a failure.
                with contextlib.suppress(ChildError):
                    before = self._measure_ceilings(device, before)
            self._ceilings[device] = before
        found = self._ceilings[device]
        if found is not None and (lacking := self._lacking(device, found, groups, again)):
            with contextlib.suppress(ChildError):
                found = self._ceilings[device] = self._with_groups(device, found, lacking)
        return found

    def flush_bound(self, device: str) -> FlushBound | None:
        """How much a flush of the caches must write, measured once and kept on disk; None where nothing is measured.

        Where no smaller size was found, as while other work fills the caches, the next run measures again.
        """
        if not self.kind(device).needs_flush_bound():
            return None
        if device not in self._flush_bounds:
            state = self._state(device)
            bound = kept.read_flush_bound(device, state)
            if bound is None:
                with contextlib.suppress(ChildError):
                    bound = cattrs.structure(self._ask_prober("bound_flush", f"flush-{device}", device), FlushBound)
                    if bound.size_bytes < bound.whole_bytes:
                        kept.write_flush_bound(device, state, bound)
            self._flush_bounds[device] = bound
        return self._flush_bounds[device]

    @property
    def quiet(self) -> Quiet:
        """The quiet time of the witness on this machine, as earlier runs kept it."""
        if self._quiet is None:
            self._quiet = Quiet(kept.read_quiet_s(self._state(CPU.name)))
        return self._quiet

    def _keep_quiet(self) -> None:
        turn_s = self._quiet.turn_s if self._quiet else None
        if self._quiet and turn_s and turn_s != self._quiet.kept_s:
            kept.write_quiet_s(self._state(CPU.name), turn_s)

    def _lacking(self, device: str, found: Ceilings, groups: Collection[str], again: bool) -> list[str]:
        """The groups to measure. What cannot be measured is tried once in a run."""
        known = {one for one in groups if ceiling_figures.has(found, one) or (device, one) in self._tried}
        self._tried.update((device, one) for one in groups)
        return [one for one in groups if again or one not in known]

    def all_ceilings(
        self, device: str | None, refresh: bool = False, tell: Callable[[str], None] = lambda _: None
    ) -> tuple[Ceilings, bool]:
        """All ceilings of a device, and whether they were kept from before.

        device: None takes the GPU where there is one.
        refresh: measure anew and forget what was kept.
        tell: called with the name of each measurement.

        Raises `UsageError` for a device that is not here, and `AiperfError` where it cannot be measured.
        """
        self.require(device)
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
        """Measure, merge with the figures from before, and keep the result. Raises `ChildError`."""
        started = time.monotonic()
        answer = self._ask_prober("ceilings", f"ceilings-{device}", device, on_notice=tell, whole=whole)
        found = evolve(cattrs.structure(answer, Ceilings), state=self._state(device))
        if whole:
            # The disk is the host's: the page of a processor has it.
            groups = [one for one in GROUPS if one != "disk" or self.kind(device).on_host]
            found = self._with_groups(device, found, groups, tell)
            found = evolve(found, took_s=time.monotonic() - started)
        if before is not None:
            found = ceiling_figures.better(found, before)
        kept.write(device, found)
        return found

    def _with_groups(
        self, device: str, before: Ceilings, groups: list[str], tell: Callable[[str], None] | None = None
    ) -> Ceilings:
        """Measure groups of figures, merge them with those from before, and keep the result. Raises `ChildError`."""
        answer = self._ask_prober("ceilings_of", f"ceilings-{device}", device, on_notice=tell, groups=groups)
        found = ceiling_figures.with_figures(before, answer)
        if "wire" in groups and device == CPU.name:
            found = ceiling_figures.with_figures(found, self._loopback(tell))
        if "all_reduce" in groups and device == CUDA.name and self.hardware.gpus > 1:
            found = self._with_all_reduce(found, tell)
        kept.write(device, found)
        return found

    def _loopback(self, tell: Callable[[str], None] | None) -> dict[str, dict[str, Any]]:
        """The rate from one process to another, measured in two processes; a reason where it cannot be measured."""
        if tell is not None:
            tell("process to process")
        key, fd = "loopback_bytes_per_s", host_memory.allocate(_LOOPBACK_BYTES)
        try:
            rate, how = self._ask_ranks("loopback", 2, memory=f"/proc/{os.getpid()}/fd/{fd}")
        except ChildError as error:
            return {"figures": {}, "how": {}, "missing": {key: str(error)}}
        finally:
            os.close(fd)
        return {"figures": {key: rate}, "how": {key: how}, "missing": {}}

    def _with_all_reduce(self, found: Ceilings, tell: Callable[[str], None] | None) -> Ceilings:
        """Add the rates of all-reduces, measured in one process for each GPU."""
        world = self.hardware.gpus
        if tell is not None:
            tell(f"all-reduce of {world} GPUs")
        try:
            best = self._ask_ranks("all_reduce", world, device=CUDA.name, world=world)
        except ChildError as error:
            return evolve(found, missing={**found.missing, "all_reduce_bytes_per_s": str(error)})
        how = {f"all_reduce_bytes_per_s.{count}": method for count, (_, method) in best.items()}
        rates = {count: rate for count, (rate, _) in best.items()}
        return evolve(found, all_reduce_bytes_per_s=rates, how={**found.how, **how})

    def _ask_prober(self, do: str, name: str, device: str, **arguments: Any) -> Any:
        """Reply of a prober of that name about a device. Raises `ChildError`."""
        with self._probers(name) as (prober,):
            told = asdict(self.options.known.devices[device])
            return prober.ask(do, timeout=_CEILINGS_TIMEOUT_S, device=told, **arguments)

    def _ask_ranks(self, do: str, ranks: int, **arguments: Any) -> Any:
        """Common measurement of several probers, as the first one reports it. Raises `ChildError`."""
        store = str(self.log_folder / f"ranks-{secrets.token_hex(4)}")
        with self._probers(*(f"{do.replace('_', '-')}-{rank}" for rank in range(ranks))) as probers:
            for rank, prober in enumerate(probers):
                prober.post(do, rank=rank, store=store, **arguments)
            first, *_ = [prober.collect(timeout=_CEILINGS_TIMEOUT_S) for prober in probers]
        return first

    def _state(self, device: str) -> dict[str, str]:
        """State that the ceilings depend on; figures kept in another state are not used."""
        state = kept.state_of(device, self.hardware)
        if device in (CPU.name, CUDA.name):
            return state
        found = self.found(device)
        return {**state, "device": found.name if found else "", **self.kind(device).state()}
