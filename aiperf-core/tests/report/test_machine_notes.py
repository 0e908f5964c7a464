import attrs

from aiperf_core.render.notes import notes
from aiperf_core.report.machine_notes import machine_notes
from aiperf_core.results import example
from aiperf_core.results.models import Finding, Verdict

KVM = "environment.virtualization_overhead: this machine runs under a hypervisor (KVM)"


def load(busy=None, steal=None):
    evidence = {"background_median": busy, "steal_median": steal}
    return Finding("environment.background_load", "warning", "words of the row", evidence)


def with_findings(*findings, **changes):
    """Two believed rows; the first list of findings is the first row's."""
    rows = [attrs.evolve(row, findings=list(found)) for row, found in zip(example.rows(), findings, strict=False)]
    return attrs.evolve(example.result(), rows=rows, **changes)


def other(result):
    return attrs.evolve(result, target="ch07.other")


def test_the_hypervisor_is_told_once_for_all_targets():
    results = [example.result(), other(example.result())]
    assert list(machine_notes(results)) == [("warning", KVM)]
    assert not any("hypervisor" in note for result in results for _, note in notes(result))


def test_load_is_summed_up_over_rows_and_targets():
    first = with_findings([load(0.5)], [load(0.58, 0.015)])
    second = other(with_findings([], [load(None, 0.023)]))
    ((label, note),) = machine_notes([first, second])
    assert label == "warning"
    assert note == (
        "environment.background_load (ch07.memory_access:strided, ch07.memory_access:coalesced, ch07.other:coalesced): "
        "other processes kept up to 58 % of the processors busy; the hypervisor took up to 2.3 % of the processors' time "
        "for its other guests"
    )


def test_many_rows_are_counted():
    loaded = with_findings(*[[load(0.5)]] * 4)
    quiet = attrs.evolve(example.result(), rows=[attrs.evolve(example.rows()[0], findings=[])])
    ((_, note),) = machine_notes([loaded, other(loaded), quiet])
    assert note.startswith("environment.background_load (in 8 of 9 implementations): other processes kept up to 50 %")


def test_load_without_figures_keeps_its_words():
    ((_, note),) = machine_notes([with_findings([Finding("environment.background_load", "warning", "busy")], [])])
    assert note == "environment.background_load (strided): busy"


def test_rows_that_are_not_believed_do_not_speak_for_the_machine():
    row = attrs.evolve(example.rows()[1], verdict=Verdict.INVALID, reason="wrong")
    assert list(machine_notes([attrs.evolve(example.result(), rows=[row])])) == []


def test_what_cupti_lacks_is_told_once_and_what_it_saw_of_a_row_stays_with_the_row():
    missing = [
        [Finding("timing.not_audited", "warning", f"{name} could not be audited: no CUPTI", {})]
        for name in ("strided", "coalesced")
    ]
    result = with_findings(*missing)
    assert list(machine_notes([result])) == [("warning", "timing.not_audited: could not be audited: no CUPTI")]
    slowed = with_findings([], [Finding("timing.not_audited", "warning", "CUPTI slows these calls", {"slowed": 2.0})])
    assert list(machine_notes([slowed])) == []
    assert ("warning", "timing.not_audited (coalesced): CUPTI slows these calls") in list(notes(slowed))


def test_energy_that_cannot_be_measured_is_told_once():
    result = with_findings([], [])
    result = attrs.evolve(result, rows=[attrs.evolve(row, no_energy="NVML counts none") for row in result.rows])
    assert list(machine_notes([result, other(result)])) == [("energy", "not measurable: NVML counts none")]
    assert not any(label == "energy" for label, _ in notes(result))


def test_what_every_run_of_a_machine_has_is_told_on_demand():
    lasting = Finding("environment.memory_overcommit", "warning", "memory is overcommitted")
    busy = Finding("environment.background_load", "warning", "busy", {"background_median": 0.74})
    found = [with_findings([lasting, busy], [lasting])]
    assert [label for label, _ in machine_notes(found)] == ["warning", "warning"]
    noisy = "noisy machine: other processes kept up to 74 % of the processors busy"
    assert list(machine_notes(found, lasting=False)) == [("warning", noisy)]
