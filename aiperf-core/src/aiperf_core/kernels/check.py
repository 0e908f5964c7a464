"""Compiles all kernels of modules for several architectures, and reports each outcome."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import evolve, field, frozen

from aiperf_core.claims import SassClaim
from aiperf_core.errors import AiperfError, KernelError, SkipError, UsageError
from aiperf_core.kernels.archs import arch_for, fits, parse_arch
from aiperf_core.kernels.cuda import CudaSource
from aiperf_core.kernels.host import HostSource
from aiperf_core.kernels.nvrtc import known_archs
from aiperf_core.kernels.resources import Resources, resources_of, spills_in
from aiperf_core.kernels.sass import failures, opcodes_of
from aiperf_core.kernels.triton import TritonSource
from aiperf_core.kernels.triton_launches import TritonAhead

Source = CudaSource | HostSource | TritonSource

# The default architectures: one each of Ampere, Hopper and Blackwell.
USUAL_ARCHS = ("sm_80", "sm_90a", "sm_100a")


@runtime_checkable
class _Benchmark(Protocol):
    """A benchmark, as far as its kernels are concerned."""

    claims: list[SassClaim]
    implementations: list[Any]

    @property
    def tried_sizes(self) -> list[dict[str, float]]:
        """All sizes at which its implementations are run or tested."""

    def rehearse(self, implementation: Any, sizes: Mapping[str, float]) -> None:
        """Prepare and run an implementation once on tensors without values."""


@frozen
class Outcome:
    """One compilation.

    target, file: the target and its source file.
    kind: `cuda`, `triton`, `host`, or `module` for a module that cannot be imported.
    arch: the architecture, as asked for.
    kernel: a Triton kernel; empty for files that are compiled as a whole.
    status: `ok`, `failed` or `skipped`.
    reason: why it is not ok.
    size_bytes: of the machine code.
    resources: of each kernel by name.
    claims: the claims about its machine code that hold.
    instructions: how many of each opcode a kernel has, by name of the kernel; empty where they were not counted.
    """

    target: str
    file: str
    kind: str
    arch: str
    kernel: str = ""
    status: str = "ok"
    reason: str = ""
    size_bytes: int = 0
    resources: dict[str, Resources] = field(factory=dict)
    claims: list[str] = field(factory=list)
    instructions: dict[str, dict[str, int]] = field(factory=dict)


def sources_in(module_name: str) -> list[Source]:
    """Import a module and return the kernel sources at its top level, each once."""
    values = vars(import_module(module_name)).values()
    return list(dict.fromkeys(value for value in values if isinstance(value, CudaSource | HostSource | TritonSource)))


def compile_all(
    modules: Iterable[tuple[str, str]],
    archs: Sequence[str] = (),
    keep: Path | None = None,
    jobs: int = 1,
    *,
    count: bool = False,
) -> Iterator[Outcome]:
    """Compile the kernels of `modules`, pairs of the names of a target and its module.

    archs: compile for exactly these; those that do not fit a file are reported as skipped. Without any, each file is
        compiled for its declared architectures and those of `USUAL_ARCHS` that fit.
    keep: a folder for the machine code.
    jobs: the number of processes that compile at the same time.
    count: whether to count the instructions of kernels, as far as there is a disassembler.

    Raises `UsageError` for an architecture that NVRTC does not know.
    """
    _check(archs)
    of_module = partial(_of_module, archs=archs, keep=keep, count=count)
    if jobs == 1:
        yield from chain.from_iterable(map(of_module, modules))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from chain.from_iterable(pool.map(of_module, modules))


def _check(archs: Sequence[str]) -> None:
    try:
        known = known_archs()
    except SkipError:  # each CUDA file reports the missing NVRTC
        known = ()
    for arch in archs:
        if known and arch not in known:
            raise UsageError(f"--arch {arch!r} is not an architecture of this NVRTC; accepted: {', '.join(known)}")
        parse_arch(arch)


def _of_module(module: tuple[str, str], archs: Sequence[str], keep: Path | None, count: bool) -> list[Outcome]:
    target, name = module
    try:
        sources = sources_in(name)
    except SkipError as error:
        return [Outcome(target, name, "module", "", status="skipped", reason=str(error))]
    except Exception as error:  # a benchmark may raise anything; the other targets are still worth checking
        reason = str(error) if isinstance(error, AiperfError) else f"{type(error).__name__}: {error}"
        return [Outcome(target, name, "module", "", status="failed", reason=f"could not be imported: {reason}")]
    claims = claims_in(name)
    outcomes: list[Outcome] = []
    for source in sources:
        ahead: list[TritonAhead] = []
        if isinstance(source, TritonSource):
            try:
                ahead = launches_in(name, source)
            except KernelError as error:
                outcomes.append(Outcome(target, source.path.name, source.kind, "", status="failed", reason=str(error)))
            except SkipError as error:
                outcomes.append(Outcome(target, source.path.name, source.kind, "", status="skipped", reason=str(error)))
        outcomes += _of_source(target, source, archs, keep, claims, instances_in(name, source), ahead, count)
    known = {symbol for outcome in outcomes for symbol in outcome.resources}
    for claim in claims:
        if known and not any(map(claim.is_about, known)):
            reason = f"claims about kernel {claim.kernel!r}, and no file has it; there are {', '.join(sorted(known))}"
            outcomes.append(Outcome(target, name, "claim", "", claim.kernel, "failed", reason))
    return outcomes


def claims_in(module_name: str) -> list[SassClaim]:
    """The claims about machine code of the benchmark in a module."""
    return [claim for bench in _benchmarks_in(module_name) for claim in bench.claims]


def instances_in(module_name: str, source: Source) -> list[str]:
    """The instances of a file's templates: those declared, and those that ready implementations launch at any size."""
    found: dict[str, None] = dict.fromkeys(source.instances if isinstance(source, CudaSource) else ())
    for bench in _benchmarks_in(module_name):
        codes = [one.code for one in bench.implementations if hasattr(one.code, "kernel_at")]
        launched = [code for code in codes if code.ready.source is source]
        found |= dict.fromkeys(code.kernel_at(sizes) for sizes in bench.tried_sizes for code in launched)
    return [name for name in found if "<" in name]


