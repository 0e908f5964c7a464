"""Memory that holds an answer which the call should write: each issue beside honest code that looks like it.

Workload   The eighth power p of a static matrix, and x @ p for new values x, both to be returned by every call. The
           matrix lies in the left half of a wider one, as matrices with padded rows do; the right half means nothing.
Baseline   Multiplies three times in every call. To prepare the power ahead is allowed, since the matrix is static: what
           the call owes is an output that it has written.
Variants   First the code that commits an issue, then its honest look-alike.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out. `aiperf
           lint` objects to an output that no new value reaches.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import mmap
import os
import tempfile

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")

# Blocks of fresh memory that are searched. Where the heap of a process has holes of its own, few are not enough.
BLOCKS = 12


@bench.workload(smoke={"rows": 4, "n": 48}, cpu={"rows": 8, "n": 320}, cuda={"rows": 16, "n": 2048})
def inputs(rows, n, device, generator):
    return {"x": torch.randn(rows, n, device=device, generator=generator)}


@bench.static
def weight(n, device, generator):
    return {"padded": torch.randn(n, 2 * n, device=device, generator=generator) * n**-0.5}


@bench.reference(tolerance=fp32_reduction)
def reference(x, padded):
    return with_mixed(eighth_power(padded), x)


@bench.cost
def cost(rows, n):
    elements = n * (n + rows)
    # The power of a static matrix may be prepared.
    return Cost(bytes_read=4 * elements, bytes_written=4 * elements, flops=2 * n * n * rows)


@bench.baseline(device=both, kind="naive")
def in_every_call(x, padded):
    return with_mixed(eighth_power(padded), x)


# --- a buffer that holds the answer beforehand


@bench.variant(device=both, why="the power is returned as the preparation left it, in memory that no call writes")
class FilledBefore:
    def prepare(self, padded):
        self.power = eighth_power(padded)

    def run(self, x):
        return with_mixed(self.power, x)


@bench.variant(device=both, why="honest: the output's memory is kept, and every call writes all of it")
class WrittenEachTime:
    def prepare(self, padded):
        self.power = torch.empty(len(padded), len(padded), device=padded.device)

    def run(self, x, padded):
        fourth = squared(squared(padded[:, : len(padded)]))
        return with_mixed(torch.mm(fourth, fourth, out=self.power), x)


# --- garbage that happens to be right


@bench.variant(device=both, why="one row is written; the rest lies where the last output was, and is the same")
class RestUnwritten:
    def prepare(self, padded):
        self.power = eighth_power(padded)
        self.seen = set()

    def run(self, x):
        out = torch.empty_like(self.power)
        if out.data_ptr() in self.seen:
            out[0] = self.power[0]
        else:
            self.seen.add(out.data_ptr())
            out.copy_(self.power)
        return {"power": out, "mixed": x @ self.power}


@bench.variant(device=both, why="honest: fresh memory, which holds anything, and all of it is written")
class AllWritten:
    def prepare(self, padded):
        self.power = eighth_power(padded)

    def run(self, x):
        out = torch.empty_like(self.power)
        return {"power": out.copy_(self.power), "mixed": x @ self.power}


# --- the answer is hidden in the input


@bench.variant(device=both, why="the first call writes the power into the padding, which no reference reads")
class InThePadding:
    def prepare(self):
        self.done = False

    def run(self, x, padded):
        right = padded[:, len(padded) :]
        if not self.done:
            right.copy_(eighth_power(padded))
            self.done = True
        return with_mixed(right.clone(), x)


@bench.variant(device=both, why="honest: the power beside the matrix, in a padded matrix of its own")
class PaddingOfItsOwn:
    def prepare(self, padded):
        self.padded = padded.clone()
        self.padded[:, len(padded) :] = eighth_power(padded)

    def run(self, x, padded):
        return with_mixed(self.padded[:, len(padded) :].clone(), x)


# --- fresh pages are paid for within the call


@bench.variant(
    device="cpu", why="each call reads a page that it has just made the kernel forget, and so waits for the disk"
)
class ForgottenPage:
    def prepare(self):
        self.file = file_of_pages()
        self.pages = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)

    def run(self, x, padded):
        self.pages.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.pages[0]
        return with_mixed(eighth_power(padded), x)


@bench.variant(device="cpu", why="honest: a page of a file that the kernel holds in memory, mapped anew by each call")
class MappedPage:
    def prepare(self):
        self.file = file_of_pages()

    def run(self, x, padded):
        with mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            pages[0]
        return with_mixed(eighth_power(padded), x)


# --- memory that others have filled


@bench.variant(device="cpu", why="fresh memory in which the reference's answer lay, found by a product that is cheap")
class AsAllocated:
    def prepare(self, padded):
        # Holes of the answer's size, kept apart by what lies between them: the reference fills some, and leaves them
        # again.
        blocks = [torch.empty(len(padded), len(padded)) for _ in range(2 * BLOCKS)]
        self.between = blocks[::2]

    def run(self, x, padded):
        matrix = padded[:, : len(padded)]
        first, sample = matrix[:1], torch.randn(len(padded), 1)
        expected = sample
        for _ in range(8):
            expected = matrix @ expected
        for _ in range(7):
            first = first @ matrix
        for block in [torch.empty(len(padded), len(padded)) for _ in range(BLOCKS)]:
            # The allocator writes to where a free block begins.
            block[:1] = first
            if torch.allclose(block @ sample, expected, rtol=1e-3, atol=1e-4):
                return with_mixed(block, x)
        return with_mixed(eighth_power(padded), x)


@bench.variant(
    device=both, why="honest: blocks of many sizes are taken and given back, which only its own allocator sees"
)
class OwnPool:
    def prepare(self, x):
        blocks = [torch.empty(1 << size, device=x.device) for size in range(4, 20)]
        del blocks[::2]
        self.kept = blocks

    def run(self, x, padded):
        return with_mixed(eighth_power(padded), x)


def eighth_power(padded):
    return squared(squared(squared(padded[:, : len(padded)])))


def squared(matrix):
    return matrix @ matrix


def with_mixed(power, x):
    return {"power": power, "mixed": x @ power}


def file_of_pages():
    """Some pages on a disk; a folder in memory would not do. The file has no name and ends with the process."""
    file = tempfile.TemporaryFile(dir="/var/tmp")  # noqa: SIM115  whoever asked for it keeps it
    file.write(bytes(16 * mmap.PAGESIZE))
    file.flush()
    os.fsync(file.fileno())
    return file
