import io
import re

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from aiperf_core.measurements import Audit, Estimate, Memory
from aiperf_core.render.look import Look
from aiperf_core.render.row_columns import COLUMNS, DEFAULT, View, rate_of
from aiperf_core.render.table import render, render_skipped
from aiperf_core.results import example, models
from aiperf_core.results.models import Row, SkippedTarget, SpeedOfLight, Verdict

PLAIN = Look(plain=True)
EVERYTHING = View(columns=tuple(COLUMNS), filled=True)
WHERE = "artifacts/runs/20261121-142530-ch07.memory_access"
AT_80 = """\
ch07.memory_access - cuda - n=268,435,456 (1 GiB in, 1 GiB out)
Neighbours in a warp should touch neighbours in memory

implementation      median     95 % interval  speedup  verdict           of peak
--------------------------------------------------------------------------------
strided           5.213 ms    [5.198, 5.229]       1x  baseline (naive)    9.5 %
coalesced         652.3 us    [650.3, 654.3]    7.99x  FASTER               76 %
wide              601.3 us    [599.5, 603.1]    8.67x  FASTER               82 %
prefetched         5.20 ms      [5.04, 5.36]    1.00x  INCONCLUSIVE        9.5 %
remembered                                             INVALID
swizzled                                               FAILED
tensor_memory                                          SKIPPED
memcpy            552.3 us    [550.6, 554.0]    9.44x  yardstick            90 %

why           wide: four times the bytes in flight per thread, so that fewer
              warps fill the memory pipeline

INVALID       remembered: sample 17 does not match the reference of its own seed
                output.stale_cache: the output is that of sample 16
                | using the cache
                | cache hit

FAILED        swizzled: its process was killed by signal 11

SKIPPED       tensor_memory: needs sm_100 (this GPU is sm_90)

undecided     prefetched [0.97, 1.03]: cannot yet tell from "no change" (within
              1 %). A verdict needs about 15 times the samples: --budget 125, or
              --until-decided.
run           60 timed samples match the reference, bit-exact; sampling budget
              used up; 12 s
results       artifacts/runs/20261121-142530-ch07.memory_access
"""


def printed(renderable, width, look=PLAIN):
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    console.print(renderable)
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


def shown(result, width=80, look=PLAIN, where=None, view=DEFAULT):
    return printed(render(result, look, width, where, view), width)


def with_rows(*rows):
    return attrs.evolve(example.result(), rows=list(rows))


def test_the_whole_at_80_columns():
    assert shown(example.result(), where=WHERE) == AT_80


@pytest.mark.parametrize("width", [76, 80, 100, 120])
def test_all_targets_of_a_run_are_laid_out_alike(width):
    """The heads of a wide and of a narrow target stand at the same places, so that a run reads as one table."""
    narrow = attrs.evolve(example.result(), rows=[example.row("a", "baseline", Verdict.MEASURED, 1.0)])
    slow = example.row("b" * 30, "variant", Verdict.INCONCLUSIVE, 1.1458, 129.0123, spread=0.3)
    wide = attrs.evolve(example.result(), rows=[narrow.rows[0], slow])
    heads = [next(line for line in shown(one, width).splitlines() if "median" in line) for one in (narrow, wide)]
    assert heads[0] == heads[1]


STEP_OF_WIDE = example.rows()[2]


def test_at_120_columns_a_row_has_the_intervals_of_time_and_speedup_and_its_bound():
    lines = shown(example.result(), 120).splitlines()
    row = next(line for line in lines if line.startswith("coalesced"))
    figures = "652.3 us  [650.3, 654.3]  7.99x  [7.97, 8.02]  FASTER  76 % memory  1 GiB"
    assert re.sub(" {2,}", "  ", row) == f"coalesced  {figures}"


@pytest.mark.parametrize("width", [80, 120])
def test_a_lost_step_stands_below_the_table_at_every_width(width):
    lost = attrs.evolve(STEP_OF_WIDE, teaches="warps hide it already", step_speedup=Estimate(0.9, 0.89, 0.91))
    text = " ".join(shown(with_rows(*example.rows()[:2], lost), width).split())
    assert "lost step wide over coalesced 0.900x [0.890, 0.910]: warps hide it already" in text
    assert "lost step" not in shown(example.result(), width)


def test_the_library_and_the_baseline_have_ratios():
    lines = shown(example.result()).splitlines()
    assert next(line for line in lines if line.startswith("strided")).split()[5:] == [
        "1x",
        "baseline",
        "(naive)",
        "9.5",
        "%",
    ]
    assert next(line for line in lines if line.startswith("memcpy")).split()[5:] == ["9.44x", "yardstick", "90", "%"]
    untrusted = attrs.evolve(example.rows()[0], verdict=Verdict.UNTRUSTED, reason="clocks")
    assert "9.44x" not in shown(with_rows(untrusted, example.rows()[-1]))


