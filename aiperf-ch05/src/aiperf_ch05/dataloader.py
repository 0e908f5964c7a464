"""A data loader: decode the next images beside the step that uses these.

Question    How long does a training step wait for images that must be read and decoded?
Numbers     128 PNG files of 224 x 224 pixels, 32 batches of 4. A batch is decoded by one processor in D, and its step,
            products of its patches of 16 x 16 pixels with 3 layers of weights, on a GPU 20, takes another S; the sizes
            are such that S is a little longer. The floor is the longer of both.
Prediction  D + S a batch becomes S, plus D once for the first batch: 1.6 to 1.95x where D is between 0.7 and 1 of S.
            Pixels are 150 kB an image as bytes and 602 kB as float32, which a worker writes, copies to a batch and the
            step reads, on a GPU behind a bus. A worker that knows the batch decodes to its place there.
Limits      D longer than S: then workers count, as many as D / S, while there are processors. Where they are fewer than
            workers and step need, a further worker takes its time from the step. Workers are threads: the decoder must
            release the interpreter's lock, as Pillow's does; what is written in Python needs processes. An epoch begins
            with a wait of D.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy
import torch

from aiperf_ch05.torch_threads import one_torch_thread
from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import AiperfError, BenchmarkError

bench = Benchmark(goal="throughput", clock="wall", folder="evicted", threads=2)
cuda, both = bench.on("cuda", requires="package:PIL"), bench.on(("cpu", "cuda"), requires="package:PIL")

PATCH = 16  # pixels on a side
COARSE = 8  # pixels on a side between which the brightness of an image changes smoothly
NOISE = 8  # levels


@bench.workload(
    smoke={"images": 5, "batch": 2, "side": 32, "width": 8, "layers": 2},
    cpu={"images": 128, "batch": 4, "side": 224, "width": 384, "layers": 3},
    cuda={"images": 128, "batch": 4, "side": 224, "width": 4096, "layers": 20},
)
def inputs(width, layers, side, device, generator):
    if side % PATCH:
        raise BenchmarkError(f"side={side}; accepted are multiples of {PATCH}, the side of a patch")
    sizes = [3 * PATCH**2, *[width] * layers]
    normal = [torch.randn(shape, device=device, generator=generator) for shape in pairwise(sizes)]
    # Half of the values are lost to relu: this factor keeps the size of the rest.
    return {"weights": [weight * (2 / len(weight)) ** 0.5 for weight in normal]}


@bench.static
def saved(images, side, device, generator):
    """Pixels that compress as photographs do, to about half: smooth, and noise."""
    coarse = torch.rand(images, 3, side // COARSE, side // COARSE, device=device, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=side, mode="bilinear").movedim(1, -1)
    noise = torch.rand(smooth.shape, device=device, generator=generator)
    return {"pixels": (smooth * (255 - NOISE) + noise * NOISE).to(torch.uint8)}


@bench.reference(tolerance=fp32_reduction)
def reference(pixels, weights):
    return step(normal(pixels, weights[0].dtype), weights)


@bench.cost
def cost(images, side, width, layers):
    patches, values = images * (side // PATCH) ** 2, 3 * PATCH**2
    parameters = values * width + (layers - 1) * width**2
    return Cost(
        bytes_read=images * 3 * side**2 + 4 * parameters,
        bytes_written=4 * images * width,
        flops=2 * patches * parameters,
        to_device_bytes=images * 3 * side**2,
        tokens=images,
    )


# One image; a last batch that is not full; patches that are not in a square of a power of two.
bench.awkward({"images": 1, "batch": 4}, {"images": 7, "batch": 3, "side": 48, "width": 37, "layers": 3})
# All batches but the first are decoded beside a step: 32 of 33, and 2 % for turns of the threads.
both.reach(of="time:independent", at_most=1 / 0.95, implementation="batched_fetch")


def normal(pixels, dtype):
    """Pixels as numbers of about the normal distribution."""
    return pixels.to(dtype).sub_(127.5).div_(63.75)


def step(images, weights):
    """The features of images: `[image, row, column, channel]` to `[image, width]`."""
    count, side = len(images), images.shape[1] // PATCH
    patches = images.view(count, side, PATCH, side, PATCH, 3).transpose(2, 3).reshape(count, side * side, -1)
    for weight in weights:
        patches = torch.relu(patches @ weight)
    return patches.mean(1)


def decode(path, side):
    """The pixels of an image file. Raises `AiperfError` for a file that is no whole image of this size."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            pixels = numpy.asarray(image)
    except (OSError, SyntaxError, UnidentifiedImageError) as error:  # SyntaxError: a PNG chunk that is broken
        raise AiperfError(f"'{path}' cannot be decoded: {error}. Restore the file, or leave it out.") from None
    if pixels.shape != (side, side, 3):
        raise AiperfError(f"'{path}' has pixels of shape {pixels.shape}; the others have {(side, side, 3)}")
    return pixels


