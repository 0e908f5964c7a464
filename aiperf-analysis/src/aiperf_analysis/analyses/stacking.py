"""Which mechanisms multiply, and which stand in each other's way: ladders and factorials of one target."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from attrs import asdict, evolve, field, frozen

from aiperf_analysis.models import factorial
from aiperf_analysis.models.draws import probability
from aiperf_analysis.models.factorial import NOTHING, Combination, Design, Fraction, Weights
from aiperf_analysis.options import option
from aiperf_analysis.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    Origin,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
    figure,
)
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.intervals import Blocks, log_contrast

MULTIPLIES, SYNERGY, OVERLAP, CONFLICT = "MULTIPLIES", "SYNERGY", "OVERLAP", "CONFLICT"
INCONCLUSIVE, NOT_MEASURED, INCOMPATIBLE = "INCONCLUSIVE", "NOT MEASURED", "INCOMPATIBLE"
VERDICTS = (MULTIPLIES, SYNERGY, OVERLAP, CONFLICT, INCONCLUSIVE, INCOMPATIBLE, NOT_MEASURED)
SIGNIFICANT = 0.05
# Of a ladder: the largest relative difference between the product of its steps and its total.
ROUNDING = 1e-3
MOST_LADDERS = 12  # that are drawn
NO_SAMPLES = "the samples are gone, and stored intervals cannot be combined; name the bundle's folder"
TOO_FEW_PASSES = "the combinations have too few passes in common for an interval; run longer: --budget, --tier"


@frozen
class Options:
    """Options of `stacking`."""

    estimate: bool = option(
        False, "Also estimate combinations that were not measured. They are marked ESTIMATE."
    )  # fmt: skip


@frozen(eq=False)
class Stack:
    """The combinations of mechanisms of one target in one bundle.

    entries: by combination the row that stands for it. others: further rows of a combination, which are not used.
    ended: combinations whose rows are not believed.
    """

    name: str
    entries: dict[Combination, Entry]
    others: dict[Combination, list[str]] = field(factory=dict)
    ended: dict[Combination, Row] = field(factory=dict)

    @property
    def any(self) -> Entry:
        """One of its entries, for what all have in common."""
        return next(iter(self.entries.values()))

    @property
    def floor(self) -> float:
        """The smallest relative difference that matters."""
        return self.any.result.floor

    @cached_property
    def designs(self) -> list[Design]:
        """The full factorials."""
        return factorial.designs(self.entries)

    @cached_property
    def blocks(self) -> dict[Combination, Blocks]:
        """The samples of the combinations that have some."""
        found = ((cell, one.blocks()) for cell, one in self.entries.items())
        return {cell: blocks for cell, blocks in found if blocks is not None}

    def contrast(self, weights: Weights) -> Estimate | None:
        """The contrast of these combinations on shared draws; None without samples, or with too few."""
        if not weights.keys() <= self.blocks.keys():
            return None
        return log_contrast([self.blocks[cell] for cell in weights], list(weights.values()))

    def shown(self, weights: Weights) -> Figure:
        """The figure of a contrast."""
        reason = TOO_FEW_PASSES if weights.keys() <= self.blocks.keys() else NO_SAMPLES
        return figure(self.contrast(weights), reason=reason)

    def origins(self, cells: Iterable[Combination]) -> list[Origin]:
        """The rows of these combinations."""
        return [self.entries[cell].origin for cell in cells if cell in self.entries]


@frozen(eq=False)
class Pair:
    """Two mechanisms of a target, and what was found about them.

    together: the gain over the product of the two gains.
    better: the gain of both over the better of the two.
    """

    stack: Stack
    first: str
    second: str
    verdict: str
    context: Combination = NOTHING
    design: Design | None = None
    together: Figure = field(factory=lambda: Figure(value=None, reason="not measured"))
    better: Figure = field(factory=lambda: Figure(value=None, reason="not measured"))
    probability: float | None = None
    reason: str = ""

    @property
    def label(self) -> str:
        """The target and the pair."""
        return f"{self.stack.name}: {self.first} x {self.second}"


def analyze(selection: Selection, options: Options) -> Result:
    """Find which mechanisms multiply, and which overlap or conflict, from variants of one target and bundle.

    A variant declares its mechanisms with `adds`. For mechanisms A and B, g = t(A) t(B) / (t(0) t(AB)) is the gain of
    both over the product of their gains. Its interval comes from draws that all four share, pass by pass. MULTIPLIES:
    the interval lies within 1 +/- the floor. SYNERGY: above. OVERLAP: below, and both together are not slower than the
    better one alone. CONFLICT: below, and both together are slower than that one. The newest result of each target
    counts.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    stacks = _stacks(newest)
    pairs = [pair for one in stacks for pair in _pairs(one)]
    ladders = [ladder for one in newest.targets().values() for ladder in _ladders(one)]
    combined = [one for one in stacks if any(len(cell) > 1 for cell in one.entries)]
    counts = Counter(one.verdict for one in pairs)
    measured = [one for one in pairs if one.verdict not in (NOT_MEASURED, INCOMPATIBLE)]
    tables = [_pair_table(pairs), *_matrices(stacks, measured), *_design_tables(stacks), *_fraction_tables(stacks)]
    assumptions = [
        "an interaction holds for this target, size, device and kind of machine; across targets nothing is stacked",
        "an interval is that of a repeated run on this machine",
        *_alternatives(stacks),
    ]
    if options.estimate:
        estimates = _estimates(stacks)
        tables.append(estimates)
        assumptions.append(
            "ESTIMATE: log times are taken as a sum of effects of mechanisms and of measured pairs; the range is "
            "widened by the largest error at a measured combination that was left out"
        )
    tables.append(_ladder_table(ladders))
    return Result(
        analysis="stacking",
        title="Stacking of mechanisms",
        summary=_summary(combined, measured, counts, ladders),
        status="ok" if combined else "nothing",
        options=asdict(options),
        tables=[one for one in tables if one.records],
        drawings=[*_drawings(measured), *_waterfalls(ladders)],
        assumptions=assumptions,
        left_out=newest.left_out,
        sources=newest.sources,
        details={"verdicts": {name: counts[name] for name in VERDICTS}},
    )


