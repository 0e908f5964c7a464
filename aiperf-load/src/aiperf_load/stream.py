"""The tokens of one answer: which events brought them, how many each, and when.

An event of a choice is an event of a token, whatever field carries the text, also where that is empty. Two may be none:
a role alone in the first event, and the reason of the end alone. The numbers of tokens that the server tells settle
which are tokens, and where an event brought several.
"""

import json
from typing import Any

from attrs import define

from aiperf_load.outcomes import Flag, Kind, Reply
from aiperf_load.prompts import Counter

# A stream may have some events without tokens. One that goes on beyond this is endless.
MORE_EVENTS = 64
MOST_TEXT = 1 << 24  # characters of an answer
# The share of the tokens that may have no event of their own while no event tells how many it has: TTFT and TPOT are
# off by no more than these tokens took.
MOST_UNTIMED = 0.1
MOST_PROMPT = 1 << 53
_PARTS = ("text", "delta", "message")  # of a choice
_BESIDE_TEXT = ("role", "id", "type")  # within a part


class Ended(Exception):
    """A request ended with this kind. `message` is the server's text, where it sent one."""

    def __init__(self, kind: Kind, message: str = "") -> None:
        super().__init__(kind.name)
        self.kind, self.message = kind, message


@define
class _Event:
    """An event of a choice.

    text: what it brought; without a tokenizer only the begin of it.
    tokens: their number; 0 while it is not known, and for an event that is no token.
    role, end: whether it has nothing but a role, as the first event; or nothing but the reason of the end.
    """

    at_s: float
    text: str
    tokens: int
    role: bool
    end: bool


