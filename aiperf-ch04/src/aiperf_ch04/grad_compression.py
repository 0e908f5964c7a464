"""Compressed gradients: fewer bytes on the wire, for the cost of encoding them.

Question    When do gradients of 16 or 8 bits save more time on the link than it takes to encode and decode them?

Numbers     Six rounds. In each, every rank has 2^25 float32 gradients, heavy-tailed and with a component that is the
            same in all rounds. All ranks compute the running total of the means: the path of the weights. On two ranks
            a rank sends 4 bytes a number in float32, 2 in bfloat16, 1.02 in int8 with a scale for 256 numbers. With the
            addition to the total, float32 passes 12 bytes a number through memory, bfloat16 16, int8 in torch 129.

Prediction  The time of a number is its wire bytes / link + its memory bytes / copy rate. With a link of a tenth of the
            copy rate, in bytes at the copy rate: float32 40 + 12 = 52, bfloat16 20 + 16 = 36, 1.4x. Kernels that encode
            into the peer's memory leave 5 bytes outside of the transfer: 25, 2.1x. Fused int8 takes 10 + 22.

Limits      A form that saves B bytes of the wire for M bytes of memory wins on links slower than B / M of the copy
            rate: bfloat16 over float32 below 2 / 4, fused int8 over bfloat16 below 1 / 6, int8 in torch over float32
            below 3 / 117, which is a network. Each variant is lossy. Error feedback adds what int8 leaves out to the
            next round, so that the error of the total does not grow: `--size drift` has 20 rounds.
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32, lossy
from aiperf_core.distributed import all_gather, register_peer_operation, symmetric_buffers
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(
    goal="speed",
    clock="wall",
    no_gain_on={"cpu": "between two processes of one machine a byte costs less than the conversion that spares it"},
)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires=("gpus:2", "sm_80", "package:triton"))

BLOCK, LARGEST = 256, 127  # numbers with one scale, and the largest code
ROWS, WHOLE = 8, 16  # blocks of a program: 2048 numbers in the registers of four warps; of a share, a multiple


@bench.workload(
    state=["gradients"],
    smoke={"rounds": 6, "n": 4099, "world_size": 2},
    cpu={"rounds": 6, "n": 1 << 18, "world_size": 2},
    cuda={"rounds": 6, "n": 1 << 25, "world_size": 2},
    drift={"rounds": 20, "n": 1 << 20, "world_size": 2},
)
def inputs(rounds, n, device, generator):
    noise = torch.randn(rounds, n, device=device, generator=generator)
    noise += torch.randn(n, device=device, generator=generator)
    return {"gradients": noise.pow_(3)}


@bench.reference(tolerance=fp32)
def reference(gradients, world_size):
    totals = (sum(gradients[1:], gradients[0]) / world_size).cumsum(0)
    return [totals for _ in gradients]


def sending(wire_bits):
    """The cost of a form that sends a number in so many bits; on two ranks or more, twice."""

    def cost(rounds, n, world_size):
        numbers = rounds * n
        return Cost(
            bytes_read=4 * numbers,
            bytes_written=4 * numbers,
            flops=2 * numbers,
            # All-reduces: 2 (n - 1) / n of the data (Patarasuk and Yuan, 2009).
            wire_bytes=2 * (world_size - 1) / world_size * wire_bits / 8 * numbers,
        )

    return cost


bench.cost(sending(32))
cost_of_bf16, cost_of_int8 = sending(16), sending(8 + 32 / BLOCK)

# Six rounds or more: only then does feedback make the difference that the budget of int8 asks for.
bench.awkward({"rounds": 7, "n": 5003, "world_size": 3})
# 25 of 52 bytes at the copy rate are 2.1x; four fifths of that are left beside launches.
bench.reach(of="speedup", at_least=1.7)


class Totals:
    """Adds the means up, round after round.

    summed(gradient): the sum of a round over the ranks. Implementations that do not have it have an `add` of their own.
    """

    summed: Any

    def prepare(self, gradients, world_size):
        # Behind row 0, the total before the first round, are those after each.
        self.totals = gradients.new_zeros(len(gradients) + 1, gradients.shape[1])
        self.world_size, self.share = world_size, 1 / world_size
        self.set_up(gradients[0])

    def set_up(self, gradient):
        pass

    def clear(self):
        pass

    def add(self, gradient, before, after):
        """Write the total after a round."""
        torch.add(before, self.summed(gradient), alpha=self.share, out=after)

    def run(self, gradients):
        self.clear()
        for gradient, before, after in zip(gradients, self.totals[:-1], self.totals[1:], strict=True):
            self.add(gradient, before, after)
        return self.totals[1:]


@both.baseline(kind="reasonable")
class Fp32(Totals):
    def summed(self, gradient):
        dist.all_reduce(gradient)
        return gradient


bf16_budget, int8_budget = lossy("rel_l2", at_most=3e-3), lossy("rel_l2", at_most=1.05e-2)


@both.variant(
    adds="bfloat16",
    why="half the bytes on the wire, for one conversion",
    predict="1.2 to 1.5x: 20 bytes of wire and 16 of memory in place of 40 and 12",
    lossy=bf16_budget,
    cost=cost_of_bf16,
)
class Bf16(Totals):
    def summed(self, gradient):
        rounded = gradient.bfloat16()
        dist.all_reduce(rounded)
        return rounded


@both.variant(
    adds="8-bit integers",
    why="a quarter of float32's bytes on the wire, for many passes over memory",
    predict="0.3 to 0.5x: 10 bytes of wire and 129 of memory in place of 40 and 12",
    teaches="8 bits pay only where encoding takes few passes: each operation of torch moves more than the wire saves",
    lossy=int8_budget,
    cost=cost_of_int8,
)
class Int8(Totals):
    """Blocks of 8-bit numbers with a scale each. A rank is sent its share by all, and sends them its sums.

    So no sum is limited to 8 bits. What rounding left out is added to the next round.
    """

    def set_up(self, gradient):
        self.n = gradient.numel()
        blocks = -(-self.n // (BLOCK * self.world_size))  # of a share
        self.left_out = gradient.new_empty(self.world_size, blocks, BLOCK)
        self.left_out_of_sums = gradient.new_empty(blocks, BLOCK)

    def clear(self):
        self.left_out.zero_()
        self.left_out_of_sums.zero_()

    def summed(self, gradient):
        self.left_out.view(-1)[: self.n] += gradient
        sent, scales = self.quantised(self.left_out)
        received, their_scales = torch.empty_like(sent), torch.empty_like(scales)
        dist.all_to_all_single(received, sent)
        dist.all_to_all_single(their_scales, scales)
        for codes, scale in zip(received, their_scales, strict=True):
            self.left_out_of_sums.addcmul_(codes.float(), scale)
        share, share_scales = self.quantised(self.left_out_of_sums)
        all_gather(sent, share)
        all_gather(scales, share_scales)
        return torch.mul(sent.float(), scales).view(-1)[: self.n]

    def quantised(self, values):
        """Numbers of 8 bits and the scales of their blocks; what they lack stays behind in `values`."""
        scales = values.abs().amax(-1, keepdim=True).clamp_(min=1e-30).div_(LARGEST)
        small = (values / scales).round_().to(torch.int8)
        values.addcmul_(small.float(), scales, value=-1)
        return small, scales


def compiled_ahead(scaled):
    """The three kernels for one encoding, as `Fused` launches them."""
    real, part, table, whole = "*fp32:16", "*i8:16", "*i64:16", "i32"
    totals = {"before_ptr": real, "after_ptr": real, "n": "i32:16", "factor": "fp32"}
    given = {"gradient_ptr": real, "left_ptr": real, "part_of_ptr": table}
    place = {"rank": whole, "world": whole, "count": "i32:16"}
    signatures = {
        "scatter": {**given, "n": "i32:16", **place},
        "add_share": {**given, "received_ptr": part, **totals, **place},
        "add_sums": {"received_ptr": part, **totals, **place},
    }
    constants = {"SCALED": scaled, "ROWS": ROWS, "BLOCK": BLOCK}
    return [triton_ahead(name, signature=types, constants=constants) for name, types in signatures.items()]


kernels = triton_source(
    "grad_compression_triton.py", *compiled_ahead(False), *compiled_ahead(True), archs=("sm_80", "sm_90")
)


def launch(name, arguments, grid, place, scaled):
    """Launch a kernel for the blocks of a share, for each of `grid` other ranks or for this one."""
    blocks = -(-place[-1] // ROWS)
    kernels.kernel(name)[(blocks, grid)](*arguments, *place, SCALED=scaled, ROWS=ROWS, BLOCK=BLOCK)


def scatter(gradient, left, part_of, rank, world, count, scaled):
    """Encode the share of each other rank."""
    launch("scatter", (gradient, left, part_of, gradient.numel()), world - 1, (rank, world, count), scaled)


def add_share(gradient, left, received, sums_of, before, after, factor, rank, world, count, scaled):
    """Add up the own share, encode the sums and add them to the total."""
    arguments = gradient, left, received, sums_of, before, after, gradient.numel(), factor
    launch("add_share", arguments, 1, (rank, world, count), scaled)


def add_sums(sums, before, after, factor, rank, world, count, scaled):
    """Add the sums of the other ranks' shares to the total."""
    launch("add_sums", (sums, before, after, after.numel(), factor), world - 1, (rank, world, count), scaled)


