"""A token dataset: parse the text once, then read tokens in blocks that are large enough for the disk.

Question    How fast do batches of tokens come from a disk in a shuffled order, compared with a file that is read once?
Numbers     2^23 tokens, documents of 1 to 1024, 440 on average. Each document is read once, and a value of each of its
            tokens is summed. JSON lines have some 7 bytes a token, packed int32 four: S = 34 MB, none of them in the
            page cache. The floor is S from the disk.
Prediction  JSON is parsed at some 10 to 20 million tokens/s, the values of tokens are found at some 500 million. A
            shuffled document is a request of 2 kB, or as much as a page fault reads ahead around it; a shuffled block
            of documents is one of 512 KiB. A batch that is padded to its longest document has 1024 / 440 = 2.3x as
            many places as tokens, and packed documents have none more.
Limits      Blocks are shuffled, and documents within a block: neighbours stay near each other, so the file is written
            shuffled. In the page cache a fully shuffled order costs no requests. Packed documents need attention that
            ends where they end. A processor that does more with a token than it takes to read one: the read is hidden.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import AiperfError

bench = Benchmark(goal="throughput", clock="wall", folder="evicted")
cpu = bench.on("cpu")

BATCH = 64  # documents
BLOCK = 1 << 17  # tokens in which the documents of a block begin
MEAN, LONGEST = 512, 1024  # tokens of a document, before the longest are cut
PADDING = 0  # a token of no document, whose value is 0
TOKEN = numpy.dtype(numpy.int32)
ORDER = 1  # the seed of lengths and orders


@bench.workload(smoke={"tokens": 3089, "vocabulary": 499}, cpu={"tokens": 1 << 23, "vocabulary": 50_000})
def inputs(vocabulary, device, generator):
    values = torch.randint(-(1 << 62), 1 << 62, (vocabulary,), device=device, generator=generator)
    values[PADDING] = 0
    return {"values": values}


@bench.static
def saved(tokens, vocabulary, device, generator):
    text = torch.randint(1, vocabulary, (tokens,), device=device, generator=generator)
    return {"text": text.to(torch.int32)}


@bench.reference(tolerance=exact)
def reference(text, values):
    sums = torch.nn.functional.pad(values[text.long()].cumsum(0), (1, 0))
    return sums[torch.from_numpy(begins_of(len(text)))].diff()


@bench.cost
def cost(tokens, vocabulary):
    documents = len(begins_of(tokens)) - 1
    return Cost(
        bytes_read=4 * tokens + 8 * vocabulary,
        bytes_written=8 * documents,
        flops=tokens,
        disk_read_bytes=4 * tokens,
        tokens=tokens,
    )


# One token; a document of the last block that begins before its end and goes on behind it.
bench.awkward({"tokens": 1}, {"tokens": 1024}, {"tokens": 3 * BLOCK - 5})
# Both read blocks ahead of their use and sum as many values; four of five parts of a block's time are the same.
cpu.reach(of="time:sequential", at_most=1.25, implementation="read_ahead")


def begins_of(tokens):
    """The places where documents begin, and the end of the last; the same in each run."""
    draws = numpy.random.default_rng(ORDER).exponential(MEAN, 8 + 4 * tokens // MEAN)
    ends = numpy.minimum(numpy.ceil(draws), LONGEST).astype(numpy.int64).cumsum()
    return numpy.concatenate([[0], ends[ends < tokens], [tokens]])


class Epoch:
    """Each document once; `batches()` gives names of documents and their tokens."""

    batches: Any

    def prepare(self, folder, text, tokens):
        self.path, self.begins = Path(folder) / "tokens", begins_of(tokens)
        self.lengths = numpy.diff(self.begins)
        self.sums = torch.empty(len(self.lengths), dtype=torch.int64)
        self.shuffled = numpy.random.default_rng(ORDER)
        self.order = self.shuffled.permutation(len(self.lengths))
        self.padded = numpy.empty((BATCH, self.lengths.max()), TOKEN)
        self.save(text.numpy())

    def save(self, text):
        text.tofile(self.path)

    def run(self, values):
        for names, documents in self.batches():
            self.sums.numpy()[names] = self.use(names, documents, values.numpy())
        return self.sums

    def use(self, names, documents, values):
        """Sum the values of each document's tokens, in a batch that is padded to its longest document."""
        batch = self.padded[: len(names), : self.lengths[names].max()]
        batch.fill(PADDING)
        for row, document in zip(batch, documents, strict=True):
            row[: len(document)] = document
        return values[batch].sum(1)


