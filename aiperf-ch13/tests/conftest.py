"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    return {
        # A block of which each is computed again; a last one that is not; all odd. A stream of a few elements has none that
        # stand for the others, and the rounding of one is the error of all.
        "ch13.activation_memory": [
            {"blocks": 1, "every": 1, "width": 34, "heads": 1, "batch": 1, "length": 29, "vocabulary": 31},
            {"blocks": 3, "every": 2, "width": 42, "heads": 3, "batch": 5, "length": 13, "vocabulary": 67},
            {"blocks": 5, "every": 7, "width": 66, "heads": 3, "batch": 2, "length": 17, "vocabulary": 37},
        ],
        # A single token, fewer than a chunk has; a last chunk that is not full; a vocabulary beside which all else is small.
        "ch13.chunked_cross_entropy": [
            {"tokens": 1, "chunk": 3, "width": 31, "vocabulary": 17},
            {"tokens": 61, "chunk": 8, "width": 67, "vocabulary": 31},
            {"tokens": 128, "chunk": 32, "width": 16, "vocabulary": 1009},
        ],
    }
