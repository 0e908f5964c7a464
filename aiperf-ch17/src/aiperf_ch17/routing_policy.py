"""Routing: which of many workers gets a turn of a conversation, when one of them has its beginning in the cache.

Question    How soon is the first token of 99 turns of 100 there, by reports, by names, or by estimates?
Numbers     32 sessions of 6 turns, as of agents, on 8 simulated workers: a turn is sent when the answer to the one
            before has come and its tool has run. It adds 751 tokens on average. A worker prefills 20,000 tokens a
            second of what it has not in its cache, one turn after the other, 2 ms for each. Floor: the 99th percentile
            of turns that wait for nothing has 671 tokens at least, 36 ms. A seed draws the sessions for all policies.
Prediction  A turn on a strange worker computes the turns before it again: (1 + 2 + ... + 6) / 6 = 3.5 times the tokens.
            Between two reports, every `telemetry_s`, all turns go to one worker and queue there.
Limits      A single turn a session (`turns=1`): nothing is cached. Fewer sessions than workers (`sessions=8`): no turn
            waits, and `affinity` is as good as an estimate. Fresh reports (`telemetry_s=0`): the baseline is as good as
            round robin.
"""

import math
import random
from typing import Any

import torch
from attrs import define, field

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.simulation import Simulation, trace

bench = Benchmark(goal="latency", threads=1)
bench.simulated(metric="ttft_p99_s", seeds=40)
cpu = bench.on("cpu")

# The tokens that a worker prefills in a second, and the seconds in which it begins a turn.
TOKENS_PER_S = 20_000
BEGIN_S = 0.002
TURN_TOKENS = 751  # of a turn on average, 20 (200 - 1) / ln 200
# Of the 99th percentile at least: a hundredth of the turns are longer, none of them than 8,000 tokens.
TAIL_TOKENS = TURN_TOKENS - 8000 // 100
MODULUS = 1_000_003
HASH = 2_654_435_761  # Knuth's multiplicative hash of 32 bits


@bench.workload(
    smoke={"sessions": 7, "turns": 3, "workers": 3, "tool_s": 0.02, "telemetry_s": 0.05},
    cpu={"sessions": 32, "turns": 6, "workers": 8, "tool_s": 0.05, "telemetry_s": 0.1},
)
def inputs(sessions, turns, tool_s, device, generator):
    def uniform(*shape):
        return torch.rand(*shape, dtype=torch.float64, device=device, generator=generator)

    # Many short turns, and some of up to 4000 tokens, such as files that a tool has read; in all as many for each seed.
    tokens = 20 * 200 ** uniform(sessions, turns)
    return {
        "tokens": (tokens * TURN_TOKENS / tokens.mean()).ceil().long(),
        "words": torch.randint(MODULUS, (sessions, turns), device=device, generator=generator),
        "names": torch.randint(1 << 32, (sessions,), device=device, generator=generator),
        "starts_us": (1e5 * uniform(sessions)).long().sort().values,
        "tools_us": (2e6 * tool_s * uniform(sessions, turns)).long(),
    }


@bench.reference(tolerance=exact)
def reference(tokens, words, names, starts_us, tools_us):
    state, states = names % MODULUS, []
    for word in words.unbind(1):
        state = (31 * state + word) % MODULUS
        states.append(state)
    # By the clock of the simulation: no session starts early, and no tool is cut short.
    own_us = starts_us[:, None] + tools_us.cumsum(1)
    return {"answers": torch.stack(states, 1), "context": tokens.cumsum(1), "own_us": own_us}


@bench.cost
def cost(sessions, turns):
    return Cost(optimum_s=prefill_s(TAIL_TOKENS), tokens=sessions * turns)


bench.awkward(
    {"sessions": 1, "turns": 1, "workers": 1},
    {"sessions": 13, "turns": 5, "workers": 1},
    {"sessions": 2, "turns": 4, "workers": 7, "telemetry_s": 0.0},
)
# 7 of 8 turns go to another worker by chance, and compute 3.5 times the tokens, and all before them in a queue do: an
# estimate has less than a third of that work before a turn, so half of the tail.
cpu.reach(of="time:least_loaded", at_most=0.5, implementation="estimated")


def p99(times_s):
    """The 99th percentile, as one of the times."""
    ordered = sorted(times_s)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


@define(eq=False)
class Session:
    """A session as it goes on: its turns, and its answers so far."""

    name: int
    tokens: list[int]
    words: list[int]
    tools_us: list[int]
    turn: int = 0
    answers: list[int] = field(factory=list)
    context: list[int] = field(factory=list)
    own_us: list[int] = field(factory=list)
    waited_s: list[float] = field(factory=list)


