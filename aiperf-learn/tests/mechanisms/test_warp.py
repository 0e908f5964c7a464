"""Kernels evaluated for a warp: the addresses of their accesses, and what is not known."""

import pytest

from aiperf_learn.mechanisms.rehearsal import constant
from aiperf_learn.mechanisms.syntax import file_of
from aiperf_learn.mechanisms.tokens import Preprocessor, tokens_of
from aiperf_learn.mechanisms.warp import trace

LANES = range(32)


@pytest.fixture
def traced(tmp_path):
    def run(source, kernel="k", grid=(4, 1, 1), block=(64, 1, 1), **given):
        path = tmp_path / "kernel.cu"
        path.write_text(source)
        file = file_of(list(Preprocessor(constant).file(path)))
        options = {name: given.pop(name) for name in ("reader", "most_steps", "warp", "is_cut") if name in given}
        arguments = {"a": "a", "out": "out", "n": 1024, **given}
        return trace(file, kernel, list(tokens_of(kernel)), arguments, (grid, block), block=(1, 0, 0), **options)

    return run


def kernel(body, more=""):
    return f'{more}\nextern "C" __global__ void k(const int* a, float* out, int n) {{ {body} }}'


def offsets(found, at=0):
    return list(found.accesses[at].offsets)


def test_lanes_that_take_no_part_have_no_address(traced):
    found = traced(kernel("int i = threadIdx.x; if (i < 5) out[i] = 0; else if (i % 2) out[2 * i] = 1;"))
    assert found.is_whole
    assert offsets(found) == [4 * lane if lane < 5 else None for lane in LANES]
    assert offsets(found, 1) == [8 * lane if lane >= 5 and lane % 2 else None for lane in LANES]


def test_a_lane_that_has_returned_or_left_a_loop_is_gone(traced):
    found = traced(
        kernel("""
        int i = threadIdx.x;
        if (i == 3) return;
        for (int k = 0; k < 3; ++k) {
          if (i == 4) break;
          if (i == 5 && k == 1) continue;
          out[k] = 0;
        }
        out[100] = 0;
    """)
    )
    lanes = [{lane for lane in LANES if access.offsets[lane] is not None} for access in found.accesses]
    assert lanes == [{*LANES} - {3, 4}, {*LANES} - {3, 4, 5}, {*LANES} - {3, 4}, {*LANES} - {3}]


def test_templates_macros_headers_and_lambdas(traced, tmp_path):
    (tmp_path / "more.cuh").write_text("#define TWICE(x) (2 * (x))\n")
    found = traced(
        kernel(
            "auto put = [&](int at) { place<int, PADDED>(out, at); }; put(TWICE(threadIdx.x));",
            """#include "more.cuh"
            enum Layout { PLAIN, PADDED };
            #if __CUDA_ARCH__ >= 900 && !defined_here
            #define WORD 4
            #else
            #define WORD 8
            #endif
            template <typename T, Layout LAYOUT = PLAIN>
            __device__ void place(float* to, T at) { to[LAYOUT == PADDED ? at + WORD : at] = 0; }
            """.replace(" && !defined_here", ""),
        )
    )
    assert found.is_whole
    assert offsets(found) == [4 * (2 * lane + 4) for lane in LANES]


def test_wide_loads_unions_and_shared_memory(traced):
    found = traced(
        kernel("""
        __shared__ unsigned short tile[256];
        union Piece { uint4 all; unsigned short words[8]; };
        Piece piece;
        piece.all = __ldcs(reinterpret_cast<const uint4*>(a) + threadIdx.x);
        for (int k = 0; k < 2; ++k) tile[k * 32 + threadIdx.x] = piece.words[k];
    """)
    )
    assert [(access.kind, access.space, access.width) for access in found.accesses] == [
        ("load", "global", 16), ("store", "shared", 2), ("store", "shared", 2),
    ]  # fmt: skip
    assert offsets(found) == [16 * lane for lane in LANES]
    assert offsets(found, 2) == [2 * (32 + lane) for lane in LANES]


def test_an_address_from_memory_is_not_guessed(traced):
    source = kernel("out[a[threadIdx.x]] = 0; out[threadIdx.x] = 0;")
    found = traced(source)
    assert (len(found.accesses), found.is_whole, found.needs_values) == (2, False, True)
    known = traced(source, reader=lambda name, offset, kind: {"a": offset // 4 * 7}[name])
    assert known.is_whole
    assert offsets(known, 1) == [28 * lane for lane in LANES]


@pytest.mark.parametrize("body", [
    "if (a[0]) return; out[0] = 0;",
    "while (true) { if (a[0] > 3) break; }",
    "switch (n) { default: out[0] = 0; }",
    "out[undeclared] = 0;",
])  # fmt: skip
def test_a_kernel_that_cannot_be_evaluated_says_why_and_has_no_store(traced, body):
    found = traced(kernel(body))
    assert found.stopped
    assert not [access for access in found.accesses if access.kind == "store"]


def test_what_a_branch_on_an_unknown_value_assigns_is_not_known(traced):
    found = traced(kernel("int i = threadIdx.x, j = i; if (a[0]) { i = 0; } out[i] = 0; out[j] = 0;"))
    assert [access.kind for access in found.accesses] == ["load", "store"]
    assert offsets(found, 1) == [4 * lane for lane in LANES]


def test_a_long_loop_is_left_and_its_variables_are_not_known(traced):
    source = kernel("int at = threadIdx.x; for (int k = 0; k < 1000000; ++k) at += 1; out[at] = 0; out[n] = 0;")
    found = traced(source, most_steps=500)
    assert (found.is_whole, len(found.accesses)) == (False, 1)
    assert set(offsets(found)) == {4096}
    assert "more rounds" in traced(source, most_steps=500, is_cut=False).stopped


def test_overloads_and_the_elements_of_an_array_are_found_by_their_types(traced):
    found = traced(
        kernel(
            "float4 v[2]; fill(v, n); int own[3]; for (int k = 0; k < 3; ++k) own[k] = k * 32; "
            "out[own[2] + which(v[0]) + threadIdx.x] = 0;",
            """__device__ int which(float v) { return 1; }
            __device__ int which(float4 v) { return 1000; }
            template <int E> __device__ void fill(float4 (&v)[E], int n) { v[0] = make_float4(E, 0, 0, 0); }
            """,
        )
    )
    assert offsets(found) == [4 * (64 + 1000 + lane) for lane in LANES]
