"""The replicas that `aiperf calc sizing` predicts from a sweep, against as many real servers. Needs a quiet machine.

    python benchmarks/sizing_replicas.py --seconds 30 --out benchmarks/figures/sizing-replicas.json

A sweep with `aiperf load` measures one replica: the server `clockwork`, which serves a request in `SERVICE_S` and takes
no processor. Its bundle sizes each of `DEMANDS`. Then as many servers, each a process of its own, stand behind a proxy
that gives each request to the next server in turn, and the demand is measured.

What must hold was decided before the first measurement:

- the prediction is `DEMANDS`;
- that many replicas give a goodput within `WITHIN` of the demand, and their requests stay no longer than at the
  capacity of one replica, by the factor 1 + `WITHIN`;
- one replica less misses that goodput.
"""

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from attrs import asdict, frozen

from aiperf_calc import sizing
from aiperf_calc.load_bundle import read_bundle
from aiperf_load.arrivals import plan
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server

SERVICE_S = 0.025
SLO = "e2e=500ms"
# Requests a second, and the replicas that they need: each carries less than 1 / SERVICE_S.
DEMANDS = {30.0: 1, 60.0: 2, 90.0: 3}
WITHIN = 0.1
LOW_PER_S, HIGH_PER_S, FACTOR, PRECISION = 20.0, 60.0, 1.3, 0.1
ATTEMPTS = 3
NEAR = 0.02  # of the number of requests that a rate has on average, for the arrivals of a seed


@contextmanager
def process(*line: str) -> Iterator[str]:
    """A process that prints its URL; the URL."""
    with subprocess.Popen([sys.executable, "-u", *line], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        try:
            yield started.stdout.readline().strip()
        finally:
            started.terminate()


@contextmanager
def replicas(count: int) -> Iterator[str]:
    """Servers as processes of their own behind a proxy, also a single one; its URL."""
    line = ("-m", "aiperf_core", "load", "serve", "clockwork", "--service", f"deterministic:{SERVICE_S}", "--port", "0")
    with ExitStack() as stack:
        urls = [stack.enter_context(process(*line)) for _ in range(count)]
        yield stack.enter_context(process(__file__, "--balance", *urls))


# --- the proxy


async def balance(urls: Sequence[str]) -> None:
    """Serve until the end of the process: each request goes to the next server in turn."""
    turns = itertools.cycle(urls)
    connector, no_timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=no_timeout, auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.StreamResponse:
            url = next(turns) + request.path
            headers = {"Content-Type": request.content_type}
            async with session.post(url, data=await request.read(), headers=headers) as answer:
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                await response.prepare(request)
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
                return response

        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/{path:.*}", forward)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()


# --- measurements


def seed_for(rates: Sequence[float], seconds: float) -> int:
    """The first seed whose arrivals have about the average number at all rates, so that chance decides less."""

    def near(rate: float, seed: int) -> bool:
        rules = Rules(duration_s=seconds, warmup_s=seconds / 10, seed=seed)
        times = plan(
            LoadSpec(server=Server(url="http://x"), arrivals=Arrivals(rate_per_s=rate), rules=rules)
        ).scheduled_s
        return abs((times >= rules.warmup_s).sum() / (rate * seconds * 0.9) - 1) <= NEAR

    return next(seed for seed in itertools.count(1) if all(near(rate, seed) for rate in rates))


def load(command: str, url: str, seconds: float, seed: int, out: Path, *more: str) -> None:
    """Call `aiperf load`. Raises CalledProcessError where nothing was measured."""
    line = [
        sys.executable, "-m", "aiperf_core", "load", command, url, "--duration", f"{seconds}s", "--slo", SLO,
        "--input-tokens", "8", "--output-tokens", "1", "--seed", str(seed), "--out", str(out), *more,
    ]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}")


def curve(seconds: float, folder: Path) -> sizing.LoadCurve:
    """Sweep one replica."""
    rates = [LOW_PER_S * FACTOR**step for step in range(4)]
    with replicas(1) as url:
        load("sweep", url, seconds, seed_for(rates, seconds), folder / "sweep", "--from", str(LOW_PER_S), "--to",
             str(HIGH_PER_S), "--factor", str(FACTOR), "--precision", str(PRECISION))  # fmt: skip
    return read_bundle(folder / "sweep")


@frozen
class Measured:
    """A demand on a number of replicas.

    predicted, least, most: the replicas that sizing names, and its range.
    residence_limit_s: the mean time of a request that sizing reckons with: that at the capacity of one replica.
    """

    demand_per_s: float
    replicas: int
    predicted: int
    least: int
    most: int
    offered_per_s: float
    goodput_per_s: float
    share: float
    residence_s: float
    residence_limit_s: float
    trusted: bool

    @property
    def carries(self) -> bool:
        """Whether the goodput is within the limit of the demand."""
        return abs(self.goodput_per_s / self.demand_per_s - 1) <= WITHIN

    @property
    def problem(self) -> str:
        """What does not hold; empty where all does."""
        if not self.trusted:
            return "the generator was late"
        if self.predicted != DEMANDS[self.demand_per_s]:
            return f"{self.predicted} replicas were predicted, and {DEMANDS[self.demand_per_s]} are needed"
        if self.replicas < self.predicted:
            return "one replica less carries the demand" if self.carries else ""
        if not self.carries:
            return "the goodput is not that of the demand"
        late = self.residence_s > self.residence_limit_s * (1 + WITHIN)
        return "requests stay longer than at the capacity of one replica" if late else ""


def measure(measured: sizing.LoadCurve, demand: float, count: int, seconds: float, folder: Path) -> Measured:
    """Measure a demand on some replicas. A point whose generator was late tells nothing, and is measured anew."""
    sized = sizing.size(measured, demand)
    seed = seed_for([demand], seconds)
    for attempt in range(ATTEMPTS):
        out = folder / f"{demand:g}-{count}-{attempt}"
        with replicas(count) as url:
            load("run", url, seconds, seed, out, "--rate", str(demand))
        (point,) = json.loads((out / "load/server.json").read_text())["payload"]["points"]
        if point["trusted"]:
            break
    limit = sized.capacity.point.residence_s
    assert limit is not None
    return Measured(
        demand, count, sized.needed, sized.least, sized.most, point["offered_per_s"], point["goodput_per_s"]["value"],
        point["goodput_share"]["value"], point["residence_s"], limit, point["trusted"],
    )  # fmt: skip


def every(seconds: float) -> Iterator[Measured]:
    """Sweep one replica, and measure each demand on the replicas that it needs and on one less."""
    with tempfile.TemporaryDirectory() as name:
        found = curve(seconds, Path(name))
        for demand, count in DEMANDS.items():
            for number in (count, count - 1):
                if number:
                    yield measure(found, demand, number, seconds, Path(name))


def main() -> int:
    """Print what was measured; exit code 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each point")
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    parser.add_argument("--balance", nargs="+", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.balance:
        asyncio.run(balance(given.balance))
        return 0
    found = []
    for one in every(given.seconds):
        found.append(one)
        print(
            f"{one.demand_per_s:g} requests/s: {one.predicted} predicted ({one.least} to {one.most}); {one.replicas} "
            f"give {one.goodput_per_s:.2f}/s of {one.offered_per_s:.2f}, {one.share:.2%} in time, residence "
            f"{one.residence_s * 1e3:.1f} ms of at most {one.residence_limit_s * 1e3:.1f} ms"
            f"{f': {one.problem}' if one.problem else ''}",
            flush=True,
        )
    if given.out is not None:
        given.out.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 1 if any(one.problem for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
