"""When requests are sent: every kind of arrivals, a cap, and what the figures call steady, growing and overloaded."""

import codecs
import math

import numpy as np
import pytest
from attrs import evolve

from aiperf_core.errors import UsageError
from aiperf_load import figures, tables
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import COLUMNS, Kind, Outcomes
from aiperf_load.processes import generate
from aiperf_load.servers.clockwork import Clockwork
from aiperf_load.spec import Arrivals, Limits, LoadSpec, Rules, Server, Workload


def spec_of(url="http://none", arrivals=None, **rules):
    work = Workload(input_low=4, input_high=4, output_low=1, output_high=1)
    arrivals = arrivals or Arrivals(kind="constant", rate_per_s=100.0)
    return LoadSpec(server=Server(url=url), workload=work, arrivals=arrivals,
                    rules=Rules(**{"duration_s": 0.31, "warmup_s": 0.0, **rules}))  # fmt: skip


# --- the plan


@pytest.mark.parametrize(("arrivals", "variation"), [
    (Arrivals(kind="poisson", rate_per_s=100.0), 1.0),
    (Arrivals(kind="gamma", rate_per_s=100.0, burstiness=0.25), 2.0),
    (Arrivals(kind="gamma", rate_per_s=100.0, burstiness=4.0), 0.5),
    (Arrivals(kind="constant", rate_per_s=100.0), 0.0),
])  # fmt: skip
def test_random_arrivals_have_their_rate_and_their_burstiness(arrivals, variation):
    found = plan(spec_of(arrivals=arrivals, duration_s=200.0))
    gaps = np.diff(found.scheduled_s)
    # 20,000 gaps: the rate within five standard errors, 1 / sqrt(n) times the coefficient of variation.
    assert gaps.mean() == pytest.approx(0.01, rel=max(1e-9, 5 * variation / math.sqrt(20_000)))
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.06, abs=1e-9)
    assert found.scheduled_s[0] > 0
    assert found.scheduled_s[-1] < 200


def test_a_seed_draws_the_same_arrivals_and_lengths_and_another_seed_others():
    work = Workload(input_low=10, input_high=99, output_low=1, output_high=9)
    poisson = Arrivals(kind="poisson", rate_per_s=50.0)
    first, again, other = (
        plan(evolve(spec_of(arrivals=poisson, duration_s=9.0, seed=seed), workload=work)) for seed in (1, 1, 2)
    )
    assert first.scheduled_s.tolist() == again.scheduled_s.tolist()
    assert first.input_tokens.tolist() == again.input_tokens.tolist()
    assert first.scheduled_s[:5].tolist() != other.scheduled_s[:5].tolist()
    assert {first.output_tokens.min(), first.output_tokens.max()} == {1, 9}


@pytest.mark.parametrize(("name", "text"), [
    ("t.csv", "at_s,input_tokens,output_tokens\n0.5,7,2\n0.5,8,\n9,1,1\n"),
    ("t.jsonl", '{"at_s": 0.5, "input_tokens": 7, "output_tokens": 2}\n\n{"at_s": 0.5, "input_tokens": 8}\n'
                '{"at_s": 9}\n'),
])  # fmt: skip
def test_a_trace_gives_times_and_lengths_up_to_the_duration(tmp_path, name, text):
    for mark in (b"", codecs.BOM_UTF8):
        (tmp_path / name).write_bytes(mark + text.encode())
        found = plan(spec_of(arrivals=Arrivals(kind="trace", trace=str(tmp_path / name)), duration_s=5.0))
        assert found.scheduled_s.tolist() == [0.5, 0.5]
        assert found.input_tokens.tolist() == [7, 8]
        assert found.output_tokens.tolist() == [2, 1]


@pytest.mark.parametrize(("text", "message"), [
    ("at_s\n1\n0.5\n", "'{file}', line 3: at_s goes back; arrivals must be in order."),
    ("when\n1\n", "'{file}', line 2: no at_s, the arrival in seconds from the start."),
    ("at_s\nnan\n", "'{file}', line 2: at_s is 'nan'; accepted is a number from 0."),
    ("at_s,tokens\n1,2\n", "'{file}', line 2: unknown 'tokens'; known: at_s, input_tokens, output_tokens."),
    ("at_s\n", "'{file}' has no arrivals. A trace is CSV or JSON lines with at_s, input_tokens, output_tokens."),
    ("at_s\n7\n", "'{file}' has no arrival before 5 s, the duration. Raise --duration."),
])  # fmt: skip
def test_a_wrong_trace_is_named_with_its_line(tmp_path, text, message):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        plan(spec_of(arrivals=Arrivals(kind="trace", trace=str(file)), duration_s=5.0))
    assert str(caught.value) == message.replace("{file}", str(file))


# --- the generator


