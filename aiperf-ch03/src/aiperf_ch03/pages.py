"""What this machine says of its pages."""

from pathlib import Path

from aiperf_core.errors import SkipError

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def refuse_without_huge_pages(setting: Path = SETTING) -> None:
    """Raise `SkipError` where the kernel gives no transparent huge pages to who asks for them, with what it says."""
    try:
        said = setting.read_text().strip()
    except OSError:
        raise SkipError(f"needs transparent huge pages; this kernel has none ({setting} cannot be read)") from None
    if "[never]" in said:
        raise SkipError(f"needs transparent huge pages; {setting} says {said!r}, accepted are [madvise] and [always]")