@pytest.mark.parametrize(
    ("speedup", "said"),
    [
        (Estimate(0.2, 0.19, 0.21), "SMALLER, 5.0x slower"),
        (Estimate(1.3, 1.2, 1.4), "SMALLER, 1.3x faster"),
        (Estimate(1.0, 0.995, 1.005), "SMALLER, same time"),
        (Estimate(0.7, 0.4, 5.0), "SMALLER, time undecided"),
        (None, "SMALLER"),
    ],
)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_goal_in_memory_shows_the_memory_and_its_price_in_time(width, speedup, said):
    row = attrs.evolve(example.rows()[1], verdict=Verdict.SMALLER, speedup=speedup, memory_gain=4.86)
    text = shown(attrs.evolve(with_rows(example.rows()[0], row), goal="memory"), width)
    line = next(line for line in text.splitlines() if line.startswith("coalesced"))
    assert re.split(" {2,}", line)[1:4] == ["1 GiB", "4.86x less", "652.3 us"]
    assert line.endswith(said)


def test_all_notes_come_with_all_columns():
    text = shown(example.result(), view=EVERYTHING)
    assert "device clock, cold cache, bit-exact" in text
    for label in ("steps ", "setup ", "stopped ", "verified ", "overhead "):
        assert f"\n{label}" in text
        assert f"\n{label}" not in shown(example.result())


@pytest.mark.parametrize(
    ("step", "goal", "style"),
    [
        (Estimate(1.3, 1.1, 1.5), "speed", "not dim green"),
        (Estimate(0.8, 0.7, 0.9), "speed", "not dim red"),
        (Estimate(0.97, 0.73, 1.78), "speed", ""),
        (Estimate(0.8, 0.7, 0.9), "memory", ""),
    ],
)
def test_a_lost_step_is_red_and_one_without_a_clear_gain_is_plain(step, goal, style):
    row = attrs.evolve(STEP_OF_WIDE, step_speedup=step)
    result = attrs.evolve(with_rows(example.rows()[1], row), goal=goal)
    assert str(COLUMNS["step_speedup"].show(result, row, PLAIN).style) == style


def test_the_step_of_a_variant_that_builds_on_the_baseline_is_its_speedup():
    row = attrs.evolve(STEP_OF_WIDE, builds_on="strided")
    text = shown(with_rows(example.rows()[0], row), view=EVERYTHING)
    assert "  step" not in text.partition("why  ")[0]


def test_a_row_that_is_not_believed_has_no_step():
    row = attrs.evolve(STEP_OF_WIDE, verdict=Verdict.INVALID, reason="wrong")
    table = shown(with_rows(*example.rows()[:2], row)).partition("INVALID  ")[0]
    assert "1.084" not in table


def test_at_40_columns_a_row_is_a_list():
    assert """
wide  FASTER
  median       601.3 us  [599.5, 603.1]
  speedup      8.67x  [8.64, 8.70]
  step         1.084x  [1.081, 1.087]
  peak memory  1 GiB
  rate         3.57 TB/s
  SOL          82 % memory
""" in shown(example.result(), 40)


def test_chosen_columns():
    text = shown(example.result(), 80, view=View(columns=("speedup", "min", "p95", "stddev", "samples")))
    head = next(line for line in text.splitlines() if line.startswith("implementation"))
    assert head.split() == ["implementation", "speedup", "min", "p95", "std", "dev", "samples"]
    row = next(line for line in text.splitlines() if line.startswith("wide"))
    assert row.split() == ["wide", "8.67x", "601", "us", "607", "us", "4.25", "us", "2"]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (
            "declared",
            ["strided", "coalesced", "wide", "prefetched", "remembered", "swizzled", "tensor_memory", "memcpy"],
        ),
        (
            "speedup",
            ["wide", "coalesced", "prefetched", "strided", "remembered", "swizzled", "tensor_memory", "memcpy"],
        ),
        ("time", ["wide", "coalesced", "prefetched", "strided", "remembered", "swizzled", "tensor_memory", "memcpy"]),
        ("name", ["coalesced", "prefetched", "remembered", "strided", "swizzled", "tensor_memory", "wide", "memcpy"]),
    ],
)
def test_the_order_of_rows(sort, names):
    """Yardsticks stay at the end."""
    table = shown(example.result(), view=View(sort=sort)).partition("why  ")[0].splitlines()
    found = [line.split()[0] for line in table if line.split() and line.split()[0] in {*names}]
    assert found == names


