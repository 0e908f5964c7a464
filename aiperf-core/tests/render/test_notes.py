import attrs
import pytest
from rich.console import Console

from aiperf_core.measurements import Energy, Estimate
from aiperf_core.render import notes as noted
from aiperf_core.render.look import Look
from aiperf_core.render.notes import grid_of, reasons_of, what_would_decide, where_of
from aiperf_core.results import example
from aiperf_core.results.models import Finding, Judgement, Overhead, Quality

PLAIN = Look(plain=True)
TOO_NOISY = "Too noisy to say how many samples a verdict needs: use a quiet machine, or --until-decided."


def lines(renderable, width=200):
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(renderable)
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def with_rows(*rows):
    return attrs.evolve(example.result(), rows=list(rows))


def notes(*rows, **changes):
    return lines(grid_of(noted.notes(attrs.evolve(with_rows(*rows), **changes)), PLAIN))


GAIN = Estimate(1.25, 1.22, 1.28)
STRIDED, COALESCED, WIDE, PREFETCHED, REMEMBERED, *_, MEMCPY = example.rows()


def test_why_is_told_of_a_proven_gain_only():
    assert lines(reasons_of(with_rows(STRIDED, COALESCED), PLAIN)) == [f"why coalesced: {COALESCED.why}"]
    assert lines(reasons_of(with_rows(STRIDED, PREFETCHED), PLAIN)) == []


def test_rows_with_the_same_reason_share_it():
    lost = [attrs.evolve(PREFETCHED, name=name, reason="the machine is busy", log=[]) for name in ("a", "b")]
    assert lines(reasons_of(with_rows(*lost), PLAIN)) == ["INCONCLUSIVE a, b: the machine is busy"]
    wrong = [attrs.evolve(REMEMBERED, name=name, reason="wrong") for name in ("a", "b")]
    told = lines(reasons_of(with_rows(*wrong), PLAIN))
    assert [line for line in told if line.startswith("INVALID")] == ["INVALID a: wrong", "INVALID b: wrong"]


def test_a_reason_is_not_told_twice():
    row = attrs.evolve(REMEMBERED, reason="the output is that of sample 16", log=[])
    assert lines(reasons_of(with_rows(row), PLAIN)) == [
        "INVALID remembered: the output is that of sample 16",
        "output.stale_cache",
    ]


def test_only_the_end_of_a_log_is_shown():
    row = attrs.evolve(REMEMBERED, findings=[], log=[f"line {index}" for index in range(9)])
    assert lines(reasons_of(with_rows(row), PLAIN))[1:] == [f"| line {index}" for index in range(4, 9)]


def test_a_row_whose_interval_is_clear_needs_no_more_samples_but_what_its_reason_says():
    clear = attrs.evolve(PREFETCHED, speedup=Estimate(20.0, 14.2, 34.7), reason="other work took the processors")
    assert not any("cannot yet tell" in line for line in notes(STRIDED, clear))
    assert any("cannot yet tell" in line for line in notes(STRIDED, PREFETCHED))


def test_a_lost_step_tells_what_it_teaches():
    lost = attrs.evolve(WIDE, teaches="warps hide it already", step_speedup=Estimate(0.9, 0.89, 0.91))
    assert "teaches wide: warps hide it already" in notes(STRIDED, COALESCED, lost)
    assert not any("teaches" in line for line in notes(STRIDED, COALESCED, attrs.evolve(lost, step_speedup=GAIN)))
    on_baseline = attrs.evolve(lost, builds_on=None, step_speedup=None, speedup=Estimate(0.9, 0.89, 0.91))
    assert "teaches wide: warps hide it already" in notes(STRIDED, on_baseline)
    assert not any("teaches" in line for line in notes(STRIDED, attrs.evolve(on_baseline, speedup=GAIN)))


@pytest.mark.parametrize(
    ("predict", "label", "outcome"),
    [
        ("1.2 to 1.3x: twice the bytes in flight", "prediction", "borne out"),
        ("at least 1.25x: twice the bytes in flight", "prediction", "undecided"),
        ("at least 2x: twice the bytes in flight", "warning", "refuted"),
    ],
)
def test_a_prediction_stands_beside_what_was_measured(predict, label, outcome):
    row = attrs.evolve(WIDE, predict=predict, step_speedup=GAIN)
    result = with_rows(STRIDED, COALESCED, row)
    expected, why = predict.split(": ")
    at_default = attrs.evolve(result, problem=attrs.evolve(result.problem, size=result.device))
    found = lines(grid_of(noted.notes(at_default), PLAIN))
    assert f"{label} wide: predicted {expected} ({why}), measured 1.25x [1.22, 1.28]: {outcome}" in found


