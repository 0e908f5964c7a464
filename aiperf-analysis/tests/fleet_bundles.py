"""Bundles of fleets of machines, as `aiperf fleet` writes them, with made-up figures."""

import json

from attrs import evolve

from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Document

CREATED = "2026-11-22T10:00:00+00:00"


def attempt(number, machine, ending, seal=None):
    return {"number": number, "submitted": "7", "created": CREATED, "machine": machine, "ending": ending,
            "exit_code": 0 if seal else None, "reason": "" if seal else "the node failed", "seal": seal, "ended": CREATED}  # fmt: skip


def task(number, *attempts, given_up=""):
    return {"id": f"000{number}-t", "target": "ch07.t", "implementations": [], "machine_class": "any", "repeat": 0,
            "machine": None, "expected_s": None, "counted_from": 0, "given_up": given_up, "attempts": list(attempts)}  # fmt: skip


def payload(seal="0" * 64, **more):
    """A fleet of two tasks: one was lost first, the other was given up."""
    machines = [{"machine": name, "count": 4, "ratio": ratio, "low": ratio - 0.02, "high": ratio + 0.02, "p": p, "slow": slow}
                for name, ratio, p, slow in (("m2", 1.1, 1e-4, True), ("m1", 0.95, 0.9, False), ("m3", 0.94, 0.9, False))]  # fmt: skip
    return {
        "id": "nightly-20261122-100000", "name": "nightly", "engine": "slurm", "options": {}, "suite": {"name": "nightly"},
        "created": CREATED, "state": "PARTIAL",
        "tasks": [task(1, attempt(1, "m1", "LOST"), attempt(2, "m2", "DONE", seal)),
                  task(2, attempt(1, "m3", "LOST"), given_up="lost 1 times")],
        "measurements": [], "machines": {"machines": machines, "between": 0.05, "within": 0.01, "reason": ""},
        "format": 1, **more,
    }  # fmt: skip


def written(path, content=None):
    """A sealed bundle with a fleet; its folder."""
    bundle = Bundle.create_at(path)
    bundle.write_document(Document("fleet", "nightly", CREATED, json.loads(json.dumps(content or payload()))))
    bundle.write_manifest(evolve(example.manifest(), created=CREATED, complete=True, exit_code=1, skipped=[]))
    return bundle.path
