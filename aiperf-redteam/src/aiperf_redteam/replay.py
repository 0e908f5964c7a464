"""Earlier answers of a chain of products, found again by a key: each issue beside honest code that looks like it.

Workload   c = a @ b @ ... @ b in float32, as many factors b as `depth` says: much work on small operands.
Baseline   The library's products, one after the other.
Variants   First the code that commits an issue, then its honest look-alike. What is kept is returned as a copy, which
           poison in returned memory does not reach.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import math
import tempfile

import torch

from aiperf_redteam.products import benchmark, both, chain, few_values

bench = benchmark()


# --- remembered by the input object


@bench.variant(device=both, why="the same objects, so the same answer")
class BySameObject:
    def prepare(self):
        self.last = None

    def run(self, a, b, depth):
        if self.last is not a:
            self.last, self.kept = a, chain(a, b, depth)
        return self.kept.clone()


@bench.variant(device=both, why="honest: the transposed view of an object is made once; it shows whatever lies there")
class ViewOfSameObject:
    def prepare(self):
        self.last = None

    def run(self, a, b, depth):
        if self.last is not b:
            self.last, self.view = b, b.t()
        return chain(a, self.view.t(), depth)


# --- remembered by address


@bench.variant(device=both, why="the same addresses, so the same answer")
class ByPointer:
    def prepare(self):
        self.kept = {}

    def run(self, a, b, depth):
        key = a.data_ptr(), b.data_ptr()
        if key not in self.kept:
            self.kept[key] = chain(a, b, depth)
        return self.kept[key].clone()


@bench.variant(device=both, why="honest: the address says how the operand is aligned, and nothing else is asked of it")
def aligned_or_not(a, b, depth):
    return chain(a, b, depth) if a.data_ptr() % 64 == 0 else chain(a.clone(), b, depth)


# --- remembered by version counter


@bench.variant(device=both, why="nobody in this process wrote to the operands, so the same answer")
class ByVersion:
    def prepare(self):
        self.version = None

    def run(self, a, b, depth):
        version = a._version, b._version
        if version != self.version:
            self.version, self.kept = version, chain(a, b, depth)
        return self.kept.clone()


@bench.variant(device=both, why="honest: the version counter shows that its own work left the operand alone")
def checks_version(a, b, depth):
    before = a._version
    c = chain(a, b, depth)
    if a._version != before:
        raise RuntimeError("the product changed its operand")
    return c


# --- remembered by shape


@bench.variant(device=both, why="the same shape, so the same answer")
class ByShape:
    def prepare(self):
        self.kept = {}

    def run(self, a, b, depth):
        key = a.shape, b.shape
        if key not in self.kept:
            self.kept[key] = chain(a, b, depth)
        return self.kept[key].clone()


@bench.variant(device=both, why="honest: memory is kept by shape, and every call writes all of it")
class MemoryByShape:
    def prepare(self):
        self.kept = {}

    def run(self, a, b, depth):
        key = a.shape[0], b.shape[1]
        if key not in self.kept:
            self.kept[key] = torch.empty(key, dtype=a.dtype, device=a.device)
        return torch.mm(chain(a, b, depth - 1), b, out=self.kept[key])


# --- remembered by content


@bench.variant(device=both, why="comparing all values with the last ones is cheaper than the product")
class ByValue:
    def prepare(self, a, b, depth):
        self.a, self.b, self.kept = a.clone(), b.clone(), chain(a, b, depth)

    def run(self, a, b, depth):
        if not (torch.equal(a, self.a) and torch.equal(b, self.b)):
            self.a.copy_(a)
            self.b.copy_(b)
            self.kept = chain(a, b, depth)
        return self.kept.clone()


@bench.variant(
    device=both, why="honest: values are compared with each other, for a formula that holds where they agree"
)
def square_or_product(a, b, depth):
    return torch.linalg.matrix_power(a, depth + 1) if torch.equal(a, b) else chain(a, b, depth)


# --- remembered by a few values


@bench.variant(device=both, why="sixteen values that agree, so the same answer")
class ByFewValues:
    def prepare(self):
        self.key = None

    def run(self, a, b, depth):
        key = few_values(a), few_values(b)
        if key != self.key:
            self.key, self.kept = key, chain(a, b, depth)
        return self.kept.clone()


@bench.variant(device=both, why="honest: a few values are looked at to refuse what cannot be multiplied")
def looks_at_few_values(a, b, depth):
    if any(map(math.isnan, few_values(a))):
        raise ValueError("a holds NaN")
    return chain(a, b, depth)


# --- state where nobody looks


def product_with_memory(a, b, depth, kept=[]):  # noqa: B006  the state is the point
    if not kept:
        kept.append(chain(a, b, depth))
    return kept[0].clone()


def product_with_room(a, b, depth, room={}):  # noqa: B006  the state is the point
    if not room:
        room["c"] = torch.empty_like(a)
    return torch.mm(chain(a, b, depth - 1), b, out=room["c"])


@bench.variant(device=both, why="the first answer hides in a default argument")
def in_default_argument(a, b, depth):
    return product_with_memory(a, b, depth)


@bench.variant(device=both, why="honest: a default argument holds memory, which every call overwrites")
def room_in_default_argument(a, b, depth):
    return product_with_room(a, b, depth)


# --- results kept in a file


@bench.variant(device=both, why="the answer is written to a file once and read from then on")
class FromDisk:
    def prepare(self):
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  it has no name and ends with the process
        self.written = False

    def run(self, a, b, depth):
        if not self.written:
            self.file.write(chain(a, b, depth).cpu().numpy().tobytes())
            self.file.flush()
            self.written = True
        self.file.seek(0)
        return torch.frombuffer(bytearray(self.file.read()), dtype=a.dtype).view_as(a).to(a.device)


@bench.variant(device=both, why="honest: how to cut the work is read from a file, as tuned code does")
class TunedFromDisk:
    def prepare(self, a):
        with tempfile.TemporaryFile("w+") as file:
            file.write(str(a.shape[0] // 2))
            file.seek(0)
            self.rows = int(file.read())

    def run(self, a, b, depth):
        return torch.cat([chain(part, b, depth) for part in a.split(self.rows)])
