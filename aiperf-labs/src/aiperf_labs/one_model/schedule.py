"""The order in which requests are served, and the tokens that a text proposes.

The server and the model of its cost use the same. Imports no torch.
"""

from collections.abc import Mapping, Sequence

from attrs import define, field

from aiperf_labs.one_model.switches import Switches

PAIR = 2  # the tokens that a lookup compares


@define
class Queue:
    """Requests that wait for slots.

    wanted: the tokens of each answer.
    held: the request of each busy slot.
    left: the tokens that each request still wants.
    """

    wanted: Sequence[int]
    slots: int
    switches: Switches
    held: dict[int, int] = field(factory=dict, init=False)
    left: list[int] = field(init=False)
    _waiting: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.left = [*self.wanted]
        order = list(range(len(self.wanted)))
        if self.switches.longest_first:
            order.sort(key=lambda request: -self.wanted[request])
        self._waiting = order[::-1]

    @property
    def is_open(self) -> bool:
        """Whether a request waits or is served."""
        return bool(self._waiting or self.held)

    def admit(self) -> dict[int, int]:
        """The requests that start now, by their slots."""
        free = [slot for slot in range(self.slots) if slot not in self.held]
        if not self._waiting or not (free if self.switches.continuous else len(free) == self.slots):
            return {}
        chosen = {slot: self._waiting.pop() for slot in free[: len(self._waiting)]}
        self.held |= chosen
        return chosen

    def say(self, counts: Mapping[int, int]) -> list[int]:
        """Count tokens that slots have said, and return the slots whose requests have ended."""
        ended = []
        for slot, count in counts.items():
            request = self.held[slot]
            self.left[request] -= count
            if self.left[request] <= 0:
                ended.append(slot)
                del self.held[slot]
        return ended


def proposed(text: Sequence[int], count: int) -> list[int]:
    """The tokens behind the last earlier place of a text's last two tokens; at most `count`."""
    pair = tuple(text[-PAIR:])
    for place in range(len(text) - PAIR - 1, -1, -1):
        if tuple(text[place : place + PAIR]) == pair:
            return [*text[place + PAIR : place + PAIR + count]]
    return []


def agreed(draft: Sequence[int], said: Sequence[int]) -> int:
    """How many tokens of a draft are those that the model says."""
    count = 0
    while count < min(len(draft), len(said)) and draft[count] == said[count]:
        count += 1
    return count
