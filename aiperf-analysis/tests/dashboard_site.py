"""Folders and clients for the tests of the dashboard."""

import html
import re
from pathlib import Path

from starlette.testclient import TestClient

from aiperf_analysis.dashboard.app import create_app
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.sources.source import FolderSource, StoreSource

LONGEST = 60_000  # letters of an address; the client sends no longer one, and the server refuses it far earlier
HOST = "http://127.0.0.1"
RTL = "ab\u202ecde\u2066"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    RTL,
    "../../../etc/passwd",
    "{{ 7 * 7 }}{% raw %}",
    "a\x1b[31mred\x00",
    "né\U0001f680",
    "=cmd|' /C calc'!A0",
)


def client_of(source, plugins=None, *, host=HOST, **settings):
    """A client of an application; an error of ours is an answer with status 500."""
    if isinstance(source, Path):
        source = FolderSource(source)
    elif isinstance(source, str):
        source = StoreSource(source)
    app = create_app(source, Settings(**settings), plugins)
    return TestClient(app, base_url=host, raise_server_exceptions=False, follow_redirects=False)


def site_of(client):
    """The site of a client."""
    return client.app.state.site


def links(text):
    """The addresses on this server that a page names."""
    return [html.unescape(one) for one in re.findall(r'(?:href|action|src)="(/[^"#]*)', text)]


def crawled(client, start=None, most=400):
    """Every address that can be reached from the pages of the navigation, with its answer."""
    todo = start or [one.path for one in site_of(client).pages if "{" not in one.path and one.method == "GET"]
    found = {}
    while todo and len(found) < most:
        address = todo.pop(0)
        if address in found or address.endswith("/recheck"):
            continue
        found[address] = answer = client.get(address)
        if answer.headers.get("content-type", "").startswith("text/html"):
            todo += [one for one in links(answer.text) if one not in found and len(one) < LONGEST]
    return found
