"""Text of files that people write, whatever editor saved it."""

import codecs
import io
from pathlib import Path

from aiperf_core.errors import UsageError
from aiperf_core.names import words

_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # UTF-32-LE begins as UTF-16-LE


def text_of(path: Path, data: bytes) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark, in lines that end in a newline.

    Raises `UsageError` for another encoding.
    """
    name = words(str(path))
    if data.startswith(_OTHER_MARKS):
        raise UsageError(f"'{name}' is UTF-16 or UTF-32, not UTF-8. Save it as UTF-8.")
    try:
        return io.StringIO(data.decode("utf-8-sig"), newline=None).read()
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{data[error.start]:02x} at position {error.start}"
        raise UsageError(f"'{name}' is not UTF-8: {wrong}. Save it as UTF-8.") from None
