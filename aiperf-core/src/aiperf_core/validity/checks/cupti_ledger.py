"""The GPU's work as CUPTI recorded it: whether the GPU did it, within the calls, and whose kernels did it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

from aiperf_core import units
from aiperf_core.measurements import Audit, Work
from aiperf_core.stats.mann_whitney import chance_of_excess
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.checks.self_check import call_times
from aiperf_core.validity.evidence import Evidence

# Names that kernels of libraries carry: cuBLAS, cuDNN, NCCL, CUB and torch's own.
_LIBRARY = re.compile(
    r"cublas|cudnn|cutlass_\d|_xmma_|nvjet|implicit_convolve|splitKreduce_kernel|gemv2[NT]_kernel|gemvNSP_kernel|gemvx::"
    r"|(maxwell|volta|turing|ampere)_\w*gemm|nccl|cub::|thrust::|at::native|at_cuda|pytorch_flash|fmha_cutlass"
)
# Parts of all time in kernels: of the kernels that do the work, and of one that does none.
_MOST, _SHOW = 0.9, 0.05
# Smaller copies to and from the host carry a flag or a number.
_LEAST_BYTES = 4096
# A GPU that is idle for this part of a call waits for the host.
_WAITS = 0.5
# What queueing a piece of work costs the host at most, and what a call costs it in any case.
_QUEUE_S, _CALL_S = 50e-6, 200e-6
# Two times, or two peaks of memory, that differ by less are the same.
_SAME = 0.05
# So are times that samples of one code show this often by chance: of the caller's clock there are few.
_BY_CHANCE = 0.01


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Check what CUPTI recorded of a call, against the baseline's."""
    audit = evidence.audit
    if evidence.device.partition(":")[0] != "cuda":
        return NotObserved("CUPTI records the work of GPUs only")
    if audit is None:
        return NotObserved("CUPTI did not record calls of this row")
    if not audit.work or not audit.span_s or len(audit.span_s) != len(audit.event_s):
        calls = f"{len(audit.span_s)} of {len(audit.event_s)} calls"
        message = f"CUPTI's record is incomplete: {calls}, {len(audit.work)} kinds of work"
        return [Seen("timing.not_audited", message, {"calls": len(audit.event_s), "recorded": len(audit.span_s)})]
    looks: tuple[Callable[[Evidence, Audit], Seen | None], ...] = (_spilled, _outside, _policy)
    return [seen for one in looks if (seen := one(evidence, audit)) is not None]


# --- where the work is done


def _spilled(evidence: Evidence, audit: Audit) -> Seen | None:
    """Find work of the GPU that the host does.

    Either the GPU waits within a call for results of the host, or the host computes before it queues anything, which
    the GPU's clock does not see. A host that is slow to queue many kernels does not count. Where the baseline exchanges
    data with the host too, the workload needs it.
    """
    if evidence.role == "baseline":
        return None
    baseline = evidence.baseline.audit if evidence.baseline else None
    kernels, before = _kernel_s(audit), _kernel_s(baseline) if baseline else 0.0
    span = median(audit.span_s)
    moved, usual = _host_bytes(audit), _host_bytes(baseline) if baseline else 0
    if (before > 0 and kernels > 0.5 * before) or (kernels and usual >= _LEAST_BYTES):
        return None
    waits = 1 - min(1.0, sum(piece.seconds for piece in audit.work) / span) if span > 0 else 0.0
    host_s, allowed_s = _host_s(evidence) or 0.0, _CALL_S + _QUEUE_S * sum(piece.count for piece in audit.work)
    if evidence.baseline:
        allowed_s = max(allowed_s, 2 * (_host_s(evidence.baseline) or 0.0))
    if waits > _WAITS and moved >= _LEAST_BYTES and span > _CALL_S and kernels < 0.1 * span:
        message = (
            f"the GPU waits for {units.percent(waits)} of a call, in which {moved:,} bytes go to and from the host"
        )
    elif host_s > allowed_s and host_s > span and (moved >= _LEAST_BYTES or not kernels):
        message = f"the host is busy for {host_s:.3g} s before a call of which the GPU sees {span:.3g} s"
    else:
        return None
    figures = {"kernel_s": kernels, "baseline_kernel_s": before, "host_bytes": moved, "waits": waits, "host_s": host_s}
    return Seen("location.cpu_spillover", f"{message}; its kernels take {kernels:.3g} s", figures)


