"""`aiperf load import`: results of other tools in the shapes that these write, and files that are none of them."""

import copy
import json

import pytest
from attrs import evolve

from aiperf_core.errors import UsageError
from aiperf_core.results.bundle import Bundle
from aiperf_load import keeping
from aiperf_load.foreign import imported
from aiperf_load.intervals import Figure
from aiperf_load.spec import Arrivals

VLLM = {
    "date": "20261101-120000", "backend": "openai", "model_id": "acme/small", "num_prompts": 1010, "request_rate": 20.0,
    "burstiness": 1.0, "max_concurrency": None, "duration": 50.0, "completed": 1000, "failed": 10,
    "total_input_tokens": 128000, "total_output_tokens": 64000, "request_throughput": 20.0, "request_goodput": 18.0,
    "output_throughput": 1280.0, "total_token_throughput": 3840.0, "mean_ttft_ms": 61.0, "median_ttft_ms": 60.0,
    "p99_ttft_ms": 110.0, "mean_tpot_ms": 10.2, "median_tpot_ms": 10.0, "p99_tpot_ms": 12.0, "median_itl_ms": 9.0,
    "p99_itl_ms": 30.0, "mean_e2el_ms": 700.0, "median_e2el_ms": 690.0, "p99_e2el_ms": 810.0,
}  # fmt: skip


def spread(mean, p50, p99, **more):
    values = {"mean": mean, "median": p50, "min": p50, "max": p99, "count": 500,
              "percentiles": {"p50": p50, "p95": p99, "p99": p99, "p999": p99}, **more}  # fmt: skip
    return {"successful": values, "incomplete": None, "errored": None, "total": values}


GUIDELLM = {
    "metadata": {"version": 1},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "config": {
                "strategy": {"type_": "poisson", "rate": 12.5, "max_concurrency": 512},
                "backend": {"target": "http://gpu:8000", "model": "acme/small"},
            },
            "duration": 40.0,
            "metrics": {
                "request_totals": {"successful": 500, "errored": 2, "incomplete": 3, "total": 505},
                "requests_per_second": spread(12.4, 12.4, 12.6),
                "request_concurrency": spread(9.0, 9.0, 14.0),
                "request_latency": spread(0.7, 0.69, 0.81),
                "prompt_token_count": spread(128, 128, 140),
                "output_token_count": spread(64, 64, 64),
                "time_to_first_token_ms": spread(61.0, 60.0, 110.0),
                "inter_token_latency_ms": spread(10.2, 10.0, 12.0),
                "time_per_output_token_ms": spread(11.0, 10.9, 13.0),
                "prompt_tokens_per_second": spread(1600.0, 1600.0, 1700.0),
                "output_tokens_per_second": spread(800.0, 800.0, 900.0),
            },
        }
    ],
}

NVIDIA = {
    "schema_version": "1.0", "aiperf_version": "0.13.0",
    "request_throughput": {"unit": "requests/sec", "avg": 25.0},
    "request_latency": {"unit": "ms", "avg": 700.0, "p50": 690.0, "p90": 750.0, "p95": 780.0, "p99": 810.0},
    "request_count": {"unit": "requests", "avg": 2000.0},
    "time_to_first_token": {"unit": "ms", "avg": 61.0, "p50": 60.0, "p90": 80.0, "p95": 90.0, "p99": 110.0},
    "inter_token_latency": {"unit": "ms", "avg": 10.2, "p50": 10.0, "p90": 11.0, "p95": 11.5, "p99": 12.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1600.0},
    "input_sequence_length": {"unit": "tokens", "avg": 128.0, "min": 128, "max": 128},
    "output_sequence_length": {"unit": "tokens", "avg": 64.0, "min": 60, "max": 64},
    "benchmark_duration": {"unit": "sec", "avg": 80.0},
    "error_request_count": {"unit": "requests", "avg": 4.0},
    "input_config": {"endpoint": {"model_names": ["acme/small"]}, "loadgen": {"concurrency": 16}},
    "was_cancelled": False, "start_time": "2026-11-01T12:00:00", "end_time": "2026-11-01T12:01:20",
}  # fmt: skip
FILES = {"vllm": VLLM, "guidellm": GUIDELLM, "aiperf": NVIDIA}


@pytest.fixture
def imports(aiperf, tmp_path):
    """Import documents of a tool; what the command printed, and its bundle."""

    def run(tool, *documents, more=()):
        files = []
        for number, document in enumerate(documents):
            files.append(tmp_path / f"{tool}{number}.json")
            files[-1].write_text(document if isinstance(document, str) else json.dumps(document))
        out = tmp_path / "b"
        return aiperf("load", "import", "--from", tool, *files, "--out", out, *more), out

    return run


