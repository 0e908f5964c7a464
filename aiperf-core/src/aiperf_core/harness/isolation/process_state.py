"""Snapshots of a process's settings and functions, before the measured code is imported and after its last call.

A snapshot reads as little replaceable code as possible: flags through torch's C functions, bound when this module is
imported, and functions by type, name and code. It is still a claim of the process itself, which code that rewrites this
module can forge: other processes decide times and answers.
"""

import builtins
import functools
import gc
import os
import signal
import sys
import types
from _lsprof import Profiler as _Profiler
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from importlib.abc import InspectLoader
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import torch
from torch.utils._device import DeviceContext

# Values by kind, group (usually a module) and name. `validity.checks.global_state` compares two snapshots.
Snapshot = dict[str, dict[str, dict[str, Any]]]

_C: Any = torch._C
_absent: Any = object()

# --- what is watched

_PRECISION_FLAGS = (
    ("cpu.allow_fp16_reduced_precision_reduction", "_get_cpu_allow_fp16_reduced_precision_reduction"),
    ("cuda.matmul.allow_tf32", "_get_cublas_allow_tf32"),
    ("cuda.matmul.allow_fp16_accumulation", "_get_cublas_allow_fp16_accumulation"),
    ("cuda.matmul.allow_fp16_reduced_precision_reduction", "_get_cublas_allow_fp16_reduced_precision_reduction"),
    ("cuda.matmul.allow_bf16_reduced_precision_reduction", "_get_cublas_allow_bf16_reduced_precision_reduction"),
    ("cuda.sdp.allow_fp16_bf16_reduction", "_get_math_sdp_allow_fp16_bf16_reduction"),
    ("cudnn.allow_tf32", "_get_cudnn_allow_tf32"),
    ("float32_matmul_precision", "_get_float32_matmul_precision"),
    ("mkldnn.allow_tf32", "_get_onednn_allow_tf32"),
)
_LIBRARY_FLAGS = (
    ("cudnn.benchmark", "_get_cudnn_benchmark"),
    ("cudnn.deterministic", "_get_cudnn_deterministic"),
    ("cudnn.enabled", "_get_cudnn_enabled"),
    ("mkldnn.deterministic", "_get_mkldnn_deterministic"),
    ("mkldnn.enabled", "_get_mkldnn_enabled"),
    ("sdp.cudnn", "_get_cudnn_sdp_enabled"),
    ("sdp.flash", "_get_flash_sdp_enabled"),
    ("sdp.math", "_get_math_sdp_enabled"),
    ("sdp.mem_efficient", "_get_mem_efficient_sdp_enabled"),
    ("deterministic_algorithms", "_get_deterministic_algorithms"),
    ("fill_uninitialized_memory", "_get_deterministic_fill_uninitialized_memory"),
)
# torch's newer switches of float32's precision, by backend and operation.
_FLOAT32_SWITCHES = (
    *(("generic", "all"), ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")),
    *(("mkldnn", "all"), ("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn")),
)
_PRECISION_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
_COMPILER_CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
_COMPILER_VARIABLES = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE_", "TRITON_")
# Endings of variables that are not options. Inductor itself sets some of them.
_NO_OPTIONS = ("_DIR", "_PATH", "_THREADS")

# Kind, then module, then the names of its functions.
_FUNCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    kind: {module: tuple(names.split()) for module, names in modules.items()}
    for kind, modules in {
        "clock": {
            "time": "clock_gettime clock_gettime_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time "
            "process_time_ns sleep thread_time thread_time_ns time time_ns",
            "resource": "getrusage",
            "torch.cuda": "Event.elapsed_time Event.__new__ Event.__init__",
        },
        "waiting": {
            "torch.cuda": "Event.query Event.record Event.synchronize Event.wait Stream.record_event "
            "Stream.synchronize Stream.wait_event Stream.wait_stream current_stream default_stream stream synchronize",
            "torch.cpu": "synchronize",
            "torch.accelerator": "synchronize",
            "torch._C": "_cuda_synchronize _cuda_getCurrentStream _cuda_getDefaultStream _cuda_setStream",
        },
        "comparison": {
            "torch": "allclose eq equal isclose isfinite isnan ne",
            "torch.testing": "assert_close",
            "numpy": "allclose array_equal isclose",
            "numpy.testing": "assert_allclose assert_array_equal",
        },
        "tensors": {
            "torch": "empty empty_like matmul no_grad tensor zeros Tensor.__eq__ Tensor.copy_ Tensor.data_ptr "
            "Tensor.equal Tensor.eq Tensor.fill_ Tensor.isclose Tensor.ne Tensor.set_ Tensor.sum Tensor.to "
            "Tensor.zero_",
        },
        "random": {
            "random": "Random.random Random.getrandbits random getrandbits",
            # Not torch.manual_seed, which torch itself wraps when its compiler is imported.
            "torch": "rand randint randn Generator.manual_seed",
        },
        "statistics": {
            "statistics": "fmean mean median quantiles",
            "numpy": "mean median percentile quantile",
        },
        "writer": {
            "json": "dump dumps load loads JSONEncoder.encode",
            "os": "_exit read write",
            "pickle": "dump dumps load loads",
            "select": "select",
            "socket": "recv_fds send_fds socket.recv socket.recvmsg socket.send socket.sendall socket.sendmsg",
            "struct": "Struct.pack Struct.unpack",
        },
        "collector": {"gc": "collect disable enable freeze get_objects get_referrers isenabled"},
        "builtins": {"builtins": " ".join(name for name in vars(builtins) if not name.startswith("_"))},
    }.items()
}
# Timers of libraries that may be imported after the first snapshot: before that, their code is read from the files.
_TIMERS = {
    "timeit": ("Timer.timeit", "Timer.repeat", "timeit"),
    "torch.utils.benchmark.utils.timer": ("Timer.timeit", "Timer.blocked_autorange"),
    "triton.testing": ("do_bench", "do_bench_cudagraph"),
}
_OURS = "aiperf_core"
# Practice code and attacks are measured code; results are records without behaviour.
_NOT_OURS = ("aiperf_core.practice.", "aiperf_redteam.", "aiperf_core.results.")

