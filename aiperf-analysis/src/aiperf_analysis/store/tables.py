"""The tables of a store. `database.VERSION` changes with them.

Times of day are seconds since 1970 (`created_s`). All figures are in SI units, as in a bundle. Text is compared byte by
byte on every engine, so that SQLite and PostgreSQL give rows in the same order.
"""

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from aiperf_calc.load_documents import LATENCIES, PERCENTILES
from aiperf_core.report.metrics import STORED, SUMMARY, Metric

METADATA = sa.MetaData()

# A STRICT table of SQLite knows the types INTEGER, REAL, TEXT and BLOB only.
TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
REAL: "sa.Double[float]" = sa.Double().with_variant(sa.REAL(), "sqlite")
WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLAG = sa.Boolean().with_variant(sa.Integer(), "sqlite")
BYTES = sa.LargeBinary()

ENDS = ("", "_low", "_high")  # of an interval
# Work of a target, as its problem declares it.
WORK = ("bytes_read", "bytes_written", "flops", "tokens", "wire_bytes")
# Of a point of a load, under the names of their fields: figures, those with an interval, and percentiles of latencies,
# such as `ttft_s_p999`.
LOAD_FIGURES = (
    "good_tokens_per_s",
    "input_tokens_per_s",
    "output_tokens_per_s",
    "in_flight",
    "residence_s",
    "queued_p99_s",
)
LOAD_ESTIMATES = ("goodput_per_s", "goodput_share", "user_tokens_per_s")
LOAD_PERCENTILES = {f"{name}_{share.replace('.', '')}": (name, share) for name in LATENCIES for share in PERCENTILES}


HAS_REASON = sa.text("reason IS NOT NULL")


def _table(name: str, *items: "sa.Column[object] | sa.Constraint | sa.Index", rowid: bool = True) -> sa.Table:
    return sa.Table(name, METADATA, *items, sqlite_strict=True, sqlite_with_rowid=rowid)


def _figures(names: Iterable[str]) -> list["sa.Column[object]"]:
    return [sa.Column(name, REAL) for name in names]


def _estimates(names: Iterable[str]) -> list["sa.Column[object]"]:
    return _figures(f"{name}{end}" for name in names for end in ENDS)


def columns_of(metrics: Iterable[Metric]) -> list[str]:
    """The columns of metrics in the table `row`: each has its figure, and the ends of its interval if it has one."""
    return [f"{one.key}{end}" for one in metrics for end in (ENDS if one.has_interval else ENDS[:1])]


machine = _table(
    "machine",
    sa.Column("id", TEXT, primary_key=True),  # SHA-256 of the columns below
    sa.Column("hostname", TEXT, nullable=False),
    sa.Column("system", TEXT, nullable=False),
    sa.Column("cpu", TEXT, nullable=False),
    sa.Column("cores", WHOLE, nullable=False),
    sa.Column("memory_bytes", REAL),
    sa.Column("gpus", TEXT, nullable=False),  # JSON
    sa.Column("driver", TEXT),
    sa.Column("hypervisor", TEXT),
)

software = _table(
    "software",
    sa.Column("id", TEXT, primary_key=True),  # SHA-256 of the columns below
    sa.Column("aiperf", TEXT, nullable=False),
    sa.Column("python", TEXT, nullable=False),
    sa.Column("packages", TEXT, nullable=False),  # JSON: versions by name
)

bundle = _table(
    "bundle",
    sa.Column("number", WHOLE, primary_key=True),  # within this store
    sa.Column("id", TEXT, nullable=False, unique=True),  # the seal
    sa.Column("name", TEXT, nullable=False),  # of its folder
    sa.Column("path", TEXT, nullable=False),  # of its folder
    sa.Column("created", TEXT, nullable=False),  # as the manifest has it
    sa.Column("created_s", REAL, nullable=False),
    sa.Column("ingested_s", REAL, nullable=False),
    sa.Column("complete", FLAG, nullable=False),
    sa.Column("exit_code", WHOLE),
    sa.Column("git", TEXT),
    sa.Column("commit_time", TEXT),
    sa.Column("tier", TEXT),
    sa.Column("policy", TEXT),
    sa.Column("schema_version", WHOLE, nullable=False),
    sa.Column("machine", TEXT, sa.ForeignKey("machine.id"), nullable=False),
    sa.Column("software", TEXT, sa.ForeignKey("software.id"), nullable=False),
    sa.Column("targets", WHOLE, nullable=False),  # how many
    sa.Column("rows", WHOLE, nullable=False),
    sa.Index("bundle_by_time", "created_s"),
)

# Of bundles whose folder is not at hand: their files, samples and logs excluded.
file = _table(
    "file",
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
    sa.Column("path", TEXT, primary_key=True),  # within the bundle
    sa.Column("data", BYTES, nullable=False),  # its bytes, compressed by zlib
)

