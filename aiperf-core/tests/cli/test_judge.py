"""`aiperf judge`: a file of untrusted code, its result and the exit code."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from attrs import frozen
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.harness.processes import child
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.observing import STARVED_REASON
from aiperf_core.plugins import load_plugins

JUDGED_AT_MOST = 4
ALLOWED_BYTES = 1_700_000 << 10
HONEST = """
import torch

class Implementation:
    def run(self, x):
        return torch.softmax(x, dim=-1)
"""
ZEROS = """
import torch

class Implementation:
    def run(self, x):
        return torch.zeros_like(x)
"""
FILLS = """
import os, time
for number in range(40):
    with open(f"{number}.bin", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 29)
    time.sleep(0.05)
time.sleep(600)
"""
FLOODS = """
import sys
frame = sys._getframe()
while type(frame.f_locals.get("self")).__name__ != "Worker":
    frame = frame.f_back
while True:
    frame.f_locals["self"].notify("start")
"""
NESTS = """
import os, time
for _ in range(3000):
    os.mkdir("within")
    os.chdir("within")
time.sleep(600)
"""
# Adds descriptors to all that the worker sends.
LENDS = """
from aiperf_core.harness.processes.channel import Channel
send = Channel.send
Channel.send = lambda channel, message, fds=(): send(channel, message, (0,) * 30)
"""
# The loop of the worker runs inside of the candidate's code, which answers as it likes.
TAKES_OVER = """
import sys
import torch

class Implementation:
    def prepare(self, x):
        frame = sys._getframe()
        while type(frame.f_locals.get("self")).__name__ != "Worker":
            frame = frame.f_back
        worker = frame.f_locals["self"]
        worker._code.instance, worker._code.run, worker._code.names = self, self.run, ("x",)
        STATE
        worker._channel.send({"token": worker._token, "ok": {"prepare_s": PREPARED}})
        worker.serve()

    def run(self, x):
        return torch.softmax(x, dim=-1)
"""
# Says in the worker's place that the sample has ended, and goes on.
FORGES_NOTICE = """
import sys
import torch

class Implementation:
    def run(self, x):
        half = x.shape[0] // 2
        first = torch.softmax(x[:half], dim=-1)
        frame = sys._getframe()
        while type(frame.f_locals.get("self")).__name__ != "Worker":
            frame = frame.f_back
        frame.f_locals["self"].notify("ended")
        return torch.cat((first, torch.softmax(x[half:], dim=-1)))
"""
# Has the output computed where it is copied; the harness's function is its own again behind each sample.
PUTS_BACK = """
import sys
import torch

class Implementation:
    def run(self, x):
        out = torch.empty_like(x)
        frame = sys._getframe()
        while type(frame.f_locals.get("self")).__name__ != "Worker":
            frame = frame.f_back
        kind = type(frame.f_locals["self"]._output)
        honest = kind.copy

        def later(output):
            kind.copy = honest
            torch.softmax(x, dim=-1, out=out)
            return honest(output)

        kind.copy = later
        return out
"""
# The output is the beginning of an own buffer, behind which lies what the next call needs.
ARENA = """
import torch

class Implementation:
    def prepare(self, x):
        self.arena = torch.zeros(x.numel() + 1)
        self.output, self.one = self.arena[:-1].view_as(x), self.arena[-1]
        self.one.fill_(1.0)

    def run(self, x):
        torch.softmax(x, dim=-1, out=self.output)
        return self.output.mul_(self.one)
