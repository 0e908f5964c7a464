"""Program of a Slurm job on its node: the command of a task. submitit imports this module there."""

import os
import subprocess
from pathlib import Path

from aiperf_core import atomic
from aiperf_core.fleet import MACHINE_VARIABLE, RESULT_VARIABLE
from aiperf_core.harness.processes.parent import end_child_with_this


def run_task(command: list[str], environment: dict[str, str], result: str, task_id: str) -> int:
    """Run a command, and keep its exit code and the node's name beside its log, in the shared folder."""
    machine = os.environ.get("SLURMD_NODENAME", "")
    folder = Path(result).parent
    with open(folder / f"{task_id}.log", "wb") as log:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment, RESULT_VARIABLE: result, MACHINE_VARIABLE: machine},
            check=False,
            preexec_fn=end_child_with_this(),
        )
    atomic.write(folder / f"{task_id}.exit", f"{done.returncode} {machine}".encode())
    return done.returncode
