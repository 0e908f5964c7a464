"""Results for continuous integration: JUnit XML, and the annotations of GitHub Actions.

JUnit has no standard; the elements here are those that Jenkins, GitLab and GitHub actions read. The commands of GitHub
are documented at https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from attrs import frozen

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.stats.compare import Compared, Comparison

# The element of JUnit for each verdict that is no success.
ELEMENTS = {
    Verdict.FAILED: "error",
    Verdict.INVALID: "failure",
    Verdict.UNTRUSTED: "failure",
    Verdict.SKIPPED: "skipped",
}


@frozen
class Case:
    """A row for continuous integration.

    element: `failure`, `error` or `skipped`; empty for success.
    kind: the verdict or the kind of the problem, such as `INVALID` or `slower`.
    message: what was found.
    """

    target: str
    implementation: str
    element: str
    kind: str
    message: str


def cases_of_run(results: Iterable[TargetResult | SkippedTarget]) -> list[Case]:
    """A case for each row, and for each target that did not start."""
    cases = []
    for result in results:
        if isinstance(result, SkippedTarget):
            element = ELEMENTS.get(result.verdict, "error")
            cases.append(Case(result.target, "", element, result.verdict.value, result.reason))
        else:
            cases += [
                Case(result.target, row.name, ELEMENTS.get(row.verdict, ""), row.verdict.value, _said(row))
                for row in result.rows
            ]
    return cases


def _said(row: Row) -> str:
    """The reason of a row, or its speedup with the interval."""
    if row.reason or row.speedup is None:
        return row.reason or ""
    shown = units.ratio_estimate(row.speedup)
    return f"speedup {shown.value} {shown.interval}"


def cases_of_comparison(found: Comparison) -> list[Case]:
    """A case for each row: a failure where the right is slower than allowed, or is not believed any more."""
    slower, distrusted = list(found.regressions), list(found.distrusted)
    return [_compared(row, row in slower, row in distrusted) for row in found.rows]


def _compared(row: Compared, slower: bool, distrusted: bool) -> Case:
    if distrusted:
        assert row.right
        reason = row.right.reason or row.reason or ""
        return Case(row.target, row.implementation, "failure", row.right.verdict.value, reason)
    if row.verdict is None or row.ratio is None:
        return Case(row.target, row.implementation, "skipped", "not compared", row.reason or "")
    shown = units.ratio_estimate(row.ratio)
    said = f"left / right {shown.value} {shown.interval}"
    return Case(row.target, row.implementation, "failure" if slower else "", row.verdict.value, said)


def junit(cases: Sequence[Case]) -> bytes:
    """A JUnit document: a suite for each target, a test case for each implementation."""
    root = ElementTree.Element("testsuites", {"name": "aiperf", **_counts(cases)})
    for target in dict.fromkeys(case.target for case in cases):
        of_target = [case for case in cases if case.target == target]
        suite = ElementTree.SubElement(root, "testsuite", {"name": words(target), **_counts(of_target)})
        for case in of_target:
            name = words(case.implementation) or words(target)
            test = ElementTree.SubElement(suite, "testcase", classname=words(target), name=name)
            message = words(f"{case.kind}: {case.message}" if case.message else case.kind)
            if case.element:
                ElementTree.SubElement(test, case.element, message=message, type=case.kind)
            else:
                ElementTree.SubElement(test, "system-out").text = message
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    count = Counter(case.element for case in cases)
    attributes = {"failures": count["failure"], "errors": count["error"], "skipped": count["skipped"]}
    return {name: str(number) for name, number in {"tests": len(cases), **attributes}.items()}


def github(case: Case, file: Path | None, line: int | None) -> str:
    """The annotation of a case that failed, at its declaration if that is known."""
    name = f"{case.target}:{case.implementation}" if case.implementation else case.target
    places = [("file", str(file) if file else None), ("line", str(line) if line else None), ("title", words(name))]
    given = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in places if value)
    return f"::error {given}::{_escaped(words(f'{name} is {case.kind}: {case.message}'))}"


def failed(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases to annotate."""
    return (case for case in cases if case.element in ("failure", "error"))


def _escaped(text: str, also: str = "") -> str:
    """As GitHub's own toolkit escapes: data, and in properties also the characters that separate them."""
    return "".join(f"%{ord(character):02X}" if character in "%\r\n" + also else character for character in text)