_CONSTANTS = frozenset({int, float, complex, str, bytes, bool, type(None)})
_BUILT_IN = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_WRAPPERS = frozenset({("functools", "_lru_cache_wrapper"), ("numpy", "_ArrayFunctionDispatcher")})
_TIMERS_OF_THE_KERNEL = {"real": signal.ITIMER_REAL, "virtual": signal.ITIMER_VIRTUAL, "prof": signal.ITIMER_PROF}
# The smallest normal number with a factor that makes it subnormal; a subnormal number with a factor that makes it
# normal. In lists, so that Python does not compute the products when it compiles.
_RESULT, _OPERAND = [sys.float_info.min, 0.5], [5e-324, 2.0**900]

# Bound now, before measured code can replace them.
_environ, _getitimer, _getsignal = os.environ, signal.getitimer, signal.getsignal
_getaffinity = getattr(os, "sched_getaffinity", None)
_getpriority = os.getpriority
_getframe, _path = sys._getframe, Path
_getprofile = sys.getprofile
_profiling: Any = getattr(_C._autograd, "_profiler_enabled", None)
_threads, _interop_threads = torch.get_num_threads, torch.get_num_interop_threads
_grad, _inference, _dtype = torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype
_autocast, _autocast_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
_flags: dict[str, Any] = {name: getattr(_C, name, None) for _, name in (*_PRECISION_FLAGS, *_LIBRARY_FLAGS)}
_float32_switch = getattr(_C, "_get_fp32_precision_getter", None)
_function_modes, _function_mode = _C._len_torch_function_stack, _C._get_function_stack_at
_dispatch_modes, _dispatch_mode = _C._len_torch_dispatch_stack, _C._get_dispatch_stack_at
_cuda_device: Any = getattr(_C, "_cuda_getDevice", None)
_cuda_stream: Any = getattr(_C, "_cuda_getCurrentStream", None)
_cuda_default: Any = getattr(_C, "_cuda_getDefaultStream", None)


