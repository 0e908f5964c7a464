"""A target at its sizes on a device: it draws the values of its arguments, and answers by its reference.

With several ranks, values and shapes are dicts by `rank0`, `rank1` and so on, each on the device of its rank.
"""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from attrs import Factory, evolve, frozen

from aiperf_core import pytree
from aiperf_core.benchmark import Benchmark, call_with
from aiperf_core.candidate_format import Reference, reference_of
from aiperf_core.described import TargetRef
from aiperf_core.devices import device_lock
from aiperf_core.devices.device import Device, DeviceKind
from aiperf_core.errors import BenchmarkError
from aiperf_core.harness.processes.channel import Message
from aiperf_core.loading import load_benchmark
from aiperf_core.precision import set_float32_precision
from aiperf_core.targets import WORLD_SIZE
from aiperf_core.validity import reference_check

# A reference with more arithmetic has all threads in any case; so has one of unknown arithmetic on more bytes.
_MUCH_FLOPS, _MUCH_UNKNOWN_BYTES = 1e8, 4 << 20
_SEEDS = 1 << 63


@frozen(eq=False)
class LoadedTarget:
    """A target at its sizes.

    params: its sizes.
    kind, device: the kind of the device that holds the data, and its name.
    foreign: the reference, if it was written for another harness.
    static: the values of the static arguments.
    threads: the number of threads that torch uses for large data.
    """

    name: str
    benchmark: Benchmark
    params: dict[str, float]
    kind: DeviceKind
    device: str
    foreign: Reference | None
    static: dict[str, Any] = Factory(dict)
    threads: int = Factory(torch.get_num_threads)

    @classmethod
    def load(cls, target: Message, device: Message, params: dict[str, float], seed: int) -> "LoadedTarget":
        """Import a target and the kind of its device, compute float32 products in full, and draw static arguments."""
        set_float32_precision("highest")
        kind, foreign = Device(**device).resolve(), reference_of(target["module"])
        with device_lock.held():  # before the workers, which wait for the judge's memory
            loaded = cls(target["name"], load_benchmark(TargetRef(**target)), params, kind, device["name"], foreign)
            kind.wake()
        return evolve(loaded, static=loaded.draw_static(seed))

    @property
    def world(self) -> int:
        """The number of ranks; 0 without ranks."""
        return int(self.params.get(WORLD_SIZE, 0))

    @property
    def places(self) -> range:
        """The numbers of the places with memory of their own: the ranks, or one."""
        return range(max(1, self.world))

    @property
    def reference(self) -> str:
        """The reference in messages."""
        return f"the reference ({self.benchmark.reference_where})"

    def fault(self, text: str) -> BenchmarkError:
        """A mistake in the benchmark."""
        return BenchmarkError(f"{self.foreign.path}: {text}" if self.foreign else f"{self.name!r}: {text}")

    def wait(self) -> None:
        """Wait for all work of this process on the devices of all ranks."""
        for place in self.places:
            self.kind.synchronize(place)

    @contextlib.contextmanager
    def all_threads(self) -> Iterator[None]:
        """Torch computes with all its threads, whatever the size of the working set."""
        usual = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(usual)

    # --- values

    def draw(self, seed: int) -> dict[str, Any]:
        """Values of the inputs."""
        return self._drawn(self.benchmark.task.inputs, seed)

    def draw_static(self, seed: int) -> dict[str, Any]:
        """Values of the static arguments."""
        static = self.benchmark.task.static
        return self._drawn(static, seed) if static else {}

    def _drawn(self, draw: Any, seed: int) -> dict[str, Any]:
        if not self.world:
            return self._drawn_on(self.kind.torch_device, draw, seed)
        seeds = {rank: (seed * self.world + rank) % _SEEDS for rank in range(self.world)}
        return {
            rank_name(rank): self._drawn_on(self.kind.place(rank), draw, own, rank=rank) for rank, own in seeds.items()
        }

    def _drawn_on(self, device: str, draw: Any, seed: int, **more: int) -> dict[str, Any]:
        generator = torch.Generator(device).manual_seed(seed)
        values = call_with(draw, {**self.params, **more, "device": device, "generator": generator})
        if not isinstance(values, dict):
            raise self.fault(f"the workload returned {pytree.summary(values)}; accepted is a dict of inputs by name.")
        return values

    def describe(self, value: Any, layouts: list[pytree.Layout], what: str) -> pytree.Shape:
        """The shape of a value, with places in the layouts of all ranks. `what` returned it, for messages."""
        try:
            if not self.world:
                return pytree.describe(value, layouts[0])
            items = {
                place: pytree.describe(one, layout)
                for (place, one), layout in zip(value.items(), layouts, strict=False)
            }
        except TypeError as error:
            raise self.fault(f"{what} returned what cannot be used: {error}.") from None
        for rank, one in enumerate(items.values()):
            for node in pytree.tensors_of(one):
                node["rank"] = rank
        return {"type": "dict", "items": items}

    def root(self, path: str) -> str:
        """The name of the argument that holds a path."""
        within = path.partition(".")[2] if self.world else path
        return within.split(".")[0].split("[")[0]

    # --- answers

    def arguments(self, fresh: dict[str, Any], *, wide: bool) -> dict[str, Any]:
        """The reference's arguments: copies of what it may change; floating-point tensors in float64 if `wide`."""
        arguments, state = self._by_name(fresh), self.benchmark.task.state
        if wide:
            return {key: pytree.mapped(one, _widen) for key, one in arguments.items()}
        return {key: copy.deepcopy(one) if key in state else one for key, one in arguments.items()}

    def _by_name(self, fresh: dict[str, Any]) -> dict[str, Any]:
        """Inputs and static arguments by name; with ranks, each a list over the ranks."""
        if not self.world:
            return {**fresh, **self.static}
        ranks = [{**own, **self.static.get(rank, {})} for rank, own in fresh.items()]
        # The reference is one program on one device, whichever GPUs the ranks have.
        device = self.kind.place(0)
        return {
            name: [pytree.mapped(own[name], lambda tensor: tensor.to(device)) for own in ranks] for name in ranks[0]
        }

    def right_answer(self, fresh: dict[str, Any], *, wide: bool, moved_bytes: int = 0) -> Any:
        """The reference's answer. Raises `BenchmarkError` where a rank has no answer.

        moved_bytes: the size of the working set, once it is known.
        """
        return self._answer(self.arguments(fresh, wide=wide), moved_bytes)

    def nudged_answer(self, fresh: dict[str, Any], relative: float, seed: int, moved_bytes: int) -> Any:
        """The reference's answer in float64 for arguments whose elements are changed by up to a relative amount."""

        def nudge(tensor: torch.Tensor) -> torch.Tensor:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                return tensor
            generator = torch.Generator(tensor.device).manual_seed(seed)
            factors = torch.empty(tensor.shape, dtype=torch.float64, device=tensor.device)
            return tensor.mul_(factors.uniform_(1 - relative, 1 + relative, generator=generator))

        return self._answer(pytree.mapped(self.arguments(fresh, wide=True), nudge), moved_bytes)

    def _answer(self, arguments: dict[str, Any], moved_bytes: int) -> Any:
        much = self.benchmark.work(self.params).flops >= _MUCH_FLOPS
        much |= self.foreign is not None and moved_bytes > _MUCH_UNKNOWN_BYTES
        with self.all_threads() if much else contextlib.nullcontext():
            answer = self.benchmark.answer(self.params, arguments)
        if not self.world:
            return answer
        if type(answer) not in (list, tuple) or len(answer) != self.world:
            raise self.fault(
                f"{self.reference} returned {pytree.summary(answer)}; accepted is a list with the answer of each of "
                f"{self.world} ranks."
            )
        return {rank_name(rank): one for rank, one in enumerate(answer)}

    def examine(self, shape: pytree.Shape, answer: Any, fresh: dict[str, Any], seed: int) -> list[tuple[Any, Any]]:
        """Check a reference that was written for another harness; its answers for two draws, each in float64 too."""
        reference_check.check_repeatable(shape, answer, self.right_answer(fresh, wide=False), self.fault)
        wide, drawn = self.right_answer(fresh, wide=True), self.draw((seed + 1) % _SEEDS)
        other = self.right_answer(drawn, wide=False)
        reference_check.check_inputs_matter(shape, answer, other, self.fault)
        return [(answer, wide), (other, self.right_answer(drawn, wide=True))]


def rank_name(rank: int) -> str:
    """The key of a rank in values and shapes."""
    return f"rank{rank}"


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor; floating-point and complex ones in their widest dtype."""
    if tensor.is_floating_point():
        return tensor.detach().to(torch.float64, copy=True)
    return tensor.detach().to(torch.complex128, copy=True) if tensor.is_complex() else tensor.clone()
