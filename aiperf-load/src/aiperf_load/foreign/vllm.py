"""The JSON of `vllm bench serve --save-result`, with `--append-result` several in a file."""

from typing import Any

from aiperf_load.foreign.fields import Fields
from aiperf_load.foreign.points import Summary
from aiperf_load.intervals import PERCENTILES
from aiperf_load.spec import Arrivals

NOTES = [
    "vllm bench serve counts latency from the moment of sending: under --max-concurrency the wait for a place is in no "
    "latency",
    "the duration of vllm bench serve lasts until the last answer, so that its rates are below those of the arrivals",
]
# SGLang's bench_serving, which descends from this tool, has another name for the last.
_LATENCIES = {"ttft_s": ("ttft",), "itl_s": ("itl",), "tpot_s": ("tpot",), "e2e_s": ("e2el", "e2e_latency")}


def summaries(file: Fields) -> list[Summary]:
    """The load of a document. Raises UsageError for a value that it cannot have."""
    duration_s, ok = file.above_zero("duration"), file.whole("completed")
    cap = file.whole("max_concurrency") if file.has("max_concurrency") else None
    # Older versions tell no failed requests, but those that were asked for; SGLang's tells neither.
    asked = file.whole("num_prompts") if file.has("num_prompts") else ok
    failed = file.whole("failed") if file.has("failed") else max(0, asked - ok)
    latencies = {name: _percentiles(file, metrics) for name, metrics in _LATENCIES.items()}
    reasons = []
    if not file.has("failed") and not file.has("num_prompts"):
        reasons.append("the file does not tell how many requests failed; none is assumed")
    if cap is not None and file.content.get("request_rate") != "inf":
        reasons.append(f"at most {cap} requests in flight; the wait for a place is in no latency")
    return [
        Summary(
            model=file.text("model_id"),
            started=file.text("date"),
            arrivals=_arrivals(file, cap),
            cap=cap,
            duration_s=duration_s,
            input_tokens=_range(file, "input_lens"),
            output_tokens=_range(file, "output_lens"),
            ok=ok,
            failed=failed,
            latencies=latencies,
            output_tokens_per_s=file.number("output_throughput"),
            input_tokens_per_s=file.number("total_input_tokens") / duration_s,
            # Older versions wrote its key with a colon.
            goodput_per_s=file.optional("request_goodput:" if file.has("request_goodput:") else "request_goodput"),
            residence_s=file.time("mean_e2el_ms") / 1000 if file.has("mean_e2el_ms") else None,
            reasons=reasons,
        )
    ]


def _percentiles(file: Fields, metrics: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in PERCENTILES:
        for metric in metrics:
            for key in (f"{name}_{metric}_ms", f"median_{metric}_ms" if name == "p50" else ""):
                if file.has(key):
                    found.setdefault(name, file.time(key) / 1000)
    return found


def _arrivals(file: Fields, cap: int | None) -> Arrivals:
    if file.content.get("request_rate") in ("inf", float("inf")):
        # All requests are sent at once, and a cap lets the next in when one ended: a closed loop.
        return Arrivals(kind="closed", clients=cap) if cap is not None else Arrivals(kind="at-once")
    rate, shape = file.above_zero("request_rate"), file.optional("burstiness")
    if shape is None or shape == 1:
        return Arrivals(kind="poisson", rate_per_s=rate)
    return Arrivals(kind="gamma", rate_per_s=rate, burstiness=shape)


def _range(file: Fields, key: str) -> tuple[int, int]:
    """The smallest and largest of a list of numbers that only `--save-detailed` writes."""
    values: Any = file.content.get(key)
    if values is None:
        return 0, 0
    if not isinstance(values, list) or not all(type(one) is int and one >= 0 for one in values):
        raise file.wrong(key, "a list of whole numbers from 0")
    return (min(values), max(values)) if values else (0, 0)
