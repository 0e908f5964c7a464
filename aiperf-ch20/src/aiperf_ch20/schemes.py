"""Schemes that multiply 2 x 2 matrices of blocks with fewer than eight products, and a search that finds them.

A scheme is a sum of terms u x v x w: the product (sum of u_q A_q) (sum of v_q B_q) is added to block q of C with
factor w_q. It is right if it is the tensor of matrix multiplication, for which no number has to be multiplied.
"""

import random
from collections import defaultdict
from functools import cache
from itertools import product

Factor = tuple[int, ...]
Scheme = list[tuple[Factor, Factor, Factor]]

ZERO: Factor = (0, 0, 0, 0)
PATIENCE = 20_000  # flips, before a search starts again

# V. Strassen, Gaussian elimination is not optimal, 1969. Blocks in the order 11, 12, 21, 22.
STRASSEN: Scheme = [
    ((1, 0, 0, 1), (1, 0, 0, 1), (1, 0, 0, 1)),
    ((0, 0, 1, 1), (1, 0, 0, 0), (0, 0, 1, -1)),
    ((1, 0, 0, 0), (0, 1, 0, -1), (0, 1, 0, 1)),
    ((0, 0, 0, 1), (-1, 0, 1, 0), (1, 0, 1, 0)),
    ((1, 1, 0, 0), (0, 0, 0, 1), (-1, 1, 0, 0)),
    ((-1, 0, 1, 0), (1, 1, 0, 0), (0, 0, 0, 1)),
    ((0, 1, 0, -1), (0, 0, 1, 1), (1, 0, 0, 0)),
]


def standard() -> Scheme:
    """The eight products of the definition."""

    def one(row: int, column: int) -> Factor:
        return tuple(int(place == 2 * row + column) for place in range(4))

    return [(one(i, k), one(k, j), one(i, j)) for i, j, k in product(range(2), repeat=3)]


def is_right(scheme: Scheme) -> bool:
    """Whether the terms add up to the tensor of 2 x 2 matrix multiplication."""
    return tensor(scheme) == tensor(standard())


def tensor(scheme: Scheme) -> list[int]:
    """The sum of the terms, entry by entry."""
    places = list(product(range(4), repeat=3))
    return [sum(u[a] * v[b] * w[c] for u, v, w in scheme) for a, b, c in places]


def search(seed: int, rank: int = 7) -> Scheme:
    """A scheme of `rank` products, by random flips from the definition (Kauers and Moosbauer, Flip graphs, 2022).

    Two terms with a common factor are changed so that their sum is the same: x y z + x y' z' = x (y + y') z +
    x y' (z' - z). When a factor becomes zero, its term is gone, and with it a product. Coefficients stay -1, 0 and 1.
    """
    draw = random.Random(seed)
    while True:
        terms = [list(term) for term in standard()]
        for _ in range(PATIENCE):
            if len(terms) <= rank:
                return [(u, v, w) for u, v, w in terms]
            if not flip(terms, draw):
                break
            terms = [term for term in terms if ZERO not in term]


def flip(terms: list[list[Factor]], draw: random.Random) -> bool:
    """Change two terms with a common factor; whether there are any."""
    for common, grown, other in draw.sample([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)], 6):
        alike = defaultdict(list)
        for number, term in enumerate(terms):
            alike[direction(term[common])].append(number)
        groups = [group for group in alike.values() if len(group) > 1]
        if not groups:
            continue
        first, second = (terms[number] for number in draw.sample(draw.choice(groups), 2))
        moved = second[grown] if first[common] == second[common] else negative(second[grown])
        raised = tuple(x + y for x, y in zip(first[grown], moved, strict=True))
        lowered = tuple(x - y for x, y in zip(second[other], first[other], strict=True))
        if max(map(abs, raised + lowered)) <= 1:
            second[common], second[grown], first[grown], second[other] = first[common], moved, raised, lowered
        return True
    return False


@cache
def direction(factor: Factor) -> Factor:
    """The same for a factor and its negative."""
    return max(factor, negative(factor))


@cache
def negative(factor: Factor) -> Factor:
    return tuple(-one for one in factor)
