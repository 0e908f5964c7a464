"""What an author may declare, and the message for every mistake."""

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve, frozen

from aiperf_core import Benchmark, Cost, exact, lossy
from aiperf_core.benchmark import Lossy, bind, call_with
from aiperf_core.errors import BenchmarkError
from aiperf_core.loading import load_benchmark

PARTS = {
    "head": "import torch\nfrom aiperf_core import Benchmark, Cost, Tolerance, exact, lossy\n",
    "bench": 'bench = Benchmark(goal="speed")\n',
    "workload": """
@bench.workload(smoke={"n": 4}, cpu={"n": 8})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}
""",
    "static": "",
    "reference": """
@bench.reference(tolerance=exact)
def reference(a):
    return a * 2
""",
    "cost": """
@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)
""",
    "baseline": """
@bench.baseline(device="cpu", kind="naive")
def doubled(a):
    return a * 2
""",
    "variant": """
@bench.variant(device="cpu", why="one addition is one instruction")
def added(a):
    return a + a
""",
    "tail": "",
}


@frozen
class Ref:
    """What `load_benchmark` needs to know of a target."""

    name: str
    module: str


Load = Callable[..., Benchmark]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Write a benchmark with some parts replaced, and load it as `acme.doubling`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(**parts: str) -> Benchmark:
        sys.modules.pop("acme_doubling", None)
        (tmp_path / "acme_doubling.py").write_text("".join({**PARTS, **parts}.values()))
        return load_benchmark(Ref("acme.doubling", "acme_doubling"))

    yield load
    sys.modules.pop("acme_doubling", None)


def line_of(file: Path, text: str) -> int:
    """The number of the first line that begins with a text."""
    return next(index for index, line in enumerate(file.read_text().splitlines(), 1) if line.startswith(text))


def mistake(load: Load, file: Path, at: str, **parts: str) -> str:
    """The message for a benchmark with some parts replaced, `FILE` and `LINE` in place of where it says they are."""
    with pytest.raises(BenchmarkError) as caught:
        load(**parts)
    message = str(caught.value)
    assert "\n" not in message
    message = message.replace(str(file), "FILE")
    return message.replace(f"FILE:{line_of(file, at)}", "FILE:LINE") if at else message


REQUIREMENTS = (
    "'sm_80' (or later), 'sm_90a' (exactly), 'compiler', 'machine:NAME', 'package:NAME', 'gpus:N', 'capability:NAME'"
)
SECOND = "@bench.variant(device='cpu', why='w', {})\ndef second(a):\n    return a\n"

