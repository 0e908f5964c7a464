"""The judge: the process that owns a target's data and compares outputs with the reference.

It imports the benchmark for its workload and never runs an implementation. Inputs are in memory that the workers map;
only the judge knows the seeds of their values.

With several ranks, each rank has its own inputs and outputs in its own memory on its own device. Values and shapes are
then dicts by `rank0`, `rank1` and so on.
"""

import contextlib
import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

import psutil
import torch
from attrs import asdict, frozen

from aiperf_core import pytree
from aiperf_core.benchmark import BUILT_IN_METRICS, call_with
from aiperf_core.candidate_format import Reference, reference_of
from aiperf_core.described import TargetRef
from aiperf_core.devices import device_lock, shared_buffers
from aiperf_core.devices.cpu import clock_cost, keep_freed_memory
from aiperf_core.devices.device import Device
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.devices.input_file import InputFile
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.errors import BenchmarkError
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.fork_server import redirect_output
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.roles.describer import describe
from aiperf_core.loading import load_benchmark
from aiperf_core.precision import set_float32_precision
from aiperf_core.serving import ARRIVAL
from aiperf_core.targets import WORLD_SIZE
from aiperf_core.tolerance import TOLERANCES, Tolerance
from aiperf_core.validity import reference_check
from aiperf_core.validity.output_check import Comparison, compare_leaf, quality

_CLEARED = 0xFF  # NaN in every floating-point format
# Smaller working sets are handled by a single thread. Torch's threads meet at a barrier after each operation: on a busy
# machine, or just after the process was stopped, all of them spin there for milliseconds until the last one runs.
_SMALL_BYTES = 32 << 20
# A reference with more arithmetic has all threads in any case; so has one of unknown arithmetic on more bytes.
_MUCH_FLOPS, _MUCH_UNKNOWN_BYTES = 1e8, 4 << 20
_SEEDS = 1 << 63
# The part of the free memory that the calls of a batch may take.
_BATCH_SHARE = 0.2
_ALIGNED = 256
_NUMBER: pytree.Shape = {"type": "number"}


