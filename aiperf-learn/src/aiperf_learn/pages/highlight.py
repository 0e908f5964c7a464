"""Code with its words coloured, as lines of HTML."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, String

# The classes of the words that are coloured, the first that fits.
_CLASSES: Sequence[tuple[Any, str]] = (
    (Comment.Preproc, "k"),
    (Comment, "c"),
    (Keyword, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "k"),
    (String, "s"),
)
STYLE = """\
.c { color: var(--quiet); font-style: italic; } .k { color: var(--accent); } .f { font-weight: 600; }
.s { color: var(--good); }
"""


def highlighted(name: str, text: str) -> list[Markup]:
    """The lines of a file of that name, each HTML of its own."""
    lexer = PythonLexer(stripnl=False) if name.endswith(".py") else CudaLexer(stripnl=False)
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, value in lexer.get_tokens(text):
        style = next((style for of, style in _CLASSES if kind in of), "")
        for number, part in enumerate(value.split("\n")):
            lines += [[]] if number else []
            lines[-1].append((style if part.strip() else "", part))
    return [Markup().join(_words(style, words) for style, words in groupby(line, itemgetter(0))) for line in lines]


def _words(style: str, words: Iterable[tuple[str, str]]) -> Markup:
    text = "".join(word for _, word in words)
    return Markup('<i class="{}">{}</i>').format(style, text) if style else escape(text)
