"""`aiperf load` against real servers, each a process of its own."""

import json
import signal
import subprocess
import sys
import time

import pytest

FAULTS = {"cut": "CUT", "malformed": "MALFORMED", "early": "EARLY_STOP", "wrong-usage": "WRONG_COUNT",
          "error": "SERVER_ERROR", "429": "HTTP_429", "500": "HTTP_5XX", "404": "HTTP_OTHER", "redirect": "REDIRECTED",
          "html": "WRONG_TYPE", "gzip": "ENCODED", "huge": "TOO_LARGE", "endless": "ENDLESS", "hang": "TIMEOUT"}  # fmt: skip


def aiperf(*arguments):
    line = [sys.executable, "-m", "aiperf_core", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def loaded(url, out, *more):
    return aiperf("load", "run", url, "--rate", "40", "--duration", "2s", "--output-tokens", "4", "--input-tokens", "8",
                  "--out", out, "--json", *more)  # fmt: skip


def test_a_load_is_sealed_rechecked_and_shown(server, tmp_path):
    done = loaded(server("clockwork", "--service", "deterministic:1ms"), tmp_path / "b", "--slo", "ttft=1s")
    (point,) = json.loads(done.stdout)["points"]
    assert point["outcomes"] == {"OK": point["requests"]}, done.stderr
    assert point["goodput_share"]["value"] == 1.0
    assert aiperf("recheck", tmp_path / "b").returncode == 0
    assert "load/server" in aiperf("show", tmp_path / "b").stdout


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_counted_once(server, tmp_path, fault):
    # The first request tries the server, so that the faults begin behind it.
    url = server("clockwork", "--service", "deterministic:1ms", "--fault", f"{fault}:5")
    done = loaded(url, tmp_path / "b", "--timeout", "1s")
    (point,) = json.loads(done.stdout)["points"]
    faulty = (point["requests"] + 1) // 5
    assert point["outcomes"] == {"OK": point["requests"] - faulty, FAULTS[fault]: faulty}


def test_tokens_of_the_tiny_server_are_all_served(server, tmp_path):
    url = server("tiny", "--rows", "4")
    done = loaded(url, tmp_path / "b", "--endpoint", "chat", "--tokenizer", "words", "--vocabulary", "1024")
    (point,) = json.loads(done.stdout)["points"]
    assert point["outcomes"] == {"OK": point["requests"]}, done.stderr


def test_a_changed_figure_does_not_hold(server, tmp_path):
    loaded(server("clockwork", "--service", "deterministic:1ms"), tmp_path / "b")
    file = tmp_path / "b/load/server.json"
    found = json.loads(file.read_text())
    found["payload"]["points"][0]["offered_per_s"] *= 2
    file.write_text(json.dumps(found))
    done = aiperf("recheck", tmp_path / "b")
    assert done.returncode == 3
    assert "offered_per_s" in done.stdout


def test_ctrl_c_keeps_a_partial_bundle(server, tmp_path):
    url = server("clockwork", "--service", "deterministic:1ms")
    line = [sys.executable, "-m", "aiperf_core", "load", "run", url, "--rate", "20", "--duration", "60s", "--warmup",
            "0s", "--output-tokens", "2", "--out", str(tmp_path / "b")]  # fmt: skip
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "b/manifest.json").exists():
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    found = json.loads((tmp_path / "b/load/server.json").read_text())["payload"]["points"][0]
    assert found["outcomes"]["NOT_SENT"] > 0
    assert sum(found["outcomes"].values()) == found["requests"]
    assert aiperf("recheck", tmp_path / "b").returncode == 0


def test_a_server_that_is_not_there(tmp_path):
    done = loaded("http://127.0.0.1:9", tmp_path / "b")
    assert done.returncode == 1
    assert not (tmp_path / "b").exists()
    assert "nothing was measured: the connection was refused" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run", "sweep", "show", "serve"])
def test_help(command):
    assert aiperf("load", command, "--help").returncode == 0


@pytest.mark.parametrize(("more", "message"), [
    (["--rate", "-1"], "--rate takes requests a second, above 0; got -1.0."),
    (["--rate", "1", "--slo", "speed=1"], "--slo takes limits such as"),
    (["--rate", "1", "--arrivals", "often"], "--arrivals takes poisson"),
])  # fmt: skip
def test_bad_input(more, message):
    done = aiperf("load", "run", "http://127.0.0.1:9", *more)
    assert done.returncode == 2
    assert message in done.stderr