@frozen
class _Place:
    """The memory of one call of a batch: its inputs, its outputs, and a copy of them."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    kept: list[torch.Tensor]


class Judge(Service):
    """Answers the judge's requests."""

    # Before it has opened a target.
    _foreign: Reference | None = None
    _working_set_bytes = 0

    def do_open(
        self,
        target: Message,
        device: Message,
        params: dict[str, float],
        seed: int,
        static_seed: int,
        off: Sequence[str] = (),
        tolerance: Message | None = None,
        flush_bound: Message | None = None,
        ahead: bool = False,
    ) -> Message:
        """Make the inputs and the memory for outputs; return the problem for the workers, its cost and the clock's.

        device: the fields of a `Device`.
        flush_bound: the fields of the `FlushBound` of this machine; None where nothing is known.
        tolerance: the fields of the `Tolerance` that the user asks for; None for that of the benchmark.
        off: the judge's guards that are switched off.
        ahead: no run waits: touch the memory of a flush and of an answer too, which a first use of them does else.
        """
        self._off = frozenset(off)
        self._threads = torch.get_num_threads()
        keep_freed_memory()
        self._take_device(device)
        if flush_bound is not None:
            self._kind.flush_bound = FlushBound(**flush_bound)
        self._name, self._params = target["name"], params
        self._foreign = reference_of(target["module"])
        self._own_tolerance = Tolerance(**tolerance) if tolerance else None
        with device_lock.held():  # before the workers, which wait for the judge's memory
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
        self._inputs, inputs_buffers, inputs_fds = self._create(layouts)
        self._write(self._static_shape, self._static)
        self._write(self._inputs_shape, self._fresh)
        self._write_files()
        if self._benchmark.cache == "cold":
            self._evict_files()
        answer = self._right_answer(wide=False)
        self._check_reference()
        layouts = self._layouts()
        self._output_shape = self._describe(answer, layouts, self._reference)
        self._outputs, outputs_buffers, outputs_fds = self._create(layouts)
        self._found = self._outputs
        self._copies: list[torch.Tensor] = []
        if self._foreign:
            self._examine(answer, seed)
        self._answer: Any = None
        self._flushers: list[TimingDevice] = []
        shapes = (self._inputs_shape, self._static_shape, self._output_shape)
        self._working_set_bytes = sum(map(pytree.tensor_bytes, shapes))
        if self._working_set_bytes <= _SMALL_BYTES:
            torch.set_num_threads(1)
        if ahead:
            self._right_answer(wide=not self._exact)
            self.do_flush()
        problem = {
            "device": device["name"],
            "cold": self._benchmark.cache == "cold" and "cold_cache" not in self._off,
            "flush_bound": flush_bound,
            "params": params,
            "inputs": self._inputs_shape,
            "static": self._static_shape,
            "output": self._output_shape,
            "state": list(task.state),
            "files": {name: file.path for name, file in self._files.items()},
            "deferred": self._benchmark.deferred,
            "served": list(task.served),
            "inputs_buffers": inputs_buffers,
            "outputs_buffers": outputs_buffers,
            "working_set_bytes": self._working_set_bytes // max(1, self._world),
        }
        return {
            "problem": problem,
            "has_state": bool(task.state),
            "views": self._views(answer),
            "cost": asdict(self._benchmark.work(params)),
            "tolerance": self._tolerance_text,
            "input_bytes": sum(map(pytree.tensor_bytes, (self._inputs_shape, self._static_shape)))
            + sum(self._fresh[name].nbytes for name in self._files),
            "output_bytes": pytree.tensor_bytes(self._output_shape),
            "fds": (*inputs_fds, *outputs_fds),
            **self._for_run(target["module"]),
        }

    def _for_run(self, module: str) -> Message:
        """What a run asks for beside: the clock's cost, and what the benchmark declares in this process."""
        return {"clock_cost_s": clock_cost(), "declared": asdict(describe(self._benchmark, module))}

    def _take_device(self, device: Message) -> None:
        """Load the kind of the device that holds the data, and compute float32 products in full, as workers do."""
        set_float32_precision("highest")
        self._kind, self._device_name = Device(**device).resolve(), device["name"]
        self._device = self._kind.torch_device

    @property
    def _reference(self) -> str:
        """The reference in messages."""
        return f"the reference ({self._benchmark.reference_where})"

    def _fault(self, text: str) -> BenchmarkError:
        """A mistake in the benchmark."""
        return BenchmarkError(f"{self._foreign.path}: {text}" if self._foreign else f"{self._name!r}: {text}")

    def do_print_to(self, log: str) -> None:
        """Print to another log from now on."""
        redirect_output(log)

    def do_keep(self) -> None:
        """Copy the outputs, before anything else can write to them. The copy is compared, until it is cleared."""
        for index, buffer in enumerate(self._outputs):
            if index == len(self._copies):
                self._copies.append(torch.empty_like(buffer))
            self._copies[index].copy_(buffer)
        self._found = self._copies

    # --- calls in a row, each with values of its own

    def do_open_batch(self, calls: int) -> Message:
        """Make memory for the values and the outputs of calls in a row: messages and descriptors to map it.

        There are fewer calls than asked for where they would take more than a share of the memory that is free.
        """
        free = torch.cuda.mem_get_info()[0] if self._device == "cuda" else psutil.virtual_memory().available
        sizes = [-(-one.nbytes // _ALIGNED) * _ALIGNED for one in (*self._inputs, *self._outputs)]
        calls = max(1, min(calls, int(_BATCH_SHARE * free) // (sizes[0] + 2 * sizes[1])))
        created = [shared_buffers.create(calls * size, self._kind) for size in sizes]
        values, outputs = (one[0].split(size) for one, size in zip(created, sizes, strict=True))
        self._batch = [_Place([own], [out], [torch.empty_like(out)]) for own, out in zip(values, outputs, strict=True)]
        return {
            "calls": calls,
            "buffers": [message for _, message, _ in created],
            "fds": [fd for _, _, fds in created for fd in fds],
        }

    def do_renew_batch(self, seeds: list[int]) -> list[Message]:
        """Draw values for each call and write them, as `do_renew`; the inputs of each that are numbers."""
        numbers = []
        for place, seed in zip(self._batch, seeds, strict=True):
            with self._at(place):
                self.do_clear()
                numbers.append(self.do_renew(seed))
        return numbers

    def do_keep_batch(self) -> None:
        """Copy the outputs of all calls, before anything else can write to them."""
        for place in self._batch:
            place.kept[0].copy_(place.outputs[0])
        self._wait()

    def do_compare_batch(self, seeds: list[int], lossy: Message | None, numbers: list[dict[str, float]]) -> Message:
        """Compare the kept outputs of all calls with the reference: the worst, or the first that is wrong."""
        compared = []
        for place, seed, own in zip(self._batch, seeds, numbers, strict=True):
            self._fresh, self._answer, self._found = self._draw(self._benchmark.task.inputs, seed), None, place.kept
            compared.append(self._compare(lossy, own))
        self.do_clear()
        wrong = next((one for one in compared if one["error"]), None)
        return wrong or max(compared, key=lambda one: one["worst"] or 0.0)

    @contextlib.contextmanager
    def _at(self, place: "_Place") -> Iterator[None]:
        """The memory of another place holds the inputs and outputs."""
        own = self._inputs, self._outputs, self._found
        self._inputs, self._outputs, self._found = place.inputs, place.outputs, place.kept
        try:
            yield
        finally:
            self._inputs, self._outputs, self._found = own

    def do_clear(self) -> None:
        """Clear outputs that were delivered and not judged."""
        self._found = self._outputs
        for buffer in self._outputs:
            buffer.fill_(_CLEARED)

    def do_flush(self) -> None:
        """Evict the inputs from the last-level cache, and those in files from the page cache."""
        self._evict_files()
        places = range(1 if self._kind.on_host else max(1, self._world))
        for place in places:
            with self._kind.on(place), self._all_threads():
                if place == len(self._flushers):
                    self._flushers.append(self._kind.open(self._working_set_bytes, all_streams=True))
                self._flushers[place].flush()
        for place in places:
            with self._kind.on(place):
                self._flushers[place].synchronize()

    def do_renew(self, seed: int) -> Message:
        """Draw values and write them over the old ones; return the inputs that are numbers, by rank if any.

        All of it is done for values that repeat, too: the time until the next sample must not tell code of them.
        """
        self._fresh = self._draw(self._benchmark.task.inputs, seed)
        shape = self._describe(self._in_memory(), self._layouts(), "the workload")
        if self._without_numbers(shape) != self._without_numbers(self._inputs_shape):
            raise self._fault(
                "the workload returned inputs of another structure or size for another seed; accepted are the same "
                "shapes and dtypes for every seed (pad what varies)."
            )
        self._write(self._inputs_shape, self._fresh)
        self._write_files()
        self._answer = None
        return {rank: _numbers(one) for rank, one in self._fresh.items()} if self._world else _numbers(self._fresh)

    def do_changed(self, thorough: bool) -> list[str]:
        """Paths of inputs whose bits differ from those written, except state.

        thorough: compare every bit, also of static arguments; otherwise compare sums of the bits.
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
        """Write the current values of the state again, which the last call may have changed."""
        self._write(self._inputs_shape, self._fresh, only=self._benchmark.task.state)

    def do_repair(self) -> None:
        """Write the current values again, also static ones, after a change."""
        self._write(self._static_shape, self._static)
        self._write(self._inputs_shape, self._fresh)
        self._write_files()

    def do_compare(self, lossy: Message | None, numbers: dict[str, float]) -> Message:
        """Compare the outputs with the reference for the current values, and clear them.

        All workers map the outputs, and the next worker may get the same values.
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
    def _tolerance(self) -> Tolerance:
        return self._own_tolerance or self._benchmark.tolerance_at(self._params)

    @property
    def _tolerance_text(self) -> str:
        """The tolerance for the result; with its reason where it is no named one."""
        own = self._own_tolerance
        return f"{own}: {own.reason}" if own and own.name not in TOLERANCES else str(self._tolerance)

    @property
    def _exact(self) -> bool:
        return self._tolerance.is_exact

    def _compare_leaf(self, path: str, node: pytree.Shape, right: Any, numbers: dict[str, float]) -> Comparison:
        found = self._out(node).to(right.device) if node["type"] == "tensor" else _claimed(numbers, path)
        return compare_leaf(path, node, found, right, self._tolerance)

    def _grade(self, lossy: Message, numbers: dict[str, float]) -> Message:
        metric, budget = lossy["metric"], lossy["budget"]
        if metric in BUILT_IN_METRICS:
            if any(node["type"] == "number" for _, node, _ in pytree.pairs(self._output_shape, self._answer)):
                raise self._fault(f"the metric {metric!r} compares tensors; the output has a number.")
            tensors = _tensors(self._output_shape, self._answer)
            values = [quality(metric, self._out(node).to(right.device), right) for _, node, right in tensors]
            # Python's max drops a NaN that does not come first.
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
        shape = copy.deepcopy(self._output_shape)
        for path, node, _ in pytree.pairs(shape, self._answer):
            if node["type"] == "number":
                node["value"] = _claimed(numbers, path)
        return pytree.rebuild(shape, self._out)

    def _arguments(self, *, wide: bool) -> dict[str, Any]:
        """The reference's arguments: copies of what it may change; floating-point tensors in float64 if `wide`."""
        arguments = self._by_name()
        if wide:
            return {key: pytree.mapped(one, _widen) for key, one in arguments.items()}
        return {key: copy.deepcopy(one) if key in self._benchmark.task.state else one for key, one in arguments.items()}

    def _by_name(self) -> dict[str, Any]:
        """Inputs and static arguments by name; with ranks, each a list over the ranks."""
        if not self._world:
            return {**self._fresh, **self._static}
        ranks = [{**values, **self._static.get(rank, {})} for rank, values in self._fresh.items()]
        # The reference is one program on one device, whichever GPUs the ranks have.
        return {
            name: [pytree.mapped(values[name], lambda tensor: tensor.to(self._device_of(0))) for values in ranks]
            for name in ranks[0]
        }

    def _right_answer(self, *, wide: bool) -> Any:
        """The reference's answer for the current values. Raises `BenchmarkError` where a rank has no answer."""
        arguments = self._arguments(wide=wide)
        much = self._benchmark.work(self._params).flops >= _MUCH_FLOPS
        much |= self._foreign is not None and self._working_set_bytes > _MUCH_UNKNOWN_BYTES
        with self._all_threads() if much else contextlib.nullcontext():
            answer = self._benchmark.answer(self._params, arguments)
        if not self._world:
            return answer
        if type(answer) not in (list, tuple) or len(answer) != self._world:
            raise self._fault(
                f"{self._reference} returned {pytree.summary(answer)}; accepted is a list with the answer of each of "
                f"{self._world} ranks."
            )
        return {rank_name(rank): one for rank, one in enumerate(answer)}

    @contextlib.contextmanager
    def _all_threads(self) -> Iterator[None]:
        """Torch computes with all its threads, whatever the size of the working set."""
        usual = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            torch.set_num_threads(usual)

    def _draw(self, draw: Any, seed: int) -> dict[str, Any]:
        if not self._world:
            return self._draw_of(draw, seed, self._device)
        seeds = {rank: (seed * self._world + rank) % _SEEDS for rank in range(self._world)}
        return {
            rank_name(rank): self._draw_of(draw, own, self._device_of(rank), rank=rank) for rank, own in seeds.items()
        }

    def _device_of(self, rank: int) -> str:
        return self._kind.place(rank) if self._world else self._device

    def _draw_of(self, draw: Any, seed: int, device: str, **more: int) -> dict[str, Any]:
        generator = torch.Generator(device).manual_seed(seed)
        values = call_with(draw, {**self._params, **more, "device": device, "generator": generator})
        if not isinstance(values, dict):
            raise self._fault(f"the workload returned {pytree.summary(values)}; accepted is a dict of inputs by name.")
        return values

    def _check_names(self, state: tuple[str, ...]) -> None:
        fresh, static = self._fresh, self._static
        if self._world:
            fresh, static = fresh[rank_name(0)], static.get(rank_name(0), {})
        unknown = [name for name in state if name not in fresh]
        if unknown:
            raise self._fault(f"state names {unknown}; the workload returns {', '.join(sorted(fresh))}.")
        for name in self._benchmark.task.files:
            if not isinstance(one := fresh.get(name), torch.Tensor) or one.device.type != "cpu":
                raise self._fault(
                    f"files names {name!r}, which is {pytree.summary(one)}; accepted is a tensor on the processor."
                )
        self._check_served(fresh)
        clash = sorted((set(fresh) & set(static)) | (set(fresh) & set(self._params)))
        if clash:
            raise self._fault(f"{clash} name inputs and also sizes or static arguments; rename one.")

    def _check_served(self, fresh: dict[str, Any]) -> None:
        served = self._benchmark.task.served
        for name in (*served, ARRIVAL) if served else ():
            one, rows = fresh.get(name), fresh.get(ARRIVAL)
            if not isinstance(one, torch.Tensor) or not isinstance(rows, torch.Tensor) or len(one) != len(rows):
                raise self._fault(
                    f"the workload serves requests, and {name!r} is {pytree.summary(one)}; accepted are tensors with a "
                    f"row for each request, and the vector {ARRIVAL!r}."
                )

    def _check_reference(self) -> None:
        changed = self._unequal(self._inputs_shape, self._fresh, set(self._benchmark.task.state))
        changed += self._unequal(self._static_shape, self._static, set())
        if changed:
            raise self._fault(
                f"{self._reference} changes its arguments {', '.join(changed)}; let it work on copies, or name as "
                "state what a call may change."
            )

    def _examine(self, answer: Any, seed: int) -> None:
        """Check a reference that was written for another harness, and decide its tolerance if the user has not."""
        shape = self._output_shape
        reference_check.check_repeatable(shape, answer, self._right_answer(wide=False), self._fault)
        pairs = [(answer, self._right_answer(wide=True))]
        drawn, self._fresh = self._fresh, self._draw(self._benchmark.task.inputs, (seed + 1) % _SEEDS)
        try:
            other = self._right_answer(wide=False)
            reference_check.check_inputs_matter(shape, answer, other, self._fault)
            pairs.append((other, self._right_answer(wide=True)))
        finally:
            self._fresh = drawn
        if self._own_tolerance is None:
            self._own_tolerance = reference_check.tolerance_of(shape, pairs, self._fault)

    def _check_answer(self) -> None:
        try:
            found = _forms(pytree.describe(self._answer, pytree.Layout()))
        except TypeError:
            found = None
        if found != _forms(self._output_shape):
            raise self._fault(
                f"{self._reference} returned another structure or size for another seed; accepted are the same shapes "
                "for every seed (pad what varies)."
            )

    def _layouts(self) -> list[pytree.Layout]:
        """An empty layout for each place with its own memory."""
        return [pytree.Layout() for _ in range(max(1, self._world))]

    def _create(self, layouts: list[pytree.Layout]) -> tuple[list[torch.Tensor], list[Message], list[int]]:
        """A shared buffer for each layout: their bytes, messages for the processes that map them, and descriptors."""
        created = []
        for place, layout in enumerate(layouts):
            with self._kind.on(place):
                created.append(shared_buffers.create(layout.total_bytes, self._kind, place))
        tensors, messages, fds = zip(*created, strict=True)
        return list(tensors), list(messages), [fd for own in fds for fd in own]

    def _wait(self) -> None:
        for place in range(max(1, self._world)):
            self._kind.synchronize(place)

    def _in(self, node: pytree.Shape) -> torch.Tensor:
        return pytree.view(node, self._inputs[node.get("rank", 0)])

    def _out(self, node: pytree.Shape) -> torch.Tensor:
        """A tensor of the outputs, as a worker wrote it."""
        return pytree.view(node, self._found[node.get("rank", 0)])

    def _describe(self, value: Any, layouts: list[pytree.Layout], what: str) -> pytree.Shape:
        try:
            if not self._world:
                return pytree.describe(value, layouts[0])
            items = {
                place: pytree.describe(one, layout)
                for (place, one), layout in zip(value.items(), layouts, strict=False)
            }
        except TypeError as error:
            raise self._fault(f"{what} returned what cannot be used: {error}.") from None
        for rank, one in enumerate(items.values()):
            for node in pytree.tensors_of(one):
                node["rank"] = rank
        return {"type": "dict", "items": items}

    def _root(self, path: str) -> str:
        """The name of the input that holds a path."""
        within = path.partition(".")[2] if self._world else path
        return within.split(".")[0].split("[")[0]

    def _without_numbers(self, shape: pytree.Shape) -> Any:
        """A shape of inputs without the values of the numbers at its top level, which may differ between seeds."""
        items = [part["items"] for part in (shape["items"].values() if self._world else [shape])]
        return [{key: _NUMBER if one["type"] == "number" else one for key, one in own.items()} for own in items]

    def _in_memory(self) -> dict[str, Any]:
        """The inputs that are passed in memory, not in files."""
        return {name: one for name, one in self._fresh.items() if name not in self._files}

    def _evict_files(self) -> None:
        for file in self._files.values():
            file.evict()

    def _write_files(self) -> None:
        for name, file in self._files.items():
            file.write(self._fresh[name])

    def _write(self, shape: pytree.Shape, values: dict[str, Any], only: Sequence[str] | None = None) -> None:
        """Write values into the inputs' memory; `only` names the inputs to write."""
        with torch.no_grad():
            for path, node, leaf in _tensors(shape, values):
                if only is None or self._root(path) in only:
                    self._in(node).copy_(leaf)
        self._wait()
        self._written = self._sums()

    def _views(self, answer: Any) -> list[str]:
        """Paths of an answer that alias the arguments: what the reference may do, implementations may do too."""
        given = [leaf for leaf in pytree.tensors({**self._fresh, **self._static}) if leaf.numel()]
        leaves = _tensors(self._output_shape, answer)
        return [path for path, _, leaf in leaves if any(pytree.overlap(leaf, one) for one in given)]

    def _sums(self) -> dict[str, int]:
        nodes = _tensors(self._inputs_shape, self._fresh)
        return {path: int(_words(self._in(node)).sum()) for path, node, _ in nodes}

    def _unequal(self, shape: pytree.Shape, values: dict[str, Any], exempt: set[str]) -> list[str]:
        unequal = []
        for path, node, leaf in _tensors(shape, values):
            written = self._in(node)
            if self._root(path) not in exempt and not torch.equal(_words(written), _words(leaf.to(written.device))):
                unequal.append(path)
        return unequal


def _tensors(shape: pytree.Shape, values: Any) -> Iterator[tuple[str, pytree.Shape, torch.Tensor]]:
    """Path, description and value of each tensor in a pytree."""
    return (leaf for leaf in pytree.pairs(shape, values) if leaf[1]["type"] == "tensor")


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor; floating-point and complex ones in their widest dtype."""
    if tensor.is_floating_point():
        return tensor.detach().to(torch.float64, copy=True)
    return tensor.detach().to(torch.complex128, copy=True) if tensor.is_complex() else tensor.clone()


def rank_name(rank: int) -> str:
    """The key of a rank in values and shapes."""
    return f"rank{rank}"


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {key: one for key, one in values.items() if isinstance(one, bool | int | float)}


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits as the widest integers that fit, in which NaN equals itself."""
    if not tensor.numel():  # torch does not always normalise the strides of an empty tensor as `view` needs them
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    if flat.numel() % 8:
        return flat
    # A slice may begin between two words.
    return (flat.clone() if flat.storage_offset() % 8 else flat).view(torch.int64)


def _claimed(numbers: dict[str, float], path: str) -> float:
    """The number that a worker reports at a path; NaN where it is missing or no number."""
    number = numbers.get(path) if isinstance(numbers, dict) else None
    return number if isinstance(number, int | float) else math.nan


def _forms(shape: pytree.Shape) -> Any:
    """The structure and sizes of a pytree, without dtypes (which float64 changes) and values of numbers."""
    items = shape.get("items", ())
    within = {key: _forms(one) for key, one in items.items()} if isinstance(items, dict) else [*map(_forms, items)]
    return shape["type"], shape.get("shape"), within


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Judge(channel).serve()
