"""Fleets of machines."""

import sqlalchemy as sa
from alembic import op

from aiperf_analysis.store.tables import BYTES, TEXT, WHOLE

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Make the table. Fleets of bundles that were added before come with `aiperf db add`."""
    op.create_table(
        "fleet",
        sa.Column("id", WHOLE, primary_key=True),
        sa.Column("bundle", WHOLE, sa.ForeignKey("bundle.number"), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created", TEXT, nullable=False),
        sa.Column("label", TEXT, nullable=False),
        sa.Column("engine", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("tasks", WHOLE, nullable=False),
        sa.Column("bundles", WHOLE, nullable=False),
        sa.Column("slow", TEXT, nullable=False),
        sa.Column("data", BYTES, nullable=False),
        sa.UniqueConstraint("bundle", "name", name="fleet_of_bundle"),
        sqlite_strict=True,
    )
