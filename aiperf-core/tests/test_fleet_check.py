"""The conformance kit for engines finds each rule that an engine breaks."""

import re
from pathlib import Path

import pytest

from aiperf_core.errors import SkipError, UsageError
from aiperf_core.fleet import Fleet, FleetTask, Offer, TaskState, TaskStatus, known_fleet
from aiperf_core.testing import fleet_conformance

HOOKS = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
_, SOURCE = re.findall(r"```python\n(.*?)```", HOOKS.partition("## `aiperf_fleets")[2], re.DOTALL)[:2]

# A part of the documented engine, what stands there instead, and the complaint; all in one run.
BROKEN = {
    "if not any(": (
        "if False and not any(",
        "submit() accepts a task of a class that no machine has; expected UsageError",
    ),
    "TaskStatus.LOST, reason": (
        "TaskStatus.RUNNING, reason",
        "poll() says RUNNING for an id that is not known; expected LOST",
    ),
    'machine="localhost"': ('machine="elsewhere"', "poll() names the machine 'elsewhere'; offers() has localhost"),
    "str(task.result)": (
        "'/dev/null'",
        "the result file has None; expected 'elsewhere|a value|two words|a\\'quote\"|$HOME|*'",
    ),
    'if path.exists() else ""': ('if "a" in "b" else ""', "log() has ''; expected what the task printed"),
    "exit_code=code": (
        "exit_code=code and 1",
        "a task with exit code 7 is ENDED with exit code 1 (no reason); expected ENDED with exit code 7",
    ),
    "if process is not None and": ("if False and", "the process of a cancelled task still runs"),
}
# The same for what ends the check at once.
ENDS = {
    '[Offer("localhost")]': ("[]", "offers() has no machine that takes tasks"),
    'Offer("localhost")': ('Offer("localhost", up=False)', "offers() has no machine that takes tasks"),
    "self.processes = {}": ("self.processes = 1", "it raised TypeError: 'int' object is not iterable"),
}


def checked(source, folder):
    """The complaints about an engine of this source. All that it started has ended."""
    names = {}
    exec(source, names)
    made = names["Idle"](folder, {})
    try:
        return fleet_conformance(lambda folder: made, folder, timeout_s=2.0)
    finally:
        for process in made.processes.values() if made.processes != 1 else ():
            process.kill()
            process.wait()


def test_each_broken_rule_is_found(tmp_path):
    source = SOURCE
    for part, (other, _) in BROKEN.items():
        assert part in source
        source = source.replace(part, other)
    complaints = checked(source, tmp_path)
    avoids = "submit() accepts a task that avoids all machines; expected UsageError"
    endless = "a cancelled task is RUNNING with exit code None (no reason) after 2 s; expected ENDED or LOST"
    assert sorted(complaints) == sorted([*(message for _, message in BROKEN.values()), avoids, endless])


@pytest.mark.parametrize("part", ENDS)
def test_what_ends_the_check(part, tmp_path):
    other, message = ENDS[part]
    assert part in SOURCE
    assert checked(SOURCE.replace(part, other), tmp_path) == [message]


def test_a_task_fits_machines_of_its_class_that_are_up_and_not_avoided():
    task = FleetTask(id="t", command=("true",), result=Path("r"), machine_class="h200", avoid=frozenset({"b"}))
    offers = [Offer("a", ("h200",)), Offer("b", ("h200",)), Offer("c"), Offer("d", ("h200",), up=False)]
    assert [one.machine for one in offers if task.fits(one)] == ["a"]


def test_a_state_is_over_when_it_is_final():
    assert [one for one in TaskStatus if TaskState(status=one).over] == [TaskStatus.ENDED, TaskStatus.LOST]


def test_names_of_fleets():
    fleets = {"idle": Fleet("idle", "At the lowest priority", "no_module_of_this_name:Idle")}
    assert known_fleet("idle", fleets) is fleets["idle"]
    with pytest.raises(
        UsageError, match=re.escape("'mesos' is not a fleet; known are idle. See what provides them: aiperf plugins")
    ):
        known_fleet("mesos", fleets)
    with pytest.raises(SkipError, match="its class no_module_of_this_name:Idle cannot be loaded: ModuleNotFoundError"):
        fleets["idle"].resolve(Path(), {})
    with pytest.raises(ValueError, match="'My Fleet' cannot name a fleet: lower-case letters, digits and hyphens can"):
        Fleet("My Fleet", "A fleet", "a:B")
