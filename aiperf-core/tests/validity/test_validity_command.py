import json
import re
from collections import Counter

import pytest
from attrs import evolve
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import Installed, load_plugins
from aiperf_core.proofs.support import Kind, support
from aiperf_core.validity.cases import Case
from aiperf_core.validity.registry import categories, issue, issues

CASES = (
    Case(issue="workload.early_exit", module="aiperf_acme.steps", implementation="stops"),
    Case(issue="workload.early_exit", module="aiperf_acme.steps", implementation="converged", honest=True),
)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The command as a user calls it, with two cases of a plugin, on a machine where nothing was tried yet."""
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    attacks = tuple(Installed(one, "aiperf-acme", "1") for one in CASES)
    shell = Shell(evolve(load_plugins([]), attacks=attacks))
    return lambda *arguments: CliRunner().invoke(shell, ["validity", *arguments])


def test_a_category(asked):
    result = asked("policy")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "Issues and guards\n"
        "4 issues in 1 category behind 1 guard: 0 attacked in a run, 0 recorded on a named machine, 0 excluded by construction, "
        "4 owed\n"
        "0 proven on this machine; try them: aiperf selftest\n"
        "\n"
        "policy (4): the answer is right, but not by the means claimed\n"
        "issue                     guard         needs        proof  title\n"
        "policy.library_fallback   cupti_ledger  cuda, cupti  owed   A library does the work\n"
        "policy.ghost_branch       cupti_ledger  cuda, cupti  owed   The new code is never reached\n"
        "policy.wrapper_extension  cupti_ledger  cuda, cupti  owed   A library behind an extension\n"
        "policy.decoy_kernel       cupti_ledger  cuda, cupti  owed   A kernel for show\n"
    )


def test_all_of_them_by_category(asked):
    result = asked()
    assert (result.exit_code, result.stderr) == (0, "")
    guards = {one.guard for one in issues()}
    kinds = Counter(support(one, CASES, ()).kind for one in issues())
    assert kinds[Kind.ATTACKED] == 1
    lines = result.stdout.splitlines()
    assert lines[1] == (
        f"{len(issues())} issues in {len(categories())} categories behind {len(guards)} guards: 1 attacked in a run, 0 recorded on a "
        f"named machine, {kinds[Kind.EXCLUDED]} excluded by construction, {kinds[Kind.OWED]} owed, {kinds[Kind.NONE]} no proof yet"
    )
    assert [line.split()[0] for line in lines if re.match(r"[a-z]+ \(\d+\): ", line)] == list(categories())
    assert [line.split()[0] for line in lines if re.match(r"[a-z]+\.[a-z]", line)] == [one.id for one in issues()]


def test_one_issue(asked):
    result = asked("timing.not_audited")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "issue       timing.not_audited\n"
        "title       No second witness for the time\n"
        "happens     The profiler gave no whole record of the calls, and the events alone are believed.\n"
        "guard       cupti_ledger: the worker records what the GPU did in a call, as CUPTI saw it: kernels, copies and "
        "fills by name, stream, count, time and bytes\n"
        "protection  The row carries a warning with the reason. Nothing is estimated in the place of the missing record, "
        "and the other checks go on without it.\n"
        "needs       cuda\n"
        "finding     invalid under strict, warning under standard, warning under lenient\n"
        "owed        to be recorded on a machine with a CUDA GPU\n"
        "proof       owed\n"
        "met         FlashInfer: CUPTI recorded no kernel activity "
        "https://github.com/flashinfer-ai/flashinfer/issues/2145\n"
        "met         TileOPs: 78 of 2,308 rows changed to another clock in silence "
        "https://github.com/tile-ai/TileOPs/issues/1796\n"
    )


def test_one_issue_of_the_list_of_95(asked):
    lines = asked("workload.early_exit").stdout.splitlines()
    assert lines[lines.index("needs              nothing special") :] == [
        "needs              nothing special",
        "finding            invalid under every policy",
        "attack             steps:stops (cpu)",
        "honest look-alike  steps:converged (cpu)",
        "proof              not tried here; try it: aiperf selftest --issue workload.early_exit",
        "list of 95         Workload / Early Exit",
    ]


def test_json(asked):
    (found,) = json.loads(asked("leak.heap_scan", "--json").stdout)
    heap_scan = issue("leak.heap_scan")
    assert found == {
        "category": "leak",
        "id": "leak.heap_scan",
        "title": "The reference is found in memory",
        "happens": heap_scan.happens,
        "guard": "own_process",
        "protection": heap_scan.protection,
        "needs": [],
        "severity": {"strict": "invalid", "standard": "invalid", "lenient": "invalid"},
        "incidents": [
            {
                "year": 2026,
                "title": "pygpubench: four of six cheats passed every defence",
                "url": "https://github.com/gpu-mode/pygpubench/pull/7",
            }
        ],
        "excluded": None,
        "owed": None,
        "predecessor": None,
        "kind": "no proof yet",
        "attacks": [],
        "look_alikes": [],
        "recordings": [],
        "tried_here": None,
    }
    assert [one["id"] for one in json.loads(asked("--json").stdout)] == [one.id for one in issues()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["timing.unsinced_streams"],
            "aiperf: 'timing.unsinced_streams' is not a validity issue. Did you mean 'timing.unsynced_streams'?\n",
        ),
        (["timings", "--json"], "aiperf: 'timings' is not a validity issue. Did you mean 'timing'?\n"),
        (
            ["--json", "--markdown"],
            "aiperf: --json and --markdown were both given; a listing has one form. Leave one of them out.\n",
        ),
    ],
)
def test_a_mistake_is_told(asked, arguments, message):
    result = asked(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_every_link_of_the_page_has_its_heading(asked):
    text = asked("--markdown").stdout
    headings = re.findall(r"^### `(.+)`$", text, flags=re.MULTILINE)
    assert headings == [one.id for one in issues()]
    assert re.findall(r"\]\(#(.+?)\)", text) == [name.replace(".", "") for name in headings]
