import pytest

from aiperf_core.report import svg
from aiperf_core.report.links import local
from aiperf_core.report.svg import Dot, Picture
from aiperf_core.report.thinning import kept


@pytest.mark.parametrize("address", ["/run/1?of=a%20b", "#here", "?a=b", ""])
def test_places_of_the_own_server_are_kept(address):
    assert local(address) == address


@pytest.mark.parametrize("address", ["javascript:alert(1)", "//elsewhere", "http://elsewhere", "run/1", "\\\\host"])
def test_other_places_are_refused(address):
    with pytest.raises(ValueError, match="a picture links to places of its own server"):
        local(address)


def test_names_in_an_address_cannot_end_its_attribute():
    assert local('/run/"><script>') == "/run/%22%3E%3Cscript%3E"


def test_a_linked_mark_is_a_link_and_its_picture_no_image():
    text = svg.markup(Picture(10, 10, "t", "m", [Dot(1, 1, 2, "s0", "tip", "/run/1")]))
    assert '<a href="/run/1" tabindex="-1" aria-label="tip"><g><title>tip</title><circle' in text
    assert 'role="group"' in text
    assert 'role="img"' in svg.markup(Picture(10, 10, "t", "m", [Dot(1, 1, 2, "s0", "tip")]))


def test_thinning_keeps_ends_and_extremes():
    values = [0.0] * 10_000
    values[1234], values[5678] = 9.0, -9.0
    found = kept(values, 100)
    assert len(found) <= 100
    assert found == sorted(found)
    assert {0, 9_999, 1234, 5678} <= {*found}
    assert kept([3.0, 1.0], 100) == [0, 1]
