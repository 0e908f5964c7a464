"""Detokenization: a stream decodes its new token with the bytes held back, and never its whole text again.

Question    What does it cost to send the text of a stream as its tokens come, where characters are split over tokens?
Numbers     A stream of 4096 tokens of a byte-level vocabulary: letters, parts of words, accents, Chinese, and parts of
            emoji that are joined of up to seven characters. The whole text after each of n tokens is n(n + 1) / 2
            tokens to decode, 8.4 million; the new ones are 4096.
Prediction  To look up, join and decode a token takes some 80 ns, so that all are 0.16 ms in the mean, and a call for a
            token or two 2 us: 80x. A tail of bytes is at most three, where a window has the tokens from the last whole
            character on, in lists that are joined: two lists, a join and two comparisons less of some eight steps.
Limits      The ratio is proportional to the length: at 60 tokens all are alike. A character is sent with its last byte,
            bytes that can never be one as U+FFFD at once; joined emoji are sent character by character.
"""

import random
from codecs import getincrementaldecoder, utf_8_decode
from functools import cache
from itertools import accumulate

import numpy as np
import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1)
cpu = bench.on("cpu")

LONGEST = 6  # bytes of a token
MERGED = 3000  # tokens of several bytes
PHRASES, PHRASE = 512, 16  # pieces of text, and tokens of each
SEED = 1  # of the vocabulary and the phrases
NONE = -1  # behind the last character
SYLLABLES = ("na", "to", "ri", "ken", "lo", "sa", "é", "ü", "ño", "ß", "中", "文", "字", "语", " ", ", ", ". ")
EMOJI = ("👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🙂", "🇫🇷")


def text_of(chance, syllables):
    """Words, some of them with emoji."""
    return "".join(chance.choice(EMOJI if chance.random() < 0.1 else SYLLABLES) for _ in range(syllables))


@cache
def vocabulary():
    """The bytes of each token: all single bytes, then pieces of a text, wherever they begin and end."""
    chance = random.Random(SEED)
    text = text_of(chance, 20000).encode()
    pieces = {bytes([byte]): None for byte in range(256)}
    while len(pieces) < 256 + MERGED:
        start = chance.randrange(len(text))
        pieces[text[start : start + chance.randint(2, LONGEST)]] = None
    return list(pieces)


def encoded(text, numbers):
    """The tokens of a text, each the longest that fits."""
    tokens, start = [], 0
    while start < len(text):
        size = next(size for size in range(LONGEST, 0, -1) if text[start : start + size] in numbers)
        tokens.append(numbers[text[start : start + size]])
        start += size
    return tokens


@cache
def phrases():
    """Tokens of texts, [PHRASES, PHRASE]. They may end within a character, which the next one then breaks."""
    chance = random.Random(SEED)
    numbers = {piece: number for number, piece in enumerate(vocabulary())}
    return torch.tensor([encoded(text_of(chance, 4 * PHRASE).encode(), numbers)[:PHRASE] for _ in range(PHRASES)])


@bench.workload(
    smoke={"streams": 3, "length": 61},
    cpu={"streams": 1, "length": 4096},
    short={"streams": 64, "length": 128},
)
def inputs(streams, length, device, generator):
    chosen = torch.randint(PHRASES, (streams, -(-length // PHRASE)), device=device, generator=generator)
    return {"tokens": phrases().to(device)[chosen].flatten(1)[:, :length].contiguous()}


@bench.reference(tolerance=exact)
def reference(tokens):
    pieces, rows = vocabulary(), []
    for row in tokens.tolist():
        decoder = getincrementaldecoder("utf-8")("replace")
        rows.append([decoder.decode(pieces[token]) for token in row])
    return of_texts(rows, tokens)


def of_texts(rows, tokens):
    """The characters of each stream, and how many of them were sent when each token had come."""
    streams, length = tokens.shape
    characters = np.full((streams, LONGEST * length), NONE, np.int32)
    for row, out in zip(rows, characters, strict=True):
        text = "".join(row).encode("utf-32-le")
        out[: len(text) // 4] = np.frombuffer(text, np.int32)
    sent = [list(accumulate(map(len, row))) for row in rows]
    return {"characters": torch.from_numpy(characters), "sent": torch.tensor(sent, dtype=torch.int32)}


@bench.cost
def cost(streams, length):
    tokens = streams * length
    return Cost(bytes_read=8 * tokens, bytes_written=4 * tokens * (LONGEST + 1), tokens=tokens)


# One token; a phrase, and one more token; many streams.
bench.awkward({"streams": 1, "length": 1}, {"streams": 2, "length": PHRASE + 1}, {"streams": 67, "length": 5})
cpu.reach(of="speedup", at_least=50)


@cpu.baseline(kind="naive")
class Whole:
    def prepare(self):
        self.pieces = vocabulary()

    def run(self, tokens):
        return of_texts([list(self.texts(row)) for row in tokens.tolist()], tokens)

    def texts(self, row):
        """The new text of each token of a stream."""
        sent = 0
        for count in range(1, len(row) + 1):
            text, _ = utf_8_decode(b"".join([self.pieces[token] for token in row[:count]]), "replace", False)
            yield text[sent:]
            sent = len(text)


@cpu.variant(
    adds="window",
    why="tokens before the last whole character are not decoded again: they can no longer change",
    predict="at least 50x: one or two tokens in place of 2048 in the mean",
)
class Window(Whole):
    def texts(self, row):
        window, sent = [], 0
        for token in row:
            window.append(token)
            data = b"".join([self.pieces[one] for one in window])
            text, used = utf_8_decode(data, "replace", False)
            yield text[sent:]
            sent = len(text)
            if used == len(data):
                window, sent = [], 0


@cpu.variant(
    builds_on="window",
    adds="tail of bytes",
    why="at most three bytes of an incomplete character are kept, and no list of tokens is joined",
    predict="1.2 to 2.5x: a concatenation in place of two lists and a join, some half of the steps of a token",
)
class Tail(Whole):
    def texts(self, row):
        tail = b""
        for token in row:
            data = tail + self.pieces[token]
            text, used = utf_8_decode(data, "replace", False)
            yield text
            tail = data[used:]
