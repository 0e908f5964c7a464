"""The tokens of an answer: every event of a token is timed, and counts that cannot be true end in one outcome."""

import json
import time
import tracemalloc

import numpy as np
import pytest

from aiperf_load import figures
from aiperf_load.outcomes import Flag, Kind, Reply, outcomes
from aiperf_load.stream import Ended, Stream

# The first token comes after 5 ms, and one each 4.5 ms.
TTFT_S, TPOT_S, COUNT = 0.005, 0.0045, 16


def at(number):
    return 1 + TTFT_S + number * TPOT_S


def text(content):
    return {"choices": [{"index": 0, "text": content, "finish_reason": None}]}


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def usage(completion, prompt=8):
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def counted(event, completion):
    """An event with the number of tokens so far."""
    return event | {"usage": usage(completion)["usage"]}


def ended(event):
    """An event with the reason of the end."""
    return {**event, "choices": [{**event["choices"][0], "finish_reason": "length"}]}


END = (usage(COUNT),)


def answer(events, end=END, *, exact=True, count=None, asked=COUNT):
    """How a request ends that gets these: an event, or None for a token without an event, at each token's time."""
    reply = Reply(0, 1.0, 8, asked, 1.0, 1.0)
    stream = Stream(reply, count)
    try:
        for number, event in enumerate(events):
            for one in event if isinstance(event, tuple) else (event,) if event else ():
                stream.take(json.dumps(one).encode(), at(number))
        for one in (*end, "[DONE]"):
            stream.take((one if isinstance(one, str) else json.dumps(one)).encode(), at(COUNT - 1))
        stream.finish(exact=exact, ids=True)
        reply.kind = Kind.OK
    except Ended as error:
        reply.kind = error.kind
    stream.record()
    return reply


def times(reply):
    """The TTFT and the TPOT of a reply."""
    found = outcomes([reply], 1.0)
    return float(found.first_s[0] - found.scheduled_s[0]), float(figures.tpot(found)[0])


def is_true(reply):
    """Whether all tokens were timed as they came."""
    return (reply.kind, times(reply), len(reply.gaps_s)) == (
        Kind.OK, (pytest.approx(TTFT_S), pytest.approx(TPOT_S)), COUNT - 1,
    )  # fmt: skip


ROLE = delta(role="assistant", content="")
CALL = delta(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}])
PIECE = delta(tool_calls=[{"index": 0, "function": {"arguments": "{"}}])
THOUGHTS = [{"reasoning_content": "t"}, {"reasoning": "t", "content": None}, {"reasoning_text": "t"}, {"refusal": "t"},
            {"audio": {"transcript": "t"}}, {"content": [{"type": "text", "text": "t"}]}, {"invented": "t"},
            {"role": "assistant", "content": "t"}, {"content": ""}, {"content": None}, {}]  # fmt: skip


@pytest.mark.parametrize("fields", THOUGHTS, ids=json.dumps)
@pytest.mark.parametrize("share", [0.5, 0.75, 1.0])
def test_a_token_in_any_field_is_timed(fields, share):
    tokens = [delta(**fields) if number < share * COUNT else delta(content=" t") for number in range(COUNT)]
    assert is_true(answer(tokens))
    assert is_true(answer([(delta(role="assistant"), tokens[0]), *tokens[1:]]))
    assert is_true(answer(tokens, (ended(delta()), usage(COUNT))))
    assert is_true(answer(tokens, (ended(delta(content="")), usage(COUNT), delta(content=None))))


def test_the_pieces_of_a_tool_call_are_timed():
    assert is_true(answer([CALL, *[PIECE] * (COUNT - 1)]))


@pytest.mark.parametrize("empty", [range(8), range(8, 16), range(16), range(0, 16, 2)], ids=str)
def test_tokens_without_text_are_timed(empty):
    tokens = [text("" if number in empty else " t") for number in range(COUNT)]
    assert is_true(answer(tokens))
    assert is_true(answer(tokens, (ended(text("")), usage(COUNT))))
    assert is_true(answer([*tokens[:-1], ended(tokens[-1])]))
    assert is_true(answer(tokens, ()) if 15 not in empty else answer(tokens))


@pytest.mark.parametrize("early", [1, 4])
def test_a_role_ahead_of_the_tokens_is_no_token(early):
    """It may come long before them, and neither several tokens in an event nor a missing usage make it one."""
    role, tokens = ROLE, [delta(content=" t")] * (COUNT - early)
    waiting = [role, *[None] * (early - 1)]
    assert times(answer([*waiting, *tokens], (usage(COUNT - early),), exact=False))[0] == pytest.approx(
        TTFT_S + early * TPOT_S
    )
    assert answer([*waiting, *tokens], ("[DONE]",), exact=False).output_tokens == COUNT - early
    running = [counted(role, 0), *[None] * (early - 1), *(counted(one, 2 * n) for n, one in enumerate(tokens, 1))]
    assert times(answer(running, (), asked=2 * COUNT, exact=False))[0] == pytest.approx(TTFT_S + early * TPOT_S)


def test_a_first_token_that_has_a_role_and_no_text_is_timed():
    assert is_true(answer([ROLE, *[delta(content=" t")] * (COUNT - 1)]))


@pytest.mark.parametrize("between", [None, {}, {"completion_tokens": None, "prompt_tokens": None}, {"total_tokens": 9},
                                     {"prompt_tokens": 8, "completion_tokens": 0}])  # fmt: skip
@pytest.mark.parametrize("empty", [0, 8])
def test_usage_without_a_count_in_between_changes_nothing(between, empty):
    tokens = [text("" if number < empty else " t") | {"usage": between} for number in range(COUNT)]
    assert is_true(answer(tokens))


