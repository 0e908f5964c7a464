"""The conformance tests that take longest: what the tests of each target cost.

    python benchmarks/slowest_targets.py [PATTERN] [--show 10]

Runs `pytest --aiperf` for the targets that the pattern chooses on the CPU, one after the other, with the awkward sizes
of the chapters' `tests/conftest.py`. Prints the slowest with their seconds of wall time, then the mean. Wanted: 2 s on
average on a quiet machine. Ends with 1 where a test fails.
"""

import argparse
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


class Durations:
    """A pytest plugin: the seconds of each conformance test, by its name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the conformance tests, which stand in no file."""
        items[:] = [one for one in items if "::" not in one.nodeid]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a part of a test took."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def main() -> int:
    """Run the tests, and print the slowest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="all", help="the targets, as in aiperf run")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="how many to print")
    options = parser.parse_args()
    durations = Durations()
    folders = [str(one) for one in sorted(ROOT.glob("aiperf-*/tests")) if one.parent.name != "aiperf-core"]
    ended = pytest.main(
        [f"--aiperf={options.pattern}", "-m", "not gpu", "-q", "--rootdir", str(ROOT), *folders], [durations]
    )
    slowest = sorted(durations.seconds.items(), key=lambda item: -item[1])
    print(f"\nslowest of {len(slowest)}, s")
    for name, seconds in slowest[: options.show]:
        print(f"{seconds:8.2f}  {name}")
    if slowest:
        print(f"{sum(durations.seconds.values()) / len(slowest):8.2f}  mean")
    return int(ended != pytest.ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
