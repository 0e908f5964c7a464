"""The corpus: its entropy by formula, by enumeration and by sampling; the tokenizer that is trained on it."""

import math
from itertools import islice
from statistics import fmean, stdev

import pytest

from aiperf_labs.one_model.corpus import Grammar
from aiperf_labs.one_model.tokens import train

SMALL = Grammar(words=3, keys=3, values=2, facts=2, passages=2, copied=2, longest=3, mean=2)


def words(seed: int, documents: int, grammar: Grammar) -> list[str]:
    return [one.word for document in islice(grammar.documents(seed), documents) for one in document]


def test_the_entropy_is_that_of_all_documents() -> None:
    every = [
        ([one.word for one in document], sum(one.surprisal for one in document)) for document in SMALL.every_document()
    ]
    assert len({" ".join(text) for text, _ in every}) == len(every)  # no text has two derivations
    assert sum(math.exp(-bits) for _, bits in every) == pytest.approx(1)
    assert sum(math.exp(-bits) * bits for _, bits in every) == pytest.approx(SMALL.entropy)
    assert sum(math.exp(-bits) * len(text) for text, bits in every) == pytest.approx(SMALL.mean_words)


def test_sampled_documents_are_as_surprising_as_the_entropy_says() -> None:
    grammar = Grammar()
    drawn = [sum(one.surprisal for one in document) for document in islice(grammar.documents(7), 2000)]
    assert abs(fmean(drawn) - grammar.entropy) < 4 * stdev(drawn) / len(drawn) ** 0.5
    counts = [len(document) for document in islice(grammar.documents(7), 2000)]
    assert abs(fmean(counts) - grammar.mean_words) < 4 * stdev(counts) / len(counts) ** 0.5


def test_a_seed_gives_its_documents() -> None:
    assert words(3, 20, SMALL) == words(3, 20, SMALL)
    assert words(3, 20, SMALL) != words(4, 20, SMALL)


def test_a_copy_and_an_answer_repeat_what_was_said() -> None:
    grammar = Grammar()
    for document in islice(grammar.documents(5), 50):
        said = [one.word for one in document]
        facts = dict(zip(said[0 : 2 * grammar.facts : 2], said[1 : 2 * grammar.facts : 2], strict=True))
        for place, word in enumerate(said):
            if word == "what":
                assert facts[said[place + 1]] == said[place + 2]
            if word == "again":
                assert said[place - grammar.copied : place] == said[place + 1 : place + 1 + grammar.copied]


def test_a_tokenizer_has_frequent_words_as_tokens_and_loses_nothing() -> None:
    text = words(1, 300, Grammar())
    tokenizer = train(text, 512)
    assert tokenizer == train(text, 512)
    assert tokenizer.vocabulary == 512
    assert len(tokenizer.word("copy")) == 1
    tokens = tokenizer.encode(" ".join(text))
    assert tokenizer.decode(tokens) == " ".join(text)
    assert len(tokens) < 2 * len(text)


def test_words_that_were_never_seen_are_bytes() -> None:
    tokenizer = train(["ab", "ab", "ac"], 260)
    assert tokenizer.word("ab") == (256 + 1,)
    assert tokenizer.decode(tokenizer.encode("xyz é")) == "xyz é"


def test_training_ends_when_every_word_is_a_token() -> None:
    assert train(["a"], 1000).vocabulary == 257