# Of each mistake: what replaces which part, the line that the message must give, and the message without its beginning.
MISTAKES = {
    "no reference": (
        {"reference": ""},
        "",
        "FILE: has no reference; declare the right answer with @bench.reference(tolerance=...).",
    ),
    "no cost": ({"cost": ""}, "", "FILE: has no cost; declare the least work with @bench.cost."),
    "no workload": ({"workload": ""}, "", "FILE: has no workload; declare one with @bench.workload(smoke={...})."),
    "no implementation": (
        {"baseline": "", "variant": ""},
        "",
        "FILE: has no implementation; declare a @bench.baseline and a @bench.variant.",
    ),
    "no baseline": (
        {"baseline": ""},
        "@bench.variant",
        "FILE:LINE (added): has no baseline to compare with on 'cpu'; declare @bench.baseline for it.",
    ),
    "no smoke preset": (
        {"workload": "@bench.workload(cpu={'n': 8}, big={'n': 9})\ndef inputs(n):\n    return {}\n"},
        "@bench.workload",
        "FILE:LINE (inputs): has no preset of sizes named 'smoke' (found: cpu, big); give smoke={...}.",
    ),
    "no preset": (
        {"workload": "@bench.workload()\ndef inputs(n):\n    return {}\n"},
        "@bench.workload",
        "FILE:LINE (inputs): has no preset of sizes named 'smoke' (found: none); give smoke={...}.",
    ),
    "presets of different sizes": (
        {"workload": "@bench.workload(smoke={'n': 8}, cpu={'m': 9, 'k': 1})\ndef inputs(n):\n    return {}\n"},
        "@bench.workload",
        "FILE:LINE (inputs): has sizes ['k', 'm'] in preset 'cpu', but ['n'] in 'smoke'.",
    ),
    "a size that is no number": (
        {"workload": "@bench.workload(smoke={'n': '8'})\ndef inputs(n):\n    return {}\n"},
        "@bench.workload",
        "FILE:LINE (inputs): has n='8' in preset 'smoke'; accepted are numbers.",
    ),
    "a size that is a boolean": (
        {"workload": "@bench.workload(smoke={'n': True})\ndef inputs(n):\n    return {}\n"},
        "@bench.workload",
        "FILE:LINE (inputs): has n=True in preset 'smoke'; accepted are numbers.",
    ),
    "a workload that takes what there is not": (
        {"workload": "@bench.workload(smoke={'n': 4})\ndef inputs(n, k, seed):\n    return {}\n"},
        "@bench.workload",
        "FILE:LINE (inputs): takes 'k', 'seed'; accepted are device, generator, n.",
    ),
    "static arguments that take what there is not": (
        {"static": "@bench.static\ndef weights(n, a):\n    return {}\n"},
        "@bench.static",
        "FILE:LINE (weights): takes 'a'; accepted are device, generator, n.",
    ),
    "a cost that takes what there is not": (
        {"cost": "@bench.cost\ndef cost(n, a):\n    return Cost(flops=n)\n"},
        "@bench.cost",
        "FILE:LINE (cost): takes 'a'; accepted are n.",
    ),
    "an unknown goal": (
        {"bench": "bench = Benchmark(goal='sped')\n"},
        "",
        "FILE: has goal='sped'; accepted are speed, latency, throughput, memory.",
    ),
    "an unknown clock": (
        {"bench": "bench = Benchmark(goal='speed', clock='cpu')\n"},
        "",
        "FILE: has clock='cpu'; accepted are device, wall.",
    ),
    "an unknown cache": (
        {"bench": "bench = Benchmark(goal='speed', cache='hot')\n"},
        "",
        "FILE: has cache='hot'; accepted are cold, warm.",
    ),
    "an unknown kind": (
        {"baseline": "@bench.baseline(device='cpu', kind='slow')\ndef doubled(a):\n    return a\n"},
        "@bench.baseline",
        "FILE:LINE (doubled): has kind='slow'; accepted are reasonable, naive, antipattern.",
    ),
    "an unknown device": (
        {"baseline": "@bench.baseline(device='GPU', kind='naive')\ndef doubled(a):\n    return a\n"},
        "@bench.baseline",
        "FILE:LINE (doubled): has device='GPU'; accepted are cpu, cuda and those of plugins, such as 'xpu'.",
    ),
    "no device": (
        {"variant": "@bench.variant(device=(), why='w')\ndef added(a):\n    return a\n"},
        "@bench.variant",
        "FILE:LINE (added): names no device; accepted are cpu, cuda and those of plugins.",
    ),
    "a variant with an empty reason": (
        {"variant": "@bench.variant(device='cpu', why=' ')\ndef added(a):\n    return a\n"},
        "@bench.variant",
        "FILE:LINE (added): is a variant without a reason; say in why='...' what makes it faster.",
    ),
    "a variant without a reason": (
        {"variant": "@bench.variant(device='cpu')\ndef added(a):\n    return a\n"},
        "@bench.variant",
        "importing 'acme_doubling' raised TypeError at FILE:LINE: "
        "Benchmark.variant() missing 1 required keyword-only argument: 'why'",
    ),
    "two implementations of one name": (
        {"tail": "@bench.variant(device='cpu', why='w', name='added')\ndef again(a):\n    return a\n"},
        "@bench.variant(device='cpu'",
        "FILE:LINE (again): is a second implementation named 'added' for cpu; the first is at FILE:FIRST (added).",
    ),
    "two baselines": (
        {"tail": "@bench.baseline(device='cpu', kind='reasonable')\ndef again(a):\n    return a\n"},
        "@bench.baseline(device='cpu'",
        "FILE:LINE (again): is a second baseline for 'cpu'; the first is at FILE:FIRST (doubled).",
    ),
    "an unknown rung": (
        {"tail": SECOND.format("builds_on='addde'")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): builds on 'addde'; known on 'cpu' are doubled, added.",
    ),
    "a rung on itself": (
        {"tail": SECOND.format("builds_on='second'")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): builds on 'second'; known on 'cpu' are doubled, added.",
    ),
    "a rung that is on another device": (
        {"tail": "@bench.baseline(device='cuda', kind='naive', name='other')\n" + SECOND.format("builds_on='other'")},
        "@bench.baseline(device='cuda'",
        "FILE:LINE (second): builds on 'other'; known on 'cpu' are doubled, added.",
    ),
    "a name that cannot be one": (
        {"tail": SECOND.format("name='the second'")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): cannot be named 'the second'; accepted is a Python identifier, such as 'coalesced'.",
    ),
    "an unknown metric": (
        {"tail": SECOND.format("lossy=lossy('psnr', at_most=1)")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): has the metric 'psnr'; accepted are rel_l2, max_abs_error, one_minus_cosine.",
    ),
    "an unknown metric beside a declared one": (
        {"tail": "@bench.metric\ndef loss(o, r):\n    return 0.0\n" + SECOND.format("lossy=lossy('los', at_most=1)")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): has the metric 'los'; accepted are rel_l2, max_abs_error, one_minus_cosine, loss.",
    ),
    "a mechanism that is no name": (
        {"tail": SECOND.format("adds=('tiling', 'Two words')")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): has adds=('tiling', 'Two words'); "
        "accepted are different names in lower case, as 'wide loads'.",
    ),
    "a mechanism given twice": (
        {"tail": SECOND.format("adds=['tiling', 'tiling']")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): has adds=['tiling', 'tiling']; accepted are different names in lower case, as 'wide loads'.",
    ),
    "a step of two mechanisms": (
        {"tail": SECOND.format("builds_on='added', adds=('tiling', 'wide loads')")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): adds 2 mechanisms to 'added' (tiling, wide loads); a step adds one: make two.",
    ),
    "steps in a circle": (
        {
            "variant": PARTS["variant"].replace("why=", "builds_on='second', why="),
            "tail": SECOND.format("builds_on='added'"),
        },
        '@bench.variant(device="cpu"',
        "FILE:LINE (added): builds on itself, through 'added'.",
    ),
    "an unknown awkward size": (
        {"tail": "bench.awkward({'n': 31}, {'m': 3})\n"},
        "",
        "FILE: has an awkward size 'm'; sizes are n.",
    ),
    "an awkward size that is no number": (
        {"tail": "bench.awkward({'n': '3'})\n"},
        "",
        "FILE: has the awkward size n='3'; accepted are numbers.",
    ),
    "an awkward size that is a boolean": (
        {"tail": "bench.awkward(n=[True])\n"},
        "",
        "FILE: has the awkward size n=True; accepted are numbers.",
    ),
    "awkward sizes twice": (
        {"tail": "bench.awkward(n=[1])\nbench.awkward(n=[2])\n"},
        "",
        "FILE: declares its awkward sizes a second time; give them in one bench.awkward(...).",
    ),
    "a note accepted without a reason": (
        {"tail": "bench.accept('cost.bytes_read', because=' ')\n"},
        "",
        "FILE: accepts 'cost.bytes_read' without a reason; say it in because='...'.",
    ),
    "a common requirement that is none": (
        {"tail": "cpu = bench.on('cpu', requires='sm90')\n@cpu.variant(why='w')\ndef second(a):\n    return a\n"},
        "@cpu.variant",
        f"FILE:LINE (second): requires 'sm90'; accepted are {REQUIREMENTS}.",
    ),
    "a declaration on no device": (
        {"tail": "@bench.on(()).variant(why='w')\ndef second(a):\n    return a\n"},
        "@bench.on",
        "FILE:LINE (second): names no device; accepted are cpu, cuda and those of plugins.",
    ),
    "a goal of a variant on another device": (
        {"tail": "bench.on('cpu').reach(of='speedup', at_least=2, implementation='addde')\n"},
        "",
        "FILE: has a goal about 'addde'; known on 'cpu' are doubled, added.",
    ),
    "lossy without a budget": (
        {"tail": SECOND.format("lossy='rel_l2'")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): has lossy='rel_l2'; accepted is lossy('rel_l2', at_most=0.01).",
    ),
    "lossy with an impossible budget": (
        {"tail": SECOND.format("lossy=lossy('rel_l2', at_most=float('nan'))")},
        "@bench.variant(device='cpu'",
        "FILE:LINE (second): has lossy=Lossy(metric='rel_l2', budget=nan); accepted is lossy('rel_l2', at_most=0.01).",
    ),
    "an unknown requirement": (
        {"tail": SECOND.format("requires='sm90'")},
        "@bench.variant(device='cpu'",
        f"FILE:LINE (second): requires 'sm90'; accepted are {REQUIREMENTS}.",
    ),
    "an unknown requirement among others": (
        {"tail": SECOND.format("requires=('compiler', 'gpu:2')")},
        "@bench.variant(device='cpu'",
        f"FILE:LINE (second): requires 'gpu:2'; accepted are {REQUIREMENTS}.",
    ),
    "a class without run": (
        {"tail": "@bench.variant(device='cpu', why='w')\nclass TwoParts:\n    def prepare(self, a): ...\n"},
        "@bench.variant(device='cpu'",
        "FILE:LINE (TwoParts): is a class without run(self, ...); 'two_parts' needs it, and may have prepare(self, ...).",
    ),
    "a tolerance that is none": (
        {"reference": "@bench.reference(tolerance=1e-3)\ndef reference(a):\n    return a\n"},
        "@bench.reference",
        "FILE:LINE (reference): has tolerance=0.001; accepted are exact, fp32, fp32_reduction, tf32, bf16, fp8.",
    ),
    "a tolerance without a reason": (
        {"reference": "@bench.reference(tolerance=Tolerance(1e-3))\ndef reference(a):\n    return a\n"},
        "@bench.reference",
        "FILE:LINE: Tolerance(0.001) has no reason; say why in reason='...', "
        "or take one of: exact, fp32, fp32_reduction, tf32, bf16, fp8",
    ),
    "a second workload": (
        {"tail": "@bench.workload(smoke={'n': 8})\ndef again(n):\n    return {}\n"},
        "@bench.workload(smoke={'n'",
        "FILE:LINE (again): declares a second workload; a target has one.",
    ),
    "a second reference": (
        {"tail": "@bench.reference(tolerance=exact) # second\ndef again(a):\n    return a\n"},
        "@bench.reference(tolerance=exact) #",
        "FILE:LINE (again): declares a second reference; a target has one.",
    ),
    "a second cost": (
        {"tail": "@bench.cost # second\ndef again(n):\n    return Cost(flops=n)\n"},
        "@bench.cost #",
        "FILE:LINE (again): declares a second cost; a target has one.",
    ),
    "two sets of static arguments": (
        {"tail": "@bench.static\ndef one(n):\n    return {}\n\n@bench.static # second\ndef two(n):\n    return {}\n"},
        "@bench.static #",
        "FILE:LINE (two): declares a second static; a target has one.",
    ),
    "an import that raises": (
        {"tail": "sizes = {}\nsizes['n']\n"},
        "sizes['n']",
        "importing 'acme_doubling' raised KeyError at FILE:LINE: 'n'",
    ),
    "an import of what is not there": (
        {"head": PARTS["head"] + "import no_such_package\n"},
        "import no_such_package",
        "importing 'acme_doubling' raised ModuleNotFoundError at FILE:LINE: No module named 'no_such_package'",
    ),
    "a file that is not Python": (
        {"tail": "def broken(:\n"},
        "def broken",
        "importing 'acme_doubling' raised SyntaxError at FILE:LINE: invalid syntax (acme_doubling.py, line LINE)",
    ),
    "deferred and warm": (
        {"bench": 'bench = Benchmark(goal="latency", cache="warm", deferred=True)\n'},
        "",
        "FILE: has deferred=True and cache='warm'; deferred calls are timed one at a time, cold.",
    ),
    "a folder that is none": (
        {"bench": 'bench = Benchmark(goal="latency", folder="cold")\n'},
        "",
        "FILE: has folder='cold'; accepted are True and 'evicted'.",
    ),
    "evicted and warm": (
        {"bench": 'bench = Benchmark(goal="latency", cache="warm", folder="evicted")\n'},
        "",
        "FILE: has folder='evicted' and cache='warm'; evicted files are for cold calls.",
    ),
    "a limit that is none": (
        {"bench": 'bench = Benchmark(goal="latency", prepare_timeout_s=-1)\n'},
        "",
        "FILE: has prepare_timeout_s=-1; accepted are seconds from 0.",
    ),
    "no gain without a reason": (
        {"bench": 'bench = Benchmark(goal="latency", no_gain_on={"cpu": " "})\n'},
        "",
        "FILE: has no_gain_on={'cpu': ' '}; accepted are devices with a reason, such as {'cpu': '...'}.",
    ),
    "no gain on a list": (
        {"bench": 'bench = Benchmark(goal="latency", no_gain_on=["cpu"])\n'},
        "",
        "FILE: has no_gain_on=['cpu']; accepted are devices with a reason, such as {'cpu': '...'}.",
    ),
    "no gain where nothing runs": (
        {"bench": 'bench = Benchmark(goal="latency", no_gain_on={"cuda": "too short"})\n'},
        "",
        "FILE: has no_gain_on 'cuda', and no implementation for it; there are cpu.",
    ),
    "an own cost of other sizes": (
        {
            "variant": """
def own(m):
    return Cost(flops=m)

@bench.variant(device="cpu", why="one addition is one instruction", cost=own)
def added(a):
    return a + a
"""
        },
        "def own",
        "FILE:LINE (own): takes 'm'; accepted are n.",
    ),
    "a goal of an unknown figure": (
        {"tail": "bench.reach(of='RW', at_least=0.9)\n"},
        "",
        "FILE: has a goal of 'RW'; accepted are SOL, BW, RBW, WBW, SMBW, CACHE, P2P, ALLREDUCE, PCI, DISK, LAT, GRAPH, speedup, "
        "MM:PRECISION or FMA:PRECISION or FMA3:PRECISION with fp64, fp32, tf32, fp16, bf16, fp8, int8, and time:IMPLEMENTATION or "
        "memory:IMPLEMENTATION.",
    ),
    "a goal with two bars": (
        {"tail": "bench.reach(of='BW', at_least=0.9, at_most=1)\n"},
        "",
        "FILE: has a goal with at_least=0.9 and at_most=1; give one of them, a number above 0.",
    ),
    "a goal without a bar": (
        {"tail": "bench.reach(of='BW')\n"},
        "",
        "FILE: has a goal with at_least=None and at_most=None; give one of them, a number above 0.",
    ),
    "a cause that nothing shows": (
        {"tail": "bench.reach(of='BW', at_least=0.9, cause='banks')\n"},
        "",
        "FILE: has a goal with cause='banks' and shown_by=''; a cause needs the measurement that shows it: counter:..., sass:..., "
        "trace:..., variant:..., size:....",
    ),
    "a cause that is shown by a guess": (
        {"tail": "bench.reach(of='BW', at_least=0.9, cause='banks', shown_by='guess:1')\n"},
        "",
        "FILE: has a goal with cause='banks' and shown_by='guess:1'; a cause needs the measurement that shows it: counter:..., "
        "sass:..., trace:..., variant:..., size:....",
    ),
    "a goal where nothing runs": (
        {"tail": "bench.reach(of='BW', at_least=0.9)\n"},
        "",
        "FILE: has a goal on 'cuda', and no implementation for it; there are cpu.",
    ),
    "a goal of an implementation that is not there": (
        {"tail": "bench.reach(of='BW', at_least=0.9, device='cpu', implementation='fused')\n"},
        "",
        "FILE: has a goal about 'fused'; known on 'cpu' are doubled, added.",
    ),
    "a goal relative to an implementation that is not there": (
        {"tail": "bench.reach(of='time:doubled,library', at_most=1, device='cpu')\n"},
        "",
        "FILE: has a goal about 'library'; known on 'cpu' are doubled, added.",
    ),
    "a goal at a size that is not there": (
        {"tail": "bench.reach(of='BW', at_least=0.9, device='cpu', size='large')\n"},
        "",
        "FILE: has a goal at the size 'large'; there are smoke, cpu.",
    ),
    "a goal with a param that is not there": (
        {"tail": "bench.reach(of='BW', at_least=0.9, device='cpu', params={'rows': 2})\n"},
        "",
        "FILE: has a goal with params ['rows']; sizes are n.",
    ),
    "a goal with a param that is no number": (
        {"tail": "bench.reach(of='BW', at_least=0.9, device='cpu', params={'n': '2'})\n"},
        "",
        "FILE: has a goal with n='2'; accepted are numbers.",
    ),
    "a goal with params that are no sizes": (
        {"tail": "bench.reach(of='BW', at_least=0.9, device='cpu', params='n')\n"},
        "",
        "FILE: has a goal with params='n'; accepted are sizes, such as {'n': 4096}.",
    ),
    "deferred without an end": (
        {"bench": 'bench = Benchmark(goal="latency", deferred=True)\n'},
        '@bench.baseline(device="cpu"',
        "FILE:LINE (doubled): is not deferred; 'doubled' needs a class with run(self, ...), finish(self), output(self).",
    ),
    "files of several ranks": (
        {
            "workload": """
@bench.workload(files="a", smoke={"n": 4, "world_size": 2})
def inputs(n, rank, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}
"""
        },
        "@bench.workload",
        "FILE:LINE (inputs): has files='a' and ranks; files are for workloads of one process.",
    ),
    "two benchmarks": (
        {"tail": "other = Benchmark(goal='memory')\n"},
        "",
        "FILE has 2 Benchmark objects at module level; accepted is one, as in: bench = Benchmark(goal='speed')",
    ),
    "no benchmark": (
        dict.fromkeys(PARTS, ""),
        "",
        "FILE has 0 Benchmark objects at module level; accepted is one, as in: bench = Benchmark(goal='speed')",
    ),
}
# A message that goes on from the name is joined by a colon; one that begins with its place is a sentence of its own.
JOINED = ("importing", "FILE has")


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named_with_their_target_and_file(load: Load, tmp_path: Path, case: str) -> None:
    parts, at, expected = MISTAKES[case]
    file = tmp_path / "acme_doubling.py"
    found = mistake(load, file, at, **parts)
    lines = {"LINE)": f"{line_of(file, at)})"} if at else {}
    if "FIRST" in expected:
        # The first of two stands in a part that was not replaced, with double quotes.
        lines["FIRST"] = str(
            line_of(file, '@bench.variant(device="' if "added" in expected else '@bench.baseline(device="')
        )
    for name, number in lines.items():
        expected = expected.replace(name, number)
    joint = ": " if expected.startswith(JOINED) else ". "
    assert found == f"'acme.doubling' cannot be used{joint}{expected}"


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(Ref("acme.absent", "acme_absent"))
    assert str(caught.value) == (
        "'acme.absent' cannot be used: importing 'acme_absent' raised ModuleNotFoundError: No module named 'acme_absent'"
    )


