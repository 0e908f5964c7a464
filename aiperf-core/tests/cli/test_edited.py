"""Which implementations an edit touches, for all ways in which a benchmark's code is spread over files."""

from pathlib import Path

import pytest

from aiperf_core.cli.edited import Edits

FILE = Path("acme/sort.py")
TARGET = """
import torch
from aiperf_acme.helpers import merged, split
from aiperf_core.kernels import cuda_source, host_source
bench = Benchmark(goal="speed", clock="device")
cpu, cuda = bench.on("cpu"), bench.on("cuda")
loops = loop(host_source("loops.c"))
code = cuda_source("kernels/tiles.cu")

@bench.workload(smoke={"n": 1})
def inputs(n): return n

def halves(a): return a[::2], a[1::2]

@cpu.baseline(kind="naive")
def two_passes(a): return halves(a)

@cpu.variant(why="b")
class OneLoop:
    def run(self, a): return merged(halves(a))

cpu.variant(loops("in_c", kernel="rows"), why="c")
cpu.variant(loops("in_c_wide", kernel="wide"), why="d")

@cuda.variant(why="e", name="tiled")
def tiles(a): return launch(code, f"tile_{len(a)}")

@cpu.variant(why="g")
class Renamed(OneLoop):
    def run(self, a): return super().run(a)

@cpu.yardstick(why="f")
def library(a): return split(a)
"""
LOOPS = """
#include "sum.h"
#define STEP 4
static float part(float x) { return sum(x); }
void rows(const float* a, float* out, long n) { for (long i = 0; i < n; i++) { out[i] = part(a[i]); } }
// Four at a time.
void wide(const float* a, float* out, long n) { for (long i = 0; i < n; i += STEP) out[i] = a[i]; }
"""
HELPERS = "def half(a): return a\ndef merged(a): return half(a)\ndef split(a): return a\ndef other(a): return 1\n"
TEXTS = {
    FILE: TARGET,
    Path("acme/kernels/loops.c"): LOOPS,
    Path("acme/kernels/sum.h"): "static inline float sum(float x) { return x; }",
    Path("acme/kernels/tiles.cu"): "__global__ void tile_32(float* a) { a[0] = 1; }\nstruct Tile { int row; };",
    Path("acme/helpers.py"): HELPERS,
    Path("acme/other.py"): "x = 1",
}


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("sort.py", "return merged(halves(a))", "return merged(a)", ["one_loop", "renamed"]),
        ("sort.py", "super().run(a)", "super().run(2 * a)", ["renamed"]),
        ("sort.py", "a[::2], a[1::2]", "a[1::2], a[::2]", ["two_passes", "one_loop", "renamed"]),
        ("sort.py", 'kernel="wide"', 'kernel="rows"', ["in_c_wide"]),
        ("sort.py", "def inputs(n): return n", "def inputs(n): return 2 * n", []),
        ("sort.py", "def library(a): return split(a)", "def library(a): return a", ["library"]),
        ("sort.py", "def halves", "# halves\ndef halves", []),
        ("loops.c", "i++", "++i", ["in_c"]),
        ("loops.c", "return sum(x)", "return x", ["in_c"]),
        ("loops.c", "STEP 4", "STEP 8", ["in_c_wide"]),
        ("loops.c", "// Four at a time.", "// Four.", []),
        ("loops.c", "static float part", "float zero;\nstatic float part", ["in_c", "in_c_wide"]),
        ("sum.h", "return x", "return 2 * x", ["in_c"]),
        ("tiles.cu", "a[0] = 1", "a[0] = 2", ["tiled"]),
        ("helpers.py", "half(a): return a", "half(a): return 1", ["one_loop", "renamed"]),
        ("helpers.py", "split(a): return a", "split(a): return 1", ["library"]),
        ("other.py", "x = 1", "x = 2", []),
    ],
)
def test_the_edited_implementations(file: str, old: str, new: str, names: list[str]) -> None:
    edits = Edits(FILE, TEXTS)
    (path,) = (one for one in TEXTS if one.name == file)
    assert old in TEXTS[path]
    after = {**TEXTS, path: TEXTS[path].replace(old, new)}
    assert edits(after) == names
    assert edits(after) == []


def test_an_edit_that_does_not_parse_counts_until_it_does() -> None:
    edits = Edits(FILE, TEXTS)
    assert edits({**TEXTS, FILE: TARGET.replace("return merged(halves(a))", "return merged(")}) == [
        "one_loop",
        "renamed",
    ]
    assert edits(TEXTS) == ["one_loop", "renamed"]
    assert edits(TEXTS) == []


def test_a_file_that_never_parsed_has_no_names() -> None:
    edits = Edits(FILE, {FILE: "def ("})
    assert edits(TEXTS) == []
    assert edits({**TEXTS, FILE: TARGET.replace("return split(a)", "return a")}) == ["library"]


def test_a_new_implementation_is_named_and_a_removed_one_is_not() -> None:
    edits = Edits(FILE, TEXTS)
    without = TARGET.partition("@cpu.yardstick")[0]
    assert edits({**TEXTS, FILE: without}) == []
    assert edits(TEXTS) == ["library"]
