"""Loads compiled kernels onto a GPU and launches them, through the CUDA driver (cuda-bindings).

It does not use `cuda.core.launch`, which cannot pass a struct by value (a `CUtensorMap`), and whose versions disagree
whether a grid with clusters counts blocks or clusters. Here a grid always counts blocks, as in CUDA C++.
"""

import ctypes
import operator
import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels.arguments import Value
from aiperf_core.kernels.nvrtc import INSTALL
from aiperf_core.kernels.parameters import Parameter, Signature

Extent = int | Sequence[int]
Shape = tuple[int, int, int]

_PORTABLE_CLUSTER_BLOCKS = 8
_FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}
# Sizes of structs in bytes; drivers older than CUDA 12.4 do not tell them.
_STRUCT_BYTES = {"CUtensorMap": 128, "float2": 8, "float4": 16, "int2": 8, "int4": 16, "__half": 2, "__nv_bfloat16": 2}


@cache
def cuda_driver() -> ModuleType:
    """The module `cuda.bindings.driver`. Raises `SkipError` when the package, the CUDA driver or a GPU is missing."""
    try:
        driver = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise SkipError(f"needs the package 'cuda-bindings' ({error}); {INSTALL}") from None
    try:
        (status,) = driver.cuInit(0)
    except Exception as error:  # cuda-pathfinder has its own error for a missing libcuda
        raise SkipError(f"needs a CUDA driver ({str(error).partition(chr(10))[0]})") from None
    if int(status):
        raise SkipError(f"needs a CUDA GPU ({_reason(driver, status)})")
    return driver


class Launch:
    """The shape of a launch: blocks of the grid, threads of a block, dynamic shared memory, blocks of a cluster."""

    __slots__ = ("block", "cluster", "dimensions", "grid", "shared_bytes")

    def __init__(self, grid: Shape, block: Shape, shared_bytes: int, cluster: Shape | None) -> None:
        self.grid, self.block, self.shared_bytes, self.cluster = grid, block, shared_bytes, cluster
        self.dimensions = (*grid, *block, shared_bytes)

    def __str__(self) -> str:
        cluster = f", cluster={self.cluster}" if self.cluster else ""
        return f"grid={self.grid}, block={self.block}, shared_bytes={self.shared_bytes}{cluster}"


def launch_of(grid: Extent, block: Extent, shared_bytes: int, cluster: Extent | None) -> Launch:
    """The launch of extents of one to three dimensions. Raises `KernelError` for other extents."""
    try:
        return _launch_of(grid, block, shared_bytes, cluster)
    except TypeError:  # a list is not hashable
        keys = [tuple(extent) if isinstance(extent, Sequence) else extent for extent in (grid, block, cluster)]
        return _launch_of(keys[0], keys[1], shared_bytes, keys[2])


@lru_cache(maxsize=1024)
def _launch_of(grid: Any, block: Any, shared_bytes: int, cluster: Any) -> Launch:
    if isinstance(shared_bytes, bool) or not isinstance(shared_bytes, int) or shared_bytes < 0:
        raise KernelError(f"shared_bytes takes a number of bytes from 0 on; got {shared_bytes!r}")
    extents = None if cluster is None else _extent("cluster", cluster)
    return Launch(_extent("grid", grid), _extent("block", block), shared_bytes, extents)


