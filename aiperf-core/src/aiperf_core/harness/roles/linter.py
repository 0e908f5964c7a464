"""Tests of a benchmark's own judge: it must refuse wrong answers and accept honest ones.

Each test has a stable name and ends as `ok`, `problem`, `note` or `not applicable`. All tests use several draws of the
inputs from fixed seeds, so that two runs on one machine agree.

workload.*  The same seed draws the same values. Another seed changes no shape and every floating-point input, since a
            value that does not change can be computed ahead (static arguments may). All draws are the same work.
reference.* It leaves its arguments unchanged, returns finite values of one form, agrees with itself, and passes the
            tolerance when computed in the precision of the inputs: otherwise the tolerance refuses honest code.
judge.*     Wrong answers, each put into one leaf of a right output, must be refused. If the data make a wrong answer
            right, the benchmark needs other data.
budget.*    The quality metric of a lossy variant must refuse the worst of them too.
cost.*      Declared work against observed work; see `declared_cost`.
form.*      What readers need. Notes only, except where the contents page contradicts the file.

Precision is tested by rounding to the significant bits of a format, not to its range: an overflow in fp16 would be
refused for another reason. A format is tested where it is coarser than the output's dtype, and coarser and cheaper than
the precision that the cost declares: bf16 arithmetic may pass for fp16, which costs the same.
"""

import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import torch
from attrs import asdict, evolve

from aiperf_core import pytree
from aiperf_core.benchmark import Implementation, bind, call_with
from aiperf_core.errors import BenchmarkError
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.roles.judge import Judge
from aiperf_core.harness.roles.loaded_target import LoadedTarget, rank_name
from aiperf_core.precision import set_float32_precision
from aiperf_core.serving import Desk, at_desk
from aiperf_core.tolerance import exact
from aiperf_core.validity import declared_cost
from aiperf_core.validity.lint import SAME_WORK, Outcome, form, outcome
from aiperf_core.validity.output_check import compare_leaf, compare_tensors
from aiperf_core.validity.wrong_answers import (
    FINITE,
    GROSS,
    WRONG,
    Leaf,
    coarsened,
    coarser,
    half_zeroed,
    is_finite,
    poisoned,
    rounds,
    significant_bits,
)

SEEDS = range(1, 6)
# Draws whose work is counted; fewer, but as many as SEEDS, where they take longer than this.
COUNTED_SEEDS, COUNTING_S = range(1, 21), 5.0
# The number of elements of an input that are tried one by one; see `_needed`.
PROBES = 32
# Tests that must pass before anything can be compared.
_NEEDED = ("workload.shapes", "reference.pure", "reference.shapes")

Answer = dict[str, torch.Tensor]  # the leaves of an output by path; numbers as tensors without dimensions


