"""The answer of `aiperf calc sizing` to its options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiperf_calc import answers, replicas, sizing
from aiperf_calc.checkpoint import cache_format
from aiperf_calc.load_bundle import read_bundle
from aiperf_calc.model import weight_notes
from aiperf_calc.parts import ModelShape
from aiperf_calc.prices.book import Price, warnings
from aiperf_calc.prices.book import read as read_prices
from aiperf_calc.quantities import positive
from aiperf_calc.shape import read
from aiperf_calc.text import read_text
from aiperf_core.errors import UsageError
from aiperf_core.report.result import Result
from aiperf_core.simulation import Times, poisson, trace

TENSORS = (1, 2, 4, 8, 16)
_SHOWN = ("peak", "headroom", "met", "available", "wish", "gpus")


def answer(path: Path, options: Mapping[str, Any]) -> Result:
    """The result for a curve, a file or a bundle of `aiperf load`. `options` are those of the command by name."""
    curve = read_bundle(path) if path.is_dir() else sizing.read_curve(path)
    sized = sizing.size(
        curve, options["peak"], headroom=options["headroom"], met=options["met"], available=options["available"],
        wish=options["wish"],
    )  # fmt: skip
    price, price_warnings = _price(options)
    for name in ("rate", "watts"):
        if options[name] is not None:
            positive(options[name], f"--{name}")
    simulated = scaled = None
    if options["simulate"] is not None:
        steps = _steps(curve, "--simulate")
        arrivals = poisson(options["peak"], options["simulate"], options["seed"])
        simulated = replicas.serve(arrivals, sized.needed, steps.time_s, steps.most)
    if options["trace"] is not None:
        scaled = _scaled(curve, sized, options)
    shape = _shape(options)
    result = answers.sized(
        curve,
        sized,
        {name: options[name] for name in _SHOWN},
        gpus=options["gpus"],
        usd_per_hour=price.of_machine(options["gpu"]) / price.count(options["gpu"]) if price else options["rate"],
        watts=options["watts"],
        memory=options["memory"],
        held=_held(shape, sized, options) if shape else (),
        notes=weight_notes(shape, options["dtype"], divided=True) if shape else (),
        simulated=simulated,
        scaled=scaled,
        price=price.document() if price else None,
    )
    result.summary.extend(f"Warning: {warning}." for warning in price_warnings)
    return result


def _price(options: Mapping[str, Any]) -> tuple[Price | None, list[str]]:
    if options["price_file"] is None and options["gpu"] is None:
        return None, []
    if options["gpu"] is None or options["rate"] is not None:
        raise UsageError("a price comes from --rate, or from --gpu CLASS with --prices; give one of them.")
    book = read_prices(options["price_file"])
    price = book.find(options["gpu"])
    if price is None:
        raise UsageError(f"{book.file} has no price of '{options['gpu']}'. Add one: aiperf prices add")
    return price, warnings([price], None)


def _steps(curve: sizing.LoadCurve, option: str) -> sizing.Steps:
    """The measured times of steps. Raises UsageError where these or the limit are missing, which simulations need."""
    if curve.steps is None or curve.limit_s is None:
        missing = "'steps'" if curve.steps is None else "'limit_s'"
        raise UsageError(
            f"{option} needs the measured times of steps and the limit of the SLO; {curve.file} has no {missing}. "
            "docs/analysis-calculators.md has the format."
        )
    return curve.steps


def _scaled(curve: sizing.LoadCurve, sized: sizing.Sized, options: Mapping[str, Any]) -> replicas.Served:
    steps = _steps(curve, "--trace")
    policy = replicas.Policy(
        goodput_per_s=sized.capacity.value, headroom=options["headroom"], every_s=options["every"],
        window_s=options["over"], start_s=options["start"], least=options["least"],
    )  # fmt: skip
    return replicas.scale(read_trace(options["trace"]), policy, steps.time_s, steps.most)


def read_trace(path: Path) -> Times:
    """Arrival times in seconds, one a line. Raises UsageError with the line."""
    lines = read_text(path, "--trace takes arrival times in seconds, one a line.").splitlines()
    times: list[float] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            times.append(float(line))
        except ValueError:
            raise UsageError(f"'{path}', line {number}: a time in seconds was expected, one a line.") from None
    return trace(times)


def _shape(options: Mapping[str, Any]) -> ModelShape | None:
    """The model whose memory is checked."""
    if options["config"] is None:
        return None
    if options["memory"] is None or options["tokens"] is None:
        raise UsageError("--config checks the memory of a GPU; it needs --memory SIZE and --tokens NUMBER.")
    return read(options["config"], ignore=options["ignore"])


def _held(shape: ModelShape, sized: sizing.Sized, options: Mapping[str, Any]) -> Sequence[sizing.Held]:
    """The memory of a GPU for each tensor parallelism."""
    residence = sized.capacity.point.residence_s
    if residence is None:
        raise UsageError("the requests at once are rate x residence (Little); the curve has no residence_s at its "
                         "capacity. Add it to the points.")  # fmt: skip
    kv_dtype = options["kv_dtype"] or cache_format(shape.stored, "--kv-dtype")
    reserve = options["memory"] / 10 if options["reserve"] is None else options["reserve"]
    return [
        sizing.held(
            shape, sized.capacity.point.rate_per_s, residence, options["tokens"], tensor=tensor, reserve=reserve,
            dtype=options["dtype"], kv_dtype=kv_dtype,
        )
        for tensor in TENSORS
        if shape.heads % tensor == 0 and not (shape.recurrent and tensor > 1)
    ]  # fmt: skip