"""


@frozen
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


class Machine:
    """A machine of a user's: a home and a temporary folder of its own."""

    def __init__(self, folder: Path, cache: Path, server: type[ForkServer]) -> None:
        self.folder, self.cache, self.server = folder, cache, server
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        # So wide that no path is broken.
        self.environment = {"COLUMNS": "400", "AIPERF_CACHE_DIR": str(cache), "TMPDIR": str(self.temporary)}

    def line(self, text: str | None, options: tuple[str, ...], file: str) -> list[str]:
        """The arguments that judge a file with this text, at the smallest size."""
        path = self.folder / file
        if text is not None:
            path.write_text(text)
        arguments = (
            "--target",
            "practice.softmax",
            "--device",
            "cpu",
            "--size",
            "smoke",
            "--budget",
            "0.05",
            "--quiet",
        )
        # Only the arguments that the options do not replace.
        pairs = zip(arguments[:-1:2], arguments[1::2], strict=True)
        kept = [one for pair in pairs if pair[0] not in options for one in pair]
        return ["judge", str(path), *kept, "--quiet", *options]

    def judge(self, text: str | None, *options: str, file: str = "candidate.py") -> Done:
        """Judge in this process; again where other work on the machine kept the observer from looking."""
        return until_seen(lambda: self.judge_once(text, *options, file=file))

    def judge_once(self, text: str | None, *options: str, file: str) -> Done:
        """Judge in this process, with a fork server that the tests share."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(tempfile, "tempdir", None)
            patch.setattr(child, "ForkServer", self.server)
            line = self.line(text, options, file)
            done = CliRunner().invoke(Shell(load_plugins()), line, env=self.environment, prog_name="aiperf")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    def judge_apart(self, text: str, *options: str) -> Done:
        """Judge in a process of its own, as a user does."""
        return until_seen(lambda: self.judge_apart_once(text, *options))

    def judge_apart_once(self, text: str, *options: str) -> Done:
        command = [sys.executable, "-m", "aiperf_core", *self.line(text, options, "candidate.py")]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=300)
        return Done(done.returncode, done.stdout, done.stderr)


def until_seen(judge: Callable[[], Done]) -> Done:
    """Judge, and again where other work on the machine kept the observer from looking."""
    for _ in range(JUDGED_AT_MOST):
        done = judge()
        if STARVED_REASON not in done.stdout:
            break
    return done


@pytest.fixture
def machine(tmp_path: Path, new_cache: Callable[[], Path], lent_server: type[ForkServer]) -> Machine:
    return Machine(tmp_path, new_cache(), lent_server)


def test_an_honest_file_is_measured_and_leaves_nothing_behind(machine: Machine) -> None:
    hoarder = HONEST.replace(
        "class", "import tempfile\nopen(tempfile.mkdtemp() + '/kept', 'w').write('x' * 9999)\nclass"
    )
    before = {one.pid for one in psutil.process_iter()}
    # At the smallest size, and on a busy machine, a call may be no longer than what the harness itself takes, which leaves
    # it without a speedup.
    for _ in range(3):
        done = machine.judge_apart(hoarder, "--size", "cpu", "--budget", "0.2", "--json")
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)["targets"]
        baseline, row = result["rows"]
        if row["speedup"] is not None:
            break
    assert baseline["verdict"] == "MEASURED"
    assert row["name"] == "candidate"
    assert row["verdict"] in ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")
    assert row["speedup"] is not None, row["reason"]
    assert row["speedup"]["low"] > 0
    assert set(row["confined"]) == {"applied", "lacking"}
    assert not (machine.cache / "quarantine.json").exists()
    assert list(machine.temporary.iterdir()) == []
    left = [
        one
        for one in psutil.process_iter(["cmdline"])
        if one.pid not in before and str(machine.folder) in str(one.info)
    ]
    assert left == []


LINEAR = """
import torch

class {name}(torch.nn.Module):
    def __init__(self, width, height):
        super().__init__()
        self.linear = torch.nn.Linear(width, height)

    def forward(self, {inputs}):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(37, 64)]

def get_init_inputs():
    return [64, 53]
