"""Expressions of matrices, their operations, rules that rewrite them, and two ways to apply these.

An expression is a name, or `(operator, left, right)` with `@` and `+`, or `("T", one)`. Names have shapes.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

Expression = Any  # a name, or a tuple of an operator and expressions
Shapes = Mapping[str, tuple[int, int]]
Node = tuple[Any, ...]  # an operator and the classes of its operands, or a name alone

ROUNDS = 8  # of the rules over all classes


def shape(expression: Expression, shapes: Shapes) -> tuple[int, int]:
    """Rows and columns of the value of an expression."""
    if isinstance(expression, str):
        return shapes[expression]
    operator, *operands = expression
    return shaped(operator, [shape(one, shapes) for one in operands])


def shaped(operator: str, operands: list[tuple[int, int]]) -> tuple[int, int]:
    if operator == "T":
        return operands[0][1], operands[0][0]
    return operands[0] if operator == "+" else (operands[0][0], operands[1][1])


def work(operator: str, operands: list[tuple[int, int]]) -> int:
    """The operations of one operator, a multiply-add as two; a transposition is none."""
    if operator == "T":
        return 0
    rows, inner = operands[0]
    return rows * inner if operator == "+" else 2 * rows * inner * operands[1][1]


def flops(expression: Expression, shapes: Shapes) -> int:
    """The operations of an expression, with equal terms computed once."""
    terms: set[Expression] = set()

    def visit(one: Expression) -> None:
        if one not in terms:
            terms.add(one)
            for operand in () if isinstance(one, str) else one[1:]:
                visit(operand)

    visit(expression)
    operations = [one for one in terms if not isinstance(one, str)]
    return sum(work(operator, [shape(one, shapes) for one in operands]) for operator, *operands in operations)


# --- rules: of a node and the nodes of its operands, the expressions over classes that are equal to it


def rewrites(node: Node, nodes_of: Any) -> Iterator[Expression]:
    """The expressions that are equal to a node, in terms of the operands of its operands."""
    operator, *operands = node
    if operator == "T":
        for inner in nodes_of(operands[0]):
            if inner[0] == "T":
                yield inner[1]
            elif inner[0] in ("@", "+"):
                left, right = ("T", inner[1]), ("T", inner[2])
                yield ("@", right, left) if inner[0] == "@" else ("+", left, right)
        return
    if operator not in ("@", "+"):
        return
    left, right = operands
    if operator == "+":
        yield ("+", right, left)
    for inner in nodes_of(left):
        if inner[0] == operator:
            yield (operator, inner[1], (operator, inner[2], right))
        if operator == "@" and inner[0] == "+":
            yield ("+", ("@", inner[1], right), ("@", inner[2], right))
    for inner in nodes_of(right):
        if inner[0] == operator:
            yield (operator, (operator, left, inner[1]), inner[2])
        if operator == "@" and inner[0] == "+":
            yield ("+", ("@", left, inner[1]), ("@", left, inner[2]))
    if operator == "+":
        for one, other in product(nodes_of(left), nodes_of(right)):
            if one[0] == other[0] == "@" and one[1] == other[1]:
                yield ("@", one[1], ("+", one[2], other[2]))
            if one[0] == other[0] == "@" and one[2] == other[2]:
                yield ("@", ("+", one[1], other[1]), one[2])
            if one[0] == other[0] == "T":
                yield ("T", ("+", one[1], other[1]))
    elif operator == "@":
        for one, other in product(nodes_of(left), nodes_of(right)):
            if one[0] == other[0] == "T":
                yield ("T", ("@", other[1], one[1]))


# --- greedy


def greedy(expression: Expression, shapes: Shapes) -> Expression:
    """Apply the rewrite that saves most, until none saves."""
    while True:
        least = min(_changed(expression), key=lambda one: flops(one, shapes), default=expression)
        if flops(least, shapes) >= flops(expression, shapes):
            return expression
        expression = least


def _changed(expression: Expression) -> Iterator[Expression]:
    """The expressions that one rewrite makes of an expression, anywhere in it."""
    if isinstance(expression, str):
        return
    yield from rewrites(expression, lambda operand: [(operand,) if isinstance(operand, str) else operand])
    operator, *operands = expression
    for at, operand in enumerate(operands):
        for changed in _changed(operand):
            yield (operator, *operands[:at], changed, *operands[at + 1 :])


# --- an e-graph


class EGraph:
    """Classes of equal expressions. All rewrites stay; none replaces what it was made of."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.parent: list[int] = []
        self.classes: dict[int, set[Node]] = {}
        self.shape_of: dict[int, tuple[int, int]] = {}
        self.known: dict[Node, int] = {}

    def find(self, at: int) -> int:
        while self.parent[at] != at:
            at = self.parent[at]
        return at

    def add(self, expression: Expression) -> int:
        """The class of an expression, whose operands may be classes."""
        if isinstance(expression, int):
            return self.find(expression)
        if isinstance(expression, str):
            return self._class((expression,), self.shapes[expression])
        operator, *operands = expression
        classes = [self.add(one) for one in operands]
        return self._class((operator, *classes), shaped(operator, [self.shape_of[one] for one in classes]))

    def _class(self, node: Node, its_shape: tuple[int, int]) -> int:
        if node not in self.known:
            self.known[node] = at = len(self.parent)
            self.parent.append(at)
            self.classes[at], self.shape_of[at] = {node}, its_shape
        return self.find(self.known[node])

    def union(self, one: int, other: int) -> bool:
        """Make two classes one; whether they were two."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return False
        self.parent[other] = one
        self.classes[one] |= self.classes.pop(other)
        return True

    def rebuild(self) -> None:
        """Nodes with equal operands are equal: unite their classes until nothing changes."""
        while True:
            known: dict[Node, int] = {}
            pairs = []
            for at, nodes in self.classes.items():
                named = {(node[0], *map(self.find, node[1:])) for node in nodes}
                self.classes[at] = named
                for node in named:
                    if known.setdefault(node, at) != at:
                        pairs.append((known[node], at))
            self.known = known
            if not pairs:
                return
            for one, other in pairs:
                self.union(one, other)

    def saturate(self, rounds: int = ROUNDS, most: int = 4000) -> None:
        """Apply all rules to all classes, until they make nothing new, or for some rounds, or to a number of nodes."""
        for _ in range(rounds):
            found = [
                (at, expression)
                for at, nodes in self.classes.items()
                for node in nodes
                for expression in rewrites(node, lambda operand: self.classes[self.find(operand)])
            ]
            changed = [self.union(at, self.add(expression)) for at, expression in found]
            self.rebuild()
            if not any(changed) or len(self.known) > most:
                return

    def extract(self, at: int) -> Expression:
        """The expression of a class with the fewest operations, each use of an equal term counted."""
        best: dict[int, tuple[int, Expression]] = {}
        while True:
            changed = False
            for one, nodes in self.classes.items():
                for operator, *operands in sorted(nodes, key=repr):
                    if not operands:
                        priced = 0, operator
                    elif all(self.find(operand) in best for operand in operands):
                        parts = [best[self.find(operand)] for operand in operands]
                        own = work(operator, [self.shape_of[self.find(operand)] for operand in operands])
                        priced = own + sum(part[0] for part in parts), (operator, *(part[1] for part in parts))
                    else:
                        continue
                    if one not in best or priced[0] < best[one][0]:
                        best[one], changed = priced, True
            if not changed:
                return best[self.find(at)][1]