def test_a_row_that_was_not_compared_says_why():
    row = attrs.evolve(PREFETCHED, speedup=None, reason="there is no trusted baseline to compare with")
    assert lines(reasons_of(with_rows(row), PLAIN)) == [
        "INCONCLUSIVE prefetched: there is no trusted baseline to compare with"
    ]


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (1.0, "1.00 J of it above idle"),
        (0.04, "at most 90.0 mJ of it above idle"),
        (-0.01, "at most 40.0 mJ of it above idle"),
        (-0.5, "less than the idle device used in the same time before: other work was using the device then"),
    ],
)
def test_energy_above_idle_is_told_as_far_as_the_counter_can_tell(net, said):
    energy = Energy(1.25, net, 80.0, 0.01, 0.05, 100, 1.0, 20, 0.05, "energy counter")
    assert f"energy wide 1.25 J a call, {said}" in notes(STRIDED, attrs.evolve(WIDE, energy=energy))


def test_what_a_lossy_variant_gives_up():
    row = attrs.evolve(COALESCED, quality=Quality("rel_l2", 0.0123456, 0.05))
    assert "quality coalesced: rel_l2 0.0123, at most 0.05" in notes(row)
    row = attrs.evolve(COALESCED, quality=Quality("rel_l2", None, 0.05))
    assert "quality coalesced: rel_l2 not a number, at most 0.05" in notes(row)


def test_preparing_is_told_where_it_took_time():
    two = notes(WIDE, attrs.evolve(COALESCED, prepare_s=1.5))
    assert "setup wide 23.0 ms, coalesced 1.50 s; excluded from all timings" in two
    assert not any(line.startswith("setup") for line in notes(attrs.evolve(WIDE, prepare_s=1e-5)))


def test_what_goes_on_after_a_call_and_pages_are_told_where_they_matter():
    late = attrs.evolve(COALESCED, beside={"minor_faults": 12.0, "until_done_s": 1.5})
    (told,) = [line for line in notes(WIDE, late) if line.startswith("until done")]
    assert told == (
        "until done coalesced 1.50 s from the start of the call; timed is only how long the call blocks its caller"
    )
    assert not any("page faults" in line for line in notes(WIDE, late))
    touching = attrs.evolve(WIDE, beside={"minor_faults": 65_536.0})
    assert "page faults wide 65,536, coalesced 12 a call, without reading from disk" in notes(touching, late)


def test_a_warning_about_all_rows_names_none():
    late = Finding("timing.interference", "warning", "taking turns counts")
    rows = [attrs.evolve(row, findings=[late]) for row in (STRIDED, COALESCED, WIDE)]
    assert "warning timing.interference: taking turns counts" in notes(*rows)
    some = notes(rows[0], attrs.evolve(COALESCED, findings=[]), rows[2])
    assert "warning timing.interference (strided, wide): taking turns counts" in some


def test_warnings_of_disturbed_samples_are_one_with_the_largest_share():
    shares = ((STRIDED, 0.8), (COALESCED, 1.0), (WIDE, 0.6))
    rows = [
        attrs.evolve(
            row,
            findings=[
                Finding("environment.background_load", "warning", f"{100 * share:.0f} % of the samples",
                        {"witness": 1.5, "share": share}),
            ],
        )
        for row, share in shares
    ]  # fmt: skip
    warnings = [line for line in notes(*rows) if line.startswith("warning")]
    assert warnings == ["warning environment.background_load: at worst 100 % of the samples"]
    assert [line for line in notes(attrs.evolve(STRIDED, findings=[]), *rows[1:]) if line.startswith("warning")] == [
        "warning environment.background_load (coalesced, wide): at worst 100 % of the samples"
    ]
    odd = attrs.evolve(rows[0], findings=[attrs.evolve(rows[0].findings[0], evidence={"witness": 1, "share": "?"})])
    assert "warning environment.background_load (strided): 80 % of the samples" in notes(odd, COALESCED)


def test_findings_of_a_row_that_is_not_believed_are_no_warnings():
    row = attrs.evolve(REMEMBERED, findings=[Finding("output.stale_cache", "invalid", "x")])
    assert not any("warning" in line for line in notes(row))


def test_where_no_gain_is_expected_the_reason_is_told():
    assert not any(line.startswith("no gain") for line in notes(STRIDED))
    told = "no gain expected on cpu, where the run only checks the results: one bus for all"
    assert told in notes(STRIDED, device="cpu", no_gain="one bus for all")


def test_how_sampling_ended():
    assert "stopped sampling budget used up" in notes(STRIDED)
    assert "stopped interrupted; the run was interrupted, figures are partial" in notes(
        STRIDED, complete=False, stopped="interrupted"
    )


