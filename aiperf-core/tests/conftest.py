"""What the tests of several modules use."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiperf_core.harness.processes.child import Child, ForkServer
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

# The folders of `public_api.py`, and of modules that make up results, evidence and a driver for tests of several files.
sys.path += [str(Path(__file__).parent / name) for name in ("", "devices", "report", "results", "validity")]


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
def weasyprint() -> Any:
    """WeasyPrint; skips the test where it, or the system's library that it draws with, is missing."""
    try:
        return pytest.importorskip("weasyprint")
    except OSError as error:
        pytest.skip(f"needs Pango, a library of the system: {error}")
