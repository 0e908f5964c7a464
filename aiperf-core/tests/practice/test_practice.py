"""The practice targets tell honest arithmetic from shortcuts, whatever the seed and the size."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pytest
import torch

from aiperf_core.benchmark import call_with
from aiperf_core.practice.plugin import aiperf_targets
from aiperf_core.validity.output_check import Comparison

SEEDS = range(6)
Compute = Callable[..., torch.Tensor]
Judged = Callable[..., Comparison]
Tensor = torch.Tensor

# A prime and overhanging size, the default of a short run, and a long reduction.
SIZES: dict[str, list[dict[str, float]]] = {
    "sum_rows": [{"rows": 7, "columns": 131}, {"rows": 13, "columns": 1021}, {"rows": 16, "columns": 4096}],
    "softmax": [{"rows": 7, "columns": 131}, {"rows": 13, "columns": 1021}, {"rows": 16, "columns": 4096}],
    "matmul": [{"m": 13, "n": 37, "k": 129}, {"m": 31, "n": 17, "k": 257}, {"m": 48, "n": 33, "k": 1024}],
}


def narrow(x: Tensor, mantissa_bits: int) -> Tensor:
    """Round float32 to fewer bits of mantissa, as tensor cores round their operands."""
    dropped = 23 - mantissa_bits
    bits = x.contiguous().view(torch.int32)
    return ((bits + (1 << dropped - 1)) >> dropped << dropped).view(torch.float32)


def chunked(x: Tensor, dtype: torch.dtype, chunks: int = 8) -> Tensor:
    """The sum over the last dimension with a narrow accumulator."""
    total = torch.zeros(x.shape[:-1], dtype=dtype)
    for part in x.to(dtype).split(max(1, x.shape[-1] // chunks), -1):
        total += part.sum(-1)
    return total.float()


def low_rank(a: Tensor, b: Tensor, part: float) -> Tensor:
    u, s, v = torch.linalg.svd(b, full_matrices=False)
    rank = max(1, int(part * len(s)))
    product: Tensor = (a @ (u[:, :rank] * s[:rank])) @ v[:rank]
    return product


def narrow_accumulator(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1], dtype=dtype)
    step = max(1, a.shape[1] // 8)
    for at in range(0, a.shape[1], step):
        total = total + (a[:, at : at + step] @ b[at : at + step]).to(dtype)
    return total.float()


def skip_idle_rows(x: Tensor, part: int) -> Tensor:
    live = (x[..., : max(1, x.shape[-1] // part)] != 0).any(-1)
    return torch.where(live, x.sum(-1), 0)


def skip_idle_products(a: Tensor, b: Tensor) -> Tensor:
    live = (a[:, : max(1, a.shape[1] // 16)] != 0).any(-1)
    return torch.where(live[:, None], a @ b, 0)


def without_small(y: Tensor, quantile: float) -> Tensor:
    return torch.where(y.abs() < y.abs().flatten().quantile(quantile), 0, y)


def drop_last(y: Tensor) -> Tensor:
    y = y.clone()
    y.view(-1)[-1] = 0
    return y


def product_like(a: Tensor, b: Tensor) -> Tensor:
    return torch.zeros(a.shape[0], b.shape[1])


CHEATS: dict[str, dict[str, Compute]] = {
    "sum_rows": {
        "zeros": lambda x: torch.zeros(x.shape[0]),
        "constant": lambda x: x.sum(-1).mean().expand(x.shape[0]).contiguous(),
        "nan": lambda x: torch.full((x.shape[0],), torch.nan),
        "first column": lambda x: x[:, 0].clone(),
        "every other element": lambda x: x[:, ::2].sum(-1) * 2,
        "first half": lambda x: x[:, : x.shape[1] // 2].sum(-1) * 2,
        "all but the last tenth": lambda x: x[:, : -(x.shape[1] // 10)].sum(-1),
        "all but one element": lambda x: x[:, :-1].sum(-1),
        "bfloat16 accumulator": lambda x: chunked(x, torch.bfloat16),
        "float16 accumulator": lambda x: chunked(x, torch.float16),
        "bfloat16 operands": lambda x: x.bfloat16().float().sum(-1),
        "float16 operands": lambda x: x.half().float().sum(-1),
        "TF32 operands": lambda x: narrow(x, 10).sum(-1),
        "rows that begin with zeros are zero": lambda x: skip_idle_rows(x, 16),
        "small results are zero": lambda x: without_small(x.sum(-1), 0.2),
        "no small elements": lambda x: torch.where(x.abs() < 1e-2, 0, x).sum(-1),
        "one result missing": lambda x: drop_last(x.sum(-1)),
        "clamped": lambda x: x.clamp(-5, 5).sum(-1),
    },
    "softmax": {
        "zeros": torch.zeros_like,
        "constant": lambda x: torch.full_like(x, 1 / x.shape[-1]),
        "nan": lambda x: torch.full_like(x, torch.nan),
        "identity": lambda x: x.clone(),
        "without the maximum": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        "the maximum of the first half": lambda x: _shifted(x, x[:, : x.shape[1] // 2].amax(-1, keepdim=True)),
        "the sum of every other element": lambda x: _shifted(x, x.amax(-1, keepdim=True), every=2),
        "bfloat16": lambda x: torch.softmax(x.bfloat16(), -1).float(),
        "float16": lambda x: torch.softmax(x.half(), -1).float(),
        "a result rounded to bfloat16": lambda x: torch.softmax(x, -1).bfloat16().float(),
        "TF32 operands": lambda x: torch.softmax(narrow(x, 10), -1),
        "small results are zero": lambda x: without_small(torch.softmax(x, -1), 0.4),
        "nothing below a thousandth": lambda x: torch.nn.functional.threshold(torch.softmax(x, -1), 1e-3, 0.0),
        "an exponential of three terms": lambda x: _taylor(x - x.amax(-1, keepdim=True)),
        "over the rows": lambda x: torch.softmax(x, 0),
    },
    "matmul": {
        "zeros": product_like,
        "nan": lambda a, b: product_like(a, b).fill_(torch.nan),
        "constant": lambda a, b: product_like(a, b) + (a @ b).mean(),
        "bfloat16 operands": lambda a, b: (a.bfloat16() @ b.bfloat16()).float(),
        "bfloat16 operands, float32 sums": lambda a, b: a.bfloat16().float() @ b.bfloat16().float(),
        "float16 operands": lambda a, b: a.half().float() @ b.half().float(),
        "TF32 operands": lambda a, b: narrow(a, 10) @ narrow(b, 10),
        "one TF32 operand": lambda a, b: a @ narrow(b, 10),
        "bfloat16 accumulator": lambda a, b: narrow_accumulator(a, b, torch.bfloat16),
        "float16 accumulator": lambda a, b: narrow_accumulator(a, b, torch.float16),
        "half of the rank": lambda a, b: low_rank(a, b, 0.5),
        "nearly all of the rank": lambda a, b: low_rank(a, b, 0.95),
        "part of the sum": lambda a, b: a[:, ::2] @ b[::2] * 2,
        "all of the sum but one": lambda a, b: a[:, :-1] @ b[:-1],
        "rows that begin with zeros are zero": skip_idle_products,
        "small results are zero": lambda a, b: without_small(a @ b, 0.1),
        "small weights are zero": lambda a, b: a @ without_small(b, 0.01),
        "eight bits of weight": lambda a, b: a @ ((b / b.abs().max() * 127).round() * b.abs().max() / 127),
        "one result missing": lambda a, b: drop_last(a @ b),
    },
}


def _shifted(x: Tensor, by: Tensor, every: int = 1) -> Tensor:
    e = (x - by).exp()
    return e / (e[:, ::every].sum(-1, keepdim=True) * every)


def _taylor(x: Tensor) -> Tensor:
    e = (1 + x / 256 + (x / 256) ** 2 / 2) ** 256
    return e / e.sum(-1, keepdim=True)


def one_by_one(x: Tensor) -> Tensor:
    """Sums with one float32 accumulator, element after element."""
    total = torch.zeros(x.shape[0])
    for column in x.unbind(-1):
        total += column
    return total


def indexed(x: Tensor) -> Tensor:
    index = torch.arange(x.shape[0]).repeat_interleave(x.shape[1])
    return torch.zeros(x.shape[0]).index_add_(0, index, x.reshape(-1))


def split_sums(a: Tensor, b: Tensor, parts: int) -> Tensor:
    step = max(1, a.shape[1] // parts)
    return torch.stack([a[:, at : at + step] @ b[at : at + step] for at in range(0, a.shape[1], step)]).sum(0)


def outer_products(a: Tensor, b: Tensor) -> Tensor:
    """One float32 accumulator an element, as a first kernel has."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for at in range(a.shape[1]):
        total += a[:, at : at + 1] * b[at : at + 1]
    return total