@pytest.mark.quiet
def test_a_closed_loop_sends_when_the_last_answer_ended_and_is_named_so(here):
    spec = spec_of(here.start(Clockwork(service_s=0.02, servers=8)), Arrivals(kind="closed", clients=3), duration_s=1.5)
    found, _ = generate(spec, plan(spec))
    point = figures.point("p", spec, "now", found, complete=True)
    assert point.outcomes == {"OK": len(found)}
    # At any begin of a request, at most two others were under way.
    for at_s in found.sent_s:
        assert ((found.sent_s <= at_s) & (found.done_s > at_s)).sum() <= 3
    assert tables.arrivals(point) == "closed:3"
    assert point.reasons == ["a closed loop: each client waits for its last answer, so the load follows the server"]
    assert (point.lateness_p99_s, point.state) == (None, "STEADY")


def test_a_cap_holds_requests_back_and_their_wait_counts(here):
    spec = spec_of(here.start(Clockwork(service_s=0.02, servers=8)), cap=1)
    found, _ = generate(spec, plan(spec))
    point = figures.point("p", spec, "now", found, complete=True)
    assert point.outcomes == {"OK": 30}
    assert (found.sent_s[1:] >= found.done_s[:-1]).all()
    # Request i is scheduled at i / 100 s and served after i services of 20 ms: half of its latency is the wait.
    latency_s = found.last_s - found.scheduled_s
    assert latency_s[-1] >= 30 * 0.02 - 30 * 0.01
    assert point.queued_p99_s == pytest.approx((found.sent_s - found.ready_s).max())
    assert point.queued_p99_s > 0.25
    assert point.reasons[-1] == "at most 1 requests in flight; the wait for a place is part of every latency"


def test_several_processes_send_each_request_once(here):
    spec = spec_of(here.start(Clockwork(service_s=0.0)), processes=2)
    found, _ = generate(spec, plan(spec))
    assert found.number.tolist() == list(range(30))
    assert set(found.kind.tolist()) == {Kind.OK}


# --- steady, growing, overloaded


def served(load, count=2000):
    """Requests of a queue whose service takes 10 ms, at a load."""
    rng = np.random.default_rng(5)
    scheduled = np.cumsum(rng.exponential(0.01 / load, count))
    walk = np.concatenate(([0.0], np.cumsum(0.01 - np.diff(scheduled))))
    last = scheduled + walk - np.minimum.accumulate(walk) + 0.01
    columns = {name: np.zeros(count, dtype) for name, dtype in COLUMNS.items()}
    columns |= {"number": np.arange(count), "scheduled_s": scheduled, "ready_s": scheduled, "sent_s": scheduled,
                "first_s": last, "last_s": last, "done_s": last, "gap_s": np.zeros(0, np.float32)}  # fmt: skip
    columns["output_tokens"] += 1
    return Outcomes(**columns)


def point_of(found, limits=None):
    poisson = Arrivals(kind="poisson", rate_per_s=100.0)
    spec = spec_of(arrivals=poisson, duration_s=float(found.scheduled_s[-1]) + 1e-6)
    return figures.point("p", evolve(spec, limits=limits or Limits()), "now", found, complete=True)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_a_load_below_the_capacity_is_steady(load):
    assert (point_of(served(load)).state, point_of(served(load)).reasons) == ("STEADY", [])


def test_a_load_above_the_capacity_is_an_overload():
    found = served(1.3)
    ended = int((found.done_s < found.scheduled_s[-1]).sum())
    point = point_of(found)
    assert point.state == "OVERLOAD"
    assert point.reasons == [
        f"overload: 2000 requests arrived and {ended} ended in the counted time, so that percentiles grow with the "
        "duration"
    ]


def test_growth_without_a_lasting_overload_is_told():
    found = served(0.7)
    # At the end, 70 of 2,000 requests are in flight: fewer than 5 % did not end in the counted time.
    point = point_of(evolve(found, done_s=found.done_s + np.linspace(0, 1, len(found))))
    assert point.state == "GROWING"
    assert point.reasons == ["the number of requests in flight grew; measure for longer, or at a lower rate"]


def test_few_requests_show_no_trend():
    point = point_of(served(0.7, 40))
    assert point.state == "UNCLEAR"
    assert point.reasons == ["fewer than 50 requests were counted, too few to see a trend"]


def test_a_late_generator_is_not_trusted():
    found = served(0.3)
    point = point_of(evolve(found, ready_s=found.scheduled_s + 0.002, sent_s=found.scheduled_s + 0.002))
    assert not point.trusted
    assert point.reasons == [
        "UNTRUSTED: the generator was late, p99 2.00 ms of at most 1.00 ms, which every latency includes; use a "
        "quieter machine, more --processes, or a lower rate"
    ]


def test_the_limit_of_lateness_follows_the_limit_of_the_ttft():
    found = served(0.3)
    found = evolve(found, ready_s=found.scheduled_s + 0.002, sent_s=found.scheduled_s + 0.002)
    points = [
        point_of(found, limits=limits)
        for limits in (Limits(), Limits(ttft_s=0.05), Limits(e2e_s=9.0), Limits(ttft_s=0.4), Limits(ttft_s=0.5))
    ]
    assert [one.lateness_limit_s for one in points] == [1e-3, 1e-3, 1e-3, 4e-3, 5e-3]
    assert [one.trusted for one in points] == [False, False, False, True, True]
