"""Energy: figures and their intervals, ranks, bounds, power limits, and the watch of a command."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from attrs import evolve

from aiperf_analysis import power_watch
from aiperf_analysis.analyses.energy import LogEnergy, log_energy, mean_watts, rank_ranges, time_error
from aiperf_analysis.analyses.power import Options, analyze
from aiperf_analysis.power_watch import Sample, Sensor, energy_of, watch
from aiperf_analysis.selection import select
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Energy, Estimate
from aiperf_core.report import cell_text
from aiperf_core.report.result import Figure
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.intervals import Blocks

IDLE_W = 80.0


def energy(time_s, watts=500.0, resolution=0.002):
    joules = watts * time_s
    return Energy(joules, (watts - IDLE_W) * time_s, IDLE_W, resolution * joules, 1.2 * resolution * joules, 1000,
                  1000 * time_s, 12, 0.1, "energy counter")  # fmt: skip


def bundle(path, *, limit=700.0, scale=1.0, watts=500.0, day=21, coarse=(), tokens=4096.0, without=("memcpy",)):
    """A bundle whose believed rows have energy."""
    rows = []
    for row in example.rows():
        if row.time_s and row.name not in without:
            time_s = row.time_s.value * scale
            found = energy(time_s, watts, 0.08 if row.name in coarse else 0.002)
            row = evolve(row, time_s=example.estimate(time_s), energy=found)
        elif row.time_s:
            row = evolve(row, no_energy="no energy counter: NVML: Not Supported")
        rows.append(row)
    result = example.result()
    manifest = example.manifest()
    gpus = [{**manifest.machine.gpus[0], "power_limit_w": limit}]
    made = Bundle.create_at(path)
    made.write_target(evolve(result, rows=rows, tier="standard", problem=evolve(result.problem, tokens=tokens)))
    made.write_manifest(
        evolve(manifest, created=f"2026-11-{day}T14:25:30+00:00", machine=evolve(manifest.machine, gpus=gpus))
    )
    return path


def cells(result, table="energy"):
    found = {one.name: one for one in result.tables}
    return {record.cells["row"].split(":")[1]: record.cells for record in found[table].records}


def test_figures_follow_from_energy_time_and_work(tmp_path):
    found = cells(analyze(select([str(bundle(tmp_path / "a"))]), Options()))["coalesced"]
    time_s, problem = 0.6523e-3, example.result().problem
    joules = 500.0 * time_s
    assert found["joules"].value == pytest.approx(joules)
    assert found["net_joules"].value == pytest.approx(420 * time_s)
    assert found["watts"].value == pytest.approx(500)
    assert found["idle_watts"].value == IDLE_W
    assert found["joules_per_flop"].value == pytest.approx(joules / problem.flops)
    assert found["joules_per_byte"].value == pytest.approx(joules / (problem.bytes_read + problem.bytes_written))
    assert found["tokens_per_joule"].value == pytest.approx(4096 / joules)
    assert found["edp"].value == pytest.approx(joules * time_s)
    assert found["ed2p"].value == pytest.approx(joules * time_s**2)
    for name in ("joules", "net_joules", "tokens_per_joule", "edp", "ed2p"):
        one = found[name]
        assert one.low < one.value < one.high, name
    # Powers of the time carry its error again.
    widths = [math.log(found[name].high / found[name].low) for name in ("joules", "edp", "ed2p")]
    assert widths[0] < widths[1] < widths[2]


def test_rows_of_one_target_are_ranked_by_energy(tmp_path):
    result = analyze(select([str(bundle(tmp_path / "a"))]), Options())
    ranks = {name: one["rank"] for name, one in cells(result).items()}
    assert ranks == {"wide": "1", "coalesced": "2", "strided": "3 to 4", "prefetched": "3 to 4"}
    assert result.status == "ok"
    assert [
        record.cells["row"] for record in analyze(select([str(tmp_path / "a")]), Options(top=1)).tables[0].records
    ] == ["ch07.memory_access:wide"]


def test_a_coarse_counter_gives_a_bound_without_a_rank(tmp_path):
    result = analyze(select([str(bundle(tmp_path / "a", coarse=("wide",)))]), Options())
    found = cells(result)["wide"]
    assert found["rank"] is None
    assert (found["joules"].value, found["joules"].low) == (None, None)
    assert found["joules"].high > 500 * 0.6013e-3
    assert cell_text.text(found["joules"]).startswith("< 3")
    assert cell_text.text(found["tokens_per_joule"]).startswith("> 1")
    assert cells(result)["coalesced"]["rank"] == "1"


def test_kinds_of_machine_are_not_ranked_together(tmp_path):
    bundle(tmp_path / "a")
    other = Bundle.create_at(tmp_path / "b")
    first = Bundle.open(tmp_path / "a")
    other.write_target(first.target("ch07.memory_access"))
    machine = evolve(first.manifest.machine, gpus=[{**first.manifest.machine.gpus[0], "name": "NVIDIA H100"}])
    other.write_manifest(evolve(first.manifest, machine=machine, hashes={}))
    result = analyze(select([str(tmp_path)]), Options())
    best = [record.cells["class"] for record in result.tables[0].records if record.cells["rank"] == "1"]
    assert sorted(best) == ["nvidia-h100-x1", "nvidia-h200-x1"]


def test_several_power_limits_give_the_one_with_the_least_energy(tmp_path):
    bundle(tmp_path / "a", limit=700.0, watts=600.0)
    bundle(tmp_path / "b", limit=400.0, watts=390.0, scale=1.1, day=22)
    # Of one limit the newest bundle counts, whichever is better.
    bundle(tmp_path / "d", limit=400.0, watts=100.0, scale=1.0, day=20)
    bundle(tmp_path / "c", limit=200.0, watts=195.0, scale=2.6, day=23)
    result = analyze(select([str(tmp_path)]), Options())
    limits = next(one for one in result.tables if one.name == "limits")
    found = [record.cells for record in limits.records if record.cells["row"].endswith(":coalesced")]
    assert [one["limit"].value for one in found] == [200.0, 400.0, 700.0]
    assert [one["least"] for one in found] == [None, "least energy", None]
    assert [round(one["slowdown"].value, 2) for one in found] == [2.6, 1.1, 1.0]
    assert any(one.name == "limits" for one in result.drawings)
    assert not any(one.name == "limits" for one in analyze(select([str(tmp_path / "a")]), Options()).tables)


def test_rows_without_energy_have_their_reason(tmp_path):
    result = analyze(select([str(bundle(tmp_path / "a"))]), Options())
    assert cells(result, "without_energy")["memcpy"]["reason"] == "no energy counter: NVML: Not Supported"
    every = ("strided", "coalesced", "wide", "prefetched", "memcpy")
    none = analyze(select([str(bundle(tmp_path / "b", without=every))]), Options())
    assert none.status == "nothing"
    assert len(cells(none, "without_energy")) == 5
    assert none.summary[0].startswith("No row of 1 bundle has energy")


def test_what_the_target_does_not_declare_has_a_reason(tmp_path):
    found = cells(analyze(select([str(bundle(tmp_path / "a", tokens=0.0))]), Options()))["wide"]
    assert found["tokens_per_joule"] == Figure(value=None, unit="token/J", reason="the target declares no tokens")


# --- intervals


def test_errors_add_in_quadrature():
    found = log_energy(energy(1e-3, 500, 0.03), 0.04)
    assert found.half_width == pytest.approx(math.hypot(0.04, 1.1249 * 0.03))
    net = log_energy(energy(1e-3, 500, 0.03), 0.0, net=True)
    assert net.half_width == pytest.approx(1.1249 * math.hypot(0.03, 0.006) * 500 / 420)
    assert log_energy(energy(1e-3, 60), 0.0, net=True) is None
    assert mean_watts(energy(1e-3, 500)) == pytest.approx(500)


def test_the_limit_of_a_coarse_counter_is_5_percent():
    assert log_energy(energy(1e-3, 500, 0.0499), 0.0).coarse is None
    assert log_energy(energy(1e-3, 500, 0.0501), 0.0).coarse == pytest.approx(0.0501)


def test_the_time_of_a_process_varies_as_the_rounds_do():
    times = np.concatenate([np.full(10, value) for value in (1.0, 1.1, 1.3)])
    blocks = Blocks.of(times.tolist(), list(range(30)), [0] * 10 + [1] * 10 + [2] * 10)
    spread = np.std(np.log([1.0, 1.1, 1.3]), ddof=1)
    assert time_error(blocks, None, 3) == pytest.approx(4.30265 * math.sqrt(2) * spread)
    shown = Estimate(1.0, 0.98, 1.01)
    assert time_error(blocks.only(blocks.rounds == 0), shown, 1) == pytest.approx(-math.log(0.98))
    assert time_error(None, shown, 4) == pytest.approx(-2 * math.log(0.98))
    assert time_error(None, None, 1) == math.inf


def test_ranks_are_ranges_where_intervals_overlap():
    def of(low, high):
        return Figure(value=(low + high) / 2, low=low, high=high)

    assert rank_ranges([of(1, 2), of(1.5, 3), of(4, 5), Figure(value=None, high=9.0)]) == [(1, 2), (1, 2), (3, 3), None]


def test_a_figure_without_error_by_time_has_that_of_the_steps():
    found = LogEnergy(2.0, 0.1, 0.0).figure("J", times_s=3.0, power=2)
    assert (found.value, found.low, found.high) == (18.0, 18 * math.exp(-0.1), 18 * math.exp(0.1))


# --- watch


def counter(watts=100.0, step_s=0.001):
    """A sensor whose counter moves in steps, beside its power."""
    begin = time.monotonic()

    def read():
        passed = time.monotonic() - begin
        return watts * step_s * math.floor(passed / step_s), watts

    return Sensor("fake", read)


def test_counter_and_integral_of_a_constant_power_agree():
    samples = [Sample(one / 10, 50.0 * one / 10, 50.0) for one in range(21)]
    found = energy_of(samples)
    assert found.counted_j == pytest.approx(100.0)
    assert found.integrated_j == pytest.approx(100.0)
    assert (found.steps, found.joules, found.peak_w) == (20, found.counted_j, 50.0)


def test_the_counter_is_preferred_and_the_integral_stands_in():
    samples = [Sample(one / 10, None, 50.0 + 10 * (one % 2)) for one in range(21)]
    found = energy_of(samples)
    assert found.counted_j is None
    assert found.joules == pytest.approx(110.0)
    both = [Sample(one / 10, 60.0 * one / 10, 50.0) for one in range(21)]
    watched = power_watch.Watched({"gpu0": both}, seconds=2.0)
    shown = power_watch.result(["true"], watched).tables[0].records[0].cells
    assert (shown["method"], shown["joules"].value) == ("counter", pytest.approx(120.0))
    assert shown["difference"].value == pytest.approx(100 * (50 / 60 - 1))


def test_a_counter_with_few_steps_is_a_bound():
    samples = [Sample(one / 10, 5.0 * (one // 10), None) for one in range(25)]
    shown = power_watch.result(["true"], power_watch.Watched({"cpu": samples})).tables[0].records[0].cells
    assert (shown["joules"].value, shown["joules"].high) == (None, 15.0)


def test_the_exit_code_of_the_command_passes_on(capfd):
    found = watch([sys.executable, "-c", "print('theirs'); raise SystemExit(7)"], [counter()])
    assert (found.exit_code, found.interrupted) == (7, False)
    assert len(found.samples["fake"]) >= 2
    assert capfd.readouterr().out == "theirs\n"
    killed = watch([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], [counter()])
    assert killed.exit_code == 137


def test_a_command_that_cannot_start(tmp_path):
    with pytest.raises(UsageError, match="cannot start '.*/gone': No such file or directory"):
        watch([str(tmp_path / "gone")], [counter()])
    with pytest.raises(AiperfError, match="no sensor"):
        watch(["true"], [])


_WATCHING = """
import sys
from aiperf_analysis.power_watch import Sensor, watch
found = watch([sys.executable, "-c", {command!r}], [Sensor("fake", lambda: (1.0, 2.0))])
print(found.exit_code, found.interrupted)
"""


@pytest.mark.parametrize(
    ("ends", "command"),
    [
        # Of its own accord, asked by a signal, and only when killed.
        (signal.SIGINT, "import os, time; print(os.getpid(), flush=True); time.sleep(60)"),
        (signal.SIGTERM, "import os, time; print(os.getpid(), flush=True); time.sleep(60)"),
    ],
)
def test_ctrl_c_ends_both(ends, command):
    started = subprocess.Popen([sys.executable, "-c", _WATCHING.format(command=command)], stdout=subprocess.PIPE, text=True,
                               start_new_session=True)  # fmt: skip
    pid = int(started.stdout.readline())
    # The watcher alone gets the signal.
    started.send_signal(ends)
    rest, _ = started.communicate(timeout=30)
    assert rest.split()[-1] == "True"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class FakeTelemetry:
    """A sensor of NVML or RAPL, or none."""

    def __init__(self, joules, watts, lacking):
        self.joules, self.watts, self.lacking, self.closed = joules, watts, lacking, False

    def energy_j(self):
        return self.joules

    def power_w(self):
        return self.watts

    def close(self):
        self.closed = True


def test_sensors_are_those_that_answer(monkeypatch):
    from aiperf_core.devices import gpus, telemetry

    found = {
        "cpu": FakeTelemetry(None, None, {"energy_j": "no intel-rapl zone"}),
        "cuda:0": FakeTelemetry(1.0, 2.0, {}),
        "cuda:1": FakeTelemetry(None, 3.0, {"energy_j": "NVML: Not Supported"}),
    }
    monkeypatch.setattr(gpus, "gpus", lambda: ([{"name": "NVIDIA H200"}] * 2, "570"))
    monkeypatch.setattr(telemetry, "open_telemetry", lambda device: found[device])
    with power_watch.sensors() as (kept, lacking):
        assert [(one.name, one.read()) for one in kept] == [("gpu0", (1.0, 2.0)), ("gpu1", (None, 3.0))]
        assert lacking == {"cpu": "no intel-rapl zone"}
    assert all(one.closed for one in found.values())
    with power_watch.sensors([1]) as (kept, _):
        assert [one.name for one in kept] == ["gpu1"]


def test_the_counters_of_a_processor(tmp_path, monkeypatch):
    from aiperf_core.devices import gpus, telemetry
    from aiperf_core.devices.cpu_telemetry import CpuTelemetry

    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    for name, text in (("name", "package-0"), ("max_energy_range_uj", "262143328850"), ("energy_uj", "1000000")):
        (zone / name).write_text(text)
    monkeypatch.setattr(gpus, "gpus", lambda: ([], None))
    monkeypatch.setattr(telemetry, "open_telemetry", lambda device: CpuTelemetry(tmp_path))
    with power_watch.sensors() as (kept, lacking):
        assert [one.name for one in kept] == ["cpu"]
        assert kept[0].read() == (0.0, None)
        (zone / "energy_uj").write_text("3500000")
        assert kept[0].read() == (2.5, None)
        assert "gpu" in lacking


def test_the_script_that_shows_how_often_intervals_hold(capsys, tmp_path):
    import runpy
    from pathlib import Path

    script = Path(__file__).parents[2] / "benchmarks" / "analysis_energy.py"
    main = runpy.run_path(str(script))["main"]
    assert main(["--repeats", "30", "--out", str(tmp_path / "out.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    cases = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert all(one["gross_repeat"] > 0.75 for one in cases)
    assert all(one["half_width"] < 0.2 for one in cases)


# --- the command


@pytest.fixture
def power(aiperf):
    return partial(aiperf, "power")


def test_power_alone_is_the_analysis(power, aiperf, tmp_path):
    bundle(tmp_path / "a")
    alone = power(tmp_path, "--json")
    whole = aiperf("analyze", "power", tmp_path, "--json")
    assert (alone.code, alone.out) == (0, whole.out)
    assert json.loads(alone.out)["analysis"] == "power"
    assert power("--help").code == 0


def test_no_sensor_is_1_and_the_command_is_not_started(power, monkeypatch, tmp_path):
    import contextlib

    @contextlib.contextmanager
    def none(gpus):
        yield [], {"gpu": "no NVIDIA GPU was found", "cpu": "no intel-rapl zone"}

    monkeypatch.setattr(power_watch, "sensors", none)
    found = power("watch", "touch", tmp_path / "made")
    assert found.code == 1
    assert found.err == (
        "aiperf: no sensor of this machine shows power or energy, so the command was not started. gpu: no NVIDIA GPU was "
        "found; cpu: no intel-rapl zone. Run it where a GPU's driver or the processor's counters can be read.\n"
    )
    assert not (tmp_path / "made").exists()


def test_watch_reports_on_standard_error_and_in_a_file(power, monkeypatch, tmp_path):
    import contextlib

    @contextlib.contextmanager
    def one(gpus):
        yield [counter(step_s=1e-6)], {"gpu": "no NVIDIA GPU was found"}

    monkeypatch.setattr(power_watch, "sensors", one)
    found = power(
        "watch", "--rate", 50, "--out", tmp_path / "w.json", "--", sys.executable, "-c", "raise SystemExit(3)"
    )
    assert (found.code, found.out) == (3, "")
    document = json.loads((tmp_path / "w.json").read_text())
    assert document["details"]["exit_code"] == 3
    assert "no gpu: no NVIDIA GPU was found" in document["assumptions"]
    shown = power("watch", "--", "true")
    assert shown.code == 0
    assert shown.out == ""
    assert "'true' took" in shown.err
    assert power("watch").code == 2
    assert power("watch", "--").code == 2
