"""`aiperf load run` against real servers."""

import json
import signal
import subprocess
import sys
import time
import urllib.request

import jsonschema
import pytest

from aiperf_load import schema

SHORT = ("--rate", "100", "--duration", "0.5s", "--output-tokens", "4", "--input-tokens", "8", "--timeout", "60s", "--json")  # fmt: skip


@pytest.fixture(scope="session")
def loaded(aiperf, clockwork, tmp_path_factory):
    """A bundle of a short load, and what the command printed."""
    out = tmp_path_factory.mktemp("loaded") / "b"
    return out, aiperf("load", "run", clockwork, *SHORT, "--slo", "ttft=60s", "--out", out)


def test_a_load_is_sealed_rechecked_and_shown(aiperf, loaded):
    out, done = loaded
    (point,) = json.loads(done.out)["points"]
    assert point["outcomes"] == {"OK": point["requests"]}, done.err
    assert point["goodput_share"]["value"] == 1.0
    assert "stalled" not in " ".join(point["reasons"])
    assert aiperf("recheck", out).code == 0
    assert "load/server" in aiperf("show", out).out
    written = json.loads((out / "load/server.json").read_text())["payload"]
    jsonschema.Draft202012Validator(schema.generate()).validate(written)


def test_a_changed_figure_does_not_hold(aiperf, loaded):
    out, _ = loaded
    file = out / "load/server.json"
    before = file.read_bytes()
    found = json.loads(before)
    found["payload"]["points"][0]["offered_per_s"] *= 2
    file.write_text(json.dumps(found))
    done = aiperf("recheck", out)
    file.write_bytes(before)
    assert done.code == 3
    assert "offered_per_s" in done.out


def test_tokens_of_the_tiny_server_are_all_served(aiperf, server, tmp_path):
    line = ("--endpoint", "chat", "--tokenizer", "words", "--vocabulary", "1024", "--out", tmp_path / "b")
    done = aiperf("load", "run", server("tiny", "--rows", "4"), *SHORT, *line)
    (point,) = json.loads(done.out)["points"]
    assert point["outcomes"] == {"OK": point["requests"]}, done.err


def test_ctrl_c_keeps_a_partial_bundle(aiperf, server, tmp_path):
    url = server("clockwork", "--service", "deterministic:1ms")
    line = [sys.executable, "-m", "aiperf_core", "load", "run", url, "--rate", "50", "--duration", "60s", "--warmup",
            "0s", "--output-tokens", "2", "--out", str(tmp_path / "b")]  # fmt: skip
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until_s = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(f"{url}/stats") as answer:
            if json.load(answer).get("answered", 0) > 10:
                break
        assert time.monotonic() < until_s
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    found = json.loads((tmp_path / "b/load/server.json").read_text())["payload"]["points"][0]
    assert found["outcomes"]["NOT_SENT"] > 0
    assert sum(found["outcomes"].values()) == found["requests"]
    assert aiperf("recheck", tmp_path / "b").code == 0


def test_a_server_that_is_not_there(aiperf, tmp_path):
    done = aiperf("load", "run", "http://127.0.0.1:9", *SHORT, "--out", tmp_path / "b")
    assert done.code == 1
    assert not (tmp_path / "b").exists()
    assert done.err == (
        "aiperf: 'http://127.0.0.1:9/v1/completions' was tried with one request, and nothing was measured: the "
        "connection was refused. Accepted is a stream of 4 tokens from completions in the form of OpenAI's API, with "
        "usage. Start the server, or correct the URL.\n"
    )


@pytest.mark.parametrize("command", ["run", "sweep", "show", "import", "serve"])
def test_help(aiperf, command):
    assert aiperf("load", command, "--help").code == 0


@pytest.mark.parametrize(("more", "message"), [
    (["--rate", "-1"], "--rate takes requests a second, above 0; got -1.0."),
    (["--rate", "1", "--slo", "speed=1"],
     "--slo takes limits such as ttft=200ms,tpot=50ms,e2e=10s,gap=1s, each once; got 'speed=1'."),
    (["--rate", "1", "--arrivals", "often"],
     "--arrivals takes poisson, gamma:BURSTINESS, constant, trace:FILE or closed:CLIENTS; got 'often'."),
])  # fmt: skip
def test_bad_input(aiperf, more, message):
    done = aiperf("load", "run", "http://127.0.0.1:9", *more)
    assert done.code == 2
    assert done.err == f"aiperf: {message}\n"
