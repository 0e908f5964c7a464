"""Definitions, workloads and solutions in JSON: what is read, what is refused, and what is right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_core.benchmark import Benchmark, call_with
from aiperf_core.candidate_format import FLASHINFER_TRACE
from aiperf_core.errors import AiperfError, BenchmarkError, ContractError, UsageError
from aiperf_core.formats.candidate import check_candidate, check_inputs
from aiperf_core.formats.flashinfer_trace import FlashInferTrace
from aiperf_core.harness.isolation.candidate import load_candidate

REFERENCE = """
import torch

def run(x, weight, scale):
    wide = x.to(torch.float32)
    rms = torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + 1e-6)
    return (wide * rms * weight.to(torch.float32) * scale).to(x.dtype)
"""
DEFINITION: dict[str, Any] = {
    "name": "rms_norm_h96",
    "op_type": "rmsnorm",
    "axes": {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 96}},
    "inputs": {
        "x": {"shape": ["rows", "hidden"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden"], "dtype": "bfloat16"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "hidden"], "dtype": "bfloat16"}},
    "reference": REFERENCE,
}
RANDOM = {"x": {"type": "random"}, "weight": {"type": "random"}, "scale": {"type": "scalar", "value": 0.5}}
WORKLOADS = [
    {"workload": {"uuid": "many", "axes": {"rows": 37}, "inputs": RANDOM}},
    {"workload": {"uuid": "few", "axes": {"rows": 3}, "inputs": RANDOM}},
]
RETURNS = """
import torch

def main(x, weight, scale):
    return (torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), 1e-6) * scale).to(x.dtype)
"""
WRITES = """
import torch

def main(x, weight, scale, y):
    y.copy_(torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), 1e-6) * scale)
