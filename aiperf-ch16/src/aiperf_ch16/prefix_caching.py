"""Prefix caching: a prompt whose beginning is in the cache computes its end alone.

Question    What do prompts with common beginnings save, by which cache, and whom to serve first if it is small?
Numbers     300 prompts of a system prompt of 1024 tokens (one of 4), a document of 2048 (one of 64, by Zipf's law) and
            a question of 96: 198 blocks of 16. A GPU that computes 33,000 tokens a second, a step of at least 3.7 ms:
            96 ms a prompt, 65 ms without the system prompt, 3.7 ms a question; a look-up is 0.2 us a block. The cache
            has 1024 blocks of 8448: 6 documents. 12 prompts a second arrive. Floor: a step. A seed draws the prompts.
Prediction  12 x 96 ms are 1.15 of the GPU: the queue grows to 0.15 x 300 prompts, 2 s in the mean. 12 x 65 ms are 0.78:
            65 and 0.78 / 2 / 0.22 x 65 = 180 ms. The 6 most popular documents are those of half of the prompts: 35 ms
            in the mean, 0.4 of the GPU, some 60 ms with the wait, more as the least recent is not the least popular.
Limits      Prompts that share nothing (`--set documents=3000`) gain the system prompt alone. A cache for all documents
            (`--set capacity=10000`) makes all orders equal. Serving known prompts first lets others wait without end
            where the queue never empties. Blocks that texts in progress hold are not counted.
"""

from collections import OrderedDict, deque
from functools import reduce
from itertools import accumulate
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="latency", threads=1)
bench.simulated(metric="ttft_s", seeds=20)
cpu = bench.on("cpu")

BLOCK = 16
SYSTEM, DOCUMENT, QUESTION = 64, 128, 6  # blocks
SYSTEMS = 4
# 0.7 of 750 TFLOP/s for 8e9 parameters, and 16 GB of them at 4.36 TB/s.
TOKENS_PER_S, STEP_S, LOOK_UP_S = 0.7 * 750e12 / 16e9, 16e9 / 4.36e12, 2e-7
MODULUS = 1_000_003


@bench.workload(
    smoke={"requests": 9, "rate_per_s": 15, "documents": 3, "capacity": 300},
    cpu={"requests": 300, "rate_per_s": 12, "documents": 64, "capacity": 1024},
    crowded={"requests": 300, "rate_per_s": 20, "documents": 64, "capacity": 1024},
)
def inputs(requests, rate_per_s, documents, device, generator):
    uniform = torch.rand(requests, dtype=torch.float64, device=device, generator=generator)
    popular = 1 / torch.arange(1, documents + 1, dtype=torch.float64, device=device)
    document = torch.multinomial(popular, requests, replacement=True, generator=generator)

    def blocks(count, length):
        return torch.randint(1, MODULUS, (count, length), device=device, generator=generator)

    systems, texts = blocks(SYSTEMS, SYSTEM), blocks(documents, DOCUMENT)
    prompts = [systems[document % SYSTEMS], texts[document], blocks(requests, QUESTION)]
    return {"arrivals_s": (-torch.log1p(-uniform) / rate_per_s).cumsum(0), "prompts": torch.cat(prompts, 1)}


def after(state, block):
    """The state after a block, of the state before it: what a cache keeps for it, in place of keys and values."""
    return (31 * state + block) % MODULUS


@bench.reference(tolerance=exact)
def reference(prompts):
    return {"answers": torch.tensor([reduce(after, prompt, 0) for prompt in prompts.tolist()], device=prompts.device)}


@bench.cost
def cost(requests):
    return Cost(optimum_s=STEP_S, tokens=requests)


def keys_of(prompt):
    """A key for each block of a prompt, which depends on all blocks before it."""
    return [*accumulate(prompt, lambda key, block: hash((key, block)), initial=0)][1:]


bench.awkward({"requests": 1}, {"documents": 1}, {"capacity": 1}, {"requests": 13, "rate_per_s": 400})


# 0.18 s of prompts without their system prompt; 0.1 s if the cache has the documents of two prompts in five.
cpu.reach(of="time:systems", at_most=0.6)


class Server:
    """Serves prompts one by one, and keeps no block."""

    def run(self, arrivals_s, prompts, capacity):
        self.capacity, self.kept = capacity, OrderedDict[int, int]()
        listed = prompts.tolist()
        self.begin(listed)
        coming = deque(zip(arrivals_s.tolist(), listed, map(keys_of, listed), range(len(listed)), strict=True))
        waiting, answers, now_s, total_s = list[Any](), torch.zeros_like(prompts[:, 0]), 0.0, 0.0
        while coming or waiting:
            if not waiting:
                now_s = max(now_s, coming[0][0])
            while coming and coming[0][0] <= now_s:
                waiting.append(coming.popleft())
            arrival_s, prompt, keys, number = waiting.pop(self.next(waiting))
            known = self.known(keys)
            states = [*accumulate(prompt[known:], after, initial=self.kept[keys[known - 1]] if known else 0)][1:]
            answers[number] = states[-1]
            now_s += max(STEP_S, len(states) * BLOCK / TOKENS_PER_S) + LOOK_UP_S * len(keys)
            total_s += now_s - arrival_s
            self.keep([*zip(keys, [self.kept[key] for key in keys[:known]] + states, strict=True)])
        return {"answers": answers, "ttft_s": total_s / len(listed)}

    def begin(self, prompts):
        pass

    def next(self, waiting):
        """The place of the prompt to serve."""
        return 0

    def known(self, keys):
        """The blocks of a prompt that are in the cache, up to the first that is not; the last is computed."""
        return next((number for number, key in enumerate(keys[:-1]) if key not in self.kept), len(keys) - 1)

    def keep(self, blocks):
        pass


@cpu.baseline(kind="naive")
class Whole(Server):
    pass


@cpu.variant(
    adds="kept system prompts",
    why="beginnings that an operator names are computed once, 1024 of 3168 tokens",
    predict="5 to 25x: 0.18 s beside some 2 s, which differ by the load of a seed",
)
class Systems(Server):
    def keep(self, blocks):
        self.kept.update(blocks[:SYSTEM])


@cpu.variant(
    builds_on="systems",
    adds="a table of blocks",
    why="the hash of a block and of all before it finds its state; the block not used for longest leaves, ends first",
    predict="1.5 to 3.5x: 0.06 to 0.1 s beside 0.18 s",
)
class Hashed(Server):
    def keep(self, blocks):
        # Of one prompt the end becomes older than its beginning: no block stays whose beginning has left.
        for key, state in reversed(blocks):
            self.kept[key] = state
            self.kept.move_to_end(key)
        while len(self.kept) > self.capacity:
            self.kept.popitem(last=False)


@cpu.variant(
    builds_on="hashed",
    adds="known prompts first",
    why="of the prompts that wait, the one with most blocks in the cache is served, before they leave it",
    predict="1.02 to 1.4x: two in five prompts wait, and of those that wait a known one goes first",
)
class KnownFirst(Hashed):
    def next(self, waiting):
        return max(range(len(waiting)), key=lambda place: self.known(waiting[place][2]))


@cpu.yardstick(why="a cache that has all systems and documents before the first prompt")
class AllCached(Server):
    def begin(self, prompts):
        for prompt in prompts:
            shared = prompt[: SYSTEM + DOCUMENT]
            self.kept.update(zip(keys_of(shared), [*accumulate(shared, after, initial=0)][1:], strict=True))
