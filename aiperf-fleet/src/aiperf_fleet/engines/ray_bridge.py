"""A driver of Ray in a process of its own: `python -m aiperf_fleet.engines.ray_bridge ADDRESS`.

It reads requests from standard input, a line of JSON each, and answers on standard output. It ends with its input. A
task is a generator: first it yields the name of its machine, then its result, as bytes.
"""

import json
import os
import sys
from typing import Any

import ray

_NODE_ID = "ray.io/node-id"
_CLASS = "class_"
_FINISHED = "finished"


def task(command: list[str], environment: dict[str, str], time_limit_s: float, names: dict[str, str]) -> Any:
    """Run a command on a node. Sent by value: nothing but Python's own modules is needed before the command."""
    import base64
    import ctypes
    import json
    import os
    import signal
    import subprocess
    import tempfile

    import ray

    machine = names.get(ray.get_runtime_context().get_node_id(), "")
    yield machine.encode()
    with tempfile.TemporaryDirectory(prefix="aiperf-task-") as folder:
        result = os.path.join(folder, "result")
        given = {"AIPERF_FLEET_RESULT": result, "AIPERF_FLEET_MACHINE": machine}
        with open(os.path.join(folder, "log"), "w+b") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, **given},
                preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL),
            )
            told: dict[str, Any] = {}
            try:
                told["exit_code"] = process.wait(time_limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                told["exit_code"], told["reason"] = None, f"longer than its limit of {time_limit_s:g} s"
            log.seek(max(0, log.seek(0, 2) - 65536))
            told["log"] = log.read().decode(errors="replace")
        found = b""
        if os.path.exists(result):
            with open(result, "rb") as file:
                found = file.read()
            told["delivered"] = True
    head = json.dumps({**told, "size": len(found)}).encode()
    yield head + b"\n" + base64.b64encode(found)


class Bridge:
    """The tasks of one driver."""

    def __init__(self, address: str) -> None:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        self.tasks: dict[str, Any] = {}
        self.machines: dict[str, str] = {}

    def offers(self) -> list[dict[str, Any]]:
        """The nodes that have the resource `machine`, the dead ones included."""
        found: dict[str, dict[str, Any]] = {}
        for node in sorted(ray.nodes(), key=lambda one: bool(one["Alive"])):
            resources = node["Resources"]
            name = node["NodeName"]
            if not node["Alive"] or "machine" in resources:
                # A node that came back under its name replaces the dead one.
                classes = [one.removeprefix(_CLASS) for one in resources if one.startswith(_CLASS)]
                found[name] = {"machine": name, "classes": classes, "up": bool(node["Alive"]), "id": node["NodeID"]}
        return list(found.values())

    def submit(self, told: dict[str, Any]) -> None:
        """Start a task where the resource `machine` is free."""
        names = {node["NodeID"]: node["NodeName"] for node in ray.nodes()}
        avoided = [one for one, name in names.items() if name in told["avoid"]]
        resources = {"machine": 1.0}
        if told["machine_class"]:
            resources[f"{_CLASS}{told['machine_class']}"] = 0.001
        remote = ray.remote(
            num_cpus=0,
            max_retries=0,
            num_returns="streaming",
            resources=resources,
            label_selector={_NODE_ID: f"!in({','.join(avoided)})"} if avoided else None,
        )(task)
        self.tasks[told["id"]] = remote.remote(told["command"], told["environment"], told["time_limit_s"], names)

    def poll(self, name: str) -> dict[str, Any]:
        """The state of a task. An ended one is forgotten."""
        if name not in self.tasks:
            return {"status": "LOST", "reason": "not a task of this driver"}
        machine = self.machines.get(name)
        try:
            while ray.wait([self.tasks[name]], timeout=0)[0]:
                value: bytes = ray.get(next(self.tasks[name]))
                if machine is not None:
                    self.tasks.pop(name)
                    head, _, content = value.partition(b"\n")
                    return {"status": "ENDED", "machine": machine, **json.loads(head), "content": content.decode()}
                machine = self.machines[name] = value.decode()
        except StopIteration:
            self.tasks.pop(name)
            return {"status": "LOST", "machine": machine, "reason": "it ended without a result"}
        except ray.exceptions.RayError as error:
            self.tasks.pop(name)
            return {"status": "LOST", "machine": machine, "reason": f"{type(error).__name__}: {error}"[:2000]}
        return {"status": "RUNNING" if machine is not None else "WAITING", "machine": machine}

    def cancel(self, name: str) -> None:
        """Kill the worker of a task."""
        if name in self.tasks:
            ray.cancel(self.tasks[name], force=True)

    def answer(self, told: dict[str, Any]) -> Any:
        """Do what a request says."""
        match told["do"]:
            case "offers":
                return self.offers()
            case "submit":
                return self.submit(told)
            case "poll":
                return {one: self.poll(one) for one in told["ids"]}
            case "cancel":
                return self.cancel(told["id"])
        raise ValueError(f"unknown request {told['do']!r}")


def main() -> None:
    """Serve until the end of the input."""
    # What Ray prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bridge = Bridge(sys.argv[1])
    for line in sys.stdin:
        try:
            answer = {"value": bridge.answer(json.loads(line))}
        except ray.exceptions.RayError as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
