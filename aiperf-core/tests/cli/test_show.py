import json
import re

import attrs
import measured
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.errors import BenchmarkError
from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example, structure
from aiperf_core.results.models import Verdict

pytestmark = pytest.mark.usefixtures("made_up_figures")

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted indices turn a gather into a copy", "speed", ("cpu", "cuda"), ("memory",))
"""
BENCHMARK = '''"""Sorted gather: neighbours in the index
should be neighbours in memory.

Workload   out[i] = a[index[i]] over n float32 values, with a sentence that is longer than a terminal is wide, twice over,
           and goes on below.
Breaks     Arrays that fit in the cache.

A last word.
"""
from aiperf_core.benchmark import Benchmark, lossy
from aiperf_core.cost import Cost
from aiperf_core.tolerance import exact

bench = Benchmark(goal="speed", clock="device")

@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25})
def inputs(n, device, generator): ...

@bench.reference(tolerance=exact)
def reference(a): ...

@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=n, precision="fp32"EXTRA)

@bench.baseline(device=("cpu", "cuda"), kind="naive")
def shuffled(a): ...

@bench.variant(device="cpu", why="a line is fetched once")
def ordered(a): ...

@bench.variant(device="cuda", requires=("sm_80", "compiler"), builds_on="shuffled", lossy=lossy("rel_l2", at_most=0.05),
               why="half the bytes")
def halved(a): ...

@bench.yardstick(device="cuda", why="torch.gather")
def torch(a): ...
'''
SHOWN = """\
acme.gather - Sorted indices turn a gather into a copy

Sorted gather: neighbours in the index should be neighbours in memory.

Workload  out[i] = a[index[i]] over n float32 values, with a sentence that is
          longer than a terminal is wide, twice over, and goes on below.
Breaks    Arrays that fit in the cache.

A last word.

goal     speed
clock    device, cold cache
answer   bit-exact
package  aiperf-acme 0.3

preset  sizes            reads    writes       arithmetic
---------------------------------------------------------
smoke   n=4,099       32.0 KiB  16.0 KiB  4.10 kFLOP fp32
cpu     n=33,554,432   256 MiB   128 MiB  33.6 MFLOP fp32

device  implementation  what it is
--------------------------------------------------------------------------------
cpu     shuffled        naive baseline

        ordered         a line is fetched once

cuda    shuffled        naive baseline

        halved          half the bytes
                        needs sm_80, compiler; builds on shuffled; lossy: rel_l2
                        at most 0.05

        torch           yardstick: torch.gather

"""


@pytest.fixture(autouse=True)
def at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def acme(site):
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/gather.py", BENCHMARK.replace("EXTRA", ""))
    return site.load()


def show(plugins, *arguments):
    return CliRunner().invoke(Shell(plugins), ["show", *map(str, arguments)])


def test_it_is_a_built_in_command():
    assert load_plugins([]).commands["show"].record.resolve().name == "show"


# --- targets


def test_a_target(acme):
    result = show(acme, "acme.gather")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == SHOWN


def test_one_implementation(acme):
    lines = show(acme, "acme.gather:halved").stdout.splitlines()
    table = lines[next(index for index, line in enumerate(lines) if line.startswith("device")) + 2 :]
    assert table[0] == "cuda    halved          half the bytes"
    assert not any("shuffled  " in line or "torch" in line for line in table)


@pytest.mark.parametrize(
    ("extra", "headings", "figures"),
    [
        (", wire_bytes=4 * n, tokens=n", ["wire", "tokens"], ["16.0", "KiB", "4,099"]),
        (
            ", disk_read_bytes=4 * n, disk_written_bytes=8 * n",
            ["disk", "reads", "disk", "writes"],
            ["16.0", "KiB", "32.0", "KiB"],
        ),
    ],
)
def test_costs_that_only_some_targets_have(site, extra, headings, figures):
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/gather.py", BENCHMARK.replace("EXTRA", extra))
    table = show(site.load(), "acme.gather").stdout.partition("preset")[2].splitlines()
    assert table[0].split() == ["sizes", "reads", "writes", "arithmetic", *headings]
    assert table[2].split()[-len(figures) :] == figures


def test_goals(site):
    goals = """
