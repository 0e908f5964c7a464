"""A process that outlives a supervisor that was killed: it ends a candidate's processes and removes its folder.

Its file runs as a program, with nothing imported but the standard library, so that it starts in milliseconds.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# A killed process that writes to a slow disk ends only after the write.
_TRIES, _BETWEEN_TRIES_S = 100, 0.1


class Survivor:
    """Waits in a session of its own, which no signal to the supervisor's group reaches, for the supervisor to end.

    folder: the folder that it then removes.
    """

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Have it end this process group, in place of the one before."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody killed it
            self._process.stdin.write(b"%d\n" % group)
            self._process.stdin.flush()

    def close(self) -> None:
        """End it: the supervisor has ended the processes itself."""
        self._process.kill()
        self._process.communicate()


def main(folder: str) -> None:
    """Wait until the supervisor has ended; then end the last group that it told, and remove the folder."""
    groups = [int(line) for line in sys.stdin.buffer if line.endswith(b"\n")]
    for _ in range(_TRIES):
        for group in groups[-1:]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        subprocess.run(["rm", "-rf", "--", folder], check=False)
        if not os.path.exists(folder):
            break
        time.sleep(_BETWEEN_TRIES_S)


if __name__ == "__main__":
    main(sys.argv[1])
