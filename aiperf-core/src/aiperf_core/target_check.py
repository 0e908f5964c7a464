"""The conformance of a target on a device: what an item of `pytest --aiperf` tests.

| step | there is a problem where |
| --- | --- |
| lint | `aiperf lint` has a problem with the target |
| result | at the sizes of `smoke` an implementation is not right, or the result changes when it is written and read |
| awkward sizes | the workload refuses such a size, or an implementation is not right at it |

Awkward sizes come from the author (`bench.awkward`). A target without any is tested at primes just above the sizes of
`smoke`, as far as its workload accepts them. Lint and awkward sizes of a package's targets share a process. A crash
ends that process and costs one implementation at one size.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from math import isqrt
from pathlib import Path
from typing import Any

from attrs import define, field

from aiperf_core.described import DescribedImplementation
from aiperf_core.errors import BundleError, UsageError
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.setup import Plan
from aiperf_core.requirements import lacking
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import WORLD_SIZE, Selection
from aiperf_core.testing import Measuring, problems, short_run

Sizes = Mapping[str, float]

TIMEOUT_S = 300.0
# Notes that never fail conformance: `aiperf goals` ends with an error for a missing goal, and a docstring in the former
# form may stay until its target changes.
_NEVER_FAIL = ("form.goals", "form.former_docstring")


@define(eq=False)
class TargetCheck:
    """A check of one target on one device.

    selection: the target, and the implementations that were asked for; all of them where none is named.
    strict: whether a note of `aiperf lint` that the benchmark does not accept is a problem too.
    problems: what is wrong, a paragraph each.
    skipped: what this machine cannot test, with the reason.
    tested: whether any implementation was tested.
    """

    measuring: Measuring
    selection: Selection
    device: str
    strict: bool = False
    problems: list[str] = field(factory=list, init=False)
    skipped: list[str] = field(factory=list, init=False)
    tested: bool = field(default=False, init=False)

    @property
    def _target(self) -> dict[str, str]:
        return {"name": self.selection.target.name, "module": self.selection.target.module}

    def run(self) -> None:
        """Take every step, also where an earlier one found a problem."""
        try:
            plans, skipped = self.measuring.plan(self.selection, short_run(self.device))
        except UsageError as error:
            self.problems.append(str(error))
            return
        for one in skipped:
            self._skip(one)
        for plan in plans:
            self._lint(plan)
            self._measure(plan, {}, keep=True)
            for sizes in self._awkward_sizes(plan):
                if self._opens(plan, sizes):
                    self._try(plan, sizes)

    # --- the steps

    def _lint(self, plan: Plan) -> None:
        target = self.selection.target
        listed = {"goal": target.goal, "devices": list(target.devices)}
        try:
            outcomes = self._ask("lint", params=plan.params, listed=listed)
        except ChildError as error:
            self.problems.append(f"{target.name!r} could not be linted on {self.device}: {error}")
            return
        refused = ("problem", "note") if self.strict else ("problem",)
        wrong = [one for one in outcomes if one["verdict"] in refused and one["test"] not in _NEVER_FAIL]
        self.problems += [f"{one['test']}: {one['found']}\n    {one['remedy']}" for one in wrong]

    def _measure(self, plan: Plan, sizes: Sizes, keep: bool = False) -> None:
        """Measure all implementations side by side; with `keep`, write the result and read it again."""
        try:
            if sizes:
                result = self.measuring.attempt(self.selection, short_run(self.device, sizes))
            else:
                result = self.measuring.run(plan)
        except UsageError as error:
            self.problems.append(str(error))
            return
        if isinstance(result, SkippedTarget):
            self._skip(result)
            return
        declared = {one.name: one for one in plan.described.on(self.device)}
        for wrong in problems(result):
            name, _, reason = wrong.partition(": ")
            self._wrong(declared[name], result.problem.params, reason)
        for row in result.rows:
            self.tested |= row.verdict != "SKIPPED"
            if row.verdict == "SKIPPED":
                self._note(row.name, str(row.reason))
        if keep:
            self._round_trip(result)

    def _round_trip(self, result: TargetResult) -> None:
        where = f"{result.target} on {self.device}"
        with tempfile.TemporaryDirectory(prefix="aiperf-result-") as folder:
            try:
                bundle = Bundle.create_at(Path(folder) / "bundle")
                bundle.write_target(result)
                read = bundle.target(result.target)
            except BundleError as error:
                self.problems.append(f"{where}: the result cannot be kept: {error}")
                return
        if read != result:
            self.problems.append(f"{where}: the result changes when it is written and read")

    def _opens(self, plan: Plan, sizes: Sizes) -> bool:
        """Whether the workload and the reference take a size; a refusal is a problem, told once."""
        params = {**plan.params, **self._with_ranks_for(sizes)}
        try:
            self._ask("open", params=params, seed=0, static_seed=0)
        except ChildError as error:
            where = f"{self._target['name']} on {self.device} at {_said(params)}"
            self.problems.append(f"{where}: the workload refuses this awkward size: {error}\n    {plan.described.file}")
            return False
        return True

    def _try(self, plan: Plan, sizes: Sizes) -> None:
        """Run each implementation beside the reference. Ranks are measured: they need each other."""
        if WORLD_SIZE in plan.params:
            self._measure(plan, self._with_ranks_for(sizes))
            return
        params = {**plan.params, **sizes}
        hardware = self.measuring.planner.hardware_of(self.device)
        for one in plan.described.on(self.device):
            if one.name not in (self.selection.implementations or {one.name}):
                continue
            if any(lacking(text, hardware) for text in one.requires):
                continue  # the measurement has said so
            try:
                wrong = self._ask("try", params=params, implementation=one.name)
                self.tested = True
            except ChildError as error:
                if error.kind == "skip":
                    self._note(one.name, str(error))
                    continue
                wrong = str(error)
            if wrong:
                self._wrong(one, params, wrong)

    def _awkward_sizes(self, plan: Plan) -> Iterator[Sizes]:
        if plan.described.floor:
            yield plan.described.floor
        if plan.described.awkward is not None:
            yield from plan.described.awkward
            return
        primes: dict[str, float] = {}
        for name, size in plan.params.items():
            if not isinstance(size, int) or name == WORLD_SIZE:
                continue
            tried = {**primes, name: prime_after(size)}
            # Not every number makes sense: of bits, or of heads that divide a width.
            with contextlib.suppress(ChildError):
                self._ask("open", params={**plan.params, **tried}, seed=0, static_seed=0)
                primes = tried
        if primes:
            yield primes

    def _with_ranks_for(self, sizes: Sizes) -> Sizes:
        """No more ranks than there are devices, where each rank needs its own."""
        if self.measuring.planner.kind(self.device).on_host or WORLD_SIZE not in sizes:
            return sizes
        return {**sizes, WORLD_SIZE: min(sizes[WORLD_SIZE], self.measuring.planner.count(self.device))}

    # --- what they share

    def _ask(self, do: str, **arguments: Any) -> Any:
        """Ask the linter's process. Raises `ChildError`."""
        linter, device = self.measuring.linter(self.selection.target, self.device), self.measuring.device(self.device)
        answer = linter.ask(do, timeout=TIMEOUT_S, target=self._target, device=device, **arguments)
        if isinstance(answer, dict):
            for memory in answer.pop("fds", ()):
                os.close(memory)
        return answer

    def _skip(self, target: SkippedTarget) -> None:
        failed = target.verdict is Verdict.FAILED
        (self.problems if failed else self.skipped).append(target.reason)

    def _note(self, name: str, reason: str) -> None:
        said = f"{name}: {reason}"
        if said not in self.skipped:
            self.skipped.append(said)

    def _wrong(self, implementation: DescribedImplementation, params: Sizes, reason: str) -> None:
        where = f"{self._target['name']}:{implementation.name} on {self.device} at {_said(params)}"
        self.problems.append(f"{where}: {reason}\n    {implementation.where}")


def _said(params: Sizes) -> str:
    """Sizes in a message: `n=4099, bits=4`."""
    return ", ".join(f"{name}={size:g}" for name, size in params.items())


def prime_after(size: int) -> int:
    """The first prime above a number: 4099 gives 4111."""
    candidate = max(size, 1) + 1
    while any(candidate % divisor == 0 for divisor in range(2, isqrt(candidate) + 1)):
        candidate += 1
    return candidate