def snapshot() -> Snapshot:
    """The settings and functions of this process, as JSON. Takes some milliseconds."""
    function_modes = [_function_mode(index) for index in range(_function_modes())]
    devices = [mode.device for mode in function_modes if type(mode) is DeviceContext]
    return {
        "precision": {
            "torch": _precision(),
            "environment": {name: _environ.get(name) for name in _PRECISION_VARIABLES},
        },
        "denormals": {"cpu": {"results_flushed": _is_lost(_RESULT), "operands_flushed": _is_lost(_OPERAND)}},
        "threads": {"torch": {"intra_op": _threads(), "inter_op": _interop_threads()}},
        "modes": {"torch": _modes(function_modes)},
        "libraries": {"torch": {name: _flag(getter) for name, getter in _LIBRARY_FLAGS}},
        # Not the recursion limit, which torch's compiler raises.
        "settings": {
            "torch": _settings(devices),
            "python": {"gc.enabled": gc.isenabled(), "gc.threshold": list(gc.get_threshold())},
        },
        "compiler": _compiler(),
        "signals": {
            # Real-time signals between the first and the last have no names.
            "handlers": {
                one.name: described(_getsignal(one))
                for one in signal.valid_signals()
                if isinstance(one, signal.Signals)
            }
        },
        "timers": {"kernel": {name: _getitimer(which)[0] > 0 for name, which in _TIMERS_OF_THE_KERNEL.items()}},
        "hooks": {"python": _hooks()},
        "profilers": _profilers(),
        "process": {"scheduling": _scheduling()},
        "stream": _stream(),
        **{kind: _watched(groups) for kind, groups in _FUNCTIONS.items()},
        "library_timer": {module: _timers(module, names) for module, names in _TIMERS.items()},
        "harness": _harness() | {"python": {"callers": _callers()}},
    }


def digest_code() -> None:
    """Digest the code that a snapshot looks at, so that processes which are forked from this one need not."""
    _harness()
    for groups in _FUNCTIONS.values():
        _watched(groups)


def objects(*ours: object) -> dict[str, dict[str, Any]]:
    """The harness's own objects in this process, for a snapshot's `objects`, as JSON.

    For each: its type, methods that were set on the object itself, and its attributes by type or, for tensors, by
    memory. Attributes that are None are left out, so that setting them later is no difference.
    """
    return {type(one).__name__: _object(one) for one in ours}


