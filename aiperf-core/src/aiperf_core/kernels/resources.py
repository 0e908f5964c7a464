"""The resources of compiled kernels, read from their machine code and from the log of the assembler."""

import math
import re
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from attrs import frozen

from aiperf_core.kernels.archs import Arch

# Attributes of the section `.nv.info`, each with the number of a symbol and a value.
_FRAME_SIZE, _REGISTER_COUNT = 0x11, 0x2F
# Attributes of the section `.nv.info.KERNEL`: the extents of a block, at most and exactly.
_MOST_THREADS, _EXACT_THREADS = 0x05, 0x10
# The format of an attribute with a size; values of other formats are in the header.
_SIZED = 0x04
# `st_other` of the symbol of a kernel; a function that kernels call lacks it.
_IS_KERNEL = 0x10

# From compute capability 9.0 on, the static shared memory in the code includes 1 KiB for the system.
_RESERVES_FROM, _RESERVED_BYTES = 9, 1024

_SPILLS = re.compile(r"Function properties for (\S+)\s.*?(\d+) bytes spill stores", re.DOTALL)


@frozen
class Resources:
    """The resources of a kernel.

    registers: of a thread.
    stack_bytes: of a thread, spilled registers included.
    shared_bytes: shared memory of a block: for CUDA C++ the static part, for Triton all of it.
    spill_bytes: stored by a thread to the stack because registers are short.
    threads: of a block, as many as the kernel is compiled for at most; 0 where it has no launch bounds.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    spill_bytes: int = 0
    threads: int = 0


class _Section(NamedTuple):
    name: str
    kind: int
    data: bytes


class _Symbol(NamedTuple):
    name: str
    is_kernel: bool


def resources_of(cubin: bytes, arch: Arch, spills: Mapping[str, int]) -> dict[str, Resources]:
    """The resources of each kernel by name, in the order of the code; empty for bytes that are no machine code.

    arch: the architecture of the code.
    spills: the bytes of spill stores by kernel, from `spills_in`.
    """
    try:
        sections = {section.name: section for section in _sections(cubin)}
        symbols = list(_symbols(sections))
        found = list(_attributes(sections[".nv.info"].data))
    except (struct.error, KeyError, ValueError, IndexError):
        return {}
    registers = {symbol: value for kind, symbol, value in found if kind == _REGISTER_COUNT}
    stacks = {symbol: value for kind, symbol, value in found if kind == _FRAME_SIZE}
    reserved = _RESERVED_BYTES if arch.major >= _RESERVES_FROM else 0
    kernels = {}
    for number, symbol in enumerate(symbols):
        if symbol.is_kernel and number in registers:
            shared = sections.get(f".nv.shared.{symbol.name}")
            kernels[symbol.name] = Resources(
                registers=registers[number],
                stack_bytes=stacks.get(number, 0),
                shared_bytes=max(0, len(shared.data) - reserved) if shared else 0,
                spill_bytes=spills.get(symbol.name, 0),
                threads=_threads(sections.get(f".nv.info.{symbol.name}")),
            )
    return kernels


def spills_in(log: str) -> dict[str, int]:
    """The bytes of spill stores of each function, from the log of `ptxas -v`."""
    return {name: int(stores) for name, stores in _SPILLS.findall(log)}


def _sections(elf: bytes) -> Iterator[_Section]:
    """The sections of a 64-bit ELF file. A section without data in the file has zeros."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, of_names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + size * number) for number in range(count)]
    names = headers[of_names][4]
    for name, kind, _, _, offset, length in headers:
        data = bytes(length) if kind == 8 else elf[offset : offset + length]  # 8: SHT_NOBITS
        yield _Section(_text(elf, names + name), kind, data)


def _symbols(sections: Mapping[str, _Section]) -> Iterator[_Symbol]:
    table, names = sections[".symtab"], sections[".strtab"].data
    for name, _, other, _, _, _ in struct.iter_unpack("<IBBHQQ", table.data):
        yield _Symbol(_text(names, name), bool(other & _IS_KERNEL))


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """The kind, symbol and value of each attribute that has a symbol and a value."""
    for kind, data in _sized(info):
        if len(data) == 8:
            yield (kind, *struct.unpack("<II", data))


def _threads(info: _Section | None) -> int:
    """The threads of a block, as many as the launch bounds allow; 0 without any."""
    extents = [data for kind, data in _sized(info.data if info else b"") if kind in (_MOST_THREADS, _EXACT_THREADS)]
    return math.prod(struct.unpack("<III", extents[0])) if extents else 0


def _sized(info: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the data of each attribute that has a size."""
    at = 0
    while at + 4 <= len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _SIZED:
            yield kind, info[at : at + size]
            at += size


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
