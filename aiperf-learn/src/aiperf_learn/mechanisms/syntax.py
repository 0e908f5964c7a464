"""A parser of the part of CUDA C++ that kernels of lessons use; it knows types by name, and makes nested tuples.

An expression, a statement and a type is a tuple whose first item names it. Functions are found in a file at once, and
parsed when they are called: one that has more than this parser reads stops nothing but its own picture.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field

from aiperf_learn.mechanisms.tokens import NotEvaluated, Token, joined

Node = tuple[Any, ...]

_WORDS = frozenset(("unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool", "void"))
_QUALIFIERS = frozenset(
    (
        *("const", "volatile", "constexpr", "static", "inline", "typename", "struct", "union", "class", "register"),
        *("mutable", "extern", "__restrict__", "__restrict", "__device__", "__forceinline__", "__global__", "__host__"),
        *("__grid_constant__", "__noinline__"),
    )
)
_ATTRIBUTES = ("__launch_bounds__", "__align__", "alignas", "__attribute__", "__cluster_dims__")
# Vectors, half precision and handles of CUDA's headers.
_HEADER_TYPES = re.compile(
    r"u?(char|short|int|long|longlong)[1-4]|(float|double)[1-4]|__half2?|__nv_(bfloat16|fp8)\w*|CUtensorMap"
    r"|u?int(8|16|32|64)_t|size_t|Barrier|cudaGraphConditionalHandle"
)
# Templates of `aiperf/bulk.cuh`, which is not read: the evaluator knows its functions by name.
_HEADER_TEMPLATES = ("async_wait", "bulk_wait", "bulk_wait_read")
_BINARY = {
    symbol: level
    for level, symbols in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), start=1)
    for symbol in symbols.split()
}
_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="])


@define
class TemplateParameter:
    """A parameter of a template: its name, whether it is a type, and the tokens of its default."""

    name: str
    is_type: bool
    default: Sequence[Token]


@define
class Function:
    """A function that a file defines.

    template: the parameters of its template.
    given, tokens: the tokens of its parameters and of its body.
    parameters: of each its name, its type and its default; None until it is parsed.
    """

    name: str
    template: Sequence[TemplateParameter]
    given: Sequence[Token]
    tokens: Sequence[Token]
    is_kernel: bool
    parameters: list[tuple[str, Node, Node | None]] | None = None
    body: Node | None = None


@define
class Structure:
    """A struct or a union: its fields with their types, and the tokens of its body until they are parsed."""

    name: str
    template: Sequence[TemplateParameter]
    tokens: Sequence[Token]
    is_union: bool
    fields: list[tuple[str, Node]] | None = None


@define
class File:
    """All that a file and its headers define."""

    functions: dict[str, list[Function]] = field(factory=dict)
    structures: dict[str, Structure] = field(factory=dict)
    aliases: dict[str, Node] = field(factory=dict)
    constants: dict[str, int] = field(factory=dict)
    variables: list[Node] = field(factory=list)
    types: set[str] = field(factory=set)
    templates: set[str] = field(factory=set)

    def parsed(self, function: Function) -> Function:
        """The function with its parameters and its body. Raises `NotEvaluated` for what the parser does not know."""
        if function.parameters is None:
            reader = Reader(function.given, self, _types_of(function.template))
            function.parameters = list(reader.parameters())
        if function.body is None:
            function.body = Reader(function.tokens, self, _types_of(function.template)).block()
        return function

    def fields_of(self, structure: Structure) -> list[tuple[str, Node]]:
        """The fields of a structure. Raises `NotEvaluated` for a structure with functions."""
        if structure.fields is None:
            reader = Reader(structure.tokens, self, _types_of(structure.template))
            structure.fields = [(name, kind) for name, kind, _ in reader.fields()]
        return structure.fields


def _types_of(template: Sequence[TemplateParameter]) -> set[str]:
    return {parameter.name for parameter in template if parameter.is_type}


class Reader:
    """Reads tokens from the first to the last. types: names of types beside those of the file."""

    def __init__(self, tokens: Sequence[Token], file: File, types: set[str]) -> None:
        self._tokens, self._at, self._file, self._types = list(tokens), 0, file, types
        self._in_angles = False

    # --- tokens

    @property
    def next(self) -> Token:
        """The token that comes."""
        return self._ahead(0)

    def _ahead(self, by: int) -> Token:
        place = self._at + by
        return self._tokens[place] if place < len(self._tokens) else Token("end", "")

    def take(self) -> Token:
        """The token that comes, and go on."""
        token = self.next
        self._at += 1
        return token

    def skip(self, text: str) -> bool:
        """Go on behind a token of this text; False where another comes."""
        if self.next.text == text and self.next.kind != "text":
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Go on behind a token of this text. Raises `NotEvaluated` for another."""
        if not self.skip(text):
            raise NotEvaluated(f"{self.next.place[0]}: {text!r} expected before {self.next.text!r}")

    def within(self, opening: str, closing: str) -> list[Token]:
        """The tokens between brackets of which the first comes."""
        self.expect(opening)
        begin, depth = self._at, 1
        while depth:
            token = self.take()
            if token.kind == "end":
                raise NotEvaluated(f"{opening!r} has no {closing!r}")
            if token.kind != "text":
                depth += (token.text == opening) - (token.text == closing)
        return self._tokens[begin : self._at - 1]

    # --- types

    def _is_type(self, by: int = 0) -> bool:
        token = self._ahead(by)
        if token.kind != "name" or self._ahead(by + 1).text == "::":
            return False
        text = token.text
        return (
            text in _WORDS or text in _QUALIFIERS or text in ("auto", "__shared__", *_ATTRIBUTES) or text in self._types
            or text in self._file.types or _HEADER_TYPES.fullmatch(text) is not None
        )  # fmt: skip

    def base(self) -> tuple[Node, bool]:
        """A type without pointers, and whether it is of shared memory."""
        words: list[str] = []
        named: Node | None = None
        shared = False
        while True:
            text = self.next.text
            if text in _QUALIFIERS:
                self.take()
            elif text == "__shared__":
                self.take()
                shared = True
            elif text in _ATTRIBUTES:
                self.take()
                self.within("(", ")")
            elif text in _WORDS:
                words.append(self.take().text)
            elif named is None and not words and (text == "auto" or self._is_type()):
                self.take()
                arguments = tuple(self._template_arguments()) if self.next.text == "<" else ()
                named = ("named", text, arguments)
            else:
                break
        if named is None and not words:
            raise NotEvaluated(f"{self.next.place[0]}: a type expected before {self.next.text!r}")
        return named or ("named", " ".join(words), ()), shared

    def pointed(self, kind: Node) -> Node:
        """The type with the stars and the `&` that come."""
        while self.next.text in ("*", "&", "&&", *_QUALIFIERS):
            text = self.take().text
            if text not in _QUALIFIERS:
                kind = ("pointer" if text == "*" else "reference", kind)
        return kind

    def type(self) -> Node:
        """A type, as of a cast."""
        return self.pointed(self.base()[0])

    def declarator(self, base: Node) -> tuple[str, Node]:
        """A name with its type: `*name`, `&name`, `name[4][8]`, `(&name)[4]`, or a type alone."""
        kind = self.pointed(base)
        inner = ""
        name = ""
        if self.next.text == "(" and self._ahead(1).text in ("&", "*"):
            self.take()
            inner = self.take().text
            name = self.take().text if self.next.kind == "name" else ""
            self.expect(")")
            if self.next.text == "(":
                raise NotEvaluated(f"{name} is a pointer to a function")
        elif self.next.kind == "name":
            name = self.take().text
        lengths: list[Node | None] = []
        while self.skip("["):
            lengths.append(None if self.next.text == "]" else self.expression())
            self.expect("]")
        for length in reversed(lengths):
            kind = ("array", kind, length)
        if inner:
            kind = ("pointer" if inner == "*" else "reference", kind)
        return name, kind

    def parameters(self) -> Iterator[tuple[str, Node, Node | None]]:
        """The parameters of a function: name, type, default."""
        while self.next.kind != "end":
            if self.skip("void") and self.next.kind == "end":
                return
            name, kind = self.declarator(self.base()[0] if self._tokens[self._at - 1].text != "void" else
                                         ("named", "void", ()))  # fmt: skip
            yield name, kind, self.assignment() if self.skip("=") else None
            if self.next.kind != "end":
                self.expect(",")

    def fields(self) -> Iterator[tuple[str, Node, None]]:
        """The fields of a structure."""
        while self.next.kind != "end":
            base, _ = self.base()
            while True:
                name, kind = self.declarator(base)
                if not name or self.next.text not in (",", ";"):
                    raise NotEvaluated("a structure has functions or initial values")
                yield name, kind, None
                if not self.skip(","):
                    break
            self.expect(";")

    def _template_arguments(self) -> Iterator[Node]:
        self.expect("<")
        while not self.skip(">"):
            if self._is_type():
                yield ("type", self.type())
            else:
                outside, self._in_angles = self._in_angles, True
                yield self._conditional()
                self._in_angles = outside
            if self.next.text == ">>":  # closes two
                self._tokens[self._at : self._at + 1] = [Token("mark", ">", self.next.place)] * 2
            if self.next.text != ">":
                self.expect(",")

    # --- expressions

    def expression(self) -> Node:
        """An expression, with commas."""
        left = self.assignment()
        while self.next.text == ",":
            self.take()
            left = ("comma", left, self.assignment())
        return left

    def assignment(self) -> Node:
        """An expression without commas at its top."""
        left = self._conditional()
        if self.next.text in _ASSIGNMENTS and self.next.kind == "mark":
            symbol = self.take().text
            right = self.list_or_assignment()
            return ("assign", left, right) if symbol == "=" else ("assign", left, ("binary", symbol[:-1], left, right))
        return left

    def list_or_assignment(self) -> Node:
        """An expression, or a list in braces."""
        return ("list", self._items("{", "}")) if self.next.text == "{" else self.assignment()

    def _items(self, opening: str, closing: str) -> tuple[Node, ...]:
        outside, self._in_angles = self._in_angles, False
        self.expect(opening)
        items = []
        while not self.skip(closing):
            items.append(self.list_or_assignment())
            if self.next.text != closing:
                self.expect(",")
        self._in_angles = outside
        return tuple(items)

    def _conditional(self) -> Node:
        condition = self._binary(1)
        if not self.skip("?"):
            return condition
        first = self.expression()
        self.expect(":")
        return ("conditional", condition, first, self.assignment())

    def _binary(self, least: int) -> Node:
        left = self._unary()
        while self.next.kind == "mark" and (level := _BINARY.get(self.next.text, 0)) >= least:
            if self._in_angles and self.next.text in (">", ">>"):
                break
            symbol = self.take().text
            right = self._binary(level + 1)
            left = ("logical" if symbol in ("&&", "||") else "binary", symbol, left, right)
        return left

    def _unary(self) -> Node:
        token = self.next
        if token.kind == "mark" and token.text in ["+", "-", "!", "~"]:
            self.take()
            return ("unary", token.text, self._unary())
        if token.text in ("*", "&") and token.kind == "mark":
            self.take()
            return ("at", self._unary(), token.place) if token.text == "*" else ("address", self._unary())
        if token.text in ("++", "--"):
            self.take()
            return ("step", token.text[0], self._unary(), True)
        if token.text == "sizeof":
            self.take()
            self.expect("(")
            node: Node = ("size", self.type()) if self._is_type() else ("size_of", self.expression())
            self.expect(")")
            return node
        if token.text == "(" and self._is_type(1):
            self.take()
            kind = self.type()
            self.expect(")")
            return ("cast", kind, self._unary())
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        while True:
            token = self.next
            if token.text == "[":
                self.take()
                node = ("at", ("binary", "+", node, self.expression()), token.place)
                self.expect("]")
            elif token.text == "(":
                node = ("call", node, self._items("(", ")"), token.place)
            elif token.text == ".":
                self.take()
                node = ("field", node, self.take().text)
            elif token.text == "->":
                self.take()
                node = ("field", ("at", node, token.place), self.take().text)
            elif token.text in ("++", "--"):
                self.take()
                node = ("step", token.text[0], node, False)
            else:
                return node

    def _primary(self) -> Node:
        token = self.next
        if token.text == "(":
            return self._condition()
        if token.text == "[":
            return self._lambda()
        if token.text in ("static_cast", "reinterpret_cast", "const_cast"):
            self.take()
            (given,) = self._template_arguments()
            self.expect("(")
            node = ("cast", given[1], self.expression())
            self.expect(")")
            return node
        if token.kind == "number":
            return ("number", self.take().text)
        if token.kind == "text":
            return ("unknown", self.take().text)
        if self._is_type():
            kind = self.base()[0]
            if self.next.text == "{":
                return ("made", kind, self._items("{", "}"))
            items = self._items("(", ")")
            return ("cast", kind, items[0]) if len(items) == 1 else ("made", kind, items)
        if token.kind != "name":
            raise NotEvaluated(f"{token.place[0]}: {token.text!r} begins no expression")
        self.take()
        if self.next.text == "::":
            raise NotEvaluated(f"{token.place[0]}: {token.text}:: is a function of a structure")
        if token.text in (*self._file.templates, *_HEADER_TEMPLATES) and self.next.text == "<":
            return ("template", token.text, tuple(self._template_arguments()))
        return ("name", token.text)

    def _lambda(self) -> Node:
        self.within("[", "]")
        given = Reader(self.within("(", ")"), self._file, self._types)
        body = Reader(self.within("{", "}"), self._file, self._types)
        return ("lambda", tuple(given.parameters()), body.block())

    # --- statements

    def block(self) -> Node:
        """All statements that are left."""
        statements = []
        while self.next.kind != "end":
            statements.append(self.statement())
        return ("block", tuple(statements))

    def statement(self) -> Node:
        """A statement."""
        token = self.next
        if token.text == "{":
            return Reader(self.within("{", "}"), self._file, self._types).block()
        if token.kind == "name" and (read := getattr(self, f"_{token.text}", None)) and token.text in _STATEMENTS:
            self.take()
            node: Node = read()
            return node
        if token.text in ("union", "struct") and self._ahead(2).text == "{":
            return self._structure()
        is_made = self._ahead(1).text in ("(", "{") and self._ahead(2).text not in ("*", "&")
        if self._is_type() and not (is_made and token.text not in _ATTRIBUTES):
            return self.declaration()
        if self.skip(";"):
            return ("block", ())
        node = ("expression", self.expression())
        self.expect(";")
        return node

    def declaration(self) -> Node:
        """Variables of one type."""
        base, shared = self.base()
        declared = []
        while True:
            name, kind = self.declarator(base)
            start: Node | None = None
            if self.skip("="):
                start = self.list_or_assignment()
            elif self.next.text in ("(", "{"):
                start = ("list", self._items(*(("(", ")") if self.next.text == "(" else ("{", "}"))))
            declared.append((name, kind, start))
            if not self.skip(","):
                break
        self.expect(";")
        return ("declare", shared, tuple(declared))

    def _structure(self) -> Node:
        is_union, name = self.take().text == "union", self.take().text
        reader = Reader(self.within("{", "}"), self._file, self._types)
        self._types.add(name)
        self.expect(";")
        return ("structure", Structure(name, (), (), is_union, [(field, kind) for field, kind, _ in reader.fields()]))

    def _condition(self) -> Node:
        """An expression in parentheses."""
        outside, self._in_angles = self._in_angles, False
        self.expect("(")
        node = self.expression()
        self.expect(")")
        self._in_angles = outside
        return node

    def _if(self) -> Node:
        self.skip("constexpr")
        condition, first = self._condition(), self.statement()
        return ("if", condition, first, self.statement() if self.skip("else") else ("block", ()))

    def _while(self) -> Node:
        condition = self._condition()
        return ("loop", ("block", ()), condition, ("comma",), self.statement(), True)

    def _do(self) -> Node:
        body = self.statement()
        self.expect("while")
        condition = self._condition()
        self.expect(";")
        return ("loop", ("block", ()), condition, ("comma",), body, False)

    def _for(self) -> Node:
        self.expect("(")
        first = self.statement()
        condition = ("number", "1") if self.next.text == ";" else self.expression()
        self.expect(";")
        step = ("comma",) if self.next.text == ")" else self.expression()
        self.expect(")")
        return ("loop", first, condition, step, self.statement(), True)

    def _return(self) -> Node:
        value = None if self.next.text == ";" else self.list_or_assignment()
        self.expect(";")
        return ("return", value)

    def _break(self) -> Node:
        self.expect(";")
        return ("break",)

    def _continue(self) -> Node:
        self.expect(";")
        return ("continue",)

    def _switch(self) -> Node:
        raise NotEvaluated("a switch")

    def _asm(self) -> Node:
        """Assembler: its outputs get values that are not known."""
        self.skip("volatile")
        reader = Reader(self.within("(", ")"), self._file, self._types)
        self.expect(";")
        outputs = []
        while reader.next.kind != "end":
            token = reader.take()
            if token.kind == "text" and token.text[1:2] in "=+" and reader.next.text == "(":
                outputs.append(reader._condition())
        return ("assembler", tuple(outputs))


