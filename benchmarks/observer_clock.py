"""The error of the observer's clock: its time of a sample against the time of the call by the process itself.

The process is honest here, and waits for the sample as a worker does. The call spins, sleeps, or is a kernel of torch.
The error holds all that the clock adds: continuing the process, seeing the end, and whatever else runs meanwhile.

    python benchmarks/observer_clock.py [--samples 300]
"""

import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.observer import observe
from aiperf_core.harness.isolation.process_group import ProcessGroup

TIMEOUT_S = 10.0
SPINS_US, SLEEPS_US = (20, 200, 2_000, 20_000), (200, 20_000)
# Rows of a square matrix.
KERNELS = (64, 512)
PROCESS = """
import os, sys, time
from aiperf_core.harness.isolation.observed_page import ObservedPage
kind, size = sys.argv[2], int(sys.argv[3])
if kind == "matmul":
    import torch
    torch.set_num_threads(1)
    a = torch.randn(size, size)
    def call(): a @ a
elif kind == "sleep":
    def call(): time.sleep(size / 1e6)
else:
    def call():
        until = time.perf_counter_ns() + 1000 * size
        while time.perf_counter_ns() < until: pass
page = ObservedPage(int(sys.argv[1]))
call()
last = page.number
os.write(1, b"!")
while True:
    last = page.wait(last)
    start = time.perf_counter_ns()
    call()
    page.end(last, {"own_s": (time.perf_counter_ns() - start) / 1e9})
    os.write(1, b"!")
"""


@contextmanager
def process(kind: str, size: int) -> Iterator[tuple[ObservedPage, ProcessGroup, Callable[[float], bool]]]:
    """A stopped process that makes such calls, with its page, and a wait for its message."""
    page = ObservedPage.create()
    command = [sys.executable, "-c", PROCESS, str(page.fd), kind, str(size)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, pass_fds=(page.fd,))
    assert started.stdout is not None
    output = started.stdout.fileno()

    def wait(seconds: float) -> bool:
        ready, _, _ = select.select([output], [], [], seconds)
        return bool(ready) and bool(os.read(output, 1))

    try:
        if not wait(60.0):
            raise click.ClickException(f"the process for {kind} {size} did not start")
        group = ProcessGroup(started.pid)
        group.halt()
        yield page, group, wait
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        page.close()


def errors_us(kind: str, size: int, samples: int, *, spins: bool) -> tuple[list[float], list[float]]:
    """For each sample the call's own time, and the error of the observer's, in microseconds."""
    own, errors = [], []
    with process(kind, size) as (page, group, wait):
        for _ in range(samples):
            seen = observe(page, group, TIMEOUT_S, None if spins else wait)
            if seen.ended_s is None:
                raise click.ClickException(f"a sample of {kind} {size} did not end within {TIMEOUT_S:g} s")
            told_s = page.told()["own_s"]
            own.append(told_s * 1e6)
            errors.append((seen.ended_s - told_s) * 1e6)
            if spins:  # the message, which nobody has read
                group.resume()
                wait(TIMEOUT_S)
                group.halt()
            time.sleep(0.001)
    return own, errors


@click.command()
@click.option("--samples", type=click.IntRange(2), default=300, show_default=True, help="Samples of each call.")
def main(samples: int) -> None:
    """Print the errors of both kinds of observers, in microseconds."""
    print(f"{os.cpu_count()} processors, {samples} samples each; times in us")
    print(f"{'observer':10}{'call':14}{'own median':>12}{'error median':>14}{'error p99':>12}")
    calls = [("spin", one) for one in SPINS_US] + [("sleep", one) for one in SLEEPS_US]
    calls += [("matmul", one) for one in KERNELS]
    for spins in (True, False):
        for kind, size in calls:
            own, errors = errors_us(kind, size, samples, spins=spins)
            p99 = statistics.quantiles(errors, n=100, method="inclusive")[98]
            name = "spins" if spins else "sleeps"
            print(
                f"{name:10}{f'{kind} {size}':14}{statistics.median(own):12,.1f}"
                f"{statistics.median(errors):14,.1f}{p99:12,.1f}"
            )


if __name__ == "__main__":
    main()
