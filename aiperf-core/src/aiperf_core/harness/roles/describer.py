"""A process that imports benchmarks and returns their declarations, since the supervisor imports no benchmark."""

import hashlib
import inspect
import sys
from pathlib import Path

import torch
from attrs import asdict

from aiperf_core.benchmark import Benchmark, call_with
from aiperf_core.candidate_format import reference_of
from aiperf_core.described import Described, DescribedImplementation, TargetRef
from aiperf_core.docstring import section
from aiperf_core.harness.processes.channel import Message
from aiperf_core.harness.processes.service import Service
from aiperf_core.loading import load_benchmark


class Describer(Service):
    """Answers a describer's requests."""

    def do_describe(self, target: Message) -> Message:
        """Import a target and return its declarations."""
        ref = TargetRef(**target)
        return asdict(describe(load_benchmark(ref), ref.module))

    def do_inputs(self, target: Message) -> Message:
        """The names of a target's inputs and static arguments, in the workload's order, and those of its sizes."""
        task = load_benchmark(TargetRef(**target)).task
        given = {**task.presets["smoke"], "device": "cpu", "generator": torch.Generator().manual_seed(0)}
        drawn = [call_with(draw, given) for draw in (task.inputs, task.static) if draw]
        return {"inputs": [name for one in drawn for name in one], "sizes": list(task.presets["smoke"])}


def describe(benchmark: Benchmark, module: str) -> Described:
    """The declarations of a benchmark in this process, and the hash of its file now."""
    reference = reference_of(module)
    source = reference.path if reference else Path(str(sys.modules[module].__file__))
    return Described(
        goal=benchmark.goal,
        clock=benchmark.clock,
        cache=benchmark.cache,
        threads=benchmark.threads,
        presets={name: dict(sizes) for name, sizes in benchmark.task.presets.items()},
        tolerances=benchmark.tolerances,
        module=module,
        sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        implementations=[
            DescribedImplementation(
                name=one.name,
                role=one.role,
                device=one.device,
                where=one.where,
                why=one.why,
                kind=one.kind,
                requires=list(one.requires),
                builds_on=one.builds_on,
                lossy=asdict(one.lossy) if one.lossy else None,
                mechanisms=list(benchmark.mechanisms_of(one)),
                predict=one.predict,
                teaches=one.teaches,
            )
            for device in benchmark.devices
            for one in benchmark.implementations_on(device)
        ],
        folder=bool(benchmark.folder),
        files=list(benchmark.task.files),
        deferred=benchmark.deferred,
        prepare_timeout_s=benchmark.prepare_timeout_s,
        served=list(benchmark.task.served),
        no_gain_on=dict(benchmark.no_gain_on),
        goals=list(benchmark.goals),
        awkward=benchmark.awkward_sizes,
        floor=dict(benchmark.task.floor),
        simulated=benchmark.simulation,
        subject=benchmark.subject,
        limits=section(inspect.cleandoc(getattr(sys.modules.get(module), "__doc__", None) or ""), "Limits"),
        accepted=dict(benchmark.accepted),
        file=benchmark.where,
    )


main = Describer.main