label = _table(
    "label",
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
    sa.Column("name", TEXT, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
    sa.Index("label_by_value", "name", "value"),
)

target = _table(
    "target",
    sa.Column("id", WHOLE, primary_key=True),
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("device", TEXT, nullable=False),
    sa.Column("hardware", TEXT, nullable=False),  # the kind of machine
    sa.Column("params", TEXT, nullable=False),  # JSON: sorted pairs
    sa.Column("params_hash", TEXT, nullable=False),
    sa.Column("goal", TEXT, nullable=False),
    sa.Column("clock", TEXT, nullable=False),
    sa.Column("cache", TEXT, nullable=False),
    sa.Column("precision", TEXT, nullable=False),
    sa.Column("size", TEXT, nullable=False),
    *_figures(WORK),
    sa.Column("world_size", WHOLE, nullable=False),
    sa.Column("nodes", WHOLE, nullable=False),
    sa.Column("floor", REAL, nullable=False),
    sa.Column("tier", TEXT, nullable=False),
    sa.Column("rounds", WHOLE, nullable=False),
    sa.Column("complete", FLAG, nullable=False),
    sa.Column("no_gain", TEXT),
    sa.Column("created_s", REAL, nullable=False),  # of the bundle
    sa.UniqueConstraint("bundle", "name", name="target_of_bundle"),
)

# What rows must have in common to be pooled: a `SeriesKey`.
series = _table(
    "series",
    sa.Column("id", WHOLE, primary_key=True),
    sa.Column("digest", TEXT, nullable=False, unique=True),
    sa.Column("target", TEXT, nullable=False),
    sa.Column("implementation", TEXT, nullable=False),
    sa.Column("hardware", TEXT, nullable=False),
    sa.Column("device", TEXT, nullable=False),
    sa.Column("params_hash", TEXT, nullable=False),
    sa.Column("params", TEXT, nullable=False),
    sa.Column("clock", TEXT, nullable=False),
    sa.Column("cache", TEXT, nullable=False),
    sa.Column("precision", TEXT, nullable=False),
    sa.Column("texts", TEXT, nullable=False),  # in small letters, for searches
    sa.Index("series_by_target", "target", "implementation", "hardware", "device", "params_hash"),
)

# A row is stored beside the others of its target, and found by its series in the order of time.
row = _table(
    "row",
    sa.Column("target", WHOLE, sa.ForeignKey("target.id"), primary_key=True),
    sa.Column("name", TEXT, primary_key=True),
    sa.Column("position", WHOLE, nullable=False),
    sa.Column("series", WHOLE, sa.ForeignKey("series.id"), nullable=False),
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
    sa.Column("created_s", REAL, nullable=False),  # of the bundle
    sa.Column("role", TEXT, nullable=False),
    sa.Column("kind", TEXT),
    sa.Column("verdict", TEXT, nullable=False),
    sa.Column("reason", TEXT),
    sa.Column("builds_on", TEXT),
    sa.Column("mechanisms", TEXT),  # JSON; null for none
    sa.Column("source", TEXT),  # SHA-256 of the target's module
    *_figures(columns_of(STORED.values())),
    sa.Column("missing", TEXT),  # JSON: why a believed row lacks figures of summaries; null for none
    sa.Column("bound", TEXT),
    sa.Column("quality_metric", TEXT),
    sa.Column("quality", REAL),
    sa.Column("beside", TEXT),  # JSON: latencies and other figures by name; null for none
    # The summary stands in the index, so that a series is read from neighbouring pages.
    sa.Index("row_by_series", "series", "created_s", "bundle", "verdict", *columns_of(SUMMARY)),
    sa.Index("row_by_reason", "reason", sqlite_where=HAS_REASON, postgresql_where=HAS_REASON),
    rowid=False,
)

finding = _table(
    "finding",
    sa.Column("target", WHOLE, sa.ForeignKey("target.id"), primary_key=True),
    sa.Column("row", TEXT, primary_key=True),
    sa.Column("position", WHOLE, primary_key=True),
    sa.Column("issue", TEXT, nullable=False),
    sa.Column("severity", TEXT, nullable=False),
    rowid=False,
)

ceiling = _table(
    "ceiling",
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
    sa.Column("device", TEXT, primary_key=True),
    sa.Column("figure", TEXT, primary_key=True),  # such as `flop_per_s.bf16`
    sa.Column("value", REAL, nullable=False),
    rowid=False,
)

# The newest result of each target, device, kind of machine and size.
newest = _table(
    "newest",
    sa.Column("name", TEXT, primary_key=True),  # of the target
    sa.Column("hardware", TEXT, primary_key=True),
    sa.Column("device", TEXT, primary_key=True),
    sa.Column("params_hash", TEXT, primary_key=True),
    sa.Column("target", WHOLE, sa.ForeignKey("target.id"), nullable=False),
    sa.Column("created_s", REAL, nullable=False),
    sa.Column("bundle_name", TEXT, nullable=False),  # decides between runs that began in one second
    rowid=False,
)

# Bundles whose folder was removed. Their figures stay.
tombstone = _table(
    "tombstone",
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
    sa.Column("pruned_s", REAL, nullable=False),
    sa.Column("rule", TEXT, nullable=False),
)

# Loads on servers, of documents of kind `load`.
load = _table(
    "load",
    sa.Column("id", WHOLE, primary_key=True),
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("created", TEXT, nullable=False),  # as the document has it
    sa.Column("mode", TEXT, nullable=False),
    sa.Column("origin", TEXT, nullable=False),  # the tool that measured
    sa.Column("complete", FLAG, nullable=False),
    sa.Column("met", REAL),  # the share of good requests that the capacity keeps
    *_estimates(("capacity_per_s", "knee_per_s")),
    sa.UniqueConstraint("bundle", "name", name="load_of_bundle"),
)

# Fleets, of documents of kind `fleet`. Their bundles have the label `fleet`.
fleet = _table(
    "fleet",
    sa.Column("id", WHOLE, primary_key=True),
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("created", TEXT, nullable=False),  # as the document has it
    sa.Column("label", TEXT, nullable=False),  # of its bundles
    sa.Column("engine", TEXT, nullable=False),
    sa.Column("state", TEXT, nullable=False),
    sa.Column("tasks", WHOLE, nullable=False),
    sa.Column("bundles", WHOLE, nullable=False),  # of the tasks
    sa.Column("slow", TEXT, nullable=False),  # JSON: the names of the slow machines
    sa.UniqueConstraint("bundle", "name", name="fleet_of_bundle"),
)

# Results of other tools, one for each file.
foreign_result = _table(
    "foreign_result",
    sa.Column("id", TEXT, primary_key=True),  # SHA-256 of the file
    sa.Column("tool", TEXT, nullable=False),
    sa.Column("version", TEXT, nullable=False),  # of the tool; empty where the file does not say
    sa.Column("path", TEXT, nullable=False),
    sa.Column("created", TEXT, nullable=False),
    sa.Column("created_s", REAL, nullable=False),
    sa.Column("ingested_s", REAL, nullable=False),
    sa.Column("git", TEXT, nullable=False),
    sa.Column("machine", TEXT, nullable=False),
    sa.Column("skipped", TEXT, nullable=False),  # JSON: reasons by name
)

foreign_figure = _table(
    "foreign_figure",
    sa.Column("result", TEXT, sa.ForeignKey("foreign_result.id"), primary_key=True),
    sa.Column("position", WHOLE, primary_key=True),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("quantity", TEXT, nullable=False),
    sa.Column("unit", TEXT, nullable=False),
    sa.Column("statistics", TEXT, nullable=False),  # JSON: values by name, as the tool wrote them
    sa.Column("samples", TEXT, nullable=False),  # JSON
    rowid=False,
)

load_point = _table(
    "load_point",
    sa.Column("load", WHOLE, sa.ForeignKey("load.id"), primary_key=True),
    sa.Column("name", TEXT, primary_key=True),
    sa.Column("position", WHOLE, nullable=False),
    sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
    sa.Column("created_s", REAL, nullable=False),  # of the bundle
    sa.Column("started", TEXT, nullable=False),
    sa.Column("complete", FLAG, nullable=False),
    sa.Column("trusted", FLAG, nullable=False),
    sa.Column("state", TEXT, nullable=False),
    sa.Column("reasons", TEXT),  # JSON; null for none
    sa.Column("url", TEXT, nullable=False),
    sa.Column("endpoint", TEXT, nullable=False),
    sa.Column("model", TEXT, nullable=False),
    sa.Column("arrivals", TEXT, nullable=False),
    sa.Column("rate_per_s", REAL),
    sa.Column("burstiness", REAL),
    sa.Column("clients", WHOLE),
    sa.Column("input_low", WHOLE, nullable=False),  # tokens of a prompt, from the fewest to the most
    sa.Column("input_high", WHOLE, nullable=False),
    sa.Column("output_low", WHOLE, nullable=False),
    sa.Column("output_high", WHOLE, nullable=False),
    *_figures(("limit_ttft_s", "limit_tpot_s", "limit_e2e_s", "limit_gap_s")),
    sa.Column("requests", WHOLE, nullable=False),
    sa.Column("outcomes", TEXT, nullable=False),  # JSON: the number of each kind of end; adds up to `requests`
    sa.Column("counted", WHOLE, nullable=False),
    sa.Column("counted_outcomes", TEXT, nullable=False),
    sa.Column("offered_per_s", REAL, nullable=False),
    *_figures(("lateness_p99_s", "lateness_limit_s")),
    *_figures(LOAD_FIGURES),
    *_estimates(LOAD_ESTIMATES),
    *_estimates(LOAD_PERCENTILES),
    sa.Index("load_point_by_bundle", "bundle"),
    rowid=False,
)
