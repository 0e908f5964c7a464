"""The engine `slurm`: one exclusive job a task, submitted by submitit.

States come from `squeue`, and the exit code from a file of the task, so that no accounting is needed. What submitit
pickles on the nodes is never read. The folder of the fleet must be shared with the nodes.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.fleet import FleetKind, FleetTask, Offer, TaskState, TaskStatus
from aiperf_core.names import words
from aiperf_fleet.engines.common import SETTLE_S, check_options, check_possible, tail_of
from aiperf_fleet.engines.slurm_task import run_task

PROGRAMS = ("sbatch", "squeue", "sinfo", "scancel")
OPTIONS = ("partition", "account", "qos", "gres")
_ASK_S = 30.0
_UP = ("idle", "mixed", "allocated", "completing", "planned")
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "SPECIAL_EXIT", "LAUNCH_FAILED")


class Slurm(FleetKind):
    """Submits jobs, and asks the controller. Jobs outlive the process that submitted them."""

    lasting = True

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(folder, options)
        check_options("slurm", options, OPTIONS)
        missing = [one for one in PROGRAMS if shutil.which(one) is None]
        if missing:
            raise SkipError(f"{', '.join(missing)} not found; run this on a machine from which jobs are submitted")
        try:
            import submitit
        except ImportError as error:
            raise SkipError("submitit is not installed: pip install 'aiperf-fleet[slurm]'") from error
        self._submitit = submitit
        # The machines of tasks, since a finished job is forgotten by the controller.
        self._machines: dict[str, str] = {}
        self._completed_at: dict[str, float] = {}

    def offers(self) -> Sequence[Offer]:
        """The nodes, with their features as classes."""
        chosen = [f"--partition={self.options['partition']}"] if "partition" in self.options else []
        found = {}
        for line in _ask("sinfo", "--Node", "--noheader", "--format=%N|%f|%T", *chosen).splitlines():
            name, features, state = line.split("|")
            classes = tuple(one for one in features.split(",") if one and one != "(null)")
            found[name] = Offer(name, classes, state in _UP)
        return list(found.values())

    def submit(self, task: FleetTask) -> str:
        """Submit a job that has a whole node."""
        check_possible(task, self.offers())
        executor = self._submitit.SlurmExecutor(folder=self.folder / "submitit", max_num_timeout=0)
        executor.update_parameters(**self._parameters(task))
        try:
            job = executor.submit(run_task, list(task.command), dict(task.environment), str(task.result), task.id)
        except Exception as error:  # submitit raises several kinds, with sbatch's words
            raise AiperfError(f"sbatch did not take it: {words(str(error))[-300:]}") from error
        try:
            (self.folder / f"{job.job_id}.name").write_text(task.id)
        except OSError as error:
            self.cancel(str(job.job_id))
            raise AiperfError(f"the job {job.job_id} cannot be noted, and is cancelled: {error.strerror}") from error
        return str(job.job_id)

    def poll(self, ids: Sequence[str]) -> Mapping[str, TaskState]:
        """The states of jobs by one call of squeue."""
        told = {}
        for line in _ask("squeue", "--me", "--states=all", "--noheader", "--format=%i|%T|%N|%r").splitlines():
            job, state, machine, reason = line.split("|", 3)
            told[job] = (state, machine, reason)
        return {one: self._state(one, told.get(one)) for one in ids}

    def log(self, task_id: str) -> str:
        """The end of what the task printed."""
        printed = "".join(tail_of(self.folder / "submitit" / f"{task_id}_0_log.{one}") for one in ("out", "err"))
        return tail_of(self.folder / f"{self._name(task_id)}.log") or printed

    def cancel(self, task_id: str) -> None:
        """Cancel a job."""
        if task_id.isdigit():
            subprocess.run(["scancel", "--quiet", task_id], capture_output=True, timeout=_ASK_S, check=False)

    def _name(self, job: str) -> str:
        """The id of the task of a job."""
        return tail_of(self.folder / f"{job}.name") or job

    def _state(self, job: str, told: tuple[str, str, str] | None) -> TaskState:
        code = tail_of(self.folder / f"{self._name(job)}.exit")
        if told is None and not code:
            return TaskState(
                status=TaskStatus.LOST, machine=self._machines.get(job), reason="the controller has no such job"
            )
        state, machine, reason = told or ("COMPLETED", "", "")
        if machine and machine != "(null)":
            self._machines[job] = machine
        where = self._machines.get(job)
        if state in _WAITING:
            return TaskState(status=TaskStatus.WAITING, machine=where, reason=reason)
        if state in _RUNNING:
            return TaskState(status=TaskStatus.RUNNING, machine=where)
        if state in _LOST:
            return TaskState(status=TaskStatus.LOST, machine=where, reason=f"{state}: {reason}")
        if state == "COMPLETED" and not code:
            # Its exit code may appear late in a shared folder.
            since = self._completed_at.setdefault(job, time.monotonic())
            if time.monotonic() - since < SETTLE_S:
                return TaskState(status=TaskStatus.RUNNING, machine=where)
        ended, _, on = code.partition(" ")
        return TaskState(
            status=TaskStatus.ENDED,
            machine=where or on or None,
            exit_code=int(ended) if ended else None,
            reason="" if ended else f"the job is {state}",
        )

    def _parameters(self, task: FleetTask) -> dict[str, object]:
        given = {name: self.options[name] for name in OPTIONS if name in self.options}
        return {
            **given,
            "job_name": f"aiperf-{task.id}"[:60],
            "time": max(1, -(-int(task.time_limit_s) // 60)),
            "nodes": 1,
            "exclusive": True,
            "use_srun": False,
            "stderr_to_stdout": True,
            "constraint": task.machine_class,
            "exclude": ",".join(sorted(task.avoid)) or None,
            "additional_parameters": {"no-requeue": True},
        }


def _ask(*command: str) -> str:
    """Output of a command of Slurm. Raises AiperfError where the controller does not answer."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=_ASK_S,
            check=False,
            env=_environment(),
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AiperfError(f"{command[0]} does not answer: {error}") from error
    if done.returncode:
        raise AiperfError(f"{command[0]} ended with {done.returncode}: {words(done.stderr.strip())[-300:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    """The environment without variables that change the output of Slurm's commands."""
    changing = ("SQUEUE_", "SINFO_")
    return {name: value for name, value in os.environ.items() if not name.startswith(changing)}