bench.reach(of="RBW", at_least=0.9, size="smoke", device="cpu")
bench.reach(of="time:torch", at_most=1.1, implementation="halved", size="cpu", cause="late stores", shown_by="sass:STG")
"""
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/gather.py", BENCHMARK.replace("EXTRA", "") + goals)
    plugins = site.load()
    shown = " ".join(show(plugins, "acme.gather").stdout.split())
    assert "to reach at least 90 % of the rate of a read at size smoke (cpu)" in shown
    assert (
        "to reach at most 1.1x the time of torch at size cpu (cuda, by halved). Missed: late stores (sass:STG)" in shown
    )
    (found,) = json.loads(show(plugins, "acme.gather", "--json").stdout)["targets"]
    assert [one["of"] for one in found["goals"]] == ["RBW", "time:torch"]
    assert found["goals"][0]["params"] == {}


def test_a_target_that_is_not_there(acme):
    result = show(acme, "acme.gahter")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "aiperf: 'acme.gahter' is not a target. Did you mean 'acme.gather'?\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("orderd", " Did you mean 'ordered'?"), ("zzz", " There are: halved, ordered, shuffled, torch")],
)
def test_an_implementation_that_is_not_there(acme, name, hint):
    result = show(acme, f"acme.gather:{name}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"aiperf: 'acme.gather' has no implementation '{name}'.{hint}\n"


def test_a_target_whose_file_is_at_fault(site):
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/gather.py", "raise ValueError('typo')")
    plugins = site.load()
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(plugins.targets[0])
    result = show(plugins, "acme.gather")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"aiperf: {caught.value}\n"


def test_targets_as_json(acme):
    (found,) = json.loads(show(acme, "acme.*", "--json").stdout)["targets"]
    assert found["name"] == "acme.gather"
    assert found["lesson"].startswith("Sorted gather: neighbours in the index\nshould be")
    assert (found["goal"], found["clock"], found["cache"]) == ("speed", "device", "cold")
    assert set(found["tolerances"].values()) == {"bit-exact"}
    assert found["presets"]["smoke"]["params"] == {"n": 4099}
    assert found["presets"]["smoke"]["cost"]["bytes_read"] == 8 * 4099
    assert [(one["device"], one["name"], one["role"]) for one in found["implementations"]] == [
        ("cpu", "shuffled", "baseline"),
        ("cpu", "ordered", "variant"),
        ("cuda", "shuffled", "baseline"),
        ("cuda", "halved", "variant"),
        ("cuda", "torch", "yardstick"),
    ]
    assert found["implementations"][3] == {
        "name": "halved",
        "role": "variant",
        "device": "cuda",
        "why": "half the bytes",
        "kind": None,
        "requires": ["sm_80", "compiler"],
        "builds_on": "shuffled",
        "lossy": {"metric": "rel_l2", "budget": 0.05},
        "adds": [],
        "predict": "",
        "teaches": "",
    }


# --- bundles

BRIEF = """\
command    aiperf run ch07.memory_access ch10.warp_specialized_gemm
run        2026-11-21 14:25 UTC, complete, exit code 3, on NVIDIA H200
set aside  aiperf-acme 0.3: unknown hook 'x'

ch07.memory_access - cuda - n=268,435,456 (1 GiB in, 1 GiB out)
"""
HEAD = """\
command     aiperf run ch07.memory_access ch10.warp_specialized_gemm
run         2026-11-21 14:25 UTC, complete, exit code 3
machine     node7, Debian GNU/Linux 12 (bookworm), Linux 6.18.44 x86_64
processor   AMD EPYC 9654 96-Core Processor, 16 logical CPUs usable, 128 GiB
GPU         NVIDIA H200, 141 GiB, compute capability 9.0, driver 570.86.15
hypervisor  KVM
ceilings    cuda, measured 2026-11-20 09:00 UTC: copy 4.34 TB/s, fp32 matmul
            59.0 TFLOP/s
software    aiperf 0.1.0 (ch07), torch 2.13.0, triton 3.9.0, CPython 3.11.7
set aside   aiperf-acme 0.3: unknown hook 'x'
git         0123456789ab-dirty

