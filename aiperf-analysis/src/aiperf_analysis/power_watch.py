"""Watch the power of this machine while a command runs.

Each sensor has an energy counter, a power figure, or both. The counter is preferred: it misses nothing between two
samples. Power is averaged by the driver and is integrated over the samples; the difference of both is shown.
"""

import contextlib
import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from attrs import define, field, frozen

from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.report.result import Axis, Column, Drawing, Figure, Point, Record, Result, Series, Table, counted

RATE_HZ = 10.0
# Steps of the counter that the figure needs: each end is old by up to one.
LEAST_STEPS = 5
# How long the command may take to end by itself after Ctrl-C, then after SIGINT, then after SIGTERM.
_PATIENCE_S = (0.5, 5.0, 2.0)
_POINTS = 400  # of the drawing


@frozen
class Sensor:
    """A sensor. `read` gives the energy in joules of a running counter, and the power in watts; None for unknown."""

    name: str
    read: Callable[[], tuple[float | None, float | None]]


@frozen
class Sample:
    """What a sensor said at a moment of `time.monotonic`."""

    at_s: float
    energy_j: float | None
    power_w: float | None


@define
class Watched:
    """The samples of each sensor, and how the command ended.

    exit_code: as a shell gives it: 128 + the signal of a command that a signal ended.
    interrupted: whether Ctrl-C ended it.
    """

    samples: dict[str, list[Sample]]
    exit_code: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    lacking: dict[str, str] = field(factory=dict)


@contextlib.contextmanager
def sensors(gpus: Sequence[int] | None = None) -> Iterator[tuple[list[Sensor], dict[str, str]]]:
    """The sensors of the processor (RAPL) and of the GPUs (NVML), and why others are missing.

    gpus: the numbers of CUDA; None for all.
    """
    from aiperf_core.devices.gpus import gpus as found_gpus
    from aiperf_core.devices.telemetry import open_telemetry

    lacking: dict[str, str] = {}
    names = {"cpu": "cpu"}
    listed, _ = found_gpus()
    for number in range(len(listed)) if gpus is None else gpus:
        names[f"gpu{number}"] = f"cuda:{number}"
    if not listed and gpus is None:
        from aiperf_core.devices.probe import nvidia

        lacking["gpu"] = nvidia().problem or "NVML lists no GPU"
    opened = {name: open_telemetry(device) for name, device in names.items()}
    try:
        kept = []
        for name, telemetry in opened.items():
            sensor = Sensor(name, _reader(telemetry))
            if sensor.read() == (None, None):
                lacking[name] = telemetry.lacking.get("energy_j") or telemetry.lacking.get("power_w") or "no figure"
            else:
                kept.append(sensor)
        yield kept, lacking
    finally:
        for telemetry in opened.values():
            telemetry.close()


def _reader(telemetry: Telemetry) -> Callable[[], tuple[float | None, float | None]]:
    return lambda: (telemetry.energy_j(), telemetry.power_w())


