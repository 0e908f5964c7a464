"""Probes of environment variables."""

from collections.abc import Callable, Collection

from aiperf_analysis.advice.probes.gpu import of_gpu
from aiperf_analysis.advice.probes.seen import Answer, Seen, absent, decided
from aiperf_core.names import words

_OFF = ("", "0")
_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")
_PLAIN = (*_OFF, "PYMALLOC", "MALLOC")
_CUBLAS = (":4096:8", ":16:8")


def _unset(*names: str, fine: Collection[str] = ("",)) -> Callable[[Seen], Answer]:
    """A probe that holds if each variable is absent or has an accepted value, in any case."""

    def probe(seen: Seen) -> Answer:
        bad = {name: value for name in names if (value := seen.environ.get(name, "")).upper() not in fine}
        told = ", ".join(f"{name}={words(value)}" for name, value in bad.items())
        return decided(not bad, told or f"{', '.join(names)} not set, or harmless")

    return probe


def _hash_seed(seen: Seen) -> Answer:
    found = seen.environ.get("PYTHONHASHSEED", "")
    return decided(found.isdecimal(), f"PYTHONHASHSEED={words(found)}" if found else "PYTHONHASHSEED is not set")


@of_gpu
def _cublas_workspace(seen: Seen) -> Answer:
    found = seen.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    told = f"CUBLAS_WORKSPACE_CONFIG={words(found)}" if found else "CUBLAS_WORKSPACE_CONFIG is not set"
    return decided(found in _CUBLAS, told)


@of_gpu
def _alloc_conf(seen: Seen) -> Answer:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    found = {name: seen.environ[name] for name in names if name in seen.environ}
    told = ", ".join(f"{name}={words(value)}" for name, value in found.items())
    good = any("expandable_segments:true" in value.lower() for value in found.values())
    return decided(good, told or f"{' and '.join(names)} are not set")


@of_gpu
def _visible_devices(seen: Seen) -> Answer:
    if len(seen.boards) < 2:
        return absent("a single GPU")
    found = seen.environ.get("CUDA_VISIBLE_DEVICES")
    return decided(bool(found), f"CUDA_VISIBLE_DEVICES={words(found or '')}" if found is not None else "not set")


@of_gpu
def _nccl_interface(seen: Seen) -> Answer:
    from aiperf_analysis.advice.probes.host import interfaces

    names = [path.name for path in interfaces(seen)]
    if len(names) < 2:
        return absent("fewer than two network interfaces")
    found = seen.environ.get("NCCL_SOCKET_IFNAME", "")
    told = f"NCCL_SOCKET_IFNAME={words(found)}" if found else f"not set; interfaces: {', '.join(map(words, names))}"
    return decided(bool(found), told)


def _allocator(seen: Seen) -> Answer:
    found = seen.environ.get("LD_PRELOAD", "")
    named = [name for name in _ALLOCATORS if name in found]
    return decided(bool(named), f"LD_PRELOAD has {', '.join(named)}" if named else "the allocator of the system")


def _omp_threads(seen: Seen) -> Answer:
    found, usable = seen.environ.get("OMP_NUM_THREADS", ""), seen.fact("usable_cpus")
    if not found.isdecimal():
        return decided(False, "OMP_NUM_THREADS is not set")
    return decided(0 < int(found) <= usable, f"OMP_NUM_THREADS={found} on {usable} usable processors")


def _omp_binding(seen: Seen) -> Answer:
    names = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
    found = {name: seen.environ[name] for name in names if seen.environ.get(name, "").lower() not in ("", "false")}
    told = ", ".join(f"{name}={words(value)}" for name, value in found.items())
    return decided(bool(found), told or f"{', '.join(names)} are not set")


PROBES: dict[str, Callable[[Seen], Answer]] = {
    "env.hash_seed": _hash_seed,
    "env.cublas_workspace": _cublas_workspace,
    "env.alloc_conf": _alloc_conf,
    "env.visible_devices": _visible_devices,
    "env.launch_blocking": of_gpu(_unset("CUDA_LAUNCH_BLOCKING", fine=_OFF)),
    "env.module_loading": of_gpu(_unset("CUDA_MODULE_LOADING", fine=("", "LAZY", "DEFAULT"))),
    "env.nccl_debug": of_gpu(_unset("NCCL_DEBUG", fine=("", "VERSION", "WARN"))),
    "env.nccl_p2p": of_gpu(_unset("NCCL_P2P_DISABLE", fine=_OFF)),
    "env.nccl_ib": of_gpu(_unset("NCCL_IB_DISABLE", fine=_OFF)),
    "env.nccl_shm": of_gpu(_unset("NCCL_SHM_DISABLE", fine=_OFF)),
    "env.nccl_forced": of_gpu(_unset("NCCL_ALGO", "NCCL_PROTO")),
    "env.nccl_interface": _nccl_interface,
    "env.distributed_debug": _unset("TORCH_DISTRIBUTED_DEBUG", fine=("", "OFF")),
    "env.torch_debug": _unset("TORCH_LOGS", "TORCH_SHOW_CPP_STACKTRACES", "TORCH_COMPILE_DEBUG", fine=_OFF),
    "env.python_debug": _unset("PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONMALLOC", fine=_PLAIN),
    "env.allocator": _allocator,
    "env.omp_threads": _omp_threads,
    "env.omp_binding": _omp_binding,
}
