"""Devices of plugins: a simulated accelerator in `toy/`, installed as a stranger's package would be."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict
from click.testing import CliRunner

from aiperf_core.candidate_format import AIPERF
from aiperf_core.cli import doctor
from aiperf_core.cli.main import Shell
from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.devices.device import BUILT_IN, CPU, Device, DeviceKind, Found, known_device
from aiperf_core.devices.discovery import of_plugins
from aiperf_core.errors import AiperfError, SkipError, UsageError
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.run.options import Known, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.targets import Selection

pytestmark = pytest.mark.quiet

TOY = Path(__file__).parent / "toy"
METADATA = "Metadata-Version: 2.1\nName: aiperf-toy\nVersion: 0.1\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the toy's package is installed."""
    folder = tmp_path_factory.mktemp("toy")
    info = folder / "aiperf_toy-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text("[aiperf_core]\ntoy = toy_plugin\n")
    return folder


def aiperf(site: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, with the toy's package beside the others."""
    path = os.pathsep.join([str(site), str(TOY), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path, "AIPERF_CACHE_DIR": str(site / "cache")}
    line = [sys.executable, "-P", "-m", "aiperf_core", *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=env, cwd=site, timeout=120)


@pytest.fixture(scope="module")
def document(site: Path) -> dict[str, Any]:
    """What one run of both targets says, a device being asked for by neither."""
    done = aiperf(site, "run", "toy.*", "--budget", "0.8", "--json", "--quiet")
    assert done.returncode in (0, 3), done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document["targets"][0]["rows"]}


def test_a_plugins_device_is_measured_by_its_own_clock(document: dict[str, Any], rows: dict[str, Any]) -> None:
    (result,) = document["targets"]
    assert (result["device"], result["clock"], result["problem"]["size"]) == ("toy", "device", "toy")
    assert result["clock_source"] == "ticks of the toy's queue"
    assert rows["parts"]["verdict"] == "MEASURED", rows["parts"]["reason"]
    # How sure it is depends on who else is on the machine.
    assert rows["whole"]["verdict"] in ("FASTER", "INCONCLUSIVE"), rows["whole"]["reason"]
    assert rows["whole"]["speedup"]["value"] > 2
    assert rows["whole"]["judgement"]["samples"] > 0
    assert rows["parts"]["time_s"]["value"] >= 8 * 0.001
    samples = rows["parts"]["samples"]
    assert {one is None for one in samples["device_s"]} == {True, False}, "each block has a sample by the wall too"
    assert rows["parts"]["memory"]["allocated_bytes"] == 4 * 8192
    assert rows["parts"]["memory"]["reserved_bytes"] is None


def test_work_that_nobody_waits_for_is_timed_in_full(rows: dict[str, Any]) -> None:
    row = rows["unwaited"]
    assert row["verdict"] in ("SLOWER", "INCONCLUSIVE"), row["reason"]
    assert row["time_s"]["value"] >= 0.03
    assert row["wall_s"]["value"] >= 0.03


def test_what_was_computed_before_is_wrong_there_too(rows: dict[str, Any]) -> None:
    assert rows["stale"]["verdict"] == "INVALID"
    assert [one["issue"] for one in rows["stale"]["findings"]] == ["output.wrong_values"]


def test_inputs_that_a_call_changes_are_seen_there_too(rows: dict[str, Any]) -> None:
    assert rows["spoiling"]["verdict"] == "INVALID"
    assert [one["issue"] for one in rows["spoiling"]["findings"]] == ["memory.input_mutation"]


def test_rows_say_what_the_device_cannot_show(rows: dict[str, Any]) -> None:
    for name in ("parts", "whole"):
        assert rows[name]["speed_of_light"] is None
        weaker = rows[name]["not_observed"]
        assert weaker["faster_than_light"] == "nothing is known of what 'toy' reaches"
        assert "could keep old ones" in weaker["fresh_values"]
        assert "reports its inputs" in weaker["inputs_intact"]


def test_requirements_are_held_against_its_capabilities(rows: dict[str, Any]) -> None:
    assert rows["wide"]["verdict"] == "SKIPPED"
    assert rows["wide"]["reason"] == "needs the capability 'fp64' (this device's are: queues)"


def test_a_device_that_is_not_here_is_skipped_with_its_reason(document: dict[str, Any]) -> None:
    assert document["skipped"] == [
        {
            "target": "toy.lost",
            "verdict": "SKIPPED",
            "reason": "has no implementation for cpu; it runs on gone (gone: its cable is out)",
        }
    ]


def test_a_call_on_it_is_profiled_until_its_queue_is_empty(site: Path) -> None:
    done = aiperf(site, "profile", "toy.copy:unwaited", "--device", "toy", "--out", str(site / "profiles"), "--json")
    assert done.returncode == 0, done.stderr
    parts, unwaited = json.loads(done.stdout)["profiles"]
    assert (parts["implementation"], unwaited["implementation"]) == ("parts", "unwaited")
    assert parts["device"] == unwaited["device"] == "toy"
    assert min(parts["taken_s"]) >= 8 * 0.001
    assert min(unwaited["taken_s"]) >= 0.03


# --- without processes


@pytest.fixture
def plugins(site: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    monkeypatch.syspath_prepend(str(TOY))
    return load_plugins([str(site)])


@pytest.fixture
def planner(plugins: Plugins, tmp_path: Path) -> Planner:
    """A planner that has already looked for devices."""
    planner = Planner.__new__(Planner)
    planner.options, planner.log_folder = Options(known=Known(devices=plugins.known_devices)), tmp_path
    planner._kinds, planner._ceilings = {}, {}
    planner._probed = {
        "cuda": "the tests hide it",
        "toy": Found(name="Toy accelerator 1", count=2),
        "gone": "its cable is out",
    }
    return planner


def described(device: str, **params: float) -> Described:
    one = DescribedImplementation("copied", "baseline", device, "file:1")
    return Described("speed", "device", "cold", None, {"smoke": params}, "bit-exact", "m", "0", [one])


def planned(planner: Planner, plugins: Plugins, device: str, **params: float) -> Any:
    return planner._plan(Selection(plugins.select(["toy.copy"])[0].target), described(device, **params))


def test_the_devices_that_are_here(planner: Planner) -> None:
    assert planner.devices == ("cpu", "toy")


def test_one_that_is_asked_for_and_not_here_is_a_users_mistake(planner: Planner) -> None:
    with pytest.raises(UsageError) as caught:
        planner.require("gone")
    assert str(caught.value) == (
        "The device 'gone' was requested, but this machine has none: its cable is out. Leave out --device to run on the CPU; "
        "see what is missing with: aiperf doctor"
    )


def test_a_device_that_no_plugin_provides_is_named(planner: Planner, plugins: Plugins) -> None:
    skipped = planned(planner, plugins, "tpu", n=8)
    assert skipped.reason == (
        "has no implementation for cpu; it runs on tpu (tpu: no plugin provides it; known are cpu, cuda, gone, toy)"
    )


def test_ranks_need_a_device_that_can_work_together(planner: Planner, plugins: Plugins) -> None:
    skipped = planned(planner, plugins, "toy", world_size=2)
    assert skipped.reason == "is a workload of 2 ranks; the device 'toy' does not support ranks"


def test_a_device_without_ceilings_has_no_page_and_costs_no_process(planner: Planner) -> None:
    assert planner.ceilings("toy") is None
    with pytest.raises(AiperfError) as caught:
        planner.all_ceilings("toy")
    assert str(caught.value) == "The device 'toy' has no ceilings: its plugin does not say how to measure any."


def test_untrusted_code_is_not_judged_where_nothing_confines_it(planner: Planner, plugins: Plugins) -> None:
    source = CandidateSource(Path("c.py"), "", "0", AIPERF)
    planner.options = Options(known=Known(devices=plugins.known_devices), candidate=source)
    with pytest.raises(UsageError) as caught:
        planned(planner, plugins, "toy", n=8)
    assert str(caught.value) == (
        "Untrusted code cannot run on 'toy', which has no sandbox. Use a device with a sandbox: --device cpu or --device cuda"
    )


def test_an_unknown_device_says_which_are_known(plugins: Plugins) -> None:
    result = CliRunner().invoke(Shell(plugins), ["run", "toy.copy", "--device", "tpu"])
    assert (result.exit_code, result.stderr) == (
        2,
        "aiperf: 'tpu' is not a device; known are cpu, cuda, gone, toy. See what provides them: aiperf plugins\n",
    )


def test_doctor_and_plugins_and_list_tell_of_it(plugins: Plugins, monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(TOY), *filter(None, sys.path)]))
    monkeypatch.setattr(doctor, "_ask_torch", lambda: {"version": "2.13.0", "built_for": None, "sees": 0})

    def invoke(*arguments: str) -> str:
        return CliRunner().invoke(Shell(plugins), arguments).stdout

    said = invoke("doctor")
    assert "Toy accelerator 1, 2 of them, queues\n" in said
    assert "Benchmarks on toy: can run\nBenchmarks on gone: cannot run\n" in said
    assert re.search(r"^gone +its cable is out +benchmarks on gone ", said, re.MULTILINE)
    assert "toy     A queue and a thread that works it off  aiperf-toy\n" in invoke("plugins")
    assert {**asdict(TOY_DEVICE), "distribution": "aiperf-toy", "version": "0.1"} in json.loads(
        invoke("plugins", "--json")
    )["devices"]
    runnable = invoke("list", "--runnable")
    assert "toy.copy" in runnable
    assert "toy.lost" not in runnable


