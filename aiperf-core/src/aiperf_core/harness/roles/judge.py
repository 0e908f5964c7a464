"""The judge: the process that owns a target's data and compares outputs with the reference.

It imports the benchmark for its workload and never runs an implementation. Inputs lie in memory that the workers map; the
judge alone knows the seeds from which their values come.

Of a target with several ranks each has inputs and outputs of its own, in memory of its own on its own device. Values and
shapes are then dicts of them, by `rank0`, `rank1` and so on.
"""

import copy
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from attrs import asdict

from aiperf_core import pytree
from aiperf_core.benchmark import BUILT_IN_METRICS, call_with
from aiperf_core.described import TargetRef
from aiperf_core.devices import device_lock
from aiperf_core.devices.cpu import clock_cost, keep_freed_memory
from aiperf_core.devices.device import Device
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.errors import BenchmarkError
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.roles import shared_buffers
from aiperf_core.harness.roles.files import InputFile
from aiperf_core.harness.roles.output_check import Comparison, compare_numbers, compare_tensors, quality
from aiperf_core.kernelbench import KERNELBENCH
from aiperf_core.loading import load_benchmark
from aiperf_core.serving import ARRIVAL
from aiperf_core.targets import WORLD_SIZE

_CLEARED = 0xFF  # NaN in every floating-point format
_SEEDS = 1 << 63