_STATEMENTS = ("if", "while", "do", "for", "return", "break", "continue", "switch", "asm")


# --- files


def file_of(tokens: Sequence[Token]) -> File:
    """The functions, structures, types and constants of a file's tokens."""
    file = File()
    reader = Reader(tokens, file, set())
    while reader.next.kind != "end":
        if reader.skip("}") or reader.skip(";"):  # the end of extern "C" { }
            continue
        if reader.skip("extern") and reader.next.kind == "text":
            reader.take()
            reader.skip("{")
            continue
        _definition(reader, file)
    return file


def _definition(reader: Reader, file: File) -> None:
    template: list[TemplateParameter] = []
    if reader.skip("template"):
        template = list(_template(reader.within("<", ">")))
    token = reader.next.text
    if token == "typedef":
        reader.take()
        name, kind = reader.declarator(reader.base()[0])
        reader.expect(";")
        file.aliases[name] = kind
        file.types.add(name)
    elif token == "enum":
        reader.take()
        reader.skip("class")
        name = reader.take().text
        values = _split(reader.within("{", "}"))
        if any(len(part) > 1 for part in values):
            raise NotEvaluated(f"the enum {name} has numbers")
        file.constants |= {part[0].text: at for at, part in enumerate(values)}
        file.aliases[name] = ("named", "int", ())
        file.types.add(name)
    elif token in ("struct", "union") and reader._ahead(2).text == "{":
        reader.take()
        name = reader.take().text
        file.structures[name] = Structure(name, template, reader.within("{", "}"), token == "union")
        file.types.add(name)
    else:
        _function_or_variable(reader, file, template)


