import json
import platform
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from aiperf_core import plugins
from aiperf_core.cli import doctor as doctor_module
from aiperf_core.cli.main import Shell
from aiperf_core.devices import host, probe
from aiperf_core.devices.probe import Gpu, Nvidia

H200 = Nvidia(driver="580.95", cuda="13.0", gpus=(Gpu("NVIDIA H200", 150_754_820_096, "9.0"),))
CPU_TORCH = {"version": "2.13.0+cpu", "built_for": None, "sees": 0}
CUDA_TORCH = {"version": "2.13.0", "built_for": "13.0", "sees": 1}


@pytest.fixture
def machine(monkeypatch, site):
    """A made-up machine: a function that sets what it has and returns the outcome of `aiperf doctor`."""
    monkeypatch.setattr(host, "operating_system", lambda: "Somelinux 1, Linux 6.1 x86_64")
    monkeypatch.setattr(host, "processor", lambda: "Some CPU, 2 of 2 logical CPUs usable")
    monkeypatch.setattr(host, "memory", lambda: "16.0 GiB, 12.0 GiB available")
    monkeypatch.setattr(host, "hypervisor", lambda: "")
    monkeypatch.setattr(host, "overcommit", lambda: "heuristic")
    monkeypatch.setattr(host, "can_write", lambda folder: True)
    monkeypatch.setenv("AIPERF_CACHE_DIR", "/cache")
    monkeypatch.setattr(plugins, "SLOW_SECONDS", 60.0)  # a busy disk is none of this machine's

    def look(*arguments, nvidia=H200, torch=CUDA_TORCH, compiler="gcc 12 (/usr/bin/cc)", missing=()):
        monkeypatch.setattr(host, "compiler", lambda: compiler)
        monkeypatch.setattr(probe, "nvidia", lambda: nvidia)
        monkeypatch.setattr(doctor_module, "_ask_torch", lambda: torch)
        monkeypatch.setattr(doctor_module, "installed_version", lambda name: "" if name in missing else "1.0")
        return CliRunner().invoke(Shell(site.load()), ["doctor", *arguments])

    look.site = site
    return look


TARGET = "@hookimpl\ndef aiperf_targets(): yield Target('gather', 'b', 'speed', 'cpu')"


def test_a_machine_that_lacks_nothing(machine):
    machine.site.install("aiperf-acme", TARGET)
    result = machine()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "This machine\n"
        "Benchmarks on cpu: can run\n"
        "Benchmarks on cuda: can run\n"
        "\n"
        "Facts\n"
        "of                 found\n"
        f"Python             {platform.python_version()} ({sys.executable})\n"
        "system             Somelinux 1, Linux 6.1 x86_64\n"
        "processor          Some CPU, 2 of 2 logical CPUs usable\n"
        "memory             16.0 GiB, 12.0 GiB available\n"
        "hypervisor         none seen\n"
        "memory overcommit  heuristic\n"
        "C compiler         gcc 12 (/usr/bin/cc)\n"
        "torch              2.13.0, built for CUDA 13.0, sees 1 CUDA device\n"
        "NVIDIA driver      580.95, for CUDA up to 13.0\n"
        "GPU                NVIDIA H200, 140 GiB, compute capability 9.0\n"
        "cuda-bindings      1.0\n"
        "nvidia-cuda-nvrtc  1.0\n"
        "triton             1.0\n"
        "cache              /cache (writable)\n"
        "benchmarks         1 in 1 package\n"
    )


def lacks(result):
    """Return the rows about what is lacking, as cells."""
    head, *rows = result.stdout.partition("\nLacking\n")[2].splitlines()
    assert head.split("  ")[0] == "of"
    return [re.split("  +", row) for row in rows]


def test_a_machine_without_a_gpu_can_run_benchmarks_on_the_cpu(machine):
    machine.site.install("aiperf-acme", TARGET)
    result = machine(nvidia=Nvidia(problem="no NVIDIA GPU was found"), torch=CPU_TORCH)
    assert result.exit_code == 0
    assert lacks(result) == [
        ["GPU", "no NVIDIA GPU was found", "benchmarks on cuda", "use a machine with an NVIDIA GPU and its driver"]
    ]
    assert result.stdout.startswith("This machine\nBenchmarks on cpu: can run\nBenchmarks on cuda: cannot run\n")