"""


def test_a_model_is_judged_against_a_reference_of_kernelbench(machine: Machine) -> None:
    reference = machine.folder / "reference.py"
    reference.write_text(LINEAR.format(name="Model", inputs="x"))
    options = ("--target", str(reference), "--format", "kernelbench", "--json")
    done = machine.judge(LINEAR.format(name="ModelNew", inputs="x"), *options)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
    row = json.loads(done.stdout)["targets"][0]["rows"][1]
    assert row["verdict"] in ("SAME", "INCONCLUSIVE", "FASTER", "SLOWER")
    assert row["judgement"]["samples"] > 0
    refused = machine.judge(LINEAR.format(name="ModelNew", inputs="x, y"), *options)
    assert refused.returncode == 2
    assert "line 9: forward takes 2 arguments; it is called with 1: 'x'" in refused.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return torch.relu(self.linear(x))", "return torch.relu(self.linear(x)) * 0"),
        ("torch.randn(37, 64)", "torch.arange(37 * 64).reshape(37, 64) / 1000"),
    ],
)
def test_a_reference_for_which_nothing_must_be_computed_is_refused(machine: Machine, old: str, new: str) -> None:
    reference = machine.folder / "reference.py"
    reference.write_text(LINEAR.format(name="Model", inputs="x").replace(old, new))
    options = ("--target", str(reference), "--format", "kernelbench")
    done = machine.judge(LINEAR.format(name="ModelNew", inputs="x").replace(old, new), *options)
    assert done.returncode == 2, (done.stdout[-2000:], done.stderr)
    assert "Traceback" not in done.stderr
    assert f"{reference}: the reference gives the same answer" in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "torch.relu(self.linear(x))",
            "torch.dropout(self.linear(x), 0.1, True)",
            "two calls with the same inputs have different answers",
        ),
        (
            "torch.relu(self.linear(x))",
            "self.linear(x + 1e5 - 1e5)",
            "its own answer is too far from that in float64",
        ),
        ("self.linear(x)", "self.other(x)", "Model raised AttributeError: 'Model' object has no attribute 'other'"),
        ("[64, 53]", "[64]", "making Model of get_init_inputs raised TypeError"),
    ],
)
def test_a_fault_of_the_reference_is_the_users_and_never_the_candidates(
    machine: Machine, old: str, new: str, message: str
) -> None:
    reference = machine.folder / "reference.py"
    reference.write_text(LINEAR.format(name="Model", inputs="x").replace(old, new))
    options = ("--target", str(reference), "--format", "kernelbench")
    done = machine.judge(LINEAR.format(name="ModelNew", inputs="x"), *options)
    assert done.returncode == 2, (done.stdout[-2000:], done.stderr)
    assert f"{reference}: {message}" in " ".join((done.stdout + done.stderr).split())
    assert not (machine.cache / "quarantine.json").exists()


@pytest.fixture(scope="module")
def small_server(lend: Callable[[], AbstractContextManager[type[ForkServer]]]) -> Iterator[type[ForkServer]]:
    """Fork servers whose processes see no GPU, and may take `ALLOWED_BYTES` of memory each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        with lend() as server:
            resource.prlimit(server().pid, resource.RLIMIT_DATA, (ALLOWED_BYTES, ALLOWED_BYTES))
            yield server


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "torch.randn(37, 64)",
            "torch.randn(37, 64).cuda()",
            r"get_inputs raised \w+: .* It must work without a GPU: let it create tensors without naming a device;",
        ),
        ("self.linear(x)", "self.linear(x.cuda()).cpu()", r"Model raised \w+: .*(CUDA|NVIDIA)"),
    ],
)
def test_a_reference_that_needs_a_gpu_is_refused_where_there_is_none(
    machine: Machine, small_server: type[ForkServer], old: str, new: str, message: str
) -> None:
    machine.server = small_server
    reference = machine.folder / "reference.py"
    reference.write_text(LINEAR.format(name="Model", inputs="x").replace(old, new))
    options = ("--target", str(reference), "--format", "kernelbench")
    done = machine.judge(LINEAR.format(name="ModelNew", inputs="x"), *options)
    assert done.returncode == 2, (done.stdout[-2000:], done.stderr)
    told = " ".join((done.stdout + done.stderr).split())
    assert re.search(re.escape(f"{reference}: ") + message, told), told
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        # Of 2 GiB: the weights of the model, and its inputs.
        ("[64, 53]", "[1 << 14, 1 << 15]", "making Model of get_init_inputs"),
        ("torch.randn(37, 64)", "torch.randn(1 << 23, 64)", "get_inputs"),
    ],
)
def test_a_reference_of_two_gigabytes_where_less_is_allowed(
    machine: Machine, small_server: type[ForkServer], old: str, new: str, what: str
) -> None:
    machine.server = small_server
    reference = machine.folder / "reference.py"
    reference.write_text(LINEAR.format(name="Model", inputs="x").replace(old, new))
    options = ("--target", str(reference), "--format", "kernelbench")
    done = machine.judge(LINEAR.format(name="ModelNew", inputs="x"), *options)
    assert done.returncode == 2, (done.stdout[-2000:], done.stderr)
    told = " ".join((done.stdout + done.stderr).split())
    assert f"{reference}: {what} needs more memory than a process of this run may take: " in told
    assert "2147483648 bytes" in told
    assert "Use smaller sizes, or a machine with more memory." in told
    assert "Traceback" not in told
    assert not (machine.cache / "quarantine.json").exists()
    assert [*machine.temporary.iterdir()] == []


