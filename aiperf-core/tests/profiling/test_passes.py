import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.devices.device import BUILT_IN
from aiperf_core.errors import AiperfError, SkipError, UsageError
from aiperf_core.harness.run.setup import Plan
from aiperf_core.plugins import load_plugins
from aiperf_core.profiler import Job, Observed, Pace, Profiler
from aiperf_core.profiling import passes, store
from aiperf_core.profiling.models import NotProfiled, Profile
from aiperf_core.profiling.passes import Chosen, choose, chooser, profile_target
from aiperf_core.profiling.perf import Perf
from aiperf_core.requirements import Hardware
from aiperf_core.targets import InstalledTarget, Selection

TOLD = {"calls": 4, "in_a_row": 2, "call_s": [0.1, 0.3, 0.2], "cost": {"bytes_read": 30.0, "bytes_written": 10.0}}


class Fake:
    """A tool whose profiled process is a line of Python: it tells what the test wants told."""

    pace = Pace(1, 1.0)
    told: Any = TOLD
    script = ""
    reason: str | None = None
    said: str | None = None

    def __init__(self, job: Job) -> None:
        self.job = job

    def unavailable(self) -> str | None:
        return self.reason

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        assert list(argv[1:4]) == ["-P", "-m", "aiperf_core.profiling.subject"]
        assert json.loads(Path(argv[4]).read_text())["job"]["implementation"] == self.job.implementation
        tell = f"open({str(folder / 'subject.json')!r}, 'w').write({json.dumps(self.told)!r})" if self.told else ""
        (folder / "report.bin").write_bytes(b"report")
        return [[sys.executable, "-S", "-c", f"{self.script}\n{tell}"]]

    def remedy(self, log: str) -> str | None:
        return self.said if self.said and self.said in log else None

    def summarise(self, folder: Path, calls: int) -> Observed:
        assert calls == 4
        return Observed(version="1", figures={"launches": 7.0}, files=["report.bin"])


def plan(*asked: str, **params: float) -> Plan:
    target = InstalledTarget("a.b", "m")
    implementations = [
        DescribedImplementation("eager", "baseline", "cpu", "x.py:1", kind="naive"),
        DescribedImplementation("fused", "variant", "cpu", "x.py:2", why="one pass"),
        DescribedImplementation("newest", "variant", "cpu", "x.py:3", why="wgmma", requires=["sm_90a"]),
        DescribedImplementation("library", "yardstick", "cpu", "x.py:4"),
    ]
    described = Described("speed", "wall", "cold", None, {"smoke": {}}, "exact", "m", "0", implementations)
    return Plan(Selection(target, frozenset(asked)), described, "cpu", "smoke", params)


def profiled(monkeypatch: pytest.MonkeyPatch, root: Path, wanted: Plan, tool: type[Fake], **more: Any) -> Any:
    monkeypatch.setattr(Profiler, "resolve", lambda self: tool)
    return profile_target(wanted, Hardware(), Chosen(Profiler("fake", "a fake", "m:Fake"), BUILT_IN), root, **more)


def test_the_baseline_and_every_variant_have_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names: list[str] = []
    eager, fused, newest = profiled(monkeypatch, tmp_path, plan(), Fake, tell=names.append)
    assert names == ["eager", "fused", "newest"]
    assert isinstance(fused, Profile)
    # The median of the windows, and the declared bytes by it.
    assert fused.observed.figures == {"call_s": 0.2, "launches": 7.0, "bytes_per_s": 200.0}
    assert (fused.why, fused.calls, fused.in_a_row, fused.taken_s) == ("one pass", 4, 2, [0.1, 0.3, 0.2])
    assert store.read(store.folder_of(tmp_path, "a.b", "eager")) == eager
    assert fused.observed.notes == [
        "Short calls were made in a row: all calls but the first of each row found warm caches."
    ]
    assert newest == NotProfiled(
        target="a.b", implementation="newest", reason="needs sm_90a (this machine has no CUDA GPU)", failed=False
    )


def test_one_that_is_named_comes_with_its_baseline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = profiled(monkeypatch, tmp_path, plan("library"), Fake)
    assert [one.implementation for one in found] == ["eager", "library"]


