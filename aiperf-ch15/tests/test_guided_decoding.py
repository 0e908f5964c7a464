"""The automaton and its tokens: against Python's regular expressions, and forced tokens."""

import re

import pytest
import torch

from aiperf_ch15.grammar import automaton, either, legal_tokens, literal, one_of, repeat, then, vocabulary
from aiperf_core.errors import UsageError

NUMBER = then(repeat(literal("-"), 0, 1), repeat(one_of("01"), 1, 3), either(literal("km"), literal("kg")))
ALIKE = re.compile("-?[01]{1,3}(km|kg)")


@pytest.mark.parametrize("text", ["0km", "-101kg", "", "-", "-km", "0101km", "1k", "1kmk", "--1kg", "00kg"])
def test_an_automaton_accepts_what_the_expression_matches(text: str) -> None:
    table, accepting = automaton(NUMBER)
    state = 0
    for byte in text.encode():
        state = int(table[state, byte]) if state >= 0 else state
    assert (state >= 0 and bool(accepting[state])) == bool(ALIKE.fullmatch(text))


def test_the_longest_of_forced_tokens_alone_is_legal() -> None:
    tokens = vocabulary(300, ["name: "])
    after = legal_tokens(*automaton(then(literal("name: "), one_of("ab"))), tokens, "cpu")
    state, written = 0, []
    for _ in range(2):
        (token,) = torch.nonzero(after[state] >= 0)[:, 0].tolist()
        written.append(tokens[token])
        state = int(after[state, token])
    assert written == [b"name", b": "]
    assert [tokens[token] for token in torch.nonzero(after[state] >= 0)[:, 0]] == [b"a", b"b"]


def test_the_end_is_legal_where_a_text_may_end() -> None:
    tokens = vocabulary(300, [])
    after = legal_tokens(*automaton(literal("a")), tokens, "cpu")
    assert (after[:, -1] >= 0).tolist() == [False, True]
    assert int(after[1, -1]) == 1


def test_a_state_without_a_legal_token_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        legal_tokens(*automaton(literal("ab")), [b"a", b""], "cpu")
    assert str(caught.value) == "state 1 of the grammar has no legal token, and may not end"


def test_a_small_vocabulary_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        vocabulary(256, [])
    assert str(caught.value) == "a vocabulary of 256 tokens was asked for; accepted are more than 256"
