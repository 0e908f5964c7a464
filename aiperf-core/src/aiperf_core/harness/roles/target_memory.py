"""The memory of a target's data, which a worker or all workers map, and the files of inputs that they read."""

from collections.abc import Collection
from typing import Any

import torch
from attrs import Factory, define, evolve, field

from aiperf_core import pytree
from aiperf_core.devices import shared_buffers
from aiperf_core.devices.input_file import InputFile
from aiperf_core.devices.shared_buffers import Buffers
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.harness.processes.channel import Message
from aiperf_core.harness.roles.loaded_target import LoadedTarget
from aiperf_core.validity import workload_check

_CLEARED = 0xFF  # NaN in every floating-point format


@define(eq=False)
class TargetMemory:
    """The memory of inputs, static arguments and outputs.

    files: the inputs that are passed in files, by name; the others are passed in memory.
    inputs_shape, static_shape, output_shape: describe the inputs in memory, the static arguments and an output.
    inputs: the memory of inputs and static arguments.
    outputs: the memory of outputs, made when the first answer of the reference is known.
    """

    target: LoadedTarget
    files: dict[str, InputFile]
    inputs_shape: pytree.Shape
    static_shape: pytree.Shape
    inputs: Buffers
    output_shape: pytree.Shape = field(factory=dict)
    outputs: Buffers = field(factory=Buffers)
    _copies: list[torch.Tensor] = field(factory=list)
    _judged: list[torch.Tensor] = field(init=False, default=Factory(lambda self: self.outputs.bytes, takes_self=True))
    _written: dict[str, int] = field(init=False, factory=dict)
    _flushers: list[TimingDevice] = field(init=False, factory=list)

    @classmethod
    def create(cls, target: LoadedTarget, fresh: dict[str, Any]) -> "TargetMemory":
        """Make memory for inputs of this form and for the static arguments, and write them."""
        files = {name: InputFile() for name in target.benchmark.task.files}
        layouts = [pytree.Layout() for _ in target.places]
        inputs_shape = target.describe(_in_memory(fresh, files), layouts, "the workload")
        static_shape = target.describe(target.static, layouts, "the static arguments")
        memory = cls(target, files, inputs_shape, static_shape, _buffers(layouts, target))
        memory.write_all(fresh)
        if target.benchmark.cache == "cold":
            memory.evict_files()
        return memory

    def make_outputs(self, answer: Any) -> None:
        """Make memory for outputs of the form of an answer of the reference."""
        layouts = [pytree.Layout() for _ in self.target.places]
        self.output_shape = self.target.describe(answer, layouts, self.target.reference)
        self.outputs = _buffers(layouts, self.target)
        self._judged = self.outputs.bytes

    def at(self, inputs: torch.Tensor, outputs: torch.Tensor) -> "TargetMemory":
        """The same in other memory, with memory for a copy of the outputs."""
        copies = [torch.empty_like(outputs)]
        return evolve(self, inputs=Buffers([inputs]), outputs=Buffers([outputs]), copies=copies)

    def another(self, fresh: dict[str, Any]) -> "TargetMemory":
        """The same in memory of its own, with these inputs and the static arguments written."""
        kind = self.target.kind
        inputs, outputs = (
            shared_buffers.create_each([one.numel() for one in each.bytes], kind)
            for each in (self.inputs, self.outputs)
        )
        memory = evolve(self, inputs=inputs, outputs=outputs)
        memory.write_all(fresh)
        return memory

    @property
    def arguments_bytes(self) -> int:
        """The bytes of all inputs and static arguments that are passed in memory."""
        return pytree.tensor_bytes(self.inputs_shape) + pytree.tensor_bytes(self.static_shape)

    def argument(self, node: pytree.Shape) -> torch.Tensor:
        """A tensor of the inputs or the static arguments."""
        return pytree.view(node, self.inputs.bytes[node.get("rank", 0)])

    def output(self, node: pytree.Shape) -> torch.Tensor:
        """A tensor of the outputs, as a worker wrote it."""
        return pytree.view(node, self._judged[node.get("rank", 0)])

    def keep(self) -> None:
        """Copy the outputs, before anything else can write to them. The copy is compared, until it is cleared."""
        for index, buffer in enumerate(self.outputs.bytes):
            if index == len(self._copies):
                self._copies.append(torch.empty_like(buffer))
            self._copies[index].copy_(buffer)
        self._judged = self._copies

    def clear(self) -> None:
        """Clear outputs that were delivered and not judged."""
        self._judged = self.outputs.bytes
        for buffer in self.outputs.bytes:
            buffer.fill_(_CLEARED)

    # --- values

    def renew(self, fresh: dict[str, Any]) -> Message:
        """Write other inputs over the old ones; return those that are numbers, by rank if any."""
        target, layouts = self.target, [pytree.Layout() for _ in self.target.places]
        shape = target.describe(_in_memory(fresh, self.files), layouts, "the workload")
        workload_check.check_form(shape, self.inputs_shape, bool(target.world), target.fault)
        self.write(fresh)
        self._write_files(fresh)
        return {rank: _numbers(one) for rank, one in fresh.items()} if target.world else _numbers(fresh)

    def write(self, fresh: dict[str, Any], only: Collection[str] | None = None) -> None:
        """Write the inputs that are passed in memory; `only` names those to write."""
        self._put(self.inputs_shape, fresh, only)
        self._written = self._sums(fresh)

    def write_all(self, fresh: dict[str, Any]) -> None:
        """Write all inputs, and the static arguments."""
        self._put(self.static_shape, self.target.static)
        self.write(fresh)
        self._write_files(fresh)

    def put(self, fresh: dict[str, Any]) -> None:
        """Write inputs of the form of the old ones, for comparisons of every bit: sums are not kept."""
        self._put(self.inputs_shape, fresh)
        self._write_files(fresh)

    def _put(self, shape: pytree.Shape, values: dict[str, Any], only: Collection[str] | None = None) -> None:
        with torch.no_grad():
            for path, node, leaf in pytree.tensor_pairs(shape, values):
                if only is None or self.target.root(path) in only:
                    self.argument(node).copy_(leaf)
        self.target.wait()

    def _write_files(self, fresh: dict[str, Any]) -> None:
        for name, file in self.files.items():
            file.write(fresh[name])

    def changed(self, fresh: dict[str, Any], *, thorough: bool) -> list[str]:
        """Paths of inputs whose bits differ from the values that were written, except state.

        thorough: compare every bit, also of static arguments; otherwise compare sums of the bits.
        """
        files = [name for name, file in self.files.items() if file.changed(fresh[name], thorough=thorough)]
        if thorough:
            return files + self.unequal(fresh)
        now, state = self._sums(fresh), self.target.benchmark.task.state
        changed = [path for path, total in self._written.items() if now[path] != total]
        return files + [path for path in changed if self.target.root(path) not in state]

    def unequal(self, fresh: dict[str, Any]) -> list[str]:
        """Paths of arguments in memory of which any bit differs from these values, except state."""
        state = self.target.benchmark.task.state
        return self._unequal(self.inputs_shape, fresh, state) + self._unequal(self.static_shape, self.target.static)

    def _unequal(self, shape: pytree.Shape, values: dict[str, Any], exempt: Collection[str] = ()) -> list[str]:
        return [
            path
            for path, node, leaf in pytree.tensor_pairs(shape, values)
            if self.target.root(path) not in exempt and not pytree.same_bits(self.argument(node), leaf)
        ]

    def _sums(self, fresh: dict[str, Any]) -> dict[str, int]:
        nodes = pytree.tensor_pairs(self.inputs_shape, fresh)
        return {path: int(pytree.words(self.argument(node)).sum()) for path, node, _ in nodes}

    # --- caches

    def flush(self, working_set_bytes: int) -> None:
        """Evict the inputs from the last-level cache, and those in files from the page cache."""
        self.evict_files()
        kind = self.target.kind
        places = range(1) if kind.on_host else self.target.places
        for place in places:
            with kind.on(place), self.target.all_threads():
                if place == len(self._flushers):
                    self._flushers.append(kind.open(working_set_bytes, all_streams=True))
                self._flushers[place].flush()
        for place in places:
            with kind.on(place):
                self._flushers[place].synchronize()

    def evict_files(self) -> None:
        """Evict the inputs in files from the page cache."""
        for file in self.files.values():
            file.evict()


def _buffers(layouts: list[pytree.Layout], target: LoadedTarget) -> Buffers:
    return shared_buffers.create_each([one.total_bytes for one in layouts], target.kind)


def _in_memory(fresh: dict[str, Any], files: Collection[str]) -> dict[str, Any]:
    """The inputs that are passed in memory."""
    return {name: one for name, one in fresh.items() if name not in files}


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {key: one for key, one in values.items() if isinstance(one, bool | int | float)}
