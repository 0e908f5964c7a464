"""The `benchmarks.json` of GuideLLM: one load for each of its benchmarks."""

from aiperf_core.errors import UsageError
from aiperf_load.foreign.fields import Fields
from aiperf_load.foreign.points import Summary
from aiperf_load.intervals import PERCENTILES
from aiperf_load.spec import Arrivals

NOTES = [
    "GuideLLM's inter_token_latency_ms is the mean of a request without its first token, and stands under TPOT; its "
    "time_per_output_token_ms has the first token in it, and is left out",
]
# GuideLLM's names, and how many seconds their units are.
_LATENCIES = {"ttft_s": ("time_to_first_token_ms", 1e-3), "tpot_s": ("inter_token_latency_ms", 1e-3),
              "e2e_s": ("request_latency", 1.0)}  # fmt: skip
_PERCENTILES = {name: name.replace(".", "") for name in PERCENTILES}


_STRATEGIES = ("constant", "poisson", "synchronous", "concurrent", "throughput")


def summaries(file: Fields) -> list[Summary]:
    """The loads of a document. Raises UsageError for a value that it cannot have."""
    left_out = _left_out(file)
    return [_summary(one) for one in file.each("benchmarks") if one.place not in left_out]


def notes(file: Fields) -> list[str]:
    """The benchmarks of a document that are left out."""
    return [
        f"{place} of '{file.file}' is left out: its strategy is '{kind}'; read are {', '.join(_STRATEGIES)}"
        for place, kind in _left_out(file).items()
    ]


def _left_out(file: Fields) -> dict[str, str]:
    """The places of benchmarks whose strategy is not known, where others are. Raises UsageError for an old file."""
    kinds = {}
    for one in file.each("benchmarks"):
        if not one.has("config"):
            raise UsageError(
                f"'{file.file}': {one.place} has no config, as in results of GuideLLM 0.3 and older. Read are those of "
                "0.4 and newer; measure again with one of these."
            )
        kinds[one.place] = _kind(one.within("config").within("strategy"))
    unknown = {place: kind for place, kind in kinds.items() if kind not in _STRATEGIES}
    return unknown if len(unknown) < len(kinds) else {}


def _kind(strategy: Fields) -> str:
    return strategy.text("type_") or strategy.text("kind")


def _summary(one: Fields) -> Summary:
    metrics, config = one.within("metrics"), one.within("config")
    totals = metrics.within("request_totals")
    arrivals, cap = _arrivals(config.within("strategy"))
    latencies = {name: _percentiles(metrics, key, unit) for name, (key, unit) in _LATENCIES.items()}
    backend = config.within("backend") if config.has("backend") else None
    residence = metrics.within("request_latency").within("successful")
    return Summary(
        url=backend.text("target") if backend else "",
        model=backend.text("model") if backend else "",
        arrivals=arrivals,
        cap=cap,
        duration_s=_duration(one),
        input_tokens=_range(metrics, "prompt_token_count"),
        output_tokens=_range(metrics, "output_token_count"),
        ok=totals.whole("successful"),
        failed=totals.whole("errored"),
        interrupted=totals.whole("incomplete"),
        latencies=latencies,
        output_tokens_per_s=_mean(metrics, "output_tokens_per_second"),
        input_tokens_per_s=_mean(metrics, "prompt_tokens_per_second"),
        in_flight=_mean(metrics, "request_concurrency"),
        residence_s=residence.time("mean") if residence.has("mean") else None,
    )


def _duration(one: Fields) -> float:
    """The measured time, from one of the two places in which versions of GuideLLM have it."""
    if one.has("duration"):
        return one.above_zero("duration")
    times = one.within("scheduler_metrics")
    begin_s, end_s = times.number("measure_start_time"), times.number("measure_end_time")
    if end_s <= begin_s:
        raise times.wrong("measure_end_time", "a time after measure_start_time")
    return end_s - begin_s


def _mean(metrics: Fields, key: str) -> float:
    return metrics.within(key).within("successful").number("mean")


def _range(metrics: Fields, key: str) -> tuple[int, int]:
    values = metrics.within(key).within("successful")
    return int(values.number("min")), int(values.number("max"))


def _percentiles(metrics: Fields, key: str, unit_s: float) -> dict[str, float]:
    values = metrics.within(key).within("successful").within("percentiles")
    return {name: values.time(theirs) * unit_s for name, theirs in _PERCENTILES.items() if values.has(theirs)}


def _arrivals(strategy: Fields) -> tuple[Arrivals, int | None]:
    """The arrivals of a strategy, and its cap on the requests in flight."""
    cap = strategy.whole("max_concurrency") if strategy.has("max_concurrency") else None
    match _kind(strategy):
        case "constant" | "poisson" as kind:
            return Arrivals(kind=kind, rate_per_s=strategy.above_zero("rate")), cap
        case "synchronous":
            return Arrivals(kind="closed", clients=1), None
        case "concurrent":
            return Arrivals(kind="closed", clients=strategy.whole("streams")), None
        case "throughput":
            return Arrivals(kind="at-once"), cap
        case _:
            key = "type_" if strategy.has("type_") else "kind"
            raise strategy.wrong(key, ", ".join(_STRATEGIES))