def points(out):
    return keeping.read(Bundle.open(out).document("load", "server")).points


def test_a_result_of_vllm(imports):
    done, out = imports("vllm", VLLM)
    assert done.code == 0, done.err
    (one,) = points(out)
    assert (one.trusted, one.state, one.started) == (False, "UNCLEAR", "20261101-120000")
    assert one.reasons == ["UNTRUSTED: measured by vllm bench serve, whose lateness is not known"]
    assert one.spec.arrivals == Arrivals(kind="poisson", rate_per_s=20.0)
    assert one.outcomes == {"OK": 1000, "FAILED": 10}
    assert one.latencies["ttft_s"]["p50"] == Figure(value=0.06, reason="vllm bench serve tells no interval")
    assert one.latencies["ttft_s"]["p99"].value == pytest.approx(0.11)
    assert one.latencies["itl_s"]["p99"].value == pytest.approx(0.03)
    assert one.latencies["ttft_s"]["p90"] == Figure(reason="vllm bench serve tells none")
    assert one.goodput_per_s == Figure(value=18.0)
    assert one.goodput_share.value == pytest.approx(18.0 / 20.2)
    assert (one.output_tokens_per_s, one.input_tokens_per_s, one.residence_s) == (1280.0, 2560.0, 0.7)
    assert "foreign: measured by vllm bench serve" in done.out


def test_vllm_without_a_rate_is_a_closed_loop_of_its_cap(imports):
    _, out = imports("vllm", VLLM | {"request_rate": "inf", "max_concurrency": 8})
    (one,) = points(out)
    assert (one.spec.arrivals, one.spec.rules.cap) == (Arrivals(kind="closed", clients=8), 8)


def test_goodput_is_read_under_the_key_of_old_versions(imports):
    _, out = imports("vllm", {("request_goodput:" if key == "request_goodput" else key): VLLM[key] for key in VLLM})
    assert points(out)[0].goodput_per_s == Figure(value=18.0)


def test_a_byte_order_mark_is_no_part_of_a_result(tmp_path):
    file = tmp_path / "f.json"
    file.write_bytes(json.dumps(VLLM).encode("utf-8-sig"))
    assert keeping.points(imported("vllm", [file]))[0].goodput_per_s == Figure(value=18.0)
    file.write_bytes(json.dumps(VLLM).encode("utf-16"))
    with pytest.raises(UsageError, match="is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8."):
        imported("vllm", [file])


def test_a_result_of_sglang_is_read_as_its_ancestor_s(imports):
    theirs = {key.replace("e2el", "e2e_latency"): VLLM[key] for key in VLLM if key not in ("failed", "num_prompts")}
    _, out = imports("vllm", theirs)
    (one,) = points(out)
    assert one.latencies["e2e_s"]["p50"].value == 0.69
    assert (one.outcomes, one.reasons[1:]) == (
        {"OK": 1000}, ["the file does not tell how many requests failed; none is assumed"],
    )  # fmt: skip


@pytest.mark.parametrize(("tool", "place", "keys"), [
    ("vllm", (), ("median_tpot_ms", "mean_e2el_ms")),
    ("guidellm", ("benchmarks", 0, "metrics", "inter_token_latency_ms", "successful", "percentiles"), ("p50",)),
    ("aiperf", ("inter_token_latency",), ("p50",)),
])  # fmt: skip
def test_a_time_below_0_is_left_out_and_the_rest_read(imports, tool, place, keys):
    changed = copy.deepcopy(FILES[tool])
    within = changed
    for step in place:
        within = within[step]
    within |= dict.fromkeys(keys, -0.0001)
    done, out = imports(tool, changed)
    assert done.code == 0, done.err
    (one,) = points(out)
    origin = {"vllm": "vllm bench serve", "guidellm": "GuideLLM", "aiperf": "NVIDIA aiperf"}[tool]
    assert one.latencies["tpot_s"]["p50"] == Figure(reason=f"{origin} tells -0.0001 ms, which is no time")
    assert one.user_tokens_per_s == Figure(reason=f"{origin} tells -0.0001 ms, which is no time")
    assert one.latencies["ttft_s"]["p50"].value == 0.06
    assert one.residence_s is None or tool != "vllm"


def test_a_cap_of_vllm_is_told(imports):
    _, out = imports("vllm", VLLM | {"max_concurrency": 8, "burstiness": 0.5})
    (one,) = points(out)
    assert one.spec.arrivals == Arrivals(kind="gamma", rate_per_s=20.0, burstiness=0.5)
    assert one.reasons[1:] == ["at most 8 requests in flight; the wait for a place is in no latency"]