TOY_DEVICE = Device("toy", "A queue and a thread that works it off", "toy_device:Toy")


def test_a_device_whose_class_fails_is_absent_with_the_reason() -> None:
    broken = Device("broken", "b", "no_such_module:D")
    assert of_plugins({**BUILT_IN, "broken": broken}) == {
        "broken": "its class no_such_module:D cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"
    }


# --- records


def test_known_devices_are_the_cores_and_those_of_plugins() -> None:
    assert list(load_plugins([]).known_devices.values()) == list(BUILT_IN.values())
    assert known_device("cpu", BUILT_IN) is CPU


@pytest.mark.parametrize("name", ["Toy", "a b", "smoke", "state", "", 3])
def test_a_device_has_a_name_that_a_preset_can_bear(name: Any) -> None:
    with pytest.raises(ValueError, match="cannot name a device: a Python identifier in lower case can, such as 'xpu'"):
        Device(name, "b", "c:D")


def test_a_device_says_where_its_class_is() -> None:
    with pytest.raises(ValueError, match="device 'a' needs a summary of one line; found ' '"):
        Device("a", " ", "c:D")
    with pytest.raises(ValueError, match="device 'a' needs load='module:Class'; found 'c'"):
        Device("a", "b", "c")


def test_a_class_that_cannot_be_used_says_why() -> None:
    with pytest.raises(SkipError, match=r"is not derived from aiperf_core.devices.device.DeviceKind"):
        Device("a", "b", "decimal:Decimal").resolve()
    assert isinstance(Device(**asdict(CPU)).resolve(), DeviceKind)


def test_the_supervisor_loads_the_cores_devices_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is imported')")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    code = (
        "from aiperf_core.devices.device import BUILT_IN as b\nfor one in b.values(): one.resolve().telemetry().close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
