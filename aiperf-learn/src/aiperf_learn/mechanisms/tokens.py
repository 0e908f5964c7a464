"""Tokens of CUDA C++ sources after the preprocessor: macros replaced, local headers included, conditions decided."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from aiperf_core.errors import AiperfError

_TOKEN = re.compile(
    r"(?P<blank>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<text>R\"(?P<raw>\w*)\(.*?\)(?P=raw)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)\w*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark><<=|>>=|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[][(){}.,;:?~!=<>+*/%&|^#-])",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_MOST_EXPANSIONS = 40


class NotEvaluated(AiperfError):
    """A source has something that the evaluator does not know; the message says what."""


@frozen
class Token:
    """A token. kind: `name`, `number`, `text`, `mark`, or `end`; place: the file and the offset in it."""

    kind: str
    text: str
    place: tuple[str, int] = ("", 0)


@frozen
class _Macro:
    """A macro. parameters: None for a macro without parentheses."""

    body: Sequence[Token]
    parameters: Sequence[str] | None = None


@frozen
class Preprocessor:
    """Tokens of a file, for a device with `__CUDA_ARCH__` 900.

    value: evaluates the tokens of a condition.
    """

    value: Callable[[Sequence[Token]], int]
    macros: dict[str, _Macro] = field(factory=lambda: {"__CUDA_ARCH__": _Macro([Token("number", "900")])})
    files: set[Path] = field(factory=set)

    def file(self, path: Path) -> Iterator[Token]:
        """The tokens of a file and of the files beside it that it includes, each file once."""
        if path in self.files:
            return
        self.files.add(path)
        text = path.read_text()
        taken = [True]  # of the open conditions, True for one whose branch is read
        begin = 0
        for directive in _DIRECTIVE.finditer(text):
            if all(taken):
                yield from self.expanded(list(tokens_of(text[begin : directive.start()], path.name, begin)))
            begin = directive.end()
            yield from self._obey(directive[1], directive[2].replace("\\\n", " ").strip(), taken, path)
        yield from self.expanded(list(tokens_of(text[begin:], path.name, begin)))

    def _obey(self, name: str, rest: str, taken: list[bool], path: Path) -> Iterator[Token]:
        """Obey a directive; yields the tokens of an included file."""
        if name in ("if", "ifdef", "ifndef"):
            if name == "if":
                taken.append(all(taken) and bool(self.value(self.expanded(list(tokens_of(rest, path.name))))))
            else:
                taken.append((rest in self.macros) == (name == "ifdef"))
        elif name == "else":
            taken[-1] = not taken[-1]
        elif name == "endif":
            taken.pop()
        elif not all(taken):
            return
        elif name == "define":
            self._define(rest, path)
        elif name == "include" and rest.startswith('"') and (path.parent / rest.strip('"')).is_file():
            yield from self.file(path.parent / rest.strip('"'))

    def _define(self, rest: str, path: Path) -> None:
        match = re.match(r"(\w+)(\(([^)]*)\))?", rest)
        if match is None:
            raise NotEvaluated(f"{path.name}: #define {rest}")
        parameters = [word.strip() for word in match[3].split(",")] if match[2] else None
        body = list(tokens_of(rest[match.end() :], path.name))
        self.macros[match[1]] = _Macro(body, parameters)

    def expanded(self, tokens: Sequence[Token], depth: int = 0) -> list[Token]:
        """The tokens with macros replaced; a token of a macro has the place of its use."""
        if depth > _MOST_EXPANSIONS:
            raise NotEvaluated(f"the macro {tokens[0].text} contains itself")
        made: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            macro = self.macros.get(token.text) if token.kind == "name" else None
            at += 1
            if macro is None or (macro.parameters is not None and (at >= len(tokens) or tokens[at].text != "(")):
                made.append(token)
                continue
            given: Mapping[str, Sequence[Token]] = {}
            if macro.parameters is not None:
                parts, at = _parts(tokens, at)
                given = dict(zip(macro.parameters, parts, strict=True))
            body = [one for part in macro.body for one in given.get(part.text, (part,))]
            made += self.expanded([evolve(one, place=token.place) for one in body], depth + 1)
        return made


def _parts(tokens: Sequence[Token], at: int) -> tuple[list[Sequence[Token]], int]:
    """The arguments in the parentheses that open at `at`, and the place behind them."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for end in range(at, len(tokens)):
        text = tokens[end].text
        depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
        if depth == 0:
            return list(parts), end + 1
        if text == "," and depth == 1:
            parts.append([])
        elif end > at:
            parts[-1].append(tokens[end])
    raise NotEvaluated("a macro's arguments do not end")


def tokens_of(text: str, file: str = "", offset: int = 0) -> Iterator[Token]:
    """The tokens of a text without directives, which begins at an offset in a file."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotEvaluated(f"{file}: no token begins with {text[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup != "blank" and (kind := _kind(match)):
            yield Token(kind, match[0], (file, offset + match.start()))


def _kind(match: re.Match[str]) -> str:
    return next((kind for kind in ("text", "number", "name", "mark") if match[kind] is not None), "")


def joined(tokens: Sequence[Token]) -> str:
    """Tokens as text, with blanks between words."""
    return re.sub(r"(?<=\w) (?!\w)|(?<!\w) ", "", " ".join(token.text for token in tokens))
