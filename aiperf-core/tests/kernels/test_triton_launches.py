"""The types and constants of Triton kernels, inferred from launches at the presets of a benchmark."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="needs triton")

from aiperf_core.errors import KernelError, UsageError
from aiperf_core.kernels import TritonAhead, triton_source
from aiperf_core.kernels.check import Outcome, compile_all, launches_in

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def scaled(a_ptr, out_ptr, n, by, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + places, by * tl.load(a_ptr + places, mask=places < n), mask=places < n)


@triton.jit(do_not_specialize=["n"])
def typed(a_ptr, n, one, none, flag, big, huge, wide: tl.int64, KIND: tl.constexpr = "plain"):
    pass


@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned(a_ptr, n, BLOCK: tl.constexpr):
    pass
"""
BENCH = """
import torch
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_ahead, triton_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(goal="speed")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda")
code = triton_source("work_triton.py", archs=("sm_90",), launched_by=LAUNCHED_BY)

@bench.workload(smoke={"n": 31}, cpu={"n": 64}, cuda={"n": 1 << 40}, odd={"n": 4099})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}

@bench.static
def weights(n, device, generator):
    return {"indices": torch.randint(n, (n,), device=device, generator=generator).to(torch.int32)}

@bench.reference(tolerance=exact)
def reference(a): return 2 * a

@bench.cost
def cost(n): return Cost(bytes_read=4 * n, bytes_written=4 * n)

@both.baseline(kind="reasonable")
def doubled(a): return 2 * a
"""
READY = """
cuda.variant(
    launch(code, out="a", grid=blocks(n=128), make={"BLOCK": 128, "by": 2.0}, options={"num_warps": lambda n: 2})("scaled"),
    adds="one kernel", why="one pass",
)
"""
CLASS = """
@cuda.variant(adds="one kernel", why="one pass")
class Typed:
    def prepare(self, a, indices):
        self.out, self.kernel = torch.empty_like(a), code.kernel("KERNEL")

    def run(self, a, indices, n):
        CALL
        return self.out
"""
CALL = "self.kernel[(1,)](a[1:], n, 1, None, True, -5, 1 << 40, 3, num_stages=2)"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write a module beside kernels, and import it: `work(text, launched_by)`."""
    (tmp_path / "work_triton.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def imported(text: str, launched_by: tuple[str, ...] = ()) -> Any:
        (tmp_path / "work.py").write_text(BENCH.replace("LAUNCHED_BY", repr(launched_by)) + text)
        return import_module("work")

    yield imported
    for name in ("work", "_work.work_triton"):
        sys.modules.pop(name, None)


def refused(work: Any, text: str, *launched_by: str) -> str:
    module = work(text, launched_by)
    with pytest.raises(KernelError) as caught:
        launches_in("work", module.code)
    return str(caught.value)


def test_a_launch_tells_types_and_constants_at_each_preset_for_gpus(work):
    module = work(READY)
    types = {"a_ptr": "*fp32:16", "out_ptr": "*fp32:16", "by": "fp32"}
    assert launches_in("work", module.code) == [
        TritonAhead("scaled", {"a_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": n, "by": "fp32"}, {"BLOCK": 128}, 2, 3)
        for n in ("i64:16", "i32")
    ]
    assert {**types, "n": "i32"} == launches_in("work", module.code)[1].signature
    # As before, and as the GPU would run it.
    assert module.code.kernel("scaled").fn.__name__ == "scaled"
    outcomes = list(compile_all([("acme.work", "work")], ["sm_90"]))
    assert [(one.kernel, one.status, one.reason) for one in outcomes] == [("scaled", "ok", "")] * 2


def test_a_class_tells_as_triton_specialises(work):
    module = work(CLASS.replace("KERNEL", "typed").replace("CALL", CALL), ("typed",))
    first, _ = launches_in("work", module.code)
    # A view that begins within 16 bytes, a size that is not specialised, 1, None, and a parameter with a type.
    assert first.signature == {
        "a_ptr": "*fp32", "n": "i64", "flag": "u1", "big": "i32", "huge": "i64:16", "wide": "i64"
    }  # fmt: skip
    assert first.constants == {"one": 1, "none": None, "KIND": "plain"}
    assert (first.num_warps, first.num_stages) == (4, 2)


def test_what_cannot_be_inferred_names_the_implementation_and_the_reason(work):
    start = "the arguments of work_triton.py cannot be inferred from 'typed': "
    end = ". Declare their types by triton_ahead(...)"
    cases = {
        "self.kernel[(1,)](a.to(torch.complex64), n, 2, 2, 2, 2, 2, 2)": (
            "KernelError: kernel 'typed' in work_triton.py: its argument 'a_ptr' is a tensor of torch.complex64, of "
            "which no type is inferred"
        ),
        "self.kernel[(1,)](a, n, 2, (3,), 2, 2, 2, 2)": (
            "KernelError: kernel 'typed' in work_triton.py: its argument 'none' is a tuple, of which no type is inferred"
        ),
        "self.kernel[(1,)](a, n, 2, 2, 2, 2, 2, 2, num_ctas=2)": (
            "KernelError: kernel 'typed' in work_triton.py: is launched with num_ctas, which triton_ahead does not know"
        ),
        "self.kernel[(1,)](a)": "TypeError: missing a required argument: 'n'",
        "pass": "it launches none",
        "raise SkipError('needs a GPU')": "needs a GPU",
        "raise ValueError('odd')": "ValueError: odd",
    }
    for call, why in cases.items():
        assert refused(work, CLASS.replace("KERNEL", "typed").replace("CALL", call), "typed") == start + why + end
        del sys.modules["work"]
    found = refused(work, CLASS.replace("KERNEL", "typed").replace("CALL", "a.data_ptr()"), "typed")
    assert found.startswith(f"{start}RuntimeError: Cannot access data pointer of Tensor")
    del sys.modules["work"]
    found = refused(work, CLASS.replace("KERNEL", "tuned").replace("CALL", "self.kernel[(1,)](a, n)"), "typed")
    assert found == (
        f"{start}KernelError: kernel 'tuned' in work_triton.py: its constants are those that @autotune or @heuristics "
        f"choose{end}"
    )


def test_a_file_without_launches_and_a_name_without_an_implementation_fail(work):
    module = work("")
    (outcome,) = compile_all([("acme.work", "work")], ["sm_90"])
    assert outcome == Outcome(
        "acme.work",
        "work_triton.py",
        "triton",
        "",
        status="failed",
        reason="no launch of work_triton.py is declared; give launched_by=(...) or triton_ahead(...)",
    )
    del sys.modules["work"]
    assert module.code.launched_by == ()
    # `doubled` on the CPU launches nothing of a GPU; `typo` is nothing.
    found = refused(work, READY, "typo")
    assert found == "work_triton.py is launched_by typo, which no implementation is named"


def test_a_declared_kernel_is_not_inferred(work):
    declared = READY.replace(
        "cuda.variant", 'code.ahead = (triton_ahead("scaled", signature={"n": "i32"}),)\ncuda.variant'
    )
    module = work(declared)
    assert launches_in("work", module.code) == [TritonAhead("scaled", {"n": "i32"})]


def test_a_name_in_place_of_names(tmp_path, monkeypatch):
    (tmp_path / "work_triton.py").write_text("")
    monkeypatch.setitem(globals(), "__file__", str(tmp_path / "test.py"))
    with pytest.raises(
        UsageError, match=r"^work_triton.py: launched_by takes a tuple, such as \('fused',\); got 'fused'$"
    ):
        triton_source("work_triton.py", launched_by="fused")