def test_short_calls_that_stand_alone_are_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    more = {"told": {**TOLD, "in_a_row": 1}, "pace": Pace(1, 1.0, window_s=5.0)}
    one, *_ = profiled(monkeypatch, tmp_path, plan("eager"), type("Switching", (Fake,), more))
    assert one.observed.notes[0].startswith("These short calls change their inputs")


def test_ranks_are_not_profiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = profiled(monkeypatch, tmp_path, plan("fused", world_size=2), Fake)
    assert {one.reason for one in found} == {"is a workload of several ranks, of which no profile is made"}


def test_a_tool_that_is_not_here_is_said_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = type("Absent", (Fake,), {"reason": "it is not installed; install it"})
    with pytest.raises(SkipError) as raised:
        profiled(monkeypatch, tmp_path / "out", plan(), tool)
    assert str(raised.value) == "'fake' cannot profile 'a.b' here: it is not installed; install it."
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "reason", "failed"),
    [
        ({"told": {"error": "needs a day off", "failed": False}}, "needs a day off", False),
        ({"told": {"error": "raised ValueError: no", "failed": True}}, "raised ValueError: no", True),
        (
            {"script": "print('help'); raise SystemExit(3)"},
            "ended with status 3 and without a reply; it printed: help",
            True,
        ),
        ({"said": "ERR_RIGHTS", "script": "print('ERR_RIGHTS')"}, "ERR_RIGHTS", True),
        (
            {"script": "import time; time.sleep(60)"},
            "the profile was not done within 0.5 s; --timeout gives more",
            True,
        ),
    ],
)
def test_one_that_fails_costs_itself_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: dict[str, Any], reason: str, failed: bool
) -> None:
    eager, *_ = profiled(monkeypatch, tmp_path, plan("eager"), type("Failing", (Fake,), more), timeout_s=0.5)
    assert isinstance(eager, NotProfiled)
    assert reason in eager.reason
    assert eager.failed == failed
    assert not (tmp_path / "profiles").exists()


def test_one_that_hangs_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = time.monotonic()
    tool = type("Hanging", (Fake,), {"script": "import os, time; os.fork(); time.sleep(20)"})
    profiled(monkeypatch, tmp_path, plan("eager"), tool, timeout_s=0.3)
    assert time.monotonic() - begun < 15


def test_a_clock_that_means_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = type("Replaying", (Fake,), {"pace": evolve(Fake.pace, clocked=False)})
    one, *_ = profiled(monkeypatch, tmp_path, plan("eager"), tool)
    assert (one.observed.figures, one.taken_s) == ({"launches": 7.0}, [])


def test_tools_and_metric_sets_are_chosen_by_name() -> None:
    plugins = load_plugins()
    assert choose(plugins, "ncu", "memory").metrics == plugins.metrics["memory"].record
    with pytest.raises(UsageError, match="'neu' is not a profiler"):
        choose(plugins, "neu", None)
    with pytest.raises(UsageError, match=r"'memory' is not a metric set of torch\. It has: none"):
        choose(plugins, "torch", "memory")


def test_c_code_on_a_cpu_is_profiled_by_perf_where_it_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins, plain = load_plugins(), plan()
    described = plain.described
    of_c = evolve(plain, described=evolve(
        described, implementations=[evolve(one, requires=["compiler"]) for one in described.implementations]
    ))  # fmt: skip
    reason: str | None = None
    monkeypatch.setattr(Perf, "unavailable", lambda _: reason)

    def chosen(of: Plan, tool: str, metrics: str | None = None) -> tuple[str, str]:
        choice, sentence = chooser(plugins, tool, metrics)(of)
        return choice.profiler.name, sentence

    assert chosen(of_c, "auto") == ("perf", "")
    assert chosen(plain, "auto") == ("torch", "")
    assert chosen(of_c, "torch") == ("torch", "")
    reason = "perf is not installed"
    assert chosen(of_c, "auto") == (
        "torch",
        "'perf' cannot profile 'a.b' here: perf is not installed. torch is used: it sees C code as time outside of "
        "operators.",
    )
    with pytest.raises(UsageError, match="'neu' is not a profiler"):
        chooser(plugins, "neu", None)


def test_a_program_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AiperfError, match="'/none/such' did not start: No such file or directory"):
        passes._run(["/none/such"], tmp_path / "log.txt", 1.0)
