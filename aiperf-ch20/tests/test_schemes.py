"""Schemes are proven as tensors, and searches find them."""

import pytest
import torch

from aiperf_ch20 import fast_matmul_search, schemes
from aiperf_core.benchmark import call_with


def test_strassens_scheme_is_right_and_a_wrong_one_is_not() -> None:
    assert schemes.is_right(schemes.STRASSEN)
    assert schemes.is_right(schemes.standard())
    assert not schemes.is_right(schemes.STRASSEN[:-1])
    (u, v, w), *others = schemes.STRASSEN
    assert not schemes.is_right([(u, v, schemes.negative(w)), *others])


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_search_finds_a_scheme_of_seven_products(seed: int) -> None:
    found = schemes.search(seed)
    assert len(found) == 7
    assert schemes.is_right(found)
    assert {abs(one) for term in found for factor in term for one in factor} == {0, 1}
    assert found != schemes.STRASSEN


def test_a_seed_always_gives_the_same_scheme() -> None:
    assert schemes.search(4) == schemes.search(4)


def test_a_wrong_scheme_gives_a_wrong_product(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: torch.randint(9, (24, 24)) for name in ("a", "b")} | {"bits": 61}
    for wrong in (False, True):
        if wrong:
            monkeypatch.setattr(fast_matmul_search.ThreeLevels, "scheme", schemes.STRASSEN[:-1])
        one = fast_matmul_search.ThreeLevels()
        call_with(one.prepare, given)
        assert torch.equal(call_with(one.run, given), given["a"] @ given["b"]) is not wrong


@pytest.mark.parametrize(("size", "bits"), [(1, 32), (7, 32), (66, 32), (33, 16)])
def test_blocks_of_the_library_are_right(size: int, bits: int) -> None:
    given = fast_matmul_search.inputs(size, bits, "cpu", torch.Generator().manual_seed(1)) | {"bits": bits}
    one = fast_matmul_search.Blocks()
    call_with(one.prepare, given)
    right = given["a"].double() @ given["b"].double()
    error = (call_with(one.run, given).double() - right).norm() / right.norm()
    assert error < fast_matmul_search.tolerance(bits).rel_l2


def test_the_reference_is_right_modulo_the_prime() -> None:
    prime = fast_matmul_search.PRIME
    a, b = (torch.randint(prime - 99, prime, (3, 3)) for _ in range(2))
    wanted = [
        [sum(x * y for x, y in zip(row, column, strict=True)) % prime for column in zip(*b.tolist(), strict=True)]
        for row in a.tolist()
    ]
    assert fast_matmul_search.reference(a, b, 61).tolist() == wanted