def test_a_sound_benchmark(load: Load, tmp_path: Path) -> None:
    bench = load()
    assert bench.where == str(tmp_path / "acme_doubling.py")
    assert bench.task.presets == {"smoke": {"n": 4}, "cpu": {"n": 8}}
    assert bench.task.static is None
    assert bench.tolerance_at({}) is exact
    assert bench.work({"n": 3}) == Cost(bytes_read=12, bytes_written=12)
    assert [one.name for one in bench.implementations_on("cpu")] == ["doubled", "added"]
    assert bench.implementations_on("cuda") == []
    assert (
        bench.implementations_on("cpu")[1].where
        == f"{bench.where}:{line_of(Path(bench.where), '@bench.variant')} (added)"
    )


def held_by(decorated: type) -> type:
    return decorated


@held_by
@frozen
class Decorated:
    class Within:
        class Deep: ...


def made_in_a_function() -> type:
    class Local:
        @frozen
        class Inner: ...

    return Local


LOCAL = made_in_a_function()
CLASSES = [Decorated, Decorated.Within, Decorated.Within.Deep, LOCAL, LOCAL.Inner]  # type: ignore[attr-defined]


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: one.__qualname__)
def test_a_class_is_where_its_first_decorator_is(one):
    bench = Benchmark(goal="speed")
    bench.baseline(device="cpu", kind="naive")(type("Run", (), {"run": lambda self: None}))
    declared = evolve(bench.implementations_on("cpu")[0], code=one)
    assert declared.where == f"{__file__}:{inspect.getsourcelines(one)[1]} ({one.__name__})"


