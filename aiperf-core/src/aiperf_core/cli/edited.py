"""The implementations that an edit of the package's files touches, told from texts alone."""

import difflib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from attrs import define, field, frozen

from aiperf_core.declared_code import CodeFile, Piece, Texts, lines_of, unit


@define
class Edits:
    """The implementations that were edited since the last question.

    file: of the target.
    texts: of the package's files, as they were last seen.
    """

    file: Path
    texts: dict[Path, str]
    _of_unparsed: list[str] = field(factory=list, init=False)

    def __call__(self, after: Mapping[Path, str]) -> list[str]:
        """The names of the edited implementations, in the order of the file.

        An edit after which the file does not parse counts by its lines, and once more when it parses again.
        """
        before = _Package.of(self.file, self.texts)
        now = _Package.of(self.file, after)
        if not before.own.pieces:
            self.texts = dict(after)
            return []
        if not now.own.pieces:
            names = before.at_changed_lines(after.get(self.file, ""))
            self._of_unparsed += [name for name in names if name not in self._of_unparsed]
            return names
        self.texts = dict(after)
        pending, self._of_unparsed = self._of_unparsed, []
        touched = {*pending, *_touched(before, now)}
        return [name for name in now.own.implementations if name in touched]


@frozen(slots=False)
class _Package:
    """The file of a target, and the texts of all others by name."""

    own: CodeFile
    texts: Texts

    @classmethod
    def of(cls, file: Path, texts: Mapping[Path, str]) -> "_Package":
        own = CodeFile.of(file.name, texts.get(file, ""))
        return cls(own, {path.name: text for path, text in texts.items() if path != file})

    @cached_property
    def closures(self) -> dict[str, list[Piece]]:
        """The pieces of each implementation."""
        return {name: self.own.closure([piece]) for name, piece in self.own.implementations.items()}

    def at_changed_lines(self, after: str) -> list[str]:
        """The implementations whose statements have lines that differ in another text of the file."""
        matcher = difflib.SequenceMatcher(None, self.own.text.splitlines(), after.splitlines(), autojunk=False)
        lines = {
            line
            for kind, start, end, _, _ in matcher.get_opcodes()
            if kind != "equal"
            for line in range(start + (kind != "insert"), end + 1)
        }
        return [name for name, pieces in self.closures.items() if lines & lines_of(pieces)]


def _touched(before: _Package, now: _Package) -> set[str]:
    """The implementations whose code differs, in the target's file or in another file that they use."""
    touched: set[str] = set()
    using: dict[str, list[str]] = {}
    words: dict[str, set[str]] = {}
    for name, pieces in now.closures.items():
        old = before.closures.get(name)
        if old is None or {piece.code for piece in pieces} != {piece.code for piece in old}:
            touched.add(name)
        words[name] = {word for piece in pieces for word in piece.words}
        for file in now.texts:
            if file in words[name]:
                using.setdefault(file, []).append(name)
    for file, names in using.items():
        if changed := _changed_functions(file, before.texts, now.texts):
            touched.update([name for name in names if changed & words[name]] or names)
    return touched


def _changed_functions(file: str, before: Texts, now: Texts) -> set[str]:
    """The functions of a file that differ, and those that call them; all where code outside of functions differs."""
    old, new = _functions(file, before), _functions(file, now)
    changed = {name for name in {*old, *new} if _code(old.get(name)) != _code(new.get(name))}
    if "" in changed:
        return {*new, ""}
    while callers := {name for name, pieces in new.items() if any(changed & piece.uses for piece in pieces)} - changed:
        changed |= callers
    return changed


def _functions(file: str, texts: Texts) -> dict[str, list[Piece]]:
    """The pieces of each function, type and macro of a file and of the headers that it includes; "" is the rest."""
    functions: dict[str, list[Piece]] = {}
    for read in unit(file, texts).values():
        for piece in read.pieces or (Piece((), 1, 1, read.text, frozenset(), frozenset()),):
            functions.setdefault(piece.names[0] if piece.names else "", []).append(piece)
    return functions


def _code(pieces: list[Piece] | None) -> list[str] | None:
    return None if pieces is None else [piece.code for piece in pieces]
