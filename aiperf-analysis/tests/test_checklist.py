"""The checklist: the quality of its items, its probes on made-up machines, and the status that results give."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_analysis.advice import items, probes, proof
from aiperf_analysis.advice.checklist import checklist
from aiperf_analysis.advice.probes import Seen, answer
from aiperf_analysis.advice.probes import host as host_probes
from aiperf_analysis.selection import Selection, select
from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Machine, Manifest, TargetResult, Verdict

PLUGINS = load_plugins()
ITEMS = [item for topic in items.topics() for item in topic.items]
TOPICS = ["mindset", "reproducibility", "architecture", "host", "cuda", "distributed", "inference", "power",
          "profiling", "hardware"]  # fmt: skip
HERE = example.manifest().machine
ELSEWHERE = evolve(HERE, gpus=[{"index": 0, "name": "NVIDIA B200"}])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(Shell(PLUGINS), ["checklist", *map(str, arguments)])


def stored(folder: Path, result: TargetResult, created: str = "2026-11-21T14:25:30+00:00", **changes: Any) -> Bundle:
    manifest: Manifest = evolve(example.manifest(), created=created, **changes)
    bundle = Bundle.create_at(folder)
    bundle.write_target(result)
    bundle.write_manifest(manifest)
    return bundle


# --- items


def test_ten_topics_of_similar_length() -> None:
    assert [topic.name for topic in items.topics()] == TOPICS
    assert len(ITEMS) >= 175
    assert all(18 <= len(topic.items) <= 30 for topic in items.topics())


def test_every_item_is_whole() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", item.id), item.id
        assert item.sentence.endswith("."), item.id
        assert 30 <= len(item.sentence) <= 220, item.id
        assert 5 <= len(item.condition) <= 80, item.id
        assert not item.condition.endswith("."), item.id
        assert len(set(item.targets)) == len(item.targets) <= 3, item.id


def test_probes_and_items_name_each_other() -> None:
    named = [item.probe for item in ITEMS if item.automatic]
    assert len(set(named)) >= 25
    assert sorted(named) == sorted(probes.PROBES), "each probe answers one item"


def test_every_target_exists_where_its_package_is_installed(known_targets: set[str]) -> None:
    groups = {name.partition(".")[0] for name in known_targets}
    named = {target for item in ITEMS for target in item.targets}
    assert groups >= {target.partition(".")[0] for target in named}, "the tests run with every package installed"
    assert named <= known_targets


def test_the_checklist_sends_readers_to_most_targets(known_targets: set[str]) -> None:
    targets = {name for name in known_targets if not name.startswith("practice.")}
    named = {target for item in ITEMS for target in item.targets}
    assert len(named & targets) >= 0.8 * len(targets), sorted(targets - named)


def common(one: str, other: str) -> float:
    """The part of the words of two sentences that both have."""
    first, second = (set(re.findall(r"[a-z0-9]+", text.lower())) for text in (one, other))
    return len(first & second) / len(first | second)


def test_no_two_items_say_the_same() -> None:
    near = [(one.id, other.id) for one, other in combinations(ITEMS, 2) if common(one.sentence, other.sentence) > 0.45]
    assert near == []
    assert common("Set the governor to performance.", "Set the governor to performance!") == 1


# --- probes


BOARD = {
    "index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "memory_bytes": 141 << 30, "power_limit_w": 700.0,
    "power_default_w": 700.0, "memory_clock_hz": 3.2e9, "memory_clock_max_hz": 3.2e9, "temperature_c": 60,
    "slowdown_c": 90, "mig": False, "persistence": True, "ecc": True, "bus": "00000000:41:00.0", "pcie_width": 16,
    "pcie_width_max": 16, "pcie_generation": 5, "pcie_generation_max": 5, "performance_state": 0,
    "nvlinks": [True] * 18, "bar1_bytes": 256 << 30, "remapped_rows": (0, 0, 0, 0), "throttled": (), "busy": 0.0,
}  # fmt: skip
FACTS = {
    "governors": ["performance"], "turbo": True, "cpu_limit": None, "memory_limit_bytes": None,
    "memory_bytes": 512 << 30, "swap_total_bytes": 1 << 30, "swap_used_bytes": 0, "swappiness": 1,
    "transparent_huge_pages": "madvise", "numa_nodes": {"0": [0], "1": [1]}, "process_nodes": [0],
    "memory_nodes": [0], "hypervisor": "", "load_average": [1.0, 1.0, 1.0], "usable_cpus": 16,
    "clocks_chosen": True, "application_sm_clock_hz": 1.98e9, "default_sm_clock_hz": 1.98e9,
    "application_memory_clock_hz": 3.2e9, "default_memory_clock_hz": 3.2e9,
}  # fmt: skip


def machine(*, boards: int = 1, root: Path = Path("/nowhere"), environ: dict[str, str] | None = None,
         facts: dict[str, Any] | None = None, cuda: str = "13.0", version: str = "2.9.0", **board: Any
         ) -> Seen:  # fmt: skip
    return Seen(
        facts=FACTS | (facts or {}),
        boards=tuple({**BOARD, **board, "index": index} for index in range(boards)),
        cuda=cuda,
        environ=environ or {},
        version_of=lambda _: version,
        root=root,
    )


# Each probe on facts with which it does not hold, and what it then says.
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("cpu.governor", {"facts": {"governors": ["powersave"]}}, "governor powersave"),
    ("cpu.turbo", {"facts": {"turbo": False}}, "turbo clocks are off"),
    ("cpu.quota", {"facts": {"cpu_limit": 2.5}}, "the CPU quota is 2.5 processors"),
    ("memory.limit", {"facts": {"memory_limit_bytes": 1 << 30}}, "the limit is 1 GiB of 512 GiB"),
    ("memory.swap", {"facts": {"swap_used_bytes": 1 << 20}}, "1 MiB of 1 GiB swap are used"),
    ("memory.swappiness", {"facts": {"swappiness": 60}}, "vm.swappiness is 60"),
    ("memory.huge_pages", {"facts": {"transparent_huge_pages": "never"}}, "transparent huge pages: never"),
    ("memory.numa_binding", {"facts": {"memory_nodes": [0, 1]}},
     "processors of nodes 0, memory of nodes 0, 1"),
    ("host.hypervisor", {"facts": {"hypervisor": "KVM"}}, "hypervisor KVM"),
    ("host.quiet", {"facts": {"load_average": [4.0, 1, 1]}}, "load 4.00 over a minute on 16 processors"),
    ("host.memory_ratio", {"facts": {"memory_bytes": 64 << 30}}, "64 GiB host memory, 141 GiB of all GPUs"),
    ("gpu.persistence", {"persistence": False}, "GPU 0: persistence off"),
    ("gpu.ecc", {"ecc": False}, "GPU 0: ecc off"),
    ("gpu.mig", {"mig": True}, "GPU 0: mig on"),
    ("gpu.pcie_width", {"pcie_width": 8, "boards": 2}, "GPU 0,1: 8 of 16 lanes"),
    ("gpu.pcie_generation", {"pcie_generation": 4}, "GPU 0: generation 4 of 5"),
    ("gpu.nvlinks", {"nvlinks": [True, False]}, "GPU 0: 1 of 2 links active"),
    ("gpu.bar1", {"bar1_bytes": 256 << 20}, "GPU 0: BAR1 256 MiB, memory 141 GiB"),
    ("gpu.power_limit", {"power_limit_w": 500.0}, "GPU 0: limit 500 W, by default 700 W"),
    ("gpu.throttle", {"throttled": ("hw_thermal_slowdown",)}, "GPU 0: hw_thermal_slowdown"),
    ("gpu.temperature", {"temperature_c": 85}, "GPU 0: 85 degrees, slowdown at 90"),
    ("gpu.clocks_held", {"facts": {"clocks_chosen": False}}, "the clocks are free"),
    ("gpu.application_clocks", {"facts": {"application_sm_clock_hz": 1.2e9}},
     "sm clock 1200 MHz, by default 1980 MHz"),
    ("gpu.memory_clock", {"memory_clock_hz": 1.6e9}, "GPU 0: 1600 of 3200 MHz"),
    ("gpu.remapped_rows", {"remapped_rows": (0, 1, 1, 0)}, "GPU 0: remapping pending"),
    ("gpu.others_idle", {"boards": 2, "busy": 0.5}, "GPU 0,1: busy 50 % of the time"),
    ("env.hash_seed", {}, "PYTHONHASHSEED is not set"),
    ("env.cublas_workspace", {}, "CUBLAS_WORKSPACE_CONFIG is not set"),
    ("env.alloc_conf", {}, "PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF are not set"),
    ("env.visible_devices", {"boards": 2}, "not set"),
    ("env.launch_blocking", {"environ": {"CUDA_LAUNCH_BLOCKING": "1"}}, "CUDA_LAUNCH_BLOCKING=1"),
    ("env.module_loading", {"environ": {"CUDA_MODULE_LOADING": "EAGER"}}, "CUDA_MODULE_LOADING=EAGER"),
    ("env.nccl_debug", {"environ": {"NCCL_DEBUG": "info"}}, "NCCL_DEBUG=info"),
    ("env.nccl_p2p", {"environ": {"NCCL_P2P_DISABLE": "1"}}, "NCCL_P2P_DISABLE=1"),
    ("env.nccl_ib", {"environ": {"NCCL_IB_DISABLE": "1"}}, "NCCL_IB_DISABLE=1"),
    ("env.nccl_shm", {"environ": {"NCCL_SHM_DISABLE": "1"}}, "NCCL_SHM_DISABLE=1"),
    ("env.nccl_forced", {"environ": {"NCCL_ALGO": "Ring"}}, "NCCL_ALGO=Ring"),
    ("env.distributed_debug", {"environ": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}}, "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    ("env.torch_debug", {"environ": {"TORCH_LOGS": "+all"}}, "TORCH_LOGS=+all"),
    ("env.python_debug", {"environ": {"PYTHONDEVMODE": "1"}}, "PYTHONDEVMODE=1"),
    ("env.allocator", {}, "the allocator of the system"),
    ("env.omp_threads", {"environ": {"OMP_NUM_THREADS": "64"}}, "OMP_NUM_THREADS=64 on 16 usable processors"),
    ("env.omp_binding", {"environ": {"OMP_PROC_BIND": "false"}},
     "OMP_PROC_BIND, GOMP_CPU_AFFINITY, KMP_AFFINITY are not set"),
    ("torch.version", {"version": "2.4.1"}, "torch 2.4.1"),
    ("triton.installed", {"version": ""}, "triton is not installed"),
    ("nvrtc.installed", {"version": ""}, "nvidia-cuda-nvrtc is not installed"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "found"), BAD, ids=[one[0] for one in BAD])
def test_does_not_hold(name: str, changes: dict[str, Any], found: str) -> None:
    assert answer(name, machine(**changes)) == probes.Answer("does not hold", found)


GOOD_ENVIRONMENT = {
    "PYTHONHASHSEED": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "CUDA_VISIBLE_DEVICES": "0,1",
    "PYTORCH_ALLOC_CONF": "expandable_segments:True", "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
    "OMP_NUM_THREADS": "8", "OMP_PROC_BIND": "close",
}  # fmt: skip


@pytest.mark.parametrize("name", [one[0] for one in BAD])
def test_holds(name: str) -> None:
    assert answer(name, machine(boards=2, environ=GOOD_ENVIRONMENT, facts={"memory_bytes": 1 << 40})
                  ).outcome == "holds"  # fmt: skip


@pytest.mark.parametrize("name", [name for name in probes.PROBES if name.startswith(("gpu.", "env.nccl"))])
def test_without_a_gpu_nothing_passes(name: str) -> None:
    found = answer(name, machine(boards=0))
    assert found == probes.Answer("not applicable", "not applicable here: no GPU")


@pytest.mark.parametrize("name", ["gpu.ecc", "gpu.pcie_width", "gpu.power_limit", "gpu.temperature", "gpu.throttle"])
def test_what_the_driver_does_not_tell_is_unknown(name: str) -> None:
    silent = dict.fromkeys(BOARD)
    assert answer(name, Seen(boards=({**silent, "index": 0},))).outcome == "unknown"


def test_a_resting_link_is_no_defect() -> None:
    assert answer("gpu.pcie_generation", machine(pcie_generation=1, performance_state=8)).outcome == "unknown"


def test_a_lacking_fact_is_unknown_with_its_reason() -> None:
    seen = Seen(facts={"lacking": {"governors": "this machine's cpufreq has no scaling_governor"}})
    assert answer("cpu.governor", seen) == probes.Answer("unknown", "this machine's cpufreq has no scaling_governor")


FILES: list[tuple[str, dict[str, str], str, str]] = [
    ("host.clock_source", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
     "does not hold", "clock source hpet"),
    ("host.clock_source", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc"},
     "holds", "clock source tsc"),
    ("host.perf_rights", {"proc/sys/kernel/perf_event_paranoid": "4"}, "does not hold",
     "kernel.perf_event_paranoid is 4"),
    ("memory.numa_balancing", {"proc/sys/kernel/numa_balancing": "1"}, "does not hold",
     "kernel.numa_balancing is 1"),
    ("pcie.aspm", {"sys/module/pcie_aspm/parameters/policy": "default [performance] powersave"}, "holds",
     "PCIe power saving: performance"),
    ("pcie.iommu", {"sys/class/iommu/dmar0/x": "", "proc/cmdline": "quiet"}, "does not hold",
     "an IOMMU is active, and translates for the host"),
    ("pcie.iommu", {"sys/class/iommu/dmar0/x": "", "proc/cmdline": "quiet iommu=pt"}, "holds",
     "an IOMMU is active, passed through"),
    ("disk.scheduler", {"sys/block/nvme0n1/queue/scheduler": "[mq-deadline] none"}, "does not hold",
     "nvme0n1: mq-deadline"),
    ("disk.scheduler", {"sys/block/nvme0n1/queue/scheduler": "[none] bfq"}, "holds",
     "no scheduler on 1 NVMe disks"),
    ("net.mtu", {"sys/class/net/eth0/operstate": "up", "sys/class/net/eth0/mtu": "1500"}, "does not hold",
     "MTU: eth0 1500"),
    ("net.buffers", {"proc/sys/net/core/rmem_max": "212992", "proc/sys/net/core/wmem_max": "33554432"},
     "does not hold", "rmem_max 208 KiB, wmem_max 32 MiB"),
    ("net.infiniband", {"sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN",
                        "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)"},
     "does not hold", "not active: mlx5_0/1"),
    ("net.gpudirect", {"sys/class/infiniband/mlx5_0/x": "", "sys/module/nvidia_peermem/x": ""}, "holds",
     "nvidia_peermem is loaded"),
    ("gpu.counter_rights", {"proc/driver/nvidia/params": "RmProfilingAdminOnly: 1"}, "does not hold",
     "counters are for administrators"),
    ("gpu.numa", {"sys/bus/pci/devices/0000:41:00.0/numa_node": "1"}, "does not hold",
     "the process runs on nodes 0; GPU 0: node 1"),
    ("cpu.matrix_units", {"proc/cpuinfo": "flags : sse2 avx512f amx_tile"}, "holds", "avx512f, amx_tile"),
    ("env.nccl_interface", {"sys/class/net/eth0/operstate": "up", "sys/class/net/eth1/operstate": "up"},
     "does not hold", "not set; interfaces: eth0, eth1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "outcome", "found"), FILES)
def test_files_of_the_kernel(name: str, files: dict[str, str], outcome: str, found: str, tmp_path: Path) -> None:
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert answer(name, machine(root=tmp_path)) == probes.Answer(outcome, found)  # type: ignore[arg-type]


def test_every_probe_was_seen_to_fail_or_needs_this_machine() -> None:
    tested = {one[0] for one in BAD} | {one[0] for one in FILES}
    of_process = {"process.locked_memory", "process.open_files", "container.shared_memory", "host.compiler",
                  "host.rapl", "tool.nsys", "tool.ncu", "tool.perf", "git.clean", "gpu.driver_for_torch",
                  "gpu.power_limits_equal"}  # fmt: skip
    assert set(probes.PROBES) == tested | of_process


def test_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_probes.resource, "getrlimit", lambda _: (1024, 1024))
    assert answer("process.open_files", machine()).found == "ulimit -n is 1,024"
    assert answer("process.locked_memory", machine()) == probes.Answer("does not hold", "ulimit -l is 1 KiB")
    monkeypatch.setattr(host_probes.resource, "getrlimit", lambda _: (host_probes.resource.RLIM_INFINITY,) * 2)
    assert answer("process.locked_memory", machine()).outcome == "holds"
    monkeypatch.setattr(host_probes.programs, "find", lambda _: None)
    assert answer("tool.perf", machine()) == probes.Answer("does not hold", "perf is not installed")


def test_unequal_power_limits() -> None:
    boards = tuple({**BOARD, "index": index, "power_limit_w": 700.0 - 200 * index} for index in range(2))
    found = answer("gpu.power_limits_equal", Seen(boards=boards))
    assert found == probes.Answer("does not hold", "GPU 0: 700 W; GPU 1: 500 W")


@pytest.mark.parametrize(("built", "outcome"), [("12.8", "holds"), ("14.0", "does not hold"), ("", "does not hold")])
def test_driver_for_torch(built: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiperf_analysis.advice.probes.software.torch_cuda", lambda: built)
    assert answer("gpu.driver_for_torch", machine()).outcome == outcome


# --- status


def one(selection: Selection, here: Machine, item: str) -> dict[str, Any]:
    result = checklist(selection, here)
    return next(row.cells for table in result.tables[1:] for row in table.records if row.cells["item"] == item)


def test_proven_here_elsewhere_and_unproven(tmp_path: Path) -> None:
    stored(tmp_path / "run", example.result())
    selection = select([str(tmp_path)])
    here = one(selection, HERE, "coalesced-access")
    assert (here["status"], here["row"]) == ("proven here", "ch07.memory_access:wide")
    assert (here["gain"].value, here["gain"].low < here["gain"].value < here["gain"].high) == (8.671, True)
    assert one(selection, ELSEWHERE, "coalesced-access")["status"] == "elsewhere"
    assert one(selection, HERE, "wide-access")["status"] == "unproven"
    assert one(selection, HERE, "governor")["status"] == "unproven"


def test_a_row_that_is_not_believed_proves_nothing(tmp_path: Path) -> None:
    dropped = {"coalesced", "wide"}
    rows = [row for row in example.rows() if row.name not in dropped]
    assert Verdict.INVALID in {row.verdict for row in rows}
    order = [name for name in example.result().order if name not in dropped]
    stored(tmp_path / "run", evolve(example.result(), rows=rows, order=order))
    assert one(select([str(tmp_path)]), HERE, "coalesced-access")["status"] == "unproven"


def test_the_newest_run_decides_not_the_best(tmp_path: Path) -> None:
    stored(tmp_path / "old", example.result())
    rows = [
        row if row.verdict is not Verdict.FASTER else evolve(row, verdict=Verdict.SAME, speedup=example.estimate(1.0))
        for row in example.rows()
    ]
    stored(tmp_path / "new", evolve(example.result(), rows=rows), created="2026-11-22T14:25:30+00:00")
    assert one(select([str(tmp_path)]), HERE, "coalesced-access")["status"] == "unproven"


def test_an_item_without_targets_says_so() -> None:
    found = proof.proof((), [], HERE)
    assert (found.status, found.gain.reason) == ("unproven", "no target of this repository measures it")


# --- the command


def test_the_list(tmp_path: Path) -> None:
    stored(tmp_path / "runs" / "one", example.result())
    result = run("--in", tmp_path / "runs", "--topic", "cuda", "--search", "WARP of float32")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        "Checklist of performance engineering\n1 item in 1 topic: 0 proven here, 1 elsewhere, 0 unproven.\n"
    )
    assert "coalesced-access" in result.stdout
    assert "ch07.memory_access:wide" in result.stdout


def test_a_folder_without_bundles_proves_nothing(tmp_path: Path) -> None:
    result = run("--in", tmp_path / "none", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["summary"][0] == (
        f"{len(ITEMS)} items in 10 topics: 0 proven here, 0 elsewhere, {len(ITEMS)} unproven."
    )
    assert len(found["tables"]) == 11


def test_check_lists_answers_of_this_machine(tmp_path: Path) -> None:
    result = run("--in", tmp_path, "--check", "--json")
    found = json.loads(result.stdout)
    answers = {
        row["cells"]["item"]: row["cells"]["outcome"] for table in found["tables"][1:] for row in table["records"]
    }
    assert result.exit_code == 0
    assert len(answers) == len(probes.PROBES)
    assert set(answers.values()) <= {"holds", "does not hold", "not applicable", "unknown"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topic", "cudda"), "'cudda' is not a topic of the checklist. Did you mean 'cuda'? Topics: " + ", ".join(TOPICS)
         + "."),
        (("--topic", "power", "--search", "no such words"),
         "no item of the topic 'power' contains 'no such words'. Give fewer or other words."),
        (("--out", "list.txt"), "'list.txt' has no known ending; --out takes a name that ends in .json, .csv, .html, .md, "
         ".parquet, .svg, .png, .pdf."),
    ],
)  # fmt: skip
def test_bad_input(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"aiperf: {message}\n")


def test_a_page(tmp_path: Path) -> None:
    file = tmp_path / "list.html"
    assert run("--in", tmp_path / "none", "--out", file).exit_code == 0
    text = file.read_text()
    assert all(item.id in text for item in ITEMS)
