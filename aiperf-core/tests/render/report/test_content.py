import attrs

from aiperf_core.render.report import content, html, markdown
from aiperf_core.render.report.content import Figure
from aiperf_core.results import example
from aiperf_core.results.models import BundleRef, Finding, RunRequest, Stretch, Verdict
from aiperf_core.validity.registry import issues

KNOWN = {one.id: one for one in issues()}


def report(*results, **keywords):
    return content.report("run", example.manifest(), results or [example.result()], KNOWN, **keywords)


def test_what_is_wrong_comes_with_what_it_means():
    found = report()
    assert [(one.target, one.row, one.verdict) for one in found.troubles] == [
        ("ch07.memory_access", "remembered", "INVALID"),
        ("ch07.memory_access", "swizzled", "FAILED"),
    ]
    invalid = found.troubles[0]
    assert invalid.reason == "sample 17 does not match the reference of its own seed"
    assert invalid.log == ["using the cache", "\x1b[31mcache hit\x1b[0m"]
    (seen,) = invalid.seen
    assert (seen.issue, seen.known) == ("output.stale_cache", KNOWN["output.stale_cache"])
    assert seen.messages == [("the output is that of sample 16", ["remembered"])]


def test_what_was_skipped_is_no_trouble():
    found = report(skipped=example.manifest().skipped)
    (section,) = found.sections
    assert [one.row for one in section.skipped] == ["tensor_memory"]
    assert "tensor_memory" not in [one.row for one in section.troubles]
    assert [(one.target, one.row) for one in found.skipped] == [
        ("ch07.memory_access", "tensor_memory"),
        ("ch10.warp_specialized_gemm", ""),
    ]


def test_an_issue_of_a_plugin_that_is_not_here():
    row = attrs.evolve(example.rows()[1], findings=[Finding("acme.moon", "warning", "full")])
    (section,) = report(attrs.evolve(example.result(), rows=[row])).sections
    (seen,) = section.warnings
    assert (seen.issue, seen.known) == ("acme.moon", None)


def test_a_warning_that_several_rows_have_is_told_once():
    late = Finding("timing.interference", "warning", "taking turns counts")
    result = example.result()
    result = attrs.evolve(result, rows=[attrs.evolve(row, findings=[*row.findings, late]) for row in result.rows[:3]])
    (seen,) = report(result).sections[0].warnings
    assert seen.messages == [("taking turns counts", ["strided", "coalesced", "wide"])]


def test_what_holds_for_the_machine_is_told_once_in_the_report():
    found = report(example.result(), attrs.evolve(example.result(), target="ch07.other"))
    message = "environment.virtualization_overhead: this machine runs under a hypervisor (KVM)"
    assert found.environment.count(("warning", message)) == 1
    assert [section.warnings for section in found.sections] == [[], []]


def test_counts_are_of_variants():
    assert report(skipped=example.manifest().skipped).counts == [
        ("FASTER", 2),
        ("INCONCLUSIVE", 1),
        ("INVALID", 1),
        ("FAILED", 1),
        ("SKIPPED", 2),
    ]


def test_yardsticks_stand_apart():
    (section,) = report().sections
    assert [line.name for line in section.apart] == ["memcpy"]
    assert "memcpy" not in [line.name for line in section.lines]
    (wide,) = (line for line in section.lines if line.best)
    assert (wide.name, wide.speedup) == ("wide", Figure("8.67x", "[8.64, 8.70]"))
    assert wide.speed_of_light == Figure("82 %", "memory")
    assert section.steps == [("wide", "coalesced", Figure("1.084x", "[1.081, 1.087]"))]


