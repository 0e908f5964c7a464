"""Which mechanisms multiply, and which stand in each other's way: ladders and factorials of one target."""

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import asdict, evolve, field, frozen

from aiperf_analysis.analyses.composition import composition
from aiperf_analysis.analyses.estimates import estimates
from aiperf_analysis.analyses.ladders import Ladder, ladder_table, ladders_of, waterfalls
from aiperf_analysis.analyses.stacks import NOT_MEASURED, TOO_FEW_PASSES, Stack, alternatives, said, stacks_of
from aiperf_analysis.models import factorial
from aiperf_analysis.models.draws import probability
from aiperf_analysis.models.factorial import NOTHING, Combination, Design, Fraction
from aiperf_analysis.selection import Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Axis, Cell, Column, Drawing, Figure, Point, Record, Result, Series, Table, figure
from aiperf_core.results.models import Verdict

MULTIPLIES, SYNERGY, OVERLAP, CONFLICT = "MULTIPLIES", "SYNERGY", "OVERLAP", "CONFLICT"
INCONCLUSIVE, INCOMPATIBLE = "INCONCLUSIVE", "INCOMPATIBLE"
VERDICTS = (MULTIPLIES, SYNERGY, OVERLAP, CONFLICT, INCONCLUSIVE, INCOMPATIBLE, NOT_MEASURED)
SIGNIFICANT = 0.05


@frozen
class Options:
    """Options of `stacking`."""

    estimate: bool = option(False, "Also estimate combinations that were not measured. They are marked ESTIMATE.")
    share: tuple[str, ...] = option(
        (),
        "The share of a row in the time of a step, as a trace tells it, for the gain of the whole step.",
        metavar="TARGET:ROW=LOW..HIGH",
    )


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
    stacks = stacks_of(newest)
    pairs = [pair for one in stacks for pair in _pairs(one)]
    ladders = [ladder for one in newest.targets().values() for ladder in ladders_of(one)]
    combined = [one for one in stacks if any(len(cell) > 1 for cell in one.entries)]
    counts = Counter(one.verdict for one in pairs)
    measured = [one for one in pairs if one.verdict not in (NOT_MEASURED, INCOMPATIBLE)]
    tables = [*_pair_tables(pairs), *_matrices(stacks, measured), *_design_tables(stacks), *_fraction_tables(stacks)]
    assumptions = [
        "an interaction holds for this target, size, device and kind of machine; across targets nothing is stacked",
        "an interval is that of a repeated run on this machine",
        *alternatives(stacks),
    ]
    if options.estimate:
        tables.append(estimates(stacks))
        assumptions.append(
            "ESTIMATE: log times are taken as a sum of effects of mechanisms and of measured pairs; the range is "
            "widened by the largest error at a measured combination that was left out"
        )
    if options.share:
        tables.append(composition(options.share, newest.entries))
    tables.append(ladder_table(ladders))
    return Result(
        analysis="stacking",
        title="Stacking of mechanisms",
        summary=_summary(combined, measured, counts, ladders),
        status="ok" if combined else "nothing",
        options=asdict(options),
        tables=[one for one in tables if one.records],
        drawings=[*_drawings(measured), *waterfalls(ladders)],
        assumptions=assumptions,
        left_out=newest.left_out,
        sources=newest.sources,
        details={"verdicts": {name: counts[name] for name in VERDICTS}},
    )


def _summary(
    combined: Sequence[Stack], measured: Sequence[Pair], counts: Mapping[str, int], ladders: Sequence[Ladder]
) -> list[str]:
    if not combined:
        return [
            "Not measured: no believed row combines two mechanisms. A variant declares its mechanisms with adds=; two "
            "mechanisms need the variants A, B and both together."
        ]
    told = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    sentences = [
        f"{units.plural('pair', len(measured))} of mechanisms measured in {units.plural('target', len(combined))} with "
        f"combinations: {told}."
    ]
    if not measured:
        sentences = [
            f"No pair of mechanisms is measured in {units.plural('target', len(combined))} with combinations: none has "
            f"a believed row of each alone, of both and of neither."
        ]
    broken = [one for one in ladders if one.mismatch]
    if broken:
        sentences.append(f"The steps of {len(broken)} of {len(ladders)} ladders do not multiply to the total.")
    return sentences


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
            reason = f"{said(cell)} ('{row.name}') is {row.verdict}: {row.reason or 'no reason was recorded'}"
            return evolve(pair, verdict=verdict, reason=reason)
    return evolve(pair, reason=f"no row has {' nor '.join(said(cell) for cell in missing)}")


def _nearest_square(stack: Stack, first: str, second: str) -> tuple[Combination, list[Combination]]:
    """The context in which the fewest combinations of two mechanisms are missing, and these combinations."""
    pair = {first, second}
    contexts = {cell - pair for cell in {*stack.entries, *stack.ended}}

    def missing(context: Combination) -> list[Combination]:
        square = (context, context | {first}, context | {second}, context | pair)
        return [cell for cell in square if cell not in stack.entries]

    context = min(contexts, key=lambda one: (len(missing(one)), len(one), sorted(one)))
    return context, missing(context)


def _pair_tables(pairs: Sequence[Pair]) -> list[Table]:
    """The pairs with a design, and those without one, of which only the reason is known."""
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
    ordered = sorted(pairs, key=lambda one: (order[one.verdict] >= order[INCOMPATIBLE], one.stack.name))
    for one in ordered:
        if one.design is None:
            continue
        cells = factorial.interaction(one.design, one.first, one.second)
        rows = [
            one.context,
            one.context | {one.first},
            one.context | {one.second},
            one.context | {one.first, one.second},
        ]
        names = ", ".join(one.stack.entries[cell].row.name for cell in rows)
        records.append(
            Record(
                {
                    "target": one.stack.name,
                    "first": one.first,
                    "second": one.second,
                    "verdict": one.verdict,
                    "together": one.together,
                    "better": one.better,
                    "with": said(one.context) if one.context else None,
                    "rows": names,
                    "reason": one.reason or None,
                },
                one.stack.origins(cells),
            )
        )
    without = [
        Record(
            {
                "target": one.stack.name,
                "first": one.first,
                "second": one.second,
                "verdict": one.verdict,
                "with": said(one.context) if one.context else None,
                "reason": one.reason or None,
            },
            one.stack.origins({}),
        )
        for one in ordered
        if one.design is None
    ]
    few = [column for column in columns if column.key not in ("together", "better", "rows")]
    return [
        Table("pairs", "pairs of mechanisms: g = t(A) t(B) / (t(0) t(AB))", columns, records),
        Table("unmeasured_pairs", "pairs of mechanisms that cannot be compared", few, without),
    ]


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
