import os
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def server():
    """Start a test server as a process of its own; its URL."""
    started = []

    def start(*arguments):
        line = [sys.executable, "-m", "aiperf_core", "load", "serve", *arguments, "--port", "0"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        started.append(process)
        url = process.stdout.readline().strip()
        assert url.startswith("http://")
        return url

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()
