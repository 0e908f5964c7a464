"""Memory spaces: coefficients in constant memory, values in registers; shared memory only where lanes share.

Question    A filter reads each value 33 times. From which memory should those reads come?
Numbers     out[i] = sum of taps[k] x[i + k], 33 taps, 2^27 float32: 1.07 GB, 0.25 ms at the rate of a copy; 4.4e9
            multiply-adds take 0.13 ms. A load of a warp takes a cycle of an SM's L1 or shared memory for each line of
            128 bytes. For 32 outputs an SM has 16 cycles if memory is the bound; `global_memory` has 33 loads of taps,
            and 33 of values, 32 of which lie across two lines.
Prediction  66 to 98 cycles, then 33 to 65 with taps in constant memory, which a warp reads once for all lanes. A tile
            in shared memory has no lines: 33. A value that a lane keeps for its four outputs is read 36 / 4 = 9 times,
            16 bytes a load: 9 cycles, and memory is the bound, be the tile in shared memory or in L1.
Limits      Few taps: with 5 the first form needs 10 to 15 cycles, and memory is the bound already. Lanes that read
            different taps at once, which constant memory serves one by one. Taps are sent with each launch, 4 KB at
            most. More outputs a lane take registers.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("stencil_memory_spaces.cu")
host_code = host_source("stencil_memory_spaces.c", options=("-ffp-contract=fast",))

TAPS, THREADS, OUTPUTS = 33, 256, 4


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 22}, cuda={"n": 1 << 27})
def inputs(n, device, generator):
    return {"x": torch.randn(n + TAPS - 1, device=device, generator=generator)}


@bench.static
def filters(device, generator):
    return {"taps": torch.randn(TAPS, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, taps):
    n = len(x) - TAPS + 1
    out = torch.zeros_like(x[:n])
    for k in range(TAPS):
        out.add_(x[k : k + n] * taps[k])
    return out


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * (n + 2 * TAPS - 1), bytes_written=4 * n, flops=2 * TAPS * n)


# An output; around four of a lane, a block's tile and its halo.
bench.awkward(n=(1, 3, 5, 31, 257, 1023, 1025, 65537))
# 0.25 ms of traffic beside 0.13 ms of multiply-adds, which have their own pipe.
cuda.reach(of="BW", at_least=0.85)
bench.sass("global_memory", has=("LDG.32", "FFMA"), lacks=("LDG.64", "LDG.128", "LDS"))
bench.sass("constant_taps", has=("LDG.32", "FFMA"), lacks=("LDG.64", "LDG.128", "LDS"))
bench.sass("shared_tile", has="LDS.32", lacks=("LDS.64", "LDS.128"))
bench.sass("register_window", has=("LDG.128", "LDS.128", "FFMA"), lacks=("LDL", "STL"))
bench.sass("without_shared", has=("LDG.128", "FFMA"), lacks=("LDS", "LDL", "STL"))


def outputs(x, n):
    """Memory for the outputs."""
    return x.new_empty(n)


# Parameters of a kernel lie in constant memory.
filtered = launch(
    device_code,
    out=outputs,
    make={"filter": lambda taps: taps.cpu().numpy().tobytes()},
    grid=blocks(n=THREADS),
    block=THREADS,
)
loops = loop(host_code, out=outputs)

cuda.baseline(filtered("global_memory"), kind="naive")
cuda.variant(
    filtered("constant_taps"),
    adds="constant memory",
    why="a warp reads taps two at a time from constant memory into uniform registers: half of L1's loads are gone",
    predict="1.3 to 2.1x: 33 to 65 cycles of L1 for 32 outputs in place of 66 to 98",
)
cuda.variant(
    filtered("shared_tile"),
    builds_on="constant_taps",
    adds="shared tile",
    why="32 words of shared memory are read in a cycle wherever they begin, where L1 looks up two lines",
    predict="0.8 to 2x: 35 cycles with the tile's own two, in place of 33 to 65",
    teaches="L1 serves reads that lie across two lines as fast as shared memory does; the tile costs a barrier",
)
cuda.variant(
    filtered("register_window", grid=blocks(n=OUTPUTS * THREADS)),
    builds_on="shared_tile",
    adds="register window",
    why="a value in a register serves the four outputs of a lane, and is loaded with three neighbours",
    predict="1.6 to 3x: memory's 16 cycles for 32 outputs in place of 35 of shared memory",
)
cuda.variant(
    filtered("without_shared", grid=blocks(n=OUTPUTS * THREADS)),
    builds_on="constant_taps",
    adds="register window",
    why="the same window from L1: lanes ask for what their neighbours ask for, and L1 has it, without a barrier",
    predict="1.6 to 4x: memory's 16 cycles for 32 outputs in place of 33 to 65 of L1",
)

cpu.baseline(loops("one_at_a_time"), kind="naive")
cpu.variant(
    loops("simd"),
    adds="simd",
    why="eight outputs an instruction; each reads a tap and eight values",
)
cpu.variant(
    loops("registers"),
    builds_on="simd",
    adds="register reuse",
    why="a tap in a register serves 32 outputs: 5 loads for 4 multiply-adds, not 8",
    predict="1 to 1.6x: a core makes two loads and two multiply-adds a cycle",
)


@bench.yardstick(device=("cpu", "cuda"), name="conv1d", why="conv1d of torch, which is cuDNN or oneDNN, in float32")
def conv1d(x, taps):
    return torch.nn.functional.conv1d(x.view(1, 1, -1), taps.view(1, 1, -1)).view(-1)
