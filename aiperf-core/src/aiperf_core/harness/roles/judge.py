"""The judge: the process that owns a target's data and compares outputs with the reference.

It imports the benchmark for its workload and never runs an implementation. Inputs are in memory that the workers map;
only the judge knows the seeds of their values. On a processor each worker of a run of untrusted code has memory of its
own: who maps a memory file can take its pages from all others that map it.

With several ranks, each rank has its own inputs and outputs in its own memory on its own device.
"""

from collections.abc import Sequence

import psutil
import torch
from attrs import asdict

from aiperf_core import pytree
from aiperf_core.benchmark import EVICTED
from aiperf_core.devices import shared_buffers
from aiperf_core.devices.cpu import clock_cost, keep_freed_memory
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.fork_server import redirect_output
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.roles.describer import describe
from aiperf_core.harness.roles.loaded_target import LoadedTarget
from aiperf_core.harness.roles.open_target import OpenTarget
from aiperf_core.harness.roles.target_memory import TargetMemory
from aiperf_core.tolerance import Tolerance

# Smaller working sets are handled by a single thread. Torch's threads meet at a barrier after each operation: on a busy
# machine, or just after the process was stopped, all of them spin there for milliseconds until the last one runs.
_SMALL_BYTES = 32 << 20
# The part of the free memory that the calls of a batch may take.
_BATCH_SHARE = 0.2
_ALIGNED = 256


