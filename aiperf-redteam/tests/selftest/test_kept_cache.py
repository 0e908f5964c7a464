"""Whether a core's cache keeps data over a pause."""

import pytest

from aiperf_core.measurements import Flush
from aiperf_redteam.selftest import kept_cache


@pytest.mark.parametrize(
    ("paused_us", "lacking"),
    [
        (1.2, ""),
        (
            9.0,
            "needs a cache that keeps data for 100 ms: a read takes 9 us after such a pause, 1 us hot and 10 us displaced",
        ),
    ],
)
def test_what_is_told(monkeypatch: pytest.MonkeyPatch, paused_us: float, lacking: str) -> None:
    monkeypatch.setattr(kept_cache, "measure", lambda: Flush(1e-6, 1e-5, paused_us * 1e-6))
    assert kept_cache.lacking() == lacking


def test_without_a_pause_the_cache_is_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_cache, "PAUSE_S", 0.0)
    found = kept_cache.measure()
    assert 0 < found.hot_s < found.cold_s
    assert found.flushed_s < found.cold_s
