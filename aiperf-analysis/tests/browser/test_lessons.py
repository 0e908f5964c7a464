"""The page of a lesson in Chromium: no serious objection of axe-core, no wider than a phone, folded parts on paper."""

import pytest
from looking import SIZE, WIDER, judged

from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_learn.pages.html import document
from aiperf_learn.pages.model import lesson_page

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser):
    (target,) = [target for target in load_plugins().targets if target.name == "ch07.transpose"]
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    page.set_content(document(target.name, [lesson_page(target, load_benchmark(target))]))
    yield page
    context.close()


def test_a_lesson_can_be_read_by_all_in_both_schemes(page):
    assert judged(page) == ([], [])


def test_a_lesson_fits_on_a_phone_and_shows_the_narrow_picture(page):
    wide, narrow = page.locator(".picture").first.locator("> svg").all()
    assert (wide.is_visible(), narrow.is_visible()) == (True, False)
    page.set_viewport_size({"width": 390, "height": 800})
    assert (wide.is_visible(), narrow.is_visible()) == (False, True)
    assert not page.evaluate(WIDER)


def test_paper_has_the_folded_prediction_and_no_whole_files(page):
    prediction = page.locator("details", has_text="What do you expect of each step?").locator("p").first
    whole = page.locator("details.whole pre").first
    assert (prediction.is_visible(), whole.is_visible()) == (False, False)
    page.emulate_media(media="print")
    assert (prediction.is_visible(), whole.is_visible()) == (True, False)
