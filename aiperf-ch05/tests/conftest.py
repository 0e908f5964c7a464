"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    # Files: less than a word; around a piece, a request and the queue of them; primes.
    files = (1, 7, 4096, 65535, 65537, (1 << 20) - 1, (1 << 20) + 8, 4_200_001)
    states = ((2, 1, 1), (3, 2, 1009), (11, 1, 37), (23, 19, 8))
    return {
        "ch05.file_read": [{"n": n} for n in files],
        "ch05.checkpoint_save": [
            {"tensors": tensors, "trained_tensors": trained, "elements": elements}
            for tensors, trained, elements in states
        ],
    }


def pytest_aiperf_accepted() -> dict[str, list[str]]:
    # What does not change may have been saved before.
    return {"ch05.checkpoint_save": ["cost.bytes_read"]}