class Fused(Totals):
    """Three kernels: encode the shares of others; add up the own one and encode the sums; add their sums to the total.

    make_parts(part_bytes, device): make `received` and `sums`, parts of all ranks of `part_bytes` each, and `part_of`
        and `sums_of`, the addresses to which a rank writes its parts and its sums for each other rank.
    exchange(), gather(): bring what was written to where the others read it.
    """

    scaled = True
    scatter, add_share = staticmethod(scatter), staticmethod(add_share)
    received: torch.Tensor
    sums: torch.Tensor
    part_of: torch.Tensor
    sums_of: torch.Tensor
    make_parts: Any
    exchange: Any
    gather: Any

    def set_up(self, gradient):
        self.rank, world = dist.get_rank(), self.world_size
        count = WHOLE * -(-gradient.numel() // (WHOLE * BLOCK * world))  # blocks of a share
        self.place = self.rank, world, count, self.scaled
        self.left_out = gradient.new_empty(world if self.scaled else 0, count, BLOCK)
        self.left_out_of_sums = torch.empty_like(self.left_out[:1])
        self.make_parts(count * (BLOCK + 4 if self.scaled else 2 * BLOCK), gradient.device)

    def clear(self):
        self.left_out.zero_()
        self.left_out_of_sums.zero_()

    def add(self, gradient, before, after):
        self.scatter(gradient, self.left_out, self.part_of, *self.place)
        self.exchange()
        total = before, after, self.share
        self.add_share(gradient, self.left_out_of_sums, self.received, self.sums_of, *total, *self.place)
        self.gather()
        add_sums(self.sums, *total, *self.place)


@cuda.variant(
    builds_on="int8",
    adds="kernel fusion",
    why="encoding, feedback, sums and totals take three passes; scales lie behind the codes: two collectives a round",
    predict="3 to 5x: 22 bytes of memory in place of 129, beside the same 10 of the wire",
    lossy=int8_budget,
    cost=cost_of_int8,
)
class Int8Fused(Fused):
    def make_parts(self, part_bytes, device):
        memory = torch.empty(3, self.world_size, part_bytes, dtype=torch.int8, device=device)
        self.parts, self.received, self.sums = memory
        self.own_sums = torch.empty_like(self.parts[0])
        self.part_of = torch.tensor([part.data_ptr() for part in self.parts], device=device)
        self.sums_of = torch.full_like(self.part_of, self.own_sums.data_ptr())

    def exchange(self):
        dist.all_to_all_single(self.received, self.parts)

    def gather(self):
        all_gather(self.sums, self.own_sums)


PLACE = "int rank, int world, int count, bool scaled) -> ()"
put_parts = register_peer_operation(
    f"ch04_put_parts(Tensor gradient, Tensor(a!) left, Tensor part_of, {PLACE}", scatter
)
put_sums = register_peer_operation(
    "ch04_put_sums(Tensor gradient, Tensor(a!) left, Tensor received, Tensor sums_of, Tensor before, Tensor(b!) after, "
    f"float factor, {PLACE}",
    add_share,
)


class Puts(Fused):
    """Kernels that write parts and sums into the memory of the ranks that read them."""

    scatter, add_share = staticmethod(put_parts), staticmethod(put_sums)

    def make_parts(self, part_bytes, device):
        self.peers = symmetric_buffers(2, self.world_size, part_bytes, dtype=torch.int8)
        self.received, self.sums = self.peers.mine
        self.part_of = self.peers.addresses + self.rank * part_bytes
        self.sums_of = self.part_of + self.world_size * part_bytes

    def exchange(self):
        self.peers.barrier()

    gather = exchange


@cuda.variant(
    builds_on="int8_fused",
    adds="peer writes",
    why="codes are written into the peer's memory: they travel while the kernel encodes, and no collective copies them",
    predict="1.2 to 1.8x: 21 bytes of memory, behind which the wire hides, in place of 22 and 10 of the wire",
    lossy=int8_budget,
    cost=cost_of_int8,
)
class Int8Puts(Puts):
    pass


@cuda.variant(
    builds_on="bf16",
    adds="peer writes",
    why="numbers are rounded into the peer's memory, and the sums come back likewise: both passes hide in the transfer",
    predict="1.3 to 1.8x: 20 bytes of wire and 5 of memory in place of 20 and 16",
    lossy=bf16_budget,
    cost=cost_of_bf16,
)
class Bf16Puts(Puts):
    scaled = False
