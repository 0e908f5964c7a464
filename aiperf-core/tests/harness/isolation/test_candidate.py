"""A candidate's file is checked without being run, and loaded from its text alone."""

import errno
import hashlib
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_core.benchmark import Benchmark, call_with
from aiperf_core.candidate_format import AIPERF, BUILT_IN, KERNELBENCH, known_format
from aiperf_core.errors import BenchmarkError, ContractError, UsageError
from aiperf_core.formats.candidate import MAX_BYTES, CandidateSource, check_candidate, check_inputs
from aiperf_core.formats.kernelbench import KernelBench
from aiperf_core.harness.isolation.candidate import load_candidate
from aiperf_core.validity.output_check import compare_tensors

NAMES = ("a", "b", "n")

GOOD = """
import torch

class Implementation:
    def prepare(self, b):
        self.b = b.t()

    def run(self, a, *, scale=2):
        return a @ self.b.t()
"""
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width, options):
        super().__init__()
        self.linear = torch.nn.Linear(width, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.factor = options[0]

    def forward(self, x, y):
        return self.norm(self.linear(x) * self.factor) + y + torch.zeros(3)

def get_inputs():
    return [torch.randn(17, 5), torch.rand(17, 3)]

def get_init_inputs():
    return [5, [0.5, None]]
"""


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """Leave none behind."""
    before = set(sys.modules)
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)
    linecache.clearcache()
    for name in set(sys.modules) - before:
        if name.startswith(("candidate", "kernelbench_")):
            del sys.modules[name]


def check(tmp_path: Path, text: str | bytes, format: str = "aiperf", names: tuple[str, ...] = NAMES) -> CandidateSource:  # noqa: A002
    file = tmp_path / "fast.py"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    source = check_candidate(file, BUILT_IN[format])
    check_inputs(source, names)
    return source


def refusal(tmp_path: Path, text: str | bytes, format: str = "aiperf", names: tuple[str, ...] = NAMES) -> str:  # noqa: A002
    with pytest.raises(UsageError) as caught:
        check(tmp_path, text, format, names)
    return str(caught.value).replace(str(tmp_path / "fast.py"), "FILE")


# --- the check


def test_a_good_file_is_taken_as_it_is(tmp_path: Path) -> None:
    source = check(tmp_path, GOOD)
    assert source == CandidateSource(tmp_path / "fast.py", GOOD, hashlib.sha256(GOOD.encode()).hexdigest(), AIPERF)


def test_nothing_is_executed(tmp_path: Path) -> None:
    check(tmp_path, GOOD + f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit\n")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "from elsewhere import *\n",
        "Implementation = make()\n",
        "from elsewhere import Fast as Implementation\n",
        "try:\n    import triton\nexcept ImportError:\n    class Implementation:\n        def run(self): ...\n",
        "class Base:\n    def run(self): ...\nclass Implementation(Base): ...\n",
        "class Implementation:\n    run = make()\n",
        "class Implementation:\n    def run(self, **inputs): ...\n",
        "class Implementation:\n    def run(self, a, missing=3, *, other=4): ...\n",
        "class Implementation:\n    @decorated\n    def run(self, x, y): ...\n",
        "class Implementation:\n    @staticmethod\n    def run(a): ...\n",
        "class Implementation:\n    '''\\d'''\n    def run(self, a): ...\n",
        "\ufeffclass Implementation:\n    def run(self): ...\n",
    ],
)
def test_what_only_running_could_tell_is_not_refused(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, text).format == AIPERF


RUN = "class Implementation:\n    def run(self{}): ...\n"
REFUSALS: dict[str, tuple[str | bytes, str]] = {
    "not UTF-8": (b"# \xff\n", "'FILE' is not UTF-8: byte 0xff at position 2. Save it as UTF-8."),
    "no Python": ("def f(:\n", "'FILE', line 1, column 7: does not parse: invalid syntax"),
    "no class": ("x = 1\n", "'FILE' has no class 'Implementation', which a candidate must define; its classes: none"),
    "another class": (
        "class ModelNew: ...\n",
        "'FILE' has no class 'Implementation', which a candidate must define; its classes: 'ModelNew'. "
        "For a file with 'ModelNew': --format kernelbench",
    ),
    "no run": (
        "class Implementation:\n    def forward(self): ...\n",
        "'FILE', line 1: 'Implementation' has no method run(self, ...), which would be timed; its methods: 'forward'",
    ),
    "an unknown input": (
        RUN.format(", a, x, *, y"),
        "'FILE', line 2: run asks for 'x', 'y'; the target has 'a', 'b', 'n'",
    ),
    "an unknown input of prepare": (
        RUN.format("") + "    def prepare(self, w): ...\n",
        "'FILE', line 3: prepare asks for 'w'; the target has 'a', 'b', 'n'",
    ),
    "arguments by position": (
        RUN.format(", a, /"),
        "'FILE', line 2: run takes arguments by position only; inputs are given by name",
    ),
    "too large": (b"#" * (MAX_BYTES + 1), "'FILE' is larger than 1,048,576 bytes, the most that a candidate may have"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, case: str) -> None:
    text, message = REFUSALS[case]
    assert refusal(tmp_path, text) == message


@pytest.mark.parametrize("text", ["\0", "(" * 5000, "-" * 200_000 + "1", "x" + ".a" * 100_000])
def test_hostile_text_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text).startswith("'FILE'")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    def message(path: Path) -> str:
        with pytest.raises(UsageError) as caught:
            check_candidate(path, AIPERF)
        return str(caught.value)

    absent = tmp_path / "absent.py"
    assert message(absent) == f"'{absent}' does not exist; give the Python file of a candidate"
    assert message(tmp_path) == f"'{tmp_path}' is a folder; accepted is one Python file"
    assert message(Path("/dev/zero")) == "'/dev/zero' is not a plain file; accepted is one Python file"
    os.mkfifo(fifo := tmp_path / "fifo.py")
    assert message(fifo) == f"'{fifo}' is not a plain file; accepted is one Python file"
    (loop := tmp_path / "loop").symlink_to(loop)
    assert message(loop / "a.py") == f"'{loop}/a.py' cannot be read: Too many levels of symbolic links"
    assert message(Path("a" * 100_000)) == f"'{'a' * 256}...' cannot be read: File name too long"
    assert message(Path("a\0b.py")) == "'a?b.py' cannot be read: embedded null byte"
    assert message(Path("\ud800.py")).startswith("'?.py' cannot be read: 'utf-8' codec can't encode character")
    assert message(Path("/dev/null/a.py")) == "'/dev/null/a.py' cannot be read: Not a directory"


def test_a_file_in_a_folder_that_may_not_be_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, _: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(os, "stat", refused)
    with pytest.raises(UsageError) as caught:
        check_candidate(Path("closed/a.py"), AIPERF)
    assert str(caught.value) == "'closed/a.py' cannot be read: Permission denied"


def test_an_unknown_format() -> None:
    with pytest.raises(UsageError) as caught:
        known_format("triton", BUILT_IN)
    assert str(caught.value) == (
        "'triton' is not a format; known are aiperf, flashinfer-trace, kernelbench. See what provides them: "
        "aiperf plugins"
    )


MODEL = "class ModelNew(nn.Module):\n    def {}(self{}): ...\n"


@pytest.mark.parametrize("arguments", [", x, y", ", x, y=1", ", x, y, z=2", ", *all", ", x, *rest"])
def test_a_model_that_takes_the_inputs(tmp_path: Path, arguments: str) -> None:
    check(tmp_path, MODEL.format("forward", arguments), "kernelbench", ("x", "y"))


def test_a_model_that_does_not(tmp_path: Path) -> None:
    assert refusal(tmp_path, MODEL.format("forward", ", x"), "kernelbench", ("x", "y")) == (
        "'FILE', line 2: forward takes 1 argument; it is called with 2: 'x', 'y'"
    )
    assert refusal(tmp_path, MODEL.format("run", ""), "kernelbench", ()) == (
        "'FILE', line 1: 'ModelNew' has no method forward(self, ...), which would be timed; its methods: 'run'"
    )
    check(tmp_path, "class ModelNew(Model): ...\n", "kernelbench", ("x",))


# --- loading


def test_a_class_comes_from_the_text_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = check(tmp_path, GOOD)
    source.path.unlink()
    monkeypatch.chdir(tmp_path)
    code: Any = load_candidate(source.text, AIPERF.load, "Implementation", NAMES)
    instance = code()
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    call_with(instance.prepare, {"a": a, "b": b})
    assert torch.equal(call_with(instance.run, {"a": a, "b": b}), a @ b)
    assert list(tmp_path.iterdir()) == []


def test_its_source_can_be_read_as_triton_does(tmp_path: Path) -> None:
    code: Any = load_candidate(GOOD, AIPERF.load, "Implementation", NAMES)
    assert inspect.getsource(code.run) == "    def run(self, a, *, scale=2):\n        return a @ self.b.t()\n"
    assert inspect.getsourcelines(code.prepare)[1] == 5


def test_nothing_says_where_the_file_was(tmp_path: Path) -> None:
    code: Any = load_candidate(
        "class Implementation:\n    def run(self):\n        raise ValueError(__file__)\n",
        AIPERF.load,
        "Implementation",
        (),
    )
    with pytest.raises(ValueError, match="^candidate.py$") as caught:
        code().run()
    assert 'File "candidate.py", line 3, in run\n    raise ValueError(__file__)' in "".join(
        traceback.format_exception(caught.value)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Implementation = 3", "the candidate's 'Implementation' is a int; accepted is a class"),
        ("x = 3", "the candidate's 'Implementation' is a NoneType; accepted is a class"),
        ("class Implementation: ...", "the candidate's 'Implementation' has no method run(self, ...)"),
    ],
)
def test_what_it_leaves_must_be_a_class(text: str, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        load_candidate(text, AIPERF.load, "Implementation", ())
    assert str(caught.value) == message


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        load_candidate("1 / 0", AIPERF.load, "Implementation", ())


# --- KernelBench


@pytest.fixture
def reference(tmp_path: Path) -> Benchmark:
    (tmp_path / "reference.py").write_text(REFERENCE)
    return KernelBench().benchmark(tmp_path / "reference.py")


def drawn(bench: Benchmark, seed: int) -> dict[str, Any]:
    """Inputs and static arguments."""
    found: dict[str, Any] = {}
    for function in (bench.task.inputs, bench.task.static):
        assert function is not None
        found |= call_with(function, {"device": "cpu", "generator": torch.Generator().manual_seed(seed)})
    return found


def wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: wide(one) for key, one in value.items()}
    return [wide(one) for one in value] if isinstance(value, list) else value


def error_of(bench: Benchmark, text: str, seed: int = 3) -> str | None:
    """What the judge says of a candidate."""
    given = drawn(bench, seed)
    code: Any = load_candidate(text, KERNELBENCH.load, "ModelNew", ["x", "y"])
    instance = code()
    call_with(instance.prepare, given)
    for step in range(3):
        # New values; what is static stays.
        given |= {name: one for name, one in drawn(bench, seed + step).items() if name in ("x", "y")}
        out = call_with(instance.run, given)
        right = bench.answer({}, {name: wide(one) for name, one in given.items()})
        assert right.dtype == torch.float64
        if error := compare_tensors("", out, right, bench.tolerance_at({})).error:
            return error
    return None


NEW = REFERENCE.replace("class Model(", "class ModelNew(")


def test_a_reference_becomes_a_benchmark(reference: Benchmark, tmp_path: Path) -> None:
    given = drawn(reference, 1)
    assert list(given) == ["x", "y", "kernelbench"]
    assert given["kernelbench"]["init_inputs"] == [5, [0.5, None]]
    assert set(given["kernelbench"]["weights"]) >= {"linear.weight", "norm.running_var"}
    assert reference.work({}).bytes_read == 4 * (17 * 5 + 17 * 3)
    assert reference.where == str(tmp_path / "reference.py")
    assert reference.answer({}, given).dtype == torch.float32
    assert not torch.equal(given["x"], drawn(reference, 2)["x"])
    assert torch.equal(given["x"], drawn(reference, 1)["x"])
    assert [(one.name, one.role) for one in reference.implementations_on("cpu")] == [("model", "baseline")]


def test_the_same_model_is_right(reference: Benchmark) -> None:
    assert error_of(reference, NEW) is None


def test_weights_go_by_name(reference: Benchmark) -> None:
    """Even where the constructor draws something else first."""
    text = NEW.replace("super().__init__()", "super().__init__(); torch.rand(7)")
    assert error_of(reference, text) is None


def test_or_by_the_order_in_which_they_are_drawn(reference: Benchmark) -> None:
    assert error_of(reference, NEW.replace("self.linear", "self.renamed")) is None
    text = NEW.replace("self.linear", "self.renamed").replace("super().__init__()", "super().__init__(); torch.rand(7)")
    assert error_of(reference, text) is not None


def test_a_wrong_model_is_wrong(reference: Benchmark) -> None:
    assert error_of(reference, NEW.replace("self.linear(x)", "self.linear(x.bfloat16().float())")) is not None
    assert error_of(reference, NEW.replace("torch.zeros(3)", "torch.full((3,), 1e-3)")) is not None


def test_the_baseline_is_right(reference: Benchmark) -> None:
    given = drawn(reference, 5)
    instance = reference.implementations_on("cpu")[0].code()
    call_with(instance.prepare, given)
    out = call_with(instance.run, given)
    right = reference.answer({}, {name: wide(one) for name, one in given.items()})
    assert compare_tensors("", out, right, reference.tolerance_at({})).error is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "def get_inputs",
            "def inputs",
            "FILE: has no get_inputs; a reference needs Model, get_inputs, get_init_inputs.",
        ),
        ("torch.rand(17, 3)]", "torch.rand(17, 3), 1]", "FILE: get_inputs returns 3 inputs; Model.forward takes 2."),
        (
            "import torch\n",
            "import torch\n1 / 0\n",
            "FILE: importing it raised ZeroDivisionError: division by zero",
        ),
        (
            "return [torch.randn(17, 5)",
            "return [torch.randn(17, 5, device='cuda:99')",
            "FILE: get_inputs raised ",
        ),
    ],
)
def test_what_a_reference_lacks_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "reference.py"
    file.write_text(REFERENCE.replace(old, new))
    with pytest.raises(BenchmarkError) as caught:
        KernelBench().benchmark(file)
    assert str(caught.value).replace(str(file), "FILE").startswith(message)


def test_inputs_whose_sizes_are_values_are_drawn(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text(REFERENCE.replace("torch.randn(17, 5)", "torch.randn(int(torch.ones(1).item()) * 17, 5)"))
    assert KernelBench().benchmark(file).work({}).bytes_read == 4 * (17 * 5 + 17 * 3)


def test_arguments_of_a_model_may_be_texts(tmp_path: Path) -> None:
    text = REFERENCE.replace("[0.5, None]", "[0.5, None, 'tanh', {'mode': 'x'}]").replace(
        "class Model(", "SEEN = []\n\nclass Model("
    )
    file = tmp_path / "reference.py"
    file.write_text(text.replace("super().__init__()", "super().__init__(); SEEN.append(options)"))
    bench = KernelBench().benchmark(file)
    drawn(bench, 1)
    (seen,) = sys.modules["kernelbench_reference"].SEEN
    assert seen == [0.5, None, "tanh", {"mode": "x"}]
