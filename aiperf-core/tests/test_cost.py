import math

import pytest

from aiperf_core import Cost
from aiperf_core.cost import PRECISIONS
from aiperf_core.errors import BenchmarkError

AMOUNTS = ("bytes_read", "bytes_written", "flops", "wire_bytes", "disk_read_bytes", "disk_written_bytes", "tokens")


def test_a_cost_keeps_what_was_declared() -> None:
    cost = Cost(bytes_read=4, flops=2, precision="bf16")
    assert (cost.bytes_read, cost.bytes_written, cost.flops, cost.wire_bytes, cost.tokens) == (4, 0, 2, 0, 0)
    assert cost.precision == "bf16"


@pytest.mark.parametrize("name", AMOUNTS[:-1])
def test_any_work_is_enough(name: str) -> None:
    assert getattr(Cost(**{name: 1}), name) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_is_accepted(precision: str) -> None:
    assert Cost(flops=1, precision=precision).precision == precision


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, math.inf, "4", None])
def test_amounts_that_cannot_be(name: str, value: object) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Cost(**{"bytes_read": 1, name: value})  # type: ignore[arg-type]
    assert str(caught.value) == f"a cost cannot have {name}={value!r}; accepted is a finite number from 0"


def test_a_precision_that_no_ceiling_has() -> None:
    with pytest.raises(BenchmarkError) as caught:
        Cost(flops=1, precision="fp12")
    assert str(caught.value) == ("a cost has precision='fp12'; accepted are fp64, fp32, tf32, fp16, bf16, fp8, int8")


@pytest.mark.parametrize("tokens", [0, 7])
def test_no_work_at_all(tokens: int) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Cost(tokens=tokens)
    assert str(caught.value) == (
        "a cost of nothing was declared; give bytes_read, bytes_written, flops, wire_bytes, disk_read_bytes, "
        "disk_written_bytes, to_device_bytes, from_device_bytes, shared_bytes, sectors, special_functions, launches or "
        "serial_steps"
    )
