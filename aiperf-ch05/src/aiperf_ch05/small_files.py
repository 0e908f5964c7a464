"""Small files: an open for each sample costs more than its bytes.

Question    What does a training wait for that reads each sample of an epoch from a file of its own?
Numbers     10,000 samples of 8 KiB, S = 82 MB, none in the page cache: 10,000 opens, reads and closes, each read a
            request to the disk for two pages. In 16 files they are 16 reads of 5.4 MB. Every sample is read once and
            summed, in a shuffled order.
Prediction  N (l + o) for N files, with the latency l of a request and the calls o of a file. Eight threads wait for
            eight requests at once: at most 8x, until N o on the processors decides. Shards leave the rate of the disk,
            S / d, and N times what it takes to find a sample in its shard: a header that is parsed, or an index.
Limits      Samples of some MB: a request for one is large already. A shard is shuffled within itself, and the order of
            shards is shuffled; neighbours in a shard stay near each other, so it is written shuffled. A file within a
            shard cannot be replaced. Names of files stay in the kernel's memory here; a disk with 10^8 files reads them
            too. Where temporary files are in memory the target is skipped.
"""

import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import AiperfError

bench = Benchmark(goal="throughput", clock="wall", folder="evicted")
cpu = bench.on("cpu")

SHARDS, BATCH, THREADS = 16, 256, 8
ORDER = 1  # the seed of the epoch's order


@bench.workload(smoke={"samples": 211, "words": 13}, cpu={"samples": 10_000, "words": 1024})
def inputs(device, generator):
    return {"key": torch.randint(1, 1 << 62, (1,), device=device, generator=generator)}