def _summary(
    combined: Sequence[Stack], measured: Sequence[Pair], counts: Mapping[str, int], ladders: Sequence["Ladder"]
) -> list[str]:
    if not combined:
        return [
            "Not measured: no believed row combines two mechanisms. A variant declares its mechanisms with adds=; two "
            "mechanisms need the variants A, B and both together."
        ]
    told = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    sentences = [f"{len(measured)} pairs of mechanisms measured in {len(combined)} targets with combinations: {told}."]
    if not measured:
        sentences = [
            f"No pair of mechanisms is measured: {len(combined)} targets combine mechanisms, but none has a believed "
            f"row of each alone, of both and of neither."
        ]
    broken = [one for one in ladders if one.mismatch]
    if broken:
        sentences.append(f"The steps of {len(broken)} of {len(ladders)} ladders do not multiply to the total.")
    return sentences


# --- the combinations of a target


def _stacks(selection: Selection) -> list[Stack]:
    """The combinations of each target, in the order of the names."""
    rows: dict[tuple[str, str], list[Entry]] = {}
    for one in selection.every:
        if one.row.role == "baseline" or (one.row.role == "variant" and one.row.mechanisms):
            rows.setdefault((one.run.id, one.result.target), []).append(one)
    found = [_stack(entries) for entries in rows.values()]
    return sorted((one for one in found if one.entries), key=lambda one: one.name)


def _stack(entries: Sequence[Entry]) -> Stack:
    stack = Stack(entries[0].result.target, {})
    for one in entries:
        cell = frozenset(one.row.mechanisms)
        if not one.believed:
            stack.ended.setdefault(cell, one.row)
        elif cell in stack.entries:
            stack.others.setdefault(cell, []).append(one.row.name)
        else:
            stack.entries[cell] = one
    for cell in stack.entries:
        stack.ended.pop(cell, None)
    return stack


def _alternatives(stacks: Sequence[Stack]) -> list[str]:
    return [
        f"{one.name}: '{one.entries[cell].row.name}' stands for {_said(cell)}; {', '.join(names)} "
        f"{'has' if len(names) == 1 else 'have'} the same mechanisms and {'is' if len(names) == 1 else 'are'} not used"
        for one in stacks
        for cell, names in one.others.items()
        if any(cell in design.cells for design in one.designs)
    ]


def _said(cell: Combination) -> str:
    return " + ".join(sorted(cell)) or "no mechanism"


# --- pairs


