"""Measure the results that `aiperf demo` shows, and pack them into the package.

    python benchmarks/demo_results.py --work FOLDER [--bundle FOLDER ...]

On this machine's CPU: a history of 40 runs of `demo_targets/row_norm.py`, of which the last 15 have a real slip in
their source, a copy of the input; a product of matrices at four sizes; and three small targets. `--bundle` adds bundles
that other machines measured. All are sealed, and packed as they are. A run that is in FOLDER already is not repeated.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile

from attrs import frozen

from aiperf_core.errors import ExitCode
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal_check import check

SOURCES = Path(__file__).with_name("demo_targets")
PACKAGE = "demo_targets"
ARCHIVE = Path(__file__).parents[1] / "aiperf-analysis" / "src" / "aiperf_analysis" / "demo_results.zip"
RUNS, SLIPPED = 40, 15
CPU = ("--device", "cpu", "--tier", "quick", "--quiet")


@frozen
class Step:
    """A run: the name of its bundle, the arguments of `aiperf run`, and the value of COPIES_INPUT."""

    name: str
    arguments: tuple[str, ...]
    slipped: bool = False


def plan() -> Iterator[Step]:
    """The runs, the history last: its newest run is the newest of all."""
    yield Step("sizes", ("practice.matmul", "--set", "m=64,128,256,512", *CPU, "--budget", "2"))
    yield Step("three-targets", ("practice.*", *CPU, "--budget", "2"))
    for number in range(1, RUNS + 1):
        slipped = number > RUNS - SLIPPED
        yield Step(f"history-{number:02}", ("demo.row_norm", *CPU, "--budget", "1"), slipped)


def package(folder: Path, slipped: bool) -> Path:
    """Make the target a package with an entry point, and return its folder."""
    text = (SOURCES / "row_norm.py").read_text()
    assert text.count("\nCOPIES_INPUT = False\n") == 1
    shutil.copytree(SOURCES, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (folder / PACKAGE / "row_norm.py").write_text(
        text.replace("\nCOPIES_INPUT = False\n", f"\nCOPIES_INPUT = {slipped}\n")
    )
    info = folder / "aiperf_demo-0.1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aiperf-demo\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[aiperf_core]\ndemo = {PACKAGE}.plugin\n")
    return folder


def measure(step: Step, work: Path) -> Path:
    """Make a run, unless its bundle is there, and return its bundle."""
    bundle = work / "bundles" / step.name
    if bundle.exists():
        return bundle
    sources = package(work / ("slipped" if step.slipped else "as-it-is"), step.slipped)
    path = os.pathsep.join(filter(None, (str(sources), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "aiperf_core", "run", *step.arguments, "--out", f"bundles/{step.name}"]
    done = subprocess.run(command, cwd=work, env={**os.environ, "PYTHONPATH": path}, check=False)
    if done.returncode not in (ExitCode.OK, ExitCode.INVALID):  # a finding is a result like others
        raise SystemExit(f"the run {step.name} ended with {done.returncode}")
    return bundle


def pack(bundles: Sequence[Path]) -> None:
    """Write the archive; a bundle that was changed or is unfinished ends the program."""
    with ZipFile(ARCHIVE, "w", ZIP_LZMA) as archive:
        for bundle in bundles:
            if problem := check(Bundle(bundle)).told():
                raise SystemExit(problem)
            for file in sorted(one for one in bundle.rglob("*") if one.is_file()):
                archive.write(file, f"{bundle.name}/{file.relative_to(bundle)}")


def main() -> None:
    """Measure what is missing, and pack everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="where the runs are kept")
    parser.add_argument(
        "--bundle", type=Path, nargs="*", default=[], metavar="FOLDER", help="bundles of other machines"
    )
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    pack([*given.bundle, *(measure(step, given.work.resolve()) for step in plan())])
    print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
