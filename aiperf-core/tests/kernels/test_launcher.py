"""The launch path against a driver that only takes notes. What a GPU then does with it: test_gpu.py."""

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaSource, clusters_that_fill, cuda, grid_that_fills, launcher
from aiperf_core.kernels.nvrtc import Compiled

MakeCuda = Callable[..., CudaSource]

SOURCE = """
struct Pair { int a; int b; };
extern "C" __global__ void all(const float* a, char c, short s, int i, long long q, unsigned u, bool yes, float f,
                               double d, Pair pair, size_t z) {}
extern "C" __global__ void none() {}
extern "C" __global__ void one(float* a) {}
"""
SIZES = {"all": [8, 1, 2, 4, 8, 4, 1, 4, 8, 8, 8], "none": [], "one": [8]}


class FakeTensor(torch.Tensor):
    """A host tensor that says it is on a GPU."""

    device_index = 0

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def get_device(self) -> int:
        return self.device_index


def on_gpu(tensor: torch.Tensor, index: int = 0) -> FakeTensor:
    fake = tensor.as_subclass(FakeTensor)
    fake.device_index = index
    return fake


class FakeDriver:
    """Records launches, with a copy of the bytes behind each parameter's address, as the driver would make it."""

    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14
    )
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16
    )
    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4)
    CUstream = int

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.parameters: list[list[bytes]] = []
        self.attributes: list[tuple[int, int]] = []
        self.loaded = 0
        self.current = 0
        self.statuses: list[int] = []
        self.sizes = {name: list(sizes) for name, sizes in SIZES.items()}

    def CUlaunchConfig(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace()

    def CUlaunchAttribute(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuDeviceGet(self, index: int) -> tuple[int, int]:  # noqa: N802
        return 0, index

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:  # noqa: N802
        return 0, 1 + device

    def cuCtxGetCurrent(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.current

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:  # noqa: N802
        self.current = context
        return (0,)

    def cuModuleLoadData(self, cubin: bytes) -> tuple[int, bytes]:  # noqa: N802
        self.loaded += 1
        return 0, cubin

    def cuModuleGetFunction(self, module: bytes, name: bytes) -> tuple[int, str]:  # noqa: N802
        return 0, name.decode()

    def cuFuncGetAttribute(self, key: int, function: str) -> tuple[int, int]:  # noqa: N802
        return 0, 49152

    def cuFuncSetAttribute(self, function: str, key: int, value: int) -> tuple[int]:  # noqa: N802
        self.attributes.append((key, value))
        return (1 if value > 232448 else 0,)

    def cuDeviceGetAttribute(self, key: int, device: int) -> tuple[int, int]:  # noqa: N802
        return 0, {97: 232448, 16: 132}[key]

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(  # noqa: N802
        self, function: str, threads: int, shared_bytes: int
    ) -> tuple[int, int]:
        return 0, min(2048 // threads, 232448 // (shared_bytes + 1024))

    def cuOccupancyMaxActiveClusters(self, function: str, config: SimpleNamespace) -> tuple[int, int]:  # noqa: N802
        # Eight GPCs of 16 multiprocessors, one block on each.
        return 0, 8 * (16 // config.attrs[0].value.clusterDim.x)

    def cuFuncGetParamInfo(self, function: str, index: int) -> tuple[int, int, int]:  # noqa: N802
        return 0, 0, self.sizes[function][index]

    def cuGetErrorName(self, status: int) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"CUDA_ERROR_INVALID_VALUE"

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"invalid argument"

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[int]:  # noqa: N802
        *shape, stream, address, extra = rest
        assert extra == 0
        self.launches.append((function, *shape, stream))
        return self._read(function, address)

    def cuLaunchKernelEx(self, config: SimpleNamespace, function: str, address: int, extra: int) -> tuple[int]:  # noqa: N802
        self.launches.append((function, config))
        return self._read(function, address)

    def _read(self, function: str, address: int) -> tuple[int]:
        sizes = self.sizes[function]
        pointers = list((ctypes.c_void_p * len(sizes)).from_address(address)) if sizes else []
        self.parameters.append([ctypes.string_at(at, size) for at, size in zip(pointers, sizes, strict=True)])
        return (self.statuses.pop(0) if self.statuses else 0,)


class Gpus:
    """What the launcher asks torch for."""

    def __init__(self) -> None:
        self.current = 0
        self.streams = {0: 7001, 1: 7002}
        self.visited: list[int] = []

    @contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        before, self.current = self.current, device
        self.visited.append(device)
        yield
        self.current = before


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(launcher, "cuda_driver", lambda: fake)
    monkeypatch.setattr(cuda, "cuda_driver", lambda: fake)
    monkeypatch.setattr(CudaSource, "_compiled_for", lambda self, device, instance: made(instance))
    return fake


def made(*instances: str) -> Compiled:
    """Machine code that has symbols for instances of templates."""
    return Compiled(b"cubin", b"", {instance: f"_Z{instance.partition('<')[0]}" for instance in instances if instance})


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    gpus = Gpus()
    monkeypatch.setattr(launcher, "_torch_hooks", lambda: (lambda: gpus.current, gpus.streams.__getitem__))
    monkeypatch.setattr(launcher, "_on_device", gpus.on_device)
    return gpus


def test_every_kind_of_parameter_arrives_in_its_c_type(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    a = on_gpu(torch.zeros(3))
    pair = struct.pack("=ii", 11, -12)
    make_cuda(SOURCE).launch("all", a, -1, -2, -3, -4, 5, True, 1.5, 2.5, pair, 1 << 63, grid=1, block=32)
    expected = [
        struct.pack(f"={code}", value)
        for code, value in zip("QbhiqI?fd", [a.data_ptr(), -1, -2, -3, -4, 5, True, 1.5, 2.5], strict=True)
    ]
    assert driver.parameters == [[*expected, pair, struct.pack("=Q", 1 << 63)]]


def test_shapes_are_filled_up_to_three_dimensions(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    source, a = make_cuda(SOURCE), on_gpu(torch.zeros(3))
    source.launch("one", a, grid=5, block=(8, 4), shared_bytes=64)
    source.launch("one", a, grid=(2, 3, 4), block=[1, 2, 3])
    source.launch("one", a, grid=torch.Size([6]), block=1)
    assert driver.launches == [
        ("one", 5, 1, 1, 8, 4, 1, 64, 7001),
        ("one", 2, 3, 4, 1, 2, 3, 0, 7001),
        ("one", 6, 1, 1, 1, 1, 1, 0, 7001),
    ]


def test_it_is_loaded_once_a_device(make_cuda: MakeCuda, driver: FakeDriver, gpus: Gpus) -> None:
    source = make_cuda(SOURCE)
    for index in (0, 1, 0, 1):
        source.launch("one", on_gpu(torch.zeros(3), index), grid=1, block=1)
    assert driver.loaded == 2
    assert [launch[-1] for launch in driver.launches] == [7001, 7002, 7001, 7002]
    assert gpus.visited.count(1) == 3, "once to load, twice to launch"
    assert gpus.current == 0


def test_an_instance_of_a_template_is_found_by_its_symbol(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    driver.sizes["_Zrows"] = [8, 4]
    a = on_gpu(torch.zeros(3))
    source = make_cuda("template <typename T> __global__ void rows(T* a, int n) {}")
    source.launch("rows<float>", a, 3, grid=1, block=1)
    with pytest.raises(
        KernelError, match=r"^kernel 'rows<float>' in lesson.cu takes 2 arguments \(float\* a, int n\); got 1$"
    ):
        source.launch("rows<float>", a, grid=1, block=1)
    with pytest.raises(KernelError, match="a CUDA tensor of int32"):
        source.launch("rows<int>", a, 3, grid=1, block=1)
    assert driver.loaded == 1


def test_null_pointers_do_not_choose_the_device(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    text = 'extern "C" __global__ void two(float* a, float* b) {}'
    driver.sizes["two"] = [8, 8]
    make_cuda(text).launch("two", None, on_gpu(torch.zeros(3), 1), grid=1, block=1)
    assert driver.launches[0][-1] == 7002
    assert driver.parameters[0][0] == bytes(8)


def test_a_kernel_without_parameters_runs_on_the_current_device(
    make_cuda: MakeCuda, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    make_cuda(SOURCE).launch("none", grid=1, block=1)
    assert driver.launches == [("none", 1, 1, 1, 1, 1, 1, 0, 7002)]


def test_a_driver_without_a_gpu_that_torch_sees_is_skipped(
    make_cuda: MakeCuda, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SkipError, match="^needs a CUDA GPU; torch finds none$"):
        make_cuda(SOURCE).launch("none", grid=1, block=1)


def test_more_than_48_kib_is_asked_for_once(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    source, a = make_cuda(SOURCE), on_gpu(torch.zeros(3))
    for shared_bytes in (49152, 50000, 49999, 50000, 60000):
        source.launch("one", a, grid=1, block=1, shared_bytes=shared_bytes)
    assert driver.attributes == [(8, 50000), (8, 60000)]


def test_more_than_the_gpu_has_is_an_error(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    with pytest.raises(KernelError) as error:
        make_cuda(SOURCE).launch("one", on_gpu(torch.zeros(3)), grid=1, block=1, shared_bytes=300_000)
    assert str(error.value) == (
        "kernel 'one' in lesson.cu asks for 300000 bytes of dynamic shared memory a block; "
        "this GPU has 232448 for dynamic and static together"
    )
    assert driver.launches == []


def test_a_cluster_counts_blocks_and_so_does_its_grid(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    source, a = make_cuda(SOURCE), on_gpu(torch.zeros(3))
    for _ in range(2):
        source.launch("one", a, grid=(16, 2), block=128, shared_bytes=256, cluster=2)
    (name, config), (_, again) = driver.launches
    assert (name, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX) == ("one", 16, 2, 1, 128)
    assert (config.sharedMemBytes, config.hStream, config.numAttrs, config.attrs[0].id) == (256, 7001, 1, 4)
    dimensions = config.attrs[0].value.clusterDim
    assert (dimensions.x, dimensions.y, dimensions.z) == (2, 1, 1)
    assert config is again
    assert driver.attributes == []


def test_a_cluster_beyond_eight_blocks_is_allowed_first(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    make_cuda(SOURCE).launch("one", on_gpu(torch.zeros(3)), grid=16, block=1, cluster=(4, 4))
    assert driver.attributes == [(14, 1)]


def test_another_stream_has_another_cluster_launch(make_cuda: MakeCuda, driver: FakeDriver, gpus: Gpus) -> None:
    source, a = make_cuda(SOURCE), on_gpu(torch.zeros(3))
    for stream in (1, 2):
        gpus.streams[0] = stream
        source.launch("one", a, grid=2, block=1, cluster=2)
    assert [config.hStream for _, config in driver.launches] == [1, 2]


def test_a_refused_launch_shows_its_shape(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    driver.statuses = [1]
    with pytest.raises(KernelError) as error:
        make_cuda(SOURCE).launch("one", on_gpu(torch.zeros(3)), grid=1, block=4096)
    assert str(error.value) == (
        "kernel 'one' in lesson.cu could not be launched with grid=(1, 1, 1), block=(4096, 1, 1), shared_bytes=0: "
        "CUDA_ERROR_INVALID_VALUE: invalid argument"
    )


def test_a_thread_without_a_context_gets_one(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    source, a = make_cuda(SOURCE), on_gpu(torch.zeros(3))
    source.kernel("one").load(0)
    driver.current, driver.statuses = 0, [201]
    source.launch("one", a, grid=1, block=1)
    assert driver.current == 1
    assert len(driver.launches) == 2


def test_a_struct_of_the_wrong_size_is_refused(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    a = on_gpu(torch.zeros(3))
    with pytest.raises(KernelError) as error:
        make_cuda(SOURCE).launch("all", a, 1, 2, 3, 4, 5, True, 1.5, 2.5, b"1234567", 9, grid=1, block=1)
    assert str(error.value) == "kernel 'all' in lesson.cu: 'Pair pair' is 8 bytes; got 7"


def test_a_parameter_misread_by_us_is_refused(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    driver.sizes["one"] = [16]
    with pytest.raises(KernelError) as error:
        make_cuda(SOURCE).launch("one", on_gpu(torch.zeros(3)), grid=1, block=1)
    assert str(error.value) == "kernel 'one' in lesson.cu: 'float* a' was read as 8 bytes, compiled as 16"


def test_a_driver_too_old_to_be_asked_for_sizes(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    driver.cuFuncGetParamInfo = None  # type: ignore[assignment,method-assign]
    driver.sizes["mapped"] = [128, 8]
    text = 'extern "C" __global__ void mapped(const __grid_constant__ CUtensorMap m, float* a) {}'
    make_cuda(text).launch("mapped", bytes(range(128)), on_gpu(torch.zeros(3)), grid=1, block=1)
    assert driver.parameters[0][0] == bytes(range(128))


def test_frames_are_reused_and_hold_the_newest_values(make_cuda: MakeCuda, driver: FakeDriver) -> None:
    kernel, tensors = make_cuda(SOURCE).kernel("one"), [on_gpu(torch.zeros(3)) for _ in range(3)]
    for tensor in tensors:
        kernel(tensor, grid=1, block=1)
    assert driver.parameters == [[struct.pack("=Q", tensor.data_ptr())] for tensor in tensors]
    assert len(kernel.load(0)._frames._free) == 1


def test_the_architecture_is_that_of_the_device(make_cuda: MakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compile_(_: CudaSource, arch: str, instances: list[str]) -> Compiled:
        asked.append(arch)
        return made(*instances)

    monkeypatch.setattr(CudaSource, "compile_instances", compile_)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100")
    for capability in ((8, 0), (9, 0), (12, 0), (9, 0)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert make_cuda(SOURCE, archs=("sm_80", "sm_90a")).cubin_for(0) == b"cubin"
    assert asked == ["sm_80", "sm_90a", "sm_120", "sm_90a"]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with pytest.raises(SkipError, match=r"^lesson.cu needs sm_90a; this GPU is sm_80 \(NVIDIA A100\)$"):
        make_cuda(SOURCE, archs=("sm_90a",)).cubin_for(0)


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> None:
    monkeypatch.setattr(cuda, "_current_device", lambda: 0)


@pytest.mark.usefixtures("one_gpu")
class TestAGridThatFills:
    @pytest.mark.parametrize(
        ("block", "shared_bytes", "most", "blocks"),
        [
            (256, 0, None, 8 * 132),
            ((16, 16, 2), 0, None, 4 * 132),
            (32, 98304, None, 2 * 132),
            (256, 0, 2, 2 * 132),
            (1024, 0, 5, 2 * 132),
        ],
    )
    def test_is_occupancy_times_multiprocessors(
        self, make_cuda: MakeCuda, block: Any, shared_bytes: int, most: int | None, blocks: int
    ) -> None:
        kernel = make_cuda(SOURCE).kernel("one")
        assert grid_that_fills(kernel, block, shared_bytes, per_multiprocessor=most) == blocks

    def test_allows_the_shared_memory_first(self, make_cuda: MakeCuda, driver: FakeDriver) -> None:
        grid_that_fills(make_cuda(SOURCE).kernel("one"), 32, 98304)
        assert driver.attributes == [(8, 98304)]

    def test_a_block_that_does_not_fit(self, make_cuda: MakeCuda) -> None:
        with pytest.raises(KernelError) as caught:
            grid_that_fills(make_cuda(SOURCE).kernel("one"), 4096)
        assert str(caught.value) == (
            "kernel 'one' in lesson.cu: a multiprocessor holds no block of 4096 threads with 0 "
            "bytes of dynamic shared memory"
        )

    def test_of_another_gpu(self, make_cuda: MakeCuda, driver: FakeDriver) -> None:
        assert grid_that_fills(make_cuda(SOURCE).kernel("one"), 256, device=1) == 8 * 132
        assert driver.current == 2


@pytest.mark.usefixtures("one_gpu")
class TestClustersThatFill:
    @pytest.mark.parametrize(("cluster", "clusters"), [(4, 32), (16, 8), ((8, 1), 16)])
    def test_is_what_the_driver_says(self, make_cuda: MakeCuda, cluster: Any, clusters: int) -> None:
        assert clusters_that_fill(make_cuda(SOURCE).kernel("one"), cluster, 512, 1024) == clusters

    def test_allows_the_shared_memory_and_the_size_first(self, make_cuda: MakeCuda, driver: FakeDriver) -> None:
        clusters_that_fill(make_cuda(SOURCE).kernel("one"), 16, 512, 98304)
        assert driver.attributes == [(8, 98304), (14, 1)]

    def test_a_cluster_that_does_not_fit(self, make_cuda: MakeCuda) -> None:
        with pytest.raises(KernelError) as caught:
            clusters_that_fill(make_cuda(SOURCE).kernel("one"), 32, 512)
        assert str(caught.value) == (
            "kernel 'one' in lesson.cu: the GPU holds no cluster of 32 blocks of 512 threads with 0 bytes of dynamic "
            "shared memory"
        )


def test_a_grid_without_a_gpu_is_skipped(make_cuda: MakeCuda) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SkipError):
        grid_that_fills(make_cuda(SOURCE).kernel("one"), 256)
    with pytest.raises(SkipError):
        clusters_that_fill(make_cuda(SOURCE).kernel("one"), 8, 256)
