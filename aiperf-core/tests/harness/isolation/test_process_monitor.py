"""Real processes, watched from outside as the supervisor watches its workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from aiperf_core.devices.nvml import Nvml
from aiperf_core.harness.isolation.process_monitor import (
    WATCH_S,
    ProcessMonitor,
    Standing,
    own_wait_s,
    process_s,
    wait_stopped,
)
from aiperf_core.measurements import Census

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's files are Linux's"),
]

# Runs the source, which may define `call`, says so, and calls it for each line that it reads.
PROCESS = """
import os, subprocess, sys, threading, time
def call(): pass
def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until: pass
exec(sys.argv[1])
print(flush=True)
for line in sys.stdin:
    call()
    print(flush=True)
"""


@pytest.fixture
def start():
    started = []

    def start(source=""):
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", PROCESS, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.readline() == "\n"
        return process

    yield start
    for one in started:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


def call(process):
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "\n"


def gaps(process, count=6):
    """What is seen in the gaps between so many calls."""
    watcher, found = ProcessMonitor(process.pid), []
    for _ in range(count):
        call(process)
        watcher.settle()
        watcher.mark()
        time.sleep(WATCH_S)  # where the judge writes new values
        found.append(watcher.between_calls())
    return found


def busy_gaps(found):
    return [one for one in found if one.busy_s > 0.002]


def test_a_process_that_rests(start):
    process = start("def call(): spin(0.005)")
    found = gaps(process)
    assert not busy_gaps(found)
    for one in found:
        assert (one.children, one.threads, one.nice, one.scheduler) == (
            0,
            1,
            os.getpriority(os.PRIO_PROCESS, 0),
            "other",
        )
        assert one.affinity == tuple(sorted(os.sched_getaffinity(0)))
        assert one.gpus is None
        assert one.swapped_bytes is not None
        assert one.major_faults is not None


def test_threads_that_wait_are_no_work(start):
    process = start(
        """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(3)
def call():
    list(pool.map(spin, [0.001] * 3))
    one = threading.Thread(target=spin, args=(0.001,))
    one.start()
    one.join()
"""
    )
    found = gaps(process)
    assert not busy_gaps(found)
    assert found[-1].threads == 4


def test_threads_that_spin_for_a_moment_come_to_rest(start):
    process = start(
        """