def test_a_reference_whose_copies_need_more_memory_than_is_allowed(
    machine: Machine, small_server: type[ForkServer]
) -> None:
    """The judge makes a model of 400 MB, and cannot keep its weights in float64 too.

    With 1,500,000 KiB the model itself may not fit, and with 1,900,000 its weights do.
    """
    machine.server = small_server
    reference = machine.folder / "reference.py"
    text = LINEAR.format(name="Model", inputs="x").replace("[64, 53]", "[64, 1_600_000]")
    reference.write_text(text.replace("torch.randn(37, 64)", "torch.randn(1, 64)"))
    options = ("--target", str(reference), "--format", "kernelbench")
    done = machine.judge(LINEAR.format(name="ModelNew", inputs="x"), *options)
    assert done.returncode == 2, (done.stdout[-2000:], done.stderr)
    told = " ".join((done.stdout + done.stderr).split())
    assert f"{reference}: the reference, its inputs and its weights need more memory than the judge may take: " in told
    assert "ran out of memory: " in told
    assert "Traceback" not in told
    assert not (machine.cache / "quarantine.json").exists()


FROBENIUS = LINEAR.replace("torch.relu(self.linear(x))", "x / torch.norm(x)").replace(
    "torch.randn(37, 64)", "torch.rand(1 << 21)"
)


def test_a_reference_is_allowed_its_own_error(machine: Machine) -> None:
    """A sum of two million squares in float32 misses the tolerance of float32 by itself."""
    reference = machine.folder / "reference.py"
    reference.write_text(FROBENIUS.format(name="Model", inputs="x"))
    options = ("--target", str(reference), "--format", "kernelbench", "--json")
    done = machine.judge(FROBENIUS.format(name="ModelNew", inputs="x"), *options)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
    result = json.loads(done.stdout)["targets"][0]
    assert "twice the reference's own error against float64" in result["problem"]["tolerance"]
    assert result["rows"][1]["judgement"]["worst"] <= 1
    half = FROBENIUS.format(name="ModelNew", inputs="x").replace("return x /", "return x.half().float() /")
    assert machine.judge(half, *options).returncode == 3


