"""Running runs in the dashboard: pages, the stream of events, many and slow clients, and the end of a run."""

import asyncio
import http.client
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from aiperf_analysis.dashboard import streams
from aiperf_analysis.dashboard.pages import live as page
from aiperf_analysis.dashboard.serving import warm
from aiperf_analysis.live.observer import LiveObserver
from aiperf_analysis.live.tail import live_run, live_runs
from aiperf_analysis.live.watch import Watch
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted


def beside(name):
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


served = beside("dashboard_server").served
client_of = beside("dashboard_site").client_of
PATIENCE_S = 30.0
# Starts a run, writes a line, and waits to be killed.
KILLED = """
from aiperf_analysis.live.observer import LiveObserver
from aiperf_core.events import RunStarted
LiveObserver().run_started(RunStarted(targets=("a.one",), device="cpu", bundle="/tmp/b"))
print("written", flush=True)
input()
"""


class Run:
    """A run whose events come when a test wants; a second passes before each."""

    def __init__(self, bundle="/tmp/b"):
        self.now = 0.0
        self.observer = LiveObserver(clock=lambda: self.now)
        self.observer.run_started(RunStarted(targets=("a.one", "a.two"), device="cpu", bundle=str(bundle)))
        self.bundle = str(bundle)
        self.name = live_runs()[0].name

    def target(self, name="a.one", index=1):
        self.now += 1
        self.observer.target_started(TargetStarted(name=name, index=index, total=2))

    def progress(self, block, *, low=1.5, high=2.0, implementation="fused", target="a.one"):
        self.now += 1
        self.observer.progress(
            Progress(
                target=target, phase="sampling", implementation=implementation, samples=10 * block, seconds_left=5.0,
                share=0.25, undecided=implementation, interval=(low, high), wanted=0.01, round=1, rounds=2, block=block,
                clock_hz=3e9, temperature_c=55.0, throttled=(),
            )
        )  # fmt: skip

    def target_finished(self, name="a.one", verdict="FASTER"):
        self.now += 1
        self.observer.target_finished(TargetFinished(name=name, verdicts={"fused": verdict}, path=f"/{name}.json"))

    def finished(self, code=0):
        self.now += 1
        self.observer.run_finished(RunFinished(path=self.bundle, exit_code=code))


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The user's runtime folder, empty."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose runtime folder is that of all tests that use it."""
    folder = tmp_path_factory.mktemp("live")
    (folder / "runs").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
        with served(folder / "runs", folder / "errors") as found:
            yield found
        assert found.faults() == ""


@pytest.fixture
def run(server):
    found = Run()
    yield found
    found.finished()
    for path in page.path_of(live_run(found.name)).parent.iterdir():
        path.unlink()


