import hashlib
import json

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted | indices", "speed", ("cpu", "cuda"))
    yield Target("copy", "A copy", "memory", ("cpu",))
"""
BENCHMARK = '''"""Sorted gather: neighbours in *memory*.

Workload   out[i] = a[index[i]] over
           `n_words` values.
Breaks     Arrays that fit in the cache.
"""
from aiperf_core import Benchmark, Cost, exact, lossy

bench = Benchmark(goal="GOAL", clock="device")

@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 25})
def inputs(n, device, generator): ...

@bench.reference(tolerance=exact)
def reference(a): ...

@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n)

@bench.baseline(device=DEVICES, kind="naive")
def shuffled(a): ...

@bench.variant(device=DEVICES, why="a line is fetched | once")
def ordered(a): ...
'''
GATHER = (
    BENCHMARK.replace("GOAL", "speed").replace("DEVICES", '("cpu", "cuda")')
    + """
@bench.variant(device="cuda", requires="sm_80", builds_on="ordered", lossy=lossy("rel_l2", at_most=0.05), why="half")
def halved(a): ...

bench.reach(of="speedup", at_least=2, device="cuda", cause="it is *small*", shown_by="variant:halved")
"""
)
COPY = BENCHMARK.replace("GOAL", "memory").replace("DEVICES", '"cpu"')
RUN = {
    "bundle": "run7",
    "seal": "0" * 64,
    "date": "2026-11-22T17:23:01+00:00",
    "versions": {"aiperf": "0.1.0", "driver": "580.1"},
    "git": "3904a98e3b33151e438de799110a45c2a6dfcfbc",
    "tier": "standard",
}


@pytest.fixture
def package(site):
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/gather.py", GATHER)
    site.write("aiperf_acme/copy.py", COPY)
    return site.folder / "aiperf_acme"


def store(package, hardware, figures, source=GATHER, date=RUN["date"], goals=None):
    """Write an expectations file with these figures of `ordered` and `halved`."""
    rows = {
        f"acme.gather:{name}": {
            "metric": "speedup",
            "at_least": low,
            "measured": value,
            "low": low,
            "high": high,
            "sizes": {"n": 33554432.0},
            "run": 0,
            "goals": (goals or {}).get(name, []),
            "sol": {"bound": "memory", "time_s": 0.1, "fraction": 0.94},
        }
        for name, (value, low, high) in figures.items()
    }
    sources = {"acme.gather": hashlib.sha256(source.encode()).hexdigest()}
    page = {"hardware": hardware, "format": 1, "runs": [{**RUN, "date": date, "sources": sources}], "expected": rows}
    (package / "expectations").mkdir(exist_ok=True)
    (package / "expectations" / f"{hardware}.json").write_text(json.dumps(page))


@pytest.fixture
def written(site, package, tmp_path):
    def write(*arguments, name="page.md"):
        out = tmp_path / name
        found = CliRunner().invoke(Shell(site.load()), ["page", *(arguments or ("acme",)), "--out", str(out)])
        return found, out

    return write


def section(text, name):
    return next(part for part in text.split("\n## ") if part.startswith(f"`{name}`"))


def test_a_page(written, package):
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1), "halved": (8.0, 7.9, 8.1)})
    found, out = written()
    assert (found.exit_code, found.output) == (0, f"{out}: 2 targets, 1 figure\n")
    text = out.read_text()
    assert text.startswith("# aiperf-acme\n\n| target | devices | goal | lesson |\n")
    assert "| [`acme.gather`](#acmegather) | cpu, cuda | speed | Sorted \\| indices |" in text
    gather = section(text, "acme.gather")
    assert "Sorted gather: neighbours in \\*memory\\*." in gather
    assert "- **Workload.** out\\[i\\] = a\\[index\\[i\\]\\] over `n_words` values.\n- **Breaks.** Arrays" in gather
    assert "| cuda | `shuffled` | *naive baseline* |  |" in gather
    half = "half (builds on `ordered`); lossy: rel_l2 at most 0.05"
    assert f"| cuda | `halved` | {half} | `sm_80` |" in gather
    assert "a line is fetched \\| once" in gather
    assert "- **Goal** on cuda: at least 2x the speed of the baseline, " in gather
    assert (
        "by the fastest variant. Not measured. Missed because it is \\*small\\* (shown by `variant:halved`)." in gather
    )
    assert "![speedup relative to the baseline: shuffled baseline, ordered 4.00x [3.90, 4.10], SOL 94 %, " in gather
    assert "](page-acme.gather.svg)" in gather
    assert (
        "Measured on `nvidia-h200-x1`, 2026-11-22 17:23 UTC, tier standard: n=33,554,432; aiperf 0.1.0, driver 580.1; "
        "git 3904a98e3b33; run `run7`."
    ) in gather
    assert "changed since" not in text
    assert "Not measured on" not in gather
    assert section(text, "acme.copy").endswith("*No stored measurement.*\n")
    assert ">halved</text>" in out.with_name("page-acme.gather.svg").read_text()


def test_a_target_without_a_figure_of_a_gpu_says_so(written, package):
    assert "*Not measured on a GPU yet.*" in section(written("acme.gather")[1].read_text(), "acme.gather")
    store(package, "intel-r-xeon-r-processor-x16", {"ordered": (4.0, 3.9, 4.1)})
    gather = section(written("acme.gather")[1].read_text(), "acme.gather")
    assert "Measured on `intel-r-xeon-r-processor-x16`" in gather
    assert "halved" not in gather.partition("![")[2].partition("]")[0]
    assert gather.endswith("*Not measured on a GPU yet.*\n")


def test_a_gpu_comes_before_a_newer_cpu_and_the_newest_gpu_first(written, package):
    store(package, "nvidia-a100-x1", {"ordered": (4.0, 3.9, 4.1)}, date="2026-01-01T00:00:00+00:00")
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1)})
    store(package, "xeon-x16", {"ordered": (4.0, 3.9, 4.1)}, date="2026-12-01T00:00:00+00:00")
    text = written("acme.gather")[1].read_text()
    assert text.count("Measured on") == 1
    assert "Measured on `nvidia-h200-x1`" in text


def test_the_stored_figure_of_a_goal_stands_beside_it(written, package):
    reached = {"ordered": [{"of": "speedup", "value": 1.5, "low": 1.4, "high": 1.6}]}
    reached["halved"] = [{"of": "speedup", "value": 1.9, "low": 1.8, "high": 2.1}]
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1), "halved": (8.0, 7.9, 8.1)}, goals=reached)
    assert (
        "Reached: 1.90x [1.80, 2.10] by `halved` on `nvidia-h200-x1`. Missed because"
        in written("acme.gather")[1].read_text()
    )


def test_a_source_that_changed_is_told(written, package):
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1)}, source="another")
    text = written("acme.gather")[1].read_text()
    assert "*The source has changed since this measurement.*" in text


def test_files_that_cannot_be_written(written):
    found, out = written(name="page.html")
    assert found.exit_code == 2
    assert found.stderr == f"aiperf: '{out}' does not end in .md; give --out a name such as page.md.\n"
    found, out = written("acme.copy", name="missing/page.md")
    assert found.exit_code == 1
    assert found.stderr == f"aiperf: cannot write '{out}': No such file or directory. Choose another --out.\n"
