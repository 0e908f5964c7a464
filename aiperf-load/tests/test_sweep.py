"""The search for the capacity: which rates are measured, and what the points say together."""

import pytest
from load_points import point

from aiperf_load import sweep
from aiperf_load.intervals import Figure

BAD = {"goodput_share": Figure(value=0.5, low=0.4, high=0.6)}
CAPACITY = 100.0


class Server:
    """Serves up to `CAPACITY`. The generator is late the first times at some rates."""

    def __init__(self, late=None, ends=None):
        self.late, self.ends, self.rates = dict(late or {}), ends, []

    def measure(self, rate):
        if self.ends is not None and len(self.rates) >= self.ends:
            return None
        self.rates.append(rate)
        late = self.late.get(rate, 0)
        self.late[rate] = late - 1
        return point(rate, trusted=late <= 0, **(BAD if rate > CAPACITY else {}))


def search(server, low=10.0, high=1000.0, **how):
    points = sweep.search(server.measure, low, high, **how)
    return points, sweep.knee(points, how.get("met", sweep.MET)).capacity_per_s


def test_rates_rise_until_two_miss_and_are_bisected():
    server = Server()
    _, capacity = search(server, precision=0.1)
    assert server.rates[:6] == [10, 20, 40, 80, 160, 320]
    assert capacity.value == capacity.low <= CAPACITY <= capacity.high <= 1.1 * capacity.value


def test_a_rate_at_which_the_generator_was_late_is_measured_again():
    server = Server(late={20.0: 2})
    points, capacity = search(server, precision=0.5)
    assert server.rates[:5] == [10, 20, 20, 20, 40]
    assert [one.trusted for one in points[:5]] == [True, False, False, True, True]
    assert capacity.low <= CAPACITY <= capacity.high


def test_a_generator_that_stays_late_bounds_nothing():
    """Else 20 and 40 would be misses, and the capacity of the server 10."""
    server = Server(late={20.0: 9, 40.0: 9})
    _, capacity = search(server, precision=0.5)
    assert server.rates[:9] == [10, *[20] * 3, *[40] * 3, 80, 160]
    assert capacity.low == 80
    assert capacity.high >= CAPACITY


def test_a_bisection_ends_where_the_generator_stays_late():
    server = Server(late={(80.0 * 160.0) ** 0.5: 9})
    _, capacity = search(server)
    assert (capacity.low, capacity.high) == (80, 160)


@pytest.mark.parametrize(
    ("late", "high", "value", "said"),
    [
        ({10.0: 9, 20.0: 9}, 30.0, None, "no measured rate was trusted and met the limits"),
        ({20.0: 9}, 30.0, 10.0, "no higher rate was trusted"),
        ({}, 30.0, 20.0, "every measured rate met the limits; sweep to a higher rate"),
        ({10.0: 1}, 30.0, 20.0, "every measured rate met the limits; sweep to a higher rate"),
    ],
)
def test_an_open_end_has_its_reason(late, high, value, said):
    _, capacity = search(Server(late=late), high=high)
    assert (capacity.value, capacity.reason) == (value, said)


def test_a_server_that_answers_nothing_misses():
    nothing = point(10.0, trusted=False, counted_outcomes={"OK": 0, "HTTP_5XX": 9}, goodput_share=Figure(reason="none"))
    assert sweep.meets(nothing, 0.99) is False


@pytest.mark.parametrize("ends", [0, 1, 3, 7])
def test_an_interrupted_search_keeps_its_points(ends):
    points, _ = search(Server(ends=ends))
    assert len(points) == ends
