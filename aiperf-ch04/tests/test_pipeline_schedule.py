"""The schedules of `ch04.pipeline_schedule`: every pass is made once, messages have one place, and 1F1B keeps few."""

import pytest

from aiperf_ch04.pipeline_schedule import GPipe, OneForwardOneBackward, Stage, slots, step
from aiperf_core.errors import SkipError

SIZES = [(1, 1, 3), (2, 1, 16), (2, 2, 16), (2, 2, 5), (3, 1, 2), (3, 2, 6), (4, 1, 7), (4, 2, 16), (8, 3, 16)]


def planned(schedule: type[Stage], ranks: int, chunks: int, micro: int) -> list[list[tuple[str, int, int] | None]]:
    orders = [schedule().order(rank, ranks, chunks, micro) for rank in range(ranks)]
    return slots(orders, ranks * chunks)


@pytest.mark.parametrize("schedule", [GPipe, OneForwardOneBackward])
@pytest.mark.parametrize(("ranks", "chunks", "micro"), SIZES)
def test_all_passes_are_made_and_each_message_has_a_place_of_its_own(
    schedule: type[Stage], ranks: int, chunks: int, micro: int
) -> None:
    plan = planned(schedule, ranks, chunks, micro)
    made: dict[tuple[str, int, int], int] = {}
    for number, actions in enumerate(plan):
        for rank, action in enumerate(actions):
            if action:
                needed = step(action, -1, ranks * chunks)
                assert action[1] % ranks == rank
                assert needed is None or made[needed] < number
        pairs = [(rank, step(one, 1, ranks * chunks)) for rank, one in enumerate(actions) if one]
        ends = [(rank, following[1] % ranks) for rank, following in pairs if following]
        assert len({*ends}) == len(ends)
        made |= {one: number for one in actions if one}
    assert len(made) == 2 * ranks * chunks * micro
    for stage in range(ranks * chunks):  # activations are kept in the order of the micro-batches
        for way in ("forward", "back"):
            assert sorted(range(micro), key=lambda one: made[way, stage, one]) == list(range(micro))


def most_kept(schedule: type[Stage], ranks: int, chunks: int, micro: int) -> list[int]:
    """The most activations of micro-batches that each rank keeps."""
    most, kept = [0] * ranks, [0] * ranks
    for actions in planned(schedule, ranks, chunks, micro):
        for rank, action in enumerate(actions):
            kept[rank] += {"forward": 1, "back": -1}[action[0]] if action else 0
            most[rank] = max(most[rank], kept[rank])
    return most


def test_one_forward_one_backward_keeps_as_many_as_stages_are_left() -> None:
    assert most_kept(OneForwardOneBackward, 4, 1, 16) == [4, 3, 2, 1]
    assert most_kept(GPipe, 4, 1, 16) == [16] * 4
    assert most_kept(OneForwardOneBackward, 4, 2, 16) == [11, 9, 7, 5]


def test_both_have_the_same_bubble_and_pieces_shrink_it() -> None:
    """A slot is a pass through a piece; with p ranks 2 (p - 1) of them are idle, of 2 v m."""
    for schedule in (GPipe, OneForwardOneBackward):
        assert len(planned(schedule, 4, 1, 16)) == 2 * 16 + 2 * 3
        assert len(planned(schedule, 4, 2, 16)) == 2 * 2 * 16 + 2 * 3


def test_ranks_that_would_wait_for_each_other_are_refused() -> None:
    with pytest.raises(SkipError, match=r"^is not written for these sizes: ranks wait for each other"):
        planned(OneForwardOneBackward, 4, 3, 5)
