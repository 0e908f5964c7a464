"""`varlen` gives attention what it asks for, and lengths are those of the cost."""

import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

from aiperf_ch17 import prefill_packing
from aiperf_core.benchmark import call_with
from aiperf_core.models import ModelConfig

BENCH = prefill_packing.bench
SIZES: dict[str, Any] = {**BENCH.task.presets["smoke"], "width": 48, "bits": 16, "prompts": 5}


def drawn(sizes: dict[str, Any]) -> dict[str, Any]:
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    assert BENCH.task.static is not None
    return {**sizes, **call_with(BENCH.task.static, given), **call_with(BENCH.task.inputs, given)}


def test_varlen_is_told_where_prompts_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def varlen_attn(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        starts: torch.Tensor,
        others: torch.Tensor,
        longest: int,
        most: int,
        *,
        window_size: tuple[int, int],
    ) -> torch.Tensor:
        assert (starts is others, longest == most, window_size) == (True, True, (-1, 0))
        assert starts.dtype == torch.int32
        called.append(longest)
        bounds, out = starts.tolist(), torch.empty_like(query)
        for begin, end in pairwise(bounds):
            rows = [one[begin:end].transpose(0, 1)[None] for one in (query, key, value)]
            mixed = functional.scaled_dot_product_attention(*rows, is_causal=end - begin > 1, enable_gqa=True)
            out[begin:end] = mixed[0].transpose(0, 1)
        assert max(end - begin for begin, end in pairwise(bounds)) == longest
        return out

    module = ModuleType("torch.nn.attention.varlen")
    module.varlen_attn = varlen_attn  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
    given = drawn(SIZES)
    outputs = []
    for kind in (prefill_packing.Packed, prefill_packing.Varlen):
        instance = kind()
        call_with(instance.prepare, given)
        outputs.append(call_with(instance.run, given))
    assert len(called) == SIZES["layers"]
    torch.testing.assert_close(outputs[1], outputs[0])


def test_every_draw_has_the_tokens_of_the_cost() -> None:
    sizes = {**BENCH.task.presets["cpu"]}
    for seed in (1, 2):
        draw = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(seed)}
        length = call_with(BENCH.task.inputs, draw)["length"]
        assert int(length.sum()) == BENCH.work(sizes).tokens
    # Half of the prompts are shorter than the median, and the padding is most of a batch.
    assert int((length < sizes["median"]).sum()) == sizes["prompts"] // 2
    assert float(length.sum() / (length.max() * len(length))) < 0.5


@pytest.mark.parametrize(("preset", "padded", "buckets"), [("cpu", 3.9, 1.5), ("cuda", 4.9, 1.8)])
def test_padding_is_as_predicted(preset: str, padded: float, buckets: float) -> None:
    sizes = BENCH.task.presets[preset]
    names = ("layers", "width", "heads", "kv_heads", "hidden", "vocabulary")
    model = ModelConfig(**{name: int(sizes[name]) for name in names})
    counts = sorted(prefill_packing.lengths(sizes["prompts"], sizes["median"], sizes["spread"], sizes["longest"]))
    size = -(-len(counts) // prefill_packing.Buckets.GROUPS)

    def work(groups: list[list[int]]) -> float:
        """The operations of groups that are padded to their longest, as a multiple of those of the real tokens."""
        flops = sum(len(one) * model.flops(one[-1], one[-1] * (one[-1] + 1) / 2, 0) for one in groups)
        return round(flops / BENCH.work(sizes).flops, 1)

    assert work([counts]) == padded
    assert work([counts[first : first + size] for first in range(0, len(counts), size)]) == buckets
    assert work([[one] for one in counts]) == 1.0