def _pairs(stack: Stack) -> list[Pair]:
    """The measured pairs of each design, and the pairs that some row combines without a complete square."""
    found = [pair for design in stack.designs for pair in _judged(stack, design)]
    known = {frozenset((one.first, one.second)) for one in found}
    for cell in sorted({*stack.entries, *stack.ended}, key=lambda one: (len(one), sorted(one))):
        for first in sorted(cell):
            for second in sorted(cell):
                if first < second and frozenset((first, second)) not in known:
                    known.add(frozenset((first, second)))
                    found.append(_unmeasured(stack, first, second))
    return found


def _judged(stack: Stack, design: Design) -> list[Pair]:
    """The pairs of a design with their verdicts; of several pairs, an interaction is claimed with Holm's correction."""
    contrasts = [stack.contrast(factorial.interaction(design, *pair)) for pair in design.pairs]
    adjusted = factorial.holm([probability(one) if one else 1.0 for one in contrasts])
    found = []
    for (first, second), together, chance in zip(design.pairs, contrasts, adjusted, strict=True):
        weights = factorial.interaction(design, first, second)
        pair = Pair(stack, first, second, NOT_MEASURED, design.context, design, stack.shown(weights))
        if together is None:
            found.append(evolve(pair, reason=pair.together.reason or ""))
            continue
        better = _over_better(stack, design, first, second)
        verdict, reason = verdict_of(together, better, chance, stack.floor)
        found.append(
            evolve(pair, verdict=verdict, better=figure(better, reason=TOO_FEW_PASSES), probability=chance,
                   reason=reason)
        )  # fmt: skip
    return found


def _over_better(stack: Stack, design: Design, first: str, second: str) -> Estimate | None:
    """The gain of both over the better of the two: over the one on which the other adds less."""
    both = [stack.contrast(factorial.added(design, *pair)) for pair in ((second, first), (first, second))]
    return min((one for one in both if one), key=lambda one: one.value, default=None)


def verdict_of(together: Estimate, better: Estimate | None, chance: float, floor: float) -> tuple[str, str]:
    """The verdict by the whole interval of g, and why it is INCONCLUSIVE."""
    if together.low >= 1 - floor and together.high <= 1 + floor:
        return MULTIPLIES, ""
    if not (together.low > 1 + floor or together.high < 1 - floor):
        return INCONCLUSIVE, "the interval of g reaches across the floor; run longer: --tier, --budget"
    if chance > SIGNIFICANT:
        return INCONCLUSIVE, "with Holm's correction for all pairs of the design, g may be 1"
    if together.low > 1 + floor:
        return SYNERGY, ""
    if better is not None and better.high < 1 - floor:
        return CONFLICT, ""
    if better is not None and better.low > 1 - floor:
        return OVERLAP, ""
    return INCONCLUSIVE, "g is below 1, but whether both together are slower than the better one alone is open"


def _unmeasured(stack: Stack, first: str, second: str) -> Pair:
    """A pair without a complete square: what ended, or which combination is missing."""
    context, missing = _nearest_square(stack, first, second)
    pair = Pair(stack, first, second, NOT_MEASURED, context)
    for cell in missing:
        row = stack.ended.get(cell)
        if row is not None:
            verdict = INCOMPATIBLE if row.verdict in (Verdict.FAILED, Verdict.SKIPPED) else NOT_MEASURED
            reason = f"{_said(cell)} ('{row.name}') is {row.verdict}: {row.reason or 'no reason was recorded'}"
            return evolve(pair, verdict=verdict, reason=reason, together=Figure(value=None, reason=reason))
    reason = f"no row has {' nor '.join(_said(cell) for cell in missing)}"
    return evolve(pair, reason=reason, together=Figure(value=None, reason="a combination was not measured"))


def _nearest_square(stack: Stack, first: str, second: str) -> tuple[Combination, list[Combination]]:
    """The context in which the fewest combinations of two mechanisms are missing, and these combinations."""
    pair = {first, second}
    contexts = {cell - pair for cell in {*stack.entries, *stack.ended}}

    def missing(context: Combination) -> list[Combination]:
        square = (context, context | {first}, context | {second}, context | pair)
        return [cell for cell in square if cell not in stack.entries]

    context = min(contexts, key=lambda one: (len(missing(one)), len(one), sorted(one)))
    return context, missing(context)


