"""Ways through the dashboard in Chromium: to a regression, between runs, over an exported site, and with a run."""

import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import parse_qs, urlparse

import dashboard_bundles as made
import pytest
from dashboard_server import served
from looking import SIZE, WIDER, assert_slow_samples, follow, is_samples, judged

from aiperf_analysis.dashboard import exporting
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.live.tail import live_runs
from aiperf_analysis.sources.source import FolderSource

MOST_CLICKS = 4
PATIENCE_MS = 120_000
RUN = ("practice.softmax", "--device", "cpu", "--size", "smoke", "--budget", "15", "--quiet")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def test_a_newcomer_reaches_the_samples_of_a_regression_in_four_clicks(page, server):
    """From what got worse on the first page."""
    page.goto(server.address)
    worse = page.locator("section", has=page.get_by_role("heading", name="What got worse")).first
    line = worse.get_by_role("row").filter(has_text="coalesced").first
    change = (made.AFTER_S / made.BEFORE_S - 1) * 100
    assert re.search(rf"a step at .*\+?{change:.0f}", line.inner_text(), re.DOTALL)
    follow(page, line.get_by_role("link").last)
    clicks = 1
    while not is_samples(page):
        assert clicks < MOST_CLICKS, page.url
        follow(page, page.locator("main a[href*='/samples/']", has_text="coalesced").first)
        clicks += 1
    assert_slow_samples(page)


def test_the_history_leads_to_the_samples_of_a_regression_in_four_clicks(page, server):
    """The other way: the navigation, the newest point of the picture's table."""
    page.goto(server.address)
    follow(page, page.get_by_role("navigation", name="pages").get_by_role("link", name="History"))
    figure = page.locator("figure", has_text="coalesced").first
    figure.locator("summary").click()
    follow(page, figure.locator("tbody a[href*='/samples/']").last)
    assert is_samples(page), page.url
    assert_slow_samples(page)


def test_two_runs_are_compared(page, server):
    page.goto(server.address + "/compare")
    form = page.get_by_role("form", name="runs to compare")
    runs = {}
    for option in form.locator("select[name=a] option").all():
        runs[option.inner_text().partition(" (")[0]] = option.get_attribute("value")
    before, after = (runs[f"run-{number:03d}"] for number in (made.REGRESSED_AT - 1, made.REGRESSED_AT))
    form.get_by_label("left run").select_option(before)
    form.get_by_label("right run").select_option(after)
    form.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?*")
    assert parse_qs(urlparse(page.url).query) == {"a": [before], "b": [after]}
    headings = page.locator("main h2").all_inner_texts()
    assert headings.index("What differs") < headings.index("Ratios")
    differs = page.locator("section.table", has_text="What differs").inner_text()
    assert f"{made.REGRESSED_AT:012x}" in differs
    line = page.locator("section.table[aria-label=Ratios] tbody tr", has_text="coalesced")
    assert "SLOWER" in line.inner_text()
    ratio = float(re.search(r"(0\.\d+)x", line.inner_text())[1])
    assert ratio == pytest.approx(made.BEFORE_S / made.AFTER_S, rel=0.02)
    assert page.locator("figure svg:visible").count() == 1
    assert page.locator("figcaption").inner_text() == "1 of 2 ratios are below 1 beyond the floor."
    follow(page, line.locator("a[href*='/samples/']").first)
    assert_slow_samples(page)
    page.go_back()
    page.goto(f"{server.address}/compare?a={after}&b={before}")
    line = page.locator("section.table[aria-label=Ratios] tbody tr", has_text="coalesced")
    assert "FASTER" in line.inner_text()


