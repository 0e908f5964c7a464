"""For the tests of all packages."""

import ctypes
import fcntl
import functools
import gc
import os
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from attrs import frozen

from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.pytest_plugin import TargetItem

Found = TypeVar("Found")
# The exit code of a run with a row that is not trusted, and how often such a line of shell is tried.
UNTRUSTED, TRIES = 3, 3

# pytest-xdist sets it to 80, and tables would be wrapped. Tests of widths set it themselves.
os.environ.pop("COLUMNS", None)
# Tests run side by side then: threads of torch that wait must sleep, not take the processors of the other tests.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A script's background job ignores Ctrl-C, and so would all processes that tests start and end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Sessions of nox that collect the files that name their marker, and no others.
SESSIONS = ("proof", "quiet", "docs", "browser", "clusters", "long")


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Fail for a test with the marker of a session that would not find its file."""
    for marker in SESSIONS:
        if item.get_closest_marker(marker) and f"mark.{marker}" not in _text_of(item.path):
            raise pytest.UsageError(f"{item.nodeid} is marked {marker!r}, but its file does not say `mark.{marker}`")


@functools.cache
def _text_of(path: Path) -> str:
    return path.read_text()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of targets first. They take longest, and no process of pytest should end with one of them."""
    items.sort(key=lambda item: not isinstance(item, TargetItem))


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's work: thousands of tests, which stay to the end.

    Where nox has byte code kept, keep none from now on: a test may write a module twice within a second.
    """
    gc.freeze()
    if os.environ.get("PYTHONDONTWRITEBYTECODE") == "":
        os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True


@frozen
class Ended:
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def plugins() -> "Plugins":
    """What is installed here."""
    return load_plugins()


@pytest.fixture(scope="session")
def aiperf(plugins: "Plugins") -> Callable[..., Ended]:
    """Runs a command of `aiperf` in this process; `columns` is the width of the terminal."""
    from click.testing import CliRunner

    from aiperf_core.cli.main import Shell

    def run(*arguments: object, columns: int | None = None) -> Ended:
        env = {"COLUMNS": str(columns) if columns else None}
        done = CliRunner().invoke(Shell(plugins), [str(one) for one in arguments], env=env, prog_name="aiperf")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    return run


class Environment:
    """A virtual environment that sees what is installed here, and whose `pip` needs no registry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        # What Python would search here, editable installs included.
        outer = Path(sysconfig.get_path("purelib"))
        (site / "outer.pth").write_text(f"import site; site.addsitedir({str(outer)!r})\n")
        # NVIDIA's libraries are looked for in the environment's own folder, not on Python's path.
        (site / "nvidia").symlink_to(outer / "nvidia")
        self.script("aiperf", "-m aiperf_core")
        # The plugin is loaded by its entry point, unless the core was installed before it had one.
        plugin = "" if entry_points(group="pytest11", name="aiperf") else "-p aiperf_core.pytest_plugin"
        self.script("pytest", f"-m pytest {plugin} -p no:cacheprovider -W error")
        offline = "--disable-pip-version-check"
        self.script("pip", f"-m pip {offline}", install="--no-index --no-deps --no-build-isolation",
                    wheel="--no-index --no-build-isolation")  # fmt: skip

    def script(self, name: str, module: str, **extra: str) -> None:
        """Write a program that runs a module; `extra` is added to the arguments of some of its commands."""
        cases = "".join(f'{command}) shift; set -- {command} {flags} "$@";; ' for command, flags in extra.items())
        choose = f'case "$1" in {cases}esac\n' if extra else ""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\n{choose}exec "{self.bin}/python" {module} "$@"\n')
        path.chmod(0o755)

    def start(self, line: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a line of shell, and wait for it."""
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **variables}
        return subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)

    def run(self, line: str, folder: Path, codes: Collection[int] = (0,), **variables: str) -> str:
        """Run a line of shell that must end with one of these exit codes; everything it prints.

        On a busy machine a row may be UNTRUSTED for its clocks. The line is then tried again: what is wrong in truth is
        wrong each time.
        """
        for _ in range(TRIES):
            done = self.start(line, folder, **variables)
            if done.returncode in codes or done.returncode != UNTRUSTED:
                break
        assert done.returncode in codes, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def offline() -> type[Environment]:
    """Environments in which packages are built and installed without a network."""
    pytest.importorskip("hatchling", reason="needs hatchling, to build wheels offline")
    return Environment


@pytest.fixture
def tiny_disk() -> Iterator[Callable[[Path, int], Path]]:
    """Mounts a file system of the given size in bytes on a new folder; skips the test where that is not allowed."""
    mounted = []

    def mount(folder: Path, size: int) -> Path:
        folder.mkdir()
        line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if not shutil.which("mount") or subprocess.run(line, capture_output=True).returncode:
            pytest.skip("needs the right to mount a file system")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        # A process that has just ended may hold a file of it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder once for all processes of pytest: `once(name, fill)` returns it, and tests only read it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, unfinished = root / name, root / f"{name}-unfinished"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                # Another process may have failed in it.
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                fill(unfinished)
                unfinished.rename(folder)
        return folder

    return make


EMULATOR = Path(__file__).parent / "aiperf-core" / "tests" / "emulator"
HEADER, LIBRARY = "cuda_on_host.h", "kernels.so"
# Hidden symbols: each library has variables of its own, also beside another of these libraries. Not fortified: that
# takes a jump to another stack for an error.
GCC = ("g++", "-std=c++17", "-O1", "-w", "-fno-strict-aliasing", "-fvisibility=hidden", "-fPIC", "-pthread",
       "-U_FORTIFY_SOURCE")  # fmt: skip


def _gcc(*arguments: str | Path) -> None:
    run = subprocess.run([*GCC, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[:3000]


class Emulated:
    """A file of CUDA C++ as a library of the host, which launches on tensors of the host."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    @staticmethod
    def compile(source: Path, header: Path, folder: Path) -> None:
        """Make the library in a folder. `header` has the compiled header."""
        for file in (source, *source.parent.glob("*.cuh")):
            # Dynamic shared memory is declared `extern`; here it is defined.
            text = file.read_text().replace("extern __shared__", "__shared__").replace("[];", "[1 << 17];")
            (folder / file.name).write_text(text)
        folders = (f"-I{header}", f"-I{EMULATOR}")
        _gcc("-x", "c++", "-shared", "-include", HEADER, *folders, folder / source.name, "-o", folder / LIBRARY)

    def launch(self, name: str, *args: object, grid: tuple[int, int], threads: int, **how: int) -> None:
        """Launch, and demand that every wait ends. `how` has cluster, eager, at_once and seed."""
        values = (ctypes.c_long * 12)(*(self._word(one) for one in args))
        kernel = ctypes.cast(getattr(self.library, name), ctypes.c_void_p)
        how = {"cluster": 1, "eager": 1, "at_once": 0, "seed": 1, **how}
        assert self.library.emulate(kernel, values, *grid, threads, *map(int, how.values())), (
            f"{name}: a wait does not end, or an address is not aligned"
        )

    @staticmethod
    def box_map(matrix: Any, box: tuple[int, int], swizzle_bytes: int) -> Any:
        """What the emulator takes for a tensor map of a matrix of elements of one or two bytes."""
        size = matrix.element_size()
        data = struct.pack("8q", matrix.data_ptr(), *matrix.shape, size * matrix.stride(0), *box, swizzle_bytes, size)
        return ctypes.create_string_buffer(data, len(data))

    @staticmethod
    def _word(value: Any) -> int:
        if isinstance(value, ctypes.Array):
            return ctypes.addressof(value)
        return int(value) if isinstance(value, int) else value.data_ptr()


@pytest.fixture
def emulated(request: pytest.FixtureRequest, once: Callable[..., Path]) -> Callable[[str], Emulated]:
    """Compile a file of the package's CUDA kernels for the host, once for all tests. Skips where there is no g++."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    header = once(
        "emulator", lambda folder: _gcc("-x", "c++-header", EMULATOR / HEADER, "-o", folder / f"{HEADER}.gch")
    )
    (kernels,) = (request.path.parents[1] / "src").glob("*/kernels")

    def compiled(name: str) -> Emulated:
        make = functools.partial(Emulated.compile, kernels / name, header)
        return Emulated(once(f"emulated-{kernels.parent.name}-{name}", make) / LIBRARY)

    return compiled


# Sleeps 1 ms again and again on each processor. Prints the seconds by which it woke more than 1 ms late, in all.
_WITNESS = """
import os, sys, threading, time
late = []
def watch(processor):
    os.sched_setaffinity(0, [processor])
    if len(sys.argv) > 1:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
    while True:
        asleep = time.monotonic()
        time.sleep(1e-3)
        if (awake := time.monotonic()) - asleep > 2e-3:
            late.append(awake - asleep - 2e-3)
for one in os.sched_getaffinity(0):
    threading.Thread(target=watch, args=[one], daemon=True).start()
sys.stdin.read()
print(sum(late))
"""


@contextmanager
def _undisturbed() -> Iterator[bool]:
    """Let this thread and the processes that it starts go before all others; whether the machine allows it."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def _watched(first: bool) -> Iterator[list[float]]:
    """How long the machine stalled while the block ran: the list has the seconds after its end."""
    stalled: list[float] = []
    line = [sys.executable, "-I", "-S", "-c", _WITNESS, *(["first"] if first else [])]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as witness:
        try:
            yield stalled
        finally:
            stalled.append(float(witness.communicate()[0]))


@pytest.fixture
def despite_stalls() -> Callable[..., Found]:
    """Measures and asserts again, up to five times, where the assertion fails and the machine stalled meanwhile.

    Other programs wait meanwhile, where the machine allows it. A machine that stalls says nothing about the code. A
    witness, a process of its own, tells it from late code: where the witness woke in time, the first failure counts,
    and the fifth counts in any case. `judge` gets what the check returned and the seconds of the stalls, so that it can
    leave out what they delayed.
    """

    def call(
        check: Callable[..., Found], *arguments: object, judge: Callable[[Found, float], None] = lambda *_: None
    ) -> Found:
        attempt = 1
        while True:
            try:
                with _undisturbed() as first, _watched(first) as stalled:
                    measured = check(*arguments)
                judge(measured, stalled[0])
                return measured
            except AssertionError as error:
                error.add_note(f"measurement {attempt}: the machine stalled for {stalled[0] * 1e3:.1f} ms in all")
                if attempt == 5 or stalled[0] < 10e-3:
                    raise
            attempt += 1

    return call


class Killing:
    """Starts `aiperf` in a folder, with a lock of its own, and ends it early or waits for it."""

    LEFT_S = 3.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # What only processes below have.
        self.mark = ("AIPERF_CI_LOCK", str(folder / "lock"))
        self.environment = {**os.environ, **dict([self.mark])}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command."""
        line = [sys.executable, "-m", "aiperf_core", *arguments]
        return subprocess.Popen(
            line, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def end(self, *arguments: str) -> tuple[int, str, str]:
        """Wait for the end of a command: its exit code, and what it printed. It prints no traceback."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in out + err, err
        return process.returncode, out, err

    def kill(self, after_s: float, *arguments: str) -> None:
        """Kill a command after a time, and see that nothing stays that it has started."""
        process = self.start(*arguments)
        with suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        process.kill()
        process.communicate()
        deadline = time.monotonic() + self.LEFT_S
        while left := [one for one in psutil.process_iter() if self._is_below(one)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def _is_below(self, process: psutil.Process) -> bool:
        name, value = self.mark
        try:
            return process.environ().get(name) == value
        except psutil.Error:
            return False


@pytest.fixture
def killing(tmp_path: Path) -> Killing:
    """Kills commands in the test's folder."""
    return Killing(tmp_path)


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
        """Install `aiperf-acme` as the package `aiperf_acme` with this source as its plugin, in the group `acme`."""
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
    """The class of sites, for one in a folder that is on no path here."""
    return Site
