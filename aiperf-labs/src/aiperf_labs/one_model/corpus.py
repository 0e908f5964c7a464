"""A corpus of known entropy: documents of a seeded probabilistic grammar, with passages to copy and facts to recall.

A document is a list of words:

    FACTS      for each of `facts` keys, in any order: KEY VALUE
    PASSAGES   `passages` times one of
        chain  a word, and then its likely successors, until `stop`
        copy   copy, `copied` random values, again, the same values
        query  what, one of the keys above, its value
    END        end

Every word is chosen by a known distribution, and no text has two derivations. So the surprisal of a text is the sum of
those of its words, and its mean, the entropy, is a finite sum. No model predicts better than that.
"""

import math
import random
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, permutations

from attrs import frozen

# How likely the successors of a word are, in any grammar.
SUCCESSORS = (0.5, 0.25, 0.125, 0.125)
KINDS = ("chain", "copy", "query")
COPY, AGAIN, WHAT, STOP, END = "copy", "again", "what", "stop", "end"
_ONSETS, _VOWELS = "bdfgklmnprstvz", "aeiou"


@frozen
class Spoken:
    """A word of a document.

    surprisal: minus the logarithm of its chance after the words before, in nats.
    recalled: whether it is certain from what was said long before: a value of a query, or of the second half of a copy.
    ends: whether a fact or a passage ends with it.
    """

    word: str
    surprisal: float
    recalled: bool = False
    ends: bool = False


