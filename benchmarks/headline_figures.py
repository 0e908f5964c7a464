"""Write the page that holds well-known figures of the predecessor against measured ones.

    python benchmarks/headline_figures.py --ceilings CEILINGS.json BUNDLE... > docs/headline-figures.md

CEILINGS.json is what `aiperf ceilings --json` printed on the machine of the bundles. What a figure is compared with,
and why the two differ, stands here; each measured figure is read from a result. One that no result has is named as
missing, and then the script ends with 1.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Row, TargetResult


@frozen(kw_only=True)
class Headline:
    """What the predecessor said, and of what; where it is measured here; and why the two differ.

    `target` and `implementations` name rows of a result, or `machine` reads figures of the machine.
    """

    said: str
    of: str
    why: str
    target: str = ""
    implementations: tuple[str, ...] = ()
    machine: Callable[[dict[str, Any]], list[str]] | None = field(default=None)


def pinned(ceilings: dict[str, Any]) -> list[str]:
    """Transfers from pinned and from pageable memory, both ways."""
    rates = ceilings["transfer_bytes_per_s"]
    lines = []
    for name, pageable in rates.items():
        if "pageable" in name and (there := rates.get(name.replace("pageable", "pinned"))):
            what = name.replace("pageable_", "").replace("_", " ")
            lines.append(f"{what}: pinned {rate(there)}, pageable {rate(pageable)}: {there / pageable:.1f}x")
    return lines


def copied(ceilings: dict[str, Any]) -> list[str]:
    """Copying device memory, beside the data sheet."""
    measured, promised = ceilings["copy_bytes_per_s"], ceilings["datasheet"].get("copy_bytes_per_s")
    beside = f", {measured / promised:.0%} of the data sheet's {rate(promised)}" if promised else ""
    return [f"copy {rate(measured)}{beside}"]


def all_reduced(ceilings: dict[str, Any]) -> list[str]:
    """All-reduces by number of GPUs."""
    return [f"{count} GPUs: {rate(one)}" for count, one in ceilings["all_reduce_bytes_per_s"].items()]


def rate(bytes_per_s: float) -> str:
    """A rate of bytes in words."""
    return units.rate(bytes_per_s, "B/s")


HEADLINES = (
    Headline(
        said="pinned memory: 2 to 6 times faster transfers",
        of="copies of a batch to the GPU",
        machine=pinned,
        why="Right, and no constant: it is the ratio of what the bus carries to how fast one thread of the host can copy pages "
        "for the driver, so it grows with the bus and shrinks with the processor.",
    ),
    Headline(
        said="batched GEMM: 31 times faster",
        of="40 small products in one call instead of 40 calls",
        target="ch01.batched_gemm",
        why="A ratio of launches: it is large while a product is shorter than a launch. Timed from the host, with launches in "
        "it, a slow host makes it larger; on the device's clock, where launches are hidden, only filling the chip is left.",
    ),
    Headline(
        said="batch of 256: 8.5 times the arithmetic rate of a batch of 32",
        of="GEMM throughput by batch",
        target="ch01.batch_size",
        why="The rate follows the roofline: it grows with the batch while the weights' bytes bound it and no further. Where that "
        "ends depends on the machine's ratio of arithmetic to bandwidth.",
    ),
    Headline(
        said="vectorized loads: 1.28 times the bandwidth",
        of="a copy with 16 bytes a thread instead of 4",
        target="ch07.vectorized_copy",
        implementations=("wide", "driver"),
        why="It depends on what holds the scalar form back. With one word a thread and blocks of 256, starting a million "
        "blocks does; a grid that stays, or larger blocks, leaves little to gain.",
    ),
    Headline(
        said="CUDA graphs: up to 195 times in microbenchmarks",
        of="many short kernels, replayed",
        target="ch12.cuda_graphs",
        why="A graph saves what a launch costs the host, and no more; fusing the kernels saves far more. Among the predecessor's "
        "stored results is a pair whose graphs ran on a stream that its events did not time.",
    ),
    Headline(
        said="all-reduce: 273 GB/s",
        of="large messages between the GPUs of one host",
        machine=all_reduced,
        why="Bus bandwidth of NCCL without NVLink multicast; it is a share of what one link carries, which `aiperf ceilings` "
        "measures beside it.",
    ),
    Headline(
        said="memory bandwidth: 35 % of the limit, called realistic",
        of="a copy of device memory",
        machine=copied,
        why="A plain copy shows what is realistic. A bandwidth that is held against it, and not against the data sheet alone, shows "
        "when the measurement is at fault.",
    ),
)


def main() -> int:
    """Print the page; 1 where a figure is missing."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    parser.add_argument("--ceilings", type=Path, required=True, metavar="FILE")
    asked = parser.parse_args()
    ceilings = json.loads(asked.ceilings.read_text())["ceilings"]
    results = {name: one for path in asked.bundles for name, one in Bundle.open(path).targets.items()}
    missing = []
    print("# Headline figures\n")
    print("What the predecessor promised in its front page, what a machine does, and why the two differ.")
    print("Made by `benchmarks/headline_figures.py` from results; no figure is typed.\n")
    print(f"Machine: {ceilings['device']}, ceilings measured {ceilings['measured'][:10]}.")
    for one in HEADLINES:
        lines = list(told(one, results, ceilings))
        missing += [] if lines else [one.said]
        print(f"\n## {one.said[0].upper()}{one.said[1:]}\n\nSaid of {one.of}.\n")
        print("\n".join(f"- {line}" for line in lines) if lines else "- not measured")
        print(f"\n{one.why}")
    for said in missing:
        print(f"no result has: {said}", file=sys.stderr)
    return int(bool(missing))


def told(one: Headline, results: dict[str, TargetResult], ceilings: dict[str, Any]) -> Iterator[str]:
    """The measured figures of a headline, a line each."""
    if one.machine is not None:
        yield from one.machine(ceilings)
        return
    result = results.get(one.target)
    if result is None:
        return
    sizes = " ".join(f"{name}={units.parameter(value)}" for name, value in result.problem.params.items())
    yield f"`{one.target}`, {sizes}, {result.clock} clock, {result.cache} cache, tier {result.tier}, {result.started[:10]}"
    for row in result.rows:
        if row.role in ("baseline", "variant", "yardstick") and (not one.implementations or wanted(row, one)):
            yield line_of(row)


def wanted(row: Row, one: Headline) -> bool:
    """Whether a row belongs to a headline that names some."""
    return row.role == "baseline" or row.name in one.implementations


def line_of(row: Row) -> str:
    """A row's time and speedup with their intervals."""
    text = f"`{row.name}` ({row.role if row.role != 'variant' else row.verdict})"
    if row.time_s is not None:
        shown = units.time_estimate(row.time_s)
        text += f" {shown.value} {shown.interval}"
    if row.speedup is not None:
        shown = units.ratio_estimate(row.speedup)
        text += f", {shown.value} {shown.interval}"
    return text


if __name__ == "__main__":
    sys.exit(main())
