"""Rules on the memory of a row."""

from aiperf_analysis.advice.rules.rule import Evidence, Rule, Subject, counted
from aiperf_core.results.models import Verdict

_MEMORY = 1.20
_RESERVED = 2.0
_RESERVED_LEAST = 256 << 20
_FAULTS = 1000.0


def _memory_grew(subject: Subject) -> Evidence | None:
    mine = subject.row.memory.most_bytes if subject.row.memory else None
    base = subject.baseline.memory if subject.baseline else None
    theirs = base.most_bytes if base else None
    if subject.row.verdict is not Verdict.FASTER or not mine or not theirs or mine / theirs < _MEMORY:
        return None
    return {
        "peak memory / baseline's": counted(mine / theirs),
        "peak memory": counted(mine, "B"),
        "baseline's": counted(theirs, "B"),
    }


def _reserved(subject: Subject) -> Evidence | None:
    memory = subject.row.memory
    if memory is None or not memory.reserved_bytes or not memory.peak_bytes:
        return None
    spare = memory.reserved_bytes - memory.peak_bytes
    if memory.reserved_bytes / memory.peak_bytes < _RESERVED or spare < _RESERVED_LEAST:
        return None
    return {"reserved / used at the peak": counted(memory.reserved_bytes / memory.peak_bytes),
            "reserved but not used": counted(spare, "B")}  # fmt: skip


def _faults(subject: Subject) -> Evidence | None:
    found = subject.row.beside.get("minor_faults", 0.0)
    return {"page faults in a call": counted(found, "count")} if found >= _FAULTS else None


RULES = (
    Rule(
        name="row.memory_grew",
        fact="The version is faster and needs at least a fifth more memory than the baseline.",
        advice="Check the memory of the whole application, where batch size or cache may pay for it.",
        targets=("ch13.activation_memory", "ch13.chunked_cross_entropy"),
        find=_memory_grew,
    ),
    Rule(
        name="row.reserved_memory",
        fact="The allocator reserves at least twice the memory that is used at the peak.",
        advice="Reuse buffers of fixed size, or try expandable segments against fragmentation.",
        targets=("ch01.alloc_churn", "ch11.stream_ordered_alloc"),
        find=_reserved,
    ),
    Rule(
        name="row.page_faults",
        fact="Each call takes a thousand page faults or more.",
        advice="Allocate and touch the memory once before the calls, or use huge pages.",
        targets=("ch03.first_touch", "ch03.huge_pages", "ch01.alloc_churn"),
        find=_faults,
    ),
)
