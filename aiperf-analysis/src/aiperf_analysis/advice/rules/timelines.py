"""Rules on time lines of GPU work and on operators, by the PyTorch profiler and Nsight Systems."""

from aiperf_analysis.advice.rules.rule import Evidence, Rule, Source, Subject, counted, share
from aiperf_core.profiler import Hot
from aiperf_core.profiling.models import Profile

_MANY = 10
_SHORT_S = 5e-6
_IDLE = 0.20
_COPIES = 0.20
_SOME = 0.10
_OUTSIDE = 0.30
_OUTSIDE_S = 1e-3  # the profiler's own range takes a part of that
_OPERATORS = 50
_ELEMENTWISE = 0.30
_OVERLAPPED = 1.02
_LOADING = ("DataLoader", "enumerate(", "_MultiProcessingDataLoaderIter", "imread", "decode_jpeg")
_ELEMENT_KERNELS = ("elementwise_kernel", "vectorized_elementwise", "unrolled_elementwise")


def _timeline(subject: Subject) -> Profile | None:
    """The profile with a time line of the GPU."""
    for tool in ("nsys", "torch"):
        found = subject.profiles.get(tool)
        if found and "span_s" in found.observed.figures:
            return found
    return None


def _hot(profile: Profile, kind: str) -> list[Hot]:
    return [one for one in profile.observed.hot if one.kind == kind]


def _seconds(pieces: list[Hot]) -> float:
    return sum(one.seconds or 0.0 for one in pieces)


def _small_kernels(subject: Subject) -> Evidence | None:
    profile = _timeline(subject)
    count = profile.observed.figures.get("kernels", 0.0) if profile else 0.0
    if profile is None or count < _MANY:
        return None
    mean = _seconds(_hot(profile, "kernel")) / count
    if not 0 < mean < _SHORT_S:
        return None
    return {"kernels in a call": counted(count, "count"), "mean time of a kernel": counted(mean, "s")}


def _idle(subject: Subject) -> Evidence | None:
    profile = _timeline(subject)
    figures = profile.observed.figures if profile else {}
    if figures.get("idle_share", 0.0) < _IDLE or figures.get("gaps", 0.0) < 1:
        return None
    return {
        "GPU idle": share(figures["idle_share"]),
        "gaps between kernels": counted(figures["gaps"], "count"),
        "launches": counted(figures.get("launches", 0.0), "count"),
    }


def _copies(subject: Subject) -> Evidence | None:
    profile = _timeline(subject)
    copies = _hot(profile, "copy") if profile else []
    part = sum(one.share or 0.0 for one in copies)
    if part < _COPIES:
        return None
    return {"copies, of the GPU's work": share(part),
            "bytes copied": counted(sum(one.bytes or 0.0 for one in copies), "B")}  # fmt: skip


def _no_overlap(subject: Subject) -> Evidence | None:
    """Copies and kernels take turns: the busy time is the sum of all pieces."""
    profile = _timeline(subject)
    if profile is None:
        return None
    busy, copies = profile.observed.figures.get("busy_s", 0.0), _seconds(_hot(profile, "copy"))
    every = _seconds(profile.observed.hot)
    if not busy or not every or not _hot(profile, "kernel") or copies / every < _SOME or every / busy > _OVERLAPPED:
        return None
    return {"sum of all work / busy time": counted(every / busy), "copies, of the GPU's work": share(copies / every)}


def _pageable(subject: Subject) -> Evidence | None:
    profile = subject.profiles.get("torch")
    found = [one for one in _hot(profile, "copy") if "Pageable" in one.name] if profile else []
    moved = sum(one.bytes or 0.0 for one in found)
    return {"bytes copied from or to pageable memory": counted(moved, "B")} if moved >= 1 << 20 else None


def _host_reads(subject: Subject) -> Evidence | None:
    """Small copies to the host within a call whose GPU is idle: the host reads values before it goes on."""
    profile = _timeline(subject)
    if profile is None or profile.observed.figures.get("idle_share", 0.0) < _SOME:
        return None
    reads = [one for one in _hot(profile, "copy") if "DtoH" in one.name or "device to host" in one.name]
    small = [one for one in reads if one.count and (one.bytes or 0.0) / one.count <= 4096]
    count = sum(one.count or 0.0 for one in small)
    if count < 1:
        return None
    return {"small copies to the host": counted(count, "count"),
            "GPU idle": share(profile.observed.figures["idle_share"])}  # fmt: skip


