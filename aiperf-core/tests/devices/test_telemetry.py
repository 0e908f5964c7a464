import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_driver import Driver, NVMLError

from aiperf_core.devices import cpu_telemetry, gpu_telemetry, rapl
from aiperf_core.devices.cpu_telemetry import CpuTelemetry
from aiperf_core.devices.gpu_telemetry import REASONS, GpuTelemetry, find, reasons
from aiperf_core.devices.nvml import Nvml
from aiperf_core.devices.rapl import Rapl, wrapped_difference
from aiperf_core.devices.telemetry import open_telemetry, waiting_s


class Gpus(Driver):
    """GPUs `gpu0`, `gpu1` …, each perhaps split."""

    def __init__(self, *, uuids=("GPU-aaaa-1",), names=None, split=None, **answers):
        self.uuids = {f"gpu{index}": uuid for index, uuid in enumerate(uuids)}
        self.names = names or ["NVIDIA H200"] * len(uuids)
        self.split = split or {}  # of a GPU, the UUIDs of its instances
        of_all = {
            "DeviceGetCount": len(uuids),
            "DeviceGetHandleByIndex": lambda index: f"gpu{index}",
            "DeviceGetUUID": self._uuid,
            "DeviceGetName": lambda gpu: self.names[int(gpu[3:])],
            "DeviceGetMigMode": lambda gpu: [int(gpu in self.split), 0],
            "DeviceGetMaxMigDeviceCount": 7,
            "DeviceGetMigDeviceHandleByIndex": self._instance,
            "DeviceGetGpuInstanceId": 7,
            "DeviceGetComputeInstanceId": 0,
            "DeviceGetClockInfo": lambda gpu, kind: {1: 1980, 2: 3201}[kind],
            "DeviceGetTemperature": 41,
            "DeviceGetPowerUsage": 512_500,
            "DeviceGetTotalEnergyConsumption": 7_000_250,
            "DeviceGetCurrentClocksEventReasons": 0x4,
            "DeviceGetComputeRunningProcesses": [SimpleNamespace(pid=10), SimpleNamespace(pid=99)],
        }
        super().__init__(**{**of_all, **answers})

    def _uuid(self, handle):
        return self.uuids.get(handle, handle) if isinstance(handle, str) else "GPU-pointer"

    def _instance(self, gpu, index):
        if index >= len(self.split[gpu]):
            raise NVMLError("Not Found", 6)
        return self.split[gpu][index]


@pytest.fixture
def install(put_driver):
    return lambda **arguments: put_driver(Gpus(**arguments))


# --- the GPU


def test_a_reading_of_a_gpu_is_in_si_units(install):
    nvml = install()
    telemetry = open_telemetry("cuda")
    before = time.monotonic()
    reading = telemetry.read([10, 11])
    assert before <= reading.at_s <= time.monotonic()
    assert (reading.sm_clock_hz, reading.memory_clock_hz) == (1.98e9, 3.201e9)
    assert (reading.temperature_c, reading.power_w, reading.energy_j) == (41.0, 512.5, 7000.25)
    assert reading.throttled is not None
    assert reading.throttled[0] == "sw_power_cap"
    assert reading.other_pids == (99,)
    assert not set(gpu_telemetry._GPU_FIGURES) & telemetry.lacking.keys()
    telemetry.close()
    assert nvml.times("Init") == nvml.times("Shutdown") == 1
    assert all("Get" in name for name, *_ in nvml.asked if name not in ("Init", "Shutdown"))


def test_nothing_is_asked_of_a_closed_driver(install):
    nvml = install()
    telemetry = open_telemetry("cuda")
    telemetry.close()
    telemetry.close()
    asked = len(nvml.asked)
    reading = telemetry.read()
    assert (reading.sm_clock_hz, reading.energy_j, reading.throttled) == (None, None, None)
    assert len(nvml.asked) == asked


