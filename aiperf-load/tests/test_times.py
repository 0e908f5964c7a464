"""The times that a load measures, against what is known. Short versions of `benchmarks/load_generator.py`."""

import http.client
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import odd_streams
import pytest

from aiperf_load import figures
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind
from aiperf_load.processes import generate
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server, Workload

pytestmark = pytest.mark.quiet

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "load_generator.py"))


@pytest.mark.long
def test_a_queue_has_the_percentiles_of_its_closed_form(despite_stalls):
    with SCRIPT["server"]("--service", f"deterministic:{SCRIPT['SERVICE_S']}") as url:

        def check():
            found = SCRIPT["queue"](url, 0.8, 68.0)
            assert [one.name for one in found] == ["p50", "p99"]
            for one in found:
                assert one.requests >= 1000
                # The closed form, which the arrivals alone meet within 0.5 %.
                assert abs(one.off) <= SCRIPT["WITHIN"], one

        despite_stalls(check)


def test_a_stall_is_in_the_percentile_and_the_control_misses_it(despite_stalls):
    def check():
        found = SCRIPT["stall"](3.0, 0.8, 1.0)

        def shows_it(p99):
            return abs(p99 / found.exact - 1) <= SCRIPT["WITHIN"]

        assert found.exact > 0.9
        assert shows_it(found.ours), found
        # Counted from sending, one request of 300 has the whole stall, and the p99 nothing of it.
        assert not shows_it(found.control), found
        assert found.control < 0.1 * found.exact

    despite_stalls(check)


# A short run with few events tells what an event costs the generator on this machine.
FEW_PER_S, FEW_S, MANY_S = 3_000, 2.0, 4.0
HALF_BUSY = 0.5


def test_events_that_keep_it_half_busy_leave_the_generator_on_time(despite_stalls):
    """Ten thousand events a second, or as many as take half a processor where that is less."""
    few = SCRIPT["events"](FEW_S, FEW_PER_S)
    per_s = min(SCRIPT["EVENTS_PER_S"], FEW_PER_S * HALF_BUSY / few.busy)
    assert per_s >= FEW_PER_S, few

    def judge(found, stalled_s):
        assert set(found.outcomes) == {"OK"}
        # All of them, and all their tokens; a fifth of the time is warm-up.
        assert found.per_s * 0.8 * MANY_S == pytest.approx(found.requests * SCRIPT["TOKENS"])
        # At most 1 % are late, beside those that were scheduled while the machine stood still.
        assert found.late <= 0.01 * found.requests + per_s / SCRIPT["TOKENS"] * stalled_s, found

    despite_stalls(SCRIPT["events"], MANY_S, per_s, judge=judge)


def round_trip_s(url):
    """The time that a request and an answer are on their way: an idle machine takes most of a millisecond to wake."""
    connection, times_s = http.client.HTTPConnection(url.removeprefix("http://")), []
    for _ in range(25):
        time.sleep(0.03)
        start = time.monotonic()
        connection.request("GET", "/times")
        connection.getresponse().read()
        times_s.append(time.monotonic() - start)
    connection.close()
    return float(np.median(times_s))


@pytest.mark.parametrize("mode", odd_streams.TOKENS)
def test_the_times_of_an_odd_stream_are_those_at_its_server(despite_stalls, mode):
    def check():
        with subprocess.Popen([sys.executable, odd_streams.__file__], stdout=subprocess.PIPE, text=True) as server:
            try:
                url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
                spec = LoadSpec(
                    server=Server(url=f"{url}/{mode}", endpoint="chat"),
                    workload=Workload(input_low=8, input_high=8, output_low=16, output_high=16, prompt="words"),
                    arrivals=Arrivals(rate_per_s=15.0), rules=Rules(duration_s=2.0, warmup_s=0.0),
                )  # fmt: skip
                way_s = round_trip_s(url)
                found, _ = generate(spec, plan(spec))
                with urllib.request.urlopen(f"{url}/times") as answer:
                    there = np.add(json.load(answer), [way_s, 0.0])
            finally:
                server.kill()
        assert set(found.kind.tolist()) == {Kind.OK}
        here = np.column_stack((found.first_s - found.sent_s, figures.tpot(found)))
        assert here.shape == there.shape
        assert np.median(here, axis=0) == pytest.approx(np.median(there, axis=0), abs=1e-3)

    despite_stalls(check)


def test_a_failure_without_a_stall_counts_at_once_and_one_in_a_stall_is_measured_again(despite_stalls):
    tries = []

    def check(stalls):
        tries.append(stalls)
        if stalls:
            # The witness is the newest child of this thread. What stops it is a stall to it.
            witness = int(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()[-1])
            time.sleep(0.5)
            os.kill(witness, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(witness, signal.SIGCONT)
            time.sleep(0.1)
        assert tries == [True, True]

    with pytest.raises(AssertionError):
        despite_stalls(check, False)
    assert tries == [False]
    tries.clear()
    despite_stalls(check, True)
    assert tries == [True, True]
    with pytest.raises(AssertionError):
        despite_stalls(check, True)
    assert tries == [True] * 7
