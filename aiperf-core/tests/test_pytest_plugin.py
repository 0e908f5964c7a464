"""`pytest --aiperf` and `aiperf_core.testing.conformance`, on made-up packages: good, wrong, broken, slow to import."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from aiperf_core import testing
from aiperf_core.errors import UsageError
from aiperf_core.plugins import load_plugins
from aiperf_core.target_check import TargetCheck, prime_after
from aiperf_core.testing import Measuring, conformance

# The plugin is loaded by its entry point, unless the core was installed before it had one.
PLUGIN = [] if entry_points(group="pytest11", name="aiperf") else ["-p", "aiperf_core.pytest_plugin"]

TARGET = """
@hookimpl
def aiperf_targets():
    yield Target("double", "Twice as much", "speed", ("cpu", "cuda"))
"""
HEAD = '''"""Doubling.

Question    How is a number doubled?
Numbers     b = 2a.
Prediction  None.
Limits      None.
"""
import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 4096, "bits": 4})
def inputs(n, bits, device, generator):
    if bits != 4:
        raise ValueError("bits must be 4")
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return 2 * a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def product(a):
    return 2 * a
'''
# Right at all sizes; one declines some of them, one needs what is not there.
FEW = """

@bench.variant(device="cpu", why="no product")
def sum(a):
    return a + a


@bench.variant(device="cpu", why="whole vectors, and says so")
class Declining:
    def prepare(self, a):
        if a.numel() % 4:
            raise SkipError("needs whole vectors of 4")

    def run(self, a):
        return 2 * a


@bench.variant(device="cpu", why="for other machines", requires="package:no_such_package")
def elsewhere(a):
    return 2 * a
"""
# And one that is wrong where vectors of four overhang, and says nothing of it, and one that crashes.
VARIANTS = (
    FEW
    + """

@bench.variant(device="cpu", why="whole vectors")
def vectors(a):
    whole = a.numel() // 4 * 4
    out = torch.zeros_like(a)
    out[:whole] = 2 * a[:whole]
    return out


@bench.variant(device="cpu", why="it crashes")
def crash(a):
    import os
    os.abort()
"""
)
RANKS = '''"""All-reduce."""
import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="latency", clock="wall", cache="warm")


@bench.workload(smoke={"n": 8, "world_size": 2})
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return [sum(x)] * len(x)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def all_reduce(x):
    out = x.clone()
    dist.all_reduce(out)
    return out


@bench.variant(device="cpu", why="it keeps to itself")
def alone(x):
    return 2 * x
'''


# A test that an author writes.
OWN = """
import pytest

from aiperf_core.testing import problems


@pytest.mark.parametrize("n", [3])
def test_measured(aiperf_measure, n):
    result = aiperf_measure("acme.refused", n=n)
    assert problems(result) == []
    assert [row.name for row in result.rows] == ["product"]
    assert result.problem.params == {"n": 3, "bits": 4}