@cpu.baseline(kind="naive")
class JsonLines(Epoch):
    """A line of text for each document, parsed in every epoch."""

    def save(self, text):
        with open(self.path, "w") as file:
            for document in numpy.split(text, self.begins[1:-1]):
                print(json.dumps({"tokens": document.tolist()}), file=file)

    def batches(self):
        documents = []
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    documents.append(numpy.array(json.loads(line)["tokens"], TOKEN))
                except (ValueError, KeyError) as error:
                    raise AiperfError(f"'{self.path}', line {number} has no document: {error!r}") from None
        for names in numpy.split(self.order, range(BATCH, len(self.order), BATCH)):
            yield names, [documents[name] for name in names]


@cpu.variant(
    adds="packed tokens",
    why="tokens are four bytes each in one file, and an index says where a document begins: nothing is parsed",
)
class Packed(Epoch):
    def batches(self):
        if (size := self.path.stat().st_size) != self.begins[-1] * TOKEN.itemsize:
            raise AiperfError(f"'{self.path}' has {size:,} bytes; its index needs {self.begins[-1] * TOKEN.itemsize:,}")
        text = numpy.memmap(self.path, TOKEN, "r")
        for names in numpy.split(self.order, range(BATCH, len(self.order), BATCH)):
            yield names, [text[self.begins[name] : self.begins[name + 1]] for name in names]


@cpu.variant(
    builds_on="packed",
    adds="shuffled blocks",
    why="a request of 512 KiB brings some 300 documents in a shuffled order, where each had a page fault of its own",
    teaches="where a page fault reads 8 MiB ahead, a few of them bring all of the file to the page cache",
)
class Blocks(Epoch):
    def prepare(self, folder, text, tokens):
        super().prepare(folder, text, tokens)
        firsts = numpy.searchsorted(self.begins[:-1], range(0, tokens, BLOCK))
        blocks = numpy.split(numpy.arange(len(self.lengths)), firsts[1:])
        self.blocks = [self.shuffled.permutation(blocks[place]) for place in self.shuffled.permutation(len(blocks))]
        self.blocks = [names for names in self.blocks if len(names)]
        self.buffers = numpy.empty((2, BLOCK + LONGEST), TOKEN)

    def batches(self):
        for block, text in self.texts():
            first = self.begins[block.min()]
            for names in numpy.split(block, range(BATCH, len(block), BATCH)):
                yield names, [text[self.begins[name] - first : self.begins[name + 1] - first] for name in names]

    def texts(self):
        """Read blocks, one after another."""
        with open(self.path, "rb", buffering=0) as file:
            for block in self.blocks:
                yield block, self.read(file.fileno(), block, self.buffers[0])

    def read(self, file, block, buffer):
        """Read the tokens of a block to a buffer."""
        first, end = self.begins[block.min()], self.begins[block.max() + 1]
        text = buffer[: end - first]
        if os.preadv(file, [text], first * TOKEN.itemsize) != text.nbytes:
            raise AiperfError(f"'{self.path}' ends before token {end:,}, which its index has")
        return text


@cpu.variant(
    builds_on="blocks",
    adds="sequence packing",
    why="documents follow each other in a batch and begin where the index says, so no place is spent on padding",
)
class PackedBatches(Blocks):
    def use(self, names, documents, values):
        """Sum the values of each document's tokens, in a batch without padding."""
        begins = self.lengths[names].cumsum() - self.lengths[names]
        return numpy.add.reduceat(values[numpy.concatenate(documents)], begins)


@cpu.variant(
    builds_on="packed_batches",
    adds="read-ahead",
    why="a thread reads the next block while the documents of this one are in use",
)
class ReadAhead(PackedBatches):
    def texts(self):
        with open(self.path, "rb", buffering=0) as file, ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self.read, file.fileno(), self.blocks[0], self.buffers[0])
            for place, block in enumerate(self.blocks, 1):
                text = coming.result()
                if place < len(self.blocks):
                    coming = reader.submit(self.read, file.fileno(), self.blocks[place], self.buffers[place % 2])
                yield block, text


@cpu.yardstick(why="the same documents in the order of the file, read ahead in the same blocks")
class Sequential(ReadAhead):
    def prepare(self, folder, text, tokens):
        super().prepare(folder, text, tokens)
        self.blocks = sorted((numpy.sort(block) for block in self.blocks), key=lambda block: block[0])