DEFINITION = {
    "name": "scale",
    "axes": {"n": {"type": "const", "value": 513}},
    "inputs": {"x": {"shape": ["n", "n"], "dtype": "float32"}, "by": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n", "n"], "dtype": "float32"}},
    "reference": "def run(x, by):\n    return x * by + by\n",
}


@pytest.mark.parametrize(
    ("parameters", "text", "flag", "code"),
    [
        ("x, by", "return torch.addcmul(by, x, by)", {"destination_passing_style": False}, 0),
        ("x, by, y", "torch.addcmul(by, x, by, out=y)", {}, 0),
        ("*all", "all[2].copy_(torch.addcmul(all[1], all[0], all[1]).half())", {}, 3),
    ],
)
def test_a_solution_of_flashinfer_trace_is_judged(
    machine: Machine, parameters: str, text: str, flag: dict[str, bool], code: int
) -> None:
    definition = machine.folder / "scale.json"
    definition.write_text(json.dumps(DEFINITION))
    source = {"path": "main.py", "content": f"import torch\n\ndef scaled({parameters}):\n    {text}\n"}
    solution = {"spec": {"language": "python", "entry_point": "main.py::scaled", **flag}, "sources": [source]}
    options = ("--target", str(definition), "--format", "flashinfer-trace", "--json", "--size", "cpu")
    done = machine.judge(json.dumps(solution), *options, file="solution.json")
    assert done.returncode == code, (done.stdout[-2000:], done.stderr)
    assert json.loads(done.stdout)["targets"][0]["rows"][1]["judgement"]["samples"] > 0


def test_a_tolerance_has_its_reason_in_the_result(machine: Machine) -> None:
    rounded = HONEST.replace("torch.softmax(x, dim=-1)", "torch.softmax(x, dim=-1).bfloat16().float()")
    assert machine.judge(rounded).returncode == 3
    options = ("--tolerance", "1e-2", "--tolerance-reason", "the next layer takes bfloat16", "--json")
    done = machine.judge(rounded, *options)
    assert done.returncode == 0, done.stderr
    tolerance = json.loads(done.stdout)["targets"][0]["problem"]["tolerance"]
    assert tolerance == "requested (relative L2 error at most 0.01): the next layer takes bfloat16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tolerance", "1e-2"), "--tolerance and --tolerance-reason go together; the reason stands in the result."),
        (
            ("--tolerance", "2", "--tolerance-reason", "x"),
            "--tolerance takes a relative error from 0 up to 1; got 2.",
        ),
        (
            ("--format", "triton"),
            "'triton' is not a format; known are aiperf, flashinfer-trace, kernelbench. See what provides them: "
            "aiperf plugins",
        ),
    ],
)
def test_options_that_make_no_sense(machine: Machine, options: tuple[str, ...], message: str) -> None:
    done = machine.judge(HONEST, *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_sizes_are_given_to_candidates_as_to_implementations(machine: Machine) -> None:
    text = HONEST.replace("run(self, x)", "run(self, x, rows)").replace(
        "return torch", "assert x.shape[0] == rows; return torch"
    )
    assert machine.judge(text).returncode == 0


def test_what_lies_beside_the_output_is_left_alone(machine: Machine) -> None:
    done = machine.judge(ARENA, "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["targets"]
    assert result["rows"][1]["verdict"] in ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")


# Two processes that do not end by themselves, one of them an orphan; the folder shows that they are there.
STAYS = """
import os, time
import torch

class Implementation:
    def prepare(self, x):
        if os.fork() == 0:
            if os.fork() == 0:
                open("still_here", "w")
            while True:
                time.sleep(1)
        time.sleep(60)

    def run(self, x):
        return torch.softmax(x, dim=-1)
"""


@pytest.mark.parametrize("killed", ["supervisor", "fork server", "both"])
@pytest.mark.proof
def test_nothing_is_left_of_a_candidate_when_the_harness_is_killed(machine: Machine, killed: str) -> None:
    command = [sys.executable, "-m", "aiperf_core", *machine.line(STAYS, (), "candidate.py")]
    with subprocess.Popen(
        command, env={**os.environ, **machine.environment}, cwd=machine.folder, stderr=subprocess.PIPE
    ) as run:
        wait_until(lambda: [*machine.temporary.glob("*/*/still_here")], 120.0)
        supervisor = psutil.Process(run.pid)
        (server,) = (
            one for one in supervisor.children() if "aiperf_core.harness.processes.fork_server" in one.cmdline()
        )
        started = supervisor.children(recursive=True)
        for one in {"supervisor": [supervisor], "fork server": [server], "both": [supervisor, server]}[killed]:
            one.kill()
        wait_until(lambda: not any(map(is_alive, started)), 10.0)
        wait_until(lambda: not [*machine.temporary.glob("aiperf-work-*")], 10.0)


def wait_until(met: Callable[[], object], most_s: float) -> None:
    deadline = time.monotonic() + most_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.proof
def test_what_is_caught_three_times_is_in_quarantine_until_it_changes(machine: Machine) -> None:
    for _ in range(3):
        done = machine.judge(ZEROS)
        assert done.returncode == 3
        assert "output.wrong_values" in done.stdout
    refused = machine.judge(ZEROS, file="another_name.py")
    assert refused.returncode == 3
    assert "is in quarantine" in refused.stderr
    assert "output.wrong_values" in refused.stderr
    assert refused.stdout == ""
    assert machine.judge(HONEST, file="another_name.py").returncode == 0
    changed = machine.judge(ZEROS + "# another")
    assert changed.returncode == 3
    assert "output.wrong_values" in changed.stdout


def test_a_damaged_list_of_quarantine_quarantines_nobody(machine: Machine) -> None:
    (machine.cache / "quarantine.json").write_text('{"x": 1}')
    assert machine.judge(ZEROS).returncode == 3
    kept = json.loads((machine.cache / "quarantine.json").read_text())
    assert [one["times"] for one in kept.values()] == [1]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        pytest.param(None, (), "does not exist", id="no file"),
        pytest.param("class Implementation(", (), "does not parse", id="no Python"),
        pytest.param("x = 1", (), "has no class 'Implementation'", id="no class"),
        pytest.param("class Implementation:\n  pass", (), "run", id="nothing to run"),
        pytest.param("class Implementation:\n  def run(self, y): pass", (), "'y'", id="another input"),
        pytest.param(HONEST, ("--target", "practice.soft"), "practice.softmax", id="unknown target"),
        pytest.param(HONEST, ("--target", "practice.*"), "one target", id="several targets"),
        pytest.param(HONEST, ("--target", "practice.softmax:quick"), "quick", id="unknown baseline"),
        pytest.param(HONEST, ("--budget", "0"), "above 0", id="no time"),
        pytest.param(HONEST, ("--size", "huge"), "huge", id="unknown size"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    machine: Machine, text: str | None, options: tuple[str, ...], said: str
) -> None:
    done = machine.judge(text, *options)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (machine.folder / "artifacts").exists()


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        pytest.param("import torch\nraise RuntimeError('not today')", 1, "not today", id="raises at import"),
        pytest.param("import sys\nprint('x' * 30_000_000)", 0, "", id="prints megabytes"),
        pytest.param("import os\nos.unlink(__file__)", 1, "", id="deletes its own file"),
        pytest.param("import os\nfor _ in range(40):\n  os.fork() or os._exit(0)", 0, "", id="forks"),
        pytest.param("import time\ntime.sleep(60)", 1, "--timeout", id="hangs"),
        pytest.param(LENDS, 1, "its process exited with status 0", id="sends descriptors with its answers"),
        pytest.param(FLOODS, 1, "--timeout", id="never stops saying something"),
        pytest.param(NESTS, 1, "too deep to count", id="nests folders"),
        pytest.param("open('big', 'wb').truncate(1 << 45)", 1, "", id="fills the disk"),
        pytest.param(FILLS, 1, "GiB of disk", id="fills the disk with many files"),
        pytest.param("x = bytearray(1 << 46)", 1, "", id="takes all memory"),
        pytest.param("import multiprocessing\nmultiprocessing.Lock()", 1, "no /dev/shm", id="shares memory"),
    ],
)
@pytest.mark.proof
def test_code_that_misbehaves_is_told_apart(machine: Machine, body: str, code: int, said: str) -> None:
    # The baseline is given the usual time: the machine may have other work.
    timeout = ("--timeout", "5") if said == "--timeout" else ()
    done = machine.judge(f"{body}\n{HONEST}", *timeout, "--json")
    assert done.returncode == code, (done.stdout[-2000:], done.stderr)
    assert "Traceback" not in done.stderr
    (result,) = json.loads(done.stdout)["targets"]
    baseline, row = result["rows"]
    assert baseline["verdict"] == "MEASURED", f"the other rows are unharmed: {baseline}"
    assert said in (row["reason"] or "") + "\n".join(row["log"])
    assert (row["verdict"] == "FAILED") == (code == 1)
    assert list(machine.temporary.iterdir()) == []


