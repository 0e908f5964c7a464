"""Loads on servers, and their points."""

import sqlalchemy as sa
from alembic import op

from aiperf_analysis.store.tables import BYTES, FLAG, REAL, TEXT, WHOLE

revision = "3"
down_revision = "2"

LIMITS = ("limit_ttft_s", "limit_tpot_s", "limit_e2e_s", "limit_gap_s")
FIGURES = (
    "lateness_p99_s",
    "lateness_limit_s",
    "good_tokens_per_s",
    "input_tokens_per_s",
    "output_tokens_per_s",
    "in_flight",
    "residence_s",
    "queued_p99_s",
)
ESTIMATES = (
    "goodput_per_s",
    "goodput_share",
    "user_tokens_per_s",
    *(
        f"{latency}_{share}"
        for latency in ("ttft_s", "itl_s", "tpot_s", "e2e_s")
        for share in ("p50", "p90", "p95", "p99", "p999")
    ),
)


def upgrade() -> None:
    """Make both tables. Loads of bundles that were added before come with `aiperf db add`."""
    op.create_table(
        "load",
        sa.Column("id", WHOLE, primary_key=True),
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("complete", FLAG, nullable=False),
        sa.Column("met", REAL),
        *_estimates(("capacity_per_s", "knee_per_s")),
        sa.Column("data", BYTES, nullable=False),
        sa.UniqueConstraint("bundle", "name", name="load_of_bundle"),
        sqlite_strict=True,
    )
    op.create_table(
        "load_point",
        sa.Column("load", WHOLE, sa.ForeignKey("load.id"), primary_key=True),
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
        sa.Column("created_s", REAL, nullable=False),
        sa.Column("started", TEXT, nullable=False),
        sa.Column("complete", FLAG, nullable=False),
        sa.Column("trusted", FLAG, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("reasons", TEXT),
        sa.Column("url", TEXT, nullable=False),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("arrivals", TEXT, nullable=False),
        sa.Column("rate_per_s", REAL),
        sa.Column("burstiness", REAL),
        sa.Column("clients", WHOLE),
        sa.Column("input_low", WHOLE, nullable=False),
        sa.Column("input_high", WHOLE, nullable=False),
        sa.Column("output_low", WHOLE, nullable=False),
        sa.Column("output_high", WHOLE, nullable=False),
        *(sa.Column(name, REAL) for name in LIMITS),
        sa.Column("requests", WHOLE, nullable=False),
        sa.Column("outcomes", TEXT, nullable=False),
        sa.Column("counted", WHOLE, nullable=False),
        sa.Column("counted_outcomes", TEXT, nullable=False),
        sa.Column("offered_per_s", REAL, nullable=False),
        *(sa.Column(name, REAL) for name in FIGURES),
        *_estimates(ESTIMATES),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("load_point_by_bundle", "load_point", ["bundle"])


def _estimates(names: tuple[str, ...]) -> list["sa.Column[object]"]:
    return [sa.Column(f"{name}{end}", REAL) for name in names for end in ("", "_low", "_high")]
