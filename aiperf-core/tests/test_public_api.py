"""What others import, call or plug into does not go from one release to the next. `docs/compatibility.md` has the rule."""

import re
import warnings
from pathlib import Path

import public_api
import pytest

from aiperf_core import __version__

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "compatibility.md"

WHAT_TO_DO = """

What others build on was broken:

    {}

Keep the old spelling working and let it warn, as docs/compatibility.md says under "How a name goes". Where it never was in a
release, or its time has come and CHANGELOG.md says so, record what is promised now:

    python aiperf-core/tests/public_api.py
"""


@pytest.fixture(scope="module")
def facts():
    return public_api.facts()


def test_nothing_that_was_promised_is_gone(facts):
    _, before = public_api.read()
    if broken := public_api.broken(before, facts):
        pytest.fail(WHAT_TO_DO.format("\n    ".join(broken)), pytrace=False)


def test_a_new_version_promises_what_it_has(facts):
    version, before = public_api.read()
    assert len(before) > 500
    assert version == __version__, "a new version: record what it promises with python aiperf-core/tests/public_api.py"


BEFORE = [
    "a.f",
    "a.f(n) at place 1",
    "a.f(n) required",
    "a.f(m) at place 2",
    "a.f(m) = 3",
    "aiperf run",
    "aiperf run --size",
]


@pytest.mark.parametrize(
    ("now", "broken"),
    [
        (BEFORE, []),
        ([*BEFORE, "a.g", "a.g(n) required", "a.f(o) keyword-only", "aiperf run --new"], []),
        ([one for one in BEFORE if one != "a.f(n) required"], []),
        ([one for one in BEFORE if not one.startswith("aiperf run --size")], ["gone or changed: aiperf run --size"]),
        ([*BEFORE, "a.f(o) keyword-only", "a.f(o) required"], ["newly required: a.f(o) required"]),
        ([*BEFORE, "aiperf run --new", "aiperf run --new required"], ["newly required: aiperf run --new required"]),
        ([one.replace("= 3", "= 4") for one in BEFORE], ["gone or changed: a.f(m) = 3"]),
        ([one.replace("(m) at place 2", "(m) at place 3") for one in BEFORE], ["gone or changed: a.f(m) at place 2"]),
    ],
)
def test_what_breaks_others_is_told_from_what_does_not(now, broken):
    assert public_api.broken(BEFORE, now) == broken


def test_facts_of_every_kind_are_recorded(facts):
    assert {
        "aiperf_core.Benchmark.variant(why) required",
        "aiperf_core.kernels.cuda_source",
        "aiperf_core.hookspecs.hookimpl",
        "aiperf_core.targets.Target(tags) = ()",
        "aiperf_core.events.Progress.samples",
        "aiperf_core.errors.ExitCode.INVALID = 3",
        "aiperf_core.errors.KernelError is a AiperfError",
        "hook aiperf_progress is given progress: Progress",
        "hook aiperf_targets -> Iterable[Target]",
        "aiperf run -t/--tier takes audit",
        "aiperf run -t/--tier = 'quick'",
        "aiperf watch <target> required",
        "aiperf results rm <bundles> repeated",
    } <= set(facts)
    # Objects that are handed out may get new fields.
    assert not any(one.startswith("aiperf_core.events.Progress(") for one in facts)


def test_the_page_lists_what_is_offered():
    listed = dict(re.findall(r"^\| `(aiperf_core[\w.]*)` \| (.+?) \|", DOCS.read_text(), re.MULTILINE))
    assert list(listed) == list(public_api.OFFERED)
    for module, names in public_api.OFFERED.items():
        assert set(re.findall(r"`(\w+)`", listed[module])) == set(names), module


def test_the_page_speaks_of_this_version():
    assert f"`aiperf-core~={__version__.rpartition('.')[0]}.0`" in DOCS.read_text()


def test_the_page_s_deprecated_name_warns_whoever_uses_it_with_what_to_use():
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    names = {}
    exec(compile(example, "example.py", "exec"), names)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            assert names["halves"](8) == [4, 4]
    (only,) = told
    assert only.category is DeprecationWarning
    assert only.filename == __file__
    assert re.fullmatch(r"halves\(n\) goes with aiperf 0\.\d; use parts\(n, 2\)", str(only.message))
