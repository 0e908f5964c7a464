"""Awkward sizes that still have to move into `bench.awkward` of their targets."""

Size = dict[str, float]

# Single elements with two ranks; with three, primes and what three does not divide.
SIZES: dict[str, tuple[Size, Size]] = {
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

# Blocks of the pool that are not handed over need not be read.
ACCEPTED = {"ch04.kv_transfer": ["cost.bytes_read"]}