def test_sorting_by_time_has_a_row_without_a_time_last():
    rows = [attrs.evolve(example.rows()[1], time_s=None, name="none"), example.rows()[2]]
    table = shown(with_rows(*rows), view=View(sort="time"))
    assert table.index("wide") < table.index("none")


def test_in_a_terminal_only_the_characters_differ():
    fancy = shown(example.result(), look=Look(plain=False), where=WHERE)
    assert "─" * 80 in fancy
    assert fancy.replace("─", "-").replace("·", "-").replace("│", "|").replace("µ", "u") == AT_80


def test_a_row_that_is_not_believed_shows_nothing_derived_from_its_time():
    believed = example.rows()[1]
    row = attrs.evolve(believed, verdict=Verdict.INVALID, reason="wrong", speedup=Estimate(7.992, 7, 9))
    table = shown(with_rows(example.rows()[0], row)).partition("\nINVALID")[0]
    assert "652.3 us" in table
    assert not re.search(r"7\.99x|3\.29 TB/s|76 %", table)


NAME = "an_implementation_with_forty_letters_now"


def extreme_rows(count, time, speedup, verdict):
    return [
        Row(
            f"{NAME[: -len(str(index))]}{index}",
            "variant" if index else "baseline",
            "cuda",
            verdict,
            kind=None if index else "antipattern",
            reason="r" * 90,
            time_s=time,
            speedup=speedup,
            flop_per_s=9.87e14,
            memory=Memory(host_peak_bytes=1023 << 20),
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(
    "time", [None, Estimate(1e-9, 0.9e-9, 1.1e-9), Estimate(100.0, 99.99, 100.01), Estimate(9999.0, 1.0, 99999.0)]
)
@pytest.mark.parametrize("speedup", [Estimate(99999.9, 99990.0, 100010.0), Estimate(1.2e-4, 1.1999e-4, 1.2001e-4)])
def test_extremes_are_complete_and_fit(width, verdict, time, speedup):
    assert len(NAME) == 40
    rows = extreme_rows(12, time, speedup, verdict)
    text = shown(with_rows(*rows), width, where="/a/long/folder" * 12)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.isascii()
    joined = re.sub(r"\s+", "", text)
    for row in rows:
        assert row.name in joined
    assert joined.count(verdict.value) >= (0 if verdict is Verdict.MEASURED else 12)
    everything = shown(with_rows(*rows), width, view=EVERYTHING)
    assert max(map(len, everything.splitlines())) <= width
    rates = everything.count("987 TFLOP/s")
    assert rates == 0 if verdict in ("INVALID", "UNTRUSTED", "FAILED", "SKIPPED") else rates >= 12
    assert "/a/long/folder" * 12 in joined


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.text(alphabet="abc_", min_size=1, max_size=40), min_size=1, max_size=6, unique=True),
    st.floats(1e-9, 1e2),
    st.floats(1e-4, 1e5),
    st.sampled_from([40, 80, 100, 120]),
)
def test_any_row_fits_and_keeps_its_figures(names, time, speedup, width):
    rows = [example.row(name, "variant", Verdict.SAME, time, speedup, spread=0.0123) for name in names]
    text = shown(with_rows(*rows), width)
    table = text.partition("\nwarning")[0]
    assert max(map(len, text.splitlines())) <= width
    assert table.count("[") == (1 if width == 80 else 2) * len(names)
    assert table.count("SAME") == len(names)
    assert table.count("1 GiB") == (2 if width in (80, 100) else 2 + len(names))


BOUNDS = [
    ("pcie", 0.91, {}, "91 % PCIe"),
    ("launches", 0.994, {"launches": 1201.0}, "99 % 1,201 nodes"),
    ("launches", 0.994, {"launches": 1.0}, "99 % 1 node"),
    ("launches", 0.994, {}, "99 %"),
    ("steps", 0.5, {"serial_steps": 2048.0}, "50 % 2,048 steps"),
    ("wire", 0.62, {}, "62 % wire"),
    ("disk", 0.62, {}, "62 % disk"),
    ("shared", 0.92, {}, "92 % shared memory"),
    ("sectors", 0.92, {}, "92 % sectors"),
    ("special", 0.92, {}, "92 % MUFU"),
    ("memory", 0.71, {}, "71 % memory"),
    ("compute", 0.95, {}, "95 % compute"),
    ("optimum", 0.89, {}, "89 % optimum"),
    ("memory", 1.01e-4, {}, "0.010 % memory"),
    ("memory", 0.9e-4, {}, "-"),
]


