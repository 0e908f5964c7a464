"""The code of an implementation, cut from the texts of a package."""

from pathlib import Path

import pytest

from aiperf_core.declared_code import CodeFile, listing

FILE = Path("acme/turn.py")
TARGET = '''"""Turn."""
import torch
from acme.helpers import padded_size
bench = Benchmark(goal="speed", clock="device")
# The kernels of both devices.
device_code, host_code = cuda_source("turn.cu"), host_source("turn.c")
turn = launch(device_code, kernel="{name}{bytes}", grid=1)
loops = loop(host_code)

bench.baseline(turn("plain"), kind="naive")
bench.variant(turn("by_words"), why="a")
bench.variant(loops("in_c"), why="b")

@bench.variant(why="c")
class Own:
    def run(self, a): return padded_size(a)
'''
KERNELS = """\
#include "shared/places.cuh"
#define TILE 64  // words

// Two layouts.
enum Layout { PLAIN, PADDED };

// A column in one bank: "{" is no block.
template <typename T, int (*PLACE)(int, int)>
__device__ void turned(T* out) { const char* text = "}{"; out[PLACE(0, 1)] = TILE; }

struct Pair { int a, b; };

namespace { int unused = 3; }
extern "C" {
__global__ void plain4(int* out) { turned<int, place<PLAIN>>(out); }
__global__ void by_words4(int* out) { Pair pair; out[0] = pair.a; }
}
"""
PLACES = "template <Layout LAYOUT>\n__device__ int place(int r, int c) { return r; }\nint other() { return 1; }\n"
TEXTS = {
    FILE: TARGET,
    Path("acme/kernels/turn.cu"): KERNELS,
    Path("acme/kernels/shared/places.cuh"): PLACES,
    Path("acme/kernels/turn.c"): "void in_c(void) {}\nvoid out_of_c(void) {}\n",
    Path("acme/helpers.py"): "SIZE = 3\ndef padded_size(a): return SIZE\ndef other(a): return 1\n",
}


def line(text):
    return TARGET.splitlines().index(text) + 1


def test_a_kernel_has_its_template_and_no_other_kernel():
    code = listing(FILE, TEXTS, [line('bench.baseline(turn("plain"), kind="naive")')], ["plain4"])
    assert [*code] == ["turn.py", "turn.cu", "places.cuh"]
    assert code["turn.py"].splitlines() == [
        *TARGET.splitlines()[3:7],
        "",
        'bench.baseline(turn("plain"), kind="naive")',
    ]
    for part in ("#define TILE 64  // words", "// Two layouts.\nenum Layout", "// A column in", "void turned(T* out)"):
        assert part in code["turn.cu"]
    assert code["turn.cu"].endswith("__global__ void plain4(int* out) { turned<int, place<PLAIN>>(out); }")
    assert "by_words4" not in code["turn.cu"]
    assert "Pair" not in code["turn.cu"]
    assert code["places.cuh"] == PLACES.rpartition("int other")[0].strip()


def test_an_instance_of_a_template_is_found_by_its_name():
    kernels = "template <int N>\n__global__ void by_rows(int* out) { out[N] = 1; }\n__global__ void other(int* a) {}\n"
    code = listing(FILE, {**TEXTS, Path("acme/kernels/turn.cu"): kernels}, [11], ["by_rows<4>"])
    assert code["turn.cu"] == kernels.rpartition("__global__")[0].strip()


def test_without_a_known_kernel_words_tell_and_else_the_file_is_whole():
    assert listing(FILE, TEXTS, [line('bench.variant(loops("in_c"), why="b")')])["turn.c"] == "void in_c(void) {}"
    unnamed = {**TEXTS, FILE: TARGET.replace('loops("in_c")', "loops(chosen())")}
    assert listing(FILE, unnamed, [12])["turn.c"] == TEXTS[Path("acme/kernels/turn.c")].strip()


def test_helpers_of_the_package_are_cut_to_the_names_that_are_used():
    code = listing(FILE, TEXTS, [line("class Own:")])
    assert [*code] == ["turn.py", "helpers.py"]
    assert code["helpers.py"] == "SIZE = 3\ndef padded_size(a): return SIZE"


@pytest.mark.parametrize(("text", "lines"), [("def (", [1]), (TARGET, [999]), ("", [1])])
def test_a_place_without_a_statement_has_no_code(text, lines):
    assert listing(FILE, {FILE: text}, lines) == {}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("#define AREA(x) ((x) * (x))\n", ("AREA",)),
        ("#pragma once\n", ()),
        ("static const float SCALES[2] = {1, 2};\n", ("SCALES",)),
        ("typedef struct { int a; } Pair;\n", ("Pair",)),
        ("enum { FEW = 1, MANY };\n", ("FEW", "MANY")),
        ("struct Tile : Base { int a; };\n", ("Tile",)),
        ("__global__ __launch_bounds__(256, 2) void kernel(int* a) { if (a) { a[0] = ';'; } }\n", ("kernel",)),
    ],
)
def test_a_declaration_of_c_binds_its_names(code, names):
    (piece,) = CodeFile.of("a.cu", code).pieces
    assert {*names} <= {*piece.names}
    assert bool(piece.names) == bool(names)
