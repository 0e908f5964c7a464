"""The answers of the calculators as results, which every renderer shows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, evolve

from aiperf_calc import cost, parallel, replicas, sizing
from aiperf_calc.kv_cache import Cached, cache_bytes, state_bytes, token_bytes
from aiperf_calc.model import (
    RECOMPUTATIONS,
    activation_bytes,
    forward_flops,
    parameters,
    places,
    training,
    training_flops_per_token,
    weight_bytes,
    weight_format_of,
    weight_notes,
)
from aiperf_calc.parts import ModelShape
from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.report.result import Axis, Cell, Column, Drawing, Figure, Point, Record, Result, Series, Table, counted

_NAME, _VALUE = Column("what", "what"), Column("value", "value", "figure")


def _derived(value: float, unit: str) -> Figure:
    return Figure(value=value, unit=unit, certainty="derived")


def _range(low: float, value: float, high: float, unit: str) -> Figure:
    return Figure(value=value, low=low, high=high, unit=unit, certainty="estimated")


def _listed(name: str, title: str, rows: Mapping[str, Cell], note: str = "") -> Table:
    return Table(
        name, title, [_NAME, _VALUE], [Record({"what": key, "value": cell}) for key, cell in rows.items()], note
    )


def kv_cache(
    kept: Cached, *, dtype: str, tokens: int, sequences: int, page: int = 1, group: int = 0, scale_bytes: float = 0.0,
    memory: float | None = None, notes: Sequence[str] = (),
) -> Result:  # fmt: skip
    """The size of a cache of keys and values, and how many sequences a memory holds."""
    token = token_bytes(kept, dtype, group, scale_bytes)
    each = cache_bytes(kept, dtype, tokens, 1, page=page, group=group, scale_bytes=scale_bytes)
    whole = each * sequences
    rows: dict[str, Cell] = {
        "bytes of a token": counted(token, "count"),
        "a token": counted(token, "B"),
        **(
            {
                "a token beyond the window": counted(
                    token_bytes(evolve(kept, local_layers=0), dtype, group, scale_bytes), "B"
                )
            }
            if kept.local_layers and kept.layers
            else {}
        ),
        **({"state of a sequence": counted(state_bytes(kept, dtype), "B")} if kept.state else {}),
        "a sequence": counted(each, "B"),
        "all sequences": counted(whole, "B"),
    }
    summary = [f"{units.size(whole)} for {units.plural('sequence', sequences)} of {tokens:,} tokens in {dtype}."]
    if memory is not None:
        rows["sequences that fit"] = counted(math.floor(memory / each), "count")
        summary.append(f"{math.floor(memory / each):,} such sequences fit in {units.size(memory)}.")
    assumptions = ["every sequence has all its tokens at once"]
    if kept.local_layers:
        assumptions.append(f"{kept.local_layers} local layers drop all but the last {kept.window:,} tokens")
    if kept.state:
        assumptions.append("recurrent layers keep a state of fixed size of each sequence, in 16 bits or more")
    assumptions.extend(notes)
    if page > 1:
        assumptions.append(f"a sequence takes whole pages of {page:,} tokens")
    return Result(
        analysis="calc-kv-cache",
        title="Cache of keys and values",
        summary=summary,
        tables=[_listed("cache", f"{dtype}, {tokens:,} tokens, {units.plural('sequence', sequences)}", rows)],
        options={"dtype": dtype, "tokens": tokens, "sequences": sequences, "page": page, "group": group,
                 "scale_bytes": scale_bytes, "memory": memory},
        assumptions=assumptions,
        details={"cached": asdict(kept)},
    )  # fmt: skip


def model(shape: ModelShape, *, dtype: str | None, tokens: int, batch: int, zero: int = 0, ranks: int = 1) -> Result:
    """Parameters, operations, and memory of serving and training of a model."""
    numbers = parameters(shape)
    parts = {name: counted(value, "count") for name, value in asdict(numbers).items() if name != "chosen_experts"}
    flops = forward_flops(shape, tokens, places(tokens), places(tokens, shape.window))
    trained = training(numbers.total, zero, ranks)
    whole = {name: shape.layers * activation_bytes(shape, tokens, batch, recomputation=name) for name in RECOMPUTATIONS}
    weights, form = weight_bytes(shape, dtype), weight_format_of(shape, dtype).name
    rows: dict[str, Cell] = {
        "parameters": counted(numbers.total, "count"),
        "parameters of a token": counted(numbers.active, "count"),
        f"weights in {form}": counted(weights, "B"),
        f"operations of a prompt of {tokens:,} tokens": counted(flops, "FLOP"),
        "operations of a trained token": counted(training_flops_per_token(shape, tokens), "FLOP"),
    }
    memory: dict[str, Cell] = {f"{name} (training)": counted(value, "B") for name, value in asdict(trained).items()}
    memory |= {
        f"activations, recomputation {name}": _derived(value, "B") if shape.recurrent is None else
        counted(None, "B", "the activations of recurrent layers are not known") for name, value in whole.items()
    }  # fmt: skip
    return Result(
        analysis="calc-model",
        title=f"Model of the type {shape.name}",
        summary=[
            f"{numbers.total:,} parameters, {units.size(weights)} in {form}.",
            *([f"A token uses {numbers.active:,} of them."] if numbers.active != numbers.total else []),
        ],
        tables=[
            _listed("model", "the model", rows),
            _listed("parameters", "parameters by part", {name.replace("_", " "): cell for name, cell in parts.items()}),
            _listed(
                "training",
                f"memory of a GPU in training with Adam, ZeRO {zero} over {units.plural('rank', ranks)}, "
                f"{units.plural('sequence', batch)} of {tokens:,} tokens",
                memory,
            ),
        ],
        options={"dtype": dtype, "tokens": tokens, "batch": batch, "zero": zero, "ranks": ranks},
        assumptions=[
            "training keeps 16 bytes a parameter: mixed precision with Adam (Rajbhandari et al., 2020)",
            "activations are those of a GPT block: a feed-forward layer of four times the width without a gate, with "
            "dropout (Korthikanti et al., 2022)",
            "operations count matrix products alone",
            *weight_notes(shape, dtype),
        ],
        details={"shape": asdict(shape)},
    )


def parallel_ways(
    shape: ModelShape, *, gpus: int, memory: float, reserve: float, work: parallel.Work, most: int = 20
) -> Result:
    """The ways to divide a model over GPUs by their memory."""
    every = parallel.ways(shape, gpus, memory, reserve, work)
    counts = {fit: sum(way.fit == fit for way in every) for fit in ("FITS", "MAYBE", "FAILS")}
    shown = [way for way in every if way.fit != "FAILS"][:most] or every[:most]
    keys = ("weights", "gradients", "optimizer", "activations") if work.train else ("weights", "cache")
    records = [
        Record(
            {
                "way": way.name,
                "fit": way.fit,
                "memory": _range(way.low, way.high, way.high, "B"),
                **{key: _derived(getattr(way, key), "B") for key in keys},
                "bubble": _derived(100 * way.bubble, "%"),
            }
        )
        for way in shown
    ]
    columns = [
        Column("way", "way"),
        Column("fit", "fits", "verdict"),
        Column("memory", "memory of a GPU", "figure"),
        *(Column(key, key, "figure") for key in keys),
        Column("bubble", "bubble", "figure"),
    ]
    fitting = counts["FITS"] + counts["MAYBE"]
    room = f"{units.plural('GPU', gpus)} of {units.size(memory)}"
    sentence = f"{fitting} of {len(every)} ways may fit {room}: {counts['FITS']} for certain."
    if not fitting:
        sentence = f"No way fits {room}."
    return Result(
        analysis="calc-parallel",
        title="Ways to divide the model over GPUs",
        summary=[sentence, "The ways are not ranked by speed: that takes measurements of each."],
        status="ok" if fitting else "nothing",
        tables=[
            Table(
                "ways", f"{len(shown)} of {len(every)} ways", columns, records,
                note="TP: tensor, PP: pipeline, EP: expert, DP: data parallel. Memory is that of the fullest GPU with "
                "the reserve; the range begins at an even division without it.",
            )
        ],
        drawings=[
            Drawing(
                name="memory", title="Memory of a GPU by way", kind="intervals", message=sentence,
                x=Axis(title="memory of a GPU; less is better", unit="B"), y=Axis(title="way", unit="count"),
                series=[Series(name="ways", points=[
                    Point(label=way.name, x=_range(way.low, way.high, way.high, "B"),
                          y=counted(index, "count"), mark=way.fit)
                    for index, way in enumerate(shown)])],
                borders={"memory": memory},
            )
        ],
        options={"gpus": gpus, "memory": memory, "reserve": reserve, **asdict(work)},
        assumptions=[
            f"{units.size(reserve)} of each GPU are kept for the context, workspaces and fragmentation",
            "the bubble is (p - 1) / (m + p - 1) of the step (Narayanan et al., 2021); stages take equal times",
            *weight_notes(shape, "bf16" if work.train else work.dtype, divided=True),
        ],
        details={"counts": counts},
    )  # fmt: skip


def cost_per_token(
    *, watts: float | None, per_second: float, tariff: float | None, pue: float, usd_per_hour: float | None, gpus: int,
    utilisation: float,
) -> Result:  # fmt: skip
    """Dollars of a million tokens: of electricity, of rented machines, or of both."""
    rows: dict[str, Cell] = {}
    summary: list[str] = []
    assumptions = []
    if (watts is None) != (tariff is None):
        raise UsageError("electricity needs both --watts and --tariff; give both, or --rate for rented machines.")
    if watts is not None and tariff is not None:
        value = cost.electricity_per_million(watts, per_second, tariff, pue)
        rows["electricity of 1M tokens"] = _derived(value, "USD")
        rows["energy of a token"] = _derived(watts / per_second, "J")
        summary.append(f"{value:.4f} USD of electricity for a million tokens.")
        assumptions += [f"PUE {pue:g}: the building takes {units.percent(pue - 1)} more than the machines",
                        "the power is the mean over the time in which the tokens were made"]  # fmt: skip
    if usd_per_hour is not None:
        value = cost.per_million(usd_per_hour, gpus, per_second, utilisation)
        rows["rent of 1M tokens"] = _derived(value, "USD")
        summary.append(f"{value:.4f} USD of rent for a million tokens.")
        assumptions.append(
            f"utilisation {units.percent(utilisation)}: this share of the paid time makes tokens at this rate"
        )
    if not rows:
        raise UsageError("a cost needs --watts with --tariff for electricity, or --rate for rented machines.")
    return Result(
        analysis="calc-cost-per-token",
        title="Cost of tokens",
        summary=summary,
        tables=[_listed("cost", f"at {per_second:,g} tokens/s", rows)],
        options={"watts": watts, "tokens_per_second": per_second, "tariff": tariff, "pue": pue, "rate": usd_per_hour,
                 "gpus": gpus, "utilisation": utilisation},
        assumptions=assumptions,
    )  # fmt: skip


def sized(
    curve: sizing.LoadCurve,
    answer: sizing.Sized,
    options: Mapping[str, Any],
    *,
    gpus: int = 1,
    usd_per_hour: float | None = None,
    watts: float | None = None,
    memory: float | None = None,
    held: Sequence[sizing.Held] = (),
    simulated: replicas.Served | None = None,
    scaled: replicas.Served | None = None,
    price: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """The replicas for a demand, with their GPUs, cost and power as ranges."""

    def of(each: float, unit: str) -> Figure:
        return _range(answer.total_least * each, answer.total * each, answer.total_most * each, unit)

    no_price = Figure(value=None, unit="USD", reason="no price; give --rate, or --prices with --gpu")
    rows: dict[str, Cell] = {
        "goodput of a replica": _range(answer.capacity.low, answer.capacity.value, answer.capacity.high, "1/s"),
        "replicas for the peak": _range(answer.least, answer.needed, answer.most, "count"),
        "replicas with spares": of(1, "count"),
        "GPUs": of(gpus, "count"),
        "dollars an hour": of(gpus * usd_per_hour, "USD") if usd_per_hour is not None else no_price,
        "power": of(gpus * watts, "W") if watts is not None else
        Figure(value=None, unit="W", reason="no power; give --watts of a GPU"),
    }  # fmt: skip
    count = f"{answer.total} replicas"
    if answer.total_least != answer.total_most:
        count = f"{answer.total_least} to {answer.total_most} replicas"
    headroom = units.percent(options["headroom"])
    summary = [f"{count} for {options['peak']:g} requests/s at peak with {headroom} headroom."]
    tables = [_listed("sizing", "replicas", rows)]
    drawings = [_curve(curve, answer)]
    limit = curve.limit_s
    if simulated is not None and limit is not None:
        tables.append(_listed("simulation", f"{answer.needed} replicas with a shared queue, simulated", {
            "requests": len(simulated.latency_s),
            "goodput": _derived(simulated.goodput_per_s(limit), "1/s"),
            "in time": _derived(100 * simulated.share(limit), "%"),
        }, note="Poisson arrivals at the peak rate, fed with the measured times of steps."))  # fmt: skip
    if scaled is not None and limit is not None:
        tables.append(_listed("scaling", "replicas by the scaling policy over the trace, simulated", {
            "requests": len(scaled.latency_s),
            "in time": _derived(100 * scaled.share(limit), "%"),
            "replicas, most": max(count for _, count in scaled.replicas),
            "hours of replicas": _derived(scaled.replica_s / cost.HOUR_S, "h"),
            "dollars": no_price if usd_per_hour is None else
            _derived(scaled.replica_s / cost.HOUR_S * gpus * usd_per_hour, "USD"),
        }))  # fmt: skip
        drawings.insert(0, _over_time(scaled))
        summary.append(f"The scaling policy serves {units.percent(scaled.share(limit))} of the trace in time.")
    if held and memory is not None:
        tables.append(_memory(held, memory))
        if not any(gpu.total <= memory for gpu in held):
            summary.insert(0, f"No tensor parallelism fits {units.size(memory)} a GPU at this concurrency.")
    assumptions = [
        f"a point meets the SLO where {units.percent(options['met'])} of its requests are in time",
        "replicas share the load evenly, and each serves as the measured one does",
        "the capacity lies between the highest measured rate that meets the SLO and the next measured rate"
        if answer.capacity.bounded else
        "no measured rate misses the SLO, so a replica may carry more than was measured: measure higher rates",
    ]  # fmt: skip
    assumptions.extend(notes)
    if options["available"] < 1:
        assumptions.append(f"replicas fail independently, each is up {100 * options['available']:g} % of the time")
    if simulated is not None or scaled is not None:
        assumptions.append("simulated requests take equal numbers of steps, and a batch ends as a whole")
    return Result(
        analysis="calc-sizing",
        title="Replicas for a demand",
        summary=summary,
        tables=tables,
        drawings=drawings,
        options=dict(options),
        assumptions=assumptions,
        details={"capacity": asdict(answer.capacity), "price": dict(price) if price else None},
    )


def _curve(curve: sizing.LoadCurve, answer: sizing.Sized) -> Drawing:
    points = [
        Point(
            label="capacity" if point == answer.capacity.point else "",
            x=counted(point.rate_per_s, "1/s"),
            y=Figure(value=point.goodput_per_s, low=point.goodput_low, high=point.goodput_high, unit="1/s"),
        )
        for point in curve.points
    ]
    return Drawing(
        name="goodput", title="Goodput of one replica", kind="lines",
        message=f"A replica serves {answer.capacity.value:g} requests/s within the SLO.",
        x=Axis(title="requests that arrive a second", unit="1/s"),
        y=Axis(title="requests in time a second; more is better", unit="1/s"),
        series=[Series(name="measured", points=points, joined=True)],
        borders={"capacity": answer.capacity.point.rate_per_s},
    )  # fmt: skip


def _over_time(served: replicas.Served) -> Drawing:
    steps: list[Point] = []
    before: int | None = None
    for moment, count in served.replicas:
        heights = (before, count) if before is not None else (count,)
        steps += [Point(label="", x=counted(moment, "s"), y=counted(height, "count")) for height in heights]
        before = count
    steps.append(Point(label="", x=counted(served.end_s, "s"), y=counted(before, "count")))
    return Drawing(
        name="replicas", title="Replicas over time", kind="lines",
        message=f"At most {max(count for _, count in served.replicas)} replicas are paid at once.",
        x=Axis(title="time", unit="s"), y=Axis(title="replicas that are paid", unit="count"),
        series=[Series(name="replicas", points=steps, joined=True)],
    )  # fmt: skip


def _memory(held: Sequence[sizing.Held], memory: float) -> Table:
    records = [
        Record(
            {
                "tensor": gpu.tensor,
                "fit": "FITS" if gpu.total <= memory else "FAILS",
                "concurrency": _derived(gpu.concurrency, "count"),
                "weights": _derived(gpu.weights, "B"),
                "cache": _derived(gpu.cache, "B"),
                "total": _derived(gpu.total, "B"),
            }
        )
        for gpu in held
    ]
    columns = [
        Column("tensor", "TP"), Column("fit", "fits", "verdict"), Column("concurrency", "requests at once", "figure"),
        Column("weights", "weights", "figure"), Column("cache", "cache", "figure"),
        Column("total", "with reserve", "figure"),
    ]  # fmt: skip
    return Table("memory", f"memory of a GPU, of {units.size(memory)}", columns, records,
                 note="Requests at once are rate x residence (Little).")  # fmt: skip