def online(x: Tensor) -> Tensor:
    """One pass over blocks that keeps a running maximum and sum."""
    top, total = torch.full((x.shape[0], 1), -torch.inf), torch.zeros(x.shape[0], 1)
    for part in x.split(64, -1):
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        total = total * (top - new).exp() + (part - new).exp().sum(-1, keepdim=True)
        top = new
    return (x - top).exp() / total


HONEST: dict[str, dict[str, Compute]] = {
    "sum_rows": {
        "library": lambda x: x.sum(-1),
        "float64 accumulator": lambda x: x.double().sum(-1).float(),
        "one by one": one_by_one,
        "index_add": indexed,
        "backwards": lambda x: one_by_one(x.flip(-1)),
        "by tiles": lambda x: torch.stack([part.sum(-1) for part in x.split(64, -1)]).sum(0),
        "a product with ones": lambda x: x @ torch.ones(x.shape[1]),
        "prefix sums": lambda x: x.cumsum(-1)[:, -1].contiguous(),
    },
    "softmax": {
        "library": lambda x: torch.softmax(x, -1),
        "through logsumexp": lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(),
        "in place on a copy": lambda x: _shifted(x.clone(), x.amax(-1, keepdim=True)),
        "float64": lambda x: torch.softmax(x.double(), -1).float(),
        "base two": lambda x: _base_two(x),
        "online": online,
        "times the reciprocal": lambda x: (
            (e := (x - x.amax(-1, keepdim=True)).exp()) * e.sum(-1, keepdim=True).reciprocal()
        ),
    },
    "matmul": {
        "library": lambda a, b: a @ b,
        "float64": lambda a, b: (a.double() @ b.double()).float(),
        "split sums": lambda a, b: split_sums(a, b, 4),
        "many split sums": lambda a, b: split_sums(a, b, 32),
        "one accumulator": outer_products,
        "packed": lambda a, b: torch.nn.functional.linear(a, b.t().contiguous()),
        "transposed": lambda a, b: (b.t() @ a.t()).t().contiguous(),
        "three TF32 products": lambda a, b: _three_products(a, b),
    },
}


