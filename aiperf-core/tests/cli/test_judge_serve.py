"""`aiperf judge --serve`: what programs send over a socket, and what they get."""

import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiperf_core.cli.judge_service import JudgeService
from aiperf_core.errors import UsageError

PATIENCE_S = 240  # a service starts within seconds, and on a busy machine within minutes
SEARCH = Path(__file__).parents[3] / "examples" / "judge-client" / "search.py"
HONEST = """
import torch

class Implementation:
    def run(self, x):
        return torch.softmax(x, dim=-1)
"""
ZEROS = HONEST.replace("torch.softmax(x, dim=-1)", "torch.zeros_like(x)")


class Service:
    """A service in a process of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.path, self.temporary = folder, folder / "judge.sock", folder / "tmp"
        self.temporary.mkdir()
        environment = {**os.environ, "AIPERF_CACHE_DIR": str(cache), "TMPDIR": str(self.temporary)}
        arguments = ["--target", "practice.softmax", "--device", "cpu", "--size", "smoke", "--budget", "0.2"]
        command = [sys.executable, "-m", "aiperf_core", "judge", "--serve", str(self.path), *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self.path.exists():
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def connect(self) -> "Client":
        return Client(self.path)

    def end(self, by: int = signal.SIGTERM) -> str:
        """What it wrote to standard error."""
        self.process.send_signal(by)
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return errors


class Client:
    """A connection."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("rb")

    def send(self, *requests: Any) -> None:
        texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in requests]
        self.socket.sendall(b"".join(one + b"\n" for one in texts))

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lines.readline())
        return found

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture(scope="module")
def service(new_cache: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    one = Service(tmp_path_factory.mktemp("service"), new_cache())
    yield one
    errors = one.end()
    assert "Traceback" not in errors
    assert one.process.returncode == 0
    assert not one.path.exists()
    assert [*one.temporary.iterdir()] == []


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    one = service.connect()
    yield one
    one.close()


def test_candidates_are_judged_in_order(service: Service, client: Client) -> None:
    (service.folder / "candidate.py").write_text(ZEROS)
    client.send({"id": 1, "code": HONEST}, {"id": "b", "file": "candidate.py"})
    first, second = client.answer(), client.answer()
    assert (first["id"], second["id"]) == (1, "b")
    assert first["verdict"] in ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")
    assert (first["exit_code"], second["verdict"], second["exit_code"]) == (0, "INVALID", 3)
    assert first["judgement"]["samples"] > 0
    assert second["findings"][0]["issue"] == "output.wrong_values"
    assert (service.folder / first["bundle"] / "manifest.json").exists()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"{", "A request is a JSON object on one line; this is no JSON: "),
        (b'{"id": 1e400, "file": "a.py"}', "A request is a JSON object on one line; this is no JSON: "),
        (b'{"id": NaN, "file": "a.py"}', "A request is a JSON object on one line; this is no JSON: "),
        ([], "A request is a JSON object on one line, such as "),
        ({"id": 1}, "A request needs either 'code', the text of a candidate, or 'file', its path."),
        ({"id": 1, "code": HONEST, "file": "a.py"}, "A request needs either 'code'"),
        ({"id": 1, "file": "absent.py"}, "'absent.py' does not exist; give the Python file of a candidate"),
        ({"id": 1, "file": "a" * 100_000}, f"'{'a' * 256}...' cannot be read: File name too long"),
        ({"id": 1, "file": "a\0.py"}, "'a?.py' cannot be read: embedded null byte"),
        ({"id": 1, "file": "\ud800"}, "'?' cannot be read: 'utf-8' codec can't encode character"),
        ({"id": 1, "file": "/dev/zero"}, "'/dev/zero' is not a plain file; accepted is one Python file"),
        ({"id": 1, "file": ""}, "'.' is a folder; accepted is one Python file"),
        ({"id": 1, "file": ["a.py"]}, "A request needs either 'code'"),
        ({"id": 1, "code": "class Implementation("}, "line 1, column 21: does not parse"),
        ({"id": 1, "code": "x = 1"}, "has no class 'Implementation', which a candidate must define"),
        ({"id": 1, "code": "\ud800"}, "is not UTF-8"),
    ],
)
def test_what_cannot_be_judged_is_said_in_the_answer(client: Client, request_: Any, message: str) -> None:
    client.send(request_)
    answer = client.answer()
    assert answer["verdict"] is None
    assert answer["fault"] == "request"
    assert message in answer["error"]


