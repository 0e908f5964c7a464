"""An open target: its data lie in memory that workers map, and outputs are compared with the reference's answer."""

from typing import Any

import torch
from attrs import define, field

from aiperf_core import pytree
from aiperf_core.benchmark import BUILT_IN_METRICS
from aiperf_core.harness.processes.channel import Message
from aiperf_core.harness.roles.loaded_target import LoadedTarget
from aiperf_core.harness.roles.target_memory import TargetMemory
from aiperf_core.tolerance import TOLERANCES, Tolerance
from aiperf_core.validity import reference_check, workload_check
from aiperf_core.validity.output_check import Output, compare_output, compare_quality, worst_quality

# Each changes the elements of the inputs by other random factors; the largest change of the answer counts.
_NUDGES = 4


@define(eq=False)
class OpenTarget:
    """A target with its data.

    fresh: the current inputs.
    tolerance_text: the tolerance for the result.
    views: paths of an answer that alias the arguments: what the reference may do, implementations may do too.
    answer: the reference's for the current inputs; None until an output is compared with it.
    """

    target: LoadedTarget
    fresh: dict[str, Any]
    memory: TargetMemory
    tolerance: Tolerance
    tolerance_text: str
    views: list[str]
    working_set_bytes: int
    answer: Any = field(init=False, default=None)

    @classmethod
    def open(cls, target: LoadedTarget, seed: int, tolerance: Tolerance | None) -> "OpenTarget":
        """Draw inputs, make the memory, and judge the reference itself. Raises `BenchmarkError` for its faults.

        tolerance: what the user asks for; None for that of the benchmark.
        """
        fresh = target.draw(seed)
        task, ranks = target.benchmark.task, bool(target.world)
        workload_check.check_names(task, target.params, fresh, target.static, ranks, target.fault)
        memory = TargetMemory.create(target, fresh)
        answer = target.right_answer(fresh, wide=False)
        if changed := memory.unequal(fresh):
            raise target.fault(
                f"{target.reference} changes its arguments {', '.join(changed)}; let it work on copies, or name as "
                "state what a call may change."
            )
        memory.make_outputs(answer)
        shape = memory.output_shape
        if target.foreign:
            pairs = target.examine(shape, answer, fresh, seed)
            tolerance = tolerance or reference_check.tolerance_of(shape, pairs, target.fault)
        used = tolerance or target.benchmark.tolerance_at(target.params)
        # A named tolerance and that of the benchmark have their reason in a file.
        text = f"{used}: {used.reason}" if tolerance and used.name not in TOLERANCES else str(used)
        given = [leaf for leaf in pytree.tensors({**fresh, **target.static}) if leaf.numel()]
        leaves = pytree.tensor_pairs(shape, answer)
        views = [path for path, _, leaf in leaves if any(pytree.overlap(leaf, one) for one in given)]
        return cls(target, fresh, memory, used, text, views, memory.arguments_bytes + pytree.tensor_bytes(shape))

    def draw(self, seed: int) -> None:
        """Draw the current inputs."""
        self.fresh, self.answer = self.target.draw(seed), None

    def right_answer(self, *, wide: bool) -> Any:
        """The reference's answer for the current inputs."""
        return self.target.right_answer(self.fresh, wide=wide, moved_bytes=self.working_set_bytes)

    def judged_by(self) -> Any:
        """The answer that outputs for the current inputs are compared with."""
        if self.answer is None:
            self.answer = self.right_answer(wide=not self.tolerance.is_exact)
            reference_check.check_form(self.memory.output_shape, self.answer, self.target.reference, self.target.fault)
        return self.answer

    def _nudged(self) -> list[Any]:
        """The answers for inputs whose elements are changed by up to the tolerance."""
        relative, moved_bytes = self.tolerance.rel_l2, self.working_set_bytes
        with torch.inference_mode(False):  # a reference may compute gradients
            return [self.target.nudged_answer(self.fresh, relative, seed, moved_bytes) for seed in range(_NUDGES)]

    def compare(self, memory: TargetMemory, lossy: Message | None, numbers: dict[str, float]) -> Message:
        """Compare outputs for the current inputs with the reference.

        memory: holds the tensors of the outputs; a worker reports `numbers` by path.
        lossy: the metric and the budget of a lossy variant.
        """
        answer, output = self.judged_by(), Output(memory.output_shape, memory.output, numbers)
        with torch.inference_mode():
            if lossy is None:
                return compare_output(output, answer, self.tolerance, self._nudged)
            metric = lossy["metric"]
            if metric not in BUILT_IN_METRICS:
                value = float(self.target.benchmark.metrics[metric](output.build(answer), answer))
            elif any(node["type"] == "number" for _, node, _ in pytree.pairs(output.shape, answer)):
                raise self.target.fault(f"the metric {metric!r} compares tensors; the output has a number.")
            else:
                value = worst_quality(metric, output, answer)
            return compare_quality(metric, value, lossy["budget"])
