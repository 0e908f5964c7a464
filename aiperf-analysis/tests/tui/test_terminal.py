"""`aiperf tui` in a terminal of its own: what it draws, and that it leaves the terminal as it was."""

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import pyte
import pytest

PATIENCE_S = 60.0
CRASH = """
import sys
from pathlib import Path
from aiperf_analysis.tui import app, places, source
from aiperf_core.plugins import load_plugins

def fails(self, selection):
    raise RuntimeError("a mistake of ours")

places.MachinesScreen.make = fails
one = app.ResultsApp(load_plugins(), source.Source(Path(sys.argv[-1])))
one.run()
sys.exit(one.return_code)
"""
# Written at the start and undone at the end: the other screen, the hidden cursor, the mouse, pasting.
MODES = (b"?1049", b"?25", b"?1000", b"?1003", b"?2004")


class Terminal:
    """A terminal with a program in it."""

    def __init__(self, command, columns=80, lines=24):
        self.leader, self.follower = pty.openpty()
        ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.follower)
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.output = b""
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        environment.pop("NO_COLOR", None)
        self.program = subprocess.Popen(
            command, stdin=self.follower, stdout=self.follower, stderr=self.follower, env=environment,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        os.close(self.leader)
        os.close(self.follower)

    def read(self, seconds):
        """Take what the program writes within a time; false where it wrote nothing."""
        ready, _, _ = select.select([self.leader], [], [], seconds)
        if ready:
            data = os.read(self.leader, 1 << 16)
            self.output += data
            self.stream.feed(data)
        return bool(ready)

    def wait_for(self, text):
        """Wait until a text stands on the screen."""
        end = time.monotonic() + PATIENCE_S
        while text not in "\n".join(self.screen.display):
            assert time.monotonic() < end, f"{text!r} did not come:\n" + "\n".join(self.screen.display)
            assert self.program.poll() is None, self.output[-3000:].decode(errors="replace")
            self.read(0.2)

    def type(self, keys):
        """Press keys."""
        os.write(self.leader, keys)

    def end(self):
        """Wait for the end of the program; its exit code."""
        end = time.monotonic() + PATIENCE_S
        while self.program.poll() is None:
            assert time.monotonic() < end
            self.read(0.02)
        while self.read(0.05):
            pass
        return self.program.returncode

    def is_as_before(self):
        """Whether the settings are those of before, and each mode that was set was last reset."""
        assert termios.tcgetattr(self.follower) == self.before
        for mode in MODES:
            on, off = (self.output.rfind(b"\x1b[" + mode + end) for end in (b"h", b"l"))
            if mode == b"?25":  # the cursor: hidden, then shown
                on, off = off, on
            assert on >= 0, f"{mode!r} was never used"
            assert off > on, f"{mode!r} was left"


def command(folder):
    return [sys.executable, "-m", "aiperf_core", "tui", str(folder)]


@pytest.mark.parametrize(
    ("ending", "code"),
    [(b"\x03", 0), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129),
     pytest.param(b"\x11", 0, marks=pytest.mark.long)],
    ids=["ctrl-c", "SIGINT", "SIGTERM", "SIGHUP", "ctrl-q"],
)  # fmt: skip
def test_the_terminal_is_left_as_it_was(example_runs, ending, code):
    with Terminal(command(example_runs)) as terminal:
        terminal.wait_for("NVIDIA H200")
        terminal.wait_for("q Quit")
        assert terminal.screen.display[0].startswith(" Runs - ")
        if isinstance(ending, bytes):
            terminal.type(ending)
        else:
            terminal.program.send_signal(ending)
        assert terminal.end() == code
        terminal.is_as_before()


def test_keys_and_a_resize_in_a_terminal(example_runs):
    with Terminal(command(example_runs)) as terminal:
        terminal.wait_for("NVIDIA H200")
        terminal.type(b"2")
        terminal.wait_for("INCONCLUSIVE")
        terminal.type(b"/tiled")
        terminal.wait_for("(1 of 11)")
        terminal.type(b"\x1b")
        terminal.wait_for("first (11)")
        terminal.screen.resize(40, 120)
        ioctl(terminal.follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        terminal.program.send_signal(signal.SIGWINCH)
        terminal.wait_for("peak memory")
        terminal.type(b"q")
        assert terminal.end() == 0
        terminal.is_as_before()


def test_a_crash_leaves_the_terminal_as_it_was(example_runs):
    with Terminal([sys.executable, "-c", CRASH, str(example_runs)]) as terminal:
        terminal.wait_for("NVIDIA H200")
        terminal.type(b"4")
        assert terminal.end() == 1
        terminal.is_as_before()
        assert b"a mistake of ours" in terminal.output


def test_ctrl_c_in_the_menu(example_runs):
    with Terminal([*command(example_runs), "--simple"]) as terminal:
        terminal.wait_for("choice (0 quits")
        terminal.program.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert termios.tcgetattr(terminal.follower) == terminal.before
