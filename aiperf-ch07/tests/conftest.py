"""The awkward sizes of the chapter's targets."""


def pytest_aiperf_awkward() -> dict[str, list[dict[str, float]]]:
    # Single elements, primes, and what leaves the last tile, block, word or warp of some kernel partly full.
    return {
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
    }


def pytest_aiperf_accepted() -> dict[str, list[str]]:
    # Of three layouts one is read; of the table, the rows that are asked for.
    return {"ch07.aos_soa": ["cost.bytes_read"], "ch07.gather": ["cost.bytes_read"]}
