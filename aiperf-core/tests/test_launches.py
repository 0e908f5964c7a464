"""Ready implementations: `launch` and `loop`."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from aiperf_core import Benchmark, launches
from aiperf_core.benchmark import bind, call_with
from aiperf_core.errors import CompileError, KernelError, SkipError
from aiperf_core.kernels import host_source
from aiperf_core.launches import blocks, filling, launch, loop

SOURCE = """
#include <stdint.h>
void scaled(const float* a_ptr, float* out, int64_t n, double by) { for (int64_t i = 0; i < n; ++i) out[i] = (float)(by * a_ptr[i]); }
void added(const float* a, float* sums, int64_t n) { for (int64_t i = 0; i < n; ++i) sums[i % 2] += a[i]; }
double total4(const float* a, int64_t n) { double s = 0; for (int64_t i = 0; i < n; ++i) s += a[i]; return s; }
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module beside kernels, as an author's file is."""
    (tmp_path / "work.c").write_text(SOURCE)
    (tmp_path / "work.cu").write_text('extern "C" __global__ void turned(const float* a, float* out, int n) {}')
    (tmp_path / "work_triton.py").write_text("")
    (tmp_path / "work.py").write_text(
        "from aiperf_core.kernels import cuda_source, host_source, triton_source\n"
        "host, cuda = host_source('work.c'), cuda_source('work.cu')\ntriton = triton_source('work_triton.py')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "work", raising=False)
    import work  # type: ignore[import-not-found]

    return work


def called(code: type, **available: object) -> object:
    """The result of an implementation, prepared and run as the harness does it."""
    instance = code()
    call_with(instance.prepare, available)
    return bind(instance.run, available)()


def test_parameters_take_the_values_of_their_names(module):
    a = torch.arange(5.0)
    scaled = loop(module.host, out="a", make={"by": lambda n: n / 2.5})("scaled")
    assert torch.equal(called(scaled, a=a, n=5), 2 * a)


def test_an_output_like_an_input_that_is_not_there(module):
    with pytest.raises(KernelError, match=r"test_launches.py:\d+ \(scaled\): out='b': 'b' is no input; there are a"):
        called(loop(module.host, out="b")("scaled"), a=torch.ones(2), n=2)


def test_an_output_of_an_inputs_dtype_with_a_shape_of_sizes(module):
    a = torch.arange(6.0).reshape(2, 3)
    for shape, found in (("n", (6,)), (("rows", lambda a: a.shape[1], 1), (2, 3, 1)), ((3, "rows"), (3, 2))):
        out = called(loop(module.host, out=("a", shape), make={"by": 2.0})("scaled"), a=a, n=6, rows=2)
        assert torch.equal(out, 2 * a.reshape(found))


def test_an_output_with_a_shape_that_is_not_there(module):
    available = {"a": torch.ones(2), "n": 2, "rows": 1}
    with pytest.raises(KernelError, match=r"out=\('b', 'n'\): 'b' is no input; there are a$"):
        called(loop(module.host, out=("b", "n"))("scaled"), **available)
    with pytest.raises(KernelError, match=r"out=\('a', \('m', 3\)\): 'm' is no whole number; the sizes are n, rows$"):
        called(loop(module.host, out=("a", ("m", 3)))("scaled"), **available)
    with pytest.raises(KernelError, match=r"is no whole number; the sizes are n, rows$"):
        called(loop(module.host, out=("a", lambda n: n / 2))("scaled"), **available)


def test_only_the_inputs_of_the_kernel_are_asked_for(module):
    instance = loop(module.host, out="a", make={"by": 3.0})("scaled")()
    call_with(instance.prepare, {"a": torch.ones(2), "n": 2, "other": torch.ones(9)})
    assert sorted(bind(instance.run, {"a": torch.ones(2), "n": 2, "other": 1}).keywords) == ["a", "n"]


def test_new_inputs_count_not_those_of_prepare(module):
    instance = loop(module.host, out="a", make={"by": 3.0})("scaled")()
    call_with(instance.prepare, {"a": torch.ones(2), "n": 2})
    assert torch.equal(instance.run(a=torch.full((2,), 5.0), n=2), torch.full((2,), 15.0))


def test_zeroed_before_every_call(module):
    added = loop(module.host, make={"sums": lambda: torch.full((2,), 7.0)}, zero=("sums",), returns="sums")("added")
    instance = added()
    call_with(instance.prepare, {"a": torch.ones(3), "n": 3})
    for _ in range(2):
        assert instance.run(a=torch.ones(3), n=3).tolist() == [2, 1]


def test_returns_a_function_of_made_values_or_what_the_function_returns(module):
    sums = {"sums": lambda: torch.zeros(2)}
    assert called(loop(module.host, make=sums, returns=lambda sums: sums.sum())("added"), a=torch.ones(3), n=3) == 3
    assert called(loop(module.host, kernel="total{width}")("total"), a=torch.ones(3), n=3, width=4) == 3


def test_a_kernel_that_is_not_written_for_the_size_is_skipped(module):
    with pytest.raises(SkipError, match=r"is not written for width=8: work.c has no 'total8'"):
        called(loop(module.host, kernel="total{width}")("total"), a=torch.ones(3), n=3, width=8)


def test_a_parameter_that_nothing_is_named_after(module):
    with pytest.raises(
        KernelError,
        match=r"test_launches.py:\d+ \(scaled\): the kernel 'scaled' has a parameter 'by', and nothing has that name; there are a, n, out\.",
    ):
        called(loop(module.host, out="a")("scaled"), a=torch.ones(2), n=2)


def test_a_file_that_does_not_compile_comes_before_its_implementation(module, tmp_path):
    (tmp_path / "work.c").write_text("\nvoid broken(float* out) { out[0] = b; }\n")
    with pytest.raises(CompileError) as error:
        called(loop(module.host, out="a")("broken"), a=torch.ones(2))
    first, *_, last = str(error.value).splitlines()
    assert first.startswith(f"{tmp_path}/work.c:2: error: 'b' undeclared")
    assert re.fullmatch(r"  implementation: 'broken' at .*test_launches.py:\d+", last)


def test_a_wrong_number_of_arguments_names_the_file(module):
    wrong = loop(module.host, out="a", args=("a", "out"))("scaled")
    with pytest.raises(KernelError, match=r"'scaled' in work.c takes 4 arguments .*; got 2"):
        called(wrong, a=torch.ones(2))


def test_a_launch_needs_a_grid(module):
    with pytest.raises(
        KernelError, match=r"launch\(work.cu\) has no grid; give a number, a tuple, blocks\(n=1024\) or filling\(\)"
    ):
        launch(module.cuda)


def test_blocks_cover_sizes():
    assert blocks(columns=32, rows=8)(rows=9, columns=32, other=1) == (1, 2)
    with pytest.raises(KernelError, match=r"blocks\(n=4\) has no size 'n'; there are rows"):
        blocks(n=4)(rows=1)


def test_a_rule_and_a_kernel_that_are_not_there_name_the_line_of_the_implementation(module):
    with pytest.raises(
        KernelError, match=r"test_launches.py:\d+ \(turned\): blocks\(m=4\) has no size 'm'; there are a"
    ):
        called(launch(module.cuda, grid=blocks(m=4))("turned"), a=torch.ones(2))
    with pytest.raises(KernelError, match=r"test_launches.py:\d+ \(scale\): no function 'scale' in work.c"):
        called(loop(module.host, out="a")("scale"), a=torch.ones(2))


def test_a_launch_has_the_shape_of_its_rules(module, monkeypatch):
    seen = []

    class Kernel:
        signature = SimpleNamespace(names=("a", "out", "n"))

        def __call__(self, *values, **shape):
            seen.append((values, shape))

    monkeypatch.setattr(type(module.cuda), "kernel", lambda self, name: Kernel())
    a = torch.ones(9)
    code = launch(module.cuda, out="a", grid=blocks(n=4), block=lambda n: 2 * n, cluster=2)("turned")
    out = called(code, a=a, n=9)
    ((values, shape),) = seen
    assert [id(values[0]), id(values[1]), values[2]] == [id(a), id(out), 9]
    assert shape == {"grid": (3,), "block": 18, "shared_bytes": 0, "cluster": 2}


def test_a_filling_grid_counts_blocks_of_this_launch(module, monkeypatch):
    seen, asked = [], []
    kernel_type = type(
        "Kernel", (SimpleNamespace,), {"__call__": lambda self, *values, **shape: seen.append(shape["grid"])}
    )
    kernel = kernel_type(signature=SimpleNamespace(names=("a", "n")))

    def fits(kernel, block, shared_bytes, *, per_multiprocessor):
        asked.append((block, shared_bytes, per_multiprocessor))
        return 528

    monkeypatch.setattr(type(module.cuda), "kernel", lambda self, name: kernel)
    monkeypatch.setattr(launches, "grid_that_fills", fits)
    for grid in (filling(), filling(per_sm=4, at_most=blocks(n=4)), filling(at_most=(7, 11)), filling(at_most=9)):
        called(
            launch(module.cuda, out="a", grid=grid, block=64, shared_bytes=lambda n: 4 * n)("turned"),
            a=torch.ones(9),
            n=999,
        )
    assert seen == [528, 250, 77, 9]
    assert asked == [(64, 3996, None), (64, 3996, 4), (64, 3996, None), (64, 3996, None)]
    with pytest.raises(KernelError, match=r"\(turned\): filling\(\) counts blocks without clusters; give the grid of "):
        called(launch(module.cuda, out="a", grid=filling(), cluster=2)("turned"), a=torch.ones(9), n=9)


def test_a_filling_grid_of_a_triton_kernel(module):
    with pytest.raises(
        KernelError, match=r"filling\(\) counts the blocks of CUDA C\+\+ kernels; work_triton.py is Triton$"
    ):
        called(launch(module.triton, out="a", grid=filling())("turned"), a=torch.ones(9), n=9)


def test_declared_under_its_own_name_and_line():
    bench = Benchmark(goal="speed")
    source = host_source(str(Path(__file__).parents[1] / "src/aiperf_core/devices/ceilings.c"))
    cpu = bench.on("cpu", requires="compiler")
    cpu.baseline(loop(source)("copy_4"), kind="naive")
    (declared,) = bench.implementations_on("cpu")
    assert (declared.name, declared.requires, declared.is_class) == ("copy_4", ("compiler",), True)
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ \(copy_4\)", declared.where)


def test_an_architecture_replaces_the_common_one():
    bench = Benchmark(goal="speed")
    cuda = bench.on("cuda", requires=("sm_80", "compiler"))

    @cuda.variant(requires="sm_90", why="newer")
    def newer(a): ...

    assert bench.implementations_on("cuda")[0].requires == ("compiler", "sm_90")