class Stream:
    """The events of one answer.

    count: counts the tokens of a text, where there is a tokenizer.
    done: whether the stream has ended.
    """

    def __init__(self, reply: Reply, count: Counter | None) -> None:
        self.reply, self.done = reply, False
        self._count = count
        self._most = reply.asked_tokens * 2 + MORE_EVENTS
        self._events: list[_Event] = []
        self._settled = self._total = 0  # events whose tokens are known, and the tokens up to there
        self._untimed = 0  # tokens beyond one for each event, where no event tells its number
        self._unclear = 0  # counts in between by which nothing could be settled
        self._told: int | None = None
        self._prompt: int | None = None
        self._reason = False
        self._taken = self._length = self._ids = 0

    def take(self, data: bytes, at_s: float) -> None:
        """An event. Raises `Ended`."""
        if self.done:
            return
        if data.strip() == b"[DONE]":
            self.done = True
            return
        text = data.decode(errors="replace")
        try:
            content = json.loads(text)
            if _is_error(content):
                raise Ended(Kind.SERVER_ERROR, text)
            usage = content.get("usage") or {}
            told = self._usage(usage)
            choices = (content.get("choices") or [])[:1]
            for choice in choices:
                self._choice(choice, told, at_s)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise Ended(Kind.MALFORMED, text) from None
        if told is not None:
            self._told = told
            if told > self._total and self._unclear < MORE_EVENTS:
                self._unclear += not self._settle(told, own=bool(choices))
        self._taken += 1
        if self._taken > self._most:
            raise Ended(Kind.ENDLESS)

    def end(self) -> None:
        """The end of the HTTP message without `[DONE]`. Raises `Ended` where the stream may lack a part."""
        self.done = self._reason and self._told is not None
        if not self.done:
            raise Ended(Kind.CUT)

    def _usage(self, usage: dict[str, Any]) -> int | None:
        """The tokens of the answer so far by the server's count, None where it tells none."""
        prompt = _whole(usage, "prompt_tokens", MOST_PROMPT)
        self._prompt = self._prompt if prompt is None else prompt
        return _whole(usage, "completion_tokens", self.reply.asked_tokens)

    def _choice(self, choice: dict[str, Any], told: int | None, at_s: float) -> None:
        parts = [choice[part] for part in _PARTS if part in choice]
        if not parts:
            raise KeyError(_PARTS)
        text = _text(parts)
        ids = choice.get("token_ids")
        tokens = len(ids) if isinstance(ids, list) else 0
        reason = bool(choice.get("finish_reason"))
        bare = not text and not tokens
        self._reason |= reason
        self._length += len(text)
        self._ids += tokens
        if self._length > MOST_TEXT or self._ids > self._most:
            raise Ended(Kind.ENDLESS)
        role = bare and not self._events and "role" in (choice.get("delta") or {})
        if not (role and told == 0):
            kept = text if self._count else text[:1]
            self._events.append(_Event(at_s, kept, tokens, role, end=bare and reason))

    def _settle(self, total: int, *, own: bool = False) -> bool:
        """Give the open events their tokens, `total` with those before; False where that takes a guess.

        own: whether the last of them brought this number itself.
        """
        events = self._events[self._settled :]
        unknown = [one for one in events if not one.tokens]
        left = total - self._total - sum(one.tokens for one in events)
        plain, chosen = [one for one in unknown if not one.role], None
        if left == len(unknown):
            chosen = unknown
        elif left <= len(plain):
            forms = [plain, [one for one in plain if not one.end]]
            if self.done:  # before, the number may be that of the event before
                forms.append([one for one in plain if one.text])
            chosen = next((form for form in forms if len(form) == left), None)
        if chosen is not None:
            for one in chosen:
                one.tokens = 1
        elif left < len(plain) or (events and not unknown):
            return False
        else:
            self._share(plain, left, own=own)
        self._settled, self._total = len(self._events), total
        return True

    def _share(self, events: list[_Event], tokens: int, *, own: bool) -> None:
        """Give events more tokens than there are events: exact numbers where these are known."""
        counts = [self._count(one.text) for one in events] if self._count else []
        if own and len(events) == 1:
            counts = [tokens]
        if sum(counts) != tokens:
            counts = [1] * len(events)
        for one, count in zip(events, counts, strict=True):
            one.tokens = count
        self._untimed += tokens - sum(counts)

    def finish(self, *, exact: bool, ids: bool) -> None:
        """Settle the numbers of tokens. Raises `Ended` where they are wrong."""
        reply, total = self.reply, self._told
        if total is None:
            reply.flags |= Flag.NO_USAGE
            total = self._ids + sum(not (one.tokens or one.role or one.end) for one in self._events)
        reply.output_tokens = total
        wrong = not self._settle(total)
        if self._count and self._told is not None:
            wrong |= self._count("".join(one.text for one in self._events)) != total
        if wrong or total > reply.asked_tokens or (ids and self._prompt not in (None, reply.input_tokens)):
            raise Ended(Kind.WRONG_COUNT)
        if not total or (total < reply.asked_tokens and exact):
            raise Ended(Kind.EARLY_STOP)
        if self._untimed > MOST_UNTIMED * total:
            raise Ended(Kind.UNTIMED)
        if self._untimed:
            reply.flags |= Flag.UNEVEN
        if any(one.tokens > 1 for one in self._events):
            reply.flags |= Flag.SPLIT

    def record(self) -> None:
        """Write the times of the tokens that arrived into the reply."""
        reply, begun = self.reply, False
        for index, one in enumerate(self._events):
            # Of a request that did not end well, those that are open count as one token each.
            tokens = one.tokens or int(index >= self._settled and not one.role)
            if not tokens:
                continue
            if begun:
                reply.gaps_s += [(one.at_s - reply.last_s) / tokens] * tokens
            else:
                reply.first_s, begun = one.at_s, True
            reply.last_s = one.at_s


def _whole(usage: dict[str, Any], name: str, most: int) -> int | None:
    """A number of tokens, None where there is none. Raises `Ended` for any other value."""
    value = usage.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or value % 1:
        raise Ended(Kind.WRONG_COUNT, f"{name}: {value}")
    return int(value)


def _text(part: Any) -> str:
    """All texts within a part of a choice."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "".join(map(_text, part))
    if isinstance(part, dict):
        return "".join(_text(value) for name, value in part.items() if name not in _BESIDE_TEXT)
    return ""


def _is_error(content: dict[str, Any]) -> bool:
    """Whether an event tells of an error: in its field, or with its words in place of choices."""
    error = content.get("error")
    if isinstance(error, dict):
        error = any(error.values())
    words = content.get("message") or content.get("detail")
    return bool(error) or ("choices" not in content and isinstance(words, str))
