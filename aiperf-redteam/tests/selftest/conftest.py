import pytest

from aiperf_redteam.selftest.other_work import OtherWork


@pytest.fixture(autouse=True)
def _no_other_work(request, monkeypatch):
    """Other tests beside a real run are no load. `load` gives scripted runs one; None is for runs without a reading."""
    share = request.getfixturevalue("load") if "load" in request.fixturenames else 0.0
    monkeypatch.setattr(OtherWork, "share", lambda self: share)
