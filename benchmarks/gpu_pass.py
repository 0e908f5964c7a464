"""Do what is owed on a machine with a GPU, as far as a budget of time reaches, and resume later.

    python benchmarks/gpu_pass.py --budget 1500 --out gpu-pass            # on the machine
    python benchmarks/gpu_pass.py --budget 1500 --out gpu-pass --resume   # the rest; on another machine --resume FOLDER
    python benchmarks/gpu_pass.py --budget 1500 --dry-run                 # the plan; needs no GPU

The steps, in this order:

| step | what it does |
| --- | --- |
| `tests:PACKAGE` | the GPU tests of a package, and the conformance of its targets at small and awkward sizes |
| `lessons:PACKAGE` | its GPU tests that are also long: the sizes of the lessons |
| `quick:TARGET`, `standard:TARGET` | a run of a target that was never measured, or whose files changed since |
| `write:TARGET` | its expectations, from the run of the tier standard |
| `selftest:ISSUE` | the proof of an issue that has an attack on this device |
| `record` | evidence that is owed |

A target that the machine cannot run, such as one for two GPUs, is no failure: its steps stay owed.
A step starts if its duration fits into the rest of the budget: the duration that it had in an earlier pass
(`pass.jsonl`), else a default of its kind. Targets that were never measured come first,
then those with the oldest measurement. A step that ended is left out by `--resume` while its sources are the same.

`OUT/pass.jsonl` gets a line when a step ends, `OUT/items.jsonl` a line when a test starts or ends, `OUT/logs/` the
output of each step while it runs. `OUT/pass.tar.gz` has all of these, the expectations files, and the bundles without
their samples; it is renewed every few minutes and at the end. Needs pytest and the packages on the path, and no nox.
Exit code 0: every step that was started ended well; 1: a step failed; 2: there is no such device, or a wrong argument.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_core.devices.probe import has_cuda_device
from aiperf_core.errors import AiperfError
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.results.hardware import is_gpu
from aiperf_core.stats import expectations
from aiperf_core.targets import InstalledTarget

ROOT = Path(__file__).resolve().parents[1]
AIPERF = (sys.executable, "-m", "aiperf_core")
# Seconds that a step takes where no pass has measured it, and after which it is stopped.
DEFAULT_S = {"tests": 60, "lessons": 90, "quick": 20, "standard": 60, "write": 10, "selftest": 15, "record": 240}
LIMIT_S = {"tests": 480, "lessons": 480, "quick": 120, "standard": 240, "write": 60, "selftest": 120, "record": 480}
ITEM_S = 300
PACK_EVERY_S = 180
NO_TESTS = 5  # exit code of pytest where no test was chosen
# Text of a test file with tests for a device.
MARKED = {"cuda": "mark.gpu", "cpu": "def test_"}
RECORDS, ITEMS = "pass.jsonl", "items.jsonl"
# How a step ended whose target this machine cannot run: it stays owed, with the reason.
UNFIT = re.compile(r"^\S+ +SKIPPED\n(needs .+)$", re.MULTILINE)
TAIL = 2000  # characters of output in a record


@frozen(kw_only=True)
class Step:
    """A step of a pass.

    name: unique, `KIND:SUBJECT` or `KIND`.
    command: the arguments of its process.
    sources: a hash of the files whose change makes it owed again.
    why: why it is owed.
    after: the step that must have ended well before.
    makes: the folder that it writes, which must not be there when it starts.
    """

    name: str
    command: tuple[str, ...]
    sources: str
    why: str = ""
    after: str = ""
    makes: Path | None = None

    @property
    def kind(self) -> str:
        """What kind of step this is."""
        return self.name.partition(":")[0]


@frozen
class Ended:
    """How a step's process ended. `code` is None where it was stopped at its limit."""

    code: int | None
    seconds: float
    tail: str = ""


# Runs a step with its limit in seconds.
Runner = Callable[[Step, float], Ended]


# --- what is owed


def plan(plugins: Plugins, device: str, out: Path) -> list[Step]:
    """All steps of this device, in their order."""
    core = digest([*ROOT.glob("aiperf-core/src/**/*"), *ROOT.glob("aiperf-redteam/src/**/*")])
    # The core's own targets are for trying out.
    targets = [one for one in plugins.targets if device in one.devices and one.distribution != "aiperf-core"]
    issues = dict.fromkeys(case.record.issue for case in plugins.attacks if case.record.device == device)
    steps = [*tests("tests", targets, device, core), *tests("lessons", targets, device, core)]
    steps += measurements(targets, device, out)
    prove = (*AIPERF, "selftest", "--device", device, "--quiet")
    steps += [Step(name=f"selftest:{one}", command=(*prove, "--issue", one), sources=core) for one in issues]
    return [*steps, Step(name="record", command=(*prove, "--record", str(out / "recorded")), sources=core)]


