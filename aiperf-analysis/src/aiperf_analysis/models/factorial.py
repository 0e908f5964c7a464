"""Factorial designs of mechanisms: which contrasts of log times answer which question.

A combination is the set of mechanisms that a variant has; the baseline is the empty set. A design is a context, which
all its combinations have, and the mechanisms that vary. All contrasts are weights of log times by combination, in the
form of `aiperf_core.stats.intervals.log_contrast`. Their signs are such that a gain is above 1.

Effects and aliases are those of two-level factorial designs (Box, Hunter and Hunter, Statistics for Experimenters, 2nd
edition, 2005, chapters 5 and 6). Credit is the Shapley value (Shapley, A Value for n-Person Games, 1953).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations

import numpy as np
from attrs import frozen

Combination = frozenset[str]
Weights = dict[Combination, float]
Effect = frozenset[str]

NOTHING: Combination = frozenset()
# Weights below this are rounding errors of the least squares.
_NEGLIGIBLE = 1e-9
# Mechanisms of a fractional design. All their effects are written out, 2^k of them.
MOST_FRACTIONAL = 7


@frozen
class Design:
    """A full factorial: every combination of `names`, each together with `context`, was measured."""

    context: Combination
    names: tuple[str, ...]

    @property
    def cells(self) -> list[Combination]:
        """Its combinations, from none of the names to all of them."""
        return [self.context | one for one in subsets(self.names)]

    @property
    def whole(self) -> Combination:
        """The combination of everything."""
        return self.context | set(self.names)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of its mechanisms."""
        return list(combinations(self.names, 2))


@frozen
class Fraction:
    """A regular fraction of a factorial.

    words: the defining relation: products of mechanisms that are constant over the design, with their sign.
    aliases: by main effect and interaction of two, the effects that no contrast can tell from it.
    """

    names: tuple[str, ...]
    cells: tuple[Combination, ...]
    words: dict[Effect, int]
    aliases: dict[Effect, tuple[Effect, ...]]

    @property
    def total(self) -> int:
        """The number of combinations of the full design."""
        return int(2 ** len(self.names))


def subsets(names: Iterable[str]) -> Iterator[Combination]:
    """All subsets, the small ones first."""
    kept = sorted(names)
    return (frozenset(one) for one in chain.from_iterable(combinations(kept, size) for size in range(len(kept) + 1)))


def designs(cells: Collection[Combination]) -> list[Design]:
    """The full factorials of at least two mechanisms among measured combinations that are part of no larger one."""
    known = set(cells)
    found = []
    for context in known:
        for whole in known:
            names = whole - context
            if context < whole and len(names) >= 2 and 2 ** len(names) <= len(known):
                design = Design(context, tuple(sorted(names)))
                if all(cell in known for cell in design.cells):
                    found.append(design)
    covered = {one: set(one.cells) for one in found}
    largest = [one for one in found if not any(covered[one] < covered[other] for other in found)]
    return sorted(largest, key=lambda one: (-len(one.names), len(one.context), sorted(one.whole)))


def interaction(design: Design, first: str, second: str) -> Weights:
    """The gain of two mechanisms over the product of their gains, as the mean over the other mechanisms.

    Of two mechanisms A and B alone: t(A) t(B) / (t(0) t(AB)).
    """
    others = [one for one in design.names if one not in (first, second)]
    share = 1 / 2 ** len(others)
    weights: Weights = {}
    for other in subsets(others):
        base = design.context | other
        weights |= {
            base | {first}: share,
            base | {second}: share,
            base: -share,
            base | {first, second}: -share,
        }
    return weights


def main_effect(design: Design, name: str) -> Weights:
    """The gain of a mechanism, as the mean over the others."""
    return _steps(design, [one for one in design.names if one != name], NOTHING, name)


def added(design: Design, name: str, to: str) -> Weights:
    """The gain of a mechanism where another one is already there, as the mean over the rest."""
    return _steps(design, [one for one in design.names if one not in (name, to)], frozenset({to}), name)


def _steps(design: Design, others: Sequence[str], present: Combination, name: str) -> Weights:
    share = 1 / 2 ** len(others)
    weights: Weights = {}
    for other in subsets(others):
        before = design.context | present | other
        weights |= {before: share, before | {name}: -share}
    return weights