def test_one_implementation_may_stand_for_two_devices_and_names_come_from_classes() -> None:
    bench = Benchmark(goal="memory")

    @bench.yardstick(device=["cpu", "cuda"])
    def library(a: float) -> float:
        return a

    @bench.variant(device="cpu", why="w", requires="compiler", lossy=lossy("rel_l2", at_most=0.5))
    class HTTPCache2Wide:
        def run(self, a: float) -> float:
            return a

    @bench.baseline(device=("cuda", "cpu"), kind="antipattern", name="plain")
    def first_version(a: float) -> float:
        return a

    assert [one.name for one in bench.implementations_on("cpu")] == ["plain", "http_cache2_wide", "library"]
    assert [one.name for one in bench.implementations_on("cuda")] == ["plain", "library"]
    wide = bench.implementations_on("cpu")[1]
    assert wide.is_class
    assert wide.requires == ("compiler",)
    assert wide.lossy == Lossy("rel_l2", 0.5)
    assert not bench.implementations_on("cpu")[0].is_class
    assert first_version(3) == library(3) == 3


def test_devices_with_what_their_implementations_share() -> None:
    bench = Benchmark(goal="speed")
    both, cpu = bench.on(("cpu", "cuda"), requires="package:numpy"), bench.on("cpu")

    @both.baseline(kind="naive")
    def plain(a: float) -> float:
        return a

    @cpu.variant(why="w", adds="unrolling")
    def unrolled(a: float) -> float:
        return a

    cpu.variant(lambda a: a, name="wide", why="w", builds_on="unrolled", adds="wide loads", requires="compiler")
    both.yardstick(plain, name="library")
    both.reach(of="speedup", at_least=2)
    assert plain(3) == unrolled(3) == 3
    found = {(one.name, one.device): one for one in bench.implementations}
    assert list(found) == [
        *[("plain", "cpu"), ("plain", "cuda"), ("unrolled", "cpu")],
        *[("wide", "cpu"), ("library", "cpu"), ("library", "cuda")],
    ]
    assert found["plain", "cuda"].requires == found["library", "cpu"].requires == ("package:numpy",)
    assert (found["wide", "cpu"].requires, found["unrolled", "cpu"].requires) == (("compiler",), ())
    assert [one.device for one in bench.goals] == ["cpu", "cuda"]