def test_an_exported_site_works_from_the_disk(browser, plugins, tmp_path):
    (tmp_path / "runs").mkdir()
    for number in range(2):
        made.whole(tmp_path / "runs", number, created=f"2026-11-2{number}T10:00:00+00:00")
    source = FolderSource(tmp_path / "runs")
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps an event loop in this one
        made_site = exporting.export, source, plugins, tmp_path / "site", Settings(exported=True), print
        thread.submit(*made_site).result()
    context = browser.new_context()
    page = context.new_page()
    asked, faults = [], []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: faults.append(one.text) if one.type in ("error", "warning") else None)
    page.on("requestfailed", lambda one: faults.append(one.url))
    page.goto((tmp_path / "site" / "index.html").as_uri())
    page.get_by_role("link", name="Rows").first.click()
    page.locator("main table a[href*='samples/']", has_text="coalesced").first.click()
    assert page.locator("h1").inner_text().endswith("coalesced")
    assert page.locator("thead button").count() > 2, "the script sorts tables"
    assert page.locator("nav.sections").evaluate("one => getComputedStyle(one).borderRightStyle") == "solid"
    page.locator("details.more summary").click()
    page.get_by_role("link", name="Leaderboard").click()
    assert page.locator("h1").inner_text() == "Leaderboard"
    assert [one for one in asked if not one.startswith((tmp_path / "site").as_uri() + "/")] == []
    assert faults == []
    context.close()


def test_a_run_is_followed_to_its_end(browser, tmp_path):
    from playwright.sync_api import expect

    (tmp_path / "runs").mkdir()
    command = [sys.executable, "-m", "aiperf_core", "run", *RUN, "--out", str(tmp_path / "runs" / "mine")]
    with (
        served(tmp_path / "runs", tmp_path / "errors") as server,
        browser.new_context(reduced_motion="reduce") as context,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run,
    ):
        page, faults = context.new_page(), []
        page.on("console", lambda one: faults.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda one: faults.append(str(one)))
        while not (found := [one for one in live_runs() if one.newest["pid"] == run.pid]):
            assert run.poll() is None
            time.sleep(0.05)
        page.goto(f"{server.address}/live")
        page.locator(f"a[href='/live/{found[0].name}']").click()
        loaded = page.evaluate("performance.timeOrigin")
        headline = page.get_by_role("status")
        expect(headline).to_have_text("Measuring practice.softmax, 1 of 1.", timeout=PATIENCE_MS)
        assert page.get_by_role("link", name="See its results").is_hidden()
        page.locator("[data-picture] svg:visible").wait_for(timeout=PATIENCE_MS)
        with paused(run):
            looked_at_while_it_runs(page, tmp_path / "live.png")
            assert run.poll() is None, "the page was looked at during the run"
        expect(headline).to_have_text(re.compile("finished"), timeout=PATIENCE_MS)
        assert headline.inner_text() == f"The run has finished with exit code {run.wait()}."
        assert page.locator("[data-finished] li b").all_inner_texts() == ["practice.softmax"]
        assert page.locator("[data-field=phase]").inner_text() == "-"  # what has ended is in no phase
        assert page.locator("[data-picture] svg:visible").count() == 1
        assert page.evaluate("performance.timeOrigin") == loaded  # it was never loaded again
        page.get_by_role("link", name="See its results").click()
        assert page.get_by_role("heading", level=1).inner_text() == "mine"
        assert faults == []
    assert server.faults() == ""


@contextmanager
def paused(process):
    """Stop a process until the end of the block, which takes as long as the machine lets it."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def looked_at_while_it_runs(page, file):
    """The page of a run that goes on has no serious fault for axe-core, fits a telephone, and shows its picture."""
    assert judged(page) == ([], [])
    page.set_viewport_size({"width": 390, "height": 800})
    assert not page.evaluate(WIDER)
    page.set_viewport_size(SIZE)
    image = page.screenshot(path=str(file), full_page=True)
    assert image[:4] == b"\x89PNG"
    box = page.locator("[data-picture] svg:visible").bounding_box()
    assert box["width"] > 300
    assert box["height"] > 100
    assert 0 <= page.evaluate("document.querySelector('progress').value") <= 1
