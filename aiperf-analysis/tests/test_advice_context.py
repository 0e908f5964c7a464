"""`aiperf analyze context`: the document for a language model, and a question to a given address."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_analysis.advice import document, opinion
from aiperf_analysis.analyses.context import Options, analyze
from aiperf_analysis.selection import select
from aiperf_core.analysis_options import from_texts
from aiperf_core.cli.main import Shell
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.plugins import load_plugins
from aiperf_core.report.result import Column, LeftOut, Record, Table, counted
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

PLUGINS = load_plugins()


class Server(HTTPServer):
    """A chat server that keeps what it was sent, and answers what it was told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.headers: dict[str, str] = {}
        content = "Try \x1b[31mfusion.\n    x = 1"
        self.answer: Any = {"model": "tiny-1", "choices": [{"message": {"content": content}}]}
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.seen.append((self.path, dict(self.headers), json.loads(self.rfile.read(length))))
        data = self.server.answer if isinstance(self.server.answer, bytes) else json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    bundle = Bundle.create_at(tmp_path / "runs" / "one")
    rows = [evolve(row, why="a | b \x1b[31m`c`") if row.name == "wide" else row for row in example.rows()]
    bundle.write_target(evolve(example.result(), rows=rows))
    bundle.write_manifest(example.manifest())
    return bundle.path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(Shell(PLUGINS), ["analyze", "context", *map(str, arguments)])


# --- the document


def test_the_document(stored: Path) -> None:
    result = run(stored, "--for-llm")
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert text.startswith("# Results of aiperf\n\nHow to read: ")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == ["## rows", "## ladder", "## warnings", "## work of a call", "## machines", "## what fixed rules say",
                     "## Left out: 4"]  # fmt: skip
    assert (
        "| ch07.memory_access:wide | nvidia-h200-x1 | variant | FASTER | 601.3 µs [599.5, 603.1] | 8.67x [8.64, 8.70] |"
        in text
    )
    assert "a \\| b `c` |" in text
    assert "\x1b" not in text
    assert "- ch07.memory_access:remembered INVALID: sample 17 does not match the reference of its own seed" in text
    assert "node7" not in text


def test_a_table_without_the_option(stored: Path) -> None:
    text = run(stored).stdout
    assert text.startswith("Context of results\n5 rows of 1 target; 2 not trusted, 2 did not run.\n")
    assert "# Results" not in text


def test_the_document_as_a_file(stored: Path, tmp_path: Path) -> None:
    file = tmp_path / "context.md"
    assert run(stored, "--for-llm", "--out", file).exit_code == 0
    assert file.read_text() == run(stored, "--for-llm").stdout
    assert run(stored, "--out", tmp_path / "tables.md").exit_code == 0
    assert (tmp_path / "tables.md").read_text().startswith("# Context of results\n\n- 5 rows of 1 target")


def test_a_page_shows_the_document_and_runs_nothing(tmp_path: Path) -> None:
    bundle = Bundle.create_at(tmp_path / "one")
    rows = [evolve(row, why="<script>alert(1)</script>") if row.why else row for row in example.rows()]
    bundle.write_target(evolve(example.result(), rows=rows))
    bundle.write_manifest(example.manifest())
    file = tmp_path / "context.html"
    assert run(bundle.path, "--for-llm", "--out", file).exit_code == 0
    assert "<pre># Results of aiperf" in file.read_text()
    assert "<script>" not in file.read_text()


def test_a_document_that_is_too_long(stored: Path) -> None:
    whole, short = (analyze(select([str(stored)]), Options(for_llm=True, most=most)) for most in (24_000, 2_000))
    assert len(short.text) < 3_000 < len(whole.text)
    assert "more, left out for length)" in short.text
    assert "left out for length" not in whole.text
    assert short.summary[1].endswith("left out for length: name fewer targets, or raise --most.")


def test_cut_rows_are_counted() -> None:
    rows = [Record({"name": f"row{number}", "n": counted(number, "count")}) for number in range(9)]
    table = Table("t", "title", [Column("name", "name"), Column("n", "n", "figure")], rows)
    text, cut = document.markdown(["one"], [table], [LeftOut("x", "INVALID", "wrong")], len(document.HEAD) + 120)
    assert cut == sum(int(line.split()[0].strip("(")) for line in text.splitlines() if "left out for length" in line)
    assert 0 < cut <= 10
    assert "| row0 | 0 |" in text
    assert "| row8 | 8 |" not in text


# --- the question


