"""Answers as servers of several makers send them over HTTP: framings, ends, refusals, and the messages about these."""

import asyncio
import json

import pytest

from aiperf_core.errors import AiperfError
from aiperf_load import measuring
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind
from aiperf_load.processes import generate
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server, Workload, asked_url

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def event(content):
    return f"data: {json.dumps(content)}\n\n".encode()


def token(reason=None, **more):
    return event({"choices": [{"text": " t", "finish_reason": reason}], **more})


def usage(completion=4):
    return event({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": completion}})


DONE = b"data: [DONE]\n\n"
WHOLE = token() * 3 + token("length") + usage() + DONE


def chunked(stream, *, end=END):
    return HEAD + b"%x\r\n%b\r\n" % (len(stream), stream) + end


def plain(status, body, kind="application/json"):
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, kind.encode(), len(body), body)


@pytest.fixture
def serve(here):
    """Starts a server that gives these answers in turn, the last one again and again; its URL and what it was asked."""
    servers = []

    def start(*answers):
        asked = []

        async def connection(reader, writer):
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    length = head.partition(b"content-length: ")[2].partition(b"\r")[0]
                    await reader.readexactly(int(length))
                    answer = answers[min(len(asked), len(answers) - 1)]
                    asked.append(head.split()[1].decode())
                    writer.write(answer)
                    await writer.drain()
                    if answer.startswith(HEAD) and not answer.endswith(END):
                        break
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        starting = asyncio.start_server(connection, "127.0.0.1", 0)
        servers.append(asyncio.run_coroutine_threadsafe(starting, here.loop).result(20))
        return f"http://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}", asked

    yield start
    for one in servers:
        here.loop.call_soon_threadsafe(one.close)


def spec_of(url, requests=4):
    return LoadSpec(
        server=Server(url=url), workload=Workload(input_low=4, input_high=4, output_low=4, output_high=4),
        arrivals=Arrivals(kind="constant", rate_per_s=40.0),
        rules=Rules(duration_s=(requests + 0.4) / 40.0, warmup_s=0.0, timeout_s=60.0),
    )  # fmt: skip


def kinds(url, requests=4):
    spec = spec_of(url, requests)
    found, interrupted = generate(spec, plan(spec))
    assert not interrupted
    return found, [Kind(one) for one in found.kind.tolist()]


def test_every_legal_framing_is_read(serve):
    streams = (
        WHOLE, b"\xef\xbb\xbf" + WHOLE, WHOLE.replace(b"\n", b"\r"), WHOLE.replace(b"\n", b"\r\n"),
        b"data:\n\ndata\n\n" + WHOLE.replace(b"}\n\n", b"}\n\ndata: \n\n"), b": ping\n\n" + WHOLE.replace(b"\n\n", b"\n: x\nid: 1\nretry: 5\n\n"),
        WHOLE.replace(b"[DONE]", b"[DONE] \t"), WHOLE.replace(b"data: ", b"data:"), WHOLE.replace(b", ", b",\ndata: "),
        WHOLE.replace(b" t", b" \xff"), token(error=None, usage=None) * 4 + usage() + DONE, WHOLE.removesuffix(DONE),
        token(usage={}) * 4 + event({"usage": {"prompt_tokens": 4, "completion_tokens": 4}}) + DONE,
        token() * 4 + usage() + event({"choices": [{"text": "", "finish_reason": "stop"}]}),
    )  # fmt: skip
    url, _ = serve(*map(chunked, streams))
    assert kinds(url, len(streams))[1] == [Kind.OK] * len(streams)


def test_a_stream_that_may_lack_its_end_is_cut(serve):
    url, _ = serve(
        chunked(token() * 4 + usage()), chunked(token() * 3 + token("length")),
        chunked(WHOLE.removesuffix(DONE), end=b""), chunked(WHOLE.removesuffix(b"\n\n" + DONE)),
    )  # fmt: skip
    assert kinds(url)[1] == [Kind.CUT] * 4


@pytest.mark.parametrize(("end", "path"), [("", ""), ("/", ""), ("/v1", ""), ("/v1/", ""), ("/api/v1", "/api"), ("/v1x", "/v1x")])  # fmt: skip
def test_a_url_may_end_with_the_version(serve, end, path):
    url, asked = serve(chunked(WHOLE))
    assert asked_url(Server(url=url + end, endpoint="chat")) == f"{url}{path}/v1/chat/completions"
    measuring.try_server(spec_of(url + end))
    assert asked == [f"{path}/v1/completions"]


KNOWN = "The model `m` does not exist. Known models: acme/small"
CHECK = "Check --model, --endpoint, --vocabulary and --prompt; a key is taken from AIPERF_LOAD_KEY."
LOG = "Look at the server's log."
IN_STREAM, TYPE = "the server sent an error in the stream", "the answer was no stream of events"


@pytest.mark.parametrize(("answer", "message", "remedy"), [
    (plain(b"404 Not Found", json.dumps({"error": {"message": KNOWN, "type": "NotFoundError"}}).encode()),
     f"another HTTP status (HTTP 404). The server's answer: '{KNOWN}'", CHECK),
    (plain(b"400 Bad Request", b'{"detail": [{"loc": ["body"], "msg": "max_tokens is too large"}]}'),
     "another HTTP status (HTTP 400). The server's answer: 'max_tokens is too large'", CHECK),
    (plain(b"401 Unauthorized", b'{"object": "error", "message": "wrong key: sk-hidden"}'),
     "another HTTP status (HTTP 401). The server's answer: 'wrong key: ***'", CHECK),
    (plain(b"503 Unavailable", b"\n\x1b[31mno upstream\x1b[0m\nsecond line", "text/plain"),
     "HTTP 500 to 599 (HTTP 503). The server's answer: 'no upstream'", LOG),
    (plain(b"429 Too Many", b'{"error": "' + b"x" * 300 + b'"}'),
     f"HTTP 429: too many requests (HTTP 429). The server's answer: '{'x' * 197}...'", LOG),
    (plain(b"500 Error", b""), "HTTP 500 to 599 (HTTP 500)", LOG),
    (plain(b"200 OK", b'{"error": {"message": "it does not stream"}}'),
     f"{TYPE}. The server's answer: 'it does not stream'", LOG),
    (chunked(token() + event({"error": {"message": "out of\nmemory"}}) + DONE),
     f"{IN_STREAM}. The server's answer: 'out of'", LOG),
    (chunked(event({"object": "error", "message": "overloaded", "code": 503})),
     f"{IN_STREAM}. The server's answer: 'overloaded'", LOG),
    (chunked(b'event: error\ndata: {"message": "it broke"}\n\n'), f"{IN_STREAM}. The server's answer: 'it broke'", LOG),
    (chunked(b"data: Internal Server Error\n\n"),
     "the answer cannot be read: an event was not JSON, or without its fields. The server's answer: "
     "'Internal Server Error'", LOG),
    (chunked(token() + usage(300_000_000)),
     "the server's usage disagrees with the tokens that were asked, sent or counted. The server's answer: "
     "'completion_tokens: 300000000'",
     "Look at the usage that the server sends; --prompt words does not check the length of prompts."),
    (chunked(token() + usage() + DONE),
     "more than a tenth of the tokens by the server's usage had no event that tells their time",
     "Let the server send each token as an event of its own, or tell the number of tokens in each event "
     "(continuous_usage_stats); or count those of each event by --tokenizer."),
], ids=range(13))  # fmt: skip
def test_the_message_has_the_url_and_the_words_of_the_server(serve, monkeypatch, answer, message, remedy):
    monkeypatch.setenv("AIPERF_LOAD_KEY", "sk-hidden")
    url, _ = serve(answer)
    with pytest.raises(AiperfError) as caught:
        measuring.try_server(spec_of(f"{url}/v1"))
    assert str(caught.value) == (
        f"'{url}/v1/completions' was tried with one request, and nothing was measured: {message}. Accepted is a stream "
        f"of 4 tokens from completions in the form of OpenAI's API, with usage. {remedy}"
    )


def test_one_absurd_count_is_one_outcome_of_a_run(serve):
    url, _ = serve(chunked(WHOLE), chunked(token() + usage(2**70)), chunked(usage(-(2**70))), chunked(WHOLE))
    found, ends = kinds(url)
    assert sorted(ends) == [Kind.OK] * 2 + [Kind.WRONG_COUNT] * 2
    assert found.output_tokens.max() == 4


def test_a_tokenizer_that_fails_ends_its_request(serve, monkeypatch):
    def fails(text):
        raise MemoryError("too long")

    monkeypatch.setattr("aiperf_load.prompts.counter", lambda name: fails)
    found, ends = kinds(serve(chunked(WHOLE))[0])
    assert ends == [Kind.MALFORMED] * 4
    assert found.messages == {Kind.MALFORMED: "MemoryError: too long"}


def test_a_bundle_has_the_first_words_of_each_kind(aiperf, serve, tmp_path):
    errors = [chunked(event({"error": {"message": f"no blocks {number}"}})) for number in range(2)]
    url, _ = serve(chunked(WHOLE), *errors, chunked(WHOLE))
    done = aiperf("load", "run", url, "--rate", "40", "--arrivals", "constant", "--duration", "0.21s", "--warmup", "0s",
                  "--output-tokens", "4", "--input-tokens", "4", "--timeout", "60s", "--out", tmp_path / "b")  # fmt: skip
    assert done.code in (0, 3), done.err  # 3: the generator was late
    assert "note: 40/s: the first SERVER_ERROR: 'no blocks 0'\n" in aiperf("load", "show", tmp_path / "b").out
    assert aiperf("recheck", tmp_path / "b").code == 0