def test_the_outcome_in_a_sentence():
    (section,) = report().sections
    assert section.outcome == "strided takes 5.213 ms, wide 601.3 µs: 8.67x [8.64, 8.70]."
    rows = [row for row in example.rows() if row.verdict is not Verdict.FASTER]
    (section,) = report(attrs.evolve(example.result(), rows=rows)).sections
    assert section.outcome == "strided takes 5.213 ms; no significant speedup."
    (section,) = report(attrs.evolve(example.result(), rows=rows[1:])).sections
    assert section.outcome == "There is no baseline to compare with."


def test_the_headline_of_a_target():
    (section,) = report().sections
    assert section.headline
    assert (section.headline.name, section.headline.verdict) == ("wide", "FASTER")
    assert section.troubled == "1 INVALID, 1 FAILED"
    (section,) = report(attrs.evolve(example.result(), rows=example.rows()[:1])).sections
    assert (section.headline, section.troubled) == (None, "")


def test_notes_are_those_of_the_terminal_but_for_steps_and_warnings():
    labels = [label for label, _ in report().sections[0].notes]
    assert "overhead" in labels
    assert not {"steps", "warning"} & set(labels)


def test_the_environment():
    found = report()
    assert dict(found.environment)["GPU"] == "NVIDIA H200, 141 GiB, compute capability 9.0"
    assert dict(found.environment)["set aside"] == "aiperf-acme 0.3: unknown hook 'x'"
    assert found.ceilings[0] == (
        "NVIDIA H200, measured 2026-11-20 09:00 UTC",
        "copy 4.34 TB/s, read 4.50 TB/s, fp32 matmul 59.0 TFLOP/s",
    )
    assert found.seal is None
    assert not {"resumed", "repeats"} & set(dict(found.environment))


def test_a_run_that_was_resumed_to_repeat_another():
    stretches = [
        Stretch("2026-11-21T14:25:30+00:00", "2026-11-21T14:26:00+00:00", "cut off", [], {}),
        Stretch("2026-11-21T15:00:00+00:00", "2026-11-21T15:01:00+00:00", None, [], {}),
    ]
    manifest = attrs.evolve(
        example.manifest(),
        request=RunRequest([], "audit", "strict", 2.0, 600.0),
        stretches=stretches,
        reproduces=BundleRef("runs/before", "abc"),
        sources={"aiperf-core": "def"},
    )
    found = content.report("run", manifest, [], KNOWN)
    told = dict(found.environment)
    assert told["asked for"] == "tier audit, policy strict, budget 2 s a target"
    assert told["resumed"] == (
        "measured in 2 stretches, from 2026-11-21 14:25 UTC (cut off), 2026-11-21 15:00 UTC (going on)"
    )
    assert told["repeats"] == "runs/before, seal abc"
    assert ("aiperf-core", "def") in found.files


def test_a_report_of_one_target_has_the_hashes_of_its_files_and_counts_the_others():
    manifest = attrs.evolve(
        example.manifest(),
        files={"aiperf_ch07.memory_access": "a", "aiperf_ch07.scan": "b"},
        sources={"aiperf_core": "c", "aiperf_ch07/kernels/memory_access.cu": "d", "aiperf_ch07/kernels/scan.cu": "e"},
        hashes={"targets/ch07.memory_access.json": "f", "targets/ch07.memory.json": "g", "manifest.json": "h"},
    )
    other = attrs.evolve(example.result(), target="ch07.scan")
    alone, both = (content.report("run", manifest, results, {}) for results in ([example.result()], [other, other]))
    assert [name for name, _ in alone.files] == [
        "aiperf_ch07.memory_access",
        "aiperf_core",
        "aiperf_ch07/kernels/memory_access.cu",
        "targets/ch07.memory_access.json",
    ]
    assert (alone.other_files, alone.seal) == (3, "h")
    assert (len(both.files), both.other_files) == (7, 0)
    sentence = "3 more, of other targets, are in the manifest of the bundle, and the seal covers them."
    assert sentence in markdown.render(alone)
    assert sentence not in markdown.render(both)
    assert sentence in html.render(alone, [example.result()], manifest, 0)
