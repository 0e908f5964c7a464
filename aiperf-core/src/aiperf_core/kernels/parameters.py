"""Reads the parameter lists of kernels and exported functions from CUDA C++ and C source text.

It is no compiler: it finds functions at file level, in `extern "C" { }` or in a namespace, but none that a macro
produces. Unknown types count as structs passed by value.
"""

import re

from attrs import evolve, frozen

# Whether a type is signed, and its width in bits in NVRTC and on 64-bit Linux.
_INTEGERS = {
    "signed char": (True, 8),
    **dict.fromkeys(("ssize_t", "ptrdiff_t", "intptr_t"), (True, 64)),
    **dict.fromkeys(("size_t", "uintptr_t"), (False, 64)),
    **{
        f"{'' if signed else 'unsigned '}{name}": (signed, bits)
        for name, bits in (("char", 8), ("short", 16), ("int", 32), ("long", 64), ("long long", 64))
        for signed in (True, False)
    },
    **{f"{'' if signed else 'u'}int{bits}_t": (signed, bits) for bits in (8, 16, 32, 64) for signed in (True, False)},
}
_FLOATS = {"float": 32, "double": 64}
_BUILTIN_WORDS = frozenset(
    ("unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool", "_Bool", "void")
)
_QUALIFIERS = frozenset(
    (
        *("const", "volatile", "restrict", "__restrict", "__restrict__", "__grid_constant__"),
        *("struct", "register", "static", "extern", "inline"),
    )
)
_COMMENT_OR_LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<raw>\w*)\(.*?\)(?P=raw)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_ATTRIBUTE = re.compile(r"(?!__global__)\b(?:__\w+__|alignas)\s*(?=\()|\[\[.*?\]\]", re.DOTALL)
_TRANSPARENT = re.compile(r'(extern\s*"C"|\bnamespace(\s+[\w:]+)?)\s*$')
_FUNCTION_HEAD = re.compile(r"\)\s*(?:noexcept\s*)?$")
_DECLARATOR = re.compile(
    r"(?P<before>.*?)(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>.*)\)\s*(?:noexcept\s*)?", re.DOTALL
)


@frozen
class Parameter:
    """One parameter.

    text: as in the source.
    name: empty where the source gives none.
    kind: `pointer`, `integer`, `float`, `bool` or `struct`.
    base: the type that is passed, or that a pointer addresses.
    bits: the width of a scalar; 0 for others.
    signed: of an integer.
    """

    text: str
    kind: str
    base: str
    bits: int = 0
    signed: bool = False
    name: str = ""


