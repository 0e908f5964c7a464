"""Judging what an agent proposes: gates from cheap to full, and the loop that sends it to them.

A candidate is the text of a file as `aiperf judge` takes it. It is never executed here: the first gate reads it, and
the others are judges, in whose sandbox it runs.
"""

import ast
import json
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from aiperf_core.errors import UsageError

RULES = "rules"
# The options of the judge of each gate: is it right at the size for tests, is it fast at a glance, and all of it.
JUDGES = {
    "small": ("--size", "smoke", "--budget", "0.2"),
    "short": ("--budget", "0.5"),
    "full": ("--tier", "standard"),
}
GATES = (RULES, *JUDGES)
RULES_S = 0.001  # to read a candidate
COMPARED = ("FASTER", "SAME", "SLOWER", "INCONCLUSIVE")
# What a kernel needs. Clocks, threads, frames and the garbage collector are not among it.
IMPORTS = {"__future__", "ctypes", "functools", "math", "numpy", "pathlib", "subprocess", "tempfile", "torch", "triton"}
GAIN = 1.05  # over the best so far, from which a candidate is worth its change
ANSWER_S = 600.0  # for a command to answer a prompt


@frozen
class Verdict:
    """A gate's verdict. speedup: over the target's baseline, with its interval; None where it was not compared."""

    verdict: str
    seconds: float
    reason: str | None = None
    speedup: Mapping[str, float] | None = None

    @property
    def is_right(self) -> bool:
        return self.verdict in COMPARED


@frozen
class Decision:
    """A decision on a candidate: the gate that decided, the reason, and the speedup with which it was accepted."""

    gate: str
    reason: str
    seconds: float
    speedup: float | None = None


Judge = Callable[[str, str], Verdict]  # of a gate's name and a candidate's text


def decide(judge: Judge, code: str, best: float, gates: Sequence[str] = GATES) -> Decision:
    """Send a candidate through gates until one refuses it. The last accepts what is proven faster, by `GAIN`.

    A short timing refuses only what its whole interval says is no such gain over the best so far.
    """
    seconds, wanted, value = 0.0, GAIN * best, 0.0
    for gate in gates:
        verdict = rules(code) if gate == RULES else judge(gate, code)
        seconds += verdict.seconds
        if not verdict.is_right:
            return Decision(gate, verdict.reason or verdict.verdict, seconds)
        if gate == "short" and verdict.speedup and verdict.speedup["high"] < wanted:
            return Decision(gate, f"at most {verdict.speedup['high']:.2f}x; wanted {wanted:.2f}x", seconds)
        if gate == gates[-1]:
            value = verdict.speedup["value"] if verdict.speedup else 0.0
            if verdict.verdict != "FASTER" or value < wanted:
                return Decision(gate, f"{verdict.verdict} {value:.2f}x; wanted {wanted:.2f}x", seconds)
    return Decision(gates[-1], "accepted", seconds, value)


# --- the first gate


def rules(code: str) -> Verdict:
    """Read a candidate, without executing it, for what no honest kernel does."""
    reason = next(_broken(code), None)
    return Verdict("INVALID" if reason else "INCONCLUSIVE", RULES_S, reason)


def _broken(code: str) -> Iterator[str]:
    """The rules that a candidate breaks."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        yield f"is no Python: {error}"
        return
    inputs = {
        argument.arg
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == "run"
        for argument in function.args.args[1:]
    }
    modules = {alias.asname or alias.name for node in ast.walk(tree) for alias in getattr(node, "names", ()) if alias}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (f"imports {name}" for name in names if name.partition(".")[0] not in IMPORTS)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            if (root := _root(node)) in modules:
                yield f"changes the module {root}"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("setattr", "eval", "exec", "__import__"):
                yield f"calls {name}"
            written = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
            if re.fullmatch(r"[a-z].*[^_]_", name) and isinstance(node.func, ast.Attribute):
                written.append(node.func.value)
            yield from (f"writes to the input {_root(place)}" for place in written if _root(place) in inputs)


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes and indices begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


# --- judges


@contextmanager
def judges(target: str, device: str, out: Path | None = None) -> Iterator[Judge]:
    """Start a judge for each gate when it is needed first; all end with the context."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aiperf-agent-")))
        started: dict[str, Any] = {}

        def judge(gate: str, code: str) -> Verdict:
            if gate not in started:
                started[gate] = stack.enter_context(_judge(gate, target, device, folder, (out or folder) / gate))
            connection, answers = started[gate]
            connection.sendall(json.dumps({"code": code}).encode() + b"\n")
            if not (line := answers.readline()):
                raise UsageError(f"the judge of the gate '{gate}' has ended; aiperf judge --target {target} shows why")
            answer = json.loads(line)
            if answer.get("fault") == "reference":
                raise UsageError(f"{target} cannot judge: {answer['error']}")
            reason = answer.get("reason") or answer.get("error")
            return Verdict(answer["verdict"] or "FAILED", answer["seconds"], reason, answer.get("speedup"))

        yield judge