def launches_in(module_name: str, source: TritonSource) -> list[TritonAhead]:
    """The types and constants of a Triton file's kernels: those declared, and those of launches at the presets.

    Raises `KernelError` where launches cannot be rehearsed or make none, and `SkipError` where triton is missing.
    """
    benches = _benchmarks_in(module_name)
    launching = [(bench, one) for bench in benches for one in bench.implementations if _tells(bench, one, source)]
    unknown = sorted(set(source.launched_by) - {one.name for _, one in launching})
    if unknown:
        raise KernelError(f"{source.path.name} is launched_by {', '.join(unknown)}, which no implementation is named")
    found = list(source.ahead)
    for bench, one in launching:
        found += [ahead for ahead in _rehearsed(bench, one, source) if ahead not in found]
    if not found:
        raise KernelError(f"no launch of {source.path.name} is declared; give launched_by=(...) or triton_ahead(...)")
    return found


def _rehearsed(bench: Any, implementation: Any, source: TritonSource) -> list[TritonAhead]:
    """The launches of an implementation at the presets for GPUs; those of `smoke` where there are no others."""
    presets = bench.task.presets
    skipped = "it launches none"
    with source.recording() as launches:
        for sizes in [presets[name] for name in presets if name not in ("smoke", "cpu")] or [presets["smoke"]]:
            try:
                bench.rehearse(implementation, sizes)
            except SkipError as error:  # may be right at one preset, and not at all of them
                skipped = str(error)
            except Exception as error:  # code of an author, on tensors that it was not written for
                raise KernelError(_not_told(source, implementation, f"{type(error).__name__}: {error}")) from None
    if not launches:
        raise KernelError(_not_told(source, implementation, skipped))
    return launches


def _not_told(source: TritonSource, implementation: Any, why: str) -> str:
    first = why.partition("\n")[0].removesuffix(".")
    return (
        f"the arguments of {source.path.name} cannot be inferred from {implementation.name!r}: {first}. "
        "Declare their types by triton_ahead(...)"
    )


def _tells(bench: _Benchmark, implementation: Any, source: TritonSource) -> bool:
    """Tell whether launches are to be inferred: those of `launch(...)` without a `triton_ahead`, and those named."""
    code = implementation.code
    if implementation.device != "cuda" or getattr(getattr(code, "ready", None), "source", None) is not source:
        return implementation.device == "cuda" and implementation.name in source.launched_by
    declared = {ahead.kernel for ahead in source.ahead}
    return not any(code.kernel_at(sizes) in declared for sizes in bench.tried_sizes)


def _benchmarks_in(module_name: str) -> list[_Benchmark]:
    values = vars(import_module(module_name)).values()
    return [value for value in values if isinstance(value, _Benchmark) and not isinstance(value, type)]