class Judge(Service):
    """The handler of the judge's requests."""

    def do_open(
        self,
        target: Message,
        device: Message,
        params: dict[str, float],
        seed: int,
        static_seed: int,
        off: Sequence[str] = (),
    ) -> Message:
        """Make the inputs and the place for outputs; return the problem as the workers need it, its cost and the clock's.

        `device` has the fields of a `Device`. `off` names guards of the judge's that are switched off.
        """
        self._off = frozenset(off)
        keep_freed_memory()
        self._take_device(device)
        self._name, self._params = target["name"], params
        with device_lock.held():  # before the workers, which wait for what it makes
            self._benchmark = load_benchmark(TargetRef(**target))
            self._kind.wake()
        task = self._benchmark.task
        self._world = int(params.get(WORLD_SIZE, 0))
        self._fresh = self._draw(task.inputs, seed)
        self._static = self._draw(task.static, static_seed) if task.static else {}
        self._check_names(task.state)
        layouts = self._layouts()
        self._files = {name: InputFile() for name in task.files}
        self._inputs_shape = self._describe(self._in_memory(), layouts, "the workload")
        self._static_shape = self._describe(self._static, layouts, "the static arguments")
        self._inputs, inputs_arenas, inputs_fds = self._create(layouts)
        self._write(self._static_shape, self._static)
        self._write(self._inputs_shape, self._fresh)
        self._write_files()
        if self._benchmark.cache == "cold":
            self._evict_files()
        answer = self._right_answer(wide=False)
        self._check_reference()
        layouts = self._layouts()
        self._output_shape = self._describe(answer, layouts, f"the reference ({self._benchmark.reference_where})")
        self._outputs, outputs_arenas, outputs_fds = self._create(layouts)
        if target["module"].startswith(KERNELBENCH):  # what others wrote for another harness, and no lint has seen
            self._check_values_matter(answer, seed)
        self._answer: Any = None
        self._flushers: list[TimingDevice] = []
        shapes = (self._inputs_shape, self._static_shape, self._output_shape)
        self._working_set_bytes = sum(map(pytree.tensor_bytes, shapes))
        problem = {
            "device": device["name"],
            "cold": self._benchmark.cache == "cold" and "cold_cache" not in self._off,
            "params": params,
            "inputs": self._inputs_shape,
            "static": self._static_shape,
            "output": self._output_shape,
            "state": list(task.state),
            "files": {name: file.path for name, file in self._files.items()},
            "deferred": self._benchmark.deferred,
            "served": list(task.served),
            "inputs_arenas": inputs_arenas,
            "outputs_arenas": outputs_arenas,
            "working_set_bytes": self._working_set_bytes // max(1, self._world),
        }
        return {
            "problem": problem,
            "has_state": bool(task.state),
            "clock_cost_s": clock_cost(),
            "views": self._views(answer),
            "cost": asdict(self._benchmark.work(params)),
            "input_bytes": sum(map(pytree.tensor_bytes, (self._inputs_shape, self._static_shape))) + self._file_bytes(),
            "output_bytes": pytree.tensor_bytes(self._output_shape),
            "shard_elements": self._shard_elements(),
            "fds": (*inputs_fds, *outputs_fds),
        }

    def _take_device(self, device: Message) -> None:
        """Learn what kind of device the data lie on."""
        self._kind, self._device_name = Device(**device).resolve(), device["name"]
        # What torch calls it.
        self._device = self._kind.torch_device

    def do_clear(self) -> None:
        """Clear what was delivered and not judged."""
        for one in self._outputs:
            one.fill_(_CLEARED)

    def do_flush(self) -> None:
        """Evict the inputs from the last-level cache, and those in files from the page cache."""
        self._evict_files()
        places = range(1 if self._kind.on_host else max(1, self._world))
        for place in places:
            with self._on(place):
                if place == len(self._flushers):
                    self._flushers.append(self._kind.open(self._working_set_bytes, all_streams=True))
                self._flushers[place].flush()
        for place in places:
            with self._on(place):
                self._flushers[place].synchronize()

    def do_renew(self, seed: int) -> Message:
        """Draw new values and write them over the old ones; return the numbers among the inputs, of each rank where ranks are."""
        self._fresh = self._draw(self._benchmark.task.inputs, seed)
        shape = self._describe(self._in_memory(), self._layouts(), "the workload")
        if self._without_numbers(shape) != self._without_numbers(self._inputs_shape):
            raise BenchmarkError(
                f"{self._name!r}: the workload returned inputs of another structure or size for another seed; accepted "
                "are the same shapes and dtypes for every seed (pad what varies)."
            )
        self._write(self._inputs_shape, self._fresh)
        self._write_files()
        self._answer = None
        return {place: _numbers(one) for place, one in self._fresh.items()} if self._world else _numbers(self._fresh)

    def do_changed(self, thorough: bool) -> list[str]:
        """Paths of inputs whose bits are not those that were written (state excepted).

        `thorough` compares every bit, of static arguments too; otherwise sums over the bits must agree.
        """
        state = set(self._benchmark.task.state)
        files = [name for name, file in self._files.items() if file.changed(self._fresh[name], thorough=thorough)]
        if thorough:
            changed = files + self._unequal(self._inputs_shape, self._fresh, state)
            return changed + self._unequal(self._static_shape, self._static, set())
        now = self._sums()
        changed = [path for path, total in self._written.items() if now[path] != total]
        return files + [path for path in changed if self._root(path) not in state]

    def do_restore(self) -> None:
        """Write the present values of the state again, which the last call may have changed."""
        names = self._benchmark.task.state
        if not self._world:
            self._write(_part(self._inputs_shape, names), {name: self._fresh[name] for name in names})
            return
        items = {place: _part(shape, names) for place, shape in self._inputs_shape["items"].items()}
        state = {place: {name: values[name] for name in names} for place, values in self._fresh.items()}
        self._write({"type": "dict", "items": items}, state)

    def do_repair(self) -> None:
        """Write the present values again, static ones too, after something changed them."""
        self._write(self._static_shape, self._static)
        self._write(self._inputs_shape, self._fresh)
        self._write_files()

    def do_compare(self, lossy: Message | None, numbers: dict[str, float]) -> Message:
        """Compare what lies in the outputs with the reference for the present values, and clear the outputs.

        All workers map them, and the next one may be given the same values.
        """
        try:
            return self._compare(lossy, numbers)
        finally:
            if "poison" not in self._off:
                self.do_clear()
            self._wait()

    def _compare(self, lossy: Message | None, numbers: dict[str, float]) -> Message:
        if self._answer is None:
            self._answer = self._right_answer(wide=not self._exact)
            self._check_answer()
        with torch.inference_mode():
            if lossy is not None:
                return self._grade(lossy, numbers)
            results = [self._compare_leaf(*leaf, numbers) for leaf in pytree.pairs(self._output_shape, self._answer)]
        worst = max((one.worst for one in results), default=0.0)
        error = next((one.error for one in results if one.error), None)
        return {"worst": worst if math.isfinite(worst) else None, "error": error, "quality": None}

    @property
    def _exact(self) -> bool:
        return self._benchmark.tolerance.is_exact

    def _compare_leaf(self, path: str, node: pytree.Shape, right: Any, numbers: dict[str, float]) -> Comparison:
        tolerance = self._benchmark.tolerance
        if node["type"] == "tensor":
            return compare_tensors(path, self._out(node).to(right.device), right, tolerance)
        if node["type"] == "number":
            return compare_numbers(path, _claimed(numbers, path), right, tolerance)
        return Comparison(0.0)

    def _grade(self, lossy: Message, numbers: dict[str, float]) -> Message:
        metric, budget = lossy["metric"], lossy["budget"]
        if metric in BUILT_IN_METRICS:
            leaves = list(pytree.pairs(self._output_shape, self._answer))
            if any(node["type"] == "number" for _, node, _ in leaves):
                raise BenchmarkError(
                    f"{self._name!r}: the metric {metric!r} compares tensors; the output has a number."
                )
            values = [
                quality(metric, self._out(node).to(right.device), right)
                for _, node, right in leaves
                if node["type"] == "tensor"
            ]
            # Python's max would lose a NaN that does not come first.
            value = max(values, default=0.0) if all(map(math.isfinite, values)) else math.nan
        else:
            value = float(self._benchmark.metrics[metric](self._output(numbers), self._answer))
        error = None if value <= budget else f"{metric} is {value:.4g}; its budget is {budget:g}"
        finite = math.isfinite(value)
        return {
            "worst": value / budget if finite and budget else None,
            "error": error,
            "quality": value if finite else None,
        }

    def _output(self, numbers: dict[str, float]) -> Any:
        """What the implementation returned."""
        shape = copy.deepcopy(self._output_shape)
        for path, node, _ in pytree.pairs(shape, self._answer):
            if node["type"] == "number":
                node["value"] = _claimed(numbers, path)
        return pytree.rebuild(shape, self._out)

    def _arguments(self, *, wide: bool) -> dict[str, Any]:
        """The reference's arguments: copies of what it might change, floating-point tensors in float64 if `wide`."""
        arguments = self._by_name()
        if wide:
            return {key: pytree.mapped(one, _widen) for key, one in arguments.items()}
        return {key: copy.deepcopy(one) if key in self._benchmark.task.state else one for key, one in arguments.items()}

    def _by_name(self) -> dict[str, Any]:
        """Inputs and static arguments by name; of ranks, the list of what each has."""
        if not self._world:
            return {**self._fresh, **self._static}
        places = [{**values, **self._static.get(place, {})} for place, values in self._fresh.items()]
        # The reference is one program on one device, whichever GPUs the ranks have.
        return {
            name: [pytree.mapped(one[name], lambda tensor: tensor.to(self._device_of(0))) for one in places]
            for name in places[0]
        }

    def _right_answer(self, *, wide: bool) -> Any:
        """The reference's answer for the present values. Raises `BenchmarkError` for one of ranks that has none for each."""
        answer = self._benchmark.answer(self._params, self._arguments(wide=wide))
        if not self._world:
            return answer
        if type(answer) not in (list, tuple) or len(answer) != self._world:
            raise BenchmarkError(
                f"{self._name!r}: the reference ({self._benchmark.reference_where}) returned {pytree.summary(answer)}; accepted "
                f"is a list with the answer of each of {self._world} ranks."
            )
        return {rank_name(rank): one for rank, one in enumerate(answer)}

    def _shard_elements(self) -> list[int]:
        """How many numbers each rank's inputs hold; nothing where there are no ranks."""
        if not self._world:
            return []
        return [sum(one.numel() for one in pytree.tensors(values)) for values in self._fresh.values()]

    def _draw(self, draw: Any, seed: int) -> dict[str, Any]:
        if not self._world:
            return self._draw_of(draw, seed, self._device, {})
        return {
            rank_name(rank): self._draw_of(
                draw, (seed * self._world + rank) % _SEEDS, self._device_of(rank), {"rank": rank}
            )
            for rank in range(self._world)
        }

    def _device_of(self, rank: int) -> str:
        return self._kind.place(rank) if self._world else self._device

    def _draw_of(self, draw: Any, seed: int, device: str, more: dict[str, int]) -> dict[str, Any]:
        generator = torch.Generator(device).manual_seed(seed)
        values = call_with(draw, {**self._params, **more, "device": device, "generator": generator})
        if not isinstance(values, dict):
            raise BenchmarkError(
                f"{self._name!r}: the workload returned {pytree.summary(values)}; accepted is a dict of inputs by name."
            )
        return values

    def _check_names(self, state: tuple[str, ...]) -> None:
        fresh, static = self._fresh, self._static
        if self._world:
            fresh, static = fresh[rank_name(0)], static.get(rank_name(0), {})
        unknown = [name for name in state if name not in fresh]
        if unknown:
            found = ", ".join(sorted(fresh))
            raise BenchmarkError(f"{self._name!r}: state names {unknown}; the workload returns {found}.")
        for name in self._benchmark.task.files:
            if not isinstance(one := fresh.get(name), torch.Tensor) or one.device.type != "cpu":
                raise BenchmarkError(
                    f"{self._name!r}: files names {name!r}, which is {pytree.summary(one)}; accepted is a tensor on the processor."
                )
        self._check_served(fresh)
        clash = sorted((set(fresh) & set(static)) | (set(fresh) & set(self._params)))
        if clash:
            raise BenchmarkError(f"{self._name!r}: {clash} name inputs and also sizes or static arguments; rename one.")

    def _check_served(self, fresh: dict[str, Any]) -> None:
        served = self._benchmark.task.served
        for name in (*served, ARRIVAL) if served else ():
            one, rows = fresh.get(name), fresh.get(ARRIVAL)
            if not isinstance(one, torch.Tensor) or not isinstance(rows, torch.Tensor) or len(one) != len(rows):
                raise BenchmarkError(
                    f"{self._name!r}: the workload serves requests, and {name!r} is {pytree.summary(one)}; accepted are "
                    f"tensors with a row for each request, and the vector {ARRIVAL!r}."
                )

    def _check_reference(self) -> None:
        changed = self._unequal(self._inputs_shape, self._fresh, set(self._benchmark.task.state))
        changed += self._unequal(self._static_shape, self._static, set())
        if changed:
            raise BenchmarkError(
                f"{self._name!r}: the reference ({self._benchmark.reference_where}) changes its arguments "
                f"{', '.join(changed)}; let it work on copies, or name as state what a call may change."
            )

    def _check_values_matter(self, answer: Any, seed: int) -> None:
        """Raise `BenchmarkError` where another draw has the same answer: nothing has to be computed to give it."""
        drawn, self._fresh = self._fresh, self._draw(self._benchmark.task.inputs, (seed + 1) % _SEEDS)
        try:
            other = self._right_answer(wide=not self._exact)
        finally:
            self._fresh = drawn
        pairs = zip(pytree.pairs(self._output_shape, answer), pytree.pairs(self._output_shape, other), strict=True)
        tolerance = self._benchmark.tolerance
        if all(
            node["type"] == "tensor" and compare_tensors(path, one, right, tolerance).error is None
            for (path, node, one), (_, _, right) in pairs
        ):
            raise BenchmarkError(
                f"{self._name!r}: the reference ({self._benchmark.reference_where}) gives the same answer for other inputs, or is "
                "given the same ones by every draw: code that computes nothing would pass. Judge against a reference whose "
                "inputs are drawn, and whose answer depends on them."
            )

    def _check_answer(self) -> None:
        try:
            found = _forms(pytree.describe(self._answer, pytree.Layout()))
        except TypeError:
            found = None
        if found != _forms(self._output_shape):
            raise BenchmarkError(
                f"{self._name!r}: the reference ({self._benchmark.reference_where}) returned another structure or size "
                "for another seed; accepted are the same shapes for every seed (pad what varies)."
            )

    def _layouts(self) -> list[pytree.Layout]:
        """An empty layout for each place that has memory of its own."""
        return [pytree.Layout() for _ in range(max(1, self._world))]

    def _create(self, layouts: list[pytree.Layout]) -> tuple[list[torch.Tensor], list[Message], list[int]]:
        """An arena for each layout: their bytes, and what others map them by."""
        created = []
        for place, layout in enumerate(layouts):
            with self._on(place):
                created.append(shared_buffers.create(layout.total_bytes, self._kind, place))
        return (
            [tensor for tensor, _, _ in created],
            [message for _, message, _ in created],
            [fd for _, _, fds in created for fd in fds],
        )

    def _on(self, place: int) -> AbstractContextManager[Any]:
        """Make a rank's GPU the current one."""
        return self._kind.on(place)

    def _wait(self) -> None:
        for place in range(max(1, self._world)):
            self._kind.synchronize(place)

    def _in(self, node: pytree.Shape) -> torch.Tensor:
        """A tensor of the inputs."""
        return pytree.view(node, self._inputs[node.get("rank", 0)])

    def _out(self, node: pytree.Shape) -> torch.Tensor:
        """A tensor of the outputs, where a worker has put it."""
        return pytree.view(node, self._outputs[node.get("rank", 0)])

    def _describe(self, value: Any, layouts: list[pytree.Layout], what: str) -> pytree.Shape:
        try:
            if not self._world:
                return pytree.describe(value, layouts[0])
            items = {
                place: pytree.describe(one, layout)
                for (place, one), layout in zip(value.items(), layouts, strict=False)
            }
        except TypeError as error:
            raise BenchmarkError(f"{self._name!r}: {what} returned what cannot be used: {error}.") from None
        for rank, one in enumerate(items.values()):
            for node in pytree.tensors_of(one):
                node["rank"] = rank
        return {"type": "dict", "items": items}

    def _root(self, path: str) -> str:
        """The input that a path leads into."""
        within = path.partition(".")[2] if self._world else path
        return within.split(".")[0].split("[")[0]

    def _without_numbers(self, shape: pytree.Shape) -> Any:
        """A shape without the values of the numbers among the inputs, which alone may differ between seeds."""
        if not self._world:
            return _without_numbers(shape)
        return {place: _without_numbers(one) for place, one in shape["items"].items()}

    def _in_memory(self) -> dict[str, Any]:
        """The inputs that are handed over in memory, and not in files."""
        return {name: one for name, one in self._fresh.items() if name not in self._files}

    def _file_bytes(self) -> int:
        return sum(self._fresh[name].nbytes for name in self._files)

    def _evict_files(self) -> None:
        for file in self._files.values():
            file.evict()

    def _write_files(self) -> None:
        for name, file in self._files.items():
            file.write(self._fresh[name])

    def _write(self, shape: pytree.Shape, values: dict[str, Any]) -> None:
        with torch.no_grad():
            for _, node, leaf in pytree.pairs(shape, values):
                if node["type"] == "tensor":
                    self._in(node).copy_(leaf)
        self._wait()
        self._written = self._sums()

    def _views(self, answer: Any) -> list[str]:
        """Paths of an answer that lie in the memory of the arguments: what the reference may do, implementations may too."""
        arguments = {**self._fresh, **self._static}
        given = [leaf for leaf in pytree.tensors(arguments) if leaf.numel()]
        leaves = pytree.pairs(self._output_shape, answer)
        return [
            path
            for path, node, leaf in leaves
            if node["type"] == "tensor" and any(pytree.overlap(leaf, one) for one in given)
        ]

    def _sums(self) -> dict[str, int]:
        leaves = pytree.pairs(self._inputs_shape, self._fresh)
        nodes = [(path, node) for path, node, _ in leaves if node["type"] == "tensor"]
        return {path: int(_words(self._in(node)).sum()) for path, node in nodes}

    def _unequal(self, shape: pytree.Shape, values: dict[str, Any], exempt: set[str]) -> list[str]:
        unequal = []
        for path, node, leaf in pytree.pairs(shape, values):
            if node["type"] != "tensor" or self._root(path) in exempt:
                continue
            written = self._in(node)
            if not torch.equal(_words(written), _words(leaf.to(written.device))):
                unequal.append(path)
        return unequal


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor, in the widest dtype of its kind where it rounds."""
    if tensor.is_floating_point():
        return tensor.detach().to(torch.float64, copy=True)
    return tensor.detach().to(torch.complex128, copy=True) if tensor.is_complex() else tensor.clone()


def rank_name(rank: int) -> str:
    """What stands for a rank in values and shapes."""
    return f"rank{rank}"


def _part(shape: pytree.Shape, names: Sequence[str]) -> pytree.Shape:
    """The part of a dict's shape that has these names."""
    return {"type": "dict", "items": {name: shape["items"][name] for name in names}}


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {key: one for key, one in values.items() if isinstance(one, bool | int | float)}


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits as the widest integers that fit, so that NaN equals itself."""
    if not tensor.numel():  # whose strides torch does not always normalise, as `view` wants them
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    if flat.numel() % 8:
        return flat
    # A slice may begin between two words.
    return (flat.clone() if flat.storage_offset() % 8 else flat).view(torch.int64)


def _claimed(numbers: dict[str, float], path: str) -> float:
    """The number that a worker says it returned, which may be missing or anything that JSON can hold."""
    number = numbers.get(path) if isinstance(numbers, dict) else None
    return number if isinstance(number, int | float) else math.nan


def _forms(shape: pytree.Shape) -> Any:
    """The structure and the sizes of a tree, without dtypes (which float64 changes) and the values of numbers."""
    items = shape.get("items", ())
    within = {key: _forms(one) for key, one in items.items()} if isinstance(items, dict) else [*map(_forms, items)]
    return shape["type"], shape.get("shape"), within


def _without_numbers(shape: pytree.Shape) -> Any:
    """A shape without the values of the numbers at its top level, which alone may differ between seeds."""
    items = shape["items"]
    return {key: {"type": "number"} if one["type"] == "number" else one for key, one in items.items()}


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Judge(channel).serve()
