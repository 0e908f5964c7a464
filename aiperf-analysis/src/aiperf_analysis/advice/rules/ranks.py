"""Rules on the ranks of a distributed row and what they send."""

from statistics import median

from aiperf_analysis.advice.rules.rule import Evidence, Rule, Subject, counted

_UNEQUAL = 1.10
_WIRE = 1.25
_MANY = 8
_SMALL_MESSAGE = 1 << 20


def _ranks(subject: Subject) -> Evidence | None:
    times = [one.time_s for one in subject.row.ranks if one.time_s > 0]
    if len(times) < 2 or max(times) / median(times) < _UNEQUAL:
        return None
    slowest = max(subject.row.ranks, key=lambda one: one.time_s)
    return {"slowest rank / median rank": counted(max(times) / median(times)),
            "number of the slowest rank": counted(slowest.rank, "count")}  # fmt: skip


def _wire_over(subject: Subject) -> Evidence | None:
    need, ranks = subject.result.problem.wire_bytes, subject.row.ranks
    if not need or not ranks:
        return None
    sent = sum(one.wire_bytes for one in ranks) / len(ranks)
    return {"bytes sent / bytes needed": counted(sent / need)} if sent / need >= _WIRE else None


def _small_collectives(subject: Subject) -> Evidence | None:
    ranks = subject.row.ranks
    count = max((sum(one.collectives.values()) for one in ranks), default=0)
    if count < _MANY:
        return None
    size = max(one.wire_bytes for one in ranks) / count
    if not 0 < size < _SMALL_MESSAGE:
        return None
    return {"collectives in a call": counted(count, "count"), "bytes of a collective": counted(size, "B")}


RULES = (
    Rule(
        name="row.unequal_ranks",
        fact="One rank works a tenth longer than the median rank, or more.",
        advice="Balance the work: the step ends with the slowest rank.",
        targets=("ch15.expert_load_balance", "ch04.all_to_all"),
        find=_ranks,
    ),
    Rule(
        name="row.wire_bytes",
        fact="Ranks send a quarter more bytes than the work needs, or more.",
        advice="Remove padding and repeated transfers.",
        targets=("ch04.all_to_all", "ch04.grad_accum_sync"),
        find=_wire_over,
    ),
    Rule(
        name="row.small_collectives",
        fact="A call has many collectives of less than a MiB.",
        advice="Join tensors in buckets, or use a method for small messages.",
        targets=("ch04.allreduce_fusion", "ch04.allreduce_small"),
        find=_small_collectives,
    ),
)
