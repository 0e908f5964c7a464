"""Gates refuse what they should, honest patches pass them, and the loop goes on with the best that is proven."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aiperf_ch20 import agent
from aiperf_ch20.agent import Patch, Verdict, decide, loop, record, recorded, rules
from aiperf_ch20.cli import ch20
from aiperf_core.errors import UsageError
from aiperf_core.plugins import load_plugins

PLAIN = "import torch\n\n\nclass Implementation:\n    def run(self, x, out):\n        return {}\n"


def verdict(value: float, name: str = "FASTER", spread: float = 0.02) -> Verdict:
    return Verdict(name, 1.0, None, {"value": value, "low": value * (1 - spread), "high": value * (1 + spread)})


def test_there_are_28_honest_patches_and_12_cheats_and_the_rules_refuse_three() -> None:
    patches = recorded()
    cheats = [patch for patch in patches if patch.kind == "cheat"]
    assert (len(patches), len(cheats)) == (40, 12)
    assert [patch.name for patch in patches if rules(patch.code).reason] == [
        "a slow clock",
        "work that goes on behind the answer",
        "the answer in the inputs",
    ]
    assert all((patch.wrong is None) == (patch.kind == "honest") == (patch.speedup is not None) for patch in patches)
    assert sum((patch.speedup or 0) >= agent.GAIN for patch in patches) == 19  # as `ch20.agent_loop` says


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (PLAIN.format("x * 2"), None),
        (PLAIN.format("torch.add(x, 1).mul_(2)"), None),
        (PLAIN.format("__import__('time')"), "calls __import__"),
        (PLAIN.format("x.mul_(2)"), "writes to the input x"),
        (PLAIN.format("x[0].mul_(2)"), "writes to the input x"),
        (PLAIN.format("torch.add(x, 1, out=out[0])"), "writes to the input out"),
        (PLAIN.replace("        return", "        torch.add = None\n        return"), "changes the module torch"),
        (PLAIN.replace("import torch", "from gc import collect"), "imports gc"),
        ("def run(:", "is no Python: invalid syntax (<unknown>, line 1)"),
    ],
)
def test_rules_read_a_candidate(code: str, reason: str | None) -> None:
    assert rules(code).reason == reason


def test_each_gate_refuses_for_its_own_reason() -> None:
    seen: dict[str, Verdict] = {"small": verdict(1.0), "short": verdict(2.0), "full": verdict(2.0)}

    def decided(**changed: Verdict) -> agent.Decision:
        return decide(lambda gate, code: (seen | changed)[gate], PLAIN.format("x"), 1.5)

    assert decided().speedup == 2.0
    assert decided().seconds == pytest.approx(3 + agent.RULES_S)
    refused = decided(small=Verdict("INVALID", 1.0, "y is wrong"))
    assert (refused.gate, refused.reason, refused.speedup) == ("small", "y is wrong", None)
    assert decided(short=verdict(1.5)).reason == "at most 1.53x; wanted 1.58x"
    # A wide interval decides nothing.
    assert decided(short=verdict(1.5, "INCONCLUSIVE", 0.5)).gate == "full"
    assert decided(full=verdict(1.55)).reason == "FASTER 1.55x; wanted 1.58x"
    assert decided(full=verdict(2.0, "INCONCLUSIVE")).speedup is None
    assert decided(full=Verdict("UNTRUSTED", 1.0)).reason == "UNTRUSTED"


def test_a_recorded_patch_is_judged_again() -> None:
    patch = Patch("one", "honest", PLAIN, None, 3.0)
    assert record(lambda gate, code: verdict(2.0), patch).speedup == 2.0
    wrong = record(lambda gate, code: Verdict("FAILED", 1.0) if gate == "short" else verdict(2.0), patch)
    assert (wrong.wrong, wrong.speedup) == (("short", "FAILED"), None)


def answering(folder: Path, *answers: str) -> str:
    """A command that prints an answer after the other, and keeps the prompts."""
    script = folder / "model.py"
    script.write_text(
        "import pathlib, sys\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "number = len(list(folder.glob('prompt*')))\n"
        "(folder / f'prompt{number}').write_text(sys.stdin.read())\n"
        f"print({answers!r}[number])\n"
    )
    return f"{sys.executable} {script}"


def test_the_loop_goes_on_with_the_best(tmp_path: Path) -> None:
    speeds = {"a = 1\n": 2.0, "a = 2\n": 1.5, "a = 3\n": 4.0}
    command = answering(tmp_path, *(f"Here:\n```python\n{code}```" for code in speeds))
    found = list(loop(lambda gate, code: verdict(speeds[code]), command, "a.b", "# the target", 3))
    assert [code for code, _ in found] == list(speeds)
    assert [decision.speedup for _, decision in found] == [2.0, None, 4.0]
    last = (tmp_path / "prompt2").read_text()
    assert "The best file so far, 2.000x the baseline:\n\n```python\na = 1\n" in last
    assert "- 1: full: accepted\n- 2: short: at most 1.53x; wanted 2.10x" in last
    assert "# the target" in last


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--command 'false' gave no answer: .*returned non-zero"):
        agent.ask("false", "")


def test_the_command_keeps_the_best_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def judges(target: str, device: str) -> Iterator[Any]:
        assert (target, device) == ("ch20.verified_search", "cpu")
        yield lambda gate, code: verdict(2.0)

    monkeypatch.setattr(agent, "judges", judges)
    command, out = answering(tmp_path, "a = 1", "a = 2"), tmp_path / "best.py"
    arguments = ["agent-loop", "--command", command, "--rounds", "2", "--out", str(out)]
    result = CliRunner().invoke(ch20, arguments, obj=load_plugins(), standalone_mode=False)
    assert result.exception is None
    assert out.read_text() == "a = 1\n"
    assert [line.split()[1] for line in result.output.splitlines()] == ["full", "short"]
    monkeypatch.setattr(agent, "recorded", lambda: recorded()[:2])
    result = CliRunner().invoke(ch20, ["record-patches", str(out)], standalone_mode=False)
    assert result.exception is None
    assert [row["speedup"] for row in json.loads(out.read_text())] == [2.0, 2.0]