def watch(command: Sequence[str], found: Sequence[Sensor], *, rate_hz: float = RATE_HZ) -> Watched:
    """Run a command and sample the sensors until it ends. Ctrl-C and SIGTERM end both.

    Raises AiperfError without a sensor, and UsageError for a command that cannot be started.
    """
    if not found:
        raise AiperfError("there is no sensor to watch")
    watched = Watched({one.name: [] for one in found})
    # Before the start, so that the counter's first value is not the command's.
    _sample(found, watched)
    begin = time.monotonic()
    try:
        process = subprocess.Popen(list(command))
    except OSError as error:
        raise UsageError(
            f"cannot start '{words(command[0])}': {error.strerror or error}. Give a program: aiperf power watch CMD"
        ) from None
    with terminated_as_interrupt():
        try:
            _until_end(process, found, watched, begin, 1 / rate_hz)
        except KeyboardInterrupt:
            watched.interrupted = True
            _end(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
    _sample(found, watched)
    watched.seconds = time.monotonic() - begin
    code = process.returncode
    watched.exit_code = code if code >= 0 else 128 - code
    return watched


def _until_end(
    process: "subprocess.Popen[bytes]", found: Sequence[Sensor], watched: Watched, begin: float, period: float
) -> None:
    due = begin
    while True:
        due += period
        try:
            process.wait(max(0.0, due - time.monotonic()))
            return
        except subprocess.TimeoutExpired:
            _sample(found, watched)
            # A sample that took too long moves the later ones, instead of crowding them.
            due = max(due, time.monotonic() - period)


def _sample(found: Sequence[Sensor], watched: Watched) -> None:
    for one in found:
        energy, power = one.read()
        watched.samples[one.name].append(Sample(time.monotonic(), energy, power))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let the command end by itself, as a terminal sends it Ctrl-C too; then ask it, and at last kill it."""
    for patience_s, ask in zip(_PATIENCE_S, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL), strict=True):
        try:
            process.wait(patience_s)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.send_signal(ask)
    process.wait()


@contextlib.contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the command does not stay behind."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@frozen(kw_only=True)
class Energy:
    """What a sensor measured.

    counted_j: by the energy counter, with the error by its steps; None without one.
    integrated_j: by the power, trapezoids between the samples; None without one.
    seconds: between the first and the last sample.
    peak_w: of the power, or of the counter's steps.
    steps: of the counter.
    """

    counted_j: float | None
    error_j: float
    integrated_j: float | None
    seconds: float
    peak_w: float | None
    steps: int

    @property
    def joules(self) -> float | None:
        """The preferred figure: the counter's, or else the integral."""
        return self.integrated_j if self.counted_j is None else self.counted_j


def energy_of(samples: Sequence[Sample]) -> Energy:
    """The energy between the first and the last sample of a sensor."""
    counted_ = [(one.at_s, one.energy_j) for one in samples if one.energy_j is not None]
    power = [(one.at_s, one.power_w) for one in samples if one.power_w is not None]
    seconds = samples[-1].at_s - samples[0].at_s if samples else 0.0
    joules, error, steps, peak = _counter(counted_)
    integrated = None
    if len(power) > 1:
        integrated = math.fsum((after[0] - before[0]) * (after[1] + before[1]) / 2 for before, after in pairwise(power))
        peak = max(value for _, value in power)
    return Energy(counted_j=joules, error_j=error, integrated_j=integrated, seconds=seconds, peak_w=peak, steps=steps)


def _counter(samples: Sequence[tuple[float, float]]) -> tuple[float | None, float, int, float | None]:
    """The energy by a counter, its error by the steps, their number, and the greatest power of a step."""
    steps = [samples[0]] if samples else []
    for one in samples[1:]:
        if one[1] != steps[-1][1]:
            steps.append(one)
    if len(steps) < 2 or steps[-1][1] < steps[0][1]:
        return None, 0.0, max(0, len(steps) - 1), None
    joules = steps[-1][1] - steps[0][1]
    # The first value may be old by a step, and so may the last.
    error = joules / (len(steps) - 1)
    powers = [
        (after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(steps) if after[0] > before[0]
    ]
    return joules, error, len(steps) - 1, max(powers, default=None)


def result(command: Sequence[str], watched: Watched) -> Result:
    """The figures of all sensors as a result."""
    records, total = [], 0.0
    for name, samples in watched.samples.items():
        found = energy_of(samples)
        joules = found.joules
        total += joules or 0.0
        records.append(Record(_cells(name, found, len(samples))))
    told = " ".join(map(words, command))
    summary = [
        f"'{told}' took {watched.seconds:.2f} s and {total:.1f} J on {len(records)} "
        f"{'sensor' if len(records) == 1 else 'sensors'}."
    ]
    if watched.interrupted:
        summary.append("It was interrupted.")
    elif watched.exit_code:
        summary.append(f"It ended with exit code {watched.exit_code}.")
    columns = [
        Column("sensor", "sensor"), Column("joules", "energy", "figure"), Column("method", "by"),
        Column("integrated", "by integrated power", "figure"), Column("difference", "difference", "figure"),
        Column("watts", "mean power", "figure"), Column("peak", "peak power", "figure"),
        Column("seconds", "time", "figure"), Column("samples", "samples", "figure"),
    ]  # fmt: skip
    return Result(
        analysis="power-watch",
        title="Power",
        summary=summary,
        tables=[Table("sensors", "energy while the command ran", columns, records)],
        drawings=_drawing(watched, summary[0]),
        assumptions=[
            "the figures are of the whole machine or device, other users and idle power included",
            *(f"no {name}: {why}" for name, why in watched.lacking.items()),
        ],
        details={"exit_code": watched.exit_code, "command": list(command), "interrupted": watched.interrupted},
    )


def _cells(name: str, found: Energy, samples: int) -> dict[str, Any]:
    joules, integrated = found.joules, found.integrated_j
    counter = found.counted_j
    figure = Figure(value=None, unit="J", reason="the sensor gave fewer than two figures")
    if counter is not None and found.steps < LEAST_STEPS:
        figure = Figure(value=None, high=counter + found.error_j, unit="J", reason="the counter moved too few times")
    elif counter is not None:
        figure = Figure(value=counter, low=max(0.0, counter - found.error_j), high=counter + found.error_j, unit="J")
    elif integrated is not None:
        figure = Figure(value=integrated, unit="J")
    apart = None if counter is None or integrated is None or not counter else 100 * (integrated / counter - 1)
    return {
        "sensor": name,
        "joules": figure,
        "method": "counter" if counter is not None else "integrated power" if integrated is not None else None,
        "integrated": Figure(value=integrated, unit="J", reason="the sensor shows no power"),
        "difference": Figure(value=apart, unit="%", reason="only one of both is known"),
        "watts": Figure(value=joules / found.seconds if joules is not None and found.seconds else None, unit="W",
                        reason="no energy"),
        "peak": Figure(value=found.peak_w, unit="W", reason="no power"),
        "seconds": counted(found.seconds, "s"),
        "samples": counted(samples, "count"),
    }  # fmt: skip


def _drawing(watched: Watched, message: str) -> list[Drawing]:
    series = []
    for name, samples in watched.samples.items():
        course = power_course(samples)
        if course:
            begin = samples[0].at_s
            thinned = course[:: max(1, math.ceil(len(course) / _POINTS))]
            points = [Point(label="", x=counted(at - begin, "s"), y=counted(watts, "W")) for at, watts in thinned]
            series.append(Series(name=name, points=points, joined=True))
    if not series:
        return []
    return [
        Drawing(name="power", title="Power over time", kind="lines", message=message, x=Axis(title="time", unit="s"),
                y=Axis(title="power", unit="W"), series=series)
    ]  # fmt: skip


def power_course(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Power over time: the sensor's figure, or that between two steps of its counter."""
    shown = [(one.at_s, one.power_w) for one in samples if one.power_w is not None]
    if shown:
        return shown
    steps = [one for one in samples if one.energy_j is not None]
    course, before = [], steps[0] if steps else None
    for one in steps[1:]:
        assert before is not None
        assert before.energy_j is not None
        assert one.energy_j is not None
        if one.energy_j > before.energy_j and one.at_s > before.at_s:
            course.append((one.at_s, (one.energy_j - before.energy_j) / (one.at_s - before.at_s)))
            before = one
    return course


def no_sensor(lacking: dict[str, str]) -> AiperfError:
    """The error of a machine without sensors, with the reason of each."""
    told = "; ".join(f"{name}: {why}" for name, why in lacking.items())
    return AiperfError(
        f"no sensor of this machine shows power or energy, so the command was not started. {told}. Run it where a "
        "GPU's driver or the processor's counters can be read."
    )
