"""A run: the selected targets one after the other, into a bundle."""

import json
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import cattrs
from attrs import asdict, define, evolve, field, frozen

from aiperf_core.devices.host import cache_folder
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.harness.described import Described, TargetRef
from aiperf_core.harness.options import Options
from aiperf_core.harness.processes import Child, ChildError, ForkServer
from aiperf_core.harness.supervisor import Reporter, TargetRun
from aiperf_core.requirements import Hardware
from aiperf_core.results.models import Ceilings, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import Selection

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
        plans, skipped = [], []
        describer: Child | None = None
        for selection in selections:
            target = selection.target
            if describer is None or describer.ended:
                describer = self._spawn("describer", "describer")
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
            plan = self._plan(selection, described)
            plans.append(plan) if isinstance(plan, Plan) else skipped.append(plan)
        if describer is not None:
            describer.kill()
        return plans, skipped

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
        size = self._size_for(name, described, device)
        params = {**described.presets[size], **self._overrides(name, described.presets[size])}
        return Plan(selection, described, device, size, params)

    def _device_for(self, described: Described) -> str:
        if self.options.device == "cuda" and not self.hardware.gpus:
            raise UsageError(
                f"The device 'cuda' was asked for, but there is none here: {self._no_cuda}. "
                "Leave out --device to run on the CPU; see what is missing with: aiperf doctor"
            )
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

    @property
    def hardware(self) -> Hardware:
        """The GPU that torch sees, asked once in a process of its own."""
        if self._hardware is None:
            prober = self._spawn("prober", "prober")
            try:
                found = prober.ask("cuda", timeout=_IMPORT_TIMEOUT_S)
            except ChildError as error:
                found = {"gpus": 0, "reason": f"looking for one failed: {error}"}
            prober.kill()
            self._no_cuda = found.get("reason", "")
            self._hardware = Hardware(found.get("gpu"), found.get("arch"), found["gpus"])
        return self._hardware

    def ceilings(self, device: str, again: bool = False) -> Ceilings | None:
        """What a device reaches: measured once, kept on disk; `again` measures anew and keeps the better figures.

        None where measuring failed; results then carry no fraction of light.
        """
        if device not in self._ceilings or again:
            file = cache_folder() / "ceilings" / f"{device}.json"
            kept = None if again else _read_ceilings(file, self._signature(device))
            if kept is None:
                kept = self._measure_ceilings(device, self._ceilings.get(device))
                _write_ceilings(file, self._signature(device), kept)
            self._ceilings[device] = kept
        return self._ceilings[device]

    @property
    def measured_ceilings(self) -> dict[str, Ceilings]:
        """The ceilings that this run used, by device."""
        return {device: one for device, one in self._ceilings.items() if one is not None}

    def _measure_ceilings(self, device: str, before: Ceilings | None) -> Ceilings | None:
        prober = self._spawn("prober", f"ceilings-{device}")
        try:
            found = cattrs.structure(prober.ask("ceilings", timeout=_CEILINGS_TIMEOUT_S, device=device), Ceilings)
        except ChildError:
            return before
        finally:
            prober.kill()
        if before is None:
            return found
        rates = ("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s")
        return evolve(
            found,
            **{rate: max(getattr(found, rate), getattr(before, rate)) for rate in rates},
            flop_per_s={key: max(one, before.flop_per_s.get(key, 0.0)) for key, one in found.flop_per_s.items()},
        )

    def _signature(self, device: str) -> str:
        """What the ceilings depend on; figures that were kept under another signature are not used."""
        import importlib.metadata
        import os

        from aiperf_core.devices.probe import nvidia

        torch = importlib.metadata.version("torch")
        if device == "cuda":
            return f"{self.hardware.gpu} driver {nvidia().driver} torch {torch}"
        return f"{os.sched_getaffinity(0)} torch {torch} threads {os.environ.get('OMP_NUM_THREADS', '')}"

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
                seed=secrets.randbits(62),
            ).execute()
        except AiperfError as error:
            return SkippedTarget(target.name, Verdict.FAILED, str(error))

    def _spawn(self, role: str, name: str) -> Child:
        return self._server.spawn(role, name, self.log_folder / f"{name}.log")


def _read_ceilings(file: Path, signature: str) -> Ceilings | None:
    try:
        kept = json.loads(file.read_text())
        return cattrs.structure(kept["ceilings"], Ceilings) if kept["signature"] == signature else None
    except (OSError, ValueError, KeyError, TypeError, cattrs.BaseValidationError):
        # Kept figures are a convenience: without them they are measured.
        return None


def _write_ceilings(file: Path, signature: str, ceilings: Ceilings | None) -> None:
    from aiperf_core.results import atomic

    if ceilings is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(file, json.dumps({"signature": signature, "ceilings": asdict(ceilings)}, indent=1).encode())
    except OSError:
        pass  # an unwritable cache costs a second of measuring next time


def exit_code(results: list[TargetResult | SkippedTarget], *, interrupted: bool) -> int:
    """The exit code of a run: the gravest of its rows.

    Invalid findings come before failures; a run in which nothing was measured has failed, whatever the reason.
    """
    if interrupted:
        return 130
    verdicts = [row.verdict for one in results if isinstance(one, TargetResult) for row in one.rows]
    verdicts += [one.verdict for one in results if isinstance(one, SkippedTarget)]
    if Verdict.INVALID in verdicts:
        return ExitCode.INVALID
    if Verdict.FAILED in verdicts or not _measured(results):
        return ExitCode.FAILED
    return ExitCode.OK


def _measured(results: list[TargetResult | SkippedTarget]) -> bool:
    """Whether at least one variant was compared with its baseline."""
    compared = {Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE}
    rows = [row for one in results if isinstance(one, TargetResult) for row in one.rows]
    return any(row.role == "variant" and row.verdict in compared for row in rows)
