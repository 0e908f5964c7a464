"""The glossary: every name that it gives is there, and every figure, verdict and bound has a term."""

import re
from collections import Counter

import pytest

from aiperf_core.report.metrics import BOUND_NAMES, BY_NAME, METRICS
from aiperf_core.results.models import BOUNDS, Verdict
from aiperf_learn.glossary.terms import entry, find, listing, markdown, suggestion, terms

COLUMNS = {*BY_NAME, "verdict"}
# A number with a unit of something measured. Thresholds of verdicts and sizes of hardware are no measurements.
MEASURED = re.compile(r"\b\d[\d.,]* ?(?:x|ns|us|µs|ms|s|[GT]B/s|[GT]?FLOP/s|W|J)\b")

each_term = pytest.mark.parametrize("term", terms(), ids=lambda term: term.slug)


def test_every_figure_verdict_and_bound_has_a_term():
    names = [metric.title for metric in METRICS.values()] + [verdict.value for verdict in Verdict]
    names += [f"{BOUND_NAMES.get(bound, bound)} bound" for bound in BOUNDS]
    assert [name for name in names if find(name) is None] == []


def test_a_name_belongs_to_one_term_and_an_anchor_too():
    names = [name.casefold() for term in terms() for name in (term.name, *term.aliases)]
    anchors = [term.slug for term in terms()] + [section.lower() for section in {term.section for term in terms()}]
    for kind in (names, anchors):
        assert [name for name, count in Counter(kind).items() if count > 1] == []


@each_term
def test_a_term_names_what_is_there(term, plugins):
    assert {*term.commands} <= {*plugins.commands}
    assert {*term.columns} <= COLUMNS
    assert {*term.lessons} <= {target.name for target in plugins.targets}
    assert [name for name in term.also if (other := find(name)) is None or other.name != name] == []
    assert term.also
    assert term.name not in term.also
    assert term.commands or term.columns or term.lessons, "a reader meets it somewhere"


@each_term
def test_a_definition_is_two_sentences_without_a_measured_number(term):
    assert len(re.findall(r"[.](?= [A-Z]|$)", term.text)) == 2
    assert not MEASURED.search(term.text)
    assert 60 < len(term.text) < 260


def test_a_number_that_was_measured_is_seen():
    assert all(MEASURED.search(text) for text in ("takes 5 us.", "is 3.2x faster", "4.8 TB/s of memory"))
    assert not MEASURED.search("above 1.01. 32 threads of 64 bytes, 95 of 100, 2 MiB, 1 % of 1")


def test_a_term_is_found_by_any_of_its_names():
    assert find("speed of  Light") is find("SOL") is find("sol")
    assert find("latency P99").name == "latency"
    assert find("no such term") is None
    assert suggestion("goodpt") == " Did you mean 'goodput'?"
    assert suggestion("zzzz") == ""


def test_an_entry_has_the_definition_and_where_to_meet_it():
    result = entry(find("host share"))
    assert result.title == "host share"
    assert result.summary[1:] == [
        "formula: 1 - device time / wall time",
        "unit: %",
        "commands: aiperf run",
        "columns: --columns host_share",
        "lessons: aiperf learn ch01.launch_overhead",
        "see: launch, host floor",
    ]


def test_the_page_has_each_term_under_its_anchor_and_links_that_lead_to_one():
    page = "\n\n".join(markdown())
    anchors = {term.slug for term in terms()}
    assert len(re.findall(r"^### ", page, re.MULTILINE)) == len(terms())
    assert {*re.findall(r"\]\(#([^)]*)\)", page)} <= anchors
    assert "### A/A control" in page
    assert find("A/A control").slug == "aa-control"


def test_the_list_has_every_term():
    assert sum(len(table.records) for table in listing().tables) == len(terms())
