"""What comes with aiperf, contributed through the hooks that every plugin has."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.devices.device import CPU, CUDA, Device
from aiperf_core.executor import HERE, TORCHRUN, Executor
from aiperf_core.hookspecs import hookimpl
from aiperf_core.profiler import MetricSet, Profiler
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import ISSUES


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the built-in commands, in the order in which a newcomer needs them."""
    yield Command("list", "List the benchmarks that are installed.", "aiperf_core.cli.list:list_targets")
    yield Command("run", "Run benchmarks and judge their results.", "aiperf_core.cli.run:run")
    yield Command("profile", "Show why an implementation is fast, by a profiler.", "aiperf_core.cli.profile:profile")
    yield Command("show", "Show the results of a run.", "aiperf_core.cli.show:show")
    yield Command("results", "List and remove what runs left behind.", "aiperf_core.cli.results:results")
    yield Command("compare", "Compare two runs, or two implementations.", "aiperf_core.cli.compare:compare")
    yield Command("recheck", "Recompute a run's verdicts from its samples.", "aiperf_core.cli.recheck:recheck")
    yield Command("reproduce", "Run a bundle's targets again and compare.", "aiperf_core.cli.reproduce:reproduce")
    yield Command("expectations", "Hold runs to what was measured before.", "aiperf_core.cli.expectations:expectations")
    yield Command("report", "Write a run as a page to read and to send.", "aiperf_core.cli.report:report")
    yield Command("export", "Write results for other programs.", "aiperf_core.cli.export:export")
    yield Command("ceilings", "Show what this machine reaches at its best.", "aiperf_core.cli.ceilings:ceilings")
    yield Command("roofline", "Draw results on the machine's roofline.", "aiperf_core.cli.roofline:roofline")
    yield Command("judge", "Judge code that nobody trusts.", "aiperf_core.cli.judge:judge")
    yield Command("lint", "Try to fool the judges of benchmarks.", "aiperf_core.cli.lint:lint")
    yield Command(
        "validity",
        "List what can make a number untrue, and what guards against it.",
        "aiperf_core.cli.validity:validity",
    )
    yield Command(
        "selftest",
        "Attack this harness, and show which attacks it catches here.",
        "aiperf_core.cli.selftest:selftest",
    )
    yield Command("kernels", "Compile every kernel of the installed benchmarks.", "aiperf_core.cli.kernels:kernels")
    yield Command("completion", "Complete commands and targets in your shell.", "aiperf_core.cli.completion:completion")
    yield Command("new", "Make a package of benchmarks of your own.", "aiperf_core.cli.new:new")
    yield Command(
        "plugins", "List the plugins, and those set aside with the reason.", "aiperf_core.cli.plugins:plugins"
    )
    yield Command("doctor", "Say what this machine can run, and what it lacks.", "aiperf_core.cli.doctor:doctor")


@hookimpl
def aiperf_issues() -> Iterable[Issue]:
    """Contribute the registry's issues, category by category."""
    return ISSUES


@hookimpl
def aiperf_profilers() -> Iterable[Profiler]:
    """Contribute the built-in profilers, the one that needs least first."""
    yield Profiler(
        "torch", "PyTorch profiler: operators, kernels and copies", "aiperf_core.profiling.torch_tool:TorchTool"
    )
    yield Profiler("nsys", "Nsight Systems: kernels, copies and gaps on a time line", "aiperf_core.profiling.nsys:Nsys")
    yield Profiler("ncu", "Nsight Compute: what limits each kernel", "aiperf_core.profiling.ncu:Ncu")
    yield Profiler(
        "perf", "Linux perf: cycles, cache misses and symbols on the processor", "aiperf_core.profiling.perf:Perf"
    )


@hookimpl
def aiperf_metrics() -> Iterable[MetricSet]:
    """Contribute the metrics that answer one question each."""
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
        summary="where bytes go: DRAM, caches, sectors a request, bank conflicts",
    )
    yield MetricSet(
        "cache",
        tool="perf",
        metrics=("cache-references", "cache-misses", "L1-dcache-loads", "L1-dcache-load-misses", "dTLB-load-misses"),
        summary="hits and misses of the processor's caches",
    )


@hookimpl
def aiperf_devices() -> Iterable[Device]:
    """Contribute the devices that every machine may have."""
    yield CUDA
    yield CPU


@hookimpl
def aiperf_executors() -> Iterable[Executor]:
    """Contribute the ways to start workers that take nothing but torch."""
    yield HERE
    yield TORCHRUN
