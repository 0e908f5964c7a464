"""Everything that is checked of this repository. `nox -l` lists it, and CI runs the same.

Packages are found, never listed: a folder `aiperf-*` with a pyproject.toml is one.
"""

import hashlib
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2.9"  # the first with `requires`
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
PROJECTS = sorted(ROOT.glob("aiperf-*/pyproject.toml"))
PACKAGES = [path.parent.name for path in PROJECTS]
GROUPS = nox.project.load_toml("pyproject.toml")

# torch is large, so the sessions that need it share one environment, in which the packages run from their sources.
SHARED = ROOT / ".nox" / "environment"


# What pytest leaves out unless it is told otherwise, and what has a session of its own; see the markers in
# pyproject.toml.
CHOSEN = "not gpu and not long"
APART = "(proof or quiet or docs or browser or clusters)"

# Most tests wait for processes, so that three keep two cores busy.
THREE_AT_A_TIME = ("-n", "3", "--dist", "worksteal")

# Exit code of pytest.
NONE_CHOSEN = 5


def run(session: nox.Session, program: str, *arguments: str, success_codes: Sequence[int] = (0,), **env: str) -> None:
    """Run a program of the shared environment."""
    session.run(str(SHARED / "bin" / program), *arguments, external=True, success_codes=success_codes, env=env)


def run_tests(session: nox.Session, *arguments: str, success_codes: Sequence[int] = (0,)) -> None:
    """Run pytest, with the byte code of packages and tests kept, also where the user's settings forbid it.

    Else each of the hundreds of processes that tests start would compile the packages, and each pytest all tests.
    """
    run(session, "python", "-m", "compileall", "-q", *(f"{package}/src" for package in PACKAGES))
    run(session, "pytest", *arguments, success_codes=success_codes, PYTHONDONTWRITEBYTECODE="")


def run_undisturbed(session: nox.Session, *chosen: str) -> None:
    """Run tests that depend on times, one after the other; what failed, twice more at most, in new processes.

    Something else may have run beside them, so that each try waits for a quiet machine. Three failures are a failure.
    """
    codes = [0, NONE_CHOSEN] if session.posargs else [0]
    again: list[str] = []
    for left in (2, 1, 0):
        try:
            run_tests(session, *again, *chosen, success_codes=codes)
            return
        except CommandFailed:
            if left == 0:
                raise
        run(session, "python", "quiet_machine.py")
        again = ["--last-failed", "--last-failed-no-failures", "none"]


def files_of(session: nox.Session, marker: str) -> list[str]:
    """The test files that name a marker, so that pytest need not import all others; none where the session has paths.

    `conftest.py` fails where a test has the marker and its file does not name it.
    """
    if any(Path(argument.partition("::")[0]).exists() for argument in session.posargs):
        return []
    named = re.compile(rf"\bmark\.{marker}\b")
    files = (path for package in PACKAGES for path in sorted((ROOT / package / "tests").rglob("test_*.py")))
    return [str(path.relative_to(ROOT)) for path in files if named.search(path.read_text())]


def every_target(session: nox.Session) -> list[str]:
    """The option that tests every target, unless the session is told what to test."""
    return [] if session.posargs else ["--aiperf=all"]


@nox.session
def environment(session: nox.Session) -> None:
    """Install every package and the tools of the sessions below, unless that is done already."""
    inputs = [ROOT / "pyproject.toml", ROOT / "constraints.txt", *PROJECTS]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    stamp = SHARED / "installed"
    if stamp.exists() and stamp.read_text() == digest:
        return
    editable = [argument for package in PACKAGES for argument in ("--editable", f"./{package}")]
    session.install("-c", "constraints.txt", *nox.project.dependency_groups(GROUPS, "test", "types", "docs"), *editable)
    stamp.write_text(digest)


@nox.session(venv_backend="none", requires=["environment"])
def tests(session: nox.Session) -> None:
    """Test every package and every target on the CPU. Some tests only: nox -s tests -- aiperf-ch07 -k wide."""
    # None of these depends on times; those that do have the sessions below.
    chosen = ["-m", f"{CHOSEN} and not {APART}", *every_target(session), *session.posargs]
    run_tests(session, *THREE_AT_A_TIME, *chosen, success_codes=[0, NONE_CHOSEN] if session.posargs else [0])


@nox.session(venv_backend="none", requires=["environment"])
def proof(session: nox.Session) -> None:
    """Prove every guard on the CPU: the whole selftest, and the corpora through the judge. Needs a quiet machine.

    And test the targets that take minutes; see `aiperf_marks` in pyproject.toml.
    """
    chosen = ["-m", "proof and not gpu", *files_of(session, "proof"), *every_target(session), *session.posargs]
    run_undisturbed(session, *chosen)


@nox.session(venv_backend="none", requires=["environment"])
def timing(session: nox.Session) -> None:
    """Test what depends on times, one test after the other. Needs a quiet machine."""
    run_undisturbed(session, "-m", f"{CHOSEN} and quiet", *files_of(session, "quiet"), *session.posargs)


