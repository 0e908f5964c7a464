"""Run the kernels under `TRITON_INTERPRET=1` and say which are right: see `test_kernels.py`."""

import torch

from aiperf_ch01 import launch_overhead, precision_ladder, train_step


def folds() -> None:
    x = torch.randn(1021)
    fused = launch_overhead.FusedTriton()
    fused.prepare(x, 9)
    torch.testing.assert_close(fused.run(x, 9), launch_overhead.reference(x, 9), rtol=0, atol=1e-6)


def update() -> None:
    kernel = train_step.kernels.kernel("update")
    for n in (1, 1025):
        weight, momentum, gradient = torch.randn(n), torch.randn(n), torch.randn(n).bfloat16()
        copy, weights, momenta = torch.zeros(n).bfloat16(), [weight.double()], [momentum.double()]
        train_step.update(weights, momenta, [gradient.double()])
        kernel[(-(-n // train_step.BLOCK),)](
            weight, momentum, gradient, copy, n, train_step.RATE, train_step.MOMENTUM, BLOCK=train_step.BLOCK
        )
        torch.testing.assert_close(weight.double(), weights[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(momentum.double(), momenta[0], rtol=0, atol=1e-6)
        # Triton 3.9's interpreter cuts off what does not fit into bfloat16, where a GPU rounds.
        torch.testing.assert_close(copy, weight.bfloat16(), rtol=2**-7, atol=0)


def quantise_rows() -> None:
    fp8 = precision_ladder.Fp8Rowwise()
    fp8.kernel = precision_ladder.kernels.kernel("quantise_rows")
    for relu, columns, padded in ((False, 1031, 1040), (True, 37, 48)):
        x = torch.randn(5, columns)
        x[0] = 0
        out, scales = precision_ladder.eight_bits(len(x), padded, x.device)
        out.view(torch.uint8).fill_(0xFF)
        fp8.rounded(x, out, scales, relu=relu)
        kept = x.relu() if relu else x
        torch.testing.assert_close(scales[1:], kept[1:].abs().amax(1, keepdim=True) / 448, rtol=1e-6, atol=0)
        wanted = (kept / scales).clamp(-448, 448).to(out.dtype).float()
        # Triton 3.9's interpreter loses the carry where rounding reaches the next power of two, in one of some 40.
        assert (out.float()[:, :columns] == wanted).float().mean() > 0.95
        assert not out.float()[:, columns:].any()
        assert not out[0].float().any()


torch.manual_seed(0)
for kernel in (folds, update, quantise_rows):
    kernel()
    print(kernel.__name__, "is right")
