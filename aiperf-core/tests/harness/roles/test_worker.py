"""A worker's answers to its requests, asked in this process beside a judge that shares its memory."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from attrs import asdict, define

from aiperf_core.candidate_format import AIPERF
from aiperf_core.devices.device import CPU
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.roles.judge import Judge
from aiperf_core.harness.roles.worker import Worker

TARGETS = Path(__file__).parents[1] / "targets"
NUMBER_OF_CALLS = 3
DOUBLES = """
class Candidate:
    def prepare(self, a):
        self.out = a.clone()

    def run(self, a):
        return self.out.copy_(a).mul_(FACTOR)
"""


@define
class Pair:
    """A judge and a worker of one target, prepared."""

    judge: Judge
    worker: Worker
    before: Message

    def is_batch_right(self) -> bool:
        """Have the worker make calls in a row; whether the judge finds all their outputs right."""
        seeds = list(range(NUMBER_OF_CALLS))
        told = self.worker.do_batch(self.judge.do_renew_batch(seeds))
        self.judge.do_keep_batch()
        return self.judge.do_compare_batch(seeds, None, told)["error"] is None


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Pair]]:
    """Open the target whose answer is twice its input, for its baseline or for a candidate's text."""
    monkeypatch.syspath_prepend(str(TARGETS))
    threads, fds, channels = torch.get_num_threads(), list[int](), list[Channel]()
    target = {"name": "tests.judged_exact", "module": "judged_exact"}

    def open_both(text: str | None = None) -> Pair:
        channels.extend(Channel.pair())
        judge, worker = Judge(channels[-2]), Worker(channels[-1])
        opened = judge.do_open(target, asdict(CPU), {"n": 8}, 1, 2)
        batch = judge.do_open_batch(NUMBER_OF_CALLS)
        fds.extend((*opened["fds"], *batch["fds"]))
        candidate = None if text is None else {"text": text, "load": AIPERF.load, "entry": "Candidate"}
        worker.do_begin(target, "doubled", asdict(CPU), [], ["sandbox"], candidate)
        before = worker.do_open({**opened["problem"], "folder": None}, tuple(opened["fds"]))
        assert worker.do_prepare()["prepare_s"] > 0
        worker.do_open_batch(batch["calls"], batch["buffers"], tuple(batch["fds"]))
        return Pair(judge, worker, before)

    yield open_both
    torch.set_num_threads(threads)
    for channel in channels:
        channel.close()
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize(("factor", "right"), [(2.0, True), (2.5, False)])
def test_calls_in_a_row_have_values_and_outputs_of_their_own(
    opened: Callable[..., Pair], factor: float, right: bool
) -> None:
    assert opened().is_batch_right()
    assert opened(DOUBLES.replace("FACTOR", str(factor))).is_batch_right() == right


def test_a_sample_that_delivers_has_its_output_in_the_judges_memory(opened: Callable[..., Pair]) -> None:
    pair = opened(DOUBLES.replace("FACTOR", "2"))
    for seed in (5, 6):
        pair.worker.do_ready()
        numbers = pair.judge.do_renew(seed)
        sample = answers.sample(pair.worker.do_sample("wall", numbers, calls=1, deliver=True, fingerprinted=False))
        assert sample.output == answers.Output(numbers={}, late=False, aliases=[])
        assert sample.time_s > 0
        assert pair.judge.do_compare(None, {})["worst"] == 0.0


def test_what_code_changed_of_the_harness_s_objects_is_in_the_last_snapshot(opened: Callable[..., Pair]) -> None:
    pair = opened(DOUBLES.replace("FACTOR", "2"))
    assert sorted(pair.before) == ["Channel", "CpuDevice", "Inputs", "MeasuredCode", "Output", "Worker"]
    now = pair.worker.do_state()["objects"]
    kept = {name: {key: now[name][key] for key in held} for name, held in pair.before.items()}
    assert kept == pair.before
    object.__setattr__(pair.worker._data, "bytes", pair.worker._data.bytes.clone())
    pair.worker._output.memory = pair.worker._output.memory.clone()
    pair.worker._code.call = lambda *_: None  # type: ignore[assignment,method-assign,return-value]
    now = pair.worker.do_state()["objects"]
    changed = [f"{name}.{key}" for name, held in pair.before.items() for key in held if now[name][key] != held[key]]
    assert sorted(changed) == ["Inputs.bytes", "MeasuredCode.overridden", "Output.memory"]
