"""The awkward sizes of the chapter's targets."""

Size = dict[str, float]


def pytest_aiperf_awkward() -> dict[str, list[Size]]:
    # The smallest (a single number that is nearly zero has no digits to compare); primes, with a last part that overhangs; full tiles.
    return {
        "ch01.train_step": [
            {"steps": 1, "samples": 1, "micro_batch": 1, "width": 61},
            {"steps": 3, "samples": 17, "micro_batch": 7, "width": 31},
        ],
        "ch01.batched_gemm": [
            {"batch": 1, "m": 1, "n": 1, "k": 1},
            {"batch": 2, "m": 7, "n": 33, "k": 64},
            {"batch": 7, "m": 97, "n": 101, "k": 103},
        ],
        "ch01.batch_size": [
            {"requests": 3, "width": 521, "hidden": 61},
            {"requests": 131, "width": 31, "hidden": 67},
        ],
        "ch01.precision_ladder": [
            {"tokens": 3, "width": 521, "hidden": 61},
            {"tokens": 31, "width": 61, "hidden": 1031},
        ],
        "ch01.metric_sync": [
            {"steps": 1, "batch": 1, "width": 61},
            {"steps": 31, "batch": 7, "width": 13},
        ],
        "ch01.alloc_churn": [
            {"steps": 1, "rows": 1, "columns": 1},
            {"steps": 37, "rows": 101, "columns": 53},
        ],
        "ch01.inference_memory": [
            {"blocks": 1, "width": 61, "batch": 1},
            {"blocks": 5, "width": 31, "batch": 101},
        ],
        "ch01.launch_overhead": [
            {"n": 1, "folds": 1},
            {"n": 4099, "folds": 32},
        ],
    }