def test_a_light_reading_asks_for_clocks_and_throttling_only(install):
    nvml = install()
    telemetry = open_telemetry("cuda")
    nvml.asked.clear()
    reading = telemetry.read([10], light=True)
    assert {name for name, *_ in nvml.asked} == {"DeviceGetClockInfo", "DeviceGetCurrentClocksEventReasons"}
    assert (reading.sm_clock_hz, reading.memory_clock_hz) == (1.98e9, 3.201e9)
    assert (reading.temperature_c, reading.power_w, reading.energy_j, reading.other_pids) == (None,) * 4


def test_what_a_gpu_refuses_for_good_is_asked_once_and_its_reason_kept(install):
    nvml = install(DeviceGetPowerUsage=NVMLError("Insufficient Permissions", 4))
    telemetry = open_telemetry("cuda")
    assert [telemetry.read().power_w for _ in range(3)] == [None] * 3
    assert nvml.times("DeviceGetPowerUsage") == 1
    assert telemetry.lacking["power_w"] == "NVML: Insufficient Permissions"


def test_handles_are_pointers_as_the_library_gives_them(install):
    boards = [ctypes.c_int(0), ctypes.c_int(1)]

    def power(handle):
        if handle.contents.value == 0:
            raise NVMLError
        return 100_000

    nvml = install(DeviceGetHandleByIndex=lambda index: ctypes.pointer(boards[index]), DeviceGetPowerUsage=power)
    nvml.answers |= {"DeviceGetMigMode": NVMLError(), "DeviceGetName": "NVIDIA H200", "DeviceGetCount": 2}
    asked = Nvml(nvml)
    # A pointer is made anew at each call; what one board refuses, the other may answer.
    for _ in range(3):
        assert asked.ask("nvmlDeviceGetPowerUsage", find(asked, 0)[0]) is None
        assert asked.ask("nvmlDeviceGetPowerUsage", find(asked, 1)[0]) == 100_000
    assert nvml.times("DeviceGetPowerUsage") == 4
    assert Nvml(nvml).ask("nvmlDeviceGetUUID", ctypes.POINTER(ctypes.c_int)()) is not None
    telemetry = open_telemetry("cuda")
    assert telemetry.read().power_w is None
    assert telemetry.read().sm_clock_hz == 1.98e9


def test_what_a_gpu_refuses_for_a_moment_is_asked_again(install):
    nvml = install(DeviceGetTotalEnergyConsumption=NVMLError("Timeout", 10))
    telemetry = open_telemetry("cuda")
    assert telemetry.energy_j() is None
    nvml.answers["DeviceGetTotalEnergyConsumption"] = 5000
    assert telemetry.energy_j() == 5.0


def test_one_clock_that_is_refused_does_not_take_the_other_along(install):
    def clock(gpu, kind):
        if kind == 2:
            raise NVMLError
        return 1980

    install(DeviceGetClockInfo=clock)
    telemetry = open_telemetry("cuda")
    for _ in range(2):
        assert (telemetry.read().sm_clock_hz, telemetry.read().memory_clock_hz) == (1.98e9, None)
    assert telemetry.lacking["memory_clock_hz"] == "NVML: Not Supported"


def test_old_names_of_functions_are_known(install):
    old = NVMLError("Function Not Found", 13)
    nvml = install(DeviceGetCurrentClocksEventReasons=old, DeviceGetCurrentClocksThrottleReasons=0x20)
    assert open_telemetry("cuda").read().throttled == ("sw_thermal_slowdown",)
    nvml.answers["DeviceGetTemperatureV"] = 50
    assert open_telemetry("cuda").read().temperature_c == 50.0


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ()),
        (0x1, ()),  # idle is no throttling
        (0x5, ("sw_power_cap",)),
        (0x48, ("hw_slowdown", "hw_thermal_slowdown")),
        (0x7FE, tuple(REASONS.values())[1:]),
        (0x1000_0000, ("reason_0x10000000",)),
    ],
)
def test_reasons_of_throttling(mask, names):
    assert reasons(mask) == names


def test_reasons_are_those_of_the_library():
    pynvml = pytest.importorskip("pynvml")
    bits = {
        bit for name, bit in vars(pynvml).items() if name.startswith(("nvmlClocksEventReason", "nvmlClocksThrottle"))
    }
    assert {bit for bit in bits if bit.bit_count() == 1} == REASONS.keys()


