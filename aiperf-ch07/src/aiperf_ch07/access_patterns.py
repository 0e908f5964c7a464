"""Sectors per request, predicted from the addresses that the lanes of a warp access.

A request is one load or store of a warp. Global memory is accessed in sectors of 32 bytes, so a request costs as many
sectors as its 32 lanes touch.
"""

from attrs import frozen

LANES, SECTOR_BYTES = 32, 32
# A distance between lanes at which no two share a sector.
FAR = 1 << 20


@frozen
class Access:
    """A load or store: the bytes of a lane, the bytes between neighbouring lanes, and how often it runs."""

    width_bytes: int
    stride_bytes: int
    times: int = 1

    @property
    def sectors(self) -> int:
        """The sectors of one request. A stride of 0 means that all lanes access one address."""
        starts = [lane * self.stride_bytes for lane in range(LANES)]
        return len({byte // SECTOR_BYTES for start in starts for byte in range(start, start + self.width_bytes)})


@frozen
class Pattern:
    """The accesses of a kernel to global memory at the default sizes, without those at the edges."""

    loads: tuple[Access, ...] = ()
    stores: tuple[Access, ...] = ()

    @property
    def sectors_per_load(self) -> float | None:
        """The mean over all load requests; None without loads."""
        return _mean(self.loads)

    @property
    def sectors_per_store(self) -> float | None:
        """The mean over all store requests; None without stores."""
        return _mean(self.stores)


def _mean(accesses: tuple[Access, ...]) -> float | None:
    requests = sum(one.times for one in accesses)
    return sum(one.sectors * one.times for one in accesses) / requests if requests else None


def _both(width_bytes: int, stride_bytes: int) -> Pattern:
    """Loads and stores that follow the same rule."""
    return Pattern((Access(width_bytes, stride_bytes),), (Access(width_bytes, stride_bytes),))


_HALVES, _WORDS, _QUADS = _both(2, 2), _both(4, 4), _both(16, 16)
_ROW_INDEX, _KEYS = Access(4, 0), Pattern((Access(1, 1),))

PATTERNS: dict[str, dict[str, Pattern]] = {
    "memory_access": {
        "strided": _both(4, 4 * 32),
        "permuted": _both(4, FAR),
        "coalesced": _WORDS,
        **dict.fromkeys(("wide", "more_threads"), _QUADS),
    },
    "vectorized_copy": {
        "scalar": _WORDS,
        **dict.fromkeys(("wide", "unrolled"), _QUADS),
    },
    "aos_soa": {
        "structures": _both(4, 64),
        "staged": Pattern(_QUADS.loads, (Access(16, 64),)),
        **dict.fromkeys(("tiles", "arrays"), _WORDS),
        "arrays_wide": _QUADS,
    },
    "transpose": {
        "direct4": Pattern(_WORDS.loads, (Access(4, FAR),)),
        "direct2": Pattern(_HALVES.loads, (Access(2, FAR),)),
        **dict.fromkeys(("tiled4", "padded4", "swizzled4"), _WORDS),
        **dict.fromkeys(("tiled2", "padded2", "swizzled2"), _HALVES),
        **dict.fromkeys(("wide4", "wide2", "streaming4", "streaming2"), _QUADS),
    },
    "gather": {
        "thread_per_row": Pattern((Access(4, 4), Access(16, 512, times=32)), (Access(16, 512),)),
        **dict.fromkeys(("warp_per_row", "four_rows"), Pattern((_ROW_INDEX, Access(16, 16)), _QUADS.stores)),
        "in_order": Pattern((_ROW_INDEX, Access(8, 0), Access(16, 16)), _QUADS.stores),
    },
    "histogram": {
        **dict.fromkeys((f"{name}<unsigned char>" for name in ("shared_by_all", "by_block")), _KEYS),
        **dict.fromkeys(("by_pieces", "by_thread1"), Pattern(_QUADS.loads)),
    },
    "smem_matmul": {
        "one_output": Pattern((Access(4, 0), Access(4, 4)), _WORDS.stores),
        "tiled": _WORDS,
        **dict.fromkeys(("wide_fill", "two_outputs"), Pattern(_QUADS.loads, _WORDS.stores)),
    },
}


def predicted(target: str, kernel: str) -> Pattern:
    """The pattern of a target's kernel, as `ch07.transpose`, `tiled4`; an empty one where none is declared.

    A template's is that of the instance, else that of all: `void by_pieces<unsigned char, (bool)1>(...)`.
    """
    patterns, name = PATTERNS.get(target.partition(".")[2], {}), kernel.removeprefix("void ")
    names = (name.partition("(")[0], name.partition("<")[0])
    return next((patterns[known] for known in names if known in patterns), Pattern())