@bench.static
def saved(samples, words, device, generator):
    return {"data": torch.randint(-(1 << 62), 1 << 62, (samples, words), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(data, key):
    return data.sum(1) * key


@bench.cost
def cost(samples, words):
    size = 8 * samples * words
    return Cost(
        bytes_read=size + 8,
        bytes_written=8 * samples,
        flops=samples * (words + 1),
        disk_read_bytes=size,
        tokens=samples,
    )


# Fewer samples than shards; a last shard and a last batch that are not full.
bench.awkward(
    {"samples": 1, "words": 1},
    {"samples": 7, "words": 3},
    {"samples": 521, "words": 64},
    {"samples": 4099, "words": 5},
)
# A shard is read while the one before is used, so of 17 steps 16 are the disk's: 0.94. A quarter less for copies out of
# the page cache, which small pages and two processors do at about the disk's rate.
cpu.reach(of="DISK", at_least=0.70)


class Epoch:
    """Samples in files that `save` writes, and the sums of those that were read."""

    save: Any

    def prepare(self, folder, data, samples, words):
        self.folder, self.sums = Path(folder), torch.empty(samples, dtype=torch.int64)
        self.order = torch.randperm(samples, generator=torch.Generator().manual_seed(ORDER))
        self.size, self.batch = 8 * words, torch.empty(BATCH, words, dtype=torch.int64)
        self.rows = [memoryview(row.numpy()).cast("B") for row in self.batch]
        self.save(data)

    def use(self, names, count, key):
        """Sum the first samples of the batch."""
        self.sums.numpy()[names.numpy()] = self.batch.numpy()[:count].sum(1) * key.numpy()


@cpu.baseline(kind="naive")
class OneByOne(Epoch):
    """A file for each sample, read in the order of the epoch."""

    def save(self, data):
        for name, sample in enumerate(data.numpy()):
            sample.tofile(self.path(name))

    def path(self, name):
        return f"{self.folder}/{name:06d}"

    def run(self, key):
        for names in self.order.split(BATCH):
            self.read_all(names.tolist())
            self.use(names, len(names), key)
        return self.sums

    def read_all(self, names):
        for name, row in zip(names, self.rows, strict=False):
            self.read(name, row)

    def read(self, name, row):
        """Read a sample's file to its place in the batch."""
        file = os.open(self.path(name), os.O_RDONLY)
        try:
            count = os.readv(file, [row])
        finally:
            os.close(file)
        if count != self.size:
            raise AiperfError(f"'{self.path(name)}' has {count:,} bytes; a sample has {self.size:,}")


@cpu.variant(
    adds="eight threads",
    why="the disk has eight requests at a time, and a sample waits beside seven others",
    teaches="calls of the kernel and turns of the interpreter's lock take longer than the disk",
)
class Threads(OneByOne):
    def run(self, key):
        with ThreadPoolExecutor(THREADS) as self.readers:
            return super().run(key)

    def read_all(self, names):
        list(self.readers.map(self.read, names, self.rows))


class Shards(Epoch):
    """Samples in shards, each read whole; `samples_of(shard)` finds them there, in the order of the shard."""

    samples_of: Any

    def prepare(self, folder, data, samples, words):
        self.in_shard = -(-samples // SHARDS)
        super().prepare(folder, data, samples, words)
        longest = max(path.stat().st_size for path in self.folder.iterdir())
        self.buffers = [bytearray(longest) for _ in range(2)]

    def save(self, data):
        self.places: list[list[int]] = []
        for number, samples in enumerate(data.split(self.in_shard)):
            self.places.append([])
            with tarfile.open(self.path(number), "w", format=tarfile.USTAR_FORMAT) as tar:
                for name, sample in enumerate(samples, number * self.in_shard):
                    member = tarfile.TarInfo(f"{name:06d}")
                    member.size = self.size
                    self.places[-1].append(tar.offset + tarfile.BLOCKSIZE)  # behind the header
                    tar.addfile(member, io.BytesIO(sample.numpy().tobytes()))

    def path(self, number):
        return self.folder / f"{number:06d}.tar"

    def run(self, key):
        shard = self.order // self.in_shard
        inside = self.order[torch.argsort(shard, stable=True)].split(self.in_shard)
        for number, content in self.contents([*dict.fromkeys(shard.tolist())]):
            samples, first = self.samples_of(number, content), number * self.in_shard
            for names in inside[number].split(BATCH):
                for row, name in zip(self.rows, names.tolist(), strict=False):
                    row[:] = samples[name - first]
                self.use(names, len(names), key)
        return self.sums

    def contents(self, numbers):
        """Read shards, one after another."""
        for number in numbers:
            yield number, self.read(number, self.buffers[0])

    def read(self, number, buffer):
        """Read a shard to a buffer."""
        with open(self.path(number), "rb", buffering=0) as file:
            return memoryview(buffer)[: file.readinto(buffer)]


@cpu.variant(
    adds="tar shards",
    why="one request for the 625 samples of a shard, and one open: the disk reads at its rate",
    teaches="to parse the header of each file in an archive takes about as long as to open a file",
)
class TarShards(Shards):
    def samples_of(self, number, content):
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                return [content[member.offset_data :][: member.size] for member in tar]
        except tarfile.ReadError as error:
            raise AiperfError(f"'{self.path(number)}' is no whole archive: {error}") from None


@cpu.variant(
    builds_on="tar_shards",
    adds="index",
    why="an index says where the bytes of a sample begin, so that no header is parsed",
)
class IndexedShards(Shards):
    def samples_of(self, number, content):
        places = self.places[number]
        if len(content) < places[-1] + self.size:
            raise AiperfError(
                f"'{self.path(number)}' has {len(content):,} bytes; its index needs {places[-1] + self.size:,}"
            )
        return [content[place : place + self.size] for place in places]


@cpu.variant(
    builds_on="indexed_shards",
    adds="read-ahead",
    why="a thread reads the next shard while the samples of this one are in use",
)
class ReadAhead(IndexedShards):
    def contents(self, numbers):
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(self.read, number, self.buffers[0]) for number in numbers[:1]]
            for place, number in enumerate(numbers, 1):
                content = coming.pop().result()
                coming += [
                    reader.submit(self.read, later, self.buffers[place % 2]) for later in numbers[place : place + 1]
                ]
                yield number, content


@cpu.variant(
    requires="package:pyarrow",
    adds="parquet",
    why="a row group is one request, and its column of equal samples is used where it lies",
)
class Parquet(Shards):
    def save(self, data):
        import pyarrow
        from pyarrow import parquet

        kind, values = pyarrow.binary(self.size), pyarrow.py_buffer(data.numpy())
        column = pyarrow.Array.from_buffers(kind, len(data), [None, values])
        parquet.write_table(
            pyarrow.table({"sample": column}),
            self.folder / "samples.parquet",
            row_group_size=self.in_shard,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
        )

    def contents(self, numbers):
        """Read row groups, one after another."""
        from pyarrow import parquet

        with parquet.ParquetFile(self.folder / "samples.parquet") as file:
            for number in numbers:
                column = file.read_row_group(number).column("sample").combine_chunks()
                yield number, memoryview(column.buffers()[1]).cast("B")

    def samples_of(self, number, content):
        return [content[place : place + self.size] for place in range(0, len(content), self.size)]