def test_every_bound_has_a_name():
    assert {bound for bound, *_ in BOUNDS} == {*models.BOUNDS}


@pytest.mark.parametrize(("bound", "fraction", "work", "cell"), BOUNDS)
def test_sol_names_its_bound(bound, fraction, work, cell):
    row = attrs.evolve(example.rows()[1], speed_of_light=SpeedOfLight(bound, 1e-3, fraction), least_work=work)
    assert COLUMNS["sol"].show(with_rows(row), row, PLAIN).plain == cell


def test_a_row_far_from_its_bound_has_a_dash_and_the_reason():
    row = attrs.evolve(example.rows()[1], speed_of_light=SpeedOfLight("memory", 1e-9, 0.9e-4))
    text = shown(with_rows(example.rows()[0], row), view=EVERYTHING)
    assert "SOL           coalesced: below 0.01 %: another resource than memory bounds it" in text
    assert "< 0.01 %" not in text


def test_a_row_by_the_caller_s_clock_has_its_host_share():
    row = example.rows()[0]
    rows = [attrs.evolve(row, clock="wall", device_s=example.estimate(1.2e-3)), example.rows()[1]]
    text = " ".join(shown(with_rows(*rows), view=EVERYTHING).split())
    assert "host share strided 77 % (device 1.20 ms) SOL strided: the host is the bound" in text


def test_an_audit_that_was_made_again_is_told():
    row = attrs.evolve(example.rows()[1], audit=Audit([1e-3], [1e-3], [], 0, retaken=1))
    text = " ".join(shown(with_rows(example.rows()[0], row), view=EVERYTHING).split())
    assert "audit coalesced: audited once more by CUPTI, since the clocks disagreed the first time" in text


def test_without_ceilings_there_is_no_sol():
    rows = [attrs.evolve(row, speed_of_light=None) for row in example.rows()]
    table = shown(with_rows(*rows), view=EVERYTHING).partition("why  ")[0]
    assert "SOL" not in table
    assert "of peak" not in table
    assert "3.29 TB/s" in table


def test_a_cpu_row_shows_the_peak_of_its_process():
    row = attrs.evolve(example.rows()[0], memory=Memory(host_peak_bytes=5 << 20))
    assert "5 MiB" in shown(with_rows(row), 120)
    assert "None" not in shown(with_rows(attrs.evolve(row, memory=Memory())), 120)


@pytest.mark.parametrize(
    ("bound", "rates", "text"),
    [
        ("memory", [1e12, 2e12, 3e9, 4e9], "1.00 TB/s"),
        ("compute", [1e12, 2e12, 3e9, 4e9], "2.00 TFLOP/s"),
        ("wire", [1e12, 2e12, 3e9, 4e9], "3.00 GB/s"),
        ("disk", [1e12, 2e12, 3e9, 4e9], "4.00 GB/s"),
        (None, [1e12, 2e12, 3e9, 4e9], "1.00 TB/s"),
        (None, [None, 2e12, 3e9, None], "2.00 TFLOP/s"),
        (None, [None, None, None, 4e9], "4.00 GB/s"),
        (None, [None] * 4, ""),
    ],
)
def test_the_rate_is_that_of_what_bounds(bound, rates, text):
    names = "bytes_per_s", "flop_per_s", "wire_bytes_per_s", "disk_bytes_per_s"
    light = SpeedOfLight(bound, 1e-3, 0.5) if bound else None
    row = attrs.evolve(example.rows()[0], speed_of_light=light, **dict(zip(names, rates, strict=True)))
    assert rate_of(row) == text


def test_yardsticks_stand_at_the_end_wherever_they_were_declared():
    rows = example.rows()
    lines = shown(with_rows(rows[-1], *rows[:-1])).splitlines()
    names = [line.split()[0] for line in lines if line.split()]
    assert names.index("remembered") < names.index("memcpy")


def test_no_rows_at_all():
    assert "implementation" in shown(with_rows())


def test_hostile_words_are_defused():
    hostile = "\x1b[2J[red]gone[/red]\r"
    row = attrs.evolve(example.rows()[4], name="x\x1b[1A", reason=hostile, log=[hostile])
    text = shown(attrs.evolve(with_rows(row), summary=hostile, stopped=hostile))
    assert "\x1b" not in text
    assert text.count("[red]gone[/red]") == 4


def test_a_target_that_could_not_start():
    skipped = SkippedTarget("ch10.gemm", Verdict.SKIPPED, "needs sm_90a")
    assert printed(render_skipped(skipped, PLAIN), 80) == "ch10.gemm  SKIPPED\nneeds sm_90a\n"
