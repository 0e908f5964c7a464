"""`cli.audit_view`: settings as a table with the advice below, and as JSON."""

import json

import pytest

from aiperf_core.audit import Setting, chosen
from aiperf_core.cli.audit_view import print_audit

SETTINGS = [
    Setting("swap", "off", "/proc/meminfo"),
    Setting("huge pages", "never", "/sys/kernel/mm", "tables miss the TLB. Allow them"),
]


def test_the_table_ends_with_the_advice(capsys: pytest.CaptureFixture[str]) -> None:
    print_audit(SETTINGS, as_json=False)
    assert capsys.readouterr().out == (
        "   setting     value  source\n"
        "   swap        off    /proc/meminfo\n"
        "!  huge pages  never  /sys/kernel/mm\n"
        "\n"
        "1 setting with advice:\n"
        "- huge pages: tables miss the TLB. Allow them\n"
    )


def test_an_audit_without_advice_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_audit(SETTINGS[:1], as_json=False)
    assert capsys.readouterr().out.endswith("\n\n0 settings with advice\n")


def test_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    print_audit(SETTINGS, as_json=True)
    assert json.loads(capsys.readouterr().out)["settings"][1] == {
        "name": "huge pages",
        "value": "never",
        "source": "/sys/kernel/mm",
        "advice": "tables miss the TLB. Allow them",
    }


def test_the_chosen_word() -> None:
    assert chosen("always [madvise] never") == "madvise"
    assert chosen("none") == "none"
