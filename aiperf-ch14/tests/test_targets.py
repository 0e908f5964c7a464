"""Every target of the chapter is right at every size, on every device, and its judge is worth something."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from aiperf_ch14 import compile_modes, triton_softmax
from aiperf_ch14.plugin import aiperf_targets
from aiperf_core.benchmark import bind, call_with
from aiperf_core.cli.main import Shell
from aiperf_core.errors import SkipError
from aiperf_core.models import Transformer
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

Size = dict[str, float]

# One of what may be one; primes; a row around a power of two.
SIZES: dict[str, list[Size]] = {
    "triton_softmax": [
        {"rows": 1, "columns": 1},
        {"rows": 101, "columns": 513},
        {"rows": 3, "columns": 65521},
    ],
    "compile_modes": [
        {"layers": 2, "width": 36, "heads": 3, "kv_heads": 3, "hidden": 61, "vocabulary": 97, "batch": 1, "length": 1},
        {"layers": 1, "width": 40, "heads": 4, "kv_heads": 2, "hidden": 31, "vocabulary": 61, "batch": 2, "length": 33},
    ],
}
CASES = [(name, size) for name, sizes in SIZES.items() for size in sizes]
ROWS = {
    "triton_softmax": {"cpu": "eager few_rows library", "cuda": "eager one_block online persistent library"},
    "compile_modes": {
        "cpu": "eager default max_autotune_no_graphs",
        "cuda": "eager default reduce_overhead max_autotune_no_graphs max_autotune",
    },
}


def identity(value: str | Size) -> str:
    return value if isinstance(value, str) else "x".join(map(str, value.values()))


def check(aiperf_measure: Measure, name: str, device: str, **how: Any) -> None:
    result = aiperf_measure(f"ch14.{name}", device=device, **how)
    assert problems(result) == []
    assert " ".join(row.name for row in result.rows) == ROWS[name][device]
    assert [row.reason for row in result.rows if row.verdict == "SKIPPED"] == []


def outcomes(target: str) -> list[dict[str, str]]:
    """What `aiperf lint` complains of."""
    result = CliRunner().invoke(Shell(load_plugins()), ["lint", target, "--device", "cpu", "--json"])
    (linted,) = json.loads(result.stdout)["targets"]
    assert linted["failed"] == linted["skipped"] == ""
    return [one for one in linted["outcomes"] if one["verdict"] in ("problem", "note")]


def drawn(size: Size) -> dict[str, Any]:
    """All that an implementation of `compile_modes` may ask for."""
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    task = compile_modes.bench.task
    assert task.static is not None
    return {**size, **call_with(task.static, given), **call_with(task.inputs, given)}


def test_every_target_has_sizes() -> None:
    assert {target.name for target in aiperf_targets()} == SIZES.keys() == ROWS.keys()


def test_softmax_is_measured(aiperf_measure: Measure) -> None:
    check(aiperf_measure, "triton_softmax", "cpu")


@pytest.mark.parametrize("size", SIZES["triton_softmax"], ids=identity)
def test_softmax_is_right_on_the_cpu(size: Size) -> None:
    task, tolerance = triton_softmax.bench.task, triton_softmax.bench.tolerance
    given = call_with(task.inputs, {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)})
    right = torch.softmax(given["x"].double(), -1)
    for one in triton_softmax.bench.on("cpu"):
        run = one.code
        if one.is_class:
            instance = one.code()
            instance.prepare(**given)
            run = instance.run
        out = bind(run, given)()
        assert (out - right).norm() <= tolerance.rel_l2 * right.norm(), one.name


def test_the_judge_of_softmax_cannot_be_fooled() -> None:
    assert outcomes("ch14.triton_softmax") == []


@pytest.mark.parametrize("size", SIZES["compile_modes"], ids=identity)
def test_the_eager_model_is_right(size: Size) -> None:
    given = drawn(size)
    weights = {name: one.double() if one.is_floating_point() else one for name, one in given["weights"].items()}
    right = compile_modes.bench.answer(size, {"tokens": given["tokens"], "weights": weights})
    eager = compile_modes.Eager()
    call_with(eager.prepare, given)
    out = eager.run(given["tokens"])
    for name, wanted in right.items():
        error = (out[name] - wanted).norm() / wanted.norm()
        assert error <= compile_modes.bench.tolerance.rel_l2, name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the compiler imports
def test_the_model_is_one_graph_whose_weights_stay_where_they_are() -> None:
    given, graphs = drawn(SIZES["compile_modes"][0]), []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(inputs)
        return graph.forward

    model = Transformer(compile_modes.model_of(given), given["weights"])
    compiled = torch.compile(compile_modes.forward, fullgraph=True, dynamic=False, backend=backend)
    right, out = compile_modes.forward(model, given["tokens"]), compiled(model, given["tokens"])
    assert all(torch.equal(out[name], right[name]) for name in right)
    (inputs,) = graphs
    # What is not marked would be copied before each replay of a CUDA graph.
    moving = [one.shape for one in inputs if not hasattr(one, "_dynamo_static_input_type")]
    assert moving == [given["tokens"].shape]


def test_without_a_compiler_a_mode_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    with pytest.raises(SkipError) as caught:
        call_with(compile_modes.Default().prepare, drawn(SIZES["compile_modes"][0]))
    assert str(caught.value) == "needs a C++ compiler (looked for $CXX, g++, clang++, c++)"


# Each mode compiles for half a minute.
@pytest.mark.long
@pytest.mark.parametrize("size", [{}, *SIZES["compile_modes"]], ids=identity)
def test_compiled_models_are_right_on_the_cpu(aiperf_measure: Measure, size: Size) -> None:
    check(aiperf_measure, "compile_modes", "cpu", **size)


@pytest.mark.long
def test_the_time_to_compile_is_in_the_result(aiperf_measure: Measure) -> None:
    eager, default, _ = aiperf_measure("ch14.compile_modes").rows
    assert eager.prepare_s is not None
    assert default.prepare_s is not None
    assert default.prepare_s > 1 > eager.prepare_s


@pytest.mark.long
def test_the_judge_of_compiled_models_cannot_be_fooled() -> None:
    assert outcomes("ch14.compile_modes") == []


@pytest.mark.long
@pytest.mark.parametrize("name", SIZES)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu", size="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "size"), CASES, ids=identity)
def test_right_on_a_gpu(aiperf_measure: Measure, name: str, size: Size) -> None:
    check(aiperf_measure, name, "cuda", **size)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "size"),
    [("triton_softmax", "cuda"), ("triton_softmax", "short"), ("triton_softmax", "long"), ("compile_modes", "cuda")],
)
def test_right_on_a_gpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str, size: str) -> None:
    check(aiperf_measure, name, "cuda", size=size)
