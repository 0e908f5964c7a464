"""The first tables."""

import sqlalchemy as sa
from alembic import op

from aiperf_analysis.store.tables import BYTES, FLAG, REAL, TEXT, WHOLE

revision = "1"
down_revision = None

ESTIMATES = ("time_s", "wall_s", "speedup", "step_speedup", "isolated_s")
FIGURES = ("memory_gain", "bytes_per_s", "flop_per_s", "wire_bytes_per_s", "disk_bytes_per_s", "prepare_s")
POINT = (
    "verdict",
    *(f"{name}{end}" for name in ("time_s", "speedup") for end in ("", "_low", "_high")),
    "memory_gain",
    "peak_bytes",
    "joules",
)
WORK = ("bytes_read", "bytes_written", "flops", "tokens", "wire_bytes")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "machine",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("hostname", TEXT, nullable=False),
        sa.Column("system", TEXT, nullable=False),
        sa.Column("cpu", TEXT, nullable=False),
        sa.Column("cores", WHOLE, nullable=False),
        sa.Column("memory_bytes", REAL),
        sa.Column("gpus", TEXT, nullable=False),
        sa.Column("driver", TEXT),
        sa.Column("hypervisor", TEXT),
        sqlite_strict=True,
    )
    op.create_table(
        "software",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("aiperf", TEXT, nullable=False),
        sa.Column("python", TEXT, nullable=False),
        sa.Column("packages", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "bundle",
        sa.Column("number", WHOLE, primary_key=True),
        sa.Column("id", TEXT, nullable=False, unique=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("created", TEXT, nullable=False),
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
        sa.Column("targets", WHOLE, nullable=False),
        sa.Column("rows", WHOLE, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("bundle_by_time", "bundle", ["created_s"])
    op.create_table(
        "manifest",
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
        sa.Column("data", BYTES, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "label",
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("value", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("label_by_value", "label", ["name", "value"])
    op.create_table(
        "target",
        sa.Column("id", WHOLE, primary_key=True),
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("device", TEXT, nullable=False),
        sa.Column("hardware", TEXT, nullable=False),
        sa.Column("params", TEXT, nullable=False),
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
        sa.Column("created_s", REAL, nullable=False),
        sa.UniqueConstraint("bundle", "name", name="target_of_bundle"),
        sqlite_strict=True,
    )
    op.create_table(
        "document",
        sa.Column("target", WHOLE, sa.ForeignKey("target.id"), primary_key=True),
        sa.Column("data", BYTES, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
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
        sqlite_strict=True,
    )
    op.create_index("series_by_target", "series", ["target", "implementation", "hardware", "device", "params_hash"])
    op.create_table(
        "row",
        sa.Column("target", WHOLE, sa.ForeignKey("target.id"), primary_key=True),
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("series", WHOLE, sa.ForeignKey("series.id"), nullable=False),
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
        sa.Column("created_s", REAL, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("kind", TEXT),
        sa.Column("verdict", TEXT, nullable=False),
        sa.Column("reason", TEXT),
        sa.Column("builds_on", TEXT),
        sa.Column("mechanisms", TEXT),
        sa.Column("source", TEXT),
        *_figures(tuple(f"{name}{end}" for name in ESTIMATES for end in ("", "_low", "_high"))),
        *_figures(FIGURES),
        sa.Column("bound", TEXT),
        sa.Column("light_fraction", REAL),
        sa.Column("peak_bytes", REAL),
        sa.Column("joules", REAL),
        sa.Column("net_joules", REAL),
        sa.Column("quality_metric", TEXT),
        sa.Column("quality", REAL),
        sa.Column("beside", TEXT),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("row_by_series", "row", ["series", "created_s", "bundle", *POINT])
    op.create_table(
        "finding",
        sa.Column("target", WHOLE, sa.ForeignKey("target.id"), primary_key=True),
        sa.Column("row", TEXT, primary_key=True),
        sa.Column("position", WHOLE, primary_key=True),
        sa.Column("issue", TEXT, nullable=False),
        sa.Column("severity", TEXT, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ceiling",
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), primary_key=True),
        sa.Column("device", TEXT, primary_key=True),
        sa.Column("figure", TEXT, primary_key=True),
        sa.Column("value", REAL, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sketch",
        sa.Column("target", WHOLE, sa.ForeignKey("target.id"), primary_key=True),
        sa.Column("row", TEXT, primary_key=True),
        sa.Column("samples", WHOLE, nullable=False),
        sa.Column("data", BYTES, nullable=False),
        sqlite_strict=True,
    )


def _figures(names: tuple[str, ...]) -> list["sa.Column[object]"]:
    return [sa.Column(name, REAL) for name in names]
