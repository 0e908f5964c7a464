"""What holds and what does not; what is run again. That it runs is shown with the command."""

import attrs
import measured
import pytest

from aiperf_core.errors import UsageError
from aiperf_core.harness.run.request import reproduction
from aiperf_core.measurements import Estimate
from aiperf_core.plugins import Plugins
from aiperf_core.results.address import Address
from aiperf_core.results.models import Finding, RequestedTarget, Row, RunRequest, SkippedTarget, Verdict
from aiperf_core.stats import reproduce
from aiperf_core.stats.reproduce import Outcome, judge, outcome
from aiperf_core.targets import InstalledTarget

TARGET = "ch07.memory_access"
REQUEST = RunRequest([RequestedTarget(TARGET, [], None, None, {})], "standard", "strict", 7.0, 11.0, min_samples=40)


@pytest.fixture
def then(tmp_path):
    return Address(measured.bundle(tmp_path / "then", request=REQUEST))


@pytest.fixture
def plugins():
    return Plugins(targets=(InstalledTarget(TARGET, "aiperf_ch07.memory_access"),))


def row(verdict, speedup=None):
    return Row("a", "variant", "cuda", Verdict(verdict), speedup=Estimate(*speedup) if speedup else None)


TWICE, THRICE, NEARLY = (2.0, 1.9, 2.1), (3.0, 2.9, 3.1), (2.15, 2.05, 2.2)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (row("FASTER", TWICE), row("FASTER", NEARLY), "holds"),
        (row("FASTER", TWICE), row("FASTER", THRICE), "speedup differs"),
        (row("FASTER", THRICE), row("FASTER", TWICE), "speedup differs"),
        (row("FASTER", TWICE), row("SAME", (1.0, 0.999, 1.001)), "does not hold"),
        (row("FASTER", TWICE), row("SLOWER", (0.5, 0.4, 0.6)), "does not hold"),
        (row("FASTER", TWICE), row("INCONCLUSIVE", TWICE), "open"),
        (row("FASTER", TWICE), row("INVALID"), "does not hold"),
        (row("FASTER", TWICE), row("UNTRUSTED"), "does not hold"),
        (row("FASTER", TWICE), row("FAILED"), "not run"),
        (row("FASTER", TWICE), row("SKIPPED"), "not run"),
        (row("FASTER", TWICE), None, "not run"),
        (row("SLOWER", (0.5, 0.4, 0.6)), row("SLOWER", (0.9, 0.8, 0.95)), "speedup differs"),
        (row("SAME", (1.0, 0.999, 1.0)), row("SAME", (1.002, 1.001, 1.003)), "holds"),
        (row("SAME", (1.0, 0.999, 1.0)), row("FASTER", TWICE), "does not hold"),
        (row("INCONCLUSIVE", TWICE), row("SLOWER", (0.5, 0.4, 0.6)), "nothing claimed"),
        (row("INCONCLUSIVE", TWICE), None, "nothing claimed"),
        (row("FAILED"), row("FASTER", TWICE), "nothing claimed"),
        (row("SKIPPED"), row("SKIPPED"), "nothing claimed"),
        (row("MEASURED"), row("MEASURED"), "holds"),
        (row("MEASURED"), row("INVALID"), "does not hold"),
        (row("INVALID"), row("INVALID"), "holds"),
        (row("INVALID"), row("UNTRUSTED"), "holds"),
        (row("INVALID"), row("FASTER", TWICE), "does not hold"),
        (row("INVALID"), row("INCONCLUSIVE", TWICE), "does not hold"),
    ],
)
def test_what_becomes_of_a_verdict(before, now, expected):
    assert outcome(before, now) == expected


@pytest.mark.parametrize(
    ("outcomes", "strict", "code"),
    [
        ([Outcome.HOLDS, Outcome.NOTHING], False, 0),
        ([Outcome.DIFFERS], False, 0),
        ([Outcome.DIFFERS], True, 4),
        ([Outcome.OPEN, Outcome.HOLDS], False, 5),
        ([Outcome.OPEN, Outcome.NOT_RUN], False, 1),
        ([Outcome.OPEN, Outcome.NOT_RUN, Outcome.BROKEN], False, 4),
        ([], False, 1),
    ],
)
def test_the_exit_code_is_that_of_the_gravest(outcomes, strict, code):
    rows = [reproduce.Reproduced(None, one) for one in outcomes]
    assert reproduce.Reproduction([], rows).exit_code(strict=strict) == code


# --- what is to be run


