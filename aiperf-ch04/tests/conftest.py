"""The awkward sizes of the chapter's targets."""

Size = dict[str, float]

# Single elements with two ranks; with three, primes and what three does not divide.
SIZES: dict[str, tuple[Size, Size]] = {
    "allreduce_fusion": ({"count": 1, "n": 1}, {"count": 3, "n": 1009}),
    "allreduce_small": ({"n": 1}, {"n": 8197}),
    "ddp_overlap": (
        {"layers": 1, "width": 61, "rows": 1, "bucket_bytes": 1},
        {"layers": 5, "width": 31, "rows": 67, "bucket_bytes": 5000},
    ),
    "grad_accum_sync": (
        {"layers": 1, "width": 61, "rows": 1, "micro": 1},
        {"layers": 4, "width": 31, "rows": 13, "micro": 7},
    ),
    "grad_compression": ({"rounds": 1, "n": 1009}, {"rounds": 7, "n": 5003}),
    "tensor_parallel_mlp": (
        {"tokens": 3, "width": 31, "hidden": 61},
        {"tokens": 101, "width": 61, "hidden": 67},
    ),
    "comm_compute_overlap": ({"n": 1, "m": 1, "products": 1}, {"n": 4099, "m": 61, "products": 5}),
    "optimizer_sharding": ({"layers": 2, "n": 1, "steps": 1}, {"layers": 5, "n": 1009, "steps": 5}),
    "all_to_all": (
        {"tokens": 1, "width": 31, "experts": 1},
        {"tokens": 997, "width": 61, "experts": 7},
    ),
    "pipeline_schedule": (
        {"blocks": 1, "width": 61, "rows": 1, "micro": 1},
        {"blocks": 2, "width": 61, "rows": 29, "micro": 7},
    ),
    "pipeline_memory": (
        {"blocks": 1, "width": 61, "rows": 5, "micro": 3},
        {"blocks": 2, "width": 61, "rows": 29, "micro": 5},
    ),
    "kv_transfer": ({"layers": 1, "blocks": 1, "block_bytes": 2}, {"layers": 5, "blocks": 31, "block_bytes": 202}),
}


def pytest_aiperf_awkward() -> dict[str, list[Size]]:
    return {
        f"ch04.{name}": [{**single, "world_size": 2}, {**odd, "world_size": 3}] for name, (single, odd) in SIZES.items()
    }


def pytest_aiperf_accepted() -> dict[str, list[str]]:
    # Blocks of the pool that are not handed over need not be read.
    return {"ch04.kv_transfer": ["cost.bytes_read"]}
