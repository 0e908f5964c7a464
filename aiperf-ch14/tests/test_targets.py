"""What `pytest --aiperf` does not test of the targets: compiled models at several sizes, and how they are compiled."""

from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch14 import compile_modes, dynamic_shapes
from aiperf_core.benchmark import call_with
from aiperf_core.errors import SkipError
from aiperf_core.models import Transformer
from aiperf_core.testing import Measure, problems

Size = dict[str, float]

SIZES: list[Size] = [
    {"layers": 2, "width": 36, "heads": 3, "kv_heads": 3, "hidden": 61, "vocabulary": 97, "batch": 1, "length": 1},
    {"layers": 1, "width": 40, "heads": 4, "kv_heads": 2, "hidden": 31, "vocabulary": 61, "batch": 2, "length": 33},
]
ROWS = {
    "triton_softmax": {"cpu": "eager few_rows library", "cuda": "eager one_block online library"},
    "compile_modes": {
        "cpu": "eager default max_autotune_no_graphs",
        "cuda": "eager default reduce_overhead max_autotune_no_graphs max_autotune",
    },
}


def identity(size: Size) -> str:
    return "x".join(map(str, size.values()))


def check(aiperf_measure: Measure, name: str, device: str, **how: Any) -> None:
    result = aiperf_measure(f"ch14.{name}", device=device, **how)
    assert problems(result) == []
    assert " ".join(row.name for row in result.rows) == ROWS[name][device]
    assert [row.reason for row in result.rows if row.verdict == "SKIPPED"] == []


def drawn(size: Size) -> dict[str, Any]:
    """All that an implementation of `compile_modes` may ask for."""
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    task = compile_modes.bench.task
    assert task.static is not None
    return {**size, **call_with(task.static, given), **call_with(task.inputs, given)}


@pytest.mark.parametrize("size", SIZES, ids=identity)
def test_the_eager_model_is_right(size: Size) -> None:
    given = drawn(size)
    weights = {name: one.double() if one.is_floating_point() else one for name, one in given["weights"].items()}
    right = compile_modes.bench.answer(size, {"tokens": given["tokens"], "weights": weights})
    eager = compile_modes.Eager()
    call_with(eager.prepare, given)
    out = eager.run(given["tokens"])
    for name, wanted in right.items():
        error = (out[name] - wanted).norm() / wanted.norm()
        assert error <= compile_modes.bench.tolerance_at({}).rel_l2, name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the compiler imports
def test_the_model_is_one_graph_whose_weights_stay_where_they_are() -> None:
    given, graphs = drawn(SIZES[0]), []

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
        call_with(compile_modes.Default().prepare, drawn(SIZES[0]))
    assert str(caught.value) == "needs a C++ compiler (looked for $CXX, g++, clang++, c++)"


def test_dynamo_makes_as_many_graphs_as_the_lesson_says() -> None:
    size = {"calls": 9, "lengths": 5}  # 17, 56, 187, 618 and 2048
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    given |= call_with(dynamic_shapes.bench.task.inputs, given)
    graphs = {}
    for code in (dynamic_shapes.EachLength, dynamic_shapes.Padded, dynamic_shapes.Automatic, dynamic_shapes.Marked):
        call_with((instance := code()).run, given)
        graphs[code.__name__] = instance.graphs
    assert graphs == {"EachLength": 5, "Padded": 5, "Automatic": 2, "Marked": 1}


# Each mode compiles for half a minute.
@pytest.mark.long
@pytest.mark.parametrize("size", [{}, *SIZES], ids=identity)
def test_compiled_models_are_right_on_the_cpu(aiperf_measure: Measure, size: Size) -> None:
    check(aiperf_measure, "compile_modes", "cpu", **size)


@pytest.mark.long
def test_the_time_to_compile_is_in_the_result(aiperf_measure: Measure) -> None:
    eager, default, _ = aiperf_measure("ch14.compile_modes").rows
    assert eager.prepare_s is not None
    assert default.prepare_s is not None
    assert default.prepare_s > 1 > eager.prepare_s


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu", size="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES, ids=identity)
def test_compiled_models_are_right_on_a_gpu(aiperf_measure: Measure, size: Size) -> None:
    check(aiperf_measure, "compile_modes", "cuda", **size)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "size"),
    [("triton_softmax", "cuda"), ("triton_softmax", "short"), ("triton_softmax", "long"), ("compile_modes", "cuda")],
)
def test_right_on_a_gpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str, size: str) -> None:
    check(aiperf_measure, name, "cuda", size=size)
