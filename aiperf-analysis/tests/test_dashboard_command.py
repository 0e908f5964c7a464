"""`aiperf dashboard`: its help, options that do not fit, a real server, its socket and its end."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from aiperf_analysis.dashboard import serving


@contextmanager
def server(*arguments):
    """A server as a process of its own: what it printed first, and the process."""
    command = [sys.executable, "-m", "aiperf_core", "dashboard", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline(), process
        finally:
            if process.poll() is None:
                process.kill()


def ended(process, how=signal.SIGINT):
    process.send_signal(how)
    _, err = process.communicate(timeout=20)
    return process.returncode, err


def test_the_help(aiperf):
    told = aiperf("dashboard", "--help")
    assert told.code == 0
    for option in ("--db", "--host", "--port", "--socket", "--accept", "--behind-proxy", "--set"):
        assert option in told.out


def test_the_help_imports_no_server():
    code = (
        "import sys; from click.testing import CliRunner; from aiperf_core.cli.main import Shell; "
        "from aiperf_core.plugins import load_plugins; "
        "CliRunner().invoke(Shell(load_plugins()), ['dashboard', '--help']); "
        "assert not {'starlette', 'uvicorn', 'jinja2', 'sqlalchemy', 'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("{tmp}/nothing",),
            "'{tmp}/nothing' does not exist; the dashboard shows a folder of bundles. Make some: aiperf run PATTERN",
        ),
        (("{tmp}", "--key", "{tmp}/x"), "TLS needs both --certificate and --key."),
        (
            ("{tmp}", "--host", "0.0.0.0"),
            "--host 0.0.0.0 lets other machines reach the server, and its token would cross the network in clear. Give "
            "--certificate and --key for TLS, or --behind-proxy if a proxy of yours ends TLS.",
        ),
        (("{tmp}", "--accept", "{tmp}"), "--accept adds bundles to a store; name it with --db URL."),
        (
            ("{tmp}", "--set", "targets"),
            "--set takes ANALYSIS.OPTION=VALUE, such as targets.file=targets.toml; got 'targets'.",
        ),
        (("{tmp}", "--set", "target.file=x"), "'target' is no analysis. Did you mean 'targets'?"),
        (("{tmp}", "--set", "targets.fle=x"), "'fle' is no option of targets. Did you mean 'file'?"),
        (("{tmp}", "--set", "cost.top=x"), "--top got 'x'; it takes a whole number."),
    ],
)
def test_options_that_do_not_fit(arguments, message, aiperf, tmp_path):
    told = aiperf("dashboard", *(one.format(tmp=tmp_path) for one in arguments))
    assert (told.code, told.err) == (2, f"aiperf: {message.format(tmp=tmp_path)}\n")


def test_a_port_that_is_taken(aiperf, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = aiperf("dashboard", tmp_path, "--port", port)
    assert told.code == 2
    assert told.err == (
        f"aiperf: cannot listen on 127.0.0.1, port {port}: Address already in use. Choose another with --port; "
        "--port 0 takes a free one.\n"
    )


def test_no_store(aiperf, tmp_path):
    told = aiperf("dashboard", "--db", f"sqlite:///{tmp_path}/none.db")
    assert told.code != 0
    assert "none.db" in told.err
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_answers_and_ends(example_runs, how):
    with server(example_runs, "--port", 0) as (line, process):
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        answer = httpx2.get(address)
        assert answer.status_code == 200
        assert "server" not in answer.headers
        code, err = ended(process, how)
    assert err == ""
    assert code in (0, 130, -how)


@pytest.fixture
def short_folder():
    """A folder whose path is short enough for a socket: the kernel takes 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_socket_is_for_this_user_alone(example_runs, short_folder):
    place = short_folder / "socket"
    with server(example_runs, "--socket", place) as (line, process):
        assert str(place) in line
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(place)), base_url="http://localhost") as client:
            assert client.get("/").status_code == 200
        taken = subprocess.run(
            [sys.executable, "-m", "aiperf_core", "dashboard", str(example_runs), "--socket", str(place)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (taken.returncode, "Choose another --socket." in taken.stderr) == (2, True)
        process.kill()
        process.communicate()
    assert place.exists(), "a killed server leaves its socket"
    with server(example_runs, "--socket", place) as (line, process):
        assert str(place) in line
        ended(process)
    assert not place.exists()


def test_off_loopback_a_token_is_printed_once(plugins, tmp_path):
    wanted = serving.Wanted(host="0.0.0.0", port=0, socket=None, hosts=("bench.example",), certificate=None, key=None,
                            behind_proxy=True, accept=None, given=(), opens=False)  # fmt: skip
    settings = serving.settings_of(plugins, wanted)
    assert settings.token is not None
    assert settings.secure
    assert "bench.example" in settings.hosts
    lines = serving.greeting("http://0.0.0.0:1/", serving.source_of(tmp_path, None), settings)
    assert f"login#token={settings.token}" in lines[0]
    assert settings.session not in "".join(lines)