class Worker:
    """A server with a cache: of each session the number of turns that it has, their tokens and their checksum."""

    def __init__(self):
        self.cached = {}
        self.waiting_tokens = 0

    def missing(self, session):
        """The tokens to prefill for the session's present turn."""
        have = self.cached.get(session, (0, 0, 0))[0]
        return sum(session.tokens[have : session.turn + 1])

    def service_s(self, batch):
        (session,) = (request.about for request in batch)
        have, reused, state = self.cached.get(session, (0, 0, session.name % MODULUS))
        computed = self.missing(session)
        for word in session.words[have : session.turn + 1]:
            state = (31 * state + word) % MODULUS
        self.cached[session] = session.turn + 1, reused + computed, state
        session.answers.append(state)
        session.context.append(reused + computed)
        return prefill_s(computed)


def prefill_s(tokens):
    """How long a worker is busy with this many tokens."""
    return BEGIN_S + tokens / TOKENS_PER_S


class Router:
    """Serves all sessions.

    choose(session): the number of the worker for the session's present turn. Each policy has its own.
    """

    choose: Any

    def prepare(self, workers, telemetry_s):
        self.count, self.telemetry_s = int(workers), telemetry_s

    def run(self, tokens, words, names, starts_us, tools_us):
        self.simulation = Simulation()
        self.now = lambda: self.simulation.environment.now
        self.workers = [Worker() for _ in range(self.count)]
        stations = [
            self.simulation.station(f"worker {number}", worker.service_s) for number, worker in enumerate(self.workers)
        ]
        self.begin()

        def serve(request):
            session = request.about
            own_us = round(1e6 * self.now())
            for turn, tool_us in enumerate(session.tools_us):
                session.turn = turn
                chosen, sent_s = self.choose(session), self.now()
                worker, missing = self.workers[chosen], self.workers[chosen].missing(session)
                worker.waiting_tokens += missing
                yield stations[chosen].visit(request)
                worker.waiting_tokens -= missing
                answered_s = self.now()
                session.waited_s.append(answered_s - sent_s)
                yield self.simulation.environment.timeout(tool_us / 1e6)
                own_us += round(1e6 * (self.now() - answered_s))
                session.own_us.append(own_us)

        rows = zip(names.tolist(), tokens.tolist(), words.tolist(), tools_us.tolist(), strict=True)
        self.sessions = [Session(*row) for row in rows]
        self.simulation.arrive(trace(one / 1e6 for one in starts_us.tolist()), serve, self.sessions)
        self.figures = self.simulation.run()
        return {
            "answers": torch.tensor([session.answers for session in self.sessions]),
            "context": torch.tensor([session.context for session in self.sessions]),
            "own_us": torch.tensor([session.own_us for session in self.sessions]),
            "ttft_p99_s": p99(one for session in self.sessions for one in session.waited_s),
        }

    def begin(self):
        """Called once for a trace."""


@cpu.baseline(kind="naive")
class LeastLoaded(Router):
    def begin(self):
        self.random = random.Random(1)
        self.read()

    def read(self):
        self.read_s, self.load = self.now(), [worker.waiting_tokens for worker in self.workers]

    def choose(self, session):
        if self.now() >= self.read_s + self.telemetry_s:
            self.read()
        return min(self.candidates(), key=self.load.__getitem__)

    def candidates(self):
        return range(self.count)


@cpu.variant(adds="round robin", why="turns are spread evenly, where a report is too old to spread them by")
class RoundRobin(Router):
    def begin(self):
        self.turns = 0

    def choose(self, session):
        self.turns += 1
        return (self.turns - 1) % self.count


@cpu.variant(
    adds="two random choices",
    why="between two reports, turns go to many workers and not all to the one that had least",
)
class TwoChoices(LeastLoaded):
    def candidates(self):
        return [self.random.randrange(self.count) for _ in range(2)]


@cpu.variant(adds="prefix affinity", why="the worker of the last turn has the session in its cache")
class Affinity(Router):
    def choose(self, session):
        return (session.name * HASH % 2**32) * self.count >> 32


@cpu.variant(
    builds_on="affinity",
    adds="estimated first token",
    why="a long queue at the worker with the cache is weighed against a prefill elsewhere",
)
class Estimated(Affinity):
    def begin(self):
        # The router's own account: when each worker will be free, and the turns of each session that it was sent.
        self.free_s = [0.0] * self.count
        self.sent = [dict[Session, int]() for _ in range(self.count)]

    def choose(self, session):
        def first_token_s(number):
            missing = sum(session.tokens[self.sent[number].get(session, 0) : session.turn + 1])
            return max(self.free_s[number], self.now()) + prefill_s(missing)

        chosen = min(range(self.count), key=first_token_s)
        self.free_s[chosen] = first_token_s(chosen)
        self.sent[chosen][session] = session.turn + 1
        return chosen
