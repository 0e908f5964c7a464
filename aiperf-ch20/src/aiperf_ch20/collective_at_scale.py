"""All-reduce on many nodes: a ring has the fewest bytes and the most steps, and steps are what grows with the machine.

Question    Gradients of 64 MiB on 64 nodes of 8 GPUs: which order of messages is close to what the links allow?
Numbers     A message takes 2 us and its bytes at 450 GB/s within a node, 5 us and 50 GB/s between GPUs of two nodes,
            and some tenths more, drawn for each message. Bound: a node's 64 MiB leave it once through 8 links: 0.17
            ms. A ring of all 512 GPUs, 8 of them in parallel so that each link to a node carries one, has 1022 steps of
            5.3 us, 5.4 ms. A tree has 18, each with all bytes: 17 ms.
Prediction  Within the nodes first, 14 steps of 20.6 us, then 126 of 7.6 us between the GPUs of one number: 1.25 ms.
            Halving and doubling has the same bytes in 12 steps: 0.29 + 0.4 ms. Switches that sum send each byte once:
            0.29 + 0.18 ms.
Limits      Small messages (`--size small`): only steps count, and a tree is as good as halving. Few nodes (`--set
            nodes=2`): a ring is as short. Messages share no link, and no node is slow for longer than a message.
"""

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError, UsageError

bench = Benchmark(goal="speed", threads=1)
bench.simulated(metric="collective_s", seeds=20)
cpu = bench.on("cpu")

# Of a message: within a node, and between two GPUs of different nodes. A GPU has a link to the network of its own.
NEAR_S, NEAR_BYTES_S = 2e-6, 450e9
FAR_S, FAR_BYTES_S = 5e-6, 50e9
DELAYS, DELAY = 64, 0.1  # draws of each rank, which are used by turns, and their mean, as a share of the message's time


@bench.workload(
    smoke={"nodes": 4, "gpus": 3, "mib": 7},
    cpu={"nodes": 64, "gpus": 8, "mib": 64},
    small={"nodes": 64, "gpus": 8, "mib": 0.0625},
)
def inputs(nodes, gpus, mib, device, generator):
    ranks = nodes * gpus
    if ranks < 2 or mib <= 0:
        raise UsageError(f"nodes={nodes}, gpus={gpus}, mib={mib}; accepted are two GPUs or more, and sizes above 0")
    uniform = torch.rand(ranks, DELAYS, dtype=torch.float64, device=device, generator=generator)
    # A word stands for a chunk of the message, of which there are as many as ranks.
    words = torch.randint(1 << 40, (ranks, ranks), device=device, generator=generator)
    return {"words": words, "delays": 1 - DELAY * torch.log1p(-uniform)}


@bench.reference(tolerance=exact)
def reference(words):
    return {"sums": words.sum(0).expand_as(words)}


@bench.cost
def cost(nodes, gpus, mib):
    size = mib * 2**20
    near_s = NEAR_S + size * (gpus - 1) / gpus / NEAR_BYTES_S if gpus > 1 else 0
    far_s = FAR_S + size / gpus / FAR_BYTES_S if nodes > 1 else 0
    return Cost(optimum_s=max(near_s, far_s))


# Two ranks; one node; one GPU a node; ranks that are no power of two.
bench.awkward(
    {"nodes": 1, "gpus": 2}, {"nodes": 1, "gpus": 5}, {"nodes": 8, "gpus": 1}, {"nodes": 3, "gpus": 2, "mib": 1}
)
# 0.7 / 5.4 ms.
cpu.reach(of="time:ring", at_most=1 / 6, implementation="halving_doubling")