@nox.session(venv_backend="none", requires=["environment"])
def browser(session: nox.Session) -> None:
    """Test the dashboard with the distribution's Chromium, which is installed where it is missing (root only)."""
    run(session, "python", "aiperf-analysis/tests/chromium.py", "install")
    run_tests(session, "-m", "browser", *files_of(session, "browser"), *session.posargs)


@nox.session(venv_backend="none", requires=["environment"])
def clusters(session: nox.Session) -> None:
    """Test fleets on a real Slurm and a real Ray of three nodes on this machine; installs them where it can."""
    run(session, "python", "aiperf-fleet/tests/clusters.py", "install")
    run_tests(session, "-m", "clusters", *files_of(session, "clusters"), *session.posargs)


@nox.session(venv_backend="none", requires=["environment"])
def gpu(session: nox.Session) -> None:
    """Test what needs a GPU. Fails where there is none."""
    answer = "from aiperf_core.devices.probe import has_cuda_device as found; raise SystemExit(not found())"
    run(session, "python", "-c", answer)
    run_tests(session, "-m", "gpu", *every_target(session), *session.posargs)


@nox.session(venv_backend="none", requires=["environment"])
def long(session: nox.Session) -> None:
    """Test what takes minutes and shows more of the same: the sizes of the lessons, hundreds of killed processes."""
    run_tests(session, "-m", "long", *files_of(session, "long"), *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and the budget of lines. To repair what can be repaired: nox -s lint -- --fix."""
    session.install("-c", "constraints.txt", *nox.project.dependency_groups(GROUPS, "lint"))
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []), ".")
    session.run("ruff", "format", *([] if fix else ["--check"]), ".")
    session.run("python", "line_budget.py")


@nox.session(venv_backend="none", requires=["environment"])
def types(session: nox.Session) -> None:
    """Check the types of every package."""
    run(session, "mypy", *(f"{package}/src" for package in PACKAGES))


@nox.session(venv_backend="none", requires=["environment"])
def kernels(session: nox.Session) -> None:
    """Compile every kernel of every package, two at a time; what has not changed comes from the cache. Needs no GPU."""
    run(session, "aiperf", "kernels", "--jobs", "2", *session.posargs)


@nox.session(venv_backend="none", requires=["environment"])
def docs(session: nox.Session) -> None:
    """Run every block of the documentation, and build its site into build/docs without a warning.

    A page of the site that loads anything from elsewhere fails.
    """
    run_tests(session, *THREE_AT_A_TIME, "-m", "docs", *files_of(session, "docs"), *session.posargs)
    site = ROOT / "build" / "docs"
    run(session, "sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env", "docs", str(site))
    # What a browser fetches by itself; a link that a reader may follow is another thing.
    fetched = re.compile(r"""(?:\ssrc|<link[^>]*\shref)=["'](?:https?:)?//|@import|url\(["']?(?:https?:)?//""")
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = fetched.search(page.read_text())
        if found:
            session.error(f"{page.relative_to(site)} loads from elsewhere: {found[0]}")
    session.log(f"open {site}/index.html")


@nox.session
@nox.parametrize("package", PACKAGES)
def alone(session: nox.Session, package: str) -> None:
    """Test a package alone, with what it requires: wheels in a new environment, its tests and its targets."""
    wheels = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    required = " ".join(nox.project.load_toml(ROOT / package / "pyproject.toml")["project"]["dependencies"])
    sources = [f"./{one}" for one in sorted({package, *re.findall(r"aiperf-\w+", required)})]
    session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), *sources)
    tools = nox.project.dependency_groups(GROUPS, "test")
    session.install("-c", "constraints.txt", *map(str, wheels.glob("*.whl")), *tools)
    chosen = ["-m", f"{CHOSEN} and not proof and not clusters", "--aiperf=all", f"{package}/tests"]
    session.run("pytest", *chosen, *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build every package into dist/, look into the wheels, and list the benchmarks from them alone."""
    session.install("-c", "constraints.txt", *nox.project.dependency_groups(GROUPS, "build"))
    wheels = []
    for package in PACKAGES:
        folder = ROOT / "dist" / package
        for old in folder.glob("*"):
            old.unlink()
        session.run("python", "-m", "build", "--outdir", str(folder), package, silent=True)
        (wheel,) = folder.glob("*.whl")
        check_complete(session, package, wheel)
        wheels.append(str(wheel))
    # Without their dependencies but for what listing needs: a listing that imports torch would fail here.
    session.install("-c", "constraints.txt", "attrs", "click", "pluggy", "rich")
    session.install("--no-deps", "--force-reinstall", *wheels)
    session.run("aiperf", "list")


def check_complete(session: nox.Session, package: str, wheel: Path) -> None:
    """Fail when a file of the source, such as a kernel or a schema, is not in the wheel."""
    source = ROOT / package / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in files if "__pycache__" not in name and not name.endswith(".pyc")}
    missing = wanted - set(zipfile.ZipFile(wheel).namelist())
    if missing:
        session.error(f"{wheel.name} lacks {', '.join(sorted(missing))}")
