import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

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


def test_a_terminal_wraps_the_last_column_only():
    assert in_terminal(80, NO_COLOR="1") == (
        "NAME                                           COUNT  SUMMARY\n"
        "chapter_twenty.a_rather_long_name_of_a_target      7  Forty tiny products are\n"
        "                                                      [forty] launches, Forty\n"
        "                                                      tiny products are [forty]\n"
        "                                                      launches, Forty tiny\n"
        "                                                      products are [forty]\n"
        "                                                      launches,\n"
        "ch01.short                                        12  One line\n"
    )


def test_too_narrow_a_terminal_is_left_to_break_the_lines_itself():
    assert in_terminal(60, NO_COLOR="1") == piped()


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