def tests(kind: str, targets: Sequence[InstalledTarget], device: str, core: str) -> Iterator[Step]:
    """The steps of pytest, a package each. `core` is the hash of what all packages build on."""
    marks = {"tests": "gpu and not long", "lessons": "gpu and long"}[kind]
    if device == "cpu":
        marks = f"{marks.replace('gpu', 'not gpu')} and not proof and not quiet and not docs"
    options = ["-p", "no:benchmark", "-p", "no:cacheprovider", "-p", "gpu_pass_items", "--tb=short", "-m", marks]
    if not entry_points(group="pytest11", name="aiperf"):
        options += ["-p", "aiperf_core.pytest_plugin"]
    if importlib.util.find_spec("pytest_timeout"):
        options.append(f"--timeout={ITEM_S}")
    for folder in sorted(ROOT.glob("aiperf-*/tests")):
        package = folder.parent.name
        groups = sorted({one.group for one in targets if one.distribution == package} if kind == "tests" else ())
        if not groups and not any(MARKED[device] in file.read_text() for file in folder.rglob("test_*.py")):
            continue
        conformance = [f"--aiperf={group}" for group in groups[:1]]
        command = (sys.executable, "-m", "pytest", str(folder), *options, *conformance)
        yield Step(name=f"{kind}:{package}", command=command, sources=f"{core[:16]}-{digest(folder.parent.rglob('*'))}")


def measurements(targets: Iterable[InstalledTarget], device: str, out: Path) -> Iterator[Step]:
    """Quick runs of the targets that are owed, then a standard run and its expectations for each."""
    found = [(measured, target, why, files) for target in targets for measured, why, files in owed(target, device)]
    found.sort(key=lambda one: one[0])
    run = (*AIPERF, "run", "--device", device, "--quiet")
    for tier in ("quick", "standard"):
        for _, target, why, files in found:
            name, bundle = f"{tier}:{target.name}", out / "bundles" / f"{tier}-{target.name}"
            command = (*run, target.name, "--tier", tier, "--out", str(bundle))
            yield Step(name=name, command=command, sources=digest(files), why=why, makes=bundle)
            if tier == "standard":
                command = (*AIPERF, "expectations", "write", str(bundle))
                yield Step(name=f"write:{target.name}", command=command, sources=digest(files), why=why, after=name)


def owed(target: InstalledTarget, device: str) -> Iterator[tuple[str, str, list[Path]]]:
    """The date of the last measurement, why the target is owed, and its files; nothing where it is not owed."""
    source = expectations.source_of(target)
    if source is None:
        return
    files = files_of(source)
    runs = [
        (run.date, run.git, run.sources[target.name])
        for path in sorted((source.folder / expectations.FOLDER).glob("*.json"))
        if is_gpu(path.name) == (device == "cuda")
        for run in getattr(expectations.read(path), "runs", ())
        if target.name in run.sources
    ]
    if not runs:
        yield "", "never measured", files
        return
    date, commit, measured = max(runs, key=lambda one: one[0])
    if measured != hashlib.sha256(source.file.read_bytes()).hexdigest():
        yield date, f"{source.file.name} changed since {date[:10]}", files
    elif changed := since(commit, files):
        yield date, f"{changed[0]} changed since {date[:10]}", files


def files_of(source: expectations.Source) -> list[Path]:
    """A target's module, and the kernels and modules of its package that it names."""
    text = source.file.read_text()
    names = set(re.findall(r"""["']([\w./]+\.(?:cu|cuh|c|h|py))["']""", text))
    names |= {f"{name}.py" for name in re.findall(r"\b(\w+_triton)\b", text)}
    inside = [path for path in sorted(source.folder.rglob("*")) if path.name in {Path(name).name for name in names}]
    return [source.file, *inside]


