"""Policies of the simulated targets do what their names say; `pytest --aiperf` tests their answers."""

import torch

from aiperf_ch16 import chunked_prefill, prefix_caching


def test_gaps_count_for_each_text() -> None:
    assert chunked_prefill.weighted([(0.1, 1), (0.02, 98), (0.2, 1)]) == 0.1
    assert chunked_prefill.weighted([(0.1, 1), (0.02, 199)]) == 0.02
    assert chunked_prefill.weighted([]) == chunked_prefill.WEIGHTS_S


def test_a_prompt_alone_takes_its_arithmetic() -> None:
    load = {"arrivals_s": torch.tensor([1.0], dtype=torch.float64), "prompts": torch.tensor([4096.0])}
    for policy in (chunked_prefill.Whole(), chunked_prefill.Pieces(), chunked_prefill.Budgeted()):
        first_s = policy.run(**load, output=3)["first_s"]
        cached_s = 4096 / 600 * 4096 * chunked_prefill.CACHED_S  # the most: each piece reads what is there
        assert -1e-9 <= float(first_s) - 4096 / chunked_prefill.TOKENS_PER_S <= cached_s


def test_a_step_is_within_its_budget() -> None:
    for texts, cached in ((0, 0), (16, 60_000), (64, 300_000)):
        tokens = texts + chunked_prefill.Budgeted().room(texts, cached, 8192)
        took_s = chunked_prefill.step_s(tokens, cached)
        assert chunked_prefill.BUDGET_S - 1e-4 < took_s <= chunked_prefill.BUDGET_S


def cache(capacity: int) -> prefix_caching.Hashed:
    instance = prefix_caching.Hashed()
    instance.run(torch.zeros(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.long), capacity)
    instance.kept.clear()
    return instance


def test_what_is_known_ends_at_the_first_block_that_is_not() -> None:
    instance, keys = cache(9), prefix_caching.keys_of([5, 6, 7, 8])
    instance.keep([(keys[0], 1), (keys[2], 3)])
    assert instance.known(keys) == 1
    instance.keep([*zip(keys, range(4), strict=True)])
    assert instance.known(keys) == 3  # the last is computed
    assert instance.known(prefix_caching.keys_of([6, 6, 7, 8])) == 0


def test_ends_leave_before_beginnings_and_old_prompts_before_new_ones() -> None:
    instance = cache(3)
    old, new = prefix_caching.keys_of([1, 2]), prefix_caching.keys_of([3, 4])
    for keys in (old, new):
        instance.keep([(key, 0) for key in keys])
    assert set(instance.kept) == {old[0], *new}
