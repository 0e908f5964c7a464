"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    # One request; none in a burst, and all; prompts of one length; batches of one; all at once.
    return {
        "ch16.dynamic_batching": [
            {"requests": 1},
            {"requests": 7, "burst": 0, "shortest": 5, "longest": 5},
            {"requests": 23, "burst": 1.0, "most_in_batch": 4},
            {"requests": 5, "most_in_batch": 1},
            {"requests": 40, "rate_per_s": 1e6, "most_in_batch": 7},
            {"requests": 37, "bits": 32, "layers": 2},
        ]
    }