def test_several_results_become_points_of_one_load(imports):
    slow = VLLM | {"request_rate": 5.0, "input_lens": [7, 9], "output_lens": [4, 0]}
    _, out = imports("vllm", json.dumps(VLLM) + "\n" + json.dumps(slow), VLLM | {"date": "20261102-120000"})
    found = points(out)
    assert [one.spec.arrivals.rate_per_s for one in found] == [20.0, 5.0, 20.0]
    work = found[1].spec.workload
    assert (work.input_low, work.input_high, work.output_low, work.output_high) == (7, 9, 0, 4)


def test_a_result_of_guidellm(imports):
    done, out = imports("guidellm", GUIDELLM)
    assert done.code == 0, done.err
    (one,) = points(out)
    assert not one.trusted
    assert (one.spec.server.url, one.spec.server.model, one.spec.rules.cap) == ("http://gpu:8000", "acme/small", 512)
    assert one.spec.arrivals == Arrivals(kind="poisson", rate_per_s=12.5)
    assert one.outcomes == {"OK": 500, "FAILED": 2, "INTERRUPTED": 3}
    assert one.latencies["ttft_s"]["p95"].value == pytest.approx(0.11)
    assert one.latencies["ttft_s"]["p99"] == Figure(reason="needs 1,000 requests, 500 were counted")
    assert one.latencies["tpot_s"]["p50"].value == pytest.approx(0.01)
    assert one.latencies["e2e_s"]["p50"].value == pytest.approx(0.69)
    assert one.latencies["itl_s"]["p50"] == Figure(reason="GuideLLM tells none")
    assert one.goodput_per_s == Figure(reason="GuideLLM tells no goodput")
    assert (one.in_flight, one.offered_per_s) == (9.0, 502 / 40)


@pytest.mark.parametrize(("strategy", "arrivals"), [
    ({"type_": "synchronous"}, Arrivals(kind="closed", clients=1)),
    ({"type_": "concurrent", "streams": 4}, Arrivals(kind="closed", clients=4)),
    ({"kind": "throughput"}, Arrivals(kind="at-once")),
    ({"kind": "constant", "rate": 3}, Arrivals(kind="constant", rate_per_s=3.0)),
])  # fmt: skip
def test_strategies_of_guidellm(imports, strategy, arrivals):
    changed = copy.deepcopy(GUIDELLM)
    changed["benchmarks"][0]["config"]["strategy"] = strategy
    del changed["benchmarks"][0]["duration"]
    changed["benchmarks"][0]["scheduler_metrics"] = {"measure_start_time": 100.0, "measure_end_time": 140.0}
    _, out = imports("guidellm", changed)
    (one,) = points(out)
    assert (one.spec.arrivals, one.spec.rules.duration_s) == (arrivals, 40.0)


def test_a_benchmark_of_guidellm_with_another_strategy_is_left_out_with_a_note(imports):
    replayed = copy.deepcopy(GUIDELLM["benchmarks"][0])
    replayed["config"]["strategy"] = {"type_": "trace", "file": "t.jsonl"}
    done, out = imports("guidellm", {"benchmarks": [replayed, *GUIDELLM["benchmarks"]]})
    assert done.code == 0, done.err
    assert [one.spec.arrivals.kind for one in points(out)] == ["poisson"]
    note = (
        f"benchmarks[0] of '{out.parent}/guidellm0.json' is left out: its strategy is 'trace'; read are constant, "
        "poisson, synchronous, concurrent, throughput"
    )
    assert note in keeping.read(Bundle.open(out).document("load", "server")).notes


def test_a_result_of_nvidia(imports):
    done, out = imports("aiperf", NVIDIA)
    assert done.code == 0, done.err
    (one,) = points(out)
    assert not one.trusted
    assert one.spec.arrivals == Arrivals(kind="closed", clients=16)
    assert one.outcomes == {"OK": 2000, "FAILED": 4}
    assert one.latencies["tpot_s"]["p99"].value == pytest.approx(0.012)
    assert one.latencies["itl_s"]["p50"] == Figure(reason="NVIDIA aiperf tells none")
    assert (one.output_tokens_per_s, one.input_tokens_per_s, one.residence_s) == (1600.0, 3200.0, pytest.approx(0.7))
    assert one.user_tokens_per_s.value == pytest.approx(100.0)


def test_an_import_is_sealed_rechecked_shown_and_never_trusted(aiperf, imports, tmp_path):
    _, out = imports("aiperf", NVIDIA, more=("--csv", tmp_path / "points.csv"))
    assert aiperf("recheck", out).code == 0
    assert "foreign: measured by NVIDIA aiperf" in aiperf("load", "show", out).out
    assert (tmp_path / "points.csv").read_text().splitlines()[1].startswith("p000,closed,,25.05,2004,UNCLEAR,False,,")
    bundle = Bundle.open(out)
    document = bundle.document("load", "server")
    result = keeping.read(document)
    lie = evolve(result, points=[evolve(result.points[0], trusted=True)])
    keeping.write(bundle, "server", lie, {})
    found = list(keeping.recheck(bundle, bundle.manifest, bundle.document("load", "server")))
    assert [(one.what, one.recorded) for one in found] == [("trusted", "true")]


