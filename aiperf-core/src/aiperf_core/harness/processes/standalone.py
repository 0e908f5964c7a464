"""A process of a role that was started by a command instead of being forked from the server that has torch imported.

`python -m aiperf_core.harness.processes.standalone ROLE FD LOG [BYTES]`: FD is the inherited descriptor of its channel, LOG the file for
what it prints, BYTES its limit of memory.
"""

import os
import sys

from aiperf_core.harness.processes.fork_server import COMPILE_IN_PROCESS, be


def main(arguments: list[str]) -> int:
    """Be the role until the other side closes the channel; the exit status."""
    role, fd, log, limit = arguments
    os.environ.setdefault(*COMPILE_IN_PROCESS)
    return be(int(fd), role, log, int(limit) if limit else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
