import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.render.report import pdf
from aiperf_core.report import svg


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