def _base_two(x: Tensor) -> Tensor:
    e = ((x - x.amax(-1, keepdim=True)) * 1.4426950408889634).exp2()
    return e / e.sum(-1, keepdim=True)


def _three_products(a: Tensor, b: Tensor) -> Tensor:
    """float32 from tensor cores: each operand split into two of TF32, which loses nothing that matters."""
    a_high, b_high = narrow(a, 10), narrow(b, 10)
    a_low, b_low = narrow(a - a_high, 10), narrow(b - b_high, 10)
    return a_low @ b_high + a_high @ b_low + a_high @ b_high


def cases(of: Mapping[str, Mapping[str, Compute]]) -> list[tuple[str, str]]:
    return [(target, name) for target, computes in of.items() for name in computes]


@pytest.mark.parametrize(("target", "name"), cases(CHEATS))
def test_a_shortcut_is_refused_for_every_seed_and_size(judged: Judged, target: str, name: str) -> None:
    for sizes in SIZES[target]:
        passed = [seed for seed in SEEDS if judged(target, CHEATS[target][name], sizes, seed).error is None]
        assert passed == [], f"accepted at {sizes}"


@pytest.mark.parametrize(("target", "name"), cases(HONEST))
def test_honest_arithmetic_passes_for_every_seed_and_size(judged: Judged, target: str, name: str) -> None:
    for sizes in SIZES[target]:
        found = [judged(target, HONEST[target][name], sizes, seed) for seed in SEEDS]
        assert [one.error for one in found if one.error] == [], f"refused at {sizes}"
        # Not by a hair: what rounding does differs between machines.
        assert max(one.worst for one in found) < 0.9, f"close to the limit at {sizes}"


def test_the_contents_page_lists_what_there_is() -> None:
    listed = {one.name: one for one in aiperf_targets()}
    assert set(listed) == set(SIZES)
    assert all(one.devices == ("cpu", "cuda") for one in listed.values())


@pytest.mark.parametrize("target", SIZES)
def test_declared_implementations_are_right(judged: Judged, target: str) -> None:
    bench = import_module(f"aiperf_core.practice.{target}").bench
    assert bench.task.presets.keys() == {"smoke", "cpu", "cuda"}
    for device in ("cpu", "cuda"):
        roles = [one.role for one in bench.implementations_on(device)]
        assert roles.count("baseline") == 1
        assert "variant" in roles

    for one in bench.implementations_on("cpu"):
        for seed, sizes in enumerate(SIZES[target]):
            assert judged(target, prepared(one.code), sizes, seed).error is None, one.name


def prepared(code: Any) -> Compute:
    """An implementation as a function of the inputs."""

    def compute(**inputs: Tensor) -> Any:
        if not isinstance(code, type):
            return call_with(code, inputs)
        instance: Any = code()
        if hasattr(instance, "prepare"):
            call_with(instance.prepare, inputs)
        return call_with(instance.run, inputs)

    return compute


def test_inputs_differ_from_seed_to_seed_and_are_full(judged: Judged) -> None:
    seen: list[Tensor] = []

    def keep(a: Tensor, b: Tensor) -> Tensor:
        seen.append(a.clone())
        assert torch.linalg.matrix_rank(b) == min(b.shape)
        return a @ b

    for seed in (1, 2):
        judged("matmul", keep, SIZES["matmul"][1], seed)
    assert not torch.equal(*seen)