def test_a_gpu_whose_driver_is_not_loaded(machine):
    problem = "an NVIDIA GPU is in this machine but its driver is not loaded"
    remedies = {fact["name"]: fact["remedy"] for fact in facts(machine("--json", nvidia=Nvidia(problem=problem)))}
    assert remedies["GPU"] == "install the driver, or restart the machine after a driver update; see: nvidia-smi"


def test_a_torch_that_does_not_see_the_gpu(machine):
    remedies = {fact["name"]: fact["remedy"] for fact in facts(machine("--json", torch=CPU_TORCH))}
    assert remedies["torch and the GPU"] == "install a torch built for CUDA up to 13.0, and check CUDA_VISIBLE_DEVICES"


def test_without_torch_nothing_can_run(machine):
    result = machine(torch={"problem": "cannot be imported"}, missing=("torch",))
    assert result.exit_code == 1
    assert lacks(result)[0] == ["torch", "not installed", "every benchmark", "pip install torch"]
    assert result.stdout.startswith("This machine\nBenchmarks on cpu: cannot run\nBenchmarks on cuda: cannot run\n")


def test_a_torch_that_hangs(machine):
    result = machine(torch={"problem": "did not answer within 120 s"})
    assert result.exit_code == 1
    assert lacks(result)[0][:2] == ["torch", "1.0, did not answer within 120 s"]


def test_everything_else_that_may_be_missing(machine, monkeypatch):
    monkeypatch.setattr(host, "can_write", lambda folder: False)
    machine.site.install("aiperf-bolt", "import no_such_module")
    result = machine(compiler="", missing=("cuda-bindings", "nvidia-cuda-nvrtc", "triton"))
    assert result.exit_code == 0
    assert {fact["name"]: fact["remedy"] for fact in facts(machine_json(machine)) if fact["remedy"]} == {
        "C compiler": "install gcc or clang, or set CC to a compiler",
        "cuda-bindings": "pip install 'aiperf-core[cuda]'",
        "nvidia-cuda-nvrtc": "pip install 'aiperf-core[cuda]'",
        "triton": "pip install 'aiperf-core[triton]'",
        "cache": "set AIPERF_CACHE_DIR to a writable folder",
        "benchmarks": "in a clone of aiperf: pip install -e ./aiperf-ch07",
        "plugin aiperf-bolt": "update or remove it",
    }


def machine_json(machine):
    return machine("--json", compiler="", missing=("cuda-bindings", "nvidia-cuda-nvrtc", "triton"))


def facts(result):
    return json.loads(result.stdout)["facts"]


@pytest.mark.parametrize("columns", [40, 80])
def test_it_fits_a_terminal(machine, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = machine().stdout.splitlines()
    assert max(map(len, lines)) <= columns


def test_json_says_what_runs(machine):
    assert json.loads(machine("--json", torch=CPU_TORCH).stdout)["runs"] == {"cpu": True, "cuda": False}


def asked(monkeypatch, program):
    monkeypatch.setattr(doctor_module, "ASK_TORCH", program)
    return doctor_module._ask_torch()


def test_torch_is_asked_in_a_process_of_its_own(monkeypatch):
    assert asked(monkeypatch, "print('noise'); print('{\"sees\": 3}')") == {"sees": 3}
    assert asked(monkeypatch, "import no_such_torch") == {
        "problem": "cannot be imported: ModuleNotFoundError: No module named 'no_such_torch'"
    }
    assert asked(monkeypatch, "import os; os._exit(9)") == {"problem": "cannot be imported: exit code 9"}
    monkeypatch.setattr(doctor_module, "TORCH_LIMIT_SECONDS", 0.2)
    assert asked(monkeypatch, "import time; time.sleep(60)") == {"problem": "did not answer within 0.2 s"}


def test_this_machine_can_be_examined():
    done = subprocess.run([sys.executable, "-m", "aiperf_core", "doctor", "--json"], capture_output=True, text=True)
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"]["cpu"] is True


def test_what_a_working_plugin_should_not_do_is_told_with_a_remedy(machine):
    machine.site.install("aiperf-acme", "print('hello')\n" + TARGET)
    result = machine()
    assert result.exit_code == 0
    assert lacks(result) == [
        [
            "plugin aiperf-acme",
            "printed while it was loaded: 'hello'",
            "commands that start quickly and print only their own output",
            "update or remove it",
        ]
    ]
