import re
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.profiler import Job, MetricSet, Profiler
from aiperf_core.profiling.perf import Perf

JOB = Job(target="a.b", module="m", implementation="wide", device="cpu", params={"n": 4}, cache="cold")


def test_a_profiler_resolves_to_its_class_when_it_is_used() -> None:
    assert Profiler("perf", "Linux perf", "aiperf_core.profiling.perf:Perf").resolve() is Perf


def test_the_range_around_a_call_is_named_after_the_implementation() -> None:
    assert JOB.label == "a.b:wide"


@pytest.mark.parametrize(
    ("name", "summary", "load", "message"),
    [
        ("-x", "one line", "a:B", "'-x' cannot name a profiler: letters, digits, hyphens and '_' can, such as 'nsys'"),
        ("x", "two\nlines", "a:B", "profiler 'x' needs a summary of one line; found 'two\\nlines'"),
        ("x", "one line", "a.B", "profiler 'x' needs load='module:Class'; found 'a.B'"),
    ],
)
def test_a_profiler_that_breaks_a_rule_is_refused(name: str, summary: str, load: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Profiler(name, summary, load)


@pytest.mark.parametrize("metrics", [(), "", ("a b",), ("a,b",), ("--export",), (3,)])
def test_metrics_that_could_become_other_arguments_of_a_tool_are_refused(metrics: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="metric set 'x' needs metrics="):
        MetricSet("x", tool="ncu", metrics=metrics, summary="one line")


def test_one_metric_needs_no_comma() -> None:
    assert MetricSet("x", tool="perf", metrics="cycles", summary="one line").metrics == ("cycles",)


def test_the_profiler_of_the_documentation_profiles(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "profiling.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(example, found)
    tool = found["CProfile"](JOB)
    assert tool.unavailable() is None
    window = tool.window(tmp_path)
    with window.whole():
        for _ in range(2):
            with window.call():
                sorted(range(1000))
    seen = tool.summarise(tmp_path, 2)
    assert "<built-in method builtins.sorted>" in {one.name for one in seen.hot}
    assert sum(one.share for one in seen.hot) == pytest.approx(1)