def _extent(name: str, value: Any) -> Shape:
    try:
        sizes = [operator.index(size) for size in (value if isinstance(value, tuple) else (value,))]
    except TypeError:
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise KernelError(f"{name} takes an int or a tuple of up to 3, each at least 1; got {value!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


class LoadedKernel:
    """A kernel on one device, ready to launch. `owner` starts its error messages."""

    def __init__(self, cubin: bytes, signature: Signature, owner: str, device: int) -> None:
        self._driver, self._owner, self._device = cuda_driver(), owner, device
        self._current_device, self._current_stream = _torch_hooks()
        with _on_device(device):
            self._use_context()
            self._module = self._checked(self._driver.cuModuleLoadData(cubin), "load")
            name = signature.name.encode()
            self._function = self._checked(self._driver.cuModuleGetFunction(self._module, name), "find")
            self._shared_limit = self._attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES")
            self._frames = Frames(signature, self._sizes(signature), owner)
        self._clusters: dict[tuple[Launch, int], Any] = {}

    def launch(self, values: list[Value], launch: Launch) -> None:
        """Launch on torch's current stream of this device; return when the launch is queued."""
        if self._current_device() == self._device:
            self._launch(values, launch)
        else:
            with _on_device(self._device):
                self._launch(values, launch)

    def _launch(self, values: list[Value], launch: Launch) -> None:
        if launch.shared_bytes > self._shared_limit:
            self._raise_shared_limit(launch.shared_bytes)
        stream = self._current_stream(self._device)
        frame = self._frames.take(values)
        (status,) = self._queue(launch, stream, frame.address)
        if status != 0 and self._gains_context():
            (status,) = self._queue(launch, stream, frame.address)
        self._frames.give_back(frame)
        if status != 0:
            raise KernelError(f"{self._owner} could not be launched with {launch}: {_reason(self._driver, status)}")

    def bound(self, values: list[Value], launch: Launch) -> "BoundLaunch":
        """A launch with its parameters in memory of its own, for calls that C makes again and again."""
        with _on_device(self._device):
            self._use_context()
            if launch.shared_bytes > self._shared_limit:
                self._raise_shared_limit(launch.shared_bytes)
        return BoundLaunch(self._owner, int(self._function), launch, self._frames.own(values))

    def blocks_at_once(self, threads: int, shared_bytes: int) -> tuple[int, int]:
        """How many blocks one multiprocessor of this device holds at once, and the number of multiprocessors."""
        with _on_device(self._device):
            self._use_context()
            if shared_bytes > self._shared_limit:
                self._raise_shared_limit(shared_bytes)
            ask = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
            each = int(self._checked(ask(self._function, threads, shared_bytes), "query"))
            key = self._driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
            count = self._checked(self._driver.cuDeviceGetAttribute(key, self._device_handle()), "query")
        return each, int(count)

    def clusters_at_once(self, launch: Launch) -> int:
        """How many clusters of a launch this device holds at once; the grid only has to be of whole clusters."""
        with _on_device(self._device):
            self._use_context()
            if launch.shared_bytes > self._shared_limit:
                self._raise_shared_limit(launch.shared_bytes)
            config = self._clustered(launch, self._current_stream(self._device))
            return int(self._checked(self._driver.cuOccupancyMaxActiveClusters(self._function, config), "query"))

    def _queue(self, launch: Launch, stream: int, frame: int) -> Any:
        if launch.cluster is None:
            return self._driver.cuLaunchKernel(self._function, *launch.dimensions, stream, frame, 0)
        config = self._clusters.get((launch, stream)) or self._clustered(launch, stream)
        return self._driver.cuLaunchKernelEx(config, self._function, frame, 0)

    def _clustered(self, launch: Launch, stream: int) -> Any:
        driver = self._driver
        cluster = launch.cluster or (1, 1, 1)
        if cluster[0] * cluster[1] * cluster[2] > _PORTABLE_CLUSTER_BLOCKS:
            self._set_attribute("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes, config.hStream = launch.shared_bytes, driver.CUstream(stream)
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dimensions = attribute.value.clusterDim
        dimensions.x, dimensions.y, dimensions.z = cluster
        config.attrs, config.numAttrs = [attribute], 1
        if len(self._clusters) > 1024:
            self._clusters.clear()
        self._clusters[launch, stream] = config
        return config

    def _raise_shared_limit(self, shared_bytes: int) -> None:
        """Allow more dynamic shared memory than the default of 48 KiB."""
        status = self._set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", shared_bytes)
        if status != 0:
            key = self._driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            _, most = self._driver.cuDeviceGetAttribute(key, self._device_handle())
            raise KernelError(
                f"{self._owner} asks for {shared_bytes} bytes of dynamic shared memory a block; "
                f"this GPU has {most} for dynamic and static together"
            )
        self._shared_limit = shared_bytes

    def _sizes(self, signature: Signature) -> list[int]:
        """The size of each parameter in bytes, from the compiler; checked against the signature."""
        ask = getattr(self._driver, "cuFuncGetParamInfo", None)
        sizes = []
        for index, parameter in enumerate(signature.parameters):
            expected = _STRUCT_BYTES.get(parameter.base, 0) if parameter.kind == "struct" else _scalar_bytes(parameter)
            status, _, size = ask(self._function, index) if ask else (1, 0, 0)
            if int(status):
                size = expected
            if not size or (expected and size != expected):
                raise KernelError(f"{self._owner}: '{parameter.text}' was read as {expected} bytes, compiled as {size}")
            sizes.append(int(size))
        return sizes

    def _use_context(self) -> None:
        """Make the primary context of the device, which torch uses, current on this thread."""
        context = self._checked(self._driver.cuDevicePrimaryCtxRetain(self._device_handle()), "reach")
        self._checked(self._driver.cuCtxSetCurrent(context), "reach")

    def _gains_context(self) -> bool:
        """Give this thread the context if it has none yet; return whether it was missing."""
        if int(self._checked(self._driver.cuCtxGetCurrent(), "reach")):
            return False
        self._use_context()
        return True

    def _device_handle(self) -> Any:
        return self._checked(self._driver.cuDeviceGet(self._device), "reach")

    def _attribute(self, name: str) -> int:
        key = getattr(self._driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self._checked(self._driver.cuFuncGetAttribute(key, self._function), "query"))

    def _set_attribute(self, name: str, value: int) -> int:
        key = getattr(self._driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        (status,) = self._driver.cuFuncSetAttribute(self._function, key, value)
        if status != 0 and self._gains_context():
            (status,) = self._driver.cuFuncSetAttribute(self._function, key, value)
        return int(status)

    def _checked(self, result: tuple[Any, ...], doing: str) -> Any:
        status, *values = result
        if int(status):
            raise KernelError(
                f"{self._owner}: could not {doing} it on GPU {self._device}: {_reason(self._driver, status)}"
            )
        return values[0] if values else None


class Frame:
    """Memory for one launch: the parameters, and the array of their addresses for the driver."""

    __slots__ = ("_pointers", "address", "parameters")

    def __init__(self, size: int, offsets: Sequence[int]) -> None:
        self.parameters = ctypes.create_string_buffer(size)
        base = ctypes.addressof(self.parameters)
        self._pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
        self.address = ctypes.addressof(self._pointers) if offsets else 0

    def point(self, index: int, address: int) -> None:
        """Take the parameter with this index from another address."""
        self._pointers[index] = address


class BoundLaunch:
    """A launch whose parameters stay in memory. `name` is that of the kernel in messages, `function` its handle."""

    __slots__ = ("frame", "function", "launch", "name")

    def __init__(self, name: str, function: int, launch: Launch, frame: Frame) -> None:
        self.name, self.function, self.launch, self.frame = name, function, launch, frame

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments of `cuLaunchKernel` but for the stream: function, grid, block, shared memory, parameters."""
        return self.function, *self.launch.dimensions, self.frame.address


class Frames:
    """Reused frames of one kernel: the driver has copied a frame when a launch returns."""

    def __init__(self, signature: Signature, sizes: Sequence[int], owner: str) -> None:
        kinds = [_code(parameter, size) for parameter, size in zip(signature.parameters, sizes, strict=True)]
        padded = [-(-size // 8) * 8 for size in sizes]
        self._packer = struct.Struct(
            "=" + "".join(f"{k}{p - s}x" for k, p, s in zip(kinds, padded, sizes, strict=True))
        )
        self._offsets = [sum(padded[:index]) for index in range(len(padded))]
        structs = enumerate(signature.parameters)
        self._structs = [(index, p.text, sizes[index]) for index, p in structs if p.kind == "struct"]
        self._owner = owner
        self._free: list[Frame] = []

    def take(self, values: Sequence[Value]) -> Frame:
        """A frame with the values. Raises `KernelError` for a struct of the wrong size."""
        self._check(values)
        try:
            frame = self._free.pop()  # atomic: two threads never get the same frame
        except IndexError:
            frame = Frame(self._packer.size or 1, self._offsets)
        self._packer.pack_into(frame.parameters, 0, *values)
        return frame

    def own(self, values: Sequence[Value]) -> Frame:
        """A frame with the values that no other launch uses. Raises as `take`."""
        self._check(values)
        frame = Frame(self._packer.size or 1, self._offsets)
        self._packer.pack_into(frame.parameters, 0, *values)
        return frame

    def _check(self, values: Sequence[Value]) -> None:
        for index, text, size in self._structs:
            given = cast(bytes, values[index])
            if len(given) != size:
                raise KernelError(f"{self._owner}: '{text}' is {size} bytes; got {len(given)}")

    def give_back(self, frame: Frame) -> None:
        """Keep the frame for another launch."""
        self._free.append(frame)


def _scalar_bytes(parameter: Parameter) -> int:
    return 8 if parameter.kind == "pointer" else parameter.bits // 8


def _code(parameter: Parameter, size: int) -> str:
    if parameter.kind == "integer":
        code = _FORMATS[parameter.bits]
        return code if parameter.signed else code.upper()
    if parameter.kind == "float":
        return "f" if parameter.bits == 32 else "d"
    return {"pointer": "Q", "bool": "?", "struct": f"{size}s"}[parameter.kind]


def _torch_hooks() -> tuple[Callable[[], int], Callable[[int], int]]:
    """Functions that return torch's current device, and the handle of its current stream of a device."""
    import torch

    # The private function returns the handle without creating a Stream; Triton uses it too.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return torch.cuda.current_device, raw or (lambda device: torch.cuda.current_stream(device).cuda_stream)


def _on_device(device: int) -> Any:
    import torch

    return torch.cuda.device(device)


def done(result: tuple[Any, ...]) -> Any:
    """The result of a call of the driver without its status. Raises `KernelError` with the reason where it failed."""
    status, *values = result
    if int(status):
        raise KernelError(f"the CUDA driver refused: {reason_of(int(status))}")
    return values[0] if values else None


def reason_of(status: int) -> str:
    """The driver's words for a status."""
    driver = cuda_driver()
    return _reason(driver, driver.CUresult(status))


def _reason(driver: ModuleType, status: Any) -> str:
    """An error in print: `CUDA_ERROR_INVALID_VALUE: invalid argument`."""
    name, text = driver.cuGetErrorName(status)[1], driver.cuGetErrorString(status)[1]
    return f"{name.decode()}: {text.decode()}" if name and text else f"CUDA error {int(status)}"
