import json
import os
import platform
import time
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_driver import Driver, NVMLError

from aiperf_core.devices import environment
from aiperf_core.devices.environment import facts

MEMINFO = "MemTotal: 1000 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\nCommitLimit: 600 kB\nCommitted_AS: 700 kB\n"
SERVER = {
    "proc/meminfo": MEMINFO,
    "proc/self/status": "Name:\tpython\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n",
    "proc/self/cgroup": "0::/jobs/one\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/vm/overcommit_memory": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/devices/system/node/node0/cpulist": "0-1,4\n",
    "sys/devices/system/node/node1/cpulist": "2-3,5\n",
    "sys/devices/system/node/node2/cpulist": "\n",  # memory without processors
    "sys/fs/cgroup/cpu.stat": "",
}
CPUFREQ = {
    "scaling_driver": "intel_pstate",
    "scaling_governor": "powersave",
    "energy_performance_preference": "balance_performance",
    "scaling_min_freq": "800000",
    "scaling_max_freq": "3500000",
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Make a machine of files, whose processors 0, 1 and 5 this process may use."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5})
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(environment, "_memory_policy", lambda: ("default", []))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def make(files=(), without=()):
        every = SERVER | dict(files)
        for cpu in (0, 1, 5):
            every |= {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}": text for name, text in CPUFREQ.items()}
        every |= dict(files)
        for name, text in every.items():
            if not name.startswith(tuple(without) or "-"):
                file = tmp_path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        return tmp_path

    return make


def known(found):
    return {name: value for name, value in found.items() if name not in ("hypervisor", "load_average")}


def test_everything_a_machine_tells(machine):
    assert known(facts("cpu", machine())) == {
        "container": "",
        "cpus": 6,
        "usable_cpus": 3,
        "affinity": [0, 1, 5],
        "smt": True,
        "cpu_limit": None,
        "memory_limit_bytes": None,
        "cpuset_cpus": None,
        "cpufreq_driver": "intel_pstate",
        "governors": ["powersave"],
        "energy_preferences": ["balance_performance"],
        "cpu_clock_limits_hz": [8e8, 3.5e9],
        "turbo": False,
        "numa_nodes": {"0": [0, 1, 4], "1": [2, 3, 5], "2": []},
        "process_nodes": [0, 1],
        "memory_nodes": [0, 1],
        "numa_policy": "default",
        "memory_bytes": 1000 * 1024,
        "committed_bytes": 700 * 1024,
        "commit_limit_bytes": 600 * 1024,
        "swap_total_bytes": 100 * 1024,
        "swap_used_bytes": 40 * 1024,
        "swappiness": 60,
        "overcommit": "always",
        "transparent_huge_pages": "madvise",
        "lacking": {},
    }


def test_what_a_machine_refuses_has_a_reason(tmp_path, machine):
    found = facts("cpu", tmp_path)
    assert set(found) == {
        "hypervisor",
        "container",
        "cpus",
        "usable_cpus",
        "affinity",
        "load_average",
        "numa_policy",
        "lacking",
    }
    assert found["lacking"]["swappiness"] == f"{tmp_path}/proc/sys/vm/swappiness: No such file or directory"
    assert found["lacking"]["governors"] == "this machine does not show how the clocks of its processors are chosen"
    assert found["lacking"]["turbo"] == "this machine does not say whether turbo clocks are on"
    assert found["lacking"]["numa_nodes"] == "this machine shows no nodes"
    assert found["lacking"]["memory_bytes"] == "/proc/meminfo has no MemTotal"
    assert all(found["lacking"].values())


def test_cpufreq_of_an_arm_server(machine):
    root = machine(without=["sys/devices/system/cpu/cpu0/cpufreq/energy", "sys/devices/system/cpu/intel_pstate"])
    for cpu in (1, 5):
        (root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/energy_performance_preference").unlink()
    (root / "sys/devices/system/cpu/cpu5/cpufreq/scaling_governor").write_text("performance")
    (root / "sys/devices/system/cpu/cpufreq").mkdir()
    (root / "sys/devices/system/cpu/cpufreq/boost").write_text("1\n")
    found = facts("cpu", root)
    assert found["governors"] == ["performance", "powersave"]
    assert found["turbo"] is True
    assert found["lacking"] == {
        "energy_preferences": "this machine's cpufreq has no energy_performance_preference",
    }


ONE, TWO = "sys/fs/cgroup", {"proc/self/cgroup": "0::/jobs/one\n"}


@pytest.mark.parametrize(
    ("files", "cpus", "memory", "cpuset"),
    [
        # Version 2: the strictest of the groups from here to the top.
        ({f"{ONE}/jobs/one/cpu.max": "250000 100000", f"{ONE}/jobs/cpu.max": "max 100000"}, 2.5, None, None),
        ({f"{ONE}/jobs/one/cpu.max": "max 100000", f"{ONE}/jobs/cpu.max": "100000 50000"}, 2.0, None, None),
        ({f"{ONE}/jobs/memory.max": "4096", f"{ONE}/jobs/one/memory.max": "8192"}, None, 4096, None),
        ({f"{ONE}/jobs/one/memory.max": "max"}, None, None, None),
        ({f"{ONE}/jobs/one/cpuset.cpus.effective": "0-1,5\n"}, None, None, 3),
        # A container whose own group lies on top, under a path of the host.
        ({"proc/self/cgroup": "0::/docker/abc\n", f"{ONE}/cpu.max": "50000 100000"}, 0.5, None, None),
        # Version 1, with one folder for two controllers, and the largest number for no limit.
        (
            {
                "proc/self/cgroup": "7:memory:/x\n4:cpu,cpuacct:/x\n3:cpuset:/\n1:name=systemd:/\n",
                f"{ONE}/cpu,cpuacct/x/cpu.cfs_quota_us": "150000",
                f"{ONE}/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
                f"{ONE}/memory/x/memory.limit_in_bytes": "9223372036854771712",
                f"{ONE}/memory/memory.limit_in_bytes": "12288",
                f"{ONE}/cpuset/cpuset.cpus": "0-3",
            },
            1.5,
            12288,
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n7:memory:/\n3:cpuset:/\n0::/\n",
                f"{ONE}/cpu/cpu.cfs_quota_us": "-1",
                f"{ONE}/cpu/cpu.cfs_period_us": "100000",
                f"{ONE}/memory/memory.limit_in_bytes": "9223372036854771712",
                f"{ONE}/cpuset/cpuset.effective_cpus": "0",
                f"{ONE}/cpuset/cpuset.cpus": "",
            },
            None,
            None,
            1,
        ),
    ],
)
def test_limits_of_control_groups(machine, files, cpus, memory, cpuset):
    found = facts("cpu", machine(files))
    assert (found["cpu_limit"], found["memory_limit_bytes"], found["cpuset_cpus"]) == (cpus, memory, cpuset)


def test_without_control_groups(machine):
    found = facts("cpu", machine(without=["sys/fs"]))
    assert "cpu_limit" not in found
    assert "no control group of this process can be read" in found["lacking"]["cpu_limit"]


@pytest.mark.parametrize(
    ("file", "variable", "name"),
    [
        (".dockerenv", {}, "docker"),
        ("run/.containerenv", {}, "podman"),
        ("x", {"KUBERNETES_SERVICE_HOST": "1"}, "kubernetes"),
    ],
)
def test_containers(machine, monkeypatch, file, variable, name):
    for key, value in variable.items():
        monkeypatch.setenv(key, value)
    assert facts("cpu", machine({file: ""}))["container"] == name


def test_memory_that_is_bound_to_a_node(machine, monkeypatch):
    monkeypatch.setattr(environment, "_memory_policy", lambda: ("bind", [1]))
    found = facts("cpu", machine())
    assert (found["numa_policy"], found["memory_nodes"]) == ("bind", [1])


def test_a_kernel_that_refuses_to_tell_the_policy(machine, monkeypatch):
    def refuse():
        raise OSError(1, "Operation not permitted", "get_mempolicy")

    monkeypatch.setattr(environment, "_memory_policy", refuse)
    found = facts("cpu", machine())
    assert found["lacking"]["numa_policy"] == "get_mempolicy: Operation not permitted"
    assert found["process_nodes"] == [0, 1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(sorted(SERVER)), st.text(max_size=12), max_size=8))
