import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.cli.tables import print_table

PROGRAM = """
from aiperf_core.cli.tables import print_table
print_table(("NAME", "COUNT", "SUMMARY"), [
    ("chapter_twenty.a_rather_long_name_of_a_target", 7, "Forty tiny products are [forty] launches, " * 3),
    ("ch01.short", 12, "One line"),
])
"""


def in_terminal(columns, **environment):
    """Run the program in a terminal of this width and return what it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment = kept | {"TERM": "xterm-256color"} | environment
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # how Linux says that the other end has closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 100])
def test_a_terminal_gets_lines_that_fit_and_lose_nothing(columns):
    shown = in_terminal(columns, NO_COLOR="1")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in shown
    assert shown.count("[forty]") == 3
    assert "chapter_twenty.a_rather_long_name_of_a_target" in shown
    assert "ch01.short" in shown


def test_a_long_first_column_stands_on_a_line_of_its_own():
    assert in_terminal(80, NO_COLOR="1") == (
        "NAME\n"
        "  COUNT  SUMMARY\n"
        "chapter_twenty.a_rather_long_name_of_a_target\n"
        "      7  Forty tiny products are [forty] launches, Forty tiny products are\n"
        "         [forty] launches, Forty tiny products are [forty] launches,\n"
        "ch01.short\n"
        "     12  One line\n"
    )


def test_where_that_takes_more_lines_only_the_last_column_is_wrapped():
    rows = [(f"ch{number:02}.target", "speed", "A summary of a few words") for number in range(5)]
    assert drawn(60, ("NAME", "GOAL", "SUMMARY"), [*rows, ("ch09.target", "speed", "word " * 9)]) == [
        "NAME         GOAL   SUMMARY",
        *("  ".join(row) for row in rows),
        "ch09.target  speed  word word word word word word word word",
        "                    word",
    ]


def test_in_a_narrow_terminal_a_row_is_a_list():
    heads = ("target", "left", "ratio", "95 % interval", "verdict", "why")
    rows = [("ch07.memory_access_with_a_long_name", "23.9 ms", "1.00x", "[0.37, 2.68]", "INCONCLUSIVE", "-")]
    assert drawn(30, heads, rows) == [
        "ch07.memory_access_with_a_",
        "long_name",
        "  left           23.9 ms",
        "  ratio          1.00x",
        "  95 % interval  [0.37, 2.68]",
        "  verdict        INCONCLUSIVE",
    ]


def test_a_cell_of_several_lines_is_as_wide_as_its_longest_line():
    rows = [("a", "4.00 ms\n[3.985, 4.016]", "SAME"), ("b", "-", "FAILED")]
    heads = ("name", "median\n95 % interval", "verdict")
    assert drawn(40, heads, rows) == [
        "name          median  verdict",
        "       95 % interval",
        "a            4.00 ms  SAME",
        "      [3.985, 4.016]",
        "b                  -  FAILED",
    ]
    assert drawn(20, heads, rows)[:3] == ["a", "  median   4.00 ms", "           [3.985,"]


def test_columns_of_figures_are_aligned_to_the_right():
    rows = [("a", "4.00 ms", "[0.985, 1.016]", "0.1.0"), ("b", "12.5 us", "", "0.10.0"), ("c", "-", "[1, 2]", "1.0")]
    assert drawn(80, ("name", "median", "95 % interval", "version"), rows) == [
        "name   median   95 % interval  version",
        "a     4.00 ms  [0.985, 1.016]  0.1.0",
        "b     12.5 us                  0.10.0",
        "c           -          [1, 2]  1.0",
    ]


def test_a_figure_is_never_parted_from_its_interval():
    rows = [("TTFT", *["36.1 ms [26.2, ?]"] * 5), ("E2E", *["36.3 ms [28.2, 48.7]"] * 5)]
    lines = drawn(80, ("latency", "p50", "p90", "p95", "p99", "p99.9"), rows)
    assert sum("36.1 ms [26.2, ?]" in line for line in lines) == 5


FIGURES = st.sampled_from(["5.2 ms [5.1, ?]", "23.9 ms", "[0.379, 129.01]", "1.00x", "", "-", "12 %"])
TEXTS = st.text(alphabet="ab_. ", max_size=60).map(lambda text: " ".join(text.split()))


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, FIGURES, TEXTS, st.integers(0, 10**6), TEXTS), max_size=6), st.integers(40, 140))
def test_any_table_fits_and_loses_nothing(rows, width):
    lines = drawn(width, ("target", "time", "why", "count", "more"), rows)
    assert max(map(len, lines), default=0) <= width
    shown = re.sub(r"\s+", "", "".join(lines))
    for row in rows:
        # A list of labels and texts leaves out what is nothing.
        for cell in row if row[1] != "-" else (row[0], row[3]):
            assert all(character in shown for character in str(cell).replace(" ", ""))
        for cell in (row[1], str(row[3])) if row[1] != "-" else (str(row[3]),):
            assert any(cell in line for line in lines)


def drawn(width, heads, rows):
    """The lines of a table where COLUMNS is this width."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as stream:
        patch.setenv("COLUMNS", str(width))
        print_table(heads, rows)
    return stream.getvalue().splitlines()


def test_a_terminal_gets_a_bold_head_unless_no_color_is_set():
    assert "\x1b[1m" in in_terminal(80)


def piped():
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout


def test_a_pipe_gets_a_line_a_row_whole_and_uncoloured():
    summary = "Forty tiny products are [forty] launches, " * 3
    assert piped() == (
        "NAME                                           COUNT  SUMMARY\n"
        f"chapter_twenty.a_rather_long_name_of_a_target      7  {summary.rstrip()}\n"
        "ch01.short                                        12  One line\n"
    )