def since(commit: str | None, files: Sequence[Path]) -> list[str]:
    """The names of the files that differ from a commit; none where git does not know it."""
    command = ["git", "diff", "--name-only", commit or "", "--", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [] if done.returncode or not commit else [Path(line).name for line in done.stdout.splitlines()]


def digest(files: Iterable[Path]) -> str:
    """A hash of the names and contents of sources."""
    found = hashlib.sha256()
    for path in sorted(files):
        if path.is_file() and path.suffix in (".py", ".cu", ".cuh", ".c", ".h", ".toml"):
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


# --- the pass


class Pass:
    """A pass: starts the steps that fit into its budget, and records each when it ends."""

    def __init__(
        self, out: Path, run: Runner, clock: Callable[[], float] = time.monotonic, written: Sequence[Path] = ()
    ) -> None:
        self.out, self.run, self.clock, self.written = out, run, clock, written
        self.file = out / RECORDS
        self.records = read(self.file)
        self.durations = {one["step"]: one["seconds"] for one in self.records if one["outcome"] in ("ok", "failed")}

    def estimate(self, step: Step) -> float:
        """The duration of a step in seconds: that of an earlier pass, or the default of its kind."""
        return float(self.durations.get(step.name, DEFAULT_S[step.kind]))

    def ended(self, step: Step) -> bool:
        """Whether the step has ended with these sources. A stopped step, and one that did not fit, are still owed."""
        last = self.last(step)
        return last is not None and last["outcome"] in ("ok", "failed")

    def last(self, step: Step) -> dict[str, Any] | None:
        """The last record of a step with these sources."""
        found = [one for one in self.records if (one["step"], one["sources"]) == (step.name, step.sources)]
        return found[-1] if found else None

    def go(self, steps: Sequence[Step], budget: float) -> None:
        """Start each step that fits into what is left of the budget, in their order."""
        end, packed = self.clock() + budget, self.clock()
        for step in steps:
            left = end - self.clock()
            if self.estimate(step) > left or not self.ready(step, steps):
                continue
            print(f"[{left:4.0f} s left] {step.name}", flush=True)
            self.record(step, self.run(step, min(LIMIT_S[step.kind], left)))
            if self.clock() - packed > PACK_EVERY_S:
                pack(self.out, self.written)
                packed = self.clock()

    def ready(self, step: Step, steps: Sequence[Step]) -> bool:
        """Whether the step before this one ended well."""
        before = next((one for one in steps if one.name == step.after), None)
        last = self.last(before) if before else None
        return not step.after or (last is not None and last["outcome"] == "ok")

    def record(self, step: Step, ended: Ended) -> None:
        """Append how a step ended to the file; a failure is printed at once."""
        good = ended.code == 0 or (ended.code == NO_TESTS and step.kind in ("tests", "lessons"))
        unfit = not good and step.kind in ("quick", "standard") and UNFIT.search(ended.tail)
        outcome = "timeout" if ended.code is None else "ok" if good else "unfit" if unfit else "failed"
        found = {"step": step.name, "outcome": outcome, "code": ended.code, "seconds": round(ended.seconds, 2)}
        found |= {"sources": step.sources, "when": datetime.now(UTC).isoformat(timespec="seconds"), "tail": ended.tail}
        self.records.append(found)
        with self.file.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(f"              {outcome} after {ended.seconds:.0f} s", flush=True)
        if outcome != "ok":
            print(f"              {unfit[1]}" if unfit else ended.tail, flush=True)

    def summary(self, steps: Sequence[Step]) -> str:
        """A table: what ended well, what failed, and what is still owed, by kind of step; then the names."""
        lines = [f"{'step':<10} {'ok':>5} {'failed':>7} {'owed':>5}"]
        state = {step.name: (self.last(step) or {"outcome": "owed"})["outcome"] for step in steps}
        state = {name: found if found in ("ok", "failed") else "owed" for name, found in state.items()}
        for kind in dict.fromkeys(step.kind for step in steps):
            count = [
                sum(state[step.name] == one for step in steps if step.kind == kind) for one in ("ok", "failed", "owed")
            ]
            lines.append(f"{kind:<10} {count[0]:>5} {count[1]:>7} {count[2]:>5}")
        for one in ("failed", "owed"):
            names = [name for name, found in state.items() if found == one]
            lines += [f"{one}: {', '.join(names)}"] if names else []
        return "\n".join(lines)


def read(file: Path) -> list[dict[str, Any]]:
    """The records of a pass; a line that a killed pass wrote in part is left out."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            print(f"left out a line of {file} that is no record", file=sys.stderr)
    return found


def process(out: Path) -> Runner:
    """Runs steps as processes whose output goes to `OUT/logs`. What a stopped step started is stopped with it."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))

    def run(step: Step, limit_s: float) -> Ended:
        if step.makes:
            shutil.rmtree(step.makes, ignore_errors=True)
            step.makes.parent.mkdir(parents=True, exist_ok=True)
        items = {"GPU_PASS_ITEMS": str(out / ITEMS), "GPU_PASS_SOURCES": step.sources}
        (out / "logs").mkdir(parents=True, exist_ok=True)
        log, began = out / "logs" / f"{re.sub(r'[^A-Za-z0-9._-]', '-', step.name)}.log", time.monotonic()
        with log.open("wb") as file:
            child = subprocess.Popen(
                step.command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **items},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = child.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        return Ended(code, time.monotonic() - began, log.read_text(errors="replace")[-TAIL:])

    return run


def pack(out: Path, written: Sequence[Path] = ()) -> Path:
    """Write `pass.tar.gz`: records, logs, recordings, bundles without samples, and the expectations files.

    written: the folders of these files, in the packages as they are installed here.
    """
    packed, part = out / "pass.tar.gz", out / ".pass.tar.gz"
    with tarfile.open(part, "w:gz") as file:
        for path in sorted(out.rglob("*")):
            if path.is_file() and path not in (packed, part) and "samples" not in path.name:
                file.add(path, path.relative_to(out).as_posix())
        for folder in written:
            for path in sorted(folder.glob("*.json")):
                file.add(path, f"{folder.name}/{folder.parent.name}/{path.name}")
    return part.replace(packed)


def show(going: Pass, steps: Sequence[Step], budget: float) -> None:
    """Print the plan: each step with its duration and the reason, and how far the budget reaches."""
    left, fit = budget, 0
    for step in steps:
        seconds = going.estimate(step)
        state = "has ended" if going.ended(step) else "fits" if seconds <= left else "later"
        if state == "fits":
            left, fit = left - seconds, fit + 1
        print(f"{step.name:<48} {seconds:>5.0f} s  {state:<9}  {step.why}".rstrip())
    print(f"{len(steps)} steps, of which {fit} fit into {budget:.0f} s")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the command line."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "gpu-pass", metavar="FOLDER")
    parser.add_argument("--only", action="append", default=[], metavar="STEP", help="a name or a glob; may be repeated")
    parser.add_argument("--resume", nargs="?", type=Path, const="", metavar="FOLDER", help="of a pass [--out]")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dry-run", action="store_true", help="print the plan")
    asked = parser.parse_args(given)
    asked.out = asked.out.resolve()
    if asked.resume is not None:
        asked.resume = asked.out if asked.resume == Path() else asked.resume.resolve()
    return asked


def main() -> int:
    """Make the plan, and do as much of it as fits."""
    asked = arguments()
    plugins = load_plugins()
    try:
        steps = plan(plugins, asked.device, asked.out)
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    steps = [one for one in steps if not asked.only or any(fnmatchcase(one.name, name) for name in asked.only)]
    if not steps:
        print(f"error: no step is called {' or '.join(asked.only)}; see the names with --dry-run", file=sys.stderr)
        return 2
    if asked.dry_run:
        show(Pass(asked.resume or asked.out, process(asked.out)), steps, asked.budget)
        return 0
    if asked.device == "cuda" and not has_cuda_device():
        print(
            "error: there is no CUDA device here. See the plan with --dry-run, or try the steps with --device cpu",
            file=sys.stderr,
        )
        return 2
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.resume is None and (asked.out / RECORDS).exists():
        print(f"error: '{asked.out}' has a pass already. Add --resume, or name another --out", file=sys.stderr)
        return 2
    if asked.resume not in (None, asked.out):
        for name in (RECORDS, ITEMS):
            if (asked.resume / name).exists():
                shutil.copy(asked.resume / name, asked.out / name)
    sources = filter(None, map(expectations.source_of, plugins.targets))
    written = sorted({one.folder / expectations.FOLDER for one in sources})
    going = Pass(asked.out, process(asked.out), written=written)
    before = len(going.records)
    try:
        going.go([one for one in steps if not going.ended(one)], asked.budget)
    finally:
        summary = going.summary(steps)
        (asked.out / "summary.txt").write_text(f"{summary}\n")
        print(f"{summary}\npacked: {pack(asked.out, written)}", flush=True)
    return int(any(one["outcome"] != "ok" for one in going.records[before:]))


if __name__ == "__main__":
    sys.exit(main())