def _callers() -> str:
    """The call stack above the caller of the snapshot, outermost first.

    It is always the loop that answers requests. Code that replaced the loop would appear in it.
    """
    names = []
    frame = _getframe(2).f_back
    while frame is not None:
        names.append(f"{_path(frame.f_code.co_filename).stem}:{frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(names))


# --- flags and settings


def _flag(getter: str) -> Any:
    """A flag of torch; None where this torch lacks it, or raises because newer switches were used as well."""
    read = _flags[getter]
    try:
        return None if read is None else _plain(read())
    except RuntimeError:
        return None


def _precision() -> dict[str, Any]:
    found = {name: _flag(getter) for name, getter in _PRECISION_FLAGS}
    if _float32_switch is not None:
        for backend, operation in _FLOAT32_SWITCHES:
            found[f"{backend}.{operation}.fp32_precision"] = str(_float32_switch(backend, operation))
    return found


def _is_lost(factors: list[float]) -> bool:
    return factors[0] * factors[1] == 0.0


def _modes(function_modes: Iterable[object]) -> dict[str, list[str]]:
    return {
        # A default device is a mode too, and is among the settings.
        "function_modes": [_type_name(type(mode)) for mode in function_modes if type(mode) is not DeviceContext],
        "dispatch_modes": [_type_name(type(_dispatch_mode(index))) for index in range(_dispatch_modes())],
    }


def _settings(devices: list[Any]) -> dict[str, Any]:
    return {
        "default_dtype": str(_dtype()),
        "default_device": str(devices[-1]) if devices else None,
        "grad": _grad(),
        "inference": _inference(),
        **{f"autocast.{one}": str(_autocast_dtype(one)) if _autocast(one) else None for one in ("cpu", "cuda")},
    }


def _compiler() -> dict[str, dict[str, Any]]:
    """Options that differ from their defaults; none in modules that are not imported."""
    variables = {
        name: value
        for name, value in _environ.items()
        if name.startswith(_COMPILER_VARIABLES) and not name.endswith(_NO_OPTIONS)
    }
    return {"environment": variables, **{name: _turned(sys.modules.get(name)) for name in _COMPILER_CONFIGS}}


def _turned(config: types.ModuleType | None) -> dict[str, str]:
    turned = {}
    entries: dict[str, Any] = vars(config).get("_config", {}) if config else {}
    for name, entry in entries.items():
        override = getattr(entry, "user_override", _absent)
        if hasattr(override, "get") and not isinstance(override, dict):  # torch since 2.12: a context variable
            override = override.get()
        # An unset option holds a plain object; an option that was read may hold a copy of its default.
        if type(override) is not object and override != entry.default:
            turned[name] = repr(override)
    return turned


def _hooks() -> dict[str, Any]:
    profile = _getprofile()
    found = {
        "trace": described(sys.gettrace()),
        "profile": described(None if isinstance(profile, _Profiler) else profile),
        "collector": [described(one) for one in gc.callbacks],
    }
    if monitoring := getattr(sys, "monitoring", None):  # Python 3.12
        found |= {f"monitoring.{tool}": monitoring.get_tool(tool) for tool in range(6)}
    return found


def _profilers() -> dict[str, Any]:
    """Profilers that are running. Any other function that is called for each event is a hook, which may do anything."""
    return {
        "python": {"cProfile": isinstance(_getprofile(), _Profiler)},
        "torch": {"profiler": bool(_profiling and _profiling())},
    }


def _scheduling() -> dict[str, Any]:
    affinity = sorted(_getaffinity(0)) if _getaffinity else None
    return {"affinity": affinity, "nice": _getpriority(os.PRIO_PROCESS, 0)}


def _stream() -> dict[str, dict[str, Any]]:
    """Whether the current stream is the default one, as it is before CUDA is used; afterwards also the device."""
    if _cuda_device is None or not vars(torch.cuda)["_initialized"]:
        return {"cuda": {"is_default": True}}
    device = _cuda_device()
    is_default = tuple(_cuda_stream(device)) == tuple(_cuda_default(device))
    return {"cuda": {"is_default": is_default}, "cuda.device": {"current": device}}


def _plain(value: Any) -> Any:
    # Some getters return further flags that do not affect precision; the first is the requested one.
    return _plain(value[0]) if isinstance(value, tuple) else value


# --- functions

# Code objects and their digests, by address.
_digests: dict[int, tuple[types.CodeType, str]] = {}
# Functions without defaults and closures, which are most, by the addresses of their code and of their globals.
_plain_digests: dict[tuple[int, int], tuple[types.CodeType, str]] = {}


def described(value: Any, depth: int = 0) -> str:
    """An object in one line, which changes when a function or its code is replaced.

    No method of the object is called. Of objects other than functions, classes, modules and constants only the type
    counts.
    """
    kind = type(value)
    if kind in _CONSTANTS:  # most of what there is
        return _shortened(repr(value))
    if kind is types.FunctionType:
        return f"def {value.__module__}.{value.__qualname__} #{_function_digest(value, depth)}"
    if kind in (staticmethod, classmethod, types.MethodType):
        return f"{kind.__name__} of {described(value.__func__, depth + 1)}"
    if kind is property:
        return f"property of {', '.join(described(one, depth + 1) for one in (value.fget, value.fset, value.fdel))}"
    if kind is functools.partial:
        return f"partial of {described(value.func, depth + 1)}"
    if kind in _BUILT_IN:
        owner = getattr(value, "__objclass__", None)
        return f"built-in {_type_name(owner) if owner else value.__module__}.{value.__qualname__}"
    if kind is types.ModuleType:
        return f"module {vars(value).get('__name__')} @{id(value):x}"
    if issubclass(kind, type):
        return f"class {_type_name(value)} @{id(value):x}"
    if isinstance(value, signal.Handlers) or _is_constant(value):
        return _shortened(repr(value))
    wrapped = getattr(value, "__wrapped__", None) if (kind.__module__, kind.__name__) in _WRAPPERS else None
    return f"a {_type_name(kind)}{f' of {described(wrapped, depth + 1)}' if wrapped else ''}"


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}… #{_hash(text.encode())}"


def _is_constant(value: Any) -> bool:
    return type(value) in _CONSTANTS or (type(value) in (tuple, frozenset) and all(map(_is_constant, value)))


def _type_name(kind: type) -> str:
    # Not by attribute access, which a metaclass may override.
    module, name = (type.__dict__[key].__get__(kind) for key in ("__module__", "__qualname__"))
    return str(name) if module == "builtins" else f"{module}.{name}"


