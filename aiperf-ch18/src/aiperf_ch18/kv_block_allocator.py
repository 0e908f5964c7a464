"""KV block allocator: block tables of a paged cache, kept between two steps of an engine.

Question    What does an engine pay for block tables between two steps: lists and dictionaries, arrays, or native code?
Numbers     512 rows and 48 steps. In each, 8 rows end and as many start, with a prompt or as a fork that shares all
            blocks of another; then each row appends a token: in its last block, in a new one, or in a copy of a shared
            one. 24,576 appends, of some ten operations of Python each: 0.5 us. Results are 0.34 MB.
Prediction  `batched` takes some twenty operations on arrays a step, of 4 us each: 80 us in place of 256, 3x. `native`
            is 15 loads and stores of a nanosecond an append: 0.4 ms in place of 12.
Limits      Below 160 rows 80 us are more than a loop over the rows. Where a step on a GPU is longer than the tables,
            any of these runs beside it, and saves nothing.
"""

import numpy as np
import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import UsageError
from aiperf_core.kernels import host_source
from aiperf_core.launches import loop

bench = Benchmark(goal="latency", clock="wall", threads=1)
cpu = bench.on("cpu")

PAGE = 16  # tokens of a block
NONE = -1
host_code = host_source("kv_block_allocator.c")


@bench.workload(
    smoke={"steps": 23, "rows": 13, "ending": 3, "longest": 41, "forked": 0.5},
    cpu={"steps": 48, "rows": 512, "ending": 8, "longest": 512, "forked": 0.5},
    # 200,000 operations.
    long={"steps": 750, "rows": 256, "ending": 8, "longest": 512, "forked": 0.5},
)
def inputs(steps, rows, ending, longest, forked, device, generator):
    if not 0 < 2 * ending <= rows or longest < 1:
        raise UsageError(f"rows={rows}, ending={ending}, longest={longest}; accepted are 2 ending <= rows, from 1")
    draw = {"device": device, "generator": generator}
    mixed = torch.rand(steps, rows, **draw).argsort(1)
    parents = torch.where(torch.rand(steps, ending, **draw) < forked, mixed[:, ending : 2 * ending], NONE)
    prompts = torch.randint(1, longest + 1, (steps, ending), **draw)
    return {"ended": mixed[:, :ending].clone(), "parents": parents, "prompts": prompts}


@bench.reference(tolerance=exact)
def reference(ended, parents, prompts, rows, longest):
    return with_lists(ended, parents, prompts, rows, longest)


@bench.cost
def cost(steps, rows, ending, longest):
    width = width_of(longest, steps)
    return Cost(
        bytes_read=3 * 8 * steps * ending,
        bytes_written=4 * (2 * steps * rows + rows * width + rows * width),
        tokens=steps * rows,
    )


# A single step; two rows that take turns; forks of forks, and none; prompts that fill blocks.
bench.awkward(
    {"steps": 1, "rows": 2, "ending": 1},
    {"steps": 67, "rows": 2, "ending": 1, "forked": 1.0},
    {"steps": 31, "rows": 17, "ending": 8, "longest": 1, "forked": 1.0},
    {"steps": 50, "rows": 31, "ending": 5, "forked": 0.0},
)
# 15 loads and stores of a nanosecond in place of 0.5 us.
cpu.reach(of="time:dict_of_lists", at_most=0.03, implementation="native")


