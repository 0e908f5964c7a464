"""Bounds: the least time of each resource, the amounts that implementations declare, and what of a bound is reached."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import asdict, evolve

from aiperf_core import units
from aiperf_core.benchmark import Benchmark, Implementation, Params
from aiperf_core.cost import FURTHER
from aiperf_core.devices.datasheets import datasheet
from aiperf_core.measurements import Ceilings
from aiperf_core.report import roofline
from aiperf_core.report.marks import colours
from aiperf_core.report.metrics import BOUND_NAMES
from aiperf_core.report.result import Axis, Drawing, Figure, Point, Series, counted
from aiperf_core.stats.expectations import Expectation
from aiperf_core.stats.speed_of_light import bound_times
from aiperf_learn.mechanisms.occupancy import GPU

# A share of the speed of light below which its bound tells nothing about the work.
TELLING = 0.05
_FLOPS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")


def _sheet() -> tuple[str, Ceilings]:
    """The data sheet's name and its figures as ceilings."""
    keys = ["copy_bytes_per_s", "transfer_bytes_per_s"]
    name, figures = datasheet(GPU, [*keys, *(f"{group}.{kind}" for group in ("flop_per_s", "vector_flop_per_s")
                                            for kind in _FLOPS)])  # fmt: skip
    memory, link = figures["copy_bytes_per_s"], figures["transfer_bytes_per_s"]

    def of_group(group: str) -> dict[str, float]:
        return {kind: figures[f"{group}.{kind}"] for kind in _FLOPS if f"{group}.{kind}" in figures}

    ceilings = Ceilings(
        device=GPU,
        measured="",
        copy_bytes_per_s=memory,
        read_bytes_per_s=memory,
        write_bytes_per_s=memory,
        flop_per_s=of_group("flop_per_s"),
        vector_flop_per_s=of_group("vector_flop_per_s"),
        transfer_bytes_per_s={"pinned_to_device": link, "pinned_from_device": link},
    )
    return str(name), ceilings


def resources(target: str, benchmark: Benchmark, sizes: Params) -> Drawing | None:
    """The least time that each resource needs for the declared work, by the data sheet; None where only one is used."""
    sheet, ceilings = _sheet()
    cost = {**asdict(benchmark.work(sizes)), "world_size": 1, "nodes": 1}
    times: dict[str, float] = {}
    for way, other in (("up", "from_device_bytes"), ("down", "to_device_bytes")):
        each = bound_times({**cost, other: 0}, ceilings, "cold")
        if "pcie" in each:
            times[f"PCIe, {way}"] = each["pcie"]
    rest = bound_times({**cost, "to_device_bytes": 0, "from_device_bytes": 0}, ceilings, "cold")
    times |= {BOUND_NAMES.get(name, name): value for name, value in rest.items()}
    if len(times) < 2:
        return None
    longest = max(times, key=lambda name: times[name])
    total = units.seconds(sum(times.values()))
    return Drawing(
        name=f"resources-{target}",
        title=f"Least time of each resource for the work, on an {GPU.removeprefix('NVIDIA ')}",
        kind="bars",
        message=(
            f"One after the other the resources need {total}; all at once {units.seconds(times[longest])}, the time of "
            f"{longest}. Rates are those of the data sheet ({sheet}), amounts those that the target declares."
        ),
        x=Axis(title="least time", unit="s"),
        y=Axis(title="resource", unit="count"),
        series=[
            Series(
                name="resources",
                points=[
                    Point(label=name, x=Figure(value=value, unit="s", certainty="derived"),
                          y=counted(float(at), "count"))
                    for at, (name, value) in enumerate(times.items())
                ],
            )
        ],
    )  # fmt: skip


def amounts(target: str, benchmark: Benchmark, sizes: Params) -> Iterator[Drawing]:
    """Amounts that implementations declare for themselves beside the work's, where not all do alike, as of launches."""
    every = benchmark.implementations_on("cuda")
    base = {name: getattr(benchmark.work(sizes), name) for name in FURTHER}
    own = {each.name: {**base, **benchmark.own_work(each, sizes)} for each in every if each.cost is not None}
    shared = colours((each.name, each.role) for each in every)
    for amount, heading in FURTHER.items():
        values = {each.name: own.get(each.name, base)[amount] for each in every if each.role != "yardstick"}
        if len(set(values.values())) < 2 or sum(map(bool, values.values())) < 2:
            continue
        unit = "B" if amount.endswith("bytes") else "count"
        told = ", ".join(f"{name} {value:,.0f}" for name, value in values.items() if value)
        yield Drawing(
            name=f"{amount}-{target}",
            title=f"Declared {heading} of a call",
            kind="bars",
            message=f"Least {heading} that implementations declare: {told}.",
            x=Axis(title=heading, unit=unit),
            y=Axis(title="implementation", unit="count"),
            series=[
                Series(
                    name=heading,
                    points=[
                        Point(
                            label=name,
                            x=counted(value or None, unit, "declares none"),
                            y=counted(float(at), "count"),
                            colour=shared[name],
                        )
                        for at, (name, value) in enumerate(values.items())
                    ],
                )
            ],
        )


def reached(
    target: str, benchmark: Benchmark, sizes: Params, hardware: str, date: str, stored: Mapping[str, Expectation]
) -> Drawing | None:
    """Stored fractions of the speed of light of a ladder's steps; None where none is large enough to tell something."""
    marks = list(_marks(target, benchmark.implementations_on("cuda"), stored, benchmark.work(sizes).flops))
    if not any(mark.fraction.value and mark.fraction.value >= 100 * TELLING for mark in marks):
        return None
    panel = roofline.Panel(hardware, date, roofline.Roof(""), (), tuple(marks), is_plane=False)
    return evolve(roofline.draw(panel, target), name=f"bound-{target}")


def _marks(
    target: str, implementations: Sequence[Implementation], stored: Mapping[str, Expectation], flops: float
) -> Iterator[roofline.Mark]:
    shared = colours((each.name, each.role) for each in implementations)
    known = {each.name: stored[each.name] for each in implementations if each.name in stored}
    best = max(known, key=lambda name: known[name].measured, default="")
    for each in implementations:
        row = known.get(each.name)
        if row is None or row.sol is None or row.time_s is None:
            continue
        percent, time = 100 * row.sol.fraction, row.time_s
        low, high = percent * time.value / time.high, percent * time.value / time.low
        yield roofline.Mark(
            target=target,
            name=each.name,
            kind="best" if each.name == best else each.role,
            colour=shared[each.name],
            intensity=None,
            flop_per_s=flops / time.value,
            fraction=Figure(value=percent, low=low, high=high, unit="%", certainty="derived"),
            bound=row.sol.bound,
            needs_links=False,
        )
