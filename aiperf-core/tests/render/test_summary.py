import re

import attrs
import pytest
from rich.console import Console

from aiperf_core.measurements import Estimate
from aiperf_core.render.look import Look
from aiperf_core.render.summary import changes, chosen, course, headline, render_summary
from aiperf_core.results import example
from aiperf_core.results.models import SkippedTarget, Verdict

PLAIN = Look(plain=True)
SPEEDUPS = {Verdict.FASTER: 2.0, Verdict.SAME: 1.0, Verdict.INCONCLUSIVE: 0.99, Verdict.SLOWER: 0.9}
SKIPPED = SkippedTarget("ch10.warp_specialized_gemm", Verdict.SKIPPED, "needs sm_90a (this machine has no CUDA GPU)")


def printed(results, width=80):
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(render_summary(results, PLAIN, width))
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def only(*verdicts):
    rows = [
        attrs.evolve(
            example.rows()[1],
            name=verdict.lower(),
            verdict=verdict,
            speedup=example.estimate(SPEEDUPS.get(verdict, 99.0)),
        )
        for verdict in verdicts
    ]
    return attrs.evolve(example.result(), rows=[example.rows()[0], *rows])


def test_a_line_a_target():
    assert printed([example.result(), SKIPPED]) == (
        "target                      variant  speedup  95 % interval  verdict\n"
        "--------------------------------------------------------------------\n"
        "ch07.memory_access          wide       8.67x  [8.64, 8.70]   FASTER\n"
        "ch10.warp_specialized_gemm                                   SKIPPED\n"
        "\n"
        "ch10.warp_specialized_gemm: needs sm_90a (this machine has no CUDA GPU)\n"
        "2 FASTER, 1 INCONCLUSIVE, 1 INVALID, 1 FAILED, 2 SKIPPED\n"
    )


def test_nothing_at_all():
    assert printed([]).endswith("nothing was measured\n")


@pytest.mark.parametrize(
    ("verdicts", "name"),
    [
        ([Verdict.SAME, Verdict.FASTER, Verdict.INVALID], "FASTER"),
        ([Verdict.INVALID, Verdict.SLOWER, Verdict.SAME], "SAME"),
        ([Verdict.SLOWER, Verdict.INCONCLUSIVE], "INCONCLUSIVE"),
        ([Verdict.SKIPPED, Verdict.INVALID], "INVALID"),
    ],
)
def test_which_variant_stands_for_a_target(verdicts, name):
    assert chosen(only(*verdicts)).name == name.lower()


def test_a_target_without_variants():
    assert chosen(only()) is None
    assert headline(only(), PLAIN).plain == "ch07.memory_access  no variant ran"
    assert "none" in printed([only()])


def test_headlines():
    assert headline(example.result(), PLAIN).plain == "ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED"
    assert headline(SKIPPED, PLAIN).plain == "ch10.warp_specialized_gemm  SKIPPED"


def test_what_changed_between_two_results():
    before, rows = example.result(), example.rows()
    rows[1] = attrs.evolve(rows[1], verdict=Verdict.INVALID, reason="wrong")
    rows[2] = attrs.evolve(rows[2], speedup=example.estimate(9.5))
    rows[3] = attrs.evolve(rows[3], speedup=example.estimate(1.0, 0.03))
    after = attrs.evolve(before, rows=rows)
    assert changes(before, after, PLAIN).plain == "coalesced 7.99x FASTER -> INVALID, wide 8.67x FASTER -> 9.50x FASTER"
    assert changes(before, after, Look(plain=False)).plain.count("→") == 2
    assert changes(before, before, PLAIN).plain == ""


def test_an_implementation_from_result_to_result():
    first, rows = example.result(), example.rows()
    name = rows[1].name
    invalid = attrs.evolve(first, rows=[rows[0], attrs.evolve(rows[1], verdict=Verdict.INVALID)])
    failed = SkippedTarget(first.target, Verdict.FAILED, "it does not compile")
    slower = attrs.evolve(rows[1], speedup=example.estimate(0.5), verdict=Verdict.SLOWER)
    last = attrs.evolve(first, rows=[rows[0], slower])
    results = [first, invalid, failed, attrs.evolve(first, rows=[rows[0]]), last]
    assert course(results, name, PLAIN).plain == f"{name} 7.99x -> INVALID -> FAILED -> 0.5000x SLOWER"
    assert course(results[:2], name, PLAIN).plain == f"{name} 7.99x -> INVALID"
    baseline = course([first, failed, first], rows[0].name, PLAIN).plain
    assert re.fullmatch(rf"{rows[0].name} ([\d.]+ \w+) -> FAILED -> \1", baseline)


def test_a_target_for_memory_is_headed_by_its_memory():
    rows = example.rows()
    for index, (said, gain) in enumerate([(Verdict.SMALLER, 4.0), (Verdict.SMALLER, 4.5), (Verdict.LARGER, 0.5)], 1):
        rows[index] = attrs.evolve(rows[index], verdict=said, memory_gain=gain)
    result = attrs.evolve(example.result(), goal="memory", rows=rows[:4])
    assert headline(result, PLAIN).plain == "ch07.memory_access  wide 4.50x less SMALLER, 8.7x faster"
    line = printed([result]).splitlines()[2]
    assert line.split() == ["ch07.memory_access", "wide", "4.50x", "less", "memory", "SMALLER,", "8.7x", "faster"]
    worse = attrs.evolve(result, rows=[rows[0], rows[3]])
    assert headline(worse, PLAIN).plain == "ch07.memory_access  prefetched 2.00x more LARGER, time undecided"


@pytest.mark.parametrize("width", [80, 100])
def test_extremes_are_complete_and_fit(width):
    row = attrs.evolve(
        example.rows()[1], name="v" * 40, speedup=Estimate(99999.9, 99990.0, 100010.0), verdict=Verdict.INCONCLUSIVE
    )
    result = attrs.evolve(example.result(), target="chapter." + "t" * 40, rows=[row])
    text = printed([result] * 3, width)
    assert max(map(len, text.splitlines())) <= width
    assert re.sub(r"[^v]", "", text).count("v") >= 120
    assert re.sub(r"[^t]", "", text).count("t") >= 120
    assert text.count("INCONCLUSIVE") == 4
    assert text.count("[99,990, 100,010]") == 3
