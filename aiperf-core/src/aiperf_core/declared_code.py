"""The code of a target's implementations, read from the texts of its package without an import.

A file is read as pieces: statements of Python at its margin; functions, types, variables and macros of C. The pieces of
an implementation are its own, and those that bind the names that it uses.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from attrs import frozen

from aiperf_core.benchmark import snake_case

# The suffixes of files with code.
CODE = (".py", ".cu", ".cuh", ".c", ".h")
# Decorators of implementations that a pattern can choose.
DECORATORS = ("baseline", "variant")
_ALL_DECORATORS = (*DECORATORS, "yardstick")
_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL)
_DIRECTIVE = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
_MARK = re.compile(rf"{_DIRECTIVE}|[{{}};]", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(?:[^"]*/)?([^"/]+)"', re.MULTILINE)
_DEFINE = re.compile(r"\s*#[ \t]*define[ \t]+(\w+)")
# The head of a block whose contents are declarations of the file.
_TRANSPARENT = re.compile(r'extern\s+"C"|namespace\s*[\w:]*')
_WORD = re.compile(r"\w+")

Texts = Mapping[str, str]  # of the files of a package, by their names


@frozen
class Piece:
    """A statement of a Python file, or a declaration of a C file.

    names: the names that it binds for others.
    first, last: its lines, counted from 1, with the comment right above it.
    code: its code without comments and layout.
    uses: the names in it that other pieces may bind.
    words: these, attributes, and strings; of a path the last part, of an import the files that it may read.
    declares: the implementation that it declares; empty for none.
    is_import: true for an import.
    """

    names: tuple[str, ...]
    first: int
    last: int
    code: str
    uses: frozenset[str]
    words: frozenset[str]
    declares: str = ""
    is_import: bool = False


@frozen(slots=False)
class CodeFile:
    """A file as pieces, in the order of its text. One that does not parse has none."""

    text: str
    pieces: tuple[Piece, ...]

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, name: str, text: str) -> "CodeFile":
        """The file of that name; the suffix tells the language."""
        try:
            return cls(text, tuple(_python_pieces(text) if name.endswith(".py") else _c_pieces(text)))
        except (SyntaxError, ValueError):
            return cls(text, ())

    @cached_property
    def implementations(self) -> dict[str, Piece]:
        """The piece that declares each implementation."""
        return {piece.declares: piece for piece in self.pieces if piece.declares}

    def closure(self, pieces: Iterable[Piece]) -> list[Piece]:
        """These pieces, and those that bind the names that they use."""
        reached, left = list[Piece](), [*pieces]
        while left:
            piece = left.pop()
            if piece not in reached:
                reached.append(piece)
                left += [other for other in self.pieces if not piece.uses.isdisjoint(other.names)]
        return reached

    def cut(self, pieces: Iterable[Piece]) -> str:
        """The text of some pieces, without imports; one blank line where other text is left out."""
        wanted = lines_of(piece for piece in pieces if not piece.is_import)
        kept = (line if number in wanted else "" for number, line in enumerate(self.text.splitlines(), 1))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def lines_of(pieces: Iterable[Piece]) -> set[int]:
    """The numbers of the lines of pieces."""
    return {line for piece in pieces for line in range(piece.first, piece.last + 1)}


def unit(file: str, texts: Texts) -> dict[str, CodeFile]:
    """A file, and the headers of the package that it includes, by name."""
    read = dict[str, CodeFile]()
    left = [file]
    while left:
        name = left.pop()
        if name in texts and name not in read:
            read[name] = CodeFile.of(name, texts[name])
            left += [] if name.endswith(".py") else _INCLUDE.findall(texts[name])
    return read


def listing(
    file: Path, texts: Mapping[Path, str], lines: Collection[int], kernels: Collection[str] = ()
) -> dict[str, str]:
    """The code of an implementation by the names of files: of the file that declares it, then of those that it uses.

    lines: lines of the statements that declare it.
    kernels: the names of its kernels, where they are known; else the words of its code tell.

    Empty where no statement of the file has one of the lines.
    """
    own = CodeFile.of(file.name, texts.get(file, ""))
    pieces = own.closure(piece for piece in own.pieces if any(piece.first <= line <= piece.last for line in lines))
    others = {path.name: text for path, text in texts.items() if path != file}
    words = {word for piece in pieces for word in piece.words}
    cuts = {file.name: own.cut(pieces)}
    for other in sorted(words & {*others}):
        called = words if other.endswith(".py") or not kernels else {kernel.partition("<")[0] for kernel in kernels}
        cuts |= _cut_unit(unit(other, others), called)
    return {name: text for name, text in cuts.items() if text}


def _cut_unit(files: Mapping[str, CodeFile], called: Collection[str]) -> dict[str, str]:
    """The text of each file of a unit, cut to the pieces that bind called names, and to those that these use."""
    joined = CodeFile("", tuple(piece for file in files.values() for piece in file.pieces))
    first = next(iter(files.values()))
    chosen = [piece for piece in first.pieces if not piece.is_import and not {*piece.names}.isdisjoint(called)]
    if not chosen:
        return {name: file.text.strip("\n") for name, file in files.items()}
    reached = joined.closure(chosen)
    return {name: file.cut(piece for piece in file.pieces if piece in reached) for name, file in files.items()}


# --- Python


def declared_name(statement: ast.stmt, decorators: Collection[str] = DECORATORS) -> str:
    """The name of the implementation that a statement of a module declares; empty for other statements."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return _decorated(statement, decorators)
    return _called(statement.value, decorators) if isinstance(statement, ast.Expr | ast.Assign) else ""


