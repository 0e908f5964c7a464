"""`interpreted`: what a script prints, what it fails with, and the skip where triton is missing."""

from pathlib import Path

import pytest

from aiperf_core import testing
from aiperf_core.testing import interpreted


def script(folder: Path, text: str) -> Path:
    path = folder / "kernels.py"
    path.write_text(text)
    return path


def test_what_a_script_prints_that_is_interpreted(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="needs triton")
    said = script(tmp_path, "import os\nprint(os.environ['TRITON_INTERPRET'])\n")
    assert interpreted(said) == "1\n"


def test_a_script_that_fails(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="needs triton")
    with pytest.raises(AssertionError, match=r"^kernels\.py ended with 3: wrong\n"):
        interpreted(script(tmp_path, "import sys\nprint('wrong', file=sys.stderr)\nsys.exit(3)\n"))


def test_without_triton_a_test_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "find_spec", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match=r"^needs triton$"):
        interpreted(script(tmp_path, "raise SystemExit(1)\n"))