def _of_source(
    target: str,
    source: Source,
    archs: Sequence[str],
    keep: Path | None,
    claims: Sequence[SassClaim],
    instances: Sequence[str],
    launches: Sequence[TritonAhead],
    count: bool,
) -> Iterator[Outcome]:
    if isinstance(source, HostSource):
        yield _compiled(Outcome(target, source.path.name, source.kind, "native"), source, None, None, (), (), False)
        return
    kernels: Sequence[TritonAhead | None] = launches if isinstance(source, TritonSource) else (None,)
    usual = (arch_for(parse_arch(machine), source.archs) for machine in (*source.archs, *USUAL_ARCHS))
    for arch in dict.fromkeys(archs or filter(None, usual)):
        for ahead in kernels:
            outcome = Outcome(target, source.path.name, source.kind, arch, ahead.kernel if ahead else "")
            if fits(parse_arch(arch), source.archs):
                yield _compiled(outcome, source, ahead, keep, claims, instances, count)
            else:
                yield evolve(outcome, status="skipped", reason=f"needs {' or '.join(source.archs)}")


def _compiled(
    outcome: Outcome,
    source: Source,
    ahead: TritonAhead | None,
    keep: Path | None,
    claims: Sequence[SassClaim],
    instances: Sequence[str],
    count: bool,
) -> Outcome:
    names: dict[str, str] = {}  # of instances of templates, by symbol
    try:
        if isinstance(source, HostSource):
            return evolve(outcome, size_bytes=len(source.compile()))
        if isinstance(source, CudaSource):
            compiled = source.compile_instances(outcome.arch, instances)
            code, log = compiled.code, compiled.log.decode(errors="replace")
            names = {symbol: instance for instance, symbol in compiled.symbols.items()}
            used = resources_of(code, parse_arch(outcome.arch), spills_in(log))
            used = {names.get(symbol, symbol): resources for symbol, resources in used.items()}
        else:
            assert ahead is not None
            code, metadata = source.compile_with_metadata(ahead, outcome.arch)
            used = _of_triton(resources_of(code, parse_arch(outcome.arch), {}), metadata.shared)
    except SkipError as error:
        return evolve(outcome, status="skipped", reason=str(error))
    except AiperfError as error:
        return evolve(outcome, status="failed", reason=str(error))
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        parts = [outcome.target, Path(outcome.file).stem, outcome.kernel, outcome.arch]
        (keep / f"{'.'.join(part for part in parts if part)}.cubin").write_bytes(code)
    compiled_outcome = evolve(outcome, size_bytes=len(code), resources=used)
    if count:
        compiled_outcome = evolve(compiled_outcome, instructions=_counted(code, names))
    return _claimed(compiled_outcome, code, claims, names)


def _counted(code: bytes, names: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """How many of each opcode the kernels have, without the parts behind its first dot."""
    try:
        found = opcodes_of(code)
    except SkipError:  # no disassembler, or none for this architecture: the report says so
        return {}
    counts = {symbol: Counter(opcode.partition(".")[0] for opcode in codes) for symbol, codes in found.items()}
    return {names.get(symbol, symbol): dict(sorted(count.items())) for symbol, count in counts.items()}


def _claimed(outcome: Outcome, code: bytes, claims: Sequence[SassClaim], names: Mapping[str, str]) -> Outcome:
    """An outcome with the claims about its kernels; failed where one does not hold, skipped where none can be read."""
    about = [
        claim
        for claim in claims
        if outcome.arch in (claim.archs or (outcome.arch,)) and any(map(claim.is_about, outcome.resources))
    ]
    if not about:
        return outcome
    try:
        opcodes = {names.get(symbol, symbol): codes for symbol, codes in opcodes_of(code).items()}
    except SkipError as error:
        return evolve(outcome, status="skipped", reason=f"its machine code cannot be compared with claims: {error}")
    wrong: list[str] = []
    for claim in about:
        wrong += failures(claim, {name: codes for name, codes in opcodes.items() if claim.is_about(name)})
    if wrong:
        return evolve(outcome, status="failed", reason="the machine code is not as claimed: " + "; ".join(wrong))
    return evolve(outcome, claims=[claim.kernel for claim in about])


def _of_triton(found: dict[str, Resources], shared_bytes: int) -> dict[str, Resources]:
    """With the shared memory, which Triton requests at the launch. Its kernels use the stack for spills only."""
    return {name: evolve(one, shared_bytes=shared_bytes, spill_bytes=one.stack_bytes) for name, one in found.items()}
