"""The kernels of the recurrence, on the host; and its operations in torch."""

from typing import Any

import torch

from aiperf_core.benchmark import call_with
from aiperf_labs.persistent_decode import ROWS, THREADS, Eager, bench, reference


def drawn(width: int, steps: int) -> dict[str, Any]:
    sizes = {"width": width, "steps": steps, "device": "cpu", "generator": torch.Generator().manual_seed(width)}
    assert bench.task.static is not None
    return {**call_with(bench.task.inputs, sizes), **call_with(bench.task.static, sizes)}


def test_every_launch_gives_the_states_of_the_reference(emulated: Any) -> None:
    code = emulated("persistent_decode.cu")
    for width, steps in ((8, 1), (40, 3), (264, 2)):
        first, drive, weights = drawn(width, steps).values()
        words, expected = weights.view(torch.int16), reference(first, drive, weights)
        grid, out = (-(-width // ROWS), 1), torch.full((steps, width), torch.nan)
        for step in range(steps):
            before = out[step - 1] if step else first
            code.launch("one_step", out[step], before, drive[step], words, width, grid=grid, threads=THREADS)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
        for name in ("steps_from_cache", "steps_resident"):
            out.fill_(torch.nan)
            arrived = torch.zeros(1, dtype=torch.int32)
            given = out, first, drive, words, arrived, steps, width
            code.launch(name, *given, grid=grid, threads=THREADS, at_once=1)
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


def test_torch_rounds_but_does_not_drift() -> None:
    given = drawn(264, 40)
    eager = Eager()
    eager.prepare(given["first"], given["weights"], 40)
    expected = reference(*(given[name].double() for name in ("first", "drive", "weights")))
    found = eager.run(given["first"], given["drive"]).double()
    assert (found - expected).norm() < 5e-3 * expected.norm()
