"""`aiperf doctor`: what this machine can run, what is missing, and how to get it."""

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict, frozen

from aiperf_core.cli import result_screen
from aiperf_core.cli.measuring import echo_json, json_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.devices.discovery import of_plugins
from aiperf_core.distributions import installed_version
from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins
from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.units import plural

if TYPE_CHECKING:
    from aiperf_core.devices.device import Found

# A CUDA build of torch on a cold network disk takes more than half of this to import.
TORCH_LIMIT_SECONDS = 120

ASK_TORCH = """
import json, torch
print(json.dumps({"version": torch.__version__, "built_for": torch.version.cuda, "sees": torch.cuda.device_count()}))
"""


@frozen
class Fact:
    """A property of the machine. With a `remedy` it is missing, and `needed_for` says what needs it."""

    name: str
    found: str
    needed_for: str = ""
    remedy: str = ""


@click.command("doctor")
@json_option()
@result_file_option
@click.pass_obj
def doctor(plugins: Plugins, as_json: bool, out: Path | None) -> ExitCode:
    """Show what this machine can run, what is missing, and how to get it.

    Exit code 0: benchmarks can run, at least on the CPU. 1: no benchmark can run.
    """
    torch = _ask_torch()
    others = of_plugins(plugins.known_devices) if "version" in torch else {}
    facts = [*_machine(), *_torch(torch), *_nvidia(torch), *_devices(others, plugins), *_toolkit(), _cache()]
    facts += _installed(plugins)
    runs = {"cpu": "version" in torch, "cuda": bool(torch.get("sees"))}
    runs |= {name: not isinstance(one, str) for name, one in others.items()}
    result = view(facts, runs)
    write_result(result, out)
    if as_json:
        echo_json({"runs": runs, "facts": [asdict(fact) for fact in facts]})
    else:
        result_screen.show(result)
    return result.exit_code


def view(facts: Sequence[Fact], runs: Mapping[str, bool]) -> Result:
    """The facts of the machine, and remedies for what it lacks."""
    columns = [Column("name", "of"), Column("found", "found")]
    lacking = [fact for fact in facts if fact.remedy]
    more = [*columns, Column("needed_for", "needed for"), Column("remedy", "to do")]
    remedies = Table("lacking", "Lacking", more, [Record(dict(asdict(fact))) for fact in lacking])
    return Result(
        analysis="doctor",
        title="This machine",
        summary=[f"Benchmarks on {device}: {'can run' if able else 'cannot run'}" for device, able in runs.items()],
        status="ok" if runs["cpu"] else "nothing",
        tables=[
            Table("facts", "Facts", columns, [Record({"name": fact.name, "found": fact.found}) for fact in facts]),
            *([remedies] if lacking else []),
        ],
    )


def _machine() -> Iterator[Fact]:
    from aiperf_core.devices import host

    yield Fact("Python", f"{platform.python_version()} ({sys.executable})")
    yield Fact("system", host.operating_system())
    yield Fact("processor", host.processor())
    yield Fact("memory", host.memory())
    yield Fact("hypervisor", host.hypervisor() or "none seen")
    yield Fact("memory overcommit", host.overcommit())
    compiler = host.compiler()
    remedy = "" if compiler else "install gcc or clang, or set CC to a compiler"
    yield Fact("C compiler", compiler or "not found", "C kernels on the CPU, and Triton's launcher", remedy)


def _ask_torch() -> dict[str, object]:
    """Ask torch in another process: with a broken driver its import or first call can hang."""
    import json
    import subprocess

    # -P: do not import a torch.py of the working directory.
    command = [sys.executable, "-P", "-c", ASK_TORCH]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TORCH_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"problem": f"did not answer within {TORCH_LIMIT_SECONDS} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"problem": f"cannot be imported: {last}"}
    answer: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _torch(torch: dict[str, object]) -> Iterator[Fact]:
    version = installed_version("torch")
    if not version:
        yield Fact("torch", "not installed", "every benchmark", "pip install torch")
    elif "problem" in torch:
        yield Fact("torch", f"{version}, {torch['problem']}", "every benchmark", "pip install --force-reinstall torch")
    else:
        build = f"built for CUDA {torch['built_for']}" if torch["built_for"] else "a CPU build"
        sees = plural("CUDA device", int(str(torch["sees"])))
        yield Fact("torch", f"{torch['version']}, {build}, sees {sees}")


def _nvidia(torch: dict[str, object]) -> Iterator[Fact]:
    from aiperf_core.devices.probe import nvidia

    found = nvidia()
    needs = "benchmarks on cuda"
    if not found.gpus:
        remedy = "use a machine with an NVIDIA GPU and its driver"
        if "driver is" in found.problem:
            remedy = "install the driver, or restart the machine after a driver update; see: nvidia-smi"
        if "nvidia-ml-py" in found.problem:
            remedy = "pip install nvidia-ml-py"
        yield Fact("GPU", found.problem, needs, remedy)
        return
    yield Fact("NVIDIA driver", f"{found.driver}, for CUDA up to {found.cuda}")
    for gpu in found.gpus:
        yield Fact("GPU", f"{gpu.name}, {gpu.memory_bytes / (1 << 30):.0f} GiB, compute capability {gpu.capability}")
    if torch.get("sees") == 0:
        remedy = f"install a torch built for CUDA up to {found.cuda}, and check CUDA_VISIBLE_DEVICES"
        yield Fact("torch and the GPU", "torch does not see the GPU", needs, remedy)


def _devices(others: "dict[str, Found | str]", plugins: Plugins) -> Iterator[Fact]:
    """The devices of plugins that this machine has, or the reason why not."""
    for name, found in others.items():
        installed = plugins.devices[name]
        if isinstance(found, str):
            provider = f"{installed.distribution} {installed.version}"
            yield Fact(name, found, f"benchmarks on {name}", f"see the documentation of {provider}")
            continue
        more = f", {', '.join(found.capabilities)}" if found.capabilities else ""
        yield Fact(name, f"{found.name}{f', {found.count} of them' if found.count > 1 else ''}{more}")


def _toolkit() -> Iterator[Fact]:
    for name, extra, use in (
        ("cuda-bindings", "cuda", "every run on a GPU, and CUDA C++ kernels"),
        ("nvidia-cuda-nvrtc", "cuda", "every run on a GPU, and CUDA C++ kernels"),
        ("triton", "triton", "benchmarks with Triton kernels"),
    ):
        version = installed_version(name)
        yield Fact(name, version or "not installed", use, "" if version else f"pip install 'aiperf-core[{extra}]'")


def _cache() -> Fact:
    from aiperf_core.devices import host
    from aiperf_core.folders import cache_folder

    folder = cache_folder()
    remedy = "" if host.can_write(folder) else "set AIPERF_CACHE_DIR to a writable folder"
    state = "not writable" if remedy else "writable"
    return Fact("cache", f"{folder} ({state})", "compiling each kernel only once", remedy)


def _installed(plugins: Plugins) -> Iterator[Fact]:
    count = len({target.distribution for target in plugins.targets})
    remedy = "" if count else "in a clone of aiperf: pip install -e ./aiperf-ch07"
    yield Fact("benchmarks", f"{len(plugins.targets)} in {plural('package', count)}", "aiperf run", remedy)
    problems = [
        (skipped.distribution, str(skipped), "the contributions of the plugin") for skipped in plugins.set_aside
    ]
    quick = "commands that start quickly and print only their own output"
    problems += [(one.distribution, note, quick) for one in plugins.loaded for note in one.notes]
    for name, found, needed_for in problems:
        yield Fact(f"plugin {name}", found, needed_for, "update or remove it")