def _host_bytes(audit: Audit) -> int:
    """The bytes that a call copies to and from the host."""
    return sum(one.bytes for one in audit.work if one.kind == "copy" and ("HtoD" in one.name or "DtoH" in one.name))


def _host_s(evidence: Evidence) -> float | None:
    """How much longer a call takes by the caller's clock than by the GPU's, in seconds."""
    wall, device = ([time for _, time in call_times(evidence.samples, clock)] for clock in ("wall", "device"))
    return max(0.0, median(wall) - median(device)) if wall and device else None


def _outside(evidence: Evidence, audit: Audit) -> Seen | None:
    """Find work of the GPU for the row that lies in no call, whatever launched it."""
    if audit.stray <= 0:
        return None
    message = f"the GPU executed {audit.stray} operations outside all calls and outside all timed events"
    return Seen("cuda.cooperative_launch_abuse", message, {"stray": audit.stray, "threads": audit.threads})


# --- whose work it is


def _policy(evidence: Evidence, audit: Audit) -> Seen | None:
    """Find a variant that is a library's work. Yardsticks and baselines may be."""
    baseline = evidence.baseline.audit if evidence.baseline else None
    if evidence.role != "variant" or baseline is None:
        return None
    kernels, theirs = _kernels(audit), _kernels(baseline)
    share, their_share = _library_share(kernels), _library_share(theirs)
    own = sorted({one.name for one in kernels if not _LIBRARY.search(one.name)})
    figures = {"library_share": share, "kernels": sorted({one.name for one in kernels}), "own": own}
    if not kernels or share < _MOST:
        return None
    if own and 1 - share < _SHOW and not _counts(theirs) - _counts(kernels):
        names = ", ".join(own)
        took = f"a kernel of its own takes {units.percent(1 - share)} of the time"
        message = f"{took}, beside all kernels of the baseline: {names}"
        return Seen("policy.decoy_kernel", message, figures)
    if own:
        return None
    if evidence.extensions:
        loaded = ", ".join(evidence.extensions)
        message = f"a compiled extension is loaded ({loaded}), but only kernels of a library ran"
        return Seen("policy.wrapper_extension", message, {**figures, "extensions": evidence.extensions})
    if their_share < _MOST:
        message = "kernels of a library do all the work; the baseline has kernels of its own"
        return Seen("policy.library_fallback", message, figures)
    if _counts(kernels) == _counts(theirs) and _alike(evidence) and not _takes_less(evidence):
        message = "the kernels, their counts and their time are those of the baseline: no other code was reached"
        return Seen("policy.ghost_branch", message, figures)
    return None


def _kernels(audit: Audit) -> list[Work]:
    return [piece for piece in audit.work if piece.kind == "kernel"]


def _kernel_s(audit: Audit) -> float:
    return sum(piece.seconds for piece in _kernels(audit))


def _library_share(kernels: list[Work]) -> float:
    """The share of libraries' kernels in the time of all."""
    whole = sum(one.seconds for one in kernels)
    return sum(one.seconds for one in kernels if _LIBRARY.search(one.name)) / whole if whole > 0 else 0.0


def _counts(kernels: list[Work]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in kernels:
        found[one.name] += one.count
    return found


def _alike(evidence: Evidence) -> bool:
    """Whether no clock shows that the sides differ in time. A graph of the same kernels spares the caller time."""
    assert evidence.baseline is not None
    compared = False
    for clock in ("device", "wall"):
        ours, theirs = ([time for _, time in call_times(one.samples, clock)] for one in (evidence, evidence.baseline))
        if ours and theirs:
            if _differ(ours, theirs):
                return False
            compared = True
    return compared


def _differ(ours: list[float], theirs: list[float]) -> bool:
    less, more = sorted((ours, theirs), key=median)
    return median(more) - median(less) > _SAME * median(more) and chance_of_excess(more, less) < _BY_CHANCE


def _takes_less(evidence: Evidence) -> bool:
    """Whether it needs less memory than the baseline. The same kernels may reuse memory."""
    assert evidence.baseline is not None
    ours, theirs = (one.memory.most_bytes if one.memory else None for one in (evidence, evidence.baseline))
    return ours is not None and theirs is not None and ours < (1 - _SAME) * theirs


CHECK = Check("cupti_ledger", look)
