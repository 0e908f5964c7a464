"""Every target of the chapter is right: at the presets' sizes and at awkward ones, on every device."""

import pytest
import torch

from aiperf_core.benchmark import Implementation, bind, call_with
from aiperf_core.described import TargetRef
from aiperf_core.errors import SkipError
from aiperf_core.harness.roles.output_check import compare_tensors
from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

TARGETS = [one for one in load_plugins().targets if one.group == "ch07"]
ON_CPU = [one.name for one in TARGETS if "cpu" in one.devices]
ALL = [one.name for one in TARGETS]

# Single elements, primes, and what leaves the last tile, block, word or warp of some kernel partly full.
AWKWARD: dict[str, list[dict[str, float]]] = {
    "ch07.memory_access": [{"n": n} for n in (1, 2, 3, 31, 32, 33, 4099, 8192, 65537, 1000003)],
    "ch07.vectorized_copy": [{"n": n} for n in (1, 3, 5, 1023, 65537, 1000003)],
    "ch07.aos_soa": [{"n": n} for n in (1, 33, 255, 8192, 65537)],
    "ch07.transpose": [
        {"rows": rows, "columns": columns, "word_bytes": word_bytes}
        for rows, columns in ((1, 1), (1, 97), (64, 64), (129, 67), (200, 328), (1024, 512))
        for word_bytes in (4, 2)
    ],
    "ch07.gather": [
        {"rows": 1, "table_rows": 1, "width": 8, "skew": 0},
        {"rows": 1009, "table_rows": 101, "width": 256, "skew": 0},
        {"rows": 67, "table_rows": 5003, "width": 37, "skew": 0},
        {"rows": 4099, "table_rows": 5003, "width": 264, "skew": 1},
        {"rows": 131, "table_rows": 257, "width": 4096, "skew": 0.5},
    ],
    "ch07.histogram": [
        {"n": n, "bins": bins, "skew": skew}
        for n, bins, skew in ((1, 2, 0), (31, 256, 0), (65537, 4096, 0), (1000003, 256, 0.9), (100003, 12288, 1))
    ],
    "ch07.smem_matmul": [{"n": n} for n in (1, 31, 32, 100, 257)],
    "ch07.warp_reduce": [
        {"rows": rows, "columns": columns}
        for rows, columns in ((1, 1), (1, 3), (5, 32), (257, 100), (7, 16384), (3, 40001), (1, 1000003))
    ],
    "ch07.warp_scan": [{"n": n} for n in (1, 2, 31, 1024, 1025, 4096, 65537, 1048577, 3000017)],
    "ch07.async_prefetch": [
        {"n": n, "degree": degree}
        for n, degree in ((1, 1), (4095, 4), (4096, 5), (4097, 96), (1000003, 7), (3145728, 3))
    ],
    "ch07.tma_tile_copy": [
        {"rows": rows, "columns": columns}
        for rows, columns in ((1, 1), (128, 64), (127, 65), (1031, 513), (2048, 1024))
    ],
    "ch07.stencil_3d": [
        {"nx": nx, "ny": ny, "nz": nz, "steps": steps}
        for nx, ny, nz, steps in ((1, 1, 1, 1), (2, 1, 3, 2), (33, 17, 65, 2), (64, 48, 130, 3), (100, 61, 7, 4))
    ],
    "ch07.cache_hints": [{"n": n, "entries": entries} for n, entries in ((1, 1), (257, 3), (100003, 65537))],
    "ch07.lowbit_unpack": [{"n": n, "bits": bits} for n in (1, 7, 8, 127, 129, 8192, 1000003) for bits in (4, 8)],
}
CASES = [(target, sizes) for target, all_sizes in AWKWARD.items() for sizes in all_sizes]
# What an implementation may decline, and the only reasons for it.
DECLINES = ("needs rows", "is not written for words", "the copy engine needs rows")


def identity(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={size}" for name, size in value.items())
    return str(value).removeprefix("ch07.")


def check(target: str, device: str, sizes: dict[str, float], calls: int = 2) -> None:
    """Run each implementation in this process, on values renewed in place for each call, and compare with the reference."""
    (selection,) = load_plugins().select([target])
    bench = load_benchmark(TargetRef(name=selection.target.name, module=selection.target.module))
    generator = torch.Generator(device).manual_seed(1)
    draw = {**sizes, "device": device, "generator": generator}
    static = call_with(bench.task.static, draw) if bench.task.static else {}
    fresh = call_with(bench.task.inputs, draw)
    here = [one for one in bench.on(device) if one.role != "yardstick"]
    assert here
    for one in here:
        check_one(one, bench, sizes, fresh, static, draw, calls)


def check_one(one: Implementation, bench, sizes, fresh, static, draw, calls) -> None:
    run = one.code
    if one.is_class:
        instance = one.code()
        try:
            if hasattr(instance, "prepare"):
                call_with(instance.prepare, {**sizes, **fresh, **static})
        except SkipError as error:
            if not str(error).startswith(DECLINES):
                raise
            return
        run = instance.run
    for _ in range(calls):
        for name, values in call_with(bench.task.inputs, draw).items():
            fresh[name].copy_(values)
        copies = {name: values.clone() for name, values in fresh.items()}
        wide = not bench.tolerance.is_exact
        arguments = {
            name: values.double() if wide and values.is_floating_point() else values
            for name, values in {**copies, **static}.items()
        }
        right = bench.answer(sizes, arguments)
        out = bind(run, {**sizes, **fresh, **static})()
        assert out.dtype == right.dtype or wide
        assert out.shape == right.shape
        wrong = compare_tensors("", out, right, bench.tolerance).error
        assert wrong is None, f"{one.name} at {sizes}: {wrong}"
        for name in fresh.keys() - set(bench.task.state):
            assert torch.equal(fresh[name], copies[name]), f"{one.name} changes {name}"
        out.fill_(7)  # what is left of this call must not pass for the next


def test_every_target_has_awkward_sizes() -> None:
    assert sorted(AWKWARD) == sorted(ALL)


@pytest.mark.parametrize(("target", "sizes"), [case for case in CASES if case[0] in ON_CPU], ids=identity)
def test_right_on_the_cpu_at_awkward_sizes(target: str, sizes: dict[str, float]) -> None:
    check(target, "cpu", sizes)


@pytest.mark.parametrize("target", ON_CPU, ids=identity)
def test_right_on_the_cpu_at_the_sizes_of_a_run(target: str) -> None:
    (selection,) = load_plugins().select([target])
    check(target, "cpu", dict(load_benchmark(TargetRef(target, selection.target.module)).task.presets["cpu"]), calls=1)


@pytest.mark.parametrize("target", ON_CPU, ids=identity)
def test_measured_on_the_cpu(aiperf_measure: Measure, target: str) -> None:
    result = aiperf_measure(target)
    assert problems(result) == []
    assert result.rows


@pytest.mark.gpu
@pytest.mark.parametrize(("target", "sizes"), CASES, ids=identity)
def test_right_on_a_gpu_at_awkward_sizes(target: str, sizes: dict[str, float]) -> None:
    check(target, "cuda", sizes)


@pytest.mark.gpu
@pytest.mark.parametrize("target", ALL, ids=identity)
def test_measured_on_a_gpu(aiperf_measure: Measure, target: str) -> None:
    result = aiperf_measure(target, device="cuda")
    assert problems(result) == []
