"""What `pytest --aiperf` does not test of the targets: kernels under Triton's interpreter, and wrong sizes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch18 import flash_decode, kv_block_allocator, mini_engine, rope_kv_append
from aiperf_core.benchmark import call_with
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.testing import interpreted

KERNELS = (
    "fused heads_together per_row split tensor_cores staged cascade:separate cascade:prefix_once cascade:one_launch "
    "latents:one_pass latents:split skipped edges tiles:computed tiles:listed tiles:whole_tiles tiles:longest_first"
)


def test_kernels_are_right_when_interpreted() -> None:
    said = [f"{name} is right" for name in KERNELS.split()]
    assert interpreted(Path(__file__).with_name("interpreted_kernels.py")).splitlines() == said


@pytest.mark.parametrize("length", [1, 63, 64, 65, 8191, 65536])
@pytest.mark.parametrize("rows", [1, 8, 264, 1000])
def test_parts_cover_the_keys_and_none_is_empty(length: int, rows: int) -> None:
    span, splits = flash_decode.parts(length, rows, block=64, wanted=264)
    assert span % 64 == 0
    assert span * (splits - 1) < length <= span * splits
    assert rows * splits <= max(264, rows)


def test_parts_on_a_cpu_are_not_empty() -> None:
    for length in range(1, 40):
        span, splits = flash_decode.parts(length, rows=1, block=1, wanted=flash_decode.CPU_PARTS)
        assert span * (splits - 1) < length <= span * splits


@pytest.mark.parametrize("width", [8, 33, 80, 512])
def test_a_width_without_a_kernel_is_skipped(width: int) -> None:
    with pytest.raises(SkipError) as caught:
        flash_decode.PerRow().prepare(torch.empty(1, 4, width), torch.empty(1, 2, 7, width))
    assert str(caught.value) == f"takes heads of 16, 32, 64, 128, 256 elements; these have {width}"


def test_heads_share_evenly() -> None:
    with pytest.raises(UsageError) as caught:
        flash_decode.inputs(1, 6, 4, 16, 7, "cpu", torch.Generator())
    assert str(caught.value) == "heads=6 and kv_heads=4; accepted are heads that share evenly"


def test_an_odd_width_has_no_pairs() -> None:
    with pytest.raises(UsageError) as caught:
        rope_kv_append.inputs(1, 1, 4, 2, 33, 7, "cpu", torch.Generator())
    assert str(caught.value) == "width=33, new=1, longest=7; accepted are even widths and new <= longest"


def test_no_two_tokens_have_one_place() -> None:
    drawn = rope_kv_append.inputs(5, 33, 1, 1, 2, 61, "cpu", torch.Generator().manual_seed(1))
    assert len(drawn["slots"].unique()) == 5 * 33
    assert bool((drawn["slots"] % rope_kv_append.PAGE == drawn["positions"] % rope_kv_append.PAGE).all())


def trace(**sizes: Any) -> dict[str, Any]:
    """What an allocator is given."""
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    return {**given, **call_with(kv_block_allocator.inputs, given)}


def test_rows_read_back_what_they_wrote() -> None:
    given = trace(steps=70, rows=9, ending=2, longest=19, forked=0.6)
    out = call_with(kv_block_allocator.with_lists, given)
    page = kv_block_allocator.PAGE
    memory: dict[int, Any] = {}
    # Each row's own memory, as if nothing were shared, against that of the blocks. A prompt's content is not known.
    rows: list[list[Any]] = [[] for _ in range(9)]
    for step in range(70):
        starts = zip(*(given[name][step].tolist() for name in ("ended", "parents", "prompts")), strict=True)
        for row, parent, length in starts:
            rows[row] = [None] * length if parent < 0 else rows[parent].copy()
        for row, (slot, copied) in enumerate(
            zip(*(out[name][step].tolist() for name in ("slots", "copied")), strict=True)
        ):
            for offset in range(slot % page if copied >= 0 else 0):
                memory[slot - slot % page + offset] = memory.get(copied * page + offset)
            rows[row].append((step, row))
            memory[slot] = (step, row)
    for row, kept in enumerate(rows):
        table = out["tables"][row].tolist()
        for place, token in enumerate(kept):
            assert token is None or memory[table[place // page] * page + place % page] == token
    assert (out["copied"] >= 0).sum() > 20


@pytest.mark.parametrize("steps", [1, 2, 17, 40])
def test_a_block_has_as_many_users_as_tables_name_it(steps: int) -> None:
    out = call_with(kv_block_allocator.with_lists, trace(steps=steps, rows=31, ending=9, longest=67, forked=0.5))
    named = out["tables"][out["tables"] >= 0]
    assert torch.equal(out["counts"], torch.bincount(named, minlength=len(out["counts"])).int())


@pytest.mark.parametrize(
    ("preset", "steps", "passes", "prefilled"),
    [
        ("cpu", (109, 60, 60), (3, 9, 10), (3036, 2955, 491)),
        ("cuda", (247, 136, 136), (2, 10, 11), (12160, 11909, 5893)),
    ],
)
def test_engines_take_the_predicted_steps_and_tokens(
    preset: str, steps: tuple[int, ...], passes: tuple[int, ...], prefilled: tuple[int, ...]
) -> None:
    small = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "hidden": 8, "vocabulary": 67, "bits": 32}
    given: dict[str, Any] = {**mini_engine.bench.task.presets[preset], **small, "device": "cpu"}
    given["generator"] = torch.Generator().manual_seed(1)
    given |= call_with(mini_engine.parameters, given) | call_with(mini_engine.inputs, given)
    counted: list[tuple[int, list[int]]] = []
    for engine in (mini_engine.StaticBatches, mini_engine.Continuous, mini_engine.PrefixCache):

        class Counting(engine):  # type: ignore[misc, valid-type]
            def learn(self) -> None:
                self.steps, self.tokens = 0, list[int]()

            def step(self, places: int) -> None:
                self.steps += 1
                super().step(places)

            def prefill(self, row: Any, prompts: Any, begin: int) -> Any:
                self.tokens.append(prompts[:, begin:].numel())  # padding included
                return super().prefill(row, prompts, begin)

        instance = Counting()
        call_with(instance.prepare, given)
        out = call_with(instance.run, given)
        assert int((out["tokens"] >= 0).sum()) == int(given["new"].sum())
        counted.append((instance.steps, instance.tokens))
    assert tuple(number for number, _ in counted) == steps
    assert tuple(len(tokens) for _, tokens in counted) == passes
    assert tuple(sum(tokens) for _, tokens in counted) == prefilled


def test_an_engine_needs_a_prompt_beyond_the_prefix() -> None:
    with pytest.raises(UsageError, match="accepted are shared < shortest <= longest, and 1 <= least <= most"):
        mini_engine.inputs(2, 1, 67, 5, 5, 9, 1, 3, "cpu", torch.Generator())