class Follower:
    """A client of a stream. The end of the stream closes it."""

    def __init__(self, server, name, last=None):
        self.connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=PATIENCE_S)
        headers = {"last-event-id": str(last)} if last is not None else {}
        self.connection.request("GET", f"/api/v1/live/{name}/events", headers=headers)
        self.answer = self.connection.getresponse()
        assert (self.answer.status, self.answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
        assert self.answer.getheader("content-security-policy").startswith("default-src 'none'")

    def event(self):
        """The next event: its id, its name, its data. None at the end."""
        found = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name in ("id", "event", "data"):
                found[name] = value
            elif not line.strip() and found:
                return int(found["id"]), found["event"], json.loads(found["data"])
        self.close()
        return None

    def close(self):
        self.answer.close()
        self.connection.close()


def test_a_run_is_followed_to_its_end(server, run):
    client = Follower(server, run.name)
    number, name, data = client.event()
    assert (name, data["headline"], data["share"], data["finished"]) == ("running", "The run begins.", None, [])
    run.target()
    assert client.event()[2]["headline"] == "Measuring a.one, 1 of 2."
    run.progress(3, low=1.5, high=2.0)
    _, _, data = client.event()
    assert data["share"] == 0.25
    assert data["fields"] == {
        "run": run.name, "state": "running", "target": "a.one", "index": "1 of 2", "phase": "sampling",
        "implementation": "fused", "block": "3, round 1 of 2", "samples": "30",
        "interval": "1.50x to 2.00x, fused: ±14 %, wanted ±1 %", "left": "5.00 s", "clock": "3.00 GHz",
        "temperature": "55.0 °C", "throttled": "-", "load": data["fields"]["load"], "device": "cpu", "bundle": "/tmp/b",
        "title": "a.one · fused 1.7x ±14 % · 5 s left",
    }  # fmt: skip
    assert "<svg" in data["picture"]
    run.progress(4, low=1.5, high=2.0)
    assert "picture" in client.event()[2]
    run.target_finished()
    later, name, data = client.event()
    assert (name, data["finished"]) == ("running", [["a.one", "fused FASTER"]])
    assert "picture" not in data
    assert later > number
    run.finished(code=3)
    _, name, data = client.event()
    assert (name, data["headline"]) == ("finished", "The run has finished with exit code 3.")
    assert client.event() is None


def test_a_client_goes_on_after_its_last_event(server, run):
    run.target()
    run.target_finished("a.one")
    first = Follower(server, run.name)
    last, _, data = first.event()
    assert data["finished"] == [["a.one", "fused FASTER"]]
    first.close()
    run.target("a.two", 2)
    run.progress(1, target="a.two")
    run.target_finished("a.two", "SLOWER")
    second = Follower(server, run.name, last=last)
    number, _, data = second.event()
    assert number == last + 3
    assert data["finished"] == [["a.two", "fused SLOWER"]]
    run.finished()
    assert (second.event()[1], second.event()) == ("finished", None)
    # A client that had the last event is told the end again, so that it need not ask for ever.
    third = Follower(server, run.name, last=number + 1)
    assert third.event()[:2] == (number + 1, "finished")
    assert third.event() is None


def test_a_run_that_is_killed_is_noticed_at_once(server, run):
    child = subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"written\n"
    client = Follower(server, next(one.name for one in live_runs() if one.newest["pid"] == child.pid))
    assert client.event()[1] == "running"
    child.kill()  # nobody has taken notice of its end yet
    before = time.monotonic()
    number, name, data = client.event()
    assert (number, name, data["headline"]) == (
        0, "died", "The run ended without a last word: it was killed, or the machine went down.",
    )  # fmt: skip
    assert time.monotonic() - before < 5
    assert client.event() is None
    child.communicate()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_a_hundred_clients_see_the_end_and_leave_nothing_behind(server, run):
    before = descriptors(server)
    clients = [Follower(server, run.name) for _ in range(100)]
    assert {client.event()[1] for client in clients} == {"running"}
    for client in clients[:30]:
        client.close()
    run.finished(code=4)
    assert {client.event()[2]["fields"]["state"] for client in clients[30:]} == {"finished"}
    assert {client.event() for client in clients[30:]} == {None}
    for client in clients[30:]:
        client.close()
    end = time.monotonic() + PATIENCE_S
    while descriptors(server) > before and time.monotonic() < end:
        time.sleep(0.02)
    assert descriptors(server) <= before


def test_the_server_stops_while_a_page_follows(tmp_path, runtime):
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs", tmp_path / "errors") as server:
        run = Run()
        client = Follower(server, run.name)
        assert client.event()[1] == "running"
        server.process.send_signal(signal.SIGINT)
        assert client.event() is None
        assert server.process.wait(PATIENCE_S) in (0, -signal.SIGINT)
        # It would say that it cancels the page's request, had it waited for that.
        assert server.faults() == ""
    run.finished()


# --- without a server


@contextmanager
def following(run, counts):
    """The events of a run in an event loop of the test; `counts` gets the reads of its file."""
    asked = SimpleNamespace(site=SimpleNamespace(watch=Watch()))
    read = page._read

    def counted(*given):
        counts.append(1)
        return read(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "_read", counted)
        yield page._followed(asked, live_run(run.name), -1)


def test_nothing_is_read_while_a_run_writes_nothing(runtime, monkeypatch):
    monkeypatch.setattr(streams, "SILENCE_S", 0.1)
    run, counts = Run(), []

    async def steps():
        with following(run, counts) as events:
            assert (await anext(events)).name == "running"
            for _ in range(3):
                assert await anext(events) is None  # a silence
            run.finished()
            assert (await anext(events)).name == "finished"
            await events.aclose()

    asyncio.run(steps())
    assert len(counts) == 2


def test_a_slow_client_is_dropped(runtime, monkeypatch):
    monkeypatch.setattr(streams, "SLOW_S", 0.05)
    run, sent, every = Run(), [], streams.Streams()

    async def send(message):
        sent.append(message)
        if len(sent) > 2:
            await asyncio.sleep(3600)

    async def receive():
        await asyncio.sleep(3600)

    async def steps():
        with following(run, []) as events:
            with anyio.fail_after(10):
                await every.response(lambda: events)({"type": "http", "method": "GET"}, receive, send)
            assert not every

    asyncio.run(steps())
    assert [one.get("more_body") for one in sent] == [None, True, True]  # it is not told an end
    run.finished()


def test_a_server_has_a_limit_of_streams(runtime, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MOST_STREAMS", 0)
    run = Run()
    answer = client_of(tmp_path).get(f"/api/v1/live/{run.name}/events")
    run.finished()
    assert (answer.status_code, answer.json()["detail"]) == (
        503, "0 pages follow runs on this server. Close some, then try again.",
    )  # fmt: skip


def test_pages_and_documents(runtime, made, monkeypatch):
    bundle = made.bundle("mine")
    client = client_of(made.folder)
    assert "No run is going on. Start a run: aiperf run" in client.get("/live").text
    run = Run(bundle)
    hostile = "<b>x</b>\u202e\x1b[31m"
    run.target("a.one")
    run.target_finished("a.one", hostile)
    run.target(hostile, 2)
    run.progress(7, implementation=hostile, target=hostile)
    text = client.get("/live").text
    assert f'data-live="/api/v1/live/{run.name}/events"' in text
    assert "<details><summary>Ended" not in text
    assert re.search(r'data-field="title">[^<]* · [^<]* 1.7x ±14 % · 5 s left</a>', text)
    text = client.get(f"/live/{run.name}").text
    assert f'data-live="/api/v1/live/{run.name}/events?after=4"' in text
    assert 'value="0.2500"' in text
    assert "7, round 1 of 2" in text
    assert "<b>x</b>" not in text
    assert not re.search("[\u202e\x1b]", text)
    document = client.get(f"/api/v1/live/{run.name}").json()
    assert document["tables"][1]["records"][0]["cells"]["target"] == "a.one"
    assert document["drawings"][0]["series"][0]["points"][0]["y"]["low"] == 1.5
    assert client.get("/api/v1/live").json()["summary"] == ["1 run going on."]
    assert client.get(f"/api/v1/live/{run.name}?format=csv").status_code == 200
    run.finished()
    text = client.get(f"/live/{run.name}").text
    assert "The run has finished with exit code 0." in text
    assert "data-live" not in text
    folded = client.get("/live").text.partition("<details><summary>Ended a short time ago: 1</summary>")[2]
    assert f'<a href="/live/{run.name}" data-field="title">' in folded
    assert ", 2 of 2 · finished</a>" in folded
    found = client.get(f"/live/{run.name}/results")
    assert (found.status_code, client.get(found.headers["location"]).status_code) == (303, 200)


@pytest.mark.parametrize("place", ["/live/{}", "/live/{}/results", "/api/v1/live/{}", "/api/v1/live/{}/events"])
def test_unknown_and_wrong_names(runtime, tmp_path, place):
    client = client_of(tmp_path)
    for name in ("nothing", "..%2f..%2fetc%2fpasswd", "%00", "a" * 3000):
        answer = client.get(place.format(name))
        assert answer.status_code == 404
    told = client.get("/api/v1/live/x/events").json()["detail"]
    assert told == "'x' is no run that goes on, or ended a short time ago. The runs: /live"


@pytest.mark.parametrize("last", ["x", "-2", "1" * 16, "१"])
def test_a_wrong_number_of_the_last_event(runtime, tmp_path, last):
    run = Run()
    answer = client_of(tmp_path).get(f"/api/v1/live/{run.name}/events", params={"after": last})
    run.finished()
    assert (answer.status_code, answer.json()["detail"]) == (
        400, f"Last-Event-ID and after take the number of an event; got {last!r}.",
    )  # fmt: skip


def test_results_that_lie_elsewhere(runtime, tmp_path):
    run = Run("/elsewhere/b")
    run.finished()
    answer = client_of(tmp_path).get(f"/live/{run.name}/results")
    assert answer.status_code == 404
    assert "They lie in &#39;/elsewhere/b&#39;: start a dashboard there." in answer.text


def test_a_server_reads_nothing_at_its_start_while_a_run_goes_on(runtime, tmp_path, monkeypatch):
    read = []
    site = client_of(tmp_path).app.state.site
    monkeypatch.setattr("aiperf_analysis.dashboard.pages.overview.worse_of", lambda *given: read.append(given))
    run = Run()
    warm(site)
    assert read == []
    run.finished()
    warm(site)
    assert len(read) == 1
