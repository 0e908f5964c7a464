"""What the tests of several modules use."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aiperf_core.plugins import Plugins, load_plugins

PLUGIN_HEADER = """
from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target
"""


class Site:
    """A folder on `sys.path` in which made-up distributions are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, plugin: str, *, version: str = "0.3", entry_points: str | None = None) -> None:
        """Install `aiperf-acme` as the package `aiperf_acme` with this source as its plugin, and as the group `acme`."""
        package = distribution.replace("-", "_")
        group = distribution.removeprefix("aiperf-")
        self.write(f"{package}/__init__.py", "")
        self.write(f"{package}/plugin.py", PLUGIN_HEADER + plugin)
        self.declare(distribution, version, entry_points or f"{group} = {package}.plugin")

    def declare(self, distribution: str, version: str, entry_points: str) -> None:
        """Write the metadata of a distribution, without any code."""
        info = f"{distribution.replace('-', '_')}-{version}.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        self.write(f"{info}/entry_points.txt", f"[aiperf_core]\n{entry_points}\n")

    def write(self, path: str, text: str) -> None:
        """Write a file in the folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def load(self) -> Plugins:
        """Load what is installed here, and nothing that is installed elsewhere."""
        return load_plugins([str(self.folder)])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder for made-up distributions; what was imported from it is forgotten afterwards."""
    before: Mapping[str, object] = dict(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    for name in set(sys.modules) - set(before):
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
