"""What a worker may answer, and what it may not."""

import math
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.harness.processes import answers
from aiperf_core.measurements import Faults

SAMPLE = {
    "device_s": None,
    "wall_s": 0.5,
    "cpu_s": 0.1,
    "voluntary_switches": 1,
    "involuntary_switches": 0,
    "hidden": False,
    "beside": {"minor_faults": 3.0},
    "faults": None,
    "latencies_s": [0.25],
    "output": None,
}
AUDIT = {
    "span_s": [1e-3],
    "event_s": [1.1e-3],
    "work": [{"name": "k", "kind": "kernel", "stream": 0, "count": 1, "seconds": 1e-3, "bytes": 0}],
    "stray": 0,
    "threads": 1,
}


def test_an_honest_sample() -> None:
    expected = answers.Sample(
        wall_s=0.5, cpu_s=0.1, voluntary_switches=1, minor_faults=3.0, latencies_s=[0.25], hidden=False
    )
    assert answers.sample(SAMPLE) == expected
    later = answers.sample({**SAMPLE, "beside": {"until_done_s": 1.0, "mine": 2.0}})
    assert later == evolve(expected, minor_faults=None, until_done_s=1.0)
    faults = {"minor": 3, "major": 0}
    assert answers.sample({**SAMPLE, "faults": {**faults, "more": 1}}).faults == Faults(3, 0)
    delivered = {"numbers": {"[0]": 1.5, "[1]": True}, "late": False, "aliases": ["[0]"]}
    assert answers.sample({**SAMPLE, "output": delivered}).output == answers.Output(**delivered)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wall_s", "0.5"),
        ("faults", [3, 0]),
        ("faults", {"minor": 3}),
        ("wall_s", True),
        ("wall_s", math.nan),
        ("wall_s", math.inf),
        ("wall_s", -1.0),
        ("wall_s", None),
        ("voluntary_switches", 0.5),
        ("voluntary_switches", -1),
        ("voluntary_switches", 10**30),
        ("hidden", 1),
        ("output", {"numbers": [], "late": False}),
        ("output", {"numbers": {"a": math.inf}, "late": False}),
        ("output", {"numbers": {}, "late": "no"}),
        ("output", {}),
        ("output", {"numbers": {}, "late": False, "aliases": [1]}),
    ],
)
def test_a_sample_that_is_none(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a|has no time"):
        answers.sample({**SAMPLE, name: value})


@pytest.mark.parametrize("value", [None, True, [], "done", 3.5, {}])
@pytest.mark.parametrize("read", [answers.sample, answers.output, answers.prepared, answers.audit])
def test_answers_of_another_kind(read: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a|has no time"):
        read(value)


def test_an_audit() -> None:
    found = answers.audit(AUDIT)
    assert (found.span_s, found.event_s, found.work[0].name, found.threads) == ([1e-3], [1.1e-3], "k", 1)
    with pytest.raises(ValueError, match="1 spans and 0 event times"):
        answers.audit({**AUDIT, "event_s": []})
    with pytest.raises(ValueError, match="expected a count"):
        answers.audit({**AUDIT, "work": [{**AUDIT["work"][0], "count": "many"}]})


def test_small_answers() -> None:
    assert answers.prepared({"prepare_s": 2}) == 2.0
    assert answers.memory({"peak_bytes": 5}).peak_bytes == 5
    assert answers.flush(None) is None
    assert answers.flush({"hot_s": 1.0, "cold_s": 2.0, "flushed_s": 2.0}).cold_s == 2.0  # type: ignore[union-attr]
    assert answers.confined(None) is None
    held = answers.confined({"applied": ["files"], "lacking": {"network": "no kernel for it"}})
    assert held is not None
    assert (held.applied, held.lacking) == (["files"], {"network": "no kernel for it"})
    with pytest.raises(ValueError, match="expected a list"):
        answers.confined({"applied": "files", "lacking": {}})