def test_nothing_that_files_say_raises(machine, files):
    json.dumps(facts("cpu", machine(files)))


# --- the GPU


# Two GPUs. What is not here, the driver does not know.
TWO = {
    "SystemGetDriverVersion": "570.86.15",
    "DeviceGetCount": 2,
    "DeviceGetHandleByIndex": lambda index: f"handle {index}",
    "DeviceGetName": "NVIDIA H200",
    "DeviceGetUUID": lambda handle: handle.replace("handle ", "GPU-"),
    "DeviceGetMemoryInfo": SimpleNamespace(total=1 << 37),
    "DeviceGetCudaComputeCapability": (9, 0),
    "DeviceGetEnforcedPowerLimit": lambda handle: {"handle 0": 700_000, "handle 1": 500_000}[handle],
    "DeviceGetPowerManagementDefaultLimit": 700_000,
    "DeviceGetClockInfo": 1200,
    "DeviceGetMigMode": [0, 0],
    "DeviceGetPersistenceMode": 1,
    "DeviceGetApplicationsClock": lambda _, kind: {1: 1500, 2: 3201}[kind],
    "DeviceGetDefaultApplicationsClock": lambda _, kind: {1: 1980, 2: 3201}[kind],
    "DeviceGetCurrentClocksEventReasons": 0x2,
}


