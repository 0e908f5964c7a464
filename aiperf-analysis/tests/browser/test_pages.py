"""Every page in Chromium: accessibility, hostile names, widths, print, and without scripts.

Every page is opened once, and everything that is to be known of it is read then.
"""

import hashlib

import dashboard_bundles as made
import pytest
from attrs import field, frozen
from looking import AXE, AXE_RUN, OF_KIND, SIZE, VENDORED, WIDER, judged, objections, opened

MOST_PAGES = 60  # a crawl that finds more has a page that makes new addresses for ever
# 640 is what a window of 1280 has at a zoom of 200 %.
WIDTHS = (390, 640, 1280, 1920)
LINKS = "links => links.map(one => one.getAttribute('href'))"
SCROLLING = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.getAttribute('aria-label'))"
INLINE = "[...document.scripts].filter(one => !one.src).length"

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


@frozen
class Seen:
    """A page: what axe-core objects to in the light and in the dark scheme, the widths that scroll, and its text.

    tables: those that scroll in a window of the usual size.
    """

    path: str
    light: list[str]
    dark: list[str]
    wide: list[int]
    tables: list[str]
    text: str
    pwned: bool
    scripts: int
    links: list[str] = field(repr=False)


@pytest.fixture(scope="module")
def seen(context, server):
    """A page of each kind: those of the navigation, and of each kind that they link to; and all with a hostile name."""
    of_context, faults = context
    faults.clear()
    page = opened(of_context, faults)
    found, waiting = {}, ["/"]
    while waiting and len(found) < MOST_PAGES:
        path = waiting.pop(0).partition("#")[0]
        kind = OF_KIND.sub(r"/\1", path.split("?")[0])
        if "pwned" in path and kind in ("/target", "/samples"):
            kind += " of a hostile name"
        if kind not in found:
            page.goto(server.address + path)
            found[kind] = one = looked_at(page, path)
            waiting += [one for one in one.links if not one.startswith(("/api/", "/static/")) and "format=" not in one]
    page.close()
    assert faults == []
    assert {"/", "/run", "/samples", "/target", "/runs", "/target of a hostile name"} <= set(found)
    assert len(found) < MOST_PAGES
    return list(found.values())


def looked_at(page, path):
    """Everything that the tests ask of a page."""
    scripts, links = page.evaluate(INLINE), page.eval_on_selector_all("a[href^='/']", LINKS)
    wide = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if page.evaluate(WIDER):
            wide.append(width)
    page.set_viewport_size(SIZE)
    tables = page.eval_on_selector_all("div.wide:has(table)", SCROLLING)
    light, dark = judged(page)
    pwned = page.evaluate("window.pwned !== undefined")
    return Seen(path, light, dark, wide, tables, page.inner_text("main"), pwned, scripts, links)


def test_the_browser_and_playwright_fit(browser):
    page = browser.new_page()
    page.set_content("<h1>read</h1>")
    assert page.inner_text("h1") == "read"
    page.close()


def test_axe_is_the_published_file():
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() in (VENDORED / "README.md").read_text()


def test_axe_finds_nothing_serious(seen):
    assert {one.path: one.light for one in seen if one.light} == {}
    assert {one.path: one.dark for one in seen if one.dark} == {}


def test_axe_finds_what_is_wrong(page, server):
    page.goto(server.address + "/checklist")
    page.evaluate(AXE.read_text())
    page.evaluate("document.querySelector('main h1').innerHTML = '<img src=\"data:,\"><button></button>'")
    found = objections(page.evaluate(AXE_RUN, {}))
    assert {one.partition(":")[0] for one in found} >= {"image-alt", "button-name"}


def test_no_page_scrolls_sideways(seen):
    assert {one.path: one.wide for one in seen if one.wide} == {}


def test_tables_fit_into_the_usual_window(seen):
    tables = {one.path: one.tables for one in seen}
    assert [tables[path] for path in ("/rows", "/history", "/power", "/checklist")] == [[]] * 4


def test_a_request_off_the_host_is_noticed(context, server):
    found, faults = context
    faults.clear()
    page = opened(found, faults)
    page.goto(server.address + "/checklist")
    page.evaluate("location.href = 'http://192.0.2.1/'")
    page.wait_for_event("requestfailed")
    page.close()
    assert faults[:1] == ["a request leaves the host: http://192.0.2.1/"]
    faults.clear()


def test_hostile_names_are_text(seen):
    assert [one.path for one in seen if one.pwned or one.scripts] == []
    text = "\n".join(one.text for one in seen)
    for name in ("markup", "attribute", "up", "template"):
        assert made.HOSTILE[name] in text
    assert "\u202e" not in text
    assert "exe.tnemhcatta" in text
    (target,) = [one for one in seen if one.path.startswith("/target/") and "pwned" in one.path]
    assert made.HOSTILE["markup"] in target.text


def test_pages_read_without_scripts(browser, server, seen):
    """A page of each template; the others have the same."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    kinds = {OF_KIND.sub(r"/\1", one.path.split("?")[0]): one.path for one in seen}
    for kind in ("/", "/runs", "/rows", "/run", "/samples", "/pareto", "/compare", "/calc", "/checklist", "/traces"):
        page.goto(server.address + kinds[kind])
        assert page.locator("h1").inner_text()
        assert len(page.inner_text("main")) > 40, kind
    context.close()


def test_print_and_reduced_motion(page, server):
    page.goto(server.address)
    page.emulate_media(media="print", reduced_motion="reduce")
    assert not page.locator("nav.sections").is_visible()
    assert page.locator("main h1").is_visible()
    moving = (
        "[...document.querySelectorAll('*')].some(one => parseFloat(getComputedStyle(one).animationDuration) > 0.01)"
    )
    assert not page.evaluate(moving)
    page.set_viewport_size({"width": 794, "height": 1123})  # A4 at 96 pixels an inch
    beyond = "[...document.querySelectorAll('main .wide')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
    for path in ("/", "/rows", "/history"):
        page.goto(server.address + path)
        assert page.evaluate(beyond) == 0, f"paper does not scroll: {path}"