def _function_digest(function: types.FunctionType, depth: int) -> str:
    if depth > 3:
        return "…"
    code, space = function.__code__, id(function.__globals__)
    if all(held is None for held in (function.__defaults__, function.__kwdefaults__, function.__closure__)):
        known = _plain_digests.get((id(code), space))
        if known is None or known[0] is not code:
            known = _plain_digests[id(code), space] = code, _digest_of(code, space, [None], depth)
        return known[1]
    held = [function.__defaults__, *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            held.append(_absent)
    return _digest_of(code, space, held, depth)


def _digest_of(code: types.CodeType, space: int, held: list[Any], depth: int) -> str:
    # The same code with other globals is another function.
    parts = (code_digest(code), space, [described(one, depth + 1) for one in held])
    return _hash(repr(parts).encode())


def code_digest(code: types.CodeType) -> str:
    """A digest of a code object without its place in a file. Made once, since a code object cannot be changed."""
    known = _digests.get(id(code))
    if known is None or known[0] is not code:
        known = _digests[id(code)] = code, _new_digest(code)
    return known[1]


def _new_digest(code: types.CodeType) -> str:
    # `co_code` is without the interpreter's adaptions.
    parts = (
        code.co_code,
        code.co_exceptiontable,
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        # These have no stable text: a code object shows its address, a set has any order.
        [_constant(one) if type(one) in (types.CodeType, frozenset) else one for one in code.co_consts],
    )
    return _hash(repr(parts).encode())


def _constant(value: Any) -> str:
    return code_digest(value) if isinstance(value, types.CodeType) else repr(sorted(map(repr, value)))


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def _watched(groups: dict[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
    found = {}
    for module, names in groups.items():
        if isinstance(loaded := sys.modules.get(module), types.ModuleType):
            values = {name: _looked_up(loaded, name) for name in names}
            found[module] = {name: described(one) for name, one in values.items() if one is not _absent}
    return found


def _looked_up(module: types.ModuleType, dotted: str) -> Any:
    """The value of a name such as `Event.record`, inherited or not, without attribute access."""
    first, _, rest = dotted.partition(".")
    found = vars(module).get(first, _absent)
    if not rest or not isinstance(found, type):
        return found
    classes = type.__dict__["__mro__"].__get__(found)
    return next((vars(one)[rest] for one in classes if rest in vars(one)), _absent)


def _timers(module: str, names: tuple[str, ...]) -> dict[str, str]:
    loaded = sys.modules.get(module)
    if loaded is None:
        code = _code_on_disk(module)
        codes = {name: _nested(code, name) for name in names} if code else {}
        return {name: _timer(module, one) for name, one in codes.items() if one}
    found = {name: _looked_up(loaded, name) for name in names}
    return {
        name: _timer(one.__module__, one.__code__) if type(one) is types.FunctionType else described(one)
        for name, one in found.items()
    }


def _timer(module: str, code: types.CodeType) -> str:
    return f"def {module}.{code.co_qualname} #{code_digest(code)}"


def _code_on_disk(module: str) -> types.CodeType | None:
    """A module's code as it would be imported, without importing it or its packages; None where there is none."""
    spec, path, name = None, None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    assert spec is not None
    return spec.loader.get_code(module) if isinstance(spec.loader, InspectLoader) else None


def _nested(code: types.CodeType, dotted: str) -> types.CodeType | None:
    for name in dotted.split("."):
        inner = (one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == name)
        found = next(inner, None)
        if found is None:
            return None
        code = found
    return code


# --- the harness's own


def _harness() -> dict[str, dict[str, str]]:
    """The names of each loaded module of the harness and of its classes, described."""
    return {
        name: dict(_of_module(name, module))
        for name, module in sorted(sys.modules.items())
        if (name == _OURS or name.startswith(f"{_OURS}.")) and not name.startswith(_NOT_OURS) and module
    }


def _of_module(name: str, module: types.ModuleType) -> Iterator[tuple[str, str]]:
    package = f"{name}."
    for key, value in list(vars(module).items()):
        # Importing a module sets it as an attribute of its package.
        if key.startswith("__") or (isinstance(value, types.ModuleType) and value.__name__.startswith(package)):
            continue
        yield key, described(value)
        if isinstance(value, type) and value.__module__ == name:
            for inner, one in list(vars(value).items()):
                if _is_behaviour(one) or not inner.startswith("_"):
                    yield f"{key}.{inner}", described(one)


def _is_behaviour(value: object) -> bool:
    """Whether it is code: what Python and libraries keep on a class (caches, annotations) is not."""
    kind = type(value)
    behaves = kind is types.FunctionType or isinstance(value, Callable | property | staticmethod | classmethod)  # type: ignore[arg-type]
    return behaves and not isinstance(value, type)


def _object(one: object) -> dict[str, Any]:
    kind = type(one)
    held: dict[str, Any] = object.__getattribute__(one, "__dict__")
    inherited = {name for base in type.__dict__["__mro__"].__get__(kind) for name in vars(base)}
    found: dict[str, Any] = {"type": described(kind), "overridden": sorted(held.keys() & inherited)}
    for name, value in held.items():
        if type(value) is torch.Tensor:
            found[name] = f"{value.dtype}{list(value.shape)} on {value.device} at {value.data_ptr():x}"
        elif value is not None:
            found[name] = described(type(value))
    return found
