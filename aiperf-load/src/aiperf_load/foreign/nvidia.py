"""The `profile_export_aiperf.json` of NVIDIA's aiperf: one load."""

from aiperf_load.foreign.fields import Fields
from aiperf_load.foreign.points import Summary
from aiperf_load.intervals import PERCENTILES
from aiperf_load.spec import Arrivals

NOTES = [
    "NVIDIA aiperf's inter_token_latency is the mean of a request, and stands under TPOT; its inter_chunk_latency, "
    "where there is one, stands under ITL",
]
_LATENCIES = {"ttft_s": "time_to_first_token", "itl_s": "inter_chunk_latency", "tpot_s": "inter_token_latency",
              "e2e_s": "request_latency"}  # fmt: skip
_UNITS_S = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def summaries(file: Fields) -> list[Summary]:
    """The load of a document. Raises UsageError for a value that it cannot have."""
    ok = _average(file, "request_count")
    assert ok is not None
    duration_s = _duration(file, ok)
    inputs = _average(file, "input_sequence_length", needed=False)
    arrivals, cap = _arrivals(file)
    latency = file.within("request_latency")
    output = _average(file, "output_token_throughput")
    assert output is not None
    return [
        Summary(
            model=_model(file),
            started=file.text("start_time"),
            arrivals=arrivals,
            cap=cap,
            duration_s=duration_s,
            input_tokens=_range(file, "input_sequence_length"),
            output_tokens=_range(file, "output_sequence_length"),
            ok=int(ok),
            failed=int(_average(file, "error_request_count", needed=False) or 0),
            latencies={name: _percentiles(file, key) for name, key in _LATENCIES.items() if file.has(key)},
            output_tokens_per_s=output,
            input_tokens_per_s=None if inputs is None else inputs * ok / duration_s,
            goodput_per_s=_average(file, "goodput", needed=False),
            residence_s=latency.time("avg") * _unit(latency),
            reasons=["the run was cancelled"] if file.content.get("was_cancelled") is True else [],
        )
    ]


def _average(file: Fields, key: str, *, needed: bool = True) -> float | None:
    return file.within(key).number("avg") if needed or file.has(key) else None


def _duration(file: Fields, requests: float) -> float:
    if file.has("benchmark_duration"):
        values = file.within("benchmark_duration")
        return values.above_zero("avg") * _unit(values)
    # Older versions tell the rate alone.
    rate = file.within("request_throughput").above_zero("avg")
    if not requests:
        raise file.within("request_count").wrong("avg", "a number above 0")
    return requests / rate


def _unit(values: Fields) -> float:
    """How many seconds the unit of a metric is."""
    unit = values.text("unit")
    if unit not in _UNITS_S:
        raise values.wrong("unit", ", ".join(_UNITS_S))
    return _UNITS_S[unit]


def _percentiles(file: Fields, key: str) -> dict[str, float]:
    values = file.within(key)
    unit_s = _unit(values)
    return {name: values.time(name) * unit_s for name in PERCENTILES if values.has(name)}


def _range(file: Fields, key: str) -> tuple[int, int]:
    if not file.has(key):
        return 0, 0
    values = file.within(key)
    least, most = values.optional("min"), values.optional("max")
    return (0, 0) if least is None or most is None else (int(least), int(most))


def _model(file: Fields) -> str:
    """The names of the models, where the configuration has them."""
    if not file.has("input_config"):
        return ""
    endpoint = file.within("input_config").content.get("endpoint")
    names = endpoint.get("model_names") if isinstance(endpoint, dict) else None
    return ", ".join(map(str, names)) if isinstance(names, list) else ""


def _arrivals(file: Fields) -> tuple[Arrivals, int | None]:
    """The arrivals of the configuration, and its cap on the requests in flight."""
    config = file.within("input_config") if file.has("input_config") else None
    if config is None or not config.has("loadgen"):
        return Arrivals(kind="unknown"), None
    loadgen = config.within("loadgen")
    cap = loadgen.whole("concurrency") if loadgen.has("concurrency") else None
    rate = loadgen.optional("request_rate")
    if not rate:
        return (Arrivals(kind="unknown"), None) if cap is None else (Arrivals(kind="closed", clients=cap), None)
    mode = loadgen.text("arrival_pattern") or loadgen.text("request_rate_mode") or "poisson"
    if mode == "gamma":
        return Arrivals(kind="gamma", rate_per_s=rate, burstiness=loadgen.optional("arrival_smoothness")), cap
    return Arrivals(kind=mode, rate_per_s=rate), cap
