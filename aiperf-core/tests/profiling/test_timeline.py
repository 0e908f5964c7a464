import pytest

from aiperf_core.profiling import timeline
from aiperf_core.profiling.timeline import Call, Piece


def call(*spans: tuple[float, float], name: str = "k") -> Call:
    return Call(1.0, [Piece(name, "kernel", start, end) for start, end in spans], launches=len(spans))


def test_gaps_are_what_no_stream_fills() -> None:
    overlapping = call((0.0, 0.4), (0.1, 0.3), (0.5, 0.6), (0.6, 0.7), (0.9, 1.0))
    found = timeline.figures([overlapping], 1)
    assert found["gaps"] == 2
    assert found["idle_s"] == pytest.approx(0.3)
    assert found["busy_s"] == pytest.approx(0.7)
    assert found["span_s"] == pytest.approx(1.0)
    assert found["idle_share"] == pytest.approx(0.3)


def test_the_time_between_two_calls_is_no_gap() -> None:
    assert timeline.figures([call((0.0, 1.0)), call((5.0, 6.0))], 2)["idle_share"] == 0


def test_figures_are_of_one_call() -> None:
    found = timeline.figures([call((0.0, 1.0)), call((0.0, 1.0), (1.0, 2.0))], 4)
    assert (found["kernels"], found["launches"], found["busy_s"], found["call_s"]) == (0.75, 0.75, 0.75, 0.5)


def test_calls_without_work_have_no_time_line() -> None:
    assert timeline.figures([Call(1.0)], 1) == {"call_s": 1.0, "launches": 0.0, "kernels": 0.0, "copied_bytes": 0.0}


def test_work_of_one_name_stands_together_the_longest_first() -> None:
    copy = Piece("copy", "copy", 0.0, 0.5, bytes=64.0)
    found = timeline.hot([Call(1.0, [copy, *call((1.0, 2.0), (2.0, 2.5)).pieces])], 1)
    assert [(one.name, one.count, one.seconds, one.share, one.bytes) for one in found] == [
        ("k", 2.0, 1.5, 0.75, None),
        ("copy", 1.0, 0.5, 0.25, 64.0),
    ]
