"""`aiperf ch03`: audits of made-up machines, and commands that run where they are bound."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aiperf_ch03 import container_audit, host_audit, numa_audit
from aiperf_ch03.bind import placement
from aiperf_ch03.cli import ch03
from aiperf_core.audit import Setting
from aiperf_core.errors import UsageError
from aiperf_core.testing import advised, made_up_machine


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch03, list(arguments), standalone_mode=False)


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         {}              {}              bytes
Max open files            {}                 1048576              files"""
THP = "sys/kernel/mm/transparent_hugepage"
TWO_NODES = {
    f"sys/devices/system/node/node{node}/{name}": text
    for node in (0, 1)
    for name, text in {
        "cpulist": f"{node}",
        "meminfo": f"Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 524288 kB",
        "distance": "10 21",
        "numastat": "numa_hit 900\nnuma_miss 100",
    }.items()
}
SLOW_HOST = {
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet",
    f"{THP}/enabled": "always madvise [never]",
    f"{THP}/defrag": "[always] defer defer+madvise madvise never",
    "proc/meminfo": "MemTotal: 100 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB",
    "proc/sys/vm/swappiness": "60",
    "proc/sys/vm/zone_reclaim_mode": "1",
    "proc/sys/kernel/numa_balancing": "1",
    "proc/sys/kernel/perf_event_paranoid": "4",
    "proc/interrupts": " CPU0 CPU1 CPU2\n 24: 5 900000 5 PCI nvme\nLOC: 9 9 9 timer",
    "proc/self/limits": LIMITS.format(8388608, 8388608, 1024),
    **TWO_NODES,
}


def test_a_host_in_which_everything_is_slow(tmp_path: Path) -> None:
    assert advised(host_audit.audit(made_up_machine(tmp_path, SLOW_HOST))) == {
        "clock source": "hpet",
        "transparent huge pages": "never",
        "defragmentation for huge pages": "always",
        "swap in use": "1 MiB of 2 MiB",
        "swappiness": "60",
        "NUMA balancing": "on",
        "zone reclaim": "on",
        "interrupts of devices": "900,010; CPU 1 took 100 %",
        "locked memory": "8 MiB",
        "open files": "1024",
        "performance counters": "4",
    }


def test_a_host_that_is_set_well_and_one_that_shows_nothing(tmp_path: Path) -> None:
    good = {
        **SLOW_HOST,
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
        f"{THP}/enabled": "always [madvise] never",
        f"{THP}/defrag": "always defer [defer+madvise] madvise never",
        "proc/meminfo": "MemTotal: 100 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB",
        "proc/sys/vm/zone_reclaim_mode": "0",
        "proc/sys/kernel/numa_balancing": "0",
        "proc/sys/kernel/perf_event_paranoid": "2",
        "proc/interrupts": " CPU0 CPU1 CPU2\n 24: 300000 300000 300000 PCI nvme",
        "proc/self/limits": LIMITS.format("unlimited", "unlimited", 1048576),
    }
    assert advised(host_audit.audit(made_up_machine(tmp_path / "good", good))) == {}
    assert advised(host_audit.audit(tmp_path / "empty")) == {}


def test_interrupts_of_timers_do_not_count() -> None:
    assert host_audit.interrupts_by_cpu("CPU0 CPU3\n 1: 2 3 x\nNMI: 7 7 y\n 20: 5 5 z") == {0: 7, 3: 8}
    assert host_audit.interrupts_by_cpu("") == {}


def test_nodes_their_devices_and_pages_meant_for_others(tmp_path: Path) -> None:
    devices = {
        "sys/bus/pci/devices/0000:01:00.0/class": "0x030200",
        "sys/bus/pci/devices/0000:01:00.0/numa_node": "1",
        "sys/bus/pci/devices/0000:02:00.0/class": "0x010802",
        "sys/bus/pci/devices/0000:02:00.0/numa_node": "-1",
        "sys/bus/pci/devices/0000:03:00.0/class": "0x060400",
    }
    status = {"proc/self/status": "Mems_allowed_list:\t0-1"}
    settings = numa_audit.audit(made_up_machine(tmp_path, {**TWO_NODES, **devices, **status}))
    values = {setting.name: setting.value for setting in settings}
    assert values["NUMA nodes"] == "2"
    assert values["node 1"] == "CPUs 1; 512 MiB of 1 GiB free"
    assert values["GPU 0000:01:00.0"] == "node 1"
    assert "0000:03:00.0" not in "".join(values)
    found = advised(settings)
    assert found.pop("NVMe 0000:02:00.0") == "node unknown"
    assert found.pop("pages of node 0 meant for others") == "10 %"
    if len(os.sched_getaffinity(0) & {0, 1}) == 2:
        assert values["nodes that this process may run on"] == "0, 1"
        assert "nodes that this process may run on" in found


def test_a_single_node_needs_no_advice(tmp_path: Path) -> None:
    one = {name: text for name, text in TWO_NODES.items() if "node0" in name}
    assert advised(numa_audit.audit(made_up_machine(tmp_path / "one", one))) == {}
    (only,) = numa_audit.audit(tmp_path / "none")
    assert only == Setting("NUMA nodes", "none shown", "/sys/devices/system/node")