class AllReduce:
    """An all-reduce of real words, and the virtual time of each rank. collective(): the order of its messages."""

    collective: Any

    def prepare(self, nodes, gpus, mib):
        self.nodes, self.gpus, self.size = nodes, gpus, mib * 2**20
        self.ranks = torch.arange(nodes * gpus)
        grid = self.ranks.view(nodes, gpus)
        # GPUs of a node, with the blocks of the message that they share out; those of one number, with chunks of one.
        self.inside = grid, self.ranks.view(gpus, nodes).expand(nodes, -1, -1)
        self.across = grid.T, self.ranks.view(gpus, nodes).roll(-1, 0)[..., None]
        self.check()

    def check(self):
        """Raise `SkipError` for sizes that the collective does not take."""

    def run(self, words, delays):
        self.words, self.delays, self.steps = words.clone(), delays, 0
        self.now_s = delays.new_zeros(len(words))
        self.collective()
        return {"sums": self.words, "collective_s": float(self.now_s.max())}

    def receive(self, to, source, chunks, share, add):
        """Each rank `to` gets its chunks of a rank `source` when both are ready, and adds or stores them.

        share: of the message.
        """
        near_s, far_s = NEAR_S + self.size * share / NEAR_BYTES_S, FAR_S + self.size * share / FAR_BYTES_S
        message_s = torch.where(to // self.gpus == source // self.gpus, near_s, far_s)
        took_s = message_s * self.delays[to, self.steps % DELAYS]
        self.now_s[to] = torch.maximum(self.now_s[to], self.now_s[source]) + took_s
        self.steps += 1
        sent = self.words[source[..., None], chunks]
        self.words[to[..., None], chunks] = self.words[to[..., None], chunks] + sent if add else sent

    def ring(self, peers, blocks, share, add):
        """Rings of peers [rings, length]: a sum of each block ends at a peer (add), or goes from it to all."""
        length = peers.shape[1]
        places = torch.arange(length)
        for step in range(length - 1):
            passed = (places - step - (1 if add else 0)) % length
            self.receive(peers, peers.roll(1, 1), blocks[:, passed], share / length, add)

    def of_nodes(self, between):
        """Sums within the nodes, between them, and their distribution within the nodes."""
        self.ring(*self.inside, 1, add=True)
        between(*self.across)
        self.ring(*self.inside, 1, add=False)


@cpu.baseline(kind="reasonable")
class Ring(AllReduce):
    def collective(self):
        # The same ring begins at each GPU of a node with a part of the message, so that all links of a node are used.
        for add in (True, False):
            self.ring(self.ranks[None], self.ranks[None, :, None], 1 / self.gpus if self.nodes > 1 else 1, add)


@cpu.variant(
    adds="tree",
    why="half of the ranks send all to the others, then half of those: the steps are the logarithm of the ranks",
    predict="0.2 to 0.5x: 18 steps with 64 MiB, 17 ms, in place of 1022 steps with 16 KiB",
    teaches="a tree has the fewest steps, and each has all bytes: it is for small messages (`--size small`)",
)
class Tree(AllReduce):
    def collective(self):
        distances = [1 << power for power in range((len(self.ranks) - 1).bit_length())]
        chunks = self.ranks[None]
        for distance, add in [(one, True) for one in distances] + [(one, False) for one in reversed(distances)]:
            low = self.ranks[:: 2 * distance]
            low = low[low + distance < len(self.ranks)]
            to, source = (low, low + distance) if add else (low + distance, low)
            self.receive(to, source, chunks.expand(len(low), -1), 1, add)


@cpu.variant(
    adds="levels",
    why="GPUs of a node share out the message, and each has a ring with the GPUs of its number: 140 steps, not 1022",
    predict="3 to 5.5x: 14 steps of 20.6 us and 126 of 7.6 in place of 1022 of 5.3",
)
class Hierarchical(AllReduce):
    def collective(self):
        self.of_nodes(self.between)

    def between(self, peers, blocks):
        for add in (True, False):
            self.ring(peers, blocks, 1 / self.gpus, add)


@cpu.variant(
    builds_on="hierarchical",
    adds="halving and doubling",
    why="partners at distances of powers of two exchange halves, then quarters: the ring's bytes in 12 steps, not 126",
    predict="1.5 to 2.3x: 0.06 ms of latency in place of 0.63, of 1.25 ms in all",
)
class HalvingDoubling(Hierarchical):
    def check(self):
        if self.nodes & (self.nodes - 1):
            raise SkipError(f"takes nodes in powers of two; these are {self.nodes}")

    def between(self, peers, blocks):
        places, distances = torch.arange(self.nodes), [1 << power for power in range(self.nodes.bit_length() - 1)]
        for distance, add in [(one, True) for one in reversed(distances)] + [(one, False) for one in distances]:
            others = places ^ distance
            # Of a sum, the half with the place itself; of a distribution, what the partner has.
            passed = (places if add else others)[:, None] ^ torch.arange(distance)
            share = distance / self.nodes / self.gpus
            self.receive(peers, peers[:, others], blocks[:, passed, 0], share, add)


@cpu.variant(
    builds_on="halving_doubling",
    adds="sums in the network",
    why="switches add what the nodes send, and send the sum to all: each byte leaves a node once",
    predict="1.2 to 1.7x: 8 MiB a link in place of 16, and two hops in place of 12 steps",
)
class InNetwork(Hierarchical):
    def between(self, peers, blocks):
        if self.nodes == 1:
            return
        chunks = blocks[..., 0][:, None].expand(-1, self.nodes, -1)
        self.words[peers[..., None], chunks] = self.words[peers[..., None], chunks].sum(1, keepdim=True)
        # The sum goes down when the last node has sent, and follows its bytes.
        sent_s = (FAR_S + self.size / self.gpus / FAR_BYTES_S) * self.delays[peers, self.steps % DELAYS]
        self.now_s[peers] = (self.now_s[peers] + sent_s).amax(1, keepdim=True) + FAR_S
        self.steps += 1
