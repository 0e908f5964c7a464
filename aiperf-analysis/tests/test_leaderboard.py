"""The rules of a leaderboard's entries, ranks as ranges, and what stays visible."""

import subprocess

import pytest
from attrs import evolve

from aiperf_analysis.analyses import leaderboard
from aiperf_analysis.analyses.leaderboard import Options
from aiperf_analysis.selection import select
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Finding, Quality, RequestedTarget, RunRequest, Verdict
from aiperf_core.results.signing import sign

CLEAN = "0123456789abcdef0123456789abcdef01234567"
LATER = "2026-11-23T10:00:00+00:00"


def request(policy="standard"):
    return RunRequest(targets=[RequestedTarget("ch07.memory_access")], policy=policy)


def good(made, name="one", times=None, **more):
    times = times or {"plain": 2e-3, "tiled": 1e-3, "wide": 1.002e-3, "slow": 3e-3}
    result = {
        key: more.pop(key) for key in ("row", "noise", "memory", "goal", "tier", "complete", "seed") if key in more
    }
    fields = {"git": CLEAN, "skipped": [], "request": request()} | more
    return made.bundle(name, made.result(times, **({"tier": "standard"} | result)), **fields)


def analyzed(made, **options):
    return leaderboard.analyze(select([str(made.folder)]), Options(**({"trust_figures": True} | options)))


def rows(table, *names):
    return [tuple(record.cells[name] for name in names) for record in table.records]


def reasons(result):
    return {one.what: one.reason for one in result.left_out}


def test_ranks_are_ranges_where_the_order_is_open(made):
    good(made)
    found = analyzed(made)
    (table,) = found.tables
    assert table.title == "ch07.memory_access on nvidia-h200-x1, fp32: speed (n=268,435,456)"
    assert dict(rows(table, "row", "rank")) == {"tiled": "1 to 2", "wide": "1 to 2", "slow": "3"}
    assert found.drawings[0].message.endswith("may be first.")
    assert found.summary == ["1 board with 3 entries; on 1 the order of some entries is open."]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"tier": "quick"}, "the tier is quick; an entry takes standard or audit"),
        ({"request": request("lenient")}, "the policy is lenient; an entry takes standard or strict"),
        ({"git": f"{CLEAN}-dirty"}, "it was measured with uncommitted changes"),
        ({"complete": False}, "not all of its rounds were measured"),
    ],
)
def test_a_row_that_breaks_a_rule_does_not_enter(made, broken, reason):
    good(made)
    good(made, "bad", {"plain": 2e-3, "cheat": 1e-4}, **broken)
    found = analyzed(made)
    assert "cheat" not in [row for table in found.tables for (row,) in rows(table, "row")]
    assert reasons(found)["ch07.memory_access:cheat"] == reason


def test_a_bundle_without_a_seal_does_not_enter(made):
    good(made)
    result = made.result({"plain": 2e-3, "open": 1e-4}, tier="standard")
    made.bundle("running", result, git=CLEAN, request=request(), complete=False, exit_code=None)
    assert reasons(analyzed(made))["ch07.memory_access:open"] == "its bundle has no seal"


def test_a_bundle_whose_figures_do_not_follow_does_not_enter(made):
    good(made)
    with pytest.raises(AiperfError) as caught:
        analyzed(made, trust_figures=False)
    assert str(caught.value) == (
        "no leaderboard yet: no result of 1 bundle meets its rules: 3 x its bundle does not hold: ch07.memory_access:plain, bytes_per_s. "
        "Measure entries with committed sources: aiperf run PATTERN --tier standard"
    )


def test_another_source_of_the_target_does_not_enter(made):
    good(made, created=LATER)
    good(made, "old", {"plain": 2e-3, "old": 1e-4}, files={"aiperf_ch07.memory_access": "f" * 64})
    assert reasons(analyzed(made))["ch07.memory_access:old"] == (
        "the target's source (ffffffff) is not that of the board (01234567)"
    )


def test_the_newest_attempt_of_a_submitter_counts_not_the_best(made):
    good(made, "first", {"plain": 2e-3, "tiled": 0.5e-3})
    good(made, "second", {"plain": 2e-3, "tiled": 1e-3}, created=LATER)
    good(made, "ann", {"plain": 2e-3, "tiled": 0.8e-3}, labels={"submitter": "ann"})
    found = analyzed(made)
    (table,) = found.tables
    assert sorted(rows(table, "submitter", "rank")) == [("ann", "1"), ("node7", "2")]
    assert reasons(found)["ch07.memory_access:tiled"] == "node7 has a newer attempt"


def test_lossy_variants_and_other_classes_have_boards_of_their_own(made):
    lossy = {"half": {"quality": Quality("relative error", 1e-3, 1e-2)}}
    good(made, "one", {"plain": 2e-3, "tiled": 1e-3, "half": 0.5e-3}, row=lossy)
    gpu = {**example.manifest().machine.gpus[0], "name": "NVIDIA A100"}
    good(made, "two", {"plain": 2e-3, "tiled": 1e-3}, machine=evolve(example.manifest().machine, gpus=[gpu]))
    found = analyzed(made)
    assert [(table.title.split(":")[0], rows(table, "row")) for table in found.tables] == [
        ("ch07.memory_access on nvidia-a100-x1, fp32", [("tiled",)]),
        ("ch07.memory_access on nvidia-h200-x1, fp32", [("tiled",)]),
        ("ch07.memory_access on nvidia-h200-x1, fp32, lossy by relative error", [("half",)]),
    ]


def test_an_invalid_row_stays_visible_with_its_finding(made):
    cheat = {
        "verdict": Verdict.INVALID, "reason": "it returns the last output",
        "findings": [Finding("output.stale_cache", "invalid", "the output is old")],
    }  # fmt: skip
    good(made, "one", {"plain": 2e-3, "tiled": 1e-3, "cheat": 1e-6}, row={"cheat": cheat})
    found = analyzed(made)
    (table,) = found.tables
    assert rows(table, "row", "rank", "verdict", "finding")[1] == (
        "cheat", None, "INVALID", "output.stale_cache: it returns the last output",
    )  # fmt: skip
    assert table.records[1].cells["score"].value is None
    assert found.summary[1] == "1 row INVALID: shown with the finding, without a rank."
    assert [point.label for point in found.drawings[0].series[0].points] == ["tiled"]


def test_memory_boards_are_exact(made):
    times = {"plain": 2e-3, "small": 2e-3, "smaller": 2e-3}
    good(made, "one", times, memory={"plain": 400, "small": 200, "smaller": 100}, goal="memory")
    (table,) = analyzed(made).tables
    assert rows(table, "row", "rank") == [("smaller", "1"), ("small", "2")]
    assert table.records[0].cells["score"].value == 4.0
    with pytest.raises(AiperfError, match="there is no variant with the goal speed in 1 bundle, so there is no board"):
        analyzed(made, goal="speed")


def test_signers_are_shown(made, tmp_path):
    path = good(made)
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sign(Bundle.open(path), key)
    signers = tmp_path / "signers"
    signers.write_text(f"ann@example.org {key.with_suffix('.pub').read_text()}")
    (table,) = analyzed(made, signers=signers).tables
    assert rows(table, "signed", "submitter")[0] == ("ann@example.org", "ann@example.org")
    with pytest.raises(UsageError, match="is not a file; it has lines such as 'ann@example.org ssh-ed25519"):
        analyzed(made, signers=tmp_path / "none")
