"""What `--set` spells, and the names of points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.errors import UsageError
from aiperf_core.sweep import MOST_POINTS, axes_of, base_name, fixed, point_name, points, selects, split_point

FORMS = "1e6,1e7 or 1e3:1e6:x10 or 0:100:25 or 2**10..2**20"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n=1e6", [1e6]),
        ("n=2**20", [1048576.0]),
        ("n=1e7,1e6,1e7", [1e6, 1e7]),
        ("n=2**10..2**13", [1024.0, 2048.0, 4096.0, 8192.0]),
        ("n=10**1..10**3", [10.0, 100.0, 1000.0]),
        ("n=1e3:1e6:x10", [1e3, 1e4, 1e5, 1e6]),
        ("n=1e3:9e5:x10", [1e3, 1e4, 1e5]),
        ("n=0:100:25", [0.0, 25.0, 50.0, 75.0, 100.0]),
        ("n=0.1:0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("n=7,1:4:x2", [1.0, 2.0, 4.0, 7.0]),
        ("n=5:5:x2", [5.0]),
    ],
)
def test_the_values_of_a_parameter(text, values):
    (axis,) = axes_of([text])
    assert (axis.name, list(axis.values)) == ("n", values)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["n"], "--set takes NAME=NUMBER, such as --set n=1e6; got 'n'."),
        (["=3"], "--set takes NAME=NUMBER, such as --set n=1e6; got '=3'."),
        (["n=many"], "--set n takes a number, such as 4096 or 1e6; got 'many'."),
        (["n=1e6,x"], "--set n takes a number, such as 4096 or 1e6; got 'x'."),
        (["n=1e6,"], "--set n takes a number, such as 4096 or 1e6; got ''."),
        (["n=2**99999999999"], "--set n takes a number, such as 4096 or 1e6; got '2**99999999999'."),
        (["n=-1,2"], "--set n takes a number that is not negative; got '-1'."),
        (["n=inf"], "--set n takes a number that is not negative; got 'inf'."),
        (["n=1", "n=2"], "--set n was given twice; give all values at once: --set n=1e6,1e7"),
        (["n=1:2"], "a range has three parts, START:STOP:xFACTOR or START:STOP:STEP"),
        (["n=1..5"], "a range has three parts, START:STOP:xFACTOR or START:STOP:STEP"),
        (["n=2**3..3**5"], "both ends are powers of the same number, at least 2"),
        (["n=2**5..2**3"], "it ends before it starts"),
        (["n=9:1:x2"], "it ends before it starts"),
        (["n=9:1:2"], "it ends before it starts"),
        (["n=1:9:x1"], "a range by a factor starts above 0, and its factor is above 1"),
        (["n=0:9:x2"], "a range by a factor starts above 0, and its factor is above 1"),
        (["n=1:9:0"], "its step is above 0"),
        (["n=1:1e9:1"], "it has more than 10,000 values"),
    ],
)
def test_what_is_refused(texts, message):
    with pytest.raises(UsageError) as caught:
        axes_of(texts)
    whole = (
        message if message.startswith("--set") else f"--set {texts[0]} is not a range: {message}. Accepted: {FORMS}."
    )
    assert str(caught.value) == whole


def test_several_parameters_make_a_grid_in_ascending_order():
    axes = axes_of(["n=8,4", "k=3", "m=1,2"])
    assert fixed(axes) == {"k": 3.0}
    assert [point_name("a.b", dict(one)) for one in points(axes)] == [
        "a.b@m=1,n=4",
        "a.b@m=1,n=8",
        "a.b@m=2,n=4",
        "a.b@m=2,n=8",
    ]


def test_single_values_are_no_sweep():
    assert points(axes_of(["n=8", "m=1e6,1000000"])) == []
    assert points(axes_of([])) == []


def test_too_many_points_are_refused_with_the_remedy():
    axes = axes_of(["n=1:13:1", "m=1,2,3,4,5"])
    with pytest.raises(UsageError) as caught:
        points(axes)
    assert str(caught.value) == (
        f"--set asks for 65 points (m: 5 x n: 13); at most {MOST_POINTS} are accepted. Give fewer values, or raise the "
        "limit: --max-points 65"
    )
    assert len(points(axes, 65)) == 65


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.floats(0, 1e300), min_size=1, max_size=3))
def test_a_name_holds_its_values(values):
    assert split_point(point_name("ch07.memory_access", values)) == ("ch07.memory_access", values)


@pytest.mark.parametrize("name", ["a.b", "a@b", "a@n=x", "a@=3", "a@n=1,", "@"])
def test_other_names_stay_as_they_are(name):
    assert split_point(name) == (name, {})
    assert base_name(name) == name


@pytest.mark.parametrize(
    ("wanted", "name", "found"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b@n=4", True),
        ("a.b@n=4e0", "a.b@m=1,n=4", True),
        ("a.b@n=4,m=1", "a.b@m=1,n=4", True),
        ("a.b@n=5", "a.b@m=1,n=4", False),
        ("a.b@k=4", "a.b@n=4", False),
        ("a.c", "a.b@n=4", False),
        ("a.b@n=4", "a.b", False),
        ("a@b", "a@b", True),
    ],
)
def test_what_a_name_selects(wanted, name, found):
    assert selects(wanted, name) is found