END = "Name the file that the tool wrote, and the tool with --from."


@pytest.mark.parametrize(("tool", "content", "message"), [
    ("vllm", "", "'{file}' is empty. Name a JSON file of vllm bench serve."),
    ("vllm", "[1]", "'{file}' holds list; a result of vllm bench serve is an object."),
    ("vllm", "{", "'{file}' is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1). "
                  "Name a JSON file of vllm bench serve."),
    ("vllm", NVIDIA, "'{file}' is no result of vllm bench serve: duration is missing; accepted is a number from 0. "
                     + END),
    ("guidellm", VLLM, "'{file}' is no result of GuideLLM: benchmarks is missing; accepted is a list of objects, at "
                       "least one. " + END),
    ("guidellm", {"benchmarks": [{"type_": "generative_benchmark", "args": {"strategy": {}}, "run_stats": {}}]},
     "'{file}': benchmarks[0] has no config, as in results of GuideLLM 0.3 and older. Read are those of 0.4 and newer; "
     "measure again with one of these."),
    ("guidellm", {"benchmarks": [{"config": {"strategy": {"type_": "trace"}}, "metrics": {"request_totals": {}}}]},
     "'{file}' is no result of GuideLLM: benchmarks[0].config.strategy.type_ is 'trace'; accepted is constant, poisson, "
     "synchronous, concurrent, throughput. " + END),
    ("vllm", VLLM | {"p99_ttft_ms": -1e300}, "'{file}' is no result of vllm bench serve: p99_ttft_ms is -1e+300; accepted "
                                             "is a number from 0. " + END),
    ("aiperf", GUIDELLM, "'{file}' is no result of NVIDIA aiperf: request_count is missing; accepted is an object. "
                         + END),
    ("vllm", VLLM | {"completed": 1.5}, "'{file}' is no result of vllm bench serve: completed is 1.5; accepted is a "
                                        "whole number from 0. " + END),
    ("vllm", VLLM | {"p99_ttft_ms": float("nan")}, "'{file}' is no result of vllm bench serve: p99_ttft_ms is nan; "
                                                   "accepted is a number from 0. " + END),
    ("aiperf", NVIDIA | {"request_latency": {"unit": "weeks", "avg": 1.0}},
     "'{file}' is no result of NVIDIA aiperf: request_latency.unit is 'weeks'; accepted is s, sec, ms, us, ns. " + END),
])  # fmt: skip
def test_a_wrong_file_is_named_in_one_paragraph(imports, tmp_path, tool, content, message):
    done, out = imports(tool, content)
    assert (done.code, done.err) == (2, "aiperf: " + message.replace("{file}", str(tmp_path / f"{tool}0.json")) + "\n")
    assert not out.exists()


def missing_forms(document, wrongs=(None, "x", [], {}, -1, True)):
    """The document once for each of its values, with that value replaced by another kind."""
    for key, value in document.items():
        for wrong in wrongs:
            yield document | {key: wrong}
        if isinstance(value, dict):
            for inner in missing_forms(value, ("x",)):
                yield document | {key: inner}


@pytest.mark.parametrize("tool", FILES)
def test_no_wrong_value_gives_a_traceback(tool, tmp_path):
    file, refused = tmp_path / "f.json", 0
    whole = FILES[tool]["benchmarks"][0] if tool == "guidellm" else FILES[tool]
    for changed in missing_forms(whole):
        file.write_text(json.dumps({"benchmarks": [changed]} if tool == "guidellm" else changed))
        try:
            keeping.points(imported(tool, [file]))
        except UsageError:
            refused += 1
    assert refused > 20


def test_a_tool_that_is_not_known_and_a_file_named_twice(aiperf, tmp_path):
    file = tmp_path / "f.json"
    file.write_text(json.dumps(VLLM))
    done = aiperf("load", "import", "--from", "wrk", file)
    assert (done.code, done.err) == (2, "aiperf: --from takes vllm, guidellm, aiperf; got 'wrk'.\n")
    done = aiperf("load", "import", "--from", "vllm", file, file)
    assert done.err == f"aiperf: '{file}' has the same content as a file before it; name each result once.\n"
    done = aiperf("load", "import", "--from", "vllm", tmp_path / "none.json")
    assert done.err == (
        f"aiperf: cannot read '{tmp_path}/none.json': No such file or directory. Name "
        "a JSON file of vllm bench serve.\n"
    )
