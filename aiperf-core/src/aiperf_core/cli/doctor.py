"""`aiperf doctor`: what this machine can run, what it lacks, and what to do about each lack."""

import platform
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from attrs import asdict, frozen

from aiperf_core.devices.discovery import of_plugins
from aiperf_core.distributions import installed_version
from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.devices.device import Found

# Importing a CUDA build of torch from a cold network disk takes the better part of this.
TORCH_LIMIT_SECONDS = 120

ASK_TORCH = """
import json, torch
print(json.dumps({"version": torch.__version__, "built_for": torch.version.cuda, "sees": torch.cuda.device_count()}))
"""


@frozen
class Fact:
    """A thing that was looked for. With a `remedy` it is lacking, and `needed_for` says what that costs."""

    name: str
    found: str
    needed_for: str = ""
    remedy: str = ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def doctor(plugins: Plugins, as_json: bool) -> ExitCode:
    """Say what this machine can run, what it lacks, and what to do about it.

    Ends with 0 when benchmarks can run, if only on the CPU, and with 1 when none can.
    """
    torch = _ask_torch()
    others = of_plugins(plugins.known_devices) if "version" in torch else {}
    facts = [*_machine(), *_torch(torch), *_nvidia(torch), *_devices(others, plugins), *_toolkit(), _cache()]
    facts += _installed(plugins)
    runs = {"cpu": "version" in torch, "cuda": bool(torch.get("sees"))}
    runs |= {name: not isinstance(one, str) for name, one in others.items()}
    if as_json:
        import json

        click.echo(json.dumps({"runs": runs, "facts": [asdict(fact) for fact in facts]}, indent=2))
    else:
        _print(facts, runs)
    return ExitCode.OK if runs["cpu"] else ExitCode.FAILED


def _print(facts: list[Fact], runs: dict[str, bool]) -> None:
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        click.echo(f"{fact.name:<{width}}  {fact.found}")
    for fact in facts:
        if fact.remedy:
            click.echo(f"\n{fact.name}: {fact.found}\n  needed for  {fact.needed_for}\n  to do       {fact.remedy}")
    click.echo()
    for device, able in runs.items():
        click.echo(f"Benchmarks on {device}: {'can run' if able else 'cannot run'}")


def _machine() -> Iterator[Fact]:
    from aiperf_core.devices import host

    yield Fact("Python", f"{platform.python_version()} ({sys.executable})")
    yield Fact("system", host.operating_system())
    yield Fact("processor", host.processor())
    yield Fact("memory", host.memory())
    yield Fact("hypervisor", host.hypervisor() or "none seen")
    compiler = host.compiler()
    remedy = "" if compiler else "install gcc or clang, or name one in CC"
    yield Fact("C compiler", compiler or "not found", "C kernels on the CPU, and Triton's launcher", remedy)


def _ask_torch() -> dict[str, object]:
    """Ask torch in a process of its own: a broken driver can make its import or its first call hang."""
    import json
    import subprocess

    # -P: a torch.py in the working directory is not torch.
    command = [sys.executable, "-P", "-c", ASK_TORCH]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"problem": f"gave no answer within {TORCH_LIMIT_SECONDS} s"}
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
        yield Fact("torch", f"{torch['version']}, {build}, sees {torch['sees']} CUDA device(s)")


def _nvidia(torch: dict[str, object]) -> Iterator[Fact]:
    from aiperf_core.devices.probe import nvidia

    found = nvidia()
    needs = "benchmarks on cuda; the others run without"
    if not found.gpus:
        remedy = "use a machine with an NVIDIA GPU and its driver"
        if "driver is" in found.problem:
            remedy = "install the driver, or restart the machine after an update of it; see: nvidia-smi"
        if "nvidia-ml-py" in found.problem:
            remedy = "pip install nvidia-ml-py"
        yield Fact("GPU", found.problem, needs, remedy)
        return
    yield Fact("NVIDIA driver", f"{found.driver}, for CUDA up to {found.cuda}")
    for gpu in found.gpus:
        yield Fact("GPU", f"{gpu.name}, {gpu.memory_bytes / (1 << 30):.0f} GiB, compute capability {gpu.capability}")
    if torch.get("sees") == 0:
        remedy = f"install a torch built for CUDA up to {found.cuda}; is CUDA_VISIBLE_DEVICES set?"
        yield Fact("torch and the GPU", "torch sees no GPU though there is one", needs, remedy)


def _devices(others: "dict[str, Found | str]", plugins: Plugins) -> Iterator[Fact]:
    """The devices of plugins, each with what is here of it."""
    for name, found in others.items():
        installed = plugins.devices[name]
        if isinstance(found, str):
            provider = f"{installed.distribution} {installed.version}"
            yield Fact(name, found, f"benchmarks on {name}; the others run without", f"see what {provider} needs")
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
    remedy = "" if host.can_write(folder) else "set AIPERF_CACHE_DIR to a folder that can be written"
    state = "not writable" if remedy else "writable"
    return Fact("cache", f"{folder} ({state})", "compiling each kernel once only", remedy)


def _installed(plugins: Plugins) -> Iterator[Fact]:
    count = len({target.distribution for target in plugins.targets})
    remedy = "" if count else "pip install aiperf-ch07"
    yield Fact("benchmarks", f"{len(plugins.targets)} in {count} package(s)", "anything to run", remedy)
    for skipped in plugins.set_aside:
        update = f"update or remove it: pip install --upgrade {skipped.distribution}"
        yield Fact(f"plugin {skipped.distribution}", str(skipped), "what that plugin contributes", update)
    for one in plugins.loaded:
        update = f"update or remove it: pip install --upgrade {one.distribution}"
        for note in one.notes:
            yield Fact(
                f"plugin {one.distribution}", note, "commands that start quickly and print only their own", update
            )