def _pair_table(pairs: Sequence[Pair]) -> Table:
    columns = [
        Column("target", "target"),
        Column("first", "mechanism"),
        Column("second", "and"),
        Column("verdict", "verdict", "verdict"),
        Column("together", "gain over the product", "figure"),
        Column("better", "over the better alone", "figure"),
        Column("with", "with"),
        Column("rows", "rows: none, first, second, both"),
        Column("reason", "why"),
    ]
    order = {name: index for index, name in enumerate(VERDICTS)}
    records = []
    for one in sorted(pairs, key=lambda one: (order[one.verdict] >= order[INCOMPATIBLE], one.stack.name)):
        measured = one.design is not None
        cells = factorial.interaction(one.design, one.first, one.second) if one.design else {}
        rows = [
            one.context,
            one.context | {one.first},
            one.context | {one.second},
            one.context | {one.first, one.second},
        ]
        names = ", ".join(one.stack.entries[cell].row.name for cell in rows) if measured else None
        records.append(
            Record(
                {
                    "target": one.stack.name,
                    "first": one.first,
                    "second": one.second,
                    "verdict": one.verdict,
                    "together": one.together,
                    "better": one.better,
                    "with": _said(one.context) if one.context else None,
                    "rows": names,
                    "reason": one.reason or None,
                },
                one.stack.origins(cells),
            )
        )
    return Table("pairs", "pairs of mechanisms: g = t(A) t(B) / (t(0) t(AB))", columns, records)


def _matrices(stacks: Sequence[Stack], measured: Sequence[Pair]) -> list[Table]:
    """Of a single target with at least three mechanisms in pairs: a mechanism against each other."""
    with_pairs = [one for one in stacks if any(pair.stack is one for pair in measured)]
    names = sorted({name for one in measured for name in (one.first, one.second)})
    if len(with_pairs) != 1 or len(names) < 3:
        return []
    cells: dict[tuple[str, str], str] = {}
    for pair in measured:
        cells.setdefault((pair.first, pair.second), pair.verdict)
        cells.setdefault((pair.second, pair.first), pair.verdict)
    columns = [Column("mechanism", "mechanism"), *(Column(name, name, "verdict") for name in names)]
    records = [
        Record({"mechanism": one, **{other: cells.get((one, other)) for other in names}}) for one in names
    ]  # fmt: skip
    return [Table("matrix", f"pairs of {with_pairs[0].name}", columns, records)]


# --- designs


def _design_tables(stacks: Sequence[Stack]) -> list[Table]:
    """The credit of each mechanism of each design, and the main effects of designs of three and more."""
    credit: list[Record] = []
    effects: list[Record] = []
    for stack in stacks:
        for design in stack.designs:
            shared: dict[str, Cell] = {
                "target": stack.name,
                "design": f"2^{len(design.names)}: {', '.join(design.names)}",
            }
            parts = [(name, factorial.credit(design, name)) for name in design.names]
            for name, weights in [*parts, ("all together", factorial.gain(design))]:
                cells: dict[str, Cell] = {**shared, "mechanism": name, "gain": stack.shown(weights)}
                credit.append(Record(cells, stack.origins(weights)))
            if len(design.names) > 2:
                for name in design.names:
                    weights = factorial.main_effect(design, name)
                    effects.append(
                        Record({**shared, "mechanism": name, "gain": stack.shown(weights)}, stack.origins(weights))
                    )
    columns = [
        Column("target", "target"),
        Column("design", "design"),
        Column("mechanism", "mechanism"),
        Column("gain", "gain", "figure"),
    ]
    note = "The credit is the mean step over all orders (Shapley). The credits of a design multiply to its whole gain."
    main = "The main effect of a mechanism is its gain as the geometric mean over all combinations of the others."
    return [
        Table("credit", "credit of each mechanism", columns, credit, note),
        Table("effects", "main effects", columns, effects, main),
    ]


def _fraction_tables(stacks: Sequence[Stack]) -> list[Table]:
    """The effects of fractional designs with their aliases."""
    columns = [
        Column("target", "target"),
        Column("effect", "effect"),
        Column("gain", "gain", "figure"),
        Column("aliases", "aliases: effects that it cannot be told from"),
    ]
    records = []
    designs: list[Fraction] = []
    for stack in stacks:
        design = factorial.fraction(stack.entries)
        if design is None:
            continue
        designs.append(design)
        for effect, aliases in design.aliases.items():
            weights = factorial.fractional_effect(design, effect)
            named = ", ".join(_product(alias) for alias in aliases)
            cells: dict[str, Cell] = {"target": stack.name, "effect": _product(effect), "gain": stack.shown(weights),
                                      "aliases": named}  # fmt: skip
            records.append(Record(cells, stack.origins(weights)))
    told = "; ".join(
        f"{len(one.cells)} of {one.total} combinations, defining words {', '.join(map(_product, one.words))}"
        for one in designs
    )
    note = f"Fractional designs ({told}). A figure belongs to the effect or to any of its aliases." if told else ""
    return [Table("fractions", "effects of fractional designs", columns, records, note)]


