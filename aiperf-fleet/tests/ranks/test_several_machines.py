"""Ranks on several machines: agents of two on this one, real processes that talk through gloo and TCP."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.processes.channel import Channel
from aiperf_core.harness.processes.child import ChildError, ForkServer
from aiperf_core.harness.ranks.rank_group import Rank
from aiperf_core.harness.ranks.rank_launcher import GRACE_S
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_fleet.ranks.coordinator import Coordinator, Peer, RemoteNode
from aiperf_fleet.ranks.link import Endpoint, Link, Nodes, connect, listen
from aiperf_fleet.ranks.node_agent import NodeAgent
from aiperf_fleet.ranks.rank_group import RemoteRank, SpreadRankGroup
from aiperf_fleet.ranks.torchrun import Torchrun

pytestmark = pytest.mark.quiet

Measure = Callable[..., object]
TARGETS = Path(__file__).parents[3] / "aiperf-core" / "tests" / "harness" / "targets"
SECRET = b"a secret of all machines"
AGENT = """
import sys
from aiperf_core.errors import AiperfError
from aiperf_fleet.ranks.node_agent import serve
from aiperf_fleet.ranks.link import Endpoint, Nodes

secret, port = sys.argv[1:]
try:
    where = Endpoint("127.0.0.1", int(port))
    serve(Nodes(count=2, endpoint=where, secret=secret.encode(), identity={"torch": "2.0"}, wait_s=30.0), 1, print)
except AiperfError as error:
    sys.exit(str(error))
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def nodes_at(port: int, wait_s: float = 30.0, secret: bytes = SECRET) -> Nodes:
    where = Endpoint("127.0.0.1", port)
    return Nodes(count=2, endpoint=where, secret=secret, identity={"torch": "2.0"}, wait_s=wait_s)


def start_agent(port: int, folder: Path) -> "subprocess.Popen[str]":
    paths = os.pathsep.join([str(TARGETS), *filter(None, sys.path)])
    # One that is killed leaves its files behind.
    variables = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", AGENT, SECRET.decode(), str(port)]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows_of(result: object) -> dict[str, Row]:
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