"""


@pytest.fixture(autouse=True)
def found_by_children(site, monkeypatch):
    """Let the processes that a test starts find what is installed in the site."""
    monkeypatch.setenv("PYTHONPATH", str(site.folder), prepend=os.pathsep)


@pytest.fixture
def acme(site):
    site.install("aiperf-acme", TARGET)
    site.write("aiperf_acme/double.py", HEAD + VARIANTS)
    return site


def run(site, *arguments):
    """Run pytest in the folder of a site, in a process of its own; what it says of each test, and all of it."""
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", "-v", "-W", "error", *arguments]
    done = subprocess.run(
        command,
        cwd=site.folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    told = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition("] ")
        if name.startswith(("acme.", "test_")) and rest.startswith(("PASSED", "FAILED", "SKIPPED")):
            told[f"{name}]"] = rest.rpartition(" [")[0].strip()
    return done, told


# Of one target another result is read than was written.
READS_ANOTHER = """
import attrs
from aiperf_core.results.bundle import Bundle
read = Bundle.target
Bundle.target = lambda self, name: attrs.evolve(read(self, name), **{"seed": 0} if name == "acme.priced" else {})
"""


@pytest.fixture(scope="module")
def conformed(tmp_path_factory, make_site):
    """One run of pytest over targets that are right, wrong, broken and of several ranks: what it says, and the site."""
    site = make_site(tmp_path_factory.mktemp("conformed"))
    names = ("double", "noted", "refused", "priced", "broken", "ranked", "lost")
    lines = "".join(f"    yield Target({name!r}, {name!r}, 'speed', 'cpu')\n" for name in names)
    more = "    yield Target('good', 'good', 'speed', ('cpu', 'cuda'))\n    yield Target('odd', 'odd', 'speed', 'abacus')\n"
    site.install("aiperf-acme", f"@hookimpl\ndef aiperf_targets():\n{lines}{more}")
    on_cpu = HEAD.replace('device=("cpu", "cuda")', 'device="cpu"')
    limits = ("Limits ", "Bounds ")
    of_docstring, of_sizes = (f"\nbench.accept('form.{name}', because='a test')\n" for name in ("docstring", "sizes"))
    site.write("aiperf_acme/double.py", on_cpu + VARIANTS)
    site.write(
        "aiperf_acme/good.py", HEAD.replace(*limits) + FEW + "\nbench.awkward(n=(1, 4099))\n" + of_docstring + of_sizes
    )
    site.write("aiperf_acme/noted.py", on_cpu.replace(*limits))
    site.write("aiperf_acme/refused.py", on_cpu + "\nbench.awkward({'n': 1}, {'n': 5, 'bits': 3})\n")
    site.write("aiperf_acme/priced.py", on_cpu.replace("bytes_read=4 * n", "bytes_read=40 * n"))
    site.write("aiperf_acme/broken.py", "1 / 0\n")
    site.write("aiperf_acme/ranked.py", RANKS + "\nbench.awkward({'n': 3, 'world_size': 3})\n")
    lost = on_cpu.replace('device="cpu"', 'device="cpu", requires="package:no_such_package"')
    site.write("aiperf_acme/lost.py", lost + of_sizes)
    site.write("aiperf_acme/odd.py", on_cpu)
    site.write("pytest.ini", "[pytest]\naiperf_strict = true\n")
    site.write("conftest.py", READS_ANOTHER)
    site.write("test_own.py", OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site.folder), prepend=os.pathsep)
        return site, *run(site, "--aiperf=acme")


def test_every_target_is_a_test_on_each_of_its_devices(conformed):
    _, done, told = conformed
    on_a_gpu = told.pop("acme.good[cuda]")
    assert on_a_gpu in ("SKIPPED (needs a device 'cuda'; here is cpu)", "PASSED")
    assert told == {
        "test_own.py::test_measured[3]": "PASSED",
        "acme.double[cpu]": "FAILED",
        "acme.good[cpu]": "PASSED",
        "acme.noted[cpu]": "FAILED",
        "acme.refused[cpu]": "FAILED",
        "acme.priced[cpu]": "FAILED",
        "acme.broken[cpu]": "FAILED",
        "acme.ranked[cpu]": "FAILED",
        "acme.lost[cpu]": "SKIPPED (product: needs the package 'no_such_package' (pip install it))",
        "acme.odd[abacus]": "FAILED",
    }
    assert done.returncode == 1


def test_a_failure_says_what_is_wrong_and_where_without_our_frames(conformed):
    site, done, _ = conformed
    said = done.stdout.partition("short test summary")[0]
    # The workload takes no other `bits`. Each wrong implementation is told, and only those.
    assert "acme.double:vectors on cpu at n=4099, bits=4: gives a wrong answer on draw 1 of 5: " in said
    line = (HEAD + VARIANTS).splitlines().index('@bench.variant(device="cpu", why="whole vectors")') + 1
    assert f"\n    {site.folder}/aiperf_acme/double.py:{line} (vectors)\n" in said
    # What crashes costs neither the other implementations nor the other sizes.
    for n in (4096, 4099):
        assert re.search(rf"acme\.double:crash on cpu at n={n}, bits=4: .*SIGABRT", said)
    assert set(re.findall(r"acme\.double:(\w+) on cpu", said)) == {"vectors", "crash"}
    assert "cost.bytes_read: declares 163,840 bytes read; the inputs have 16,384\n" in said
    assert "form.docstring: the labels of the file's docstring: Question, Numbers, Prediction, Bounds\n" in said
    assert "\nacme.priced on cpu: the result changes when it is written and read\n" in said
    assert f"ZeroDivisionError at {site.folder}/aiperf_acme/broken.py:1: division by zero" in said
    assert "no plugin provides the device 'abacus'; known are cpu, cuda" in said
    # A size that the workload refuses is told once, not once for each implementation.
    (refused,) = (line for line in said.splitlines() if line.startswith("acme.refused on cpu at "))
    assert refused == (
        "acme.refused on cpu at n=5, bits=3: the workload refuses this awkward size: raised ValueError: bits must be 4"
    )
    assert f"{refused}\n    {site.folder}/aiperf_acme/refused.py\n" in said
    assert "acme.refused:" not in said
    # Ranks are measured together, at the awkward sizes too.
    assert re.search(r"acme\.ranked:alone on cpu at n=8, world_size=2: INVALID: ", said)
    assert re.search(r"acme\.ranked:alone on cpu at n=3, world_size=3: INVALID: ", said)
    assert "acme.ranked:all_reduce" not in said
    assert "pytest_plugin.py" not in said


def test_what_was_skipped_in_a_target_that_passed_is_listed(conformed):
    _, done, _ = conformed
    listed = done.stdout.partition("implementations that this machine cannot test")[2]
    assert "acme.good[cpu] elsewhere: needs the package 'no_such_package' (pip install it)\n" in listed
    assert "acme.good[cpu] declining: needs whole vectors of 4\n" in listed


def test_one_implementation_chosen_by_name_beside_an_author_s_tests(acme):
    """Its target has a note, which fails only where pytest is told so, and a marker by its name."""
    acme.write("pytest.ini", "[pytest]\nmarkers = slow: by name\naiperf_marks = acme.d*: slow\n")
    acme.write(
        "test_own.py", "import pytest\n@pytest.mark.slow\n@pytest.mark.parametrize('n', [1])\ndef test_one(n): pass\n"
    )
    done, told = run(acme, "--aiperf=acme.double:sum", "-k", "cpu or test_own", "-m", "slow")
    assert told == {"test_own.py::test_one[1]": "PASSED", "acme.double[cpu]": "PASSED"}
    assert done.returncode == 0


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_target_that_is_not_there(acme, workers):
    done, _ = run(acme, "--aiperf=acme.duble", *workers)
    message = "--aiperf: 'acme.duble' is not a target. Did you mean 'acme.double'?"
    assert (done.returncode, done.stderr) == (4, f"ERROR: {message}\n\n")


def test_an_implementation_that_is_not_there(lent_server, monkeypatch):
    monkeypatch.setattr(testing, "ForkServer", lambda preload: lent_server())
    with Measuring() as measuring:
        (selection,) = load_plugins().select(["practice.sum_rows:sun"])
        check = TargetCheck(measuring, selection, "cpu")
        check.run()
    assert check.problems == ["'practice.sum_rows' has no implementation named 'sun'; it has kept_output, library."]


def test_it_costs_nothing_when_it_is_not_asked_for(site):
    for name in ("torch", "triton", "numpy", "cattrs"):
        site.write(f"{name}.py", f"raise BaseException('{name} was imported')\n")
    site.write("test_own.py", "import pytest\n@pytest.mark.parametrize('n', [1])\ndef test_one(n): pass\n")
    done, told = run(site)
    assert told == {"test_own.py::test_one[1]": "PASSED"}, done.stdout + done.stderr
    asked, _ = run(site, "--aiperf=practice.softmax", "-k", "cpu", "--tb=line")
    assert "was imported" in asked.stdout + asked.stderr


def test_a_test_that_needs_more_gpus_than_there_are_is_skipped(site):
    site.write("torch.py", "from types import SimpleNamespace\ncuda = SimpleNamespace(device_count=lambda: 1)\n")
    site.write(
        "test_own.py",
        "import pytest\n"
        "NEEDED = [pytest.param(n, marks=pytest.mark.aiperf_gpus(n)) for n in (1, 2)]\n"
        "@pytest.mark.parametrize('n', NEEDED)\ndef test_on(n): pass\n",
    )
    done, told = run(site)
    wanted = {"test_own.py::test_on[1]": "PASSED", "test_own.py::test_on[2]": "SKIPPED (needs 2 GPUs (1 here))"}
    assert told == wanted, done.stdout + done.stderr


@pytest.mark.parametrize(("size", "prime"), [(0, 2), (1, 2), (2, 3), (4, 5), (8, 11), (4096, 4099), (4099, 4111)])
def test_primes(size, prime):
    assert prime_after(size) == prime


def test_conformance_says_all_that_is_wrong(site):
    site.install(
        "aiperf-acme",
        TARGET
        + """
    yield Target("again", "Twice as much", "speed", ("cpu",))
    yield Target("long", "Long" * 30, "speed", ("cuda",))


