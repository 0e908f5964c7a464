"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    return {
        # The smallest; primes; a row around a power of two.
        "ch14.triton_softmax": [
            {"rows": 1, "columns": 1},
            {"rows": 101, "columns": 513},
            {"rows": 3, "columns": 65521},
        ],
        # Each mode compiles for half a minute at each size: the tests marked `long` have them.
        "ch14.compile_modes": [],
    }
