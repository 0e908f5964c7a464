"""The samples of a row in little: quantiles for their distribution, and a course for their change with time.

Samples stay in the bundle. A sketch is for pictures: its values are counted in steps of 1/65,535 of the range of the
samples, so that a value is off by at most half a step.
"""

import struct

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

QUANTILES = 64
COURSE = 200  # points at most
_HEAD = struct.Struct("<dd")  # the least and the largest sample
_STEPS = 65535

Floats = NDArray[np.float64]


@frozen(eq=False)
class Sketch:
    """The samples of a row in little.

    samples: how many there are.
    quantiles: `QUANTILES` times in seconds, at probabilities spread evenly from 0 to 1.
    course: times in seconds in the order taken, at most `COURSE`; each is the median of neighbouring samples.
    """

    samples: int
    quantiles: Floats
    course: Floats


def sketch_of(times: Floats) -> Sketch:
    """The sketch of times in the order taken, of which there is at least one."""
    return Sketch(len(times), np.quantile(times, np.linspace(0, 1, QUANTILES)), _course(times))


def _course(times: Floats) -> Floats:
    """The medians of neighbouring samples: in the first parts one sample more than in the others."""
    if len(times) <= COURSE:
        return np.asarray(times)
    length, longer = divmod(len(times), COURSE)
    split = longer * (length + 1)
    parts = times[:split].reshape(longer, length + 1), times[split:].reshape(COURSE - longer, length)
    return np.concatenate([np.median(part, axis=1) for part in parts if len(part)])


def to_bytes(sketch: Sketch) -> bytes:
    """A sketch for the store, without the number of samples."""
    values = np.concatenate([sketch.quantiles, sketch.course])
    least, most = float(values.min()), float(values.max())
    steps = np.rint((values - least) * (_STEPS / (most - least))) if most > least else np.zeros(len(values))
    return _HEAD.pack(least, most) + steps.astype("<u2").tobytes()


def from_bytes(samples: int, data: bytes) -> Sketch:
    """The sketch that `to_bytes` wrote. Raises ValueError for other bytes."""
    if len(data) < _HEAD.size + 2 * QUANTILES or len(data) % 2:
        raise ValueError(f"a sketch of {len(data)} bytes")
    least, most = _HEAD.unpack_from(data)
    values = least + (most - least) / _STEPS * np.frombuffer(data, "<u2", offset=_HEAD.size)
    return Sketch(samples, values[:QUANTILES], values[QUANTILES:])