def _product(effect: frozenset[str]) -> str:
    return " x ".join(sorted(effect))


# --- estimates


def _estimates(stacks: Sequence[Stack]) -> Table:
    columns = [
        Column("target", "target"),
        Column("combination", "combination"),
        Column("verdict", "status", "verdict"),
        Column("gain", "gain over the baseline", "figure"),
        Column("error", "largest error when left out", "figure"),
        Column("held_out", "left out", "figure"),
    ]
    records = []
    for stack in stacks:
        for cell in _unmeasured_cells(stack):
            gain, error, count = _estimated(stack, cell)
            records.append(
                Record(
                    {
                        "target": stack.name,
                        "combination": _said(cell),
                        "verdict": "ESTIMATE" if gain.value is not None else NOT_MEASURED,
                        "gain": gain,
                        "error": error,
                        "held_out": counted(count, "count"),
                    },
                    stack.origins(stack.entries),
                )
            )
    return Table("estimates", "ESTIMATE: combinations that were not measured", columns, records)


def _unmeasured_cells(stack: Stack) -> list[Combination]:
    """The unions of two measured combinations that were not measured, and did not fail."""
    known = [cell for cell in stack.entries if cell]
    unions = {one | other for one in known for other in known} - stack.entries.keys() - stack.ended.keys()
    return sorted(unions, key=lambda one: (len(one), sorted(one)))


def _estimated(stack: Stack, cell: Combination) -> tuple[Figure, Figure, int]:
    """The gain of a combination over the baseline, the largest error of such estimates, and their number."""

    def refused(reason: str, count: int = 0) -> tuple[Figure, Figure, int]:
        none = Figure(value=None, certainty="estimated", reason=reason)
        return none, none, count

    logs = {
        one: math.log(entry.row.time_s.value) for one, entry in stack.entries.items() if entry.row.time_s is not None
    }
    weights = factorial.estimator(list(logs), cell) if NOTHING in logs else None
    if weights is None:
        return refused("the measured combinations do not determine it: a mechanism was never measured apart")
    errors = factorial.held_out_errors(logs)
    if not errors:
        return refused("no measured combination follows from the others, so the error of an estimate is unknown")
    # The gain is t(0) / t(cell), and t(cell) is predicted by the weights.
    contrast = {one: -weight for one, weight in weights.items()}
    contrast[NOTHING] = contrast.get(NOTHING, 0.0) + 1.0
    found = stack.contrast({one: weight for one, weight in contrast.items() if abs(weight) > 1e-9})
    if found is None:
        return refused(NO_SAMPLES, len(errors))
    worst = max(abs(one) for one in errors.values())
    wide = Figure(value=found.value, low=found.low * math.exp(-worst), high=found.high * math.exp(worst),
                  certainty="estimated")  # fmt: skip
    return wide, Figure(value=100 * math.expm1(worst), unit="%", certainty="counted"), len(errors)


# --- ladders


@frozen(eq=False)
class Ladder:
    """A variant and those that it builds on.

    rows: from the baseline to the last variant.
    steps: the gain of each variant over the row before it; None where it was not measured.
    mismatch: why the product of the steps is not the total; empty where it is.
    """

    entries: list[Entry]
    steps: list[Estimate | None]
    total: Estimate | None
    mismatch: str = ""

    @property
    def name(self) -> str:
        """The target and the last variant."""
        return self.entries[-1].name

    @property
    def product(self) -> float | None:
        """The product of the steps."""
        product = 1.0
        for step in self.steps:
            if step is None:
                return None
            product *= step.value
        return product


def _ladders(entries: Sequence[Entry]) -> list[Ladder]:
    """The ladders of a target with at least two steps, each up to a variant on which none builds."""
    by_name = {one.row.name: one for one in entries}
    bases = {one.row.builds_on for one in entries}
    baseline = next((one for one in entries if one.row.role == "baseline"), None)
    found = []
    for one in entries:
        if one.row.role != "variant" or one.row.name in bases or not one.row.builds_on or baseline is None:
            continue
        path, gap = [one], ""
        while (below := path[0].row.builds_on) is not None:
            if below not in by_name or by_name[below] in path:
                gap = f"'{below}', on which '{path[0].row.name}' builds, is not believed or not selected"
                break
            path.insert(0, by_name[below])
        steps = [step.row.speedup if step.row.builds_on is None else step.row.step_speedup for step in path]
        found.append(_checked(Ladder([baseline, *path], steps, one.row.speedup, gap)))
    return found


