from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Samples
from aiperf_core.render.report import content, html, pdf
from aiperf_core.report import svg
from aiperf_core.results import example


def test_every_picture_gets_its_style_without_variables():
    picture = svg.markup(svg.Picture(1, 1, "a", 'xmlns="http://www.w3.org/2000/svg">', []))
    page = pdf._with_styles(f"<body>{picture}{picture}</body>")
    assert page.count("<style>") == 2
    assert "var(" not in page
    assert "#0b7038" in page
    assert "var(--good, #0b7038)" in svg.style_sheet()


def test_nothing_is_fetched():
    with pytest.raises(ValueError, match=r"a report loads nothing; 'https://evil.example/x' was asked for"):
        pdf._nothing("https://evil.example/x")


def test_a_library_of_the_system_is_missing(monkeypatch):
    def broken(name):
        raise OSError("cannot load library 'libpango-1.0-0'")

    monkeypatch.setattr(pdf.importlib, "import_module", broken)
    with pytest.raises(AiperfError) as caught:
        pdf.check()
    assert str(caught.value) == (
        "weasyprint is installed but lacks a library of the system: cannot load library 'libpango-1.0-0'. "
        "On Debian: apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
    )


def boxes(box: Any) -> Iterator[Any]:
    """A box of WeasyPrint with all boxes in it."""
    yield box
    for child in getattr(box, "children", ()):
        yield from boxes(child)


def test_tables_stay_whole_and_letters_of_pictures_are_readable(weasyprint: Any):
    samples = Samples(round=[0] * 40, block=[0] * 40, device_s=[1e-3 + at * 1e-6 for at in range(40)], calls=[1] * 40)
    rows = [attrs.evolve(row, samples=samples) if row.time_s else row for row in example.rows()]
    result = attrs.evolve(example.result(), rows=rows)
    page = html.render(content.report("run", example.manifest(), [result], {}), [result], example.manifest(), 1)
    document = weasyprint.HTML(string=pdf._with_styles(page)).render()
    every = [box for number in document.pages for box in boxes(number._page_box)]
    tables = [box for box in every if type(box).__name__ == "TableBox"]
    assert len(tables) == page.count("<table")
    pictures = [box for box in every if str(getattr(box, "element_tag", "")).endswith("svg")]
    assert len(pictures) == 4
    for picture in pictures:
        wide = float(picture.element.get("viewBox").split()[2])
        assert 11 * picture.width / wide * 72 / 96 >= 6.8, "points of the letters of the axes"
