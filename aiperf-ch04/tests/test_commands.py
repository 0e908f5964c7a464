"""`aiperf ch04`: its commands."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aiperf_ch04 import comm_init, comm_sweep, nccl_env, straggler
from aiperf_ch04.cli import COLLECTIVES, ch04
from aiperf_ch04.comm_sweep import Point, bus_factor, fit
from aiperf_core.errors import UsageError


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch04, list(arguments), standalone_mode=False)


def points(alpha_s: float, bytes_per_s: float) -> list[Point]:
    sizes = [1 << exponent for exponent in range(10, 24, 2)]
    return [Point("broadcast", size, alpha_s + size / bytes_per_s, 0.0, 0.0) for size in sizes]


def test_the_fit_finds_the_two_costs() -> None:
    (found,) = fit(points(alpha_s=20e-6, bytes_per_s=5e9))
    assert found.alpha_s == pytest.approx(20e-6)
    assert found.bytes_per_s == pytest.approx(5e9)
    assert found.worst_relative_error == pytest.approx(0, abs=1e-9)


def test_the_fit_has_no_negative_costs() -> None:
    falling = [Point("broadcast", size, 1e-3 / size, 0.0, 0.0) for size in (1024, 4096)]
    (found,) = fit(falling)
    assert found.alpha_s > 0
    assert found.bytes_per_s is None


def test_bus_bandwidth_is_what_a_link_carries() -> None:
    assert bus_factor("all_reduce", 4) == 1.5
    assert bus_factor("all_gather", 4) == 0.75
    assert bus_factor("broadcast", 4) == 1.0


def test_comm_sweep_times_every_collective() -> None:
    result = invoke("comm-sweep", "--device", "cpu", "--max-bytes", "4096", "--json")
    found = json.loads(result.output)
    assert [(one["collective"], one["message_bytes"]) for one in found["points"]] == [
        (name, size) for name in COLLECTIVES for size in (1024, 4096)
    ]
    assert all(one["time_s"] > 0 for one in found["points"])
    assert [one["collective"] for one in found["fits"]] == list(COLLECTIVES)


def test_comm_sweep_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def swept(device: str, ranks: int, names: tuple[str, ...], largest: int) -> list[Point]:
        assert (device, ranks, largest) == ("cpu", 2, 1024)
        return [Point(name, 1024, 1e-3, 1.0, 1.0) for name in names]

    monkeypatch.setattr(comm_sweep, "sweep", swept)
    result = invoke("comm-sweep", "--device", "cpu", "--max-bytes", "1024", "--collective", "send_recv")
    assert [line.split()[0] for line in result.output.splitlines() if line] == [
        "collective",
        "send_recv",
        "collective",
        "send_recv",
    ]


def test_comm_sweep_says_how_many_gpus_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    result = invoke("comm-sweep", "--device", "cuda", "--ranks", "2")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        "2 ranks on GPUs need as many; this machine has 1. Measure processes: --device cpu"
    )


@pytest.mark.gpu
@pytest.mark.aiperf_gpus(2)
def test_comm_sweep_on_gpus() -> None:
    found = json.loads(invoke("comm-sweep", "--device", "cuda", "--max-bytes", "67108864", "--json").output)
    rates = {(one["collective"], one["message_bytes"]): one["bus_bytes_per_s"] for one in found["points"]}
    assert rates["all_reduce", 67108864] > 10 * rates["all_reduce", 1024]


def test_variables_win_over_files_and_the_later_file_over_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "nccl.conf", tmp_path / ".nccl.conf"
    first.write_text("# NCCL_PROTO=LL\nNCCL_ALGO=Ring\nNCCL_DEBUG=INFO\nNCCL_BUFFSIZE=1\n")
    second.write_text("NCCL_ALGO = Tree\nNCCL_DEBUG=TRACE\n")
    environment = {"NCCL_DEBUG": "WARN", "NCCL_STRANGE": "1", "NCCL_NVLS_ENABLE": "1", "PATH": "/bin"}
    found = {one.name: one for one in nccl_env.settings(environment, (first, second))}
    assert (found["NCCL_DEBUG"].value, found["NCCL_DEBUG"].source) == ("WARN", "environment")
    assert (found["NCCL_ALGO"].value, found["NCCL_ALGO"].source) == ("Tree", str(second))
    assert (found["NCCL_BUFFSIZE"].value, found["NCCL_BUFFSIZE"].source) == ("1", str(first))
    assert found["NCCL_PROTO"].source == "default"
    assert (found["NCCL_NVLS_ENABLE"].value, found["NCCL_NVLS_ENABLE"].source) == ("0", "aiperf")
    assert found["NCCL_SOCKET_IFNAME"].source == "aiperf"
    assert found["NCCL_STRANGE"].meaning == nccl_env.UNEXPLAINED
    assert "PATH" not in found


def test_nccl_env_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert nccl_env.settings({}) == nccl_env.settings({}, (Path("/etc/nccl.conf"),))


def test_nccl_env_explains_every_setting() -> None:
    found = json.loads(invoke("nccl-env", "--json").output)
    assert {one["name"] for one in found["settings"]} >= nccl_env.KNOWN.keys()
    assert all(one["meaning"] for one in found["settings"])
    assert "NCCL_NVLS_ENABLE=0  [aiperf]\n" in invoke("nccl-env").output


def test_comm_init_times_the_life_of_a_communicator() -> None:
    found = json.loads(invoke("comm-init", "--device", "cpu", "--json").output)
    assert found["backend"] == "gloo"
    assert [one["name"] for one in found["steps"]] == list(comm_init.STEPS)
    assert all(one["time_s"] > 0 for one in found["steps"])


def test_straggler_names_the_rank_that_the_others_wait_for() -> None:
    found = json.loads(invoke("straggler", "--device", "cpu", "--slow", "1", "--slow-by-ms", "100", "--json").output)
    assert found["late"] == [1]
    first, second = found["ranks"]
    assert first["collective_s"] > max(0.05, second["collective_s"])


def test_a_rank_is_late_by_its_work_and_not_by_its_wait() -> None:
    found = straggler.judged([1.0, 1.05, 1.3, 0.9], [0.5, 0.45, 0.1, 0.6])
    assert [one.late for one in found] == [False, False, True, False]
    assert [one.late for one in straggler.judged([1.0, 1.2], [0.3, 0.1])] == [False, True]


def test_doctor_says_what_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    found = {one["name"]: one for one in json.loads(invoke("doctor", "--json").output)["findings"]}
    assert found["NCCL_P2P_DISABLE"]["advice"] == "data take a slower way; unset NCCL_P2P_DISABLE"
    assert {"driver", "GPUs", "NCCL", "gloo", "interfaces", "/dev/shm"} <= found.keys()
    assert "-> data take a slower way" in invoke("doctor").output


MODEL = ("--parameters", "1e9", "--layers", "16", "--width", "2048", "--sequence", "1024", "--batch", "8")
RATES = ("--flop-rate", "1e14", "--link-rate", "1e11")


def test_plan_counts_bytes_and_seconds_as_its_formulas_say() -> None:
    found = json.loads(invoke("plan", *MODEL, *RATES, "--gpus", "2", "--json").output)["plans"]
    by_split = {(one["data"], one["tensor"], one["pipeline"]): one for one in found}
    assert [*by_split] == [key for key, _ in sorted(by_split.items(), key=lambda one: one[1]["step_s"])]
    border, ideal = 1024 * 2048, 6 * 1e9 * 8 * 1024 / 2 / 1e14
    data, tensor, pipeline = by_split[2, 1, 1], by_split[1, 2, 1], by_split[1, 1, 2]
    assert data["memory_bytes"] == pytest.approx(1e9 * (4 + 6) + 34 * border * 16)
    assert tensor["memory_bytes"] == pytest.approx(0.5e9 * 16 + 34 * border / 2 * 16)
    assert pipeline["memory_bytes"] == pytest.approx(0.5e9 * 16 + 34 * border * 8 * 2)
    assert data["step_s"] == pytest.approx(ideal + 2e9 / 1e11)
    assert tensor["step_s"] == pytest.approx(ideal + 4 * 16 * 8 * 2 * border / 1e11)
    assert pipeline["step_s"] == pytest.approx(ideal * (1 + 1 / 8))


def test_plan_says_what_the_smallest_split_needs() -> None:
    result = invoke("plan", *MODEL, *RATES, "--gpus", "1", "--memory", "1e9")
    assert str(result.exception) == (
        "no split over 1 GPU of 1.0 GB fits: the smallest needs 17.1 GB on each. Take more GPUs (--gpus) or a smaller "
        "micro-batch"
    )
    assert "data" in invoke("plan", *MODEL, *RATES, "--gpus", "1").output
    assert "nan is not a finite number" in str(
        invoke("plan", *MODEL, *RATES, "--gpus", "1", "--memory", "nan").exception
    )
