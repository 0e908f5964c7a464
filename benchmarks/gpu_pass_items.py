"""A pytest plugin for `gpu_pass.py`: writes the outcome of each test at once, and leaves out what has passed.

The file that `GPU_PASS_ITEMS` names has a JSON object a line: `item`, `outcome` (`started`, `passed`, `failed` or
`skipped`), `seconds`, `text` (a traceback, or the reason of a skip) and `sources`, which `GPU_PASS_SOURCES` gives. A
test of other sources is tried again. A test that was started and never ended is tried last: it may hang again.
"""

import json
import os
from pathlib import Path

import pytest

FILE = Path(os.environ["GPU_PASS_ITEMS"])
SOURCES = os.environ["GPU_PASS_SOURCES"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that have ended, and move those that never ended to the end."""
    last = dict[str, str]()
    for line in FILE.read_text().splitlines() if FILE.exists() else ():
        record = json.loads(line)
        if record["sources"] == SOURCES:
            last[record["item"]] = record["outcome"]
    ended = [item for item in items if last.get(item.nodeid, "started") != "started"]
    items[:] = sorted((item for item in items if item not in ended), key=lambda item: item.nodeid in last)
    config.hook.pytest_deselected(items=ended)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write that a test starts."""
    _write(nodeid, "started")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test ended: its call, or what went wrong before or after it."""
    if report.when == "call" or not report.passed:
        _write(report.nodeid, report.outcome, report.duration, report.longreprtext)


def _write(item: str, outcome: str, seconds: float = 0.0, text: str = "") -> None:
    record = {"item": item, "outcome": outcome, "seconds": round(seconds, 3), "text": text, "sources": SOURCES}
    with FILE.open("a") as file:
        file.write(json.dumps(record) + "\n")
