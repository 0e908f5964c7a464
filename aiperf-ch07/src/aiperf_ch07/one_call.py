"""One call on the GPU for a profiler: `python -m aiperf_ch07.one_call TARGET MODULE IMPLEMENTATION [NAME=VALUE]...`."""

import sys

import torch

from aiperf_core.benchmark import bind, call_with
from aiperf_core.described import TargetRef
from aiperf_core.errors import UsageError
from aiperf_core.loading import load_benchmark


def main(target: str, module: str, name: str, *given: str) -> None:
    """Draw the inputs at the GPU's default sizes, prepare, and call once within the profiler's window."""
    bench = load_benchmark(TargetRef(target, module))
    presets = bench.task.presets
    sizes = dict(presets.get("cuda", presets["smoke"]))
    for text in given:
        size, _, value = text.partition("=")
        if size not in sizes:
            raise UsageError(f"{target!r} has no size {size!r}; it has {', '.join(sizes)}")
        sizes[size] = float(value) if "." in value else int(value)
    found = {one.name: one for one in bench.implementations_on("cuda")}
    if name not in found:
        raise UsageError(f"{target!r} has no implementation {name!r} on cuda; it has {', '.join(found)}")
    draw = {**sizes, "device": "cuda", "generator": torch.Generator("cuda").manual_seed(0)}
    arguments = {**sizes, **call_with(bench.task.inputs, draw)}
    if bench.task.static:
        arguments.update(call_with(bench.task.static, draw))
    run = found[name].code
    if found[name].is_class:
        instance = found[name].code()
        if hasattr(instance, "prepare"):
            call_with(instance.prepare, arguments)
        run = instance.run
    call = bind(run, arguments)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UsageError as error:
        raise SystemExit(str(error)) from None
