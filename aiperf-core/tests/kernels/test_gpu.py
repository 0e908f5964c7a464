"""Launches on a real GPU: what test_launcher.py can only believe."""

import struct
import threading
from collections.abc import Callable

import pytest
import torch

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaSource, TritonSource, grid_that_fills, tensor_map

MakeCuda = Callable[..., CudaSource]
MakeTriton = Callable[..., TritonSource]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

WIDE = """
extern "C" __global__ void wide(const float* __restrict__ a, float* __restrict__ b, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) b[i] = 2 * a[i] + 1;
}
"""
PRIME = 1_000_003


def capability() -> tuple[int, int]:
    return torch.cuda.get_device_capability()


def blocks(n: int, block: int = 256) -> int:
    return -(-n // block)


def test_it_computes_at_a_prime_length(make_cuda: MakeCuda) -> None:
    a = torch.randn(PRIME, device="cuda")
    b = torch.full((PRIME + 1,), -7.0, device="cuda")
    make_cuda(WIDE).launch("wide", a, b, PRIME, grid=blocks(PRIME), block=256)
    torch.testing.assert_close(b[:PRIME], 2 * a + 1, rtol=1e-6, atol=1e-6)
    assert b[PRIME].item() == -7.0


def test_every_kind_of_scalar_arrives(make_cuda: MakeCuda) -> None:
    text = """
    struct Pair { int a; double b; };
    extern "C" __global__ void all(double* out, signed char c, unsigned char uc, short s, unsigned short us, int i,
                                   unsigned u, long long q, size_t z, bool yes, float f, double d, Pair pair,
                                   const void* null) {
        double found[] = {(double)c, (double)uc, (double)s, (double)us, (double)i, (double)u, (double)q, (double)z,
                          (double)yes, (double)f, d, (double)pair.a, pair.b, null == nullptr ? 1.0 : 0.0};
        for (int at = 0; at < 14; at++) out[at] = found[at];
    }
    """
    out = torch.zeros(14, device="cuda", dtype=torch.float64)
    values = [-128, 255, -32768, 65535, -(1 << 31), (1 << 32) - 1, -(1 << 52), 1 << 52, True, 0.5, 1e300]
    pair = struct.pack("=i4xd", -9, 2.5)
    make_cuda(text).launch("all", out, *values, pair, None, grid=1, block=1)
    assert out.tolist() == [*map(float, values), -9.0, 2.5, 1.0]


def test_a_tensor_map_arrives_whole(make_cuda: MakeCuda) -> None:
    text = """
    #include <cuda.h>
    extern "C" __global__ void copy(const __grid_constant__ CUtensorMap map, unsigned char* out, int after) {
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&map);
        for (int at = 0; at < 128; at++) out[at] = bytes[at];
        out[128] = after;
    }
    """
    out = torch.zeros(129, device="cuda", dtype=torch.uint8)
    make_cuda(text).launch("copy", bytes(range(128)), out, 200, grid=1, block=1)
    assert out.tolist() == [*range(128), 200]
    with pytest.raises(KernelError, match=r"'const CUtensorMap map' is 128 bytes; got 64$"):
        make_cuda(text).launch("copy", bytes(64), out, 200, grid=1, block=1)


BOX_COPY = """
#include "aiperf/bulk.cuh"
// The box of 8 rows of 64 bytes at (x, y) to `out`, row by row.
extern "C" __global__ void box(const __grid_constant__ CUtensorMap map, unsigned int* out, int x, int y) {
  __shared__ alignas(128) unsigned int tile[8 * 16];
  __shared__ Barrier arrived;
  if (threadIdx.x == 0) {
    barrier_init(&arrived, 1);
    barrier_init_fence();
    barrier_expect(&arrived, sizeof(tile));
    tensor_load(tile, &map, x, y, &arrived);
  }
  __syncthreads();
  barrier_wait(&arrived, 0);
  for (int at = threadIdx.x; at < 8 * 16; at += blockDim.x) out[at] = tile[at];
}
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int8])
def test_the_copy_engine_reads_a_tensor_map_of_each_type(make_cuda: MakeCuda, dtype: torch.dtype) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("the copy engine needs sm_90")
    columns = 64 // dtype.itemsize
    array = torch.randint(-100, 100, (11, 3 * columns), device="cuda").to(dtype)
    kernel = make_cuda(BOX_COPY, archs=("sm_90",)).kernel("box")
    out = torch.full((128,), -1, device="cuda", dtype=torch.int32)
    for x, y in ((columns, 1), (2 * columns + columns // 2, 5)):
        kernel(tensor_map(array, (8, columns)), out, x, y, grid=1, block=32)
        # Beyond the edges it reads zeros.
        padded = torch.nn.functional.pad(array, (0, columns, 0, 8))
        assert torch.equal(out.view(dtype).view(8, columns), padded[y : y + 8, x : x + columns])


def test_a_grid_that_fills_the_gpu_holds_every_block_at_once(make_cuda: MakeCuda) -> None:
    # Each block waits for all others, which ends only where all are on the chip.
    text = """
    extern "C" __global__ void meet(unsigned int* arrived, int* seen) {
        if (threadIdx.x == 0) {
            atomicAdd(arrived, 1u);
            while (atomicAdd(arrived, 0u) < gridDim.x) {}
            seen[blockIdx.x] = 1;
        }
    }
    """
    kernel = make_cuda(text).kernel("meet")
    blocks = grid_that_fills(kernel, 256)
    assert blocks % torch.cuda.get_device_properties(0).multi_processor_count == 0
    arrived = torch.zeros(1, device="cuda", dtype=torch.int32)
    seen = torch.zeros(blocks, device="cuda", dtype=torch.int32)
    kernel(arrived, seen, grid=blocks, block=256)
    assert seen.sum().item() == blocks


def test_a_grid_of_three_dimensions(make_cuda: MakeCuda) -> None:
    text = """
    extern "C" __global__ void where(int* out) {
        int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
    }
    """
    out = torch.full((2 * 3 * 5, 4 * 3 * 2), -1, device="cuda", dtype=torch.int32)
    make_cuda(text).launch("where", out, grid=(2, 3, 5), block=(4, 3, 2))
    expected = torch.arange(30, device="cuda")[:, None] * 1000 + torch.arange(24, device="cuda")[None, :]
    assert torch.equal(out, expected.int())


SHARED = """
extern "C" __global__ void reversed(const float* a, float* b, int n) {
    extern __shared__ float tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = a[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] = tile[n - 1 - i];
}
"""


@pytest.mark.parametrize("kib", [48, 49, 64, 96])
def test_more_shared_memory_than_48_kib(make_cuda: MakeCuda, kib: int) -> None:
    n = kib * 1024 // 4
    a = torch.randn(n, device="cuda")
    b = torch.empty_like(a)
    make_cuda(SHARED).launch("reversed", a, b, n, grid=1, block=256, shared_bytes=4 * n)
    assert torch.equal(b, a.flip(0))


def test_more_shared_memory_than_there_is(make_cuda: MakeCuda) -> None:
    source, a = make_cuda(SHARED), torch.zeros(8, device="cuda")
    with pytest.raises(KernelError, match="asks for 1048576 bytes of dynamic shared memory a block; this GPU has"):
        source.launch("reversed", a, a, 8, grid=1, block=32, shared_bytes=1 << 20)
    source.launch("reversed", a, torch.empty_like(a), 8, grid=1, block=32, shared_bytes=32)
    torch.cuda.synchronize()


def test_the_current_stream_is_used(make_cuda: MakeCuda) -> None:
    wide = make_cuda(WIDE).kernel("wide")
    a, b = torch.zeros(PRIME, device="cuda"), torch.empty(PRIME, device="cuda")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # on any other stream the kernel would run before the fill
        a.fill_(3)
        wide(a, b, PRIME, grid=blocks(PRIME), block=256)
    assert not side.query(), "a launch does not wait"
    side.synchronize()
    assert bool((b == 7).all())


def test_it_can_be_captured_in_a_graph(make_cuda: MakeCuda) -> None:
    wide = make_cuda(WIDE).kernel("wide")
    a, b = torch.zeros(PRIME, device="cuda"), torch.zeros(PRIME, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        wide(a, b, PRIME, grid=blocks(PRIME), block=256)
    for value in (1.0, 5.0):
        a.fill_(value)
        graph.replay()
        assert bool((b == 2 * value + 1).all())


def test_a_refused_launch_leaves_the_gpu_usable(make_cuda: MakeCuda) -> None:
    source = make_cuda(WIDE)
    a, b = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    with pytest.raises(
        KernelError, match=r"could not be launched with grid=\(1, 1, 1\), block=\(4096, 1, 1\), .*CUDA_ERR"
    ):
        source.launch("wide", a, b, 8, grid=1, block=4096)
    source.launch("wide", a, b, 8, grid=1, block=8)
    assert b.tolist() == [3.0] * 8


def test_without_any_parameter(make_cuda: MakeCuda) -> None:
    make_cuda('extern "C" __global__ void none() {}').launch("none", grid=1, block=1)
    torch.cuda.synchronize()


def test_threads_do_not_mix_their_arguments(make_cuda: MakeCuda) -> None:
    text = 'extern "C" __global__ void put(int* out, int at, int value) { out[at] = value; }'
    put = make_cuda(text).kernel("put")
    out = torch.zeros(4, 500, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work(row: int) -> None:
        try:
            for at in range(500):
                put(out, row * 500 + at, row * 1000 + at, grid=1, block=1)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(row,)) for row in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    torch.cuda.synchronize()
    assert failures == []
    expected = torch.arange(4)[:, None] * 1000 + torch.arange(500)[None, :]
    assert torch.equal(out.cpu(), expected.int())


def test_halves_and_bfloats(make_cuda: MakeCuda) -> None:
    text = """
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    extern "C" __global__ void widen(const __half* a, const __nv_bfloat16* b, float* out) {
        out[threadIdx.x] = __half2float(a[threadIdx.x]) + __bfloat162float(b[threadIdx.x]);
    }
    """
    a, b = torch.randn(64, device="cuda").half(), torch.randn(64, device="cuda").bfloat16()
    out = torch.empty(64, device="cuda")
    make_cuda(text).launch("widen", a, b, out, grid=1, block=64)
    assert torch.equal(out, a.float() + b.float())
    with pytest.raises(KernelError, match="takes a CUDA tensor of float16; got a tensor of bfloat16 on cuda:0"):
        make_cuda(text).launch("widen", b, b, out, grid=1, block=64)


def test_a_cluster(make_cuda: MakeCuda) -> None:
    if capability() < (9, 0):
        pytest.skip("clusters need sm_90")
    text = """
    extern "C" __global__ void rank(int* out) {
        unsigned in_cluster, size;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(in_cluster));
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
        if (threadIdx.x == 0) out[blockIdx.x] = size * 100 + in_cluster;
    }
    """
    source = make_cuda(text, archs=("sm_90",))
    beyond_portable = [16] if capability() in ((9, 0), (10, 0)) else []
    for size in (2, 4, *beyond_portable):
        out = torch.zeros(32, device="cuda", dtype=torch.int32)
        source.launch("rank", out, grid=32, block=32, cluster=size)
        assert out.tolist() == [size * 100 + block % size for block in range(32)]


def test_this_gpu_gets_its_own_architecture(make_cuda: MakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    compile_ = CudaSource.compile

    def noted(source: CudaSource, arch: str) -> bytes:
        asked.append(arch)
        return compile_(source, arch)

    monkeypatch.setattr(CudaSource, "compile", noted)
    major, minor = capability()
    suffix = "a" if major >= 9 else ""  # the first architecture with instructions of its own was sm_90a
    a = torch.ones(8, device="cuda")
    make_cuda(WIDE).launch("wide", a, torch.empty_like(a), 8, grid=1, block=8)
    make_cuda(WIDE, archs=("sm_80", f"sm_{major}{minor}{suffix}")).kernel("wide")
    assert asked == [f"sm_{major}{minor}", f"sm_{major}{minor}{suffix}"]
    with pytest.raises(SkipError, match=rf"^lesson.cu needs sm_999; this GPU is sm_{major}{minor} \("):
        make_cuda(WIDE, archs=("sm_999",)).kernel("wide")


def test_hoppers_own_instructions(make_cuda: MakeCuda) -> None:
    if capability() != (9, 0):
        pytest.skip("needs sm_90a")
    text = """
    extern "C" __global__ void fence(int* out) { asm volatile("wgmma.fence.sync.aligned;"); out[threadIdx.x] = 1; }
    """
    out = torch.zeros(128, device="cuda", dtype=torch.int32)
    make_cuda(text, archs=("sm_90a",)).launch("fence", out, grid=1, block=128)
    assert out.sum().item() == 128


def test_the_device_is_the_first_tensors(make_cuda: MakeCuda) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    source = make_cuda(WIDE)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        a = torch.ones(8, device=device)
        b = torch.zeros_like(a)
        source.launch("wide", a, b, 8, grid=1, block=8)
        assert b.tolist() == [3.0] * 8
    assert torch.cuda.current_device() == 0


def test_a_triton_kernel_is_launched_as_usual(make_triton: MakeTriton) -> None:
    pytest.importorskip("triton", reason="needs triton")
    source = make_triton("""
import triton
import triton.language as tl

@triton.jit
def scale(a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b_ptr + at, 2 * tl.load(a_ptr + at, mask=at < n) + 1, mask=at < n)
""")
    a = torch.randn(PRIME, device="cuda")
    b = torch.empty_like(a)
    source.kernel("scale")[(blocks(PRIME, 1024),)](a, b, PRIME, BLOCK=1024)
    torch.testing.assert_close(b, 2 * a + 1, rtol=1e-6, atol=1e-6)