@given(st.integers(0, 2**64 - 1))
def test_no_reason_is_dropped_but_idle(mask):
    assert len(reasons(mask)) == (mask & ~1).bit_count()
    assert len(set(reasons(mask))) == len(reasons(mask))


@pytest.mark.parametrize("listed", [[], [4_000_001]])
def test_processes_of_another_namespace_are_no_evidence(install, listed):
    install(DeviceGetComputeRunningProcesses=[SimpleNamespace(pid=pid) for pid in listed])
    telemetry = open_telemetry("cuda")
    assert telemetry.read([10, 11]).other_pids is None
    assert telemetry.lacking["other_pids"] == (
        "the driver lists no process of this run: its pids are of another namespace"
    )


def test_alone_on_the_gpu(install):
    install(DeviceGetComputeRunningProcesses=[SimpleNamespace(pid=10)])
    telemetry = open_telemetry("cuda")
    assert telemetry.read([]).other_pids is None
    assert telemetry.read([10, 11]).other_pids == ()
    assert "other_pids" not in telemetry.lacking


def test_without_a_driver_every_figure_of_the_gpu_has_a_reason(install):
    install(Init=NVMLError("Driver Not Loaded", 9))
    telemetry = open_telemetry("cuda")
    reading = telemetry.read()
    for name in gpu_telemetry._GPU_FIGURES:
        assert getattr(reading, name) is None
        assert telemetry.lacking[name] == "NVML cannot be asked: Driver Not Loaded"
    telemetry.close()


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_telemetry("cuda").lacking["power_w"] == "NVML cannot be asked: nvidia-ml-py is not installed"


TWO = {"uuids": ("GPU-aaaa-1", "GPU-aabb-2")}


@pytest.mark.parametrize(
    ("visible", "ordinal", "gpu"),
    [
        (None, 0, "gpu0"),
        (None, 1, "gpu1"),
        ("1", 0, "gpu1"),
        ("1,0", 1, "gpu0"),
        (" 1 , 0 ", 0, "gpu1"),
        ("GPU-aabb", 0, "gpu1"),
        ("GPU-aabb-2,0", 0, "gpu1"),
        ("0,-1,1", 0, "gpu0"),
    ],
)
def test_the_gpu_is_the_one_that_cuda_takes(install, monkeypatch, visible, ordinal, gpu):
    nvml = install(**TWO)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert find(Nvml(nvml), ordinal) == (gpu, None)
    open_telemetry(f"cuda:{ordinal}").read()
    assert ("DeviceGetPowerUsage", gpu) in nvml.asked


@pytest.mark.parametrize(
    ("visible", "ordinal", "reason"),
    [
        ("", 0, "CUDA_VISIBLE_DEVICES='' shows no device 0"),
        ("-1", 0, "CUDA_VISIBLE_DEVICES='-1' shows no device 0"),
        ("0,-1,1", 1, "CUDA_VISIBLE_DEVICES='0,-1,1' shows no device 1"),
        ("0", 1, "CUDA_VISIBLE_DEVICES='0' shows no device 1"),
        ("2", 0, "there is no GPU 2; NVML counts 2"),
        (None, 2, "there is no GPU 2; NVML counts 2"),
        ("GPU-aa", 0, "several GPUs have a UUID that begins with 'GPU-aa'"),
        ("GPU-cc", 0, "there is no GPU with a UUID that begins with 'GPU-cc'"),
    ],
)
def test_a_gpu_that_cuda_would_not_see(install, monkeypatch, visible, ordinal, reason):
    nvml = install(**TWO)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(LookupError, match=f"^{reason}$"):
        find(Nvml(nvml), ordinal)
    telemetry = open_telemetry(f"cuda:{ordinal}")
    assert telemetry.lacking["energy_j"] == reason
    assert telemetry.read().energy_j is None


