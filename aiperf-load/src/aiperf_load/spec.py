"""Description of a load: the server, the requests, their arrivals, the limits, and the rules of the measurement.

The records are plain data in SI units. They are stored with the results, so that a point can be repeated.
"""

import math

from attrs import frozen

from aiperf_core.errors import UsageError

ENDPOINTS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
ARRIVALS = ("poisson", "gamma", "constant", "trace", "closed")
LIMITS = ("ttft_s", "tpot_s", "e2e_s", "gap_s")


@frozen(kw_only=True)
class Server:
    """The server under load.

    url: its root, such as `http://127.0.0.1:8000`, also with `/v1`.
    endpoint: `completions` or `chat`.
    model: the name of the model in requests.
    """

    url: str
    endpoint: str = "completions"
    model: str = "default"


def asked_url(server: Server) -> str:
    """The URL of requests."""
    return server.url.rstrip("/").removesuffix("/v1").rstrip("/") + ENDPOINTS[server.endpoint]


@frozen(kw_only=True)
class Workload:
    """The requests.

    input_low, input_high: tokens of a prompt, drawn uniformly between the two, both included.
    output_low, output_high: tokens of an answer, drawn in the same way.
    prompt: `ids` sends token ids, which have an exact number; `words` sends text of that number of words.
    vocabulary: ids and words are below this number.
    shared_prefix: tokens at the begin of all prompts that are the same; 0 makes the begin of each prompt unique.
    exact_output: whether the server must give the requested number of tokens, and not stop before.
    tokenizer: what counts the tokens of an answer: `words`, or `module:function`; null counts by the server's `usage`.
    """

    input_low: int = 128
    input_high: int = 128
    output_low: int = 64
    output_high: int = 64
    prompt: str = "ids"
    vocabulary: int = 1000
    shared_prefix: int = 0
    exact_output: bool = True
    tokenizer: str | None = None


@frozen(kw_only=True)
class Arrivals:
    """When requests arrive.

    kind: `poisson`, `gamma`, `constant`, `trace` or `closed`; of a foreign result also `at-once` or `unknown`.
    rate_per_s: requests a second; null for a trace and a closed loop.
    burstiness: of `gamma`: the shape of the gaps' distribution. 1 is Poisson, smaller is burstier.
    clients: of `closed`: each sends its next request when the last one ended.
    trace: the file of recorded arrivals.
    """

    kind: str = "poisson"
    rate_per_s: float | None = None
    burstiness: float | None = None
    clients: int | None = None
    trace: str | None = None


@frozen(kw_only=True)
class Limits:
    """The limits of a service: a request is good when it keeps all that are given.

    ttft_s: from the scheduled arrival to the first token.
    tpot_s: the mean time of a token after the first.
    e2e_s: from the scheduled arrival to the last token.
    gap_s: the longest gap between two tokens.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    gap_s: float | None = None


@frozen(kw_only=True)
class Rules:
    """How a point is measured; stated before it starts.

    duration_s: requests arrive during this time; all of them are followed to their end.
    warmup_s: requests that arrive within this time from the start are not counted.
    timeout_s: the longest time from the scheduled arrival to the end.
    cap: the largest number of requests in flight; more of them wait in the generator, and the wait counts. Null: no
        cap.
    processes: processes of the generator.
    seed: draws arrivals, lengths and prompts.
    """

    duration_s: float = 60.0
    warmup_s: float = 6.0
    timeout_s: float = 60.0
    cap: int | None = None
    processes: int = 1
    seed: int = 1


@frozen(kw_only=True)
class LoadSpec:
    """Everything that a point is made of."""

    server: Server
    workload: Workload = Workload()
    arrivals: Arrivals = Arrivals()
    limits: Limits = Limits()
    rules: Rules = Rules()


def check(spec: LoadSpec) -> None:
    """Raise UsageError for values that no load can have."""
    work, rules, arrivals = spec.workload, spec.rules, spec.arrivals
    _check_server(spec.server)
    for name, low, high in (("input", work.input_low, work.input_high), ("output", work.output_low, work.output_high)):
        if not 1 <= low <= high <= 10_000_000:
            raise UsageError(f"--{name}-tokens takes a number from 1 or a range such as 64-256; got {low}-{high}.")
    if work.prompt == "ids" and spec.server.endpoint == "chat":
        raise UsageError("a chat takes text: give --prompt words, or use --endpoint completions.")
    if not 0 <= work.shared_prefix < work.input_low:
        raise UsageError(
            f"--shared-prefix takes 0 to {work.input_low - 1}, fewer tokens than the shortest prompt has; "
            f"got {work.shared_prefix}."
        )
    if work.vocabulary < 2:
        raise UsageError(f"--vocabulary takes a number from 2; got {work.vocabulary}.")
    if not (math.isfinite(rules.duration_s) and rules.duration_s > 0):
        raise UsageError(f"--duration takes a time above 0; got {rules.duration_s:g} s.")
    if not 0 <= rules.warmup_s < rules.duration_s:
        raise UsageError(
            f"--warmup takes a time from 0 and below the duration, {rules.duration_s:g} s; got {rules.warmup_s:g} s."
        )
    if not (math.isfinite(rules.timeout_s) and rules.timeout_s > 0):
        raise UsageError(f"--timeout takes a time above 0; got {rules.timeout_s:g} s.")
    for option, value in (("--max-in-flight", rules.cap), ("--processes", rules.processes)):
        if value is not None and value < 1:
            raise UsageError(f"{option} takes a number from 1; got {value}.")
    for name in LIMITS:
        limit: float | None = getattr(spec.limits, name)
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise UsageError(f"the limit {name.removesuffix('_s')} takes a time above 0; got {limit:g} s.")
    _check_arrivals(arrivals)


def _check_server(server: Server) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(server.url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{server.url!r} is no URL of a server; it looks like http://127.0.0.1:8000.")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(f"{server.url!r} has a user, a query or a fragment; give the root of the server alone.")


def _check_arrivals(arrivals: Arrivals) -> None:
    rate = arrivals.rate_per_s
    if arrivals.kind in ("poisson", "gamma", "constant") and not (rate and math.isfinite(rate) and rate > 0):
        raise UsageError(f"--rate takes requests a second, above 0; got {rate}.")
    if arrivals.kind == "gamma" and not (arrivals.burstiness and 0 < arrivals.burstiness < math.inf):
        raise UsageError(f"gamma arrivals take a burstiness above 0, as in gamma:0.5; got {arrivals.burstiness}.")
    if arrivals.kind == "closed" and not (arrivals.clients and arrivals.clients >= 1):
        raise UsageError(f"a closed loop takes a number of clients from 1, as in closed:8; got {arrivals.clients}.")
