from aiperf_core.kernels.diagnostics import summary

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


def test_nvrtcs_errors() -> None:
    assert summary(NVRTC) == (
        '  /src/a b.cu:12: error: identifier "b" is undefined\n'
        '  /src/a b.cu:14: error: could not open source file "c.h" (no directories in search list)\n'
        "  /src/a b.cu:15: error: too few arguments"
    )


def test_gccs_errors() -> None:
    assert summary(GCC) == (
        "  /src/a.c:3: error: 'b' undeclared (first use in this function)\n"
        "  /src/a.c:1: error: nowhere.h: No such file or directory"
    )


def test_a_log_of_another_form_is_shown_from_its_beginning() -> None:
    assert summary("\n  ptxas fatal: no\n\nb\nc\nd\ne\n") == "  ptxas fatal: no\n  b\n  c\n  and 2 more lines of errors"
    assert summary("a\nb\nc\nd") == "  a\n  b\n  c\n  and 1 more line of errors"
    assert summary("\n") == "  the compiler gave no reason"