def width_of(longest, steps):
    """Blocks of the longest sequence that can be."""
    return -(-(longest + steps) // PAGE)


def with_lists(ended, parents, prompts, rows, longest):
    """The outputs of all steps, with a list of blocks for each row.

    Free blocks are a stack with block 0 on top; a row gives its blocks back from the last to the first.
    """
    steps = len(ended)
    width = width_of(longest, steps)
    free = list(range(rows * width))[::-1]
    counts: dict[int, int] = {}
    tables: dict[int, list[int]] = {row: [] for row in range(rows)}
    lengths = dict.fromkeys(range(rows), 0)
    slots, copied = [], []
    for ends, froms, prompt in zip(ended.tolist(), parents.tolist(), prompts.tolist(), strict=True):
        for row in ends:
            for block in reversed(tables.pop(row)):
                counts[block] -= 1
                if not counts[block]:
                    del counts[block]
                    free.append(block)
        for row, parent, length in zip(ends, froms, prompt, strict=True):
            if parent == NONE:
                tables[row], lengths[row] = [free.pop() for _ in range(-(-length // PAGE))], length
            else:
                tables[row], lengths[row] = tables[parent].copy(), lengths[parent]
            for block in tables[row]:
                counts[block] = counts.get(block, 0) + 1
        for row in range(rows):
            table, offset, source = tables[row], lengths[row] % PAGE, NONE
            if not offset:
                table.append(free.pop())
                counts[table[-1]] = 1
            elif counts[table[-1]] > 1:
                source = table[-1]
                counts[source] -= 1
                table[-1] = free.pop()
                counts[table[-1]] = 1
            lengths[row] += 1
            slots.append(table[-1] * PAGE + offset)
            copied.append(source)
    padded = [tables[row] + [NONE] * (width - len(tables[row])) for row in range(rows)]
    used = [counts.get(block, 0) for block in range(rows * width)]
    return {
        "slots": torch.tensor(slots, dtype=torch.int32).view(steps, rows),
        "copied": torch.tensor(copied, dtype=torch.int32).view(steps, rows),
        "tables": torch.tensor(padded, dtype=torch.int32),
        "counts": torch.tensor(used, dtype=torch.int32),
    }


@cpu.baseline(kind="reasonable")
def dict_of_lists(ended, parents, prompts, rows, longest):
    return with_lists(ended, parents, prompts, rows, longest)


class Pool:
    """Tables, counts of users, and the stack of free blocks, as arrays."""

    def __init__(self, rows, width):
        self.tables = np.full((rows, width), NONE, np.int32)
        self.counts = np.zeros(rows * width, np.int32)
        self.stack, self.top = np.arange(rows * width, dtype=np.int32)[::-1].copy(), rows * width
        self.lengths, self.rows = np.zeros(rows, np.int64), np.arange(rows)

    def taken(self, count):
        """Free blocks, this number of them, in the order in which they would be taken one by one, each with a user."""
        self.top -= count
        blocks = self.stack[self.top : self.top + count][::-1]
        self.counts[blocks] = 1
        return blocks

    def end(self, ends):
        blocks = self.tables[ends, ::-1].ravel()
        blocks = blocks[blocks != NONE]
        np.subtract.at(self.counts, blocks, 1)
        # A block that several of the rows gave back is free from the last time on.
        found, back = np.unique(blocks[::-1], return_index=True)
        freed = blocks[::-1][np.sort(back[self.counts[found] == 0])[::-1]]
        self.stack[self.top : self.top + len(freed)] = freed
        self.top += len(freed)
        self.tables[ends] = NONE

    def start(self, ends, parents, prompts):
        forks = parents != NONE
        heirs, parents = ends[forks], parents[forks]
        shared = self.tables[heirs] = self.tables[parents]
        np.add.at(self.counts, shared[shared != NONE], 1)
        self.lengths[heirs] = self.lengths[parents]
        fresh, lengths = ends[~forks], prompts[~forks]
        needed = -(-lengths // PAGE)
        row, place = np.nonzero(np.arange(self.tables.shape[1]) < needed[:, None])
        self.tables[fresh[row], place] = self.taken(len(row))
        self.lengths[fresh] = lengths

    def append(self, slots, copied):
        """Write the places of a token of each row, and the blocks that are to be copied."""
        place, offset = divmod(self.lengths, PAGE)
        block = self.tables[self.rows, place]
        full = offset == 0
        copies = np.zeros(len(block), bool)
        shared = np.flatnonzero(~full & (self.counts[block] > 1))
        if len(shared):
            shared = shared[np.argsort(block[shared], kind="stable")]
            users = block[shared]
            rank = np.arange(len(users)) - np.searchsorted(users, users)
            copies[shared] = rank < self.counts[users] - 1
            np.subtract.at(self.counts, block[copies], 1)
        copied[:] = np.where(copies, block, NONE)
        takers = np.flatnonzero(full | copies)
        block[takers] = self.tables[takers, place[takers]] = self.taken(len(takers))
        slots[:] = block * PAGE + offset
        self.lengths += 1


@cpu.variant(
    adds=("array tables", "batched operations"),
    why="an operation on arrays does the work of all rows of a step, without an object for each block; rows that share "
    "a block are ranked, as all but the last of its users copy it",
)
def batched(ended, parents, prompts, rows, longest):
    steps = len(ended)
    pool = Pool(rows, width_of(longest, steps))
    slots, copied = np.empty((2, steps, rows), np.int32)
    for step, (ends, froms, prompt) in enumerate(zip(ended.numpy(), parents.numpy(), prompts.numpy(), strict=True)):
        pool.end(ends)
        pool.start(ends, froms, prompt)
        pool.append(slots[step], copied[step])
    outputs = {"slots": slots, "copied": copied, "tables": pool.tables, "counts": pool.counts}
    return {name: torch.from_numpy(one) for name, one in outputs.items()}


def whole(*shape):
    return torch.empty(*shape, dtype=torch.int32)


cpu.variant(
    loop(
        host_code,
        make={
            "width": lambda longest, steps: width_of(longest, steps),
            "blocks": lambda rows, width: rows * width,
            "slots": lambda steps, rows: whole(steps, rows),
            "copied": lambda steps, rows: whole(steps, rows),
            "tables": lambda rows, width: whole(rows, width),
            "counts": lambda blocks: whole(blocks),
            "stack": lambda blocks: whole(blocks),
            "lengths": lambda rows: whole(rows),
        },
        returns=lambda slots, copied, tables, counts: {
            "slots": slots,
            "copied": copied,
            "tables": tables,
            "counts": counts,
        },
    )("native", kernel="serve"),
    requires="compiler",
    adds=("array tables", "native code"),
    why="an operation is a few instructions on arrays, without an object or a call of the interpreter",
)
