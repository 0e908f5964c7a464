"""An engine of three machines within the test's own process, which starts nothing: a task ends when it is polled."""

import json
import os
from pathlib import Path
from typing import ClassVar
from unittest import mock

from aiperf_core.errors import AiperfError
from aiperf_core.fleet import MACHINE_VARIABLE, RESULT_VARIABLE, FleetKind, Offer, TaskState, TaskStatus
from aiperf_fleet.engines.common import check_possible

OFFERS = [Offer("m1", ("fast",)), Offer("m2", ("fast",)), Offer("m3")]


class Pretend(FleetKind):
    """Behaves as the files in `$STUB` say; see `stub_machine`. `down.MACHINE` loses its tasks, `silent` answers nothing."""

    lasting = True
    # Survive the instance, as in a cluster.
    tasks: ClassVar = {}

    def offers(self):
        return [Offer(one.machine, one.classes, up=not (self.stub / f"down.{one.machine}").exists()) for one in OFFERS]

    @property
    def stub(self):
        return Path(os.environ["STUB"])

    def submit(self, task):
        offers = self.offers()
        check_possible(task, offers)
        busy = {machine for _, machine, state in self.tasks.values() if state is None}
        fitting = [one.machine for one in offers if task.fits(one)]
        free = [one for one in fitting if one not in busy] or fitting
        self.tasks[task.id] = (task, free[0] if free else None, None)
        return task.id

    def poll(self, ids):
        if (self.stub / "silent").exists():
            (self.stub / "silent").unlink()
            raise AiperfError("the controller does not answer")
        return {one: self.state(one) for one in ids}

    def state(self, one):
        if one not in self.tasks:
            return TaskState(status=TaskStatus.LOST, reason="not known")
        task, machine, state = self.tasks[one]
        if state is None:
            state = self.ended(task, machine)
            self.tasks[one] = (task, machine, state if state.over else None)
        return state

    def ended(self, task, machine):
        import stub_machine

        if (self.stub / f"down.{machine}").exists():
            return TaskState(status=TaskStatus.LOST, machine=machine, reason="the node failed")
        if (self.stub / "hold").exists():
            return TaskState(status=TaskStatus.RUNNING, machine=machine)
        with mock.patch.dict(os.environ, {MACHINE_VARIABLE: machine, RESULT_VARIABLE: str(task.result)}):
            code = stub_machine.main(json.loads(task.command[-1]))
        return TaskState(status=TaskStatus.ENDED, machine=machine, exit_code=code)

    def log(self, task_id):
        return "the end of the log\n"

    def cancel(self, task_id):
        if task_id in self.tasks:
            task, machine, _ = self.tasks[task_id]
            self.tasks[task_id] = (
                task,
                machine,
                TaskState(status=TaskStatus.ENDED, machine=machine, reason="cancelled"),
            )
