"""A process of a role that a command starts, in place of a fork of the fork server.

`python -m aiperf_core.harness.processes.standalone ROLE FD LOG [BYTES]`: FD is the inherited descriptor of its channel,
LOG the file for its output, BYTES its memory limit.
"""

import os
import sys

from aiperf_core.harness.processes.fork_server import COMPILE_IN_PROCESS, run_role


def main(arguments: list[str]) -> int:
    """Serve the role until the other side closes the channel; the exit status."""
    role, fd, log, limit = arguments
    os.environ.setdefault(*COMPILE_IN_PROCESS)
    return run_role(int(fd), role, log, int(limit) if limit else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
