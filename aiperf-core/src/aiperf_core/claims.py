"""Claims of authors about the machine code of kernels."""

import re

from attrs import frozen

from aiperf_core.errors import BenchmarkError

_OPCODE = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z0-9_]+)*")


@frozen(kw_only=True)
class SassClaim:
    """A claim of an author about the machine code of a kernel.

    kernel: its name; of a template that of the function.
    has, lacks: opcodes such as `LDS.128`. All parts must be in the instruction's; `.32` is an access without a width.
    loads_before_first_store: the least number of loads of memory before the first store, in the order of the code.
    archs: architectures that the claim is about; none for all.
    """

    kernel: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    loads_before_first_store: int | None = None
    archs: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        wrong = [code for code in (*self.has, *self.lacks) if not _OPCODE.fullmatch(code)]
        if wrong:
            raise BenchmarkError(f"claims the instruction {wrong[0]!r}; accepted are opcodes, such as 'LDS.128'")
        loads = self.loads_before_first_store
        if loads is not None and (type(loads) is not int or loads < 1):
            raise BenchmarkError(f"claims loads_before_first_store={loads!r}; accepted are whole numbers from 1")
        if not (self.has or self.lacks or loads):
            raise BenchmarkError(
                f"claims nothing of kernel {self.kernel!r}; give has=, lacks= or loads_before_first_store="
            )

    def is_about(self, symbol: str) -> bool:
        """Tell whether a name or a symbol is this kernel's. C++ symbols hold the name behind its length.

        `by_warp<float>` is a `by_warp`.
        """
        named = self.kernel in (symbol, symbol.partition("<")[0])
        return named or ("<" not in symbol and f"{len(self.kernel)}{self.kernel}" in symbol)
