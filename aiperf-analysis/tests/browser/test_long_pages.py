"""Pages of many targets in Chromium: they are short until a reader unfolds them, and paper has everything."""

import dashboard_bundles as made
import pytest
from dashboard_server import served

TALLEST = 6_000  # pixels
NAMES = [f"ch{chapter:02d}.target_{number:02d}" for chapter in (3, 7, 9, 13) for number in range(15)]

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of one run of 60 targets."""
    folder = tmp_path_factory.mktemp("bundles")
    made.of_targets(folder / "many", NAMES)
    with served(folder, tmp_path_factory.mktemp("log") / "errors") as found:
        found.settle()
        yield found
        assert found.faults() == ""


def run_of(page, server):
    """The address of the only run."""
    page.goto(server.address + "/runs")
    return server.address + page.locator("tbody th a").first.get_attribute("href")


def test_pages_of_many_targets_are_short(page, server):
    addresses = [server.address + path for path in ("/", "/checklist", "/pareto", "/stacking")]
    for address in (*addresses, run_of(page, server)):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollHeight") <= TALLEST, address


def test_a_link_to_a_target_opens_its_section(page, server):
    run = run_of(page, server)
    page.goto(f"{run}#{NAMES[20]}")
    is_open = "all => all.filter(one => one.open).map(one => one.id)"
    assert page.eval_on_selector_all("details.target", is_open) == [NAMES[20]]
    page.get_by_role("navigation", name="targets of this run").get_by_role("link").nth(40).click()
    page.wait_for_function("document.querySelectorAll('details.target[open]').length == 2")
    assert page.eval_on_selector_all("details.target", is_open) == [NAMES[20], NAMES[40]]
    assert page.locator(f"[id='{NAMES[40]}']").bounding_box()["y"] < 100


def test_paper_has_all_sections(page, server):
    page.goto(run_of(page, server))
    shown = "all => all.filter(one => one.checkVisibility()).length"
    tables = "details.target table"
    assert page.eval_on_selector_all(tables, shown) == 0
    page.emulate_media(media="print")
    assert page.eval_on_selector_all(tables, shown) == page.locator(tables).count() >= len(NAMES)


def test_the_overview_fits_a_telephone(page, server):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(server.address)
    assert page.eval_on_selector_all(".wide", "all => all.filter(one => one.scrollWidth > one.clientWidth).length") == 0
    run = page.locator("section", has_text="Last runs").locator("tbody tr").first
    for cell in run.locator("th, td:not(:empty)").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
