"""A page of a run keeps its own words, and shows what `aiperf show` prints."""

import subprocess
import sys
from pathlib import Path

import measured
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "run_page.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="needs the repository's folder `benchmarks`")
PAGE = "# A run\n\nWords about it.\n\n```text\nan old table\n```\n\n## `ch07.gone`\n\n```text\nmore\n```\n"


def renew(page: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, page, *map(str, arguments)], capture_output=True, text=True)


def test_tables_are_renewed_and_words_stay(tmp_path: Path) -> None:
    bundle = measured.bundle(tmp_path / "run")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = renew(page, bundle.path, "ch07")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith("# A run\n\nWords about it.\n\n```text\nrun\ncommand ")
    assert text.count("## `ch07.memory_access`\n\n```text\nch07.memory_access - cuda") == 1
    assert "old table" not in text
    assert "ch07.gone" not in text
    assert text.count("```") == 4
    assert renew(page, bundle.path, "ch07").returncode == 0
    assert page.read_text() == text


def test_a_page_stays_as_it_is_where_there_is_no_such_target(tmp_path: Path) -> None:
    bundle = measured.bundle(tmp_path / "run")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = renew(page, bundle.path, "ch09")
    assert done.returncode == 1
    assert "has no complete target that begins with ch09" in done.stderr
    assert page.read_text() == PAGE
