"""Doubts are verified, four bits alone lose too much, and the packed product is right."""

from typing import Any

import pytest
import torch

from aiperf_ch19 import dynamic_precision_decode as decode
from aiperf_core.benchmark import bind, call_with

BENCH = decode.bench
SIZES: dict[str, Any] = {**BENCH.task.presets["cpu"], "width": 256, "hidden": 512, "steps": 150, "easy": 0.6}


def drawn(**changed: Any) -> dict[str, Any]:
    sizes = {**SIZES, **changed}
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(3)}
    assert BENCH.task.static is not None
    return {**sizes, **call_with(BENCH.task.inputs, given), **call_with(BENCH.task.static, given)}


def output(kind: Any, given: dict[str, Any]) -> torch.Tensor:
    instance = kind()
    call_with(instance.prepare, given)
    found: torch.Tensor = bind(instance.run, given)()
    return found


def test_doubts_are_verified_and_four_bits_alone_are_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    given = drawn()
    right = call_with(decode.reference, given)
    torch.testing.assert_close(output(decode.AllWhole, given), right, rtol=1e-4, atol=1e-4)
    assert decode.lost(output(decode.Verified, given), right) <= 1 - decode.AGREEMENT
    assert decode.lost(output(decode.Hysteresis, given), right) <= 1 - decode.AGREEMENT
    monkeypatch.setattr(decode, "MARGIN", -1.0)
    assert decode.lost(output(decode.Verified, given), right) > 2 * (1 - decode.AGREEMENT)


def test_hysteresis_leaves_out_passes_within_a_run_of_doubts() -> None:
    leads = {"packed": [9, 1, 1, 1, 9, 9], "whole": [9, 1, 2, 1, 9, 9]}
    counts = {}
    for kind in (decode.Verified, decode.Hysteresis):
        made: list[str] = []

        def step(name: str, place: int, made: list[str] = made) -> Any:
            return lambda: made.append(f"{name} {place}") or leads[name][place]  # type: ignore[func-returns-value]

        one = kind.__new__(kind)
        one.out = None
        one.steps = [[step(name, place) for place in range(6)] for name in ("packed", "whole")]
        one.run(None)
        counts[kind.__name__] = made
    assert len(counts["Verified"]) == 6 + 3
    # The first doubt is found by four bits; the token after the last one is whole too.
    whole = [f"whole {place}" for place in (1, 2, 3, 4)]
    assert counts["Hysteresis"] == ["packed 0", "packed 1", *whole, "packed 5"]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 64), (17, 65), (40, 200)])
def test_the_packed_product_is_that_of_its_codes(rows: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, x = torch.randn(rows, columns, generator=generator), torch.randn(1, columns, generator=generator)
    packed = decode.Packed(weight)
    codes = torch.empty(*packed.codes.shape[:2], decode.GROUP)
    for place, of_words in enumerate(decode.places(on_gpu=False)):
        codes[..., of_words] = (packed.codes >> 4 * place & 15).float() - 8
    wide = (codes * packed.scales[..., None]).flatten(1)[:, :columns]
    assert float((wide - weight).abs().max()) <= float(packed.scales.max()) / 2 * 1.001
    torch.testing.assert_close(packed(x), x @ wide.t(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_each_column_has_one_place(on_gpu: bool) -> None:
    assert decode.places(on_gpu).flatten().sort().values.tolist() == list(range(decode.GROUP))