class Judge(Service):
    """Answers the judge's requests, of which the first is `open`."""

    _opened: OpenTarget
    _memories: list[TargetMemory]
    _memory: TargetMemory

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._off: frozenset[str] = frozenset()
        self._batch: list[TargetMemory] = []

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
        memories: int = 1,
        ahead: bool = False,
    ) -> Message:
        """Make the inputs and the memory for outputs; return the problem for the workers, its cost and the clock's.

        device: the fields of a `Device`.
        flush_bound: the fields of the `FlushBound` of this machine; None where nothing is known.
        tolerance: the fields of the `Tolerance` that the user asks for; None for that of the benchmark.
        off: the judge's guards that are switched off.
        memories: of inputs and outputs, in the host's memory where there are several: one for each worker.
        ahead: no run waits: touch the memory of a flush and of an answer too, which a first use of them does else.
        """
        self._off = frozenset(off)
        keep_freed_memory()
        loaded = LoadedTarget.load(target, device, params, static_seed)
        if flush_bound is not None:
            loaded.kind.flush_bound = FlushBound(**flush_bound)
        self._opened = one = OpenTarget.open(loaded, seed, Tolerance(**tolerance) if tolerance else None)
        if one.working_set_bytes <= _SMALL_BYTES:
            torch.set_num_threads(1)
        if ahead:
            one.right_answer(wide=not one.tolerance.is_exact)
            self.do_flush()
        memory, benchmark = one.memory, loaded.benchmark
        self._memories = [memory, *(memory.another(one.fresh) for _ in range(1, memories))]
        self._memory = memory
        cold = benchmark.cache == "cold" and "cold_cache" not in self._off
        problem = {
            "device": loaded.device,
            "cold": cold,
            "evicted_folder": cold and benchmark.folder == EVICTED,
            "flush_bound": flush_bound,
            "params": params,
            "inputs": memory.inputs_shape,
            "static": memory.static_shape,
            "output": memory.output_shape,
            "state": list(benchmark.task.state),
            "files": {name: file.path for name, file in memory.files.items()},
            "deferred": benchmark.deferred,
            "served": list(benchmark.task.served),
            "simulated": asdict(benchmark.simulation) if benchmark.simulation else None,
            "inputs_buffers": memory.inputs.messages,
            "outputs_buffers": memory.outputs.messages,
            "working_set_bytes": one.working_set_bytes // len(loaded.places),
        }
        return {
            "problem": problem,
            "has_state": bool(benchmark.task.state),
            "views": one.views,
            "cost": asdict(benchmark.work(params)),
            "own_costs": {
                one.name: benchmark.own_work(one, params) for one in benchmark.implementations_on(loaded.device)
            },
            "tolerance": one.tolerance_text,
            "input_bytes": memory.arguments_bytes + sum(one.fresh[name].nbytes for name in memory.files),
            "output_bytes": pytree.tensor_bytes(memory.output_shape),
            "fds": [fd for each in self._memories for fd in (*each.inputs.fds, *each.outputs.fds)],
            **self._for_run(target["module"]),
        }

    def _for_run(self, module: str) -> Message:
        """Facts that a run asks for beside: the clock's cost, and the declarations of the benchmark in this process."""
        return {"clock_cost_s": clock_cost(), "declared": asdict(describe(self._opened.target.benchmark, module))}

    def do_print_to(self, log: str) -> None:
        """Print to another log from now on."""
        redirect_output(log)

    # --- values

    def do_turn_to(self, memory: int) -> None:
        """Work in this memory from now on, and clear outputs that were delivered there and not judged."""
        self._memory = self._memories[memory]
        self._memory.clear()

    def do_renew(self, seed: int) -> Message:
        """Draw values and write them over the old ones; return the inputs that are numbers, by rank if any.

        All of it is done for values that repeat, too: the time until the next sample must not tell code of them.
        """
        self._opened.draw(seed)
        return self._memory.renew(self._opened.fresh)

    def do_changed(self, thorough: bool) -> list[str]:
        """Paths of inputs whose bits differ from those written, except state.

        thorough: compare every bit, also of static arguments; otherwise compare sums of the bits.
        """
        return self._memory.changed(self._opened.fresh, thorough=thorough)

    def do_restore(self) -> None:
        """Write the current values of the state again, which the last call may have changed."""
        self._memory.write(self._opened.fresh, only=self._opened.target.benchmark.task.state)

    def do_repair(self) -> None:
        """Write the current values again, also static ones, after a change."""
        self._memory.write_all(self._opened.fresh)

    def do_flush(self) -> None:
        """Evict the inputs from the last-level cache, and those in files from the page cache."""
        self._opened.memory.flush(self._opened.working_set_bytes)

    # --- outputs

    def do_keep(self) -> None:
        """Copy the outputs, before anything else can write to them. The copy is compared, until it is cleared."""
        self._memory.keep()

    def do_compare(self, lossy: Message | None, numbers: dict[str, float]) -> Message:
        """Compare the outputs with the reference for the current values, and clear them.

        The next worker may map the same outputs, and get the same values.
        """
        try:
            return self._opened.compare(self._memory, lossy, numbers)
        finally:
            if "poison" not in self._off:
                self._memory.clear()
            self._opened.target.wait()

    # --- calls in a row, each with values of its own

    def do_open_batch(self, calls: int) -> Message:
        """Make memory for the values and the outputs of calls in a row: messages and descriptors to map it.

        There are fewer calls than asked for where they would take more than a share of the memory that is free.
        """
        memory, kind = self._opened.memory, self._opened.target.kind
        free = torch.cuda.mem_get_info()[0] if kind.torch_device == "cuda" else psutil.virtual_memory().available
        sizes = [-(-one.nbytes // _ALIGNED) * _ALIGNED for one in (*memory.inputs.bytes, *memory.outputs.bytes)]
        calls = max(1, min(calls, int(_BATCH_SHARE * free) // (sizes[0] + 2 * sizes[1])))
        created = [shared_buffers.create(calls * size, kind) for size in sizes]
        inputs, outputs = (one[0].split(size) for one, size in zip(created, sizes, strict=True))
        self._batch = [memory.at(*place) for place in zip(inputs, outputs, strict=True)]
        return {
            "calls": calls,
            "buffers": [message for _, message, _ in created],
            "fds": [fd for _, _, fds in created for fd in fds],
        }

    def do_renew_batch(self, seeds: list[int]) -> list[Message]:
        """Draw values for each call and write them, as `do_renew`; the inputs of each that are numbers."""
        numbers = []
        for place, seed in zip(self._batch, seeds, strict=True):
            place.clear()
            self._opened.draw(seed)
            numbers.append(place.renew(self._opened.fresh))
        return numbers

    def do_keep_batch(self) -> None:
        """Copy the outputs of all calls, before anything else can write to them."""
        for place in self._batch:
            place.keep()
        self._opened.target.wait()

    def do_compare_batch(self, seeds: list[int], lossy: Message | None, numbers: list[dict[str, float]]) -> Message:
        """Compare the kept outputs of all calls with the reference: the worst, or the first that is wrong."""
        compared = []
        for place, seed, own in zip(self._batch, seeds, numbers, strict=True):
            self._opened.draw(seed)
            compared.append(self._opened.compare(place, lossy, own))
            if compared[-1]["error"]:
                break
        self._memory.clear()
        return max(compared, key=lambda result: (bool(result["error"]), result["worst"] or 0.0))


main = Judge.main
