"""Servers that do wrong: every request has one outcome, and what happened is in the result."""

import json
import re
import urllib.request
from collections import Counter

import numpy as np
import pytest

from aiperf_load import figures
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind
from aiperf_load.processes import generate
from aiperf_load.servers.clockwork import FAULTS, Clockwork
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server, Workload

KINDS = {"cut": Kind.CUT, "malformed": Kind.MALFORMED, "early": Kind.EARLY_STOP, "wrong-usage": Kind.WRONG_COUNT,
         "error": Kind.SERVER_ERROR, "429": Kind.HTTP_429, "500": Kind.HTTP_5XX, "404": Kind.HTTP_OTHER,
         "redirect": Kind.REDIRECTED, "html": Kind.WRONG_TYPE, "gzip": Kind.ENCODED, "huge": Kind.TOO_LARGE,
         "endless": Kind.ENDLESS, "hang": Kind.TIMEOUT, "pause": Kind.OK}  # fmt: skip


def test_every_fault_of_the_server_is_tested():
    assert set(KINDS) == set(FAULTS)


def loaded(url, duration_s, timeout_s):
    spec = LoadSpec(
        server=Server(url=url), workload=Workload(input_low=8, input_high=8, output_low=4, output_high=4),
        arrivals=Arrivals(kind="constant", rate_per_s=100.0),
        rules=Rules(duration_s=duration_s, warmup_s=0.0, timeout_s=timeout_s),
    )  # fmt: skip
    found, interrupted = generate(spec, plan(spec))
    assert not interrupted
    return found, figures.point("p", spec, "now", found, complete=True)


@pytest.fixture(scope="module")
def faulty(here):
    """60 requests to a server that has each fault once, with a good answer before and after it."""
    faults = dict(zip(KINDS, range(31, 61, 2), strict=True))
    # The request that hangs is followed until its timeout; the others end long before, on a machine that stalls too.
    return loaded(here.start(Clockwork(service_s=0.0, faults=faults)), 0.61, 10.0)


def test_each_fault_is_counted_once(faulty):
    found, point = faulty
    expected = Counter(KINDS.values()) + Counter({Kind.OK: 45})
    assert Counter(found.kind.tolist()) == expected
    assert point.outcomes == {kind.name: count for kind, count in expected.items()}
    assert not np.isnan(found.done_s).any()


def test_a_stream_that_stalls_is_told(faulty):
    (told,) = [one for one in faulty[1].reasons if "stalled" in one]
    found = re.fullmatch(
        r"stalled streams: 1 requests that ended well had a gap between tokens of up to ([\d.]+) s; the median gap is "
        r"[\d.e-]+ ms",
        told,
    )
    # The server pauses for 1.5 s. A first token that is late makes the gap shorter, and a second one longer.
    assert found is not None
    assert float(found[1]) > figures.STALL_S


FAULTY = {"cut": 7, "malformed": 11, "429": 13, "500": 17, "wrong-usage": 19, "pause": 23}


def test_a_bundle_shows_each_fault_once(aiperf, here, tmp_path):
    url = here.start(Clockwork(service_s=0.0, faults=FAULTY))
    done = aiperf("load", "run", url, "--rate", "200", "--arrivals", "constant", "--duration", "0.8s", "--warmup", "0.2s",
                  "--output-tokens", "4", "--input-tokens", "8", "--out", tmp_path / "b")  # fmt: skip
    assert done.code in (0, 3), done.err  # 3: the generator was late
    (point,) = json.loads((tmp_path / "b/load/server.json").read_text())["payload"]["points"]
    # The first request is that of the trial, which no figure counts.
    faults = [next((name for name, every in FAULTY.items() if number % every == 0), "") for number in range(2, 161)]
    expected = Counter(KINDS[name].name if name else "OK" for name in faults)
    assert point["outcomes"] == expected
    assert sum(point["counted_outcomes"].values()) == point["counted"] < point["requests"] == 159
    with urllib.request.urlopen(f"{url}/stats") as answer:
        assert json.load(answer)["requests"] == 160
    shown = aiperf("load", "show", tmp_path / "b").out
    table = shown[shown.index("requests that did not end well") :].splitlines()[2:]
    cells = [line.split()[:4] for line in table[: len(expected) - 1]]
    failed = {kind: count for kind, count in point["outcomes"].items() if kind != "OK"}
    assert cells == [
        ["200/s", kind, str(count), str(point["counted_outcomes"].get(kind, 0))] for kind, count in failed.items()
    ]
    assert set(failed) == {"CUT", "MALFORMED", "HTTP_429", "HTTP_5XX", "WRONG_COUNT"}
    assert "note: 200/s: stalled streams: " in shown
    assert aiperf("recheck", tmp_path / "b").code == 0


def test_a_server_that_stalls_is_in_the_times(here):
    """A server that serves nothing for a while loses no request: all of them are late, from their scheduled arrival."""
    found, point = loaded(here.start(Clockwork(service_s=0.0, stall_s=1.0)), 0.21, 60.0)
    assert point.outcomes == {"OK": 20}
    # The request that arrives first begins before the stall; the last is scheduled 0.19 s after it.
    waits = np.sort(found.first_s - found.scheduled_s)
    assert waits[1] > 0.8
    assert max(one.ttft_s or 0.0 for one in point.slices) > 0.8
