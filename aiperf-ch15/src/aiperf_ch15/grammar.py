"""Automata of regular expressions over bytes, and the tokens that are legal in each of their states.

number = then(repeat(literal("-"), 0, 1), repeat(one_of("0123456789"), 1, 4))
table, accepting = automaton(number)                    # [states, 256], -1 where a byte is not legal
after = legal_tokens(table, accepting, vocabulary, "cpu")  # [states, tokens], the next state, -1 where not legal
"""

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from aiperf_core.errors import UsageError

Steps = list[tuple[int, bytes, int]]  # from a place, over one of these bytes, to a place; no bytes is a step over none
Expression = Callable[
    [Steps, int, int], int
]  # adds its steps from a place on; takes and returns the first unused place


def one_of(characters: str) -> Expression:
    """Exactly one of these characters."""

    def add(steps: Steps, begin: int, unused: int) -> int:
        steps.append((begin, characters.encode(), unused))
        return unused + 1

    return add


def then(*parts: Expression) -> Expression:
    """Expressions, one after the other. The end of each is the last place that it makes."""

    def add(steps: Steps, begin: int, unused: int) -> int:
        for part in parts:
            unused = part(steps, begin, unused)
            begin = unused - 1
        return unused

    return add


def literal(text: str) -> Expression:
    """Exactly this text."""
    return then(*map(one_of, text))


def either(*parts: Expression) -> Expression:
    """Any of these expressions."""

    def add(steps: Steps, begin: int, unused: int) -> int:
        ends = []
        for part in parts:
            unused = part(steps, begin, unused)
            ends.append(unused - 1)
        steps.extend((end, b"", unused) for end in ends)
        return unused + 1

    return add


def repeat(part: Expression, least: int, most: int) -> Expression:
    """An expression, `least` to `most` times."""

    def add(steps: Steps, begin: int, unused: int) -> int:
        ends = [begin]
        for _ in range(most):
            unused = part(steps, ends[-1], unused)
            ends.append(unused - 1)
        steps.extend((end, b"", unused) for end in ends[least:])
        return unused + 1

    return add


def automaton(expression: Expression) -> tuple[Tensor, Tensor]:
    """The deterministic automaton, state 0 first: [states, 256] in int64, and which states accept, [states]."""
    steps: Steps = []
    last = expression(steps, 0, 1) - 1
    leaving: dict[int, list[tuple[bytes, int]]] = {}
    for begin, over, end in steps:
        leaving.setdefault(begin, []).append((over, end))

    def closed(places: set[int]) -> frozenset[int]:
        """Places, and those after steps over no byte."""
        left = list(places)
        while left:
            found = {end for over, end in leaving.get(left.pop(), ()) if not over} - places
            places |= found
            left += found
        return frozenset(places)

    states = {closed({0}): 0}
    rows: list[list[int]] = []
    for state in (queue := list(states)):  # which grows
        targets: dict[int, set[int]] = {}
        for place in state:
            for over, end in leaving.get(place, ()):
                for byte in over:
                    targets.setdefault(byte, set()).add(end)
        rows.append([-1] * 256)
        for byte, places in sorted(targets.items()):
            target = closed(places)
            if target not in states:
                states[target] = len(states)
                queue.append(target)
            rows[-1][byte] = states[target]
    return torch.tensor(rows), torch.tensor([last in state for state in states])


def vocabulary(size: int, texts: Sequence[str]) -> list[bytes]:
    """Tokens: all bytes, pieces of two to four characters of `texts`, then drawn words and numbers; the end is last."""
    drawn, tokens = random.Random(1), dict.fromkeys(bytes([byte]) for byte in range(256))
    pieces = (text[at : at + long] for text in texts for long in (2, 3, 4) for at in range(len(text) - long + 1))
    tokens.update(dict.fromkeys(piece.encode() for piece in pieces))
    if len(tokens) >= size:
        raise UsageError(f"a vocabulary of {size} tokens was asked for; accepted are more than {len(tokens)}")
    while len(tokens) < size - 1:
        letters = "0123456789" if drawn.random() < 0.02 else " abcdefghijklmnopqrstuvwxyz"
        tokens["".join(drawn.choices(letters, k=drawn.randint(2, 6))).encode()] = None
    return [*tokens, b""]


def legal_tokens(table: Tensor, accepting: Tensor, tokens: Sequence[bytes], device: torch.device | str) -> Tensor:
    """The state after each token, [states, tokens] in int16; -1 where it is not legal. The last token is the end.

    Where a state and those after it have one legal byte each, the longest token of such bytes alone is legal, as a
    tokenizer writes it. Raises `UsageError` for a state that can neither end nor go on.
    """
    states = len(table)
    nowhere = torch.full((1, 256), states)  # the state after a byte that is not legal
    moves = torch.cat([table.masked_fill(table < 0, states), nowhere]).to(device)
    single, accepting = (moves < states).sum(1) == 1, accepting.to(device)
    end = torch.full((states, len(tokens)), states, dtype=torch.int16, device=device)
    forced = torch.zeros(states, len(tokens), dtype=torch.bool, device=device)
    # All tokens begin with prefixes that they share; those of a length are walked at the same time.
    known, now, only = (
        {b"": 0},
        torch.arange(states, device=device)[:, None],
        torch.ones(states, 1, dtype=torch.bool, device=device),
    )
    for long in range(1, max(map(len, tokens)) + 1):
        prefixes = list(dict.fromkeys(token[:long] for token in tokens if len(token) >= long))
        parents = torch.tensor([known[prefix[:-1]] for prefix in prefixes], device=device)
        before = now[:, parents]
        only = only[:, parents] & single[before]
        now = moves.flatten()[before * 256 + torch.tensor([prefix[-1] for prefix in prefixes], device=device)]
        known = {prefix: number for number, prefix in enumerate(prefixes)}
        whole = [number for number, token in enumerate(tokens) if len(token) == long]
        places = torch.tensor([known[tokens[number]] for number in whole], dtype=torch.int64, device=device)
        end[:, whole], forced[:, whole] = now[:, places].short(), only[:, places]
    rows, numbers = torch.arange(states, device=device), torch.arange(len(tokens), device=device)
    end[:, -1] = torch.where(accepting, rows, states).short()
    legal = end < states
    if not legal.any(1).all():
        state = int(rows[~legal.any(1)][0])
        raise UsageError(f"state {state} of the grammar has no legal token, and may not end")
    lengths = torch.tensor([len(token) for token in tokens], dtype=torch.int8, device=device)
    best = torch.where(legal & forced, lengths, 0)
    alone = single[:-1] & ~accepting & (best.amax(1) > 0)
    legal = torch.where(alone[:, None], numbers == best.argmax(1)[:, None], legal)
    return torch.where(legal, end, -1)
