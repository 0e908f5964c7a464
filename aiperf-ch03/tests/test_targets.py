"""Page faults are counted, memory goes back, and a missing kernel feature is a reason to skip. `pytest --aiperf` tests the rest."""

import ctypes
import mmap
from pathlib import Path

import pytest

from aiperf_ch03 import first_touch, pages
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


def test_huge_bytes_are_the_kernel_s_count_of_the_mapping(tmp_path: Path) -> None:
    with mmap.mmap(-1, 4 * pages.HUGE_BYTES) as mapping:
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        end = start + len(mapping)
        smaps = tmp_path / "smaps"
        entries = [(start - 8192, start, 2048), (start, end, 6144), (end, end + 4096, 4096)]
        smaps.write_text(
            "".join(f"{low:x}-{high:x} rw-p 0 0\nSize: 1 kB\nAnonHugePages: {huge} kB\n" for low, high, huge in entries)
        )
        assert pages.huge_bytes(mapping, smaps) == 6 << 20
        pages.refuse_small_pages(mapping, smaps)
        smaps.write_text(f"{start:x}-{end:x} rw-p 0 0\nAnonHugePages: 2048 kB\n")
        with pytest.raises(SkipError, match="the kernel gave 2 MiB of 8 MiB in them"):
            pages.refuse_small_pages(mapping, smaps)


def test_a_mapping_in_huge_pages_is_counted_here() -> None:
    refuse_without_huge_pages()
    mapping = first_touch.mapped(pages.HUGE_BYTES)  # words, of 8 bytes
    mapping.madvise(mmap.MADV_HUGEPAGE)
    mapping.write(b"x" * len(mapping))
    assert pages.huge_bytes(mapping) >= pages.HUGE_BYTES
    plain = first_touch.mapped(pages.HUGE_BYTES)
    plain.madvise(mmap.MADV_NOHUGEPAGE)
    plain.write(b"x" * len(plain))
    with pytest.raises(SkipError, match="the kernel gave 0 MiB of 16 MiB in them"):
        pages.refuse_small_pages(plain)


def test_too_few_reserved_pages_are_said() -> None:
    with pytest.raises(
        SkipError, match=r"needs 524288 reserved huge pages \(Cannot allocate memory\); .*nr_hugepages=524288"
    ):
        pages.reserved(1 << 40)
