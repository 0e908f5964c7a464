"""`COUNTS` is made by hand after the documentation of `perf stat -x`; `VIRTUAL` and `SAMPLES` were printed by perf 6.1 in a virtual machine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job
from aiperf_core.profiling import perf, programs
from aiperf_core.profiling.perf import COUNTS, SAMPLES, Perf, read

JOB = Job(target="a.b", module="m", implementation="wide", device="cpu", params={}, cache="warm")

HARDWARE = """# started on Sat Nov 21 22:00:00 2026

40.00;msec;task-clock;40000000;100.00;0.999;CPUs utilized
8;;page-faults;40000000;100.00;200.000;/sec
6000000;;cycles:u;40000000;100.00;3.000;GHz
9000000;;instructions:u;40000000;100.00;1.50;insn per cycle
1000;;cache-references:u;40000000;100.00;;
250;;cache-misses:u;40000000;100.00;25.00;of all cache refs
<not counted>;;branches:u;0;0.00;;
77;;dTLB-load-misses:u;40000000;100.00;;
"""
VIRTUAL = """0.58;msec;task-clock;579099;100.00;0.360;CPUs utilized
<not supported>;;cycles;0;100.00;;
49;;page-faults;579099;100.00;84.614;K/sec
1;;context-switches;579099;100.00;1.727;K/sec
"""
REPORT = """# To display the perf.data header info, please use --header/--header-only options.
#
# Samples: 599  of event 'cpu-clock:ppp'
#
# Overhead;     Samples;Shared Object       ;Symbol
 28.38% ; 170        ;libpython3.11.so.1.0;[.] _PyObject_Malloc
 30.00% ; 119        ;libgomp.so.1        ;[.] 0x000000000001de62
 13.86% ; 83         ;libgomp.so.1        ;[.] 0x000000000001e02a
 4.17%  ; 25         ;[kernel.kallsyms]   ;[k] finish_task_switch
 2.00%  ; 12         ;libx.so             ;[.] void f<int>(int; char)
 0.01%  ; 1          ;libx.so             ;[.] rare
"""


def test_counts_are_of_one_call() -> None:
    found = read(HARDWARE, REPORT, evolve(JOB, metrics=("cache-misses", "dTLB-load-misses")), 4, "6.1")
    assert found.figures == {
        "task_s": pytest.approx(0.01),
        "page_faults": 2,
        "cycles": 1.5e6,
        "instructions": 2.25e6,
        "cache_misses": 62.5,
        "dTLB-load-misses": 19.25,
        "ipc": 1.5,
        "cache_miss_share": 0.25,
    }


def test_what_a_virtual_machine_does_not_count_is_named() -> None:
    found: Any = read(VIRTUAL, REPORT, JOB, 1, "6.1")
    assert found.missing["cycles"] == "the CPU does not count it here, as in many virtual machines"
    assert "ipc" not in found.figures


def test_symbols_have_a_share_of_the_processor_time_and_stripped_code_stands_together() -> None:
    found: Any = read(VIRTUAL, REPORT, JOB, 1, "6.1")
    assert [(one.name, one.by, one.share) for one in found.hot] == [
        ("(code without a name)", "libgomp.so.1", pytest.approx(0.4386)),
        ("_PyObject_Malloc", "libpython3.11.so.1.0", pytest.approx(0.2838)),
        ("finish_task_switch", "kernel", pytest.approx(0.0417)),
        ("void f<int>(int; char)", "libx.so", pytest.approx(0.02)),
    ]
    assert found.hot[1].seconds == pytest.approx(0.2838 * 0.58e-3)


def test_without_samples_the_counts_stand() -> None:
    assert (
        read(VIRTUAL, "", JOB, 1, "6.1").missing["symbols"] == "perf record took no sample; the calls may be too short"
    )


def test_nothing_counted_is_an_error() -> None:
    with pytest.raises(AiperfError, match=r"^perf counted nothing\."):
        read("<not supported>;;cycles;0;100.00;;\n", "", JOB, 1, "6.1")


def test_a_kernel_that_refuses_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(argv: list[str]) -> str:
        raise AiperfError("'perf stat ...' failed with status 255: Access denied")

    monkeypatch.setattr(programs, "find", lambda name: "/x/perf")
    monkeypatch.setattr(programs, "output", refuse)
    monkeypatch.setattr(perf, "text", lambda _: "4")
    assert Perf(JOB).unavailable() == perf._REMEDY.format(level="4")
    assert "kernel.perf_event_paranoid=1" in perf._REMEDY
    monkeypatch.setattr(perf, "text", lambda _: "-1")
    assert Perf(JOB).unavailable() == "'perf stat ...' failed with status 255: Access denied"
    monkeypatch.setattr(programs, "find", lambda name: None)
    assert str(Perf(JOB).unavailable()).startswith("perf is not installed; ")


def test_what_perf_prints_when_it_is_refused_is_known() -> None:
    printed = "Access to performance monitoring and observability operations is limited."
    assert "CAP_PERFMON" in str(Perf(JOB).remedy(printed))
    assert Perf(JOB).remedy("[ perf record: Woken up 1 times to write data ]") is None


# The window alone, without torch: two calls while perf counts, two before and two after. It prints the processor time
# of the two, because the time of a call depends on what else runs on the machine.
SUBJECT = """
import sys
import time
from pathlib import Path
from typing import Any
from aiperf_core.profiling.perf import PerfWindow

def work():
    return sum(range(3_000_000))

work(), work()
window = PerfWindow(Path(sys.argv[1]))
with window.whole():
    start = time.process_time()
    for _ in range(2):
        with window.call():
            work()
    print(time.process_time() - start)
    work(), work()
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The folder, and the processor time of the two calls while perf counted, in seconds."""
    if reason := Perf(JOB).unavailable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("perf")
    said = [
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        for command in Perf(JOB).commands([sys.executable, "-c", SUBJECT, str(folder)], folder)
    ]
    return folder, float(said[0])


def test_perf_itself_counts_the_calls_and_nothing_else(counted: tuple[Path, float]) -> None:
    folder, busy_s = counted
    found = Perf(JOB).summarise(folder, 2)
    # One call is counted as one call: not the two before, nor the two after.
    assert found.figures["task_s"] == pytest.approx(busy_s / 2, rel=0.5)
    assert found.files == [COUNTS, SAMPLES]
    assert (folder / SAMPLES).stat().st_size > 0
    assert found.hot[0].kind == "symbol"
