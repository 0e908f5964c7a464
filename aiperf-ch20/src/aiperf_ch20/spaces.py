"""Spaces of configurations: the tiles of a matrix product, and their modelled times.

A time is the longer of products and traffic, of whole waves of tiles on the SMs of a GPU, with what registers, shared
memory and stages allow to be hidden; and a part that no term explains, drawn once, as of bank conflicts and schedules.
"""

from itertools import product
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Tile rows, columns and depth, stages, warps, and rows of tiles that are visited together.
AXES = ((16, 32, 64, 128, 256), (16, 32, 64, 128, 256), (16, 32, 64, 128), (1, 2, 3, 4, 5), (2, 4, 8, 16), (1, 4, 8))
SMS, SHARED_BYTES, REGISTERS = 132, 227 << 10, 1 << 16
FLOPS, BYTES_PER_S = 8e14, 4e12  # of the whole GPU in a second
UNEXPLAINED = 0.08  # the spread of what no term explains


@frozen
class Space:
    """A space. places: the index on each axis of each configuration; terms: what a model of costs says of it."""

    places: NDArray[np.int64]
    terms: Floats
    times_s: Floats

    def neighbours(self, at: int) -> NDArray[np.int64]:
        """The configurations that differ by one step on one axis."""
        return np.flatnonzero(np.abs(self.places - self.places[at]).sum(1) == 1)


def space(m: int, n: int, k: int, draw: int) -> Space:
    """The configurations for a product of m x k by k x n in bfloat16 that fit an SM, and their times."""
    places = np.array([*product(*(range(len(axis)) for axis in AXES))])
    columns: Any = (np.array(axis, dtype=np.float64)[places[:, at]] for at, axis in enumerate(AXES))
    rows, cols, depth, stages, warps, group = columns
    shared = (rows + cols) * depth * 2 * stages
    registers = 40 + rows * cols / (32 * warps)
    blocks = np.minimum(SHARED_BYTES // shared, REGISTERS // (np.minimum(registers, 255) * 32 * warps))
    fits = blocks >= 1
    tiles = np.ceil(m / rows) * np.ceil(n / cols)
    padding = tiles * rows * cols * np.ceil(k / depth) * depth / (m * n * k)
    waves = np.ceil(tiles / (SMS * np.maximum(blocks, 1))) * SMS * np.maximum(blocks, 1) / tiles
    # A tile of few elements reads its operands too often from shared memory; few bytes in flight hide no latency.
    reuse = 1 + 24 / rows + 24 / cols
    hidden = 1 + 2 / (stages * np.clip(blocks, 1, 4) * depth / 32)
    spilled = np.maximum(1.0, registers / 255) ** 2
    products = 2 * m * n * k / FLOPS * padding * waves * reuse * hidden * spilled
    traffic = 2 * (m * n * k * (1 / rows + 1 / cols) / np.sqrt(4 * group) + m * n) / BYTES_PER_S * hidden
    unexplained = np.random.default_rng(draw).normal(0, UNEXPLAINED, len(places))
    times_s = np.maximum(products, traffic) * np.exp(unexplained)
    terms = np.log(np.stack([padding, waves, reuse, hidden, spilled, traffic], 1))
    return Space(places[fits], terms[fits], times_s[fits])
