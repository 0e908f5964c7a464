"""The names of the files in a bundle."""

import string

from aiperf_core.errors import BundleError
from aiperf_core.names import words

MANIFEST = "manifest.json"
TARGETS = "targets"
LOGS = "logs"
REPORTS = "reports"  # pages of a run, which its seal does not cover
LONGEST_NAME = 240  # bytes; file systems allow 255, and a suffix has to fit
PLAIN = frozenset(string.ascii_letters + string.digits + "._-")


def file_name(name: str) -> str:
    """Spell a name so that it is one plain file name on any system, and no two names share one.

    Letters, digits, dots, dashes and underscores stay; everything else, and a leading dot, becomes `%` and two
    hexadecimal digits a byte. `target_name` undoes it.
    """
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise BundleError(f"'{words(name[:40])}' cannot name a file: it is no valid text.") from None
    spelled = "".join(
        chr(byte) if chr(byte) in PLAIN and not (index == 0 and byte == ord(".")) else f"%{byte:02X}"
        for index, byte in enumerate(data)
    )
    if not 0 < len(spelled) <= LONGEST_NAME:
        raise BundleError(
            f"'{words(name[:40])}{'...' if len(name) > 40 else ''}' cannot name a file: it takes {len(spelled)} bytes; "
            f"1 to {LONGEST_NAME} are accepted."
        )
    return spelled


def target_name(spelled: str) -> str:
    """The name that `file_name` spelled. A foreign file whose name is no valid text gets a name that no file has."""
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(spelled.encode(errors="replace")).decode(errors="replace")


def document_path(kind: str, name: str) -> str:
    """The file of a document, such as the result of a target, by its path in the bundle."""
    return f"{kind}/{file_name(name)}.json"