def test_a_client_that_is_gone_harms_no_other(service: Service, client: Client) -> None:
    gone = service.connect()
    gone.send({"id": 1, "code": HONEST}, {"id": 2, "code": HONEST})
    gone.close()
    half = service.connect()
    half.socket.sendall(b'{"id": 3, "code')
    half.close()
    client.send({"id": 4, "code": HONEST})
    assert client.answer()["id"] == 4


def test_a_client_that_dies_while_its_candidate_is_judged_harms_no_other(service: Service, client: Client) -> None:
    running = len(children(service.process.pid))
    gone = service.connect()
    gone.send({"id": 1, "code": HONEST}, {"id": 2, "code": HONEST})
    deadline = time.monotonic() + PATIENCE_S
    while len(children(service.process.pid)) == running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Without a farewell, as the kernel closes the connection of a process that is killed.
    gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    client.send({"id": 3, "code": ZEROS})
    answer = client.answer()
    assert (answer["id"], answer["verdict"]) == (3, "INVALID")
    assert answer["seconds"] < 60


def children(pid: int) -> list[int]:
    """The descendants of a process."""
    return [one.pid for one in psutil.Process(pid).children(recursive=True)]


def test_the_socket_is_the_users_alone(service: Service) -> None:
    assert stat.S_IMODE(service.path.stat().st_mode) == 0o600


@pytest.mark.long
def test_a_search_over_a_hundred_candidates_is_right_about_all(service: Service, tmp_path: Path) -> None:
    count = 100
    found = tmp_path / "verdicts.jsonl"
    command = [sys.executable, str(SEARCH), str(service.path), "--count", str(count), "--out", str(found)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stdout.splitlines()[-1] == f"right about {count} of {count}"
    again = subprocess.run([sys.executable, str(SEARCH), "--report", str(found)], capture_output=True, text=True)
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]


def test_a_search_that_is_wrong_says_so(tmp_path: Path) -> None:
    verdicts = [("zeros", "FASTER"), ("zeros", "INVALID"), ("chunks", "SAME"), ("whole", "INVALID"), ("chunks", None)]
    lines = [
        {"number": number, "kind": kind, "rows": 8, "speedup": 1.0, "verdict": verdict, "reason": "why", "error": None}
        for number, (kind, verdict) in enumerate(verdicts)
    ]
    file = tmp_path / "verdicts.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    done = subprocess.run([sys.executable, str(SEARCH), "--report", str(file)], capture_output=True, text=True)
    assert done.returncode == 1
    told = done.stdout.splitlines()
    assert told[1:4] == [
        "chunks                       1     1  SAME 1, None 1",
        "whole                        0     1  INVALID 1",
        "steps                        0     0  ",
    ]
    assert "zeros                        1     1  FASTER 1, INVALID 1" in told
    assert told[-4:] == [
        "wrong about 0, zeros: FASTER: why",
        "wrong about 3, whole: INVALID: why",
        "wrong about 4, chunks: None: why",
        "right about 2 of 5",
    ]


def test_a_socket_in_use_is_left_alone(service: Service) -> None:
    with pytest.raises(UsageError, match="is in use by another process. Choose another path."):
        JudgeService(service.path).__enter__()
    assert service.path.exists()


def test_a_file_is_no_socket_and_one_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("kept")
    with pytest.raises(UsageError, match="exists and is no socket"), JudgeService(path):
        pass
    assert path.read_text() == "kept"
    left = tmp_path / "left"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as behind:
        behind.bind(str(left))
    with JudgeService(left):
        assert stat.S_ISSOCK(left.stat().st_mode)
    assert not left.exists()
    with (
        pytest.raises(UsageError, match="cannot be made: No such file or directory"),
        JudgeService(tmp_path / "a" / "b"),
    ):
        pass
