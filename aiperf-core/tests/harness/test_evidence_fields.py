"""Every field that a check may look at is set by real runs: no check rests on evidence that only tests make up.

The runs are on the CPU: of a plain target, of untrusted code, and of two ranks.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import aiperf_core
from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.run import target_run
from aiperf_core.harness.run.observing import STARVED_REASON
from aiperf_core.measurements import Census, Rank
from aiperf_core.results.models import TargetResult
from aiperf_core.validity.evidence import Evidence, SelfCheck

SOURCE = Path(aiperf_core.__file__).parent
RECORDS = (Evidence, SelfCheck, Rank, Census)
# Fields that only a GPU feeds: the code that does, by file.
GPU_ONLY = {
    "Evidence.audit": ("harness/run/rounds.py", "audit = answers.audit(answer)"),
    "Census.gpus": ("harness/run/conditions.py", "evolve(seen, gpus=monitor.gpus(nvml))"),
    "Rank.gpus": ("harness/run/rounds.py", "ProcessMonitor(pid).gpus(nvml)"),
}
# Fields that may have one value in all of these runs: the code that reads or decides it, by file.
ONE_VALUE_HERE = {
    "Evidence.device": ("harness/run/target_run.py", "device=setup.device.name"),
    "Evidence.clock": ("harness/run/setup.py", 'return self.plan.described.clock if self.kind.clock else "wall"'),
    # They differ only where the fork server loads a library between two runs.
    "Evidence.libraries": (
        "harness/isolation/mapped_code.py",
        "found.libraries.setdefault(library[1], {})[fingerprint] = path",
    ),
    "Evidence.server_libraries": (
        "harness/run/target_run.py",
        "server_libraries=server.libraries if server else None",
    ),
    "Rank.device": ("devices/device.py", "def place(self, rank: int) -> str:"),
    "Rank.processors": ("harness/run/rounds.py", "os.sched_getaffinity(pid)"),
    "Census.children": ("harness/isolation/process_monitor.py", "children=working"),
    "Census.busy_s": ("harness/isolation/process_monitor.py", "busy_s=self._busy_s("),
    "Census.affinity": ("harness/isolation/process_monitor.py", "os.sched_getaffinity(pid)"),
    "Census.major_faults": ("harness/isolation/process_monitor.py", "stat[_MAJOR_FAULTS]"),
    "Census.nice": ("harness/isolation/process_monitor.py", "os.getpriority("),
    "Census.scheduler": ("harness/isolation/process_monitor.py", "os.sched_getscheduler("),
    "Census.swapped_bytes": ("harness/isolation/process_monitor.py", "VmSwap"),
}
JUDGED_AT_MOST = 6
CANDIDATE = """
class Implementation:
    def run(self, x):
        return x.sum(-1)
"""


@pytest.fixture(scope="module")
def seen(
    shared_measure: Callable[..., TargetResult], once: Callable[[str, Callable[[Path], object]], Path]
) -> list[Evidence]:
    """The evidence of each implementation of the runs, as the checks were shown it."""
    folder = once(
        "evidence", lambda folder: (folder / "seen").write_bytes(pickle.dumps(measured(shared_measure, folder)))
    )
    found: list[Evidence] = pickle.loads((folder / "seen").read_bytes())
    return found


def measured(shared_measure: Callable[..., TargetResult], folder: Path) -> list[Evidence]:
    """Make the runs; the evidence of each implementation."""
    file = folder / "candidate.py"
    file.write_text(CANDIDATE)
    found: list[Evidence] = []
    assess = target_run.assess

    def noted(evidence: Evidence, *rest: Any) -> Any:
        found.append(evidence)
        return assess(evidence, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_run, "assess", noted)
        results = [
            judged(shared_measure, file),
            shared_measure("features"),
            shared_measure("extension"),
            shared_measure("several_ranks", "gathered"),
        ]
    assert all(isinstance(one, TargetResult) for one in results), results
    return found


def judged(shared_measure: Callable[..., TargetResult], file: Path) -> TargetResult:
    """The run of a candidate, made again where a busy machine kept its observer from looking."""
    for _ in range(JUDGED_AT_MOST):
        result = shared_measure(
            "aiperf_core.practice.sum_rows",
            size="smoke",
            candidate=check_candidate(file, AIPERF),
            # On a busy machine it would refuse the candidate.
            off=frozenset({"clocks_agree"}),
        )
        if result.rows[1].reason != STARVED_REASON:
            break
    return result


def records(value: Any) -> list[Any]:
    """The records within evidence."""
    if attrs.has(type(value)):
        inner = [one for name in attrs.fields_dict(type(value)) for one in records(getattr(value, name))]
        return [value, *inner]
    if isinstance(value, list | tuple):
        return [found for one in value for found in records(one)]
    return []


def defaults(field: "attrs.Attribute[Any]") -> list[Any]:
    """What a field holds where nobody has set it."""
    if field.default is attrs.NOTHING:
        return [None, "", 0, []]
    if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        return [field.default.factory()]  # type: ignore[union-attr]
    return [field.default]


FIELDS = [f"{record.__name__}.{field.name}" for record in RECORDS for field in attrs.fields(record)]


@pytest.mark.parametrize("name", [one for one in FIELDS if one not in GPU_ONLY])
def test_a_run_sets_each_field(seen: list[Evidence], name: str) -> None:
    owner, _, attribute = name.partition(".")
    held = [one for evidence in seen for one in records(evidence) if type(one).__name__ == owner]
    field = next(attrs.fields_dict(type(one))[attribute] for one in held)
    values = [getattr(one, attribute) for one in held]
    assert any(all(value != default for default in defaults(field)) for value in values), (
        f"no run of these sets {name!r} to anything but {values[0]!r}"
    )
    if name not in ONE_VALUE_HERE:
        assert any(value != values[0] for value in values), (
            f"{name!r} is {values[0]!r} in all runs, as a literal would be"
        )


@pytest.mark.parametrize("name", sorted(GPU_ONLY | ONE_VALUE_HERE))
def test_what_these_runs_cannot_vary_has_code_that_reads_it(name: str) -> None:
    file, code = (GPU_ONLY | ONE_VALUE_HERE)[name]
    assert name in FIELDS
    assert code in (SOURCE / file).read_text()
