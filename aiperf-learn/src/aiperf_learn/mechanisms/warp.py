"""Evaluates a kernel for one warp, all lanes in step, and notes the addresses of its accesses.

Values that come from memory are not known, unless the memory of a kernel's argument is given. Where an address or a
condition needs one, there is no access: nothing is guessed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import define, field, frozen

from aiperf_learn.mechanisms.syntax import File, Function, Node, Structure, TemplateParameter, name_and_arguments
from aiperf_learn.mechanisms.tokens import NotEvaluated, Token
from aiperf_learn.mechanisms.values import (
    LANES,
    UNKNOWN,
    Data,
    Layout,
    Memory,
    Place,
    Type,
    Value,
    binary,
    cast,
    chosen,
    common,
    each,
    gathered,
    is_integer,
    number,
    scalar,
    size_of,
    spread,
    vector,
)  # fmt: skip

ALL = (1 << LANES) - 1
# Expressions of a kernel, after which a loop ends that has more rounds; what it assigns is not known then.
MOST_STEPS = 8_000
Kind = Literal["load", "store", "atomic"]
# Reads a number from memory that is an argument: takes its name, the offset and the type.
MemoryReader = Callable[[str, int, str], int | None]

_LOADS = ("__ldcs", "__ldcg", "__ldca", "__ldg", "__ldlu", "__ldcv")
_STORES = ("__stcs", "__stcg", "__stwb", "__stwt")
# Functions of `aiperf/bulk.cuh` that copy from the second argument to the first, by bytes.
_COPIES = {"async_copy16": 16, "async_copy4": 4}
# Functions of `aiperf/bulk.cuh` by which the copy engine moves what is not counted here.
_ENGINE = ("bulk_load", "bulk_store", "tensor_load", "tensor_store")
Leaving = ("return", "break", "continue")


@frozen(kw_only=True)
class Access:
    """A load or a store of a warp.

    site: the place in the source and the memory; all executions of an access have the same.
    memory, space: the name of the memory, and `global` or `shared`.
    width: bytes of a lane.
    offsets: of each lane from the begin of the memory in bytes; None for a lane that takes no part.
    """

    site: tuple[Any, ...]
    kind: Kind
    memory: str
    space: str
    width: int
    offsets: tuple[int | None, ...]


@define
class Trace:
    """The accesses of a warp in their order.

    is_whole: False where a loop was cut, an address was not known, or a condition; the accesses are right even so.
    needs_values: an address or a condition depends on values from memory.
    stopped: why the evaluation ended before the kernel's end; empty where it did not.
    """

    accesses: list[Access] = field(factory=list)
    is_whole: bool = True
    needs_values: bool = False
    stopped: str = ""


@frozen
class _Lambda:
    """A lambda: its parameters, its body, and the variables around it."""

    parameters: Sequence[tuple[str, Node, Node | None]]
    body: Node
    scopes: "list[dict[str, Any]]"


@define
class _Frame:
    """A call: its scopes, the lanes that have returned, their value, and the type of the result."""

    scopes: list[dict[str, Any]]
    returned: int = 0
    value: Value | None = None
    left: int = 0  # lanes that have left the innermost loop, or its round


def trace(
    file: File,
    expression: str,
    tokens: Sequence[Token],
    arguments: Mapping[str, int | str | None],
    shape: tuple[tuple[int, int, int], tuple[int, int, int]],
    *,
    warp: int = 0,
    block: tuple[int, int, int] = (0, 0, 0),
    reader: MemoryReader | None = None,
    most_steps: int = MOST_STEPS,
    is_cut: bool = True,
) -> Trace:
    """Evaluate a kernel for one of its warps.

    expression, tokens: the name of the kernel, with the arguments of its template, and its tokens.
    arguments: of each parameter a number, the name of its memory, or None where it is not known.
    shape: the blocks of the grid and the threads of a block.
    is_cut: whether a loop that has more rounds than `most_steps` allow is left; otherwise the evaluation stops there.
    """
    run = Warp(file, shape, warp, block, reader, most_steps, is_cut=is_cut)
    try:
        run.kernel(expression, tokens, arguments)
    except NotEvaluated as error:
        run.trace.stopped, run.trace.is_whole = str(error), False
    return run.trace


class Warp:
    """A warp at work; see `trace`."""

    def __init__(
        self,
        file: File,
        shape: tuple[tuple[int, int, int], tuple[int, int, int]],
        warp: int = 0,
        block: tuple[int, int, int] = (0, 0, 0),
        reader: MemoryReader | None = None,
        most_steps: int = MOST_STEPS,
        *,
        is_cut: bool = True,
    ) -> None:
        self._file, self._reader, self._most_steps, self._is_cut = file, reader, most_steps, is_cut
        (grid, threads), self.trace = shape, Trace()
        self._steps, self._quiet = 0, 0
        x, y, z = threads
        lanes = range(warp * LANES, warp * LANES + LANES)
        self._mask = sum(1 << lane for lane, thread in enumerate(lanes) if thread < x * y * z)
        axes = {
            "threadIdx": ([t % x for t in lanes], [t // x % y for t in lanes], [t // x // y for t in lanes]),
            "blockIdx": tuple([axis] for axis in block),
            "blockDim": tuple([axis] for axis in threads),
            "gridDim": tuple([axis] for axis in grid),
        }
        uint3 = vector("uint3")
        self._globals: dict[str, Any] = {name: Value("int", [value]) for name, value in file.constants.items()}
        self._globals |= {
            name: Value(uint3, UNKNOWN, {4 * at: (4, gathered(data)) for at, data in enumerate(each_axis)})
            for name, each_axis in axes.items()
        }
        self._globals |= {
            "true": Value("bool", [1]),
            "false": Value("bool", [0]),
            "nullptr": Value(("pointer", "void"), UNKNOWN),
            "warpSize": Value("int", [LANES]),
        }
        self._frame = _Frame([self._globals])

    def kernel(self, expression: str, tokens: Sequence[Token], arguments: Mapping[str, int | str | None]) -> None:
        """Run the kernel of that name. Raises `NotEvaluated` where that is not possible."""
        for declaration in self._file.variables:
            self._run(declaration)
        name, given = name_and_arguments(expression, tokens, self._file)
        function = next((each for each in self._file.functions.get(name, ()) if each.is_kernel), None)
        if function is None:
            raise NotEvaluated(f"no kernel {name!r}")
        scope = self._bound_template(function.template, given)
        self._file.parsed(function)
        self._frame = _Frame([self._globals, scope])
        for parameter, node, _ in function.parameters or ():
            kind, given_value = self.type(node), arguments.get(parameter)
            if isinstance(kind, tuple) and isinstance(given_value, str):
                value = Value(kind, [(Memory(given_value, "global"), 0)])
            else:
                value = Value(kind, [given_value if isinstance(given_value, int) and is_integer(kind) else None])
            self._declare(parameter, value)
        assert function.body is not None
        self._run(function.body)

    # --- types

    def type(self, node: Node) -> Type:
        """A type of the source."""
        match node:
            case ("pointer", inner):
                return ("pointer", self.type(inner))
            case ("reference", inner):
                return self.type(inner)
            case ("array", inner, length):
                return ("array", self.type(inner), 0 if length is None else self._known(self.value(length)))
            case ("named", name, arguments):
                return self._named(name, arguments)
        raise NotEvaluated(f"a type {node[0]}")

    def _named(self, name: str, arguments: Sequence[Node]) -> Type:
        bound = self._find(name)
        if isinstance(bound, Value):
            raise NotEvaluated(f"{name} is no type")
        if bound is not None:
            return bound
        if name in self._file.aliases:
            return self.type(self._file.aliases[name])
        if (layout := vector(name)) is not None:
            return layout
        if (structure := self._file.structures.get(name)) is not None:
            scope = self._bound_template(structure.template, arguments)
            outside, self._frame = self._frame, _Frame([self._globals, scope])
            try:
                return self._layout(structure)
            finally:
                self._frame = outside
        return scalar("unsigned long long").base if name == "Barrier" else scalar(name).base

    def _layout(self, structure: Structure) -> Layout:
        """The layout of a structure, whose types are known in the current scopes."""
        fields, offset, size = {}, 0, 0
        for name, node in self._file.fields_of(structure):
            kind = self.type(node)
            align = min(16, size_of(kind[1] if isinstance(kind, tuple) and kind[0] == "array" else kind))
            offset = 0 if structure.is_union else -(-offset // align) * align
            fields[name] = (offset, kind)
            offset += size_of(kind)
            size = max(size, offset)
        return Layout(structure.name, size, fields)

    def _bound_template(self, parameters: Sequence[TemplateParameter], given: Sequence[Node]) -> dict[str, Any]:
        """The parameters of a template by name: types and values, as far as they are given."""
        bound: dict[str, Any] = {}
        for at, parameter in enumerate(parameters):
            if at < len(given):
                node = given[at]
                bound[parameter.name] = self.type(node[1]) if node[0] == "type" else self._argument(node)
            elif parameter.default:
                _, (node,) = name_and_arguments(
                    "a default", [Token("name", "x"), Token("mark", "<"), *parameter.default, Token("mark", ">")],
                    self._file,
                )  # fmt: skip
                bound[parameter.name] = self.type(node[1]) if node[0] == "type" else self._argument(node)
        return bound

    def _argument(self, node: Node) -> Any:
        """An argument of a template: a value, or a function."""
        if node[0] == "template" or (node[0] == "name" and node[1] in self._file.functions):
            return node
        return self.value(node)

    # --- names

    def _find(self, name: str) -> Any:
        for scope in reversed(self._frame.scopes):
            if name in scope:
                return scope[name]
        return None

    def _declare(self, name: str, value: Value) -> None:
        place = Place(value.type, [(Memory(name), 0)])
        self._frame.scopes[-1][name] = place
        self._store(place, value)

    def _known(self, value: Value) -> int:
        """A number that is the same in all lanes. Raises `NotEvaluated` for another."""
        data = value.data
        if len(data) != 1 or not isinstance(data[0], int):
            raise NotEvaluated("a size that is not known")
        return data[0]

    # --- memory

    def _load(self, place: Place, site: Any = None) -> Value:
        """The value at a place; an access where that is in global or shared memory."""
        kind = place.type
        if isinstance(kind, tuple) and kind[0] == "array":
            return Value(("pointer", kind[1]), place.data)
        spaces = self._spaces(place)
        if spaces and spaces != {"local"}:
            return Value(kind, self._access("load", place, site))
        if not spaces:
            self._not_known()
        if len(place.data) != 1:
            return Value(kind, self._gathered_cells(place) if not isinstance(kind, Layout) else UNKNOWN)
        if place.data[0] is None:
            return Value(kind, UNKNOWN)
        memory, offset = place.data[0]
        if isinstance(kind, Layout):
            inner = {at - offset: cell for at, cell in memory.cells.items() if offset <= at < offset + kind.size}
            return Value(kind, UNKNOWN, inner)
        size, data = memory.cells.get(offset, (0, UNKNOWN))
        return Value(kind, data if size == size_of(kind) else UNKNOWN)

    def _gathered_cells(self, place: Place) -> Data:
        """Elements of an array of a thread, whose index is not the same in all lanes."""
        made: Data = []
        for lane, pointer in enumerate(place.data):
            size, data = pointer[0].cells.get(pointer[1], (0, UNKNOWN)) if pointer else (0, UNKNOWN)
            made.append(spread(data)[lane] if size == size_of(place.type) else None)
        return gathered(made)

    def _spaces(self, place: Place) -> set[str]:
        if len(place.data) == 1:
            return {place.data[0][0].space} if place.data[0] else set()
        active = [p for lane, p in enumerate(place.data) if self._mask >> lane & 1]
        return {pointer[0].space for pointer in active if pointer}

    def _store(self, place: Place, value: Value, site: Any = None, kind: Kind = "store") -> None:
        """Put a value where the lanes at work have a place."""
        spaces = self._spaces(place)
        if spaces and spaces != {"local"}:
            self._access(kind, place, site)
            return
        pointers = [p for p in place.data if p]
        if not spaces:
            self._not_known()
        if len(place.data) != 1 or not pointers:
            for memory in {id(p[0]): p[0] for p in pointers}.values():
                memory.cells.clear()
            return
        memory, offset = pointers[0]
        size = size_of(place.type)
        kept = {at: cell for at, cell in memory.cells.items() if offset <= at < offset + size}
        for at in [at for at, (wide, _) in memory.cells.items() if at < offset + size and offset < at + wide]:
            del memory.cells[at]
        if isinstance(place.type, Layout) or (isinstance(place.type, tuple) and place.type[0] == "array"):
            news = {offset + at: cell for at, cell in value.cells.items()}
        else:
            news = {offset: (size, cast(value, place.type).data)}
        for at, (wide, data) in news.items():
            before = kept.get(at, (wide, UNKNOWN))
            old = before[1] if before[0] == wide else UNKNOWN
            memory.cells[at] = (wide, data if self._mask == ALL else chosen(self._mask, data, old))

    def _not_known(self) -> None:
        if not self._mask:
            return
        self.trace.is_whole, self.trace.needs_values = False, True

    def _access(self, kind: Kind, place: Place, site: Any) -> Data:
        """Note an access; returns what it reads, as far as that is known."""
        if not self._mask:
            return UNKNOWN
        if self._quiet:
            self.trace.is_whole = False
            return UNKNOWN
        lanes = [(lane, p) for lane, p in enumerate(spread(place.data)) if self._mask >> lane & 1]
        memories = {id(p[0]): p[0] for _, p in lanes if p}
        if len(memories) != 1 or not all(p for _, p in lanes):
            self._not_known()
            return UNKNOWN
        (memory,) = memories.values()
        offsets: list[int | None] = [None] * LANES
        for lane, pointer in lanes:
            offsets[lane] = pointer[1]
        width = size_of(place.type)
        self.trace.accesses.append(
            Access(site=(site, memory.name), kind=kind, memory=memory.name, space=memory.space, width=width,
                   offsets=tuple(offsets))
        )  # fmt: skip
        if kind != "load" or self._reader is None or memory.space != "global" or not is_integer(place.type):
            return UNKNOWN
        read = self._reader
        return gathered([None if at is None else read(memory.name, at, place.type) for at in offsets])

    # --- expressions

    def value(self, node: Node) -> Value:
        """The value of an expression."""
        operand = self.operand(node)
        return self._load(operand, node[2] if node[0] == "at" else None) if isinstance(operand, Place) else operand

    def operand(self, node: Node) -> Value | Place:
        """The value of an expression, or the place of one that has a place."""
        self._steps += 1
        result: Value | Place = getattr(self, f"_{node[0]}")(*node[1:])
        return result

    def _number(self, text: str) -> Value:
        return number(text)

    def _unknown(self, _: str) -> Value:
        return Value(("pointer", "char"), UNKNOWN)

    def _name(self, name: str) -> Value | Place:
        bound = self._find(name)
        if isinstance(bound, Value | Place):
            return bound
        if isinstance(bound, tuple):  # a function that is an argument of a template
            return Value("function", [bound])
        raise NotEvaluated(f"{name} is not known")

    def _comma(self, *nodes: Node) -> Value | Place:
        result: Value | Place = Value("int", UNKNOWN)
        for node in nodes:
            result = self.operand(node)
        return result

    def _binary(self, symbol: str, left: Node, right: Node) -> Value:
        first, second = self.value(left), self.value(right)
        if isinstance(first.type, Layout) or isinstance(second.type, Layout):
            raise NotEvaluated(f"{symbol} on a structure")
        return binary(symbol, first, second)

    def _unary(self, symbol: str, node: Node) -> Value:
        value = self.value(node)
        if symbol == "!":
            return Value("bool", each(lambda x: int(not x), value.data) if is_integer(value.type) else UNKNOWN)
        if not is_integer(value.type):
            return value if symbol == "+" else Value(value.type, UNKNOWN)
        if symbol == "~":
            kind = common(value.type, "int")
            return cast(Value(kind, each(lambda x: ~x, value.data)), kind)
        return binary("-" if symbol == "-" else "+", Value("int", [0]), value)

    def _logical(self, symbol: str, left: Node, right: Node) -> Value:
        true, unknown = self._lanes(left)
        outside = self._mask
        if unknown:
            self._quietly(lambda: self.value(right))
            return Value("bool", UNKNOWN)
        self._mask = true if symbol == "&&" else outside & ~true
        second, unknown = self._lanes(right) if self._mask else (0, 0)
        self._mask = outside
        result = true & second if symbol == "&&" else true | second
        return Value("bool", UNKNOWN if unknown else gathered([result >> lane & 1 for lane in range(LANES)]))

    def _lanes(self, node: Node) -> tuple[int, int]:
        """Masks of the lanes at work where a condition is true, and where it is not known."""
        value = self.value(node)
        data = value.data if is_integer(value.type) else UNKNOWN
        if len(data) == 1:
            return (0, self._mask) if data[0] is None or isinstance(data[0], tuple) else (self._mask * bool(data[0]), 0)
        at_work = [lane for lane in range(LANES) if self._mask >> lane & 1]
        if any(isinstance(data[lane], tuple) for lane in at_work):
            return 0, self._mask
        return (
            sum(1 << lane for lane in at_work if data[lane]),
            sum(1 << lane for lane in at_work if data[lane] is None),
        )

    def _quietly(self, work: Callable[[], Any]) -> None:
        """Evaluate what may not happen, without its accesses."""
        self._quiet += 1
        work()
        self._quiet -= 1

    def _conditional(self, condition: Node, first: Node, second: Node) -> Value:
        true, unknown = self._lanes(condition)
        outside = self._mask
        values: list[Value] = []
        for mask, node in ((true, first), (outside & ~true, second)):
            if unknown:
                self._quietly(lambda node=node: values.append(self.value(node)))  # type: ignore[misc]
                continue
            self._mask = mask
            try:
                values.append(self.value(node))
            except NotEvaluated:
                if mask:
                    raise
                values.append(Value("void", UNKNOWN))  # no lane takes it: only its type would count
        self._mask = outside
        a, b = values
        kind = a.type if a.type != "void" else b.type
        if is_integer(a.type) and is_integer(b.type) and a.type != b.type:
            kind = common(a.type, b.type)
        if unknown:
            return Value(kind, UNKNOWN)
        if true in (0, outside):
            return cast(a if true else b, kind) if isinstance(kind, str) else a if true else b
        if isinstance(kind, Layout):
            return Value(kind, UNKNOWN)
        return Value(kind, chosen(true, cast(a, kind).data, cast(b, kind).data))

    def _assign(self, target: Node, source: Node) -> Place:
        if source[0] == "list":
            place = self._place(target)
            self._store(place, self._listed(place.type, source[1]), target[-1])
            return place
        value = self.value(source)
        place = self._place(target)
        self._store(place, value, target[2] if target[0] == "at" else target)
        return place

    def _place(self, node: Node) -> Place:
        place = self.operand(node)
        if not isinstance(place, Place):
            raise NotEvaluated(f"{node[0]} has no place")
        return place

    def _step(self, symbol: str, target: Node, is_before: bool) -> Value:
        place = self._place(target)
        before = self._load(place, target[2] if target[0] == "at" else None)
        after = binary(symbol, before, Value("int", [1]))
        self._store(place, after, target[2] if target[0] == "at" else target)
        return after if is_before else before

    def _cast(self, kind: Node, node: Node) -> Value:
        return cast(self.value(node), self.type(kind))

    def _made(self, kind: Node, items: Sequence[Node]) -> Value:
        return self._listed(self.type(kind), items)

    def _list(self, items: Sequence[Node]) -> Value:
        """A list in braces whose type the source leaves to its use: its parts are not known."""
        for item in items:
            self.value(item)
        return Value("list", UNKNOWN)

    def _listed(self, kind: Type, items: Sequence[Node]) -> Value:
        """A structure or an array from a list of its parts; parts that the list lacks are not known."""
        if not isinstance(kind, Layout) and not (isinstance(kind, tuple) and kind[0] == "array"):
            return cast(self.value(items[0]), kind) if items else cast(Value("int", [0]), kind)
        parts: list[tuple[int, Type]]
        if isinstance(kind, Layout):
            parts = list(kind.fields.values())
        else:
            parts = [(at * size_of(kind[1]), kind[1]) for at in range(int(kind[2]))]
        cells: dict[int, tuple[int, Data]] = {}
        for item, (offset, part) in zip(items, parts, strict=False):
            value = self._listed(part, item[1]) if item[0] == "list" else self.value(item)
            if isinstance(part, Layout | tuple) and value.cells:
                cells |= {offset + at: cell for at, cell in value.cells.items()}
            else:
                cells[offset] = (size_of(part), cast(value, part).data)
        return Value(kind, UNKNOWN, cells)

    def _size(self, kind: Node) -> Value:
        return Value("unsigned long", [size_of(self.type(kind))])

    def _size_of(self, node: Node) -> Value:
        if node[0] == "name" and isinstance(bound := self._find(node[1]), str | tuple | Layout):
            return Value("unsigned long", [size_of(bound)])
        operand = self.operand(node)
        return Value("unsigned long", [size_of(operand.type)])

    def _at(self, node: Node, site: Any) -> Place:
        pointer = self.value(node)
        if not isinstance(pointer.type, tuple):
            raise NotEvaluated("an address that is no pointer")
        return Place(pointer.type[1], pointer.data)

    def _address(self, node: Node) -> Value:
        place = self._place(node)
        return Value(("pointer", place.type), place.data)

    def _field(self, node: Node, name: str) -> Value | Place:
        whole = self.operand(node)
        if isinstance(whole, Place) and node[0] == "at" and self._spaces(whole) - {"local"}:
            return self._part(self._load(whole, node[2]), name)  # a load of the whole structure
        if isinstance(whole, Value):
            return self._part(whole, name)
        if not isinstance(whole.type, Layout) or name not in whole.type.fields:
            raise NotEvaluated(f"no field {name}")
        offset, kind = whole.type.fields[name]
        return Place(kind, each(lambda pointer: (pointer[0], pointer[1] + offset), whole.data))

    def _part(self, whole: Value, name: str) -> Value:
        if not isinstance(whole.type, Layout) or name not in whole.type.fields:
            raise NotEvaluated(f"no field {name}")
        offset, kind = whole.type.fields[name]
        if isinstance(kind, Layout | tuple):
            size = size_of(kind)
            inner = {at - offset: cell for at, cell in whole.cells.items() if offset <= at < offset + size}
            return Value(kind, UNKNOWN, inner)
        size, data = whole.cells.get(offset, (0, UNKNOWN))
        return Value(kind, data if size == size_of(kind) else UNKNOWN)

    # --- calls

    def _lambda(self, parameters: Sequence[tuple[str, Node, Node | None]], body: Node) -> Value:
        return Value("function", [_Lambda(parameters, body, list(self._frame.scopes))])

    def _template(self, name: str, arguments: tuple[Node, ...]) -> Value:
        return Value("function", [("template", name, arguments)])

    def _call(self, callee: Node, arguments: Sequence[Node], site: Any) -> Value:
        given: Sequence[Node] = ()
        if callee[0] == "template":
            name, given = callee[1], callee[2]
        elif callee[0] == "name":
            name = callee[1]
        else:
            raise NotEvaluated("a call of a function of a structure")
        bound = self._find(name)
        target = self._load(bound) if isinstance(bound, Place) else bound
        if isinstance(target, Value) and target.type == "function":
            function = target.data[0]
            if isinstance(function, _Lambda):
                operands = [self.operand(node) for node in arguments]
                return self._enter(list(function.scopes), function.parameters, function.body, operands)
            bound = function
        if isinstance(bound, tuple):
            name, given = bound[1], bound[2] if bound[0] == "template" else ()
        if name in self._file.functions:
            operands = [self.operand(node) for node in arguments]
            return self._called(name, given, operands)
        return self._built_in(name, arguments, site)

    def _called(self, name: str, given: Sequence[Node], operands: Sequence[Value | Place]) -> Value:
        """Call the function of that name which takes these operands."""
        fits: list[tuple[int, int, Function, dict[str, Any]]] = []
        for function in self._file.functions[name]:
            self._file.parsed(function)
            parameters = function.parameters or []
            least = sum(default is None for _, _, default in parameters)
            if least <= len(operands) <= len(parameters):
                scope = self._bound_template(function.template, given)
                cost = self._mismatch(function, scope, operands)
                if cost is not None:
                    fits.append((cost, len(fits), function, scope))
        if not fits:
            raise NotEvaluated(f"no function {name} takes these arguments")
        _, _, function, scope = min(fits, key=lambda fit: fit[:2])
        assert function.parameters is not None
        assert function.body is not None
        return self._enter([self._globals, scope], function.parameters, function.body, operands)

    def _mismatch(self, function: Function, scope: dict[str, Any], operands: Sequence[Value | Place]) -> int | None:
        """Count the conversions of operands; None where one does not fit. `scope` gets the template's arguments."""
        names = {parameter.name: parameter.is_type for parameter in function.template}
        cost = 0
        for (_, node, _), operand in zip(function.parameters or (), operands, strict=False):
            found = self._deduced(node, operand.type, names, scope)
            if found is None:
                return None
            cost += found
        return cost if all(name in scope for name in names) else None

    def _deduced(self, node: Node, kind: Type, names: Mapping[str, bool], scope: dict[str, Any]) -> int | None:
        """Compare a parameter's type with an operand's, and take from it the parameters of a template."""
        if node[0] == "reference":
            return self._deduced(node[1], kind, names, scope)
        if kind == "list":
            return 1
        if node[0] in ("pointer", "array") and isinstance(kind, tuple):
            length = node[2] if node[0] == "array" and kind[0] == "array" else None
            if length is not None and length[0] == "name" and names.get(length[1]) is False:
                scope.setdefault(length[1], Value("int", [kind[2]]))
            inner = self._deduced(node[1], kind[1], names, scope)
            return 2 if inner is None and node[1] == ("named", "void", ()) else inner
        if node[0] == "named" and names.get(node[1]):
            known = scope.setdefault(node[1], kind)
            return 0 if known == kind else 1 if isinstance(known, str) and isinstance(kind, str) else None
        if isinstance(kind, tuple) or node[0] in ("pointer", "array"):
            return None if not isinstance(kind, str) else 2 if node[0] == "pointer" else None
        if node[0] == "named" and node[2]:  # a template of a structure
            return 0 if isinstance(kind, Layout) and kind.name == node[1] else None
        outside = self._frame
        self._frame = _Frame([self._globals, scope])
        try:
            wanted = self.type(node)
        finally:
            self._frame = outside
        if isinstance(wanted, Layout) or isinstance(kind, Layout):
            same = isinstance(wanted, Layout) and isinstance(kind, Layout) and wanted.name == kind.name
            return 0 if same else None
        return 0 if wanted == kind else 1

    def _enter(
        self,
        scopes: list[dict[str, Any]],
        parameters: Sequence[tuple[str, Node, Node | None]],
        body: Node,
        operands: Sequence[Value | Place],
    ) -> Value:
        """Run a body with operands as its parameters; the value that it returns."""
        values = [(operand, self._load(operand) if isinstance(operand, Place) and node[0] != "reference" else operand)
                  for operand, (_, node, _) in zip(operands, parameters, strict=False)]  # fmt: skip
        outside, mask = self._frame, self._mask
        self._frame = _Frame([*scopes, {}])
        try:
            for at, (name, node, default) in enumerate(parameters):
                if at < len(values):
                    value = values[at][1]
                elif default is not None:
                    value = self.value(default)
                else:
                    raise NotEvaluated(f"{name} has no argument")
                if isinstance(value, Place):
                    self._frame.scopes[-1][name] = value
                elif node == ("named", "auto", ()) or value.type == "function":
                    self._bind(name, value)
                else:
                    self._declare(name, cast(value, self.type(node)))
            self._run(body)
            return self._frame.value or Value("void", UNKNOWN)
        finally:
            self._frame, self._mask = outside, mask

    def _bind(self, name: str, value: Value) -> None:
        if value.type == "function":
            self._frame.scopes[-1][name] = value
        else:
            self._declare(name, value)

    def _built_in(self, name: str, arguments: Sequence[Node], site: Any) -> Value:
        """A function of CUDA or of `aiperf/bulk.cuh`."""
        values = [self.value(node) for node in arguments]
        if name in _LOADS:
            return self._load(Place(values[0].type[1], values[0].data), site)
        if name in _STORES:
            self._store(Place(values[0].type[1], values[0].data), values[1], site)
        elif name.startswith("atomic"):
            kind = values[0].type[1]
            self._store(Place(kind, values[0].data), values[1], site, "atomic")
            return Value(kind, UNKNOWN)
        elif name in _COPIES:
            piece = Layout(name, _COPIES[name], {})
            self._load(Place(piece, values[1].data), site)
            self._store(Place(piece, values[0].data), Value(piece, UNKNOWN), site)
        elif name in _ENGINE:
            self.trace.is_whole = False
        elif name in ("min", "max") and all(is_integer(value.type) for value in values):
            kind = common(values[0].type, values[1].type)
            return Value(kind, each(min if name == "min" else max, *(cast(value, kind).data for value in values)))
        elif name.startswith("make_") and (layout := vector(name.removeprefix("make_"))) is not None:
            parts = zip(layout.fields.values(), values, strict=True)
            return Value(layout, UNKNOWN, {at: (size_of(kind), cast(v, kind).data) for (at, kind), v in parts})
        elif name.startswith("__shfl"):
            return Value(values[1].type, UNKNOWN)
        elif name in ("__ballot_sync", "__popc", "__ffs", "__byte_perm", "__reduce_add_sync", "__float_as_uint"):
            return Value("unsigned int", UNKNOWN)
        return Value("float", UNKNOWN)

    # --- statements

    def _run(self, node: Node) -> None:
        """Run a statement for the lanes that are at work."""
        if self._mask:
            getattr(self, f"_run_{node[0]}")(*node[1:])

    def _run_block(self, statements: Sequence[Node]) -> None:
        self._frame.scopes.append({})
        for statement in statements:
            self._run(statement)
        self._frame.scopes.pop()

    def _run_expression(self, node: Node) -> None:
        self.operand(node)

    def _run_declare(self, is_shared: bool, declared: Sequence[tuple[str, Node, Node | None]]) -> None:
        for name, node, start in declared:
            if start is not None and node == ("named", "auto", ()):
                self._bind(name, self.value(start))
                continue
            kind = self.type(node)
            if is_shared:
                self._frame.scopes[-1][name] = Place(kind, [(Memory(name, "shared"), 0)])
            elif node[0] == "reference" and start is not None and isinstance(place := self.operand(start), Place):
                self._frame.scopes[-1][name] = Place(kind, place.data)
            elif start is None:
                self._frame.scopes[-1][name] = Place(kind, [(Memory(name), 0)])
            elif start[0] == "list":
                self._declare(name, self._listed(kind, start[1]))
            else:
                self._declare(name, cast(self.value(start), kind))

    def _run_structure(self, structure: Structure) -> None:
        self._frame.scopes[-1][structure.name] = self._layout(structure)

    def _run_if(self, condition: Node, first: Node, second: Node) -> None:
        before = self._mask
        true, unknown = self._lanes(condition)
        if unknown:
            self._not_known()
            self._forget(first, second)
            return
        for mask, branch in ((true, first), (before & ~true, second)):
            self._mask = mask
            self._run(branch)
        self._mask = before & ~self._gone()

    def _gone(self) -> int:
        return self._frame.returned | self._frame.left

    def _run_loop(self, first: Node, condition: Node, step: Node, body: Node, tests_first: bool) -> None:
        outside, self._frame.left = self._frame.left, 0
        before, outer_broken = self._mask, self._loop_broken
        self._frame.scopes.append({})
        self._run(first)
        broken, rounds = 0, 0
        while self._mask:
            if tests_first or rounds:
                true, unknown = self._lanes(condition)
                if unknown:
                    self._not_known()
                    self._forget(body, step)
                    break
                self._mask = true
                if not true:
                    break
            if rounds > 1 and self._steps > self._most_steps:
                if not self._is_cut:
                    raise NotEvaluated("more rounds of a loop than are evaluated")
                self._forget(body, step)
                break
            rounds += 1
            self._frame.left = 0
            at_work = self._mask
            self._loop_broken = 0
            self._run(body)
            broken |= self._loop_broken
            self._mask = at_work & ~self._frame.returned & ~broken
            if self._mask:
                self.operand(step)
        self._frame.scopes.pop()
        self._frame.left, self._loop_broken = outside, outer_broken
        self._mask = before & ~self._gone()

    _loop_broken = 0

    def _run_break(self) -> None:
        self._loop_broken |= self._mask
        self._frame.left |= self._mask
        self._mask = 0

    def _run_continue(self) -> None:
        self._frame.left |= self._mask
        self._mask = 0

    def _run_return(self, node: Node | None) -> None:
        if node is not None:
            value, old = self.value(node), self._frame.value
            if old is None:
                self._frame.value = value
            elif old.type == value.type and not old.cells and not value.cells:
                self._frame.value = Value(old.type, chosen(self._mask, value.data, old.data))
            else:
                self._frame.value = Value(old.type, UNKNOWN)
        self._frame.returned |= self._mask
        self._mask = 0

    def _run_assembler(self, outputs: Sequence[Node]) -> None:
        for node in outputs:
            place = self._place(node)
            self._store(place, Value(place.type, UNKNOWN), node[-1])

    def _forget(self, *nodes: Node) -> None:
        """Make unknown what statements assign that may or may not run. Raises `NotEvaluated` if they leave."""
        self.trace.is_whole = False
        for part in (part for node in nodes for part in _parts(node)):
            if part[0] in Leaving:
                raise NotEvaluated(f"{part[0]} on a value from memory")
            for target in self._targets(part):
                bound = self._find(_root(target))
                if not isinstance(bound, Place):
                    continue
                through = target[0] in ("at", "field") and isinstance(bound.type, tuple) and bound.type[0] == "pointer"
                for pointer in filter(None, self._load(bound).data if through else bound.data):
                    pointer[0].cells.clear()

    def _targets(self, part: Node) -> Iterator[Node]:
        """The expressions that a part of a statement may assign to."""
        if part[0] == "assign":
            yield part[1]
        elif part[0] == "step":
            yield part[2]
        elif part[0] == "assembler":
            yield from part[1]
        elif part[0] == "call":
            name = part[1][1] if part[1][0] in ("name", "template") else ""
            for at, argument in enumerate(part[2]):
                bound = self._find(_root(argument))
                is_array = isinstance(bound, Place) and isinstance(bound.type, tuple) and bound.type[0] == "array"
                if is_array or any(_refers(function, at) for function in self._file.functions.get(name, ())):
                    yield argument
            bound = self._find(name)
            if isinstance(bound, Value) and isinstance(bound.data[0], _Lambda):
                for inner in _parts(bound.data[0].body):
                    yield from self._targets(inner) if inner[0] != "call" else inner[2]


def _parts(node: Any) -> Iterator[Node]:
    """A node and all nodes in it."""
    if isinstance(node, tuple):
        if node and isinstance(node[0], str):
            yield node
        for part in node:
            yield from _parts(part)


def _refers(function: Function, at: int) -> bool:
    """True for a function whose parameter at this place is a reference, as far as it was read."""
    parameters = function.parameters
    return parameters is None or (at < len(parameters) and parameters[at][1][0] == "reference")


def _root(node: Node) -> str:
    """The variable that an expression is a part of."""
    while node[0] in ("at", "field", "binary", "address", "cast"):
        node = node[2] if node[0] in ("binary", "cast") else node[1]
    return str(node[1]) if node[0] == "name" else ""
