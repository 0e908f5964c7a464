"""Every target of the chapter is right, at awkward sizes too; page faults are counted; what a machine lacks is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from aiperf_ch03 import first_touch, huge_pages
from aiperf_ch03.pages import refuse_without_huge_pages
from aiperf_core.benchmark import Benchmark, bind, call_with
from aiperf_core.errors import SkipError
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import TargetResult
from aiperf_core.testing import Measure, problems

TARGETS = [one for one in load_plugins().targets if one.group == "ch03"]
# One word; less than a page, exactly one, and one word more; a prime; more than a huge page. Reads: fewer than are
# prefetched, exactly as many, and more than the table has words.
AWKWARD = [
    *((first_touch.bench, {"n": n}) for n in (1, 511, 512, 513, 65537, 1 << 19)),
    *(
        (huge_pages.bench, {"reads": reads, "n": n})
        for reads, n in ((1, 1), (15, 7), (16, 512), (17, 100_003), (5003, 11))
    ),
]
PAGE_WORDS = 512


@pytest.fixture(scope="module")
def measured(aiperf_measure: Measure) -> dict[str, TargetResult]:
    sizes = {"ch03.first_touch": {"n": 100 * PAGE_WORDS}, "ch03.huge_pages": {}}
    return {name: aiperf_measure(name, **size) for name, size in sizes.items()}


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("bench", "sizes"), AWKWARD, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_right_at_awkward_sizes(bench: Benchmark, sizes: dict[str, float]) -> None:
    draw = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    static = call_with(bench.task.static, draw) if bench.task.static else {}
    for one in bench.on("cpu"):
        instance = one.code()
        fresh = call_with(bench.task.inputs, draw)
        call_with(instance.prepare, {**sizes, **static, **fresh})
        for _ in range(2):
            for name, values in call_with(bench.task.inputs, draw).items():
                fresh[name].copy_(values)
            right = bench.answer(sizes, {**static, **fresh})
            out = bind(instance.run, {**sizes, **static, **fresh})()
            assert torch.equal(out, right), one.name
            out.fill_(7)


def test_measured(measured: dict[str, TargetResult]) -> None:
    assert sorted(measured) == sorted(one.name for one in TARGETS)
    for result in measured.values():
        assert problems(result) == []


def test_page_faults_are_counted(measured: dict[str, TargetResult]) -> None:
    faults = {row.name: row.beside["minor_faults"] for row in measured["ch03.first_touch"].rows if row.beside}
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


def test_the_readme_lists_every_target() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    rows = [f"| `{one.name}` | {', '.join(one.devices)} | {one.summary} |" for one in TARGETS]
    assert [line for line in text.splitlines() if line.startswith("| `ch03.")] == rows
