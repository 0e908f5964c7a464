"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    # One element, primes, and what leaves a block partly full; a grid of one point, and one with more blocks than a GPU holds.
    return {
        "ch12.cuda_graphs": [{"n": n, "steps": steps} for n, steps in ((1, 1), (255, 3), (257, 6), (4099, 11))],
        "ch12.graph_while": [
            {"n": n, "strength": strength} for n, strength in ((1, 2.0), (2, 0.0), (17, 100.0), (64, 1000.0))
        ],
    }
