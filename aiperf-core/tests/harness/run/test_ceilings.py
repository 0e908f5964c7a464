"""Ceilings are measured once, kept by state, and put together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from aiperf_core.ceiling_groups import GROUPS
from aiperf_core.devices.device import CPU, Found
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.measurements import Ceilings

BASIC = Ceilings("A CPU", "today", 100.0, 80.0, 50.0, {"fp32": 10.0})
# What probers answer about links and the disk: figures of one process, and the two sides of a transfer between two.
NOTHING: dict[str, Any] = {"figures": {}, "how": {}, "missing": {}}
DISK: dict[str, Any] = {
    "figures": {"disk_read_bytes_per_s": 7.0},
    "how": {"disk_read_bytes_per_s": "direct"},
    "missing": {"disk_write_bytes_per_s": "no space"},
}
LOOPBACK: list[Any] = [[9.0, "gloo"], []]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    return tmp_path / "ceilings"


class Probers:
    """Stands for the fork server: its children answer what a test says, and it keeps what they were asked."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []

    def spawn(self, *_: object) -> "Probers":
        return self

    def ask(self, do: str, *, timeout: float, on_notice: Callable[[str], None] | None = None, **arguments: Any) -> Any:
        self.post(do, **arguments)
        if on_notice:
            on_notice("memory, copy")
        return self.collect(timeout=timeout)

    def post(self, do: str, **arguments: Any) -> None:
        self.asked.append({"do": do, **arguments})

    def collect(self, *, timeout: float) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return attrs.asdict(answer) if isinstance(answer, Ceilings) else answer

    def kill(self) -> None:
        """Nothing to end."""


@pytest.fixture
def probers() -> Probers:
    return Probers()


@pytest.fixture
def new_planner(probers: Probers, tmp_path: Path) -> Callable[..., Planner]:
    """Make a planner without processes: the machine has so many GPUs."""

    def make(gpus: int = 0) -> Planner:
        planner = Planner.__new__(Planner)
        planner.options, planner.log_folder = Options(), tmp_path
        planner._server, planner._ceilings, planner._tried = probers, {}, set()  # type: ignore[assignment]
        planner._kinds = {}
        planner._probed = {"cuda": Found(name="NVIDIA H200", count=gpus, arch=90) if gpus else "the tests hide it"}
        return planner

    return make


