"""Processes that keep every processor busy, as a build or another user does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# It ends with its parent, also where that is killed.
_LOOP = """
import os, sys
processor, parent = map(int, sys.argv[1:])
os.sched_setaffinity(0, [processor])
print(flush=True)
while os.getppid() == parent: pass
"""


@contextmanager
def neighbours(count: int | None = None) -> Iterator[None]:
    """Keep processors busy while the context is open: `count` of them, or all that this process may use."""
    processors = sorted(os.sched_getaffinity(0))[:count]
    processes = []
    try:
        for processor in processors:
            command = [sys.executable, "-S", "-c", _LOOP, str(processor), str(os.getpid())]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()