def test_mechanisms_are_those_of_the_steps_below_and_its_own() -> None:
    bench = Benchmark(goal="speed")
    cuda = bench.on("cuda")
    for name, below, adds in (("c", "b", "swizzle"), ("b", "a", ()), ("a", None, ("tiling", "wide loads"))):
        cuda.variant(call_with, name=name, builds_on=below, adds=adds, why="w")
    assert {one.name: bench.mechanisms_of(one) for one in bench.implementations} == {
        "c": ("tiling", "wide loads", "swizzle"),
        "b": ("tiling", "wide loads"),
        "a": ("tiling", "wide loads"),
    }


def test_awkward_sizes_and_accepted_notes(load: Load) -> None:
    assert load().awkward_sizes is None
    tail = "bench.awkward({'n': 7}, n=(1, 31))\nbench.accept('form.sizes', because='one size')\n"
    bench = load(tail=tail)
    assert bench.awkward_sizes == [{"n": 7}, {"n": 1}, {"n": 31}]
    assert bench.accepted == {"form.sizes": "one size"}
    assert load(tail="bench.awkward()\n").awkward_sizes == []


def test_a_name_may_be_used_again_on_another_device() -> None:
    bench = Benchmark(goal="speed")
    for device in ("cpu", "cuda"):
        bench.baseline(device=device, kind="naive", name="plain")(call_with)
    assert [one.device for one in bench.implementations] == ["cpu", "cuda"]


