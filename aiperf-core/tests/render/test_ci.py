from pathlib import Path
from xml.etree import ElementTree

import attrs

from aiperf_core.render import ci
from aiperf_core.results import example
from aiperf_core.results.models import SkippedTarget, Verdict

INVALID = attrs.evolve(
    example.rows()[1], name="<wide>", verdict=Verdict.INVALID, reason="50 % wrong:\n\x1b[2Jvalues", speedup=None
)
BROKEN = attrs.evolve(example.rows()[1], name="broken", verdict=Verdict.FAILED, reason="it raised", speedup=None)


def cases():
    result = attrs.evolve(example.result(), rows=[*example.rows()[:2], INVALID, BROKEN])
    skipped = SkippedTarget("ch07.gather", Verdict.SKIPPED, "needs a GPU")
    return ci.cases_of_run([result, skipped])


def test_a_junit_document_has_a_suite_for_each_target_and_a_case_for_each_row():
    root = ElementTree.fromstring(ci.junit(cases()))
    assert root.attrib == {"name": "aiperf", "tests": "5", "failures": "1", "errors": "1", "skipped": "1"}
    first, second = root
    assert first.attrib == {"name": "ch07.memory_access", "tests": "4", "failures": "1", "errors": "1", "skipped": "0"}
    found = [(case.get("name"), case[0].tag, case[0].get("message") or case[0].text) for case in first]
    assert found == [
        ("strided", "system-out", "MEASURED"),
        ("coalesced", "system-out", "FASTER: speedup 7.99x [7.97, 8.02]"),
        ("<wide>", "failure", "INVALID: 50 % wrong: values"),
        ("broken", "error", "FAILED: it raised"),
    ]
    (case,) = second
    assert (case.get("classname"), case.get("name"), case[0].tag) == ("ch07.gather", "ch07.gather", "skipped")


def test_annotations_are_escaped_and_name_the_line():
    failed = list(ci.failed(cases()))
    assert [ci.github(case, Path("a,b/c.py"), 7) for case in failed] == [
        "::error file=a%2Cb/c.py,line=7,title=ch07.memory_access%3A<wide>::"
        "ch07.memory_access:<wide> is INVALID: 50 %25 wrong: values",
        "::error file=a%2Cb/c.py,line=7,title=ch07.memory_access%3Abroken::"
        "ch07.memory_access:broken is FAILED: it raised",
    ]
    assert ci.github(failed[0], None, None).startswith("::error title=ch07.memory_access%3A<wide>::")
