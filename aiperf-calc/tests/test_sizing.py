"""Replicas for a demand: by formula, by simulation of a server with a known service time, and with bad input."""

import json
import math
from functools import partial

import numpy as np
import pytest

from aiperf_calc import sizing
from aiperf_calc.replicas import Policy, scale, serve
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.simulation import poisson

# The clockwork server: batches of up to four requests, each step of a known time.
STEPS = sizing.Steps(batch=(1, 2, 4), seconds=(0.010, 0.012, 0.016), per_request=10)
LIMIT_S = 0.6


def measure(rates, count=4000, seed=3):
    """A curve of the clockwork server, as a load generator would measure it."""
    points = []
    for number, rate in enumerate(rates):
        found = serve(poisson(rate, count, seed + number), 1, STEPS.time_s, STEPS.most)
        goodput = found.share(LIMIT_S) * rate
        points.append(sizing.LoadPoint(rate_per_s=rate, goodput_per_s=goodput, goodput_low=goodput,
                                       goodput_high=goodput, residence_s=float(found.latency_s.mean())))  # fmt: skip
    return sizing.LoadCurve(file="'clockwork'", points=tuple(points), steps=STEPS, limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def curve():
    return measure((5, 10, 15, 18, 20, 22, 24, 26))


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_the_predicted_replicas_serve_the_predicted_goodput(curve, wanted):
    capacity = sizing.capacity(curve)
    peak = 0.98 * wanted * capacity.value
    found = sizing.size(curve, peak)
    assert found.needed == wanted
    simulated = serve(poisson(peak, 6000, 77), found.needed, STEPS.time_s, STEPS.most)
    assert simulated.goodput_per_s(LIMIT_S) == pytest.approx(peak, rel=0.1)
    # One replica less does not carry the demand: the test can fail.
    if wanted > 1:
        fewer = serve(poisson(peak, 6000, 77), wanted - 1, STEPS.time_s, STEPS.most)
        assert fewer.goodput_per_s(LIMIT_S) < 0.9 * peak


def test_a_queue_with_fixed_service_times_waits_as_pollaczek_and_khinchin_say():
    found = serve(poisson(5, 20_000, 5), 1, lambda _: 0.1)
    assert found.latency_s.mean() == pytest.approx(0.1 + 0.5 * 0.1 / (2 * 0.5), rel=0.03)


@pytest.mark.parametrize(("servers", "most"), [(1, 1), (2, 4), (3, 2)])
def test_a_policy_that_never_changes_gives_what_the_core_simulates(servers, most):
    arrivals = poisson(20, 2000, 9)
    fixed = serve(arrivals, servers, STEPS.time_s, most)
    policy = Policy(goodput_per_s=100.0, least=servers, most=servers)
    scaled = scale(arrivals, policy, STEPS.time_s, most)
    assert np.allclose(fixed.latency_s, scaled.latency_s)
    assert scaled.replica_s == pytest.approx(servers * scaled.end_s)


def test_a_policy_follows_the_demand_up_and_down():
    rng = np.random.default_rng(1)
    slow, fast = np.cumsum(rng.exponential(1 / 5, 1000)), np.cumsum(rng.exponential(1 / 60, 6000))
    arrivals = np.concatenate([slow, slow[-1] + fast, slow[-1] + fast[-1] + np.cumsum(rng.exponential(1 / 5, 2000))])
    policy = Policy(goodput_per_s=20.0, every_s=5, window_s=20, start_s=10)
    found = scale(arrivals, policy, STEPS.time_s, STEPS.most)
    counts = [count for _, count in found.replicas]
    assert counts[0] == 1
    assert 3 <= max(counts) <= 6
    assert counts[-1] < max(counts)
    assert found.share(LIMIT_S) > 0.6
    assert serve(arrivals, 1, STEPS.time_s, STEPS.most).share(LIMIT_S) < 0.5
    # More than the fewest replicas all the time, fewer than the most.
    assert found.end_s < found.replica_s < max(counts) * found.end_s
    # A slow start costs requests.
    assert scale(arrivals, Policy(goodput_per_s=20.0, every_s=5, window_s=20, start_s=120), STEPS.time_s, 4).share(
        LIMIT_S
    ) < found.share(LIMIT_S)


def test_replicas_by_formula():
    assert sizing.replicas_for(100, 0.2, 10) == 12
    assert sizing.replicas_for(100.1, 0.2, 10) == 13
    assert sizing.replicas_for(0.1, 0, 10) == 1


def test_availability_is_binomial():
    exact = sum(math.comb(5, up) * 0.9**up * 0.1 ** (5 - up) for up in range(3, 6))
    assert sizing.at_least(3, 5, 0.9) == pytest.approx(exact, rel=1e-12)
    assert sizing.with_spares(3, 0.9, 0.99) == 5
    assert sizing.with_spares(3, 1.0, 0.999) == 3
    assert sizing.at_least(3, 3, 0.9) == pytest.approx(0.729)
    with pytest.raises(UsageError, match="got 0 and 0.9"):
        sizing.with_spares(3, 0, 0.9)


def test_times_between_measured_batches_are_interpolated():
    assert STEPS.time_s(3) == pytest.approx(10 * 0.014)
    assert STEPS.time_s(4) == pytest.approx(0.16)
    with pytest.raises(UsageError, match="a batch of 5 is larger than any measured one, 4"):
        STEPS.time_s(5)


def test_points_behind_the_first_miss_do_not_count():
    points = [(1, 1.0), (2, 2.0), (3, 2.0), (4, 4.0)]
    curve = sizing.LoadCurve(
        file="'f'",
        points=tuple(sizing.LoadPoint(rate_per_s=r, goodput_per_s=g, goodput_low=g, goodput_high=g) for r, g in points),
    )
    found = sizing.capacity(curve)
    assert (found.value, found.high, found.bounded) == (2.0, 3, True)


# --- the command


@pytest.fixture
def run(calc):
    return partial(calc, "sizing")


@pytest.fixture
def file(tmp_path):
    points = [{"rate_per_s": rate, "goodput_per_s": good, "goodput_low": 0.95 * good, "goodput_high": good,
               "residence_s": 0.2} for rate, good in ((4, 4), (8, 8), (9, 7))]  # fmt: skip
    steps = {"batch": [1, 2, 4], "seconds": [0.1, 0.12, 0.16]}
    path = tmp_path / "curve.json"
    path.write_text(json.dumps({"points": points, "steps": steps, "limit_s": 0.5}))
    return path


def values(found):
    tables = {table["name"]: table for table in json.loads(found.out)["tables"]}
    return {
        name: {record["cells"]["what"]: record["cells"]["value"] for record in table["records"]}
        for name, table in tables.items()
        if "what" in table["records"][0]["cells"]
    }


def test_the_answer_is_a_range_with_cost_and_watts(run, file):
    found = run(
        file, "--peak", 30, "--headroom", 0, "--available", 0.99, "--rate", 2, "--watts", 500, "--gpus", 2, "--json"
    )
    assert (found.code, found.err) == (0, "")
    cells = values(found)["sizing"]
    needed = cells["replicas for the peak"]
    assert (needed["low"], needed["value"], needed["high"]) == (4, 4, 4)
    spare = cells["replicas with spares"]["value"]
    assert spare == sizing.with_spares(4, 0.99, 0.999) == 5
    assert cells["dollars an hour"]["value"] == spare * 2 * 2
    assert cells["power"]["value"] == spare * 2 * 500
    wide = values(run(file, "--peak", 100, "--headroom", 0, "--json"))["sizing"]["replicas for the peak"]
    assert (wide["low"], wide["value"], wide["high"]) == (math.ceil(100 / 9), 13, math.ceil(100 / 7.6))


def test_without_price_and_power_there_is_no_figure(run, file):
    cells = values(run(file, "--peak", 10, "--json"))["sizing"]
    assert cells["dollars an hour"]["value"] is None
    assert cells["dollars an hour"]["reason"] == "no price; give --rate, or --prices with --gpu"
    assert cells["power"]["reason"] == "no power; give --watts of a GPU"


def test_a_price_of_the_file(run, file):
    found = run(file, "--peak", 10, "--gpu", "nvidia-h100-x2", "--prices", "seed", "--gpus", 2)
    assert found.code == 0
    assert "14.0 USD" in found.out
    assert "Warning: 1 price without date and source: an example, not a fact." in found.out
    assert run(file, "--peak", 10, "--gpu", "nvidia-h200-x1", "--prices", "seed").err == (
        "aiperf: the example 'seed' has no price of 'nvidia-h200-x1'. Add one: aiperf prices add\n"
    )


def test_an_slo_that_no_point_meets_is_1(run, tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text("rate_per_s,goodput_per_s\n2,1.5\n1,0.9\n")
    found = run(path, "--peak", 10)
    assert found.code == 1
    assert found.err == (
        f"aiperf: no measured point of '{path}' meets the SLO: 99 % of requests in time are asked, and the best of 2 points "
        "has 90 % at 1 requests/s. Measure lower rates, or relax the SLO.\n"
    )
    assert run(path, "--peak", 10, "--met", 0.9).code == 0


def test_simulation_trace_and_memory(run, file, tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("# seconds\n" + "\n".join(str(one / 20) for one in range(2000)))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    }))  # fmt: skip
    found = run(file, "--peak", 20, "--simulate", 1000, "--trace", trace, "--start", 5, "--config", config, "--memory",
                "24GiB", "--tokens", 4096, "--out", tmp_path / "sizing.svg", "--json")  # fmt: skip
    assert found.code == 0, found.err
    tables = values(found)
    assert tables["simulation"]["in time"]["value"] > 95
    assert tables["scaling"]["replicas, most"] == 3
    memory = {table["name"]: table for table in json.loads(found.out)["tables"]}["memory"]["records"]
    assert [record["cells"]["fit"] for record in memory[:2]] == ["FITS", "FITS"]
    # Little: 8 requests a second of 0.2 s.
    assert memory[0]["cells"]["concurrency"]["value"] == pytest.approx(1.6)
    assert (tmp_path / "sizing.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "has no points. A point has rate_per_s and goodput_per_s; optional: goodput_low, goodput_high, residence_s."),
        ({"points": [], "slo": 1}, "has 'slo'; known: points, steps, limit_s, about."),
        ({"points": [{"rate_per_s": 1}]}, ", point 1: it needs rate_per_s above 0 and goodput_per_s."),
        ({"points": [{"rate_per_s": 1, "goodput": 1}]}, ", point 1: unknown 'goodput'; known: rate_per_s, goodput_per_s, goodput_low, goodput_high, residence_s."),
        ({"points": [{"rate_per_s": -1, "goodput_per_s": 1}]}, ", point 1: rate_per_s=-1; accepted is a number from 0."),
        ({"points": [{"rate_per_s": 1, "goodput_per_s": 1, "goodput_low": 2}]}, ", point 1: goodput_per_s 1 is outside of its interval [2, 1]."),
        ({"points": [{"rate_per_s": 1, "goodput_per_s": 1}], "limit_s": 0}, "has limit_s=0; accepted is a number of seconds above 0."),
        ({"points": [{"rate_per_s": 1, "goodput_per_s": 1}], "steps": {"batch": [2, 1], "seconds": [1, 1]}}, ": 'steps' has batch (rising whole numbers from 1), seconds (as many, above 0) and per_request (from 1)."),
    ],
)  # fmt: skip
def test_curves_that_are_refused(tmp_path, document, message):
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        sizing.read_curve(path)
    assert str(caught.value) == f"'{path}'{' ' if message[0] not in ',:' else ''}{message}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--peak", 0), "the peak rate must be above 0 and the headroom 0 or more; got 0 and 0.2."),
        (("--peak", 1, "--met", 2), "--met takes the share of requests within the SLO, above 0 and at most 1; got 2."),
        (("--peak", 1, "--available", 1.5), "the availability of a replica must be above 0 and at most 1"),
        (("--peak", 1, "--rate", -1), "--rate must be a number above 0; got -1."),
        (("--peak", 1, "--config", "c.json"), "--config checks the memory of a GPU; it needs --memory SIZE and --tokens"),
        (("--peak", 1, "--trace", "gone.txt"), "cannot read 'gone.txt'"),
        (("--peak", 1, "--rate", 1, "--gpu", "nvidia-h200-x1"), "a price comes from --rate, or from --gpu CLASS"),
    ],
)  # fmt: skip
def test_bad_input(run, file, arguments, message):
    found = run(file, *arguments)
    assert found.code == 2
    assert found.err.startswith(f"aiperf: {message}"), found.err


def test_a_simulation_needs_times_of_steps(run, tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text("rate_per_s,goodput_per_s\n1,1\n")
    found = run(path, "--peak", 1, "--simulate", 10)
    assert found.code == 2
    assert found.err.startswith(
        f"aiperf: --simulate needs the measured times of steps and the limit of the SLO; '{path}'"
    )
    with pytest.raises(AiperfError, match="begins at 0"):
        sizing.size(sizing.LoadCurve(file="f", points=(sizing.LoadPoint(
            rate_per_s=1, goodput_per_s=1, goodput_low=0, goodput_high=1),)), 1)  # fmt: skip