def test_gpus_of_several_kinds_have_no_certain_number(install, monkeypatch):
    nvml = install(**TWO, names=["NVIDIA T4", "NVIDIA H200"])
    with pytest.raises(LookupError, match="^this machine has GPUs of several kinds"):
        find(Nvml(nvml), 0)
    assert find(Nvml(nvml), 0, uuid="aaaa-1") == ("gpu0", None)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert find(Nvml(nvml), 1) == ("gpu1", None)


MIG = {**TWO, "split": {"gpu1": ["MIG-cccc-1", "MIG-dddd-2"]}}


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("0", ("gpu0", None)),
        ("1", ("gpu1", "MIG-cccc-1")),
        ("GPU-aabb-2", ("gpu1", "MIG-cccc-1")),
        ("MIG-dddd-2", ("gpu1", "MIG-dddd-2")),
        ("MIG-GPU-aabb-2/7/0", ("gpu1", "MIG-cccc-1")),
    ],
)
def test_instances_of_a_split_gpu(install, monkeypatch, visible, found):
    nvml = install(**MIG)
    if visible.endswith("/7/0"):  # the two instances have one number each, as far as the fake tells
        nvml.split = {"gpu1": ["MIG-cccc-1"]}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert find(Nvml(nvml)) == found


def test_the_uuid_that_cuda_tells_has_no_kind(install):
    nvml = install(**MIG)
    assert find(Nvml(nvml), uuid="dddd-2") == ("gpu1", "MIG-dddd-2")
    assert find(Nvml(nvml), uuid="aaaa-1") == ("gpu0", None)


def test_a_split_gpu_has_no_energy_of_its_own(install):
    nvml = install(**MIG)
    telemetry = GpuTelemetry.open(0, "MIG-dddd-2", CpuTelemetry())
    reading = telemetry.read([10])
    assert (reading.power_w, reading.energy_j) == (None, None)
    assert telemetry.lacking["energy_j"] == "MIG splits this GPU, and the driver counts the whole board"
    # Clocks are the board's; processes are asked of the instance, which shares none with its neighbours.
    assert reading.sm_clock_hz == 1.98e9
    assert ("DeviceGetComputeRunningProcesses", "MIG-dddd-2") in nvml.asked
    assert nvml.times("DeviceGetTotalEnergyConsumption") == 0


@pytest.mark.quiet
def test_our_own_part_of_a_reading_is_cheap(install, tmp_path):
    install()
    telemetry = GpuTelemetry.open(0, None, CpuTelemetry(machine(tmp_path)))
    start = time.perf_counter()
    for _ in range(200):
        telemetry.read([10])
    # Microseconds, with room for a busy machine: the driver's own part is measured where there is one.
    assert (time.perf_counter() - start) / 200 < 2e-3


def test_torch_is_not_imported():
    code = "import sys; from aiperf_core.devices.telemetry import open_telemetry as o"
    code += "; o('cuda').read(); o('cpu').read(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- the processors


