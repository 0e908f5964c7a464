"""Checks of a sample: its time is positive, its inputs are unchanged, its output is right."""

import time
from typing import Any

from attrs import define

from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.taking import SampleTaker
from aiperf_core.results.models import Sighting


@define(eq=False)
class Inspector:
    """Has samples judged."""

    taker: SampleTaker

    def is_plausible(self, one: Participant, sample: Sample) -> bool:
        """Refuse a time that is not positive, instead of clamping it."""
        method, reported = self.taker.method, sample.time_s
        if reported > 0 and method.call_s(sample, one.pace.calls) > 0:
            return True
        message = (
            f"a sample took {reported * 1e6:.6g} us by the {method.clock} clock, which itself costs "
            f"{method.clock_cost_s * 1e6:.6g} us; a time must be positive"
        )
        return not one.find(Sighting("timing.event_gaps", message, {"reported_s": reported}))

    def inspect(self, one: Participant, chosen: Sample | None) -> bool:
        """Check the inputs after a sample, and the output of a chosen one. Return whether the implementation stays."""
        start = time.perf_counter()
        judged = chosen is not None and "judged_output" not in self.taker.method.off
        try:
            return self._inputs_intact(one, judged) and (not judged or self._output_right(one, chosen))
        except (ChildError, ValueError) as error:
            one.fail(error, "sent no output")
            return False
        finally:
            one.pace.since_judged = 0 if judged else one.pace.since_judged + 1
            self.taker.clockwork.verification_s += time.perf_counter() - start

    def _inputs_intact(self, one: Participant, judged: bool) -> bool:
        if "inputs_intact" in self.taker.method.off:
            return True
        changed = self.taker.ask_judge("changed", thorough=judged)
        if not changed:
            return True
        self.taker.ask_judge("repair")
        message = f"the call changed its inputs: {', '.join(changed)}; a workload names what may change as state"
        return not one.find(Sighting("memory.input_mutation", message, {"inputs": changed}))

    def _output_right(self, one: Participant, chosen: Sample | None) -> bool:
        method = self.taker.method
        delivered = chosen.output if chosen and method.trust.delivers else None
        copied = delivered or answers.output(one.worker.ask("output", timeout=method.timeout_s))
        one.process.aliases = sorted({*(one.process.aliases or []), *copied.aliases})
        compared = self.taker.ask_judge("compare", lossy=one.declared.lossy, numbers=copied.numbers)
        one.recorder.verified(compared)
        wrong = wrong_output(one, compared)
        if wrong is not None:
            return not one.find(wrong)
        if copied.late and "late_write" not in method.off:
            message = "the output changed after the clock had stopped: the work was not finished within the timed call"
            return not one.find(Sighting("timing.incomplete_async", message))
        return True


def wrong_output(one: Participant, compared: dict[str, Any], where: str = "") -> Sighting | None:
    """What the judge's comparison of an output has found; None where the output is right. `where` begins the text."""
    if compared["error"] is None:
        return None
    issue = "output.quality_below_budget" if one.declared.lossy else "output.wrong_values"
    return Sighting(issue, f"{where}{compared['error']}")
