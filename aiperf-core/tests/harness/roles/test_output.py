"""An output on its way from a call to the judge: copied, fingerprinted when the clock stops, overwritten before the next."""

from typing import Any

import pytest
import torch

from aiperf_core import pytree
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.errors import ContractError
from aiperf_core.harness.roles import output
from aiperf_core.harness.roles.output import Output

KIND = CpuKind()


def made(value: Any, state: tuple[str, ...] = ()) -> Output:
    """The output of a call with the inputs `a` and `b`, of the form of this value."""
    layout, inputs = pytree.Layout(), pytree.Layout()
    given = {"a": torch.ones(8), "b": torch.ones(8)}
    problem = {
        "output": pytree.describe(value, layout),
        "inputs": pytree.describe(given, inputs),
        "static": {"type": "none"},
        "state": list(state),
    }
    memory, taken = (torch.zeros(max(one.total_bytes, 1), dtype=torch.uint8) for one in (layout, inputs))
    return Output(problem, taken, memory, KIND, KIND.open(1 << 20, all_streams=True), value)


def test_a_copy_has_the_tensors_in_the_judges_memory_and_returns_the_numbers() -> None:
    one = made({"x": torch.arange(4.0), "n": 2.5, "none": None, "lost": float("nan")})
    assert one.copy() == {"n": 2.5}
    assert one.memory[:16].view(torch.float32).tolist() == [0.0, 1.0, 2.0, 3.0]
    one.value = torch.arange(4.0)
    with pytest.raises(ContractError, match="the output is"):
        one.copy()


@pytest.mark.parametrize("queued", [False, True])
def test_what_is_written_behind_the_stop_is_late(queued: bool) -> None:
    one = made(torch.arange(4.0))
    if queued:
        one.queue_fingerprint(one.value)
    one.keep_fingerprint()
    assert not one.is_late()
    one.value[3] = 7.0
    assert one.is_late()
    one.keep_fingerprint()
    assert not one.is_late(), "a fingerprint that was queued is of one call only"


def test_a_fingerprint_reads_another_part_of_a_large_output_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "WINDOW_WORDS", 2)
    one, found = made(torch.zeros(16)), set()
    for _ in range(200):
        one.keep_fingerprint()
        one.value[0] = 1.0
        found.add(one.is_late())
        one.value[0] = 0.0
    assert found == {False, True}


def test_views_of_inputs_that_are_not_state_are_aliases() -> None:
    for state, expected in (((), ["a", "b"]), (("b",), ["a"])):
        one = made({"a": torch.ones(8), "b": torch.ones(8), "c": torch.ones(8)}, state)
        assert one.aliases() == []
        views = pytree.build(one._problem["inputs"], one._inputs)
        one.value = {**one.value, **views}
        assert one.aliases() == expected


def test_a_buffer_that_is_kept_is_poisoned_and_the_harness_s_own_memory_is_not() -> None:
    one = made({"x": torch.ones(4), "y": torch.ones(4)})
    kept, one.value["y"] = one.value["x"], pytree.view(one._problem["output"]["items"]["y"], one.memory)
    one.poison()
    assert kept.isnan().all()
    assert one.memory.eq(0).all()
    assert one.value is None
