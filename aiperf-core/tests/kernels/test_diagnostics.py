from pathlib import Path

import pytest

from aiperf_core.kernels import cache
from aiperf_core.kernels.diagnostics import compile_error

NVRTC = """
/src/a b.cu(12): error: identifier "b" is undefined
      a[0] = b;
             ^

/src/a b.cu(13): warning #177-D: variable "x" was declared but never referenced
/src/a b.cu(14): catastrophic error: could not open source file "c.h" (no directories in search list)
/src/a b.cu(15): error #20: too few arguments
2 errors detected in the compilation of "/src/a b.cu".
"""
GCC = """
/src/a.c: In function 'f':
/src/a.c:3:12: error: 'b' undeclared (first use in this function)
    3 |     a[0] = b;
/src/a.c:1:10: fatal error: nowhere.h: No such file or directory
compilation terminated.
"""


HERE = Path("/src/a.c")


def said(log: str) -> list[str]:
    """The lines of the error of a log, without the place of the log."""
    lines = str(compile_error(HERE, log, subject="a.c", command=["cc", "-DA=b c"])).splitlines()
    assert lines[-3:-1] == ["  does not compile: a.c", "  command: cc '-DA=b c'"]
    assert lines[-1].startswith("  whole log: ")
    return lines[:-3]


def test_nvrtcs_errors() -> None:
    assert said(NVRTC) == [
        '/src/a b.cu:12: error: identifier "b" is undefined',
        '  /src/a b.cu:14: error: could not open source file "c.h" (no directories in search list)',
        "  /src/a b.cu:15: error: too few arguments",
    ]


def test_gccs_errors() -> None:
    assert said(GCC) == [
        "/src/a.c:3: error: 'b' undeclared (first use in this function)",
        "  /src/a.c:1: error: nowhere.h: No such file or directory",
    ]


def test_a_log_of_another_form_is_shown_from_its_beginning() -> None:
    assert said("\n  ptxas fatal: no\n\nb\nc\nd\ne\n") == [
        "/src/a.c: ptxas fatal: no",
        "  b",
        "  c",
        "  and 2 more lines of errors",
    ]
    assert said("a\nb\nc\nd")[1:] == ["  b", "  c", "  and 1 more line of errors"]
    assert said("\n") == ["/src/a.c: the compiler gave no reason"]


def test_the_log_is_kept_whole() -> None:
    error = compile_error(HERE, GCC, subject="a.c", command=["cc", "-O3"])
    kept = Path(str(error).rpartition("whole log: ")[2])
    assert kept.parent == cache.kernels_folder()
    assert kept.read_text() == f"cc -O3\n{GCC}"


def test_a_log_that_cannot_be_kept_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.REMOVED, "1")
    shown = str(compile_error(HERE, GCC, subject="a.c", command=["cc"])).splitlines()
    assert shown[-1 - len(GCC.splitlines()) :] == ["  whole log:", *(f"    {line}" for line in GCC.splitlines())]
    assert not cache.kernels_folder().exists()
