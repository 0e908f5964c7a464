"""What the tests of several modules use."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiperf_core.harness.processes.child import Child, ForkServer
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

# The folders of `public_api.py`, and of modules that make up results, evidence and a driver for tests of several files.
sys.path += [str(Path(__file__).parent / name) for name in ("", "devices", "report", "results", "validity")]

PLUGIN_HEADER = """
from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target
"""


class Site:
    """A folder on `sys.path` in which made-up distributions are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        distribution: str,
        plugin: str,
        *,
        version: str = "0.3",
        entry_points: str | None = None,
        requires: str | None = None,
    ) -> None:
        """Install `aiperf-acme` as the package `aiperf_acme` with this source as its plugin, and as the group `acme`."""
        package = distribution.replace("-", "_")
        group = distribution.removeprefix("aiperf-")
        self.write(f"{package}/__init__.py", "")
        self.write(f"{package}/plugin.py", PLUGIN_HEADER + plugin)
        self.declare(distribution, version, entry_points or f"{group} = {package}.plugin", requires)

    def declare(self, distribution: str, version: str, entry_points: str, requires: str | None = None) -> None:
        """Write the metadata of a distribution, without any code."""
        info = f"{distribution.replace('-', '_')}-{version}.dist-info"
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{needs}")
        self.write(f"{info}/entry_points.txt", f"[aiperf_core]\n{entry_points}\n")

    def write(self, path: str, text: str) -> None:
        """Write a file in the folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def load(self) -> Plugins:
        """Load what is installed here, and nothing that is installed elsewhere."""
        return load_plugins([str(self.folder)])


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The repository's program that a file of tests names `SCRIPT`, with its folder on the path, as where it runs."""
    path: Path = request.module.SCRIPT
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))
        yield import_module(path.stem)
        sys.modules.pop(path.stem)


@pytest.fixture(scope="session")
def known_ceilings(
    once: Callable[[str, Callable[[Path], object]], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A cache folder that knows what this machine's processors reach, which is measured once for all tests."""

    def measure(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AIPERF_CACHE_DIR", str(folder))
            with Planner(Options(device="cpu"), tmp_path_factory.mktemp("logs")) as planner:
                assert planner.ceilings("cpu") is not None

    return once("known-ceilings", measure)


@pytest.fixture(scope="session")
def new_cache(known_ceilings: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes cache folders of their own that know what this machine's processors reach."""
    return lambda: shutil.copytree(known_ceilings, tmp_path_factory.mktemp("cache"), dirs_exist_ok=True)


@contextmanager
def lent_servers() -> Iterator[type[ForkServer]]:
    """Fork servers that are all one process, which imports torch once: a command that ends one ends its own children."""
    with ForkServer() as server:

        class Lent(ForkServer):
            def __init__(self) -> None:
                self.__dict__ = server.__dict__

            def spawn(self, role: str, name: str, log: Path, **limits: Any) -> Child:
                return super().spawn(role, name, log.absolute(), **limits)  # the process is in another folder

            def close(self) -> None:
                for child in self._children:
                    if not child.ended:
                        child.kill()

        yield Lent


@pytest.fixture(scope="session")
def lend() -> Callable[[], AbstractContextManager[type[ForkServer]]]:
    """What lends fork servers whose processes have the environment of the moment."""
    return lent_servers


@pytest.fixture(scope="session")
def lent_server() -> Iterator[type[ForkServer]]:
    """Fork servers that the tests share."""
    with lent_servers() as server:
        yield server


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """The example of a run, in a bundle of one target."""
    made = Bundle.create_at(tmp_path / "run")
    made.write_target(example.result())
    made.write_manifest(example.manifest())
    return made


@pytest.fixture
def made_up_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands do not judge rows: those of the example have figures that its few samples do not give."""
    monkeypatch.setattr("aiperf_core.cli.bundles.JUDGED_TARGETS", 0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder for made-up distributions; what was imported from it is forgotten afterwards."""
    before: Mapping[str, object] = dict(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    for name in set(sys.modules) - set(before):
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def make_site() -> type[Site]:
    """What makes a site in a folder that is on no path here."""
    return Site