def test_it_runs_what_the_bundle_records(then, plugins):
    found = reproduction(plugins, then, None)
    (selection,) = found.resolved.selections
    result = then.bundle.outline(TARGET)
    assert selection.implementations == {one.name for one in result.rows}
    options = found.resolved.each[TARGET]
    assert (options.device, options.size, options.params) == ("cuda", "cuda", {"n": 1 << 28})
    assert (options.tier, options.policy, options.budget_s, options.timeout_s) == ("quick", "strict", 7.0, 11.0)
    assert options.min_samples == 40
    assert found.reproduces.path == str(then.bundle.path)
    assert found.reproduces.seal == then.bundle.manifest.hashes["manifest.json"]
    assert (found.missing, found.notes) == ({}, [])


def test_another_tier_has_its_own_budget(then, plugins):
    options = reproduction(plugins, then, "audit").resolved.each[TARGET]
    assert (options.tier, options.budget_s) == ("audit", None)


def test_a_bundle_that_says_little_is_run_with_defaults(tmp_path, plugins):
    found = reproduction(plugins, Address(measured.bundle(tmp_path / "old")), None)
    assert found.notes == ["the bundle does not record policy and budget; the defaults are taken"]
    assert found.resolved.each[TARGET].policy == "standard"


def test_a_package_that_is_missing_is_named(then):
    came = {"distribution": "aiperf-ch07", "version": "0.9", "entry_point": "ch07"}
    then.bundle.write_manifest(attrs.evolve(then.bundle.manifest, plugins=[came]))
    with pytest.raises(UsageError) as caught:
        reproduction(Plugins(), then, None)
    assert str(caught.value) == (
        "'ch07.memory_access' came with 'aiperf-ch07' 0.9, which is not installed here. Install it first."
    )


def test_single_implementations_are_not_reproduced(then, plugins):
    with pytest.raises(UsageError, match="a reproduction runs whole targets"):
        reproduction(plugins, Address(then.bundle, TARGET, "wide"), None)


# --- what came of it


def outcomes(found):
    return {one.compared.implementation: one.outcome.value for one in found.rows}


def test_the_same_again_holds(then, tmp_path):
    found = judge(then, measured.bundle(tmp_path / "now", seed=1), {})
    assert outcomes(found) == {
        "strided": "holds",
        "coalesced": "holds",
        "wide": "holds",
        "memcpy": "holds",
        "remembered": "holds",
    }
    assert found.differences == []
    assert found.exit_code(strict=False) == 0
    ratio = found.rows[1].compared.ratio
    assert ratio.low < 1 < ratio.high


def test_a_gain_that_is_gone_does_not_hold(then, tmp_path):
    now = measured.bundle(tmp_path / "now", factors={**measured.FACTORS, "coalesced": 1.0})
    found = judge(then, now, {})
    assert outcomes(found)["coalesced"] == "does not hold"
    assert found.exit_code(strict=False) == 4


def test_another_speedup_is_said(then, tmp_path):
    found = judge(then, measured.bundle(tmp_path / "now", factors={**measured.FACTORS, "coalesced": 0.4}), {})
    assert outcomes(found)["coalesced"] == "speedup differs"
    assert (found.exit_code(strict=False), found.exit_code(strict=True)) == (0, 4)


def test_what_was_found_out_meanwhile_is_said(then, tmp_path):
    now = measured.bundle(tmp_path / "now")
    result = now.target(TARGET)
    refused = attrs.evolve(
        result.rows[1],
        verdict=Verdict.INVALID,
        reason="wrong values",
        speedup=None,
        findings=[Finding("output.wrong_values", "invalid", "wrong values")],
    )
    now.write_target(attrs.evolve(result, rows=[result.rows[0], refused, *result.rows[2:]]))
    row = judge(then, now, {}).rows[1]
    assert (row.outcome, row.compared.reason) == (Outcome.BROKEN, "wrong values")


def test_what_is_not_there_any_more_was_not_run(then, tmp_path):
    factors = {name: one for name, one in measured.FACTORS.items() if name != "coalesced"}
    found = judge(then, measured.bundle(tmp_path / "now", factors=factors), {})
    assert outcomes(found)["coalesced"] == "not run"
    assert found.rows[1].compared.reason == "no longer exists"
    assert found.exit_code(strict=False) == 1


def test_a_target_that_could_not_be_run_has_its_reason(then, tmp_path):
    now = measured.bundle(tmp_path / "now")
    now.target_path(TARGET).unlink()
    skipped = [SkippedTarget(TARGET, Verdict.FAILED, "has no size 'cuda'")]
    now.write_manifest(attrs.evolve(now.manifest, skipped=skipped))
    found = judge(then, now, {})
    assert {one.compared.reason for one in found.rows} == {"has no size 'cuda'"}
    assert found.exit_code(strict=False) == 1


def test_another_machine_is_known(then, tmp_path):
    machine = attrs.evolve(measured.manifest().machine, gpus=[{"name": "NVIDIA B300"}])
    found = judge(then, measured.bundle(tmp_path / "now", machine=machine), {})
    assert [(one.what, one.right) for one in found.other_machine] == [("GPU", "NVIDIA B300")]
