"""Global state that an implementation changed in its process, or set otherwise than the baseline.

The snapshots are claims of that process: a difference is proof, and no difference is none. What decides a time or an
answer is in other processes.
"""

from typing import Any

from attrs import frozen

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

_PRECISION = "workload.backend_precision_policy_drift"
_SETTINGS, _COMPILER = "environment.process_settings", "compile.inductor_asymmetry"
_CODE, _PROFILER = "tamper.code_objects", "timing.profiler_overhead"
# The issue of a difference, by its kind. Settings that honest code may change are a mild one.
_ISSUES = {
    "precision": _PRECISION,
    "denormals": "output.denormalized_values",
    "threads": _SETTINGS,
    "modes": "tamper.function_mode",
    "libraries": _SETTINGS,
    "settings": _SETTINGS,
    "compiler": _COMPILER,
    "signals": _SETTINGS,
    "timers": "location.work_between_calls",
    "hooks": _CODE,
    "profilers": _PROFILER,
    "process": _SETTINGS,
    "stream": _SETTINGS,
    "clock": "tamper.clock",
    "waiting": "tamper.synchronize",
    "comparison": "tamper.comparison",
    "tensors": _CODE,
    "random": "tamper.random_numbers",
    "statistics": "tamper.statistics",
    "writer": "tamper.result_writer",
    "collector": _CODE,
    "builtins": _CODE,
    "library_timer": "tamper.do_bench",
    "harness": _CODE,
    "objects": _CODE,
}
_SAID = {
    _PRECISION: "process settings reduce the numerical precision",
    "output.denormalized_values": "the processor flushes subnormal numbers to zero (as with -ffast-math at link time)",
    _SETTINGS: "process-wide settings differ",
    _COMPILER: "options of the compiler differ",
    "tamper.function_mode": "modes that intercept torch calls were left active",
    "location.work_between_calls": "a timer that interrupts the process was left running",
    _CODE: "functions, hooks or objects were replaced",
    _PROFILER: "a profiler was left running; it adds time to calls",
    "tamper.clock": "clock functions were replaced",
    "tamper.synchronize": "synchronization functions were replaced",
    "tamper.comparison": "comparison functions were replaced",
    "tamper.random_numbers": "random number functions were replaced",
    "tamper.statistics": "statistics functions were replaced",
    "tamper.result_writer": "output and message functions were replaced",
    "tamper.do_bench": "a library's timer was replaced",
    "tamper.cache_flush": "the cache flush was replaced",
}
# Kinds of which only a change to the looser side counts: more exactness gains nothing.
_LOOSER = ("precision", "denormals")
# Kinds that must also be alike in the baseline's process.
_COMPARED = ("precision", "denormals", "libraries", "compiler")
# How loose each value of a switch is. 'none' leaves it to another switch, which is watched too.
_ORDER = {"ieee": 0, "highest": 0, "none": 0, "tf32": 1, "high": 1, "bf16": 2, "medium": 2}
_ON_GPUS = ("cuda", "cudnn", "sdp", "NVIDIA", "TORCH_ALLOW_TF32")
_NAMED = 4


@frozen
class Difference:
    """A difference between two snapshots.

    key: `group.name`.
    before, after: the values; None where there is none.
    kind: of the snapshot, a key of `_ISSUES`.
    """

    key: str
    before: Any
    after: Any
    kind: str


def look(evidence: Evidence) -> list[Seen] | NotObserved:
    """Compare the worker's state before with that after, and that after with the baseline's."""
    if evidence.state_before is None or evidence.state_after is None:
        return NotObserved("there are no snapshots of the worker's process from before and after the calls")
    changed = changes(evidence.state_before, evidence.state_after)
    seen = _told(changed, "after the calls", ("before", "after"))
    known = {one.key for one in changed}
    others = [one for one in _unlike_baseline(evidence) if one.key not in known]
    return seen + _told(others, "beside the baseline", ("baseline", "this"))


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """The differences between two snapshots that count."""
    return _counting(differences(before, after))


def _unlike_baseline(evidence: Evidence) -> list[Difference]:
    baseline, ours = evidence.baseline, evidence.state_after or {}
    if baseline is None or baseline.state_after is None:
        return []
    shared = [kind for kind in _COMPARED if kind in baseline.state_after]
    found = differences({kind: baseline.state_after[kind] for kind in shared}, ours)
    if evidence.device.startswith("cuda"):
        return _counting(found)
    # Keys are `group.switch`. Where no GPU computes, the switches of GPUs do not matter.
    return [one for one in _counting(found) if not one.key.partition(".")[2].startswith(_ON_GPUS)]


def _counting(found: list[Difference]) -> list[Difference]:
    return [one for one in found if one.kind not in _LOOSER or _looser(one.before, one.after)]


def _looser(before: Any, after: Any) -> bool:
    """Whether a switch was turned to the less exact side, or to an unknown value."""
    if isinstance(before, bool) and isinstance(after, bool):
        return after and not before
    ranks = [_ORDER.get(value) if isinstance(value, str) else None for value in (before, after)]
    if ranks[0] is not None and ranks[1] is not None:
        return ranks[1] > ranks[0]
    # torch refuses to read some flags after the use of a newer switch, which is read instead.
    return after not in (None, "0")


def _told(found: list[Difference], when: str, names: tuple[str, str]) -> list[Seen]:
    """One finding an issue."""
    by_issue: dict[str, list[Difference]] = {}
    for one in found:
        by_issue.setdefault(_issue(one), []).append(one)
    return [_seen(issue, ones, when, names) for issue, ones in by_issue.items()]


def _issue(one: Difference) -> str:
    if one.kind in ("harness", "objects") and "flush" in one.key.lower():
        return "tamper.cache_flush"
    return _ISSUES.get(one.kind, _CODE)


def _seen(issue: str, found: list[Difference], when: str, names: tuple[str, str]) -> Seen:
    first = [_in_words(one) for one in found[:_NAMED]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    said = f"{_SAID[issue]}, {when}: {'; '.join(first)}{more}"
    return Seen(issue, said, {one.key: dict(zip(names, (one.before, one.after), strict=True)) for one in found})


def _in_words(one: Difference) -> str:
    if one.after is None:
        return f"{one.key} is gone"
    if one.before is None:
        return f"{one.key} is {one.after}"
    return f"{one.key} is {one.after}, not {one.before}"


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """The differences between two snapshots, in their order.

    A group that only the later one has is a module imported meanwhile, and no difference. A new name in a known group
    is a difference, and so is all that is gone.
    """
    found = []
    for kind, groups in before.items():
        for group, old in groups.items():
            new = after.get(kind, {}).get(group, {})
            if kind == "objects":
                new = {name: value for name, value in new.items() if name in old}
            for name in [*old, *(name for name in new if name not in old)]:
                if old.get(name) != new.get(name):
                    found.append(Difference(f"{group}.{name}", old.get(name), new.get(name), kind))
    return found


CHECK = Check("global_state", look)
