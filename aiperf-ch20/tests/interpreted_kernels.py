"""Run the Triton kernels under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

import torch

from aiperf_ch20 import fast_matmul_search
from aiperf_core.benchmark import call_with


def fast_matmul() -> None:
    # A single element; an odd size; a block of more elements than a program has.
    fast_matmul_search.BLOCK = 4
    for size in (1, 2, 7, 10):
        a, b = torch.randn(size, size), torch.randn(size, size)
        implementation = fast_matmul_search.FusedAdds()
        given = {"a": a, "b": b, "n": size, "bits": 32}
        call_with(implementation.prepare, given)
        torch.testing.assert_close(call_with(implementation.run, given), a @ b, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    torch.manual_seed(0)
    for check in (fast_matmul,):
        check()
        print(f"{check.__name__} is right")