@pytest.mark.parametrize("running", [
    lambda n: counted(text(" t"), n + 1), lambda n: counted(text(""), n + 1), lambda n: counted(text(" t"), n),
    lambda n: counted(text(" t"), n + 1) if n % 4 == 3 else text(" t"), lambda n: (text(" t"), usage(n + 1)),
    lambda n: counted(text("" if n % 2 else " t"), n), lambda n: text(" t") | {"error": None},
    lambda n: text(" t") | {"error": {}}, lambda n: text(" t") | {"error": {"code": None, "message": None}},
    lambda n: ({"choices": []}, {"choices": None}, {}, {"type": "ping"}, text(" t")),
], ids=range(10))  # fmt: skip
def test_running_counts_and_empty_errors_leave_the_times(running):
    assert is_true(answer([running(number) for number in range(COUNT)]))


# --- several tokens in an event


def batches(size, of):
    """Events of `size` tokens each, at the time of the last of them but the first, which is that of one token."""
    return [of(number) if number % size == 0 else None for number in range(COUNT)]


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("count", [None, lambda found: len(found.split())], ids=["told", "tokenizer"])
def test_the_times_of_events_with_a_known_number_of_tokens_are_true(size, count):
    words = " t" * size
    of = (lambda n: text(words)) if count else (lambda n: counted(text(words), n + size))
    reply = answer(batches(size, of), count=count)
    assert (reply.kind, reply.flags, len(reply.gaps_s)) == (Kind.OK, Flag.SPLIT, COUNT - size)
    assert times(reply) == (pytest.approx(TTFT_S), pytest.approx(TPOT_S))
    assert not count or answer(batches(size, of), count=lambda found: 3).kind == Kind.WRONG_COUNT


def test_ids_tell_the_number_of_tokens():
    def of(number):
        return {"choices": [{"text": "", "token_ids": [1, 2]}]}

    reply = answer([(ROLE, of(0)), *batches(2, of)[1:]])
    assert (reply.kind, times(reply)[1]) == (Kind.OK, pytest.approx(TPOT_S))
    assert answer(batches(2, of)[:-2]).kind == Kind.WRONG_COUNT


def test_an_answer_in_one_event_has_no_tpot():
    reply = answer([counted(text(" t" * COUNT), COUNT)])
    assert (reply.kind, reply.gaps_s, np.isnan(times(reply)[1])) == (Kind.OK, [], True)


@pytest.mark.parametrize(("hidden", "kind"), [
    (range(1), Kind.OK), (range(2), Kind.UNTIMED), (range(12), Kind.UNTIMED), (range(1, 16), Kind.UNTIMED),
    (range(16), Kind.UNTIMED), (range(0, 16, 2), Kind.UNTIMED), (range(4, 6), Kind.UNTIMED), (range(15, 16), Kind.OK),
], ids=str)  # fmt: skip
def test_a_request_with_far_fewer_events_than_tokens_is_not_counted(hidden, kind):
    tokens = [None if number in hidden else text(" t") for number in range(COUNT)]
    reply = answer(tokens)
    assert (reply.kind, reply.flags) == (kind, Flag.UNEVEN if kind is Kind.OK else Flag(0))
    assert answer(tokens, (ended(text("")), usage(COUNT))).kind is kind or len(hidden) == 2


# --- numbers that no count is


ABSURD = ["300000000", str(2**70), str(-(2**70)), "1e400", "-1e400", "1e14", "9" * 4000, "9" * 5000, "true", "NaN",
          "Infinity", '"16"', "[]", "{}", "-1", "16.5", "17"]  # fmt: skip


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: value[:20])
@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens"])
def test_an_absurd_count_is_one_outcome_and_costs_nothing(name, value):
    wrong = json.dumps(text(" t") | {"usage": {"prompt_tokens": 8, "completion_tokens": 16, name: "X"}})
    reply = Reply(0, 1.0, 8, COUNT, 1.0, 1.0)
    stream = Stream(reply, None)
    stream.take(json.dumps(counted(text(" t"), 1)).encode(), 1.1)
    tracemalloc.start()
    with pytest.raises(Ended) as caught:  # noqa: PT012  # a number of the prompt's tokens is compared at the end
        stream.take(wrong.replace('"X"', value).encode(), 1.2)
        stream.finish(exact=True, ids=True)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stream.record()
    assert caught.value.kind is (Kind.MALFORMED if len(value) == 5000 else Kind.WRONG_COUNT)
    assert most_bytes < 1 << 20
    found = outcomes([reply], 1.0)
    assert found.output_tokens[0] <= COUNT
    assert found.gaps[0] <= COUNT


def test_counts_that_lag_take_linear_time():
    tokens = [counted(text(" t"), number) for number in range(20_000)]
    begin_s = time.process_time()
    assert answer(tokens, (usage(20_000),), asked=20_000).kind is Kind.OK
    # To look at all events before for each would take minutes.
    assert time.process_time() - begin_s < 5


def test_counts_that_contradict_the_events_are_wrong():
    tokens = [text(" t")] * COUNT
    for told in (0, 15):
        assert answer(tokens, (usage(told),)).kind is Kind.WRONG_COUNT
    assert answer(tokens, (usage(16), usage(4))).kind is Kind.WRONG_COUNT
    assert answer(tokens[:8], (usage(8),)).kind is Kind.EARLY_STOP
    assert answer([], (usage(0),)).kind is Kind.EARLY_STOP
    assert answer([text(" t")] * 200).kind is Kind.ENDLESS
    assert answer([{"choices": [{"text": "", "token_ids": [0] * 200}]}]).kind is Kind.ENDLESS
