"""Finds plugins that end or block the process that loads them, by loading all plugins in another process."""

import json
import os
import signal
import subprocess
import sys

# Enough for a plugin that imports torch from a cold disk.
LIMIT_SECONDS = 60.0

# Prints the plugin that it loads next to the original stdout, which plugins cannot reach.
_LOAD = """
import json
import os
import sys

from aiperf_core.plugins import load_plugins

told = os.dup(1)
nowhere = os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 1)
os.dup2(nowhere, 2)


def tell(what):
    os.write(told, (json.dumps(what) + "\\n").encode())


without = {tuple(name): "" for name in json.loads(sys.argv[1])}
load_plugins(without=without, before=lambda origin: tell([origin.distribution, origin.entry_point]))
tell("done")
os._exit(0)
"""


def deadly_plugins() -> dict[tuple[str, str], str]:
    """Distribution and entry point of each plugin that ends or blocks its process, with the reason to skip it."""
    found: dict[tuple[str, str], str] = {}
    while True:
        last, reason = _try(found)
        if last is None or last in found:
            return found
        found[last] = reason


def _try(without: dict[tuple[str, str], str]) -> tuple[tuple[str, str] | None, str]:
    """Load all plugins but `without` in another process. Returns the plugin that ended it and how, or None."""
    command = [sys.executable, "-c", _LOAD, json.dumps(list(without))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired as slow:
        told, reason = slow.stdout or b"", f"it was not loaded within {LIMIT_SECONDS:g} s"
    else:
        told, reason = done.stdout, f"its loading ended the process ({_how(done.returncode)})"
    last = json.loads(told.splitlines()[-1]) if told else "done"
    return (None, "") if last == "done" else ((last[0], last[1]), reason)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