def test_a_run_measures_the_basic_part_once(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    probers.answers = [BASIC]
    first = new_planner()
    found = first.ceilings("cpu")
    assert found == attrs.evolve(BASIC, state=first._state("cpu"))
    assert first.ceilings("cpu") == new_planner().ceilings("cpu") == found
    assert probers.asked == [{"do": "ceilings", "device": attrs.asdict(CPU), "whole": False}]
    assert first.measured_ceilings == {"cpu": found}


def test_measuring_again_keeps_the_better_figures(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    probers.answers = [BASIC, attrs.evolve(BASIC, copy_bytes_per_s=120.0, read_bytes_per_s=70.0)]
    planner = new_planner()
    planner.ceilings("cpu")
    again = planner.ceilings("cpu", again=True)
    assert again is not None
    assert (again.copy_bytes_per_s, again.read_bytes_per_s) == (120.0, 80.0)
    assert new_planner().ceilings("cpu") == again


def test_where_measuring_fails_a_run_does_without(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    probers.answers = [ChildError("hung", "gave no answer"), BASIC, ChildError("hung", "gave no answer")]
    planner = new_planner()
    assert planner.ceilings("cpu") is None
    assert planner.measured_ceilings == {}
    assert planner.ceilings("cpu", again=True) is not None
    assert planner.ceilings("cpu", again=True) is not None, "what was measured before stays"


def test_the_whole_page_serves_runs_too(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    told: list[str] = []
    probers.answers = [attrs.evolve(BASIC, whole=True, launch_s=3e-6), DISK, *LOOPBACK]
    found, before = new_planner().all_ceilings("cpu", tell=told.append)
    assert (found.launch_s, before) == (3e-6, False)
    assert told == ["memory, copy", "memory, copy", "process to process"]
    assert (found.disk_read_bytes_per_s, found.loopback_bytes_per_s) == (7.0, 9.0)
    assert found.missing == {"disk_write_bytes_per_s": "no space"}
    assert new_planner().all_ceilings(None) == (found, True)
    assert new_planner().ceilings("cpu") == found
    assert new_planner().ceilings("cpu", groups=["wire", "disk"]) == found
    cpu = attrs.asdict(CPU)
    assert probers.asked[:2] == [
        {"do": "ceilings", "device": cpu, "whole": True},
        {"do": "ceilings_of", "device": cpu, "groups": [*GROUPS]},
    ]
    assert [(one["do"], one["rank"]) for one in probers.asked[2:]] == [("loopback", 0), ("loopback", 1)]


def test_a_run_measures_links_and_disk_only_where_they_are_needed(
    probers: Probers, new_planner: Callable[..., Planner]
) -> None:
    probers.answers = [BASIC, DISK, NOTHING, *LOOPBACK]
    planner = new_planner()
    planner.ceilings("cpu")
    found = planner.ceilings("cpu", groups=["disk"])
    assert found is not None
    assert (found.disk_read_bytes_per_s, found.loopback_bytes_per_s) == (7.0, None)
    assert found.how["disk_read_bytes_per_s"] == "direct"
    assert planner.ceilings("cpu", groups=["disk"]) == found
    found = planner.ceilings("cpu", groups=["wire", "disk"])
    assert found is not None
    assert (found.disk_read_bytes_per_s, found.loopback_bytes_per_s) == (7.0, 9.0)
    assert planner.measured_ceilings == {"cpu": found}
    assert [one.get("groups") for one in probers.asked] == [None, ["disk"], ["wire"], None, None]
    assert new_planner().ceilings("cpu", groups=["wire", "disk"]) == found, "it is kept"


def test_links_and_disk_are_measured_again_with_the_others(
    probers: Probers, new_planner: Callable[..., Planner]
) -> None:
    slower, quicker = ({**DISK, "figures": {"disk_read_bytes_per_s": rate}} for rate in (6.0, 8.0))
    probers.answers = [BASIC, DISK, BASIC, slower, BASIC, quicker]
    planner = new_planner()
    rates = [planner.ceilings("cpu", again, groups=["disk"]) for again in (False, True, True)]
    assert [one and one.disk_read_bytes_per_s for one in rates] == [7.0, 7.0, 8.0]


def test_what_cannot_be_measured_is_tried_once_in_a_run(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    no_disk = {**NOTHING, "missing": dict.fromkeys(DISK["missing"], "no space")}
    probers.answers = [BASIC, no_disk, NOTHING, ChildError("hung", "gave no answer"), no_disk]
    planner = new_planner()
    for _ in range(2):
        found = planner.ceilings("cpu", groups=["disk"])
        assert found is not None
        assert found.missing == {"disk_write_bytes_per_s": "no space"}
    found = planner.ceilings("cpu", groups=["wire"])
    assert found is not None
    assert found.missing == {"disk_write_bytes_per_s": "no space", "loopback_bytes_per_s": "gave no answer"}
    assert planner.ceilings("cpu", groups=["wire"]) == found
    assert probers.asked[-1]["do"] == "loopback"
    new_planner().ceilings("cpu", groups=["disk"])
    assert probers.asked[-1]["groups"] == ["disk"], "the next run tries again"


def test_the_basic_part_is_no_page(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    probers.answers = [BASIC, attrs.evolve(BASIC, whole=True, copy_bytes_per_s=90.0), DISK, *LOOPBACK]
    new_planner().ceilings("cpu")
    found, before = new_planner().all_ceilings("cpu")
    assert (found.whole, found.copy_bytes_per_s, before) == (True, 100.0, False)


def test_a_refreshed_page_forgets(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    links = DISK, *LOOPBACK
    slower = attrs.evolve(BASIC, whole=True, copy_bytes_per_s=60.0)
    probers.answers = [attrs.evolve(BASIC, whole=True), *links, slower, *links]
    new_planner().all_ceilings("cpu")
    found, before = new_planner().all_ceilings("cpu", refresh=True)
    assert (found.copy_bytes_per_s, before) == (60.0, False)


def test_a_page_that_cannot_be_measured(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    probers.answers = [ChildError("raised", "raised RuntimeError: no memory")]
    with pytest.raises(AiperfError) as caught:
        new_planner().all_ceilings("cpu")
    assert str(caught.value) == "The ceilings of 'cpu' could not be measured: raised RuntimeError: no memory"


def test_a_page_of_a_device_that_is_not_there(new_planner: Callable[..., Planner]) -> None:
    with pytest.raises(UsageError) as caught:
        new_planner().all_ceilings("cuda")
    assert str(caught.value) == (
        "The device 'cuda' was requested, but this machine has none: the tests hide it. "
        "Leave out --device to run on the CPU; see what is missing with: aiperf doctor"
    )


def test_several_gpus_reduce_together(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    rank = {"2": [3e11, "NCCL, NVLS off"]}
    probers.answers = [attrs.evolve(BASIC, whole=True), NOTHING, rank, rank]
    found, _ = new_planner(gpus=2).all_ceilings(None)
    assert found.all_reduce_bytes_per_s == {"2": 3e11}
    assert found.how["all_reduce_bytes_per_s.2"] == "NCCL, NVLS off"
    assert [(one.get("rank"), one.get("world")) for one in probers.asked] == [
        (None, None),
        (None, None),
        (0, 2),
        (1, 2),
    ]
    assert len({one["store"] for one in probers.asked[2:]}) == 1
    assert probers.asked[1]["groups"] == [one for one in GROUPS if one != "disk"]


def test_ranks_that_fail_cost_only_their_figure(probers: Probers, new_planner: Callable[..., Planner]) -> None:
    probers.answers = [attrs.evolve(BASIC, whole=True), NOTHING, ChildError("hung", "gave no answer")]
    found, _ = new_planner(gpus=2).all_ceilings(None)
    assert found.missing == {"all_reduce_bytes_per_s": "gave no answer"}