def test_one_name_for_the_state_is_not_read_letter_by_letter() -> None:
    bench = Benchmark(goal="speed")
    bench.workload(smoke={}, state="cache")(lambda: {"cache": 0.0})
    assert bench.task.state == ("cache",)


def test_a_cost_that_is_none_is_named() -> None:
    bench = Benchmark(goal="speed")

    @bench.cost
    def cost(n: int) -> Cost:
        return n  # type: ignore[return-value]

    with pytest.raises(BenchmarkError) as caught:
        bench.work({"n": 3})
    line = cost.__code__.co_firstlineno
    assert str(caught.value) == f"{__file__}:{line} (cost): returned int; accepted is a Cost(bytes_read=...)."


def test_an_impossible_cost_is_named_with_its_place() -> None:
    bench = Benchmark(goal="speed")

    @bench.cost
    def cost(n: int) -> Cost:
        return Cost(bytes_read=-n)

    with pytest.raises(BenchmarkError) as caught:
        bench.work({"n": 3})
    line = cost.__code__.co_firstlineno
    assert str(caught.value) == (
        f"{__file__}:{line} (cost): a cost cannot have bytes_read=-3; accepted is a finite number from 0"
    )


def costs_of(own: Callable[..., Cost], **declared: object) -> dict[str, object]:
    """The own cost of a variant whose workload reads 12 bytes and needs 3 operations."""
    bench = Benchmark(goal="speed")
    bench.cost(lambda n: Cost(bytes_read=4 * n, flops=n))
    bench.variant(device="cuda", why="it has to be", name="form", cost=own, **declared)(lambda a: a)  # type: ignore[arg-type]
    return bench.own_work(bench.implementations[0], {"n": 3})