def _same(one: Any, other: Any) -> bool:
    """Whether two leaves agree in every bit."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return bool(type(one) is type(other) and one == other)
    alike = (one.dtype, one.shape) == (other.dtype, other.shape)
    return alike and compare_tensors("", one, other, exact).error is None


# --- the linter


class Linter(Judge):
    """A judge whose own comparisons are tested."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        # What the data were opened for, until an implementation has done something wrong to them.
        self._opened_for: Any = None
        self._answers: dict[int, Any] = {}
        self._drawn: dict[int, tuple[dict[str, Any], Message]] = {}
        self._threads = torch.get_num_threads()

    def do_open(self, *positional: Any, **named: Any) -> Message:
        """Open as a judge does. Implementations that are tried at the same sizes share what is opened."""
        self._opened_for, self._answers, self._drawn = None, {}, {}
        told = super().do_open(*positional, **named)
        self._target = self._opened.target
        self._opened_for = self._target.name, self._target.device, self._target.params
        return told

    def do_renew(self, seed: int) -> Message:
        """Write the values of a seed over the old ones, drawn once for all implementations; return the numbers."""
        if seed not in self._drawn:
            numbers = super().do_renew(seed)
            self._drawn[seed] = self._opened.fresh, numbers
            return numbers
        self._opened.fresh, numbers = self._drawn[seed]
        self._opened.answer = self._answers.get(seed)
        self._opened.memory.put(self._opened.fresh)
        return numbers

    def _for_run(self, module: str) -> Message:
        """Nothing: no run follows."""
        return {}

    def do_lint(self, target: Message, device: Message, params: dict[str, float], listed: Message) -> list[Message]:
        """Test a target's workload, reference, tolerance, cost and form. Exceptions of the benchmark pass through.

        listed: the `goal` and the `devices` of the contents page.
        """
        torch.set_num_threads(self._threads)  # the last target may have been small
        self._target = LoadedTarget.load(target, device, params, SEEDS[0])
        outcomes = [*self._test_workload(), *self._test_reference()]
        broken = [one.test for one in outcomes if one.verdict == "problem" and one.test in _NEEDED]
        if broken:
            why = f"nothing can be compared before this is fixed: {', '.join(broken)}"
            outcomes += [Outcome("judge", "not applicable", why), Outcome("cost", "not applicable", why)]
        else:
            self._told = self.do_open(target, device, params, 0, 0)
            outcomes += [self._test_same_work(), *self._test_judge(), *self._test_cost()]
        docstring = sys.modules[target["module"]].__doc__ or ""
        outcomes += form(self._target.benchmark, self._target.device, docstring, listed)
        accepted = self._target.benchmark.accepted
        return [asdict(one.where_accepted(accepted)) for one in outcomes]

    def do_try(self, target: Message, device: Message, params: dict[str, float], implementation: str) -> str | None:
        """Run an implementation on several draws, renewed in place; what was wrong. Its exceptions pass through."""
        if self._opened_for != (target["name"], device["name"], params):
            self.do_open(target, device, params, 0, 0)
        set_float32_precision("highest")  # the last implementation may have changed the precision
        opened_for, self._opened_for = self._opened_for, None
        benchmark, memory = self._target.benchmark, self._opened.memory
        code = next(one for one in benchmark.implementations_on(device["name"]) if one.name == implementation)
        self._timer = self._target.kind.open(self._opened.working_set_bytes, all_streams=True)
        inputs, static = (pytree.rebuild(one, memory.argument) for one in (memory.inputs_shape, memory.static_shape))
        arguments = {**params, **inputs, **static, **{name: file.path for name, file in memory.files.items()}}
        with contextlib.ExitStack() as stack:
            if benchmark.folder:
                arguments["folder"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="aiperf-lint-"))
            wrong = self._try(code, *at_desk(benchmark.task.served, arguments))
        if not wrong:  # else it may have written to static arguments, which are drawn once
            self._opened_for = opened_for
        return wrong

    def _try(self, code: Implementation, arguments: dict[str, Any], desk: Desk | None) -> str | None:
        """Run an implementation with these arguments on several draws."""
        run = code.code
        if code.is_class:
            instance = code.code()
            if hasattr(instance, "prepare"):
                call_with(instance.prepare, arguments)
            run = instance.run
        opened, device = self._opened, self._target.kind.torch_device
        for draw, seed in enumerate(SEEDS, 1):
            arguments.update(self.do_renew(seed))
            call: Callable[[], Any] = bind(run, arguments)
            output = call() if desk is None else pytree.mapped(desk.serving(call)(), lambda one: one.to(device))
            if self._target.benchmark.deferred:
                instance.finish()
                output = instance.output()
            if simulation := self._target.benchmark.simulation:
                output, _ = simulation.split(output)
            self._timer.synchronize()
            pytree.match(opened.memory.output_shape, output, device)
            changed = self.do_changed(thorough=True)
            if changed:
                return f"changes its inputs {', '.join(changed)}, which the workload does not declare as state"
            refused = self._refused(output, asdict(code.lossy) if code.lossy else None)
            self._answers[seed] = opened.answer
            if refused:
                return f"gives a wrong answer on draw {draw} of {len(SEEDS)}: {refused[0]}"
        return None

    # --- the workload

    def _test_workload(self) -> Iterator[Outcome]:
        target = self._target
        first, again, static_again = target.draw(SEEDS[0]), target.draw(SEEDS[0]), target.draw_static(SEEDS[0])
        yield outcome(
            "workload.repeats",
            [*self._unlike(first, again), *self._unlike(target.static, static_again)],
            "the same seed draws other values for {}",
            "Draw everything from the `generator` that the workload is given.",
        )
        still: set[str] = set()
        shapes: set[str] = set()
        for seed in SEEDS[1:]:
            other = target.draw(seed)
            shapes |= _form(self._nodes(first)) ^ _form(self._nodes(other))
            still |= {path for path, _, _ in self._nodes(first)} - set(self._unlike(first, other))
        yield outcome(
            "workload.shapes", sorted(shapes), "seeds differ in {}", "Return the same shapes for every seed; pad."
        )
        floating = [path for path, _, one in self._nodes(first) if isinstance(one, torch.Tensor) and rounds(one)]
        inputs = floating or [path for path, _, one in self._nodes(first) if one is not None]
        unmoved = still & set(inputs)
        # Integers are often structure, such as indices; but something must change.
        stuck = sorted(unmoved) if floating or unmoved == set(inputs) else []
        yield outcome(
            "workload.renewed",
            stuck,
            "another seed does not change {}, so a result computed ahead of time stays right",
            "Draw it from the `generator`, or declare it with @bench.static if it may be prepared ahead.",
        )

    def _test_same_work(self) -> Outcome:
        """Count the work of draws; few values differ more than many, so a spread counts at the device's sizes."""
        target = self._target
        try:
            found = declared_cost.same_work(self._works(target))
            measured = target.benchmark.task.presets.get(target.device, target.params)
            if found.verdict == "problem" and measured != target.params:
                larger = evolve(target, params=measured)
                found = declared_cost.same_work(self._works(evolve(larger, static=larger.draw_static(SEEDS[0]))))
        except Exception as error:  # the reference works: an operation cannot be intercepted
            return _not_counted(SAME_WORK, error)
        return found

    def _works(self, target: LoadedTarget) -> list[declared_cost.Work]:
        """The work of the reference for several draws."""
        works: list[declared_cost.Work] = []
        started = time.monotonic()
        for seed in COUNTED_SEEDS:
            if len(works) >= len(SEEDS) and time.monotonic() - started > COUNTING_S:
                break
            arguments = target.arguments(target.draw(seed), wide=False)
            with declared_cost.Work() as work, torch.no_grad():
                target.benchmark.answer(target.params, arguments)
            works.append(work)
        return works

    def _nodes(self, values: Any) -> list[tuple[str, pytree.Shape, Any]]:
        """Path, description and value of each leaf of a pytree."""
        try:
            return list(pytree.pairs(pytree.describe(values, pytree.Layout()), values))
        except TypeError as error:
            raise BenchmarkError(
                f"{self._target.name!r}: the workload or the reference returned what cannot be used: {error}."
            ) from None

    def _unlike(self, one: Any, other: Any) -> list[str]:
        """Paths of the leaves that differ in any bit, or in form."""
        there = {path: leaf for path, _, leaf in self._nodes(other)}
        return [path for path, _, leaf in self._nodes(one) if not _same(leaf, there.get(path))]

    # --- the reference

    def _test_reference(self) -> Iterator[Outcome]:
        target, state = self._target, self._target.benchmark.task.state
        changed: set[str] = set()
        forms: set[frozenset[str]] = set()
        infinite: set[str] = set()
        for seed in SEEDS:
            arguments = target.arguments(target.draw(seed), wide=False)
            before = pytree.mapped(arguments, torch.clone)
            nodes = self._nodes(target.benchmark.answer(target.params, arguments))
            changed.update(
                *(self._unlike({name: before[name]}, {name: arguments[name]}) for name in arguments.keys() - set(state))
            )
            forms.add(_form(nodes))
            infinite |= {path or "the answer" for path, _, leaf in nodes if not is_finite(leaf)}
        yield outcome(
            "reference.pure",
            sorted(changed),
            "the reference changes {}",
            "Let it work on copies, or name as state what a call may change.",
        )
        differing = frozenset.union(*forms) - frozenset.intersection(*forms)
        yield outcome(
            "reference.shapes", sorted(differing), "seeds differ in {}", "Return the same shapes for every seed; pad."
        )
        yield outcome(
            "reference.finite",
            sorted(infinite),
            "NaN or infinity in {}, in the precision of the inputs",
            FINITE,
        )

    # --- the judge

    def _test_judge(self) -> Iterator[Outcome]:
        leaves = {path: node for path, node in self._output_leaves() if node["type"] == "number" or node.get("bytes")}
        if not leaves:
            found = "the reference returns no numbers and no elements, so nothing is compared"
            yield Outcome("judge.compares", "problem", found, "Return what the implementations compute.")
            return
        yield Outcome("judge.compares")
        own: list[str] = []
        unsteady: list[str] = []
        tried: Counter[str] = Counter()
        believed: Counter[tuple[str, str]] = Counter()
        right = self._right()
        for seed in SEEDS:
            self.do_renew(seed)
            own += self._refused(self._opened.right_answer(wide=False))
            unsteady += self._unsteady()
            stale, right = right, self._right()
            for test, label, accepted in chain(self._wrong_leaves(leaves, right, stale), self._wrong_wholes()):
                tried[test] += 1
                believed[test, label] += accepted
        yield outcome(
            "reference.own_precision",
            own[:1],
            "the tolerance refuses the reference itself, computed in the precision of the inputs: {}",
            "Take a wider tolerance, or sum in a wider dtype within the reference.",
        )
        yield outcome(
            "reference.repeats",
            unsteady[:1],
            "a second call on the same values gives another answer: {}",
            "Let it depend on its arguments alone: no random numbers, no memory between calls.",
        )
        for wrong in WRONG:
            labels = [
                f"{label} ({n} of {len(SEEDS)} draws)"
                for (test, label), n in believed.items()
                if n and test == wrong.test
            ]
            if tried[wrong.test]:
                yield outcome(wrong.test, labels, "the judge accepts {}", wrong.remedy)
            else:
                yield Outcome(wrong.test, "not applicable", wrong.needs)
        yield from self._test_budgets(leaves, right, stale)

    def _unsteady(self) -> list[str]:
        """How a second answer of the reference differs from the judge's, before either is rounded."""
        one, shape = self._opened, self._opened.memory.output_shape
        second = one.right_answer(wide=not one.tolerance.is_exact)
        found = {path: leaf for path, _, leaf in pytree.pairs(shape, second)}
        with torch.no_grad():
            leaves = pytree.pairs(shape, one.judged_by())
            errors = [compare_leaf(path, node, found[path], right, one.tolerance).error for path, node, right in leaves]
        return [error for error in errors if error]

    def _wrong_leaves(self, leaves: Iterable[str], right: Answer, stale: Answer) -> Iterator[tuple[str, str, bool]]:
        """Put wrong answers into each leaf in turn. One refuses an output, so no other is compared."""
        opened = self._opened
        answers = {path: pair for path, *pair in pytree.pairs(opened.memory.output_shape, opened.judged_by())}
        for path in leaves:
            leaf, (node, answer) = self._leaf(right[path], stale[path]), answers[path]
            for wrong in WRONG:
                for label, value in wrong.make(leaf):
                    found = value.item() if node["type"] == "number" else value.to(right[path].dtype)
                    with torch.no_grad():
                        accepted = not compare_leaf(path, node, found, answer, opened.tolerance).error
                    yield wrong.test, f"{label} as {path or 'the output'}", accepted

    def _wrong_wholes(self) -> Iterator[tuple[str, str, bool]]:
        """Give the answers for inputs that were rounded, or of which a part was zeroed."""
        finest = max((significant_bits(one.dtype) for _, one in self._input_tensors() if rounds(one)), default=0)
        outputs = max((significant_bits(one.dtype) for one in self._right().values() if rounds(one)), default=0)
        for name, bits in self._coarser_than(min(finest, outputs)):
            accepted = self._accepts_for(partial(coarsened, bits=bits))
            yield "judge.rounded_inputs", f"the answer for inputs rounded to {name}", accepted
        declared, inputs = self._told["cost"]["bytes_read"], self._told["input_bytes"]
        if declared * declared_cost.BYTES_SLACK < inputs:
            return
        floating = [(path, one) for path, one in self._input_tensors() if rounds(one)]
        # Integers beside floating-point inputs are indices, among which zeros have another meaning.
        for path, one in floating or self._input_tensors():
            for dim in sorted({0, one.dim() - 1}):
                # The cost leaves out an input whose bytes are missing in it, such as the seed of the others.
                left_out = not self._target.world and declared + one.nbytes <= inputs
                if one.dim() and one.shape[dim] > 1 and not left_out:
                    accepted = self._accepts_for(partial(half_zeroed, chosen=one, dim=dim))
                    yield "judge.skipped_work", f"zeros for the last half of {path!r} along dimension {dim}", accepted

    def _accepts_for(self, alter: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """Whether there is an answer for altered inputs, and the judge accepts it."""
        answer = self._answer_to(alter)
        return answer is not None and not self._judged(answer)

    def _test_budgets(self, leaves: Iterable[str], right: Answer, stale: Answer) -> Iterator[Outcome]:
        """Whether the metric of each lossy variant refuses grossly wrong answers, for one draw."""
        for one in self._target.benchmark.implementations_on(self._target.device):
            if one.lossy is None:
                continue
            believed = []
            for make in GROSS:
                made = {path: next(make(self._leaf(right[path], stale[path])), None) for path in leaves}
                values = {path: pair[1] for path, pair in made.items() if pair}
                if values and not self._judged({**right, **values}, asdict(one.lossy)):
                    believed.append(next(pair[0] for pair in made.values() if pair))
            yield outcome(
                f"budget.{one.name}",
                believed,
                f"{one.lossy.metric} within {one.lossy.budget:g} accepts {{}}",
                "Lower the budget, or take a metric that tells them from the answer.",
            )

    def _input_tensors(self) -> list[tuple[str, torch.Tensor]]:
        leaves = self._nodes({**self._opened.fresh, **self._target.static})
        return [(path, one) for path, _, one in leaves if isinstance(one, torch.Tensor) and one.numel()]

    def _leaf(self, right: torch.Tensor, stale: torch.Tensor) -> Leaf:
        inputs = self._input_tensors()
        alike = [(path, one) for path, one in inputs if (one.dtype, one.shape) == (right.dtype, right.shape)]
        return Leaf(right, stale, alike, self._coarser_than(significant_bits(right.dtype)) if rounds(right) else [])

    def _coarser_than(self, bits: int) -> list[tuple[str, int]]:
        return coarser(self._told["cost"]["precision"], bits)

    def _output_leaves(self) -> list[tuple[str, pytree.Shape]]:
        leaves = pytree.pairs(self._opened.memory.output_shape, self._opened.judged_by())
        return [(path, node) for path, node, _ in leaves]

    def _right(self) -> Answer:
        """The answer that the judge compares with, in the dtypes of the output."""
        return self._cast(self._opened.judged_by())

    def _cast(self, answer: Any) -> Answer:
        cast = {}
        for path, node, leaf in pytree.pairs(self._opened.memory.output_shape, answer):
            if node["type"] == "tensor":
                cast[path] = leaf.detach().to(getattr(torch, node["dtype"]), copy=True)
            elif node["type"] == "number":
                cast[path] = torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)
        return cast

    def _refused(self, output: Any, lossy: Message | None = None) -> list[str]:
        """The judge's error for an output; empty where it accepts the output."""
        return self._judged(self._cast(output), lossy)

    def _judged(self, leaves: Answer, lossy: Message | None = None) -> list[str]:
        numbers = {}
        with torch.no_grad():
            for path, node in self._output_leaves():
                if node["type"] == "tensor":
                    self._opened.memory.output(node).copy_(leaves[path])
                elif node["type"] == "number":
                    numbers[path] = leaves[path].item()
        error = self.do_compare(lossy, numbers)["error"]
        return [] if error is None else [str(error)]

    def _answer_to(self, alter: Callable[[torch.Tensor], torch.Tensor]) -> Answer | None:
        """The reference's answer for altered inputs; None where it raises or returns other shapes.

        It may do so for values that the workload never draws.
        """
        right, opened, target = self._right(), self._opened, self._target
        altered, fresh = evolve(target, static=pytree.mapped(target.static, alter)), pytree.mapped(opened.fresh, alter)
        try:
            answer = self._cast(altered.right_answer(fresh, wide=not opened.tolerance.is_exact))
        except Exception:
            return None
        return answer if all(leaf.shape == right[path].shape for path, leaf in answer.items()) else None

    # --- cost

    def _test_cost(self) -> Iterator[Outcome]:
        if self._target.benchmark.simulation:
            yield Outcome("cost", "not applicable", "the target is simulated, and its cost has no work of this machine")
            return
        cost, world, memory = self._told["cost"], len(self._target.places), self._opened.memory
        yield self._test_flops(cost["flops"] * world)
        cache = self._target.benchmark.cache
        inputs, output = self._told["input_bytes"] // world, self._told["output_bytes"] // world
        yield declared_cost.bytes_read(cost["bytes_read"], inputs, self._needed, warm=cache == "warm")
        items = memory.inputs_shape["items"]
        items = items[rank_name(0)]["items"] if self._target.world else items
        state = sum(pytree.tensor_bytes(items[name]) for name in self._target.benchmark.task.state)
        yield declared_cost.bytes_written(cost["bytes_written"], output, state, cold=cache == "cold")
        yield from self._test_repeated_reads()

    def _test_repeated_reads(self) -> Iterator[Outcome]:
        """Compare the cost with the static arguments of all presets with steps, of which only the shapes are made."""
        benchmark, presets = self._target.benchmark, {}
        task = benchmark.task
        for name, sizes in task.presets.items():
            if task.static is None or "steps" not in sizes or self._target.world:
                continue
            try:
                with torch.no_grad():
                    static = call_with(task.static, {**sizes, "device": "meta", "generator": None})
            except Exception as error:  # it reads values, or draws with what has no shapes alone
                yield _not_counted(declared_cost.REPEATED, error)
                return
            held = sum(one.nbytes for one in pytree.tensors(static))
            presets[name] = int(sizes["steps"]), benchmark.work(sizes).bytes_read, held
        if presets:
            yield declared_cost.repeated_reads(presets)

    def _test_flops(self, declared: float) -> Outcome:
        try:
            with declared_cost.Work() as work:  # of all ranks
                self._opened.right_answer(wide=False)
        except Exception as error:  # the reference works: an operation cannot be intercepted
            return _not_counted("cost.flops", error)
        return declared_cost.flops(declared, work)

    def _needed(self) -> dict[str, int]:
        """The bytes of the floating-point inputs of which every probed element changes the answer.

        With ranks, the declared cost is one rank's. An element is probed by a NaN in its place.
        """
        right, needed = self._right(), {}
        generator, first = torch.Generator().manual_seed(0), f"{rank_name(0)}." if self._target.world else ""
        for path, one in self._input_tensors():
            if rounds(one):
                places = torch.randint(one.numel(), (PROBES,), generator=generator).tolist()
                answers = (self._answer_to(partial(poisoned, chosen=one, place=place)) for place in places)
                if all(other is None or _differs(right, other) for other in answers) and path.startswith(first):
                    needed[path] = one.nbytes
        return needed


def _not_counted(test: str, error: Exception) -> Outcome:
    return Outcome(test, "not applicable", f"the reference cannot be counted: {type(error).__name__}: {error}")


def _differs(one: Answer, other: Answer) -> bool:
    return any(not _same(leaf, other[path]) for path, leaf in one.items())


def _form(nodes: list[tuple[str, pytree.Shape, Any]]) -> frozenset[str]:
    """Path, dtype and shape of each leaf, in words."""
    return frozenset(f"{path or 'the answer'} ({pytree.expected(node)})" for path, node, _ in nodes)


main = Linter.main