@pytest.mark.proof
def test_who_answers_in_the_workers_place_is_found(machine: Machine) -> None:
    done = machine.judge(TAKES_OVER.replace("STATE", "").replace("PREPARED", "0.001"), "--json")
    assert done.returncode == 3, (done.stdout[-2000:], done.stderr)
    row = json.loads(done.stdout)["targets"][0]["rows"][1]
    assert row["verdict"] == "INVALID"
    assert [one["issue"] for one in row["findings"] if one["severity"] == "invalid"] == ["tamper.code_objects"]
    assert "python.callers" in row["reason"]


@pytest.mark.proof
def test_who_announces_an_end_in_the_workers_place_has_no_verdict(machine: Machine) -> None:
    done = machine.judge(FORGES_NOTICE, "--json")
    assert done.returncode == 1, (done.stdout[-2000:], done.stderr)
    row = json.loads(done.stdout)["targets"][0]["rows"][1]
    assert row["verdict"] == "FAILED"
    assert row["reason"] == "sent the notice 'ended' after ready, ended"


@pytest.mark.proof
def test_what_is_computed_where_the_output_is_copied_gains_nothing(machine: Machine) -> None:
    done = machine.judge(PUTS_BACK, "--json")
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
    row = json.loads(done.stdout)["targets"][0]["rows"][1]
    assert row["verdict"] in ("SAME", "SLOWER", "INCONCLUSIVE")