def _elementwise(subject: Subject) -> Evidence | None:
    profile = _timeline(subject)
    kernels = _hot(profile, "kernel") if profile else []
    found = [one for one in kernels if any(part in one.name for part in _ELEMENT_KERNELS)]
    part, count = sum(one.share or 0.0 for one in found), sum(one.count or 0.0 for one in found)
    if count < 2 or part < _ELEMENTWISE:
        return None
    return {"elementwise kernels, of the GPU's work": share(part), "elementwise kernels": counted(count, "count")}


def _outside(subject: Subject) -> Evidence | None:
    profile = subject.profiles.get("torch")
    figures = profile.observed.figures if profile else {}
    if figures.get("outside_share", 0.0) < _OUTSIDE or figures.get("outside_s", 0.0) < _OUTSIDE_S:
        return None
    return {"share outside of operators": share(figures["outside_share"]),
            "time outside of operators": counted(figures.get("outside_s", 0.0), "s")}  # fmt: skip


def _operators(subject: Subject) -> Evidence | None:
    profile = subject.profiles.get("torch")
    figures = profile.observed.figures if profile else {}
    count = figures.get("operators", 0.0)
    mean = figures.get("call_s", 0.0) / count if count else 0.0
    if count < _OPERATORS or mean >= 4 * _SHORT_S:
        return None
    return {"operators in a call": counted(count, "count"), "mean time of an operator": counted(mean, "s")}


def _loading(subject: Subject) -> Evidence | None:
    profile = subject.profiles.get("torch")
    operators = _hot(profile, "operator") if profile else []
    found = [one for one in operators if any(part in one.name for part in _LOADING)]
    part = sum(one.share or 0.0 for one in found)
    return {"waiting for input data": share(part)} if part >= _SOME else None


GPU: tuple[Source, ...] = ("torch", "nsys")
TORCH: tuple[Source, ...] = ("torch",)

RULES = (
    Rule(
        name="profile.small_kernels", needs=GPU, find=_small_kernels,
        fact="A call is many kernels of a few microseconds.",
        advice="Fuse them, batch them, or replay them as a graph.",
        targets=("ch09.elementwise_fusion", "ch12.cuda_graphs", "ch01.launch_overhead"),
    ),
    Rule(
        name="profile.idle", needs=GPU, find=_idle,
        fact="The GPU is idle for a fifth of the call or more.",
        advice="Launch ahead of the device: no synchronisation in the call, a graph, or fewer and larger kernels.",
        targets=("ch12.cuda_graphs", "ch11.host_device_overlap", "labs.decode_ladder"),
    ),
    Rule(
        name="profile.copies", needs=GPU, find=_copies,
        fact="Copies are a fifth of the GPU's work or more.",
        advice="Keep data on the device, or copy less of it.",
        targets=("ch02.host_transfer", "ch07.vectorized_copy"),
    ),
    Rule(
        name="profile.no_overlap", needs=GPU, find=_no_overlap,
        fact="Copies and kernels take turns.",
        advice="Split the work into chunks, and copy the next chunk on a second stream.",
        targets=("ch11.copy_overlap", "ch11.event_dag"),
    ),
    Rule(
        name="profile.pageable_copies", needs=TORCH, find=_pageable,
        fact="Host memory of these copies is pageable.",
        advice="Copy from page-locked memory with non_blocking=True.",
        targets=("ch02.host_transfer",),
    ),
    Rule(
        name="profile.host_reads", needs=GPU, find=_host_reads,
        fact="The host reads small values from the GPU during the call, and the GPU is idle meanwhile.",
        advice="Decide on the device, or read the values some steps later.",
        targets=("ch11.host_device_overlap", "ch01.metric_sync", "ch12.graph_while"),
    ),
    Rule(
        name="profile.elementwise", needs=GPU, find=_elementwise,
        fact="Elementwise kernels are 30 % of the GPU's work or more.",
        advice="Fuse them by torch.compile or a kernel of your own.",
        targets=("ch09.elementwise_fusion", "ch14.compile_modes"),
    ),
    Rule(
        name="profile.outside_operators", needs=TORCH, find=_outside,
        fact="A call spends 30 % of its time outside of operators: in Python, or in C code without operators.",
        advice="Sample the host with --tool perf; move loops into operators, or compile them.",
        targets=("ch14.compile_modes", "ch01.launch_overhead"),
    ),
    Rule(
        name="profile.many_operators", needs=TORCH, find=_operators,
        fact="A call is many operators of a few microseconds each.",
        advice="Compile the function, or use operators that do more.",
        targets=("ch14.compile_modes", "ch09.elementwise_fusion"),
    ),
    Rule(
        name="profile.input_wait", needs=TORCH, find=_loading,
        fact="The call waits for input data.",
        advice="Prepare inputs in other processes, ahead of their use, and page-locked.",
        targets=("labs.image_pipeline", "ch05.file_read"),
    ),
)  # fmt: skip