@frozen
class Signature:
    """A function as its source declares it.

    extern_c: it can be found by its plain name.
    template: the names of a template's parameters.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: str = "void"
    extern_c: bool = True
    template: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(parameter.name for parameter in self.parameters)

    def instance(self, expression: str) -> "Signature":
        """This template with the arguments of an expression such as `by_warp<float, true>`."""
        arguments = [part.strip() for part in _split(expression.partition("<")[2].rpartition(">")[0])]
        given = dict(zip(self.template, arguments, strict=False))

        def replaced(parameter: Parameter) -> Parameter:
            text = re.sub(r"\w+", lambda word: given.get(word[0], word[0]), parameter.text)
            return evolve(parameter_of(text), name=parameter.name)

        return evolve(self, name=expression, parameters=tuple(map(replaced, self.parameters)), template=())

    def __str__(self) -> str:
        return f"({', '.join(parameter.text for parameter in self.parameters)})"


def kernels_in(source: str) -> dict[str, Signature]:
    """The `__global__` functions that a CUDA C++ source defines, by name."""
    found = {}
    for declarator, extern_c in _definitions(source):
        template, plain = _template(declarator)
        if "__global__" in plain and (signature := _signature(plain, extern_c)):
            found[signature.name] = evolve(signature, template=template)
    return found


def functions_in(source: str) -> dict[str, Signature]:
    """The functions with external linkage that a C source defines, by name."""
    found = {}
    for declarator, extern_c in _definitions(source):
        signature = _signature(declarator, extern_c)
        if signature and not re.search(r"\bstatic\b", declarator.partition("(")[0]):
            found[signature.name] = signature
    return found


def parameter_of(text: str) -> Parameter:
    """Parse one parameter, such as `const float* __restrict__ a`."""
    shown = re.sub(r"\s+", " ", re.sub(r"\s*__(restrict|restrict__|grid_constant__)\b\s*", " ", text)).strip()
    # An array of any rank is passed as one address.
    plain = re.sub(r"(?:\[[^\]]*\]\s*)+", "*", text.partition("=")[0])
    words = [word for word in re.findall(r"[\w:]+(?:\s*<[^()]*>)?|[*&]", plain) if word not in _QUALIFIERS]
    depth = sum(word in "*&" for word in words)
    base = _base(_without_name([word for word in words if word not in "*&"]))
    if depth:
        return Parameter(shown, "pointer", base if depth == 1 else f"{base}{'*' * (depth - 1)}")
    if base in _INTEGERS:
        signed, bits = _INTEGERS[base]
        return Parameter(shown, "integer", base, bits, signed)
    if base in _FLOATS:
        return Parameter(shown, "float", base, _FLOATS[base])
    if base == "bool":
        return Parameter(shown, "bool", base, 8)
    return Parameter(shown, "struct", base)


def _without_name(words: list[str]) -> list[str]:
    """The words without the name of the parameter: the last word, if the words before it make a type."""
    if len(words) > 1 and words[-1] not in _BUILTIN_WORDS:
        return words[:-1]
    return words


def _base(words: list[str]) -> str:
    """The normal form of a type: `unsigned`, `int unsigned` and `unsigned int` are `unsigned int`."""
    words = [re.sub(r"^(?:::)?(?:cuda::)?std::", "", word) for word in words]
    if any(word in ("bool", "_Bool") for word in words):
        return "bool"
    if not set(words) <= _BUILTIN_WORDS or not set(words) & {"unsigned", "signed", "long", "short", "char", "int"}:
        return " ".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "signed char" if "signed" in words else f"{sign}char"
    if "short" in words:
        return f"{sign}short"
    if "double" in words:
        return "long double"
    return f"{sign}{'long ' * words.count('long')}".strip() if "long" in words else f"{sign}int"


def _definitions(source: str) -> list[tuple[str, bool]]:
    """The text before the body of each function at file level, and whether the function has C linkage."""
    text = _stripped(source)
    found: list[tuple[str, bool]] = []
    blocks: list[bool] = []  # open transparent braces: True where they are extern "C"
    start = position = 0
    while position < len(text):
        symbol = text[position]
        head = text[start:position]
        if symbol == "{" and (transparent := _TRANSPARENT.search(head)):
            blocks.append('"C"' in transparent[0])
        elif symbol == "{":
            if _FUNCTION_HEAD.search(head):
                found.append((head, any(blocks) or 'extern "C"' in re.sub(r"\s+", " ", head)))
            position = _matching(text, position, "{}")
        elif symbol == "}" and blocks:
            blocks.pop()
        elif symbol != ";":
            position += 1
            continue
        position += 1
        start = position
    return found


def _signature(declarator: str, extern_c: bool) -> Signature | None:
    """Parse `extern "C" __global__ void __launch_bounds__(256) name(int n)`; None for other text."""
    plain = _without_attributes(declarator).replace('extern "C"', " ").replace("__global__", " ")
    match = _DECLARATOR.fullmatch(plain)
    if match is None or "template" in match["before"].split() or "=" in match["before"]:
        return None
    returned = [word for word in re.findall(r"[\w:]+|\*", match["before"]) if word not in _QUALIFIERS]
    parameters = [part for part in _split(match["parameters"]) if part.strip() not in ("", "void")]
    returns = "pointer" if "*" in returned else _base(returned)
    named = tuple(evolve(parameter_of(part), name=_name_of(part)) for part in parameters)
    return Signature(match["name"], named, returns, extern_c)


def _template(declarator: str) -> tuple[tuple[str, ...], str]:
    """The names of a template's parameters, and the text behind them."""
    head = re.match(r"\s*template\s*(?=<)", declarator)
    if head is None:
        return (), declarator
    end = _matching(declarator, head.end(), "<>")
    return tuple(map(_name_of, _split(declarator[head.end() + 1 : end]))), declarator[end + 1 :]


def _name_of(text: str) -> str:
    """The name in `const float* __restrict__ a[4] = 0`: the last word before brackets and a default."""
    words = re.findall(r"\w+", re.sub(r"\[[^\]]*\]", " ", text.partition("=")[0]))
    return words[-1] if len(words) > 1 and words[-1] not in _BUILTIN_WORDS | _QUALIFIERS else ""


def _stripped(source: str) -> str:
    """The source without comments, literals and preprocessor lines, whose braces and commas have no meaning here."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith("/"):
            return " "
        return found if found == '"C"' else "0"

    return _DIRECTIVE.sub("", _COMMENT_OR_LITERAL.sub(blank, source))


def _without_attributes(text: str) -> str:
    """The text without `__launch_bounds__(256, 2)`, `__attribute__((aligned(16)))`, `alignas(64)`, `[[nodiscard]]`."""
    while match := _ATTRIBUTE.search(text):
        end = match.end()
        if match[0][0] != "[":
            end = _matching(text, match.end(), "()") + 1
        text = text[: match.start()] + " " + text[end:]
    return text


def _matching(text: str, opening: int, pair: str) -> int:
    """The position of the bracket that closes the one at `opening`, or the last position of the text."""
    depth = 0
    for position in range(opening, len(text)):
        depth += (text[position] == pair[0]) - (text[position] == pair[1])
        if depth == 0:
            return position
    return len(text) - 1


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for position, symbol in enumerate(text):
        depth += (symbol in "([{<") - (symbol in ")]}>")
        if symbol == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
