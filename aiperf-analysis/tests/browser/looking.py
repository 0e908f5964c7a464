"""What the tests in Chromium share: pages that are looked at, axe-core, and the way to raw samples."""

import re
from pathlib import Path
from urllib.parse import urlparse

import dashboard_bundles as made

VENDORED = Path(__file__).parents[1] / "vendored"
AXE = VENDORED / "axe.min.js"
SIZE = {"width": 1280, "height": 800}
SERIOUS = ("serious", "critical")
AXE_RUN = "options => axe.run(document, {resultTypes: ['violations'], ...options})"
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
OF_KIND = re.compile(r"^/(target|run|samples|series|machine|trace|load|fleet|live)/[^?]*")


def opened(context, faults):
    """A new page, whose faults are noted."""
    page = context.new_page()
    page.on("console", lambda one: faults.append(f"{page.url}: {one.text}") if one.type == "error" else None)
    page.on("pageerror", lambda one: faults.append(f"{page.url}: {one}"))
    page.on("response", lambda one: faults.append(f"{one.status}: {one.url}") if one.status >= 500 else None)
    return page


def judged(page):
    """What axe-core objects to in the light and in the dark scheme, put in by the browser's protocol, past the policy."""
    page.evaluate(AXE.read_text())
    light = page.evaluate(AXE_RUN, {})
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(AXE_RUN, {"runOnly": ["color-contrast"]})
    page.emulate_media(color_scheme="light")
    return objections(light), objections(dark)


def objections(result):
    """What axe-core calls serious or critical."""
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}: {one['nodes'][0].get('failureSummary', '')[:240]}"
        for one in result["violations"]
        if one["impact"] in SERIOUS
    ]


def follow(page, link):
    """A click, and the page that it leads to."""
    link.click()
    page.wait_for_load_state()


def is_samples(page):
    """Whether the page has raw samples."""
    return urlparse(page.url).path.startswith("/samples/")


def assert_slow_samples(page):
    """The page has the raw samples of the variant that got slower, of a run after the step."""
    assert page.locator("h1").inner_text() == "ch07.memory_access: coalesced"
    kind, _, number = page.locator("nav.crumbs a").last.inner_text().partition("-")
    assert kind == "whole" or int(number) >= made.REGRESSED_AT
    assert page.locator("section.table[aria-label=Samples] tbody tr").count() == len(made.example.samples(1e-3).block)
    assert page.locator("figure svg:visible").count() == 2


def focus_by_tab(page, wanted, most=150):
    """Press Tab until the element that has the focus fits; `wanted` is an expression of it, named `one`."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(f"(one => {wanted})(document.activeElement)"):
            return
    raise AssertionError(f"Tab does not reach {wanted}")
