"""Measure: try the server once, open a bundle, measure its points, and close it, whatever happens."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
from aiperf_core.results.models import Manifest
from aiperf_load import figures, keeping, sweep
from aiperf_load.arrivals import plan
from aiperf_load.client import Client
from aiperf_load.outcomes import MEANINGS, Kind, Outcomes, Reply
from aiperf_load.processes import generate
from aiperf_load.records import LoadResult, Point
from aiperf_load.spec import Arrivals, LoadSpec, asked_url, check

TRIED = 10.0  # seconds for the first request


def try_server(spec: LoadSpec) -> None:
    """Send one request, which no figure counts. Raises AiperfError where the server does not answer as it must."""
    kind, reply = asyncio.run(_tried(spec))
    if kind is Kind.OK:
        return
    status = f" (HTTP {reply.status})" if reply.status not in (0, 200) else ""
    message = f" The server's answer: '{reply.message}'." if reply.message else ""
    raise AiperfError(
        f"'{asked_url(spec.server)}' was tried with one request, and nothing was measured: {MEANINGS[kind]}{status}."
        f"{message} Accepted is a stream of {reply.asked_tokens} tokens from {spec.server.endpoint} in the form of "
        f"OpenAI's API, with usage. {_remedy(kind)}"
    )


def _remedy(kind: Kind) -> str:
    match kind:
        case Kind.REFUSED | Kind.TIMEOUT:
            return "Start the server, or correct the URL."
        case Kind.EARLY_STOP:
            return "If the server ends answers by itself, allow that: --natural-stop."
        case Kind.WRONG_COUNT:
            return "Look at the usage that the server sends; --prompt words does not check the length of prompts."
        case Kind.UNTIMED:
            return (
                "Let the server send each token as an event of its own, or tell the number of tokens in each event "
                "(continuous_usage_stats); or count those of each event by --tokenizer."
            )
        case Kind.HTTP_OTHER:
            return "Check --model, --endpoint, --vocabulary and --prompt; a key is taken from AIPERF_LOAD_KEY."
        case _:
            return "Look at the server's log."


async def _tried(spec: LoadSpec) -> tuple[Kind, Reply]:
    timeout_s = min(TRIED, spec.rules.timeout_s)
    spec = evolve(spec, rules=evolve(spec.rules, timeout_s=timeout_s))
    async with Client(spec) as client:
        # A number that no request of the plan has.
        work = spec.workload
        body = client.body(9_999_999, work.input_low, work.output_low)
        reply = Reply(0, time.monotonic(), work.input_low, work.output_low)
        await client.send(reply, body)
    return reply.kind, reply


@define(eq=False)
class Measuring:
    """Points that are measured into one document of a bundle.

    told: gets a line for each point.
    result: what was measured so far.
    """

    bundle: Bundle
    name: str
    manifest: Manifest
    told: Callable[[str], None]
    result: LoadResult
    progress: Callable[[int, int], None] | None = None
    interrupted: bool = False
    _samples: dict[str, Outcomes] = field(factory=dict)

    def point(self, spec: LoadSpec) -> Point:
        """Measure a point and write it. An interrupted one is kept with what it has."""
        name, started = f"p{len(self.result.points):03d}", keeping.now()
        found, interrupted = generate(spec, plan(spec), self.progress)
        measured = figures.point(name, spec, started, found, complete=not interrupted)
        self.interrupted |= interrupted
        self._samples[name] = found
        notes = [f"{name}: the first {kind.name}: '{message}'" for kind, message in sorted(found.messages.items())]
        self._write(points=[*self.result.points, measured], notes=[*self.result.notes, *notes])
        return measured

    def finish(self, **changes: Any) -> int:
        """Write the document for the last time and seal the bundle; the exit code."""
        self._write(complete=not self.interrupted, **changes)
        code = int(keeping.exit_code(self.result, interrupted=self.interrupted))
        self.bundle.write_manifest(evolve(self.manifest, complete=not self.interrupted, exit_code=code))
        return code

    def _write(self, **changes: Any) -> None:
        self.result = keeping.write(self.bundle, self.name, evolve(self.result, **changes), self._samples)


def opened(
    spec: LoadSpec,
    manifest: Manifest,
    mode: str,
    *,
    name: str,
    out: Path | None,
    parent: Path = DEFAULT_PARENT,
    told: Callable[[str], None] = lambda text: None,
    progress: Callable[[int, int], None] | None = None,
) -> Measuring:
    """Check the load, try the server, and open a bundle for its points."""
    check(spec)
    plan(spec)  # raises for a trace that cannot be read
    try_server(spec)
    bundle = Bundle.create_at(out) if out is not None else Bundle.create(parent, f"load-{name}")
    bundle.write_manifest(manifest)
    return Measuring(bundle, name, manifest, told, LoadResult(mode=mode, points=[]), progress)


def run(measuring: Measuring, spec: LoadSpec) -> int:
    """Measure one point; the exit code."""
    measuring.point(spec)
    return measuring.finish()


def run_sweep(measuring: Measuring, spec: LoadSpec, low_per_s: float, high_per_s: float, **how: float) -> int:
    """Measure rates from low to high and bisect to the capacity; the exit code."""

    def measure(rate_per_s: float) -> Point | None:
        if measuring.interrupted:
            return None
        arrivals: Arrivals = evolve(spec.arrivals, rate_per_s=rate_per_s)
        number = len(measuring.result.points)
        # Another seed for each point: chance does not repeat itself along the curve.
        one = measuring.point(evolve(spec, arrivals=arrivals, rules=evolve(spec.rules, seed=spec.rules.seed + number)))
        measuring.told(line(one))
        return one

    sweep.search(measure, low_per_s, high_per_s, **how)
    return measuring.finish(knee=sweep.knee(measuring.result.points, how.get("met", sweep.MET)))


def line(point: Point) -> str:
    """A point in one line, for the progress of a sweep."""
    share = point.goodput_share.value
    rate = point.spec.arrivals.rate_per_s
    return (
        f"{f'{rate:.4g} requests/s' if rate else point.spec.arrivals.kind}: goodput "
        f"{'-' if share is None else units.percent(share)}, {point.state}{'' if point.trusted else ', UNTRUSTED'}"
    )
