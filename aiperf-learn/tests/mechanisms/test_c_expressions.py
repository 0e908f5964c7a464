"""The evaluator of expressions against a C compiler, on expressions that hypothesis makes."""

import random
import subprocess

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aiperf_learn.mechanisms.syntax import Reader, file_of
from aiperf_learn.mechanisms.tokens import tokens_of
from aiperf_learn.mechanisms.values import LANES, Value, scalar
from aiperf_learn.mechanisms.warp import Warp

VALUES = {
    "int i": (-7, 0, 3, 2147483647),
    "unsigned int u": (0, 5, 4294967295),
    "long long l": (-(1 << 40), 9),
    "unsigned long long w": (1, (1 << 64) - 1),
    "unsigned char c": (200, 3),
    "short s": (-300, 17),
}
NAMES = [name.rpartition(" ")[2] for name in VALUES]
TYPES = ["int", "unsigned int", "long long", "unsigned long long", "unsigned char", "short", "bool"]
BINARY = ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"]

LEAVES = [*NAMES, "0", "1", "2", "7", "31", "32u", "100L", "0xffu", "1ull", "2147483647", "0x80000000"]
FORMS = [
    *(f"{{0}} {symbol} {{1}}" for symbol in BINARY),
    *(f"({{0}} {symbol} {{1}})" for symbol in BINARY),
    *(f"{symbol}({{0}})" for symbol in "-~!+"),
    *(f"({kind})({{0}})" for kind in TYPES),
    *["({0} ? {1} : {2})"] * 4,
    "sizeof({0})",
]


def expression(draw, depth):
    """A random expression."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(LEAVES)
    return draw.choice(FORMS).format(*(expression(draw, depth - 1) for _ in range(3)))


def evaluated(text, numbers):
    file = file_of(())
    warp = Warp(file, ((1, 1, 1), (LANES, 1, 1)))
    for declaration, value in zip(VALUES, numbers, strict=True):
        kind, _, name = declaration.rpartition(" ")
        warp._declare(name, Value(scalar(kind).base, [value]))
    return warp.value(Reader(list(tokens_of(text)), file, set()).expression())


def compiled(folder, cases):
    """The value, the bytes and whether -1 is negative of each expression in its type, as a C++ compiler has them."""
    lines = ["#include <stdio.h>", "int main() {"]
    for text, numbers in cases:
        given_values = zip(VALUES, numbers, strict=True)
        declared = " ".join(f"volatile {name} = ({name.rpartition(' ')[0]}){value}ull;" for name, value in given_values)
        declared = declared.replace("-", "-1*")
        lines.append(f"{{ {declared} auto x = {text}; typedef decltype(x) T;")
        lines.append('printf("%lld %d %d\\n", (long long)x, (int)sizeof x, (int)((T)-1 < (T)0)); }')
    (folder / "cases.cpp").write_text("\n".join([*lines, "}"]))
    subprocess.run(["g++", "-w", "-std=c++17", "-O0", "-o", folder / "cases", folder / "cases.cpp"], check=True)
    output = subprocess.run([folder / "cases"], check=True, capture_output=True, text=True).stdout
    return [tuple(map(int, line.split())) for line in output.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if subprocess.run(["which", "g++"], capture_output=True, check=False).returncode:
        pytest.skip("needs g++")
    return tmp_path_factory.mktemp("expressions")


@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 1 << 32))
def test_expressions_have_the_value_and_the_type_that_a_compiler_gives_them(folder, seed):
    draw = random.Random(seed)
    cases = [(expression(draw, 4), [draw.choice(values) for values in VALUES.values()]) for _ in range(300)]
    known = [(case, evaluated(*case)) for case in cases]
    known = [(case, value) for case, value in known if value.data[0] is not None]
    results = compiled(folder, [case for case, _ in known])
    for (case, value), (number, size, signed) in zip(known, results, strict=True):
        kind = scalar(value.type)
        mine = value.data[0] - (1 << 64) if value.data[0] >= 1 << 63 else value.data[0]
        assert (mine, kind.bits // 8, int(kind.signed)) == (number, size, signed), case


def test_what_c_leaves_open_is_not_known():
    numbers = [2147483647, 1, 1, 1, 1, 1]
    for text in ("i + 1", "1 / (u - u)", "1 % 0", "1 << 32", "u >> 40", "-(-2147483647 - 1)"):
        assert evaluated(text, numbers).data == [None], text
    assert evaluated("u - 2", numbers).data == [4294967295]