@contextmanager
def _judge(gate: str, target: str, device: str, folder: Path, out: Path) -> Iterator[tuple[socket.socket, Any]]:
    """The judge of a gate, with a connection to it."""
    path = folder / f"{gate}.sock"
    command = [sys.executable, "-m", "aiperf_core", "judge", "--serve", str(path), "--target", target]
    with subprocess.Popen(
        [*command, "--device", device, "--out", str(out), *JUDGES[gate]], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise UsageError(f"no judge of {target} on {device}; see: aiperf judge --help")
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(str(path))
                with connection.makefile("rb") as answers:
                    yield connection, answers
        finally:
            process.terminate()


# --- recorded candidates


@frozen
class Patch:
    """A recorded candidate.

    kind: `honest` or `cheat`.
    wrong: the first gate whose judge refused it as wrong, with the reason; None if all found it right.
    speedup: over the baseline; None if it is wrong.
    """

    name: str
    kind: str
    code: str
    wrong: tuple[str, str] | None
    speedup: float | None


def recorded() -> list[Patch]:
    """The recorded candidates, in the order of their proposal."""
    return [
        Patch(**row) for row in json.loads((resources.files("aiperf_ch20") / "recordings/patches.json").read_text())
    ]


def record(judge: Judge, patch: Patch) -> Patch:
    """Judge a recorded candidate again."""
    for gate in JUDGES:
        verdict = judge(gate, patch.code)
        if not verdict.is_right:
            return evolve(patch, wrong=(gate, verdict.reason or verdict.verdict), speedup=None)
    assert verdict.speedup is not None
    return evolve(patch, wrong=None, speedup=round(verdict.speedup["value"], 3))


# --- a model

PROMPT = """\
Write one Python file that makes the benchmark target {target} faster. Answer with the whole file in one block of
```python.

The file defines `class Implementation` with `run(self, ...)` and an optional `prepare(self, ...)`, which is not timed.
Their parameters are inputs and sizes of the target, by name; extra inputs go to `**inputs`. `run` returns what the
reference returns, within its tolerance, for new values in every call, at the size for tests too. The file may import
{imports}.

The target:

```python
{source}
```

The best file so far, {best:.3f}x the baseline:

```python
{code}
```

Earlier proposals and their verdicts:
{history}
"""


def ask(command: str, prompt: str) -> str:
    """The candidate that a command prints for a prompt on its standard input."""
    try:
        done = subprocess.run(
            shlex.split(command), input=prompt, capture_output=True, text=True, timeout=ANSWER_S, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"--command '{command}' gave no answer: {error}") from None
    blocks = re.findall(r"```(?:python)?\n(.*?)```", done.stdout, re.DOTALL)
    return blocks[-1] if blocks else done.stdout


def loop(judge: Judge, command: str, target: str, source: str, rounds: int) -> Iterator[tuple[str, Decision]]:
    """Ask, decide and go on with the best, for some rounds: each candidate with its decision."""
    best, kept, history = 1.0, "# none yet: the target's baseline", ["none"]
    for number in range(1, rounds + 1):
        prompt = PROMPT.format(
            target=target,
            imports=", ".join(sorted(IMPORTS)),
            source=source,
            best=best,
            code=kept,
            history="\n".join(history),
        )
        code = ask(command, prompt)
        decision = decide(judge, code, best)
        if decision.speedup is not None:
            best, kept = decision.speedup, code
        history = [*([] if number == 1 else history), f"- {number}: {decision.gate}: {decision.reason}"]
        yield code, decision
