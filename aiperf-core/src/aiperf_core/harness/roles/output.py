"""The output of a worker's calls: its fingerprint when the clock stops, and its way to the judge's memory."""

import math
import random
from typing import Any

import numpy as np
import torch
from attrs import define, field

from aiperf_core import pytree
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.errors import ContractError
from aiperf_core.harness.processes.channel import Message

WINDOW_WORDS = 1 << 21  # that a fingerprint reads of a large tensor of the host
_POISON = 0xFF  # NaN in every floating-point format, -1 in signed integers
# A smaller output is overwritten by a single thread: torch's threads would wait for each other at a barrier.
_SMALL_BYTES = 4 << 20


@define(slots=False, eq=False)
class Output:
    """The output of the last call.

    memory: the judge's, where outputs are copied to.
    value: what the call returned; None where there is none, or when it is poisoned.
    """

    _problem: Message
    _inputs: torch.Tensor
    memory: torch.Tensor
    _kind: DeviceKind
    _device: TimingDevice
    value: Any = None
    _place: float = 0.0
    _queued_sums: list[Any] | None = None
    _print: list[int] = field(factory=list)

    def queue_fingerprint(self, value: Any) -> None:
        """Queue a fingerprint of an output as it is when the clock stops."""
        self._queued_sums = self._sums(value)

    def keep_fingerprint(self) -> None:
        """Keep the fingerprint that was queued, or else that of the output now."""
        if self._queued_sums is None:
            self._place = random.random()
        self._print = [int(one) for one in self._queued_sums or self._sums(self.value)]
        self._queued_sums = None

    def is_late(self) -> bool:
        """Whether the output has changed since its fingerprint was kept."""
        return [int(one) for one in self._sums(self.value)] != self._print

    def copy(self) -> dict[str, float]:
        """Check the form of the output and copy it to the judge's memory; return its numbers."""
        numbers = self.deliver(self.value, self.memory)
        self._device.synchronize()
        return numbers

    def deliver(self, value: Any, memory: torch.Tensor) -> dict[str, float]:
        """Check the form of an output and start to copy it to memory of the judge; return its numbers."""
        shape, numbers = self._problem["output"], {}
        pytree.match(shape, value, self._kind.torch_device)
        with torch.no_grad():
            for path, node, leaf in pytree.pairs(shape, value):
                if node["type"] == "tensor":
                    pytree.view(node, memory).copy_(leaf)
                elif node["type"] == "number" and math.isfinite(leaf):
                    # NaN and infinities are no JSON; the judge refuses a number that is missing.
                    numbers[path] = leaf
        return numbers

    def aliases(self) -> list[str]:
        """Paths of the output that lie in the memory of inputs that are not state."""
        inputs = {**self._problem["inputs"]["items"], **self._problem["static"].get("items", {})}
        kept = [one for name, one in inputs.items() if name not in self._problem["state"]]
        taken = [pytree.view(node, self._inputs) for one in kept for node in pytree.tensors_of(one)]
        leaves = pytree.pairs(self._problem["output"], self.value)
        tensors = [(path, leaf) for path, node, leaf in leaves if node["type"] == "tensor"]
        return [path for path, leaf in tensors if any(pytree.overlap(leaf, one) for one in taken)]

    def poison(self) -> None:
        """Overwrite the output and release it.

        A buffer that the implementation keeps then holds NaN; any other goes back to the allocator, which hands it out
        for the next output. The rest of the same storage belongs to the implementation. The judge renews the harness's
        memory.
        """
        for one in pytree.tensors(self.value):
            storage = one.untyped_storage()
            if storage.data_ptr() in (self._inputs.data_ptr(), self.memory.data_ptr()):
                continue
            first, end = pytree.extent(one)
            with torch.inference_mode():
                region = torch.empty(0, dtype=torch.uint8, device=one.device)
                region.set_(storage, first, (end - first,), (1,))
                if self._kind.on_host and end - first <= _SMALL_BYTES:
                    region.numpy().fill(_POISON)
                else:
                    region.fill_(_POISON)
        self.value = None
        self._device.synchronize()

    def _sums(self, value: Any) -> list[Any]:
        """Sums over the bits of an output's tensors, which a device may still have to compute.

        Of a large tensor of the host only a window, at a place that is drawn, is read: a sum over all of it could take
        longer than the call. One thread reads it: the call's threads may still spin, and torch's would wait for them.
        """
        sums = []
        for one in pytree.tensors(value):
            if type(one) not in (torch.Tensor, torch.nn.Parameter) or one.layout is not torch.strided or one.is_meta:
                raise ContractError(f"the output holds {pytree.summary(one)}; accepted are plain dense tensors")
            storage, (first, end) = one.untyped_storage(), pytree.extent(one)
            # Whole words; the first may begin before the tensor, the last end behind it.
            first //= 8
            count = max(0, min(-(-end // 8), storage.nbytes() // 8) - first)
            window = min(count, WINDOW_WORDS) if self._kind.on_host else count
            words = torch.empty(0, dtype=torch.int64, device=one.device)
            words = words.set_(storage, first + int(self._place * (count - window)), (window,), (1,))
            sums.append(np.add.reduce(words.numpy()) if self._kind.on_host else words.sum())
        return sums