def _called(value: ast.expr, decorators: Collection[str]) -> str:
    """The name in `cuda.variant(turn("tiled"), why="...")`; empty for other expressions."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in decorators):
        return ""
    first = value.args[0] if value.args else None
    name = first.args[0] if isinstance(first, ast.Call) and first.args else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def _decorated(node: ast.FunctionDef | ast.ClassDef, decorators: Collection[str]) -> str:
    """The name of the implementation that a decorator declares; empty for other definitions."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else None
        if isinstance(decorator, ast.Call) and isinstance(called, ast.Attribute) and called.attr in decorators:
            given = [keyword.value for keyword in decorator.keywords if keyword.arg == "name"]
            if not given:
                return snake_case(node.name) if isinstance(node, ast.ClassDef) else node.name
            if isinstance(given[0], ast.Constant):
                return str(given[0].value)
    return ""


def _python_pieces(text: str) -> Iterator[Piece]:
    """The statements at the margin. `a, b = x, y` is a piece for each name."""
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        for names, node in _bindings(statement):
            used = frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
            yield Piece(
                names=names,
                first=first,
                last=statement.end_lineno or statement.lineno,
                code=ast.dump(node),
                uses=used,
                words=used.union(_words(node)),
                declares=declared_name(statement, _ALL_DECORATORS),
                is_import=isinstance(statement, ast.Import | ast.ImportFrom),
            )


def _bindings(statement: ast.stmt) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    """The names that parts of a statement bind, and these parts."""
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            yield (statement.name,), statement
        case ast.Import() | ast.ImportFrom():
            yield tuple(name.asname or name.name.partition(".")[0] for name in statement.names), statement
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            for target, value in zip(targets, values, strict=True):
                yield _stored(target), value
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            yield _stored(statement), statement
        case _:
            yield (), statement


def _stored(node: ast.AST) -> tuple[str, ...]:
    return tuple(
        inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    )


def _words(node: ast.AST) -> Iterator[str]:
    """Attributes and strings, of a path the last part; of an import the files that it may read."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value.rpartition("/")[2]
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            module = inner.module or "" if isinstance(inner, ast.ImportFrom) else ""
            yield from (f"{name.rpartition('.')[2]}.py" for name in (module, *(one.name for one in inner.names)))


# --- C


def _c_pieces(text: str) -> Iterator[Piece]:
    """The declarations and directives of a file. Blocks of `extern "C"` and namespaces are looked into."""
    bare = _COMMENT_OR_STRING.sub(lambda match: _blank(match[0]) if match[0].startswith("/") else match[0], text)
    plain = _COMMENT_OR_STRING.sub(lambda match: _blank(match[0]), text)
    start = depth = 0
    for mark in _MARK.finditer(plain):
        head = bare[start : mark.start()].strip()
        if mark[0] == "{" and depth == 0 and _TRANSPARENT.fullmatch(head):
            start = mark.end()
            continue
        if mark[0] == "}" and depth == 0:
            start = mark.end()
            continue
        depth += (mark[0] == "{") - (mark[0] == "}")
        if depth or mark[0] == "{":
            continue
        if mark[0] == "}" and not _head(plain[start : mark.end()]).rstrip().endswith(")"):
            continue  # a type or a list of values, which ends with a semicolon
        if mark[0] not in "};" and head:
            continue  # a directive within a declaration
        yield _c_piece(text, bare, start, mark.end())
        start = mark.end()


def _c_piece(text: str, bare: str, start: int, end: int) -> Piece:
    """The piece of a range of the text, whose code is `bare` of comments."""
    code = bare[start:end]
    begin = start + len(code) - len(code.lstrip())
    lines, first = text.splitlines(), bare.count("\n", 0, begin) + 1
    bare_lines = bare.splitlines()
    while first > 1 and lines[first - 2].strip() and not bare_lines[first - 2].strip():
        first -= 1
    words = frozenset(_WORD.findall(code))
    last = bare.count("\n", 0, end) + 1
    return Piece(_c_names(code), first, last, " ".join(code.split()), words, words)


def _c_names(code: str) -> tuple[str, ...]:
    """The names that a declaration binds: of a function, a macro, a variable, or a type with its constants."""
    if code.lstrip().startswith("#"):
        macro = _DEFINE.match(code)
        return (macro[1],) if macro else ()
    head = _without_templates(_head(code))
    called = [str(name) for name in re.findall(r"(\w+)\s*\(", head) if not name.startswith(("__", "alignas"))]
    if called:
        return (called[0],)
    declared: list[str] = _WORD.findall(re.sub(r"\[[^]]*\]", "", head.partition("=")[0].partition(":")[0]))
    after: list[str] = _WORD.findall(code.rpartition("}")[2])
    constants = re.findall(r"[{,]\s*(\w+)", code) if declared[:1] == ["enum"] else []
    return tuple(dict.fromkeys([*declared[-1:], *after, *constants]))


def _head(code: str) -> str:
    return code.partition("{")[0]


def _without_templates(head: str) -> str:
    """The head of a declaration without `template <...>`."""
    while (match := re.match(r"\s*template\s*<", head)) is not None:
        at, depth = match.end(), 1
        while depth and at < len(head):
            depth += (head[at] == "<") - (head[at] == ">")
            at += 1
        head = head[at:]
    return head


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
