"""Python source from the bytes of a file."""

from pathlib import Path

from aiperf_core.errors import UsageError


def python_text(path: Path, data: bytes) -> str:
    """The text of a file in UTF-8, with or without a byte order mark. Raises `UsageError`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"'{path}' is not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}. Save it as UTF-8"
        ) from None
