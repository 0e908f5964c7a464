"""A transformer with continuous batching, whose tokens are planted, so that each can be verified."""

import torch
from attrs import define

from aiperf_core.errors import AiperfError
from aiperf_core.models import Cache, Transformer, build, config

ROUNDED = 64  # places: attention reads the cache up to a multiple of these


class WrongToken(AiperfError):
    """The model gave another token than the planted one."""


@define(eq=False)
class Row:
    """A request in the batch: the place of its next token, and that token's predecessor."""

    place: int
    token: int


class Engine:
    """Rows that each have room for a request. Not safe for several threads at once."""

    def __init__(self, rows: int, room: int, seed: int = 1, model: str = "tiny") -> None:
        torch.manual_seed(seed)
        sizes = config(model)
        self.model: Transformer = build(sizes, "cpu", torch.float32, torch.Generator().manual_seed(seed))
        self.rows, self.room, self.vocabulary = rows, room, sizes.vocabulary
        self.successor: list[int] = self.model.successor.tolist()
        self._cache = Cache(sizes, rows, room, "cpu", torch.float32)
        self._running: dict[int, Row] = {}

    @property
    def free(self) -> list[int]:
        """Rows without a request."""
        return [row for row in range(self.rows) if row not in self._running]

    @torch.inference_mode()
    def start(self, row: int, prompt: list[int]) -> int:
        """Give a free row to a request: read its prompt, and return its first token."""
        places = torch.arange(len(prompt))[None]
        states = self.model.states_at(
            torch.tensor([prompt]), places, self._cache, span=self._span(len(prompt)), rows=torch.tensor([row])
        )
        found = int(self.model.logits(states[:, -1]).argmax(-1))
        self._verify(prompt[-1], found)
        self._running[row] = Row(len(prompt), found)
        return found

    @torch.inference_mode()
    def step(self) -> dict[int, int]:
        """One more token of each running row, in one pass through the model."""
        rows = list(self._running)
        running = [self._running[row] for row in rows]
        states = self.model.states_at(
            torch.tensor([[one.token] for one in running]),
            torch.tensor([[one.place] for one in running]),
            self._cache,
            span=self._span(max(one.place for one in running) + 1),
            rows=torch.tensor(rows),
        )
        tokens = self.model.logits(states[:, -1]).argmax(-1).tolist()
        for one, found in zip(running, tokens, strict=True):
            self._verify(one.token, found)
            one.place, one.token = one.place + 1, found
        return dict(zip(rows, tokens, strict=True))

    def end(self, row: int) -> None:
        """Free a row."""
        del self._running[row]

    def _span(self, places: int) -> int:
        return min(self.room, -(-places // ROUNDED) * ROUNDED)

    def _verify(self, before: int, found: int) -> None:
        if found != self.successor[before]:
            raise WrongToken(f"token {found} follows {before}; the planted one is {self.successor[before]}")