def test_an_implementation_may_declare_a_cost_of_its_own() -> None:
    assert costs_of(lambda n: Cost(bytes_read=4 * n, flops=n, launches=7)) == {"launches": 7}
    half = costs_of(lambda n: Cost(bytes_read=2 * n, flops=n, precision="bf16"), lossy=lossy("rel_l2", at_most=0.1))
    assert half == {"bytes_read": 6, "precision": "bf16"}


def test_only_a_lossy_variant_may_need_less_than_the_workload() -> None:
    with pytest.raises(BenchmarkError) as caught:
        costs_of(lambda n: Cost(bytes_read=2 * n, flops=n))
    assert str(caught.value).partition(" (<lambda>): ")[2] == (
        "returned bytes_read=6 for 'form', and the workload's cost, which is the least, has 12; accepted are equal or "
        "larger amounts."
    )


def test_a_function_is_called_with_what_it_names() -> None:
    available = {"a": 1, "b": 2, "c": 3}
    assert call_with(lambda a, c: (a, c), available) == (1, 3)
    assert call_with(lambda: "nothing", available) == "nothing"
    assert call_with(lambda a, *, b=7, d=8: (a, b, d), available) == (1, 2, 8)
    assert call_with(lambda **rest: rest, available) == available
    assert call_with(lambda a, **rest: (a, rest), available) == (1, {"b": 2, "c": 3})


