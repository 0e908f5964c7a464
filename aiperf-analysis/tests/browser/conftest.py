"""The dashboard in Chromium: one server, one browser and one context serve the tests of a file.

In the pages of `page` nothing may go wrong: no error of the console or of the policy, no answer of 500, no request off the
host.
"""

import sys
from pathlib import Path
from urllib.parse import urlparse

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import chromium  # both are beside the tests
import dashboard_bundles as made
from dashboard_server import served
from looking import SIZE, opened


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(chromium.program()), args=chromium.arguments())
        yield found
        found.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of a history with a regression, of hostile names and of a damaged bundle."""
    folder = tmp_path_factory.mktemp("bundles")
    made.regression(folder)
    made.hostile(folder)
    (made.whole(folder, 500).path / "manifest.json").write_text("{")
    with served(folder, tmp_path_factory.mktemp("log") / "errors") as found:
        found.settle()
        yield found
        assert found.faults() == ""


@pytest.fixture(scope="module")
def context(browser, server):
    """The context, and what went wrong in its pages: errors of the console, of the policy, requests off the host."""
    found = browser.new_context(viewport=SIZE, reduced_motion="reduce")
    faults = []
    host = urlparse(server.address).netloc

    def route(one):
        if urlparse(one.request.url).netloc == host or one.request.url.startswith("data:"):
            one.continue_()
        else:
            faults.append(f"a request leaves the host: {one.request.url}")
            one.abort()

    found.route("**/*", route)
    yield found, faults
    found.close()


@pytest.fixture
def page(context):
    """A page, in which nothing may go wrong."""
    found, faults = context
    faults.clear()
    page = opened(found, faults)
    yield page
    page.close()
    assert faults == []