def write(root: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")


ZONES = "sys/class/powercap"
CPUS = "sys/devices/system/cpu"


def machine(root: Path, **files: object) -> Path:
    """A made-up machine that tells everything, of the processors that this process may really use."""
    cpu = f"{CPUS}/cpu{min(os.sched_getaffinity(0))}"
    tells = {
        f"{ZONES}/intel-rapl:0/name": "package-0",
        f"{ZONES}/intel-rapl:0/energy_uj": 1_000_000,
        f"{ZONES}/intel-rapl:0/max_energy_range_uj": 262_143_328_850,
        f"{ZONES}/intel-rapl:0:0/name": "core",
        f"{ZONES}/intel-rapl:0:0/energy_uj": 77,
        f"{ZONES}/intel-rapl:0:1/name": "dram",
        f"{ZONES}/intel-rapl:0:1/energy_uj": 65_000_000_000,
        f"{ZONES}/intel-rapl:0:1/max_energy_range_uj": 65_712_999_613,
        f"{ZONES}/intel-rapl:1/name": "psys",
        f"{ZONES}/intel-rapl-mmio:0/name": "package-0",
        f"{CPUS}/cpu9999/cpufreq/scaling_cur_freq": 9_000_000,
        f"{cpu}/cpufreq/scaling_cur_freq": 3_100_000,
        f"{cpu}/thermal_throttle/core_throttle_count": 3,
        f"{cpu}/thermal_throttle/package_throttle_count": 0,
        "sys/class/thermal/thermal_zone0/type": "acpitz",
        "sys/class/thermal/thermal_zone0/temp": 99_000,
        "sys/class/thermal/thermal_zone1/type": "x86_pkg_temp",
        "sys/class/thermal/thermal_zone1/temp": 61_500,
        "sys/fs/cgroup/job/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 2\nthrottled_usec 100",
        "sys/fs/cgroup/job/cpu.max": "150000 100000",
        "proc/self/cgroup": "0::/job",
        "proc/stat": "cpu  100 0 50 850 0 0 0 0 0 0\ncpu0 1 1 1",
        "proc/10/stat": "10 (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 20 5 0 0 20 0",
    }
    write(root, tells | {name.replace("__", "/"): content for name, content in files.items()})
    return root


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(cpu_telemetry, "SHARES_AFTER_S", 0.0)


def test_a_reading_of_the_processors(tmp_path, at_once):
    root = machine(tmp_path)
    telemetry = CpuTelemetry(root)
    first = telemetry.read([10])
    assert (first.cpu_clock_hz, first.temperature_c, first.energy_j, first.throttled) == (3.1e9, 61.5, 0.0, ())
    assert (first.cpu_busy, first.steal) == (None, None)  # no time has passed
    write(
        root, {"proc/stat": "cpu  140 0 60 900 0 0 0 100 0 0", "proc/10/stat": "10 (a) S 1 1 1 0 -1 0 0 0 0 0 40 5 0 0"}
    )
    second = telemetry.read([10])
    assert (second.cpu_busy, second.cpu_own, second.steal) == (0.25, 0.1, 0.5)
    assert set(telemetry.lacking) == {"sm_clock_hz", "memory_clock_hz", "other_pids", "power_w"}
    assert telemetry.power_w() is None
    telemetry.close()


def test_shares_wait_until_the_ticks_suffice(tmp_path, monkeypatch):
    root = machine(tmp_path)
    telemetry = CpuTelemetry(root)
    write(root, {"proc/stat": "cpu  110 0 50 940 0 0 0 0 0 0"})
    assert telemetry.read().cpu_busy is None
    monkeypatch.setattr(cpu_telemetry, "SHARES_AFTER_S", 0.0)
    # Then they are of the whole time.
    assert telemetry.read().cpu_busy == 0.1


def test_a_process_counts_from_the_second_time_it_is_named(tmp_path, at_once):
    root = machine(tmp_path)
    telemetry = CpuTelemetry(root)
    write(root, {"proc/stat": "cpu  200 0 50 950 0 0 0 0 0 0"})
    assert telemetry.read([10]).cpu_own is None
    write(
        root, {"proc/stat": "cpu  300 0 50 1050 0 0 0 0 0 0", "proc/10/stat": "10 (a) S 1 1 1 0 -1 0 0 0 0 0 70 5 0 0"}
    )
    write(root, {"proc/11/stat": "11 (b) S 1 1 1 0 -1 0 0 0 0 0 999 5 0 0"})
    assert telemetry.read([10]).cpu_own == 0.25
    write(root, {"proc/stat": "cpu  400 0 50 1150 0 0 0 0 0 0"})
    assert telemetry.read([10, 11]).cpu_own is None
    (root / "proc/10/stat").unlink()
    write(root, {"proc/stat": "cpu  500 0 50 1250 0 0 0 0 0 0"})
    # What a process worked before it ended is lost.
    reading = telemetry.read([10, 11])
    assert (reading.cpu_busy, reading.cpu_own) == (0.5, 0.0)
    write(root, {"proc/stat": "cpu  600 0 50 1350 0 0 0 0 0 0"})
    assert telemetry.read([]).cpu_own is None


def test_what_held_the_processors_back_since_the_last_reading(tmp_path):
    root = machine(tmp_path)
    telemetry = CpuTelemetry(root)
    cpu = f"{CPUS}/cpu{min(os.sched_getaffinity(0))}"
    assert telemetry.read(light=True).throttled == ()
    write(root, {f"{cpu}/thermal_throttle/package_throttle_count": 1})
    assert telemetry.read().throttled == ("cpu_thermal",)
    write(root, {"sys/fs/cgroup/job/cpu.stat": "nr_throttled 3"})
    assert telemetry.read(light=True).throttled == ("cpu_quota",)
    assert telemetry.read().throttled == ()


def test_a_quota_of_a_group_above_and_of_version_1(tmp_path):
    groups = "sys/fs/cgroup/cpu,cpuacct/jobs"
    told = {
        "proc/self/cgroup": "4:cpu,cpuacct:/jobs/one\n1:name=systemd:/\n",
        f"{groups}/cpu.cfs_quota_us": 150_000,
        f"{groups}/cpu.cfs_period_us": 100_000,
        f"{groups}/cpu.stat": "nr_periods 9\nnr_throttled 2",
        f"{groups}/one/cpu.cfs_quota_us": -1,
        f"{groups}/one/cpu.stat": "nr_periods 0\nnr_throttled 0",
    }
    write(tmp_path, told)
    telemetry = CpuTelemetry(tmp_path)
    assert telemetry.read(light=True).throttled == ()
    write(tmp_path, {f"{groups}/cpu.stat": "nr_periods 9\nnr_throttled 3"})
    assert telemetry.read(light=True).throttled == ("cpu_quota",)


def test_groups_without_a_limit_are_not_watched(tmp_path):
    told = {"sys/fs/cgroup/job/cpu.max": "max 100000", "sys/fs/cgroup/job/cpu.stat": "nr_throttled 0"}
    write(tmp_path, told | {"proc/self/cgroup": "0::/job"})
    telemetry = CpuTelemetry(tmp_path)
    assert telemetry.read(light=True).throttled is None
    assert telemetry.lacking["throttled"].endswith("and there is no limit of processor time to watch")


def test_a_light_reading_of_the_processors(tmp_path):
    reading = CpuTelemetry(machine(tmp_path)).read(light=True)
    assert (reading.energy_j, reading.cpu_clock_hz, reading.temperature_c, reading.cpu_busy) == (0.0, None, None, None)


@pytest.mark.parametrize(("flags", "clock"), [("fpu aperfmperf sse", 3.2e9), ("fpu hypervisor sse", None)])
def test_the_clock_in_cpuinfo_is_believed_where_it_is_counted(tmp_path, flags, clock):
    write(tmp_path, {"proc/cpuinfo": f"flags\t: {flags}\ncpu MHz\t: 3200.000\nflags\t: {flags}\ncpu MHz\t: 800.5"})
    telemetry = CpuTelemetry(tmp_path)
    assert telemetry.read().cpu_clock_hz == clock
    assert ("cpu_clock_hz" in telemetry.lacking) == (clock is None)


def test_the_temperature_of_an_amd_processor(tmp_path):
    chips = {
        "hwmon0/name": "nvme",
        "hwmon0/temp1_input": 90_000,
        "hwmon1/name": "k10temp",
        "hwmon1/temp1_input": 55_250,
    }
    write(tmp_path, {f"sys/class/hwmon/{name}": content for name, content in chips.items()})
    assert CpuTelemetry(tmp_path).read().temperature_c == 55.25


def test_a_machine_that_tells_nothing_says_so(tmp_path):
    telemetry = CpuTelemetry(tmp_path)
    reading = telemetry.read([1])
    missing = {"temperature_c", "energy_j", "throttled", "cpu_clock_hz", "cpu_busy", "cpu_own", "steal"}
    assert {name for name in missing if getattr(reading, name) is None} == missing
    assert missing <= telemetry.lacking.keys()


def test_the_energy_of_packages_and_memory_is_added(tmp_path):
    root = machine(tmp_path)
    telemetry = CpuTelemetry(root)
    write(root, {f"{ZONES}/intel-rapl:0/energy_uj": 3_500_000})
    write(root, {f"{ZONES}/intel-rapl:0:1/energy_uj": 1_000_000})  # it came around at 65712.999613 J
    assert telemetry.energy_j() == pytest.approx(2.5 + 712.999613 + 1.0)
    assert telemetry.energy_j() == pytest.approx(716.499613)


def test_a_counter_that_was_left_alone_too_long_is_not_believed(tmp_path, monkeypatch):
    counter = Rapl.open(machine(tmp_path) / ZONES)
    assert counter.joules() == 0.0
    later = time.monotonic() + 94  # the memory's counter comes around in 93.9 s at 700 W
    monkeypatch.setattr(rapl.time, "monotonic", lambda: later)
    assert counter.joules() is None
    assert counter.problem == "the CPU energy was not read for 94 s, in which its counter may wrap"
    assert counter.joules() is None


def test_a_counter_that_vanishes(tmp_path):
    root = machine(tmp_path)
    telemetry = CpuTelemetry(root)
    (root / ZONES / "intel-rapl:0/energy_uj").unlink()
    assert telemetry.energy_j() is None
    assert telemetry.lacking["energy_j"].startswith("the CPU energy can no longer be read: ")


def test_energy_that_only_root_may_read(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rapl, "_number", refuse)
    telemetry = CpuTelemetry(machine(tmp_path))
    assert telemetry.read().energy_j is None
    assert telemetry.lacking["energy_j"].startswith("only root may read the CPU energy (")


@given(st.integers(1, 2**40), st.data())
def test_a_counter_that_comes_around(range_, data):
    steps = data.draw(st.lists(st.integers(0, range_ - 1), max_size=20))
    start = value = data.draw(st.integers(0, range_ - 1))
    total = 0
    for step in steps:
        after = (value + step) % range_
        total += wrapped_difference(value, after, range_)
        value = after
    assert total == sum(steps)
    assert (start + total) % range_ == value


def test_this_machine_is_busy_when_we_are(at_once):
    telemetry = open_telemetry("cpu")
    telemetry.read([os.getpid()])
    time.sleep(0.05)
    telemetry.read([os.getpid()])
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    reading = telemetry.read([os.getpid()])
    assert reading.cpu_busy is not None
    assert reading.cpu_own is not None
    assert 0 < reading.cpu_own <= 1
    assert reading.cpu_busy > 0


# --- a real GPU


@pytest.mark.gpu
def test_the_gpu_of_this_machine():
    telemetry = open_telemetry("cuda")
    first = telemetry.read()
    assert first.sm_clock_hz is not None
    assert 1e8 < first.sm_clock_hz < 5e9
    assert first.temperature_c is not None
    assert 5 < first.temperature_c < 110
    assert first.throttled is not None
    time.sleep(0.5)
    second = telemetry.read()
    if first.energy_j is None:
        assert telemetry.lacking["energy_j"]
    else:
        assert second.energy_j is not None
        assert 1 < (second.energy_j - first.energy_j) / (second.at_s - first.at_s) < 2000
    telemetry.close()


@pytest.mark.gpu
@pytest.mark.quiet
def test_a_reading_of_the_gpu_is_quick():
    telemetry = open_telemetry("cuda")
    telemetry.read()
    start = time.perf_counter()
    for _ in range(50):
        telemetry.read()
    assert (time.perf_counter() - start) / 50 < 0.01
    telemetry.close()


@pytest.mark.gpu
def test_the_gpu_is_the_one_that_torch_has_open():
    import torch

    nvml = Nvml.start()
    assert find(nvml)[0] is not None
    board, instance = find(nvml)
    told = nvml.ask("nvmlDeviceGetUUID", board if instance is None else instance)
    assert told.removeprefix("GPU-").removeprefix("MIG-") == str(torch.cuda.get_device_properties(0).uuid)
    nvml.stop()


def test_threads_that_wait_for_a_processor(tmp_path):
    write(tmp_path, {"7/task/7/schedstat": "5000 2000000000 9", "7/task/8/schedstat": "1 500000000 2"})
    assert waiting_s(7, tmp_path) == 2.5
    assert waiting_s(8, tmp_path) is None
    write(tmp_path, {"9/task/9/schedstat": ""})
    assert waiting_s(9, tmp_path) is None
