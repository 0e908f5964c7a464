"""The judge: the process that owns a target's data and compares outputs with the reference.

It imports the benchmark for its workload and never runs an implementation. Inputs lie in memory that the workers map; the
judge alone knows the seeds from which their values come.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from attrs import asdict

from aiperf_core.benchmark import BUILT_IN_METRICS, call_with, load_benchmark
from aiperf_core.devices.cpu import clock_cost, keep_freed_memory
from aiperf_core.devices.timing import TimingDevice, open_device
from aiperf_core.errors import BenchmarkError
from aiperf_core.harness import arena, tree
from aiperf_core.harness.channel import Channel, Message
from aiperf_core.harness.compare import Comparison, compare_numbers, compare_tensors, quality
from aiperf_core.harness.described import TargetRef
from aiperf_core.harness.service import Service

_CLEARED = 0xFF  # NaN in every floating-point format


class Judge(Service):
    """The handler of the judge's requests."""

    def do_open(
        self,
        target: Message,
        device: str,
        params: dict[str, float],
        seed: int,
        static_seed: int,
        off: Sequence[str] = (),
    ) -> Message:
        """Make the inputs and the place for outputs; return the problem as the workers need it, its cost and the clock's.

        `off` names guards of the judge's that are switched off.
        """
        self._off = frozenset(off)
        keep_freed_memory()
        self._name, self._device, self._params = target["name"], device, params
        self._benchmark = load_benchmark(TargetRef(**target))
        task = self._benchmark.task
        self._fresh = self._draw(task.inputs, seed)
        self._static = self._draw(task.static, static_seed) if task.static else {}
        self._check_names(task.state)
        layout = tree.Layout()
        self._inputs_shape = self._describe(self._fresh, layout, "the workload")
        self._static_shape = self._describe(self._static, layout, "the static arguments")
        self._inputs, inputs_arena, fds = arena.create(layout.total_bytes, device)
        self._write(self._static_shape, self._static)
        self._write(self._inputs_shape, self._fresh)
        answer = self._benchmark.answer(params, self._arguments(wide=False))
        self._check_reference()
        layout = tree.Layout()
        self._output_shape = self._describe(answer, layout, f"the reference ({self._benchmark.reference_where})")
        self._outputs, outputs_arena, more = arena.create(layout.total_bytes, device)
        self._answer: Any = None
        self._flusher: TimingDevice | None = None
        shapes = (self._inputs_shape, self._static_shape, self._output_shape)
        self._working_set_bytes = sum(map(tree.tensor_bytes, shapes))
        problem = {
            "device": device,
            "params": params,
            "inputs": self._inputs_shape,
            "static": self._static_shape,
            "output": self._output_shape,
            "state": list(task.state),
            "inputs_arena": inputs_arena,
            "outputs_arena": outputs_arena,
            "working_set_bytes": self._working_set_bytes,
        }
        return {
            "problem": problem,
            "has_state": bool(task.state),
            "clock_cost_s": clock_cost(),
            "views": self._views(answer),
            "cost": asdict(self._benchmark.work(params)),
            "input_bytes": tree.tensor_bytes(self._inputs_shape) + tree.tensor_bytes(self._static_shape),
            "output_bytes": tree.tensor_bytes(self._output_shape),
            "fds": (*fds, *more),
        }

    def do_clear(self) -> None:
        """Clear what was delivered and not judged."""
        self._outputs.fill_(_CLEARED)

    def do_flush(self) -> None:
        """Evict the inputs from the last-level cache."""
        if self._flusher is None:
            self._flusher = open_device(self._device, self._working_set_bytes)
        self._flusher.flush()
        self._flusher.synchronize()

    def do_renew(self, seed: int) -> Message:
        """Draw new values and write them over the old ones; return the numbers among the inputs."""
        self._fresh = self._draw(self._benchmark.task.inputs, seed)
        shape = self._describe(self._fresh, tree.Layout(), "the workload")
        if _without_numbers(shape) != _without_numbers(self._inputs_shape):
            raise BenchmarkError(
                f"{self._name!r}: the workload returned inputs of another structure or size for another seed; accepted "
                "are the same shapes and dtypes for every seed (pad what varies)."
            )
        self._write(self._inputs_shape, self._fresh)
        self._answer = None
        return {key: one for key, one in self._fresh.items() if isinstance(one, bool | int | float)}

    def do_changed(self, thorough: bool) -> list[str]:
        """Paths of inputs whose bits are not those that were written (state excepted).

        `thorough` compares every bit, of static arguments too; otherwise sums over the bits must agree.
        """
        state = set(self._benchmark.task.state)
        if thorough:
            changed = self._unequal(self._inputs_shape, self._fresh, state)
            return changed + self._unequal(self._static_shape, self._static, set())
        now = self._sums()
        return [path for path, total in self._written.items() if now[path] != total and _root(path) not in state]

    def do_restore(self) -> None:
        """Write the present values of the state again, which the last call may have changed."""
        state = {name: self._fresh[name] for name in self._benchmark.task.state}
        items = {name: self._inputs_shape["items"][name] for name in state}
        self._write({"type": "dict", "items": items}, state)

    def do_repair(self) -> None:
        """Write the present values again, static ones too, after something changed them."""
        self._write(self._static_shape, self._static)
        self._write(self._inputs_shape, self._fresh)

    def do_compare(self, lossy: Message | None, numbers: dict[str, float]) -> Message:
        """Compare what lies in the outputs with the reference for the present values, and clear the outputs.

        All workers map them, and the next one may be given the same values.
        """
        try:
            return self._compare(lossy, numbers)
        finally:
            if "poison" not in self._off:
                self._outputs.fill_(_CLEARED)
            if self._device != "cpu":
                torch.cuda.synchronize()

    def _compare(self, lossy: Message | None, numbers: dict[str, float]) -> Message:
        if self._answer is None:
            self._answer = self._benchmark.answer(self._params, self._arguments(wide=not self._exact))
            self._check_answer()
        with torch.inference_mode():
            if lossy is not None:
                return self._grade(lossy, numbers)
            results = [self._compare_leaf(*leaf, numbers) for leaf in tree.pairs(self._output_shape, self._answer)]
        worst = max((one.worst for one in results), default=0.0)
        error = next((one.error for one in results if one.error), None)
        return {"worst": worst if math.isfinite(worst) else None, "error": error, "quality": None}

    @property
    def _exact(self) -> bool:
        return self._benchmark.tolerance.is_exact

    def _compare_leaf(self, path: str, node: tree.Shape, right: Any, numbers: dict[str, float]) -> Comparison:
        tolerance = self._benchmark.tolerance
        if node["type"] == "tensor":
            return compare_tensors(path, tree.view(node, self._outputs), right, tolerance)
        if node["type"] == "number":
            return compare_numbers(path, _claimed(numbers, path), right, tolerance)
        return Comparison(0.0)

    def _grade(self, lossy: Message, numbers: dict[str, float]) -> Message:
        metric, budget = lossy["metric"], lossy["budget"]
        if metric in BUILT_IN_METRICS:
            leaves = list(tree.pairs(self._output_shape, self._answer))
            if any(node["type"] == "number" for _, node, _ in leaves):
                raise BenchmarkError(
                    f"{self._name!r}: the metric {metric!r} compares tensors; the output has a number."
                )
            values = [
                quality(metric, tree.view(node, self._outputs), right)
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
        for path, node, _ in tree.pairs(shape, self._answer):
            if node["type"] == "number":
                node["value"] = _claimed(numbers, path)
        return tree.build(shape, self._outputs)

    def _arguments(self, *, wide: bool) -> dict[str, Any]:
        """The reference's arguments: copies of what it might change, floating-point tensors in float64 if `wide`."""
        arguments = {**self._fresh, **self._static}
        if wide:
            return {key: _widen(one) for key, one in arguments.items()}
        return {key: copy.deepcopy(one) if key in self._benchmark.task.state else one for key, one in arguments.items()}

    def _draw(self, draw: Any, seed: int) -> dict[str, Any]:
        generator = torch.Generator(self._device).manual_seed(seed)
        values = call_with(draw, {**self._params, "device": self._device, "generator": generator})
        if not isinstance(values, dict):
            raise BenchmarkError(
                f"{self._name!r}: the workload returned {tree.summary(values)}; accepted is a dict of inputs by name."
            )
        return values

    def _check_names(self, state: tuple[str, ...]) -> None:
        unknown = [name for name in state if name not in self._fresh]
        if unknown:
            found = ", ".join(sorted(self._fresh))
            raise BenchmarkError(f"{self._name!r}: state names {unknown}; the workload returns {found}.")
        clash = sorted((set(self._fresh) & set(self._static)) | (set(self._fresh) & set(self._params)))
        if clash:
            raise BenchmarkError(f"{self._name!r}: {clash} name inputs and also sizes or static arguments; rename one.")

    def _check_reference(self) -> None:
        changed = self._unequal(self._inputs_shape, self._fresh, set(self._benchmark.task.state))
        changed += self._unequal(self._static_shape, self._static, set())
        if changed:
            raise BenchmarkError(
                f"{self._name!r}: the reference ({self._benchmark.reference_where}) changes its arguments "
                f"{', '.join(changed)}; let it work on copies, or name as state what a call may change."
            )

    def _check_answer(self) -> None:
        try:
            found = _forms(tree.describe(self._answer, tree.Layout()))
        except TypeError:
            found = None
        if found != _forms(self._output_shape):
            raise BenchmarkError(
                f"{self._name!r}: the reference ({self._benchmark.reference_where}) returned another structure or size "
                "for another seed; accepted are the same shapes for every seed (pad what varies)."
            )

    def _describe(self, value: Any, layout: tree.Layout, what: str) -> tree.Shape:
        try:
            return tree.describe(value, layout)
        except TypeError as error:
            raise BenchmarkError(f"{self._name!r}: {what} returned what cannot be used: {error}.") from None

    def _write(self, shape: tree.Shape, values: dict[str, Any]) -> None:
        with torch.no_grad():
            for _, node, leaf in tree.pairs(shape, values):
                if node["type"] == "tensor":
                    tree.view(node, self._inputs).copy_(leaf)
        if self._device != "cpu":
            torch.cuda.synchronize()
        self._written = self._sums()

    def _views(self, answer: Any) -> list[str]:
        """Paths of an answer that lie in the memory of the arguments: what the reference may do, implementations may too."""
        arguments = {**self._fresh, **self._static}
        given = [leaf for leaf in tree.tensors(arguments) if leaf.numel()]
        leaves = tree.pairs(self._output_shape, answer)
        return [
            path
            for path, node, leaf in leaves
            if node["type"] == "tensor" and any(tree.overlap(leaf, one) for one in given)
        ]

    def _sums(self) -> dict[str, int]:
        leaves = tree.pairs(self._inputs_shape, self._fresh)
        nodes = [(path, node) for path, node, _ in leaves if node["type"] == "tensor"]
        return {path: int(_words(tree.view(node, self._inputs)).sum()) for path, node in nodes}

    def _unequal(self, shape: tree.Shape, values: dict[str, Any], exempt: set[str]) -> list[str]:
        unequal = []
        for path, node, leaf in tree.pairs(shape, values):
            if node["type"] != "tensor" or _root(path) in exempt:
                continue
            if not torch.equal(_words(tree.view(node, self._inputs)), _words(leaf)):
                unequal.append(path)
        return unequal


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            return value.detach().to(torch.float64, copy=True)
        return value.detach().to(torch.complex128, copy=True) if value.is_complex() else value.clone()
    if isinstance(value, dict):
        return {key: _widen(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_widen(one) for one in value)
    return value


def _root(path: str) -> str:
    """The input that a path leads into."""
    return path.split(".")[0].split("[")[0]


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


def _forms(shape: tree.Shape) -> Any:
    """The structure and the sizes of a tree, without dtypes (which float64 changes) and the values of numbers."""
    items = shape.get("items", ())
    within = {key: _forms(one) for key, one in items.items()} if isinstance(items, dict) else [*map(_forms, items)]
    return shape["type"], shape.get("shape"), within


def _without_numbers(shape: tree.Shape) -> Any:
    """A shape without the values of the numbers at its top level, which alone may differ between seeds."""
    items = shape["items"]
    return {key: {"type": "number"} if one["type"] == "number" else one for key, one in items.items()}


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Judge(channel).serve()
