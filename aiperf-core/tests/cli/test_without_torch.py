"""Commands where torch is not installed: results are read, and what measures names the line that installs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Runs a command in a Python that has no torch.
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torch" else found(name, package)
from aiperf_core.cli.main import main
main()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "AIPERF_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "RUN", "--no-verify"],
        ["compare", "RUN", "RUN"],
        ["report", "RUN", "--out", "report.html"],
        ["export", "RUN", "--format", "csv"],
        ["list"],
        ["results", "list"],
        ["validity"],
        ["schema", "target"],
        ["doctor"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_results_are_read(bundle, tmp_path: Path, arguments: list[str]) -> None:
    named = [str(bundle.path) if argument == "RUN" else argument for argument in arguments]
    ended = run(tmp_path, *named)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "needs torch" not in ended.stderr
    assert ended.stdout or (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "practice.matmul"],
        ["judge", "candidate.py", "--target", "practice.softmax"],
        ["lint", "practice.matmul"],
        ["show", "practice.matmul"],
        ["watch", "practice.matmul"],
        ["ceilings", "--refresh"],
        ["diff", "a.py:f", "b.py:g", "--inputs", "a.py:make"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_measuring_names_the_line_that_installs_torch(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "candidate.py").write_text("class Implementation:\n    def run(self, x):\n        return x\n")
    ended = run(tmp_path, *arguments)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "this needs torch, which is not installed" in " ".join(ended.stderr.split())
    assert "pip install 'aiperf-core[torch]'" in " ".join(ended.stderr.split())