@pytest.mark.parametrize(
    ("speedup", "says"),
    [
        (
            Estimate(1.0023, 0.972, 1.032),
            "A verdict needs about 15 times the samples: --budget 46, or --until-decided.",
        ),
        (Estimate(1.05, 1.005, 1.095), "A verdict needs about 1.5 times the samples: --budget 5, or --until-decided."),
        (Estimate(1.01, 0.99, 1.03), "The value is at the floor itself: more samples will hardly decide."),
        (Estimate(0.97, 0.93, 1.01), "A verdict needs about 4.0 times the samples: --budget 13, or --until-decided."),
        (Estimate(1.06, 0.75, 2.18), "A verdict needs about 122 times the samples: --budget 366, or --until-decided."),
        (Estimate(1.0, 0.0, 2.0), TOO_NOISY),
        (Estimate(1.0, -0.5, 2.0), TOO_NOISY),
        (Estimate(2.24, 0.11, 1054.0), TOO_NOISY),
        (Estimate(3.0, 0.99, 9.8), "A verdict needs about 1.5 times the samples: --budget 5, or --until-decided."),
    ],
)
def test_what_would_decide(speedup, says):
    assert what_would_decide(speedup, 0.01, 3.0, 10) == says
    assert what_would_decide(speedup, 0.01, 3.0, 9) == TOO_NOISY


def test_variants_that_need_the_same_are_one_note():
    wild = [attrs.evolve(PREFETCHED, name=name, speedup=Estimate(1.0, 0.1, 9.0)) for name in ("a", "b")]
    (note,) = (note for label, note in noted.undecided(with_rows(STRIDED, *wild)))
    assert note == f'a [0.10, 9.00], b [0.10, 9.00]: cannot yet tell from "no change" (within 1 %). {TOO_NOISY}'


def test_a_run_ends_with_a_line_and_asks_for_what_it_needs():
    found = list(noted.brief_notes(with_rows(STRIDED, WIDE)))
    assert found == [
        (
            "run",
            "24 timed samples match the reference, bit-exact; sampling budget used up; 12 s",
        )
    ]
    warned = attrs.evolve(WIDE, findings=[Finding("timing.interference", "warning", "taking turns counts")])
    labels = [label for label, _ in noted.brief_notes(with_rows(STRIDED, warned, PREFETCHED))]
    assert labels == ["warning", "undecided", "run"]


def test_a_time_of_sampling_that_no_run_has():
    assert "--budget 1000000000," in what_would_decide(Estimate(1.0023, 0.972, 1.032), 0.01, 1e308, 99)


def test_the_floor_is_the_one_of_the_run():
    assert "(within 2.5 %)" in " ".join(notes(PREFETCHED, floor=0.025))


def test_how_much_was_judged():
    wrong = attrs.evolve(COALESCED, judgement=Judgement(7, "fp32", 0.43))
    assert "verified 19 timed samples match the reference, max error 43 % of tolerance" in notes(STRIDED, wrong)
    unknown = attrs.evolve(COALESCED, judgement=Judgement(7, "fp32", None))
    assert "verified 7 timed samples match the reference" in notes(unknown)
    assert not any("verified" in line for line in notes(attrs.evolve(COALESCED, judgement=None)))


def test_what_the_harness_took():
    assert " ".join(notes(STRIDED)[-2:]) == (
        "overhead 4.08 ms a sample (input refresh 1.08 ms, cache flush 667 us, verification 1.00 ms, messages 750 us, "
        "other 583 us), excluded from all timings: 60 % of 8 s of sampling; setup 2.30 s, warm-up 400 ms, "
        "final checks 1.50 s"
    )
    assert notes(STRIDED, overhead=Overhead(0, 2.3, *[0.0] * 10))[-1] == "overhead setup 2.30 s; no samples were taken"


def test_a_path_stays_on_one_line_as_long_as_that_fits():
    assert where_of("a/b", PLAIN, 80).plain == "results       a/b"
    assert where_of("x" * 66, PLAIN, 80).plain == "results       " + "x" * 66
    assert where_of("x" * 67, PLAIN, 80).plain == "x" * 67


@pytest.mark.parametrize(("samples", "told"), [(9, True), (10, False)])
def test_few_samples_are_told(samples, told):
    result = example.result()
    count = sum(row.time_s is not None for row in result.rows)
    few = attrs.evolve(result, overhead=attrs.evolve(result.overhead, samples=samples * count))
    note = ("samples", "9 of each implementation: chance moves figures of so few. More: --budget SECONDS")
    assert (note in list(noted.notes(few))) == (note in list(noted.brief_notes(few))) == told