def _function_or_variable(reader: Reader, file: File, template: Sequence[TemplateParameter]) -> None:
    """A function with its body, or a declaration that ends with a semicolon."""
    begin = reader._at
    head: list[Token] = []
    given: list[Token] | None = None
    while reader.next.text not in (";", "{", "="):
        token = reader.next
        if token.kind == "end":
            return
        if token.text in _ATTRIBUTES:
            reader.take()
            reader.within("(", ")")
        elif token.text == "(":
            given = reader.within("(", ")")
        else:
            head.append(reader.take())
    names = [token.text for token in head if token.kind == "name"]
    if given is not None and reader.next.text == "{" and names:
        function = Function(names[-1], template, given, reader.within("{", "}"), "__global__" in names)
        file.functions.setdefault(function.name, []).append(function)
        if template:
            file.templates.add(function.name)
    elif given is None and "__shared__" in names:
        reader._at = begin
        file.variables.append(reader.declaration())
    else:
        while reader.take().text not in (";", ""):
            pass


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """The tokens between commas outside of brackets; nothing for no tokens."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in "([{<") - (token.text in ")]}>") if len(token.text) == 1 else 0
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _template(tokens: Sequence[Token]) -> Iterator[TemplateParameter]:
    for part in _split(tokens):
        texts = [token.text for token in part]
        end = texts.index("=") if "=" in texts else len(part)
        yield TemplateParameter(texts[end - 1], texts[0] in ("typename", "class"), part[end + 1 :])


def name_and_arguments(expression: str, tokens: Sequence[Token], file: File) -> tuple[str, tuple[Node, ...]]:
    """The name of a kernel and the arguments of its template, from an expression such as `by_warp<float, true>`."""
    reader = Reader(tokens, file, set())
    name = reader.take().text
    arguments = tuple(reader._template_arguments()) if reader.next.text == "<" else ()
    if reader.next.kind != "end":
        raise NotEvaluated(f"{expression} is no name of a kernel: {joined(tokens)}")
    return name, arguments
