"""Byte-level byte-pair encoding, trained in code: the most frequent pair of tokens becomes a token, again and again."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise

from attrs import frozen

BYTES = 256


@frozen
class Tokenizer:
    """Tokens 0 to 255 are bytes; token 256 + i is the pair `merges[i]`. A word begins with its space."""

    merges: tuple[tuple[int, int], ...]

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return BYTES + len(self.merges)

    @cached_property
    def _ranks(self) -> Mapping[tuple[int, int], int]:
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _words(self) -> dict[str, tuple[int, ...]]:
        return {}

    def word(self, word: str) -> tuple[int, ...]:
        """The tokens of a word and the space before it."""
        known = self._words.get(word)
        if known is None:
            tokens = [*f" {word}".encode()]
            while len(tokens) > 1:
                rank = min(self._ranks.get(pair, len(self.merges)) for pair in pairwise(tokens))
                if rank == len(self.merges):
                    break
                tokens = _merged(tokens, self.merges[rank], BYTES + rank)
            known = self._words[word] = tuple(tokens)
        return known

    def encode(self, text: str) -> list[int]:
        """The tokens of words that are separated by single spaces."""
        return [token for word in text.split(" ") for token in self.word(word)]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; the space before its first word is left out."""
        return b"".join(map(self._bytes, tokens)).decode(errors="replace").removeprefix(" ")

    def _bytes(self, token: int) -> bytes:
        if token < BYTES:
            return bytes([token])
        return b"".join(map(self._bytes, self.merges[token - BYTES]))


def train(words: Iterable[str], vocabulary: int) -> Tokenizer:
    """Train a tokenizer of at most `vocabulary` tokens.

    Of equally frequent pairs the smallest is first, so that the same words give the same tokenizer.
    """
    counts = Counter(words)
    spelled = {word: [*f" {word}".encode()] for word in sorted(counts)}
    merges: list[tuple[int, int]] = []
    while BYTES + len(merges) < vocabulary:
        pairs: Counter[tuple[int, int]] = Counter()
        for word, tokens in spelled.items():
            for pair in pairwise(tokens):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        # Words that are a token have no pairs any more.
        changed = {word: _merged(tokens, best, BYTES + len(merges)) for word, tokens in spelled.items()}
        spelled = {word: tokens for word, tokens in changed.items() if len(tokens) > 1}
        merges.append(best)
    return Tokenizer(tuple(merges))


def _merged(tokens: list[int], pair: tuple[int, int], token: int) -> list[int]:
    """The tokens with each occurrence of a pair replaced, from the left."""
    found, place = [], 0
    while place < len(tokens):
        if tuple(tokens[place : place + 2]) == pair:
            found.append(token)
            place += 2
        else:
            found.append(tokens[place])
            place += 1
    return found
