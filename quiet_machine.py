"""Wait until equal pieces of work take equal times on every processor, before tests that depend on times.

    python quiet_machine.py          # at most five minutes; says how far apart the times are

`nox -s timing` and `nox -s proof` run it before they try once more what failed.
"""

import multiprocessing
import os
import statistics
import sys
import time

# Pieces of work in a look at the machine; each takes about 2 ms.
PIECES, STEPS = 500, 100_000
# How far apart the slowest and the fastest tenth of the pieces are on a quiet machine, at most.
QUIET = 1.2
LIMIT_S = 300.0


def spread(_: int = 0) -> float:
    """Time of the slowest tenth of equal pieces over that of the fastest, on one processor."""
    times_s = []
    for _piece in range(PIECES):
        start = time.perf_counter()
        sum(range(STEPS))
        times_s.append(time.perf_counter() - start)
    fast, *_between, slow = statistics.quantiles(times_s, n=10)
    return slow / fast


def main() -> None:
    """Look at the machine until it is quiet, or the time is up."""
    processors = len(os.sched_getaffinity(0))
    until = time.monotonic() + LIMIT_S
    with multiprocessing.Pool(processors) as pool:
        while (widest := max(pool.map(spread, range(processors), chunksize=1))) > QUIET and time.monotonic() < until:
            pass
    state = "did not become quiet" if widest > QUIET else "is quiet"
    sys.stdout.write(f"This machine {state}: equal pieces of work differ {widest:.2f} times.\n")


if __name__ == "__main__":
    main()