@hookimpl
def aiperf_commands():
    import click
    yield Command("grow", "Grow.", lambda: click.Command("shrink"))
    yield Command("lost", "Lost.", "aiperf_acme.lost:command")


@hookimpl
def aiperf_issues():
    from aiperf_core.validity.issues import Issue
    yield Issue(id="acme.odd", title="Odd", happens="It is odd.", guard="oddness", protection="None.")


@hookimpl
def aiperf_attacks():
    from aiperf_core.validity.cases import Case
    yield Case(issue="acme.odd", module="aiperf_acme.double", implementation="sun")
    yield Case(issue="acme.even", module="aiperf_acme.double", implementation="product", honest=True)
    yield Case(issue="acme.odd", module="aiperf_acme.lost", implementation="sum")
""",
    )
    site.write("aiperf_acme/double.py", HEAD + FEW[: FEW.index('@bench.variant(device="cpu", why="whole')])
    site.write(
        "aiperf_acme/again.py", HEAD.replace("return 2 * a\n", "return 3 * a\n").replace("return 3", "return 2", 1)
    )
    site.write("aiperf_acme/long.py", HEAD.replace('("cpu", "cuda")', '"cuda"'))
    lines = conformance("Aiperf.Acme")
    wrong = "'acme.again' on cpu: product: INVALID: "
    assert [line for line in lines if not line.startswith((wrong, "'acme.long' on cuda"))] == [
        "'acme.again' has the summary of 'acme.double'",
        "'acme.long' has a summary of 120 characters; 100 fit a line",
        "command 'grow' calls itself 'shrink' in its help",
        "command 'lost' cannot be loaded: ModuleNotFoundError: No module named 'aiperf_acme.lost'",
        "issue 'acme.odd' has no honest look-alike, so nothing is proven of it",
        "case 'aiperf_acme.double:sun' is no implementation on 'cpu'; there are product, sum",
        "case 'aiperf_acme.double:product' is of issue 'acme.even', which no plugin registers",
        "case 'aiperf_acme.lost:sum' cannot be tried: 'aiperf_acme.lost:sum' cannot be used: importing 'aiperf_acme.lost' "
        "raised ModuleNotFoundError: No module named 'aiperf_acme.lost'",
    ]
    assert [line for line in lines if line.startswith(wrong)]


def test_conformance_of_a_plugin_that_imports_torch_is_refused(site):
    site.install("aiperf-acme", "try:\n    import torch\nexcept ImportError:\n    pass\n")
    (line,) = conformance("aiperf-acme")
    assert (
        line == "'acme' is set aside: its import raised HeavyImport: the import of 'torch', which slows every command"
    )


def test_conformance_of_a_plugin_that_prints(site):
    site.install("aiperf-acme", "print('hello')\n")
    assert conformance("aiperf-acme") == ["'acme' printed while it was loaded: 'hello'"]


def test_conformance_of_what_is_no_plugin(site):
    site.declare("aiperf-empty", "0.3", "")
    with pytest.raises(UsageError) as absent:
        conformance("aiperf-acme")
    assert str(absent.value).startswith(
        "'aiperf-acme' is not installed. Distributions with plugins: aiperf-analysis, aiperf-c"
    )
    assert str(absent.value).endswith(". Install yours with: pip install -e FOLDER")
    with pytest.raises(UsageError, match="^'aiperf-empty' 0.3 is installed, but declares no entry point in the group"):
        conformance("aiperf-empty")
