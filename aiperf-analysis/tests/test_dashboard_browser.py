"""The dashboard in Chromium: every page, accessibility, hostile names, keyboard, widths, and the way to a regression."""

import hashlib
import importlib.util
import re
from pathlib import Path
from urllib.parse import urlparse

import pytest


def beside(name):
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chromium = beside("chromium")
made = beside("dashboard_bundles")
served = beside("dashboard_server").served

VENDORED = Path(__file__).parent / "vendored"
AXE = VENDORED / "axe.min.js"
MOST_PAGES = 60  # a crawl that finds more has a page that makes new addresses for ever
SERIOUS = ("serious", "critical")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


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
        yield found
        assert found.faults() == ""


@pytest.fixture
def visit(browser, server):
    """Opens contexts, whose pages fail on errors of the console, of the policy, and requests off the host."""
    contexts, faults = [], []
    host = urlparse(server.address).netloc

    def route(one):
        if urlparse(one.request.url).netloc == host or one.request.url.startswith("data:"):
            one.continue_()
        else:
            faults.append(f"a request leaves the host: {one.request.url}")
            one.abort()

    def opened(path="/", **options):
        # axe-core is put in by the browser's protocol, so the page's policy stays in force.
        context = browser.new_context(viewport=options.pop("viewport", {"width": 1280, "height": 800}), **options)
        contexts.append(context)
        context.route("**/*", route)
        page = context.new_page()
        page.on("console", lambda one: faults.append(f"{page.url}: {one.text}") if one.type == "error" else None)
        page.on("pageerror", lambda one: faults.append(f"{page.url}: {one}"))
        page.on("response", lambda one: faults.append(f"{one.status}: {one.url}") if one.status >= 500 else None)
        page.goto(server.address + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="module")
def addresses(browser, server):
    """A page of each kind: those of the navigation, and of each kind that they link to."""
    context = browser.new_context()
    page = context.new_page()
    found, waiting = {}, ["/"]
    while waiting and len(found) < MOST_PAGES:
        path = waiting.pop(0)
        kind = re.sub(r"^/(target|run|samples|machine|trace|load)/[^?]*", r"/\1", path.split("?")[0])
        if kind in found:
            continue
        page.goto(server.address + path)
        found[kind] = path
        links = page.eval_on_selector_all("a[href^='/']", "links => links.map(one => one.getAttribute('href'))")
        waiting += [one for one in links if not one.startswith(("/api/", "/static/")) and "format=" not in one]
    context.close()
    assert {"/", "/run", "/samples", "/target", "/runs"} <= set(found)
    assert len(found) < MOST_PAGES
    return found


def test_the_browser_and_playwright_fit(browser):
    page = browser.new_page()
    page.set_content("<h1>read</h1>")
    assert page.inner_text("h1") == "read"
    page.close()


def test_axe_is_the_published_file():
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() in (VENDORED / "README.md").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, addresses, scheme):
    page = visit(color_scheme=scheme)
    found = []
    for path in addresses.values():
        page.goto(page.url.split("/", 3)[0] + "//" + urlparse(page.url).netloc + path)
        page.evaluate(AXE.read_text())
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{path}: {one['id']}: {one['nodes'][0]['html'][:120]}: {one['nodes'][0].get('failureSummary', '')[:240]}"
            for one in result["violations"]
            if one["impact"] in SERIOUS
        ]
    assert found == []


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_no_page_scrolls_sideways(visit, addresses, server, width):
    page = visit(viewport={"width": width, "height": 800})
    wide = []
    for path in addresses.values():
        page.goto(server.address + path)
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(path)
    assert wide == []


def test_zoom_of_200_percent_keeps_the_width(visit, addresses, server):
    page = visit(viewport={"width": 640, "height": 400}, device_scale_factor=2)
    for path in addresses.values():
        page.goto(server.address + path)
        assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"), path


def test_hostile_names_are_text(visit, addresses, server):
    page = visit()
    for path in addresses.values():
        page.goto(server.address + path)
        assert page.evaluate("window.pwned") is None, path
    page.goto(f"{server.address}/runs")
    assert made.HOSTILE["markup"] in page.inner_text("main")
    assert "{{ 7 * 7 }}" in page.inner_text("main")
    assert "\u202e" not in page.inner_text("main")


def test_a_newcomer_reaches_the_samples_of_a_regression_in_four_clicks(visit):
    page = visit()
    worse = page.locator("section", has=page.get_by_role("heading", name="What got worse")).first
    assert "coalesced" in worse.inner_text()
    clicks = 0
    line = worse.get_by_role("row").filter(has_text="coalesced").first
    line.get_by_role("link").last.click()
    clicks += 1
    while not urlparse(page.url).path.startswith("/samples/"):
        assert clicks < 4, page.url
        page.locator("main a[href*='/samples/']", has_text="coalesced").first.click()
        clicks += 1
    assert page.locator("main table tbody tr").count() > 1


def test_the_keyboard_reaches_the_content(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator("a.skip").evaluate("one => one.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_focus_is_visible(visit):
    page = visit()
    hidden = []
    for _ in range(25):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(s => [s.outlineStyle, s.outlineWidth, s.boxShadow])(getComputedStyle(document.activeElement))"
        )
        if (style[0] == "none" or style[1] == "0px") and style[2] == "none":
            hidden.append(page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
    assert hidden == []


def test_pages_read_without_scripts(visit, addresses, server):
    page = visit(java_script_enabled=False)
    for path in addresses.values():
        page.goto(server.address + path)
        assert page.locator("h1").inner_text()
        assert len(page.inner_text("main")) > 40, path


def test_print_and_reduced_motion(visit, server):
    page = visit(reduced_motion="reduce")
    page.emulate_media(media="print")
    assert not page.locator("nav.sections").is_visible()
    assert page.locator("main h1").is_visible()
    moving = (
        "[...document.querySelectorAll('*')].some(one => parseFloat(getComputedStyle(one).animationDuration) > 0.01)"
    )
    assert not page.evaluate(moving)


def test_a_comparison_is_reached_from_the_form(visit, server):
    page = visit("/compare")
    assert page.locator("main form").count() >= 1
    assert page.locator("h1").inner_text()