"""


def solution(text: str = RETURNS, **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"language": "python", "entry_point": "main.py::main", "target_hardware": ["cpu"]}
    return {
        "name": "one",
        "definition": "rms_norm_h96",
        "spec": {**spec, **more},
        "sources": [{"path": "main.py", "content": text}],
    }


@pytest.fixture(autouse=True)
def generator() -> Iterator[None]:
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """The definition of a dataset that has workloads; its file."""
    for folder in ("definitions", "workloads"):
        (tmp_path / folder / "rmsnorm").mkdir(parents=True)
    lines = "".join(json.dumps(one) + "\n" for one in WORKLOADS)
    (tmp_path / "workloads/rmsnorm/rms_norm_h96.jsonl").write_text(lines)
    file = tmp_path / "definitions/rmsnorm/rms_norm_h96.json"
    file.write_text(json.dumps(DEFINITION))
    return file


def drawn(bench: Benchmark, sizes: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"device": "cpu", "generator": torch.Generator().manual_seed(1), **sizes}
    found = dict(call_with(bench.task.inputs, given))
    assert bench.task.static is not None
    return {**found, **call_with(bench.task.static, given), **sizes}


def loaded(tmp_path: Path, document: dict[str, Any]) -> Any:
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(document))
    source = check_candidate(file, FLASHINFER_TRACE)
    return load_candidate(source.text, source.format.load, source.entry, ["x", "weight", "scale"])


def test_workloads_are_sizes(dataset: Path) -> None:
    bench = FlashInferTrace().benchmark(dataset)
    sizes = bench.task.presets
    assert [*sizes] == ["many", "few", "smoke", "cpu", "cuda"]
    assert sizes["many"] == sizes["cpu"] == {"rows": 37, "hidden": 96, "workload": 0}
    assert sizes["few"] == sizes["smoke"] == {"rows": 3, "hidden": 96, "workload": 1}
    found = drawn(bench, dict(sizes["few"]))
    assert (found["x"].shape, found["x"].dtype, found["scale"]) == ((3, 96), torch.bfloat16, 0.5)
    assert bench.work(dict(sizes["few"])).bytes_read == 2 * (3 * 96 + 96)


def called(dataset: Path, tmp_path: Path, document: dict[str, Any]) -> tuple[Any, Any]:
    """What a solution gives, and the right answer."""
    bench = FlashInferTrace().benchmark(dataset)
    sizes = dict(bench.task.presets["cpu"])
    given = drawn(bench, sizes)
    instance = loaded(tmp_path, document)()
    call_with(instance.prepare, given)
    return call_with(instance.run, {name: given[name] for name in ("x", "weight", "scale")}), bench.answer(sizes, given)


ALL = WRITES.replace("x, weight, scale, y", "*all").replace("    y.", "    x, weight, scale, y = all\n    y.")
BY_NAME = RETURNS.replace("return (", "return {'y': (").replace("dtype)", "dtype)}")


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        (RETURNS, {"destination_passing_style": False}),
        (BY_NAME, {"destination_passing_style": False}),
        (WRITES, {"destination_passing_style": True}),
        (WRITES, {}),
        (WRITES.replace("scale, y", "scale, y=None, *, eps=1e-6, **more"), {}),
        (WRITES.replace("y.copy_", "return y.copy_"), {}),
        (ALL, {}),
        (
            ALL.replace("y = all", "y = *all, torch.empty_like(all[0])") + "    return y\n",
            {"destination_passing_style": False},
        ),
    ],
)
def test_a_solution_returns_or_writes_its_outputs(dataset: Path, tmp_path: Path, text: str, flag: Any) -> None:
    out, right = called(dataset, tmp_path, solution(text, **flag))
    torch.testing.assert_close(out["y"], right["y"])


def test_several_outputs_are_passed_in_their_order(dataset: Path, tmp_path: Path) -> None:
    outputs = {"y": DEFINITION["outputs"]["y"], "a": {"shape": None, "dtype": "int32"}}
    reference = REFERENCE.replace("(x.dtype)", "(x.dtype), 7")
    dataset.write_text(json.dumps({**DEFINITION, "outputs": outputs, "reference": reference}))
    out, right = called(dataset, tmp_path, solution(WRITES.replace("y):", "y, a):") + "    a.fill_(7)\n"))
    assert [*out] == ["y", "a"]
    assert (out["a"], out["a"].dtype, right["a"]) == (7, torch.int32, 7)
    torch.testing.assert_close(out["y"], right["y"])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            solution(RETURNS.replace("return (", "return 1, ("), destination_passing_style=False),
            "the solution must return the outputs y, in this order or by name",
        ),
        (
            solution(RETURNS.replace("(x, weight, scale)", "(x, weight, scale, y)")),
            "the solution returned a tensor of its own; it must write its outputs y into those passed behind the inputs, "
            'or set "destination_passing_style": false',
        ),
    ],
)
def test_outputs_that_break_the_contract(dataset: Path, tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        called(dataset, tmp_path, document)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "FILE: is no JSON object"),
        ({}, "'FILE' is no solution: it has no 'spec' and 'sources', as those of FlashInfer-Trace have"),
        (solution(language="cuda"), "'FILE' is written in 'cuda'; accepted are python, pytorch, triton"),
        (solution(entry_point="main"), "'FILE' has the entry point 'main'; accepted is FILE.py::FUNCTION"),
        (
            solution(entry_point="other.py::main"),
            "'FILE' has the sources main.py; accepted is 'other.py' alone, the file of its entry point",
        ),
        (
            solution(destination_passing_style="no"),
            '\'FILE\' has "destination_passing_style": "no"; accepted is true or false',
        ),
        (
            solution("def other(x): ..."),
            "'FILE' has no function 'main', which a candidate must define; its functions: 'other'",
        ),
    ],
)
def test_what_is_no_solution(tmp_path: Path, document: Any, message: str) -> None:
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        check_candidate(file, FLASHINFER_TRACE)
    assert str(caught.value).replace(str(file), "FILE") == message


@pytest.mark.parametrize(
    ("parameters", "flag", "message"),
    [
        (
            "x",
            {},
            "main takes 1 argument; it is called with 2: 'x', 'y'. Outputs are passed behind the inputs, as the solution has "
            'not set "destination_passing_style": false, which a function that returns its outputs needs',
        ),
        (
            "x, y, z, *more",
            {"destination_passing_style": True},
            "main takes 3 arguments; it is called with 2: 'x', 'y'. Outputs are passed behind the inputs, as the solution has "
            'not set "destination_passing_style": false, which a function that returns its outputs needs',
        ),
        (
            "x, y",
            {"destination_passing_style": False},
            "main takes 2 arguments; it is called with 1: 'x'. The solution has \"destination_passing_style\": false, so its "
            "function returns the outputs; a function that writes into outputs behind the inputs needs true",
        ),
        ("x, *, y", {}, "main takes 'y' by name only; arguments are given by position"),
    ],
)
def test_a_solution_that_cannot_be_called(tmp_path: Path, parameters: str, flag: Any, message: str) -> None:
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(solution(f"def main({parameters}): ...", **flag)))
    with pytest.raises(UsageError) as caught:
        check_inputs(check_candidate(file, FLASHINFER_TRACE), ["x", "flashinfer_trace:y"])
    assert str(caught.value) == f"'{file}', line 1: {message}"


@pytest.mark.parametrize("given", [None, {"type": "random"}, {"type": "scalar"}, {"type": "scalar", "value": "1"}])
def test_a_scalar_without_a_value(dataset: Path, given: Any) -> None:
    inputs = {name: one for name, one in {**RANDOM, "scale": given}.items() if one}
    one = {"workload": {"uuid": "a", "axes": {"rows": 2}, "inputs": inputs}}
    (dataset.parents[2] / "workloads/rmsnorm/rms_norm_h96.jsonl").write_text(json.dumps(one))
    bench = FlashInferTrace().benchmark(dataset)
    with pytest.raises(BenchmarkError) as caught:
        drawn(bench, dict(bench.task.presets["cpu"]))
    assert str(caught.value) == (
        f"{dataset}: the input 'scale' is a scalar, which needs a value in the workload, such as "
        '{"type": "scalar", "value": 1.0}.'
    )


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("reference", 3, "FILE: is no definition: it has no reference."),
        ("axes", None, "FILE: is no definition: it has no axes."),
        ("reference", "1 / 0", "FILE: importing its reference raised ZeroDivisionError: division by zero"),
        ("reference", "def other(): ...", "FILE: its reference defines no function 'run'."),
        (
            "axes",
            {"rows": {"type": "var"}, "hidden": {"type": "const"}},
            "FILE: the axis 'hidden' has no size in its workload.",
        ),
        ("outputs", {"y": {"shape": ["rows"], "dtype": "int4"}}, "FILE: 'y' has the dtype 'int4'; accepted: "),
    ],
)
def test_what_is_no_definition(dataset: Path, part: str, value: Any, message: str) -> None:
    dataset.write_text(json.dumps({**DEFINITION, part: value}))
    with pytest.raises(BenchmarkError) as caught:
        FlashInferTrace().benchmark(dataset)
    assert str(caught.value).replace(str(dataset), "FILE").startswith(message)


def test_lines_of_workloads_as_editors_save_them(dataset: Path) -> None:
    file = dataset.parents[2] / "workloads/rmsnorm/rms_norm_h96.jsonl"
    lines = [json.dumps({**one, "note": "a\u2028b"}, ensure_ascii=False) for one in WORKLOADS]
    expected = FlashInferTrace().benchmark(dataset).task.presets
    file.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert FlashInferTrace().benchmark(dataset).task.presets == expected
    file.write_bytes(json.dumps(WORKLOADS[0])[:-1].encode() + b', "caf\xe9": 1}')
    with pytest.raises(BenchmarkError, match="rms_norm_h96.jsonl:1: is no JSON: "):
        FlashInferTrace().benchmark(dataset)


def test_axes_that_no_workload_sets(dataset: Path) -> None:
    (dataset.parents[2] / "workloads/rmsnorm/rms_norm_h96.jsonl").unlink()
    with pytest.raises(BenchmarkError) as caught:
        FlashInferTrace().benchmark(dataset)
    assert str(caught.value) == f"{dataset}: the axis 'rows' has no size in its workload."


def test_stored_inputs_are_read_from_the_dataset_alone(dataset: Path) -> None:
    from safetensors.torch import save_file

    root = dataset.parents[2]
    stored = torch.arange(96).to(torch.bfloat16)
    save_file({"w": stored}, root / "weights.safetensors")

    def weight(path: str) -> Any:
        spec = {"type": "safetensors", "path": path, "tensor_key": "w"}
        one = {"workload": {"uuid": "a", "axes": {"rows": 2}, "inputs": {**RANDOM, "weight": spec}}}
        (root / "workloads/rmsnorm/rms_norm_h96.jsonl").write_text(json.dumps(one))
        bench = FlashInferTrace().benchmark(dataset)
        return drawn(bench, dict(bench.task.presets["cpu"]))["weight"]

    assert torch.equal(weight("weights.safetensors"), stored)
    outside = root.parent / "outside.safetensors"
    save_file({"w": stored}, outside)
    with pytest.raises(AiperfError, match="which is no file below"):
        weight("../outside.safetensors")
