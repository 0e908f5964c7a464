"""Sums over the ranks in 8 bits: Triton kernels encode, add up and decode, and collectives carry the codes."""

import torch
import torch.distributed as dist

from aiperf_core.distributed import all_gather
from aiperf_core.kernels import triton_ahead, triton_source

BLOCK = 256  # numbers with one scale
ROWS = 8  # blocks of a program: 2048 numbers in the registers of four warps
LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


def compiled_for(codes, archs):
    """The kernels for one type of codes, as `EightBitSum` launches them."""
    largest = 127.0 if codes == "i8" else 448.0
    shape, code, real, whole = {"ROWS": ROWS, "BLOCK": BLOCK}, f"*{codes}:16", "*fp32:16", "i32"
    kept = {"left_ptr": real, "codes_ptr": code, "scales_ptr": real}
    received = {"received_ptr": code, "their_scales_ptr": real, **kept, "world": whole, "count": whole}
    decoded = {"codes_ptr": code, "scales_ptr": real, "before_ptr": real}
    ahead = []
    for keep, given in ((True, real), (False, "*bf16:16")):
        chosen = {**shape, "LARGEST": largest, "KEEP": keep}
        gradient = {"gradient_ptr": given, **kept, "n": whole, "count": whole}
        ahead.append(triton_ahead("encode", signature=gradient, constants=chosen))
        ahead.append(triton_ahead("add_shares", signature=received, constants=chosen))
        out = {**decoded, "out_ptr": given, "n": whole, "factor": "fp32"}
        ahead.append(triton_ahead("decode", signature=out, constants={**shape, "ADD": keep}))
    return triton_source("eight_bits_triton.py", *ahead, archs=archs)


# A target that uses one of them imports it, so that `aiperf kernels` finds it.
int8_kernels = compiled_for("i8", ("sm_80", "sm_90"))
fp8_kernels = compiled_for("fp8e4nv", ("sm_89", "sm_90"))


class EightBitSum:
    """A sum over the ranks of n numbers, in codes of 8 bits.

    A rank sends each share of its numbers to the rank that adds it up, and that one sends its sums to all. So a sum is
    not limited to 8 bits, and all ranks decode the same codes.

    source: `int8_kernels` or `fp8_kernels`.
    keep: whether what a code lacks is added to the next call's numbers; `clear` forgets it.
    """

    def __init__(self, n, device, source, *, keep):
        codes = torch.int8 if source is int8_kernels else torch.float8_e4m3fn
        self.n, self.world, self.keep, self.largest = n, dist.get_world_size(), keep, LARGEST[codes]
        self.count = -(-n // (BLOCK * self.world))  # blocks of a share
        blocks = self.world, self.count
        self.codes, self.received = torch.empty(2, *blocks, BLOCK, dtype=codes, device=device)
        self.scales, self.their_scales = torch.empty(2, *blocks, device=device)
        self.sums, self.sum_scales = self.codes.new_empty(self.count, BLOCK), self.scales.new_empty(self.count)
        lacking = (*blocks, BLOCK) if keep else (0,)
        self.left_out = self.scales.new_zeros(lacking)
        self.left_out_of_sums = self.scales.new_zeros(lacking[1:])
        self.encode, self.add_shares, self.decode = map(source.kernel, ("encode", "add_shares", "decode"))

    def clear(self):
        self.left_out.zero_()
        self.left_out_of_sums.zero_()

    def __call__(self, gradient, out, *, before=None, factor=1.0):
        """Write the sum times the factor to `out`, added to `before` if it is given; on the current stream."""
        blocks = self.world * self.count
        whole, share = -(-blocks // ROWS), -(-self.count // ROWS)
        shape = {"ROWS": ROWS, "BLOCK": BLOCK}
        coding = {**shape, "LARGEST": self.largest, "KEEP": self.keep}
        self.encode[(whole,)](gradient, self.left_out, self.codes, self.scales, self.n, blocks, **coding)
        dist.all_to_all_single(self.received.view(torch.uint8), self.codes.view(torch.uint8))
        dist.all_to_all_single(self.their_scales, self.scales)
        self.add_shares[(share,)](
            self.received,
            self.their_scales,
            self.left_out_of_sums,
            self.sums,
            self.sum_scales,
            self.world,
            self.count,
            **coding,
        )
        all_gather(self.codes.view(torch.uint8), self.sums.view(torch.uint8))
        all_gather(self.scales, self.sum_scales)
        added = out if before is None else before
        adding = {**shape, "ADD": before is not None}
        self.decode[(whole,)](self.codes, self.scales, added, out, self.n, factor, **adding)