def call(): threading.Thread(target=spin, args=(0.01,)).start()
"""
    )
    assert not busy_gaps(gaps(process))


def test_a_thread_that_works_between_calls(start):
    process = start("threading.Thread(target=spin, args=(60,), daemon=True).start()")
    found = gaps(process)
    assert len(busy_gaps(found)) == len(found)
    assert found[-1].threads == 2
    assert not ProcessMonitor(process.pid).settle(0.01)


def test_busy_time_counts_from_the_mark(start):
    process = start("def call(): spin(0.02)")
    watcher = ProcessMonitor(process.pid)
    call(process)
    assert 0.015 < watcher.between_calls().busy_s < 0.2
    watcher.settle()
    watcher.mark()
    assert watcher.between_calls().busy_s < 0.002


CHILD = """
child = subprocess.Popen([sys.executable, "-S", "-c", {code!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def call():
    child.stdin.write("x\\n")
    child.stdin.flush()
    child.stdout.readline()
"""
WORKS = "import sys, time\nfor _ in sys.stdin:\n t = time.process_time()\n while time.process_time() < t + .005: pass\n print(flush=True)"
WAITS = "import sys\nfor _ in sys.stdin: print(flush=True)"


def test_a_child_that_works(start):
    found = gaps(start(CHILD.format(code=WORKS)))
    assert [one.children for one in found] == [1] * 6
    assert not busy_gaps(found)


def test_a_child_that_waits_is_none(start):
    found = gaps(start(CHILD.format(code=WAITS)))
    # When it is first seen, what it took to start may be counted.
    assert [one.children for one in found[1:]] == [0] * 5


def test_a_child_of_a_thread_is_found(start):
    source = CHILD.format(code=WORKS).replace("child = ", "box = {}\ndef begin():\n    box['child'] = ", 1)
    source = source.replace(
        "\ndef call",
        "\n    time.sleep(60)\nthreading.Thread(target=begin, daemon=True).start()\n"
        + """
while 'child' not in box: time.sleep(0.001)
child = box['child']
def call""",
    )
    found = gaps(start(source))
    assert sum(one.children for one in found) > 3


def test_a_child_that_a_thread_starts_later_is_found_at_the_next_look(start):
    source = """
now, calls = threading.Event(), []
def begin():
    now.wait()
    subprocess.Popen([sys.executable, '-S', '-c', 'while True: pass'])
    time.sleep(60)
threading.Thread(target=begin, daemon=True).start()
def call():
    calls.append(1)
    if len(calls) == 2:
        now.set()
        time.sleep(0.5)
"""
    assert [one.children for one in gaps(start(source), 4)] == [0, 1, 1, 1]


def test_children_that_end_within_a_call(start):
    code = "import time\nwhile time.process_time() < .05: pass"
    found = gaps(start(f"def call(): subprocess.run([sys.executable, '-S', '-c', {code!r}])"), 4)
    assert sum(one.children for one in found) >= 3


def test_a_child_that_works_between_calls(start):
    code = "while True: pass"
    found = gaps(start(CHILD.format(code=code).split("def call")[0]))
    assert len(busy_gaps(found[1:])) >= 4


def test_an_orphan_of_the_same_session_is_a_child(start):
    # Handed to whoever takes orphans here: the first process, or a reaper in between.
    source = """
import ctypes
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER, as the fork server
worker = os.fork()
if worker:
    print(worker, flush=True)
    time.sleep(60)
os.setsid()
sys.stdin = open("/dev/null")
if os.fork() == 0:
    if os.fork() == 0:
        spin(60)
    os._exit(0)
os.wait()
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-S", "-c", PROCESS, source], stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    try:
        time.sleep(0.3)
        watcher = ProcessMonitor(worker)
        time.sleep(0.1)
        assert watcher.between_calls().children == 1
    finally:
        os.killpg(worker, signal.SIGKILL)
        process.kill()
        process.communicate()


def test_a_lower_priority_is_seen_in_any_thread(start):
    process = start("os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); os.nice(3)")
    one = ProcessMonitor(process.pid).between_calls()
    assert one.nice == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert one.scheduler == "batch"


def test_the_best_thread_counts(start):
    process = start(
        """
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
os.setpriority(os.PRIO_PROCESS, 0, 5)
"""
    )
    # The first thread has the worse one.
    assert ProcessMonitor(process.pid).between_calls().nice == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_process_that_has_ended_has_an_empty_census(start):
    process = start()
    watcher = ProcessMonitor(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    watcher.mark()
    assert watcher.between_calls() == Census()
    assert ProcessMonitor(process.pid).between_calls() == Census()
    assert process_s(process.pid) is None
    assert watcher.settle()


def test_figures_come_from_the_kernels_files(tmp_path):
    def write(major, ended, swap):
        folder = tmp_path / str(os.getpid())
        (folder / "task" / str(os.getpid())).mkdir(parents=True, exist_ok=True)
        (folder / "task" / str(os.getpid()) / "children").write_text("")
        fields = [
            "S",
            "1",
            "2",
            "3",
            "0",
            "-1",
            "0",
            "9",
            "9",
            str(major),
            "9",
            "1",
            "1",
            str(ended),
            "0",
            "20",
            "0",
            "7",
        ]
        (folder / "stat").write_text(f"{os.getpid()} (a) b ( c) {' '.join(fields)} 0 0")
        (folder / "status").write_text(f"Name:\tx\nVmSwap:\t{swap} kB\nThreads:\t7\n")

    write(4, 0, 0)
    watcher = ProcessMonitor(os.getpid(), tmp_path)
    write(9, 2, 16)
    one = watcher.between_calls()
    assert (one.threads, one.major_faults, one.swapped_bytes, one.children) == (7, 5, 16384, 1)
    assert watcher.between_calls().major_faults == 0


def test_a_census_is_cheap(start):
    process = start("for _ in range(8): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
    watcher, took = ProcessMonitor(process.pid), []
    for _ in range(16):
        begin = time.process_time()
        watcher.mark()
        watcher.between_calls()
        took.append(time.process_time() - begin)
    assert sorted(took)[8] < 0.001  # a tenth of it, with room for a slow machine


class Driver:
    """Of three GPUs, what the driver lists. One refuses."""

    NVMLError = RuntimeError

    def __init__(self, pids):
        self.pids = pids

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, gpu):  # noqa: N802
        return f"GPU-{gpu}"

    def nvmlDeviceGetComputeRunningProcesses(self, gpu):  # noqa: N802
        if gpu == 2:
            raise RuntimeError("refused")
        return [SimpleNamespace(pid=pid) for pid in self.pids.get(gpu, ())]


def test_gpus(start):
    process = start(CHILD.format(code=WAITS))
    child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    watcher = ProcessMonitor(process.pid)
    assert watcher.gpus(Nvml(Driver({0: [process.pid, 1], 1: [1]}))) == ("GPU-0",)
    assert watcher.gpus(Nvml(Driver({0: [process.pid], 1: [child]}))) == ("GPU-0", "GPU-1")
    assert watcher.gpus(Nvml(Driver({1: [1]}))) is None


# --- who was kept waiting


@pytest.mark.parametrize(
    ("spent", "waited", "kept_waiting"),
    [
        (Standing(1.5, 1.5, 0.0), "nobody", 0.0),
        (Standing(1.5, 1.5, 0.3), "others", 0.3),
        (Standing(1.8, 1.5, 0.3), "its own thread had the processor", 0.0),
        (Standing(1.6, 1.5, 0.3), "its own thread had it for a while", 0.2),
        (Standing(2.5, 1.5, 0.0), "threads beside it, on processors of their own", 0.0),
    ],
)
def test_what_keeps_itself_waiting_is_not_kept_waiting(spent, waited, kept_waiting):
    assert spent.kept_waiting_s(Standing(1.0, 1.0, 0.0)) == pytest.approx(kept_waiting), waited


def test_a_process_beside_another_one_on_a_processor_is_kept_waiting(start):
    processor = min(os.sched_getaffinity(0))
    pin = f"os.sched_setaffinity(0, {{{processor}}})\ndef call(): spin(0.3)"
    one, other = start(pin), start(pin)
    watcher = ProcessMonitor(one.pid)
    before = watcher.standing()
    other.stdin.write("\n")
    other.stdin.flush()
    call(one)
    after = watcher.standing()
    assert after.all_s - before.all_s >= 0.25
    assert after.kept_waiting_s(before) > 0.05
    call(other) if other.stdout.readline() else None
    started, own = time.perf_counter(), own_wait_s()
    time.sleep(0.02)
    assert 0 <= own_wait_s() - own <= time.perf_counter() - started


def test_a_child_counts_as_the_process_s_own(start):
    one = start(
        "def call(): subprocess.run([sys.executable, '-S', '-c', 'import time\\nwhile time.thread_time() < 0.2: pass'])"
    )
    watcher = ProcessMonitor(one.pid)
    before = watcher.standing()
    call(one)
    after = watcher.standing()
    assert (after.all_s - after.first_s) - (before.all_s - before.first_s) > 0.15


def test_a_process_that_has_ended_stands_nowhere(start):
    one = start()
    watcher = ProcessMonitor(one.pid)
    os.killpg(one.pid, signal.SIGKILL)
    one.wait()
    assert watcher.standing() is None


def test_a_process_is_stopped_when_all_its_threads_are(start):
    process = start("def call(): [threading.Thread(target=spin, args=(60,), daemon=True).start() for _ in range(3)]")
    call(process)
    assert not wait_stopped(process.pid, 0.01)
    process.send_signal(signal.SIGSTOP)
    assert wait_stopped(process.pid, 5.0)
    spent = process_s(process.pid)
    time.sleep(0.05)
    assert process_s(process.pid) == spent
    process.send_signal(signal.SIGCONT)
    time.sleep(0.05)
    assert not wait_stopped(process.pid, 0.0)
    process.kill()
    process.wait()
    assert wait_stopped(process.pid, 0.0), "one that has ended does nothing more"