ch07.memory_access - cuda - n=268,435,456 (1 GiB in, 1 GiB out)
"""


def test_a_bundle(bundle):
    result = show(load_plugins([]), bundle.path)
    assert (result.exit_code, result.stderr) == (0, "")
    first, _, rest = result.stdout.partition("\n")
    assert "".join(first.split()) == str(bundle.path)
    assert rest.startswith(BRIEF)
    assert re.search(r"^coalesced +652\.3 us +\[650\.3, 654\.3\] +7\.99x  FASTER +76 %$", rest, re.MULTILINE)
    assert "hypervisor" not in rest
    assert rest.count("ch10.warp_specialized_gemm: needs sm_90a (this machine has no CUDA GPU)\n") == 1
    assert rest.count("this machine has no CUDA GPU") == 1
    assert rest.endswith("2 FASTER, 1 INCONCLUSIVE, 1 INVALID, 1 FAILED, 2 SKIPPED\n")


def test_all_details_of_a_bundle(bundle):
    result = show(load_plugins([]), bundle.path, "-v")
    assert (result.exit_code, result.stderr) == (0, "")
    assert HEAD in result.stdout
    assert result.stdout.count("hypervisor (KVM)") == 1
    for label in ("steps ", "setup ", "stopped ", "verified ", "overhead "):
        assert f"\n{label}" in result.stdout


def test_a_target_of_a_bundle(bundle):
    bundle.write_target(attrs.evolve(example.result(), target="ch07.other"))
    bundle.write_manifest(example.manifest())
    result = show(load_plugins([]), f"{bundle.path}:ch07.other")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "ch07.other - cuda" in result.stdout
    assert "ch07.memory_access - cuda" not in result.stdout
    assert "warp_specialized_gemm: needs" not in result.stdout


def test_an_implementation_of_a_target_of_a_bundle(bundle):
    (found,) = json.loads(show(load_plugins([]), f"{bundle.path}:ch07.memory_access:wide", "--json").stdout)["targets"]
    assert [row["name"] for row in found["rows"]] == ["wide"]
    assert len(found["rows"][0]["samples"]["block"]) == 3


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["ch07.other"], ["ch07.other"]),
        (["ch07"], ["ch07.memory_access", "ch07.other"]),
        (["*.mem*"], ["ch07.memory_access"]),
        (["-k", "OTHER"], ["ch07.other"]),
        (["--exclude", "*.other"], ["ch07.memory_access"]),
    ],
)
def test_some_targets_of_a_bundle(bundle, arguments, names):
    bundle.write_target(attrs.evolve(example.result(), target="ch07.other"))
    bundle.write_manifest(example.manifest())
    found = json.loads(show(load_plugins([]), bundle.path, *arguments, "--json").stdout)
    assert [one["target"] for one in found["targets"]] == names
    assert "warp_specialized_gemm: needs" not in show(load_plugins([]), bundle.path, *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ch07.memory"], " has no result of 'ch07.memory'. Did you mean 'ch07.memory_access'?"),
        (["-k", "zzz"], "-k zzz leaves none of the 1 targets of "),
    ],
)
def test_targets_that_a_bundle_lacks(bundle, arguments, message):
    found = show(load_plugins([]), bundle.path, *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr


def test_a_word_of_a_summary_is_asked_about(acme):
    found = show(acme, "indices")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        "aiperf: 'indices' is not a target; the word is in the summary of: acme.gather. Show one of them: aiperf show "
        "acme.gather\n"
    )
    assert show(acme, "gather").stdout == SHOWN


def test_a_target_that_a_bundle_lacks(bundle):
    result = show(load_plugins([]), f"{bundle.path}:ch07.memory")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"aiperf: '{bundle.path}' has no result of 'ch07.memory'. Did you mean 'ch07.memory_access'?\n"
    )


def test_a_bundle_as_json(bundle):
    found = json.loads(show(load_plugins([]), bundle.path, "--json").stdout)
    assert found["bundle"] == str(bundle.path)
    assert found["manifest"] == json.loads((bundle.path / "manifest.json").read_text())
    assert found["targets"] == [json.loads(json.dumps(structure.document(bundle.target("ch07.memory_access"))))]
    assert found["targets"][0]["rows"][1]["samples"] == json.loads(json.dumps(attrs.asdict(example.rows()[1].samples)))


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_broken_target_costs_only_itself(bundle, arguments):
    bundle.write_target(attrs.evolve(example.result(), target="ch07.other"))
    bundle.write_manifest(example.manifest())
    file = bundle.path / "targets/ch07.memory_access.json"
    file.write_text("{")
    result = show(load_plugins([]), bundle.path, *arguments)
    assert result.exit_code == 3
    assert "ch07.other" in result.stdout
    assert result.stderr == (
        f"aiperf: '{file}' is not a target file of format 5: at line 1, column 2: found the end of the file; expected "
        "JSON (Expecting property name enclosed in double quotes). It was cut off or changed after aiperf wrote it; "
        "restore it or run again.\n"
        f"aiperf: '{bundle.path}' was changed after its run ended: targets/ch07.memory_access.json has other content. "
        f"What is read from it is no evidence. All differences: aiperf recheck {bundle.path}. To read it without this "
        "check: --no-verify\n"
    )


def test_rows_that_their_observations_do_not_give(tmp_path, monkeypatch):
    monkeypatch.undo()
    bundle = measured.bundle(tmp_path / "run")
    assert show(load_plugins([]), bundle.path).exit_code == 0
    (name,) = bundle.targets
    result = bundle.target(name)
    rows = [attrs.evolve(one, verdict=Verdict.SLOWER) if one.name == "coalesced" else one for one in result.rows]
    bundle.write_target(attrs.evolve(result, rows=rows))
    bundle.write_manifest(bundle.manifest)  # seals it again
    shown = show(load_plugins([]), bundle.path)
    assert (shown.exit_code, shown.stderr) == (
        3,
        f"aiperf: '{bundle.path}' was changed after its run ended: {name}:coalesced has the verdict SLOWER, and its "
        "observations give FASTER. What is read from it is no evidence. All differences: aiperf recheck "
        f"{bundle.path}. To read it without this check: --no-verify\n",
    )
    rechecked = CliRunner().invoke(Shell(load_plugins([])), ["recheck", str(bundle.path)])
    assert (rechecked.exit_code, f"{name}:coalesced" in rechecked.stdout) == (3, True)
    monkeypatch.setattr("aiperf_core.cli.bundles.JUDGED_TARGETS", 0)
    assert show(load_plugins([]), bundle.path).exit_code == 0


def test_a_machine_and_a_run_of_which_little_is_known(bundle):
    manifest = example.manifest()
    machine = attrs.evolve(manifest.machine, gpus=[{"index": 0}], driver=None, hypervisor=None)
    little = {"ceilings": {}, "git": None, "complete": False, "exit_code": None, "created": "some day"}
    bundle.write_manifest(attrs.evolve(manifest, machine=machine, skipped=[], **little))
    text = show(load_plugins([]), bundle.path, "-v").stdout
    assert "run        some day, not complete\n" in text
    assert "GPU        unnamed GPU\n" in text
    assert not any(label in text for label in ("ceilings  ", "git  ", "hypervisor  "))


def test_a_folder_that_is_no_bundle(tmp_path):
    result = show(load_plugins([]), tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"aiperf: '{tmp_path}' has no manifest.json, so it is not a result bundle or its run never started.\n"
    )


def test_a_file_is_taken_for_a_path(bundle):
    file = bundle.path / "manifest.json"
    assert show(load_plugins([]), file).stderr == (
        f"aiperf: '{file}' is a file; a result bundle is a folder with a manifest.json in it.\n"
    )


def test_a_folder_named_like_a_target_hides_it_only_if_it_is_a_bundle(acme, bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme.gather").mkdir()
    assert show(acme, "acme.gather").stdout.startswith("acme.gather - Sorted")
    (tmp_path / "acme.gather").rmdir()
    bundle.path.rename(tmp_path / "acme.gather")
    assert show(acme, "acme.gather").stdout.startswith("acme.gather\ncommand")