@frozen(kw_only=True)
class Grammar:
    """The distribution of documents.

    words: of chains; each has its successors.
    keys, values: of facts; copies are of values.
    facts, passages: of a document.
    copied: the values of a copy.
    longest: the most words of a chain. After each word but that one a chain ends with the chance 1 / `mean`.
    shares: the chances of the kinds of passages.
    seed: of the spelling and of the successors.
    """

    words: int = 96
    keys: int = 16
    values: int = 32
    facts: int = 4
    passages: int = 6
    copied: int = 6
    longest: int = 16
    mean: int = 8
    shares: tuple[float, float, float] = (0.3, 0.4, 0.3)
    seed: int = 1

    @cached_property
    def spelling(self) -> tuple[str, ...]:
        """Different words of two or more syllables: those of chains, then keys, then values."""
        drawn, found = random.Random(self.seed), dict[str, None]()
        count = self.words + self.keys + self.values
        syllables = 2 if count < 2000 else 3
        while len(found) < count:
            found["".join(drawn.choice(_ONSETS) + drawn.choice(_VOWELS) for _ in range(syllables))] = None
        return tuple(found)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The successors of each word: the numbers of as many others as there are chances."""
        drawn = random.Random(self.seed + 1)
        return tuple(tuple(drawn.sample(range(self.words), len(self.chances))) for _ in range(self.words))

    @cached_property
    def chances(self) -> tuple[float, ...]:
        """The chances of the successors of a word; of fewer words, of as many."""
        some = SUCCESSORS[: self.words]
        return tuple(one / sum(some) for one in some)

    @cached_property
    def entropy(self) -> float:
        """The entropy of a document in nats."""
        ordered = math.perm(self.keys, self.facts)
        facts = math.log(ordered) + self.facts * math.log(self.values)
        by_kind = (self._chain_entropy(), self.copied * math.log(self.values), math.log(self.facts))
        passage = sum(share * (of_kind - math.log(share)) for share, of_kind in zip(self.shares, by_kind, strict=True))
        return facts + self.passages * passage

    def _chain_entropy(self) -> float:
        ends = 1 / self.mean
        decision, successor = _entropy((ends, 1 - ends)), _entropy(self.chances)
        found, here = math.log(self.words), 1.0  # `here` is the chance that a chain has this word
        for _ in range(self.longest - 1):
            found += here * decision
            here *= 1 - ends
            found += here * successor
        return found

    @cached_property
    def mean_words(self) -> float:
        """The mean number of words of a document."""
        ends = 1 / self.mean
        chain = 1 + sum((1 - ends) ** place for place in range(self.longest))
        by_kind = (chain, 2 + 2 * self.copied, 3)
        lengths = sum(share * words for share, words in zip(self.shares, by_kind, strict=True))
        return 2 * self.facts + self.passages * lengths + 1

    def document(self, drawn: random.Random) -> list[Spoken]:
        """A random document."""
        keys = drawn.sample(range(self.keys), self.facts)
        facts = {key: drawn.randrange(self.values) for key in keys}
        said: list[Spoken] = []
        for place, (key, value) in enumerate(facts.items()):
            said += self._fact(key, value, self.keys - place)
        for _ in range(self.passages):
            (kind,) = drawn.choices(range(len(KINDS)), self.shares)
            chosen = -math.log(self.shares[kind])
            if kind == 0:
                said += self._chain(self._drawn_chain(drawn), chosen)
            elif kind == 1:
                said += self._copy([drawn.randrange(self.values) for _ in range(self.copied)], chosen)
            else:
                said += self._query(*drawn.choice([*facts.items()]), chosen)
        return [*said, Spoken(END, 0.0)]

    def documents(self, seed: int) -> Iterator[list[Spoken]]:
        """Documents without end. Different seeds have different documents."""
        drawn = random.Random(seed)
        while True:
            yield self.document(drawn)

    def every_document(self) -> Iterator[list[Spoken]]:
        """All documents, for a grammar that is small enough."""
        for keys in permutations(range(self.keys), self.facts):
            for values in _tuples(self.values, self.facts):
                facts = dict(zip(keys, values, strict=True))
                begin = [
                    one
                    for place, (key, value) in enumerate(facts.items())
                    for one in self._fact(key, value, self.keys - place)
                ]
                passages = self._every_passage(facts)
                for chosen in _tuples(len(passages), self.passages):
                    yield [*begin, *(one for number in chosen for one in passages[number]), Spoken(END, 0.0)]

    def _every_passage(self, facts: dict[int, int]) -> list[list[Spoken]]:
        chain, copy, query = (-math.log(share) for share in self.shares)
        paths = [path for length in range(1, self.longest + 1) for path in self._paths(length)]
        return [
            *(self._chain(path, chain) for path in paths),
            *(self._copy([*values], copy) for values in _tuples(self.values, self.copied)),
            *(self._query(*fact, query) for fact in facts.items()),
        ]

    def _paths(self, length: int) -> list[list[int]]:
        if length == 1:
            return [[word] for word in range(self.words)]
        return [[*path, after] for path in self._paths(length - 1) for after in self.successors[path[-1]]]

    def _drawn_chain(self, drawn: random.Random) -> list[int]:
        chain = [drawn.randrange(self.words)]
        while len(chain) < self.longest and drawn.random() >= 1 / self.mean:
            chain += drawn.choices(self.successors[chain[-1]], self.chances)
        return chain

    # --- words with their surprisals

    def _fact(self, key: int, value: int, left: int) -> list[Spoken]:
        return [
            Spoken(self._key(key), math.log(left)),
            Spoken(self._value(value), math.log(self.values), ends=True),
        ]

    def _chain(self, path: list[int], chosen: float) -> list[Spoken]:
        said = [Spoken(self.spelling[path[0]], chosen + math.log(self.words))]
        goes_on = -math.log(1 - 1 / self.mean)
        for before, word in pairwise(path):
            chance = self.chances[self.successors[before].index(word)]
            said.append(Spoken(self.spelling[word], goes_on - math.log(chance)))
        return [*said, Spoken(STOP, math.log(self.mean) if len(path) < self.longest else 0.0, ends=True)]

    def _copy(self, values: list[int], chosen: float) -> list[Spoken]:
        words = [self._value(value) for value in values]
        first = [Spoken(word, math.log(self.values)) for word in words]
        again = [Spoken(word, 0.0, recalled=True, ends=place == len(words)) for place, word in enumerate(words, 1)]
        return [Spoken(COPY, chosen), *first, Spoken(AGAIN, 0.0), *again]

    def _query(self, key: int, value: int, chosen: float) -> list[Spoken]:
        return [
            Spoken(WHAT, chosen),
            Spoken(self._key(key), math.log(self.facts)),
            Spoken(self._value(value), 0.0, recalled=True, ends=True),
        ]

    def _key(self, number: int) -> str:
        return self.spelling[self.words + number]

    def _value(self, number: int) -> str:
        return self.spelling[self.words + self.keys + number]


def _entropy(chances: tuple[float, ...]) -> float:
    return -sum(chance * math.log(chance) for chance in chances)


def _tuples(below: int, length: int) -> Iterator[tuple[int, ...]]:
    """All tuples of numbers below `below`."""
    if length == 0:
        yield ()
        return
    for rest in _tuples(below, length - 1):
        yield from ((*rest, number) for number in range(below))