def test_a_question(stored: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_LLM_KEY", "planted-key")
    result = run(stored, "--ask", "What next?", "--url", server.url, "--model", "tiny")
    assert (result.exit_code, result.stderr) == (0, "")
    below = result.stdout.partition("\n---\n")[2]
    assert below == (
        f"\nOPINION of the model 'tiny-1' at 127.0.0.1:{server.server_port}. aiperf has not checked it; it is no verdict.\n"
        "\nAsked: What next?\n\nTry fusion.\n    x = 1\n"
    )
    ((path, headers, body),) = server.seen
    assert (path, headers["Authorization"], body["model"]) == ("/v1/chat/completions", "Bearer planted-key", "tiny")
    sent = body["messages"][1]["content"]
    assert sent.startswith("# Results of aiperf")
    assert sent.endswith("## Question\n\nWhat next?\n")
    assert "node7" not in sent
    assert str(stored) not in sent
    assert "planted-key" not in result.stdout


def test_an_opinion_changes_no_figure(stored: Path, server: Server) -> None:
    asked = analyze(select([str(stored)]), Options(ask="Is it INVALID?", url=server.url))
    plain = analyze(select([str(stored)]), Options())
    assert (asked.tables, asked.status, asked.left_out) == (plain.tables, plain.status, plain.left_out)
    assert asked.details["opinion"]["model"] == "tiny-1"


def test_without_a_url_there_is_the_document_only(stored: Path, server: Server) -> None:
    result = run(stored, "--ask", "What next?")
    assert result.exit_code == 0
    assert result.stdout.startswith("# Results of aiperf")
    assert result.stdout.endswith("\nNothing was asked: --ask needs --url, an OpenAI-compatible address.\n")
    assert server.seen == []


def test_nothing_is_sent_without_a_question(stored: Path, server: Server) -> None:
    result = run(stored, "--for-llm", "--url", server.url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "aiperf: --url is an address to ask, and there is no question. Give --ask QUESTION, or leave --url out.\n"
    )
    assert server.seen == []


def test_no_key_is_sent_where_none_is_set(stored: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIPERF_LLM_KEY", raising=False)
    assert run(stored, "--ask", "x", "--url", server.url).exit_code == 0
    assert "Authorization" not in server.seen[0][1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"choices": []}, "its answer is no chat completion"),
        (b"<html>", "its answer is no chat completion"),
        ([1], "its answer is no chat completion"),
        ({"choices": [{"message": {"content": " "}}]}, "its answer has no text"),
        ({"choices": [{"message": {"content": None}}]}, "its answer has no text"),
        (b" " * ((4 << 20) + 1), "its answer is longer than 4 MiB"),
    ],
)
def test_an_answer_of_another_form(stored: Path, server: Server, answer: object, why: str) -> None:
    server.answer = answer
    result = run(stored, "--ask", "x", "--url", server.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"aiperf: the model at '127.0.0.1:{server.server_port}' gave no answer: {why}. Check --url, --model and the key; "
        "without --ask the document alone is shown.\n"
    )


def test_a_refusal(stored: Path, server: Server) -> None:
    server.status = 401
    result = run(stored, "--ask", "x", "--url", server.url)
    assert result.exit_code == 1
    assert "gave no answer: it answered with status 401 (Unauthorized)." in result.stderr


def test_a_redirection_is_not_followed(stored: Path, server: Server) -> None:
    """The key is for the given address only."""
    server.status, server.headers = 302, {"Location": "http://127.0.0.1:1/other"}
    with pytest.raises(AiperfError, match="it answered with status 302"):
        analyze(select([str(stored)]), Options(ask="x", url=server.url))
    assert len(server.seen) == 1


def test_a_server_that_is_not_there(stored: Path) -> None:
    closed = HTTPServer(("127.0.0.1", 0), Handler)
    port = closed.server_port
    closed.server_close()
    result = run(stored, "--ask", "x", "--url", f"http://127.0.0.1:{port}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the model at '127.0.0.1:{port}' gave no answer: " in result.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://x/v1", "--url got 'ftp://x/v1'; it takes an address such as http://127.0.0.1:8000/v1."),
        ("x", "--url got 'x'; it takes an address such as http://127.0.0.1:8000/v1."),
        ("http://a:b@x/v1", "--url has a user or a password. Put the key into the variable of --key-variable instead."),
    ],
)
def test_a_wrong_url(stored: Path, url: str, message: str) -> None:
    result = run(stored, "--ask", "x", "--url", url)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"aiperf: {message}\n")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
    ],
)
def test_the_address(url: str, target: str) -> None:
    assert opinion.address(url) == target


@pytest.mark.parametrize("name", ["url", "ask", "model", "key-variable"])
def test_a_server_of_ours_asks_nobody(name: str) -> None:
    """An address in a URL of a dashboard would make it call that address."""
    with pytest.raises(UsageError, match=f"'{name}' is no option here"):
        from_texts(Options, {name: "http://x"})
    assert from_texts(Options, {"for-llm": "true"}) == Options(for_llm=True)
