"""An agent's loop: a short timing first, and all that a judge can do for the few that would be accepted.

Question    How much judging does a loop need that proposes kernels, some of which cheat, if none of these may pass?
Numbers     40 recorded patches of `ch20.verified_search`: 28 honest, of which 19 gain 5 %, and 12 cheats. Judging
            one fully takes 5 s of processes, inputs and reference and the 30 s of tier `standard`; a wrong one ends at
            its first output, so that all take 28 x 35 + 12 x 5 = 1,040 s. Floor: the best one fully, and all read,
            35 s. A seed draws the order of the patches and the noise of their timings.
Prediction  28 short timings of 5.5 s and 12 starts are 214 s. In random order the best of 19 changes 1 + 1/2 + ... +
            1/19 = 3.5 times, and as many may come near it: 214 + 3.5 to 7 x 35 s, 2.3 to 3.1 times less.
Limits      A small size first costs 2.2 s a patch and saves 5 s for each that is wrong: it pays where more than 44 %
            are; of these, 30 % are. Short timings as noisy as the gains (`spread=0.3`) refuse nothing.
"""

import math
from functools import partial
from typing import Any

import torch

from aiperf_ch20.agent import GATES, Patch, Verdict, decide, recorded
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", threads=1)
bench.simulated(metric="judging_s", seeds=20)
cpu = bench.on("cpu")

RECORDED = 40
NEAR = 0.9  # of the speedup of the best honest patch, the least that a loop may end with
# Processes, inputs and the float64 reference, at the size for tests and at the full one; and the sampling budgets.
SECONDS = {"small_start_s": 2.0, "start_s": 5.0, "small_s": 0.2, "short_s": 0.5, "full_s": 30.0}


@bench.workload(
    smoke={"patches": 9, "spread": 0.05, **SECONDS},
    cpu={"patches": RECORDED, "spread": 0.05, **SECONDS},
)
def inputs(patches, device, generator):
    return {
        "order": torch.randperm(RECORDED, device=device, generator=generator)[:patches],
        # The errors of a short and of a full timing of each patch, in standard deviations.
        "luck": torch.randn(2, RECORDED, dtype=torch.float64, device=device, generator=generator).clamp(-3, 3),
    }


@bench.reference(tolerance=exact)
def reference(order):
    return {"decided": order + 1}


@bench.cost
def cost(patches, start_s, full_s):
    # All must be read; the best of all is one of them, and is judged fully.
    return Cost(optimum_s=patches * 0.001 + (start_s + full_s) * (patches == RECORDED), tokens=patches)


bench.awkward({"patches": 1}, {"patches": 2}, {"patches": 31, "spread": 0.3})
# 1,040 s beside 214 and 5 full judgements of 35 s, less 3 starts: 374 s.
cpu.reach(of="time:judge_all", at_most=0.4, implementation="rules_first")


class Policy:
    """Judges patches in turn, and keeps the best. gates: those that a patch must pass; each policy has its own."""

    gates: Any

    def prepare(self, spread, small_start_s, start_s, small_s, short_s, full_s):
        self.patches = recorded()
        self.start_s = {"small": small_start_s, "short": start_s, "full": start_s}
        self.sampling_s = {"small": small_s, "short": short_s, "full": full_s}
        # The error of a mean falls with the root of the number of samples.
        self.spread = {"short": spread, "full": spread * math.sqrt(short_s / full_s)}

    def run(self, order, luck):
        best, kept, spent_s, decided = 1.0, 1.0, 0.0, []
        for number in order.tolist():
            patch, errors = self.patches[number], dict(zip(("short", "full"), luck[:, number].tolist(), strict=True))
            decision = decide(partial(self.judge, patch, errors), patch.code, best, self.gates)
            spent_s += decision.seconds
            if decision.speedup is not None:
                best, kept = decision.speedup, patch.speedup or math.inf
            # The answer has the number of each patch from 1, and 0 for a cheat that was accepted.
            decided.append(0 if patch.kind == "cheat" and decision.speedup is not None else number + 1)
        most = max(self.patches[number].speedup or 1.0 for number in order.tolist())
        if not NEAR * most <= kept < math.inf:
            decided = [0] * len(decided)
        return {"decided": torch.tensor(decided), "judging_s": spent_s}

    def judge(self, patch: Patch, errors, gate, code):
        """The recorded verdict of a gate's judge, with the noise of its timing."""
        if patch.wrong and GATES.index(gate) >= GATES.index(patch.wrong[0]):
            return Verdict("INVALID", self.start_s[gate], patch.wrong[1])
        seconds = self.start_s[gate] + self.sampling_s[gate]
        if gate == "small" or patch.speedup is None:
            return Verdict("INCONCLUSIVE", seconds)
        spread = self.spread[gate]
        value = patch.speedup * (1 + spread * errors[gate])
        speedup = {"low": value * (1 - 2 * spread), "value": value, "high": value * (1 + 2 * spread)}
        verdict = "FASTER" if speedup["low"] > 1 else "SLOWER" if speedup["high"] < 1 else "INCONCLUSIVE"
        return Verdict(verdict, seconds, None, speedup)


@cpu.baseline(kind="reasonable")
class JudgeAll(Policy):
    gates = ("full",)


@cpu.variant(
    adds="short timing",
    why="a short timing refuses what is clearly slower than the best so far, and few patches are faster",
    predict="2.3 to 3.1x: 1,040 s beside 214 s of short timings and 3.5 to 7 full judgements of 35 s",
)
class ShortFirst(Policy):
    gates = ("short", "full")


@cpu.variant(
    builds_on="short_first",
    adds="static rules",
    why="a text that starts threads, replaces functions or writes to its inputs is refused before a process starts",
    predict="1.01 to 1.1x: three cheats of 12 are refused by their text, 5 s each",
)
class RulesFirst(Policy):
    gates = ("rules", "short", "full")


@cpu.variant(
    builds_on="rules_first",
    adds="small size",
    why="a wrong patch is refused at the size for tests, whose judge starts sooner",
    teaches="this judge verifies before it times: a small size saves part of a start for a wrong patch, and costs "
    "2.2 s for a right one",
)
class SmallFirst(Policy):
    gates = GATES
