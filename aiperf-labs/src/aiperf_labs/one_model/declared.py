"""The implementations of a ladder, declared to the harness: baseline, steps, leave-one-outs, degradations, guards."""

from typing import Any

from attrs import evolve

from aiperf_core import Benchmark
from aiperf_core.benchmark import Lossy
from aiperf_core.switches import with_flags
from aiperf_labs.one_model.switches import BASELINE, Rung, Switches, rungs

GUARDS = {
    "placebo": "a switch that changes nothing: a run must call it SAME",
    "sabotage": "a switch that leaves out a layer: a run must call it INVALID",
}
_WITHOUT = "the whole ladder, less {}"
_DEGRADED = "the whole ladder, but {}"


def declare(bench: Benchmark, code: type, name: str, budget: Lossy) -> None:
    """Declare all rungs of a ladder. `code` reads `self.flags`, and `budget` is of the rungs that change the answer."""
    for device in ("cpu", "cuda"):
        for one in rungs(name, device):
            made = with_flags(code, one.switches, one.name, f"{code.__module__}.{code.__qualname__}")
            needs = requirements(one.switches, device)
            if one.role == "baseline":
                bench.baseline(device=device, kind="reasonable", requires=needs)(made)
                continue
            bench.variant(
                device=device,
                requires=needs,
                # What is left out or degraded is compared with the whole, so that the harness pairs their samples.
                builds_on=one.below if one.below not in ("", "baseline") else None,
                lossy=budget if one.switches.is_lossy else None,
                **_words(one),
            )(made)


def declare_screen(bench: Benchmark, code: type, runs: list[Switches], device: str, budget: Lossy) -> None:
    """Declare a screen: the baseline, a variant for each of its runs, `screen_00` and so on, and the guards."""
    baseline = with_flags(code, BASELINE, "baseline", f"{code.__module__}.{code.__qualname__}")
    bench.baseline(device=device, kind="reasonable")(baseline)
    for number, switches in enumerate(runs):
        name = f"screen_{number:02d}"
        made = with_flags(code, switches, name, f"{code.__module__}.{code.__qualname__}")
        why = f"run {number} of the screen: " + (", ".join(switches.changed) or "nothing is on")
        lossy = budget if switches.is_lossy else None
        needs = requirements(switches, device)
        bench.variant(device=device, requires=needs, name=name, lossy=lossy, why=why)(made)
    guards = {"placebo": evolve(BASELINE, placebo=True), "sabotage": evolve(BASELINE, skips_layer=True)}
    for name, switches in guards.items():
        made = with_flags(code, switches, name, f"{code.__module__}.{code.__qualname__}")
        bench.variant(device=device, name=name, why=GUARDS[name])(made)


def requirements(switches: Switches, device: str) -> tuple[str, ...]:
    """The requirements of a combination on a machine."""
    if switches.experts != "one_call":
        return ()
    return ("compiler",) if device == "cpu" else ("sm_80", "package:triton")


def _words(one: Rung) -> dict[str, Any]:
    """The name, the mechanisms and the reason of a variant."""
    if one.switch is None:
        return {"name": one.name, "why": GUARDS[one.role]}
    said = one.switch
    if one.role == "step":
        return {"name": one.name, "adds": said.adds, "why": said.why, "teaches": said.teaches}
    if one.role == "without":
        return {"name": one.name, "adds": f"no {said.adds}", "why": _WITHOUT.format(said.adds)}
    return {"name": one.name, "adds": said.adds, "why": _DEGRADED.format(said.why)}