@both.baseline(kind="naive")
class InLine:
    """An epoch of batches, decoded by `workers` threads, `ahead` of the step; without any, between the steps."""

    workers, ahead = 0, 0

    def prepare(self, folder, pixels, batch, side, width):
        from PIL import Image, ImageFile

        ImageFile.LOAD_TRUNCATED_IMAGES = False  # libraries that print pages set it, and a cut image passes then
        self.paths = [Path(folder) / f"{number:06d}.png" for number in range(len(pixels))]
        for path, image in zip(self.paths, pixels.cpu().numpy(), strict=True):
            Image.fromarray(image).save(path)
        self.batches = [range(len(pixels))[first : first + batch] for first in range(0, len(pixels), batch)]
        self.side, self.out = side, torch.empty(len(pixels), width, device=pixels.device)

    @one_torch_thread()
    def run(self, weights):
        for numbers, images in self.loaded():
            self.out[numbers.start : numbers.stop] = self.use(images, weights)
        return self.out

    def loaded(self):
        """The batches, each with its images."""
        for place, numbers in enumerate(self.batches):
            yield numbers, self.fetch(numbers, place)

    def fetch(self, numbers, place):
        """Decode a batch to normal float32 values; `place` is its number."""
        return torch.stack([normal(self.pixels(number), torch.float32) for number in numbers])

    def pixels(self, number):
        return torch.from_numpy(decode(self.paths[number], self.side).copy())

    def use(self, images, weights):
        """The features of a batch; bytes become numbers on the device."""
        images = images.to(self.out.device, non_blocking=images.is_pinned())
        return step(normal(images, torch.float32) if images.dtype == torch.uint8 else images, weights)


@both.variant(
    adds="worker",
    why="another thread decodes the next batches while the step uses this one",
    predict="1.3 to 1.95x: D + S against the longer of both",
)
class Worker(InLine):
    workers, ahead = 1, 2

    def loaded(self):
        later, coming = iter(enumerate(self.batches)), deque[Future[torch.Tensor]]()
        with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            try:
                for numbers in self.batches:
                    while len(coming) <= self.ahead and (batch := next(later, None)) is not None:
                        coming.append(workers.submit(self.fetch, batch[1], batch[0]))
                    yield numbers, coming.popleft().result()
            finally:
                workers.shutdown(cancel_futures=True)


@both.variant(
    builds_on="worker",
    adds="bytes",
    why="pixels go to the step as bytes, a quarter of float32, and become numbers where they are used",
)
class WorkerBytes(Worker):
    def fetch(self, numbers, place):
        return torch.stack([self.pixels(number) for number in numbers])


@both.variant(
    builds_on="worker_bytes",
    adds="batched fetch",
    why="a worker decodes images to their places in a batch whose memory is there, and none is copied to it later",
    teaches="a copy of bytes takes far less than their decoding",
)
class BatchedFetch(Worker):
    pinned = False

    def prepare(self, folder, pixels, batch, side, width):
        super().prepare(folder, pixels, batch, side, width)
        # Those that are decoded or wait, and the one in use.
        shape = (self.ahead + 1, batch, side, side, 3)
        self.places = torch.empty(shape, dtype=torch.uint8, pin_memory=self.pinned)

    def fetch(self, numbers, place):
        images = self.places[place % len(self.places), : len(numbers)]
        for pixels, number in zip(images.numpy(), numbers, strict=True):
            pixels[:] = decode(self.paths[number], self.side)
        return images


@both.variant(
    builds_on="batched_fetch",
    adds="second worker",
    why="two threads decode two batches at a time",
    teaches="one worker keeps up with the step; a second one takes processor time from it where there are two",
)
class TwoWorkers(BatchedFetch):
    workers = 2


@cuda.variant(
    builds_on="two_workers",
    adds="page-locked memory",
    why="the DMA copy engine takes a batch from where it was decoded, without a staging buffer of the driver",
)
class Pinned(TwoWorkers):
    pinned = True

    def use(self, images, weights):
        features = super().use(images, weights)
        torch.cuda.current_stream().synchronize()  # the place is decoded to again
        return features


@both.yardstick(why="the longer of both: a worker decodes batches that no step uses, and the images are there")
class Independent(BatchedFetch):
    def prepare(self, folder, pixels, batch, side, width):
        super().prepare(folder, pixels, batch, side, width)
        self.ready = pixels.cpu()

    def loaded(self):
        with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            decoded = [workers.submit(self.fetch, numbers, place) for place, numbers in enumerate(self.batches)]
            for numbers in self.batches:
                yield numbers, self.ready[numbers.start : numbers.stop]
            for batch in decoded:
                batch.result()
