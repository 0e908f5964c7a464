"""The built-in contributions. They use the same hooks as any plugin."""

from collections.abc import Iterable

from aiperf_core.candidate_format import BUILT_IN as FORMATS
from aiperf_core.candidate_format import Format
from aiperf_core.commands import Command
from aiperf_core.devices.device import CPU, CUDA, Device
from aiperf_core.executor import HERE, TORCHRUN, Executor
from aiperf_core.hookspecs import hookimpl
from aiperf_core.profiler import MetricSet, Profiler
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import issues

# By section and name, in the order in which a new user needs them.
_COMMANDS = {
    "Measure": {
        "list": "List the installed benchmarks.",
        "tags": "List the tags of benchmarks.",
        "run": "Measure benchmarks and check their results.",
        "watch": "Measure a target again whenever a file is saved.",
        "diff": "Compare two functions without a package.",
        "judge": "Benchmark untrusted code in a sandbox.",
        "profile": "Explain with a profiler why an implementation is fast.",
        "reproduce": "Repeat a stored run and compare the verdicts.",
        "ceilings": "Measure the peak rates of this machine.",
    },
    "Look at results": {
        "results": "List, show, sign and remove stored results.",
        "show": "Show the results of a run, or what a target declares.",
        "sweep": "Show a sweep of parameters as a table and a picture.",
        "compare": "Compare two runs, or two implementations.",
        "report": "Write a run as a report in HTML, Markdown or PDF.",
        "roofline": "Draw results on the machine's roofline.",
        "export": "Export results for other programs.",
        "schema": "Print the JSON Schema of the files in a bundle.",
        "goals": "Show the goals of targets and the measured values.",
    },
    "Write benchmarks": {
        "new": "Create a package of benchmarks, or add a benchmark.",
        "kernels": "Compile the kernels of the installed benchmarks.",
        "lint": "Test whether benchmarks reject wrong answers.",
    },
    "Check": {
        "expectations": "Check for regressions against stored results.",
        "recheck": "Recompute a run's verdicts from its samples.",
        "validity": "List validity issues and the checks that guard against them.",
    },
    "This installation": {
        "help": "Show the help of a command, or list all commands.",
        "doctor": "Show what this machine can run, and what is missing.",
        "plugins": "List loaded and skipped plugins.",
        "completion": "Print a shell completion script.",
    },
}
# Those that `aiperf --help` shows.
_EVERYDAY = {"list", "run", "watch", "show", "compare", "report", "new", "lint", "doctor"}
_ATTRIBUTES = {"list": "list_targets", "help": "help_command"}


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the built-in commands."""
    for section, commands in _COMMANDS.items():
        for name, summary in commands.items():
            load = f"aiperf_core.cli.{name}:{_ATTRIBUTES.get(name, name)}"
            yield Command(name, summary, load, section=section, everyday=name in _EVERYDAY)


@hookimpl
def aiperf_issues() -> Iterable[Issue]:
    """Contribute the issues of the registry, by category."""
    return issues()


@hookimpl
def aiperf_profilers() -> Iterable[Profiler]:
    """Contribute the built-in profilers, first the one with the fewest requirements."""
    yield Profiler(
        "torch", "PyTorch profiler: operators, kernels and copies", "aiperf_core.profiling.torch_tool:TorchTool"
    )
    yield Profiler("nsys", "Nsight Systems: kernels, copies and gaps on a timeline", "aiperf_core.profiling.nsys:Nsys")
    yield Profiler("ncu", "Nsight Compute: what limits each kernel", "aiperf_core.profiling.ncu:Ncu")
    yield Profiler("perf", "Linux perf: cycles, cache misses and symbols on the CPU", "aiperf_core.profiling.perf:Perf")


@hookimpl
def aiperf_metrics() -> Iterable[MetricSet]:
    """Contribute sets of metrics. Each set answers one question."""
    yield MetricSet(
        "memory",
        tool="ncu",
        metrics=(
            "dram__bytes.sum",
            "dram__bytes.sum.per_second",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "lts__t_sector_hit_rate.pct",
            "l1tex__t_sector_hit_rate.pct",
            "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
            "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
            "l1tex__data_bank_conflicts_pipe_lsu.sum",
        ),
        summary="memory traffic: DRAM, caches, sectors per request, bank conflicts",
    )
    yield MetricSet(
        "cache",
        tool="perf",
        metrics=("cache-references", "cache-misses", "L1-dcache-loads", "L1-dcache-load-misses", "dTLB-load-misses"),
        summary="hits and misses of the CPU caches",
    )


@hookimpl
def aiperf_devices() -> Iterable[Device]:
    """Contribute the built-in kinds of device."""
    yield CUDA
    yield CPU


@hookimpl
def aiperf_executors() -> Iterable[Executor]:
    """Contribute the executors that need only torch."""
    yield HERE
    yield TORCHRUN


@hookimpl
def aiperf_formats() -> Iterable[Format]:
    """Contribute the formats of candidates that the core reads."""
    return FORMATS.values()
