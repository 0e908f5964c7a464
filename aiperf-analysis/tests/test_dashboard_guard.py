"""What every request passes: host names, tokens, cookies, origins, sizes; what every answer carries; no page runs code."""

import asyncio
import gzip
import re
import runpy
from pathlib import Path

import pytest

from aiperf_analysis.dashboard import guard, templating
from aiperf_analysis.dashboard.asked import View

HERE = Path(__file__).parent
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
client_of, links, HOST = SITE["client_of"], SITE["links"], SITE["HOST"]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'"
)
TOKEN = "a-long-token"


@pytest.fixture
def client(example_runs, plugins):
    return client_of(example_runs, plugins)


@pytest.fixture
def closed(example_runs, plugins):
    """A server that needs a token."""
    return client_of(
        example_runs, plugins, token=TOKEN, hosts=("bench.example",), host="https://bench.example", secure=True
    )


def first_run(client, **more):
    return next(one for one in links(client.get("/runs", **more).text) if one.startswith("/run/"))


@pytest.mark.parametrize("address", ["/", "/api/v1/rows", "/nothing", "/api/v1/nothing", "/static/app.js", "/login"])
def test_headers_of_every_answer(client, address):
    answer = client.get(address)
    assert answer.headers["content-security-policy"].startswith(POLICY)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers
    assert ("no-store" in answer.headers["cache-control"]) == (not address.startswith("/static/"))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil.example", "[::1", "10.0.0.1"]
)
def test_a_foreign_host_name_is_refused(client, host):
    for address in ("/", "/api/v1/rows", "/static/app.js"):
        assert client.get(address, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost", "LOCALHOST:1", "[::1]:8321"])
def test_the_names_of_this_machine_are_accepted(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200


def test_without_a_token_off_loopback_nothing_is_shown(closed):
    answer = closed.get("/")
    assert answer.status_code == 401
    assert "token" in answer.text
    assert "ch09" not in answer.text
    answer = closed.get("/api/v1/rows")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    for wrong in ("Bearer x", "Basic " + TOKEN, "Bearer", f"Bearer {TOKEN}x"):
        assert closed.get("/api/v1/rows", headers={"authorization": wrong}).status_code == 401
    assert closed.get("/static/app.js").status_code == 200
    assert "set-cookie" not in closed.get("/").headers


def test_a_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(closed):
    assert closed.get("/api/v1/rows", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    origin = {"origin": "https://bench.example"}
    assert closed.post("/login", data={"token": "wrong"}, headers=origin).status_code == 403
    answer = closed.post("/login", data={"token": TOKEN}, headers=origin)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    told = answer.headers["set-cookie"].lower()
    assert all(word in told for word in ("httponly", "samesite=strict", "secure", "path=/"))
    assert TOKEN not in answer.headers["set-cookie"]
    assert closed.get("/").status_code == 200
    closed.cookies.clear()
    assert closed.get("/").status_code == 401


def test_an_action_needs_the_cookie_and_the_origin_of_this_server(client):
    run = first_run(client)
    action = f"{run}/recheck"
    assert client.post(action).status_code == 403
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1:81",
        "http://localhost",
        "evil://127.0.0.1",
        "https://127.0.0.1",
    ):
        assert client.post(action, headers={"origin": origin}).status_code == 403, origin
    assert client.post(action, headers={"origin": HOST, "sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post(action, headers={"origin": HOST}).status_code == 200
    client.cookies.clear()
    assert client.post(action, headers={"origin": HOST}).status_code == 403


def test_two_servers_of_one_host_have_cookies_of_their_own(example_runs, plugins):
    one, two = (client_of(example_runs, plugins).get("/").headers["set-cookie"] for _ in range(2))
    assert one.partition("=")[0] != two.partition("=")[0]


def test_reading_changes_nothing(client, example_runs):
    def seen():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in example_runs.rglob("*")}

    before = seen()
    SITE["crawled"](client, most=150)
    assert seen() == before


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, "/api/v1/rows").status_code == 405


def test_large_requests_are_refused(client):
    run = first_run(client)
    assert client.get("/rows?q=" + "x" * 9000).status_code == 414
    body = b"x" * (1 << 17)
    assert client.post(f"{run}/recheck", content=body, headers={"origin": HOST}).status_code == 413

    def pieces():
        for _ in range(40):
            yield b"token=" + b"x" * 8000

    assert client.post(
        "/login", content=pieces(), headers={"origin": HOST, "content-type": "application/x-www-form-urlencoded"}
    ).status_code in (400, 403, 413)


def test_no_markup_of_ours_runs_code(client):
    for address, answer in SITE["crawled"](client, most=120).items():
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        assert not re.search(r"<script(?! (?:defer|type=\"module\") src=\"/static/)", answer.text), address
        assert not re.search(r"\son\w+=|javascript:|style=|<iframe|<object|<base", answer.text), address
        assert not re.search(r"(?:src|href|action)=\"(?!/|#|\?)", answer.text), address


def test_scripts_and_styles_are_small_and_of_this_host():
    files = templating.assets()
    assert sum(len(gzip.compress(content)) for content, _, _ in files.values()) <= 120 * 1024
    for name, (content, _, _) in files.items():
        assert not re.search(rb"https?://(?!www\.w3\.org)|@import|url\(|eval\(|innerHTML", content), name


def test_a_slow_answer_ends(client, monkeypatch):
    import time

    site = client.app.state.site
    object.__setattr__(site, "settings", type(site.settings)(answer_s=0.2))
    monkeypatch.setattr("aiperf_analysis.dashboard.pages.runs.page", lambda asked: time.sleep(1.0) or View())
    answer = client.get("/runs")
    assert answer.status_code == 503
    assert "No answer within 0.2 s" in answer.text


def test_a_mistake_of_ours_is_logged_and_told_without_details(client, monkeypatch, caplog):
    def broken(asked):
        raise RuntimeError("a secret detail")

    monkeypatch.setattr("aiperf_analysis.dashboard.pages.runs.page", broken)
    answer = client.get("/runs")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["content-security-policy"].startswith(POLICY)
    assert "a secret detail" in caplog.text


def test_the_secret_of_a_cookie_is_compared_in_constant_time():
    assert guard.same("a", "a")
    assert not guard.same("", "")
    assert not guard.same("é", "a")


def test_a_hundred_clients(example_runs, plugins):
    import httpx2

    app = client_of(example_runs, plugins).app

    async def all_at_once():
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=HOST) as client:
            places = ["/", "/rows", "/pareto", "/api/v1/rows", "/runs"] * 20
            return [one.status_code for one in await asyncio.gather(*(client.get(place) for place in places))]

    assert set(asyncio.run(all_at_once())) == {200}
