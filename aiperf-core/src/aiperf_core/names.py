"""Makes names and messages of plugins, bundles and code under test safe to show.

Without control characters, no foreign text can move the cursor, recolour a verdict or overwrite a line.
"""

import re
import unicodedata
from pathlib import Path

# A colour sequence goes as a whole: without its escape character the rest would remain as text.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")

# Of a message in a terminal: a compiler's log may be longer.
MOST_LINES = 16
# Of a path in a message: no file system takes a name of 256.
MOST_OF_A_PATH = 256


def words(content: str) -> str:
    """A foreign text on one line, without control characters."""
    return " ".join(printable(content).split())


def printable(content: str) -> str:
    """A foreign text, such as a path, on one line with all its spaces, without control characters."""
    if content.isascii() and content.isprintable():
        return content
    return "".join(map(_visible, _SEQUENCE.sub("", content)))


def lines(content: str) -> str:
    """A foreign text on at most `MOST_LINES` lines, without control characters. The last line takes the rest."""
    return "\n".join(filter(None, map(words, content.split("\n", MOST_LINES - 1))))


def path_words(path: Path | str) -> str:
    """A foreign path in a message, shortened: without control characters."""
    text = words(str(path))
    return text if len(text) <= MOST_OF_A_PATH else f"{text[:MOST_OF_A_PATH]}..."


def camel_case(name: str) -> str:
    """The name of a class from that of an implementation: `WideLoads` of `wide_loads`."""
    return "".join(part.capitalize() for part in name.split("_"))


def cause(error: OSError | UnicodeError) -> str:
    """Why a file cannot be read, in words: without the number of the error, and without the path again."""
    return getattr(error, "strerror", None) or str(error)


def _visible(character: str) -> str:
    # Cc: controls; Cf: marks that turn the direction of text; Cs: undecodable bytes; Co, Cn: no glyph.
    if character in "\t\n\r":
        return " "
    return "?" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") else character
