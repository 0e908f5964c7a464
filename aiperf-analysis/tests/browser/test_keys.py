"""Tables, keys, the mouse and the focus in Chromium."""

import dashboard_bundles as made
import pytest
from looking import focus_by_tab, is_samples

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def long_table(page, server, count):
    """A page of the server with a table of this many rows in place of its content."""
    lines = "".join(
        f"<tr><th>row {n}</th><td>{'odd' if n % 2 else 'even'} of group-{n % 97}</td></tr>" for n in range(count)
    )
    table = f"<table data-sortable data-long><thead><tr><th>a</th><th>b</th></tr></thead><tbody>{lines}</tbody></table>"

    def answer(route):
        found = route.fetch()
        head, _, rest = found.text().partition("<h1>")
        route.fulfill(response=found, body=f"{head}<h1>long</h1>{table}</main>{rest.partition('</main>')[2]}")

    page.route("**/runs?long", answer)
    page.goto(f"{server.address}/runs?long")


def test_a_table_of_10_000_rows_shows_200_and_filters_all(page, server):
    long_table(page, server, 10_000)
    seen = "[...document.querySelectorAll('main tbody tr')].filter(one => one.checkVisibility()).length"
    assert page.evaluate(seen) == 200
    field, status = page.locator("main .seek input"), page.locator("main .seek [role=status]")
    assert status.inner_text() == "200 of 10000"
    field.fill("odd group-5")
    assert page.evaluate(seen) == 200
    assert status.inner_text() == "200 of 567 that fit, of 10000"
    field.fill("row 9999")
    assert page.evaluate(seen) == 1
    field.fill("")
    page.locator("main thead button").first.click(click_count=2)
    assert page.locator("main tbody tr").first.inner_text().startswith("row 9999")
    assert page.evaluate(seen) == 200
    page.get_by_role("button", name="Show all 10000").click()
    assert page.evaluate(seen) == 10_000


def test_a_drag_over_a_series_zooms_and_keys_zoom_out(page, server):
    page.goto(server.address + "/history")
    page.get_by_role("link", name="All runs of this series, with zoom").first.click()
    box = page.locator("[data-zoom] .picture").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2, steps=3)
    page.mouse.up()
    page.wait_for_url("**from=*")
    first, last = (int(page.locator("[data-zoom]").get_attribute(f"data-{end}")) for end in ("from", "to"))
    assert 1 < first < last < made.RUNS
    assert page.locator("section[aria-label^='Runs, each'] tbody tr").count() == last - first + 1
    with page.expect_navigation():
        page.keyboard.press("0")
    assert page.locator("[data-zoom]").get_attribute("data-from") == "1"
    page.locator("[data-zoom] svg:visible a").first.click()
    assert is_samples(page)


def test_the_keyboard_alone_reaches_the_samples_of_a_regression(page, server):
    page.goto(server.address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator("a.skip").evaluate("one => one.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    focus_by_tab(
        page, "one.closest('tr') && one.closest('tr').innerText.includes('coalesced') && one.href.includes('/samples/')"
    )
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert is_samples(page), page.url
    assert page.locator("h1").inner_text() == "ch07.memory_access: coalesced"


def test_keys_filter_sort_help_and_go(page, server):
    page.goto(server.address + "/runs")
    rows = page.locator("main tbody tr:visible")
    every = rows.count()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("run-003")
    assert rows.count() == 1
    assert page.get_by_role("status").first.inner_text() == f"1 of 1 that fit, of {every}"
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Escape")
    assert rows.count() == every
    focus_by_tab(page, "one.innerText === 'run' && one.closest('thead')")
    page.keyboard.press("Enter")
    first = rows.first.inner_text()
    assert page.locator("th[aria-sort='ascending']").inner_text().startswith("run")
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort='descending']").count() == 1
    assert rows.first.inner_text() != first
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()
    page.keyboard.press("o")
    page.locator("details[data-options][open]").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url("**/history")


def test_focus_is_visible(page, server):
    page.goto(server.address)
    hidden = []
    for _ in range(25):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(s => [s.outlineStyle, s.outlineWidth, s.boxShadow])(getComputedStyle(document.activeElement))"
        )
        if (style[0] == "none" or style[1] == "0px") and style[2] == "none":
            hidden.append(page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
    assert hidden == []
