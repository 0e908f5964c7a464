"""Page faults are counted, memory goes back, and a missing kernel feature is a reason to skip. `pytest --aiperf` tests the rest."""

from pathlib import Path

import pytest

from aiperf_ch03 import first_touch
from aiperf_ch03.pages import refuse_without_huge_pages
from aiperf_core.errors import SkipError
from aiperf_core.testing import Measure

PAGE_WORDS = 512


def test_page_faults_are_counted(aiperf_measure: Measure) -> None:
    rows = aiperf_measure("ch03.first_touch", n=100 * PAGE_WORDS).rows
    faults = {row.name: row.beside["minor_faults"] for row in rows if row.beside}
    assert faults["on_demand"] >= 100
    assert faults["populated"] >= 100
    assert faults["pooled"] < 50


def test_a_mapping_goes_back_with_its_tensor() -> None:
    mapped = Path("/proc/self/maps")
    before = len(mapped.read_text().splitlines())
    for _ in range(50):
        first_touch.words(first_touch.mapped(PAGE_WORDS)).zero_()
    assert len(mapped.read_text().splitlines()) < before + 25


def test_huge_pages_are_skipped_with_what_the_kernel_says(tmp_path: Path) -> None:
    setting = tmp_path / "enabled"
    with pytest.raises(SkipError) as caught:
        refuse_without_huge_pages(setting)
    assert str(caught.value) == f"needs transparent huge pages; this kernel has none ({setting} cannot be read)"
    setting.write_text("always madvise [never]\n")
    with pytest.raises(SkipError) as caught:
        refuse_without_huge_pages(setting)
    assert str(caught.value) == (
        f"needs transparent huge pages; {setting} says 'always madvise [never]', accepted are [madvise] and [always]"
    )
    for said in ("[always] madvise never\n", "always [madvise] never\n"):
        setting.write_text(said)
        refuse_without_huge_pages(setting)