def gone(processes: list[psutil.Process], timeout: float = 10.0) -> bool:
    """Whether they have all ended; one that nobody has waited for has too."""
    _, alive = psutil.wait_procs(processes, timeout)
    return [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


def under(agent: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The processes under an agent, but for its fork server, which all others are under."""
    (server,) = psutil.Process(agent.pid).children()
    return list(server.children(recursive=True))


@pytest.fixture(scope="module")
def agent(shared_planner: Planner, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[subprocess.Popen[str]]":
    """An agent, whose run is that of the executor `several` of the shared planner."""
    port = free_port()
    process = start_agent(port, tmp_path_factory.mktemp("agent"))
    try:
        shared_planner._executors["several"] = Torchrun(shared_planner._server, nodes_at(port))
        yield process
        shared_planner._executors.pop("several").close()
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, err) in ((0, ""), (-9, "")), out


@pytest.fixture(scope="module")
def rows(shared_measure: Measure, agent: object) -> dict[str, Row]:
    names = ("gathered", "slow_rank", "wrong_rank")
    # All machines share the processors of this one, which is no place to hold clocks against each other.
    return rows_of(shared_measure("several_ranks", *names, executor="several", policy="lenient"))


def test_ranks_of_both_machines_are_measured_and_judged(rows: dict[str, Row]) -> None:
    assert rows["library"].verdict is Verdict.MEASURED, rows["library"].reason
    assert rows["gathered"].speedup is not None, rows["gathered"].reason
    assert rows["gathered"].judgement is not None
    assert rows["wrong_rank"].verdict is Verdict.INVALID
    assert "rank1.sum" in str(rows["wrong_rank"].reason)


def test_the_slowest_rank_counts(rows: dict[str, Row]) -> None:
    row = rows["slow_rank"]
    assert row.wall_s is not None
    assert row.wall_s.value >= 0.2


def test_each_rank_is_in_the_result_with_its_machine(rows: dict[str, Row]) -> None:
    ranks = rows["library"].ranks
    assert [one.rank for one in ranks] == [0, 1]
    host = socket.gethostname()
    assert {one.device for one in ranks} == {f"cpu of node 0 ({host})", f"cpu of node 1 ({host})"}
    assert [one.collectives for one in ranks] == [{"allreduce": 1}] * 2


def test_what_another_machine_weakens_is_said(rows: dict[str, Row]) -> None:
    assert rows["gathered"].not_observed.keys() >= {"process_census", "fresh_values", "inputs_intact", "clocks_agree"}


def test_fewer_ranks_than_machines(measure: Measure, agent: object) -> None:
    rows = rows_of(measure("several_ranks", "gathered", executor="several", params={"world_size": 1}))
    assert rows["gathered"].verdict is Verdict.SKIPPED
    assert rows["gathered"].reason == (
        "is a workload of 1 ranks, too few for --nnodes 2; --set world_size=2 asks for more"
    )


@pytest.fixture(scope="module")
def failed(shared_measure: Measure, agent: object) -> dict[str, Row]:
    names, options = ("dies", "exits", "raises"), {"executor": "several", "policy": "lenient"}
    return rows_of(shared_measure("several_ranks", *names, params={"world_size": 3}, **options))


@pytest.mark.parametrize(
    ("name", "rank", "reason"),
    [
        ("dies", 1, "was killed by SIGKILL during 'sample'; the kernel does so when memory runs out"),
        ("exits", 0, "exited with status 7 during 'sample', without a result"),
        ("raises", 1, "raised ValueError: not today"),
    ],
)
def test_a_rank_that_fails_ends_its_row_with_its_machine(
    failed: dict[str, Row], agent: "subprocess.Popen[str]", name: str, rank: int, reason: str
) -> None:
    row, host = failed[name], socket.gethostname()
    assert row.verdict is Verdict.FAILED
    # Which machine has which rank is the launchers' choice.
    assert str(row.reason) in {f"rank {rank} on node {number} ({host}) {reason}" for number in (0, 1)}
    if name == "dies":
        assert "rank 1: my last words" in row.log
    assert failed["library"].verdict is Verdict.MEASURED, failed["library"].reason
    assert gone(under(agent)), "no rank outlives its implementation"


def test_more_ranks_than_machines(failed: dict[str, Row]) -> None:
    ranks = failed["library"].ranks
    assert [one.rank for one in ranks] == [0, 1, 2]
    assert sorted(one.device.split()[3] for one in ranks) == ["0", "0", "1"], "the first machine has one more"


def test_ranks_that_hang_are_ended_on_both_machines(measure: Measure, agent: "subprocess.Popen[str]") -> None:
    row = rows_of(measure("several_ranks", "hangs", executor="several", timeout_s=2.0))["hangs"]
    assert row.verdict is Verdict.FAILED
    assert "gave no answer within 2 s (during 'sample') and all were killed" in str(row.reason)
    for rank in (0, 1):
        assert any(line.startswith(f"rank {rank}:   File ") for line in row.log), row.log
    assert gone(under(agent))


def test_an_agent_that_dies_ends_its_rows(
    measure: Measure, agent: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this agent."""
    here, left = psutil.Process(), []

    def kill_agent(self: SpreadRankGroup, do: str, **arguments: Any) -> None:
        if do == "sample" and agent.poll() is None:
            left.extend(psutil.Process(agent.pid).children(recursive=True))
            agent.kill()
            agent.wait()
        post(self, do, **arguments)

    post = SpreadRankGroup.post
    before = set(here.children(recursive=True))
    monkeypatch.setattr(SpreadRankGroup, "post", kill_agent)
    rows = rows_of(measure("several_ranks", "gathered", executor="several"))
    assert {row.verdict for row in rows.values()} == {Verdict.FAILED}
    assert "is lost: its machine or the agent there closed the connection during" in str(rows["library"].reason)
    assert f"on node 1 ({socket.gethostname()})" in str(rows["library"].reason)
    assert len(left) > 3
    assert gone(left), "with the agent its fork server, launchers and ranks ended"
    assert gone(list(set(here.children(recursive=True)) - before))


class _Ended:
    """Takes the place of what a group ends."""

    def kill(self) -> None:
        """There is nothing to end."""


def test_the_rank_that_died_is_named_and_not_the_one_that_noticed(tmp_path: Path) -> None:
    """Another machine needs longer to tell how a rank ended than its neighbour here to complain."""
    here, local = Channel.pair()
    there, remote = Channel.pair()
    coordinator: Any = SimpleNamespace(host="a")
    ended: Any = _Ended()
    server: ForkServer = None  # type: ignore[assignment]
    group = SpreadRankGroup("x", 2, ended, server, coordinator, "group", {1: ended})
    node = RemoteNode(Peer(1, "b", Link(there.sock)), "group")
    group.ranks = [
        Rank("x", 0, here, tmp_path, server, number=0, group=group),
        RemoteRank("x", 0, there, tmp_path, server, number=1, group=group, node=node, place=node.peer.name),
    ]

    def answer() -> None:
        token = local.receive()["token"]
        local.send({"token": token, "error": {"kind": "raised", "type": "RuntimeError", "message": "closed by peer"}})
        token = remote.receive()["token"]
        remote.send({"token": token, "closing": True})
        time.sleep(2 * GRACE_S)
        remote.send({"token": token, "ended": -9})

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(ChildError) as caught:
        group.ask("sample", timeout=5.0)
    thread.join()
    assert str(caught.value).startswith("rank 1 on node 1 (b) was killed by SIGKILL")
    local.close()
    remote.close()


# --- who may come


def test_an_agent_whose_first_machine_is_lost_ends(tmp_path: Path) -> None:
    port = free_port()
    process = start_agent(port, tmp_path)
    coordinator = Coordinator.open(nodes_at(port))
    assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    coordinator.peers[1].link.close()
    _, err = process.communicate(timeout=20)
    coordinator.close()
    assert process.returncode == 1
    assert (
        err == f"The first machine, at 127.0.0.1:{port}, is lost (end of stream); the ranks of this one were ended.\n"
    )
    assert gone(children)
    assert os.listdir(tmp_path) == []


def test_a_machine_that_never_comes() -> None:
    port = free_port()
    with pytest.raises(AiperfError) as caught:
        Coordinator.open(nodes_at(port, wait_s=0.2))
    assert str(caught.value) == (
        f"--nnodes 2 needs 1 more; node 1 did not come to 127.0.0.1:{port} within 0.2 s. Start the same command there with "
        "--node-rank 1."
    )


def test_a_name_that_only_this_machine_knows_is_seen_in_the_message() -> None:
    where = Endpoint("localhost", free_port())
    with pytest.raises(AiperfError, match=r"did not come to localhost:\d+, which is [0-9.:]+ here, within 0.1 s"):
        Coordinator.open(evolve(nodes_at(0, wait_s=0.1), endpoint=where))


def test_a_first_machine_that_never_comes() -> None:
    port = free_port()
    with pytest.raises(AiperfError) as caught:
        connect(nodes_at(port), 0.3)
    assert str(caught.value).startswith(f"Nothing listened at 127.0.0.1:{port} within 0.3 s: ")


def waiting(nodes: Nodes) -> tuple[threading.Thread, list[str]]:
    """Wait for machines in a thread; what that ends with."""
    said: list[str] = []

    def wait() -> None:
        try:
            Coordinator.open(nodes).close()
        except AiperfError as error:
            said.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, said


def test_another_secret_is_turned_away() -> None:
    port = free_port()
    thread, said = waiting(nodes_at(port, wait_s=1.0))
    with pytest.raises(AiperfError) as caught:
        connect(nodes_at(port, secret=b"another secret, as long"), 5.0)
    thread.join()
    assert str(caught.value) == (
        f"The machine at 127.0.0.1:{port} has another secret than this one. AIPERF_RDZV_TOKEN must be the same on all "
        "machines."
    )
    assert "Refused: 127.0.0.1, since it has another secret." in said[0]


def test_a_first_machine_without_the_secret_is_turned_away() -> None:
    """Else whoever took its address could have code of its choice measured on all machines."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def pretend() -> None:
            connection, _ = server.accept()
            connection.sendall(b"aiperf, several machines, 1\n" + bytes(32))
            connection.recv(64, socket.MSG_WAITALL)
            connection.sendall(b"x" * 32)
            connection.close()

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(AiperfError, match="What answers at .* has another secret than this one"):
            connect(nodes_at(server.getsockname()[1]), 5.0)
        thread.join()


def test_strangers_do_not_disturb() -> None:
    port = free_port()
    thread, said = waiting(nodes_at(port, wait_s=1.0))
    for words in (b"", b"GET / HTTP/1.1\r\n\r\n" + bytes(64)):
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                with socket.create_connection(("127.0.0.1", port)) as one:
                    one.sendall(words)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
    thread.join()
    assert "node 1 did not come" in said[0]


def test_machines_that_differ_are_refused_with_what_differs(tmp_path: Path) -> None:
    nodes = nodes_at(free_port(), wait_s=20.0)
    thread, said = waiting(nodes)
    server: ForkServer = None  # type: ignore[assignment]
    with pytest.raises(AiperfError) as caught:
        NodeAgent(evolve(nodes, identity={"torch": "1.0"}), 1, server, tmp_path, print).serve()
    thread.join()
    host = socket.gethostname()
    assert said == [
        f"The machines of a run must be alike, and two are not: torch is 2.0 on node 0 ({host}) and 1.0 on node 1 ({host}). "
        "Install the same on both."
    ]
    assert str(caught.value) == said[0]


def test_a_machine_with_the_number_of_another_is_refused(tmp_path: Path) -> None:
    nodes = nodes_at(free_port(), wait_s=1.0)
    thread, said = waiting(nodes)
    server: ForkServer = None  # type: ignore[assignment]
    with pytest.raises(AiperfError) as caught:
        NodeAgent(nodes, 2, server, tmp_path, print).serve()
    thread.join()
    assert str(caught.value) == ("There is no place for node 2: --nnodes is 2, and each --node-rank comes once.")
    assert f"Refused: node 2 ({socket.gethostname()}), since there is no place for it." in said[0]


def test_every_interface_is_open_to_nobody() -> None:
    with pytest.raises(UsageError, match="every interface of this machine would be open"):
        listen(Endpoint("0.0.0.0", free_port()))
    with pytest.raises(UsageError, match=r"this machine, the one of --node-rank 0, cannot listen there"):
        listen(Endpoint("192.0.2.1", free_port()))


@pytest.mark.parametrize("text", ["host", "host:", ":29400", "host:0", "host:65536", "host:x", ""])
def test_an_endpoint_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(UsageError, match="--rdzv-endpoint takes HOST:PORT"):
        Endpoint.of(text)


def test_endpoints_in_print() -> None:
    assert str(Endpoint.of("gpu-a:29400")) == "gpu-a:29400"
    assert Endpoint.of("[::1]:29400") == Endpoint("::1", 29400)
    assert str(Endpoint("::1", 29400)) == "[::1]:29400"