@pytest.fixture
def driver(put_driver):
    return lambda **answers: put_driver(Driver(**{**TWO, **answers}))


def test_the_facts_of_a_gpu(machine, driver):
    nvml = driver()
    root = machine()
    found = facts("cuda:1", root)
    assert {name: value for name, value in found.items() if name not in facts("cpu", root)} == {
        "driver": "570.86.15",
        "gpu": "NVIDIA H200",
        "gpu_uuid": "GPU-1",
        "power_limit_w": 500.0,
        "power_default_w": 700.0,
        "power_limits_w": [700.0, 500.0],
        "mig": False,
        "persistence": True,
        "application_sm_clock_hz": 1.5e9,
        "application_memory_clock_hz": 3.201e9,
        "default_sm_clock_hz": 1.98e9,
        "default_memory_clock_hz": 3.201e9,
        "clocks_chosen": True,
    }
    assert found["lacking"] == {}
    assert nvml.open == 0


def test_a_processor_has_no_gpu(machine, driver):
    driver()
    assert "driver" not in facts("cpu", machine())


def test_what_a_gpu_refuses(machine, driver):
    refused = NVMLError("Not Supported")
    nvml = driver(
        DeviceGetPowerManagementDefaultLimit=refused,
        DeviceGetMigMode=refused,
        DeviceGetCurrentClocksEventReasons=refused,
    )
    del nvml.answers["DeviceGetApplicationsClock"]
    found = facts("cuda", machine())
    assert found["lacking"] == {
        "power_default_w": "NVML: Not Supported",
        "mig": "the driver does not tell it",
        "application_sm_clock_hz": "NVML: this nvidia-ml-py does not know it",
        "application_memory_clock_hz": "NVML: this nvidia-ml-py does not know it",
        "clocks_chosen": "NVML: this nvidia-ml-py does not know it",
    }
    assert found["power_limit_w"] == 700.0


def test_a_gpu_that_is_not_there(machine, driver):
    driver()
    found = facts("cuda:7", machine())
    assert found["driver"] == "570.86.15"
    assert found["lacking"]["power_limit_w"] == "there is no GPU 7; NVML counts 2"


def test_no_driver(machine, driver):
    driver(Init=NVMLError("Driver Not Loaded"))
    found = facts("cuda", machine())
    assert found["lacking"]["driver"] == "NVML cannot be asked: Driver Not Loaded"
    assert "mig" not in found


def test_no_device_of_that_name(machine, driver):
    driver()
    assert "invalid literal" in facts("cuda:x", machine())["lacking"]["mig"]


# --- this machine


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_this_machine_is_told_quickly(device):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = facts(device)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.1
    assert found["usable_cpus"] == len(found["affinity"])
    assert not found["lacking"].keys() & found.keys()
    json.dumps(found)


def test_this_machine_has_a_policy_for_memory():
    found = facts("cpu")
    if "numa_policy" in found:
        assert found["numa_policy"] in environment._POLICIES
    else:
        refused = ("not permitted", "not implemented")
        known_here = platform.machine() in environment._GET_MEMPOLICY
        assert found["lacking"]["numa_policy"].endswith(refused if known_here else "is not known here")