@pytest.mark.parametrize("prepared", ["10**400", "-1.0"])
@pytest.mark.proof
def test_answers_of_another_form_cost_the_row(machine: Machine, prepared: str) -> None:
    done = machine.judge(TAKES_OVER.replace("STATE", "").replace("PREPARED", prepared), "--json")
    assert done.returncode == 1, (done.stdout[-2000:], done.stderr)
    assert "Traceback" not in done.stderr
    row = json.loads(done.stdout)["targets"][0]["rows"][1]
    assert row["verdict"] == "FAILED"
    assert f"expected a {'number' if prepared == '10**400' else 'time'}, found" in row["reason"]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("worker.do_state = lambda: {'precision': 3}", "expected a record, found '3'"),
        ("worker.do_state = lambda: {'precision': {'torch': [1]}}", "expected a record, found '[1]'"),
    ],
)
@pytest.mark.proof
def test_a_state_of_another_form_costs_the_row(machine: Machine, state: str, said: str) -> None:
    done = machine.judge(TAKES_OVER.replace("STATE", state).replace("PREPARED", "0.001"), "--json")
    assert "Traceback" not in done.stderr
    row = json.loads(done.stdout)["targets"][0]["rows"][1]
    assert (done.returncode, row["verdict"]) == (1, "FAILED"), row["reason"]
    assert said in row["reason"]


@pytest.mark.proof
def test_each_round_has_a_folder_of_its_own(machine: Machine) -> None:
    """A file of one round's process cannot be in the way of the next one's, which is another user."""
    text = HONEST.replace("    def run", "    def prepare(self):\n        open('kernel.c', 'x').close()\n\n    def run")
    done = machine.judge(text, "--tier", "standard", "--json")
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
    assert list(machine.temporary.iterdir()) == []