def _checked(ladder: Ladder) -> Ladder:
    """The ladder with the reason why its steps do not multiply to the total."""
    product, total = ladder.product, ladder.total
    if ladder.mismatch:
        return ladder
    if product is None or total is None:
        lacking = next((one.row.name for one, step in zip(ladder.entries[1:], ladder.steps, strict=True)
                        if step is None), ladder.entries[-1].row.name)  # fmt: skip
        return evolve(ladder, mismatch=f"'{lacking}' has no measured step")
    if abs(product / total.value - 1) <= ROUNDING:
        return ladder
    reason = (
        f"the product of the steps is {product:.4g} and the total {total.value:.4g}: the rows have not all passes in "
        "common, as where one ended early, so that each ratio covers other passes"
    )
    return evolve(ladder, mismatch=reason)


def _ladder_table(ladders: Sequence[Ladder]) -> Table:
    columns = [
        Column("ladder", "ladder"),
        Column("step", "step"),
        Column("adds", "adds"),
        Column("gain", "gain of the step", "figure"),
        Column("so_far", "gain so far", "figure"),
        Column("note", "steps and total"),
    ]
    records = []
    for ladder in ladders:
        count = len(ladder.steps)
        for index, (entry, step) in enumerate(zip(ladder.entries[1:], ladder.steps, strict=True)):
            note = None
            if index == count - 1:
                note = ladder.mismatch or "the product equals the total"
            records.append(
                Record(
                    {
                        "ladder": ladder.name,
                        "step": entry.row.name,
                        "adds": entry.row.mechanisms[-1] if entry.row.mechanisms else None,
                        "gain": figure(step, reason=ladder.mismatch or "the step was not measured"),
                        "so_far": figure(entry.row.speedup, reason="no speedup was measured"),
                        "note": note,
                    },
                    [entry.origin],
                )
            )
    return Table("ladders", "ladders: each variant adds a mechanism to the one before", columns, records)


# --- pictures


def _drawings(measured: Sequence[Pair]) -> list[Drawing]:
    if not measured:
        return []
    points = []
    for index, one in enumerate(measured):
        place = Figure(value=float(index), unit="count", certainty="counted")
        points.append(Point(label=one.label, x=one.together, y=place, mark=one.verdict))
    counts = Counter(one.verdict for one in measured)
    message = f"{len(measured)} pairs: " + ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    return [
        Drawing(
            name="pairs",
            title="Gain of two mechanisms over the product of their gains",
            kind="intervals",
            message=message,
            x=Axis(title="g: 1 means that the gains multiply", log=True),
            y=Axis(title="pair", unit="count"),
            series=[Series(name="pairs", points=points)],
        )
    ]


def _waterfalls(ladders: Sequence[Ladder]) -> list[Drawing]:
    """A picture for each ladder, those with the largest gains first."""
    whole = [one for one in ladders if one.total is not None and one.product is not None]
    whole.sort(key=lambda one: -(one.total.value if one.total else 0.0))
    return [_waterfall(one) for one in whole[:MOST_LADDERS]]


def _waterfall(ladder: Ladder) -> Drawing:
    points, before = [], 1.0
    for entry, step in zip(ladder.entries[1:], ladder.steps, strict=True):
        if step is None:
            continue
        after = before * step.value
        # The whiskers are those of the step, from where it begins.
        x = Figure(value=after, low=before * step.low, high=before * step.high)
        begin = Figure(value=before, certainty="derived")
        points.append(Point(label=entry.row.name, x=x, y=begin, mark=f"({step.value:.3g}x)", origin=entry.origin))
        before = after
    total = figure(ladder.total)
    points.append(Point(label="total", x=total, y=Figure(value=1.0, certainty="counted")))
    message = f"{ladder.name}: {len(ladder.steps)} steps, together {before:.3g}x"
    return Drawing(
        name=f"ladder-{ladder.name}",
        title=f"Ladder of {ladder.name}",
        kind="waterfall",
        message=message,
        x=Axis(title="gain over the baseline", log=True),
        y=Axis(title="gain before the step", log=True),
        series=[Series(name="steps", points=points)],
    )
