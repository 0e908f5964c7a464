"""Layers of experts: how tokens choose their experts, and products of rows that are sorted by expert.

    likely = popularity(experts, skew=0.25)
    logits = router_logits(likely, tokens, device, generator)         # [tokens, experts]
    shares, routes = logits.topk(chosen, -1)
    order, ends = sorted_by_expert(routes, experts)
    rows = x[order // chosen]                       # sorted by expert; the rows of expert e end at ends[e]
    ...
    out = combined(to_slots(results, order), shares)                  # [tokens, width]

A choice of a token is a *slot*, of the number token * chosen + choice.

`expert_kernels` has two Triton kernels that multiply the rows of all experts in one launch. A benchmark imports it at
its module level, where `aiperf kernels` finds it, and takes the grid and the compile-time values from `expert_tiles`.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from aiperf_core.kernels import TritonAhead, triton_ahead, triton_source

__all__ = [
    "TILE_COLUMNS",
    "combined",
    "expected_experts",
    "expert_kernels",
    "expert_tiles",
    "expert_weights",
    "popularity",
    "router_logits",
    "sorted_by_expert",
    "swiglu",
    "to_slots",
]

# The columns of a tile by kernel; `gathered_swiglu` has a tile of gate and one of up, in the same registers.
TILE_COLUMNS = {"gathered": 128, "gathered_swiglu": 64}
_MOST_ROWS, _DEPTH, _STAGES = 128, 64, 3
_LEAST_ROWS = 16  # of a tensor core's product


def popularity(experts: int, skew: float) -> Tensor:
    """The probability of each expert, [experts] in float64, falling with its rank to the power of `skew`."""
    weight = torch.arange(1, experts + 1, dtype=torch.float64) ** -skew
    return weight / weight.sum()


def expected_experts(likely: Tensor, draws: float) -> float:
    """The mean number of different experts among draws by these probabilities, put back after each draw.

    Draws that are not put back, such as the experts of a token, reach at least this number.
    """
    return float((1 - (1 - likely) ** draws).sum())


def router_logits(likely: Tensor, tokens: int, device: torch.device | str, generator: torch.Generator) -> Tensor:
    """Logits [tokens, experts] in float64, of which the largest are draws by these probabilities, not put back.

    They are log p plus Gumbel noise (Kool et al., Stochastic beams and where to find them, 2019). Which expert has
    which probability is drawn too.
    """
    experts = len(likely)
    uniform = torch.rand(tokens, experts, dtype=torch.float64, device=device, generator=generator).clamp_min_(1e-12)
    order = torch.randperm(experts, device=device, generator=generator)
    return likely.log().to(device)[order] - (-uniform.log()).log()


def expert_weights(
    experts: int, width: int, hidden: int, device: torch.device | str, dtype: torch.dtype, generator: torch.Generator
) -> dict[str, Tensor]:
    """The weights of all experts.

    gate_up: [experts, width, 2 hidden], gate and up side by side.
    down: [experts, hidden, width].
    """

    def matrices(rows: int, columns: int) -> Tensor:
        drawn = torch.randn(experts, rows, columns, device=device, generator=generator)
        return drawn.div_(math.sqrt(rows)).to(dtype)

    return {"gate_up": matrices(width, 2 * hidden), "down": matrices(hidden, width)}


def sorted_by_expert(routes: Tensor, experts: int) -> tuple[Tensor, Tensor]:
    """The slots of `routes` [tokens, chosen] sorted by expert, and the end of each expert's slots in int32.

    The host does not wait for the GPU.
    """
    found = routes.flatten().sort(stable=True)
    every = torch.arange(experts, device=routes.device)
    return found.indices, torch.searchsorted(found.values, every, right=True, out_int32=True)


def swiglu(wide: Tensor) -> Tensor:
    """silu(gate) * up, of gate and up side by side in the last dimension."""
    gate, up = wide.chunk(2, -1)
    return functional.silu(gate) * up


def to_slots(results: Tensor, order: Tensor) -> Tensor:
    """Results in sorted order, each put into its slot."""
    return torch.empty_like(results).index_copy_(0, order, results)


def combined(slots: Tensor, shares: Tensor) -> Tensor:
    """The sum of the results of each token, weighted by `shares` [tokens, chosen]; they lie side by side in `slots`."""
    return torch.bmm(shares.to(slots.dtype)[:, None], slots.view(*shares.shape, -1))[:, 0]


def expert_tiles(slots: int, experts: int) -> tuple[int, dict[str, int]]:
    """The largest number of tiles of rows that this number of slots has, and the compile-time values of a launch.

    Tiles have fewer rows where experts have few. The grid is the number of tiles times that of tiles of columns.
    """
    rows = min(_MOST_ROWS, max(_LEAST_ROWS, 1 << (slots // experts).bit_length()))
    size = {"ROWS": rows, "DEPTH": _DEPTH, "EXPERTS": 1 << (experts - 1).bit_length()}
    return slots // rows + min(experts, slots), size | _launched_with(rows)


def _launched_with(rows: int) -> dict[str, int]:
    return {"num_warps": 8 if rows > 64 else 4, "num_stages": _STAGES}


def _ahead(kernel: str, rows: int, **constants: bool) -> TritonAhead:
    pointers = dict.fromkeys(("x_ptr", "weights_ptr", "out_ptr"), "*bf16:16")
    indices = {"order_ptr": "*i64:16", "ends_ptr": "*i32:16"}
    sizes = {"experts": "i32:16", "chosen": "i32", "depth": "i32:16", "columns": "i32:16"}
    tile = {"ROWS": rows, "COLUMNS": TILE_COLUMNS[kernel], "DEPTH": _DEPTH, "EXPERTS": 64}
    return triton_ahead(
        kernel, signature=pointers | indices | sizes, constants=tile | constants, **_launched_with(rows)
    )


expert_kernels = triton_source(
    "experts_triton.py",
    _ahead("gathered", _MOST_ROWS, GATHER=True),
    _ahead("gathered", _LEAST_ROWS, GATHER=False),
    _ahead("gathered_swiglu", _MOST_ROWS),
    _ahead("gathered_swiglu", _LEAST_ROWS),
    archs=("sm_80", "sm_90"),
)
