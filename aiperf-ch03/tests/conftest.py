"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    # One word; less than a page, exactly one, and one word more; a prime; more than a huge page. Reads: fewer than are
    # prefetched, exactly as many, and more than the table has words.
    reads = ((1, 1), (15, 7), (16, 512), (17, 100_003), (5003, 11))
    return {
        "ch03.first_touch": [{"n": n} for n in (1, 511, 512, 513, 65537, 1 << 19)],
        "ch03.huge_pages": [{"reads": count, "n": n} for count, n in reads],
    }
