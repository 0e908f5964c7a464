"""Run the kernels under `TRITON_INTERPRET=1` and say which are right: see `test_kernels.py`."""

import torch

from aiperf_ch14 import triton_softmax
from aiperf_core.benchmark import call_with

# A row that fills its block, that is a little longer than a chunk, that is one element; primes.
SIZES = [(3, 1), (5, 64), (2, 521), (1, triton_softmax.CHUNK + 1), (2, 2 * triton_softmax.CHUNK)]


def is_right(out: torch.Tensor, x: torch.Tensor) -> None:
    # Triton 3.9's interpreter cuts off what does not fit into bfloat16, where a GPU rounds.
    torch.testing.assert_close(out.double(), torch.softmax(x.double(), -1), rtol=2**-7, atol=1e-30)


def drawn(rows: int, columns: int) -> torch.Tensor:
    x = torch.randn(rows, columns)
    x[rows // 2, columns - 1] = triton_softmax.SPIKE
    return x.bfloat16()


def ready(name: str) -> None:
    (code,) = (one.code for one in triton_softmax.bench.implementations_on("cuda") if one.name == name)
    for rows, columns in SIZES:
        implementation, x = code(), drawn(rows, columns)
        given = {"x": x, "rows": rows, "columns": columns}
        call_with(implementation.prepare, given)
        is_right(call_with(implementation.run, given), x)


def one_block() -> None:
    ready("one_block")


def online() -> None:
    ready("online")


torch.manual_seed(0)
for kernel in (one_block, online):
    kernel()
    print(kernel.__name__, "is right")