CONTAINER = {
    ".dockerenv": "",
    "proc/self/cgroup": "0::/",
    "sys/fs/cgroup/cpu.max": "50000 100000",
    "sys/fs/cgroup/cpu.stat": "usage_usec 9\nnr_periods 100\nnr_throttled 30",
    "sys/fs/cgroup/memory.max": "1073741824",
    "sys/fs/cgroup/memory.current": "536870912",
    "sys/fs/cgroup/memory.events": "low 0\noom_kill 2",
    "sys/fs/cgroup/pids.max": "512",
    "proc/self/mountinfo": "1 0 0:1 / / rw,relatime - overlay overlay rw,lowerdir=a\n"
    "2 1 0:2 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k",
    "proc/self/status": "CapEff:\t0000000000000000\nSeccomp:\t2",
    "proc/driver/nvidia/gpus/0000:01:00.0/information": "",
    "proc/driver/nvidia/gpus/0000:02:00.0/information": "",
    "dev/nvidia1": "",
    "dev/nvidiactl": "",
}


def test_a_container_with_every_limit(tmp_path: Path) -> None:
    settings = container_audit.audit(made_up_machine(tmp_path, CONTAINER), {"CUDA_VISIBLE_DEVICES": ""})
    values = {setting.name: setting.value for setting in settings}
    assert values["container"] in ("docker", "kubernetes")
    assert values["memory limit"] == "1 GiB; 512 MiB in use, page cache included"
    assert values["capabilities lacking"] == "CAP_IPC_LOCK, CAP_SYS_NICE"
    assert values["CUDA_VISIBLE_DEVICES"] == "(empty: no GPU)"
    found = advised(settings)
    assert found == {
        "CPU limit": "0.5 CPUs",
        "periods that were throttled": "30 of 100 (30 %)",
        "processes killed for memory": "2",
        "process limit": "512",
        "/dev/shm": "64 MiB",
        "root file system": "overlay",
        "filter of system calls": "on",
        "GPUs": "1 of 2",
        "driver library": "missing",
    }
    (limit,) = (setting for setting in settings if setting.name == "CPU limit")
    assert "Set OMP_NUM_THREADS=1," in limit.advice


def test_a_container_without_limits(tmp_path: Path) -> None:
    free = {
        "proc/self/cgroup": "0::/",
        "sys/fs/cgroup/cpu.max": "max 100000",
        "sys/fs/cgroup/memory.max": "max",
        "sys/fs/cgroup/pids.max": "max",
        "proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / /dev/shm rw - tmpfs tmpfs rw",
        "proc/self/status": "CapEff:\t000001ffffffffff\nSeccomp:\t0",
    }
    settings = container_audit.audit(made_up_machine(tmp_path, free), {})
    assert advised(settings) == {}
    assert {setting.name: setting.value for setting in settings}["/dev/shm"] == "half of the memory"


@pytest.mark.parametrize("name", ["host-audit", "numa-audit", "container-audit"])
def test_audits_of_this_machine(name: str) -> None:
    found = json.loads(invoke(name, "--json").output)["settings"]
    assert found
    assert all(set(setting) == {"name", "value", "source", "advice"} for setting in found)


def bound(*options: str, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aiperf_core", "ch03", "bind", *options, "--", sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_command_runs_where_it_is_bound() -> None:
    cpu = max(os.sched_getaffinity(0))
    policy = "print(open('/proc/self/numa_maps').readline().split()[1])"
    ended = bound("--cpus", str(cpu), code=f"import os; print(*os.sched_getaffinity(0)); {policy}; exit(7)")
    assert (ended.returncode, ended.stderr) == (7, "")
    assert ended.stdout.split() == [str(cpu), "local"]
    if numa_audit.node_cpus():
        assert bound("--node", "0", code=policy).stdout == "bind:0\n"


def test_a_placement_that_is_not_there(tmp_path: Path) -> None:
    made_up_machine(tmp_path, TWO_NODES)
    usable = sorted(os.sched_getaffinity(0))
    listed = ", ".join(map(str, usable))
    cases = {
        (None, None, None): "'bind' was not told where to run; give --node N, --cpus LIST, or both",
        (7, None, None): "--node 7 is not a node of this machine; accepted are 0, 1",
        (None, "x", None): "--cpus 'x' is not a list of CPUs; accepted is a form such as 0-3,8",
        (None, "4095", None): f"CPUs 4095 cannot be used by this process; accepted are {listed}",
        (None, listed, "bind"): "--memory bind needs a node; add --node N, one of 0, 1",
    }
    for options, message in cases.items():
        with pytest.raises(UsageError) as caught:
            placement(*options, tmp_path)
        assert str(caught.value) == message


def test_what_a_placement_says(tmp_path: Path) -> None:
    made_up_machine(tmp_path, TWO_NODES)
    cpu = min(os.sched_getaffinity(0))
    assert str(placement(None, str(cpu), None, tmp_path)) == f"CPUs {cpu}; memory: local"
    assert str(placement(1, str(cpu), None, tmp_path)) == f"CPUs {cpu}; memory: bind nodes 1"
    assert str(placement(None, str(cpu), "interleave", tmp_path)) == f"CPUs {cpu}; memory: interleave nodes 0, 1"


def test_a_command_that_is_not_there_is_refused() -> None:
    result = invoke("bind", "--cpus", str(min(os.sched_getaffinity(0))), "--", "no-such-program")
    assert str(result.exception) == (
        "'no-such-program' is not a command that can be run; give a program in PATH or a path to one"
    )