def credit(design: Design, name: str) -> Weights:
    """The share of a mechanism in the whole gain: its step, as the mean over all orders. The credits multiply to it."""
    others = [one for one in design.names if one != name]
    count = len(design.names)
    weights: Weights = {}
    for before in subsets(others):
        share = math.factorial(len(before)) * math.factorial(count - len(before) - 1) / math.factorial(count)
        weights[design.context | before] = share
        weights[design.context | before | {name}] = -share
    return weights


def gain(design: Design) -> Weights:
    """The gain of all mechanisms together."""
    return {design.context: 1.0, design.whole: -1.0}


def holm(probabilities: Sequence[float]) -> list[float]:
    """Adjusted probabilities in the given order (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = sorted(range(len(probabilities)), key=lambda index: probabilities[index])
    adjusted, least = [1.0] * len(probabilities), 0.0
    for place, index in enumerate(order):
        least = max(least, (len(probabilities) - place) * probabilities[index])
        adjusted[index] = min(1.0, least)
    return adjusted


def fraction(cells: Collection[Combination]) -> Fraction | None:
    """The regular fraction that the combinations are, with its aliases; None where they are none.

    A regular fraction has 2^(k-p) combinations of k mechanisms, and 2^p - 1 words. Designs in which a mechanism is an
    alias of the mean, or of another mechanism, separate nothing, and are no fraction here.
    """
    names = tuple(sorted(frozenset().union(*cells)))
    count = len(set(cells))
    if not 3 <= len(names) <= MOST_FRACTIONAL or count & (count - 1) or count >= 2 ** len(names):
        return None
    signs = {effect: [_sign(effect, cell) for cell in cells] for effect in subsets(names) if effect}
    words = {effect: column[0] for effect, column in signs.items() if len(set(column)) == 1}
    if (len(words) + 1) * count != 2 ** len(names) or any(len(word) < 3 for word in words):
        return None
    estimated = [effect for effect in subsets(names) if 1 <= len(effect) <= 2]
    aliases = {effect: tuple(sorted((effect ^ word for word in words), key=_rank)) for effect in estimated}
    return Fraction(names, tuple(sorted(cells, key=_rank)), words, aliases)


def fractional_effect(design: Fraction, effect: Effect) -> Weights:
    """The contrast of an effect of one or two mechanisms, as of `main_effect` and `interaction`.

    It is the sum of the effect and its aliases, with the signs of the words.
    """
    scale = len(design.cells) / 2 ** len(effect)
    return {cell: -_sign(effect, cell) / scale for cell in design.cells}


def _rank(one: frozenset[str]) -> tuple[int, list[str]]:
    return len(one), sorted(one)


def _sign(effect: Effect, cell: Combination) -> int:
    """The level of an effect in a combination: 1 or -1."""
    return -1 if len(effect - cell) % 2 else 1


def estimator(cells: Collection[Combination], wanted: Combination) -> Weights | None:
    """The weights that predict a combination from others; None where they do not determine it.

    Log times are a sum of the mean, an effect of each mechanism and, for each pair of which a full square is among the
    cells, an interaction.
    """
    known = sorted(cells, key=_rank)
    names = sorted(frozenset().union(*known, wanted))
    pairs = [pair for pair in combinations(names, 2) if _has_square(set(known), *pair)]
    model = np.array([_terms(cell, names, pairs) for cell in known])
    target = np.array(_terms(wanted, names, pairs))
    weights = target @ np.linalg.pinv(model)
    if not np.allclose(weights @ model, target, atol=1e-8):
        return None
    return {cell: float(weight) for cell, weight in zip(known, weights, strict=True) if abs(weight) > _NEGLIGIBLE}


def _has_square(known: set[Combination], first: str, second: str) -> bool:
    return any(
        {base | {first}, base | {second}, base | {first, second}} <= known
        for base in known
        if first not in base and second not in base
    )


def _terms(cell: Combination, names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[float]:
    alone = [float(name in cell) for name in names]
    return [1.0, *alone, *(float(first in cell and second in cell) for first, second in pairs)]


def held_out_errors(logs: Mapping[Combination, float]) -> dict[Combination, float]:
    """The error of the log time of each combination that the others determine: predicted less measured."""
    errors = {}
    for cell in logs:
        rest = [one for one in logs if one != cell]
        weights = estimator(rest, cell) if rest else None
        if weights is not None:
            errors[cell] = sum(weight * logs[one] for one, weight in weights.items()) - logs[cell]
    return errors
