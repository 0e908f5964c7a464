"""Operations on the memory of peers, as far as they go without GPUs. The targets of chapter 4 use them on GPUs."""

import os

import pytest
import torch

from aiperf_core.distributed import disable_multicast, peer_memory, register_peer_operation, symmetric_buffers
from aiperf_core.errors import BenchmarkError, SkipError


def test_an_operation_is_one_on_symmetric_memory() -> None:
    """The harness counts operations of this namespace, with the bytes of their tensors."""
    operation = register_peer_operation("test_send(Tensor x, Tensor(a!) there) -> ()", lambda x, there: there.copy_(x))
    schema = operation.default._schema
    assert operation.default.namespace == "symm_mem"
    assert [argument.alias_info is not None for argument in schema.arguments] == [False, True]
    with pytest.raises(RuntimeError, match="test_send"):
        register_peer_operation("test_send(Tensor x, Tensor(a!) there) -> ()", print)


def test_an_operation_needs_tensors_on_gpus() -> None:
    with pytest.raises(NotImplementedError, match="aiperf_put"):
        peer_memory.put(torch.zeros(2), torch.ones(2))


def test_buffers_need_ranks() -> None:
    with pytest.raises(BenchmarkError) as caught:
        symmetric_buffers(2, dtype=torch.int64)
    assert str(caught.value) == "there are no ranks in this process; declare world_size in the sizes of the workload"


def test_buffers_need_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_memory, "world_group", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SkipError) as caught:
        symmetric_buffers(2, dtype=torch.int64)
    assert str(caught.value) == "needs GPUs: symmetric memory is memory of GPUs"


def test_multicast_is_off_unless_the_user_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
    monkeypatch.delenv(name, raising=False)
    disable_multicast()
    assert os.environ[name] == "1"
    monkeypatch.setenv(name, "0")
    disable_multicast()
    assert os.environ[name] == "0"