def test_a_function_that_asks_for_what_is_not_there_is_named() -> None:
    def wants(a: int, weights: int, index: int) -> None: ...

    with pytest.raises(BenchmarkError) as caught:
        bind(wants, {"a": 1, "n": 2})
    line = wants.__code__.co_firstlineno
    assert str(caught.value) == f"{__file__}:{line} (wants): asks for 'weights', 'index'; there are a, n."


def test_the_reference_is_given_inputs_and_sizes() -> None:
    bench = Benchmark(goal="speed")

    @bench.reference(tolerance=exact)
    def reference(a: int, n: int) -> int:
        return a + n

    assert bench.answer({"n": 10}, {"a": 1, "b": 2}) == 11
    assert bench.reference_where == f"{__file__}:{reference.__code__.co_firstlineno} (reference)"


OF_A_DTYPE = """
@bench.workload(smoke={"dtype": "fp32", "n": 4}, cpu={"dtype": "bf16", "n": 8})
def inputs(n, dtype, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator).to(dtype)}

bench.awkward({"n": 1, "dtype": "bf16"}, n=(3,))
bench.reach(of="speedup", at_least=1.0, device="cpu", params={"dtype": "fp32"})
"""


def test_a_dtype_is_a_size_of_bits(load: Load) -> None:
    import torch

    cost = "@bench.cost\ndef cost(n, bits, dtype):\n    return Cost(bytes_read=bits // 8 * n, flops=dtype.itemsize)\n"
    bench = load(workload=OF_A_DTYPE, cost=cost)
    presets = bench.task.presets
    assert presets == {"smoke": {"bits": 32, "n": 4}, "cpu": {"bits": 16, "n": 8}}
    assert list(presets["smoke"]) == ["bits", "n"]
    assert bench.awkward_sizes == [{"n": 1, "bits": 16}, {"n": 3}]
    assert bench.goals[0].params == {"bits": 32}
    assert (bench.work(presets["cpu"]).bytes_read, bench.work(presets["cpu"]).flops) == (16, 2)
    drawn = call_with(bench.task.inputs, {**presets["cpu"], "device": "cpu", "generator": None})
    assert drawn["a"].dtype == torch.bfloat16
    assert bind(lambda dtype: dtype, {"bits": 32.0})() == torch.float32
    with pytest.raises(BenchmarkError) as caught:
        bench.work({"bits": 8, "n": 4})
    assert str(caught.value).endswith("the size bits=8 is no dtype; accepted are 16 (bf16), 32 (fp32)")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"dtype": "fp16"}, "has dtype='fp16'; accepted are bf16, fp32."),
        ({"dtype": None}, "has dtype=None; accepted are bf16, fp32."),
        ({"dtype": "bf16", "bits": 16}, "has dtype='bf16' and bits=16; give the dtype alone."),
    ],
)
def test_mistakes_with_a_dtype(sizes: dict[str, object], message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Benchmark(goal="speed").workload(smoke=sizes)(test_mistakes_with_a_dtype)
    assert str(caught.value).endswith(f"(test_mistakes_with_a_dtype): {message}")
